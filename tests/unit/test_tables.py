"""Operators for tables of features (ai.onnx.ml): trees, linear models, scaling, equal to onnxruntime."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from tests.opencl_device import device_missing

CODES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
SAMPLES, FEATURES = 1, 6


def model(op_type: str, outputs: str, dtype: str = "float32", **attributes: Any) -> onnx.ModelProto:
    """outputs: a letter each, "l" for integers, "d" for float64, "f" for float32."""
    kinds = {"l": TensorProto.INT64, "d": TensorProto.DOUBLE, "f": TensorProto.FLOAT}
    names = [f"y{k}" for k in range(len(outputs))]
    node = helper.make_node(op_type, ["x"], names, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "table",
        [helper.make_tensor_value_info("x", CODES[dtype], [SAMPLES, FEATURES])],
        [
            helper.make_tensor_value_info(n, kinds[o], None)
            for n, o in zip(names, outputs, strict=True)
        ],
    )
    version = 5 if op_type == "TreeEnsemble" else 3 if "Tree" in op_type else 1
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(proto: onnx.ModelProto, *tables: np.ndarray, backend: str = "numpy") -> None:
    """Each result equals onnxruntime's."""
    frame = runtime.compile(csdfgen.plan(csdfgen.load(proto), backend=backend))
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for x in tables:
        expected = session.run(None, {"x": x})
        for mine, theirs in zip(frame({"x": x}).values(), expected, strict=True):
            assert mine.shape == theirs.shape
            assert mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=2e-6, atol=2e-6)


def tables(dtype: str = "float32", missing: bool = False) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    found = [rng.integers(-2, 3, (SAMPLES, FEATURES)).astype(dtype) for _ in range(4)]
    if missing:
        for x in found:
            x[0, rng.integers(FEATURES, size=2)] = np.nan
    return found


MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")


def forest(
    kind: str,
    ids: int | list[int],
    trees: int = 5,
    modes: tuple[str, ...] = ("LEQ",),
    missing: bool = False,
    low: float = -1.0,
) -> dict[str, Any]:
    """Random trees of up to 4 levels. ids: a number of targets of each leaf, or the target of each tree, in turn."""
    rng = np.random.default_rng(5)
    nodes: list[tuple[Any, ...]] = []
    weights: list[tuple[int, int, int, float]] = []

    def grow(tree: int, depth: int) -> int:
        own = sum(one[0] == tree for one in nodes)
        place = len(nodes)
        nodes.append((tree, own, 0, 0.0, "LEAF", 0, 0, 0))
        if depth == 0 or (depth < 3 and rng.random() < 0.3):
            targets = range(ids) if isinstance(ids, int) else [ids[tree % len(ids)]]
            weights.extend((tree, own, k, float(rng.uniform(low, 1))) for k in targets)
            return own
        mode = f"BRANCH_{modes[rng.integers(len(modes))]}"
        feature, value = int(rng.integers(FEATURES)), float(rng.integers(-2, 3))
        ways = grow(tree, depth - 1), grow(tree, depth - 1)
        nodes[place] = (tree, own, feature, value, mode, *ways, int(missing and rng.random() < 0.5))
        return own

    for tree in range(trees):
        grow(tree, 4)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    columns = list(zip(*nodes, strict=True))
    found = {
        f"nodes_{n}": list(c)
        for n, c in zip((*names, "missing_value_tracks_true"), columns, strict=True)
    }
    for n, c in zip(
        ("treeids", "nodeids", "ids", "weights"), zip(*weights, strict=True), strict=True
    ):
        found[f"{kind}_{n}"] = list(c)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"targets": 3, "base_values": [0.5, -0.25, 1.0], "post_transform": "SOFTMAX"},
        {"targets": 2, "post_transform": "LOGISTIC", "aggregate_function": "AVERAGE"},
        {"aggregate_function": "MIN", "base_values": [2.0], "post_transform": "LOGISTIC"},
        {"aggregate_function": "MAX"},
    ],
)
def test_regressors_of_trees(dtype: str, more: dict[str, Any]) -> None:
    targets = more.get("targets", 1)
    rest = {k: v for k, v in more.items() if k != "targets"}
    trees = forest("target", targets, modes=MODES)
    proto = model("TreeEnsembleRegressor", "f", dtype, n_targets=targets, **trees, **rest)
    check(proto, *tables(dtype))


@pytest.mark.parametrize("modes", [("LEQ",), MODES])
def test_features_that_are_missing(modes: tuple[str, ...]) -> None:
    proto = model(
        "TreeEnsembleRegressor", "f", n_targets=1, **forest("target", 1, 7, modes, missing=True)
    )
    check(proto, *tables(missing=True))
    check(proto, *tables(missing=True), backend="native")


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize(
    ("ids", "low", "more"),
    [
        (3, -1.0, {"base_values": [0.5, -0.25, 0.0]}),
        ([0, 1, 2], -1.0, {}),
        ([0], -1.0, {"base_values": [0.25]}),
        ([0], 0.0, {}),
        ([1], -1.0, {}),
        ([1], 0.0, {}),
    ],
)
def test_of_trees(post: str, ids: int | list[int], low: float, more: dict[str, Any]) -> None:
    labels = [5, 7, 9] if ids in (3, [0, 1, 2]) else [5, 7]
    trees = forest("class", ids, 6, low=low)
    proto = model(
        "TreeEnsembleClassifier",
        "lf",
        post_transform=post,
        classlabels_int64s=labels,
        **trees,
        **more,
    )
    check(proto, *tables())


