"""From a network to a checked plan, or to a graph, in one call: fuse, convert, share, order, place, check.

Three orders are tried, `demand` (a phase fires as soon as its reader needs it, not before), `eager`
(as soon as it can) and `layers` (one layer after another), with slab heights `auto` also `bounded`
(as far ahead as fits into what `demand` takes); the plan with the smallest arena, kernels'
workspace included, is kept. Nobody needs an external tool to get a schedule, and no plan leaves
this room unchecked.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from weakref import WeakKeyDictionary

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import InputError, PlanError, option
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.phases.algorithm1 import algorithm1
from csdfgen.phases.conversion import Conversion, convert, csdf_graph, fed_slices
from csdfgen.phases.heights import AskedRows, parse_rows
from csdfgen.phases.provenance import digest_of, origin_of
from csdfgen.planning.buffers import ARENA, Buffer, buffers_of, workspace_buffer
from csdfgen.planning.capacities import check_buffers, check_channels, check_order, row_limits
from csdfgen.planning.checker import check
from csdfgen.planning.lifetimes import Lifetimes, lifetimes_of, times_of
from csdfgen.planning.placement import Block, Region, aligned, place_blocks, place_workspaces, ring
from csdfgen.planning.plan import Plan
from csdfgen.planning.pulling import pulled
from csdfgen.planning.recompute import recomputed
from csdfgen.planning.sharing import Sharing, share
from csdfgen.planning.workspaces import Declarations
from csdfgen.rewriting.fuse import fuse as rewritten
from csdfgen.rewriting.tiles import regions_of, tiled
from schedules.demand import POLICIES, firing_order
from schedules.order import topological_order
from schedules.schedule import Schedule

__all__ = [
    "Prepared",
    "assemble",
    "graph_of",
    "named_order",
    "plan",
    "plan_from_schedule",
    "prepare",
    "whole_layer_live",
]

Order = tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Prepared:
    """All of a plan that does not depend on the order of firings.

    sinks: layers to be completed in turn, where the network is computed in tiles.
    """

    options: PlanOptions
    conversion: Conversion
    sharing: Sharing
    buffers: tuple[Buffer, ...]
    sinks: tuple[str, ...] = ()


def plan(
    network: Network,
    *,
    rows: AskedRows = DEFAULTS.rows,
    fuse: str = DEFAULTS.fuse,
    image: str = DEFAULTS.image,
    policy: str = DEFAULTS.policy,
    frames: int = DEFAULTS.frames,
    kernels: KernelSet = NUMPY,
    tiles: str = DEFAULTS.tiles,
    recompute: float | None = None,
) -> Plan:
    """The plan of a network: firings, buffers and memory figures.

    rows: rows a phase: a number, "auto" (about 64 output pixels), "whole", "LAYER=N,...", or
        a mapping {"LAYER": N, "*": N} (see `heights.parse_rows`).
    fuse: "none", "fold" or "full" (see `fuse`). image: "streamed" or "resident" (see `conversion`).
    policy: "demand", "eager", "layers", "bounded", or "best" of them by arena.
    frames: images that the order of firings covers; they divide the network's batch.
    kernels: the backend whose workspace is planned. tiles: regions of layers that are computed a few
    columns at a time. recompute: find tiles that take the least memory for at most this many times the
    multiply-accumulates (see `recompute`); then rows are 1 by default.
    Raises InputError for options that do not exist, and for what is no network.
    """
    if not isinstance(network, Network):
        raise InputError(
            f"plan takes a network, not {type(network).__name__}; csdfgen.load reads one"
        )
    if recompute is not None:
        if tiles:
            raise InputError(f"{option('recompute', recompute)}: tiles '{tiles}' are given already")
        tiles = recomputed(rewritten(network, fuse), recompute)[1].tiles
        rows = 1 if rows == DEFAULTS.rows else rows
    options = PlanOptions(str(parse_rows(rows)), fuse, image, policy, frames, tiles)
    with _without_collections():
        return _planned(network, options, kernels)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Planning makes many small values and no garbage: looking for some takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _planned(network: Network, options: PlanOptions, kernels: KernelSet) -> Plan:
    prepared = prepare(network, options)
    declarations = Declarations(prepared.conversion, prepared.sharing, prepared.buffers, kernels)
    best: _Candidate | None = None
    for name in _policies(prepared) if options.policy == "best" else (options.policy,):
        order = _ordered(prepared, name)
        lifetimes = lifetimes_of(order, prepared.buffers)
        if best is not None and lifetimes.peak_live >= best.total:
            continue  # no arena for this order is smaller
        limit = inf if best is None else best.total
        best = _placed(name, order, lifetimes, declarations, limit) or best
    assert best is not None
    return _finished(prepared, best)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """An order with everything placed: block offsets by buffer, scratch (bytes, offsets) by actor."""

    policy: str
    order: Order
    lifetimes: Lifetimes
    offsets: tuple[int, ...]
    scratch: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
    total: int


def _placed(
    policy: str,
    order: Order,
    lifetimes: Lifetimes,
    declarations: Declarations,
    limit: float = inf,
) -> _Candidate | None:
    """The order with its buffers and its scratch at the offsets that take the least; None if that is
    `limit` bytes or more.
    """
    sizes = declarations.sizes(lifetimes)
    times = times_of(order)
    wanted = {actor: (found, times[actor]) for actor, found in sizes.items()}
    blocks = [
        Block(one.capacity * row_bytes, *one.span)
        for one, row_bytes in zip(lifetimes.each, declarations.row_bytes, strict=True)
    ]
    best: tuple[tuple[int, ...], dict[str, tuple[int, ...]]] | None = None
    for solution in place_blocks(blocks, limit):
        if solution.total < limit:
            scratch, total = place_workspaces(blocks, solution.offsets, wanted)
            if total < limit:
                best, limit = (solution.offsets, scratch), total
            # below all blocks instead of beside them: then only the scratch is rounded up
            below = aligned(max((int(found.max()) for found in sizes.values()), default=0))
            if below + solution.total < limit:
                limit = below + solution.total
                shifted = tuple(offset + below for offset in solution.offsets)
                best = shifted, {actor: (0,) * len(found) for actor, found in sizes.items()}
    if best is None:
        return None
    offsets, scratch = best
    pairs = {actor: (tuple(sizes[actor].tolist()), scratch[actor]) for actor in scratch}
    return _Candidate(policy, order, lifetimes, offsets, pairs, int(limit))


def _finished(prepared: Prepared, found: _Candidate) -> Plan:
    regions = {
        buffer.name: ring(buffer, lifetime, offset)
        for buffer, lifetime, offset in zip(
            prepared.buffers, found.lifetimes.each, found.offsets, strict=True
        )
    }
    workspaces = []
    for actor, (sizes, offsets) in found.scratch.items():
        buffer = workspace_buffer(actor, sizes)
        workspaces.append(buffer)
        regions[buffer.name] = Region(buffer.name, min(offsets), buffer.row_bytes, 1, table=offsets)
    return assemble(
        Plan(
            prepared.conversion,
            prepared.sharing,
            prepared.options,
            found.policy,
            found.order,
            (*prepared.buffers, *workspaces),
            MappingProxyType(regions),
            MappingProxyType({ARENA: found.total}),
        )
    )


def _policies(prepared: Prepared) -> tuple[str, ...]:
    """Orders of which the best is kept; `bounded`, with more alive at a time, only where heights
    are `auto`.
    """
    if prepared.sinks:
        return ("tiles",)
    general = prepared.conversion.rows.general
    return tuple(name for name in POLICIES if name != "bounded" or general == "auto")


def _ordered(prepared: Prepared, policy: str) -> Order:
    """An order of firings; "tiles" runs one tile after the other."""
    if policy == "tiles":
        return pulled(prepared.conversion, prepared.sinks)
    return named_order(prepared.conversion, policy)


def graph_of(
    conversion: Conversion,
    options: PlanOptions,
    *,
    tokens: str = "elements",
    rates: str = "exact",
    overlap: bool = True,
) -> CsdfGraph:
    """The CSDF graph of a conversion, which knows how it was made (`graph.origin`), without serial
    self-loops.

    options: those with which the conversion was prepared. tokens: "elements" or "rows". rates:
    "exact" by the row rule, or "paper" by Algorithm 1. overlap: with self-loops for the rows that a
    reader keeps. Raises InputError.
    """
    if rates not in ("exact", "paper"):
        raise InputError(f"{option('rates', rates)}: neither 'exact' nor 'paper'")
    if rates == "paper":
        graph = algorithm1(conversion, tokens=tokens)
        graph = graph if overlap else _without_overlap(graph)
    else:
        graph = csdf_graph(conversion, tokens=tokens, overlap=overlap)
    return replace(graph, origin=origin_of(conversion, options, tokens, rates))


def _without_overlap(graph: CsdfGraph) -> CsdfGraph:
    return replace(graph, channels=tuple(c for c in graph.channels if c.kind != "overlap"))


_REWRITTEN: WeakKeyDictionary[Network, dict[str, Network]] = WeakKeyDictionary()
"""Networks as their layers were joined before, so that plans at other heights share packed weights."""


def prepare(network: Network, options: PlanOptions) -> Prepared:
    """Join, cut and share; raises InputError for rows that name no layer, tiles that do not fit."""
    known = _REWRITTEN.setdefault(network, {})
    fused = known.get(options.fuse)
    if fused is None:
        fused = known[options.fuse] = rewritten(network, options.fuse)
    sinks: tuple[str, ...] = ()
    if options.tiles:
        in_tiles = tiled(fused, regions_of(options.tiles))
        fused, sinks = in_tiles.network, in_tiles.sinks
    conversion = convert(fused, options.rows, image=options.image, frames=options.frames)
    fed = fed_slices(fused, options.image)
    sharing = share(fused, together=options.fuse == "full", fed=fed)
    return Prepared(options, conversion, sharing, buffers_of(conversion, sharing), sinks)


def plan_from_schedule(network: Network, schedule: Schedule, kernels: KernelSet = NUMPY) -> Plan:
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
    prepared = prepare(network, origin.plan_options)
    conversion = prepared.conversion
    order = tuple((firing.actor, firing.phase) for firing in schedule.firings)
    check_order(order, conversion, origin.model, origin.options)
    digest = digest_of(conversion)
    if digest != origin.digest:
        raise PlanError(
            f"made for '{origin.model}' ({origin.digest}), whose phases have other rows or shapes "
            f"than those of '{network.name}' ({digest}); make graph and schedule from this model"
        )
    rooms = check_channels(conversion, schedule)
    lifetimes = lifetimes_of(order, prepared.buffers)
    limits = row_limits(conversion, prepared.sharing, rooms)
    check_buffers(prepared.buffers, lifetimes, limits)
    declarations = Declarations(conversion, prepared.sharing, prepared.buffers, kernels)
    found = _placed(schedule.policy, order, lifetimes, declarations)
    assert found is not None
    return _finished(prepared, found)


def named_order(conversion: Conversion, policy: str) -> Order:
    """An order of firings (actor name, phase) of the conversion's graph."""
    if policy == "layers":
        # what firing one by one comes to, as nothing limits a layer whose operands are whole
        actors = conversion.graph.actors
        inorder = [actors[at] for at in topological_order(conversion.graph)]
        return tuple((actor.name, phase) for actor in inorder for phase in range(actor.phases))
    names = [actor.name for actor in conversion.graph.actors]
    return tuple((names[actor], phase) for actor, phase in firing_order(conversion.graph, policy))


