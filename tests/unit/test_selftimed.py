"""What single graphs show about execution, deadlock, throughput, storage and schedules."""

from __future__ import annotations

import json
from fractions import Fraction
from math import inf

import pytest

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops, repetition_vector
from csdfgen.errors import CapacityExceededError, DeadlockError, GraphError, ScheduleError
from schedules.analysis import analyze, to_json
from schedules.check import check
from schedules.hitting import Cuts
from schedules.liveness import check_live, find_deadlock
from schedules.periodic import periodic_schedule
from schedules.selftimed import execute_iterations
from schedules.sizing import lower_bounds
from schedules.static import static_schedule
from schedules.storage import pareto_front, size_storage
from schedules.throughput import METHODS, throughput
from tests.cnn_graphs import SHAPES, cnn_graph
from tests.graphs import convolution, ring


def pair(tokens: int = 0) -> CsdfGraph:
    """Two serial actors of times 2 and 3."""
    actors = Actor("A", (2,)), Actor("B", (3,))
    return add_serial_loops(
        CsdfGraph("pair", actors, (Channel("ab", "A", "B", (1,), (1,), tokens),))
    )


def test_space_is_claimed_at_the_start_and_freed_at_the_end() -> None:
    assert throughput(pair(), {"ab": 1}).value == Fraction(1, 5)
    assert throughput(pair(), {"ab": 2}).value == Fraction(1, 3)
    assert throughput(pair()).value == Fraction(1, 3)


def test_the_critical_cycle_is_named() -> None:
    critical = throughput(pair(), {"ab": 1}).critical
    assert {(link.channel, link.space) for link in critical} == {("ab", False), ("ab", True)}
    assert [(link.source, link.channel) for link in throughput(pair()).critical] == [("B", "")]


def test_a_large_capacity_costs_linear_time() -> None:
    found = throughput(pair(), {"ab": 30_000}, method="self-timed")
    assert (found.value, found.method, found.period) == (Fraction(1, 3), "self-timed", 3)
    assert found.transient is not None and 60_000 < found.transient < 200_000
    assert found.peaks is not None and found.peaks["ab"] == 30_000


def test_what_nothing_limits_is_infinite() -> None:
    free = CsdfGraph(
        "free", (Actor("A", (2,)), Actor("B", (3,))), (Channel("ab", "A", "B", (1,), (1,)),)
    )
    still = CsdfGraph("still", (Actor("A", (0,)), Actor("B", (0,))), ring().channels)
    for graph in (free, still):
        for method in ("auto", "self-timed", "1-periodic"):
            assert throughput(graph, method=method).value == inf  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=r"nothing limits its throughput.*serial self-loops"):
        periodic_schedule(free)
    with pytest.raises(ScheduleError, match="no actor takes any time; give its actors execution"):
        periodic_schedule(still)
    assert to_json(analyze(free))["throughput"] == "inf"


def test_tokens_arrive_in_the_order_of_the_firings() -> None:
    overtaking = CsdfGraph(
        "overtaking",
        (Actor("A", (5, 1)), Actor("B", (1,))),
        (Channel("ab", "A", "B", (1, 1), (1,)), Channel("ba", "B", "A", (1,), (1, 1), 2)),
    )
    assert (
        throughput(overtaking).value
        == throughput(overtaking, method="self-timed").value
        == Fraction(1, 6)
    )


def test_a_deadlock_names_the_cycle_and_what_is_lacking() -> None:
    deadlock = find_deadlock(ring(0))
    assert deadlock is not None
    assert [(wait.actor, wait.channel, wait.lacking) for wait in deadlock.cycle] == [
        ("A", "ba", 1),
        ("B", "ab", 1),
    ]
    with pytest.raises(
        DeadlockError, match=r"'A' phase 1 waits for 1 more token in 'ba' \(0 of 1\)"
    ):
        check_live(ring(0))
    with pytest.raises(DeadlockError, match=r"free places? in 'rows'"):
        check_live(convolution(), {"rows": 3})
    assert throughput(ring(0)).value == 0


