"""How much room must the channels have, for which throughput?

A critical cycle through the space of some channels proves that the throughput cannot rise unless one of these gets more room
("storage dependencies", Stuijk, Geilen, Basten 2008). Here every such proof is kept as a cut and made as strong as it stays
true; the least capacities that avoid all cuts are tried next, until they suffice. What suffices then is of least size, since
all that is smaller is cut off. The start is a true lower bound also for cyclo-static rates: what the two actors of
a channel need if they take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import gcd, inf
from time import monotonic
from typing import Literal

import numpy as np

from csdfgen.errors import GraphError
from csdfgen.graph import CsdfGraph, repetition_vector
from schedules.bounded import Link, components, links_of, space_link
from schedules.cycle_ratio import maximum_cycle_ratio
from schedules.hitting import Cuts, TooManyCombinationsError
from schedules.liveness import check_live, find_deadlock, stuck_links
from schedules.precedence import Expansion

__all__ = ["StorageDistribution", "lower_bounds", "pareto_front", "storage_for"]

TOKEN_COST = 2**40
"""A unit of size outweighs so many tokens."""

_EXTRA_SECONDS = 5.0
"""Time for making capacities smaller that suffice but are not the least."""

Unit = Literal["tokens", "bytes"]
Value = Fraction | float
"""A throughput; infinity where nothing limits it."""


@dataclass(frozen=True, slots=True)
class StorageDistribution:
    """Capacities in tokens, their total size (in tokens or bytes) and the throughput they give.

    least: size below which this throughput is proven impossible; the distribution is exact if it is its size. One-token
    serial self-loops are not listed and not counted.
    """

    capacities: Mapping[str, int]
    size: int
    throughput: Value
    least: int

    @property
    def exact(self) -> bool:
        return self.least == self.size


def lower_bounds(graph: CsdfGraph) -> dict[str, int]:
    """Channel -> least capacity with which its two actors do not deadlock on its account, for all but serial self-loops.

    Between two actors: the source fires only when the target lacks tokens, so the channel holds the least possible. It
    is a lower bound whatever the other channels do, and grows in steps of the gcd of the rates.
    """
    firings = repetition_vector(graph)
    return {
        channel.name: _lower_bound(link, firings[channel.source], firings[channel.target])
        for link in links_of(graph)
        if not (channel := graph.channels[link.channel]).is_serial
    }


def _lower_bound(link: Link, sources: int, targets: int) -> int:
    produced = np.array([0, *accumulate(link.production * (sources // len(link.production)))], dtype=np.int64)
    consumed = np.array([0, *accumulate(link.consumption * (targets // len(link.consumption)))], dtype=np.int64)
    if link.source == link.target:
        return link.tokens + int((produced[1:] - consumed[:-1]).max())
    takes = np.flatnonzero(np.diff(consumed))
    last = consumed[takes + 1] - link.tokens - 1
    back = -(last // produced[-1])
    firing = np.searchsorted(produced[1:], last + back * produced[-1], side="right")
    held = link.tokens + produced[firing + 1] - back * produced[-1] - consumed[takes]
    return max(link.tokens, int(held.max()))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Throughput under some capacities, and the channels (by place) one of which must grow before it can rise."""

    value: Value
    scarce: tuple[int, ...]


