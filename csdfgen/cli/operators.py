"""`csdfgen operators`: which ONNX operators are supported, and what is accepted of each?"""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any

from rich.text import Text

from csdfgen.cli.terminal import console, counted, plain, table
from csdfgen.errors import InputError
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import REQUIRED, Operator, onnx_page
from csdfgen.ops.page import STRUCTURES, default_text
from csdfgen.reading.folding import FOLDED_ONLY

__all__ = ["run_operators"]

_NEAR = 3
_SIMILAR = 0.6


_FOLDED = "evaluated when the model is loaded; its operands must be constants by then, shapes of tensors are"
_OPENED = "one of its branches takes its place when the model is loaded; its condition must be a constant by then"
_AT_LOADING = {**dict.fromkeys(FOLDED_ONLY, _FOLDED), "If": _OPENED}
"""Operator that is never run -> what becomes of it."""


def run_operators(name: str | None, as_json: bool) -> None:
    """List the operators, or show one. Raises InputError for a name that is not among them."""
    if name is None:
        if as_json:
            print(json.dumps([_values(known) for known in sorted(_known())], indent=2))
        else:
            _print_list()
        return
    found = _look_up(name)
    if as_json:
        print(json.dumps(_values(found), indent=2))
    elif found in OPERATORS:
        _print_operator(OPERATORS[found])
    else:
        console().print(f"{found}: {_AT_LOADING[found]}\n\nONNX:      {onnx_page(found)}")


def _known() -> frozenset[str]:
    return frozenset(OPERATORS) | frozenset(_AT_LOADING)


def _look_up(name: str) -> str:
    """The operator that is meant, in upper or lower case."""
    lower = {known.lower(): known for known in _known()}
    if name.lower() in lower:
        return lower[name.lower()]
    near = [lower[n] for n in get_close_matches(name.lower(), lower, _NEAR, _SIMILAR)]
    like = f"like it are {', '.join(near)}" if near else "csdfgen operators lists them"
    raise InputError(f"is no operator that is supported; {like}", where=plain(name) or "''")


def _values(name: str) -> dict[str, Any]:
    """One operator as JSON values; of an attribute that must be given, no default."""
    if name in _AT_LOADING:
        return {
            "operator": name,
            "phases": None,
            "notes": _AT_LOADING[name],
            "url": onnx_page(name),
        }
    operator = OPERATORS[name]
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


def _print_list() -> None:
    operators = [OPERATORS[known] for known in sorted(OPERATORS)]
    rows = table("operator", "from opset", "phases", "attributes", right=("from opset",))
    for operator in operators:
        rows.add_row(
            operator.op_type,
            str(operator.since),
            operator.structure,
            Text(", ".join(sorted(operator.attributes)), style="dim"),
        )
    out = console()
    out.print(rows)
    out.print(
        f"\n{counted(len(operators), 'operator')}; csdfgen operators NAME shows the defaults and notes of one"
    )
    for name, meaning in STRUCTURES.items():
        out.print(f"{name}: {meaning}")
    out.print("an attribute that is not listed is refused, never ignored")
    out.print(f"\nat loading, of constants: {', '.join(sorted(_AT_LOADING))}")


def _print_operator(operator: Operator) -> None:
    out = console()
    out.print(f"{operator.op_type}: from opset {operator.since} on, {operator.structure}\n")
    if operator.attributes:
        rows = table("attribute", "default")
        for name, value in sorted(operator.attributes.items()):
            rows.add_row(name, default_text(value))
        out.print(rows)
    else:
        out.print("takes no attributes")
    out.print()
    if operator.constant_inputs:
        places = ", ".join(str(position) for position in sorted(operator.constant_inputs))
        out.print(
            f"constants: inputs {places}, counted from 0, must be known when the model is loaded"
        )
    for name, meaning in STRUCTURES.items():
        if name in operator.structure:
            out.print(f"{name}: {meaning}")
    if operator.notes:
        out.print(f"notes:     {operator.notes}")
    out.print(f"ONNX:      {operator.url}")
