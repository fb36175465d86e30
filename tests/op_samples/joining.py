"""Samples of Concat, Split, Slice, Gather and GatherND."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample
from tests.op_samples.reshaping import ints

FAR = 2**63 - 1


def _constant(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 11 - 5).astype(dtype)


def _concat(axis: int, *inputs: Arg | np.ndarray, opset: int = 13) -> Sample:
    return Sample(
        "Concat",
        inputs,
        {"axis": axis},
        opset,
        label=f"{[i.row_axis for i in inputs if isinstance(i, Arg)]}-",
    )


CONCAT = [
    _concat(1, Arg((1, 3, 5, 4), 2), Arg((1, 2, 5, 4), 2)),
    _concat(
        1,
        Arg((1, 3, 5, 4), 2),
        Arg((1, 2, 5, 4), 2),
        Arg((1, 1, 5, 4), 2),
        Arg((1, 4, 5, 4), 2),
        opset=7,
    ),
    _concat(1, Arg((2, 3, 5, 4), 2), Arg((2, 1, 5, 4), 2)),
    _concat(-3, Arg((1, 3, 5, 4), 2), _constant(1, 2, 5, 4), Arg((1, 1, 5, 4), 2), opset=11),
    _concat(1, _constant(1, 1, 5, 4), Arg((1, 3, 5, 4), 2)),
    _concat(0, Arg((1, 3, 5, 4), 2), Arg((2, 3, 5, 4), 2)),
    _concat(3, Arg((1, 3, 5, 4), 2), Arg((1, 3, 5, 1), 2), _constant(1, 3, 5, 2)),
    _concat(2, Arg((1, 3, 5, 4), 2), Arg((1, 3, 1, 4), 2), Arg((1, 3, 7, 4), 2)),
    _concat(2, Arg((1, 3, 2, 4), 2), _constant(1, 3, 3, 4), Arg((1, 3, 2, 4), 2)),
    _concat(2, _constant(1, 3, 3, 4), Arg((1, 3, 2, 4), 2)),
    _concat(2, Arg((1, 3, 5, 4), 2)),
    _concat(1, Arg((1, 3, 1, 1), 2), Arg((1, 2, 1, 1), 2)),
    _concat(1, Arg((1, 3, 5, 4), 2), Arg((1, 2, 5, 4))),
    _concat(2, Arg((1, 3, 5, 4)), Arg((1, 3, 2, 4), 2)),
    _concat(1, Arg((1, 3, 5, 4)), Arg((1, 2, 5, 4), 2), Arg((1, 2, 5, 4), 1)),
    _concat(3, Arg((1, 5, 4, 3), 1), Arg((1, 5, 4, 2), 1)),
    _concat(1, Arg((1, 3, 5), 2), Arg((1, 2, 5), 2)),
    _concat(1, Arg((1, 6, 4)), Arg((1, 3, 4)), _constant(1, 1, 4)),
    _concat(0, Arg((3,)), Arg((2,))),
    _concat(-1, Arg((2, 3)), Arg((2, 5))),
    _concat(1, Arg((1, 3, 5, 4), 2, "float16"), Arg((1, 2, 5, 4), 2, "float16")),
    _concat(1, Arg((1, 3, 5, 4), 2, "float64"), _constant(1, 2, 5, 4, dtype="float64")),
    _concat(1, Arg((1, 3, 5, 4), 2, "uint8"), Arg((1, 2, 5, 4), 2, "uint8")),
    _concat(1, Arg((1, 3, 4), None, "int64"), Arg((1, 2, 4), None, "int64")),
]


def _split(
    shape: tuple[int, ...],
    axis: int | None,
    parts: Any = None,
    outputs: int = 2,
    dtype: str = "float32",
    **more: Any,
) -> Sample:
    """parts: sizes as an input (array), or nothing; attributes in `more`."""
    inputs = (Arg(shape, axis, dtype),) if parts is None else (Arg(shape, axis, dtype), parts)
    return Sample(
        "Split",
        inputs,
        outputs=outputs,
        label=f"{outputs}-{'' if parts is None else parts}-{dtype}-",
        **more,
    )


SPLIT = [
    _split((1, 6, 5, 4), 2, attributes={"axis": 1, "split": [2, 4]}, opset=11),
    _split((1, 6, 5, 4), 2, attributes={"axis": -3}, outputs=3, opset=7),
    _split((1, 6, 5, 4), 2, ints(1, 2, 3), 3, attributes={"axis": 1}, opset=13),
    _split((2, 6, 5, 4), 2, attributes={"axis": 1}, opset=13),
    _split((2, 6, 5, 4), 2, attributes={}, opset=13),
    _split((1, 7, 5, 4), 2, outputs=3, attributes={"axis": 1, "num_outputs": 3}, opset=18),
    _split((1, 6, 5, 4), 2, ints(4, 2), attributes={"axis": 1}, opset=18),
    _split((1, 6, 5, 4), 2, ints(1, 3), attributes={"axis": 3}),
    _split((1, 6, 5, 4), 2, ints(2, 3), attributes={"axis": 2}),
    _split((1, 6, 6, 4), 2, attributes={"axis": 2}),
    _split((2, 3, 7, 4), 2, outputs=4, attributes={"axis": 2, "num_outputs": 4}, opset=18),
    _split((1, 1, 1, 1), 2, outputs=1, attributes={"axis": 1}),
    _split((1, 6, 5), 2, ints(1, 5), attributes={"axis": 1}),
    _split((1, 5, 4, 6), 1, attributes={"axis": 3}),
    _split((2, 6), None, ints(1, 1, 4), 3, attributes={"axis": -1}),
    _split((6,), None, dtype="int64", outputs=3),
    _split((1, 6, 5, 4), 2, dtype="uint8", attributes={"axis": 1}),
    _split((1, 6, 5, 4), 2, dtype="float16", attributes={"axis": 1}),
]


def _slice(
    shape: tuple[int, ...],
    axis: int | None,
    starts: Any,
    ends: Any,
    *rest: Any,
    dtype: str = "float32",
    opset: int = 13,
) -> Sample:
    """rest: axes, steps; before opset 10 everything is an attribute."""
    arg = Arg(shape, axis, dtype)
    label = f"{starts}{ends}{rest}-axis{axis}-{dtype}-"
    if opset < 10:
        attributes = {"starts": starts, "ends": ends} | ({"axes": rest[0]} if rest else {})
        return Sample("Slice", (arg,), attributes, opset)
    lists = (starts, ends, *rest)
    return Sample(
        "Slice", (arg, *(None if v is None else ints(*v) for v in lists)), opset=opset, label=label
    )


SLICE = [
    _slice((1, 6, 5, 4), 2, [1], [4], [1]),
    _slice((1, 6, 5, 4), 2, [0], [FAR], [1]),
    _slice((1, 6, 5, 4), 2, [-2], [FAR], [-3], opset=10),
    _slice((1, 6, 5, 4), 2, [0, 1, 0, 0], [1, 3, 5, 4]),
    _slice((1, 6, 5, 4), 2, [1, 0], [5, 3], [1, 3]),
    _slice((2, 6, 5, 4), 2, [1, 1], [2, 3], [0, 3], opset=7),
    _slice((1, 6, 5, 4), 2, [0, 0, 0, 1], [1, 6, 5, 3], opset=9),
    _slice((1, 6, 9, 8), 2, [0, 1], [FAR, FAR], [2, 3], [2, 2]),
    _slice((1, 6, 9, 8), 2, [1], [-1], [2], [3]),
    _slice((1, 6, 9, 8), 2, [2], [7], [2]),
    _slice((1, 6, 9, 8), 2, [-1], [-FAR], [1], [-1]),
    _slice((1, 6, 9, 8), 2, [-2], [0], [3], [-3]),
    _slice((1, 6, 9, 8), 2, [FAR], [-FAR], [2], [-2]),
    _slice((1, 6, 9, 8), 2, [6, -1], [1, -4], [2, 1], [-1, -2]),
    _slice((1, 6, 9, 8), 2, [4], [3], [2], [-1]),
    _slice((1, 6, 5, 4), 2, [1], [3], [1], None, opset=11),
    _slice((1, 9, 8, 3), 1, [1], [-1], [1]),
    _slice((1, 9, 8, 3), 1, [1], [3], [3]),
    _slice((1, 1, 1, 1), 2, [0], [1], [2]),
    _slice((1, 6, 5), 2, [1], [4], [2]),
    _slice((3, 7), None, [1], [6], [1], [2]),
    _slice((3, 7), None, [1], [3], [0]),
    _slice((3, 7), None, [0], [3], [0], dtype="int64"),
    _slice((1, 6, 5, 4), 2, [1], [4], [1], dtype="float16"),
    _slice((1, 6, 5, 4), 2, [1], [4], [2], [2], dtype="float64"),
    _slice((1, 6, 5, 4), 2, [1], [4], [1], dtype="bool"),
]


def _gather(
    shape: tuple[int, ...],
    axis: int | None,
    indices: Any,
    along: int,
    dtype: str = "float32",
    **more: Any,
) -> Sample:
    constant = np.array(indices, more.pop("index_type", np.int64))
    return Sample(
        "Gather",
        (Arg(shape, axis, dtype), constant),
        {"axis": along},
        label=f"{indices}-axis{axis}-{dtype}-",
        **more,
    )


SCATTERED = [5, 1, 4, 4, 0, 7, 2, 9, 6, 3, 11, 8, 10, 0]

GATHER = [
    _gather((1, 3, 5, 4), 2, [2, 1, 0], 1),
    _gather((1, 3, 5, 4), 2, 1, 1),
    _gather((1, 12, 5, 4), 2, SCATTERED, 1),
    _gather((1, 12, 5, 4), 2, SCATTERED, -3, "float16"),
    _gather((2, 3, 5, 12), 2, SCATTERED, 3),
    _gather((1, 3, 5, 4), 2, [-1, 0], 1, opset=11),
    _gather((2, 3, 5, 4), 2, 0, 0),
    _gather((2, 3, 5, 4), 2, 3, 3),
    _gather((2, 6, 5, 4), 2, [[0, 1], [5, 2]], 1),
    _gather((2, 6, 5, 4), 2, [[0, 1, 0]], 3, index_type=np.int32),
    _gather((1, 3, 5, 4), 2, [0, 0, 2, 4], 2),
    _gather((1, 3, 5, 4), 2, [3, 1, 4], 2),
    _gather((1, 3, 5, 4), 2, 3, 2),
    _gather((1, 3, 5, 4), 2, [[3, 1]], 2),
    _gather((12, 3), 0, [SCATTERED + SCATTERED[::-1]] * 3, 0),
    _gather((1, 3, 1, 1), 2, 0, 2),
    _gather((1, 12, 5), 2, SCATTERED, 1, "float64"),
    _gather((1, 5, 4, 3), 1, [2, 1, 0], 3),
    _gather((5, 6), None, [1, 3], 0, opset=7),
    _gather((5, 6), None, 2, 0, "int64"),
    _gather((5, 6), None, [[0, 1], [2, 3]], 1, "uint8"),
    _gather((12,), None, SCATTERED, 0),
]


def _gather_nd(
    shape: tuple[int, ...],
    axis: int | None,
    indices: Any,
    batch_dims: int | None = None,
    **more: Any,
) -> Sample:
    attributes = {} if batch_dims is None else {"batch_dims": batch_dims}
    return Sample(
        "GatherND",
        (Arg(shape, axis), np.array(indices, np.int64)),
        attributes,
        label=f"{indices}-axis{axis}-",
        **more,
    )


GATHER_ND = [
    _gather_nd((5, 1, 3), 0, [[0], [0], [1], [1], [2], [4], [-1]]),
    _gather_nd((5, 2, 3), 0, [[3], [1]]),
    _gather_nd((3, 1, 5, 4), 2, [[2], [0]], opset=11),
    _gather_nd((3, 1, 5, 4), 2, [1], 0, opset=12),
    _gather_nd((6, 5), None, [[[0], [1]], [[5], [2]]]),
    _gather_nd((2, 3, 4, 5), 2, [[1, 2], [0, -1]], opset=12),
    _gather_nd((2, 3, 4, 5), 2, [[[1, 0, 3], [0, 2, 1]]]),
    _gather_nd((2, 3, 4, 5), 2, [[[2, 0]], [[1, 3]]], 1),
    _gather_nd((2, 2, 3), None, [[[1], [0]], [[2], [2]]], 2),
    _gather_nd((4, 5), None, [[0, 4], [3, 3], [-4, -5]]),
]

SAMPLES: list[Sample] = [*CONCAT, *SPLIT, *SLICE, *GATHER, *GATHER_ND]
