"""`csdfgen operators`: which ONNX operators are supported, and what is accepted of each?"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import JSON
from csdfgen.cli.terminal import dim_text, escape, say, say_json, table
from csdfgen.errors import InputError
from csdfgen.model.options import declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.ops.base import Operator


_NEAR = 3
_SIMILAR = 0.6

_FOLDED = "evaluated when the model is loaded; its operands must be constants by then (shapes are)"
_OPENED = (
    "the layers of both branches are planned, and those of the taken branch are computed; "
    "a constant condition is resolved when the model is loaded"
)

_RESOLVED = (
    "resolved when the model is loaded: it becomes layers on the tensors of the sequence; "
    "positions must be constants by then"
)


STRUCTURES = {
    "row-phased": "a phase writes a slab of output rows and needs only the input rows of its window",
    "accumulating": "a phase adds a slab of input rows to a state of the output's size; the last phase completes it",
    "whole": "a single phase computes all rows, and needs memory for the whole tensor",
}
"""How an operator divides into phases -> what that means."""


@dataclass(frozen=True, kw_only=True)
class Operators(Command):
    """List the supported ONNX operators, or show the attributes, defaults, phases and notes of one."""

    examples = ("csdfgen operators", "csdfgen operators Conv", "csdfgen operators --json")

    name: str | None = argument("[NAME]", "An operator to describe.", default=None)
    as_json: bool = declare(
        "Print JSON: a list, or one object for one operator.", False, names=JSON
    )

    def run(self) -> None:
        """List the operators, or show one. Raises InputError for a name that is not among them."""
        from csdfgen.ops import OPERATORS
        from csdfgen.ops.base import onnx_page
        from csdfgen.reading.folding import FOLDED_ONLY
        from csdfgen.reading.sequences import SEQUENCES

        at_loading = {**dict.fromkeys(FOLDED_ONLY, _FOLDED), "If": _OPENED}
        at_loading |= dict.fromkeys(SEQUENCES, _RESOLVED)
        known = sorted({*OPERATORS, *at_loading})

        def values(name: str) -> dict[str, Any]:
            if name not in at_loading:
                return facts(OPERATORS[name])
            notes, url = at_loading[name], onnx_page(name)
            return {"operator": name, "phases": None, "notes": notes, "url": url}

        if self.name is None:
            if self.as_json:
                say_json([values(one) for one in known])
            else:
                _list([OPERATORS[one] for one in sorted(OPERATORS)], sorted(at_loading))
            return
        found = _look_up(self.name, known)
        if self.as_json:
            say_json(values(found))
        elif found in OPERATORS:
            _show(OPERATORS[found])
        else:
            say(f"{found}: {at_loading[found]}\n\nONNX:      {onnx_page(found)}")


def _look_up(name: str, known: list[str]) -> str:
    """The operator that is meant, in upper or lower case."""
    lower = {one.lower(): one for one in known}
    if name.lower() in lower:
        return lower[name.lower()]
    near = [lower[n] for n in get_close_matches(name.lower(), lower, _NEAR, _SIMILAR)]
    like = f"similar: {', '.join(near)}" if near else "csdfgen operators lists them"
    raise InputError(f"is not a supported operator; {like}", where=escape(name) or "''")


def _list(operators: list[Operator], at_loading: list[str]) -> None:
    rows = (
        (one.op_type, str(one.since), one.structure, dim_text(", ".join(sorted(one.attributes))))
        for one in operators
    )
    say(
        table("operator", "> from opset", "phases", "attributes", rows=rows),
        f"\n{pluralize(len(operators), 'operator')}; csdfgen operators NAME shows the defaults and notes of one",
        *(f"{name}: {meaning}" for name, meaning in STRUCTURES.items()),
        "an attribute that is not listed is refused, never ignored",
        f"\nevaluated or resolved at loading: {', '.join(at_loading)}",
    )


def _show(operator: Operator) -> None:
    attributes = sorted(operator.attributes.items())
    rows = ((name, default_text(value)) for name, value in attributes)
    places = ", ".join(map(str, sorted(operator.constant_inputs)))
    constants = (
        f"constants: inputs {places}, counted from 0, must be known when the model is loaded"
    )
    say(
        f"{operator.op_type}: from opset {operator.since} on, {operator.structure}\n",
        table("attribute", "default", rows=rows) if attributes else "takes no attributes",
        "",
        *[constants] * bool(places),
        *(
            f"{name}: {meaning}"
            for name, meaning in STRUCTURES.items()
            if name in operator.structure
        ),
        *[f"notes:     {operator.notes}"] * bool(operator.notes),
        f"ONNX:      {operator.url}",
    )


def facts(operator: Operator) -> dict[str, Any]:
    """An operator as JSON values; of an attribute that must be given, no default."""
    from csdfgen.ops.base import REQUIRED

    return {
        "operator": operator.op_type,
        "since": operator.since,
        "phases": operator.structure,
        "constants": sorted(operator.constant_inputs),
        "attributes": {
            name: {"required": True} if value is REQUIRED else {"required": False, "default": value}
            for name, value in sorted(operator.attributes.items())
        },
        "notes": operator.notes,
        "url": operator.url,
    }


def default_text(default: object) -> str:
    """The default of an attribute as people read it; empty for none.

    >>> default_text(0.1), default_text("NOTSET"), default_text(None)
    ('0.1', "'NOTSET'", '')
    """
    from csdfgen.ops.base import REQUIRED

    if default is REQUIRED:
        return "required"
    if default is None:
        return ""
    return f"{default:.7g}" if isinstance(default, float) else repr(default)
