"""Normalization by constants (BatchNormalization), by neighbouring channels (LRN), or by statistics of
the values themselves.

Sources: https://onnx.ai/onnx/operators/ (one page per operator of the table at the end).

Work that stays within a row is done by rows. Statistics over the whole map need all of it before
the first value can be written: those layers run whole, in place where they may.
Statistics are kept to one small array; squares are summed without storing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.errors import ModelError
from csdfgen.model.formats import FLOAT32, accumulator_type
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops._operands import (
    node_layer,
    normalize_axes,
    normalize_axis,
    output_elements,
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
    broadcast_view,
    make_phase_kernel,
)
from csdfgen.ops.folded_weights import batch_factors
from csdfgen.ops.primitives import maximum
from csdfgen.ops.reducing import (
    compute_in_float32,
    constant,
    data_input,
    has_separate_rows,
    slab_dims,
    split_into_blocks,
    sum_of_squares,
    sum_over,
)
from csdfgen.ops.spread import Spread

EPSILON = 9.999999747378752e-06
"""The default of all `epsilon` attributes: 1e-5 as a float32."""

_STATISTICS = ("mean", "inverse deviation")
"""The outputs of LayerNormalization behind the first."""


# Layers -------------------------------------------------------------------------------------------


def _layer(
    node: Node, tensor: Tensor, axes: Sequence[int], row_axis: int | None, **attributes: Any
) -> Layer:
    """A layer that keeps the shape of input 0; further operands are constants, or read whole in
    natural order.

    axes: those that one normalised value depends on; row_axis: along which input 0 is read and the
        output written.
    """
    output = Tensor(node.outputs[0], tensor.shape, tensor.format, row_axis)
    along = (row_axis, *[None] * (len(node.inputs) - 1))
    return node_layer(node, node.inputs, (output,), {"axes": tuple(axes), **attributes}, along)


def _refuse_statistics(node: Node) -> None:
    if any(node.outputs[1:]):
        wanted = next(name for name in node.outputs[1:] if name)
        raise ModelError(
            f"output '{wanted}' (statistics for training) is not computed; export for inference"
        )


def _check_parameters(node: Node, positions: Sequence[int], shape: tuple[int, ...]) -> None:
    """ModelError unless the operands at `positions` that are present have a shape."""
    for position in positions:
        operand = node.operand(position)
        if operand is None:
            raise ModelError(f"input {position} is absent, {node.op_type} needs it")
        if tuple(operand.shape) != shape:
            raise ModelError(
                f"input {position} has shape {list(operand.shape)}, the input's channels need {list(shape)}"
            )


def _epsilon(node: Node) -> float:
    return float(node.attributes.get("epsilon", EPSILON))


def _build_batch(node: Node) -> Layer:
    tensor = data_input(node, least_rank=1)
    _refuse_statistics(node)
    if node.attributes.get("training_mode", 0):
        raise ModelError("training_mode=1 normalises by the batch; export for inference")
    channels = tensor.shape[1] if len(tensor.shape) > 1 else 1
    if not node.attributes.get("spatial", 1) and prod(tensor.shape[2:]) > 1:
        raise ModelError("spatial=0 has statistics for every pixel; export with opset 9 or later")
    _check_parameters(node, range(1, 5), (channels,))
    # Rows share their factors unless they are the channels: then the next axis is the row axis.
    row_axis = tensor.row_axis if tensor.row_axis != 1 else 2 if len(tensor.shape) > 2 else None
    return _layer(node, tensor, (), row_axis, epsilon=_epsilon(node))


def _build_local_response(node: Node) -> Layer:
    tensor = data_input(node, least_rank=2)
    settings = {
        name: float(node.attributes.get(name, default))
        for name, default in _LRN.items()
        if name != "size"
    }
    size = int(node.attributes["size"])
    if size < 1:
        raise ModelError(f"attribute 'size'={size}; the window over channels needs at least 1")
    row_axis = 2 if len(tensor.shape) > 2 else None
    return _layer(node, tensor, (), row_axis, size=size, **settings)


def _build_instance(node: Node) -> Layer:
    tensor = data_input(node, least_rank=3)
    _check_parameters(node, (1, 2), tensor.shape[1:2])
    return _layer(
        node, tensor, range(2, len(tensor.shape)), tensor.row_axis, epsilon=_epsilon(node)
    )


def _build_group(node: Node) -> Layer:
    """Scale and bias are per group in opset 18, per channel from opset 21 on."""
    tensor = data_input(node, least_rank=3)
    groups, channels = int(node.attributes["num_groups"]), tensor.shape[1]
    if groups < 1 or channels % groups:
        raise ModelError(f"num_groups={groups} does not divide the {channels} channels")
    _check_parameters(node, (1, 2), (groups,) if node.opset < 21 else (channels,))
    return _layer(
        node,
        tensor,
        range(1, len(tensor.shape)),
        tensor.row_axis,
        num_groups=groups,
        epsilon=_epsilon(node),
    )


def _build_layer(node: Node) -> Layer:
    """LayerNormalization and RMSNormalization: all axes from `axis` on; scale and bias broadcast
    against the input.

    Mean and inverse deviation are outputs where somebody reads them. They lose the row axis if it
    is normalised; then all outputs are one row in natural order.
    """
    tensor = data_input(node, least_rank=1)
    rank = len(tensor.shape)
    for position, operand in enumerate(node.inputs[1:], 1):
        shape = () if operand is None else tuple(operand.shape)
        aligned = tensor.shape[rank - len(shape) :] if len(shape) <= rank else ()
        if len(shape) > rank or any(
            size not in (1, wide) for size, wide in zip(shape, aligned, strict=True)
        ):
            raise ModelError(
                f"input {position} of shape {list(shape)} does not broadcast against {list(tensor.shape)}"
            )
    first = normalize_axis(int(node.attributes.get("axis", -1)), rank)
    axes = range(first, rank)
    statistics = tuple(
        name for name, wanted in zip(_STATISTICS, node.outputs[1:], strict=False) if wanted
    )
    row_axis = tensor.row_axis if not statistics or has_separate_rows(tensor, axes) else None
    layer = _layer(node, tensor, axes, row_axis, epsilon=_epsilon(node), statistics=statistics)
    shape = (*tensor.shape[:first], *(1 for _ in axes))
    extra = tuple(Tensor(name, shape, FLOAT32, row_axis) for name in node.outputs[1:] if name)
    return replace(layer, outputs=(*layer.outputs, *extra))


def _build_softmax(node: Node) -> Layer:
    """Before opset 13 the axes from `axis` (default 1) on, as one; then `axis` (default -1) alone."""
    tensor = data_input(node, least_rank=1)
    rank = len(tensor.shape)
    one = node.opset >= 13
    first = normalize_axis(int(node.attributes.get("axis", -1 if one else 1)), rank)
    return _layer(node, tensor, (first,) if one else range(first, rank), tensor.row_axis)


def _build_mean_variance(node: Node) -> Layer:
    tensor = data_input(node, least_rank=1)
    axes = normalize_axes(node.attributes.get("axes", _MEAN_VARIANCE_AXES), len(tensor.shape))
    # The operator adds 1e-9 to the deviation; under the root that is its square.
    return _layer(node, tensor, axes, tensor.row_axis, epsilon=1e-18)


def _build_lp(node: Node) -> Layer:
    tensor = data_input(node, least_rank=1)
    p = int(node.attributes.get("p", 2))
    if p not in (1, 2):
        raise ModelError(f"attribute 'p'={p} is not 1 or 2")
    axis = normalize_axis(int(node.attributes.get("axis", -1)), len(tensor.shape))
    return _layer(node, tensor, (axis,), tensor.row_axis, p=p)


# Rows ---------------------------------------------------------------------------------------------


def _mode(layer: Layer) -> Mode:
    return Mode.ROWS if has_separate_rows(layer.output, layer.attributes["axes"]) else Mode.WHOLE


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    """The same rows, or all; parameters that are computed are one row each."""
    rows = out if _mode(layer) is Mode.ROWS else Rows(0, layer.output.rows)
    return (rows, *(None if tensor is None else Rows(0, 1) for tensor in layer.inputs[1:]))


def _window(layer: Layer) -> Window:
    return Window(1 if _mode(layer) is Mode.ROWS else layer.output.rows)


def _in_place(layer: Layer) -> tuple[Alias, ...]:
    return (
        (Alias(AliasKind.INPLACE, 0),)
        if layer.computed(0).row_axis == layer.output.row_axis
        else ()
    )


def _in_place_by_rows(layer: Layer) -> tuple[Alias, ...]:
    alone = _mode(layer) is Mode.ROWS or layer.op_type in _OF_AXES
    return _in_place(layer) if alone and len(layer.outputs) == 1 else ()


# Kernels ------------------------------------------------------------------------------------------


def _parameter(layer: Layer, position: int, work: Work) -> np.ndarray | None:
    """An operand in ONNX axis order: a constant in the computed type, or a view of its slab."""
    if position in layer.constants:
        return layer.constants[position].astype(accumulator_type(layer.output.dtype))
    slab = work.slabs[position] if position < len(work.slabs) else None
    return None if slab is None else slab[0, ...]


def _per_channel(values: np.ndarray, layer: Layer, out: Rows) -> np.ndarray:
    """Values of shape (C,), or (groups,), broadcastable against the slab along its channels."""
    beside_channels = (..., *(None for _ in layer.output.shape[2:]))
    return broadcast_view(values[beside_channels], layer.output, out)


def _affine(
    x: np.ndarray, y: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None
) -> Iterator[Call]:
    if scale is not None:
        yield np.multiply, (x, scale, y)
        x = y
    if bias is not None:
        yield np.add, (x, bias, y)


def _batch_kernel(layer: Layer) -> Emit:
    """y = gain * x + shift; constant statistics are folded into gain and shift in float64."""
    dtype = accumulator_type(layer.output.dtype)
    epsilon = layer.attributes["epsilon"]
    folded: list[np.ndarray] = []
    if len(layer.constants) == 4:
        parameters = [layer.constants[k] for k in range(1, 5)]
        folded = [array.astype(dtype) for array in batch_factors(parameters, epsilon)]

    def emit(work: Work) -> list[Call]:
        y, calls, factors = work.result, list[Call](), folded
        if not folded:
            scale, bias, mean, variance = (_parameter(layer, k, work) for k in range(1, 5))
            assert mean is not None
            gain, shift = factors = [work.scratch.take(mean.shape, dtype) for _ in range(2)]
            calls += [
                (np.add, (variance, constant(epsilon, dtype), gain)),
                (np.sqrt, (gain, gain)),
                (np.divide, (scale, gain, gain)),
                (np.multiply, (mean, gain, shift)),
                (np.subtract, (bias, shift, shift)),
            ]
        factors = [_per_channel(values, layer, work.phase.out) for values in factors]
        for piece in Spread.of(work.slab).pieces:
            part = slice(piece.low, piece.high)
            own = (f if f.shape[-1] == 1 else f[..., part] for f in factors)
            calls += _affine(piece.arrays[0], y[..., part], *own)
        return calls

    return emit


def _batch_takes(layer: Layer, position: int) -> Takes:
    """Pieces of the operand, unless it is widened."""
    return Takes.EVEN if position or layer.output.dtype == "float16" else Takes.PIECES


def _local_response_kernel(layer: Layer) -> Emit:
    """y = x / (bias + alpha / size * (sum of squares over the window))**beta.

    Squares are stored with zeros between the pixels, so that the sums over windows are a few
    additions of one long vector to itself, shifted; the sums that straddle two pixels are not read.
    """
    settings, channels = layer.attributes, layer.computed(0).shape[1]
    size, dtype = settings["size"], accumulator_type(layer.output.dtype)
    before, after = (min(side // 2, channels - 1) for side in (size - 1, size))
    alpha, bias, beta, zero = (
        constant(v, dtype)
        for v in (settings["alpha"] / size, settings["bias"], settings["beta"], 0)
    )
    dim = storage_axis(layer.output, 1)

    def emit(work: Work) -> list[Call]:
        arrays = [np.moveaxis(array, dim, -1) for array in (work.result, work.slab)]
        return split_into_blocks(make, arrays, range(work.result.ndim - 1), work.scratch)

    def make(arrays: Sequence[np.ndarray], scratch: Scratch) -> list[Call]:
        y, x = arrays
        padded = scratch.take((*x.shape[:-1], before + channels + after), dtype)
        row = padded.reshape(-1)
        count = row.size - before - after
        total = scratch.take((count,), dtype)
        # the sums of every pixel alone: those that straddle two are skipped
        sums = as_strided(total, (*padded.shape[:-1], channels), padded.strides)
        inside = padded[..., before : before + channels]
        calls: list[Call] = [
            (np.copyto, (padded[..., :before], zero)),
            (np.copyto, (padded[..., before + channels :], zero)),
            (np.multiply, (x, alpha, inside)),
            (np.multiply, (inside, x, inside)),
            (np.add, (row[:count], bias, total)),
        ]
        calls += [
            (np.add, (total, row[shift : shift + count], total))
            for shift in range(1, before + after + 1)
        ]
        if settings["beta"] == 0.75:
            root = row[:count]
            calls += [
                (np.sqrt, (total, root)),
                (np.sqrt, (root, total)),
                (np.multiply, (total, root, total)),
            ]
        else:
            calls.append((np.power, (total, beta, total)))
        return [*calls, (np.divide, (x, sums, y))]

    return emit


def _split(array: np.ndarray, dim: int, groups: int) -> np.ndarray:
    """View of an array with a dimension of C cut into (groups, C / groups)."""
    shape = (*array.shape[:dim], groups, array.shape[dim] // groups, *array.shape[dim + 1 :])
    return array.reshape(shape)  # which only splits a dimension, so that it copies nothing


def _folded_shape(array: np.ndarray, dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if i in dims else size for i, size in enumerate(array.shape))


def _standardized(layer: Layer, work: Work, *, centre: bool) -> Iterator[Call]:
    """The four operators that divide by a deviation: of a map, of a group of maps, or over axes, the
    root mean square where values are not centred.
    """
    axes, out = layer.attributes["axes"], work.phase.out
    groups = layer.attributes.get("num_groups")
    arrays: list[np.ndarray | None] = [work.slab, work.result]
    for position in (1, 2):
        values = _parameter(layer, position, work)
        if values is not None and layer.op_type in _OF_MAPS:
            values = _per_channel(values, layer, out)
        elif values is not None:
            values = broadcast_view(values, layer.output, out)
        arrays.append(values)
    dims = slab_dims(layer.output, axes)
    if groups is not None:
        channel = storage_axis(layer.output, 1)
        arrays = [None if a is None else _split(a, channel, groups) for a in arrays]
        dims = tuple(d + (d >= channel) for d in dims)
    x, y, scale, bias = arrays
    assert x is not None and y is not None
    moment = work.scratch.take(_folded_shape(x, dims), x.dtype)
    count = constant(prod(x.shape[d] for d in dims), x.dtype)
    statistics = dict(zip(layer.attributes.get("statistics", ()), work.results[1:], strict=True))
    if centre:
        yield sum_over(x, dims, moment)
        yield np.divide, (moment, count, moment)
        if "mean" in statistics:
            yield np.copyto, (statistics["mean"], moment)
        yield np.subtract, (x, moment, y)
        x = y
    yield sum_of_squares(x, dims, moment)
    yield np.divide, (moment, count, moment)
    yield np.add, (moment, constant(layer.attributes["epsilon"], x.dtype), moment)
    yield np.sqrt, (moment, moment)
    if "inverse deviation" in statistics:
        yield np.reciprocal, (moment, statistics["inverse deviation"])
    if scale is not None and all(scale.shape[d] == 1 for d in dims):
        # One factor for all that share a deviation: one pass over the values instead of two.
        factor = work.scratch.take(np.broadcast_shapes(scale.shape, moment.shape), x.dtype)
        yield np.divide, (scale, moment, factor)
        yield from _affine(x, y, factor, bias)
    else:
        yield np.divide, (x, moment, y)
        yield from _affine(y, y, scale, bias)


_OF_AXES = ("LayerNormalization", "MeanVarianceNormalization", "RMSNormalization")
"""Operators over axes that may be those of rows; each pass over all values writes where it has read."""

_OF_MAPS = ("InstanceNormalization", "GroupNormalization")
"""Operators with a factor and an offset for each channel, or group of channels."""


def _lp(layer: Layer, work: Work) -> list[Call]:
    """x / norm; where the norm is 0, x is 0 and stays so."""
    x, dims = work.slab, slab_dims(layer.output, layer.attributes["axes"])
    norm = work.scratch.take(_folded_shape(x, dims), x.dtype)
    calls: list[Call]
    if layer.attributes["p"] == 2:
        calls = [sum_of_squares(x, dims, norm), (np.sqrt, (norm, norm))]
    else:
        absolute = work.scratch.take(x.shape, x.dtype)
        calls = [(np.absolute, (x, absolute)), sum_over(absolute, dims, norm)]
    smallest = constant(np.finfo(x.dtype).tiny, x.dtype)
    return [*calls, (maximum, (norm, smallest, norm)), (np.divide, (x, norm, work.result))]


def _softmax(layer: Layer, work: Work) -> list[Call]:
    x, y, dims = work.slab, work.result, slab_dims(layer.output, layer.attributes["axes"])
    logarithm = layer.op_type == "LogSoftmax"
    folded = work.scratch.take(_folded_shape(x, dims), x.dtype)
    powers = work.scratch.take(x.shape, x.dtype) if logarithm else y
    calls: list[Call] = [
        (np.maximum.reduce, (x, dims, None, folded, True)),
        (np.subtract, (x, folded, y)),
        (np.exp, (y, powers)),
        sum_over(powers, dims, folded),
    ]
    if logarithm:
        return [*calls, (np.log, (folded, folded)), (np.subtract, (y, folded, y))]
    return [*calls, (np.divide, (y, folded, y))]


# Table --------------------------------------------------------------------------------------------

_LRN: Mapping[str, Any] = {
    "alpha": 9.999999747378752e-05,
    "beta": 0.75,
    "bias": 1.0,
    "size": REQUIRED,
}
_MEAN_VARIANCE_AXES = (0, 2, 3)


def _operator(
    op_type: str,
    build: Callable[[Node], Layer],
    kernel: Callable[[Layer], Emit],
    attributes: Mapping[str, Any],
    *,
    rowwise: bool = True,
    structure: str = "row-phased; whole along the row axis",
    **more: Any,
) -> Operator:
    """A record of this family. rowwise: may join its producer's slab; others run in place if whole."""
    return Operator(
        op_type,
        build=build,
        input_rows=_input_rows,
        kernel=lambda layer: compute_in_float32(kernel(layer)),
        cost=output_elements,
        mode=_mode,
        aliases=_in_place_by_rows if rowwise else _in_place,
        window=_window,
        rowwise=rowwise,
        **more,
        attributes=MappingProxyType(dict(attributes)),
        structure=structure,
    )


