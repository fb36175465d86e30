"""docs/operators.md: the table of operators, which operands may be constants, and what became of onnx's node cases.
`python -m tests.operators_page` writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from csdfgen.backends.native.families import KERNELS
from csdfgen.cli.operators import STRUCTURES, default_text
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import REQUIRED, Operator
from tests.constness import summary
from tests.node_cases_report import report

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

HEADING = "\n## Constant operands\n"
NODE_CASES = "\n## Node cases\n\n"


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


def whole_page() -> str:
    """The page as it should be with the installed version of onnx."""
    return page(KERNELS) + HEADING + summary() + NODE_CASES + report()


if __name__ == "__main__":
    PAGE.write_text(whole_page())
