"""Signals over time, sequences, and the ways between them and maps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.patterns.activations import activated
from tests.patterns.growing import Growing, Map, Signal, Tokens
from tests.patterns.normalizing import batch_normalized

__all__ = ["FROM_MAPS", "FROM_SIGNALS", "FROM_TOKENS", "SIGNALS"]


# Signals ------------------------------------------------------------------------------------------


def convolved(net: Growing, x: Signal) -> Signal:
    """A 1-D convolution of any kind; padded by itself or by a Pad."""
    kernel, dilation, stride = net.pick(1, 3, 2, 5), net.number(1, 3), net.pick(1, 1, 2)
    extent = (kernel - 1) * dilation + 1
    before, after = net.number(0, extent - 1), net.number(0, extent - 1)
    if x.length + before + after < extent:
        before = extent - 1
    group = net.pick(*(g for g in (1, 1, 2, x.channels) if x.channels % g == 0))
    outs = group * net.number(1, max(1, 8 // group))
    weight = net.weights((outs, x.channels // group, kernel), x.channels // group * kernel)
    name, attributes = x.name, {"pads": [before, after]}
    if net.chance():
        name = net.op("Pad", name, net.ints(0, 0, before, 0, 0, after), net.scalar(0))
        attributes = {}
    operands = [weight, net.vector(outs)] if net.chance() else [weight]
    name = net.op(
        "Conv", name, *operands, group=group, strides=[stride], dilations=[dilation], **attributes
    )
    length = (x.length + before + after - extent) // stride + 1
    y = Signal(name, outs, length)
    y = batch_normalized(net, y) if net.chance() else y
    return activated(net, y) if net.chance() else y


def causal(net: Growing, x: Signal) -> Signal:
    """WaveNet's block: padded on both sides and cut, a gate, a residual."""
    dilation = net.pick(1, 2, 4)
    weight = net.weights((2 * x.channels, x.channels, 2), 2 * x.channels)
    name = net.op("Conv", x.name, weight, dilations=[dilation], pads=[dilation, dilation])
    name = net.sliced(name, 2, 0, x.length) if net.chance() else net.sliced(name, 2, 0, -dilation)
    one, two = net.split(name, [x.channels, x.channels], 1)
    gated = net.op("Mul", net.op("Tanh", one), net.op("Sigmoid", two))
    name = net.op("Conv", gated, net.weights((x.channels, x.channels, 1), x.channels))
    return replace(x, name=net.op("Add", name, x.name))


