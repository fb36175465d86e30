"""Elements at indices that are computed: Gather, GatherElements, GatherND, Scatter*, OneHot.

Source: https://onnx.ai/onnx/operators/onnx__GatherND.html and the pages of the others. Indices become
places in a flat array, in the workspace; what is gathered or scattered is then one call. A negative index
counts from the back. Memory beyond the tensor is never touched: an index that is outside of its axis wraps
around it, where onnxruntime refuses to go on. With constant indices Gather and GatherND are those of
`joining`.

A gathered row needs its own indices, and the rows of the data at its place; where the data is indexed along
its rows, all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import joining
from csdfgen.ops._operands import (
    check_shape,
    check_word,
    node_layer,
    normalize_axis,
    output_elements,
    require,
)
from csdfgen.ops.base import (
    Call,
    Mode,
    Operator,
    Scratch,
    Work,
    broadcast_rows,
    make_phase_kernel,
    require_constant,
    whole_rows,
)
from csdfgen.ops.copies import make_contiguous
from csdfgen.ops.elementwise import NUMERIC
from csdfgen.ops.primitives import look_up, pick_elements, scatter
from csdfgen.ops.reducing import constant, split_into_blocks

DATA, INDICES, UPDATES = range(3)
"""Positions of the inputs."""

Operand = Tensor | np.ndarray


# Operands -----------------------------------------------------------------------------------------


def _operand(node: Node, position: int) -> Operand:
    found = require(node, position)
    if 0 in found.shape:
        raise ModelError(f"input {position} has shape {list(found.shape)}, without elements")
    return found


def _indices(node: Node) -> Operand:
    found = _operand(node, INDICES)
    if str(found.dtype) not in ("int32", "int64"):
        raise ModelError(f"indices of type {found.dtype}, int32 or int64 is needed; insert a Cast")
    return found


def _format(operand: Operand) -> Format:
    return operand.format if isinstance(operand, Tensor) else Format(operand.dtype.name)


def _rows_of(operand: Operand) -> int | None:
    return operand.row_axis if isinstance(operand, Tensor) else None


def _longest(shape: Shape) -> int | None:
    """The axis with most positions; None where all have one."""
    return max(range(len(shape)), key=shape.__getitem__) if prod(shape) > 1 else None


def order_axes(layer: Layer, work: Work, position: int, rows: Rows | None = None) -> np.ndarray:
    """An operand in ONNX axis order; rows: of a constant those along the axis that the layer reads it by."""
    slab, tensor = work.slabs[position], layer.inputs[position]
    axis = layer.input_axes[position]
    if tensor is not None:
        assert slab is not None
        return replace(tensor, row_axis=axis).to_onnx(slab)
    array = layer.constants[position]
    if axis is None or rows is None:
        return array
    return array[(slice(None),) * axis + (slice(rows.start, rows.stop),)]


def _places(indices: np.ndarray, size: int, scratch: Scratch, calls: list[Call]) -> np.ndarray:
    """Indices along an axis of so many positions, each from 0 on, in a new array."""
    found = scratch.take(indices.shape, "int64")
    calls.append((np.copyto, (found, indices)))
    calls.append((np.remainder, (found, constant(size, "int64"), found)))
    return found


def _steps(shape: Shape) -> Shape:
    """Elements from one position to the next along each axis of a contiguous array."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _along(axis: int, size: int, step: int, rank: int) -> np.ndarray:
    """0, step, 2 * step ... along an axis."""
    return (np.arange(size, dtype=np.int64) * step).reshape(-1, *(1,) * (rank - 1 - axis))


def _into(target: np.ndarray, made: np.ndarray) -> Call:
    return np.copyto, (target, made.reshape(target.shape))


# Rows ---------------------------------------------------------------------------------------------


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    """Operands that are read along an axis have the rows of the output, others are read whole."""
    return broadcast_rows(layer, out, lambda position: layer.input_axes[position] is not None)


def _gathering(
    node: Node,
    operands: tuple[Operand, Operand],
    shape: Shape,
    row_axis: int | None,
    axes: tuple[int | None, int | None],
    **attributes: Any,
) -> Layer:
    output = Tensor(node.outputs[0], check_shape(shape), _format(operands[DATA]), row_axis)
    return node_layer(node, operands, (output,), attributes, axes)


