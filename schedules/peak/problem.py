"""How many bytes does an order of firings keep alive? Firings with dependences, and items that they claim and release.

Actors fire their phases in order; a firing may wait for a number of phases of other actors. An item is alive from the
first of its claimers on until all its releasers have fired. So the bytes alive follow from the *set* of completed
firings, not from their order. This set is a *downset* (it contains all that its firings wait for), and the bytes alive
are submodular over downsets, which the bound and the search use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from csdfgen.errors import ScheduleError

Array = np.ndarray

MAX_CELLS = 60_000_000
"""Most cells of the table of ancestors (firings x actors): 240 MB."""

_PAIRS = 1_000_000
"""Pairs of firings that are looked up in that table at a time."""


@dataclass(frozen=True, eq=False, slots=True)
class Link:
    """Phase p of actor `target` waits for the first `counts[p]` phases of actor `source`."""

    source: int
    target: int
    counts: Array


@dataclass(frozen=True, eq=False, slots=True)
class Items:
    """n items with k claimers and m releasers each.

    size: bytes, (n,). claimers: firings, (n, k): alive from the first of them on; k = 0: from the
    start. releasers: firings, (n, m): free when the last of them has ended; m = 0: never.
    """

    size: Array
    claimers: Array
    releasers: Array

    @classmethod
    def of(cls, size: int, claimers: Sequence[int], releasers: Sequence[int]) -> Items:
        """One item."""
        return cls(
            np.array([size], np.int64),
            np.array(claimers, np.int64).reshape(1, -1),
            np.array(releasers, np.int64).reshape(1, -1),
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """Firings 0 to F - 1, numbered actor by actor, and the items that they claim and release.

    phases: firings of each actor; an actor waits only for actors with smaller numbers. items: one group for each pair of
    numbers of claimers and releasers. extra: bytes that a firing takes for itself, (F,).
    """

    phases: tuple[int, ...]
    links: tuple[Link, ...]
    items: tuple[Items, ...]
    extra: Array

    @classmethod
    def of(
        cls,
        phases: Sequence[int],
        links: Iterable[Link],
        items: Iterable[Items],
        extra: Array | None = None,
    ) -> Problem:
        """The problem, with one item for all that are alive at the same times in every order.

        Of claimers of an item that wait for each other only the first is kept, of releasers the last. Raises
        ScheduleError for a link to an actor of no larger number, and for an item that some order releases before it is
        claimed, as bytes alive would not be submodular.
        """
        kept = []
        for link in links:
            if link.source >= link.target:
                raise ScheduleError(
                    f"actor {link.target} waits for actor {link.source}; number actors so that each waits for smaller ones alone"
                )
            kept.append(Link(link.source, link.target, np.maximum.accumulate(link.counts)))
        wide = np.zeros(sum(phases), np.int64) if extra is None else np.asarray(extra, np.int64)
        raw = cls(tuple(phases), tuple(kept), tuple(items), wide)
        found = cls(raw.phases, raw.links, _joined(raw), wide)
        if found.tractable:
            _check_lifetimes(found)
        return found

    @property
    def firings(self) -> int:
        """Number of firings."""
        return len(self.extra)

    @cached_property
    def base(self) -> Array:
        """First firing of each actor; one more entry for the end."""
        return np.concatenate([[0], np.cumsum(self.phases, dtype=np.int64)])

    @cached_property
    def actor(self) -> Array:
        """Actor of each firing."""
        return np.repeat(np.arange(len(self.phases)), self.phases)

    @cached_property
    def phase(self) -> Array:
        """Phase of each firing in its actor."""
        return np.arange(self.firings) - self.base[self.actor]

    @property
    def tractable(self) -> bool:
        """Whether the table of ancestors is small enough."""
        return self.firings * len(self.phases) <= MAX_CELLS

    @cached_property
    def ancestors(self) -> Array:
        """(F, actors): phases of each actor that are complete after a firing, itself included; in 16 bits if they fit,
        as it is the largest array of a search.
        """
        base = self.base
        kind = np.int16 if max(self.phases, default=0) < np.iinfo(np.int16).max else np.int32
        table = np.zeros((self.firings, len(self.phases)), kind)
        into: list[list[Link]] = [[] for _ in self.phases]
        for link in self.links:
            into[link.target].append(link)
        for actor, count in enumerate(self.phases):
            rows = table[base[actor] : base[actor + 1]]
            for link in into[actor]:
                # counts never decrease, so that phases that wait are the last ones, and rows never decrease either
                waits = slice(int(np.searchsorted(link.counts, 1)), None), slice(link.source + 1)
                before = table[base[link.source] + link.counts[waits[0]] - 1, waits[1]]
                np.maximum(rows[waits], before, out=rows[waits])
            rows[:, actor] = np.arange(1, count + 1)
        return table

    def precedes(self, early: Array, late: Array) -> Array:
        """Whether firings `late` wait for firings `early`, or equal them."""
        return self.ancestors[late, self.actor[early]] > self.phase[early]

    @cached_property
    def claims(self) -> Array:
        """Bytes of the items that each firing claims in all orders, as it is their only claimer, (F,)."""
        found = np.zeros(self.firings)
        for group in self.items:
            if group.claimers.shape[1] == 1:
                found += np.bincount(group.claimers[:, 0], group.size, self.firings)
        return found.astype(np.int64)

    @cached_property
    def alone(self) -> Array:
        """Bytes that are alive during each firing in all orders, (F,): those that it takes for itself, the items that it
        claims as their only claimer, and those that it releases after one of their claimers.
        """
        found = self.claims + self.extra.astype(float)
        for group in self.items if self.tractable else ():
            counted = [group.claimers[:, 0]] if group.claimers.shape[1] == 1 else []
            for releaser in group.releasers.T:
                new = (
                    np.ones(len(releaser), bool)
                    if not group.claimers.size
                    else np.zeros_like(releaser, bool)
                )
                for claimer in group.claimers.T:
                    new |= self.precedes(claimer, releaser)
                for other in counted:
                    new &= releaser != other
                found += np.bincount(releaser, group.size * new, self.firings)
                counted.append(releaser)
        return found.astype(np.int64)

    def is_order(self, order: Array) -> bool:
        """Whether an order has all firings, each after those that it waits for."""
        position = np.full(self.firings, -1)
        if len(order) != self.firings:
            return False
        position[order] = np.arange(self.firings)
        if (position < 0).any():
            return False
        inner = np.ones(max(self.firings - 1, 0), bool)
        ends = self.base[1:-1]
        inner[ends[(ends > 0) & (ends < self.firings)] - 1] = False
        if (np.diff(position)[inner] < 0).any():
            return False
        for link in self.links:
            waits = link.counts > 0
            late = position[self.base[link.target] : self.base[link.target + 1]][waits]
            if (position[self.base[link.source] + link.counts[waits] - 1] > late).any():
                return False
        return True

    def backwards(self) -> Problem:
        """The problem with time reversed: firing f becomes firing F - 1 - f, and claims become releases.

        An order of one, read backwards, is an order of the other with the same bytes alive.
        """
        last, count = self.firings - 1, len(self.phases)
        links = []
        for link in self.links:
            length = self.phases[link.source]
            later = np.searchsorted(link.counts, np.arange(length)[::-1], side="right")
            counts = self.phases[link.target] - later
            links.append(Link(count - 1 - link.target, count - 1 - link.source, counts))
        items = [Items(g.size, last - g.releasers, last - g.claimers) for g in self.items]
        return Problem(self.phases[::-1], tuple(links), tuple(items), self.extra[::-1])


def evaluate(problem: Problem, order: Array) -> Array:
    """Bytes alive during each firing of an order, by position: those before it, those that it claims, and those that it
    takes for itself.

    >>> a, b = Items.of(10, [0], [2]), Items.of(10, [1], [2])
    >>> two = Problem.of([2, 1], [Link(0, 1, np.array([2]))], [a, b], np.array([0, 5, 1]))
    >>> evaluate(two, np.array([0, 1, 2])).tolist()
    [10, 25, 21]
    """
    count = problem.firings
    position = np.empty(count, np.int64)
    position[order] = np.arange(count)
    change = np.zeros(count + 1)
    for group in problem.items:
        if group.claimers.shape[1]:
            first = _extreme(position, group.claimers, np.minimum)
            change += np.bincount(first, group.size, count + 1)
        else:
            change[0] += group.size.sum()
        if group.releasers.shape[1]:
            last = _extreme(position, group.releasers, np.maximum)
            change -= np.bincount(last + 1, group.size, count + 1)
    return np.cumsum(change[:-1]).astype(np.int64) + problem.extra[order]


def _extreme(position: Array, firings: Array, choose: np.ufunc) -> Array:
    """Position of the first or the last firing of each row."""
    found = position[firings[:, 0]]
    for column in firings.T[1:]:
        found = choose(found, position[column])
    return found


def _check_lifetimes(problem: Problem) -> None:
    """Check that some releaser of every item waits for one of its claimers, or equals it."""
    for group in problem.items:
        claimers, releasers = group.claimers, group.releasers
        if claimers.shape[1] and releasers.shape[1]:
            sound = np.zeros(len(group.size), bool)
            for early in claimers.T:
                for late in releasers.T:
                    sound |= problem.precedes(early, late)
            if not sound.all():
                one = int(np.flatnonzero(~sound)[0])
                raise ScheduleError(
                    f"an item that firings {claimers[one].tolist()} claim may be released before, by firings "
                    f"{releasers[one].tolist()}; let a releaser wait for a claimer"
                )


# Which items are one ------------------------------------------------------------------------------


def _joined(problem: Problem) -> tuple[Items, ...]:
    """Items by numbers of claimers and releasers, those with the same added up."""
    shapes: dict[tuple[int, int], list[Items]] = {}
    known: dict[tuple[int, bool], Array] = {}  # parts of a buffer have the same releasers

    def alone(firings: Array, last: bool) -> Array:
        key = id(firings), last
        if key not in known:
            known[key] = _first_alone(problem, firings, last=last)
        return known[key]

    for group in problem.items:
        claimers, releasers = alone(group.claimers, False), alone(group.releasers, True)
        widths = (claimers >= 0).sum(axis=1), (releasers >= 0).sum(axis=1)
        for k, m in sorted(set(zip(*map(np.ndarray.tolist, widths), strict=True))):
            chosen = (widths[0] == k) & (widths[1] == m)
            part = Items(group.size[chosen], claimers[chosen, :k], releasers[chosen, :m])
            shapes.setdefault((k, m), []).append(part)
    return tuple(_added(parts) for _, parts in sorted(shapes.items()))


def _first_alone(problem: Problem, firings: Array, *, last: bool) -> Array:
    """Rows of firings, sorted, without those that need no mention as another always comes before
    (with `last` after); -1 fills rows up.
    """
    firings = np.asarray(firings, np.int64)
    if firings.shape[1] < 2:
        return firings
    kept = np.sort(firings, axis=1)
    width = kept.shape[1]
    keep = np.ones(kept.shape, bool)
    keep[:, 1:] = kept[:, 1:] != kept[:, :-1]
    if problem.tractable:
        above = np.arange(width) < np.arange(width)[:, None]
        chunk = max(1, _PAIRS // width**2)
        for at in range(0, len(kept), chunk):
            rows = kept[at : at + chunk]
            comes = problem.precedes(rows[:, None, :], rows[:, :, None]) & above
            comes &= rows[:, None, :] != rows[:, :, None]
            keep[at : at + len(rows)] &= ~comes.any(axis=1 if last else 2)
    kept[~keep] = -1
    place = np.argsort(~keep, axis=1, kind="stable")
    return np.take_along_axis(kept, place, axis=1)


def _added(parts: Sequence[Items]) -> Items:
    """Items of one shape, those with equal claimers and releasers as one."""
    size = np.concatenate([part.size for part in parts])
    claimers = np.concatenate([part.claimers for part in parts])
    both = np.concatenate([claimers, np.concatenate([part.releasers for part in parts])], axis=1)
    width = claimers.shape[1]
    if not both.shape[1]:
        return Items(size.sum(keepdims=True), both[:1], both[:1])
    place = np.lexsort(both.T[::-1])
    both, size = both[place], size[place]
    new = np.ones(len(both), bool)
    new[1:] = (both[1:] != both[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    rows = both[starts]
    return Items(np.add.reduceat(size, starts), rows[:, :width], rows[:, width:])
