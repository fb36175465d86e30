"""How are windows multiplied by weights? By matrix products over panels, or one einsum where
channels stay apart.

Windows are copied into a panel (im2col) and multiplied by the weight matrix; a window of one tap is
multiplied where it lies. A depthwise convolution would leave matrix products idle (one column
each): it is one `einsum` over the windows. Jobs are cut into boxes of output pixels and a box's
taps into groups, so that the workspace does not grow with the phase.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.model.network import Shape
from csdfgen.ops._im2col import (
    Axis,
    Job,
    Ranges,
    Store,
    boxes,
    copy_image,
    copy_taps,
    split,
    windows,
)
from csdfgen.ops.base import Call, Scratch

__all__ = ["depthwise_products", "matrix_products", "tiled"]

PANEL_ELEMENTS = 65536
"""Elements of one panel (256 KiB of float32): stays in a second-level cache, and larger ones are no
faster.
"""

PIXELS = 128
"""Boxes may have so many pixels, however deep: every product packs its weights anew, which few
pixels are not worth.
"""

TILE_ELEMENTS = 512
"""Depthwise weights are repeated to rows of about this length, since short inner loops are slow;
longer ones gain little.
"""

GATHER_CHANNELS = 128
"""With fewer channels, strided depthwise windows are copied apart so that they can use repeated
weights.
"""


def matrix_products(jobs: Iterable[Job], scratch: Scratch) -> list[Call]:
    """Calls for dense and grouped windows. Weights: (groups, taps..., C / groups, channels out /
    groups).
    """
    calls: list[Call] = []
    parts: list[Job] = []
    for job in jobs:
        if not prod(job.taps):
            calls += _without_taps(job)
        elif job.left is not None and job.target is not None and not job.add:
            parts.append(job)
        else:
            widest = max(prod(job.taps) * job.channels, job.out.shape[-1])
            parts += split(job, max(PIXELS, PANEL_ELEMENTS // widest))
    if not parts:
        return calls
    dtype = parts[0].weights.dtype
    images = Store(
        scratch,
        (prod(p.spans) * p.channels for p in parts if p.copies_image and not p.copies_taps),
        dtype,
    )
    panels = Store(
        scratch,
        (max(map(_points, _tap_boxes(p))) * p.pixels * p.channels for p in parts if p.left is None),
        dtype,
    )
    totals = Store(scratch, (p.out.size for p in parts if p.target is None), dtype)
    sums = Store(scratch, (p.out.size for p in parts if p.add or len(_tap_boxes(p)) > 1), dtype)
    for part in parts:
        calls += _matrix_part(part, images, panels, totals, sums)
    return calls


def _without_taps(job: Job) -> list[Call]:
    """No window reaches the image: rows between the strides of a transposed convolution, or a slab
    that is cropped away.
    """
    if job.add:
        return []
    return [(job.out.fill, (0,))] if job.bias is None else [(np.copyto, (job.out, job.bias))]


def _points(box: Ranges) -> int:
    return prod(stop - start for start, stop in box)


def _tap_boxes(job: Job) -> list[tuple[tuple[int, int], ...]]:
    """Groups of taps whose panel stays within PANEL_ELEMENTS; each is a range of rows of the weight
    matrix.
    """
    return list(boxes(job.taps, max(1, PANEL_ELEMENTS // (job.pixels * job.channels))))


def _matrix_part(job: Job, images: Store, panels: Store, totals: Store, sums: Store) -> list[Call]:
    """One box: a product per group of taps, summed in the output itself where that is a matrix."""
    groups = len(job.weights)
    target = job.target
    total = totals.view((job.pixels, job.out.shape[-1])) if target is None else target
    adds = job.add and target is not None
    calls: list[Call] = []
    for prepare, left, weights in _factors(job, images, panels):
        result = sums.view(total.shape) if adds else total
        calls += prepare
        calls.append(
            (np.matmul, (left, weights if groups > 1 else weights[0], _by_group(result, groups)))
        )
        if adds:
            calls.append((np.add, (total, result, total)))
        adds = True
    if target is None:
        return calls + _hand_over(job, total.reshape(job.out.shape))
    return calls if job.bias is None else [*calls, (np.add, (target, job.bias, target))]


def _hand_over(job: Job, total: np.ndarray) -> list[Call]:
    """The result goes from the workspace to the output: sum, bias and rounding on the way."""
    if job.add:
        return [(np.add, (job.out, total, job.out))]
    biased = [] if job.bias is None else [(np.add, (total, job.bias, total))]
    return [*biased, (np.copyto, (job.out, total))]


def _factors(
    job: Job, images: Store, panels: Store
) -> Iterator[tuple[list[Call], np.ndarray, np.ndarray]]:
    """For every group of taps: the calls that fill the left matrix, that matrix, and the rows of
    the weights.
    """
    groups = len(job.weights)
    weights = job.weights.reshape(groups, -1, job.weights.shape[-1])
    if job.left is not None:
        yield [], _by_group(job.left, groups), weights
        return
    width = job.channels // groups
    pending, base = ([], job.image) if job.copies_taps else _base(job, images)
    image = _split_channels(base, groups)
    row = 0
    for box in _tap_boxes(job):
        taps = tuple(stop - start for start, stop in box)
        panel = panels.view((groups, *job.counts, *taps, width))
        # the same panel in the order of the image: (counts..., taps..., groups, width)
        target = panel.transpose(*range(1, panel.ndim - 1), 0, panel.ndim - 1)
        if job.copies_taps:
            pending = copy_taps(job.axes, image, target, box)
        else:
            corner = image[
                tuple(
                    slice(r[0] * axis.dilation, None) for r, axis in zip(box, job.axes, strict=True)
                )
            ]
            axes = [axis.through(*r) for r, axis in zip(box, job.axes, strict=True)]
            pending = [*pending, (np.copyto, (target, windows(corner, axes)))]
        depth = prod(taps) * width
        shape = (groups, job.pixels, depth) if groups > 1 else (job.pixels, depth)
        yield pending, panel.reshape(shape), weights[:, row : row + depth]
        row += depth
        pending = []


def _base(job: Job, images: Store) -> tuple[list[Call], np.ndarray]:
    """The image under the windows, index 0 at every axis' `first`: where it lies, or copied by the
    calls.
    """
    if not job.copies_image:
        return [], job.under
    copy = images.view((*job.spans, job.channels))
    return copy_image(job.axes, job.image, copy), copy


def _by_group(matrix: np.ndarray, groups: int) -> np.ndarray:
    """(pixels, C) as (groups, pixels, C / groups), a view; one group stays a plain matrix."""
    return matrix if groups == 1 else _split_channels(matrix, groups).transpose(1, 0, 2)


def _split_channels(array: np.ndarray, groups: int) -> np.ndarray:
    """(..., C) as (..., groups, C / groups), a view."""
    width, step = array.shape[-1] // groups, array.strides[-1]
    return as_strided(
        array, (*array.shape[:-1], groups, width), (*array.strides[:-1], width * step, step)
    )


def tiled(weights: np.ndarray, width: int) -> np.ndarray:
    """Depthwise weights (taps..., C) repeated for several of `width` output pixels: (taps...,
    pixels * C).

    >>> tiled(np.zeros((3, 3, 32), np.float32), 112).shape
    (3, 3, 512)
    """
    rows = -(-width * weights.shape[-1] // TILE_ELEMENTS)
    pixels = -(-width // min(rows, width))
    return np.ascontiguousarray(np.tile(weights, pixels))


def depthwise_products(jobs: Iterable[Job], scratch: Scratch) -> list[Call]:
    """Calls for windows whose channels stay apart. Weights: (taps..., pixels * C), as `tiled` makes
    them.
    """
    calls: list[Call] = []
    parts: list[Job] = []
    for job in jobs:
        if not prod(job.taps):
            calls += _without_taps(job)
            continue
        parts += split(job, max(PIXELS, PANEL_ELEMENTS // (job.channels * _copied_per_pixel(job))))
    if not parts:
        return calls
    dtype = parts[0].weights.dtype
    copies = Store(scratch, map(_copied, parts), dtype)
    totals = Store(
        scratch, (p.out.size for p in parts if p.add or not _is_dense(p.out, dtype)), dtype
    )
    for part in parts:
        calls += _depthwise_part(part, copies, totals)
    return calls


def _copied_per_pixel(job: Job) -> int:
    """Image pixels that are copied for one output pixel in a box of one row, at most."""
    lead, last = job.axes[:-1], job.axes[-1]
    holes = any(
        axis.stride > axis.taps or (axis.dilation > 1 and axis.taps > 1) for axis in job.axes
    )
    return prod(axis.taps for axis in lead) * (last.taps if holes or _gathers(job) else last.stride)


def _copied(job: Job) -> int:
    """Elements of the copy that a depthwise job works on."""
    if job.copies_taps:
        return prod(job.taps) * job.out.size
    if _gathers(job):
        return prod(_gathered_shape(job))
    return prod(job.spans) * job.channels if job.copies_image else 0


def _is_dense(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether pixels along the last axis lie together, in the dtype that is computed in."""
    pixels, channels = array.shape[-2:]
    together = channels == 1 or array.strides[-1] == array.itemsize
    return (
        array.dtype == dtype
        and together
        and (pixels == 1 or array.strides[-2] == channels * array.itemsize)
    )


