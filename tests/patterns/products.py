"""Matrix products: channels-last layers, attention in its forms, products of two activations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.patterns.activations import activated, parted
from tests.patterns.convolutional import pointwise
from tests.patterns.growing import Growing, Map, Tokens
from tests.patterns.normalizing import layer_normalized

__all__ = ["MAPS", "TOKENS", "linear"]

MOST_TOKENS = 100
"""Positions of a sequence that pays attention to itself."""


def linear(net: Growing, x: str, ins: int, outs: int) -> str:
    """Over the last axis: MatMul with or without Add, whose operands stand in either order; some weights have 4 bits."""
    weights = net.weights((ins, outs), ins)
    if net.graph.opset >= 21 and net.chance() and net.chance():
        weights = in_four_bits(net, ins, outs)
    name = net.op("MatMul", x, weights)
    if net.chance():
        bias = net.vector(outs)
        name = net.op("Add", *((name, bias) if net.chance() else (bias, name)))
    return name


def in_four_bits(net: Growing, ins: int, outs: int) -> str:
    """Weights of 4 bits, dequantized: one scale, one an output, or one a block of inputs."""
    kind, block = net.pick("int4", "uint4"), net.pick(0, 0, 2, 16)
    low = -8 if kind == "int4" else 0
    shape = net.pick((), (outs,)) if not block else (-(-ins // block), outs)
    scales = net.uniform(shape, 0.02, 0.1)
    zeros = [net.graph.rng.integers(low, low + 16, shape)] if net.chance() else []
    integers = net.graph.rng.integers(low, low + 16, (ins, outs))
    names = [net.graph.constant(np.asarray(array).astype(kind)) for array in (integers, *zeros)]
    settings = {"axis": 0, "block_size": block} if block else {"axis": 1}
    return net.op("DequantizeLinear", names[0], scales, *names[1:], **settings)


def _perceptron(net: Growing, x: str, channels: int) -> str:
    """Linear, activation, linear, over the last axis."""
    middle = net.number(1, 12)
    name = linear(net, x, channels, middle)
    inner = activated(net, Tokens(name, 1, middle))
    if net.chance():
        inner = parted(net, inner)
    return linear(net, inner.name, inner.channels, channels)


def perceptron_of_pixels(net: Growing, x: Map) -> Map:
    """ConvNeXt's block: depthwise convolution, channels last, normalization, two products, factor, residual."""
    weight = net.weights((x.channels, 1, 3, 3), 9)
    y = net.op("Conv", x.name, weight, group=x.channels, pads=[1] * 4) if net.chance() else x.name
    last = net.op("Transpose", y, perm=[0, 2, 3, 1])
    if net.chance():
        scale, bias = net.vector(x.channels, 0.5, 1.5), net.vector(x.channels)
        last = net.op("LayerNormalization", last, scale, bias, axis=-1, epsilon=1e-3)
    name = _perceptron(net, last, x.channels)
    factor = net.chance()
    if factor and net.chance():
        name = net.op("Mul", name, net.vector(x.channels, 0.5, 1.5))
    name = net.op("Transpose", name, perm=[0, 3, 1, 2])
    if factor:
        name = net.op("Mul", net.uniform((1, x.channels, 1, 1), 0.5, 1.5), name)
    return replace(x, name=net.op("Add", x.name, name) if net.chance() else name)


def _heads(net: Growing, x: str, length: int, channels: int, heads: int) -> list[str]:
    """Queries (1, heads, length, size), keys transposed, and values: of three layers or of one."""
    size = channels // heads
    split = (1, length, heads, size)
    if net.chance():
        found = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = net.reshaped(linear(net, x, channels, channels), (1, length, channels), split)
            found.append(net.op("Transpose", part, perm=perm))
        return found
    whole = linear(net, x, channels, 3 * channels)
    if net.chance():
        return _split_heads(net, whole, length, channels, heads)
    whole = net.reshaped(whole, (1, length, 3 * channels), (1, length, 3, heads, size))
    whole = net.op("Transpose", whole, perm=[2, 0, 3, 1, 4])
    if net.chance():
        index = [net.index(k) for k in range(3)]
        parts = [net.op("Gather", whole, one, axis=0) for one in index]
    else:
        parts = [net.op("Squeeze", one, net.ints(0)) for one in net.split(whole, [1, 1, 1], 0)]
    return [parts[0], net.op("Transpose", parts[1], perm=[0, 1, 3, 2]), parts[2]]


