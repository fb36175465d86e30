"""`csdfgen schedule GRAPH`: one processor's firing order with capacities, or a periodic schedule
with start times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from csdfgen.charts import gantt_chart, replay, trace_periodic, trace_schedule
from csdfgen.cli.graphs import parse_capacities, read_graph_file, resolve_capacities
from csdfgen.cli.terminal import dim_text, escape, say, show_progress, table
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import InputError, prefix_errors
from csdfgen.files import write_bytes
from csdfgen.model.units import pluralize
from schedules import check
from schedules.periodic import PeriodicSchedule, periodic_schedule
from schedules.schedule import Firing, compact_loops, format_loops, write_schedule
from schedules.starts import schedule_span, write_starts
from schedules.static import static_schedule

if TYPE_CHECKING:
    from csdfgen.cli.schedule import Schedule


_SHOWN_FIRINGS = 2000

_FOLLOWED = 2_000_000
"""Firings of a periodic schedule that are followed until it repeats."""


def schedule_graph(command: Schedule, of_models: Sequence[str]) -> None:
    """Write the schedule of a graph, or print a summary, or draw it. of_models: flags given that are for models.
    Raises CsdfgenError, which names the graph's file.
    """
    given = parse_capacities(command.capacities)
    others = ["--pareto"] * command.pareto + ["--json"] * command.as_json
    graph = read_graph_file(command.model, [*of_models, *others], given.file)
    if command.periodic and command.policy is not None:
        raise InputError(
            f"--policy {command.policy} orders the firings of one processor; leave it out with --periodic",
            where=command.model,
        )
    capacities = resolve_capacities(graph, given)
    with prefix_errors(command.model):
        (_start_periodically if command.periodic else _order)(command, graph, capacities)


def _order(command: Schedule, graph: CsdfGraph, capacities: Mapping[str, int]) -> None:
    """One processor's order."""
    output, gantt = command.output, command.gantt
    with show_progress() as progress:
        progress("scheduling")
        schedule = static_schedule(graph, capacities, policy=command.policy or "demand")
        progress("checking")
        check(graph, schedule)
        if gantt is not None:
            progress("drawing")
            write_bytes(gantt, gantt_chart(trace_schedule(graph, schedule)))
    firings, total = pluralize(len(schedule.firings), "firing"), _total(graph, schedule.capacities)
    if output is not None:
        write_schedule(output, schedule)
        say(f"{escape(output)}: {firings}, {total}")
    elif gantt is None:
        say(
            _channels(graph, schedule.capacities),
            f"\nfirings ({firings}, order '{schedule.policy}')",
            render_loops(schedule.firings),
            f"\n{escape(graph.name)}: {total}",
        )
    if gantt is not None:
        say(f"{escape(gantt)}: {firings} on one processor")


def render_loops(firings: Sequence[Firing]) -> Text:
    """The firings as loops, as the paper writes them; a file has them all."""
    text = format_loops(compact_loops(firings))
    if len(text) > _SHOWN_FIRINGS:
        text = f"{text[: text.rindex(',', 0, _SHOWN_FIRINGS)]}, ... (all of them with -o)"
    return dim_text(text)


def _start_periodically(command: Schedule, graph: CsdfGraph, capacities: Mapping[str, int]) -> None:
    """Start times that repeat."""
    output, gantt = command.output, command.gantt
    with show_progress() as progress:
        progress("scheduling")
        schedule = periodic_schedule(graph, capacities)
        progress("checking")
        timeline = trace_periodic(graph, schedule, capacities, _FOLLOWED)
        names = (channel.name for channel in graph.channels)
        held = {**dict(zip(names, replay(timeline).peaks(), strict=True)), **capacities}
        if gantt is not None:
            progress("drawing")
            write_bytes(gantt, gantt_chart(trace_periodic(graph, schedule, capacities)))
    if output is not None:
        write_starts(output, graph, schedule, held)
    elif gantt is None:
        say(_starts(graph, schedule), "", _channels(graph, held), "")
    firings, span = sum(map(len, schedule.starts.values())), schedule_span(graph, schedule)
    units = "time unit" if schedule.period == 1 else "time units"
    say(
        f"{output or escape(graph.name)}: {pluralize(firings, 'firing')} every {_time(schedule.period)} {units}, "
        f"throughput {1 / schedule.period}",
        f"an iteration takes {_time(span)} from its first start to its last end; "
        f"{pluralize(ceil(span / schedule.period), 'iteration')} under way at one time",
        _total(graph, held),
    )
    if gantt is not None:
        say(f"{escape(gantt)}: two periods")


def _starts(graph: CsdfGraph, schedule: PeriodicSchedule) -> Table:
    rows = []
    for actor in graph.actors:
        row = schedule.starts[actor.name]
        busy = sum(actor.execution_times) * (len(row) // actor.phases)
        rows.append((actor.name, str(len(row)), busy, _time(row[0]), _time(row[-1])))
    return table("actor", "> firings", "> time", "> first start", "> last start", rows=rows)


def _time(value: Fraction) -> str:
    """An instant, exact: whole, or as a fraction."""
    return f"{value.numerator:,}" if value.denominator == 1 else str(value)


def _channels(graph: CsdfGraph, capacities: Mapping[str, int]) -> Table:
    return table(
        "channel", "kind", "from", "to", "> tokens", "> bytes",
        rows=(
            (one.name, one.kind, one.source, one.target, tokens := capacities[one.name], tokens * one.token_bytes)
            for one in graph.channels
        ),
    )  # fmt: skip


def _total(graph: CsdfGraph, capacities: Mapping[str, int]) -> str:
    tokens = sum(capacities.values())
    size = sum(capacities[channel.name] * channel.token_bytes for channel in graph.channels)
    return f"{pluralize(len(graph.channels), 'channel')} of {pluralize(tokens, 'token')}, {pluralize(size, 'byte')} in all"
