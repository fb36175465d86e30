"""Which elements has a constant that is stored sparsely?

Source: SparsityParameters in schema.fbs, and tensorflow/lite/kernels/internal/utils/sparsity_format_converter.cc: levels
of a tree, each of which is an axis, or the inner part of one that is cut into blocks; a dense level has all indices, a
sparse one those that are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from csdfgen.errors import ModelError

_MOST = 1000
"""Elements for each one that is stored."""

Numbers = Callable[[Any, str], np.ndarray]
"""(table, name of a vector) -> its numbers."""


def densify(
    values: np.ndarray, shape: Sequence[int], given: Any, levels: Sequence[Any], numbers: Numbers
) -> np.ndarray:
    """The array of that shape with these values at their places. levels: tables of DimensionMetadata. Raises ModelError."""
    order, blocked = numbers(given, "TraversalOrder"), numbers(given, "BlockMap")
    rank = len(shape)
    places = np.zeros((1, 0), np.int64)
    sizes = []
    for level in levels:
        if level.Format() == 0:
            size = level.DenseSize()
            parents, index = (
                np.arange(len(places) * size) // max(size, 1),
                np.tile(np.arange(size), len(places)),
            )
        else:
            segments, index = (
                _vector(level, name, numbers) for name in ("ArraySegments", "ArrayIndices")
            )
            counts = np.diff(segments)
            if (
                len(counts) != len(places)
                or counts.min(initial=0) < 0
                or counts.sum() != len(index)
            ):
                raise ModelError("is damaged: segments of its sparse elements do not fit")
            parents, size = (
                np.repeat(np.arange(len(places)), counts),
                int(index.max(initial=-1)) + 1,
            )
        if len(index) > values.size:
            raise ModelError(f"is damaged: {len(index)} places for {values.size} sparse elements")
        places = np.column_stack([places[parents], index])
        sizes.append(size)
    if sorted(order) != list(range(len(sizes))) or len(sizes) != rank + len(blocked):
        raise ModelError(f"is damaged: {len(sizes)} levels of sparse elements for {rank} axes")
    if len(places) != values.size or prod(shape) > _MOST * values.size:
        raise ModelError(f"is damaged: {values.size} sparse elements in a shape of {tuple(shape)}")
    at = np.zeros((rank, len(places)), np.int64)
    for level, axis in enumerate(order):
        if axis < rank:
            at[axis] += places[:, level] * prod(_inner(order, blocked, sizes, axis, rank))
        else:
            at[blocked[axis - rank]] += places[:, level]
    if any(
        row.max(initial=0) >= n or row.min(initial=0) < 0 for row, n in zip(at, shape, strict=True)
    ):
        raise ModelError("is damaged: a sparse element is outside of its shape")
    found = np.zeros(shape, values.dtype)
    found[tuple(at)] = values
    return found


def _inner(
    order: np.ndarray, blocked: np.ndarray, sizes: Sequence[int], axis: int, rank: int
) -> list[int]:
    """Sizes of the levels that an axis is cut into besides the outer one."""
    return [sizes[list(order).index(rank + k)] for k, outer in enumerate(blocked) if outer == axis]


def _vector(level: Any, name: str, numbers: Numbers) -> np.ndarray:
    import tflite

    table = getattr(level, name)()
    kinds = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}
    found = kinds[getattr(level, f"{name}Type")()]()
    found.Init(table.Bytes, table.Pos)
    return numbers(found, "Values").astype(np.int64)
