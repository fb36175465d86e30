"""How exact is Winograd's convolution 3x3 in floats, in integers, and in the 6 and 4 bits of paper 004?

A tile of m x m outputs is A' [sum over channels of (G w G') * (B' x B)] A: (m + 2)^2 products instead of 9 m^2 (Lavin
and Gray, 2015). With 2G instead of G on both sides F(2x2, 3x3) has integers alone, and the result is 4 times the direct
one. Inputs grow by 4 at most, weights by 9: those of a byte fit into 16 bits.

Convolutions have no padding, stride 1 and one group. x: (channels, height, width); w: (outputs, channels, 3, 3); results:
(outputs, height - 2, width - 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Kept = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Form:
    """The transforms of tiles of so many rows and columns. inputs: B', (tile + 2, tile + 2). weights: G, (tile + 2, 3).
    outputs: A', (tile, tile + 2). scale: times which the direct result comes out.
    """

    tile: int
    inputs: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray
    scale: int = 1


_B2 = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
_G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
_A2 = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])
_B4 = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
_G4 = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24
_A4 = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])

F2 = Form(2, _B2, _G2 / 2, _A2)
F2_WHOLE = Form(2, _B2, _G2, _A2, 4)
F4 = Form(4, _B4, _G4, _A4)


def max_growth(matrix: np.ndarray) -> int:
    """By what the largest absolute value grows at most, taken by a matrix along both axes.

    >>> max_growth(F2_WHOLE.inputs), max_growth(F2_WHOLE.weights)
    (4, 9)
    """
    return int(np.abs(matrix).sum(1).max()) ** 2


def convolve_directly(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Sums of products, float64 or int64."""
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    wide = np.float64 if np.issubdtype(x.dtype, np.floating) else np.int64
    return np.tensordot(w.astype(wide), seen.astype(wide), ((1, 2, 3), (0, 3, 4)))


def convolve_tiles(
    x: np.ndarray, w: np.ndarray, form: Form, *, points: Kept, sums: Kept
) -> np.ndarray:
    """By tiles; `form.scale` times the direct result. points: what becomes of values and weights in the points of tiles
    (a type, most often) before they are multiplied; sums: of their sums over channels. Behind the last whole tile x
    counts as 0.
    """
    tile, size = form.tile, form.tile + 2
    _, *high_wide = x.shape
    down, across = (-(-(n - 2) // tile) for n in high_wide)
    padded = np.zeros((len(x), down * tile + 2, across * tile + 2), x.dtype)
    padded[:, : high_wide[0], : high_wide[1]] = x
    seen = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))
    seen = seen[:, ::tile, ::tile].transpose(3, 4, 0, 1, 2)  # (size, size, channels, down, across)
    values = points(transform_tiles(form.inputs, seen)).reshape(size, size, len(x), -1)
    weights = points(transform_tiles(form.weights, w.transpose(2, 3, 0, 1)))
    products = sums(weights @ values).reshape(size, size, len(w), down, across)
    found = transform_tiles(form.outputs, products).transpose(2, 3, 0, 4, 1)
    whole = found.reshape(len(w), down * tile, across * tile)
    return whole[:, : high_wide[0] - 2, : high_wide[1] - 2]


def transform_tiles(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n, m) times the two first axes of (m, m, ...): (n, n, ...), in the type of the values."""
    matrix = matrix.astype(values.dtype)
    once = np.tensordot(matrix, values, (1, 0))
    return np.tensordot(matrix, once, (1, 1)).swapaxes(0, 1)


def convolve_exactly(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The direct result of integers of a byte: int32, bit for bit, by 16 products instead of 36. x: uint8 or int8; w:
    int8. Points are int16, sums int32, which may wrap round where 4 times the result does not.
    """
    found = convolve_tiles(
        x.astype(np.int16),
        w.astype(np.int16),
        F2_WHOLE,
        points=lambda values: values.astype(np.int32),
        sums=lambda values: values,
    )
    return found // F2_WHOLE.scale


def quantize_symmetric(
    values: np.ndarray, largest: int, axes: tuple[int, ...] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Integers of at most so much, and their scale: of all, or of each place along the other axes."""
    scale = np.abs(values).max(axes, keepdims=True) / largest
    return np.rint(values / scale).astype(np.int64), scale


def narrow(x: np.ndarray, w: np.ndarray, largest: tuple[int, int]) -> np.ndarray:
    """Floats by integers of at most so much, inputs with one scale, weights with one a filter, whose points fit a byte: with
    (31, 7) the 6 and 4 bits of paper 004. Raises OverflowError where points do not fit.
    """

    def byte(values: np.ndarray) -> np.ndarray:
        if np.abs(values).max() > 127:
            raise OverflowError(f"points reach {np.abs(values).max()}; a byte has 127")
        return values

    inputs, scale = quantize_symmetric(x, largest[0])
    weights, scales = quantize_symmetric(w, largest[1], (1, 2, 3))
    found = convolve_tiles(inputs, weights, F2_WHOLE, points=byte, sums=lambda values: values)
    return found / F2_WHOLE.scale * scale.reshape(()) * scales.reshape(-1, 1, 1)
