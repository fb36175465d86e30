"""Exports that fix the height of an image: which of their constants follow it?

Exporters write the rows that they saw into operands: the target of a Reshape or an Expand, the sizes of a Resize, the bounds of
a Slice. Operations are visited for images of two heights, that of the file and another one, so that it is known which axes of
an operand have another size; `lift_height` gives constants the sizes of the other image. What the layers then compute is what
the file does only if they follow the same rules at its own height; that is compared where streams are planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from csdfgen.errors import ModelError
from csdfgen.model.network import Node, Shape, Tensor
from csdfgen.reading.batching import read_integers, write_integers

LIFTED = frozenset({"Expand", "Reshape", "Resize", "Slice"})
"""Operators whose constants can fix a height."""

Sizes = Mapping[tuple[int, int], int]
"""(axis, counted from the last one, size at the file's height) -> the size that tensors have there in the other image."""

_FREE = "export the model with a free height"


def lift_height(node: Node, written: Shape, sizes: Sizes) -> Node:
    """The node for an image of another height; the node itself where its constants fix none.

    written: the shape of its first operand at the file's height. Raises ModelError where constants do not follow the height.
    """
    source = node.operand(0)
    if not isinstance(source, Tensor) or len(source.shape) != len(written):
        return node
    if node.op_type == "Reshape":
        return _lift_target(node, source.shape, written)
    if node.op_type == "Slice":
        return _lift_bounds(node, source.shape, written, sizes)
    position = 1 if node.op_type == "Expand" else 3
    given, axes = read_integers(node, position), node.attributes.get("axes")
    if given is None:
        return node
    rank, made = len(written), list(given)
    for k, axis in enumerate(axes or range(rank - len(given), rank)):
        if (axis < 0 and not axes) or given[
            k
        ] == 1:  # an Expand to more axes, or along one of any size
            continue
        now, was = source.shape[axis], written[axis]
        if now == was > 1:
            continue
        known = sizes.get((axis % rank - rank, given[k]))
        if was == 1 or (known and given[k] % was):
            made[k] = known or given[k]
        else:
            made[k] = _scale(given[k], now, was)
    return node if made == given else write_integers(node, position, made)


def _lift_target(node: Node, now: Shape, was: Shape) -> Node:
    """The target of a Reshape. Where rows become several axes, the outermost counts them."""
    given = read_integers(node, 1, "shape")
    if given is None or now == was:
        return node
    copied = not node.attributes.get("allowzero", 0)
    given = [was[k] if copied and n == 0 and k < len(was) else n for k, n in enumerate(given)]
    rest = prod(was) // max(1, -prod(given))
    before = [rest if n == -1 else n for n in given]
    if prod(before) != prod(was):
        return node
    after = list(before)
    for axis, (size, old) in enumerate(zip(now, was, strict=True)):
        if size != old:
            stride = prod(was[axis:])
            at = next((k for k in range(len(before)) if prod(before[k + 1 :]) < stride), None)
            if at is None:
                raise ModelError(
                    f"has no axis for a single row, of which there are {size} now; {_FREE}"
                )
            after[at] = _scale(after[at], size, old)
    return write_integers(node, 1, after, "shape")


def _scale(size: int, now: int, was: int) -> int:
    scaled, rest = divmod(size * now, was)
    if rest or was == 1:
        raise ModelError(f"has a size of {size} for {was} rows, and none for {now}; {_FREE}")
    return scaled


def _lift_bounds(node: Node, now: Shape, was: Shape, sizes: Sizes) -> Node:
    """The bounds of a Slice: those in the second half of an axis are counted from its end."""
    names = enumerate(("starts", "ends", "axes"), 1)
    starts, ends, axes = (read_integers(node, k, name) for k, name in names)
    if starts is None or ends is None or len(starts) != len(ends):
        return node
    for k, axis in enumerate(axes or range(len(ends))):
        size, old = now[axis], was[axis]
        if size == old:
            continue
        known = sizes.get((axis % len(was) - len(was), ends[k] - starts[k]))
        if 2 * starts[k] > old:
            starts[k] += size - old
        if ends[k] >= old:
            ends[k] = max(ends[k], size)
        elif known and ends[k] > 0:
            ends[k] = starts[k] + known
        elif 2 * ends[k] > old:
            ends[k] += size - old
        elif ends[k] > 0:
            raise ModelError(
                f"keeps rows {starts[k]} to {ends[k]} of {old}, and it is not known which of {size}; {_FREE}"
            )
    return write_integers(write_integers(node, 1, starts, "starts"), 2, ends, "ends")
