"""What does TensorFlow Lite Micro make of integers, where it rounds elementwise operators by formulas of its own?

Sources: tensorflow/lite/kernels/internal/reference and tensorflow/lite/micro/kernels, for the preparation of multipliers. A
formula takes `Given` operands, integers of 64 bits less their zero points, and gives those of the output without its zero
point; of comparisons, what is so. Operands are arrays, of which tables are made, or recorded (`recording`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.model.formats import Format, Stored
from csdfgen.model.network import Layer
from csdfgen.ops._operands import set_attributes
from csdfgen.ops.base import Call, Emit
from csdfgen.ops.elementwise import Task
from csdfgen.ops.integers import (
    BYTES,
    STORED,
    limits,
    multipliers,
    rounds_twice,
    shift_exactly,
    use_shifts,
)
from csdfgen.ops.micro_softmax import softmax_integers
from csdfgen.ops.recording import pick, record
from csdfgen.ops.resampling import IN_1024THS, ROUNDED, resize_integers


@dataclass(frozen=True, slots=True)
class Given:
    """Operands of a formula with their scales, and the format of the output; None of comparisons. Scales are float32, of which
    multipliers are computed in float64.
    """

    layer: Layer
    values: list[Any]
    scales: list[np.float64]
    form: Format | None

    @property
    def x(self) -> Any:
        """The first operand."""
        return self.values[0]

    @property
    def y(self) -> np.float64:
        """The scale of the output."""
        assert self.form is not None
        return _scale(self.form)


def _scale(form: Format) -> np.float64:
    assert form.scale is not None
    return np.float64(np.float32(form.scale[0]))


def round_as_micro(layer: Layer) -> Layer:
    """The layer as it is rounded by TensorFlow Lite Micro, where that is known."""
    stored = layer.stored
    if stored is None or (stored.written(0) is None and layer.op_type not in _COMPARED):
        known = layer.op_type == "QLinearLeakyRelu"
        return set_attributes(layer, requantize="twice") if known else use_shifts(layer, twice=True)
    if layer.op_type in _PRODUCTS:
        return set_attributes(layer, requantize="wide")
    if layer.op_type == "Resize":
        return _round_positions(layer, stored)
    wide = layer.op_type == "Softmax" and _is_wide_softmax(stored)
    known = wide or layer.op_type in FORMULAS or layer.op_type in _POOLS
    return set_attributes(layer, requantize="twice") if known else layer


def _is_wide_softmax(stored: Stored) -> bool:
    x, y = stored.read(0), stored.written(0)
    formed = x is not None and y is not None and (x.dtype, y.dtype) == ("int16", "int16")
    return formed and y is not None and y.scale == (2.0**-15,)


def _round_positions(layer: Layer, stored: Stored) -> Layer:
    name = f"{layer.attributes.get('coordinates')}{IN_1024THS}"
    if (
        layer.attributes["mode"] != "linear"
        or stored.read(0) != stored.written(0)
        or name not in ROUNDED
    ):
        return layer
    return set_attributes(layer, coordinates=name, requantize="twice")


_PRODUCTS = ("Conv", "Gemm", "MatMul")
"""Operators whose sums of integers of 16 bits have 64."""

_POOLS = ("AveragePool", "GlobalAveragePool")


def has_formula(layer: Layer) -> bool:
    """Whether a layer rounds its integers by a formula of this module."""
    if not rounds_twice(layer) or layer.op_type not in {**FORMULAS, **KERNELS}:
        return False
    stored = layer.stored
    if stored is None or layer.op_type in KERNELS:
        return True  # bytes of onnxruntime's operators, or as `round_as_micro` found
    forms = [stored.read(k) for k in _positions(layer)]
    forms += [] if layer.op_type in _COMPARED else [stored.written(0)]
    types = _OF_TYPE.get(layer.op_type, STORED)
    known = (form is not None and form.dtype in types and form.axis is None for form in forms)
    return not stored.applied and all(known) and _fits_table(layer, forms[-1])


def _fits_table(layer: Layer, y: Format | None) -> bool:
    """Whether the output has the scale that functions by a table of 16 bits make."""
    return layer.op_type not in ("Sigmoid", "Tanh") or (y is not None and y.scale == (2.0**-15,))


def _positions(layer: Layer) -> list[int]:
    return [k for k, t in enumerate(layer.inputs) if t is not None or k in layer.constants]


def find_micro_table(layer: Layer, x: Format | None, y: Format | None) -> np.ndarray | None:
    """The output for each of the 256 inputs, by the bits of the byte; None for layers without a formula."""
    if not has_formula(layer) or x is None or y is None:
        return None
    every = np.arange(256, dtype=np.uint8).view(x.dtype).astype(np.int64)
    return np.asarray(_rounded(layer, [x], y, [every])).astype(y.dtype)


def compute_exactly(task: Task) -> list[Call]:
    """Calls that fill the output of a layer with a formula (a recipe of an elementwise operator)."""
    stored = task.layer.stored
    assert stored is not None
    forms = [form for k in _positions(task.layer) if (form := stored.read(k)) is not None]
    formula = partial(_rounded, task.layer, forms, stored.written(0))
    calls, found = record(formula, task.operands, task.scratch)
    return [*calls, (np.copyto, (task.out, found, "unsafe"))]


def _rounded(layer: Layer, forms: list[Format], y: Format | None, values: list[Any]) -> Any:
    """The integers of the output."""
    zeros = [form.zero_point[0] for form in forms if form.zero_point]
    centred = [
        one - np.int64(zero) if zero else one for one, zero in zip(values, zeros, strict=True)
    ]
    found = FORMULAS[layer.op_type](Given(layer, centred, [_scale(form) for form in forms], y))
    if y is None or y.zero_point is None:
        return found
    low, high = (np.int64(end) for end in limits(y.dtype))
    return np.minimum(np.maximum(found + np.int64(y.zero_point[0]), low), high)


def _scaled(values: Any, factor: np.float64) -> Any:
    return shift_exactly(values, multipliers(np.asarray(factor, np.float64)))


def _negative(values: Any) -> Any:
    return np.minimum(values, np.int64(0))


def _positive(values: Any) -> Any:
    return np.maximum(values, np.int64(0))


# Functions of one operand ------------------------------------------------------------------------


def _requantized(given: Given, of: Callable[[Any], Any] = lambda x: x) -> Any:
    return _scaled(of(given.x), given.scales[0] / given.y)


def _leaky(given: Given) -> Any:
    alpha = np.float64(np.float32(given.layer.attributes["alpha"]))
    kept = _requantized(given, _positive)
    if not alpha:
        return kept
    below = _scaled(_negative(given.x), np.abs(given.scales[0] * alpha / given.y))
    return kept + np.int64(np.sign(alpha)) * below


def _hard_swish(given: Given) -> Any:
    """The value times what is 0 up to -3 and 1 from 3 on, in integers of 16 bits."""
    fine, of_gate = np.float32(given.scales[0] / 128), np.float32(3 / 32768)
    (by, shift), (by_gate, gate_shift) = (
        _of_16_bits(fine / np.float32(one)) for one in (given.y, of_gate)
    )
    values = given.x << np.int64(7)
    gate = values
    if gate_shift > 0:
        gate = _saturated(gate << (gate_shift - 1))
    gate = (gate * by_gate + (1 << 14)) >> 15
    gate = _saturated(gate << 1) if gate_shift > 0 else _divided(gate, -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    product = gate * ((values * by + (1 << 14)) >> 15)
    return _divided(np.sign(product) * (np.absolute(product) >> 15), -shift)


def _of_16_bits(factor: np.float32) -> tuple[np.int64, np.int64]:
    fraction, exponent = np.frexp(np.float64(factor))
    whole = round(float(fraction) * 2**31)
    return np.int64(min((whole + (1 << 15)) >> 16, 2**15 - 1)), np.int64(exponent)


def _saturated(values: Any) -> Any:
    low, high = (np.int64(end) for end in limits("int16"))
    return np.minimum(np.maximum(values, low), high)


def _divided(values: Any, bits: int) -> Any:
    """Values times 2**-bits, ties away from zero."""
    if bits < 1:
        return values << -bits
    return np.sign(values) * ((np.absolute(values) + (1 << (bits - 1))) >> bits)


def _list_sigmoids() -> np.ndarray:
    """sigmoid(k / 24) in 16 bits, each moved by half of what the middle of the line to the next one is off."""

    def sigmoid(x: Any) -> Any:
        return 2**16 / (1 + np.exp(-x / 24))

    k = np.arange(256.0)
    off = sigmoid(k + 0.5) - (sigmoid(k) + sigmoid(k + 1)) / 2
    found = np.floor(sigmoid(k) + off / 2 + 0.5).astype(np.int64)
    found[-1] = 2**16 - 1
    return found


_SIGMOIDS = _list_sigmoids()


def _interpolated(given: Given, tanh: bool) -> Any:
    """Sigmoid and Tanh of 16 bits: lines between the entries of a table."""
    bits, down, middle = (8, 8, 0) if tanh else (9, 10, 1 << 14)
    m, s = _table_factor(given.scales[0], tanh)
    x = (given.x * np.int64(m) + np.int64((1 << s) >> 1)) >> np.int64(s)
    size = np.absolute(x)
    at = np.minimum(size >> np.int64(bits), np.int64(255))
    low, high = (pick(_SIGMOIDS, one) for one in (at, np.minimum(at + np.int64(1), np.int64(255))))
    line = (low << np.int64(bits)) + (size & np.int64((1 << bits) - 1)) * (high - low)
    above = (line + np.int64((1 << (down - 1)) - (1 << (15 + bits)))) >> np.int64(down)
    most = np.int64((1 << (15 + bits - down)) - 1)
    return np.int64(middle) + np.sign(x) * np.minimum(above, most)


def _table_factor(scale: np.float64, tanh: bool) -> tuple[int, int]:
    """Multiplier and shift that make integers with a scale places in the table, of which a distance is 2**8 or 2**9."""
    exponent = float(np.log2(scale))
    left = 12 + round(exponent)
    if abs(exponent - round(exponent)) < 1e-3 and 0 <= left <= int(tanh):
        return 3 << left, 0
    factor, shift = float(scale) * 4096 * 3, 0
    while factor <= 32767 / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return int(factor), shift


# Functions of two operands -----------------------------------------------------------------------


def _sum(given: Given, sign: int = 1) -> Any:
    """Both terms times a power of 2, in fractions of twice the larger scale."""
    squared = given.form is not None and given.form.dtype == SQUARED
    most, wide = 2 * max(given.scales), _is_wide(given.layer)
    bits = (0 if wide else 7) if squared else (15 if wide else 20)
    a, b = (
        _scaled(one << np.int64(bits), by / most)
        for one, by in zip(given.values, given.scales, strict=True)
    )
    total = a + b if sign > 0 else a - b
    return total if squared else _scaled(total, most / ((1 << bits) * given.y))


def _is_wide(layer: Layer) -> bool:
    read = None if layer.stored is None else layer.stored.read(0)
    return read is not None and read.itemsize > 1


def _product(given: Given) -> Any:
    return _scaled(given.x * given.values[1], prod(given.scales) / given.y)


def _prelu(given: Given) -> Any:
    below = _negative(given.x) * given.values[1]
    return _requantized(given, _positive) + _scaled(below, prod(given.scales) / given.y)


def _compared(given: Given, tell: Callable[[Any], Any]) -> Any:
    """1 or 0 by the difference of both operands."""
    a, b = (
        _scaled(one << np.int64(8), by) for one, by in zip(given.values, given.scales, strict=True)
    )
    return tell(a - b)


def _is_above(difference: Any) -> Any:
    return np.minimum(_positive(difference), np.int64(1))


def _is_zero(difference: Any) -> Any:
    return np.int64(1) - np.minimum(np.absolute(difference), np.int64(1))


FORMULAS: Mapping[str, Callable[[Given], Any]] = MappingProxyType(
    {
        "Abs": partial(_requantized, of=np.absolute),
        "Add": _sum,
        "Equal": partial(_compared, tell=_is_zero),
        "Greater": partial(_compared, tell=_is_above),
        "GreaterOrEqual": partial(_compared, tell=lambda d: _is_above(d + np.int64(1))),
        "HardSwish": _hard_swish,
        "Identity": _requantized,
        "LeakyRelu": _leaky,
        "Less": partial(_compared, tell=lambda d: _is_above(np.int64(0) - d)),
        "LessOrEqual": partial(_compared, tell=lambda d: _is_above(np.int64(1) - d)),
        "Mul": _product,
        "PRelu": _prelu,
        "QLinearLeakyRelu": _leaky,
        "Relu": partial(_requantized, of=_positive),
        "Sigmoid": partial(_interpolated, tanh=False),
        "Sub": partial(_sum, sign=-1),
        "Tanh": partial(_interpolated, tanh=True),
    }
)
"""Operator -> what it makes of its operands."""

KERNELS: Mapping[str, Callable[[Layer], Emit]] = MappingProxyType(
    {"Resize": resize_integers, "Softmax": softmax_integers}
)
"""Operators that are not elementwise -> the kernel on integers."""

_COMPARED = frozenset(name for name in FORMULAS if name.startswith(("Equal", "Greater", "Less")))

_OF_TYPE = {"HardSwish": BYTES, "Sigmoid": ("int16",), "Tanh": ("int16",)} | dict.fromkeys(
    _COMPARED, ("int8",)
)
"""Operator -> the types in which it has its formula, if not in all."""

SQUARED = "uint16"
"""Type of a difference that is squared, which no other one has."""
