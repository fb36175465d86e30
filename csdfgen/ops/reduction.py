"""Reductions over axes: Reduce*, ArgMax, ArgMin; CumSum and CumProd.

Sources: https://onnx.ai/onnx/operators/ (ReduceMean and its kin, ArgMax, ArgMin, CumSum, CumProd). `axes` is
an attribute up to opset 17 (ReduceSum: 12) and a constant input from there on.

Axes within a row are folded row by row. Where the row axis itself is folded, every phase folds its
slab into the state, whose sums are of the accumulator's type (float32 for float16).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops._operands import (
    first_input_rows,
    normalize_axes,
    normalize_axis,
    one_input_layer,
    output_elements,
    read_attribute_or_input,
    read_integers,
)
from csdfgen.ops.base import (
    Call,
    Emit,
    Mode,
    Operator,
    Scratch,
    Work,
    accumulator_format,
    require_constant,
)
from csdfgen.ops.copies import make_contiguous
from csdfgen.ops.primitives import maximum, minimum
from csdfgen.ops.reducing import (
    FLOATS,
    compute_in_float32,
    constant,
    data_input,
    slab_dims,
    sum_of_squares,
    sum_over,
)

Fold = Callable[[np.ndarray, tuple[int, ...], np.ndarray, Scratch], list[Call]]
"""(slab, dimensions, target, scratch) -> calls; `target` keeps the folded dimensions as 1."""
Finish = Callable[[np.ndarray, int, Scratch], list[Call]]
"""(folded values, how many were folded into each, scratch) -> calls that finish them in place."""

_INTEGERS = ("int32", "int64", "uint32", "uint64")
_ORDERED = (*FLOATS, "int8", "uint8", *_INTEGERS, "bool")


# Folds and what follows them ----------------------------------------------------------------------


def _plain(reduce: Callable[..., Any]) -> Fold:
    """A ufunc's own reduction."""
    return lambda slab, dims, target, scratch: [(reduce, (slab, dims, None, target, True))]


def _one_call(fold: Callable[[np.ndarray, tuple[int, ...], np.ndarray], Call]) -> Fold:
    """One call, which takes no scratch."""
    return lambda slab, dims, target, scratch: [fold(slab, dims, target)]


_sum, _squares = _one_call(sum_over), _one_call(sum_of_squares)


def _sum_absolute(
    slab: np.ndarray, dims: tuple[int, ...], target: np.ndarray, scratch: Scratch
) -> list[Call]:
    absolute = scratch.take(slab.shape, slab.dtype)
    return [(np.absolute, (slab, absolute)), sum_over(absolute, dims, target)]


def _log_sum_exp(
    slab: np.ndarray, dims: tuple[int, ...], target: np.ndarray, scratch: Scratch
) -> list[Call]:
    """log(sum(exp(x - peak))) + peak, of a finite peak, so that infinities do not become NaN."""
    peak = scratch.take(target.shape, slab.dtype)
    powers = scratch.take(slab.shape, slab.dtype)
    limits = np.finfo(slab.dtype)
    return [
        (np.maximum.reduce, (slab, dims, None, peak, True)),
        (maximum, (peak, constant(limits.min, slab.dtype), peak)),
        (minimum, (peak, constant(limits.max, slab.dtype), peak)),
        (np.subtract, (slab, peak, powers)),
        (np.exp, (powers, powers)),
        sum_over(powers, dims, target),
        (np.log, (target, target)),
        (np.add, (target, peak, target)),
    ]


def _mean(folded: np.ndarray, count: int, scratch: Scratch) -> list[Call]:
    by = constant(count, folded.dtype)
    if folded.dtype.kind == "f":
        return [(np.divide, (folded, by, folded))]
    # ONNX's integer mean is cut off towards zero; numpy's integer division rounds down.
    rest = scratch.take(folded.shape, folded.dtype)
    return [
        (np.fmod, (folded, by, rest)),
        (np.subtract, (folded, rest, folded)),
        (np.floor_divide, (folded, by, folded)),
    ]


