"""Where do rows that the kernels of convolutions and pools read and write lie in those of a layer?

Kernels know maps of two axes. Of a layer of one or two axes their rows are its rows. Of one of three
axes a row is a frame, and kernels go along its lines, in one of two ways:

- frame by frame (`Frames`): what the taps of an output frame read are as many maps, taken for pieces of
  one, channels one behind the other. Frames of padding are pieces without a table, which kernels pass
  over. Of layers of one group, whose weights are put in that order.
- line by line (`Lines`): the lines that an output line reads are rows of a window that is as high as
  there are such, and each output line has a table of its own. Of any layer; every line is listed as often
  as it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from csdfgen.backends.native.families.common import (
    lines,
    reads_a_map,
    reads_a_volume,
    rows_held,
    rows_read,
)
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops.windows import windows_of
from csdfgen.program.instructions import PADDING
from csdfgen.program.steps import Step, View

__all__ = [
    "Frames",
    "Layout",
    "Lines",
    "Map",
    "Part",
    "Pieces",
    "Reader",
    "Table",
    "laid_out",
    "lines_read",
    "sizes_of",
    "tables_read",
    "windows_along",
]


@dataclass(frozen=True)
class Part:
    """A filter and the outputs that it computes: every `stride`-th row and column from `first` on.

    read: row of the input that the first tap of the first of these rows meets, may be negative; of a
    volume, frame. rows, columns: how many. frame: of a volume, the first of a step's frames that it
    computes.
    """

    number: int
    first: tuple[int, int]
    stride: tuple[int, int]
    read: int
    rows: int
    columns: int
    frame: int = 0


Pieces = Sequence[tuple[Sequence[int], View]]
"""Offsets of the rows that a step holds, those of one image behind those of the other, and the view, of
each piece of its input.
"""

Table = Sequence[int]
"""Offsets of rows."""

Reader = Callable[[Part, int], list[tuple[Table | None, View]]]
"""(part, rows of the layout that its taps span) -> tables of the rows that it reads, so many of each image,
each of a piece of the input; without one it is all padding.
"""


class Layout(Protocol):
    """Where rows that a kernel reads and writes lie in those of the layer."""

    @property
    def width(self) -> int:
        """Columns of the input."""

    def takes(self, step: Step) -> bool:
        """Whether rows lie as kernels want them."""

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        """What parts of a step read that holds these rows of each of its images."""

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        """Offsets of the rows that a part writes of an image. there: of the step's."""


@dataclass(frozen=True)
class Map:
    """Rows as the layer has them."""

    width: int

    def takes(self, step: Step) -> bool:
        return reads_a_map(step)

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        def read(part: Part, reach: int) -> list[tuple[Table | None, View]]:
            seen = range(part.read, part.read + reach)
            return [(rows_read(rows, held, seen, images), piece) for rows, piece in there]

        return read

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        return list(there[part.first[0] :: part.stride[0]])


@dataclass(frozen=True)
class Frames:
    """Lines of frames, an output frame a part. through, down: the windows along frames and along lines."""

    width: int
    through: Window
    down: Window

    def takes(self, step: Step) -> bool:
        return reads_a_volume(step)

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        known: dict[tuple[int, int], Table] = {}

        def table(frame: int, number: int, reach: int) -> Table | None:
            if not held.start <= frame < held.stop:
                return None
            if (frame, number) not in known:
                rows, piece = there[number]
                known[frame, number] = [
                    at
                    for one in rows[frame - held.start :: len(held)]
                    for at in lines(one, piece, -self.down.pad_top, reach)
                ]
            return known[frame, number]

        def read(part: Part, reach: int) -> list[tuple[Table | None, View]]:
            taps = range(self.through.kernel)
            frames = [part.read + tap * self.through.dilation for tap in taps]
            found = [
                (table(frame, number, reach), piece)
                for frame in frames
                for number, (_, piece) in enumerate(there)
            ]
            if all(one is None for one, _ in found):
                found[0] = [PADDING] * reach * images, found[0][1]
            return found

        return read

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        return lines(there[part.frame], view, 0, part.rows)


@dataclass(frozen=True)
class Lines:
    """Lines of frames, all of a step in one part. high: lines of an output frame. through, down: as those
    of `Frames`.
    """

    width: int
    high: int
    through: Window
    down: Window

    def takes(self, step: Step) -> bool:
        return reads_a_volume(step)

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        def read(part: Part, reach: int) -> list[tuple[Table | None, View]]:
            frames = [
                [first + tap * self.through.dilation for tap in range(self.through.kernel)]
                for k in range(part.rows // self.high)
                for first in [part.read + k * self.through.stride]
            ]
            return [
                (lines_read(rows, piece, held, frames, self.high, self.down, images), piece)
                for rows, piece in there
            ]

        return read

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        return [at for frame in there for at in lines(frame, view, 0, self.high)]


def lines_read(
    there: Sequence[int],
    view: View,
    held: Rows,
    frames: Sequence[Sequence[int]],
    high: int,
    down: Window,
    images: int,
) -> Table:
    """Offsets of the lines that each of the `high` lines of every output frame reads: of all frames that
    this one reads, one after the other. there: of the frames that a step holds, others are padding; of all
    images.
    """
    found: list[int] = []
    bases = [image * len(held) - held.start for image in range(images)]
    for base, read in product(bases, frames):
        seen = [there[base + k] if held.start <= k < held.stop else PADDING for k in read]
        for line in range(high):
            top = line * down.stride - down.pad_top
            for at in seen:
                padded = [PADDING] * down.kernel
                found += (
                    padded if at == PADDING else lines(at, view, top, down.kernel, down.dilation)
                )
    return found


def sizes_of(tensor: Tensor) -> tuple[int, ...]:
    """Of a map or of frames along all axes but channels; a signal is a map one wide."""
    return tensor.shape[2:] if len(tensor.shape) > 3 else (*tensor.shape[2:], 1)


def windows_along(layer: Layer) -> tuple[Window, ...]:
    """Along the axes of `sizes_of`."""
    windows = windows_of(layer.attributes)
    return windows if len(windows) > 1 else (*windows, Window(1))


def laid_out(
    layer: Layer, window: Window | None = None
) -> tuple[Layout, Callable[[Rows], Part], Window]:
    """The layout of a layer whose windows slide over input 0, line by line if its rows are frames; the one
    part of a step that makes such rows; and the window down the rows of the layout. window: along the
    layer's rows, if it is not the layer's.
    """
    x = layer.inputs[0]
    assert x is not None
    rows, *down, _ = windows_along(layer)
    rows = window or rows
    *high, columns = sizes_of(layer.output)[1:]
    each = high[0] if high else 1

    def part(out: Rows) -> Part:
        read = out.start * rows.stride - rows.pad_top
        return Part(0, (0, 0), (1, 1), read, len(out) * each, columns)

    width = sizes_of(x)[-1]
    if not down:
        return Map(width), part, rows
    taps = rows.kernel * down[0].kernel
    return Lines(width, each, rows, down[0]), part, Window(taps, taps)


def tables_read(
    layout: Layout, part: Part, rows: Window, step: Step
) -> tuple[list[tuple[Table, View]], int]:
    """Of each piece of what a step reads the rows that a part of it reads, and the piece; and how many rows
    these are of an image. rows: see `laid_out`.
    """
    view, reach = step.inputs[0], (part.rows - 1) * rows.stride + rows.extent
    assert view is not None
    there = [(piece.rows, piece) for piece in view.pieces or (view,)]
    found = layout.reader(rows_held(step), there, step.phase.images)(part, reach)
    return [(table, piece) for table, piece in found if table is not None], reach
