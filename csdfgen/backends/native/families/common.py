"""What do families have in common? What a family is, activations, and which rows kernels read and write.

Kernels know maps of two axes. Of a layer of one or two axes their rows are its rows. Of one of three
axes a row is a plane, and kernels go along its lines, in one of two ways:

- plane by plane (`Planes`): what the taps of an output plane read are as many maps, taken for pieces of
  one, channels one behind the other. Planes of padding are pieces without a table, which kernels pass
  over. Of layers of one group, whose weights are put in that order.
- line by line (`Lines`): the lines that an output line reads are rows of a window that is as high as
  there are such, and each output line has a table of its own. Of any layer; every line is listed as often
  as it is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Protocol, TypeVar

import numpy as np

from csdfgen.backends.native.structures import (
    CLIP,
    ERF,
    GELU,
    GELU_TANH,
    HARD_SIGMOID,
    HARD_SWISH,
    LEAKY,
    MISH,
    NONE,
    SIGMOID,
    SWISH,
    TANH,
)
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops.windows import list_windows
from csdfgen.program.instructions import PADDING, Constants, Instruction
from csdfgen.program.steps import Form, Step, View

FLOAT = 4
"""Bytes of an element."""

_Value = TypeVar("_Value")


class Family(ABC):
    """Layers that are computed by one kind of kernel. kernels: of its instructions, beside those on arrays. joins: whether
    steps of several images are handed to it whole, not image by image.
    """

    kernels: tuple[str, ...] = ()

    joins = True

    @abstractmethod
    def takes(self, step: Step) -> bool:
        """Whether the kernel can be handed the step's rows where they are."""

    def follows(self, layer: Layer) -> int:
        """How many layers of the epilogue the kernel computes on the way."""
        return 0

    def workspace(self, step: Step, limit: int | None) -> int:
        """Bytes that the kernel takes."""
        return 0

    def least(self, step: Step) -> int:
        """Bytes of workspace without which the kernel cannot compute a step. The plan of another backend may have
        fewer: then the step is computed as numpy does it.
        """
        return self.workspace(step, 0)

    def within(self, layer: Layer, start: int, stop: int) -> tuple[Family, int, int] | None:
        """The kernel for columns [start, stop) of the output alone, as a map of its own, and the columns of the inputs that
        it reads, as maps of their own; None where it does not have columns apart.
        """
        return None

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        """The family of the layer on elements of two bytes of a type, whose values it knows, with the same bits as if these
        were widened and its results rounded; None where it has no kernels for them.
        """
        return None

    def forms(self, layer: Layer, rows: int) -> tuple[Form, ...]:
        """See `Backend.forms_of`."""
        return ()

    @abstractmethod
    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        """The step, with what it computes on the way. constants: pools of tables and weights."""


# What follows in the slab ------------------------------------------------------------------------


def activation(layer: Layer) -> tuple[int, float, float] | None:
    """A layer of an epilogue as an activation of the kernels; None if it is none of these."""
    given = layer.attributes
    if layer.op_type == "Relu":
        return CLIP, 0.0, inf
    if layer.op_type == "Clip" and "bounds" not in given:
        return CLIP, float(given["min"]), float(given["max"])
    if layer.op_type == "LeakyRelu":
        return LEAKY, float(given["alpha"]), 0.0
    if layer.op_type == "Sigmoid":
        return SIGMOID, 0.0, 0.0
    if layer.op_type == "Swish":
        return SWISH, float(given["alpha"]), 0.0
    if layer.op_type == "HardSigmoid":
        return HARD_SIGMOID, float(given["alpha"]), float(given["beta"])
    if layer.op_type == "HardSwish":
        return HARD_SWISH, 1 / 6, 0.5
    if layer.op_type == "Gelu":
        return GELU_TANH if given["approximate"] == "tanh" else GELU, 0.0, 0.0
    alone = {"Tanh": TANH, "Erf": ERF, "Mish": MISH}.get(layer.op_type)
    return None if alone is None else (alone, 0.0, 0.0)


def _first(layer: Layer) -> tuple[int, float, float] | None:
    found = activation(layer.epilogue[0]) if layer.epilogue else None
    return found if found is not None and found[0] in (CLIP, LEAKY) else None


def count_activations(layer: Layer) -> int:
    """How many layers of the epilogue are activations that a kernel computes on the way."""
    return 0 if _first(layer) is None else 1


def epilogue_activation(layer: Layer) -> tuple[int, float, float]:
    """Kind and settings of the activation that a kernel computes on the way."""
    return _first(layer) or (NONE, 0.0, 0.0)


# Rows --------------------------------------------------------------------------------------------


def is_map(view: View) -> bool:
    """Whether rows are (columns, 1, channels) or (1, channels), channels side by side."""
    return len(view.shape) in (2, 3) and _has_pixels(view)


def is_volume(view: View) -> bool:
    """Whether rows are planes, (lines, columns, 1, channels), channels side by side."""
    return len(view.shape) == 4 and _has_pixels(view)


