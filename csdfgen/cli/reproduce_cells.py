"""How do the numbers of a paper print? A table a part: ours beside what is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from csdfgen.cli.terminal import console, stages, table
from csdfgen.paper.cells import Cell, Left, as_json, left_json
from csdfgen.paper.formats.reproduction import reproduce

__all__ = ["print_cells", "print_formats", "print_left"]


def print_formats() -> list[dict[str, Any]]:
    """Compute and print all of paper 003; the cells as JSON values, and what is left out with its reason."""
    with stages() as stage:
        found, left = reproduce(lambda name: stage(name))
    return print_cells(found) + print_left(left)


def print_cells(found: Mapping[str, Sequence[Cell]]) -> list[dict[str, Any]]:
    """A table a part; all cells as JSON values."""
    for name, cells in found.items():
        _print_part(name, cells)
    return [as_json(cell) for cells in found.values() for cell in cells]


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


def print_left(left: Sequence[Left]) -> list[dict[str, Any]]:
    """What is not computed, with the reason; as JSON values."""
    shown = table("not computed", "what", "numbers", "why", right=("numbers",))
    for one in left:
        shown.add_row(one.where, one.what, str(one.cells or ""), one.why)
    console().print(shown)
    return [left_json(one) for one in left]
