"""Elements in other places, and what exporters leave of sizes that they did not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.patterns.convolutional import joined, pointwise, rectified
from tests.patterns.growing import Growing, Map
from tests.patterns.joining import Kind

__all__ = ["ANY", "MAPS"]


def with_coordinates(net: Growing, x: Map) -> Map:
    """CoordConv: the numbers of rows or columns as a channel, computed from the sizes of the map."""
    axis = net.number(2, 3)
    shape = net.op("Shape", x.name)
    size = net.op("Gather", shape, net.index(axis), axis=0)
    places = net.op("Range", net.index(0), size, net.index(1))
    places = net.op("Div", net.op("Cast", places, to=1), net.op("Cast", size, to=1))
    places = net.op("Unsqueeze", places, net.ints(*((0, 1, 3) if axis == 2 else (0, 1, 2))))
    one = net.op("Slice", shape, net.ints(2), net.ints(4), net.ints(0))
    sizes = net.op("Concat", net.ints(1, 1), one, axis=0)
    coordinates = replace(x, name=net.op("Expand", places, sizes), channels=1)
    return rectified(net, pointwise(net, joined(net, [x, coordinates]), net.number(1, 6), 3))


def padded_to_a_multiple(net: Growing, x: Map) -> Map:
    """Padded to whole windows by computed numbers of rows, a layer, and cut back to the sizes before."""
    by = net.number(2, 4)
    missing = []
    for axis in (2, 3):
        size = net.op("Gather", net.op("Shape", x.name), net.index(axis), axis=0)
        rest = net.op("Mod", size, net.index(by))
        rest = net.op("Mod", net.op("Sub", net.index(by), rest), net.index(by))
        missing.append(net.op("Unsqueeze", rest, net.ints(0)))
    pads = net.op("Concat", net.ints(0, 0, 0, 0, 0, 0), *missing, axis=0)
    height, width = (-(-size // by) * by for size in x.shape[2:])
    y = replace(x, name=net.op("Pad", x.name, pads, mode="constant"), height=height, width=width)
    weight = net.weights((x.channels, x.channels, by, by), x.channels * by**2)
    name = net.op("Conv", y.name, weight, strides=[by, by])
    weight = net.weights((x.channels, x.channels, by, by), x.channels)
    name = net.op("ConvTranspose", name, weight, strides=[by, by])
    shape = net.op("Shape", x.name)
    ends = [net.op("Gather", shape, net.ints(axis), axis=0) for axis in (2, 3)]
    for axis, end in zip((2, 3), ends, strict=True):
        name = net.op("Slice", name, net.ints(0), end, net.ints(axis))
    return replace(x, name=net.op("Add", x.name, name) if net.chance() else name)


def skewed(net: Growing, x: Map) -> Map:
    """Relative positions of a music transformer: a column of zeros in front, read as a map of other sizes, the first
    row cut away.
    """
    c, h, w = x.shape[1:]
    name = net.op("Pad", x.name, net.ints(0, 0, 0, 1, 0, 0, 0, 0), net.scalar(0))
    name = net.reshaped(name, (1, c, h, w + 1), (1, c, w + 1, h))
    name = net.sliced(name, 2, 1, 2**31)
    return replace(x, name=net.reshaped(name, (1, c, w, h), x.shape))


def unfolded(net: Growing, x: Map) -> Map:
    """torch's unfold as it is exported: rows and columns of windows by Gather with a matrix of indices, a product."""
    high, wide, stride = net.number(1, 3), net.number(1, 3), net.number(1, 2)
    if x.height < high or x.width < wide:
        return x
    rows = np.arange(0, x.height - high + 1, stride) + np.arange(high)[:, None]
    columns = np.arange(0, x.width - wide + 1, stride) + np.arange(wide)[:, None]
    name = net.op("Gather", x.name, net.graph.constant(rows), axis=2)
    name = net.op("Gather", name, net.graph.constant(columns), axis=4)
    name = net.op("Transpose", name, perm=[0, 1, 2, 4, 3, 5])
    old = (1, x.channels, high, wide, rows.shape[1], columns.shape[1])
    deep, count = x.channels * high * wide, rows.shape[1] * columns.shape[1]
    name = net.reshaped(name, old, (1, deep, count))
    outs = net.number(1, 6)
    if net.chance():
        name = net.op("MatMul", net.weights((outs, deep), deep), name)
    else:
        name = net.op("Transpose", name, perm=[0, 2, 1])
        name = net.op("MatMul", name, net.weights((deep, outs), deep))
        name = net.op("Transpose", name, perm=[0, 2, 1])
    shape = (1, outs, rows.shape[1], columns.shape[1])
    return Map(net.reshaped(name, (1, outs, count), shape), *shape[1:])