# Gather -------------------------------------------------------------------------------------------


def _build_gather(node: Node) -> Layer:
    data, indices = _operand(node, DATA), _indices(node)
    axis = normalize_axis(int(node.attributes.get("axis", 0)), len(data.shape))
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    k = _rows_of(data)
    if k is not None and k != axis:
        rows: int | None = k if k < axis else k - 1 + len(indices.shape)
        return _gathering(node, (data, indices), shape, rows, (k, None), axis=axis)
    row = _longest(indices.shape)
    rows = None if row is None else axis + row
    return _gathering(node, (data, indices), shape, rows, (None, row), axis=axis)


def _gather(layer: Layer, work: Work) -> list[Call]:
    out, axis = layer.output, layer.attributes["axis"]
    data = order_axes(layer, work, DATA, work.phase.out)
    indices = order_axes(layer, work, INDICES, work.phase.out)
    before, size = prod(data.shape[:axis]), data.shape[axis]
    calls: list[Call] = []
    # first, as rows that are gathered for the kernel: what is aligned behind it takes equally much either way
    table = make_contiguous(data, work.scratch, calls).reshape(before * size, -1)
    found = _places(indices, size, work.scratch, calls).reshape(-1)
    if before > 1:
        each = work.scratch.take((before, found.size), "int64")
        first = constant(np.arange(before)[:, None] * size, "int64")
        calls.append((np.add, (found, first, each)))
        found = each.reshape(-1)
    return [*calls, *_picked(table, found, out.to_onnx(work.result), work.scratch)]


def _picked(
    table: np.ndarray, places: np.ndarray, target: np.ndarray, scratch: Scratch
) -> list[Call]:
    """Calls that write rows of a table, one for each place, to the target."""
    if target.flags.c_contiguous:
        return [(pick_elements, (table, places, target.reshape(len(places), -1)))]
    made = scratch.take((len(places), table.shape[1]), table.dtype)
    return [(pick_elements, (table, places, made)), _into(target, made)]


# GatherElements -----------------------------------------------------------------------------------


def _build_gather_elements(node: Node) -> Layer:
    data, indices = _operand(node, DATA), _indices(node)
    shape, rank = indices.shape, len(data.shape)
    axis = normalize_axis(int(node.attributes.get("axis", 0)), rank)
    fits = len(shape) == rank and all(
        size <= most or k == axis
        for k, (size, most) in enumerate(zip(shape, data.shape, strict=True))
    )
    if not fits:
        raise ModelError(
            f"indices of shape {list(shape)} do not fit data of shape {list(data.shape)} along axis {axis}"
        )
    k = _rows_of(data)
    if k is not None and k != axis and shape[k] == data.shape[k]:
        return _gathering(node, (data, indices), shape, k, (k, k), axis=axis)
    row = _rows_of(indices)
    return _gathering(node, (data, indices), shape, row, (None, row), axis=axis)


def _positions(shape: Shape, axis: int, steps: Shape, starts: Sequence[int]) -> list[np.ndarray]:
    """What the positions of indices along all axes but one add to their places. starts: first position along every axis."""
    return [
        (_along(k, size, steps[k], len(shape)) + starts[k] * steps[k])[(None,) * k]
        for k, size in enumerate(shape)
        if k != axis and (size > 1 or starts[k])
    ]


def _elements(
    indices: np.ndarray,
    size: int,
    step: int,
    positions: Sequence[np.ndarray],
    scratch: Scratch,
    calls: list[Call],
) -> np.ndarray:
    """Places in an array of elements at indices along an axis of so many positions, `step` apart, and at their own positions
    along all others.
    """
    found = _places(indices, size, scratch, calls)
    if step != 1:
        calls.append((np.multiply, (found, constant(step, "int64"), found)))
    calls.extend((np.add, (found, own, found)) for own in positions)
    return found


def _order_in_memory(array: np.ndarray) -> list[int]:
    """The axes of an array by their steps, the longest step first."""
    return sorted(range(array.ndim), key=lambda axis: -array.strides[axis])


