"""Operators of ONNX's domain for tables of features, ai.onnx.ml: trees, linear models, scaling. They are layers of others.

Source: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml; what that leaves open (scores of two classes of which one
has weights) is as onnxruntime has it. All trees are walked at the same time, a level after the other: each is at one of
its nodes, whose features are gathered and compared, which is the strategy "TreeTraversal" of
https://www.usenix.org/conference/osdi20/presentation/nakandala.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import numpy_helper

from csdfgen.errors import ModelError
from csdfgen.model.network import Node, Tensor
from csdfgen.ops._operands import one_of
from csdfgen.ops.base import REQUIRED, TABLES, Operator, require_constant, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed

__all__ = ["OPERATORS"]

Results = Iterable[Operand | None]

MOST_LEVELS = 256
"""Of a tree. Each is half a dozen layers."""

_FLOAT32 = 1
"""The element type, as Cast names it."""

_COMPARED = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
"""How a node compares a feature with its value, in the numbering of TreeEnsemble."""

_LEAF = -1

_COMPARISONS = ("LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal", "Equal")


def _features(make: Composition, node: Node) -> Operand:
    """The table, (samples, features), in floats."""
    x = require_tensor(node, 0)
    if len(x.shape) != 2:
        raise ModelError(f"input of shape {list(x.shape)}; it takes samples of features, 2 axes")
    return x if x.dtype.startswith("float") else make("Cast", x, to=_FLOAT32)


def _fitting(values: Any, dtype: Any, count: int, what: str) -> np.ndarray:
    """A number for each of `count` features, or one for all."""
    found = np.asarray(values, dtype)
    if found.size not in (1, count):
        raise ModelError(f"{what} has {found.size} numbers for {count} features")
    return found


def _in_float32(make: Composition, x: Operand) -> Operand:
    return x if x.dtype == "float32" else make("Cast", x, to=_FLOAT32)


def _transformed(make: Composition, scores: Operand, kind: str) -> Operand:
    """The scores, (samples, targets), after `post_transform`, which leaves single ones as they are."""
    one_of(kind, "post_transform", ("NONE", "SOFTMAX", "LOGISTIC"))
    if scores.shape[1] == 1 or kind == "NONE":
        return scores
    return make("Sigmoid", scores) if kind == "LOGISTIC" else make("Softmax", scores, axis=1)


def _both(make: Composition, score: Operand, kind: str, opposite: bool) -> Operand:
    """Scores of two classes, of which the second is known. opposite: that of the first is its negative, not what is
    missing to one.
    """
    one_of(kind, "post_transform", ("NONE", "SOFTMAX", "LOGISTIC"))
    other = make("Neg", score)
    if not opposite and kind != "LOGISTIC":
        other = make("Add", other, np.ones((), score.dtype))
    both = make("Concat", other, score, axis=1)
    return make("Sigmoid", both) if kind == "LOGISTIC" else both


def _labels(node: Node, name: str, count: int) -> np.ndarray | None:
    """The integers that name the classes; None where strings do."""
    found = node.attributes.get(name)
    if found is None or node.attributes.get("classlabels_strings"):
        return None
    if len(found) != count:
        raise ModelError(f"{name} has {len(found)} labels for {count} classes")
    return np.array(found, np.int64)


def _best(make: Composition, scores: Operand, labels: np.ndarray | None) -> Operand | None:
    if labels is None:
        return None
    return make("Gather", labels, make("ArgMax", scores, axis=1, keepdims=0))


def _second(
    make: Composition, score: Operand, above: float, labels: np.ndarray | None
) -> Operand | None:
    """The second of two labels where the score is above a number, else the first."""
    if labels is None:
        return None
    found = make("Greater", score, np.array(above, score.dtype))
    return make.reshaped(make("Where", found, *labels[::-1].reshape(2, 1, 1)), score.shape[:1])


# Trees --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Nodes of all trees by number; leaves lead to themselves.

    roots: a node of each tree. compared: numbers of `_COMPARED`, or `_LEAF`. true, false: the nodes that follow. missing:
    whether a NaN counts as true. weights: (nodes, targets), of leaves.
    """

    roots: np.ndarray
    features: np.ndarray
    values: np.ndarray
    compared: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray
    weights: np.ndarray

    def levels(self) -> int:
        """The most comparisons that a sample meets in a tree. Raises ModelError."""
        at, count = self.roots, 0
        while (inner := at[self.compared[at] != _LEAF]).size:
            at = np.unique(np.concatenate([self.true[inner], self.false[inner]]))
            count += 1
            if count > MOST_LEVELS:
                raise ModelError(f"a tree of more than {MOST_LEVELS} levels")
        if not count:
            raise ModelError("all its trees are single leaves, so that no feature is read")
        return count


