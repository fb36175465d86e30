"""What convolutional networks are made of: convolutions of any kind, pools, residual, inception and dense
blocks, squeeze-and-excite, channel shuffle, splits, top-down branches, and heads that reduce the whole map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.patterns import growing
from tests.patterns.activations import activated
from tests.patterns.growing import LARGEST_SIDE, Growing, Map

__all__ = ["PATTERNS", "classifier", "joined", "normalised", "pointwise", "rectified"]


@dataclass(frozen=True)
class Along:
    """A window along one axis of a map."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    size: int


def _along(net: Growing, size: int, *, strided: bool = True, dilated: bool = True) -> Along:
    """A window that fits at least once, with any padding smaller than its extent."""
    kernel = net.draw(st.sampled_from((1, 3, 3, 2, 5)))
    dilation = net.number(1, 2) if dilated and kernel > 1 else 1
    extent = (kernel - 1) * dilation + 1
    before, after = net.number(0, extent - 1), net.number(0, extent - 1)
    if size + before + after < extent:
        before = after = extent // 2
    stride = net.number(1, 3) if strided else 1
    return Along(
        kernel, stride, dilation, before, after, (size + before + after - extent) // stride + 1
    )


def convolution(net: Growing, x: Map) -> Map:
    """Any convolution: groups, depthwise, dilated, strided, asymmetric padding."""
    rows, columns = _along(net, x.height), _along(net, x.width)
    groups = net.draw(st.sampled_from([g for g in (1, 1, 2, 3, x.channels) if x.channels % g == 0]))
    out = groups * net.number(1, max(1, growing.LARGEST_CHANNELS // groups))
    fan_in = x.channels // groups
    weight = net.weights(
        (out, fan_in, rows.kernel, columns.kernel), fan_in * rows.kernel * columns.kernel
    )
    operands = [weight, net.vector(out)] if net.chance() else [weight]
    name = net.graph.node(
        "Conv",
        x.name,
        *operands,
        group=groups,
        strides=[rows.stride, columns.stride],
        dilations=[rows.dilation, columns.dilation],
        pads=[rows.before, columns.before, rows.after, columns.after],
    )
    return rectified(net, normalised(net, net.shaped(name, x, out, rows.size, columns.size)))


def pointwise(net: Growing, x: Map, out: int, kernel: int = 1) -> Map:
    """A convolution that keeps height and width."""
    weight = net.weights((out, x.channels, kernel, kernel), x.channels * kernel * kernel)
    name = net.graph.node("Conv", x.name, weight, net.vector(out), pads=[kernel // 2] * 4)
    return net.shaped(name, x, out)


def separable(net: Growing, x: Map) -> Map:
    """Depthwise 3x3, then 1x1, as in MobileNet."""
    stride = net.number(1, 2)
    weight = net.weights((x.channels, 1, 3, 3), 9)
    name = net.graph.node(
        "Conv", x.name, weight, group=x.channels, strides=[stride, stride], pads=[1, 1, 1, 1]
    )
    deep = net.shaped(
        name, x, x.channels, (x.height - 1) // stride + 1, (x.width - 1) // stride + 1
    )
    return rectified(
        net, pointwise(net, normalised(net, deep), net.number(1, growing.LARGEST_CHANNELS))
    )


def normalised(net: Growing, x: Map) -> Map:
    """Perhaps a batch normalization, or a constant factor and offset per channel."""
    choice = net.draw(st.sampled_from(("none", "bn", "constants")))
    if choice == "bn":
        operands = (
            net.vector(x.channels, 0.5, 1.5),
            net.vector(x.channels),
            net.vector(x.channels),
        )
        return net.same("BatchNormalization", x, *operands, net.vector(x.channels, 0.5, 1.5))
    if choice == "constants":
        for op_type, low, high in (("Mul", 0.5, 1.5), ("Add", -0.2, 0.2)):
            operand = net.graph.constant(
                net.graph.rng.uniform(low, high, (x.channels, 1, 1)).astype(np.float32)
            )
            x = net.same(op_type, x, operand)
    return x


def rectified(net: Growing, x: Map) -> Map:
    """Perhaps an activation, as exporters write them."""
    return activated(net, x) if net.number(0, 3) else x


def pool(net: Growing, x: Map) -> Map:
    """A maximum or an average over windows."""
    rows, columns = _along(net, x.height, dilated=False), _along(net, x.width, dilated=False)
    op_type = net.draw(st.sampled_from(("MaxPool", "AveragePool")))
    high, wide = _rounded_up(rows, x.height), _rounded_up(columns, x.width)
    up = high is not None and wide is not None and net.chance()
    attributes: dict[str, Any] = {}
    if (
        op_type == "AveragePool" and not up
    ):  # together, older versions of onnxruntime divide by too many
        attributes["count_include_pad"] = net.number(0, 1)
    name = net.graph.node(
        op_type,
        x.name,
        kernel_shape=[rows.kernel, columns.kernel],
        strides=[rows.stride, columns.stride],
        pads=[rows.before, columns.before, rows.after, columns.after],
        ceil_mode=int(up),
        **attributes,
    )
    return net.shaped(name, x, x.channels, high if up else rows.size, wide if up else columns.size)


def _rounded_up(window: Along, size: int) -> int | None:
    """Positions of a window that may hang over the end; None where the last would start behind the
    data and its
    padding in front: onnx and onnxruntime do not agree there."""
    count = -(-(size + window.before + window.after - window.kernel) // window.stride) + 1
    return None if (count - 1) * window.stride >= size + window.before else count


def residual(net: Growing, x: Map) -> Map:
    """Two convolutions added to what went in."""
    y = rectified(
        net, normalised(net, pointwise(net, x, net.number(1, growing.LARGEST_CHANNELS), 3))
    )
    y = normalised(net, pointwise(net, y, x.channels, net.draw(st.sampled_from((1, 3)))))
    operands = (x.name, y.name) if net.chance() else (y.name, x.name)
    return rectified(net, net.shaped(net.graph.node("Add", *operands), x, x.channels))


def inception(net: Growing, x: Map) -> Map:
    """Branches of different reach, concatenated."""
    branches = []
    for _ in range(net.number(2, 4)):
        kind = net.draw(st.sampled_from(("conv", "pool", "same")))
        if kind == "same":
            branches.append(x)
            continue
        y = x
        if kind == "pool":
            y = net.same("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        branches.append(
            rectified(
                net, pointwise(net, y, net.number(1, 4), net.draw(st.sampled_from((1, 3, 5))))
            )
        )
    return joined(net, branches)


def joined(net: Growing, parts: list[Map]) -> Map:
    name = net.graph.node("Concat", *(part.name for part in parts), axis=1)
    return net.shaped(name, parts[0], sum(part.channels for part in parts))


def dense(net: Growing, x: Map) -> Map:
    """Every layer sees all the layers before it."""
    for _ in range(net.number(2, 4)):
        x = joined(
            net, [x, pointwise(net, rectified(net, normalised(net, x)), net.number(1, 3), 3)]
        )
    return x


def squeeze_excite(net: Growing, x: Map) -> Map:
    """A factor per channel that the whole map decides."""
    mean = net.shaped(net.graph.node("GlobalAveragePool", x.name), x, x.channels, 1, 1)
    middle = net.same("Relu", pointwise(net, mean, net.number(1, 4)))
    gate = net.same(
        net.draw(st.sampled_from(("Sigmoid", "HardSigmoid"))), pointwise(net, middle, x.channels)
    )
    return net.same("Mul", x, gate.name)


def shuffle(net: Growing, x: Map) -> Map:
    """ShuffleNet's exchange of channels between groups."""
    groups = net.draw(st.sampled_from([g for g in range(1, x.channels + 1) if x.channels % g == 0]))
    split = net.graph.constant(
        np.array([1, groups, x.channels // groups, x.height, x.width], np.int64)
    )
    back = net.graph.constant(np.array([1, x.channels, x.height, x.width], np.int64))
    name = net.graph.node(
        "Transpose", net.graph.node("Reshape", x.name, split), perm=[0, 2, 1, 3, 4]
    )
    return net.shaped(net.graph.node("Reshape", name, back), x, x.channels)


def split(net: Growing, x: Map) -> Map:
    """Part of the channels goes through a layer of its own."""
    if x.channels < 2:
        return pointwise(net, x, 2)
    first = net.number(1, x.channels - 1)
    sizes = net.graph.constant(np.array([first, x.channels - first], np.int64))
    name = net.graph.node("Split", x.name, sizes, outputs=2, axis=1)
    left = net.shaped(name, x, first)
    right = net.shaped(name.removesuffix("_0") + "_1", x, x.channels - first)
    parts = [left, rectified(net, pointwise(net, right, net.number(1, 4), 3))]
    return joined(net, parts[::-1] if net.chance() else parts)


def top_down(net: Growing, x: Map) -> Map:
    """A coarser level, enlarged again and added to or joined with the finer one."""
    weight = net.weights((x.channels, x.channels, 3, 3), x.channels * 9)
    name = net.graph.node("Conv", x.name, weight, strides=[2, 2], pads=[1, 1, 1, 1])
    coarse = rectified(
        net, net.shaped(name, x, x.channels, (x.height + 1) // 2, (x.width + 1) // 2)
    )
    if net.chance():
        coarse = residual(net, coarse)
    sizes = net.graph.constant(np.array([1, x.channels, x.height, x.width], np.int64))
    mode = net.draw(st.sampled_from(("nearest", "linear")))
    nearest: dict[str, Any] = {"nearest_mode": "floor"} if mode == "nearest" else {}
    name = net.graph.node(
        "Resize",
        coarse.name,
        "",
        "",
        sizes,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        **nearest,
    )
    enlarged = net.shaped(name, x, x.channels)
    return net.same("Add", x, enlarged.name) if net.chance() else joined(net, [enlarged, x])


def transposed_convolution(net: Growing, x: Map) -> Map:
    """Twice the size by a learned filter."""
    if x.height > LARGEST_SIDE or x.width > LARGEST_SIDE:
        return residual(net, x)
    out = net.number(1, 4)
    kernel = net.draw(st.sampled_from((2, 4)))
    pad = (kernel - 2) // 2
    weight = net.weights((x.channels, out, kernel, kernel), x.channels * kernel * kernel // 4)
    name = net.graph.node(
        "ConvTranspose", x.name, weight, net.vector(out), strides=[2, 2], pads=[pad] * 4
    )
    return rectified(net, net.shaped(name, x, out, 2 * x.height, 2 * x.width))


def padded(net: Growing, x: Map) -> Map:
    """Rows and columns added around, or taken away."""
    if x.height > 2 and net.chance():
        starts, ends, axes = (
            net.graph.constant(np.array([n], np.int64)) for n in (1, x.height - 1, 2)
        )
        return net.shaped(
            net.graph.node("Slice", x.name, starts, ends, axes), x, x.channels, x.height - 2
        )
    before, after = net.number(0, 2), net.number(0, 2)
    pads = net.graph.constant(np.array([0, 0, before, 1, 0, 0, after, 0], np.int64))
    kind = net.draw(st.sampled_from(("zeros", "value", "edge")))
    value = net.graph.constant(np.float32(0 if kind == "zeros" else 0.25))
    mode = "edge" if kind == "edge" else "constant"
    name = net.graph.node("Pad", x.name, pads, value, mode=mode)
    y = net.shaped(name, x, x.channels, x.height + before + after, x.width + 1)
    # onnxruntime merges zeros into a pool that follows, and then refuses the pool for having too
    # many of them
    return pointwise(net, y, x.channels, 3) if kind == "zeros" else y


def across(net: Growing, x: Map) -> Map:
    """A normalization over neighbouring channels, or over the whole map of a channel."""
    if net.chance():
        return net.same("LRN", x, size=3, alpha=0.1, beta=0.75, bias=1.0)
    return net.same(
        "InstanceNormalization",
        x,
        net.vector(x.channels, 0.5, 1.5),
        net.vector(x.channels),
        epsilon=0.01,
    )


def blocks_to_pixels(net: Growing, x: Map) -> Map:
    """Channels become pixels, or pixels channels."""
    if x.height % 2 == 0 and x.width % 2 == 0 and net.chance():
        name = net.graph.node("SpaceToDepth", x.name, blocksize=2)
        return net.shaped(name, x, 4 * x.channels, x.height // 2, x.width // 2)
    wide = pointwise(net, x, 4)
    name = net.graph.node(
        "DepthToSpace", wide.name, blocksize=2, mode=net.draw(st.sampled_from(("DCR", "CRD")))
    )
    return net.shaped(name, x, 1, 2 * x.height, 2 * x.width)


PATTERNS = (
    convolution,
    convolution,
    separable,
    pool,
    residual,
    inception,
    dense,
    squeeze_excite,
    shuffle,
    split,
    top_down,
    transposed_convolution,
    padded,
    across,
    blocks_to_pixels,
)


def classifier(net: Growing, x: Map) -> str:
    """A head that reduces the map to scores: over its mean, over all of it, or a mean by rows."""
    graph, classes = net.graph, net.number(1, 5)
    kind = net.draw(st.sampled_from(("pool", "flatten", "mean", "maximum")))
    if kind == "flatten":
        length, flat = x.channels * x.height * x.width, graph.node("Flatten", x.name, axis=1)
    elif kind == "mean":
        length, flat = x.channels, net.reduced("ReduceMean", x.name, [2, 3], keep=False)
    else:
        op_type = "GlobalAveragePool" if kind == "pool" else "GlobalMaxPool"
        length, flat = x.channels, graph.node("Flatten", graph.node(op_type, x.name), axis=1)
    scores = graph.node(
        "Gemm", flat, net.weights((classes, length), length), net.vector(classes), transB=1
    )
    return graph.node("Softmax", scores, axis=1) if net.chance() else scores
