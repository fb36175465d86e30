"""Operators of ONNX's domain for tables of features, ai.onnx.ml: trees, linear models, scaling. They are layers of others.

Source: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml; what that leaves open (scores of two classes of which one
has weights) is as onnxruntime has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from csdfgen.errors import ModelError
from csdfgen.model.network import Node
from csdfgen.ops._operands import check_word
from csdfgen.ops.base import REQUIRED, TABLES, Operator, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed_operator
from csdfgen.ops.forest import WALK, Forest
from csdfgen.ops.trees import read_ensemble, read_forest, read_list, walk_forest

Results = Iterable[Operand | None]


def _features(make: Composition, node: Node) -> Operand:
    """The table, (samples, features), in floats."""
    x = require_tensor(node, 0)
    if len(x.shape) != 2:
        raise ModelError(f"input of shape {list(x.shape)}; it takes samples of features, 2 axes")
    return x if x.dtype.startswith("float") else _in_float32(make, x)


def _fitting(values: Any, dtype: Any, count: int, what: str) -> np.ndarray:
    """A number for each of `count` features, or one for all."""
    found = np.asarray(values, dtype)
    if found.size not in (1, count):
        raise ModelError(f"{what} has {found.size} numbers for {count} features")
    return found


def _in_float32(make: Composition, x: Operand) -> Operand:
    return x if x.dtype == "float32" else make("Cast", x, to=TensorProto.FLOAT)


def _transformed(make: Composition, scores: Operand, kind: str) -> Operand:
    """The scores, (samples, targets), after `post_transform`, which leaves single ones as they are."""
    check_word(kind, "post_transform", ("NONE", "SOFTMAX", "LOGISTIC"))
    if scores.shape[1] == 1 or kind == "NONE":
        return scores
    return make("Sigmoid", scores) if kind == "LOGISTIC" else make("Softmax", scores, axis=1)


def _both(make: Composition, score: Operand, kind: str, opposite: bool) -> Operand:
    """Scores of two classes, of which the second is known. opposite: that of the first is its negative, not what is
    missing to one.
    """
    check_word(kind, "post_transform", ("NONE", "SOFTMAX", "LOGISTIC"))
    other = make("Neg", score)
    if not opposite and kind != "LOGISTIC":
        other = make("Add", other, np.ones((), score.dtype))
    both = make("Concat", other, score, axis=1)
    return make("Sigmoid", both) if kind == "LOGISTIC" else both


def _labels(node: Node, name: str) -> np.ndarray:
    """The integers that name the classes, which strings have become too (`csdfgen.reading.words`)."""
    return np.array(node.attributes.get(name) or (), np.int64)


def _best(make: Composition, scores: Operand, labels: np.ndarray) -> Operand:
    return make("Gather", labels, make("ArgMax", scores, axis=1, keepdims=0))


def _second(make: Composition, score: Operand, above: float, labels: np.ndarray) -> Operand:
    """The second of two labels where the score is above a number, else the first."""
    found = make("Greater", score, np.array(above, score.dtype))
    return make.reshaped(make("Where", found, *labels[::-1].reshape(2, 1, 1)), score.shape[:1])


# Trees --------------------------------------------------------------------------------------------


_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _scores(
    make: Composition, node: Node, x: Operand, forest: Forest, aggregate: str = "SUM"
) -> Operand:
    """(samples, targets), with what `base_values` adds."""
    check_word(aggregate, "aggregate_function", _AGGREGATES)
    targets, dtype = forest.targets, x.dtype
    if aggregate in ("MIN", "MAX") and targets > 1:
        raise ModelError(f"aggregate_function={aggregate} of {targets} targets; 1 is supported")
    wide = _in_float32(make, x) if dtype == "float16" else x
    found = walk_forest(make, wide, forest, "SUM" if aggregate == "AVERAGE" else aggregate)
    if dtype == "float16":
        found = make("Cast", found, to=TensorProto.FLOAT16)
    if aggregate == "AVERAGE":
        found = make("Div", found, np.array(len(forest.roots), dtype))
    base = node.attributes.get("base_values") or ()
    if "base_values_as_tensor" in node.attributes:
        base = numpy_helper.to_array(node.attributes["base_values_as_tensor"])
    return (
        make("Add", found, _fitting(base, x.dtype, targets, "base_values")) if len(base) else found
    )


def _trees(make: Composition, node: Node) -> Results:
    x = _features(make, node)
    kind = int(node.attributes.get("aggregate_function", 1))
    if not 0 <= kind < len(_AGGREGATES) or node.attributes.get("post_transform", 0):
        # onnxruntime takes 1 for the logistic function and 2 for softmax, ONNX the other way round
        raise ModelError(
            f"aggregate_function={kind}, which must be 0 to 3, or a post_transform, which onnxruntime and ONNX number "
            "differently; export with post_transform=0 and a Sigmoid or Softmax behind"
        )
    forest = read_ensemble(node, int(node.attributes.get("n_targets", 1)))
    return [_scores(make, node, x, forest, _AGGREGATES[kind])]


def _tree_regressor(make: Composition, node: Node) -> Results:
    x = _features(make, node)
    forest = read_forest(node, "target", int(node.attributes.get("n_targets", 1)))
    scores = _scores(make, node, x, forest, node.attributes.get("aggregate_function", "SUM"))
    scores = _in_float32(make, scores)
    return [_transformed(make, scores, node.attributes.get("post_transform", "NONE"))]


def _tree_classifier(make: Composition, node: Node) -> Results:
    """Of two classes with weights of one alone, the second is above 0, or above 0.5 where no weight is negative."""
    labels = _labels(node, "classlabels_int64s")
    count = len(labels)
    kind = node.attributes.get("post_transform", "NONE")
    x, ids = _features(make, node), set(read_list(node, "class_ids"))
    single = count <= 2 and len(ids) == 1
    base = read_list(node, "base_values", default=0)
    if count < 2 or (count == 2 and len(base) > (ids == {0})):
        raise ModelError(f"{count} classes with base_values of {len(base)} are not supported")
    forest = read_forest(node, "class", 1 if ids == {0} and single else count)
    scores = _in_float32(make, _scores(make, node, x, forest))
    negative = bool((forest.weights[2] < 0).any())
    if not single:
        if count > 2:
            best = _best(make, scores, labels)
        else:  # whatever its labels are, as in onnxruntime
            best = _second(make, make.part(scores, 1, 1, 2), 0.0, np.arange(2))
        return [best, _transformed(make, scores, kind)]
    second = scores if ids == {0} else make.part(scores, 1, 1, 2)
    label = _second(make, second, 0.0 if negative else 0.5, labels)
    if ids == {0}:
        return [label, _both(make, scores, kind, negative)]
    return [label, _transformed(make, scores, kind)]


# Linear models ------------------------------------------------------------------------------------


def _linear(make: Composition, node: Node, x: Operand, targets: int) -> Operand:
    """(samples, targets)."""
    weights = np.asarray(node.attributes.get("coefficients") or (), np.float32)
    if weights.size != targets * x.shape[1]:
        raise ModelError(
            f"has {weights.size} coefficients for {targets} targets of {x.shape[1]} features"
        )
    scores = make("MatMul", _in_float32(make, x), weights.reshape(targets, -1).T.copy())
    bias = node.attributes.get("intercepts") or ()
    return make("Add", scores, _fitting(bias, "float32", targets, "intercepts")) if bias else scores


def _linear_regressor(make: Composition, node: Node) -> Results:
    x = _features(make, node)
    scores = _linear(make, node, x, int(node.attributes.get("targets", 1)))
    return [_transformed(make, scores, node.attributes.get("post_transform", "NONE"))]


def _linear_classifier(make: Composition, node: Node) -> Results:
    x = _features(make, node)
    labels = _labels(node, "classlabels_ints")
    count = len(labels)
    kind = node.attributes.get("post_transform", "NONE")
    found = len(node.attributes["coefficients"]) // x.shape[1]
    if found == 1 and count == 2:
        score = _linear(make, node, x, 1)
        return [_second(make, score, 0.0, labels), _both(make, score, kind, opposite=False)]
    if found < 2 or found != count:
        raise ModelError(f"has coefficients of {found} classes and labels of {count}")
    scores = _linear(make, node, x, count)
    return [_best(make, scores, labels), _transformed(make, scores, kind)]


# Features -----------------------------------------------------------------------------------------


def _scaled(make: Composition, node: Node) -> Results:
    x = _in_float32(make, _features(make, node))
    count = x.shape[1]
    for op_type, name in (("Sub", "offset"), ("Mul", "scale")):
        values = node.attributes.get(name)
        if values:
            x = make(op_type, x, _fitting(values, "float32", count, name))
    return [x]


def _normalized(make: Composition, node: Node) -> Results:
    """Rows of zeros stay what they are; MAX divides by the largest element, not the largest size, as in onnxruntime."""
    x = _in_float32(make, _features(make, node))
    norm = check_word(node.attributes.get("norm", "MAX"), "norm", ("MAX", "L1", "L2"))
    size = make(f"Reduce{'Max' if norm == 'MAX' else norm}", x, np.array([1], np.int64), keepdims=1)
    zero, one = np.zeros((), np.float32), np.ones((), np.float32)
    return [make("Div", x, make("Where", make("Equal", size, zero), one, size))]


def _imputed(make: Composition, node: Node) -> Results:
    """Values that stand for missing ones are replaced."""
    x = require_tensor(node, 0)
    kind, word = ("float", "floats") if x.dtype.startswith("float") else ("int64", "int64s")
    values = node.attributes.get(f"imputed_value_{word}")
    if not values:
        raise ModelError(f"attribute 'imputed_value_{word}' is missing")
    replaced = np.array(node.attributes.get(f"replaced_value_{kind}", 0), x.dtype)
    lost = make("IsNaN", x) if replaced != replaced else make("Equal", x, replaced)
    return [make("Where", lost, _fitting(values, x.dtype, x.shape[-1], "imputed_value"), x)]


def _binarized(make: Composition, node: Node) -> Results:
    x = require_tensor(node, 0)
    found = make("Greater", x, np.array(node.attributes.get("threshold", 0.0), x.dtype))
    return [make("Where", found, np.ones((), x.dtype), np.zeros((), x.dtype))]


def _picked(make: Composition, node: Node) -> Results:
    """ArrayFeatureExtractor: some positions of the last axis."""
    x, places = node.operand(0), node.operand(1)
    assert x is not None and places is not None
    flat = make.reshaped(places, (math.prod(places.shape),))
    found = make("Gather", x, flat, axis=len(x.shape) - 1)
    return [make.reshaped(found, (1, *flat.shape)) if len(x.shape) == 1 else found]


def _zipped(make: Composition, node: Node) -> Results:
    """ZipMap: scores, whose columns are named (`csdfgen.reading.words`)."""
    return [require_tensor(node, 0)]


def _vectorized(make: Composition, node: Node) -> Results:
    """FeatureVectorizer: tables side by side."""
    tables: list[Operand] = []
    for position, width in enumerate(node.attributes.get("inputdimensions") or ()):
        x = node.operand(position)
        if x is None or len(x.shape) != 2 or x.shape[1] != width:
            raise ModelError(f"input {position} is no table of {width} features")
        tables.append(_in_float32(make, x))
    return [tables[0] if len(tables) == 1 else make("Concat", *tables, axis=1)]


# The table ----------------------------------------------------------------------------------------


def _nodes(*more: str) -> Mapping[str, Any]:
    own = dict.fromkeys(("base_values", "base_values_as_tensor", *more))
    nodes = {f"nodes_{name}": None for name in _OF_NODES_BY_ID.split()}
    return {**own, **nodes, "post_transform": "NONE"}


_OF_NODES = "falseleafs falsenodeids featureids modes splits trueleafs truenodeids"
_OF_NODES_BY_ID = """
    falsenodeids featureids hitrates hitrates_as_tensor missing_value_tracks_true modes nodeids treeids truenodeids values
    values_as_tensor
