"""Samples of Pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample
from tests.op_samples.reshaping import ints

MIRRORED = "mirrored rows are held, and declared, until their image is written"


def _pad(
    shape: tuple[int, ...],
    axis: int | None,
    pads: list[int],
    mode: str = "constant",
    value: float | None = None,
    dtype: str = "float32",
    opset: int = 13,
    axes: list[int] | None = None,
    hides_nan: str = "",
) -> Sample:
    arg, label = Arg(shape, axis, dtype), f"{pads}{mode}{value}{axes}-axis{axis}-{dtype}-"
    attributes: dict[str, Any] = {"mode": mode}
    if opset < 11:
        attributes |= {"pads": pads} | ({} if value is None else {"value": value})
        return Sample("Pad", (arg,), attributes, opset, label=label, hides_nan=hides_nan)
    inputs: list[Any] = [arg, ints(*pads)]
    if value is not None or axes is not None:
        inputs.append(None if value is None else np.array(value, dtype))
    if axes is not None:
        inputs.append(ints(*axes))
    return Sample("Pad", tuple(inputs), attributes, opset, label=label, hides_nan=hides_nan)


def _reflect(shape: tuple[int, ...], axis: int | None, pads: list[int], **more: Any) -> Sample:
    return _pad(shape, axis, pads, "reflect", hides_nan=MIRRORED, **more)


SAMPLES: list[Sample] = [
    _pad((1, 3, 5, 4), 2, [0, 0, 1, 1, 0, 0, 1, 1]),
    _pad((1, 3, 5, 4), 2, [0, 0, 2, 0, 0, 0, 3, 1], value=1.5),
    _pad((2, 3, 5, 4), 2, [1, 2, 0, 1, 0, 1, 4, 0], value=-1.0),
    _pad((1, 3, 5, 4), 2, [0, 0, 1, 2, 0, 0, 3, 0], value=2.5, opset=7),
    _pad((1, 3, 5, 4), 2, [0, 0, 1, 2, 0, 0, 3, 0], opset=2 + 5),
    _pad((1, 3, 6, 5), 2, [0, 0, -1, -1, 0, 0, -2, -1]),
    _pad((1, 3, 6, 5), 2, [0, 0, -1, 1, 0, 0, 2, -2], opset=11),
    _pad((1, 3, 6, 5), 2, [0, -1, 0, 0, 0, 0, 0, 0]),
    _pad((1, 3, 2, 5), 2, [0, 0, 5, 0, 0, 0, 5, 0]),
    _pad((1, 3, 1, 1), 2, [0, 0, 1, 1, 0, 0, 1, 1]),
    _pad((1, 3, 5, 4), 2, [0, 0, 0, 0, 0, 0, 0, 0]),
    _pad((1, 5, 4, 3), 1, [0, 1, 2, 0, 0, 2, 1, 0]),
    _pad((1, 3, 5), 2, [0, 0, 2, 0, 0, 1]),
    _pad((1, 3, 4, 5, 2), 2, [0, 0, 1, 1, 1, 0, 0, 1, 0, 2]),
    _pad((3, 4), None, [1, 0, 0, 2]),
    _pad((4,), None, [1, 2], dtype="int64"),
    _pad((1, 3, 5, 4), 2, [1, 2, 3, 0], opset=18, axes=[2, 3]),
    _pad((1, 3, 5, 4), 2, [1, 2], opset=18, axes=[-1], value=3.0),
    _pad((1, 3, 5, 4), 2, [0, 0, 1, 1, 0, 0, 1, 1], value=7, dtype="uint8"),
    _pad((1, 3, 5, 4), 2, [0, 0, 1, 1, 0, 0, 1, 1], value=0.5, dtype="float16"),
    _pad((1, 3, 5, 4), 2, [0, 0, 1, 1, 0, 0, 1, 1], value=0.5, dtype="float64"),
    _pad((1, 3, 5, 4), 2, [0, 0, 1, 1, 0, 0, 1, 1], value=1, dtype="bool"),
    _pad((1, 3, 5, 4), 2, [0, 0, 2, 1, 0, 0, 1, 3], "edge"),
    _pad((2, 3, 5, 4), 2, [1, 0, 0, 1, 0, 2, 7, 3], "edge", opset=7),
    _pad((1, 3, 1, 1), 2, [0, 0, 2, 1, 0, 0, 1, 3], "edge"),
    _pad((1, 3, 6, 5), 2, [0, 0, -1, -1, 0, 0, 2, 2], "edge"),
    _pad((1, 5, 4, 3), 1, [0, 1, 2, 0, 0, 2, 1, 0], "edge"),
    _pad((3, 4), None, [1, 0, 0, 2], "edge", dtype="int32"),
    _reflect((1, 3, 5, 4), 2, [0, 0, 1, 1, 0, 0, 1, 1]),
    _reflect((1, 3, 5, 4), 2, [0, 0, 3, 2, 0, 0, 2, 3]),
    _reflect((1, 3, 5, 4), 2, [0, 0, 4, 3, 0, 0, 4, 3], opset=7),
    _reflect((2, 3, 5, 4), 2, [1, 2, 0, 1, 0, 0, 2, 0]),
    _reflect((1, 3, 2, 2), 2, [0, 0, 1, 1, 0, 0, 1, 1]),
    _reflect((1, 3, 6, 5), 2, [0, 0, -1, 1, 0, 0, 1, -1]),
    _reflect((1, 5, 4, 3), 1, [0, 1, 2, 0, 0, 2, 1, 0]),
    _reflect((1, 3, 5), 2, [0, 0, 2, 0, 0, 1]),
    _reflect((1, 5, 4), None, [0, 1, 2, 0, 2, 0]),
    _pad((1, 3, 5, 4), 2, [0, 0, 0, 1, 0, 0, 0, 2], "wrap", opset=19),
    _pad((1, 3, 5, 4), 2, [0, 0, 2, 1, 0, 0, 1, 2], "wrap", opset=19),
    _pad((3, 4), None, [2, 1, 1, 1], "wrap", opset=19),
]