def _listed(node: Node, name: str, count: int | None = None, default: int | None = None) -> Any:
    """A list among the attributes, that may be a tensor. Raises ModelError for another length."""
    value = node.attributes.get(name)
    if value is None or not len(value):
        value = node.attributes.get(f"{name}_as_tensor")
        value = None if value is None else numpy_helper.to_array(value)
    if value is None and default is not None:
        return np.full(count or 0, default)
    if value is None:
        raise ModelError(f"attribute '{name}' is missing")
    if count is not None and len(value) != count:
        raise ModelError(f"{name} has {len(value)} values, {count} are needed")
    return value


def _by_ids(node: Node, kind: str, targets: int) -> Forest:
    """Trees whose nodes are named by the numbers of their tree and their own. kind: "target" or "class"."""
    ids = list(
        zip(*(map(int, _listed(node, f"nodes_{k}ids")) for k in ("tree", "node")), strict=True)
    )
    count, own = len(ids), {one: k for k, one in enumerate(ids)}
    if not count or len(own) != count:
        raise ModelError("has no nodes, or one twice")
    modes = _listed(node, "nodes_modes", count)
    known = {"LEAF": _LEAF, **{f"BRANCH_{name}": k for k, name in enumerate(_COMPARED)}}
    for mode in modes:
        one_of(mode, "nodes_modes", tuple(known))
    compared = np.array([known[mode] for mode in modes])
    inner = compared != _LEAF
    followers = []
    for way in ("true", "false"):
        found = np.arange(count)
        given = _listed(node, f"nodes_{way}nodeids", count)
        for k in np.flatnonzero(inner):
            if (follower := (ids[k][0], int(given[k]))) not in own:
                raise ModelError(f"node {ids[k][1]} of tree {ids[k][0]} leads to none")
            found[k] = own[follower]
        followers.append(found)
    true, false = followers
    values = np.asarray(_listed(node, "nodes_values", count))
    weights = np.zeros((count, targets), values.dtype)
    leaves = _listed(node, f"{kind}_nodeids")
    parts = [_listed(node, f"{kind}_{k}", len(leaves)) for k in ("treeids", "ids", "weights")]
    for tree, leaf, target, weight in zip(parts[0], leaves, parts[1], parts[2], strict=True):
        if (int(tree), int(leaf)) not in own or not 0 <= target < targets:
            raise ModelError(
                f"a weight of node {leaf} of tree {tree}, target {target} of {targets}"
            )
        weights[own[int(tree), int(leaf)], target] += weight
    return Forest(
        np.setdiff1d(np.arange(count), np.concatenate([true[inner], false[inner]])),
        np.array(_listed(node, "nodes_featureids", count)),
        values,
        compared,
        true,
        false,
        np.array(_listed(node, "nodes_missing_value_tracks_true", count, 0), bool),
        weights,
    )


