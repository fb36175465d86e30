"""Which order of firings has the least peak? A search, which ends at a proven lower bound.

The search improves the given orders through minimum states below decreasing thresholds (`waypoints`), alternately
forwards and backwards in time, as bytes alive are the same in both directions. If the result is above the bound, it
also improves orders that drain at barriers and orders that drain at their worst firings (`commits`) and, with more
effort, orders that combine two others. An order that meets the bound is optimal, and ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from csdfgen.errors import ScheduleError
from csdfgen.stopping import is_stopped
from schedules.peak.barriers import Tables, barriers
from schedules.peak.bound import Cuts, lower_bound
from schedules.peak.clock import Clock, Effort
from schedules.peak.commits import follow_order
from schedules.peak.explore import explore_orders
from schedules.peak.implied import Demands
from schedules.peak.problem import Problem, evaluate
from schedules.peak.waypoints import search_waypoints

Array = np.ndarray

_FINE = 0.001
"""Distance of thresholds, as a part of the peak, below which no further one is tried."""

_KNOWN = 4
"""Number of thresholds whose demands are kept."""

_SMALL = 200
"""Firings up to which the search of all states comes first."""

_ROUNDS = 40
"""Consecutive random rounds without a gain after which a search ends."""


@dataclass(frozen=True, eq=False, slots=True)
class FoundOrder:
    """The best order found, its peak in bytes, and a lower bound for all orders.

    origin: the start that the order comes from. optimal: whether peak and bound are equal. interrupted: whether the user
    ended the search.
    """

    order: Array
    peak: int
    lower_bound: int
    origin: str
    interrupted: bool = False

    @property
    def optimal(self) -> bool:
        return self.peak <= self.lower_bound


def search(
    problem: Problem,
    starts: Mapping[str, Array],
    effort: Effort = "low",
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> FoundOrder:
    """The order of least peak that is found within `effort`, and a lower bound for all orders.

    starts: one or more orders to begin with, by name. effort: "low", "normal", "high" or a number of seconds. progress:
    is called with (peak, bound) when either improves. stop: returns whether the search should end. Ctrl-C returns the
    best order so far. Equal arguments give equal orders unless seconds end the search.
    Raises InputError for an effort that does not exist, ScheduleError for a start that is no order.
    """
    clock = Clock(effort, problem.firings, stop)
    begun = {name: np.asarray(order, np.int64) for name, order in starts.items()}
    for name, order in begun.items():
        if not problem.is_order(order):
            raise ScheduleError(f"'{name}' is no order of the {problem.firings} firings")
    if not begun:
        raise ScheduleError("a search starts from an order; none was given")
    run = _Run(problem, clock, begun, progress)
    interrupted = False
    try:
        if problem.firings:
            run.improve(begun, seed, thorough=effort != "low")
    except KeyboardInterrupt:
        if is_stopped():  # there is no time left for what follows
            raise
        interrupted = True
    peak = int(
        evaluate(problem, run.best).max(initial=0)
    )  # Ctrl-C may have come between an order and its peak
    return FoundOrder(run.best, peak, run.bound, run.origin, interrupted or is_stopped())


def find_lower_bound(
    problem: Problem, order: Array, effort: Effort = "low", share: float = 1.0
) -> int:
    """A lower bound of the peak of all orders. The search for it ends at the peak of this order, or after a share of the
    effort.

    Raises InputError for an effort that does not exist, ScheduleError for an invalid order.
    """
    begun = np.asarray(order, np.int64)
    if not problem.is_order(begun):
        raise ScheduleError(f"that is no order of the {problem.firings} firings")
    run = _Run(problem, Clock(effort, problem.firings), {"given": begun}, None)
    if problem.tractable:
        run.prove(share)
    return run.bound


class _Side:
    """The problem in one direction of time, with its tables, and its cuts if it is tractable."""

    def __init__(self, problem: Problem, clock: Clock) -> None:
        self.problem, self.tables = problem, Tables(problem)
        if problem.tractable:
            self.cuts = Cuts(problem, clock.spend)


class _Run:
    """The best order so far, and the methods that improve it."""

    def __init__(
        self,
        problem: Problem,
        clock: Clock,
        starts: Mapping[str, Array],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.problem, self.clock, self._progress = problem, clock, progress
        self.bound = _least_need(problem)
        self.origin, self.best = next(iter(starts.items()))
        self.peak = int(evaluate(problem, self.best).max(initial=0))
        for name, order in starts.items():
            self.offer(order, name)
        self._tell()
        self._sides: list[_Side] = []
        self._most = 0
        self._demanding = False
        self._over = clock.over
        self._known: dict[int, tuple[Cuts, ...]] = {}  # threshold: cuts with its demands

    def offer(self, order: Array, origin: str) -> int:
        """The peak of an order, which is kept if it is the best so far."""
        peak = int(evaluate(self.problem, order).max(initial=0))
        if peak < self.peak:
            self.best, self.peak, self.origin = order, peak, origin
            self._tell()
        return peak

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.peak, self.bound)

    def _raise(self, bound: int) -> None:
        if bound > self.bound:
            self.bound = bound
            self._tell()

    @property
    def _done(self) -> bool:
        return self.peak <= self.bound or self._over()

    @contextmanager
    def _within(self, share: float) -> Iterator[None]:
        """Limit the work in this context to a share of the remaining work."""
        before, part = self._over, self.clock.part(share)
        self._over = lambda: part() or before()
        try:
            yield
        finally:
            self._over = before

    def side(self, backwards: bool) -> _Side:
        """The problem forwards or backwards in time, which is made when it is first needed."""
        while len(self._sides) <= backwards:
            problem = self._sides[0].problem.backwards() if self._sides else self.problem
            self._sides.append(_Side(problem, self.clock))
        return self._sides[backwards]

    def improve(self, starts: Mapping[str, Array], seed: int, *, thorough: bool) -> None:
        """Apply all methods, the quickest first, until the bound is met or the clock is over."""
        self._most = 400 if thorough else 80
        if self.peak <= self.bound:
            return
        if not self.problem.tractable:
            self._drain()
            return
        self._explore(0.4 if self.problem.firings < _SMALL else 0)
        self.prove(0.15)
        first = self.origin
        with self._within(0.6):
            self._alternate(self.best, first)
        self._refute(0.3)
        with self._within(0.5):
            drained = self._drain()
            if drained is not None:
                self._alternate(drained, "barriers")
        self._demanding = True
        if not self._done:
            self._alternate(self.best, self.origin)
        if thorough:
            pool = [self.best] if drained is None else [self.best, drained]
            for name, order in starts.items():
                if name != first and not self._done:
                    pool.append(self._alternate(order, name))
            self._explore(0.2)
            with self._within(0.7):
                self._cross(pool, np.random.default_rng(seed))
        self._refute(1.0)

    def prove(self, share: float) -> None:
        """Raise the bound within a share of the remaining work."""
        if not self._done:
            live = evaluate(self.problem, self.best)
            over = self.clock.part(share)
            self._raise(lower_bound(self.side(False).cuts, self.best, live, self.bound, over))

    def _explore(self, share: float) -> None:
        """Search all states within a share of the remaining work."""
        over = self.clock.part(share)
        if not self._done and not over():
            tables = self.side(False).tables
            bound, order = explore_orders(tables, self.bound, self.peak, over, self.clock.spend)
            if order is not None:
                self.offer(np.array(order), "explored")
            self._raise(bound)

    def _drain(self) -> Array | None:
        """The order of the best barriers, for increasing limits from the bound on."""
        tables, limit = self.side(False).tables, self.bound + 1
        over = self.clock.part(0.5)
        while limit < 1.25 * self.peak and not over() and self.peak > self.bound:
            found = barriers(tables, limit, over, self.clock.spend)
            if found is not None:
                order = np.array(found)
                self.offer(order, "barriers")
                return order
            limit = int(limit * 1.03) + 1
        return None

    def _alternate(self, order: Array, origin: str) -> Array:
        """An order that is split at its worst firings and then brought below decreasing thresholds, forwards and
        backwards in time, until neither improves it.
        """
        backwards, idle = False, 0
        over = self.clock.part(0.5)
        peak, order, bound = uncross_order(self.side(False).cuts, order, over)
        self._raise(bound)
        self.offer(order, origin)
        while idle < 2 and not self._done:
            with self._within(0.5):
                order, lower = self._squeezed(order, peak, backwards, origin)
            idle = idle + 1 if lower >= peak else 0
            peak, backwards = lower, not backwards
        return order

    def _squeezed(self, order: Array, peak: int, backwards: bool, origin: str) -> tuple[Array, int]:
        """An order below the lowest threshold for which one is found, and its peak."""
        low, limit = self.bound - 1, self.bound
        while peak - low > max(1, _FINE * peak) and not self._done:
            found = self._below(order, limit, backwards)
            if found is None:
                low = max(limit, self.bound - 1)
            else:
                order, peak = found, self.offer(found, origin)
            limit = (low + peak) // 2
        return order, peak

    def _below(self, order: Array, limit: int, backwards: bool) -> Array | None:
        """An order below a threshold, by draining at its worst firings or through waypoints. The bound is raised if
        there is provably none.
        """
        side = self.side(backwards)
        turned = _turned(order) if backwards else order
        found: Array | None = None
        drained = follow_order(side.tables, turned.tolist(), limit, self._over, self.clock.spend)
        if drained is not None:
            found = np.array(drained)
        else:
            cuts = self._demanded(order, limit, 0.1) if self._demanding else self._cuts()
            if cuts is not None:
                found = search_waypoints(cuts[backwards], turned, limit, self._over, self._most)
        return _turned(found) if backwards and found is not None else found

    def _cuts(self) -> tuple[Cuts, ...]:
        return self.side(False).cuts, self.side(True).cuts

    def _demanded(self, order: Array, limit: int, share: float) -> tuple[Cuts, ...] | None:
        """The cuts of both directions with the dependences of all orders below a threshold; None, with a raised bound,
        if there is no such order.
        """
        both = self._cuts()
        if not both[0].exact:
            return both
        # dependences of orders below a higher threshold also hold for those below a lower one
        known = [one for one in self._known if one >= limit]
        demands = Demands(self._known[min(known)] if known else both, limit)
        demands.find(order, self.clock.part(share))
        if demands.refuted:
            self._raise(limit + 1)
            return None
        self._known[limit] = demands.cuts
        for old in sorted(self._known)[_KNOWN:]:
            del self._known[old]
        return demands.cuts

    def _refute(self, share: float) -> None:
        """Raise the bound by proofs that there are no orders below thresholds, the peak first."""
        over = self.clock.part(share)
        high, limit = self.peak, self.peak - 1
        while high - self.bound > _FINE * self.peak and not over() and not self._done:
            if self._demanded(self.best, limit, 0.3) is not None:
                high = limit
            limit = (self.bound + high) // 2

    def _cross(self, pool: list[Array], random: np.random.Generator) -> None:
        """Improve orders that go through a state of another order, or through a minimum state of a costly firing."""
        idle = 0
        while idle < _ROUNDS and not self._done:
            before = self.peak
            one = pool[int(random.integers(len(pool)))]
            mixed = self._mixed(one, pool, random)
            found = self._alternate(mixed, "crossing")
            pool.append(found)
            pool.sort(key=lambda order: int(evaluate(self.problem, order).max()))
            del pool[8:]
            idle = 0 if self.peak < before else idle + 1

    def _mixed(self, order: Array, pool: Sequence[Array], random: np.random.Generator) -> Array:
        for _ in range(int(random.integers(1, 4))):
            if random.random() < 0.5:
                other = pool[int(random.integers(len(pool)))]
                inside = np.zeros(self.problem.firings, bool)
                inside[other[: int(random.integers(len(other)))]] = True
            else:
                live = evaluate(self.problem, order)
                costly = order[live >= np.quantile(live, 0.8)]
                cut = self.side(False).cuts.of(int(random.choice(costly)))
                inside = self.problem.phase < cut.state[self.problem.actor]
            chosen = inside[order]
            order = np.concatenate([order[chosen], order[~chosen]])
        return order


def _turned(order: Array) -> Array:
    """The same order for the problem in the other direction of time."""
    return len(order) - 1 - order[::-1]


def _least_need(problem: Problem) -> int:
    """A lower bound for all orders: the need of a single firing, or the items that are never released."""
    kept = sum(int(g.size.sum()) for g in problem.items if not g.releasers.shape[1])
    start = sum(int(g.size.sum()) for g in problem.items if not g.claimers.shape[1])
    return max(int(problem.alone.max(initial=0)), kept, start) if problem.firings else 0


# The worst moment ---------------------------------------------------------------------------------


def uncross_order(
    cuts: Cuts, order: Array, over: Callable[[], bool], patience: int = 12
) -> tuple[int, Array, int]:
    """(peak, order, bound): the best order that results from splits at the worst firings, and the largest of the cuts
    computed for them, a lower bound for all orders.

    patience: consecutive splits without an improvement after which it ends.
    """
    problem = cuts.problem
    live = evaluate(problem, order)
    best, best_order, bound, tries = int(live.max()), order, 0, 0
    seen: set[int] = set()
    while tries < patience and not over():
        worst = _worst(order, live, seen)
        if worst < 0:
            break
        cut = cuts.of(worst)
        bound = max(bound, cut.value)
        if bound >= best:
            break
        seen.add(worst)
        order, live = _split(problem, order, worst, cut.state)
        peak = int(live.max())
        tries += 1
        if peak < best:
            best, best_order, tries = peak, order, 0
            seen.clear()
    return best, best_order, bound


def _worst(order: Array, live: Array, seen: set[int]) -> int:
    """The firing with most bytes alive without a split since the last gain; -1 if there is none."""
    for at in np.argsort(-live, kind="stable")[: len(seen) + 1].tolist():
        if int(order[at]) not in seen:
            return int(order[at])
    return -1


def _split(problem: Problem, order: Array, worst: int, state: Array) -> tuple[Array, Array]:
    """The order through a state, with the worst firing right after it or at its place, whichever has the lower peak; and
    its bytes alive.
    """
    inside = (problem.phase < state[problem.actor])[order]
    early, late = order[inside], order[~inside]
    rest = late[late != worst]
    choices = [np.concatenate([early, late]), np.concatenate([early, [worst], rest])]
    found = [(evaluate(problem, choice), choice) for choice in choices]
    live, chosen = min(found, key=lambda one: int(one[0].max()))
    return chosen, live
