"""Which scale and zero point does a range have? Integers of a type, over all of it.

Source: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html and paper 003, section 1 (formulas 1.1
and 1.2). Zero is always a value that an integer stands for exactly: padding and Relu need it. A range
of zero width is legal: its integers stand for that value, and for zero.
"""

from __future__ import annotations

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.ops.stored import quantized, values_of
from csdfgen.precision.ranges import Range

__all__ = ["binned", "format_of", "step_of"]


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
    scale = max(scale, np.finfo(np.float32).tiny)  # smaller ones have fewer bits
    zero = int(np.clip(np.rint(info.min - low / float(scale)), info.min, info.max))
    return Format(dtype, (float(scale),), (zero,))


def step_of(form: Format) -> float:
    """The value between two neighbouring integers."""
    assert form.scale is not None
    return form.scale[0]


def binned(values: np.ndarray, form: Format) -> np.ndarray:
    """What becomes of values that are stored in a format and read again, as float32.

    >>> binned(np.array([-100.0, 0.5, 0.74, 100.0]), Format("int8", (0.5,), (3,))).tolist()
    [-65.5, 0.5, 0.5, 62.0]
    """
    return values_of(quantized(values, form), form)
