"""Which part of a row goes where? Concat, Split, Slice, Gather, GatherND.

Source: https://onnx.ai/onnx/operators/onnx__Concat.html and the pages beside it. Along an axis
within the row these are parts of rows: row-phased, and mostly views without any copy. Along the
row axis itself Concat and Slice only shift the rows that a phase reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import (
    check_shape,
    first_input_rows,
    node_layer,
    normalize_axes,
    normalize_axis,
    one_input_layer,
    output_elements,
    read_attribute_or_input,
    storage_axis,
)
from csdfgen.ops.base import (
    REQUIRED,
    Alias,
    AliasKind,
    Call,
    Emit,
    Mode,
    Operator,
    Scratch,
    Takes,
    Work,
    make_phase_kernel,
    require_constant,
    require_tensor,
)
from csdfgen.ops.copies import MANY, Selection, cut, gather, make_contiguous, take
from csdfgen.ops.spread import Spread

Copied = Callable[[int, np.ndarray, np.ndarray, Scratch], Iterable[Call]]
"""(position of an operand, target, source, scratch) -> calls that copy the operand."""


# Concat ------------------------------------------------------------------------------------------


def _build_concat(node: Node) -> Layer:
    given = [operand for operand in node.inputs if operand is not None]
    # those without elements add nothing
    operands = [operand for operand in given if 0 not in operand.shape]
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if not operands or len(given) != len(node.inputs):
        raise ModelError("an input is absent, or none has elements")
    first = tensors[0] if tensors else require_tensor(node, 0)
    axis = normalize_axis(int(CONCAT.attribute(node, "axis")), len(first.shape))
    for operand in given:
        same = len(operand.shape) == len(first.shape) and all(
            a == b
            for k, (a, b) in enumerate(zip(operand.shape, first.shape, strict=True))
            if k != axis
        )
        if not same or np.dtype(operand.dtype) != np.dtype(first.dtype):
            raise ModelError(
                f"{operand.dtype} {operand.shape} cannot be joined to {first.dtype} {first.shape} along axis {axis}; "
                "all other sizes and the types must be equal"
            )
    sizes = tuple(operand.shape[axis] for operand in operands)
    shape = check_shape((*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :]))
    row_axis = next((tensor.row_axis for tensor in tensors if tensor.row_axis is not None), None)
    output = Tensor(node.outputs[0], shape, first.format, row_axis)
    axes = [row_axis if isinstance(operand, Tensor) else None for operand in operands]
    return node_layer(node, operands, (output,), {"axis": axis, "sizes": sizes}, axes)


def _starts(sizes: Sequence[int]) -> tuple[int, ...]:
    """Running offsets.

    >>> _starts((2, 3, 1))
    (0, 2, 5)
    """
    return tuple(accumulate(sizes[:-1], initial=0))


def _along_rows(layer: Layer) -> bool:
    """Whether the layer's axis is the row axis of what it writes."""
    return layer.output.row_axis is not None and layer.attributes["axis"] == layer.output.row_axis


def _operand_rows(layer: Layer, out: Rows) -> list[Rows]:
    """Rows of every operand, constants too, that are part of output rows `out`."""
    sizes = layer.attributes["sizes"]
    if not _along_rows(layer):
        return [out] * len(sizes)
    return [
        Rows(min(max(out.start - start, 0), size), min(max(out.stop - start, 0), size))
        for start, size in zip(_starts(sizes), sizes, strict=True)
    ]


def _concat_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return tuple(
        rows if tensor else None
        for rows, tensor in zip(_operand_rows(layer, out), layer.inputs, strict=True)
    )


def _constant_rows(layer: Layer, out: Rows) -> tuple[tuple[int, Rows], ...] | None:
    """Operands that are constants, and which of their rows are part of output rows; None unless rows are joined."""
    if not _along_rows(layer):
        return None
    rows = _operand_rows(layer, out)
    return tuple((position, rows[position]) for position in layer.constants if rows[position])


def _concat_aliases(layer: Layer) -> tuple[Alias, ...]:
    if _along_rows(layer):
        return ()
    output, place = layer.output, storage_axis(layer.output, layer.attributes["axis"])
    starts = _starts(layer.attributes["sizes"])
    return tuple(
        Alias(AliasKind.MERGE, position, 0, place - 1, starts[position])
        for position, tensor in enumerate(layer.inputs)
        if tensor is not None and tensor.row_axis == output.row_axis
    )


