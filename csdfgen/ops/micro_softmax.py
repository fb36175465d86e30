"""Softmax of integers of 16 bits as TensorFlow Lite Micro computes it: powers and the reciprocal of their sum by lines between
the entries of tables.

Sources: SoftmaxInt16 in tensorflow/lite/kernels/internal/reference/softmax.h, LUTPopulateInt16 and LUTLookup in common.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from csdfgen.model.network import Layer
from csdfgen.ops.base import Call, Emit, Work
from csdfgen.ops.integers import limits, multipliers, shift_exactly
from csdfgen.ops.recording import pick, record
from csdfgen.ops.reducing import slab_dims

_RANGE = np.float32(2**16 - 1)


def softmax_integers(layer: Layer) -> Emit:
    """The kernel on stored integers."""
    assert layer.stored is not None
    x = layer.stored.read(0)
    assert x is not None and x.scale is not None
    axes = layer.attributes["axes"]
    terms = prod(layer.output.shape[axis] for axis in axes)
    dims = slab_dims(layer.output, axes)
    formula = partial(_shares, scale=np.float64(np.float32(x.scale[0])), dims=dims, terms=terms)

    def emit(work: Work) -> list[Call]:
        calls, found = record(lambda given: formula(*given), [work.slab], work.scratch)
        return [*calls, (np.copyto, (work.result, found, "unsafe"))]

    return emit


def _shares(values: Any, scale: np.float64, dims: Sequence[int], terms: int) -> Any:
    along: dict[str, Any] = {"axis": tuple(dims), "keepdims": True}
    below = values - np.maximum.reduce(values, **along)
    places = shift_exactly(below, multipliers(np.asarray(scale / (10.0 / 65535.0))))
    powers = _on_lines(_fit(places + np.int64(2**15 - 1)), _list_powers())
    total = np.add.reduce(powers, **along)
    bits = _count_bits(total, terms)
    near = ((total << (np.int64(31) - bits)) + np.int64(1 << 13)) >> np.int64(14)
    inverse = _on_lines(_fit(near - np.int64(2**15 + 2**16)), _list_inverses())
    half = np.int64(1) << (bits - np.int64(2))
    shares = (powers * inverse + half) >> (bits - np.int64(1))
    return np.minimum(np.maximum(shares, np.int64(0)), np.int64(2**15 - 1))


def _count_bits(total: Any, terms: int) -> Any:
    """How many bits a sum of so many powers has, of which one is the highest."""
    found = np.minimum(total >> np.int64(15), np.int64(1)) + np.int64(15)
    for k in range(16, (terms * 2**15).bit_length()):
        found = found + np.minimum(total >> np.int64(k), np.int64(1))
    return found


def _fit(values: Any) -> Any:
    low, high = (np.int64(end) for end in limits("int16"))
    return np.minimum(np.maximum(values, low), high)


def _on_lines(values: Any, table: np.ndarray) -> Any:
    at = (values >> np.int64(7)) + np.int64(256)
    base, rest = pick(table, at), values & np.int64(127)
    slope = pick(table, at + np.int64(1)) - base
    return base + ((slope * rest + np.int64(64)) >> np.int64(7))


@lru_cache(maxsize=1)
def _list_powers() -> np.ndarray:
    return _list_entries(np.float32(10) / _RANGE, 2**15 - 1, lambda x: np.exp(x.astype(np.float64)))


@lru_cache(maxsize=1)
def _list_inverses() -> np.ndarray:
    return _list_entries(
        np.float32(1) / _RANGE, -(2**15), lambda x: np.float32(1) / (np.float32(1) + x)
    )


def _list_entries(
    scale: np.float32, zero: int, function: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """513 values of a function of integers with a scale and a zero point, in 32767ths, in float32 as there."""
    low, high = (scale * np.float32(end - zero) for end in limits("int16"))
    step = (high - low) / np.float32(512)
    ends = [np.float32(2) / _RANGE * np.float32(end) for end in limits("int16")]
    by = np.float32(2**16) / (ends[1] - ends[0])

    def rounded(x: np.ndarray) -> np.ndarray:
        return np.trunc(x + np.copysign(np.float32(0.5), x))

    at = low + np.arange(513, dtype=np.float32) * step
    at[-1] = high
    values, middles = (function(x).astype(np.float32) * by for x in (at, at + step / np.float32(2)))
    entries = rounded(values)
    lines = rounded((values[1:] + entries[:-1]) / np.float32(2))
    entries[:-1] -= rounded((lines - rounded(middles[:-1])) / np.float32(2))
    return np.clip(entries, *limits("int16")).astype(np.int64)