def _gathers(job: Job) -> bool:
    """Whether windows whose neighbours do not lie together (strides, slabs out of wider rows) are
    copied apart.
    """
    if job.copies_taps or job.channels >= GATHER_CHANNELS or job.axes[-1].count == 1:
        return False
    return job.axes[-1].stride > 1 or not (
        job.copies_image or _is_dense(job.image, job.weights.dtype)
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
        return copy_taps(job.axes, job.image, view, [(0, taps) for taps in job.taps]), view
    if not _gathers(job):
        calls, base = _base(job, copies)
        return calls, windows(base, job.axes)
    # whole lead axes, pixels and taps of the last one
    *lead, last = job.axes
    apart = copies.view(_gathered_shape(job))
    plain = [Axis(axis.span, axis.first) for axis in lead]
    panel = np.moveaxis(apart, n - 1, n).reshape(
        *job.spans[:-1], last.count, *(1,) * (n - 1), last.taps, job.channels
    )
    calls = copy_taps([*plain, last], job.image, panel, [(0, 1)] * (n - 1) + [(0, last.taps)])
    # the last axis is now two: a tap is a step along the first, an output pixel one along the
    # second
    view = windows(apart, (*lead, Axis(1, 0, taps=last.taps), Axis(last.count, 0)))
    return calls, view.reshape((*job.counts, *job.taps, job.channels))


def _depthwise_part(job: Job, copies: Store, totals: Store) -> list[Call]:
    """One box: an einsum over as many neighbouring pixels at a time as the repeated weights hold,
    and one for the rest.
    """
    calls, view = _depthwise_windows(job, copies)
    dtype = job.weights.dtype
    total = totals.view(job.out.shape) if job.add or not _is_dense(job.out, dtype) else job.out
    n, count, channels = len(job.axes), job.axes[-1].count, job.channels
    together = count == 1 or view.strides[n - 1] == channels * dtype.itemsize
    pixels = min(count, job.weights.shape[-1] // channels) if together else 1
    rest = count % pixels
    for start, stop, width in ((0, count - rest, pixels), (count - rest, count, rest)):
        if width:
            part = (slice(None),) * (n - 1) + (slice(start, stop),)
            source, target = _in_rows(view[part], n - 1, width), _in_rows(total[part], n - 1, width)
            calls.append(
                (_einsum, (_subscripts(n), source, job.weights[..., : width * channels], target))
            )
    if total is job.out:
        return calls if job.bias is None else [*calls, (np.add, (total, job.bias, total))]
    return calls + _hand_over(job, total)


def _in_rows(array: np.ndarray, axis: int, pixels: int) -> np.ndarray:
    """Every `pixels` neighbours along an axis joined with their channels, a view: their channels
    must lie together.
    """
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


def _einsum(subscripts: str, view: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    np.einsum(subscripts, view, weights, out=out)
