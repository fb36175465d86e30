"""How does an operator on values compute a layer that stores integers? In one of three ways.

Any operator of the table can: a slab at a time becomes float32 in the workspace, and what the operator
makes of it is rounded when it is written. The layer has a *twin* that reads and writes float32, and what
the operator says of the twin (rows, phases, costs) holds for the layer. Where a sum grows over several
phases its state is the output of the twin; the last phase rounds it. Values are `(stored - zero point) *
scale`; back they are divided by the scale, rounded half to even, moved by the zero point and kept within
the type, as DequantizeLinear and QuantizeLinear do.

A Conv, Gemm or MatMul with two stored operands widens nothing: `sum (x - x0) (w - w0)` times both scales
is the same. Panels are filled from the stored rows, sums are exact in any order (`integers.exact_type`)
and are rounded once, to values or to integers. Results do not depend on heights or processors.

A function of one byte, such as an activation with constant settings between tensors of one byte an
element, is a table of 256. The calls that would have worked on slabs compute the table, so that results
are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.model.formats import FLOAT32, Format
from csdfgen.model.network import Layer, Tensor, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops import quantized_pools, quantized_products
from csdfgen.ops._operands import normalize_axis, set_attributes
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
    run_slab,
    takes_single_images,
)
from csdfgen.ops.elementwise import Task, elementwise, same_types
from csdfgen.ops.integers import BYTES, STORED, limits, round_values, uses_shifts
from csdfgen.ops.micro import FORMULAS, KERNELS, compute_exactly, find_micro_table, has_formula
from csdfgen.ops.quantized_maps import look_up_bytes
from csdfgen.ops.spread import Spread

# Values and integers -----------------------------------------------------------------------------


def read_values(array: np.ndarray, form: Format) -> np.ndarray:
    """The values of a constant, float32.

    >>> read_values(np.array([[3, 5], [1, 7]], np.int8), Format("int8", (0.5, 2.0), (1, 1), 0)).tolist()
    [[1.0, 2.0], [0.0, 12.0]]
    """
    if form.scale is None:
        return array.astype(np.float32)
    scale, zero = _numbers(form)
    if form.axis is not None:
        behind = (1,) * (array.ndim - 1 - normalize_axis(form.axis, array.ndim))
        scale = scale.reshape(-1, *behind)
        zero = zero.reshape(-1, *behind) if zero.size > 1 else zero
    # numpy makes a number of an array without axes
    return np.asarray((array.astype(np.float32) - zero) * scale)


def quantize_values(values: np.ndarray, form: Format) -> np.ndarray:
    """The integers that values are stored as; one scale for all of them.

    >>> quantize_values(np.array([0.25, 0.75, 99], np.float32), Format("int8", (0.5,), (1,))).tolist()
    [1, 3, 127]
    """
    work, made = values.astype(np.float32), np.empty(values.shape, form.dtype)
    for function, arguments in (*narrow_values(work, form), (np.copyto, (made, work, "unsafe"))):
        function(*arguments)
    return made


def _numbers(form: Format) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point, float32: one number or one an index."""
    assert form.scale is not None and form.zero_point is not None
    scale, zero = (np.array(numbers, np.float32) for numbers in (form.scale, form.zero_point))
    return (scale, zero) if scale.size > 1 else (scale.reshape(()), zero.reshape(()))


def widen_values(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], values: np.ndarray, form: Format
) -> Iterable[Call]:
    """Calls that make values of integers. parts: of the values, each with the integers it is to hold."""
    for target, array in parts:
        yield np.copyto, (target, array, "unsafe")
    if form.scale is None:
        return
    scale, zero = _numbers(form)
    if zero:
        yield np.subtract, (values, zero, values)
    yield np.multiply, (values, scale, values)


def narrow_values(values: np.ndarray, form: Format) -> list[Call]:
    """Calls that leave the integers of values where these were; what has no scale is rounded as it is copied."""
    if form.scale is None:
        return []
    scale, zero = _numbers(form)
    return [
        (np.divide, (values, scale, values)),
        *round_values(values, int(zero), *limits(form.dtype)),
    ]


# The twin ----------------------------------------------------------------------------------------


def _as_values(tensor: Tensor | None, form: Format | None) -> Tensor | None:
    return tensor if tensor is None or form is None else replace(tensor, format=FLOAT32)


@memoize_layer
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