def _split_heads(net: Growing, whole: str, length: int, channels: int, heads: int) -> list[str]:
    """The same of one product that is split along its channels: into queries, keys and values, or the heads into them."""
    size = channels // heads
    if net.chance():
        split = (1, length, heads, size)
        parts = [
            net.reshaped(one, (1, length, channels), split)
            for one in net.split(whole, [channels] * 3, 2)
        ]
    else:
        whole = net.reshaped(whole, (1, length, 3 * channels), (1, length, heads, 3 * size))
        parts = net.split(whole, [size] * 3, 3)
    perms = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    return [net.op("Transpose", one, perm=perm) for one, perm in zip(parts, perms, strict=True)]


def attention(net: Growing, x: str, length: int, channels: int) -> str:
    """softmax(Q K' / root d + bias) V of (1, length, channels), with one or several heads, and a layer behind."""
    heads = net.divisor(channels)
    size = channels // heads
    queries, keys, values = _heads(net, x, length, channels, heads)
    scaled = net.pick("queries", "scores", "both")
    if scaled == "queries":
        queries = net.op("Mul", queries, net.scalar(size**-0.5))
    elif scaled == "both":
        queries, keys = (net.op("Mul", one, net.scalar(size**-0.25)) for one in (queries, keys))
    scores = net.op("MatMul", queries, keys)
    if scaled == "scores":
        scores = net.op("Div", scores, net.scalar(size**0.5))
    if net.chance():
        scores = net.op("Add", scores, net.uniform((1, heads, length, length), -1, 1))
    name = net.op("MatMul", net.op("Softmax", scores, axis=net.pick(-1, 3)), values)
    name = net.op("Transpose", name, perm=[0, 2, 1, 3])
    name = net.reshaped(name, (1, length, heads, size), (1, length, channels))
    return linear(net, name, channels, channels)


def self_attention(net: Growing, x: Tokens) -> Tokens:
    """A transformer's first half: normalization, attention, residual."""
    if x.length > MOST_TOKENS:
        return mixed_tokens(net, x)
    y = layer_normalized(net, x) if net.chance() else x
    return replace(x, name=net.op("Add", x.name, attention(net, y.name, x.length, x.channels)))


def perceptron(net: Growing, x: Tokens) -> Tokens:
    """A transformer's second half: normalization, two products, residual."""
    y = layer_normalized(net, x) if net.chance() else x
    name = _perceptron(net, y.name, x.channels)
    return replace(x, name=net.op("Add", name, x.name) if net.chance() else name)


def mixed_tokens(net: Growing, x: Tokens) -> Tokens:
    """MLP-Mixer: a layer over the positions, between two Transposes."""
    name = net.op("Transpose", x.name, perm=[0, 2, 1])
    name = linear(net, name, x.length, x.length)
    name = net.op("Transpose", name, perm=[0, 2, 1])
    return replace(x, name=net.op("Add", x.name, name))


def with_a_class_token(net: Growing, x: Tokens) -> Tokens:
    """A constant position in front, positions added, attention, and perhaps that position alone."""
    token = net.uniform((1, 1, x.channels))
    name = net.op("Concat", token, x.name, axis=1)
    name = net.op("Add", name, net.uniform((1, x.length + 1, x.channels)))
    y = replace(x, name=name, length=x.length + 1)
    y = self_attention(net, y)
    if net.chance():
        return replace(y, name=net.sliced(y.name, 1, 0, 1), length=1)
    return y


def attention_of_pixels(net: Growing, x: Map) -> Map:
    """A map as a sequence of its pixels, attention, and a map again."""
    if x.height * x.width > MOST_TOKENS:
        return bilinear(net, x)
    length = x.height * x.width
    flat = net.reshaped(x.name, x.shape, (1, x.channels, length))
    y = net.op("Transpose", flat, perm=[0, 2, 1])
    y = net.op("Transpose", attention(net, y, length, x.channels), perm=[0, 2, 1])
    name = net.reshaped(y, (1, x.channels, length), x.shape)
    return replace(x, name=net.op("Add", x.name, name) if net.chance() else name)


