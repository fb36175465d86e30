"""Samples of the convolution family."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

HOLES = "a tap beside the edge of a dilated window is padding, so that a row in a hole is declared, not read"


def _weights(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Weights of a size that keeps outputs near one."""
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(dtype)


def _sample(
    op_type: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    bias: int = 0,
    dtype: str = "float32",
    row_axis: int | None = 2,
    opset: int = 17,
    label: str = "",
    hides_nan: str = "",
    **attributes: Any,
) -> Sample:
    operands: list[Arg | np.ndarray | None] = [Arg(x, row_axis, dtype), _weights(*w, dtype=dtype)]
    if bias:
        operands.append(_weights(bias, dtype=dtype))
    return Sample(op_type, tuple(operands), attributes, opset, label=label, hides_nan=hides_nan)


def conv(x: tuple[int, ...], w: tuple[int, ...], *, bias: bool = True, **more: Any) -> Sample:
    return _sample("Conv", x, w, bias=w[0] if bias else 0, **more)


def transpose(x: tuple[int, ...], w: tuple[int, ...], *, bias: bool = True, **more: Any) -> Sample:
    return _sample("ConvTranspose", x, w, bias=w[1] * more.get("group", 1) if bias else 0, **more)


DENSE = [
    conv((1, 3, 9, 11), (5, 3, 3, 3), pads=[1, 1, 1, 1]),
    conv((1, 3, 9, 11), (5, 3, 3, 3), bias=False, pads=[1, 1, 1, 1], opset=7),
    conv((1, 3, 9, 11), (5, 3, 3, 3), opset=11),
    conv(
        (1, 3, 9, 11),
        (5, 3, 3, 3),
        opset=22,
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    conv((1, 3, 13, 17), (4, 3, 7, 7), strides=[2, 2], pads=[3, 3, 3, 3]),
    conv((1, 4, 11, 9), (6, 4, 5, 5), strides=[2, 2], pads=[2, 2, 2, 2]),
    conv((1, 4, 11, 9), (6, 4, 3, 5), strides=[1, 2], pads=[0, 2, 1, 0]),
    conv((1, 4, 10, 10), (3, 4, 2, 2), strides=[3, 3], label="rows-between-windows"),
    conv((1, 4, 7, 7), (3, 4, 3, 3), strides=[4, 3], pads=[2, 0, 1, 3]),
    conv((1, 2, 5, 6), (3, 2, 3, 3), pads=[3, 4, 3, 3], label="windows-in-the-padding"),
    conv((2, 3, 6, 7), (4, 3, 3, 3), pads=[1, 1, 1, 1]),
    conv((1, 3, 6, 7), (4, 3, 3, 3), pads=[1, 1, 1, 1], row_axis=None, label="natural"),
    conv((1, 3, 6, 7), (4, 3, 3, 3), row_axis=1, label="rows-of-channels"),
    conv((1, 1, 6, 7), (4, 1, 3, 3), pads=[1, 1, 1, 1]),
    conv((1, 5, 1, 1), (4, 5, 3, 3), pads=[1, 1, 1, 1]),
    conv((1, 5, 1, 9), (4, 5, 1, 3), pads=[0, 1, 0, 1]),
    conv((1, 5, 9, 1), (4, 5, 3, 1), pads=[1, 0, 1, 0]),
    conv((1, 3, 5, 80), (4, 3, 3, 3), pads=[1, 1, 1, 1], label="wide"),
    conv((1, 600, 6, 12), (4, 600, 3, 3), pads=[1, 1, 1, 1], label="deep"),
    conv((1, 130, 3, 70), (2, 130, 3, 3), pads=[1, 1, 1, 1], label="columns-cut"),
    conv((1, 3, 6, 7), (4, 3, 3, 3), pads=[1, 1, 1, 1], dtype="float64"),
    conv((1, 3, 6, 7), (4, 3, 3, 3), pads=[1, 1, 1, 1], dtype="float16"),
    conv((1, 3, 6, 7), (4, 3, 3, 3), bias=False, strides=[2, 1], dtype="float16"),
]

POINTWISE = [
    conv((1, 8, 6, 5), (4, 8, 1, 1)),
    conv((1, 8, 6, 5), (4, 8, 1, 1), bias=False),
    conv((1, 8, 1, 1), (4, 8, 1, 1)),
    conv((3, 8, 6, 5), (4, 8, 1, 1)),
    conv((1, 8, 7, 5), (4, 8, 1, 1), strides=[2, 2]),
    conv((2, 8, 7, 6), (4, 8, 1, 1), strides=[1, 2]),
    conv((1, 8, 5, 5), (4, 8, 1, 1), pads=[1, 2, 0, 1]),
    conv((1, 8, 7, 5), (4, 8, 1, 1), strides=[3, 3], pads=[1, 1, 1, 1]),
    conv((1, 8, 6, 5), (4, 8, 1, 1), dtype="float16"),
    conv((1, 8, 6, 5), (4, 8, 1, 1), row_axis=None, label="natural"),
    conv((1, 9, 6, 5), (6, 3, 1, 1), group=3),
    conv((1, 9, 6, 5), (6, 3, 1, 1), group=3, strides=[2, 2], dtype="float64"),
]

DILATED = [
    conv((1, 3, 9, 9), (4, 3, 3, 3), dilations=[2, 2]),
    conv((1, 3, 9, 9), (4, 3, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2], hides_nan=HOLES),
    conv(
        (1, 3, 9, 9),
        (4, 3, 3, 3),
        dilations=[2, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 1],
        hides_nan=HOLES,
    ),
    conv((1, 3, 7, 7), (4, 3, 3, 3), dilations=[6, 6], pads=[6, 6, 6, 6], hides_nan=HOLES),
    conv((1, 4, 7, 7), (4, 2, 3, 3), dilations=[4, 4], pads=[4, 4, 4, 4], group=2, hides_nan=HOLES),
    conv(
        (1, 600, 7, 9),
        (2, 600, 3, 3),
        dilations=[5, 5],
        pads=[5, 5, 5, 5],
        label="deep",
        hides_nan=HOLES,
    ),
    conv((1, 6, 9, 9), (6, 1, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2], group=6, hides_nan=HOLES),
    conv((1, 6, 9, 9), (6, 1, 3, 3), dilations=[7, 7], pads=[7, 7, 7, 7], group=6, hides_nan=HOLES),
]

AUTO = [
    conv((1, 2, h, 9), (3, 2, k, 3), auto_pad=mode, strides=[s, 2])
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")
    for h, k, s in ((8, 3, 2), (9, 4, 3), (5, 2, 1))
] + [
    conv((1, 2, 5, 5), (3, 2, 1, 1), auto_pad="SAME_UPPER", strides=[3, 3]),
    conv((1, 2, 8, 8), (3, 2, 3, 3), auto_pad="NOTSET", pads=[1, 0, 0, 1]),
]

GROUPED = [
    conv((1, 8, 6, 7), (12, 2, 3, 3), group=4, pads=[1, 1, 1, 1]),
    conv((2, 8, 6, 7), (4, 4, 3, 3), group=2, strides=[2, 2], bias=False),
    conv((1, 8, 6, 7), (4, 4, 3, 3), group=2, dtype="float16"),
    conv((1, 6, 6, 7), (12, 1, 3, 3), group=6, pads=[1, 1, 1, 1], label="multiplier"),
    conv((1, 6, 7, 9), (6, 1, 3, 3), group=6, pads=[1, 1, 1, 1]),
    conv((1, 6, 7, 9), (6, 1, 3, 3), group=6, bias=False),
    conv((1, 6, 7, 9), (6, 1, 3, 3), group=6, strides=[2, 2], pads=[1, 1, 1, 1]),
    conv((1, 6, 9, 9), (6, 1, 5, 5), group=6, strides=[1, 2], pads=[2, 2, 2, 2]),
    conv(
        (1, 160, 5, 13),
        (160, 1, 3, 3),
        group=160,
        strides=[1, 2],
        pads=[1, 1, 1, 1],
        label="many-channels",
    ),
    conv((1, 40, 4, 101), (40, 1, 3, 3), group=40, pads=[1, 1, 1, 1], label="tiles-with-a-rest"),
    conv((2, 6, 7, 9), (6, 1, 3, 3), group=6, pads=[1, 1, 1, 1]),
    conv((1, 6, 7, 9), (6, 1, 3, 3), group=6, pads=[1, 0, 0, 1], dtype="float16"),
    conv((1, 6, 7, 9), (6, 1, 3, 3), group=6, dtype="float64"),
    conv((1, 6, 7, 9), (6, 1, 3, 3), group=6, row_axis=None, label="natural"),
    conv((1, 6, 1, 1), (6, 1, 1, 1), group=6),
    conv((1, 6, 7, 8), (6, 1, 1, 1), group=6, strides=[2, 3]),
]

OTHER_RANKS = [
    conv((1, 3, 12), (4, 3, 3), pads=[1, 1]),
    conv((2, 3, 12), (4, 3, 5), strides=[2], pads=[2, 1], bias=False),
    conv((1, 3, 12), (4, 3, 1)),
    conv((1, 3, 12), (4, 3, 3), row_axis=None, auto_pad="SAME_LOWER", strides=[2], label="natural"),
    conv((1, 4, 12), (4, 1, 3), group=4, pads=[1, 1]),
    conv((1, 4, 12), (4, 1, 3), group=4, dilations=[3], pads=[3, 3], hides_nan=HOLES),
    conv((1, 4, 1), (6, 4, 1)),
    conv((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), pads=[1, 1, 1, 1, 1, 1]),
    conv((2, 2, 5, 6, 4), (3, 2, 2, 3, 1), strides=[2, 1, 3], pads=[0, 1, 0, 1, 0, 0]),
    conv((1, 4, 5, 6, 7), (4, 1, 3, 3, 3), group=4, pads=[1, 1, 1, 1, 1, 1]),
    conv((1, 2, 5, 6, 7), (3, 2, 1, 1, 1)),
]

ACCUMULATING = [
    conv((1, 5, 4, 3), (6, 5, 4, 3)),
    conv((1, 5, 4, 3), (6, 5, 4, 3), bias=False),
    conv((2, 5, 4, 6), (6, 5, 4, 3), pads=[0, 1, 0, 1]),
    conv((1, 6, 4, 6), (4, 3, 4, 2), group=2),
    conv((1, 6, 5, 5), (6, 1, 5, 5), group=6),
    conv((1, 5, 5, 3), (6, 5, 3, 3), strides=[3, 1], label="rows-left-over"),
    conv((1, 5, 7, 3), (6, 5, 3, 3), dilations=[3, 1]),
    conv((1, 6, 5, 9), (6, 1, 3, 3), dilations=[2, 1], pads=[0, 1, 0, 1], group=6, hides_nan=HOLES),
    conv((1, 5, 4), (6, 5, 4)),
    conv((1, 4, 4), (4, 1, 4), group=4),
    conv((1, 5, 4, 3), (6, 5, 4, 3), dtype="float64"),
    conv((1, 5, 4, 3), (6, 5, 4, 3), dtype="float16", label="whole-in"),
]

TRANSPOSED = [
    transpose((1, 3, 5, 6), (3, 4, 2, 2), strides=[2, 2]),
    transpose((1, 3, 5, 6), (3, 4, 2, 2), strides=[2, 2], bias=False, opset=7),
    transpose((1, 3, 5, 6), (3, 4, 3, 3), opset=11),
    transpose(
        (1, 3, 5, 6),
        (3, 4, 3, 3),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
        opset=22,
    ),
    transpose((1, 3, 5, 6), (3, 4, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[4, 4]),
    transpose((1, 3, 5, 6), (3, 4, 3, 5), strides=[3, 2], pads=[0, 2, 1, 0]),
    transpose((1, 3, 4, 4), (3, 4, 1, 1), strides=[3, 2], label="rows-without-taps"),
    transpose((1, 3, 4, 4), (3, 4, 1, 2), strides=[2, 3], bias=False, label="rows-without-taps"),
    transpose((1, 3, 4, 4), (3, 4, 2, 2), strides=[3, 3], output_padding=[2, 1]),
    transpose((1, 3, 4, 5), (3, 4, 3, 3), dilations=[2, 2], hides_nan=HOLES),
    transpose((1, 3, 4, 5), (3, 4, 3, 3), dilations=[2, 2], strides=[2, 2], hides_nan=HOLES),
    transpose(
        (1, 3, 4, 5),
        (3, 4, 3, 2),
        dilations=[3, 2],
        strides=[2, 3],
        pads=[1, 1, 2, 0],
        hides_nan=HOLES,
    ),
    transpose((1, 4, 5, 6), (4, 3, 3, 3), group=2, strides=[2, 2]),
    transpose((1, 4, 5, 6), (4, 1, 4, 4), group=4, strides=[2, 2], pads=[1, 1, 1, 1], bias=False),
    transpose((1, 4, 5, 6), (4, 2, 3, 3), group=4),
    transpose((2, 3, 5, 6), (3, 4, 3, 3), strides=[2, 2]),
    transpose((1, 3, 5, 6), (3, 4, 3, 3), strides=[2, 2], output_shape=[10, 12]),
    transpose(
        (1, 3, 5, 6), (3, 4, 3, 3), strides=[2, 2], output_shape=[10, 12], auto_pad="SAME_UPPER"
    ),
    transpose(
        (1, 3, 5, 6), (3, 4, 3, 3), strides=[3, 3], output_shape=[16, 18], output_padding=[1, 0]
    ),
    transpose((1, 3, 5, 6), (3, 4, 4, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    transpose((1, 3, 5, 6), (3, 4, 4, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    transpose((1, 3, 5, 6), (3, 4, 3, 3), strides=[2, 2], auto_pad="VALID"),
    transpose((1, 3, 1, 1), (3, 4, 2, 2), strides=[2, 2]),
    transpose((1, 3, 5, 6), (3, 4, 2, 2), strides=[2, 2], row_axis=None, label="natural"),
    transpose((1, 3, 5, 6), (3, 4, 3, 3), strides=[2, 2], dtype="float64"),
    transpose((1, 3, 5, 6), (3, 4, 3, 3), strides=[2, 2], dtype="float16"),
    transpose((1, 3, 7), (3, 4, 4), strides=[2], pads=[1, 1]),
    transpose((1, 4, 7), (4, 1, 3), strides=[2], group=4),
    transpose((1, 2, 3, 4, 3), (2, 3, 3, 2, 3), strides=[2, 2, 1], pads=[1, 0, 1, 1, 0, 1]),
]

SAMPLES: list[Sample] = [
    *DENSE,
    *POINTWISE,
    *DILATED,
    *AUTO,
    *GROUPED,
    *OTHER_RANKS,
    *ACCUMULATING,
    *TRANSPOSED,
]
