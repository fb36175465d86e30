"""Which facts about a plan are reported? The layers that hold the memory at its peak, what the plan gives up for speed,
and its figures as one JSON object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from csdfgen.devices.memory import account_device_memory
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.heights import frame_overhead, predict_seconds
from csdfgen.phases.conversion import convert
from csdfgen.planning.buffers import make_buffers
from csdfgen.planning.lifetimes import trace_lifetimes
from csdfgen.planning.memories import list_memories
from csdfgen.planning.ordering import order_by_policy
from csdfgen.planning.plan import Plan

_SHOWN = 3


def holders(plan: Plan) -> list[tuple[str, int]]:
    """(layer, bytes) of the rows alive at the peak, largest first; scratch as "workspace of LAYER"."""
    live = plan.live
    if not len(live):
        return []
    at = int(live.argmax())
    found: dict[str, int] = {}
    for buffer, lifetime in zip(plan.rolling, plan.lifetimes.each, strict=True):
        rows = int(np.count_nonzero((lifetime.born <= at) & (lifetime.gone > at)))
        if rows:
            name = buffer.writers[0].actor if buffer.writers else buffer.name
            found[name] = found.get(name, 0) + rows * buffer.row_bytes
    actor, phase = plan.order[at]
    scratch = plan.workspace(actor, phase)[1]
    if scratch:
        found[f"workspace of {actor}"] = scratch
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def describe_holders(plan: Plan) -> str:
    """The largest holders as text: the layers to change for a lower peak."""
    parts = [f"'{name}' holds {size:,}" for name, size in holders(plan)[:_SHOWN]]
    return ", ".join(parts) or "nothing is held"


def list_heights(plan: Plan) -> dict[str, int]:
    """Layer -> rows that its tallest phase writes, or reads if the layer accumulates."""
    found = {}
    for work in plan.conversion.actors:
        if work.kind == "layer":
            read = max((len(rows) for one in work.reads for rows in one.rows), default=0)
            written = max((len(phase.out) for phase in work.phases), default=0)
            found[work.name] = written if work.state is None else read
    return found


def schedule_facts(plan: Plan, profile: DeviceProfile) -> dict[str, Any]:
    """The JSON object of `schedule --json`; None for values that are not known."""
    figures: Mapping[str, int] = plan.figures
    bound, found = figures.get("lower_bound"), estimate(plan, profile)
    return {
        "goal": plan.options.goal,
        "policy": plan.policy,
        "firings": plan.firings,
        "peak_live": figures["peak_live"],
        "lower_bound": bound,
        "optimal": None if bound is None else figures["peak_live"] <= bound,
        "arena": figures["arena"],
        "arena_bound": plan.arena_bound or None,
        "arena_optimal": plan.planned_bytes <= plan.arena_bound if plan.arena_bound else None,
        "outputs": figures.get("outputs"),
        "planned_bytes": plan.planned_bytes,
        "account": account_device_memory(plan, profile).to_json(),
        "whole_layer_live": figures["whole_layer_live"],
        **{name: figures[name] for name in ("largest_alone", "sum_alone") if name in figures},
        "predicted_ms": 1e3 * found.seconds,
        **({"predicted_worst_ms": 1e3 * found.worst} if plan.network.conditions else {}),
        "device": profile.name,
        "rows": list_heights(plan),
        **({"memories": memories_facts(plan)} if plan.border else {}),
        "holders": dict(holders(plan)[:_SHOWN]),
        "notes": list(plan.notes),
        "interrupted": plan.interrupted,
    }


def describe_placement(plan: Plan) -> str:
    """How far an arena may be from the smallest placement of its order, as text; "" if not known."""
    arena, bound = plan.planned_bytes, plan.arena_bound
    if not bound:
        return ""
    if arena <= bound:
        return f"{arena:,} bytes, proven minimal for this order"
    more = f"{arena:,} bytes, at most {100 * (arena / bound - 1):.2g} % above the bound for this order ({bound:,})"
    exact = "not proven minimal in this time" if plan.options.pack == "exact" else ""
    return f"{more}; {exact or 'pack exact may find a smaller one'}"


def memories_facts(plan: Plan) -> dict[str, dict[str, int]]:
    """Size of each memory of a plan, bytes used, and bytes moved for an image; empty for a plan in one memory."""
    return {
        one.name: {"bytes": one.size, "used": one.used, "read": one.read, "written": one.written}
        for one in list_memories(plan)
    }


MOST_FIRINGS = 100_000


def describe_tradeoff(plan: Plan, profile: DeviceProfile) -> str:
    """What a plan gives up for speed, as a sentence: the bytes that one row a phase would save, and the time that it would
    add; "" if it would save none, or for more than `MOST_FIRINGS`, whose order would take longer than the plan.

    The firings of one row a phase are ordered on demand and not placed: their bytes alive are what an arena could take.
    """
    rows = sum(tensor.rows for tensor in plan.network.tensors.values()) * plan.options.frames
    usual = plan.options.goal == "balanced" and plan.options.rows != "1" and plan.turns is None
    if not usual or rows > MOST_FIRINGS:
        return ""
    options, silent = plan.options, plan.sharing.silent
    conversion = convert(plan.network, "1", image=options.image, frames=options.frames)
    order = order_by_policy(conversion, "demand")
    live = trace_lifetimes(order, make_buffers(conversion, plan.sharing)).peak_live
    spared = plan.lifetimes.peak_live - live
    if spared <= 0:
        return ""
    seconds = sum(predict_seconds(work, silent, profile) for work in conversion.actors)
    slower = frame_overhead(profile) + seconds - estimate(plan, profile).seconds
    return (
        f"with one row a phase, {spared:,} bytes of rows less would be live, in {len(order):,} firings instead of "
        f"{len(plan.order):,}, predicted {1e3 * slower:.3g} ms slower on {profile.name}; "
        "goal 'memory' searches for such plans"
    )
