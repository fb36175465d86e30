"""What is a number of paper 003 beside ours?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Cell", "Progress", "as_json"]

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One number. printed: None where the paper has no number for it; digits: decimals that it is
    printed with. note: what is true, where they differ.

    >>> Cell("4.2", "MOE", "int8", "MB", 77.5, 77.454).verdict
    'same'
    """

    table: str
    row: str
    column: str
    unit: str
    printed: float | None
    ours: float
    digits: int = 1
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less printed."""
        return None if self.printed is None else self.ours - self.printed

    @property
    def verdict(self) -> str:
        """ "same" after the printed rounding, "differs", or "not printed"."""
        if self.printed is None:
            return "not printed"
        return "same" if round(self.ours, self.digits) == self.printed else "differs"


def as_json(cell: Cell) -> dict[str, Any]:
    """A cell as JSON values."""
    return {
        "table": cell.table,
        "row": cell.row,
        "column": cell.column,
        "unit": cell.unit,
        "printed": cell.printed,
        "ours": cell.ours,
        "difference": cell.difference,
        "verdict": cell.verdict,
        "note": cell.note,
    }
