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


_ROW_SCALES = (1 / 4, -1 / 6, -1 / 6, 1 / 24, 1 / 24)
_ROW_POINTS = (0, 1, -1, 2, -2)
_BLOCK = 64
"""Output channels whose sums `csdf_winograd_row` has at a time."""


def winograd_row_weights(weights: np.ndarray, groups: int = 1) -> np.ndarray:
    """(out, in / groups, h, w) for `csdf_winograd_row`, w from 2 to 5, rounded once: of each group
    blocks of up to 64 outputs, (6, panels, h, in / groups, 16) each.
    """
    out, wide = len(weights), weights.shape[3]
    filters = np.array(
        [[scale * point**k for k in range(wide)]
         for scale, point in zip(_ROW_SCALES, _ROW_POINTS, strict=True)]
        + [[float(k == wide - 1) for k in range(wide)]]
    )  # fmt: skip
    points = np.einsum("ak,oihk->ahio", filters, weights.astype(np.float64), optimize=True)
    blocks = []
    for group in np.split(points, groups, axis=-1):
        for start in range(0, out // groups, _BLOCK):
            panels = _panels(group[..., start : start + _BLOCK])  # point, h, in, panel, 16
            blocks.append(np.transpose(panels, (0, 3, 1, 2, 4)).reshape(-1))
    return aligned(np.concatenate(blocks))
