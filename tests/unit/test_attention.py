"""Attention as exporters write it is one layer, whatever moves its elements, and computes what the nodes did."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.registry import choose_backend
from csdfgen.lowering.program import lower
from csdfgen.model.rows import Rows
from csdfgen.ops.attention import ATTENTION, MASKS
from csdfgen.rewriting.fuse import fuse
from tests.op_harness import Arg, Sample, run_in_slabs


class Nodes:
    """Nodes of a model, one after the other, and its constants."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(3)

    def __call__(
        self, op_type: str, *inputs: str | np.ndarray, outputs: int = 1, **attributes: object
    ) -> list[str]:
        names = []
        for one in inputs:
            if isinstance(one, np.ndarray):
                names.append(f"c{len(self.constants)}")
                self.constants.append(numpy_helper.from_array(one, names[-1]))
            else:
                names.append(one)
        made = [f"t{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op_type, names, made, **attributes))
        return made

    def one(self, op_type: str, *inputs: str | np.ndarray, **attributes: object) -> str:
        return self(op_type, *inputs, **attributes)[0]

    def values(self, *shape: int) -> np.ndarray:
        return self.rng.normal(0, 0.4, shape).astype(np.float32)

    def model(self, shape: tuple[int, ...], output: str, name: str = "x") -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "attention",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.constants,
        )
        found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return onnx.shape_inference.infer_shapes(found)


def sizes(*given: int) -> np.ndarray:
    return np.array(given, np.int64)


def torch_export(g: Nodes) -> str:
    """One product for queries, keys and values, cut by Slice; the factor on the queries."""
    y = g.one("MatMul", "x", g.values(24, 72))
    y = g.one("Transpose", g.one("Reshape", y, sizes(1, -1, 3, 3, 8)), perm=[2, 0, 3, 1, 4])
    q, k, v = (
        g.one("Squeeze", g.one("Slice", y, sizes(i), sizes(i + 1), sizes(0)), sizes(0))
        for i in range(3)
    )
    q = g.one("Mul", q, np.array(8**-0.5, np.float32))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 1, 3, 2]))
    y = g.one("MatMul", g.one("Softmax", scores, axis=-1), v)
    y = g.one("Reshape", g.one("Transpose", y, perm=[0, 2, 1, 3]), sizes(1, -1, 24))
    return g.one("MatMul", y, g.values(24, 24))


def three_products(g: Nodes) -> str:
    """A product each, heads apart by Reshape; keys turned at once; factor and mask on the scores."""
    q, k, v = (g.one("Add", g.one("MatMul", "x", g.values(24, 24)), g.values(24)) for _ in range(3))
    q, v = (
        g.one("Transpose", g.one("Reshape", one, sizes(1, -1, 4, 6)), perm=[0, 2, 1, 3])
        for one in (q, v)
    )
    k = g.one("Transpose", g.one("Reshape", k, sizes(1, -1, 4, 6)), perm=[0, 2, 3, 1])
    scores = g.one("Div", g.one("MatMul", q, k), np.array([2.5], np.float32))
    scores = g.one("Add", scores, g.values(1, 4, 11, 11))
    y = g.one("MatMul", g.one("Softmax", scores, axis=3), v)
    return g.one("Reshape", g.one("Transpose", y, perm=[0, 2, 1, 3]), sizes(0, -1, 24))


def split_heads(g: Nodes) -> str:
    """Gather takes queries, keys and values apart; the output stays as it is."""
    y = g.one("MatMul", "x", g.values(24, 48))
    y = g.one("Transpose", g.one("Reshape", y, sizes(1, 11, 3, 2, 8)), perm=[2, 0, 3, 1, 4])
    q, k, v = (g.one("Gather", y, np.array(i, np.int64), axis=0) for i in range(3))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 1, 3, 2]))
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


def unequal_parts(g: Nodes) -> str:
    """Queries, keys and values are parts of other lengths of a head's channels."""
    y = g.one("Reshape", g.one("MatMul", "x", g.values(24, 60)), sizes(1, -1, 3, 20))
    q, k, v = g("Split", y, sizes(6, 6, 8), outputs=3, axis=3)
    q, v = (g.one("Transpose", one, perm=[0, 2, 1, 3]) for one in (q, v))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 3, 1]))
    y = g.one("MatMul", g.one("Softmax", scores, axis=-1), v)
    return g.one("Reshape", g.one("Transpose", y, perm=[0, 2, 1, 3]), sizes(1, -1, 24))


