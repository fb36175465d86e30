"""Conv and ConvTranspose: which rows does a convolution need, and how is a slab of them computed?

Sources: https://onnx.ai/onnx/operators/onnx__Conv.html,
https://onnx.ai/onnx/operators/onnx__ConvTranspose.html; the row rule is that of docs/model.md.
One to three spatial axes, of which the first carries the rows; images of a batch are convolved
one by one.

A transposed convolution gathers what an output pixel reads, instead of scattering what an input pixel
adds: the output pixels of one residue modulo the strides have the same taps, so that they are an ordinary
convolution of stride 1, and an output row is written once, by its phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.files import find_mapped_file
from csdfgen.model.formats import Format, accumulator_type
from csdfgen.model.network import Layer, Node, Shape, Tensor, memoize_layer
from csdfgen.model.rows import Rows, Window
from csdfgen.ops._depthwise_products import depthwise_products, tile_weights
from csdfgen.ops._im2col import Axis, Into, Job
from csdfgen.ops._operands import first_input_rows, node_layer
from csdfgen.ops._window_products import matrix_products
from csdfgen.ops.base import (
    Call,
    Emit,
    Mode,
    Operator,
    Scratch,
    Takes,
    Work,
    accumulator_format,
    require_constant,
    require_tensor,
)
from csdfgen.ops.reducing import FLOATS
from csdfgen.ops.spread import Spread, Stack
from csdfgen.ops.windows import WINDOW, list_windows, read_rows, window_attributes

ROW_AXIS = 2

# --- nodes -------------------------------------------------------------------------------------


def _operands(node: Node) -> tuple[Tensor, np.ndarray, np.ndarray | None]:
    """Input, weights and bias, checked for all that both operators share."""
    x = require_tensor(node, 0)
    weights = require_constant(node, 1)
    bias = None if node.operand(2) is None else require_constant(node, 2)
    if x.dtype not in FLOATS:
        raise ModelError(f"dtype {x.dtype} is not one of {', '.join(FLOATS)}")
    for name, array in (("weights", weights), ("bias", bias)):
        if array is not None and array.dtype != x.dtype:
            raise ModelError(
                f"{name} are {array.dtype}, the input is {x.dtype}; they must be the same"
            )
    _check_shapes(x, weights)
    return x, weights, bias


def _check_shapes(x: Tensor, weights: np.ndarray) -> None:
    if not 3 <= len(x.shape) <= 5:
        raise ModelError(
            f"input of rank {len(x.shape)}; convolutions of rank 3, 4 and 5 (1-D to 3-D) are supported"
        )
    if weights.ndim != len(x.shape):
        raise ModelError(f"weights of rank {weights.ndim} for an input of rank {len(x.shape)}")
    if 0 in x.shape or 0 in weights.shape:
        raise ModelError(f"empty operands: input {x.shape}, weights {weights.shape}")


def _attributes(operator: Operator, node: Node, x: Tensor, weights: np.ndarray) -> dict[str, Any]:
    """Group and window attributes, complete; the kernel's shape is that of the weights."""
    kernel = weights.shape[2:]
    declared = operator.attribute(node, "kernel_shape")
    if declared is not None and tuple(declared) != kernel:
        raise ModelError(f"kernel_shape={list(declared)} but the weights are {list(kernel)}")
    group = int(operator.attribute(node, "group"))
    if group < 1 or x.shape[1] % group:
        raise ModelError(f"group={group} does not divide the {x.shape[1]} input channels")
    return {**window_attributes(node, kernel, x.shape[2:], crops=operator is CONV), "group": group}


def _layer(
    node: Node,
    x: Tensor,
    weights: np.ndarray,
    bias: np.ndarray | None,
    attributes: Mapping[str, Any],
    channels: int,
    sizes: Sequence[int],
    stored: Format | None = None,
) -> Layer:
    if min(sizes) < 1:
        raise ModelError(
            f"the output would be {[*sizes]}: windows of {attributes['kernel_shape']} do not fit {x.shape[2:]}"
        )
    if bias is not None and bias.shape != (channels,):
        raise ModelError(f"bias of shape {bias.shape} for {channels} output channels")
    output = Tensor(node.outputs[0], (x.shape[0], channels, *sizes), stored or x.format, ROW_AXIS)
    return node_layer(node, (x, weights, bias), (output,), attributes, (ROW_AXIS, None, None))


