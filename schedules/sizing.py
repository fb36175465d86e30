"""Do capacities suffice for a throughput, and if not, which channels limit it?

The sizing of storage asks this many thousand times, for capacities that differ in a few channels. So only components
with a limited channel are analysed, results are kept by component, and the analysis of a component that is too slow
ends with the first cycle that shows it: a storage dependency (Stuijk, Geilen, Basten, "Throughput-buffering trade-off
exploration for cyclo-static and synchronous dataflow graphs", 2008, section 8). A cycle without delay is a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from math import gcd, inf
from typing import Any, Literal

import numpy as np

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.errors import GraphError
from schedules.cycle_ratio import CycleRatio, cycles_above, maximum_cycle_ratio
from schedules.links import (
    Component,
    Link,
    components,
    count_iterations,
    execution_times,
    make_links,
    own_quotas,
    space_link,
)
from schedules.precedence import MAX_EVENTS, Expansion, Precedence

Array = Any

Unit = Literal["tokens", "bytes"]
Time = Fraction | float
"""Time per iteration; infinity for a deadlock."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit on the time per iteration, which must be below it if strict; strict and infinite: no deadlock."""

    limit: Time
    strict: bool = False

    def missed(self, time: Time) -> bool:
        return time >= self.limit if self.strict else time > self.limit


LIVE = Goal(inf, strict=True)


