"""The page `docs/operators.md`, out of the table of operators: which are known, and how each divides into
phases.

`python -m csdfgen.ops.page` prints the page; `make docs` writes it, with the node cases of the onnx
package below.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from csdfgen.ops import OPERATORS
from csdfgen.ops.base import REQUIRED, Operator

STRUCTURES = {
    "row-phased": "a phase writes a slab of output rows and needs only the input rows of its window",
    "accumulating": "a phase adds a slab of input rows to a state of the output's size; the last phase completes it",
    "whole": "a single phase computes all rows, and needs memory for the whole tensor",
}
"""How an operator divides into phases -> what that means."""

_LISTED = ";\n".join(f"- **{name}**: {meaning}" for name, meaning in STRUCTURES.items())

_HEADER = f"""# Operators

On this page you can look up which ONNX operators csdfgen supports and how each is divided into phases. `make docs` generates
it; `csdfgen operators NAME` prints one operator with its defaults. The number after a name is the oldest supported opset.
Operators that are treated alike share a row.

The phases of an operator are one of:

{_LISTED}.

"Constants" are the inputs, by position, whose values must be known when the model is loaded. Attributes that are not listed are
refused.

Both backends compute every operator. The native backend uses a hand-written *kernel* for float32, and for the bytes of quantized
operators, in the layouts that the kernel reads; otherwise it runs *loops*, one for each call that numpy would make.

Sequence operators (SplitToSequence, SequenceConstruct, SequenceEmpty, SequenceInsert, SequenceErase, SequenceAt,
SequenceLength, ConcatFromSequence) are resolved when the model is loaded; positions and lengths must be constants by then.

| operators | phases | native | constants | attributes | notes |
|---|---|---|---|---|---|
"""


def page(kernels: Collection[str] = ()) -> str:
    """The page as Markdown: a row for operators that differ in their names and opsets alone, by the first name. kernels:
    operators that have native kernels of their own.
    """
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(OPERATORS):
        rows.setdefault(_cells(OPERATORS[name], name in kernels), []).append(name)
    return _HEADER + "".join(_row(names, cells) for cells, names in rows.items())


def facts(operator: Operator) -> dict[str, Any]:
    """An operator as JSON values; of an attribute that must be given, no default."""
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


def _row(names: Sequence[str], cells: tuple[str, ...]) -> str:
    linked = ", ".join(f"[{name}]({OPERATORS[name].url}) {OPERATORS[name].since}" for name in names)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (linked, *cells)) + " |\n"


def _cells(operator: Operator, has_kernel: bool) -> tuple[str, ...]:
    constants = ", ".join(str(position) for position in sorted(operator.constant_inputs))
    attributes = ", ".join(
        _attribute(name, value) for name, value in sorted(operator.attributes.items())
    )
    return (
        operator.structure,
        "kernel" if has_kernel else "loops",
        constants,
        attributes,
        operator.notes,
    )


def _attribute(name: str, default: object) -> str:
    if default is REQUIRED:
        return f"`{name}` (required)"
    return f"`{name}`" if default is None else f"`{name}={default_text(default)}`"


def default_text(default: object) -> str:
    """The default of an attribute as people read it; empty for none.

    >>> default_text(0.1), default_text("NOTSET"), default_text(None), default_text(REQUIRED)
    ('0.1', "'NOTSET'", '', 'required')
    """
    if default is REQUIRED:
        return "required"
    if default is None:
        return ""
    return f"{default:.7g}" if isinstance(default, float) else repr(default)


if __name__ == "__main__":
    print(page(), end="")
