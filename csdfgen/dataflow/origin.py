"""From which network was a graph made, and with which options? The graph and its schedules keep this, so that the
schedules can be run.

{"model": "net.onnx", "batch": 1, "inputs": {"x": [1, 3, 224, 224]},
 "options": {"rows": "auto", "fuse": "full", "image": "streamed", "tokens": "elements", "rates":
 "exact"},
 "digest": "5d0ef2a1c8b34f76"}

`digest` is that of the phases of the network, see `graphs.digest_conversion`: of names, shapes and rows, without weights. The
same form is stored in graph.json, in schedules, and in graph.xml as one attribute that SDF3 and Kiter ignore.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from csdfgen.errors import CsdfgenError, GraphError, InputError
from csdfgen.files import Fields, parse_json
from csdfgen.model.options import PlanOptions

Values = float | Sequence["Values"]
"""A number, or numbers in nested sequences, as the constant of an input is stored."""

_MAX_RANK = 32
_DIGEST_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Origin:
    """A network by file name, batch and whole input shapes (name, sizes), the options, the digest of its phases, and inputs
    that were made constants.
    """

    model: str
    batch: int
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    plan_options: PlanOptions
    tokens: str
    rates: str
    digest: str
    fixed: Mapping[str, Values] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str | int]:
        """The options of planning, tokens and rates."""
        return {**self.plan_options.to_json(), "tokens": self.tokens, "rates": self.rates}


def to_json(origin: Origin) -> dict[str, Any]:
    """The origin as JSON values; `from_fields` is the inverse."""
    return {
        "model": origin.model,
        "batch": origin.batch,
        "inputs": {name: list(shape) for name, shape in origin.inputs},
        "options": origin.options,
        "digest": origin.digest,
        **({"fixed": dict(origin.fixed)} if origin.fixed else {}),
    }


def from_fields(fields: Fields) -> Origin:
    """The origin in a JSON object. Raises the error of `fields` with the place, the key and the value."""
    options = fields.child("options")
    digest = fields.text("digest")
    if len(digest) > _DIGEST_LENGTH:
        raise fields.fault(
            f"'digest' has {len(digest)} characters; at most {_DIGEST_LENGTH} are read"
        )
    try:
        plan_options = PlanOptions.from_fields(options)
    except InputError as error:
        raise error.at(options.where) from None
    return Origin(
        fields.text("model"),
        fields.integer("batch", low=1),
        tuple(read_shapes(fields.child("inputs")).items()),
        plan_options,
        options.text("tokens"),
        options.text("rates"),
        digest,
        read_values(fields),
    )


def read_shapes(inputs: Fields) -> Mapping[str, tuple[int, ...]]:
    """Input name -> sizes, of a JSON object {"x": [1, 3, 224, 224]}."""
    return {name: _shape(inputs, name) for name in inputs.value}


def read_values(fields: Fields) -> Mapping[str, Values]:
    """Input name -> the numbers it is fixed to, of the key "fixed" of a JSON object; none without it."""
    if "fixed" not in fields:
        return {}
    found = fields.child("fixed")
    for name, values in found.value.items():
        if not _are_numbers(values):
            raise found.fault(f"'{name}' is no number, nor lists of numbers")
    return found.value


def _are_numbers(values: object) -> bool:
    if isinstance(values, list):
        return all(_are_numbers(value) for value in values)
    return isinstance(values, (bool, int, float))


def _shape(fields: Fields, name: str) -> tuple[int, ...]:
    sizes = fields.required(name, "a list of sizes")
    if (
        not isinstance(sizes, list)
        or len(sizes) > _MAX_RANK
        or not all(type(size) is int and size >= 0 for size in sizes)
    ):
        raise fields.fault(f"'{name}' is no list of at most {_MAX_RANK} sizes")
    return tuple(sizes)


def to_text(origin: Origin) -> str:
    """The JSON on one line in ASCII, in which an attribute can hold any name."""
    return json.dumps(to_json(origin))


def from_text(text: str, error: type[CsdfgenError] = GraphError) -> Origin:
    """The origin in a text of `to_text`. Raises `error`."""
    where = "csdfgen"
    return from_fields(Fields(parse_json(text, where), where, error))