def _as_it_is(
    position: int, target: np.ndarray, source: np.ndarray, scratch: Scratch
) -> list[Call]:
    return [(np.copyto, (target, source))]


def concat_kernel(layer: Layer, copied: Copied = _as_it_is) -> Emit:
    """The kernel of a layer that joins computed operands, each copied in some way, and constants."""
    output, sizes = layer.output, layer.attributes["sizes"]
    starts, along_rows = _starts(sizes), _along_rows(layer)
    place = storage_axis(output, layer.attributes["axis"])
    constants = {
        position: np.ascontiguousarray(replace(output, shape=array.shape).to_storage(array))
        for position, array in layer.constants.items()
    }

    def emit(work: Work) -> list[Call]:
        calls: list[Call] = []
        for position, rows in enumerate(_operand_rows(layer, work.phase.out)):
            if not rows:
                continue
            start, size, slab = starts[position], sizes[position], work.slabs[position]
            if along_rows:
                start, size = start + rows.start - work.phase.out.start, len(rows)
            target = cut(work.result, place, slice(start, start + size))
            if slab is None:
                calls.append((np.copyto, (target, constants[position][rows.start : rows.stop])))
            else:
                for _, (into, source) in Spread.of(slab).copies(target):
                    calls += copied(position, into, source, work.scratch)
        return calls

    return emit


CONCAT = Operator(
    "Concat",
    _build_concat,
    _concat_rows,
    concat_kernel,
    output_elements,
    aliases=_concat_aliases,
    rowwise=True,
    pattern=_constant_rows,
    takes=lambda layer, position: Takes.SPREAD,
    attributes=MappingProxyType({"axis": REQUIRED}),
    structure="row-phased",
    notes="Concatenation within a row needs no copy.",
)


# Split -------------------------------------------------------------------------------------------


