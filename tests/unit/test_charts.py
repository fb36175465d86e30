"""Gantt and occupancy charts show what is executed, stay small, say what they leave out, and are
the same bytes each time.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from csdfgen.charts import (
    Timeline,
    gantt_chart,
    occupancy_chart,
    replay,
    trace_periodic,
    trace_schedule,
    trace_self_timed,
)
from csdfgen.charts.gantt import MAX_BARS
from csdfgen.charts.svg import text_width
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops, repetition_vector
from csdfgen.dataflow.transform import add_space_channels, read_capacities
from csdfgen.errors import CapacityExceededError, GraphError, ScheduleError
from schedules import demand_driven
from schedules.periodic import periodic_schedule
from schedules.selftimed import execute_iterations
from schedules.static import static_schedule
from schedules.storage import size_storage
from schedules.throughput import throughput
from tests.cnn_graphs import cnn_graph
from tests.graphs import SEEDED, consistent_graphs, convolution, ring

SVG = "{http://www.w3.org/2000/svg}"
BAR = re.compile(r"M([\d.]+) ([\d.]+)H([\d.]+)")


def texts(picture: bytes) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def bars(picture: bytes) -> list[tuple[float, float, float]]:
    """(from, to, y) of every bar."""
    paths = [element.get("d", "") for element in ET.fromstring(picture).iter(f"{SVG}path")]
    return [
        (float(start), float(stop), float(y))
        for path in paths
        for start, y, stop in BAR.findall(path)
    ]


# --- timelines ----------------------------------------------------------------------------------


def test_a_ring_repeats_from_the_start() -> None:
    timeline = trace_self_timed(ring())
    assert timeline.starts == ((0, 5), (2, 7))
    assert timeline.periodic is not None
    assert (timeline.periodic.start, timeline.periodic.length, timeline.periodic.iterations) == (
        0,
        5,
        1,
    )
    assert timeline.end == 10


def test_two_periods_are_shown_however_long_the_transient() -> None:
    graph = add_serial_loops(convolution(8))
    timeline = trace_self_timed(graph, {"in": 20, "rows": 4, "out": 20})
    span = timeline.periodic
    assert span is not None
    assert span.start > span.length
    assert span.iterations / span.length == throughput(graph, timeline.capacities).value
    period = [
        [start for start in row if span.start <= start < span.start + span.length]
        for row in timeline.starts
    ]
    again = [
        [start - span.length for start in row if start >= span.start + span.length]
        for row in timeline.starts
    ]
    assert period == again


@given(consistent_graphs())
@SEEDED
def test_self_timed_executions_and_schedules_can_be_replayed(graph: CsdfGraph) -> None:
    timeline = trace_self_timed(graph, iterations=2)
    held = replay(timeline).peaks()
    if all(
        min(actor.execution_times) for actor in graph.actors
    ):  # else it depends on the order within an instant
        assert held == execute_iterations(graph, iterations=2).peaks
    ordered = trace_schedule(graph, static_schedule(graph))
    assert all(
        peak <= ordered.capacities[c.name]
        for peak, c in zip(replay(ordered).peaks(), graph.channels, strict=True)
    )


@pytest.mark.networks
@given(consistent_graphs())
@SEEDED
def test_periodic_schedules_within_capacities_can_be_replayed(graph: CsdfGraph) -> None:
    graph = add_serial_loops(graph)
    assume(
        sum(repetition_vector(graph).values()) < 200
        and all(min(actor.execution_times) for actor in graph.actors)
    )
    capacities = size_storage(graph, "live").capacities
    schedule = periodic_schedule(graph, capacities)
    timeline = trace_periodic(graph, schedule, capacities)
    assert min(row[0] for row in timeline.starts) == 0
    replay(timeline)
    span = timeline.periodic
    assert span is not None
    period = sorted(
        (a, start - span.start)
        for a, row in enumerate(timeline.starts)
        for start in row
        if start >= span.start
    )
    shifted = [(a, start - span.length) for a, start in period if start >= span.length]
    assert shifted == [(a, start) for a, start in period if start < span.length]


def test_a_firing_that_starts_too_early_is_refused_with_both_counts() -> None:
    timeline = trace_self_timed(ring())
    early = replace(timeline, starts=((0, 4), (2, 7)))
    with pytest.raises(
        ScheduleError,
        match=r"firing 2 of 'A' \(phase 1\) at time 4: channel 'ba' holds 0 of the 1 tokens",
    ):
        replay(early)
    graph = add_serial_loops(convolution(4))
    timeline = trace_self_timed(graph, {"in": 2, "rows": 4, "out": 1})
    with pytest.raises(
        CapacityExceededError,
        match=r"firing 3 of 'src' \(phase 3\) at time 2: channel 'in' would hold 3 tokens; its capacity is 2",
    ):
        replay(replace(timeline, starts=((0, 1, 2), *timeline.starts[1:])))


def test_what_overtakes_arrives_in_order() -> None:
    graph = CsdfGraph(
        "overtake",
        (Actor("A", (5, 1)), Actor("B", (1,))),
        (Channel("ab", "A", "B", (1, 1), (1,)), Channel("ba", "B", "A", (1,), (1, 1), 2)),
    )
    timeline = trace_self_timed(graph)
    assert timeline.starts[1][:2] == (
        5,
        5,
    )  # the second firing of A ends at 1, its token waits for that of the first
    replay(timeline)
    with pytest.raises(ScheduleError, match="channel 'ab' holds 0"):
        replay(replace(timeline, starts=(timeline.starts[0], (1, *timeline.starts[1][1:]))))


def test_too_many_firings_are_refused_with_both_counts() -> None:
    with pytest.raises(
        GraphError, match="graph 'conv': 30 firings are to be drawn; at most 20 are"
    ):
        trace_self_timed(convolution(5), iterations=2, limit=20)
    graph = add_serial_loops(convolution(5))
    with pytest.raises(GraphError, match=r"two periods take \d+ firings; at most 20 are drawn"):
        trace_periodic(graph, periodic_schedule(graph), limit=20)


# --- Gantt charts -------------------------------------------------------------------------------


def test_a_gantt_chart_names_actors_marks_the_period_and_shows_every_firing() -> None:
    graph = add_serial_loops(convolution(4))
    timeline = trace_self_timed(graph, {"in": 2, "rows": 4, "out": 2})
    picture = gantt_chart(timeline)
    shown = texts(picture)
    assert {
        "src",
        "conv",
        "snk",
        "transient",
        "period",
        "period again",
        "time, in the graph's time units",
    } <= set(shown)
    assert shown[1].endswith("period 13 for 1 iteration: throughput 1/13 iterations a time unit")
    assert len(bars(picture)) == timeline.firings
    assert b"stroke-dasharray" in picture
    assert gantt_chart(timeline) == picture


def test_a_deadlock_is_drawn_until_it_is_stuck_and_explained() -> None:
    timeline = trace_self_timed(convolution(4), {"in": 1})
    assert timeline.firings == 1
    picture = gantt_chart(timeline)
    assert any(
        "Deadlock after 1 firing" in text and "'src' phase 2 waits" in text
        for text in texts(picture)
    )
    assert 'fill="#888888">snk<' in picture.decode()  # never fires
    assert "tokens held" in occupancy_chart(timeline).decode()


def test_one_time_unit_and_one_firing_are_singular() -> None:
    one = CsdfGraph("one", (Actor("A", (1,)),), ())
    assert trace_schedule(one, demand_driven(one, 1)).notes == ("one iteration in 1 time unit",)
    still = replace(one, actors=(Actor("A", (0,)),))
    (note,) = trace_schedule(still, demand_driven(still, 1)).notes
    assert note == "one iteration in 1 firing; the graph gives no execution times"


def test_a_graph_that_nothing_limits_is_drawn_for_a_few_iterations() -> None:
    graph = convolution(4)
    timeline = trace_self_timed(replace(graph, channels=(graph.channels[0], graph.channels[2])))
    assert timeline.periodic is None
    assert any("nothing limits" in note for note in timeline.notes)
    assert len(timeline.starts[0]) == 12
    gantt_chart(timeline)
    idle = replace(
        convolution(4),
        actors=tuple(replace(a, execution_times=(0,) * 4) for a in convolution(4).actors),
    )
    picture = gantt_chart(trace_self_timed(add_serial_loops(idle), {"in": 2, "rows": 4, "out": 1}))
    assert "No firing takes time." in texts(picture)


def test_firings_that_overlap_are_drawn_beside_each_other_or_said_to() -> None:
    graph = CsdfGraph(
        "wide", (Actor("A", (2,)), Actor("B", (1,))), (Channel("ab", "A", "B", (1,), (3,)),)
    )
    assert (
        len({y for _, _, y in bars(gantt_chart(trace_self_timed(graph, iterations=1)))}) == 4
    )  # three of A, one of B
    crowd = CsdfGraph(
        "crowd", (Actor("A", (2,)), Actor("B", (1,))), (Channel("ab", "A", "B", (1,), (30,)),)
    )
    said = texts(gantt_chart(trace_self_timed(crowd, iterations=1)))
    assert any("drawn as one bar: 'A' up to 30 at one time" in text for text in said)


def test_an_order_without_times_is_drawn_by_firings() -> None:
    graph = convolution(4)
    idle = replace(
        graph, actors=tuple(replace(actor, execution_times=(0,) * 4) for actor in graph.actors)
    )
    timeline = trace_schedule(idle, demand_driven(idle, 1))
    assert timeline.end == timeline.firings == 12
    assert "firings in their order" in texts(gantt_chart(timeline))
    timed = trace_schedule(graph, demand_driven(graph, 1))
    assert timed.end == 4 + 12 + 4


@pytest.mark.parametrize("limit", [300, MAX_BARS])
def test_many_firings_stay_small_and_every_one_is_covered(limit: int) -> None:
    graph = cnn_graph("chain", 12, 64)
    capacities = size_storage(graph, "live", seconds=1).capacities
    timeline = trace_self_timed(graph, capacities)
    picture = gantt_chart(timeline, limit)
    drawn = bars(picture)
    assert len(drawn) <= limit < timeline.firings or len(drawn) <= timeline.firings < MAX_BARS
    left, right = min(start for start, _, _ in drawn), max(stop for _, stop, _ in drawn)
    rows = sorted({y for _, _, y in drawn})
    assert len(rows) == len(graph.actors)
    scale = (right - left) / float(timeline.end)
    for y, starts in zip(rows, timeline.starts, strict=True):
        mine = [(start, stop) for start, stop, row in drawn if row == y]
        for start in starts:
            x = left + float(start) * scale
            assert any(first - 1 <= x <= last + 1 for first, last in mine)
    if limit < MAX_BARS:
        assert any(
            f"firings are drawn as {len(drawn)} bars: pauses shorter than" in text
            for text in texts(picture)
        )


@pytest.mark.networks
def test_hundreds_of_actors_and_a_hundred_thousand_firings_give_a_small_file() -> None:
    graph = cnn_graph("residual", 300, 80, overlap=False)
    timeline = trace_self_timed(graph, iterations=4)
    assert timeline.firings > 90_000
    picture, held = gantt_chart(timeline), occupancy_chart(timeline)
    assert len(picture) < 700_000
    assert len(held) < 700_000
    assert any(re.fullmatch(r"One in \d actors is named; .*", text) for text in texts(picture))
    assert any(
        re.match(
            r"Shown are the 40 of [\d,]+ channels that hold most, at least [\d,]+ tokens?;", text
        )
        for text in texts(held)
    )
    assert len([text for text in texts(picture) if text.startswith(("a", "b", "src", "snk"))]) > 50


@given(st.text(min_size=1), st.text(min_size=1))
@SEEDED
def test_pictures_are_xml_whatever_the_names(actor: str, graph_name: str) -> None:
    graph = CsdfGraph(
        graph_name, (Actor(actor, (1, 2)),), (Channel(graph_name, actor, actor, (1, 1), (1, 1), 2),)
    )
    timeline = trace_self_timed(graph)
    ET.fromstring(gantt_chart(timeline))
    ET.fromstring(occupancy_chart(timeline))


# --- occupancy ----------------------------------------------------------------------------------


def areas(picture: bytes) -> dict[str, list[float]]:
    """Title of every filled area -> its heights above its bottom, in pixels."""
    found = {}
    for path in ET.fromstring(picture).iter(f"{SVG}path"):
        title = path.findtext(f"{SVG}title") or ""
        values = [float(y) for y in re.findall(r"V([\d.]+)", path.get("d", ""))]
        found[title] = [values[-1] - y for y in values[:-1]]
    return found


def test_occupancy_shows_levels_capacities_and_the_total() -> None:
    graph = add_serial_loops(convolution(4))
    timeline = trace_self_timed(graph, {"in": 2, "rows": 4, "out": 2})
    picture = occupancy_chart(timeline)
    shown = texts(picture)
    assert "at most 8 tokens at one time in 3 channels, with 8 tokens of capacity in total" in shown
    assert {"in", "rows", "out", "total, tokens", "capacities", "2 tokens", "4 tokens"} <= set(
        shown
    )
    assert "3 one-token serial self-loops hold no data and are left out." in shown
    heights = areas(picture)
    levels = {round(height / max(heights["rows"]) * 4, 1) for height in heights["rows"]}
    assert levels == {0, 2, 4}
    assert occupancy_chart(timeline) == picture


def test_occupancy_in_bytes_weighs_tokens_and_says_what_is_unlimited() -> None:
    graph = add_serial_loops(convolution(4))
    shown = texts(occupancy_chart(trace_self_timed(graph, {"in": 2, "rows": 4}), "bytes"))
    assert {"total, bytes", "80 bytes", "160 bytes", "Light: channels without a capacity."} <= set(
        shown
    )
    assert any(text.endswith("bytes, unlimited") for text in shown)
    assert any(text.endswith("not all have a capacity") for text in shown)


def test_free_space_in_the_graph_is_a_capacity() -> None:
    graph = add_serial_loops(convolution(4))
    room = {"in": 2, "rows": 4, "out": 2}
    bounded = add_space_channels(graph, room)
    assert read_capacities(bounded) == room
    timeline = trace_self_timed(bounded)
    assert timeline.capacities == room
    assert timeline.starts == trace_self_timed(graph, room).starts
    assert (
        "at most 8 tokens at one time in 3 channels, with 8 tokens of capacity in total"
        in texts(occupancy_chart(timeline))
    )


def test_a_graph_without_actors_is_an_empty_picture() -> None:
    timeline = trace_self_timed(CsdfGraph("empty", (), ()))
    assert "0 firings of 0 actors" in texts(gantt_chart(timeline))
    assert "at most 0 tokens at one time in 0 channels; not all have a capacity" in texts(
        occupancy_chart(timeline)
    )


def test_large_numbers_do_not_run_into_each_other() -> None:
    rates = (10**12,)
    channel = Channel("ab", "A", "B", rates, rates, token_bytes=8)
    graph = add_serial_loops(
        CsdfGraph("big", (Actor("A", (10**15,)), Actor("B", (3,))), (channel,))
    )
    picture = occupancy_chart(trace_self_timed(graph))
    assert {"total, 10¹² tokens", "1.5"} <= set(texts(picture))
    assert "total, GB (10⁹ bytes)" in texts(occupancy_chart(trace_self_timed(graph), "bytes"))
    rows: dict[str, list[tuple[float, float]]] = {}
    for element in ET.fromstring(picture).iter(f"{SVG}text"):
        if (
            element.get("text-anchor") == "middle"
            and (element.text or "").replace(",", "").isdigit()
        ):
            half = text_width(element.text or "", 10) / 2
            x = float(element.get("x", ""))
            rows.setdefault(element.get("y", ""), []).append((x - half, x + half))
    assert rows
    for spans in rows.values():
        assert all(first[1] < second[0] for first, second in pairwise(sorted(spans)))


def test_dense_changes_keep_their_peaks() -> None:
    graph = CsdfGraph(
        "dense",
        (Actor("A", (1,)), Actor("B", (1,) * 5000)),
        (Channel("ab", "A", "B", (5000,), (1,) * 2500 + (0,) * 2499 + (2500,)),),
    )
    timeline = trace_self_timed(add_serial_loops(graph), {"ab": 7500}, iterations=2)
    heights = areas(occupancy_chart(timeline))["ab"]
    (peak,) = (
        level
        for level, c in zip(replay(timeline).peaks(), timeline.graph.channels, strict=True)
        if c.name == "ab"
    )
    assert peak == 7500
    assert max(heights) == pytest.approx(35, abs=0.2)
    assert heights[-1] == pytest.approx(0, abs=0.2)


def test_a_timeline_of_fractions_is_drawn() -> None:
    timeline = Timeline(
        ring(), "by hand", ((Fraction(0), Fraction(16, 3)), (Fraction(7, 3),)), Fraction(22, 3), {}
    )
    assert len(bars(gantt_chart(timeline))) == 3
    assert "tokens held" in occupancy_chart(timeline).decode()
