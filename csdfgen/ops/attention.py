"""Attention: which rows of queries, keys and values does a row of its output need, and how is it computed?

Source: https://onnx.ai/onnx/operators/onnx__Attention.html: softmax(scale * Q K' + mask) V, for each image and
head. A slab of query rows needs the keys and the values whole, so that scores exist for the rows of one
phase at most; where the rows are images or windows, each row needs its own keys alone.

Exporters surround the products with Reshape, Transpose, Split and Slice, which only say where an element is.
A `View` says it instead: the operands of a layer are the tensors before these nodes, its output is the tensor
behind them (`rewriting.attention`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Shape, Tensor, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import node_layer
from csdfgen.ops.base import (
    Call,
    CountingScratch,
    Emit,
    Mode,
    Operator,
    Scratch,
    Work,
    broadcast_rows,
    require_tensor,
)
from csdfgen.ops.copies import cut
from csdfgen.ops.linear import is_matrix, prepare_operand
from csdfgen.ops.reducing import FLOATS, compute_in_float32, sum_over

QUERIES, VALUES = 0, 2
MASKS = 3
"""Position of the first of the operands that are added to the scores."""


@dataclass(frozen=True, slots=True)
class View:
    """Where in a stored tensor an element with the axes (*batch, positions, channels) is.

    rank: number of these axes. row: which of them is the row axis of the tensor; None: the tensor is one row.
    split: a row's elements as sizes whose product they are. axes: for each of these sizes the axis that runs
    along it, -1 where there is none. at, sizes: the first index along each, and how many there are.
    """

    rank: int
    row: int | None
    split: Shape
    axes: tuple[int, ...]
    at: tuple[int, ...]
    sizes: tuple[int, ...]


def view_slab(stored: np.ndarray, view: View) -> np.ndarray:
    """A slab, shape (rows, *row shape), with the axes of a view; shares its memory. Axes of which it has none
    are 1 long.
    """
    array = stored.reshape(len(stored), *view.split)
    along: list[Any] = [slice(None) if view.row is not None else 0]
    along += [
        start if axis < 0 else slice(start, start + size)
        for axis, start, size in zip(view.axes, view.at, view.sizes, strict=True)
    ]
    along.append(...)  # indices alone would give a number, which is a copy
    kept = [axis for axis in (-1 if view.row is None else view.row, *view.axes) if axis >= 0]
    ordered = array[tuple(along)].transpose(sorted(range(len(kept)), key=kept.__getitem__))
    missing = tuple(axis for axis in range(view.rank) if axis not in kept)
    return np.expand_dims(ordered, missing)


def find_view(tensor: Tensor, places: np.ndarray) -> View | None:
    """The view in which elements are at these places of the stored tensor.

    places: shape (*batch, positions, channels), indices into the flattened storage. Returns None where they
    are not evenly spaced, or an axis is neither the row axis nor one within a row.

    >>> find_view(Tensor("x", (1, 2, 6), row_axis=1), np.arange(12).reshape(2, 3, 2).transpose(1, 0, 2))
    View(rank=3, row=1, split=(3, 2), axes=(0, 2), at=(0, 0), sizes=(3, 2))
    """
    shape, row = places.shape, tensor.row_elements
    first = int(places[(0,) * places.ndim])
    steps = [
        0 if size == 1 else int(places[(0,) * k + (1,) + (0,) * (places.ndim - k - 1)]) - first
        for k, size in enumerate(shape)
    ]
    even = sum(
        (np.arange(n).reshape(-1, *(1,) * (len(shape) - k - 1)) * step)
        for k, (n, step) in enumerate(zip(shape, steps, strict=True))
    )
    if min(steps, default=0) < 0 or first >= row or not np.array_equal(first + even, places):
        return None
    rows = [k for k, step in enumerate(steps) if step == row and shape[k] == tensor.rows > 1]
    if tensor.rows > 1 and not rows:
        return None
    inner = {k: step for k, step in enumerate(steps) if step and k not in rows[:1]}
    if first + sum(step * (shape[k] - 1) for k, step in inner.items()) >= row:
        return None
    # all places at which a row is cut: between its own axes and those of the view
    cuts = {1, row, *(prod(tensor.row_shape[k:]) for k in range(len(tensor.row_shape)))}
    ordered = sorted(cuts | set(inner.values()), reverse=True)
    if any(more % fewer for more, fewer in pairwise(ordered)):
        return None
    split = [more // fewer for more, fewer in pairwise(ordered)]
    axes, at, sizes = [], [], []
    for size, step in zip(split, ordered[1:], strict=True):
        named = [k for k, own in inner.items() if own == step]
        axes.append(named[0] if named else -1)
        at.append(first // step % size)
        sizes.append(shape[named[0]] if named else 1)
        if at[-1] + sizes[-1] > size:
            return None
    if len([axis for axis in axes if axis >= 0]) != len(inner):
        return None
    row_axis = rows[0] if rows else None
    return View(len(shape), row_axis, *map(tuple, (split, axes, at, sizes)))


# --- nodes -------------------------------------------------------------------------------------


def _as_heads(tensor: Tensor, heads: int, what: str) -> np.ndarray:
    """Places of a tensor's elements, shape (images, heads, positions, channels)."""
    places = tensor.to_onnx(np.arange(tensor.elements).reshape(tensor.storage_shape))
    if len(tensor.shape) == 4:
        return places
    if len(tensor.shape) != 3 or heads < 1 or tensor.shape[2] % heads:
        raise ModelError(
            f"{what} of shape {list(tensor.shape)} with {heads} heads; it takes 4 axes, or 3 of which the last is "
            "divisible by the number of heads"
        )
    images, positions, _ = tensor.shape
    return places.reshape(images, positions, heads, -1).transpose(0, 2, 1, 3)


