"""Which capacities does a throughput need?

The result is capacities of proven least size (search.py), for one throughput or for all of them: the Pareto front of
storage and throughput. If the proofs take too long, the result is capacities from periodic schedules (patterns.py),
tested and reduced, with a proven lower bound of the size, for throughputs at equal distances. Each throughput is that
of the capacities next to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic
from typing import Literal

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import GraphError
from schedules.liveness import check_live, find_deadlock
from schedules.search import FoundLevels, StorageSearch
from schedules.sizing import LIVE, Goal, Sizing, Unit
from schedules.throughput import invert

_TOP_SHARE, _EXACT_SHARE = 0.25, 0.7
"""Shares of the time after which the search for the highest throughput ends, and the search for each further point."""

Value = Fraction | float
"""A throughput, or a time per iteration; infinity where nothing limits the throughput."""


@dataclass(frozen=True, slots=True)
class StorageDistribution:
    """Capacities in tokens, their total size (in tokens or bytes) and their throughput.

    least: proven lower bound of the size for this throughput; the distribution is exact if its size is `least`.
    One-token serial self-loops are not listed and not counted.
    """

    capacities: Mapping[str, int]
    size: int
    throughput: Value
    least: int

    @property
    def exact(self) -> bool:
        return self.least == self.size


def size_storage(
    graph: CsdfGraph,
    target: Fraction | Literal["live", "maximal"] = "live",
    unit: Unit = "tokens",
    seconds: float = 10.0,
) -> StorageDistribution:
    """Capacities of least size with which a valid graph does not deadlock, reaches a throughput, or reaches the highest
    one.

    After `seconds` the search ends, with capacities that suffice and a proven lower bound of their size. Raises
    InconsistentError, DeadlockError if no capacities suffice, and GraphError for a target above the highest throughput,
    for an infinite highest throughput, and for an iteration too long to be expanded.
    """
    deadline = monotonic() + seconds
    check_live(graph)
    sizing = Sizing(graph, unit)
    goal = LIVE
    if target != "live":
        best = invert(sizing.unlimited)
        if target == "maximal":
            _check_limited(sizing)
        elif target > best:
            raise GraphError(
                f"throughput {target} is wanted; the highest is {best}",
                where=f"graph '{graph.name}'",
            )
        goal = Goal(sizing.unlimited if target == "maximal" else 1 / target)
    return _distribution(sizing, StorageSearch(sizing).least(goal, deadline))


def pareto_front(
    graph: CsdfGraph, unit: Unit = "tokens", seconds: float = 10.0, rest: int = 5
) -> Iterator[StorageDistribution]:
    """The distributions of least size for every throughput, from the first without a deadlock to the highest throughput.

    There are none if the graph deadlocks with all capacities. Points that are not found within most of the `seconds`
    are replaced by at most `rest` distributions up to the highest throughput, which may be larger than necessary; each
    has a lower bound of its size. Raises InconsistentError, and GraphError if the highest throughput is infinite, so
    that the front has no end, or for an iteration too long to be expanded.
    """
    begin = monotonic()
    if find_deadlock(graph) is not None:
        return
    sizing = Sizing(graph, unit)
    _check_limited(sizing)
    top = _distribution(
        sizing, StorageSearch(sizing).least(Goal(sizing.unlimited), begin + _TOP_SHARE * seconds)
    )
    search = StorageSearch(sizing)
    last: StorageDistribution | None = None
    goal = LIVE
    while True:
        found = search.least(goal, begin + _EXACT_SHARE * seconds, thorough=last is None)
        new = _distribution(sizing, found)
        if not new.exact:
            points = [new, *_between(search, new, top, rest - 1, begin + seconds), top]
            yield from _ascending(points if last is None else [last, *points])
            return
        if last is not None and last.size < new.size:
            yield last
        last = new
        goal = Goal(invert(last.throughput), strict=True)
        if goal.limit <= sizing.unlimited:
            yield last
            return
        search.exclude(found.levels, goal)


def _between(
    search: StorageSearch,
    low: StorageDistribution,
    top: StorageDistribution,
    points: int,
    deadline: float,
) -> Iterator[StorageDistribution]:
    """Distributions at equal distances of the time per iteration, the slower ones first."""
    slow, fast = invert(low.throughput), invert(top.throughput)
    if slow == fast:
        return
    for number in range(1, points + 1):
        now = monotonic()
        goal = Goal(slow - (slow - fast) * Fraction(number, points + 1))
        yield _distribution(
            search.sizing, search.least(goal, now + (deadline - now) / (points + 1 - number))
        )


def _ascending(points: Sequence[StorageDistribution]) -> Iterator[StorageDistribution]:
    """The Pareto front of points, smaller ones first. A lower bound for a throughput also holds for higher ones."""
    reached: Value = 0
    least = 0
    for point in sorted(points, key=lambda point: (point.size, -point.throughput)):
        if point.throughput > reached:
            needed = max(one.least for one in points if one.throughput <= point.throughput)
            least = min(max(least, needed), point.size)
            reached = point.throughput
            yield replace(point, least=least)


def _distribution(sizing: Sizing, found: FoundLevels) -> StorageDistribution:
    """Levels as capacities by channel name, and their throughput."""
    capacities = sizing.capacities(dict(enumerate(found.levels)))
    names = {sizing.channels[place].name: capacity for place, capacity in capacities.items()}
    size = sizing.size(list(capacities.values()))
    least = min(size, sizing.size(sizing.lower) + found.least)
    return StorageDistribution(names, size, invert(sizing.time(capacities)), least)


def _check_limited(sizing: Sizing) -> None:
    """Raise GraphError if the highest throughput is infinite and waiting for space takes time, so that more storage is
    always faster.
    """
    if not sizing.unlimited and any(sizing.takes_time(link) for link in sizing.sized):
        raise GraphError(
            "nothing limits its throughput, so that more storage is faster without end; give its actors serial self-loops, "
            "or ask for the storage of one throughput",
            where=f"graph '{sizing.graph.name}'",
        )
