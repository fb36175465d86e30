"""In which order do kernels read weights? Packed once, when a network is compiled.

Weights come as ONNX has them, (out, in / groups, height, width), in any memory order. Output
channels lie in panels of sixteen, filled up with zeros: that is what every instruction set can read.
"""

from __future__ import annotations

import numpy as np

from csdfgen.backends.native.structures import PANEL
from csdfgen.program.instructions import kept, reserved

__all__ = [
    "aligned",
    "byte_panels",
    "byte_weights",
    "conv_bias",
    "conv_weights",
    "conv_weights_of_pairs",
    "depthwise_bias",
    "depthwise_byte_weights",
    "depthwise_weights",
    "dot_weights",
    "gemm_weights",
    "pace_of",
    "winograd_byte_weights",
    "winograd_row_weights",
    "winograd_weights",
]


FOUR = 4
"""Products of bytes that are added up at a time; outputs whose products of float16 are."""


def _aligned(array: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """A copy in a type that starts at a multiple of 64 bytes: no vector of it crosses a line of
    cache.
    """
    packed = reserved(np.shape(array), dtype)
    packed[...] = array
    return packed


aligned = kept(_aligned)


def _panels(array: np.ndarray, dtype: str) -> np.ndarray:
    """(..., out) as (panels, ..., 16).

    One panel at a time: what is read of an array in another order stays near until all of it was.
    """
    *outer, out = array.shape
    packed = reserved((-(-out // PANEL), *outer, PANEL), dtype)
    for panel, start in zip(packed, range(0, out, PANEL), strict=True):
        count = min(PANEL, out - start)
        panel[..., :count] = array[..., start : start + count]
        panel[..., count:] = 0
    return packed


@kept
def conv_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in, h, w) as (groups, panels, h, w, in, 16), for `csdf_conv`."""
    out, ins, high, wide = weights.shape
    each = out // groups
    packed = reserved((groups, -(-each // PANEL), high, wide, ins, PANEL))
    for group, own in zip(packed, weights.reshape(groups, each, ins, high, wide), strict=True):
        for panel, start in zip(group, range(0, each, PANEL), strict=True):
            some = own[start : start + PANEL]
            panel[..., : len(some)] = some.transpose(2, 3, 1, 0)
            panel[..., len(some) :] = 0
    return packed


@kept
def conv_weights_of_pairs(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in, h, w) for `csdf_conv_bf16` or `csdf_conv_f16`; -0 is behind an odd number of channels, which changes no sum,
    whatever its sign.

    bfloat16: (groups, panels, h, w, pairs of in, 16) uint32, the first of a pair is the upper half. float16: (groups, panels, h,
    w, pairs of in, fours of out, 2, 4) uint16.
    """
    out, ins, high, wide = weights.shape
    each, pairs = out // groups, -(-ins // 2)
    bits = np.zeros((groups, each + -each % PANEL, 2 * pairs, high, wide), np.uint16)
    bits[:, :, ins:] = 0x8000
    bits[:, :each, :ins] = weights.view(np.uint16).reshape(groups, each, ins, high, wide)
    if weights.dtype == np.float16:
        fours = bits.reshape(groups, -1, PANEL // FOUR, FOUR, pairs, 2, high, wide)
        return _aligned(fours.transpose(0, 1, 6, 7, 4, 2, 5, 3), "uint16")
    words = bits[:, :, ::2].astype(np.uint32) << 16 | bits[:, :, 1::2]
    return _aligned(
        words.reshape(groups, -1, PANEL, *words.shape[2:]).transpose(0, 1, 4, 5, 3, 2), "uint32"
    )


@kept
def dot_weights(weights: np.ndarray) -> np.ndarray:
    """(out, in, h, w) as (out, h, w, in), for `csdf_conv_dots`."""
    return _aligned(np.transpose(weights, (0, 2, 3, 1)))


@kept
def conv_bias(bias: np.ndarray | None, out: int, groups: int = 1) -> np.ndarray:
    """(out,) as (groups, panels, 16); zeros for None."""
    values = np.zeros(out, np.float32) if bias is None else bias
    each = out // groups
    packed = np.zeros((groups, each + -each % PANEL), np.float32)
    packed[:, :each] = values.reshape(groups, each)
    return _aligned(packed.reshape(groups, -1, PANEL))


@kept
def depthwise_weights(weights: np.ndarray) -> np.ndarray:
    """(out, 1, h, w) as (h, w, out), for `csdf_depthwise`."""
    return _aligned(np.transpose(weights[:, 0], (1, 2, 0)))


@kept
def depthwise_bias(bias: np.ndarray | None, out: int) -> np.ndarray:
    """(out,), zeros for None."""
    return _aligned(np.zeros(out, np.float32) if bias is None else bias)


def _gemm_weights(weights: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """(inputs..., outputs) as (panels, inputs..., 16), for `csdf_gemm`; dtype: "uint16" for the bits of halves."""
    return _panels(weights, dtype)


gemm_weights = kept(_gemm_weights, axis=-1)


# Weights of a byte -------------------------------------------------------------------------------

_DENSE = 256
"""Terms of a sum up to which channels of a tap are not filled up to whole fours."""


def pace_of(inputs: int, taps: int) -> int:
    """Weights of an output from a tap to the next, for `csdf_conv_bytes`.

    >>> pace_of(3, 9), pace_of(37, 9), pace_of(37, 1)
    (3, 40, 37)
    """
    whole = inputs % FOUR == 0 or taps == 1 or inputs * taps <= _DENSE
    return inputs if whole else inputs + -inputs % FOUR


@kept
def byte_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in / groups, h, w) int8 as (groups, panels, fours, 16, 4), for `csdf_conv_bytes`."""
    out, ins, high, wide = weights.shape
    each, pace = out // groups, pace_of(ins, high * wide)
    fours = -(-high * wide * pace // FOUR)
    terms = np.zeros((groups, each + -each % PANEL, fours * FOUR), np.int8)
    by_tap = terms[:, :each, : high * wide * pace].reshape(groups, each, high * wide, pace)
    by_tap[..., :ins] = weights.reshape(groups, each, ins, -1).swapaxes(2, 3)
    terms[:, :each, : high * wide * pace] = by_tap.reshape(groups, each, -1)
    return _aligned(terms.reshape(groups, -1, PANEL, fours, FOUR).swapaxes(2, 3), "int8")


@kept
def depthwise_byte_weights(weights: np.ndarray) -> np.ndarray:
    """(out, 1, h, w) int8 as (w, pairs of h, out, 2), for `csdf_depthwise_bytes`; out filled up to whole panels."""
    out, _, high, wide = weights.shape
    pairs = -(-high // 2)
    packed = np.zeros((wide, 2 * pairs, out + -out % PANEL), np.int8)
    packed[:, :high, :out] = weights[:, 0].transpose(2, 1, 0)
    return _aligned(packed.reshape(wide, pairs, 2, -1).swapaxes(2, 3), "int8")


@kept
def winograd_byte_weights(weights: np.ndarray) -> np.ndarray:
    """(out, in, 3, 3) int8 as (panels, 16 points, pairs of in, 16, 2) int16 for `csdf_byte_winograd`: G w G' with a G that is
    twice the usual one, integers up to 9 times the weights.
    """
    out, ins, *_ = weights.shape
    side = (2 * np.array(_SIDES[2])).astype(np.int16)
    points = np.einsum("ai,bj,ocij->oabc", side, side, weights.astype(np.int16))
    packed = np.zeros((out + -out % PANEL, 16, ins + ins % 2), np.int16)
    packed[:out, :, :ins] = points.reshape(out, 16, ins)
    pairs = packed.reshape(-1, PANEL, 16, packed.shape[2] // 2, 2)
    return _aligned(pairs.transpose(0, 2, 3, 1, 4), "int16")


@kept
def byte_panels(values: np.ndarray, groups: int = 1, dtype: str = "int32") -> np.ndarray:
    """(..., out) as (..., groups, panels, 16), filled up with zeros."""
    *outer, out = values.shape
    each = out // groups
    packed = np.zeros((*outer, groups, each + -each % PANEL), dtype)
    packed[..., :each] = values.reshape(*outer, groups, each)
    return _aligned(packed.reshape(*outer, groups, -1, PANEL), dtype)


_SIDES = {2: ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))}
"""Rows of a tile -> the matrix G that takes three taps to tile + 2 points (Lavin and Gray, 2015); of
four and more it is `_six`.
"""

_SCALES = (1 / 4, -1 / 6, -1 / 6, 1 / 24, 1 / 24)
_POINTS = (0, 1, -1, 2, -2)
_BLOCK = 64
"""Output channels whose sums the kernels have at a time."""


def _six(taps: int) -> np.ndarray:
    """The matrix that takes taps to six points."""
    rows = [
        [scale * point**k for k in range(taps)]
        for scale, point in zip(_SCALES, _POINTS, strict=True)
    ]
    return np.array([*rows, [float(k == taps - 1) for k in range(taps)]])


@kept
def winograd_weights(weights: np.ndarray, tile: int) -> np.ndarray:
    """(out, in, 3, 3) for `csdf_winograd` with tiles of 2 or 4 rows, G w G' rounded once: blocks of up to
    64 outputs, ((tile + 2) * 6, panels, in, 16) each.
    """
    down = np.array(_SIDES[tile]) if tile in _SIDES else _six(3)
    both = np.einsum("ai,bj->abij", down, _six(3)).reshape(-1, 9)
    return _at_points(weights.reshape(1, len(weights), -1, 9), both)


@kept
def winograd_row_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in / groups, h, w) for `csdf_winograd_row`, w from 2 to 5, rounded once: of each group
    blocks of up to 64 outputs, (6, panels, h, in / groups, 16) each.
    """
    out, ins, high, wide = weights.shape
    # (out, h, in, w): rows of the kernel and inputs are one axis
    rows = weights.transpose(0, 2, 1, 3).reshape(groups, out // groups, high * ins, wide)
    return _at_points(rows, _six(wide))


def _at_points(taps: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(groups, out, summed, taps) and (points, taps) as blocks of outputs of every group one after the
    other, (points, panels, summed, 16) each.
    """
    groups, out, summed, _ = taps.shape
    size = len(points)
    found = reserved((groups * size * (out + -out % PANEL) * summed,))
    start = 0
    for group in taps:
        for first in range(0, out, _BLOCK):
            some = group[first : first + _BLOCK].astype(np.float64)
            values = np.zeros((size, len(some) + -len(some) % PANEL, summed), np.float32)
            values[:, : len(some)] = (points @ some.reshape(-1, some.shape[-1]).T).reshape(
                size, len(some), summed
            )
            block = found[start : start + values.size].reshape(size, -1, summed, PANEL)
            block[...] = values.reshape(size, -1, PANEL, summed).swapaxes(2, 3)
            start += values.size
    return found
