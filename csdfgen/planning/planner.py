"""How does a network that is cut into phases become a checked plan? Order, place, check.

The search for an order (`planning.ordering`) starts from `demand` (a phase fires just before a reader needs it), `eager`
(as soon as it can), `layers` (one layer after another) and `bounded` (as far ahead as fits into the memory of `demand`),
and looks for the least peak, including the workspace of kernels, with a lower bound for all orders. Then rows and
scratch are placed, and kernels get free bytes as further scratch. Every plan that this module returns has been checked.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from csdfgen.errors import PlanError, ScheduleError, option
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.ops.base import LEAST
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.checker import annotate_plan, check
from csdfgen.planning.lifetimes import Lifetimes, peak_live, trace_lifetimes, whole_layer_live
from csdfgen.planning.ordering import (
    LeastPeak,
    Order,
    lower_bound,
    order_by_policy,
    order_by_sinks,
    overlap_frames,
    search_least_peak,
)
from csdfgen.planning.packing.exact import check_solver
from csdfgen.planning.placement import Placement, place
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Phased, Prepared, Terms, choose_recomputation, prepare
from csdfgen.planning.workspaces import Scratch, Timed, time_scratch
from csdfgen.program.steps import Backend
from csdfgen.stopping import is_stopped

if TYPE_CHECKING:
    from csdfgen.planning.repeating import Loop

_PERIODS = 16
"""Periods at least of an image whose plan repeats, if its rows are as many."""

_WASTE = 1.04
"""A plan is placed again in finer blocks if its arena is above this multiple of its peak."""

_WORTH = 0.98
"""Finer blocks must take less than this part of the arena, as they take more calls, unless memory alone counts."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An order of firings with the bytes that it keeps alive; `plan` places it.

    policy: name of the order. known_bound: lower bound of the peak of every order of these firings, if known.
    interrupted: whether the search for the order was interrupted.
    """

    phased: Phased
    policy: str
    order: Order
    known_bound: int | None = None
    interrupted: bool = False

    @cached_property
    def lower_bound(self) -> int:
        """Lower bound of the peak of every order of these firings, in bytes."""
        if self.known_bound is not None:
            return self.known_bound
        one = self.phased
        return lower_bound(one.conversion, one.buffers, one.scratch, self.order)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        return trace_lifetimes(self.order, self.phased.buffers)

    @cached_property
    def wanted(self) -> Timed:
        """The least scratch, with the firings that take it."""
        return time_scratch(self.phased.scratch, self.order)

    @cached_property
    def peak_live(self) -> int:
        """Most bytes alive at one time."""
        return peak_live(self.lifetimes, self.phased.scratch, self.order)

    def plan(self, terms: Terms | None = None) -> Plan:
        """The plan of the order by these terms, by default those of `phased`: in blocks of whole slabs or, if that saves
        memory, in finer blocks of rows that are also released together.
        """
        one = self.phased
        terms = terms or one.terms
        room = max(0, terms.budget - output_bytes_beside(one.conversion.network, one.options))
        placed = self._placed(terms)
        # rows of one firing that are not contiguous take several calls, each of which reads all weights
        wasted = placed.total > max(_WASTE * self.peak_live, terms.enough or 0, room)
        if wasted and not is_stopped():
            fine = replace(one, fine=True)
            if fine.buffers != one.buffers:
                # bytes alive differ by the scratch only: the bound holds if kernels need the same
                bound = self.known_bound if _equal(fine.scratch, one.scratch) else None
                finer = replace(self, phased=fine, known_bound=bound)
                in_blocks = finer._placed(terms)
                if in_blocks.total < (1 if terms.least else _WORTH) * placed.total:
                    return finer._finished(in_blocks, room)
        return self._finished(placed, room)

    def _placed(self, terms: Terms) -> Placement:
        """The offsets of rows and scratch."""
        return place(
            self.phased.buffers,
            self.lifetimes,
            self.wanted,
            effort=terms.effort,
            exact=terms.exact,
            enough=terms.enough,
            least=terms.least,
        )

    def _finished(self, placed: Placement, room: int) -> Plan:
        """The checked plan of a placement; kernels get free bytes as scratch, in an arena that may grow to `room`."""
        one = self.phased
        if one.terms.spared and not room:
            network = one.conversion.network
            more = int(one.terms.spared * (network.parameter_bytes + placed.total))
            room = min(
                whole_layer_live(network) - output_bytes_beside(network, one.options),
                placed.total + more,
            )
        given = placed  # without more scratch, where there is no time for it
        if not is_stopped():
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
                interrupted=self.interrupted or is_stopped(),
            ),
            self.lower_bound,
        )


def output_bytes_beside(network: Network, options: PlanOptions) -> int:
    """Bytes of a network's outputs in arrays of the caller, outside the arena."""
    return network.output_bytes if options.result == "stored" else 0


def assemble(draft: Plan, bound: int) -> Plan:
    """The checked plan with its figures. draft: with firings and regions. Raises as `checker.check`.

    bound: lower bound of the peak of every order, with the least scratch that kernels need; further scratch is free at
    the time and not in the peak.
    """
    check(draft)
    scratch = [size for b in draft.buffers if b.kind == "workspace" for size in b.sizes]
    figures = {
        **network_figures(draft.network, draft.options),
        "sum_of_capacities": sum(draft.regions[b.name].size for b in draft.rolling),
        "peak_live": peak_live(draft.lifetimes, draft.needs, draft.order),
        "lower_bound": bound,
        "arena": draft.planned_bytes,
        "workspace": max(scratch, default=0),
    }
    return annotate_plan(draft, figures=MappingProxyType(figures))


