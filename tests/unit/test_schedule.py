"""Schedules: loops as the paper writes them, files, the demand-driven order, deadlock, and the
checker's refusals.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import schedules
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops
from csdfgen.errors import (
    CapacityExceededError,
    DeadlockError,
    GraphError,
    InconsistentError,
    ScheduleError,
)
from schedules import SCHEDULERS, Firing, Schedule, check, demand_driven
from schedules import demand as policies
from schedules import schedule as files
from schedules.demand import POLICIES, firing_order, firing_orders
from schedules.order import strongly_connected_components, topological_order
from schedules.schedule import Loop, Run, compact_loops, expand, format_loops
from tests.counting import count_calls
from tests.graphs import convolution, ring


def text(firings: Iterable[Firing], *, nested: bool = False) -> str:
    return format_loops(compact_loops(firings, nested=nested))


def runs(*parts: tuple[str, int, int]) -> list[Firing]:
    """Firings of phases first..last, counted from 1 as in the paper."""
    return [
        Firing(actor, phase) for actor, first, last in parts for phase in range(first - 1, last)
    ]


def in_turn(one: tuple[str, int, int], other: tuple[str, int, int]) -> list[Firing]:
    """The paper's [n1(..), n2(..)]: a phase of one, a phase of the other, and so on."""
    return [f for pair in zip(runs(one), runs(other), strict=True) for f in pair]


def cnn5() -> CsdfGraph:
    """The five-layer CNN of paper 002 (Figure 1, Table II Ex4), a token a row, rows kept in the
    channel while they overlap.
    """
    names = ("n1", "n2", "n3", "n4", "n5")
    phases = (32, 16, 4, 1, 1)
    rates = (
        ((1,) * 32, (17, *(1,) * 14, 1)),
        ((1,) * 16, (6, 3, 3, 4)),
        ((1,) * 4, (4,)),
        ((1,), (1,)),
    )
    channels = [
        Channel(f"b{i + 1}{i + 2}", names[i], names[i + 1], production, consumption)
        for i, (production, consumption) in enumerate(rates)
    ]
    return CsdfGraph(
        "cnn5",
        tuple(Actor(n, (1,) * p) for n, p in zip(names, phases, strict=True)),
        tuple(channels),
    )


EX4 = [
    *runs(("n1", 1, 17), ("n2", 1, 1)),
    *in_turn(("n1", 18, 22), ("n2", 2, 6)),
    *runs(("n3", 1, 1)),
    *in_turn(("n1", 23, 25), ("n2", 7, 9)),
    *runs(("n3", 2, 2)),
    *in_turn(("n1", 26, 28), ("n2", 10, 12)),
    *runs(("n3", 3, 3)),
    *in_turn(("n1", 29, 32), ("n2", 13, 16)),
    *runs(("n3", 4, 4), ("n4", 1, 1), ("n5", 1, 1)),
]
"""The execution order that Table II prints for Ex4."""


def test_the_demand_driven_order_of_the_papers_cnn_is_the_one_it_prints() -> None:
    assert list(demand_driven(cnn5()).firings) == EX4


def test_loops_are_printed_as_in_table_2() -> None:
    assert text(EX4) == (
        "n1(1-17), n2(1), [n1(18-22), n2(2-6)], n3(1), [n1(23-25), n2(7-9)], n3(2), [n1(26-28), n2(10-12)], n3(3), "
        "[n1(29-32), n2(13-16)], n3(4), n4(1), n5(1)"
    )


def test_nested_loops_are_found_and_printed_with_their_repetitions() -> None:
    firings = []
    count = {"a": 0, "b": 0, "c": 0}
    for actor in "aabaabc" * 5:
        firings.append(Firing(actor, count[actor]))
        count[actor] += 1
    items = compact_loops(firings)
    assert items == (Loop(5, (Loop(2, (Run("a", 0, 2), Run("b", 0, 1))), Run("c", 0, 1))),)
    assert format_loops(items) == "5*[2*[a(1-20), b(1-10)], c(1-5)]"
    assert list(expand(items)) == firings
    assert text(EX4, nested=True) == (
        "n1(1-17), n2(1), [n1(18-22), n2(2-6)], n3(1), 2*[3*[n1(23-28), n2(7-12)], n3(2-3)], [n1(29-32), n2(13-16)], "
        "n3(4), n4(1), n5(1)"
    )