"""
"""Attributes about nodes of trees, those that are numbered and those that have identifiers."""


_TARGETS = ("ids", "nodeids", "treeids", "weights", "weights_as_tensor")

_POST = "`post_transform`: NONE, LOGISTIC, SOFTMAX."

_KNOWN: Sequence[tuple[str, Any, Mapping[str, Any], int, str]] = (
    (
        "TreeEnsemble",
        _trees,
        {
            "aggregate_function": 1,
            "leaf_targetids": REQUIRED,
            "leaf_weights": REQUIRED,
            "n_targets": 1,
            **dict.fromkeys(
                ["membership_values", "nodes_hitrates", "nodes_missing_value_tracks_true"]
            ),
            **{f"nodes_{name}": REQUIRED for name in _OF_NODES.split()},
            "post_transform": 0,
            "tree_roots": REQUIRED,
        },
        5,
        "Only without `post_transform`.",
    ),
    (
        "TreeEnsembleRegressor",
        _tree_regressor,
        {
            **_nodes(*(f"target_{name}" for name in _TARGETS)),
            "aggregate_function": "SUM",
            "n_targets": 1,
        },
        1,
        _POST,
    ),
    (
        "TreeEnsembleClassifier",
        _tree_classifier,
        _nodes(
            "classlabels_int64s", "classlabels_strings", *(f"class_{name}" for name in _TARGETS)
        ),
        1,
        f"{_POST} Strings are numbers of classes.",
    ),
    (
        "LinearRegressor",
        _linear_regressor,
        {"coefficients": None, "intercepts": None, "post_transform": "NONE", "targets": 1},
        1,
        _POST,
    ),
    (
        "LinearClassifier",
        _linear_classifier,
        {
            "classlabels_ints": None,
            "classlabels_strings": None,
            "coefficients": REQUIRED,
            "intercepts": None,
            "multi_class": 0,
            "post_transform": "NONE",
        },
        1,
        f"{_POST} Strings are numbers of classes.",
    ),
    ("Scaler", _scaled, {"offset": None, "scale": None}, 1, ""),
    ("Normalizer", _normalized, {"norm": "MAX"}, 1, ""),
    (
        "Imputer",
        _imputed,
        {
            "imputed_value_floats": None,
            "imputed_value_int64s": None,
            "replaced_value_float": 0.0,
            "replaced_value_int64": 0,
        },
        1,
        "",
    ),
    ("Binarizer", _binarized, {"threshold": 0.0}, 1, ""),
    ("ArrayFeatureExtractor", _picked, {}, 1, ""),
    ("FeatureVectorizer", _vectorized, {"inputdimensions": REQUIRED}, 1, ""),
    (
        "ZipMap",
        _zipped,
        {"classlabels_int64s": None, "classlabels_strings": None},
        1,
        "Of outputs, which stay tensors with a column for each class.",
    ),
)

_COMPOSED = {
    op_type: composed_operator(
        op_type,
        write,
        since=since,
        domain=TABLES,
        attributes=attributes,
        structure="whole" if "Tree" in op_type else "row-phased",
        notes=notes,
        multiplies=op_type.startswith("Linear"),
    )
    for op_type, write, attributes, since, notes in _KNOWN
}

_WALKED = ("input_rows", "kernel", "cost", "mode", "shift_invariant")
_COMPOSED["TreeEnsemble"] = replace(
    _COMPOSED["TreeEnsemble"], **{name: getattr(WALK, name) for name in _WALKED}
)
"""A node of it becomes layers, one of which walks trees."""

OPERATORS: tuple[Operator, ...] = tuple(_COMPOSED.values())