def _has_pixels(view: View) -> bool:
    *_, images, channels = view.shape
    size = view.format.itemsize
    return (
        images == 1
        and (channels == 1 or view.strides[-1] == size)
        and all(stride % size == 0 for stride in view.strides[:-2])
    )


def reads_map(step: Step) -> bool:
    """Whether a step makes a map, not in pieces, of one that may be in pieces along its channels."""
    return _reads(step, is_map)


def reads_volume(step: Step) -> bool:
    """The same of planes."""
    return _reads(step, is_volume)


def _reads(step: Step, are: Callable[[View], bool]) -> bool:
    view, out = step.view(0), step.outputs[0]
    return (
        not step.states
        and not out.pieces
        and (not view.pieces or view.along == len(view.shape) - 1)
        and all(are(one) for one in (*(view.pieces or (view,)), out))
    )


def pixel(view: View) -> int:
    """Elements from a column to the next."""
    return view.strides[-3] // view.format.itemsize if len(view.shape) > 2 else view.shape[-1]


def lines(plane: int, view: View, first: int, count: int, step: int = 1) -> list[int]:
    """Offsets of `count` lines of a plane that is one of a view's rows, from `first` on, so many lines
    apart; those beside it are padding.
    """
    wanted = range(first, first + count * step, step)
    return [plane + at * view.strides[0] if 0 <= at < view.shape[0] else PADDING for at in wanted]


def is_dense(view: View) -> bool:
    """Whether the elements of a row lie one after the other."""
    steps = dense_strides(view.shape, view.format.itemsize)
    return all(
        size == 1 or own == step
        for size, own, step in zip(view.shape, view.strides, steps, strict=True)
    )


def dense_strides(shape: Sequence[int], size: int = FLOAT) -> tuple[int, ...]:
    """Bytes from one index to the next along each axis of such a row. size: bytes of an element."""
    return tuple(size * prod(shape[axis + 1 :]) for axis in range(len(shape)))


def offsets(view: View) -> np.ndarray:
    """Of every element of rows without pieces the offset in their pool, shape (rows, *row shape)."""
    found = np.asarray(view.rows, np.int64)
    for size, stride in zip(view.shape, view.strides, strict=True):
        found = found[..., None] + stride * np.arange(size)
    return found


def memoize(make: Callable[[], _Value]) -> Callable[[], _Value]:
    """What `make` gives, made when first asked for."""
    made: list[_Value] = []

    def get() -> _Value:
        if not made:
            made.append(make())
        return made[0]

    return get


def held_rows(step: Step) -> Rows:
    """Rows of an image of input 0 that the step holds: all of them, where it has several images."""
    x, held = step.layer.computed(0), step.phase.held(0)
    return held if step.phase.images == 1 else Rows(0, x.rows)


def read_row_offsets(
    there: Sequence[int], held: Rows, rows: Sequence[int], images: int = 1
) -> list[int]:
    """Offsets of these rows; one that the step does not hold is padding. Those of one image behind those of the other;
    `there` has the held ones of all.
    """
    bases = [image * len(held) - held.start for image in range(images)]
    return [
        there[base + r] if held.start <= r < held.stop else PADDING for base in bases for r in rows
    ]


# Layouts: which rows of a layer kernels read and write --------------------------------------------


@dataclass(frozen=True)
class Part:
    """A filter and the outputs that it computes: every `stride`-th row and column from `first` on.

    read: row of the input that the first tap of the first of these rows meets, may be negative; of a
    volume, plane. rows, columns: how many. plane: of a volume, the first of a step's planes that it
    computes.
    """

    number: int
    first: tuple[int, int]
    stride: tuple[int, int]
    read: int
    rows: int
    columns: int
    plane: int = 0


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
        return reads_map(step)

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        def read(part: Part, reach: int) -> list[tuple[Table | None, View]]:
            seen = range(part.read, part.read + reach)
            return [(read_row_offsets(rows, held, seen, images), piece) for rows, piece in there]

        return read

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        return list(there[part.first[0] :: part.stride[0]])


@dataclass(frozen=True)
class Planes:
    """Lines of planes, an output plane a part. through, down: the windows along planes and along lines."""

    width: int
    through: Window
    down: Window

    def takes(self, step: Step) -> bool:
        return reads_volume(step)

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        known: dict[tuple[int, int], Table] = {}

        def table(plane: int, number: int, reach: int) -> Table | None:
            if not held.start <= plane < held.stop:
                return None
            if (plane, number) not in known:
                rows, piece = there[number]
                known[plane, number] = [
                    at
                    for one in rows[plane - held.start :: len(held)]
                    for at in lines(one, piece, -self.down.pad_top, reach)
                ]
            return known[plane, number]

        def read(part: Part, reach: int) -> list[tuple[Table | None, View]]:
            taps = range(self.through.kernel)
            planes = [part.read + tap * self.through.dilation for tap in taps]
            found = [
                (table(plane, number, reach), piece)
                for plane in planes
                for number, (_, piece) in enumerate(there)
            ]
            if all(one is None for one, _ in found):
                found[0] = [PADDING] * reach * images, found[0][1]
            return found

        return read

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        return lines(there[part.plane], view, 0, part.rows)


