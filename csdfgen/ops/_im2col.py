"""What does a sliding window read, and how is it copied? Axes, jobs, boxes, and copies with padding, of
rows at any addresses.

A convolution over any number of axes is a `Job`: for each axis an `Axis` record (the input index that
output pixel t reads through tap u), an image, weights, and the array of the result. Everything outside
the image reads as one number, mostly zero, so that padding, cropping and the edges of a slab are treated
alike. Integers read as their zero point there. `_window_products` computes jobs; this module cuts them
into boxes of bounded size and copies their windows: one copy for each part of a window in which rows are
evenly spaced and no pixel reads outside the image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.model.network import Shape
from csdfgen.ops.base import Call, Scratch
from csdfgen.ops.spread import Piece, Spread, Stack

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a window: output pixel t and tap u read input first + t*stride + u*dilation."""

    count: int
    first: int
    stride: int = 1
    taps: int = 1
    dilation: int = 1

    @property
    def span(self) -> int:
        """Input indices from the first that is read to the last, holes included.

        >>> Axis(count=4, first=-1, stride=2, taps=3).span
        9
        """
        return (self.count - 1) * self.stride + (self.taps - 1) * self.dilation + 1

    def part(self, start: int, stop: int) -> Axis:
        """Output pixels [start, stop) of this axis."""
        first = self.first + start * self.stride
        return Axis(stop - start, first, self.stride, self.taps, self.dilation)

    def through(self, start: int, stop: int) -> Axis:
        """The same pixels through taps [start, stop) only."""
        first = self.first + start * self.dilation
        return Axis(self.count, first, self.stride, stop - start, self.dilation)

    def moved(self, by: int) -> Axis:
        """The same axis over an image whose index 0 was index `by`."""
        return replace(self, first=self.first - by)

    def reached(self, size: int) -> tuple[int, int]:
        """Taps [start, stop) through which the first pixel reads inside an image of `size` indices.

        >>> Axis(count=1, first=-3, taps=7).reached(2)
        (3, 5)
        """
        start = min(self.taps, max(0, -(self.first // self.dilation)))
        return start, max(start, min(self.taps, (size - 1 - self.first) // self.dilation + 1))

    @property
    def turned(self) -> Axis:
        """Taps as pixels and pixels as taps: they read the same."""
        return Axis(self.taps, self.first, self.dilation, self.count, self.stride)

    def inside(self, size: int) -> bool:
        """Whether no pixel reads outside an image of `size` indices."""
        return self.first >= 0 and self.first + self.span <= size


class Into(Protocol):
    """How complete sums become the output, where they are not it."""

    def between(self, channels: slice) -> Into:
        """The same for some of the output's channels."""

    def calls(self, sums: np.ndarray, out: np.ndarray) -> list[Call]:
        """Calls that write the output; the sums may be lost."""


@dataclass(frozen=True, eq=False)
class Job:
    """out[t..., :] = bias + sum over taps u of image[first + t*stride + u*dilation ..., :] times
    weights.

    axes: at least two (a leading axis of one pixel costs nothing).
    image: (sizes..., C), one size per axis, then the channels; rows along the first axis may have any
        addresses. Of a `Stack` the first axis is the images, one tap each. out: (counts..., channels out), maybe strided.
    weights: in the dtype that is computed in; in the layout of the function that computes the job.
    add: the result is added to what `out` holds; then there is no bias.
    beside: what is read outside the image. into: how sums become an output of another type; without
    one they are rounded to it.
    deepest: most rows of the weights whose products are summed in the type that is computed in; such
    sums are added up in float64. 0: all are summed in that type.
    """

    axes: tuple[Axis, ...]
    image: Spread | Stack
    weights: np.ndarray
    out: np.ndarray
    bias: np.ndarray | None = None
    add: bool = False
    beside: float = 0
    into: Into | None = None
    deepest: int = 0

    @property
    def channels(self) -> int:
        return self.image.shape[-1]

    @property
    def counts(self) -> Shape:
        return tuple(axis.count for axis in self.axes)

    @property
    def taps(self) -> Shape:
        return tuple(axis.taps for axis in self.axes)

    @property
    def spans(self) -> Shape:
        return tuple(axis.span for axis in self.axes)

    @cached_property
    def pixels(self) -> int:
        return prod(self.counts)

    @property
    def touched(self) -> int:
        """Bytes that are read and written."""
        read = (
            max(0, min(axis.first + axis.span, size) - max(axis.first, 0))
            for axis, size in zip(self.axes, self.image.shape, strict=False)
        )
        return prod(read) * self.channels * self.image.itemsize + self.out.nbytes

    def between(self, start: int, stop: int) -> Job:
        """The part of the job that computes groups [start, stop) of the channels: single ones, where
        weights keep channels apart.
        """
        grouped = self.weights.ndim > len(self.axes) + 1
        groups = len(self.weights) if grouped else self.channels
        read, made = (
            slice(start * size // groups, stop * size // groups)
            for size in (self.channels, self.out.shape[-1])
        )
        return replace(
            self,
            image=self.image.between(read.start, read.stop),
            weights=self.weights[start:stop] if grouped else self.weights[..., start:stop],
            out=self.out[..., made],
            bias=None if self.bias is None else self.bias[made],
            into=None if self.into is None else self.into.between(made),
        )

    @cached_property
    def under(self) -> np.ndarray | None:
        """The image under the windows in place, index 0 at every axis' `first`; None if it
        must be copied: padded, not evenly spaced, in another dtype, channels apart.
        """
        axes, image = self.axes, self.image
        if image.dtype != self.weights.dtype:
            return None
        if not all(axis.inside(size) for axis, size in zip(axes, image.shape, strict=False)):
            return None
        rows = image.at(axes[0].first, axes[0].span)
        if rows is None or (self.channels > 1 and rows.strides[-1] != rows.itemsize):
            return None
        index = (slice(None), *(slice(axis.first, axis.first + axis.span) for axis in axes[1:]))
        return rows[index]

    @cached_property
    def copies_taps(self) -> bool:
        """Whether each tap is copied by itself: where wide holes make the image under them larger."""
        return self.under is None and prod(self.spans) > self.pixels * prod(self.taps)

    @cached_property
    def left(self) -> np.ndarray | None:
        """The windows in place as a left matrix (pixels, C); None if they must be copied."""
        if prod(self.taps) != 1 or self.under is None:
            return None
        return merge_pixels(self.under[tuple(slice(None, None, axis.stride) for axis in self.axes)])

    @cached_property
    def target(self) -> np.ndarray | None:
        """The output as the result matrix (pixels, channels) of a product; None if it is not to be
        written directly.

        A bias is added in contiguous memory: numpy takes strided operands through buffers, which
            costs more than a copy.
        """
        if self.out.dtype != self.weights.dtype:
            return None
        matrix = merge_pixels(self.out)
        return (
            None
            if matrix is None or (self.bias is not None and not matrix.flags.c_contiguous)
            else matrix
        )

    def box(self, ranges: Ranges) -> Job:
        """The part of the job that computes a box of output pixels."""
        axes = tuple(axis.part(*r) for axis, r in zip(self.axes, ranges, strict=True))
        return replace(self, axes=axes, out=self.out[tuple(slice(*r) for r in ranges)])


class Store:
    """One array of the workspace that all boxes of a phase use in turn; sizes in elements."""

    def __init__(self, scratch: Scratch, sizes: Iterable[int], dtype: np.dtype[Any]) -> None:
        size = max(sizes, default=0)
        self.size = size
        self._array = scratch.take((size,), dtype) if size else np.empty(0, dtype)

    def view(self, shape: Shape) -> np.ndarray:
        """Its first elements in the given shape, uninitialised."""
        return self._array[: prod(shape)].reshape(shape)


def balance_ranges(size: int, limit: int) -> list[tuple[int, int]]:
    """[0, size) in ranges of nearly equal length, none longer than `limit`.

    >>> balance_ranges(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    length = -(-size // -(-size // limit))
    return [(a, min(a + length, size)) for a in range(0, size, length)]


def boxes(extents: Shape, limit: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes of at most `limit` points that tile the extents, each a contiguous range in row-major
    order; the first is the largest.

    >>> list(boxes((2, 3), 4))
    [((0, 1), (0, 3)), ((1, 2), (0, 3))]
    """
    return product(*cut_axes(extents, limit))


def cut_axes(extents: Shape, limit: int) -> list[list[tuple[int, int]]]:
    """Ranges of every axis, of which the boxes are the products."""
    cuts = []
    for extent in reversed(extents):
        cuts.append(balance_ranges(extent, limit))
        # a cut axis leaves 1 here, since balanced ranges are longer than half the limit: outer axes
        # go by single steps
        limit //= cuts[-1][0][1]
    return cuts[::-1]


def split(job: Job, limit: int) -> list[Job]:
    """The job in boxes of at most `limit` output pixels."""
    return (
        [job] if job.pixels <= limit else [job.box(ranges) for ranges in boxes(job.counts, limit)]
    )


def windows(base: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """View (counts..., taps..., channels...) of an array whose index 0 is at every axis' `first`."""
    n = len(axes)
    steps = [axis.stride * s for axis, s in zip(axes, base.strides, strict=False)]
    holes = [axis.dilation * s for axis, s in zip(axes, base.strides, strict=False)]
    shape = (*(axis.count for axis in axes), *(axis.taps for axis in axes), *base.shape[n:])
    return as_strided(base, shape, (*steps, *holes, *base.strides[n:]))


# Copies of windows -------------------------------------------------------------------------------


class _Region(NamedTuple):
    """Pixels and taps of one axis, half-open, all of which read in the run `run` of indices."""

    run: int
    pixels: tuple[int, int]
    taps: tuple[int, int]


def _by_pixel(axis: Axis, runs: Sequence[tuple[int, int]]) -> list[_Region]:
    """Neighbouring pixels that read a run through the same taps are one region."""
    found: list[_Region] = []
    open_: dict[tuple[int, int, int], int] = {}
    for pixel in range(axis.count):
        base, still = axis.first + pixel * axis.stride, {}
        for run, (low, high) in enumerate(runs):
            start = max(0, -((base - low) // axis.dilation))
            stop = min(axis.taps, (high - 1 - base) // axis.dilation + 1)
            if start < stop:
                key = run, start, stop
                at = open_.get(key)
                if at is None:
                    at = len(found)
                    found.append(_Region(run, (pixel, pixel + 1), (start, stop)))
                else:
                    found[at] = _Region(run, (found[at].pixels[0], pixel + 1), (start, stop))
                still[key] = at
        open_ = still
    return found


@lru_cache(maxsize=1 << 14)
def _regions(axis: Axis, runs: tuple[tuple[int, int], ...]) -> tuple[_Region, ...]:
    """As few regions as reading by pixels or by taps gives, which cover everything in the runs.

    >>> for region in _regions(Axis(4, -1, taps=3), ((0, 4),)): print(*region)
    0 (0, 1) (1, 3)
    0 (1, 3) (0, 3)
    0 (3, 4) (0, 2)
    """
    pixels = _by_pixel(axis, runs)
    taps = _by_pixel(axis.turned, runs)
    if len(pixels) <= len(taps):
        return tuple(pixels)
    return tuple(_Region(one.run, one.taps, one.pixels) for one in taps)


@lru_cache(maxsize=1 << 14)
def _beside(axis: Axis, size: int) -> tuple[_Region, ...]:
    """Regions that read outside an image of `size` indices."""
    far = axis.span + abs(axis.first) + size
    return _regions(axis, ((-far, 0), (size, far + size)))


def fill(
    axes: Sequence[Axis],
    image: Spread | Stack,
    target: np.ndarray,
    channels: tuple[int, int] | None = None,
    beside: float = 0,
) -> list[Call]:
    """Calls that fill `target` (counts..., taps..., channels) with what the windows read, `beside`
    outside the image; of the channels [start, stop) if given.
    """
    n = len(axes)
    if isinstance(image, Stack):
        whole = image.at(axes[0].first, axes[0].count)
        if whole is None:
            return [
                call
                for k in range(axes[0].count)
                for call in fill(
                    axes[1:],
                    image.images[axes[0].first + k],
                    target[k][(slice(None),) * (n - 1) + (0,)],
                    channels,
                    beside,
                )
            ]
        axes, image = (replace(axes[0], first=0), *axes[1:]), Spread.of(whole)
    low, high = channels or (0, image.shape[-1])
    calls: list[Call] = []
    for k, axis in enumerate(axes):
        for region in _beside(axis, image.shape[k]):
            index: list[slice] = [slice(None)] * (2 * n)
            index[k], index[n + k] = slice(*region.pixels), slice(*region.taps)
            calls.append((target[tuple(index)].fill, (beside,)))
    inner = [
        _regions(axis, ((0, size),)) for axis, size in zip(axes[1:], image.shape[1:], strict=False)
    ]
    for piece in image.pieces:
        if piece.low < high and low < piece.high:
            within = slice(max(low - piece.low, 0), min(high, piece.high) - piece.low)
            start = max(piece.low - low, 0)
            part = target[..., start : start + within.stop - within.start]
            for regions in product(_regions(axes[0], piece.runs), *inner):
                calls.append(_copied(axes, regions, piece, within, part))
    return calls


def _copied(
    axes: Sequence[Axis],
    regions: Sequence[_Region],
    piece: Piece,
    channels: slice,
    target: np.ndarray,
) -> Call:
    """The copy of one region along every axis."""
    run, n = regions[0].run, len(regions)
    pixels, taps = [slice(*one.pixels) for one in regions], [slice(*one.taps) for one in regions]
    both = list(zip(axes, pixels, taps, strict=True))
    firsts = [a.first + p.start * a.stride + t.start * a.dilation for a, p, t in both]
    firsts[0] -= piece.runs[run][0]
    corner = [*(slice(at, None) for at in firsts), channels]
    base = piece.arrays[run][tuple(corner)]
    steps = base.strides
    strides = (
        *[a.stride * step for a, step in zip(axes, steps, strict=False)],
        *[a.dilation * step for a, step in zip(axes, steps, strict=False)],
        *steps[n:],
    )
    into = target[tuple(pixels + taps)]
    return np.copyto, (into, as_strided(base, into.shape, strides))


def merge_pixels(array: np.ndarray) -> np.ndarray | None:
    """View (pixels, C) of (..., C); None if pixels are unevenly spaced or channels apart."""
    *counts, channels = array.shape
    if channels > 1 and array.strides[-1] != array.itemsize:
        return None
    dims = [(n, s) for n, s in zip(counts, array.strides, strict=False) if n != 1]
    if any(outer != n * inner for (_, outer), (n, inner) in pairwise(dims)):
        return None
    step = dims[-1][1] if dims else channels * array.itemsize
    if step < channels * array.itemsize or step % array.itemsize:
        return None
    return as_strided(array, (prod(counts), channels), (step, array.itemsize))