def network_figures(network: Network, options: PlanOptions) -> dict[str, int]:
    """The figures that do not depend on the order."""
    network = network.original or network
    return {
        "sum_of_tensors": sum(t.nbytes for t in network.tensors.values()),
        "whole_layer_live": whole_layer_live(network),
        "outputs": output_bytes_beside(network, options),
        "parameters": network.parameter_bytes,
    }


def _equal(one: Scratch, other: Scratch) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


def plan_fixed_heights(network: Network, options: PlanOptions, kernels: Backend) -> Plan:
    """The plan of a network on a backend at the heights of the options, without goals and budgets (`csdfgen.goals`).

    Raises InputError for a value that is no network, and options that do not fit it; PlanError if an exact placement is
    requested and OR-Tools is not installed.
    """
    prepared = choose_recomputation(prepare(network, options, kernels))
    return plan_phased(prepared, prepared.phased())


def plan_phased(prepared: Prepared, phased: Phased) -> Plan:
    """The plan of a prepared network cut into phases, in the order of least peak or the order of the options. Raises
    PlanError if an exact placement is requested and OR-Tools is not installed.
    """
    with pause_collection():
        if phased.terms.exact:
            check_solver()  # before a search that may take a minute
        if phased.options.policy == "loop":
            return _plan_loop(phased)
        return _ordered(prepared, phased).plan()


def choose_loop_heights(prepared: Prepared) -> str:
    """Rows of the phases of each layer for a plan that repeats, see `harmonize_heights`; fewer for an image with less than
    `_PERIODS` periods. Raises PlanError if none does.
    """
    from csdfgen.planning.repeating import CAP, harmonize_heights

    with _refuse_loops():
        low = prepared.at("1").conversion
        return harmonize_heights(low, min(CAP, max(1, len(low.actors[0].phases) // _PERIODS)))


@contextmanager
def _refuse_loops() -> Iterator[None]:
    try:
        yield
    except (ScheduleError, PlanError) as error:
        raise PlanError(
            f"{option('policy', 'loop')}: {error.message}; cut the network in front of layers that need all rows, give "
            f"the image more rows, or leave {option('policy')} out"
        ) from error


def _plan_loop(phased: Phased) -> Plan:
    """The plan whose order and offsets repeat, in blocks of whole slabs or, if that saves memory, in finer blocks."""
    network, options = phased.conversion.network, phased.options
    if max(network.batch, options.frames) > 1:
        raise PlanError(
            f"{option('policy', 'loop')} is of one image; leave it out, or plan one image at a time"
        )
    if options.result == "arena":
        raise PlanError(
            f"{option('policy', 'loop')} gives rows up, {option('result', 'arena')} keeps those of outputs; ask for "
            f"{option('result', 'stored')}"
        )
    if phased.terms.scratch is None:  # as much for an image of any height
        phased = replace(phased, terms=replace(phased.terms, scratch=LEAST))
    from csdfgen.planning.repeating import find_loop

    with _refuse_loops():
        return plan_repeated(phased, find_loop(phased))[0]


def plan_repeated(
    phased: Phased, loop: Loop, behind: Sequence[Mapping[str, int]] = ({},), *, bounded: bool = True
) -> list[Plan]:
    """The plans of an image by an order that repeats, one for each of `behind`: see `Loop.placed`. bounded: with a lower
    bound, whose proof takes as long as the plan.
    """
    phased = replace(phased, fine=loop.fine, most=loop.scratch)
    # that of a period is of orders between the states that were tried alone
    bound = phased.rough_bound if bounded else 0
    found = Candidate(phased, "loop", loop.order(phased.conversion), bound)
    return [found._finished(loop.placed(phased, found.lifetimes, one), 0) for one in behind]


def _ordered(prepared: Prepared, phased: Phased) -> Candidate:
    policy, frames = phased.options.policy, phased.options.frames
    if policy == "overlap":
        one = replace(phased.options, frames=1, policy="best", result="stored")
        single = prepared.phased(one, phased.terms)
        found = _searched(single)
        order = overlap_frames(single.conversion, found.order, frames)
        # a lower bound for one image is one for several
        return Candidate(phased, policy, order, found.lower_bound, found.interrupted)
    if policy == "best":
        found = _searched(phased)
        return Candidate(phased, found.origin, found.order, found.lower_bound, found.interrupted)
    return Candidate(phased, policy, order_by_policy(phased.conversion, policy))


def _searched(phased: Phased) -> LeastPeak:
    name = "tiles" if phased.options.tiles else "parts"
    starts = {name: order_by_sinks(phased.conversion, phased.sinks)} if phased.sinks else {}
    return search_least_peak(
        phased.conversion, phased.buffers, phased.scratch, phased.terms.effort, starts=starts
    )


@contextmanager
def pause_collection() -> Iterator[None]:
    """Garbage collection is off during the block: planning and compiling make many small objects and no cycles, and each
    collection would take part of their time. The objects count as old afterwards, so that the next collection of the
    young ones leaves them out.
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


def return_freed_memory() -> None:
    """Return what planning has freed to the system, as far as the C library can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):  # others than glibc
        return
