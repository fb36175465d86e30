"""Normalizations of maps over all of their rows: the kernel against numpy in float64, on rows anywhere, over its input, on
threads; and what a plan needs that has one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import csdfgen
import runtime
from tests.builder import Graph, reference
from tests.native_steps import compiler_missing
from tests.op_harness import Arg, Sample
from tests.scattered import Layout, overwritten, run_scattered
from tests.unit.test_native_families import AFTER, Recorded, followed

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

LAYOUTS = (Layout(), Layout(block=2, beside=3), Layout(block=2, over=True), Layout(together=True))


def samples(rng: np.random.Generator, images: int = 1) -> Sequence[tuple[Sample, tuple[int, ...]]]:
    """Of each operator, with the axes of (channels, rows, columns...) or (groups, ...) that share a mean."""
    groups, each = (int(n) for n in rng.integers(1, 9, 2))
    channels = groups * each
    size = [int(n) for n in rng.integers(2, 14, int(rng.integers(1, 4)))]
    size[-1] = int(rng.choice([size[-1], channels]))  # a parameter of a column is none of a channel
    x = Arg((images, channels, *size), 2)

    def given(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    every = tuple(range(1, len(size) + 1))
    whole = tuple(range(len(size) + 1))
    return [
        (Sample("InstanceNormalization", (x, given(channels), given(channels))), every),
        (
            Sample(
                "GroupNormalization",
                (x, given(channels), given(channels)),
                {"num_groups": groups},
                21,
            ),
            whole,
        ),
        (Sample("LayerNormalization", (x, given(channels, *size)), {"axis": 1}), whole),
        (Sample("LayerNormalization", (x, given(*size), given(size[-1])), {"axis": 2}), every),
        (
            Sample(
                "RMSNormalization",
                (x, given(channels, *[1] * len(size)), given(channels, *size)),
                {"axis": 1},
                23,
            ),
            whole,
        ),
        (
            Sample("MeanVarianceNormalization", (x,), {"axes": [0, *(a + 1 for a in every)]}, 13),
            every,
        ),
    ]


def normalized(sample: Sample, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """In float64. x: (1, channels, ...)."""
    groups = sample.attributes.get("num_groups", 1)
    values = x[0].astype(np.float64).reshape(groups, -1, *x.shape[2:])
    over = tuple(a + 1 for a in axes)
    if sample.op_type != "RMSNormalization":
        values = values - values.mean(over, keepdims=True)
    epsilon = 1e-18 if sample.op_type == "MeanVarianceNormalization" else 1e-5
    values = values / np.sqrt((values**2).mean(over, keepdims=True) + epsilon)
    values = values.reshape(x.shape)
    factor, offset = (*sample.inputs[1:], None, None)[:2]
    for array, apply in ((factor, np.multiply), (offset, np.add)):
        if isinstance(array, np.ndarray):
            of_maps = sample.op_type in ("InstanceNormalization", "GroupNormalization")
            values = apply(values, array.reshape(-1, *[1] * (x.ndim - 2)) if of_maps else array)
    return np.asarray(values)


@pytest.mark.parametrize("seed", range(16))
def test_maps(seed: int) -> None:
    """Means far from zero lose no more digits than the values have. A batch of two has means of its own for each."""
    rng = np.random.default_rng(seed)
    for sample, axes in [*samples(rng), *samples(rng, images=2)[:2]]:
        layer = sample.layer()
        (x,) = sample.feeds().values()
        mean = float(rng.choice([0.0, 3.0, 1000.0]))
        x = (x + mean).astype(np.float32)
        wanted = np.concatenate([normalized(sample, one[None], axes) for one in x])
        if x.ndim == 5 and len(x) > 1:
            continue  # pixels of planes are not equally far apart
        # pixels of planes follow each other
        layouts = [one for one in LAYOUTS if not one.beside or x.ndim < 5]
        for layout in layouts:
            native = Recorded()
            (found,) = run_scattered(layer, {0: x}, layer.output.rows, layout, None, kernels=native)
            assert native.bound == {"standardize_of"}, sample
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5 + 1e-6 * mean)
        assert overwritten(layer) == [0]
        (after,) = run_scattered(
            followed(layer, *AFTER[1 + seed % 2]), {0: x}, layer.output.rows, LAYOUTS[2], None,
            kernels=native,
        )  # fmt: skip
        slope = 0.3 if seed % 2 else 0.0
        np.testing.assert_allclose(
            after, np.where(found > 0, found, slope * found), rtol=1e-4, atol=1e-4
        )
        assert native.bound == {"standardize_of"}, sample


@pytest.mark.parametrize("channels", [70, 33])
def test_threads_compute_the_same_bits(channels: int) -> None:
    graph = Graph(opset=17)
    ones = graph.constant(np.linspace(0.5, 2, channels, dtype=np.float32))
    x = graph.conv(graph.input("x", (1, 3, 40, 50)), channels)
    plan = csdfgen.plan(
        csdfgen.load(graph.model(graph.node("InstanceNormalization", x, ones, ones)))
    )
    one, two = (
        next(iter(runtime.compile(plan, threads=n)(graph.feeds()).values())) for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("op_type", "given"), [("InstanceNormalization", {}), ("LayerNormalization", {"axis": 1})]
)
def test_a_plan_keeps_one_map(op_type: str, given: dict[str, int]) -> None:
    """The kernel reads rows where they are and writes over them, beside two numbers a channel. All rows are there before
    the first is written: the layer follows in no slab.
    """
    graph = Graph(opset=17)
    shape = (32, 64, 64) if given else (32,)
    scale = graph.constant(np.linspace(0.5, 2, math.prod(shape), dtype=np.float32).reshape(shape))
    x = graph.conv(graph.input("x", (1, 3, 64, 64)), 32, 3)
    y = graph.node("Relu", graph.node(op_type, x, scale, scale, **given))
    graph.channels[y] = 32
    model = graph.model(graph.conv(y, 8, 3))
    plan = csdfgen.plan(csdfgen.load(model), goal="memory", backend="native")
    assert plan.planned_bytes < 1.1 * 4 * 32 * 64 * 64
    feeds = graph.feeds()
    (wanted,), (found,) = reference(model, feeds).values(), runtime.run(plan, feeds).values()
    np.testing.assert_allclose(found, wanted, atol=1e-3)
