"""Which levels of least cost meet all requirements that are known?

A cut lists levels that are too small together: one of its channels needs a higher level, whatever the levels of others
are. A sum is a lower bound on the sum of some levels. The least levels that meet both form a hitting set problem with
levels (implicit hitting sets: Davies and Bacchus, "Solving MAXSAT by solving a sequence of simpler SAT instances",
2011). It is solved separately for channels that no requirement connects: in whole numbers by best-first search with a
bound from disjoint requirements or, where that takes too long, as an integer program by HiGHS (Huangfu and Hall,
"Parallelizing the dual revised simplex method", 2018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import floor, gcd

import numpy as np

_MARGIN = 1e-6
"""Relative margin that is subtracted from the bound of a program that was not solved to its end."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """Channels with their largest levels that are too small together, sorted by channel."""

    most: tuple[tuple[int, int], ...]

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(channel for channel, _ in self.most)

    def met(self, levels: Mapping[int, int]) -> bool:
        return any(levels[channel] > most for channel, most in self.most)

    def ways(self, levels: Mapping[int, int]) -> Sequence[tuple[int, int]]:
        """(channel, level): the requirement is met if one of these channels exceeds its level."""
        return self.most

    def cost(
        self, levels: Mapping[int, int], ways: Sequence[tuple[int, int]], costs: Sequence[int]
    ) -> int:
        """Least cost of meeting the requirement by some of its `ways`."""
        return min((most + 1 - levels[channel]) * costs[channel] for channel, most in ways)


@dataclass(frozen=True, slots=True)
class _Sum:
    """Channels with coefficients, sorted by channel, and a lower bound of the sum of coefficient * level."""

    terms: tuple[tuple[int, int], ...]
    needed: int

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(channel for channel, _ in self.terms)

    def met(self, levels: Mapping[int, int]) -> bool:
        return self.missing(levels) <= 0

    def missing(self, levels: Mapping[int, int]) -> int:
        return self.needed - sum(unit * levels[channel] for channel, unit in self.terms)

    def ways(self, levels: Mapping[int, int]) -> Sequence[tuple[int, int]]:
        return [(channel, levels[channel]) for channel, _ in self.terms]

    def cost(
        self, levels: Mapping[int, int], ways: Sequence[tuple[int, int]], costs: Sequence[int]
    ) -> int:
        left = {channel for channel, _ in ways}
        missing = self.missing(levels)
        return min(
            -(-missing * costs[channel] // unit) for channel, unit in self.terms if channel in left
        )


Requirement = _Cut | _Sum
_Group = tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Minimum:
    """Levels that meet all requirements, and a lower bound of the cost: their cost, unless the search was given up."""

    levels: list[int]
    least: int


class Cuts:
    """The requirements that are known: a floor for every channel, cuts and sums of several. costs: of one level of a
    channel.
    """

    def __init__(self, costs: Sequence[int], max_nodes: int = 1_000) -> None:
        self.floor = [0] * len(costs)
        self.costs = costs
        self.max_nodes = max_nodes
        self.found: list[Requirement] = []
        self._solved: dict[_Group, tuple[dict[int, int], int]] = {}

    def add(self, cut: Mapping[int, int]) -> Requirement:
        """Keep the requirement that these levels are too small together."""
        new = _Cut(tuple(sorted(cut.items())))
        if len(cut) == 1:
            ((channel, most),) = cut.items()
            self._raise(channel, most + 1)
        else:
            self.found = [
                old for old in self.found if not (isinstance(old, _Cut) and _covers(new, old))
            ]
            self.found.append(new)
        return new

    def add_sum(self, units: Mapping[int, int], needed: int) -> Requirement:
        """Keep the requirement that the sum of unit * level is at least `needed`."""
        new = _Sum(tuple(sorted(units.items())), needed)
        if len(units) == 1:
            ((channel, unit),) = units.items()
            self._raise(channel, -(-needed // unit))
        else:
            same = [old for old in self.found if isinstance(old, _Sum) and old.terms == new.terms]
            if any(old.needed >= needed for old in same):
                return new
            self.found = [old for old in self.found if old not in same]
            self.found.append(new)
        return new

    def _raise(self, channel: int, least: int) -> None:
        self.floor[channel] = max(self.floor[channel], least)
        self._solved.clear()

    def cost(self, levels: Sequence[int]) -> int:
        return sum(map(int.__mul__, levels, self.costs))

    def met(self, levels: Sequence[int]) -> bool:
        """Whether levels meet all requirements."""
        at = dict(enumerate(levels))
        return all(map(int.__ge__, levels, self.floor)) and all(one.met(at) for one in self.found)

    def meet(self, one: Requirement, levels: list[int]) -> None:
        """Raise levels until they meet a requirement, those first that cost little and help to meet others."""
        at = dict(enumerate(levels))
        wanted: dict[int, int] = {}
        for other in self.found:
            if not other.met(at):
                for channel in other.channels:
                    wanted[channel] = wanted.get(channel, 0) + 1

        def price(way: tuple[int, int]) -> float:
            channel, most = way
            return (most + 1 - at[channel]) * self.costs[channel] / wanted.get(channel, 1)

        while not one.met(at):
            channel, most = min(one.ways(at), key=price)
            levels[channel] = at[channel] = most + 1

    def minimum(self, seconds: float) -> Minimum:
        """Levels of least cost that meet all requirements; after about so many seconds, levels of nearly that cost."""
        at = dict(enumerate(self.floor))
        self.found = [one for one in self.found if not one.met(at)]
        least = self.cost(self.floor)
        solved: dict[_Group, tuple[dict[int, int], int]] = {}
        for group in _connected(self.found):
            answer = self._solved.get(group)
            if answer is None:
                start = {channel: self.floor[channel] for one in group for channel in one.channels}
                answer = self._search(group, start) or self._program(group, start, seconds)
            solved[group] = answer
            at.update(answer[0])
            least += answer[1]
        self._solved = solved
        return Minimum([at[channel] for channel in range(len(at))], least)

    def _search(self, group: _Group, start: Mapping[int, int]) -> tuple[dict[int, int], int] | None:
        """Levels of the channels of a group and their cost above the floor, by best-first search; None after too many
        nodes.
        """
        ordered = sorted(group, key=lambda one: len(one.channels))
        ticket = count()
        free: dict[int, int] = {}
        heap = [(0, 0, next(ticket), 0, dict(start), free)]
        for _ in range(self.max_nodes):
            _, raised, _, spent, at, allowed = heappop(heap)
            left = [one for one in ordered if not one.met(at)]
            if not left:
                return at, spent
            for channel, most in min((_left(one, at, allowed) for one in left), key=len):
                rise = most + 1 - at[channel]
                child, extra = {**at, channel: most + 1}, spent + rise * self.costs[channel]
                bound = self._disjoint(left, child, allowed)
                if bound is not None:
                    heappush(
                        heap, (extra + bound, raised + rise, next(ticket), extra, child, allowed)
                    )
                allowed = {**allowed, channel: most}
        return None

    def _disjoint(
        self, group: Sequence[Requirement], at: Mapping[int, int], allowed: Mapping[int, int]
    ) -> int | None:
        """Least cost of meeting requirements without a common channel, taken in their order; None if one cannot be
        met.
        """
        used: set[int] = set()
        total = 0
        for one in group:
            if one.met(at):
                continue
            ways = _left(one, at, allowed)
            if not ways:
                return None
            if used.isdisjoint(channel for channel, _ in ways):
                used.update(channel for channel, _ in ways)
                total += one.cost(at, ways, self.costs)
        return total

    def _program(
        self, group: _Group, start: Mapping[int, int], seconds: float
    ) -> tuple[dict[int, int], int]:
        """The result of `_search` by integer programming; after so many seconds the best levels found, and a bound."""
        levels, bound = _Program(group, start, self.costs).solve(seconds)
        cost = sum(
            (levels[channel] - least) * self.costs[channel] for channel, least in start.items()
        )
        grown = [levels.get(channel, least) for channel, least in enumerate(self.floor)]
        for one in group:
            # this is needed only if the error of the program is larger than expected
            if not one.met(dict(enumerate(grown))):
                bound = 0
                self.meet(one, grown)
        return {channel: grown[channel] for channel in start}, cost if bound is None else min(
            bound, cost
        )


class _Program:
    """The integer program of a group: a level for every channel, and for every cut a choice of the channel that exceeds
    its level.
    """

    def __init__(self, group: _Group, start: Mapping[int, int], costs: Sequence[int]) -> None:
        self.start = start
        self.column = {channel: number for number, channel in enumerate(start)}
        self.choice: dict[tuple[int, int], int] = {}
        self.entries: list[tuple[int, int, int]] = []
        self.needed: list[int] = []
        self.top = dict.fromkeys(start, 0)
        self.costs = [costs[channel] for channel in start]
        for one in group:
            if isinstance(one, _Cut):
                self._row([(self._choose(channel, most), 1) for channel, most in one.most], 1)
            else:
                missing = one.missing(start)
                self._row([(self.column[channel], unit) for channel, unit in one.terms], missing)
                for channel, unit in one.terms:
                    self.top[channel] = max(self.top[channel], -(-missing // unit))

    def _row(self, entries: Sequence[tuple[int, int]], needed: int) -> None:
        self.entries += [(len(self.needed), column, value) for column, value in entries]
        self.needed.append(needed)

    def _choose(self, channel: int, most: int) -> int:
        """The column of the choice that a channel exceeds a level."""
        found = self.choice.get((channel, most))
        if found is None:
            found = self.choice[channel, most] = len(self.column) + len(self.choice)
            rise = most + 1 - self.start[channel]
            self.top[channel] = max(self.top[channel], rise)
            self._row([(self.column[channel], 1), (found, -rise)], 0)
        return found

    def solve(self, seconds: float) -> tuple[dict[int, int], int | None]:
        """Levels, and a lower bound of the cost above the start, None if the levels attain it."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        row, column, value = np.array(
            self.entries, dtype=np.int32
        ).T  # older versions of scipy take no other integers
        size = len(self.column) + len(self.choice)
        matrix = coo_array((value, (row, column)), shape=(len(self.needed), size)).tocsr()
        top = [*self.top.values(), *[1] * len(self.choice)]
        unit = gcd(*self.costs) or 1
        nothing = 1 / (1 + sum(top))  # levels without a cost are kept low too
        costs = [cost // unit or nothing for cost in self.costs] + [0] * len(self.choice)
        result = milp(
            costs,
            integrality=[1] * size,
            bounds=Bounds([0] * size, top),
            constraints=LinearConstraint(matrix, self.needed),
            options={"mip_rel_gap": 0.0, "time_limit": max(seconds, 0.1)},
        )
        if result.x is None:
            return {channel: self.start[channel] + most for channel, most in self.top.items()}, 0
        levels = {
            channel: self.start[channel] + round(rise)
            for channel, rise in zip(self.column, result.x, strict=False)
        }
        if result.status == 0:
            return levels, None
        return levels, max(0, floor(result.mip_dual_bound * (1 - _MARGIN))) * unit


def _left(
    one: Requirement, at: Mapping[int, int], allowed: Mapping[int, int]
) -> list[tuple[int, int]]:
    """The `ways` to meet a requirement that are not excluded."""
    return [
        (channel, most)
        for channel, most in one.ways(at)
        if channel not in allowed or most < allowed[channel]
    ]


def _covers(strong: _Cut, weak: _Cut) -> bool:
    """Whether all levels that meet the strong cut meet the weak one."""
    most = dict(weak.most)
    return all(channel in most and level >= most[channel] for channel, level in strong.most)


def _connected(found: Sequence[Requirement]) -> list[_Group]:
    """The requirements in groups without common channels."""
    import networkx as nx

    together = nx.Graph()
    for one in found:
        nx.add_path(together, one.channels)
    number = {
        channel: part
        for part, channels in enumerate(nx.connected_components(together))
        for channel in channels
    }
    groups: dict[int, list[Requirement]] = {}
    for one in found:
        groups.setdefault(number[one.channels[0]], []).append(one)
    return [tuple(group) for group in groups.values()]
