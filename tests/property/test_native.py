"""Native code computes what numpy computes: every operator, wherever rows lie, and random networks."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.backends import registry
from csdfgen.backends.native import bound, families, strided, threads
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.library import load
from csdfgen.backends.native.structures import structure
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.backends.registry import load_backend, resolve_backend
from csdfgen.errors import InputError, PlanError, ToolError
from csdfgen.lowering.program import lower
from csdfgen.ops import primitives
from csdfgen.planning.plan import Plan
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Backend
from csdfgen.rewriting.fuse import fuse
from runtime.session import Executable
from tests.builder import Graph, reference
from tests.lowered import lower_twice, shared_kernels
from tests.native_steps import compiler_missing
from tests.networks import check_touched, feeds
from tests.op_harness import Arg, Sample, heights
from tests.op_samples import SAMPLES
from tests.op_samples.composed import SAMPLES as COMPOSED
from tests.op_samples.quantized import SAMPLES as BYTES
from tests.op_samples.quantized import U8, one
from tests.planning import LITTLE
from tests.random_networks import models, row_choices
from tests.scattered import Layout, declared, run_scattered
from tests.small_models import residual_classifier
from tests.unit.test_contraction import keys_times_values
from tests.unit.test_four_bits import perceptron
from tests.ways import ways

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

LAYOUTS = (Layout(), Layout(block=2, pieces=3), Layout(onnx=True), Layout(block=3, pieces=2))


def constant(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


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


WAYS = ways(
    [s.values for s in SAMPLES], {"layout": LAYOUTS, "height": range(3), "own": (True, False)}
)


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[str(s) for s in SAMPLES])
def test_every_operator_as_numpy_has_it(number: int) -> None:
    """With the workspace that it declares, and with the one that numpy declares."""
    sample = SAMPLES[number]
    layer, feeds = sample.layer(), sample.feeds()
    native = NativeKernels(load())
    for layout, turn, own in WAYS[number]:
        height = heights(layer)[turn % len(heights(layer))]
        whose = native if own else NUMPY
        wanted = run_scattered(layer, feeds, height, layout, None)
        sizes = declared(layer, height, layout, None, whose)
        found = run_scattered(layer, feeds, height, layout, None, sizes, native)
        for got, want in zip(found, wanted, strict=True):
            close(got, want)


NODES = (*BYTES, *COMPOSED)


@pytest.mark.parametrize("number", range(len(NODES)), ids=[str(s) for s in NODES])
def test_instructions_moved_elsewhere_are_those_made_there(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step that looks like another one: all places in tables of tables too, and in records within records."""
    sample, compared = NODES[number], lower_twice(monkeypatch)
    network = csdfgen.load(sample.model(sample.outputs_of()))
    plan = csdfgen.plan(network, backend="native", rows=1, effort=LITTLE)
    lower(plan, NativeKernels(load()))
    if sample.op_type == "DynamicQuantizeLSTM":
        assert "recurrent_bytes_of" in compared


# Whole networks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(3))
def test_plans_for_native_code(part: int) -> None:
    """Random networks in plans whose scratch is what native kernels need, which may be none."""

    @seed(part)
    @settings(
        max_examples=10, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data(), models())
    def run(data: st.DataObject, model: onnx.ModelProto) -> None:
        network = csdfgen.load(model)
        rows = row_choices(data.draw, [layer.name for layer in fuse(network).layers])
        note(f"--rows {rows}")
        note(onnx.printer.to_text(model))
        plan = csdfgen.plan(network, rows=rows, backend="native")
        inputs = feeds(model)
        got, measured = runtime.compile(plan).measure(inputs)
        check_touched(plan, measured.touched_bytes)
        for name, want in reference(model, inputs).items():
            close(got[name], want)

    run()


@pytest.fixture
def plan() -> Plan:
    return csdfgen.plan(csdfgen.load(residual_classifier()), backend="native")


def test_inputs_and_outputs_in_any_order_and_type(plan: Plan) -> None:
    """Arrays are read and written where they lie: no copy of either is made."""
    frame, other_frame = runtime.compile(plan), runtime.compile(plan, backend="native")
    (tensor,) = plan.network.inputs
    x = np.random.default_rng(0).standard_normal(tensor.shape).astype(np.float32)
    want = {name: array.copy() for name, array in other_frame(x).items()}
    swapped = np.asfortranarray(x)
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), np.float64)
    wide[..., ::2] = x
    backwards = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    other = x.astype(x.dtype.newbyteorder(">"))
    for array_given in (swapped, wide[..., ::2], backwards, x, other):
        for name, array in frame(array_given).items():
            np.testing.assert_array_equal(array, want[name])
    out = {name: np.asfortranarray(np.zeros_like(array)) for name, array in want.items()}
    frame(x, out=out)
    for name, array in out.items():
        np.testing.assert_array_equal(array, want[name])


