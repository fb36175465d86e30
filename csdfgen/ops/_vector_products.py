"""How are vectors of several images multiplied by one matrix? Side by side, so that it is read once.

The time of one vector is that of reading the matrix, however fast the processor is: with 16 images each
takes a fifth of it. Vectors are copied side by side into a panel unless they are stored so; the elements
that are summed up and the outputs are cut at the least cost for which the workspace suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np

from csdfgen.ops._im2col import Into
from csdfgen.ops._window_products import (
    CALL,
    choose_cheapest,
    halve_repeatedly,
    make_stores,
    sum_bytes,
)
from csdfgen.ops.base import Call, Emit, Scratch, Work
from csdfgen.ops.spread import Spread, Stack

FEWEST = 3
"""Images that are worth it: OpenBLAS takes as long for a product with two vectors as for two with one, or
longer (4096 x 4096: 3.9 ms an image with one, 4.4 with two, 3.3 with three, 0.8 with sixteen).
"""

LEAST = 128
"""Elements and outputs that are not cut further."""

PRODUCT, READ = 9 * CALL, 0.7
"""What a product costs beside what it computes, and an element of the matrix, in elements copied."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """A product as far as its workspace depends on it.

    copied: whether vectors go through a panel. turned: whether the matrix has its outputs first in memory:
    then it is the left one of a product, which makes sums output by output. Measured with OpenBLAS, 3 to 49
    vectors: the matrix at the right takes 1.4 times as long there, at the left no less in any other order.
    """

    images: int
    inputs: int
    outputs: int
    itemsize: int
    copied: bool
    turned: bool


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Most inputs and outputs at a time, and elements that this takes of two arrays: panel and sums."""

    inputs: int
    outputs: int
    arrays: tuple[int, int]


