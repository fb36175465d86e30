"""How does an operator on values work on integers in memory? A slab at a time becomes float32 in the
workspace; what the operator makes of it is rounded when it is written.

Any operator of the table does this without knowing: its layer has a *twin* that reads and writes
float32, and what the operator says of the twin (rows, phases, costs) holds for the layer. Where a sum
grows over several phases its state is the twin's output in the making; the last phase rounds it.
Values are `(stored - zero point) * scale`; back they are divided by the scale, rounded half to even,
moved by the zero point and kept within the type, as DequantizeLinear and QuantizeLinear do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.model.formats import FLOAT32, Format
from csdfgen.model.network import Layer, Tensor, remembered
from csdfgen.model.rows import Rows, Window
from csdfgen.ops._operands import normal_axis
from csdfgen.ops.base import (
    Alias,
    AliasKind,
    Call,
    Emit,
    Mode,
    Operator,
    Phase,
    Takes,
    Work,
    one_by_one,
)
from csdfgen.ops.integers import limits, rounded
from csdfgen.ops.spread import Spread

__all__ = ["float_twin", "narrowing", "quantized", "values_of", "widened", "widening"]


# Values and integers -----------------------------------------------------------------------------


def values_of(array: np.ndarray, form: Format) -> np.ndarray:
    """The values of a constant, float32.

    >>> values_of(np.array([[3, 5], [1, 7]], np.int8), Format("int8", (0.5, 2.0), (1, 1), 0)).tolist()
    [[1.0, 2.0], [0.0, 12.0]]
    """
    scale, zero = _numbers(form)
    if form.axis is not None:
        behind = (1,) * (array.ndim - 1 - normal_axis(form.axis, array.ndim))
        scale = scale.reshape(-1, *behind)
        zero = zero.reshape(-1, *behind) if zero.size > 1 else zero
    # numpy makes a number of an array without axes
    return np.asarray((array.astype(np.float32) - zero) * scale)


def quantized(values: np.ndarray, form: Format) -> np.ndarray:
    """The integers that values are stored as; one scale for all of them.

    >>> quantized(np.array([0.25, 0.75, 99], np.float32), Format("int8", (0.5,), (1,))).tolist()
    [1, 3, 127]
    """
    work, made = values.astype(np.float32), np.empty(values.shape, form.dtype)
    for function, arguments in (*narrowing(work, form), (np.copyto, (made, work, "unsafe"))):
        function(*arguments)
    return made


def _numbers(form: Format) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point, float32: one number or one an index."""
    assert form.scale is not None and form.zero_point is not None
    scale, zero = (np.array(numbers, np.float32) for numbers in (form.scale, form.zero_point))
    return (scale, zero) if scale.size > 1 else (scale.reshape(()), zero.reshape(()))


def widening(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], values: np.ndarray, form: Format
) -> Iterable[Call]:
    """Calls that make values of integers. parts: of the values, each with the integers it is to hold."""
    scale, zero = _numbers(form)
    for target, array in parts:
        yield np.copyto, (target, array, "unsafe")
    if zero:
        yield np.subtract, (values, zero, values)
    yield np.multiply, (values, scale, values)


def narrowing(values: np.ndarray, form: Format) -> list[Call]:
    """Calls that leave the integers of values where these were."""
    scale, zero = _numbers(form)
    return [(np.divide, (values, scale, values)), *rounded(values, int(zero), *limits(form.dtype))]


# The twin ----------------------------------------------------------------------------------------


def _as_values(tensor: Tensor | None, form: Format | None) -> Tensor | None:
    return tensor if tensor is None or form is None else replace(tensor, format=FLOAT32)


@remembered
def _outlined(layer: Layer) -> Layer:
    """The twin as far as shapes and settings say, constants as they are stored."""
    stored = layer.stored
    assert stored is not None
    inputs = tuple(_as_values(t, stored.read(k)) for k, t in enumerate(layer.inputs))
    outputs = (_as_values(t, stored.written(k)) for k, t in enumerate(layer.outputs))
    return replace(
        layer,
        inputs=inputs,
        outputs=tuple(t for t in outputs if t is not None),
        epilogue=layer.epilogue[: stored.applied],
        stored=None,
    )


