"""Periodic schedules: as early as the period allows, followed token by token, written with exact instants."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from csdfgen.errors import CapacityExceededError, ScheduleError
from csdfgen.graph import Actor, Channel, CsdfGraph, with_serial_loops
from schedules import starts
from schedules.periodic import PeriodicSchedule, periodic_schedule
from schedules.starts import check_starts, span_of, unit_of, write_starts
from tests.graphs import convolution


def pair() -> CsdfGraph:
    """A makes two tokens in 3, B takes one in 2: an iteration of A, B, B takes 4."""
    return with_serial_loops(
        CsdfGraph("pair", (Actor("A", (3,)), Actor("B", (2,))), (Channel("ab", "A", "B", (2,), (1,), token_bytes=8),))
    )


def thirds() -> CsdfGraph:
    """Three tokens in a ring of 4 time units: 4/3 an iteration."""
    ring = (Channel("ab", "A", "B", (1,), (1,)), Channel("ba", "B", "A", (1,), (1,), 3))
    return CsdfGraph("thirds", (Actor("A", (1,)), Actor("B", (3,))), ring)


def test_every_firing_is_as_early_as_the_period_allows() -> None:
    found = periodic_schedule(pair())
    assert (found.period, dict(found.starts)) == (4, {"A": (0,), "B": (3, 5)})
    assert span_of(pair(), found) == 7
    # B has taken one of two tokens, and frees the second's place at 7, when A claims for the next iteration at 4
    assert check_starts(pair(), found)["ab"] == 4


def test_capacities_are_kept() -> None:
    found = periodic_schedule(pair(), {"ab": 2})
    assert (found.period, dict(found.starts)) == (7, {"A": (0,), "B": (3, 5)})
    assert check_starts(pair(), found, {"ab": 2})["ab"] == 2
    with pytest.raises(CapacityExceededError, match=r"firing 2 of 'A' at 4: channel 'ab' would hold 4 tokens; its capacity is 3"):
        check_starts(pair(), periodic_schedule(pair()), {"ab": 3})


def test_fractions_of_a_time_unit_stay_exact(tmp_path: Path) -> None:
    found = periodic_schedule(thirds())
    assert found.period == Fraction(4, 3)
    assert unit_of(found) == Fraction(1, 3)
    room = check_starts(thirds(), found)
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
    found = periodic_schedule(with_serial_loops(chain), {"ab": 1, "bc": 1})
    assert found.period == 5
    room = check_starts(with_serial_loops(chain), found, {"ab": 1, "bc": 1})
    assert (room["ab"], room["bc"]) == (1, 1)


WRONG = [
    ("too early", {"A": (0,), "B": (2, 5)}, 4, "firing 1 of 'B' at 2: channel 'ab' holds 0 of the 1 tokens it takes"),
    ("overlapping itself", {"A": (0,), "B": (3, 4)}, 4, "firing 2 of 'B' at 4: channel 'serial_B' holds 0 of the 1"),
    ("too fast", {"A": (0,), "B": (3, 5)}, 3, "firing 2 of 'A' at 3|firing . of 'B' at . *: channel"),
    ("out of order", {"A": (0,), "B": (5, 3)}, 4, "actor 'B': its firings do not start in order"),
    (
        "longer than the period",
        {"A": (0,), "B": (3, 8)},
        4,
        "actor 'B': its firings do not start in order, or take longer than 4",
    ),
    ("a firing too few", {"A": (0,), "B": (3,)}, 4, "actor 'B': 1 firings an iteration; 2 are needed"),
    ("an actor too many", {"A": (0,), "B": (3, 5), "C": (0,)}, 4, "actor 'C': 1 firings an iteration; 0 are needed"),
    ("an actor too few", {"A": (0,)}, 4, "actor 'B': 0 firings an iteration; 2 are needed"),
]


@pytest.mark.parametrize(("rows", "period", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_does_not_hold_is_refused(rows: dict[str, tuple[int, ...]], period: int, said: str) -> None:
    schedule = PeriodicSchedule("pair", Fraction(period), {name: tuple(map(Fraction, row)) for name, row in rows.items()})
    with pytest.raises(ScheduleError, match=said):
        check_starts(pair(), schedule)


def test_what_takes_too_long_to_repeat_is_not_followed() -> None:
    graph = with_serial_loops(convolution())
    found = periodic_schedule(graph)
    check_starts(graph, found)
    late = replace(found, starts={**found.starts, "snk": tuple(start + 10**9 for start in found.starts["snk"])})
    with pytest.raises(ScheduleError, match=rf"iterations until it repeats; at most {starts.MAX_FIRINGS} are followed"):
        check_starts(graph, late)
