"""Which bytes do the parts of a step read and write? By these a thread goes on with the next step without waiting for others.

A region is pixels of a row: where they begin, how many there are, bytes from one to the next, and bytes of each that are touched.
Regions of the same pitch are compared pixel by pixel, so that columns and channels of rows stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from csdfgen.backends.native.structures import get_record
from csdfgen.program.instructions import PADDING, Constants, Instruction, Ref, find_row_pool

_FLOAT, _TILE = 4, 6

_Region = tuple[int, int, int, int, int]
"""Number of the pool, first byte, pixels, pitch, bytes of a pixel."""


class Regions(NamedTuple):
    """What a part touches, an array of regions each."""

    read: np.ndarray
    written: np.ndarray

    def meets(self, other: Regions) -> bool:
        """Whether one writes what the other touches."""
        return (
            _meet(self.written, other.written)
            or _meet(self.written, other.read)
            or _meet(self.read, other.written)
        )


def _meet(some: np.ndarray, others: np.ndarray) -> bool:
    a, b = (np.moveaxis(one, -1, 0) for one in (some[:, None], others[None]))
    (pool, first, pixels, pitch, run), (pool_b, first_b, pixels_b, pitch_b, run_b) = a, b
    over = (first < first_b + (pixels_b - 1) * pitch_b + run_b) & (pool == pool_b)
    over &= first_b < first + (pixels - 1) * pitch + run
    at, shift = np.divmod(first_b - first, pitch)
    here = (shift < run) & (at < pixels) & (at + pixels_b > 0)
    next_one = (shift + run_b > pitch) & (at + 1 < pixels) & (at + 1 + pixels_b > 0)
    return bool((over & ((pitch != pitch_b) | here | next_one)).any())


def join_regions(some: Iterable[Regions]) -> Regions:
    """Those of parts that one thread computes one after the other."""
    read, written = zip(*some, strict=True)
    return Regions(np.concatenate(read), np.concatenate(written))


def list_regions(made: Sequence[Instruction], constants: Constants) -> dict[int, Regions]:
    """Number of an instruction -> what it touches; others touch what is not known."""
    pools: dict[str, int] = {}
    found = {}
    for number, one in enumerate(made):
        lists = _LISTS.get(one.kernel)
        if lists is not None:
            both: tuple[list[_Region], list[_Region]] = [], []
            for written, pool, *region in lists(one.kernel, get_record(one), constants):
                at, pixels, pitch, run = region
                both[written].append((pools.setdefault(pool, len(pools)), at, pixels, pitch, run))
            found[number] = Regions(*(np.array(side, np.int64).reshape(-1, 5) for side in both))
    return found


def _rows(
    written: bool, table: Ref, stride: int, columns: range, channels: range, constants: Constants
) -> Iterator[tuple[Any, ...]]:
    """Columns and channels of the rows of a table."""
    run = _FLOAT * len(channels)
    pixels = len(columns) if stride else 1
    pitch = _FLOAT * stride if pixels > 1 else run  # a pixel alone may be a whole row
    shift = columns.start * _FLOAT * stride + _FLOAT * channels.start
    for at in constants.rows_of(table):
        if at != PADDING and run and columns:
            yield written, find_row_pool(table), at + shift, pixels, pitch, run


def _of_convolution(kernel: str, step: Any, constants: Constants) -> Iterator[tuple[Any, ...]]:
    (layer,), out = constants.rows_of(step.layer), step.out
    columns = range(out.column, out.column + out.columns)
    channels = range(out.channel, out.channel + out.channels)
    yield from _rows(True, out.rows, out.stride, columns, channels, constants)
    if step.workspace is not None and step.workspace_bytes:
        size = step.workspace_bytes
        yield True, step.workspace.pool, step.workspace.offset, 1, size, size
    low = out.column * layer.stride_w - layer.pad_left
    reach = (out.columns - 1) * layer.stride_w + (layer.kernel_w - 1) * layer.dilation_w + 1
    reach += _TILE * kernel.startswith("winograd")  # the last tile of a row may reach further
    seen = range(max(0, low), max(0, min(step.width, low + reach)))
    pieces = constants.rows_of(step.pieces)
    own = kernel == "depthwise_of" and len(pieces) == 1 and layer.in_channels == layer.out_channels
    for piece in pieces:
        if piece.rows is not None:
            read = channels if own else range(piece.channels)
            yield from _rows(False, piece.rows, piece.stride, seen, read, constants)
    for one in () if step.residual is None else constants.rows_of(step.residual):
        yield from _rows(False, one.rows, one.stride, columns, channels, constants)


def _of_map(kernel: str, step: Any, constants: Constants) -> Iterator[tuple[Any, ...]]:
    columns, channels = range(step.columns), range(step.channels)
    yield from _rows(True, step.out, step.stride, columns, channels, constants)
    for one in step.operands:
        if one.rows is not None:
            read = channels if one.channels else range(1)
            yield from _rows(False, one.rows, one.stride, columns, read, constants)


def _of_pool(kernel: str, step: Any, constants: Constants) -> Iterator[tuple[Any, ...]]:
    source, channels = step.source, range(step.source.channels)
    yield from _rows(True, step.out, step.stride, range(step.columns), channels, constants)
    reach = (step.columns - 1) * step.stride_w + (step.kernel_w - 1) * step.dilation_w + 1
    seen = range(max(0, -step.pad_left), max(0, min(step.width, reach - step.pad_left)))
    yield from _rows(False, source.rows, source.stride, seen, channels, constants)


_LISTS = {
    **dict.fromkeys(("conv_of", "depthwise_of"), _of_convolution),
    **dict.fromkeys(("winograd_of", "winograd_row_of"), _of_convolution),
    "map_of": _of_map,
    "pool_of": _of_pool,
}
