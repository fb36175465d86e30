"""Does a node have what the schema of its operator allows? Attributes, number of operands, element types.

Sources: https://onnx.ai/onnx/operators (the onnx package has these schemas, by operator and opset); for
onnxruntime's own operators, of which the onnx package has no schemas,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
Operators can rely on it: an attribute that must be a list of integers is one, two operands that
must agree in type do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import AttributeProto, helper

from csdfgen.errors import ModelError
from csdfgen.model.network import Tensor
from csdfgen.ops.base import MICROSOFT
from csdfgen.ops.composed import TWINS
from csdfgen.reading.onnx_file import label, text

_KINDS = {v: k for k, v in AttributeProto.AttributeType.items()}

SIGNATURES_FILE = Path(__file__).with_name("signatures.tsv")


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal input: its type variable (or one fixed type), and the element types allowed for it."""

    variable: str
    dtypes: frozenset[str]
    agrees: bool
    """Whether all operands of one type variable must have one element type."""
    required: bool


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What the schema of one operator in one opset says.

    inputs: by position; a variadic operator's last one stands for all that follow. outputs: their type variables, likewise;
        () where they are not known.
    min_inputs to max_inputs operands, at most max_outputs results.
    attributes: name -> (kind, whether it is required).
    """

    inputs: tuple[Formal, ...]
    min_inputs: int
    max_inputs: int
    max_outputs: int
    attributes: Mapping[str, tuple[str, bool]]
    outputs: tuple[str, ...] = ()

    def variable(self, position: int) -> str:
        """The type variable of an operand."""
        return self._formal(position).variable

    def dtypes(self, position: int) -> frozenset[str]:
        """The element types that are allowed for an operand."""
        return self._formal(position).dtypes

    def _formal(self, position: int) -> Formal:
        return self.inputs[min(position, len(self.inputs) - 1)]


@lru_cache(maxsize=1024)
def signature(op_type: str, opset: int, domain: str = "") -> Signature | None:
    """What ONNX says about an operator of one of its domains; None if that opset has no such operator."""
    types, known = _known()
    versions = known.get((domain, op_type), {})
    line = versions.get(max((since for since in versions if since <= opset), default=0))
    if line is None:
        return None
    inputs, least, most, results, attributes, outputs = json.loads(line)
    return Signature(
        inputs=tuple(Formal(name, types[at], agrees, must) for name, at, agrees, must in inputs),
        min_inputs=least,
        max_inputs=most,
        max_outputs=results,
        attributes={name: (kind, required) for name, (kind, required) in attributes.items()},
        outputs=tuple(outputs),
    )


@cache
def _known() -> tuple[tuple[frozenset[str], ...], Mapping[tuple[str, str], Mapping[int, str]]]:
    """(sets of element types, (domain, operator) -> opset since which it is so -> its line).

    Read from a file, as the onnx package takes 6 MiB and 20 ms for the schemas of all operators at the first question.
    `python -m tests.onnx_signatures` writes it, with the operators of onnxruntime's own as its documentation has them.
    """
    types: list[frozenset[str]] = []
    versions: dict[tuple[str, str], dict[int, str]] = {}
    for line in SIGNATURES_FILE.read_text().splitlines():
        kind, *row = line.split("\t")
        if kind == "types":
            types.append(frozenset(row[1].split(" ")))
        else:
            domain, name, since, said = row
            versions.setdefault((domain, name), {})[int(since)] = said
    return tuple(types), versions


def check_attributes(allowed: Signature, attributes: Mapping[str, AttributeProto]) -> None:
    """ModelError for an attribute that the schema does not know, of another kind, or missing though
    required.
    """
    for name, attribute in attributes.items():
        if name not in allowed.attributes:
            known = ", ".join(sorted(allowed.attributes)) or "none"
            raise ModelError(f"has an unknown attribute '{label(name)}'; the operator has {known}")
        want, have = allowed.attributes[name][0], _KINDS.get(attribute.type, str(attribute.type))
        if have != want:
            raise ModelError(f"attribute '{name}' is of kind {have}, it must be {want}")
    missing = [
        name
        for name, (_, required) in allowed.attributes.items()
        if required and name not in attributes
    ]
    if missing:
        raise ModelError(f"attribute '{missing[0]}' is missing")


def attribute_values(attributes: Mapping[str, AttributeProto]) -> dict[str, Any]:
    """Attributes as Python values: numbers, strings, tuples of them; tensors and graphs stay
    messages.
    """
    return {name: _value(attribute) for name, attribute in attributes.items()}


def _value(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return text(value)
    if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS):
        return tuple(value)
    if attribute.type == AttributeProto.STRINGS:
        return tuple(text(v) for v in value)
    return value


def check_operands(
    allowed: Signature, operands: Sequence[Tensor | np.ndarray | None], outputs: int
) -> None:
    """ModelError for a wrong number of operands or results, or for element types that do not go
    together.
    """
    given = len(operands)
    if not allowed.min_inputs <= given <= allowed.max_inputs:
        raise ModelError(
            f"has {given} inputs, the operator takes {allowed.min_inputs} to {allowed.max_inputs}"
        )
    if outputs > allowed.max_outputs:
        raise ModelError(f"has {outputs} outputs, the operator gives at most {allowed.max_outputs}")
    bound: dict[str, tuple[int, str]] = {}
    for position, operand in enumerate(operands):
        formal = allowed.inputs[min(position, len(allowed.inputs) - 1)]
        if operand is None:
            if formal.required:
                raise ModelError(f"input {position} is absent, the operator needs it")
            continue
        dtype = str(operand.dtype)
        if dtype not in formal.dtypes:
            known = ", ".join(sorted(formal.dtypes))
            raise ModelError(f"input {position} is {dtype}, the operator takes {label(known, 120)}")
        first, agreed = bound.setdefault(formal.variable, (position, dtype))
        if formal.agrees and agreed != dtype:
            raise ModelError(
                f"input {first} is {agreed} and input {position} is {dtype}, they must have one element type"
            )


# onnxruntime's own operators ---------------------------------------------------------------------


WITH_16_BITS = 21
"""The first opset in which ONNX quantizes to 16 bits."""

SAME_AS_ONNX = frozenset(
    {"DequantizeLinear", "GatherND", "Gelu", "GridSample", "Pad", "QuantizeLinear", "Trilu"}
)
"""Operators that have a twin of the same name and meaning in ONNX's own domain. They are written for opsets that
have them later or not for all types: quantizing to 16 bits is ONNX's from opset 21 on.
"""

_WITHOUT_A_DOMAIN = MappingProxyType({"SimplifiedLayerNormalization": 1, "LayerNormalization": 17})
"""Operators that onnxruntime writes into ONNX's own domain, for any opset -> the one to take it as."""


def resolve_operator(
    domain: str, op_type: str, opset: int, newest: int = WITH_16_BITS
) -> tuple[str, str, int]:
    """(domain, operator, opset) by which an operator is known here. newest: opset of ONNX's own domain, for twins of
    its operators.

    >>> resolve_operator("com.microsoft", "Attention", 1)
    ('com.microsoft', 'com.microsoft.Attention', 1)
    """
    if domain == MICROSOFT and op_type in SAME_AS_ONNX:
        return "", op_type, max(newest, WITH_16_BITS)
    if domain == MICROSOFT and op_type in TWINS:
        return domain, f"{MICROSOFT}.{op_type}", opset
    if not domain and op_type in _WITHOUT_A_DOMAIN:
        return domain, op_type, max(opset, _WITHOUT_A_DOMAIN[op_type])
    return domain, op_type, opset
