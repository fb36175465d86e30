"""Which elementwise layers have a kernel? Sums, products and the like of maps, with what follows.

Operands are maps of the output's shape, of one pixel a row or one channel, one pixel for the whole
map, or constants: numbers, or one a channel. Maps may come in pieces: every stretch of channels that
lies in one piece of each operand is a kernel of its own. Elements that lie one after the other in all
operands are one long pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import Family, activation, is_dense, is_map, pixel
from csdfgen.backends.native.structures import (
    LEAKY,
    NONE,
    Activation,
    Source,
    constants,
    instruction,
    structure,
    type_suffix,
)
from csdfgen.model.network import Layer
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Step, View

COPY, ADD, SUBTRACT, MULTIPLY, DIVIDE, SCALE, LEAK = constants(
    "COPY", "ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "SCALE", "LEAK"
)
MapStep = structure("csdf_map_step").record

FEW = 64
"""Channels below which a constant a channel is repeated for all pixels of a row."""

Operand = int | np.ndarray
"""Position of an input, or a constant: one number, or one a channel."""


@dataclass(frozen=True)
class Place:
    """An operand, or the output, in one stretch of channels: a pool, offsets in it by row, elements from a pixel to
    the next, 0 for one pixel that all meet; each: whether a pixel has a value a channel.
    """

    pool: str
    rows: tuple[int, ...]
    stride: int
    each: bool


@dataclass(frozen=True, eq=False)
class _Maps(Family):
    """operands: of the operation; more than two are summed up one after the other.

    own: what the layer itself is as an activation, if it is one. repeated: constants of some channels
    for all pixels of a row. halves: see `pools`.
    """

    operation: int
    operands: tuple[Operand, ...]
    own: tuple[int, float, float] | None = None
    repeated: dict[tuple[int, int, int, int], np.ndarray] = field(default_factory=dict)
    halves: str = ""

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        return (f"map_{self.halves}of",)

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        after = activation(layer.epilogue[0]) if layer.epilogue and self.own is None else None
        several = len(self.operands) > 2 and self.operation != SCALE
        if several or (after and after[0] > LEAKY):
            return None  # what is computed between would be rounded
        operands, halves = self.operands, f"{type_suffix(np.dtype(dtype))}_"
        if self.operation != SCALE:
            if any(not np.array_equal(one, one.astype(dtype)) for one in layer.constants.values()):
                return None
            operands = tuple(
                one if isinstance(one, int) else packing.aligned(one, dtype) for one in operands
            )
        return replace(self, operands=operands, halves=halves, repeated={})

    def takes(self, step: Step) -> bool:
        return not step.states and stretches(step, self.operands) is not None

    def follows(self, layer: Layer) -> int:
        if self.own is not None:
            return 0
        return int(bool(layer.epilogue) and activation(layer.epilogue[0]) is not None)

    def within(self, layer: Layer, start: int, stop: int) -> tuple[Family, int, int] | None:
        return self, start, stop

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        found: list[Instruction] = []
        for columns, low, high in stretches(step, self.operands) or ():
            found += self._stretch(step, constants, columns, low, high)
        return found

    def _stretch(
        self, step: Step, constants: Constants, columns: int, low: int, high: int
    ) -> list[Instruction]:
        """Channels [low, high) of the output's rows."""
        after = (NONE, 0.0, 0.0)
        if self.own is not None:
            after = self.own
        elif self.follows(step.layer):
            after = activation(step.layer.epilogue[0]) or after
        channels = high - low
        target = place(step.outputs[0], columns, low, high, step.outputs[0].count)
        views = [step.inputs[one] for one in self.operands if isinstance(one, int)]
        places = [place(v, columns, low, high, len(target.rows)) for v in views if v is not None]
        dense = all(p.each and p.stride == channels for p in (*places, target))
        given = [one for one in self.operands if not isinstance(one, int)]
        whole = dense and (channels < FEW or all(one.size == 1 for one in given))
        for k, one in enumerate(given):
            values = self._constant(k, one, low, high, columns if whole else 1)
            at = constants.dense(values)
            rows = (at.offset,) * len(target.rows)
            places.append(Place(at.pool, rows, 0, values.size > 1))
        if whole:
            columns, channels = 1, columns * channels
        # one that lies where the output does is read before that is written
        if self.operation == ADD and len(places) > 2:
            places.sort(key=lambda place: (place.pool, place.rows) != (target.pool, target.rows))
        operation, first, rest = self.operation, places[: 3 if self.operation == SCALE else 2], []
        if self.operation == ADD:
            rest = places[2:]
        found = []
        for number in range(1 + len(rest)):
            used = first if number == 0 else [target, rest[number - 1]]
            sources = [
                Source(constants.rows(place.pool, place.rows), place.stride, int(place.each))
                for place in used
            ]
            made = MapStep(
                operation, len(target.rows), columns, channels, tuple(sources),
                constants.rows(target.pool, target.rows), target.stride,
                Activation(*(after if number == len(rest) else (NONE, 0.0, 0.0))),
            )  # fmt: skip
            found.append(instruction(f"map_{self.halves}of", made))
        return found

    def _constant(
        self, number: int, values: np.ndarray, low: int, high: int, times: int
    ) -> np.ndarray:
        """Those of the channels, repeated so many times."""
        if values.size == 1:
            return values
        if times == 1:
            return values[low:high]
        key = number, low, high, times
        if key not in self.repeated:
            self.repeated[key] = packing.aligned(
                np.tile(values[low:high], times), values.dtype.name
            )
        return self.repeated[key]


