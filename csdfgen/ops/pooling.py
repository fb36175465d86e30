"""How are windows pooled? Sliding and global maximum, average and p-norm pools.

Sources: https://onnx.ai/onnx/operators/ (MaxPool, AveragePool, LpPool, GlobalMaxPool,
GlobalAveragePool, GlobalLpPool); onnxruntime decides where the pages leave a choice.

All pools are one kernel: prepare the slab (nothing, or |x|^p), fold it along the rows, then
along every other spatial axis (k + k steps instead of k*k), finish the result (nothing, a
division by the number of values, a root). A global pool is a window as large as its input.
A window that covers all rows accumulates: each phase folds its rows into the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import accumulator_of
from csdfgen.model.network import Layer, Node, Tensor, remembered
from csdfgen.model.rows import Rows, Window
from csdfgen.ops._im2col import balanced
from csdfgen.ops._integers import BYTES
from csdfgen.ops._reducing import FLOATS, constant, data_input, in_float32, sum_over
from csdfgen.ops._spread import Piece, Spread, Stack
from csdfgen.ops._windows import output_length, read_rows, taps, window_attributes, windows_of
from csdfgen.ops.base import (
    REQUIRED,
    Call,
    Emit,
    Mode,
    Operator,
    Phase,
    Scratch,
    Takes,
    aligned_size,
    in_the_accumulator,
)
from csdfgen.ops.primitives import maximum

__all__ = [
    "AVERAGE_POOL",
    "GLOBAL_AVERAGE_POOL",
    "OPERATORS",
    "counted",
    "pool_over_all",
    "pool_sliding",
]


# Folding along one axis ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fold:
    """How values become one: along whole dimensions, two by two into an output; and what a window
    without values holds.
    """

    along: Callable[[np.ndarray, Sequence[int], np.ndarray], Call]
    combine: Callable[[np.ndarray, np.ndarray, np.ndarray], Any]
    empty: Callable[[np.dtype[Any]], float]


def _lowest(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).min) if dtype.kind == "f" else int(np.iinfo(dtype).min)


def _zero(dtype: np.dtype[Any]) -> float:
    return 0.0


def _maximum_over(array: np.ndarray, dims: Sequence[int], out: np.ndarray) -> Call:
    return (np.maximum.reduce, (array, tuple(dims), None, out, True))


_MAXIMUM = _Fold(_maximum_over, maximum, _lowest)
_SUM = _Fold(sum_over, np.add, _zero)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Positions `out` of a window over `length` input values, of which a slab holds `held` along
    one dimension.
    """

    window: Window
    out: Rows
    held: Rows
    length: int

    @property
    def is_whole(self) -> bool:
        """Whether one position reads just what is held, so that the dimension is folded at once."""
        reads = read_rows(self.window, self.out, self.length)
        return (
            len(self.out) == 1
            and self.window.dilation == 1
            and bool(self.held)
            and reads == self.held
        )


def _runs(flags: Sequence[bool], start: int) -> Iterator[tuple[bool, Rows]]:
    """Maximal runs of equal flags, the first flag being that of position `start`.

    >>> list(_runs([True, False, False], 4))
    [(True, Rows(start=4, stop=5)), (False, Rows(start=5, stop=7))]
    """
    begin = 0
    for i in range(1, len(flags) + 1):
        if i == len(flags) or flags[i] != flags[begin]:
            yield flags[begin], Rows(start + begin, start + i)
            begin = i


