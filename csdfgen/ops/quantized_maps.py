"""Operators on quantized tensors, element by element: QLinearAdd, QLinearMul, functions of one byte,
QLinearSoftmax; and QLinearConcat, which translates formats as it copies.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. All are operators
of onnxruntime's own domain, and their outputs are equal to the last bit: each rounds where onnxruntime
does, or once by integers alone (`integers.use_shifts`). A function of one byte is a table of 256, of two bytes one of 65,536.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor, log, prod
from sys import byteorder
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import (
    first_input_rows,
    normalize_axis,
    one_input_layer,
    output_elements,
    set_attributes,
)
from csdfgen.ops.base import MICROSOFT, Alias, Call, Emit, Mode, Operator, Scratch, Work, align_size
from csdfgen.ops.elementwise import Task, elementwise, same_types
from csdfgen.ops.integers import (
    BYTES,
    OF_BYTES,
    build_byte_layer,
    build_table,
    byte_operand,
    byte_output,
    get_scale,
    get_zero,
    limits,
    multipliers,
    rescale_factor,
    rounds_twice,
    shift_exactly,
    uses_shifts,
)
from csdfgen.ops.joining import CONCAT, concat_kernel
from csdfgen.ops.micro import find_micro_table
from csdfgen.ops.primitives import look_up, maximum
from csdfgen.ops.reducing import data_input, has_separate_rows, slab_dims, split_into_blocks

# Sums and products of two tensors ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Addends:
    """A sum of bytes before it is rounded: `a * factor` and what `b * other + rest` gave, each a fused
    multiply-add in float32, as onnxruntime has them where the processor can.

    first: the position of a.
    """

    first: int
    factor: np.float32
    other: np.float32
    rest: np.float32

    @classmethod
    def of(cls, layer: Layer) -> Addends:
        """Of a QLinearAdd."""
        by = get_scale(layer, "y")
        factors = [np.float64(np.float32(get_scale(layer, role) / by)) for role in "xw"]
        zeros = [get_zero(layer, role) for role in "xw"]
        moved = np.float32(factors[0] * zeros[0] + np.float64(np.float32(factors[1] * zeros[1])))
        first = 1 if is_first_broadcast(layer) else 0
        rest = np.float32(np.float32(get_zero(layer, "y")) - moved)
        return cls(first, np.float32(factors[first]), np.float32(factors[1 - first]), rest)


@dataclass(frozen=True, slots=True)
class Shifted:
    """A sum or a product of bytes by integers alone: `(x * m[0] + y * m[1] + rest) >> shift`, of a product p
    `(p * m[0] + rest) >> shift`, to which the zero point is then added. Rounded to the nearest, ties upwards.

    The shift of a sum is that of the larger factor, whose 24 bits it keeps.
    """

    m: tuple[int, ...]
    rest: int
    shift: int

    @classmethod
    def of(cls, layer: Layer) -> Shifted:
        """Of a QLinearAdd or a QLinearMul."""
        if layer.op_type == "QLinearMul":
            m, s = multipliers(rescale_factor(layer), *OF_BYTES)
            return cls((int(m),), 1 << (int(s) - 1), int(s))
        factors = np.array([get_scale(layer, role) / get_scale(layer, "y") for role in "xw"])
        _, s = multipliers(factors.max(), *OF_BYTES)
        both = [round(float(factor) * 2 ** int(s)) for factor in factors]
        moved = sum(m * get_zero(layer, role) for m, role in zip(both, "xw", strict=True))
        return cls(tuple(both), (1 << (int(s) - 1)) - moved, int(s))


def _every_byte(layer: Layer, dtype: str) -> list[np.ndarray]:
    """The 256 values of both operands, in a type."""
    every = np.arange(256, dtype=np.uint8)
    return [every.view(layer.attributes[role].dtype).astype(dtype) for role in "xw"]


def double_pairs(layer: Layer) -> list[tuple[np.ndarray, np.ndarray]]:
    """Multipliers and exponents of a QLinearMul or a QLinearAdd that rounds twice: of products, or of both terms times
    `FINER` and of their sums.

    Source: tensorflow/lite/kernels/internal/reference/integer_ops/add.h and mul.h.
    """
    if layer.op_type == "QLinearMul":
        return [multipliers(rescale_factor(layer))]
    x, w, y = (get_scale(layer, role).astype(np.float64) for role in "xwy")
    most = 2 * max(x, w)
    return [multipliers(np.asarray(factor)) for factor in (x / most, w / most, most / (FINER * y))]


FINER = 1 << 20
"""By what sums of bytes that round twice are larger before their last factor."""


def _rounded_twice(layer: Layer) -> np.ndarray:
    """Sums or products of all pairs of bytes, less the zero point of the output."""
    both = [
        values - get_zero(layer, role)
        for values, role in zip(_every_byte(layer, "int64"), "xw", strict=True)
    ]
    *terms, last = double_pairs(layer)
    if not terms:
        return shift_exactly(both[0][:, None] * both[1], last)
    x, y = (shift_exactly(FINER * values, by) for values, by in zip(both, terms, strict=True))
    return shift_exactly(x[:, None] + y, last)


@memoize_layer
def pair_table(layer: Layer) -> np.ndarray:
    """The output for each pair of bytes: of the first operand's 256 times the second's."""
    of_sums = layer.op_type == "QLinearAdd"
    low, high = limits(layer.output.dtype)
    if rounds_twice(layer):
        values = _rounded_twice(layer) + get_zero(layer, "y")
    elif uses_shifts(layer):
        by, (x, y) = Shifted.of(layer), _every_byte(layer, "int64")
        if of_sums:
            values = (x * by.m[0])[:, None] + y * by.m[1]
        else:
            values = (x - get_zero(layer, "x"))[:, None] * (y - get_zero(layer, "w")) * by.m[0]
        values = ((values + by.rest) >> by.shift) + get_zero(layer, "y")
    else:
        values = np.rint((_sums if of_sums else _products)(layer))
    return np.clip(values, low, high).astype(layer.output.dtype).reshape(-1)


def _products(layer: Layer) -> np.ndarray:
    """Products of two bytes as floats: the zero point is added before rounding here."""
    x, y = _every_byte(layer, "float32")
    differences = (x - np.float32(get_zero(layer, "x")))[:, None] * (
        y - np.float32(get_zero(layer, "w"))
    )
    return differences * rescale_factor(layer) + np.float32(get_zero(layer, "y"))


def _sums(layer: Layer) -> np.ndarray:
    """Sums of two bytes as floats."""
    sums, found = Addends.of(layer), _every_byte(layer, "float64")
    inner = found[1 - sums.first] * np.float64(sums.other) + np.float64(sums.rest)
    found[1 - sums.first] = inner.astype(np.float32).astype(np.float64)
    found[sums.first] = found[sums.first] * np.float64(sums.factor)
    return (found[0][:, None] + found[1]).astype(np.float32)


def is_first_broadcast(layer: Layer) -> bool:
    """Whether one element of the first operand meets many of the second: then it comes first."""
    shapes = [
        layer.constants[k].shape if tensor is None else tensor.shape
        for k, tensor in enumerate(layer.inputs[:2])
    ]
    rank = len(layer.output.shape)
    padded = [(*(1,) * (rank - len(shape)), *shape) for shape in shapes]
    for first, second in zip(padded[0][::-1], padded[1][::-1], strict=True):
        if (first, second) != (1, 1):
            return first == 1
    return True


_LOW = 0 if byteorder == "little" else np.dtype(np.intp).itemsize - 1
"""Where the lowest byte of an integer is, and on which side of it the one above."""
_HIGH = _LOW + 1 if byteorder == "little" else _LOW - 1


def _by_table_of_two(task: Task) -> list[Call]:
    """Both bytes make an index, of which they are the lowest two bytes."""
    index = task.scratch.take(task.out.shape, "intp")
    parts = index.view(np.uint8).reshape(*index.shape, index.itemsize)
    a, b = (operand.view(np.uint8) for operand in task.operands)
    return [
        (index.fill, (0,)),
        (np.copyto, (parts[..., _HIGH], a)),
        (np.copyto, (parts[..., _LOW], b)),
        (look_up, (pair_table(task.layer), index, task.out)),
    ]


def _two(op_type: str) -> Operator:
    base = elementwise(
        op_type,
        _by_table_of_two,
        same_types(BYTES),
        operands=2,
        since=1,
        constant_inputs=frozenset({1, 2, 4, 5, 6, 7}),
    )
    return replace(base, build=build_byte_layer(base.build, operands=2), domain=MICROSOFT)


# Functions of one byte ---------------------------------------------------------------------------


def _logistic(layer: Layer) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: 1 / (1 + np.exp(-x.astype(np.float64)))


def _leaky(layer: Layer) -> Callable[[np.ndarray], np.ndarray]:
    alpha = np.float32(layer.attributes["alpha"])
    return lambda x: np.where(x >= 0, x, alpha * x)


def _by_table(task: Task) -> list[Call]:
    index = task.temporary(np.intp)
    return look_up_bytes(function_table(task.layer), task.x, index, task.out)


_FUNCTIONS = {"QLinearSigmoid": _logistic, "QLinearLeakyRelu": _leaky}


@memoize_layer
def function_table(layer: Layer) -> np.ndarray:
    """The output for each byte of a QLinearSigmoid or a QLinearLeakyRelu."""
    x, y = layer.attributes["x"], layer.attributes["y"]
    found = find_micro_table(layer, x, y)
    return build_table(_FUNCTIONS[layer.op_type](layer), x, y) if found is None else found


def look_up_bytes(
    table: np.ndarray, x: np.ndarray, index: np.ndarray, out: np.ndarray
) -> list[Call]:
    """Calls that write table[byte] of every element; `index` is room for as many intp."""
    return [(np.copyto, (index, x.view(np.uint8))), (look_up, (table, index, out))]


def _function(op_type: str, **attributes: Any) -> Operator:
    base = elementwise(
        op_type,
        _by_table,
        same_types(BYTES),
        since=1,
        attributes=attributes,
        constant_inputs=frozenset({1, 2, 3, 4}),
        notes="a table of 256 entries",
    )
    return replace(base, build=build_byte_layer(base.build), domain=MICROSOFT)


# QLinearConcat -----------------------------------------------------------------------------------


def _build_concat(node: Node) -> Layer:
    count = (len(node.inputs) - 2) // 3
    if count < 1 or len(node.inputs) != 2 + 3 * count:
        raise ModelError(
            f"has {len(node.inputs)} inputs; scale and zero point of the output, then tensor, scale and "
            "zero point of each operand are needed"
        )
    places = range(2, len(node.inputs), 3)
    forms = tuple(byte_operand(node, k, f"input {k}", k + 1, k + 2) for k in places)
    layer = CONCAT.build(replace(node, inputs=tuple(node.operand(k) for k in places)))
    y = byte_output(node, 0, 1, forms[0])
    return set_attributes(layer, operands=forms, y=y)


@memoize_layer
def translation_tables(layer: Layer) -> dict[int, np.ndarray]:
    """Tables of the operands whose formats are not the output's."""
    y = layer.attributes["y"]
    return {
        k: build_table(lambda values: values, x, y)
        for k, x in enumerate(layer.attributes["operands"])
        if (x.scale, x.zero_point) != (y.scale, y.zero_point)
    }