def test_loops_go_on_with_the_first_phase_after_the_last() -> None:
    firings = [Firing("a", 0), Firing("a", 1), Firing("b", 0)] * 3 + [Firing("c", 0)] * 4
    assert list(expand(compact_loops(firings))) == firings
    assert text(firings) == "3*[a(1, 6 firings), b(1, 3 firings)], c(1, 4 firings)"


def test_iterations_stay_apart() -> None:
    firings = [Firing("a", 0), Firing("a", 0, 1), Firing("a", 0, 2), Firing("a", 1, 2)]
    assert text(firings) == "a(1), a#2(1), a#3(1-2)"
    assert list(expand(compact_loops(firings))) == firings


def test_a_schedule_file_keeps_everything(tmp_path: Path) -> None:
    schedule = demand_driven(add_serial_loops(convolution()), 3)
    path = tmp_path / "s.json"
    files.write_schedule(path, schedule)
    assert files.read_schedule(path) == schedule
    assert files.from_json(json.loads(json.dumps(files.to_json(schedule)))) == files.read_schedule(
        path
    )


HEAD = {
    "format": "csdfgen-schedule",
    "version": 1,
    "graph": "g",
    "capacities": {"c": 1},
    "firings": [],
}
RUN = {"actor": "a", "first": 0, "count": 10_000}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "x"}, "s.json: 'format' is 'x'; 'csdfgen-schedule' is needed"),
        (
            {"capacities": {"c": -1}},
            "s.json: capacities: 'c' is -1; a whole number from 0 to 9223372036854775807 is needed",
        ),
        (
            {"firings": [{**RUN, "phases": -1}]},
            "s.json: firings[0]: 'phases' is -1; a whole number from 0 to",
        ),
        ({"firings": {}}, "s.json: 'firings' is {}; a list is needed"),
        (
            {"firings": [{"actor": "a", "first": 0}]},
            "s.json: firings[0]: has no 'count'; a whole number from 1 to",
        ),
        (
            {"firings": [{"repeat": 2, "body": []}]},
            "s.json: firings[0]: 'body' is empty; a loop needs at least one run",
        ),
        (
            {"firings": [{"repeat": 0, "body": [RUN]}]},
            "s.json: firings[0]: 'repeat' is 0; a whole number from 1 to",
        ),
        (
            {"firings": [{"repeat": 10**12, "body": [{"repeat": 10**12, "body": [RUN]}]}]},
            f"s.json: 'firings' lists {10**28} firings; at most 10000000 are read",
        ),
        ({"iterations": 0}, "s.json: 'iterations' is 0; a whole number from 1 to"),
    ],
)
def test_a_wrong_file_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        files.from_json({**HEAD, **changes}, "s.json")
    assert str(caught.value).startswith(message)


def test_loops_nested_without_end_are_refused() -> None:
    body: dict[str, object] = RUN
    for _ in range(70):
        body = {"repeat": 1, "body": [body]}
    with pytest.raises(ScheduleError, match="loops nested more than 64 deep"):
        files.from_json({**HEAD, "firings": [body]})


# -- schedulers ---------------------------------------------------------------------------------


def test_a_phase_fires_as_soon_as_its_reader_needs_it_and_not_before() -> None:
    schedule = demand_driven(convolution(4))
    assert (
        text(schedule.firings) == "src(1-2), [conv(1-2), snk(1-2), src(3-4)], [conv(3-4), snk(3-4)]"
    )
    assert schedule.capacities == {"in": 2, "rows": 4, "out": 1}


def test_capacities_follow_sdf3s_rule_also_for_self_loops() -> None:
    # space is claimed at the start and freed at the end: a serial loop's single token needs room
    # for two
    capacities = demand_driven(add_serial_loops(convolution(4))).capacities
    assert capacities["serial_conv"] == 2
    assert capacities["rows"] == 4


