"""How are windows pooled? Sliding and global maximum, average and p-norm pools.

Sources: https://onnx.ai/onnx/operators/ (MaxPool, AveragePool, LpPool, GlobalMaxPool,
GlobalAveragePool, GlobalLpPool); onnxruntime decides where the pages leave a choice.

All pools are one kernel: prepare the slab (nothing, or |x|^p), fold it along the rows, then
along every other spatial axis (k + k steps instead of k*k), finish the result (nothing, a
division by the number of values, a root). A global pool is a window as large as its input.
A window that covers all rows accumulates: each phase folds its rows into the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import accumulator_type
from csdfgen.model.network import Layer, Node, Tensor, memoize_layer
from csdfgen.model.rows import Rows, Window
from csdfgen.ops._folds import MAXIMUM, SUM, Fold, FoldAxis, fold_axes, fold_images, fold_piece
from csdfgen.ops._operands import node_layer
from csdfgen.ops.base import (
    REQUIRED,
    Call,
    Emit,
    Mode,
    Operator,
    Scratch,
    Takes,
    Work,
    accumulator_format,
)
from csdfgen.ops.integers import BYTES
from csdfgen.ops.reducing import FLOATS, compute_in_float32, constant, data_input
from csdfgen.ops.spread import Spread
from csdfgen.ops.windows import WINDOW, list_windows, output_length, read_rows, window_attributes

# What comes before and after the fold -------------------------------------------------------------

Prepare = Callable[[np.ndarray, Scratch], tuple[list[Call], np.ndarray]]
"""(slab, scratch) -> calls, and the array that they leave to be folded."""
Finish = Callable[[Rows, np.ndarray], list[Call]]
"""(output rows, folded values) -> calls that make them the pool's output, in place."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """A kind of pool: how it folds, and for a layer what it does before and after."""

    fold: Fold
    prepare: Callable[[Layer], Prepare]
    finish: Callable[[Layer], Finish]


def _unprepared(layer: Layer) -> Prepare:
    return lambda slab, scratch: ([], slab)


def _unfinished(layer: Layer) -> Finish:
    return lambda out, folded: []


