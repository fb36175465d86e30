"""How are elements moved without allocating? Copies between strided arrays, as prepared calls.

numpy splits a dimension of any strided array without a copy, but merges two only if they have one
common stride, and `np.take` copies its operands unless they are contiguous. The functions of this
module avoid what would allocate at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from csdfgen.model.network import Shape
from csdfgen.model.rows import Rows
from csdfgen.ops.base import Call, Scratch

OUTSIDE = -1
"""Marks an output position that reads no input position."""

MANY = 8
"""Strided copies that cost about as much as one `np.take` through scratch."""

SHORT = 4
"""Elements up to which numpy's loop over a dimension costs 3 to 5 times their copy (measured)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A regular run of `count` indices: first, first + step, ..., each `repeat` times, from `at` on."""

    at: int
    first: int
    step: int = 1
    count: int = 1
    repeat: int = 1

    @property
    def target(self) -> slice:
        """Positions that it fills."""
        return slice(self.at, self.at + self.count * self.repeat)

    @property
    def source(self) -> slice:
        """Positions that it reads, each once."""
        stop = self.first + self.step * self.count
        return slice(self.first, stop if stop >= 0 else None, self.step)


def segments(indices: Sequence[int] | np.ndarray) -> tuple[Segment, ...]:
    """Indices cut into regular runs, greedily; `OUTSIDE` stands alone.

    >>> segments([0, 1, 1, 2, 2, 3])  # doctest: +NORMALIZE_WHITESPACE
    (Segment(at=0, first=0, step=1, count=1, repeat=1),
     Segment(at=1, first=1, step=1, count=2, repeat=2),
     Segment(at=5, first=3, step=1, count=1, repeat=1))
    """
    values = np.asarray(indices, np.int64)
    if not len(values):
        return ()
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
    repeats, own = np.diff(starts, append=len(values)), values[starts]
    joins = np.diff(repeats) == 0
    joins &= (own[1:] != OUTSIDE) & (own[:-1] != OUTSIDE)
    apart = np.diff(own)
    return tuple(
        Segment(
            int(starts[a]), int(own[a]), int(apart[a]) if b - a > 1 else 1, b - a, int(repeats[a])
        )
        for a, b in stretches(apart, joins)
    )


