"""`csdfgen reproduce`: the figure and tables of paper 002, ours beside what is printed, and what
that turned up; and what papers 000 and 003 print.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from csdfgen.cli.reproduce_batches import print_batches
from csdfgen.cli.reproduce_cells import print_formats
from csdfgen.cli.terminal import console, stages, table
from csdfgen.dataflow.dot import to_dot
from csdfgen.dataflow.graph import short_form
from csdfgen.files import check_writable, write_bytes, write_json
from csdfgen.paper.deadlock import largest_rates, stuck
from csdfgen.paper.figure1 import check_figure1, figure1_graph
from csdfgen.paper.findings import Finding, findings, readings, skip_graph
from csdfgen.paper.printed import COLUMNS, TABLE_3
from csdfgen.paper.table2 import reproduce_table2
from csdfgen.paper.table3 import COUNTINGS, Cell, reproduce_table3
from schedules import demand_driven

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
        shown.add_row(
            check.printed.name,
            check.ours,
            check.printed.rates,
            _same(check.match),
            check.printed.where,
        )
    out.print(shown)
    out.print(f"\n{to_dot(graph)}")
    return [
        {"sequence": c.printed.name, "ours": c.ours, "printed": c.printed.rates, "match": c.match}
        for c in checks
    ]


def _table2(countings: tuple[str, ...]) -> Rows:
    results = reproduce_table2()
    shown = table(
        "Table II",
        "",
        "phases",
        "b12",
        "b23",
        "b34",
        "b45",
        "total",
        "fps",
        "same?",
        right=("total", "fps"),
    )
    out = console()
    found: Rows = []
    for one in results:
        example = one.printed
        numbers = [str(size) for size in (*one.buffers, one.total)]
        verdict = _same(one.match)
        shown.add_row(
            example.name,
            "ours",
            str(one.phases),
            *numbers,
            f"{one.throughput:,.0f} (modelled)",
            verdict,
        )
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
    """One block of the table; a cell is "ours | printed", with an = where they are the same after
    rounding.
    """
    out = console()
    shown = table(f"Table III, counting '{counting}'", *COLUMNS, right=COLUMNS)
    for name in dict.fromkeys(cell.network for cell in cells):
        row = [cell for cell in cells if cell.network == name]
        shown.add_row(
            name, *(f"{c.ours:.2f} | {c.printed:g} {'=' if c.match else '*'}" for c in row)
        )
    out.print(shown)
    measured = [cell for cell in cells if cell.column in _MEASURED]
    if counting == "paper":
        same = sum(cell.match for cell in measured)
        out.print(
            f"ours | printed; = same after the printed rounding: {same} of {len(measured)} measured cells\n"
        )
        return
    less = {c.network: (1 - c.ours / c.printed) * 100 for c in cells if c.column == "m_our"}
    said = ", ".join(f"{name} {value:.1f} %" for name, value in less.items())
    out.print(
        "executed, every byte of the planned arena touched; m_our: parameters, outputs and arena (workspace included), less than "
        f"printed by: {said}\n"
    )


def _findings(countings: tuple[str, ...]) -> Rows:
    with stages() as stage:
        found = []
        for name in TABLE_3:
            stage(name)
            found.append(findings(name))
    _print_findings(found)
    _print_skip()
    shown = table(
        "m_our, MB, by another rule", "rule", "ours", "printed", "same?", right=("ours", "printed")
    )
    read = list(readings())
    for one in read:
        shown.add_row(
            one.network, one.rule, f"{one.m_our:.2f}", f"{one.printed:g}", _same(one.match)
        )
    console().print(shown)
    rows: Rows = [
        {
            "network": one.network,
            "m_DL": one.m_dl,
            "m_our_algorithm_1": one.m_algorithm1,
            "m_our_printed": one.m_printed,
            "layers_that_leave_rows": list(one.leaving),
            "layers_below_0": list(one.negative),
            "lines_38_and_42": asdict(one.iteration),
            "full_channels": [asdict(full) for full in one.full],
        }
        for one in found
    ]
    return rows + [
        {"network": r.network, "rule": r.rule, "m_our": r.m_our, "m_our_printed": r.printed}
        for r in read
    ]


def _print_findings(found: list[Finding]) -> None:
    columns = ("m_DL, MB", "by Algorithm 1", "printed m_our", "leave rows", "below 0")
    shown = table("network", *columns, "lines 38 and 42", "largest rates", right=columns)
    for one in found:
        sizes = f"{one.m_dl:.1f}", f"{one.m_algorithm1:.1f}", f"{one.m_printed:g}"
        stops = f"deadlock at {one.full[-1].channel}" if one.full else "complete"
        shown.add_row(
            one.network,
            *sizes,
            str(len(one.leaving)),
            str(len(one.negative)),
            str(one.iteration),
            stops,
        )
    out = console()
    out.print(shown)
    out.print(
        "by Algorithm 1: parameters and the largest rate of every channel of the graph that it gives, MB; leave rows: layers "
        "whose (H + pads - k) is no multiple of s; below 0: layers whose last phase would take s - pad < 0 rows\n"
        "lines 38 and 42: images that an iteration takes, and results that it gives, if the last phase takes what they say; "
        "largest rates: a row a phase, capacities of the largest single rate\n"
    )


def _print_skip() -> None:
    graph = skip_graph()
    (full,) = stuck(graph, largest_rates(graph))
    found = demand_driven(graph).capacities
    out = console()
    for channel in graph.channels:
        rates = (
            f"produces {short_form(channel.production)}, consumes {short_form(channel.consumption)}"
        )
        sizes = (
            f"largest rate {largest_rates(graph)[channel.name]}, scheduled {found[channel.name]}"
        )
        out.print(f"{channel.name:<12} {channel.source} -> {channel.target}: {rates}; {sizes}")
    out.print(
        f"In buffers of the largest rate it stops at '{full.channel}', which holds {full.held} of {full.capacity} "
        f"when {full.produced} more would come; in those of the schedule it completes.\n"
    )


PARTS: dict[str, Callable[[tuple[str, ...]], Rows]] = {
    "fig1": _figure1,
    "table2": _table2,
    "table3": _table3,
    "findings": _findings,
    "paper003": lambda countings: print_formats(),
    "vbs": lambda countings: print_batches(),
}
"""What can be reproduced -> how; each prints and returns its rows."""

ALL = ("fig1", "table2", "table3")
"""What paper 002 prints."""


def run_reproduce(part: str, json_file: Path | None, csv_file: Path | None, counting: str) -> None:
    """Reproduce one part or "all", print it, and write what is asked for. Raises CsdfgenError."""
    for path in filter(None, (json_file, csv_file)):
        check_writable(path)
    countings = COUNTINGS if counting == "both" else (counting,)
    found = {name: PARTS[name](countings) for name in (ALL if part == "all" else (part,))}
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
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """Lists and objects as JSON."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value
