"""LSTM, GRU and RNN in networks: directions, outputs that nobody reads, layouts, and what is refused."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.library import load
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.errors import ModelError, ToolError
from csdfgen.ops import get_operator
from csdfgen.ops.base import LEAST, Mode
from csdfgen.ops.recurrent import _PARAMETERS
from tests.counting import count_calls
from tests.emitted import Program
from tests.native_steps import MACHINES, compiler_missing, on_each_machine
from tests.op_harness import Sample
from tests.op_samples.recurrent import SAMPLES
from tests.scattered import Layout, run_scattered

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BACKENDS = pytest.mark.parametrize(
    "backend",
    [
        "numpy",
        pytest.param(
            "native",
            marks=pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
        ),
    ],
)


def model(
    op_type: str,
    outputs: tuple[str, ...],
    *,
    steps: int = 9,
    batch: int = 1,
    values: int = 8,
    hidden: int = 20,
    states: bool = False,
    weights: int = 0,
    **attributes: Any,
) -> onnx.ModelProto:
    """A network of one node. states: the initial ones are inputs of the network."""
    rng, rows = np.random.default_rng(5), GATES[op_type] * hidden
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    layout = attributes.get("layout", 0)
    shapes = {
        "W": (directions, rows, values),
        "R": (directions, rows, hidden + weights),
        "B": (directions, 2 * rows),
    }
    constants = [
        numpy_helper.from_array(rng.uniform(-0.4, 0.4, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    x = (batch, steps, values) if layout else (steps, batch, values)
    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    names = (["h"] if op_type != "LSTM" else ["h", "c"]) if states else []
    inputs = [("X", x), *((name, state) for name in names)]
    node = helper.make_node(
        op_type,
        ["X", "W", "R", "B", *([""] if names else []), *names],
        outputs,
        name="recurrent",
        hidden_size=hidden,
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "recurrent",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs if name],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def fed(network: csdfgen.Network) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        t.name: rng.uniform(-1, 1, network.whole_shape(t)).astype(t.dtype) for t in network.inputs
    }


def as_onnxruntime(made: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # several quantize the hidden values of some sequences each
    given = options, ["CPUExecutionProvider"]
    session = ort.InferenceSession(made.SerializeToString(), *given)
    return [np.asarray(array) for array in session.run(None, feeds)]


@BACKENDS
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_networks_equal_others(op_type: str, direction: str, states: bool, backend: str) -> None:
    """All outputs, the sequence alone, the last states alone; at several heights."""
    every = ("Y", "Y_h", "Y_c")[: 3 if op_type == "LSTM" else 2]
    for outputs in (every, every[:1], ("", *every[1:])):
        made = model(op_type, outputs, direction=direction, states=states, batch=2)
        network = csdfgen.load(made)
        feeds = fed(network)
        want = as_onnxruntime(made, feeds)
        for rows in (1, 4, "whole"):
            got = runtime.compile(csdfgen.plan(network, rows=rows, backend=backend))(feeds)
            for name, expected in zip(filter(None, outputs), want, strict=True):
                np.testing.assert_allclose(got[name], expected, rtol=1e-4, atol=1e-5)


@BACKENDS
@pytest.mark.parametrize("op_type", GATES)
def test_lengths_that_are_known_end_some_sequences_early(op_type: str, backend: str) -> None:
    made = model(op_type, ("Y", "Y_h"), steps=4, batch=3)
    made.graph.initializer.append(numpy_helper.from_array(np.array([4, 2, 3], np.int32), "lengths"))
    made.graph.node[0].input.extend(["lengths"][: len(made.graph.node[0].input) < 5])
    network = csdfgen.load(made)
    feeds = fed(network)
    found = runtime.run(csdfgen.plan(network, backend=backend), feeds)
    for one, other in zip(found.values(), as_onnxruntime(made, feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


@BACKENDS
@pytest.mark.parametrize("activation", _PARAMETERS)
def test_any_activation_of_any_number_of_steps(activation: str, backend: str) -> None:
    """Some take scratch of their own, which the block of steps leaves to them."""
    given: dict[str, Any] = {"direction": "bidirectional", "activations": [activation] * 2}
    for name, default in zip(("alpha", "beta"), _PARAMETERS[activation], strict=True):
        given |= {} if default is None else {f"activation_{name}": [0.4, 0.3]}
    for steps, goal in ((2, "balanced"), (7, "balanced"), (7, "memory"), (40, "memory")):
        made = model("RNN", ("Y", "Y_h"), steps=steps, batch=2, **given)
        network = csdfgen.load(made)
        feeds = fed(network)
        found = runtime.run(csdfgen.plan(network, goal=goal, backend=backend), feeds)
        for one, other in zip(found.values(), as_onnxruntime(made, feeds), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("activation", list(_PARAMETERS))
def test_activations_without_parameters_are_those_of_onnxruntime_or_refused(
    activation: str,
) -> None:
    made = model("RNN", ("Y",), activations=[activation])
    if activation in ("Affine", "ScaledTanh", "ThresholdedRelu"):
        with pytest.raises(ModelError, match="has no alpha, which is 1 in ONNX and 0 in onnxrun"):
            csdfgen.load(made)
        return
    network = csdfgen.load(made)
    feeds = fed(network)
    got = runtime.compile(csdfgen.plan(network, backend="numpy"))(feeds)
    np.testing.assert_allclose(got["Y"], as_onnxruntime(made, feeds)[0], rtol=1e-4, atol=1e-5)


def test_both_directions_have_activations_of_their_own() -> None:
    made = model(
        "GRU",
        ("Y",),
        direction="bidirectional",
        activations=["HardSigmoid", "Elu", "Sigmoid", "LeakyRelu"],
        activation_alpha=[0.3, 0.7, 0.05],
        activation_beta=[0.4],
    )
    network = csdfgen.load(made)
    feeds = fed(network)
    got = runtime.compile(csdfgen.plan(network, backend="numpy"))(feeds)
    np.testing.assert_allclose(got["Y"], as_onnxruntime(made, feeds)[0], rtol=1e-4, atol=1e-5)


@BACKENDS
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_batches_in_front_or_in_the_middle(op_type: str, direction: str, backend: str) -> None:
    """onnxruntime does not know layout 1."""
    outputs = ("Y", "Y_h", "Y_c")[: 3 if op_type == "LSTM" else 2]
    settings: dict[str, Any] = {"batch": 3, "direction": direction, "states": True}
    plain = model(op_type, outputs, **settings)
    network = csdfgen.load(model(op_type, outputs, layout=1, **settings))
    feeds = fed(network)
    want = as_onnxruntime(plain, {k: v.transpose(1, 0, 2).copy() for k, v in feeds.items()})
    got = runtime.compile(csdfgen.plan(network, rows=2, backend=backend))(feeds)
    for name, expected in zip(outputs, want, strict=True):
        axes = (2, 0, 1, 3) if expected.ndim == 4 else (1, 0, 2)
        np.testing.assert_allclose(got[name], expected.transpose(axes), rtol=1e-4, atol=1e-5)


def test_a_forward_layer_holds_its_slab_and_its_state() -> None:
    sizes = [
        csdfgen.plan(
            csdfgen.load(model("LSTM", ("Y",), steps=steps)),
            rows=1,
            backend="numpy",
            result="stored",
        ).planned_bytes
        for steps in (10, 200)
    ]
    assert sizes[0] == sizes[1]


def test_the_last_states_alone_are_accumulated() -> None:
    (layer,) = csdfgen.load(model("GRU", ("", "Y_h"))).layers
    assert get_operator(layer).mode(layer) is Mode.ACCUMULATE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": 1}, "the recurrent weights, is float32 of shape"),
        ({"activations": ["Cube"]}, "activation 'Cube' is not one of Affine"),
        ({"activations": ["Tanh", "Tanh"]}, "'activations' has 2 names, 1 are needed"),
        ({"direction": "sideways"}, "direction='sideways' is not one of forward"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        csdfgen.load(model("RNN", ("Y",), **settings))


KERNELS = [sample for sample in SAMPLES if sample.layer() and match_family(sample.layer())]


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@on_each_machine
@pytest.mark.parametrize("sample", KERNELS, ids=map(str, KERNELS))
def test_kernels_make_equal_bits_at_every_height_in_any_workspace(
    sample: Sample, machine: str
) -> None:
    try:
        kernels = NativeKernels(load(MACHINES[machine]))
    except ToolError as error:
        pytest.skip(str(error))
    layer, feeds = sample.layer(), sample.feeds()
    want = sample.reference(layer, feeds)
    runs = [
        run_scattered(layer, feeds, height, Layout(), limit, None, kernels)
        for height in (1, 3, 100)
        for limit in (None, 0)
    ]
    # without vectors, the compiler chooses which sums are fused with their products
    exact = machine != "scalar"
    for one in runs:
        for got, first, expected in zip(one, runs[0], want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
            assert np.abs(got - first).max() <= (0 if exact else 1e-6)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_inputs_in_pieces_are_multiplied_piece_by_piece() -> None:
    """A layer behind a layer of both directions, and behind a Concat of values."""
    sample = next(one for one in KERNELS if one.op_type == "LSTM")
    layer, feeds = sample.layer(), sample.feeds()
    want = sample.reference(layer, feeds)
    for backend in (NUMPY, NativeKernels(load())):
        found = run_scattered(layer, feeds, 3, Layout(pieces=2, block=2), None, None, backend)
        for got, expected in zip(found, want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize("op_type", GATES)
def test_emitted_code_keeps_the_states(op_type: str, tmp_path: Path) -> None:
    outputs = ("Y", "Y_h")
    made = model(op_type, outputs, direction="bidirectional", states=True)
    network = csdfgen.load(made)
    program = Program(csdfgen.plan(network, rows=2, backend="native"), tmp_path / "c")
    feeds = fed(network)
    found = program(feeds)
    for name, expected in zip(outputs, as_onnxruntime(made, feeds), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)


def _model_of_bytes(steps: int, hidden: int, batch: int) -> onnx.ModelProto:
    """DynamicQuantizeLSTM of 6 values."""
    rng, wide = np.random.default_rng(7), 4 * hidden
    weights = [rng.integers(-90, 90, (1, rows, wide)).astype(np.int8) for rows in (6, hidden)]
    bias = rng.normal(0, 0.1, (1, 2 * wide)).astype(np.float32)
    of_weights = np.full(1, 0.01, np.float32), np.zeros(1, np.int8)
    constants = dict(zip("WRBsz", (*weights, bias, *of_weights), strict=True))
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "W", "R", "B", *[""] * 4, *"szsz"], ["Y", "H", "C"],
        domain="com.microsoft", hidden_size=hidden,
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [steps, batch, 6])
    made = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in node.output]
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "bytes", [x], made, arrays)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@BACKENDS
@pytest.mark.parametrize(("hidden", "batch"), [(20, 1), (32, 1), (7, 3)])
def test_hidden_values_are_bytes(hidden: int, batch: int, backend: str) -> None:
    """At every height; few steps of a batch, so that no value is rounded otherwise."""
    made = _model_of_bytes(3 if batch > 1 else 40, hidden, batch)
    network = csdfgen.load(made)
    feeds = fed(network)
    whole = None
    for rows in ("whole", "1"):
        found = runtime.run(csdfgen.plan(network, rows=rows, backend=backend), feeds)
        whole = found if whole is None else whole
        for name, expected in zip("YHC", as_onnxruntime(made, feeds), strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(found[name], whole[name])


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_emitted_code_has_hidden_values_of_bytes(tmp_path: Path) -> None:
    made = _model_of_bytes(9, 20, 1)
    network = csdfgen.load(made)
    feeds = fed(network)
    found = Program(csdfgen.plan(network, backend="native"), tmp_path / "c")(feeds)
    for name, expected in zip("YHC", as_onnxruntime(made, feeds), strict=True):
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)


@BACKENDS
def test_states_that_are_fed_back_make_a_stream_in_constant_memory(backend: str) -> None:
    """Frames of one step each equal one sequence, and no frame leaves anything behind."""
    outputs, steps = ("Y", "Y_h", "Y_c"), 400
    whole = model("LSTM", outputs, steps=steps, states=True)
    feeds = fed(csdfgen.load(whole))
    frame = runtime.compile(
        csdfgen.plan(csdfgen.load(model("LSTM", outputs, steps=1, states=True)), backend=backend)
    )
    h, c = feeds["h"], feeds["c"]
    made, held = [], []
    tracemalloc.start()
    try:
        for x in feeds["X"]:
            result = frame({"X": x[None], "h": h, "c": c})
            h, c = result["Y_h"], result["Y_c"]
            made.append(result["Y"].copy())
            held.append(tracemalloc.get_traced_memory()[0] - sum(one.nbytes for one in made))
    finally:
        tracemalloc.stop()
    want = as_onnxruntime(whole, feeds)
    for got, expected in zip((np.concatenate(made), h, c), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert held[-1] - held[50] < 400 * len(held)  # the objects of the copies that are kept here


@BACKENDS
def test_a_hundred_thousand_steps_take_the_memory_of_a_few(backend: str) -> None:
    """Of the slabs that are asked for, however long the sequence is; planned with ten
    calls a step.
    """

    def planned(steps: int) -> int:
        network = csdfgen.load(model("LSTM", ("Y", "Y_h"), steps=steps, values=4, hidden=8))
        return csdfgen.plan(network, rows=64, backend=backend, result="stored").planned_bytes

    (few, small), (many, large) = (
        count_calls(lambda steps=steps: planned(steps)) for steps in (10_000, 100_000)
    )
    slab = 64 * 4 * (4 + 8)
    assert max(small, large) <= slab + 64 + LEAST  # with little scratch
    assert many - few < 20 * 90_000


def classifier(
    taken: str, *, also: bool = False, steps: int = 30, batch: int = 1
) -> onnx.ModelProto:
    """A GRU whose last step alone is read, as PyTorch writes `output[:, -1]`. also: the sequence is an output, too."""
    made = model("GRU", ("Y",), steps=steps, batch=batch)
    nodes, constants = made.graph.node, made.graph.initializer
    for name, values in (("one", [1]), ("last", [steps - 1]), ("end", [steps]), ("axis", [1])):
        constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
    constants.append(numpy_helper.from_array(np.array(-1, np.int64), "minus one"))
    nodes.append(helper.make_node("Squeeze", ["Y", "one"], ["squeezed"]))
    nodes.append(helper.make_node("Transpose", ["squeezed"], ["by batch"], perm=[1, 0, 2]))
    if taken == "Gather":
        nodes.append(helper.make_node("Gather", ["by batch", "minus one"], ["z"], axis=1))
    else:
        nodes.append(helper.make_node("Slice", ["by batch", "last", "end", "axis"], ["z"]))
    nodes.append(helper.make_node("Relu", ["z"], ["made"]))
    del made.graph.output[:]
    outputs = ("made", "by batch") if also else ("made",)
    made.graph.output.extend(helper.make_tensor_value_info(name, 1, None) for name in outputs)
    return made


@BACKENDS
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("also", [False, True])
@pytest.mark.parametrize("taken", ["Gather", "Slice"])
def test_the_last_step_alone(taken: str, also: bool, batch: int, backend: str) -> None:
    made = classifier(taken, also=also, batch=batch)
    network = csdfgen.load(made)
    feeds = fed(network)
    for rows in (1, "whole"):
        got = runtime.compile(csdfgen.plan(network, rows=rows, backend=backend))(feeds)
        for output, expected in zip(made.graph.output, as_onnxruntime(made, feeds), strict=True):
            np.testing.assert_allclose(got[output.name], expected, rtol=1e-4, atol=1e-5)
    (layer,) = (one for one in network.layers if one.op_type == "GRU")
    # rows of several sequences are moved by the Transpose: it is no view
    accumulates = not also and batch == 1
    assert (get_operator(layer).mode(layer) is Mode.ACCUMULATE) == accumulates


def test_a_classifier_of_the_last_step_takes_as_much_for_any_number_of_steps() -> None:
    sizes = [
        csdfgen.plan(
            csdfgen.load(classifier("Gather", steps=n)), rows=1, backend="numpy"
        ).planned_bytes
        for n in (30, 150)
    ]
    assert sizes[0] == sizes[1]


def test_an_input_is_read_by_steps_through_what_computes_its_values() -> None:
    """A linear layer and a Transpose in front, as PyTorch writes them for batches in front."""
    made = model("LSTM", ("Y",), steps=50)
    recurrent = onnx.NodeProto()
    recurrent.CopyFrom(made.graph.node[0])
    recurrent.input[0] = "by step"
    weights = np.random.default_rng(0).uniform(-1, 1, (6, 8)).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weights, "M"))
    nodes = [
        helper.make_node("MatMul", ["X", "M"], ["product"]),
        helper.make_node("Relu", ["product"], ["values"]),
        helper.make_node("Transpose", ["values"], ["by step"], perm=[1, 0, 2]),
        recurrent,
    ]
    del made.graph.node[:], made.graph.input[:]
    made.graph.node.extend(nodes)
    made.graph.input.append(helper.make_tensor_value_info("X", 1, (1, 50, 6)))
    network = csdfgen.load(made)
    assert network.inputs[0].row_axis == 1
    plan = csdfgen.plan(network, rows=1, backend="numpy", result="stored")
    feeds = fed(network)
    (expected,) = as_onnxruntime(made, feeds)
    np.testing.assert_allclose(runtime.compile(plan)(feeds)["Y"], expected, rtol=1e-4, atol=1e-5)


@BACKENDS
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_between_integers_it_is_computed_in_float(direction: str, backend: str) -> None:
    """A node of both directions becomes several layers, between which nothing is quantized."""
    made = model("GRU", ("Y",), direction=direction)
    graph = made.graph
    for name, value in (("scale", np.float32(0.01)), ("zero", np.int8(3))):
        graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    graph.node[0].input[0], graph.node[0].output[0] = "X back", "Y values"
    form = ["scale", "zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["X", *form], ["X stored"]),
        helper.make_node("DequantizeLinear", ["X stored", *form], ["X back"]),
        graph.node[0],
        helper.make_node("QuantizeLinear", ["Y values", *form], ["Y stored"]),
        helper.make_node("DequantizeLinear", ["Y stored", *form], ["Y"]),
    ]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    network = csdfgen.load(made)
    feeds = fed(network)
    (want,) = as_onnxruntime(made, feeds)
    got = runtime.compile(csdfgen.plan(network, rows=2, backend=backend))(feeds)["Y"]
    assert np.abs(got - want).max() < 0.011  # a step