def a_part_is_read_where_it_is(g: Nodes) -> str:
    """Queries are read past the Split; keys are across its heads' bounds, so that it stays for them."""
    parts = g(
        "Split", g.one("MatMul", "x", g.values(24, 80)), sizes(24, 4, 24, 28), outputs=4, axis=2
    )
    v = g.one("MatMul", "x", g.values(24, 24))
    q, k, v = (g.one("Reshape", one, sizes(1, -1, 3, 8)) for one in (parts[0], parts[2], v))
    q, v = (g.one("Transpose", one, perm=[0, 2, 1, 3]) for one in (q, v))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 3, 1]))
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


def windows(g: Nodes) -> str:
    """Windows are images of their own; two masks, of which one has an axis more."""
    y = g.one("MatMul", g.one("Reshape", "x", sizes(2, 6, 24)), g.values(24, 72))
    y = g.one("Transpose", g.one("Reshape", y, sizes(2, 6, 3, 3, 8)), perm=[2, 0, 3, 1, 4])
    q, k, v = (g.one("Squeeze", one, sizes(0)) for one in g("Split", y, outputs=3, axis=0))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.one("Add", scores, g.values(1, 3, 6, 6))
    scores = g.one("Reshape", scores, sizes(1, 2, 3, 6, 6))
    scores = g.one("Add", scores, g.values(1, 2, 1, 6, 6))
    y = g.one("MatMul", g.one("Softmax", g.one("Reshape", scores, sizes(2, 3, 6, 6)), axis=-1), v)
    return g.one("Reshape", g.one("Transpose", y, perm=[0, 2, 1, 3]), sizes(2, 6, 24))


def computed_mask(g: Nodes) -> str:
    """What is added to the scores is computed, too."""
    q, k, v = (g.one("MatMul", "x", g.values(24, 24)) for _ in range(3))
    mask = g.one("MatMul", "x", g.values(24, 11))
    scores = g.one("Add", mask, g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 1])))
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


def mask_of_queries(g: Nodes) -> str:
    """The computed mask is the same for all keys."""
    q, k, v = (g.one("MatMul", "x", g.values(24, 24)) for _ in range(3))
    mask = g.one("MatMul", "x", g.values(24, 1))
    scores = g.one("Add", g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 1])), mask)
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


def mask_by_keys(g: Nodes) -> str:
    """The computed mask is stored by its keys: those of a query are not side by side."""
    q, k, v = (g.one("MatMul", "x", g.values(24, 24)) for _ in range(3))
    mask = g.one("Transpose", g.one("MatMul", "x", g.values(24, 11)), perm=[0, 2, 1])
    scores = g.one("Add", g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 1])), mask)
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


def mask_of_heads(g: Nodes) -> str:
    """The computed mask has the values of all heads side by side, for each query and key."""
    y = g.one("Reshape", g.one("MatMul", "x", g.values(24, 72)), sizes(1, -1, 3, 3, 8))
    q, k, v = g("Split", g.one("Transpose", y, perm=[2, 0, 3, 1, 4]), outputs=3, axis=0)
    q, k, v = (g.one("Squeeze", one, sizes(0)) for one in (q, k, v))
    mask = g.one("MatMul", q, g.values(8, 11))
    scores = g.one("Add", g.one("MatMul", q, g.one("Transpose", k, perm=[0, 1, 3, 2])), mask)
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


def heads_are_read_elsewhere(g: Nodes) -> str:
    """The keys, heads apart, are read once more: the nodes that moved them stay."""
    q = g.one("MatMul", "x", g.values(24, 24))
    q = g.one("Transpose", g.one("Reshape", q, sizes(1, -1, 3, 8)), perm=[0, 2, 1, 3])
    k = g.one("Transpose", g.one("Reshape", "x", sizes(1, -1, 3, 8)), perm=[0, 2, 1, 3])
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 1, 3, 2]))
    y = g.one("MatMul", g.one("Softmax", scores, axis=-1), k)
    return g.one("Add", y, g.one("Sigmoid", k))