def _by_positions(node: Node, targets: int) -> Forest:
    """TreeEnsemble: nodes and leaves apart, both named by their position."""
    values, modes, weights = (
        numpy_helper.to_array(node.attributes[k])
        for k in ("nodes_splits", "nodes_modes", "leaf_weights")
    )
    count, leaves = len(values), len(weights)
    owners = np.array(_listed(node, "leaf_targetids", leaves))
    followers = []
    for way in ("true", "false"):
        found = np.array(_listed(node, f"nodes_{way}nodeids", count))
        ends = np.array(_listed(node, f"nodes_{way}leafs", count), bool)
        if ((found < 0) | (found >= np.where(ends, leaves, count))).any():
            raise ModelError("a node leads to none")
        followers.append(np.append(np.where(ends, found + count, found), count + np.arange(leaves)))
    if not ((owners >= 0) & (owners < targets)).all() or (modes >= len(_COMPARED)).any():
        raise ModelError("leaf_targetids or nodes_modes has a number that is not supported")
    spread = np.zeros((count + leaves, targets), weights.dtype)
    spread[count + np.arange(leaves), owners] = weights
    nothing = np.zeros(leaves, np.int64)
    missing = _listed(node, "nodes_missing_value_tracks_true", count, 0)
    return Forest(
        np.array(_listed(node, "tree_roots")),
        np.append(_listed(node, "nodes_featureids", count), nothing),
        np.append(values, nothing.astype(values.dtype)),
        np.append(modes.astype(np.int64), nothing + _LEAF),
        followers[0],
        followers[1],
        np.append(missing, nothing).astype(bool),
        spread,
    )


def _walked(make: Composition, x: Operand, forest: Forest) -> Operand:
    """(samples, trees): the leaf of each tree that a sample ends at."""
    at: Operand = forest.roots
    if not ((forest.features >= 0) & (forest.features < x.shape[1])).all():
        raise ModelError(f"a node reads a feature that an input of shape {list(x.shape)} has not")
    values = forest.values.astype(x.dtype)
    kinds = np.unique(forest.compared[forest.compared != _LEAF])
    for _ in range(forest.levels()):
        feature = make("Gather", forest.features, at)
        picked = "Gather" if isinstance(feature, np.ndarray) else "GatherElements"
        value, limit = make(picked, x, feature, axis=1), make("Gather", values, at)
        answer: Operand | None = None
        for kind in kinds:
            found = make(_COMPARISONS[kind], value, limit)
            if _COMPARED[kind] == "NEQ":
                found = make("Not", found)
            if len(kinds) > 1:
                found = make("And", found, make("Gather", forest.compared == kind, at))
            answer = found if answer is None else make("Or", answer, found)
        assert answer is not None
        if forest.missing.any():
            lost = make("And", make("IsNaN", value), make("Gather", forest.missing, at))
            answer = make("Or", answer, lost)
        at = make(
            "Where", answer, make("Gather", forest.true, at), make("Gather", forest.false, at)
        )
    return at


_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _scores(
    make: Composition, node: Node, x: Operand, forest: Forest, aggregate: str = "SUM"
) -> Operand:
    """(samples, targets), with what `base_values` adds."""
    one_of(aggregate, "aggregate_function", _AGGREGATES)
    targets = forest.weights.shape[1]
    if aggregate in ("MIN", "MAX") and targets > 1:
        raise ModelError(f"aggregate_function={aggregate} of {targets} targets; 1 is supported")
    weights = forest.weights.astype(x.dtype)
    leaves = _walked(make, x, forest)
    reduced = f"Reduce{'Sum' if aggregate == 'AVERAGE' else aggregate.capitalize()}"
    axis, one = np.array([1], np.int64), targets == 1
    found = make("Gather", weights[:, 0] if one else weights, leaves, axis=0)
    found = make(reduced, found, axis, keepdims=int(one))
    if aggregate == "AVERAGE":
        found = make("Div", found, np.array(len(forest.roots), x.dtype))
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
    forest = _by_positions(node, int(node.attributes.get("n_targets", 1)))
    return [_scores(make, node, x, forest, _AGGREGATES[kind])]


def _tree_regressor(make: Composition, node: Node) -> Results:
    x = _features(make, node)
    forest = _by_ids(node, "target", int(node.attributes.get("n_targets", 1)))
    scores = _scores(make, node, x, forest, node.attributes.get("aggregate_function", "SUM"))
    scores = _in_float32(make, scores)
    return [_transformed(make, scores, node.attributes.get("post_transform", "NONE"))]


