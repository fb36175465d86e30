"""Which capacities of least size reach a goal?

Every proof that some capacities are too small is generalised as far as possible and kept: as a sum that the channels
around a ring need (rings.py), or as a cut. The search then tries the least capacities that meet all requirements
(hitting.py), until they suffice; these are of least size, since all smaller ones are excluded. Every attempt is also
enlarged until it suffices, which gives further proofs, and capacities to fall back on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from time import monotonic

from schedules.hitting import Cuts, Requirement
from schedules.patterns import periodic_levels
from schedules.rings import Rings, split_rings
from schedules.sizing import Cycle, Goal, Sizing, find_last_true

_PATIENCE = 0.4
"""Share of the time after which the search takes levels of periodic schedules to fall back on."""

_LAST_SECONDS = 0.5
"""Seconds for the last bound, after the deadline."""


@dataclass(frozen=True, slots=True)
class FoundLevels:
    """Levels that reach a goal, and a lower bound of the cost (of `Cuts`)."""

    levels: list[int]
    least: int


class StorageSearch:
    """Searches for capacities of least size, for goals each of which is at least as hard as the one before.

    Capacities are levels: steps above the lower bound of every channel.
    """

    def __init__(self, sizing: Sizing) -> None:
        self.sizing = sizing
        self.rings = Rings(sizing)
        self.cuts = Cuts(
            [weight * step for weight, step in zip(sizing.weights, sizing.steps, strict=True)]
        )

    def least(self, goal: Goal, deadline: float, thorough: bool = True) -> FoundLevels:
        """Levels of least cost that reach a goal, or of nearly that cost at the deadline (of `monotonic`).

        thorough: analyse every channel alone first, which helps unless the goal is hardly harder than the one before.
        """
        patience = monotonic() + _PATIENCE * (deadline - monotonic())
        if thorough:
            self._raise_floors(goal, patience)
        best: list[int] | None = None
        settled = False
        while True:
            minimum = self.cuts.minimum(deadline - monotonic())
            levels, reached = self._enlarged(
                minimum.levels, goal, deadline if settled else patience
            )
            if reached:
                best = self._cheapest(levels, best)
            elif not settled:
                settled = True
                enough = [
                    self._forced(start, goal)
                    for start in (levels, self._from_patterns(goal))
                    if start is not None
                ]
                best = self._reduced(self._cheapest(*enough, best), goal, (patience + deadline) / 2)
            if best is not None and (
                self.cuts.cost(best) <= minimum.least or monotonic() > deadline
            ):
                return FoundLevels(best, max(minimum.least, self.cuts.minimum(_LAST_SECONDS).least))

    def _from_patterns(self, goal: Goal) -> list[int] | None:
        """Levels that are expected to reach a goal, from periodic schedules."""
        return (
            periodic_levels(self.sizing, self.cuts.floor, goal.limit)
            if isinstance(goal.limit, Fraction)
            else None
        )

    def _cheapest(self, *several: list[int] | None) -> list[int]:
        return min((levels for levels in several if levels is not None), key=self.cuts.cost)

    def _forced(self, levels: Sequence[int], goal: Goal) -> list[int]:
        """Levels that reach a goal, found in few steps of doubled size."""
        grown, strides = list(levels), [1] * len(levels)
        while cycles := self.missed(dict(enumerate(grown)), goal):
            for place in {place for cycle in cycles for place in self._scarce(cycle)}:
                grown[place] += strides[place]
                strides[place] *= 2
        return grown

    def _reduced(self, levels: Sequence[int], goal: Goal, deadline: float) -> list[int]:
        """Levels that reach a goal, each reduced as far as the others allow, in the order of possible savings."""
        found = list(levels)
        saving = [
            (level - least) * cost
            for level, least, cost in zip(found, self.cuts.floor, self.cuts.costs, strict=True)
        ]
        for place in sorted(range(len(found)), key=saving.__getitem__, reverse=True):
            if monotonic() > deadline:
                break
            enough = partial(self._reached_with, found, place, goal)
            found[place] = bisect_left(
                range(found[place]), True, self.cuts.floor[place], key=enough
            )
        return found

    def _reached_with(self, levels: Sequence[int], place: int, goal: Goal, level: int) -> bool:
        """Whether levels reach a goal if one of them is changed."""
        changed = [*levels[:place], level, *levels[place + 1 :]]
        return self.cuts.met(changed) and not self.missed(dict(enumerate(changed)), goal)

    def _raise_floors(self, goal: Goal, deadline: float) -> None:
        """Raise the floor of every channel to what it needs alone."""
        for place, level in enumerate(self.cuts.floor):
            if monotonic() > deadline:
                return
            if self.missed({place: level}, goal):
                self.cuts.add({place: self._largest_missing({place: level}, place, goal)})

    def missed(self, levels: Mapping[int, int], goal: Goal) -> tuple[Cycle, ...]:
        """Cycles which prove that levels (by place) miss a goal with all other channels unbounded; none if they reach
        it.
        """
        return self.sizing.judge(self.sizing.capacities(levels), goal)

    def exclude(self, levels: Sequence[int], goal: Goal) -> None:
        """Keep the proof that levels miss a goal."""
        for cycle in self.missed(dict(enumerate(levels)), goal)[:1]:
            self._learn(levels, cycle, goal)

    def _enlarged(
        self, levels: Sequence[int], goal: Goal, deadline: float
    ) -> tuple[list[int], bool]:
        """Levels enlarged until they reach a goal or the deadline, and whether they reach it. The proofs that exclude
        the levels before are kept.
        """
        grown = list(levels)
        while True:
            left = dict(enumerate(grown))
            while cycles := self.missed(left, goal):
                for cycle in cycles:
                    if monotonic() > deadline:
                        return grown, False
                    if left.keys() >= set(self._scarce(cycle)):
                        for requirement in self._learn(grown, cycle, goal):
                            for channel in requirement.channels:
                                left.pop(channel, None)  # further proofs are about other channels
                            self.cuts.meet(requirement, grown)
            if len(left) == len(grown):
                return grown, True

    def _learn(self, levels: Sequence[int], cycle: Cycle, goal: Goal) -> list[Requirement]:
        """Keep the requirements that follow from a cycle, which the levels do not meet."""
        found = []
        for ring in split_rings(cycle):
            total = self.rings.least_sum(ring, levels, self.cuts.floor, goal)
            if total is not None:
                found.append(self.cuts.add_sum(*total))
        return found or [self.cuts.add(self._cut(levels, cycle, goal))]

    def _cut(self, levels: Sequence[int], cycle: Cycle, goal: Goal) -> dict[int, int]:
        """A cut of fewer channels and larger levels that still miss the goal."""
        scarce = self._scarce(cycle)
        kept = {place: levels[place] for place in scarce}
        for place in scarce:
            if place in kept and len(kept) > 1:
                others = {other: level for other, level in kept.items() if other != place}
                shown = self.missed(others, goal)
                if shown:
                    kept = {other: others[other] for other in self._scarce(shown[0])}
        for place in list(kept):
            kept[place] = self._largest_missing(kept, place, goal)
        return kept

    def _scarce(self, cycle: Cycle) -> list[int]:
        return sorted({self.sizing.place[link.channel] for link in cycle if link.space})

    def _largest_missing(self, kept: Mapping[int, int], place: int, goal: Goal) -> int:
        """The largest level of one channel at which the levels of the others still miss the goal."""
        return find_last_true(
            kept[place], lambda level: bool(self.missed({**kept, place: level}, goal))
        )
