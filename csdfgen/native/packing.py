"""In which order do kernels read weights? Packed once, when a network is compiled.

Weights come as ONNX has them, (out, in / groups, height, width), in any memory order. Output
channels lie in panels of sixteen, filled up with zeros: that is what every instruction set can read.
"""

from __future__ import annotations

import numpy as np

from csdfgen.native.library import PANEL

__all__ = [
    "aligned",
    "conv_bias",
    "conv_weights",
    "depthwise_bias",
    "depthwise_weights",
    "gemm_weights",
    "winograd_row_weights",
    "winograd_weights",
]

_ALIGNMENT = 64


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy in float32 that starts at a multiple of 64 bytes: no vector of it crosses a line of
    cache.
    """
    array = np.asarray(array, np.float32)
    room = np.empty(array.size + _ALIGNMENT // 4, np.float32)
    start = -room.ctypes.data % _ALIGNMENT // 4
    packed = room[start : start + array.size].reshape(array.shape)
    packed[...] = array
    return packed


def _panels(array: np.ndarray) -> np.ndarray:
    """(..., out) as (..., panels, 16)."""
    *outer, out = array.shape
    missing = -out % PANEL
    whole = np.pad(array, [(0, 0)] * len(outer) + [(0, missing)])
    return whole.reshape(*outer, -1, PANEL)


def conv_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in, h, w) as (groups, panels, h, w, in, 16), for `csdf_conv`."""
    out, ins, high, wide = weights.shape
    grouped = weights.reshape(groups, out // groups, ins, high, wide)
    packed = _panels(np.moveaxis(grouped, 1, -1))  # group, in, h, w, panel, 16
    return aligned(np.transpose(packed, (0, 4, 2, 3, 1, 5)))


def conv_bias(bias: np.ndarray | None, out: int, groups: int = 1) -> np.ndarray:
    """(out,) as (groups, panels, 16); zeros for None."""
    values = np.zeros(out, np.float32) if bias is None else bias
    return aligned(_panels(values.reshape(groups, out // groups)))


def depthwise_weights(weights: np.ndarray) -> np.ndarray:
    """(out, 1, h, w) as (h, w, out), for `csdf_depthwise`."""
    return aligned(np.transpose(weights[:, 0], (1, 2, 0)))


def depthwise_bias(bias: np.ndarray | None, out: int) -> np.ndarray:
    """(out,), zeros for None."""
    return aligned(np.zeros(out, np.float32) if bias is None else bias)


def gemm_weights(weights: np.ndarray) -> np.ndarray:
    """(inputs, outputs) as (panels, inputs, 16), for `csdf_gemm`."""
    return aligned(np.transpose(_panels(weights), (1, 0, 2)))


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


def winograd_weights(weights: np.ndarray, tile: int) -> np.ndarray:
    """(out, in, 3, 3) for `csdf_winograd` with tiles of 2 or 4 rows, G w G' rounded once: blocks of up to
    64 outputs, ((tile + 2) * 6, panels, in, 16) each.
    """
    down = np.array(_SIDES[tile]) if tile in _SIDES else _six(3)
    both = np.einsum("ai,bj->abij", down, _six(3)).reshape(-1, 9)
    out, ins = weights.shape[:2]
    return aligned(_at_points(weights.reshape(out * ins, 9), both, out, ins))


def winograd_row_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in / groups, h, w) for `csdf_winograd_row`, w from 2 to 5, rounded once: of each group
    blocks of up to 64 outputs, (6, panels, h, in / groups, 16) each.
    """
    out, ins, high, wide = weights.shape
    # (out, h, in, w): rows of the kernel and inputs are one axis
    ordered = np.ascontiguousarray(weights.transpose(0, 2, 1, 3)).reshape(groups, -1, wide)
    each = out // groups
    parts = [_at_points(one, _six(wide), each, high * ins) for one in ordered]
    return aligned(np.concatenate(parts))


def _at_points(taps: np.ndarray, points: np.ndarray, out: int, summed: int) -> np.ndarray:
    """(out * summed, taps) and (points, taps) as blocks of outputs, (points, panels, summed, 16) each."""
    size = len(points)
    found = np.empty(size * (out + -out % PANEL) * summed, np.float32)
    start = 0
    for first in range(0, out, _BLOCK):
        count = min(_BLOCK, out - first)
        some = taps[first * summed : (first + count) * summed].astype(np.float64)
        values = np.zeros((size, count + -count % PANEL, summed), np.float32)
        values[:, :count] = (points @ some.T).reshape(size, count, summed)
        panels = values.reshape(size, -1, PANEL, summed)
        block = found[start : start + values.size].reshape(size, -1, summed, PANEL)
        block[...] = panels.swapaxes(2, 3)
        start += values.size
    return found
