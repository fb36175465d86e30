"""How does a number that a paper prints compare with ours, and what is not computed?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One number. printed: None where the paper has no number for it; digits: decimals that it is
    printed with. note: what is true, where they differ. within: the largest difference that still counts as
    the same, where the paper neither rounds nor truncates throughout.

    >>> Cell("4.2", "MOE", "int8", "MB", 77.5, 77.454).verdict
    'same'
    >>> [Cell("4.2", "MOE", "int8", "MB", 77.5, ours, within=0.2).verdict for ours in (77.31, 77.2)]
    ['same', 'differs']
    """

    table: str
    row: str
    column: str
    unit: str
    printed: float | None
    ours: float
    digits: int = 1
    note: str = ""
    within: float = 0.0

    @property
    def difference(self) -> float | None:
        """Ours less printed."""
        return None if self.printed is None else self.ours - self.printed

    @property
    def verdict(self) -> str:
        """Whether ours, rounded as printed, is the "same", or "differs"; or "not printed"."""
        if self.printed is None:
            return "not printed"
        near = abs(self.ours - self.printed) <= self.within
        return "same" if near or round(self.ours, self.digits) == self.printed else "differs"


@dataclass(frozen=True, slots=True)
class Left:
    """A part of a paper that is not computed. cells: numbers in it; why: what would be needed."""

    where: str
    what: str
    cells: int
    why: str


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell as JSON values."""
    names = "table", "row", "column", "unit", "printed", "ours", "difference", "verdict", "note"
    return {name: getattr(cell, name) for name in names}


def left_json(left: Left) -> dict[str, Any]:
    """The same of what is not computed."""
    return {
        "table": left.where,
        "row": left.what,
        "numbers": left.cells,
        "verdict": "not computed",
        "note": left.why,
    }