def test_capacities_must_fit() -> None:
    with pytest.raises(CapacityExceededError, match="2 initial tokens, but the capacity is 1"):
        throughput(pair(2), {"ab": 1})
    with pytest.raises(GraphError, match="has no channel 'xy'"):
        throughput(pair(), {"xy": 1})
    with pytest.raises(GraphError, match="method 'fast' is not one of"):
        throughput(pair(), method="fast")  # type: ignore[arg-type]


def test_an_iteration_too_long_to_expand_has_a_periodic_bound() -> None:
    long = CsdfGraph(
        "long",
        (Actor("A", (1,)), Actor("B", (1,))),
        (Channel("ab", "A", "B", (3_000_017,), (2_000_003,)),),
    )
    found = throughput(add_serial_loops(long), {"ab": 10**8})
    assert (found.value, found.exact, found.method) == (Fraction(1, 3_000_017), True, "1-periodic")
    bounded = throughput(add_serial_loops(long), {"ab": 500_000_000})
    assert bounded.method == "1-periodic"
    assert 0 < bounded.value <= bounded.upper


def test_latency_is_that_of_one_iteration_from_the_start() -> None:
    timing = execute_iterations(pair(), {"ab": 1})
    assert (timing.makespan, timing.starts[0], timing.peaks[0]) == (5, (0,), 1)


def test_the_lower_bound_is_a_true_one() -> None:
    actors = Actor("A", (1, 1, 1)), Actor("B", (1,))
    graph = add_serial_loops(CsdfGraph("g", actors, (Channel("ab", "A", "B", (4, 1, 1), (6,)),)))
    assert lower_bounds(graph) == {"ab": 6}
    assert size_storage(graph).capacities == {"ab": 6}


def test_overlap_loops_are_sized_like_any_other_channel() -> None:
    found = size_storage(add_serial_loops(convolution()), unit="bytes")
    assert found.exact
    assert found.capacities == {"in": 2, "rows": 4, "out": 1}
    assert found.size == 2 * 40 + 4 * 40 + 16


def test_parts_that_nothing_connects_are_sized_in_iterations_of_their_own() -> None:
    actors = Actor("A", (2,)), Actor("B", (3,)), Actor("C", (1,)), Actor("D", (5,))
    channels = Channel("ab", "A", "B", (1,), (1,)), Channel("cd", "C", "D", (1,), (70_000,))
    graph = add_serial_loops(CsdfGraph("apart", actors, channels))
    assert sum(repetition_vector(graph).values()) == 210_001
    found = size_storage(graph, "maximal")
    assert (dict(found.capacities), found.throughput, found.exact) == (
        {"ab": 2, "cd": 70_000},
        Fraction(1, 210_000),
        True,
    )
    assert size_storage(graph, Fraction(1, 350_000)).capacities == {"ab": 1, "cd": 70_000}


def test_a_target_throughput() -> None:
    assert size_storage(pair(), Fraction(1, 4)).capacities == {"ab": 2}
    with pytest.raises(GraphError, match="throughput 1/2 is wanted; the highest is 1/3"):
        size_storage(pair(), Fraction(1, 2))


def test_without_time_the_front_says_how_large_its_gap_is() -> None:
    graph = cnn_graph("residual", 9, 16)
    exact, hasty = list(pareto_front(graph)), list(pareto_front(graph, seconds=0.0, rest=4))
    assert all(point.exact for point in exact)
    assert hasty[-1].throughput == exact[-1].throughput
    assert hasty[-1].least <= exact[-1].size <= hasty[-1].size
    for point in hasty:
        assert throughput(graph, point.capacities).value >= point.throughput


@pytest.mark.parametrize("shape", SHAPES)
def test_storage_of_networks(shape: str) -> None:
    graph = cnn_graph(shape, 8, 16)
    live = size_storage(graph, "live")
    assert live.exact
    check(graph, static_schedule(graph, live.capacities))
    assert (
        throughput(graph, live.capacities).value
        == throughput(graph, live.capacities, method="self-timed").value
    )


