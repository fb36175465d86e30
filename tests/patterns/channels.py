"""What decides over channels or pixels: squeeze-and-excite as every library writes it, attention of channels and
of space, and convolutions of other shapes.
"""

from __future__ import annotations

from dataclasses import replace

from tests.patterns.activations import activated
from tests.patterns.convolutional import normalised, pointwise, rectified
from tests.patterns.growing import Growing, Map

__all__ = ["MAPS"]


def _mean(net: Growing, x: Map) -> str:
    """Over all pixels, 1xCx1x1."""
    if net.chance():
        return net.op("GlobalAveragePool", x.name)
    return net.reduced("ReduceMean", x.name, net.pick([2, 3], [-1, -2]))


def excited(net: Growing, x: Map) -> Map:
    """Squeeze-and-excite: convolutions or products, any gate, the factor perhaps expanded to the map."""
    mean, middle = _mean(net, x), net.number(1, 4)
    if net.chance():
        y = activated(net, pointwise(net, Map(mean, x.channels, 1, 1), middle))
        gate = pointwise(net, y, x.channels).name
    else:
        flat = net.reshaped(mean, (1, x.channels, 1, 1), (1, x.channels))
        weights = (
            net.weights((middle, x.channels), x.channels),
            net.weights((x.channels, middle), middle),
        )
        inner = net.op("Relu", net.op("Gemm", flat, weights[0], net.vector(middle), transB=1))
        gate = net.op("Gemm", inner, weights[1], net.vector(x.channels), transB=1)
        gate = net.reshaped(gate, (1, x.channels), (1, x.channels, 1, 1))
    kind = net.pick("Sigmoid", "HardSigmoid", "parts")
    if kind == "parts":
        gate = net.op("Clip", net.op("Add", gate, net.scalar(3)), net.scalar(0), net.scalar(6))
        gate = net.op("Div", gate, net.scalar(6))
    else:
        gate = net.op(kind, gate)
    if net.chance():
        gate = net.op(
            "Expand", gate, net.op("Shape", x.name) if net.chance() else net.ints(*x.shape)
        )
    return replace(x, name=net.op("Mul", *((x.name, gate) if net.chance() else (gate, x.name))))


def excited_by_neighbours(net: Growing, x: Map) -> Map:
    """ECA: a 1-D convolution over the means of the channels."""
    flat = net.op("Squeeze", _mean(net, x), net.ints(-1) if net.chance() else net.ints(3))
    row = net.op("Transpose", flat, perm=[0, 2, 1])
    row = net.op("Sigmoid", net.op("Conv", row, net.weights((1, 1, 3), 3), pads=[1, 1]))
    gate = net.op("Unsqueeze", net.op("Transpose", row, perm=[0, 2, 1]), net.ints(3))
    if net.chance():
        gate = net.op("Expand", gate, net.ints(*x.shape))
    return replace(x, name=net.op("Mul", x.name, gate))


def excited_in_space(net: Growing, x: Map) -> Map:
    """CBAM: mean and maximum over the channels, a convolution of both, a factor a pixel."""
    two = net.reduced("ReduceMean", x.name, [1]), net.reduced("ReduceMax", x.name, [1])
    both = replace(x, name=net.op("Concat", *two, axis=1), channels=2)
    gate = net.op("Sigmoid", pointwise(net, both, 1, net.pick(1, 3)).name)
    return replace(x, name=net.op("Mul", x.name, gate))


def excited_along_axes(net: Growing, x: Map) -> Map:
    """Coordinate attention: means over rows and over columns, joined, a layer, split, two factors."""
    rows = net.reduced("ReduceMean", x.name, [3])
    columns = net.op("Transpose", net.reduced("ReduceMean", x.name, [2]), perm=[0, 1, 3, 2])
    both = Map(net.op("Concat", rows, columns, axis=2), x.channels, x.height + x.width, 1)
    y = activated(net, pointwise(net, both, x.channels))
    one, two = net.split(y.name, [x.height, x.width], 2)
    two = net.op("Transpose", two, perm=[0, 1, 3, 2])
    name = net.op("Mul", x.name, net.op("Sigmoid", one))
    return replace(x, name=net.op("Mul", name, net.op("Sigmoid", two)))


