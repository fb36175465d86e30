"""Which pools have a kernel? MaxPool and AveragePool of one to three axes, and the global ones.

Pools of floats and of bytes have their windows in common. A pool whose window covers all rows accumulates: the rows that
a step holds are the window, and the output is what it continues from. Of planes, every line of the output has a window of
all lines that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from csdfgen.backends.native.families.common import (
    Family,
    count_activations,
    epilogue_activation,
    held_rows,
    lines,
    pixel,
    read_along,
    read_line_offsets,
    read_row_offsets,
    reads_map,
    reads_volume,
    spatial_sizes,
    spatial_windows,
)
from csdfgen.backends.native.structures import (
    Activation,
    Source,
    instruction,
    structure,
    type_suffix,
)
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.ops.pooling import count_taps
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Step, View

PoolStep = structure("csdf_pool_step").record

AT_ONCE = 64
"""Values of a window that the kernel adds up at a time (c/pool.h)."""


@dataclass(frozen=True)
class Taps:
    """Rows under windows: output row r reads rows r * stride + y * dilation of a table, for y in [0,
    kernel). rows: of an image, that the table has.
    """

    kernel: int
    stride: int
    dilation: int
    rows: Sequence[int]

    @classmethod
    def of(cls, step: Step, window: Window, alone: bool = False) -> Taps:
        """Of a layer that accumulates all rows that the step holds; else of a window, each one with rows
        of its own where there are several images, so that the next image can follow, or where it is to be
        alone.
        """
        out, held = step.phase.out, held_rows(step)
        if get_operator(step.layer).mode(step.layer) is Mode.ACCUMULATE:
            return cls(len(held), len(held), 1, range(held.start, held.stop))
        first = out.start * window.stride - window.pad_top
        if step.phase.images == 1 and not alone:
            reach = (len(out) - 1) * window.stride + window.extent
            return cls(window.kernel, window.stride, window.dilation, range(first, first + reach))
        tops = range(first, first + len(out) * window.stride, window.stride)
        taps = range(0, window.extent, window.dilation)
        return cls(window.kernel, window.kernel, 1, [top + tap for top in tops for tap in taps])

    def table(self, step: Step, piece: View) -> list[int]:
        """Their offsets in all images, of a piece of what the step reads."""
        return read_row_offsets(piece.rows, held_rows(step), self.rows, step.phase.images)


def map_read(layer: Layer) -> Tensor | None:
    """What a pool reads, where that is cut along the rows of its windows."""
    x = layer.inputs[0]
    return x if x is not None and x.row_axis == layer.input_axes[0] else None


def has_sliding_rows(step: Step) -> bool:
    """Whether rows lie as windows go over them."""
    return reads_map(step) or reads_volume(step)


def count_window_values(
    layer: Layer, out: Rows, count: Callable[[Window, Rows, int], Sequence[int]]
) -> tuple[list[int], Sequence[int]]:
    """How many values windows see: of each row of a kernel's output, for rows `out` of the layer's, and of
    each column. count: those of a window at some positions, over an input of so many values.
    """
    x = layer.computed(0)
    outs = out, *(Rows(0, size) for size in spatial_sizes(layer.output)[1:])
    *outer, across = (
        count(*one) for one in zip(spatial_windows(layer), outs, spatial_sizes(x), strict=True)
    )
    return [prod(one) for one in product(*outer)], across


@dataclass(frozen=True, slots=True)
class PoolWindows:
    """The windows of a step. taps: the rows that they see. across: along the columns. down: of planes, along
    their lines, of which each that is made has `high`. out: rows that the step makes, of each of its images;
    made: of all, and of planes their lines. width, columns: of what it reads, and of what it makes.
    """

    taps: Taps
    across: Window
    down: Window | None
    high: int
    accumulates: bool
    out: Rows
    made: int
    width: int
    columns: int

    @classmethod
    def of(cls, layer: Layer, step: Step) -> PoolWindows:
        """Those of a step of a pool. layer: the pool, as the kernel knows it."""
        x, phase = layer.computed(0), step.phase
        rows, *inner, across = spatial_windows(layer)
        down = inner[0] if inner else None
        accumulates = get_operator(layer).mode(layer) is Mode.ACCUMULATE
        out = Rows(0, 1) if accumulates else phase.out
        *high, columns = spatial_sizes(layer.output)[1:]
        made = step.outputs[0].count * prod(high)
        taps, width = Taps.of(step, rows, alone=down is not None), spatial_sizes(x)[-1]
        return cls(taps, across, down, prod(high), accumulates, out, made, width, columns)

    @property
    def fields(self) -> tuple[int, ...]:
        """From `kernel_h` to `width`, as the structures of all kernels have them."""
        each = self.down.kernel if self.down else 1
        return (
            self.taps.kernel * each, self.across.kernel, self.taps.stride * each, self.across.stride,
            self.taps.dilation, self.across.dilation, self.across.pad_top, self.width,
        )  # fmt: skip

    def parts(self, step: Step, constants: Constants) -> Iterator[tuple[View, Ref, Ref]]:
        """For every piece of what is read, which has some of the channels: the piece, its rows, and where the
        step's rows of these channels are written.
        """
        view, target = step.view(0), step.outputs[0]
        written, low = list(target.rows), 0
        if self.down:
            written = [at for plane in written for at in lines(plane, target, 0, self.high)]
        for piece in view.pieces or (view,):
            rows = constants.rows(piece.pool, self._table(step, piece))
            into = [at + target.format.itemsize * low for at in written]
            yield piece, rows, constants.rows(target.pool, into)
            low += piece.shape[-1]

    def _table(self, step: Step, piece: View) -> Sequence[int]:
        if self.down is None:
            return self.taps.table(step, piece)
        seen, count = self.taps.rows, self.taps.kernel
        planes = [seen[start : start + count] for start in range(0, len(seen), count)]
        held, images = held_rows(step), step.phase.images
        return read_line_offsets(piece.rows, piece, held, planes, self.high, self.down, images)


# Pools of floats ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pool(Family):
    """average: of what each window sees, else the greatest of it. some: columns of the output that are made, from those of
    the input that they see. halves: the kernels' name of a type of two bytes that is read and written; "" for none.
    """

    average: bool
    some: tuple[int, int] | None = None
    halves: str = ""

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        return (f"pool_{self.halves}of",)

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        taps = prod(window.kernel for window in spatial_windows(layer))
        if self.average and taps >= AT_ONCE:
            return None  # sums would be rounded between
        return replace(self, halves=f"{type_suffix(np.dtype(dtype))}_")

    def takes(self, step: Step) -> bool:
        return has_sliding_rows(step)

    def follows(self, layer: Layer) -> int:
        return count_activations(layer)

    def within(self, layer: Layer, start: int, stop: int) -> tuple[Family, int, int] | None:
        x, windows = layer.inputs[0], spatial_windows(layer)
        if x is None or len(windows) != 2 or get_operator(layer).mode(layer) is Mode.ACCUMULATE:
            return None
        low, high, _ = read_along(windows[-1], start, stop, spatial_sizes(x)[-1])
        return replace(self, some=(start, stop)), low, high

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        layer, phase = step.layer, step.phase
        windows, padded = PoolWindows.of(layer, step), layer.attributes["count_include_pad"]
        down, along = count_window_values(
            layer, windows.out, lambda window, out, size: count_taps(window, out, size, padded)
        )
        if windows.accumulates and not phase.last:
            down = [1] * len(down)  # nothing is divided yet, whatever the height
        if self.some is not None:
            low, high, left = read_along(windows.across, *self.some, windows.width)
            across = replace(windows.across, pad_top=left)
            start, stop = self.some
            windows = replace(windows, across=across, width=high - low, columns=stop - start)
            along = along[start:stop]
        seen = [
            constants.table("int32_t", [max(1, value) for value in values])
            for values in (down * phase.images, along)
        ]  # at least one each: windows that see nothing have a sum of nothing
        found = []
        for piece, table, there in windows.parts(step, constants):
            made = PoolStep(
                int(self.average), *windows.fields,
                int(phase.first or not windows.accumulates), int(phase.last or not windows.accumulates),
                windows.made, windows.columns, pixel(step.outputs[0]),
                Source(table, pixel(piece), piece.shape[-1]), there, *seen, Activation(*epilogue_activation(layer)),
            )  # fmt: skip
            found.append(instruction(f"pool_{self.halves}of", made))
        return found


def _pool(layer: Layer) -> Family | None:
    return None if map_read(layer) is None else _Pool(layer.op_type.endswith("AveragePool"))


POOLS = dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool)
"""Operator -> what makes a family of a layer."""