def test_requirements_are_met_at_least_cost() -> None:
    cuts = Cuts([1, 2, 5])
    cuts.add({0: 2, 1: 0})
    cuts.add({1: 1, 2: 0})
    assert (cuts.minimum(1).levels, cuts.minimum(1).least) == ([0, 2, 0], 4)
    cuts.add({2: 0})
    assert cuts.minimum(1).levels == [0, 1, 1]
    cuts.add_sum({0: 2, 1: 1}, 7)
    assert (cuts.minimum(1).levels, cuts.minimum(1).least) == ([4, 0, 1], 9)


def test_answers_are_json() -> None:
    answer = to_json(analyze(pair(), with_latency=True, buffers="front"))
    assert json.loads(json.dumps(answer)) == answer
    assert answer["latency"] == 5
    assert [(point["size"], point["throughput"]) for point in answer["buffers"]] == [
        (1, "1/5"),
        (2, "1/3"),
    ]
    inconsistent = CsdfGraph(
        "odd", ring().actors, (ring().channels[0], Channel("ba", "B", "A", (2,), (1,), 1))
    )
    answer = to_json(analyze(inconsistent))
    assert answer["consistent"] is False
    assert "'B' produces 2 * 1 = 2 tokens, 'A' consumes 1 * 1 = 1" in answer["inconsistency"]


def test_parts_that_nothing_connects_have_one_iteration_as_for_sdf3_and_kiter() -> None:
    actors = tuple(
        Actor(name, (time,)) for name, time in (("a", 3), ("b", 4), ("c", 20), ("d", 20))
    )
    pairs = (("a", "b", 1, 2), ("c", "d", 3, 1))
    there = [Channel(x + y, x, y, (p,), (c,), 0) for x, y, p, c in pairs]
    back = [Channel(y + x, y, x, (c,), (p,), 6) for x, y, p, c in pairs]
    channels = (*there, *back)
    graph = add_serial_loops(CsdfGraph("parts", actors, channels))
    assert repetition_vector(graph) == {"a": 2, "b": 1, "c": 2, "d": 6}
    for method in METHODS:
        assert throughput(graph, method=method).value == Fraction(1, 120)  # both print 0.00833333
    assert list(pareto_front(graph))[-1].throughput == Fraction(1, 120)


def test_what_an_iteration_of_the_whole_graph_makes_a_million_times_is_computed_once() -> None:
    times = {"few": 5, "many": 7}
    actors = tuple(Actor(name, (time,)) for name, time in times.items())
    graph = add_serial_loops(
        CsdfGraph("rates", actors, (Channel("c", "few", "many", (10**9,), (1,), 0),))
    )
    found = throughput(graph)
    assert (found.value, found.method) == (Fraction(1, 7 * 10**9), "cycle-ratio")
    assert find_deadlock(graph) is None


@pytest.mark.parametrize(("tokens", "deadlocks"), [(0, True), (3, False)])
def test_a_long_iteration_is_live_or_not_whatever_its_times(tokens: int, deadlocks: bool) -> None:
    actors = Actor("A", (0,)), Actor("B", (0,)), Actor("C", (0, 0))
    back = Channel("cb", "C", "B", (1, 2), (1,), tokens)
    rates = (
        Channel("ab", "A", "B", (10**9,), (1,)),
        Channel("ba", "B", "A", (1,), (10**9,), 2 * 10**9),
    )
    graph = CsdfGraph("long", actors, (*rates, Channel("bc", "B", "C", (1,), (1, 2)), back))
    found = find_deadlock(graph)
    assert (found is not None) == deadlocks
    if found is not None:
        assert [(wait.actor, wait.there, wait.needed) for wait in found.cycle] == [
            ("B", 0, 1),
            ("C", 0, 1),
        ]
