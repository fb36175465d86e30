"""A sound plan passes the audit and compiles; a planted fault is refused by both, each by its own
reckoning.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.errors import CapacityExceededError, PlanError, ScheduleError
from csdfgen.planning.checker import check
from csdfgen.planning.plan import Plan
from tests.builder import Graph, reference

Order = tuple[tuple[str, int], ...]


@cache
def residual(rows: int, fuse: str, height: int = 13) -> tuple[Plan, Graph, object]:
    """Convolutions with a skip, a pool and a concatenation."""
    g = Graph()
    x = g.input("x", (1, 3, height, 7))
    a = g.node("Relu", g.conv(x, 4))
    b = g.node("Add", g.conv(g.node("Relu", g.conv(a, 4)), 4), a)
    c = g.node("MaxPool", b, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    d = g.node("Concat", g.conv(c, 3, 1), g.conv(c, 2, 5), channels=5, axis=1)
    model = g.model(g.conv(d, 2))
    return csdfgen.plan(csdfgen.load(model), rows=rows, fuse=fuse, backend="numpy"), g, model


plans = st.builds(residual, st.integers(1, 3), st.sampled_from(["none", "full"]))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(plans)
def test_a_sound_plan_passes_and_runs(made: tuple[Plan, Graph, object]) -> None:
    plan, graph, model = made
    check(plan)
    feeds = graph.feeds()
    want = reference(model, feeds)  # type: ignore[arg-type]
    got, measured = runtime.compile(plan).measure(feeds)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4)
    assert measured.touched_bytes == plan.planned_bytes


def refused(plan: Plan) -> None:
    with pytest.raises((ScheduleError, PlanError)):
        check(plan)
    with pytest.raises((ScheduleError, PlanError)):
        runtime.compile(plan)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plans, st.data())
def test_dropped_or_repeated_firing(made: tuple[Plan, Graph, object], data: st.DataObject) -> None:
    plan = made[0]
    at = data.draw(st.integers(0, len(plan.order) - 1))
    refused(replace(plan, order=plan.order[:at] + plan.order[at + 1 :]))
    refused(replace(plan, order=plan.order[: at + 1] + plan.order[at:]))


def feeds_directly(plan: Plan, first: tuple[str, int], second: tuple[str, int]) -> bool:
    """Whether the second firing reads a row that the first one completes, or is the next phase of
    the same actor.
    """
    if first[0] == second[0]:
        return True
    writer, reader = plan.conversion.actor[first[0]], plan.conversion.actor[second[0]]
    for write in writer.writes:
        before = write.complete[first[1] - 1] if first[1] else 0
        for read in reader.reads:
            rows = read.rows[second[1]]
            if (
                read.tensor.name == write.tensor.name
                and rows.stop > before < write.complete[first[1]]
            ):
                return True
    return False


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plans, st.data())
def test_swapped_firings(made: tuple[Plan, Graph, object], data: st.DataObject) -> None:
    plan = made[0]
    pairs = [
        i
        for i in range(len(plan.order) - 1)
        if feeds_directly(plan, plan.order[i], plan.order[i + 1])
    ]
    at = data.draw(st.sampled_from(pairs))
    order = list(plan.order)
    order[at], order[at + 1] = order[at + 1], order[at]
    refused(replace(plan, order=tuple(order)))


def moved(plan: Plan, name: str, **changes: object) -> Plan:
    """The plan with a region changed."""
    region = replace(plan.regions[name], **changes)  # type: ignore[arg-type]
    return replace(plan, regions={**plan.regions, name: region})


def at(plan: Plan, name: str, row: int, offset: int) -> Plan:
    """The plan with one row of a buffer somewhere else."""
    table = list(plan.regions[name].table)
    table[row] = offset
    return moved(plan, name, table=tuple(table))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plans, st.data())
def test_two_rows_at_one_place(made: tuple[Plan, Graph, object], data: st.DataObject) -> None:
    """Any two rows of a buffer that are alive at the same time."""
    plan = made[0]
    each = data.draw(st.sampled_from(plan.lifetimes.each))
    row = data.draw(st.integers(0, len(each.born) - 1))
    other = data.draw(st.integers(0, len(each.born) - 1))
    together = each.born[row] < each.gone[other] and each.born[other] < each.gone[row]
    if row == other or not together:
        return
    broken = at(plan, each.buffer, row, plan.regions[each.buffer].table[other])
    with pytest.raises((CapacityExceededError, ScheduleError, PlanError)):
        check(broken)
    with pytest.raises((CapacityExceededError, ScheduleError, PlanError)):
        runtime.compile(broken)


def test_buffers_that_share_bytes_are_refused() -> None:
    plan = residual(1, "none")[0]
    first, second = (buffer.name for buffer in plan.rolling[:2])
    broken = at(plan, second, 0, plan.regions[first].table[1])
    with pytest.raises(PlanError, match="at the same time"):
        check(broken)


def test_rows_that_overlap_for_one_firing_are_refused() -> None:
    """A row moved onto one of another buffer that is alive with it for a single firing only."""
    plan = residual(13, "none")[0]
    found = 0
    for one in plan.lifetimes.each:
        for other in plan.lifetimes.each:
            begin = np.maximum(one.born[:, None], other.born)
            together = np.minimum(one.gone[:, None], other.gone) - begin == 1
            if one.buffer == other.buffer or not together.any():
                continue
            found += 1
            row, rival = (int(number) for number in np.argwhere(together)[0])
            refused(at(plan, one.buffer, row, plan.regions[other.buffer].table[rival]))
    assert found, "no two rows of this network are in use together for one firing alone"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plans, st.data())
def test_scratch_over_a_live_row(made: tuple[Plan, Graph, object], data: st.DataObject) -> None:
    """One firing's scratch, moved onto the operand that it reads."""
    plan = made[0]
    scratch = [buffer for buffer in plan.buffers if buffer.kind == "workspace"]
    buffer = data.draw(st.sampled_from(scratch))
    actor = buffer.writers[0].actor
    phase = data.draw(st.integers(0, buffer.rows - 1))
    read = plan.conversion.actor[actor].reads[0]
    home = plan.sharing.homes(read.tensor.name)[0].buffer
    if not buffer.sizes[phase] or not read.rows[phase]:
        return
    operand = plan.regions[home].table[read.rows[phase].start] // 64 * 64
    table = list(plan.regions[buffer.name].table)
    table[phase] = operand
    refused(moved(plan, buffer.name, table=tuple(table)))


def test_a_state_that_is_freed_before_its_last_phase_is_refused() -> None:
    """Sums in float32 of a float16 pool: rows that are written while they are needed, on their bytes."""
    g = Graph()
    x = g.node("Relu", g.input("x", (1, 8, 9, 5), dtype="float16"))
    plan = csdfgen.plan(
        csdfgen.load(g.model(g.node("GlobalAveragePool", x))), rows=1, backend="numpy"
    )
    (state,) = (buffer for buffer in plan.buffers if buffer.kind == "state")
    check(plan)
    (held,) = (one for one in plan.lifetimes.each if one.buffer == state.name)
    rivals = 0
    for one in plan.lifetimes.each:
        for row in np.flatnonzero((one.born < held.gone[0]) & (one.gone > held.born[0])).tolist():
            if one is not held:
                rivals += 1
                refused(at(plan, state.name, 0, plan.regions[one.buffer].table[row]))
    assert rivals > 2
    smaller = replace(state, row_bytes=state.row_bytes - 4)
    buffers = tuple(smaller if buffer is state else buffer for buffer in plan.buffers)
    refused(replace(moved(plan, state.name, row_bytes=smaller.row_bytes), buffers=buffers))
