"""How are segments of a program executed again and again? In one call, or in blocks, each a sequence of calls that is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from csdfgen.lowering.segments import Segments
from csdfgen.model.network import Tensor
from runtime.bound import BoundProgram, Runs

JOINED = 64
"""Segments at most that are one sequence of calls."""


class Form:
    """Arrays of an input or output: with any number of rows, or with the shape of what has no axis of rows."""

    def __init__(self, tensor: Tensor, port: int, output: bool) -> None:
        self.name, self.port, self.output, self.row_bytes = (
            tensor.name,
            port,
            output,
            tensor.row_bytes,
        )
        self.dtype, self.shape, axis = np.dtype(tensor.dtype), tensor.shape, tensor.row_axis
        self.axis, axes = axis, [*range(len(self.shape))]
        self._rows = 0 if axis is None else 1  # axes in front of those of a row
        self._order = axes if axis is None else [axis, *axes[:axis], *axes[axis + 1 :]]
        self._back = [self._order.index(one) for one in axes]
        self._row = tuple(self.shape[one] for one in self._order[self._rows :])

    def __str__(self) -> str:
        sizes = ["any" if k == self.axis else str(n) for k, n in enumerate(self.shape)]
        return f"({', '.join(sizes)})"

    def count(self, shape: tuple[int, ...]) -> int:
        """Rows of an array, 1 where there is no axis of rows; -1 if it does not fit."""
        axis, wanted = self.axis, self.shape
        if axis is None or len(shape) != len(wanted):
            return 1 if shape == wanted else -1
        fits = shape[:axis] == wanted[:axis] and shape[axis + 1 :] == wanted[axis + 1 :]
        return shape[axis] if fits else -1

    def new(self, rows: int) -> np.ndarray:
        """An array for so many rows; its base has them one behind the other."""
        return np.empty((rows,) * self._rows + self._row, self.dtype).transpose(self._back)

    def pack(self, rows: np.ndarray) -> bytes:
        """The bytes of an array, row by row."""
        if rows.dtype != self.dtype:
            rows = rows.astype(self.dtype)
        return rows.transpose(self._order).tobytes()

    def unpack(self, data: bytearray | np.ndarray) -> np.ndarray:
        """The array of these bytes, in place."""
        rows = np.frombuffer(data, self.dtype).reshape((-1,) * self._rows + self._row)
        return rows.transpose(self._back)


class Runner:
    """Segments of a program in memory. origin: the segment at which those begin that run together most often."""

    def __init__(
        self, bound: BoundProgram, segments: Segments, ends: Iterable[Form], origin: int = 0
    ) -> None:
        self.bound, self.segments, self._origin = bound, segments, origin
        self.sliced = bound.sliced()
        self._known: dict[tuple[int, int], Runs] = {}
        if self.sliced is not None:  # of arrays that are alike but for their places
            for one in ends:
                bound.open(one.name, 0, one.output, one.new(1))
            bound.close()

    def run(
        self, ends: Iterable[tuple[Form, Any, int]], start: int, stop: int, done: int = 0
    ) -> None:
        """Execute segments [start, stop), but for the first firings of the first of them. ends: inputs and outputs, with rows one
        behind the other in memory, and the number of the first.
        """
        starts = self.segments.starts
        if self.sliced is not None:
            places = [(one.port, data, first * one.row_bytes) for one, data, first in ends]
            self.sliced(starts[start] + done, starts[stop], places)
            return
        for one, data, first in ends:
            self.bound.open(one.name, 0, one.output, one.unpack(data), first)
        if done:
            _call(self.bound.between(starts[start] + done, starts[start + 1]))
            start += 1
        for block in _blocks(start, stop, self._origin):
            _call(self._known.get(block) or self._prepared(block))
        self.bound.wait()
        self.bound.close()

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
