"""Which elementwise layers of bytes have a kernel? Sums, products, functions of one byte, and the ways
from floats to bytes and back.

Operands lie as those of the float maps do (`maps`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import Family, memoize
from csdfgen.backends.native.families.maps import Operand, Place, place, stretches
from csdfgen.backends.native.structures import ByteSource, constants, instruction, structure
from csdfgen.model.network import Layer
from csdfgen.ops import OPERATORS
from csdfgen.ops.integers import (
    BYTES,
    HALF,
    get_zero,
    limits,
    rescale_factor,
    rounds_twice,
    uses_shifts,
)
from csdfgen.ops.quantized_maps import Addends, Shifted, double_pairs, function_table
from csdfgen.ops.stored import byte_position, byte_table
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Step

TABLE, ADD_BYTES, MULTIPLY_BYTES, QUANTIZE, DEQUANTIZE = constants(
    "TABLE", "ADD_BYTES", "MULTIPLY_BYTES", "QUANTIZE", "DEQUANTIZE"
)
ByteMapStep = structure("csdf_byte_map_step").record

_SIGN = 31
"""Bit above a multiplier, from which on the number of `csdf_map_twice` has its exponent, negated."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What is computed: the fields of a `ByteMapStep`."""

    operation: int
    bounds: tuple[int, int] = (0, 0)
    flips: tuple[int, int] = (0, 0)
    zeros: tuple[int, int] = (0, 0)
    settings: tuple[float, ...] = ()
    table: np.ndarray | None = None
    zero: int = 0
    numbers: tuple[int, ...] = ()
    shift: int = 0


@dataclass(frozen=True, eq=False)
class _ByteMaps(Family):
    """operands: of the operation, one or two. work: made when first asked for. kernels: the only one."""

    operands: tuple[Operand, ...]
    work: Callable[[], _Work]
    kernels: tuple[str, ...] = ("map_bytes_of",)

    def takes(self, step: Step) -> bool:
        return not step.states and stretches(step, self.operands) is not None

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        return [
            self._stretch(step, constants, columns, low, high)
            for columns, low, high in stretches(step, self.operands) or ()
        ]

    def _stretch(
        self, step: Step, constants: Constants, columns: int, low: int, high: int
    ) -> Instruction:
        """Channels [low, high) of the output's rows."""
        channels, out = high - low, step.outputs[0]
        target = place(out, columns, low, high, out.count)
        places, sizes = [], []
        for one in self.operands:
            if isinstance(one, int):
                view = step.view(one)
                places.append(place(view, columns, low, high, len(target.rows)))
                sizes.append(view.format.itemsize)
        dense = all(p.each and p.stride == channels for p in (*places, target))
        given = [one for one in self.operands if not isinstance(one, int)]
        whole = dense and all(one.size == 1 for one in given)
        for number, one in enumerate(self.operands):
            if isinstance(one, int):
                continue
            at, first = constants.dense(one), 0 if one.size == 1 else low
            rows = (at.offset + first * one.itemsize,) * len(target.rows)
            places.insert(number, Place(at.pool, rows, 0, one.size > 1 and high - low > 1))
            sizes.insert(number, 1)
        if whole:
            columns, channels = 1, columns * channels
        made = _made(
            self.work(), places, sizes, target, out.format.itemsize, columns, channels, constants
        )
        return instruction(self.kernels[0], made)


def _made(
    work: _Work,
    places: list[Place],
    sizes: list[int],
    target: Place,
    written: int,
    columns: int,
    channels: int,
    constants: Constants,
) -> Any:
    """The step of the kernel over rows of `columns` pixels. sizes: bytes of an element of the operands; written: of the
    output.
    """
    sources = [
        ByteSource(constants.rows(one.pool, one.rows), one.stride * size, int(one.each))
        for one, size in zip(places, sizes, strict=True)
    ]
    return ByteMapStep(
        work.operation, len(target.rows), columns, channels, *work.bounds, work.flips, work.zeros, work.zero,
        tuple(one >> HALF for one in work.numbers), tuple(one & (1 << HALF) - 1 for one in work.numbers),
        work.shift, work.settings, None if work.table is None else constants.dense(work.table),
        tuple(sources), constants.rows(target.pool, target.rows), target.stride * written,
    )  # fmt: skip


def _flip(dtype: str) -> int:
    return 128 if dtype == "uint8" else 0


# Layers ------------------------------------------------------------------------------------------


def _operands(layer: Layer) -> tuple[Operand, ...] | None:
    """The two operands of a layer; constants as one byte, or one a channel. None for any others."""
    found: list[Operand] = []
    for position in range(2):
        if layer.inputs[position] is not None:
            found.append(position)
            continue
        values, shape = layer.constants[position], layer.output.shape
        padded = (*(1,) * (len(shape) - values.ndim), *values.shape)
        alone = values.size == 1
        if not alone and (len(shape) < 3 or values.size != shape[1] or padded[1] != shape[1]):
            return None
        found.append(packing.aligned(values.reshape(-1), str(values.dtype)))
    return tuple(found) if any(isinstance(one, int) for one in found) else None


