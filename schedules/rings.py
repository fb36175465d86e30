"""Which sum of capacities do the channels around a ring of actors need?

Along a critical cycle every actor waits for the one before, for its tokens or for its space. If the ring misses the
goal with the rows that it can hold, a sum of capacities must grow, whichever of its channels has the space. The proof
covers all distributions of the space at once: a firing waits at least for the earliest firing that it waits for under
any of them (cumulative counts do not decrease, so that the least index is a bound). What remains is one actor that
waits for its own earlier firings.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from schedules.cycle_ratio import CycleRatio, cycles_above
from schedules.links import Link
from schedules.precedence import ORDER, Expansion, Part, assemble, chain
from schedules.sizing import Goal, Sizing

Array = Any

MAX_ROOM = 256
"""Most units of space that are distributed."""

_NEVER = 2**60
"""A number above all firings and times that it is compared with."""


def split_rings(cycle: Sequence[Link]) -> list[tuple[Link, ...]]:
    """The simple cycles of actors in a closed walk along links, each once, without those that have no space link."""
    found: dict[frozenset[tuple[int, bool]], tuple[Link, ...]] = {}
    path: list[Link] = []
    where = {cycle[0].source: 0} if cycle else {}
    for link in cycle:
        path.append(link)
        start = where.get(link.target)
        if start is None:
            where[link.target] = len(path)
            continue
        ring = tuple(path[start:])
        del path[start:]
        for gone in ring[:-1]:
            del where[gone.target]
        if any(one.space for one in ring):
            found.setdefault(frozenset((one.channel, one.space) for one in ring), ring)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Walk:
    """A ring in its own least iteration, backwards from an actor: the last link is the first one that is waited for.

    units: place -> coefficient of the levels of the channel.
    """

    links: tuple[Link, ...]
    units: Mapping[int, int]
    expansion: Expansion
    scale: int

    @property
    def root(self) -> int:
        return self.links[0].target


class Rings:
    """The rings of one graph, and the sums of levels that their channels need."""

    def __init__(self, sizing: Sizing) -> None:
        self.sizing = sizing
        self.serial = {
            link.target for link in sizing.links if sizing.graph.channels[link.channel].is_serial
        }

    def least_sum(
        self, ring: Sequence[Link], levels: Sequence[int], floor: Sequence[int], goal: Goal
    ) -> tuple[dict[int, int], int] | None:
        """Place -> coefficient, and the least sum of coefficient * level that a goal needs; None if the levels reach the
        goal, and for more space than `MAX_ROOM`.

        levels, floor: steps above the lower bound, the present ones and those that are known to be necessary. With these
        coefficients the space of a firing has the same weight in every channel; any others would be correct.
        """
        walk = self._walk(ring)
        start = sum(unit * floor[place] for place, unit in walk.units.items())
        space = sum(unit * levels[place] for place, unit in walk.units.items()) - start
        limit = 2 * space + 8
        while space <= MAX_ROOM:
            limit = min(limit, MAX_ROOM)
            waits = self._waits(walk, floor, limit)
            missed = [partial(self._missed, walk, goal, *one) for one in zip(*waits, strict=True)]
            if not missed[space]():
                return None
            short = (
                bisect_left(range(limit + 1), True, space, key=lambda more: not missed[more]()) - 1
            )
            if short < limit or limit == MAX_ROOM:
                return dict(walk.units), start + short + 1
            limit *= 4
        return None

    def _walk(self, ring: Sequence[Link]) -> _Walk:
        """A ring from its busiest actor."""
        expansion, share = self.sizing.expansion([link.target for link in ring])
        load = [int(expansion.weights(link.target).sum()) for link in ring]
        root = load.index(max(load))
        links = tuple(ring[(root - number) % len(ring)] for number in range(len(ring)))
        flow = {self.sizing.place[link.channel]: self._flow(link) for link in links if link.space}
        units = {place: max(1, round(max(flow.values()) / steps)) for place, steps in flow.items()}
        return _Walk(links, units, expansion, share * self.sizing.shares[links[0].target])

    def _flow(self, link: Link) -> float:
        """Steps of capacity that flow through a channel in an iteration."""
        rounds = self.sizing.quota[link.source] // len(link.production)
        return sum(link.production) * rounds / self.sizing.steps[self.sizing.place[link.channel]]

    def _waits(self, walk: _Walk, floor: Sequence[int], limit: int) -> tuple[Array, Array]:
        """Row r: for every firing of the root the earlier firing that it waits for at least, and the time between them,
        if the channels of the ring share r units of space above the floor.
        """
        waits = np.tile(np.arange(walk.expansion.quota[walk.root]), (limit + 1, 1))
        times = np.zeros(waits.shape, dtype=walk.expansion.dtype)
        for link in walk.links:
            place = self.sizing.place[link.channel] if link.space else None
            unit = limit + 1 if place is None else walk.units[place]
            before = np.full_like(waits, _NEVER), np.full_like(times, _NEVER)
            for extra in range(limit // unit + 1):
                to = link if place is None else self._space(place, floor[place] + extra)
                rows = limit + 1 - extra * unit
                for least, new in zip(
                    before, _back(walk.expansion, to, waits[:rows], times[:rows]), strict=True
                ):
                    np.minimum(least[extra * unit :], new, out=least[extra * unit :])
            waits, times = before
        return np.minimum.accumulate(waits, axis=0), np.minimum.accumulate(times, axis=0)

    def _space(self, place: int, level: int) -> Link:
        return self.sizing.space(place, self.sizing.lower[place] + level * self.sizing.steps[place])

    def _missed(self, walk: _Walk, goal: Goal, waits: Array, times: Array) -> bool:
        """Whether an actor that waits for its own firings misses a goal."""
        count = len(waits)
        event = np.arange(count)
        if (waits >= event).any():
            return True
        own = (
            walk.expansion.weights(walk.root) if walk.root in self.serial else np.zeros_like(times)
        )
        parts = [chain(0, own, ORDER), Part(waits % count, event, times, -(waits // count), 0)]
        system = assemble(parts, np.zeros(count, dtype=np.int64), {walk.root: 0})
        found = cycles_above(system, lambda ratio: goal.missed(ratio * walk.scale))
        return not isinstance(found, CycleRatio) or goal.missed(found.ratio * walk.scale)


def _back(expansion: Expansion, link: Link, firings: Array, times: Array) -> tuple[Array, Array]:
    """The firings of the source of a link that firings of its target wait for, counted from the start of an iteration,
    and the times including theirs.
    """
    takes = expansion.cumulative(link.consumption, link.target)
    gives = expansion.cumulative(link.production, link.source)
    sources, targets = len(gives), len(takes)
    last = takes - (link.tokens + 1)
    back = -(last // gives[-1])
    firing = np.searchsorted(gives, last + back * gives[-1], side="right")
    iteration, number = np.divmod(firings, targets)
    spent = expansion.weights(link.source)[firing]
    return (firing - back * sources)[number] + iteration * sources, times + spent[number]
