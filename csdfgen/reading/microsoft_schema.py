"""What do the schemas say of onnxruntime's own operators that are supported?

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; the onnx package
has no schemas of that domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.reading.onnx_schema import Formal, Signature

__all__ = ["SAME_AS_ONNX", "microsoft_signature"]

SAME_AS_ONNX = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Operators that have a twin of the same name and meaning in ONNX's own domain. Those of 16 bits, which
ONNX has from opset 21 on, are written for older ones.
"""

_BYTES = frozenset({"int8", "uint8"})

_TYPES: Mapping[str, frozenset[str]] = {
    "T": _BYTES,
    "A": _BYTES,
    "B": _BYTES,
    "float": frozenset({"float32"}),
    "int": frozenset({"int32"}),
    "any": _BYTES | {"float32"},
}
"""Type variable -> element types."""

_TWO = "T float T? T float T? float T?"
_ONE = "T float T? float T?"

_OPERATORS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "QGemm": (
        "A float A B float B int? float? A?",
        {"alpha": "FLOAT", "transA": "INT", "transB": "INT"},
    ),
    "QLinearAdd": (_TWO, {}),
    "QLinearAveragePool": (
        _ONE,
        {
            "auto_pad": "STRING",
            "ceil_mode": "INT",
            "channels_last": "INT",
            "count_include_pad": "INT",
            "kernel_shape": "INTS",
            "pads": "INTS",
            "strides": "INTS",
        },
    ),
    "QLinearConcat": ("float T any*", {"axis": "INT"}),
    "QLinearGlobalAveragePool": (_ONE, {"channels_last": "INT"}),
    "QLinearLeakyRelu": (_ONE, {"alpha": "FLOAT"}),
    "QLinearMul": (_TWO, {}),
    "QLinearSigmoid": (_ONE, {}),
    "QLinearSoftmax": (_ONE, {"axis": "INT", "opset": "INT"}),
}
"""Operator -> inputs by their type variables (`?`: may be absent; `*`: any number), and attributes with
their kinds.
"""

_REQUIRED = frozenset({"kernel_shape", "opset", ("QLinearConcat", "axis")})

_MOST = 2**31 - 1


def _signature(op_type: str, inputs: str, attributes: Mapping[str, str]) -> Signature:
    names = inputs.split()
    formals = tuple(
        Formal(
            name.rstrip("?*"),
            _TYPES[name.rstrip("?*")],
            not name.endswith("*"),
            not name.endswith(("?", "*")),
        )
        for name in names
    )
    least = max(k + 1 for k, formal in enumerate(formals) if formal.required)
    return Signature(
        inputs=formals,
        min_inputs=least,
        max_inputs=_MOST if names[-1].endswith("*") else len(names),
        max_outputs=1,
        attributes=MappingProxyType(
            {
                name: (kind, name in _REQUIRED or (op_type, name) in _REQUIRED)
                for name, kind in attributes.items()
            }
        ),
    )


_SIGNATURES = {name: _signature(name, *said) for name, said in _OPERATORS.items()}


def microsoft_signature(op_type: str) -> Signature | None:
    """What the documentation says about an operator of onnxruntime's domain; None for others."""
    return _SIGNATURES.get(op_type)
