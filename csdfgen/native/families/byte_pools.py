"""Which pools of bytes have a kernel? MaxPool and QLinearAveragePool of one or two axes, GlobalMaxPool, and
the average of whole maps, QLinearGlobalAveragePool.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from csdfgen.kernels.steps import Memory, Step
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.native.families.common import (
    Family,
    addresses,
    is_dense,
    is_map,
    pixel,
    pointers,
    reads_a_map,
)
from csdfgen.native.families.pool_windows import PoolWindows, columns_of, map_read, window_pair
from csdfgen.native.library import ByteAverageStep, BytePoolStep, ByteSource, ByteSumStep
from csdfgen.native.strided import Native
from csdfgen.ops._integers import BYTES, limits, scale_of, zero_of
from csdfgen.ops.pooling import counted
from csdfgen.ops.quantized_pools import averaged

__all__ = ["BYTE_POOLS"]


class _Without:
    """Families that leave what follows to others and need no workspace."""

    joins = False

    def follows(self, layer: Layer) -> int:
        return 0

    def workspace(self, step: Step, limit: int | None) -> int:
        return 0


class _Greatest(_Without):
    """Of what each window sees."""

    joins = True

    def takes(self, step: Step) -> bool:
        return reads_a_map(step)

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        layer, phase, x = step.layer, step.phase, step.layer.inputs[0]
        assert x is not None
        windows = PoolWindows.of(layer, step)
        found = []
        for piece, table, there in windows.parts(step, memory):
            made = BytePoolStep(
                128 if x.dtype == "uint8" else 0,
                *windows.fields,
                int(phase.first or not windows.accumulates),
                windows.made,
                windows.columns,
                pixel(step.outputs[0]),
                ByteSource(ctypes.addressof(table), pixel(piece), piece.shape[-1]),
                ctypes.addressof(there),
            )
            found.append(Native("pool_bytes_of", made, table, there))
        return found


@dataclass(frozen=True, eq=False)
class _Windows(_Without):
    """The average of what each window sees. Where one sees all rows, its sums are a state, and are left
    to loops.
    """

    layer: Layer
    joins = True

    def takes(self, step: Step) -> bool:
        return reads_a_map(step)

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        layer, x = self.layer, self.layer.inputs[0]
        assert x is not None
        windows = PoolWindows.of(layer, step)
        down, along = _seen(layer, windows.out)
        seen, seen_across = _integers((*down,) * step.phase.images), _integers(along)
        found = []
        for piece, table, there in windows.parts(step, memory):
            made = ByteAverageStep(
                128 if x.dtype == "uint8" else 0,
                *windows.fields,
                windows.made,
                windows.columns,
                pixel(step.outputs[0]),
                zero_of(layer, "x"),
                zero_of(layer, "y"),
                *limits(layer.output.dtype),
                float(scale_of(layer, "x")),
                float(scale_of(layer, "y")),
                ByteSource(ctypes.addressof(table), pixel(piece), piece.shape[-1]),
                *(ctypes.addressof(one) for one in (there, seen, seen_across)),
            )
            found.append(Native("average_bytes_of", made, table, there, seen, seen_across))
        return found


def _seen(layer: Layer, out: Rows) -> tuple[Sequence[int], Sequence[int]]:
    """How many values a sum is divided by: along the rows, and along the columns."""
    x, windows, columns = layer.inputs[0], window_pair(layer), Rows(0, columns_of(layer.output))
    assert x is not None
    if layer.attributes["count_include_pad"]:
        rows, across = windows
        return (rows.kernel,) * len(out), (across.kernel,) * len(columns)
    return (
        counted(windows[0], out, x.shape[2], False),
        counted(windows[1], columns, columns_of(x), False),
    )


def _integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    return (ctypes.c_int32 * len(values))(*values)


@dataclass(frozen=True, eq=False)
class _Average(_Without):
    """Of all of a map: its sums are a state of floats."""

    layer: Layer

    def takes(self, step: Step) -> bool:
        view = step.inputs[0]
        assert view is not None
        return (
            len(step.states) == 1
            and step.states[0].format.dtype == "float32"
            and (not view.pieces or view.along == len(view.shape) - 1)
            and all(is_map(one) for one in view.pieces or (view,))
            and all(
                not one.pieces and one.count == 1 and is_dense(one)
                for one in (*step.states, *step.outputs)
            )
        )

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        layer, phase, view = step.layer, step.phase, step.inputs[0]
        assert view is not None
        into, rest = averaged(layer)
        (state,), (written,) = (addresses(one, memory) for one in (step.states[0], step.outputs[0]))
        found, low = [], 0
        for piece in view.pieces or (view,):
            table = pointers(addresses(piece, memory))
            made = ByteSumStep(
                128 if layer.attributes["x"].dtype == "uint8" else 0,
                int(phase.first),
                int(phase.last),
                piece.count,
                piece.shape[0] if len(piece.shape) == 3 else 1,
                rest,
                into.zero,
                into.low,
                into.high,
                float(into.factor.values),
                ByteSource(ctypes.addressof(table), pixel(piece), piece.shape[-1]),
                state + 4 * low,
                written + low,
            )
            found.append(Native("sum_bytes_of", made, table))
            low += piece.shape[-1]
        return found


def greatest(layer: Layer) -> Family | None:
    """MaxPool and GlobalMaxPool of bytes."""
    x = map_read(layer)
    if x is None or x.dtype not in BYTES:
        return None
    return _Greatest() if layer.output.dtype == x.dtype else None


def average(layer: Layer) -> Family | None:
    """QLinearGlobalAveragePool of one or two axes."""
    return None if map_read(layer) is None else _Average(layer)


def averages(layer: Layer) -> Family | None:
    """QLinearAveragePool of one or two axes, whose windows all see something."""
    if map_read(layer) is None:
        return None
    sees = all(min(one) > 0 for one in _seen(layer, Rows(0, layer.output.shape[2])))
    return _Windows(layer) if sees else None


BYTE_POOLS: dict[str, Callable[[Layer], Family | None]] = {
    "MaxPool": greatest,
    "GlobalMaxPool": greatest,
    "QLinearAveragePool": averages,
    "QLinearGlobalAveragePool": average,
}
"""Operator -> what makes a family of a layer."""
