"""Samples of Gemm and MatMul."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample


def const(*shape: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(sum(shape) + len(shape))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    return rng.uniform(-1, 1, shape).astype(dtype)


def gemm(
    *inputs: Arg | np.ndarray | None, opset: int = 17, label: str = "", **attributes: Any
) -> Sample:
    return Sample("Gemm", inputs, attributes, opset, label=label)


def matmul(a: Arg | np.ndarray, b: Arg | np.ndarray, *, opset: int = 17, label: str = "") -> Sample:
    return Sample("MatMul", (a, b), {}, opset, label=label)


GEMM = [
    gemm(Arg((1, 6)), const(6, 4), const(4)),
    gemm(Arg((1, 6)), const(6, 4), const(4), opset=7),
    gemm(Arg((1, 6)), const(6, 4), const(1, 4), opset=9),
    gemm(Arg((1, 6)), const(6, 4), opset=11),
    gemm(Arg((1, 6)), const(4, 6), const(4), transB=1, opset=13),
    gemm(Arg((1, 1)), const(1, 1), const(1)),
    gemm(Arg((5, 6)), const(6, 4), const(4), label="many-rows"),
    gemm(Arg((5, 6), 0), const(6, 4), const(4), label="rows"),
    gemm(Arg((5, 6), 0), const(4, 6), const(5, 4), transB=1, alpha=0.5, beta=2.0, label="rows"),
    gemm(Arg((5, 6), 0), const(6, 4), const(5, 1), label="rows"),
    gemm(Arg((5, 6), 0), const(6, 4), Arg((5, 4), 0), beta=0.25, label="rows"),
    gemm(Arg((5, 6), 0), const(6, 4), Arg((5, 1)), label="rows-beside-natural"),
    gemm(Arg((5, 6), 1), const(6, 4), const(4), label="rows-contracted"),
    gemm(Arg((6, 5), 1), const(6, 4), const(4), transA=1, label="rows"),
    gemm(Arg((6, 5), 0), const(6, 4), const(4), transA=1, label="rows-contracted"),
    gemm(Arg((6, 5)), const(4, 6), const(1), transA=1, transB=1, alpha=1.5, beta=0.5),
    gemm(Arg((5, 6)), Arg((6, 4)), Arg((4,)), alpha=2.0, beta=3.0),
    gemm(Arg((5, 6), 0), Arg((6, 4), 0), Arg((1, 4)), label="rows"),
    gemm(Arg((5, 6)), Arg((4, 6), 0), const(5, 4), transB=1, label="rows-of-the-right"),
    gemm(const(5, 6), Arg((6, 4)), const(4), alpha=0.5),
    gemm(const(5, 6), Arg((6, 4), 1), const(5, 4), label="rows-of-the-right"),
    gemm(const(1, 6), const(6, 4), Arg((1, 4)), alpha=2.0),
    gemm(Arg((5, 6), 0), const(6, 4), np.full((), 0.5, np.float32)),
    gemm(
        Arg((5, 6), 0, "float64"),
        const(6, 4, dtype="float64"),
        const(4, dtype="float64"),
        alpha=0.1,
        beta=0.2,
    ),
    gemm(
        Arg((5, 6), 0, "float16"),
        const(6, 4, dtype="float16"),
        const(4, dtype="float16"),
        alpha=0.5,
    ),
    gemm(
        Arg((5, 6), None, "float16"),
        Arg((6, 4), None, "float16"),
        Arg((5, 4), None, "float16"),
        beta=0.5,
    ),
    gemm(Arg((5, 6), 0, "int32"), const(6, 4, dtype="int32"), const(4, dtype="int32"), alpha=2.0),
    gemm(Arg((5, 6), None, "int64"), const(6, 4, dtype="int64")),
    gemm(Arg((5, 6), None, "uint32"), Arg((6, 4), None, "uint32")),
    gemm(Arg((5, 6), None, "uint64"), const(6, 4, dtype="uint64")),
]

MATMUL = [
    matmul(Arg((1, 6)), const(6, 4)),
    matmul(Arg((5, 6)), const(6, 4), opset=7),
    matmul(Arg((5, 6), 0), const(6, 4), opset=9),
    matmul(Arg((5, 6), 0), const(6, 4), opset=13),
    matmul(Arg((1, 5, 6), 1), const(6, 4), label="tokens"),
    matmul(Arg((2, 5, 6), 1), const(6, 4), label="tokens"),
    matmul(Arg((2, 5, 6)), const(6, 4), label="tokens"),
    matmul(Arg((1, 5, 6)), const(6, 4), label="tokens"),
    matmul(Arg((1, 5, 6), 2), const(6, 4), label="rows-contracted"),
    matmul(Arg((3, 5, 6), 0), const(6, 4), label="rows-of-the-batch"),
    matmul(Arg((3, 5, 6), 0), const(3, 6, 4), label="rows-of-the-batch"),
    matmul(Arg((3, 5, 6), 0), const(1, 6, 4), label="rows-of-the-batch"),
    matmul(Arg((3, 5, 6), 0), Arg((3, 6, 4)), label="rows-of-the-batch"),
    matmul(Arg((1, 5, 6), 0), Arg((3, 6, 4), 0), label="rows-of-the-batch"),
    matmul(Arg((1, 2, 5, 6), 2), const(6, 4), label="map"),
    matmul(Arg((1, 2, 5, 6), 2), const(2, 6, 4), label="map"),
    matmul(Arg((1, 2, 5, 6), 2), Arg((1, 2, 6, 4), 2), label="attention"),
    matmul(Arg((1, 2, 5, 6)), Arg((1, 2, 6, 5)), label="attention"),
    matmul(Arg((1, 1, 5, 6)), Arg((1, 1, 6, 5)), label="attention"),
    matmul(Arg((5, 6), 0), Arg((6, 4), 0), label="rows"),
    matmul(const(5, 6), Arg((6, 4))),
    matmul(const(5, 6), Arg((6, 4), 1), label="rows-of-the-right"),
    matmul(const(3, 5, 6), Arg((1, 6, 4), 2), label="rows-of-the-right"),
    matmul(const(2, 5, 6), Arg((2, 6, 4), 0), label="rows-of-the-batch"),
    matmul(Arg((6,)), const(6, 4), label="vector"),
    matmul(Arg((6,), 0), const(6, 4), label="vector"),
    matmul(Arg((6,)), const(2, 6, 4), label="vector"),
    matmul(Arg((5, 6), 0), const(6), label="vector"),
    matmul(Arg((3, 5, 6), 1), Arg((6,)), label="vector"),
    matmul(Arg((6,)), const(6), label="vectors"),
    matmul(const(5, 6), Arg((6,)), label="vector"),
    matmul(Arg((1, 5, 6), 1, "float64"), const(6, 4, dtype="float64")),
    matmul(Arg((1, 5, 6), 1, "float16"), const(6, 4, dtype="float16")),
    matmul(Arg((5, 6), 0, "float16"), Arg((6, 4), None, "float16")),
    matmul(Arg((5, 6), 0, "int32"), const(6, 4, dtype="int32")),
    matmul(Arg((5, 6), 1, "int64"), Arg((6, 4), 1, "int64")),
    matmul(Arg((2, 5, 6), 1, "uint32"), const(6, 4, dtype="uint32")),
    matmul(Arg((1, 5, 6), None, "uint64"), const(6, 4, dtype="uint64")),
    matmul(Arg((1, 1)), const(1, 1)),
]

SAMPLES: list[Sample] = [*GEMM, *MATMUL]
