"""Normalizations, whole and taken apart as exporters write them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tests.patterns.growing import Growing, Map, Signal, Tokens

__all__ = [
    "batch_normalized",
    "channels_normalized",
    "group_normalized",
    "layer_normalized",
    "normalized_by_length",
    "standardized",
]

Kind = TypeVar("Kind", Map, Tokens, Signal)


def taken_apart(net: Growing, x: str, axes: list[int]) -> str:
    """Mean 0 and variance 1 over axes: ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div."""
    centred = net.op("Sub", x, net.reduced("ReduceMean", x, axes))
    squares = (
        net.op("Pow", centred, net.scalar(2)) if net.chance() else net.op("Mul", centred, centred)
    )
    variance = net.op("Add", net.reduced("ReduceMean", squares, axes), net.scalar(1e-3))
    root = net.op("Sqrt", variance)
    if net.chance():
        return net.op("Div", centred, root)
    return net.op("Mul", centred, net.op("Reciprocal", root))


def layer_normalized(net: Growing, x: Tokens) -> Tokens:
    """Over the last axis: LayerNormalization, or in parts, with a factor and perhaps an offset."""
    scale, bias = net.vector(x.channels, 0.5, 1.5), net.vector(x.channels)
    if net.chance():
        kind = net.pick("LayerNormalization", "RMSNormalization" if net.graph.opset >= 23 else "")
        operands = (scale,) if kind == "RMSNormalization" else (scale, bias)
        more = {"axis": -1, "epsilon": 1e-3}
        name = net.op(kind or "LayerNormalization", x.name, *operands, **more)
    else:
        name = net.op("Mul", taken_apart(net, x.name, [net.pick(-1, 2)]), scale)
        name = net.op("Add", name, bias) if net.chance() else name
    return replace(x, name=name)


def channels_normalized(net: Growing, x: Map) -> Map:
    """Over the channels of each pixel: in parts along axis 1, or between two Transposes."""
    if net.chance():
        name = taken_apart(net, x.name, [1])
        name = net.op("Mul", name, net.uniform((x.channels, 1, 1), 0.5, 1.5))
        return replace(x, name=net.op("Add", name, net.uniform((x.channels, 1, 1))))
    last = net.op("Transpose", x.name, perm=[0, 2, 3, 1])
    scale, bias = net.vector(x.channels, 0.5, 1.5), net.vector(x.channels)
    if net.chance():
        name = net.op("LayerNormalization", last, scale, bias, axis=-1, epsilon=1e-3)
    else:
        name = net.op("Add", net.op("Mul", taken_apart(net, last, [-1]), scale), bias)
    return replace(x, name=net.op("Transpose", name, perm=[0, 3, 1, 2]))


def group_normalized(net: Growing, x: Kind) -> Kind:
    """As torch exports it: InstanceNormalization of a Reshape, then constants a channel; or GroupNormalization."""
    groups = net.divisor(x.channels)
    if net.graph.opset >= 20 and not isinstance(x, Tokens) and net.chance():
        # a factor and an offset a group before opset 21, a channel since
        size = groups if net.graph.opset < 21 else x.channels
        operands = net.vector(size, 0.5, 1.5), net.vector(size)
        more = {"num_groups": groups, "epsilon": 1e-3}
        return replace(x, name=net.op("GroupNormalization", x.name, *operands, **more))
    flat = (1, groups, x.shape[1] * x.shape[2] * (*x.shape, 1)[3] // groups)
    name = net.reshaped(x.name, x.shape, flat)
    one, zero = net.vector(groups, 1, 1), net.vector(groups, 0, 0)
    name = net.op("InstanceNormalization", name, one, zero, epsilon=1e-3)
    name = net.reshaped(name, flat, x.shape)
    if not isinstance(x, Tokens):
        each = (x.channels, *(1,) * (len(x.shape) - 2))
        name = net.op("Mul", name, net.uniform(each, 0.5, 1.5))
        name = net.op("Add", name, net.uniform(each))
    return replace(x, name=name)


def batch_normalized(net: Growing, x: Kind) -> Kind:
    """By constants a channel: one node, or a factor and an offset."""
    if isinstance(x, Tokens):
        name = net.op("Mul", x.name, net.vector(x.channels, 0.5, 1.5))
        return replace(x, name=net.op("Add", net.vector(x.channels), name))
    c = x.channels
    operands = net.vector(c, 0.5, 1.5), net.vector(c), net.vector(c), net.vector(c, 0.5, 1.5)
    return replace(x, name=net.op("BatchNormalization", x.name, *operands))


def standardized(net: Growing, x: Kind) -> Kind:
    """Mean and variance over some axes, the rows among them or not."""
    axes = [axis for axis in range(1, len(x.shape)) if net.chance()] or [len(x.shape) - 1]
    return replace(x, name=taken_apart(net, x.name, axes))


def normalized_by_length(net: Growing, x: Kind) -> Kind:
    """Vectors of length 1: LpNormalization, or divided by ReduceL2 and Clip, as torch writes it; or by the
    root of the mean of squares.
    """
    axis = net.number(1, len(x.shape) - 1)
    kind = net.pick("whole", "parts", "root")
    if kind == "whole":
        offset = net.op("Add", x.name, net.scalar(0.05))
        return replace(x, name=net.op("LpNormalization", offset, axis=axis, p=net.pick(1, 2)))
    if kind == "parts":
        length = net.op("Clip", net.reduced("ReduceL2", x.name, [axis]), net.scalar(0.1))
        if net.chance():
            shape = net.op("Shape", x.name)
            length = net.op("Expand", length, shape)
        return replace(x, name=net.op("Div", x.name, length))
    squares = net.reduced("ReduceMean", net.op("Mul", x.name, x.name), [axis])
    root = net.op("Sqrt", net.op("Add", squares, net.scalar(1e-2)))
    return replace(x, name=net.op("Mul", x.name, net.op("Reciprocal", root)))
