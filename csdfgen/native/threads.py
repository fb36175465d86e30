"""How do threads share a program? Large steps in parts, by columns or by channels, the others on one.

Parts of a step write different elements and read what no part writes, so that results do not depend on
the number of threads. Which steps are worth it depends on what they compute alone.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from csdfgen.errors import InputError, option
from csdfgen.native.families.winograd import POINTS, SUMS, WIDE, row_bytes, tile_bytes
from csdfgen.native.library import (
    DEQUANTIZE,
    PANEL,
    QUANTIZE,
    ByteMapStep,
    ConvStep,
    GemmStep,
    Library,
    PoolStep,
    Record,
    Stage,
)
from csdfgen.native.strided import Native

__all__ = ["MOST_THREADS", "Team", "shared_out"]

MOST_THREADS = 64
"""Of a team: CSDF_THREADS."""

_WORTH = 100_000
"""Multiply-accumulates of a part, below which waiting for the others takes longer than it saves."""

_NEAR = 1 << 18
"""Bytes of weights that every thread may read anew for its columns: they stay in its cache."""

_COLUMNS = 8
"""Least columns of a part."""

_MOVED = 8
"""Multiply-accumulates that take as long as one element of a map."""

_DEPTHWISE = 3
"""Multiply-accumulates that take as long as one of a depthwise layer: it waits for what it loads."""

_FLOAT, _ALIGNMENT = 4, 64


class Team:
    """Threads that run programs of one `Executable`; they end with it."""

    def __init__(self, library: Library, threads: int) -> None:
        if not 1 <= threads <= MOST_THREADS:
            raise InputError(f"{option('threads', threads)}: native code takes 1 to {MOST_THREADS}")
        self.threads = threads
        self._run, made = library.team_run, library.team_new(threads)
        if not made:
            raise InputError(f"{option('threads', threads)}: so many cannot be started")
        self._team = made
        weakref.finalize(self, library.team_end, made)

    def call(self, kernels: Sequence[Native]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The call that runs kernels one after the other, those in parts that are worth it."""
        records: list[Record] = []
        kept: list[Native] = []
        stages: list[tuple[int, list[int]]] = []
        for kernel in kernels:
            parts = shared_out(kernel, self.threads)
            kept.extend(parts)
            start = len(records)
            records += [Record(one.function, ctypes.addressof(one.step)) for one in parts]
            if len(parts) == 1 and stages and len(stages[-1][1]) == 2:
                stages[-1][1][1] += 1  # goes on where the one before ends
            else:
                stages.append((start, [*range(len(parts) + 1)]))
        table: Any = (Record * len(records))(*records)
        size = ctypes.sizeof(Record)
        firsts = [(ctypes.c_int32 * len(first))(*first) for _, first in stages]
        made: Any = (Stage * len(stages))(
            *(
                Stage(
                    ctypes.addressof(table) + start * size, ctypes.addressof(first), len(first) - 1
                )
                for (start, _), first in zip(stages, firsts, strict=True)
            )
        )
        made.kept = table, firsts, kept, self
        return self._run, (self._team, made, len(stages))


def shared_out(kernel: Native, threads: int) -> list[Native]:
    """The parts of a kernel's step, at most one a thread; itself alone where that is not worth it."""
    split = _SPLITS.get(kernel.kernel)
    return [kernel] if split is None else split(kernel, threads) or [kernel]


