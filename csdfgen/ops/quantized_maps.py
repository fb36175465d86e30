"""Operators on quantized tensors, element by element: QLinearAdd, QLinearMul, functions of one byte;
and QLinearConcat, which translates formats as it copies.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. All are operators
of onnxruntime's own domain, and their outputs are equal to the last bit: each rounds where onnxruntime
does. A function of one byte is a table of 256.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from sys import byteorder
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, remembered
from csdfgen.ops._operands import with_attributes
from csdfgen.ops.base import MICROSOFT, Alias, Call, Emit, Operator, Scratch
from csdfgen.ops.elementwise import Task, elementwise, same
from csdfgen.ops.integers import (
    BYTES,
    byte_operand,
    byte_output,
    factor_of,
    limits,
    of_bytes,
    rounded,
    scale_of,
    table_of,
    zero_of,
)
from csdfgen.ops.joining import CONCAT, concat_kernel
from csdfgen.ops.primitives import looked_up
from csdfgen.ops.reducing import in_blocks

__all__ = ["OPERATORS", "Addends", "function_table", "looked_up_bytes", "translated"]


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
        by = scale_of(layer, "y")
        factors = [np.float64(np.float32(scale_of(layer, role) / by)) for role in "xw"]
        zeros = [zero_of(layer, role) for role in "xw"]
        moved = np.float32(factors[0] * zeros[0] + np.float64(np.float32(factors[1] * zeros[1])))
        first = 1 if first_alone(layer) else 0
        rest = np.float32(np.float32(zero_of(layer, "y")) - moved)
        return cls(first, np.float32(factors[first]), np.float32(factors[1 - first]), rest)


@remembered
def _sums_of_bytes(layer: Layer) -> np.ndarray:
    """The output for each pair of bytes of a QLinearAdd: of the first operand's 256 times the second's."""
    sums = Addends.of(layer)
    found = [
        np.arange(256, dtype=np.uint8).view(layer.attributes[role].dtype).astype(np.float64)
        for role in "xw"
    ]
    inner = found[1 - sums.first] * np.float64(sums.other) + np.float64(sums.rest)
    found[1 - sums.first] = inner.astype(np.float32).astype(np.float64)
    found[sums.first] = found[sums.first] * np.float64(sums.factor)
    values = (found[0][:, None] + found[1]).astype(np.float32)
    rounded_ = np.clip(np.rint(values), *limits(layer.output.dtype))
    return rounded_.astype(layer.output.dtype).reshape(-1)


def first_alone(layer: Layer) -> bool:
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


def _add(task: Task) -> list[Call]:
    """Both bytes make an index, of which they are the lowest two bytes."""
    index = task.scratch.take(task.out.shape, "intp")
    parts = index.view(np.uint8).reshape(*index.shape, index.itemsize)
    a, b = (operand.view(np.uint8) for operand in task.operands)
    return [
        (index.fill, (0,)),
        (np.copyto, (parts[..., _HIGH], a)),
        (np.copyto, (parts[..., _LOW], b)),
        (looked_up, (_sums_of_bytes(task.layer), index, task.out)),
    ]


def _multiply(task: Task) -> list[Call]:
    """The zero point is added before rounding here."""
    factor = factor_of(task.layer)
    calls: list[Call] = []
    differences = []
    for array, role in zip(task.operands, "xw", strict=True):
        zero = zero_of(task.layer, role)
        if zero:
            moved = task.scratch.take(array.shape, array.dtype)
            calls.append((np.subtract, (array, task.scalar(zero), moved)))
            array = moved
        differences.append(array)
    return [
        *calls,
        (np.multiply, (*differences, task.out)),
        (np.multiply, (task.out, factor, task.out)),
        (np.add, (task.out, task.scalar(zero_of(task.layer, "y")), task.out)),
        *rounded(task.out, 0, *limits(task.layer.output.dtype)),
    ]


def _two(
    op_type: str,
    recipe: Callable[[Task], list[Call]],
    compute_in: Callable[[str], str] | None = None,
) -> Operator:
    base = elementwise(
        op_type,
        recipe,
        same(BYTES),
        operands=2,
        since=1,
        compute_in=compute_in,
        constant_inputs=frozenset({1, 2, 4, 5, 6, 7}),
    )
    return replace(base, build=of_bytes(base.build, operands=2), domain=MICROSOFT)


# Functions of one byte ---------------------------------------------------------------------------


def _logistic(layer: Layer) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: 1 / (1 + np.exp(-x.astype(np.float64)))


def _leaky(layer: Layer) -> Callable[[np.ndarray], np.ndarray]:
    alpha = np.float32(layer.attributes["alpha"])
    return lambda x: np.where(x >= 0, x, alpha * x)


def _by_table(task: Task) -> list[Call]:
    index = task.temporary(np.intp)
    return looked_up_bytes(function_table(task.layer), task.x, index, task.out)


_FUNCTIONS = {"QLinearSigmoid": _logistic, "QLinearLeakyRelu": _leaky}


@remembered
def function_table(layer: Layer) -> np.ndarray:
    """The output for each byte of a QLinearSigmoid or a QLinearLeakyRelu."""
    function = _FUNCTIONS[layer.op_type](layer)
    return table_of(function, layer.attributes["x"], layer.attributes["y"])


def looked_up_bytes(
    table: np.ndarray, x: np.ndarray, index: np.ndarray, out: np.ndarray
) -> list[Call]:
    """Calls that write table[byte] of every element; `index` is room for as many intp."""
    return [(np.copyto, (index, x.view(np.uint8))), (looked_up, (table, index, out))]


def _function(
    op_type: str,
    **attributes: Any,
) -> Operator:
    base = elementwise(
        op_type,
        _by_table,
        same(BYTES),
        since=1,
        attributes=attributes,
        constant_inputs=frozenset({1, 2, 3, 4}),
        notes="a table of 256",
    )
    return replace(base, build=of_bytes(base.build), domain=MICROSOFT)


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
    return with_attributes(layer, operands=forms, y=y)


@remembered
def translated(layer: Layer) -> dict[int, np.ndarray]:
    """Tables of the operands whose formats are not the output's."""
    y = layer.attributes["y"]
    return {
        k: table_of(lambda values: values, x, y)
        for k, x in enumerate(layer.attributes["operands"])
        if (x.scale, x.zero_point) != (y.scale, y.zero_point)
    }


def _concat_aliases(layer: Layer) -> tuple[Alias, ...]:
    """Operands in the format of the output may be stored in it."""
    other = translated(layer)
    return tuple(alias for alias in CONCAT.aliases(layer) if alias.position not in other)


def _concat_kernel(layer: Layer) -> Emit:
    """That of a Concat, but operands of another format are looked up on the way."""
    tables = translated(layer)
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
            return looked_up_bytes(tables[position], x, taken.take(out.shape, "intp"), out)

        return in_blocks(make, (target, source), range(target.ndim), scratch)

    return concat_kernel(replace(layer, constants=MappingProxyType(constants)), copied)


# The records -------------------------------------------------------------------------------------

OPERATORS: tuple[Operator, ...] = (
    _two("QLinearAdd", _add),
    _two("QLinearMul", _multiply, lambda dtype: "float32"),
    _function("QLinearSigmoid"),
    _function("QLinearLeakyRelu", alpha=0.01),
    replace(
        CONCAT,
        op_type="QLinearConcat",
        build=_build_concat,
        kernel=_concat_kernel,
        aliases=_concat_aliases,
        since=1,
        domain=MICROSOFT,
        notes="operands of the output's own scale and zero point need no copy",
    ),
)