def _split_sizes(node: Node, length: int) -> tuple[int, ...]:
    sizes = read_attribute_or_input(node, "split", 1, since=13)
    if sizes is None:
        given = SPLIT.attribute(node, "num_outputs")
        count = len(node.outputs) if given is None else int(given)
        if count < 1 or (given is None and length % count):
            raise ModelError(f"{length} cannot be split into {count} equal parts; give 'split'")
        chunk = -(-length // count)
        sizes = (*(chunk,) * (count - 1), length - chunk * (count - 1))
    if sum(sizes) != length or min(sizes) < 0 or len(sizes) != len(node.outputs):
        raise ModelError(f"parts {sizes} do not make up {length} in {len(node.outputs)} outputs")
    return sizes


def _build_split(node: Node) -> Layer:
    source = require_tensor(node, 0)
    axis = normalize_axis(int(SPLIT.attribute(node, "axis")), len(source.shape))
    sizes = _split_sizes(node, source.shape[axis])
    # Parts of the row axis accumulate together, so they need as many rows each: unequal ones are
    # one natural row.
    loses_rows = axis == source.row_axis and len(set(sizes) - {0}) > 1
    outputs: list[Tensor] = []
    starts: list[int] = []
    for name, start, size in zip(node.outputs, _starts(sizes), sizes, strict=True):
        if name and size:  # one without elements is a constant
            shape = (*source.shape[:axis], size, *source.shape[axis + 1 :])
            outputs.append(
                Tensor(name, shape, source.format, None if loses_rows else source.row_axis)
            )
            starts.append(start)
    if not outputs:
        raise ModelError("no output has a name")
    layer = one_input_layer(node, source, outputs[0], axis=axis, starts=tuple(starts))
    return replace(layer, outputs=tuple(outputs))


def _splits_rows(layer: Layer) -> bool:
    return layer.attributes["axis"] == layer.computed(0).row_axis


def _split_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return first_input_rows(layer, Rows(0, layer.computed(0).rows) if _splits_rows(layer) else out)


def _split_aliases(layer: Layer) -> tuple[Alias, ...]:
    if _splits_rows(layer):
        return ()
    place = storage_axis(layer.computed(0), layer.attributes["axis"])
    return tuple(
        Alias(AliasKind.VIEW, 0, index, place - 1, start)
        for index, start in enumerate(layer.attributes["starts"])
    )


def _split(layer: Layer, work: Work) -> list[Call]:
    source, axis = layer.computed(0), layer.attributes["axis"]
    place, slab, rows = storage_axis(source, axis), work.slab, work.held
    calls: list[Call] = []
    pairs = zip(work.results, layer.outputs, layer.attributes["starts"], strict=True)
    for result, output, start in pairs:
        stop = start + output.shape[axis]
        if not _splits_rows(layer):
            calls.append((np.copyto, (result, cut(slab, place, slice(start, stop)))))
            continue
        held = Rows(max(rows.start, start), max(rows.start, start, min(rows.stop, stop)))
        if held:
            whole = replace(output, row_axis=axis).to_storage(output.to_onnx(result))
            part = slab[held.start - rows.start : held.stop - rows.start]
            calls.append((np.copyto, (whole[held.start - start : held.stop - start], part)))
    return calls


SPLIT = Operator(
    "Split",
    _build_split,
    _split_rows,
    make_phase_kernel(_split),
    output_elements,
    mode=lambda layer: Mode.ACCUMULATE if _splits_rows(layer) else Mode.ROWS,
    aliases=_split_aliases,
    rowwise=True,
    constant_inputs=frozenset({1}),
    attributes=MappingProxyType({"axis": 0, "split": None, "num_outputs": None}),
    structure="row-phased; accumulating along the row axis",
    notes="Parts of a row are views. A split along the row axis holds all outputs.",
)


# Slice -------------------------------------------------------------------------------------------


def _build_slice(node: Node) -> Layer:
    source = require_tensor(node, 0)
    rank = len(source.shape)
    starts, ends = (
        read_attribute_or_input(node, name, k, since=10) for k, name in ((1, "starts"), (2, "ends"))
    )
    if starts is None or ends is None:
        raise ModelError("'starts' or 'ends' is missing")
    axes = read_attribute_or_input(node, "axes", 3, since=10)
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (read_attribute_or_input(node, "steps", 4, since=10) if node.opset >= 10 else None) or (
        1,
    ) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ModelError(
            f"starts {starts}, ends {ends}, axes {axes}, steps {steps} do not match, or a step is 0"
        )
    ranges = [range(size) for size in source.shape]
    for axis, start, end, step in zip(normalize_axes(axes, rank), starts, ends, steps, strict=True):
        ranges[axis] = ranges[axis][start:end:step]
    shape = check_shape(tuple(map(len, ranges)))
    output = replace(source, name=node.outputs[0], shape=shape)
    # the step of a single element is of no account: 1 keeps its layer row-phased
    steps = tuple(r.step if len(r) > 1 else 1 for r in ranges)
    return one_input_layer(node, source, output, starts=tuple(r[0] for r in ranges), steps=steps)


def _row_slice(layer: Layer) -> tuple[int, int]:
    """First row and step along the row axis; (0, 1) without one."""
    k = layer.computed(0).row_axis
    return (0, 1) if k is None else (layer.attributes["starts"][k], layer.attributes["steps"][k])


def _slice_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    start, step = _row_slice(layer)
    if step < 0:
        return first_input_rows(layer, Rows(0, layer.computed(0).rows))
    if not out:
        return first_input_rows(layer, Rows(0, 0))
    return first_input_rows(
        layer, Rows(start + out.start * step, start + (out.stop - 1) * step + 1)
    )


def _slice_aliases(layer: Layer) -> tuple[Alias, ...]:
    """A view if all rows stay and at most one axis within the row is cut, with step 1."""
    source, output = layer.computed(0), layer.output
    cut = [axis for axis, size in enumerate(source.shape) if output.shape[axis] != size]
    if (
        any(step != 1 for step in layer.attributes["steps"])
        or len(cut) > 1
        or source.row_axis in cut
    ):
        return ()
    if not cut:
        return (Alias(AliasKind.VIEW, 0),)
    (axis,) = cut
    start = layer.attributes["starts"][axis]
    return (Alias(AliasKind.VIEW, 0, 0, storage_axis(source, axis) - 1, start),)


def _slice_kernel(layer: Layer) -> Emit:
    source, output = layer.computed(0), layer.output
    starts, steps = layer.attributes["starts"], layer.attributes["steps"]
    first_row, row_step = _row_slice(layer)
    cuts = [slice(None)] * len(output.storage_shape)
    for axis, size in enumerate(output.shape):
        stop = starts[axis] + steps[axis] * size
        cuts[storage_axis(source, axis)] = slice(
            starts[axis], stop if stop >= 0 else None, steps[axis]
        )
    # the slab of a phase begins at the first row it reads; walking up from the last row it is whole
    cuts[0] = (
        slice(None, None, row_step) if row_step > 0 else slice(first_row, cuts[0].stop, row_step)
    )

    def emit(work: Work) -> list[Call]:
        return [(np.copyto, (work.result, work.slab[tuple(cuts)]))]

    return emit


SLICE = Operator(
    "Slice",
    _build_slice,
    _slice_rows,
    _slice_kernel,
    output_elements,
    mode=lambda layer: Mode.WHOLE if _row_slice(layer)[1] < 0 else Mode.ROWS,
    aliases=_slice_aliases,
    rowwise=True,
    shift_invariant=True,
    constant_inputs=frozenset({1, 2, 3, 4}),
    attributes=MappingProxyType({"starts": None, "ends": None, "axes": None}),
    structure="row-phased; whole if rows are reversed",
    notes="One slice within a row with step 1 is a view.",
)


# Gather ------------------------------------------------------------------------------------------


def _build_gather(node: Node) -> Layer:
    axis = normalize_axis(int(GATHER.attribute(node, "axis")), len(require_tensor(node, 0).shape))
    return _gathered(node, axis, require_constant(node, 1))


def _gathered(node: Node, axis: int, given: np.ndarray) -> Layer:
    source = require_tensor(node, 0)
    length = source.shape[axis]
    if not _within(given, length):
        raise ModelError(
            f"indices must be at least one integer in [-{length}, {length}); found {given.reshape(-1)[:8]}"
        )
    indices = given.astype(np.intp) % length
    shape = check_shape((*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :]))
    k = source.row_axis
    if k is not None and axis < k:
        k += indices.ndim - 1
    elif k == axis and indices.ndim != 1:
        k = None
    output = Tensor(node.outputs[0], shape, source.format, k)
    return one_input_layer(node, source, output, axis=axis, indices=indices)