# --- Conv ---------------------------------------------------------------------------------------


def _build_conv(node: Node) -> Layer:
    x, weights, bias = _operands(node)
    return conv_layer(node, x, weights, bias)


def conv_layer(
    node: Node,
    x: Tensor,
    weights: np.ndarray,
    bias: np.ndarray | None,
    stored: Format | None = None,
) -> Layer:
    """The layer of a node that convolves x with weights, inputs and constants where a Conv has them.

    stored: format of the output, where it is not the input's. Raises ModelError.
    """
    _check_shapes(x, weights)
    attributes = _attributes(CONV, node, x, weights)
    group = attributes["group"]
    if weights.shape[1] * group != x.shape[1]:
        raise ModelError(
            f"weights take {weights.shape[1]} channels in {group} groups, the input has {x.shape[1]}"
        )
    if weights.shape[0] % group:
        raise ModelError(f"group={group} does not divide the {weights.shape[0]} output channels")
    sizes = [
        (size + w.pad_top + w.pad_bottom - w.extent) // w.stride + 1
        for size, w in zip(x.shape[2:], list_windows(attributes), strict=True)
    ]
    return _layer(
        node, x, _channels_last(weights), bias, attributes, weights.shape[0], sizes, stored
    )


def _channels_last(weights: np.ndarray) -> np.ndarray:
    """The same weights (out, in, kernel...) stored as (kernel..., in, out), as matrix products read
    them.

    Elementwise arithmetic (a folded BatchNormalization) keeps this order, so that packing need not
    copy. Weights of a mapped file stay as they are there.
    """
    if find_mapped_file(weights) is not None:
        return weights
    stored = np.ascontiguousarray(np.moveaxis(weights, (0, 1), (-1, -2)))
    return np.moveaxis(stored, (-1, -2), (0, 1))


@memoize_layer
def window(layer: Layer) -> Window:
    """The sliding window of a Conv layer along its rows."""
    return list_windows(layer.attributes)[0]


def _conv_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return first_input_rows(layer, read_rows(window(layer), out, layer.computed(0).shape[ROW_AXIS]))


@memoize_layer
def _conv_mode(layer: Layer) -> Mode:
    """One output row of several input rows is a sum over them: a disguised fully connected layer."""
    rows = window(layer)
    sums_rows = layer.output.rows == 1 and rows.kernel > 1 and rows.pad_top == rows.pad_bottom == 0
    return Mode.ACCUMULATE if sums_rows else Mode.ROWS


def _conv_cost(layer: Layer, out: Rows) -> int:
    """Multiply-accumulates."""
    return len(out) * layer.output.row_elements * prod(layer.constants[1].shape[1:])


def _conv_kernel(layer: Layer) -> Emit:
    return conv_kernel(
        layer, layer.constants[1], _bias(layer), accumulator_type(layer.output.dtype)
    )


