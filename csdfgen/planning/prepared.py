"""What do plans of a network at different slab heights have in common? Fusion and the sharing of memory by tensors, which
are computed once; everything that depends on heights is computed for each.

    prepared = prepare(network, options, kernels)     # once
    phased = prepared.at("4")                         # for all heights that are compared
    plan = planned(prepared, phased)                  # `planning.planner`
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from csdfgen.errors import InputError, PlanError, option
from csdfgen.model.network import Network, Output
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.base import LEAST
from csdfgen.ops.integers import use_shifts
from csdfgen.ops.joining import constant_layer
from csdfgen.ops.micro import round_as_micro
from csdfgen.phases.conversion import ActorKey, ActorWork, Conversion, convert, find_fed_slices
from csdfgen.phases.heights import RowSpec
from csdfgen.planning.buffers import ARENA, Buffer, make_buffers
from csdfgen.planning.lifetimes import whole_layer_live
from csdfgen.planning.ordering import Order, lower_bound, order_by_policy
from csdfgen.planning.recompute import search_regions
from csdfgen.planning.sharing import Sharing, share
from csdfgen.planning.workspaces import Declarations, Scratch
from csdfgen.program.steps import Backend
from csdfgen.rewriting.fuse import fuse
from csdfgen.rewriting.heads import complete_parts
from csdfgen.rewriting.tiles import parse_regions, tile_network

ANY = 2**62
"""A budget in bytes that sets no limit."""

_HEAVY = 1 << 18
"""Bytes of weights that do not stay in a near cache until the next call."""

_SMALL = 1 << 20
"""Bytes of whole layers below which scratch for speed would be more than the rows."""

_BRIEF = 1 << 28
"""Multiply-accumulates of a frame, a few milliseconds, above which it takes time even if its layers are small."""

_SPARED = 0.02
"""See `Terms`: what a percent of time is worth to the default."""

_ROUGH = 0.05
"""Part of the effort for a bound that proves it almost completely."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The requirements of a plan: all that planning knows of goals and budgets.

    scratch: bytes that limit the scratch of a firing if its kernel can do with so few; None: as few as cost little time.
    budget: bytes of arena and outputs up to which kernels get more scratch, which makes them faster; 0: no more than the
    rows take. together: rows of a firing of a layer with many weights are contiguous, on a backend that reads weights
    again for every piece. effort: of searches. exact: the placement is proved, or bounded. enough: bytes of an arena
    that suffice; None: the smallest that is found. least: a smaller arena is worth more calls, and more planning. spared: part
    of parameters and arena that is spent on scratch for kernels, up to what whole layers take.
    """

    scratch: int | None = None
    budget: int = 0
    together: bool = False
    effort: str | float = DEFAULTS.effort
    exact: bool = False
    enough: int | None = None
    least: bool = False
    spared: float = 0.0

    @classmethod
    def of(cls, options: PlanOptions) -> Terms:
        """The requirements of these options. A memory budget is used up: for scratch, and for contiguous rows."""
        scratch = LEAST // 2 if options.memory else None
        return cls(
            0 if options.goal == "memory" or options.recompute > 1 else scratch,
            ANY if options.goal == "speed" else options.memory,
            bool(options.memory or options.batching),
            options.search_effort,
            options.pack == "exact",
            least=options.goal == "memory",
        )


@dataclass(frozen=True, eq=False)
class Phased:
    """A network cut into phases, with its buffers: all parts of a plan that do not depend on the order of firings.

    sinks: layers that are completed in this order: the last ones of tiles, or parts of attentions. fine: blocks
    have only rows that are released together (see `make_buffers`). asked: `known` of `Declarations`.
    most: actor -> bytes of scratch of each of its firings, where a plan has them: that of whole slabs, which those cut at the
    end of an image do with.
    """

    options: PlanOptions
    terms: Terms
    kernels: Backend
    conversion: Conversion
    sharing: Sharing
    sinks: tuple[str, ...] = ()
    fine: bool = False
    asked: dict[Hashable, np.ndarray] = field(default_factory=dict, repr=False)
    most: Mapping[str, int] | None = None

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of tensors and states."""
        heavy = _HEAVY if self.terms.together and self.kernels.rereads_weights else inf
        return make_buffers(
            self.conversion,
            self.sharing,
            fine=self.fine,
            kept=_kept(self.options),
            heavy=heavy,
            alignment=self.kernels.alignment(ARENA),
        )

    @cached_property
    def declared(self) -> Declarations:
        """The workspaces that the backend declares for the firings."""
        return Declarations(self.conversion, self.sharing, self.buffers, self.kernels, self.asked)

    def forget_declarations(self) -> None:
        """Free the tables of `declared`, of all rows, which are made again if they are asked for."""
        self.__dict__.pop("declared", None)

    @cached_property
    def scratch(self) -> Scratch:
        """Actor -> the least bytes of scratch of each of its phases, of those that need any."""
        if self.most is not None:
            works = (work for work in self.conversion.actors if work.name in self.most)
            return {work.name: np.full(len(work.phases), self.most[work.name]) for work in works}
        limit = self.terms.scratch
        return self.declared.sizes(_little(self.conversion.network) if limit is None else limit)

    @cached_property
    def on_demand(self) -> Order:
        """The order in which a phase fires just before a reader needs it."""
        return order_by_policy(self.conversion, "demand")

    @cached_property
    def rough_bound(self) -> int:
        """Lower bound of the peak of every order in bytes, within a percent of what more time would prove."""
        return lower_bound(
            self.conversion, self.buffers, self.scratch, self.on_demand, share=_ROUGH
        )


