"""Samples of Resize, Upsample, DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample
from tests.op_samples.reshaping import ints

BETWEEN = "a cubic tap of weight 0 lies between rows that are read: ranges never move back"


def factors(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def _resize(
    shape: tuple[int, ...],
    axis: int | None,
    scales: tuple[float, ...] | None = None,
    sizes: tuple[int, ...] | None = None,
    mode: str = "nearest",
    coordinates: str | None = None,
    opset: int = 13,
    dtype: str = "float32",
    roi: np.ndarray | None = None,
    hides_nan: str = "",
    **attributes: Any,
) -> Sample:
    arg, given = Arg(shape, axis, dtype), {"mode": mode} | attributes
    label = (
        f"{scales or sizes}-{mode}-{coordinates}-axis{axis}-{dtype}-{sorted(attributes.items())}-"
    )
    scale = None if scales is None else factors(*scales)
    if opset < 11:
        return Sample("Resize", (arg, scale), given, opset, label=label, hides_nan=hides_nan)
    if coordinates is not None:
        given["coordinate_transformation_mode"] = coordinates
    if opset < 13:
        roi = factors() if roi is None else roi
        scale = factors() if scale is None else scale
    inputs = (arg, roi, scale) if sizes is None else (arg, roi, scale, ints(*sizes))
    return Sample("Resize", inputs, given, opset, label=label, hides_nan=hides_nan)


NEAREST = [
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2)),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), coordinates="asymmetric", nearest_mode="floor"),
    _resize((2, 3, 3, 4), 2, (1, 1, 4, 3), coordinates="asymmetric", nearest_mode="floor"),
    _resize((1, 3, 1, 1), 2, (1, 1, 3, 2), coordinates="asymmetric", nearest_mode="floor"),
    _resize((1, 3, 5, 4), 2, (1, 1, 1, 2)),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 1)),
    _resize((1, 3, 5, 4), 2, (1, 1, 1, 1)),
    _resize((1, 3, 6, 8), 2, (1, 1, 0.5, 0.5), coordinates="asymmetric", nearest_mode="floor"),
    _resize((1, 3, 7, 9), 2, (1, 1, 0.6, 0.4), nearest_mode="ceil"),
    _resize((1, 3, 7, 9), 2, (1, 1, 1.5, 1.7)),
    _resize(
        (1, 3, 7, 9),
        2,
        (1, 1, 1.5, 1.7),
        coordinates="asymmetric",
        nearest_mode="round_prefer_ceil",
    ),
    _resize(
        (1, 3, 7, 19),
        2,
        (1, 1, 2.5, 2.5),
        coordinates="align_corners",
        nearest_mode="round_prefer_ceil",
    ),
    _resize((1, 3, 7, 5), 2, None, (1, 3, 11, 12), coordinates="pytorch_half_pixel"),
    _resize((1, 3, 7, 5), 2, None, (1, 3, 1, 1), coordinates="pytorch_half_pixel"),
    _resize((1, 3, 7, 5), 2, None, (1, 3, 1, 1), coordinates="align_corners"),
    _resize(
        (1, 3, 7, 5),
        2,
        (1, 1, 2, 3),
        coordinates="tf_half_pixel_for_nn",
        nearest_mode="floor",
        opset=11,
    ),
    _resize((1, 3, 7, 5), 2, (1, 1, 1.3, 1.3), coordinates="half_pixel_symmetric", opset=19),
    _resize((1, 3, 7, 5), 2, (1, 1, 2, 2), opset=10),
    _resize((1, 3, 7, 5), 2, (1, 1, 0.6, 0.6), opset=10),
    _resize((1, 3, 7, 5), 2, (1, 1, 2, 2), opset=11),
    _resize((1, 3, 7, 5), 2, None, (1, 3, 14, 5), opset=11),
    _resize((1, 3, 7, 5), 2, (2, 3), opset=18, axes=[2, 3]),
    _resize((1, 3, 7, 5), 2, None, (9, 10), opset=18, axes=[-1, -2]),
    _resize(
        (1, 3, 7, 5), 2, None, (9, 10), opset=18, axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    ),
    _resize(
        (1, 3, 7, 5),
        2,
        None,
        (9, 10),
        opset=18,
        axes=[2, 3],
        keep_aspect_ratio_policy="not_smaller",
    ),
    _resize((1, 3, 5, 4), 2, (1, 2, 2, 2)),
    _resize((2, 3, 5, 4), 2, (2, 1, 1, 2)),
    _resize((1, 5, 4, 3), 1, (1, 2, 2, 1), coordinates="asymmetric", nearest_mode="floor"),
    _resize((1, 5, 4, 3), 1, (1, 1.4, 2, 1)),
    _resize((1, 3, 5), 2, (1, 1, 2)),
    _resize((1, 3, 2, 3, 4), 2, (1, 1, 2, 2, 3), coordinates="asymmetric", nearest_mode="floor"),
    _resize((1, 3, 5, 4), None, (1, 1, 2, 2)),
    _resize((3, 5), None, (2, 2.5)),
    _resize((5,), None, (2.0,)),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), dtype="uint8"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2.5), dtype="int8"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), dtype="float16"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), dtype="float64"),
    _resize(
        (1, 2, 6, 5),
        2,
        None,
        (1, 2, 8, 7),
        coordinates="tf_crop_and_resize",
        roi=factors(0, 0, 0.4, 0.3, 1, 1, 1.2, 0.9),
        extrapolation_value=7.0,
    ),
]

LINEAR = [
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="linear"),
    _resize((2, 3, 5, 4), 2, (1, 1, 2, 4), mode="linear", coordinates="asymmetric"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="linear", coordinates="align_corners"),
    _resize((1, 3, 5, 4), 2, (1, 1, 3, 2.7), mode="linear", coordinates="pytorch_half_pixel"),
    _resize(
        (1, 3, 5, 4),
        2,
        (1, 1, 1.3, 1.4),
        mode="linear",
        coordinates="half_pixel_symmetric",
        opset=19,
    ),
    _resize((1, 3, 9, 8), 2, (1, 1, 0.5, 0.5), mode="linear"),
    _resize((1, 3, 9, 8), 2, (1, 1, 0.5, 0.25), mode="linear", coordinates="asymmetric"),
    _resize((1, 3, 9, 8), 2, (1, 1, 0.4, 0.7), mode="linear"),
    _resize((1, 3, 9, 8), 2, None, (1, 3, 4, 13), mode="linear"),
    _resize((1, 3, 9, 8), 2, None, (1, 3, 1, 1), mode="linear", coordinates="pytorch_half_pixel"),
    _resize((1, 3, 1, 1), 2, None, (1, 3, 6, 5), mode="linear", coordinates="align_corners"),
    _resize((1, 3, 1, 1), 2, None, (1, 3, 6, 5), mode="linear"),
    _resize((1, 3, 5, 4), 2, (1, 1, 1, 2), mode="linear"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 1), mode="linear"),
    _resize((1, 40, 5, 4), 2, (1, 1, 2, 2), mode="linear"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="linear", opset=10),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="linear", opset=11),
    _resize((1, 3, 5, 4), 2, (2, 2), mode="linear", opset=18, axes=[2, 3]),
    _resize(
        (1, 3, 5, 4),
        2,
        None,
        (7, 9),
        mode="linear",
        opset=19,
        axes=[2, 3],
        keep_aspect_ratio_policy="not_larger",
    ),
    _resize((1, 5, 4, 3), 1, (1, 2, 2, 1), mode="linear"),
    _resize((1, 5, 4, 3), 1, (1, 0.7, 3, 1), mode="linear", coordinates="align_corners"),
    _resize((1, 3, 4, 3, 2), 2, (1, 1, 2, 2, 3), mode="linear"),
    _resize((4, 3), None, (2, 2.5), mode="linear"),
    _resize((1, 3, 5, 4), None, (1, 1, 2, 2), mode="linear"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="linear", dtype="float16"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2.3), mode="linear", dtype="float64"),
    _resize(
        (1, 2, 6, 5),
        2,
        None,
        (1, 2, 9, 7),
        mode="linear",
        coordinates="tf_crop_and_resize",
        roi=factors(0, 0, -0.4, 0.3, 1, 1, 0.8, 1.3),
        extrapolation_value=-3.0,
    ),
    _resize(
        (1, 2, 6, 5),
        2,
        None,
        (1, 2, 4, 5),
        mode="linear",
        coordinates="tf_crop_and_resize",
        roi=factors(0, 0, 1.5, 0, 1, 1, 2.5, 1),
        extrapolation_value=1.0,
    ),
]

CUBIC = [
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="cubic"),
    _resize(
        (1, 3, 5, 4), 2, (1, 1, 2, 2), mode="cubic", coordinates="align_corners", hides_nan=BETWEEN
    ),
    _resize(
        (1, 3, 5, 4), 2, (1, 1, 2, 3), mode="cubic", coordinates="asymmetric", hides_nan=BETWEEN
    ),
    _resize((1, 3, 9, 8), 2, (1, 1, 0.5, 0.7), mode="cubic", cubic_coeff_a=-0.5),
    _resize((2, 3, 5, 4), 2, (1, 1, 2.2, 2), mode="cubic", exclude_outside=1),
    _resize(
        (1, 3, 5, 4),
        2,
        None,
        (1, 3, 9, 3),
        mode="cubic",
        coordinates="pytorch_half_pixel",
        hides_nan=BETWEEN,
    ),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="cubic", dtype="float64"),
]

ANTIALIASED = [
    _resize((1, 3, 9, 8), 2, (1, 1, 0.5, 0.5), mode="linear", opset=18, antialias=1),
    _resize((1, 3, 9, 8), 2, (1, 1, 0.4, 0.7), mode="linear", opset=18, antialias=1),
    _resize((1, 3, 9, 8), 2, None, (1, 3, 4, 11), mode="linear", opset=19, antialias=1),
    _resize((1, 3, 9, 8), 2, (1, 1, 0.5, 0.5), mode="cubic", opset=18, antialias=1),
]

UPSAMPLE = [
    Sample("Upsample", (Arg((1, 3, 5, 4), 2),), {"scales": [1.0, 1.0, 2.0, 2.0]}, opset=7),
    Sample(
        "Upsample",
        (Arg((1, 3, 5, 4), 2),),
        {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"},
        opset=7,
    ),
    Sample("Upsample", (Arg((1, 3, 5, 4), 2), factors(1, 1, 2, 2)), {"mode": "nearest"}, opset=9),
    Sample(
        "Upsample", (Arg((1, 3, 5, 4), 2), factors(1, 1, 1.5, 2.5)), {"mode": "nearest"}, opset=9
    ),
    Sample("Upsample", (Arg((1, 3, 5, 4), 2), factors(1, 1, 2, 2)), {"mode": "linear"}, opset=9),
    Sample("Upsample", (Arg((1, 3, 1, 1), 2), factors(1, 1, 7, 5)), {"mode": "linear"}, opset=9),
    Sample("Upsample", (Arg((1, 3, 5), 2), factors(1, 1, 2)), opset=9),
    Sample("Upsample", (Arg((1, 3, 5, 4), 2, "uint8"), factors(1, 1, 2, 2)), opset=9),
]

BLOCKS = [
    Sample("DepthToSpace", (Arg((1, 12, 3, 4), 2),), {"blocksize": 2}, opset=7),
    Sample("DepthToSpace", (Arg((2, 18, 3, 2), 2),), {"blocksize": 3}),
    Sample("DepthToSpace", (Arg((2, 18, 3, 2), 2),), {"blocksize": 3, "mode": "CRD"}),
    Sample("DepthToSpace", (Arg((1, 16, 5, 3), 2),), {"blocksize": 4, "mode": "DCR"}, opset=11),
    Sample("DepthToSpace", (Arg((1, 4, 1, 1), 2),), {"blocksize": 2, "mode": "CRD"}),
    Sample("DepthToSpace", (Arg((1, 5, 3, 4), 2),), {"blocksize": 1}),
    Sample("DepthToSpace", (Arg((1, 12, 3, 4)),), {"blocksize": 2}, label="natural"),
    Sample("DepthToSpace", (Arg((1, 12, 3, 4), 2, "float64"),), {"blocksize": 2}, label="float64"),
    Sample("DepthToSpace", (Arg((1, 12, 3, 4), 2, "float16"),), {"blocksize": 2}, label="float16"),
    Sample("SpaceToDepth", (Arg((1, 3, 6, 4), 2),), {"blocksize": 2}, opset=7),
    Sample("SpaceToDepth", (Arg((2, 3, 6, 9), 2),), {"blocksize": 3}),
    Sample("SpaceToDepth", (Arg((1, 1, 2, 2), 2),), {"blocksize": 2}),
    Sample("SpaceToDepth", (Arg((1, 5, 3, 4), 2),), {"blocksize": 1}),
    Sample("SpaceToDepth", (Arg((1, 3, 6, 4)),), {"blocksize": 2}, label="natural"),
    Sample("SpaceToDepth", (Arg((1, 3, 6, 4), 2, "float64"),), {"blocksize": 2}, label="float64"),
]

SAMPLES: list[Sample] = [*NEAREST, *LINEAR, *CUBIC, *ANTIALIASED, *UPSAMPLE, *BLOCKS]