def _then(function: Callable[..., Any]) -> Finish:
    """A function of each folded value."""
    return lambda folded, count, scratch: [(function, (folded, folded))]


@dataclass(frozen=True, slots=True)
class _Reduction:
    """How values are folded, how partial results become one, what finishes them, in which types."""

    fold: Fold
    combine: Callable[[np.ndarray, np.ndarray, np.ndarray], Any] = np.add
    finish: Finish = lambda folded, count, scratch: []
    dtypes: tuple[str, ...] = (*FLOATS, *_INTEGERS)


_REDUCTIONS: Mapping[str, _Reduction] = MappingProxyType(
    {
        "ReduceL1": _Reduction(_sum_absolute),
        "ReduceL2": _Reduction(_squares, finish=_then(np.sqrt), dtypes=FLOATS),
        "ReduceLogSum": _Reduction(_sum, finish=_then(np.log), dtypes=FLOATS),
        "ReduceLogSumExp": _Reduction(_log_sum_exp, combine=np.logaddexp, dtypes=FLOATS),
        "ReduceMax": _Reduction(_plain(np.maximum.reduce), combine=maximum, dtypes=_ORDERED),
        "ReduceMean": _Reduction(_sum, finish=_mean),
        "ReduceMin": _Reduction(_plain(np.minimum.reduce), combine=minimum, dtypes=_ORDERED),
        "ReduceProd": _Reduction(_plain(np.multiply.reduce), combine=np.multiply),
        "ReduceSum": _Reduction(_sum),
        "ReduceSumSquare": _Reduction(_squares),
    }
)


# Layers -------------------------------------------------------------------------------------------


def _output(node: Node, tensor: Tensor, axes: Sequence[int], keepdims: bool, dtype: str) -> Tensor:
    """What is left: rows stay rows; the axis behind folded rows, if any, takes their place."""
    rows = tensor.row_axis
    if keepdims:
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(tensor.shape))
    else:
        shape = tuple(size for axis, size in enumerate(tensor.shape) if axis not in axes)
        moved = None if rows is None else rows - sum(axis < rows for axis in axes)
        none_left = moved is None or len(shape) < 3 or moved >= len(shape)
        rows = None if rows in axes and none_left else moved
    return Tensor(node.outputs[0], shape, Format(dtype), rows)


def _axes(node: Node, rank: int, since: int) -> tuple[int, ...]:
    """The axes to fold, as `keepdims` counts; where none are given, all, or noop_with_empty_axes."""
    given = read_attribute_or_input(node, "axes", 1, since)
    if given:
        return normalize_axes(given, rank)
    noop = node.opset >= since and node.attributes.get("noop_with_empty_axes", 0)
    return () if noop else tuple(range(rank))


def _build(since: int) -> Callable[[Node], Layer]:
    """`build` of a reduction whose axes are an input from opset `since` on."""

    def build(node: Node) -> Layer:
        tensor = data_input(node, _REDUCTIONS[node.op_type].dtypes)
        axes = _axes(node, len(tensor.shape), since)
        keepdims = bool(node.attributes.get("keepdims", 1))
        return one_input_layer(
            node,
            tensor,
            _output(node, tensor, axes, keepdims, tensor.dtype),
            axes=axes,
            keepdims=keepdims,
        )

    return build


def _build_arg(node: Node) -> Layer:
    tensor = data_input(node, (*FLOATS, "int8", "int16", "uint8", "uint16", *_INTEGERS))
    if not tensor.shape:
        raise ModelError("input is a single number: it has no axis to search along")
    axis = normalize_axis(int(node.attributes.get("axis", 0)), len(tensor.shape))
    keepdims = bool(node.attributes.get("keepdims", 1))
    last = bool(node.attributes.get("select_last_index", 0))
    output = _output(node, tensor, (axis,), keepdims, "int64")
    return one_input_layer(
        node, tensor, output, axes=(axis,), keepdims=keepdims, select_last_index=last
    )