@lru_cache(maxsize=4096)
def _steps(window: Window, out: Rows, length: int) -> tuple[tuple[str, tuple[int, ...], Rows], ...]:
    """(step, taps, positions): how positions `out` come from their taps with few calls.

    Steps: "copy" a tap, "join" two taps, "fold" a tap into what is there, "empty" where no tap is
    inside the input. The tap that most positions read goes first, so that padding only shortens the
    runs of the others.

    >>> for step in _steps(Window(3, pad_top=1, pad_bottom=1), Rows(0, 8), 8): print(step)
    ('join', (1, 0), Rows(start=1, stop=8))
    ('copy', (1,), Rows(start=0, stop=1))
    ('fold', (2,), Rows(start=0, stop=7))
    """
    steps: list[tuple[str, tuple[int, ...], Rows]] = []
    written: set[int] = set()
    for tap, positions in sorted(taps(window, out, length), key=lambda item: -len(item[1])):
        flags = [p in written for p in range(positions.start, positions.stop)]
        steps += [
            ("fold" if done else "copy", (tap,), run) for done, run in _runs(flags, positions.start)
        ]
        written.update(range(positions.start, positions.stop))
    if len(steps) > 1 and steps[1][0] == "fold":
        (_, first, copied), (_, second, both) = steps[:2]
        rests = (Rows(copied.start, both.start), Rows(both.stop, copied.stop))
        steps[:2] = [
            ("join", (*first, *second), both),
            *(("copy", first, rest) for rest in rests if rest),
        ]
    flags = [p in written for p in range(out.start, out.stop)]
    steps += [("empty", (), run) for done, run in _runs(flags, out.start) if not done]
    return tuple(steps)


def _along(array: np.ndarray, dim: int, start: int, count: int, step: int = 1) -> np.ndarray:
    """View of `count` positions along a dimension, from `start` on, `step` apart."""
    index = (*(slice(None),) * dim, slice(start, start + (count - 1) * step + 1, step))
    return array[index]


Read = Callable[[int, int, int], np.ndarray | None]
"""(first, count, step) -> positions of an axis; None where they are no array, single ones always are.
"""


def _slide(
    fold: _Fold, source: np.ndarray, target: np.ndarray, dim: int, axis: _Axis
) -> Iterator[Call]:
    """Calls that fold `source` along a dimension into `target`, window by window."""
    return _slide_over(fold, partial(_along, source, dim), target, dim, axis)


def _slide_over(
    fold: _Fold, read: Read, target: np.ndarray, dim: int, axis: _Axis
) -> Iterator[Call]:
    """The same, wherever the positions lie."""
    for step, taps_, run in _steps(axis.window, axis.out, axis.length):
        yield from _slide_run(fold, read, target, dim, axis, step, taps_, run)


def _slide_run(
    fold: _Fold,
    read: Read,
    target: np.ndarray,
    dim: int,
    axis: _Axis,
    step: str,
    taps_: Sequence[int],
    run: Rows,
) -> Iterator[Call]:
    """One step; in halves where what a tap reads is no array."""
    window = axis.window
    first = run.start * window.stride - window.pad_top - axis.held.start
    values = [read(first + tap * window.dilation, len(run), window.stride) for tap in taps_]
    if any(value is None for value in values):
        half = run.start + len(run) // 2
        for rows in (Rows(run.start, half), Rows(half, run.stop)):
            yield from _slide_run(fold, read, target, dim, axis, step, taps_, rows)
        return
    part = _along(target, dim, run.start - axis.out.start, len(run))
    if step == "join":
        yield fold.combine, (*values, part)
    elif step == "fold":
        yield fold.combine, (part, *values, part)
    elif step == "copy":
        yield np.copyto, (part, *values)
    else:
        yield np.copyto, (part, constant(fold.empty(part.dtype), part.dtype))


def _fold_axes(
    fold: _Fold, source: np.ndarray, target: np.ndarray, axes: Sequence[_Axis], scratch: Scratch
) -> list[Call]:
    """Calls that fold the leading dimensions of `source`, one per axis, into `target`."""
    for dim, axis in enumerate(axes):
        if axis.window.kernel == 1 and not axis.is_whole:
            first = axis.out.start * axis.window.stride - axis.held.start
            source = _along(source, dim, first, len(axis.out), axis.window.stride)
    whole = tuple(dim for dim, axis in enumerate(axes) if axis.is_whole and source.shape[dim] > 1)
    sliding = [dim for dim, axis in enumerate(axes) if axis.window.kernel > 1 and not axis.is_whole]
    calls: list[Call] = []
    if whole:
        shape = tuple(1 if dim in whole else size for dim, size in enumerate(source.shape))
        folded = scratch.take(shape, source.dtype) if sliding else target
        calls.append(fold.along(source, whole, folded))
        source = folded
    for dim in sliding:
        shape = (*source.shape[:dim], len(axes[dim].out), *source.shape[dim + 1 :])
        folded = scratch.take(shape, source.dtype) if dim != sliding[-1] else target
        calls.extend(_slide(fold, source, folded, dim, axes[dim]))
        source = folded
    return calls or [(np.copyto, (target, source))]


