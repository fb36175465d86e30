"""`csdfgen reproduce`: the figures, tables and claims of five papers, ours and what is printed, and what that turned up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import JSON
from csdfgen.cli.terminal import csv_text, say, show_progress, table
from csdfgen.files import check_writable, write_bytes, write_json
from csdfgen.model.options import declare

if TYPE_CHECKING:
    from csdfgen.paper import table3
    from csdfgen.paper.batches.modelled import Point
    from csdfgen.paper.cells import Cell, Left, Progress


Rows = list[dict[str, Any]]

_Part = Literal[
    "fig1", "table2", "table3", "findings", "paper002", "paper003", "paper004", "vbs", "lbci", "tx2", "all",
]  # fmt: skip

_PAPER_002 = ("fig1", "table2", "table3", "findings")

_MEASURED = ("m_DL", "m_our", "tau_DL", "tau_our")


@dataclass(frozen=True, kw_only=True)
class Reproduce(Command):
    """Compute the figures and tables of five papers, and compare them with the printed ones; `all` is all of them.

    `paper002` computes the figure and tables of the base paper (Minakova and Stefanov 2020), and `findings` on its
    algorithm, capacities, counting and misprints; see docs/paper.md. `paper003` computes the tables, claims and examples
    of the OpenCL Caffe paper (Tschopp 2018: number formats, blob reuse, experts); see docs/paper003.md. `paper004`
    computes what follows from the tables of the CitiusSynapse paper (2021: OpenCL on embedded systems), and measures
    each of its techniques on this machine; see docs/paper004.md. `vbs` computes the numbers of the paper of 2020 on
    variable batch sizes across layers, and models its measurements; see docs/batches.md. `lbci` computes the percentages
    of the paper of 2023 on layered batches in a simulated server; see docs/lbci.md. `tx2` maps networks to GPU and CPUs of
    a Jetson TX2, by times that the authors of paper 002 measured; see docs/papers.md.
    """

    examples = (
        "csdfgen reproduce table2",
        "csdfgen reproduce paper002 --json out.json",
        "csdfgen reproduce all",
        "csdfgen reproduce paper003",
        "csdfgen reproduce paper004",
        "csdfgen reproduce vbs",
        "csdfgen reproduce lbci",
        "csdfgen reproduce tx2 --tables input_examples/high_throughput",
    )

    part: _Part = argument("|".join(get_args(_Part)))
    json_file: Path | None = declare("Write all cells as JSON.", None, "FILE", names=JSON)
    csv: Path | None = declare("Write all cells as CSV.", None, "FILE")
    counting: Literal["paper", "schedule", "both"] = declare(
        "Table III as counted by the authors, as executed by our schedules, or both.", "both"
    )
    tables: Path | None = declare("Of tx2: the authors' times of layers.", None, "FOLDER")

    def run(self) -> None:
        """Reproduce one part or "all", print it, and write what is asked for. Raises CsdfgenError."""
        for path in filter(None, (self.json_file, self.csv)):
            check_writable(path)
        wholes = {
            "paper002": _PAPER_002,
            "all": (*_PAPER_002, "paper003", "paper004", "vbs", "lbci", "tx2"),
        }
        parts = wholes.get(self.part, (self.part,))
        found = {part: self._rows(part) for part in parts}
        if self.json_file is not None:
            write_json(self.json_file, found)
        if self.csv is not None:
            write_bytes(self.csv, _csv(found))

    def _rows(self, part: str) -> Rows:
        """Compute and print a part; its rows as JSON values."""
        if part == "table3":
            return _table3(("paper", "schedule") if self.counting == "both" else (self.counting,))
        makers: Mapping[str, Callable[[], Rows]] = {
            "fig1": _figure1, "table2": _table2, "findings": _findings, "paper003": _formats,
            "paper004": _embedded, "vbs": _batches, "lbci": _joining, "tx2": self._mapped,
        }  # fmt: skip
        return makers[part]()

    def _mapped(self) -> Rows:
        """GPU and CPUs of a TX2; the cells, or what is left out with its reason."""
        from csdfgen.paper.mapped import reproduce

        return _parts(partial(reproduce, self.tables))


def _csv(found: Mapping[str, Rows]) -> bytes:
    """Every row with its part in front; columns of all parts side by side, lists and objects as JSON."""
    rows = [{"part": part, **row} for part, rows in found.items() for row in rows]
    columns = list(dict.fromkeys(key for row in rows for key in row))

    def cell(value: object) -> object:
        return json.dumps(value) if isinstance(value, (list, dict)) else value

    return csv_text([columns, *([cell(row.get(name, "")) for name in columns] for row in rows)])


def _values(one: Any, names: str, **others: str) -> dict[str, Any]:
    """Attributes of a value by name; others: those that are called otherwise, or are of a part of it."""
    found = {**{name: name for name in names.split()}, **others}
    return {name: _plain(attrgetter(place)(one)) for name, place in found.items()}


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _same(match: bool) -> str:
    return "same" if match else "differs"


# Paper 002 --------------------------------------------------------------------------------------


def _figure1() -> Rows:
    from csdfgen.dataflow.dot import to_dot
    from csdfgen.paper.figure1 import check_figure1, figure1_graph

    graph = figure1_graph()
    checks = check_figure1(graph)
    rows = (
        (one.printed.name, one.ours, one.printed.rates, _same(one.match), one.printed.where)
        for one in checks
    )
    say(
        table("Figure 1", "ours", "printed", "same?", "printed in", rows=rows), f"\n{to_dot(graph)}"
    )
    return [
        _values(c, "ours match", sequence="printed.name", printed="printed.rates") for c in checks
    ]


def _table2() -> Rows:
    from csdfgen.paper.counting import phase_seconds
    from csdfgen.paper.table2 import fit_launch_seconds, fit_layer_seconds, reproduce_table2

    results = reproduce_table2()
    names = ("b12", "b23", "b34", "b45")
    shown: list[tuple[str, ...]] = []
    for one in results:
        example, rate = one.printed, f"{one.fitted:,.0f}"
        sizes = map(str, (*one.buffers, one.total))
        shown.append((example.name, "ours", str(one.phases), *sizes, rate, _same(one.match)))
        sizes = map(str, (*example.buffers, example.total, example.throughput))
        shown.append(("", "printed", str(example.phases), *sizes, ""))
    equal = "equal" if all(one.same_outputs for one in results) else "NOT equal"
    layers, launches = fit_layer_seconds(phase_seconds()) * 1e3, fit_launch_seconds()
    say(
        table("Table II", "", "phases", *names, "> total", "> fps", "same?", rows=shown),
        "",
        *(f"{one.printed.name}  {one.order}" for one in results),
        f"\nBuffers in elements, which the paper takes for bytes. Executed: the outputs of all four are {equal}. fps: "
        f"{layers:.3f} ms of work, fitted, and {phase_seconds() * 1e6:g} us for each phase, as in Table III; all "
        "four fit "
        f"with {launches[0] * 1e6:.2f} to {launches[1] * 1e6:.2f} us. The paper prints no times of layers; the "
        "published TX2 "
        f"model has far less for them ({results[0].throughput:,.0f} fps for {results[0].printed.name}).\n",
    )
    others = {
        "example": "printed.name", "printed_order": "printed.order", "printed_total": "printed.total",
        "modelled_fps": "throughput", "fitted_fps": "fitted", "printed_fps": "printed.throughput",
    }  # fmt: skip
    return [
        {
            **_values(one, "phases order total same_outputs match", **others),
            "buffers": dict(zip(names, one.buffers, strict=True)),
        }
        for one in results
    ]


def _table3(countings: tuple[str, ...]) -> Rows:
    from csdfgen.paper.table3 import reproduce_table3

    with show_progress() as progress:
        cells = list(reproduce_table3(countings, lambda name: progress(name)))
    for counting in countings:
        _show_counting(counting, [cell for cell in cells if cell.counting == counting])
    return [_values(cell, "network counting column ours printed match") for cell in cells]


def _show_counting(counting: str, cells: list[table3.Cell]) -> None:
    """One block of the table; a cell is "ours | printed", with an = where they are the same after
    rounding.
    """
    from csdfgen.paper.printed import COLUMNS

    shown: dict[str, list[str]] = {}
    for c in cells:
        row = shown.setdefault(c.network, [c.network])
        row.append(f"{c.ours:.2f} | {c.printed:g} {'=' if c.match else '*'}")
    columns = (f"> {name}" for name in COLUMNS)
    say(table(f"Table III, counting '{counting}'", *columns, rows=shown.values()))
    measured = [cell for cell in cells if cell.column in _MEASURED]
    if counting == "paper":
        same = sum(cell.match for cell in measured)
        say(
            f"ours | printed; = same after the printed rounding: {same} of {len(measured)} measured cells\n"
        )
        return
    less = {c.network: (1 - c.ours / c.printed) * 100 for c in cells if c.column == "m_our"}
    said = ", ".join(f"{name} {value:.1f} %" for name, value in less.items())
    say(
        "executed, every byte of the planned arena touched; m_our: parameters, outputs and arena (workspace "
        "included), less than "
        f"printed by: {said}\n"
    )


def _findings() -> Rows:
    from csdfgen.paper.findings import findings, misprints, readings
    from csdfgen.paper.printed import TABLE_3

    with show_progress() as progress:
        found = []
        for name in TABLE_3:
            progress(name)
            found.append(findings(name))
    numbers = ("m_DL, MB", "by Algorithm 1", "printed m_our", "leave rows", "below 0")
    rows = (
        (
            one.network, f"{one.m_dl:.1f}", f"{one.m_algorithm1:.1f}", f"{one.m_printed:g}", str(len(one.leaving)),
            str(len(one.negative)), str(one.iteration),
            f"deadlock at {one.full[-1].channel}" if one.full else "complete",
        )
        for one in found
    )  # fmt: skip
    columns = (f"> {name}" for name in numbers)
    say(
        table("network", *columns, "lines 38 and 42", "largest rates", rows=rows),
        "by Algorithm 1: parameters and the largest rate of every channel of the graph that it gives, MB; leave "
        "rows: layers "
        "whose (H + pads - k) is no multiple of s; below 0: layers whose last phase would take s - pad < 0 rows\n"
        "lines 38 and 42: images that an iteration takes, and results that it gives, if the last phase takes what "
        "they say; "
        "largest rates: a row a phase, capacities of the largest single rate\n",
    )
    _show_skip()
    read = list(readings())
    rows_read = (
        (r.network, r.rule, f"{r.m_our:.2f}", f"{r.printed:g}", _same(r.match)) for r in read
    )
    say(table("m_our, MB, by another rule", "rule", "> ours", "> printed", "same?", rows=rows_read))
    names = {
        "m_DL": "m_dl", "m_our_algorithm_1": "m_algorithm1", "m_our_printed": "m_printed",
        "layers_that_leave_rows": "leaving", "layers_below_0": "negative", "lines_38_and_42": "iteration",
        "full_channels": "full",
    }  # fmt: skip
    rows_found = [_values(one, "network", **names) for one in found]
    rows_found += [_values(r, "network rule m_our", m_our_printed="printed") for r in read]
    say("")
    return rows_found + _show_cells({"misprints": tuple(misprints())})


def _show_skip() -> None:
    from csdfgen.dataflow.graph import format_runs
    from csdfgen.paper.deadlock import find_full_channels, largest_rates
    from csdfgen.paper.findings import skip_graph
    from schedules import demand_driven

    graph = skip_graph()
    largest, found = largest_rates(graph), demand_driven(graph).capacities
    (full,) = find_full_channels(graph, largest)
    for one in graph.channels:
        rates = f"produces {format_runs(one.production)}, consumes {format_runs(one.consumption)}"
        sizes = f"largest rate {largest[one.name]}, scheduled {found[one.name]}"
        say(f"{one.name:<12} {one.source} -> {one.target}: {rates}; {sizes}")
    say(
        f"In buffers of the largest rate it stops at '{full.channel}', which holds {full.held} of {full.capacity} "
        f"when {full.produced} more would come; in those of the schedule it completes.\n"
    )


# Papers 003, 004, 000 and 001 ------------------------------------------------------------------------


def _formats() -> Rows:
    """All of paper 003; the cells, and what is left out with its reason."""
    from csdfgen.paper.formats.measured import formats
    from csdfgen.paper.formats.reproduction import reproduce

    return _parts(reproduce) + _here(formats)


def _embedded() -> Rows:
    """All of paper 004, and its techniques on this machine; the cells, and what is left out with its reason."""
    from csdfgen.paper.embedded.reproduction import reproduce

    return _parts(reproduce)


def _parts(
    reproduce: Callable[[Progress], tuple[Mapping[str, Sequence[Cell]], Sequence[Left]]],
) -> Rows:
    with show_progress() as progress:
        found, left = reproduce(lambda name: progress(name))
    return _show_cells(found) + _show_left(left)


def _batches() -> Rows:
    """All of paper 000; cells, points and what is left out."""
    from csdfgen.paper.batches.measured import requests
    from csdfgen.paper.batches.modelled import point_json
    from csdfgen.paper.batches.reproduction import reproduce

    with show_progress() as progress:
        found = reproduce(lambda name: progress(name))
    rows = _show_cells(found.cells)
    for figure, points in found.points.items():
        _show_points(figure, points)
        rows += [point_json(figure, point) for point in points]
    return rows + _show_left(found.left) + _here(requests)


def _here(measure: Callable[[list[Left]], Iterable[Cell]]) -> Rows:
    """What is measured on this machine, and what of it cannot be."""
    from csdfgen.paper.turns import PART

    left: list[Left] = []
    with show_progress() as progress:
        progress(PART)
        cells = tuple(measure(left))
    return _show_cells({PART: cells}) + (_show_left(left) if left else [])


def _joining() -> Rows:
    """All of paper 001; the cells, and what is left out with its reason."""
    from csdfgen.paper.joining.measured import policies
    from csdfgen.paper.joining.reproduction import reproduce

    return _parts(reproduce) + _here(policies)


def _show_points(figure: str, points: Sequence[Point]) -> None:
    def time(ms: float | None) -> str:
        return "-" if ms is None else f"{ms:.3f}"

    rows = (
        (
            one.network, str(one.images), str(one.memory_mb), time(one.fixed), str(one.batch), time(one.greedy),
            time(one.algorithm_1), time(one.ours), f"{one.gain:.1f} %", "+".join(map(str, one.rounds)),
        )
        for one in points
    )  # fmt: skip
    numbers = ("images", "MB", "fixed", "batch", "greedy", "Algorithm 1", "ours", "gain")
    columns = (f"> {name}" for name in numbers)
    title = f"{figure}, ms an image on a modelled K80"
    say(table(title, *columns, "rounds", rows=rows))
    say("fixed: the largest uniform batch; -: no plan\n")


def _show_cells(found: Mapping[str, Sequence[Cell]]) -> Rows:
    """A table a part; all cells as JSON values."""
    from csdfgen.paper.cells import cell_json

    for name, cells in found.items():
        title = f"Table {name}" if name[0].isdigit() or name == "A1" else name
        columns = ("", "> ours", "> printed", "> difference", "same?", "note")
        say(table(title, *columns, rows=map(_cell, cells)))
        verdicts = [cell.verdict for cell in cells if cell.printed is not None]
        if verdicts:
            same = verdicts.count("same")
            say(f"{same} of {len(verdicts)} are the same after the printed rounding")
        say("")
    return [cell_json(cell) for cells in found.values() for cell in cells]


def _cell(cell: Cell) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        digits = cell.digits
        return "" if value is None else f"{round(value, digits) + 0.0:,.{digits}f}"  # no -0.0

    ours = f"{number(cell.ours)} {cell.unit}".rstrip()
    verdict = "" if cell.printed is None else cell.verdict
    printed, difference = number(cell.printed), number(cell.difference)
    return cell.row, cell.column, ours, printed, difference, verdict, cell.note


def _show_left(left: Sequence[Left]) -> Rows:
    """What is not computed, with the reason; as JSON values."""
    from csdfgen.paper.cells import left_json

    rows = ((one.where, one.what, str(one.cells or ""), one.why) for one in left)
    say(table("not computed", "what", "> numbers", "why", rows=rows))
    return [left_json(one) for one in left]
