"""How does a plan of one image become one of several images on several processors?

Each processor fires its actors image after image, in the order of the plan of one image. What it alone uses is placed for
one image, in bytes of its own: its order keeps the images apart. A buffer that another processor uses too has bytes that
no other buffer has, with slots for some blocks of rows or for one or two whole images: the more slots, the farther the
processor that writes may be ahead. The order of the whole plan is image after image, so that one processor can execute
it as well; `planning.waits` derives from it what processors have to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from csdfgen.planning.buffers import ARENA, Buffer, workspace_buffer, workspace_name
from csdfgen.planning.lifetimes import Lifetime, trace_lifetimes
from csdfgen.planning.placement import Region, place
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Phased, Prepared
from csdfgen.planning.waits import LINE, Waits, count_cores, find_waits
from csdfgen.planning.workspaces import time_scratch

WHOLE = 0
"""Slots for a whole image, instead of a number of times as many as its order needs."""


@dataclass(frozen=True, eq=False)
class Pipelined:
    """A plan of one image, whose firings are repeated for several. one: that plan; many: the network cut into the same phases,
    for all images.
    """

    one: Plan
    many: Phased
    single: Phased

    @classmethod
    def of(cls, prepared: Prepared, one: Plan, frames: int) -> Pipelined:
        """For so many images, of a network that is prepared for as many."""
        single = prepared.phased(one.options, fine=one.fine)
        many = prepared.phased(replace(one.options, frames=frames), fine=one.fine)
        return cls(one, many, single)

    @property
    def frames(self) -> int:
        """Images of the order."""
        return self.many.conversion.frames

    @cached_property
    def order(self) -> tuple[tuple[str, int], ...]:
        """Firings of all images, one image after the other."""
        phases = {work.name: len(work.phases) for work in self.single.conversion.actors}
        return tuple(
            (actor, image * phases[actor] + phase)
            for image in range(self.frames)
            for actor, phase in self.one.order
        )

    @cached_property
    def _lifetimes(self) -> Mapping[str, Lifetime]:
        found = trace_lifetimes(self.one.order, self.single.buffers).each
        return {one.buffer: one for one in found}

    def crossing(self, mapping: Mapping[str, int]) -> tuple[Buffer, ...]:
        """Buffers, of one image, that several processors use."""
        return tuple(one for one in self.single.buffers if len(_cores(one, mapping)) > 1)

    def rings(self, mapping: Mapping[str, int], ahead: int, copies: int) -> dict[str, Region]:
        """Where buffers that several processors use are stored, from the start of the pool. ahead: times as many slots as one
        image needs, `WHOLE` for all of its rows; copies: whole images with slots of their own.
        """
        found, base = {}, 0
        for buffer in self.crossing(mapping):
            offsets = self._slots(buffer, ahead)
            size = _aligned(int(offsets.max()) + buffer.row_bytes, max(buffer.alignment, LINE))
            again = 1 if len(np.unique(offsets)) < buffer.rows else min(copies, self.frames)
            shifts = base + size * (np.arange(self.frames) % again)
            table = (shifts[:, None] + offsets).reshape(-1)
            found[buffer.name] = self._region(buffer, table)
            base += size * again
        return found

    def _region(self, buffer: Buffer, table: np.ndarray) -> Region:
        most = self._lifetimes[buffer.name].capacity
        return Region(buffer.name, buffer.row_bytes, most, tuple(table.tolist()))

    def _slots(self, buffer: Buffer, ahead: int) -> np.ndarray:
        """Offsets of the rows of an image, whose blocks take slots in turn."""
        starts = np.array(buffer.blocks)
        sizes = np.diff(np.append(starts, buffer.rows))
        life = self._lifetimes[buffer.name]
        gone = np.maximum.reduceat(life.gone, starts)
        needed = next(
            count
            for count in range(1, len(starts) + 1)
            if np.all(gone[:-count] <= life.born[starts[count:]])
        )
        slots = needed * ahead if ahead != WHOLE else len(starts)
        if slots >= len(starts):
            return np.arange(buffer.rows) * buffer.row_bytes
        size = _aligned(int(sizes.max()) * buffer.row_bytes, buffer.alignment)
        firsts = np.arange(len(starts)) % slots * size
        within = np.arange(buffer.rows) - np.repeat(starts, sizes)
        return np.repeat(firsts, sizes) + within * buffer.row_bytes

    def waits(self, mapping: Mapping[str, int], rings: Mapping[str, Region]) -> Waits:
        """What processors wait for: only buffers that several of them use have to be followed."""
        many = self.many
        return find_waits(many.conversion, many.sharing, self.order, rings, mapping)

    def plan(self, mapping: Mapping[str, int], rings: Mapping[str, Region]) -> Plan:
        """The plan that is not checked yet."""
        regions, workspaces = dict(rings), []
        base = max((max(one.table) + one.row_bytes for one in rings.values()), default=0)
        # kernels choose their algorithms by their scratch: with that of one image outputs are the same to the last bit
        scratch = {
            one.writers[0].actor: np.array(one.sizes)
            for one in self.one.buffers
            if one.kind == "workspace"
        }
        for core in range(count_cores(mapping)):
            order = [firing for firing in self.one.order if mapping[firing[0]] == core]
            own = [one for one in self.single.buffers if _cores(one, mapping) == {core}]
            mine = {name: sizes for name, sizes in scratch.items() if mapping[name] == core}
            alignment = self.single.kernels.alignment(ARENA)
            base = _aligned(base, max(alignment, LINE))
            tables = {name: np.zeros(len(sizes), np.int64) for name, sizes in mine.items()}
            total = max((int(sizes.max()) for sizes in mine.values()), default=0)
            if own:
                effort = self.single.terms.effort
                placed = place(
                    own, trace_lifetimes(order, own), time_scratch(mine, order), effort=effort
                )
                total = placed.total
                for buffer in own:
                    table = base + np.array(placed.regions[buffer.name].table)
                    regions[buffer.name] = self._region(buffer, np.tile(table, self.frames))
                for name in mine:
                    tables[name] = np.array(placed.regions[workspace_name(name)].table)
            for name, sizes in mine.items():
                made = workspace_buffer(name, sizes.tolist() * self.frames, alignment)
                table = np.tile(base + tables[name], self.frames)
                workspaces.append(made)
                regions[made.name] = Region(made.name, made.row_bytes, 1, tuple(table.tolist()))
            base += total
        many = self.many
        return Plan(
            many.conversion,
            many.sharing,
            many.options,
            "pipelined",
            self.order,
            (*many.buffers, *workspaces),
            MappingProxyType(regions),
            MappingProxyType({ARENA: base}),
            many.scratch,
            fine=self.one.fine,
            mapping=MappingProxyType(dict(mapping)),
        )


def _cores(buffer: Buffer, mapping: Mapping[str, int]) -> set[int]:
    """The processors whose actors write or release rows of a buffer."""
    return {mapping[access.actor] for access in (*buffer.writers, *buffer.readers)}


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
