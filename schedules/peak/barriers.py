"""Where should all layers complete before the next ones start? A dynamic program over cuts.

The actors in their order are cut into segments. A segment is *pulled*: its last actor fires as soon as possible, and
all others only when they are needed; a segment ends when all its actors are complete. So no later block holds rows
while an earlier one is still full. The cuts minimise the largest peak of a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

import numpy as np

from schedules.peak.problem import Problem, evaluate

Array = np.ndarray


class Tables:
    """A problem as lists, for loops over firings.

    waits: the pairs (source, counts) of each actor. claim, free: bytes of the items that a firing alone claims, or
    releases. extra: bytes that it takes for itself. shared_claims, shared_frees: items of several claimers, or
    releasers, by firing.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.phases = list(problem.phases)
        self.base: list[int] = problem.base.tolist()
        self.actor: list[int] = problem.actor.tolist()
        self.waits: list[list[tuple[int, list[int]]]] = [[] for _ in self.phases]
        for link in problem.links:
            self.waits[link.target].append((link.source, link.counts.tolist()))
        for found in self.waits:
            found.sort(reverse=True)
        count = problem.firings
        self.size: list[int] = []
        self.claimers: list[list[int]] = []
        self.releasers: list[list[int]] = []
        self.shared_claims: dict[int, list[int]] = {}
        self.shared_frees: dict[int, list[int]] = {}
        self.start = 0
        claim, free = np.zeros(count), np.zeros(count)
        for group in problem.items:
            k, m = group.claimers.shape[1], group.releasers.shape[1]
            if k == 0:
                self.start += int(group.size.sum())
            if k == 1:
                claim += np.bincount(group.claimers[:, 0], group.size, count)
            if m == 1:
                free += np.bincount(group.releasers[:, 0], group.size, count)
            if k > 1 or m > 1:
                self._share(group.size.tolist(), group.claimers.tolist(), group.releasers.tolist())
        self.claim: list[int] = claim.astype(np.int64).tolist()
        self.free: list[int] = free.astype(np.int64).tolist()
        self.extra: list[int] = problem.extra.tolist()

    def _share(
        self, sizes: list[int], claimers: list[list[int]], releasers: list[list[int]]
    ) -> None:
        for size, first, last in zip(sizes, claimers, releasers, strict=True):
            item = len(self.size)
            self.size.append(size)
            self.claimers.append(first)
            self.releasers.append(last)
            for firing in first if len(first) > 1 else ():
                self.shared_claims.setdefault(firing, []).append(item)
            for firing in last if len(last) > 1 else ():
                self.shared_frees.setdefault(firing, []).append(item)

    def newly_claimed(self, firing: int, done: Sequence[int]) -> int:
        """Bytes of shared items that a firing is the first to claim, after these phases."""
        return sum(
            self.size[item]
            for item in self.shared_claims.get(firing, ())
            if not any(self._is_done(one, done) for one in self.claimers[item])
        )

    def newly_free(self, firing: int, done: Sequence[int]) -> int:
        """Bytes of shared items that a firing is the last to release, after these phases."""
        return sum(
            self.size[item]
            for item in self.shared_frees.get(firing, ())
            if all(one == firing or self._is_done(one, done) for one in self.releasers[item])
        )

    def _is_done(self, firing: int, done: Sequence[int]) -> bool:
        actor = self.actor[firing]
        return firing - self.base[actor] < done[actor]


