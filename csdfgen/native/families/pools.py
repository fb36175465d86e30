"""Which pools have a kernel? MaxPool and AveragePool of one or two axes, and the global ones.

A pool whose window covers all rows accumulates: the rows that a step holds are the window, and the
output is what it goes on from.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from csdfgen.kernels.steps import Memory, Step
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.native.families.common import (
    FLOAT,
    Family,
    Taps,
    activated,
    addresses,
    followed,
    pixel,
    pointers,
    reads_a_map,
)
from csdfgen.native.library import Activation, PoolStep, Source
from csdfgen.native.strided import Native
from csdfgen.ops import operator_of
from csdfgen.ops._windows import windows_of
from csdfgen.ops.base import Mode
from csdfgen.ops.pooling import counted

__all__ = ["POOLS"]


@dataclass(frozen=True, eq=False)
class _Pool:
    """average: of what each window sees, else the greatest of it."""

    average: bool
    joins = True

    def takes(self, step: Step) -> bool:
        return reads_a_map(step)

    def follows(self, layer: Layer) -> int:
        return followed(layer)

    def workspace(self, step: Step, limit: int | None) -> int:
        return 0

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        layer, phase, view, target = step.layer, step.phase, step.inputs[0], step.outputs[0]
        x, images = layer.inputs[0], phase.images
        assert view is not None and x is not None
        rows, *others = windows_of(layer.attributes)
        across = others[0] if others else None
        width = x.shape[3] if across else 1
        columns = layer.output.shape[3] if across else 1
        padded = layer.attributes["count_include_pad"]
        accumulates = operator_of(layer).mode(layer) is Mode.ACCUMULATE
        out = Rows(0, 1) if accumulates else phase.out
        taps = Taps.of(step, rows)
        seen = _integers(counted(rows, out, x.shape[2], padded) * images)
        seen_across = _integers(
            counted(across, Rows(0, columns), width, padded) if across else (1,)
        )
        written, low = addresses(target, memory), 0
        found = []
        for piece in view.pieces or (view,):
            table = taps.table(step, piece, memory)
            there = pointers([at + FLOAT * low for at in written])
            made = PoolStep(
                int(self.average),
                taps.kernel,
                across.kernel if across else 1,
                taps.stride,
                across.stride if across else 1,
                taps.dilation,
                across.dilation if across else 1,
                across.pad_top if across else 0,
                width,
                int(phase.first or not accumulates),
                int(phase.last or not accumulates),
                len(written),
                columns,
                pixel(target),
                Source(ctypes.addressof(table), pixel(piece), piece.shape[-1]),
                *(ctypes.addressof(one) for one in (there, seen, seen_across)),
                Activation(*activated(layer)),
            )
            found.append(Native("pool_of", made, table, there, seen, seen_across))
            low += piece.shape[-1]
        return found


def _integers(values: tuple[int, ...]) -> ctypes.Array[ctypes.c_int32]:
    """At least one each: windows that see nothing have a sum of nothing."""
    return (ctypes.c_int32 * len(values))(*(max(1, value) for value in values))


def _pool(layer: Layer) -> Family | None:
    x = layer.inputs[0]
    if x is None or len(x.shape) > 4 or x.row_axis != layer.input_axes[0]:
        return None
    return _Pool(layer.op_type.endswith("AveragePool"))


POOLS = dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool)
"""Operator -> what makes a family of a layer."""
