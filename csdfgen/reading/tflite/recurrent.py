"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM, whose variables are states of the network.

Source: tensorflow/lite/kernels/internal/reference/svdf.h and tensorflow/lite/kernels/lstm_eval.cc. States are rounded to
their integers after every step, as there; what is in between is float.
"""

from __future__ import annotations

from math import prod
from typing import Any

from onnx import TensorProto, helper

from csdfgen.errors import ModelError
from csdfgen.model.naming import make_unused_name
from csdfgen.reading.tflite.layers import bias
from csdfgen.reading.tflite.values import Layer, Nodes

_STATE, _CELL = 18, 19


def filter_sequence(layer: Layer) -> None:
    """SVDF: filters along features, then along time, of which the state holds the last results."""
    (batch, features), (filters, width), (count, memory) = (_matrix(layer, k) for k in (0, 1, 2))
    rank = layer.op.option("Rank", 1)
    if width != features or count != filters or rank < 1 or filters % rank:
        raise ModelError(
            f"{filters} filters of {width} and {count} of {memory} with rank {rank} do not fit"
        )
    if prod(layer.shape(4)) != batch * filters * memory:
        raise ModelError(f"a state of {layer.shape(4)} does not hold {filters} filters of {memory}")
    now = layer.node("Gemm", layer.x(0), layer.x(1), transB=1)
    past = layer.reshaped(layer.x(4), (batch, filters, memory))
    begin, end, axis = (layer.constant([n], "int64") for n in (1, memory, 2))
    new = layer.node(
        "Concat",
        layer.node("Slice", past, begin, end, axis),
        layer.reshaped(now, (batch, filters, 1)),
        axis=2,
    )
    state = layer.reshaped(
        layer.keep(4, layer.reshaped(new, layer.shape(4))), (batch, filters, memory)
    )
    y = layer.node("Mul", state, layer.x(2))
    y = layer.reshaped(y, (batch, filters // rank, rank * memory))
    y = layer.node("ReduceSum", y, axis, keepdims=0)
    for term in bias(layer, 3, 4, 2):
        y = layer.node("Add", y, term)
    layer.give(layer.activated(y))


def _matrix(layer: Layer, k: int) -> tuple[int, int]:
    shape = layer.shape(k)
    if len(shape) != 2 or min(shape) < 1:
        raise ModelError(f"its input {k} has the shape {shape}, two axes are needed")
    return shape[0], shape[1]


def run_sequence(layer: Layer) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, a Scan over time."""
    if any(layer.has(k) for k in (20, 21, 22, 23)):
        raise ModelError("normalizes its gates, which is not supported")
    if layer.has(16) and layer.value(_STATE).quantized:
        raise ModelError("has a projection of integers, which is not supported; of floats it is")
    if layer.op.option("FusedActivationFunction") != 4:
        raise ModelError("has another activation than tanh, which is not supported")
    if len(layer.shape()) != 3:
        raise ModelError(f"its input has the shape {layer.shape()}, three axes are needed")
    time = 0 if layer.op.option("TimeMajor") else 1
    x, h, c = layer.x(0), layer.x(_STATE), layer.x(_CELL)
    cell = _Cell(layer)
    ends = [layer.shape(_STATE), layer.shape(_CELL), (layer.shape()[1 - time], layer.shape()[2])]
    body = helper.make_graph(
        cell.nodes.nodes, layer.name,
        [_described(name, shape) for name, shape in zip(cell.starts, ends, strict=True)],
        [_described(name, shape) for name, shape in zip((*cell.ends, cell.y), [*ends[:2], ends[0]], strict=True)],
    )  # fmt: skip
    inputs = [h, c, x]
    made = layer.made.node(
        "Scan",
        inputs,
        layer.name,
        3,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[time],
        scan_output_axes=[time],
    )
    layer.keep(_STATE, made[0])
    layer.keep(_CELL, made[1])
    layer.give(made[2])


def _described(name: str, shape: tuple[int, ...]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class _Cell:
    """A step of an LSTM: ends are the names of its new states, y that of its output."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.nodes = layer, Nodes()
        self.nodes.tensors = layer.made.tensors  # a name of a body hides that of what is around it
        self.starts = [
            make_unused_name(f"{layer.name}/{end}", self.nodes.tensors, "'") for end in "hcx"
        ]
        before = self.starts[1]
        coupled = not layer.has(1)
        f = self.gate(1, "Sigmoid", before)
        i = self.node("Sub", layer.constant(1.0), f) if coupled else self.gate(0, "Sigmoid", before)
        new = self.node("Mul", i, self.gate(2, "Tanh", ""))
        c = self.node("Add", self.node("Mul", f, before), new)
        c = self.rounded(_CELL, self.clipped(c, "CellClip"))
        h = self.node("Mul", self.gate(3, "Sigmoid", c), self.node("Tanh", c))
        if layer.has(16):
            h = self.node("MatMul", h, layer.x(16, (1, 0)))
            h = self.node("Add", h, layer.x(17)) if layer.has(17) else h
            h = self.clipped(h, "ProjClip")
        h = self.rounded(_STATE, h)
        self.ends, self.y = [h, c], self.node("Identity", h)

    def node(self, op_type: str, *inputs: str, **settings: Any) -> str:
        return self.nodes.node(op_type, inputs, self.layer.name, **settings)[0]

    def gate(self, k: int, activation: str, cell: str) -> str:
        """Gate k of input, forget, cell and output. cell: what its peephole looks at."""
        layer = self.layer
        terms = [
            self.node("MatMul", end, layer.x(at + k, (1, 0)))
            for end, at in ((self.starts[2], 1), (self.starts[0], 5))
        ]
        peephole = {0: 9, 1: 10, 3: 11}.get(k)
        if cell and peephole is not None and layer.has(peephole):
            terms.append(self.node("Mul", cell, layer.x(peephole)))
        terms += bias(layer, 12 + k, 0, 1 + k)
        total = terms[0]
        for term in terms[1:]:
            total = self.node("Add", total, term)
        return self.node(activation, total)

    def clipped(self, name: str, setting: str) -> str:
        clip = float(self.layer.op.option(setting))
        if clip <= 0:
            return name
        return self.node("Clip", name, *map(self.layer.constant, (-clip, clip)))

    def rounded(self, k: int, name: str) -> str:
        """A state as its integers have it."""
        value = self.layer.value(k)
        if not value.quantized:
            return name
        forms, _ = self.layer.made.form(value.tensor, (0, 1))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", name, *forms), *forms)
