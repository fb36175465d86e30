"""Windows of few input channels are runs of floats: signals are rows of many pixels, long rows of a kernel one tap. Inputs that
are stored by other rows, or by none, are read all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.families.presented import NEAR, Presented
from csdfgen.backends.native.ways import Ways
from tests.native_steps import compiler_missing
from tests.op_harness import Arg, Sample
from tests.scattered import Layout, declared, run_scattered
from tests.unit.test_native_families import Recorded, check, integers

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

TOGETHER = Layout(block=1, pieces=1, together=True)


def signal(rng: np.random.Generator, ins: int, outs: int, axis: int | None = 2) -> Sample:
    kernel, stride = int(rng.integers(2, 40)), int(rng.integers(1, 12))
    weights = rng.standard_normal((outs, ins, kernel)).astype(np.float32)
    given: dict[str, Any] = {"pads": integers(rng, 0, kernel), "strides": [stride]}
    given["dilations"] = [int(rng.choice([1, 1, 2]))]
    length = 2 * kernel + int(rng.integers(1, 200))
    return Sample("Conv", (Arg((1, ins, length), axis), weights), given)


@pytest.mark.parametrize("seed", range(16))
def test_signals(seed: int) -> None:
    """Rows that follow each other, and rows that do not. Not a bit depends on the height of slabs, nor on which they are."""
    rng = np.random.default_rng(seed)
    sample = signal(rng, int(rng.choice([1, 1, 2, 5])), int(rng.choice([9, 40, 70])))
    check(sample, rng, {"conv_of"})
    layer, feeds, found = sample.layer(), sample.feeds(), []
    for height, layout in (
        (1, TOGETHER),
        (7, TOGETHER),
        (layer.output.rows, TOGETHER),
        (7, Layout(block=3)),
    ):
        native = Recorded()
        found += run_scattered(layer, feeds, height, layout, None, None, native)
        assert native.bound == {"conv_of"}
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("seed", range(3))
def test_signals_of_few_outputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((int(rng.integers(1, 4)), 1, 150)).astype(np.float32)
    sample = Sample("Conv", (Arg((1, 1, 330), 2), weights), {"strides": [int(rng.integers(1, 5))]})
    check(sample, rng, {"conv_dots_of", "conv_of"})
    native = Recorded()
    run_scattered(sample.layer(), sample.feeds(), 40, TOGETHER, None, None, native)
    assert native.bound == {"conv_dots_of"}
    exact = check(sample, rng, {"conv_of"}, ways=Ways(exact=True))
    assert exact.bound <= {"conv_of", "map_of"}


def test_a_signal_is_one_row_of_pixels() -> None:
    """A step of rows that follow each other is one instruction on few places."""
    weights = np.ones((40, 1, 400), np.float32)
    sample = Sample("Conv", (Arg((1, 1, 4000), 2), weights), {"strides": [160]})
    native = Recorded()
    run_scattered(sample.layer(), sample.feeds(), 23, TOGETHER, None, None, native)
    assert native.count == 1


@pytest.mark.networks
@pytest.mark.parametrize("seed", range(16))
def test_long_rows_of_a_kernel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ins, outs = int(rng.integers(1, 12)), int(rng.choice([20, 40]))
    kernel = [int(rng.integers(1, 20)), int(rng.integers(18, 45))]
    weights = rng.normal(0, 0.05, (outs, ins, *kernel)).astype(np.float32)
    given = {
        "pads": [*integers(rng, 0, 3, 1), *integers(rng, 0, 20, 1)] * 2,
        "strides": integers(rng, 1, 3),
    }
    size = kernel[0] + int(rng.integers(3, 9)), kernel[1] + int(rng.integers(0, 60))
    check(Sample("Conv", (Arg((1, ins, *size), 2), weights), given), rng, {"conv_of"})


@pytest.mark.parametrize("axis", [None, 1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_convolution_of_other_rows(seed: int, axis: int | None) -> None:
    """Copies are loops beside the kernel; of one channel there are none."""
    rng = np.random.default_rng(seed)
    ins, outs = int(rng.choice([1, 3, 20])), int(rng.integers(9, 40))
    weights = rng.standard_normal((outs, ins, *integers(rng, 1, 6))).astype(np.float32)
    given = {"pads": integers(rng, 0, 3, 4), "strides": integers(rng, 1, 3)}
    sample = Sample("Conv", (Arg((1, ins, 20, 17), axis), weights), given)
    layer = sample.layer()
    assert isinstance(match_family(layer), Presented)
    check(sample, rng, set(), own=False)
    native = Recorded()
    run_scattered(layer, sample.feeds(), 5, TOGETHER, None, None, native)
    kernels = {"conv_of", "winograd_of", "winograd_row_of", "conv_dots_of"}
    assert native.bound & kernels
    assert native.bound <= {*kernels, "copy_4"}
    if ins == 1:
        assert "copy_4" not in native.bound


@pytest.mark.parametrize("op_type", ["ConvTranspose", "MaxPool", "AveragePool"])
def test_other_layers_of_other_rows(op_type: str) -> None:
    rng = np.random.default_rng(0)
    others = (rng.standard_normal((6, 5, 4, 4)).astype(np.float32),) if "Conv" in op_type else ()
    given = {"strides": [2, 2]} | ({} if others else {"kernel_shape": [3, 3]})
    sample = Sample(op_type, (Arg((1, 6, 9, 11), None), *others), given)
    check(sample, rng, set(), own=False)
    native = Recorded()
    run_scattered(sample.layer(), sample.feeds(), 3, TOGETHER, None, None, native)
    assert native.bound & {"conv_of", "max_pool_of", "average_pool_of", "pool_of", "copy_4"}


@pytest.mark.parametrize("limit", [0, 3000, 60_000])
@pytest.mark.parametrize("columns", [24, 600])
def test_copies_of_few_rows_are_granted_those_of_many_are_within_the_limit(
    columns: int, limit: int
) -> None:
    weights = np.ones((20, 16, 3, 3), np.float32)
    sample = Sample("Conv", (Arg((1, 16, 24, columns), None), weights), {"pads": [1] * 4})
    layer, height = sample.layer(), 12
    native = Recorded()
    sizes = declared(layer, height, TOGETHER, limit, native)
    least = declared(layer, height, TOGETHER, limit)
    few = 3 * 16 * 4 * columns <= NEAR
    most = [max(limit, NEAR if few else one) for one in least]
    assert all(size <= one for size, one in zip(sizes, most, strict=True))
    wanted = run_scattered(layer, sample.feeds(), height, TOGETHER, None)
    found = run_scattered(layer, sample.feeds(), height, TOGETHER, None, sizes, native)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=1e-3)
    assert native.bound & {"conv_of", "winograd_of", "winograd_row_of"} or not few
