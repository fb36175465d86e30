"""The numpy calls of functions of several tensors: arithmetic, comparisons, choices, casts.

Source: https://onnx.ai/onnx/operators/. Types follow ONNX: operands agree (Pow and Where have
rules of their own), integers divide towards zero, comparisons give bool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import accumulator_type
from csdfgen.model.network import Layer, Node
from csdfgen.ops._operands import check_word
from csdfgen.ops.base import REQUIRED, Alias, AliasKind, Call, Operator
from csdfgen.ops.elementwise import (
    BOOL,
    EVERY,
    NUMERIC,
    Task,
    elementwise,
    first_operand_alias,
    in_place_aliases,
    same_types,
    single_call,
)
from csdfgen.ops.primitives import maximum, minimum
from csdfgen.ops.reducing import FLOATS, INTEGERS

# Arithmetic --------------------------------------------------------------------------------------


def _divide(task: Task) -> list[Call]:
    """a / b; for signed integers the exact quotient of a less its remainder of a's sign."""
    a, b = task.operands
    if task.out.dtype.kind != "i":
        return [(np.divide if task.out.dtype.kind == "f" else np.floor_divide, (a, b, task.out))]
    multiple = task.temporary()
    return [
        (np.fmod, (a, b, multiple)),
        (np.subtract, (a, multiple, multiple)),
        (np.floor_divide, (multiple, b, task.out)),
    ]


_POWERS: Mapping[float, Callable[..., Any]] = {
    -1.0: np.reciprocal,
    0.5: np.sqrt,
    1.0: np.positive,
    2.0: np.square,
}
"""Exponents for which numpy has a function, many times faster than np.power."""


def _pow_in(dtype: str) -> str:
    """Integers too are raised in floating point, as by onnxruntime, with any exponents."""
    return "float64" if dtype in INTEGERS else accumulator_type(dtype)


def _power(task: Task) -> list[Call]:
    x, exponent = task.operands
    if 1 in task.layer.constants and exponent.size == 1:
        value = exponent.item()
        if value in _POWERS:
            return [(_POWERS[value], (x, task.out))]
        if value == 3:
            square = task.temporary()
            return [(np.square, (x, square)), (np.multiply, (x, square, task.out))]
    return [(np.power, (x, exponent, task.out))]


def _pow_types(node: Node, dtypes: Sequence[str]) -> str:
    """The base's type; the exponent may have any other."""
    same_types(NUMERIC)(node, dtypes[1:])
    return same_types(NUMERIC)(node, dtypes[:1])


def _modulo(task: Task) -> list[Call]:
    return [(np.fmod if task.attribute("fmod") else np.remainder, (*task.operands, task.out))]


