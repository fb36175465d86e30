"""How are tensors of a .tflite file tensors of ONNX, with their quantization and in both layouts of images?

A quantized tensor is its integers; what computes reads it through a DequantizeLinear and writes it through a
QuantizeLinear, so that `csdfgen.reading.dequantized` finds the patterns of a QDQ model. Images of TensorFlow have their
channels last, those of ONNX first: a tensor is kept in the order of axes in which it was made, and turned once where
something needs the other one, so that a chain of layers on images has a Transpose at each end alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from csdfgen.errors import ModelError
from csdfgen.model.naming import make_unused_name
from csdfgen.reading.onnx_file import label
from csdfgen.reading.tflite.file import Operator, Shape, Tensor

Order = tuple[int, ...]
FIRST: Order = (0, 3, 1, 2)
"""The axes of an image with its channels first, in those of the file."""

DEPTHWISE: Order = (3, 0, 1, 2)
"""Those of the weights of DEPTHWISE_CONV_2D as ONNX has them."""

INTEGERS = ("int8", "uint8", "int16")
"""Types of quantized activations."""


def natural(rank: int) -> Order:
    return tuple(range(rank))


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of the file. names: by the order of its axes, where it has been made. array: of a constant."""

    tensor: Tensor
    array: np.ndarray | None = None
    names: dict[Order, str] = field(default_factory=dict)
    floats: dict[Order, str] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    @property
    def quantized(self) -> bool:
        return self.tensor.scale.size > 0 and self.tensor.dtype in (*INTEGERS, "int4")

    @property
    def first(self) -> bool:
        """Whether it exists with its channels first only."""
        return FIRST in self.names and natural(4) not in self.names

    def alike(self, other: Value) -> bool:
        """Whether integers mean the same in both."""
        one, two = self.tensor, other.tensor
        if not (self.quantized and other.quantized):
            return self.quantized == other.quantized
        return (
            one.dtype == two.dtype
            and np.array_equal(one.scale, two.scale)
            and np.array_equal(one.zero, two.zero)
        )


def element_type(value: Value) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(value.tensor.dtype))


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _walk(attribute.g.node)


