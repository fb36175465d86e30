"""bfloat16: rounded to the nearest as it is stored, computed in float32, in both backends and in emitted C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.errors import CsdfgenError
from csdfgen.precision import run_as
from csdfgen.precision.bfloat16 import convert_to_bfloat16
from runtime.reference import Reference
from tests.builder import Graph
from tests.command import Call, refused
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.networks import check_touched, feeds
from tests.random_networks import models, row_choices
from tests.small_models import residual_classifier, squeeze_and_excite, two_inputs

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

BACKENDS = ("numpy", pytest.param("native", marks=needs_compiler))

STEP = 2.0**-8
"""From a value to the next in bfloat16, at most, as a part of it."""

BITS = (
    0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF, 0x7FC12345, 0x00000001, 0x0000FFFF,
    0x80017FFF, 0x00018000, 0x3F807FFF, 0x3F808000, 0x3F808001, 0x3F818000, 0xBF818000, 0x7F7F7FFF, 0x7F7F8000,
)  # fmt: skip
"""float32: zeros, infinities, what is no number, subnormals, ties to even in both directions, and the largest values."""


def graph_of(
    nodes: list[onnx.NodeProto],
    shape: tuple[int, ...],
    of: int,
    to: int,
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """A model from x to y, of these element types."""
    value = helper.make_tensor_value_info
    made = helper.make_graph(
        nodes,
        "small",
        [value("x", of, shape)],
        [value("y", to, None)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def run(model: onnx.ModelProto, x: Any, backend: str, **options: Any) -> dict[str, np.ndarray]:
    plan = csdfgen.plan(csdfgen.load(model), backend=backend, **options)
    return {k: v.copy() for k, v in runtime.compile(plan, backend=backend)(x).items()}


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounded_to_the_nearest_half_to_even(backend: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.array(BITS, np.uint32), rng.integers(0, 2**32, 2030, np.uint32)])
    x = x.reshape(1, 1, 32, 64).view(np.float32)
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    y = run(graph_of([cast], x.shape, TensorProto.FLOAT, TensorProto.BFLOAT16), x, backend)["y"]
    assert y.dtype.name == "bfloat16"
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y.view(np.uint16), x.astype("bfloat16").view(np.uint16))
    back = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    z = run(graph_of([back], y.shape, TensorProto.BFLOAT16, TensorProto.FLOAT), y, backend)["y"]
    np.testing.assert_array_equal(z.view(np.uint32), y.view(np.uint16).astype(np.uint32) << 16)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("other", ["float16", "float64", "int8", "uint16", "int64", "bool"])
def test_casts_to_and_from_other_types(other: str, backend: str) -> None:
    x = np.random.default_rng(1).integers(0, 100, (1, 2, 5, 7)).astype(other)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(other))
    to = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    y = run(graph_of([to], x.shape, code, TensorProto.BFLOAT16), x, backend)["y"]
    np.testing.assert_array_equal(y, x.astype("bfloat16"))
    back = helper.make_node("Cast", ["x"], ["y"], to=code)
    z = run(graph_of([back], x.shape, TensorProto.BFLOAT16, code), y, backend)["y"]
    assert z.dtype == x.dtype
    np.testing.assert_array_equal(z, x)


def random(*shape: int) -> np.ndarray:
    return (np.random.default_rng(len(shape)).standard_normal(shape) / 3).astype("bfloat16")


def node(kind: str, *constants: np.ndarray, **attributes: Any) -> tuple[Any, ...]:
    return kind, constants, attributes


CASES = {
    "conv": node("Conv", random(8, 4, 3, 3), random(8), pads=[1, 1, 1, 1]),
    "wide conv": node("Conv", random(24, 4, 3, 3), strides=[2, 1]),
    "depthwise": node("Conv", random(4, 1, 3, 3), random(4), group=4, pads=[0, 1, 0, 1]),
    "transposed": node("ConvTranspose", random(4, 3, 2, 2), strides=[2, 2]),
    "matmul": node("MatMul", random(11, 5)),
    "relu": node("Relu"),
    "clip": node("Clip", random(1, 1)[0, 0] * 0, np.array(0.5, "bfloat16")),
    "sigmoid": node("Sigmoid"),
    "swish-like": node("HardSwish"),
    "gelu": node("Gelu"),
    "add": node("Add", random(4, 1, 1)),
    "mul": node("Mul", random(1, 4, 9, 11)),
    "prelu": node("PRelu", random(4, 1, 1)),
    "max": node("MaxPool", kernel_shape=[3, 3], strides=[2, 2]),
    "average": node("AveragePool", kernel_shape=[2, 2]),
    "global": node("GlobalAveragePool"),
    "sum": node("ReduceSum", np.array([2]), keepdims=1),
    "softmax": node("Softmax", axis=1),
    "layer norm": node("LayerNormalization", random(11), random(11)),
    "batch norm": node(
        "BatchNormalization", random(4), random(4), random(4), np.abs(random(4)) + random(1) * 0
    ),
    "instance norm": node("InstanceNormalization", random(4), random(4)),
    "transpose": node("Transpose", perm=[0, 2, 3, 1]),
    "pad": node("Pad", np.array([0, 0, 1, 2, 0, 0, 0, 1]), np.array(0.75, "bfloat16")),
    "slice": node("Slice", np.array([1, 2]), np.array([8, 9]), np.array([2, 3])),
    "concat": node("Concat", random(1, 3, 9, 11), axis=1),
    "linear": node(
        "Resize", np.empty(0, "bfloat16"), np.array([1, 1, 2, 1.5], np.float32), mode="linear"
    ),
    "nearest": node("Resize", np.empty(0, "bfloat16"), np.array([1, 1, 2, 1.5], np.float32)),
}


def case(name: str) -> onnx.ModelProto:
    kind, constants, attributes = CASES[name]
    names = [f"c{k}" for k in range(len(constants))]
    made = helper.make_node(kind, ["x", *names], ["y"], **attributes)
    given = dict(zip(names, constants, strict=True))
    return graph_of([made], (1, 4, 9, 11), TensorProto.BFLOAT16, TensorProto.BFLOAT16, given)


@pytest.mark.parametrize("name", CASES)
def test_operators_are_float32_s_rounded_once(name: str) -> None:
    """onnxruntime's result in float32 differs by what the order of a sum changes, and that may round to a neighbour."""
    model = case(name)
    x = random(1, 4, 9, 11)
    found = [run(model, x, "numpy", rows=rows)["y"] for rows in ("auto", "1", "whole")]
    if not compiler_missing():
        found += [run(model, x, "native", rows=rows)["y"] for rows in ("auto", "1", "whole")]
    (want,) = Reference(model, csdfgen.load(model))({"x": x}).values()
    for got in found:
        assert got.dtype.name == "bfloat16" and got.shape == want.shape
        a, b = got.astype(np.float64), want.astype(np.float64)
        assert np.all(np.abs(a - b) <= STEP * np.abs(b) + 1e-6)
        assert np.mean(got != want) < 0.02
    for got in found[1:3]:
        np.testing.assert_array_equal(got, found[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_bits_of_elements_that_are_repeated_stay(backend: str) -> None:
    x = np.random.default_rng(0).integers(0, 2**16, (1, 4, 9, 11), np.uint16).view("bfloat16")
    repeated = helper.make_node("Resize", ["x", "", "scales"], ["y"])
    of, given = TensorProto.BFLOAT16, {"scales": np.array([1, 1, 2, 3], np.float32)}
    y = run(graph_of([repeated], x.shape, of, of, given), x, backend)["y"].view(np.uint16)
    np.testing.assert_array_equal(y[:, :, ::2, 1::3], x.view(np.uint16))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_relu_in_the_slab_changes_no_bit(backend: str) -> None:
    model = convert_to_bfloat16(onnx.shape_inference.infer_shapes(residual_classifier()))
    inputs = feeds(model)
    one, other = (run(model, inputs, backend, fuse=level) for level in ("none", "full"))
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])
    applied = [
        layer.stored.applied
        for layer in csdfgen.plan(csdfgen.load(model)).network.layers
        if layer.stored is not None
    ]
    assert any(applied)


