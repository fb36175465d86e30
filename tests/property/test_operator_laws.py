"""Laws that hold for every sample of every operator."""

from __future__ import annotations

import numpy as np
import pytest

from csdfgen.ops import OPERATORS
from csdfgen.ops.base import CountingScratch, Mode, phases, presented, stored_rows
from tests.op_harness import Sample, check_rows, fed, heights, run_in_slabs
from tests.op_samples import SAMPLES

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
                for function, arguments in emit(phase, slabs, results, CountingScratch()):
                    function(*arguments)
                assert any(np.isnan(r).any() for r in results), (
                    f"row {bad} of input {k} is declared but not read"
                )


def test_every_operator_of_the_table_has_a_sample() -> None:
    missing = set(OPERATORS) - {s.op_type for s in SAMPLES}
    assert not missing, f"operators without a sample layer: {sorted(missing)}"
