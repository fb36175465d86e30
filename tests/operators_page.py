"""docs/operators.md: the table of operators, which operands may be constants, and what became of onnx's node cases.
`python -m tests.operators_page` writes it.
"""

from __future__ import annotations

from pathlib import Path

from csdfgen.backends.native.families import KERNELS
from csdfgen.ops.page import page
from tests.constness import summary
from tests.node_cases_report import report

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

HEADING = "\n## Constant operands\n"
NODE_CASES = "\n## Node cases\n\n"


def whole_page() -> str:
    """The page as it should be with the installed version of onnx."""
    return page(KERNELS) + HEADING + summary() + NODE_CASES + report()


if __name__ == "__main__":
    PAGE.write_text(whole_page())
