"""Samples of operators that choose by value, or read at places that values say."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

CHOSEN = "a comparison"


def _sample(op_type: str, *inputs: Any, opset: int = 18, **attributes: Any) -> Sample:
    return Sample(op_type, inputs, attributes, opset, hides_nan=CHOSEN)


class Corners(Arg):
    """Regions: the first corner, and one that is larger along both axes (onnxruntime fails for regions turned over)."""

    def values(self, rng: np.random.Generator) -> np.ndarray:
        return np.sort(super().values(rng).reshape(-1, 2, 2), 1).reshape(self.shape)


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

MAPS, COMPUTED = Arg((2, 4, 6, 5), 2), Arg((5, 4), None, low=-3, high=12)
REGIONS = np.array(
    [[0, 0, 9, 7], [3.5, 1.2, 8.1, 6], [-4, -3, 5, 20], [7, 7, 7.2, 7.4], [2, 3, 1, 1]], np.float32
)
OF = np.array([0, 1, 1, 0, 1])
SIZE = {"output_height": 3, "output_width": 2}
TWICE = {**SIZE, "sampling_ratio": 2}

SAMPLES += [
    _sample("RoiAlign", MAPS, REGIONS, OF, opset=16, **TWICE),
    _sample("RoiAlign", MAPS, COMPUTED, OF, opset=16, spatial_scale=0.5, **TWICE),
    _sample("RoiAlign", Arg((2, 4, 6, 5)), COMPUTED, OF, opset=10, spatial_scale=0.5, **TWICE),
    _sample("RoiAlign", MAPS, REGIONS, OF, opset=16, mode="max", **TWICE),
    _sample("RoiAlign", MAPS, COMPUTED, OF, opset=10, mode="max", **SIZE),
    _sample("RoiAlign", MAPS, REGIONS[:1], OF[:1], opset=16, output_height=2),
    *(
        _sample("RoiAlign", x, where, of, opset=opset, **SIZE)
        for x, where, of, opset in (
            (MAPS, REGIONS, OF, 16),
            (MAPS, COMPUTED, OF, 10),
            (MAPS, COMPUTED, Arg((5,), None, "int64", 0, 1), 10),
            (Arg((1, 3, 6, 5), 2), Arg((6, 4), None, low=-1, high=6), np.zeros(6, np.int64), 10),
            (Arg((2, 4, 6, 5), 2, "float64"), REGIONS.astype(np.float64), OF, 16),
            (MAPS, Corners((5, 4), low=-90, high=90), OF, 16),
            (MAPS, Arg((5, 4), low=-2000, high=2000), OF, 10),
            (MAPS, REGIONS[:4] * 400, OF[:4], 16),
        )
    ),
]
