"""Which rows make a resized row? Resize and Upsample.

Sources: https://onnx.ai/onnx/operators/onnx__Resize.html; the cubic kernel is equation (4) of Keys,
"Cubic convolution interpolation for digital image processing", 1981.

Resizing is separable: each axis has a table of taps (original positions and their weights), and the
table of the row axis is the row rule. Positions are computed in float32, as onnxruntime does: a tie of
nearest neighbours may fall either way, and it has to fall as it does there. Rows are resized first,
then one axis after the other. Nearest neighbours at a whole factor are copies with broadcasting;
weighted neighbours are gathered side by side, multiplied by one array of weights, and added.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format, accumulator_type
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import (
    check_shape,
    check_word,
    first_input_rows,
    normalize_axes,
    one_input_layer,
    output_elements,
    read_integers,
    storage_axis,
)
from csdfgen.ops.base import (
    Alias,
    AliasKind,
    Call,
    Emit,
    Operator,
    Scratch,
    Work,
    require_constant,
    require_tensor,
)
from csdfgen.ops.copies import (
    OUTSIDE,
    RowTable,
    Segment,
    Selection,
    copy_segments,
    cut,
    gather,
    make_contiguous,
    segments,
    take,
)

FEW_RUNS = 4
"""Regular runs along an axis that are worth strided copies, not a gather through the workspace."""


def _source(layer: Layer) -> Tensor:
    """The input as it is read: its rows along the layer's input axis."""
    return replace(layer.computed(0), row_axis=layer.input_axes[0])


def _read_along(layer: Layer, axis: int | None) -> Layer:
    return replace(layer, input_axes=(axis, *layer.input_axes[1:]))


# Resize, Upsample: what the node says ------------------------------------------------------------


def _resized_layer(node: Node, shape: Shape, scales: Sequence[float], **method: Any) -> Layer:
    """method: fields of `Sampling`, equal for all axes; `roi` holds starts, then ends, of all axes."""
    source = require_tensor(node, 0)
    if check_shape(shape) == source.shape:
        # onnxruntime copies a map that keeps its size, whatever factors say
        scales = (1.0,) * len(shape)
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
    mode = check_word(UPSAMPLE.attribute(node, "mode"), "mode", ("nearest", "linear"))
    return _resized_layer(
        node,
        _scaled(source.shape, scales),
        scales,
        mode=mode,
        coordinates="asymmetric",
        rounding="simple",
    )


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
        else [float(v) for v in read_integers(require_constant(node, 3), "sizes")]
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
    policy = check_word(
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
    axes = (
        tuple(range(rank)) if named is None else normalize_axes((int(axis) for axis in named), rank)
    )
    shape, scales = _sizes_and_scales(node, source.shape, axes)
    mode = check_word(RESIZE.attribute(node, "mode"), "mode", MODES)
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
        coordinates=check_word(coordinates, "coordinate_transformation_mode", tuple(COORDINATES)),
        rounding=check_word(
            RESIZE.attribute(node, "nearest_mode"), "nearest_mode", tuple(ROUNDINGS)
        ),
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
        if key not in ("scales", "extrapolation_value", "roi", "requantize", "streams")
    }
    roi = layer.attributes.get("roi")
    if roi is not None:
        method["roi"] = (roi[axis], roi[axis + len(source.shape)])
    return Sampling(
        source.shape[axis],
        output.shape[axis],
        layer.attributes["scales"][axis],
        precise=source.dtype == "float64",
        repeats=bool(layer.attributes.get("streams")) and axis == output.row_axis,
        **method,
    )


def repeat_positions(layer: Layer) -> Layer:
    """A layer that resizes rows by a fraction as one that may stream: rows a turn apart have the same weights, where positions
    in float32 drift by some 1e-4 in a thousand rows. Others stay as they are.
    """
    axis = layer.output.row_axis
    if layer.op_type not in ("Resize", "Upsample") or axis is None:
        return layer
    sampling = _sampling(layer, axis)
    turn = sampling.turn
    drifts = turn is not None and (turn != sampling.scale or turn.numerator.bit_count() > 1)
    return replace(layer, attributes={**layer.attributes, "streams": True}) if drifts else layer