def _build_cumulative(node: Node) -> Layer:
    tensor = data_input(node, (*FLOATS, *_INTEGERS))
    given = read_integers(require_constant(node, 1), "axis")
    if len(given) != 1:
        raise ModelError(f"'axis' holds {len(given)} numbers, {node.op_type} runs along 1 axis")
    settings = {name: bool(node.attributes.get(name, 0)) for name in ("exclusive", "reverse")}
    output = Tensor(node.outputs[0], tensor.shape, tensor.format, tensor.row_axis)
    axes = normalize_axes(given, len(tensor.shape))
    layer = one_input_layer(node, tensor, output, axes=axes, **settings)
    if _within_rows(layer) or settings["reverse"]:
        return layer
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(tensor.shape))
    state = Tensor(f"{node.name}:{output.name}", shape, accumulator_format(layer), tensor.row_axis)
    return replace(layer, outputs=(output, state))


def _within_rows(layer: Layer) -> bool:
    """Whether the layer's axes leave the row axis alone."""
    row_axis = layer.computed(0).row_axis
    return row_axis is None or row_axis not in layer.attributes["axes"]


def _mode(layer: Layer) -> Mode:
    return Mode.ROWS if _within_rows(layer) else Mode.ACCUMULATE


def _has_state(layer: Layer) -> bool:
    """Whether phases hand on what is joined so far, beside their rows."""
    return len(layer.outputs) > 1


def _goes_by_rows(layer: Layer) -> bool:
    return _within_rows(layer) or _has_state(layer)


def _mode_of_whole(layer: Layer) -> Mode:
    return Mode.ROWS if _goes_by_rows(layer) else Mode.WHOLE


def _window(layer: Layer) -> Window:
    return Window(1) if _goes_by_rows(layer) else Window(layer.computed(0).rows)


def _read(layer: Layer, out: Rows) -> Rows:
    return out if _goes_by_rows(layer) else Rows(0, layer.computed(0).rows)


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return first_input_rows(layer, _read(layer, out))


def _cost(layer: Layer, out: Rows) -> int:
    """Elements that are read."""
    return len(_read(layer, out)) * layer.computed(0).row_elements


def _like_slab(layer: Layer, result: np.ndarray) -> np.ndarray:
    """View of a result with the axis order of the slab, folded axes being 1 long."""
    array = layer.output.to_onnx(result)
    if not layer.attributes["keepdims"]:
        array = np.expand_dims(array, layer.attributes["axes"])
    return layer.computed(0).to_storage(array)


# Kernels ------------------------------------------------------------------------------------------


def _kernel(layer: Layer) -> Emit:
    reduction = _REDUCTIONS[layer.op_type]
    axes = layer.attributes["axes"]
    dims = slab_dims(layer.computed(0), axes)
    count = prod(layer.computed(0).shape[axis] for axis in axes)
    accumulates = _mode(layer) is Mode.ACCUMULATE

    def emit(work: Work) -> list[Call]:
        target = _like_slab(layer, work.result)
        goes_on = accumulates and not work.phase.first
        part = work.scratch.take(target.shape, target.dtype) if goes_on else target
        calls = reduction.fold(work.slab, dims, part, work.scratch)
        if goes_on:
            calls.append((reduction.combine, (target, part, target)))
        if accumulates and not work.phase.last:
            return calls
        return calls + reduction.finish(target, count, work.scratch)

    # numpy sums into a wider type by itself: only what is prepared in an array is widened before
    return emit if accumulates and reduction.fold is _sum else compute_in_float32(emit)


_SEARCHES: Mapping[str, Callable[..., Any]] = {"ArgMax": np.argmax, "ArgMin": np.argmin}


def _search(layer: Layer, work: Work) -> list[Call]:
    """ArgMax, ArgMin: numpy's search copies an array that is not contiguous along its last axis."""
    (dim,) = slab_dims(layer.computed(0), layer.attributes["axes"])
    last = layer.attributes["select_last_index"]
    source = np.moveaxis(work.slab, dim, -1)
    calls: list[Call] = []
    source = make_contiguous(source[..., ::-1] if last else source, work.scratch, calls)
    found = work.scratch.take(source.shape[:-1], "int64")
    target = np.moveaxis(_like_slab(layer, work.result), dim, -1)[..., 0]
    calls.append((_SEARCHES[layer.op_type], (source, -1, found)))
    if last:
        highest = constant(source.shape[-1] - 1, "int64")
        return [*calls, (np.subtract, (highest, found, target))]
    return [*calls, (np.copyto, (target, found))]