def _viewed(tensor: Tensor, heads: int, shape: Shape, what: str) -> tuple[Tensor, View]:
    """A tensor as it is read or written, and the view with these axes in it: by its own rows, or as one row where
    heads that share keys are its rows, which are an axis less than they are in the view.
    """
    for stored in (tensor, replace(tensor, row_axis=None)):
        view = find_view(stored, _as_heads(stored, heads, what).reshape(shape))
        if view is not None:
            return stored, view
    raise AssertionError(f"{what} of one row is evenly spaced")


def _build(node: Node) -> Layer:
    q, k, v = (require_tensor(node, position) for position in range(3))
    for position, name in ((4, "past_key"), (5, "past_value"), (6, "nonpad_kv_seqlen")):
        if node.operand(position) is not None:
            raise ModelError(
                f"input {position} ({name}) is given; keys and values of before cannot be kept"
            )
    if any(node.outputs[1:]):
        raise ModelError("only output 0 can be computed, not present keys, values or products")
    if len({t.dtype for t in (q, k, v)}) > 1 or q.dtype not in FLOATS:
        raise ModelError(
            f"inputs of types {q.dtype}, {k.dtype}, {v.dtype}; they must share one of {FLOATS}"
        )
    heads = int(ATTENTION.attribute(node, "q_num_heads"))
    fewer = int(ATTENTION.attribute(node, "kv_num_heads"))
    places = [
        _as_heads(tensor, count, name)
        for tensor, count, name in ((q, heads, "Q"), (k, fewer, "K"), (v, fewer, "V"))
    ]
    images, heads, positions, channels = places[0].shape
    few = places[1].shape[1]
    if (
        places[1].shape != (images, few, places[2].shape[2], channels)
        or heads % few
        or (places[2].shape[:2] != (images, few))
    ):
        shapes = ", ".join(str(list(array.shape)) for array in places)
        raise ModelError(
            f"Q, K and V of shapes {shapes} (images, heads, positions, channels) do not fit"
        )
    # several heads of queries share one of keys: [images, heads of keys, heads that share it, positions, channels]
    share = heads // few
    wide = len(q.shape) == 4
    size = places[2].shape[-1]
    shape = (images, heads, positions, size) if wide else (images, positions, heads * size)
    output = Tensor(node.outputs[0], shape, q.format, q.row_axis)
    several = (images, few, share, positions)
    read = [
        _viewed(q, heads, (*several, channels), "Q"),
        *(
            _viewed(tensor, few, (images, few, 1, *array.shape[2:]), name)
            for tensor, array, name in ((k, places[1], "K"), (v, places[2], "V"))
        ),
    ]
    output, view = _viewed(output, heads, (*several, size), "the output")
    mask = node.operand(MASKS)
    if isinstance(mask, np.ndarray):
        if mask.dtype == bool:
            mask = np.where(mask, 0, -np.inf).astype(q.dtype)
        mask = _by_group(mask, few, share)
    elif mask is not None:
        raise ModelError(
            f"attn_mask is computed at run time ('{mask.name}'), it must be a constant"
        )
    given = ATTENTION.attribute(node, "scale")
    return node_layer(
        node,
        (q, k, v, mask),
        (output,),
        {
            "views": (*(one for _, one in read), view),
            "scale": float(given) if given else 1 / sqrt(channels),
            "causal": bool(ATTENTION.attribute(node, "is_causal")),
            "softcap": float(ATTENTION.attribute(node, "softcap")),
            "zeros_for_nan": False,
        },
        (*(one.row_axis for one, _ in read), None),
    )