def conv_kernel(
    layer: Layer,
    weights: np.ndarray,
    bias: np.ndarray | None,
    dtype: str,
    beside: float = 0,
    into: Into | None = None,
    deepest: int = 0,
) -> Emit:
    """The kernel of a layer whose windows are those of a Conv.

    weights: (out, in / group, kernel...). bias: (out,), of the type that is computed in. beside,
    into, deepest: see `Job`; of sums that are complete, so not of a layer that accumulates; deepest not of one
    whose channels stay apart.
    """
    rows, *inner = (
        Axis(count, -w.pad_top, w.stride, w.kernel, w.dilation)
        for count, w in zip(layer.output.shape[2:], list_windows(layer.attributes), strict=True)
    )
    arithmetic = _Arithmetic.of(layer, dtype)
    packed = arithmetic.pack(_by_group(layer, weights).swapaxes(1, 2))
    accumulates = _conv_mode(layer) is Mode.ACCUMULATE

    def emit(work: Work) -> list[Call]:
        slab, held = work.slab, work.held
        row = rows.part(work.phase.out.start, work.phase.out.stop).moved(held.start)
        own, starts = packed, True
        if accumulates:
            # of the one window, the taps that meet the rows at hand
            taps, starts = row.reached(len(held)), work.phase.first
            row, own = row.through(*taps), arithmetic.rows_of(packed, *taps)
        axes = _two_axes(row, *inner)
        if work.phase.images > 1:
            axes, own = (Axis(work.phase.images, 0), *axes), arithmetic.of_images(own)
        jobs = [
            Job(axes, image, own, out, bias if starts else None, not starts, beside, into, deepest)
            for image, out in zip(
                _images(slab, len(inner) + 1), _results(work.result, len(axes)), strict=True
            )
        ]
        return arithmetic.products(jobs, work.scratch)

    return emit