def _concat_aliases(layer: Layer) -> tuple[Alias, ...]:
    """Operands in the format of the output may be stored in it."""
    other = translation_tables(layer)
    return tuple(alias for alias in CONCAT.aliases(layer) if alias.position not in other)


def _concat_kernel(layer: Layer) -> Emit:
    """That of a Concat, but operands of another format are looked up on the way."""
    tables = translation_tables(layer)
    constants = {
        k: tables[k][array.view(np.uint8)] if k in tables else array
        for k, array in layer.constants.items()
    }

    def copied(
        position: int, target: np.ndarray, source: np.ndarray, scratch: Scratch
    ) -> list[Call]:
        if position not in tables:
            return [(np.copyto, (target, source))]

        def make(arrays: Sequence[np.ndarray], taken: Scratch) -> list[Call]:
            out, x = arrays
            return look_up_bytes(tables[position], x, taken.take(out.shape, "intp"), out)

        return split_into_blocks(make, (target, source), range(target.ndim), scratch)

    return concat_kernel(replace(layer, constants=MappingProxyType(constants)), copied)


# QLinearSoftmax: powers by a table, a sum in order, shares rounded -------------------------------


def _build_softmax(node: Node) -> Layer:
    x = byte_operand(node, 0, "the input", 1, 2)
    tensor = data_input(node, BYTES, least_rank=1)
    rank, opset = len(tensor.shape), int(node.attributes.get("opset", 0))
    if opset < 1:
        raise ModelError("attribute 'opset' is missing")
    given, default = node.attributes.get("axis"), -1 if opset >= 13 else 1
    axis = normalize_axis(default if given is None else int(given), rank)
    return one_input_layer(
        node,
        tensor,
        replace(tensor, name=node.outputs[0]),
        axes=(axis,) if opset >= 13 else tuple(range(axis, rank)),
        x=x,
        y=byte_output(node, 3, 4, x),
    )


