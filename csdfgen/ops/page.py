"""The page `docs/operators.md`, out of the table of operators: which are known, and how each divides into
phases.

`python -m csdfgen.ops.page` prints the page; `make docs` writes it, with the node cases of the onnx
package below.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from csdfgen.ops import OPERATORS
from csdfgen.ops.base import REQUIRED, Operator

STRUCTURES = {
    "row-phased": "a phase writes a slab of output rows and needs the input rows of its window alone",
    "accumulating": "a phase adds a slab of input rows into a state of the output's size; the last phase completes it",
    "whole": "one phase, all rows. Correct, and costs the memory of the whole tensor",
}
"""How an operator divides into phases -> what that means."""

_LISTED = ";\n".join(f"- **{name}**: {meaning}" for name, meaning in STRUCTURES.items())

_HEADER = f"""# Operators

On this page you can look up which ONNX operators csdfgen supports, and how each divides into phases. `make docs` generates
the page from the table of operators. `csdfgen operators` prints the same list, and `csdfgen operators NAME` one operator.

The phases of an operator are one of:

{_LISTED}.

"Constants" are inputs, by position, whose values must be known when the model is loaded. csdfgen refuses any attribute that is
not listed.

Both backends compute every operator of the list. "Native" says how the native backend does: by a *kernel*, if the elements are
float32, or bytes of an operator on quantized tensors, in a layout that the kernel reads; otherwise by *loops*, one for each call
that numpy would make.

Operators of sequences (SplitToSequence, SequenceConstruct, SequenceEmpty, SequenceInsert, SequenceErase, SequenceAt,
SequenceLength, ConcatFromSequence) become layers on their tensors when the model is loaded; positions and lengths must be
constants by then. A tensor without elements is a constant, whatever computes it.

| operator | from opset | phases | native | constants | attributes | notes |
|---|---|---|---|---|---|---|
"""


def page(kernels: Collection[str] = ()) -> str:
    """The page as Markdown: a line an operator, in alphabetical order. kernels: operators that have
    native kernels of their own.
    """
    lines = (_line(OPERATORS[name], name in kernels) for name in sorted(OPERATORS))
    return _HEADER + "".join(lines)


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


def _line(operator: Operator, has_kernel: bool) -> str:
    constants = ", ".join(str(position) for position in sorted(operator.constant_inputs))
    attributes = ", ".join(
        _attribute(name, value) for name, value in sorted(operator.attributes.items())
    )
    cells = (
        f"[{operator.op_type}]({operator.url})",
        str(operator.since),
        operator.structure,
        "kernel" if has_kernel else "loops",
        constants,
        attributes,
        operator.notes,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


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