def float_twin(layer: Layer, *, but: frozenset[int] = frozenset()) -> Layer:
    """The layer that does the same on values in memory, its constants widened. but: positions of some that stay as they are."""
    stored, twin = layer.stored, _outlined(layer)
    assert stored is not None
    constants = {}
    for k, array in layer.constants.items():
        form = stored.read(k)
        constants[k] = array if form is None or k in but else read_values(array, form)
    return replace(twin, constants=MappingProxyType(constants))


# Widened slabs -----------------------------------------------------------------------------------


def _answered(
    operator: Operator, names: Sequence[str], by: Callable[[Layer], tuple[Operator, Layer]]
) -> Operator:
    """The operator with other functions of these names: for each layer, those of the operator that
    `by` gives, asked about the layer that `by` gives.
    """

    def asked(name: str) -> Callable[..., Any]:
        def ask(layer: Layer, *more: Any) -> Any:
            other, its = by(layer)
            return getattr(other, name)(its, *more)

        return ask

    found: dict[str, Any] = {name: asked(name) for name in names}
    return replace(operator, **found)


def make_integer_operator(operator: Operator, table: Mapping[str, Operator]) -> Operator:
    """The operator for layers that store some of their rows as integers. table: by name, all."""
    wide = _widened(operator, table)
    if operator.op_type in (*FORMULAS, *KERNELS):
        wide = _by_formula(operator, wide)
    return _by_table(_summed(wide) if operator.op_type in (*_TWINS, *_POOLS) else wide, table)


def _widened(operator: Operator, table: Mapping[str, Operator]) -> Operator:
    """Slabs become values in the workspace."""

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

    return replace(
        _answered(
            operator,
            ("input_rows", "cost", "state", "window"),
            lambda layer: (operator, _outlined(layer)),
        ),
        mode=partial(_mode, operator),
        aliases=aliases,
        takes=takes,
        joins=takes_single_images,
        kernel=partial(_kernel, operator, table),
    )


def _mode(operator: Operator, layer: Layer) -> Mode:
    """Only one output has a state in which it grows as values; several are rounded at once."""
    assert layer.stored is not None
    mode, several = operator.mode(_outlined(layer)), len(layer.outputs) > 1
    rounds = several and any(layer.stored.written(k) for k in range(len(layer.outputs)))
    return Mode.WHOLE if mode is Mode.ACCUMULATE and rounds else mode


def _kernel(operator: Operator, table: Mapping[str, Operator], layer: Layer) -> Emit:
    """The kernel of the twin between widening and narrowing."""
    stored, twin = layer.stored, float_twin(layer)
    assert stored is not None
    accumulates = _mode(operator, layer) is Mode.ACCUMULATE
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
                calls += widen_values(parts, values, form)
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
            calls += narrow_values(values, form)
            if values is not result:
                calls.append((np.copyto, (result, values, "unsafe")))
        return calls

    return emit


# Sums of integers --------------------------------------------------------------------------------

_TWINS = {"Conv": "QLinearConv", "Gemm": "QGemm", "MatMul": "QLinearMatMul"}
"""Operator on values -> the one that sums up integers."""

_POOLS = {
    "AveragePool": "QLinearAveragePool",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
}
"""Operator on values -> the one that averages integers, where these are rescaled by integers."""

_OPERATORS: Mapping[str, Operator] = {
    one.op_type: one for one in (*quantized_products.OPERATORS, *quantized_pools.OPERATORS)
}

_OFF, _PART, _OF_A_STEP = 0.01, 1e-6, 0.02
"""By how much a bias may miss an integer: in units of the product of both scales, as a part of the
largest of them (which is what it was rounded by when it became a value), and in steps of the output.
"""


@memoize_layer
def integer_twin(layer: Layer) -> Layer | None:
    """The layer on integers that does the same; None where there is none."""
    stored = layer.stored
    x, w = (None, None) if stored is None else (stored.read(0), stored.read(1))
    if layer.op_type in _POOLS and stored is not None and uses_shifts(layer):
        return _averaging(layer, x, stored.written(0))
    if layer.op_type not in _TWINS or stored is None or x is None or w is None:
        return None
    if (
        stored.applied
        or layer.inputs[0] is None
        or None in (x.scale, w.scale)
        or _scales_mix(layer, w)
    ):
        return None
    given = layer.attributes
    if given.get("alpha", 1) != 1 or (given.get("beta", 1) != 1 and 2 in layer.constants):
        return None
    constants = {k: array for k, array in layer.constants.items() if k == 1}
    if 2 in layer.constants:
        bias = _integers(layer, x, w, stored.written(0))
        if bias is None:
            return None
        constants[2] = bias
    elif len(layer.inputs) > 2 and layer.inputs[2] is not None:
        return None
    forms = {"x": x, "w": w}
    if (y := stored.written(0)) is not None:
        forms["y"] = y
    return replace(
        layer,
        op_type=_TWINS[layer.op_type],
        attributes=MappingProxyType({**given, **forms}),
        constants=MappingProxyType(constants),
        stored=None,
        epilogue=(),
    )


