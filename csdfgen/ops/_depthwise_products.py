"""How are windows multiplied by weights where channels stay apart? By one einsum over the windows.

Matrix products would have one column each. Windows are read in place; where they are no array, or slow
to read, their rows are copied first. Jobs are cut into boxes of output pixels and of channels that fit
into the workspace; the rules of `_window_products` limit what that may cost.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.model.network import Shape
from csdfgen.ops._im2col import Axis, Job, Store, balance_ranges, cut_axes, fill, split, windows
from csdfgen.ops._window_products import (
    CALL,
    FINISHING,
    SLOWEST,
    choose_cheapest,
    filter_jobs,
    halve_repeatedly,
    hand_over,
    make_stores,
    share_blocks,
    split_groups,
    sum_bytes,
)
from csdfgen.ops.base import Call, Scratch
from csdfgen.ops.primitives import einsum

TILE_ELEMENTS = 512
"""Depthwise weights are repeated to rows of about this length, since short inner loops are slow;
longer ones gain little.
"""

FEWEST_CHANNELS = 16
"""Least channels of a box: with fewer, calls cost far more than what they compute."""

EINSUM, INNER, COPIES = 18000, 160, 3
"""What a depthwise product costs, and every run of its inner loop, in elements copied; the calls
that a padded copy takes.
"""

GATHER_CHANNELS = 128
"""Channels below which strided depthwise windows are copied apart, to use repeated weights."""


def tile_weights(weights: np.ndarray, width: int) -> np.ndarray:
    """Depthwise weights (taps..., C) repeated for several of `width` output pixels: (taps...,
    pixels * C).

    >>> tile_weights(np.zeros((3, 3, 32), np.float32), 112).shape
    (3, 3, 512)
    """
    rows = -(-width * weights.shape[-1] // TILE_ELEMENTS)
    pixels = -(-width // min(rows, width))
    return np.ascontiguousarray(np.tile(weights, pixels))


@dataclass(frozen=True, slots=True)
class _Apart:
    """A depthwise job as far as its workspace depends on it.

    sizes: of the image that the axes read. lies: whether the rows that are read are one array that
    needs no conversion; dense: whether its pixels are contiguous too. together: pixels that the weights
    are repeated for. held: whether results are made apart, if boxes have all channels, and if not.
    """

    axes: tuple[Axis, ...]
    sizes: Shape
    channels: int
    together: int
    lies: bool
    dense: bool
    held: tuple[bool, bool]
    itemsize: int
    finished: bool

    def blocks(self, pixels: int, channels: int) -> _Depthwise:
        """The job cut into boxes of at most so many pixels and channels: elements, and cost."""
        cuts = cut_axes(tuple(axis.count for axis in self.axes), pixels)
        number, inside = prod(map(len, cuts)), 0
        # the first box is the largest
        first = [axis.part(*ranges[0]) for axis, ranges in zip(self.axes, cuts, strict=True)]
        parts = balance_ranges(self.channels, channels)
        whole, width = len(parts) == 1, parts[0][1]
        if self.lies:  # a box is inside where its range of every axis is
            each = zip(self.axes, self.sizes, cuts, strict=True)
            inside = prod(sum(axis.part(*r).inside(n) for r in ranges) for axis, n, ranges in each)
        outside = number - inside
        beside, under = self._copied(first, whole)
        copied = max(beside if outside else 0, under if inside else 0)
        copies = number if under else outside
        points, taps = prod(a.count for a in first), prod(a.taps for a in first)
        loops = points // first[-1].count * -(-first[-1].count // (self.together if whole else 1))
        cost = number * len(parts) * (EINSUM + loops * taps * INNER)
        cost += copies * (len(parts) * COPIES * CALL + copied * self.channels)
        held = points * width if self.held[not whole] else 0
        if self.finished:
            cost += FINISHING * (number * len(parts) * CALL + number * points * self.channels)
        return _Depthwise(cost, points, width, (copied * width, held))

    def _copied(self, axes: Sequence[Axis], whole: bool) -> tuple[int, int]:
        """Pixels of the copy of a box whose windows read outside what is contiguous, and the others."""
        *_, last = axes
        spans = prod(axis.span for axis in axes)
        apart = prod(axis.taps * axis.count for axis in axes)
        gathers = whole and self.together > 1 and last.count > 1 and self.channels < GATHER_CHANNELS
        gathered = spans // last.span * last.taps * last.count
        under = gathered if gathers and (last.stride > 1 or not self.dense) else 0
        if spans > apart:
            return apart, under
        return gathered if gathers and last.stride > 1 else spans, under


@dataclass(frozen=True, slots=True, order=True)
class _Depthwise:
    """How a depthwise job is cut: at what cost, most pixels and channels in a box, and the elements
    that this takes of two arrays: copies and totals.
    """

    cost: float
    pixels: int
    channels: int
    arrays: tuple[int, int]


@lru_cache(maxsize=1 << 12)
def _depthwise_ways(shape: _Apart) -> tuple[tuple[tuple[float, int, _Depthwise], ...], float]:
    """The ways to cut a depthwise job, cheapest first (see `choose_cheapest`), and a bound of their costs: what
    it costs pixel by pixel, with all channels.
    """
    points = prod(axis.count for axis in shape.axes)
    widths = halve_repeatedly(shape.channels, min(FEWEST_CHANNELS, shape.channels))
    found = {
        shape.blocks(pixels, channels)
        for pixels in halve_repeatedly(points, 1)
        for channels in widths
    }
    ways = ((one.cost, sum_bytes(one.arrays, shape.itemsize), one) for one in sorted(found))
    return tuple(ways), shape.blocks(1, shape.channels).cost


def _depthwise_blocks(job: Job, scratch: Scratch, room: int) -> _Depthwise:
    shape = _apart_shape(job)
    ways, bound = _depthwise_ways(shape)
    return choose_cheapest(ways, scratch, room, bound, SLOWEST if shape.finished else inf)


def _apart_shape(job: Job) -> _Apart:
    """What the workspace of a depthwise job depends on."""
    rows, image = job.axes[0], job.image
    first = max(rows.first, 0)
    count = min(rows.first + rows.span, image.shape[0]) - first
    under = image.at(first, count) if image.dtype == job.weights.dtype and count > 0 else None
    lies = under is not None and (job.channels == 1 or under.strides[-1] == under.itemsize)
    return _Apart(
        job.axes,
        image.shape[:-1],
        job.channels,
        job.weights.shape[-1] // job.channels,
        lies,
        lies and under is not None and _is_dense(under, job.weights.dtype),
        (_held(job, whole=True), _held(job, whole=False)),
        job.weights.itemsize,
        job.into is not None,
    )


def depthwise_products(jobs: Iterable[Job], scratch: Scratch) -> list[Call]:
    """Calls for windows whose channels stay apart. Weights of `tile_weights`: (taps..., pixels * C)."""
    calls: list[Call] = []
    whole = filter_jobs(jobs, calls)
    if not whole:
        return calls
    dtype = whole[0].weights.dtype
    chosen = share_blocks(
        whole, lambda job, room: _depthwise_blocks(job, scratch, room), dtype.itemsize, scratch
    )
    copies, totals = make_stores(scratch, (blocks for _, blocks in chosen), dtype)
    if scratch.declares:
        return []
    for job, blocks in chosen:
        for box in split(job, blocks.pixels):
            for part in split_groups(box, box.channels, blocks.channels):
                calls += _depthwise_part(part, copies, totals, part is box)
    return calls


def _held(job: Job, whole: bool) -> bool:
    """Whether results do not go straight into the output. whole: boxes have all channels: then pixels
    must be contiguous too, for weights that are repeated, and for the bias.
    """
    out = job.out
    if job.add or out.dtype != job.weights.dtype:
        return True
    return not _is_dense(out, out.dtype) if whole else not _channels_lie_together(out)


def _is_dense(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether pixels along the last axis are contiguous, in the dtype that is computed in."""
    pixels, channels = array.shape[-2:]
    return (
        array.dtype == dtype
        and _channels_lie_together(array)
        and (pixels == 1 or array.strides[-2] == channels * array.itemsize)
    )


