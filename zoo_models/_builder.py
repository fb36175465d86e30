"""How is a network written down as ONNX, with weights that keep its activations in range?

A `Builder` collects nodes; every method adds one operation and returns its result as a `Value`,
whose shape is known at once. Weights are normal with He's variance 2 / fan-in (He et al. 2015,
arXiv:1502.01852). Beside its shape a value carries what its elements are expected to be like
(`_moments`); BatchNormalization takes its running variance from there, as if it had been measured
in training, so that deep networks neither fade nor explode.

Every weight has a random stream of its own, seeded with its name: a network has the same weights at
every image size, but where the size changes their shape. What is not learned is a Constant node,
not an initializer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo_models._moments import (
    NORMAL,
    Moments,
    add,
    apply_activation,
    apply_weights,
    average_map,
    scale,
    weigh_channels,
)

OPSET = 17
IR_VERSION = 8

MAX_WEIGHT_BYTES = 2**31 - 2**24
"""A protobuf message holds less than 2 GiB; the rest is for nodes and names."""

Shape = tuple[int, ...]
Sizes = int | tuple[int, ...]
"""Of a window along every axis it slides along: one number for all, or (rows, columns), of a video
(frames, rows, columns).
"""
Padding = int | tuple[int, ...] | str
"""What is added around a map: one number, (rows, columns), (top, left, bottom, right), or
"SAME_UPPER"; of a video with frames in front.
"""

ROUNDED_UP: Padding = (0, 0, 1, 1)
"""Padding by which Caffe's pools of 3 with stride 2 round the number of windows up."""


class ZooError(ValueError):
    """Something a user asked of the zoo that it does not have; one line."""


class SizeError(ZooError):
    """An image of this size does not go through the network."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the network being built: its ONNX name and shape, and what its elements are
    expected to be like.

    by_channel: expected mean square of every channel, behind a convolution whose weights have
        values. dtype: of its elements, a TensorProto.DataType.
    """

    name: str
    shape: Shape
    moments: Moments = NORMAL
    by_channel: np.ndarray | None = None
    dtype: int = TensorProto.FLOAT

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def height(self) -> int:
        return self.shape[-2]

    @property
    def width(self) -> int:
        return self.shape[-1]


Activation = Callable[[Value], Value]


