"""A program is safe to share, writes into arrays that it is given, and converts inputs as it reads them."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from runtime.session import Executable
from tests.builder import Graph
from tests.small_models import residual_classifier


@pytest.fixture(scope="module")
def plan() -> Plan:
    return csdfgen.plan(csdfgen.load(residual_classifier()), rows=2)


def image(plan: Plan, seed: int) -> np.ndarray:
    (x,) = plan.network.inputs
    return np.random.default_rng(seed).uniform(-1, 1, x.shape).astype(np.float32)


def test_threads_that_share_a_program_get_their_own_outputs(plan: Plan) -> None:
    program = runtime.compile(plan)
    images = [image(plan, seed) for seed in range(60)]
    alone = [program(x)["scores"] for x in images]
    with ThreadPoolExecutor(4) as pool:
        shared = list(pool.map(lambda x: program(x)["scores"], images))
    assert all(np.array_equal(a, b) for a, b in zip(alone, shared, strict=True))


def test_outputs_go_into_the_arrays_that_are_given(plan: Plan) -> None:
    program = runtime.compile(plan)
    x = image(plan, 1)
    want = program(x)["scores"]
    mine = np.full_like(want, 7)
    got = program(x, out={"scores": mine})
    assert got["scores"] is mine and np.array_equal(mine, want)
    for wrong in (
        {"other": mine},
        {"scores": mine.astype(np.float64)},
        {"scores": mine[:, :-1]},
        {"scores": np.broadcast_to(np.float32(0), mine.shape)},
    ):
        with pytest.raises(InputError, match="out"):
            program(x, out=wrong)


def test_inputs_of_another_type_are_converted_row_by_row() -> None:
    graph = Graph()
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 3, 256, 256)), 4, strides=[2, 2]))
    plan = csdfgen.plan(csdfgen.load(graph.model(graph.node("GlobalAveragePool", x))), rows=1)
    pixels = np.random.default_rng(0).integers(0, 255, (1, 3, 256, 256)).astype(np.uint8)
    program = runtime.compile(plan)
    program(pixels)
    got, measured = program.measure(pixels)
    want = program(pixels.astype(np.float32))
    assert all(np.array_equal(got[name], want[name]) for name in want)
    assert measured.call_peak_bytes < pixels.size, "the image was converted whole"


def test_what_a_call_takes_is_told_with_its_outputs() -> None:
    graph = Graph()
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 3, 128, 128)), 16))
    plan = csdfgen.plan(csdfgen.load(graph.model(x)), rows=1, result="stored")
    _, measured = runtime.compile(plan).measure(image(plan, 0))
    output = 16 * 128 * 128 * 4
    assert measured.python_peak_bytes < 65536 < output <= measured.call_peak_bytes < output + 65536


def test_a_plan_shows_itself_in_a_line_and_can_be_pickled(plan: Plan) -> None:
    assert len(repr(plan)) < 200 and "arena" in repr(plan)
    assert "arena" in plan._repr_html_()
    again = pickle.loads(pickle.dumps(plan))
    x = image(plan, 2)
    assert np.array_equal(runtime.run(again, x)["scores"], runtime.run(plan, x)["scores"])


def test_an_unknown_backend_is_refused(plan: Plan) -> None:
    with pytest.raises(InputError, match="not one of auto, native, numpy"):
        runtime.compile(plan, backend="abacus")


# float16 accumulates ----------------------------------------------------------------------------


def pooled(dtype: str) -> Network:
    graph = Graph()
    x = graph.node("Relu", graph.input("x", (1, 64, 56, 56), dtype=dtype))
    return csdfgen.load(graph.model(graph.node("GlobalAveragePool", x)))


def classified(dtype: str) -> Network:
    """Flatten and Gemm behind a map of 64x56x56."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((64 * 56 * 56, 10)) * 0.01).astype(dtype)
    code = TensorProto.FLOAT16 if dtype == "float16" else TensorProto.FLOAT
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, code, shape)
        for name, shape in (("x", [1, 64, 56, 56]), ("y", [1, 10]))
    ]
    made = helper.make_graph(
        nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")]
    )
    return csdfgen.load(
        helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )


@pytest.mark.parametrize("make", [pooled, classified])
def test_float16_takes_no_more_than_float32(make: object) -> None:
    plans = {
        dtype: csdfgen.plan(make(dtype), count="activations") for dtype in ("float16", "float32")
    }  # type: ignore[operator]
    half, single = (plans[dtype].planned_bytes for dtype in ("float16", "float32"))
    assert half <= single < 20_000
    x = np.random.default_rng(1).uniform(-1, 1, (1, 64, 56, 56)).astype(np.float32)
    (ours,) = runtime.run(plans["float16"], x.astype(np.float16)).values()
    (want,) = runtime.run(plans["float32"], x.astype(np.float16).astype(np.float32)).values()
    np.testing.assert_allclose(ours.astype(np.float32), want, rtol=2e-2, atol=2e-3)
    _, measured = runtime.compile(plans["float16"]).measure(x.astype(np.float16))
    assert measured.touched_bytes == half


@pytest.mark.parametrize(
    ("backend", "fuse"), [("numpy", "full"), ("auto", "full"), ("auto", "none")]
)
def test_a_network_goes_with_its_weights_when_nobody_holds_it(backend: str, fuse: str) -> None:
    """At once, not when garbage is collected: weights may be large, and are few objects."""
    network = csdfgen.load(residual_classifier())
    plan = csdfgen.plan(network, backend=backend, fuse=fuse)
    program = runtime.compile(plan)
    program(image(plan, 1))
    there = [weakref.ref(one) for one in (network, *plan.conversion.network.layers)]
    gc.collect()
    gc.disable()
    try:
        del network, plan, program
        assert not [one for one in there if one() is not None]
    finally:
        gc.enable()


# What does not fit is refused in a sentence -----------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda net, frame, x: frame(x, out=x), "out is a ndarray; a dict of arrays"),
        (lambda net, frame, x: frame(x, out=[x]), "out is a list; a dict of arrays"),
        (lambda net, frame, x: frame(x, out={"scores": [1.0]}), r"out\['scores'\] is a list"),
        (lambda net, frame, x: frame(x, out=[], on_rows=print), "out and on_rows"),
        (lambda net, frame, x: runtime.compile(frame.plan, threads=1.5), "threads=1.5: a whole"),
        (lambda net, frame, x: runtime.compile(frame.plan, threads=0), "threads=0: a whole"),
        (lambda net, frame, x: runtime.compile(frame.plan, taps=["zz"]), "taps names 'zz'"),
        (lambda net, frame, x: runtime.compile(net), "a Network cannot be compiled; csdfgen.plan"),
        (lambda net, frame, x: runtime.compile_table(frame.plan), "csdfgen.plan_table makes"),
        (lambda net, frame, x: runtime.run("a.onnx", x), "a str cannot be compiled"),
        (lambda net, frame, x: csdfgen.load(""), "the name of the model is empty"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    plan: Plan, call: Callable[[Network, Executable, np.ndarray], object], said: str
) -> None:
    with pytest.raises(CsdfgenError, match=said) as caught:
        call(plan.network, runtime.compile(plan), image(plan, 1))
    assert "\n" not in str(caught.value)


def test_an_array_that_is_not_aligned_takes_no_outputs(plan: Plan) -> None:
    """Kernels write floats at multiples of four bytes alone."""
    program, x = runtime.compile(plan), image(plan, 1)
    (want,) = program(x).values()
    raw = np.zeros(want.nbytes + 1, np.uint8)
    odd = raw[1 - raw.ctypes.data % 2 :][: want.nbytes].view(want.dtype).reshape(want.shape)
    assert not odd.flags.aligned
    with pytest.raises(InputError, match="not aligned"):
        program(x, out={"scores": odd})


def test_a_program_shows_itself_in_a_line(plan: Plan) -> None:
    shown = repr(runtime.compile(plan, threads=2))
    assert "threads 2" in shown and "firings" in shown and "MiB" in shown and len(shown) < 200