def _by_group(mask: np.ndarray, few: int, share: int) -> np.ndarray:
    """A mask of shape (..., images, heads, queries, keys) with its heads divided as those of the queries are."""
    sizes: Shape = (*(1,) * (4 - mask.ndim), *mask.shape)
    divided = (1, 1) if sizes[1] == 1 else (few, share)
    return mask.reshape(sizes[0], *divided, *sizes[2:])


# --- rows ---------------------------------------------------------------------------------------


def find_views(layer: Layer) -> tuple[View, View, View, View]:
    """Of queries, keys, values and the output."""
    views: tuple[View, View, View, View] = layer.attributes["views"]
    return views


def _runs_with(layer: Layer, position: int, axis: int | None) -> bool:
    """Whether an axis of the output's view is one of an operand's too: its positions are those of the queries, its
    channels those of the values, and all axes in front are everybody's.
    """
    if axis is None:
        return False
    behind = axis - (find_views(layer)[0].rank - 2)
    return behind < 0 or position == (QUERIES, VALUES)[behind]


def _by_rows(layer: Layer, position: int) -> bool:
    """Whether a row of the output needs one row of the operand, that of the same index."""
    views, axis = find_views(layer), find_views(layer)[3].row
    if position >= MASKS:
        tensor, own, rank = layer.inputs[position], layer.input_axes[position], views[3].rank
        if tensor is None or own is None or axis is None or axis == rank - 1:
            return False
        return tensor.shape[own] > 1 and own - len(tensor.shape) == axis - rank
    return views[position].row == axis and _runs_with(layer, position, axis)


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return broadcast_rows(layer, out, lambda position: _by_rows(layer, position))


def _repeats(layer: Layer) -> bool:
    """Whether no row of the output needs a part of an operand that depends on its number."""
    rank, axis = find_views(layer)[3].rank, find_views(layer)[3].row
    if axis is None:
        return True
    masks = [array.shape for position, array in layer.constants.items() if position >= MASKS]
    masks += [
        t.shape
        for k, t in enumerate(layer.inputs)
        if k >= MASKS and t is not None and not _by_rows(layer, k)
    ]
    from_behind = rank - axis
    cut = any(
        not _by_rows(layer, k) and _runs_with(layer, k, axis) and _length(layer, k, axis) > 1
        for k in range(MASKS)
    )
    by_number = layer.attributes["causal"] and axis == rank - 2
    return not (cut or by_number) and all(
        from_behind == 1 or len(shape) < from_behind or shape[-from_behind] == 1 for shape in masks
    )


