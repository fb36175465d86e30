"""Which plans are made for a goal, and which of them is taken? The decision depends only on the plans made so far.

A search adds plans to a list until it is done, its time is up, or the user presses Ctrl-C. One of the plans in the list
is then taken, so that an interrupted search gives the best plan so far.

Budgets and the front choose from one list (`search_shared`): it has the default plan, the plans of the goal of least memory, and
plans at heights that every budget compares, all with the scratch of the default. The time that is predicted does not
count scratch: a plan that took more of it, or less, would beat others, or be beaten, at the same heights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, pairwise
from math import inf, log
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from csdfgen.devices.model import estimate
from csdfgen.goals.heights import Heights, Predicted, Rung, weigh_plan
from csdfgen.goals.peaks import FIRINGS, SLOWER, fit_whole_layers
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.phases.conversion import Conversion
from csdfgen.phases.heights import lowest_heights
from csdfgen.planning.lifetimes import firing_times, trace_lifetimes, trace_live_bytes
from csdfgen.planning.ordering import Order
from csdfgen.planning.plan import Plan, Point
from csdfgen.planning.planner import output_bytes_beside
from csdfgen.planning.prepared import Phased, Prepared, Terms
from csdfgen.program.steps import Backend
from csdfgen.stopping import is_stopped, raise_if_stopped

Planner = Callable[[Prepared, Phased], Plan]
"""Makes the plan of a prepared network as it is cut into phases: `planning.planner.plan_phased`."""

Progress = Callable[..., None]
"""Called as progress("what", done, total)."""

_TRIALS = MappingProxyType({"low": 8, "normal": 12, "high": 32})
"""Plans that a search makes at most, by effort."""

_MOST_TRIALS = 10_000

_OF_TRIALS = "low"

_SAMPLED = 8
"""Rungs of the ladder that are compared for every limit."""

_NEIGHBOURS = 2
"""Rungs before and after the rung at a limit that are also compared."""

_SPREAD = 6
"""Faster rungs that are compared for a limit of time."""

_EQUAL = 1 - 1e-8
"""Times within this factor are equal: sums differ in their last digits by the order of their terms."""

_BRIEF = 250
"""Firings up to which the default looks for plans that beat it wherever budgets do."""

_QUICK = 3
"""Plans made for the least memory at the lowest effort: one row a phase mostly takes the least."""

_CLOSE = 0.9
"""Part of whole layers down to which slabs are lowered before other plans are tried."""

_FEW = 5
"""Rungs that are tried where any plan better than that at the heights of `auto` is enough."""

_NEAR = 1.01
"""Plans within one percent of the least time count as equally fast: no model predicts more exactly."""

_APART = 1.08
"""Measured over predicted time of a backend that rereads weights where the rows of a firing are not contiguous: the
median of numpy over 10 plans of three networks (1.04 to 1.29; 0.95 to 1.04 with contiguous rows).
"""


@dataclass(frozen=True, slots=True)
class Estimated:
    """Heights with estimates of their plan before it is made: a lower bound of its bytes, and the seconds that a frame is
    predicted to take.
    """

    rows: str
    bytes: int
    seconds: float


_Item = TypeVar("_Item")
_Compared = TypeVar("_Compared", Point, Estimated)


class OutOfTimeError(Exception):
    """The time of a search, or the number of its plans, is used up."""


class Search:
    """The plans of a prepared network that were made so far, at different heights. planner: makes them; default: makes
    that of the goal `find_balanced`.
    """

    def __init__(
        self,
        predicted: Predicted,
        planner: Planner,
        progress: Progress | None = None,
        default: Callable[[], Plan] | None = None,
    ) -> None:
        self.predicted, self.prepared = predicted, predicted.prepared
        self.options = options = self.prepared.options
        self.found: list[Point] = []
        self.interrupted = False
        self.default = default
        self._settled: Point | None = None  # the default plan, which is made with the full effort
        self._planner, self._progress = planner, progress or (lambda *what: None)
        self.made: dict[str, Point] = {}
        self._estimated: dict[str, Estimated] = {}
        seconds = options.seconds
        self.trials = _TRIALS.get(options.effort, _MOST_TRIALS)
        if options.goal == "memory" and options.effort == _OF_TRIALS:
            self.trials = _QUICK
        self._limit = self.trials
        self._end = None if seconds is None else time.monotonic() + seconds

    @cached_property
    def heights(self) -> Heights:
        """Choices of every layer."""
        return self.predicted.heights

    @cached_property
    def lowest(self) -> str:
        """One row a phase, or the fewest that are tried."""
        return str(lowest_heights(self.prepared.network))

    @cached_property
    def ladder(self) -> tuple[Rung, ...]:
        """The rungs from the highest price of memory to the lowest."""
        return self.heights.ladder

    @cached_property
    def raised(self) -> list[str]:
        """Heights of `auto` with more and more layers taller (`Heights.levels`), for a backend that gains by that."""
        return self.heights.levels() if self.prepared.kernels.tall_slabs else []

    def estimated(self, rows: str) -> Estimated:
        """Estimates of the plan at these heights, in a small part of the time that making it takes."""
        known = self._estimated.get(rows)
        if known is None:
            raise_if_stopped()
            phased = self.prepared.at(rows)
            taken = phased.rough_bound + output_bytes_beside(self.prepared.network, self.options)
            taken += read_only_bytes(self.prepared.network, self.options)
            # sums of the same terms in another order differ in their last digits
            seconds = float(f"{self.predicted.frame(phased.conversion):.10g}")
            known = Estimated(rows, taken, seconds)
            self._estimated[rows] = known
        return known

    def at_rung(self, index: int) -> Estimated:
        """Estimates by the index of a rung."""
        return self.on_rung(self.ladder[index])

    def on_rung(self, rung: Rung) -> Estimated:
        """Estimates of a rung of the ladder."""
        return self.estimated(self.heights.rows(rung))

    def freed(self, rung: Rung) -> Estimated:
        """Estimates of a rung with taller slabs wherever memory is free while a layer works, in the order on demand."""
        phased = self.prepared.at(self.heights.rows(rung))
        live = trace_live_bytes(
            trace_lifetimes(phased.on_demand, phased.buffers), phased.scratch, phased.on_demand
        )
        free = find_free_bytes(phased.conversion, phased.on_demand, live)
        low, tall = self.on_rung(rung), self.on_rung(self.heights.taller(rung, free))
        return tall if tall.seconds < low.seconds * _EQUAL else low

    def around(self, index: int) -> tuple[list[Estimated], list[Estimated]]:
        """Estimates of a rung and its neighbours, and of the same rungs with taller slabs where memory is free."""
        near = self.ladder[max(0, index - _NEIGHBOURS) : index + _NEIGHBOURS + 1]
        return [*map(self.on_rung, near)], [*map(self.freed, near)]

    def near(self, point: Point) -> Iterable[Estimated]:
        """Heights whose plans may beat a plan: around the rung of its bytes, and those that every search compares."""
        return chain(*self.around(self.last_within(point.bytes)), self.candidates)

    def just_faster(self, point: Point) -> Iterator[Estimated]:
        """The first of these that are faster than a plan: the default has time for few estimates, as one takes a twentieth of
        the time of a plan.
        """
        limit, end = point.seconds * _EQUAL, len(self.ladder)
        first = next((at for at, rung in enumerate(self.ladder) if rung.seconds < limit), end)
        step = 1
        while first < end and self.at_rung(first).bytes <= point.bytes:
            yield self.at_rung(first)
            first, step = first + step, 2 * step
        if step == 1 and first and self.at_rung(first - 1).bytes <= point.bytes:
            yield self.freed(self.ladder[first - 1])

    def compared(
        self, fits: Callable[[Estimated], bool], *near: Iterable[Estimated]
    ) -> set[Estimated]:
        """Heights that fit a limit: those that every search compares, and the best of each group near the limit. Groups
        are kept apart because plans of one may be farther above their bounds than plans of another.
        """
        best = (pareto_optimal(filter(fits, group)) for group in near)
        return {*filter(fits, self.candidates), *chain.from_iterable(best)}

    @cached_property
    def candidates(self) -> tuple[Estimated, ...]:
        """Heights that every search compares, so that none misses a plan that another one finds: the usual ones, and
        rungs of the ladder where the estimates of neighbours are far apart.
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
        usual = ("auto", self.lowest, "whole", *self.raised[::2])
        found = [*map(self.estimated, usual), *map(self.at_rung, sorted(sampled))]
        best = pareto_optimal(found)
        for low, high in pairwise((*sorted(sampled), len(self.ladder))):
            if self.at_rung(low) in best:
                last = self.last_within(self.at_rung(low).bytes, low, high)
                found += [self.at_rung(last), self.freed(self.ladder[last])]
        return pareto_optimal(found)

    def last_within(self, most: int, low: int = 0, high: int | None = None) -> int:
        """Index of the last rung in [low, high) whose bound is at most so many bytes."""
        return low + _last(self.ladder[low:high], lambda rung: self.on_rung(rung).bytes <= most)

    def rows(self, rows: str) -> Point:
        """The plan at these heights. Raises OutOfTimeError if the search may make no more plans."""
        known = self.made.get(rows)
        if known is not None:
            return known
        if self.found and is_stopped():
            raise KeyboardInterrupt
        over = self._end is not None and time.monotonic() >= self._end
        if self.found and (over or len(self.made) >= self._limit):
            raise OutOfTimeError
        total = self.trials if self.trials < _MOST_TRIALS else None
        self._progress("planning", len(self.found), total)
        # heights are compared with little effort each; the full effort is for those that are taken (`polish`)
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
        """Add a plan of these options, made by this search or before it."""
        found = Point(plan, estimate(plan, self.predicted.profile).seconds)
        self.found.append(found)
        self.made[plan.options.rows] = found
        return found

    def tight(self) -> Search:
        """A search of the goal of least memory: at the same heights, in the least scratch."""
        options = replace(self.options, goal="memory")
        found = Search(self.predicted.for_options(options), self._planner, self._progress)
        found._end = self._end
        return found

    def polish(self, taken: Point | None) -> None:
        """Search with the full effort at the heights that are taken, unless their plan is proved the smallest."""
        if taken is None or self.interrupted or self.options.effort == _OF_TRIALS:
            return
        if taken is self._settled or taken not in self.made.values():
            return
        if not 0 < lower_bound(taken.plan) < taken.bytes:
            return
        effort = self.options.search_effort
        if self._end is not None:
            effort = self._end - time.monotonic()
            if effort <= 0:
                return
        self._progress("searching", 0, None)
        rows = taken.plan.options.rows
        self.run(lambda search: search._made(rows, effort))

    def rung(self, rung: Rung) -> Point:
        """The plan of a rung of the ladder."""
        return self.rows(self.heights.rows(rung))

    def at(self, index: int) -> Point:
        """The plan of a rung, by its index."""
        return self.rung(self.ladder[index])

    def go_on(self) -> None:
        """Allow as many plans again."""
        self._limit = len(self.made) + self.trials

    def run(self, *stages: Stage) -> None:
        """Explore stage by stage, each until done, out of time, or interrupted. Raises KeyboardInterrupt if that comes before
        the first plan.
        """
        try:
            for stage in stages:
                self.go_on()
                with suppress(OutOfTimeError):
                    if stage(self) is False:
                        return
            self.interrupted = self.interrupted or is_stopped()
        except KeyboardInterrupt:
            if not self.found:
                raise
            self.interrupted = True


