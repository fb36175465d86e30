"""Laws of the exact analysis on seeded random graphs: two methods agree, sizes suffice and are
least, brute force agrees.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from csdfgen.charts import replay, trace_periodic
from csdfgen.dataflow.graph import CsdfGraph, add_serial_loops
from csdfgen.errors import ScheduleError
from schedules.check import check
from schedules.liveness import find_deadlock
from schedules.periodic import periodic_schedule
from schedules.selftimed import execute_iterations
from schedules.sizing import lower_bounds
from schedules.starts import time_unit
from schedules.static import POLICIES, static_schedule
from schedules.storage import pareto_front, size_storage
from schedules.throughput import throughput
from tests.graphs import SEEDED, consistent_graphs

GRAPHS = st.builds(add_serial_loops, consistent_graphs(live=False))
SMALL = st.builds(add_serial_loops, consistent_graphs(max_actors=3, live=False))


@settings(SEEDED, max_examples=150)
@given(GRAPHS)
def test_execution_and_cycle_ratio_agree(graph: CsdfGraph) -> None:
    executed, expanded = (
        throughput(graph, method="self-timed"),
        throughput(graph, method="cycle-ratio"),
    )
    assert executed.value == expanded.value
    assert executed.exact and expanded.exact
    assert (expanded.value == 0) == (find_deadlock(graph) is not None)


@settings(SEEDED, max_examples=100)
@given(consistent_graphs(live=False))
def test_they_agree_on_actors_that_overlap_with_themselves(graph: CsdfGraph) -> None:
    executed, expanded = (
        throughput(graph, method="self-timed", max_firings=20_000),
        throughput(graph, method="cycle-ratio"),
    )
    assert executed.value == expanded.value


@settings(SEEDED, max_examples=100)
@given(GRAPHS)
def test_one_periodic_is_a_lower_bound(graph: CsdfGraph) -> None:
    bound, exact = throughput(graph, method="1-periodic"), throughput(graph)
    assert bound.value <= exact.value <= bound.upper
    assert not bound.exact or bound.value == exact.value


@settings(SEEDED, max_examples=100)
@given(GRAPHS)
def test_least_storage_is_live_and_every_token_counts(graph: CsdfGraph) -> None:
    assume(find_deadlock(graph) is None)
    found = size_storage(graph, "live")
    assert found.exact and found.throughput > 0
    assert throughput(graph, found.capacities).value == found.throughput
    check(graph, static_schedule(graph, found.capacities))
    tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
    for name, capacity in found.capacities.items():
        if capacity > tokens[name]:
            assert find_deadlock(graph, {**found.capacities, name: capacity - 1}) is not None


@settings(SEEDED, max_examples=100)
@given(GRAPHS)
def test_storage_for_the_highest_throughput(graph: CsdfGraph) -> None:
    best = throughput(graph).value
    assume(0 < best < inf)
    found = size_storage(graph, "maximal")
    assert found.exact
    assert (
        found.throughput == best == throughput(graph, found.capacities, method="self-timed").value
    )
    tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
    for name, capacity in found.capacities.items():
        if capacity > tokens[name]:
            assert throughput(graph, {**found.capacities, name: capacity - 1}).value < best


@settings(SEEDED, max_examples=30)
@given(SMALL)
def test_fronts_are_those_of_brute_force(graph: CsdfGraph) -> None:
    assume(find_deadlock(graph) is None)
    front = list(pareto_front(graph))
    names = list(front[0].capacities)
    tokens = [next(c.initial_tokens for c in graph.channels if c.name == name) for name in names]
    top = front[-1].size
    spare = top - sum(tokens)
    combinations = 1
    for _ in names:
        combinations *= spare + 1
    assume(combinations <= 3000)
    best: dict[int, Fraction | float] = {}
    for extra in product(range(spare + 1), repeat=len(names)):
        if sum(extra) <= spare:
            capacities = {
                name: token + more for name, token, more in zip(names, tokens, extra, strict=True)
            }
            value = throughput(graph, capacities, method="self-timed").value
            best[sum(capacities.values())] = max(best.get(sum(capacities.values()), 0), value)
    wanted, reached = [], Fraction(0)
    for size, value in sorted(best.items()):
        if value > reached:
            wanted.append((size, value))
            reached = value
    assert [(point.size, point.throughput) for point in front] == wanted


@settings(SEEDED, max_examples=60)
@given(GRAPHS)
def test_lower_bounds_are_necessary(graph: CsdfGraph) -> None:
    assume(find_deadlock(graph) is None)
    tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
    for name, least in lower_bounds(graph).items():
        if least > tokens[name]:
            assert find_deadlock(graph, {name: least - 1}) is not None


@settings(SEEDED, max_examples=60)
@given(GRAPHS)
def test_periodic_schedules_keep_every_dependency(graph: CsdfGraph) -> None:
    best = throughput(graph).value
    assume(0 < best < inf)
    schedule = periodic_schedule(graph)
    assert schedule.period == 1 / Fraction(best)
    times = {actor.name: actor.execution_times for actor in graph.actors}
    iterations = 3

    def ends(actor: str, taken: bool) -> list[tuple[Fraction, int]]:
        """Firings of a few iterations: when each starts, or ends, and its phase."""
        rows = times[actor]
        starts = schedule.starts[actor]
        return [
            (start + k * schedule.period + (0 if taken else rows[n % len(rows)]), n % len(rows))
            for k in range(iterations)
            for n, start in enumerate(starts)
        ]

    for channel in graph.channels:
        arrivals = [
            (when, channel.production[phase]) for when, phase in ends(channel.source, taken=False)
        ]
        consumed = 0
        for start, phase in ends(channel.target, taken=True):
            consumed += channel.consumption[phase]
            there = channel.initial_tokens + sum(rate for when, rate in arrivals if when <= start)
            assert not channel.consumption[phase] or there >= consumed


@settings(SEEDED, max_examples=60)
@given(consistent_graphs(live=False), st.booleans())
def test_periodic_schedules_are_followed_token_by_token(graph: CsdfGraph, serial: bool) -> None:
    graph = add_serial_loops(graph) if serial else graph
    best = throughput(graph).value
    assume(0 < best < inf)
    names = [channel.name for channel in graph.channels]
    room = dict(
        zip(names, replay(trace_periodic(graph, periodic_schedule(graph))).peaks(), strict=True)
    )
    within = periodic_schedule(graph, room)
    assert within.period == 1 / Fraction(best)
    held = replay(trace_periodic(graph, within, room)).peaks()
    assert all(tokens <= room[name] for name, tokens in zip(names, held, strict=True))


@settings(SEEDED, max_examples=60)
@given(GRAPHS, st.data())
def test_no_firing_of_a_period_can_start_earlier(graph: CsdfGraph, data: st.DataObject) -> None:
    best = throughput(graph).value
    assume(0 < best < inf)
    schedule = periodic_schedule(graph)
    starts = {name: list(row) for name, row in schedule.starts.items()}
    later = [  # but not before the firing in front of it
        (name, n)
        for name, row in starts.items()
        for n, start in enumerate(row)
        if start > max(0, row[n - 1] - (0 if n else schedule.period))
    ]
    assume(later)
    name, n = data.draw(st.sampled_from(later))
    starts[name][n] -= time_unit(schedule)
    with pytest.raises(ScheduleError):
        replay(trace_periodic(graph, replace(schedule, starts=starts)))


@settings(SEEDED, max_examples=60)
@given(GRAPHS, st.integers(1, 3))
def test_self_timed_orders_pass_the_check(graph: CsdfGraph, iterations: int) -> None:
    assume(find_deadlock(graph) is None)
    timing = execute_iterations(graph, iterations=iterations)
    peaks = {channel.name: peak for channel, peak in zip(graph.channels, timing.peaks, strict=True)}
    schedule = static_schedule(graph, peaks, iterations)
    check(graph, schedule)
    assert dict(schedule.capacities) == peaks


@settings(SEEDED, max_examples=60)
@given(GRAPHS, st.sampled_from(POLICIES), st.integers(1, 2))
def test_every_policy_ends_within_capacity(graph: CsdfGraph, policy: str, iterations: int) -> None:
    assume(find_deadlock(graph) is None)
    found = size_storage(graph, "live")
    schedule = static_schedule(graph, found.capacities, iterations, policy)
    check(graph, schedule)
    assert {name: schedule.capacities[name] for name in found.capacities} == found.capacities