def einsum_of_maps(net: Growing, x: Map) -> Map:
    """Graph convolutions over joints, products of channels, sums over an axis of two maps."""
    c, h, w = x.shape[1:]
    kind = net.pick("joints", "several joints", "channels", "columns", "rows")
    if kind == "joints":
        outs = net.number(1, 8)
        name = net.op("Einsum", x.name, net.weights((w, outs), w), equation="nctv,vw->nctw")
        return replace(x, name=name, width=outs)
    if kind == "several joints":
        count, outs = net.number(1, 3), net.number(1, 3)
        y = pointwise(net, x, count * outs)
        split = net.reshaped(y.name, y.shape, (1, count, outs, h, w))
        matrix = net.weights((count, w, w), w * count)
        name = net.op("Einsum", split, matrix, equation="nkctv,kvw->nctw")
        return replace(x, name=name, channels=outs)
    if kind == "channels":
        outs = net.number(1, 6)
        name = net.op("Einsum", x.name, net.weights((outs, c), c), equation="bchw,oc->bohw")
        return replace(x, name=name, channels=outs)
    other = pointwise(net, x, c)
    equation = "bchw,bciw->bchi" if kind == "columns" else "bchw,bchi->bcwi"
    scale = net.scalar(1 / (w if kind == "columns" else h))
    name = net.op("Mul", net.op("Einsum", x.name, other.name, equation=equation), scale)
    return replace(
        x, name=name, height=h if kind == "columns" else w, width=h if kind == "columns" else w
    )


def expanded(net: Growing, x: Kind) -> Kind:
    """torch's expand: sizes of -1 become 1 by ConstantOfShape, Equal and Where; a learned vector expanded to the shape
    of a tensor and added.
    """
    rank = len(x.shape)
    axis = net.number(1, rank - 1)
    vector = net.uniform(tuple(x.shape[axis] if k == axis else 1 for k in range(rank)))
    shape = net.op("Shape", x.name)
    if net.chance():
        wanted = net.op("Concat", *(
            net.ints(-1) if k == axis else net.op("Gather", shape, net.ints(k), axis=0) for k in range(rank)
        ), axis=0)  # fmt: skip
        ones = net.op("ConstantOfShape", net.ints(rank))
        ones = net.op("Add", ones, net.graph.constant(np.float32(1)))
        ones = net.op("Cast", ones, to=7)
        shape = net.op("Where", net.op("Equal", wanted, net.ints(-1)), ones, wanted)
    name = net.op("Expand", vector, shape)
    return replace(x, name=net.op(net.pick("Add", "Mul"), x.name, name))


def flattened_and_back(net: Growing, x: Kind) -> Kind:
    """Two axes become one by a product of sizes, something elementwise, and back by a division of them."""
    axis = net.number(1, len(x.shape) - 2)
    shape = net.op("Shape", x.name)
    sizes = [net.op("Gather", shape, net.index(k), axis=0) for k in range(len(x.shape))]
    both = net.op("Mul", sizes[axis], sizes[axis + 1])

    def joined_sizes(parts: list[str]) -> str:
        return net.op("Concat", *(net.op("Unsqueeze", one, net.ints(0)) for one in parts), axis=0)

    name = net.op("Reshape", x.name, joined_sizes([*sizes[:axis], both, *sizes[axis + 2 :]]))
    length = x.shape[axis] * x.shape[axis + 1]
    constant = [length if k == axis else 1 for k in range(axis, len(x.shape) - 1)]
    name = net.op("Mul", name, net.uniform(tuple(constant), 0.5, 1.5))
    second = net.op("Div", both, sizes[axis])
    sizes = [*sizes[: axis + 1], second, *sizes[axis + 2 :]]
    return replace(x, name=net.op("Reshape", name, joined_sizes(sizes)))


def listed(net: Growing, x: Kind) -> Kind:
    """A sequence of parts, as scripted modules write it: taken out, put back elsewhere, left out, joined along an axis."""
    axis = net.number(1, len(x.shape) - 1)
    size = x.shape[axis]
    if net.chance():
        each = net.number(1, size)
        name, count = (
            net.op("SplitToSequence", x.name, net.index(each), axis=axis),
            -(-size // each),
        )
    else:
        cuts = sorted(net.number(0, size) for _ in range(net.number(0, 3)))
        sizes = np.diff([0, *cuts, size]).tolist()
        name, count = net.op("SplitToSequence", x.name, net.ints(*sizes), axis=axis), len(sizes)
    place = net.number(0, count - 1)
    part = net.op("SequenceAt", name, net.index(place - count * net.number(0, 1)))
    kind = net.pick("moved", "replaced", "as it was")
    if kind != "as it was":
        name = net.op("SequenceErase", name, net.index(place))
        part = net.op("Tanh", part) if net.chance() else part
        where = place if kind == "replaced" else net.number(0, count - 1)
        name = net.op("SequenceInsert", name, part, net.index(where))
    return replace(x, name=net.op("ConcatFromSequence", name, axis=axis))


def beside_nothing(net: Growing, x: Kind) -> Kind:
    """What remains of a cache without entries, or of a padding by nothing: joined with what has no elements."""
    axis = net.number(1, len(x.shape) - 1)
    size = x.shape[axis]
    kind = net.pick("slice", "split", "gather")
    if kind == "split":
        nothing, all_of_it = net.parts("Split", 2, x.name, net.ints(0, size), axis=axis)
        x = replace(x, name=all_of_it)
    elif kind == "gather":
        nothing = net.op("Gather", x.name, net.ints(), axis=axis)
    else:
        nothing = net.sliced(x.name, axis, size, size + 1)
    nothing = net.op("Relu", nothing) if net.chance() else nothing
    operands = [nothing, x.name] if net.chance() else [x.name, nothing]
    y = replace(x, name=net.op("Concat", *operands, axis=axis))
    if net.chance():
        total = net.reduced("ReduceSum", nothing, [axis])
        y = replace(x, name=net.op("Add", y.name, total))
    return y


MAPS = (with_coordinates, padded_to_a_multiple, skewed, unfolded, einsum_of_maps)
ANY = (expanded, flattened_and_back, listed, beside_nothing)