def _within(given: np.ndarray, lengths: int | np.ndarray) -> bool:
    """Whether there are indices, and all are integers in [-length, length)."""
    inside = given.dtype.kind in "iu" and given.size > 0
    return inside and bool(np.all((given >= -lengths) & (given < lengths)))


def _gathers_rows(layer: Layer) -> bool:
    return layer.attributes["axis"] == layer.computed(0).row_axis


def _gather_mode(layer: Layer) -> Mode:
    """Rows gathered in rising order are row-phased; in another, or into no rows, whole."""
    if not _gathers_rows(layer):
        return Mode.ROWS
    rising = layer.output.row_axis is not None and bool(
        np.all(np.diff(layer.attributes["indices"]) >= 0)
    )
    return Mode.ROWS if rising else Mode.WHOLE


def _gather_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    if not _gathers_rows(layer):
        return first_input_rows(layer, out)
    if _gather_mode(layer) is Mode.WHOLE:
        return first_input_rows(layer, Rows(0, layer.computed(0).rows))
    indices = layer.attributes["indices"][out.start : out.stop]
    return first_input_rows(
        layer, Rows(int(indices[0]), int(indices[-1]) + 1) if out else Rows(0, 0)
    )


def _gather_kernel(layer: Layer) -> Emit:
    source, output = layer.computed(0), layer.output
    axis, indices = layer.attributes["axis"], layer.attributes["indices"]
    # the axis of the indices in a stored array; rows gathered by other than a list come out in
    # natural order
    natural = output.row_axis is None
    place = axis + 1 if natural else storage_axis(source, axis)
    before: tuple[slice | int, ...] = (slice(None),) * place
    # indices of several axes: one list for each position of all but the last
    lists = indices.reshape(1) if indices.ndim == 0 else indices
    selections = {leading: Selection.of(lists[leading]) for leading in np.ndindex(lists.shape[:-1])}

    def emit(work: Work) -> list[Call]:
        slab, rows, target = work.slab, work.held, work.result
        if natural:
            slab = source.to_onnx(slab)[None]
        if _gathers_rows(layer) and not natural:
            wanted = indices[work.phase.out.start : work.phase.out.stop] - rows.start
            return gather(target, slab, Selection.of(wanted), place, work.scratch)
        if indices.ndim == 0:
            target = np.expand_dims(target, place)
        calls: list[Call] = []
        if any(len(chosen.runs) > MANY for chosen in selections.values()):
            slab = make_contiguous(slab, work.scratch, calls)  # once for all lists
        for leading, chosen in selections.items():
            calls += gather(target[before + leading], slab, chosen, place, work.scratch)
        return calls

    return emit


