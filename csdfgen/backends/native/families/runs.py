"""Which windows of a convolution are runs of floats, one for each row of the kernel? Those of few input channels that see no
padding, where pixels are side by side.

To a kernel such a run is one tap with as many channels, of pixels that overlap: a stride apart. Long rows of a kernel are then
summed up without a pointer for every tap, and a signal, whose rows have one pixel each, is one row of many pixels. Products are
added up in the same order as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from csdfgen.backends.native.families.common import FLOAT, Table
from csdfgen.program.instructions import PADDING


@dataclass(frozen=True)
class Sliding:
    """Windows of a filter: input channels, height, width; stride and dilation down and along; columns of padding at the left."""

    ins: int
    high: int
    wide: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    left: int


@dataclass(frozen=True)
class Windows:
    """What a kernel slides over, and where it writes. sources: tables of rows, elements from a pixel to the next, and channels of
    every piece. width: columns of these rows. written: offsets of output rows, `columns` pixels each, `pace` elements apart.
    """

    sliding: Sliding
    sources: tuple[tuple[Table | None, int, int], ...]
    width: int
    written: Sequence[int]
    columns: int
    pace: int


def split_into_runs(whole: Windows, images: int = 1, size: int = FLOAT) -> list[Windows]:
    """The same outputs, those whose windows are runs apart from the others. images: that rows are of; size: bytes of an
    element, of floats for a signal.
    """
    own = whole.sliding
    (table, pixel, _), *others = whole.sources
    if others or table is None or pixel != own.ins:
        return [whole]
    if whole.width == whole.columns == 1:
        return [whole] if images > 1 or size != FLOAT else _of_signal(whole, table)
    return _of_map(whole, table, size)


def _of_signal(whole: Windows, table: Table) -> list[Windows]:
    """Rows have one pixel each."""
    own = whole.sliding
    rows, out = np.array(table, np.int64), np.array(whole.written, np.int64)
    # how often rows up to here do not follow the one before
    jumps = np.cumsum(np.diff(rows, prepend=rows[0]) != FLOAT * own.ins)
    starts = np.arange(len(out)) * own.stride[0]
    follow = (rows[starts] != PADDING) & (jumps[starts] == jumps[starts + own.high - 1])
    pace, apart = FLOAT * own.ins * own.stride[0], whole.pace
    if len(out) > 1:
        apart = int(out[1] - out[0]) // FLOAT
    # a window goes on where the one before it did, with its output
    on = np.append(False, (np.diff(rows[starts]) == pace) & (np.diff(out) == FLOAT * apart))
    on[1:] = np.where(follow[1:], on[1:] & follow[:-1], ~follow[:-1])
    parts = np.cumsum(~on).tolist()
    found = []
    for _, some in groupby(range(len(out)), key=parts.__getitem__):
        a, *_ = numbers = list(some)
        b = numbers[-1] + 1
        if not follow[a]:
            seen = table[int(starts[a]) : int(starts[b - 1]) + own.high]
            found.append(
                replace(whole, sources=((seen, own.ins, own.ins),), written=whole.written[a:b])
            )
            continue
        run = own.high * own.ins
        found.append(
            Windows(
                Sliding(run, 1, 1, (1, 1), (1, 1), 0),
                (([int(rows[starts[a]])], own.ins * own.stride[0], run),),
                b - a,
                whole.written[a : a + 1],
                b - a,
                apart,
            )
        )
    return found


def _of_map(whole: Windows, table: Table, size: int) -> list[Windows]:
    """Rows of several pixels."""
    own = whole.sliding
    (down, along), run = own.stride, own.wide * own.ins
    # columns [low, high) see no padding
    low = min(whole.columns, -(-max(0, own.left) // along))
    high = max(low, min(whole.columns, (whole.width - own.wide + own.left) // along + 1))
    if low == high:
        return [whole]

    def part(start: int, stop: int) -> Windows:
        written = [at + size * start * whole.pace for at in whole.written]
        left = own.left - start * along
        return replace(
            whole, sliding=replace(own, left=left), written=written, columns=stop - start
        )

    shift = size * (low * along - own.left) * own.ins
    inner = replace(
        part(low, high),
        sliding=Sliding(run, own.high, 1, (down, 1), (own.dilation[0], 1), 0),
        sources=(([at if at == PADDING else at + shift for at in table], along * own.ins, run),),
        width=high - low,
    )
    edges = [part(a, b) for a, b in ((0, low), (high, whole.columns)) if a < b]
    return [inner, *edges]
