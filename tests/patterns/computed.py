"""What numbers of the network itself decide: places that are sampled, weights of convolutions, the largest values,
sums on the way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.patterns.activations import activated
from tests.patterns.convolutional import joined, pointwise, rectified
from tests.patterns.growing import Growing, Map, Signal, Tokens
from tests.patterns.joining import Kind, resized

__all__ = ["ANY", "MAPS"]


def grid_sampled(net: Growing, x: Map) -> Map:
    """GridSample at constant places, or at a constant grid and what a layer adds to it: spatial transformers, optical
    flow.
    """
    modes = ("linear", "cubic") if net.graph.opset >= 20 else ("bilinear", "bicubic")
    height, width = (x.height, x.width) if net.chance() else (net.number(1, 8), net.number(1, 8))
    # where places are computed, rounding must not choose another pixel
    grid, mode = net.uniform((1, height, width, 2), -1.3, 1.3), net.pick(*modes)
    if (height, width) == (x.height, x.width) and net.chance():
        flow = net.op("Tanh", pointwise(net, x, 2, net.pick(1, 3)).name)
        grid = net.op("Add", net.op("Transpose", flow, perm=[0, 2, 3, 1]), grid)
    elif net.chance():
        mode = "nearest"
    name = net.op(
        "GridSample", x.name, grid, mode=mode, align_corners=net.number(0, 1),
        padding_mode=net.pick("zeros", "border", "reflection"),
    )  # fmt: skip
    return replace(x, name=name, height=height, width=width)


def deformed(net: Growing, x: Map) -> Map:
    """A convolution whose taps a layer moves, and perhaps weighs."""
    if net.graph.opset < 20:
        return rectified(net, pointwise(net, x, net.number(1, 6), 3))
    kernel, stride = net.pick(1, 3), net.number(1, 2)
    group = net.pick(1, x.channels)
    sizes = [(size - 1) // stride + 1 for size in x.shape[2:]]
    pads = [kernel // 2] * 4

    def layer(outs: int) -> str:
        weight = net.weights((outs, x.channels, kernel, kernel), x.channels * kernel**2)
        return net.op("Conv", x.name, weight, pads=pads, strides=[stride] * 2)

    outs = group * net.number(1, max(1, 6 // group))
    weight = net.weights((outs, x.channels // group, kernel, kernel), 9)
    operands = [layer(2 * kernel**2)]
    if net.chance():
        mask = net.op("Sigmoid", layer(kernel**2))
        operands += [net.vector(outs), mask]
    name = net.op(
        "DeformConv", x.name, weight, *operands, group=group, pads=pads, strides=[stride] * 2,
        kernel_shape=[kernel] * 2,
    )  # fmt: skip
    return rectified(net, Map(name, outs, *sizes))


def dynamic_convolution(net: Growing, x: Map) -> Map:
    """Weights of a convolution, and perhaps its bias, from the mean of the map: CondConv, hypernetworks."""
    group = net.pick(1, x.channels)
    outs, kernel = group * net.number(1, 2), net.pick(1, 3)
    count = outs * (x.channels // group) * kernel**2
    if count > 160:
        return pointwise(net, x, net.number(1, 4), kernel)
    flat = net.op("Flatten", net.op("GlobalAveragePool", x.name), axis=1)

    def numbers(count: int) -> str:
        return net.op("Gemm", flat, net.weights((count, x.channels), x.channels), transB=1)

    shape = (outs, x.channels // group, kernel, kernel)
    operands = [net.reshaped(net.op("Tanh", numbers(count)), (1, count), shape)]
    if net.chance():
        operands.append(net.reshaped(numbers(outs), (1, outs), (outs,)))
    stride = net.number(1, 2)
    name = net.op(
        "Conv", x.name, *operands, group=group, pads=[kernel // 2] * 4, strides=[stride] * 2
    )
    return rectified(
        net, Map(name, outs, (x.height - 1) // stride + 1, (x.width - 1) // stride + 1)
    )


def correlated(net: Growing, x: Map) -> Map:
    """A tracker's correlation: part of the map is the weights of a convolution over all of it."""
    high, wide = net.number(1, min(3, x.height)), net.number(1, min(3, x.width))
    part = net.sliced(net.sliced(x.name, 2, 0, high), 3, 0, wide)
    height, width = x.height - high + 1, x.width - wide + 1
    if net.chance():
        name = net.op("Mul", net.op("Conv", x.name, part), net.scalar(1 / (high * wide)))
        return Map(name, 1, height, width)
    shape = (1, x.channels, high, wide)
    part = net.reshaped(part, shape, (x.channels, 1, high, wide))
    return Map(net.op("Conv", x.name, part, group=x.channels), x.channels, height, width)


