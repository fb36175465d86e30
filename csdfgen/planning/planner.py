"""From a network that is cut into phases to a checked plan: order, place, check.

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
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.checker import check
from csdfgen.planning.lifetimes import Lifetimes, lifetimes_of, peak_of, whole_layer_live
from csdfgen.planning.ordering import LeastPeak, Order, least_peak, lower_bound, named_order
from csdfgen.planning.overlapping import overlapped
from csdfgen.planning.packing.exact import check_solver
from csdfgen.planning.placement import Placement, place
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Phased, Prepared, Terms, prepare, recomputing
from csdfgen.planning.pulling import pulled
from csdfgen.planning.workspaces import Scratch, Timed, timed
from csdfgen.program.steps import Backend

__all__ = ["Candidate", "assemble", "outputs_beside", "plan_of", "planned", "without_collections"]

_WASTE = 1.04
"""Arena of its peak above which a plan is placed again in finer blocks."""

_WORTH = 0.98
"""Part of the arena that finer blocks must leave, as they take more calls."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An order of firings with what it keeps alive; `plan` places it by the terms of `phased`.

    policy: what the order is called. known_bound: bytes that no order of these firings has a peak below, if that
    is known. interrupted: the search for the order was broken off.
    """

    phased: Phased
    policy: str
    order: Order
    known_bound: int | None = None
    interrupted: bool = False

    @cached_property
    def lower_bound(self) -> int:
        """Bytes that no order of these firings has a peak below."""
        if self.known_bound is not None:
            return self.known_bound
        one = self.phased
        return lower_bound(one.conversion, one.buffers, one.scratch, self.order)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        return lifetimes_of(self.order, self.phased.buffers)

    @cached_property
    def wanted(self) -> Timed:
        """The least scratch, with the firings that take it."""
        return timed(self.phased.scratch, self.order)

    @cached_property
    def peak_live(self) -> int:
        """Most bytes alive at one time."""
        return peak_of(self.lifetimes, self.phased.scratch, self.order)

    def plan(self, terms: Terms | None = None) -> Plan:
        """The plan of the order by these terms, those of its phases by default: in blocks of whole slabs or, where
        that saves memory, of what is also released together.
        """
        one = self.phased
        terms = terms or one.terms
        room = max(0, terms.budget - outputs_beside(one.conversion.network, one.options))
        placed = self._placed(terms)
        # rows of one firing that lie apart are calls of their own, each of which reads all weights
        if placed.total > max(_WASTE * self.peak_live, terms.enough or 0, room):
            fine = one.in_fine_blocks()
            if fine.buffers != one.buffers:
                # what is alive differs by the scratch alone: its bound holds if kernels need the same
                bound = self.known_bound if _equal(fine.scratch, one.scratch) else None
                finer = replace(self, phased=fine, known_bound=bound)
                in_blocks = finer._placed(terms)
                if in_blocks.total < _WORTH * placed.total:
                    return finer._finished(in_blocks, room)
        return self._finished(placed, room)

    def _placed(self, terms: Terms) -> Placement:
        """Everything at its offset."""
        return place(
            self.phased.buffers,
            self.lifetimes,
            self.wanted,
            effort=terms.effort,
            exact=terms.exact,
            enough=terms.enough,
        )

    def _finished(self, placed: Placement, room: int) -> Plan:
        """The plan with everything placed, checked; kernels get what is free as scratch, and what the arena may
        grow to: `room`.
        """
        one = self.phased
        given = one.declared.given(placed, self.lifetimes, self.wanted, self.order, room)
        return assemble(
            Plan(
                one.conversion,
                one.sharing,
                one.options,
                self.policy,
                self.order,
                (*one.buffers, *given.workspaces),
                MappingProxyType(dict(given.regions)),
                MappingProxyType({ARENA: given.total}),
                one.scratch,
                arena_bound=placed.lower_bound,
                fine=one.fine,
                interrupted=self.interrupted,
            ),
            self.lower_bound,
        )


def outputs_beside(network: Network, options: PlanOptions) -> int:
    """Bytes of the outputs of a network that are arrays of the caller, beside the arena."""
    return network.output_bytes if options.result == "stored" else 0


def assemble(draft: Plan, bound: int) -> Plan:
    """The plan with its figures, checked, once firings and regions are settled. Raises what
    `checker.check` raises.

    bound: bytes that no order has a peak below with the least scratch that kernels need; what they get beyond is
    free at the time, and in no peak.
    """
    check(draft)
    network = draft.network.original or draft.network
    scratch = [size for b in draft.buffers if b.kind == "workspace" for size in b.sizes]
    figures = {
        "sum_of_tensors": sum(t.nbytes for t in network.tensors.values()),
        "whole_layer_live": whole_layer_live(network),
        "sum_of_capacities": sum(draft.regions[b.name].size for b in draft.rolling),
        "peak_live": peak_of(draft.lifetimes, draft.needs, draft.order),
        "lower_bound": bound,
        "arena": draft.planned_bytes,
        "workspace": max(scratch, default=0),
        "outputs": outputs_beside(network, draft.options),
        "parameters": network.parameter_bytes,
    }
    return replace(draft, figures=MappingProxyType(figures))


def _equal(one: Scratch, other: Scratch) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


def plan_of(network: Network, options: PlanOptions, kernels: Backend) -> Plan:
    """The plan of a network on a backend at the heights of the options; goals and budgets are above, in `goals`.

    Raises InputError for what is no network, and options that do not fit it; PlanError where an exact
    placement is asked for and OR-Tools are not installed.
    """
    prepared = recomputing(prepare(network, options, kernels))
    return planned(prepared, prepared.phased())


def planned(prepared: Prepared, phased: Phased) -> Plan:
    """The plan of a prepared network as it is cut into phases, in the order of least peak or in the order that the
    options name. Raises PlanError where an exact placement is asked for and OR-Tools are not installed.
    """
    with without_collections():
        if phased.terms.exact:
            check_solver()  # before a search that may take a minute
        return _ordered(prepared, phased).plan()


def _ordered(prepared: Prepared, phased: Phased) -> Candidate:
    policy, frames = phased.options.policy, phased.options.frames
    if policy == "overlap":
        one = replace(phased.options, frames=1, policy="best", result="stored")
        single = prepared.phased(one, phased.terms)
        found = _searched(single)
        order = overlapped(single.conversion, found.order, frames)
        # what one image cannot go below, several cannot either
        return Candidate(phased, policy, order, found.lower_bound, found.interrupted)
    if policy == "best":
        found = _searched(phased)
        return Candidate(phased, found.origin, found.order, found.lower_bound, found.interrupted)
    return Candidate(phased, policy, named_order(phased.conversion, policy))


def _searched(phased: Phased) -> LeastPeak:
    starts = {"tiles": pulled(phased.conversion, phased.sinks)} if phased.sinks else {}
    return least_peak(
        phased.conversion, phased.buffers, phased.scratch, phased.terms.effort, starts=starts
    )


@contextmanager
def without_collections() -> Iterator[None]:
    """No search for garbage: planning and compiling make many small values and no garbage, and each search takes
    part of their time. What was made counts as old afterwards, so that the next search passes over it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