@dataclass(frozen=True)
class Lines:
    """Lines of planes, all in one part. high: lines of an output plane, from `first` on, so many lines apart. through,
    down: see `Planes`.
    """

    width: int
    high: int
    through: Window
    down: Window
    first: int = 0
    apart: int = 1

    def takes(self, step: Step) -> bool:
        return reads_volume(step)

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        def read(part: Part, reach: int) -> list[tuple[Table | None, View]]:
            planes = [
                [first + tap * self.through.dilation for tap in range(self.through.kernel)]
                for k in range(part.rows // self.high)
                for first in [part.read + k * self.through.stride]
            ]
            return [
                (read_line_offsets(rows, piece, held, planes, self.high, self.down, images), piece)
                for rows, piece in there
            ]

        return read

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        planes = there[part.first[0] :: part.stride[0]]
        return [at for one in planes for at in lines(one, view, self.first, self.high, self.apart)]


@dataclass(frozen=True)
class EachLines:
    """Lines of planes that differ between filters. each: of every filter."""

    width: int
    each: Sequence[Lines]

    def takes(self, step: Step) -> bool:
        return reads_volume(step)

    def reader(self, held: Rows, there: Pieces, images: int) -> Reader:
        return lambda part, reach: self.each[part.number].reader(held, there, images)(part, reach)

    def written(self, part: Part, there: Sequence[int], view: View) -> list[int]:
        return self.each[part.number].written(part, there, view)


def read_line_offsets(
    there: Sequence[int],
    view: View,
    held: Rows,
    planes: Sequence[Sequence[int]],
    high: int,
    down: Window,
    images: int,
) -> Table:
    """Offsets of the lines that each of the `high` lines of every output plane reads: of all planes that
    this one reads, one after the other. there: of the planes that a step holds, others are padding; of all
    images.
    """
    found: list[int] = []
    bases = [image * len(held) - held.start for image in range(images)]
    for base, read in product(bases, planes):
        seen = [there[base + k] if held.start <= k < held.stop else PADDING for k in read]
        for line in range(high):
            top = line * down.stride - down.pad_top
            for at in seen:
                padded = [PADDING] * down.kernel
                found += (
                    padded if at == PADDING else lines(at, view, top, down.kernel, down.dilation)
                )
    return found


def spatial_sizes(tensor: Tensor) -> tuple[int, ...]:
    """Of a map or of planes along all axes but channels; a signal is a map one wide."""
    return tensor.shape[2:] if len(tensor.shape) > 3 else (*tensor.shape[2:], 1)


def read_along(across: Window, start: int, stop: int, width: int) -> tuple[int, int, int]:
    """The columns [low, high) of a map so wide that outputs [start, stop) of a row read, and the padding at their left.

    >>> read_along(Window(3, 2, pad_top=1), 0, 4, 20), read_along(Window(3, 2, pad_top=1), 4, 8, 20)
    ((0, 8, 1), (7, 16, 0))
    """
    first = start * across.stride - across.pad_top
    low = min(max(0, first), width - 1)
    end = (stop - 1) * across.stride - across.pad_top + across.extent
    return low, max(low + 1, min(width, end)), low - first


def spatial_windows(layer: Layer) -> tuple[Window, ...]:
    """Along the axes of `spatial_sizes`."""
    windows = list_windows(layer.attributes)
    return windows if len(windows) > 1 else (*windows, Window(1))


def choose_layout(
    layer: Layer, window: Window | None = None
) -> tuple[Layout, Callable[[Rows], Part], Window]:
    """The layout of a layer whose windows slide over input 0, line by line if its rows are planes; the one
    part of a step that makes such rows; and the window down the rows of the layout. window: along the
    layer's rows, if it is not the layer's.
    """
    x = layer.computed(0)
    rows, *down, _ = spatial_windows(layer)
    rows = window or rows
    *high, columns = spatial_sizes(layer.output)[1:]
    each = high[0] if high else 1

    def part(out: Rows) -> Part:
        read = out.start * rows.stride - rows.pad_top
        return Part(0, (0, 0), (1, 1), read, len(out) * each, columns)

    width = spatial_sizes(x)[-1]
    if not down:
        return Map(width), part, rows
    taps = rows.kernel * down[0].kernel
    return Lines(width, each, rows, down[0]), part, Window(taps, taps)


def build_read_tables(
    layout: Layout, part: Part, rows: Window, step: Step
) -> tuple[list[tuple[Table, View]], int]:
    """Of each piece of what a step reads the rows that a part of it reads, and the piece; and how many rows
    these are of an image. rows: see `choose_layout`.
    """
    view, reach = step.view(0), (part.rows - 1) * rows.stride + rows.extent
    there = [(piece.rows, piece) for piece in view.pieces or (view,)]
    found = layout.reader(held_rows(step), there, step.phase.images)(part, reach)
    return [(table, piece) for table, piece in found if table is not None], reach
