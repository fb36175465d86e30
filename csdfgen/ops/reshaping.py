"""Which rows survive a change of shape? Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Expand,
Tile, DepthToSpace, SpaceToDepth.

Source: https://onnx.ai/onnx/operators/ (a page for each operator). A Reshape or
Transpose that keeps the row axis apart keeps the rows (docs/model.md): ShuffleNet's channel
shuffle, Reshape [1,C,H,W] -> [1,g,C/g,H,W], Transpose and Reshape back, stays row-phased. One that
merges the row axis with axes behind it, or splits it, keeps the order of the stored elements, so that
output rows are parts of input rows or several of them: pixels become tokens, tokens windows. A
Reshape that mixes rows with channels writes natural order, one slab of its input at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import gcd, prod
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import (
    check_shape,
    check_word,
    first_input_rows,
    node_layer,
    normalize_axes,
    one_input_layer,
    output_elements,
    read_attribute_or_input,
    read_integers,
    storage_axis,
)
from csdfgen.ops.base import (
    REQUIRED,
    Alias,
    AliasKind,
    Call,
    Mode,
    Operator,
    Scratch,
    Work,
    aligned_rows,
    make_phase_kernel,
    operand_view,
    require_constant,
    require_tensor,
)
from csdfgen.ops.copies import reshaped_copy, reshaped_view, strided_copy

_WHOLE_ROW = (Alias(AliasKind.VIEW, 0),)


# Reshape, Flatten, Squeeze, Unsqueeze ------------------------------------------------------------


def _is_natural(tensor: Tensor) -> bool:
    """Whether the stored elements are one row in natural order although the tensor has a row axis."""
    k = tensor.row_axis
    return (
        k is not None
        and tensor.rows == 1
        and 1 in (prod(tensor.shape[:k]), prod(tensor.shape[k + 1 :]))
    )


def _kept_row_axis(source: Tensor, shape: Shape) -> int | None:
    """The axis of `shape` along which every row is a row of `source` with its elements in the same
    order; else the one along which all rows together are the same elements in the same order, which
    has the same axes before it.
    """
    if source.row_axis is None:
        return None
    if len(shape) in (4, 5) and source.elements == source.rows == shape[1]:
        return 2  # a vector becomes the channels of one pixel
    before = prod(source.shape[: source.row_axis])
    starts = [m for m in range(len(shape)) if prod(shape[:m]) == before]
    fits = [m for m in starts if shape[m] == source.rows]
    if source.rows > 1:
        # rows of a single element would cost more than they save
        other = [m for m in starts if 1 < shape[m] < source.elements]
        return next(iter(fits or other), None)
    # One row: any unit axis between the two halves will do; convolutions want axis 2, others
    # natural order.
    if len(shape) in (4, 5) and 2 in fits:
        return 2
    return fits[-1] if fits and not _is_natural(source) else None


def _loses_rows(layer: Layer) -> bool:
    source = layer.computed(0)
    return source.row_axis is not None and layer.output.row_axis is None and not _is_natural(source)


def _reshaped(node: Node, shape: Shape) -> Layer:
    source = require_tensor(node, 0)
    check_shape(shape)
    if prod(shape) != source.elements:
        raise ModelError(
            f"{source.elements} elements of shape {source.shape} do not fit shape {shape} ({prod(shape)}); "
            "the shape was made for inputs of another size: give inputs that size, or export the model with a size "
            "of -1"
        )
    output = Tensor(node.outputs[0], shape, source.format, _kept_row_axis(source, shape))
    return one_input_layer(node, source, output)


def _build_reshape(node: Node) -> Layer:
    source = require_tensor(node, 0)
    wanted = read_integers(require_constant(node, 1), "shape")
    if not RESHAPE.attribute(node, "allowzero"):
        if any(size == 0 and axis >= len(source.shape) for axis, size in enumerate(wanted)):
            raise ModelError(
                f"shape {wanted} copies an axis that the input of rank {len(source.shape)} does not have"
            )
        wanted = tuple(size or source.shape[axis] for axis, size in enumerate(wanted))
    if wanted.count(-1) > 1 or min(wanted, default=1) < -1:
        raise ModelError(
            f"shape {wanted} has more than one free dimension or a negative one; at most one -1 is allowed"
        )
    rest = -prod(wanted)
    if -1 in wanted and rest and source.elements % rest == 0:
        wanted = tuple(source.elements // rest if size == -1 else size for size in wanted)
    return _reshaped(node, wanted)


def _build_flatten(node: Node) -> Layer:
    shape = require_tensor(node, 0).shape
    axis = int(FLATTEN.attribute(node, "axis"))
    if not -len(shape) <= axis <= len(shape):
        raise ModelError(f"axis {axis} is outside a tensor of rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return _reshaped(node, (prod(shape[:axis]), prod(shape[axis:])))


def _build_squeeze(node: Node) -> Layer:
    shape = require_tensor(node, 0).shape
    # absent or empty, the axes are all those of size 1
    axes = read_attribute_or_input(node, "axes", 1, since=13) or (
        axis for axis, size in enumerate(shape) if size == 1
    )
    axes = normalize_axes(axes, len(shape))
    if any(shape[axis] != 1 for axis in axes):
        raise ModelError(
            f"axes {axes} of shape {shape} are not all of size 1, so they cannot be squeezed"
        )
    return _reshaped(node, tuple(size for axis, size in enumerate(shape) if axis not in axes))


def _build_unsqueeze(node: Node) -> Layer:
    shape = require_tensor(node, 0).shape
    axes = read_attribute_or_input(node, "axes", 1, since=13)
    if axes is None:
        raise ModelError("'axes' is missing; Unsqueeze needs to know where the new axes go")
    rank = len(shape) + len(axes)
    axes = normalize_axes(axes, rank)
    sizes = iter(shape)
    return _reshaped(node, tuple(1 if axis in axes else next(sizes) for axis in range(rank)))


def _keeps_rows(layer: Layer) -> bool:
    """Whether row i of the output is row i of the input."""
    return not _loses_rows(layer) and layer.output.rows == layer.computed(0).rows


def _parts(layer: Layer) -> tuple[int, int]:
    """How many of the largest parts that both are made of an input row and an output row have."""
    rows = layer.computed(0).rows, layer.output.rows
    common = gcd(*rows)
    return rows[1] // common, rows[0] // common


def _reshape_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    if _loses_rows(layer):
        return first_input_rows(layer, Rows(0, layer.computed(0).rows))
    held, made = _parts(layer)
    return first_input_rows(layer, Rows(out.start * made // held, -(-out.stop * made // held)))


def _reshape(layer: Layer, work: Work) -> list[Call]:
    source, slab, rows = layer.computed(0), work.slab, work.held
    if _keeps_rows(layer):
        return reshaped_copy(work.result, slab, work.scratch)
    if not _loses_rows(layer):
        return _cut_otherwise(layer, work)
    view = reshaped_view(work.result[0, ...], source.shape)
    if view is None:
        return _scattered(source, rows, slab, work.result[0], work.scratch)
    return [(np.copyto, (source.to_storage(view)[rows.start : rows.stop], slab))]


def _cut_otherwise(layer: Layer, work: Work) -> list[Call]:
    """The elements of input rows in the same order in rows of another size."""
    source, held = layer.computed(0), work.held
    each, made = _parts(layer)
    form = source.row_elements // each // prod(source.shape[: source.row_axis])
    calls: list[Call] = []

    def in_parts(array: np.ndarray, count: int) -> np.ndarray | None:
        """Rows as parts of shape (elements, axes before the row axis)."""
        return reshaped_view(array, (len(array), count, form, source.row_elements // each // form))

    given, target = in_parts(work.slab, each), in_parts(work.result, made)
    if given is None:
        copy = work.scratch.take(work.slab.shape, work.slab.dtype)
        calls.append((np.copyto, (copy, work.slab)))
        given = in_parts(copy, each)
    result = work.result
    if target is None:
        result = work.scratch.take(result.shape, result.dtype)
        target = in_parts(result, made)
    assert given is not None and target is not None
    at, stop = work.phase.out.start * made, work.phase.out.stop * made
    first = at
    while at < stop:
        (i, low), (j, high) = divmod(at - held.start * each, each), divmod(at - first, made)
        if made == 1:  # whole input rows, or a part of one
            rows = (stop - at) // each if low == 0 else 0
            count = rows * each or min(each - low, stop - at)
            part = given[i : i + rows] if rows else given[i, low : low + count]
            there = target[j : j + count, 0].reshape(part.shape)
        elif each == 1:  # an output row is whole input rows
            count = stop - at
            there = target
            part = given[i : i + count, 0].reshape(there.shape)
        else:
            count = min(each - low, made - high)
            part, there = given[i, low : low + count], target[j, high : high + count]
        calls.append((np.copyto, (there, part)))
        at += count
    return calls if result is work.result else [*calls, (np.copyto, (work.result, result))]


def _scattered(
    source: Tensor, rows: Rows, slab: np.ndarray, target: np.ndarray, scratch: Scratch
) -> list[Call]:
    """Rows into a natural-order target that cannot be seen with the source's shape (a strided part
    of a Concat).

    The elements behind the row axis are a run of consecutive elements of the target, which is written line by line.
    """
    k = source.row_axis
    assert k is not None
    before, length, width = source.shape[:k], prod(source.shape[k + 1 :]), target.shape[-1]
    run = scratch.take((length,), slab.dtype)
    calls: list[Call] = []
    for i, row in enumerate(range(rows.start, rows.stop)):
        for p, prefix in enumerate(np.ndindex(before)):
            at_row = (i, ..., *prefix)
            cell = slab[at_row]
            calls.append((np.copyto, (run.reshape(cell.shape), cell)))
            start = (p * source.rows + row) * length
            at = start
            while at < start + length:
                line, low = divmod(at, width)
                count = min(width - low, start + length - at)
                index = (*np.unravel_index(line, target.shape[:-1]), slice(low, low + count))
                calls.append((np.copyto, (target[index], run[at - start :][:count])))
                at += count
    return calls


def _reshape_operator(
    op_type: str, build: Callable[[Node], Layer], **attributes: object
) -> Operator:
    return Operator(
        op_type,
        build,
        _reshape_rows,
        make_phase_kernel(_reshape),
        output_elements,
        mode=lambda layer: Mode.ACCUMULATE if _loses_rows(layer) else Mode.ROWS,
        aliases=lambda layer: _WHOLE_ROW if _keeps_rows(layer) else (),
        rowwise=True,
        shift_invariant=_keeps_rows,
        pattern=lambda layer, out: None if _keeps_rows(layer) else out.start % _parts(layer)[0],
        constant_inputs=frozenset() if op_type == "Flatten" else frozenset({1}),
        attributes=MappingProxyType(attributes),
        structure="row-phased; accumulating if the row axis is merged with earlier axes",
        notes="A view if the row axis is kept, a row-wise copy if it is split or merged with later axes.",
    )


RESHAPE = _reshape_operator("Reshape", _build_reshape, allowzero=0)
FLATTEN = _reshape_operator("Flatten", _build_flatten, axis=1)
SQUEEZE = _reshape_operator("Squeeze", _build_squeeze, axes=None)
UNSQUEEZE = _reshape_operator("Unsqueeze", _build_unsqueeze, axes=None)


# Transpose ---------------------------------------------------------------------------------------


def _build_transpose(node: Node) -> Layer:
    source = require_tensor(node, 0)
    rank = len(source.shape)
    given = TRANSPOSE.attribute(node, "perm")
    perm = (
        tuple(range(rank))[::-1]
        if given is None
        else normalize_axes((int(axis) for axis in given), rank)
    )
    if len(perm) != rank:
        raise ModelError(f"perm {perm} names {len(perm)} axes, the input has {rank}")
    row_axis = None if source.row_axis is None else perm.index(source.row_axis)
    output = Tensor(
        node.outputs[0], tuple(source.shape[axis] for axis in perm), source.format, row_axis
    )
    return one_input_layer(node, source, output, perm=perm)


def _transpose_aliases(layer: Layer) -> tuple[Alias, ...]:
    """A view if the stored order is the same but for axes of size 1 (NHWC to NCHW, rows first)."""
    source, perm = layer.computed(0), layer.attributes["perm"]
    before = [axis for axis in source.order if source.shape[axis] > 1]
    after = [perm[axis] for axis in layer.output.order if source.shape[perm[axis]] > 1]
    return _WHOLE_ROW if before == after else ()


def _transpose(layer: Layer, work: Work) -> list[Call]:
    array = layer.computed(0).to_onnx(work.slab).transpose(layer.attributes["perm"])
    return strided_copy(work.result, layer.output.to_storage(array))


TRANSPOSE = Operator(
    "Transpose",
    _build_transpose,
    first_input_rows,
    make_phase_kernel(_transpose),
    output_elements,
    aliases=_transpose_aliases,
    rowwise=True,
    shift_invariant=True,
    attributes=MappingProxyType({"perm": None}),
    notes="A view if only axes of size 1 move in memory.",
)


# Expand, Tile ------------------------------------------------------------------------------------


def _build_expand(node: Node) -> Layer:
    source = require_tensor(node, 0)
    wanted = read_integers(require_constant(node, 1), "shape")
    rank = max(len(wanted), len(source.shape))
    padded = ((1,) * (rank - len(sizes)) + sizes for sizes in (wanted, source.shape))
    pairs = tuple(zip(*padded, strict=True))
    if any(1 not in pair and pair[0] != pair[1] for pair in pairs):
        raise ModelError(f"shape {source.shape} does not broadcast to {wanted}")
    # where one of the two sizes is 1 the other one stands, even if it is 0 (then refused)
    shape = check_shape(tuple(b if a == 1 else a for a, b in pairs))
    row_axis = None if source.row_axis is None else source.row_axis + rank - len(source.shape)
    return one_input_layer(node, source, Tensor(node.outputs[0], shape, source.format, row_axis))


def _expand(layer: Layer, work: Work) -> list[Call]:
    source, axis, output = layer.computed(0), layer.input_axes[0], layer.output
    view = operand_view(work.slab, source, axis, output, work.phase.out)
    return [(np.copyto, (work.result, view))]


def _same_elements(layer: Layer) -> tuple[Alias, ...]:
    return _WHOLE_ROW if layer.output.elements == layer.computed(0).elements else ()


EXPAND = Operator(
    "Expand",
    _build_expand,
    aligned_rows,
    make_phase_kernel(_expand),
    output_elements,
    since=8,
    aliases=_same_elements,
    rowwise=True,
    constant_inputs=frozenset({1}),
    structure="row-phased",
    notes="If the row axis is expanded, every output row reads the one input row.",
)


def _build_tile(node: Node) -> Layer:
    source = require_tensor(node, 0)
    repeats = read_integers(require_constant(node, 1), "repeats")
    if len(repeats) != len(source.shape):
        raise ModelError(f"{len(repeats)} repeats for a tensor of rank {len(source.shape)}")
    shape = check_shape(
        tuple(size * repeat for size, repeat in zip(source.shape, repeats, strict=True))
    )
    return one_input_layer(
        node, source, replace(source, name=node.outputs[0], shape=shape), repeats=repeats
    )


def _tiles_rows(layer: Layer) -> bool:
    return layer.output.rows != layer.computed(0).rows


def _tile_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return first_input_rows(layer, Rows(0, layer.computed(0).rows) if _tiles_rows(layer) else out)


def _tile(layer: Layer, work: Work) -> list[Call]:
    source, slab = layer.computed(0), work.slab
    stored = {
        storage_axis(source, axis): repeat
        for axis, repeat in enumerate(layer.attributes["repeats"])
    }
    repeats = (stored.get(place, 1) for place in range(slab.ndim))
    split = tuple(size for pair in zip(repeats, slab.shape, strict=True) for size in pair)
    source_view = np.expand_dims(slab, tuple(range(0, len(split), 2)))
    return [(np.copyto, (work.result.reshape(split), source_view))]


TILE = Operator(
    "Tile",
    _build_tile,
    _tile_rows,
    make_phase_kernel(_tile),
    output_elements,
    mode=lambda layer: Mode.WHOLE if _tiles_rows(layer) else Mode.ROWS,
    aliases=_same_elements,
    rowwise=True,
    constant_inputs=frozenset({1}),
    structure="row-phased; whole if rows are repeated",
    notes="Repetition along the row axis keeps the whole input.",
)

# DepthToSpace, SpaceToDepth ----------------------------------------------------------------------

BLOCK_ORDERS: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]] = MappingProxyType(
    {
        "DCR": (("block", "block", "depth"), (0, 3, 1, 4, 2, 5)),
        "CRD": (("depth", "block", "block"), (0, 4, 1, 5, 2, 3)),
    }
)
"""mode -> how channels divide, and the axes of [row, W, N, channels divided] as [row, block row, W,
block column, N, depth].
"""


def _block(node: Node, operator: Operator) -> tuple[Tensor, int, str]:
    """Input, block size and mode of either operator."""
    source = require_tensor(node, 0)
    size = int(operator.attribute(node, "blocksize"))
    if len(source.shape) != 4 or size < 1:
        raise ModelError(
            f"blocksize {size} on a tensor of rank {len(source.shape)}; it takes 4 axes and a positive size"
        )
    return source, size, check_word(operator.attribute(node, "mode"), "mode", tuple(BLOCK_ORDERS))


def _build_depth_to_space(node: Node) -> Layer:
    source, size, mode = _block(node, DEPTH_TO_SPACE)
    n, c, h, w = source.shape
    if c % size**2:
        raise ModelError(f"{c} channels do not divide into blocks of {size} x {size}")
    output = Tensor(node.outputs[0], (n, c // size**2, h * size, w * size), source.format, 2)
    return node_layer(node, (source,), (output,), {"blocksize": size, "mode": mode}, (2,))


def _build_space_to_depth(node: Node) -> Layer:
    source, size, mode = _block(node, SPACE_TO_DEPTH)
    n, c, h, w = source.shape
    if h % size or w % size:
        raise ModelError(f"a map of {h} x {w} does not divide into blocks of {size} x {size}")
    output = Tensor(node.outputs[0], (n, c * size**2, h // size, w // size), source.format, 2)
    return node_layer(node, (source,), (output,), {"blocksize": size, "mode": mode}, (2,))


def _blocks(stored: np.ndarray, size: int, mode: str) -> np.ndarray:
    """Deep rows [r, W, N, C * size * size] as [r, block row, W, block column, N, C]; a view."""
    rows, width, batch, channels = stored.shape
    names, order = BLOCK_ORDERS[mode]
    sizes = {"block": size, "depth": channels // size**2}
    return stored.reshape(rows, width, batch, *(sizes[name] for name in names)).transpose(order)


def _block_runs(out: Rows, size: int) -> list[tuple[Rows, Rows, Rows]]:
    """Output rows cut into (rows, deep rows, rows within the block): a part of a block, whole
    blocks, a part.

    >>> [(r.start, r.stop, q.start, q.stop, p.start, p.stop) for r, q, p in _block_runs(Rows(1, 5), 2)]
    [(1, 2, 0, 1, 1, 2), (2, 4, 1, 2, 0, 2), (4, 5, 2, 3, 0, 1)]
    """
    found = []
    at = out.start
    while at < out.stop:
        block, inside = divmod(at, size)
        whole = (out.stop - at) // size if inside == 0 else 0
        rows = whole * size or min(size - inside, out.stop - at)
        found.append(
            (
                Rows(at, at + rows),
                Rows(block, block + max(whole, 1)),
                Rows(inside, inside + rows // max(whole, 1)),
            )
        )
        at += rows
    return found


def _depth_to_space_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    size = layer.attributes["blocksize"]
    return first_input_rows(layer, Rows(out.start // size, -(-out.stop // size)))


def _depth_to_space(layer: Layer, work: Work) -> list[Call]:
    size, held, out = layer.attributes["blocksize"], work.held, work.phase.out
    blocks = _blocks(work.slab, size, layer.attributes["mode"])
    calls: list[Call] = []
    for rows, deep, inside in _block_runs(out, size):
        source = blocks[
            deep.start - held.start : deep.stop - held.start, inside.start : inside.stop
        ]
        target = work.result[rows.start - out.start : rows.stop - out.start]
        calls.append((np.copyto, (target.reshape(source.shape), source)))
    return calls


def _space_to_depth_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    size = layer.attributes["blocksize"]
    return first_input_rows(layer, Rows(out.start * size, out.stop * size))


def _space_to_depth(layer: Layer, work: Work) -> list[Call]:
    target = _blocks(work.result, layer.attributes["blocksize"], layer.attributes["mode"])
    return [(np.copyto, (target, work.slab.reshape(target.shape)))]


DEPTH_TO_SPACE = Operator(
    "DepthToSpace",
    _build_depth_to_space,
    _depth_to_space_rows,
    make_phase_kernel(_depth_to_space),
    output_elements,
    pattern=lambda layer, out: out.start % int(layer.attributes["blocksize"]),
    attributes=MappingProxyType({"blocksize": REQUIRED, "mode": "DCR"}),
)
SPACE_TO_DEPTH = Operator(
    "SpaceToDepth",
    _build_space_to_depth,
    _space_to_depth_rows,
    make_phase_kernel(_space_to_depth),
    output_elements,
    shift_invariant=True,
    attributes=MappingProxyType({"blocksize": REQUIRED, "mode": "DCR"}),
)

OPERATORS: tuple[Operator, ...] = (
    RESHAPE,
    FLATTEN,
    SQUEEZE,
    UNSQUEEZE,
    TRANSPOSE,
    EXPAND,
    TILE,
    DEPTH_TO_SPACE,
    SPACE_TO_DEPTH,
)