def test_eager_fires_what_nobody_wants_yet() -> None:
    """C is deep and enabled, but D will not need its token before B has taken four of A's."""
    actors = (Actor("A", (1,) * 4), Actor("B", (1,)), Actor("C", (1,) * 4), Actor("D", (1,)))
    ones = (1,) * 4
    channels = (
        Channel("ab", "A", "B", ones, (4,)),
        Channel("ac", "A", "C", ones, ones),
        Channel("bd", "B", "D", (1,), (1,)),
        Channel("cd", "C", "D", (0, 0, 0, 1), (1,)),
    )
    graph = CsdfGraph("fork", actors, channels)
    assert text(SCHEDULERS["eager"](graph, 1).firings) == "[A(1-4), C(1-4)], B(1), D(1)"
    assert text(SCHEDULERS["layers"](graph, 1).firings) == "A(1-4), B(1), C(1-4), D(1)"
    relaxed = replace(graph, channels=(*channels[:3], replace(channels[3], initial_tokens=1)))
    assert text(SCHEDULERS["demand"](relaxed, 1).firings) == "A(1-4), B(1), D(1), C(1-4)"


def test_iterations_run_one_after_another() -> None:
    schedule = demand_driven(cnn5(), 3)
    check(cnn5(), schedule)
    assert schedule.iterations == 3
    assert len(schedule.firings) == 3 * 54
    assert schedule.firings[-1] == Firing("n5", 0, 2)


def test_firing_order_is_the_same_by_numbers() -> None:
    graph = cnn5()
    names = [a.name for a in graph.actors]
    for policy in POLICIES:
        order = firing_order(graph, policy)
        assert [(names[a], p) for a, p in order] == [
            (f.actor, f.phase) for f in demand_driven(graph, policy=policy).firings
        ]


def test_orders_share_what_does_not_depend_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, counted = cnn5(), list[CsdfGraph]()
    alone = {policy: firing_order(graph, policy) for policy in POLICIES}
    count = policies.repetition_vector
    monkeypatch.setattr(
        policies, "repetition_vector", lambda graph: counted.append(graph) or count(graph)
    )
    assert firing_orders(graph) == alone
    assert firing_orders(graph, ["bounded"]) == {"bounded": alone["bounded"]}
    assert counted == [graph, graph]


def test_a_deadlock_names_who_waits_for_how_many_tokens_where() -> None:
    with pytest.raises(DeadlockError) as caught:
        demand_driven(ring(0))
    assert str(caught.value) == (
        "graph 'ring': deadlock after 0 of 2 firings: 'A' phase 1 waits for 1 more token on 'ba' (0 of 1); "
        "'B' phase 1 waits for 1 more token on 'ab' (0 of 1)"
    )
    many = tuple(Actor(f"a{i}", (1,)) for i in range(9))
    loops = tuple(Channel(f"c{i}", f"a{i}", f"a{(i + 1) % 9}", (1,), (1,)) for i in range(9))
    with pytest.raises(DeadlockError, match=r"; 5 more actors wait$"):
        demand_driven(CsdfGraph("g", many, loops))


def test_graphs_without_an_iteration_or_with_too_long_a_one_are_refused() -> None:
    pair = (Actor("A", (1,)), Actor("B", (1,)))
    with pytest.raises(InconsistentError):
        demand_driven(CsdfGraph("g", pair, (Channel("ab", "A", "B", (1,), (0,)),)))
    with pytest.raises(
        GraphError,
        match="graph 'g': 1 iteration take 1000000000001 firings; at most 10000000 are listed",
    ):
        demand_driven(CsdfGraph("g", pair, (Channel("ab", "A", "B", (1,), (10**12,)),)))
    with pytest.raises(
        GraphError, match="policy 'lazy' is not one of demand, eager, layers, bounded"
    ):
        demand_driven(ring(), policy="lazy")


def test_no_module_takes_the_name_of_a_scheduler() -> None:
    """A module that is imported later would: schedules.bounded was one."""
    for module in pkgutil.iter_modules(schedules.__path__):
        importlib.import_module(f"schedules.{module.name}")
    for name in schedules.__all__:
        assert not isinstance(getattr(schedules, name), ModuleType), name
    assert schedules.bounded is SCHEDULERS["bounded"]


def calls_of(height: int) -> int:
    """Calls, of Python's functions and of others, that find, check and compact the order of 50 layers of a height."""
    actors = tuple(Actor(f"n{i}", (1,) * height) for i in range(50))
    channels = tuple(
        Channel(f"e{i}", f"n{i}", f"n{i + 1}", (1,) * height, (2, *(1,) * (height - 2), 0))
        for i in range(49)
    )
    graph = add_serial_loops(CsdfGraph("chain", actors, channels))

    def ordered() -> Schedule:
        schedule = demand_driven(graph)
        check(graph, schedule)
        assert expand(compact_loops(schedule.firings)) == schedule.firings
        return schedule

    calls, schedule = count_calls(ordered)
    assert len(schedule.firings) == 50 * height
    assert max(schedule.capacities.values()) == 2
    return calls


