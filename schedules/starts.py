"""Does a periodic schedule hold, what room does it need, and how is it kept in a file?

{"format": "csdfgen-starts", "version": 1, "graph": "cnn5", "period": "73/3", "throughput": "3/73", "unit": "1/3",
 "capacities": {"e12": 17},
 "starts": {"n1": [0, 12, 24], "n2": [36]}}

Firing n of iteration k of an actor starts at starts[actor][n] * unit + k * period. The capacities are what the channels
hold at most: most tokens that are there or claimed at one time (DESIGN section 6).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush, merge
from itertools import groupby, pairwise
from math import ceil, lcm
from typing import Any

from csdfgen import origin
from csdfgen.errors import CapacityExceededError, ScheduleError
from csdfgen.files import write_json
from csdfgen.graph import CsdfGraph, repetition_vector
from schedules.periodic import PeriodicSchedule

__all__ = ["check_starts", "span_of", "to_json", "unit_of", "write_starts"]

FORMAT = "csdfgen-starts"
VERSION = 1

MAX_FIRINGS = 2_000_000
"""Firings that are followed until every actor has taken up its period."""


def unit_of(schedule: PeriodicSchedule) -> Fraction:
    """The largest fraction of a time unit of which the period and all starts are multiples, 1/n for a whole n."""
    return Fraction(1, lcm(schedule.period.denominator, *(t.denominator for row in schedule.starts.values() for t in row)))


def span_of(graph: CsdfGraph, schedule: PeriodicSchedule) -> Fraction:
    """Time from the first start of an iteration to its last end."""
    times = {actor.name: actor.execution_times for actor in graph.actors}
    ends = (start + times[name][n % len(times[name])] for name, row in schedule.starts.items() for n, start in enumerate(row))
    return max(ends) - min(start for row in schedule.starts.values() for start in row)


def check_starts(graph: CsdfGraph, schedule: PeriodicSchedule, capacities: Mapping[str, int] | None = None) -> dict[str, int]:
    """Follow a periodic schedule of a valid graph token by token until it repeats; the most tokens that each channel holds.

    From then on every actor fires as it did a period before, so that what holds until then holds for ever.
    capacities: tokens that channels may hold. Raises ScheduleError for a firing whose tokens are not there, or for actors and
    firings that are not those of the graph, CapacityExceededError for one whose output space is not: both counts, and when.
    """
    unit = unit_of(schedule)
    period = int(schedule.period / unit)
    starts = {name: [int(start / unit) for start in row] for name, row in schedule.starts.items()}
    firings = repetition_vector(graph)
    for name in sorted(firings.keys() | starts.keys()):
        where, row = f"actor '{name}'", starts.get(name, [])
        if len(row) != firings.get(name, 0):
            raise ScheduleError(f"{len(row)} firings an iteration; {firings.get(name, 0)} are needed", where=where)
        if any(late < early for early, late in pairwise([*row, row[0] + period])):
            raise ScheduleError(f"its firings do not start in order, or take longer than {schedule.period}", where=where)
    replay = _Replay(graph, unit, capacities or {})
    iterations = ceil(max(row[-1] + replay.longest for row in starts.values()) / period) + 1
    total = iterations * sum(firings.values())
    if total > MAX_FIRINGS:
        raise ScheduleError(
            f"{total} firings in {iterations} iterations until it repeats; at most {MAX_FIRINGS} are followed",
            where=f"graph '{graph.name}'",
        )
    lines = (_firings(actor, starts[found.name], period, iterations) for actor, found in enumerate(graph.actors))
    for instant, group in groupby(merge(*lines), key=lambda event: event[0]):
        replay.start(instant, Counter(actor for _, actor in group))
    return dict(zip((channel.name for channel in graph.channels), replay.peak, strict=True))


def _firings(actor: int, starts: Sequence[int], period: int, iterations: int) -> Iterator[tuple[int, int]]:
    """When an actor starts: (instant, actor), in order."""
    return ((start + k * period, actor) for k in range(iterations) for start in starts)


class _Replay:
    """A graph while it fires at given instants, counted in `unit`s: tokens there, and held with what is claimed.

    Tokens arrive, and space is free again, in the order of the firings that end (DESIGN section 6).
    """

    def __init__(self, graph: CsdfGraph, unit: Fraction, capacities: Mapping[str, int]) -> None:
        self.graph = graph
        self.unit = unit
        self.capacities = [capacities.get(channel.name) for channel in graph.channels]
        self.times = [[int(time / unit) for time in actor.execution_times] for actor in graph.actors]
        self.longest = max(max(row) for row in self.times)
        index = {actor.name: i for i, actor in enumerate(graph.actors)}
        self.inputs: list[list[tuple[int, Sequence[int]]]] = [[] for _ in graph.actors]
        self.outputs: list[list[tuple[int, Sequence[int]]]] = [[] for _ in graph.actors]
        for number, channel in enumerate(graph.channels):
            self.inputs[index[channel.target]].append((number, channel.consumption))
            self.outputs[index[channel.source]].append((number, channel.production))
        self.there = [channel.initial_tokens for channel in graph.channels]
        self.held = list(self.there)
        self.peak = list(self.there)
        self.fired = [0] * len(graph.actors)
        self.arrives = [0] * len(graph.channels)
        self.leaves = [0] * len(graph.channels)
        self.ends: list[tuple[int, int, int, int]] = []

    def start(self, instant: int, due: Counter[int]) -> None:
        """Start so many firings of each actor at one instant, in an order in which all of them can."""
        while due:
            self._end(instant)
            able = [actor for actor in due if self._lack(actor) is None]
            if not able:
                actor = next(iter(due))
                lack = self._lack(actor)
                assert lack is not None
                raise lack.at(f"firing {self.fired[actor] + 1} of '{self.graph.actors[actor].name}' at {instant * self.unit}")
            for actor in able:
                while due[actor] and self._lack(actor) is None:
                    self._fire(actor, instant)
                    due[actor] -= 1
            due = +due

    def _lack(self, actor: int) -> ScheduleError | None:
        """What the actor's next firing lacks: tokens, or space."""
        phase = self.fired[actor] % len(self.times[actor])
        for number, rates in self.inputs[actor]:
            if self.there[number] < rates[phase]:
                name = self.graph.channels[number].name
                return ScheduleError(f"channel '{name}' holds {self.there[number]} of the {rates[phase]} tokens it takes")
        for number, rates in self.outputs[actor]:
            capacity, held = self.capacities[number], self.held[number] + rates[phase]
            if capacity is not None and held > capacity and rates[phase]:
                name = self.graph.channels[number].name
                return CapacityExceededError(f"channel '{name}' would hold {held} tokens; its capacity is {capacity}")
        return None

    def _fire(self, actor: int, instant: int) -> None:
        phase = self.fired[actor] % len(self.times[actor])
        end = instant + self.times[actor][phase]
        self.fired[actor] += 1
        for number, rates in self.outputs[actor]:
            if rates[phase]:
                self.held[number] += rates[phase]
                self.peak[number] = max(self.peak[number], self.held[number])
                self.arrives[number] = max(self.arrives[number], end)
                heappush(self.ends, (self.arrives[number], number, rates[phase], 0))
        for number, rates in self.inputs[actor]:
            if rates[phase]:
                self.there[number] -= rates[phase]
                self.leaves[number] = max(self.leaves[number], end)
                heappush(self.ends, (self.leaves[number], number, 0, rates[phase]))

    def _end(self, instant: int) -> None:
        """Let arrive and leave what does until then; it is there for what starts now."""
        while self.ends and self.ends[0][0] <= instant:
            _, number, arriving, leaving = heappop(self.ends)
            self.there[number] += arriving
            self.held[number] -= leaving


def to_json(graph: CsdfGraph, schedule: PeriodicSchedule, capacities: Mapping[str, int]) -> dict[str, Any]:
    """A periodic schedule of a graph and what its channels hold, as JSON values."""
    unit = unit_of(schedule)
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": schedule.graph_name,
        "period": str(schedule.period),
        "throughput": str(1 / schedule.period),
        "unit": str(unit),
        **({"origin": origin.to_json(graph.origin)} if graph.origin is not None else {}),
        "capacities": dict(capacities),
        "starts": {name: [int(start / unit) for start in row] for name, row in schedule.starts.items()},
    }


def write_starts(
    path: str | os.PathLike[str], graph: CsdfGraph, schedule: PeriodicSchedule, capacities: Mapping[str, int]
) -> None:
    """Write a periodic schedule; the same one gives the same bytes. Raises InputError."""
    write_json(path, to_json(graph, schedule, capacities))