def count_taps(window: Window, out: Rows, length: int, include_pad: bool) -> tuple[int, ...]:
    """Values that an average at each position divides by; taps beyond the end padding (ceil_mode)
    never count.

    >>> count_taps(Window(3, 3, 1, 1, 1), Rows(0, 3), 6, True), count_taps(Window(3, 3, 1, 1, 1), Rows(0, 3), 6, False)
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


def divisor(counts: Sequence[tuple[int, ...]], dtype: str) -> np.ndarray:
    """Products of the counts along all axes, to divide (rows, ..., N, C) by; a scalar if equal."""
    product = np.ones((1,) * (len(counts) + 2))
    for dim, along in enumerate(counts):
        shape = [1] * product.ndim
        shape[dim] = len(along)
        product = product * np.maximum(along, 1).reshape(shape)
    return constant(product.flat[0] if np.ptp(product) == 0 else product, dtype)


def _divide(layer: Layer) -> Finish:
    windows, lengths = list_windows(layer.attributes), _lengths(layer)
    include_pad, dtype = layer.attributes["count_include_pad"], accumulator_type(layer.output.dtype)
    columns = tuple(
        count_taps(w, Rows(0, count), n, include_pad)
        for w, count, n in zip(windows[1:], layer.output.shape[3:], lengths[1:], strict=True)
    )
    # All phases but those at the border divide alike: they share one array.
    of_rows = lru_cache(maxsize=None)(lambda rows: divisor((rows, *columns), dtype))

    def finish(out: Rows, folded: np.ndarray) -> list[Call]:
        by = of_rows(count_taps(windows[0], out, lengths[0], include_pad))
        return [(np.divide, (folded, by, folded))]

    return finish


def _power(layer: Layer) -> Prepare:
    p = layer.attributes["p"]
    exponent = constant(p, accumulator_type(layer.output.dtype))

    def prepare(slab: np.ndarray, scratch: Scratch) -> tuple[list[Call], np.ndarray]:
        powers = scratch.take(slab.shape, slab.dtype)
        if p == 2:
            return [(np.square, (slab, powers))], powers
        absolute: Call = (np.absolute, (slab, powers))
        return [absolute] if p == 1 else [absolute, (np.power, (powers, exponent, powers))], powers

    return prepare


def _root(layer: Layer) -> Finish:
    p = layer.attributes["p"]
    exponent = constant(1 / p, accumulator_type(layer.output.dtype))
    if p == 1:
        return _unfinished(layer)
    if p == 2:
        return lambda out, folded: [(np.sqrt, (folded, folded))]
    return lambda out, folded: [(np.power, (folded, exponent, folded))]


_MAX = _Pool(MAXIMUM, _unprepared, _unfinished)
_AVERAGE = _Pool(SUM, _unprepared, _divide)
_LP = _Pool(SUM, _power, _root)


# Layers -------------------------------------------------------------------------------------------


def _lengths(layer: Layer) -> tuple[int, ...]:
    """Lengths of the spatial axes of the input, rows first."""
    return layer.computed(0).shape[2:]


def _layer(
    node: Node, tensor: Tensor, attributes: Mapping[str, Any], spatial: Sequence[int]
) -> Layer:
    output = Tensor(node.outputs[0], (*tensor.shape[:2], *spatial), tensor.format, 2)
    return node_layer(node, (tensor,), (output,), attributes, (2,))


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
    windows = list_windows(attributes)
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
    """The layer of a node whose window is as large as input 0, of a type. Raises ModelError."""
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


@memoize_layer
def _window(layer: Layer) -> Window:
    return list_windows(layer.attributes)[0]


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return (read_rows(_window(layer), out, _lengths(layer)[0]),)


@memoize_layer
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
        return layer.computed(0).elements
    return len(out) * layer.output.row_elements


def _kernel(pool: _Pool) -> Callable[[Layer], Emit]:
    def kernel(layer: Layer) -> Emit:
        windows, lengths = list_windows(layer.attributes), _lengths(layer)
        accumulates = _mode(layer) is Mode.ACCUMULATE
        prepare, finish = pool.prepare(layer), pool.finish(layer)
        columns = [
            FoldAxis(w, Rows(0, count), Rows(0, n), n)
            for w, count, n in zip(windows[1:], layer.output.shape[3:], lengths[1:], strict=True)
        ]

        def emit(work: Work) -> list[Call]:
            slab, held, target = work.slab, work.held, work.result
            if work.phase.images > 1:
                rows = FoldAxis(windows[0], work.phase.out, held, lengths[0])
                calls = fold_images(pool.fold, slab, target, (rows, *columns), work.scratch)
                return [*calls, *finish(work.phase.out, target)]
            calls, source = prepare(slab, work.scratch)
            pieces = Spread.of(source).pieces
            if not accumulates:
                rows = FoldAxis(windows[0], work.phase.out, held, lengths[0])
                for piece in pieces:
                    part = target[..., piece.low : piece.high]
                    calls += fold_piece(pool.fold, piece, part, (rows, *columns), work.scratch)
                return [*calls, *finish(work.phase.out, target)]
            rows = FoldAxis(Window(len(held)), Rows(0, 1), Rows(0, len(held)), len(held))
            whole = target if work.phase.first else work.scratch.take(target.shape, target.dtype)
            for piece in pieces:
                part = whole[..., piece.low : piece.high]
                calls += fold_axes(pool.fold, piece.arrays[0], part, (rows, *columns), work.scratch)
            if not work.phase.first:
                calls.append((pool.fold.combine, (target, whole, target)))
            return [*calls, *finish(work.phase.out, target)] if work.phase.last else calls

        at_once = accumulates and all(axis.is_whole for axis in columns)
        # numpy reduces into wider sums by itself: only what slides or is prepared is widened before
        return emit if at_once and pool.prepare is _unprepared else compute_in_float32(emit)

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


_SLIDING = {**WINDOW, "auto_pad": "NOTSET", "ceil_mode": 0, "kernel_shape": REQUIRED}


def _operator(op_type: str, pool: _Pool, own: Mapping[str, Any], notes: str) -> Operator:
    sliding = not op_type.startswith("Global")
    return Operator(
        op_type,
        build=_build_sliding if sliding else _build_global,
        input_rows=_input_rows,
        kernel=_kernel(pool),
        cost=_cost,
        mode=_mode,
        state=accumulator_format,
        window=_window,
        shift_invariant=True,
        takes=partial(_takes, pool),
        joins=partial(_joins, pool),
        attributes=MappingProxyType({**(_SLIDING if sliding else {}), **own}),
        structure="row-phased; accumulating if one window covers all rows"
        if sliding
        else "accumulating",
        notes=notes,
    )


_AS_ONNXRUNTIME = (
    "As in onnxruntime, auto_pad=SAME_* ignores dilations. With ceil_mode, a last window counts if it starts inside "
    "the input "
    "or its begin padding."
)

AVERAGE_POOL = _operator(
    "AveragePool",
    _AVERAGE,
    {"count_include_pad": 0},
    f"{_AS_ONNXRUNTIME} count_include_pad excludes what is beyond the end padding.",
)
GLOBAL_AVERAGE_POOL = _operator("GlobalAveragePool", _AVERAGE, {}, "")

OPERATORS: tuple[Operator, ...] = (
    _operator(
        "MaxPool",
        _MAX,
        {"storage_order": 0},
        f"Indices are computed by separate layers. {_AS_ONNXRUNTIME}",
    ),
    AVERAGE_POOL,
    _operator("LpPool", _LP, {"p": 2}, _AS_ONNXRUNTIME),
    _operator("GlobalMaxPool", _MAX, {}, ""),
    GLOBAL_AVERAGE_POOL,
    _operator("GlobalLpPool", _LP, {"p": 2}, ""),
)