def assemble(draft: Plan) -> Plan:
    """The plan with its figures, checked, once firings and regions are settled. Raises what
    `checker.check` raises.
    """
    check(draft)
    network = draft.network.original or draft.network
    scratch = [size for b in draft.buffers if b.kind == "workspace" for size in b.sizes]
    figures = {
        "sum_of_tensors": sum(t.nbytes for t in network.tensors.values()),
        "whole_layer_live": whole_layer_live(network),
        "sum_of_capacities": sum(draft.regions[b.name].size for b in draft.rolling),
        "peak_live": draft.lifetimes.peak_live,
        "arena": draft.planned_bytes,
        "workspace": max(scratch, default=0),
        "parameters": network.parameter_bytes,
    }
    return replace(draft, figures=MappingProxyType(figures))


def whole_layer_live(network: Network) -> int:
    """Most bytes alive at one time when layers run whole, one after another, and dead tensors are
    freed.
    """
    last = {t.name: at for at, layer in enumerate(network.layers) for t in layer.inputs if t}
    live = sum(tensor.nbytes for tensor in network.inputs if tensor.name in last)
    peak = live
    for at, layer in enumerate(network.layers):
        live += sum(tensor.nbytes for tensor in layer.outputs)
        peak = max(peak, live)
        for tensor in {
            t.name: t for t in (*layer.inputs, *layer.outputs) if t is not None
        }.values():
            if last.get(tensor.name, at) == at and tensor.name not in network.output_tensors:
                live -= tensor.nbytes
    return peak