def _flips(layer: Layer) -> tuple[int, int]:
    return _flip(layer.attributes["x"].dtype), _flip(layer.attributes["w"].dtype)


def byte_addition(layer: Layer) -> Family | None:
    """QLinearAdd."""
    operands = _operands(layer)
    if operands is None:
        return None
    if uses_shifts(layer):
        return _by_integers(layer, ADD_BYTES, operands)
    sums, flips = Addends.of(layer), _flips(layer)
    if sums.first:
        operands, flips = operands[::-1], flips[::-1]
    settings = float(sums.factor), float(sums.other), float(sums.rest)
    work = _Work(ADD_BYTES, limits(layer.output.dtype), flips, settings=settings)
    return _ByteMaps(operands, lambda: work)


def byte_product(layer: Layer) -> Family | None:
    """QLinearMul."""
    operands = _operands(layer)
    if operands is None:
        return None
    if uses_shifts(layer):
        return _by_integers(layer, MULTIPLY_BYTES, operands)
    work = _Work(
        MULTIPLY_BYTES,
        limits(layer.output.dtype),
        _flips(layer),
        (get_zero(layer, "x"), get_zero(layer, "w")),
        (float(rescale_factor(layer)), get_zero(layer, "y")),
    )
    return _ByteMaps(operands, lambda: work)


def _by_integers(layer: Layer, operation: int, operands: tuple[Operand, ...]) -> Family:
    if rounds_twice(layer):
        pairs = tuple(int(m) | -int(s) << _SIGN for m, s in double_pairs(layer))
        numbers, shift, kernel = (*pairs, 0, 0)[:3], 0, "map_twice_of"
    else:
        by = Shifted.of(layer)
        numbers, shift = (*by.m, *(0,) * (2 - len(by.m)), by.rest), by.shift
        kernel = "map_integers_of"
    work = _Work(
        operation,
        limits(layer.output.dtype),
        _flips(layer),
        (get_zero(layer, "x"), get_zero(layer, "w")),
        zero=get_zero(layer, "y"),
        numbers=numbers,
        shift=shift,
    )
    return _ByteMaps(operands, lambda: work, (kernel,))


def _by_table(make: Callable[[], np.ndarray], position: int = 0) -> Family:
    return _ByteMaps(
        (position,),
        memoize(lambda: _Work(TABLE, table=packing.aligned(make().view(np.uint8), "uint8"))),
    )


def byte_function(layer: Layer) -> Family | None:
    """QLinearSigmoid and QLinearLeakyRelu."""
    return _by_table(lambda: function_table(layer))


def table_function(layer: Layer) -> Family | None:
    """Any layer on stored integers that is a function of one byte."""
    position = byte_position(layer, OPERATORS)
    return None if position is None else _by_table(lambda: byte_table(layer, OPERATORS), position)


def byte_clip(layer: Layer) -> Family | None:
    """Clip of bytes to constant bounds."""
    given, dtype = layer.attributes, layer.output.dtype
    if dtype not in BYTES or "bounds" in given:
        return None
    every = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    return _by_table(lambda: np.clip(every, given["min"], given["max"]).astype(dtype))


def quantization(layer: Layer) -> Family | None:
    """QuantizeLinear of floats to bytes with one scale."""
    x, form = layer.inputs[0], layer.attributes.get("format")
    if x is None or x.dtype != "float32" or form is None or form.axis is not None:
        return None
    if form.dtype not in BYTES:
        return None
    settings = form.scale[0], float(form.zero_point[0])
    work = _Work(QUANTIZE, limits(form.dtype), settings=settings)
    return _ByteMaps((0,), lambda: work)


def dequantization(layer: Layer) -> Family | None:
    """DequantizeLinear of bytes to floats with one scale."""
    form = layer.attributes.get("format")
    if form is None or form.axis is not None or form.dtype not in BYTES:
        return None
    if layer.output.dtype != "float32":
        return None
    work = _Work(
        DEQUANTIZE,
        flips=(_flip(form.dtype), 0),
        zeros=(form.zero_point[0], 0),
        settings=(form.scale[0],),
    )
    return _ByteMaps((0,), lambda: work)


BYTE_MAPS: dict[str, Callable[[Layer], Family | None]] = {
    "QLinearAdd": byte_addition,
    "QLinearMul": byte_product,
    "QLinearSigmoid": byte_function,
    "QLinearLeakyRelu": byte_function,
    "Clip": byte_clip,
    "QuantizeLinear": quantization,
    "DequantizeLinear": dequantization,
}
"""Operator -> what makes a family of a layer."""
