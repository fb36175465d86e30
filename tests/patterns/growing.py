"""A network under construction: what patterns draw, the nodes they add, the tensors between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from tests.builder import Graph

__all__ = ["Growing", "Map", "Pattern", "Signal", "Tokens", "Value"]

LARGEST_SIDE = 20
LARGEST_CHANNELS = 8

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Map:
    """An image of features, 1xCxHxW."""

    name: str
    channels: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, self.channels, self.height, self.width


@dataclass(frozen=True)
class Tokens:
    """Vectors of a sequence, 1xTxC: the input of attention, of recurrent layers, and of linear ones."""

    name: str
    length: int
    channels: int

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, self.length, self.channels


@dataclass(frozen=True)
class Signal:
    """Channels over time, 1xCxL: the input of 1-D convolutions."""

    name: str
    channels: int
    length: int

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, self.channels, self.length


Value = Map | Tokens | Signal
Pattern = Callable[["Growing", Any], Value]
"""Adds nodes behind a value of the kind that it takes, and returns what the network goes on with."""


class Growing:
    """Draws choices, adds nodes, follows shapes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        opset = draw(st.sampled_from((17, 17, 20, 23)))
        self.graph = Graph(seed=draw(st.integers(0, 2**16)), opset=opset)
        self.conditions = 0

    # Choices

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def pick(self, *choices: Choice) -> Choice:
        return self.draw(st.sampled_from(choices))

    def divisor(self, number: int) -> int:
        return self.pick(*(n for n in range(1, number + 1) if number % n == 0))

    # Constants

    def weights(self, shape: tuple[int, ...], fan_in: int) -> str:
        return self.graph.constant(
            self.graph.rng.normal(0, (1.5 / fan_in) ** 0.5, shape).astype(np.float32)
        )

    def uniform(self, shape: tuple[int, ...], low: float = -0.2, high: float = 0.2) -> str:
        return self.graph.constant(self.graph.rng.uniform(low, high, shape).astype(np.float32))

    def vector(self, length: int, low: float = -0.2, high: float = 0.2) -> str:
        return self.uniform((length,), low, high)

    def scalar(self, value: float) -> str:
        return self.graph.constant(np.float32(value))

    def ints(self, *values: int) -> str:
        return self.graph.constant(np.array(values, np.int64))

    def index(self, value: int) -> str:
        return self.graph.constant(np.array(value, np.int64))

    # Nodes

    def image(self, name: str, channels: int, height: int, width: int) -> Map:
        self.graph.input(name, (1, channels, height, width))
        return Map(name, channels, height, width)

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output: its name."""
        return self.graph.node(op_type, *inputs, **attributes)

    def parts(self, op_type: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node with several outputs: their names."""
        first = self.graph.node(op_type, *inputs, outputs=count, **attributes)
        stem = first.removesuffix("0")
        return [f"{stem}{k}" for k in range(count)]

    def same(self, op_type: str, x: Map, *operands: str, **attributes: Any) -> Map:
        """A node whose output has the shape of its first input."""
        return replace(x, name=self.op(op_type, x.name, *operands, **attributes))

    def shaped(
        self, name: str, x: Map, channels: int, height: int | None = None, width: int | None = None
    ) -> Map:
        self.graph.channels[name] = channels
        return Map(
            name,
            channels,
            x.height if height is None else height,
            x.width if width is None else width,
        )

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        if self.chance() or len(sizes) == 1:
            ends = np.cumsum(sizes)
            return [
                self.sliced(x, axis, int(end) - size, int(end))
                for end, size in zip(ends, sizes, strict=True)
            ]
        return self.parts("Split", len(sizes), x, self.ints(*sizes), axis=axis)

    def sliced(self, x: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        return self.op(
            "Slice", x, self.ints(start), self.ints(stop), self.ints(axis), self.ints(step)
        )

    def reduced(self, op_type: str, x: str, axes: Sequence[int], keep: bool = True) -> str:
        """A reduction; its axes are an attribute before opset 18, an input since."""
        if self.graph.opset < 18 and op_type != "ReduceSum":
            return self.op(op_type, x, axes=list(axes), keepdims=int(keep))
        return self.op(op_type, x, self.ints(*axes), keepdims=int(keep))

    def reshaped(self, x: str, old: Sequence[int], new: Sequence[int]) -> str:
        """A Reshape as exporters write it: to constants, with a -1, with a 0, or to a shape that nodes compute."""
        new = list(new)
        assert prod(old) == prod(new), (old, new)
        style = self.pick("plain", "rest", "kept", "computed")
        if style == "rest":
            new[self.number(0, len(new) - 1)] = -1
        elif style == "kept":
            new = [
                0 if k < len(old) and old[k] == size and size else size
                for k, size in enumerate(new)
            ]
        elif style == "computed":
            return self.op("Reshape", x, self.computed_shape(x, old, new))
        return self.op("Reshape", x, self.ints(*new))

    def computed_shape(self, x: str, old: Sequence[int], new: Iterable[int]) -> str:
        """A shape of which sizes that a tensor has are taken from it: Shape, Gather, Unsqueeze, Concat."""
        shape, sizes = self.op("Shape", x), []
        for size in new:
            if size not in old:
                sizes.append(self.ints(size))
                continue
            one = self.op("Gather", shape, self.index(list(old).index(size)), axis=0)
            sizes.append(self.op("Unsqueeze", one, self.ints(0)))
        return self.op("Concat", *sizes, axis=0)