def ensemble(dtype: str, **more: Any) -> dict[str, Any]:
    """Two trees of TreeEnsemble, of 3 and 1 nodes, and 6 leaves of 2 targets."""

    def stored(values: Any, dtype: str) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values, dtype))

    return {
        "n_targets": 2,
        "tree_roots": [0, 3],
        "nodes_splits": stored([0.5, -1.0, 1.0, 0.0], dtype),
        "nodes_modes": stored([0, 3, 4, 1], "uint8"),
        "nodes_featureids": [0, 1, 2, 3],
        "nodes_truenodeids": [1, 0, 1, 4],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falsenodeids": [2, 2, 3, 5],
        "nodes_falseleafs": [0, 1, 1, 1],
        "nodes_missing_value_tracks_true": [1, 0, 0, 1],
        "leaf_targetids": [0, 1, 0, 1, 0, 1],
        "leaf_weights": stored([0.5, 1.5, -1.0, 2.0, 0.25, 3.0], dtype),
        **more,
    }


@pytest.mark.parametrize("more", [{}, {"aggregate_function": 0}])
@pytest.mark.parametrize(("dtype", "kind"), [("float32", "f"), ("float64", "d")])
def test_ensembles_of_opset_5(dtype: str, kind: str, more: dict[str, Any]) -> None:
    proto = model("TreeEnsemble", kind, dtype, **ensemble(dtype, **more))
    if more:
        del proto.opset_import[0]  # of ONNX's own domain, of which no operator is there
    check(proto, *tables(dtype, missing=True))


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(post: str) -> None:
    rng = np.random.default_rng(4)
    for count in (1, 2, 3):
        own = {
            "coefficients": rng.normal(size=count * FEATURES).tolist(),
            "intercepts": rng.normal(size=count).tolist(),
            "post_transform": post,
        }
        check(model("LinearRegressor", "f", targets=count, **own), *tables())
        labels = [4, 8, 6][: max(count, 2)]
        check(model("LinearClassifier", "lf", classlabels_ints=labels, **own), *tables())


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Scaler", {"offset": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "scale": [0.5] * 6}),
        *(("Normalizer", {"norm": norm}) for norm in ("MAX", "L1", "L2")),
        ("Imputer", {"imputed_value_floats": [9.0], "replaced_value_float": -1.0}),
        (
            "Imputer",
            {
                "imputed_value_floats": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
                "replaced_value_float": float("nan"),
            },
        ),
        ("Binarizer", {"threshold": 0.5}),
        ("FeatureVectorizer", {"inputdimensions": [FEATURES]}),
    ],
)
def test_features(op_type: str, attributes: dict[str, Any]) -> None:
    lost = attributes.get("replaced_value_float", 0) != attributes.get("replaced_value_float", 0)
    zeros = np.zeros((SAMPLES, FEATURES), np.float32)
    check(model(op_type, "f", **attributes), *tables(missing=lost), zeros)


@pytest.mark.parametrize(
    ("op_type", "more", "what"),
    [
        ("TreeEnsembleRegressor", {"nodes_truenodeids": [99] * 99}, "values, "),
        ("TreeEnsembleRegressor", {"post_transform": "PROBIT"}, "'PROBIT' is not one of"),
        ("TreeEnsembleRegressor", {"nodes_featureids": None}, "a feature that an input of shape"),
        ("TreeEnsembleClassifier", {"classlabels_strings": ["a"]}, "1 classes"),
        ("TreeEnsemble", {"tree_roots": [0, 0], "nodes_truenodeids": [0, 0, 1, 4]}, "levels"),
        ("TreeEnsemble", {"nodes_falsenodeids": [2, 9, 3, 5]}, "leads to none"),
        ("TreeEnsemble", {"post_transform": 1}, "number differently"),
    ],
)
def test_trees_that_do_not_hold_together(op_type: str, more: dict[str, Any], what: str) -> None:
    kind = op_type.removeprefix("TreeEnsemble")
    own = (
        forest("class" if kind == "Classifier" else "target", [0]) if kind else ensemble("float32")
    )
    if more.get("nodes_featureids", 0) is None:
        more = {"nodes_featureids": [FEATURES] * len(own["nodes_featureids"])}
    outputs = "lf" if kind == "Classifier" else "f"
    with pytest.raises(CsdfgenError, match=what):
        csdfgen.load(model(op_type, outputs, **{**own, **more}))


