"""Samples with rows, of operators that work on tensors of any rank: some of `ranks`, stored by rows, with constants in
place of some operands, on the whole domain of a function, and with attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample
from tests.op_samples.ranks import BINARY, KNOWN, RANKED, UNARY

__all__ = ["ELEMENTWISE", "MOVING", "REDUCING", "drawn", "rows_from_the_end"]

DOMAINS: Mapping[str, tuple[float, float]] = {
    "Acos": (-1, 1),
    "Acosh": (1, 9),
    "Asin": (-1, 1),
    "Atanh": (-0.99, 0.99),
    "Log": (0.01, 100),
    "Reciprocal": (0.1, 9),
    "Sqrt": (0, 100),
    "Tan": (-1.5, 1.5),
    **dict.fromkeys(("Exp", "Cosh", "Sinh"), (-80, 80)),
}
"""Where a function is defined, if not from -100 to 100."""

ATTRIBUTES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "Celu": ({"alpha": 0.5}, {"alpha": 2.0}),
    "Elu": ({"alpha": 0.5}, {"alpha": 2.0}),
    "Gelu": ({"approximate": "none"}, {"approximate": "tanh"}),
    "HardSigmoid": ({"alpha": 1 / 6, "beta": 0.4},),
    "IsInf": ({"detect_negative": 0}, {"detect_positive": 0}),
    "LeakyRelu": ({"alpha": 0.2}, {"alpha": 0.0}, {"alpha": -0.5}, {"alpha": 2.5}),
    "Selu": ({"alpha": 2.0, "gamma": 3.0},),
    "Shrink": ({"bias": 0.7}, {"lambd": 1.5}),
    "Swish": ({"alpha": 0.5}, {"alpha": -1.0}),
    "ThresholdedRelu": ({"alpha": -0.5},),
}

COMPARES = "compares: a NaN is not above a threshold"
CHOOSES = "chooses: an operand that is not chosen does not count"
UNREAD = "not every element is read"
MIRRORED = "mirrored rows are held, and declared, until their image is written"
HIDES: Mapping[str, str] = {
    **dict.fromkeys(("ThresholdedRelu", "TopK"), COMPARES),
    **dict.fromkeys(("Max", "Min", "Where"), CHOOSES),
    **dict.fromkeys(
        ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"), UNREAD
    ),
    **dict.fromkeys(("Cast", "CastLike", "BitCast"), "the result is no floating-point number"),
}
"""Operators of which a NaN in a declared row need not reach the output."""

MAY_BE_CONSTANT = {*BINARY.split(), *["Max", "Min", "Sum", "Mean", "Where", "Concat"]}


class Odd(Arg):
    """Values of which some are infinite, and some no numbers."""

    def values(self, rng: np.random.Generator) -> np.ndarray:
        found = super().values(rng)
        kinds = rng.integers(0, 6, self.shape)
        for kind, value in enumerate((np.nan, np.inf, -np.inf)):
            found[kinds == kind] = value
        return found


def rows_from_the_end(operand: Any, back: int) -> Any:
    """The operand with rows along the axis that is `back` from its end, if it has one."""
    if not isinstance(operand, Arg):
        return operand
    axis = len(operand.shape) - back
    return replace(operand, row_axis=axis if axis >= 0 else None)


UNKNOWN: Mapping[str, tuple[str, ...]] = {
    "Mean": KNOWN,
    "OneHot": ("int32",),
    "ScatterND": ("float16",),
}
"""Types that onnxruntime does not have, and where onnx's reference does not compute the same."""


def _known_to_references(op_type: str, operand: Any) -> Any:
    unknown = getattr(operand, "dtype", "") in UNKNOWN.get(op_type, ())
    return replace(operand, dtype="float32") if unknown else operand


def _on_its_domain(op_type: str, operand: Any) -> Any:
    if op_type in ("IsNaN", "IsInf"):
        return Odd(operand.shape, operand.row_axis, operand.dtype)
    low, high = DOMAINS.get(op_type, (-100, 100))
    if operand.dtype == "float16":
        low, high = max(low, -3), min(high, 3)
    return replace(operand, low=low, high=high)


def _hides_nan(op_type: str, inputs: list[Any], attributes: Mapping[str, Any]) -> str:
    if attributes.get("mode") == "reflect":
        return MIRRORED
    if attributes.get("exclusive"):
        return UNREAD
    return COMPARES if op_type == "PRelu" and isinstance(inputs[1], Arg) else HIDES.get(op_type, "")


def _varied(sample: Sample, number: int) -> Sample:
    """The sample with rows: of all operands along the same axis, or of one along another or along none."""
    op_type, rng = sample.op_type, Random(number)
    inputs = [rows_from_the_end(one, (2, 2, 3, 2, 1)[number % 5]) for one in sample.inputs]
    inputs = [_known_to_references(op_type, one) for one in inputs]
    computed = [k for k, one in enumerate(inputs) if isinstance(one, Arg)]
    attributes = dict(sample.attributes)
    if op_type in UNARY.split():
        if number % 2:
            inputs[0] = _on_its_domain(op_type, inputs[0])
        if own := ATTRIBUTES.get(op_type, ()):
            attributes |= own[number % len(own)] if number % (len(own) + 1) else {}
    elif len(computed) > 1 and op_type in MAY_BE_CONSTANT:
        at = rng.choice(computed)
        if number % 2:
            inputs[at] = np.asarray(inputs[at].values(np.random.default_rng(number)))
        elif number % 4 == 0:
            inputs[at] = rows_from_the_end(inputs[at], rng.choice((1, 3, 9)))
    return replace(
        sample,
        inputs=tuple(inputs),
        attributes=attributes,
        label="",
        hides_nan=_hides_nan(op_type, inputs, attributes),
    )


def drawn(op_type: str, few: int) -> Iterator[Sample]:
    """So many of an operator's samples, evenly spaced."""
    every = RANKED[op_type]
    few = min(few, len(every))
    for number in range(few):
        yield _varied(every[number * len(every) // few], number)


def _of(names: str, few: int) -> list[Sample]:
    return [sample for op_type in names.split() for sample in drawn(op_type, few)]


ELEMENTWISE = [
    *_of(" ".join(name for name in UNARY.split() if name not in ATTRIBUTES), 4),
    *_of(" ".join(ATTRIBUTES), 8),
    *_of(BINARY, 9),
    *_of("Max Min Sum Mean Where Clip", 9),
    *_of("Cast CastLike", 15),
    *_of("BitCast", 4),
]
REDUCING = [
    *_of("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMin ReduceProd ReduceSumSquare", 7),
    *_of("ReduceMax ReduceMean ReduceSum", 14),
    *_of("ArgMax ArgMin CumSum CumProd", 10),
]
MOVING = [
    *_of("Concat Split Slice Gather GatherND Pad", 14),
    *_of("GatherElements ScatterElements ScatterND OneHot TopK NonZero", 8),
    *_of("Reshape Flatten Squeeze Unsqueeze Transpose Expand Tile", 8),
    *_of("DepthToSpace SpaceToDepth", 4),
]
