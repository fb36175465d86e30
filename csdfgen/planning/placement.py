"""Where does each row of each buffer lie? Static offsets, so that rows alive together share no bytes.

The one law of sharing: bytes of a pool belong to one buffer at a time. A tensor or a state is a
rolling buffer, row i in slot `i mod capacity` of one block that is its own from its first claim to
its last release; the blocks are packed first fit, in several orders. A workspace is a block for
one firing: it goes into a gap between the blocks that hold rows then, at one offset for all firings
of its layer where that costs nothing. `Region.address` is the only place that knows where a row
lies, and `planning.checker` holds every plan to the law by bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from csdfgen.planning.buffers import ALIGNMENT, ARENA, Buffer
from csdfgen.planning.lifetimes import Lifetime

__all__ = ["Block", "Region", "Solution", "aligned", "place_blocks", "place_workspaces", "ring"]


@dataclass(frozen=True, slots=True)
class Region:
    """Where the rows of a buffer lie in a pool.

    Rolling: row i in slot `i mod capacity` of `row_bytes` bytes, from `offset` on. table: instead,
    the offset of each row.
    """

    buffer: str
    offset: int
    row_bytes: int
    capacity: int
    table: tuple[int, ...] = ()
    pool: str = ARENA

    def address(self, row: int) -> int:
        """Byte offset of a row in the pool.

        >>> ring = Region("x", 64, 10, 3)
        >>> [ring.address(row) for row in range(4)]
        [64, 74, 84, 64]
        """
        if self.table:
            return self.table[row]
        return self.offset + row % self.capacity * self.row_bytes

    def addresses(self, start: int, stop: int) -> tuple[int, ...]:
        """Byte offsets of rows [start, stop)."""
        if self.table:
            return self.table[start:stop]
        offset, capacity, size = self.offset, self.capacity, self.row_bytes
        return tuple(offset + row % capacity * size for row in range(start, stop))

    @property
    def size(self) -> int:
        """Bytes of a rolling buffer's block."""
        return self.capacity * self.row_bytes


def ring(buffer: Buffer, lifetime: Lifetime, offset: int) -> Region:
    """The region of a rolling buffer whose block starts at an offset."""
    return Region(buffer.name, offset, buffer.row_bytes, lifetime.capacity, pool=buffer.pool)


@dataclass(frozen=True, slots=True)
class Block:
    """`size` bytes that are used during firings [start, end)."""

    size: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Solution:
    """An offset for every block, in order, and the bytes that they span from 0."""

    offsets: tuple[int, ...]
    total: int


_KEYS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.start),
    lambda b: (-b.size * (b.end - b.start), b.start),
    lambda b: (b.start - b.end, -b.size),
    lambda b: (b.start, -b.size),
    lambda b: (-b.end, -b.size),
)
"""Orders in which blocks are placed: by size, by size times span, by span, by first and last use."""


def place_blocks(blocks: Sequence[Block], limit: float = inf) -> Iterator[Solution]:
    """Solutions of less than `limit` bytes by first fit in several orders: blocks that are used at
    the same time share no byte, and each starts at a multiple of `ALIGNMENT`.
    """
    starts, ends = np.array([b.start for b in blocks]), np.array([b.end for b in blocks])
    together = (starts[:, None] < ends[None, :]) & (starts[None, :] < ends[:, None])
    rivals = [np.flatnonzero(row).tolist() for row in together]
    seen: set[tuple[int, ...]] = set()
    for key in _KEYS:
        order = tuple(sorted(range(len(blocks)), key=lambda i, key=key: key(blocks[i])))  # type: ignore[misc]
        if order not in seen:
            seen.add(order)
            found = _first_fit(order, blocks, rivals, limit)
            if found is not None:
                yield found


def _first_fit(
    order: Sequence[int], blocks: Sequence[Block], rivals: Sequence[Sequence[int]], limit: float
) -> Solution | None:
    """Each block at the lowest aligned offset that is free during its whole span; None if they end
    at `limit` or beyond.
    """
    offsets = [-1] * len(blocks)
    total = 0
    for i in order:
        taken = sorted(
            (offsets[j], offsets[j] + blocks[j].size) for j in rivals[i] if offsets[j] >= 0
        )
        at, size = 0, blocks[i].size
        for low, high in taken:
            if at + size <= low:
                break
            if high > at:
                at = aligned(high)
        offsets[i] = at
        total = max(total, at + size)
        if total >= limit:
            return None
    return Solution(tuple(offsets), total)


def aligned(offset: int) -> int:
    """The next offset at which a buffer may start."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


# Workspaces --------------------------------------------------------------------------------------


def place_workspaces(
    blocks: Sequence[Block],
    offsets: Sequence[int],
    wanted: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> tuple[dict[str, tuple[int, ...]], int]:
    """Offsets of the scratch of every phase of every actor, beside blocks at their offsets; and the
    bytes that blocks and scratch span from 0.

    wanted: actor -> (bytes of each phase, firing of each phase). An actor has one offset for all
    its phases (their calls can then be shared), unless one for each stretch of firings takes less.
    """
    total = max((o + b.size for o, b in zip(offsets, blocks, strict=True)), default=0)
    if not wanted:
        return {}, total
    starts, ends = np.array([b.start for b in blocks]), np.array([b.end for b in blocks])
    edges = np.unique(np.concatenate([[0], starts, ends]))
    # blocks in use do not change between two edges
    alive = (starts[:, None] <= edges[None, :]) & (edges[None, :] < ends[:, None])
    stretches = {a: np.searchsorted(edges, at, side="right") - 1 for a, (_, at) in wanted.items()}
    room = _Room(np.array(offsets), np.array([b.size for b in blocks]))
    needs = np.array([sizes.max() for sizes, _ in wanted.values()])
    in_use = np.stack(
        [alive[:, np.unique(found)].any(axis=1) for found in stretches.values()], axis=1
    )
    steady = room.lowest(in_use, needs)
    largest = np.zeros(len(edges), np.int64)
    for actor, (sizes, _) in wanted.items():
        np.maximum.at(largest, stretches[actor], sizes)
    apart = room.lowest(alive, largest)
    least = max(total, int((apart + largest).max()))
    found: dict[str, tuple[int, ...]] = {}
    for number, (actor, (sizes, _)) in enumerate(wanted.items()):
        if steady[number] + needs[number] <= least:
            found[actor] = (int(steady[number]),) * len(sizes)
        else:
            found[actor] = tuple(apart[stretches[actor]].tolist())
    return found, least


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """Blocks at their offsets, among which gaps are looked for."""

    offsets: np.ndarray
    sizes: np.ndarray

    def lowest(self, alive: np.ndarray, needs: np.ndarray) -> np.ndarray:
        """The lowest aligned offset with `needs[k]` bytes free of the blocks `alive[:, k]`, for all k."""
        at = np.zeros(len(needs), np.int64)
        fits = np.zeros(len(needs), bool)
        for i in np.argsort(self.offsets, kind="stable").tolist():
            here = alive[i]
            fits |= here & (at + needs <= self.offsets[i])
            end = aligned(int(self.offsets[i] + self.sizes[i]))
            np.maximum(at, end, out=at, where=here & ~fits)
        return at
