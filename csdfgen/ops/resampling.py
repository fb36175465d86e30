"""Which rows make a resized row? Resize, Upsample, DepthToSpace, SpaceToDepth.

Source: https://onnx.ai/onnx/operators/onnx__Resize.html and the pages beside it. Resizing is done
one axis after the other, rows first, by the tables of `_interpolation`. Nearest neighbours at a
whole factor are plain copies with broadcasting; weighted neighbours are gathered side by side,
multiplied by one weight array, and added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import accumulator_of
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._interpolation import (
    COORDINATES,
    MODES,
    ROUNDINGS,
    Sampling,
    Taps,
    row_table,
    taps_of,
)
from csdfgen.ops._operands import (
    checked_shape,
    first_only,
    integers,
    normal_axes,
    one_input_layer,
    output_elements,
    storage_axis,
)
from csdfgen.ops.base import (
    REQUIRED,
    Alias,
    AliasKind,
    Call,
    Emit,
    Operator,
    Scratch,
    Work,
    each_phase,
    require_constant,
    require_tensor,
)
from csdfgen.ops.copies import (
    Segment,
    Selection,
    contiguous,
    copy_segments,
    cut,
    gather,
    segments,
    take,
)

__all__ = ["OPERATORS"]

SHORT_RUN = 32
"""Below this many elements behind an axis, weights are repeated for each of them: numpy's inner
loop stays long.
"""

FEW_RUNS = 4
"""Regular runs along one axis that are still worth a strided copy each, instead of a gather through
the workspace.
"""


def _source(layer: Layer) -> Tensor:
    """The input as it is read: its rows along the layer's input axis."""
    tensor = layer.inputs[0]
    assert tensor is not None
    return replace(tensor, row_axis=layer.input_axes[0])


def _read_along(layer: Layer, axis: int | None) -> Layer:
    return replace(layer, input_axes=(axis, *layer.input_axes[1:]))


# Resize, Upsample: what the node says ------------------------------------------------------------


def _resized_layer(node: Node, shape: Shape, scales: Sequence[float], **method: Any) -> Layer:
    """method: fields of `Sampling`, equal for all axes; `roi` holds starts, then ends, of all axes."""
    source = require_tensor(node, 0)
    if checked_shape(shape) == source.shape:
        scales = (1.0,) * len(
            shape
        )  # onnxruntime copies a map that keeps its size, whatever factors say
    if method["mode"] != "nearest" and np.dtype(source.dtype).kind != "f":
        raise ModelError(
            f"mode '{method['mode']}' on {source.dtype} values is not supported; cast to float32 before"
        )
    # a map in natural order is read by rows: what follows a Resize is usually a convolution
    axis = 2 if source.row_axis is None and len(shape) in (4, 5) else source.row_axis
    output = Tensor(node.outputs[0], shape, source.format, axis)
    return _read_along(
        one_input_layer(node, source, output, scales=tuple(map(float, scales)), **method), axis
    )


def _factors(array: np.ndarray) -> list[float]:
    if array.dtype.kind != "f" or array.ndim != 1:
        raise ModelError(
            f"'scales' is a {array.dtype} array of rank {array.ndim}, a 1-D float array is needed"
        )
    if not np.all((array > 0) & np.isfinite(array)):
        raise ModelError(f"scales {array.tolist()} are not all positive numbers")
    return [float(factor) for factor in array]


def _scaled(shape: Shape, scales: Sequence[float]) -> Shape:
    """Sizes times factors, rounded down; in float32 as everywhere else."""
    return tuple(
        int(np.float32(size) * np.float32(scale)) for size, scale in zip(shape, scales, strict=True)
    )


def _build_upsample(node: Node) -> Layer:
    source = require_tensor(node, 0)
    if node.opset >= 10:
        raise ModelError(
            f"Upsample is gone since opset 10, the model says {node.opset}; export Resize instead"
        )
    given = (
        np.array(node.attributes.get("scales", ()), np.float32)
        if node.opset < 9
        else require_constant(node, 1)
    )
    scales = _factors(given)
    if len(scales) != len(source.shape):
        raise ModelError(f"{len(scales)} scales for a tensor of rank {len(source.shape)}")
    mode = _one_of(UPSAMPLE.attribute(node, "mode"), "mode", ("nearest", "linear"))
    return _resized_layer(
        node,
        _scaled(source.shape, scales),
        scales,
        mode=mode,
        coordinates="asymmetric",
        rounding="simple",
    )


