"""Samples of the functions of one tensor (and of PRelu)."""

from __future__ import annotations

import numpy as np

from tests.op_harness import Arg, Sample

MAP = Arg((1, 3, 5, 4), 2, low=-4, high=4)
WIDE = Arg((2, 3, 4, 5), 2, low=-100, high=100)
ONE = Arg((1, 1, 1, 1), 2, low=-4, high=4)
ROW = Arg((1, 7), low=-4, high=4)
SEQUENCE = Arg((2, 3, 7), 2, low=-4, high=4)
SCALAR = Arg((), low=-4, high=4)
HALF = Arg((1, 4, 3, 5), 2, "float16", -6, 6)
DOUBLE = Arg((1, 2, 4, 3), 2, "float64", -6, 6)
NHWC = Arg((1, 4, 3, 5), 1, low=-4, high=4)


class Odd(Arg):
    """Values of which some are infinite, and some no numbers."""

    def values(self, rng: np.random.Generator) -> np.ndarray:
        found = super().values(rng)
        kinds = rng.integers(0, 6, self.shape)
        for kind, value in enumerate((np.nan, np.inf, -np.inf)):
            found[kinds == kind] = value
        return found


TELLS = "tells what a number is: the result is a truth value"
COMPARES = "compares: a NaN is not above the threshold"