def place(view: View, columns: int, low: int, high: int, count: int) -> Place:
    """Where channels [low, high) of `count` rows lie, all in one piece."""
    start = 0
    for piece in view.pieces or (view,):
        size = piece.shape[-1] if is_row_of_pixels(piece) else prod(piece.shape)
        # one channel meets all, unless it is one of several pieces
        if (size == 1 and not view.pieces) or start <= low < start + size:
            break
        start += size
    else:
        raise AssertionError("channels outside the view")
    shift = 0 if size == 1 else piece.format.itemsize * (low - start)
    rows, pool = [at + shift for at in piece.rows], piece.pool
    if not is_row_of_pixels(piece):
        return Place(pool, tuple(rows), size, True)
    rows = [at for at in rows for _ in range(count // len(rows))]
    wide = piece.shape[0] if len(piece.shape) == 3 else 1
    each = size > 1 or high - low == 1
    if wide == 1:
        return Place(pool, tuple(rows), 0 if columns > 1 or not each else high - low, each)
    return Place(pool, tuple(rows), pixel(piece), each)


def is_row_of_pixels(view: View) -> bool:
    return len(view.shape) in (2, 3) and view.shape[-2] == 1


def stretches(step: Step, operands: Sequence[Operand]) -> list[tuple[int, int, int]] | None:
    """(columns, low, high) of stretches of channels; None for rows that the kernel cannot take."""
    layer, out = step.layer, step.outputs[0]
    views = [step.inputs[one] for one in operands if isinstance(one, int)]
    every = [piece for v in (*views, out) if v is not None for piece in v.pieces or (v,)]
    if any(v is None or v.count not in (step.phase.images, out.count) for v in views):
        return None
    for one in operands:
        tensor = layer.inputs[one] if isinstance(one, int) else None
        if tensor is not None and (
            len(tensor.shape) != len(layer.output.shape)
            or tensor.row_axis != layer.output.row_axis
            or tensor.rows not in (1, layer.output.rows)
        ):
            return None
    if all(is_map(v) for v in every) and all(
        not v.pieces or v.along == len(v.shape) - 1 for v in (*views, out) if v is not None
    ):
        return _of_maps(step, operands, views)
    constants = [one for one in operands if not isinstance(one, int)]
    alike = all(v.shape == out.shape and is_dense(v) and v.rows for v in every)
    alike = alike and all(v is not None and v.count == out.count for v in views)
    if not alike or any(one.size > 1 for one in constants):
        return None
    return [(1, 0, prod(out.shape))]


def _of_maps(
    step: Step, operands: Sequence[Operand], views: Sequence[View | None]
) -> list[tuple[int, int, int]] | None:
    layer, out = step.layer, step.outputs[0]
    columns = out.shape[0] if len(out.shape) == 3 else 1
    channels = out.shape[-1]
    cuts = {0, channels}
    for view in (*views, out):
        assert view is not None
        wide = view.shape[0] if len(view.shape) == 3 else 1
        if wide not in (1, columns) or view.shape[-1] not in (1, channels):
            return None
        at = 0
        for piece in view.pieces:
            at += piece.shape[-1]
            cuts.add(at)
    per_channel = [one for one in operands if not isinstance(one, int) and one.size > 1]
    if any(one.size != channels for one in per_channel) or (
        per_channel and layer.output.row_axis == 1
    ):
        return None
    edges = sorted(cuts)
    return [(columns, low, high) for low, high in pairwise(edges)]


# Layers ------------------------------------------------------------------------------------------

_OPERATIONS = {
    "Add": ADD,
    "Sum": ADD,
    "Sub": SUBTRACT,
    "Mul": MULTIPLY,
    "Div": DIVIDE,
    "PRelu": LEAK,
}


def unary(layer: Layer) -> Family | None:
    """A layer that is an activation."""
    own = activation(layer)
    return None if own is None else _Maps(COPY, (0,), own)


def elementwise(layer: Layer) -> Family | None:
    """Arithmetic of maps and constants."""
    operands: list[Operand] = []
    for position, tensor in enumerate(layer.inputs):
        if tensor is not None:
            operands.append(position)
            continue
        values = _per_channel(layer.constants[position], layer)
        if values is None:
            return None
        operands.append(values)
    operation = _OPERATIONS[layer.op_type]
    constant = [isinstance(one, np.ndarray) for one in operands]
    if len(operands) == 1 and operation == ADD:
        return _Maps(COPY, tuple(operands))
    if constant[0] and operation in (ADD, MULTIPLY):
        operands.sort(key=lambda one: isinstance(one, np.ndarray))
    elif any(constant[:-1]):
        return None
    if len(operands) < 2 or (operation != ADD and len(operands) > 2) or all(constant):
        return None
    return _Maps(operation, tuple(operands))


def _per_channel(values: np.ndarray, layer: Layer) -> np.ndarray | None:
    """A constant as one number, or one a channel; None for any other."""
    rank = len(layer.output.shape)
    if values.size == 1:
        return packing.aligned(values.reshape(1))
    if rank < 3 or values.ndim > rank:
        return None
    shape = (*(1,) * (rank - values.ndim), *values.shape)
    if values.size != shape[1] or shape[1] != layer.output.shape[1]:
        return None
    return packing.aligned(values.reshape(-1))


def batch_normalization(layer: Layer) -> Family | None:
    """BatchNormalization with constant statistics: a factor and a shift a channel."""
    if len(layer.constants) != 4 or len(layer.output.shape) < 3:
        return None
    scale, bias, mean, variance = (layer.constants[k].astype(np.float64) for k in range(1, 5))
    factor = scale / np.sqrt(variance + layer.attributes["epsilon"])
    factors = (
        packing.aligned(factor.reshape(-1)),
        packing.aligned((bias - mean * factor).reshape(-1)),
    )
    if any(one.size != layer.output.shape[1] for one in factors):
        return None
    return _Maps(SCALE, (0, *factors))


MAPS: dict[str, Callable[[Layer], Family | None]] = {
    **dict.fromkeys(_OPERATIONS, elementwise),
    **dict.fromkeys(
        ("Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Swish"), unary
    ),
    **dict.fromkeys(("Tanh", "Erf", "Gelu", "Mish"), unary),
    "BatchNormalization": batch_normalization,
}
"""Operator -> what makes a family of a layer."""