def has_repeated_positions(layer: Layer) -> bool:
    """Whether a layer was changed by `repeat_positions`."""
    return layer.op_type in ("Resize", "Upsample") and "streams" in layer.attributes


def _resize_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    k = layer.output.row_axis
    if k is None:
        return first_input_rows(layer, out)
    sampling = _sampling(layer, k)
    return first_input_rows(
        layer, out if sampling.is_identity else row_table(sampling).input_rows(out)
    )


_BY_THE_HEIGHT = ("align_corners", "half_pixel_symmetric", "tf_crop_and_resize")
"""Coordinates that depend on the length of an axis."""


def _follows_height(sampling: Sampling) -> bool:
    """Whether positions depend on the length of the axis; steps that are rounded do, unless they are exact."""
    name = sampling.coordinates.removesuffix(IN_1024THS)
    exact = name == sampling.coordinates or (sampling.length << 10) % sampling.resized == 0
    return name in _BY_THE_HEIGHT or not exact


def _ends_inside(sampling: Sampling) -> bool:
    """Whether the last nearest neighbour need not be moved into the axis, whatever its length."""
    if sampling.mode != "nearest":
        return True
    lengths = range(sampling.length, sampling.length + 8)
    found = [replace(sampling, length=n, resized=int(n * sampling.scale)) for n in lengths]
    return all(
        ROUNDINGS[one.rounding](one, position)[0] < one.length
        for one in found
        for position in [COORDINATES[one.coordinates](one, np.array([one.resized - 1], np.float32))]
    )


def _row_kind(layer: Layer, row: int) -> Hashable | None:
    """Weights of the taps of a row."""
    k = layer.output.row_axis
    sampling = None if k is None else _sampling(layer, k)
    if sampling is None or sampling.is_identity:
        return 0
    if _follows_height(sampling) or not _ends_inside(sampling):
        return None
    weights = build_taps(sampling).weights
    return 0 if weights is None else tuple(weights[:, row].tolist())


def _row_taps(layer: Layer, out: Rows) -> Hashable | None:
    """Where the taps of rows are, from the first row that is read on, and their weights."""
    k = layer.output.row_axis
    sampling = None if k is None else _sampling(layer, k)
    if sampling is None or sampling.is_identity:
        return None
    taps, table, span = build_taps(sampling), row_table(sampling), slice(out.start, out.stop)
    first = table.input_rows(out).start
    found = [np.array((*taps.indices[:, span], table.starts[span], table.stops[span])) - first]
    found += [taps.outside[span], *(() if taps.weights is None else (taps.weights[:, span],))]
    return sha256(b"".join(part.tobytes() for part in found)).digest()


def _resize_aliases(layer: Layer) -> tuple[Alias, ...]:
    tensor = layer.inputs[0]
    same = all(_sampling(layer, axis).is_identity for axis in range(len(layer.output.shape)))
    return (Alias(AliasKind.VIEW, 0),) if same and tensor == _source(layer) else ()


