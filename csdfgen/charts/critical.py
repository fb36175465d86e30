"""A graph for Graphviz, with the cycle that limits its throughput."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from csdfgen.dataflow.dot import CriticalArrow, to_dot
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.dataflow.transform import read_capacities, spaces
from schedules.throughput import throughput


def critical_dot(graph: CsdfGraph, capacities: Mapping[str, int], inconsistency: str = "") -> str:
    """A graph for Graphviz, with capacities in tokens, and with its critical cycle, or the actors that wait for each other if
    it deadlocks. inconsistency: why it has no execution, "" if it has one. Raises GraphError.
    """
    # channels of free space are drawn as capacities
    of, room = spaces(graph), {**read_capacities(graph), **capacities}
    channels = tuple(channel for channel in graph.channels if channel.name not in of)
    drawn = replace(graph, channels=channels)
    if inconsistency:
        return to_dot(drawn, room, (), f"inconsistent: {inconsistency}")
    found = throughput(graph, capacities)
    exact = "" if found.exact else ", at least"
    caption = f"throughput {found.value} iterations a time unit{exact}"
    arrows = [
        CriticalArrow(one.source, one.target, one.channel, one.space) for one in found.critical
    ]
    if found.deadlock is not None:  # who waits, as arrows to them from those that they wait for
        caption = str(found.deadlock)
        ends = {channel.name: (channel.source, channel.target) for channel in graph.channels}
        arrows = [
            CriticalArrow(ends[wait.channel][wait.space], wait.actor, wait.channel, wait.space)
            for wait in found.deadlock.cycle
        ]
    for at, arrow in enumerate(arrows):
        if arrow.channel in of:
            arrows[at] = arrow._replace(channel=of[arrow.channel], space=True)
    return to_dot(drawn, room, arrows, caption)