def _one_of(value: Any, name: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise ModelError(f"{name}='{value}' is not one of {', '.join(allowed)}")
    return str(value)


def _operand(node: Node, position: int) -> np.ndarray | None:
    """A constant operand, None if it is absent or empty (how early exporters leave `scales` out)."""
    if node.operand(position) is None:
        return None
    array = require_constant(node, position)
    return array if array.size else None


def _sizes_and_scales(node: Node, shape: Shape, axes: tuple[int, ...]) -> tuple[Shape, list[float]]:
    """Output shape and factor of every axis, from `scales` or `sizes`, which name `axes`."""
    by_factor = _operand(node, 1 if node.opset < 11 else 2)
    by_size = _operand(node, 3) if node.opset >= 11 else None
    if (by_factor is None) == (by_size is None):
        raise ModelError("exactly one of 'scales' and 'sizes' is needed")
    given = (
        _factors(by_factor)
        if by_factor is not None
        else [float(v) for v in integers(require_constant(node, 3), "sizes")]
    )
    if len(given) != len(axes):
        raise ModelError(f"{len(given)} scales or sizes for {len(axes)} axes")
    scales, sizes = [1.0] * len(shape), list(shape)
    if by_factor is not None:
        for axis, factor in zip(axes, given, strict=True):
            scales[axis] = factor
        return _scaled(shape, scales), scales
    for axis, size in zip(axes, given, strict=True):
        sizes[axis], scales[axis] = int(size), size / shape[axis]
    policy = _one_of(
        RESIZE.attribute(node, "keep_aspect_ratio_policy"),
        "keep_aspect_ratio_policy",
        tuple(POLICIES),
    )
    choose = POLICIES[policy]
    if choose is not None:
        common = float(np.float32(choose(scales[axis] for axis in axes)))
        for axis in axes:
            sizes[axis], scales[axis] = (
                int(np.float32(common) * np.float32(shape[axis]) + np.float32(0.5)),
                common,
            )
    return tuple(sizes), scales


POLICIES: Mapping[str, Any] = MappingProxyType(
    {"stretch": None, "not_larger": min, "not_smaller": max}
)


def _build_resize(node: Node) -> Layer:
    source = require_tensor(node, 0)
    rank = len(source.shape)
    named = RESIZE.attribute(node, "axes")
    axes = tuple(range(rank)) if named is None else normal_axes((int(axis) for axis in named), rank)
    shape, scales = _sizes_and_scales(node, source.shape, axes)
    mode = _one_of(RESIZE.attribute(node, "mode"), "mode", MODES)
    if node.opset < 11:
        return _resized_layer(
            node, shape, scales, mode=mode, coordinates="asymmetric", rounding="simple"
        )
    coordinates = RESIZE.attribute(node, "coordinate_transformation_mode")
    roi = [0.0] * rank + [1.0] * rank
    if coordinates == "tf_crop_and_resize":
        given = require_constant(node, 1).reshape(-1)
        if len(given) != 2 * len(axes):
            raise ModelError(
                f"'roi' has {len(given)} values for {len(axes)} axes; a start and an end each are needed"
            )
        for k, axis in enumerate(axes):
            roi[axis], roi[axis + rank] = float(given[k]), float(given[k + len(axes)])
    antialias = bool(RESIZE.attribute(node, "antialias"))
    if antialias and mode == "nearest":
        raise ModelError("antialias=1 does not go with mode 'nearest'; export 'linear' or 'cubic'")
    return _resized_layer(
        node,
        shape,
        scales,
        mode=mode,
        coordinates=_one_of(coordinates, "coordinate_transformation_mode", tuple(COORDINATES)),
        rounding=_one_of(RESIZE.attribute(node, "nearest_mode"), "nearest_mode", tuple(ROUNDINGS)),
        cubic_coefficient=float(RESIZE.attribute(node, "cubic_coeff_a")),
        exclude_outside=bool(RESIZE.attribute(node, "exclude_outside")),
        antialias=antialias,
        roi=tuple(roi),
        extrapolation_value=float(RESIZE.attribute(node, "extrapolation_value")),
    )


# Resize, Upsample: rows and kernel ---------------------------------------------------------------


def _sampling(layer: Layer, axis: int) -> Sampling:
    """How an ONNX axis is resampled."""
    source, output = _source(layer), layer.output
    method = {
        key: value
        for key, value in layer.attributes.items()
        if key not in ("scales", "extrapolation_value", "roi")
    }
    roi = layer.attributes.get("roi")
    if roi is not None:
        method["roi"] = (roi[axis], roi[axis + len(source.shape)])
    return Sampling(
        source.shape[axis],
        output.shape[axis],
        layer.attributes["scales"][axis],
        precise=source.dtype == "float64",
        **method,
    )


def _resize_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    k = layer.output.row_axis
    if k is None:
        return first_only(layer, out)
    sampling = _sampling(layer, k)
    return first_only(layer, out if sampling.is_identity else row_table(sampling).input_rows(out))


def _resize_aliases(layer: Layer) -> tuple[Alias, ...]:
    tensor = layer.inputs[0]
    same = all(_sampling(layer, axis).is_identity for axis in range(len(layer.output.shape)))
    return (Alias(AliasKind.VIEW, 0),) if same and tensor == _source(layer) else ()


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """One axis to be resampled, as the kernel sees it.

    place: dimension of the stored array. size: resized positions.
    chosen: what is read: for all resized positions their first tap, then for all the second, and so
        on.
    weights: (taps * size, 1 or elements behind the axis), in the type that is computed in; None for
        copies.
    outside: runs of resized positions that show the extrapolation value.
    """

    place: int
    size: int
    chosen: Selection
    weights: np.ndarray | None
    outside: tuple[Segment, ...]

    @classmethod
    def of(cls, place: int, taps: Taps, computing: np.dtype[Any]) -> _Axis:
        """The axis with one weight per tap."""
        return cls(
            place,
            taps.indices.shape[1],
            Selection.of(taps.indices.reshape(-1)),
            None if taps.weights is None else taps.weights.reshape(-1, 1).astype(computing),
            segments(np.flatnonzero(taps.outside).tolist()),
        )


def _rows_of(taps: Taps, out: Rows, held: Rows) -> Taps:
    """The taps of output rows `out` in a slab of the input rows `held`."""
    span = slice(out.start, out.stop)
    # taps of weight 0 may point at rows that are not held: any row that is will do
    indices = np.clip(taps.indices[:, span] - held.start, 0, len(held) - 1)
    return Taps(
        indices, None if taps.weights is None else taps.weights[:, span], taps.outside[span]
    )


def _axes(layer: Layer, computing: np.dtype[Any]) -> tuple[Taps | None, tuple[_Axis, ...]]:
    """The taps of the row axis, if it is resampled, and the axes within the row, in the order of
    its dimensions.
    """
    source = _source(layer)
    rows, found = None, []
    for axis in range(len(source.shape)):
        sampling = _sampling(layer, axis)
        if sampling.is_identity:
            continue
        if axis == source.row_axis:
            rows = taps_of(sampling)
            continue
        prepared = _Axis.of(storage_axis(source, axis), taps_of(sampling), computing)
        behind = prod(source.storage_shape[prepared.place + 1 :])
        if prepared.weights is not None and behind < SHORT_RUN:
            prepared = replace(prepared, weights=np.repeat(prepared.weights, behind, axis=1))
        found.append(prepared)
    return rows, tuple(sorted(found, key=lambda axis: axis.place))


def _blended(
    source: np.ndarray, axis: _Axis, target: np.ndarray | None, scratch: Scratch, calls: list[Call]
) -> np.ndarray:
    """One axis by weighted neighbours, into `target` or the workspace."""
    indices, runs = axis.chosen.indices, axis.chosen.runs
    source = contiguous(source, scratch, calls)
    before, behind = source.shape[: axis.place], source.shape[axis.place + 1 :]
    flat = source.reshape(prod(before), -1, prod(behind))
    gathered = scratch.take((flat.shape[0], len(indices), flat.shape[2]), source.dtype)
    if len(runs) == 1 and runs[0].repeat == 1:
        read = cut(flat, 1, runs[0].source)
    else:
        calls.append((np.take, (flat, indices, 1, gathered, "clip")))
        read = gathered
    calls.append((np.multiply, (read, axis.weights, gathered)))
    if target is None:
        target = scratch.take((*before, axis.size, *behind), source.dtype)
    terms = [
        gathered[:, k : k + axis.size].reshape(target.shape)
        for k in range(0, len(indices), axis.size)
    ]
    total = terms[0]
    for term in terms[1:]:
        calls.append((np.add, (total, term, target)))
        total = target
    if len(terms) == 1:
        calls.append((np.copyto, (target, total)))
    return target


def _replicated(
    result: np.ndarray, source: np.ndarray, axes: Sequence[_Axis], scratch: Scratch
) -> list[Call]:
    """Axes by one neighbour each: copies of regular runs, after a gather along axes that have too
    many of them.
    """
    if len(axes) == 1:
        return gather(result, source, axes[0].chosen, axes[0].place, scratch)
    calls: list[Call] = []
    regular = []
    for axis in axes:
        if axis.place > 0 and len(axis.chosen.runs) > FEW_RUNS:
            source = take(source, axis.chosen.indices, axis.place, scratch, calls)
        else:
            regular.append([(axis.place, run) for run in axis.chosen.runs])
    return calls + [copy_segments(result, source, chosen) for chosen in product(*regular)]


def _resize_kernel(layer: Layer) -> Emit:
    dtype = np.dtype(layer.output.dtype)
    computing = np.dtype(accumulator_of(dtype))
    rows, within = _axes(layer, computing)
    blank = np.array(layer.attributes.get("extrapolation_value", 0.0)).astype(dtype)

    def emit(work: Work) -> list[Call]:
        slab, held, result = work.slab, work.held, work.result
        if not held:
            return [(np.copyto, (result, blank))]
        axes = (
            within
            if rows is None
            else (_Axis.of(0, _rows_of(rows, work.phase.out, held), computing), *within)
        )
        blended = [axis for axis in axes if axis.weights is not None]
        copied = [axis for axis in axes if axis.weights is None]
        calls: list[Call] = []
        current = _cast(slab, computing, work.scratch, calls) if blended else slab
        for axis in blended:
            ends = axis is blended[-1] and not copied and dtype == computing
            current = _blended(current, axis, result if ends else None, work.scratch, calls)
        if copied:
            calls += _replicated(
                result, _cast(current, dtype, work.scratch, calls), copied, work.scratch
            )
        elif current is not result:
            calls.append((np.copyto, (result, current)))
        for axis in axes:
            for run in axis.outside:
                calls.append((np.copyto, (cut(result, axis.place, run.source), blank)))
        return calls

    return emit


def _cast(
    array: np.ndarray, dtype: np.dtype[Any], scratch: Scratch, calls: list[Call]
) -> np.ndarray:
    """The array in another float type, in the workspace; itself if it has the type."""
    if array.dtype == dtype:
        return array
    other = scratch.take(array.shape, dtype)
    calls.append((np.copyto, (other, array)))
    return other


def _resize_operator(
    op_type: str, build: Callable[[Node], Layer], constants: Iterable[int], **attributes: Any
) -> Operator:
    return Operator(
        op_type,
        build,
        _resize_rows,
        _resize_kernel,
        output_elements,
        aliases=_resize_aliases,
        constant_inputs=frozenset(constants),
        attributes=MappingProxyType(attributes),
        structure="row-phased",
        notes="Nearest for all types, linear and cubic (antialiased or not) for floats. A map in natural order is read whole.",
    )


UPSAMPLE = _resize_operator("Upsample", _build_upsample, (1,), mode="nearest", scales=None)
RESIZE = _resize_operator(
    "Resize",
    _build_resize,
    (1, 2, 3),
    mode="nearest",
    coordinate_transformation_mode="half_pixel",
    nearest_mode="round_prefer_floor",
    cubic_coeff_a=-0.75,
    exclude_outside=0,
    extrapolation_value=0.0,
    axes=None,
    antialias=0,
    keep_aspect_ratio_policy="stretch",
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
    return source, size, _one_of(operator.attribute(node, "mode"), "mode", tuple(BLOCK_ORDERS))


def _build_depth_to_space(node: Node) -> Layer:
    source, size, mode = _block(node, DEPTH_TO_SPACE)
    n, c, h, w = source.shape
    if c % size**2:
        raise ModelError(f"{c} channels do not divide into blocks of {size} x {size}")
    output = Tensor(node.outputs[0], (n, c // size**2, h * size, w * size), source.format, 2)
    return _read_along(one_input_layer(node, source, output, blocksize=size, mode=mode), 2)


def _build_space_to_depth(node: Node) -> Layer:
    source, size, mode = _block(node, SPACE_TO_DEPTH)
    n, c, h, w = source.shape
    if h % size or w % size:
        raise ModelError(f"a map of {h} x {w} does not divide into blocks of {size} x {size}")
    output = Tensor(node.outputs[0], (n, c * size**2, h // size, w // size), source.format, 2)
    return _read_along(one_input_layer(node, source, output, blocksize=size, mode=mode), 2)


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
    return first_only(layer, Rows(out.start // size, -(-out.stop // size)))


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
    return first_only(layer, Rows(out.start * size, out.stop * size))


def _space_to_depth(layer: Layer, work: Work) -> list[Call]:
    target = _blocks(work.result, layer.attributes["blocksize"], layer.attributes["mode"])
    return [(np.copyto, (target, work.slab.reshape(target.shape)))]


DEPTH_TO_SPACE = Operator(
    "DepthToSpace",
    _build_depth_to_space,
    _depth_to_space_rows,
    each_phase(_depth_to_space),
    output_elements,
    attributes=MappingProxyType({"blocksize": REQUIRED, "mode": "DCR"}),
)
SPACE_TO_DEPTH = Operator(
    "SpaceToDepth",
    _build_space_to_depth,
    _space_to_depth_rows,
    each_phase(_space_to_depth),
    output_elements,
    shift_invariant=True,
    attributes=MappingProxyType({"blocksize": REQUIRED, "mode": "DCR"}),
)

OPERATORS: tuple[Operator, ...] = (RESIZE, UPSAMPLE, DEPTH_TO_SPACE, SPACE_TO_DEPTH)