# --- what both kernels share --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """How weights meet windows: channels apart in depthwise layers, else as matrix products."""

    depthwise: bool
    axes: int
    width: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, layer: Layer, dtype: str) -> _Arithmetic:
        depthwise = (
            1 < layer.attributes["group"] == layer.computed(0).shape[1] == layer.output.shape[1]
        )
        return cls(depthwise, len(layer.output.shape) - 2, layer.output.shape[-1], np.dtype(dtype))

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """(group, in, out, kernel...) of every group, as `products` takes them."""
        if self.axes == 1:
            weights = weights[..., None]
        if self.depthwise:
            return tile_weights(np.moveaxis(weights[:, 0, 0], 0, -1).astype(self.dtype), self.width)
        return np.ascontiguousarray(np.moveaxis(weights, (1, 2), (-2, -1)), self.dtype)

    def rows_of(self, packed: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Taps [start, stop) along the rows, of packed weights."""
        behind = max(self.axes - 1, 1) + (1 if self.depthwise else 2)
        return packed[(..., slice(start, stop)) + (slice(None),) * behind]

    def of_images(self, packed: np.ndarray) -> np.ndarray:
        """Packed weights for jobs whose first axis is images."""
        return packed[None] if self.depthwise else packed[:, None]

    @property
    def products(self) -> Callable[[Iterable[Job], Scratch], list[Call]]:
        return depthwise_products if self.depthwise else matrix_products


def _bias(layer: Layer) -> np.ndarray | None:
    if 2 not in layer.constants:
        return None
    return layer.constants[2].astype(accumulator_type(layer.output.dtype), copy=False)


def _joins(layer: Layer, images: int) -> bool:
    return layer.output.shape[0] == 1


def _by_group(layer: Layer, weights: np.ndarray) -> np.ndarray:
    """Weights (a, b, kernel...) as (group, a / group, b, kernel...)."""
    return weights.reshape(layer.attributes["group"], -1, *weights.shape[1:])


def _two_axes(*axes: Axis) -> tuple[Axis, ...]:
    """At least two axes, as `Job` has them: a signal is an image one pixel wide."""
    return axes if len(axes) > 1 else (*axes, Axis(1, 0))


def _results(array: np.ndarray, axes: int) -> Iterator[np.ndarray]:
    """Every image (rows, ..., C) of a slab (rows, ..., N, C), of so many axes and C; a signal (rows, C) as
    an image one pixel wide.
    """
    for n in range(array.shape[-2]):
        image = array[..., n, :]
        yield image if image.ndim > axes else image[..., None, :]


def _images(slab: np.ndarray | Stack, axes: int) -> Iterator[Spread | Stack]:
    """The same of a slab that is read, with rows at any addresses. axes: of a signal 1."""
    spread = slab if isinstance(slab, Stack) else Spread.of(slab)
    for n in range(spread.shape[-2]):
        cell = (..., slice(None)) if axes > 1 else (..., None, slice(None))
        yield spread.each(lambda array: array[..., n, :][cell])  # noqa: B023


# --- ConvTranspose ------------------------------------------------------------------------------


def _build_transpose(node: Node) -> Layer:
    x, weights, bias = _operands(node)
    attributes = _attributes(CONV_TRANSPOSE, node, x, weights)
    if weights.shape[0] != x.shape[1]:
        raise ModelError(f"weights take {weights.shape[0]} channels, the input has {x.shape[1]}")
    windows = list_windows(attributes)
    count = len(windows)
    surplus = _sizes(node, "output_padding", count, least=0) or (0,) * count
    natural = [
        (size - 1) * w.stride + extra + w.extent
        for size, w, extra in zip(x.shape[2:], windows, surplus, strict=True)
    ]
    sizes = _sizes(node, "output_shape", count, least=1)
    mode = CONV_TRANSPOSE.attribute(node, "auto_pad")
    if sizes is None and mode.startswith("SAME"):
        # SAME only ever pads: without overlap the natural size stays
        sizes = tuple(
            min(size * w.stride, whole)
            for size, w, whole in zip(x.shape[2:], windows, natural, strict=True)
        )
    if sizes is None:
        sizes = tuple(
            whole - w.pad_top - w.pad_bottom for whole, w in zip(natural, windows, strict=True)
        )
    else:
        # the size is given, the padding follows from it
        surplus = tuple(max(0, whole - size) for whole, size in zip(natural, sizes, strict=True))
        begins = tuple(total // 2 if mode == "SAME_UPPER" else -(-total // 2) for total in surplus)
        attributes["pads"] = (
            *begins,
            *(total - begin for total, begin in zip(surplus, begins, strict=True)),
        )
    return _layer(node, x, weights, bias, attributes, weights.shape[1] * attributes["group"], sizes)


def _sizes(node: Node, name: str, count: int, *, least: int) -> Shape | None:
    """An attribute with an integer per spatial axis (the last of a whole shape), None if absent."""
    values = CONV_TRANSPOSE.attribute(node, name)
    if not values:
        return None
    if len(values) not in (count, count + 2) or min(values) < least:
        raise ModelError(f"{name}={list(values)} must be {count} integers of at least {least}")
    return tuple(int(v) for v in values[-count:])


def _transpose_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    """Input row i reaches output rows i*s - p to i*s - p + (k-1)*d; [a, b) needs those that reach
    into it.

    Exact for dilation 1. With holes, a row may be claimed that only neighbouring output rows read.
    """
    w, height = list_windows(layer.attributes)[0], layer.computed(0).shape[ROW_AXIS]
    if not out:
        return first_input_rows(layer, Rows(0, 0))
    start = -(-(out.start + w.pad_top - w.extent + 1) // w.stride)
    stop = (out.stop - 1 + w.pad_top) // w.stride + 1
    low = min(max(0, start), height)
    return first_input_rows(layer, Rows(low, max(low, min(height, stop))))


def _transpose_cost(layer: Layer, out: Rows) -> int:
    """Multiply-accumulates: of an output pixel's taps, one in every stride meets an input pixel."""
    weights, attributes = layer.constants[1], layer.attributes
    per_pixel = weights.shape[0] // attributes["group"] * prod(weights.shape[2:])
    return max(1, len(out) * layer.output.row_elements * per_pixel // prod(attributes["strides"]))


@dataclass(frozen=True, slots=True)
class _Residues:
    """An axis transposed: output o reads tap j of input i if i*stride - pad + j*dilation == o."""

    stride: int
    pad: int
    kernel: int
    dilation: int

    @property
    def classes(self) -> dict[int, tuple[int, ...]]:
        """Residue of o + pad modulo the stride -> its taps, those of earlier input first; residues
        without taps left out.
        """
        found: dict[int, tuple[int, ...]] = {}
        for j in reversed(range(self.kernel)):
            residue = j * self.dilation % self.stride
            found[residue] = (*found.get(residue, ()), j)
        return found

    def outputs(
        self, residue: int, taps: Sequence[int], start: int, stop: int
    ) -> tuple[slice, Axis] | None:
        """Which of the outputs [start, stop) have a residue, and what they read; None if none has."""
        first = start + (residue - start - self.pad) % self.stride
        if first >= stop:
            return None
        count = -(-(stop - first) // self.stride)
        read = (first + self.pad - taps[0] * self.dilation) // self.stride
        dilation = self.dilation // gcd(self.dilation, self.stride)
        return slice(first - start, stop - start, self.stride), Axis(
            count, read, 1, len(taps), dilation
        )


def _transpose_kernel(layer: Layer) -> Emit:
    axes = [
        _Residues(w.stride, w.pad_top, w.kernel, w.dilation) for w in list_windows(layer.attributes)
    ]
    arithmetic = _Arithmetic.of(layer, accumulator_type(layer.output.dtype))
    bias, by_group = _bias(layer), _by_group(layer, layer.constants[1])
    classes = [
        (residues, [axis.classes[r] for axis, r in zip(axes, residues, strict=True)])
        for residues in product(*(axis.classes for axis in axes))
    ]
    packed = [arithmetic.pack(by_group[(slice(None),) * 3 + np.ix_(*taps)]) for _, taps in classes]
    unreached = any(len(axis.classes) < axis.stride for axis in axes)

    def emit(work: Work) -> list[Call]:
        slab, held = work.slab, work.held
        ranges = [
            (work.phase.out.start, work.phase.out.stop),
            *((0, size) for size in layer.output.shape[3:]),
        ]
        jobs = []
        for (residues, taps), weights in zip(classes, packed, strict=True):
            parts = [
                a.outputs(r, t, *ab)
                for a, r, t, ab in zip(axes, residues, taps, ranges, strict=True)
            ]
            found = [part for part in parts if part is not None]
            if len(found) < len(parts):
                continue
            (_, row), *_ = found
            read = _two_axes(row.moved(held.start), *(axis for _, axis in found[1:]))
            target = work.result[tuple(where for where, _ in found)]
            jobs += [
                Job(read, i, weights, o, bias)
                for i, o in zip(_images(slab, len(axes)), _results(target, 2), strict=True)
            ]
        calls: list[Call] = []
        if unreached:
            calls.append(
                (work.result.fill, (0,)) if bias is None else (np.copyto, (work.result, bias))
            )
        return calls + arithmetic.products(jobs, work.scratch)

    return emit


# --- the records --------------------------------------------------------------------------------

_ATTRIBUTES = {**WINDOW, "auto_pad": "NOTSET", "group": 1}

CONV = Operator(
    op_type="Conv",
    multiplies=True,
    build=_build_conv,
    input_rows=_conv_rows,
    kernel=_conv_kernel,
    cost=_conv_cost,
    mode=_conv_mode,
    state=accumulator_format,
    window=window,
    shift_invariant=True,
    takes=lambda layer, position: Takes.SPREAD,
    joins=_joins,
    constant_inputs=frozenset({1, 2}),
    attributes=MappingProxyType(_ATTRIBUTES),
    structure="row-phased; accumulating if a single output row without row padding sums several input rows",
    notes="1-D to 3-D; any group; negative pads crop; float16 accumulates in float32; "
    "weights and bias are constants",
)

CONV_TRANSPOSE = Operator(
    op_type="ConvTranspose",
    multiplies=True,
    build=_build_transpose,
    input_rows=_transpose_rows,
    kernel=_transpose_kernel,
    cost=_transpose_cost,
    row_kind=lambda layer, row: 0,
    takes=lambda layer, position: Takes.SPREAD,
    constant_inputs=frozenset({1, 2}),
    attributes=MappingProxyType({**_ATTRIBUTES, "output_padding": None, "output_shape": None}),
    notes="1-D to 3-D; any group; float16 accumulates in float32; weights and bias are constants; no negative pads",
)

OPERATORS: tuple[Operator, ...] = (CONV, CONV_TRANSPOSE)
