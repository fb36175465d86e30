"""How do integers represent values, and when is floating point exact for sums of their products?

Sources: https://onnx.ai/onnx/operators/ (QLinearConv and its kin); what is rounded, and where, is
onnxruntime's, so that results agree to the last bit.

A stored integer q represents `(q - zero point) * scale`. The numbers that a layer needs for that
are `Format`s among its attributes: "x" of its input, "w" of its weights, "y" of its output.
Matrix products of integers go through BLAS in floating point, which is exact as long as no partial
sum, in any order, can leave the integers that the type has: 2^24 in float32. The weights of a layer
determine which sums are possible, so that a layer is float32 where those fit, and float64 where they do
not; either way every sum is the true one, whatever the order, the slab and the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops._operands import set_attributes
from csdfgen.ops.base import Call, require_constant

BYTES = ("int8", "uint8")
"""What products are formed of."""

STORED = (*BYTES, "int16", "uint16")
"""Types that a quantized tensor may have."""

LARGEST = {"float32": 2**24, "float64": 2**53}
"""Up to which every integer has a value of its own in a type."""

_SCALES = ("float32", "float16")

# Constants of a node------------------------------------------------------------------------------


def quantization(
    node: Node,
    scale: int,
    zero_point: int | None,
    dtype: str,
    what: str,
    *,
    axis: int | None = None,
    channels: int = 1,
) -> Format:
    """The format that the constants at two positions give to integers of a type.

    what: the operand, as errors call it. axis, channels: along which, and how many, there may be
    values of their own; else there is one. Raises ModelError, for constants that are none too.
    """
    scales = require_constant(node, scale)
    given = None if zero_point is None else node.operand(zero_point)
    zeros = np.zeros((), dtype)
    if given is not None:
        assert zero_point is not None
        zeros = require_constant(node, zero_point)
    if scales.dtype.name not in _SCALES:
        raise ModelError(f"the scale of {what} is {scales.dtype}, it must be float32")
    if zeros.dtype != np.dtype(dtype):
        raise ModelError(
            f"the zero point of {what} is {zeros.dtype}, {what} is {dtype}; they must be the same"
        )
    for name, array in (("scale", scales), ("zero point", zeros)):
        if array.size not in (1, channels) or array.ndim > 1:
            wanted = "1 value" if channels == 1 else f"1 value or {channels}"
            raise ModelError(
                f"the {name} of {what} has shape {array.shape}; {wanted} is what there can be"
            )
    check_scales(scales, what)
    several = max(scales.size, zeros.size) > 1
    return Format(
        dtype,
        tuple(float(value) for value in scales.reshape(-1)),
        tuple(int(value) for value in zeros.reshape(-1)),
        axis if several else None,
    )


def byte_type(node: Node, position: int, what: str) -> str:
    """The type of an operand of one byte an element. what: as errors call it. Raises ModelError."""
    operand = node.operand(position)
    if operand is None:
        raise ModelError(f"input {position} is absent")
    if str(operand.dtype) not in BYTES:
        raise ModelError(f"{what} is {operand.dtype}; {', '.join(BYTES)} are supported")
    return str(operand.dtype)


def byte_operand(node: Node, position: int, what: str, scale: int, zero_point: int) -> Format:
    """The format of an operand of one byte an element; as `quantization`."""
    return quantization(node, scale, zero_point, byte_type(node, position, what), what)


def byte_output(node: Node, scale: int, zero_point: int, like: Format) -> Format:
    """The format of an output that has the type of an operand; as `quantization`."""
    return quantization(node, scale, zero_point, like.dtype, "the output")


def build_byte_layer(build: Callable[[Node], Layer], operands: int = 1) -> Callable[[Node], Layer]:
    """`build` of an operator on one or two tensors of one byte an element: a scale and a zero point
    follow each of them, those of the output are last. build: the layer for the tensors alone.
    """
    places = range(0, 3 * operands, 3)
    names = ("the input",) if operands == 1 else ("input a", "input b")

    def of_node(node: Node) -> Layer:
        forms = {
            role: byte_operand(node, k, name, k + 1, k + 2)
            for role, name, k in zip("xw", names, places, strict=False)
        }
        forms["y"] = byte_output(node, 3 * operands, 3 * operands + 1, forms["x"])
        layer = build(replace(node, inputs=tuple(node.operand(k) for k in places)))
        return set_attributes(layer, **forms)

    return of_node


def check_scales(scales: np.ndarray, what: str) -> None:
    """ModelError for a scale that is not above 0, or no number."""
    for value in scales.reshape(-1).tolist():
        if not (isfinite(value) and value > 0):
            raise ModelError(f"the scale of {what} is {value:g}, it must be above 0")


def get_scale(layer: Layer, role: str) -> np.ndarray:
    """The scale of an operand, float32: one number, or one a channel."""
    values = np.array(_format(layer, role).scale, np.float32)
    return values.reshape(()) if values.size == 1 else values


def get_zero(layer: Layer, role: str) -> int:
    """The zero point of an operand that has one."""
    zeros = _format(layer, role).zero_point
    assert zeros is not None and len(zeros) == 1
    return zeros[0]


def _format(layer: Layer, role: str) -> Format:
    found = layer.attributes[role]
    assert isinstance(found, Format)
    return found


def limits(dtype: str) -> tuple[int, int]:
    """Lowest and highest integer of a type.

    >>> limits("int8"), limits("uint16")
    ((-128, 127), (0, 65535))
    """
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def read_scalar(node: Node, position: int, dtype: str, what: str) -> int | Tensor:
    """A zero point of one element, maybe computed; 0 where it is absent. Raises ModelError."""
    given = node.operand(position)
    if given is None:
        return 0
    if str(given.dtype) != dtype:
        raise ModelError(
            f"the zero point of {what} is {given.dtype}, {what} is {dtype}; they must be the same"
        )
    if int(np.prod(given.shape)) != 1:
        raise ModelError(
            f"the zero point of {what} has shape {tuple(given.shape)}; one element is supported"
        )
    return given if isinstance(given, Tensor) else int(given.reshape(-1)[0])


# Exact sums --------------------------------------------------------------------------------------


def exact_type(weights: np.ndarray, read: Sequence[tuple[int, int]], more: np.ndarray | int) -> str:
    """The type in which sums of `weights` (outputs, terms) times integers are exact in any order.

    read: lowest and highest of the integers. more: what is added to the sums, once they are
    complete: the result is then rounded once, as if it had been an integer before.

    >>> exact_type(np.full((1, 518), 127), [(0, 255)], 0), exact_type(np.full((1, 519), 127), [(0, 255)], 0)
    ('float32', 'float64')
    """
    fits = _most(weights, read).max(initial=0) <= LARGEST["float32"]
    bias = np.asarray(more, np.int64)
    return "float32" if fits and bool(np.all(bias.astype(np.float32) == bias)) else "float64"


def exact_rows(weights: np.ndarray, read: tuple[int, int]) -> int:
    """The most neighbouring terms of `weights` (outputs, terms) whose sums are exact in float32, in any
    order and wherever they begin.

    >>> exact_rows(np.full((1, 4608), 127), (0, 255))
    518
    """
    summed = np.cumsum(_most(weights[..., None], [read]), 1)
    summed = np.concatenate([np.zeros_like(summed[:, :1]), summed], 1)
    low, high = 0, weights.shape[1]
    while low < high:
        rows = (low + high + 1) // 2
        fits = (summed[:, rows:] - summed[:, :-rows]).max(initial=0) <= LARGEST["float32"]
        low, high = (rows, high) if fits else (low, rows - 1)
    return low


def _most(weights: np.ndarray, read: Sequence[tuple[int, int]]) -> np.ndarray:
    """What no sum of weights (..., terms) times integers, or of some of the terms, can pass."""
    low, high = min(a for a, _ in read), max(b for _, b in read)
    above = np.maximum(weights, 0).sum(-1, dtype=np.int64)
    below = above - weights.sum(-1, dtype=np.int64)
    found: np.ndarray = np.maximum(
        above * max(high, 0) + below * max(-low, 0), above * max(-low, 0) + below * max(high, 0)
    )
    return found


# From sums to integers ---------------------------------------------------------------------------


def rescale_factor(layer: Layer, alpha: float = 1.0) -> np.ndarray:
    """What sums are multiplied by: the scales of the two operands over that of the output, in this
    order; without an output scale, the values of the sums. In float64 of layers that round twice, where
    TensorFlow Lite forms the product of scales of a matrix product in float32.
    """
    if rounds_twice(layer):
        exact = np.float64 if layer.op_type in ("QLinearConv", "QLinearMul") else np.float32
        scales = get_scale(layer, "x").astype(exact) * get_scale(layer, "w").astype(exact)
        return np.asarray(scales.astype(np.float64) / np.float64(get_scale(layer, "y")))
    product = np.float32(alpha) * get_scale(layer, "x") * get_scale(layer, "w")
    return np.asarray(product / get_scale(layer, "y") if "y" in layer.attributes else product)


def multipliers(
    factors: np.ndarray, bits: int = 31, least: int = 1, most: int = 62
) -> tuple[np.ndarray, np.ndarray]:
    """Integers m of 31 bits and shifts s, 1 to 62, so that round(sum * factor), ties upwards, is
    `(sum * m + 2**(s - 1)) >> s` for sums of 32 bits. factors: float32, above 0. bits, least, most: others, for smaller sums.

    A factor has 24 bits, so that m / 2**s is the factor itself; where s would have to be larger or smaller, all
    results are zero, or beyond every byte. Factors in float64 are of layers that round twice: `double_multipliers`.

    >>> multipliers(np.float32([0.5, 0.1]))
    (array([1073741824, 1717986944]), array([31, 34]))
    """
    if factors.dtype == np.float64:
        return double_multipliers(factors)
    mantissa, exponent = np.frexp(factors.astype(np.float64))
    m, s = (mantissa * 2.0**bits).astype(np.int64), bits - exponent.astype(np.int64)
    m = np.where(s < least, 2**bits - 1, m >> np.clip(s - most, 0, 62))
    return m, np.clip(s, least, most)


def double_multipliers(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers m of 31 bits and exponents e of factors m / 2**31 * 2**e, as `e - TWICE`, which is below 0.

    Source: QuantizeMultiplier in tensorflow/lite/kernels/internal/quantization_util.cc, and in common.h
    MultiplyByQuantizedMultiplier without TFLITE_SINGLE_ROUNDING: the product with m / 2**31 is rounded to the nearest
    integer, ties upwards, then that with 2**e, ties away from zero.
    """
    mantissa, exponent = np.frexp(factors)
    m = np.rint(mantissa * 2.0**31).astype(np.int64)
    carried = m == 1 << 31
    m, e = np.where(carried, 1 << 30, m), exponent.astype(np.int64) + carried
    m, e = np.where(e < -31, 0, m), np.where(e < -31, 0, e)
    return m, np.minimum(e, 30) - TWICE


