"""What does each operator of TensorFlow Lite compute, in nodes of ONNX?

Source: the reference kernels in tensorflow/lite/kernels/internal/reference, and the documentation of operators in
tensorflow/lite/schema/schema.fbs. Shapes of results are those of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.ops.micro import SQUARED
from csdfgen.reading.tflite import axes
from csdfgen.reading.tflite.values import (
    DEPTHWISE,
    FIRST,
    Layer,
    Order,
    Value,
    element_type,
    natural,
)

Recipe = Callable[[Layer], None]


# Convolution and pooling --------------------------------------------------------------------------


def _window(layer: Layer, size: Sequence[int], kernel: Sequence[int]) -> dict[str, list[int]]:
    """Strides, dilations and pads of windows over an image; SAME and VALID as in ComputePaddingHeightWidth."""
    strides = [layer.op.option(f"Stride{side}", 1) for side in "HW"]
    dilated = hasattr(layer.op.options, "DilationHFactor")
    dilations = [layer.op.option(f"Dilation{side}Factor", 1) if dilated else 1 for side in "HW"]
    same = layer.op.option("Padding") == 0
    if min(*strides, *dilations, *kernel) < 1:
        raise ModelError(
            f"strides {strides}, dilations {dilations}, windows {list(kernel)}: all are at least 1"
        )
    before, after = [], []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        reach = d * (k - 1) + 1
        pad = max(0, (-(-n // s) - 1) * s + reach - n) if same else 0
        if n + pad < reach:
            raise ModelError(f"its window of {reach} is larger than the {n} that there are")
        before.append(pad // 2)
        after.append(pad - pad // 2)
    found = {"strides": strides, "pads": before + after}
    return {**found, "dilations": dilations} if dilations != [1, 1] else found


def bias(layer: Layer, k: int, x: int = 0, weight: int = 1, times: int = 1) -> list[str]:
    """The bias, in the scale of the products that it is added to. Biases of 64 bits become float. times: how often it is
    repeated.
    """
    if not layer.has(k):
        return []
    value = layer.value(k)
    one, two = layer.value(x).tensor, layer.value(weight).tensor
    if times > 1:
        value = Value(value.tensor, np.tile(layer.const(k), times))
        two = replace(two, scale=np.tile(two.scale, times if two.scale.size > 1 else 1))
    if value.array is None or value.array.dtype.kind != "i":
        return [layer.x(k)]
    if not two.scale.size:
        raise ModelError("has a bias of integers, and weights without a scale")
    # of dynamically quantized products, a bias is float
    product = (one.scale.astype(np.float64) if one.scale.size else 1.0) * two.scale
    scale = np.broadcast_to(product, value.array.shape)
    if value.array.dtype != np.int32:
        return [layer.constant(value.array * scale)]
    if two.scale.size == 1:
        scale = product.reshape(())
    name = layer.made.constant(value.array, value.tensor.name)
    more = {"axis": 0} if np.ndim(scale) else {}
    return [layer.node("DequantizeLinear", name, layer.constant(scale), **more)]


def _convolution(layer: Layer) -> None:
    x, w = layer.image(0), layer.image(1)
    if x[3] % w[3] or w[0] % (x[3] // w[3]):
        raise ModelError(f"{x[3]} channels and weights {w} do not fit")
    _convolved(layer, x, w[1:3], FIRST, x[3] // w[3])


def _depthwise(layer: Layer) -> None:
    x, w = layer.image(0), layer.image(1)
    if w[0] != 1 or w[3] % x[3]:
        raise ModelError(f"{x[3]} channels and weights {w} do not fit")
    _convolved(layer, x, w[1:3], DEPTHWISE, x[3])


def _convolved(
    layer: Layer, x: Sequence[int], kernel: Sequence[int], order: Order, group: int
) -> None:
    settings: dict[str, Any] = _window(layer, x[1:3], kernel)
    inputs = [layer.x(0, FIRST), layer.x(1, order), *bias(layer, 2)]
    y = layer.node("Conv", *inputs, kernel_shape=list(kernel), group=group, **settings)
    layer.give(layer.activated(y), order=FIRST)


def _transposed_convolution(layer: Layer) -> None:
    _convolved_back(layer, 2, 3, [layer.op.option(f"Stride{side}", 1) for side in "HW"])


def _transposed_with_bias(layer: Layer) -> None:
    """A custom operator of MediaPipe, whose settings are the struct TfLiteTransposeConvParams: padding, width, height."""
    if len(layer.op.custom) < 12:
        raise ModelError(f"its settings have {len(layer.op.custom)} bytes, 12 are needed")
    _, width, height = np.frombuffer(layer.op.custom[:12], "<i4")
    _convolved_back(layer, 0, 2, [int(height), int(width)])


def _convolved_back(layer: Layer, image: int, addend: int, strides: list[int]) -> None:
    w, x, out = layer.image(1), layer.image(image), layer.out
    if len(out) != 4 or w[3] != x[3] or w[0] != out[3] or min(strides) < 1:
        raise ModelError(f"an image {x}, weights {w} and a result {out} do not fit")
    before, after, more = [], [], []
    for n, k, s, size in zip(x[1:3], w[1:3], strides, out[1:3], strict=True):
        cut = (n - 1) * s + k - size
        before.append(max(cut, 0) // 2)
        after.append(max(cut, 0) - before[-1])
        more.append(max(-cut, 0))
    if any(m >= s for m, s in zip(more, strides, strict=True)):
        raise ModelError(f"its result {out} is larger than what it computes")
    if layer.value(image).quantized and layer.value(1).array is not None:
        _convolved_by_phases(layer, image, addend, strides, before)
        return
    inputs = [layer.x(image, FIRST), layer.x(1, DEPTHWISE), *bias(layer, addend, image)]
    y = layer.node(
        "ConvTranspose",
        *inputs,
        kernel_shape=list(w[1:3]),
        strides=strides,
        pads=before + after,
        output_padding=more,
    )
    layer.give(layer.activated(y), order=FIRST)


def _convolved_by_phases(
    layer: Layer, image: int, addend: int, strides: list[int], before: list[int]
) -> None:
    """A transposed convolution of integers: the pixels of a step of it are channels of one convolution, and moved apart.
    Output pixel `stride * a + phase` is the sum of weights `phase + stride * j` times pixels `a - j`.
    """
    x, out, (sh, sw) = layer.image(image), layer.out, strides
    weights, taps = _weights_by_phases(layer, strides)
    lead = [min(b // s, j - 1) for b, s, j in zip(before, strides, taps, strict=True)]
    start = [b - one * s for b, one, s in zip(before, lead, strides, strict=True)]
    need = [-(-(b + n) // s) for b, n, s in zip(start, out[1:3], strides, strict=True)]
    pads = [j - 1 - one for j, one in zip(taps, lead, strict=True)]
    pads += [max(0, a + one - n) for a, one, n in zip(need, lead, x[1:3], strict=True)]
    inputs = [
        layer.x(image, FIRST),
        layer.made.real(weights),
        *bias(layer, addend, image, times=sh * sw),
    ]
    y = layer.node("Conv", *inputs, kernel_shape=taps, pads=pads, strides=[1, 1])
    forms, _ = layer.made.form(layer.outputs[0].tensor, FIRST)
    y = layer.node("QuantizeLinear", layer.activated(y), *forms)
    y = layer.node("DequantizeLinear", y, *forms)
    rows, columns = (n + sum(pads[k::2]) - taps[k] + 1 for k, n in enumerate(x[1:3]))
    if sh == sw:
        y = layer.node("DepthToSpace", y, blocksize=sh) if sh > 1 else y
    else:
        y = layer.reshaped(y, (x[0], sh, sw, out[3], rows, columns))
        y = layer.node("Transpose", y, perm=[0, 3, 4, 1, 5, 2])
        y = layer.reshaped(y, (x[0], out[3], sh * rows, sw * columns))
    end = [a + n for a, n in zip(start, out[1:3], strict=True)]
    y = layer.node("Slice", y, *(layer.constant(one, np.int64) for one in (start, end, [2, 3])))
    layer.give(y, order=FIRST)


def _weights_by_phases(layer: Layer, strides: list[int]) -> tuple[Value, list[int]]:
    """Weights of all phases, one behind the other, and how many there are along both sides."""
    tensor, array = layer.value(1).tensor, layer.const(1)
    (o, kh, kw, i), (sh, sw) = array.shape, strides
    taps = [-(-kh // sh), -(-kw // sw)]
    zero = tensor.zero.reshape(-1, 1, 1, 1) if tensor.zero.size else 0
    wide = np.zeros((o, taps[0] * sh, taps[1] * sw, i), array.dtype) + np.asarray(zero, array.dtype)
    wide[:, :kh, :kw] = array
    parts = wide.reshape(o, taps[0], sh, taps[1], sw, i)[:, ::-1, :, ::-1]
    found = parts.transpose(2, 4, 0, 5, 1, 3).reshape(sh * sw * o, i, *taps)
    times = sh * sw if tensor.scale.size > 1 else 1
    scale, zeros = np.tile(tensor.scale, times), np.tile(tensor.zero, times)
    made = replace(tensor, shape=found.shape, scale=scale, zero=zeros, axis=0)
    return Value(made, found), taps


def _pool(layer: Layer, op_type: str) -> None:
    kernel = [layer.op.option(f"Filter{side}", 1) for side in ("Height", "Width")]
    settings = _window(layer, layer.image()[1:3], kernel)
    y = layer.node(op_type, layer.x(0, FIRST), kernel_shape=kernel, **settings)
    layer.give(layer.activated(y), order=FIRST)


def _fully_connected(layer: Layer) -> None:
    w = layer.shape(1)
    if len(w) != 2 or min(w) < 1 or prod(layer.shape()) % w[1] or layer.op.option("WeightsFormat"):
        raise ModelError(f"an input {layer.shape()} and weights {w} do not fit")
    if len(layer.shape()) == 2 and layer.shape()[1] == w[1]:
        x = layer.x()
    else:
        x = layer.dequantized(0, layer.reshaped(layer.made.stored(layer.value(0)), (-1, w[1])))
    y = layer.activated(layer.node("Gemm", x, layer.x(1), *bias(layer, 2), transB=1))
    layer.give(y, reshaped=layer.out != (prod(layer.shape()) // w[1], w[0]))


def _product(layer: Layer) -> None:
    """BATCH_MATMUL."""
    names = []
    for k, which in enumerate(("AdjX", "AdjY")):
        order = list(natural(len(layer.shape(k))))
        if len(order) < 2:
            raise ModelError(f"its input {k} has the shape {layer.shape(k)}, two axes are needed")
        if layer.op.option(which):
            order[-2:] = order[:-3:-1]
        names.append(layer.x(k, tuple(order)))
    layer.give(layer.node("MatMul", *names))


# Elements -----------------------------------------------------------------------------------------


def _mapped(layer: Layer, op_type: str, **settings: Any) -> None:
    """An operator on the elements of one tensor."""
    order = layer.channels()
    layer.give(layer.node(op_type, layer.x(0, order), **settings), order=order)


def _combined(layer: Layer, op_type: str) -> None:
    """An operator on the elements of tensors that are broadcast."""
    order = layer.channels()
    y = layer.node(op_type, *(layer.aligned(k, order) for k in range(len(layer.inputs))))
    layer.give(
        layer.activated(y) if hasattr(layer.op.options, "FusedActivationFunction") else y,
        order=order,
    )


def _squared(layer: Layer, of_difference: bool = False) -> None:
    order = layer.channels()
    y = layer.aligned(0, order)
    if of_difference:
        y = _rounded_difference(layer, layer.node("Sub", y, layer.aligned(1, order)))
    layer.give(layer.node("Mul", y, y), order=order)


def _rounded_difference(layer: Layer, y: str) -> str:
    """A difference of integers as the interpreter squares it: in 128ths of twice the larger scale, or in as much, of integers
    of 16 bits; of `SQUARED`, which tells it from what other layers make.
    """
    operands = [layer.value(k) for k in range(2)]
    if not all(one.quantized for one in (*operands, *layer.outputs)):
        return y
    fine = 2.0**-6 if operands[0].tensor.dtype != "int16" else 2.0
    scale = layer.constant(fine * max(one.tensor.scale[0] for one in operands))
    forms = scale, layer.constant(1 << 15, SQUARED)
    return layer.node("DequantizeLinear", layer.node("QuantizeLinear", y, *forms), *forms)


def _rsqrt(layer: Layer) -> None:
    order = layer.channels()
    layer.give(layer.node("Reciprocal", layer.node("Sqrt", layer.x(0, order))), order=order)


def _clipped(layer: Layer, bounds: tuple[float, float]) -> None:
    order = layer.channels()
    layer.give(layer.node("Clip", layer.x(0, order), *map(layer.constant, bounds)), order=order)


def _leaky(layer: Layer) -> None:
    _mapped(layer, "LeakyRelu", alpha=float(layer.op.option("Alpha")))


def _gelu(layer: Layer) -> None:
    _mapped(layer, "Gelu", approximate="tanh" if layer.op.option("Approximate") else "none")


def _cast(layer: Layer) -> None:
    order = layer.channels()
    layer.give(
        layer.node("Cast", layer.x(0, order), to=element_type(layer.outputs[0])), order=order
    )


def _converted(layer: Layer) -> None:
    """QUANTIZE and DEQUANTIZE: the format of the result says what to do."""
    x = layer.value(0)
    if (
        x.array is not None and not x.quantized and not layer.outputs[0].quantized
    ):  # weights of float16
        layer.outputs[0].array = x.array.astype(layer.outputs[0].tensor.dtype)
        return
    order = layer.channels()
    name = layer.x(0, order)
    layer.give(
        name if x.quantized != layer.outputs[0].quantized else layer.node("Identity", name),
        order=order,
    )


_MAPPED = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "EXP": "Exp", "FLOOR": "Floor", "HARD_SWISH": "HardSwish", "LOG": "Log",
    "LOGICAL_NOT": "Not", "LOGISTIC": "Sigmoid", "NEG": "Neg", "RELU": "Relu", "ROUND": "Round", "SIGN": "Sign",
    "SIN": "Sin", "SQRT": "Sqrt", "TANH": "Tanh", "ELU": "Elu",
}  # fmt: skip
_COMBINED = {
    "ADD": "Add", "ADD_N": "Sum", "DIV": "Div", "EQUAL": "Equal", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less", "LESS_EQUAL": "LessOrEqual", "LOGICAL_AND": "And", "LOGICAL_OR": "Or", "MAXIMUM": "Max",
    "MINIMUM": "Min", "MUL": "Mul", "POW": "Pow", "PRELU": "PRelu", "SELECT": "Where", "SELECT_V2": "Where", "SUB": "Sub",
}  # fmt: skip
_REDUCED = {
    "MEAN": "ReduceMean", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin", "REDUCE_PROD": "ReduceProd",
    "SUM": "ReduceSum",
}  # fmt: skip

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        **{kind: partial(_mapped, op_type=op_type) for kind, op_type in _MAPPED.items()},
        **{kind: partial(_combined, op_type=op_type) for kind, op_type in _COMBINED.items()},
        **{kind: partial(axes.reduce, op_type=op_type) for kind, op_type in _REDUCED.items()},
        "ARG_MAX": partial(axes.find_best, op_type="ArgMax"),
        "ARG_MIN": partial(axes.find_best, op_type="ArgMin"),
        "AVERAGE_POOL_2D": partial(_pool, op_type="AveragePool"),
        "BATCH_MATMUL": _product,
        "BATCH_TO_SPACE_ND": axes.unpack_blocks,
        "BROADCAST_TO": partial(axes.repeat, op_type="Expand"),
        "CAST": _cast,
        "CONCATENATION": axes.concatenate,
        "CONV_2D": _convolution,
        "Convolution2DTransposeBias": _transposed_with_bias,
        "DENSIFY": _converted,
        "DEPTHWISE_CONV_2D": _depthwise,
        "DEPTH_TO_SPACE": partial(axes.move_blocks, op_type="DepthToSpace", mode="DCR"),
        "DEQUANTIZE": _converted,
        "EXPAND_DIMS": axes.reshape,
        "FULLY_CONNECTED": _fully_connected,
        "GATHER": axes.gather,
        "GELU": _gelu,
        "L2_NORMALIZATION": axes.normalize,
        "LEAKY_RELU": _leaky,
        "LOG_SOFTMAX": partial(axes.compute_softmax, op_type="LogSoftmax"),
        "MAX_POOL_2D": partial(_pool, op_type="MaxPool"),
        "MIRROR_PAD": partial(axes.pad, mode="mirror"),
        "PACK": axes.pack,
        "PAD": axes.pad,
        "PADV2": axes.pad,
        "QUANTIZE": _converted,
        "RELU6": partial(_clipped, bounds=(0.0, 6.0)),
        "RELU_0_TO_1": partial(_clipped, bounds=(0.0, 1.0)),
        "RELU_N1_TO_1": partial(_clipped, bounds=(-1.0, 1.0)),
        "RESHAPE": axes.reshape,
        "RESIZE_BILINEAR": partial(axes.resize, mode="linear"),
        "RESIZE_NEAREST_NEIGHBOR": partial(axes.resize, mode="nearest"),
        "RSQRT": _rsqrt,
        "SHAPE": axes.state_shape,
        "SLICE": axes.slice_,
        "SOFTMAX": axes.compute_softmax,
        "SPACE_TO_BATCH_ND": axes.pack_blocks,
        "SPACE_TO_DEPTH": partial(axes.move_blocks, op_type="SpaceToDepth"),
        "SPLIT": partial(axes.split, x=1, axis=0),
        "SPLIT_V": partial(axes.split, x=0, axis=2),
        "SQUARE": _squared,
        "SQUARED_DIFFERENCE": partial(_squared, of_difference=True),
        "SQUEEZE": axes.reshape,
        "STRIDED_SLICE": axes.slice_by_steps,
        "TILE": partial(axes.repeat, op_type="Tile"),
        "TRANSPOSE": axes.transpose,
        "TRANSPOSE_CONV": _transposed_convolution,
        "UNPACK": axes.unpack,
    }
)
"""Kind of operator -> what makes its nodes."""

_MOVING = """
    BATCH_TO_SPACE_ND BROADCAST_TO CONCATENATION DEPTH_TO_SPACE EXPAND_DIMS GATHER MIRROR_PAD PACK PAD PADV2
    RESHAPE SLICE SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE UNPACK
"""
MOVES = frozenset(_MOVING.split())
"""Operators that only move elements, and so work on integers as they are where all have the same scale."""