def test_rows_are_handed_on(plan: Plan) -> None:
    frame = runtime.compile(plan)
    (tensor,) = plan.network.inputs
    x = np.random.default_rng(1).standard_normal(tensor.shape).astype(np.float32)
    want, seen = frame(x), set()
    frame(x, on_rows=lambda name, image, start, stop, rows: seen.add((name, rows.tobytes())))
    assert {name for name, _ in seen} == set(want)
    whole = {name: array.tobytes() for name, array in want.items()}
    assert all(rows in whole[name] for name, rows in seen)


def test_what_follows_a_native_kernel_fits_the_scratch_of_numpys_plan() -> None:
    """A Softmax behind a map in pieces: alone it takes other scratch than numpy declares for both layers."""
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 1, 1, 1)), 5)
    one, two = (
        graph.node(
            "Slice", x, *(graph.constant(np.array([k])) for k in (at, at + 1, 1)), channels=1
        )
        for at in (1, 0)
    )
    y = graph.node("Concat", one, two, axis=1, channels=2)
    y = graph.batch_normalization(graph.batch_normalization(y))
    model = graph.model(
        graph.node("MaxPool", graph.node("Softmax", y, axis=1), kernel_shape=[1, 1])
    )
    plan = csdfgen.plan(csdfgen.load(model), backend="numpy")
    inputs = feeds(model)
    (found,) = runtime.compile(plan, backend="native")(inputs).values()
    close(found, *reference(model, inputs).values())


def test_a_plan_for_native_code_needs_more_for_numpy() -> None:
    """Said in one line, with the way out."""
    network = csdfgen.load("zoo:lenet5")
    plan = csdfgen.plan(network, backend="native")
    assert (
        plan.figures["arena"]
        < csdfgen.plan(network, rows=plan.options.rows, backend="numpy").figures["arena"]
    )
    with pytest.raises(PlanError, match=r"needs \d+ bytes .* its plan has \d+; .*backend='native'"):
        runtime.compile(plan, backend="numpy")


def test_frames_are_timed_firing_by_firing(plan: Plan) -> None:
    frame = runtime.compile(plan)
    (tensor,) = plan.network.inputs
    times = frame.time_firings(np.zeros(tensor.shape, np.float32))
    assert len(times) == len(plan.order) + 1 and list(times) == sorted(times)