class _Sizing:
    """One graph whose channels get capacities; they are known by their place among those that are sized."""

    def __init__(self, graph: CsdfGraph, unit: Unit) -> None:
        self.graph = graph
        firings = repetition_vector(graph)
        self.quota = [firings[actor.name] for actor in graph.actors]
        self.phases = [actor.phases for actor in graph.actors]
        self.times = [actor.execution_times for actor in graph.actors]
        self.expansion = Expansion(self.times, self.quota)
        self.links = links_of(graph)
        sized = [link for link in self.links if not graph.channels[link.channel].is_serial]
        self.channels = [graph.channels[link.channel] for link in sized]
        self.sized = sized
        self.steps = [gcd(*link.production, *link.consumption) for link in sized]
        self.weights = [channel.token_bytes if unit == "bytes" else 1 for channel in self.channels]
        self.lower = [_lower_bound(link, self.quota[link.source], self.quota[link.target]) for link in sized]
        self._known: dict[tuple[tuple[int, int], ...], _Outcome] = {}
        self._alive: dict[tuple[tuple[int, int], ...], _Outcome] = {}

    def size(self, capacities: Sequence[int]) -> int:
        return sum(map(int.__mul__, capacities, self.weights))

    def costs(self) -> list[int]:
        """Size first, then tokens, so that what weighs nothing is not wasted."""
        return [weight * TOKEN_COST + 1 for weight in self.weights]

    def reachable(self, best: Value) -> Value:
        """The highest throughput, if there are capacities with which it is reached.

        Raises GraphError if it is infinite and any space that is waited for takes time: there is no end of faster storage then.
        """
        if best == inf and any(self._takes_time(link) for link in self.sized):
            raise GraphError(
                "nothing limits its throughput, so that more storage is faster without end; give its actors serial self-loops, "
                "or ask for the storage of one throughput",
                where=f"graph '{self.graph.name}'",
            )
        return best

    def _takes_time(self, link: Link) -> bool:
        """Whether time passes from a claim of space to the token, or from a token taken to the space."""
        ends = (link.source, link.production), (link.target, link.consumption)
        return any(time and rate for actor, rates in ends for time, rate in zip(self.times[actor], rates, strict=True))

    def _bounded(self, capacities: Mapping[int, int]) -> tuple[list[Link], dict[int, int]]:
        """The links with the space that these capacities leave, and the place of every channel."""
        spaces = []
        for place, capacity in capacities.items():
            link = self.sized[place]
            spaces.append(space_link(self.channels[place], (link.source, link.target), capacity, link.channel))
        return [*self.links, *spaces], {self.sized[place].channel: place for place in capacities}

    def liveness(self, capacities: Mapping[int, int]) -> _Outcome:
        """Like `throughput`, but any live graph has throughput 1."""
        key = tuple(sorted(capacities.items()))
        found = self._alive.get(key)
        if found is None:
            links, places = self._bounded(capacities)
            stuck = stuck_links(self.quota, self.phases, links)
            found = self._alive[key] = _Outcome(0 if stuck else 1, _scarce(stuck, places))
        return found

    def throughput(self, capacities: Mapping[int, int]) -> _Outcome:
        """With these capacities, all other channels unbounded."""
        key = tuple(sorted(capacities.items()))
        found = self._known.get(key)
        if found is None:
            alive = self.liveness(capacities)
            found = self._known[key] = alive if not alive.value else self._slowest(*self._bounded(capacities))
        return found

    def _slowest(self, links: list[Link], places: Mapping[int, int]) -> _Outcome:
        slowest: Fraction = Fraction(0)
        scarce: tuple[int, ...] = ()
        for part in components(len(self.quota), links):
            system = self.expansion.precedence(part)
            result = maximum_cycle_ratio(system)
            if result.ratio > slowest:
                numbers = {int(system.link[edge]) for edge in result.cycle}
                slowest, scarce = result.ratio, _scarce((part.links[number] for number in numbers if number >= 0), places)
        return _Outcome(1 / slowest if slowest else inf, scarce)