Cycle = tuple[Link, ...]
_Key = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A lower bound of the time per iteration of a component, and cycles that prove it. final: whether the component
    takes exactly this time. live: whether it is known to be live.
    """

    time: Time
    cycles: tuple[Cycle, ...]
    final: bool
    live: bool

    def settles(self, goal: Goal) -> bool:
        """Whether this decides if the component misses the goal."""
        return self.final or goal.missed(self.time) or (goal == LIVE and self.live)


def find_last_true(start: int, holds: Callable[[int], bool]) -> int:
    """The largest number, `start` at least, for which a test holds that is true up to it and false above; the test is
    not applied to `start`. The strides double first, and are halved then.

    >>> find_last_true(3, lambda number: number * number < 50)
    7
    """
    low, stride = start, 1
    while holds(low + stride):
        low, stride = low + stride, stride * 2
    high = low + stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def lower_bounds(graph: CsdfGraph) -> dict[str, int]:
    """Channel -> least capacity with which its two actors alone do not deadlock, without serial self-loops.

    The source fires only when the target lacks tokens, so that the channel holds the least possible. This is a lower
    bound for all capacities of other channels, and a multiple of the gcd of the rates above the initial tokens.
    """
    firings = repetition_vector(graph)
    return {
        channel.name: _lower_bound(link, firings[channel.source], firings[channel.target])
        for link in make_links(graph)
        if not (channel := graph.channels[link.channel]).is_serial
    }


def _lower_bound(link: Link, sources: int, targets: int) -> int:
    rounds = sources // len(link.production), targets // len(link.consumption)
    common = gcd(*rounds)
    produced = np.array([0, *accumulate(link.production * (rounds[0] // common))], dtype=np.int64)
    consumed = np.array([0, *accumulate(link.consumption * (rounds[1] // common))], dtype=np.int64)
    if link.source == link.target:
        return link.tokens + int((produced[1:] - consumed[:-1]).max())
    takes = np.flatnonzero(np.diff(consumed))
    last = consumed[takes + 1] - link.tokens - 1
    back = -(last // produced[-1])
    firing = np.searchsorted(produced[1:], last + back * produced[-1], side="right")
    held = link.tokens + produced[firing + 1] - back * produced[-1] - consumed[takes]
    return max(link.tokens, int(held.max()))


class Sizing:
    """One graph whose channels get capacities; a channel is known by its place among those that are sized.

    parts: the weakly connected components. quota: firings of every actor in the least iteration of its part; whole:
    their expansion; shares: number of these iterations in an iteration of the graph. lower, steps: the least capacity of
    a channel, and the distance of capacities that differ in effect. unlimited: time per iteration with unbounded
    channels.

    Raises GraphError for an iteration too long to be expanded.
    """

    def __init__(self, graph: CsdfGraph, unit: Unit) -> None:
        self.graph = graph
        self.times, quota = execution_times(graph)
        self.links = make_links(graph)
        back = [replace(link, source=link.target, target=link.source) for link in self.links]
        self.parts = components(len(quota), [*self.links, *back])
        self.quota = own_quotas(quota, self.times, self.parts)
        self.shares = [count // own for count, own in zip(quota, self.quota, strict=True)]
        if sum(self.quota) > MAX_EVENTS:
            counts = f"an iteration takes {sum(self.quota)} firings; storage is sized for at most {MAX_EVENTS}"
            raise GraphError(f"{counts}, use fewer phases", where=f"graph '{graph.name}'")
        self.whole = Expansion(self.times, self.quota)
        self._expansions = {1: self.whole}
        self._always = [min(row) > 0 for row in self.times]
        self.sized = [link for link in self.links if not graph.channels[link.channel].is_serial]
        self.channels = [graph.channels[link.channel] for link in self.sized]
        self.place = {link.channel: place for place, link in enumerate(self.sized)}
        self.steps = [gcd(*link.production, *link.consumption) for link in self.sized]
        self.weights = [channel.token_bytes if unit == "bytes" else 1 for channel in self.channels]
        self.lower = [
            _lower_bound(link, self.quota[link.source], self.quota[link.target])
            for link in self.sized
        ]
        self._known: dict[_Key, _Verdict] = {}
        self.unlimited = max(
            (self._ratio(part) for part in components(len(self.quota), self.links)),
            default=Fraction(0),
        )

    def size(self, capacities: Sequence[int]) -> int:
        return sum(map(int.__mul__, capacities, self.weights))

    def space(self, place: int, capacity: int) -> Link:
        """The free places of a channel with a capacity."""
        link = self.sized[place]
        return space_link(self.channels[place], (link.source, link.target), capacity, link.channel)

    def capacities(self, levels: Mapping[int, int]) -> dict[int, int]:
        """Place -> capacity, of levels: numbers of steps above the lower bound."""
        return {
            place: self.lower[place] + level * self.steps[place] for place, level in levels.items()
        }

    def expansion(self, actors: Sequence[int]) -> tuple[Expansion, int]:
        """The firings of actors in their own least iteration, and the number of these iterations in `quota`."""
        share = count_iterations(self.quota, self.times, actors)
        found = self._expansions.get(share)
        if found is None:
            found = self._expansions[share] = Expansion(
                self.times, [count // share for count in self.quota]
            )
        return found, share

    def time(self, capacities: Mapping[int, int]) -> Time:
        """Time per iteration with capacities (by place) and all other channels unbounded; infinity for a deadlock."""
        slowest: Time = self.unlimited
        for part, key in self._limited(capacities):
            verdict = self._known.get(key)
            if verdict is None or not verdict.final:
                verdict = self._known[key] = self._look(part, None)
            slowest = max(slowest, verdict.time)
        return slowest

    def judge(self, capacities: Mapping[int, int], goal: Goal) -> tuple[Cycle, ...]:
        """Cycles which prove that capacities (by place) miss a goal that unbounded channels reach; none if they reach it.

        A cycle is a closed walk of links, each of which waits for the one before.
        """
        for part, key in self._limited(capacities):
            verdict = self._known.get(key)
            if verdict is None or not verdict.settles(goal):
                verdict = self._known[key] = self._look(part, goal)
            if goal.missed(verdict.time):
                return verdict.cycles
        return ()

    def _limited(self, capacities: Mapping[int, int]) -> list[tuple[Component, _Key]]:
        """The components in which a channel has a capacity, each with all its capacities."""
        spaces = [self.space(place, capacity) for place, capacity in capacities.items()]
        found = []
        for part in components(len(self.quota), [*self.links, *spaces]):
            places = sorted(self.place[link.channel] for link in part.links if link.space)
            if places:
                found.append((part, tuple((place, capacities[place]) for place in places)))
        return found

    def _look(self, part: Component, goal: Goal | None) -> _Verdict:
        """Analyse a component until it is known whether it misses a goal; without a goal, compute its time."""
        system, scale = self._system(part)
        # where all firings take time, the search for slow cycles also finds those without delay
        check = (
            goal is None or goal == LIVE or not all(self._always[actor] for actor in part.actors)
        )
        stuck = _deadlock(system) if check else ()
        if stuck:
            return _Verdict(inf, (_links(part, system, stuck),), final=True, live=False)
        if goal == LIVE:
            return _Verdict(Fraction(0), (), final=False, live=True)
        found = (
            maximum_cycle_ratio(system)
            if goal is None
            else cycles_above(system, lambda ratio: goal.missed(ratio * scale))
        )
        if isinstance(found, CycleRatio):
            return _Verdict(
                found.ratio * scale, (_links(part, system, found.cycle),), final=True, live=True
            )
        cycles = tuple(_links(part, system, cycle) for _, cycle in found)
        return _Verdict(min(ratio for ratio, _ in found) * scale, cycles, final=False, live=check)

    def takes_time(self, link: Link) -> bool:
        """Whether time passes from the claim of space to the token, or from taking a token to its space."""
        ends = (link.source, link.production), (link.target, link.consumption)
        return any(
            time and rate
            for actor, rates in ends
            for time, rate in zip(self.times[actor], rates, strict=True)
        )

    def _system(self, part: Component) -> tuple[Precedence, int]:
        """The constraints of the least iteration of a component alone, and the number of these iterations in one of the
        graph.
        """
        expansion, share = self.expansion(part.actors)
        return expansion.precedence(part), share * self.shares[part.actors[0]]

    def _ratio(self, part: Component) -> Fraction:
        system, scale = self._system(part)
        return maximum_cycle_ratio(system).ratio * scale


def _links(part: Component, system: Precedence, cycle: Sequence[int]) -> tuple[Link, ...]:
    """The links along a cycle of constraints, without the order of the firings of one actor."""
    numbers = (int(system.link[edge]) for edge in cycle)
    return tuple(part.links[number] for number in numbers if number >= 0)


def _deadlock(system: Precedence) -> tuple[int, ...]:
    """A cycle of constraints without delay, in order; empty if there is none."""
    from scipy.sparse import coo_array  # networkx takes 30 times as long for an event per firing
    from scipy.sparse.csgraph import connected_components

    now = np.flatnonzero(system.delay == 0)
    tail, head = system.tail[now], system.head[now]
    itself = now[tail == head]
    if len(itself):
        return (int(itself[0]),)
    arrows = coo_array(
        (np.ones(len(now), dtype=np.int8), (tail, head)), shape=(system.size, system.size)
    )
    count, number = connected_components(arrows.tocsr(), connection="strong")
    if count == system.size:
        return ()
    inside = now[number[tail] == number[head]]
    before = dict(zip(system.head[inside].tolist(), inside.tolist(), strict=True))
    event = int(system.head[inside[0]])
    path: list[int] = []
    seen: dict[int, int] = {}
    while event not in seen:
        seen[event] = len(path)
        path.append(before[event])
        event = int(system.tail[before[event]])
    return tuple(reversed(path[seen[event] :]))
