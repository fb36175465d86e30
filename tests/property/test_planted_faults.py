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
from csdfgen.planning.checker import audit
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
    return csdfgen.plan(csdfgen.load(model), rows=rows, fuse=fuse), g, model


plans = st.builds(residual, st.integers(1, 3), st.sampled_from(["none", "full"]))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(plans)
def test_a_sound_plan_passes_and_runs(made: tuple[Plan, Graph, object]) -> None:
    plan, graph, model = made
    audit(plan)
    feeds = graph.feeds()
    want = reference(model, feeds)  # type: ignore[arg-type]
    got, measured = runtime.compile(plan).measure(feeds)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4)
    assert measured.touched_bytes == plan.planned_bytes


def refused(plan: Plan) -> None:
    with pytest.raises((ScheduleError, PlanError)):
        audit(plan)
    with pytest.raises((ScheduleError, PlanError)):
        runtime.compile(plan)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plans, st.data())
def test_a_dropped_or_repeated_firing_is_refused(
    made: tuple[Plan, Graph, object], data: st.DataObject
) -> None:
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
def test_two_dependent_firings_swapped_are_refused(
    made: tuple[Plan, Graph, object], data: st.DataObject
) -> None:
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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(plans, st.data())
def test_a_capacity_smaller_by_one_is_refused(
    made: tuple[Plan, Graph, object], data: st.DataObject
) -> None:
    plan = made[0]
    at = data.draw(st.integers(0, len(plan.buffers.slots) - 1))
    slot = plan.buffers.slots[at]
    if slot.capacity == 1:
        return
    row = slot.size // slot.capacity
    smaller = replace(slot, capacity=slot.capacity - 1, size=slot.size - row)
    slots = (*plan.buffers.slots[:at], smaller, *plan.buffers.slots[at + 1 :])
    broken = replace(plan, buffers=replace(plan.buffers, slots=slots))
    with pytest.raises((CapacityExceededError, ScheduleError)):
        audit(broken)
    with pytest.raises((CapacityExceededError, ScheduleError)):
        runtime.compile(broken)


def test_buffers_that_share_bytes_are_refused() -> None:
    plan = residual(1, "none")[0]
    first, second = plan.buffers.slots[:2]
    moved = replace(second, offset=first.offset)
    broken = replace(
        plan, buffers=replace(plan.buffers, slots=(first, moved, *plan.buffers.slots[2:]))
    )
    with pytest.raises(PlanError, match="at the same time"):
        audit(broken)