def _as_rows_in_memory(
    data: np.ndarray, count: int, scratch: Scratch, calls: list[Call]
) -> tuple[np.ndarray, Shape]:
    """An array as rows of its axes behind the first `count`, in the order in which they lie in memory: to copy them into another
    order would take longer. And the rows from one position to the next along each of those axes.
    """
    turn = [axis for axis in _order_in_memory(data) if axis < count]
    found = make_contiguous(data.transpose(*turn, *range(count, data.ndim)), scratch, calls)
    steps = _steps(found.shape[:count])
    table = found.reshape(prod(found.shape[:count]), -1)
    return table, tuple(steps[turn.index(axis)] for axis in range(count))


def _gather_elements(layer: Layer, work: Work) -> list[Call]:
    calls: list[Call] = []
    out, axis = layer.output, layer.attributes["axis"]
    data = order_axes(layer, work, DATA)
    table, steps = _as_rows_in_memory(data, data.ndim, work.scratch, calls)
    indices = order_axes(layer, work, INDICES, work.phase.out)
    # rows of the data that are not those of the phase are all there
    starts = [0] * indices.ndim
    if layer.input_axes[DATA] is None and out.row_axis not in (None, axis):
        assert out.row_axis is not None
        starts[out.row_axis] = work.phase.out.start
    target = out.to_onnx(work.result)
    order = _order_in_memory(target)
    positions = [one.transpose(order) for one in _positions(indices.shape, axis, steps, starts)]
    indices, target = indices.transpose(order), target.transpose(order)
    found = _elements(indices, data.shape[axis], steps[axis], positions, work.scratch, calls)
    if target.flags.c_contiguous:
        return [*calls, (look_up, (table.reshape(-1), found, target))]
    made = work.scratch.take(target.shape, target.dtype)
    return [*calls, (look_up, (table.reshape(-1), found, made)), (np.copyto, (target, made))]


# GatherND -----------------------------------------------------------------------------------------


def _coordinates(node: Node, shape: Shape, indices: Operand, batch: int = 0) -> int:
    """How many coordinates each index has. Raises ModelError."""
    count = indices.shape[-1] if indices.shape else 0
    rank = len(indices.shape)
    if not 0 < count <= len(shape) - batch or indices.shape[:batch] != shape[:batch]:
        raise ModelError(
            f"indices of shape {list(indices.shape)} with batch_dims={batch} do not fit a tensor of shape {list(shape)}"
        )
    if not 0 <= batch < rank:
        raise ModelError(f"batch_dims={batch} is not one of the {rank - 1} axes of the indices")
    return count


def _build_gather_nd(node: Node) -> Layer:
    data, indices = _operand(node, DATA), _indices(node)
    batch = int(node.attributes.get("batch_dims", 0))
    count = _coordinates(node, data.shape, indices, batch)
    shape = (*indices.shape[:-1], *data.shape[batch + count :])
    row = _longest(indices.shape[:-1])
    return _gathering(node, (data, indices), shape, row, (None, row), batch_dims=batch)


def _flat(
    indices: np.ndarray, shape: Shape, steps: Shape, scratch: Scratch, calls: list[Call]
) -> np.ndarray:
    """Places of the coordinates along the last axis. shape, steps: of the axes that they are along."""
    found = scratch.take(indices.shape[:-1], "int64")
    each = found if len(shape) == 1 else scratch.take(found.shape, "int64")
    for k, (size, step) in enumerate(zip(shape, steps, strict=True)):
        own = each if k else found
        calls.append((np.copyto, (own, indices[..., k])))
        calls.append((np.remainder, (own, constant(size, "int64"), own)))
        if step != 1:
            calls.append((np.multiply, (own, constant(step, "int64"), own)))
        if k:
            calls.append((np.add, (found, each, found)))
    return found