Stage = Callable[[Search], object]
"""Adds plans to a search; False if no further stage is of use."""


# Which plans are made ----------------------------------------------------------------------------


def search_least(search: Search) -> None:
    """For the least memory: one row a phase, then taller slabs wherever they take no more memory."""
    best = search.rows(search.lowest)
    if search.at(0).bytes < best.bytes:
        best = search.at(0)
    low, high = 0, len(search.ladder) - 1
    for _ in range(_FEW):  # the cheapest price at which the memory is still the least
        if high - low < 2:
            break
        middle = low + max(1, (high - low) // 4)
        found = search.at(middle)
        low, high = (middle, high) if found.bytes <= best.bytes else (low, middle)
    _free_rows(search, min(search.found, key=size_key))


def _free_rows(search: Search, found: Point) -> None:
    """Taller slabs where memory is free while a layer works: all such layers at once, and if that takes more memory
    (they share the free bytes, and their workspace grows), halves of them.
    """
    rung = _rung_of(search, found)
    if rung is None:
        return
    free = find_free_bytes(found.plan.conversion, found.plan.order, found.plan.live)
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
    """The rung whose heights a plan was made at."""
    rows = found.plan.options.rows
    if rows == search.lowest:
        return search.heights.rung([0] * len(search.heights.names))
    return next((rung for rung in search.ladder if search.heights.rows(rung) == rows), None)


def find_free_bytes(conversion: Conversion, order: Order, live: np.ndarray) -> dict[str, int]:
    """Actor -> bytes below the peak that are free during all of its firings. live: bytes alive during each firing."""
    peak, times = int(live.max(initial=0)), firing_times(order)
    return {
        work.asked_by: peak - int(live[times[work.name][0] : times[work.name][-1] + 1].max())
        for work in conversion.actors
        if work.kind != "output"
    }


def search_quickest(search: Search) -> None:
    """For the least time: the tallest slabs that are faster, then rungs with less memory and the same time."""
    end = len(search.ladder) - 1
    limit = _NEAR * min(rung.seconds for rung in search.ladder)
    near = next(at for at, rung in enumerate(search.ladder) if rung.seconds <= limit)
    search.at(near)
    search.at(end)
    search.rows("whole")
    search.at((near + end) // 2)


def limit_bytes(budget: int) -> Stage:
    """For the fastest plan of at most so many bytes: of the heights whose bounds are within the budget the fastest first,
    until no other heights are predicted to be faster than a plan that fits.
    """

    def explore(search: Search) -> None:
        tallest = search.last_within(budget)
        raised = _last(search.raised, lambda rows: search.estimated(rows).bytes <= budget)
        near = map(search.estimated, search.raised[max(0, raised - 1) : raised + 1])
        kernels = search.prepared.kernels
        kept = [one for one in search.found if one.bytes <= budget]
        limit = min((expected_seconds(one.plan, one.seconds, kernels) for one in kept), default=inf)
        fitting = search.compared(lambda one: one.bytes <= budget, near, *search.around(tallest))
        for one in sorted(fitting, key=_by_seconds):
            if one.seconds >= limit:
                return
            found = search.rows(one.rows)
            if found.bytes <= budget:
                limit = min(limit, expected_seconds(found.plan, found.seconds, kernels))

    return explore


def limit_seconds(limit: float) -> Stage:
    """For the smallest plan that takes at most so many seconds: of the heights in time those with the lowest bounds first,
    until no other bound is below the bytes of a plan.
    """

    def explore(search: Search) -> None:
        in_time = [at for at, rung in enumerate(search.ladder) if rung.seconds * _EQUAL <= limit]
        if not in_time:
            search_quickest(search)
            return
        faster = map(search.at_rung, _spread(in_time)[:_SPREAD])
        quick = search.compared(
            lambda one: one.seconds * _EQUAL <= limit, faster, *search.around(in_time[0])
        )
        kept = [one.bytes for one in search.found if one.seconds <= limit]
        best = min(kept, default=inf)
        for one in sorted(quick, key=size_key):
            if one.bytes >= best:
                return
            best = min(best, search.rows(one.rows).bytes)

    return explore


def _last(items: Sequence[_Item], holds: Callable[[_Item], bool]) -> int:
    """Index of the last item of a first part for which `holds` is true, false for all others; 0 if it is for none."""
    low, high = 0, len(items)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(items[middle]) else (low, middle)
    return low


def has_comparison(prepared: Prepared) -> bool:
    """Whether the default compares heights: on a backend that gains by taller slabs, where every layer computes each of its
    rows once, in the best order that is found.
    """
    options = prepared.options
    once = options.recompute == 1 and not options.tiles
    once = once and options.policy == DEFAULTS.policy and options.frames == 1
    return prepared.kernels.tall_slabs and once


def search_default(search: Search) -> None:
    """The default plan, and plans that beat it. Where it takes more memory than whole layers, a few rungs, and the least
    scratch.
    """
    assert search.default is not None
    first = search._settled = search.add(search.default())
    if first.plan.interrupted:
        raise KeyboardInterrupt
    whole = whole_layer_bytes(first.plan)
    if first.bytes > whole:
        found, part = first, 1.0
        while found.bytes > whole and part > _CLOSE:
            if (low := fit_whole_layers(found.plan, search.predicted, part)) is None:
                break
            found = search.rows(low)
            part *= whole / found.bytes  # places may take more than the rows that are alive
        if found.bytes <= whole and found.seconds <= SLOWER * first.seconds:
            return
        tight = search.tight()
        for made_by, rows in (
            (search, "whole"),
            (search, "auto"),
            (tight, "whole"),
            (tight, "auto"),
        ):
            if _is_promising(search, made_by.estimated(rows), made_by):
                made = made_by.rows(rows)
                search.found += () if made_by is search else (made,)
        lowest = search.heights.rung([0] * len(search.heights.names))
        tried = [(search.lowest, lowest.seconds)]
        for index in _spread(range(len(search.ladder)))[:_FEW]:
            rung = search.ladder[index]
            tried.append((search.heights.rows(rung), rung.seconds))
        for rows, seconds in tried:  # seconds alone mostly decide, bytes take longer
            quick = Estimated(rows, 0, seconds)
            if _is_promising(search, quick) and _is_promising(search, search.estimated(rows)):
                search.rows(rows)
    elif has_comparison(search.prepared):
        if len(first.plan.order) <= _BRIEF:
            _replace(search, first, search.just_faster, search.near)
            return
        # there is time for one more plan: what is the most likely to fit
        for one in islice(search.just_faster(first), 1):
            if one.bytes <= first.bytes and one.seconds < first.seconds * _EQUAL:
                search.rows(one.rows)


def _is_promising(search: Search, one: Estimated, made_by: Search | None = None) -> bool:
    """Whether the plan with these estimates may be the one that `find_balanced` takes. Where planning takes long, none made for
    the same goal may be as good by its own estimates. made_by: the search that would make it, by default this one.
    """
    taken, options = find_balanced(search.found), (made_by or search).options
    assert taken is not None
    counted, most = read_only_bytes(search.prepared.network, options), whole_layer_bytes(taken.plan)
    for made in search.found:
        bound = lower_bound(made.plan)
        alike = made.plan.options.goal == options.goal and made.seconds <= one.seconds / _EQUAL
        if alike and len(made.plan.order) > FIRINGS and 0 < bound <= one.bytes - counted:
            return False
    if taken.bytes > most:
        return size_key(one) < size_key(taken)
    weight = weigh_plan(taken.plan)
    beside = weight - taken.bytes
    return one.bytes <= most and (one.bytes + beside) * one.seconds < weight * taken.seconds


def search_front(search: Search) -> None:
    """For the Pareto front: at the heights that every search compares, the two ends first."""
    search.at(0)
    plans = search.trials - 2  # the estimates of the candidates take as long as a plan
    for one in _spread(search.candidates)[:plans]:
        search.rows(one.rows)


def stop_hopeless(budget: int) -> Stage:
    """Ends a search for plans of at most so many bytes, with the plan of one row a phase, if no bound is within them."""

    def explore(search: Search) -> bool:
        tight = search.tight()
        ends = search.lowest, search.heights.rows(search.ladder[0]), "auto", "whole"
        least = read_only_bytes(search.prepared.network, search.options)  # an estimate, no bound
        within = any(tight.estimated(rows).bytes - least <= budget for rows in ends)
        if not within:
            search.found.append(tight.rows(search.lowest))
        return within

    return explore


def search_shared(search: Search) -> None:
    """Add the plans that all budgets and fronts have: those of the default and of the goal of least memory, as these goals
    make them, and that of one row a phase.
    """
    if search.options.seconds is None:
        search_default(search)
    tight = search.tight()
    tight.run(search_least)
    tight.polish(find_smallest(tight.found))
    search.found += tight.found
    if tight.interrupted:
        raise KeyboardInterrupt
    search.rows(search.lowest)


def search_unbeaten(take: Callable[[Search], Iterable[Point]]) -> Stage:
    """Adds plans that beat those that are taken, where estimates of heights near them find one."""

    def explore(search: Search) -> None:
        seen: list[Point] = []
        while new := [one for one in take(search) if one not in seen]:
            for point in new:
                _replace(search, point, search.near)
            seen += new

    return explore


def _replace(search: Search, point: Point, *nears: Callable[[Point], Iterable[Estimated]]) -> None:
    """Add plans that beat a plan, one after the other, where estimates of heights near it find one. nears: where to look;
    at the further places only if there was one at the first.
    """
    first, tried = point, set[str]()
    for near in nears:
        before = None
        while point is not before:
            before = point
            better = [
                one
                for one in near(point)
                if one.bytes <= point.bytes and one.seconds < point.seconds * _EQUAL
            ]
            for one in sorted(better, key=_by_seconds):
                if one.rows in tried:
                    continue
                tried.add(one.rows)
                found = search.rows(one.rows)
                if found.bytes <= point.bytes:
                    point = found
                    search.go_on()
                    break
        if point is first:
            return


def _spread(items: Iterable[_Item]) -> list[_Item]:
    """Items in an order that covers their range more and more densely.

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


def read_only_bytes(network: Network, options: PlanOptions) -> int:
    """Bytes of what is only read, as the options count it, before anything is packed: the parameters."""
    return network.parameter_bytes if options.count == "total" else 0


def whole_layer_bytes(plan: Plan) -> int:
    """Bytes of whole layers, as the options of a plan count them."""
    return plan.figures["whole_layer_live"] + read_only_bytes(plan.network, plan.options)


def lower_bound(plan: Plan) -> int:
    """A proven lower bound of the bytes at a plan's heights, with outputs outside the arena; 0 if none is known."""
    bound = plan.figures.get("lower_bound", 0)
    return bound and bound + plan.figures.get("outputs", 0)


# Which plan is taken -----------------------------------------------------------------------------


def find_smallest(found: Sequence[Point]) -> Point | None:
    """The plan of the least bytes; of several the fastest."""
    return min(found, key=size_key, default=None)


def find_fastest(found: Sequence[Point], kernels: Backend) -> Point | None:
    """The smallest of the plans whose time is the least within the accuracy of models."""
    if not found:
        return None
    limit = _NEAR * min(expected_seconds(one.plan, one.seconds, kernels) for one in found)
    return find_smallest(
        [one for one in found if expected_seconds(one.plan, one.seconds, kernels) <= limit]
    )


def expected_seconds(plan: Plan, seconds: float, kernels: Backend) -> float:
    """The seconds that plans are chosen by: predicted, and corrected for rows that are not contiguous."""
    return seconds * (_APART if plan.fine and kernels.rereads_weights else 1.0)


def find_balanced(found: Sequence[Point]) -> Point | None:
    """The fastest plan that is no worse than the first, if that takes no more memory than whole layers; otherwise of the
    plans that take no more the one with the least memory times time; if there is none, the smallest plan.
    """
    most, limit = found[0].bytes, found[0].seconds / _EQUAL
    within = [one for one in found if one.bytes <= whole_layer_bytes(one.plan)]
    if found[0] in within:
        kept = [one for one in within if one.bytes <= most and one.seconds <= limit]
        return min(kept, key=lambda one: (one.seconds, one.bytes))
    return min(
        within, key=lambda one: weigh_plan(one.plan) * one.seconds, default=None
    ) or find_smallest(found)


def _apart(one: Estimated, other: Estimated) -> float:
    """Distance of two rungs in bytes and in time, both as logarithms."""
    return abs(log(other.bytes / one.bytes)) + abs(log(other.seconds / one.seconds))


def _by_seconds(one: Estimated) -> tuple[float, int]:
    return one.seconds, one.bytes


def size_key(one: Point | Estimated) -> tuple[int, float]:
    """A key for sorting: from the smallest to the largest, of equal size the fastest first."""
    return one.bytes, one.seconds


def pareto_optimal(found: Iterable[_Compared]) -> tuple[_Compared, ...]:
    """The Pareto front of bytes and seconds, from the smallest to the fastest."""
    front: list[_Compared] = []
    for one in sorted(found, key=size_key):
        if not front or one.seconds < front[-1].seconds * _EQUAL:
            front.append(one)
    return tuple(front)
