"""How are the values of a tensor stored, and in which type are they summed?

A tensor has a `Format`: its element type and, if it is quantized, the scale and zero point of its integers. Products and sums
are formed in the accumulator's type (`accumulator_type`) and rounded once to that of the result. Layers on integers derive both
from their weights (`csdfgen.ops.integers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import ml_dtypes  # noqa: F401  # numpy knows bfloat16 by its name from here on
import numpy as np


@dataclass(frozen=True, slots=True)
class Format:
    """The stored form of a tensor's elements. dtype: numpy's name of their type.

    scale, zero_point: of quantized values, `(stored - zero_point) * scale`, one for the tensor or one for each index along
    `axis`; None if the stored numbers are the values.

    >>> Format("float16").itemsize, str(Format("int8", scale=(0.5,), zero_point=(3,)))
    (2, 'int8*0.5+3')
    """

    dtype: str = "float32"
    scale: tuple[float, ...] | None = None
    zero_point: tuple[int, ...] | None = None
    axis: int | None = None

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        if self.scale is None:
            return self.dtype
        along = "" if self.axis is None else f"@{self.axis}"
        zero = "" if self.zero_point is None else f"+{','.join(map(str, self.zero_point))}"
        return f"{self.dtype}*{','.join(f'{s:g}' for s in self.scale)}{zero}{along}"


FLOAT32 = Format()

FLOAT16 = Format("float16")

BFLOAT16 = Format("bfloat16")
"""The upper half of a float32: 8 bits of exponent, 7 of fraction. Values are rounded to the nearest, half to even."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The integers that a layer reads and writes if its operator computes on real values.

    inputs, outputs: by ONNX position the format of the integers, None for values that are not quantized; positions after the
        last entry are None. Constants may have a scale for each index of an axis.
    applied: number of layers of the epilogue, from the first on, that work on values before they are quantized.
    """

    inputs: tuple[Format | None, ...] = ()
    outputs: tuple[Format | None, ...] = ()
    applied: int = 0

    def read(self, position: int) -> Format | None:
        """The format of an operand."""
        return self.inputs[position] if position < len(self.inputs) else None

    def written(self, output: int) -> Format | None:
        """The format of a result."""
        return self.outputs[output] if output < len(self.outputs) else None

    @property
    def is_bfloat16(self) -> bool:
        """Whether nothing but results is rounded, to bfloat16."""
        return not self.applied and {*self.inputs, *self.outputs} <= {BFLOAT16, None}


ARITHMETIC: Mapping[str, str] = MappingProxyType({"float16": "float32", "bfloat16": "float32"})
"""Stored type -> accumulator, for types with sums in another type: sums in float16 would lose precision, and numpy's float16 is
slow. All other types are their own accumulators; integers wrap around, so that the order of their sums does not matter.
"""


def accumulator_type(dtype: str | np.dtype) -> str:
    """The type in which products and sums of values of a type are formed.

    >>> accumulator_type("float16"), accumulator_type("float64"), accumulator_type(np.dtype("int32"))
    ('float32', 'float64', 'int32')
    """
    return ARITHMETIC.get(str(dtype), str(dtype))
