"""Other sizes: resizes of any kind, learned ones, pixels that become channels, axes that are exchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.patterns.convolutional import joined, pointwise, rectified
from tests.patterns.growing import LARGEST_SIDE, Growing, Map

__all__ = ["MAPS"]


def resized(net: Growing, x: Map) -> Map:
    """Resize by sizes, by factors, or to the computed size of another map."""
    mode = net.pick("nearest", "nearest", "linear", "linear", "cubic")
    places = ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"]
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": net.pick(*places)}
    if mode == "nearest":
        attributes["nearest_mode"] = net.pick("floor", "round_prefer_floor", "ceil")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = -0.75
    if net.chance():
        factors = [net.pick(0.5, 1.0, 1.5, 2.0, 2.0) for _ in range(2)]
        height, width = (
            int(size * factor) for size, factor in zip(x.shape[2:], factors, strict=True)
        )
        if not (0 < height <= 2 * LARGEST_SIDE and 0 < width <= 2 * LARGEST_SIDE):
            return x
        scales = net.graph.constant(np.array([1, 1, *factors], np.float32))
        return net.shaped(
            net.op("Resize", x.name, "", scales, **attributes), x, x.channels, height, width
        )
    height, width = net.number(1, LARGEST_SIDE), net.number(1, LARGEST_SIDE)
    sizes = net.ints(1, x.channels, height, width)
    if net.chance():
        half = net.op("Slice", net.op("Shape", x.name), net.ints(0), net.ints(2), net.ints(0))
        sizes = net.op("Concat", half, net.ints(height, width), axis=0)
    return net.shaped(
        net.op("Resize", x.name, "", "", sizes, **attributes), x, x.channels, height, width
    )


def pyramid(net: Growing, x: Map) -> Map:
    """Pooled to several sizes, a layer on each, enlarged to the size of the map and joined: PSPNet, ASPP."""
    parts = [x] if net.chance() else []
    for _ in range(net.number(1, 3)):
        kernel = net.number(1, min(x.height, x.width, 4))
        name = net.op("AveragePool", x.name, kernel_shape=[kernel] * 2, strides=[kernel] * 2)
        small = net.shaped(name, x, x.channels, x.height // kernel, x.width // kernel)
        if net.chance():
            small = replace(x, name=net.op("GlobalAveragePool", x.name), height=1, width=1)
        y = rectified(net, pointwise(net, small, net.number(1, 4)))
        spatial = net.op("Slice", net.op("Shape", x.name), net.ints(2), net.ints(4), net.ints(0))
        sizes = net.op("Concat", net.ints(1, y.channels), spatial, axis=0)
        mode, places = net.pick(
            ("linear", "half_pixel"), ("linear", "align_corners"), ("nearest", "asymmetric")
        )
        name = net.op(
            "Resize", y.name, "", "", sizes, mode=mode, coordinate_transformation_mode=places
        )
        parts.append(replace(y, name=name, height=x.height, width=x.width))
    return pointwise(net, joined(net, parts), net.number(1, 6))


def learned(net: Growing, x: Map) -> Map:
    """A transposed convolution of any stride, group, padding and output padding."""
    if max(x.height, x.width) > LARGEST_SIDE:
        return pointwise(net, x, net.number(1, 4))
    stride, kernel, dilation = net.number(1, 3), net.number(1, 4), net.number(1, 2)
    extent = (kernel - 1) * dilation + 1
    pad = net.number(0, (extent - 1) // 2)
    more = net.number(0, max(0, min(stride, dilation) - 1))
    group = net.divisor(x.channels)
    outs = net.number(1, 3)
    weight = net.weights((x.channels, outs, kernel, kernel), x.channels // group * kernel**2)
    sizes = [(size - 1) * stride - 2 * pad + extent + more for size in x.shape[2:]]
    if min(sizes) < 1:
        return x
    attributes: dict[str, Any] = {"output_padding": [more] * 2} if more else {}
    name = net.op(
        "ConvTranspose", x.name, weight, *([net.vector(group * outs)] if net.chance() else []),
        group=group, strides=[stride] * 2, dilations=[dilation] * 2, pads=[pad] * 4, **attributes
    )  # fmt: skip
    return rectified(net, net.shaped(name, x, group * outs, *sizes))


def pixels_to_channels(net: Growing, x: Map) -> Map:
    """Space to depth and back as Reshape, Transpose, Reshape; the channels of a block in either order."""
    c, high, wide = x.channels, net.divisor(x.height), net.divisor(x.width)
    if c * high * wide <= 32 and net.chance():
        h, w = x.height // high, x.width // wide
        cut = (1, c, h, high, w, wide)
        perm = net.pick([0, 3, 5, 1, 2, 4], [0, 1, 3, 5, 2, 4])
        name = net.op("Transpose", net.reshaped(x.name, x.shape, cut), perm=perm)
        old = tuple(cut[k] for k in perm)
        return Map(net.reshaped(name, old, (1, c * high * wide, h, w)), c * high * wide, h, w)
    factor = net.divisor(c)
    if max(x.height * factor, x.width) > 2 * LARGEST_SIDE:
        return x
    cut = (1, c // factor, factor, x.height, x.width)
    name = net.op("Transpose", net.reshaped(x.name, x.shape, cut), perm=[0, 1, 3, 2, 4])
    new = (1, c // factor, x.height * factor, x.width)
    return Map(net.reshaped(name, (1, c // factor, x.height, factor, x.width), new), *new[1:])


def turned(net: Growing, x: Map) -> Map:
    """Two axes exchanged."""
    perm = net.pick([0, 1, 3, 2], [0, 2, 1, 3], [0, 3, 2, 1], [0, 3, 1, 2], [0, 2, 3, 1])
    shape = [x.shape[axis] for axis in perm]
    y = Map(net.op("Transpose", x.name, perm=perm), *shape[1:])
    return pointwise(net, y, net.number(1, 6)) if y.channels > 8 else y


def read_another_way(net: Growing, x: Map) -> Map:
    """The same elements as a map of other sizes."""
    factor = net.divisor(x.width)
    if net.chance():
        shape = (1, x.channels, x.height * factor, x.width // factor)
    else:
        shape = (1, x.channels * factor, x.height, x.width // factor)
    return pointwise(net, Map(net.reshaped(x.name, x.shape, shape), *shape[1:]), net.number(1, 6))


MAPS = (resized, resized, pyramid, learned, pixels_to_channels, turned, read_another_way)
