"""From a network to a plan, or to a graph, in one call: fuse, convert, place, order, pack.

Three orders are tried, `demand` (a phase fires as soon as its reader needs it, not before), `eager`
(as soon as it can) and `layers` (one layer after another), with slab heights `auto` also `bounded`
(as far ahead as fits into what
`demand` takes); the plan with the smallest arena is kept. Nobody needs an external tool to get a
schedule.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import InputError, PlanError, option
from csdfgen.model.network import Network
from csdfgen.phases.algorithm1 import algorithm1
from csdfgen.phases.conversion import Conversion, convert, csdf_graph
from csdfgen.phases.heights import AskedRows
from csdfgen.phases.provenance import digest_of, origin_of
from csdfgen.planning.capacities import check_buffers, check_channels, check_order, row_limits
from csdfgen.planning.memory import BufferPlan, Occupancy, Storage, occupancy, pack
from csdfgen.planning.plan import Plan, storages
from csdfgen.planning.sharing import Placement, place
from csdfgen.rewriting.fuse import FUSE_LEVELS
from csdfgen.rewriting.fuse import fuse as rewritten
from schedules.demand import POLICIES, firing_order
from schedules.schedule import Schedule

__all__ = [
    "assemble",
    "graph_of",
    "named_order",
    "plan",
    "plan_from_schedule",
    "prepare",
    "whole_layer_live",
]


def plan(
    network: Network,
    *,
    rows: AskedRows = "auto",
    fuse: str = "full",
    image: str = "streamed",
    policy: str = "best",
) -> Plan:
    """The plan of a network: firings, buffers and memory figures.

    rows: rows a phase: a number, "auto" (about 64 output pixels), "whole", "LAYER=N,...", or
        a mapping {"LAYER": N, "*": N} (see `heights.parse_rows`).
    fuse: "none", "fold" or "full" (see `fuse`). image: "streamed" or "resident" (see `conversion`).
    policy: "demand", "eager", "layers", "bounded", or "best" of them by arena.
    Raises InputError for options that do not exist.
    """
    if policy not in (*POLICIES, "best"):
        raise InputError(f"{option('policy', policy)}: not one of {', '.join(POLICIES)}, best")
    conversion, placement, found = prepare(network, rows, fuse, image)
    candidates: list[tuple[BufferPlan, Occupancy, tuple[tuple[str, int], ...], str]] = []
    for name in _policies(conversion) if policy == "best" else (policy,):
        order = named_order(conversion, name)
        lifetimes = occupancy(order, found)
        if any(lifetimes.peak_live >= buffers.arena_bytes for buffers, *_ in candidates):
            continue  # no arena for this order is smaller
        candidates.append((pack(found, lifetimes), lifetimes, order, name))
    buffers, lifetimes, order, chosen = min(
        candidates, key=lambda c: (c[0].arena_bytes, c[1].peak_live)
    )
    draft = Plan(conversion, placement, fuse, image, chosen, order, found, buffers, lifetimes)
    return assemble(draft)


def _policies(conversion: Conversion) -> tuple[str, ...]:
    """Orders of which the best is kept; `bounded`, with more alive at a time, only where heights
    are `auto`.
    """
    return tuple(
        name for name in POLICIES if name != "bounded" or conversion.rows.general == "auto"
    )


def graph_of(
    conversion: Conversion,
    fuse: str,
    image: str,
    *,
    tokens: str = "elements",
    rates: str = "exact",
    overlap: bool = True,
) -> CsdfGraph:
    """The CSDF graph of a conversion, which knows how it was made (`graph.origin`), without serial
    self-loops.

    fuse, image: those with which the conversion was prepared. tokens: "elements" or "rows". rates:
    "exact" by the row rule, or "paper" by Algorithm 1. overlap: with self-loops for the rows that a
    reader keeps. Raises InputError.
    """
    if rates not in ("exact", "paper"):
        raise InputError(f"{option('rates', rates)}: neither 'exact' nor 'paper'")
    if rates == "paper":
        graph = algorithm1(conversion, tokens=tokens)
        graph = (
            graph
            if overlap
            else replace(graph, channels=tuple(c for c in graph.channels if c.kind != "overlap"))
        )
    else:
        graph = csdf_graph(conversion, tokens=tokens, overlap=overlap)
    return replace(graph, origin=origin_of(conversion, fuse, image, tokens, rates))


def prepare(
    network: Network, rows: AskedRows, fuse: str, image: str
) -> tuple[Conversion, Placement, tuple[Storage, ...]]:
    """All of a plan that does not depend on the order of firings; options as in `plan`."""
    if fuse not in FUSE_LEVELS:
        raise InputError(f"{option('fuse', fuse)}: not one of {', '.join(FUSE_LEVELS)}")
    fused = rewritten(network, fuse)
    conversion = convert(fused, rows, image=image)
    placement = place(fused, share=fuse == "full")
    return conversion, placement, storages(conversion, placement)


def plan_from_schedule(network: Network, schedule: Schedule) -> Plan:
    """The plan that fires a network in the order of a schedule of its graph, in buffers within the
    capacities there.

    network: loaded with the shapes and the batch of `schedule.origin`, whose options say how to cut
    it. Raises PlanError if the schedule is of no network, of another one, or of a graph that does
    not run; ScheduleError and CapacityExceededError where its firings do not follow from each other
    or do not keep its capacities; InputError for options that do not exist.
    """
    origin = schedule.origin
    if origin is None:
        raise PlanError(
            f"graph '{schedule.graph_name}' does not say which network it was made from; make it with csdfgen MODEL -o graph.xml"
        )
    if origin.rates != "exact":
        raise PlanError(
            f"is of a graph with {option('rates', origin.rates)}, whose phases are not run; "
            f"make it with {option('rates', 'exact')}"
        )
    if schedule.iterations != 1 or any(firing.iteration for firing in schedule.firings):
        last = max((firing.iteration for firing in schedule.firings), default=0) + 1
        raise PlanError(
            f"fires {max(schedule.iterations, last)} iterations; a plan has 1, which every image repeats"
        )
    conversion, placement, found = prepare(network, origin.rows, origin.fuse, origin.image)
    order = tuple((firing.actor, firing.phase) for firing in schedule.firings)
    check_order(order, conversion, origin.model, origin.options)
    digest = digest_of(conversion)
    if digest != origin.digest:
        raise PlanError(
            f"made for '{origin.model}' ({origin.digest}), whose phases have other rows or shapes than those of "
            f"'{network.name}' ({digest}); make graph and schedule from this model"
        )
    rooms = check_channels(conversion, schedule)
    lifetimes = occupancy(order, found)
    check_buffers(found, lifetimes, row_limits(conversion, placement, rooms))
    buffers = pack(found, lifetimes)
    return assemble(
        Plan(
            conversion,
            placement,
            origin.fuse,
            origin.image,
            schedule.policy,
            order,
            found,
            buffers,
            lifetimes,
        )
    )


def named_order(conversion: Conversion, policy: str) -> tuple[tuple[str, int], ...]:
    """An order of firings (actor name, phase) of the conversion's graph."""
    names = [actor.name for actor in conversion.graph.actors]
    return tuple((names[actor], phase) for actor, phase in firing_order(conversion.graph, policy))


def assemble(draft: Plan) -> Plan:
    """The plan with its figures, once firings and buffers are settled."""
    from runtime.program import workspace_bytes

    network = draft.network
    figures = {
        "sum_of_tensors": sum(t.nbytes for t in network.tensors.values()),
        "whole_layer_live": whole_layer_live(network),
        "sum_of_capacities": sum(slot.size for slot in draft.buffers.slots),
        "peak_live": draft.occupancy.peak_live,
        "arena": draft.buffers.arena_bytes,
        "workspace": workspace_bytes(draft),
        "parameters": network.parameter_bytes,
    }
    return replace(draft, figures=MappingProxyType(figures))


def whole_layer_live(network: Network) -> int:
    """Most bytes alive at one time when layers run whole, one after another, and dead tensors are
    freed.
    """
    conversion = convert(network, "whole")
    found = storages(conversion, place(network, share=False))
    return occupancy(
        [(work.name, phase) for work in conversion.actors for phase in range(len(work.phases))],
        found,
    ).peak_live