@pytest.mark.networks
def test_a_hundred_thousand_firings_take_four_times_the_calls_of_a_quarter() -> None:
    assert calls_of(2000) < 4.4 * calls_of(500)


def test_order_puts_sources_first_and_breaks_cycles_at_their_tokens() -> None:
    actors = tuple(Actor(name, (1,)) for name in "EDCBA")
    edges = [
        ("A", "B", 0),
        ("B", "C", 0),
        ("C", "A", 1),
        ("C", "D", 0),
        ("D", "E", 0),
        ("E", "E", 1),
    ]
    channels = tuple(Channel(f"{s}{t}", s, t, (1,), (1,), tokens) for s, t, tokens in edges)
    graph = CsdfGraph("g", actors, channels)
    assert [actors[i].name for i in topological_order(graph)] == list("ABCDE")
    component = strongly_connected_components(graph)
    assert component[2] == component[3] == component[4]
    assert len(set(component)) == 3
    tangled = replace(graph, channels=tuple(replace(c, initial_tokens=0) for c in channels))
    assert "".join(actors[i].name for i in topological_order(tangled)) == "CDEAB"


# -- the checker --------------------------------------------------------------------------------


def broken(change: str) -> tuple[CsdfGraph, Schedule]:
    """cnn5 with Ex4's order and capacities, and one fault."""
    graph = cnn5()
    firings = list(EX4)
    capacities: dict[str, int] = dict(demand_driven(graph).capacities)
    iterations = 1
    match change:
        case "swap":
            firings[16], firings[17] = firings[17], firings[16]
        case "drop":
            del firings[-1]
        case "repeat":
            firings.insert(3, firings[2])
        case "shrink":
            capacities["b12"] -= 1
        case "no capacity":
            del capacities["b34"]
        case "unknown channel":
            capacities["b99"] = 1
        case "unknown actor":
            firings[5] = Firing("n9", 0)
        case "iteration":
            firings[5] = Firing("n1", 5, 1)
        case "two iterations":
            iterations = 2
    return graph, Schedule("cnn5", tuple(firings), capacities, iterations)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            "swap",
            ScheduleError,
            "firing 17 ('n2' phase 1): channel 'b12' holds 16 of the 17 tokens it takes",
        ),
        ("drop", ScheduleError, "actor 'n5': fires 0 times, not 1 in all; iterations: 1"),
        ("repeat", ScheduleError, "firing 4 ('n1' phase 3): out of turn; phase 4 of 32 is next"),
        (
            "shrink",
            CapacityExceededError,
            "firing 17 ('n1' phase 17): channel 'b12' would hold 17 tokens; its capacity is 16",
        ),
        ("no capacity", ScheduleError, "channel 'b34': has no capacity"),
        (
            "unknown channel",
            ScheduleError,
            "graph 'cnn5': has no channel 'b99', which the schedule gives a capacity",
        ),
        ("unknown actor", ScheduleError, "firing 6 ('n9' phase 1): the graph has no such actor"),
        ("iteration", ScheduleError, "firing 6 ('n1' phase 6): is of iteration 2; 1 is under way"),
        (
            "two iterations",
            ScheduleError,
            "actor 'n1': fires 32 times, not 64 in all; iterations: 2",
        ),
    ],
)
def test_the_checker_names_firing_and_channel(change: str, error: type, message: str) -> None:
    graph, schedule = broken(change)
    with pytest.raises(error) as caught:
        check(graph, schedule)
    assert str(caught.value) == message


def test_the_checker_accepts_the_papers_order() -> None:
    check(*broken("nothing"))


def test_initial_tokens_need_room() -> None:
    graph = ring(2)
    schedule = demand_driven(graph)
    with pytest.raises(
        CapacityExceededError, match="channel 'ba': 2 initial tokens, but the capacity is 1"
    ):
        check(graph, replace(schedule, capacities={**schedule.capacities, "ba": 1}))
