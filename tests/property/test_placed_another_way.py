"""A plan placed by another packer, or in two memories, gives the same outputs in the bytes it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.backends.registry import choose_backend
from csdfgen.errors import InputError, PlanError
from csdfgen.planning.checker import check
from csdfgen.planning.memories import list_memories, row_traffic
from csdfgen.planning.packing import pack
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import from_json, to_json
from csdfgen.planning.replacing import (
    make_plan_layout,
    replace_offsets,
    split_memories,
    write_plan_items,
)
from runtime.images import random_inputs
from tests.networks import check_touched
from tests.packed_items import read_items, write_solution
from tests.planning import to_plan
from tests.random_networks import models
from tests.small_models import residual_classifier


def some_plan(model: onnx.ModelProto, rows: str) -> Plan:
    plan = csdfgen.plan(csdfgen.load(model), rows=rows, policy="demand", result="stored")
    assume(plan.planned_bytes)
    return plan


def runs_as(plan: Plan, other: Plan) -> None:
    """Both give the same values, and the first touches the bytes that it plans (of scratch at the end
    of the arena a kernel may leave some).
    """
    x = random_inputs(plan.network, 0)
    got, measured = runtime.compile(plan).measure(x)
    want = runtime.run(other, x)
    assert measured.touched_bytes <= plan.planned_bytes
    if plan.planned_bytes in {
        max(plan.regions[b.name].table) + b.row_bytes for b in plan.rolling if b.rows
    }:
        check_touched(plan, measured.touched_bytes)
    for name, values in want.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-4, atol=1e-5)


@settings(max_examples=5, deadline=None)
@given(models(), st.sampled_from(["1", "auto", "whole"]))
def test_offsets_of_another_packer(model: onnx.ModelProto, rows: str) -> None:
    plan = some_plan(model, rows)
    with TemporaryDirectory() as folder:
        given_items, solution = Path(folder, "items.csv"), Path(folder, "solution.csv")
        count, bound = write_plan_items(given_items, plan)
        items, none = read_items(given_items)
        assert none is None and len(items) == count
        # a packing that nothing here would make: everything behind each other
        apart = np.concatenate([[0], np.cumsum(-(-items.sizes[:-1] // 16) * 16)])
        plans = []
        for offsets in (pack(items, effort="low").offsets, apart):
            write_solution(solution, items, offsets)
            plans.append((offsets, replace_offsets(plan, solution, choose_backend(plan.options))))
    for offsets, found in plans:
        assert bound <= found.planned_bytes <= int((offsets + items.sizes).max())
        assert found.arena_bound == bound and found.order == plan.order
        runs_as(found, plan)
        again = to_plan(from_json(to_json(found)), plan.network)
        assert again.regions == found.regions


def test_offsets_that_share_bytes_are_refused(tmp_path: Path) -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:lenet5"))
    items = make_plan_layout(plan).named()
    write_solution(tmp_path / "solution.csv", items, np.zeros(len(items), np.int64))
    with pytest.raises(InputError, match="overlap during firings"):
        replace_offsets(plan, tmp_path / "solution.csv", choose_backend(plan.options))


@settings(max_examples=8, deadline=None)
@given(models(), st.sampled_from(["1", "auto", "whole"]), st.sampled_from([0.1, 0.5, 2.0]))
def test_two_memories(model: onnx.ModelProto, rows: str, share: float) -> None:
    plan = some_plan(model, rows)
    fast = max(16, int(share * plan.planned_bytes))
    found = split_memories(plan, fast, 2**30)
    first, second = list_memories(found)
    assert (first.name, second.name, first.size, second.size) == ("fast", "slow", fast, 2**30)
    assert first.used <= fast and first.used + 16 <= found.border <= first.used + 31
    assert found.planned_bytes == (found.border + second.used if second.used else first.used)
    if share > 1:
        assert second.moved == second.used == 0
    reads, writes = row_traffic(found.conversion, found.sharing, found.buffers)
    assert first.read + second.read == sum(int(rows.sum()) for rows in reads.values())
    assert first.written + second.written == sum(int(rows.sum()) for rows in writes.values())
    runs_as(found, plan)
    again = to_plan(from_json(to_json(found)), plan.network)
    assert list_memories(again) == list_memories(found)


def test_more_fast_memory_moves_less_to_the_slow_one() -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:lenet5"))
    moved = [
        list_memories(split_memories(plan, fast, 2**20))[1].moved for fast in (512, 2048, 8192)
    ]
    assert moved[0] > moved[1] > moved[2]


def test_a_batch_moves_for_each_image_what_one_alone_does() -> None:
    moved = []
    for frames in (1, 3):
        network = csdfgen.load(residual_classifier(), batch=3)
        plan = csdfgen.plan(network, rows=2, frames=frames, policy="demand", backend="numpy")
        both = list_memories(split_memories(plan, 2048, 2**20))
        moved.append([sum(getattr(one, side) for one in both) for side in ("read", "written")])
    assert moved[0] == moved[1]


def test_rows_across_the_border_are_refused() -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:lenet5"), count="activations")
    plan = split_memories(plan, 4096, 2**20)
    check(plan)
    row = max(b.row_bytes for b in plan.rolling)
    faults = (
        (replace(plan, border=plan.border - 32), "across the border"),
        (replace(plan, border=0), "a border is needed"),
        (replace(plan, options=replace(plan.options, fast=row)), "of the fast memory, which has"),
        (replace(plan, options=replace(plan.options, slow=4096)), "of the slow memory, which has"),
    )
    for wrong, said in faults:
        with pytest.raises(PlanError, match=said):
            check(wrong)


def test_memories_that_are_too_small_or_exchanged() -> None:
    network = csdfgen.load("zoo:lenet5")
    with pytest.raises(PlanError, match=r"takes \d+ bytes, where the slow memory has 2048"):
        csdfgen.plan(network, fast="1KiB", slow="2KiB")
    with pytest.raises(PlanError, match=r"alive at one time, where the fast memory has 1024 and the slow one 7000"):  # fmt: skip
        csdfgen.plan(network, fast=1024, slow=7000)
    with pytest.raises(InputError, match=r"8,192 bytes, more than the slow one with 4,096"):
        csdfgen.plan(network, fast="8KiB", slow="4KiB")
    with pytest.raises(InputError, match="give slow too"):
        csdfgen.plan(network, fast="8KiB")


def test_a_plan_with_memories_is_that_of_one_call() -> None:
    network = csdfgen.load("zoo:lenet5")
    one = csdfgen.plan(network, fast="4KiB", slow="1MiB")
    two = split_memories(csdfgen.plan(network), 4096, 2**20)
    assert one.regions == two.regions and one.options == two.options
    small = csdfgen.plan(network, goal="memory", fast="4KiB", slow="1MiB")
    assert small.border and small.figures["peak_live"] <= one.figures["peak_live"]