def unpooled(net: Growing, x: Map) -> Map:
    """SegNet: a pool gives the places of its maxima, and another layer's values go there."""
    if x.height < 2 or x.width < 2:
        return x
    window: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    # where a function has reached its limit (Erf, Sigmoid), rounding would choose among equal values: no two are equal
    apart = net.op("Add", x.name, net.uniform(x.shape))
    values, places = net.parts("MaxPool", 2, apart, **window)
    small = Map(values, x.channels, x.height // 2, x.width // 2)
    y = activated(net, pointwise(net, small, x.channels))
    sizes = [net.ints(*x.shape)] if x.height % 2 or x.width % 2 or net.chance() else []
    name = net.op("MaxUnpool", y.name, places, *sizes, **window)
    return joined(net, [x, replace(x, name=name)]) if net.chance() else replace(x, name=name)


def largest(net: Growing, x: Kind) -> Kind:
    """TopK along any axis: its values, or the elements that its indices name."""
    axis = net.number(1, len(x.shape) - 1)
    count = net.number(1, x.shape[axis])
    values, places = net.parts(
        "TopK", 2, x.name, net.ints(count), axis=axis, largest=net.number(0, 1)
    )
    if net.chance():
        values = net.op("GatherElements", x.name, places, axis=axis)
    return resized(x, values, axis, count)


def summed_up(net: Growing, x: Kind) -> Kind:
    """Sums of all positions so far, perhaps divided by how many they are."""
    axis = net.number(1, len(x.shape) - 1)
    name = net.op(
        "CumSum", x.name, net.index(axis), exclusive=net.number(0, 1), reverse=net.number(0, 1)
    )
    shape = [size if k == axis else 1 for k, size in enumerate(x.shape)]
    counts = 1 / np.arange(1, x.shape[axis] + 1, dtype=np.float32)
    return replace(x, name=net.op("Mul", name, net.graph.constant(counts.reshape(shape))))


def clipped_by_numbers(net: Growing, x: Kind) -> Kind:
    """Between bounds that are reduced from the tensor."""
    mean = net.reduced("ReduceMean", x.name, list(range(1, len(x.shape))))
    low = net.op("Sub", mean, net.scalar(0.3))
    name = net.op("Max", x.name, low)
    return replace(x, name=net.op("Min", name, net.op("Add", mean, net.scalar(0.4))))


def normalized_exponents(net: Growing, x: Kind) -> Kind:
    """Softmax taken apart: the maximum subtracted, exponents, their sum; or ReduceLogSumExp."""
    axes = [net.number(1, len(x.shape) - 1)]
    if net.chance():
        name = net.op("Sub", x.name, net.reduced("ReduceLogSumExp", x.name, axes))
        return replace(x, name=name)
    exponents = net.op("Exp", net.op("Sub", x.name, net.reduced("ReduceMax", x.name, axes)))
    return replace(x, name=net.op("Div", exponents, net.reduced("ReduceSum", exponents, axes)))


def reduced_otherwise(net: Growing, x: Kind) -> Kind:
    """Scaled by a norm or a sum of squares over some axes."""
    axes = [axis for axis in range(1, len(x.shape)) if net.chance()] or [1]
    kind = net.pick("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceMin", "ReduceMax")
    size = net.op("Tanh", net.reduced(kind, x.name, axes))
    return replace(x, name=net.op("Mul", x.name, size))


def masked_in_time(net: Growing, x: Tokens | Signal) -> Tokens | Signal:
    """Positions behind a length are 0: a comparison of positions with a number."""
    axis = 1 if isinstance(x, Tokens) else 2
    length = x.shape[axis]
    shape = [length if k == axis else 1 for k in range(3)]
    places = net.graph.constant(np.arange(length, dtype=np.int64).reshape(shape))
    keep = net.op("Less", places, net.index(net.number(1, length)))
    if net.chance():
        return replace(x, name=net.op("Where", keep, x.name, net.scalar(0)))
    return replace(x, name=net.op("Mul", x.name, net.op("Cast", keep, to=1)))


MAPS = (grid_sampled, deformed, dynamic_convolution, correlated, unpooled)
ANY = (largest, summed_up, clipped_by_numbers, normalized_exponents, reduced_otherwise)
