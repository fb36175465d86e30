"""Samples of Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Expand and Tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _shaped(
    op_type: str,
    shape: tuple[int, ...],
    to: Sequence[int],
    axis: int | None = 2,
    dtype: str = "float32",
    **more: Any,
) -> Sample:
    """An operator whose second input is a list of integers."""
    return Sample(
        op_type, (Arg(shape, axis, dtype), ints(*to)), label=f"{to}-axis{axis}-{dtype}-", **more
    )


def _reshape(
    shape: tuple[int, ...],
    to: Sequence[int],
    axis: int | None = 2,
    dtype: str = "float32",
    **more: Any,
) -> Sample:
    return _shaped("Reshape", shape, to, axis, dtype, **more)


RESHAPE = [
    # the row axis stays apart: ShuffleNet's channel shuffle, there and back
    _reshape((1, 12, 5, 4), (1, 3, 4, 5, 4)),
    _reshape((1, 3, 4, 5, 4), (1, -1, 5, 4), 3),
    _reshape((2, 6, 5, 4), (2, 2, 3, 5, 4)),
    _reshape((1, 6, 5, 4), (6, 1, 5, 2, 2)),
    _reshape((1, 5, 6, 3), (1, 5, 3, 6), 1),
    _reshape((1, 6, 4), (1, 2, 3, 4), 2),
    _reshape((1, 4, 6, 2, 1), (1, 4, 6, 2), 2),
    _reshape((6, 4, 5, 6), (4, 6, 5, 6)),
    # rows are merged with axes behind them, or split: tokens, windows, and rows of no common size
    _reshape((1, 6, 14, 4), (1, 6, 56)),
    _reshape((1, 6, 56), (1, 6, 14, 4), 2),
    _reshape((1, 6, 56), (1, 6, 7, 2, 4), 2),
    _reshape((2, 3, 12, 4), (2, 3, 8, 6)),
    _reshape((1, 12, 4, 3), (1, 3, 4, 4, 3), 1),
    _reshape((1, 3, 4, 4, 3), (6, 2, 4, 3), 1, dtype="int8"),
    _reshape((9, 4, 3), (1, 6, 6, 3), 0, dtype="float16"),
    _reshape((1, 10, 4, 3), (15, 8), 1, dtype="float64"),
    _reshape((1, 1, 6), (1, 6, 1, 1)),
    # rows are mixed with what is before them
    _reshape((1, 3, 5, 4), (1, -1)),
    _reshape((2, 3, 5, 4), (0, -1)),
    _reshape((1, 3, 5, 4), (1, 3, 20)),
    _reshape((1, 3, 4, 4), (1, 3, 2, 2, 2, 2)),
    _reshape((1, 4, 6, 1), (6, 4)),
    _reshape((1, 1, 7, 5), (35,)),
    _reshape((1, 7, 5, 2), (7, 10), 1),
    _reshape((1, 3, 5, 4), (5, 12), dtype="int8"),
    _reshape((1, 5, 3), (15,), 2),
    # one row: a view of natural order where the stored order is that, else a copy
    _reshape((1, 8, 1, 1), (1, 8)),
    _reshape((1, 8, 1, 1), (1, 8, 1, 1)),
    _reshape((1, 8, 1, 1), (8,)),
    _reshape((1, 8, 1, 1), (1, 2, 4, 1, 1)),
    _reshape((1, 8, 1, 3), (1, 2, 4, 1, 3)),
    _reshape((1, 8, 1, 3), (1, 8, 3)),
    _reshape((1, 1, 1, 6), (1, 6)),
    _reshape((1, 1, 1, 1), (1, 1, 1)),
    _reshape((2, 3, 1, 1), (2, 3)),
    # natural order stays natural
    _reshape((1, 12), (1, 3, 2, 2), None),
    _reshape((2, 6), (3, 4), None, "int64"),
    _reshape((1, 12), (1, 12, 1, 1), None, "float16"),
    _reshape((1, 12, 2), (2, -1, 0), None),
    _reshape((1, 6, 4, 4), (1, 2, 3, 4, 4), dtype="float64", opset=7),
    _reshape((1, 6, 4, 4), (1, 2, 3, 4, 4), dtype="bool", opset=21, attributes={"allowzero": 1}),
    _reshape((1, 6, 4, 4), (0, 2, 3, -1, 4), dtype="uint8", opset=14, attributes={"allowzero": 0}),
]

FLATTEN = [
    Sample("Flatten", (Arg((1, 3, 5, 4), 2),)),
    Sample("Flatten", (Arg((2, 3, 5, 4), 2),), {"axis": 1}, opset=9),
    Sample("Flatten", (Arg((2, 3, 5, 4), 2),), {"axis": -1}, opset=11),
    Sample("Flatten", (Arg((2, 3, 5, 4), 2),), {"axis": 0}),
    Sample("Flatten", (Arg((2, 3, 5, 4), 2),), {"axis": 4}),
    Sample("Flatten", (Arg((1, 16, 1, 1), 2),), {"axis": 1}),
    Sample("Flatten", (Arg((2, 3, 4)),), {"axis": 2}),
    Sample("Flatten", (Arg((1, 7, 5, 3), 1),), label="NHWC"),
    Sample("Flatten", (Arg((1, 7, 5, 3), 1),), {"axis": 2}, label="NHWC"),
    Sample("Flatten", (Arg((5, 4), 0),), {"axis": 1}),
]

SQUEEZE = [
    Sample("Squeeze", (Arg((1, 3, 5, 1), 2),), {"axes": [3]}, opset=11),
    Sample("Squeeze", (Arg((1, 3, 5, 1), 2),), {"axes": [0, 3]}, opset=7),
    Sample("Squeeze", (Arg((1, 3, 1, 6), 2),), {"axes": [-2]}, opset=11),
    Sample("Squeeze", (Arg((1, 8, 1, 1), 2),)),
    Sample("Squeeze", (Arg((1, 8, 1, 1), 2), ints(2, 3))),
    Sample("Squeeze", (Arg((1, 8, 1, 1), 2), ints(-1, -2)), opset=13),
    Sample("Squeeze", (Arg((1, 1, 5, 4), 2), ints(1)), opset=25),
    Sample("Squeeze", (Arg((3, 1, 4)), ints(1))),
    Sample("Squeeze", (Arg((1, 4, 1), None, "int64"),)),
]

UNSQUEEZE = [
    Sample("Unsqueeze", (Arg((1, 3, 5), 2),), {"axes": [3]}, opset=7),
    Sample("Unsqueeze", (Arg((1, 3, 5), 2),), {"axes": [-1, 0]}, opset=11),
    Sample("Unsqueeze", (Arg((1, 3, 5, 4), 2), ints(2)), opset=13),
    Sample("Unsqueeze", (Arg((3, 5, 4), 1), ints(0)), opset=25),
    Sample("Unsqueeze", (Arg((1, 8)), ints(2, 3))),
    Sample("Unsqueeze", (Arg((5,), None, "float16"), ints(-1))),
]


def _transpose(
    shape: tuple[int, ...], axis: int | None, *perm: int, dtype: str = "float32", opset: int = 17
) -> Sample:
    attributes = {"perm": list(perm)} if perm else {}
    return Sample(
        "Transpose", (Arg(shape, axis, dtype),), attributes, opset, label=f"axis{axis}-{dtype}-"
    )


TRANSPOSE = [
    _transpose((1, 3, 5, 4), 2, 0, 2, 3, 1),
    _transpose((2, 3, 5, 4), 2, 0, 2, 3, 1),
    _transpose((1, 5, 4, 3), 1, 0, 3, 1, 2),
    _transpose((1, 3, 4, 5, 2), 3, 0, 2, 1, 3, 4),
    _transpose((1, 3, 5, 4), 2, 0, 1, 3, 2),
    _transpose((1, 3, 5, 4), 2, 3, 2, 1, 0, opset=7),
    _transpose((1, 3, 5, 4), 2, 0, 1, 2, 3),
    _transpose((2, 3, 5, 4), 2),
    _transpose((1, 1, 1, 1), 2, 0, 2, 3, 1),
    _transpose((1, 6, 1, 1), 2, 0, 2, 3, 1),
    _transpose((1, 6, 5), 2, 0, 2, 1),
    _transpose((1, 6, 5), None, 0, 2, 1),
    _transpose((1, 6, 1), None, 2, 1, 0),
    _transpose((2, 3, 4), None, dtype="int32"),
    _transpose((1, 3, 5, 4), 2, 0, 2, 3, 1, dtype="uint8", opset=13),
    _transpose((1, 3, 5, 4), 2, 0, 2, 3, 1, dtype="float16", opset=21),
    _transpose((2, 3, 4, 5, 2), 2, 4, 2, 0, 3, 1, dtype="float64", opset=25),
]

EXPAND = [
    _shaped("Expand", (1, 3, 5, 1), (1, 3, 5, 4)),
    _shaped("Expand", (1, 3, 5, 4), (2, 1, 1, 1), opset=13),
    _shaped("Expand", (1, 3, 1, 1), (1, 3, 5, 4)),
    _shaped("Expand", (1, 3, 1, 4), (5, 1), opset=8),
    _shaped("Expand", (3, 5, 1), (2, 3, 5, 4), 1),
    _shaped("Expand", (1, 3, 5, 4), (1, 1)),
    _shaped("Expand", (3, 5, 4), (1, 1, 1, 1), 1),
    _shaped("Expand", (1, 3), (4, 3), None),
    _shaped("Expand", (3, 1), (2, 1, 6), None, "int64"),
    _shaped("Expand", (1, 3, 5, 1), (1, 3, 5, 4), dtype="float16"),
    _shaped("Expand", (1, 1, 5, 1), (1, 3, 5, 4), dtype="bool"),
    _shaped("Expand", (1, 1, 5, 1), (1, 3, 5, 4), dtype="float64"),
]

TILE = [
    _shaped("Tile", (1, 3, 5, 4), (1, 1, 1, 2)),
    _shaped("Tile", (1, 3, 5, 4), (2, 3, 1, 2)),
    _shaped("Tile", (1, 3, 5, 4), (1, 1, 3, 1), opset=13),
    _shaped("Tile", (1, 3, 5, 4), (1, 2, 2, 2), dtype="int32"),
    _shaped("Tile", (1, 3, 5, 4), (1, 1, 1, 1), opset=7),
    _shaped("Tile", (1, 3, 1, 1), (1, 1, 4, 5)),
    _shaped("Tile", (2, 5, 3, 4), (1, 1, 2, 2), 1),
    _shaped("Tile", (2, 3), (2, 2), None),
    _shaped("Tile", (3,), (4,), None, "int64"),
    _shaped("Tile", (1, 3, 5), (1, 2, 1), dtype="float64"),
]

SAMPLES: list[Sample] = [*RESHAPE, *FLATTEN, *SQUEEZE, *UNSQUEEZE, *TRANSPOSE, *EXPAND, *TILE]