def _averaging(layer: Layer, x: Format | None, y: Format | None) -> Layer | None:
    if x is None or y is None:
        return None
    made = set_attributes(layer, x=x, y=y)
    return replace(made, op_type=_POOLS[layer.op_type], stored=None, epilogue=())


def _scales_mix(layer: Layer, w: Format) -> bool:
    """Whether a sum has products of several scales."""
    if 1 not in layer.constants:
        return w.axis is not None or layer.op_type == "Conv"
    rank = layer.constants[1].ndim
    if w.axis is None:
        return False
    outputs = 0 if layer.op_type == "Conv" or layer.attributes.get("transB") else rank - 1
    return normalize_axis(w.axis, rank) != outputs or (layer.op_type == "MatMul" and rank < 2)


def _integers(layer: Layer, x: Format, w: Format, y: Format | None) -> np.ndarray | None:
    """The addend in units of the sums; None where it is too far from integers."""
    assert x.scale is not None and w.scale is not None and layer.stored is not None
    form = layer.stored.read(2)
    values = layer.constants[2] if form is None else read_values(layer.constants[2], form)
    unit = x.scale[0] * np.array(w.scale, np.float64)
    unit = unit if unit.size > 1 else unit.reshape(())
    quotients = values.astype(np.float64) / unit
    found = np.rint(quotients)
    off = np.abs(quotients - found)
    allowed = np.maximum(_OFF, _PART * np.abs(quotients).max(initial=0))
    if y is not None and y.scale is not None:
        allowed = np.maximum(allowed, _OF_A_STEP * y.scale[0] / unit)
    if np.any(off > allowed) or np.abs(found).max(initial=0) >= 2**52:
        return None
    integers: np.ndarray = found.astype(np.int64)
    return integers


def _summed(wide: Operator) -> Operator:
    """Sums of integers where a layer has an integer twin."""
    own = _OPERATORS[{**_TWINS, **_POOLS}[wide.op_type]]

    def by(layer: Layer) -> tuple[Operator, Layer]:
        twin = integer_twin(layer)
        return (wide, layer) if twin is None else (own, twin)

    return _answered(wide, ("kernel", "mode", "state", "takes", "joins"), by)


# Formulas ----------------------------------------------------------------------------------------


def _by_formula(operator: Operator, wide: Operator) -> Operator:
    """Integers are computed from integers where TensorFlow Lite Micro does so."""
    own = elementwise(wide.op_type, compute_exactly, same_types(STORED))
    if operator.op_type in KERNELS:
        own = replace(operator, kernel=KERNELS[operator.op_type], aliases=wide.aliases)

    def by(layer: Layer) -> tuple[Operator, Layer]:
        return (own if has_formula(layer) else wide), layer

    return _answered(wide, ("kernel", "aliases", "takes"), by)


# Functions of one byte ---------------------------------------------------------------------------

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
    position, stored = byte_position(layer, operators), layer.stored
    assert position is not None and stored is not None
    found = find_micro_table(layer, stored.read(position), stored.written(0))
    if found is not None and not stored.applied:
        return found
    small = _of_every_byte(layer)
    wide = _widened(operators[layer.op_type], operators)
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


def _by_table(other: Operator, operators: Mapping[str, Operator]) -> Operator:
    """Bytes are looked up where a layer is a function of one."""
    if not other.pointwise:
        return other
    own = _looking_up(other.op_type, np.empty(0))

    def by(layer: Layer) -> tuple[Operator, Layer]:
        return (other if byte_position(layer, operators) is None else own), layer

    def kernel(layer: Layer) -> Emit:
        if byte_position(layer, operators) is None:
            return other.kernel(layer)
        looking_up = _looking_up(layer.op_type, byte_table(layer, operators))
        return looking_up.kernel(replace(layer, constants=MappingProxyType({})))

    return replace(_answered(other, ("aliases", "takes"), by), kernel=kernel)


def _looking_up(op_type: str, table: np.ndarray) -> Operator:
    """An elementwise operator on bytes alone."""

    def recipe(task: Task) -> list[Call]:
        return look_up_bytes(table, task.x, task.temporary(np.intp), task.out)

    return elementwise(op_type, recipe, same_types(BYTES))