def _channels_lie_together(array: np.ndarray) -> bool:
    return array.shape[-1] == 1 or array.strides[-1] == array.itemsize


def _gathers(job: Job, copies: Store) -> bool:
    """Whether windows whose neighbours are not contiguous (strides, slabs out of wider rows) are
    copied apart: for weights that are repeated, where there is room.
    """
    if job.copies_taps or job.channels >= GATHER_CHANNELS or job.axes[-1].count == 1:
        return False
    if prod(_gathered_shape(job)) > copies.size or job.weights.shape[-1] == job.channels:
        return False
    return job.axes[-1].stride > 1 or not (
        job.under is None or _is_dense(job.under, job.weights.dtype)
    )


def _gathered_shape(job: Job) -> Shape:
    """One image per tap along the last axis, each of neighbouring output pixels."""
    last = job.axes[-1]
    return (*job.spans[:-1], last.taps, last.count, job.channels)


def _depthwise_windows(job: Job, copies: Store) -> tuple[list[Call], np.ndarray]:
    """The windows (counts..., taps..., C) and the calls that prepare them."""
    n = len(job.axes)
    if job.copies_taps:
        panel = copies.view((*job.taps, *job.counts, job.channels))
        view = panel.transpose(*range(n, 2 * n), *range(n), 2 * n)
        return fill(job.axes, job.image, view, beside=job.beside), view
    plain = [Axis(axis.span, axis.first) for axis in job.axes]
    if not _gathers(job, copies):
        if job.under is not None:
            return [], windows(job.under, job.axes)
        copy = copies.view((*job.spans, job.channels))
        view = copy.reshape((*job.spans, *(1,) * n, job.channels))
        return fill(plain, job.image, view, beside=job.beside), windows(copy, job.axes)
    # whole lead axes, pixels and taps of the last one
    *lead, last = job.axes
    apart = copies.view(_gathered_shape(job))
    panel = np.moveaxis(apart, n - 1, n).reshape(
        *job.spans[:-1], last.count, *(1,) * (n - 1), last.taps, job.channels
    )
    calls = fill([*plain[:-1], last], job.image, panel, beside=job.beside)
    # the last axis is now two: a tap is a step along the first, an output pixel one along the
    # second
    view = windows(apart, (*lead, Axis(1, 0, taps=last.taps), Axis(last.count, 0)))
    return calls, view.reshape((*job.counts, *job.taps, job.channels))


