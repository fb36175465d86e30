"""Products of onnxruntime's own domain whose left operand is quantized at run time, by its own range: they are layers of
DynamicQuantizeLinear and MatMulInteger.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from onnx import TensorProto

from csdfgen.errors import ModelError
from csdfgen.model.network import Node
from csdfgen.ops._operands import check_word
from csdfgen.ops.base import MICROSOFT, Operator, require_constant, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed_operator, require
from csdfgen.ops.recurrent import ATTRIBUTES

Results = Iterable[Operand | None]


MOST_STEPS = 512
"""Of a recurrent layer: each is a dozen layers."""


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
    integers, own, zero = make.several("DynamicQuantizeLinear", x, outputs=3)
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


# LSTM ---------------------------------------------------------------------------------------------

X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES, W_SCALE, W_ZERO, R_SCALE, R_ZERO = range(12)
"""Positions of the inputs."""


def _lstm(make: Composition, node: Node) -> Results:
    """Step by step, both directions one after the other."""
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
    steps = x.shape[0]
    lengths = node.operand(LENGTHS)
    if lengths is not None and not (isinstance(lengths, np.ndarray) and (lengths >= steps).all()):
        raise ModelError(
            "sequences of several lengths are not supported; export without sequence_lens"
        )
    if node.operand(PEEPHOLES) is not None:
        raise ModelError("peepholes are not supported")
    activations = [name.lower() for name in node.attributes.get("activations") or ()]
    if activations not in ([], ["sigmoid", "tanh", "tanh"] * count):
        raise ModelError(f"activations={activations}; Sigmoid, Tanh, Tanh are supported")
    if float(node.attributes.get("clip") or 0) or node.attributes.get("input_forget", 0):
        raise ModelError("clip and input_forget are not supported")
    if steps * count > MOST_STEPS:
        raise ModelError(f"{steps * count} steps are written out, at most {MOST_STEPS}")
    found = [_one_direction(make, node, k, direction == "reverse" or k == 1) for k in range(count)]
    joined = [
        parts[0] if count == 1 else make("Concat", *parts, axis=axis)
        for parts, axis in zip(zip(*found, strict=True), (1, 0, 0), strict=True)
    ]
    return [one if name else None for one, name in zip(joined, node.outputs, strict=False)]


def _one_direction(make: Composition, node: Node, number: int, backwards: bool) -> list[Operand]:
    """Y (steps, 1, batch, hidden), Y_h and Y_c (1, batch, hidden)."""
    x, weights, recurrent = require_tensor(node, X), *(require_constant(node, k) for k in (W, R))
    steps, batch, _ = x.shape
    hidden = recurrent.shape[1]
    w_scale, w_zero, r_scale, r_zero = (
        require_constant(node, k).reshape(weights.shape[0], -1)[number].squeeze()
        for k in (W_SCALE, W_ZERO, R_SCALE, R_ZERO)
    )
    gates = _times(make, x, weights[number], w_scale, w_zero)
    if node.operand(B) is not None:
        of_input, of_state = np.split(require_constant(node, B)[number], 2)
        gates = make("Add", gates, of_input + of_state)
    states: list[Operand | None] = []
    for position in (INITIAL_H, INITIAL_C):
        given = node.operand(position)
        one = None if given is None else make.part(given, 0, number, number + 1)
        states.append(None if one is None else make.reshaped(one, (batch, hidden)))
    h, c = states
    found: list[Operand] = []
    for step in range(steps)[:: -1 if backwards else 1]:
        total = make.reshaped(make.part(gates, 0, step, step + 1), (batch, 4 * hidden))
        if h is not None:
            total = make("Add", total, _times(make, h, recurrent[number], r_scale, r_zero))
        first, out, forget, new = make.several(
            "Split", total, np.full(4, hidden, np.int64), outputs=4, axis=1
        )
        own = make("Mul", make("Sigmoid", first), make("Tanh", new))
        c = own if c is None else make("Add", own, make("Mul", make("Sigmoid", forget), c))
        h = make("Mul", make("Sigmoid", out), make("Tanh", c))
        found.append(make.reshaped(h, (1, 1, batch, hidden)))
    assert h is not None and c is not None
    every = found[::-1] if backwards else found
    whole = every[0] if steps == 1 else make("Concat", *every, axis=0)
    return [whole, *(make.reshaped(one, (1, batch, hidden)) for one in (h, c))]


OPERATORS: tuple[Operator, ...] = (
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
        notes=f"Up to {MOST_STEPS} steps, which are unrolled: each quantizes its state by its own range.",
        multiplies=True,
    ),
)
