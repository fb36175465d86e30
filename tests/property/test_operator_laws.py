"""Laws that hold for every sample of every operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from csdfgen.model.network import Layer
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import (
    AliasKind,
    CountingScratch,
    Mode,
    Work,
    phases,
    present_slab,
    stored_rows,
)
from csdfgen.program.steps import Backend
from tests.native_steps import COMPUTED_BY, backends, compiler_missing
from tests.op_harness import Arg, Sample, check_rows, fed, heights, run_in_slabs
from tests.op_samples import SAMPLES
from tests.op_samples.composed import SAMPLES as COMPOSED
from tests.op_samples.composed import WITHOUT_A_REFERENCE
from tests.scattered import Layout, overwritten, run_rolling, run_scattered
from tests.ways import ways

IDS = [str(s) for s in SAMPLES]


def close(got: np.ndarray, want: np.ndarray, what: object) -> None:
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, err_msg=str(what))
        return
    rtol, atol = {2: (1e-2, 1e-2), 4: (1e-3, 1e-4), 8: (1e-6, 1e-8)}[got.dtype.itemsize]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=str(what))


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
    if not check_declared_rows(sample.layer(), sample.feeds()):
        pytest.skip("only row-phased floating-point layers declare rows a phase at a time")


def check_declared_rows(layer: Layer, feeds: Mapping[int, np.ndarray]) -> bool:
    """Whether a layer declares rows a phase at a time; then a NaN in the first or the last of them reaches the output."""
    operator = get_operator(layer)
    if operator.mode(layer) is not Mode.ROWS or layer.output.dtype not in ("float32", "float64"):
        return False
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
                    slabs.append(present_slab(copy, layer, j, r))
                written = zip(layer.outputs, operator.written(layer, phase.out), strict=True)
                results = [np.zeros((len(r), *t.row_shape), t.dtype) for t, r in written]
                for function, arguments in emit(Work(phase, slabs, results, CountingScratch())):
                    function(*arguments)
                assert any(np.isnan(r).any() for r in results), (
                    f"row {bad} of input {k} is declared but not read"
                )
    return True


def kernels_of(backend: str) -> Backend:
    if backend == "native" and compiler_missing():
        pytest.skip(compiler_missing())
    return backends()[backend]


def right(found: list[np.ndarray], wanted: list[np.ndarray], way: object) -> None:
    """What was computed is what is wanted. way: how it was computed."""
    assert len(found) >= len(wanted)  # states without a name come last
    for got, want in zip(found, wanted, strict=False):
        close(got, want, way)


HEIGHTS = range(5)
"""Numbers of `heights`, of which some layers have fewer."""


def tall(layer: Layer, number: int) -> int:
    """A slab height of a layer."""
    every = heights(layer)
    return every[number % len(every)]


BY_ROWS = [s for s in SAMPLES if s.operator.mode(s.layer()) is Mode.ROWS]
OVER = [s for s in SAMPLES if overwritten(s.layer())]
BEHIND_EACH_OTHER = (
    Layout(block=2, pieces=2, over=True, together=True),
    Layout(pieces=3, over=True),
    Layout(block=2, beside=3, over=True),
)


ROLLING = ways([s.values for s in BY_ROWS], {"height": range(3), "backend": COMPUTED_BY}, 2)


@pytest.mark.parametrize("number", range(len(BY_ROWS)), ids=[str(s) for s in BY_ROWS])
def test_calls_that_are_bound_once_compute_every_slab_at_their_addresses(number: int) -> None:
    """What a call depends on beside addresses is in the key that it is kept by."""
    sample = BY_ROWS[number]
    layer, feeds = sample.layer(), sample.feeds()
    wanted = sample.reference(layer, feeds)
    for height, backend in ROLLING[number]:
        found = run_rolling(layer, feeds, tall(layer, height), backends()[backend])
        right(found, wanted, (height, backend))


def followers(layer: Layer) -> list[Sample]:
    """What may follow a layer in its slab: an activation, constants a channel, sums over a pixel."""
    output = layer.output
    x, rank = Arg(output.shape, output.row_axis), len(output.shape)
    found = [
        Sample("Relu", (x,)),
        Sample("Neg", (x,)),
        Sample("Clip", (x, np.array(-0.5, np.float32), np.array(0.5, np.float32))),
        Sample("Sigmoid", (x,)),
        Sample("Mul", (np.array(0.75, np.float32), x)),
    ]
    if rank > 2 and output.row_axis != 1:
        rng = np.random.default_rng(2)
        each = rng.uniform(0.5, 1.5, (5, output.shape[1])).astype(np.float32)
        wide = each[0].reshape(-1, *(1,) * (rank - 2))
        found += [
            Sample("PRelu", (x, wide)),
            Sample("Add", (x, wide)),
            Sample("Sub", (wide, x)),
            Sample("BatchNormalization", (x, *each[1:])),
            Sample("Softmax", (x,), {"axis": 1}),
        ]
    return found


def followed(after: Sample, x: np.ndarray) -> list[np.ndarray]:
    """What an elementwise layer makes of x, which is each of its operands that are computed."""
    given = {k: x for k, operand in enumerate(after.inputs) if isinstance(operand, Arg)}
    return after.reference(after.layer(), given)


OVER_OPERANDS = ways(
    [s.values for s in OVER],
    {"layout": BEHIND_EACH_OTHER, "height": HEIGHTS, "after": range(10), "backend": COMPUTED_BY},
    3,
)


@pytest.mark.parametrize("number", range(len(OVER)), ids=[str(s) for s in OVER])
def test_results_over_operands_in_pieces_and_what_follows(number: int) -> None:
    """Of several heights: pieces of any width, pixels next to those of another tensor."""
    sample = OVER[number]
    layer, feeds = sample.layer(), sample.feeds()
    want = sample.reference(layer, feeds)
    for way in OVER_OPERANDS[number]:
        layout, height, turn, backend = way
        one, wanted = layer, want
        if layer.output.dtype == "float32" and len(layer.outputs) == 1:
            others = followers(layer)
            after = others[turn % len(others)]
            one = replace(layer, epilogue=(after.layer(),))
            wanted = followed(after, want[0])
        kernels = backends()[backend]
        found = run_scattered(one, feeds, tall(layer, height), layout, None, None, kernels)
        right(found, wanted, way)


IN_PIECES = (
    Layout(block=2, pieces=2),
    Layout(pieces=3, together=True),
    Layout(block=3, pieces=2, beside=1),
    Layout(block=2, pieces=99, onnx=True),
)


PIECES = ways(
    [s.values for s in SAMPLES],
    {
        "layout": IN_PIECES,
        "height": HEIGHTS,
        "after": [(one,) if one % 2 else (one, one + 3) for one in range(10)],
        "backend": COMPUTED_BY,
    },
)


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=IDS)
def test_any_operands_in_pieces_and_what_follows_in_the_slab(number: int) -> None:
    """Behind a Concat, with one or two elementwise layers in the slab."""
    sample = SAMPLES[number]
    feeds = sample.feeds()
    want = sample.reference(sample.layer(), feeds)
    for way in PIECES[number]:
        layout, height, turns, backend = way
        layer, wanted = sample.layer(), want
        views = any(
            alias.kind is not AliasKind.INPLACE for alias in get_operator(layer).aliases(layer)
        )
        if layer.output.dtype == "float32" and len(layer.outputs) == 1 and not views:
            others = followers(layer)
            for after in (others[turn % len(others)] for turn in turns):
                layer = replace(layer, epilogue=(*layer.epilogue, after.layer()))
                wanted = followed(after, wanted[0])
        kernels = backends()[backend]
        found = run_scattered(layer, feeds, tall(layer, height), layout, None, None, kernels)
        right(found, wanted, way)


BY_ANOTHER_AXIS = ways(
    [s.values for s in SAMPLES],
    {"turn": range(4), "height": HEIGHTS, "together": (False, True), "backend": COMPUTED_BY},
    2,
)


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=IDS)
def test_operands_may_be_stored_by_any_axis(number: int) -> None:
    """A layer reads the rows that it needs from tensors whose rows lie along another axis, or which have none:
    behind a Reshape, a Transpose, a product.
    """
    sample = SAMPLES[number]
    feeds = sample.feeds()
    wanted = sample.reference(sample.layer(), feeds)
    for way in BY_ANOTHER_AXIS[number]:
        turn, height, together, backend = way
        inputs = [
            i if not isinstance(i, Arg) else stored_by_another_axis(i, turn) for i in sample.inputs
        ]
        layer = replace(sample, inputs=tuple(inputs)).layer()
        layout, kernels = Layout(block=2, together=together), backends()[backend]
        found = run_scattered(layer, feeds, tall(layer, height), layout, None, None, kernels)
        right(found, wanted, way)


def stored_by_another_axis(operand: Arg, number: int) -> Arg:
    axes = [axis for axis in (None, *range(1, len(operand.shape))) if axis != operand.row_axis]
    return replace(operand, row_axis=axes[number % len(axes)]) if axes else operand


def test_every_operator_of_the_table_has_a_sample() -> None:
    missing = set(OPERATORS) - {s.op_type for s in (*SAMPLES, *COMPOSED)} - WITHOUT_A_REFERENCE
    assert not missing, f"operators without a sample layer: {sorted(missing)}"
