"""Laws of sizing on seeded random graphs: what is called necessary is; what falls back on periodic
schedules suffices.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from csdfgen.dataflow.graph import CsdfGraph, add_serial_loops
from schedules.hitting import Cuts
from schedules.liveness import find_deadlock
from schedules.patterns import periodic_levels
from schedules.rings import Rings, split_rings
from schedules.sizing import LIVE, Goal, Sizing
from schedules.storage import pareto_front, size_storage
from schedules.throughput import throughput
from tests.graphs import SEEDED, consistent_graphs

GRAPHS = st.builds(add_serial_loops, consistent_graphs(live=False))
OVERLAPPING = consistent_graphs(live=False)

_SHARES = 300
"""Ways to share out room that are tried for one ring."""


def sizing_of(graph: CsdfGraph) -> Sizing:
    """Of a graph that does not deadlock and whose throughput is limited."""
    assume(find_deadlock(graph) is None)
    sizing = Sizing(graph, "tokens")
    assume(sizing.unlimited > 0)
    return sizing


@settings(SEEDED, max_examples=100)
@given(st.one_of(GRAPHS, OVERLAPPING), st.integers(0, 4))
def test_rings_need_their_sums(graph: CsdfGraph, slower: int) -> None:
    sizing = sizing_of(graph)
    goal = Goal(sizing.unlimited * (4 + slower) / 4) if slower < 4 else LIVE
    floor = [0] * len(sizing.sized)
    for cycle in sizing.judge(sizing.capacities(dict(enumerate(floor))), goal):
        for ring in split_rings(cycle):
            found = Rings(sizing).least_sum(ring, floor, floor, goal)
            if found is None:
                continue
            units, needed = found
            shares = list(product(*(range(-(-needed // unit)) for unit in units.values())))
            assert needed > 0
            for share in shares[:_SHARES]:
                levels = dict(zip(units, share, strict=True))
                if sum(unit * levels[place] for place, unit in units.items()) < needed:
                    assert sizing.judge(sizing.capacities(levels), goal)


@settings(SEEDED, max_examples=80)
@given(GRAPHS, st.fractions(1, 4, max_denominator=7))
def test_periodic_schedules_have_storage(graph: CsdfGraph, slower: Fraction) -> None:
    # where firings take no time, some may wait for each other at one instant
    actors = tuple(
        replace(actor, execution_times=tuple(time + 1 for time in actor.execution_times))
        for actor in graph.actors
    )
    graph = replace(graph, actors=actors)
    sizing = sizing_of(graph)
    period = sizing.unlimited * slower
    levels = periodic_levels(sizing, [0] * len(sizing.sized), period)
    assert levels is not None
    capacities = {
        sizing.channels[place].name: capacity
        for place, capacity in sizing.capacities(dict(enumerate(levels))).items()
    }
    assert throughput(graph, capacities, method="self-timed").value >= 1 / period
    assert sum(capacities.values()) >= size_storage(graph, 1 / period).size


@settings(SEEDED, max_examples=40)
@given(GRAPHS, st.integers(1, 5))
def test_fronts_without_time_are_bounds(graph: CsdfGraph, rest: int) -> None:
    assume(find_deadlock(graph) is None and throughput(graph).value < inf)
    exact = list(pareto_front(graph))
    hasty = list(pareto_front(graph, seconds=0.0, rest=rest))
    assert hasty[-1].throughput == exact[-1].throughput
    assert [point.size for point in hasty] == sorted({point.size for point in hasty})
    for point in hasty:
        least = next(one.size for one in exact if one.throughput >= point.throughput)
        assert point.least <= least <= point.size
        assert throughput(graph, point.capacities, method="self-timed").value == point.throughput
        assert not point.exact or point.size == least


_COSTS = st.lists(st.integers(0, 4), min_size=3, max_size=4)
_LEVELS = st.dictionaries(st.integers(0, 2), st.integers(0, 2), min_size=1, max_size=3)
_UNITS = st.dictionaries(st.integers(0, 2), st.integers(1, 3), min_size=1, max_size=3)


@settings(SEEDED, max_examples=80)
@given(
    _COSTS,
    st.lists(_LEVELS, max_size=5),
    st.lists(st.tuples(_UNITS, st.integers(1, 8)), max_size=3),
)
def test_requirements_are_met_at_least_cost(
    costs: list[int], cuts: list[dict[int, int]], sums: list[tuple[dict[int, int], int]]
) -> None:
    def meets(levels: tuple[int, ...]) -> bool:
        hit = all(any(levels[channel] > most for channel, most in cut.items()) for cut in cuts)
        return hit and all(
            sum(unit * levels[channel] for channel, unit in units.items()) >= needed
            for units, needed in sums
        )

    least = min(
        sum(map(int.__mul__, levels, costs))
        for levels in product(range(9), repeat=3)
        if meets(levels)
    )
    for max_nodes in (1000, 0):  # by search, by integer programming
        known = Cuts(costs, max_nodes)
        for cut in cuts:
            known.add(cut)
        for units, needed in sums:
            known.add_sum(units, needed)
        found = known.minimum(10)
        assert found.least == least == known.cost(found.levels)
        assert meets(tuple(found.levels))
