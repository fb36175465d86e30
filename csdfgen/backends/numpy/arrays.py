"""Which arrays are rows that lie somewhere in memory? One array a run, of every piece."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from csdfgen.program.instructions import Ref, allocate_aligned, get_address
from csdfgen.program.steps import Call, Memory, Starts, View


def view_array(view: View, memory: Memory) -> np.ndarray:
    """Evenly spaced rows, none in pieces, as an array of shape (rows, *shape)."""
    assert not view.pieces, "rows in pieces are no array"
    rows = view.rows
    step = rows[1] - rows[0] if len(rows) > 1 else 0
    offset = rows[0] if rows else 0
    return np.ndarray(
        (len(rows), *view.shape),
        view.format.dtype,
        memory[view.pool],
        offset,
        (step, *view.strides),
    )


def copies(target: np.ndarray, view: View, memory: Memory) -> list[Call]:
    """Calls that copy rows, wherever they and their pieces lie, into an array (rows, *shape)."""
    return [(np.copyto, pair) for pair in match_rows(target, view, memory)]


def match_rows(
    whole: np.ndarray, view: View, memory: Memory
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Parts of an array (rows, *shape), each with the array of rows that lie like it."""
    return ((whole[at], view_array(one, memory)) for at, one in view.parts())


def place_rows(
    starts: Starts, view: View
) -> Iterator[tuple[Starts, Ref, tuple[int, ...], tuple[int, ...]]]:
    """Rows, run by run of every piece, as arrays without memory: where each starts in the whole, its place, shape and
    strides.
    """
    for at, one in view.parts():
        begin, rows = list(starts), one.rows
        for axis, part in enumerate(at):
            begin[axis] += part.start or 0
        step = rows[1] - rows[0] if len(rows) > 1 else 0
        yield tuple(begin), Ref(one.pool, rows[0]), (len(rows), *one.shape), (step, *one.strides)


class HostMemory(dict[str, np.ndarray]):
    """Pools as arrays of bytes of this process, see `Storage`. ranges: of the system, which pools are, where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: dict[str, mmap.mmap] = {}
        self._used: dict[str, int] = {}

    def read(self, view: View) -> np.ndarray:
        """See `Storage.read`."""
        return view_array(view, self)

    def write(self, view: View, rows: np.ndarray) -> None:
        """See `Storage.write`."""
        there = view_array(view, self)
        if get_address(there) != get_address(rows) or there.strides != rows.strides:
            np.copyto(there, rows)

    def lend(self, view: View) -> tuple[np.ndarray, Callable[[], bool]]:
        """See `Storage.lend`."""
        memory: Any = self[view.pool]
        # alive as long as any array that looks at the pool through it
        owner: Any = (ctypes.c_uint8 * memory.size).from_buffer(memory)
        held = weakref.ref(owner)
        return view_array(view, {view.pool: owner}), lambda: held() is not None

    def shrink(self, pool: str, size: int) -> None:
        """See `Storage.shrink`. The system gets back whole pages."""
        pages, start = self.ranges.get(pool), -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        if pages is not None and size < self._used.get(pool, len(pages)) and start < len(pages):
            pages.madvise(mmap.MADV_DONTNEED, start, len(pages) - start)
        self._used[pool] = size


def allocate_pools(pools: Mapping[str, int], *, shrinks: bool = False) -> HostMemory:
    """Uninitialised pools that start at lines of cache. shrinks: see `Backend.allocate`."""
    found = HostMemory()
    for name, size in pools.items():
        if shrinks and hasattr(mmap, "MADV_DONTNEED"):
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            found.ranges[name] = mmap.mmap(-1, max(1, size), flags=flags)
            found[name] = np.frombuffer(found.ranges[name], np.uint8)
            continue
        found[name] = allocate_aligned(size)
    return found
