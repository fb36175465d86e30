"""Which scale and zero point does a range have? Integers of a type, over all of it.

Source: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html and paper 003, section 1 (formulas 1.1
and 1.2). Zero is always a value that an integer stands for exactly: padding and Relu need it. A range
of zero width is legal: its integers stand for that value, and for zero.
"""

from __future__ import annotations

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.precision.ranges import Range

__all__ = ["WIDTHS", "binned", "format_of", "integers_of", "step_of", "symmetric", "values_of"]

WIDTHS = ("int8", "int16", "float32")
"""Stored types that a tensor may be given, from fewest bytes on."""


def format_of(found: Range, dtype: str) -> Format:
    """The format in which integers of a type cover a range and zero.

    >>> str(format_of((0.0, 255.0), "int8")), str(format_of((0.0, 0.0), "int8"))
    ('int8*1+-128', 'int8*1+-128')
    """
    info = np.iinfo(dtype)
    low, high = min(found[0], 0.0), max(found[1], 0.0)
    scale = np.float32((high - low) / (info.max - info.min))
    if not (scale > 0 and np.isfinite(scale)):
        scale = np.float32(1 if high == low or not scale > 0 else np.finfo(np.float32).max)
    zero = int(np.clip(np.rint(info.min - low / float(scale)), info.min, info.max))
    return Format(dtype, (float(scale),), (zero,))


def symmetric(weights: np.ndarray, axis: int, dtype: str = "int8") -> tuple[np.ndarray, np.ndarray]:
    """(integers, scales) of weights, one scale for each index along an axis, zero point 0: the largest
    magnitude of a filter becomes 127 (paper 004, section 3: max |w| / 127).
    """
    others = tuple(k for k in range(weights.ndim) if k != axis)
    top = np.iinfo(dtype).max
    largest = np.abs(weights).max(axis=others, keepdims=True, initial=0)
    scales = np.where(largest > 0, largest / top, 1).astype(np.float32)
    return np.clip(np.rint(weights / scales), -top, top).astype(dtype), scales


def step_of(form: Format) -> float:
    """The value between two neighbouring integers."""
    assert form.scale is not None
    return form.scale[0]


def binned(values: np.ndarray, form: Format) -> np.ndarray:
    """What becomes of values that are stored in a format and read again, as float32."""
    return values_of(_rounded(values, form), form)


def integers_of(values: np.ndarray, form: Format) -> np.ndarray:
    """Values as they are stored in a format: QuantizeLinear.

    >>> integers_of(np.array([-100.0, 0.5, 0.75, 100.0]), Format("int8", (0.5,), (3,))).tolist()
    [-128, 4, 5, 127]
    """
    return _rounded(np.asarray(values, np.float32), form).astype(form.dtype)


def values_of(integers: np.ndarray, form: Format) -> np.ndarray:
    """The values of what is stored in a format, as float32: DequantizeLinear."""
    assert form.scale is not None and form.zero_point is not None
    scale, zero = np.float32(form.scale[0]), np.float32(form.zero_point[0])
    return np.asarray((integers.astype(np.float32, copy=False) - zero) * scale, np.float32)


def _rounded(values: np.ndarray, form: Format) -> np.ndarray:
    """Integers of a format, as floating point."""
    assert form.scale is not None and form.zero_point is not None
    info, scale, zero = np.iinfo(form.dtype), np.float32(form.scale[0]), form.zero_point[0]
    return np.asarray(np.clip(np.rint(values / scale) + np.float32(zero), info.min, info.max))
