"""What does TensorFlow Lite Micro make of each byte, where it rounds functions of one byte by integers?

Source: QuantizeLeakyRelu, Requantize, HardSwish and ReluQuantized in tensorflow/lite/kernels/internal/reference, and the
preparation of their multipliers in tensorflow/lite/micro/kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer
from csdfgen.ops.integers import limits, multipliers, rounds_twice, shift_exactly


def find_micro_table(layer: Layer, x: Format | None, y: Format | None) -> np.ndarray | None:
    """The output for each of the 256 inputs, by the bits of the byte; None for layers that do not round twice."""
    if not rounds_twice(layer) or x is None or y is None:
        return None
    assert x.scale and x.zero_point and y.scale and y.zero_point
    centred = np.arange(256, dtype=np.uint8).view(x.dtype).astype(np.int64) - x.zero_point[0]
    found = MICRO[layer.op_type](layer, centred, np.float32(x.scale[0]), np.float32(y.scale[0]))
    return np.clip(found + y.zero_point[0], *limits(y.dtype)).astype(y.dtype)


def _scaled(values: np.ndarray, factor: np.float32 | np.float64) -> np.ndarray:
    return shift_exactly(values, multipliers(np.asarray(factor, np.float64)))


def _leaky(layer: Layer, values: np.ndarray, x: np.float32, y: np.float32) -> np.ndarray:
    alpha = np.float32(layer.attributes["alpha"])
    kept = _scaled(values, x / y)
    return np.where(values >= 0, kept, _scaled(values, x * alpha / y) if alpha else 0)


def _requantized(layer: Layer, values: np.ndarray, x: np.float32, y: np.float32) -> np.ndarray:
    return _scaled(values, np.float64(x) / np.float64(y))


def _hard_swish(layer: Layer, values: np.ndarray, x: np.float32, y: np.float32) -> np.ndarray:
    """The value times what is 0 up to -3 and 1 from 3 on, in integers of 16 bits."""
    fine, of_gate = np.float32(1 / 128) * x, np.float32(3 / 32768)
    (by, shift), (by_gate, gate_shift) = (_of_16_bits(fine / one) for one in (y, of_gate))
    values = values << 7
    gate = values
    if gate_shift > 0:
        gate = _saturated(gate << (gate_shift - 1))
    gate = (gate * by_gate + (1 << 14)) >> 15
    gate = _saturated(gate << 1) if gate_shift > 0 else _divided(gate, -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    product = gate * ((values * by + (1 << 14)) >> 15)
    return _divided(np.sign(product) * (np.abs(product) >> 15), -shift)


def _of_16_bits(factor: np.float32) -> tuple[int, int]:
    fraction, exponent = np.frexp(np.float64(factor))
    whole = round(float(fraction) * 2**31)
    return min((whole + (1 << 15)) >> 16, 2**15 - 1), int(exponent)


def _saturated(values: np.ndarray) -> np.ndarray:
    return np.clip(values, *limits("int16"))


def _divided(values: np.ndarray, bits: int) -> np.ndarray:
    """Values times 2**-bits, ties away from zero."""
    if bits < 1:
        return values << -bits
    return np.sign(values) * ((np.abs(values) + (1 << (bits - 1))) >> bits)


MICRO: Mapping[str, Callable[[Layer, np.ndarray, np.float32, np.float32], np.ndarray]] = (
    MappingProxyType(
        {"HardSwish": _hard_swish, "Identity": _requantized, "QLinearLeakyRelu": _leaky}
    )
)
"""Operator -> integers without the zero point of the output from those without the input's, and both scales."""
