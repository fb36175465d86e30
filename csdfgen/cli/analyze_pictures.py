"""`csdfgen analyze --gantt --occupancy --dot`: pictures of a graph as it executes within the
storage that was found or given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from csdfgen.cli.picture_options import Pictures
from csdfgen.cli.sections import Section
from csdfgen.cli.terminal import console, counted
from csdfgen.dataflow.dot import CriticalArrow, to_dot
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.dataflow.transform import space_in, spaces
from csdfgen.errors import InconsistentError
from csdfgen.files import write_bytes
from schedules.storage import Unit

__all__ = ["picture_section"]


def picture_section(
    graph: CsdfGraph,
    pictures: Pictures,
    capacities: Mapping[str, int],
    unit: Unit,
    inconsistency: str,
) -> Section:
    """Write the pictures; a line for each. Raises CsdfgenError.

    inconsistency: why the graph has no execution to show, in words, or "".
    """
    charts = pictures.gantt is not None or pictures.occupancy is not None
    if charts and inconsistency:
        raise InconsistentError(f"{inconsistency}; it has no execution to be drawn")
    lines = []
    if pictures.dot is not None:
        write_bytes(
            pictures.dot, _dot(graph, capacities, inconsistency).encode("utf-8", "backslashreplace")
        )
        lines.append(f"{pictures.dot}: the graph{_within(graph, capacities, unit)}")
    if charts:
        lines += _charts(graph, pictures, capacities, unit)
    files = {name: str(path) for name, path in pictures.files().items()}
    return Section("pictures", files, lambda: _show(lines))


def _charts(
    graph: CsdfGraph, pictures: Pictures, capacities: Mapping[str, int], unit: Unit
) -> list[str]:
    from csdfgen.charts import (
        Timeline,
        gantt_chart,
        occupancy_chart,
        of_periodic,
        of_schedule,
        self_timed,
    )
    from schedules.periodic import periodic_schedule
    from schedules.static import static_schedule

    makers: dict[str, Callable[[], Timeline]] = {
        "self-timed": lambda: self_timed(graph, capacities),
        "static": lambda: of_schedule(graph, static_schedule(graph, capacities)),
        "periodic": lambda: of_periodic(graph, periodic_schedule(graph, capacities), capacities),
    }
    timeline = makers[pictures.draw]()
    shown = (
        f"{counted(timeline.firings, 'firing')}, {timeline.title}{_within(graph, capacities, unit)}"
    )
    lines = []
    if pictures.gantt is not None:
        write_bytes(pictures.gantt, gantt_chart(timeline))
        lines.append(f"{pictures.gantt}: {shown}")
    if pictures.occupancy is not None:
        write_bytes(pictures.occupancy, occupancy_chart(timeline, unit))
        lines.append(f"{pictures.occupancy}: {unit} held, {shown}")
    return lines


def _within(graph: CsdfGraph, capacities: Mapping[str, int], unit: Unit) -> str:
    room = {**space_in(graph), **capacities}
    if not room:
        return ", channels unbounded"
    weight = {c.name: c.token_bytes if unit == "bytes" else 1 for c in graph.channels}
    return f" within capacities of {counted(sum(room[c] * weight[c] for c in room), unit[:-1])}"


def _dot(graph: CsdfGraph, capacities: Mapping[str, int], inconsistency: str) -> str:
    from schedules.throughput import throughput

    # channels of free space are drawn as the capacities that they are
    of, room = spaces(graph), {**space_in(graph), **capacities}
    drawn = replace(
        graph, channels=tuple(channel for channel in graph.channels if channel.name not in of)
    )
    if inconsistency:
        return to_dot(drawn, room, (), f"inconsistent: {inconsistency}")
    found = throughput(graph, capacities)
    arrows = [
        CriticalArrow(link.source, link.target, link.channel, link.space) for link in found.critical
    ]
    if found.deadlock is not None:
        arrows = _waits(
            graph, [(wait.actor, wait.channel, wait.space) for wait in found.deadlock.cycle]
        )
    arrows = [
        arrow._replace(channel=of[arrow.channel], space=True) if arrow.channel in of else arrow
        for arrow in arrows
    ]
    exact = "" if found.exact else ", at least"
    caption = (
        str(found.deadlock)
        if found.deadlock
        else f"throughput {found.value} iterations a time unit{exact}"
    )
    return to_dot(drawn, room, arrows, caption)


def _waits(graph: CsdfGraph, waits: Sequence[tuple[str, str, bool]]) -> list[CriticalArrow]:
    """Waiting actors as arrows to them from those that they wait for."""
    ends = {channel.name: (channel.source, channel.target) for channel in graph.channels}
    return [
        CriticalArrow(ends[channel][space], actor, channel, space)
        for actor, channel, space in waits
    ]


def _show(lines: Sequence[str]) -> None:
    for number, line in enumerate(lines):
        console().print(f"{'' if number else 'pictures':12}{line}", soft_wrap=True)