def _apart(layer: Layer) -> bool:
    return has_separate_rows(layer.output, layer.attributes["axes"])


def softmax_powers(layer: Layer) -> np.ndarray:
    """exp of every difference from the largest, -255 to 0, times what keeps the sum within float32: shape (256,). That is 2^-64
    of onnxruntime's, so that no product with `softmax_scale` is infinite: no bit of a share is another.
    """
    scale, terms = float(get_scale(layer, "x")), _terms(layer)
    most = float(np.float32(np.finfo(np.float32).max) / np.float32(terms))
    room = max(0.0, log(most) - 5) / scale
    return (np.exp((np.arange(256) - 255 + room) * scale) * 2.0**-64).astype(np.float32)


def softmax_scale(layer: Layer) -> np.float32:
    """What a share of 1 is in integers of the output, without their zero point."""
    return np.float32(floor(np.float32(1) / get_scale(layer, "y")))


def _terms(layer: Layer) -> int:
    return prod(layer.output.shape[axis] for axis in layer.attributes["axes"])


_PART = 128
"""Terms of a long softmax that are worked on at a time; two of them are all bytes."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """Powers become integers of the output: power * whole / sum, rounded."""

    whole: np.float32
    zero: int
    low: int
    high: int

    def calls(self, powers: np.ndarray, total: np.ndarray, index: np.ndarray) -> list[Call]:
        """Calls that leave the integers in `index`; the powers are lost."""
        low, high = np.float32(self.low - self.zero), np.float32(self.high - self.zero)
        calls: list[Call] = [
            (np.multiply, (powers, self.whole, powers)),
            (np.divide, (powers, total, powers)),
            (np.rint, (powers, powers)),
            (np.ndarray.clip, (powers, low, high, powers)),
            (np.copyto, (index, powers, "unsafe")),
        ]
        return [*calls, (np.add, (index, np.intp(self.zero), index))] if self.zero else calls


def _line(x: np.ndarray) -> tuple[int | slice, ...] | None:
    """What makes a slab an array of one dimension; None where more than one has several elements."""
    if x.size != max(x.shape):
        return None
    along = x.shape.index(x.size)
    return tuple(slice(None) if d == along else 0 for d in range(x.ndim))


def _softmax_kernel(layer: Layer) -> Emit:
    tensor, axes = layer.output, layer.attributes["axes"]
    terms, table = _terms(layer), softmax_powers(layer)
    into = _Shares(softmax_scale(layer), get_zero(layer, "y"), *limits(layer.attributes["y"].dtype))
    dims = [slab_dims(tensor, (axis,))[0] for axis in axes]  # in ONNX order, in which sums go on

    def emit(work: Work) -> list[Call]:
        slab, result = work.slab, work.result
        x, out = (np.moveaxis(a, dims, range(-len(dims), 0)) for a in (slab, result))
        flat = (*x.shape[: x.ndim - len(dims)], terms)
        line = _line(x)
        if line is not None and terms > _PART and work.scratch.room < _at_once(terms):
            return _softmax_in_parts(x[line], out[line], table, into, work.scratch)
        index, top = work.scratch.take(flat, "intp"), work.scratch.take((*flat[:-1], 1), "intp")
        powers = work.scratch.take(flat, "float32")
        sums = index.view(np.float32)[..., :terms]  # in its bytes, between its two uses
        return [
            (np.copyto, (index.reshape(x.shape), x)),
            (np.maximum.reduce, (index, (index.ndim - 1,), None, top, True)),
            (np.subtract, (index, top, index)),
            (np.add, (index, np.intp(255), index)),
            (look_up, (table, index, powers)),
            (np.add.accumulate, (powers, powers.ndim - 1, None, sums)),
            *into.calls(powers, sums[..., -1:], index),
            (np.copyto, (out, index.reshape(out.shape), "unsafe")),
        ]

    return emit


def _at_once(terms: int) -> int:
    """Bytes of workspace in which all of a line is worked on at once: index, largest, powers."""
    return align_size(align_size(8 * terms) + 8) + 4 * terms


def _softmax_in_parts(
    x: np.ndarray, out: np.ndarray, table: np.ndarray, into: _Shares, scratch: Scratch
) -> list[Call]:
    """One line of bytes, a part of it after the other: the same sum in the same order, in a fraction of
    the workspace. What each of the bytes becomes is worked out once, and looked up.
    """
    top, largest = scratch.take((1,), "intp"), scratch.take((1,), "intp")
    index, becomes = scratch.take((_PART,), "intp"), scratch.take((256,), x.dtype)
    powers, sums = scratch.take((_PART + 1,)), scratch.take((_PART + 1,))
    total = scratch.take((1,))
    parts = [slice(at, at + _PART) for at in range(0, len(x), _PART)]
    calls: list[Call] = []
    for part in parts:
        some, own = x[part], index[: len(x[part])]
        calls += [
            (np.copyto, (own, some)),
            (np.maximum.reduce, (own, (0,), None, largest, True)),
            (np.copyto, (top, largest)) if part.start == 0 else (maximum, (top, largest, top)),
        ]
    calls += [(np.subtract, (np.intp(255), top, top)), (total.fill, (0,))]
    for part in parts:
        some, own = x[part], index[: len(x[part])]
        stop = len(some) + 1
        calls += [
            (np.copyto, (own, some)),
            (np.add, (own, top, own)),
            (look_up, (table, own, powers[1:stop])),
            (np.copyto, (powers[:1], total)),  # what the parts before came to
            (np.add.accumulate, (powers[:stop], 0, None, sums[:stop])),
            (np.copyto, (total, sums[stop - 1 : stop])),
        ]
    for at in range(0, 256, _PART):
        some = powers[:_PART]
        calls += [
            (np.copyto, (some, table[at : at + _PART])),
            *into.calls(some, total, index),
            (np.copyto, (becomes[at : at + _PART], index, "unsafe")),
        ]
    for part in parts:
        own = index[: len(x[part])]
        calls += [
            (np.copyto, (own, x[part])),
            (np.add, (own, top, own)),
            (look_up, (becomes, own, out[part])),
        ]
    return calls


_SOFTMAX = Operator(
    "QLinearSoftmax",
    build=_build_softmax,
    input_rows=lambda layer, out: first_input_rows(
        layer, out if _apart(layer) else Rows(0, layer.output.rows)
    ),
    kernel=_softmax_kernel,
    cost=output_elements,
    since=1,
    mode=lambda layer: Mode.ROWS if _apart(layer) else Mode.WHOLE,
    shift_invariant=True,
    constant_inputs=frozenset({1, 2, 3, 4}),
    domain=MICROSOFT,
    attributes=MappingProxyType({"axis": None, "opset": 0}),
    structure="row-phased; whole along the row axis",
)


# The records -------------------------------------------------------------------------------------

OPERATORS: tuple[Operator, ...] = (
    _two("QLinearAdd"),
    _two("QLinearMul"),
    _function("QLinearSigmoid"),
    _function("QLinearLeakyRelu", alpha=0.01),
    _SOFTMAX,
    replace(
        CONCAT,
        op_type="QLinearConcat",
        build=_build_concat,
        kernel=_concat_kernel,
        aliases=_concat_aliases,
        constant_inputs=frozenset({0, 1}),
        since=1,
        domain=MICROSOFT,
        notes="operands with the output's scale and zero point need no copy",
    ),
)