def _modulo_kind(node: Node, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    data = node.inputs[0]
    assert data is not None
    if str(data.dtype) in FLOATS and not attributes["fmod"] and node.opset < 28:
        raise ModelError(
            f"fmod=0 with type {data.dtype} before opset 28 (here {node.opset}); export fmod=1"
        )
    return attributes


def _folded(function: Callable[..., Any], mean: bool = False) -> Callable[[Task], list[Call]]:
    """function(function(a, b), c) ..., divided by the number of operands for the mean."""

    def recipe(task: Task) -> list[Call]:
        first, *rest = task.operands
        if not rest:
            return [(np.copyto, (task.out, first))]
        # A later operand may be the memory of `out`: all but the last step go to a temporary.
        total = task.temporary() if len(rest) > 1 else task.out
        calls: list[Call] = []
        for k, operand in enumerate(rest):
            target = task.out if k == len(rest) - 1 else total
            calls.append((function, (total if k else first, operand, target)))
        if mean:
            calls.append((np.divide, (task.out, task.scalar(len(task.operands)), task.out)))
        return calls

    return recipe


# Bits --------------------------------------------------------------------------------------------


def _shift(task: Task) -> list[Call]:
    """Bits that leave the type are lost; the sign comes after those that are shifted to the right."""
    function = np.left_shift if task.attribute("direction") == "LEFT" else np.right_shift
    return [(function, (*task.operands, task.out))]


def _shift_kind(node: Node, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    check_word(attributes["direction"], "direction", ("LEFT", "RIGHT"))
    return attributes


# Choice ------------------------------------------------------------------------------------------


def _where(task: Task) -> list[Call]:
    """y, then x over it: `out` must be neither x nor the condition (see `_over_y`)."""
    condition, x, y = task.operands
    return [(np.copyto, (task.out, y)), (np.copyto, (task.out, x, "same_kind", condition))]


def _where_types(node: Node, dtypes: Sequence[str]) -> str:
    same_types(BOOL)(node, dtypes[:1])
    return same_types(EVERY)(node, dtypes[1:])


def _over_y(layer: Layer) -> tuple[Alias, ...]:
    """Where writes y first: the result may overwrite y alone. The results of two branches, of which one is computed, may
    both be where the result is.
    """
    found = [alias for alias in in_place_aliases(layer) if alias.position]
    choices: tuple[Alias, ...] = ()
    if "branch" in layer.attributes and len(found) == 2 and layer.inputs[1] != layer.inputs[2]:
        choices = tuple(Alias(AliasKind.CHOICE, alias.position) for alias in found)
    return *choices, *(alias for alias in found if alias.position == 2)


# Casts -------------------------------------------------------------------------------------------

_ONNX_TYPES: Mapping[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
"""TensorProto.DataType -> numpy's name, for the types that can be computed."""


def _cast(task: Task) -> list[Call]:
    return [(np.copyto, (task.out, task.x, "unsafe"))]


def _cast_types(node: Node, dtypes: Sequence[str]) -> str:
    code = node.attributes.get("to", REQUIRED)
    if code is REQUIRED:
        raise ModelError("attribute 'to' is missing")
    if code not in _ONNX_TYPES:
        raise ModelError(
            f"to={code} is not one of {', '.join(f'{k} ({v})' for k, v in _ONNX_TYPES.items())}"
        )
    same_types(EVERY)(node, dtypes)
    return _ONNX_TYPES[code]


def _cast_like_types(node: Node, dtypes: Sequence[str]) -> str:
    target = node.operand(1)
    if target is None:
        raise ModelError("input 1 is absent; CastLike takes its type")
    same_types(EVERY)(node, dtypes)
    return same_types(EVERY)(node, [str(target.dtype)])


def _bits(task: Task) -> list[Call]:
    return [(np.copyto, (task.out, task.x.view(task.out.dtype)))]


def _bits_types(node: Node, dtypes: Sequence[str]) -> str:
    target = _cast_types(node, dtypes)
    sizes = [np.dtype(name).itemsize for name in (*dtypes, target)]
    if sizes[0] != sizes[1]:
        raise ModelError(
            f"to={node.attributes['to']} ({target}) has {sizes[1]} bytes, the input's {dtypes[0]} has {sizes[0]}; "
            "BitCast "
            "keeps the number of bytes"
        )
    return target


def _no_attributes(node: Node, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The type of the output is enough; saturate and round_mode are about 8-bit floats."""
    return {}


# The tables --------------------------------------------------------------------------------------

_ONE_CALL: tuple[tuple[str, Callable[..., Any], tuple[str, ...], int], ...] = (
    ("Add", np.add, NUMERIC, 7),
    ("And", np.logical_and, BOOL, 7),
    ("BitwiseAnd", np.bitwise_and, INTEGERS, 18),
    ("BitwiseOr", np.bitwise_or, INTEGERS, 18),
    ("BitwiseXor", np.bitwise_xor, INTEGERS, 18),
    ("Mul", np.multiply, NUMERIC, 7),
    ("Or", np.logical_or, BOOL, 7),
    ("Sub", np.subtract, NUMERIC, 7),
    ("Xor", np.logical_xor, BOOL, 7),
)
"""(operator, numpy function, element types, first opset): two operands and a result of one type."""

_COMPARISONS: tuple[tuple[str, Callable[..., Any], tuple[str, ...], int], ...] = (
    ("Equal", np.equal, EVERY, 7),
    ("Greater", np.greater, NUMERIC, 7),
    ("GreaterOrEqual", np.greater_equal, NUMERIC, 12),
    ("Less", np.less, NUMERIC, 7),
    ("LessOrEqual", np.less_equal, NUMERIC, 12),
)
"""The same, with a bool result."""

_FLOAT = same_types(FLOATS)

OPERATORS: tuple[Operator, ...] = (
    *(
        elementwise(name, single_call(f), same_types(types), operands=2, since=since)
        for name, f, types, since in _ONE_CALL
    ),
    *(
        elementwise(name, single_call(f), same_types(types, "bool"), operands=2, since=since)
        for name, f, types, since in _COMPARISONS
    ),
    elementwise(
        "BitCast",
        _bits,
        _bits_types,
        since=26,
        attributes={"to": REQUIRED},
        normalise=_no_attributes,
        notes="to the types of Cast",
    ),
    elementwise(
        "BitShift",
        _shift,
        same_types(INTEGERS),
        operands=2,
        since=11,
        attributes={"direction": REQUIRED},
        normalise=_shift_kind,
    ),
    elementwise(
        "Cast",
        _cast,
        _cast_types,
        attributes={"to": REQUIRED, "saturate": 1, "round_mode": "up"},
        normalise=_no_attributes,
        aliases=first_operand_alias,
        notes="to float16, bfloat16, float32, float64, integers, bool; a view if the type is unchanged",
    ),
    elementwise(
        "CastLike",
        _cast,
        _cast_like_types,
        since=15,
        attributes={"saturate": 1, "round_mode": "up"},
        normalise=_no_attributes,
        aliases=first_operand_alias,
        notes="to the types of Cast; a view if the type is unchanged",
    ),
    elementwise("Div", _divide, same_types(NUMERIC), operands=2),
    elementwise("Max", _folded(maximum), same_types(NUMERIC), operands=None),
    elementwise(
        "Mean", _folded(np.add, mean=True), _FLOAT, operands=None, compute_in=accumulator_type
    ),
    elementwise("Min", _folded(minimum), same_types(NUMERIC), operands=None),
    elementwise(
        "Mod",
        _modulo,
        same_types(NUMERIC),
        operands=2,
        since=10,
        attributes={"fmod": 0},
        normalise=_modulo_kind,
    ),
    elementwise("Pow", _power, _pow_types, operands=2, compute_in=_pow_in),
    elementwise("Sum", _folded(np.add), _FLOAT, operands=None, compute_in=accumulator_type),
    elementwise("Where", _where, _where_types, operands=3, since=9, aliases=_over_y),
)
