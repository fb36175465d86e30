"""What is a lower bound of the peak of all orders? A minimum cut for each firing.

A firing starts in a state: a set of completed firings that contains all that it waits for, and neither itself nor
firings that wait for it. The least number of bytes alive in such a state is a minimum cut of a graph of firings and
items (an item is cut if a claimer is complete and a releaser is not). Every order keeps these bytes, those that the
firing claims and those that it takes for itself alive; the largest sum over all firings is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from schedules.peak.problem import Problem

__all__ = ["Cut", "Cuts", "lower_bound"]

Array = np.ndarray

_ENDLESS = 1 << 30
"""Capacity of arcs that must not be cut; flows stay below it, so that 32 bits hold all sums."""

_IN, _OUT = 0, 1

_RECENT = 6
"""Cuts whose states are tried for another firing before its own cut is computed."""


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """The least bytes alive during a firing, and the smallest state that attains them.

    value: bytes during the firing. state: phases of each actor that are complete before it, (actors,).
    """

    firing: int
    value: int
    state: Array


class Cuts:
    """Minimum cuts of a problem, which are computed on request and kept.

    ancestors: those of the problem, and those that `demand` added. exact: whether no byte is lost by rounding, so that
    the states of cuts are minimal.
    """

    def __init__(self, problem: Problem, spend: Callable[[float], None] = lambda _: None) -> None:
        """spend: is called with the time of a cut, in microseconds of a machine of 2024."""
        self.problem, self.spend = problem, spend
        self.ancestors = problem.ancestors
        self.tightened = False
        self._waits = _waits(problem)
        self._known: dict[int, Cut] = {}
        self._paid: set[int] = set()
        sizes = [group.size for group in problem.items]
        total = sum(int(size.sum()) for size in sizes)
        divisor = int(np.gcd.reduce([np.gcd.reduce(size) for size in sizes if len(size)] or [1]))
        # capacities in this unit are rounded down: a cut of them is never above the real one
        coarse = -(-total // (max(divisor, 1) * (_ENDLESS - 1))) or 1
        self._unit = max(divisor, 1) * coarse
        self.exact = coarse == 1

    def of(self, firing: int) -> Cut:
        """The cut of a firing."""
        found = self._known.get(firing)
        if found is None:
            self._pay(firing)
            found = self._known[firing] = self._made(firing)
        return found

    def _pay(self, firing: int) -> None:
        """Count the time of a cut once, also if the cut turns out not to be needed, so that the clock is the same."""
        if firing not in self._paid:
            self._paid.add(firing)
            self.spend(_cost(self.problem))

    def at_most(self, firing: int, limit: int) -> bool:
        """Whether the cut of a firing is known to be at most `limit` bytes without computing it: the state of a cut
        nearby, with all that the firing waits for and without firings that wait for it, keeps no more alive.
        """
        if firing in self._known:
            return self._known[firing].value <= limit
        problem = self.problem
        actor, phase = int(problem.actor[firing]), int(problem.phase[firing])
        tried = list(self._known.values())[-_RECENT:]
        same = [cut for cut in self._known.values() if problem.actor[cut.firing] == actor]
        if same:
            tried.append(min(same, key=lambda cut: abs(cut.firing - firing)))
        if not tried:
            return False
        waits = self.ancestors[firing].copy()
        waits[actor] = phase
        without = problem.actor[self.ancestors[:, actor] <= phase]
        before = np.bincount(without, minlength=len(waits))
        states = np.minimum(np.maximum(np.stack([cut.state for cut in tried]), waits), before)
        done = problem.phase < states[:, problem.actor]
        started = done.copy()
        started[:, firing] = True
        alive = np.full(len(tried), problem.extra[firing])
        for group in problem.items:
            held = np.ones((len(tried), len(group.size)), bool)
            if group.claimers.shape[1]:
                held = started[:, group.claimers].any(axis=2)
            if group.releasers.shape[1]:
                held &= ~done[:, group.releasers].all(axis=2)
            alive += held @ group.size
        if alive.min() > limit:
            return False
        self._pay(firing)
        return True

    def _made(self, firing: int) -> Cut:
        nothing = np.zeros(self.problem.firings, bool)
        value, chosen = self._cut(firing, nothing, ~nothing)
        actors = self.problem.actor[chosen]
        return Cut(firing, value, np.bincount(actors, minlength=len(self.problem.phases)))

    def free(self) -> Cuts:
        """A copy of the cuts, for further demands."""
        other = copy(self)
        other.ancestors, other._known, other._paid = self.ancestors.copy(), {}, set()
        return other

    def precedes(self, early: int, late: int) -> bool:
        """Whether `late` waits for `early`, or equals it."""
        actor = self.problem.actor[early]
        return bool(self.ancestors[late, actor] > self.problem.phase[early])

    def demand(self, early: int, late: int) -> None:
        """Let `late` also wait for `early` in all further cuts; `early` must not wait for `late`."""
        self.tightened = True
        table = self.ancestors
        after = table[:, self.problem.actor[late]] > self.problem.phase[late]
        table[after] = np.maximum(table[after], table[early])
        self._waits = np.append(self._waits[0], late), np.append(self._waits[1], early)
        self._known, self._paid = {}, set()

    def obeying(self, order: Array) -> Array:
        """The order with firings delayed until all firings that they wait for are complete."""
        problem = self.problem
        position = np.empty(problem.firings, np.int64)
        position[order] = np.arange(problem.firings)
        latest = position.copy()
        for actor, base in enumerate(problem.base[:-1].tolist()):
            waits = self.ancestors[:, actor] > 0
            before = base + self.ancestors[waits, actor] - 1
            latest[waits] = np.maximum(latest[waits], position[before])
        return np.lexsort((self.ancestors.sum(axis=1), latest))

    def between(self, firing: int, inside: Array, within: Array) -> tuple[int, Array]:
        """(bytes, state) of the minimum cut of a firing among the states that contain `inside` and are part of `within`,
        as masks (F,). `firing` is in neither `inside` nor outside of `within`, which must contain all that it waits for.
        """
        self.spend(_cost(self.problem))
        return self._cut(firing, inside, within)

    def _cut(self, firing: int, inside: Array, within: Array) -> tuple[int, Array]:
        problem = self.problem
        actor, phase = int(problem.actor[firing]), int(problem.phase[firing])
        done = self.ancestors[firing].copy()
        done[actor] = phase
        node = np.full(problem.firings, -1)
        node[(self.ancestors[:, actor] > phase) | ~within] = _OUT
        node[(problem.phase < done[problem.actor]) | inside] = _IN
        free = np.flatnonzero(node < 0)
        node[free] = np.arange(2, 2 + len(free))
        graph = _Graph(2 + len(free), self._unit)
        graph.order(node[self._waits[0]], node[self._waits[1]])
        starting = node.copy()
        starting[firing] = _IN  # it claims when it starts, and releases when it ends
        for group in problem.items:
            claimed = graph.any_of(starting[group.claimers])
            graph.tie(claimed, graph.all_of(node[group.releasers]), group.size)
        value, reached = graph.least_cut()
        state = node == _IN
        state[free] = reached[2 : 2 + len(free)]
        return value + int(problem.extra[firing]), state


def _cost(problem: Problem) -> float:
    """Microseconds of a cut on a machine of 2024."""
    return 500 + 0.6 * problem.firings + 7e-5 * problem.firings**2


def _waits(problem: Problem) -> tuple[Array, Array]:
    """Pairs (firing, firing that it waits for) from which all others follow."""
    base = problem.base
    inner = np.flatnonzero(problem.phase > 0)
    late, early = [inner], [inner - 1]
    for link in problem.links:
        new = np.diff(link.counts, prepend=0) > 0
        late.append(base[link.target] + np.flatnonzero(new))
        early.append(base[link.source] + link.counts[new] - 1)
    pairs = np.unique(np.concatenate(late) * problem.firings + np.concatenate(early))
    return pairs // problem.firings, pairs % problem.firings


class _Graph:
    """A flow network; node 0 is inside the state, node 1 outside."""

    def __init__(self, nodes: int, unit: int) -> None:
        self._nodes, self._unit = nodes, unit
        self._arcs: list[tuple[Array, Array, Array]] = []
        self._sure = 0  # bytes that are in every cut

    def tie(self, tail: Array, head: Array, size: Array) -> None:
        """Add bytes that are alive if `tail` is inside and `head` outside."""
        self._sure += int(size[(tail == _IN) & (head == _OUT)].sum())
        self._add(tail, head, size // self._unit)

    def order(self, late: Array, early: Array) -> None:
        """If `late` is inside, `early` is inside too."""
        self._add(late, early, np.full(len(late), _ENDLESS))

    def _add(self, tail: Array, head: Array, capacity: Array) -> None:
        real = (tail != _OUT) & (head != _IN) & ((tail != _IN) | (head != _OUT)) & (tail != head)
        self._arcs.append((tail[real], head[real], capacity[real]))

    def any_of(self, nodes: Array) -> Array:
        """For each row of nodes a node that is inside if any of them is; inside for an empty row."""
        return self._joined(nodes, _IN, _OUT)

    def all_of(self, nodes: Array) -> Array:
        """For each row of nodes a node that is inside only if all of them are; outside for an empty row."""
        return self._joined(nodes, _OUT, _IN)

    def _joined(self, nodes: Array, settles: int, neutral: int) -> Array:
        count, width = nodes.shape
        if width == 0:
            return np.full(count, settles)
        if width == 1:
            return nodes[:, 0]
        found = np.where((nodes == settles).any(axis=1), settles, neutral)
        rows = np.flatnonzero((found == neutral) & (nodes != neutral).any(axis=1))
        found[rows] = np.arange(self._nodes, self._nodes + len(rows))
        self._nodes += len(rows)
        for column in nodes[rows].T:
            own = found[rows]
            self.order(column, own) if settles == _IN else self.order(own, column)
        return found

    def least_cut(self) -> tuple[int, Array]:
        """Bytes of the minimum cut, and whether each node is inside in the smallest one."""
        tail, head, capacity = (np.concatenate(c) for c in zip(*self._arcs, strict=True))
        inside = np.zeros(self._nodes, bool)
        inside[_IN] = True
        if not len(tail):
            return self._sure, inside
        # every arc with its reverse, so that scipy adds none and flows have the layout of capacities
        count = self._nodes
        place = np.concatenate([tail * count + head, head * count + tail])
        where, which = np.unique(place, return_inverse=True)
        both = np.bincount(which[: len(tail)], capacity, len(where)).astype(np.int32)
        rows = np.searchsorted(where, np.arange(count + 1) * count).astype(np.int32)
        columns = (where % count).astype(np.int32)
        arcs = csr_array((both, columns, rows), shape=(count, count))
        flow = maximum_flow(arcs, _IN, _OUT)
        moved = flow.flow
        if len(moved.data) == len(both):
            left = np.flatnonzero(both > moved.data)
            rows = np.searchsorted(left, rows).astype(np.int32)
            ones = np.ones(len(left))
            passable = csr_array((ones, columns[left], rows), shape=(count, count))
        else:
            passable = csr_array(arcs - moved > 0)
        inside[breadth_first_order(passable, _IN, return_predecessors=False)] = True
        return self._sure + int(flow.flow_value) * self._unit, inside


def lower_bound(cuts: Cuts, order: Array, live: Array, known: int, over: Callable[[], bool]) -> int:
    """A lower bound of the peak of all orders, `known` or better.

    order, live: any order and its bytes alive, which no cut of a firing exceeds. over: whether the time is over.
    """
    seen = np.zeros(len(cuts.problem.phases), np.int64)
    worst = np.argsort(-live, kind="stable")
    # firings of one actor have similar cuts: first the worst firing of each, then the next ...
    turn = np.empty(len(worst), np.int64)
    for at, actor in enumerate(cuts.problem.actor[order[worst]].tolist()):
        turn[at] = seen[actor]
        seen[actor] += 1
    for at in worst[np.argsort(turn.clip(max=4), kind="stable")].tolist():
        if over():
            break
        firing = int(order[at])
        if live[at] > known and not cuts.at_most(firing, known):
            known = max(known, cuts.of(firing).value)
    return known
