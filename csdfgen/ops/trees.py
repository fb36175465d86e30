"""How are trees of ONNX's domain for tables of features read? As arrays of nodes, whatever names them.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import numpy_helper

from csdfgen.errors import ModelError
from csdfgen.model.network import Node
from csdfgen.ops._operands import check_word
from csdfgen.ops.composing import Composition, Operand
from csdfgen.ops.forest import Forest

_LEAF, _COMPARED = Forest.LEAF, Forest.COMPARED

_MEMBER = len(_COMPARED)
"""Whether a feature is in a set, which TreeEnsemble alone has."""


def read_list(node: Node, name: str, count: int | None = None, default: int | None = None) -> Any:
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


def read_forest(node: Node, kind: str, targets: int) -> Forest:
    """Trees whose nodes are named by the numbers of their tree and their own. kind: "target" or "class"."""
    ids = list(
        zip(*(map(int, read_list(node, f"nodes_{k}ids")) for k in ("tree", "node")), strict=True)
    )
    count, own = len(ids), {one: k for k, one in enumerate(ids)}
    if not count or len(own) != count:
        raise ModelError("has no nodes, or one twice")
    modes = read_list(node, "nodes_modes", count)
    known = {"LEAF": _LEAF, **{f"BRANCH_{name}": k for k, name in enumerate(_COMPARED)}}
    for mode in modes:
        check_word(mode, "nodes_modes", tuple(known))
    compared = np.array([known[mode] for mode in modes])
    inner = compared != _LEAF
    followers = []
    for way in ("true", "false"):
        found = np.arange(count)
        given = read_list(node, f"nodes_{way}nodeids", count)
        for k in np.flatnonzero(inner):
            if (follower := (ids[k][0], int(given[k]))) not in own:
                raise ModelError(f"node {ids[k][1]} of tree {ids[k][0]} leads to none")
            found[k] = own[follower]
        followers.append(found)
    true, false = followers
    values = np.asarray(read_list(node, "nodes_values", count))
    leaves = read_list(node, f"{kind}_nodeids")
    parts = [read_list(node, f"{kind}_{k}", len(leaves)) for k in ("treeids", "ids", "weights")]
    ends = []
    for tree, leaf, target in zip(parts[0], leaves, parts[1], strict=True):
        if (int(tree), int(leaf)) not in own or not 0 <= target < targets:
            raise ModelError(
                f"a weight of node {leaf} of tree {tree}, target {target} of {targets}"
            )
        ends.append(own[int(tree), int(leaf)])
    places = np.array(ends)
    order = np.argsort(places, kind="stable")
    kept = order[~inner[places[order]]]
    return Forest(
        np.setdiff1d(np.arange(count), np.concatenate([true[inner], false[inner]])),
        np.array(read_list(node, "nodes_featureids", count)),
        values,
        compared,
        true,
        false,
        np.array(read_list(node, "nodes_missing_value_tracks_true", count, 0), bool),
        (places[kept], np.array(parts[1])[kept], np.array(parts[2])[kept]),
        targets,
    )


def read_ensemble(node: Node, targets: int) -> Forest:
    """TreeEnsemble: nodes and leaves apart, both named by their position."""
    values, modes, weights = (
        numpy_helper.to_array(node.attributes[k])
        for k in ("nodes_splits", "nodes_modes", "leaf_weights")
    )
    count, leaves = len(values), len(weights)
    owners = np.array(read_list(node, "leaf_targetids", leaves))
    followers = []
    for way in ("true", "false"):
        found = np.array(read_list(node, f"nodes_{way}nodeids", count))
        ends = np.array(read_list(node, f"nodes_{way}leafs", count), bool)
        if ((found < 0) | (found >= np.where(ends, leaves, count))).any():
            raise ModelError("a node leads to none")
        followers.append(np.append(np.where(ends, found + count, found), count + np.arange(leaves)))
    if not ((owners >= 0) & (owners < targets)).all() or (modes > _MEMBER).any():
        raise ModelError("leaf_targetids or nodes_modes has a number that is not known")
    nothing = np.zeros(leaves, np.int64)
    missing = read_list(node, "nodes_missing_value_tracks_true", count, 0)
    forest = Forest(
        np.array(read_list(node, "tree_roots")),
        np.append(read_list(node, "nodes_featureids", count), nothing),
        np.append(values, nothing.astype(values.dtype)),
        np.append(modes.astype(np.int64), nothing + _LEAF),
        followers[0],
        followers[1],
        np.append(missing, nothing).astype(bool),
        (count + np.arange(leaves), owners, weights),
        targets,
    )
    return _without_sets(node, forest)


def _without_sets(node: Node, forest: Forest) -> Forest:
    """A node that asks for one of several values becomes one for each of them."""
    (places,) = np.nonzero(forest.compared == _MEMBER)
    if not places.size:
        return forest
    members = numpy_helper.to_array(node.attributes["membership_values"])
    ends = np.flatnonzero(np.isnan(members))
    if len(ends) != len(places):
        raise ModelError(f"membership_values has {len(ends)} sets for {len(places)} nodes")
    sets = [np.append(one, np.nan)[: max(len(one) - 1, 1)] for one in np.split(members, ends + 1)]
    columns = {
        name: list(getattr(forest, name))
        for name in ("features", "values", "compared", "true", "false", "missing")
    }
    for place, values in zip(places, sets, strict=False):
        at, last = int(place), forest.false[place]
        for number, value in enumerate(values):
            if number:
                columns["false"][at] = len(columns["false"])
                at = len(columns["false"])
                for column in columns.values():
                    column.append(column[place])
            columns["values"][at], columns["compared"][at] = value, _COMPARED.index("EQ")
        columns["false"][at] = last
    return replace(forest, **{name: np.array(one) for name, one in columns.items()})  # type: ignore[arg-type]


def walk_forest(make: Composition, x: Operand, forest: Forest, joined: str) -> Operand:
    """(samples, targets): what the weights of the leaves that a sample ends at give. joined: see `csdfgen.ops.forest`."""
    forest.check_levels()
    if not ((forest.features >= 0) & (forest.features < x.shape[1])).all():
        raise ModelError(f"a node reads a feature that an input of shape {list(x.shape)} has not")
    nodes, targets = forest.tables()
    numbers = (array.astype(x.dtype) for array in (forest.values, forest.weights[2]))
    tables = nodes, forest.roots.astype(np.int32), targets, *numbers
    return make("TreeEnsemble", x, *tables, targets=forest.targets, joined=joined)
