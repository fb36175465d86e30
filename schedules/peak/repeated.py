"""Which order repeats? In the middle of a long frame actors fire in fixed shares, and one period of an order, repeated over all
integers and restricted to the firings that exist, is an order of every longer frame.

A period is searched for the least peak like a frame: between the state at its start and the same state a period later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from typing import Literal

import numpy as np

from csdfgen.errors import ScheduleError
from schedules.peak.clock import Effort
from schedules.peak.problem import Items, Link, Problem, evaluate
from schedules.peak.search import search

Array = np.ndarray

_PATTERN = 64
"""Most firings after which the waits of an actor repeat."""

_SHIFTS = 8
"""Starts that are tried within the work of a firing of an actor on average."""

_ROUNDS = 4
"""Most starts of the period from which the least peak is searched."""


@dataclass(frozen=True, eq=False)
class Repeated:
    """An order over all integers. before: firings of each actor before the period at 0. word: the actors that fire in a
    period, in order. shares: firings of each actor in a period, 0 for those that fire once: in front of all others if `before`
    counts it, else after all others.
    """

    before: Array
    word: Array
    shares: Array

    @property
    def length(self) -> int:
        """Firings of a period."""
        return len(self.word)

    @property
    def front(self) -> Array:
        """Of each actor whether it fires once, in front of all others."""
        return (self.shares == 0) & (self.before > 0)

    def times(self, actor: int, firings: Array) -> Array:
        """When an actor fires, counted in firings of all actors over all integers."""
        period, place = np.divmod(firings - self.before[actor], self.shares[actor])
        return period * self.length + np.flatnonzero(self.word == actor)[place]

    def rotated(self, count: int) -> Repeated:
        """The same order, whose period starts `count` firings later."""
        count %= self.length
        first = np.bincount(self.word[:count], minlength=len(self.shares))
        return replace(self, before=self.before + first, word=np.roll(self.word, -count))

    def moved(self, periods: int) -> Repeated:
        """The same order, counted from a period so much later."""
        return replace(self, before=self.before + periods * self.shares)

    def restricted(self, phases: Sequence[int]) -> Array:
        """The order of the firings that exist, numbered by actors with so many phases."""
        base = np.cumsum([0, *phases])
        front, inside, after = (
            np.flatnonzero(one).tolist()
            for one in (self.front, self.shares, (self.shares == 0) & ~self.front)
        )
        at = [self.times(k, np.arange(phases[k])) for k in inside]
        firings = [np.arange(base[k], base[k + 1]) for k in (*inside, *front, *after)]
        order = np.concatenate(firings[: len(inside)])[
            np.argsort(np.concatenate(at), kind="stable")
        ]
        ends = firings[len(inside) :]
        return np.concatenate([*ends[: len(front)], order, *ends[len(front) :]])


def find_shares(phases: Mapping[str, int], links: Iterable[Link]) -> Array:
    """Firings of each actor in the shortest period, 0 for actors with one phase that only such actors wait for, or that wait for
    such actors alone. phases: by the names of actors, in order. Raises ScheduleError for actors whose waits do not repeat.
    """
    names, counts = [*phases], [*phases.values()]
    links = tuple(links)
    fronts, ends = find_once(counts, links)
    once = fronts | ends
    near: dict[int, list[tuple[int, Fraction]]] = {k: [] for k in range(len(phases))}
    for link in links:
        if not once & {link.source, link.target}:
            rate = _rate(link)
            if rate is None:
                how = "in no pattern that repeats" if len(link.counts) > 1 else "as a whole"
                raise ScheduleError(
                    f"'{names[link.target]}' waits for '{names[link.source]}' {how}"
                )
            near[link.source].append((link.target, 1 / rate))
            near[link.target].append((link.source, rate))
    first = min(set(near) - once, default=0)
    found, waiting = {first: Fraction(1)}, deque([first])
    while waiting:
        actor = waiting.popleft()
        for other, rate in near[actor]:
            if other not in found:
                waiting.append(other)
            if found.setdefault(other, found[actor] * rate) != found[actor] * rate:
                raise ScheduleError(
                    f"'{names[actor]}' and '{names[other]}' fire at rates that do not fit together"
                )
    if len(found) + len(once) < len(phases):
        apart = next(name for k, name in enumerate(names) if k not in {*found, *once})
        raise ScheduleError(f"'{apart}' and '{names[first]}' have no period together")
    scale = lcm(*(rate.denominator for rate in found.values()))
    whole = {actor: int(rate * scale) for actor, rate in found.items()}
    least = gcd(*whole.values())
    return np.array([whole.get(k, 0) // least for k in range(len(phases))], np.int64)


def find_once(counts: Sequence[int], links: Iterable[Link]) -> tuple[set[int], set[int]]:
    """Actors with one phase: (those that wait for such actors alone, those that only such actors wait for, which are no others).
    Actors that wait come behind those that they wait for.
    """
    near: tuple[dict[int, set[int]], ...] = ({}, {})
    for link in links:
        near[0].setdefault(link.target, set()).add(link.source)
        near[1].setdefault(link.source, set()).add(link.target)
    found: tuple[set[int], set[int]] = (set(), set())
    for one, others, order in zip(
        found, near, (range(len(counts)), reversed(range(len(counts)))), strict=True
    ):
        for k in order:
            if counts[k] == 1 and others.get(k, set()) <= one:
                one.add(k)
    return found[0] - found[1], found[1]


def _rate(link: Link) -> Fraction | None:
    """Firings of the source a firing of the target, in the middle of the frame; None if they do not repeat."""
    count = len(link.counts)
    middle = link.counts[count // 4 : count - count // 4]
    for step in range(1, min(_PATTERN, len(middle) // 3) + 1):
        more = middle[step:] - middle[:-step]
        if more[0] > 0 and (more == more[0]).all():
            return Fraction(int(more[0]), step)
    return None


def find_repeated(problem: Problem, order: Array, shares: Array) -> Repeated:
    """The period in the middle of an order. Raises ScheduleError if it does not repeat there."""
    actors = problem.actor[order]
    fronts, _ = find_once(problem.phases, problem.links)
    word = actors[shares[actors] > 0]
    length = int(shares.sum())
    same = np.zeros(1, bool) if len(word) <= length else word[:-length] == word[length:]
    edges = np.concatenate([[-1], np.flatnonzero(~same), [len(same)]])
    for at in np.argsort(np.diff(edges), kind="stable")[::-1]:
        start, stop = int(edges[at]) + 1, int(edges[at + 1])
        if stop - start < length:
            raise ScheduleError(
                f"the order of {len(word):,} firings repeats for {stop - start:,}, less than a period of {length:,}"
            )
        start += (stop - start - length) // 2
        before = np.bincount([*fronts, *word[:start].tolist()], minlength=len(shares))
        found = Repeated(before, word[start : start + length], shares)
        if (np.bincount(found.word, minlength=len(shares)) == shares).all():
            break  # firings of some actors alone repeat, too
    twice = np.tile(found.word, 2).astype(">i4").tobytes()  # in which bytes compare as numbers do
    first = min(range(length), key=lambda k: twice[4 * k : 4 * (k + length)])
    return found.rotated(first)  # the same wherever the middle is


def middle(problem: Problem, order: Repeated) -> Repeated:
    """The order counted from a period in the middle of the frame, all of whose firings exist. Raises ScheduleError for a frame
    that is shorter.
    """
    used = order.shares > 0
    shares, before = order.shares[used], order.before[used]
    phases = np.array(problem.phases)[used]
    first, end = int((-(before // shares)).max()), int(((phases - before) // shares).min())
    if end - first < 1:
        raise ScheduleError(f"a period of {order.length:,} firings is longer than the frame")
    return order.moved((first + end - 1) // 2)


def cut_period(problem: Problem, order: Repeated) -> Problem:
    """The firings of the period at 0, with the items that are alive in it."""
    before, shares = order.before, order.shares
    base = np.concatenate([[0], np.cumsum(shares)])
    links = [
        Link(one.source, one.target, np.maximum(counts - before[one.source], 0))
        for one in problem.links
        if shares[one.target]
        for counts in [one.counts[before[one.target] :][: shares[one.target]]]
    ]
    extra = [problem.extra[problem.base[k] + before[k] :][:n] for k, n in enumerate(shares)]

    def inside(firings: Array) -> tuple[Array, Array]:
        """Their numbers in the period; -1 for those before it, 1 for those behind it, else 0."""
        actors = problem.actor[firings]
        at = problem.phase[firings] - before[actors]
        return base[actors] + at, np.where(at < 0, -1, np.where(at < shares[actors], 0, 1))

    items = []
    for group in problem.items:
        (claimers, early), (releasers, late) = inside(group.claimers), inside(group.releasers)
        alive = ~(early > 0).all(axis=1) if early.shape[1] else np.ones(len(group.size), bool)
        alive &= (late >= 0).any(axis=1) if late.shape[1] else alive
        for k in np.flatnonzero(alive).tolist():
            born = () if (early[k] < 0).any() else claimers[k][early[k] == 0]
            gone = () if (late[k] > 0).any() else releasers[k][late[k] == 0]
            items.append(Items.of(group.size[k], born, gone))
    return Problem.of(shares.tolist(), links, items, np.concatenate(extra))


def number_word(order: Repeated) -> Array:
    """The word as firings of `cut_period`."""
    base = np.concatenate([[0], np.cumsum(order.shares)])
    found = np.empty(order.length, np.int64)
    for actor in np.flatnonzero(order.shares):
        found[order.word == actor] = base[actor] + np.arange(order.shares[actor])
    return found


def spread_firings(order: Repeated, actor: int, work: Array) -> Repeated:
    """The order with the firings of an actor that waits for no other moved ahead, evenly among the work of the others, so that
    the most work between two of them is little. work: of each firing of the word.
    """
    at, others = np.flatnonzero(order.word == actor), np.flatnonzero(order.word != actor)
    count, done = len(others), np.concatenate([[0], np.cumsum(work[others])])
    ends, each = at - np.arange(len(at)), np.arange(len(at)) * done[-1] / len(at)

    def places(shift: float, side: Literal["left", "right"]) -> Array:
        """Firings of the others in front of each of its own, over all integers."""
        turns, rest = np.divmod(each + (done[ends] - each).min() - shift, done[-1])
        near = np.searchsorted(done, rest, side) - (side == "right")
        return np.minimum((turns * count).astype(np.int64) + near, ends)

    def most(places: Array) -> float:
        total = done[places % count] + places // count * done[-1]
        return float(np.diff(total, append=total[0] + done[-1]).max())

    shifts = np.arange(_SHIFTS) / _SHIFTS * done[-1] / len(at)
    place = min((places(one, side) for one in shifts for side in ("left", "right")), key=most)
    keys = np.concatenate([place % count * 2, np.arange(count) * 2 + 1])
    actors = np.concatenate([order.word[at], order.word[others]])
    before = order.before.copy()
    before[actor] -= int((place // count).sum())
    return replace(order, before=before, word=actors[np.argsort(keys, kind="stable")])


def improve_repeated(
    problem: Problem, order: Repeated, effort: Effort = "low"
) -> tuple[Repeated, int, int]:
    """An order that repeats with the least peak that is found, the peak in bytes, and a lower bound for orders of a period that
    pass the state at which the last one was cut.
    """
    best, least, bound, known = order, None, 0, set()
    for _ in range(_ROUNDS):
        order = middle(problem, order)
        live = evaluate(cut_period(problem, order), number_word(order))
        if least is None or live.max() < least:
            best, least = order, int(live.max())
        order = middle(problem, order.rotated(int(np.argmin(live))))
        state = tuple((order.before % np.maximum(order.shares, 1)).tolist())
        if state in known:
            break
        known.add(state)
        one = cut_period(problem, order)
        found = search(one, {"repeated": number_word(order)}, effort)
        bound = found.lower_bound
        order = replace(order, word=one.actor[found.order])
        if found.peak < least:
            best, least = order, found.peak
    assert least is not None
    return best, least, bound