def _mode(layer: Layer) -> Mode:
    return Mode.WHOLE if find_views(layer)[3].row is None else Mode.ROWS


def _cost(layer: Layer, out: Rows) -> int:
    """Multiply-accumulates of both products."""
    keys, channels, values = attention_sizes(layer)
    return len(out) * layer.output.row_elements * keys * (channels + values) // values


def _length(layer: Layer, position: int, axis: int) -> int:
    """Size of an axis of an operand's view."""
    view, tensor = find_views(layer)[position], layer.computed(position)
    if view.row == axis:
        return tensor.rows
    return prod(n for n, named in zip(view.sizes, view.axes, strict=True) if named == axis)


# --- the kernel ---------------------------------------------------------------------------------


def slice_operand(layer: Layer, position: int, array: np.ndarray, out: Rows) -> np.ndarray:
    """Queries, keys or values with the axes of their view, of the rows that `_input_rows` names: what these output
    rows need.
    """
    axis = find_views(layer)[3].row
    if axis is None or _by_rows(layer, position) or not _runs_with(layer, position, axis):
        return array
    return _cut(array, axis, out)


def align_mask(layer: Layer, position: int, mask: np.ndarray, out: Rows) -> np.ndarray:
    """A mask, of a computed one the rows that `_input_rows` names, with all axes of the scores: what these output rows
    need (scores have no axis of the output's channels).
    """
    rank, axis = find_views(layer)[0].rank, find_views(layer)[3].row
    array = mask.reshape((1,) * (rank - mask.ndim) + mask.shape)
    if axis is None or axis == rank - 1 or _by_rows(layer, position):
        return array
    return _cut(array, axis, out)


def _cut(array: np.ndarray, axis: int, out: Rows) -> np.ndarray:
    return array if array.shape[axis] == 1 else cut(array, axis, slice(out.start, out.stop))


def slice_masks(layer: Layer, out: Rows) -> list[np.ndarray]:
    """The constants that are added to the scores of these output rows: parts of the same arrays for all rows, whose
    last axis, that of the keys, is stored side by side.
    """
    return [align_mask(layer, k, mask, out) for k, mask in _wide_masks(layer).items()]


@memoize_layer
def _wide_masks(layer: Layer) -> dict[int, np.ndarray]:
    """By position."""
    keys = attention_sizes(layer)[0]
    return {
        position: np.ascontiguousarray(np.broadcast_to(mask, (*mask.shape[:-1], keys)))
        for position, mask in sorted(layer.constants.items())
        if position >= MASKS
    }


def first_query_number(layer: Layer, out: Rows) -> int:
    """The number of the first query of these output rows."""
    view = find_views(layer)[3]
    return out.start if view.row == view.rank - 2 else 0


def attention_sizes(layer: Layer) -> tuple[int, int, int]:
    """How many keys there are, and how many channels a key and a value have."""
    rank = find_views(layer)[0].rank
    return (_length(layer, 1, rank - 2), _length(layer, 1, rank - 1), _length(layer, 2, rank - 1))


