"""Which pools of bytes have a kernel? MaxPool and QLinearAveragePool of one or two axes, GlobalMaxPool, and
the average of whole maps, QLinearGlobalAveragePool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import (
    Family,
    is_dense,
    is_map,
    is_volume,
    lines,
    pixel,
    spatial_sizes,
    spatial_windows,
)
from csdfgen.backends.native.families.pools import (
    PoolWindows,
    count_window_values,
    has_sliding_rows,
    map_read,
)
from csdfgen.backends.native.structures import ByteSource, instruction, structure
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.ops.integers import BYTES, get_scale, get_zero, limits, uses_shifts
from csdfgen.ops.pooling import count_taps
from csdfgen.ops.quantized_pools import average_zeros, find_count_shifts, rescale_average
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Step

BytePoolStep = structure("csdf_byte_pool_step").record
ByteAverageStep = structure("csdf_byte_average_step").record
ByteSumStep = structure("csdf_byte_sum_step").record


class _Greatest(Family):
    """Of what each window sees."""

    kernels = ("pool_bytes_of",)

    def takes(self, step: Step) -> bool:
        return has_sliding_rows(step)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        layer, phase, x = step.layer, step.phase, step.layer.computed(0)
        windows = PoolWindows.of(layer, step)
        found = []
        for piece, table, there in windows.parts(step, constants):
            made = BytePoolStep(
                128 if x.dtype == "uint8" else 0, *windows.fields, int(phase.first or not windows.accumulates),
                windows.made, windows.columns, pixel(step.outputs[0]),
                ByteSource(table, pixel(piece), piece.shape[-1]), there,
            )  # fmt: skip
            found.append(instruction("pool_bytes_of", made))
        return found


@dataclass(frozen=True, eq=False)
class _Windows(Family):
    """The average of what each window sees."""

    layer: Layer
    kernels: tuple[str, ...]

    def takes(self, step: Step) -> bool:
        return has_sliding_rows(step)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        layer, x = self.layer, self.layer.computed(0)
        windows = PoolWindows.of(layer, step)
        down, along = _seen(layer, windows.out)
        seen = [
            constants.table("int32_t", values) for values in ((*down,) * step.phase.images, along)
        ]
        by = None
        if uses_shifts(layer):
            # counts of 0 do not occur
            high, wide, *_ = windows.fields
            counts = np.array([1, *range(1, high * wide + 1)], np.float32)
            pairs = np.stack(find_count_shifts(layer, counts), -1)
            by = constants.dense(packing.aligned(pairs, "int32"))
        found = []
        for piece, table, there in windows.parts(step, constants):
            made = ByteAverageStep(
                128 if x.dtype == "uint8" else 0, *windows.fields,
                windows.made, windows.columns, pixel(step.outputs[0]),
                *average_zeros(layer), *limits(layer.output.dtype),
                float(get_scale(layer, "x")), float(get_scale(layer, "y")),
                ByteSource(table, pixel(piece), piece.shape[-1]), there, *seen, by,
            )  # fmt: skip
            found.append(instruction(self.kernels[0], made))
        return found


def _seen(layer: Layer, out: Rows) -> tuple[Sequence[int], Sequence[int]]:
    """How many values a sum is divided by: by row of the kernel's output, and by column."""
    whole = layer.attributes["count_include_pad"]
    return count_window_values(
        layer,
        out,
        lambda window, at, size: (
            (window.kernel,) * len(at) if whole else count_taps(window, at, size, include_pad=False)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Average(Family):
    """Of all of a map: its sums are a state of floats, or of integers. The average of a window that sees a whole map is
    computed in another order than that of a map.
    """

    layer: Layer
    kernels: tuple[str, ...]
    joins = False

    def takes(self, step: Step) -> bool:
        view = step.view(0)
        return (
            len(step.states) == 1
            and step.states[0].format.dtype == ("int32" if uses_shifts(self.layer) else "float32")
            and (not view.pieces or view.along == len(view.shape) - 1)
            and all(is_map(one) or is_volume(one) for one in view.pieces or (view,))
            and all(
                not one.pieces and one.count == 1 and is_dense(one)
                for one in (*step.states, *step.outputs)
            )
        )

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        layer, phase, view = step.layer, step.phase, step.view(0)
        into, rest = rescale_average(layer)
        assert into.factor is not None
        pixels = float(prod(layer.attributes["kernel_shape"]))
        by = find_count_shifts(layer, np.float32(pixels))
        factor, divisors = float(into.factor.values), (1.0, 1.0)
        if self.kernels[0] == "sum_values_of":
            rest = -get_zero(layer, "x")
            factor, divisors = float(get_scale(layer, "x")), (pixels, float(get_scale(layer, "y")))
        elif not phase.last:
            rest, factor = 0, 0.0  # only sums so far, whatever the height
        if not phase.last:
            divisors = 1.0, 1.0
        shifts = tuple(map(int, by)) if uses_shifts(layer) and phase.last else (0, 0)
        state, written = step.states[0], step.outputs[0]
        found, low = [], 0
        for piece in view.pieces or (view,):
            rows = list(piece.rows)
            if is_volume(piece):
                rows = [at for plane in rows for at in lines(plane, piece, 0, piece.shape[0])]
            made = ByteSumStep(
                128 if layer.attributes["x"].dtype == "uint8" else 0, int(phase.first), int(phase.last),
                len(rows), piece.shape[-3] if len(piece.shape) > 2 else 1, rest,
                into.zero, into.low, into.high, factor, divisors, shifts,
                ByteSource(constants.rows(piece.pool, rows), pixel(piece), piece.shape[-1]),
                Ref(state.pool, state.rows[0] + 4 * low),
                Ref(written.pool, written.rows[0] + low),
            )  # fmt: skip
            found.append(instruction(self.kernels[0], made))
            low += piece.shape[-1]
        return found


def byte_max_pool(layer: Layer) -> Family | None:
    """MaxPool and GlobalMaxPool of bytes."""
    x = map_read(layer)
    if x is None or x.dtype not in BYTES:
        return None
    return _Greatest() if layer.output.dtype == x.dtype else None


def average(layer: Layer) -> Family | None:
    """QLinearGlobalAveragePool."""
    kernel = "sum_integers_of" if uses_shifts(layer) else "sum_bytes_of"
    return None if map_read(layer) is None else _Average(layer, (kernel,))


def averages(layer: Layer) -> Family | None:
    """QLinearAveragePool whose windows all see something."""
    if map_read(layer) is None:
        return None
    if get_operator(layer).mode(layer) is Mode.ACCUMULATE:
        kernel = "sum_integers_of" if uses_shifts(layer) else "sum_values_of"
        return _Average(layer, (kernel,)) if _sees_all(layer) else None
    sees = all(min(one) > 0 for one in _seen(layer, Rows(0, layer.output.shape[2])))
    kernel = "average_integers_of" if uses_shifts(layer) else "average_bytes_of"
    return _Windows(layer, (kernel,)) if sees else None


def _sees_all(layer: Layer) -> bool:
    """Whether the one window of a layer sees each value of a map once, and nothing else."""
    sizes = spatial_sizes(layer.computed(0))
    return spatial_sizes(layer.output) == (1,) * len(sizes) and all(
        window.kernel == size and window.dilation == 1 and not window.pad_top
        for window, size in zip(spatial_windows(layer), sizes, strict=True)
    )


BYTE_POOLS: dict[str, Callable[[Layer], Family | None]] = {
    "MaxPool": byte_max_pool,
    "GlobalMaxPool": byte_max_pool,
    "QLinearAveragePool": averages,
    "QLinearGlobalAveragePool": average,
}
"""Operator -> what makes a family of a layer."""
