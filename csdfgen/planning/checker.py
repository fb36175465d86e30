"""Is a plan sound? Every row followed one by one, sharing no code with the scheduler or the
executor.

For each firing: every row that it reads must lie in its slot, written by whoever writes it; no row
that it writes may take the slot of a row that a later firing still reads, or its place in the row;
every actor fires each of its phases once, in order; and buffers that hold rows at the same time
never share bytes (docs/model.md). Lifetimes are counted here from the bare row ranges (how many
firings still read this row), not from the running need and release counts that planning and
execution use.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from csdfgen.errors import CapacityExceededError, PlanError, ScheduleError
from csdfgen.model.network import Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import operator_of
from csdfgen.ops.base import AliasKind
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

__all__ = ["audit"]


class _Audit:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.home = {name: where.storage for name, where in plan.placement.places.items()}
        self.capacity = {slot.storage: slot.capacity for slot in plan.buffers.slots}
        self.pending: Counter[tuple[str, int]] = Counter()
        self.slots: dict[tuple[str, int], int] = {}
        self.written: set[tuple[str, int]] = set()
        self.touched: dict[str, list[int]] = {}
        kept = {o.tensor.name for o in plan.network.outputs if o.tensor is not None}
        for work in plan.conversion.actors:
            for read in work.reads:
                for rows in read.rows:
                    self.pending.update(
                        (read.tensor.name, row) for row in range(rows.start, rows.stop)
                    )
        for name in kept:
            self.pending.update((name, row) for row in range(plan.network.tensors[name].rows))
        self.reading: Counter[tuple[str, int]] = Counter()
        self.shared: dict[str, tuple[str, ...]] = {}
        self.sharing: dict[str, list[str]] = {}
        for name, storage in self.home.items():
            self.sharing.setdefault(storage, []).append(name)

    def read(self, label: str, name: str, rows: Rows, at: int) -> None:
        storage = self.home[name]
        for row in range(rows.start, rows.stop):
            if (name, row) not in self.written:
                have = sum(1 for tensor, _ in self.written if tensor == name)
                raise ScheduleError(
                    f"{label} reads row {row} of '{name}', which is not written yet ({have} rows are)"
                )
            held = self.slots.get((storage, row % self.capacity[storage]))
            if held != row:
                raise ScheduleError(
                    f"{label} reads row {row} of '{name}', its slot holds row {held} ({self.capacity[storage]} slots)"
                )
            self.touched[storage][1] = at

    def claim(self, label: str, name: str, rows: Rows, at: int) -> None:
        storage = self.home[name]
        capacity = self.capacity[storage]
        span = self.touched.setdefault(storage, [at, at])
        span[1] = at
        for row in range(rows.start, rows.stop):
            slot = (storage, row % capacity)
            held = self.slots.get(slot)
            if held is not None and held != row:
                needed = [t for t in self.sharing[storage] if self.pending[t, held] > 0]
                if needed:
                    raise CapacityExceededError(
                        f"{label} writes row {row} of '{name}' over row {held} of '{needed[0]}', which "
                        f"{self.pending[needed[0], held]} later firings read; the buffer holds {capacity} rows"
                    )
            self.slots[slot] = row

    def keep(self, label: str, work: ActorWork, tensor: Tensor, rows: Rows) -> None:
        """Refuse to write over the same row of another tensor that a later firing still reads (in
        place, too early).
        """
        for other in self.overwritten(work, tensor):
            for row in range(rows.start, rows.stop):
                if (other, row) in self.written and self.pending[other, row] > self.reading[
                    other, row
                ]:
                    raise CapacityExceededError(
                        f"{label} writes row {row} of '{tensor.name}' over the same row of '{other}', which later firings read"
                    )

    def overwritten(self, work: ActorWork, tensor: Tensor) -> tuple[str, ...]:
        """Other tensors with elements in the places of a row that the actor writes when it writes
        `tensor`.
        """
        if tensor.name not in self.shared:
            mine = self.elements(tensor.name)
            for alias in (
                operator_of(work.layer).aliases(work.layer) if work.layer is not None else ()
            ):
                operand = work.layer.inputs[alias.position] if work.layer is not None else None
                if (
                    alias.kind is not AliasKind.INPLACE
                    and operand is not None
                    and self.home[operand.name] == self.home[tensor.name]
                ):
                    mine = mine - self.elements(
                        operand.name
                    )  # it is there already and is not written
            others = (name for name in self.sharing[self.home[tensor.name]] if name != tensor.name)
            self.shared[tensor.name] = tuple(name for name in others if mine & self.elements(name))
        return self.shared[tensor.name]

    def elements(self, name: str) -> set[int]:
        """Places of a tensor's elements within a row of its storage."""
        place, shape = self.plan.placement.places[name], self.plan.network.tensors[name].row_shape
        steps = (
            range(0, size * step, step) for size, step in zip(shape, place.strides, strict=True)
        )
        return {place.offset + sum(element) for element in product(*steps)}

    def fire(self, work: ActorWork, phase: int, at: int) -> None:
        label = f"firing {at} ({work.name}[{phase}])"
        self.reading = Counter(
            (read.tensor.name, row)
            for read in work.reads
            for row in range(read.rows[phase].start, read.rows[phase].stop)
        )
        for read in work.reads:
            self.read(label, read.tensor.name, read.rows[phase], at)
        for write in work.writes:
            claimed = write.claimed[phase - 1] if phase else 0
            complete = write.complete[phase - 1] if phase else 0
            rows = Rows(claimed, write.claimed[phase])
            self.claim(label, write.tensor.name, rows, at)
            self.keep(label, work, write.tensor, rows)
            self.written.update(
                (write.tensor.name, row) for row in range(complete, write.complete[phase])
            )
        self.pending.subtract(self.reading)


def audit(plan: Plan) -> None:
    """Follow a plan row by row; ScheduleError, CapacityExceededError or PlanError at the first
    fault.
    """
    state = _Audit(plan)
    actors = {work.name: work for work in plan.conversion.actors}
    fired: Counter[str] = Counter()
    for at, (name, phase) in enumerate(plan.order):
        if name not in actors:
            raise ScheduleError(f"firing {at} is of '{name}', which is no actor")
        if phase != fired[name]:
            raise ScheduleError(
                f"firing {at} is phase {phase} of '{name}', phase {fired[name]} comes next"
            )
        if phase >= len(actors[name].phases):
            raise ScheduleError(
                f"firing {at} is phase {phase} of '{name}', which has {len(actors[name].phases)} phases"
            )
        state.fire(actors[name], phase, at)
        fired[name] += 1
    for name, work in actors.items():
        if fired[name] != len(work.phases):
            raise ScheduleError(f"'{name}' fires {fired[name]} of its {len(work.phases)} phases")
    _check_bytes(plan, state)


def _check_bytes(plan: Plan, state: _Audit) -> None:
    """Buffers in use at the same time have bytes of their own, inside the arena."""
    kept = {state.home[o.tensor.name] for o in plan.network.outputs if o.tensor is not None}
    used = [slot for slot in plan.buffers.slots if slot.storage in state.touched]
    end = len(plan.order)
    for slot in used:
        tensor = plan.placement.storages[slot.storage]
        if (
            slot.size != slot.capacity * tensor.row_bytes
            or slot.offset < 0
            or slot.offset + slot.size > plan.planned_bytes
        ):
            raise PlanError(
                f"buffer '{slot.storage}' has {slot.size} bytes at {slot.offset}: it needs "
                f"{slot.capacity * tensor.row_bytes} inside an arena of {plan.planned_bytes}"
            )
    for i, one in enumerate(used):
        first, last = state.touched[one.storage]
        last = end if one.storage in kept else last
        for other in used[i + 1 :]:
            begin, stop = state.touched[other.storage]
            stop = end if other.storage in kept else stop
            together = first <= stop and begin <= last
            if (
                together
                and one.offset < other.offset + other.size
                and other.offset < one.offset + one.size
            ):
                raise PlanError(
                    f"buffers '{one.storage}' (bytes {one.offset} to {one.offset + one.size}) and '{other.storage}' "
                    f"({other.offset} to {other.offset + other.size}) hold rows at the same time"
                )