def stretches(apart: np.ndarray, joins: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of positions that are evenly apart, cut greedily. apart: from each position to the next; joins: whether both may be
    in one range.

    >>> stretches(np.array([1, 1, 5, 5]), np.array([True, True, False, True]))
    [(0, 3), (3, 5)]
    """
    if not len(joins):
        return [(0, 1)]
    # the last steps that are as the one before
    turns = np.flatnonzero((np.diff(apart) != 0) | (joins[1:] != joins[:-1])).tolist()
    turns.append(len(apart) - 1)
    found = []
    start = turn = 0
    while start <= len(apart):
        while turns[turn] < min(start, len(apart) - 1):
            turn += 1
        even = start < len(apart) and joins[start]
        stop = turns[turn] + 2 if even else start + 1
        found.append((start, stop))
        start = stop
    return found


def cut(array: np.ndarray, axis: int, part: slice) -> np.ndarray:
    """A part of one axis of an array, all of the others."""
    return array[(slice(None),) * axis + (part,)]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Positions to read along an axis, also as regular runs; found once, for every phase."""

    indices: np.ndarray
    runs: tuple[Segment, ...]

    @classmethod
    def of(cls, indices: np.ndarray) -> Selection:
        """From a 1-D array of integers."""
        return cls(np.ascontiguousarray(indices, np.intp), segments(indices.tolist()))


def copy_segments(
    target: np.ndarray, source: np.ndarray, chosen: Iterable[tuple[int, Segment]]
) -> Call:
    """One copy: along each axis of `chosen` a segment's target positions from its source positions."""
    for axis, segment in sorted(chosen, key=lambda pair: -pair[0]):
        target = cut(target, axis, segment.target)
        source = cut(source, axis, segment.source)
        if segment.repeat > 1:
            shape = target.shape
            target = target.reshape(
                *shape[:axis], segment.count, segment.repeat, *shape[axis + 1 :]
            )
            source = np.expand_dims(source, axis + 1)
    return np.copyto, (target, source)


def make_contiguous(array: np.ndarray, scratch: Scratch, calls: list[Call]) -> np.ndarray:
    """The array itself if it is contiguous, else a copy in the workspace."""
    if array.flags.c_contiguous:
        return array
    copy = scratch.take(array.shape, array.dtype)
    calls.append((np.copyto, (copy, array)))
    return copy


def take(
    source: np.ndarray,
    indices: np.ndarray,
    axis: int,
    scratch: Scratch,
    calls: list[Call],
    target: np.ndarray | None = None,
) -> np.ndarray:
    """Elements at `indices` along an axis, contiguous: in `target` if that is, else in scratch."""
    source = make_contiguous(source, scratch, calls)
    if target is None or not target.flags.c_contiguous:
        shape = (*source.shape[:axis], len(indices), *source.shape[axis + 1 :])
        target = scratch.take(shape, source.dtype)
    # mode "clip" writes straight into `target`; "raise" would go through a buffer of its own
    calls.append((np.take, (source, indices, axis, target, "clip")))
    return target


def gather(
    target: np.ndarray, source: np.ndarray, chosen: Selection, axis: int, scratch: Scratch
) -> list[Call]:
    """Calls that write source[..., indices, ...]: strided copies while they are few, else `np.take`."""
    if len(chosen.runs) <= MANY:
        return [copy_segments(target, source, [(axis, run)]) for run in chosen.runs]
    calls: list[Call] = []
    taken = take(source, chosen.indices, axis, scratch, calls, target)
    if taken is not target:
        calls.append((np.copyto, (target, taken)))
    return calls


def strided_copy(target: np.ndarray, source: np.ndarray) -> list[Call]:
    """Calls that copy between arrays of equal shape, one for each position of an inner dimension
    that is very short.

    numpy loops over the innermost dimension of the target; a channel shuffle makes that the two or
    three groups.
    """
    axis = next((a for a in reversed(range(target.ndim)) if target.shape[a] > 1), None)
    if axis is None or target.shape[axis] > SHORT or source.strides[axis] == source.itemsize:
        return [(np.copyto, (target, source))]
    parts = (slice(k, k + 1) for k in range(target.shape[axis]))
    return [(np.copyto, (cut(target, axis, part), cut(source, axis, part))) for part in parts]


def reshaped_view(array: np.ndarray, shape: Shape) -> np.ndarray | None:
    """The array with another shape, None if that needs a copy."""
    view = array.reshape(shape)
    return view if np.may_share_memory(view, array) else None


def reshaped_copy(target: np.ndarray, source: np.ndarray, scratch: Scratch) -> list[Call]:
    """Calls that write `source`, read in its own order, to `target`, filled in its own order."""
    view = reshaped_view(target, source.shape)
    if view is not None:
        return [(np.copyto, (view, source))]
    view = reshaped_view(source, target.shape)
    if view is not None:
        return [(np.copyto, (target, view))]
    copy = scratch.take(source.shape, source.dtype)
    return [(np.copyto, (copy, source)), (np.copyto, (target, copy.reshape(target.shape)))]


@dataclass(frozen=True, slots=True)
class RowTable:
    """A row rule as a table: output rows [a, b) need input rows [starts[a], stops[b - 1])."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]

    @classmethod
    def of(cls, first: Sequence[int], last: Sequence[int], height: int) -> RowTable:
        """From the first and the last input row that each output row reads; `OUTSIDE` where it
        reads none.

        Ranges must never move back, so a row's range begins where any later row begins and ends
        where any earlier row has ended. That costs no memory: rows which a later phase reads are
        held anyway.

        >>> RowTable.of([1, 0, 1], [1, 0, 1], 2)
        RowTable(starts=(0, 0, 1), stops=(2, 2, 2))
        """
        starts, stops = [], []
        low, high = height, 0
        for row in reversed(first):
            low = low if row == OUTSIDE else min(low, int(row))
            starts.append(low)
        for row in last:
            high = high if row == OUTSIDE else max(high, int(row) + 1)
            stops.append(high)
        return cls(tuple(reversed(starts)), tuple(stops))

    def input_rows(self, out: Rows) -> Rows:
        """Input rows that output rows need; where they need none, empty at the boundary reached."""
        if not out:
            return Rows(0, 0)
        stop = self.stops[out.stop - 1]
        return Rows(min(self.starts[out.start], stop), stop)
