"""Samples of the reduction family."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

NCHW = Arg((1, 5, 6, 4), 2)
NHWC = Arg((2, 6, 4, 5), 1)
NCL = Arg((2, 3, 7), 2)
PLAIN = Arg((3, 4, 5))
KINDS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
POSITIVE = {"low": 0.1, "high": 2.0}
"""Logarithms of sums need positive ones."""


def _reduce(
    op_type: str, arg: Arg, axes: tuple[int, ...] | None, opset: int, **attributes: Any
) -> Sample:
    """A reduction with its axes where the opset wants them."""
    label = "" if axes is None else f"axes{','.join(map(str, axes))}-"
    if op_type == "ReduceLogSum":
        arg = Arg(arg.shape, arg.row_axis, arg.dtype, **POSITIVE)
    if opset >= (13 if op_type == "ReduceSum" else 18):
        inputs = (arg,) if axes is None else (arg, np.array(axes, np.int64))
        return Sample(op_type, inputs, attributes, opset, label=label)
    return Sample(
        op_type,
        (arg,),
        attributes if axes is None else {"axes": list(axes), **attributes},
        opset,
        label=label,
    )


def _every_reduction(op_type: str) -> list[Sample]:
    """Axes within the row, with the row axis, and none, for either place of the axes."""
    return [
        _reduce(op_type, NCHW, (1,), 11),
        _reduce(op_type, NCHW, (2, 3), 13),
        _reduce(op_type, NCHW, (2, 3), 18, keepdims=0),
        _reduce(op_type, NHWC, (-1,), 18),
        _reduce(op_type, NHWC, (1, 2), 11, keepdims=0),
        _reduce(op_type, PLAIN, (0, 2), 18, keepdims=0),
        _reduce(op_type, PLAIN, None, 18, keepdims=0),
    ]


SAMPLES: list[Sample] = [
    *(sample for op_type in KINDS for sample in _every_reduction(op_type)),
    *(
        _reduce(op_type, arg, axes, opset, **attributes)
        for op_type in ("ReduceMean", "ReduceMax", "ReduceSum")
        for arg, axes, opset, attributes in (
            (NCHW, (1,), 18, {"keepdims": 0}),
            (NCHW, (0, 1), 12, {"keepdims": 0}),
            (NCHW, (3,), 18, {"keepdims": 0}),
            (NCHW, (2,), 18, {"keepdims": 0}),
            (NCHW, (2,), 12, {}),
            (NCHW, (-1, -3), 18, {}),
            (NCHW, None, 18, {}),
            (NCHW, None, 12, {"keepdims": 0}),
            (NCHW, (), 18, {"noop_with_empty_axes": 1}),
            (NHWC, (1,), 18, {"keepdims": 0}),
            (NHWC, (3,), 18, {"keepdims": 0}),
            (NHWC, (0, 3), 18, {"keepdims": 0}),
            (NCL, (2,), 18, {"keepdims": 0}),
            (NCL, (1,), 18, {"keepdims": 0}),
            (PLAIN, None, 18, {"keepdims": 0}),
            (PLAIN, (-1,), 18, {}),
            (Arg((2, 3, 1, 1), 2), (2, 3), 18, {}),
            (Arg((1, 2, 3, 4, 5), 2), (2, 3, 4), 18, {"keepdims": 0}),
            (Arg((1, 2, 3, 4, 5), 2), (1, 2, 4), 18, {}),
            (Arg((1, 3, 5, 4), 2, "float64"), (2, 3), 18, {}),
            (Arg((1, 3, 5, 4), 2, "float16"), (2, 3), 18, {}),
            (Arg((1, 3, 5, 4), 2, "float16"), (1,), 18, {"keepdims": 0}),
            (Arg((1, 3, 5, 4), 2, "int32", -9, 9), (2, 3), 18, {}),
            (Arg((1, 3, 5, 4), 2, "int64", -9, 9), (1,), 12, {}),
        )
    ),
    *(
        _reduce(op_type, PLAIN, (), 18, noop_with_empty_axes=1)
        for op_type in ("ReduceL1", "ReduceL2", "ReduceSumSquare")
    ),
    *(
        _reduce(op_type, PLAIN, (), 18, noop_with_empty_axes=1)
        for op_type in ("ReduceLogSum", "ReduceLogSumExp")
    ),
    *(
        _reduce(op_type, Arg((1, 3, 5, 4), 2, dtype, 0 if dtype == "bool" else -9, 9), (2, 3), 20)
        for op_type in ("ReduceMax", "ReduceMin")
        for dtype in ("int8", "uint8", "bool")
    ),
    *(
        _reduce(op_type, Arg((1, 3, 5, 4), 2, "int32", -3, 3), (1,), 13)
        for op_type in ("ReduceL1", "ReduceSumSquare", "ReduceProd")
    ),
    _reduce("ReduceLogSumExp", Arg((1, 3, 5, 4), 2, low=-300, high=300), (2, 3), 18),
    *(
        Sample(op_type, (arg,), attributes, opset)
        for op_type in ("ArgMax", "ArgMin")
        for arg, attributes, opset in (
            (NCHW, {"axis": 1}, 13),
            (NCHW, {"axis": 1, "keepdims": 0}, 11),
            (NCHW, {"axis": -1}, 13),
            (NCHW, {"axis": 2}, 13),
            (NCHW, {}, 7),
            (NHWC, {"axis": 3, "keepdims": 0}, 13),
            (NHWC, {"axis": 1, "keepdims": 0}, 13),
            (NCL, {"axis": 1}, 13),
            (PLAIN, {"axis": 1, "keepdims": 0}, 13),
            (PLAIN, {"axis": 2, "keepdims": 0}, 13),
            (Arg((7,)), {"keepdims": 0}, 13),
            (Arg((1, 6, 4, 3), 2, "int32", 0, 2), {"axis": 1}, 12),
            (Arg((1, 6, 4, 3), 2, "int32", 0, 2), {"axis": 1, "select_last_index": 1}, 12),
            (
                Arg((1, 6, 4, 3), 2, "int8", 0, 2),
                {"axis": 2, "select_last_index": 1, "keepdims": 0},
                13,
            ),
            (Arg((1, 6, 4, 3), 2, "float64"), {"axis": 1, "select_last_index": 1}, 13),
            (Arg((1, 6, 4, 3), 2, "float16"), {"axis": 1}, 13),
        )
    ),
    *(
        Sample("CumSum", (arg, np.array(axis, axis_type)), attributes, opset, label=f"axis{axis}-")
        for arg, axis, axis_type, attributes, opset in (
            (NCHW, 1, "int64", {}, 14),
            (NCHW, 2, "int64", {}, 14),
            (NCHW, -1, "int32", {"exclusive": 1}, 11),
            (NCHW, 1, "int64", {"reverse": 1}, 14),
            (NHWC, -1, "int64", {"exclusive": 1, "reverse": 1}, 14),
            (NHWC, 1, "int64", {"exclusive": 1, "reverse": 1}, 14),
            (PLAIN, [0], "int64", {}, 14),
            (NHWC, 0, "int64", {"reverse": 1}, 14),
            (Arg((1, 3, 5, 4), 2, "int32", -9, 9), 1, "int64", {}, 14),
            (Arg((1, 3, 5, 4), 2, "float64"), 1, "int64", {}, 14),
            (Arg((1, 3, 5, 4), 2, "float16"), 1, "int64", {}, 14),
        )
    ),
    *(
        Sample("CumProd", (arg, np.array(axis)), attributes, 26, label=f"axis{axis}-")
        for arg, axis, attributes in (
            (NCHW, 1, {}),
            (NCHW, 2, {"reverse": 1}),
            (NHWC, -1, {"exclusive": 1, "reverse": 1}),
            (PLAIN, 0, {}),
            (Arg((1, 3, 5, 4), 2, "int64", -9, 9), 1, {"exclusive": 1}),
            (Arg((1, 3, 5, 4), 2, "float16"), 1, {}),
        )
    ),
    Sample(
        "CumSum",
        (Arg((1, 3, 5, 4), 2), np.array(0)),
        {"exclusive": 1},
        14,
        label="axis0-",
        hides_nan="an exclusive sum does not read the last element",
    ),
]
