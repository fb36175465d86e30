"""The tables of docs/lbci.md. `python -m tests.lbci_page` computes them anew and writes them into the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.joining.measured import policies
from csdfgen.paper.joining.reproduction import reproduce
from tests.documents import ROOT
from tests.paper003_page import here, shown, table
from tests.paper_page import filled

PAGE = ROOT / "docs" / "lbci.md"


@cache
def found() -> tuple[Mapping[str, tuple[Cell, ...]], tuple[Left, ...]]:
    return reproduce()


def listed(part: str, only: str = "") -> str:
    """A row a cell, with its unit and note."""
    cells = [one for one in found()[0][part] if not only or one.table == only]
    rows = [(" ".join(filter(None, (c.row, c.column))), shown(c), c.unit, c.note) for c in cells]
    return table(("", "ours / printed", "", "note"), rows)


def left() -> str:
    rows = [(one.where, one.what, one.cells or "", one.why) for one in found()[1]]
    return table(("where", "what", "numbers", "why"), rows)


MAKERS: dict[str, Callable[[], str]] = {
    "closest": partial(listed, "single-sample requests", "closest"),
    "rates": partial(listed, "single-sample requests", "of a rate"),
    "together": partial(listed, "single-sample requests", "together"),
    "several": partial(listed, "requests of several images, runs at N_opt"),
    "fit": partial(listed, "fit and N_opt"),
    "errata": partial(listed, "errata"),
    "gains": partial(listed, "beyond the paper"),
    "left": left,
}


def with_tables(text: str) -> str:
    """The page, its tables made anew."""
    return filled(text, MAKERS)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), {**MAKERS, "measured": here(policies)}))
