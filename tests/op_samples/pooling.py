"""Samples of the pooling family."""

from __future__ import annotations

from typing import Any

from tests.op_harness import Arg, Sample

NCHW = Arg((1, 3, 9, 8), 2)
HOLES = "with holes and padding a row is declared for the sake of a later position"


def _sliding(
    op_type: str,
    arg: Arg = NCHW,
    opset: int = 22,
    *,
    label: str = "",
    hides_nan: str = "",
    **attributes: Any,
) -> Sample:
    return Sample(
        op_type,
        (arg,),
        {"kernel_shape": [3, 3], **attributes},
        opset,
        label=label,
        hides_nan=hides_nan,
    )


def _every_pool() -> list[Sample]:
    """Settings that all three sliding pools share, each at the first opset that has it."""
    found = []
    for op_type, first, ceiling, dilating in (
        ("MaxPool", 7, 10, 10),
        ("AveragePool", 7, 10, 19),
        ("LpPool", 7, 18, 18),
    ):
        found += [
            _sliding(op_type, opset=first),
            _sliding(op_type, opset=11, strides=[2, 2]),
            _sliding(op_type, opset=first, strides=[2, 2], pads=[1, 1, 1, 1]),
            _sliding(op_type, strides=[2, 1], pads=[0, 2, 1, 0]),
            _sliding(op_type, kernel_shape=[2, 5], strides=[3, 2], pads=[1, 0, 0, 4]),
            _sliding(op_type, kernel_shape=[1, 1], strides=[2, 3]),
            _sliding(op_type, kernel_shape=[1, 1]),
            _sliding(op_type, kernel_shape=[1, 4], pads=[0, 3, 0, 3]),
            _sliding(op_type, kernel_shape=[5, 1], pads=[4, 0, 4, 0]),
            _sliding(op_type, auto_pad="SAME_UPPER", strides=[2, 2]),
            _sliding(op_type, kernel_shape=[2, 4], auto_pad="SAME_LOWER", strides=[1, 3]),
            _sliding(op_type, auto_pad="VALID", strides=[2, 2]),
            _sliding(op_type, opset=ceiling, ceil_mode=1, strides=[2, 2]),
            _sliding(op_type, ceil_mode=1, strides=[2, 3], pads=[1, 1, 1, 1]),
            _sliding(op_type, Arg((1, 3, 4, 4), 2), ceil_mode=1, strides=[3, 3], pads=[0, 0, 2, 2]),
            _sliding(op_type, opset=dilating, dilations=[2, 2]),
            _sliding(op_type, dilations=[2, 3], pads=[2, 2, 2, 2], strides=[2, 1], hides_nan=HOLES),
            _sliding(op_type, dilations=[2, 2], auto_pad="SAME_UPPER", hides_nan=HOLES),
            _sliding(
                op_type,
                Arg((1, 2, 2, 2), 2),
                kernel_shape=[2, 2],
                dilations=[3, 3],
                pads=[1, 1, 1, 1],
                label="empty-",
            ),
            _sliding(op_type, Arg((1, 3, 1, 1), 2), pads=[1, 1, 1, 1]),
            _sliding(
                op_type,
                Arg((1, 3, 1, 1), 2),
                kernel_shape=[2, 2],
                strides=[2, 2],
                label="sticks-out-",
            ),
            _sliding(op_type, Arg((2, 5, 7, 1), 2), kernel_shape=[3, 1], strides=[2, 1]),
            _sliding(op_type, Arg((2, 5, 1, 7), 2), kernel_shape=[1, 2]),
            _sliding(op_type, Arg((1, 3, 6, 5), 2), kernel_shape=[6, 5], label="whole-"),
            _sliding(op_type, Arg((1, 3, 6, 5), 2), kernel_shape=[6, 2], label="all-rows-"),
            _sliding(
                op_type,
                Arg((2, 3, 4, 5), 2),
                kernel_shape=[5, 3],
                pads=[1, 1, 0, 1],
                label="all-rows-padded-",
            ),
            _sliding(op_type, Arg((1, 3, 7), 2), kernel_shape=[3], strides=[2], pads=[1, 1]),
            _sliding(op_type, Arg((2, 3, 5), 2), kernel_shape=[5]),
            _sliding(
                op_type,
                Arg((1, 2, 5, 6, 4), 2),
                kernel_shape=[3, 2, 2],
                strides=[2, 1, 2],
                pads=[1, 0, 1, 1, 1, 0],
            ),
            _sliding(op_type, Arg((1, 2, 3, 2, 4), 2), kernel_shape=[3, 2, 4]),
            _sliding(op_type, Arg((1, 3, 6, 5), 1), label="other-rows-"),
            _sliding(op_type, Arg((1, 3, 6, 5)), label="no-rows-", strides=[2, 2]),
            _sliding(op_type, Arg((1, 3, 6, 5), 2, "float64"), pads=[1, 1, 1, 1]),
            _sliding(op_type, Arg((1, 3, 6, 5), 2, "float16"), pads=[1, 1, 1, 1], strides=[2, 1]),
            _sliding(op_type, Arg((1, 3, 3, 3), 2, "float16"), label="whole-"),
        ]
    return found


