"""Every rewriting: that it happens, that it is refused where its conditions fail, and that outputs
stay equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.model.network import Network
from csdfgen.planning.checker import check
from csdfgen.rewriting.fuse import MOST_APPLIED, fuse
from tests.builder import Graph, reference
from tests.models import model


def operators(network: Network) -> list[str]:
    """Operators in order, each with the ones applied in its slab."""
    return [
        "+".join([layer.op_type, *(e.op_type for e in layer.epilogue)]) for layer in network.layers
    ]


def conv_bn(g: Graph) -> str:
    return g.batch_normalization(g.conv("x", 6, bias=False))


def conv_scale_shift(g: Graph) -> str:
    y = g.conv("x", 6)
    y = g.node("Mul", y, g.per_channel(y))
    y = g.node("Sub", y, g.per_channel(y))
    y = g.node("Sub", g.per_channel(y), y, channels=6)
    return g.node("Div", y, g.per_channel(y))


def transposed_conv_bn(g: Graph) -> str:
    weight = g.constant(g.rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32))
    y = g.node("ConvTranspose", "x", weight, channels=6, group=2, strides=[2, 2], pads=[1, 1, 1, 1])
    return g.batch_normalization(y)


def bn_scale_shift_relu(g: Graph) -> str:
    y = g.batch_normalization("x")
    y = g.node("Mul", y, g.per_channel(y))
    return g.node("Relu", g.node("Add", y, g.per_channel(y)))


def crop_conv(g: Graph) -> str:
    pads = g.constant(np.array([0, 0, -1, -2, 0, 0, -1, 0], np.int64))
    y = g.node("Pad", "x", pads)
    return g.conv(y, 3, 5, strides=[3, 3], pads=[0, 0, 0, 0])


def pad_conv(g: Graph) -> str:
    pads = g.constant(np.array([0, 0, 2, 1, 0, 0, 0, 1], np.int64))
    return g.conv(g.node("Pad", "x", pads), 3, 3)


def relu_on_conv(g: Graph) -> str:
    return g.node("Relu", g.conv("x", 5))


def clip_on_add(g: Graph) -> str:
    y = g.node("Add", g.conv("x", 4), g.conv("x", 4, 1))
    return g.node("Clip", y, g.constant(np.float32(-0.5)), g.constant(np.float32(0.5)))


def identities(g: Graph) -> str:
    nothing = g.constant(np.zeros(8, np.int64))
    y = g.node("Identity", g.node("Pad", g.node("Dropout", g.conv("x", 4)), nothing))
    return g.node("Identity", g.node("Add", y, g.node("Identity", y)))


def flatten_gemm(g: Graph) -> str:
    y = g.node("Flatten", g.conv("x", 3))
    weight = g.constant(g.rng.normal(0, 0.1, (3 * 12 * 9, 7)).astype(np.float32))
    return g.node(
        "Relu",
        g.node(
            "Gemm",
            y,
            weight,
            g.constant(g.rng.normal(size=7).astype(np.float32)),
            alpha=0.5,
            beta=2.0,
        ),
    )


def reshape_gemm_transposed(g: Graph) -> str:
    y = g.node("Reshape", g.conv("x", 3), g.constant(np.array([1, -1], np.int64)))
    weight = g.constant(g.rng.normal(0, 0.1, (7, 3 * 12 * 9)).astype(np.float32))
    return g.node("Gemm", y, weight, transB=1)


CASES: list[tuple[Callable[[Graph], str], list[str], list[str]]] = [
    (conv_bn, ["Conv"], ["Conv"]),
    (conv_scale_shift, ["Conv"], ["Conv"]),
    (transposed_conv_bn, ["ConvTranspose"], ["ConvTranspose"]),
    (bn_scale_shift_relu, ["BatchNormalization", "Relu"], ["BatchNormalization+Relu"]),
    (crop_conv, ["Conv"], ["Conv"]),
    (pad_conv, ["Conv"], ["Conv"]),
    (relu_on_conv, ["Conv", "Relu"], ["Conv+Relu"]),
    (clip_on_add, ["Conv", "Conv", "Add", "Clip"], ["Conv", "Conv", "Add+Clip"]),
    (identities, ["Conv", "Add"], ["Conv", "Add"]),
    (flatten_gemm, ["Conv", "Flatten", "Gemm", "Relu"], ["Conv", "Gemm+Relu"]),
    (reshape_gemm_transposed, ["Conv", "Reshape", "Gemm"], ["Conv", "Gemm"]),
]


@pytest.mark.parametrize(("build", "folded", "full"), CASES)
def test_rewriting(build: Callable[[Graph], str], folded: list[str], full: list[str]) -> None:
    graph = Graph()
    graph.input("x", (1, 4, 12, 9))
    model = graph.model(build(graph))
    network = csdfgen.load(model)
    assert operators(fuse(network, "fold")) == folded
    assert operators(fuse(network, "full")) == full
    feeds = graph.feeds()
    want = reference(model, feeds)
    for level in ("none", "fold", "full"):
        for rows in (1, 4, "whole"):
            plan = csdfgen.plan(network, rows=rows, fuse=level)
            check(plan)
            for output, value in runtime.run(plan, feeds).items():
                np.testing.assert_allclose(value, want[output], rtol=1e-3, atol=1e-4)


def two_readers(g: Graph) -> tuple[str, ...]:
    y = g.conv("x", 4)
    return g.batch_normalization(y), g.node("Relu", y)


def an_output_between(g: Graph) -> tuple[str, ...]:
    y = g.conv("x", 4)
    return y, g.node("Relu", y)


def not_per_channel(g: Graph) -> tuple[str, ...]:
    return (
        g.node(
            "Add", g.conv("x", 4), g.constant(g.rng.normal(size=(1, 4, 1, 9)).astype(np.float32))
        ),
    )


def padded_by_value(g: Graph) -> tuple[str, ...]:
    pads = g.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    return (g.conv(g.node("Pad", "x", pads, g.constant(np.float32(3))), 4),)


@pytest.mark.parametrize(
    "build", [two_readers, an_output_between, not_per_channel, padded_by_value]
)
def test_conditions_of_a_rewriting_fail(build: Callable[[Graph], tuple[str, ...]]) -> None:
    graph = Graph()
    graph.input("x", (1, 4, 12, 9))
    model = graph.model(*build(graph))
    network = csdfgen.load(model)
    assert len(fuse(network, "fold").layers) == len(network.layers)
    feeds = graph.feeds()
    want = reference(model, feeds)
    got = runtime.run(csdfgen.plan(network, rows=2), feeds)
    for output, value in want.items():
        np.testing.assert_allclose(got[output], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("joined", [True, False])
def test_an_expand_vanishes_where_its_readers_broadcast(joined: bool) -> None:
    g = Graph()
    x = g.conv(g.input("x", (1, 3, 8, 10)), 6)
    vector = g.node(
        "Reshape", g.node("GlobalAveragePool", x), g.constant(np.array([1, 1, 6], np.int64))
    )
    pixel = g.node("Reshape", vector, g.constant(np.array([1, 6, 1, 1], np.int64)))
    wide = g.node("Expand", pixel, g.constant(np.array([1, 6, 8, 10], np.int64)))
    y = g.node("Add", x, g.node("Mul", x, wide))
    if joined:  # Concat does not broadcast
        y = g.node("Concat", y, wide, axis=1)
    model = g.model(y)
    network = csdfgen.load(model)
    assert ("Expand" in operators(fuse(network))) == joined
    value = np.random.default_rng(0).normal(0, 1, (1, 3, 8, 10)).astype(np.float32)
    for rows in (1, "whole"):
        (got,) = runtime.compile(csdfgen.plan(network, rows=rows, backend="numpy"))(
            {"x": value}
        ).values()
        np.testing.assert_allclose(got, reference(model, {"x": value})[y], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "nodes", ["a = Relu(c)  y = Mul(a, k)", "a = Tanh(c)  b = Abs(a)  y = Neg(b)"]
)
def test_what_is_applied_to_a_slab_comes_in_order(nodes: str) -> None:
    rng = np.random.default_rng(1)
    kernel = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    weights = {"w": kernel, **({"k": np.array(-2, np.float32)} if "k)" in nodes else {})}
    proto = model(f"g (float[1,3,8,8] x) => (y) {{ c = Conv(x, w)  {nodes} }}", weights)
    x = {"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)}
    plan = csdfgen.plan(csdfgen.load(proto), backend="numpy")
    assert len(plan.network.layers) == 1
    np.testing.assert_allclose(runtime.run(plan, x)["y"], reference(proto, x)["y"], atol=1e-4)


def test_a_layer_has_no_more_applied_than_is_quick_to_check() -> None:
    """Symptom: planning 2,000 elementwise layers in a row took 16 s, twice as many eight times as long."""
    steps = "".join(f"t{k + 1} = {'Relu' if k % 2 else 'Neg'}(t{k}) " for k in range(300))
    network = csdfgen.load(model(f"g (float[1,2,3,4] x) => (t300) {{ t0 = Exp(x) {steps}}}"))
    made = fuse(network)
    assert [len(layer.epilogue) for layer in made.layers] == [MOST_APPLIED, MOST_APPLIED, 42]
    x = np.zeros((1, 2, 3, 4), np.float32)
    assert (runtime.run(csdfgen.plan(network, backend="numpy"), x)["t300"] == 0).all()
