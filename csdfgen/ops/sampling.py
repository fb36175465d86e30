"""Maps read at places that are computed: GridSample, DeformConv, RoiAlign.

Sources: https://onnx.ai/onnx/operators/onnx__GridSample.html and the pages of the others. A place between elements is a
sum of the elements around it, its *taps*, with weights that follow from its distance along each axis. The map is a
table with a line of channels for each element, and every tap is a Gather of lines. Rows of the output need their own
places, and all of the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import check_shape, check_word, node_layer, output_elements
from csdfgen.ops.base import (
    REQUIRED,
    Call,
    Emit,
    Operator,
    Work,
    require_constant,
    require_tensor,
    whole_rows,
)
from csdfgen.ops.composing import Composition, Operand, composed_operator, require
from csdfgen.ops.copies import make_contiguous
from csdfgen.ops.indexing import order_axes
from csdfgen.ops.primitives import align_regions
from csdfgen.ops.reducing import FLOATS, data_input
from csdfgen.ops.windows import WINDOW, list_windows, output_length, window_attributes

Results = Iterable[Operand | None]

_BOOL, _INT64, _FLOATS = 9, 7, {"float16": 10, "float32": 1, "float64": 11}
"""The element type, as Cast names it."""


@dataclass(frozen=True, slots=True)
class _Tap:
    """An element along an axis: its index, int64, within the axis, and its weight; None: 1."""

    index: Operand
    weight: Operand | None


Padding = Callable[["_Places", Operand, int], tuple[Operand, Operand | None]]
"""(calls, integers as floats, length of the axis) -> the indices (int64) of elements there, and which of them are inside
of the map; None: all.
"""


@dataclass(frozen=True, slots=True)
class _Places:
    """Calls on numbers of one type."""

    make: Composition
    dtype: str

    def number(self, value: float) -> np.ndarray:
        return np.array(value, self.dtype)

    def plus(self, x: Operand, value: float) -> Operand:
        return x if value == 0 else self.make("Add", x, self.number(value))

    def times(self, x: Operand, value: float) -> Operand:
        return x if value == 1 else self.make("Mul", x, self.number(value))

    def clipped(self, x: Operand, length: int) -> Operand:
        """Indices within an axis."""
        inside = self.make("Clip", x, self.number(0), self.number(length - 1))
        return self.make("Cast", inside, to=_INT64)

    # what is read outside of a map

    def nothing(self, x: Operand, length: int) -> tuple[Operand, Operand | None]:
        """Zeros."""
        below = self.make("GreaterOrEqual", x, self.number(0))
        above = self.make("LessOrEqual", x, self.number(length - 1))
        return self.clipped(x, length), self.make("And", below, above)

    def border(self, x: Operand, length: int) -> tuple[Operand, Operand | None]:
        """The nearest element."""
        return self.clipped(x, length), None

    def mirrored(self, x: Operand, length: int) -> tuple[Operand, Operand | None]:
        """What is as far inside, from the edge of the last element."""
        return self._folded(x, 2 * length, 2 * length - 1), None

    def mirrored_at_centres(self, x: Operand, length: int) -> tuple[Operand, Operand | None]:
        """What is as far inside, from the centre of the last element."""
        if length == 1:
            return self.border(x, length)
        return self._folded(x, 2 * (length - 1), 2 * (length - 1)), None

    def _folded(self, x: Operand, period: int, end: int) -> Operand:
        make = self.make
        far = float(2**40)  # beyond, floats are no integers any more
        whole = make("Cast", make("Clip", x, self.number(-far), self.number(far)), to=_INT64)
        within = make("Mod", whole, np.array(period))
        return make("Min", within, make("Sub", np.array(end), within))

    # taps along an axis

    def taps(self, x: Operand, kind: str, length: int, padding: Padding) -> list[_Tap]:
        """The elements around places along an axis, with their weights."""
        make = self.make
        if kind == "nearest":
            return [self._tap(make("Round", x), None, length, padding)]
        first = make("Floor", x)
        rest = make("Sub", x, first)
        offsets: tuple[int, ...] = (0, 1)
        if kind == "linear":
            weights = [make("Sub", self.number(1), rest), rest]
        else:
            weights = [self._cubic(rest, k) for k in range(4)]
            offsets = (-1, 0, 1, 2)
        return [
            self._tap(self.plus(first, offset), weight, length, padding)
            for offset, weight in zip(offsets, weights, strict=True)
        ]

    def _tap(self, x: Operand, weight: Operand | None, length: int, padding: Padding) -> _Tap:
        index, inside = padding(self, x, length)
        if inside is None:
            return _Tap(index, weight)
        one = self.number(1) if weight is None else weight
        return _Tap(index, self.make("Where", inside, one, self.number(0)))

    def _cubic(self, x: Operand, k: int) -> Operand:
        """Keys's convolution with a = -0.75 at the distance |x + 1 - k|, by Horner's rule."""
        distance = self.plus(x, 1 - k) if k < 2 else self.make("Sub", self.number(k - 1), x)
        a = -0.75
        near = k in (1, 2)
        outer: tuple[float, ...] = (a, -5 * a, 8 * a, -4 * a)
        coefficients = (a + 2, -(a + 3), 0, 1) if near else outer
        found = self.times(distance, coefficients[0])
        for value in coefficients[1:-1]:
            found = self.make("Mul", self.plus(found, value), distance)
        return self.plus(found, coefficients[-1])


def _table(make: Composition, x: Operand) -> Operand:
    """A map, (images, channels, *spatial), as a line of channels for each element."""
    rank = len(x.shape)
    last = make.turned(x, (0, *range(2, rank), 1))
    return make.reshaped(last, (prod(last.shape[:-1]), x.shape[1]))


def _read(
    make: Composition, x: Operand, axes: Sequence[Sequence[_Tap]], images: Operand | None
) -> list[Operand]:
    """Of each combination of taps the weighted lines at it: shape of the places, then channels.

    images: the image that each place is in, broadcastable with the places; None: there is one.
    """
    table, spatial = _table(make, x), x.shape[2:]
    found = []
    for taps in product(*axes):
        index, weight = images, None
        for tap, size in zip(taps, spatial, strict=True):
            if index is not None:
                index = make("Add", make("Mul", index, np.array(size)), tap.index)
            else:
                index = tap.index
            if weight is None:
                weight = tap.weight
            elif tap.weight is not None:
                weight = make("Mul", weight, tap.weight)
        assert index is not None
        lines = make("Gather", table, index, axis=0)
        if weight is not None:
            lines = make("Mul", lines, make.reshaped(weight, (*weight.shape, 1)))
        found.append(lines)
    return found


def _sum(make: Composition, parts: Sequence[Operand]) -> Operand:
    return parts[0] if len(parts) == 1 else make("Sum", *parts)


def _images(count: int, rank: int) -> np.ndarray | None:
    """The number of the image of each place whose first axis is that of images."""
    return None if count == 1 else np.arange(count, dtype=np.int64).reshape(-1, *(1,) * (rank - 1))


# GridSample ---------------------------------------------------------------------------------------

_MODES = MappingProxyType(
    {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic"}
    | {"nearest": "nearest"}
)
"""Names of the modes, before opset 20 and from there on -> what they mean."""


def _grid_sample(make: Composition, node: Node) -> Results:
    x, grid = require_tensor(node, 0), require(node, 1)
    rank = len(x.shape) - 2
    if rank not in (2, 3) or tuple(grid.shape[:1] + grid.shape[-1:]) != (x.shape[0], rank):
        raise ModelError(
            f"input of shape {list(x.shape)} with a grid of shape {list(grid.shape)}; it takes maps of 2 or 3 axes, "
            "and "
            "as many coordinates for each place of each image"
        )
    name = check_word(node.attributes.get("mode", "linear"), "mode", tuple(_MODES))
    if _MODES[name] == "cubic" and rank == 3:
        raise ModelError(f"mode='{name}' of maps of 3 axes is not defined")
    aligned = bool(node.attributes.get("align_corners", 0))
    words = ("zeros", "border", "reflection")
    outside = check_word(node.attributes.get("padding_mode", "zeros"), "padding_mode", words)
    reflected = _Places.mirrored_at_centres if aligned else _Places.mirrored
    padding = {"zeros": _Places.nothing, "border": _Places.border}.get(outside, reflected)
    places = _Places(make, x.dtype)
    axes = []
    for axis, length in enumerate(x.shape[2:]):
        part = make.part(grid, rank + 1, rank - 1 - axis, rank - axis)
        at = places.plus(make.reshaped(part, grid.shape[:-1]), 1)
        if aligned:
            at = places.times(at, (length - 1) / 2)
        else:
            at = places.plus(places.times(at, length / 2), -0.5)
        axes.append(places.taps(at, _MODES[name], length, padding))
    lines = _sum(make, _read(make, x, axes, _images(x.shape[0], rank + 1)))
    return [make.turned(lines, (0, rank + 1, *range(1, rank + 1)))]


# DeformConv ---------------------------------------------------------------------------------------


def _deformed(make: Composition, node: Node) -> Results:
    """A convolution whose taps are moved, one by one and at each position, and weighted by a mask."""
    x, weights, offsets = require_tensor(node, 0), require_constant(node, 1), require(node, 2)
    bias, mask = node.operand(3), node.operand(4)
    if len(x.shape) != 4 or weights.ndim != 4:
        raise ModelError(
            f"input of shape {list(x.shape)}; it takes (images, channels, rows, columns)"
        )
    images, channels = x.shape[:2]
    group, many = (int(node.attributes.get(k, 1)) for k in ("group", "offset_group"))
    kernel, spatial = weights.shape[2:], x.shape[2:]
    count, outputs = prod(kernel), weights.shape[0]
    windows = list_windows(window_attributes(node, kernel, spatial))
    sizes = [output_length(w, n) for w, n in zip(windows, spatial, strict=True)]
    wanted = {
        "offset": (offsets, (images, many * count * 2, *sizes)),
        "mask": (mask, (images, many * count, *sizes)),
        "bias": (bias, (outputs,)),
    }
    if group < 1 or many < 1 or channels % many or outputs % group:
        raise ModelError(f"group={group}, offset_group={many} do not divide the channels")
    if weights.shape[1] * group != channels:
        raise ModelError(f"weights of shape {list(weights.shape)} for {channels} channels")
    for name, (operand, shape) in wanted.items():
        if operand is not None and tuple(operand.shape) != shape:
            raise ModelError(f"{name} of shape {list(operand.shape)}, {list(shape)} is needed")
    moved = make.reshaped(offsets, (images, many, count, 2, *sizes))
    places, each = _Places(make, x.dtype), channels // many
    columns = []
    for number in range(many):
        axes = []
        own = make.part(moved, 1, number, number + 1)
        for axis, (window, size) in enumerate(zip(windows, sizes, strict=True)):
            part = make.reshaped(make.part(own, 3, axis, axis + 1), (images, count, *sizes))
            taps = np.indices(kernel)[axis].reshape(-1) * window.dilation
            start = (np.arange(size) * window.stride - window.pad_top).reshape(
                -1, *(1,) * (2 - axis)
            )
            at = make("Add", make.turned(part, (0, 2, 3, 1)), (start + taps).astype(x.dtype))
            axes.append(places.taps(at, "linear", spatial[axis], _Places.nothing))
        source = make.part(x, 1, number * each, (number + 1) * each) if many > 1 else x
        lines = _sum(make, _read(make, source, axes, _images(images, 4)))
        if mask is not None:
            of_mask = make.part(mask, 1, number * count, (number + 1) * count)
            turned = make.turned(of_mask, (0, 2, 3, 1))
            lines = make("Mul", lines, make.reshaped(turned, (*turned.shape, 1)))
        columns.append(lines)
    # (images, rows, columns, taps, channels)
    whole = columns[0] if many == 1 else make("Concat", *columns, axis=4)
    parts = []
    for number in range(group):
        own_weights = np.split(weights, group)[number]
        matrix = own_weights.transpose(2, 3, 1, 0).reshape(-1, outputs // group)
        few = channels // group
        read = make.part(whole, 4, number * few, (number + 1) * few) if group > 1 else whole
        parts.append(make("MatMul", make.reshaped(read, (images, *sizes, count * few)), matrix))
    total = parts[0] if group == 1 else make("Concat", *parts, axis=3)
    if bias is not None:
        total = make("Add", total, bias)
    return [make.turned(total, (0, 3, 1, 2))]


# RoiAlign -----------------------------------------------------------------------------------------


def _build_regions(node: Node) -> Layer:
    x, regions, images = data_input(node, FLOATS), require(node, 1), require(node, 2)
    if len(x.shape) != 4 or len(regions.shape) != 2 or regions.shape[1] != 4:
        raise ModelError(
            f"input of shape {list(x.shape)} and regions of shape {list(regions.shape)}; 4 axes, and 4 numbers a "
            "region are needed"
        )
    if tuple(images.shape) != regions.shape[:1] or str(regions.dtype) != x.dtype:
        raise ModelError(
            f"{list(images.shape)} numbers of images for {regions.shape[0]} regions of {regions.dtype}"
        )
    read = partial(ROI_ALIGN.attribute, node)
    kind = check_word(read("mode"), "mode", ("avg", "max"))
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    name, words = "coordinate_transformation_mode", ("half_pixel", "output_half_pixel")
    half = check_word(read(name) or default, name, words) == "half_pixel"
    bins = check_shape((int(read("output_height")), int(read("output_width"))))
    attributes = {
        "bins": bins,
        "half": half,
        "maxima": kind == "max",
        "samples": max(0, int(read("sampling_ratio"))),
        "scale": float(read("spatial_scale")),
    }
    output = Tensor(node.outputs[0], (regions.shape[0], x.shape[1], *bins), x.format, 2)
    return node_layer(node, (x, regions, images), (output,), attributes)


def _align(layer: Layer) -> Emit:
    given = {k: np.ascontiguousarray(one) for k, one in layer.constants.items()}
    settings = [layer.attributes[name] for name in ("samples", "maxima", "half", "scale")]

    def emit(work: Work) -> list[Call]:
        calls: list[Call] = []
        regions, images = (
            given[k]
            if k in given
            else make_contiguous(order_axes(layer, work, k), work.scratch, calls)
            for k in (1, 2)
        )
        x, out = order_axes(layer, work, 0), layer.output.to_onnx(work.result)
        first = work.phase.out.start
        placed = x, regions, images, layer.attributes["bins"], first, *settings, out
        return [*calls, (align_regions, placed)]

    return emit


def _align_cost(layer: Layer, out: Rows) -> int:
    places = max(1, layer.attributes["samples"]) ** 2
    return 4 * places * output_elements(layer, out)


def _pooled_regions(make: Composition, node: Node) -> Results:
    """MaxRoiPool: maxima over the elements of each bin, first along the rows, then along the columns."""
    x, regions = require_tensor(node, 0), require(node, 1)
    if len(x.shape) != 4 or len(regions.shape) != 2 or regions.shape[1] != 5:
        raise ModelError(
            f"input of shape {list(x.shape)} and regions of shape {list(regions.shape)}; 4 axes, and 5 numbers a "
            "region "
            "are needed"
        )
    places, count = _Places(make, x.dtype), regions.shape[0]
    pooled = tuple(map(int, node.attributes["pooled_shape"]))
    if len(pooled) != 2 or min(pooled) < 1:
        raise ModelError(f"pooled_shape={list(pooled)}; two numbers above 0 are needed")
    scaled = places.times(regions, float(node.attributes.get("spatial_scale", 1.0)))
    # halves away from 0, where Round goes to the even number
    upwards = make("Floor", places.plus(make("Abs", scaled), 0.5))
    corners = make("Mul", make("Sign", scaled), upwards)
    found: Operand = x
    if x.shape[0] > 1:
        images = make.reshaped(make("Cast", make.part(regions, 1, 0, 1), to=_INT64), (count,))
        found = make("Gather", x, images, axis=0)
    for axis, (bins, length) in enumerate(zip(pooled, x.shape[2:], strict=True)):
        first, last = (make.part(corners, 1, k, k + 1) for k in (2 - axis, 4 - axis))
        size = make("Max", places.plus(make("Sub", last, first), 1), places.number(1))
        wide = make("Div", size, places.number(bins))
        numbers = np.arange(bins, dtype=x.dtype)
        edges = [
            make.reshaped(
                make("Add", make(name, make("Mul", wide, numbers + step)), first), (count, bins, 1)
            )
            for name, step in (("Floor", 0), ("Ceil", 1))
        ]
        at = np.arange(length, dtype=x.dtype)
        inside = make("And", make("GreaterOrEqual", at, edges[0]), make("Less", at, edges[1]))
        some = make("ReduceMax", make("Cast", inside, to=_FLOATS[x.dtype]), np.array([2]))
        # (regions, channels, bins or rows, bins of columns, elements)
        before, after = ((), (1,)) if axis == 0 else ((1,), ())
        mask = make.reshaped(inside, (count, 1, *before, bins, length, *after))
        own = make.reshaped(found, (*found.shape[: 2 + axis], 1, *found.shape[2 + axis :]))
        masked = make("Where", mask, own, places.number(-np.inf))
        best = make("ReduceMax", masked, np.array([3 + axis], np.int64), keepdims=0)
        there = make.reshaped(make("Cast", some, to=_BOOL), (count, 1, *before, bins, *after))
        found = make("Where", there, best, places.number(0))
    return [found]


# The table ----------------------------------------------------------------------------------------

_NOTES = "Output rows need the whole input."

ROI_ALIGN = Operator(
    "RoiAlign",
    build=_build_regions,
    input_rows=whole_rows,
    kernel=_align,
    cost=_align_cost,
    since=10,
    attributes=MappingProxyType(
        {
            "coordinate_transformation_mode": None,
            "mode": "avg",
            "output_height": 1,
            "output_width": 1,
            "sampling_ratio": 0,
            "spatial_scale": 1.0,
        }
    ),
    notes=_NOTES,
)

OPERATORS: tuple[Operator, ...] = (
    composed_operator(
        "GridSample",
        _grid_sample,
        since=16,
        attributes={"align_corners": 0, "mode": "linear", "padding_mode": "zeros"},
        notes=_NOTES,
    ),
    composed_operator(
        "DeformConv",
        _deformed,
        since=19,
        attributes={**WINDOW, "group": 1, "offset_group": 1},
        constant_inputs=(1, 3),
        notes=_NOTES,
        multiplies=True,
    ),
    composed_operator(
        "MaxRoiPool",
        _pooled_regions,
        since=7,
        attributes={"pooled_shape": REQUIRED, "spatial_scale": 1.0},
        notes=f"{_NOTES} Each row of bins in a slab reads it once.",
    ),
    ROI_ALIGN,
)