def pooled(net: Growing, x: Signal) -> Signal:
    """A 1-D pool, or every second position."""
    if x.length < 4:
        return x
    kernel, stride = net.number(2, 3), net.number(1, 2)
    op_type = net.pick("MaxPool", "AveragePool")
    name = net.op(op_type, x.name, kernel_shape=[kernel], strides=[stride])
    return replace(x, name=name, length=(x.length - kernel) // stride + 1)


def enlarged(net: Growing, x: Signal) -> Signal:
    """Twice as long: Resize, or a transposed convolution."""
    if x.length > 60:
        return pooled(net, x)
    if net.chance():
        kernel = net.pick(2, 4)
        weight = net.weights((x.channels, x.channels, kernel), x.channels * kernel // 2)
        name = net.op("ConvTranspose", x.name, weight, strides=[2], pads=[(kernel - 2) // 2] * 2)
    else:
        scales = net.graph.constant(np.array([1, 1, 2], np.float32))
        mode = net.pick("nearest", "linear")
        more: dict[str, Any] = {"nearest_mode": "floor"} if mode == "nearest" else {}
        name = net.op(
            "Resize", x.name, "", scales, mode=mode, coordinate_transformation_mode="asymmetric", **more
        )  # fmt: skip
    return replace(x, name=name, length=2 * x.length)


SIGNALS = (convolved, convolved, convolved, causal, pooled, enlarged)


# Recurrent layers ---------------------------------------------------------------------------------


def _steps_through(net: Growing, x: str, steps: int, batch: int, values: int) -> tuple[str, int]:
    """LSTM, GRU or RNN in one direction or both over (steps, batch, values), and how many values a step then has."""
    kind = net.pick("LSTM", "GRU", "RNN")
    direction = net.pick("forward", "forward", "reverse", "bidirectional")
    hidden, ways = net.number(1, 6), 2 if direction == "bidirectional" else 1
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * hidden
    operands = [
        net.weights((ways, rows, values), values),
        net.weights((ways, rows, hidden), hidden),
    ]
    states = net.chance()
    operands.append(net.uniform((ways, 2 * rows)) if net.chance() or states else "")
    if states:
        kept = (
            net.uniform((ways, batch, hidden)) if net.chance() else _zeros(net, ways, batch, hidden)
        )
        operands += ["", kept, *([kept] if kind == "LSTM" else [])]
    more = {"linear_before_reset": 1} if kind == "GRU" and net.chance() else {}
    outputs = net.number(1, 2)
    first, *others = (
        net.parts(kind, outputs, x, *operands, hidden_size=hidden, direction=direction, **more)
        if outputs > 1
        else [net.op(kind, x, *operands, hidden_size=hidden, direction=direction, **more)]
    )
    if ways == 1:
        name = net.op("Squeeze", first, net.ints(1))
    else:
        name = net.op("Transpose", first, perm=[0, 2, 1, 3])
        name = net.reshaped(name, (steps, batch, ways, hidden), (steps, batch, ways * hidden))
    if others and net.chance():
        last = net.reduced("ReduceMean", others[0], [0], keep=True)
        if ways == 2:
            last = net.op("Concat", last, last, axis=2)
        name = net.op("Add", name, last)
    return name, ways * hidden


def _zeros(net: Growing, *sizes: int) -> str:
    return net.op("ConstantOfShape", net.ints(*sizes))


def recurrent(net: Growing, x: Tokens) -> Tokens:
    """One or two recurrent layers behind each other."""
    name, values = net.op("Transpose", x.name, perm=[1, 0, 2]), x.channels
    for _ in range(net.number(1, 2)):
        name, values = _steps_through(net, name, x.length, 1, values)
    name = net.op("Transpose", name, perm=[1, 0, 2])
    return Tokens(name, x.length, values)


def recurrent_over_columns(net: Growing, x: Map) -> Map:
    """The rows of a map over time, each column a sequence of its own; or the columns over time: dual paths."""
    turned = net.chance()
    high, wide = (x.width, x.height) if turned else (x.height, x.width)
    perm = [3, 0, 2, 1] if turned else [2, 0, 3, 1]
    name = net.op("Transpose", x.name, perm=perm)
    name = net.reshaped(name, (high, 1, wide, x.channels), (high, wide, x.channels))
    name, values = _steps_through(net, name, high, wide, x.channels)
    name = net.reshaped(name, (high, wide, values), (high, 1, wide, values))
    back = [1, 3, 2, 0] if turned else [1, 3, 0, 2]
    return Map(net.op("Transpose", name, perm=back), values, x.height, x.width)


# From one kind to another -------------------------------------------------------------------------


def pixels_in_a_row(net: Growing, x: Map) -> Tokens:
    """A map as a sequence of its pixels, or of patches that a convolution makes."""
    if x.height >= 4 and x.width >= 4 and net.chance():
        patch, outs = net.number(2, 4), net.number(1, 3) * 4
        weight = net.weights((outs, x.channels, patch, patch), x.channels * patch**2)
        name = net.op("Conv", x.name, weight, net.vector(outs), strides=[patch] * 2)
        x = Map(name, outs, (x.height - patch) // patch + 1, (x.width - patch) // patch + 1)
    length = x.height * x.width
    if net.chance():
        name = net.reshaped(x.name, x.shape, (1, x.channels, length))
        return Tokens(net.op("Transpose", name, perm=[0, 2, 1]), length, x.channels)
    name = net.op("Transpose", x.name, perm=[0, 2, 3, 1])
    shape = (1, x.height, x.width, x.channels)
    return Tokens(net.reshaped(name, shape, (1, length, x.channels)), length, x.channels)


def columns_over_time(net: Growing, x: Map) -> Tokens:
    """A recogniser's sequence: the columns of a map, its rows averaged or side by side."""
    if net.chance():
        name = net.reduced("ReduceMean", x.name, [2], keep=net.chance())
        # the axis goes with the reduction, or with a Squeeze
        if net.graph.nodes[-1].attribute and any(
            a.name == "keepdims" and a.i == 1 for a in net.graph.nodes[-1].attribute
        ):
            name = net.op("Squeeze", name, net.ints(2))
        return Tokens(net.op("Transpose", name, perm=[0, 2, 1]), x.width, x.channels)
    name = net.op("Transpose", x.name, perm=[0, 3, 1, 2])
    old = (1, x.width, x.channels, x.height)
    deep = x.channels * x.height
    return Tokens(net.reshaped(name, old, (1, x.width, deep)), x.width, deep)


def rows_over_time(net: Growing, x: Map) -> Signal:
    """A spectrogram as a signal: channels and columns together, or a mean over the columns."""
    if x.channels * x.width <= 32 and net.chance():
        name = net.op("Transpose", x.name, perm=[0, 1, 3, 2])
        old, deep = (1, x.channels, x.width, x.height), x.channels * x.width
        return Signal(net.reshaped(name, old, (1, deep, x.height)), deep, x.height)
    if net.chance():
        return Signal(net.reduced("ReduceMax", x.name, [3], keep=False), x.channels, x.height)
    flat = (1, x.channels, x.height * x.width)
    return Signal(net.reshaped(x.name, x.shape, flat), *flat[1:])


def turned_to_signal(net: Growing, x: Tokens) -> Signal:
    return Signal(net.op("Transpose", x.name, perm=[0, 2, 1]), x.channels, x.length)


def turned_to_tokens(net: Growing, x: Signal) -> Tokens:
    return Tokens(net.op("Transpose", x.name, perm=[0, 2, 1]), x.length, x.channels)


def map_of_tokens(net: Growing, x: Tokens) -> Map:
    """Pixels of a sequence as a map again."""
    height = net.divisor(x.length)
    shape = (1, height, x.length // height, x.channels)
    if net.chance():
        name = net.op("Transpose", net.reshaped(x.name, x.shape, shape), perm=[0, 3, 1, 2])
    else:
        turned = net.op("Transpose", x.name, perm=[0, 2, 1])
        new = (1, x.channels, height, x.length // height)
        name = net.reshaped(turned, (1, x.channels, x.length), new)
    return Map(name, x.channels, height, x.length // height)


def map_of_signal(net: Growing, x: Signal) -> Map:
    """A row, a column, or several rows."""
    axis = net.number(2, 3)
    if net.chance():
        name = net.op("Unsqueeze", x.name, net.ints(axis))
        return Map(name, x.channels, *((1, x.length) if axis == 2 else (x.length, 1)))
    height = net.divisor(x.length)
    new = (1, x.channels, height, x.length // height)
    return Map(net.reshaped(x.name, x.shape, new), *new[1:])


FROM_MAPS = (pixels_in_a_row, columns_over_time, rows_over_time, recurrent_over_columns)
FROM_TOKENS = (turned_to_signal, map_of_tokens, recurrent, recurrent)
FROM_SIGNALS = (turned_to_tokens, map_of_signal)
