"""How much room must the channels have, for which throughput?

Capacities of least size, proven (search.py), for one throughput or for all of them: the front of
storage against throughput. Where the proofs take too long, capacities from periodic schedules
(patterns.py), tried out and made smaller, and the size that is proven to be necessary; both for
throughputs at equal distances. All throughputs are those of the capacities that are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from time import monotonic
from typing import Literal

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import GraphError
from schedules.liveness import check_live, find_deadlock
from schedules.search import FoundLevels, StorageSearch
from schedules.sizing import LIVE, Goal, Sizing, Unit, lower_bounds

__all__ = ["StorageDistribution", "Unit", "lower_bounds", "pareto_front", "storage_for"]

_TOP_SHARE, _EXACT_SHARE = 0.25, 0.7
"""When the point of the highest throughput is given up, and all points one after the other; shares
of the time.
"""

Value = Fraction | float
"""A throughput; infinity where nothing limits it."""


@dataclass(frozen=True, slots=True)
class StorageDistribution:
    """Capacities in tokens, their total size (in tokens or bytes) and the throughput they give.

    least: size below which this throughput is proven impossible; the distribution is exact if it is
    its size. One-token serial self-loops are not listed and not counted.
    """

    capacities: Mapping[str, int]
    size: int
    throughput: Value
    least: int

    @property
    def exact(self) -> bool:
        return self.least == self.size


def storage_for(
    graph: CsdfGraph,
    target: Fraction | Literal["live", "maximal"] = "live",
    unit: Unit = "tokens",
    seconds: float = 10.0,
) -> StorageDistribution:
    """Capacities of least size with which a valid graph does not deadlock, reaches a throughput, or
    the highest one.

    After `seconds` the smallest capacities are no longer looked for: some that suffice are given,
    with the size that is proven to be necessary. Raises InconsistentError, DeadlockError if no
    capacities suffice, GraphError for a target above the highest throughput, or if that is
    infinite, or for an iteration too long to be expanded.
    """
    deadline = monotonic() + seconds
    check_live(graph)
    sizing = Sizing(graph, unit)
    goal = LIVE
    if target != "live":
        best = _inverse(sizing.unlimited)
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
    """The distributions of least size for every throughput, from the first that does not deadlock
    to the highest throughput.

    None if the graph deadlocks whatever its capacities. What is not found within most of the
    `seconds` is replaced by at most
    `rest` distributions, at throughputs between and with the highest one, which may be larger than
    necessary; each says by how much. Raises InconsistentError, and GraphError if the highest
    throughput is infinite, so that the front has no end, or for an iteration too long to be
    expanded.
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
        goal = Goal(_inverse(last.throughput), strict=True)
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
    """So many distributions at equal distances of the time per iteration, the slower ones first."""
    slow, fast = _inverse(low.throughput), _inverse(top.throughput)
    if slow == fast:
        return
    for number in range(1, points + 1):
        now = monotonic()
        goal = Goal(slow - (slow - fast) * Fraction(number, points + 1))
        yield _distribution(
            search.sizing, search.least(goal, now + (deadline - now) / (points + 1 - number))
        )


def _ascending(points: Sequence[StorageDistribution]) -> Iterator[StorageDistribution]:
    """Those points that no other one beats, smaller ones first; what a throughput needs, a higher
    one does, too.
    """
    reached: Value = 0
    least = 0
    for point in sorted(points, key=lambda point: (point.size, -point.throughput)):
        if point.throughput > reached:
            needed = max(one.least for one in points if one.throughput <= point.throughput)
            least = min(max(least, needed), point.size)
            reached = point.throughput
            yield replace(point, least=least)


def _distribution(sizing: Sizing, found: FoundLevels) -> StorageDistribution:
    """What was found, by names, and the throughput that it has."""
    capacities = sizing.capacities(dict(enumerate(found.levels)))
    names = {sizing.channels[place].name: capacity for place, capacity in capacities.items()}
    size = sizing.size(list(capacities.values()))
    least = min(size, sizing.size(sizing.lower) + found.least)
    return StorageDistribution(names, size, _inverse(sizing.time(capacities)), least)


def _inverse(time: Value) -> Value:
    """Throughput of a time per iteration, and the other way round."""
    if time == inf:
        return Fraction(0)
    return 1 / time if time else inf


def _check_limited(sizing: Sizing) -> None:
    """Raise GraphError if the highest throughput is infinite and space that is waited for takes
    time: more is always faster.
    """
    if not sizing.unlimited and any(sizing.takes_time(link) for link in sizing.sized):
        raise GraphError(
            "nothing limits its throughput, so that more storage is faster without end; give its actors serial self-loops, "
            "or ask for the storage of one throughput",
            where=f"graph '{sizing.graph.name}'",
        )
