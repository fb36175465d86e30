"""Random networks that stream: strides and resizes, skips over them, pads of every kind, joined channels, states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx

from tests.builder import Graph, reference

__all__ = ["Streaming", "draw_passes", "draw_sized", "draw_streaming", "fix_sizes"]

WIDTHS = 6, 1, 5, 7, 9, 19, 33
CHANNELS = 2, 4, 1, 3, 5, 7, 17
"""Whole vectors, and what is no multiple of any."""

Tensor = str


class Streaming(NamedTuple):
    """A network at any height that is a multiple of `step`."""

    at: Callable[[int], onnx.ModelProto]
    step: int


class _Growing:
    """A network in the making. image: whether rows have columns. scale: rows of the input for one of the tensor. step: of all
    of them, the largest.
    """

    def __init__(self, seed: int, rows: int) -> None:
        self.rng, self.graph = np.random.default_rng(seed), Graph(seed, opset=19)
        self.image = bool(self.rng.random() < 0.7)
        self.scale = self.step = 1
        channels = int(self.rng.integers(1, 5))
        self.x = self.graph.input("x", (1, channels, rows, self.pick(*WIDTHS))[: 3 + self.image])
        self.others: list[Tensor] = []

    def pick(self, *values: int) -> int:
        return int(self.rng.choice(values))

    @property
    def channels(self) -> int:
        return self.graph.channels[self.x]

    def window(
        self,
        kind: str,
        size: int,
        *,
        channels: int,
        stride: int = 1,
        begin: int = 0,
        end: int = 0,
        dilation: int = 1,
        aside: int = 1,
        group: int = 1,
    ) -> Tensor:
        """A convolution or a pool along the rows, of three columns. aside: stride along columns."""
        across = 3 if self.image and kind == "Conv" else 1
        graph, shape = self.graph, [size, across][: 1 + self.image]
        side = [across // 2][: self.image]
        attributes: dict[str, Any] = {
            "kernel_shape": shape,
            "strides": [stride, aside][: 1 + self.image],
            "pads": [begin, *side, end, *side],
        }
        if kind.startswith("Conv"):
            attributes["dilations"] = [dilation, 1][: 1 + self.image]
            attributes["group"] = group
            sizes = (
                (self.channels, channels)
                if kind == "ConvTranspose"
                else (channels, self.channels // group)
            )
            scale = np.sqrt(size * across * self.channels)
            weights = self.rng.standard_normal((*sizes, *shape)) / scale
            return graph.node(
                kind,
                self.x,
                graph.constant(weights.astype(np.float32)),
                channels=channels,
                **attributes,
            )
        return graph.node(kind, self.x, **attributes)

    # Patterns, each of which puts something behind the network ------------------------------------

    def convolve(self) -> None:
        """Same rows: both sides, or those before alone."""
        size, dilation = self.pick(1, 3, 5), self.pick(1, 1, 2, 4)
        pad = (size - 1) * dilation
        begin, apart = self.pick(pad, pad // 2), self.pick(0, 0, 1)
        self.x = self.window(
            "Conv",
            size,
            channels=self.channels if apart else self.pick(*CHANNELS),
            begin=begin,
            end=pad - begin,
            dilation=dilation,
            group=self.channels if apart else 1,
        )

    def activate(self) -> None:
        self.x = self.graph.node(
            str(self.rng.choice(["Relu", "Sigmoid", "Tanh", "HardSwish"])), self.x
        )

    def pool(self) -> None:
        kind = str(self.rng.choice(["MaxPool", "AveragePool"]))
        self.x = self.window(kind, 3, channels=self.channels, begin=1, end=1)

    def pad(self) -> None:
        """Rows in front and behind, of which a window takes as many away."""
        mode = str(self.rng.choice(["constant", "edge", "reflect"]))
        begin, end = self.pick(0, 1, 2, 3), self.pick(0, 1, 2)
        sides = [0] * self.image
        pads = self.graph.constant(np.array([0, 0, begin, *sides, 0, 0, end, *sides], np.int64))
        self.x = self.graph.node("Pad", self.x, pads, mode=mode)
        self.x = self.window("Conv", begin + end + 1, channels=3)

    def add(self) -> None:
        before, self.x = self.x, self.window("Conv", 3, channels=self.channels, begin=1, end=1)
        self.x = self.graph.node("Add", before, self.x)

    def join(self) -> None:
        before = self.x
        self.convolve()
        channels = self.graph.channels[before] + self.channels
        self.x = self.graph.node("Concat", before, self.x, axis=1, channels=channels)

    def go_down(self, aside: int = 1) -> None:
        kind = str(self.rng.choice(["Conv", "MaxPool", "AveragePool"]))
        size = self.pick(2, 4)
        pad = (size - 2) // 2
        self.x = self.window(
            kind, size, channels=self.channels, stride=2, begin=pad, end=pad, aside=aside
        )
        self.scale *= 2
        self.step = max(self.step, self.scale)

    def go_up(self) -> None:
        self.scale //= 2
        kind = str(self.rng.choice(["nearest", "linear", "transposed"]))
        if kind == "transposed":
            self.x = self.window(
                "ConvTranspose", 4, channels=self.channels, stride=2, begin=1, end=1
            )
            return
        scales = self.graph.constant(np.array([1, 1, 2, 1][: 3 + self.image], np.float32))
        where = "asymmetric" if kind == "nearest" else "half_pixel"
        attributes: dict[str, Any] = {
            "mode": kind,
            "coordinate_transformation_mode": where,
            "nearest_mode": "floor",
        }
        self.x = self.graph.node("Resize", self.x, "", scales, **attributes)

    def skip(self) -> None:
        """Down, something, and up again to what was before."""
        before = self.x
        self.go_down()
        self.grow(self.pick(1, 2))
        self.go_up()
        channels = self.graph.channels[before] + self.channels
        self.x = self.graph.node("Concat", before, self.x, axis=1, channels=channels)

    def remember(self) -> None:
        """A state along the rows."""
        graph, size, kind = self.graph, 3, str(self.rng.choice(["GRU", "LSTM", "RNN"]))
        gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[kind] * size
        w, r = (
            graph.constant((self.rng.standard_normal((1, gates, n)) / 2).astype(np.float32))
            for n in (self.channels, size)
        )
        steps = graph.node("Transpose", self.x, perm=[2, 0, 1])
        steps = graph.node(kind, steps, w, r, hidden_size=size)
        steps = graph.node("Squeeze", steps, graph.constant(np.array([1], np.int64)))
        self.x = graph.node("Transpose", steps, perm=[1, 2, 0], channels=size)

    def sum_up(self) -> None:
        """Sums so far, of what is small."""
        graph, axis = self.graph, self.graph.constant(np.array(2))
        less = graph.node("Mul", self.x, graph.constant(np.float32(0.05)))
        self.x = graph.node("CumSum", less, axis, exclusive=self.pick(0, 1))

    def depend(self) -> None:
        """Rows on a result of all of them: weights of channels, a normalization, or weights of rows."""
        graph, channels = self.graph, self.channels
        kind = str(self.rng.choice(["Mean", "Average", "Max", "InstanceNormalization", "Softmax"]))
        if kind == "InstanceNormalization":
            some = (self.rng.standard_normal(channels).astype(np.float32) for _ in range(2))
            self.x = graph.node(kind, self.x, *map(graph.constant, some))
        elif kind == "Softmax":
            self.x = graph.node("Mul", self.x, graph.node(kind, self.x, axis=2))
        else:
            axes = graph.constant(np.array([2, 3][: 1 + self.image]))
            mean = (
                graph.node("ReduceMean", self.x, axes)
                if kind == "Mean"
                else graph.node(f"Global{kind}Pool", self.x)
            )
            self.x = graph.node("Mul", self.x, graph.node("Sigmoid", mean))

    def grow(self, count: int) -> None:
        plain = [
            self.convolve,
            self.convolve,
            self.activate,
            self.pool,
            self.pad,
            self.add,
            self.join,
        ]
        for _ in range(count):
            some = [*plain, self.skip] if self.scale <= 2 else plain
            some[int(self.rng.integers(len(some)))]()


class _Sized(_Growing):
    """One that computes sizes from those of its tensors, as exporters write them with a free height."""

    def sizes(self, x: Tensor, *wanted: int | tuple[int, int, int]) -> Tensor:
        """A shape: numbers, or (axis, factor, divisor)."""
        graph, parts = self.graph, list[Tensor]()
        for one in wanted:
            if isinstance(one, int):
                parts.append(graph.constant(np.array([one], np.int64)))
                continue
            axis, factor, divisor = one
            size = graph.node("Gather", graph.node("Shape", x), self.integers(axis))
            size = graph.node("Mul", size, self.integers(factor))
            parts.append(graph.node("Div", size, self.integers(divisor)))
        return graph.node("Concat", *parts, axis=0)

    def integers(self, *values: int) -> Tensor:
        return self.graph.constant(np.array(values, np.int64))

    def reshape(self, channels: int, *axes: int | tuple[int, int, int]) -> None:
        self.x = self.graph.node("Reshape", self.x, self.sizes(self.x, 1, *axes), channels=channels)

    def columns(self, factor: int, divisor: int) -> list[tuple[int, int, int]]:
        return [(3, factor, divisor)] * self.image

    def go_up(self) -> None:
        """To a size; or channels become rows."""
        kind, channels = self.pick(0, 1, 2), self.channels
        if kind == 0:
            super().go_up()
            return
        self.scale //= 2
        if kind == 1:
            sizes = self.sizes(self.x, 1, channels, (2, 2, 1), *self.columns(1, 1))
            some = str(self.rng.choice(["nearest", "linear"]))
            where = "asymmetric" if some == "nearest" else "half_pixel"
            given = {"mode": some, "nearest_mode": "floor"}
            self.x = self.graph.node(
                "Resize", self.x, "", "", sizes, coordinate_transformation_mode=where, **given
            )
            return
        self.x = self.window("Conv", 1, channels=2 * channels)
        self.reshape(channels, channels, 2, (2, 1, 1), *self.columns(1, 1))
        self.x = self.graph.node("Transpose", self.x, perm=[0, 1, 3, 2, 4][: 4 + self.image])
        rows = self.sizes(self.x, 1, channels, (2, 2, 1), *[(4, 1, 1)] * self.image)
        self.x = self.graph.node("Reshape", self.x, rows, channels=channels)

    def go_down(self, aside: int = 1) -> None:
        """By a stride; or rows become channels."""
        if aside > 1 or self.pick(0, 1):
            super().go_down(aside)
            return
        channels = self.channels
        self.reshape(channels, channels, (2, 1, 2), 2, *self.columns(1, 1))
        self.x = self.graph.node("Transpose", self.x, perm=[0, 1, 3, 2, 4][: 4 + self.image])
        rows = self.sizes(self.x, 1, 2 * channels, (3, 1, 1), *[(4, 1, 1)] * self.image)
        self.x = self.graph.node("Reshape", self.x, rows, channels=2 * channels)
        self.x = self.window("Conv", 1, channels=channels)
        self.scale *= 2
        self.step = max(self.step, self.scale)

    def pad(self) -> None:
        """More rows in front and behind than a window takes away, and those cut off."""
        before, (front, behind) = self.x, (self.pick(1, 2, 3), self.pick(0, 1, 3))
        x = self.window("Conv", 3, channels=self.channels, begin=front + 1, end=behind + 1)
        ends = self.graph.node("Add", self.sizes(before, (2, 1, 1)), self.integers(front))
        self.x = self.graph.node("Slice", x, self.integers(front), ends, self.integers(2))

    def pool(self) -> None:
        """Pixels as a list, mixed as such; with columns of a constant."""
        if self.image and self.pick(0, 1):
            channels = self.channels
            before = self.x
            self.reshape(channels, channels, -1)
            self.x = self.graph.node("Tanh", self.x)
            rows = self.sizes(before, 1, channels, (2, 1, 1), (3, 1, 1))
            self.x = self.graph.node("Reshape", self.x, rows, channels=channels)
            return
        super().pool()


def fix_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as it is exported for its height alone: sizes that it computes are numbers."""
    made, watched = onnx.ModelProto(), onnx.ModelProto()
    made.CopyFrom(model)
    watched.CopyFrom(model)
    computed = [n for n in model.graph.node if n.op_type in ("Concat", "Add")]
    names = [n.output[0] for n in computed if _is_size(model, n.output[0])]
    del watched.graph.output[:]
    integers = onnx.TensorProto.INT64
    watched.graph.output.extend(
        onnx.helper.make_tensor_value_info(n, integers, None) for n in names
    )
    feeds = {
        i.name: np.zeros([d.dim_value for d in i.type.tensor_type.shape.dim], np.float32)
        for i in model.graph.input
    }
    values = reference(watched, feeds) if names else {}
    kept = [n for n in made.graph.node if n.output[0] not in values]
    del made.graph.node[:]
    made.graph.node.extend(kept)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in values.items())
    return made


