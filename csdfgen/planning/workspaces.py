"""How much scratch does each firing need? What a backend declares for its step, before placement.

A declaration depends on the structure of the phase (`kernels.steps.demands`) and on where its rows
lie relative to each other in their buffers: where a rolling buffer wraps, and how far apart operand
and result are if they share one. Firings that agree in these are declared once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from csdfgen.kernels.steps import KernelSet, Scratchpad, demands
from csdfgen.model.network import Tensor
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode
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
        nothing, known = Scratchpad("", 0, 0), one.declared
        declared = []
        for phase, relation in enumerate(zip(*one.relations(regions), strict=True)):
            if relation not in known:
                step = addresses.step(one.work, phase, 0, nothing)
                known[relation] = self._kernels.workspace(step, sizes)
            declared.append(known[relation])
        return np.array(declared)


class _Work:
    """A layer's phases by what a declaration depends on, and what was declared so far."""

    def __init__(self, work: ActorWork, sharing: Sharing) -> None:
        self.work = work
        layer = work.layer
        assert layer is not None
        self.declared: dict[tuple[int, ...], int] = {}
        operator = operator_of(layer)
        self.gathers = operator.mode(layer) is not Mode.ACCUMULATE and not operator.rowwise
        known: dict[object, int] = {}
        self.kinds = [
            known.setdefault((kind, phase.images), len(known))
            for kind, phase in zip(demands(layer, work.phases), work.phases, strict=True)
        ]
        self.reads = [
            self._spans(
                read.tensor, [r.start for r in read.rows], [len(r) for r in read.rows], sharing
            )
            for read in work.reads
        ]
        self.writes = []
        for tensor in layer.outputs:
            starts = [p.image * tensor.rows + p.out.start for p in work.phases]
            counts = [tensor.rows * p.images if p.images > 1 else len(p.out) for p in work.phases]
            self.writes.append(self._spans(tensor, starts, counts, sharing))
        homes = [home for home, _, _ in (*self.reads, *self.writes)]
        if work.state is not None:
            homes.append(state_name(work.name))
        self.homes = tuple(dict.fromkeys(homes))

    @staticmethod
    def _spans(
        tensor: Tensor, starts: Sequence[int], counts: Sequence[int], sharing: Sharing
    ) -> tuple[str, np.ndarray, np.ndarray]:
        """(buffer, first row, number of rows) of each phase."""
        return sharing.places[tensor.name].buffer, np.array(starts), np.array(counts)

    def relations(self, regions: Mapping[str, Region]) -> list[list[int]]:
        """Columns that are equal for phases whose rows lie alike: kind, wraps, distances."""
        columns = [self.kinds]
        whole = np.full(len(self.kinds), self.gathers)
        for home, start, count in self.writes:
            left = regions[home].capacity - start % regions[home].capacity
            columns.append(np.where(count > left, left, 0).tolist())
            whole &= count <= left
        for home, start, count in self.reads:
            left = regions[home].capacity - start % regions[home].capacity
            # rows that are gathered for a phase in one piece take the same wherever they are cut
            columns.append(np.where(count > left, np.where(whole, 1, left), 0).tolist())
        for home, start, _ in self.reads:
            for other, begin, _ in self.writes:
                if home == other:
                    capacity = regions[home].capacity
                    columns.append((start % capacity - begin % capacity).tolist())
        return columns
