"""`csdfgen schedule GRAPH`: one processor's firing order with capacities, or a periodic schedule
with start times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path

from rich.table import Table
from rich.text import Text

from csdfgen.charts import gantt_chart, of_periodic, of_schedule, replay
from csdfgen.cli.capacities import Capacities, capacities_for
from csdfgen.cli.terminal import console, counted, plain, stages, table
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import write_bytes
from schedules import Schedule, check
from schedules.periodic import PeriodicSchedule, periodic_schedule
from schedules.schedule import Firing, compact, loop_text, write_schedule
from schedules.starts import span_of, write_starts
from schedules.static import static_schedule

__all__ = ["GraphScheduling", "print_loops", "schedule_graph"]

_SHOWN_FIRINGS = 2000

_FOLLOWED = 2_000_000
"""Firings of a periodic schedule that are followed until it repeats."""


@dataclass(frozen=True, slots=True)
class GraphScheduling:
    """What only graphs are asked for: start times that repeat instead of an order, limits, a chart."""

    periodic: bool = False
    capacities: Capacities = field(default_factory=Capacities)
    gantt: Path | None = None

    def given(self) -> list[str]:
        """The options that the user gave, as typed."""
        found = {
            "periodic": self.periodic,
            "capacities": bool(self.capacities),
            "gantt": self.gantt is not None,
        }
        return [f"--{name}" for name, there in found.items() if there]


def schedule_graph(
    graph: CsdfGraph, path: str, output: Path | None, policy: str | None, asked: GraphScheduling
) -> None:
    """Write the schedule of a graph, or print a summary, or draw it. Raises CsdfgenError, which
    names the graph's file.
    """
    if asked.periodic and policy is not None:
        raise InputError(
            f"--policy {policy} orders the firings of one processor; leave it out with --periodic",
            where=path,
        )
    capacities = capacities_for(graph, asked.capacities)
    try:
        if asked.periodic:
            _start_periodically(graph, capacities, output, asked.gantt)
        else:
            _order(graph, capacities, output, policy or "demand", asked.gantt)
    except CsdfgenError as error:
        raise error.at(path) from None


# One processor ----------------------------------------------------------------------------------


def _order(
    graph: CsdfGraph,
    capacities: Mapping[str, int],
    output: Path | None,
    policy: str,
    gantt: Path | None,
) -> None:
    with stages() as stage:
        stage("scheduling")
        schedule = static_schedule(graph, capacities, policy=policy)
        stage("checking")
        check(graph, schedule)
        if gantt is not None:
            stage("drawing")
            write_bytes(gantt, gantt_chart(of_schedule(graph, schedule)))
    if output is not None:
        write_schedule(output, schedule)
        console().print(
            f"{output}: {counted(len(schedule.firings), 'firing')}, {_total(graph, schedule.capacities)}"
        )
    elif gantt is None:
        _summary(graph, schedule)
    if gantt is not None:
        console().print(f"{gantt}: {counted(len(schedule.firings), 'firing')} on one processor")


def _summary(graph: CsdfGraph, schedule: Schedule) -> None:
    out = console()
    out.print(_channels(graph, schedule.capacities))
    out.print(f"\nfirings ({counted(len(schedule.firings), 'firing')}, order '{schedule.policy}')")
    print_loops(schedule.firings)
    out.print(f"\n{plain(graph.name)}: {_total(graph, schedule.capacities)}")


def print_loops(firings: Sequence[Firing]) -> None:
    """The firings as loops, as the paper writes them; a file has them all."""
    text = plain(loop_text(compact(firings)))
    shown = (
        text
        if len(text) <= _SHOWN_FIRINGS
        else f"{text[: text.rindex(',', 0, _SHOWN_FIRINGS)]}, ... (all of them with -o)"
    )
    console().print(Text(shown, style="dim"))


# Periodic ---------------------------------------------------------------------------------------


def _start_periodically(
    graph: CsdfGraph, capacities: Mapping[str, int], output: Path | None, gantt: Path | None
) -> None:
    with stages() as stage:
        stage("scheduling")
        schedule = periodic_schedule(graph, capacities)
        stage("checking")
        timeline = of_periodic(graph, schedule, capacities, _FOLLOWED)
        names = (channel.name for channel in graph.channels)
        room = {**dict(zip(names, replay(timeline).peaks(), strict=True)), **capacities}
        if gantt is not None:
            stage("drawing")
            write_bytes(gantt, gantt_chart(of_periodic(graph, schedule, capacities)))
    if output is not None:
        write_starts(output, graph, schedule, room)
    elif gantt is None:
        _show_starts(graph, schedule, room)
    out, firings = console(), sum(map(len, schedule.starts.values()))
    span = span_of(graph, schedule)
    units = "time unit" if schedule.period == 1 else "time units"
    said = f"{counted(firings, 'firing')} every {_time(schedule.period)} {units}, throughput {1 / schedule.period}"
    out.print(f"{output or plain(graph.name)}: {said}")
    under_way = counted(ceil(span / schedule.period), "iteration")
    out.print(
        f"an iteration takes {_time(span)} from its first start to its last end; {under_way} under way at one time"
    )
    out.print(_total(graph, room))
    if gantt is not None:
        out.print(f"{gantt}: two periods")


def _show_starts(graph: CsdfGraph, schedule: PeriodicSchedule, room: Mapping[str, int]) -> None:
    out = console()
    numbers = "firings", "time", "first start", "last start"
    actors = table("actor", *numbers, right=numbers)
    for actor in graph.actors:
        row = schedule.starts[actor.name]
        busy = sum(actor.execution_times) * (len(row) // actor.phases)
        actors.add_row(plain(actor.name), str(len(row)), f"{busy:,}", _time(row[0]), _time(row[-1]))
    out.print(actors)
    out.print()
    out.print(_channels(graph, room))
    out.print()


def _time(value: Fraction) -> str:
    """An instant, exact: whole, or as a fraction."""
    return f"{value.numerator:,}" if value.denominator == 1 else str(value)


# Both -------------------------------------------------------------------------------------------


def _channels(graph: CsdfGraph, capacities: Mapping[str, int]) -> Table:
    channels = table("channel", "kind", "from", "to", "tokens", "bytes", right=("tokens", "bytes"))
    for channel in graph.channels:
        tokens = capacities[channel.name]
        names = plain(channel.name), channel.kind, plain(channel.source), plain(channel.target)
        channels.add_row(*names, f"{tokens:,}", f"{tokens * channel.token_bytes:,}")
    return channels


def _total(graph: CsdfGraph, capacities: Mapping[str, int]) -> str:
    tokens = sum(capacities.values())
    size = sum(capacities[channel.name] * channel.token_bytes for channel in graph.channels)
    return f"{counted(len(graph.channels), 'channel')} of {counted(tokens, 'token')}, {counted(size, 'byte')} in all"
