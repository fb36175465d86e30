"""How is a plan placed again, with the same firings? By another packer, or in two memories.

    write_plan_items("items.csv", plan)          # the items of the plan, for any packer
    plan = with_offsets(plan, "solution.csv")    # its rows and scratch where the solution has them
    plan = in_memories(plan, 2**18, 2**23)       # distributed over a fast and a slow memory

The items to pack are the least that the plan needs: blocks of the rows of a firing, and the least scratch of kernels.
The resulting plan has to pass the checker.
"""

from __future__ import annotations

import os
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.errors import PlanError, option
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.memories import FAST, row_traffic, split
from csdfgen.planning.packing.items import lower_bound, make_packing
from csdfgen.planning.packing.minimalloc import read_offsets, write_items
from csdfgen.planning.placement import Layout, Placement, make_layout
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import assemble
from csdfgen.planning.workspaces import Declarations, time_scratch
from csdfgen.program.steps import Backend
from csdfgen.stopping import is_stopped


def make_plan_layout(plan: Plan) -> Layout:
    """The items of a plan, with the least scratch of its kernels."""
    return make_layout(plan.rolling, plan.lifetimes, time_scratch(plan.needs, plan.order))


def write_plan_items(path: str | os.PathLike[str], plan: Plan) -> tuple[int, int]:
    """Write the items of a plan as a CSV file (`packing.minimalloc`), and return (number of items, lower bound of their
    placements in bytes). Raises InputError.
    """
    items = make_plan_layout(plan).named()
    write_items(path, items)
    return int(np.count_nonzero(items.sizes)), lower_bound(items)


def replace_offsets(plan: Plan, path: str | os.PathLike[str], kernels: Backend) -> Plan:
    """The plan with its rows and scratch at the offsets of a CSV file with a solution of its items.

    kernels: the backend that the plan was made for. The arena ends with the highest item; kernels get the free bytes
    below as scratch. Raises InputError if the file is no solution of these items.
    """
    layout = make_plan_layout(plan)
    items = layout.named()
    found = make_packing(items, read_offsets(path, items), lower_bound(items))
    declared = Declarations(plan.conversion, plan.sharing, plan.rolling, kernels)
    placed = declared.given(layout.placed(found), layout.lifetimes, layout.scratch, plan.order)
    return _placed(plan, placed, found.lower_bound)


def split_memories(plan: Plan, fast: int, slow: int) -> Plan:
    """The plan with its rows and scratch distributed over a fast and a slow memory of so many bytes, so that few bytes are
    moved to and from the slow one (`memories.split`).

    Both are in one address space: the fast one from 0 to `Plan.border`, the slow one from there. A block of rows is in
    one of them, and firings get no more scratch than they need, so that the reported traffic is exact. Raises PlanError
    if the memories do not hold the plan.
    """
    if plan.options.pack == "exact":
        raise PlanError(
            f"{option('pack', 'exact')} proves a placement in one memory; leave it or {option('fast')} out"
        )
    if plan.options.result == "arena":
        raise PlanError(
            f"{option('result', 'arena')} keeps outputs together at the start of one memory; leave it or {option('fast')} out"
        )
    layout, options = make_plan_layout(plan), plan.options
    items = layout.named()
    scratch = layout.placed(make_packing(items, np.zeros(len(items), np.int64), 0)).workspaces
    reads, writes = row_traffic(plan.conversion, plan.sharing, (*plan.rolling, *scratch))
    moved = layout.moved({name: reads[name] + writes[name] for name in reads})
    found = split(items, moved, fast, slow, effort=options.search_effort)
    # with a gap at the border, rows of the two memories are never contiguous
    border = (-(-found.pools[FAST] // items.alignment) + 1) * items.alignment
    offsets = found.offsets + np.where(found.fast | (items.sizes == 0), 0, border)
    placed = layout.placed(make_packing(items, offsets, 0))
    asked = replace(options, fast=fast, slow=slow)
    interrupted = plan.interrupted or is_stopped()
    made = replace(plan, options=asked, border=border, interrupted=interrupted)
    return _placed(made, placed, 0)


def _placed(plan: Plan, placed: Placement, bound: int) -> Plan:
    draft = replace(
        plan,
        buffers=(*plan.rolling, *placed.workspaces),
        regions=MappingProxyType(dict(placed.regions)),
        pools=MappingProxyType({ARENA: placed.total}),
        arena_bound=bound,
    )
    return assemble(draft, plan.figures["lower_bound"])
