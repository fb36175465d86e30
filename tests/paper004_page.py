"""The tables of docs/paper004.md. `python -m tests.paper004_page` computes them again and writes them into the page, those
that are measured with the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from benchmarks.pages import machine
from csdfgen.paper.cells import Cell
from csdfgen.paper.embedded.printed import LEFT
from csdfgen.paper.embedded.reproduction import PARTS, Reproduction, reproduce
from csdfgen.paper.turns import PART
from tests.documents import ROOT
from tests.paper003_page import grid, listed, table
from tests.paper_page import filled

PAGE = ROOT / "docs" / "paper004.md"

HEAD = "derived / printed"
GAINS = ("without, ms", "with, ms", "time, without / with", "arena, without / with")

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
    """A row for each cell; the head says whether any is printed."""
    printed = any(cell.printed is not None for cell in cells)
    return listed(cells, HEAD if printed else "ours")


def measured() -> str:
    """With the machine, and what could not be measured on it."""
    cells, left = _found()
    more = [f"{one.what}: {one.why}." for one in left if one not in LEFT]
    where = f"Median frames at 224x224, interleaved; {machine('pyopencl')}."
    return "\n".join((techniques(cells[PART]), *more, where, ""))


def techniques(cells: Iterable[Cell]) -> str:
    """A row for each technique, a column for each network: times without and with it, and the ratios."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one in cells:
        network, _, technique = one.row.partition(", ")
        found.setdefault(technique, {}).setdefault(network, {})[one.column] = one.ours
    networks = list(dict.fromkeys(name for row in found.values() for name in row))
    rows = [(name, *(_gain(row.get(one, {})) for one in networks)) for name, row in found.items()]
    return table(
        ("without → with, ms (time ratio, arena ratio)", *networks, ""),
        [(*row, "") for row in rows],
    )


def _gain(values: Mapping[str, float]) -> str:
    if not values:
        return ""
    without, with_it, faster, smaller = (values[name] for name in GAINS)
    return f"{without:.1f} → {with_it:.1f} ({faster:.2f}, {smaller:.2f})"


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
