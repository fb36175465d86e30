"""From a network to a checked plan, or to a graph, in one call: fuse, convert, share, order, place, check.

The order is searched for (`planning.ordering`): from `demand` (a phase fires as soon as its reader
needs it, not before), `eager` (as soon as it can), `layers` (one layer after another) and `bounded`
(as far ahead as fits into what `demand` takes) to the least peak, kernels' workspace included, with
a bound for all orders. Rows and scratch are then placed, and kernels get what is left free. Nobody
needs an external tool to get a schedule, and no plan leaves this room unchecked.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from weakref import WeakKeyDictionary

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import InputError, PlanError, option
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.native.backends import AUTO, kernels_for, settled
from csdfgen.phases.algorithm1 import algorithm1
from csdfgen.phases.conversion import Conversion, convert, csdf_graph, fed_slices
from csdfgen.phases.heights import AskedRows, parse_rows
from csdfgen.phases.provenance import digest_of, origin_of
from csdfgen.planning.buffers import Buffer, buffers_of
from csdfgen.planning.candidates import Candidate
from csdfgen.planning.capacities import check_buffers, check_channels, check_order, row_limits
from csdfgen.planning.lifetimes import lifetimes_of
from csdfgen.planning.ordering import LeastPeak, Order, least_peak, lower_bound, named_order
from csdfgen.planning.overlapping import overlapped
from csdfgen.planning.packing.exact import check_solver
from csdfgen.planning.plan import Plan
from csdfgen.planning.pulling import pulled
from csdfgen.planning.recompute import recomputed
from csdfgen.planning.replacing import shared_out
from csdfgen.planning.sharing import Sharing, share
from csdfgen.planning.workspaces import Declarations, Scratch
from csdfgen.rewriting.fuse import fuse as rewritten
from csdfgen.rewriting.tiles import regions_of, tiled
from schedules.schedule import Schedule

__all__ = [
    "Prepared",
    "check_network",
    "graph_of",
    "plan",
    "plan_for",
    "plan_from_schedule",
    "plan_of",
    "prepare",
    "rough_bound",
    "several",
]

_HEAVY = 1 << 18
"""Bytes of weights that no near cache keeps until the next call."""

_ROUGH = 0.05
"""Share of the work on a bound that proves nearly all of it."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """All of a plan that does not depend on the order of firings.

    sinks: layers to be completed in turn, where the network is computed in tiles. fine: see
    `buffers_of`.
    """

    options: PlanOptions
    conversion: Conversion
    sharing: Sharing
    buffers: tuple[Buffer, ...]
    sinks: tuple[str, ...] = ()
    fine: bool = False
    _declared: dict[KernelSet, Declarations] = field(default_factory=dict, repr=False)

    def declared(self, kernels: KernelSet | None) -> Declarations:
        """What a backend declares for its firings; asked for once."""
        kernels = kernels or kernels_for(self.options)
        if kernels not in self._declared:
            self._declared[kernels] = Declarations(
                self.conversion, self.sharing, self.buffers, kernels
            )
        return self._declared[kernels]

    def scratch(self, kernels: KernelSet | None) -> Scratch:
        """Actor -> the least bytes of scratch of each of its phases, of those that need any."""
        return self.declared(kernels).least(self.options)

    def in_fine_blocks(self) -> Prepared:
        """The same with blocks of rows that are released together too."""
        return replace(
            self,
            buffers=_buffers(self.options, self.conversion, self.sharing, fine=True),
            fine=True,
            _declared={},
        )


def plan(
    network: Network,
    *,
    rows: AskedRows = DEFAULTS.rows,
    fuse: str = DEFAULTS.fuse,
    image: str = DEFAULTS.image,
    policy: str = DEFAULTS.policy,
    frames: int = DEFAULTS.frames,
    kernels: KernelSet | None = None,
    tiles: str = DEFAULTS.tiles,
) -> Plan:
    """The plan of a network: firings, buffers and memory figures.

    rows: rows a phase: a number, "auto" (about 64 output pixels), "whole", "LAYER=N,...", or
        a mapping {"LAYER": N, "*": N} (see `heights.parse_rows`).
    fuse: "none", "fold" or "full" (see `fuse`). image: "streamed" or "resident" (see `conversion`).
    policy: "demand", "eager", "layers", "bounded", or "best": the order of least peak that is found.
    frames: images that the order of firings covers; they divide the network's batch.
    kernels: the backend whose workspace is planned, that of the options by default. tiles:
        regions of layers that are computed a few columns at a time.
    Raises InputError for options that do not exist, and for what is no network.
    """
    options = PlanOptions(str(parse_rows(rows)), fuse, image, policy, frames=frames, tiles=tiles)
    return plan_of(network, options, kernels)


def check_network(network: object) -> None:
    """Raises InputError for what is no network, such as the name of its file."""
    if not isinstance(network, Network):
        raise InputError(
            f"plan takes a network, not {type(network).__name__}; csdfgen.load reads one"
        )


def plan_of(network: Network, options: PlanOptions, kernels: KernelSet | None = None) -> Plan:
    """The plan of a network with heights as the options say; goals and budgets are above, in
    `goals.choice`. Raises InputError for what is no network.
    """
    check_network(network)
    with _without_collections():
        return shared_out(
            options, lambda bare: _planned(network, _in_tiles(network, bare), kernels), kernels
        )


def _in_tiles(network: Network, options: PlanOptions) -> PlanOptions:
    """The options with the tiles that take the least memory for so many times the
    multiply-accumulates, where more than once was asked for; rows are then 1 by default.
    """
    if options.recompute <= 1 or options.tiles:
        return options
    found = recomputed(rewritten(network, options.fuse), options.recompute)[1].tiles
    rows = "1" if options.rows == DEFAULTS.rows else options.rows
    return replace(options, tiles=found, rows=rows)


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


def _planned(network: Network, options: PlanOptions, kernels: KernelSet | None) -> Plan:
    if options.pack == "exact":
        check_solver()  # before a search that may take a minute
    prepared = prepare(network, options)
    scratch = prepared.scratch(kernels)
    if options.policy == "overlap":
        return _overlapped(network, prepared, scratch, kernels)
    if options.policy != "best":
        order = named_order(prepared.conversion, options.policy)
        return Candidate(prepared, options.policy, order, scratch).planned(kernels)
    found = _searched(prepared, scratch)
    best = Candidate(prepared, found.origin, found.order, scratch, found.lower_bound)
    return replace(best.planned(kernels), interrupted=found.interrupted)


def _searched(prepared: Prepared, scratch: Scratch) -> LeastPeak:
    starts = {"tiles": pulled(prepared.conversion, prepared.sinks)} if prepared.sinks else {}
    effort = prepared.options.search_effort
    return least_peak(prepared.conversion, prepared.buffers, scratch, effort, starts=starts)


def rough_bound(prepared: Prepared, kernels: KernelSet | None = None) -> int:
    """Bytes that no order of a network's firings, as it is cut, has a peak below: within a percent of
    what more time would prove.
    """
    order = named_order(prepared.conversion, "demand")
    scratch = prepared.scratch(kernels)
    return lower_bound(prepared.conversion, prepared.buffers, scratch, order, share=_ROUGH)


def _overlapped(
    network: Network, prepared: Prepared, scratch: Scratch, kernels: KernelSet | None
) -> Plan:
    """The plan in which several images follow each other as the order of one lets them."""
    options = prepared.options
    one = prepare(network, replace(options, frames=1, policy="best", result="stored"))
    found = _searched(one, one.scratch(kernels))
    order = overlapped(one.conversion, found.order, options.frames)
    # what one image cannot go below, several cannot either
    several = Candidate(prepared, "overlap", order, scratch, found.lower_bound)
    return replace(several.planned(kernels), interrupted=found.interrupted)


def plan_for(
    prepared: Prepared, policy: str, order: Order, kernels: KernelSet | None = None
) -> Plan:
    """The plan that fires in this order, everything placed. policy: what the order is called."""
    return Candidate(prepared, policy, order, prepared.scratch(kernels)).planned(kernels)


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

_SEVERAL: WeakKeyDictionary[Network, dict[int, Network]] = WeakKeyDictionary()
"""Networks for other numbers of images."""


def several(network: Network, images: int) -> Network:
    """A network for so many images, which do not touch each other. Its layers are those of the network, joined
    as they were so far, so that plans for any number of images share packed weights.
    """
    if network.batch == images:
        return network
    known = _SEVERAL.setdefault(network, {})
    found = known.setdefault(images, replace(network, batch=images))
    joined = _REWRITTEN.setdefault(found, {})
    for level, fused in _REWRITTEN.get(network, {}).items():
        joined.setdefault(level, replace(fused, batch=images))
    return found


def prepare(
    network: Network, options: PlanOptions, *, apart: bool = True, fine: bool = False
) -> Prepared:
    """Join, cut and share; raises InputError for rows that name no layer, tiles that do not fit.

    apart: operands of a Concat keep buffers of their own (see `share`). fine: blocks are of rows that
    are released together too (see `buffers_of`).
    """
    known = _REWRITTEN.setdefault(network, {})
    fused = known.get(options.fuse)
    if fused is None:
        fused = rewritten(network, options.fuse)
        if fused is not network:  # a value that is its own key would stay for ever
            known[options.fuse] = fused
    sinks: tuple[str, ...] = ()
    if options.tiles:
        in_tiles = tiled(fused, regions_of(options.tiles))
        fused, sinks = in_tiles.network, in_tiles.sinks
    if _kept(options) and fused.batch != options.frames:
        raise InputError(
            f"{option('result', options.result)}: the arena holds the outputs of {options.frames} of {fused.batch} "
            f"images; take {option('frames', fused.batch)}, or a batch of {options.frames}"
        )
    conversion = convert(
        fused,
        options.rows,
        image=options.image,
        frames=options.frames,
        batches=options.batches or 1,
    )
    fed = fed_slices(fused, options.image)
    kept = _kept(options)
    sharing = share(fused, together=options.fuse == "full", apart=apart, kept=kept, fed=fed)
    buffers = _buffers(options, conversion, sharing, fine=fine)
    return Prepared(options, conversion, sharing, buffers, sinks, fine)


def _buffers(
    options: PlanOptions, conversion: Conversion, sharing: Sharing, *, fine: bool
) -> tuple[Buffer, ...]:
    """The buffers as the options have them: who gives a memory asks for the fastest plan in it, not the smallest."""
    rereads = options.backend == NUMPY.name and (options.memory or options.batching)
    heavy = _HEAVY if rereads else inf
    return buffers_of(conversion, sharing, fine=fine, kept=_kept(options), heavy=heavy)


def _kept(options: PlanOptions) -> bool:
    """Whether outputs lie in the arena."""
    return options.result == "arena"


def plan_from_schedule(
    network: Network,
    schedule: Schedule,
    backend: str = AUTO,
    kernels: KernelSet | None = None,
) -> Plan:
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
    options = replace(origin.plan_options, backend=settled(backend))
    prepared = prepare(network, options)
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
    return plan_for(prepared, schedule.policy, order, kernels)
