"""Which capacities of least cost avoid all combinations that are known to be too small?

A cut says: as long as every channel in it has at most its capacity there, the graph falls short, whatever the others have. So
one of them must be larger: a hitting set problem with levels (implicit hitting sets: Davies and Bacchus, 2011).
Solved exactly, separately for channels that no cut connects, by best-first search with a bound from disjoint cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import count

__all__ = ["Cuts", "TooManyCombinationsError"]

Cut = tuple[tuple[int, int], ...]
"""Channel and the largest capacity that is too small, sorted by channel."""


class TooManyCombinationsError(Exception):
    """The search was given up; no answer is proven."""


class Cuts:
    """What is known: the least capacity of every channel, the step between capacities, the cost of a token, the cuts."""

    def __init__(self, lower: Sequence[int], steps: Sequence[int], costs: Sequence[int], max_nodes: int = 200_000) -> None:
        self.lower = list(lower)
        self.steps = steps
        self.costs = costs
        self.max_nodes = max_nodes
        self.cuts: list[Cut] = []
        self._solved: dict[tuple[Cut, ...], dict[int, int]] = {}

    def add(self, cut: Mapping[int, int]) -> None:
        """Remember that these capacities together are too small."""
        if len(cut) == 1:
            ((channel, most),) = cut.items()
            self.lower[channel] = max(self.lower[channel], most + self.steps[channel])
            self._solved.clear()
            return
        new = tuple(sorted(cut.items()))
        self.cuts = [old for old in self.cuts if not _covers(new, old)]
        self.cuts.append(new)

    def minimum(self) -> list[int]:
        """Capacities of least cost that avoid every cut. Raises TooManyCombinationsError."""
        self.cuts = [cut for cut in self.cuts if all(self.lower[channel] <= most for channel, most in cut)]
        found = list(self.lower)
        solved: dict[tuple[Cut, ...], dict[int, int]] = {}
        for group in _connected(self.cuts):
            answer = self._solved.get(group)
            if answer is None:
                answer = self._solve(group)
            solved[group] = answer
            for channel, capacity in answer.items():
                found[channel] = capacity
        self._solved = solved
        return found

    def cost(self, capacities: Sequence[int]) -> int:
        return sum(map(int.__mul__, capacities, self.costs))

    def _solve(self, group: Sequence[Cut]) -> dict[int, int]:
        channels = sorted({channel for cut in group for channel, _ in cut})
        place = {channel: i for i, channel in enumerate(channels)}
        steps = [self.steps[channel] for channel in channels]
        costs = [self.costs[channel] for channel in channels]
        cuts = [tuple((place[channel], most) for channel, most in cut) for cut in group]
        cuts.sort(key=len)
        start = tuple(self.lower[channel] for channel in channels)
        free: tuple[int | None, ...] = (None,) * len(channels)
        ticket = count()
        heap = [(0, next(ticket), 0, start, free)]
        for _ in range(self.max_nodes):
            _, _, spent, at, most_allowed = heappop(heap)
            left = [cut for cut in cuts if all(at[i] <= most for i, most in cut)]
            if not left:
                return dict(zip(channels, at, strict=True))
            for child, allowed, extra in _branches(left, at, most_allowed, steps, costs):
                bound = _disjoint_bound(cuts, child, allowed, steps, costs)
                if bound is not None:
                    heappush(heap, (spent + extra + bound, next(ticket), spent + extra, child, allowed))
        raise TooManyCombinationsError


_Levels = tuple[int, ...]
_Limits = tuple["int | None", ...]


def _branches(
    left: Sequence[Sequence[tuple[int, int]]], at: _Levels, allowed: _Limits, steps: Sequence[int], costs: Sequence[int]
) -> list[tuple[_Levels, _Limits, int]]:
    """The ways to avoid the cut that leaves the fewest, each excluding those before it."""
    ways = min((_ways(cut, allowed, steps) for cut in left), key=len)
    found = []
    for i, most in ways:
        child = (*at[:i], most + steps[i], *at[i + 1 :])
        found.append((child, allowed, (most + steps[i] - at[i]) * costs[i]))
        allowed = (*allowed[:i], most, *allowed[i + 1 :])
    return found


def _ways(cut: Sequence[tuple[int, int]], allowed: _Limits, steps: Sequence[int]) -> list[tuple[int, int]]:
    return [(i, most) for i, most in cut if (limit := allowed[i]) is None or most + steps[i] <= limit]


def _disjoint_bound(
    cuts: Sequence[Sequence[tuple[int, int]]], at: _Levels, allowed: _Limits, steps: Sequence[int], costs: Sequence[int]
) -> int | None:
    """Least cost of avoiding cuts that share no channel, taken as they come; None if one cannot be avoided."""
    used: set[int] = set()
    total = 0
    for cut in cuts:
        if any(at[i] > most for i, most in cut):
            continue
        ways = _ways(cut, allowed, steps)
        if not ways:
            return None
        if not used.intersection(i for i, _ in ways):
            used.update(i for i, _ in ways)
            total += min((most + steps[i] - at[i]) * costs[i] for i, most in ways)
    return total


def _covers(strong: Cut, weak: Cut) -> bool:
    """Whether what avoids the strong cut avoids the weak one."""
    most = dict(weak)
    return all(channel in most and capacity >= most[channel] for channel, capacity in strong)


def _connected(cuts: Sequence[Cut]) -> list[tuple[Cut, ...]]:
    """The cuts in groups that have no channel in common."""
    leader: dict[int, int] = {}

    def find(channel: int) -> int:
        while leader.setdefault(channel, channel) != channel:
            leader[channel] = leader[leader[channel]]
            channel = leader[channel]
        return channel

    for cut in cuts:
        for channel, _ in cut[1:]:
            leader[find(channel)] = find(cut[0][0])
    groups: dict[int, list[Cut]] = {}
    for cut in cuts:
        groups.setdefault(find(cut[0][0]), []).append(cut)
    return [tuple(sorted(group)) for group in groups.values()]
