"""`csdfgen reproduce`: the figure and tables of paper 002, ours beside what is printed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from csdfgen.cli.terminal import console, stages, table
from csdfgen.dot import to_dot
from csdfgen.files import write_bytes, write_json
from csdfgen.paper.figure1 import check_figure1, figure1_graph
from csdfgen.paper.printed import COLUMNS
from csdfgen.paper.table2 import reproduce_table2
from csdfgen.paper.table3 import COUNTINGS, Cell, reproduce_table3

__all__ = ["PARTS", "run_reproduce"]

Rows = list[dict[str, Any]]

_MEASURED = ("m_DL", "m_our", "tau_DL", "tau_our")


def _same(match: bool) -> str:
    return "same" if match else "differs"


def _figure1(countings: tuple[str, ...]) -> Rows:
    graph = figure1_graph()
    checks = check_figure1(graph)
    out = console()
    shown = table("Figure 1", "ours", "printed", "same?", "printed in")
    for check in checks:
        shown.add_row(check.printed.name, check.ours, check.printed.rates, _same(check.match), check.printed.where)
    out.print(shown)
    out.print(f"\n{to_dot(graph)}")
    return [{"sequence": c.printed.name, "ours": c.ours, "printed": c.printed.rates, "match": c.match} for c in checks]


def _table2(countings: tuple[str, ...]) -> Rows:
    results = reproduce_table2()
    shown = table("Table II", "", "phases", "b12", "b23", "b34", "b45", "total", "fps", "same?", right=("total", "fps"))
    out = console()
    found: Rows = []
    for one in results:
        example = one.printed
        numbers = [str(size) for size in (*one.buffers, one.total)]
        verdict = _same(one.match)
        shown.add_row(example.name, "ours", str(one.phases), *numbers, f"{one.throughput:,.0f} (modelled)", verdict)
        printed = [str(size) for size in (*example.buffers, example.total)]
        shown.add_row("", "printed", str(example.phases), *printed, str(example.throughput), "")
        found.append(
            {
                "example": example.name,
                "phases": list(one.phases),
                "order": one.order,
                "printed_order": example.order,
                "buffers": dict(zip(("b12", "b23", "b34", "b45"), one.buffers, strict=True)),
                "total": one.total,
                "printed_total": example.total,
                "modelled_fps": one.throughput,
                "printed_fps": example.throughput,
                "same_outputs": one.same_outputs,
                "match": one.match,
            }
        )
    out.print(shown)
    out.print()
    for one in results:
        out.print(f"{one.printed.name}  {one.order}")
    equal = "equal" if all(one.same_outputs for one in results) else "NOT equal"
    out.print(
        f"\nBuffers in elements, which the paper takes for bytes. Executed: the outputs of all four are {equal}. The paper "
        "prints no times that its frames a second come from; ours are the published TX2 model's and not comparable.\n"
    )
    return found


def _table3(countings: tuple[str, ...]) -> Rows:
    with stages() as stage:
        cells = list(reproduce_table3(countings, lambda name: stage(name)))
    for counting in countings:
        _print_counting(counting, [cell for cell in cells if cell.counting == counting])
    return [
        {
            "network": c.network,
            "counting": c.counting,
            "column": c.column,
            "ours": c.ours,
            "printed": c.printed,
            "match": c.match,
        }
        for c in cells
    ]


def _print_counting(counting: str, cells: list[Cell]) -> None:
    """One block of the table; a cell is "ours | printed", with an = where they are the same after rounding."""
    out = console()
    shown = table(f"Table III, counting '{counting}'", *COLUMNS, right=COLUMNS)
    for name in dict.fromkeys(cell.network for cell in cells):
        row = [cell for cell in cells if cell.network == name]
        shown.add_row(name, *(f"{c.ours:.2f} | {c.printed:g} {'=' if c.match else '*'}" for c in row))
    out.print(shown)
    measured = [cell for cell in cells if cell.column in _MEASURED]
    if counting == "paper":
        same = sum(cell.match for cell in measured)
        out.print(f"ours | printed; = same after the printed rounding: {same} of {len(measured)} measured cells\n")
        return
    less = {c.network: (1 - c.ours / c.printed) * 100 for c in cells if c.column == "m_our"}
    said = ", ".join(f"{name} {value:.1f} %" for name, value in less.items())
    out.print(f"executed, every planned byte touched; m_our less than printed: {said}\n")


PARTS: dict[str, Callable[[tuple[str, ...]], Rows]] = {"fig1": _figure1, "table2": _table2, "table3": _table3}
"""What can be reproduced -> how; each prints and returns its rows."""


def run_reproduce(part: str, json_file: Path | None, csv_file: Path | None, counting: str) -> None:
    """Reproduce one part or "all", print it, and write what is asked for. Raises CsdfgenError."""
    countings = COUNTINGS if counting == "both" else (counting,)
    chosen = PARTS if part == "all" else {part: PARTS[part]}
    found = {name: make(countings) for name, make in chosen.items()}
    if json_file is not None:
        write_json(json_file, found)
    if csv_file is not None:
        write_bytes(csv_file, _csv(found).encode())


def _csv(found: dict[str, Rows]) -> str:
    """Every row with its part in front; columns of all parts side by side."""
    rows = [{"part": part, **row} for part, rows in found.items() for row in rows]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
