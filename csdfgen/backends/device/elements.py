"""What text does a kernel on strided arrays have? Its form in `text/strided.cl`, and what its name says.

Kernels are those of native code, by the same names (`csdfgen.backends.native.strided`): an operation and a type. Each becomes
a program of its own, of definitions and the text that is common to all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

ELEMENT, FOLD, ARG, COPY, TAKE, AT_PLACES, RANKED, NONZERO, SUPPRESSED, WALKED, ALIGNED = range(11)
"""Forms of the text."""


class _Type(NamedTuple):
    """A type of elements: in C, what is computed in, and whether it has a sign. bits: of one."""

    stored: str
    computed: str
    kind: str
    bits: int


_TYPES: Mapping[str, _Type] = MappingProxyType(
    {
        "f16": _Type("csdf_f16", "float", "f", 16),
        "f32": _Type("float", "float", "f", 32),
        "f64": _Type("double", "double", "f", 64),
        "bool": _Type("uint8_t", "uint8_t", "b", 8),
        **{f"i{n}": _Type(f"int{n}_t", f"int{n}_t", "i", n) for n in (8, 16, 32, 64)},
        **{f"u{n}": _Type(f"uint{n}_t", f"uint{n}_t", "u", n) for n in (8, 16, 32, 64)},
    }
)

_BYTES = MappingProxyType({"1": "u8", "2": "u16", "4": "u32", "8": "u64"})
"""Size of an element that is moved as it is -> a type of that size."""

_BINARY_FLOATS = MappingProxyType(
    {
        "add": "x + y", "subtract": "x - y", "multiply": "x * y", "divide": "x / y", "maximum": "MOST(x, y)",
        "minimum": "LEAST(x, y)", "power": "pow(x, y)", "fmod": "fmod(x, y)", "floor_divide": "floor(x / y)",
        "remainder": "REMAINDER(x, y)", "logaddexp": "LOGADDEXP(x, y)",
    }
)  # fmt: skip

_UNARY_FLOATS = MappingProxyType(
    {
        "negative": "-x", "absolute": "fabs(x)", "square": "x * x", "reciprocal": "1 / x", "sqrt": "sqrt(x)",
        "sign": "x != x ? x : x > 0 ? 1 : x < 0 ? -1 : 0", "ceil": "ceil(x)", "floor": "floor(x)", "rint": "rint(x)",
        "exp": "exp(x)", "expm1": "expm1(x)", "tanh": "tanh(x)", "log": "log(x)", "log1p": "log1p(x)",
        **{name: f"{name}(x)" for name in ("sin", "cos", "tan", "sinh", "cosh")},
        **{f"arc{name}": f"a{name}(x)" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    }
)  # fmt: skip

_COMPARISONS = MappingProxyType(
    {
        "equal": "x == y", "not_equal": "x != y", "less": "x < y", "less_equal": "x <= y", "greater": "x > y",
        "greater_equal": "x >= y",
    }
)  # fmt: skip

_TRUTH = MappingProxyType(
    {
        "logical_and": "x && y", "logical_or": "x || y", "logical_xor": "!x != !y", "maximum": "x || y",
        "minimum": "x && y",
    }
)  # fmt: skip

_WRAPPING = MappingProxyType({"add": "+", "subtract": "-", "multiply": "*"})


def _binary_integers(of: _Type) -> dict[str, str]:
    """Integers wrap; what is divided by zero is zero."""
    signed, type_ = of.kind == "i", of.stored
    wide = "uint64_t"
    found = {name: f"({type_})(({wide})x {sign} ({wide})y)" for name, sign in _WRAPPING.items()}
    found |= {"maximum": "x > y ? x : y", "minimum": "x < y ? x : y"}
    found |= {"bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y"}
    found["left_shift"] = f"({type_})(({wide})y < {of.bits} ? ({wide})x << y : 0)"
    beyond = "x < 0 ? -1 : 0" if signed else "0"
    found["right_shift"] = f"({type_})(({wide})y < {of.bits} ? x >> y : {beyond})"
    found["power"] = f"({type_})POWER(x, y)"
    if signed:
        rest = "(y == 0 || y == -1 ? 0 : x % y)"
        away = f"({rest} != 0 && ({rest} < 0) != (y < 0))"
        found["fmod"] = f"({type_}){rest}"
        found["remainder"] = f"({type_})({rest} + ({away} ? y : 0))"
        found["floor_divide"] = (
            f"({type_})(y == 0 ? 0 : y == -1 ? ({type_})(0 - ({wide})x) : x / y - {away})"
        )
    else:
        found["fmod"] = found["remainder"] = f"({type_})(y == 0 ? 0 : x % y)"
        found["floor_divide"] = f"({type_})(y == 0 ? 0 : x / y)"
    return found


def _unary_integers(of: _Type) -> dict[str, str]:
    type_, signed = of.stored, of.kind == "i"
    negative = f"({type_})(0 - (uint64_t)x)"
    return {
        "invert": f"({type_})~x",
        "square": f"({type_})((uint64_t)x * (uint64_t)x)",
        "negative": negative,
        "absolute": f"x < 0 ? {negative} : x" if signed else "x",
        "sign": "(x > 0) - (x < 0)" if signed else "x > 0",
    }


def _typed(of: _Type) -> dict[str, str]:
    """Definitions of a type."""
    half = of.stored == "csdf_f16"
    found = {
        "T": of.stored,
        "W": of.computed,
        "READ": "csdf_from_f16" if half else "CSDF_AS_IT_IS",
        "WRITE": "csdf_to_f16" if half else "CSDF_AS_IT_IS",
        "RESULT": of.stored,
    }
    if of.stored == "double":
        found["NEEDS_DOUBLE"] = "1"
    return found


def _element(operation: str, of: _Type) -> dict[str, str] | None:
    """A function of one element, two or (clip) three."""
    made = {"FORM": str(ELEMENT), **_typed(of)}
    if operation == "clip" and of.kind != "b":
        low = "(x < low ? low : x)"
        return made | {"CLIP": "1", "EXPRESSION": f"({low} > high ? high : {low})"}
    if operation in _COMPARISONS:
        return made | {
            "BINARY": "1",
            "RESULT": "uint8_t",
            "WRITE": "CSDF_AS_IT_IS",
            "EXPRESSION": f"({_COMPARISONS[operation]})",
        }
    binary: Mapping[str, str]
    unary: Mapping[str, str]
    if of.kind == "f":
        binary, unary = _BINARY_FLOATS, _UNARY_FLOATS
    elif of.kind == "b":
        binary, unary = _TRUTH, {"logical_not": "!x"}
    else:
        binary, unary = _binary_integers(of), _unary_integers(of)
    if operation in binary:
        if operation == "power" and of.kind != "f":
            made |= {"POWER": "1", "SIGNED": str(int(of.kind == "i"))}
        if operation in ("remainder", "logaddexp") and of.kind == "f":
            made[operation.upper()] = "1"
        return made | {"BINARY": "1", "EXPRESSION": f"({binary[operation]})"}
    return made | {"EXPRESSION": f"({unary[operation]})"} if operation in unary else None


def _joined(of: _Type) -> dict[str, str]:
    """How a value y that comes is joined with x, which is there."""
    if of.kind == "f":
        plus, times = "(x + y)", "(x * y)"
    else:
        plus, times = (f"({of.stored})((uint64_t)x {sign} (uint64_t)y)" for sign in "+*")
    return {"sum": plus, "product": times, "most": "MOST(x, y)", "least": "LEAST(x, y)"}


def _fold(operation: str, of: _Type) -> dict[str, str] | None:
    found = _joined(of).get(operation)
    if found is None or of.kind == "b":
        return None
    made = _typed(of)
    return {"FORM": str(FOLD), **made, "T2": made["T"], "READ2": made["READ"], "EXPRESSION": found}


def _products(operation: str, of: _Type) -> dict[str, str] | None:
    if operation not in ("muladd", "matmul") or of.kind == "b":
        return None
    made = {"FORM": str(FOLD), "PRODUCTS": "1", **_typed(of)}
    wide = "" if of.kind == "f" else "(uint64_t)"
    made |= {
        "SUM(x, y)": f"({of.computed})({wide}(x) + {wide}(y))",
        "PRODUCT(x, y)": f"({of.computed})({wide}(x) * {wide}(y))",
    }
    return made | ({"FRESH": "1"} if operation == "matmul" else {})


_BETTER = MappingProxyType({"argmax": "x > y", "argmin": "x < y", "largest": "x > y", "smallest": "x < y"})  # fmt: skip


def _best(operation: str, of: _Type) -> dict[str, str] | None:
    if operation not in _BETTER or of.kind == "b":
        return None
    ranks = not operation.startswith("arg")
    made = {"FORM": str(RANKED if ranks else ARG), **_typed(of), "EXPRESSION": _BETTER[operation]}
    return made | ({"RANKS": "1"} if ranks else {})


_AT = MappingProxyType({"add_at": "sum", "multiply_at": "product", "maximum_at": "most", "minimum_at": "least"})  # fmt: skip


def _at_places(operation: str, of: _Type) -> dict[str, str] | None:
    if operation not in _AT or of.kind == "b":
        return None
    return {"FORM": str(AT_PLACES), **_typed(of), "EXPRESSION": _joined(of)[_AT[operation]]}


_MOVING: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "copy": {"FORM": str(COPY)},
        "put": {"FORM": str(COPY), "PUTS": "1"},
        "look": {"FORM": str(COPY), "LOOKS": "1"},
        "take": {"FORM": str(TAKE)},
        "pick": {"FORM": str(TAKE), "PICKS": "1"},
        "put_at": {"FORM": str(AT_PLACES)},
    }
)

_ALONE: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "nonzero": {"FORM": str(NONZERO)},
        "suppressed": {
            "FORM": str(SUPPRESSED),
            "RANKS": "1",
            "EXPRESSION": "x > y",
            **_typed(_TYPES["f32"]),
        },
        **{f"walked_{t}": {"FORM": str(WALKED), **_typed(_TYPES[t])} for t in ("f32", "f64")},
        **{
            f"aligned_{t}": {"FORM": str(ALIGNED), **_typed(_TYPES[t])}
            for t in ("f16", "f32", "f64")
        },
    }
)


def _conversion(kernel: str) -> dict[str, str] | None:
    """from_TYPE_to_TYPE: numbers that an integer type does not have lose their upper bits; those that are none, or beyond
    64 bits, become the least.
    """
    words = re.fullmatch(r"from_(\w+)_to_(\w+)", kernel)
    if words is None or not {words[1], words[2]} <= _TYPES.keys():
        return None
    one, other = _TYPES[words[1]], _TYPES[words[2]]
    made = {"FORM": str(COPY), **_typed(one), "RESULT": other.stored}
    made |= {"NEEDS_DOUBLE": "1"} if "double" in (one.stored, other.stored) else {}
    if other.kind == "b":
        made["WRITE(x)"] = "((uint8_t)((x) != 0))"
    elif other.stored == "csdf_f16":
        made["WRITE(x)"] = "csdf_to_f16((float)(x))"
    elif one.kind == "f" and other.kind in "iu":
        whole = "natural" if words[2] == "u64" else "whole"
        made |= {"WHOLE": one.computed, "WRITE(x)": f"(({other.stored})OWN({whole})(x))"}
    else:
        made["WRITE(x)"] = f"(({other.stored})(x))"
    made.pop("WRITE")
    return made


@cache
def definitions(kernel: str) -> Mapping[str, str] | None:
    """What is defined for a kernel, named without `csdf_`; None for one that is none on strided arrays."""
    if kernel in _ALONE:
        return _ALONE[kernel]
    found = _conversion(kernel)
    if found is not None:
        return found
    operation, _, type_ = kernel.rpartition("_")
    if operation in _MOVING and type_ in _BYTES:
        return {**_MOVING[operation], **_typed(_TYPES[_BYTES[type_]])}
    if kernel.endswith("_f16_in_f32"):
        found = _fold(kernel.removesuffix("_f16_in_f32"), _TYPES["f32"])
        return None if found is None else found | {"T2": "csdf_f16", "READ2": "csdf_from_f16"}
    if type_ not in _TYPES:
        return None
    makers: tuple[Callable[[str, _Type], dict[str, str] | None], ...] = (
        _element, _fold, _products, _best, _at_places,
    )  # fmt: skip
    made = (make(operation, _TYPES[type_]) for make in makers)
    return next((one for one in made if one is not None), None)


def list_kernels() -> Iterator[str]:
    """The names of all kernels on strided arrays."""
    whole = _TYPES["i64"]
    operations = {
        *_BINARY_FLOATS, *_UNARY_FLOATS, *_COMPARISONS, *_TRUTH, *_binary_integers(whole), *_unary_integers(whole),
        *_joined(whole), *_BETTER, *_AT, "clip", "muladd", "matmul",
    }  # fmt: skip
    yield from _ALONE
    yield from (f"{operation}_{size}" for operation in _MOVING for size in _BYTES)
    yield from (f"from_{one}_to_{other}" for one in _TYPES for other in _TYPES)
    named = [f"{operation}_{type_}" for operation in sorted(operations) for type_ in _TYPES]
    named += [f"{operation}_f16_in_f32" for operation in _joined(whole)]
    yield from (name for name in named if definitions(name) is not None)


_SIZES = {one.stored: one.bits // 8 for one in _TYPES.values()}


def element_bytes(kernel: str) -> tuple[int, int]:
    """Bytes of an element that is read, the largest, and of one that is written."""
    given = {"T": "int64_t", **(definitions(kernel) or {})}
    return _SIZES[given.get("T2", given["T"])], _SIZES[given.get("RESULT", given["T"])]
