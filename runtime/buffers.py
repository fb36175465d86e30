"""Where do the rows of a tensor lie? Rolling buffers over one arena.

Row i of a storage is in slot `i mod capacity`. `Buffers` hands out numpy views of slots and knows,
while a program is compiled, which rows are there: it refuses to read a row that is not yet written
or no longer there, and to claim room that still holds rows somebody needs (docs/model.md).
"""

from __future__ import annotations

import numpy as np

from csdfgen.errors import CapacityExceededError, ScheduleError
from csdfgen.model.network import Tensor
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

__all__ = ["GUARD_BYTES", "Buffers", "Ledger", "aligned_bytes"]

GUARD_BYTES = 4096
"""Bytes behind the arena that nothing may touch; a measured frame checks them."""


def aligned_bytes(size: int, alignment: int = 64) -> np.ndarray:
    """Uninitialised bytes that start at a multiple of `alignment`."""
    raw = np.empty(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


class Buffers:
    """Views of the rows of every tensor of a plan, in one arena."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.memory = aligned_bytes(plan.planned_bytes + GUARD_BYTES)
        self.arena = self.memory[: plan.planned_bytes]
        self._slots: dict[str, np.ndarray] = {}
        for tensor in plan.network.tensors.values():
            where = plan.placement.places[tensor.name]
            slot = plan.slots.get(where.storage)
            if slot is None:
                continue
            storage = plan.placement.storages[where.storage]
            flat = self.arena[slot.offset : slot.offset + slot.size].view(tensor.dtype)
            size = tensor.itemsize
            strides = (storage.row_elements * size, *(step * size for step in where.strides))
            shape = (slot.capacity, *tensor.row_shape)
            self._slots[tensor.name] = np.lib.stride_tricks.as_strided(
                flat[where.offset :], shape, strides
            )

    def capacity(self, tensor: Tensor) -> int:
        """Rows that the tensor's storage holds at a time."""
        return self._slots[tensor.name].shape[0]

    def slot(self, tensor: Tensor, row: int) -> int:
        """Slot of a row."""
        return row % self.capacity(tensor)

    def pieces(self, tensor: Tensor, rows: Rows) -> tuple[Rows, ...]:
        """The range cut where the rolling buffer wraps; each piece lies in consecutive slots."""
        capacity = self.capacity(tensor)
        cut = (rows.start // capacity + 1) * capacity
        return (rows,) if cut >= rows.stop else (Rows(rows.start, cut), Rows(cut, rows.stop))

    def view(self, tensor: Tensor, rows: Rows) -> np.ndarray:
        """Rows that do not wrap, shape (len(rows), *row_shape)."""
        slots = self._slots[tensor.name]
        first = rows.start % slots.shape[0] if rows else 0
        return slots[first : first + len(rows)]


class Ledger:
    """Which rows are written and which are still needed, while firings are compiled one after
    another.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        places = plan.placement.places
        self.complete = dict.fromkeys(plan.network.tensors, 0)
        self.top = dict.fromkeys(plan.placement.storages, 0)
        self._released: dict[str, dict[tuple[str, str], int]] = {
            name: {} for name in plan.placement.storages
        }
        for storage in plan.storages:
            for access in storage.readers:
                self._released[storage.name][access.actor, storage.name] = 0
        self._kept = {places[name].storage for name in plan.network.output_tensors}

    def low(self, storage: str) -> int:
        """Rows below this one are needed by nobody any more."""
        released = self._released[storage]
        return 0 if storage in self._kept or not released else min(released.values())

    def read(self, work: ActorWork, phase: int) -> None:
        """Check that every row the phase reads is there; ScheduleError otherwise."""
        for read in work.reads:
            rows, name = read.rows[phase], read.tensor.name
            if not rows:
                continue
            if rows.stop > self.complete[name]:
                raise ScheduleError(
                    f"firing {work.name}[{phase}] reads rows up to {rows.stop} of '{name}', "
                    f"of which {self.complete[name]} are written; the schedule fires it too early"
                )
            storage = self.plan.placement.places[name].storage
            gone = self.top[storage] - self.plan.slots[storage].capacity
            if rows.start < gone:
                raise ScheduleError(
                    f"firing {work.name}[{phase}] reads row {rows.start} of '{name}', but rows below {gone} are overwritten; "
                    f"its buffer holds {self.plan.slots[storage].capacity} rows"
                )

    def claim(self, work: ActorWork, phase: int) -> None:
        """Claim room for the rows that the phase writes; CapacityExceededError if rows still needed
        lie there.
        """
        for write in work.writes:
            storage = self.plan.placement.places[write.tensor.name].storage
            claimed, capacity = write.claimed[phase], self.plan.slots[storage].capacity
            self.top[storage] = max(self.top[storage], claimed)
            if claimed - self.low(storage) > capacity:
                raise CapacityExceededError(
                    f"firing {work.name}[{phase}] writes rows up to {claimed} of '{write.tensor.name}' while rows from "
                    f"{self.low(storage)} are needed: {claimed - self.low(storage)} rows, the buffer holds {capacity}"
                )

    def finish(self, work: ActorWork, phase: int) -> None:
        """Record what the phase has completed and released."""
        for write in work.writes:
            self.complete[write.tensor.name] = max(
                self.complete[write.tensor.name], write.complete[phase]
            )
        for storage, rows in self._releases(work, phase):
            key = (work.name, storage)
            if key in self._released[storage]:
                self._released[storage][key] = max(self._released[storage][key], rows)

    def _releases(self, work: ActorWork, phase: int) -> list[tuple[str, int]]:
        """Rows that the actor needs no more, per storage (the least over the tensors it reads
        there).
        """
        least: dict[str, int] = {}
        places, network = self.plan.placement.places, self.plan.network
        for read in work.reads:
            storage = places[read.tensor.name].storage
            least[storage] = min(read.release[phase], least.get(storage, read.tensor.rows))
        for write in work.writes:
            if not network.readers[write.tensor.name]:
                storage = places[write.tensor.name].storage
                least[storage] = min(write.claimed[phase], least.get(storage, write.tensor.rows))
        return list(least.items())
