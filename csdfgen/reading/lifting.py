"""Which constants of a model fix one image? Those that say 1 where its images are counted.

Exporters write the batch that they saw, 1, into operands: the target of a Reshape, the sizes of a
Resize, the end of a Slice, a constant that a Concat joins to every image. `lifted` makes such a
node one of N images. That this is what the model does to each image is not known here: the network
built from lifted nodes is held against the one for one image (`batching`), layer by layer.

Nothing is to be done where a 1 stretches by itself: an Expand to 1, operands of arithmetic, a Tile
by 1. What computes only constants (ConstantOfShape, Shape and what follows) has been evaluated; its
result counts where a node of this table reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.model.network import Node, Tensor

__all__ = ["lifted"]


def lifted(node: Node, batch: int) -> Node:
    """The node with a leading size of 1 that its constants fix made `batch`; the node itself where
    they fix none.

    Only where an operand that is computed counts `batch` along axis 0 is there anything to lift.
    """
    computed = [i for i in node.inputs if isinstance(i, Tensor)]
    rule = _RULES.get(node.op_type)
    if rule is None or not any(tensor.shape[:1] == (batch,) for tensor in computed):
        return node
    return rule(node, batch)


def _reshape(node: Node, batch: int) -> Node:
    """Its target; sizes behind the first are those of one image."""
    target = _integers(node, 1)
    return node if target is None or target[:1] != [1] else _with(node, 1, [batch, *target[1:]])


def _resize(node: Node, batch: int) -> Node:
    """The size along axis 0, if it is given at all; factors are the same for any number of images."""
    sizes, axes = _integers(node, 3), node.attributes.get("axes")
    if sizes is None:
        return node
    place = _place_of_axis_0(node, len(sizes), axes)
    if place is None or sizes[place] != 1:
        return node
    return _with(node, 3, [*sizes[:place], batch, *sizes[place + 1 :]])


def _slice(node: Node, batch: int) -> Node:
    """The end of [0, 1) along axis 0: of all images there are."""
    given = [_integers(node, k, name) for k, name in enumerate(("starts", "ends", "axes"), 1)]
    starts, ends, axes = given
    if starts is None or ends is None or len(starts) != len(ends):
        return node
    place = _place_of_axis_0(node, len(ends), axes)
    if place is None or (starts[place], ends[place]) != (0, 1):
        return node
    return _with(node, 2, [*ends[:place], batch, *ends[place + 1 :]], "ends")


def _concat(node: Node, batch: int) -> Node:
    """Constants for one image, joined along another axis: the same one for every image."""
    axis = node.attributes.get("axis")
    joined = tuple(
        np.broadcast_to(i, (batch, *i.shape[1:]))
        if isinstance(i, np.ndarray) and i.shape[:1] == (1,) and axis not in (0, -i.ndim)
        else i
        for i in node.inputs
    )
    changed = any(a is not b for a, b in zip(joined, node.inputs, strict=True))
    return replace(node, inputs=joined) if changed else node


_RULES: Mapping[str, Callable[[Node, int], Node]] = MappingProxyType(
    {"Concat": _concat, "Reshape": _reshape, "Resize": _resize, "Slice": _slice}
)
"""Operators whose constants can fix a number of images, and how each is lifted."""


def _integers(node: Node, position: int, attribute: str = "") -> list[int] | None:
    """A list of integers: a constant operand, or (of an early opset) an attribute; None for
    anything else, which its operator is to judge.
    """
    if attribute in node.attributes:
        return [int(v) for v in node.attributes[attribute]]
    operand = node.operand(position)
    if not isinstance(operand, np.ndarray) or operand.ndim != 1 or operand.dtype.kind not in "iu":
        return None
    return [int(v) for v in operand]


def _with(node: Node, position: int, values: Sequence[int], attribute: str = "") -> Node:
    """The node with other integers where `_integers` found them."""
    if attribute in node.attributes:
        attributes = MappingProxyType({**node.attributes, attribute: tuple(values)})
        return replace(node, attributes=attributes)
    inputs = list(node.inputs)
    inputs[position] = np.array(values, np.int64)
    return replace(node, inputs=tuple(inputs))


def _place_of_axis_0(node: Node, count: int, axes: Sequence[int] | None) -> int | None:
    """Where a list with `count` entries, one for each of `axes` (None: 0, 1, ...), speaks of axis 0
    of the first operand.
    """
    source = node.operand(0)
    if not isinstance(source, Tensor):
        return None
    named = list(range(count)) if axes is None else [int(axis) for axis in axes]
    rank = len(source.shape)
    return next((k for k, axis in enumerate(named[:count]) if axis in (0, -rank)), None)
