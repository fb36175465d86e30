"""Views of views: splits, slices, joins and moves, with layers behind them that compute in place."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from tests.patterns.activations import activated, softmax
from tests.patterns.convolutional import joined, pointwise, rectified
from tests.patterns.growing import Growing, Map, Signal, Tokens, Value
from tests.patterns.normalizing import batch_normalized, channels_normalized

__all__ = ["ANY", "MAPS"]

Kind = TypeVar("Kind", Map, Tokens, Signal)


def _branch(net: Growing, x: Map) -> Map:
    """What may be an operand of a join: a layer, part of a map, or the map itself."""
    kind = net.pick("convolution", "same", "part", "activation", "softmax", "pool")
    if kind == "convolution":
        return rectified(net, pointwise(net, x, net.number(1, 5), net.pick(1, 3)))
    if kind == "part" and x.channels > 1:
        start = net.number(0, x.channels - 1)
        stop = net.number(start + 1, x.channels)
        return replace(x, name=net.sliced(x.name, 1, start, stop), channels=stop - start)
    if kind == "activation":
        return activated(net, x)
    if kind == "softmax":
        return softmax(net, x)
    if kind == "pool":
        return net.same("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return x


def join_and_follow(net: Growing, x: Map) -> Map:
    """Operands in pieces, with what follows them in place: Concat, then BatchNormalization, activations,
    Softmax, sums, reductions and convolutions.
    """
    y = joined(net, [_branch(net, x) for _ in range(net.number(2, 4))])
    for _ in range(net.number(1, 3)):
        kind = net.pick("batch", "activation", "softmax", "channels", "constant", "sum", "gate")
        if kind == "batch":
            y = batch_normalized(net, y)
        elif kind == "activation":
            y = activated(net, y)
        elif kind == "softmax":
            y = softmax(net, y)
        elif kind == "channels":
            y = channels_normalized(net, y)
        elif kind == "constant":
            operand = net.uniform((y.channels, 1, 1), 0.5, 1.5)
            y = net.same(net.pick("Mul", "Add", "Sub", "Div"), y, operand)
        elif kind == "sum":
            other = pointwise(net, x, y.channels)
            y = net.same(net.pick("Add", "Mul", "Sub"), *((y, other.name) if net.chance() else (other, y.name)))  # fmt: skip
        else:
            mean = net.op("GlobalAveragePool", y.name)
            y = net.same("Mul", y, net.op("Sigmoid", mean))
    if net.chance():
        group = net.pick(1, y.channels)
        kernel = net.pick(1, 3)
        out = y.channels if group > 1 else net.number(1, 6)
        weight = net.weights(
            (out, y.channels // group, kernel, kernel), y.channels // group * kernel**2
        )
        name = net.op("Conv", y.name, weight, group=group, pads=[kernel // 2] * 4)
        y = rectified(net, replace(y, name=name, channels=out))
    return y


def join_of_joins(net: Growing, x: Map) -> Map:
    """A Concat among the operands of another one; its own value is read as well."""
    inner = joined(net, [_branch(net, x), _branch(net, x)])
    outer = [inner, _branch(net, x)]
    if net.chance():
        outer.append(_branch(net, inner))
    found = joined(net, outer if net.chance() else outer[::-1])
    if net.chance():
        return joined(net, [activated(net, inner), found])
    return found


def parts_of_parts(net: Growing, x: Map) -> Map:
    """Channels are split, a part is split again, and all are put together in another order."""
    if x.channels < 3:
        x = pointwise(net, x, net.number(3, 8))
    first = net.number(1, x.channels - 2)
    left, right = net.split(x.name, [first, x.channels - first], 1)
    middle = net.number(1, x.channels - first - 1)
    sizes = [middle, x.channels - first - middle]
    two = net.split(right, sizes, 1)
    parts = [
        replace(x, name=name, channels=size)
        for name, size in zip([left, *two], [first, *sizes], strict=True)
    ]
    parts = [activated(net, part) if net.chance() else part for part in parts]
    if net.chance() and parts[0].channels == parts[1].channels:
        parts[1] = net.same("Add", parts[1], parts[0].name)
    order = net.pick((0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0), (0, 2))
    return joined(net, [parts[k] for k in order])


def focus(net: Growing, x: Map) -> Map:
    """Every second pixel, four times, side by side: YOLOv5's first layer."""
    if x.height < 2 or x.width < 2:
        return x
    height, width = x.height // 2 * 2, x.width // 2 * 2
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        rows = net.sliced(x.name, 2, row, height, 2)
        name = net.sliced(rows, 3, column, width, 2)
        parts.append(Map(name, x.channels, height // 2, width // 2))
    return pointwise(net, joined(net, parts), net.number(1, 6), net.pick(1, 3))


def sliced(net: Growing, x: Kind) -> Kind:
    """Part of an axis, with any step, backwards too."""
    axis = net.number(1, len(x.shape) - 1)
    size = x.shape[axis]
    start = net.number(0, size - 1)
    if net.chance():
        step, stop = net.number(1, 3), net.number(start + 1, size)
        count = -(-(stop - start) // step)
        name = net.sliced(x.name, axis, start, stop if stop < size or net.chance() else 2**31, step)
    else:
        step = net.number(1, 2)
        count = start // step + 1
        name = net.sliced(x.name, axis, start, -(2**31), -step)
    return resized(x, name, axis, count)


def resized(x: Kind, name: str, axis: int, size: int) -> Kind:
    """A tensor like another but along an axis."""
    names = {Map: ("channels", "height", "width"), Tokens: ("length", "channels"), Signal: ("channels", "length")}  # fmt: skip
    return replace(x, name=name, **{names[type(x)][axis - 1]: size})


def rolled(net: Growing, x: Kind) -> Kind:
    """Two slices in exchanged order: torch.roll, Swin's shifted windows."""
    axis = net.number(1, len(x.shape) - 1)
    size = x.shape[axis]
    if size < 2:
        return x
    by = net.number(1, size - 1)
    parts = net.sliced(x.name, axis, by, 2**31), net.sliced(x.name, axis, 0, by)
    return replace(x, name=net.op("Concat", *parts, axis=axis))


def joined_along(net: Growing, x: Kind) -> Kind:
    """A tensor with another one, or a constant, behind it along any axis."""
    axis = net.number(1, len(x.shape) - 1)
    other = activated(net, x)
    size = x.shape[axis]
    if net.chance():
        count = net.number(1, 2)
        constant = net.uniform(tuple(count if k == axis else n for k, n in enumerate(x.shape)))
        names, size = [constant, x.name], size + count
    else:
        names, size = [x.name, other.name], 2 * size
    return resized(
        x, net.op("Concat", *(names if net.chance() else names[::-1]), axis=axis), axis, size
    )


def assigned(net: Growing, x: Kind) -> Kind:
    """Positions of an axis are replaced, as exporters of PyTorch write `x[:, start:stop] = y`."""
    axis = net.number(1, len(x.shape) - 1)
    start = net.number(0, x.shape[axis] - 1)
    stop = net.number(start + 1, x.shape[axis])
    part = resized(x, net.sliced(x.name, axis, start, stop), axis, stop - start)
    indices = np.moveaxis(np.indices(part.shape), 0, -1)
    indices[..., axis] += start
    operands = (x.name, net.graph.constant(indices), activated(net, part).name)
    return replace(x, name=net.op("ScatterND", *operands))


def gathered(net: Growing, x: Kind) -> Kind:
    """Positions of an axis in any order, some twice."""
    axis = net.number(1, len(x.shape) - 1)
    size = x.shape[axis]
    index = [net.number(-size, size - 1) for _ in range(net.number(1, min(size, 6)))]
    name = net.op("Gather", x.name, net.graph.constant(np.array(index, np.int64)), axis=axis)
    return resized(x, name, axis, len(index))


def repeated(net: Growing, x: Kind) -> Kind:
    """Tile, or a new axis that is expanded and flattened: torch's repeat_interleave."""
    axis = net.number(1, len(x.shape) - 1)
    size = x.shape[axis]
    if size > 10:
        return x
    if net.chance():
        times = [2 if k == axis else 1 for k in range(len(x.shape))]
        return resized(x, net.op("Tile", x.name, net.ints(*times)), axis, 2 * size)
    new = net.op("Unsqueeze", x.name, net.ints(axis + 1))
    shape = [*x.shape[: axis + 1], 2, *x.shape[axis + 1 :]]
    new = net.op("Expand", new, net.ints(*shape))
    flat = [*x.shape[:axis], 2 * size, *x.shape[axis + 1 :]]
    return resized(x, net.reshaped(new, shape, flat), axis, 2 * size)


def padded_around(net: Growing, x: Kind) -> Kind:
    """Padding of any kind along one axis."""
    axis = net.number(1, len(x.shape) - 1)
    size = x.shape[axis]
    mode = net.pick("constant", "reflect", "edge")
    most = min(3, size - 1) if mode == "reflect" else 3
    before, after = net.number(0, most), net.number(0, most)
    pads = [0] * 2 * len(x.shape)
    pads[axis], pads[axis + len(x.shape)] = before, after
    value = [net.scalar(0.25)] if mode == "constant" else []
    name = net.op("Pad", x.name, net.ints(*pads), *value, mode=mode)
    return resized(x, name, axis, size + before + after)


def itself(net: Growing, x: Kind) -> Kind:
    """A tensor that is every operand of a node, or that nodes pass on as it is."""
    kind = net.pick("Add", "Mul", "Sub", "Max", "Identity", "there and back", "Dropout")
    if kind in ("Identity", "Dropout"):
        return replace(x, name=net.op(kind, x.name))
    if kind == "there and back":
        axis = net.number(0, len(x.shape))
        new = net.op("Unsqueeze", x.name, net.ints(axis))
        if net.chance():
            new = net.op("Relu", new)
        return replace(x, name=net.op("Squeeze", new, net.ints(axis)))
    return replace(x, name=net.op(kind, x.name, x.name))


def broadcast(net: Growing, x: Kind) -> Value:
    """A residual sum, product or maximum with something that is smaller along some axes: a mean of the map
    itself, or one map of a kind that is as long.
    """
    rank = len(x.shape)
    axes = [axis for axis in range(1, rank) if net.chance()] or [rank - 1]
    small = net.reduced(net.pick("ReduceMean", "ReduceMax", "ReduceSum", "ReduceMin"), x.name, axes)
    if net.chance():
        small = net.op(net.pick("Sigmoid", "Tanh", "Relu", "Neg"), small)
    if net.chance():
        other = [axis for axis in range(1, rank) if net.chance()] or [1]
        second = net.reduced("ReduceMean", x.name, other)
        small = net.op(net.pick("Add", "Mul"), small, second)
    op_type = net.pick("Add", "Mul", "Sub", "Max", "Mean", "Sum")
    return replace(x, name=net.op(op_type, *((x.name, small) if net.chance() else (small, x.name))))


def several(net: Growing, x: Kind) -> Kind:
    """Sum, Mean, Max or Min of several tensors, one of which is smaller."""
    operands = [activated(net, x).name, x.name, activated(net, x).name][: net.number(2, 3)]
    if net.chance():
        operands.append(net.uniform((x.shape[-1],)))
    return replace(x, name=net.op(net.pick("Sum", "Mean", "Max", "Min"), *operands))


def chosen(net: Growing, x: Kind) -> Kind:
    """Where, by a comparison of the tensor with its mean, a constant, or another one."""
    other = activated(net, x).name
    limit = net.pick(net.scalar(0.1), net.reduced("ReduceMean", x.name, [1]))
    where = net.op(net.pick("Less", "Greater"), x.name, limit)
    # the branches meet at the limit, so that rounding does not choose another value
    near = net.op("Sub", x.name, limit)
    far = net.op("Mul", near, net.op("Sigmoid", other))
    return replace(x, name=net.op("Where", where, near, far))


MAPS = (join_and_follow, join_and_follow, join_of_joins, parts_of_parts, focus)
ANY = (
    sliced, rolled, joined_along, gathered, assigned, repeated, padded_around, itself, broadcast, several, chosen,
)  # fmt: skip
