"""Which capacities suffice for a period, if every actor repeats one pattern of starts?

The patterns are fixed and shifted relative to each other. The shifts are the variables of a linear program, in which
the capacity of every channel is a convex function of the shift between its ends (Benazouz et al., "A new method for
minimizing buffer sizes for cyclo-static dataflow graphs", 2010; here with one variable per actor instead of one per
phase). The patterns are those of a steady flow, in which the time between firings is in proportion to their work; if a
cycle of channels does not allow these, they are the earliest starts with this period. The time hardly grows with the
number of rows. HiGHS computes in floating point, so that the capacities have to be tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from schedules.links import Component, Link
from schedules.periodic import earliest_starts
from schedules.sizing import Sizing, find_last_true

Array = Any

_LEVELS = 8
"""Levels above the floor at which the shift is computed for each level; beyond them levels double."""

_SLACK = 1e-7
"""Shifts, as a share of the period, below which two are equal."""


def periodic_levels(sizing: Sizing, floor: Sequence[int], period: Fraction) -> list[int] | None:
    """Levels of low cost, none below the floor, for which periodic schedules of this period are expected to exist,
    except where firings that take no time wait for each other at one instant.

    None if the period is shorter than that of unbounded channels, or if no time passes.
    """
    if not period or period < sizing.unlimited:
        return None
    periods = [period / share for share in sizing.shares]
    for patterns in (_steady(sizing), _earliest(sizing, periods)):
        levels = _Shifts(sizing, patterns, periods).levels(floor)
        if levels is not None:
            return levels
    return None


def _steady(sizing: Sizing) -> list[Array]:
    """Starts of the firings of every actor, as shares of its period, at distances in proportion to their times."""
    patterns = []
    for actor in range(len(sizing.quota)):
        times = sizing.whole.weights(actor).astype(float)
        if not times.any():
            times = np.ones(len(times))
        patterns.append((np.cumsum(times) - times) / times.sum())
    return patterns


def _earliest(sizing: Sizing, periods: Sequence[Fraction]) -> list[Array]:
    """The earliest starts of a schedule with these periods, as shares of the periods."""
    patterns = [np.zeros(count) for count in sizing.quota]
    for part in sizing.parts:
        inside = [link for link in sizing.links if link.source in part.actors]
        system = sizing.whole.precedence(Component(part.actors, tuple(inside)))
        period = periods[part.actors[0]]
        starts = earliest_starts(system, period).astype(float) / period.numerator
        for actor in part.actors:
            patterns[actor] = starts[
                system.first[actor] : system.first[actor] + sizing.quota[actor]
            ]
    return patterns


class _Shifts:
    """Patterns and their shifts. Times are shares of the period."""

    def __init__(
        self, sizing: Sizing, patterns: Sequence[Array], periods: Sequence[Fraction]
    ) -> None:
        self.sizing = sizing
        self.patterns = patterns
        self.actors = len(patterns)
        weights = [sizing.whole.weights(actor).astype(float) for actor in range(self.actors)]
        self.ends = [
            start + taken / float(one)
            for start, taken, one in zip(patterns, weights, periods, strict=True)
        ]

    def levels(self, floor: Sequence[int]) -> list[int] | None:
        """Levels for the shifts of least cost; None if no shifts are possible."""
        from scipy.optimize import linprog
        from scipy.sparse import coo_array

        sizing = self.sizing
        least: dict[tuple[int, int], float] = {}
        for link in sizing.links:
            ends = link.source, link.target
            least[ends] = max(least.get(ends, -np.inf), self.distance(link))
        if any(
            source == target and distance > _SLACK for (source, target), distance in least.items()
        ):
            return None
        rows = [
            ({target: 1.0, source: -1.0}, bound)
            for (source, target), bound in least.items()
            if source != target
        ]
        costs = [0.0] * self.actors
        variable: dict[int, int] = {}
        for place, link in enumerate(sizing.sized):
            if link.source == link.target:
                continue
            variable[place] = len(costs)
            costs.append(float(sizing.weights[place] * sizing.steps[place]))
            for slope, height in _hull(list(self.points(place, floor[place]))):
                # level >= height + slope * (shift of the source - shift of the target), slope < 0
                rows.append(
                    ({variable[place]: 1.0, link.source: -slope, link.target: slope}, height)
                )
        entries = [
            (number, column, value)
            for number, (row, _) in enumerate(rows)
            for column, value in row.items()
        ]
        largest = max(costs) or 1.0
        shifts = np.zeros(self.actors)
        if entries:
            number, column, value = (np.array(part) for part in zip(*entries, strict=True))
            where = (
                number.astype(np.int32),
                column.astype(np.int32),
            )  # older versions of scipy take no other integers
            matrix = coo_array((value, where), shape=(len(rows), len(costs))).tocsr()
            result = linprog(
                np.array(costs) / largest,
                A_ub=-matrix,
                b_ub=-np.array([bound for _, bound in rows]),
                bounds=[(None, None)] * self.actors + [(0, None)] * len(variable),
                method="highs",
            )
            if result.x is None:
                return None
            shifts = result.x[: self.actors]
        return [self.level(place, floor[place], shifts) for place in range(len(sizing.sized))]

    def distance(self, link: Link) -> float:
        """The least shift of the target relative to the source."""
        edges = self.sizing.whole.find_edges(link)
        return float(
            (
                self.ends[link.source][edges.tail]
                - self.patterns[link.target][edges.head]
                - edges.delay
            ).max()
        )

    def points(self, place: int, floor: int) -> Iterator[tuple[float, int]]:
        """(least shift of the source relative to the target, level above the floor that requires it), up to levels of
        one more iteration.
        """
        link = self.sizing.sized[place]
        tokens = sum(link.production) * (self.sizing.quota[link.source] // len(link.production))
        iteration = tokens // self.sizing.steps[place]
        start = self.needed(place, floor)
        level = 0
        while level < iteration:
            yield self.needed(place, floor + level) if level else start, level
            level = level + 1 if level < _LEVELS else level * 2
        yield start - 1, iteration

    def needed(self, place: int, level: int) -> float:
        """The least shift of the source of a channel relative to its target, at a level."""
        sizing = self.sizing
        return self.distance(sizing.space(place, sizing.lower[place] + level * sizing.steps[place]))

    def level(self, place: int, floor: int, shifts: Array) -> int:
        """The least level of a channel that allows the shifts of its ends."""
        link = self.sizing.sized[place]
        allowed = float(shifts[link.source] - shifts[link.target]) + _SLACK
        return find_last_true(floor - 1, lambda level: self.needed(place, level) > allowed) + 1


def _hull(points: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """Slope and height at 0 of the lines of the lower convex hull of points, which go to the left and up."""
    corners: list[tuple[float, int]] = []
    for x, y in points:
        if corners and corners[-1][0] - x < _SLACK:
            continue  # it allows no larger shift
        while len(corners) > 1 and _slope(corners[-2], (x, y)) > _slope(corners[-2], corners[-1]):
            corners.pop()
        corners.append((x, y))
    lines = []
    for one, other in pairwise(corners):
        slope = _slope(one, other)
        lines.append((slope, one[1] - slope * one[0]))
    return lines


def _slope(one: tuple[float, int], other: tuple[float, int]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])
