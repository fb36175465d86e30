"""Periodic schedules: as early as the period allows, followed token by token, written with exact
instants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from csdfgen.charts import replay, trace_periodic
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops
from csdfgen.errors import CapacityExceededError
from schedules.periodic import PeriodicSchedule, periodic_schedule
from schedules.starts import schedule_span, time_unit, write_starts


def held(
    graph: CsdfGraph, schedule: PeriodicSchedule, capacities: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Most tokens of every channel, followed token by token."""
    peaks = replay(trace_periodic(graph, schedule, capacities)).peaks()
    return dict(zip((channel.name for channel in graph.channels), peaks, strict=True))


def pair() -> CsdfGraph:
    """A makes two tokens in 3, B takes one in 2: an iteration of A, B, B takes 4."""
    return add_serial_loops(
        CsdfGraph(
            "pair",
            (Actor("A", (3,)), Actor("B", (2,))),
            (Channel("ab", "A", "B", (2,), (1,), token_bytes=8),),
        )
    )


def thirds() -> CsdfGraph:
    """Three tokens in a ring of 4 time units: 4/3 an iteration."""
    ring = (Channel("ab", "A", "B", (1,), (1,)), Channel("ba", "B", "A", (1,), (1,), 3))
    return CsdfGraph("thirds", (Actor("A", (1,)), Actor("B", (3,))), ring)


def test_every_firing_is_as_early_as_the_period_allows() -> None:
    found = periodic_schedule(pair())
    assert (found.period, dict(found.starts)) == (4, {"A": (0,), "B": (3, 5)})
    assert schedule_span(pair(), found) == 7
    # B frees the places of its two tokens at 5 and 7, A claims two for the next iteration at 4
    assert held(pair(), found)["ab"] == 4


def test_capacities_are_kept() -> None:
    found = periodic_schedule(pair(), {"ab": 2})
    assert (found.period, dict(found.starts)) == (7, {"A": (0,), "B": (3, 5)})
    assert held(pair(), found, {"ab": 2})["ab"] == 2
    with pytest.raises(
        CapacityExceededError,
        match=r"firing 2 of 'A' .*at time 4: channel 'ab' would hold 4 tokens; its capacity is 3",
    ):
        held(pair(), periodic_schedule(pair()), {"ab": 3})


def test_fractions_of_a_time_unit_stay_exact(tmp_path: Path) -> None:
    found = periodic_schedule(thirds())
    assert found.period == Fraction(4, 3)
    assert time_unit(found) == Fraction(1, 3)
    room = held(thirds(), found)
    write_starts(tmp_path / "starts.json", thirds(), found, room)
    values = json.loads((tmp_path / "starts.json").read_text())
    assert values == {
        "format": "csdfgen-starts",
        "version": 1,
        "graph": "thirds",
        "period": "4/3",
        "throughput": "3/4",
        "unit": "1/3",
        "capacities": {"ab": 3, "ba": 3},
        "starts": {"A": [0], "B": [3]},
    }


def test_actors_without_time_fire_at_one_instant() -> None:
    """What arrives at an instant is there for what starts at it, along a whole chain."""
    names = ("C", "B", "A")
    chain = CsdfGraph(
        "chain",
        (*(Actor(name, (0,)) for name in names), Actor("clock", (5,))),
        (
            Channel("ab", "A", "B", (1,), (1,)),
            Channel("bc", "B", "C", (1,), (1,)),
            Channel("ck", "C", "clock", (1,), (1,)),
        ),
    )
    found = periodic_schedule(add_serial_loops(chain), {"ab": 1, "bc": 1})
    assert found.period == 5
    room = held(add_serial_loops(chain), found, {"ab": 1, "bc": 1})
    assert (room["ab"], room["bc"]) == (1, 1)
