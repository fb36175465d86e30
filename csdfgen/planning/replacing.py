"""How is a plan placed another way, its firings as they are? By another packer, or in two memories.

    write_plan_items("items.csv", plan)          # the items of the plan, for any packer
    plan = with_offsets(plan, "solution.csv")    # its rows and scratch where the solution has them
    plan = in_memories(plan, 2**18, 2**23)       # shared out to a fast and a slow memory

What is packed is the least that the plan needs: blocks of rows that one firing makes, and the scratch
that kernels cannot do without. What comes of it goes through the checker like every plan.
"""

from __future__ import annotations

import os
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.errors import PlanError, option
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.memories import FAST, row_traffic, split
from csdfgen.planning.packing.items import Packing, lower_bound, packed
from csdfgen.planning.packing.minimalloc import read_offsets, write_items
from csdfgen.planning.placement import Layout, Placement, layout_of
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import assemble
from csdfgen.planning.workspaces import Declarations, timed
from csdfgen.program.steps import Backend

__all__ = ["in_memories", "layout_of_plan", "with_offsets", "write_plan_items"]


def layout_of_plan(plan: Plan) -> Layout:
    """What of a plan is packed, its scratch as small as its kernels can do with."""
    return layout_of(plan.rolling, plan.lifetimes, timed(plan.needs, plan.order))


def write_plan_items(path: str | os.PathLike[str], plan: Plan) -> tuple[int, int]:
    """Write the items of a plan as a CSV file (`packing.minimalloc`); (how many, bytes that no
    placement of them is below). Raises InputError.
    """
    items = layout_of_plan(plan).named()
    write_items(path, items)
    return int(np.count_nonzero(items.sizes)), lower_bound(items)


def with_offsets(plan: Plan, path: str | os.PathLike[str], kernels: Backend) -> Plan:
    """The plan with its rows and scratch at the offsets of a CSV file, a solution of its items.

    kernels: the backend that the plan was made for. The arena ends where the highest item does; kernels get what is
    free below as scratch. Raises InputError where the file is no solution of these items.
    """
    layout = layout_of_plan(plan)
    items = layout.named()
    found = packed(items, read_offsets(path, items), lower_bound(items))
    declared = Declarations(plan.conversion, plan.sharing, plan.rolling, kernels)
    placed = declared.given(layout.placed(found), layout.lifetimes, layout.scratch, plan.order)
    return _placed(plan, placed, found.lower_bound)


def in_memories(plan: Plan, fast: int, slow: int) -> Plan:
    """The plan with its rows and scratch shared out to a fast and a slow memory of so many bytes, so
    that few bytes are moved to and from the slow one (`memories.split`).

    Both stand in one address space: the fast one from 0 to `Plan.border`, the slow one from there. A
    block of rows lies in one of them, and firings get no more scratch than they need: what is moved
    is what is told. Raises PlanError where they do not hold the plan.
    """
    if plan.options.pack == "exact":
        raise PlanError(
            f"{option('pack', 'exact')} proves a placement in one memory; leave it or {option('fast')} out"
        )
    if plan.options.result == "arena":
        raise PlanError(
            f"{option('result', 'arena')} keeps outputs together at the start of one memory; leave it or {option('fast')} out"
        )
    layout, options = layout_of_plan(plan), plan.options
    items = layout.named()
    scratch = layout.placed(_nowhere(len(items))).workspaces
    reads, writes = row_traffic(plan.conversion, plan.sharing, (*plan.rolling, *scratch))
    moved = layout.moved({name: reads[name] + writes[name] for name in reads})
    found = split(items, moved, fast, slow, effort=options.search_effort)
    # a gap at the border keeps rows in both memories from being taken for one array
    border = (-(-found.pools[FAST] // items.alignment) + 1) * items.alignment
    offsets = found.offsets + np.where(found.fast | (items.sizes == 0), 0, border)
    placed = layout.placed(packed(items, offsets, 0))
    asked = replace(options, fast=fast, slow=slow)
    return _placed(replace(plan, options=asked, border=border), placed, 0)


def _nowhere(count: int) -> Packing:
    return Packing(np.zeros(count, np.int64), 0, 0, False)


def _placed(plan: Plan, placed: Placement, bound: int) -> Plan:
    draft = replace(
        plan,
        buffers=(*plan.rolling, *placed.workspaces),
        regions=MappingProxyType(dict(placed.regions)),
        pools=MappingProxyType({ARENA: placed.total}),
        arena_bound=bound,
    )
    return assemble(draft, plan.figures["lower_bound"])
