"""An attention in parts of a few heads takes less memory, and computes the same but for rounding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import csdfgen
import runtime
from csdfgen.model.network import Layer, Network
from csdfgen.rewriting import fuse as rewriting
from csdfgen.rewriting.attention import fuse_attention
from csdfgen.rewriting.functions import fuse_functions
from csdfgen.rewriting.fuse import fuse
from tests.unit.test_attention import Nodes, sizes
from tests.ways import ways

TOKENS, WIDTH = 70, 128


def normalized(g: Nodes, x: str) -> str:
    return g.one("LayerNormalization", x, g.values(WIDTH), g.values(WIDTH), axis=-1)


def taken_apart(g: Nodes, x: str, bounded: str) -> str:
    """The normalization as exporters write it for opsets before 17, where the variance is bounded by Add."""
    d = g.one("Sub", x, g.one("ReduceMean", x, axes=[-1]))
    variance = g.one("ReduceMean", g.one("Mul", d, d), axes=[-1])
    deviation = g.one("Sqrt", g.one(bounded, variance, np.array(1e-5, np.float32)))
    return g.one("Mul", g.one("Div", d, deviation), g.values(WIDTH))


def linear(g: Nodes, x: str, columns: int) -> str:
    return g.one("Add", g.one("MatMul", x, g.values(WIDTH, columns) / 4), g.values(columns))


def heads(g: Nodes, x: str, count: int = 2) -> str:
    return g.one(
        "Transpose", g.one("Reshape", x, sizes(1, -1, count, WIDTH // count)), perm=[0, 2, 1, 3]
    )


def attended(g: Nodes, q: str, k: str, v: str, mask: str | np.ndarray | None = None) -> str:
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.one("Mul", scores, np.array(0.1, np.float32))
    if mask is not None:
        scores = g.one("Add", scores, mask)
    y = g.one("MatMul", g.one("Softmax", scores, axis=-1), v)
    return g.one("Reshape", g.one("Transpose", y, perm=[0, 2, 1, 3]), sizes(1, -1, WIDTH))


def together(g: Nodes, x: str, mask: str | np.ndarray | None = None) -> str:
    """An attention whose queries, keys and values are made by one product."""
    y = g.one("Reshape", linear(g, x, 3 * WIDTH), sizes(1, -1, 3, 2, WIDTH // 2))
    y = g.one("Transpose", y, perm=[2, 0, 3, 1, 4])
    return attended(g, *(g.one("Gather", y, np.array(i), axis=0) for i in range(3)), mask)


def one_product(g: Nodes) -> str:
    y = g.one("Add", "x", linear(g, together(g, normalized(g, "x")), WIDTH))
    return g.one("Add", y, linear(g, together(g, normalized(g, y)), WIDTH))


def three_products(g: Nodes) -> str:
    s = normalized(g, "x")
    q, k, v = (heads(g, linear(g, s, WIDTH)) for _ in range(3))
    return g.one("Add", "x", linear(g, attended(g, q, k, v), WIDTH))


def mask_by_head(g: Nodes) -> str:
    y = together(g, normalized(g, "x"), g.values(1, 2, TOKENS, TOKENS))
    return g.one("Add", "x", linear(g, y, WIDTH))


def without_normalization(g: Nodes) -> str:
    return g.one("Add", together(g, "x"), "x")


def computed_mask_by_head(g: Nodes) -> str:
    mask = g.one("MatMul", heads(g, "x"), g.values(WIDTH // 2, TOKENS))
    return g.one("Add", together(g, normalized(g, "x"), mask), "x")


def normalization_in_pieces(g: Nodes) -> str:
    return g.one("Add", "x", together(g, taken_apart(g, "x", "Add")))


def another_normalization(g: Nodes) -> str:
    """Which no operator is."""
    return g.one("Add", "x", together(g, taken_apart(g, "x", "Max")))


def other_keys(g: Nodes) -> str:
    """Keys and values are made of fewer rows."""
    s = normalized(g, "x")
    few = g.one("Slice", s, sizes(0), sizes(20), sizes(1))
    k, v = (heads(g, linear(g, few, WIDTH)) for _ in range(2))
    return g.one("Add", "x", attended(g, heads(g, linear(g, s, WIDTH)), k, v))


def one_head(g: Nodes) -> str:
    q, k, v = g("Split", linear(g, normalized(g, "x"), 3 * WIDTH), outputs=3, axis=2)
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 1]))
    return g.one("Add", "x", g.one("MatMul", g.one("Softmax", scores, axis=-1), v))


IN_PARTS = (
    one_product,
    three_products,
    mask_by_head,
    without_normalization,
    normalization_in_pieces,
)
QUERIES_APART = (computed_mask_by_head, another_normalization, other_keys, one_head)
Pattern = Callable[[Nodes], str]


def model_of(pattern: Pattern, tokens: int = TOKENS) -> onnx.ModelProto:
    """A map whose pixels are the tokens of a pattern."""
    nodes = Nodes()
    nodes.nodes.append(helper.make_node("Reshape", ["map", "shape"], ["flat"]))
    nodes.constants.append(numpy_helper.from_array(sizes(1, WIDTH, -1), "shape"))
    nodes.nodes.append(helper.make_node("Transpose", ["flat"], ["x"], perm=[0, 2, 1]))
    output = pattern(nodes)
    return nodes.model((1, WIDTH, tokens // 10, 10), output, name="map")


def image(tokens: int = TOKENS) -> dict[str, np.ndarray]:
    values = np.random.default_rng(0).normal(0, 1, (1, WIDTH, tokens // 10, 10))
    return {"map": values.astype(np.float32)}


def attentions(network: Network) -> list[Layer]:
    return [layer for layer in network.layers if layer.op_type == "Attention"]


@pytest.mark.parametrize("pattern", IN_PARTS, ids=lambda p: p.__name__)
def test_an_attention_of_two_heads_has_two_parts(pattern: Pattern) -> None:
    network = fuse(csdfgen.load(model_of(pattern)))
    found = attentions(network)
    assert all(layer.output.shape == (1, TOKENS, WIDTH // 2) for layer in found)
    joins = [layer for layer in network.layers if layer.op_type == "Concat"]
    assert len(found) == 2 * len(joins) > 0
    whole = fuse_attention(fuse_functions(csdfgen.load(model_of(pattern))))
    assert whole.parameter_bytes == network.parameter_bytes


@pytest.mark.parametrize("pattern", QUERIES_APART, ids=lambda p: p.__name__)
def test_queries_alone_are_apart(pattern: Pattern) -> None:
    network = fuse(csdfgen.load(model_of(pattern)))
    (layer,) = attentions(network)
    q, k, v = (tensor.name for tensor in layer.inputs[:3] if tensor is not None)
    assert q not in (k, v)
    made = [network.producer[name].onnx_nodes for name in (q, k)]
    assert pattern is other_keys or set(made[0]) == set(made[1])


PLANNED: tuple[dict[str, str], ...] = (
    {"rows": "1"},
    {"rows": "48"},
    {"rows": "whole"},
    {"goal": "memory"},
    {},
)
PATTERNS = (*IN_PARTS, *QUERIES_APART)
BY_NUMPY = ways([["Attention", pattern] for pattern in PATTERNS], {"given": PLANNED}, 2)


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("number", range(len(PATTERNS)), ids=[p.__name__ for p in PATTERNS])
def test_outputs_are_those_of_onnxruntime(number: int, backend: str) -> None:
    """Native code gives the same bits however it is planned; numpy plans each pattern in two ways."""
    model = model_of(PATTERNS[number])
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, image())
    network, bits = csdfgen.load(model), set()
    every = [(given,) for given in PLANNED] if backend == "native" else BY_NUMPY[number]
    for (given,) in every:
        plan = csdfgen.plan(network, backend=backend, effort="1ms", **given)
        (found,) = runtime.compile(plan)(image()).values()
        np.testing.assert_allclose(found, wanted, atol=2e-4)
        bits.add(np.asarray(found).tobytes())
    assert backend == "numpy" or len(bits) == 1


def test_parts_take_less_memory_and_change_rounding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of parts add their constants before the sum, those of the whole may add them behind it."""
    model = model_of(one_product, tokens=130)
    found = {}
    for parts in (True, False):
        if not parts:
            monkeypatch.setattr(rewriting, "split_attention", lambda network: network)
        plan = csdfgen.plan(csdfgen.load(model), rows="16", backend="native")
        (y,) = runtime.compile(plan)(image(130)).values()
        found[parts] = plan.figures["peak_live"], np.array(y)
    assert found[True][0] < 0.8 * found[False][0]
    np.testing.assert_allclose(found[True][1], found[False][1], rtol=1e-5, atol=1e-5)


def test_few_queries_and_wide_sources_stay_as_they_are() -> None:
    assert len(attentions(fuse(csdfgen.load(model_of(one_product, tokens=40))))) == 2

    def wider(g: Nodes) -> str:
        x = g.one("Concat", "x", "x", axis=2)
        y = g.one("MatMul", x, g.values(2 * WIDTH, 3 * WIDTH))
        q, k, v = g("Split", y, outputs=3, axis=2)
        return attended(g, heads(g, q), heads(g, k), heads(g, v))

    (layer,) = attentions(fuse(csdfgen.load(model_of(wider))))
    assert len({tensor.name for tensor in layer.inputs[:3] if tensor is not None}) == 1
