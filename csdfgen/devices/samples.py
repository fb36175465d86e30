"""Which layers are measured where no model is given? One of each common kind, in the sizes of image classifiers.

They form a network with one input image a size and a branch from it for each layer, so that they are measured as any
model is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from csdfgen.model.network import Network
from csdfgen.reading.loader import load

__all__ = ["sample_model"]

_OPSET = 13

_SIZES = ((64, 56), (128, 28), (256, 14))
"""(channels, height and width) of the images."""

_WINDOWS: Sequence[tuple[str, dict[str, Any]]] = (
    ("Conv", {"kernel_shape": [1, 1]}),
    ("Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("Conv", {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}),
    ("Conv", {"kernel_shape": [7, 7], "pads": [3, 3, 3, 3], "strides": [2, 2]}),
    ("Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": -1}),
    ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
)
"""Layers with a window; group -1 means one channel a group."""

_PLAIN: Sequence[tuple[str, dict[str, Any]]] = (
    ("Relu", {}), ("Sigmoid", {}), ("LeakyRelu", {"alpha": 0.1}), ("LRN", {"size": 5}), ("BatchNormalization", {}),
    ("GlobalAveragePool", {}), ("Add", {}), ("Concat", {"axis": 1}), ("Softmax", {"axis": 1}),
    ("Gemm", {"transB": 1}),
)  # fmt: skip


class _Graph:
    """The nodes, weights and outputs of the model so far."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self._random = np.random.default_rng(0)

    def weight(self, name: str, *shape: int) -> str:
        array = self._random.uniform(0.5, 1.5, shape).astype(np.float32) / max(1, shape[-1])
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op_type: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def output(self, name: str) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))


def sample_model() -> Network:
    """The network of the built-in layers. All branches are outputs, so that no layer is fused or left out."""
    graph = _Graph()
    inputs = []
    for channels, size in _SIZES:
        image = f"image{size}"
        inputs.append(
            helper.make_tensor_value_info(image, onnx.TensorProto.FLOAT, (1, channels, size, size))
        )
        for number, (op_type, attributes) in enumerate((*_WINDOWS, *_PLAIN)):
            graph.output(
                _layer(
                    graph, op_type, dict(attributes), image, channels, f"{op_type}{number}_{size}"
                )
            )
    made = helper.make_graph(graph.nodes, "built-in layers", inputs, graph.outputs, graph.weights)
    return load(
        helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    )


def _layer(
    graph: _Graph, op_type: str, attributes: dict[str, Any], image: str, channels: int, name: str
) -> str:
    """A layer on an image, with the weights that it needs."""
    operands = [image]
    if op_type == "Conv":
        depthwise = attributes.get("group") == -1
        attributes |= {"group": channels} if depthwise else {}
        operands += [
            graph.weight(
                f"{name}.w", channels, 1 if depthwise else channels, *attributes["kernel_shape"]
            )
        ]
    elif op_type == "BatchNormalization":
        operands += [
            graph.weight(f"{name}.{part}", channels)
            for part in ("scale", "bias", "mean", "variance")
        ]
    elif op_type in ("Add", "Concat"):
        operands.append(image)
    elif op_type == "Gemm":
        pooled = graph.node("GlobalAveragePool", [image], f"{name}.pooled")
        operands = [
            graph.node("Flatten", [pooled], f"{name}.flat"),
            graph.weight(f"{name}.w", 1000, channels),
        ]
    return graph.node(op_type, operands, name, **attributes)