def _tree_classifier(make: Composition, node: Node) -> Results:
    """Of two classes with weights of one alone, the second is above 0, or above 0.5 where no weight is negative."""
    names = ("classlabels_int64s", "classlabels_strings")
    count = max(len(node.attributes.get(name) or ()) for name in names)
    labels = _labels(node, names[0], count)
    kind = node.attributes.get("post_transform", "NONE")
    x, ids = _features(make, node), set(_listed(node, "class_ids"))
    single = count <= 2 and len(ids) == 1
    base = _listed(node, "base_values", default=0)
    if count < 2 or (count == 2 and len(base) > (ids == {0})):
        raise ModelError(f"{count} classes with base_values of {len(base)} are not supported")
    forest = _by_ids(node, "class", 1 if ids == {0} and single else count)
    scores = _in_float32(make, _scores(make, node, x, forest))
    negative = bool((forest.weights < 0).any())
    if not single:
        # onnxruntime's label of two classes is not the best of them
        best = _best(make, scores, labels if count > 2 else None)
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
    names = ("classlabels_ints", "classlabels_strings")
    count = max(len(node.attributes.get(name) or ()) for name in names)
    labels = _labels(node, names[0], count)
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
    norm = one_of(node.attributes.get("norm", "MAX"), "norm", ("MAX", "L1", "L2"))
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
    x, places = require_tensor(node, 0), require_constant(node, 1).reshape(-1)
    found = make("Gather", x, places, axis=len(x.shape) - 1)
    return [make.reshaped(found, (1, len(places))) if len(x.shape) == 1 else found]


def _vectorized(make: Composition, node: Node) -> Results:
    """FeatureVectorizer: tables side by side."""
    tables: list[Operand] = []
    for position, width in enumerate(node.attributes.get("inputdimensions") or ()):
        x = node.operand(position)
        if not isinstance(x, Tensor) or len(x.shape) != 2 or x.shape[1] != width:
            raise ModelError(f"input {position} is no table of {width} features")
        tables.append(x if x.dtype == "float32" else make("Cast", x, to=_FLOAT32))
    return [tables[0] if len(tables) == 1 else make("Concat", *tables, axis=1)]


# The table ----------------------------------------------------------------------------------------


def _nodes(*more: str) -> Mapping[str, Any]:
    names = (
        *("falsenodeids", "featureids", "hitrates", "hitrates_as_tensor"),
        *("missing_value_tracks_true", "modes", "nodeids", "treeids", "truenodeids"),
        *("values", "values_as_tensor"),
    )
    own = dict.fromkeys(("base_values", "base_values_as_tensor", *more))
    return {**own, **{f"nodes_{name}": None for name in names}, "post_transform": "NONE"}


_TARGETS = ("ids", "nodeids", "treeids", "weights", "weights_as_tensor")

_POST = "`post_transform` NONE, LOGISTIC or SOFTMAX."

_KNOWN: Sequence[tuple[str, Any, Mapping[str, Any], int, str]] = (
    (
        "TreeEnsemble",
        _trees,
        {
            "aggregate_function": 1,
            "leaf_targetids": REQUIRED,
            "leaf_weights": REQUIRED,
            "n_targets": 1,
            **dict.fromkeys(("nodes_hitrates", "nodes_missing_value_tracks_true")),
            **{
                f"nodes_{name}": REQUIRED
                for name in (
                    *("falseleafs", "falsenodeids", "featureids", "modes", "splits"),
                    *("trueleafs", "truenodeids"),
                )
            },
            "post_transform": 0,
            "tree_roots": REQUIRED,
        },
        5,
        "No `post_transform` and no BRANCH_MEMBER.",
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
        f"{_POST} Labels that are strings, or of two classes with weights of both, are not computed.",
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
        f"{_POST} Labels that are strings are not computed.",
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
)

OPERATORS: tuple[Operator, ...] = tuple(
    composed(
        op_type,
        write,
        since=since,
        domain=TABLES,
        attributes=MappingProxyType(dict(attributes)),
        constant_inputs=(1,) if op_type == "ArrayFeatureExtractor" else (),
        structure="whole" if "Tree" in op_type else "row-phased",
        notes=notes,
        multiplies=op_type.startswith("Linear"),
    )
    for op_type, write, attributes, since, notes in _KNOWN
)