_SHORT = 16
"""Elements behind each other below which a run of them takes longer than its products."""


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """One axis to be resampled, as the kernel sees it.

    place: dimension of the stored array. size: resized positions.
    chosen: what is read: for all resized positions their first tap, then for all the second, and so
        on.
    weights: (taps * size, 1), or as many equal ones as there are elements behind a position, in the type that is computed in;
        None for copies.
    outside: runs of resized positions that show the extrapolation value.
    """

    place: int
    size: int
    chosen: Selection
    weights: np.ndarray | None
    outside: tuple[Segment, ...]

    @classmethod
    def of(cls, place: int, taps: Taps, computing: np.dtype[Any], behind: int = 1) -> _Axis:
        """The axis with one weight per tap. behind: elements behind a position; of few of them, each has a weight of its own,
        so that products are not made in runs as short.
        """
        weights = None if taps.weights is None else taps.weights.reshape(-1, 1).astype(computing)
        if weights is not None and behind < _SHORT:
            weights = np.repeat(weights, behind, 1)
        return cls(
            place,
            taps.indices.shape[1],
            Selection.of(taps.indices.reshape(-1)),
            weights,
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
    """The taps of the row axis, if it is resampled, and the axes within the row, in order."""
    source = _source(layer)
    rows, found = None, []
    for axis in range(len(source.shape)):
        sampling = _sampling(layer, axis)
        if sampling.is_identity:
            continue
        if axis == source.row_axis:
            rows = build_taps(sampling)
            continue
        place = storage_axis(source, axis)
        others = {storage_axis(source, one): size for one, size in enumerate(source.shape)}
        behind = prod(size for at, size in others.items() if at > place)
        found.append(_Axis.of(place, build_taps(sampling), computing, behind))
    return rows, tuple(sorted(found, key=lambda axis: axis.place))


def _blended(
    source: np.ndarray, axis: _Axis, target: np.ndarray | None, scratch: Scratch, calls: list[Call]
) -> np.ndarray:
    """One axis by weighted neighbours, into `target` or the workspace."""
    indices, runs = axis.chosen.indices, axis.chosen.runs
    source = make_contiguous(source, scratch, calls)
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
    """Axes by one neighbour each: copies of regular runs, behind a gather along axes with many."""
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
    computing = np.dtype(accumulator_type(dtype))
    rows, within = _axes(layer, computing)
    blank = np.array(layer.attributes.get("extrapolation_value", 0.0)).astype(dtype)

    def emit(work: Work) -> list[Call]:
        slab, held, result = work.slab, work.held, work.result
        if not held:
            return [(np.copyto, (result, blank))]
        axes = within
        if rows is not None:
            axes = (_Axis.of(0, _rows_of(rows, work.phase.out, held), computing), *within)
        blended = [axis for axis in axes if axis.weights is not None]
        copied = [axis for axis in axes if axis.weights is None]
        calls: list[Call] = []
        current = _cast(slab, computing, work.scratch, calls) if blended else slab
        for axis in blended:
            ends = axis is blended[-1] and not copied and dtype == computing
            current = _blended(current, axis, result if ends else None, work.scratch, calls)
        if copied:
            current = _cast(current, dtype, work.scratch, calls)
            calls += _replicated(result, current, copied, work.scratch)
        elif current is not result:
            calls.append((np.copyto, (result, current)))
        for axis in axes:
            for run in axis.outside:
                calls.append((np.copyto, (cut(result, axis.place, run.source), blank)))
        return calls

    return emit


def resize_integers(layer: Layer) -> Emit:
    """The kernel on stored integers with positions in 1024ths: sums in float64 are exact, and ties go away from zero.

    Source: ResizeBilinearInteger in tensorflow/lite/kernels/internal/reference/resize_bilinear.h.
    """
    source, output = (
        replace(t, format=Format("float64")) for t in (layer.computed(0), layer.output)
    )
    inputs = (source, *layer.inputs[1:])
    inner = _resize_kernel(
        replace(layer, inputs=inputs, outputs=(output,), stored=None, epilogue=())
    )

    def emit(work: Work) -> list[Call]:
        values = work.scratch.take(work.slab.shape, "float64")
        sums, halves = (work.scratch.take(work.result.shape, "float64") for _ in range(2))
        return [
            (np.copyto, (values, work.slab)),
            *inner(replace(work, slabs=[values, *work.slabs[1:]], results=[sums])),
            (np.sign, (sums, halves)),
            (np.multiply, (halves, np.float64(0.5), halves)),
            (np.add, (sums, halves, sums)),
            (np.copyto, (work.result, sums, "unsafe")),
        ]

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
        pattern=_row_taps,
        row_kind=_row_kind,
        constant_inputs=frozenset(constants),
        attributes=MappingProxyType(attributes),
        structure="row-phased",
        notes="Nearest for all types; linear and cubic, with or without antialiasing, for floats.",
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


OPERATORS: tuple[Operator, ...] = (RESIZE, UPSAMPLE)


# Tables of taps ----------------------------------------------------------------------------------


MODES = ("nearest", "linear", "cubic")

_MULTIPLES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn")
"""Coordinates that do not depend on the length of an axis."""

_MOST = 64
"""Positions of the original in a turn, at most."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one axis of `length` positions becomes one of `resized`; the fields are the attributes of
    ONNX's Resize.

    scale: resized / length, or the factor that the size was computed from, which need not divide
        it.
    roi: the part of the original, 0 to 1, that tf_crop_and_resize resizes.
    precise: positions in float64, for float64 tensors.
    repeats: positions a turn apart have the same fraction.
    """

    length: int
    resized: int
    scale: float
    mode: str = "nearest"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    roi: tuple[float, float] = (0.0, 1.0)
    precise: bool = False
    repeats: bool = False

    @property
    def turn(self) -> Fraction | None:
        """The scale, if positions are multiples of it: its denominator is how many of them a turn has of the original, its
        numerator how many resized ones.
        """
        found = Fraction(self.scale).limit_denominator(_MOST)
        exact = np.float32(found) == np.float32(self.scale)
        return found if exact and self.coordinates in _MULTIPLES else None

    @property
    def is_identity(self) -> bool:
        """Whether the axis keeps every position.

        Where the size stays, onnxruntime resamples nothing at scale 1, not even a cropped region,
        and nothing at any scale if it antialiases.
        """
        return self.length == self.resized and (self.scale == 1 or self.antialias)


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """What every resized position reads.

    indices: (taps, resized) original positions, inside the axis.
    weights: (taps, resized), summing to 1 over the taps; None if there is one tap of weight 1.
    outside: (resized,) bool, positions outside the original that show the extrapolation value.
    """

    indices: np.ndarray
    weights: np.ndarray | None
    outside: np.ndarray


Position = Callable[[Sampling, np.ndarray], np.ndarray]


def _half_pixel(s: Sampling, x: np.ndarray) -> np.ndarray:
    return (x + x.dtype.type(0.5)) / x.dtype.type(s.scale) - x.dtype.type(0.5)


def _half_pixel_symmetric(s: Sampling, x: np.ndarray) -> np.ndarray:
    """Half pixels about the centre of the exact, fractional, output length."""
    adjustment = x.dtype.type(s.resized) / (x.dtype.type(s.scale) * x.dtype.type(s.length))
    offset = x.dtype.type(s.length / 2) * (x.dtype.type(1) - adjustment)
    exact = x.astype(np.float64)
    return (float(offset) + (exact + 0.5) / float(x.dtype.type(s.scale)) - 0.5).astype(x.dtype)


def _align_corners(s: Sampling, x: np.ndarray) -> np.ndarray:
    return x * x.dtype.type(s.length - 1) / x.dtype.type(max(s.resized - 1, 1))


def _crop_and_resize(s: Sampling, x: np.ndarray) -> np.ndarray:
    start, end = x.dtype.type(s.roi[0]), x.dtype.type(s.roi[1])
    last = x.dtype.type(s.length - 1)
    if s.resized == 1:
        return np.full_like(x, 0.5 * float(start + end) * float(last))
    return start * last + x * (end - start) * last / x.dtype.type(s.resized - 1)


COORDINATES: Mapping[str, Position] = MappingProxyType(
    {
        "half_pixel": _half_pixel,
        "half_pixel_symmetric": _half_pixel_symmetric,
        "pytorch_half_pixel": lambda s, x: _half_pixel(s, x) if s.resized > 1 else np.zeros_like(x),
        "align_corners": _align_corners,
        "asymmetric": lambda s, x: x / x.dtype.type(s.scale),
        "tf_half_pixel_for_nn": lambda s, x: (x + x.dtype.type(0.5)) / x.dtype.type(s.scale),
        "tf_crop_and_resize": _crop_and_resize,
    }
)
"""coordinate_transformation_mode -> original positions of resized positions (an array of floats).
"""


IN_1024THS = ", 1024ths"


def _in_1024ths(halves: bool = False, corners: bool = False) -> Position:
    """Positions by a step that is rounded to 1024ths."""

    def positions(s: Sampling, x: np.ndarray) -> np.ndarray:
        last = 1 if corners and s.resized > 1 else 0
        length, resized = s.length - last, s.resized - last
        step = ((length << 10) + resized // 2) // resized
        return ((x * step + (step // 2 - 512 if halves else 0)) / 1024).astype(x.dtype)

    return positions


ROUNDED: Mapping[str, Position] = MappingProxyType(
    {
        f"half_pixel{IN_1024THS}": _in_1024ths(halves=True),
        f"align_corners{IN_1024THS}": _in_1024ths(corners=True),
        f"asymmetric{IN_1024THS}": _in_1024ths(),
    }
)
"""The same of TensorFlow Lite's integers."""

TIE = 1e-6
"""Positions so near the middle of two neighbours count as the middle (onnxruntime 1.31)."""

ROUNDINGS: Mapping[str, Position] = MappingProxyType(
    {
        "round_prefer_floor": lambda s, x: np.floor(x) + (x - np.floor(x) > 0.5 + TIE),
        "round_prefer_ceil": lambda s, x: np.floor(x) + (x - np.floor(x) >= 0.5 - TIE),
        "floor": lambda s, x: np.floor(x),
        "ceil": lambda s, x: np.ceil(x),
        "simple": lambda s, x: np.ceil(x) if s.scale < 1 else np.floor(x),
    }
)
"""nearest_mode -> nearest position; "simple" is what Resize 10 and Upsample do."""


def _linear(s: Sampling, x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(s: Sampling, x: np.ndarray) -> np.ndarray:
    a, d = s.cubic_coefficient, np.abs(x)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


KERNELS: Mapping[str, tuple[int, Position]] = MappingProxyType(
    {"linear": (1, _linear), "cubic": (2, _cubic)}
)
"""mode -> (support on either side, weight of a neighbour at a distance)."""


@lru_cache(maxsize=256)
def build_taps(s: Sampling) -> Taps:
    """The table of taps of one axis.

    >>> build_taps(Sampling(2, 4, 2.0, "linear")).weights.tolist()
    [[0.25, 0.75, 0.25, 0.75], [0.75, 0.25, 0.75, 0.25]]
    """
    x = np.arange(s.resized, dtype=np.float64 if s.precise else np.float32)
    moved = np.zeros(s.resized, np.int64)
    if s.repeats and s.turn is not None:
        turns, x = np.divmod(x, x.dtype.type(s.turn.numerator))
        moved = turns.astype(np.int64) * s.turn.denominator
    position = {**COORDINATES, **ROUNDED}[s.coordinates](s, x)
    crops = s.coordinates == "tf_crop_and_resize"
    outside = (position < 0) | (position > s.length - 1) if crops else np.zeros(s.resized, bool)
    if s.mode == "nearest":
        nearest = ROUNDINGS[s.rounding](s, position) + moved
        return Taps(np.clip(nearest, 0, s.length - 1).astype(np.intp)[None], None, outside)
    # The kernel is stretched where antialiasing averages over the input positions of one output
    # position.
    support, kernel = KERNELS[s.mode]
    stretch = min(s.scale, 1.0) if s.antialias else 1.0
    first = int(np.floor(-support / stretch)) + 1
    offsets = np.arange(first, 2 - first)[:, None]
    base = np.floor(position)
    weights = kernel(s, ((offsets - (position - base)) * stretch).astype(x.dtype))
    indices = offsets + base.astype(np.int64) + moved
    if s.exclude_outside:
        weights = np.where((indices < 0) | (indices >= s.length), 0, weights)
    total = np.sum(weights, axis=0)
    weights = weights / np.where(total == 0, 1, total)
    used = np.any(weights != 0, axis=1)
    indices = np.clip(indices[used], 0, s.length - 1).astype(np.intp)
    weights = weights[used]
    return Taps(indices, None if len(weights) == 1 and np.all(weights == 1) else weights, outside)


@lru_cache(maxsize=256)
def row_table(s: Sampling) -> RowTable:
    """The row rule of the axis: rows of weight 0 are not read."""
    taps = build_taps(s)
    read = np.ones(taps.indices.shape, bool) if taps.weights is None else taps.weights != 0
    first = np.where(taps.outside, OUTSIDE, np.min(np.where(read, taps.indices, s.length), axis=0))
    last = np.where(taps.outside, OUTSIDE, np.max(np.where(read, taps.indices, OUTSIDE), axis=0))
    return RowTable.of(first.tolist(), last.tolist(), s.length)
