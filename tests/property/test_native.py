"""Native code computes what numpy computes: every operator, wherever rows lie, and random networks."""

from __future__ import annotations

import numpy as np
import pytest

from csdfgen.native.kernel_set import NativeKernels
from csdfgen.native.library import load
from tests.native_steps import compiler_missing
from tests.op_harness import heights
from tests.op_samples import SAMPLES
from tests.scattered import Layout, declared, run_scattered

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

LAYOUTS = (Layout(), Layout(block=2, pieces=3), Layout(onnx=True), Layout(block=3, pieces=2))


def close(got: np.ndarray, want: np.ndarray) -> None:
    """Equal but for rounding."""
    assert got.dtype == want.dtype
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    half = want.dtype == np.float16
    scale = float(np.nanmax(np.abs(want[np.isfinite(want)]), initial=0.0))
    np.testing.assert_allclose(
        got.astype(float),
        want.astype(float),
        rtol=2e-3 if half else 1e-4,
        atol=(2e-3 if half else 1e-5) * max(scale, 1e-3),
    )


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[str(s) for s in SAMPLES])
def test_every_operator_as_numpy_has_it(number: int) -> None:
    """With the workspace that it declares, and with the one that numpy declares."""
    sample = SAMPLES[number]
    layer, feeds, layout = sample.layer(), sample.feeds(), LAYOUTS[number % len(LAYOUTS)]
    native = NativeKernels(load())
    for height in heights(layer)[:3]:
        wanted = run_scattered(layer, feeds, height, layout, None)
        sizes = declared(layer, height, layout, None)
        for own in (None, sizes):
            found = run_scattered(layer, feeds, height, layout, None, own, native)
            for got, want in zip(found, wanted, strict=True):
                close(got, want)