_STANDARDIZED = make_phase_kernel(partial(_standardized, centre=True))


OPERATORS: tuple[Operator, ...] = (
    _operator(
        "BatchNormalization",
        _build_batch,
        _batch_kernel,
        {"epsilon": EPSILON, "momentum": 0.9, "spatial": 1, "training_mode": 0},
        structure="row-phased",
        takes=_batch_takes,
        notes="Inference only: training_mode=1, statistics outputs and spatial=0 are refused.",
    ),
    _operator("LRN", _build_local_response, _local_response_kernel, _LRN, structure="row-phased"),
    _operator(
        "InstanceNormalization",
        _build_instance,
        _STANDARDIZED,
        {"epsilon": EPSILON},
        rowwise=False,
        structure="whole",
        notes="Statistics cover the whole channel.",
    ),
    _operator(
        "GroupNormalization",
        _build_group,
        _STANDARDIZED,
        {"epsilon": EPSILON, "num_groups": REQUIRED, "stash_type": 1},
        rowwise=False,
        structure="whole",
        since=18,
        notes="Statistics cover the whole group of channels.",
    ),
    _operator(
        "LayerNormalization",
        _build_layer,
        _STANDARDIZED,
        {"axis": -1, "epsilon": EPSILON, "stash_type": 1},
        since=17,
        notes="Row-phased if it normalizes the last axis (channels last).",
    ),
    _operator(
        "RMSNormalization",
        _build_layer,
        make_phase_kernel(partial(_standardized, centre=False)),
        {"axis": -1, "epsilon": EPSILON, "stash_type": 1},
        since=23,
    ),
    _operator(
        "MeanVarianceNormalization",
        _build_mean_variance,
        _STANDARDIZED,
        {"axes": _MEAN_VARIANCE_AXES},
        since=9,
    ),
    _operator("LpNormalization", _build_lp, make_phase_kernel(_lp), {"axis": -1, "p": 2}),
    *(
        _operator(
            op_type,
            _build_softmax,
            make_phase_kernel(_softmax),
            {"axis": None},
            notes="Before opset 13, normalizes all axes from `axis` on.",
        )
        for op_type in ("Softmax", "LogSoftmax")
    ),
)
