"""How are windows multiplied by weights? By matrix products over panels.

Windows are copied into a panel (im2col), directly from rows at any addresses, and multiplied by the
weight matrix; windows of one tap are multiplied in place. Jobs are cut into boxes of output pixels, and
the rows and columns of the weight matrix into groups, at the least cost for which the workspace
suffices. Layers whose channels stay apart are computed by `_depthwise_products`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import inf, prod
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.model.network import Shape
from csdfgen.ops._im2col import Job, Ranges, Store, balance_ranges, boxes, fill, split
from csdfgen.ops.base import PREFERRED, Call, Scratch, align_size
from csdfgen.ops.spread import Stack

DIRECT = 16
"""Pixels of a row that are worth a separate product where neighbouring rows are not contiguous."""

FEWEST, LEAST = (8, 64, 32), (1, 16, 8)
"""Least pixels, rows and columns of the weights in a product (less, where there are none): below,
calls cost far more than products. And the very least, where rows are so small that it counts.
"""

CALL, PACKED, MULTIPLIED = 3000, 1.5, 0.08
"""What a call costs, an element of the weights in every product (which packs them again), and a
multiply-accumulate: in elements copied.
"""

FINISHING = 5
"""Calls, over all elements, that turn sums of integers into an output."""

SLOWEST = 1.25
"""No plan asks for so little workspace that a layer costs more than so many times its least."""


class _Cut(Protocol):
    """How a job is cut, and how many elements that takes of each array."""

    @property
    def arrays(self) -> tuple[int, ...]: ...


_Chosen = TypeVar("_Chosen", bound=_Cut)


# Matrix products ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """A job as far as its workspace depends on it.

    counts: of pixels; depth: of a group's window: taps, then channels. columns: of a group. copied:
    whether windows go through a panel. apart: whether results do; parted: those of some groups;
    rounded: in another type; finished: by calls that make another output of them. deepest: see `Job`.
    """

    counts: Shape
    depth: Shape
    groups: int
    columns: int
    itemsize: int
    copied: bool
    apart: bool
    parted: bool
    rounded: bool
    finished: bool
    deepest: int


@dataclass(frozen=True, slots=True)
class _Blocks:
    """How a job is cut: most groups and pixels in a box, rows of the weights at a time, columns of a
    result apart; and the elements that this takes of three arrays: panel, sums and totals.
    """

    groups: int
    pixels: int
    depth: int
    columns: int
    arrays: tuple[int, int, int]


def halve_repeatedly(size: int, least: int, last: int | None = None) -> list[int]:
    """The size, and what is left of it in ever more equal parts, down to about `least`; by halves on
    to `last`.

    >>> halve_repeatedly(40, 8, 2)
    [40, 20, 14, 10, 8, 4, 2]
    """
    found = [size]
    parts = 2
    while found[-1] > least:
        found.append(max(least, -(-size // parts)))
        parts += 1 if parts < 8 else parts // 4
    while last is not None and found[-1] > last:
        found.append(max(last, -(-found[-1] // 2)))
    return found


def _tiling(extents: Shape, limit: int) -> tuple[int, int]:
    """How many `boxes` there are, and points of the first, which is the largest."""
    number = points = 1
    for extent in reversed(extents):
        length = balance_ranges(extent, limit)[0][1]
        number, points = number * -(-extent // length), points * length
        limit //= length
    return number, points


@lru_cache(maxsize=1 << 12)
def _ways(shape: _Shape) -> tuple[tuple[float, int, _Blocks], ...]:
    """(cost, bytes, blocks), cheapest first, of the variants of cutting a job."""
    everything, deep = prod(shape.counts), prod(shape.depth)
    heights = {_tiling(shape.counts, n) for n in halve_repeatedly(everything, FEWEST[0], LEAST[0])}
    depths = {(1, deep)}
    if shape.copied:
        most = min(deep, shape.deepest or deep)
        depths = {_tiling(shape.depth, n) for n in halve_repeatedly(most, FEWEST[1], LEAST[1])}
    widths = [shape.columns]
    while shape.groups == 1 and widths[-1] >= 2 * LEAST[2]:
        widths.append(-(-widths[-1] // 2))
    found = {}
    for groups, (tall, pixels), (parts, depth) in product(
        halve_repeatedly(shape.groups, 1), heights, depths
    ):
        cuts = -(-shape.groups // groups)
        wide = shape.deepest > 0
        sums = (shape.apart if cuts == 1 else shape.parted) or parts > 1 or wide
        held = sums and (wide or not (shape.rounded and parts == 1))
        for columns in widths if sums else widths[:1]:
            one = _Blocks(
                groups,
                pixels,
                depth,
                columns,
                (
                    groups * pixels * depth if shape.copied else 0,
                    groups * pixels * columns * (3 if wide else 1) if held else 0,
                    groups * pixels * shape.columns * (2 if wide else 1) if shape.rounded else 0,
                ),
            )
            copies = 6 if shape.copied else 0
            each = -(-shape.columns // columns) * (2 if sums else 1)
            passes = parts * everything * shape.columns if sums else 0
            cost = cuts * tall * parts * (copies + each) * CALL + shape.groups * (
                everything * deep * shape.columns * MULTIPLIED
                + tall * deep * shape.columns * PACKED
                + 2 * passes
            )
            if shape.finished:
                cost += cuts * tall * FINISHING * CALL
                cost += FINISHING * everything * shape.columns * shape.groups
            found[one] = (cost, sum_bytes(one.arrays, shape.itemsize), one)
    return tuple(sorted(found.values(), key=lambda way: way[:2]))


def sum_bytes(arrays: Iterable[int], itemsize: int) -> int:
    """What arrays of so many elements take one after the other."""
    end = 0
    for size in arrays:
        if size:
            end = align_size(end) + size * itemsize
    return end


def choose_cheapest(
    ways: Sequence[tuple[float, int, _Chosen]],
    scratch: Scratch,
    room: int,
    bound: float = inf,
    slowest: float = SLOWEST,
) -> _Chosen:
    """Of the variants (cost, bytes, blocks), cheapest first, the first one that fits into so many bytes,
    or the smallest where none does. While a plan is made, and unless it asks for the least: of those that
    cost no more than the bound, and `slowest` times what the cheapest in `PREFERRED` bytes costs.
    """
    near = next((cost for cost, size, _ in ways if size <= PREFERRED), ways[0][0])
    bound = min(bound, slowest * near) if scratch.bounded else inf
    allowed = [way for way in ways if way[0] <= bound]
    fitting = (blocks for _, size, blocks in allowed if size <= room)
    return next(fitting, None) or min(allowed, key=lambda way: way[1])[2]


def share_blocks(
    jobs: Sequence[Job], choose: Callable[[Job, int], _Chosen], itemsize: int, scratch: Scratch
) -> list[tuple[Job, _Chosen]]:
    """Blocks for jobs that share their arrays: each array is as large as the largest that a job needs.
    Where that is more than there is, jobs are given less until it fits. choose: the blocks of a job
    in so many bytes.
    """
    room = scratch.room
    while True:
        found = [choose(job, max(room, scratch.little(job.touched))) for job in jobs]
        largest = map(max, zip(*(one.arrays for one in found), strict=True))
        over = sum_bytes(largest, itemsize) - scratch.room
        if scratch.asks or over <= 0 or room == 0:
            return list(zip(jobs, found, strict=True))
        room = max(0, room - over)


def _shape(job: Job) -> _Shape:
    """What the workspace of a job depends on; it suffices for rows at any addresses."""
    groups = len(job.weights)
    width = job.channels // groups
    return _Shape(
        job.counts,
        (*job.taps, width),
        groups,
        job.weights.shape[-1],
        job.weights.itemsize,
        job.left is None,
        job.add or job.target is None,
        job.add or job.target is None or job.bias is not None,
        job.out.dtype != job.weights.dtype or job.deepest > 0,
        job.into is not None,
        job.deepest,
    )


def filter_jobs(jobs: Iterable[Job], calls: list[Call]) -> list[Job]:
    """The jobs whose windows reach the image; calls for the others are added."""
    found: list[Job] = []
    for job in jobs:
        if prod(job.taps):
            found.append(job)
        elif not job.add:  # rows between the strides of a transposed convolution, or cropped away
            filled = (job.out.fill, (0,)) if job.bias is None else (np.copyto, (job.out, job.bias))
            calls.append(filled)
    return found


def matrix_products(jobs: Iterable[Job], scratch: Scratch) -> list[Call]:
    """Calls for dense and grouped windows. Weights: (groups, taps..., C / groups, out / groups)."""
    calls: list[Call] = []
    direct = [part for job in filter_jobs(jobs, calls) for part in _direct(job, scratch)]
    if not direct:
        return calls
    dtype = direct[0].weights.dtype
    chosen = share_blocks(
        direct,
        lambda job, room: choose_cheapest(_ways(_shape(job)), scratch, room),
        dtype.itemsize,
        scratch,
    )
    parts = [
        (part, blocks)
        for job, blocks in chosen
        for box in split(job, blocks.pixels)
        for part in split_groups(box, len(box.weights), blocks.groups)
    ]
    panel, sums, totals = make_stores(scratch, (blocks for _, blocks in parts), dtype)
    if scratch.declares:
        return []
    for part, blocks in parts:
        calls += _matrix_part(part, blocks, panel, sums, totals)
    return calls


def make_stores(scratch: Scratch, blocks: Iterable[Any], dtype: np.dtype[Any]) -> Iterator[Store]:
    """The arrays that all parts of jobs use in turn."""
    arrays = zip(*(one.arrays for one in blocks), strict=True)
    return (Store(scratch, sizes, dtype) for sizes in arrays)


def _direct(job: Job, scratch: Scratch) -> list[Job]:
    """The job in parts whose windows need no copy, where rows are long enough for products of their
    own; else the job itself.
    """
    if prod(job.taps) != 1 or job.left is not None or prod(job.counts[1:]) < DIRECT:
        return [job]
    if isinstance(job.image, Stack):
        return _direct_images(job, scratch)
    (piece, *others), rows = job.image.pieces, job.axes[0]
    if others:
        return [job]
    cuts = [0]
    for _, stop in piece.runs:
        at = min(rows.count, max(0, -(-(stop - rows.first) // rows.stride)))
        if at > cuts[-1]:
            cuts.append(at)
    whole = [(0, axis.count) for axis in job.axes[1:]]
    found = [job.box([one, *whole]) for one in pairwise(cuts)]
    if cuts[-1] < rows.count or any(part.under is None for part in found):
        return [job]
    if any(part.left is None for part in found):
        found = [job.box([(at, at + 1), *whole]) for at in range(rows.count)]
    return found if all(part.left is not None for part in found) else [job]


def _direct_images(job: Job, scratch: Scratch) -> list[Job]:
    """The job image by image if each is a matrix in place, and separate products cost less than copies of
    all images side by side, as many as the workspace holds.
    """
    whole = [(0, axis.count) for axis in job.axes[1:]]
    found = [job.box([(at, at + 1), *whole]) for at in range(job.axes[0].count)]
    if any(one.left is None for one in found):
        return [job]
    apart = sum(_least_cost(_shape(one), scratch) for one in found)
    return found if apart <= _least_cost(_shape(job), scratch) else [job]


def _least_cost(shape: _Shape, scratch: Scratch) -> float:
    """Of the variants of cutting a job that fit into the workspace."""
    return next((cost for cost, size, _ in _ways(shape) if size <= scratch.room), inf)


def split_groups(job: Job, groups: int, most: int) -> list[Job]:
    """The job in ranges of at most so many of its groups."""
    if groups <= most:
        return [job]
    return [job.between(start, stop) for start, stop in balance_ranges(groups, most)]


def _points(box: Ranges) -> int:
    return prod(stop - start for start, stop in box)


def _matrix_part(job: Job, blocks: _Blocks, panel: Store, sums: Store, totals: Store) -> list[Call]:
    """One box: for every group of rows of the weights its windows, and their products for every
    group of columns, summed in the output.
    """
    if blocks.arrays[2] and job.deepest:
        return _matrix_part_in_float64(job, blocks, panel, sums, totals)
    groups, total = len(job.weights), job.target
    if blocks.arrays[2]:
        total = totals.view((job.pixels, groups * job.weights.shape[-1]))
    overwrites = not job.add or blocks.arrays[2] > 0
    calls: list[Call] = []
    for prepare, first, left, right, part, width in _factors(job, blocks, panel):
        calls += prepare
        begins = first and overwrites
        if begins and total is not None:
            calls.append((np.matmul, (left, right, _by_group(total[:, part], groups))))
            continue
        result = sums.view((job.pixels, width))
        calls.append((np.matmul, (left, right, _by_group(result, groups))))
        if total is not None:
            calls.append((np.add, (total[:, part], result, total[:, part])))
            continue
        out = job.out[..., part]
        result = result.reshape(out.shape)
        if not begins:
            calls.append((np.add, (out, result, out)))
            continue
        if job.bias is not None:
            calls.append((np.add, (result, job.bias[part], result)))
        calls.append((np.copyto, (out, result)))
    if blocks.arrays[2]:
        assert total is not None
        return calls + hand_over(job, total.reshape(job.out.shape))
    if job.bias is not None and total is not None:
        calls.append((np.add, (total, job.bias, total)))
    return calls


def _matrix_part_in_float64(
    job: Job, blocks: _Blocks, panel: Store, sums: Store, totals: Store
) -> list[Call]:
    """The same where whole sums would not be exact: those of some rows are added in float64."""
    groups = len(job.weights)
    total = totals.view((job.pixels, 2 * groups * job.weights.shape[-1])).view(np.float64)
    calls: list[Call] = []
    for prepare, first, left, right, part, width in _factors(job, blocks, panel):
        calls += prepare
        size = job.pixels * width
        both = sums.view((3 * size,))
        wide = both[: 2 * size].view(np.float64).reshape(job.pixels, -1)
        result = both[2 * size :].reshape(job.pixels, -1)
        calls.append((np.matmul, (left, right, _by_group(result, groups))))
        if first:
            calls.append((np.copyto, (total[:, part], result)))
            continue
        calls.append((np.copyto, (wide, result)))
        calls.append((np.add, (total[:, part], wide, total[:, part])))
    return calls + hand_over(job, total.reshape(job.out.shape))


def hand_over(job: Job, total: np.ndarray) -> list[Call]:
    """The result goes from the workspace to the output: sum, bias and rounding on the way."""
    if job.add:
        return [(np.add, (job.out, total, job.out))]
    biased = [] if job.bias is None else [(np.add, (total, job.bias, total))]
    if job.into is not None:
        return [*biased, *job.into.calls(total, job.out)]
    return [*biased, (np.copyto, (job.out, total))]


def _factors(
    job: Job, blocks: _Blocks, panel: Store
) -> Iterator[tuple[list[Call], bool, np.ndarray, np.ndarray, slice, int]]:
    """For every group of rows of the weights and every group of columns: the calls that come before,
    whether the rows are the first, both matrices, and which columns of a result they make, how many.
    """
    groups, columns = len(job.weights), job.weights.shape[-1]
    weights = job.weights.reshape(groups, -1, columns)
    first = True
    for prepare, left, rows in _windows(job, blocks, panel):
        for a, b in balance_ranges(columns, blocks.columns):
            right = weights[:, rows, a:b] if groups > 1 else weights[0, rows, a:b]
            part = slice(a, b) if groups == 1 else slice(None)
            yield prepare, first, left, right, part, groups * (b - a)
            prepare = []
        first = False


def _windows(
    job: Job, blocks: _Blocks, panel: Store
) -> Iterator[tuple[list[Call], np.ndarray, slice]]:
    """By group of rows of the weights: the calls that fill the left matrix, that matrix, the rows."""
    groups = len(job.weights)
    width = job.channels // groups
    n = len(job.axes)
    if job.left is not None and not blocks.arrays[0]:
        yield [], _by_group(job.left, groups), slice(None)
        return
    row = 0
    for box in boxes((*job.taps, width), blocks.depth):
        *taps, channels = (stop - start for start, stop in box)
        axes = [axis.through(*r) for r, axis in zip(box, job.axes, strict=False)]
        view = panel.view((groups, *job.counts, *taps, channels))
        depth = prod(taps) * channels
        calls: list[Call] = []
        for group in range(groups):
            start = group * width + box[n][0]
            calls += fill(axes, job.image, view[group], (start, start + channels), job.beside)
        shape = (groups, job.pixels, depth) if groups > 1 else (job.pixels, depth)
        yield calls, view.reshape(shape), slice(row, row + depth)
        row += depth


def _by_group(matrix: np.ndarray, groups: int) -> np.ndarray:
    """(pixels, C) as (groups, pixels, C / groups), a view; one group stays a plain matrix."""
    return matrix if groups == 1 else _split_channels(matrix, groups).transpose(1, 0, 2)


def _split_channels(array: np.ndarray, groups: int) -> np.ndarray:
    """(..., C) as (..., groups, C / groups), a view."""
    width, step = array.shape[-1] // groups, array.strides[-1]
    return as_strided(
        array, (*array.shape[:-1], groups, width), (*array.strides[:-1], width * step, step)
    )
