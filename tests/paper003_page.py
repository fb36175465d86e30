"""The tables of docs/paper003.md. `python -m tests.paper003_page` computes them anew and writes them into
the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from benchmarks.pages import machine
from csdfgen.goals.choice import plan
from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.formats.measured import formats
from csdfgen.paper.formats.memory import IMAGE, networks
from csdfgen.paper.formats.reproduction import Reproduction, reproduce
from csdfgen.reading.loader import load
from tests.documents import ROOT
from tests.paper_page import filled
from zoo_models import ZOO

PAGE = ROOT / "docs" / "paper003.md"

PARTS = {
    "listing": "Listing 1.4",
    "celsius": "4.6",
    "digits": "4.7",
    "parameters": "4.2",
    "networks": "section 4",
    "gains": "4.5",
    "claims": "claims",
    "devices": "4.1",
}
"""Marker -> part."""


@cache
def _found() -> Reproduction:
    return reproduce()


def line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table without its empty columns. Notes that several rows share stand below it, by number."""
    body = [[str(cell) for cell in row] for row in rows]
    shared = [
        note for note, count in Counter(row[-1] for row in body).items() if note and count > 1
    ]
    marks = {note: f"({number})" for number, note in enumerate(shared, 1)}
    marked = [[*row[:-1], marks.get(row[-1], row[-1])] for row in body]
    kept = [k for k in range(len(head)) if not k or any(row[k] for row in marked)]
    lines = [line(*(row[k] for k in kept)) for row in (head, *marked)]
    lines.insert(1, "|" + "---|" * len(kept))
    below = [f"\n{'; '.join(f'{mark} {note}' for note, mark in marks.items())}."] * bool(marks)
    return "\n".join([*lines, *below]) + "\n"


def listed(cells: Iterable[Cell], head: str) -> str:
    """A row for each cell, with its note."""
    rows = (
        (": ".join(filter(None, (c.row, c.column))), f"{shown(c)} {c.unit}".rstrip(), c.note)
        for c in cells
    )
    return table(("", head, "note"), rows)


def shown(cell: Cell) -> str:
    """Ours / printed, bold where they differ."""
    ours = f"{round(cell.ours, cell.digits) + 0.0:,.{cell.digits}f}"  # no -0
    if cell.printed is None:
        return ours
    both = f"{ours} / {cell.printed:,.{cell.digits}f}"
    return both if cell.verdict == "same" else f"**{both}**"


def grid(cells: Sequence[Cell], head: str) -> str:
    """Rows by columns; the notes of a row behind it."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = []
    for name in dict.fromkeys(cell.row for cell in cells):
        of = {cell.column: cell for cell in cells if cell.row == name}
        notes = "; ".join(dict.fromkeys(cell.note for cell in of.values() if cell.note))
        rows.append((name, *(shown(of[c]) if c in of else "" for c in columns), notes))
    return table((head, *columns, "note"), rows)


def _part(marker: str) -> str:
    cells = _found()[0].get(PARTS[marker])
    if cells is None:
        raise SystemExit(f"part {PARTS[marker]} cannot be computed here: install mlxtend")
    if marker in ("claims", "listing"):
        return listed(cells, "ours / printed" if marker == "claims" else "ours")
    return grid(cells, "ours / printed" if cells[0].printed is not None else "")


def memory() -> str:
    """Table 4.3, without differences of its cells."""
    cells = _found()[0]["4.3"]
    differences = ("float32 - int8", "saved by")
    own = [c for c in cells if not any(text in f"{c.row} {c.column}" for text in differences)]
    return grid(own, "ours / printed")


def rows() -> str:
    """Whole tensors, blob reuse, and our arenas of one image."""
    blobs = networks()["ImageNet"]
    network = load(ZOO["caffenet"].build(IMAGE, weights=True))
    arena = plan(network, backend="numpy", count="activations").figures["arena"]
    found = (
        ("every tensor", blobs.whole * 4),
        ("blob reuse", blobs.reused * 4),
        ("csdfgen, arena with `--count activations`", arena),
    )
    return table(("", "KiB"), [(name, f"{size / 1024:,.0f}") for name, size in found])


def left() -> str:
    return table(
        ("where", "what", "numbers", "why"),
        [(one.where, one.what, one.cells or "", one.why) for one in _found()[1]],
    )


def here(measure: Callable[[list[Left]], Iterable[Cell]]) -> Callable[[], str]:
    """Makes the table of what is measured, with the machine and what could not be measured on it."""

    def made() -> str:
        missing: list[Left] = []
        cells = list(measure(missing))
        lines = [f"{one.what}: {one.why}." for one in missing]
        return "\n".join((grid(cells, ""), *lines, f"{machine('onnxruntime')}.", ""))

    return made


MAKERS: dict[str, Callable[[], str]] = {
    "memory": memory,
    "rows": rows,
    "left": left,
    **{name: (lambda name=name: _part(name)) for name in PARTS},
}


def with_tables(text: str) -> str:
    """The page with every table computed anew."""
    return filled(text, MAKERS)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), {**MAKERS, "measured": here(formats)}))
