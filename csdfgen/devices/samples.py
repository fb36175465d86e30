"""Which layers are measured where no model is given? The common kinds, in the sizes of image classifiers and transformers.

They follow each other as in networks, so that each finds in the caches what the ones before it wrote; activations are
layers of their own if the network is planned without fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from csdfgen.model.network import Network
from csdfgen.model.options import ways_text
from csdfgen.reading.loader import load

_OPSET = 20

_EARLY = (
    "16 3/2", "Relu", "1 3*", "32 1", "HardSwish", "16 1", "BatchNormalization", "16 3+", "1 3/2*",
    "64 1", "Sigmoid", "64 3+", "Relu", "Add", "1 3*", "Tanh", "24 1", "LeakyRelu", "144 1", "MaxPool 3", "Gelu", "1 5*",
    "Mul", "64 1", "32 5", "HardSigmoid", "AveragePool 3", "64 3", "Concat", "1 5/2*", "4 3", "Sigmoid", "4 1",
)  # fmt: skip
_MIDDLE = (
    "64 1", "128 3", "Swish", "1 3*", "HardSwish", "128 1", "Relu", "128 3 8", "LRN", "256 1", "Sum", "64 1", "Erf", "128 3+",
    "1 5*", "Sub", "MaxPool 3", "64 5+", "Sigmoid", "256 3/2",
    "256 3", "Relu", "256 1", "BatchNormalization", "1 3*", "Exp", "256 1", "Swish", "AveragePool 3", "1 3/2*",
    "512 1", "LeakyRelu", "GlobalAveragePool", "Flatten", "Gemm 1000", "Softmax",
)  # fmt: skip
_LATE = (
    "128 1", "512 1", "Relu", "256 3 8", "Add", "1 5*", "Tanh", "MaxPool 3", "64 5", "Div", "128 3", "AveragePool 3",
    "256 1", "1 3/2*",
    "512 1", "Relu", "256 3", "LeakyRelu", "1 5*", "HardSwish", "1024 1", "Gelu", "512 1", "Sqrt", "256 3", "Concat",
    "GlobalAveragePool", "Flatten", "Gemm 1000", "Relu", "Gemm 2048", "Relu", "Gemm 100", "Softmax",
)  # fmt: skip
"""Layers after one another: "OUTPUTS WINDOW/STRIDE GROUPS" is a convolution, "1 WINDOW*" one of each channel alone,
"OUTPUTS WINDOW+" one whose weights are stored at points.
"""

_OTHERS = (
    "24 7/2", "MaxPool 2/2", "24 3+", "48 3/2", "48 1x7", "48 7x1", "AveragePool 2/2", "64 3", "Resize nearest", "16 1",
    "Resize linear", "AveragePool 2/2", "Slice", "2 3", "GlobalAveragePool", "Flatten", "Gemm 10",
)  # fmt: skip
_ENCODER = (
    "LayerNormalization", "MatMul 192", "Attend 3", "MatMul 192", "Add", "LayerNormalization", "MatMul 768", "Gelu",
    "MatMul 192", "Transpose", "Tanh", "Transpose", "Softmax", "LayerNormalization", "Scores", "Softmax", "Weigh", "Split",
    "ReduceMean",
)  # fmt: skip
_RECURRENT = "MatMul 64", "LSTM 48", "GRU 64"
_STORED = (
    "QuantizeLinear", "64 1", "64 3", "1 3*", "128 3/2", "128 1", "128 3", "MaxPool 2/2", "1 3*", "256 3/2", "256 1",
    "256 3", "1 3/2*", "DequantizeLinear",
)  # fmt: skip
"""The same on stored bytes."""

_SMALL = (
    "16 3", "Relu", "16 3", "Add", "1 3*", "32 1", "32 3/2", "HardSwish", "Mul", "1 3*", "64 3", "1 3/2*", "16 1", "Sigmoid",
    "4 3", "16 1", "MaxPool 3", "MaxPool 2/2", "64 1", "1 3*", "64 1", "AveragePool 2/2", "24 5", "GlobalAveragePool",
    "Flatten", "Gemm 64", "Gemm 10", "Softmax",
)  # fmt: skip
_SHORT = (
    "MatMul 32", "LayerNormalization", "LSTM 24", "GRU 24", "Tanh", "MatMul 48", "Scores", "Softmax", "Weigh", "Mul", "Sub",
    "Concat", "ReduceMean",
)  # fmt: skip


class _Graph:
    """The nodes and weights of the model so far, and the last tensor with its shape."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.last, self.stored, self.kept = "", False, ""
        self.shape: tuple[int, ...] = (1,)
        self.ways: dict[str, dict[int, str]] = {}
        self._random = np.random.default_rng(0)

    def begin(self, *shape: int) -> None:
        """An input."""
        self.last, self.shape = f"image{len(self.inputs)}", shape
        made = helper.make_tensor_value_info(self.last, onnx.TensorProto.FLOAT, shape)
        self.inputs.append(made)

    def end(self) -> None:
        """An output."""
        kind = onnx.TensorProto.FLOAT
        self.outputs.append(helper.make_tensor_value_info(self.last, kind, None))

    def constant(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int) -> str:
        array = self._random.uniform(-1, 1, shape).astype(np.float32)
        return self.constant(array * np.float32(2 / max(1, prod(shape[1:])) ** 0.5))

    def positive(self, *shape: int) -> str:
        return self.constant(self._random.uniform(0.5, 1.5, shape).astype(np.float32))

    def node(self, op_type: str, operands: Sequence[str] = (), **attributes: Any) -> None:
        """A node on the last tensor."""
        name = f"{op_type}{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op_type, [self.last, *operands], [name], name, **attributes)
        )
        self.last = name

    def convolve(self, outs: int, window: str, groups: int) -> None:
        """outs: 1 with "*" for a channel each. Its window, and stride."""
        alone, (size, _, stride) = window.endswith("*"), window.rstrip("*+").partition("/")
        high, wide = map(int, (size if "x" in size else f"{size}x{size}").split("x"))
        channels, step = self.shape[1], int(stride or 1)
        outs, groups = (channels, channels) if alone else (outs, groups)
        known: dict[str, Any] = {
            "kernel_shape": [high, wide], "pads": [high // 2, wide // 2] * 2, "strides": [step] * 2, "group": groups,
        }  # fmt: skip
        shape = outs, channels // groups, high, wide
        if self.stored:
            scale, zero = self.constant(np.float32(0.05)), self.constant(np.int8(0))
            weights = self.constant(self._random.integers(-128, 128, shape, np.int8))
            self.node("QLinearConv", [scale, zero, weights, scale, zero, scale, zero], **known)
        else:
            self.node("Conv", [self.weight(*shape)], **known)
        if window.endswith("+"):
            self.ways[self.last] = {1: "tiles4" if high == wide == 3 else "rows"}
        self.shape = 1, outs, *(-(-size // step) for size in self.shape[2:])

    def apply(self, word: str) -> None:
        """Append the layers that a word stands for."""
        op_type, *rest = word.split()
        if op_type.isdecimal():
            self.convolve(int(op_type), rest[0], int((*rest, "1")[1]))
        elif op_type in _MADE:
            _MADE[op_type](self, *word.split())
        elif "Pool" in op_type and rest:
            size, _, stride = rest[0].partition("/")
            step, border = int(stride or 1), 0 if stride else int(size) // 2
            self.node(op_type, kernel_shape=[int(size)] * 2, pads=[border] * 4, strides=[step] * 2)
            self.shape = (*self.shape[:2], *(one // step for one in self.shape[2:]))
        else:
            self.node(op_type, **_ATTRIBUTES.get(op_type, {}))

    def multiply(self, op_type: str, outs: str) -> None:
        """A product with weights."""
        self.node(op_type, [self.weight(self.shape[-1], int(outs))])
        self.shape = (*self.shape[:-1], int(outs))

    def flatten(self, op_type: str) -> None:
        """All of an image in one row."""
        self.node(op_type)
        self.shape = 1, prod(self.shape)


def _scores(graph: _Graph, _: str) -> None:
    """Products of all rows with each other."""
    rows = graph.kept = graph.last
    graph.node("Transpose", perm=[0, 2, 1])
    turned, graph.last = graph.last, rows
    graph.node("MatMul", [turned])


def _pool_globally(graph: _Graph, op_type: str) -> None:
    graph.node(op_type)
    graph.shape = (*graph.shape[:2], 1, 1)


def _attend(graph: _Graph, _op_type: str, count: str) -> None:
    """Attention of so many heads, in the nodes that exporters write."""
    heads, (_, rows, channels) = int(count), graph.shape
    parts = []
    source = graph.last
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        graph.last = source
        graph.multiply("MatMul", str(channels))
        graph.node("Reshape", [graph.constant(np.array([1, rows, heads, channels // heads]))])
        graph.node("Transpose", perm=order)
        parts.append(graph.last)
    graph.last = parts[0]
    graph.node("MatMul", [parts[1]])
    graph.node("Mul", [graph.constant(np.float32((heads / channels) ** 0.5))])
    graph.node("Softmax", axis=-1)
    graph.node("MatMul", [parts[2]])
    graph.node("Transpose", perm=[0, 2, 1, 3])
    graph.node("Reshape", [graph.constant(np.array(graph.shape))])


def _recur(graph: _Graph, op_type: str, hidden: str) -> None:
    """A recurrent layer over rows of one image."""
    size, gates = int(hidden), 4 if op_type == "LSTM" else 3
    _, rows, ins = graph.shape
    graph.node("Transpose", perm=[1, 0, 2])
    operands = [graph.weight(1, gates * size, wide) for wide in (ins, size)]
    graph.node(op_type, operands, hidden_size=size)
    graph.node("Reshape", [graph.constant(np.array([1, rows, size]))])
    graph.shape = 1, rows, size


def _slice(graph: _Graph, op_type: str) -> None:
    """All but the last column."""
    graph.node(op_type, [graph.constant(np.array([one])) for one in (0, -1, 3)])
    graph.shape = (*graph.shape[:3], graph.shape[3] - 1)


def _split(graph: _Graph, _: str) -> None:
    """Halves of the columns, side by side."""
    source, halves = graph.last, []
    for first, last in ((0, graph.shape[-1] // 2), (graph.shape[-1] // 2, graph.shape[-1])):
        graph.last = source
        graph.node("Slice", [graph.constant(np.array([one])) for one in (first, last, 2)])
        halves.append(graph.last)
    graph.last = halves[1]
    graph.node("Concat", [halves[0]], axis=2)


def _resize(graph: _Graph, op_type: str, mode: str) -> None:
    graph.node(op_type, ["", graph.constant(np.array([1, 1, 2, 2], np.float32))], mode=mode)
    graph.shape = (*graph.shape[:2], *(2 * one for one in graph.shape[2:]))


def _join(graph: _Graph, op_type: str) -> None:
    graph.node(op_type, [graph.last], axis=1)
    graph.shape = (1, 2 * graph.shape[1], *graph.shape[2:])


def _swish(graph: _Graph, _: str) -> None:
    before = graph.last
    graph.node("Sigmoid")
    graph.node("Mul", [before])


def _quantize(graph: _Graph, op_type: str) -> None:
    graph.node(op_type, [graph.constant(np.float32(0.05)), graph.constant(np.int8(0))])
    graph.stored = op_type == "QuantizeLinear"


def _normalize(graph: _Graph, op_type: str) -> None:
    if op_type == "LayerNormalization":
        graph.node(op_type, [graph.positive(graph.shape[-1])], axis=-1)
    else:
        graph.node(op_type, [graph.positive(graph.shape[1]) for _ in range(4)])


def _combine(graph: _Graph, op_type: str) -> None:
    """A layer of the last tensor and itself."""
    graph.node(op_type, [graph.last])


def _weigh(graph: _Graph, _: str) -> None:
    graph.node("MatMul", [graph.kept])


def _reduce(graph: _Graph, op_type: str) -> None:
    graph.node(op_type, [graph.constant(np.array([1]))])


_ATTRIBUTES: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "LRN": {"size": 5}, "Transpose": {"perm": [0, 2, 1]}, "LeakyRelu": {"alpha": 0.1}, "Softmax": {"axis": -1},
})  # fmt: skip
_MADE: Mapping[str, Callable[..., None]] = MappingProxyType({
    **dict.fromkeys(("BatchNormalization", "LayerNormalization"), _normalize),
    **dict.fromkeys(("Add", "Mul", "Sum", "Sub", "Div"), _combine),
    **dict.fromkeys(("Gemm", "MatMul"), _Graph.multiply),
    **dict.fromkeys(("LSTM", "GRU"), _recur),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
    "Attend": _attend, "Concat": _join, "Flatten": _Graph.flatten, "GlobalAveragePool": _pool_globally, "ReduceMean": _reduce,
    "Resize": _resize, "Scores": _scores, "Slice": _slice, "Split": _split, "Swish": _swish, "Weigh": _weigh,
})  # fmt: skip


class Sample(NamedTuple):
    """A network of built-in layers. fuse, ways: how it is planned. cached: everything of it stays in the nearest caches."""

    network: Network
    fuse: str
    ways: str = ""
    cached: bool = False


def sample_models() -> Iterator[Sample]:
    """The built-in layers: of image classifiers, of transformers, on bytes, and so small that they stay in the caches."""
    for words, *shape in (
        (_EARLY, 1, 3, 224, 224), (_MIDDLE, 1, 3, 28, 28), (_LATE, 1, 3, 14, 14), (_OTHERS, 1, 3, 112, 112),
        (_STORED, 1, 3, 56, 56),
    ):  # fmt: skip
        yield _sample("images", (words, *shape))
    yield _sample("rows", (_ENCODER, 1, 196, 192), (_RECURRENT, 1, 24, 64), fuse="full")
    yield _sample("small", (_SMALL, 1, 3, 32, 32), (_SHORT, 1, 12, 32), cached=True)


def _sample(
    name: str, *chains: tuple[Any, ...], fuse: str = "none", cached: bool = False
) -> Sample:
    graph = _Graph()
    for words, *shape in chains:
        graph.begin(*shape)
        for word in words:
            graph.apply(word)
        graph.end()
    made = helper.make_graph(graph.nodes, name, graph.inputs, graph.outputs, graph.weights)
    opsets = [helper.make_opsetid("", _OPSET)]
    network = load(helper.make_model(made, opset_imports=opsets, ir_version=9))
    return Sample(network, fuse, ways_text(graph.ways), cached)
