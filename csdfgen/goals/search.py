"""Which plans are tried for a goal, and which of them is taken? Plans made so far, and nothing else,
decide.

A search adds plans to a list until it is done, its time is over, or somebody presses Ctrl-C; what is
taken is picked from the list as it is then. So a search that is broken off gives the best so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from math import inf, log
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from csdfgen.devices.model import estimate
from csdfgen.goals.heights import Heights, Predicted, Rung, heights_of
from csdfgen.phases.conversion import Conversion
from csdfgen.planning.lifetimes import lifetimes_of, live_of, times_of
from csdfgen.planning.ordering import Order
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import outputs_beside
from csdfgen.planning.prepared import Phased, Prepared, Terms
from csdfgen.program.steps import Backend

__all__ = [
    "Planner",
    "Point",
    "Progress",
    "Search",
    "bound_of",
    "expected",
    "not_dominated",
]

Planner = Callable[[Prepared, Phased], Plan]
"""Makes the plan of a prepared network as it is cut into phases: `planning.planner.planned`."""

Progress = Callable[..., None]
"""Called as progress("what", done, total)."""

_TRIALS = MappingProxyType({"low": 8, "normal": 12, "high": 32})
"""Plans that a search makes at most, by effort."""

_MOST_TRIALS = 10_000

_OF_TRIALS = "low"

_SAMPLED = 8
"""Rungs of the ladder that are compared whatever the limit is."""

_NEIGHBOURS = 2
"""Rungs before and after the one at a limit that are compared too."""

_SPREAD = 6
"""Faster rungs that are compared for a limit of time."""

_EQUAL = 1 - 1e-8
"""Part of a time from which on another one is equal: sums differ by the order of their terms."""

_QUICK = 3
"""Plans towards the least memory at the lowest effort: one row a phase is mostly it."""

_FEW = 5
"""Steps of the ladder that are tried where only something better than the heights of `auto` is needed."""

_NEAR = 1.01
"""Plans within one percent of the least time are equally fast: no model is better than that."""

_APART = 1.08
"""Times longer than predicted that a backend which rereads weights takes where rows of a firing are not contiguous:
of numpy in the median of 10 plans of three networks (1.04 to 1.29; 0.95 to 1.04 where they are).
"""


@dataclass(frozen=True, slots=True)
class Estimated:
    """Heights with what is known of their plan before it is made: bytes that it does not fall below, and the seconds
    that a frame is predicted to take.
    """

    rows: str
    bytes: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Point:
    """A plan with the seconds that a frame of it is predicted to take."""

    plan: Plan
    seconds: float

    @property
    def bytes(self) -> int:
        """Of the arena, and of outputs beside it."""
        return self.plan.total_bytes


_Item = TypeVar("_Item")
_Compared = TypeVar("_Compared", Point, Estimated)


class OutOfTimeError(Exception):
    """The time of a search, or the number of its plans, is used up."""


class Search:
    """The plans of a prepared network that were made so far, with its options but for the heights.

    planner: makes them.
    """

    def __init__(
        self, predicted: Predicted, planner: Planner, progress: Progress | None = None
    ) -> None:
        self.predicted, self.prepared = predicted, predicted.prepared
        self.options = options = self.prepared.options
        self.found: list[Point] = []
        self.interrupted = False
        self._planner, self._progress = planner, progress or _nothing
        self._known: dict[tuple[str, bool], Point] = {}
        self._estimated: dict[str, Estimated] = {}
        seconds = options.seconds
        self.trials = _TRIALS.get(options.effort, _MOST_TRIALS)
        if options.goal == "memory" and options.effort == _OF_TRIALS:
            self.trials = _QUICK
        self._end = None if seconds is None else time.monotonic() + seconds

    @cached_property
    def heights(self) -> Heights:
        """Choices of every layer."""
        return heights_of(self.predicted)

    @cached_property
    def ladder(self) -> tuple[Rung, ...]:
        """Heights from the dearest memory to the cheapest."""
        return self.heights.ladder()

    @cached_property
    def raised(self) -> list[str]:
        """Heights of `auto` with ever more layers taller (`Heights.levels`), where the backend gains by that."""
        return self.heights.levels() if self.prepared.kernels.tall_slabs else []

    def estimated(self, rows: str) -> Estimated:
        """What is known of the plan at these heights without making it: a small part of the time."""
        known = self._estimated.get(rows)
        if known is None:
            phased = self.prepared.at(rows, memory=0)
            taken = phased.rough_bound + outputs_beside(self.prepared.network, self.options)
            # sums of the same terms in another order differ in their last digits
            seconds = float(f"{self.predicted.frame(phased.conversion):.10g}")
            known = Estimated(rows, taken, seconds)
            self._estimated[rows] = known
        return known

    def at_rung(self, index: int) -> Estimated:
        """The same, by the index of the rung."""
        return self.on_rung(self.ladder[index])

    def on_rung(self, rung: Rung) -> Estimated:
        """The same on a rung of the ladder."""
        return self.estimated(self.heights.rows(rung))

    def freed(self, rung: Rung) -> Estimated:
        """A rung with taller slabs where memory is free while a layer works, in the order on demand."""
        phased = self.prepared.at(self.heights.rows(rung))
        live = live_of(
            lifetimes_of(phased.on_demand, phased.buffers), phased.scratch, phased.on_demand
        )
        free = free_bytes(phased.conversion, phased.on_demand, live)
        low, tall = self.on_rung(rung), self.on_rung(self.heights.taller(rung, free))
        return tall if tall.seconds < low.seconds * _EQUAL else low

    def around(self, index: int) -> tuple[list[Estimated], list[Estimated]]:
        """A rung of the ladder and its neighbours, and these with taller slabs where memory is free."""
        near = self.ladder[max(0, index - _NEIGHBOURS) : index + _NEIGHBOURS + 1]
        return [*map(self.on_rung, near)], [*map(self.freed, near)]

    def compared(
        self, fits: Callable[[Estimated], bool], *near: Iterable[Estimated]
    ) -> set[Estimated]:
        """Heights that fit a limit: those compared for every limit, and the best of each group near it. The plan of
        one group may be farther above its bound than that of another.
        """
        best = (not_dominated(filter(fits, group)) for group in near)
        return {*filter(fits, self.candidates), *chain.from_iterable(best)}

    @cached_property
    def candidates(self) -> tuple[Estimated, ...]:
        """Heights that are compared for every limit: the usual ones, and rungs of the ladder where the bounds of two
        neighbours are far apart. All searches compare them, so that none misses what another finds.
        """
        sampled = {0, len(self.ladder) - 1}
        while len(sampled) < _SAMPLED:
            gaps = [
                (_apart(self.at_rung(low), self.at_rung(high)), low, high)
                for low, high in pairwise(sorted(sampled))
                if high - low > 1
            ]
            if not gaps:
                break
            _, low, high = max(gaps)
            sampled.add((low + high) // 2)
        usual = ("auto", "1", "whole", *self.raised[::2])
        found = [*map(self.estimated, usual), *map(self.at_rung, sorted(sampled))]
        best = not_dominated(found)
        for low, high in pairwise((*sorted(sampled), len(self.ladder))):
            if self.at_rung(low) in best:
                same_bytes = partial(self._within, self.at_rung(low).bytes)
                rung = self.ladder[low + _last(self.ladder[low:high], same_bytes)]
                found += [self.on_rung(rung), self.freed(rung)]
        return not_dominated(found)

    def _within(self, most: int, rung: Rung) -> bool:
        return self.on_rung(rung).bytes <= most

    def rows(self, rows: str, *, usual: bool = False) -> Point:
        """The plan at these heights. usual: kernels get as much scratch as without a given memory, and rows are laid
        out alike. Raises OutOfTimeError where no more may be made.
        """
        known = self._known.get((rows, usual))
        if known is not None:
            return known
        over = self._end is not None and time.monotonic() >= self._end
        tried = {before for before, _ in self._known} - {rows}
        if self.found and (over or len(tried) >= self.trials):
            raise OutOfTimeError
        self._progress("planning", len(self.found), self._shown_total())
        # heights are compared in little time each; only those that are taken are worth the whole effort
        return self._made(rows, _OF_TRIALS, usual)

    def _made(self, rows: str, effort: str | float, usual: bool = False) -> Point:
        options = replace(self.options, rows=rows)
        terms = replace(Terms.of(replace(options, memory=0) if usual else options), effort=effort)
        plan = self._planner(self.prepared, self.prepared.phased(options, terms))
        found = self.add(plan, usual)
        if plan.interrupted:
            raise KeyboardInterrupt
        return found

    def add(self, plan: Plan, usual: bool = False) -> Point:
        """A plan of these options, made here or before."""
        found = Point(plan, estimate(plan, self.predicted.profile).seconds)
        self.found.append(found)
        self._known[plan.options.rows, usual] = found
        return found

    def polish(self, taken: Point | None) -> None:
        """Search longer at the heights that are taken, where the planner has more to find there."""
        if taken is None or self.interrupted or self.options.effort == _OF_TRIALS:
            return
        if not 0 < bound_of(taken.plan) < taken.bytes:
            return
        effort = self.options.search_effort
        if self._end is not None:
            effort = self._end - time.monotonic()
            if effort <= 0:
                return
        self._progress("searching", 0, None)
        rows = taken.plan.options.rows
        self.run(lambda search: _ignored(search._made(rows, effort)))

    def rung(self, rung: Rung) -> Point:
        """The plan on a rung of the ladder."""
        return self.rows(self.heights.rows(rung))

    def at(self, index: int) -> Point:
        """The same, by its index."""
        return self.rung(self.ladder[index])

    def run(self, explore: Callable[[Search], None]) -> None:
        """Explore until done, out of time, or interrupted with at least one plan made. Raises
        KeyboardInterrupt where there is none.
        """
        try:
            explore(self)
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            if not self.found:
                raise
            self.interrupted = True

    def _shown_total(self) -> int | None:
        return self.trials if self.trials < _MOST_TRIALS else None


def _nothing(what: str, done: int = 0, total: int | None = None) -> None:
    pass


def _ignored(found: Point) -> None:
    """It is in the list of what was found."""


# What is explored -------------------------------------------------------------------------------


def least(search: Search) -> None:
    """Towards the least memory: one row a phase, then taller wherever that costs nothing."""
    best = search.rows("1")
    if search.at(0).bytes < best.bytes:
        best = search.at(0)
    low, high = 0, len(search.ladder) - 1
    for _ in range(_FEW):  # the cheapest price at which the memory is still the least
        if high - low < 2:
            break
        middle = low + max(1, (high - low) // 4)
        found = search.at(middle)
        low, high = (middle, high) if found.bytes <= best.bytes else (low, middle)
    _free_rows(search, min(search.found, key=lambda one: (one.bytes, one.seconds)))


def _free_rows(search: Search, found: Point) -> None:
    """Taller slabs where memory is free while a layer works: all such layers at once, and where that
    costs something (they share what is free, and their workspace grows), halves of them.
    """
    rung = _rung_of(search, found)
    if rung is None:
        return
    free = free_bytes(found.plan.conversion, found.plan.order, found.plan.live)
    taller = search.heights.taller(rung, free)
    layers = [at for at, pick in enumerate(taller.picks) if pick != rung.picks[at]]
    layers.sort(key=lambda at: -free.get(search.heights.names[at], 0))
    picks, waiting = list(rung.picks), [layers] if layers else []
    while waiting:
        some = waiting.pop(0)
        tried = list(picks)
        for at in some:
            tried[at] = taller.picks[at]
        if search.rung(search.heights.rung(tried)).bytes <= found.bytes:
            picks = tried
        elif len(some) > 1:
            waiting += [some[: len(some) // 2], some[len(some) // 2 :]]


def _rung_of(search: Search, found: Point) -> Rung | None:
    """The choices that a plan was made with."""
    rows = found.plan.options.rows
    if rows == "1":
        return search.heights.rung([0] * len(search.heights.names))
    return next((rung for rung in search.ladder if search.heights.rows(rung) == rows), None)


def free_bytes(conversion: Conversion, order: Order, live: np.ndarray) -> dict[str, int]:
    """Actor -> bytes that are free, below the peak, all the time that it is at work. live: bytes during each firing."""
    peak, times = int(live.max(initial=0)), times_of(order)
    return {
        work.asked_by: peak - int(live[times[work.name][0] : times[work.name][-1] + 1].max())
        for work in conversion.actors
        if work.kind != "output"
    }


def quickest(search: Search) -> None:
    """Towards the least time: the tallest slabs that pay, then dearer memory at the same time."""
    end = len(search.ladder) - 1
    limit = _NEAR * min(rung.seconds for rung in search.ladder)
    near = next(at for at, rung in enumerate(search.ladder) if rung.seconds <= limit)
    search.at(near)
    search.at(end)
    search.rows("whole")
    search.at((near + end) // 2)


def under_bytes(budget: int) -> Callable[[Search], None]:
    """Towards the fastest plan of at most so many bytes: of heights with bounds within them the fastest first, until
    none is left that is faster than a plan that fits.
    """

    def explore(search: Search) -> None:
        tallest = _last(search.ladder, partial(search._within, budget))
        raised = _last(search.raised, lambda rows: search.estimated(rows).bytes <= budget)
        near = map(search.estimated, search.raised[max(0, raised - 1) : raised + 1])
        limit = inf
        fitting = search.compared(lambda one: one.bytes <= budget, near, *search.around(tallest))
        for one in sorted(fitting, key=_by_seconds):
            if one.seconds >= limit:
                return
            found = search.rows(one.rows)
            if found.bytes > budget:
                found = search.rows(one.rows, usual=True)
            if found.bytes <= budget:
                limit = min(limit, expected(found.plan, found.seconds, search.prepared.kernels))
        if limit == inf:
            first = search.at(0)
            if first.bytes > budget >= bound_of(first.plan):
                least(search)

    return explore


def under_seconds(limit: float) -> Callable[[Search], None]:
    """Towards the smallest plan that takes at most so many seconds: of heights in time those with the lowest bounds
    first, until no bound is left below a plan that was made.
    """

    def explore(search: Search) -> None:
        in_time = [at for at, rung in enumerate(search.ladder) if rung.seconds * _EQUAL <= limit]
        if not in_time:
            quickest(search)
            return
        faster = map(search.at_rung, _spread(in_time)[:_SPREAD])
        quick = search.compared(
            lambda one: one.seconds * _EQUAL <= limit, faster, *search.around(in_time[0])
        )
        best = inf
        for one in sorted(quick, key=_by_bytes):
            if one.bytes >= best:
                return
            best = min(best, search.rows(one.rows).bytes)

    return explore


def _last(items: Sequence[_Item], holds: Callable[[_Item], bool]) -> int:
    """Index of the last item for which something holds that holds for all before it; 0 where it holds for none."""
    low, high = 0, len(items)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(items[middle]) else (low, middle)
    return low


def no_more_than_whole(search: Search) -> None:
    """Heights that take no more than whole layers, where those of `auto` do: a few of all there are."""
    for rows in ("auto", "1"):
        search.rows(rows)
    for index in _spread(range(len(search.ladder)))[:_FEW]:
        search.at(index)


def front(search: Search) -> None:
    """Towards all plans that nothing dominates: at the heights that no limit can do without, ends first."""
    search.at(0)
    plans = search.trials - 2  # the bounds of the candidates take the time of a plan
    for one in _spread(search.candidates)[:plans]:
        search.rows(one.rows)


def _spread(items: Iterable[_Item]) -> list[_Item]:
    """Items in an order that is spread over them ever more densely.

    >>> _spread("abcde")
    ['a', 'e', 'c', 'b', 'd']
    """
    found = list(items)
    last = len(found) - 1
    order, gaps = [0, last][: len(found)], [(0, last)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [found[at] for at in order]


def bound_of(plan: Plan) -> int:
    """Bytes that are proved to be needed at a plan's heights, outputs beside the arena with them; 0
    where nothing is.
    """
    bound = plan.figures.get("lower_bound", 0)
    return bound and bound + plan.figures.get("outputs", 0)


# What is taken ----------------------------------------------------------------------------------


def smallest(found: Sequence[Point]) -> Point | None:
    """Least bytes, among these least time."""
    return min(found, key=lambda one: (one.bytes, one.seconds), default=None)


def fastest(found: Sequence[Point], kernels: Backend) -> Point | None:
    """Least time but for what no model can tell, among these least bytes."""
    if not found:
        return None
    limit = _NEAR * min(expected(one.plan, one.seconds, kernels) for one in found)
    return smallest([one for one in found if expected(one.plan, one.seconds, kernels) <= limit])


def expected(plan: Plan, seconds: float, kernels: Backend) -> float:
    """Seconds to choose by: those predicted, and what no profile knows of rows that are not contiguous."""
    return seconds * (_APART if plan.fine and kernels.rereads_weights else 1.0)


def balanced(found: Sequence[Point]) -> Point | None:
    """Among those that take no more than whole layers the least memory times time; if there is none,
    the smallest.
    """
    within = [one for one in found if one.bytes <= one.plan.figures["whole_layer_live"]]
    return min(within, key=lambda one: one.bytes * one.seconds, default=None) or smallest(found)


def _apart(one: Estimated, other: Estimated) -> float:
    """How far apart two rungs are, in bytes and in time."""
    return abs(log(other.bytes / one.bytes)) + abs(log(other.seconds / one.seconds))


def _by_seconds(one: Estimated) -> tuple[float, int]:
    return one.seconds, one.bytes


def _by_bytes(one: Point | Estimated) -> tuple[int, float]:
    return one.bytes, one.seconds


def not_dominated(found: Iterable[_Compared]) -> tuple[_Compared, ...]:
    """Those that no other one beats in bytes and in time, from the smallest to the fastest."""
    front: list[_Compared] = []
    for one in sorted(found, key=_by_bytes):
        if not front or one.seconds < front[-1].seconds * _EQUAL:
            front.append(one)
    return tuple(front)