def _scarce(links: Iterable[Link], places: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(sorted({places[link.channel] for link in links if link.space}))


_Measure = Callable[[Mapping[int, int]], _Outcome]


@dataclass(frozen=True, slots=True)
class _Found:
    """Capacities that do not fall short, what they give, and a cost below which there are none."""

    capacities: list[int]
    outcome: _Outcome
    least: int


_Short = Callable[[Value], bool]
"""Whether a throughput falls short of what is wanted."""


class _Search:
    """Looks for capacities of least size that do not fall short; what falls short may grow from one search to the next."""

    def __init__(self, sizing: _Sizing, measure: _Measure) -> None:
        self.sizing = sizing
        self.measure = measure
        self.cuts = Cuts(sizing.lower, sizing.steps, sizing.costs())

    def least(self, short: _Short, deadline: float) -> _Found:
        """Capacities of least cost that are not short; after the deadline (of `monotonic`) some that are near it."""
        capacities = list(self.sizing.lower)
        while True:
            try:
                capacities = self.cuts.minimum()
            except TooManyCombinationsError:
                break
            outcome = self.measure(dict(enumerate(capacities)))
            if not short(outcome.value):
                return _Found(capacities, outcome, self.cuts.cost(capacities))
            self.cut(capacities, outcome, short)
            if monotonic() > deadline:
                break
        least = self.cuts.cost(capacities)
        capacities, outcome = self._enlarge(capacities, short, monotonic() + _EXTRA_SECONDS)
        return _Found(capacities, outcome, least)

    def cut(self, capacities: Sequence[int], outcome: _Outcome, short: _Short) -> None:
        """Learn from capacities that fall short: fewer channels and larger capacities, as long as these fall short, too."""
        kept = {place: capacities[place] for place in outcome.scarce}
        for place in outcome.scarce:
            if place in kept and len(kept) > 1:
                without = {other: capacity for other, capacity in kept.items() if other != place}
                found = self.measure(without)
                if short(found.value):
                    kept = {other: without[other] for other in found.scarce}
        for place in list(kept):
            kept[place] = self._largest_short(kept, place, short)
        self.cuts.add(kept)

    def _largest_short(self, kept: Mapping[int, int], place: int, short: _Short) -> int:
        """How far the capacity of one channel can grow while the others keep the throughput short."""
        step = self.sizing.steps[place]
        low, stride = kept[place], step
        while short(self.measure({**kept, place: low + stride}).value):
            low, stride = low + stride, stride * 2
        return self._bisect(low, low + stride, step, lambda middle: short(self.measure({**kept, place: middle}).value))

    @staticmethod
    def _bisect(low: int, high: int, step: int, is_low: Callable[[int], bool]) -> int:
        """The last value of low, low + step, ... that is low; `high` is not."""
        while high - low > step:
            middle = low + (high - low) // step // 2 * step
            if is_low(middle):
                low = middle
            else:
                high = middle
        return low

    def _enlarge(self, smallest: Sequence[int], short: _Short, deadline: float) -> tuple[list[int], _Outcome]:
        """Larger capacities that are not short, each then made as small as the others let it be."""
        capacities, strides = list(smallest), list(self.sizing.steps)
        while short((outcome := self.measure(dict(enumerate(capacities)))).value):
            for place in outcome.scarce:
                capacities[place] += strides[place]
                strides[place] *= 2
        costs = self.cuts.costs
        grown = [place for place, least in enumerate(smallest) if capacities[place] > least]
        for place in sorted(grown, key=lambda place: (smallest[place] - capacities[place]) * costs[place]):
            if monotonic() > deadline:
                break
            others = dict(enumerate(capacities))
            step, least = self.sizing.steps[place], smallest[place] - self.sizing.steps[place]
            too_small = self._bisect(least, capacities[place], step, partial(self._short_with, others, place, short))
            capacities[place] = too_small + step
        return capacities, self.measure(dict(enumerate(capacities)))

    def _short_with(self, others: Mapping[int, int], place: int, short: _Short, capacity: int) -> bool:
        return short(self.measure({**others, place: capacity}).value)


def _distribution(sizing: _Sizing, found: _Found, value: Value) -> StorageDistribution:
    names = (channel.name for channel in sizing.channels)
    size = sizing.size(found.capacities)
    exact = sum(map(int.__mul__, found.capacities, sizing.costs())) == found.least
    return StorageDistribution(
        dict(zip(names, found.capacities, strict=True)), size, value, size if exact else found.least // TOKEN_COST
    )


def storage_for(
    graph: CsdfGraph, target: Fraction | Literal["live", "maximal"] = "live", unit: Unit = "tokens", seconds: float = 10.0
) -> StorageDistribution:
    """Capacities of least size with which a valid graph does not deadlock, reaches a throughput, or the highest one.

    After `seconds` the smallest capacities are no longer looked for: some that suffice are given, with the size that is
    proven to be necessary. Raises InconsistentError, DeadlockError if no capacities suffice, GraphError for a target above
    the highest throughput, or if that is infinite.
    """
    check_live(graph)
    sizing = _Sizing(graph, unit)
    search = _Search(sizing, sizing.liveness if target == "live" else sizing.throughput)
    wanted: Value = 1
    if target != "live":
        best = sizing.throughput({}).value
        wanted = sizing.reachable(best) if isinstance(target, str) else target
        if wanted > best:
            raise GraphError(f"throughput {target} is wanted; the highest is {best}", where=f"graph '{graph.name}'")
    found = search.least(lambda value: value < wanted, monotonic() + seconds)
    return _distribution(sizing, found, sizing.throughput(dict(enumerate(found.capacities))).value)


def pareto_front(graph: CsdfGraph, unit: Unit = "tokens", seconds: float = 10.0, rest: int = 8) -> Iterator[StorageDistribution]:
    """The distributions of least size for every throughput, from the first that does not deadlock to the highest throughput.

    None if the graph deadlocks whatever its capacities. After `seconds` at most `rest` more follow, at throughputs between
    and with the highest one, which may be larger than necessary; each says by how much. Raises InconsistentError, and
    GraphError if the highest throughput is infinite, so that the front has no end.
    """
    if find_deadlock(graph) is not None:
        return
    sizing = _Sizing(graph, unit)
    best = sizing.reachable(sizing.throughput({}).value)
    search = _Search(sizing, sizing.throughput)
    deadline = monotonic() + seconds
    last = StorageDistribution({}, -1, Fraction(0), -1)
    wanted: Value = Fraction(0)
    while last.throughput < best:
        reached = last.throughput
        late = monotonic() > deadline
        wanted = _between(reached, best, rest) if late else reached
        rest -= late
        found = search.least(partial(_is_short, wanted, late), deadline)
        new = _distribution(sizing, found, found.outcome.value)
        if 0 <= last.size < new.size:
            yield last
        last = new
        if last.exact and last.throughput < best:
            search.cut(found.capacities, found.outcome, partial(_is_short, last.throughput, False))
    if last.size >= 0:
        yield last


def _is_short(wanted: Value, enough: bool, value: Value) -> bool:
    """Whether a throughput is below the one wanted, or not above it if that one is not enough."""
    return value < wanted if enough else value <= wanted


def _between(reached: Value, best: Value, points: int) -> Value:
    """The next of so many throughputs up to the highest, at equal distances of the time per iteration."""
    if points <= 1 or best == inf or not reached:
        return best
    slow, fast = 1 / Fraction(reached), 1 / Fraction(best)
    return 1 / (slow - (slow - fast) / points)