def some_rows(g: Nodes) -> str:
    """Keys and values are some rows of a map, without the first one and the last."""
    some = g.one("Slice", "x", sizes(1), sizes(10), sizes(2))
    keys = g.one("Transpose", some, perm=[0, 1, 3, 2])
    scores = g.one("MatMul", g.one("MatMul", "x", g.values(8, 8)), keys)
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), some)


def queries_without_a_key(g: Nodes) -> str:
    """A mask hides all keys of a query, whose weights are then 0."""
    mask = np.tril(np.ones((11, 11), bool), -1)
    q, k, v = (g.one("MatMul", "x", g.values(24, 24)) for _ in range(3))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 1]))
    scores = g.one("Add", scores, np.where(mask, 0, -np.inf).astype(np.float32))
    weights = g.one("Softmax", scores, axis=-1)
    weights = g.one("Where", g.one("IsNaN", weights), np.zeros((), np.float32), weights)
    return g.one("MatMul", weights, v)


def nothing_is_masked(g: Nodes) -> str:
    """Where a mask that is filled in hides nothing."""
    q, k, v = (g.one("MatMul", "x", g.values(24, 24)) for _ in range(3))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 1]))
    hidden, least = np.zeros((1, 11, 11), bool), np.array(-9e9, np.float32)
    scores = g.one("Where", ~hidden, g.one("Where", hidden, least, scores), least)
    return g.one("MatMul", g.one("Softmax", scores, axis=-1), v)


def heads_share_keys(g: Nodes) -> str:
    """Queries of three heads, keys and values of one."""
    y = g.one("Reshape", g.one("MatMul", "x", g.values(24, 40)), sizes(1, -1, 5, 8))
    q, k, v = g("Split", y, sizes(3, 1, 1), outputs=3, axis=2)
    q, v = (g.one("Transpose", one, perm=[0, 2, 1, 3]) for one in (q, v))
    scores = g.one("MatMul", q, g.one("Transpose", k, perm=[0, 2, 3, 1]))
    y = g.one("MatMul", g.one("Softmax", scores, axis=-1), v)
    return g.one("Reshape", g.one("Transpose", y, perm=[0, 2, 1, 3]), sizes(1, -1, 24))


PATTERNS = (
    torch_export,
    three_products,
    split_heads,
    unequal_parts,
    a_part_is_read_where_it_is,
    windows,
    computed_mask,
    mask_of_queries,
    mask_by_keys,
    mask_of_heads,
    heads_are_read_elsewhere,
    some_rows,
    queries_without_a_key,
    nothing_is_masked,
    heads_share_keys,
)
SHAPES = {"windows": (1, 12, 24), "some_rows": (1, 3, 11, 8)}


def _model(pattern: Callable[[Nodes], str]) -> onnx.ModelProto:
    nodes = Nodes()
    output = pattern(nodes)
    return nodes.model(SHAPES.get(pattern.__name__, (1, 11, 24)), output)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.__name__)
