"""Which plans are tried for a goal, and which of them is taken? Plans made so far, and nothing else,
decide.

A search adds plans to a list until it is done, its time is over, or somebody presses Ctrl-C; what is
taken is picked from the list as it is then. So a search that is broken off gives the best so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, pairwise
from types import MappingProxyType

import numpy as np

from csdfgen.devices.model import estimate
from csdfgen.goals.heights import Heights, Predicted, Rung, heights_of
from csdfgen.planning.plan import Plan
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


@dataclass(frozen=True, eq=False)
class Point:
    """A plan with the seconds that a frame of it is predicted to take."""

    plan: Plan
    seconds: float

    @property
    def bytes(self) -> int:
        """Of the arena, and of outputs beside it."""
        return self.plan.total_bytes


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
        self._known: dict[str, Point] = {}
        seconds = options.seconds
        self._trials = _TRIALS.get(options.effort, _MOST_TRIALS)
        if options.goal == "memory" and options.effort == _OF_TRIALS:
            self._trials = _QUICK
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

    def seconds(self, rows: str) -> float:
        """Predicted seconds of a frame at these heights."""
        return self.predicted.frame(self.prepared.at(rows).conversion)

    def rows(self, rows: str) -> Point:
        """The plan at these heights. Raises OutOfTimeError where no more may be made."""
        known = self._known.get(rows)
        if known is not None:
            return known
        over = self._end is not None and time.monotonic() >= self._end
        if self.found and (over or len(self.found) >= self._trials):
            raise OutOfTimeError
        self._progress("planning", len(self.found), self._shown_total())
        # heights are compared in little time each; only those that are taken are worth the whole effort
        return self._made(rows, _OF_TRIALS)

    def _made(self, rows: str, effort: str | float) -> Point:
        options = replace(self.options, rows=rows)
        terms = replace(Terms.of(options), effort=effort)
        plan = self._planner(self.prepared, self.prepared.phased(options, terms))
        found = self.add(plan)
        if plan.interrupted:
            raise KeyboardInterrupt
        return found

    def add(self, plan: Plan) -> Point:
        """A plan of these options, made here or before."""
        found = Point(plan, estimate(plan, self.predicted.profile).seconds)
        self.found.append(found)
        self._known[plan.options.rows] = found
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
        return self._trials if self._trials < _MOST_TRIALS else None


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
    room = _room(found.plan)
    taller = search.heights.taller(rung, room)
    layers = [at for at, pick in enumerate(taller.picks) if pick != rung.picks[at]]
    layers.sort(key=lambda at: -room.get(search.heights.names[at], 0))
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


def _room(plan: Plan) -> dict[str, int]:
    """Actor -> bytes that are free, below the peak, all the time that it is at work."""
    live = plan.live
    spans: dict[str, tuple[int, int]] = {}
    for at, (actor, _) in enumerate(plan.order):
        spans[actor] = spans.get(actor, (at, at))[0], at
    peak = int(live.max(initial=0))
    names = {work.name: work.asked_by for work in plan.conversion.actors if work.kind != "output"}
    return {
        names[actor]: peak - int(np.max(live[first : last + 1]))
        for actor, (first, last) in spans.items()
        if actor in names
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
    """Towards the fastest plan of at most so many bytes."""

    def explore(search: Search) -> None:
        if search.raised and search.rows("auto").bytes <= budget:
            low, high = -1, len(search.raised) - 1
            while low < high:
                middle = (low + high + 1) // 2
                fits = search.rows(search.raised[middle]).bytes <= budget
                low, high = (middle, high) if fits else (low, middle - 1)
        low, high = 0, len(search.ladder) - 1
        first = search.at(0)
        if first.bytes > budget:
            if bound_of(first.plan) > budget:
                return  # no order of any heights fits: nothing is to be looked for
            least(search)
            return
        if search.at(high).bytes <= budget:
            return
        while high - low > 1:
            middle = (low + high) // 2
            found = search.at(middle)
            low, high = (middle, high) if found.bytes <= budget else (low, middle)
        if search.at(low).plan.fine and search.prepared.kernels.rereads_weights:
            _together(search, low)
        search.rows("auto")
        for index in range(high, len(search.ladder)):  # memory does not only grow
            search.at(index)

    return explore


def _together(search: Search, fitting: int) -> None:
    """Towards the tallest slabs that are contiguous, below a rung whose rows are not contiguous."""
    low, high = 0, fitting
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if search.at(middle).plan.fine else (middle, high)


def under_seconds(limit: float) -> Callable[[Search], None]:
    """Towards the smallest plan that takes at most so many seconds."""

    def explore(search: Search) -> None:
        fitting = [at for at, rung in enumerate(search.ladder) if rung.seconds <= limit]
        if not fitting:
            quickest(search)
            return
        dearest = search.at(fitting[0])
        _free_rows(search, dearest)

        def in_time(rows: str) -> bool:
            return search.seconds(rows) <= limit

        lowest = islice(filter(in_time, ("auto", *search.raised)), 1)
        for rows in chain(lowest, filter(in_time, ("1", "whole"))):
            search.rows(rows)
        for index in _spread(fitting):
            search.at(index)

    return explore


def no_more_than_whole(search: Search) -> None:
    """Heights that take no more than whole layers, where those of `auto` do: a few of all there are."""
    for rows in ("auto", "1"):
        search.rows(rows)
    for index in _spread(range(len(search.ladder)))[:_FEW]:
        search.at(index)


def front(search: Search) -> None:
    """Towards all plans that nothing dominates: ends first, then where two neighbours lie far apart."""
    last = len(search.ladder) - 1
    for index in (0, last):
        search.at(index)
    count = len(search.raised)
    for rows in ("auto", "1", *(search.raised[at] for at in (count // 4, count // 2) if count)):
        search.rows(rows)
    known = {0: search.at(0), last: search.at(last)}
    while True:
        apart = sorted(known)
        gaps = [
            (abs(np.log(known[a].bytes / known[b].bytes)), a, b)
            for a, b in pairwise(apart)
            if b - a > 1
        ]
        if not gaps:
            return
        _, a, b = max(gaps)
        known[(a + b) // 2] = search.at((a + b) // 2)


def _spread(indices: Sequence[int] | Iterable[int]) -> list[int]:
    """Indices in an order that is spread over them ever more densely.

    >>> _spread(range(5))
    [0, 4, 2, 1, 3]
    """
    found = list(indices)
    order, gaps = [found[0], found[-1]] if len(found) > 1 else found, [(0, len(found) - 1)]
    order = list(dict.fromkeys(order))
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            order.append(found[middle])
            gaps += [(low, middle), (middle, high)]
    return order


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


def not_dominated(found: Sequence[Point]) -> tuple[Point, ...]:
    """The plans that no other one beats in bytes and in time, from the smallest to the fastest."""
    front: list[Point] = []
    for one in sorted(found, key=lambda one: (one.bytes, one.seconds)):
        if not front or one.seconds < front[-1].seconds:
            front.append(one)
    return tuple(front)