def use_spare_workspace(phased: Phased) -> Phased:
    """The same, whose plan spends some of all memory on workspace, if its options weigh all."""
    if phased.options.goal != "balanced" or not phased.options.weighs_parameters:
        return phased
    made = copy(phased)  # with buffers and scratch that are known, which do not depend on it
    object.__setattr__(made, "terms", replace(phased.terms, spared=_SPARED))
    return made


@dataclass(frozen=True, eq=False)
class Prepared:
    """A network as a backend computes it, at any heights.

    network: after fusion, in tiles if requested. options: of its plans; rows, frames, batches, result and limits may be
    changed. sinks: see `Phased`. apart: operands of a Concat keep separate buffers (see `share`).
    """

    network: Network
    options: PlanOptions
    kernels: Backend
    sinks: tuple[str, ...] = ()
    apart: bool = True
    _sharing: dict[bool, Sharing] = field(default_factory=dict, repr=False)
    _actors: dict[ActorKey, ActorWork] = field(default_factory=dict, repr=False)
    _asked: dict[Hashable, np.ndarray] = field(default_factory=dict, repr=False)

    def at(self, rows: str | RowSpec, **changed: object) -> Phased:
        """The network cut into phases of so many rows. changed: other options. Raises as `phased`."""
        return self.phased(replace(self.options, rows=str(rows), **changed))  # type: ignore[arg-type]

    def phased(
        self, options: PlanOptions | None = None, terms: Terms | None = None, *, fine: bool = False
    ) -> Phased:
        """The network cut into phases by these options, by default those of all plans, with 1 row a phase if columns are
        recomputed and no rows are given. Raises InputError for rows or batches that name no layer, and for a number of
        frames whose outputs the arena cannot keep.
        """
        if options is None:
            again = self.options.recompute > 1 and self.options.rows == DEFAULTS.rows
            options = replace(self.options, rows="1") if again else self.options
        kept, frames = _kept(options), options.frames
        if kept and self.network.batch != frames:
            raise InputError(
                f"{option('result', options.result)}: the arena holds the outputs of {frames} of {self.network.batch} "
                f"images; take {option('frames', self.network.batch)}, or a batch of {frames}"
            )
        conversion = convert(
            self.network,
            options.rows,
            image=options.image,
            frames=frames,
            batches=options.batches or 1,
            known=self._actors,
        )
        return Phased(
            options,
            terms or Terms.of(options),
            self.kernels,
            conversion,
            self.sharing(kept=kept),
            self.sinks,
            fine,
            self._asked,
        )

    @property
    def silent(self) -> frozenset[str]:
        """Layers whose outputs need no computation (see `Sharing`)."""
        return self.sharing(kept=_kept(self.options)).silent

    def sharing(self, *, kept: bool) -> Sharing:
        """Which tensors share memory. kept: outputs stay in their buffers."""
        if kept not in self._sharing:
            self._sharing[kept] = share(
                self.network,
                together=self.options.fuse == "full",
                apart=self.apart,
                kept=kept,
                fed=find_fed_slices(self.network, self.options.image),
            )
        return self._sharing[kept]

    def for_images(self, images: int, *, lifted: bool = False) -> Prepared:
        """The same layers for so many independent images. lifted: see `Network`."""
        if self.network.batch == images and self.network.lifted >= lifted:
            return self
        lifted = lifted or self.network.lifted
        return replace(self, network=replace(self.network, batch=images, lifted=lifted))


