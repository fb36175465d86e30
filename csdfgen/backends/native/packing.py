"""In which order do kernels read weights? Packed once, when a network is compiled.

Weights come as ONNX has them, (out, in / groups, height, width), in any memory order. Output channels are in panels of
sixteen, which every instruction set can read; what is left of a group is a narrower panel. Kernels read whole vectors, so
that zeros follow the last channel of a layer, up to sixteen. Products of bytes, and weights at points, have panels that
are filled up with zeros.
"""

from __future__ import annotations

import numpy as np

from csdfgen.backends.native.structures import PANEL
from csdfgen.program.instructions import keep_packed, reserve_array

FOUR = 4
"""Products of bytes that are added up at a time; outputs whose products of float16 are."""


def _aligned(array: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """A copy in a type at a multiple of 64 bytes: no vector of it crosses a line of cache."""
    packed = reserve_array(np.shape(array), dtype)
    packed[...] = array
    return packed


aligned = keep_packed(_aligned)


def _panels(groups: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """(groups, ..., out) as one row of numbers: of every group panels, (..., 16), the last one as wide as it has outputs.

    One panel at a time: what is read of an array in another order stays near until all of it was.
    """
    out = groups.shape[-1]
    packed = reserve_array((panel_size(groups.size, out),), dtype)
    packed[groups.size :] = 0
    start = 0
    for group in groups:
        for first in range(0, out, PANEL):
            some = group[..., first : first + PANEL]
            packed[start : start + some.size].reshape(some.shape)[...] = some
            start += some.size
    return packed


def panel_size(weights: int, out: int) -> int:
    """Elements of so many weights of groups of so many outputs, with those behind them that belong to their last vector.

    >>> panel_size(40 * 9, 40), panel_size(48 * 9, 48)
    (368, 432)
    """
    return weights + -out % PANEL


@keep_packed
def conv_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in, h, w) as panels of every group, (h, w, in, 16), for `csdf_conv`."""
    out, *inner = weights.shape
    return _panels(weights.reshape(groups, out // groups, *inner).transpose(0, 3, 4, 2, 1))


@keep_packed
def pack_paired_conv_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in, h, w) for `csdf_conv_bf16` or `csdf_conv_f16`; -0 is behind an odd number of channels, which changes no sum,
    whatever its sign.

    Panels of every group, of bfloat16 (h, w, pairs of in, 16) words, of which the first of a pair is the upper half; of float16
    (h, w, pairs of in, fours of out, 2, 4) halves, fours of a group filled up.
    """
    out, ins, high, wide = weights.shape
    each, pairs, is_f16 = out // groups, -(-ins // 2), weights.dtype == np.float16
    bits = np.zeros(
        (groups, each + -each % (FOUR if is_f16 else 1), 2 * pairs, high, wide), np.uint16
    )
    bits[:, :, ins:] = 0x8000
    bits[:, :each, :ins] = weights.view(np.uint16).reshape(groups, each, ins, high, wide)
    if is_f16:
        fours = bits.reshape(groups, -1, FOUR, pairs, 2, high, wide).transpose(0, 5, 6, 3, 1, 4, 2)
        shape = groups, high, wide, pairs, -1
        return _panels(np.ascontiguousarray(fours).reshape(shape).view(np.uint32), "uint32")
    words = bits[:, :, ::2].astype(np.uint32) << 16 | bits[:, :, 1::2]
    return _panels(words.transpose(0, 3, 4, 2, 1), "uint32")


@keep_packed
def dot_weights(weights: np.ndarray) -> np.ndarray:
    """(out, in, h, w) as (out, h, w, in), for `csdf_conv_dots`."""
    return _aligned(np.transpose(weights, (0, 2, 3, 1)))


@keep_packed
def conv_bias(bias: np.ndarray | None, out: int, groups: int = 1) -> np.ndarray:
    """(out,), zeros for None, and what the last vector reads behind it."""
    packed = np.zeros(panel_size(out, out // groups), np.float32)
    if bias is not None:
        packed[:out] = bias
    return _aligned(packed)


@keep_packed
def depthwise_weights(weights: np.ndarray) -> np.ndarray:
    """(out, 1, h, w) as floats (h, w, out), for `csdf_depthwise`."""
    return _aligned(np.transpose(weights[:, 0], (1, 2, 0)))


@keep_packed
def depthwise_bias(bias: np.ndarray | None, out: int) -> np.ndarray:
    """(out,), zeros for None."""
    return _aligned(np.zeros(out, np.float32) if bias is None else bias)


def _gemm_weights(weights: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """(inputs..., outputs) as panels, (inputs..., 16), for `csdf_gemm`; dtype: "uint16" for the bits of halves."""
    return _panels(weights[None], dtype)


gemm_weights = keep_packed(_gemm_weights, axis=-1)


# Weights of a byte -------------------------------------------------------------------------------

_DENSE = 256
"""Terms of a sum up to which channels of a tap are not filled up to whole fours."""


def tap_stride(inputs: int, taps: int) -> int:
    """Weights of an output from a tap to the next, for `csdf_conv_bytes`.

    >>> tap_stride(3, 9), tap_stride(37, 9), tap_stride(37, 1)
    (3, 40, 37)
    """
    whole = inputs % FOUR == 0 or taps == 1 or inputs * taps <= _DENSE
    return inputs if whole else inputs + -inputs % FOUR


@keep_packed
def byte_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in / groups, h, w) int8 as (groups, panels, fours, 16, 4), for `csdf_conv_bytes`."""
    out, ins, high, wide = weights.shape
    each, pace = out // groups, tap_stride(ins, high * wide)
    fours = -(-high * wide * pace // FOUR)
    terms = np.zeros((groups, each + -each % PANEL, fours * FOUR), np.int8)
    by_tap = terms[:, :each, : high * wide * pace].reshape(groups, each, high * wide, pace)
    by_tap[..., :ins] = weights.reshape(groups, each, ins, -1).swapaxes(2, 3)
    terms[:, :each, : high * wide * pace] = by_tap.reshape(groups, each, -1)
    return _aligned(terms.reshape(groups, -1, PANEL, fours, FOUR).swapaxes(2, 3), "int8")


@keep_packed
def depthwise_byte_weights(weights: np.ndarray) -> np.ndarray:
    """(out, 1, h, w) int8 as (w, pairs of h, out, 2), for `csdf_depthwise_bytes`; out filled up to whole panels."""
    out, _, high, wide = weights.shape
    pairs = -(-high // 2)
    packed = np.zeros((wide, 2 * pairs, out + -out % PANEL), np.int8)
    packed[:, :high, :out] = weights[:, 0].transpose(2, 1, 0)
    return _aligned(packed.reshape(wide, pairs, 2, -1).swapaxes(2, 3), "int8")


@keep_packed
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


@keep_packed
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


@keep_packed
def winograd_weights(weights: np.ndarray, tile: int) -> np.ndarray:
    """(out, in, 3, 3) for `csdf_winograd` with tiles of 2 or 4 rows, G w G' rounded once: blocks of up to
    64 outputs, ((tile + 2) * 6, panels, in, 16) each.
    """
    down = np.array(_SIDES[tile]) if tile in _SIDES else _six(3)
    both = np.einsum("ai,bj->abij", down, _six(3)).reshape(-1, 9)
    return _at_points(weights.reshape(1, len(weights), -1, 9), both)


@keep_packed
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
    found = reserve_array((groups * size * (out + -out % PANEL) * summed,))
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