GATHER = Operator(
    "Gather",
    _build_gather,
    _gather_rows,
    _gather_kernel,
    output_elements,
    mode=_gather_mode,
    constant_inputs=frozenset({1}),
    attributes=MappingProxyType({"axis": 0}),
    structure="row-phased; whole if rows are gathered out of order",
)

# GatherND ----------------------------------------------------------------------------------------


def _build_gather_nd(node: Node) -> Layer:
    """Positions of one coordinate each, which exporters write to index one axis, are a Gather;
    others read natural order.
    """
    source, given = require_tensor(node, 0), require_constant(node, 1)
    batch, shape = int(GATHER_ND.attribute(node, "batch_dims")), source.shape
    found = given.shape[-1] if given.ndim else 0
    stop = batch + found
    if (
        batch < 0
        or not found
        or stop > len(shape)
        or given.ndim <= batch
        or given.shape[:batch] != shape[:batch]
    ):
        raise ModelError(
            f"indices of shape {given.shape} with batch_dims={batch} do not fit a tensor of shape {shape}"
        )
    lengths = np.array(shape[batch:stop])
    if not _within(given, lengths):
        raise ModelError(
            f"indices must be at least one position within {shape[batch:stop]}; found {given.reshape(-1)[:8]}"
        )
    if stop == 1:
        return _gathered(node, 0, given[..., 0])
    coordinates = np.moveaxis(given.astype(np.intp) % lengths, -1, 0)
    batches = np.indices(given.shape[:-1])[:batch]
    flat = np.ravel_multi_index((*batches, *coordinates), shape[:stop])
    output = Tensor(node.outputs[0], check_shape((*given.shape[:-1], *shape[stop:])), source.format)
    operands = (source, *[None] * (len(node.inputs) - 1))
    axes = [None] * len(operands)
    return node_layer(node, operands, (output,), {"flat": flat.reshape(-1)}, axes)


def _is_flat(layer: Layer) -> bool:
    return "flat" in layer.attributes


def _gather_flat(layer: Layer, work: Work) -> list[Call]:
    indices, calls = layer.attributes["flat"], list[Call]()
    rest = layer.output.elements // len(indices)
    flat = make_contiguous(work.slab, work.scratch, calls).reshape(-1, rest)
    taken = take(flat, indices, 0, work.scratch, calls)
    return [*calls, (np.copyto, (work.result, taken.reshape(work.result.shape)))]


GATHER_ND = replace(
    GATHER,
    op_type="GatherND",
    build=_build_gather_nd,
    input_rows=lambda layer, out: (
        first_input_rows(layer, Rows(0, 1)) if _is_flat(layer) else _gather_rows(layer, out)
    ),
    kernel=lambda layer: (make_phase_kernel(_gather_flat) if _is_flat(layer) else _gather_kernel)(
        layer
    ),
    mode=lambda layer: Mode.WHOLE if _is_flat(layer) else _gather_mode(layer),
    since=11,
    attributes=MappingProxyType({"batch_dims": 0}),
    structure="row-phased; whole if rows are gathered out of order, or by several coordinates",
)

# Constant ----------------------------------------------------------------------------------------


def _build_constant(node: Node) -> Layer:
    value = require_constant(node, 0)
    output = Tensor(node.outputs[0], check_shape(value.shape), Format(value.dtype.name))
    return node_layer(node, (value,), (output,), {})


def constant_layer(name: str, output: str, value: np.ndarray) -> Layer:
    """A layer that writes a constant in every frame. output: name of its tensor. Raises ModelError."""
    return _build_constant(Node(name, "Constant", 13, {}, (value,), (output,)))


CONSTANT = Operator(
    "Constant",
    _build_constant,
    input_rows=lambda layer, out: (None,),
    kernel=make_phase_kernel(
        lambda layer, work: [(np.copyto, (work.result, layer.constants[0][np.newaxis]))]
    ),
    cost=output_elements,
    mode=lambda layer: Mode.WHOLE,
    structure="whole",
    notes="Folded, unless its reader needs rows.",
)


OPERATORS: tuple[Operator, ...] = (CONCAT, SPLIT, SLICE, CONSTANT)