def test_a_call_without_a_native_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by name, or computed by numpy where that is asked for."""
    plan = csdfgen.plan(csdfgen.load(residual_classifier()), backend="numpy")
    monkeypatch.delitem(families._FAMILIES, "MaxPool")  # then it is what numpy calls
    monkeypatch.delitem(strided._FUNCTIONS, primitives.maximum)
    with pytest.raises(PlanError, match=r"firing \d+ \(.*\): maximum has no native kernel"):
        Executable(plan, kernels=NativeKernels(load()))
    (tensor,) = plan.network.inputs
    x = np.random.default_rng(2).standard_normal(tensor.shape).astype(np.float32)
    found = Executable(plan, kernels=NativeKernels(load(), fallback=True))(x)
    for name, want in Executable(plan)(x).items():
        close(found[name], want)


def test_backends_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    assert load_backend("numpy").name == "numpy" and load_backend("native").name == "native"
    assert resolve_backend("auto") == "native"
    with pytest.raises(InputError, match="backend='fpga': not one of auto, native, numpy"):
        load_backend("fpga")

    made = registry._made

    def missing(name: str, *options: Any) -> Backend:
        if name == "native":
            raise ToolError("no C compiler")
        return made(name, *options)

    monkeypatch.setattr(registry, "_made", missing)
    registry._fastest.cache_clear()
    try:
        assert resolve_backend("auto") == "numpy" and load_backend("auto").name == "numpy"
    finally:
        registry._fastest.cache_clear()
    assert [record.getMessage() for record in caplog.records] == [
        "no C compiler; numpy computes instead, two to four times slower (backend='numpy' says that this is meant)"
    ]
    with pytest.raises(ToolError):
        load_backend("native")


# Threads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 16])
def test_threads_share_a_frame(count: int) -> None:
    """Results are those of one thread to the last bit, in frame after frame."""
    plan = csdfgen.plan(csdfgen.load("zoo:resnet8@96x96"), backend="native", rows=16)
    (tensor,) = plan.network.inputs
    alone, together = runtime.compile(plan), runtime.compile(plan, threads=count)
    assert shared_kernels(together._bound.program, count)
    rng = np.random.default_rng(3)
    for _ in range(20):
        x = rng.standard_normal(tensor.shape).astype(np.float32)
        want = alone(x)
        for name, got in together(x).items():
            np.testing.assert_array_equal(got, want[name])


@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v2"])
def test_more_threads_never_leave_a_step_to_fewer(name: str) -> None:
    """Even if it has fewer columns and fewer blocks of channels than there are threads."""
    program = lower(
        csdfgen.plan(csdfgen.load(f"zoo:{name}"), backend="native"), NativeKernels(load())
    )
    constants, most = program.constants.copy(), 0
    for made in program.instructions:
        sizes = [
            max(map(len, threads.divide_among_threads(made, count, constants)))
            for count in range(1, 17)
        ]
        assert sizes == sorted(sizes), made.kernel
        most = max(most, sizes[-1])
    assert most == 16


@pytest.mark.parametrize(
    "name", ["resnet8@96x96", "squeezenet1_1@64x64", "unet@32x32", "mobilenet_v2@96x96"]
)
@pytest.mark.parametrize("worth", [1, 5_000])
@pytest.mark.parametrize("count", [2, 3])
def test_parts_of_a_section_in_any_order(
    name: str, worth: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of a section reads or overwrites what another part writes: the last ones first are the whole frame, too. Some
    sections are of several instructions.
    """
    joined = 0

    def backwards(team: threads.Team, sections: Any, count: int) -> None:
        nonlocal joined
        for some in sections[:count]:
            first = (ctypes.c_int32 * (some.parts + 1)).from_address(some.first)
            joined += some.parts > 1 and first[some.parts] > some.parts
            for k in reversed(range(some.parts)):
                at = some.records + first[k] * structure("csdf_record").size
                team._library.run(at, first[k + 1] - first[k])

    monkeypatch.setattr(threads, "_WORTH", worth)
    plan = csdfgen.plan(csdfgen.load(f"zoo:{name}", batch=2), backend="native", rows=4)
    x = _RNG.standard_normal(plan.network.whole_shape(plan.network.inputs[0])).astype(np.float32)
    want = runtime.compile(plan)(x)
    monkeypatch.setattr(threads.Team, "_run", backwards)
    for output, got in runtime.compile(plan, threads=count)(x).items():
        np.testing.assert_array_equal(got, want[output])
    assert joined > 5


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_a_kernel_are_the_whole(seed: int) -> None:
    """Winograd's kernels, depthwise ones, pools and maps: the same to the last bit in one part or several."""
    rng = np.random.default_rng(seed)
    ins, outs, wide = (int(n) for n in (rng.integers(64, 130), rng.integers(64, 130), 200))
    g = Graph()
    x = g.input("x", (1, ins, 16, wide))
    a = g.node("Relu", g.conv(x, outs))
    b = g.node("MaxPool", g.conv(a, outs, group=outs), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    model = g.model(g.node("Add", a, b))
    plan = csdfgen.plan(csdfgen.load(model), backend="native", rows=int(rng.choice([2, 4, 8])))
    image = rng.standard_normal((1, ins, 16, wide)).astype(np.float32)
    (want,) = runtime.compile(plan)(image).values()
    for count in (2, 3):
        together = runtime.compile(plan, threads=count)
        kernels = shared_kernels(together._bound.program, count)
        assert {"depthwise_of", "pool_of", "map_of"} < kernels
        assert kernels & {"winograd_of", "winograd_row_of"}
        (got,) = together(image).values()
        np.testing.assert_array_equal(got, want)


_NOT_IN_SAMPLES = {
    *("byte_winograd_of", "depthwise_bytes_of", "winograd_of", "conv_bf16_of"),
    *("conv_f16_of", "gemm_bf16_of", "gemm_f16_of", "standardize_of", "conv_dots_of"),
    *("average_integers_of", "map_integers_of", "map_twice_of", "sum_integers_of"),
    *("multiply_bytes_of", "depthwise_bf16_of", "map_bf16_of", "map_f16_of"),
    *("pool_bf16_of", "pool_f16_of", "matrices_bf16_of", "matrices_f16_of"),
    *("standardize_bf16_of", "standardize_f16_of", "normalize_bf16_of", "normalize_f16_of"),
}
"""Of kernels that threads share those that other tests compare: no sample is large enough, or made for them."""

_RNG = np.random.default_rng(6)
_ATTENTION = [
    Sample("Attention", (*[Arg((1, heads, 300, 8), 2)] * 3, *masks), given, 23)
    for heads in (1, 5)
    for masks, given in (((), {"is_causal": 1}), ((constant(_RNG, heads, 300, 300),), {}))
]
_LARGER = (
    Sample("Conv", (Arg((1, 32, 9, 40), 2), constant(_RNG, 64, 32, 3, 3)), {"pads": [1] * 4}),
    Sample("Conv", (Arg((1, 12, 9, 8), 2), constant(_RNG, 24, 4, 3, 3)), {"group": 3}),
    Sample("LayerNormalization", (Arg((1, 7, 16), 1), constant(_RNG, 16)), {"axis": -1}, 17),
    *_ATTENTION,
    one("QLinearGlobalAveragePool", U8, (1, 70, 6, 7)),
    one("QLinearAveragePool", U8, (1, 70, 6, 7), kernel_shape=[6, 7]),
    *(sample for sample in BYTES if sample.op_type in ("QLinearConv", "QLinearSoftmax")),
)
"""Of kernels that share no sample of `SAMPLES`, or not in every layout."""


def check_shared(sample: Sample, layout: Layout, count: int) -> None:
    """Threads write the bits of one."""
    alone = NativeKernels(load())
    layer, feeds = sample.layer(), sample.feeds()
    height = heights(layer)[-1]
    sizes = declared(layer, height, layout, None, alone)
    wanted = run_scattered(layer, feeds, height, layout, None, sizes, alone)
    found = run_scattered(layer, feeds, height, layout, None, sizes, alone.shared(count))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=str(sample))