def _kernel(layer: Layer) -> Emit:
    views = find_views(layer)

    def emit(work: Work) -> list[Call]:
        rows = work.phase.out
        out, masks = view_slab(work.result, views[3]), slice_masks(layer, rows)
        operands = []
        for position, view in enumerate(views[:MASKS]):
            slab = work.slabs[position]
            assert slab is not None
            operands.append(slice_operand(layer, position, view_slab(slab, view), rows))
        q, k, v = operands
        for position, (tensor, slab) in enumerate(zip(layer.inputs, work.slabs, strict=True)):
            if position >= MASKS and tensor is not None and slab is not None:
                masks.append(align_mask(layer, position, tensor.to_onnx(slab), rows))
        if layer.attributes["causal"]:
            shape = (*(1,) * len(out.shape[:-2]), q.shape[-2], k.shape[-2])
            masks.append(
                np.triu(np.full(shape, -np.inf, out.dtype), 1 + first_query_number(layer, rows))
            )
        batch = out.shape[:-2]
        q, k, v = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
        masks = [np.broadcast_to(mask, (*batch, *mask.shape[-2:])) for mask in masks]
        calls: list[Call] = []
        keys = k.swapaxes(-1, -2)

        def attended(index: tuple[int, ...], scratch: Scratch) -> list[Call]:
            parts = [mask[index] for mask in masks]
            operands = q[index], keys[index], v[index]
            return _attended(operands, parts, out[index], layer, scratch)

        def fits(apart: int) -> bool:
            trial = CountingScratch()
            attended((0,) * apart, trial)
            return trial.end <= work.scratch.room

        # all groups at once where the workspace has room for their scores
        apart = next((n for n in range(len(batch)) if fits(n)), len(batch))
        for index in np.ndindex(batch[:apart]):
            mark = work.scratch.mark
            calls += attended(index, work.scratch)
            work.scratch.rewind(mark)
        return calls

    return compute_in_float32(emit)


def _attended(
    operands: tuple[np.ndarray, ...],
    masks: list[np.ndarray],
    out: np.ndarray,
    layer: Layer,
    scratch: Scratch,
) -> list[Call]:
    """softmax(cap(scale * q keys) + masks) v into out.

    operands: q, keys, v of shapes (..., positions, channels), (..., channels, keys) and (..., keys, channels).
    """
    calls: list[Call] = []
    scale, cap = layer.attributes["scale"], layer.attributes["softcap"]
    q, keys, v = (prepare_operand(array, out.dtype, scratch, calls) for array in operands)
    scores = scratch.take((*q.shape[:-1], keys.shape[-1]), q.dtype)
    folded = scratch.take((*q.shape[:-1], 1), q.dtype)
    calls.append((np.matmul, (q, keys, scores)))
    if scale != 1:
        calls.append((np.multiply, (scores, q.dtype.type(scale), scores)))
    if cap:
        limit = q.dtype.type(cap)
        calls += [
            (np.divide, (scores, limit, scores)),
            (np.tanh, (scores, scores)),
            (np.multiply, (scores, limit, scores)),
        ]
    calls += [(np.add, (scores, mask, scores)) for mask in masks]
    last = (scores.ndim - 1,)
    calls += [
        (np.maximum.reduce, (scores, last, None, folded, True)),
        (np.subtract, (scores, folded, scores)),
        (np.exp, (scores, scores)),
        sum_over(scores, last, folded),
        (np.divide, (scores, folded, scores)),
    ]
    if layer.attributes["zeros_for_nan"]:
        none = scratch.take(folded.shape, "bool")
        nothing = q.dtype.type(0)
        calls.append((np.not_equal, (folded, folded, none)))
        calls.append(
            (np.copyto, (scores, nothing, "same_kind", np.broadcast_to(none, scores.shape)))
        )
    total = out if is_matrix(out) else scratch.take(out.shape, out.dtype)
    calls.append((np.matmul, (scores, v, total)))
    return calls if total is out else [*calls, (np.copyto, (out, total))]


ATTENTION = Operator(
    "Attention",
    _build,
    _input_rows,
    _kernel,
    _cost,
    since=23,
    mode=_mode,
    shift_invariant=_repeats,
    constant_inputs=frozenset({MASKS}),
    attributes=MappingProxyType(
        {
            "is_causal": 0,
            "kv_num_heads": 0,
            "q_num_heads": 0,
            "qk_matmul_output_mode": 0,
            "scale": 0.0,
            "softcap": 0.0,
            "softmax_precision": 1,
        }
    ),
    structure="row-phased; whole if the output has no row axis",
    notes="Query rows need all keys and values. The mask must be a constant; past keys and values are refused.",
    multiplies=True,
)

OPERATORS: tuple[Operator, ...] = (ATTENTION,)
