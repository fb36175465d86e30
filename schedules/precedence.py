"""Which firing waits for which? The events of one iteration, with times and numbers of iterations between them.

Self-timed execution is the least solution of x[head](k) >= x[tail](k - delay) + weight over the events x of iteration k
(starts of firings, and ends where they are needed): a linear system in max-plus algebra. It expands every phase of
every firing of an iteration, as K-periodic schedules do with K = repetition vector (Bodin et al., "Optimal and fast
throughput evaluation of CSDF", DAC 2016). In addition, firings start in order, and the tokens of a channel arrive in the
order of the firings that produce them, so that the system is exact for actors that overlap with themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from schedules.links import Component, Link

Array = Any
"""A numpy array of integers."""

ORDER = -1
"""Number of the link of a constraint that follows from no link."""

MAX_EVENTS = 3_000_000
"""Most firings of an iteration that are expanded."""

_SMALL_TIME = 2**40
"""Times below this are added in machine words."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Dependences of two actors. tail: the firing that is waited for; head: the firing that waits, both numbered within
    an iteration; delay: iterations between them.
    """

    tail: Array
    head: Array
    delay: Array


class Part(NamedTuple):
    """Constraints of one link, or of the order of one line of events."""

    tail: Array
    head: Array
    weight: Array
    delay: Array
    link: Array | int


@dataclass(frozen=True, slots=True)
class Precedence:
    """Constraints x[head](k) >= x[tail](k - delay) + weight, sorted by head; every event has at
    least one.

    line: event -> its sequence of events (starts of an actor, or ends that produce on one link); order: event -> its
    constraint within that sequence. link: constraint -> number of its link, -1 for the order of events. first: actor ->
    its first event.
    """

    tail: Array
    head: Array
    weight: Array
    delay: Array
    link: Array
    line: Array
    order: Array
    first: dict[int, int]

    @property
    def size(self) -> int:
        return len(self.line)


def is_serial_link(link: Link) -> bool:
    """Whether the link alone prevents an actor from overlapping with itself."""
    loop = link.source == link.target and link.tokens == 1 and not link.space
    return loop and set(link.production) == {1} and set(link.consumption) == {1}


def serial_actors(links: Iterable[Link]) -> set[int]:
    """The actors that a link prevents from overlapping with themselves."""
    return {link.target for link in links if is_serial_link(link)}


class Lines:
    """Builds a `Precedence` of lines of events, whose numbers follow each other, and of constraints between them.

    first: actor -> its first event; size: number of events so far.
    """

    def __init__(self) -> None:
        self.first: dict[int, int] = {}
        self.size = 0
        self._lengths: list[int] = []
        self._parts: list[Part] = []

    def add(self, weight: Array) -> int:
        """Add a line of events, `weight` from every one to the next; the number of its first event."""
        start = self.size
        self._parts.append(chain(start, weight, ORDER))
        self._lengths.append(len(weight))
        self.size += len(weight)
        return start

    def add_actors(
        self,
        component: Component,
        weights: Callable[[int], Array],
        laps: Mapping[int, int] | None = None,
    ) -> set[int]:
        """Add a line for every actor of a component; the actors that do not overlap with themselves.

        weights: actor -> times from every firing to the next, if they do not overlap. laps: actor -> delay once around
        its line, 1 by default.
        """
        serial = serial_actors(component.links)
        for actor in component.actors:
            own = weights(actor)
            self.first[actor] = self.add(own if actor in serial else np.zeros_like(own))
            if laps is not None:
                last = self._parts[-1]
                self._parts[-1] = last._replace(delay=last.delay.astype(object) * laps[actor])
        return serial

    def tie(self, tail: Array, head: Array, weight: Array, delay: Array, link: int) -> None:
        """Add constraints of a link by which events `head` wait for events `tail`."""
        self._parts.append(Part(tail, head, weight, delay, link))

    def system(self) -> Precedence:
        """The system of all lines and constraints."""
        line = np.repeat(np.arange(len(self._lengths)), self._lengths)
        return assemble(self._parts, line, self.first)


class Expansion:
    """Expands components of one graph, and keeps what it computes for links and actors."""

    def __init__(self, times: Sequence[Sequence[int]], quota: Sequence[int]) -> None:
        self.times = times
        self.quota = quota
        self._rounds: dict[tuple[int, ...], Array] = {}
        self._edges: dict[Link, Edges] = {}
        self._times: dict[int, Array] = {}
        self.dtype: Any = (
            np.int64 if max((max(row) for row in times), default=0) < _SMALL_TIME else object
        )

    def edges(self, link: Link) -> Edges:
        """The firings of the target that need tokens, each with the firing of the source that produces the last one."""
        found = self._edges.get(link)
        if found is None:
            found = self._edges[link] = self.find_edges(link)
        return found

    def cumulative(self, rates: tuple[int, ...], actor: int) -> Array:
        """Tokens that an actor produces or consumes at given rates up to and including every firing of an iteration."""
        quota = self.quota[actor]
        key = (*rates, quota)
        found = self._rounds.get(key)
        if found is None:
            one = np.array(list(accumulate(rates)), dtype=np.int64)
            rounds = np.arange(quota // len(rates), dtype=np.int64) * one[-1]
            found = self._rounds[key] = (rounds[:, None] + one[None, :]).ravel()
        return found

    def find_edges(self, link: Link) -> Edges:
        """The result of `edges`, which is not kept."""
        produced = self.cumulative(link.production, link.source)
        consumed = self.cumulative(link.consumption, link.target)
        takes = np.flatnonzero(np.diff(consumed, prepend=0))
        # number of the last token needed, counted from the start of an iteration
        last = consumed[takes] - (link.tokens + 1)
        back = -(last // produced[-1])
        firing = np.searchsorted(produced, last + back * produced[-1], side="right")
        # a later firing that waits for the same firing also waits for the earlier one
        new = np.ones(len(takes), dtype=bool)
        new[1:] = (firing[1:] != firing[:-1]) | (back[1:] != back[:-1])
        return Edges(firing[new], takes[new], back[new])

    def precedence(self, component: Component) -> Precedence:
        """All constraints of a component in which every actor has a link."""
        lines = Lines()
        serial = lines.add_actors(component, self.weights)
        for number, link in enumerate(component.links):
            if is_serial_link(link):
                continue
            found = self.edges(link)
            time = self.weights(link.source)
            source, target = lines.first[link.source], lines.first[link.target]
            ends = None if link.source in serial else self._ends(link)
            if ends is None:
                tail, weight = source + found.tail, time[found.tail]
            else:
                zero = np.zeros(len(ends), dtype=self.dtype)
                end = lines.add(zero)
                at = end + np.arange(len(ends))
                lines.tie(source + ends, at, time[ends], np.zeros_like(ends), ORDER)
                tail = end + np.searchsorted(ends, found.tail)
                weight = np.zeros(len(tail), dtype=self.dtype)
            lines.tie(tail, target + found.head, weight, found.delay, number)
        return lines.system()

    def _ends(self, link: Link) -> Array | None:
        """Firings whose ends need events, as a later and shorter firing may end earlier; None if all take equally
        long.
        """
        times = {
            time
            for time, rate in zip(self.times[link.source], link.production, strict=True)
            if rate
        }
        if len(times) == 1:
            return None
        return np.flatnonzero(
            np.tile(
                np.array(link.production, dtype=np.int64),
                self.quota[link.source] // len(link.production),
            )
        )

    def weights(self, actor: int) -> Array:
        """Execution time of every firing of an actor in an iteration."""
        found = self._times.get(actor)
        if found is None:
            times = np.array(self.times[actor], dtype=self.dtype)
            found = self._times[actor] = np.tile(times, self.quota[actor] // len(times))
        return found


def chain(first: int, weight: Array, link: int) -> Part:
    """The order of events, and of the events of one iteration after those of the one before. weight: from every event
    to the next.
    """
    count = len(weight)
    event = np.arange(count)
    before = (event - 1) % count
    return Part(first + before, first + event, weight[before], (event == 0).astype(np.int64), link)


def assemble(parts: Sequence[Part], line: Array, first: dict[int, int]) -> Precedence:
    """The constraints of all parts. line: event -> its sequence, whose order is one of the parts."""
    tail, head, weight, delay = (
        np.concatenate(column) for column in zip(*(part[:4] for part in parts), strict=True)
    )
    link = np.concatenate([np.full(len(part.tail), part.link) for part in parts])
    inner = np.flatnonzero((link == ORDER) & (line[tail] == line[head]))
    place = np.argsort(head, kind="stable")
    where = np.empty_like(place)
    where[place] = np.arange(len(place))
    order = np.empty(len(line), dtype=np.int64)
    order[head[inner]] = where[inner]
    return Precedence(
        tail[place], head[place], weight[place], delay[place], link[place], line, order, first
    )
