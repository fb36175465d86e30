"""Which bytes of which memory does each row of a plan occupy, and when? For charts and reports.

Buffers, lifetimes and regions become rectangles of firings and addresses here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from csdfgen.charts.footprint import Band, Footprint, Owner
from csdfgen.charts.memory import small_memory_chart
from csdfgen.phases.conversion import describe_function
from csdfgen.planning.buffers import ARENA, Buffer
from csdfgen.planning.lifetimes import firing_times, trace_whole_layers
from csdfgen.planning.plan import Plan

_LISTED = 3
"""Tensors of a part that are named; the others are counted."""


def footprint(plan: Plan) -> Footprint:
    """Every row of a plan as a rectangle, from the first claim on."""
    actors = plan.conversion.actors
    place = {work.name: at for at, work in enumerate(actors)}
    times = firing_times(plan.order)
    owners: list[Owner] = []
    columns: list[tuple[np.ndarray, ...]] = []
    for buffer, lifetime in zip(plan.rolling, plan.lifetimes.each, strict=True):
        region = plan.regions[buffer.name]
        rows = np.arange(buffer.rows)
        low = np.array(region.table, np.int64)
        writer, tensors = buffer.writers[0].actor, _written(plan, buffer)
        owners.append(Owner(place[writer], _named(buffer, tensors), buffer.kind, region.pool))
        columns.append((rows, low, low + buffer.row_bytes, lifetime.born, lifetime.gone))
    for buffer in plan.buffers:
        if buffer.kind == "workspace":
            actor, region = buffer.writers[0].actor, plan.regions[buffer.name]
            sizes = np.array(buffer.sizes, np.int64)
            rows = np.flatnonzero(sizes)
            low = np.array(region.table, np.int64)[rows]
            at = np.asarray(times[actor])[rows]
            owners.append(Owner(place[actor], buffer.name, "workspace", region.pool))
            columns.append((rows, low, low + sizes[rows], at, at + 1))
    counts = [len(one[0]) for one in columns]
    row, low, high, first, last = (
        np.concatenate([np.zeros(0, np.int64), *(one[k] for one in columns)]) for k in range(5)
    )
    return Footprint(
        title=plan.network.name,
        layers=tuple(Band(work.name, describe_function(work), len(work.phases)) for work in actors),
        owners=tuple(owners),
        owner=np.repeat(np.arange(len(owners)), counts),
        row=row,
        end=row + 1,
        low=low,
        high=high,
        first=first,
        last=last,
        order=np.array([place[actor] for actor, _ in plan.order], np.int64),
        needed=_needed(plan, times),
        whole=tuple((place[name], size) for name, size in trace_whole_layers(plan.network)),
        arena=plan.planned_bytes,
        arena_pool=ARENA,
        figures=plan.figures,
        images=plan.conversion.frames,
        part=plan.part,
    )


def notebook_chart(plan: Plan) -> str:
    """What is alive in a plan by layers, as a notebook shows it."""
    return small_memory_chart(footprint(plan))


def _needed(plan: Plan, times: dict[str, np.ndarray]) -> np.ndarray:
    """Bytes of scratch that the kernel of each firing needs; a plan gives it more where bytes are free."""
    found = np.zeros(len(plan.order), np.int64)
    for actor, sizes in plan.needs.items():
        found[times[actor]] = sizes
    return found


def _written(plan: Plan, buffer: Buffer) -> list[str]:
    """The tensors of a buffer that are more than views of others."""
    producer, silent = plan.network.producer, plan.sharing.silent
    layers = [(name, producer.get(name)) for name in plan.sharing.members.get(buffer.name, ())]
    return [name for name, layer in layers if layer is None or layer.name not in silent]


def _named(buffer: Buffer, tensors: Sequence[str]) -> str:
    names = list(dict.fromkeys(tensors)) or [buffer.name]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