@pytest.mark.parametrize("make", [residual_classifier, two_inputs, squeeze_and_excite])
def test_the_converted_model_is_onnx(make: Callable[[], onnx.ModelProto]) -> None:
    """All weights and activations in bfloat16, between float32 ends."""
    model = convert_to_bfloat16(onnx.shape_inference.infer_shapes(make()))
    onnx.checker.check_model(model, full_check=True)
    assert {one.data_type for one in model.graph.initializer} <= {
        TensorProto.BFLOAT16,
        TensorProto.INT64,
    }
    network = csdfgen.load(model)
    ends = {tensor.name for tensor in network.inputs} | {one.name for one in network.outputs}
    for tensor in network.tensors.values():
        assert tensor.dtype == ("float32" if tensor.name in ends else "bfloat16")


def test_what_a_schema_wants_in_float32_stays() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["wide"]),
        helper.make_node("Resize", ["wide", "", "scales"], ["large"], mode="linear"),
        helper.make_node("TopK", ["large", "k"], ["y", "places"], axis=-1),
    ]
    constants = {
        "two": np.array(2, np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "k": np.array([3]),
    }
    model = graph_of(nodes, (1, 2, 4, 5), TensorProto.FLOAT, TensorProto.FLOAT, constants)
    made = convert_to_bfloat16(onnx.shape_inference.infer_shapes(model))
    onnx.checker.check_model(made, full_check=True)
    kinds = {one.name: one.data_type for one in made.graph.initializer}
    assert kinds["scales"] == TensorProto.FLOAT and kinds["two_bfloat16"] == TensorProto.BFLOAT16
    top = next(node for node in made.graph.node if node.op_type == "TopK")
    assert top.input[0] == "large"  # the float32 one: ranks are not to change
    x = feeds(model)
    np.testing.assert_allclose(run(made, x, "numpy")["y"], run(model, x, "numpy")["y"], atol=1e-2)


def test_values_that_bfloat16_does_not_have_are_refused() -> None:
    nodes = [helper.make_node("Mul", ["x", "large"], ["y"])]
    constants = {"large": np.array(3.4e38, np.float32)}
    model = graph_of(nodes, (1, 2, 4, 5), TensorProto.FLOAT, TensorProto.FLOAT, constants)
    with pytest.raises(CsdfgenError, match=r"constant 'large' holds values above 3\.39e38"):
        convert_to_bfloat16(onnx.shape_inference.infer_shapes(model))


@pytest.mark.networks
@needs_compiler
@pytest.mark.parametrize("part", range(2))
def test_random_networks(part: int) -> None:
    """Plans of both backends at random heights, against onnxruntime in float32 with the same weights."""

    @seed(part)
    @settings(
        max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data(), models())
    def run_one(data: st.DataObject, model: onnx.ModelProto) -> None:
        made = convert_to_bfloat16(onnx.shape_inference.infer_shapes(model))
        note(onnx.printer.to_text(made))
        network = csdfgen.load(made)
        fused = csdfgen.plan(network, backend="numpy").network.layers
        rows = row_choices(data.draw, [layer.name for layer in fused])
        note(f"--rows {rows}")
        inputs = feeds(model)
        wanted = Reference(made, network)(inputs)
        for backend in ("numpy", "native"):
            plan = csdfgen.plan(network, rows=rows, backend=backend)
            got, measured = runtime.compile(plan, backend=backend).measure(inputs)
            check_touched(plan, measured.touched_bytes)
            for name, want in wanted.items():
                largest = float(np.abs(want).max(initial=1e-3))
                np.testing.assert_allclose(got[name], want, rtol=0.05, atol=0.03 * largest)

    run_one()


@pytest.mark.networks
@needs_compiler
@pytest.mark.parametrize("scalar", [False, True])
def test_emitted_c_agrees_within_a_rounding(scalar: bool, tmp_path: Path) -> None:
    """Sums of float32 differ in their order, so that a stored result may be the neighbour."""
    model = convert_to_bfloat16(onnx.shape_inference.infer_shapes(squeeze_and_excite()))
    plan = csdfgen.plan(csdfgen.load(model), backend="native")
    program = Program(plan, tmp_path / "c", target="generic" if scalar else "host")
    inputs = feeds(model)
    want = runtime.compile(plan, backend="native")(inputs)
    for name, array in program(inputs).items():
        np.testing.assert_allclose(array, want[name], rtol=2 * STEP, atol=1e-3 if scalar else 0)


def test_devices_refuse_it_in_a_sentence() -> None:
    (layer,) = csdfgen.load(case("relu")).layers
    why = DeviceKernels.refusal(object.__new__(DeviceKernels), layer)
    assert why is not None and why.startswith("bfloat16 has no kernels on devices; store")


def test_the_command_line_writes_it(call: Call) -> None:
    """With less than three quarters of float32's arena; the written model runs, and is compared with float32."""
    np.save("x.npy", np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32))
    given = ("--format", "bfloat16", "--calibrate", "x.npy", "-o", "half.onnx", "--json")
    made = call("quantize", "zoo:resnet8", *given).json
    assert made["sqnr_db"] > 35 and made["formats"]["bfloat16"] > 10
    assert made["figures"]["arena"] < 0.75 * made["figures"]["float_arena"]
    assert call("run", "half.onnx", "--check", "--json").json["ok"]