def _gather_nd(layer: Layer, work: Work) -> list[Call]:
    calls: list[Call] = []
    batch, out = layer.attributes["batch_dims"], work.phase.out
    data, indices = order_axes(layer, work, DATA), order_axes(layer, work, INDICES, out)
    stop = batch + indices.shape[-1]
    table, steps = _as_rows_in_memory(data, stop, work.scratch, calls)
    found = _flat(indices, data.shape[batch:stop], steps[batch:], work.scratch, calls)
    for k in range(batch):
        first = out.start if layer.output.row_axis == k else 0
        own = _along(k, found.shape[k], steps[k], found.ndim) + first * steps[k]
        calls.append((np.add, (found, own, found)))
    target = layer.output.to_onnx(work.result)
    return [*calls, *_picked(table, found.reshape(-1), target, work.scratch)]


# Scatter ------------------------------------------------------------------------------------------

_REDUCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "none": scatter,
        "add": np.add.at,
        "mul": np.multiply.at,
        "max": np.maximum.at,
        "min": np.minimum.at,
    }
)
"""What an update does to an element -> the call."""


def _scattering(node: Node, **attributes: Any) -> Layer:
    data, updates = _operand(node, DATA), _operand(node, UPDATES)
    kind = check_word(node.attributes.get("reduction", "none"), "reduction", tuple(_REDUCTIONS))
    if str(updates.dtype) != str(data.dtype):
        raise ModelError(f"updates of type {updates.dtype} for data of type {data.dtype}")
    if kind != "none" and str(data.dtype) not in NUMERIC:
        raise ModelError(f"reduction='{kind}' of type {data.dtype}; insert a Cast")
    output = Tensor(node.outputs[0], data.shape, _format(data), _rows_of(data))
    operands = (data, _indices(node), updates)
    # whole, in natural order, but for the data, whose rows are copied as they are
    axes = (output.row_axis, None, None)
    return node_layer(node, operands, (output,), {"reduction": kind, **attributes}, axes)


def _build_scatter_elements(node: Node) -> Layer:
    data, indices, updates = (_operand(node, k) for k in range(3))
    axis = normalize_axis(int(node.attributes.get("axis", 0)), len(data.shape))
    if indices.shape != updates.shape or len(indices.shape) != len(data.shape):
        raise ModelError(
            f"indices of shape {list(indices.shape)} and updates of shape {list(updates.shape)} "
            f"for data of shape {list(data.shape)}; the former must be equal, with {len(data.shape)} axes"
        )
    if any(
        k != axis and n > m for k, (n, m) in enumerate(zip(indices.shape, data.shape, strict=True))
    ):
        raise ModelError(
            f"indices of shape {list(indices.shape)} reach beyond data of shape {list(data.shape)}"
        )
    return _scattering(node, axis=axis)


def _build_scatter_nd(node: Node) -> Layer:
    data, indices, updates = (_operand(node, k) for k in range(3))
    count = _coordinates(node, data.shape, indices)
    wanted = (*indices.shape[:-1], *data.shape[count:])
    if updates.shape != wanted:
        raise ModelError(
            f"updates of shape {list(updates.shape)}, {list(wanted)} is needed for these indices"
        )
    return _scattering(node)


def _assigned(data: Operand, indices: Operand, updates: Operand) -> tuple[int, int, int] | None:
    """(axis, start, stop) where updates replace these positions along one axis and nothing else, None otherwise.

    That is how exporters of PyTorch write `data[:, start:stop] = updates`.
    """
    if not (
        isinstance(data, Tensor) and isinstance(indices, np.ndarray) and isinstance(updates, Tensor)
    ):
        return None
    *box, count = indices.shape
    if len(box) != count or 0 in box:
        return None
    first = indices[(0,) * count] % data.shape[:count]
    expected = np.moveaxis(np.indices(box), 0, -1) + first
    if not np.array_equal(indices % data.shape[:count], expected):
        return None
    cut = [k for k in range(count) if box[k] != data.shape[k]]
    if len(cut) != 1 or any(first[k] for k in range(count) if k not in cut):
        return None
    (axis,) = cut
    return axis, int(first[axis]), int(first[axis]) + box[axis]


