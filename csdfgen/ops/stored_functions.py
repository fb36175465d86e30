"""Which layers on stored integers are a table of 256? Those whose operator takes one element at a time,
from one tensor of one byte an element to another.

Nothing is widened then, and no kernel of the operator's own is needed: whatever it does, with its
numbers and with what is applied before results are stored, it has done once to each of the 256 bytes,
by the very calls that would have worked on slabs (`widened`). So results are theirs to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops.base import Alias, Call, Emit, Operator, Phase, Takes, run_slab
from csdfgen.ops.elementwise import Task, elementwise, in_place, same
from csdfgen.ops.integers import BYTES
from csdfgen.ops.quantized_maps import looked_up_bytes
from csdfgen.ops.widened import widened

__all__ = ["by_table", "byte_position", "byte_table"]

_BYTES = 256
"""Values of one byte."""


def byte_position(layer: Layer, operators: Mapping[str, Operator]) -> int | None:
    """The position of the operand that the bytes of the output follow from; None where they are no
    function of one byte. operators: all of them, by name.
    """
    stored, data = layer.stored, [k for k, t in enumerate(layer.inputs) if t is not None]
    if stored is None or len(data) != 1 or len(layer.outputs) != 1:
        return None
    x, y = stored.read(data[0]), stored.written(0)
    for form in (x, y):
        if form is None or form.dtype not in BYTES or form.axis is not None:
            return None
    on_values = (layer, *layer.epilogue[: stored.applied])
    if not all(operators[one.op_type].pointwise for one in on_values):
        return None
    if any(array.size != 1 for one in on_values for array in one.constants.values()):
        return None
    alone = all(sum(t is not None for t in one.inputs) == 1 for one in on_values)
    return data[0] if alone else None


def byte_table(layer: Layer, operators: Mapping[str, Operator]) -> np.ndarray:
    """What a layer that is a function of one byte makes of each of the 256, (256,)."""
    small = _of_every_byte(layer)
    wide = widened(operators[layer.op_type], operators)
    (read,) = (t for t in small.inputs if t is not None)
    out = Rows(0, 1)
    ins = wide.input_rows(small, out)
    bytes_ = np.arange(_BYTES, dtype=np.uint8).view(read.dtype)[None]
    made = np.empty((1, _BYTES), small.output.dtype)
    slabs = [None if rows is None else bytes_ for rows in ins]
    # overflow and what is no number are what slabs would have had, unseen
    with np.errstate(all="ignore"):
        run_slab(wide, small, Phase(out, ins), slabs, [made])
    return made[0]


def _of_every_byte(layer: Layer) -> Layer:
    """The layer on a tensor of 256 elements without rows, with what is applied to values."""

    def short(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else replace(tensor, shape=(_BYTES,), row_axis=None)

    def shrunk(one: Layer) -> Layer:
        return replace(
            one,
            inputs=tuple(short(t) for t in one.inputs),
            outputs=tuple(replace(t, shape=(_BYTES,), row_axis=None) for t in one.outputs),
            constants=MappingProxyType({k: a.reshape(()) for k, a in one.constants.items()}),
            input_axes=(None,) * len(one.input_axes),
        )

    applied = layer.stored.applied if layer.stored else 0
    return replace(shrunk(layer), epilogue=tuple(shrunk(one) for one in layer.epilogue[:applied]))


def by_table(other: Operator, operators: Mapping[str, Operator]) -> Operator:
    """An operator on stored integers (`widened`) that looks bytes up where it can."""
    if not other.pointwise:
        return other
    own = _looking_up(other.op_type, np.empty(0))

    def is_one(layer: Layer) -> bool:
        return byte_position(layer, operators) is not None

    def kernel(layer: Layer) -> Emit:
        if not is_one(layer):
            return other.kernel(layer)
        looking_up = _looking_up(layer.op_type, byte_table(layer, operators))
        return looking_up.kernel(replace(layer, constants=MappingProxyType({})))

    def aliases(layer: Layer) -> tuple[Alias, ...]:
        return in_place(layer) if is_one(layer) else other.aliases(layer)

    def takes(layer: Layer, position: int) -> Takes:
        return own.takes(layer, position) if is_one(layer) else other.takes(layer, position)

    return replace(other, kernel=kernel, aliases=aliases, takes=takes)


def _looking_up(op_type: str, table: np.ndarray) -> Operator:
    """An elementwise operator on bytes alone."""

    def recipe(task: Task) -> list[Call]:
        return looked_up_bytes(table, task.x, task.temporary(np.intp), task.out)

    return elementwise(op_type, recipe, same(BYTES))
