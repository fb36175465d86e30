"""The tables of docs/batches.md. `python -m tests.batches_page` computes them anew and writes them into the
page.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from csdfgen.paper.batches.measured import requests
from csdfgen.paper.batches.modelled import model_tables, plan_request
from csdfgen.paper.batches.reproduction import Reproduction, reproduce
from csdfgen.paper.cells import Cell
from schedules.batches.replay import replay
from tests.documents import ROOT
from tests.paper003_page import grid, here, listed, table
from tests.paper_page import filled

PAGE = ROOT / "docs" / "batches.md"

HEAD = "ours / printed"


@cache
def _found() -> Reproduction:
    return reproduce()


def _cells(part: str, *tables: str) -> list[Cell]:
    return [one for one in _found().cells[part] if not tables or one.table in tables]


def baseline() -> str:
    left_over = _cells("modelled", "Table III")
    return grid([*_cells("memory", "Table III"), *left_over], HEAD)


def batches() -> str:
    """How often each layer of GoogleNet's main path is called at 20 MB, on how many images."""
    plan, chain = plan_request("GoogleNet", 12, 20), model_tables("GoogleNet", "gathering").chain
    assert plan is not None
    calls = replay(chain, plan).calls
    rows = [
        (layer.name, ", ".join(str(call.images) for call in calls if call.layer == layer.name))
        for layer in chain.layers
    ]
    return table(("layer", "images of each call"), rows)


def _pattern() -> list[Cell]:
    """Figures 6, 7 and 9; of C3D the largest gain of its clips."""
    cells = _cells("modelled", "Figure 6", "Figure 7", "Figure 9")
    return [one for one in cells if not one.row.startswith("C3D, ")]


def points() -> str:
    """Figures 7 and 8 in one table: a row for each network and request, a column for each memory."""
    rows: dict[tuple[str, int], dict[int, str]] = {}
    for one in (*_found().points["Figure 7"], *_found().points["Figure 8"]):
        rows.setdefault((one.network, one.images), {})[one.memory_mb] = (
            f"{one.fixed:.2f} → {one.ours:.2f}"
        )
    sizes = sorted({size for cells in rows.values() for size in cells})
    head = ("network, images", *(f"{size} MB" for size in sizes))
    return table(
        head,
        [
            (f"{name}, {images}", *(cells[size] for size in sizes))
            for (name, images), cells in rows.items()
        ],
    )


def left() -> str:
    rows = [(one.where, one.what, one.cells or "", one.why) for one in _found().left]
    return table(("where", "what", "numbers", "why"), rows)


MAKERS: dict[str, Callable[[], str]] = {
    "example": lambda: listed(_cells("worked example"), HEAD),
    "random": lambda: grid(_cells("random networks"), ""),
    "baseline": baseline,
    "memory": lambda: listed(_cells("memory", "Figure 2", "Figure 7", "Figure 8"), HEAD),
    "gains": lambda: grid(_cells("modelled", "Table II"), HEAD),
    "trends": lambda: listed(_cells("modelled", "section IV"), HEAD),
    "points": points,
    "batches": batches,
    "pattern": lambda: listed(_pattern(), HEAD),
    "errata": lambda: listed(_cells("errata"), HEAD),
    "left": left,
}


def with_tables(text: str) -> str:
    """The page, its tables made anew."""
    return filled(text, MAKERS)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), {**MAKERS, "measured": here(requests)}))
