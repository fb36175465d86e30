"""How much room do the channels around a ring of actors need together?

Along a critical cycle every actor waits for the one before, for its tokens or for space behind it.
If the ring takes so long for
so few rows in flight that the goal is missed, it does not matter which of its channels has the
room: a sum of capacities must grow. That is proven for all ways to share the room out at once: a
firing waits at least for the earliest one it would wait for under any of them (cumulative counts
never decrease, so the least index is a true bound), and what is left is one actor that waits for
its own earlier firings.
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

__all__ = ["Rings", "rings_of"]

Array = Any

MAX_ROOM = 256
"""Units of room that are shared out."""

_NEVER = 2**60
"""Later than any firing or time that is compared with it."""


def rings_of(cycle: Sequence[Link]) -> list[tuple[Link, ...]]:
    """The simple cycles of actors that a closed walk along links consists of, those without space
    left out, each once.
    """
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
    """A ring, backwards from an actor, in the least iteration of its own: the last link is the
    first one waited for.

    units: place -> coefficient of the channel's levels.
    """

    links: tuple[Link, ...]
    units: Mapping[int, int]
    expansion: Expansion
    scale: int

    @property
    def root(self) -> int:
        return self.links[0].target


class Rings:
    """The rings of one graph, and how much room their channels need together."""

    def __init__(self, sizing: Sizing) -> None:
        self.sizing = sizing
        self.serial = {
            link.target for link in sizing.links if sizing.graph.channels[link.channel].is_serial
        }

    def least_sum(
        self, ring: Sequence[Link], levels: Sequence[int], floor: Sequence[int], goal: Goal
    ) -> tuple[dict[int, int], int] | None:
        """Place -> coefficient, and what the sum of coefficient * level must reach for a goal; None
        if the levels reach it.

        levels, floor: steps above the lower bound, as they are and as they are known to be
        necessary. The coefficients make room for as many firings worth the same everywhere; any
        would be right. None also for more room than `MAX_ROOM`.
        """
        walk = self._walk(ring)
        start = sum(unit * floor[place] for place, unit in walk.units.items())
        room = sum(unit * levels[place] for place, unit in walk.units.items()) - start
        limit = 2 * room + 8
        while room <= MAX_ROOM:
            limit = min(limit, MAX_ROOM)
            waits = self._waits(walk, floor, limit)
            missed = [partial(self._missed, walk, goal, *one) for one in zip(*waits, strict=True)]
            if not missed[room]():
                return None
            short = (
                bisect_left(range(limit + 1), True, room, key=lambda more: not missed[more]()) - 1
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
        """Steps of capacity that pass through a channel in an iteration."""
        rounds = self.sizing.quota[link.source] // len(link.production)
        return sum(link.production) * rounds / self.sizing.steps[self.sizing.place[link.channel]]

    def _waits(self, walk: _Walk, floor: Sequence[int], limit: int) -> tuple[Array, Array]:
        """Row r: for every firing of the root the earlier one that it waits for at least, and how
        long, if the channels of the ring share r units of room above the floor."""
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
        """Whether a goal is missed by an actor that waits for its own firings."""
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
    """From firings of the target of a link, counted from the start of an iteration, to those of its
    source that they wait for, and the times so far with theirs."""
    takes = expansion.cumulative(link.consumption, link.target)
    gives = expansion.cumulative(link.production, link.source)
    sources, targets = len(gives), len(takes)
    last = takes - (link.tokens + 1)
    back = -(last // gives[-1])
    firing = np.searchsorted(gives, last + back * gives[-1], side="right")
    iteration, number = np.divmod(firings, targets)
    spent = expansion.weights(link.source)[firing]
    return (firing - back * sources)[number] + iteration * sources, times + spent[number]