SAMPLES: list[Sample] = [
    *_every_pool(),
    *(
        _sliding(
            "MaxPool", Arg((1, 3, 7, 6), 2, d, -100, 100), 12, strides=[2, 2], pads=[1, 0, 1, 1]
        )
        for d in ("int8", "uint8")
    ),
    _sliding("MaxPool", Arg((1, 3, 3, 3), 2, "uint8", 0, 200), 12, label="whole-"),
    _sliding("MaxPool", opset=8, storage_order=1),
    _sliding("MaxPool", Arg((1, 4, 13, 13), 2), kernel_shape=[13, 13], pads=[6, 6, 6, 6]),
    _sliding("AveragePool", opset=7, count_include_pad=1, pads=[1, 1, 1, 1]),
    _sliding(
        "AveragePool", opset=19, count_include_pad=1, pads=[1, 0, 2, 2], strides=[2, 3], ceil_mode=1
    ),
    _sliding(
        "AveragePool",
        Arg((1, 2, 6, 6), 2),
        count_include_pad=1,
        pads=[1, 1, 1, 0],
        strides=[3, 3],
        ceil_mode=1,
    ),
    _sliding(
        "AveragePool",
        Arg((1, 2, 8, 7), 2),
        count_include_pad=1,
        pads=[2, 1, 2, 1],
        dilations=[2, 2],
        ceil_mode=1,
        strides=[2, 3],
    ),
    _sliding("AveragePool", count_include_pad=1, auto_pad="SAME_LOWER", strides=[2, 2]),
    _sliding(
        "AveragePool",
        Arg((1, 3, 4, 5), 2),
        kernel_shape=[6, 3],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        label="all-rows-",
    ),
    _sliding("LpPool", p=1, pads=[1, 1, 1, 1]),
    _sliding("LpPool", p=3, strides=[2, 2]),
    _sliding("LpPool", Arg((1, 3, 6, 5), 2), kernel_shape=[6, 5], p=4, opset=11),
    *(
        Sample(op_type, (arg,), attributes, opset)
        for op_type, attributes, opset in (
            ("GlobalMaxPool", {}, 7),
            ("GlobalAveragePool", {}, 7),
            ("GlobalAveragePool", {}, 22),
            ("GlobalLpPool", {}, 7),
            ("GlobalLpPool", {"p": 1}, 13),
            ("GlobalLpPool", {"p": 3}, 7),
        )
        for arg in (
            Arg((1, 5, 7, 6), 2),
            Arg((2, 3, 1, 1), 2),
            Arg((2, 3, 5), 2),
            Arg((1, 2, 4, 3, 2), 2),
            Arg((1, 4, 3, 2), 1),
            Arg((1, 4, 3, 2)),
        )
    ),
    *(
        Sample(op_type, (Arg((1, 5, 4, 3), 2, dtype),), opset=7)
        for op_type in ("GlobalMaxPool", "GlobalAveragePool")
        for dtype in ("float16", "float64")
    ),
]
