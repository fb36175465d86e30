"""Samples of operators that choose by value."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

CHOSEN = "a comparison"


def _sample(op_type: str, *inputs: Any, **attributes: Any) -> Sample:
    return Sample(op_type, inputs, attributes, 18, hides_nan=CHOSEN)


def _suppressed(boxes: Arg, scores: Arg, *numbers: float, **attributes: Any) -> Sample:
    most, *thresholds = numbers
    limits = [np.array([value], np.float32) for value in thresholds]
    return _sample(
        "NonMaxSuppression", boxes, scores, np.array([most], np.int64), *limits, **attributes
    )


BOXES, SCORES = Arg((1, 40, 4), 1, low=0, high=1), Arg((1, 3, 40), 2, low=0, high=1)
TWO, OF_TWO = Arg((2, 40, 4), 1, low=0, high=1), Arg((2, 3, 40), None, low=-1, high=1)

SAMPLES: list[Sample] = [
    _sample("NonZero", Arg((4, 5), 0, "int32", 0, 0)),
    _suppressed(BOXES, SCORES, 5, 0.3, 0.4),
    _suppressed(BOXES, SCORES, 1000, 0.5),
    _suppressed(BOXES, SCORES, 3),
    _suppressed(TWO, OF_TWO, 20, 0.2, 0.5),
    _suppressed(TWO, OF_TWO, 20, 0.4, 2.0),
    _suppressed(TWO, OF_TWO, 20, 1.0, 0.1, center_point_box=1),
    _suppressed(Arg((1, 40, 4), None), SCORES, 20, 0.0, 0.1),
    _suppressed(BOXES, Arg((1, 3, 40), 2, "float32", 0.5, 0.5), 20, 0.3, 0.1),
]
