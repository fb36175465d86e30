"""CNN-like graphs of any size for analysis: chains, residual, inception and dense blocks, one output row a phase.

3x3 convolutions, pad 1: a layer waits for two rows first, then one a phase, and keeps two rows in an overlap self-loop
(docs/model.md); a pooling layer halves the rows. Times are drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from csdfgen.graph import Actor, Channel, CsdfGraph, with_serial_loops

__all__ = ["SHAPES", "cnn_graph"]


class _Builder:
    """A graph under construction: rows that every actor produces."""

    def __init__(self, seed: int, rows: int, overlap: bool) -> None:
        self.random = random.Random(seed)
        self.overlap = overlap
        self.actors: list[Actor] = []
        self.channels: list[Channel] = []
        self.rows: dict[str, int] = {}
        self.add("src", rows)

    def add(self, name: str, rows: int) -> str:
        self.actors.append(Actor(name, (self.random.randint(1, 9),) * rows))
        self.rows[name] = rows
        return name

    def connect(self, source: str, target: str, consumption: tuple[int, ...]) -> None:
        name = f"{source}_{target}"
        self.channels.append(Channel(name, source, target, (1,) * self.rows[source], consumption))

    def convolution(self, name: str, *sources: str) -> str:
        rows = self.rows[sources[0]]
        self.add(name, rows)
        for source in sources:
            self.connect(source, name, (2, *(1,) * (rows - 2), 0))
            if self.overlap:
                kept = (2,) * (rows - 1)
                self.channels.append(Channel(f"kept_{source}_{name}", name, name, (*kept, 0), (0, *kept), kind="overlap"))
        return name

    def pointwise(self, name: str, *sources: str) -> str:
        rows = self.rows[sources[0]]
        self.add(name, rows)
        for source in sources:
            self.connect(source, name, (1,) * rows)
        return name

    def pool(self, name: str, source: str) -> str:
        rows = self.rows[source] // 2
        self.add(name, rows)
        self.connect(source, name, (2,) * rows)
        return name


def _chain(build: _Builder, layers: int) -> str:
    last = "src"
    for number in range(layers):
        if number % 5 == 2 and build.rows[last] >= 8:
            last = build.pool(f"pool{number}", last)
        else:
            last = build.convolution(f"conv{number}", last)
    return last


def _residual(build: _Builder, layers: int) -> str:
    last = "src"
    for number in range(0, layers, 3):
        inner = build.convolution(f"b{number}", build.convolution(f"a{number}", last))
        last = build.pointwise(f"add{number}", inner, last)
    return last


def _inception(build: _Builder, layers: int) -> str:
    last = "src"
    for number in range(0, layers, 4):
        one = build.pointwise(f"one{number}", last)
        three = build.convolution(f"three{number}", last)
        five = build.convolution(f"five{number}", build.convolution(f"four{number}", last))
        last = build.pointwise(f"join{number}", one, three, five)
    return last


def _dense(build: _Builder, layers: int) -> str:
    made = ["src"]
    for number in range(layers):
        made.append(build.convolution(f"d{number}", *made[-4:]))
    return build.pointwise("join", *made[-4:])


SHAPES: Mapping[str, Callable[[_Builder, int], str]] = MappingProxyType(
    {"chain": _chain, "residual": _residual, "inception": _inception, "dense": _dense}
)


def cnn_graph(shape: str, layers: int, rows: int, *, seed: int = 1, overlap: bool = True) -> CsdfGraph:
    """A graph of about so many layers, every actor with a serial self-loop."""
    build = _Builder(seed, rows, overlap)
    build.pointwise("snk", SHAPES[shape](build, layers))
    return with_serial_loops(CsdfGraph(f"{shape}{layers}_{rows}", tuple(build.actors), tuple(build.channels)))
