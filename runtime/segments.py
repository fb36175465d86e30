"""How are segments of a program executed again and again? In one call, or in blocks, each a sequence of calls that is kept."""

from __future__ import annotations

from collections.abc import Iterator

from csdfgen.lowering.segments import Segments
from runtime.bound import BoundProgram, Runs

JOINED = 64
"""Segments at most that are one sequence of calls."""


class Runner:
    """Segments of a program in memory. origin: the segment at which those begin that run together most often."""

    def __init__(self, bound: BoundProgram, segments: Segments, origin: int = 0) -> None:
        self.bound, self.segments, self._origin = bound, segments, origin
        self._sliced = bound.sliced()
        self._known: dict[tuple[int, int], Runs] = {}

    def run(self, start: int, stop: int, done: int = 0) -> None:
        """Execute segments [start, stop) on the open arrays, but for the first firings of the first of them."""
        starts = self.segments.starts
        if self._sliced is not None:
            self._sliced(starts[start] + done, starts[stop])
            return
        if done:
            _call(self.bound.between(starts[start] + done, starts[start + 1]))
            start += 1
        for block in _blocks(start, stop, self._origin):
            _call(self._known.get(block) or self._prepared(block))
        self.bound.wait()

    def _prepared(self, block: tuple[int, int]) -> Runs:
        """The calls of a block, kept for the next turn."""
        first, last = (self.segments.starts[number] for number in block)
        found = self._known[block] = self.bound.between(first, last)
        return found


def _call(runs: Runs) -> None:
    for run in runs:
        run()


def _blocks(start: int, stop: int, origin: int = 0) -> Iterator[tuple[int, int]]:
    """A range in as few blocks as begin at multiples of their size behind the origin, a power of two up to `JOINED`.

    >>> list(_blocks(3, 9)), list(_blocks(0, 200)), list(_blocks(3, 67, 3))
    ([(3, 4), (4, 8), (8, 9)], [(0, 64), (64, 128), (128, 192), (192, 200)], [(3, 67)])
    """
    while start < stop:
        place = start - origin
        size = place & -place or JOINED
        size = min(size, JOINED, 1 << (stop - start).bit_length() - 1)
        yield start, start + size
        start += size