def test_a_float32_model_runs_in_it(call: Call) -> None:
    """The same outputs as those of the model that quantize writes, compared with the float32 model."""
    call("quantize", "zoo:resnet8", "--format", "bfloat16", "-o", "half.onnx")
    call("run", "half.onnx", "-o", "stored.npz")
    given = ("run", "zoo:resnet8", "--precision", "bfloat16")
    made = call(*given, "-o", "here.npz", "--check", "--json").json
    assert made["ok"] and made["precision"]["used"] == "bfloat16"
    assert 40 < made["sqnr_db"]["probabilities"] < 70
    with np.load("stored.npz") as want, np.load("here.npz") as got:
        np.testing.assert_array_equal(got["probabilities"], want["probabilities"])
    assert (
        made["measured_bytes"] < 0.75 * call("run", "zoo:resnet8", "--json").json["measured_bytes"]
    )
    assert "dB signal to noise" in call(*given, "--check").out
    call("schedule", "zoo:resnet8", "-o", "plan.json")
    assert "leave --precision out" in refused(call(*given, "--plan", "plan.json"))
    front = call("run", "zoo:resnet8", "--pareto", "--precision", "auto")
    assert "give --precision bfloat16" in refused(front)


@pytest.mark.parametrize("quicker", ["float32", "bfloat16"])
def test_auto_is_what_was_measured_to_take_less_time(
    quicker: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = run_as._timed

    def slowed(*given: Any) -> dict[str, float]:
        found = timed(*given)
        assert set(found) == {"float32", "bfloat16"} and min(found.values()) > 0
        return {name: 1.0 + (name != quicker) for name in found}

    monkeypatch.setattr(run_as, "_timed", slowed)
    made = call("run", "zoo:resnet8", "--precision", "auto", "--json").json
    assert made["precision"]["used"] == quicker
    halves = csdfgen.report("zoo:resnet8", precision="auto", check=None).plan.network.tensors
    assert any(one.dtype == "bfloat16" for one in halves.values()) is (quicker == "bfloat16")


def test_auto_is_float32_where_there_is_no_choice(call: Call) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    np.save("x.npy", x)
    call("quantize", "zoo:resnet8", "--calibrate", "x.npy", "-o", "bytes.onnx")
    made = call("run", "bytes.onnx", "--precision", "auto", "--json").json["precision"]
    assert made["used"] == "float32" and "quantized already" in made["why"]
    assert "give the float model" in refused(call("run", "bytes.onnx", "--precision", "bfloat16"))


def test_fixed_inputs_and_sizes_are_those_of_the_run() -> None:
    g = Graph()
    x, factor = g.input("x", (1, 3, None, 16)), g.input("factor", (1,))
    model = g.model(g.node("Mul", g.conv(x, 8), factor))
    shapes, fix = {"x": (1, 3, 12, 16)}, {"factor": 0.75}
    network = csdfgen.load(model, shapes=shapes, fix=fix)
    made = run_as.convert_precision("bfloat16", network, model, csdfgen.load, shapes)
    assert [one.name for one in made.inputs] == ["x"] and made.inputs[0].shape == (1, 3, 12, 16)
    assert csdfgen.report(csdfgen.plan(made), reference=model).ok


def test_rows_handed_on_have_the_same_noise() -> None:
    found = [
        csdfgen.report("zoo:resnet8", precision="bfloat16", result=result).comparisons
        for result in (None, "streamed")
    ]
    (stored,), (streamed,) = (one or () for one in found)
    assert stored.sqnr_db == pytest.approx(streamed.sqnr_db)
    assert csdfgen.report("zoo:resnet8").comparisons[0].sqnr_db is None  # type: ignore[index]


def test_a_network_has_its_precision() -> None:
    network = csdfgen.load("zoo:resnet8")
    with pytest.raises(CsdfgenError, match="a network has its formats"):
        csdfgen.report(network, precision="bfloat16")
    with pytest.raises(CsdfgenError, match="precision='half': not one of auto, float32, bfloat16"):
        csdfgen.report("zoo:resnet8", precision="half")


def wide() -> onnx.ModelProto:
    """Rows whose values take more than the least workspace: padding on both sides, strides, dilation, windows, pieces."""
    g = Graph()
    x = g.input("x", (1, 8, 24, 150))
    a = g.node("Relu", g.conv(x, 24))
    a = g.node("MaxPool", a, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    b = g.conv(a, 24, pads=[2, 2, 2, 2], dilations=[2, 2])
    c = g.node("HardSwish", g.node("Add", a, b))
    d = g.node("AveragePool", g.node("Concat", c, b, axis=1), kernel_shape=[2, 3], strides=[1, 2])
    return g.model(g.node("Sigmoid", d))


@needs_compiler
def test_steps_are_cut_into_columns_where_memory_is_short() -> None:
    """Bytes of values then cost little: the arena is about half of float32's."""
    model = wide()
    made = convert_to_bfloat16(onnx.shape_inference.infer_shapes(model))
    network, inputs = csdfgen.load(made), feeds(model)
    plans = [csdfgen.plan(network, backend="native", goal=goal) for goal in ("memory", "speed")]
    full = csdfgen.plan(csdfgen.load(model), backend="native", goal="memory")
    assert plans[0].figures["arena"] < 0.62 * full.figures["arena"]
    (want,) = Reference(made, network)(inputs).values()
    largest = float(np.abs(want).max())
    for plan in plans:
        got, measured = runtime.compile(plan, backend="native").measure(inputs)
        check_touched(plan, measured.touched_bytes)
        np.testing.assert_allclose(*got.values(), want, rtol=0.05, atol=0.02 * largest)


@pytest.mark.parametrize("rows", ["auto", "whole"])
@needs_compiler
def test_columns_that_a_concat_exchanges_are_cut_where_they_lie(rows: str) -> None:
    """Steps are cut into columns, and their input lies in two pieces along them."""
    g = Graph(opset=13)
    x = g.conv(g.input("x", (1, 8, 12, 96)), 48)
    bounds = ((70, 96), (0, 70))
    parts = [
        g.node("Slice", x, *(g.constant(np.array([v])) for v in (*ends, 3))) for ends in bounds
    ]
    y = g.node("Add", x, g.node("Concat", *parts, axis=3))
    network = csdfgen.load(convert_to_bfloat16(g.model(g.node("Mul", y, y))))
    numpy, native = (
        runtime.run(csdfgen.plan(network, backend=one, rows=rows), g.feeds())
        for one in ("numpy", "native")
    )
    for name, want in numpy.items():
        np.testing.assert_allclose(native[name], want, rtol=4 * STEP, atol=4 * STEP)
