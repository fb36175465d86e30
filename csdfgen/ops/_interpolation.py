"""Where does a resized position lie in the original, and which neighbours make its value?

Source: https://onnx.ai/onnx/operators/onnx__Resize.html; the cubic kernel is equation (4) of Keys,
"Cubic convolution interpolation for digital image processing", 1981. Resizing is separable: each
axis has a table of taps (original positions and their weights), and the row axis's table is the
row rule. Positions are computed in float32, as onnxruntime does: a tie of nearest neighbours may
fall either way, and it has to fall as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from csdfgen.ops.copies import OUTSIDE, RowTable

__all__ = ["COORDINATES", "MODES", "ROUNDINGS", "Sampling", "Taps", "row_table", "taps_of"]

MODES = ("nearest", "linear", "cubic")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one axis of `length` positions becomes one of `resized`; the fields are the attributes of
    ONNX's Resize.

    scale: resized / length, or the factor that the size was computed from, which need not divide
        it.
    roi: the part of the original, 0 to 1, that tf_crop_and_resize resizes.
    precise: positions in float64, for float64 tensors.
    """

    length: int
    resized: int
    scale: float
    mode: str = "nearest"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    roi: tuple[float, float] = (0.0, 1.0)
    precise: bool = False

    @property
    def is_identity(self) -> bool:
        """Whether the axis keeps every position.

        Where the size stays, onnxruntime resamples nothing at scale 1, not even a cropped region,
        and nothing at any scale if it antialiases.
        """
        return self.length == self.resized and (self.scale == 1 or self.antialias)


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """What every resized position reads.

    indices: (taps, resized) original positions, inside the axis.
    weights: (taps, resized), summing to 1 over the taps; None if there is one tap of weight 1.
    outside: (resized,) bool, positions outside the original that show the extrapolation value.
    """

    indices: np.ndarray
    weights: np.ndarray | None
    outside: np.ndarray


Position = Callable[[Sampling, np.ndarray], np.ndarray]


def _half_pixel(s: Sampling, x: np.ndarray) -> np.ndarray:
    return (x + x.dtype.type(0.5)) / x.dtype.type(s.scale) - x.dtype.type(0.5)


def _half_pixel_symmetric(s: Sampling, x: np.ndarray) -> np.ndarray:
    """Half pixels about the centre of the exact, fractional, output length."""
    adjustment = x.dtype.type(s.resized) / (x.dtype.type(s.scale) * x.dtype.type(s.length))
    offset = x.dtype.type(s.length / 2) * (x.dtype.type(1) - adjustment)
    exact = x.astype(np.float64)
    return (float(offset) + (exact + 0.5) / float(x.dtype.type(s.scale)) - 0.5).astype(x.dtype)


def _align_corners(s: Sampling, x: np.ndarray) -> np.ndarray:
    return x * x.dtype.type(s.length - 1) / x.dtype.type(max(s.resized - 1, 1))


def _crop_and_resize(s: Sampling, x: np.ndarray) -> np.ndarray:
    start, end = x.dtype.type(s.roi[0]), x.dtype.type(s.roi[1])
    last = x.dtype.type(s.length - 1)
    if s.resized == 1:
        return np.full_like(x, 0.5 * float(start + end) * float(last))
    return start * last + x * (end - start) * last / x.dtype.type(s.resized - 1)


COORDINATES: Mapping[str, Position] = MappingProxyType(
    {
        "half_pixel": _half_pixel,
        "half_pixel_symmetric": _half_pixel_symmetric,
        "pytorch_half_pixel": lambda s, x: _half_pixel(s, x) if s.resized > 1 else np.zeros_like(x),
        "align_corners": _align_corners,
        "asymmetric": lambda s, x: x / x.dtype.type(s.scale),
        "tf_half_pixel_for_nn": lambda s, x: (x + x.dtype.type(0.5)) / x.dtype.type(s.scale),
        "tf_crop_and_resize": _crop_and_resize,
    }
)
"""coordinate_transformation_mode -> original positions of resized positions (an array of floats).
"""

TIE = 1e-6
"""Positions so near to the middle between two neighbours count as the middle, as in onnxruntime
1.31.
"""

ROUNDINGS: Mapping[str, Position] = MappingProxyType(
    {
        "round_prefer_floor": lambda s, x: np.floor(x) + (x - np.floor(x) > 0.5 + TIE),
        "round_prefer_ceil": lambda s, x: np.floor(x) + (x - np.floor(x) >= 0.5 - TIE),
        "floor": lambda s, x: np.floor(x),
        "ceil": lambda s, x: np.ceil(x),
        "simple": lambda s, x: np.ceil(x) if s.scale < 1 else np.floor(x),
    }
)
"""nearest_mode -> nearest position; "simple" is what Resize 10 and Upsample do."""


def _linear(s: Sampling, x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(s: Sampling, x: np.ndarray) -> np.ndarray:
    a, d = s.cubic_coefficient, np.abs(x)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


KERNELS: Mapping[str, tuple[int, Position]] = MappingProxyType(
    {"linear": (1, _linear), "cubic": (2, _cubic)}
)
"""mode -> (support on either side, weight of a neighbour at a distance)."""


@lru_cache(maxsize=256)
def taps_of(s: Sampling) -> Taps:
    """The table of taps of one axis.

    >>> taps_of(Sampling(2, 4, 2.0, "linear")).weights.tolist()
    [[0.25, 0.75, 0.25, 0.75], [0.75, 0.25, 0.75, 0.25]]
    """
    x = np.arange(s.resized, dtype=np.float64 if s.precise else np.float32)
    position = COORDINATES[s.coordinates](s, x)
    crops = s.coordinates == "tf_crop_and_resize"
    outside = (position < 0) | (position > s.length - 1) if crops else np.zeros(s.resized, bool)
    if s.mode == "nearest":
        nearest = ROUNDINGS[s.rounding](s, position)
        return Taps(np.clip(nearest, 0, s.length - 1).astype(np.intp)[None], None, outside)
    # The kernel is stretched where antialiasing averages over the input positions of one output
    # position.
    support, kernel = KERNELS[s.mode]
    stretch = min(s.scale, 1.0) if s.antialias else 1.0
    first = int(np.floor(-support / stretch)) + 1
    offsets = np.arange(first, 2 - first)[:, None]
    base = np.floor(position)
    weights = kernel(s, ((offsets - (position - base)) * stretch).astype(x.dtype))
    indices = offsets + base.astype(np.int64)
    if s.exclude_outside:
        weights = np.where((indices < 0) | (indices >= s.length), 0, weights)
    total = np.sum(weights, axis=0)
    weights = weights / np.where(total == 0, 1, total)
    used = np.any(weights != 0, axis=1)
    indices = np.clip(indices[used], 0, s.length - 1).astype(np.intp)
    weights = weights[used]
    return Taps(indices, None if len(weights) == 1 and np.all(weights == 1) else weights, outside)


@lru_cache(maxsize=256)
def row_table(s: Sampling) -> RowTable:
    """The row rule of the axis: rows of weight 0 are not read."""
    taps = taps_of(s)
    read = np.ones(taps.indices.shape, bool) if taps.weights is None else taps.weights != 0
    first = np.where(taps.outside, OUTSIDE, np.min(np.where(read, taps.indices, s.length), axis=0))
    last = np.where(taps.outside, OUTSIDE, np.max(np.where(read, taps.indices, OUTSIDE), axis=0))
    return RowTable.of(first.tolist(), last.tolist(), s.length)
