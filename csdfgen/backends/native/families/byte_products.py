"""Which sums of products of bytes have kernels? QLinearConv and ConvInteger of one or two axes, QGemm,
QLinearMatMul and MatMulInteger with a constant right operand.

Sums are integers, so that they are the same in any order: one kernel computes all, at any height, with
any instruction set. A row of a matrix is a pixel to it. It takes signed bytes; what zero points add is
in the bias (`Operands`).

Where the processor multiplies 16 bits as fast as bytes, windows of 3x3 are computed by Winograd's form in integers, in
the same workspace, so that a plan is the same on every machine: four products a pixel instead of nine, the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.byte_multiplication import byte_multiplication
from csdfgen.backends.native.families.common import (
    Family,
    Layout,
    Part,
    build_read_tables,
    choose_layout,
    is_dense,
    memoize,
    pixel,
    spatial_windows,
)
from csdfgen.backends.native.families.product import (
    has_matrix_rows,
    is_whole_matrix,
    matrix_rows,
    split_offsets,
)
from csdfgen.backends.native.structures import PANEL, ByteSource, constants, instruction, structure
from csdfgen.backends.native.ways import TILES, Variant, Ways
from csdfgen.model.deferred import compute_array, defer
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows, Window
from csdfgen.ops import get_operator
from csdfgen.ops.base import LEAST, Mode
from csdfgen.ops.integers import Rescaled, get_zero, multipliers, rescale_factor
from csdfgen.ops.quantized_products import center_weights, zero_tensor
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Form, Step

TO_BYTES, TO_INTEGERS, TO_VALUES, TO_SHIFTED, TO_CENTRED = constants(
    "BYTES", "INTEGERS", "VALUES", "SHIFTED", "CENTRED"
)
ByteConvStep = structure("csdf_byte_conv_step").record
ByteLayer = structure("csdf_byte_layer").record
ByteTarget = structure("csdf_byte_target").record
Rescaling = structure("csdf_rescaling").record

_MOVED = 128
"""What unsigned bytes are larger by than the signed ones of the same bits but the first."""

_MOST = 2**31 - 1
"""Largest sum."""

CONV, DEPTHWISE = "conv_bytes", "depthwise_bytes"
"""Kernels."""

FEWER = "byte_winograd"
"""That of fewer products: of 4 x 4 points for 2 x 2 pixels."""

SIDE, _POINTS, _STACK = 2, 16, 16384
"""Pixels of a tile along an axis, its points, and bytes of stack for tiles that there is no workspace for."""

_TAKEN = 8
"""Products that take as long as taking a value to points or back."""

_TILES, _GAIN = 4, 1.05
"""Least tiles at a time, so that weights are not read too often, and how much faster it must be by the estimate."""

_PIXELS, _ROOM = 12, 16384
"""Pixels whose terms are best gathered at a time, and bytes above which they are not."""


@dataclass(frozen=True, slots=True)
class Operands:
    """Weights of a byte and what is added to sums of products with them.

    weights: (out, in / groups, h, w) int8. bias: (2, out) of inputs that are signed, and of such that
    are 128 larger. zeros: (out,), times which the sum of the inputs is taken away; None where all are 0. sums: (out,), of
    weights less their zero points, times which a computed zero point of the inputs is taken away; None where it is constant.
    """

    weights: np.ndarray
    bias: np.ndarray
    zeros: np.ndarray | None
    sums: np.ndarray | None = None

    @classmethod
    def of_layer(cls, layer: Layer, weights: np.ndarray, bias: np.ndarray) -> Operands | None:
        """As `of`, whatever the zero point of the input is, if it is computed."""
        if zero_tensor(layer) is None:
            moved = _MOVED if layer.attributes["x"].dtype == "uint8" else 0
            return cls.of(weights, bias, get_zero(layer, "x") - moved)
        # what is added to sums grows evenly with the zero point
        least, found, most = (cls.of(weights, bias, zero) for zero in (-_MOVED, 0, _MOVED - 1))
        if least is None or found is None or most is None:
            return None
        sums = weights.reshape(len(weights), -1).sum(1, dtype=np.int32)
        return replace(found, sums=sums)

    @classmethod
    def of(cls, weights: np.ndarray, bias: np.ndarray, zero: int) -> Operands | None:
        """weights: less their zero points, int16. bias: int64. zero: the input's, signed. None where a
        sum may be larger than integers of 32 bits.
        """
        flat = compute_array(weights.reshape(len(weights), -1))
        low, high = flat.min(1, initial=0), flat.max(1, initial=0)
        # weights of a byte more or less by the same number are bytes
        zeros = np.where(
            low < -_MOVED, -_MOVED - low, np.where(high >= _MOVED, _MOVED - 1 - high, 0)
        )
        moved, zeros = flat + zeros[:, None], zeros.astype(np.int64)
        terms, sums = flat.shape[1], moved.sum(1)
        signed = bias - zero * sums + terms * zero * zeros
        larger = signed - _MOVED * sums + _MOVED * terms * zeros
        # vectors wrap round, and end at the sum all the same
        away = terms * np.abs(zeros)
        reach = np.abs(signed) + _MOVED * (np.abs(moved).sum(1) + away)
        reach = np.maximum(reach, np.abs(larger) + 2 * _MOVED * away)
        if reach.max(initial=0) > _MOST:
            return None
        shaped = zeros.reshape(-1, *(1,) * (weights.ndim - 1)).astype(np.int16)
        return cls(
            defer(_bytes, weights, shaped, dtype="int8"),
            np.stack([signed, larger]).astype(np.int32),
            zeros.astype(np.int32) if zeros.any() else None,
        )


def _bytes(weights: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    found: np.ndarray = (weights + zeros).astype(np.int8)
    return found


@dataclass(frozen=True, eq=False)
class ByteConvolution(Family):
    """layout: of rows. part: that of a step. rows: the window down the rows of the layout. packed: as the
    kernel wants it. terms: of a sum. points: as the kernel of fewer products wants it, None where it cannot compute the layer.
    pairs, fused: see `Ways`. joins: not where each image has a zero point of its own, which is computed.
    """

    kernels = ("conv_bytes_of", "depthwise_bytes_of")

    kernel: str
    layout: Layout
    part: Callable[[Rows], Part]
    rows: Window
    packed: Callable[[], _Packed]
    terms: int
    points: Callable[[], _Packed] | None
    pairs: bool = False
    fused: bool = False
    joins: bool = True

    def takes(self, step: Step) -> bool:
        return self.layout.takes(step)

    def computed(self, ways: Ways, layer: str) -> ByteConvolution:
        """The same, computed so."""
        at_points = any(one.at_points for one in ways.of(layer).variants)
        return replace(self, pairs=ways.pairs and (ways.fused or at_points), fused=ways.fused)

    def forms(self, layer: Layer, rows: int) -> tuple[Form, ...]:
        if self.points is None:
            return ()
        part, outs = self.part(Rows(0, layer.output.rows)), layer.output.shape[1]
        panels, ins = outs + -outs % PANEL, self.terms // 9
        fours = -(-9 * packing.tap_stride(ins, 9) // packing.FOUR)
        direct, fewer = self._costs(1, part.rows, part.columns, outs)
        points = panels * _POINTS * (ins + ins % 2) * 2
        return (
            Form("", panels * fours * packing.FOUR, direct),
            Form(str(Variant(TILES, SIDE, True)), points, _GAIN * fewer),
        )

    def _costs(self, images: int, rows: int, columns: int, outs: int) -> tuple[float, float]:
        """Multiply-adds of so many pixels by sums of products, and by fewer products."""
        ins = self.terms // 9
        tiles = images * -(-rows // SIDE) * -(-columns // SIDE)
        again = -(-outs // PANEL) if self.fused else 1
        cost = tiles * _POINTS * (ins * outs + _TAKEN * (again * ins + outs))
        return images * rows * columns * self.terms * outs, cost

    def _fewer(self, step: Step, part: Part) -> _Packed | None:
        """The layer for fewer products, where these are estimated to be faster in the workspace of the step."""
        if not self.pairs or self.points is None:
            return None
        ins, outs = self.terms // 9, step.outputs[0].shape[-1]
        direct, cost = self._costs(step.phase.images, part.rows, part.columns, outs)
        tile = 2 * _POINTS * (ins + ins % 2)
        fits = self.fused or (tile <= _STACK and max(_STACK, step.workspace.size) >= _TILES * tile)
        return self.points() if fits and direct > _GAIN * cost else None

    def workspace(self, step: Step, limit: int | None) -> int:
        return 0 if self.kernel == DEPTHWISE else _gathered(self.terms, limit)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        part, layout, target = self.part(step.phase.out), self.layout, step.outputs[0]
        images, each = step.phase.images, len(step.phase.out)
        tables, reach = build_read_tables(layout, part, self.rows, step)
        sources = [
            ByteSource(constants.rows(piece.pool, table), pixel(piece), piece.shape[-1])
            for table, piece in tables
        ]
        written = [
            at
            for first in range(0, images * each, each)
            for at in layout.written(part, target.rows[first : first + each], target)
        ]
        apart, rows = pixel(target) * target.format.itemsize, constants.rows(target.pool, written)
        into = ByteTarget(rows, apart, len(written), 0, part.columns, 0, target.shape[-1])
        turns = (part.rows, reach) if images > 1 else (0, 0)
        fewer = self._fewer(step, part)
        kernel, packed = (self.kernel, self.packed()) if fewer is None else (FEWER, fewer)
        return [_made(kernel, packed, sources, layout.width, into, step, constants, turns)]


def _made(
    kernel: str,
    packed: _Packed,
    sources: list[Any],
    width: int,
    target: Any,
    step: Step,
    constants: Constants,
    turns: tuple[int, int] = (0, 0),
) -> Instruction:
    """The kernel on a step. width: columns of the map that is read. turns: of several images, see `csdf_conv_step`."""
    pad = step.workspace
    room = pad.size > LEAST and kernel != DEPTHWISE  # else on the stack
    behind = []
    if packed.layer.into.kind == TO_CENTRED:
        zero = step.view(2)
        behind.append(ByteSource(constants.rows(zero.pool, zero.rows), 1, 1))
    made = ByteConvStep(
        packed.placed(constants),
        constants.table("csdf_byte_source", [*sources, *behind]),
        len(sources),
        width,
        target,
        Ref(pad.pool, pad.offset) if room else None,
        pad.size if room else 0,
        *turns,
    )
    return instruction(f"{kernel}_of", made)


def _gathered(terms: int, limit: int | None) -> int:
    """Bytes of workspace in which so many terms of some sums are gathered, if there is room: else they are on
    the stack, in parts.
    """
    wanted = min(_ROOM, 2 * _PIXELS * terms)
    wanted += -wanted % 64
    return wanted if wanted > LEAST and (limit is None or wanted <= limit) else 0


@dataclass(frozen=True, eq=False)
class _Packed:
    """A layer as a kernel wants it: its record without places, and its arrays; None for those that it does without.

    factors: or pairs of a multiplier and a shift, or sums of weights, as `layer.into` says.
    """

    layer: Any
    weights: np.ndarray
    bias: np.ndarray
    zeros: np.ndarray | None
    factors: np.ndarray | None

    def placed(self, constants: Constants) -> Ref:
        """The place of its record."""
        arrays = (self.weights, self.bias, self.zeros, self.factors)
        weights, bias, zeros, factors = (a if a is None else constants.weights(a) for a in arrays)
        into = self.layer.into._replace(
            **{"factors" if self.layer.into.kind in (TO_BYTES, TO_VALUES) else "shifts": factors}
        )
        record = self.layer._replace(into=into, weights=weights, bias=bias, zeros=zeros)
        return constants.table("csdf_byte_layer", [record])


def _rescaling(
    layer: Layer, operands: Operands, groups: int, alpha: float = 1.0
) -> tuple[Any, np.ndarray | None]:
    """What becomes of the sums of a layer, and the factors of its outputs, their multipliers and shifts, or the sums of
    their weights.
    """
    outputs = len(operands.weights)
    if operands.sums is not None:
        return Rescaling(TO_CENTRED), packing.byte_panels(operands.sums, groups)
    if layer.output.dtype == "int32":
        return Rescaling(TO_INTEGERS), None
    factors = np.broadcast_to(rescale_factor(layer, alpha), outputs)
    kept = packing.byte_panels(factors, groups, "float32")
    if "y" not in layer.attributes:
        return Rescaling(TO_VALUES), kept
    into = Rescaled.of(layer, alpha)
    if into.shifts:
        pairs = [packing.byte_panels(one, groups) for one in multipliers(factors)]
        kept = packing.aligned(np.stack(pairs, -1), "int32")
        return Rescaling(TO_SHIFTED, into.zero, into.low, into.high), kept
    return Rescaling(TO_BYTES, into.zero, into.low, into.high), kept


def _packed(
    layer: Layer,
    kernel: str,
    operands: Operands,
    groups: int,
    rows: Window,
    across: Window,
    alpha: float = 1.0,
) -> _Packed:
    outs, ins, high, wide = operands.weights.shape
    zero, unsigned = get_zero(layer, "x"), layer.attributes["x"].dtype == "uint8"
    # a channel a group has no panels of its own
    panels = 1 if kernel == DEPTHWISE else groups
    bias = operands.bias
    if kernel == DEPTHWISE:
        weights = packing.depthwise_byte_weights(operands.weights)
    elif kernel == FEWER:
        weights, bias = packing.winograd_byte_weights(operands.weights), 4 * bias[:1]
    else:
        weights = packing.byte_weights(operands.weights, groups)
    bias = packing.byte_panels(bias, panels)
    zeros = None if operands.zeros is None else packing.byte_panels(operands.zeros, panels)
    into, factors = _rescaling(layer, operands, panels, alpha)
    made = ByteLayer(
        ins * groups, outs, groups, high, wide,
        rows.stride, across.stride, rows.dilation, across.dilation, across.pad_top,
        _MOVED if unsigned else 0, zero - _MOVED if unsigned else zero, packing.tap_stride(ins, high * wide), into,
    )  # fmt: skip
    return _Packed(made, weights, bias, zeros, factors)


def convolution(layer: Layer) -> Family | None:
    """QLinearConv and ConvInteger."""
    x = layer.inputs[0]
    if x is None or x.row_axis != layer.input_axes[0] or layer.inputs[1:2] not in ((), (None,)):
        return None
    layout, part, rows = choose_layout(layer)
    *_, across = spatial_windows(layer)
    weights = center_weights(layer, "int16")
    weights = weights.reshape(*weights.shape[:2], rows.kernel, across.kernel)
    bias = layer.constants.get(2, np.zeros(len(weights), np.int32)).reshape(-1).astype(np.int64)
    operands = Operands.of_layer(layer, weights, bias)
    if operands is None:
        return None
    groups = layer.attributes["group"]
    alone = groups > 1 and groups == len(weights) and weights.shape[1] == 1
    alone = alone and operands.zeros is None and "y" in layer.attributes
    kernel = DEPTHWISE if alone else CONV
    once_each = all(one.stride == one.dilation == 1 and one.kernel == 3 for one in (rows, across))
    square = once_each and groups == 1 and "y" in layer.attributes and _fits_points(operands)

    def packed(kernel: str) -> Callable[[], _Packed]:
        return memoize(lambda: _packed(layer, kernel, operands, groups, rows, across))

    fewer = packed(FEWER) if square else None
    return ByteConvolution(
        kernel,
        layout,
        part,
        rows,
        packed(kernel),
        weights[0].size,
        fewer,
        joins=operands.sums is None,
    )


def _fits_points(operands: Operands) -> bool:
    """Whether sums of points, and four times those of pixels, are integers of 32 bits. A pixel is the sum of nine points."""
    largest = np.abs(operands.weights.astype(np.int16)).max((2, 3)).sum(1)
    sums = 9 * 4 * _MOVED * 9 * largest + 4 * np.abs(operands.bias[0].astype(np.int64))
    return operands.zeros is None and int(sums.max(initial=0)) <= _MOST


# Matrix products ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Product(Family):
    """inputs: that are summed up for an output. packed: as the kernel wants it. joins: see `ByteConvolution`."""

    kernels = ("conv_bytes_of",)

    inputs: int
    outputs: int
    packed: Callable[[], _Packed]
    joins: bool

    def takes(self, step: Step) -> bool:
        view, out = step.view(0), step.outputs[0]
        return not (step.states or view.pieces or out.pieces) and is_dense(view) and is_dense(out)

    def workspace(self, step: Step, limit: int | None) -> int:
        return _gathered(self.inputs, limit)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        view, target = step.view(0), step.outputs[0]
        read = constants.rows(view.pool, matrix_rows(step, self.inputs))
        written = split_offsets(target, self.outputs)
        rows, apart = constants.rows(target.pool, written), self.outputs * target.format.itemsize
        into = ByteTarget(rows, apart, len(written), 0, 1, 0, self.outputs)
        source = ByteSource(read, self.inputs, self.inputs)
        return [_made(CONV, self.packed(), [source], 1, into, step, constants)]


def product(layer: Layer) -> _Product | None:
    """QGemm, QLinearMatMul and MatMulInteger with a constant matrix on the right."""
    given, x = layer.attributes, layer.inputs[0]
    if x is None or 1 not in layer.constants or layer.constants[1].ndim != 2:
        return None
    if given.get("transA"):
        return None
    if not (has_matrix_rows(x, layer) or is_whole_matrix(x, layer)):
        return None
    if get_operator(layer).mode(layer) is Mode.ACCUMULATE:
        return None
    weights = center_weights(layer, "int16")
    weights = weights if given.get("transB") else weights.swapaxes(0, 1)
    outputs, inputs = weights.shape
    bias = layer.constants.get(2, np.zeros(1, np.int32)).reshape(-1).astype(np.int64)
    if bias.size not in (1, outputs) or outputs != layer.output.shape[-1]:
        return None
    shaped = weights.reshape(outputs, inputs, 1, 1)
    operands = Operands.of_layer(layer, shaped, np.broadcast_to(bias, outputs))
    if operands is None:
        return None
    alpha = float(given.get("alpha", 1.0))
    one = Window(1)
    packed = memoize(lambda: _packed(layer, CONV, operands, 1, one, one, alpha))
    return _Product(inputs, outputs, packed, operands.sums is None)


def _product_of(layer: Layer) -> Family | None:
    return product(layer) or byte_multiplication(layer)


BYTE_PRODUCTS: dict[str, Callable[[Layer], Family | None]] = {
    "QLinearConv": convolution,
    "ConvInteger": convolution,
    "QGemm": product,
    "QLinearMatMul": _product_of,
    "MatMulInteger": _product_of,
}
"""Operator -> what makes a family of a layer."""