def classifier(kind: str, labels: list[Any], *more: onnx.NodeProto) -> onnx.ModelProto:
    """Of 4 samples, with a map of scores for each of them, as exporters of tables write it."""
    word = "strings" if isinstance(labels[0], str) else "ints" if kind == "Linear" else "int64s"
    rng = np.random.default_rng(1)
    own: dict[str, Any] = forest("class", len(labels))
    if kind == "Linear":
        own = {
            "coefficients": rng.normal(size=len(labels) * FEATURES),
            "intercepts": rng.normal(size=len(labels)),
            "post_transform": "SOFTMAX",
        }
    own[f"classlabels_{word}"] = labels
    proto = model(f"{kind}{'' if kind == 'Linear' else 'Ensemble'}Classifier", "lf", **own)
    word = word.replace("ints", "int64s")
    zipped = {f"classlabels_{word}": labels}
    node = helper.make_node("ZipMap", ["y1"], ["maps"], "zip", domain="ai.onnx.ml", **zipped)
    proto.graph.node.extend([node, *more])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    (label, maps) = proto.graph.output
    if word == "strings":
        label.type.tensor_type.elem_type = TensorProto.STRING
    maps.CopyFrom(onnx.ValueInfoProto(name="maps"))
    return proto


THREE, TWO = (["b", "c", "a"], [7, 3, 5]), (["x", "w"], [5, 2])
NAMED = [*product(["Linear"], THREE), *product(["Tree"], (*THREE, *TWO))]
"""Two classes of a linear classifier have one score."""


@pytest.mark.parametrize(("kind", "labels"), NAMED)
def test_labels_of_any_kind_and_maps_of_scores(
    kind: str, labels: list[Any], tmp_path: Path
) -> None:
    """As numbers of classes, and as a tensor with a column for each."""
    onnx.save(classifier(kind, labels), tmp_path / "table.onnx")
    network = csdfgen.load(tmp_path / "table.onnx")
    x = np.random.default_rng(2).integers(-2, 3, (4, FEATURES)).astype(np.float32)
    assert csdfgen.report(csdfgen.plan(network), x).ok
    assert network.labels["maps"] == tuple(labels)
    strings = isinstance(labels[0], str)
    assert network.labels.get("y0") == (tuple(labels) if strings else None)
    assert f"0: {labels[0]}, 1: " in network.found_outputs["maps"]


def test_labels_out_of_a_list_of_strings(tmp_path: Path) -> None:
    """A model of its own that finds the class, and its name in a constant."""
    words = numpy_helper.from_array(np.array(["no", "yes", "no"], object), "words")
    nodes = [
        helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0),
        helper.make_node("ArrayFeatureExtractor", ["words", "best"], ["row"], domain="ai.onnx.ml"),
        helper.make_node("Reshape", ["row", "shape"], ["label"]),
    ]
    shape = numpy_helper.from_array(np.array([-1]), "shape")
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3]),
        helper.make_tensor_value_info("label", TensorProto.STRING, None),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [words, shape])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), tmp_path / "y.onnx")
    network = csdfgen.load(tmp_path / "y.onnx")
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    plan = csdfgen.plan(network)
    assert csdfgen.report(plan, x).ok
    assert network.labels == {"label": ("no", "yes")}
    np.testing.assert_array_equal(csdfgen.run(plan, x)["label"], x.argmax(1) == 1)


@pytest.mark.parametrize(
    ("op_type", "operands", "what"),
    [("Equal", ["y0", "y0"], r"strings \('y0'\)"), ("Identity", ["maps"], r"maps \('maps'\)")],
)
def test_strings_and_maps_that_something_computes_with(
    op_type: str, operands: list[str], what: str
) -> None:
    proto = classifier("Tree", ["a", "b", "c"], helper.make_node(op_type, operands, ["z"], "late"))
    proto.graph.output.append(onnx.ValueInfoProto(name="z"))
    with pytest.raises(CsdfgenError, match=f"'late' .*: reads {what}, which only outputs may be"):
        csdfgen.load(proto)


@pytest.mark.parametrize("backend", ["numpy", "native", "opencl"])
@pytest.mark.parametrize("samples", [1, 3])
def test_trees_are_one_layer_with_the_bits_of_onnxruntime(backend: str, samples: int) -> None:
    """Of all comparisons and missing values, in any backend: sums go from the first tree to the last."""
    proto = model(
        "TreeEnsembleRegressor",
        "f",
        n_targets=2,
        **forest("target", [0, 1], 31, MODES, missing=True),
    )
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = samples
    network = csdfgen.load(proto)
    assert [layer.op_type for layer in network.layers] == ["TreeEnsemble"]
    if backend == "opencl" and device_missing():
        pytest.skip(device_missing())
    frame = runtime.compile(csdfgen.plan(network, backend=backend))
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(4).integers(-2, 3, (samples, FEATURES)).astype(np.float32)
    x[0, 2] = np.nan
    np.testing.assert_array_equal(frame({"x": x})["y0"], session.run(None, {"x": x})[0])
