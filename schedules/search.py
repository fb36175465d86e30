"""Which capacities of least size reach a goal?

Every proof that some capacities are too small is kept, made as strong as it stays true: as a sum
that the channels around a ring must reach (rings.py), or as a cut. The least capacities that meet
all of them are tried next (hitting.py), until they suffice. What suffices then is of least size,
since all that is smaller is excluded. On the way every attempt is enlarged until it suffices, which
shows more proofs and leaves capacities to fall back on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from time import monotonic

from schedules.galloping import last_true
from schedules.hitting import Cuts, Requirement
from schedules.patterns import periodic_levels
from schedules.rings import Rings, rings_of
from schedules.sizing import Cycle, Goal, Sizing

__all__ = ["FoundLevels", "StorageSearch"]

_PATIENCE = 0.4
"""Share of the time after which periodic schedules are asked for levels to fall back on."""

_LAST_SECONDS = 0.5
"""For the last bound, after the deadline."""


@dataclass(frozen=True, slots=True)
class FoundLevels:
    """Levels that reach a goal, and a cost (of `Cuts`) below which none do."""

    levels: list[int]
    least: int


class StorageSearch:
    """Looks for capacities of least size; goals may become harder from one search to the next,
    never easier.

    Capacities are levels: steps above the lower bound of every channel.
    """

    def __init__(self, sizing: Sizing) -> None:
        self.sizing = sizing
        self.rings = Rings(sizing)
        self.cuts = Cuts(
            [weight * step for weight, step in zip(sizing.weights, sizing.steps, strict=True)]
        )

    def least(self, goal: Goal, deadline: float, thorough: bool = True) -> FoundLevels:
        """Levels of least cost that reach a goal; near it if the deadline (of `monotonic`) comes
        first.

        thorough: look at every channel alone first, which pays unless the goal is hardly harder
            than that before.
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
        """Levels that should reach a goal, from periodic schedules."""
        return (
            periodic_levels(self.sizing, self.cuts.floor, goal.limit)
            if isinstance(goal.limit, Fraction)
            else None
        )

    def _cheapest(self, *several: list[int] | None) -> list[int]:
        return min((levels for levels in several if levels is not None), key=self.cuts.cost)

    def _forced(self, levels: Sequence[int], goal: Goal) -> list[int]:
        """Levels that reach a goal, found in few steps: what falls short is doubled."""
        grown, strides = list(levels), [1] * len(levels)
        while cycles := self.missed(dict(enumerate(grown)), goal):
            for place in {place for cycle in cycles for place in self._scarce(cycle)}:
                grown[place] += strides[place]
                strides[place] *= 2
        return grown

    def _reduced(self, levels: Sequence[int], goal: Goal, deadline: float) -> list[int]:
        """Levels that reach a goal, each made as small as the others let it be, those first that
        can save most.
        """
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
        """What every channel needs on its own account."""
        for place, level in enumerate(self.cuts.floor):
            if monotonic() > deadline:
                return
            if self.missed({place: level}, goal):
                self.cuts.add({place: self._largest_missing({place: level}, place, goal)})

    def missed(self, levels: Mapping[int, int], goal: Goal) -> tuple[Cycle, ...]:
        """Cycles that show that levels (by place) miss a goal, all other channels unbounded; none
        if they reach it.
        """
        return self.sizing.judge(self.sizing.capacities(levels), goal)

    def exclude(self, levels: Sequence[int], goal: Goal) -> None:
        """Keep the proof that levels miss a goal."""
        for cycle in self.missed(dict(enumerate(levels)), goal)[:1]:
            self._learn(levels, cycle, goal)

    def _enlarged(
        self, levels: Sequence[int], goal: Goal, deadline: float
    ) -> tuple[list[int], bool]:
        """Levels enlarged until they reach a goal or the deadline comes, with proofs against those
        before; whether they do.
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
                                left.pop(
                                    channel, None
                                )  # other proofs are wanted now, about other channels
                            self.cuts.meet(requirement, grown)
            if len(left) == len(grown):
                return grown, True

    def _learn(self, levels: Sequence[int], cycle: Cycle, goal: Goal) -> list[Requirement]:
        """Keep requirements that the levels do not meet, shown by a cycle."""
        found = []
        for ring in rings_of(cycle):
            total = self.rings.least_sum(ring, levels, self.cuts.floor, goal)
            if total is not None:
                found.append(self.cuts.add_sum(*total))
        return found or [self.cuts.add(self._cut(levels, cycle, goal))]

    def _cut(self, levels: Sequence[int], cycle: Cycle, goal: Goal) -> dict[int, int]:
        """Fewer channels and larger levels, as long as these miss the goal, too."""
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
        """How far the level of one channel can grow while the others keep missing the goal."""
        return last_true(kept[place], lambda level: bool(self.missed({**kept, place: level}, goal)))
