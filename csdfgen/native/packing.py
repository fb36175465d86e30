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


_FILTERS = {
    2: ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
"""Tile -> the matrix G that takes three taps to tile + 2 points (Lavin and Gray, 2015)."""


def winograd_weights(weights: np.ndarray, tile: int) -> np.ndarray:
    """(out, in, 3, 3) as (panels, (tile + 2)^2, in, 16), for `csdf_winograd`: G w G', rounded once."""
    g = np.array(_FILTERS[tile])
    points = np.einsum("ai,ocij,bj->abco", g, weights.astype(np.float64), g, optimize=True)
    packed = _panels(points.reshape(-1, *points.shape[2:]))  # point, in, panel, 16
    return aligned(np.transpose(packed, (2, 0, 1, 3)))