def _parts_of_scatter_nd(node: Node) -> tuple[Layer, ...]:
    """One layer; or what is in front of the assigned positions and what is behind them, and a Concat of all, which
    may be views.
    """
    layer = _build_scatter_nd(node)
    data, indices, updates = (_operand(node, k) for k in range(3))
    found = _assigned(data, indices, updates)
    if found is None or layer.attributes["reduction"] != "none":
        return (layer,)
    assert isinstance(data, Tensor) and isinstance(updates, Tensor)
    axis, start, stop = found
    layers: list[Layer] = []

    def kept(word: str, first: int, last: int) -> list[Tensor]:
        """The positions of the data from `first` to `last`, if there are any."""
        if first == last:
            return []
        cut = [np.array([value]) for value in (first, last, axis)]
        name = f"{node.outputs[0]}:{word}"
        layers.append(
            joining.SLICE.build(Node(f"{node.name}/{word}", "Slice", 13, {}, (data, *cut), (name,)))
        )
        return [*layers[-1].outputs]

    pieces = (*kept("front", 0, start), updates, *kept("behind", stop, data.shape[axis]))
    joined = Node(f"{node.name}/join", "Concat", 13, {"axis": axis}, pieces, node.outputs)
    return (*layers, joining.CONCAT.build(joined))


def _stored_steps(output: Tensor) -> Shape:
    """Elements from one position to the next along every ONNX axis of a stored tensor."""
    by_place = _steps(output.storage_shape)
    if output.row_axis is None:
        return by_place[1:]
    return tuple(by_place[output.order.index(axis)] for axis in range(len(output.shape)))


def _scatter(layer: Layer, work: Work) -> list[Call]:
    """The data, and over it the updates at their places in the stored tensor, block by block."""
    output, scratch, calls = layer.output, work.scratch, list[Call]()
    indices, updates = (order_axes(layer, work, k) for k in (INDICES, UPDATES))
    # before all else, as rows that are not evenly spaced are gathered before: the workspace is the same either way
    values = make_contiguous(updates, scratch, calls)
    result, shape, steps = work.result, output.shape, _stored_steps(output)
    target = result if result.flags.c_contiguous else scratch.take(result.shape, result.dtype)
    data = order_axes(layer, work, DATA)
    calls.append((np.copyto, (output.to_onnx(target), data)))
    axis = layer.attributes.get("axis")
    count = 0 if axis is not None else indices.shape[-1]
    lead, rest = indices.ndim - bool(count), shape[count:] if count else ()
    positions = [] if axis is None else _positions(indices.shape, axis, steps, (0,) * lead)
    if rest:
        each = _positions(rest, -1, steps[count:], (0,) * len(rest))
        positions = [sum(each, start=np.zeros(rest, np.int64))[(None,) * lead]]
    flat, function = target.reshape(-1), _REDUCTIONS[layer.attributes["reduction"]]

    def put(arrays: Sequence[np.ndarray], scratch: Scratch) -> list[Call]:
        made: list[Call] = []
        values, indices, *own = arrays
        if axis is None:
            places = _flat(indices, shape[:count], steps[:count], scratch, made)
            if rest:
                first = places.reshape(*places.shape, *(1,) * len(rest))
                places = scratch.take(values.shape, "int64")
                made.append((np.add, (first, own[0], places)))
        else:
            places = _elements(indices, shape[axis], steps[axis], own, scratch, made)
        places, values = places.reshape(-1), values.reshape(-1)
        if function is scatter:
            return [*made, (scatter, (places, values, flat))]
        return [*made, (function, (flat, places, values))]

    calls += split_into_blocks(put, (values, indices, *positions), range(lead), scratch)
    return calls if target is result else [*calls, (np.copyto, (result, target))]


# OneHot -------------------------------------------------------------------------------------------


def _build_one_hot(node: Node) -> Layer:
    indices, values = _operand(node, 0), _operand(node, 2)
    given = require_constant(node, 1)
    if given.size != 1 or values.shape != (2,):
        raise ModelError(
            f"depth of shape {list(given.shape)} and values of shape {list(values.shape)}; one number and two are "
            "needed"
        )
    rank, depth = len(indices.shape), int(given.item())
    axis = normalize_axis(int(node.attributes.get("axis", -1)), rank + 1)
    shape = check_shape((*indices.shape[:axis], depth, *indices.shape[axis:]))
    k = _rows_of(indices)
    rows = None if k is None else k + (axis <= k)
    output = Tensor(node.outputs[0], shape, _format(values), rows)
    attributes = {"axis": axis, "depth": depth}
    return node_layer(node, (indices, None, values), (output,), attributes, (k, None, None))


