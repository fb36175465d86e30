"""What is chosen by its values, so that the size of the result depends on them: NonZero, NonMaxSuppression.

Sources: https://onnx.ai/onnx/operators/onnx__NonZero.html, https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html.
Tensors of a network have fixed shapes: these have the size that the result has at most, and behind what was found all
elements are `FILL`, which no index is. What may read such a tensor, `csdfgen.reading.bounded` says.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops._operands import node_layer, read_integers
from csdfgen.ops.base import (
    Call,
    Mode,
    Operator,
    Work,
    make_phase_kernel,
    require_constant,
    whole_rows,
)
from csdfgen.ops.copies import make_contiguous
from csdfgen.ops.elementwise import EVERY
from csdfgen.ops.indexing import order_axes
from csdfgen.ops.primitives import nonzero, suppress_boxes
from csdfgen.ops.reducing import constant, data_input

FILL = -1
"""What stands behind the elements that were found."""


def fill_value(dtype: np.dtype[Any]) -> int:
    """What stands there in tensors of a type that has no such number: 0, or False."""
    return FILL if dtype.kind in "fi" else 0


SELECTING = MappingProxyType({"NonMaxSuppression": 0, "NonZero": 1})
"""Operator -> the axis of its result along which there are as many positions as were found."""


def _written(work: Work, calls: list[Call], made: np.ndarray) -> list[Call]:
    """The calls, and one that moves what they made to the result, if it is elsewhere."""
    return calls if made is work.result else [*calls, (np.copyto, (work.result, made))]


def _target(work: Work) -> np.ndarray:
    """The result, or as much of the workspace where its lines are apart."""
    result, scratch = work.result, work.scratch
    return result if result.flags.c_contiguous else scratch.take(result.shape, result.dtype)


# NonZero ------------------------------------------------------------------------------------------


def _build_nonzero(node: Node) -> Layer:
    x = data_input(node, EVERY, 1)
    # stored with the coordinates of an element one after the other
    output = Tensor(node.outputs[0], (len(x.shape), x.elements), Format("int64"), 1)
    return node_layer(node, (x,), (output,), {})


def _nonzero(layer: Layer, work: Work) -> list[Call]:
    calls: list[Call] = []
    x = make_contiguous(order_axes(layer, work, 0), work.scratch, calls)
    flags = x
    if x.dtype != np.bool_:
        flags = work.scratch.take(x.shape, "bool")
        calls.append((np.not_equal, (x, constant(0, x.dtype), flags)))
    made = _target(work)
    return _written(work, [*calls, (nonzero, (flags, made))], made)


# NonMaxSuppression --------------------------------------------------------------------------------

BOXES, SCORES, MOST, OVERLAP, LEAST = range(5)
"""Positions of the inputs."""


def _number(node: Node, position: int, what: str) -> float | None:
    """A constant of one number; None where it is absent."""
    if node.operand(position) is None:
        return None
    found = require_constant(node, position)
    if found.size != 1:
        raise ModelError(f"{what} has {found.size} numbers, one is needed")
    return float(found.item())


def _build_suppression(node: Node) -> Layer:
    boxes, scores = data_input(node, ("float32",), 3), node.operand(SCORES)
    if scores is None or str(scores.dtype) != "float32":
        raise ModelError("scores are absent or not float32")
    shapes = f"boxes of shape {list(boxes.shape)} and scores of shape {list(scores.shape)}"
    if (
        not len(boxes.shape) == len(scores.shape) == 3
        or boxes.shape[2] != 4
        or (boxes.shape[0], boxes.shape[1]) != (scores.shape[0], scores.shape[2])
    ):
        raise ModelError(f"{shapes}; (images, boxes, 4) and (images, classes, boxes) are needed")
    most = (
        (0,) if node.operand(MOST) is None else read_integers(require_constant(node, MOST), "max")
    )
    if len(most) != 1 or most[0] < 1:
        raise ModelError(
            "max_output_boxes_per_class is absent or not above 0, so that there are no boxes; give it"
        )
    overlap = _number(node, OVERLAP, "iou_threshold")
    least = _number(node, LEAST, "score_threshold")
    overlap = 0.0 if overlap is None else overlap
    if not 0 <= overlap <= 1:
        raise ModelError(f"iou_threshold={overlap} is not within 0 and 1")
    limit = min(most[0], boxes.shape[1])
    shape = (prod(scores.shape[:2]) * limit, 3)
    attributes = {
        "centre": bool(node.attributes.get("center_point_box", 0)),
        "least": least,
        "limit": limit,
        "overlap": overlap,
    }
    output = Tensor(node.outputs[0], shape, Format("int64"), 0)
    return node_layer(node, (boxes, scores, None, None, None), (output,), attributes)


def _suppression(layer: Layer, work: Work) -> list[Call]:
    calls: list[Call] = []
    boxes, scores = (
        make_contiguous(order_axes(layer, work, k), work.scratch, calls) for k in (BOXES, SCORES)
    )
    made = _target(work)
    order = work.scratch.take(scores.shape[2:], "int64")
    settings = (layer.attributes[k] for k in ("limit", "overlap", "least", "centre"))
    return _written(work, [*calls, (suppress_boxes, (scores, boxes, *settings, order, made))], made)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "NonZero",
        build=_build_nonzero,
        input_rows=whole_rows,
        kernel=make_phase_kernel(_nonzero),
        cost=lambda layer, out: layer.computed(0).elements,
        mode=lambda layer: Mode.WHOLE,
        since=9,
        structure="whole",
        notes="One column per input element; unused columns are -1.",
    ),
    Operator(
        "NonMaxSuppression",
        build=_build_suppression,
        input_rows=whole_rows,
        kernel=make_phase_kernel(_suppression),
        cost=lambda layer, out: out.stop * layer.computed(0).shape[1],
        mode=lambda layer: Mode.WHOLE,
        since=10,
        constant_inputs=frozenset({MOST, OVERLAP, LEAST}),
        attributes=MappingProxyType({"center_point_box": 0}),
        structure="whole",
        notes="At most max_output_boxes_per_class rows for each class of each image; unused rows are -1.",
    ),
)
