"""Which pools have a kernel? MaxPool and AveragePool of one to three axes, and the global ones."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from csdfgen.kernels.steps import Memory, Step
from csdfgen.model.network import Layer
from csdfgen.native.families.common import Family, activated, followed, pixel
from csdfgen.native.families.pool_windows import PoolWindows, map_read, slides_over, values_seen
from csdfgen.native.library import Activation, PoolStep, Source
from csdfgen.native.strided import Native
from csdfgen.ops.pooling import counted

__all__ = ["POOLS"]


@dataclass(frozen=True, eq=False)
class _Pool:
    """average: of what each window sees, else the greatest of it."""

    average: bool
    joins = True

    def takes(self, step: Step) -> bool:
        return slides_over(step)

    def follows(self, layer: Layer) -> int:
        return followed(layer)

    def workspace(self, step: Step, limit: int | None) -> int:
        return 0

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        layer, phase = step.layer, step.phase
        windows, padded = PoolWindows.of(layer, step), layer.attributes["count_include_pad"]
        down, along = values_seen(
            layer, windows.out, lambda window, out, size: counted(window, out, size, padded)
        )
        seen, seen_across = _integers(down * phase.images), _integers(along)
        found = []
        for piece, table, there in windows.parts(step, memory):
            made = PoolStep(
                int(self.average),
                *windows.fields,
                int(phase.first or not windows.accumulates),
                int(phase.last or not windows.accumulates),
                windows.made,
                windows.columns,
                pixel(step.outputs[0]),
                Source(ctypes.addressof(table), pixel(piece), piece.shape[-1]),
                *(ctypes.addressof(one) for one in (there, seen, seen_across)),
                Activation(*activated(layer)),
            )
            found.append(Native("pool_of", made, table, there, seen, seen_across))
        return found


def _integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    """At least one each: windows that see nothing have a sum of nothing."""
    return (ctypes.c_int32 * len(values))(*(max(1, value) for value in values))


def _pool(layer: Layer) -> Family | None:
    return None if map_read(layer) is None else _Pool(layer.op_type.endswith("AveragePool"))


POOLS = dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool)
"""Operator -> what makes a family of a layer."""
