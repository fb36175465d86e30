"""Which plans of a network are beaten by other plans of the same network? None of a front, of a budget or of the default
may be, whatever options made the other plan: `python -m tests.beaten [NAME ...]` prints those of built-in networks.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import onnx

import csdfgen
from csdfgen.devices.catalogue import device
from csdfgen.devices.model import estimate
from csdfgen.errors import PlanError
from csdfgen.model.network import Network
from tests.builder import Graph

__all__ = ["Made", "beaten", "network", "plans"]

EQUAL = 1 - 1e-8
"""Sums of the same times in another order differ in their last digits."""

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {}, "memory": {"goal": "memory"}, "speed": {"goal": "speed"}, "exact": {"exact": True}, "rows 1": {"rows": "1"},
    "rows whole": {"rows": "whole"},
}  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A plan by the name of its options. lawful: no other plan may beat it."""

    name: str
    bytes: int
    seconds: float
    lawful: bool
    rows: str = ""

    def beats(self, other: Made) -> bool:
        """Strictly better in bytes or time, and not worse in the other."""
        no_worse = self.bytes <= other.bytes and self.seconds * EQUAL <= other.seconds
        return no_worse and (self.bytes < other.bytes or self.seconds < other.seconds * EQUAL)

    def __str__(self) -> str:
        return f"{self.name} ({self.bytes:,} bytes, {1e3 * self.seconds:.6g} ms)"


def plans(net: Network, backend: str = "native") -> list[Made]:
    """The plans of a network by all goals, by budgets of their sizes, and of its front."""
    profile = device(f"{backend}-core")

    def made(name: str, lawful: bool, **given: Any) -> Made:
        plan = csdfgen.plan(net, backend=backend, **given)
        seconds = estimate(plan, profile).seconds
        return Made(name, plan.total_bytes, seconds, lawful, plan.options.rows)

    found = [
        made(name, name == "default", **given)
        for name, given in OPTIONS.items()
        if backend == "native" or name != "exact"
    ]
    for size in sorted({one.bytes for one in found}):
        try:
            found.append(made(f"memory {size}", True, memory=size))
        except PlanError:  # there is a plan of this size
            found.append(Made(f"memory {size}, refused", size, inf, True))
    found += [
        Made(f"front {at}", one.bytes, one.seconds, True, one.plan.options.rows)
        for at, one in enumerate(csdfgen.pareto(net, backend=backend))
    ]
    return found


def beaten(found: list[Made]) -> Iterator[str]:
    """Who is beaten by whom, and the default where it takes more memory than whole layers."""
    whole = next(one.bytes for one in found if one.name == "rows whole")
    for one in found:
        others = [other for other in found if one.lawful and other.beats(one)]
        if others:
            yield f"{one} is beaten by {min(others, key=lambda other: (other.seconds, other.bytes))}"
        if one.name == "default" and one.bytes > whole:
            yield f"{one} is above the {whole:,} bytes of whole layers"


def network(seed: int) -> onnx.ModelProto:
    """A small network: convolutions, an encoder, or a recurrent layer over a sequence."""
    rng, g = random.Random(seed), Graph(seed)
    return rng.choice((_convolutional, _convolutional, _encoder, _recurrent))(rng, g)


def _convolutional(rng: random.Random, g: Graph) -> onnx.ModelProto:
    x = g.input("x", (1, 3, rng.choice((16, 33, 64)), rng.choice((16, 48))))
    for _ in range(rng.randint(2, 7)):
        kind, out = (
            rng.choice(("conv", "deep", "residual", "branches", "gate")),
            rng.choice((8, 24, 40)),
        )
        strides = [rng.choice((1, 1, 2))] * 2
        if kind == "conv":
            x = g.node("Relu", g.conv(x, out, rng.choice((1, 3, 5)), strides=strides))
        elif kind == "deep":
            wide = g.node("Relu", g.conv(x, 2 * out, 1))
            x = g.conv(
                g.node("Relu", g.conv(wide, 2 * out, group=2 * out, strides=strides)), out, 1
            )
        elif kind == "residual":
            x = g.node("Add", x, g.conv(g.node("Relu", g.conv(x, g.channels[x])), g.channels[x]))
        elif kind == "branches":
            parts = [g.conv(x, out, kernel, strides=strides) for kernel in (1, 3)]
            x = g.node("Concat", *parts, channels=2 * out, axis=1)
        else:
            x = g.node(
                "Mul",
                x,
                g.node("Sigmoid", g.conv(g.node("GlobalAveragePool", x), g.channels[x], 1)),
            )
    return g.model(g.node("GlobalAveragePool", x) if rng.random() < 0.6 else x)


def _weight(g: Graph, *shape: int) -> str:
    return g.constant(g.rng.normal(0, 0.1, shape).astype(np.float32))


def _encoder(rng: random.Random, g: Graph) -> onnx.ModelProto:
    steps, heads, each = rng.choice((17, 50)), rng.choice((2, 4)), rng.choice((8, 16))
    wide = heads * each
    x = g.input("x", (1, steps, wide))
    for _ in range(rng.randint(1, 3)):
        y = g.node("LayerNormalization", x, _weight(g, wide), _weight(g, wide), axis=-1)
        shape = g.constant(np.array([1, steps, heads, each]))
        q, k, v = (
            g.node(
                "Transpose",
                g.node("Reshape", g.node("MatMul", y, _weight(g, wide, wide)), shape),
                perm=perm,
            )
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = g.node(
            "Softmax",
            g.node("Mul", g.node("MatMul", q, k), g.constant(np.array(each**-0.5, np.float32))),
            axis=-1,
        )
        y = g.node("Transpose", g.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        y = g.node("Reshape", y, g.constant(np.array([1, steps, wide])))
        x = g.node("Add", x, g.node("MatMul", y, _weight(g, wide, wide)))
        y = g.node("LayerNormalization", x, _weight(g, wide), _weight(g, wide), axis=-1)
        y = g.node(
            "MatMul",
            g.node("Relu", g.node("MatMul", y, _weight(g, wide, 4 * wide))),
            _weight(g, 4 * wide, wide),
        )
        x = g.node("Add", x, y)
    return g.model(x)


def _recurrent(rng: random.Random, g: Graph) -> onnx.ModelProto:
    steps, wide, hidden = rng.choice((20, 64)), rng.choice((16, 40)), rng.choice((16, 32))
    both = rng.choice((1, 2))
    x = g.input("x", (steps, 1, wide))
    for _ in range(rng.randint(1, 2)):
        weights = [_weight(g, both, 4 * hidden, n) for n in (wide, hidden)]
        y = g.node(
            "LSTM",
            x,
            *weights,
            _weight(g, both, 8 * hidden),
            hidden_size=hidden,
            direction=("forward", "bidirectional")[both - 1],
        )
        y = g.node(
            "Reshape",
            g.node("Transpose", y, perm=[0, 2, 1, 3]),
            g.constant(np.array([steps, 1, both * hidden])),
        )
        x, wide = y, both * hidden
    return g.model(g.node("MatMul", x, _weight(g, wide, 12)))


def main(names: list[str]) -> None:
    """Print, for each built-in network (or model file, or seed), its plans and who is beaten by whom."""
    for name in names:
        model: Any = (
            network(int(name)) if name.isdigit() else name if "." in name else f"zoo:{name}"
        )
        net = csdfgen.load(model)
        found = plans(net)
        lines = list(beaten(found))
        print(f"{name}: {len(found)} plans, {len(lines)} beaten", *lines, sep="\n    ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