def prepare(
    network: Network, options: PlanOptions, kernels: Backend, *, apart: bool = True
) -> Prepared:
    """Fuse layers, and cut them into the tiles of the options. Raises InputError for a value that is no network, and for
    tiles that do not fit.
    """
    if not isinstance(network, Network):
        raise InputError(
            f"plan takes a network, not {type(network).__name__}; csdfgen.load reads one"
        )
    network = _divided(network, options)
    for part in options.probability.split(",") if options.probability else ():
        branch = part.rpartition("=")[0]
        if branch not in network.conditions:
            known = ", ".join(network.conditions) or "none"
            raise InputError(
                f"{option('probability', part)}: no If of the network has that name; there are: {known}"
            )
    joined = fuse(network, options.fuse)
    parts = complete_parts(joined)
    if network.conditions:  # one If after the other
        parts = tuple(one.name for one in joined.layers if "branch" in one.attributes)
    return _in_tiles(Prepared(joined, options, kernels, apart=apart, sinks=parts))


def _divided(network: Network, options: PlanOptions) -> Network:
    if not network.layers:  # all outputs are constants: a layer writes one of them
        held = {one.name: one.constant for one in network.outputs if one.constant is not None}
        name = next((name for name, value in held.items() if value.size), "")
        if not name:
            raise PlanError("no output has elements, so that there is nothing to compute")
        layer = constant_layer(name, name, held[name])
        outputs = [Output(name, layer.output) if o.name == name else o for o in network.outputs]
        network = replace(network, layers=(layer,), outputs=tuple(outputs))
    if options.requantize == "integer":
        micro = network.source.lower().endswith(".tflite")
        layers = tuple(map(round_as_micro if micro else use_shifts, network.layers))
        network = replace(network, layers=layers)
    if options.experts:
        from csdfgen.rewriting.experts import move_into_branches

        network = move_into_branches(network)
    return network


def convert_network(network: Network, options: PlanOptions) -> Conversion:
    """The fused network cut into phases by the options, from which its graph is made. Raises InputError."""
    joined = fuse(_divided(network, options), options.fuse)
    return convert(joined, options.rows, image=options.image, frames=options.frames)


def choose_recomputation(prepared: Prepared) -> Prepared:
    """The network in the tiles that take the least memory for the requested factor of multiply-accumulates; unchanged if
    the factor is 1 or tiles are given.
    """
    options = prepared.options
    if options.recompute <= 1 or options.tiles:
        return prepared
    best, *_ = search_regions(prepared.network, options.recompute)
    return _in_tiles(replace(prepared, options=replace(options, tiles=best.tiles)))


def _in_tiles(prepared: Prepared) -> Prepared:
    if not prepared.options.tiles:
        return prepared
    made = tile_network(prepared.network, parse_regions(prepared.options.tiles))
    return replace(
        prepared, network=made.network, sinks=made.sinks, _sharing={}, _actors={}, _asked={}
    )


def _kept(options: PlanOptions) -> bool:
    """Whether outputs stay in the arena to the end of a frame."""
    return options.result == "arena"


def _little(network: Network) -> int:
    """Bytes of scratch with which kernels take little more time; fewer for small networks, which take little time."""
    small = whole_layer_live(network) < _SMALL and not _of_bytes(network)
    return LEAST // 2 if small and multiplications(network) < _BRIEF else LEAST


def multiplications(network: Network) -> int:
    """Multiply-accumulates of a frame."""
    operators = ((get_operator(layer), layer) for layer in network.layers)
    return sum(
        operator.cost(layer, Rows(0, layer.output.rows))
        for operator, layer in operators
        if operator.multiplies
    )


def _of_bytes(network: Network) -> bool:
    """Whether sums of four or eight bytes become outputs of one byte."""
    return any(
        get_operator(layer).multiplies and layer.output.itemsize == 1 for layer in network.layers
    )