def _fold_piece(
    fold: _Fold, piece: Piece, target: np.ndarray, axes: Sequence[_Axis], scratch: Scratch
) -> list[Call]:
    """The same for rows wherever they lie: along the rows first, into as few columns at a time as
    the workspace has room for.
    """
    rows, *columns = axes
    whole = piece.at(0, len(rows.held))
    slides = any(axis.window.kernel > 1 for axis in columns)
    if not columns or (whole is not None and not slides):
        if whole is not None:
            return _fold_axes(fold, whole, target, axes, scratch)
        return list(_slide_over(fold, piece.at, target, 0, rows))
    if not slides and all(axis.window.stride == 1 for axis in columns):
        return list(_slide_over(fold, piece.at, target, 0, rows))
    if rows.window.kernel == 1 and not rows.is_whole:
        return _fold_rows_apart(fold, piece, target, axes, scratch)
    calls: list[Call] = []
    mark, count = scratch.mark, len(columns[0].out)
    behind = prod(piece.arrays[0].shape[2:]) * target.itemsize * len(rows.out)
    slides_on = any(axis.window.kernel > 1 for axis in columns[1:])
    limit = count
    while limit > 1:
        first = _span(columns[0], limit) * behind
        if (aligned_size(first) + limit * behind if slides_on else first) <= scratch.room:
            break
        limit = balanced(count, limit // 2)[0][1]
    for start, stop in balanced(count, limit):
        column = _columns(columns[0], start, stop)
        held = slice(column.held.start, column.held.stop)
        own = piece.narrowed(lambda array: array[:, held])  # noqa: B023
        part = scratch.take(
            (len(rows.out), len(column.held), *own.arrays[0].shape[2:]), target.dtype
        )
        if whole is not None and rows.is_whole:
            calls.append(fold.along(whole[:, held], (0,), part))
        else:
            calls += _slide_over(fold, own.at, part, 0, rows)
        lead = _Axis(Window(1), Rows(0, len(rows.out)), Rows(0, len(rows.out)), len(rows.out))
        rest = [lead, column, *columns[1:]]
        calls += _fold_axes(fold, part, target[:, start:stop], rest, scratch)
        scratch.rewind(mark)
    return calls


def _fold_rows_apart(
    fold: _Fold, piece: Piece, target: np.ndarray, axes: Sequence[_Axis], scratch: Scratch
) -> list[Call]:
    """Of windows one row high, as many rows at a time as lie together."""
    rows, *columns = axes
    window = rows.window
    first = rows.out.start * window.stride - rows.held.start
    source = piece.at(first, len(rows.out), window.stride)
    if source is not None:
        lead = _Axis(Window(1), Rows(0, len(source)), Rows(0, len(source)), len(source))
        mark = scratch.mark
        calls = _fold_axes(fold, source, target, [lead, *columns], scratch)
        scratch.rewind(mark)
        return calls
    half = len(rows.out) // 2
    middle = rows.out.start + half
    calls = []
    for out, part in (
        (Rows(rows.out.start, middle), target[:half]),
        (Rows(middle, rows.out.stop), target[half:]),
    ):
        calls += _fold_rows_apart(fold, piece, part, [replace(rows, out=out), *columns], scratch)
    return calls


def _fold_images(
    fold: _Fold,
    slab: np.ndarray | Spread | Stack,
    target: np.ndarray,
    axes: Sequence[_Axis],
    scratch: Scratch,
) -> list[Call]:
    """The same for whole images, in as many calls as for one where they lie evenly and the workspace has room
    for what is between two axes; else image by image.
    """
    images = len(target)
    whole = None if isinstance(slab, Stack) else Spread.of(slab).at(0, images)
    if not axes[0].held:  # windows that read nothing but padding
        whole = np.empty(slab.shape, target.dtype)
    if whole is not None:
        slides = sum(axis.window.kernel > 1 and not axis.is_whole for axis in axes)
        if slides < 2 or _between_bytes(whole, axes) <= scratch.room:
            lead = _Axis(Window(1), Rows(0, images), Rows(0, images), images)
            mark = scratch.mark
            calls = _fold_axes(fold, whole, target, [lead, *axes], scratch)
            scratch.rewind(mark)
            return calls
    calls = []
    mark = scratch.mark
    if whole is not None:
        each: Sequence[Spread] = [Spread.of(image) for image in whole]
    else:
        assert isinstance(slab, Stack)  # images that lie evenly are one array
        each = slab.images
    for one, result in zip(each, target, strict=True):
        for piece in one.pieces:
            part = result[..., piece.low : piece.high]
            calls += _fold_piece(fold, piece, part, axes, scratch)
            scratch.rewind(mark)
    return calls


def _between_bytes(whole: np.ndarray, axes: Sequence[_Axis]) -> int:
    """Workspace that `_fold_axes` takes for images: what it leaves after each axis but the last."""
    folds = [(dim, axis) for dim, axis in enumerate(axes, 1) if axis.window.kernel > 1]
    folds.sort(key=lambda fold: not fold[1].is_whole)
    size, total = whole.nbytes, 0
    for dim, axis in folds[:-1]:
        size = size // max(1, whole.shape[dim]) * len(axis.out)
        total += aligned_size(size)
    return total


def _span(axis: _Axis, count: int) -> int:
    """Input positions that `count` neighbouring output positions read, at most."""
    window = axis.window
    return min(len(axis.held), (count - 1) * window.stride + window.extent)


def _columns(axis: _Axis, start: int, stop: int) -> _Axis:
    """Output positions [start, stop) of an axis, and the inputs that they read."""
    window = axis.window
    low = (axis.out.start + start) * window.stride - window.pad_top
    high = (axis.out.start + stop - 1) * window.stride - window.pad_top + window.extent
    held = Rows(min(max(low, 0), axis.length), max(min(high, axis.length), 0))
    if held.stop <= held.start:
        held = Rows(min(held.start, axis.length - 1), min(held.start, axis.length - 1) + 1)
    return replace(axis, out=Rows(axis.out.start + start, axis.out.start + stop), held=held)


# What comes before and after the fold -------------------------------------------------------------

Prepare = Callable[[np.ndarray, Scratch], tuple[list[Call], np.ndarray]]
"""(slab, scratch) -> calls, and the array that they leave to be folded."""
Finish = Callable[[Rows, np.ndarray], list[Call]]
"""(output rows, folded values) -> calls that make them the pool's output, in place."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """A kind of pool: how it folds, and for a layer what it does before and after."""

    fold: _Fold
    prepare: Callable[[Layer], Prepare]
    finish: Callable[[Layer], Finish]


def _unprepared(layer: Layer) -> Prepare:
    return lambda slab, scratch: ([], slab)


def _unfinished(layer: Layer) -> Finish:
    return lambda out, folded: []


def counted(window: Window, out: Rows, length: int, include_pad: bool) -> tuple[int, ...]:
    """Values that an average at each position divides by; taps beyond the end padding (ceil_mode)
    never count.

    >>> counted(Window(3, 3, 1, 1, 1), Rows(0, 3), 6, True), counted(Window(3, 3, 1, 1, 1), Rows(0, 3), 6, False)
    ((3, 3, 2), (2, 3, 1))
    """
    low, high = (-window.pad_top, length + window.pad_bottom) if include_pad else (0, length)
    counts = []
    for position in range(out.start, out.stop):
        start = position * window.stride - window.pad_top
        first = max(0, -((start - low) // window.dilation))
        last = min(window.kernel - 1, (high - 1 - start) // window.dilation)
        counts.append(max(0, last - first + 1))
    return tuple(counts)


def _divisor(counts: Sequence[tuple[int, ...]], dtype: str) -> np.ndarray:
    """Products of the counts along each axis, to divide (rows, ..., N, C) by; 0-dimensional if they
    are all equal.
    """
    product = np.ones((1,) * (len(counts) + 2))
    for dim, along in enumerate(counts):
        shape = [1] * product.ndim
        shape[dim] = len(along)
        product = product * np.maximum(along, 1).reshape(shape)
    return constant(product.flat[0] if np.ptp(product) == 0 else product, dtype)


def _divide(layer: Layer) -> Finish:
    windows, lengths = windows_of(layer.attributes), _lengths(layer)
    include_pad, dtype = layer.attributes["count_include_pad"], accumulator_of(layer.output.dtype)
    columns = tuple(
        counted(w, Rows(0, count), n, include_pad)
        for w, count, n in zip(windows[1:], layer.output.shape[3:], lengths[1:], strict=True)
    )
    # All phases but those at the border divide alike: they share one array.
    divisor = lru_cache(maxsize=None)(lambda rows: _divisor((rows, *columns), dtype))

    def finish(out: Rows, folded: np.ndarray) -> list[Call]:
        by = divisor(counted(windows[0], out, lengths[0], include_pad))
        return [(np.divide, (folded, by, folded))]

    return finish


def _power(layer: Layer) -> Prepare:
    p = layer.attributes["p"]
    exponent = constant(p, accumulator_of(layer.output.dtype))

    def prepare(slab: np.ndarray, scratch: Scratch) -> tuple[list[Call], np.ndarray]:
        powers = scratch.take(slab.shape, slab.dtype)
        if p == 2:
            return [(np.square, (slab, powers))], powers
        absolute: Call = (np.absolute, (slab, powers))
        return [absolute] if p == 1 else [absolute, (np.power, (powers, exponent, powers))], powers

    return prepare


def _root(layer: Layer) -> Finish:
    p = layer.attributes["p"]
    exponent = constant(1 / p, accumulator_of(layer.output.dtype))
    if p == 1:
        return _unfinished(layer)
    if p == 2:
        return lambda out, folded: [(np.sqrt, (folded, folded))]
    return lambda out, folded: [(np.power, (folded, exponent, folded))]


_MAX = _Pool(_MAXIMUM, _unprepared, _unfinished)
_AVERAGE = _Pool(_SUM, _unprepared, _divide)
_LP = _Pool(_SUM, _power, _root)


# Layers -------------------------------------------------------------------------------------------


def _input(layer: Layer) -> Tensor:
    tensor = layer.inputs[0]
    assert tensor is not None
    return tensor


def _lengths(layer: Layer) -> tuple[int, ...]:
    """Lengths of the spatial axes of the input, rows first."""
    return _input(layer).shape[2:]


def _layer(
    node: Node, tensor: Tensor, attributes: Mapping[str, Any], spatial: Sequence[int]
) -> Layer:
    output = Tensor(node.outputs[0], (*tensor.shape[:2], *spatial), tensor.format, 2)
    settled = MappingProxyType(dict(attributes))
    return Layer(
        node.name,
        node.op_type,
        (tensor,),
        (output,),
        settled,
        input_axes=(2,),
        onnx_nodes=(node.name,),
    )


def _own_attributes(node: Node) -> dict[str, Any]:
    """What a pool's arithmetic needs beside its windows."""
    p = int(node.attributes.get("p", 2))
    if p < 1:
        raise ModelError(f"attribute 'p'={p}; a p-norm needs at least 1")
    return {"count_include_pad": bool(node.attributes.get("count_include_pad", 0)), "p": p}


def _build_sliding(node: Node) -> Layer:
    return pool_sliding(node, (*FLOATS, *(BYTES if node.op_type == "MaxPool" else ())))


def pool_sliding(node: Node, dtypes: Sequence[str]) -> Layer:
    """The layer of a node whose windows slide over input 0, of one of the types. Raises ModelError."""
    if any(node.outputs[1:]):
        raise ModelError(
            f"output 1 ('{node.outputs[1]}', the indices of the maxima) is not computed; remove what reads it"
        )
    tensor = data_input(node, dtypes, least_rank=3)
    spatial = tensor.shape[2:]
    if "kernel_shape" not in node.attributes:
        raise ModelError("attribute 'kernel_shape' is missing")
    kernel = tuple(int(k) for k in node.attributes["kernel_shape"])
    attributes = window_attributes(node, kernel, spatial, same_ignores_dilations=True)
    pads = attributes["pads"]
    if any(pad >= k for pad, k in zip(pads, (*kernel, *kernel), strict=True)):
        raise ModelError(
            f"pads {list(pads)} reach the window's size {list(kernel)}; put a Pad node in front instead"
        )
    ceil_mode = bool(node.attributes.get("ceil_mode", 0))
    windows = windows_of(attributes)
    lengths = [
        output_length(w, n, ceil_mode=ceil_mode) for w, n in zip(windows, spatial, strict=True)
    ]
    if min(lengths) < 1:
        extents = [w.extent for w in windows]
        raise ModelError(
            f"windows that span {extents} do not fit into an input of {list(spatial)} with pads {list(pads)}"
        )
    return _layer(node, tensor, {**attributes, **_own_attributes(node)}, lengths)


def _build_global(node: Node) -> Layer:
    return pool_over_all(node, FLOATS)


def pool_over_all(node: Node, dtypes: Sequence[str]) -> Layer:
    """The layer of a node with one window as large as input 0, of one of the types. Raises
    ModelError.
    """
    tensor = data_input(node, dtypes, least_rank=3)
    spatial = tensor.shape[2:]
    rank = len(spatial)
    ones = (1,) * rank
    attributes: dict[str, Any] = {
        "kernel_shape": spatial,
        "strides": ones,
        "dilations": ones,
        "pads": (0,) * (2 * rank),
    }
    return _layer(node, tensor, {**attributes, **_own_attributes(node)}, ones)


@remembered
def _window(layer: Layer) -> Window:
    return windows_of(layer.attributes)[0]


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return (read_rows(_window(layer), out, _lengths(layer)[0]),)


@remembered
def _mode(layer: Layer) -> Mode:
    """Accumulating where one position of the window reads every row."""
    window, height = _window(layer), _lengths(layer)[0]
    covers = (
        layer.output.rows == 1
        and window.dilation == 1
        and read_rows(window, Rows(0, 1), height) == Rows(0, height)
    )
    return Mode.ACCUMULATE if covers else Mode.ROWS


def _cost(layer: Layer, out: Rows) -> int:
    """Output elements of a sliding pool; of one that accumulates the elements that it reads."""
    if _mode(layer) is Mode.ACCUMULATE:
        return _input(layer).elements
    return len(out) * layer.output.row_elements


def _kernel(pool: _Pool) -> Callable[[Layer], Emit]:
    def kernel(layer: Layer) -> Emit:
        windows, lengths = windows_of(layer.attributes), _lengths(layer)
        accumulates = _mode(layer) is Mode.ACCUMULATE
        prepare, finish = pool.prepare(layer), pool.finish(layer)
        columns = [
            _Axis(w, Rows(0, count), Rows(0, n), n)
            for w, count, n in zip(windows[1:], layer.output.shape[3:], lengths[1:], strict=True)
        ]

        def emit(
            phase: Phase,
            slabs: Sequence[np.ndarray | None],
            results: Sequence[np.ndarray],
            scratch: Scratch,
        ) -> list[Call]:
            slab, held, target = slabs[0], phase.ins[0], results[0]
            assert slab is not None and held is not None
            if phase.images > 1:
                rows = _Axis(windows[0], phase.out, held, lengths[0])
                calls = _fold_images(pool.fold, slab, target, (rows, *columns), scratch)
                return [*calls, *finish(phase.out, target)]
            calls, source = prepare(slab, scratch)
            pieces = Spread.of(source).pieces
            if not accumulates:
                rows = _Axis(windows[0], phase.out, held, lengths[0])
                for piece in pieces:
                    part = target[..., piece.low : piece.high]
                    calls += _fold_piece(pool.fold, piece, part, (rows, *columns), scratch)
                return [*calls, *finish(phase.out, target)]
            rows = _Axis(Window(len(held)), Rows(0, 1), Rows(0, len(held)), len(held))
            whole = target if phase.first else scratch.take(target.shape, target.dtype)
            for piece in pieces:
                part = whole[..., piece.low : piece.high]
                calls += _fold_axes(pool.fold, piece.arrays[0], part, (rows, *columns), scratch)
            if not phase.first:
                calls.append((pool.fold.combine, (target, whole, target)))
            return [*calls, *finish(phase.out, target)] if phase.last else calls

        at_once = accumulates and all(axis.is_whole for axis in columns)
        # numpy reduces into wider sums by itself: only what slides or is prepared is widened before
        return emit if at_once and pool.prepare is _unprepared else in_float32(emit)

    return kernel


def _is_prepared(pool: _Pool, layer: Layer) -> bool:
    """Whether values are widened, or become others, before they are folded."""
    return layer.output.dtype == "float16" or pool.prepare is not _unprepared


def _joins(pool: _Pool, layer: Layer, images: int) -> bool:
    """Whether images of a batch of one each are folded together."""
    return layer.output.shape[0] == 1 and not _is_prepared(pool, layer)


def _takes(pool: _Pool, layer: Layer, position: int) -> Takes:
    """What is prepared or widened is gathered; rows that are added up come one run at a time."""
    if _is_prepared(pool, layer):
        return Takes.EVEN
    return Takes.PIECES if _mode(layer) is Mode.ACCUMULATE else Takes.SPREAD


_SLIDING: Mapping[str, Any] = {
    "auto_pad": "NOTSET",
    "ceil_mode": 0,
    "dilations": None,
    "kernel_shape": REQUIRED,
    "pads": None,
    "strides": None,
}


def _operator(op_type: str, pool: _Pool, own: Mapping[str, Any], notes: str) -> Operator:
    sliding = not op_type.startswith("Global")
    return Operator(
        op_type,
        build=_build_sliding if sliding else _build_global,
        input_rows=_input_rows,
        kernel=_kernel(pool),
        cost=_cost,
        mode=_mode,
        state=in_the_accumulator,
        window=_window,
        shift_invariant=True,
        takes=partial(_takes, pool),
        joins=partial(_joins, pool),
        attributes=MappingProxyType({**(_SLIDING if sliding else {}), **own}),
        structure="row-phased; accumulating where one window covers all rows"
        if sliding
        else "accumulating",
        notes=notes,
    )


_AS_ONNXRUNTIME = (
    "auto_pad=SAME_* with dilations pads as for a window without holes (as onnxruntime; ONNX pads for the dilated one). "
    "With ceil_mode a last window counts if it starts inside the input or its beginning padding."
)

AVERAGE_POOL = _operator(
    "AveragePool",
    _AVERAGE,
    {"count_include_pad": 0},
    f"{_AS_ONNXRUNTIME} With count_include_pad the part of such a window beyond the end padding does not count.",
)
GLOBAL_AVERAGE_POOL = _operator("GlobalAveragePool", _AVERAGE, {}, "")

OPERATORS: tuple[Operator, ...] = (
    _operator(
        "MaxPool", _MAX, {"storage_order": 0}, f"The output Indices is refused. {_AS_ONNXRUNTIME}"
    ),
    AVERAGE_POOL,
    _operator("LpPool", _LP, {"p": 2}, _AS_ONNXRUNTIME),
    _operator("GlobalMaxPool", _MAX, {}, ""),
    GLOBAL_AVERAGE_POOL,
    _operator("GlobalLpPool", _LP, {"p": 2}, ""),
)