def _one_hot(layer: Layer, work: Work) -> list[Call]:
    axis, depth = layer.attributes["axis"], layer.attributes["depth"]
    indices = order_axes(layer, work, 0, work.phase.out)
    off, on = (order_axes(layer, work, 2)[k : k + 1].reshape(()) for k in range(2))
    target = layer.output.to_onnx(work.result)
    found = work.scratch.take(indices.shape, "int64")
    counted = work.scratch.take(indices.shape, "int64")
    here = work.scratch.take(target.shape, "bool")
    negative = work.scratch.take(indices.shape, "bool")
    return [
        (np.copyto, (found, indices, "unsafe")),
        (np.add, (found, constant(depth, "int64"), counted)),
        (np.less, (found, constant(0, "int64"), negative)),
        (np.copyto, (found, counted, "same_kind", negative)),
        (np.equal, (np.expand_dims(found, axis), _along(axis, depth, 1, target.ndim), here)),
        (np.copyto, (target, off)),
        (np.copyto, (target, on, "same_kind", here)),
    ]


# The records --------------------------------------------------------------------------------------


def _of_computed(constant_indices: Operator, computed: Operator) -> Operator:
    """An operator whose layers are those of one record where indices are constants, else of the other."""

    def build(node: Node) -> Layer:
        constants = isinstance(node.operand(INDICES), np.ndarray)
        known = constants and isinstance(node.operand(DATA), Tensor)
        return (constant_indices if known else computed).build(node)

    def of(layer: Layer) -> Operator:
        return constant_indices if layer.inputs[INDICES] is None else computed

    return replace(
        constant_indices,
        build=build,
        input_rows=lambda layer, out: of(layer).input_rows(layer, out),
        kernel=lambda layer: of(layer).kernel(layer),
        mode=lambda layer: of(layer).mode(layer),
        constant_inputs=frozenset(),
        notes="Computed indices outside the axis wrap around.",
    )


def _operator(
    op_type: str,
    build: Callable[[Node], Layer],
    kernel: Callable[[Layer, Work], list[Call]],
    **more: Any,
) -> Operator:
    return Operator(
        op_type,
        build=build,
        input_rows=more.pop("input_rows", _input_rows),
        kernel=make_phase_kernel(kernel),
        cost=output_elements,
        **more,
    )


_WRAPS = "Indices outside the axis wrap around."
_SCATTER: Mapping[str, Any] = {
    "input_rows": whole_rows,
    "mode": lambda layer: Mode.WHOLE,
    "structure": "whole",
    "notes": f"{_WRAPS} The last update of an element wins.",
}

OPERATORS: tuple[Operator, ...] = (
    _of_computed(joining.GATHER, _operator("Gather", _build_gather, _gather)),
    _of_computed(joining.GATHER_ND, _operator("GatherND", _build_gather_nd, _gather_nd)),
    _operator(
        "GatherElements",
        _build_gather_elements,
        _gather_elements,
        since=11,
        attributes=MappingProxyType({"axis": 0}),
        notes=_WRAPS,
    ),
    _operator(
        "ScatterElements",
        _build_scatter_elements,
        _scatter,
        since=11,
        attributes=MappingProxyType({"axis": 0, "reduction": "none"}),
        **_SCATTER,
    ),
    _operator(
        "ScatterND",
        _build_scatter_nd,
        _scatter,
        since=11,
        attributes=MappingProxyType({"reduction": "none"}),
        parts=_parts_of_scatter_nd,
        **{
            **_SCATTER,
            "notes": f"{_SCATTER['notes']} Updates at constant positions of one axis become a Concat.",
        },
    ),
    _operator(
        "OneHot",
        _build_one_hot,
        _one_hot,
        since=9,
        rowwise=True,
        constant_inputs=frozenset({1}),
        attributes=MappingProxyType({"axis": -1}),
    ),
)
