"""Axes, sizes, shapes and operands of a node: they are checked here, and made a layer.

Source: https://onnx.ai/onnx/operators/ (negative axes count from the back; what was an attribute in
early opsets became a constant input later).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops.base import require_constant

MOST_AXES = 12
"""Kernels split every axis of a stored tensor in two; numpy before 2.0 knows 32 of them."""


def normalize_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; ModelError if it is outside [-rank, rank).

    >>> normalize_axis(-1, 4)
    3
    """
    if not -rank <= axis < rank:
        raise ModelError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def normalize_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in the given order; ModelError if one is outside or named twice."""
    found = tuple(normalize_axis(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ModelError(f"axes {found} name an axis twice")
    return found


def require(node: Node, position: int) -> Tensor | np.ndarray:
    """An operand that may be a constant or computed. Raises ModelError if it is absent."""
    operand = node.operand(position)
    if operand is None:
        raise ModelError(f"input {position} is absent; {node.op_type} needs it")
    return operand


def read_integers(array: np.ndarray, what: str) -> tuple[int, ...]:
    """A constant scalar or 1-D operand as Python integers; ModelError if it is neither."""
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise ModelError(
            f"'{what}' is a {array.dtype} array of rank {array.ndim}, a 1-D integer array is needed"
        )
    return tuple(int(value) for value in array.reshape(-1))


def read_attribute_or_input(
    node: Node, name: str, position: int, since: int
) -> tuple[int, ...] | None:
    """Integers of an attribute before opset `since`, of a constant input from it on; None if absent."""
    if node.opset < since:
        value = node.attributes.get(name)
        return None if value is None else tuple(int(v) for v in value)
    if node.operand(position) is None:
        return None
    return read_integers(require_constant(node, position), name)


def check_shape(shape: Shape) -> Shape:
    """The shape itself; ModelError if a dimension is not positive, or if there are too many."""
    if len(shape) > MOST_AXES:
        raise ModelError(
            f"the output would have {len(shape)} axes, at most {MOST_AXES} are supported"
        )
    if any(size < 1 for size in shape):
        raise ModelError(
            f"the output would be {'x'.join(map(str, shape))}, which has no elements; check the node's constants"
        )
    return shape


def check_word(value: Any, name: str, allowed: Sequence[str]) -> str:
    """An attribute that is one of several words. Raises ModelError."""
    if value not in allowed:
        raise ModelError(f"{name}='{value}' is not one of {', '.join(allowed)}")
    return str(value)


def storage_axis(tensor: Tensor, axis: int) -> int:
    """Position of an ONNX axis in a stored array of shape (rows, *row_shape).

    >>> storage_axis(Tensor("x", (1, 3, 8, 10), row_axis=2), 1), storage_axis(Tensor("y", (1, 3)), 1)
    (3, 2)
    """
    return axis + 1 if tensor.row_axis is None else tensor.order.index(axis)


def node_layer(
    node: Node,
    operands: Sequence[Tensor | np.ndarray | None],
    outputs: Iterable[Tensor],
    attributes: Mapping[str, Any],
    axes: Sequence[int | None] | None = None,
) -> Layer:
    """The layer of a node. Operands that are computed become its inputs, arrays its constants.

    axes: the axis along which each operand is read; None: each one's own row axis.
    """
    inputs = tuple(x if isinstance(x, Tensor) else None for x in operands)
    return Layer(
        node.name,
        node.op_type,
        inputs,
        tuple(outputs),
        MappingProxyType(dict(attributes)),
        MappingProxyType({k: x for k, x in enumerate(operands) if isinstance(x, np.ndarray)}),
        tuple(None if t is None else t.row_axis for t in inputs) if axes is None else tuple(axes),
    )


def one_input_layer(node: Node, source: Tensor, output: Tensor, **attributes: Any) -> Layer:
    """A layer that reads one activation along its own row axis; other operands are attributes."""
    return node_layer(node, (source, *[None] * (len(node.inputs) - 1)), (output,), attributes)


def set_attributes(layer: Layer, **more: Any) -> Layer:
    """The layer with more attributes, or other values of those that it has."""
    return replace(layer, attributes=MappingProxyType({**layer.attributes, **more}))


def output_elements(layer: Layer, out: Rows) -> int:
    """Cost of moving elements: those of the given rows of all outputs."""
    return sum(len(out) * prod(tensor.row_shape) for tensor in layer.outputs)


def first_input_rows(layer: Layer, rows: Rows) -> tuple[Rows | None, ...]:
    """`input_rows` of a layer whose input 0 alone is computed."""
    return (rows, *(None,) * (len(layer.inputs) - 1))