def number(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


# Domain of a function, where it is not the whole line; and the first opset, where it is not below
# 17.
DOMAINS: dict[str, tuple[float, float]] = {
    "Acos": (-1, 1),
    "Acosh": (1, 9),
    "Asin": (-1, 1),
    "Atanh": (-0.99, 0.99),
    "Log": (0.01, 100),
    "Reciprocal": (0.1, 9),
    "Sqrt": (0, 100),
    "Exp": (-100, 80),
    "Cosh": (-80, 80),
    "Sinh": (-80, 80),
    "Tan": (-1.5, 1.5),
}
FUNCTIONS = (
    *(
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Ceil",
        "Cos",
        "Cosh",
        "Erf",
        "Exp",
        "Floor",
        "Log",
        "Neg",
    ),
    *(
        "Reciprocal",
        "Round",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tan",
        "Tanh",
        "HardSwish",
    ),
)


def _plain() -> list[Sample]:
    """Every function without attributes on its whole domain, a map and a vector without rows."""
    found = []
    for op in FUNCTIONS:
        low, high = DOMAINS.get(op, (-100, 100))
        found.append(Sample(op, (Arg((2, 3, 4, 5), 2, low=low, high=high),), opset=22))
        found.append(Sample(op, (Arg((3, 5), low=max(low, -3), high=min(high, 3)),)))
        found.append(Sample(op, (Arg((1, 5, 3, 2), 2, "float16", max(low, -3), min(high, 3)),)))
    return found


def _with_attributes() -> list[Sample]:
    return [
        *(Sample("Relu", (x,)) for x in (MAP, ONE, ROW, SEQUENCE, SCALAR, HALF, DOUBLE, NHWC)),
        Sample("Relu", (Arg((1, 3, 4, 2), 2, "int32", -9, 9),)),
        Sample("Relu", (Arg((1, 3, 4, 2), 2, "int8", -9, 9),), opset=14),
        *(Sample("LeakyRelu", (x,)) for x in (MAP, ROW, HALF, DOUBLE)),
        *(Sample("LeakyRelu", (MAP,), {"alpha": a}) for a in (0.2, 0.0, -0.5, 1.0, 2.5)),
        *(Sample("Shrink", (x,), {"bias": 0.7}) for x in (MAP, WIDE, ROW, HALF, DOUBLE)),
        Sample("Shrink", (MAP,), {"lambd": 1.5}),
        *(Sample("Elu", (x,)) for x in (MAP, WIDE, ROW, HALF, DOUBLE)),
        *(Sample("Elu", (MAP,), {"alpha": a}) for a in (0.5, 2.0)),
        *(Sample("Selu", (x,)) for x in (MAP, WIDE, ROW, HALF)),
        Sample("Selu", (MAP,), {"alpha": 2.0, "gamma": 3.0}),
        *(Sample("Celu", (x,)) for x in (MAP, WIDE, ROW)),
        *(Sample("Celu", (MAP,), {"alpha": a}) for a in (0.5, 2.0)),
        *(Sample("Sigmoid", (x,)) for x in (MAP, SEQUENCE, NHWC, SCALAR, DOUBLE)),
        *(Sample("HardSigmoid", (x,)) for x in (MAP, WIDE, ROW, HALF, DOUBLE)),
        Sample("HardSigmoid", (MAP,), {"alpha": 1 / 6, "beta": 0.4}),
        *(Sample("HardSwish", (x,), opset=14) for x in (MAP, ONE, DOUBLE)),
        *(Sample("Swish", (x,), opset=24) for x in (MAP, WIDE, ROW, HALF, DOUBLE)),
        *(Sample("Swish", (MAP,), {"alpha": a}, 24) for a in (0.5, 1.7, -1.0)),
        *(Sample("Mish", (x,), opset=18) for x in (MAP, WIDE, ROW, HALF)),
        *(Sample("Softplus", (x,)) for x in (MAP, DOUBLE)),
        *(
            Sample("Gelu", (x,), {"approximate": kind}, 20)
            for kind in ("none", "tanh")
            for x in (MAP, WIDE, ROW, HALF)
        ),
        Sample("Gelu", (MAP,), opset=20),
        Sample("Erf", (Arg((1, 8, 16, 16), 2, low=-5, high=5),)),
        Sample("Erf", (Arg((1, 2, 3, 4), 2, "float64", -2, 2),)),
        *(Sample("ThresholdedRelu", (x,), hides_nan=COMPARES) for x in (MAP, ROW, HALF)),
        Sample("ThresholdedRelu", (MAP,), {"alpha": -0.5}, hides_nan=COMPARES),
        Sample("Abs", (Arg((1, 3, 4, 2), 2, "int8", -9, 9),)),
        Sample("Abs", (Arg((3, 4), None, "uint8", 0, 9),)),
        Sample("Neg", (Arg((1, 3, 4, 2), 2, "int64", -9, 9),)),
        Sample("Sign", (Arg((3, 4), None, "int32", -9, 9),)),
        Sample("Round", (Arg((1, 1, 4, 3), 2, "float64", -9, 9),)),
        Sample("Not", (Arg((1, 3, 4, 2), 2, "bool"),)),
        Sample("Not", (Arg((5,), None, "bool"),)),
        *(
            Sample("BitwiseNot", (Arg((1, 3, 4, 2), row, dtype, -99, 99),), opset=18)
            for dtype, row in (("int8", 2), ("uint8", 2), ("int32", None), ("uint64", 2))
        ),
        *(
            Sample(op, (Odd((1, 3, 5, 4), row, dtype),), attributes, 20, hides_nan=TELLS)
            for op, kinds in (
                ("IsNaN", ({},)),
                ("IsInf", ({}, {"detect_negative": 0}, {"detect_positive": 0})),
            )
            for attributes in kinds
            for dtype, row in (("float32", 2), ("float64", None), ("float16", 2))
        ),
        Sample(
            "IsInf",
            (Odd((1, 3, 5, 4), 2),),
            {"detect_negative": 0, "detect_positive": 0},
            hides_nan=TELLS,
        ),
    ]


def _clip() -> list[Sample]:
    return [
        Sample("Clip", (MAP,), {"min": 0.0, "max": 2.0}, 7),
        Sample("Clip", (MAP,), {"min": -1.0}, 10),
        Sample("Clip", (MAP,), {"max": 1.5}, 6),
        Sample("Clip", (MAP,), opset=10, label="open-"),
        Sample("Clip", (HALF,), {"max": 1e30}, 10),
        Sample("Clip", (MAP, number(0), number(6)), opset=11),
        Sample(
            "Clip",
            (MAP, np.array([-1], np.float32), np.array([1], np.float32)),
            opset=12,
            label="vectors-",
        ),
        Sample("Clip", (MAP, number(2), number(-2)), opset=13, label="crossed-"),
        Sample("Clip", (MAP, number(-1))),
        Sample("Clip", (MAP, None, number(1))),
        Sample("Clip", (MAP,)),
        Sample("Clip", (ROW, number(0), number(np.inf))),
        Sample("Clip", (SEQUENCE, number(-1), number(1))),
        Sample("Clip", (MAP, SCALAR)),
        Sample("Clip", (MAP, None, SCALAR)),
        Sample("Clip", (SEQUENCE, SCALAR, number(1)), opset=11),
        Sample("Clip", (SCALAR, number(-1), SCALAR), opset=12),
        Sample(
            "Clip", (Arg((1, 3, 4, 2), 2, "int32", -9, 9), *2 * [Arg((), None, "int32", -9, 9)])
        ),
        Sample("Clip", (HALF, number(0.1, "float16"), number(2.3, "float16"))),
        Sample("Clip", (DOUBLE, number(0, "float64"), number(6, "float64"))),
        Sample(
            "Clip", (Arg((1, 3, 4, 2), 2, "int32", -9, 9), number(-3, "int32"), number(4, "int32"))
        ),
        Sample("Clip", (Arg((1, 3, 4, 2), 2, "uint8", 0, 200), number(10, "uint8"))),
        Sample("Clip", (Arg((4, 2), None, "int8", -100, 100), None, number(4, "int8"))),
    ]


def _prelu() -> list[Sample]:
    rng = np.random.default_rng(1)

    def slope(*shape: int, low: float = 0.0, high: float = 0.5) -> np.ndarray:
        return np.asarray(rng.uniform(low, high, shape)).astype(np.float32)

    return [
        Sample("PRelu", (MAP, slope(3, 1, 1))),
        Sample("PRelu", (MAP, slope(3, 1, 1, low=-2, high=2)), opset=9, label="mixed-"),
        Sample("PRelu", (MAP, slope(3, 1, 1, low=1, high=2)), opset=7, label="steep-"),
        Sample("PRelu", (MAP, slope(1))),
        Sample("PRelu", (MAP, slope())),
        Sample("PRelu", (MAP, slope(4))),
        Sample("PRelu", (MAP, slope(3, 5, 4))),
        Sample("PRelu", (MAP, slope(1, 1, 5, 1, low=-1, high=3))),
        Sample("PRelu", (MAP, slope(1, 3, 5, 4))),
        Sample("PRelu", (WIDE, slope(1, 3, 1, 1))),
        Sample("PRelu", (ONE, slope(1, 1, 1))),
        Sample("PRelu", (ROW, slope(7))),
        Sample("PRelu", (SEQUENCE, slope(3, 1))),
        Sample("PRelu", (MAP, Arg((1, 3, 5, 4), 2)), hides_nan="a slope counts below zero only"),
        Sample("PRelu", (MAP, Arg((3, 1, 1))), hides_nan="a slope counts below zero only"),
        Sample("PRelu", (Arg((3, 5)), Arg((5,))), hides_nan="a slope counts below zero only"),
        Sample("PRelu", (HALF, slope(4, 1, 1, low=-1, high=2).astype(np.float16))),
        Sample("PRelu", (DOUBLE, slope(2, 1, 1).astype(np.float64))),
        Sample(
            "PRelu", (Arg((1, 2, 3, 2), 2, "int32", -9, 9), np.array([[[2]], [[-3]]], np.int32))
        ),
    ]


def _nothing() -> list[Sample]:
    false = number(0, "bool")
    return [
        *(
            Sample("Identity", (x,))
            for x in (
                MAP,
                ROW,
                SCALAR,
                HALF,
                Arg((1, 3, 4, 2), 2, "bool"),
                Arg((3,), None, "int64"),
            )
        ),
        Sample("Identity", (NHWC,), opset=7),
        Sample("Dropout", (MAP,), {"ratio": 0.3}, 7),
        Sample("Dropout", (MAP,), opset=10),
        Sample("Dropout", (MAP, number(0.5)), {"seed": 3}, 12),
        Sample("Dropout", (ROW, number(0.5), false), opset=13),
        Sample("Dropout", (HALF, None, false), opset=22),
    ]


SAMPLES: list[Sample] = [*_plain(), *_with_attributes(), *_clip(), *_prelu(), *_nothing()]