def _is_size(model: onnx.ModelProto, name: str) -> bool:
    """Whether a Reshape, a Resize or a Slice takes it for sizes."""
    return any(
        name in n.input[1:] for n in model.graph.node if n.op_type in ("Reshape", "Resize", "Slice")
    )


def _grown(seed: int, rows: int, kind: type[_Growing] = _Growing) -> tuple[onnx.ModelProto, int]:
    net = kind(seed, rows)
    sums = net.pick(0, 0, 0, 1, 2)  # in front of the first window, or behind some
    if sums == 1:
        net.sum_up()
    net.grow(net.pick(1, 2, 3))
    if net.pick(0, 1):
        net.go_down(net.pick(1, 2))
        net.grow(1)
    if not net.image and net.pick(0, 1):
        net.remember()
    if sums == 2:
        net.sum_up()
    before = net.x
    net.grow(net.pick(1, 2))
    net.convolve()
    outputs = [before] if net.pick(0, 0, 0, 1) and before not in ("x", net.x) else []
    return net.graph.model(*outputs, net.x, checked=False), net.step


def _depending(seed: int, rows: int) -> tuple[onnx.ModelProto, int]:
    net = _Growing(seed, rows)
    for _ in range(net.pick(1, 1, 2)):
        net.grow(net.pick(1, 2))
        net.depend()
    net.convolve()
    return net.graph.model(net.x, checked=False), net.step


def draw_passes(seed: int) -> Streaming:
    """A random network whose rows have to be read two or three times."""
    return Streaming(lambda rows: _depending(seed, rows)[0], _depending(seed, 64)[1])


def draw_sized(seed: int) -> Streaming:
    """A random network that computes sizes from those of its tensors."""
    return Streaming(lambda rows: _grown(seed, rows, _Sized)[0], _grown(seed, 64, _Sized)[1])


def draw_streaming(seed: int) -> Streaming:
    """A random network."""
    return Streaming(lambda rows: _grown(seed, rows)[0], _grown(seed, 64)[1])
