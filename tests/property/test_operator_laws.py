"""Laws that hold for every sample of every operator."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.library import load
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.model.network import Layer
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import CountingScratch, Mode, Work, phases, presented, stored_rows
from csdfgen.program.steps import Backend
from tests.native_steps import compiler_missing
from tests.op_harness import Arg, Sample, check_rows, fed, heights, run_in_slabs
from tests.op_samples import SAMPLES
from tests.scattered import Layout, overwritten, run_rolling, run_scattered

IDS = [str(s) for s in SAMPLES]


def close(got: np.ndarray, want: np.ndarray, sample: Sample) -> None:
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    rtol, atol = {2: (1e-2, 1e-2), 4: (1e-3, 1e-4), 8: (1e-6, 1e-8)}[got.dtype.itemsize]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_slabs_joined_are_the_whole_layer_and_onnxruntimes(sample: Sample) -> None:
    layer = sample.layer()
    feeds = sample.feeds()
    want = sample.reference(layer, feeds)
    for height in heights(layer):
        for strided in (False, True):
            for got, expected in zip(
                run_in_slabs(sample, layer, feeds, height, strided=strided), want, strict=True
            ):
                close(got, expected, sample)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_row_ranges_are_monotone_and_inside(sample: Sample) -> None:
    layer = sample.layer()
    for height in heights(layer):
        check_rows(layer, sample.operator, height)


@pytest.mark.parametrize(
    "sample",
    [s for s in SAMPLES if not s.hides_nan],
    ids=[str(s) for s in SAMPLES if not s.hides_nan],
)
def test_a_nan_in_the_first_or_last_declared_row_reaches_the_output(sample: Sample) -> None:
    """No operator claims rows that it does not read (it would hold them in memory for nothing)."""
    layer = sample.layer()
    operator = sample.operator
    if operator.mode(layer) is not Mode.ROWS or layer.output.dtype not in ("float32", "float64"):
        pytest.skip("only row-phased floating-point layers declare rows a phase at a time")
    feeds = sample.feeds()
    stored = {
        k: np.ascontiguousarray(t.to_storage(fed(feeds, t)))
        for k, t in enumerate(layer.inputs)
        if t is not None
    }
    emit = operator.kernel(layer)
    for phase in phases(operator, layer, 1):
        for k, rows in enumerate(phase.ins):
            tensor = layer.inputs[k]
            if (
                not rows
                or tensor is None
                or tensor.dtype not in ("float32", "float64")
                or layer.input_axes[k] != tensor.row_axis
            ):
                continue
            for bad in {rows.start, rows.stop - 1}:
                slabs: list[np.ndarray | None] = []
                for j, r in enumerate(phase.ins):
                    if r is None:
                        slabs.append(None)
                        continue
                    held = stored_rows(layer, j, r)
                    copy = stored[j][held.start : held.stop].copy()
                    if j == k:
                        copy[bad - held.start] = np.nan
                    slabs.append(presented(copy, layer, j, r))
                results = [np.zeros((len(phase.out), *t.row_shape), t.dtype) for t in layer.outputs]
                for function, arguments in emit(Work(phase, slabs, results, CountingScratch())):
                    function(*arguments)
                assert any(np.isnan(r).any() for r in results), (
                    f"row {bad} of input {k} is declared but not read"
                )


@cache
def kernels_of(backend: str) -> Backend:
    if backend == "numpy":
        return NUMPY
    if compiler_missing():
        pytest.skip(compiler_missing())
    return NativeKernels(load())


BACKENDS = pytest.mark.parametrize("backend", ["numpy", "native"])

BY_ROWS = [s for s in SAMPLES if s.operator.mode(s.layer()) is Mode.ROWS]
OVER = [s for s in SAMPLES if overwritten(s.layer())]
BEHIND_EACH_OTHER = (
    Layout(block=2, pieces=2, over=True, together=True),
    Layout(pieces=3, over=True),
    Layout(block=2, beside=3, over=True),
)


@BACKENDS
@pytest.mark.parametrize("sample", BY_ROWS, ids=[str(s) for s in BY_ROWS])
def test_calls_that_are_bound_once_compute_every_slab_at_their_addresses(
    sample: Sample, backend: str
) -> None:
    """What a call depends on beside addresses is in the key that it is kept by."""
    layer, feeds = sample.layer(), sample.feeds()
    want = sample.reference(layer, feeds)
    for height in heights(layer)[:3]:
        found = run_rolling(layer, feeds, height, kernels_of(backend))
        for got, expected in zip(found, want, strict=True):
            close(got, expected, sample)


def followers(layer: Layer) -> list[Sample]:
    """What may follow a layer in its slab: an activation, constants a channel, sums over a pixel."""
    output = layer.output
    x, rank = Arg(output.shape, output.row_axis), len(output.shape)
    found = [Sample("Relu", (x,)), Sample("Neg", (x,))]
    if rank > 2 and output.row_axis != 1:
        rng = np.random.default_rng(2)
        each = rng.uniform(0.5, 1.5, (5, output.shape[1])).astype(np.float32)
        wide = each[0].reshape(-1, *(1,) * (rank - 2))
        found += [
            Sample("PRelu", (x, wide)),
            Sample("Add", (x, wide)),
            Sample("BatchNormalization", (x, *each[1:])),
            Sample("Softmax", (x,), {"axis": 1}),
        ]
    return found


@BACKENDS
@pytest.mark.parametrize("number", range(len(OVER)), ids=[str(s) for s in OVER])
def test_results_over_operands_in_pieces_and_what_follows(number: int, backend: str) -> None:
    """Of several heights: pieces of any width, pixels next to those of another tensor."""
    sample = OVER[number]
    layer, feeds = sample.layer(), sample.feeds()
    want = sample.reference(layer, feeds)
    tall = heights(layer)
    for turn, layout in enumerate(BEHIND_EACH_OTHER):
        height = tall[(number + turn) % len(tall)]
        one, wanted = layer, want
        if layer.output.dtype == "float32" and len(layer.outputs) == 1:
            others = followers(layer)
            after = others[(number + turn) % len(others)]
            one = replace(layer, epilogue=(after.layer(),))
            wanted = after.reference(after.layer(), {0: want[0]})
        found = run_scattered(one, feeds, height, layout, None, None, kernels_of(backend))
        for got, expected in zip(found, wanted, strict=True):
            close(got, expected, sample)


def test_every_operator_of_the_table_has_a_sample() -> None:
    missing = set(OPERATORS) - {s.op_type for s in SAMPLES}
    assert not missing, f"operators without a sample layer: {sorted(missing)}"