@pytest.mark.parametrize("sample", _ATTENTION, ids=map(str, _ATTENTION))
def test_threads_share_queries_and_heads(sample: Sample) -> None:
    check_shared(sample, LAYOUTS[0], 2)


@pytest.mark.networks
@pytest.mark.parametrize("count", [2, 3])
def test_every_operator_in_parts(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small: threads write the bits of one, whichever kernels they share."""
    monkeypatch.setattr(threads, "_WORTH", 1)
    if count == 3:
        monkeypatch.setattr(threads, "_SECOND", 0)  # each weight is read by one thread
    seen: set[str] = set()

    def recorded(
        made: Instruction, parts: int, constants: Constants, together: int
    ) -> list[list[Instruction]]:
        found = threads.divide_among_threads(made, parts, constants, together)
        if found != [[made]]:
            seen.add(made.kernel)
        return found

    monkeypatch.setattr(bound, "divide_among_threads", recorded)
    some = zip(SAMPLES[count - 2 :: 3 * count - 5], cycle(LAYOUTS), strict=False)
    for sample, layout in (*some, *((larger, LAYOUTS[0]) for larger in _LARGER)):
        check_shared(sample, layout, count)
    for model in (keys_times_values(75, 4, 40, 70), perceptron()):
        plan = csdfgen.plan(csdfgen.load(model), backend="native")
        x = _RNG.standard_normal(plan.network.inputs[0].shape).astype(np.float32)
        (want,) = runtime.compile(plan)(x).values()
        (got,) = runtime.compile(plan, threads=count)(x).values()
        np.testing.assert_array_equal(got, want)
    if count == 2:
        assert threads._SPLITS.keys() - seen <= _NOT_IN_SAMPLES


@pytest.mark.parametrize("height", [4, 12, 24])
def test_threads_share_little_workspace(height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has room for one tile of a row, no part of the row has any."""
    monkeypatch.setattr(threads, "_WORTH", 1)
    graph = Graph()
    x = graph.input("x", (1, 32, 24, 200))
    for _ in range(2):
        weights = graph.constant(_RNG.standard_normal((32, 32, 3, 3)).astype(np.float32) / 17)
        x = graph.node("Conv", x, weights, pads=[1] * 4)
    network = csdfgen.load(graph.model(x))
    feeds = _RNG.standard_normal((1, 32, 24, 200)).astype(np.float32)
    for goal in ("memory", "speed"):
        plan = csdfgen.plan(network, goal=goal, rows=height, backend="native")
        (want,) = runtime.compile(plan)(feeds).values()
        for count in (2, 5):
            (got,) = runtime.compile(plan, threads=count)(feeds).values()
            np.testing.assert_array_equal(got, want)


def test_a_program_shared_by_threads(plan: Plan) -> None:
    """Frames wait for each other, every caller gets its own outputs."""
    frame, (tensor,) = runtime.compile(plan), plan.network.inputs
    rng = np.random.default_rng(4)
    images = [rng.standard_normal(tensor.shape).astype(np.float32) for _ in range(8)]
    wanted = [frame(x) for x in images]

    def repeatedly(number: int) -> bool:
        results = [frame(images[number]) for _ in range(50)]
        return all(
            np.array_equal(got[name], want)
            for got in results
            for name, want in wanted[number].items()
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(repeatedly, range(8)))


def test_more_threads_than_there_can_be(plan: Plan) -> None:
    with pytest.raises(InputError, match="threads=65: native code takes 1 to 64"):
        runtime.compile(plan, threads=65)
