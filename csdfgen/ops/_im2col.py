"""What does a sliding window read, and how does it get there? Axes, jobs, boxes, and copies with
padding.

A convolution over any number of axes is a `Job`: per axis an `Axis` record (which input index does
output pixel t read through tap u?), an image, weights, and where the result goes. Whatever lies
outside the image reads as zero, so padding, cropping and the edges of a slab are one and the same
thing.
`_window_products` computes jobs; here they are cut into boxes of bounded size and their windows are
copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.model.network import Shape
from csdfgen.ops.base import Call, Scratch

__all__ = ["Axis", "Job", "Store", "boxes", "copy_image", "copy_taps", "merged", "split", "windows"]

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a sliding window: output pixel t and tap u read input index first + t*stride +
    u*dilation.
    """

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
        return replace(self, count=stop - start, first=self.first + start * self.stride)

    def through(self, start: int, stop: int) -> Axis:
        """The same pixels through taps [start, stop) only."""
        return replace(self, taps=stop - start, first=self.first + start * self.dilation)

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

    def inside(self, size: int) -> bool:
        """Whether no pixel reads beside an image of `size` indices."""
        return self.first >= 0 and self.first + self.span <= size

    def valid(self, tap: int, size: int) -> tuple[int, int]:
        """Output pixels [start, stop) for which a tap lies in an image of `size` indices.

        >>> Axis(count=4, first=-1, stride=2, taps=3).valid(0, 8)
        (1, 4)
        """
        offset = self.first + tap * self.dilation
        start = min(self.count, max(0, -(offset // self.stride)))
        return start, max(start, min(self.count, (size - 1 - offset) // self.stride + 1))


@dataclass(frozen=True, eq=False)
class Job:
    """out[t..., :] = bias + sum over taps u of image[first + t*stride + u*dilation ..., :] times
    weights.

    axes: at least two (a leading axis of one pixel costs nothing).
    image: (sizes..., C), one size per axis, then the channels. out: (counts..., channels out). Both
        may be strided.
    weights: in the dtype that is computed in; laid out as the function that computes the job wants
        them.
    add: the result is added to what `out` holds; then there is no bias.
    """

    axes: tuple[Axis, ...]
    image: np.ndarray
    weights: np.ndarray
    out: np.ndarray
    bias: np.ndarray | None = None
    add: bool = False

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

    @cached_property
    def copies_image(self) -> bool:
        """Whether the image under the windows is read from a copy: padded, in the dtype of the
        weights, channels together.
        """
        image = self.image
        padded = not all(
            axis.inside(size) for axis, size in zip(self.axes, image.shape, strict=False)
        )
        return (
            padded
            or image.dtype != self.weights.dtype
            or (self.channels > 1 and image.strides[-1] != image.itemsize)
        )

    @cached_property
    def copies_taps(self) -> bool:
        """Whether each tap is copied by itself instead: where wide holes make the copy of the image
        the larger one.
        """
        return self.copies_image and prod(self.spans) > self.pixels * prod(self.taps)

    @property
    def under(self) -> np.ndarray:
        """The image under the windows, index 0 at every axis' `first`; for jobs that do not copy
        the image.
        """
        return self.image[tuple(slice(axis.first, axis.first + axis.span) for axis in self.axes)]

    @cached_property
    def left(self) -> np.ndarray | None:
        """The windows as the left matrix (pixels, C) of a product where they lie; None if they must
        be copied.
        """
        if prod(self.taps) != 1 or self.copies_image:
            return None
        return merged(self.under[tuple(slice(None, None, axis.stride) for axis in self.axes)])

    @cached_property
    def target(self) -> np.ndarray | None:
        """The output as the result matrix (pixels, channels) of a product; None if it is not to be
        written directly.

        A bias is added in contiguous memory: numpy takes strided operands through buffers, which
            costs more than a copy.
        """
        if self.out.dtype != self.weights.dtype:
            return None
        matrix = merged(self.out)
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
        self._array = scratch.take((size,), dtype) if size else np.empty(0, dtype)

    def view(self, shape: Shape) -> np.ndarray:
        """Its first elements in the given shape, uninitialised."""
        return self._array[: prod(shape)].reshape(shape)


def _cuts(size: int, limit: int) -> list[tuple[int, int]]:
    """[0, size) in ranges of nearly equal length, none longer than `limit`.

    >>> _cuts(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    length = -(-size // -(-size // limit))
    return [(a, min(a + length, size)) for a in range(0, size, length)]


def boxes(extents: Shape, limit: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes of at most `limit` points that tile the extents, each a contiguous range in row-major
    order.

    >>> list(boxes((2, 3), 4))
    [((0, 1), (0, 3)), ((1, 2), (0, 3))]
    """
    cuts = []
    for extent in reversed(extents):
        cuts.append(_cuts(extent, limit))
        # a cut axis leaves 1 here, since balanced ranges are longer than half the limit: outer axes
        # go by single steps
        limit //= cuts[-1][0][1]
    return product(*reversed(cuts))


def split(job: Job, limit: int) -> list[Job]:
    """The job in boxes of at most `limit` output pixels."""
    return (
        [job] if job.pixels <= limit else [job.box(ranges) for ranges in boxes(job.counts, limit)]
    )


def windows(base: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """View (counts..., taps..., channels...) of an array whose index 0 lies at every axis' `first`."""
    n = len(axes)
    steps = [axis.stride * s for axis, s in zip(axes, base.strides, strict=False)]
    holes = [axis.dilation * s for axis, s in zip(axes, base.strides, strict=False)]
    shape = (*(axis.count for axis in axes), *(axis.taps for axis in axes), *base.shape[n:])
    return as_strided(base, shape, (*steps, *holes, *base.strides[n:]))


def copy_tap(
    axes: Sequence[Axis], image: np.ndarray, target: np.ndarray, tap: Sequence[int]
) -> list[Call]:
    """Calls that fill `target` (counts..., channels...) with what every pixel reads through one
    tap, zeros beside the image.
    """
    calls: list[Call] = []
    inner, outer = [], []
    for k, (axis, u, size) in enumerate(zip(axes, tap, image.shape, strict=False)):
        start, stop = axis.valid(u, size)
        if start == stop:
            return [(target.fill, (0,))]
        edges = (slice(0, start), slice(stop, axis.count))
        calls += [
            (target[(slice(None),) * k + (edge,)].fill, (0,))
            for edge in edges
            if edge.start < edge.stop
        ]
        first = axis.first + u * axis.dilation + start * axis.stride
        inner.append(slice(start, stop))
        outer.append(slice(first, first + (stop - start) * axis.stride, axis.stride))
    return [*calls, (np.copyto, (target[tuple(inner)], image[tuple(outer)]))]


def copy_image(axes: Sequence[Axis], image: np.ndarray, copy: np.ndarray) -> list[Call]:
    """Calls that fill `copy` (spans..., channels...) with the image under the windows, zeros beside
    it.
    """
    return copy_tap([Axis(axis.span, axis.first) for axis in axes], image, copy, (0,) * len(axes))


def copy_taps(
    axes: Sequence[Axis], image: np.ndarray, panel: np.ndarray, taps: Ranges
) -> list[Call]:
    """Calls that fill `panel` (counts..., taps..., channels...) with a box of taps one by one,
    zeros beside the image.
    """
    calls: list[Call] = []
    for tap in product(*(range(*r) for r in taps)):
        at = tuple(u - start for u, (start, _) in zip(tap, taps, strict=True))
        calls += copy_tap(axes, image, panel[(slice(None),) * len(taps) + at], tap)
    return calls


def merged(array: np.ndarray) -> np.ndarray | None:
    """View (pixels, C) of (..., C); None where pixels are not evenly spaced or channels do not lie
    together.
    """
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
