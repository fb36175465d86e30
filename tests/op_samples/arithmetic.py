"""Samples of the functions of several tensors, of casts and of choices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

Operand = Arg | np.ndarray

SIDE = (1, 3, 5, 4)
MAP = Arg(SIDE, 2)
HIDES = "compares: the result is a truth value"
CHOOSES = "chooses: an operand that is not chosen does not count"
ROUNDS = "the result is no floating-point number"
BITS = "reads the bits of a NaN as a number"


def constant(
    *shape: int, low: float = 0.5, high: float = 2.0, dtype: str = "float32", seed: int = 1
) -> Any:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype)


def number(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


def integers(
    *shape: int, dtype: str = "int32", rows: bool = True, low: int = -9, high: int = 9
) -> Arg:
    return Arg(shape, 2 if rows else None, dtype, low, high)


LAYOUTS: tuple[tuple[str, tuple[Operand, Operand]], ...] = (
    ("two maps", (MAP, MAP)),
    ("scalar constant", (MAP, constant())),
    ("channel constant", (MAP, constant(3, 1, 1))),
    ("constant first", (constant(1, 3, 1, 1), MAP)),
    ("column constant", (MAP, constant(4))),
    ("row constant", (MAP, constant(5, 1))),
    ("whole constant", (MAP, constant(*SIDE))),
    ("constant of higher rank", (Arg((3, 5, 4), 1), constant(2, 3, 1, 1))),
    ("constant with the rows", (Arg((1, 3, 1, 4), 2), constant(1, 3, 5, 1))),
    ("squeezed map", (MAP, Arg((1, 3, 1, 1), 2, low=0.5))),
    ("squeezed map first", (Arg((1, 3, 1, 1), 2), Arg(SIDE, 2, low=0.5))),
    ("gate without rows", (MAP, Arg((3, 1, 1), low=0.5))),
    ("map in natural order", (MAP, Arg(SIDE, low=0.5))),
    ("map with other rows", (MAP, Arg(SIDE, 3, low=0.5))),
    ("map of lower rank", (MAP, Arg((3, 5, 4), 1, low=0.5))),
    ("broadcast batch", (Arg((2, 3, 5, 4), 2), Arg(SIDE, 2, low=0.5))),
    ("outer sum", (Arg((1, 1, 5, 1), 2), Arg((2, 3, 1, 4), None, low=0.5))),
    ("one pixel", (Arg((1, 1, 1, 1), 2), constant(1))),
    ("no rows", (Arg((2, 6)), Arg((6,), low=0.5))),
    ("scalars", (Arg(()), Arg((), low=0.5))),
    ("channels last", (Arg((1, 5, 4, 3), 1), constant(3))),
    ("sequence", (Arg((1, 3, 7), 2), Arg((1, 3, 1), None, low=0.5))),
)


def _layouts() -> list[Sample]:
    """Every way operands lie to each other, for one operator that tells its operands apart; a few
    for the others.
    """
    samples = [Sample("Sub", operands, label=f"{label}-") for label, operands in LAYOUTS]
    few = [LAYOUTS[k] for k in (0, 2, 3, 9, 11, 13, 18)]
    for op in ("Add", "Mul", "Div"):
        samples += [Sample(op, operands, label=f"{label}-") for label, operands in few]
    for op in ("Max", "Min", "Sum", "Mean"):
        hides = CHOOSES if op in ("Max", "Min") else ""
        samples += [
            Sample(op, operands, label=f"{label}-", hides_nan=hides) for label, operands in few
        ]
    return samples


def _types() -> list[Sample]:
    samples = []
    for op in ("Add", "Sub", "Mul", "Div"):
        samples += [
            Sample(op, (Arg(SIDE, 2, "float16"), Arg(SIDE, 2, "float16", 0.5, 2))),
            Sample(op, (Arg(SIDE, 2, "float64"), constant(3, 1, 1, dtype="float64"))),
            Sample(op, (integers(1, 3, 4, 2), integers(1, 3, 4, 2, low=1))),
            Sample(
                op, (integers(3, 4, rows=False, dtype="int64"), np.array([2, -3, 5, -7], np.int64))
            ),
            Sample(
                op,
                (
                    integers(3, 4, rows=False, dtype="uint8", low=5),
                    constant(4, low=1, high=5, dtype="uint8"),
                ),
                opset=14,
            ),
        ]
    samples.append(
        Sample(
            "Div",
            (integers(1, 8, 9, 7, low=-200, high=200), number(-7, "int32")),
            label="truncating-",
        )
    )
    samples.append(Sample("Div", (Arg(SIDE, 2), constant(3, 1, 1)), opset=7))
    return samples


def _variadic() -> list[Sample]:
    samples = []
    gate, rows = Arg((1, 3, 1, 1), 2), constant(5, 1)
    for op in ("Max", "Min", "Sum", "Mean"):
        hides = CHOOSES if op in ("Max", "Min") else ""
        samples += [
            Sample(op, (MAP,), opset=8, hides_nan=hides),
            Sample(op, (MAP, MAP, MAP), opset=8, hides_nan=hides),
            Sample(op, (gate, MAP, rows, MAP), hides_nan=hides),
            Sample(op, (constant(1), MAP, Arg((4,)), gate, MAP), hides_nan=hides),
            Sample(
                op,
                (Arg(SIDE, 2, "float16"), Arg(SIDE, 2, "float16"), Arg((4,), None, "float16")),
                hides_nan=hides,
            ),
            Sample(op, (Arg((2, 3), None, "float64"), Arg((3,), None, "float64")), hides_nan=hides),
        ]
    for op in ("Max", "Min"):
        samples += [
            Sample(
                op,
                (integers(1, 3, 4, 2), integers(3, 1, 1, rows=False), number(0, "int32")),
                opset=12,
            ),
            Sample(
                op, (integers(4, rows=False, dtype="uint8", low=0), number(3, "uint8")), opset=12
            ),
        ]
    return samples


def _power() -> list[Sample]:
    base = Arg(SIDE, 2, low=0.1, high=3)
    return [
        *(Sample("Pow", (base, number(e)), label=f"{e}-") for e in (-1, 0.5, 1, 1.7, 2, 3, -2)),
        Sample("Pow", (base, number(0)), hides_nan="anything to the power of 0 is 1"),
        Sample("Pow", (MAP, number(2)), label="signed-"),
        Sample("Pow", (MAP, number(3)), label="signed cube-"),
        Sample("Pow", (base, np.array([2.0], np.float64)), opset=12, label="double exponent-"),
        Sample("Pow", (base, number(2, "int64")), opset=15, label="integer exponent-"),
        Sample("Pow", (base, constant(3, 1, 1)), opset=7),
        Sample("Pow", (base, constant(5, 1)), opset=13),
        Sample("Pow", (base, Arg(SIDE, 2))),
        Sample("Pow", (constant(1), MAP)),
        Sample("Pow", (base, Arg((3, 1, 1), None, "int32", 0, 3))),
        Sample("Pow", (Arg((1, 2, 3, 2), 2, "float16", 0.5, 2), number(1.5, "float16"))),
        Sample("Pow", (Arg((1, 2, 3, 2), 2, "float16", 0.5, 2), number(2))),
        Sample("Pow", (Arg((1, 2, 3, 2), 2, "float64", 0.5, 2), Arg((1, 2, 3, 2), 2, "float64"))),
        Sample("Pow", (integers(1, 3, 4, 2), number(3, "int32"))),
        Sample("Pow", (integers(1, 3, 4, 2), number(2, "float32")), label="float exponent-"),
        Sample(
            "Pow",
            (
                integers(1, 3, 4, 2, dtype="int64", low=1),
                integers(1, 3, 4, 2, dtype="int64", low=0, high=3),
            ),
        ),
    ]


def _modulo() -> list[Sample]:
    return [
        Sample("Mod", (integers(1, 3, 4, 2), integers(1, 3, 4, 2, low=1))),
        Sample("Mod", (integers(1, 3, 4, 2), np.array([[[4]], [[-5]], [[3]]], np.int32)), opset=10),
        Sample(
            "Mod", (integers(1, 3, 4, 2), np.array([[[4]], [[-5]], [[3]]], np.int32)), {"fmod": 1}
        ),
        Sample("Mod", (integers(6, rows=False, dtype="uint8", low=0, high=99), number(7, "uint8"))),
        Sample("Mod", (Arg(SIDE, 2, low=-9, high=9), constant(3, 1, 1)), {"fmod": 1}),
        Sample("Mod", (Arg(SIDE, 2, low=-9, high=9), Arg(SIDE, 2, low=1, high=3)), {"fmod": 1}),
        Sample("Mod", (Arg(SIDE, 2, "float64", -9, 9), number(2.5, "float64")), {"fmod": 1}),
    ]


def _logic() -> list[Sample]:
    truth, gate = Arg(SIDE, 2, "bool"), Arg((3, 1, 1), None, "bool")
    samples = []
    for op in ("And", "Or", "Xor"):
        samples += [
            Sample(op, (truth, truth), opset=7),
            Sample(op, (truth, gate)),
            Sample(op, (constant(5, 1, dtype="bool"), truth)),
            Sample(op, (Arg((3,), None, "bool"), Arg((2, 3), None, "bool"))),
        ]
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        whole = integers(1, 3, 4, 2, low=-2, high=2)
        samples += [
            Sample(op, (whole, whole), opset=12),
            Sample(op, (whole, integers(3, 1, 1, rows=False, low=-2, high=2)), opset=13),
            Sample(op, (MAP, constant(3, 1, 1, low=-1)), opset=16, hides_nan=HIDES),
            Sample(op, (constant(5, 1, low=-1), MAP), opset=13, hides_nan=HIDES),
            Sample(op, (Arg((4, 5), None, "float64"), number(0, "float64")), hides_nan=HIDES),
            Sample(
                op, (integers(7, rows=False, dtype="int64", low=-2, high=2), number(1, "int64"))
            ),
        ]
    samples.append(Sample("Equal", (truth, gate)))
    samples.append(Sample("Greater", (MAP, number(0)), opset=7, hides_nan=HIDES))
    samples.append(Sample("Less", (MAP, number(0)), opset=9, hides_nan=HIDES))
    return samples


def _bits() -> list[Sample]:
    samples = []
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in ("int8", "uint16", "int32", "int64", "uint64"):
            whole = integers(1, 3, 4, 2, dtype=dtype, low=-99, high=99)
            samples.append(Sample(op, (whole, whole), opset=18))
        whole = integers(1, 3, 4, 2, low=-99, high=99)
        samples.append(Sample(op, (whole, np.array([[[6]], [[-5]], [[3]]], np.int32)), opset=18))
    for direction in ("LEFT", "RIGHT"):
        for dtype in ("uint8", "uint16", "uint32", "uint64"):
            x = integers(1, 3, 4, 2, dtype=dtype, high=99)
            by = integers(3, 1, 1, rows=False, dtype=dtype, high=np.dtype(dtype).itemsize * 8 - 1)
            samples += [
                Sample("BitShift", (x, by), {"direction": direction}),
                Sample("BitShift", (x, number(3, dtype)), {"direction": direction}, 11),
            ]
        for dtype in ("int8", "int16", "int32", "int64"):
            x = integers(1, 3, 4, 2, dtype=dtype, low=-99, high=99)
            by = integers(3, 1, 1, rows=False, dtype=dtype, low=-3, high=70)
            samples.append(Sample("BitShift", (x, by), {"direction": direction}, 28))
    return samples


def _where() -> list[Sample]:
    truth = Arg(SIDE, 2, "bool")
    return [
        Sample("Where", operands, opset=16, hides_nan=CHOOSES)
        for operands in (
            (truth, MAP, MAP),
            (truth, MAP, number(0)),
            (truth, constant(3, 1, 1), MAP),
            (truth, constant(1), constant(5, 1, low=-2, high=-1)),
            (Arg((1, 3, 1, 1), 2, "bool"), MAP, Arg(SIDE)),
            (constant(5, 1, dtype="bool"), MAP, MAP),
            (constant(1, 1, 5, 4, dtype="bool"), MAP, Arg((3, 1, 1))),
            (Arg((4,), None, "bool"), Arg((2, 4)), Arg((2, 1))),
            (Arg((), None, "bool"), Arg(()), Arg(())),
            (truth, Arg(SIDE, 2, "int64", -5, 5), Arg((4,), None, "int64", -5, 5)),
            (truth, Arg(SIDE, 2, "uint8", 0, 5), Arg((4,), None, "uint8", 0, 5)),
            (truth, Arg(SIDE, 2, "float64"), number(0, "float64")),
        )
    ]


CODES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
}


def _casts() -> list[Sample]:
    samples = []
    for name, code in CODES.items():
        low = 0 if name.startswith("u") else -9
        samples += [
            Sample(
                "Cast", (Arg((1, 3, 4, 2), 2, low=low, high=9),), {"to": code}, 13, hides_nan=ROUNDS
            ),
            Sample("Cast", (integers(3, 4, rows=False, dtype="int64", low=low),), {"to": code}),
            Sample(
                "Cast", (Arg((1, 3, 4, 2), 2, name, low=low, high=9),), {"to": 11}, hides_nan=ROUNDS
            ),
            Sample(
                "CastLike",
                (Arg((1, 3, 4, 2), 2, low=low, high=9), np.zeros(2, name)),
                opset=15,
                hides_nan=ROUNDS,
            ),
        ]
    return [
        *samples,
        Sample("Cast", (integers(300, rows=False, low=-500, high=500),), {"to": 3}, label="wraps-"),
        Sample("Cast", (MAP,), {"to": 1}, opset=9, label="same-"),
        *(
            Sample(
                "BitCast",
                (Arg((1, 3, 4, 2), 2, name, 0, 9),),
                {"to": CODES[to]},
                26,
                hides_nan=BITS,
            )
            for name, to in (
                ("float32", "int32"),
                ("int64", "float64"),
                ("float16", "uint16"),
                ("bool", "int8"),
            )
        ),
        Sample("Cast", (MAP,), {"to": 10, "saturate": 1}, opset=19),
        Sample("Cast", (Arg((), None),), {"to": 7}),
        Sample(
            "CastLike",
            (MAP, Arg((3, 1), None, "int32")),
            opset=15,
            label="computed type-",
            hides_nan=ROUNDS,
        ),
        Sample(
            "CastLike",
            (integers(1, 2, 3, 4), np.zeros(1, "int32")),
            {"saturate": 1},
            opset=19,
            label="same-",
        ),
    ]


SAMPLES: list[Sample] = [
    *_layouts(),
    *_types(),
    *_variadic(),
    *_power(),
    *_modulo(),
    *_logic(),
    *_bits(),
    *_where(),
    *_casts(),
]
