"""The tables of docs/paper004.md. `python -m tests.paper004_page` computes them again and writes them into the page, those
that are measured with the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from benchmarks.pages import machine
from csdfgen.paper.cells import Cell
from csdfgen.paper.embedded.printed import LEFT
from csdfgen.paper.embedded.reproduction import PARTS, Reproduction, reproduce
from csdfgen.paper.turns import PART
from tests.documents import ROOT
from tests.paper003_page import grid, shown, table
from tests.paper_page import filled

PAGE = ROOT / "docs" / "paper004.md"

HEAD = "derived / printed"

MARKERS = {
    "sizes": "5",
    "times": "6",
    "others": "7",
    "pytorch": "8",
    "memory": "9",
    "unified": "A1",
    "claims": "claims",
    "winograd": "Winograd",
}
"""Marker -> part."""


@cache
def _found() -> Reproduction:
    return reproduce()


def computed(marker: str) -> str:
    """A part that is the same on every machine."""
    cells = list(PARTS[MARKERS[marker]]())
    if marker in ("claims", "winograd", "others", "sizes"):
        return _listed(cells)
    return grid(cells, HEAD)


def _listed(cells: Sequence[Cell]) -> str:
    """A row a cell, with its unit and note."""
    printed = any(cell.printed is not None for cell in cells)
    rows = [
        (" ".join(dict.fromkeys(filter(None, (c.row, c.column)))), shown(c), c.unit, c.note)
        for c in cells
    ]
    return table(("", HEAD if printed else "ours", "", "note"), rows)


def measured() -> str:
    """With the machine, and what could not be measured on it."""
    cells, left = _found()
    more = [f"{one.what}: {one.why}." for one in left if one not in LEFT]
    where = f"Median frames at 224x224, in turn; {machine('pyopencl')}."
    return "\n".join((grid(cells[PART], ""), *more, where, ""))


def left() -> str:
    return table(
        ("where", "what", "numbers", "why"),
        [(one.where, one.what, one.cells or "", one.why) for one in LEFT],
    )


MAKERS: dict[str, Callable[[], str]] = {
    "measured": measured,
    "left": left,
    **{name: partial(computed, name) for name in MARKERS},
}

if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), MAKERS))
