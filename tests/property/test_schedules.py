"""Laws of schedules over random graphs: every order is accepted, every planted fault is refused,
loops lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.errors import CapacityExceededError, DeadlockError, ScheduleError
from schedules import SCHEDULERS, Firing, Schedule, check
from schedules.schedule import compact_loops, expand, from_json, to_json
from tests.graphs import SEEDED, consistent_graphs

policies = st.sampled_from(sorted(SCHEDULERS))


@given(consistent_graphs(), policies, st.integers(1, 3))
@settings(SEEDED, max_examples=120)
def test_the_checker_accepts_every_schedule(graph: CsdfGraph, policy: str, iterations: int) -> None:
    schedule = SCHEDULERS[policy](graph, iterations)
    check(graph, schedule)
    assert len(schedule.firings) == iterations * sum(repetition_vector(graph).values())


@given(consistent_graphs(live=False))
@settings(SEEDED, max_examples=100)
def test_whether_a_graph_deadlocks_does_not_depend_on_the_order(graph: CsdfGraph) -> None:
    """Firing an enabled actor never disables another one (dataflow is monotone)."""
    outcomes = set()
    for scheduler in SCHEDULERS.values():
        try:
            check(graph, scheduler(graph, 1))
            outcomes.add("live")
        except DeadlockError:
            outcomes.add("deadlock")
    assert len(outcomes) == 1
    assert outcomes == {"live" if _any_order_ends(graph) else "deadlock"}


def _any_order_ends(graph: CsdfGraph) -> bool:
    """Fire whatever can fire, first listed first, until the iteration is complete or nothing can."""
    left = repetition_vector(graph)
    phase = dict.fromkeys(left, 0)
    tokens = {c.name: c.initial_tokens for c in graph.channels}
    phases = graph.phases
    fired = True
    while fired:
        fired = False
        for actor in left:
            inputs = [c for c in graph.channels if c.target == actor]
            if left[actor] and all(tokens[c.name] >= c.consumption[phase[actor]] for c in inputs):
                for c in inputs:
                    tokens[c.name] -= c.consumption[phase[actor]]
                for c in graph.channels:
                    if c.source == actor:
                        tokens[c.name] += c.production[phase[actor]]
                phase[actor] = (phase[actor] + 1) % phases[actor]
                left[actor] -= 1
                fired = True
    return not any(left.values())


@given(consistent_graphs(), policies, st.data())
@settings(SEEDED, max_examples=150)
def test_a_dropped_firing_is_refused(graph: CsdfGraph, policy: str, data: st.DataObject) -> None:
    schedule = SCHEDULERS[policy](graph, 1)
    at = data.draw(st.integers(0, len(schedule.firings) - 1))
    _refused(graph, replace(schedule, firings=schedule.firings[:at] + schedule.firings[at + 1 :]))


@given(consistent_graphs(), policies, st.data())
@settings(SEEDED, max_examples=150)
def test_a_repeated_phase_is_refused(graph: CsdfGraph, policy: str, data: st.DataObject) -> None:
    schedule = SCHEDULERS[policy](graph, 1)
    at = data.draw(st.integers(0, len(schedule.firings) - 1))
    _refused(
        graph,
        replace(
            schedule, firings=(*schedule.firings[:at], schedule.firings[at], *schedule.firings[at:])
        ),
    )


@given(consistent_graphs(), policies, st.data())
@settings(SEEDED, max_examples=150)
def test_a_capacity_is_smaller_by_one(graph: CsdfGraph, policy: str, data: st.DataObject) -> None:
    schedule = SCHEDULERS[policy](graph, 1)
    sized = sorted(name for name, tokens in schedule.capacities.items() if tokens)
    assume(sized)
    name = data.draw(st.sampled_from(sized))
    smaller = {**schedule.capacities, name: schedule.capacities[name] - 1}
    with pytest.raises(CapacityExceededError, match=f"'{name}'"):
        check(graph, replace(schedule, capacities=smaller))


@given(consistent_graphs(), policies)
@settings(SEEDED, max_examples=150)
def test_two_dependent_firings_swapped_are_refused(graph: CsdfGraph, policy: str) -> None:
    schedule = SCHEDULERS[policy](graph, 1)
    for at in _dependent(graph, schedule):
        swapped = list(schedule.firings)
        swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
        _refused(graph, replace(schedule, firings=tuple(swapped)))


def _dependent(graph: CsdfGraph, schedule: Schedule) -> Iterator[int]:
    """Where a firing needs the one just before it: its actor's own last phase, or tokens that this
    one brought.
    """
    tokens = {c.name: c.initial_tokens for c in graph.channels}
    pairs = zip(schedule.firings, schedule.firings[1:], strict=False)
    for at, (first, second) in enumerate(pairs):
        between = [c for c in graph.channels if (c.source, c.target) == (first.actor, second.actor)]
        lacks = any(tokens[c.name] < c.consumption[second.phase] for c in between)
        if lacks if first.actor != second.actor else first != second:
            yield at
        for c in graph.channels:
            if c.target == first.actor:
                tokens[c.name] -= c.consumption[first.phase]
            if c.source == first.actor:
                tokens[c.name] += c.production[first.phase]


def _refused(graph: CsdfGraph, schedule: Schedule) -> None:
    with pytest.raises(ScheduleError):
        check(graph, schedule)


firings = st.builds(
    Firing, st.sampled_from("abc"), st.integers(0, 3), st.sampled_from((0, 0, 0, 1))
)


@given(st.lists(firings, max_size=60))
@settings(SEEDED, max_examples=300)
def test_loops_lose_nothing_of_any_sequence(sequence: list[Firing]) -> None:
    for nested in (True, False):
        assert list(expand(compact_loops(sequence, nested=nested))) == sequence


@given(
    st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), max_size=8),
    st.integers(1, 4),
)
@settings(SEEDED, max_examples=300)
def test_loops_lose_nothing_of_sequences_that_repeat(patterns: list[list[str]], times: int) -> None:
    phases = {"a": 1, "b": 2, "c": 3, "d": 100_000}
    fired = dict.fromkeys(phases, 0)
    sequence = []
    for actor in [actor for pattern in patterns for actor in pattern * times] * times:
        sequence.append(Firing(actor, fired[actor] % phases[actor]))
        fired[actor] += 1
    for nested in (True, False):
        assert list(expand(compact_loops(sequence, nested=nested))) == sequence


@given(consistent_graphs(), policies, st.integers(1, 3))
@SEEDED
def test_json_gives_the_schedule_back(graph: CsdfGraph, policy: str, iterations: int) -> None:
    schedule = SCHEDULERS[policy](graph, iterations)
    assert from_json(to_json(schedule)) == schedule
