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
from functools import cached_property

import numpy as np

from schedules.peak.flow import SINK, SOURCE, least_cut
from schedules.peak.problem import Problem

Array = np.ndarray

_ENDLESS = 1 << 30
"""Capacity of arcs that must not be cut; flows stay below it, so that 32 bits hold all sums."""

_IN, _OUT, _FREE = SOURCE, SINK, 2

_KEPT = 4096
"""Cuts between states that are kept, as a search asks for the same ones below several thresholds."""

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
        self._known: dict[int, Cut] = {}
        self._between: dict[tuple[int, bytes], tuple[int, Array]] = {}
        self._paid: set[int] = set()
        sizes = [group.size for group in problem.items]
        total = sum(int(size.sum()) for size in sizes)
        divisor = int(np.gcd.reduce([np.gcd.reduce(size) for size in sizes if len(size)] or [1]))
        # capacities in this unit are rounded down: a cut of them is never above the real one
        coarse = -(-total // (max(divisor, 1) * (_ENDLESS - 1))) or 1
        self._unit = max(divisor, 1) * coarse
        self.exact = coarse == 1

    @cached_property
    def _graph(self) -> _Graph:
        return _Graph(self.problem, self._unit, *_waits(self.problem))

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
        other._between = {}
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
        self._graph = self._graph.ordered(late, early)
        self._known, self._paid, self._between = {}, set(), {}

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
        node = np.full(problem.firings, _FREE, np.int8)
        node[(self.ancestors[:, actor] > phase) | ~within] = _OUT
        node[(problem.phase < done[problem.actor]) | inside] = _IN
        key = firing, node.tobytes()
        if key not in self._between:
            if len(self._between) == _KEPT:
                self._between.clear()
            value, state = self._graph.least_cut(node, firing)
            self._between[key] = value + int(problem.extra[firing]), state
        value, state = self._between[key]
        return value, state.copy()


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
    pairs = np.sort(np.concatenate(late) * problem.firings + np.concatenate(early))
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    return pairs // problem.firings, pairs % problem.firings


class _Graph:
    """The flow network of a problem. Nodes are 0 inside the state, 1 outside, the firings, and one for each item of several
    claimers, inside if any of them is, or of several releasers, inside only if all of them are. An arc with the bytes of
    each item leads from its claimer to its releaser, and an endless one from each firing to those that it waits for.

    unit: bytes of a unit of flow. late, early: pairs (firing, firing that it waits for).
    """

    def __init__(self, problem: Problem, unit: int, late: Array, early: Array) -> None:
        self._unit, self._firings, self._nodes = unit, problem.firings, _FREE + problem.firings
        self._joined = _Joined(_IN), _Joined(_OUT)
        ties = [
            (self._one(g.claimers, _IN), self._one(g.releasers, _OUT), g.size)
            for g in problem.items
        ] or [(np.zeros(0, np.int64),) * 3]
        self._tail, self._head, self._size = (np.concatenate(c) for c in zip(*ties, strict=True))
        self._flow = self._size // unit
        any_of, all_of = (joined.pairs() for joined in self._joined)
        self._late = np.concatenate([any_of[1], all_of[0], _FREE + late])
        self._early = np.concatenate([any_of[0], all_of[1], _FREE + early])
        self._lay_out()

    def _one(self, firings: Array, settles: int) -> Array:
        """The node that each row of firings claims or releases by: `settles` if there are none."""
        count, width = firings.shape
        if width < 2:
            return _FREE + firings[:, 0] if width else np.full(count, settles)
        nodes = np.arange(self._nodes, self._nodes + count)
        self._nodes += count
        self._joined[settles].add(nodes, _FREE + firings)
        return nodes

    def ordered(self, late: int, early: int) -> _Graph:
        """A copy in which a firing also waits for another one."""
        other = copy(self)
        other._late = np.append(self._late, _FREE + late)
        other._early = np.append(self._early, _FREE + early)
        other._lay_out()
        return other

    def _lay_out(self) -> None:
        """All arcs with their reverse, sorted by their ends, so that no solver needs to add any."""
        tail = np.concatenate([self._late, self._tail])
        head = np.concatenate([self._early, self._head])
        size = np.concatenate([np.full(len(self._late), _ENDLESS), self._flow])
        inner = (tail > _OUT) & (head > _OUT) & (tail != head)
        tail, head, size = tail[inner], head[inner], size[inner]
        place = np.concatenate([tail * self._nodes + head, head * self._nodes + tail])
        where, which = np.unique(place, return_inverse=True)
        found = np.bincount(which[: len(tail)], size, len(where))
        self._capacity = np.minimum(found, _ENDLESS).astype(np.int32)
        self._from, self._to = where // self._nodes, where % self._nodes

    def least_cut(self, node: Array, firing: int) -> tuple[int, Array]:
        """(bytes, state) of the minimum cut, the smallest one, as a mask of firings.

        node: _IN, _OUT or _FREE for each firing. firing: starts in that state, so that its claims are inside.
        """
        at = np.empty(self._nodes, np.int64)
        at[:_FREE], at[_FREE : _FREE + self._firings] = (_IN, _OUT), node
        own = _FREE + firing
        at[own], before = _IN, at[own]
        self._joined[_IN].settle(at)
        at[own] = before
        self._joined[_OUT].settle(at)
        free = at >= _FREE
        at[free] = np.arange(_FREE, _FREE + np.count_nonzero(free))
        head = at[self._head]
        at[own] = _IN
        tail = at[self._tail]
        at[own] = before
        sure = int(self._size[(tail == _IN) & (head == _OUT)].sum())
        count = max(_FREE, int(at.max(initial=0)) + 1)
        begins, ends = (tail == _IN) & (head >= _FREE), (tail >= _FREE) & (head == _OUT)
        source = np.bincount(head[begins], self._flow[begins], count)
        sink = np.bincount(tail[ends], self._flow[ends], count)
        first, last = np.flatnonzero(source), np.flatnonzero(sink)
        state = node == _IN
        if not len(first):
            return sure, state
        inner = np.flatnonzero(free[self._from] & free[self._to])
        none, one = np.zeros(len(first), np.int64), np.ones(len(last), np.int64)
        tails = np.concatenate([none, first, last, one, at[self._from[inner]]])
        heads = np.concatenate([first, none, one, last, at[self._to[inner]]])
        sizes = np.concatenate([source[first], none, sink[last], one - 1, self._capacity[inner]])
        order = (tails * count + heads).argsort(kind="stable")
        both, columns = sizes[order].astype(np.int32), heads[order].astype(np.int32)
        rows = np.append(0, np.cumsum(np.bincount(tails, minlength=count))).astype(np.int32)
        value, inside = least_cut(both, columns, rows)
        state |= inside[at[_FREE : _FREE + self._firings]] & (node == _FREE)
        return sure + value * self._unit, state


class _Joined:
    """Nodes that are inside if any of several are (`settles` is _IN), or outside if any are (_OUT)."""

    def __init__(self, settles: int) -> None:
        self._settles = settles
        self._nodes = self._members = self._starts = np.zeros(0, np.int64)

    def add(self, nodes: Array, members: Array) -> None:
        """Add nodes with the members of each."""
        count, width = members.shape
        starts = len(self._members) + width * np.arange(count)
        self._nodes = np.concatenate([self._nodes, nodes])
        self._starts = np.concatenate([self._starts, starts])
        self._members = np.concatenate([self._members, members.ravel()])

    def pairs(self) -> tuple[Array, Array]:
        """(node, member) for each member of each node."""
        widths = np.diff(self._starts, append=len(self._members))
        return np.repeat(self._nodes, widths), self._members

    def settle(self, at: Array) -> None:
        """Set the nodes that follow from their members, and all others to _FREE."""
        if len(self._nodes):
            members = at[self._members]
            settled = np.logical_or.reduceat(members == self._settles, self._starts)
            free = np.logical_or.reduceat(members >= _FREE, self._starts)
            others = np.where(free, _FREE, _OUT - self._settles)
            at[self._nodes] = np.where(settled, self._settles, others)


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