def _depthwise_part(job: Job, copies: Store, totals: Store, whole: bool) -> list[Call]:
    """One box: an einsum over as many neighbouring pixels at a time as the repeated weights hold,
    and one for the rest. whole: it has all channels.
    """
    calls, view = _depthwise_windows(job, copies)
    dtype = job.weights.dtype
    total = totals.view(job.out.shape) if _held(job, whole) else job.out
    n, count, channels = len(job.axes), job.axes[-1].count, job.channels
    together = count == 1 or view.strides[n - 1] == channels * dtype.itemsize
    pixels = min(count, job.weights.shape[-1] // channels) if together else 1
    rest = count % pixels
    for start, stop, width in ((0, count - rest, pixels), (count - rest, count, rest)):
        if width:
            part = (slice(None),) * (n - 1) + (slice(start, stop),)
            source, target = _in_rows(view[part], n - 1, width), _in_rows(total[part], n - 1, width)
            calls.append(
                (einsum, (_subscripts(n), source, job.weights[..., : width * channels], target))
            )
    if total is job.out:
        return calls if job.bias is None else [*calls, (np.add, (total, job.bias, total))]
    return calls + hand_over(job, total)


def _in_rows(array: np.ndarray, axis: int, pixels: int) -> np.ndarray:
    """`pixels` neighbours along an axis joined with their contiguous channels, as a view."""
    shape, strides = list(array.shape), list(array.strides)
    shape[axis] //= pixels
    strides[axis] *= pixels
    shape[-1] *= pixels
    return as_strided(array, shape, strides)


def _subscripts(axes: int) -> str:
    """Pixels and taps times taps, summed over the taps.

    >>> _subscripts(2)
    'abcdz,cdz->abz'
    """
    counts, taps = string.ascii_lowercase[:axes], string.ascii_lowercase[axes : 2 * axes]
    return f"{counts}{taps}z,{taps}z->{counts}z"