class Nodes:
    """The nodes and constants of a model as they are made. No two tensors have a name in common, nor two nodes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.tensors: set[str] = set()
        self.names: set[str] = set()

    def constant(self, array: np.ndarray, name: str) -> str:
        name = make_unused_name(name, self.tensors, "'")
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(
        self, op_type: str, inputs: Sequence[str], where: str, count: int = 1, **settings: Any
    ) -> list[str]:
        made = [make_unused_name(f"{where}/{op_type}", self.tensors, "'") for _ in range(count)]
        name = make_unused_name(made[0], self.names, "'")
        domain = settings.pop("domain", "")
        self.nodes.append(helper.make_node(op_type, inputs, made, name, domain=domain, **settings))
        return made

    def rename(self, old: str, new: str, since: int) -> str:
        """Give the result of a node made since then another name, and its node too; the name that it has then."""
        nodes = self.nodes[since:]
        maker = next((node for node in nodes if old in node.output), None)
        if maker is None:
            return old
        name = make_unused_name(new, self.tensors, "'")
        for node in _walk(nodes):
            for ends in (node.input, node.output):
                for k, end in enumerate(ends):
                    ends[k] = name if end == old else end
        if len(maker.output) == 1:
            maker.name = make_unused_name(new, self.names, "'")
        return name

    # Values -------------------------------------------------------------------------------------

    def stored(self, value: Value, order: Order | None = None) -> str:
        """A tensor as it is stored, its axes in this order."""
        order = natural(len(value.shape)) if order is None else order
        if order not in value.names:
            value.names[order] = self._turned(value, order)
        return value.names[order]

    def _turned(self, value: Value, order: Order) -> str:
        where = value.tensor.name
        if value.array is not None:
            return self.constant(value.array.transpose(order), where)
        if not value.names:
            raise ModelError(f"reads '{label(where)}', which nothing in front of it makes")
        found, name = next(iter(value.names.items()))
        perm = [found.index(axis) for axis in order]
        return self.node("Transpose", [name], where, perm=perm)[0]

    def real(self, value: Value, order: Order | None = None) -> str:
        """A tensor as what its integers stand for, if it is quantized."""
        order = natural(len(value.shape)) if order is None else order
        if not value.quantized:
            return self.stored(value, order)
        if order not in value.floats:
            forms, axis = self.form(value.tensor, order)
            inputs = [self.stored(value, order), *forms]
            where = value.tensor.name
            value.floats[order] = self.node("DequantizeLinear", inputs, where, **axis)[0]
        return value.floats[order]

    def form(self, tensor: Tensor, order: Order) -> tuple[list[str], dict[str, int]]:
        """Scale and zero point, and their axis where there is one."""
        dtype = "int8" if tensor.dtype == "int4" else tensor.dtype
        one = tensor.scale.size == 1
        arrays = [tensor.scale, tensor.zero.astype(dtype)]
        names = [
            self.constant(array.reshape(() if one else -1), f"{tensor.name}_{what}")
            for array, what in zip(arrays, ("scale", "zero_point"), strict=True)
        ]
        return names, {} if one else {"axis": order.index(tensor.axis)}


@dataclass(slots=True, eq=False)
class Layer:
    """An operator with what it reads and makes. raw: it works on integers as they are (`alike` in all of them)."""

    op: Operator
    name: str
    inputs: Sequence[Value | None]
    outputs: Sequence[Value]
    made: Nodes
    raw: bool = False
    since: int = 0
    kept: dict[int, Value] = field(default_factory=dict)
    """Position of a variable -> what it is after this operator."""

    def value(self, k: int) -> Value:
        found = self.inputs[k] if k < len(self.inputs) else None
        if found is None:
            raise ModelError(f"has no input {k}")
        return found

    def has(self, k: int) -> bool:
        return k < len(self.inputs) and self.inputs[k] is not None

    def shape(self, k: int = 0) -> Shape:
        return self.value(k).shape

    @property
    def out(self) -> Shape:
        if not self.outputs:
            raise ModelError("has no output")
        return self.outputs[0].shape

    def image(self, k: int = 0) -> Shape:
        """The shape of an operand that has to be an image, channels last."""
        shape = self.shape(k)
        if len(shape) != 4 or min(shape) < 1:
            raise ModelError(f"its input {k} has the shape {shape}, four axes are needed")
        return shape

    def x(self, k: int = 0, order: Order | None = None) -> str:
        """An operand as it computes with it."""
        value = self.value(k)
        return self.made.stored(value, order) if self.raw else self.made.real(value, order)

    def const(self, k: int) -> np.ndarray:
        """A constant operand, as it is stored."""
        found = self.value(k).array
        if found is None:
            raise ModelError(
                f"its input {k} ('{label(self.value(k).tensor.name)}') is computed, a constant is needed"
            )
        return found

    def numbers(self, k: int) -> list[int]:
        return [int(n) for n in self.const(k).reshape(-1)]

    def number(self, k: int) -> int:
        found = self.numbers(k)
        if len(found) != 1:
            raise ModelError(f"its input {k} has {len(found)} numbers, one is needed")
        return found[0]

    def axes(self, k: int, rank: int) -> list[int]:
        return [self.axis(n, rank) for n in self.numbers(k)]

    @staticmethod
    def axis(axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} of a tensor with {rank} axes")
        return axis % rank

    def node(self, op_type: str, *inputs: str, **settings: Any) -> str:
        return self.made.node(op_type, inputs, self.name, **settings)[0]

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        return self.made.constant(np.asarray(array, dtype), f"{self.name}/constant")

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", name, self.constant(shape, np.int64))

    def dequantized(self, k: int, name: str) -> str:
        """Elements of an operand, in another shape, as what they stand for."""
        value = self.value(k)
        if not value.quantized:
            return name
        forms, axis = self.made.form(value.tensor, natural(len(value.shape)))
        if axis:
            raise ModelError(f"its input {k} has a scale for each channel, which is not supported")
        return self.node("DequantizeLinear", name, *forms)

    def channels(self) -> Order:
        """The order of axes in which an operator on elements computes: channels first if an operand is so, and all
        others can be.
        """
        computed = [
            v for v in self.inputs if v is not None and v.array is None and prod(v.shape) > 1
        ]
        images = all(len(v.shape) == 4 for v in (*computed, *self.outputs))
        return FIRST if images and any(v.first for v in computed) else natural(len(self.out))

    def aligned(self, k: int, order: Order) -> str:
        """An operand that is broadcast, in this order of axes."""
        value = self.value(k)
        rank = len(order)
        if order == natural(rank) or len(value.shape) == rank:
            return self.x(k, order if len(value.shape) == rank else None)
        if value.array is None:  # of one element
            return self.x(k)
        wide = Value(
            self._widened(value.tensor, rank), value.array.reshape(self._ones(value.shape, rank))
        )
        return self.made.stored(wide, order) if self.raw else self.made.real(wide, order)

    @staticmethod
    def _ones(shape: Shape, rank: int) -> Shape:
        return (1,) * (rank - len(shape)) + shape

    def _widened(self, tensor: Tensor, rank: int) -> Tensor:
        shape = self._ones(tensor.shape, rank)
        axis = tensor.axis + rank - len(tensor.shape)
        return Tensor(tensor.name, shape, tensor.dtype, tensor.scale, tensor.zero, axis)

    def activated(self, name: str) -> str:
        """What the fused activation makes of a result. Raises ModelError for one that is not known."""
        kind = self.op.option("FusedActivationFunction")
        if kind not in _ACTIVATIONS:
            raise ModelError(f"its fused activation has number {kind}, which is not supported")
        op_type, *bounds = _ACTIVATIONS[kind]
        return self.node(op_type, name, *map(self.constant, bounds)) if op_type else name

    def keep(self, k: int, name: str) -> str:
        """This is what operand k, a variable, is from now on; as the next step will read it."""
        self.kept[k] = Value(self.value(k).tensor)
        self._write(self.kept[k], name, None)
        return self.made.real(self.kept[k])

    def give(
        self, name: str, k: int = 0, order: Order | None = None, reshaped: bool = False
    ) -> None:
        """This is an output; its axes are in this order. reshaped: it has its elements in another shape yet."""
        self._write(self.outputs[k], name, order, reshaped)

    def _write(self, value: Value, name: str, order: Order | None, reshaped: bool = False) -> None:
        order = natural(len(value.shape)) if order is None else order
        if value.quantized and not self.raw:
            forms, axis = self.made.form(value.tensor, order)
            (name,) = self.made.node("QuantizeLinear", [name, *forms], self.name, **axis)
        if reshaped:
            name = self.reshaped(name, value.shape)
        wanted = f"{value.tensor.name}_next" if value in self.kept.values() else value.tensor.name
        renamed = self.made.rename(name, wanted, self.since)
        for other in self.inputs:
            for names in () if other is None else (other.names, other.floats):
                names.update({key: renamed for key, old in names.items() if old == name})
        value.names = {order: renamed}


_ACTIVATIONS: dict[int, tuple[Any, ...]] = {
    0: ("",), 1: ("Relu",), 2: ("Clip", -1.0, 1.0), 3: ("Clip", 0.0, 6.0), 4: ("Tanh",),
}  # fmt: skip
"""Number of a fused activation -> its operator, and bounds of Clip."""