def _convolution(kernel: Native, threads: int) -> list[Native]:
    step: Any = kernel.step
    layer, out = step.layer.contents, step.out
    taps = layer.kernel_h * layer.kernel_w * (layer.in_channels // layer.groups)
    work = out.count * out.columns * out.channels * taps
    work *= _DEPTHWISE if kernel.kernel.startswith("depthwise") else 1
    parts = min(threads, work // _WORTH)
    bytes_each = _FLOAT if isinstance(step, ConvStep) else 1
    weights = bytes_each * taps * layer.out_channels
    panels = layer.out_channels // PANEL if layer.groups == 1 else 0
    by_columns = out.columns >= _COLUMNS * parts and (weights <= _NEAR or panels < parts)
    if parts < 2 or not (by_columns or panels >= parts):
        return []
    found = []
    room = step.workspace_bytes // parts // _ALIGNMENT * _ALIGNMENT
    for number, (start, stop) in enumerate(_ranges(out.columns if by_columns else panels, parts)):
        part = type(step).from_buffer_copy(step)
        if room:
            part.workspace, part.workspace_bytes = step.workspace + number * room, room
        if by_columns:
            part.out.column, part.out.columns = out.column + start, stop - start
        else:
            first = start * PANEL
            last = layer.out_channels if stop == panels else stop * PANEL
            part.out.channel, part.out.channels = first, last - first
        found.append(kernel.changed(part))
    return found


def _in_points(kernel: Native, threads: int) -> list[Native]:
    """Of Winograd's kernels: whole tiles of a row, or channels; each part has its part of the workspace."""
    step: Any = kernel.step
    layer, out = step.layer.contents, step.out
    ins, outs = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    wide = layer.kernel_w
    taps, pixels = layer.kernel_h * wide * ins, WIDE if step.tile else POINTS + 1 - wide
    across = -(-out.columns // pixels)
    parts = min(threads, out.count * out.columns * out.channels * taps // _WORTH)
    shape = ins, outs, layer.kernel_h, layer.stride_h, layer.dilation_h
    one = (
        tile_bytes(shape, step.tile, 1, step.some)
        if step.tile
        else row_bytes(shape, 1, 1, step.some)
    )
    panels = layer.out_channels // PANEL if layer.groups == 1 else 0
    weights = _FLOAT * taps * layer.out_channels
    by_columns = across >= 2 * parts and (weights <= _NEAR or panels < SUMS // PANEL * parts)
    room = step.workspace_bytes // max(1, parts) // _ALIGNMENT * _ALIGNMENT
    if parts < 2 or not (by_columns or panels >= parts) or room < one:
        return []
    found = []
    for number, (start, stop) in enumerate(_ranges(across if by_columns else panels, parts)):
        part = ConvStep.from_buffer_copy(step)
        part.workspace, part.workspace_bytes = step.workspace + number * room, room
        if by_columns:
            first, last = start * pixels, min(out.columns, stop * pixels)
            part.out.column, part.out.columns = out.column + first, last - first
        else:
            first = start * PANEL
            last = layer.out_channels if stop == panels else stop * PANEL
            part.out.channel, part.out.channels = first, last - first
        found.append(kernel.changed(part))
    return found


def _map(kernel: Native, threads: int) -> list[Native]:
    """Columns, or channels where all of a row is one pixel. Strides of bytes are in bytes."""
    step: Any = kernel.step
    by_columns = step.columns > 1
    whole = step.columns if by_columns else step.channels
    parts = min(threads, step.count * step.columns * step.channels * _MOVED // _WORTH, whole)
    found = []
    of_bytes = isinstance(step, ByteMapStep)
    unit = 1 if of_bytes else _FLOAT
    read = _FLOAT if not of_bytes or step.operation == QUANTIZE else 1
    written = _FLOAT if not of_bytes or step.operation == DEQUANTIZE else 1
    for start, stop in _ranges(whole, parts) if parts > 1 else ():
        part, tables = type(step).from_buffer_copy(step), []
        for one in part.operands:
            if one.rows:
                shift = start * (one.stride * unit if by_columns else one.channels * read)
                tables.append(_shifted(one.rows, step.count, shift))
                one.rows = ctypes.addressof(tables[-1])
        shift = start * (step.stride * unit if by_columns else written)
        tables.append(_shifted(step.out, step.count, shift))
        part.out = ctypes.addressof(tables[-1])
        if by_columns:
            part.columns = stop - start
        else:
            part.channels = stop - start
        found.append(kernel.changed(part, tables))
    return found


def _pool(kernel: Native, threads: int) -> list[Native]:
    """Channels."""
    step: Any = kernel.step
    panels = step.source.channels // PANEL
    seen = step.kernel_h * step.kernel_w * step.columns * step.count * step.source.channels
    parts = min(threads, seen * _MOVED // _WORTH, panels)
    rows = (step.count - 1) * step.stride_h + (step.kernel_h - 1) * step.dilation_h + 1
    found = []
    for start, stop in _ranges(panels, parts) if parts > 1 else ():
        part, first = type(step).from_buffer_copy(step), start * PANEL
        last = step.source.channels if stop == panels else stop * PANEL
        size = _FLOAT if isinstance(step, PoolStep) else 1
        read = _shifted(step.source.rows, rows, size * first)
        out = _shifted(step.out, step.count, size * first)
        part.source.rows, part.source.channels = ctypes.addressof(read), last - first
        part.out = ctypes.addressof(out)
        found.append(kernel.changed(part, read, out))
    return found


def _shifted(table: int, count: int, shift: int) -> Any:
    """A table of addresses, so many bytes further on; NULL stays NULL."""
    given = (ctypes.c_void_p * count).from_address(table)
    return (ctypes.c_void_p * count)(*(at and at + shift for at in given))


def _product(kernel: Native, threads: int) -> list[Native]:
    step: Any = kernel.step
    summed = sum((ctypes.c_int32 * step.parts).from_address(step.sizes))
    panels = step.outputs // PANEL
    parts = min(threads, panels, step.count * summed * step.outputs // _WORTH)
    if parts < 2:
        return []
    found = []
    for start, stop in _ranges(panels, parts):
        part = GemmStep.from_buffer_copy(step)
        part.channel = start * PANEL
        part.channels = (step.outputs if stop == panels else stop * PANEL) - part.channel
        found.append(kernel.changed(part))
    return found


def _ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """Parts of a range, as equal as can be.

    >>> _ranges(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    cuts = [count * k // parts for k in range(parts + 1)]
    return list(pairwise(cuts))


_SPLITS: dict[str, Callable[[Native, int], list[Native]]] = {
    "conv_of": _convolution,
    "depthwise_of": _convolution,
    "winograd_row_of": _in_points,
    "winograd_of": _in_points,
    "gemm_of": _product,
    "map_of": _map,
    "pool_of": _pool,
    "conv_bytes_of": _convolution,
    "depthwise_bytes_of": _convolution,
    "map_bytes_of": _map,
    "pool_bytes_of": _pool,
    "average_bytes_of": _pool,
}
"""Kernel -> what shares a step of it out."""
