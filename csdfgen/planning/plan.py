"""What is a plan? Firings, buffers and figures of one network, as data.

A plan holds everything that execution needs and nothing that depends on the image: the network
cut into phases, where every tensor lies, the order of firings, and the arena (docs/model.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.ops import operator_of
from csdfgen.ops.base import Emit
from csdfgen.phases.conversion import ActorWork, Conversion, Write
from csdfgen.planning.memory import Access, BufferPlan, BufferSlot, Occupancy, Part, Storage
from csdfgen.planning.sharing import Placement

__all__ = ["FIGURES", "Plan", "storages"]

FIGURES = MappingProxyType(
    {
        "sum_of_tensors": "every activation whole, one buffer a tensor, no sharing",
        "whole_layer_live": "whole layers, dead tensors freed: most bytes alive at one time",
        "sum_of_capacities": "phased: all buffers at their capacity, none sharing bytes",
        "peak_live": "phased: most bytes alive at one time in this firing order",
        "arena": "phased: the one arena with every buffer at its static offset",
        "workspace": "scratch of the kernels beside the arena",
        "parameters": "weights and biases",
    }
)
"""Memory figures in bytes and what they mean (docs/model.md)."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A network ready to run in one arena.

    order: firings (actor, phase). figures: bytes by name, see `FIGURES`. kernels: packed weights
    and bound kernels by layer name, filled when first needed; no part of the plan's value.
    """

    conversion: Conversion
    placement: Placement
    fuse: str
    image: str
    policy: str
    order: tuple[tuple[str, int], ...]
    storages: tuple[Storage, ...]
    buffers: BufferPlan
    occupancy: Occupancy
    figures: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    kernels: dict[str, Emit] = field(default_factory=dict, repr=False)

    @property
    def network(self) -> Network:
        return self.conversion.network

    @property
    def planned_bytes(self) -> int:
        """Bytes of the arena that the executor allocates."""
        return self.buffers.arena_bytes

    @cached_property
    def slots(self) -> Mapping[str, BufferSlot]:
        """Slots of the arena by storage name."""
        return MappingProxyType({slot.storage: slot for slot in self.buffers.slots})

    def kernel(self, work: ActorWork) -> Emit:
        """The bound kernel of a layer actor; weights are packed once."""
        assert work.layer is not None
        if work.name not in self.kernels:
            self.kernels[work.name] = operator_of(work.layer).kernel(work.layer)
        return self.kernels[work.name]

    def epilogue_kernel(self, work: ActorWork, layer: Layer, number: int) -> Emit:
        """The bound kernel of the layer applied as number `number` in the slabs of a layer actor."""
        key = f"{work.name}\0{number}"
        if key not in self.kernels:
            self.kernels[key] = operator_of(layer).kernel(layer)
        return self.kernels[key]


def storages(conversion: Conversion, placement: Placement) -> tuple[Storage, ...]:
    """Every storage of a placement with who writes and who releases its rows, and when.

    A tensor that nobody reads is released by its writer. Layers without work of their own (views)
    write nothing, but what they wait for is still needed.
    """
    network = conversion.network
    writers: dict[str, list[tuple[ActorWork, Write]]] = {name: [] for name in placement.storages}
    readers: dict[str, list[Access]] = {name: [] for name in placement.storages}
    for work in conversion.actors:
        for write in work.writes:
            name = write.tensor.name
            home = placement.places[name].storage
            if work.name not in placement.silent:
                writers[home].append((work, write))
            if not network.readers[name] and name not in network.output_tensors:
                readers[home].append(Access(work.name, write.claimed))
        if work.kind != "output":
            for read in work.reads:
                readers[placement.places[read.tensor.name].storage].append(
                    Access(work.name, read.release)
                )
    kept = {placement.places[name].storage for name in network.output_tensors}
    return tuple(
        Storage(
            name,
            tensor.rows,
            tensor.row_bytes,
            _parts(writers[name], tensor, placement),
            tuple(readers[name]),
            name in kept,
        )
        for name, tensor in placement.storages.items()
        if writers[name]
    )


def _parts(
    written: Sequence[tuple[ActorWork, Write]], storage: Tensor, placement: Placement
) -> tuple[Part, ...]:
    """Writers grouped by the range of the row that they write; in-place results join their
    operand's range.

    Each element of a row counts for the smallest range that holds it: a Concat which copies one
    operand beside others that were written in place adds that operand's bytes only.
    """
    ranges: dict[tuple[int, int], list[tuple[ActorWork, Write]]] = {}
    for work, write in written:
        offset = placement.places[write.tensor.name].offset
        ranges.setdefault((offset, write.tensor.row_elements), []).append((work, write))
    groups = sorted(ranges.values(), key=lambda members: -members[0][1].tensor.row_elements)
    sizes = [members[0][1].tensor.row_elements for members in groups]
    if len(groups) > 1:
        owner = np.zeros(storage.row_elements, np.int32)
        for index, members in enumerate(groups):
            tensor = members[0][1].tensor
            where = placement.places[tensor.name]
            steps = tuple(owner.itemsize * step for step in where.strides)
            np.lib.stride_tricks.as_strided(owner[where.offset :], tensor.row_shape, steps)[...] = (
                index
            )
        sizes = np.bincount(owner, minlength=len(groups)).tolist()
    return tuple(
        Part(
            tuple(write.tensor.name for _, write in members),
            size * storage.itemsize,
            tuple(Access(work.name, write.claimed) for work, write in members),
        )
        for size, members in zip(sizes, groups, strict=True)
    )
