"""The tables of docs/batches.md. `python -m tests.batches_page` computes them anew and writes them into the
page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from csdfgen.paper.batches.measured import requests
from csdfgen.paper.batches.modelled import Point, model_tables, plan_request
from csdfgen.paper.batches.reproduction import Reproduction, reproduce
from csdfgen.paper.cells import Cell
from schedules.batches.replay import replay
from tests.documents import ROOT
from tests.paper003_page import grid, here, shown, table
from tests.paper_page import filled

PAGE = ROOT / "docs" / "batches.md"

HEAD = "ours / printed"


@cache
def _found() -> Reproduction:
    return reproduce()


def _cells(part: str, *tables: str) -> list[Cell]:
    return [one for one in _found().cells[part] if not tables or one.table in tables]


def _listed(cells: Sequence[Cell], head: str = HEAD) -> str:
    """A row a cell, with its unit and note."""
    rows = [(" ".join(filter(None, (c.row, c.column))), shown(c), c.unit, c.note) for c in cells]
    return table(("", head, "", "note"), rows)


def baseline() -> str:
    return grid(_cells("memory", "Table III"), HEAD)


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


COLUMNS = (
    "network",
    "images",
    "MB",
    "fixed",
    "its batch",
    "greedy",
    "Algorithm 1",
    "ours",
    "rounds",
    "gain",
)
"""Of the modelled figures; times are ms an image."""


def _points(figure: str) -> str:
    return table(COLUMNS, [_point(point) for point in _found().points[figure]])


def _point(point: Point) -> tuple[object, ...]:
    fixed, greedy, printed, ours = (
        "-" if ms is None else f"{ms:.3f}"
        for ms in (point.fixed, point.greedy, point.algorithm_1, point.ours)
    )
    rounds = "+".join(map(str, point.rounds))
    head = point.network, point.images, point.memory_mb
    return (*head, fixed, point.batch, greedy, printed, ours, rounds, f"{point.gain:.1f} %")


def left() -> str:
    rows = [(one.where, one.what, one.cells or "", one.why) for one in _found().left]
    return table(("where", "what", "numbers", "why"), rows)


MAKERS: dict[str, Callable[[], str]] = {
    "example": lambda: _listed(_cells("worked example")),
    "random": lambda: grid(_cells("random networks"), ""),
    "baseline": baseline,
    "memory": lambda: _listed(_cells("memory", "Figure 2", "Figure 7", "Figure 8")),
    "gains": lambda: grid(_cells("modelled", "Table II"), HEAD),
    "trends": lambda: _listed(_cells("modelled", "section IV")),
    "figure7": lambda: _points("Figure 7"),
    "figure8": lambda: _points("Figure 8"),
    "batches": batches,
    "pattern": lambda: _listed(_cells("modelled", "Figure 6", "Figure 7", "Figure 9", "Table III")),
    "errata": lambda: _listed(_cells("errata")),
    "left": left,
}


def with_tables(text: str) -> str:
    """The page, its tables made anew."""
    return filled(text, MAKERS)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), {**MAKERS, "measured": here(requests)}))
