"""Samples of Resize and Upsample."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample
from tests.op_samples.ranks import ints

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


MAP, IMAGE = (1, 3, 7, 5), (1, 3, 9, 8)
SETTINGS: tuple[tuple[tuple[int, ...], int | None, tuple[float, ...]], ...] = (
    ((1, 3, 5, 4), 2, (1, 1, 2, 2)),
    ((2, 3, 3, 4), 2, (1, 1, 4, 3)),
    ((1, 3, 1, 1), 2, (1, 1, 3, 2)),
    ((1, 3, 5, 4), 2, (1, 1, 1, 2)),
    ((1, 3, 5, 4), 2, (1, 1, 2, 1)),
    (IMAGE, 2, (1, 1, 0.5, 0.25)),
    (IMAGE, 2, (1, 1, 0.6, 0.7)),
    ((1, 3, 7, 9), 2, (1, 1, 1.5, 1.7)),
    ((1, 3, 7, 19), 2, (1, 1, 2.5, 2.5)),
    ((1, 5, 4, 3), 1, (1, 1.4, 2, 1)),
    ((1, 3, 5, 4), None, (1, 1, 2, 2)),
    ((1, 40, 5, 4), 2, (1, 1, 2, 2)),
)
"""Shape, row axis, scales."""

COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
)
NEAREST_MODES = ("round_prefer_floor", "floor", "round_prefer_ceil", "ceil")


def _drawn(mode: str, count: int) -> list[Sample]:
    """Settings with each way to count coordinates and to round them, in turn; scales or the sizes that they give."""
    found = []
    for k in range(count):
        (shape, axis, scales), coordinates = SETTINGS[k % len(SETTINGS)], COORDINATES[k % 5]
        opset = 19 if coordinates == "half_pixel_symmetric" else 13 - 2 * (k % 3 == 0)
        sizes = tuple(max(1, int(n * scale)) for n, scale in zip(shape, scales, strict=True))
        more: dict[str, Any] = {"nearest_mode": NEAREST_MODES[k % 4]} if mode == "nearest" else {}
        given = (None, sizes) if k % 4 == 3 else (scales, None)
        # onnx's reference, which stands in for float64, keeps fractions of a size
        dtype = "float64" if k % 3 == 2 and coordinates != "align_corners" else "float32"
        found.append(_resize(shape, axis, *given, mode, coordinates, opset, dtype, **more))
    return found


CROPPED = "tf_crop_and_resize"
NEAREST = [
    *_drawn("nearest", 24),
    _resize(MAP, 2, None, (1, 3, 1, 1), coordinates="pytorch_half_pixel"),
    _resize(MAP, 2, None, (1, 3, 1, 1), coordinates="align_corners"),
    _resize(MAP, 2, (1, 1, 2, 3), coordinates="tf_half_pixel_for_nn", nearest_mode="floor", opset=11),
    *(_resize(MAP, 2, scales, opset=10) for scales in ((1, 1, 2, 2), (1, 1, 0.6, 0.6))),
    *(
        _resize(MAP, 2, None, (9, 10), opset=18, axes=[2, 3], keep_aspect_ratio_policy=policy)
        for policy in ("stretch", "not_larger", "not_smaller")
    ),
    _resize(MAP, 2, None, (9, 10), opset=18, axes=[-1, -2]),
    *(_resize((2, 3, 5, 4), 2, scales) for scales in ((1, 2, 2, 2), (2, 1, 1, 2), (1, 1, 1, 1))),
    *(_resize((1, 3, 2, 3, 4)[:rank], 2 if rank > 2 else None, (1, 1, 2, 2, 3)[:rank]) for rank in (1, 2, 3, 5)),
    *(_resize((1, 3, 5, 4), 2, (1, 1, 2, 2.5), dtype=kind) for kind in ("uint8", "int8", "float16")),
    _resize(
        *((1, 2, 6, 5), 2, None, (1, 2, 8, 7), "nearest", CROPPED),
        roi=factors(0, 0, 0.4, 0.3, 1, 1, 1.2, 0.9),
        extrapolation_value=7.0,
    ),
]  # fmt: skip

LINEAR = [
    *_drawn("linear", 24),
    *(_resize(IMAGE, 2, None, sizes, "linear") for sizes in ((1, 3, 4, 13), (1, 3, 1, 1))),
    *(
        _resize((1, 3, 1, 1), 2, None, (1, 3, 6, 5), "linear", one)
        for one in (None, "align_corners", "pytorch_half_pixel")
    ),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="linear", opset=10),
    _resize((1, 3, 5, 4), 2, None, (7, 9), "linear", opset=19, axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    _resize((4, 3), None, (2, 2.5), mode="linear"),
    _resize((1, 3, 4), 2, (1, 1, 2), mode="linear"),
    _resize((1, 3, 4, 3, 2), 2, (1, 1, 2, 2, 3), mode="linear"),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="linear", dtype="float16"),
    *(
        _resize((1, 2, 6, 5), 2, None, sizes, "linear", CROPPED, roi=factors(*roi), extrapolation_value=-3.0)
        for sizes, roi in (((1, 2, 9, 7), (0, 0, -0.4, 0.3, 1, 1, 0.8, 1.3)), ((1, 2, 4, 5), (0, 0, 1.5, 0, 1, 1, 2.5, 1)))
    ),
]  # fmt: skip

CUBIC = [
    *(
        _resize((1, 3, 5, 4), 2, (1, 1, 2, 3), None, "cubic", one, hides_nan=BETWEEN)
        for one in ("half_pixel", "align_corners", "asymmetric")
    ),
    _resize(IMAGE, 2, (1, 1, 0.5, 0.7), mode="cubic", cubic_coeff_a=-0.5),
    _resize((2, 3, 5, 4), 2, (1, 1, 2.2, 2), mode="cubic", exclude_outside=1),
    _resize((1, 3, 5, 4), 2, None, (1, 3, 9, 3), "cubic", "pytorch_half_pixel", hides_nan=BETWEEN),
    _resize((1, 3, 5, 4), 2, (1, 1, 2, 2), mode="cubic", dtype="float64"),
]

ANTIALIASED = [
    _resize(IMAGE, 2, scales, sizes, mode, opset=18, antialias=1)
    for mode, scales, sizes in (
        ("linear", (1, 1, 0.5, 0.5), None),
        ("linear", (1, 1, 0.4, 0.7), None),
        ("linear", None, (1, 3, 4, 11)),
        ("cubic", (1, 1, 0.5, 0.5), None),
    )
]

UPSAMPLE = [
    *(
        Sample("Upsample", (Arg((1, 3, 5, 4), 2),), {"scales": [1.0, 1.0, 2.0, 3.0], "mode": mode}, 7)
        for mode in ("nearest", "linear")
    ),
    *(
        Sample("Upsample", (Arg(shape, 2, dtype), factors(*scales)), {"mode": mode}, 9)
        for shape, scales, mode, dtype in (
            ((1, 3, 5, 4), (1, 1, 2, 2), "nearest", "float32"),
            ((1, 3, 5, 4), (1, 1, 1.5, 2.5), "nearest", "float32"),
            ((1, 3, 5, 4), (1, 1, 2, 2), "linear", "float32"),
            ((1, 3, 1, 1), (1, 1, 7, 5), "linear", "float32"),
            ((1, 3, 5), (1, 1, 2), "nearest", "float32"),
            ((1, 3, 5, 4), (1, 1, 2, 2), "nearest", "uint8"),
        )
    ),
]  # fmt: skip

SAMPLES: list[Sample] = [*NEAREST, *LINEAR, *CUBIC, *ANTIALIASED, *UPSAMPLE]
