"""Which plan comes of an order of firings? Its rows and scratch placed, in the blocks that take less,
with what is then free for its kernels; checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from csdfgen.kernels.steps import KernelSet
from csdfgen.planning.assembling import assemble, outputs_beside
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.lifetimes import Lifetimes, lifetimes_of, peak_of
from csdfgen.planning.ordering import Order, lower_bound
from csdfgen.planning.placement import Placement, place
from csdfgen.planning.plan import Plan
from csdfgen.planning.workspaces import Scratch, Timed, timed

if TYPE_CHECKING:
    from csdfgen.planning.planner import Prepared

__all__ = ["ANY", "Candidate"]

ANY = 2**62
"""Bytes of what no memory limits."""

_WASTE = 1.04
"""Arena of its peak above which a plan is placed again in finer blocks."""

_WORTH = 0.98
"""Part of the arena that finer blocks must leave, as they take more calls."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An order of firings with what it keeps alive.

    policy: what the order is called. scratch: the least that kernels need (`Prepared.scratch`).
    known_bound: bytes that no order of these firings has a peak below, if that is known. enough: bytes of an arena
    below which none is looked for, None to look for the smallest. budget: bytes of arena and outputs, what is
    left of which is scratch; None for the memory of the options.
    """

    prepared: Prepared
    policy: str
    order: Order
    scratch: Scratch
    known_bound: int | None = None
    enough: int | None = None
    budget: int | None = None

    @cached_property
    def lower_bound(self) -> int:
        """Bytes that no order of these firings has a peak below."""
        if self.known_bound is not None:
            return self.known_bound
        one = self.prepared
        return lower_bound(one.conversion, one.buffers, self.scratch, self.order)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        return lifetimes_of(self.order, self.prepared.buffers)

    @cached_property
    def wanted(self) -> Timed:
        """The least scratch, with the firings that take it."""
        return timed(self.scratch, self.order)

    @cached_property
    def peak_live(self) -> int:
        """Most bytes alive at one time."""
        return peak_of(self.lifetimes, self.scratch, self.order)

    @cached_property
    def placed(self) -> Placement:
        """Everything at its offset."""
        options = self.prepared.options
        return place(
            self.prepared.buffers,
            self.lifetimes,
            self.wanted,
            effort=options.search_effort,
            exact=options.pack == "exact",
            enough=self.enough,
        )

    @property
    def _room(self) -> int:
        """Bytes that the arena may take where a memory is given, or the least time is asked for: what is left of it
        makes kernels faster.
        """
        options, network = self.prepared.options, self.prepared.conversion.network
        wished = ANY if options.goal == "speed" else options.memory
        budget = wished if self.budget is None else self.budget
        return max(0, budget - outputs_beside(network, options))

    def planned(self, kernels: KernelSet | None) -> Plan:
        """The plan of the order, in blocks of whole slabs or, where that saves memory, of what is also
        released together.
        """
        prepared, fine = self.prepared, self.prepared.in_fine_blocks()
        # rows of one firing that lie apart are calls of their own, each of which reads all weights
        small = max(_WASTE * self.peak_live, self.enough or 0, self._room)
        if self.placed.total <= small or fine.buffers == prepared.buffers:
            return self._finished(kernels)
        scratch = fine.scratch(kernels)
        # what is alive differs by the scratch alone: its bound holds if kernels need the same
        bound = self.known_bound if _equal(scratch, self.scratch) else None
        finer = replace(self, prepared=fine, scratch=scratch, known_bound=bound)
        return (finer if finer.placed.total < _WORTH * self.placed.total else self)._finished(
            kernels
        )

    def _finished(self, kernels: KernelSet | None) -> Plan:
        """The plan with everything placed, checked; kernels get what is free as scratch."""
        prepared, bound = self.prepared, self.placed.lower_bound
        placed = prepared.declared(kernels).given(
            self.placed, self.lifetimes, self.wanted, self.order, self._room
        )
        return assemble(
            Plan(
                prepared.conversion,
                prepared.sharing,
                prepared.options,
                self.policy,
                self.order,
                (*prepared.buffers, *placed.workspaces),
                MappingProxyType(dict(placed.regions)),
                MappingProxyType({ARENA: placed.total}),
                arena_bound=bound,
                fine=prepared.fine,
            ),
            self.peak_live,
            self.lower_bound,
        )


def _equal(one: Scratch, other: Scratch) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )
