"""Is a plan sound? The checker follows every row and every byte, and shares no code with planning.

The invariant: bytes of a pool belong to one buffer row at a time. For each firing, every row that it reads was
completed by an earlier firing and is still stored; no bytes that it claims (rows, sums, scratch) hold data that this
or a later firing reads; results overwrite operands in the same row only if the operator allows it; every actor fires
each of its phases once, in order. A firing in a branch of an If runs after the condition of its image, which is still
stored; what it makes is read in the same branch or by the layer that joins both, and only what is never computed for
the same image may be written over what a later firing reads. The checker derives the use of rows from the row ranges
that phases read, and not from the cumulative need and release counts that planning uses (docs/model.md).

Every plan passes `check`: those made here, read from a file, or found by a search. `ensure_checked` skips a plan that has
passed before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any
from weakref import WeakSet

import numpy as np

from csdfgen.errors import CapacityExceededError, PlanError, ScheduleError
from csdfgen.model.network import Guard, Tensor, are_exclusive
from csdfgen.ops import get_operator
from csdfgen.ops.base import AliasKind
from csdfgen.phases.conversion import AFTER, CONDITION, ActorWork, Read
from csdfgen.planning.buffers import Buffer, state_name
from csdfgen.planning.placement import Region
from csdfgen.planning.plan import Plan
from csdfgen.planning.waits import check_mapping
from csdfgen.rewriting.conditions import branch_faults

_PASSED: WeakSet[Plan] = WeakSet()


def ensure_checked(plan: Plan) -> Plan:
    """The plan, checked unless it has passed before. Raises as `check`."""
    if plan not in _PASSED:
        check(plan)
    return plan


def annotate_plan(plan: Plan, **noted: Any) -> Plan:
    """The plan with other figures, notes, turns, or options of goals, on which no check depends."""
    made = replace(plan, **noted)
    if plan in _PASSED:
        _PASSED.add(made)
    return made


def check(plan: Plan) -> None:
    """Follow a plan row by row and byte by byte. Raises ScheduleError, CapacityExceededError or PlanError at the first
    fault, with firing, buffer and both numbers.
    """
    _check_regions(plan)
    use = Use(plan, _times(plan))
    use.check_branches()
    use.check_reads()
    use.check_waits()
    use.check_same_rows()
    held = [*use.rows(), *use.states(), *use.workspaces()]
    _check_memories(plan, held)
    _check_bytes(plan, held)
    if plan.mapping:
        check_mapping(plan)
    _PASSED.add(plan)


# Firings and regions -----------------------------------------------------------------------------


def _times(plan: Plan) -> dict[str, np.ndarray]:
    """Actor -> the firing of each of its phases, after a check that all are there and in order."""
    counts = {work.name: len(work.phases) for work in plan.conversion.actors}
    found: dict[str, list[int]] = {name: [] for name in counts}
    for at, (name, phase) in enumerate(plan.order):
        if name not in found:
            raise ScheduleError(f"firing {at} is of '{name}', which is no actor of this network")
        if phase != len(found[name]) or phase >= counts[name]:
            raise ScheduleError(
                f"firing {at} is phase {phase} of '{name}', where phase {len(found[name])} of {counts[name]} comes next"
            )
        found[name].append(at)
    for name, count in counts.items():
        if len(found[name]) != count:
            raise ScheduleError(f"'{name}' fires {len(found[name])} of its {count} phases")
    # as rows are followed by their firings, of which many networks have thousands, in half the bytes of an int64
    return {name: np.array(positions, np.int32) for name, positions in found.items()}


def _check_regions(plan: Plan) -> None:
    """Check that every buffer has a region of its size, aligned, inside a pool."""
    for buffer in plan.buffers:
        region = plan.regions.get(buffer.name)
        if region is None or region.pool not in plan.pools:
            raise PlanError(
                f"buffer '{buffer.name}' is not stored: it has no region, or its region no pool"
            )
        if region.row_bytes != buffer.row_bytes or not 0 < region.capacity <= max(1, buffer.rows):
            raise PlanError(
                f"buffer '{buffer.name}' has {region.capacity} rows of {region.row_bytes} bytes; it "
                f"needs 1 to {buffer.rows} of {buffer.row_bytes}"
            )
        if len(region.table) != buffer.rows:
            raise PlanError(
                f"buffer '{buffer.name}' has offsets for {len(region.table)} of {buffer.rows} rows"
            )
        starts = list(_starts(buffer, region))
        if buffer.kept and len(starts) > 1:
            raise PlanError(
                f"buffer '{buffer.name}' of an output that stays in the arena has {len(starts)} pieces; 1 is needed"
            )
        wrong = next((at for at in starts if at < 0 or at % buffer.alignment), None)
        if wrong is not None:
            raise PlanError(
                f"buffer '{buffer.name}' starts at byte {wrong}, which is no multiple of {buffer.alignment}"
            )


def _starts(buffer: Buffer, region: Region) -> Iterator[int]:
    """Offsets of rows that are not contiguous with the row before."""
    end = -1
    for at in region.table:
        if at != end:
            yield at
        end = at + region.row_bytes


# What is used when -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Held:
    """Bytes [low, high) of a pool that a row of a buffer, and those that follow it, own during firings `first` to `last`."""

    pool: str
    low: int
    high: int
    first: int
    last: int
    buffer: str
    row: int


class Use:
    """When every row of every tensor is claimed, completed and read for the last time."""

    def __init__(self, plan: Plan, times: Mapping[str, np.ndarray]) -> None:
        self.plan, self.times = plan, times
        self.network, self.frames = plan.conversion.network, plan.conversion.frames
        self.works = plan.conversion.actors
        self.writer = {w.tensor.name: work for work in self.works for w in work.writes}
        self.complete: dict[str, np.ndarray] = {}
        self.claimed: dict[str, np.ndarray] = {}
        for work in self.works:
            for write in work.writes:
                at = times[work.name]
                rows = np.arange(write.tensor.rows * self.frames)
                name = write.tensor.name
                self.complete[name] = self._reached(write.complete, rows, at, work)
                self.claimed[name] = self._reached(write.claimed, rows, at, work)
        # a network output is handed on in the firing that completes it and not needed after that, unless it stays in
        # the arena to the end of the frame
        self.least = {name: found.copy() for name, found in self.complete.items()}
        for name in self.network.output_tensors if plan.options.result == "arena" else ():
            self.least[name][:] = len(plan.order) - 1
        self.reads = [
            (work, read.tensor.name, *_expanded(read, times[work.name]))
            for work in self.works
            for read in work.reads
            if read.position not in (CONDITION, AFTER)
        ]
        self.reads += [
            (
                work,
                self._condition(guard),
                times[work.name],
                np.array([p.image for p in work.phases]),
            )
            for work in self.works
            for guard in (work.layer.guards if work.layer else ())
        ]
        self.last = {name: found.copy() for name, found in self.least.items()}
        for work, name, firings, rows in self.reads:
            if work.kind != "output":
                np.maximum.at(self.last[name], rows, firings)

    def _condition(self, guard: Guard) -> str:
        """The name of a guard's condition."""
        condition = self.network.conditions.get(guard.branch)
        if condition is None:
            raise PlanError(f"branch '{guard.branch}' has no condition: no layer joins its results")
        return condition.name

    def check_branches(self) -> None:
        """Check that layers read what is made in a branch in the same one only, or join both, and that a phase of a layer
        in a branch computes one image.
        """
        inside = any(work.layer is not None and work.layer.guards for work in self.works)
        if not inside and not self.network.conditions:
            return
        for fault in branch_faults(self.network):
            raise PlanError(fault)
        for work in self.works:
            if work.layer is not None and work.layer.guards:
                images = max((phase.images for phase in work.phases), default=1)
                if images > 1:
                    raise PlanError(
                        f"'{work.name}' computes {images} images in one phase; in a branch each has its own"
                    )

    def _reached(
        self, running: Sequence[int], rows: np.ndarray, at: np.ndarray, work: ActorWork
    ) -> np.ndarray:
        phases = np.searchsorted(np.array(running), rows, side="right")
        if len(phases) and phases[-1] >= len(at):
            raise ScheduleError(f"'{work.name}' writes {running[-1]} rows of {len(rows)}")
        return at[phases]

    def check_reads(self) -> None:
        """Check that every row that is read was completed by an earlier firing."""
        for work, name, firings, rows in self.reads:
            early = np.flatnonzero(self.complete[name][rows] >= firings)
            if len(early):
                at, row = int(firings[early[0]]), int(rows[early[0]])
                done = int(np.count_nonzero(self.complete[name] < at))
                raise ScheduleError(
                    f"firing {at} ({work.name}[{self.times[work.name].tolist().index(at)}]) reads row {row} of "
                    f"'{name}', which is not written yet ({done} rows are)"
                )

    def check_waits(self) -> None:
        """Check that no layer starts before the tensors are complete that it waits for."""
        for name, tensors in self.network.awaited.items():
            starts = [
                (p.image, at)
                for p, at in zip(
                    self.plan.conversion.actor[name].phases, self.times[name], strict=True
                )
            ]
            for tensor in tensors:
                for image, at in starts:
                    done = self.complete[tensor.name][tensor.rows * image :][: tensor.rows].max()
                    if done >= at:
                        raise ScheduleError(
                            f"firing {at} ({name}) comes before firing {done}, which completes '{tensor.name}'; it waits for that"
                        )

    # one row of one buffer ------------------------------------------------------------------

    def check_same_rows(self) -> None:
        """Check that no tensor is written over the same row of another one that is read later, except by an operator that
        reads the row in the same firing and may write in place.
        """
        for home, names in self.plan.sharing.members.items():
            written = [n for n in names if n in self.writer and not self._silent(n)]
            if len(names) < 2 or not written:
                continue
            whole = self.plan.sharing.buffers[home]
            places = {name: self._places(self.network.tensors[name], home, whole) for name in names}
            for name in written:
                fresh = self._fresh(name, places)
                for other in names:
                    beside = other != name and other in self.writer
                    if not beside or are_exclusive(self._guards(name), self._guards(other)):
                        continue
                    if np.any(fresh & places[other]):
                        self._check_over(name, other)

    def _guards(self, name: str) -> tuple[Guard, ...]:
        """The branches in which a tensor is made."""
        layer = self.writer[name].layer
        return layer.guards if layer is not None else ()

    def _last_beside(self, name: str, guards: tuple[Guard, ...]) -> np.ndarray:
        """The last firing that reads each row of a tensor for an image for which a layer with these guards is computed."""
        if not guards:
            return self.last[name]
        last = self.least[name].copy()
        for work, read, firings, rows in self.reads:
            own = work.layer.guards if work.layer is not None else ()
            if read == name and work.kind != "output" and not are_exclusive(own, guards):
                np.maximum.at(last, rows, firings)
        return last

    def _silent(self, name: str) -> bool:
        return self.writer[name].name in self.plan.sharing.silent

    def _places(self, tensor: Tensor, home: str, whole: Tensor) -> np.ndarray:
        """The mask of a tensor's elements in a row of its buffer."""
        row = np.zeros(whole.row_elements, bool)
        where, shape = self.plan.sharing.piece(tensor, home)
        steps = tuple(row.itemsize * step for step in where.strides)
        np.lib.stride_tricks.as_strided(row[where.offset :], shape, steps)[...] = True
        return row

    def _fresh(self, name: str, places: Mapping[str, np.ndarray]) -> np.ndarray:
        """The mask of elements that writing a tensor changes: without those of operands that are stored there already."""
        fresh = places[name]
        layer = self.writer[name].layer
        for alias in get_operator(layer).aliases(layer) if layer is not None else ():
            operand = layer.inputs[alias.position] if layer is not None else None
            if (
                alias.kind is not AliasKind.INPLACE
                and operand is not None
                and operand.name in places
            ):
                fresh = fresh & ~places[operand.name]
        return fresh

    def _check_over(self, name: str, other: str) -> None:
        claimed, last = self.claimed[name], self._last_beside(other, self._guards(name))
        before = self.claimed[other] < claimed
        if self._in_place(name, other):
            late = np.flatnonzero(before & (last > claimed))
        else:
            late = np.flatnonzero(before & (last >= claimed))
        if len(late):
            row = int(late[0])
            at = int(claimed[row])
            raise CapacityExceededError(
                f"firing {at} ({self.writer[name].name}) writes row {row} of '{name}' over the same row of "
                f"'{other}', which firing {int(last[row])} reads"
            )

    def _in_place(self, name: str, other: str) -> bool:
        """Whether the writer of a tensor may overwrite another one: its operand, or a view of it."""
        layer = self.writer[name].layer
        if layer is None:
            return False
        return any(
            operand is not None and (operand.name == other or self._same_place(operand.name, other))
            for alias in get_operator(layer).aliases(layer)
            if alias.kind is AliasKind.INPLACE
            for operand in (layer.inputs[alias.position],)
        )

    def _same_place(self, a: str, b: str) -> bool:
        """Whether two tensors have the same elements: one is a view of the other."""
        one, two = self.network.tensors[a], self.network.tensors[b]
        homes = [[(p.buffer, p.offset) for p in self.plan.sharing.homes(name)] for name in (a, b)]
        return homes[0] == homes[1] and one.row_elements == two.row_elements

    # what owns bytes -------------------------------------------------------------------------

    def rows(self) -> Iterator[_Held]:
        """Rows of tensor buffers, from the first claim of any of their tensors to the last read."""
        for buffer in self.plan.buffers:
            if buffer.kind != "tensor":
                continue
            first, last = self.held(buffer)
            yield from self._held(buffer, first, last)

    def held(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last firing in which each row of a tensor buffer is used."""
        members = [n for n in self.plan.sharing.members[buffer.name] if n in self.writer]
        written = [n for n in members if not self._silent(n)] or members
        first = np.min([self.claimed[n] for n in written], axis=0)
        return first, np.max([self.last[n] for n in members], axis=0)

    def states(self) -> Iterator[_Held]:
        """Sums, from the first firing for an image (or group of images) to the last."""
        for work in self.works:
            if work.state is None:
                continue
            groups: dict[int, list[int]] = {}
            for phase, at in zip(work.phases, self.times[work.name].tolist(), strict=True):
                groups.setdefault(phase.group, []).append(at)
            buffer = self.plan.by_name[state_name(work.name)]
            if work.state.nbytes > buffer.row_bytes:
                raise PlanError(
                    f"buffer '{buffer.name}' has {buffer.row_bytes} bytes; sums take {work.state.nbytes}"
                )
            spans = [groups[g] for g in sorted(groups)]
            first, last = (np.array([span[end] for span in spans]) for end in (0, -1))
            yield from self._held(buffer, first, last)

    def workspaces(self) -> Iterator[_Held]:
        """Scratch, for its firing only."""
        for buffer in self.plan.buffers:
            if buffer.kind == "workspace":
                actor = buffer.writers[0].actor
                if actor not in self.times or len(self.times[actor]) != buffer.rows:
                    raise PlanError(
                        f"buffer '{buffer.name}' is of no actor with {buffer.rows} phases"
                    )
                yield from self._held(buffer, self.times[actor], self.times[actor])

    def _held(self, buffer: Buffer, first: np.ndarray, last: np.ndarray) -> Iterator[_Held]:
        region = self.plan.regions[buffer.name]
        lows = np.array(region.table)
        highs = lows + np.array(buffer.sizes or buffer.row_bytes)
        # rows that have consecutive bytes of one memory and are used together
        apart = (lows[1:] != highs[:-1]) | (lows[1:] == self.plan.border)
        apart |= (first[1:] != first[:-1]) | (last[1:] != last[:-1])
        begins = np.append(0, np.flatnonzero(apart) + 1)
        ends = np.append(begins[1:], buffer.rows) - 1
        spans = (lows[begins], highs[ends], first[begins], last[begins], begins)
        for low, high, born, gone, row in zip(*map(np.ndarray.tolist, spans), strict=True):
            if high > low:
                yield _Held(region.pool, low, high, born, gone, buffer.name, row)


def _expanded(read: Read, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(firing, row) of every row that every phase reads."""
    ends = [(rows.start, rows.stop) for rows in read.rows]
    starts, stops = np.array(ends, np.int32).reshape(-1, 2).T
    counts = stops - starts
    before = np.cumsum(counts, dtype=np.int32) - counts
    rows = np.arange(counts.sum(), dtype=np.int32) + np.repeat(starts - before, counts)
    return np.repeat(times, counts), rows


# Bytes -------------------------------------------------------------------------------------------


def _check_memories(plan: Plan, held: Sequence[_Held]) -> None:
    """Check that in a plan with two memories each row is in one of them, and within its size."""
    border, fast, slow = plan.border, plan.options.fast, plan.options.slow
    if bool(border) != bool(fast):
        raise PlanError(
            f"memories of {fast} and {slow} bytes were asked for, and meet at byte {border}; a border is needed for two"
        )
    for one in held if border else ():
        if one.low < border < one.high:
            raise PlanError(
                f"row {one.row} of buffer '{one.buffer}' is stored at bytes {one.low} to {one.high}, across "
                f"the border of the memories at {border}"
            )
        name, size, end = (
            ("fast", fast, one.high) if one.high <= border else ("slow", slow, one.high - border)
        )
        if end > size:
            raise PlanError(
                f"row {one.row} of buffer '{one.buffer}' ends at byte {end} of the {name} memory, which has {size}"
            )


def _check_bytes(plan: Plan, held: list[_Held]) -> None:
    """Follow the owned bytes through the firings: check that claimed bytes are free."""
    held.sort(key=lambda one: one.first)
    owned: dict[str, list[tuple[int, int, int]]] = {pool: [] for pool in plan.pools}
    ends: list[tuple[int, str, tuple[int, int, int]]] = []
    for number, one in enumerate(held):
        if one.low < 0 or one.high > plan.pools[one.pool]:
            raise PlanError(
                f"row {one.row} of buffer '{one.buffer}' is stored at bytes {one.low} to {one.high} of pool "
                f"'{one.pool}', which has {plan.pools[one.pool]}"
            )
        while ends and ends[0][0] < one.first:
            _, pool, gone = heappop(ends)
            del owned[pool][bisect_left(owned[pool], gone)]
        mine = one.low, one.high, number
        taken = owned[one.pool]
        at = bisect_left(taken, mine)
        for low, high, rival in taken[max(0, at - 1) : at + 1]:
            if low < one.high and one.low < high:
                raise _overlap(plan, held[rival], one)
        insort(taken, mine)
        heappush(ends, (one.last, one.pool, mine))


def _overlap(plan: Plan, old: _Held, new: _Held) -> PlanError | CapacityExceededError:
    actor, phase = plan.order[new.first] if new.first < len(plan.order) else ("the end", 0)
    label = f"firing {new.first} ({actor}[{phase}])"
    if old.buffer == new.buffer:
        return CapacityExceededError(
            f"{label} writes row {new.row} of buffer '{new.buffer}' over row {old.row}, which firing "
            f"{old.last} reads; they are stored at bytes {new.low} and {old.low}, a row has "
            f"{plan.regions[new.buffer].row_bytes}"
        )
    return PlanError(
        f"{label} claims bytes {new.low} to {new.high} for row {new.row} of buffer '{new.buffer}', of "
        f"which row {old.row} of '{old.buffer}' ({old.low} to {old.high}, in use until firing {old.last}) "
        "has some: they hold rows at the same time"
    )
