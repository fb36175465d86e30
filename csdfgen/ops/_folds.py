"""How are windows folded into one value each? Along one axis after the other, in k + k steps instead of
k*k.

An axis that one window covers is folded by one call; any other by as many calls as a window has taps,
with separate ones over padding. Rows may have any addresses, and be of one image or of several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from csdfgen.model.rows import Rows, Window
from csdfgen.ops._im2col import balance_ranges
from csdfgen.ops.base import Call, Scratch, align_size
from csdfgen.ops.primitives import maximum
from csdfgen.ops.reducing import constant, sum_over
from csdfgen.ops.spread import Piece, Spread, Stack
from csdfgen.ops.windows import read_rows, taps

# Folding along one axis ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fold:
    """How values become one, along dimensions or two by two; what a window without values holds."""

    along: Callable[[np.ndarray, Sequence[int], np.ndarray], Call]
    combine: Callable[[np.ndarray, np.ndarray, np.ndarray], Any]
    empty: Callable[[np.dtype[Any]], float]


def _lowest(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).min) if dtype.kind == "f" else int(np.iinfo(dtype).min)


MAXIMUM = Fold(
    lambda array, dims, out: (np.maximum.reduce, (array, tuple(dims), None, out, True)),
    maximum,
    _lowest,
)
SUM = Fold(sum_over, np.add, lambda dtype: 0.0)


@dataclass(frozen=True, slots=True)
class FoldAxis:
    """Positions `out` of a window over `length` values, of which a slab holds `held` along a dim."""

    window: Window
    out: Rows
    held: Rows
    length: int

    @classmethod
    def unfolded(cls, length: int) -> FoldAxis:
        """An axis of which every position is kept."""
        return cls(Window(1), Rows(0, length), Rows(0, length), length)

    @property
    def is_whole(self) -> bool:
        """Whether one position reads just what is held, so that the dimension is folded at once."""
        reads = read_rows(self.window, self.out, self.length)
        return (
            len(self.out) == 1
            and self.window.dilation == 1
            and bool(self.held)
            and reads == self.held
        )


def _runs(flags: Sequence[bool], start: int) -> Iterator[tuple[bool, Rows]]:
    """Maximal runs of equal flags, the first flag being that of position `start`.

    >>> list(_runs([True, False, False], 4))
    [(True, Rows(start=4, stop=5)), (False, Rows(start=5, stop=7))]
    """
    begin = 0
    for i in range(1, len(flags) + 1):
        if i == len(flags) or flags[i] != flags[begin]:
            yield flags[begin], Rows(start + begin, start + i)
            begin = i


@lru_cache(maxsize=4096)
def _steps(window: Window, out: Rows, length: int) -> tuple[tuple[str, tuple[int, ...], Rows], ...]:
    """(step, taps, positions): how positions `out` come from their taps with few calls.

    Steps: "copy" a tap, "join" two taps, "fold" a tap into what is there, "empty" where no tap is
    inside the input. The tap that most positions read goes first, so that padding only shortens the
    runs of the others.

    >>> for step in _steps(Window(3, pad_top=1, pad_bottom=1), Rows(0, 8), 8): print(step)
    ('join', (1, 0), Rows(start=1, stop=8))
    ('copy', (1,), Rows(start=0, stop=1))
    ('fold', (2,), Rows(start=0, stop=7))
    """
    steps: list[tuple[str, tuple[int, ...], Rows]] = []
    written: set[int] = set()
    for tap, positions in sorted(taps(window, out, length), key=lambda item: -len(item[1])):
        flags = [p in written for p in range(positions.start, positions.stop)]
        steps += [
            ("fold" if done else "copy", (tap,), run) for done, run in _runs(flags, positions.start)
        ]
        written.update(range(positions.start, positions.stop))
    if len(steps) > 1 and steps[1][0] == "fold":
        (_, first, copied), (_, second, both) = steps[:2]
        rests = (Rows(copied.start, both.start), Rows(both.stop, copied.stop))
        steps[:2] = [
            ("join", (*first, *second), both),
            *(("copy", first, rest) for rest in rests if rest),
        ]
    flags = [p in written for p in range(out.start, out.stop)]
    steps += [("empty", (), run) for done, run in _runs(flags, out.start) if not done]
    return tuple(steps)


def _along(array: np.ndarray, dim: int, start: int, count: int, step: int = 1) -> np.ndarray:
    """View of `count` positions along a dimension, from `start` on, `step` apart."""
    index = (*(slice(None),) * dim, slice(start, start + (count - 1) * step + 1, step))
    return array[index]


Read = Callable[[int, int, int], np.ndarray | None]
"""(first, count, step) -> positions of an axis; None where they are no array, single ones always are.
"""


def _slide(fold: Fold, read: Read, target: np.ndarray, dim: int, axis: FoldAxis) -> Iterator[Call]:
    """Calls that fold what is read along a dimension into `target`, window by window."""
    for step, taps_, run in _steps(axis.window, axis.out, axis.length):
        yield from _slide_run(fold, read, target, dim, axis, step, taps_, run)


def _slide_run(
    fold: Fold,
    read: Read,
    target: np.ndarray,
    dim: int,
    axis: FoldAxis,
    step: str,
    taps_: Sequence[int],
    run: Rows,
) -> Iterator[Call]:
    """One step; in halves where what a tap reads is no array."""
    window = axis.window
    first = run.start * window.stride - window.pad_top - axis.held.start
    values = [read(first + tap * window.dilation, len(run), window.stride) for tap in taps_]
    if any(value is None for value in values):
        half = run.start + len(run) // 2
        for rows in (Rows(run.start, half), Rows(half, run.stop)):
            yield from _slide_run(fold, read, target, dim, axis, step, taps_, rows)
        return
    part = _along(target, dim, run.start - axis.out.start, len(run))
    if step == "join":
        yield fold.combine, (*values, part)
    elif step == "fold":
        yield fold.combine, (part, *values, part)
    elif step == "copy":
        yield np.copyto, (part, *values)
    else:
        yield np.copyto, (part, constant(fold.empty(part.dtype), part.dtype))


def fold_axes(
    fold: Fold, source: np.ndarray, target: np.ndarray, axes: Sequence[FoldAxis], scratch: Scratch
) -> list[Call]:
    """Calls that fold the leading dimensions of `source`, one per axis, into `target`."""
    for dim, axis in enumerate(axes):
        if axis.window.kernel == 1 and not axis.is_whole:
            first = axis.out.start * axis.window.stride - axis.held.start
            source = _along(source, dim, first, len(axis.out), axis.window.stride)
    whole = tuple(dim for dim, axis in enumerate(axes) if axis.is_whole and source.shape[dim] > 1)
    sliding = [dim for dim, axis in enumerate(axes) if axis.window.kernel > 1 and not axis.is_whole]
    calls: list[Call] = []
    if whole:
        shape = tuple(1 if dim in whole else size for dim, size in enumerate(source.shape))
        folded = scratch.take(shape, source.dtype) if sliding else target
        calls.append(fold.along(source, whole, folded))
        source = folded
    for dim in sliding:
        shape = (*source.shape[:dim], len(axes[dim].out), *source.shape[dim + 1 :])
        folded = scratch.take(shape, source.dtype) if dim != sliding[-1] else target
        calls.extend(_slide(fold, partial(_along, source, dim), folded, dim, axes[dim]))
        source = folded
    return calls or [(np.copyto, (target, source))]


def fold_piece(
    fold: Fold, piece: Piece, target: np.ndarray, axes: Sequence[FoldAxis], scratch: Scratch
) -> list[Call]:
    """The same for rows at any addresses: along the rows first, as few columns as room requires."""
    rows, *columns = axes
    whole = piece.at(0, len(rows.held))
    slides = any(axis.window.kernel > 1 for axis in columns)
    if not columns or (whole is not None and not slides):
        if whole is not None:
            return fold_axes(fold, whole, target, axes, scratch)
        return list(_slide(fold, piece.at, target, 0, rows))
    if not slides and all(axis.window.stride == 1 for axis in columns):
        return list(_slide(fold, piece.at, target, 0, rows))
    if rows.window.kernel == 1 and not rows.is_whole:
        return _fold_rows_apart(fold, piece, target, axes, scratch)
    calls: list[Call] = []
    mark, count = scratch.mark, len(columns[0].out)
    behind = prod(piece.arrays[0].shape[2:]) * target.itemsize * len(rows.out)
    slides_on = any(axis.window.kernel > 1 for axis in columns[1:])
    limit = count
    while limit > 1:
        first = _span(columns[0], limit) * behind
        if (align_size(first) + limit * behind if slides_on else first) <= scratch.room:
            break
        limit = balance_ranges(count, limit // 2)[0][1]
    for start, stop in balance_ranges(count, limit):
        column = _columns(columns[0], start, stop)
        held = slice(column.held.start, column.held.stop)
        own = piece.narrowed(lambda array: array[:, held])  # noqa: B023
        part = scratch.take(
            (len(rows.out), len(column.held), *own.arrays[0].shape[2:]), target.dtype
        )
        if whole is not None and rows.is_whole:
            calls.append(fold.along(whole[:, held], (0,), part))
        else:
            calls += _slide(fold, own.at, part, 0, rows)
        lead = FoldAxis.unfolded(len(rows.out))
        rest = [lead, column, *columns[1:]]
        calls += fold_axes(fold, part, target[:, start:stop], rest, scratch)
        scratch.rewind(mark)
    return calls


def _fold_rows_apart(
    fold: Fold, piece: Piece, target: np.ndarray, axes: Sequence[FoldAxis], scratch: Scratch
) -> list[Call]:
    """Windows one row high, as many contiguous rows at a time as there are."""
    rows, *columns = axes
    window = rows.window
    first = rows.out.start * window.stride - rows.held.start
    source = piece.at(first, len(rows.out), window.stride)
    if source is not None:
        lead = FoldAxis.unfolded(len(source))
        mark = scratch.mark
        calls = fold_axes(fold, source, target, [lead, *columns], scratch)
        scratch.rewind(mark)
        return calls
    half = len(rows.out) // 2
    middle = rows.out.start + half
    calls = []
    for out, part in (
        (Rows(rows.out.start, middle), target[:half]),
        (Rows(middle, rows.out.stop), target[half:]),
    ):
        calls += _fold_rows_apart(fold, piece, part, [replace(rows, out=out), *columns], scratch)
    return calls


def fold_images(
    fold: Fold,
    slab: np.ndarray | Spread | Stack,
    target: np.ndarray,
    axes: Sequence[FoldAxis],
    scratch: Scratch,
) -> list[Call]:
    """The same for whole images, in as many calls as for one where they are evenly spaced and the workspace holds
    what is between two axes; else image by image.
    """
    images = len(target)
    whole = None if isinstance(slab, Stack) else Spread.of(slab).at(0, images)
    if not axes[0].held:  # windows that read nothing but padding
        whole = np.empty(slab.shape, target.dtype)
    if whole is not None:
        slides = sum(axis.window.kernel > 1 and not axis.is_whole for axis in axes)
        if slides < 2 or _between_bytes(whole, axes) <= scratch.room:
            lead = FoldAxis.unfolded(images)
            mark = scratch.mark
            calls = fold_axes(fold, whole, target, [lead, *axes], scratch)
            scratch.rewind(mark)
            return calls
    calls = []
    mark = scratch.mark
    if whole is not None:
        each: Sequence[Spread] = [Spread.of(image) for image in whole]
    else:
        assert isinstance(slab, Stack)  # evenly spaced images are one array
        each = slab.images
    for one, result in zip(each, target, strict=True):
        for piece in one.pieces:
            part = result[..., piece.low : piece.high]
            calls += fold_piece(fold, piece, part, axes, scratch)
            scratch.rewind(mark)
    return calls


def _between_bytes(whole: np.ndarray, axes: Sequence[FoldAxis]) -> int:
    """Workspace that `fold_axes` takes for images: what it leaves after each axis but the last."""
    folds = [(dim, axis) for dim, axis in enumerate(axes, 1) if axis.window.kernel > 1]
    folds.sort(key=lambda fold: not fold[1].is_whole)
    size, total = whole.nbytes, 0
    for dim, axis in folds[:-1]:
        size = size // max(1, whole.shape[dim]) * len(axis.out)
        total += align_size(size)
    return total


def _span(axis: FoldAxis, count: int) -> int:
    """Input positions that `count` neighbouring output positions read, at most."""
    window = axis.window
    return min(len(axis.held), (count - 1) * window.stride + window.extent)


def _columns(axis: FoldAxis, start: int, stop: int) -> FoldAxis:
    """Output positions [start, stop) of an axis, and the inputs that they read."""
    window = axis.window
    low = (axis.out.start + start) * window.stride - window.pad_top
    high = (axis.out.start + stop - 1) * window.stride - window.pad_top + window.extent
    held = Rows(min(max(low, 0), axis.length), max(min(high, axis.length), 0))
    if held.stop <= held.start:
        held = Rows(min(held.start, axis.length - 1), min(held.start, axis.length - 1) + 1)
    return replace(axis, out=Rows(axis.out.start + start, axis.out.start + stop), held=held)