class State:
    """A set of completed firings: phases by actor, bytes alive, and the releasers that shared items wait for."""

    __slots__ = ("claimed", "done", "live", "tables", "waiting")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.done = [0] * len(tables.phases)
        self.live = tables.start
        self.claimed = [False] * len(tables.size)
        self.waiting = [len(found) for found in tables.releasers]

    def copy(self) -> State:
        """A copy of the state."""
        other = State.__new__(State)
        other.tables, other.live = self.tables, self.live
        other.done, other.claimed, other.waiting = self.done[:], self.claimed[:], self.waiting[:]
        return other

    def fire(self, firing: int) -> int:
        """Execute a firing; the bytes alive during it."""
        tables = self.tables
        live = self.live + tables.claim[firing]
        for item in tables.shared_claims.get(firing, ()):
            if not self.claimed[item]:
                self.claimed[item] = True
                live += tables.size[item]
        during = live + tables.extra[firing]
        live -= tables.free[firing]
        for item in tables.shared_frees.get(firing, ()):
            self.waiting[item] -= 1
            if not self.waiting[item]:
                live -= tables.size[item]
        self.live = live
        self.done[tables.actor[firing]] += 1
        return during


def pull_actor(state: State, actor: int, order: list[int]) -> Iterator[int]:
    """Execute the remaining phases of an actor and all firings that they wait for, and no others; the bytes alive during
    each firing.

    order: where the firings are appended.
    """
    waits, base, done, fire = state.tables.waits, state.tables.base, state.done, state.fire
    stack = [(actor, state.tables.phases[actor], iter(waits[actor]))]
    while stack:
        one, goal, left = stack[-1]
        phase = done[one]
        if phase >= goal:
            stack.pop()
            continue
        for source, counts in left:  # what a phase waits for stays done
            if done[source] < counts[phase]:
                stack.append((source, counts[phase], iter(waits[source])))
                break
        else:
            stack[-1] = one, goal, iter(waits[one])
            firing = base[one] + phase
            order.append(firing)
            yield fire(firing)


def barriers(
    tables: Tables, limit: float, over: Callable[[], bool], spend: Callable[[float], None]
) -> list[int] | None:
    """The order of the best cuts whose peak is below `limit`; None if there are none, or if the time is over.

    spend: is called with the microseconds that the search takes.
    """
    problem, count = tables.problem, len(tables.phases)
    layers = np.arange(problem.firings)
    live = evaluate(problem, layers) - problem.extra
    after = _between(problem, live)
    cuts = [0, *(at for at in range(1, count) if after[at] < limit), count]
    best: list[float] = [inf] * len(cuts)
    best[0] = 0
    path: list[tuple[int, list[int]]] = [(0, [])] * len(cuts)
    state, at = State(tables), 0
    for i, cut in enumerate(cuts[:-1]):
        while at < cut:
            for firing in range(tables.base[at], tables.base[at + 1]):
                state.fire(firing)
            at += 1
        if best[i] >= limit:
            continue
        for j in range(i + 1, len(cuts)):
            most = min(best[j], limit)
            if max(best[i], after[cuts[j]]) >= most:
                continue
            if over():
                return None
            found, fired = _segment(state.copy(), cut, cuts[j], most - 1)
            spend(20 + 1.5 * fired)
            if found is not None:
                best[j], path[j] = max(best[i], found[0]), (i, found[1])
    if best[-1] >= limit:
        return None
    pieces, j = [], len(cuts) - 1
    while j:
        i, piece = path[j]
        pieces.append(piece)
        j = i
    return [firing for piece in reversed(pieces) for firing in piece]


def _segment(
    state: State, begin: int, end: int, limit: float
) -> tuple[tuple[float, list[int]] | None, int]:
    """(peak, order) of the pulled actors from `begin` to `end`, None if the peak exceeds `limit`; and the number of
    firings that were executed.
    """
    order: list[int] = []
    peak: float = 0
    for actor in range(end - 1, begin - 1, -1):
        for during in pull_actor(state, actor, order):
            if during > peak:
                peak = during
                if peak > limit:
                    return None, len(order)
    return (peak, order), len(order)


def _between(problem: Problem, live: Array) -> list[float]:
    """Bytes alive at each boundary, when exactly the actors before it are complete."""
    claimed = np.zeros(problem.firings)
    for group in problem.items:
        if group.claimers.shape[1]:
            claimed += np.bincount(group.claimers.min(axis=1), group.size, problem.firings)
    return np.append(live - claimed, 0)[problem.base].tolist()  # an actor may have no firings
