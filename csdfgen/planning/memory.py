"""How many bytes does a firing order need, and where does each buffer lie?

A storage is a rolling buffer of rows. Lifetimes come from the row rule alone: a row is claimed
when the firing that writes it starts, and free when the last firing that reads it has ended
(SDF3's rule; docs/model.md). From an order of firings follow the capacity of each storage, the
most bytes alive at one time, and the span of firings in which it holds anything; from these the
static offsets in one arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = [
    "Access",
    "BufferPlan",
    "BufferSlot",
    "Occupancy",
    "Part",
    "Storage",
    "occupancy",
    "pack",
]

ALIGNMENT = 64
"""Bytes; every buffer starts at a multiple, as vector units like it."""


@dataclass(frozen=True, slots=True)
class Access:
    """How far an actor has come in a storage after each of its phases: rows written, or rows
    released.
    """

    actor: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A range of every row that the same actors write: one tensor, or one operand of a Concat."""

    tensors: tuple[str, ...]
    row_bytes: int
    writers: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class Storage:
    """A rolling buffer of `rows` logical rows; `kept` to the end if it holds a network output."""

    name: str
    rows: int
    row_bytes: int
    parts: tuple[Part, ...]
    readers: tuple[Access, ...]
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What an order needs: per storage its capacity in rows and its span [first, end) of firings;
    live bytes.

    live: bytes alive during each firing (claims made, nothing freed yet).
    """

    capacities: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    live: tuple[int, ...]

    @property
    def peak_live(self) -> int:
        """Most bytes alive at one time: no arena for this order is smaller."""
        return max(self.live, default=0)


class _State:
    """Rows written and released so far in one storage."""

    __slots__ = (
        "capacity",
        "end",
        "first",
        "freed",
        "high",
        "kept",
        "live",
        "low",
        "part_bytes",
        "top",
    )

    def __init__(self, storage: Storage) -> None:
        self.high = [0] * len(storage.parts)
        self.freed = [0] * len(storage.readers)
        self.part_bytes = [part.row_bytes for part in storage.parts]
        self.kept = storage.kept
        self.low = self.top = self.live = self.capacity = 0
        self.first, self.end = -1, 0

    def claim(self, part: int, rows: int, firing: int) -> int:
        """Write up to `rows`; returns the change in live bytes."""
        if self.first < 0:
            self.first = firing
        if rows > self.high[part]:
            self.high[part] = rows
            self.top = max(self.top, rows)
            self.capacity = max(self.capacity, self.top - self.low)
        return self._count()

    def free(self, reader: int, rows: int, firing: int) -> int:
        """Release up to `rows` for one reader; returns the change in live bytes."""
        self.end = firing + 1
        if rows > self.freed[reader]:
            self.freed[reader] = rows
            if not self.kept:
                self.low = min(self.freed)
        return self._count()

    def _count(self) -> int:
        before = self.live
        self.live = sum(
            (high - self.low) * size
            for high, size in zip(self.high, self.part_bytes, strict=True)
            if high > self.low
        )
        return self.live - before


def occupancy(order: Sequence[tuple[str, int]], storages: Sequence[Storage]) -> Occupancy:
    """Follow an order of firings (actor, phase) through all storages.

    >>> line = Storage("x", 4, 10, (Part(("x",), 10, (Access("a", (1, 2, 3, 4)),)),), (Access("b", (0, 4)),))
    >>> found = occupancy([("a", 0), ("a", 1), ("b", 0), ("a", 2), ("a", 3), ("b", 1)], [line])
    >>> found.capacities, found.peak_live, found.spans
    ((4,), 40, ((0, 6),))
    """
    states = [_State(storage) for storage in storages]
    writes: dict[str, list[tuple[int, int, tuple[int, ...]]]] = {}
    reads: dict[str, list[tuple[int, int, tuple[int, ...]]]] = {}
    for s, storage in enumerate(storages):
        for p, part in enumerate(storage.parts):
            for access in part.writers:
                writes.setdefault(access.actor, []).append((s, p, access.rows))
        for r, access in enumerate(storage.readers):
            reads.setdefault(access.actor, []).append((s, r, access.rows))
    live, now = [], 0
    for firing, (actor, phase) in enumerate(order):
        for s, p, rows in writes.get(actor, ()):
            now += states[s].claim(p, rows[phase], firing)
        live.append(now)
        for s, r, rows in reads.get(actor, ()):
            now += states[s].free(r, rows[phase], firing)
    spans = tuple(
        (max(0, state.first), len(order) if state.kept else state.end) for state in states
    )
    return Occupancy(tuple(state.capacity for state in states), spans, tuple(live))


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """A storage in the arena: bytes [offset, offset + size), in use during firings [first_firing,
    end_firing).
    """

    storage: str
    offset: int
    size: int
    capacity: int
    first_firing: int
    end_firing: int


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """The one arena with every storage at its static offset; all sizes in bytes."""

    slots: tuple[BufferSlot, ...]
    arena_bytes: int


def pack(storages: Sequence[Storage], found: Occupancy) -> BufferPlan:
    """Static offsets so that storages which hold rows at the same time never share bytes.

    First fit in several orders (by size; by size times span; by first use); the smallest arena
    wins.
    """
    sizes = [
        capacity * storage.row_bytes
        for capacity, storage in zip(found.capacities, storages, strict=True)
    ]
    spans = found.spans
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-sizes[i], spans[i][0]),
        lambda i: (-sizes[i] * (spans[i][1] - spans[i][0]), spans[i][0]),
        lambda i: (spans[i][0] - spans[i][1], -sizes[i]),
        lambda i: (spans[i][0], -sizes[i]),
        lambda i: (-spans[i][1], -sizes[i]),
    )
    best: tuple[int, list[int]] | None = None
    for key in keys:
        arena, offsets = _first_fit(sorted(range(len(sizes)), key=key), sizes, spans)
        if best is None or arena < best[0]:
            best = arena, offsets
    assert best is not None
    arena, offsets = best
    slots = tuple(
        BufferSlot(storage.name, offset, size, capacity, *span)
        for storage, offset, size, capacity, span in zip(
            storages, offsets, sizes, found.capacities, spans, strict=True
        )
    )
    return BufferPlan(slots, arena)


def _first_fit(
    order: Sequence[int], sizes: Sequence[int], spans: Sequence[tuple[int, int]]
) -> tuple[int, list[int]]:
    """Each buffer at the lowest aligned offset that is free during its whole span."""
    offsets = [0] * len(sizes)
    placed: list[int] = []
    arena = 0
    for i in order:
        start, end = spans[i]
        rivals = sorted(
            (offsets[j], offsets[j] + sizes[j])
            for j in placed
            if spans[j][0] < end and start < spans[j][1]
        )
        at = 0
        for low, high in rivals:
            if at + sizes[i] <= low:
                break
            at = max(at, -(-high // ALIGNMENT) * ALIGNMENT)
        offsets[i] = at
        placed.append(i)
        arena = max(arena, at + sizes[i])
    return arena, offsets
