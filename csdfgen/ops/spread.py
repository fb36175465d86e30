"""Slabs whose rows are no single array: they are stored in runs, separate runs for each piece along the
channels.

Each row has its own offset, so that the rows of a window are seldom evenly spaced, and the operands of a
Concat may stay where they were made. A kernel that takes such a slab (`Operator.takes`) copies what it
reads of it into a small panel, or works run by run; for others the slab is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.model.network import Shape
from csdfgen.ops.base import Call

NEAR = 64
"""Bytes that may be between two rows of an array: what aligning them leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Channels [low, high) of all rows: an array for each run of them.

    runs: half-open, one after the other, together all rows.
    """

    low: int
    high: int
    runs: tuple[tuple[int, int], ...]
    arrays: tuple[np.ndarray, ...]

    def at(self, first: int, count: int, step: int = 1) -> np.ndarray | None:
        """`count` rows, `step` apart; None if they are not in one run."""
        last = first + (count - 1) * step
        for (start, stop), array in zip(self.runs, self.arrays, strict=True):
            if start <= first and last < stop:
                return array[first - start : last - start + 1 : step]
        return None

    def narrowed(self, change: Callable[[np.ndarray], np.ndarray]) -> Piece:
        """The piece with another view of every array, of the same rows and channels."""
        return replace(self, arrays=tuple(change(array) for array in self.arrays))


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A slab of shape (rows, ..., channels) in pieces along its channels."""

    shape: Shape
    dtype: np.dtype[Any]
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, slab: Any) -> Spread:
        """A slab as kernels are handed it: an array is one piece in one run."""
        if isinstance(slab, cls):
            return slab
        piece = Piece(0, slab.shape[-1], ((0, len(slab)),), (slab,))
        return cls(slab.shape, slab.dtype, (piece,))

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def at(self, first: int, count: int) -> np.ndarray | None:
        """Rows [first, first + count) as one array; None if they are none."""
        return self.pieces[0].at(first, count) if len(self.pieces) == 1 else None

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Spread:
        """The slab with another view of every array: rows and channels stay where they are."""
        pieces = tuple(piece.narrowed(change) for piece in self.pieces)
        sample = pieces[0].arrays[0]
        return Spread((self.shape[0], *sample.shape[1:-1], self.shape[-1]), self.dtype, pieces)

    def between(self, start: int, stop: int) -> Spread:
        """Channels [start, stop) of the slab."""
        pieces = []
        for piece in self.pieces:
            low, high = max(piece.low, start), min(piece.high, stop)
            if low < high:
                own = slice(low - piece.low, high - piece.low)
                arrays = tuple(array[..., own] for array in piece.arrays)
                pieces.append(Piece(low - start, high - start, piece.runs, arrays))
        return Spread((*self.shape[:-1], stop - start), self.dtype, tuple(pieces))

    def copies(self, target: np.ndarray) -> Iterator[Call]:
        """Calls that copy all rows into an array."""
        return ((np.copyto, pair) for pair in self.parts(target))

    def parts(self, target: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Parts of an array of the slab's shape, each with the array of the rows that are stored there."""
        for piece in self.pieces:
            for (start, stop), array in zip(piece.runs, piece.arrays, strict=True):
                yield target[start:stop, ..., piece.low : piece.high], array


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Slabs of several images, alike in shape and type: of shape (images, rows, ..., channels)."""

    images: tuple[Spread, ...]

    @classmethod
    def of(cls, images: Sequence[Spread]) -> Spread | Stack:
        """Images as kernels are handed them: those that are evenly spaced arrays are one array."""
        found = cls(tuple(images))
        whole = found.at(0, len(images))
        return found if whole is None else Spread.of(whole)

    @property
    def shape(self) -> Shape:
        return (len(self.images), *self.images[0].shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.images[0].dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def at(self, first: int, count: int) -> np.ndarray | None:
        """Images [first, first + count) as one array; None if they are none. Far from each other they
        make none, even if they are evenly spaced by chance (as rows do, `View.runs`).
        """
        arrays = [one.at(0, one.shape[0]) for one in self.images[first : first + count]]
        base = arrays[0]
        if base is None or any(a is None or a.strides != base.strides for a in arrays):
            return None
        starts = [a.__array_interface__["data"][0] for a in arrays if a is not None]
        steps = {later - former for former, later in pairwise(starts)}
        if len(steps) > 1:
            return None
        step = steps.pop() if steps else base.nbytes
        least = max(size * by for size, by in zip(base.shape, base.strides, strict=True))
        if not least <= step <= least + NEAR and count > 1:
            return None
        return as_strided(base, (count, *base.shape), (step, *base.strides))

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Stack:
        """The slabs with another view of every array, see `Spread.each`."""
        return Stack(tuple(image.each(change) for image in self.images))

    def between(self, start: int, stop: int) -> Stack:
        """Channels [start, stop) of the slabs."""
        return Stack(tuple(image.between(start, stop) for image in self.images))


def edges(pieces: Sequence[Sequence[Piece]], size: int) -> list[tuple[int, int]]:
    """Ranges of [0, size) in which none of several slabs goes from one piece to the next."""
    cuts = {0, size, *(piece.low for slab in pieces for piece in slab)}
    return list(pairwise(sorted(cuts)))
