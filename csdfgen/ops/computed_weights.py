"""Conv and ConvTranspose whose weights or bias are computed: one product of matrices of what their taps read.

Sources: https://onnx.ai/onnx/operators/onnx__Conv.html, https://onnx.ai/onnx/operators/onnx__ConvTranspose.html. Each
tap of the window is a slice of the padded input; slices, joined along the channels, times the weights are the output,
row by row. Where each group has one channel there is nothing to contract: slices are multiplied and added. A
ConvTranspose is a Conv of its input with zeros between the elements, by the weights turned round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops.base import Operator
from csdfgen.ops.composing import Composition, Operand, Write, composed_operator
from csdfgen.ops.convolution import CONV, CONV_TRANSPOSE
from csdfgen.ops.maxima import tap_slices
from csdfgen.ops.reducing import FLOATS
from csdfgen.ops.windows import list_windows, window_attributes


def _convolved(make: Composition, node: Node) -> Iterable[Operand | None]:
    return [compose_convolution(make, node, *(node.operand(k) for k in range(3)))]


def compose_convolution(
    make: Composition, node: Node, x: Operand | None, weights: Operand | None, bias: Operand | None
) -> Operand:
    """A Conv of operands any of which may be computed, with the attributes of a node. Raises ModelError."""
    x, weights = _given(node, x, weights)
    outputs = weights.shape[0]
    _check_bias(bias, outputs)
    if isinstance(x, Tensor) and isinstance(weights, np.ndarray):
        attributes = {k: v for k, v in node.attributes.items() if k in CONV.attributes}
        if bias is None or isinstance(bias, np.ndarray):
            return make("Conv", x, weights, bias, opset=node.opset, **attributes)
        total = make("Conv", x, weights, opset=node.opset, **attributes)
    else:
        total = _product(make, node, x, weights)
    return _with_bias(make, total, bias)


def _given(node: Node, x: Operand | None, weights: Operand | None) -> tuple[Operand, Operand]:
    if x is None or weights is None:
        raise ModelError(f"{node.op_type} needs an input and weights")
    return x, weights


def _check_bias(bias: Operand | None, outputs: int) -> None:
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise ModelError(f"bias of shape {list(bias.shape)} for {outputs} output channels")


def _with_bias(make: Composition, total: Operand, bias: Operand | None) -> Operand:
    if bias is None:
        return total
    return make("Add", total, make.reshaped(bias, (bias.shape[0], *(1,) * (len(total.shape) - 2))))


def _transposed(make: Composition, node: Node) -> Iterable[Operand | None]:
    x, weights = _given(node, node.operand(0), node.operand(1))
    bias, kernel = node.operand(2), weights.shape[2:]
    source = Tensor("x", tuple(x.shape), Format(str(x.dtype)))
    zeros = np.broadcast_to(np.zeros((), weights.dtype), weights.shape)
    layer = CONV_TRANSPOSE.build(replace(node, inputs=(source, zeros), outputs=("y",)))
    _, outputs, *sizes = layer.output.shape
    _check_bias(bias, outputs)
    windows, group = list_windows(layer.attributes), layer.attributes["group"]
    apart = [w.stride for w in windows]
    images, channels, *spatial = x.shape
    if max(apart) > 1:
        rank = len(spatial)
        x = make.reshaped(x, (images, channels, *(n for size in spatial for n in (size, 1))))
        behind = [0, 0, *(n - 1 if k else 0 for n in apart for k in (0, 1))]
        pads = np.array([*(0,) * (2 + 2 * rank), *behind], np.int64)
        x = make("Pad", x, pads, np.zeros((), x.dtype))
        spatial = [size * n for size, n in zip(spatial, apart, strict=True)]
        x = make.reshaped(x, (images, channels, *spatial))
    before = [w.extent - 1 - w.pad_top for w in windows]
    needed = [size + w.extent - 1 for size, w in zip(sizes, windows, strict=True)]
    after = [n - a - size for n, a, size in zip(needed, before, spatial, strict=True)]
    if any(before) or any(after):
        pads = np.array([0, 0, *before, 0, 0, *after], np.int64)
        x = make("Pad", x, pads, np.zeros((), x.dtype))
    axes = np.arange(2, 2 + len(kernel), dtype=np.int64)
    ends = np.full(len(kernel), np.iinfo(np.int64).min)
    turned = make("Slice", weights, np.full(len(kernel), -1), ends, axes, np.full(len(kernel), -1))
    few, wide = channels // group, outputs // group
    turned = make.reshaped(turned, (group, few, wide, *kernel))
    turned = make.turned(turned, (0, 2, 1, *range(3, 3 + len(kernel))))
    turned = make.reshaped(turned, (outputs, few, *kernel))
    attributes = {"group": group, "dilations": [w.dilation for w in windows]}
    total = _product(make, replace(node, attributes=attributes), x, turned)
    return [_with_bias(make, total, bias)]


def _product(make: Composition, node: Node, x: Operand, weights: Operand) -> Operand:
    """The convolution without its bias."""
    rank, channels = len(x.shape), x.shape[1]
    outputs, few, *kernel = weights.shape
    group = int(node.attributes.get("group", 1))
    if not 3 <= rank <= 5 or len(weights.shape) != rank or str(x.dtype) not in FLOATS:
        raise ModelError(
            f"input of shape {list(x.shape)}, {x.dtype}, and weights of shape {list(weights.shape)}; 3 to 5 axes of "
            "floats "
            "are needed"
        )
    if group < 1 or few * group != channels or outputs % group:
        raise ModelError(
            f"weights of shape {list(weights.shape)} in {group} groups do not fit {channels} channels"
        )
    declared = node.attributes.get("kernel_shape")
    if declared is not None and list(declared) != kernel:
        raise ModelError(f"kernel_shape={list(declared)} but the weights are {kernel}")
    spatial = x.shape[2:]
    windows = list_windows(window_attributes(node, kernel, spatial, crops=True))
    sizes = tuple(
        (size + w.pad_top + w.pad_bottom - w.extent) // w.stride + 1
        for size, w in zip(spatial, windows, strict=True)
    )
    if min(sizes) < 1:
        raise ModelError(
            f"the output would be {list(sizes)}: windows of {kernel} do not fit {spatial}"
        )
    taps, count = tap_slices(make, x, windows, sizes, 0), prod(kernel)
    if few == 1 and outputs == group:
        return _multiplied(make, taps, weights)
    last = (0, *range(2, rank), 1)
    lines = [make.turned(tap, last) for tap in taps]
    images, wide, each = x.shape[0], outputs // group, count * few
    if group == 1:
        whole = lines[0] if count == 1 else make("Concat", *lines, axis=-1)
        by_tap = make.turned(make.reshaped(weights, (outputs, few, count)), (2, 1, 0))
        product = make("MatMul", whole, make.reshaped(by_tap, (each, outputs)))
        return make.turned(product, (0, rank - 1, *range(1, rank - 1)))
    # (images, group, *sizes, taps and channels) times (group, ..., taps and channels, outputs)
    apart = [make.reshaped(line, (images, *sizes, group, 1, few)) for line in lines]
    whole = apart[0] if count == 1 else make("Concat", *apart, axis=-2)
    whole = make.reshaped(whole, (images, *sizes, group, each))
    whole = make.turned(whole, (0, rank - 1, *range(1, rank - 1), rank))
    by_tap = make.turned(make.reshaped(weights, (group, wide, few, count)), (0, 3, 2, 1))
    matrix = make.reshaped(by_tap, (group, *(1,) * (rank - 3), each, wide))
    product = make("MatMul", whole, matrix)
    product = make.turned(product, (0, 1, rank, *range(2, rank)))
    return make.reshaped(product, (images, outputs, *sizes))


def _multiplied(make: Composition, taps: list[Operand], weights: Operand) -> Operand:
    """One channel a group: the sum of taps, each times its weight of the channel."""
    outputs, count = weights.shape[0], len(taps)
    rank = len(weights.shape)
    flat = make.reshaped(weights, (outputs, count))
    parts = [
        make("Mul", tap, make.reshaped(make.part(flat, 1, k, k + 1), (outputs, *(1,) * (rank - 2))))
        for k, tap in enumerate(taps)
    ]
    return parts[0] if count == 1 else make("Sum", *parts)


def _one_or_more(operator: Operator, write: Write) -> Operator:
    """A layer of an operator where weights and bias are constants, else what is written instead."""
    computed = composed_operator(operator.op_type, write).parts
    assert computed is not None

    def parts(node: Node) -> tuple[Layer, ...]:
        operands = [node.operand(k) for k in range(3)]
        if isinstance(operands[0], np.ndarray) or any(isinstance(x, Tensor) for x in operands[1:]):
            return computed(node)
        return (operator.build(node),)

    computes = "computed weights become slices and a matrix product"
    return replace(
        operator,
        parts=parts,
        constant_inputs=frozenset(),
        notes=operator.notes.replace("weights and bias are constants", computes),
    )


OPERATORS: tuple[Operator, ...] = (
    _one_or_more(CONV, _convolved),
    _one_or_more(CONV_TRANSPOSE, _transposed),
)
