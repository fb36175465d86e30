"""Graphs of any size for analysis: CNN-like ones, and random ones of actors with several rates.

CNNs are chains, residual, inception and dense blocks of 3x3 convolutions, pad 1, one output row a
phase: a layer waits for two
CNNs are chains, residual, inception and dense blocks of 3x3 convolutions, pad 1, one output row a
phase: a layer waits for two rows first, then one a phase, and keeps two rows in an overlap
self-loop (docs/model.md); a pooling layer halves the rows. Times and whatever is random are drawn
from a seed. Times and whatever is random are drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops

__all__ = ["SHAPES", "cnn_graph", "random_graph"]


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
                self.channels.append(
                    Channel(
                        f"kept_{source}_{name}", name, name, (*kept, 0), (0, *kept), kind="overlap"
                    )
                )
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


def cnn_graph(
    shape: str, layers: int, rows: int, *, seed: int = 1, overlap: bool = True
) -> CsdfGraph:
    """A graph of about so many layers, every actor with a serial self-loop."""
    build = _Builder(seed, rows, overlap)
    build.pointwise("snk", SHAPES[shape](build, layers))
    return add_serial_loops(
        CsdfGraph(f"{shape}{layers}_{rows}", tuple(build.actors), tuple(build.channels))
    )


def random_graph(actors: int, *, seed: int = 1) -> CsdfGraph:
    """A live graph of so many actors of 1 to 4 phases, each read by later ones, a few channels
    back; with serial self-loops.
    """
    draw = random.Random(seed)
    phases = [draw.randint(1, 4) for _ in range(actors)]
    rounds = [draw.choice((1, 2, 3, 4, 6)) for _ in range(actors)]
    pairs = [(draw.randrange(max(0, i - 4), i), i) for i in range(1, actors)]
    pairs += [
        (source, source + draw.randint(1, 4))
        for source in draw.sample(range(actors - 4), actors // 3)
    ]
    back = [(target, source) for source, target in draw.sample(pairs, actors // 10)]
    channels = []
    for number, (source, target) in enumerate([*pairs, *back]):
        unit = draw.randint(1, 3)
        production = _divided(draw, unit * rounds[target], phases[source])
        consumption = _divided(draw, unit * rounds[source], phases[target])
        tokens = 2 * unit * rounds[source] * rounds[target] if source > target else 0
        channels.append(
            Channel(f"c{number}", f"a{source}", f"a{target}", production, consumption, tokens)
        )
    times = [tuple(draw.randint(1, 9) for _ in range(count)) for count in phases]
    listed = tuple(Actor(f"a{number}", row) for number, row in enumerate(times))
    return add_serial_loops(CsdfGraph(f"random{actors}_{seed}", listed, tuple(channels)))


def _divided(draw: random.Random, total: int, phases: int) -> tuple[int, ...]:
    """So many tokens among the phases; some may get none."""
    cuts = sorted(draw.randint(0, total) for _ in range(phases - 1))
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True))
