"""Several whole images in one step: what every operator makes of them is what it makes of each, wherever
their rows lie and in however little workspace, by either backend.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.native_steps import COMPUTED_BY, backends
from tests.op_harness import run_in_slabs
from tests.op_samples import SAMPLES
from tests.scattered import Layout, declared, run_together
from tests.ways import ways

LAYOUTS = (
    Layout(block=99),
    Layout(block=2, pieces=3),
    Layout(block=3, together=True),
    Layout(block=99, pieces=2, onnx=True),
)
"""Images apart, each whole; in blocks of rows and in pieces; one behind the other; in ONNX axis order."""


WAYS = ways(
    [s.values for s in SAMPLES],
    {"images": (2, 3, 8), "limit": (None, 0), "layout": LAYOUTS, "backend": COMPUTED_BY},
    2,
)


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[str(s) for s in SAMPLES])
def test_every_operator_makes_of_images_what_it_makes_of_one(number: int) -> None:
    sample = SAMPLES[number]
    layer = sample.layer()
    wanted: list[list[np.ndarray]] = []
    for way in WAYS[number]:
        count, limit, layout, backend = way
        feeds = [sample.feeds(seed) for seed in range(count)]
        with np.errstate(all="ignore"):
            for one in feeds[len(wanted) :]:
                wanted.append(run_in_slabs(sample, layer, one, 10**6))
        kernels = backends(fallback=True)[backend]
        sizes = declared(layer, 10**6, layout, limit, kernels, count)
        found = run_together(layer, feeds, layout, limit, sizes, kernels)
        for got, want in zip(found, wanted[:count], strict=True):
            check(got[: len(want)], want, str(way))  # the last ones may be states


def check(found: list[np.ndarray], wanted: list[np.ndarray], way: str = "") -> None:
    for got, want in zip(found, wanted, strict=True):
        near = 2e-3 if want.dtype == np.float16 else 2e-4
        np.testing.assert_allclose(
            got.astype(float), want.astype(float), rtol=near, atol=near, err_msg=way
        )
