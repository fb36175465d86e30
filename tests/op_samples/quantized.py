"""Samples of the operators on integers: types, zero points, scales along an axis, windows that
accumulate. onnxruntime's products of uint8 and int8 saturate on processors without VNNI: weights beside
uint8 are small here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

RNG = np.random.default_rng(12)


def f(*values: float) -> np.ndarray:
    """A scale, or several."""
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def z(value: int | list[int], dtype: str) -> np.ndarray:
    """A zero point, or several."""
    return np.array(value, dtype)


def ints(
    shape: tuple[int, ...], dtype: str, most: int = 127, least: int | None = None
) -> np.ndarray:
    low = (0 if dtype[0] == "u" else -most) if least is None else least
    return RNG.integers(low, most + 1, shape).astype(dtype)


def x(shape: tuple[int, ...], dtype: str, row_axis: int | None = None) -> Arg:
    """A tensor with every value of its type."""
    info = np.iinfo(dtype)
    return Arg(shape, row_axis, dtype, info.min, info.max)


IMAGE = (1, 4, 9, 7)
I8, U8 = ("int8", -7), ("uint8", 118)


def conv(
    shape: tuple[int, ...],
    of: tuple[str, int],
    weights: np.ndarray,
    *,
    bias: bool = True,
    scales: bool = True,
    zero: int = 0,
    **attributes: Any,
) -> Sample:
    dtype, centre = of
    out = weights.shape[0]
    scale = RNG.uniform(0.002, 0.01, out).astype(np.float32) if scales else f(0.006)
    zeros = np.full(out if scales else (), zero, weights.dtype)
    terms = int(np.prod(weights.shape[1:]))
    inputs: list[Arg | np.ndarray | None] = [
        x(shape, dtype, 2),
        f(0.02),
        z(centre, dtype),
        weights,
        scale,
        zeros,
        f(0.0024 * terms**0.5),
        z(centre + 9, dtype),
    ]
    if bias:
        inputs.append(RNG.integers(-3000, 3000, out).astype(np.int32))
    return Sample("QLinearConv", tuple(inputs), attributes, opset=10)


def two(op_type: str, of: tuple[str, int], *shapes: Any, rows: int | None = 2) -> Sample:
    dtype, centre = of
    a, b = (
        x(
            shape,
            dtype,
            None if rows is None else rows - (4 - len(shape)) if len(shape) > 1 else None,
        )
        if isinstance(shape, tuple)
        else shape
        for shape in shapes
    )
    zeros = [z(centre + k, dtype) for k in (0, 5, -3)]
    inputs = (a, f(0.031), zeros[0], b, f(0.017), zeros[1], f(0.043), zeros[2])
    return Sample(op_type, inputs, opset=17)


def one(op_type: str, of: tuple[str, int], shape: tuple[int, ...], **attributes: Any) -> Sample:
    dtype, centre = of
    rows = 2 if len(shape) == 4 else 1 if len(shape) == 3 else None
    scale = 0.0039 if "Sigmoid" in op_type else 0.021
    if "Softmax" in op_type:
        inputs = (
            x(shape, dtype, rows),
            f(0.021),
            z(centre, dtype),
            f(1 / 256),
            z(np.iinfo(dtype).min, dtype),
        )
        return Sample(op_type, inputs, attributes)
    inputs = (x(shape, dtype, rows), f(0.034), z(centre, dtype), f(scale), z(centre - 11, dtype))
    return Sample(op_type, inputs, attributes)


def gemm(
    of: tuple[str, int],
    a: tuple[int, int],
    b: np.ndarray,
    *,
    scales: bool,
    out: bool = True,
    c: Any = None,
    **attributes: Any,
) -> Sample:
    dtype, centre = of
    columns = b.shape[0 if attributes.get("transB") else 1]
    scale = RNG.uniform(0.002, 0.01, columns).astype(np.float32) if scales else f(0.006)
    zeros = np.zeros(columns if scales else (), b.dtype)
    tail: tuple[Any, ...] = (f(0.051), z(centre - 4, dtype)) if out else ()
    return Sample(
        "QGemm", (x(a, dtype), f(0.02), z(centre, dtype), b, scale, zeros, c, *tail), attributes
    )


def matmul(of: tuple[str, int], a: Any, b: Any, *, scales: int = 0) -> Sample:
    dtype, centre = of
    other = "int8" if isinstance(b, np.ndarray) else b.dtype
    scale = RNG.uniform(0.002, 0.01, scales).astype(np.float32) if scales else f(0.013)
    zeros = np.zeros(scales, other) if scales else z(3 if other == "int8" else 99, other)
    inputs = (a, f(0.02), z(centre, dtype), b, scale, zeros, f(0.11), z(centre + 2, dtype))
    return Sample("QLinearMatMul", inputs, opset=10)


def concat(of: tuple[str, int], *operands: Any, axis: int) -> Sample:
    dtype, centre = of
    inputs: list[Any] = [f(0.02), z(centre, dtype)]
    for k, operand in enumerate(operands):
        scale = 0.02 if k == 0 else 0.013 + 0.01 * k
        inputs += [operand, f(scale), z(centre + (0 if k == 0 else k), dtype)]
    return Sample("QLinearConcat", tuple(inputs), {"axis": axis})


SAMPLES: list[Sample] = [
    # to integers and back
    *(
        Sample("QuantizeLinear", (Arg(IMAGE, 2, low=-4, high=4), f(0.027), z(zero, dtype)), hides_nan="rounded")
        for dtype, zero in (I8, U8, ("int8", 127), ("uint8", 0))
    ),
    *(
        Sample("QuantizeLinear", (Arg(IMAGE, 2, low=-4, high=4), f(0.0001), z(zero, dtype)), opset=21, hides_nan="rounded")
        for dtype, zero in (("int16", -300), ("uint16", 31000))
    ),
    Sample("QuantizeLinear", (Arg(IMAGE, 2), f(0.02)), hides_nan="rounded"),
    Sample(
        "QuantizeLinear",
        (Arg(IMAGE, 2), f(0.02, 0.03, 0.01, 0.05), z([1, -2, 3, 0], "int8")),
        {"axis": 1},
        hides_nan="rounded",
    ),
    Sample(
        "QuantizeLinear",
        (Arg((1, 2, 3, 5), 2), f(0.02, 0.03, 0.01), z([1, 2, 3], "uint8")),
        {"axis": -2},
        hides_nan="rounded",
    ),
    Sample(
        "QuantizeLinear",
        (Arg((6, 5), 0), np.linspace(0.01, 0.05, 15, dtype=np.float32).reshape(3, 5), ints((3, 5), "int8")),
        {"axis": 0, "block_size": 2},
        opset=21,
        hides_nan="rounded",
    ),
    *(Sample("DequantizeLinear", (x(IMAGE, dtype, 2), f(0.027), z(zero, dtype))) for dtype, zero in (I8, U8)),
    Sample("DequantizeLinear", (x(IMAGE, "int16", 2), f(0.0001), z(-77, "int16")), opset=21),
    Sample("DequantizeLinear", (x(IMAGE, "uint16", 2), f(0.0001), z(30000, "uint16")), opset=21),
    Sample("DequantizeLinear", (x((3, 4), "int32"), f(0.003))),
    Sample(
        "DequantizeLinear",
        (x(IMAGE, "int8", 2), f(0.02, 0.03, 0.01, 0.05), z([1, -2, 3, 0], "int8")),
        {"axis": 1},
    ),
    Sample(
        "DequantizeLinear",
        (x((1, 2, 3, 5), "uint8", 2), f(0.02, 0.03, 0.01), z([1, 2, 3], "uint8")),
        {"axis": 2},
    ),
    Sample("DynamicQuantizeLinear", (Arg(IMAGE, 2),), outputs=3, unnamed=1),
    Sample("DynamicQuantizeLinear", (Arg((3, 5), 0, low=1, high=2),), outputs=3, unnamed=1),
    # convolutions
    conv(IMAGE, I8, ints((5, 4, 3, 3), "int8"), pads=[1, 1, 1, 1]),
    conv(IMAGE, U8, ints((5, 4, 3, 3), "int8", 60), pads=[1, 1, 1, 1], strides=[2, 2]),
    conv(IMAGE, U8, ints((5, 4, 3, 3), "uint8", 255), zero=117, scales=False, pads=[0, 2, 2, 1]),
    conv(IMAGE, I8, ints((6, 4, 1, 1), "int8"), bias=False),
    conv(IMAGE, I8, ints((4, 1, 3, 3), "int8"), group=4, pads=[1, 1, 1, 1]),
    conv(IMAGE, I8, ints((6, 2, 3, 2), "int8"), group=2, dilations=[2, 1], pads=[2, 0, 2, 1]),
    conv((1, 3, 4, 5), I8, ints((7, 3, 4, 5), "int8")),
    conv((1, 300, 3, 3), I8, ints((3, 300, 3, 3), "int8", 127, 100), pads=[1, 1, 1, 1]),
    conv((1, 3, 12), I8, ints((4, 3, 3), "int8"), pads=[1, 1]),
    conv((2, 4, 6, 5), I8, ints((4, 1, 3, 3), "int8"), group=4, auto_pad="SAME_UPPER"),
    Sample(
        "ConvInteger",
        (x((1, 3, 6, 5), "uint8", 2), ints((4, 3, 3, 3), "uint8", 255), z(9, "uint8"), z(121, "uint8")),
        {"pads": [1, 1, 1, 1]},
    ),
    Sample("ConvInteger", (x((1, 3, 6, 5), "uint8", 2), ints((4, 3, 3, 3), "uint8", 255))),
    Sample(
        "ConvInteger",
        (x((1, 3, 6, 5), "uint8", 2), ints((4, 3, 3, 3), "uint8", 255), x((), "uint8")),
        {"pads": [1, 1, 1, 1], "strides": [2, 1]},
    ),
    Sample("ConvInteger", (x((1, 3, 4, 5), "uint8", 2), ints((4, 3, 4, 3), "uint8", 255), z(7, "uint8"))),
    # matrix products
    gemm(I8, (3, 20), ints((20, 6), "int8"), scales=True, c=ints((6,), "int32", 4000)),
    gemm(I8, (1, 700), ints((5, 700), "int8", 127, 90), scales=False, transB=1),
    gemm(U8, (4, 9), ints((7, 9), "int8", 50), scales=True, transB=1, alpha=0.5),
    gemm(U8, (9, 4), ints((9, 3), "uint8", 255), scales=False, transA=1, c=ints((4, 1), "int32", 4000)),
    gemm(I8, (3, 8), ints((8, 6), "int8"), scales=True, out=False, c=ints((1, 6), "int32", 4000)),
    matmul(I8, x((6, 20), "int8", 0), ints((20, 5), "int8"), scales=5),
    matmul(I8, x((2, 6, 20), "int8", 1), ints((20, 5), "int8")),
    matmul(U8, x((2, 3, 8), "uint8", 1), x((2, 8, 4), "uint8", 1)),
    Sample("MatMulInteger", (x((4, 7), "uint8", 0), x((7, 3), "uint8"), z(12, "uint8"), z(8, "uint8"))),
    Sample("MatMulInteger", (x((4, 7), "uint8", 0), ints((7, 3), "int8", 60), x((), "uint8"))),
    Sample("MatMulInteger", (x((2, 4, 7), "int8", 1), ints((7, 3), "int8"))),
    Sample("MatMulInteger", (x((4, 7), "int8", 0), ints((7, 3), "int8"), x((), "int8"), z([3, -9, 100], "int8"))),
    # tensors and tensors
    two("QLinearAdd", I8, IMAGE, IMAGE),
    two("QLinearAdd", U8, IMAGE, IMAGE),
    two("QLinearAdd", I8, IMAGE, ints((1, 4, 1, 1), "int8")),
    two("QLinearAdd", U8, IMAGE, (1, 4, 1, 1)),
    two("QLinearMul", I8, IMAGE, IMAGE),
    two("QLinearMul", U8, IMAGE, IMAGE),
    two("QLinearMul", I8, IMAGE, (1, 4, 1, 1)),
    two("QLinearMul", U8, IMAGE, ints((), "uint8", 255)),
    concat(I8, x(IMAGE, "int8", 2), x((1, 3, 9, 7), "int8", 2), axis=1),
    concat(U8, x(IMAGE, "uint8", 2), x((1, 4, 2, 7), "uint8", 2), x(IMAGE, "uint8", 2), axis=2),
    concat(I8, x(IMAGE, "int8", 2), ints((1, 2, 9, 7), "int8"), axis=1),
    # functions of one
    *(one("QLinearSigmoid", of, IMAGE) for of in (I8, U8)),
    *(one("QLinearLeakyRelu", of, IMAGE, alpha=0.1) for of in (I8, U8)),
    one("QLinearLeakyRelu", I8, (3, 5)),
    *(one("QLinearGlobalAveragePool", of, (1, 5, 6, 7)) for of in (I8, U8)),
    one("QLinearGlobalAveragePool", I8, (2, 3, 4, 5)),
    *(one("QLinearAveragePool", of, IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]) for of in (I8, U8)),
    one("QLinearAveragePool", I8, IMAGE, kernel_shape=[2, 3], strides=[2, 2]),
    one("QLinearAveragePool", I8, IMAGE, kernel_shape=[3, 3], pads=[1, 0, 1, 2], count_include_pad=1),
    one("QLinearAveragePool", U8, (1, 3, 8, 8), kernel_shape=[8, 8]),
    one("QLinearAveragePool", I8, (1, 3, 5, 6), kernel_shape=[5, 2], strides=[1, 2]),
    *(one("QLinearSoftmax", of, (3, 12), opset=17) for of in (I8, U8)),
    one("QLinearSoftmax", I8, IMAGE, opset=13, axis=1),
    one("QLinearSoftmax", I8, IMAGE, opset=13, axis=2),
    one("QLinearSoftmax", U8, (2, 3, 5), opset=12, axis=1),
    *(one("QLinearSoftmax", of, (1, 1001), opset=17) for of in (I8, U8)),
]  # fmt: skip