_CUMULATIVE: Mapping[str, tuple[np.ufunc, int, int]] = {
    "CumSum": (np.add, 0, 11),
    "CumProd": (np.multiply, 1, 26),
}
"""Operator -> how elements are joined, what leaves them as they are, the first opset."""


def _cumulative(layer: Layer, work: Work) -> list[Call]:
    if _has_state(layer):
        return _cumulate_rows(layer, work)
    (dim,) = slab_dims(layer.computed(0), layer.attributes["axes"])
    source, target = np.moveaxis(work.slab, dim, 0), np.moveaxis(work.result, dim, 0)
    if layer.attributes["reverse"]:
        source, target = source[::-1], target[::-1]
    function, neutral, _ = _CUMULATIVE[layer.op_type]
    if not layer.attributes["exclusive"]:
        return [(function.accumulate, (source, 0, None, target))]
    first: Call = (np.copyto, (target[:1], constant(neutral, target.dtype)))
    if len(source) == 1:
        return [first]
    return [first, (function.accumulate, (source[:-1], 0, None, target[1:]))]


def _cumulate_rows(layer: Layer, work: Work) -> list[Call]:
    """Row by row, so that the height of slabs changes nothing."""
    function, neutral, _ = _CUMULATIVE[layer.op_type]
    target, state = work.results
    calls: list[Call] = []
    if work.phase.first:
        calls.append((np.copyto, (state, constant(neutral, state.dtype))))
    for row in range(len(target)):
        add, copy = (function, (state, work.slab[row], state)), (np.copyto, (target[row], state[0]))
        calls += [copy, add] if layer.attributes["exclusive"] else [add, copy]
    return calls


def _in_float32(make: Callable[[Layer, Work], Iterable[Call]]) -> Callable[[Layer], Emit]:
    return lambda layer: compute_in_float32(partial(make, layer))


# The records --------------------------------------------------------------------------------------


def _reduction(op_type: str) -> Operator:
    return Operator(
        op_type,
        build=_build(since=13 if op_type == "ReduceSum" else 18),
        input_rows=_input_rows,
        kernel=_kernel,
        cost=_cost,
        mode=_mode,
        state=accumulator_format,
        window=_window,
        shift_invariant=True,
        constant_inputs=frozenset({1}),
        attributes=MappingProxyType({"axes": None, "keepdims": 1, "noop_with_empty_axes": 0}),
        structure="row-phased; accumulating if the row axis is reduced",
    )


_WHOLE: Mapping[str, Any] = {
    "input_rows": _input_rows,
    "mode": _mode_of_whole,
    "window": _window,
    "shift_invariant": True,
}

OPERATORS: tuple[Operator, ...] = (
    *(_reduction(op_type) for op_type in _REDUCTIONS),
    *(
        Operator(
            op_type,
            build=_build_arg,
            kernel=_in_float32(_search),
            cost=_cost,
            attributes=MappingProxyType({"axis": 0, "keepdims": 1, "select_last_index": 0}),
            notes="The output holds only the index, so the search cannot accumulate.",
            structure="row-phased; whole along the row axis",
            **_WHOLE,
        )
        for op_type in _SEARCHES
    ),
    *(
        Operator(
            op_type,
            build=_build_cumulative,
            kernel=_in_float32(_cumulative),
            cost=output_elements,
            since=since,
            constant_inputs=frozenset({1}),
            attributes=MappingProxyType({"exclusive": 0, "reverse": 0}),
            held=lambda layer: frozenset({1} if _has_state(layer) else ()),
            structure="row-phased; whole if backwards along the row axis",
            notes="Along the row axis each phase updates a state.",
            **_WHOLE,
        )
        for op_type, (_, _, since) in _CUMULATIVE.items()
    ),
)
