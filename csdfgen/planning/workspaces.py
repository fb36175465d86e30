"""How much scratch does each firing need? What a backend declares for its step, before placement.

A declaration depends on the structure of the phase (`kernels.steps.structure`) and on where its rows
lie relative to each other in their buffers: where a rolling buffer wraps, and how far apart operand
and result are if they share one. Firings that agree in these are declared once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from csdfgen.kernels.steps import KernelSet, Scratchpad, structure
from csdfgen.model.network import Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops.base import stored_rows
from csdfgen.phases.conversion import ActorWork, Conversion
from csdfgen.planning.addressing import Addresses
from csdfgen.planning.buffers import Buffer, state_name
from csdfgen.planning.lifetimes import Lifetimes
from csdfgen.planning.placement import Region
from csdfgen.planning.sharing import Sharing

__all__ = ["Declarations"]


class Declarations:
    """What a backend declares for the layers of a conversion, for any order of firings."""

    def __init__(
        self,
        conversion: Conversion,
        sharing: Sharing,
        buffers: Sequence[Buffer],
        kernels: KernelSet,
    ) -> None:
        self._sharing, self._buffers, self._kernels = sharing, buffers, kernels
        self._works = [
            _Work(work, sharing)
            for work in conversion.actors
            if work.layer is not None and work.name not in sharing.silent
        ]
        self._known: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}

    @property
    def row_bytes(self) -> list[int]:
        """Bytes of a row of every buffer."""
        return [buffer.row_bytes for buffer in self._buffers]

    def sizes(self, lifetimes: Lifetimes) -> dict[str, np.ndarray]:
        """Actor -> bytes of scratch of each of its phases, in buffers of these capacities; actors
        that need none are left out.
        """
        return self.sizes_within({one.buffer: one.capacity for one in lifetimes.each})

    def sizes_within(self, capacities: Mapping[str, int]) -> dict[str, np.ndarray]:
        """The same, for capacities in rows by buffer."""
        regions = {
            b.name: Region(b.name, 0, b.row_bytes, capacities[b.name], pool=b.name)
            for b in self._buffers
        }
        found = {}
        for one in self._works:
            key = one.work.name, tuple(regions[home].capacity for home in one.homes)
            if key not in self._known:
                self._known[key] = self._declared(one, regions)
            if self._known[key].any():
                found[one.work.name] = self._known[key]
        return found

    def _declared(self, one: _Work, regions: Mapping[str, Region]) -> np.ndarray:
        addresses = Addresses(self._sharing, regions)
        sizes = {home: regions[home].size for home in one.homes}
        _, first, inverse = np.unique(
            one.relations(regions), axis=1, return_index=True, return_inverse=True
        )
        nothing = Scratchpad("", 0, 0)
        declared = [
            self._kernels.workspace(addresses.step(one.work, int(phase), 0, nothing), sizes)
            for phase in first
        ]
        return np.array(declared)[inverse.reshape(-1)]


class _Work:
    """A layer's phases by what a declaration depends on."""

    def __init__(self, work: ActorWork, sharing: Sharing) -> None:
        self.work = work
        layer = work.layer
        assert layer is not None
        known: dict[object, int] = {}
        kinds = [
            known.setdefault((structure(layer, phase), phase.images), len(known))
            for phase in work.phases
        ]
        self.kinds = np.array(kinds)
        reads = [
            (tensor, [stored_rows(layer, k, phase.ins[k] or Rows(0, 0)) for phase in work.phases])
            for k, tensor in enumerate(layer.inputs)
            if tensor is not None
        ]
        writes = [(tensor, [phase.out for phase in work.phases]) for tensor in layer.outputs]
        self.reads = [self._spans(tensor, rows, sharing) for tensor, rows in reads]
        self.writes = [self._spans(tensor, rows, sharing) for tensor, rows in writes]
        homes = [home for home, _, _ in (*self.reads, *self.writes)]
        if work.state is not None:
            homes.append(state_name(work.name))
        self.homes = tuple(dict.fromkeys(homes))

    def _spans(
        self, tensor: Tensor, rows: Sequence[Rows], sharing: Sharing
    ) -> tuple[str, np.ndarray, np.ndarray]:
        """(buffer, first row, number of rows) of each phase."""
        spans = [p.slab(r).span(tensor.rows) for p, r in zip(self.work.phases, rows, strict=True)]
        home = sharing.places[tensor.name].buffer
        return home, np.array([s.start for s in spans]), np.array([len(s) for s in spans])

    def relations(self, regions: Mapping[str, Region]) -> np.ndarray:
        """Columns that are equal for phases whose rows lie alike: kind, wraps, distances."""
        columns = [self.kinds]
        for home, start, count in (*self.reads, *self.writes):
            slot = start % regions[home].capacity
            left = regions[home].capacity - slot
            columns.append(np.where(count > left, left, 0))
        for home, start, _ in self.reads:
            for other, begin, _ in self.writes:
                if home == other:
                    capacity = regions[home].capacity
                    columns.append(start % capacity - begin % capacity)
        return np.stack(columns)
