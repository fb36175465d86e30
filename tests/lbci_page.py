"""The tables of docs/lbci.md. `python -m tests.lbci_page` computes them anew and writes them into the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.joining.measured import policies
from csdfgen.paper.joining.reproduction import reproduce
from tests.documents import ROOT
from tests.paper003_page import grid, here, listed, shown, table
from tests.paper_page import filled

PAGE = ROOT / "docs" / "lbci.md"

HEAD = "ours / printed"
LATENCY = "mean latency, of "


@cache
def found() -> tuple[Mapping[str, tuple[Cell, ...]], tuple[Left, ...]]:
    return reproduce()


def part(name: str) -> str:
    return listed(found()[0][name], HEAD)


def single() -> str:
    """Each number under the assumptions that come closest to it, to all of its rate, and to all of them."""
    cells = found()[0]["single-sample requests"]
    (everywhere,) = {one.note for one in cells if one.table == "together"}
    rows: dict[str, list[str]] = {}
    for one in cells:
        alone = f" ({one.note})" if one.table != "together" else ""
        rows.setdefault(f"{one.row}: {one.column}", []).append(f"{shown(one)}{alone}")
    head = (
        "percent, ours / printed",
        "closest to this number",
        "closest to this rate",
        f"closest to all: {everywhere}",
    )
    return table((*head, ""), [(name, *values, "") for name, values in rows.items()])


def gains() -> str:
    """Latencies, and how many requests meet a deadline."""
    cells = found()[0]["beyond the paper"]
    late = [one for one in cells if one.column.startswith(LATENCY)]
    kept = [one for one in cells if one not in late]
    shorter = [replace(one, column=one.column.removeprefix(LATENCY)) for one in late]
    return grid(shorter, "adaptive's mean latency, % of") + "\n" + grid(kept, "answered in time, %")


def left() -> str:
    rows = [(one.where, one.what, one.cells or "", one.why) for one in found()[1]]
    return table(("where", "what", "numbers", "why"), rows)


MAKERS: dict[str, Callable[[], str]] = {
    "single": single,
    "several": partial(part, "requests of several images, runs at N_opt"),
    "fit": partial(part, "fit and N_opt"),
    "errata": partial(part, "errata"),
    "gains": gains,
    "left": left,
}


def with_tables(text: str) -> str:
    """The page, its tables made anew."""
    return filled(text, MAKERS)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), {**MAKERS, "measured": here(policies)}))