def test_it_is_one_layer_and_nothing_else_is_left_of_it(pattern: Callable[[Nodes], str]) -> None:
    network = fuse(csdfgen.load(_model(pattern)))
    kinds = [layer.op_type for layer in network.layers]
    assert kinds.count("Attention") == 1 and "Softmax" not in kinds
    moved = {"Slice", "Squeeze", "Gather", "Split", "Transpose"} & set(kinds)
    stays = (
        heads_are_read_elsewhere,
        mask_by_keys,
        mask_of_heads,
        some_rows,
        a_part_is_read_where_it_is,
    )
    assert not moved or pattern in stays


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.__name__)
def test_outputs_are_those_of_onnxruntime(pattern: Callable[[Nodes], str], backend: str) -> None:
    model = _model(pattern)
    session = ort.InferenceSession(model.SerializeToString())
    (shape,) = [i.shape for i in session.get_inputs()]
    x = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    (wanted,) = session.run(None, {"x": x})
    network, bits = csdfgen.load(model), set()
    for given in ({"rows": "1"}, {"rows": "4"}, {"rows": "whole"}, {"goal": "memory"}, {}):
        plan = csdfgen.plan(network, backend=backend, **given)
        (found,) = runtime.compile(plan)({"x": x}).values()
        np.testing.assert_allclose(found, wanted, atol=2e-5)
        bits.add(np.asarray(found).tobytes())
    assert backend == "numpy" or len(bits) == 1


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("between", ["", "Mul", "Transpose"])
def test_one_tensor_may_be_keys_and_values(between: str, backend: str) -> None:
    """As many positions as channels, so that it is either as it is."""
    g = Nodes()
    q, k = (g.one("MatMul", "x", g.values(9, 9)) for _ in range(2))
    if between == "Mul":
        k = g.one("Mul", k, np.array(0.5, np.float32))
    elif between:
        k = g.one("Transpose", k, perm=[0, 2, 1])
    weights = g.one("Softmax", g.one("MatMul", q, k), axis=-1)
    model = g.model((2, 9, 9), g.one("MatMul", weights, k))
    x = np.random.default_rng(0).normal(0, 1, (2, 9, 9)).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (found,) = runtime.run(csdfgen.plan(csdfgen.load(model), backend=backend), {"x": x}).values()
    np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize("pattern", [mask_of_queries, mask_of_heads], ids=lambda p: p.__name__)
def test_computed_masks_have_a_kernel(pattern: Callable[[Nodes], str]) -> None:
    plan = csdfgen.plan(csdfgen.load(_model(pattern)), backend="native")
    kernels = {one.kernel for one in lower(plan, choose_backend(plan.options)).instructions}
    assert "attention_of" in kernels and not any("exp_" in kernel for kernel in kernels)


def test_a_mask_of_heads_of_which_three_share_keys() -> None:
    q, k, v = (Arg((1, count, 8, 4), 2) for count in (6, 2, 2))
    mask = np.random.default_rng(0).normal(size=(1, 6, 8, 8)).astype(np.float32)
    sample = Sample("Attention", (q, k, v, mask), opset=23)
    layer, feeds = sample.layer(), sample.feeds()
    (found,) = run_in_slabs(sample, layer, feeds, 3)
    np.testing.assert_allclose(found, sample.reference(layer, feeds)[0], rtol=1e-4, atol=1e-5)


def test_scores_of_few_queries_exist_at_a_time() -> None:
    nodes = Nodes()
    output = torch_export(nodes)
    network = csdfgen.load(nodes.model((1, 400, 24), output))
    plan = csdfgen.plan(network, goal="memory")
    scores = 3 * 400 * 400 * 4
    assert plan.planned_bytes < scores // 4


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.__name__)
def test_rows_of_a_mask_are_read_with_those_of_queries(pattern: Callable[[Nodes], str]) -> None:
    (layer,) = (
        layer
        for layer in fuse(csdfgen.load(_model(pattern))).layers
        if layer.op_type == "Attention"
    )
    read = ATTENTION.input_rows(layer, Rows(4, 6))[MASKS:]
    kept = [rows for rows in read if rows is not None]
    alone = pattern in (computed_mask, mask_of_queries, mask_of_heads)
    assert kept == [Rows(4, 6)] if alone else all(len(rows) > 2 for rows in kept)


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_a_computed_mask_is_never_held_whole(backend: str) -> None:
    nodes, count = Nodes(), 300
    q, k, v = (nodes.one("MatMul", "x", nodes.values(24, 24)) for _ in range(3))
    mask = nodes.one("MatMul", "x", nodes.values(24, count))
    scores = nodes.one("MatMul", q, nodes.one("Transpose", k, perm=[0, 2, 1]))
    scores = nodes.one("Softmax", nodes.one("Add", scores, mask), axis=-1)
    model = nodes.model((1, count, 24), nodes.one("MatMul", scores, v))
    x = np.random.default_rng(0).normal(0, 1, (1, count, 24)).astype(np.float32)
    plan = csdfgen.plan(csdfgen.load(model), goal="memory", backend=backend)
    assert plan.planned_bytes < count * count * 4
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (found,) = runtime.run(plan, {"x": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
