"""Products of onnxruntime's own domain whose left operand is quantized at run time, by its own range: they are layers of
DynamicQuantizeLinear and MatMulInteger. DynamicQuantizeLinear itself is a range of all rows, and QuantizeLinear by it.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from onnx import TensorProto

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops._operands import check_word, normalize_axis
from csdfgen.ops.base import MICROSOFT, Operator, require_constant, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed_operator, require
from csdfgen.ops.quantizing import DEQUANTIZE, QUANTIZE
from csdfgen.ops.recurrent import ATTRIBUTES, DYNAMIC

Results = Iterable[Operand | None]


def _quantized(make: Composition, x: Operand) -> tuple[Operand, Operand, Operand]:
    """Integers, their scale and zero point: the range is of all rows, integers are made row by row."""
    scale, zero = make.several("DynamicQuantizeLinear", x, outputs=3, first=1)
    return make("QuantizeLinear", x, scale, zero), scale, zero


def _product(
    make: Composition,
    x: Operand,
    weights: Operand,
    scales: tuple[Operand, Operand],
    zero_points: tuple[Operand | None, Operand | None],
) -> Operand:
    """Integers times integers, as floats. scales, zero_points: of both."""
    sums = make("MatMulInteger", x, weights, *zero_points)
    return make("Mul", make("Cast", sums, to=TensorProto.FLOAT), make("Mul", *scales))


def _times(
    make: Composition, x: Operand, weights: Operand, scale: Operand, zero_point: Operand | None
) -> Operand:
    """Floats, quantized by their range, times integers."""
    integers, own, zero = _quantized(make, x)
    return _product(make, integers, weights, (own, scale), (zero, zero_point))


def _matmul(make: Composition, node: Node) -> Results:
    x, weights, scale = require_tensor(node, 0), require(node, 1), require(node, 2)
    product = _times(make, x, weights, scale, node.operand(3))
    bias = node.operand(4)
    return [product if bias is None else make("Add", product, bias)]


def _to_float(make: Composition, node: Node) -> Results:
    x, weights, *scales = (require(node, k) for k in range(4))
    zero_points = node.operand(4), node.operand(5)
    product = _product(make, x, weights, (scales[0], scales[1]), zero_points)
    bias = node.operand(6)
    return [product if bias is None else make("Add", product, bias)]


def _spread(make: Composition, node: Node, array: Operand) -> Operand:
    """One number, one for each index of an axis, or one for each block of them, in a shape that broadcasts."""
    shape, block = require(node, 0).shape, int(node.attributes.get("block_size", 0))
    if prod(array.shape) == 1:
        return make.reshaped(array, ())
    axis = normalize_axis(int(node.attributes.get("axis", 1)), len(shape))
    if block:
        return make("Gather", array, np.arange(shape[axis]) // block, axis=axis)
    return make.reshaped(array, (*array.shape, *(1,) * (len(shape) - 1 - axis)))


def _scaled(make: Composition, node: Node) -> Results:
    """QuantizeLinear or DequantizeLinear by a scale or zero point that is computed, as they broadcast against the data."""
    operands = [
        one if one is None else _spread(make, node, one) for one in map(node.operand, (1, 2))
    ]
    given = {k: v for k, v in node.attributes.items() if k not in ("axis", "block_size")}
    return [make(node.op_type, require(node, 0), *operands, **given)]


def _with_computed(operator: Operator) -> Operator:
    """QuantizeLinear or DequantizeLinear, whose scales may be computed."""

    def parts(node: Node) -> tuple[Layer, ...]:
        if any(isinstance(node.operand(k), Tensor) for k in (1, 2)):
            make = Composition(node)
            return make.written(_scaled(make, node))
        return (operator.build(node),)

    return replace(operator, parts=parts, constant_inputs=frozenset())


def _dynamic_parts(node: Node) -> tuple[Layer, ...]:
    """A range whose integers nobody reads is one layer."""
    if not node.outputs[0]:
        return (DYNAMIC.build(node),)
    make = Composition(node)
    return make.written(_quantized(make, require_tensor(node, 0)))


# LSTM ---------------------------------------------------------------------------------------------

X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES, W_SCALE, W_ZERO, R_SCALE, R_ZERO = range(12)
"""Positions of the inputs."""


def _lstm(make: Composition, node: Node) -> Results:
    """Both directions one after the other."""
    x, (weights, recurrent) = require_tensor(node, X), (require_constant(node, k) for k in (W, R))
    directions = ("forward", "reverse", "bidirectional")
    direction = check_word(node.attributes.get("direction", "forward"), "direction", directions)
    count = 2 if direction == "bidirectional" else 1
    hidden = recurrent.shape[1] if recurrent.ndim == 3 else 0
    if len(x.shape) != 3 or (weights.shape, recurrent.shape) != (
        (count, x.shape[2], 4 * hidden),
        (count, hidden, 4 * hidden),
    ):
        raise ModelError(
            f"input of shape {list(x.shape)}, weights of {list(weights.shape)} and {list(recurrent.shape)} in {count} "
            "directions do not fit together"
        )
    lengths = node.operand(LENGTHS)
    if lengths is not None and not (
        isinstance(lengths, np.ndarray) and (lengths >= x.shape[0]).all()
    ):
        raise ModelError(
            "sequences of several lengths are not supported; export without sequence_lens"
        )
    activations = [name.lower() for name in node.attributes.get("activations") or ()]
    if activations not in ([], ["sigmoid", "tanh", "tanh"] * count):
        raise ModelError(f"activations={activations}; Sigmoid, Tanh, Tanh are supported")
    found = [_one_direction(make, node, k, direction == "reverse" or k == 1) for k in range(count)]
    joined = [
        parts[0] if count == 1 else make("Concat", *parts, axis=axis)
        for parts, axis in zip(zip(*found, strict=True), (1, 0, 0), strict=True)
    ]
    return [one if name else None for one, name in zip(joined, node.outputs, strict=False)]


def _one_direction(
    make: Composition, node: Node, number: int, backwards: bool
) -> Sequence[Operand]:
    """Y (steps, 1, batch, hidden), Y_h and Y_c (1, batch, hidden): an LSTM of bytes (`ops.recurrent`)."""
    directions = require_constant(node, W).shape[0]
    known = {
        k: operand.reshape(directions, -1)[number]
        for k, operand in enumerate(node.inputs)
        if k > INITIAL_C and isinstance(operand, np.ndarray)
    }
    weights, recurrent = (require_constant(node, k)[number : number + 1] for k in (W, R))
    scale, zero = (known[k].squeeze() for k in (W_SCALE, W_ZERO))
    gates = _times(make, require_tensor(node, X), weights[0], scale, zero)
    bias, *states, peepholes = (
        None if operand is None else make.part(operand, 0, number, number + 1)
        for operand in map(node.operand, (B, INITIAL_H, INITIAL_C, PEEPHOLES))
    )
    others = {k: v for k, v in node.attributes.items() if k != "activations"}
    attributes = {**others, "direction": "reverse" if backwards else "forward"}
    operands = (gates, None, recurrent.swapaxes(1, 2), bias, None, *states, peepholes)
    return make.several("LSTM", *operands, known[R_SCALE], known[R_ZERO], outputs=3, **attributes)


OPERATORS: tuple[Operator, ...] = (
    *map(_with_computed, (QUANTIZE, DEQUANTIZE)),
    replace(DYNAMIC, parts=_dynamic_parts),
    composed_operator(
        "DynamicQuantizeMatMul",
        _matmul,
        domain=MICROSOFT,
        structure="whole",
        notes="The range depends on the whole left operand.",
        multiplies=True,
    ),
    composed_operator(
        "MatMulIntegerToFloat",
        _to_float,
        domain=MICROSOFT,
        structure="row-phased; whole if the product contracts the row axis",
        multiplies=True,
    ),
    composed_operator(
        "DynamicQuantizeLSTM",
        _lstm,
        domain=MICROSOFT,
        attributes={**ATTRIBUTES, "input_forget": 0},
        constant_inputs=(W, R, B, LENGTHS, W_SCALE, W_ZERO, R_SCALE, R_ZERO),
        structure="whole",
        notes="Each step quantizes its state by its own range.",
        multiplies=True,
    ),
)
