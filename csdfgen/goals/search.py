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
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.heights import Heights, Step, heights_of, seconds_of
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import prepare

__all__ = [
    "Found",
    "Planner",
    "Progress",
    "Search",
    "bound_of",
    "bytes_of",
    "expected",
    "not_dominated",
]

Planner = Callable[[Network, PlanOptions], Plan]
"""Makes the plan of a network with heights as given."""

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
"""Times longer than predicted that numpy takes where rows of a firing lie apart, in the median of 10 plans of three
networks (1.04 to 1.29; 0.95 to 1.04 where they lie together): a call for each piece reads all weights anew.
"""


@dataclass(frozen=True, eq=False)
class Found:
    """A plan with the seconds that a frame of it is predicted to take."""

    plan: Plan
    seconds: float

    @property
    def bytes(self) -> int:
        return bytes_of(self.plan)


def bytes_of(plan: Plan) -> int:
    """What a budget has to hold: the arena, and outputs that are not in it."""
    return plan.planned_bytes + plan.figures.get("outputs", 0)


class OutOfTimeError(Exception):
    """The time of a search, or the number of its plans, is used up."""


class Search:
    """The plans of a network that were made so far.

    plan_of: makes them. options: all but the heights. Raises InputError for an operator that the
    profile has no cost for.
    """

    def __init__(
        self,
        network: Network,
        options: PlanOptions,
        profile: DeviceProfile,
        plan_of: Planner,
        progress: Progress | None = None,
    ) -> None:
        self.network, self.options, self.profile = network, options, profile
        self.found: list[Found] = []
        self.interrupted = False
        self._plan_of, self._progress = plan_of, progress or _nothing
        self._known: dict[str, Found] = {}
        seconds = options.seconds
        self._trials = _TRIALS.get(options.effort, _MOST_TRIALS)
        if options.goal == "memory" and options.effort == _OF_TRIALS:
            self._trials = _QUICK
        self._end = None if seconds is None else time.monotonic() + seconds

    @cached_property
    def heights(self) -> Heights:
        """Choices of every layer."""
        return heights_of(self.network, self.options, self.profile)

    @cached_property
    def ladder(self) -> tuple[Step, ...]:
        """Heights from the dearest memory to the cheapest."""
        return self.heights.ladder()

    @cached_property
    def raised(self) -> list[str]:
        """Heights of `auto` with ever more layers taller (`Heights.levels`), where that is worth a
        search: native code reads a layer's weights anew in every phase.
        """
        return [] if self.options.backend == NUMPY.name else self.heights.levels()

    def seconds(self, rows: str) -> float:
        """Predicted seconds of a frame at these heights."""
        options = replace(self.options, rows=rows)
        return seconds_of(prepare(self.network, options), self.profile)

    def rows(self, rows: str) -> Found:
        """The plan at these heights. Raises OutOfTimeError where no more may be made."""
        known = self._known.get(rows)
        if known is not None:
            return known
        over = self._end is not None and time.monotonic() >= self._end
        if self.found and (over or len(self.found) >= self._trials):
            raise OutOfTimeError
        self._progress("planning", len(self.found), self._shown_total())
        # heights are compared in little time each; only those that are taken are worth the whole effort
        return self._made(replace(self.options, rows=rows, effort=_OF_TRIALS))

    def _made(self, options: PlanOptions) -> Found:
        plan = self._plan_of(self.network, options)
        found = self.add(replace(plan, options=replace(options, effort=self.options.effort)))
        if plan.interrupted:
            raise KeyboardInterrupt
        return found

    def add(self, plan: Plan) -> Found:
        """A plan of these options, made here or before."""
        found = Found(plan, estimate(plan, self.profile).seconds)
        self.found.append(found)
        self._known[plan.options.rows] = found
        return found

    def polish(self, taken: Found | None) -> None:
        """Search longer at the heights that are taken, where the planner has more to find there."""
        if taken is None or self.interrupted or self.options.effort == _OF_TRIALS:
            return
        options = taken.plan.options
        if not 0 < bound_of(taken.plan) < taken.bytes:
            return
        if self._end is not None:
            left = self._end - time.monotonic()
            if left <= 0:
                return
            options = replace(options, effort=f"{left}s")
        self._progress("searching", 0, None)
        self.run(lambda search: _ignored(search._made(options)))

    def step(self, step: Step) -> Found:
        """The plan at a step of the ladder."""
        return self.rows(self.heights.rows(step))

    def at(self, index: int) -> Found:
        """The same, by its index."""
        return self.step(self.ladder[index])

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


