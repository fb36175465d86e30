"""How many parameters, multiply-accumulates and activations does a network of the zoo have? Read
from its ONNX graph.

Counted are learned float32 arrays (initializers, or zeros that stand for them), and the
multiply-accumulates of convolutions and fully connected layers, which is what the sources of the
zoo count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import onnx
from onnx import TensorProto, numpy_helper

__all__ = ["Counts", "count"]

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Counts:
    """parameters: learned values. statistics: running means and variances. macs:
    multiply-accumulates.

    activations: elements of all tensors that are computed, network inputs excluded. nodes:
        operations.
    """

    parameters: int
    statistics: int
    macs: int
    activations: int
    nodes: int


def count(model: onnx.ModelProto) -> Counts:
    """The counts of a network that this zoo has built, with or without the values of its weights."""
    graph = model.graph
    weights = _weights(graph)
    maps = {v.name: _dims(v) for v in (*graph.input, *graph.value_info, *graph.output)}
    measured = {
        name
        for node in graph.node
        if node.op_type == "BatchNormalization"
        for name in node.input[3:5]
    }
    shapes = {**weights, **maps}
    operations = [
        node for node in graph.node if node.op_type not in ("Constant", "ConstantOfShape")
    ]
    return Counts(
        parameters=sum(prod(shape) for name, shape in weights.items() if name not in measured),
        statistics=sum(prod(shape) for name, shape in weights.items() if name in measured),
        macs=sum(MACS[node.op_type](node, shapes) for node in operations if node.op_type in MACS),
        activations=sum(prod(maps[name]) for node in operations for name in node.output),
        nodes=len(operations),
    )


def _weights(graph: onnx.GraphProto) -> Shapes:
    """Shapes of float32 initializers, and of the zeros in their place."""
    found = {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT}
    sizes = {t.name: t for t in graph.initializer if t.data_type == TensorProto.INT64}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            found[node.output[0]] = tuple(
                int(n) for n in numpy_helper.to_array(sizes[node.input[0]])
            )
    return found


def _dims(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(d.dim_value for d in value.type.tensor_type.shape.dim)


def _convolution(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Every output element is a sum over the weights of its channel."""
    return prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])


def _transposed(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Every input element is multiplied with the weights of its channel."""
    return prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])


def _product(node: onnx.NodeProto, shapes: Shapes) -> int:
    """A fully connected layer uses every weight once."""
    return prod(shapes[node.input[1]])


MACS: Mapping[str, Callable[[onnx.NodeProto, Shapes], int]] = MappingProxyType(
    {"Conv": _convolution, "ConvTranspose": _transposed, "Gemm": _product, "MatMul": _product}
)
