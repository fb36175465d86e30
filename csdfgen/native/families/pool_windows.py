"""Which rows do the windows of a pool see in one step? What pools of floats and of bytes have in common.

A pool whose window covers all rows accumulates: the rows that a step holds are the window, and the
output is what it goes on from.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from csdfgen.kernels.steps import Memory, Step, View
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.native.families.common import Taps, addresses, pointers
from csdfgen.ops import operator_of
from csdfgen.ops._windows import windows_of
from csdfgen.ops.base import Mode

__all__ = ["PoolWindows", "columns_of", "map_read", "window_pair"]


def map_read(layer: Layer) -> Tensor | None:
    """What a pool reads, where that is a map of one or two axes, cut along the rows of its windows."""
    x = layer.inputs[0]
    if x is None or len(x.shape) > 4 or x.row_axis != layer.input_axes[0]:
        return None
    return x


def window_pair(layer: Layer) -> tuple[Window, Window]:
    """Along rows and columns; of a map of one axis the latter sees a single column."""
    rows, *others = windows_of(layer.attributes)
    return rows, others[0] if others else Window(1)


def columns_of(tensor: Tensor) -> int:
    """Columns of a map; one of a map of one axis."""
    return tensor.shape[3] if len(tensor.shape) == 4 else 1


@dataclass(frozen=True, slots=True)
class PoolWindows:
    """The windows of a step. taps: the rows that they see. out: rows that it makes, of each of its images; made: of
    all. width, columns: of what it reads, and of what it makes.
    """

    rows: Window
    across: Window
    accumulates: bool
    taps: Taps
    out: Rows
    made: int
    width: int
    columns: int

    @classmethod
    def of(cls, layer: Layer, step: Step) -> PoolWindows:
        """Those of a step of a pool. layer: the pool, as the kernel knows it."""
        x, phase = layer.inputs[0], step.phase
        assert x is not None
        rows, across = window_pair(layer)
        accumulates = operator_of(layer).mode(layer) is Mode.ACCUMULATE
        out = Rows(0, 1) if accumulates else phase.out
        sizes = columns_of(x), columns_of(layer.output)
        made = step.outputs[0].count
        return cls(rows, across, accumulates, Taps.of(step, rows), out, made, *sizes)

    @property
    def fields(self) -> tuple[int, ...]:
        """From `kernel_h` to `width`, as the structures of all kernels have them."""
        return (
            self.taps.kernel,
            self.across.kernel,
            self.taps.stride,
            self.across.stride,
            self.taps.dilation,
            self.across.dilation,
            self.across.pad_top,
            self.width,
        )

    def parts(
        self, step: Step, memory: Memory
    ) -> Iterator[tuple[View, ctypes.Array[Any], ctypes.Array[Any]]]:
        """For every piece of what is read, which has some of the channels: the piece, its rows, and where the
        step's rows of these channels are written.
        """
        view, target = step.inputs[0], step.outputs[0]
        assert view is not None
        written, low = addresses(target, memory), 0
        for piece in view.pieces or (view,):
            rows = self.taps.table(step, piece, memory)
            yield piece, rows, pointers([at + target.format.itemsize * low for at in written])
            low += piece.shape[-1]
