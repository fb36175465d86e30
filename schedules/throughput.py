"""How many iterations does a graph complete per time unit?

The throughput is that of the slowest strongly connected component. Channels between components are unbounded and do
not limit it, as a channel with a capacity is always within one component. An iteration is the minimal one
(docs/model.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Literal

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import GraphError
from schedules.cycle_ratio import maximum_cycle_ratio
from schedules.links import (
    Component,
    Link,
    components,
    count_iterations,
    execution_times,
    make_links,
    own_quotas,
)
from schedules.liveness import Deadlock, find_deadlock
from schedules.one_periodic import one_periodic_time
from schedules.precedence import MAX_EVENTS, Expansion, Precedence, serial_actors
from schedules.selftimed import MAX_FIRINGS, Execution, steady_state

Method = Literal["auto", "cycle-ratio", "self-timed", "1-periodic"]
METHODS: tuple[Method, ...] = ("auto", "cycle-ratio", "self-timed", "1-periodic")


@dataclass(frozen=True, slots=True)
class CriticalLink:
    """Part of a critical cycle: a channel for whose tokens or space `target` waits for `source`; "" for the order of
    the firings of one actor.
    """

    source: str
    target: str
    channel: str
    space: bool = False


@dataclass(frozen=True, slots=True)
class Throughput:
    """Minimal iterations per time unit, and the method that found it.

    value: a Fraction; 0 for a deadlock, infinity where nothing limits it. exact: if not, a 1-periodic schedule reaches
    the value, and no schedule exceeds `upper`. transient, period: of the self-timed execution, if there was one: the
    longest transient of all components, and the period of the slowest. critical: a cycle that limits the throughput,
    each link once. peaks: channel -> most tokens held or claimed, for channels within a component that was executed.
    """

    value: Fraction | float
    method: str
    exact: bool
    upper: Fraction | float
    transient: int | None = None
    period: int | None = None
    critical: tuple[CriticalLink, ...] = ()
    peaks: Mapping[str, int] | None = None
    deadlock: Deadlock | None = None


def throughput(
    graph: CsdfGraph,
    capacities: Mapping[str, int] | None = None,
    method: Method = "auto",
    max_firings: int = MAX_FIRINGS,
) -> Throughput:
    """The throughput of a valid graph with capacities; channels without one are unbounded.

    auto: the cycle ratio, or a 1-periodic schedule where an iteration is too long to be expanded. self-timed: an
    execution, or the cycle ratio after `max_firings` firings. Raises InconsistentError, and GraphError for capacities
    that do not fit.
    """
    if method not in METHODS:
        raise GraphError(f"method '{method}' is not one of {', '.join(METHODS)}")
    deadlock = find_deadlock(graph, capacities)
    if deadlock is not None:
        return Throughput(Fraction(0), "deadlock", True, Fraction(0), deadlock=deadlock)
    return _Analysis(graph, make_links(graph, capacities), method, max_firings).result()


@dataclass(frozen=True, slots=True)
class _Part:
    """Time per iteration of one component. least: a lower bound of the time of all schedules."""

    time: Fraction | None
    method: str
    least: Fraction
    critical: tuple[CriticalLink, ...] = ()
    execution: Execution | None = None

    def repeated(self, count: int) -> _Part:
        """The times of an iteration that contains `count` of the component's own."""
        return replace(
            self, time=None if self.time is None else self.time * count, least=self.least * count
        )


class _Analysis:
    """One graph, whose components are analysed in their own least iterations."""

    def __init__(self, graph: CsdfGraph, links: Sequence[Link], method: Method, limit: int) -> None:
        self.graph = graph
        self.times, quota = execution_times(graph)
        self.parts = components(len(quota), links)
        self.shares = [count_iterations(quota, self.times, part.actors) for part in self.parts]
        self.quota = own_quotas(quota, self.times, self.parts)
        self.method = method
        self.limit = limit
        self.expansion = Expansion(self.times, self.quota)

    def result(self) -> Throughput:
        found = [
            self._component(part).repeated(share)
            for part, share in zip(self.parts, self.shares, strict=True)
        ]
        if not found:
            return Throughput(inf, "unbounded", True, inf)
        slowest = max(found, key=lambda part: (part.time is None, part.time or 0))
        upper = invert(max(part.least for part in found))
        value = Fraction(0) if slowest.time is None else invert(slowest.time)
        names = [channel.name for channel in self.graph.channels]
        executions = [part.execution for part in found if part.execution]
        peaks = {
            names[number]: peak
            for execution in executions
            for number, peak in execution.peaks.items()
        }
        return Throughput(
            value,
            slowest.method,
            value == upper,
            upper,
            max(execution.transient for execution in executions) if executions else None,
            slowest.execution.period if slowest.execution else None,
            slowest.critical,
            peaks if executions else None,
        )

    def _component(self, part: Component) -> _Part:
        # where no time passes, an execution would never leave its first instant
        if self.method == "self-timed" and any(any(self.times[actor]) for actor in part.actors):
            execution = steady_state(self.times, self.quota, part, self.limit)
            if execution is not None:
                return _Part(execution.ratio, "self-timed", execution.ratio, execution=execution)
        events = sum(self.quota[actor] for actor in part.actors)
        if self.method != "1-periodic" and events <= MAX_EVENTS:
            return self._cycle_ratio(part)
        least = max(self._serial_time(part), Fraction(0))
        return _Part(one_periodic_time(self.times, self.quota, part), "1-periodic", least)

    def _cycle_ratio(self, part: Component) -> _Part:
        system = self.expansion.precedence(part)
        result = maximum_cycle_ratio(system)
        return _Part(
            result.ratio, "cycle-ratio", result.ratio, self._critical(part, system, result.cycle)
        )

    def _critical(
        self, part: Component, system: Precedence, cycle: Sequence[int]
    ) -> tuple[CriticalLink, ...]:
        names = [actor.name for actor in self.graph.actors]
        numbers = dict.fromkeys(int(system.link[edge]) for edge in cycle)
        found = []
        for number in numbers:
            if number >= 0:
                link = part.links[number]
                channel = self.graph.channels[link.channel].name
                found.append(
                    CriticalLink(names[link.source], names[link.target], channel, link.space)
                )
        if not found:  # the cycle is the order of the firings of one actor
            event = int(system.head[cycle[0]])
            actor = names[
                max((first, actor) for actor, first in system.first.items() if first <= event)[1]
            ]
            found.append(CriticalLink(actor, actor, ""))
        return tuple(found)

    def _serial_time(self, part: Component) -> Fraction:
        """The time of the busiest actor that does not overlap with itself, in an iteration."""
        serial = serial_actors(part.links)
        work = (
            sum(self.times[actor]) * (self.quota[actor] // len(self.times[actor]))
            for actor in serial
        )
        return Fraction(max(work, default=0))


def invert(time: Fraction | float) -> Fraction | float:
    """The throughput of a time per iteration, or the time of a throughput."""
    if time == inf:
        return Fraction(0)
    return 1 / time if time else inf
