"""Random small networks, drawn by hypothesis so that a failing one shrinks to its cause.

A network grows pattern by pattern (`tests.patterns`) from one or two images of odd sizes, down to 1x1, or from a
sequence or a signal; some tensors on the way become outputs too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from hypothesis import strategies as st

from tests.patterns import PATTERNS
from tests.patterns.branching import branched
from tests.patterns.control import controlled
from tests.patterns.convolutional import PATTERNS as BLOCKS
from tests.patterns.convolutional import classifier, joined, pointwise
from tests.patterns.growing import LARGEST_SIDE, Growing, Map, Pattern, Signal, Tokens, Value
from tests.patterns.quantizing import quantized

__all__ = [
    "branched_networks",
    "controlled_networks",
    "models",
    "networks",
    "patterns_of",
    "row_choices",
]

MOST_ELEMENTS = 4000
"""Elements of a tensor behind which no pattern is put: the networks are to be many."""


def _image(net: Growing) -> Map:
    most = net.pick(6, 12, LARGEST_SIDE)
    height, width = net.number(1, most), net.number(1, most)
    x = net.image("image", net.number(1, 4), height, width)
    if net.chance() and net.chance():
        second = net.image("second", net.number(1, 3), height, width)
        x = joined(net, [pointwise(net, x, 3, 3), second])
    return x


def _grown(
    net: Growing, x: Value, patterns: Callable[[Value], tuple[Pattern, ...]], most: int
) -> onnx.ModelProto:
    """Patterns one behind the other; the names of those that were drawn are in the model's metadata."""
    inputs = {entry.name for entry in net.graph.inputs}
    outputs: list[str] = []
    drawn: list[str] = []
    for _ in range(net.number(1, most)):
        before = x
        pattern = net.draw(st.sampled_from(patterns(x)))
        drawn.append(pattern.__name__)
        x = pattern(net, x)
        if x is not before and x.name not in outputs and net.number(0, 5) == 5:
            outputs.append(x.name)
        size = x.channels * (x.height * x.width if isinstance(x, Map) else x.length)
        if size > MOST_ELEMENTS or x.channels > 48:
            break
    last = classifier(net, x) if isinstance(x, Map) and net.chance() else x.name
    if last in inputs:
        last = net.op("Relu", last)
    names = dict.fromkeys(name for name in (*outputs, last) if name not in inputs)
    model = net.graph.model(*names, checked=False)  # its inference does not know every shape
    entry = model.metadata_props.add()
    entry.key, entry.value = "patterns", " ".join(drawn)
    return model


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """A random convolutional network with static shapes."""
    net = Growing(draw)
    return _grown(net, _image(net), lambda x: BLOCKS, 7)


@st.composite
def networks(draw: st.DrawFn) -> onnx.ModelProto:
    """A random network of any pattern, with static shapes; some are quantized as exporters write it."""
    net = Growing(draw)
    x: Value
    kind = net.pick(Map, Map, Map, Tokens, Signal)
    if kind is Map:
        x = _image(net)
    elif kind is Tokens:
        x = Tokens("sequence", net.number(1, 30), net.number(1, 4) * net.number(1, 4))
        net.graph.input(x.name, x.shape)
    else:
        x = Signal("signal", net.number(1, 4), net.number(1, 60))
        net.graph.input(x.name, x.shape)
    model = _grown(net, x, lambda x: PATTERNS[type(x)], 6)
    return quantized(net, model) if net.number(0, 4) == 4 else model


@st.composite
def branched_networks(draw: st.DrawFn) -> onnx.ModelProto:
    """A random network of convolutional blocks or patterns of sequences with up to three Ifs, one at least."""
    net = Growing(draw)
    x: Value = Tokens("sequence", net.number(1, 12), net.number(1, 12))
    if net.number(0, 3):
        x = _image(net)
    else:
        net.graph.input(x.name, x.shape)

    def patterns(x: Value) -> tuple[Pattern, ...]:
        inside = BLOCKS if isinstance(x, Map) and net.chance() else PATTERNS[type(x)]

        def choice(net: Growing, x: Value) -> Value:
            return branched(net, x, inside)

        return (choice,) if not net.conditions else (choice, *inside)

    return _grown(net, x, patterns, 4)


@st.composite
def controlled_networks(draw: st.DrawFn) -> onnx.ModelProto:
    """A random network of Ifs, Loops, Scans and functions in each other."""
    return controlled(Growing(draw))


def patterns_of(model: onnx.ModelProto) -> list[str]:
    """Names of the patterns that a network was made of."""
    return next(
        (entry.value.split() for entry in model.metadata_props if entry.key == "patterns"), []
    )


def row_choices(draw: Callable[[st.SearchStrategy[Any]], Any], layers: list[str]) -> str:
    """Slab heights: one for all layers, and perhaps others for some of them."""
    general = draw(st.sampled_from(("1", "1", "2", "3", "5", "auto", "whole")))
    if not layers or draw(st.booleans()):
        return general
    some = draw(st.lists(st.sampled_from(layers), min_size=1, max_size=6, unique=True))
    return ",".join(
        [
            general,
            *(
                f"{name}={draw(st.sampled_from(('1', '2', '3', '4', '7', 'whole')))}"
                for name in some
            ),
        ]
    )
