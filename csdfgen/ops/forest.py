"""Trees as arrays, and the layer that walks them: a sample goes from each root to one leaf, whose weights are joined.

Source: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html. Sums are taken in the order of the trees, in the type
of the features, as onnxruntime's are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import node_layer
from csdfgen.ops.base import (
    TABLES,
    Call,
    Emit,
    Mode,
    Operator,
    Work,
    aligned_rows,
    require_constant,
    whole_rows,
)
from csdfgen.ops.indexing import order_axes
from csdfgen.ops.primitives import WAYS, walk_trees
from csdfgen.ops.reducing import data_input

MOST_LEVELS = 256
"""Of a tree."""


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Nodes of all trees by number.

    roots: a node of each tree. compared: numbers of `COMPARED`, or `LEAF`. true, false: the nodes that follow. missing:
    whether a NaN counts as true. weights: of leaves, as (leaf, target, weight). targets: how many there are.
    """

    COMPARED: ClassVar = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
    """How a node compares a feature with its value, in the numbering of TreeEnsemble."""
    LEAF: ClassVar = -1

    roots: np.ndarray
    features: np.ndarray
    values: np.ndarray
    compared: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray
    weights: tuple[np.ndarray, np.ndarray, np.ndarray]
    targets: int

    def check_levels(self) -> None:
        """Raises ModelError for trees that no walk comes to the end of, or without a comparison."""
        at, count = self.roots, 0
        while (inner := at[self.compared[at] != self.LEAF]).size:
            at = np.unique(np.concatenate([self.true[inner], self.false[inner]]))
            count += 1
            if count > MOST_LEVELS:
                raise ModelError(f"a tree of more than {MOST_LEVELS} levels")
        if not count:
            raise ModelError("all its trees are single leaves, so that no feature is read")

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """What `walk_trees` reads, int32: (nodes, 4), and the target of each weight."""
        leaves, targets, _ = self.weights
        ways = np.array([WAYS[one] for one in self.COMPARED] + [0])[self.compared]
        inner = self.compared != self.LEAF
        ways = np.where(inner & self.missing, ways | WAYS["missing"], ways)
        ends = np.searchsorted(leaves, np.arange(len(ways) + 1))
        nodes = [
            np.where(inner, self.features * WAYS["all"] + ways, 0),
            np.where(inner, self.false, np.arange(len(ways))),
            np.where(inner, self.true, ends[:-1]),
            np.where(inner, 0, ends[1:]),
        ]
        return np.stack(nodes, 1).astype(np.int32), targets.astype(np.int32)


NODES, ROOTS, TARGETS, VALUES, WEIGHTS = range(1, 6)
"""Positions of the constants."""

JOINED = ("SUM", "MIN", "MAX")
"""What becomes of the weights of one target."""


def _build(node: Node) -> Layer:
    x = data_input(node, ("float32", "float64"), 2)
    known = [require_constant(node, k) for k in range(NODES, WEIGHTS + 1)]
    shape = (x.shape[0], int(node.attributes["targets"]))
    own = x.row_axis if x.row_axis == 0 else None
    output = Tensor(node.outputs[0], shape, Format(x.dtype), own)
    attributes = {"joined": node.attributes["joined"]}
    return node_layer(node, (x, *known), (output,), attributes, (own, *[None] * len(known)))


def _kernel(layer: Layer) -> Emit:
    tables = [np.ascontiguousarray(layer.constants[k]) for k in range(NODES, WEIGHTS + 1)]
    joined = JOINED.index(layer.attributes["joined"])

    def emit(work: Work) -> list[Call]:
        x, out = order_axes(layer, work, 0), layer.output.to_onnx(work.result)
        return [(walk_trees, (x, *tables, joined, out))]

    return emit


def _mode(layer: Layer) -> Mode:
    return Mode.WHOLE if layer.output.row_axis is None else Mode.ROWS


def _rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return (whole_rows if _mode(layer) is Mode.WHOLE else aligned_rows)(layer, out)


WALK = Operator(
    "TreeEnsemble",
    build=_build,
    input_rows=_rows,
    kernel=_kernel,
    cost=lambda layer, out: len(out) * len(layer.constants[ROOTS]) * 8,
    mode=_mode,
    shift_invariant=True,
    domain=TABLES,
)
"""Of nodes as `Forest.tables` has them; what ONNX has is read by `csdfgen.ops.trees`."""

OPERATORS = (WALK,)