def wide_multipliers(m: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers of 15 bits and shifts, of the exponents of `double_multipliers`.

    Source: MultiplyByQuantizedMultiplier of 64 bits in common.cc: sums of integers of 16 bits are rounded once.
    """
    return np.minimum((m + (1 << 15)) >> 16, (1 << 15) - 1), 15 - (e + TWICE)


TWICE = 32
"""What exponents of layers that round twice are less by than they say, to be told from shifts."""


def shift_steps(m: np.ndarray, s: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Multipliers and shifts, of which each pair makes sums `(sum * m + 2**(s - 1)) >> s`: one, or two of layers that
    round twice. The second of these multiplies by a little more than 1, which takes ties away from zero.
    """
    if np.all(s > 0):
        return [(m, s)]
    e = s + TWICE
    more = m << np.maximum(e, 0), np.full_like(s, 31)
    return [more, (np.full_like(s, (1 << 31) + 1), np.maximum(-e, 0) + 31)]


def shift_exactly(values: np.ndarray, by: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Integers of 64 bits times multipliers, shifted and rounded as pairs of `multipliers` say."""
    for m, s in shift_steps(*by):
        values = (values * m + (np.int64(1) << (s - 1))) >> s
    return values


HALF = 15
"""Bits of the lower half of a multiplier of bytes: products with either half, and their sums, have 32 bits."""

OF_BYTES = 2 * HALF - 1, HALF, 3 * HALF
"""Bits of a multiplier of bytes or of products of two, and its least and largest shift: see `multipliers`."""


def use_shifts(layer: Layer, twice: bool = False) -> Layer:
    """The layer with results that become bytes by integers alone (`multipliers`), if it has such. twice: rounded as
    TensorFlow Lite Micro does.
    """
    rescales = layer.op_type in _RESCALING and "y" in layer.attributes
    if layer.op_type == "QLinearAdd":
        # terms that are each far beyond every byte may cancel each other
        factors = [get_scale(layer, role) / get_scale(layer, "y") for role in "xw"]
        rescales = twice or max(factors) < 2 ** (HALF - 1)
    way = "twice" if twice else "integer"
    return set_attributes(layer, requantize=way) if rescales else layer


def uses_shifts(layer: Layer) -> bool:
    """Whether `use_shifts` said so."""
    return "requantize" in layer.attributes


def rounds_twice(layer: Layer) -> bool:
    """Whether `use_shifts` said so; of sums of 64 bits, which are rounded once, too."""
    return layer.attributes.get("requantize") in ("twice", "wide")


_RESCALING = frozenset(
    (
        *("QLinearConv", "QLinearMatMul", "QGemm", "QLinearAdd", "QLinearMul"),
        *("QLinearAveragePool", "QLinearGlobalAveragePool"),
    )
)


def shift_sums(
    sums: np.ndarray, by: tuple[np.ndarray, np.ndarray], zero: int, low: int, high: int, met: Met
) -> list[Call]:
    """Calls that make integers of 64 bits those of the output, in place. by: multipliers and shifts, which meet them by `met`."""
    calls = []
    for m, s in shift_steps(*by):
        calls += [met(np.multiply, m), met(np.add, np.int64(1) << (s - 1)), met(np.right_shift, s)]
    return [
        *calls,
        (np.add, (sums, np.int64(zero), sums)),
        (np.ndarray.clip, (sums, np.int64(low), np.int64(high), sums)),
    ]


Met = Callable[[np.ufunc, np.ndarray], Call]
"""The call that applies a function of two operands to sums and these numbers."""


class Channelwise:
    """Numbers for the channels of sums, float32 or float64: one for all, or one each.

    Numpy's loops over few channels are slow, so that the numbers are kept repeated, and meet as many
    neighbouring pixels at a time as they are repeated for.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.asarray(values)
        several = -(-_TOGETHER // self.values.size) if self.values.size > 1 else 1
        self._repeated = np.tile(self.values, several) if several > 1 else self.values

    def met(self, function: np.ufunc, sums: np.ndarray, out: np.ndarray) -> Call:
        """The call that applies a function to sums (..., channels) and the numbers."""
        size = self.values.size
        if size == 1 or not (sums.flags.c_contiguous and out.flags.c_contiguous):
            return (function, (sums, self.values, out))
        row = size * _divisor(sums.size // size, len(self._repeated) // size)
        return (function, (sums.reshape(-1, row), self._repeated[:row], out.reshape(-1, row)))

    def between(self, channels: slice) -> Channelwise:
        """The same for some of the channels."""
        return self if self.values.size == 1 else Channelwise(self.values[channels])


_TOGETHER = 512
"""Elements of a row of pixels that meet numbers of channels at a time."""


@lru_cache(maxsize=1 << 10)
def _divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most so large.

    >>> _divisor(112, 20), _divisor(13, 4)
    (16, 1)
    """
    return next(d for d in range(max(1, min(number, most)), 0, -1) if number % d == 0)


@dataclass(frozen=True, slots=True, eq=False)
class Rescaled:
    """What becomes of sums, plus a bias in their type: round(sum * factor) + zero, from low to high.

    factor: float32, one number or one a channel; None: the sums are integers of the output already.
    rounds: False for an output of values, which are sum * factor. shifts: whether the product is one of integers and a
    shift (`multipliers`), ties upwards; else it is one of float32, ties to even. wide: by `wide_multipliers`.
    """

    factor: Channelwise | None
    bias: Channelwise | None = None
    rounds: bool = True
    zero: int = 0
    low: int = 0
    high: int = 0
    shifts: bool = False
    wide: bool = False
    _parts: dict[tuple[int, int], Rescaled] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, layer: Layer, alpha: float = 1.0) -> Rescaled:
        """For the output format of a layer."""
        if "y" not in layer.attributes and layer.output.dtype == "int32":
            return cls(None)
        factor = Channelwise(rescale_factor(layer, alpha))
        if "y" not in layer.attributes:
            return cls(factor, rounds=False)
        bounds = limits(layer.attributes["y"].dtype)
        wide = layer.attributes.get("requantize") == "wide"
        return cls(factor, None, True, get_zero(layer, "y"), *bounds, uses_shifts(layer), wide)

    def biased(self, bias: np.ndarray | None) -> Rescaled:
        """The same with a bias."""
        return self if bias is None else replace(self, bias=Channelwise(bias))

    def between(self, channels: slice) -> Rescaled:
        """The same for some of the channels, which are requested again and again."""
        key = channels.start, channels.stop
        if key not in self._parts:
            bias, factor = (
                None if one is None else one.between(channels) for one in (self.bias, self.factor)
            )
            self._parts[key] = replace(self, factor=factor, bias=bias)
        return self._parts[key]

    def in_place(self, sums: np.ndarray) -> list[Call]:
        """Calls that leave the results where the sums were."""
        calls, narrow = self._made(sums)
        return calls if narrow is sums else [*calls, (np.copyto, (sums, narrow))]

    def calls(self, sums: np.ndarray, out: np.ndarray) -> list[Call]:
        """Calls that write the results into the output; the sums are lost."""
        if self.factor is not None and not self.rounds:
            return self._made(sums, out)[0]
        calls, narrow = self._made(sums)
        return [*calls, (np.copyto, (out, narrow, "unsafe"))]

    def _made(
        self, sums: np.ndarray, out: np.ndarray | None = None
    ) -> tuple[list[Call], np.ndarray]:
        """Calls for the results, and where: float32 in the bytes of the sums, or values in `out`."""
        before = [] if self.bias is None else [self.bias.met(np.add, sums, sums)]
        if self.factor is None:
            return before, sums
        if self.shifts:
            return [*before, *self._shifted(sums)], sums.view(np.int64)
        calls, narrow = round_to_float32(sums)
        made = narrow if out is None else out
        calls = [*before, *calls, self.factor.met(np.multiply, narrow, made)]
        return calls + (
            round_values(made, self.zero, self.low, self.high) if self.rounds else []
        ), made

    def _shifted(self, sums: np.ndarray) -> list[Call]:
        """Calls that make the results in the bytes of sums in float64, as integers of 64 bits."""
        assert self.factor is not None and sums.dtype == np.float64
        made = sums.view(np.int64)
        by = multipliers(self.factor.values)
        by = wide_multipliers(*by) if self.wide else by
        calls = shift_sums(
            made, by, self.zero, self.low, self.high, lambda f, x: Channelwise(x).met(f, made, made)
        )
        return [(np.copyto, (made, sums, "unsafe")), *calls]


def round_to_float32(sums: np.ndarray) -> tuple[list[Call], np.ndarray]:
    """Calls that round sums to float32, in the same bytes, as integers of 32 bits are when they
    become values; and where they are.
    """
    if sums.dtype == np.float32:
        return [], sums
    narrow = sums.view(np.float32)[..., ::2]
    return [(np.copyto, (narrow, sums))], narrow


def round_values(values: np.ndarray, zero: int | np.ndarray, low: int, high: int) -> list[Call]:
    """Calls that round values in place, half to even, and add a zero point, from low to high. zero: a
    number, or an array in the type of the values, known then or later.
    """
    number: Any = values.dtype.type
    calls: list[Call] = [(np.rint, (values, values))]
    if isinstance(zero, np.ndarray):
        calls.append((np.add, (values, zero, values)))
    elif zero:
        calls.append((np.add, (values, number(zero), values)))
    return [*calls, (np.ndarray.clip, (values, number(low), number(high), values))]


def build_table(function: Any, x: Format, y: Format) -> np.ndarray:
    """An output for each of the 256 inputs of one byte, by the byte: what a function of one value
    becomes on quantized tensors.

    function: float32 array -> float32 array.
    """
    assert x.scale is not None and x.zero_point is not None
    assert y.scale is not None and y.zero_point is not None
    integers = np.arange(256, dtype=np.uint8).view(x.dtype).astype(np.int32)
    values = np.float32(x.scale[0]) * (integers - x.zero_point[0]).astype(np.float32)
    quotients = np.asarray(function(values), np.float32) / np.float32(y.scale[0])
    low, high = limits(y.dtype)
    return np.clip(np.rint(quotients) + y.zero_point[0], low, high).astype(y.dtype)