class Builder:
    """One network being built; weights=False leaves the values out (zeros), for counting and shapes
    alone.
    """

    def __init__(self, name: str, *, seed: int = 0, weights: bool = True) -> None:
        self._seed = seed
        self._weights = weights
        opsets = [helper.make_opsetid("", OPSET)]
        empty = helper.make_graph([], name, [], [])
        # Weights go into this message at once: a message that is put into another one is copied.
        self._model = helper.make_model(
            empty, opset_imports=opsets, ir_version=IR_VERSION, producer_name="csdfgen zoo"
        )
        self._graph = self._model.graph
        self._nodes = self._graph.node  # those of a branch while one is built
        self._weight_bytes = 0
        self._values: dict[str, Value] = {}
        self._scopes: list[str] = []
        self._used: Counter[str] = Counter()

    # --- names, nodes, weights ------------------------------------------------------------------

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names of everything added inside begin with `name/`."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def blocks(
        self, depths: Sequence[int], kind: str = "stage", first: int = 1
    ) -> Iterator[tuple[int, int]]:
        """Every block of every stage, both counted from 0, inside a scope of its name. depths:
        blocks of each stage. first: number of the first stage in the names.
        """
        for stage, depth in enumerate(depths):
            for block in range(depth):
                with self.scope(f"{kind}{stage + first}/block{block + 1}"):
                    yield stage, block

    def unique(self, kind: str, name: str | None = None) -> str:
        """`name`, or a numbered name of this kind, behind the names of the scopes around it."""
        full = "/".join([*self._scopes, name or kind])
        self._used[full] += 1
        if name is None:
            return f"{full}{self._used[full]}"
        assert self._used[full] == 1, f"{full} is used twice"
        return full

    def node(
        self,
        op_type: str,
        operands: Sequence[Value | str],
        shape: Shape | None = None,
        moments: Moments | None = None,
        name: str | None = None,
        dtype: int = TensorProto.FLOAT,
        **attributes: Any,
    ) -> Value:
        """Add one node with one output, which has the node's name: `name` as `unique` made it, or
        one of its own. shape, moments: by default those of the first operand.
        """
        first = operands[0]
        if isinstance(first, Value):
            shape, moments = shape or first.shape, moments or first.moments
        assert shape is not None and moments is not None
        output = name or self.unique(op_type.lower())
        value = Value(output, shape, moments, dtype=dtype)
        self._add(op_type, operands, [value], output, attributes)
        return value

    def _add(
        self,
        op_type: str,
        operands: Sequence[Value | str],
        outputs: Sequence[Value],
        name: str,
        attributes: Mapping[str, Any],
    ) -> None:
        """Add one node, and remember its outputs."""
        inputs = [operand.name if isinstance(operand, Value) else operand for operand in operands]
        made = [value.name for value in outputs]
        self._nodes.append(helper.make_node(op_type, inputs, made, name, **attributes))
        self._values.update((value.name, value) for value in outputs)

    def input(self, *shape: int, name: str = "image") -> Value:
        """The network's input: channels, frames of a video, rows and columns."""
        if min(shape[-2:]) < 1:
            height, width = shape[-2:]
            raise SizeError(f"an image has at least 1 row and 1 column, not {height} and {width}")
        value = Value(name, (1, *shape))
        self._graph.input.append(_info(value))
        return value

    def constant(self, values: np.ndarray | Sequence[float]) -> str:
        """A constant that is not learned: the name of a Constant node."""
        name = self.unique("constant")
        tensor = numpy_helper.from_array(np.asarray(values), name)
        self._nodes.append(helper.make_node("Constant", [], [name], name, value=tensor))
        return name

    def zeros(self, shape: Shape) -> Value:
        """A constant of zeros, as something that others are added to."""
        return Value(self.constant(np.zeros(shape, np.float32)), shape, Moments(0.0, 0.0))

    def parameter(
        self, name: str, shape: Shape, draw: Callable[[np.random.Generator], np.ndarray]
    ) -> np.ndarray | None:
        """A learned array (or a statistic) with values that `draw` makes; None and zeros for a
        network without weights.
        """
        self._weight_bytes += 4 * prod(shape)
        if self._weight_bytes > MAX_WEIGHT_BYTES:
            raise SizeError(
                f"its weights need more than the {MAX_WEIGHT_BYTES} bytes that an ONNX file holds"
            )
        if self._weights:
            drawn = draw(np.random.default_rng([self._seed, *name.encode()]))
            values = drawn.astype("<f4", copy=False)
            self._graph.initializer.add(
                name=name, dims=shape, data_type=TensorProto.FLOAT, raw_data=values.tobytes()
            )
            return values
        size = f"{name}.shape"
        self._graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), size))
        self._graph.node.append(helper.make_node("ConstantOfShape", [size], [name], name))
        return None

    def weight(self, name: str, shape: Shape, fan_in: int) -> np.ndarray | None:
        """A weight with He's variance, as `parameter` returns it."""
        scale = np.float32((2 / fan_in) ** 0.5)

        def draw(rng: np.random.Generator) -> np.ndarray:
            values = rng.standard_normal(shape, np.float32)
            values *= scale
            return values

        return self.parameter(name, shape, draw)

    def offset(self, name: str, shape: Shape, scale: float | np.ndarray = 0.05) -> str:
        """Small values around zero: the name of a bias or a mean."""
        self.parameter(name, shape, lambda rng: scale * rng.standard_normal(shape))
        return name

    def factor(self, name: str, shape: Shape, around: float | np.ndarray = 1.0) -> str:
        """Positive values around `around`: the name of a scale or a variance."""
        self.parameter(name, shape, lambda rng: around * rng.uniform(0.8, 1.25, shape))
        return name

    def model(self, *outputs: Value) -> onnx.ModelProto:
        """The network with these outputs, as ONNX."""
        names = {value.name for value in outputs}
        self._graph.output.extend(_info(value) for value in outputs)
        self._graph.value_info.extend(
            _info(value) for value in self._values.values() if value.name not in names
        )
        return self._model

    # --- convolutions and products --------------------------------------------------------------

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: Sizes,
        *,
        stride: Sizes = 1,
        padding: Padding = 0,
        group: int = 1,
        dilation: int = 1,
        bias: bool = True,
        name: str | None = None,
    ) -> Value:
        """A convolution; group = its input's channels makes it depthwise."""
        name = self.unique("conv", name)
        kernel = _along(x, kernel)
        sizes, attributes = _window(x, kernel, stride, padding, dilation=dilation)
        per_group = x.channels // group
        operands: list[Value | str] = [x, f"{name}.weight"]
        shape = (channels, per_group, *kernel)
        weight = self.weight(f"{name}.weight", shape, per_group * prod(kernel))
        if bias:
            operands.append(self.offset(f"{name}.bias", (channels,)))
        attributes["group"], shape = group, (1, channels, *sizes)
        y = self.node("Conv", operands, shape, apply_weights(x.moments), name, **attributes)
        return y if weight is None else replace(y, by_channel=weigh_channels(weight, x.moments))

    def conv_bn(
        self,
        x: Value,
        channels: int,
        kernel: Sizes,
        *,
        activation: Activation | None = None,
        epsilon: float = 1e-5,
        bias: bool = False,
        **options: Any,
    ) -> Value:
        """A convolution, BatchNormalization, and an activation."""
        y = self.batch_normalization(self.conv(x, channels, kernel, bias=bias, **options), epsilon)
        return activation(y) if activation else y

    def conv_transpose(self, x: Value, channels: int, kernel: int, *, stride: int) -> Value:
        """A transposed convolution without padding, with bias."""
        name = self.unique("convtranspose")
        shape = (1, channels, *(stride * (size - 1) + kernel for size in x.shape[2:]))
        # products that meet in one output element, a channel
        reached = max(1, kernel * kernel // (stride * stride))
        self.weight(f"{name}.weight", (x.channels, channels, kernel, kernel), x.channels * reached)
        operands: list[Value | str] = [x, f"{name}.weight"]
        operands.append(self.offset(f"{name}.bias", (channels,)))
        how: dict[str, Any] = {"kernel_shape": [kernel, kernel], "strides": [stride, stride]}
        return self.node("ConvTranspose", operands, shape, apply_weights(x.moments), name, **how)

    def gemm(self, x: Value, features: int, *, bias: bool = True, name: str | None = None) -> Value:
        """A fully connected layer on (1, features); the weight is stored transposed, as exporters
        write it.
        """
        name = self.unique("gemm", name)
        self.weight(f"{name}.weight", (features, x.shape[1]), x.shape[1])
        operands: list[Value | str] = [x, f"{name}.weight"]
        if bias:
            operands.append(self.offset(f"{name}.bias", (features,)))
        return self.node("Gemm", operands, (1, features), apply_weights(x.moments), name, transB=1)

    def matmul(self, x: Value, features: int, *, name: str | None = None) -> Value:
        """A fully connected layer without bias on (1, features), as CNTK writes it."""
        name = self.unique("matmul", name)
        self.weight(f"{name}.weight", (x.shape[1], features), x.shape[1])
        return self.node(
            "MatMul", [x, f"{name}.weight"], (1, features), apply_weights(x.moments), name
        )

    # --- normalization --------------------------------------------------------------------------

    def batch_normalization(self, x: Value, epsilon: float = 1e-5) -> Value:
        """BatchNormalization whose statistics are those expected of x."""
        name = self.unique("bn")
        shape = (x.channels,)
        operands: list[Value | str] = [
            x,
            self.factor(f"{name}.scale", shape),
            self.offset(f"{name}.bias", shape),
        ]
        return self._normalized(x, name, operands, epsilon)

    def scaled_batch_normalization(self, x: Value, epsilon: float = 1e-5) -> Value:
        """BatchNormalization as Caffe's converter writes it: statistics alone, then a Mul and an
        Add by channel.
        """
        name = self.unique("bn")
        ones = np.ones(x.channels, np.float32)
        y = self._normalized(x, name, [x, self.constant(ones), self.constant(0 * ones)], epsilon)
        by_channel = (x.channels, 1, 1)
        y = self.node("Mul", [y, self.factor(f"{name}.scale", by_channel)])
        return self.node("Add", [y, self.offset(f"{name}.bias", by_channel)])

    def _normalized(
        self, x: Value, name: str, operands: list[Value | str], epsilon: float
    ) -> Value:
        """operands: x, scale and bias; mean and variance are those expected of x."""
        shape = (x.channels,)
        square = x.moments.square if x.by_channel is None else x.by_channel
        operands.append(self.offset(f"{name}.mean", shape, 0.05 * np.sqrt(square)))
        operands.append(self.factor(f"{name}.variance", shape, square))
        return self.node("BatchNormalization", operands, None, NORMAL, name, epsilon=epsilon)

    def lrn(
        self, x: Value, size: int = 5, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
    ) -> Value:
        """Local response normalization across channels."""
        moments = Moments(x.moments.mean / bias**beta, x.moments.square / bias ** (2 * beta))
        return self.node("LRN", [x], x.shape, moments, size=size, alpha=alpha, beta=beta, bias=bias)

    # --- activations ----------------------------------------------------------------------------

    def relu(self, x: Value) -> Value:
        return self._activation("relu", "Relu", [x])

    def relu6(self, x: Value) -> Value:
        """min(max(x, 0), 6)."""
        bounds = (self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self._activation("relu6", "Clip", [x, *bounds])

    def leaky_relu(self, x: Value) -> Value:
        """x, or a tenth of it where it is negative."""
        return self._activation("leaky_relu", "LeakyRelu", [x], alpha=0.1)

    def hard_swish(self, x: Value) -> Value:
        return self._activation("hard_swish", "HardSwish", [x])

    def silu(self, x: Value) -> Value:
        """x * sigmoid(x), as exporters write it."""
        return self._activation("silu", "Mul", [x, self.sigmoid(x)])

    def sigmoid(self, x: Value, name: str | None = None) -> Value:
        return self._activation("sigmoid", "Sigmoid", [x], name)

    def hard_sigmoid(self, x: Value) -> Value:
        """min(max(x / 6 + 1/2, 0), 1)."""
        return self._activation("hard_sigmoid", "HardSigmoid", [x], alpha=1 / 6, beta=0.5)

    def tanh(self, x: Value) -> Value:
        return self._activation("tanh", "Tanh", [x])

    def _activation(
        self,
        kind: str,
        op_type: str,
        operands: Sequence[Value | str],
        name: str | None = None,
        **attributes: Any,
    ) -> Value:
        """kind: what it computes, a key of `_moments.FUNCTIONS`, on the first operand."""
        x = operands[0]
        assert isinstance(x, Value)
        name = self.unique(op_type.lower(), name)
        return self.node(
            op_type, operands, x.shape, apply_activation(kind, x.moments), name, **attributes
        )

    def softmax(self, x: Value, name: str | None = None) -> Value:
        """Softmax over the channels."""
        return self.node("Softmax", [x], name=self.unique("softmax", name), axis=1)

    # --- pools ----------------------------------------------------------------------------------

    def max_pool(
        self,
        x: Value,
        kernel: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        *,
        ceil: bool = False,
        name: str | None = None,
        op_type: str = "MaxPool",
        **extra: int,
    ) -> Value:
        """The greatest value of every window; ceil: a last window may hang over the edge. op_type,
        extra: of another pool, and its attributes.
        """
        sizes, attributes = _window(x, _along(x, kernel), stride, padding, ceil=ceil)
        if ceil:
            attributes["ceil_mode"] = 1
        name = self.unique(op_type.lower(), name)
        return self.node(op_type, [x], (1, x.channels, *sizes), None, name, **attributes, **extra)

    def average_pool(
        self,
        x: Value,
        kernel: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        *,
        count_padding: bool = False,
    ) -> Value:
        """The mean of every window; count_padding: padded zeros count as elements of it."""
        extra: dict[str, Any] = {"count_include_pad": 1} if count_padding else {}
        return self.max_pool(x, kernel, stride, padding, op_type="AveragePool", **extra)

    def average_whole(self, x: Value) -> Value:
        """The mean of the map, as an AveragePool with a window of its size: what that pool is at
        the published size.
        """
        y = self.average_pool(x, (x.height, x.width))
        return replace(y, moments=average_map(x.moments))

    def global_average_pool(self, x: Value) -> Value:
        return self.node("GlobalAveragePool", [x], (1, x.channels, 1, 1), average_map(x.moments))

    # --- what depends on the image --------------------------------------------------------------

    def only_largest(self, shares: Value, count: int) -> Value:
        """Shares (1, n), of which the `count` largest are made to sum to 1 and the others are 0; of
        equal ones the first are kept.
        """
        name, shape = self.unique("topk"), (1, count)
        kept = Value(f"{name}_values", shape, shares.moments)
        indices = Value(f"{name}_indices", shape, dtype=TensorProto.INT64)
        number = self.constant(np.array([count], np.int64))
        self._add("TopK", [shares, number], [kept, indices], name, {"axis": 1})
        total = self.node("ReduceSum", [kept, self.constant(np.array([1]))], (1, 1), keepdims=1)
        kept = self.node("Div", [kept, total], moments=Moments(1 / count, 1 / count**2))
        part = count / shares.channels
        moments = Moments(part * kept.moments.mean, part * kept.moments.square)
        operands = [self.zeros(shares.shape), indices, kept]
        return self.node("ScatterElements", operands, shares.shape, moments, axis=1)

    def entropy(self, scores: Value) -> Value:
        """Of the probabilities that Softmax makes of scores, in nats, (1,)."""
        products = [self.softmax(scores), self.node("LogSoftmax", [scores], axis=1)]
        axes = self.constant(np.array([1]))
        total = self.node("ReduceSum", [self.node("Mul", products), axes], (1,), keepdims=0)
        return self.node("Neg", [total])

    def compared(self, op_type: str, x: Value, constant: float) -> Value:
        """Whether x is Greater or Less than a constant, element by element."""
        limit = self.constant(np.float32(constant))
        return self.node(op_type, [x, limit], dtype=TensorProto.BOOL)

    def either(
        self,
        condition: Value,
        then: Callable[[], Value],
        otherwise: Callable[[], Value],
        name: str | None = None,
    ) -> Value:
        """What `then` builds where the condition, of one element, holds, else what `otherwise`
        builds, of the same shape. Both may read all values from outside of them; weights stay outside,
        as exporters leave them there.
        """
        name = self.unique("if", name)
        branches = [self._branch(f"{name}_then", then), self._branch(f"{name}_else", otherwise)]
        (graph, result), (other, alternative) = branches
        assert result.shape == alternative.shape, f"{result.name} or {alternative.name}"
        attributes = {"then_branch": graph, "else_branch": other}
        return self.node("If", [condition], result.shape, result.moments, name, **attributes)

    def _branch(self, name: str, build: Callable[[], Value]) -> tuple[onnx.GraphProto, Value]:
        """A graph of its own with what is built, and its output."""
        outside = self._nodes, self._values
        graph = onnx.GraphProto(name=name)
        self._nodes, self._values = graph.node, {}
        result = build()
        if result.name not in self._values:  # a branch cannot hand out what it has not made
            result = self.node("Identity", [result])
        del self._values[result.name]
        graph.output.append(_info(result))
        graph.value_info.extend(map(_info, self._values.values()))
        self._nodes, self._values = outside
        return graph, result

    # --- joining and reshaping ------------------------------------------------------------------

    def add(self, a: Value, b: Value, *, op_type: str = "Add", name: str | None = None) -> Value:
        """a + b of equal shapes; op_type "Sum" where the source writes it so."""
        assert a.shape == b.shape, f"{a.name} {a.shape} + {b.name} {b.shape}"
        name = self.unique("add", name)
        return self.node(op_type, [a, b], a.shape, add(a.moments, b.moments), name)

    def add_constant(self, x: Value, shape: Shape, name: str | None = None) -> Value:
        """x plus a learned array that broadcasts: a bias written as a node of its own."""
        name = self.unique("add", name)
        return self.node("Add", [x, self.offset(f"{name}.bias", shape)], name=name)

    def normalized(self, x: Value, **steps: float) -> Value:
        """x after one step by a constant for each option (Sub=127.5, Div=255, ...), which brings
        pixels near 1.
        """
        for op_type, constant in steps.items():
            x = self.node(op_type, [x, self.constant(np.float32(constant))])
        return x

    def gate(self, x: Value, factor: Value) -> Value:
        """x times a factor between 0 and 1 for every channel."""
        return self.node("Mul", [x, factor], x.shape, scale(x.moments, factor.moments))

    def excited(self, x: Value, squeezed: int, activation: Activation, limit: Activation) -> Value:
        """x scaled by channel (squeeze and excite): the means of its maps through two 1x1
        convolutions, with so many channels between them. limit: brings factors between 0 and 1.
        """
        y = activation(self.conv(self.global_average_pool(x), squeezed, 1))
        return self.gate(x, limit(self.conv(y, x.channels, 1)))

    def concat(self, values: Sequence[Value], name: str | None = None) -> Value:
        """Values one behind the other along the channels. Raises SizeError where their rows or
        columns differ.
        """
        first = values[0]
        for value in values[1:]:
            if value.shape[2:] != first.shape[2:]:
                raise SizeError(
                    f"maps of {first.height}x{first.width} and {value.height}x{value.width} cannot be joined"
                )
        channels = sum(value.channels for value in values)
        sums = (sum(v.moments[k] * v.channels for v in values) for k in range(2))
        moments = Moments(*(total / channels for total in sums))
        name = self.unique("concat", name)
        return self.node("Concat", values, (1, channels, *first.shape[2:]), moments, name, axis=1)

    def reshape(self, x: Value, shape: Shape, name: str | None = None) -> Value:
        sizes = self.constant(np.array(shape, np.int64))
        return self.node("Reshape", [x, sizes], shape, name=self.unique("reshape", name))

    def rows_of(self, x: Value) -> Value:
        """(1, everything): a Reshape in front of a fully connected layer, as Caffe's converter
        writes it.
        """
        return self.reshape(x, (1, prod(x.shape[1:])))

    def flatten(self, x: Value, name: str | None = None) -> Value:
        """(1, everything): a Flatten, as newer exporters write it."""
        name = self.unique("flatten", name)
        return self.node("Flatten", [x], (1, prod(x.shape[1:])), name=name, axis=1)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        shape = tuple(x.shape[axis] for axis in order)
        return self.node("Transpose", [x], shape, perm=list(order))

    def shuffle(self, x: Value, groups: int) -> Value:
        """Channels of `groups` groups dealt out in turn (ShuffleNet): Reshape, Transpose, Reshape."""
        split = self.reshape(x, (1, groups, x.channels // groups, *x.shape[2:]))
        return self.reshape(self.transpose(split, (0, 2, 1, 3, 4)), x.shape)

    def split(self, x: Value, parts: int) -> tuple[Value, ...]:
        """Equal parts of the channels."""
        size = x.channels // parts
        name = self.unique("split")
        shape = (1, size, *x.shape[2:])
        values = tuple(Value(f"{name}_{part}", shape, x.moments) for part in range(parts))
        sizes = self.constant(np.full(parts, size, np.int64))
        self._add("Split", [x, sizes], values, name, {"axis": 1})
        return values

    def dropout(self, x: Value, ratio: float = 0.5) -> Value:
        """Dropout, which does nothing at inference; kept because published files have it."""
        return self.node("Dropout", [x, self.constant(np.float32(ratio))])

    def pad(self, x: Value, amount: int, name: str | None = None) -> Value:
        """Zeros around the map, or less of it where the amount is negative."""
        height, width = (size + 2 * amount for size in x.shape[2:])
        if min(height, width) < 1:
            raise SizeError(
                f"{-amount} rows and columns at every edge of {x.height}x{x.width} leave nothing"
            )
        pads = self.constant(np.array([0, 0, amount, amount] * 2, np.int64))
        shape = (1, x.channels, height, width)
        return self.node("Pad", [x, pads], shape, name=self.unique("pad", name))

    def upsample(self, x: Value, scale: int) -> Value:
        """Every element repeated `scale` times along rows and columns."""
        scales = self.constant(np.array([1, 1, scale, scale], np.float32))
        shape = (1, x.channels, scale * x.height, scale * x.width)
        how: dict[str, Any] = {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        return self.node("Resize", [x, "", scales], shape, **how)

    def interpolate(self, x: Value, height: int, width: int, name: str | None = None) -> Value:
        """Bilinear interpolation to a size, pixel centres at halves."""
        shape = (1, x.channels, height, width)
        sizes = self.constant(np.array(shape, np.int64))
        how: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        name = self.unique("resize", name)
        return self.node("Resize", [x, "", "", sizes], shape, name=name, **how)


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, value.dtype, value.shape)


def _along(x: Value, sizes: Sizes) -> tuple[int, ...]:
    """Sizes along every axis of a map behind its channels."""
    return (sizes,) * (len(x.shape) - 2) if isinstance(sizes, int) else sizes


def _window(
    x: Value,
    kernel: tuple[int, ...],
    stride: Sizes,
    padding: Padding,
    *,
    dilation: int = 1,
    ceil: bool = False,
) -> tuple[Shape, dict[str, Any]]:
    """Sizes of the result of a sliding window, and its ONNX attributes. Raises SizeError where none
    fits.
    """
    steps = _along(x, stride)
    attributes: dict[str, Any] = {"kernel_shape": list(kernel), "strides": list(steps)}
    if dilation > 1:
        attributes["dilations"] = [dilation] * len(kernel)
    if isinstance(padding, str):
        sizes = tuple(-(-size // step) for size, step in zip(x.shape[2:], steps, strict=True))
        return sizes, {**attributes, "auto_pad": padding}
    around = _along(x, padding)
    begins, ends = around[: len(kernel)], around[-len(kernel) :]
    attributes["pads"] = [*begins, *ends]
    found = []
    axes = zip(x.shape[2:], kernel, steps, begins, ends, strict=True)
    for size, extent, step, begin, end in axes:
        reach = (extent - 1) * dilation + 1
        if size + begin + end < reach:
            raise SizeError(
                f"a window of {reach} does not fit into {size} and {begin + end} of padding"
            )
        free = size + begin + end - reach
        found.append((-(-free // step) if ceil else free // step) + 1)
    return tuple(found), attributes
