"""Samples of operators with computed indices, and of TopK."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

TABLE = np.random.default_rng(0).uniform(-2, 2, (9, 5)).astype(np.float32)
MAP = Arg((1, 3, 6, 4), 2)
PLAIN = Arg((4, 3, 5))
UNREAD = "data that no index names is not read"


def _indices(
    shape: tuple[int, ...], size: int, row: int | None = None, dtype: str = "int64"
) -> Arg:
    return Arg(shape, row, dtype, -size, size - 1)


def _sample(op_type: str, *inputs: Any, opset: int = 18, **attributes: Any) -> Sample:
    return Sample(op_type, inputs, attributes, opset, hides_nan=UNREAD)


def _scattered(
    data: Arg, axis: int, shape: tuple[int, ...], places: list[int], **more: Any
) -> Sample:
    """Updates at places that do not repeat: their order would matter."""
    behind = (1,) * (len(shape) - 1 - axis)
    indices = np.broadcast_to(np.array(places).reshape(-1, *behind), shape).copy()
    return _sample(
        "ScatterElements", data, indices, Arg(shape, None, data.dtype), axis=axis, **more
    )


_POINTS = np.array([[0, 2], [3, 1], [-1, -3]], np.int64)

SAMPLES: list[Sample] = [
    # tables of words, maps by rows and along their rows
    _sample("Gather", TABLE, _indices((1, 7), 9), axis=0),
    _sample("Gather", TABLE, _indices((7,), 5, None, "int32"), axis=1),
    _sample("Gather", TABLE, _indices((), 9), axis=0),
    _sample("Gather", Arg((9, 5), 0), _indices((7,), 9), axis=0),
    _sample("Gather", MAP, _indices((2,), 3), axis=1),
    _sample("Gather", MAP, _indices((2, 3), 4), axis=3),
    _sample("Gather", MAP, _indices((5,), 6), axis=2),
    _sample("Gather", PLAIN, _indices((2, 6), 3, 1), axis=1),
    _sample("Gather", Arg((4, 3), None, "bool"), _indices((5,), 4), axis=0),
    _sample("GatherElements", MAP, _indices((1, 2, 6, 4), 3, 2), axis=1),
    _sample("GatherElements", MAP, _indices((1, 3, 5, 4), 6, 2), axis=2),
    _sample("GatherElements", MAP, _indices((1, 2, 5, 4), 3, 2, "int32"), axis=1),
    _sample("GatherElements", PLAIN, _indices((4, 3, 2), 5), axis=-1),
    _sample("GatherElements", TABLE, _indices((3, 5), 9, 1), axis=0),
    _sample("GatherElements", Arg((3, 4), None, "float16"), _indices((3, 2), 4), axis=1),
    _sample("GatherND", PLAIN, _indices((6, 2), 3)),
    _sample("GatherND", MAP, _indices((2, 5, 1), 1)),
    _sample("GatherND", PLAIN, _indices((4, 6, 1), 3), batch_dims=1),
    _sample("GatherND", TABLE, _indices((7, 2), 5)),
    _sample("GatherND", PLAIN, _indices((6, 3), 3, 0, "int64")),
    _scattered(MAP, 1, (1, 2, 6, 4), [2, 0]),
    _scattered(PLAIN, 0, (2, 3, 5), [3, -4], reduction="add"),
    _scattered(MAP, 2, (1, 2, 3, 4), [5, -6, 2], reduction="mul"),
    _scattered(MAP, 3, (1, 2, 3, 2), [-1, 0], reduction="max"),
    *(
        _sample(
            "ScatterElements",
            Arg((5, 3), None, dtype, -9, 9),
            _indices((4, 3), 5),
            Arg((4, 3), None, dtype, -3, 3),
            axis=0,
            reduction=reduction,
        )
        for dtype, reduction in (
            ("float32", "add"),
            ("int32", "add"),
            ("int64", "mul"),
            ("float64", "max"),
            ("float16", "min"),
        )
    ),
    _sample("ScatterND", PLAIN, _POINTS, Arg((3, 5))),
    _sample("ScatterND", MAP, np.array([[0, 2], [0, 1]]), Arg((2, 6, 4))),
    _sample("ScatterND", MAP, np.array([[0, 2, -1, 1]]), Arg((1,)), opset=11),
    _sample("ScatterND", PLAIN, _indices((2, 6, 1), 4), Arg((2, 6, 3, 5)), reduction="add"),
    _sample("ScatterND", TABLE, _indices((6, 2), 5), Arg((6,)), reduction="add"),
    _sample("OneHot", _indices((2, 5), 4), np.array(4), np.array([0, 1], np.float32)),
    _sample("OneHot", _indices((1, 5, 3), 4, 1), np.array([6]), np.array([2, 5], np.int64), axis=1),
    _sample(
        "OneHot",
        Arg((1, 6, 3), 1, "float32", 0, 5),
        np.array(4.0, np.float32),
        np.array([2, 5], np.float32),
        axis=-1,
    ),
    _sample("OneHot", _indices((5, 3), 4, 0, "int32"), np.array(7), Arg((2,)), axis=0),
    # the best of channels, pixels, rows; equal ones in their order
    *(
        Sample(
            "TopK",
            (arg, np.array([count], np.int64)),
            attributes,
            opset,
            2,
            hides_nan="it may be the worst",
        )
        for arg, count, attributes, opset in (
            (MAP, 2, {"axis": 1}, 11),
            (MAP, 3, {"axis": -1, "largest": 0}, 11),
            (MAP, 6, {"axis": 2}, 11),
            (MAP, 1, {"axis": 2, "largest": 0}, 18),
            (Arg((1, 6, 9), 1), 4, {}, 10),
            (Arg((2, 1500)), 700, {}, 11),
            (Arg((3, 40), None, "int32", -5, 5), 40, {}, 11),
            (Arg((3, 40), None, "int64", -5, 5), 9, {"largest": 0}, 11),
            (Arg((3, 40), None, "float64"), 9, {}, 11),
        )
    ),
]
