"""What do the layers with weights of an ONNX graph make and read, and how are their channels scaled?

A product here is a Conv, ConvTranspose, Gemm or MatMul whose weights and bias are constant. A factor and an
offset for each channel behind it, or before it, are other weights and another bias (paper 004, section 4.1.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

from csdfgen.ops.folded_weights import channel_values, input_factors, output_factors, scale_weights

KINDS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators with weights."""

Change = Callable[[], None]


@dataclass(eq=False)
class Products:
    """A graph, changed in place, with who makes and who reads each tensor as it was found (`look_again`).

    constants: those that are float32, by name; decoded once, as only what is added here changes them. ends:
    outputs of the graph.
    """

    graph: onnx.GraphProto
    constants: dict[str, np.ndarray] = field(init=False)
    makers: dict[str, onnx.NodeProto] = field(init=False)
    readers: dict[str, list[onnx.NodeProto]] = field(init=False)
    ends: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.constants = {
            one.name: numpy_helper.to_array(one)
            for one in self.graph.initializer
            if one.data_type == onnx.TensorProto.FLOAT
        }
        self.look_again()

    def look_again(self) -> None:
        """Find makers, readers and ends again, once nodes have changed."""
        self.makers = {name: node for node in self.graph.node for name in node.output}
        self.readers = {}
        for node in self.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.ends = frozenset(one.name for one in self.graph.output)

    # What is there --------------------------------------------------------------------------------

    def only_reader(self, name: str) -> onnx.NodeProto | None:
        """The node that reads a tensor, where there is one, once, and it is no output."""
        found = self.readers.get(name, [])
        return found[0] if len(found) == 1 and name not in self.ends else None

    def is_one(self, node: onnx.NodeProto) -> bool:
        """Whether a node is a product with constant weights."""
        if node.op_type not in KINDS or node.domain or len(node.input) < 2:
            return False
        if any(name not in self.constants for name in node.input[1:] if name):
            return False
        if node.op_type == "Gemm":
            return (number(node, "alpha", 1), number(node, "beta", 1)) == (1, 1)
        return node.op_type != "MatMul" or self.constants[node.input[1]].ndim == 2

    def maker(self, name: str) -> onnx.NodeProto | None:
        """The product that makes a tensor, if one does."""
        found = self.makers.get(name)
        return found if found is not None and self.is_one(found) else None

    def made_channels(self, node: onnx.NodeProto) -> int:
        """Channels that a product makes."""
        shape = self.constants[node.input[1]].shape
        if node.op_type == "Conv" or (node.op_type == "Gemm" and number(node, "transB", 0)):
            return int(shape[0])
        return int(shape[1]) * (_groups(node) if node.op_type == "ConvTranspose" else 1)

    def by_channel(self, value: np.ndarray, node: onnx.NodeProto, count: int) -> np.ndarray | None:
        """A constant that is combined with what a product makes or reads, one number for each of its `count` channels;
        None where it is anything else.
        """
        # channels are axis 1 of a convolution's tensors, and of the matrices of a product
        convolution = node.op_type in ("Conv", "ConvTranspose")
        rank = self.constants[node.input[1]].ndim if convolution else 2
        return channel_values(value, rank, 1, count)

    def grouped_weights(self, node: onnx.NodeProto) -> np.ndarray:
        """The weights of a product that is no ConvTranspose, float64 (groups, outputs of a group, channels that
        it reads, terms of each).
        """
        weights = self.constants[node.input[1]].astype(np.float64)
        if node.op_type == "Conv":
            groups = _groups(node)
            return weights.reshape(groups, len(weights) // groups, weights.shape[1], -1)
        return (weights if number(node, "transB", 0) else weights.T)[None, :, :, None]

    # What is changed ------------------------------------------------------------------------------

    def change_made(self, maker: onnx.NodeProto, factor: np.ndarray, offset: np.ndarray) -> None:
        """What a product makes becomes that times a factor plus an offset, (channels,) both. A MatMul has no
        bias: its offset is to be zero.
        """
        name = maker.output[0]
        weights = self.constants[maker.input[1]]
        if maker.op_type != "MatMul":
            self._rebias(maker, self._bias(maker) * factor + offset)
        factors = output_factors(factor, maker.op_type, weights.shape, *_settings(maker))
        maker.input[1] = self.constant(f"{name}_weights", scale_weights(weights, factors))

    def scaled_input(self, reader: onnx.NodeProto, name: str, value: np.ndarray) -> Change | None:
        """How a product's weights take in a factor of the tensor that it reads; None where they cannot."""
        weights = self._weights_on(reader, name)
        values = self._of_input(value, reader, weights)
        if weights is None or values is None:
            return None

        def change() -> None:
            factors = input_factors(values, reader.op_type, weights.shape, *_settings(reader))
            name = f"{reader.output[0]}_weights"
            reader.input[1] = self.constant(name, scale_weights(weights, factors))

        return change

    def moved_input(self, reader: onnx.NodeProto, name: str, value: np.ndarray) -> Change | None:
        """How a convolution's bias takes in what is added to the tensor that it reads; None where it cannot:
        what is padded has nothing added.
        """
        weights = self._weights_on(reader, name)
        values = self._of_input(value, reader, weights)
        if weights is None or values is None or reader.op_type != "Conv" or _padded(reader):
            return None

        def change() -> None:
            sums = weights.astype(np.float64).sum(axis=tuple(range(2, weights.ndim)))
            added = (sums * input_factors(values, "Conv", sums.shape, _groups(reader))).sum(1)
            self._rebias(reader, self._bias(reader) + added)

        return change

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant, of a name like this one that nothing has."""
        while name in self.constants or name in self.makers:
            name += "_"
        self.constants[name] = array.astype(np.float32)
        self.graph.initializer.append(numpy_helper.from_array(self.constants[name], name))
        return name

    def put(self, nodes: list[onnx.NodeProto], instead: list[onnx.NodeProto]) -> None:
        """Exchange nodes for others, which come where the last of them was."""
        at = max(list(self.graph.node).index(one) for one in instead) + 1
        for k, node in enumerate(nodes):
            self.graph.node.insert(at + k, node)
        for one in instead:
            self.graph.node.remove(one)

    # Parts ----------------------------------------------------------------------------------------

    def _weights_on(self, reader: onnx.NodeProto, name: str) -> np.ndarray | None:
        """The weights that a product multiplies a tensor with; None where it does not, or is a
        ConvTranspose.
        """
        if (
            not self.is_one(reader)
            or reader.op_type == "ConvTranspose"
            or reader.input[0] != name
            or number(reader, "transA", 0)
        ):
            return None
        return self.constants[reader.input[1]]

    def _of_input(
        self, value: np.ndarray, reader: onnx.NodeProto, weights: np.ndarray | None
    ) -> np.ndarray | None:
        """One number for each channel that a product reads."""
        if weights is None:
            return None
        if reader.op_type == "Conv":
            count = weights.shape[1] * _groups(reader)
        else:
            count = weights.shape[1 if number(reader, "transB", 0) else 0]
        return self.by_channel(value, reader, count)

    def _bias(self, node: onnx.NodeProto) -> np.ndarray:
        """The bias of a product, zeros where it has none, (channels made,)."""
        count = self.made_channels(node)
        if len(node.input) < 3 or not node.input[2]:
            return np.zeros(count)
        bias = self.constants[node.input[2]].astype(np.float64)
        return np.broadcast_to(bias.reshape(-1), count)

    def _rebias(self, node: onnx.NodeProto, bias: np.ndarray) -> None:
        name = self.constant(f"{node.output[0]}_bias", bias)
        if len(node.input) < 3:
            node.input.append(name)
        node.input[2] = name


def number(node: onnx.NodeProto, name: str, default: float) -> float:
    """An attribute that is one number."""
    for one in node.attribute:
        if one.name == name:
            return float(helper.get_attribute_value(one))
    return default


def _groups(node: onnx.NodeProto) -> int:
    return int(number(node, "group", 1))


def _settings(node: onnx.NodeProto) -> tuple[int, bool]:
    """Groups of a convolution, and whether the right operand of a Gemm is transposed."""
    return _groups(node), bool(number(node, "transB", 0))


def _padded(node: onnx.NodeProto) -> bool:
    """Whether a convolution may read padding."""
    for one in node.attribute:
        if one.name == "auto_pad" and one.s not in (b"NOTSET", b"VALID"):
            return True
        if one.name == "pads" and any(one.ints):
            return True
    return False