def float_twin(layer: Layer) -> Layer:
    """The layer that does the same on values in memory, its constants widened."""
    stored, twin = layer.stored, _outlined(layer)
    assert stored is not None
    constants = {}
    for k, array in layer.constants.items():
        form = stored.read(k)
        constants[k] = array if form is None else values_of(array, form)
    return replace(twin, constants=MappingProxyType(constants))


# The operator ------------------------------------------------------------------------------------


def widened(operator: Operator, table: Mapping[str, Operator]) -> Operator:
    """The operator for layers that store some of what they read and write as integers. table: the
    operators of layers that are applied to values in the slab, by name.
    """

    def input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
        return operator.input_rows(_outlined(layer), out)

    def cost(layer: Layer, out: Rows) -> int:
        return operator.cost(_outlined(layer), out)

    def mode(layer: Layer) -> Mode:
        return operator.mode(_outlined(layer))

    def state(layer: Layer) -> Format:
        return operator.state(_outlined(layer))

    def window(layer: Layer) -> Window | None:
        return operator.window(_outlined(layer))

    def aliases(layer: Layer) -> tuple[Alias, ...]:
        # rows are read before they are overwritten, by elements of the same size
        return tuple(
            alias
            for alias in operator.aliases(_outlined(layer))
            if alias.kind is AliasKind.INPLACE
            and (source := layer.inputs[alias.position]) is not None
            and source.dtype == layer.outputs[alias.output].dtype
        )

    def takes(layer: Layer, position: int) -> Takes:
        assert layer.stored is not None
        copied = layer.stored.read(position) is not None
        return Takes.SPREAD if copied else operator.takes(_outlined(layer), position)

    def kernel(layer: Layer) -> Emit:
        return _kernel(operator, table, layer)

    return replace(
        operator,
        input_rows=input_rows,
        cost=cost,
        mode=mode,
        state=state,
        window=window,
        aliases=aliases,
        takes=takes,
        joins=one_by_one,
        kernel=kernel,
    )


def _kernel(operator: Operator, table: Mapping[str, Operator], layer: Layer) -> Emit:
    stored, twin = layer.stored, float_twin(layer)
    assert stored is not None
    accumulates = operator.mode(twin) is Mode.ACCUMULATE
    inner = operator.kernel(twin)
    after = [(one, table[one.op_type], table[one.op_type].kernel(one)) for one in twin.epilogue]

    def emit(work: Work) -> list[Call]:
        calls: list[Call] = []
        read = list(work.slabs)
        for k, slab in enumerate(work.slabs):
            form = stored.read(k)
            if slab is not None and form is not None:
                values = read[k] = work.scratch.take(slab.shape)
                parts = slab.parts(values) if isinstance(slab, Spread) else [(values, slab)]
                calls += widening(parts, values, form)
        made = list(work.results)
        for k, result in enumerate(work.results):
            if stored.written(k) is not None and not accumulates:
                made[k] = work.scratch.take(result.shape)
        mark = work.scratch.mark
        calls += inner(replace(work, slabs=read, results=made))
        work.scratch.rewind(mark)
        if accumulates and not work.phase.last:
            return calls
        for one, applied, emit_it in after:
            ins = applied.input_rows(one, work.phase.out)
            own = [None if rows is None else made[0] for rows in ins]
            calls += emit_it(Work(Phase(work.phase.out, ins), own, made[:1], work.scratch))
            work.scratch.rewind(mark)
        for k, (values, result) in enumerate(zip(made, work.results, strict=True)):
            form = stored.written(k)
            if form is None:
                continue
            calls += narrowing(values, form)
            if values is not result:
                calls.append((np.copyto, (result, values, "unsafe")))
        return calls

    return emit
