"""Networks that cannot stream are refused with the layer, a reason, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import PlanError
from csdfgen.model.network import Network
from csdfgen.phases.streaming import find_stream_obstacle, widen_for_streams
from tests.builder import Graph
from tests.native_steps import COMPUTED_BY

Body = Callable[[Graph, str, int], str]
"""What is made of an image of so many rows, and the last tensor."""


def network(body: Body, rows: int) -> Network:
    graph = Graph(opset=17)
    y = body(graph, graph.input("x", (1, 4, rows, 8)), rows)
    return csdfgen.load(graph.model(y, checked=False))


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def grid(graph: Graph, x: str, rows: int) -> str:
    """Adds a number of its own to each row."""
    return graph.node("Add", x, graph.constant(np.arange(rows, dtype=np.float32)[:, None]))


def divided(graph: Graph, x: str, rows: int) -> str:
    """Divides by the height, as exporters write means that they compute as sums."""
    return graph.node("Div", x, graph.constant(np.array(rows, np.float32)))


def squeezed(graph: Graph, x: str, rows: int) -> str:
    """Channels weighted by their means."""
    return graph.node("Mul", x, graph.node("Sigmoid", graph.node("GlobalAveragePool", x)))


def attended(graph: Graph, x: str, rows: int) -> str:
    """Each row with all others."""
    keys = graph.node("Transpose", x, perm=[0, 1, 3, 2])
    return graph.node("MatMul", graph.node("Softmax", graph.node("MatMul", x, keys)), x)


def resized(graph: Graph, x: str, rows: int) -> str:
    scales = graph.constant(np.array([1, 1, 2, 2], np.float32))
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return graph.node("Resize", x, "", scales, **attributes)


def padded(graph: Graph, x: str, rows: int) -> str:
    for mode, begin, end in (("reflect", 2, 1), ("edge", 1, 3)):
        pads = graph.constant(integers(0, 0, begin, 1, 0, 0, end, 1))
        x = graph.conv(graph.node("Pad", x, pads, mode=mode), 4, pads=[0, 0, 0, 0])
    return x


def doubled(graph: Graph, x: str, rows: int) -> str:
    return graph.node("Concat", x, x, axis=2)


def backward(graph: Graph, x: str, rows: int) -> str:
    steps = graph.node("Reshape", x, graph.constant(integers(4, rows, 8)))
    steps = graph.node("Transpose", steps, perm=[1, 0, 2])
    w, r = (graph.constant(np.ones((1, 6, n), np.float32)) for n in (8, 2))
    return graph.node("GRU", steps, w, r, outputs=2, hidden_size=2, direction="reverse")


CUT, FIXED = "cut the model behind 'relu0'", "plan images of one height"


@pytest.mark.parametrize(
    ("body", "layer", "reason", "way_out"),
    [
        (grid, "Add_", "depends on its number", CUT),
        (divided, "Div_", "depend on the height", CUT),
        (squeezed, "Mul_", "before the last row", CUT),
        (attended, "MatMul_", "all rows at once", CUT),
        (resized, "Resize_", "depends on its number", CUT),
        (doubled, "Concat_", "", CUT),
        (backward, "GRU_", "all rows at once", FIXED),
    ],
)
def test_what_keeps_a_network_from_streaming(
    body: Body, layer: str, reason: str, way_out: str
) -> None:
    def behind(graph: Graph, x: str, rows: int) -> str:
        return body(graph, graph.node("Relu", x), rows)

    found = find_stream_obstacle(network(behind, 64), network(behind, 96))
    assert found is not None and found.layer.startswith(layer), found
    assert reason in found.reason and way_out in found.way_out
    assert str(found).startswith(f"layer '{found.layer}' {found.reason}, so") and "\n" not in str(
        found
    )


def strided(graph: Graph, x: str, rows: int) -> str:
    x = graph.node("MaxPool", graph.conv(x, 8), kernel_shape=[2, 2], strides=[2, 2])
    scales = graph.constant(np.array([1, 1, 2, 2], np.float32))
    up = graph.node("Resize", graph.conv(x, 8), "", scales, mode="linear")
    return graph.node("Softmax", up, axis=1)


def styled(graph: Graph, x: str, rows: int) -> str:
    return graph.node("Mul", x, graph.node("Sigmoid", graph.input("style", (1, 4, 1, 1))))


def pooled(graph: Graph, x: str, rows: int) -> str:
    return graph.node("Sigmoid", graph.node("GlobalAveragePool", graph.conv(x, 8)))


@pytest.mark.parametrize("body", [strided, pooled, padded, styled])
def test_networks_that_stream(body: Body) -> None:
    assert find_stream_obstacle(network(body, 64), network(body, 96)) is None


@pytest.mark.parametrize("backend", COMPUTED_BY)
def test_repeated_rows_stay_for_the_longest_way(backend: str) -> None:
    """An order that repeats needs the rules of the middle at the ends of an image, too."""
    for rows in (256, 301):
        plain = network(padded, rows)
        x = np.random.default_rng(rows).random(plain.inputs[0].shape, np.float32)
        with pytest.raises(PlanError):
            csdfgen.plan(plain, policy="loop", rows=1, backend=backend)
        loop = csdfgen.plan(widen_for_streams(plain), policy="loop", rows=1, backend=backend)
        plans = loop, csdfgen.plan(plain, backend=backend)
        found, wanted = (runtime.compile(plan)(x) for plan in plans)
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5)
