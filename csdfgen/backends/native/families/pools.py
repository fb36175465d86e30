"""Which pools have a kernel? MaxPool and AveragePool of one to three axes, and the global ones."""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.backends.native.families.common import Family, activated, followed, pixel
from csdfgen.backends.native.families.pool_windows import (
    PoolWindows,
    map_read,
    slides_over,
    values_seen,
)
from csdfgen.backends.native.records import Activation, Source, instruction
from csdfgen.backends.native.structures import structure
from csdfgen.model.network import Layer
from csdfgen.ops.pooling import counted
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Step

__all__ = ["POOLS"]

PoolStep = structure("csdf_pool_step").record


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

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        layer, phase = step.layer, step.phase
        windows, padded = PoolWindows.of(layer, step), layer.attributes["count_include_pad"]
        down, along = values_seen(
            layer, windows.out, lambda window, out, size: counted(window, out, size, padded)
        )
        seen = [
            constants.table("int32_t", [max(1, value) for value in values])
            for values in (down * phase.images, along)
        ]  # at least one each: windows that see nothing have a sum of nothing
        found = []
        for piece, table, there in windows.parts(step, constants):
            made = PoolStep(
                int(self.average),
                *windows.fields,
                int(phase.first or not windows.accumulates),
                int(phase.last or not windows.accumulates),
                windows.made,
                windows.columns,
                pixel(step.outputs[0]),
                Source(table, pixel(piece), piece.shape[-1]),
                there,
                *seen,
                Activation(*activated(layer)),
            )
            found.append(instruction("pool_of", made))
        return found


def _pool(layer: Layer) -> Family | None:
    return None if map_read(layer) is None else _Pool(layer.op_type.endswith("AveragePool"))


POOLS = dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool)
"""Operator -> what makes a family of a layer."""
