"""How does `csdfgen reproduce paper003` print? A table a part: ours beside what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from csdfgen.cli.terminal import console, stages, table
from csdfgen.paper.formats.cells import Cell, as_json
from csdfgen.paper.formats.printed import Left
from csdfgen.paper.formats.reproduction import reproduce

__all__ = ["print_formats"]


def print_formats() -> list[dict[str, Any]]:
    """Compute and print all; the cells as JSON values, and what is left out with its reason."""
    with stages() as stage:
        found, left = reproduce(lambda name: stage(name))
    for name, cells in found.items():
        _print_part(name, cells)
    _print_left(left)
    rows = [as_json(cell) for cells in found.values() for cell in cells]
    return rows + [_left_json(one) for one in left]


def _print_part(name: str, cells: Sequence[Cell]) -> None:
    title = f"Table {name}" if name[0].isdigit() else name
    numbers = ("ours", "printed", "difference")
    shown = table(title, "", *numbers, "same?", "note", right=numbers)
    for cell in cells:
        difference = "" if cell.difference is None else _number(cell.difference, cell.digits)
        printed = "" if cell.printed is None else _number(cell.printed, cell.digits)
        ours = f"{_number(cell.ours, cell.digits)} {cell.unit}".rstrip()
        verdict = "" if cell.printed is None else cell.verdict
        shown.add_row(cell.row, cell.column, ours, printed, difference, verdict, cell.note)
    out = console()
    out.print(shown)
    compared = [cell for cell in cells if cell.printed is not None]
    if compared:
        same = sum(cell.verdict == "same" for cell in compared)
        out.print(f"{same} of {len(compared)} are the same after the printed rounding")
    out.print()


def _number(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:,.{digits}f}"  # no -0.0


def _print_left(left: Sequence[Left]) -> None:
    shown = table("not computed", "what", "numbers", "why", right=("numbers",))
    for one in left:
        shown.add_row(one.where, one.what, str(one.cells or ""), one.why)
    console().print(shown)


def _left_json(one: Left) -> dict[str, Any]:
    return {
        "table": one.where,
        "row": one.what,
        "numbers": one.cells,
        "verdict": "not computed",
        "note": one.why,
    }
