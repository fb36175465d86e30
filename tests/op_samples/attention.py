"""Samples of Attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

RNG = np.random.default_rng(5)


def attention(*inputs: Arg | np.ndarray | None, label: str = "", **attributes: Any) -> Sample:
    return Sample("Attention", inputs, attributes, 23, label=label)


def heads(positions: int, size: int = 4, count: int = 3, row_axis: int | None = 2) -> Arg:
    return Arg((1, count, positions, size), row_axis)


def mask(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


SAMPLES = [
    attention(heads(9), heads(9), heads(9)),
    attention(heads(7, 5), heads(20, 5), heads(20, 6), label="more-keys"),
    attention(heads(9, row_axis=None), heads(9, row_axis=None), heads(9, row_axis=None)),
    attention(*[Arg((1, 1, 1, 1))] * 3, label="one-value"),
    attention(heads(9), heads(9), heads(9), is_causal=1),
    attention(heads(9), heads(9), heads(9), scale=0.3, softcap=2.0),
    attention(heads(9), heads(9), heads(9), mask(9, 9), label="mask"),
    attention(heads(9), heads(9), heads(9), mask(1, 3, 9, 9), is_causal=1, label="mask-of-heads"),
    attention(heads(6), heads(6), heads(6), RNG.random((6, 6)) < 0.8, label="mask-of-bool"),
    attention(heads(8, 4, 4), heads(8, 4, 2), heads(8, 4, 2), label="grouped"),
    attention(heads(8, 4, 4), heads(8, 4, 1), heads(8, 4, 1), mask(1, 4, 8, 8), label="grouped"),
    attention(heads(40, 16, 2), heads(40, 16, 2), heads(40, 16, 2), label="many"),
    attention(
        Arg((5, 2, 6, 4), 0), Arg((5, 2, 6, 4), 0), Arg((5, 2, 6, 4), 0), label="rows-are-images"
    ),
    attention(
        Arg((1, 9, 12), 1), Arg((1, 9, 12), 1), Arg((1, 9, 12), 1), q_num_heads=3, kv_num_heads=3
    ),
    attention(
        Arg((2, 9, 12), 0), Arg((2, 5, 12), 0), Arg((2, 5, 6), 0), q_num_heads=3, kv_num_heads=3
    ),
    attention(*[Arg((1, 2, 6, 4), 2, "float16")] * 3),
]