def reparametrized(net: Growing, x: Map) -> Map:
    """RepVGG while it trains: a 3x3 and a 1x1 convolution and the map itself, each normalized, added."""
    parts = [normalised(net, pointwise(net, x, x.channels, kernel)) for kernel in (3, 1)]
    if net.chance():
        parts.append(normalised(net, x))
    name = parts[0].name
    for part in parts[1:]:
        name = net.op("Add", name, part.name)
    return rectified(net, replace(x, name=name))


def of_other_shapes(net: Growing, x: Map) -> Map:
    """1xk then kx1, or a large kernel, or a depthwise one with several filters a channel."""
    kind = net.pick("cross", "large", "multiplied")
    if kind == "multiplied":
        times = net.number(2, 3)
        if x.channels * times > 16:
            return x
        weight = net.weights((x.channels * times, 1, 3, 3), 9)
        operands = [weight, net.vector(x.channels * times)] if net.chance() else [weight]
        stride = net.number(1, 2)
        name = net.op(
            "Conv", x.name, *operands, group=x.channels, pads=[1] * 4, strides=[stride] * 2
        )
        sizes = ((size - 1) // stride + 1 for size in x.shape[2:])
        return rectified(net, net.shaped(name, x, x.channels * times, *sizes))
    kernels = [(1, 5), (5, 1)] if kind == "cross" else [(7, 7)]
    for high, wide in kernels:
        group = net.pick(1, x.channels)
        weight = net.weights(
            (x.channels, x.channels // group, high, wide), x.channels // group * high * wide
        )
        pads = [high // 2, wide // 2] * 2
        x = net.same("Conv", x, weight, group=group, pads=pads)
    return rectified(net, normalised(net, x))


def detected(net: Growing, x: Map) -> Map:
    """A detector's head: channels last, boxes as rows, decoded by slices, sums and exponents, joined again."""
    anchors = net.number(1, 2)
    y = pointwise(net, x, 5 * anchors)
    count = anchors * x.height * x.width
    last = net.op("Transpose", y.name, perm=[0, 2, 3, 1])
    boxes = net.reshaped(last, (1, x.height, x.width, 5 * anchors), (1, count, 5))
    centres, sizes, scores = net.split(boxes, [2, 2, 1], 2)
    centres = net.op(
        "Add", net.op("Mul", net.op("Sigmoid", centres), net.scalar(2)), net.uniform((1, count, 2))
    )
    sizes = net.op("Mul", net.op("Exp", sizes), net.uniform((1, 1, 2), 0.1, 0.3))
    name = net.op("Concat", centres, sizes, net.op("Sigmoid", scores), axis=2)
    if net.chance():
        name = net.op("Transpose", name, perm=[0, 2, 1])
        shape = (1, 5, x.height * anchors, x.width)
        return Map(net.reshaped(name, (1, 5, count), shape), *shape[1:])
    name = net.reshaped(name, (1, count, 5), (1, x.height, x.width * anchors, 5))
    return Map(net.op("Transpose", name, perm=[0, 3, 1, 2]), 5, x.height, x.width * anchors)


def expected_place(net: Growing, x: Map) -> Map:
    """Soft argmax: Softmax over all pixels, times their places, summed; a map that is scaled by it."""
    flat = net.reshaped(x.name, x.shape, (1, x.channels, x.height * x.width))
    weights = net.op("Softmax", flat, axis=2)
    places = net.uniform((x.height * x.width,), -1, 1)
    name = net.reduced("ReduceSum", net.op("Mul", weights, places), [2])
    name = net.reshaped(name, (1, x.channels, 1), (1, x.channels, 1, 1))
    return replace(x, name=net.op("Mul", x.name, name))


MAPS = (
    excited, excited, excited_by_neighbours, excited_in_space, excited_along_axes, reparametrized,
    of_other_shapes, detected, expected_place,
)  # fmt: skip