def attention_of_windows(net: Growing, x: Map) -> Map:
    """Swin: channels last, perhaps rolled, cut into windows that pay attention to themselves."""
    high, wide = net.divisor(x.height), net.divisor(x.width)
    if high * wide > MOST_TOKENS:
        return x
    h, w, c = x.height, x.width, x.channels
    name = net.op("Transpose", x.name, perm=[0, 2, 3, 1])
    rolled = [(axis, by // 2) for axis, by in ((1, high), (2, wide)) if by > 1 and net.chance()]
    for axis, by in rolled:
        parts = net.sliced(name, axis, by, 2**31), net.sliced(name, axis, 0, by)
        name = net.op("Concat", *parts, axis=axis)
    cut = (1, h // high, high, w // wide, wide, c)
    name = net.op("Transpose", net.reshaped(name, (1, h, w, c), cut), perm=[0, 1, 3, 2, 4, 5])
    count, length = h * w // (high * wide), high * wide
    apart = (1, h // high, w // wide, high, wide, c)
    name = net.reshaped(name, apart, (count, length, c))
    heads = net.divisor(c)
    size = c // heads
    several = (count, length, 3, heads, size)
    whole = net.reshaped(linear(net, name, c, 3 * c), (count, length, 3 * c), several)
    whole = net.op("Transpose", whole, perm=[2, 0, 3, 1, 4])
    index = [net.index(k) for k in range(3)]
    queries, keys, values = (net.op("Gather", whole, one, axis=0) for one in index)
    queries = net.op("Mul", queries, net.scalar(size**-0.5))
    scores = net.op("MatMul", queries, net.op("Transpose", keys, perm=[0, 1, 3, 2]))
    if net.chance():
        scores = net.op("Add", scores, net.uniform((1, heads, length, length), -1, 1))
    if rolled and net.chance():  # windows that hold both ends of the map are masked
        every = (count, heads, length, length)
        mask = net.graph.rng.choice(np.array([0, -100], np.float32), (1, count, 1, length, length))
        scores = net.reshaped(scores, every, (1, *every))
        scores = net.op("Add", scores, net.graph.constant(mask))
        scores = net.reshaped(scores, (1, *every), every)
    name = net.op("MatMul", net.op("Softmax", scores, axis=-1), values)
    name = net.op("Transpose", name, perm=[0, 2, 1, 3])
    name = net.reshaped(name, (count, length, heads, size), (count, length, c))
    name = net.reshaped(linear(net, name, c, c), (count, length, c), apart)
    name = net.op("Transpose", name, perm=[0, 1, 3, 2, 4, 5])
    name = net.reshaped(name, cut, (1, h, w, c))
    for axis, by in rolled:
        back = (h, w)[axis - 1] - by
        parts = net.sliced(name, axis, back, 2**31), net.sliced(name, axis, 0, back)
        name = net.op("Concat", *parts, axis=axis)
    name = net.op("Transpose", name, perm=[0, 3, 1, 2])
    return replace(x, name=net.op("Add", x.name, name) if net.chance() else name)


def attention_of_channels(net: Growing, x: Tokens) -> Tokens:
    """XCiT: queries and keys of length 1, the channels of a head attend to each other."""
    heads = net.divisor(x.channels)
    size = x.channels // heads
    whole = linear(net, x.name, x.channels, 3 * x.channels)
    whole = net.reshaped(whole, (1, x.length, 3 * x.channels), (1, x.length, 3, heads, size))
    whole = net.op("Transpose", whole, perm=[2, 0, 3, 4, 1])
    parts = [net.op("Gather", whole, net.index(k), axis=0) for k in range(3)]
    for k in (0, 1):
        norm = net.op("Clip", net.reduced("ReduceL2", parts[k], [-1]), net.scalar(0.1))
        parts[k] = net.op("Div", parts[k], norm)
    scores = net.op("MatMul", parts[0], net.op("Transpose", parts[1], perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, net.uniform((heads, 1, 1), 0.5, 1.5))
    name = net.op("MatMul", net.op("Softmax", scores, axis=-1), parts[2])
    name = net.op("Transpose", name, perm=[0, 3, 1, 2])
    name = net.reshaped(name, (1, x.length, heads, size), (1, x.length, x.channels))
    return replace(x, name=net.op("Add", x.name, linear(net, name, x.channels, x.channels)))


def linear_attention(net: Growing, x: Tokens) -> Tokens:
    """Without a matrix of scores: keys times values first, divided by the sum of the keys."""
    queries, keys, values = (linear(net, x.name, x.channels, x.channels) for _ in range(3))
    queries, keys = (net.op(net.pick("Relu", "Sigmoid"), one) for one in (queries, keys))
    turned = net.op("Transpose", keys, perm=[0, 2, 1])
    name = net.op("MatMul", queries, net.op("MatMul", turned, values))
    total = net.op("MatMul", queries, net.reduced("ReduceSum", turned, [2]))
    name = net.op("Div", name, net.op("Add", total, net.scalar(1)))
    return replace(x, name=net.op("Add", x.name, name) if net.chance() else name)


def attention_to_fewer(net: Growing, x: Map) -> Map:
    """PVT: every pixel attends to the pixels of a smaller map; or a few learned queries to all of them, expanded."""
    factor = net.number(2, 3)
    length, c = x.height * x.width, x.channels
    if length > MOST_TOKENS or x.height < factor or x.width < factor:
        return attention_of_pixels(net, x)
    weight = net.weights((c, c, factor, factor), c * factor**2)
    small = net.op("Conv", x.name, weight, strides=[factor] * 2)
    few = (x.height // factor) * (x.width // factor)

    def tokens(name: str, count: int, shape: tuple[int, ...]) -> str:
        return net.op("Transpose", net.reshaped(name, shape, (1, c, count)), perm=[0, 2, 1])

    queries = linear(net, tokens(x.name, length, x.shape), c, c)
    shape = (1, c, x.height // factor, x.width // factor)
    both = linear(net, tokens(small, few, shape), c, 2 * c)
    keys, values = net.split(both, [c, c], 2)
    scores = net.op("MatMul", queries, net.op("Transpose", keys, perm=[0, 2, 1]))
    scores = net.op("Mul", scores, net.scalar(c**-0.5))
    if net.chance():  # a mask that is computed: pixels far from each other do not meet
        scores = net.op("Add", scores, _far_apart(net, length, few))
    name = net.op("MatMul", net.op("Softmax", scores, axis=-1), values)
    name = net.op("Transpose", name, perm=[0, 2, 1])
    return replace(x, name=net.reshaped(name, (1, c, length), x.shape))


def _far_apart(net: Growing, rows: int, columns: int) -> str:
    """0 where a row's number is at least the column's, else -100, by Trilu of what ConstantOfShape makes."""
    ones = net.op("ConstantOfShape", net.ints(rows, columns))
    ones = net.op("Add", ones, net.scalar(-100))
    return net.op("Trilu", ones, net.index(1), upper=1)


def einsum_of_tokens(net: Growing, x: Tokens) -> Tokens:
    """Linear layers and scores as Einsum."""
    kind = net.pick("linear", "scores", "heads")
    if kind == "linear":
        outs = net.number(1, 8)
        weights = net.weights((x.channels, outs), x.channels)
        return Tokens(net.op("Einsum", x.name, weights, equation="...c,cd->...d"), x.length, outs)
    other = linear(net, x.name, x.channels, x.channels)
    if kind == "scores":
        if x.length > MOST_TOKENS:
            return x
        scores = net.op("Einsum", x.name, other, equation="bic,bjc->bij")
        scores = net.op("Softmax", scores, axis=2)
        return replace(x, name=net.op("Einsum", scores, x.name, equation="bij,bjc->bic"))
    heads = net.divisor(x.channels)
    weights = net.weights((x.channels, heads, x.channels // heads), x.channels)
    name = net.op("Einsum", other, weights, equation="bld,dhk->blhk")
    weights = net.weights((heads, x.channels // heads, x.channels), x.channels)
    return replace(x, name=net.op("Einsum", name, weights, equation="blhk,hkd->bld"))


def bilinear(net: Growing, x: Map) -> Map:
    """Products of two activations: Gram matrices times maps, or maps times maps of transposed ones."""
    kind = net.pick("gram", "rows", "columns", "constant")
    other = pointwise(net, x, x.channels)
    if kind == "gram":
        flat = (1, x.channels, x.height * x.width)
        a, b = (net.reshaped(one.name, x.shape, flat) for one in (x, other))
        gram = net.op("MatMul", a, net.op("Transpose", b, perm=[0, 2, 1]))
        gram = net.op("Mul", gram, net.scalar(1 / flat[2]))
        name = net.op("MatMul", net.op("Softmax", gram, axis=-1) if net.chance() else gram, a)
        return replace(x, name=net.reshaped(name, flat, x.shape))
    if kind == "constant":
        outs = net.number(1, 8)
        return replace(x, name=linear(net, x.name, x.width, outs), width=outs)
    turned = net.op("Transpose", other.name, perm=[0, 1, 3, 2])
    if kind == "rows":
        name = net.op("MatMul", x.name, turned)
        y = replace(x, name=net.op("Mul", name, net.scalar(1 / x.width)), width=x.height)
    else:
        name = net.op("MatMul", turned, x.name)
        y = replace(x, name=net.op("Mul", name, net.scalar(1 / x.height)), height=x.width)
    return y


MAPS = (
    perceptron_of_pixels, attention_of_pixels, attention_of_windows, attention_to_fewer, bilinear,
)  # fmt: skip
TOKENS = (
    self_attention, self_attention, perceptron, perceptron, mixed_tokens, with_a_class_token,
    attention_of_channels, linear_attention, einsum_of_tokens,
)  # fmt: skip