def _ignored(found: Found) -> None:
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


def _free_rows(search: Search, found: Found) -> None:
    """Taller slabs where memory is free while a layer works: all such layers at once, and where that
    costs something (they share what is free, and their workspace grows), halves of them.
    """
    step = _step_of(search, found)
    if step is None:
        return
    room = _room(found.plan)
    taller = search.heights.taller(step, room)
    layers = [at for at, pick in enumerate(taller.picks) if pick != step.picks[at]]
    layers.sort(key=lambda at: -room.get(search.heights.names[at], 0))
    picks, waiting = list(step.picks), [layers] if layers else []
    while waiting:
        some = waiting.pop(0)
        tried = list(picks)
        for at in some:
            tried[at] = taller.picks[at]
        if search.step(search.heights.step(tried)).bytes <= found.bytes:
            picks = tried
        elif len(some) > 1:
            waiting += [some[: len(some) // 2], some[len(some) // 2 :]]


def _step_of(search: Search, found: Found) -> Step | None:
    """The choices that a plan was made with."""
    rows = found.plan.options.rows
    if rows == "1":
        return search.heights.step([0] * len(search.heights.names))
    return next((step for step in search.ladder if search.heights.rows(step) == rows), None)


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
    limit = _NEAR * min(step.seconds for step in search.ladder)
    near = next(at for at, step in enumerate(search.ladder) if step.seconds <= limit)
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
        if search.at(low).plan.fine and search.options.backend == NUMPY.name:
            _together(search, low)
        search.rows("auto")
        for index in range(high, len(search.ladder)):  # memory does not only grow
            search.at(index)

    return explore


def _together(search: Search, fitting: int) -> None:
    """Towards the tallest slabs that lie together, below a step whose rows lie apart to fit."""
    low, high = 0, fitting
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if search.at(middle).plan.fine else (middle, high)


def under_seconds(limit: float) -> Callable[[Search], None]:
    """Towards the smallest plan that takes at most so many seconds."""

    def explore(search: Search) -> None:
        fitting = [at for at, step in enumerate(search.ladder) if step.seconds <= limit]
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


def smallest(found: Sequence[Found]) -> Found | None:
    """Least bytes, among these least time."""
    return min(found, key=lambda one: (one.bytes, one.seconds), default=None)


def fastest(found: Sequence[Found]) -> Found | None:
    """Least time but for what no model can tell, among these least bytes."""
    if not found:
        return None
    limit = _NEAR * min(expected(one.plan, one.seconds) for one in found)
    return smallest([one for one in found if expected(one.plan, one.seconds) <= limit])


def expected(plan: Plan, seconds: float) -> float:
    """Seconds to choose by: those predicted, and what no profile knows of rows that lie apart."""
    return seconds * (_APART if plan.fine and plan.options.backend == NUMPY.name else 1.0)


def balanced(found: Sequence[Found]) -> Found | None:
    """Among those that take no more than whole layers the least memory times time; if there is none,
    the smallest.
    """
    within = [one for one in found if one.bytes <= one.plan.figures["whole_layer_live"]]
    return min(within, key=lambda one: one.bytes * one.seconds, default=None) or smallest(found)


def not_dominated(found: Sequence[Found]) -> tuple[Found, ...]:
    """The plans that no other one beats in bytes and in time, from the smallest to the fastest."""
    front: list[Found] = []
    for one in sorted(found, key=lambda one: (one.bytes, one.seconds)):
        if not front or one.seconds < front[-1].seconds:
            front.append(one)
    return tuple(front)