@lru_cache(maxsize=1 << 10)
def _ways(shape: _Shape) -> tuple[tuple[float, int, _Blocks], ...]:
    """(cost, bytes, blocks), cheapest first."""
    found = []
    for inputs, outputs in product(
        *(halve_repeatedly(n, LEAST) for n in (shape.inputs, shape.outputs))
    ):
        parts = -(-shape.inputs // inputs)
        sums = shape.turned or parts > 1
        panel = shape.images * inputs if shape.copied else 0
        one = _Blocks(inputs, outputs, (panel, shape.images * outputs if sums else 0))
        cost = READ * shape.inputs * shape.outputs
        cost += parts * -(-shape.outputs // outputs) * (PRODUCT + (2 * CALL if sums else 0))
        cost += 2 * shape.images * shape.outputs * (parts if sums else 0)
        if shape.copied:
            cost += shape.images * (parts * CALL + shape.inputs)
        found.append((cost, sum_bytes(one.arrays, shape.itemsize), one))
    return tuple(sorted(found, key=lambda way: way[:2]))


# Kernels -----------------------------------------------------------------------------------------


def extend_to_images(
    emit: Emit,
    packed: Callable[[], np.ndarray],
    turned: bool,
    dtype: np.dtype[Any],
    bias: np.ndarray | None,
    zero: int = 0,
    into: Into | None = None,
) -> Emit:
    """A kernel that takes several images too. packed: makes the matrix (inputs, outputs); turned: whether
    that has its outputs first in memory. dtype: of the products. bias: broadcast to the outputs. zero: what is
    subtracted from integers first. into: how the products become an output of another type.
    """

    def emit_all(work: Work) -> Iterable[Call]:
        slab, (out,) = work.slab, work.results
        if work.phase.images == 1:
            return emit(work)
        assert slab is not None
        dense = out[0].flags.c_contiguous
        result = (out if dense else work.scratch.take(out.shape, out.dtype)).reshape(len(out), -1)
        made = result if into is None else work.scratch.take(result.shape, dtype)
        vectors = cast(Spread | Stack, slab)
        calls = _vector_products(vectors, packed, turned, made, bias, work.scratch, zero)
        if into is not None:
            calls += into.calls(made, result)
        return calls if dense else [*calls, (np.copyto, (out, result.reshape(out.shape)))]

    return emit_all


def is_output_major(weights: np.ndarray) -> bool:
    return weights.strides[-1] == max(weights.strides)


def _vector_products(
    vectors: Spread | Stack,
    matrix: Callable[[], np.ndarray],
    turned: bool,
    out: np.ndarray,
    bias: np.ndarray | None,
    scratch: Scratch,
    zero: int = 0,
) -> list[Call]:
    """Calls for out (images, outputs) = vectors times a matrix (inputs, outputs), plus the bias (1 or
    outputs). vectors: (images, rows, ...), of inputs in that order; of another type than the others, they are
    copied into it. matrix: makes it, when calls are wanted; turned: whether it has its outputs first in memory.
    zero: what is subtracted from integers first, as they are copied.
    """
    (images, outputs), inputs = out.shape, prod(vectors.shape[1:])
    whole = _side_by_side(vectors) if vectors.dtype == out.dtype else None
    assert whole is None or not zero, "integers, which are copied"
    shape = _Shape(images, inputs, outputs, out.itemsize, whole is None, turned)
    blocks = choose_cheapest(_ways(shape), scratch, scratch.room)
    # half of the images take as long as all
    scratch.indivisible = not scratch.at_any_price
    panel, sums = make_stores(scratch, [blocks], out.dtype)
    if scratch.declares:
        return []
    calls: list[Call] = []
    weights = matrix()
    for start in range(0, inputs, blocks.inputs):
        stop = min(inputs, start + blocks.inputs)
        if whole is None:
            left = panel.view((images, stop - start))
            calls += _copied(vectors, start, stop, left)
            if zero:
                calls.append((np.subtract, (left, out.dtype.type(zero), left)))
        else:
            left = whole[:, start:stop]
        for a in range(0, outputs, blocks.outputs):
            b = min(outputs, a + blocks.outputs)
            target, right = out[:, a:b], weights[start:stop, a:b]
            if not sums.size:
                calls.append((np.matmul, (left, right, target)))
                continue
            made = sums.view((b - a, images) if turned else (images, b - a))
            calls.append((np.matmul, (right.T, left.T, made) if turned else (left, right, made)))
            made = made.T if turned else made
            calls.append((np.add, (target, made, target)) if start else (np.copyto, (target, made)))
    return calls if bias is None else [*calls, (np.add, (out, bias, out))]


def _side_by_side(vectors: Spread | Stack) -> np.ndarray | None:
    """The vectors as a matrix (images, elements) in place; None where they are none."""
    whole = None if isinstance(vectors, Stack) else vectors.at(0, vectors.shape[0])
    if whole is None or not whole[0].flags.c_contiguous:
        return None
    return whole.reshape(len(whole), -1)


def _copied(vectors: Spread | Stack, start: int, stop: int, panel: np.ndarray) -> Iterator[Call]:
    """Calls that copy elements [start, stop) of every vector side by side."""
    if isinstance(vectors, Spread):
        whole = vectors.at(0, vectors.shape[0])
        assert whole is not None, "evenly spaced images"
        stacked = [(panel, 0, whole)]
    else:
        row = prod(vectors.shape[2:])
        stacked = [
            (panel[k : k + 1], row * first, array[None])
            for k, image in enumerate(vectors.images)
            for piece in image.pieces
            for (first, _), array in zip(piece.runs, piece.arrays, strict=True)
        ]
    for target, first, array in stacked:
        size = prod(array.shape[1:])
        low, high = max(start, first), min(stop, first + size)
        if low < high:
            for at, part in _between(array, low - first, high - first):
                own = target[:, first + at - start :][:, : prod(part.shape[1:])]
                yield np.copyto, (own.reshape(part.shape), part)


def _between(array: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
    """Elements [start, stop) of each of several arrays (first axis), in their order, as boxes: where each
    of these begins.

    >>> [(at, part.shape) for at, part in _between(np.zeros((2, 4, 5)), 3, 17)]
    [(3, (2, 2)), (5, (2, 2, 5)), (15, (2, 2))]
    """
    if array.ndim == 2:
        yield start, array[:, start:stop]
        return
    each = prod(array.shape[2:])
    first, last = -(-start // each), stop // each
    if first > last:  # inside one
        inner = _between(array[:, last], start - last * each, stop - last * each)
        yield from ((last * each + at, part) for at, part in inner)
        return
    if start < first * each:
        row = first - 1
        inner = _between(array[:, row], start - row * each, each)
        yield from ((row * each + at, part) for at, part in inner)
    if first < last:
        yield first * each, array[:, first:last]
    if last * each < stop:
        inner = _between(array[:, last], 0, stop - last * each)
        yield from ((last * each + at, part) for at, part in inner)
