"""Samples that are seldom drawn: settings of old opsets, equal values, limits of a type, rows that a Reshape splits and
merges, long lists of indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from tests.op_harness import Arg, Sample
from tests.op_samples.drawn import CHOOSES, COMPARES, UNREAD
from tests.op_samples.ranks import arg, ints

MAP = Arg((1, 3, 5, 4), 2, low=-4, high=4)
ROW, SEQUENCE, SCALAR = Arg((1, 7)), Arg((2, 3, 7), 2), Arg(())
HALF = Arg((1, 4, 3, 5), 2, "float16")
GATE, INTS = Arg((1, 3, 1, 1), 2), Arg((1, 6, 4, 3), 2, "int32", 0, 2)


def number(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


def constant(*shape: int, low: float = 0.5, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(1).uniform(low, high, shape).astype(np.float32)


def _clip() -> list[Sample]:
    return [
        *(
            Sample("Clip", (x,), bounds, opset)
            for x, bounds, opset in (
                (MAP, {"min": 0.0, "max": 2.0}, 7),
                (MAP, {"min": -1.0}, 10),
                (MAP, {"max": 1.5}, 6),
                (HALF, {"max": 1e30}, 10),
            )
        ),
        Sample("Clip", (MAP, number(2), number(-2)), label="crossed-"),
        Sample("Clip", (MAP,)),
        Sample("Clip", (MAP, constant(1, low=-1, high=0), constant(1)), opset=12),
        Sample("Clip", (SEQUENCE, SCALAR, number(1)), opset=11),
        Sample("Clip", (MAP, None, SCALAR)),
        Sample("Clip", (ROW, number(0), number(np.inf))),
        Sample("Clip", (Arg((1, 3, 4, 2), 2, "uint8", 0, 200), number(10, "uint8"))),
        Sample("Clip", (arg((4, 2), "int8", -100, 100), None, number(4, "int8"))),
    ]


def _arithmetic() -> list[Sample]:
    base, large = Arg((1, 3, 5, 4), 2, low=0.1, high=3), Arg((1, 8, 9, 7), 2, "int32", -200, 200)
    slopes = [(3, 1, 1), (1,), (), (4,), (1, 1, 5, 1), (1, 3, 5, 4)]
    chain = (constant(1), MAP, Arg((4,)), GATE, MAP)
    return [
        *(Sample(op, (MAP, base), opset=13) for op in ("Add", "Sub", "Mul", "Div")),
        *(Sample(op, (base, MAP), opset=13, hides_nan=CHOOSES) for op in ("Max", "Min", "Pow")),
        *(Sample("Pow", (base, number(e)), label=f"{e}-") for e in (-1, 0.5, 1, 1.7, 2, 3, -2)),
        Sample("Pow", (base, number(0)), hides_nan="anything to the power of 0 is 1"),
        Sample("Pow", (MAP, number(3)), label="signed cube-"),
        Sample("Pow", (base, number(2, "int64")), opset=15),
        Sample("Div", (large, number(-7, "int32")), label="truncating-"),
        Sample("Mod", (large, number(-7, "int32"))),
        Sample("Sub", (constant(1, 3, 1, 1), MAP)),
        *(Sample("Sub", (MAP, Arg((1, 3, 5, 4), axis))) for axis in (None, 3)),
        Sample("Sub", (Arg((3, 5, 4), 1), constant(2, 3, 1, 1))),
        Sample("Mul", (Arg((1, 1, 5, 1), 2), Arg((2, 3, 1, 4)))),
        *(
            Sample(op, chain, hides_nan=CHOOSES if op in ("Max", "Min") else "")
            for op in ("Max", "Min", "Sum", "Mean")
        ),
        Sample("Sum", (MAP, MAP, MAP), opset=8),
        *(Sample("PRelu", (MAP, constant(*one, low=-1)), label=f"{one}-") for one in slopes),
        Sample("PRelu", (MAP, constant(3, 1, 1, low=1)), opset=7, label="steep-"),
        Sample("PRelu", (ROW, constant(7))),
        Sample("PRelu", (Arg((3, 5)), Arg((5,))), hides_nan=COMPARES),
        Sample("Where", (Arg((1, 3, 5, 4), 2, "bool"), MAP, MAP), hides_nan=CHOOSES),
        *(
            Sample("BitShift", (Arg((1, 3, 4, 2), 2, t, -99, 99), Arg((3, 1, 1), None, t, -3, 70)), {"direction": d}, 28)
            for d, t in product(("LEFT", "RIGHT"), ("int8", "int32", "int64"))
        ),
        Sample("Erf", (Arg((1, 8, 16, 16), 2, low=-5, high=5),)),
        Sample("Cast", (Arg((300,), None, "int32", -500, 500),), {"to": 3}, label="wraps-"),
        Sample("Cast", (MAP,), {"to": 1}, opset=9),
        Sample("Cast", (MAP,), {"to": 10, "saturate": 1}, opset=19),
        Sample("IsInf", (MAP,), {"detect_negative": 0, "detect_positive": 0}, hides_nan=COMPARES),
        Sample("Dropout", (MAP,), {"ratio": 0.3}, 7),
        Sample("Dropout", (MAP, number(0.5)), {"seed": 3}, 12),
        Sample("Dropout", (HALF, None, number(0, "bool")), opset=22),
    ]  # fmt: skip


def _reductions() -> list[Sample]:
    equal = {"axis": 1, "select_last_index": 1}
    kinds = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
    lists = [(MAP, (1,)), (MAP, (2, 3)), (Arg((2, 6, 4, 5), 1), (-1,)), (HALF, (2, 3)), (MAP, None)]
    return [
        *(
            Sample(f"Reduce{kind}", (_positive(x),), {"axes": axes} if axes else {"keepdims": 0}, 12)
            for kind, (x, axes) in product(kinds, lists)
            if x is not HALF or kind in ("Max", "Mean", "Sum")
        ),
        *(
            Sample(f"Reduce{kind}", (MAP, ints()), {"noop_with_empty_axes": 1}, 18)
            for kind in ("L1", "L2", "Max", "Mean", "Sum", "SumSquare")
        ),
        *(
            Sample(op, (Arg((1, 3, 5, 4), 2, t, 0, 1), ints(2, 3)), {}, 20)
            for op, t in product(("ReduceMax", "ReduceMin"), ("int8", "uint8", "bool"))
        ),
        Sample("ReduceLogSumExp", (Arg((1, 3, 5, 4), 2, low=-300, high=300), ints(2, 3)), {}, 18),
        *(Sample(op, (INTS,), more, 13) for op in ("ArgMax", "ArgMin") for more in ({"axis": 1}, equal)),
        Sample("CumSum", (MAP, np.array([1])), {}, 14),
    ]  # fmt: skip


def _positive(x: Arg) -> Arg:
    """Logarithms of sums need positive ones."""
    return Arg(x.shape, x.row_axis, x.dtype, 0.1, 2)


RESHAPED: Sequence[tuple[tuple[int, ...], tuple[int, ...], int | None]] = [
    # the row axis stays apart: ShuffleNet's channel shuffle, there and back
    ((1, 12, 5, 4), (1, 3, 4, 5, 4), 2),
    ((1, 3, 4, 5, 4), (1, -1, 5, 4), 3),
    ((1, 6, 5, 4), (6, 1, 5, 2, 2), 2),
    ((1, 5, 6, 3), (1, 5, 3, 6), 1),
    ((6, 4, 5, 6), (4, 6, 5, 6), 2),
    # rows are merged with axes behind them, or split: tokens, windows, and rows of no common size
    ((1, 6, 14, 4), (1, 6, 56), 2),
    ((1, 6, 56), (1, 6, 14, 4), 2),
    ((1, 6, 56), (1, 6, 7, 2, 4), 2),
    ((2, 3, 12, 4), (2, 3, 8, 6), 2),
    ((1, 12, 4, 3), (1, 3, 4, 4, 3), 1),
    ((9, 4, 3), (1, 6, 6, 3), 0),
    ((1, 10, 4, 3), (15, 8), 1),
    ((1, 1, 6), (1, 6, 1, 1), 2),
    # rows are mixed with what is before them
    ((1, 3, 5, 4), (1, -1), 2),
    ((2, 3, 5, 4), (0, -1), 2),
    ((1, 3, 4, 4), (1, 3, 2, 2, 2, 2), 2),
    ((1, 4, 6, 1), (6, 4), 2),
    ((1, 1, 7, 5), (35,), 2),
    ((1, 7, 5, 2), (7, 10), 1),
    ((1, 5, 3), (15,), 2),
    # one row: a view of natural order where the stored order is that, else a copy
    ((1, 8, 1, 1), (1, 8), 2),
    ((1, 8, 1, 1), (1, 2, 4, 1, 1), 2),
    ((1, 8, 1, 3), (1, 2, 4, 1, 3), 2),
    ((1, 1, 1, 6), (1, 6), 2),
    ((2, 3, 1, 1), (2, 3), 2),
    # natural order stays natural
    ((1, 12), (1, 3, 2, 2), None),
    ((1, 12, 2), (2, -1, 0), None),
]
"""Shape, shape that is asked for, row axis."""

FAR = 2**63 - 1
SCATTERED = [5, 1, 4, 4, 0, 7, 2, 9, 6, 3, 11, 8, 10, 0]
POINTS = np.array([[0, 2], [3, 1], [-1, -3]], np.int64)


def _moved() -> list[Sample]:
    kinds, x = ("float32", "int8", "float16", "float64"), Arg((1, 3, 5, 4), 2)
    wide, plain, best = Arg((1, 12, 5, 4), 2), Arg((4, 3, 5)), "it may be the worst"
    return [
        *(
            Sample("Reshape", (Arg(shape, axis, kinds[k % 4]), ints(*to)), label=f"{to}{axis}")
            for k, (shape, to, axis) in enumerate(RESHAPED)
        ),
        Sample("Reshape", (x, ints(1, 3, 5, 2, 2)), {"allowzero": 1}, 21),
        Sample("Squeeze", (Arg((1, 8, 1, 1), 2),)),
        Sample("Flatten", (Arg((1, 16, 1, 1), 2),), {"axis": 1}),
        *(Sample("Transpose", (x,), {"perm": p}, 13) for p in ([0, 2, 3, 1], [0, 1, 3, 2], [3, 2, 1, 0])),
        Sample("Transpose", (Arg((1, 5, 4, 3), 1),), {"perm": [0, 3, 1, 2]}),
        Sample("Concat", (x, np.ones((1, 3, 3, 4), np.float32), Arg((1, 3, 2, 4), 2)), {"axis": 2}),
        Sample("Concat", (x, Arg((1, 2, 5, 4)), Arg((1, 2, 5, 4), 1)), {"axis": 1}),
        Sample("Split", (Arg((2, 3, 7, 4), 2),), {"axis": 2, "num_outputs": 4}, 18, 4),
        Sample("Slice", (Arg((1, 6, 9, 8), 2), ints(6, -1), ints(1, -4), ints(2, 1), ints(-1, -2))),
        *(
            Sample("Slice", (Arg((1, 6, 9, 8), 2), ints(a), ints(b), ints(2), ints(step)))
            for a, b, step in ((FAR, -FAR, -2), (1, -1, 3), (4, 3, -1), (2, 7, 1))
        ),
        *(Sample("Gather", (wide, np.array(SCATTERED)), {"axis": axis}) for axis in (1, -3)),
        *(Sample("Gather", (wide, np.array(one)), {"axis": 2}, label=f"{one}") for one in (3, [0, 0, 2, 4], [[3, 1]])),
        Sample("Gather", (Arg((12, 3), 0), np.array([SCATTERED + SCATTERED[::-1]] * 3)), {"axis": 0}),
        Sample("Gather", (Arg((9, 5), 0), Arg((7,), None, "int64", -9, 8)), {"axis": 0}, hides_nan=UNREAD),
        *(
            Sample("GatherElements", (data, index), {"axis": axis}, hides_nan=UNREAD)
            for data, index, axis in (
                (x, Arg((1, 2, 4, 4), 2, "int32", -3, 2), 1),
                (constant(9, 5), Arg((3, 5), 1, "int64", -9, 8), 0),
            )
        ),
        Sample("GatherND", (Arg((2, 3, 4, 5), 2), np.array([[1, 2], [0, -1]])), opset=12),
        Sample("GatherND", (Arg((3, 1, 5, 4), 2), np.array([1])), {"batch_dims": 0}, 12),
        Sample("GatherND", (Arg((5, 2, 3), 0), np.array([[3], [1]]))),
        Sample("ScatterND", (plain, POINTS, Arg((3, 5))), opset=18, hides_nan=UNREAD),
        Sample("Pad", (Arg((1, 3, 5, 4), 2, "bool"), ints(0, 0, 1, 1, 0, 0, 1, 1), number(1, "bool"))),
        Sample("Pad", (x, ints(0, 0, -1, -1, 0, 0, 2, -1))),
        Sample("Pad", (Arg((1, 3, 2, 5), 2), ints(0, 0, 5, 0, 0, 0, 5, 0))),
        *(
            Sample("Pad", (one, ints(*pads)), {"mode": "wrap"}, 19)
            for one, pads in ((Arg((3, 4)), (2, 1, 1, 1)), (x, (0, 0, 2, 1, 0, 0, 1, 2)))
        ),
        Sample("Pad", (x, ints(0, 0, 0, 0, 0, 0, 0, 0))),
        *(
            Sample("TopK", (values, ints(count)), {"largest": largest}, 11, 2, hides_nan=best)
            for values, count, largest in ((Arg((2, 1500)), 700, 1), (arg((3, 40), "int32", -5, 5), 40, 0))
        ),
        Sample("TopK", (Arg((1, 6, 9), 1), ints(4)), {}, 10, 2, hides_nan=best),
        Sample("DepthToSpace", (Arg((2, 18, 3, 2), 2),), {"blocksize": 3, "mode": "CRD"}),
        Sample("DepthToSpace", (Arg((1, 12, 3, 4), 2),), {"blocksize": 2}, 7),
        Sample("SpaceToDepth", (Arg((2, 3, 6, 9), 2),), {"blocksize": 3}, 7),
    ]  # fmt: skip


ELEMENTWISE = [*_clip(), *_arithmetic()]
OTHERS = [*_reductions(), *_moved()]
