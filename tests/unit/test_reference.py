"""onnxruntime as the judge: what counts as equal, which model it gets, and where a fault is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from onnx import helper

import csdfgen
import runtime
from csdfgen.errors import ModelError
from runtime.images import random_inputs
from runtime.reference import (
    MismatchError,
    Reference,
    Standard,
    compare,
    comparison_types,
    has_same_classes,
)
from runtime.report import list_whole_tensors, to_json
from runtime.verify import check_layers, check_outputs, check_rows, mismatch, tolerance_types
from tests.builder import Graph
from tests.command import Call, refused
from tests.fuzz import onnxruntime_outputs
from tests.models import model as model_of
from tests.networks import feeds as feeds_of
from tests.random_networks import networks
from tests.small_models import residual_classifier, squeeze_and_excite, two_inputs, weight
from tests.ways import some

ONES = np.ones((1, 2, 4, 3), np.float32)


def test_tolerance_is_that_of_the_design() -> None:
    for scale in (np.float32(1), np.float32(1e-9)):  # of the output's own range
        for error, wrong in ((5.4e-4, 0), (5.6e-4, 24)):
            assert compare("y", scale * (ONES + np.float32(error)), scale * ONES).wrong == wrong


def test_rounding_of_large_sums_is_allowed_for() -> None:
    reference = np.array([1e6, 0.0], np.float32)
    assert compare("y", reference + np.array([0, 49], np.float32), reference).ok
    assert not compare("y", reference + np.array([0, 51], np.float32), reference).ok


def test_float16_is_compared_more_loosely() -> None:
    ours = ONES.astype(np.float16) + np.float16(0.019)
    assert compare("y", ours, ONES.astype(np.float16)).ok
    assert not compare("y", ours + np.float16(0.019), ONES.astype(np.float16)).ok


def test_values_that_were_float16_on_the_way_are_compared_as_such() -> None:
    """onnxruntime need not round where a Cast follows at once; a float32 output may differ by as much."""
    proto = model_of(
        "g (float[1,64] x, float[1,64] z) => (float[1,64] y, float[1,64] w)"
        " { h = Cast <to=10> (x) s = Mul (h, h) t = Cast <to=1> (s) y = Add (t, x) w = Relu (z) }"
    )
    plan = csdfgen.plan(csdfgen.load(proto))
    types = {name: dtype.name for name, dtype in tolerance_types(plan).items()}
    assert types == {"y": "float16", "w": "float32"}
    feeds = random_inputs(plan.network, 1)
    near = {name: array + np.float32(2e-3) for name, array in runtime.run(plan, feeds).items()}
    assert [one.ok for one in check_outputs(proto, plan, feeds, near)] == [True, False]
    far = {name: array + np.float32(0.2) for name, array in near.items()}
    assert not any(one.ok for one in check_outputs(proto, plan, feeds, far))
    read = csdfgen.load(model_of("g (float16[4] x) => (float[4] y) { y = Cast <to=1> (x) }"))
    assert comparison_types(read)["y"] == np.float32  # what is only read is the same on both sides


def test_integers_must_be_equal() -> None:
    ours = np.array([1, 2, 3])
    assert compare("y", ours, ours.copy()).ok
    found = compare("y", ours, np.array([1, 2, 5]))
    assert (found.wrong, found.max_abs_error) == (1, 2)
    assert compare("y", np.array([True]), np.array([False])).wrong == 1


@pytest.mark.parametrize(
    ("ours", "reference", "wrong"),
    [
        (np.nan, np.nan, 0),
        (np.inf, np.inf, 0),
        (-np.inf, np.inf, 1),
        (np.nan, 1.0, 1),
        (1.0, np.nan, 1),
        (1.0, np.inf, 1),
        (np.inf, 1.0, 1),
    ],
)
def test_values_that_are_no_numbers(ours: float, reference: float, wrong: int) -> None:
    found = compare("y", np.array([ours, 1], np.float32), np.array([reference, 1], np.float32))
    assert found.wrong == wrong
    assert np.isinf(found.max_abs_error) == bool(wrong)


def test_first_wrong_row_is_found_along_the_row_axis() -> None:
    ours = ONES.copy()
    ours[0, 1, 2, 0] = ours[0, 0, 3, 1] = 7
    found = compare("y", ours, ONES, Standard(2))
    assert (found.wrong, found.first_wrong_row, found.max_abs_error) == (2, 2, 6)


def test_shape_and_dtype_must_agree() -> None:
    for other in (ONES[:, :1], ONES.astype(np.float64)):
        with pytest.raises(MismatchError, match="onnxruntime's"):
            compare("y", other, ONES)


def test_empty_tensors_are_equal() -> None:
    assert compare("y", ONES[:0], ONES[:0], Standard(2)).ok


def test_classes() -> None:
    scores = np.array([[6, 5, 4, 3, 2, 1, 0]], np.float32)
    swapped = scores.copy()
    swapped[0, [0, 1]] = scores[0, [1, 0]]
    assert has_same_classes(scores, scores) is True
    assert has_same_classes(swapped, scores) is False
    tied = scores.copy()
    tied[0, 1] = 6 - 1e-4
    assert has_same_classes(swapped, tied) is True
    assert has_same_classes(ONES, ONES) is None


def test_reference_takes_the_shapes_of_the_network() -> None:
    model = residual_classifier(batch="N")
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "H"
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 99
    network = csdfgen.load(model, shapes={"x": (2, 3, 10, 12)})
    result = Reference(model, network)(random_inputs(network, 0))
    assert result["scores"].shape == (2, 7, 1, 1)


def test_weights_that_are_inputs_are_taken_off_them() -> None:
    model = residual_classifier()
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    network = csdfgen.load(model)
    feeds = random_inputs(network, 0)
    assert np.array_equal(
        Reference(model, network)(feeds)["scores"],
        Reference(residual_classifier(), network)(feeds)["scores"],
    )
    assert len(model.graph.input) == 5, "the caller's model stays as it was"


def test_external_weights_are_found_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        residual_classifier(),
        path,
        save_as_external_data=True,
        size_threshold=0,
        location="weights.bin",
    )
    network = csdfgen.load(path)
    feeds = random_inputs(network, 0)
    expected = Reference(residual_classifier(), network)(feeds)["scores"]
    assert np.array_equal(Reference(path, network)(feeds)["scores"], expected)


def test_extra_outputs() -> None:
    model = residual_classifier()
    network = csdfgen.load(model)
    result = Reference(model, network, ["c1", "nowhere", "scores", "c1"])(random_inputs(network, 0))
    assert list(result) == ["scores", "c1"] and result["c1"].shape == (1, 8, 16, 12)


def test_a_model_that_onnxruntime_refuses_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    model = residual_classifier()
    network = csdfgen.load(model)
    model.graph.node[0].op_type = "Nope"
    with pytest.raises(ModelError, match="onnxruntime cannot load it, run without check") as caught:
        Reference(model, network)
    assert "\n" not in str(caught.value)
    good = Reference(residual_classifier(), network)
    with pytest.raises(ModelError, match="onnxruntime cannot run it"):
        good({"x": np.zeros((1, 3, 5, 5), np.float32)})
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("build", [residual_classifier, two_inputs, squeeze_and_excite])
@pytest.mark.parametrize("fuse", ["none", "full"])
def test_every_layer_is_onnxruntimes(build: object, fuse: str) -> None:
    model = build()  # type: ignore[operator]
    network = csdfgen.load(model)
    plan = csdfgen.plan(network, rows=1, fuse=fuse)
    feeds = random_inputs(network, 1)
    layers = check_layers(model, plan, feeds)
    assert layers and all(entry.comparison.ok for entry in layers)
    assert {o.name for o in network.outputs} <= {entry.comparison.name for entry in layers}
    assert all(one.ok for one in check_outputs(model, plan, feeds, runtime.run(plan, feeds)))


def test_layers_of_a_batch() -> None:
    model = residual_classifier(batch="N")
    network = csdfgen.load(model, batch=3)
    plan = csdfgen.plan(network)
    feeds = random_inputs(network, 1)
    assert all(entry.comparison.ok for entry in check_layers(model, plan, feeds))
    assert all(one.ok for one in check_outputs(model, plan, feeds, runtime.run(plan, feeds)))


@pytest.mark.parametrize(
    "text",
    [
        "g (float x) => (float y) { y = Relu(x) }",
        "g (int64 x) => (int64 y) { y = Add(x, x) }",
        "g (float x) => (float y) { y = Identity(x) }",
        "g (float[1,3,4,5] x) => (float y) { y = ReduceMean <keepdims = 0> (x) }",
        "g (float x, float[1,3,4,5] z) => (float[1,3,4,5] y, float w) { y = Mul(x, z)  w = Neg(x) }",
    ],
)
def test_scalars_stay_scalars(text: str) -> None:
    """A scalar input once reached onnxruntime as an array of shape (1,), and its output differed."""
    proto = model_of(text)
    plan = csdfgen.plan(csdfgen.load(proto))
    feeds = random_inputs(plan.network, 1)
    found = runtime.run(plan, feeds)
    assert {k: v.shape for k, v in found.items()} == {
        k: v.shape for k, v in Reference(proto, plan.network)(feeds).items()
    }
    assert all(one.ok for one in check_outputs(proto, plan, feeds, found))
    assert all(entry.comparison.ok for entry in check_layers(proto, plan, feeds))


def test_inputs_in_another_order_in_memory_reach_onnxruntime() -> None:
    proto = model_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert np.array_equal(Reference(proto, csdfgen.load(proto))({"x": x})["y"], x)


def test_a_fault_is_traced_to_its_layer() -> None:
    """Our network has other weights in conv2 than the model that onnxruntime gets."""
    model = residual_classifier()
    plan = csdfgen.plan(csdfgen.load(residual_classifier()), rows=2, fuse="none")
    model.graph.initializer[2].CopyFrom(weight("w2", 8, 8, 3, 3, seed=1))
    feeds = random_inputs(plan.network, 1)
    wrong = check_outputs(model, plan, feeds, runtime.run(plan, feeds))[0]
    error = mismatch(wrong, np.dtype(np.float32), check_layers(model, plan, feeds), "model.onnx")
    assert not wrong.ok
    assert "output 'scores' differs from onnxruntime's in 7 of 7 values" in str(error)
    assert "first wrong: row 0 of 16 of 'c2', layer 'conv2' (Conv)" in str(error)


def test_tensors_kept_whole_have_a_reason() -> None:
    network = csdfgen.load(squeeze_and_excite())
    plan = csdfgen.plan(network, rows=1, result="stored")
    reasons = {entry.tensor: entry.why for entry in list_whole_tensors(plan)}
    assert "'scale' (Mul) also needs the whole of 's'" in reasons["m"]
    assert "y" not in reasons, "rows of an output are handed on, not kept"
    there = {
        e.tensor: e.why for e in list_whole_tensors(csdfgen.plan(network, rows=1, result="arena"))
    }
    assert there["y"] == "is an output, and stays in the arena to the end of the frame"
    whole = csdfgen.plan(csdfgen.load(residual_classifier()), rows="whole", fuse="none")
    assert {entry.tensor: entry.why for entry in list_whole_tensors(whole)}[
        "c1"
    ] == "'conv1' (Conv) makes its 16 rows in one phase"


def amplified(batch: int = 1) -> onnx.ModelProto:
    """The rounding errors of a normalised convolution, times a million; 'sum' is the convolution itself."""
    g = Graph(seed=4)
    x = g.input("x", (batch, 8, 9, 9))
    same = g.batch_normalization(g.conv(x, 8))
    once = g.node("Mul", same, g.constant(np.float32(1.7)))
    twice = g.node("Add", same, g.node("Mul", same, g.constant(np.float32(0.7))))
    far = g.node("Mul", g.node("Sub", once, twice), g.constant(np.float32(1e6)))
    return g.model(g.conv(far, 4), same)


@pytest.mark.parametrize("result", ["stored", "streamed"])
def test_as_far_as_onnxruntime_is_from_itself_is_no_fault(result: str) -> None:
    model = amplified()
    plan = csdfgen.plan(csdfgen.load(model))
    feeds = random_inputs(plan.network, 1)
    got, theirs = runtime.run(plan, feeds), Reference(model, plan.network)(feeds)
    assert any(not compare(name, got[name], theirs[name]).ok for name in got)
    found = check_outputs(model, plan, feeds, got)
    if result == "streamed":
        assert check_rows(model, plan, feeds) == found
    assert all(one.ok for one in found) and max(one.noise for one in found) > 1e-2
    assert all(one.comparison.ok for one in check_layers(model, plan, feeds))
    wrong = {
        name: array + np.float32(1e-2 + 100 * one.noise)
        for (name, array), one in zip(got.items(), found, strict=True)
    }
    failed = check_outputs(model, plan, feeds, wrong)
    assert not any(one.ok for one in failed)
    assert "by which onnxruntime differs from itself" in str(
        mismatch(failed[0], np.dtype(np.float32), (), "model.onnx")
    )


def test_noise_where_onnxruntime_has_a_single_kernel() -> None:
    """A sum that a sine amplifies: onnxruntime computes it alike with and without optimisations, other orders do not."""
    net, rng = Graph(), np.random.default_rng(0)
    x = net.input("x", (1, 8, 300))
    weights = net.constant((1e5 * rng.normal(size=(300, 8))).astype(np.float32))
    model = net.model(net.node("Sin", net.node("MatMul", x, weights)))
    plan = csdfgen.plan(csdfgen.load(model), backend="numpy")
    feeds = {"x": rng.normal(size=(1, 8, 300)).astype(np.float32)}
    (found,) = check_outputs(model, plan, feeds, runtime.compile(plan)(feeds))
    assert found.ok and found.noise > 1e-3


def test_random_integers_are_lines_of_the_tables_that_they_are_read_from() -> None:
    net = Graph()
    x = net.input("x", (1, 40), dtype="int64")
    small, large = (net.constant(np.ones((lines, 8), np.float32)) for lines in (2, 50))
    one = net.node("Gather", small, net.node("Transpose", x, perm=[1, 0]))
    other = net.node("Transpose", net.node("Gather", large, x), perm=[1, 0, 2])
    network = csdfgen.load(net.model(net.node("Add", one, other)))
    found = random_inputs(network, 0)["x"]
    assert set(found.ravel()) == {0, 1}


# A check that can fail ----------------------------------------------------------------------------


def _swapped(y: np.ndarray) -> np.ndarray:
    """With its largest and its smallest value exchanged."""
    found = y.copy()
    low, high = int(y.argmin()), int(y.argmax())
    found.flat[[low, high]] = y.flat[[high, low]]
    return found


FAULTS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "zeroed": np.zeros_like,
    "scaled": lambda y: (y * np.float32(1.001)).astype(y.dtype),
    "permuted": _swapped,
    "no numbers": lambda y: y * np.float32(np.nan),
}


def assert_faults_are_found(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> int:
    """That no output with a fault passes a comparison; how many pass it without one."""
    plan = csdfgen.plan(csdfgen.load(model), backend="numpy")
    got, theirs = runtime.run(plan, feeds), Reference(model, plan.network)(feeds)
    found = {one.name: one for one in check_outputs(model, plan, feeds, got)}
    passed = {name for name, one in found.items() if one.ok and not one.inconclusive}
    spreads = {name: one.spread for name, one in found.items()}
    assert all(spread is not None for spread in spreads.values())
    for fault, plant in FAULTS.items():
        for name in passed:
            y, spread = theirs[name], spreads[name]
            if y.dtype != np.float32 or found[name].noise or found[name].steps is not None:
                continue
            if spread.fixed or (fault == "permuted" and spread.extent <= spread.allowed):
                continue
            # the noise of onnxruntime is allowed for here as in the product, but must not hide a fault
            (one,) = check_outputs(model, plan, feeds, {name: plant(y)})
            assert not one.ok, (fault, one)
    return len(passed)


@settings(max_examples=some(10, 1000), deadline=None)
@given(networks())
def test_planted_faults_are_found(model: onnx.ModelProto) -> None:
    assume(onnxruntime_outputs(model, feeds_of(model)) is not None)
    try:
        network = csdfgen.load(model)
    except ModelError:  # what may be refused, tests.fuzz finds out
        assume(False)
    assert_faults_are_found(model, random_inputs(network, 0))


def scaled(scale: float, offset: float = 0.0) -> onnx.ModelProto:
    """A convolution whose values are multiplied and moved."""
    g = Graph(seed=4)
    y = g.node("Mul", g.conv(g.input("x", (1, 3, 9, 9)), 4), g.constant(np.float32(scale)))
    return g.model(g.node("Add", y, g.constant(np.float32(offset))))


@pytest.mark.parametrize(
    ("scale", "offset", "why"),
    [
        (1.0, 0.0, ""),
        (1e-9, 0.0, ""),
        (0.0, 0.0, "all values are 0"),
        (0.0, 0.5, "all values are 0.5, for other inputs too"),
        (1e-4, 100.0, "for other inputs too"),
        (np.nan, 0.0, "none of its values is a finite number"),
    ],
)
@pytest.mark.parametrize("result", ["stored", "streamed"])
def test_equality_that_proves_nothing_is_no_success(
    scale: float, offset: float, why: str, result: str
) -> None:
    model = scaled(scale, offset)
    report = csdfgen.report(csdfgen.load(model), reference=model, result=result)
    assert report.ok is not bool(why) and report.comparisons is not None
    (one,) = report.comparisons
    assert one.ok and (why in one.inconclusive if why else one.inconclusive == "")
    if not why:
        assert assert_faults_are_found(model, random_inputs(csdfgen.load(model), 0)) == 1


def test_a_single_score_is_compared_with_that_of_other_inputs() -> None:
    """It is one value everywhere, but not for every input."""
    for text, ok in (("ReduceMean", True), ("ArgMax", True), ("ReduceMax", True)):
        keep = "keepdims = 0" if text != "ArgMax" else "axis = 1, keepdims = 0"
        kind = "int64" if text == "ArgMax" else "float"
        model = model_of(f"g (float[1,50] x) => ({kind} y) {{ y = {text} <{keep}> (x) }}")
        assert csdfgen.report(csdfgen.load(model), reference=model).ok is ok


def test_outputs_that_no_input_changes_are_said_to_be_constants() -> None:
    model = model_of(
        "g (float[1,3,4,5] x) => (int64[4] s, float[1,3,4,5] y) { s = Shape (x) y = Neg (x) }"
    )
    report = csdfgen.report(csdfgen.load(model), reference=model)
    assert report.ok and [one.spread.fixed for one in report.comparisons] == [True, False]
    values = to_json(report)["checks"]
    assert values["s"]["constant"] and (values["s"]["min"], values["s"]["max"]) == (1, 5)
    assert values["y"]["inconclusive"] is None and values["y"]["min"] < 0 < values["y"]["max"]


def test_a_detector_without_detections_says_so(call: Call) -> None:
    model = model_of(
        "g (float[1,30,4] boxes, float[1,3,30] scores) => (int64[n,3] y)"
        " { y = NonMaxSuppression (boxes, scores, most, overlap, least) }",
        {"most": np.array([6]), "overlap": np.array([0.4], np.float32),
         "least": np.array([2], np.float32)},
    )  # fmt: skip
    onnx.save(model, "detector.onnx")
    result = call("run", "detector.onnx", "--check")
    assert "check      'y': equal, 54 values from -1 to -1" in result.out
    message = refused(result)
    assert "'y' equals onnxruntime's, which proves nothing: nothing was found in these" in message
    assert all(way in message for way in ("--input", "--fix", "--seed"))
    values = call("run", "detector.onnx", "--check", "--json")
    assert values.code == 1 and values.json["ok"] is False
    assert values.json["checks"]["y"]["inconclusive"] == "nothing was found in these inputs"


CHAINS = {
    "itself": "v = Identity (n)",
    "frames of samples": "a = Add (n, c7) b = Div (a, c16) v = Add (b, c1)",
    "of floats": "f = Cast <to = 1> (n) g = Div (f, f4) h = Ceil (g) v = Cast <to = 7> (h)",
    "counted down": "v = Sub (c40, n)",
}
"""How what the network uses is computed of the integer that it takes."""

USES = {
    "shorter": ("u = Less (places, w) y = Where (u, x, zero)", range(25, 51)),
    "at most": ("u = GreaterOrEqual (w, places) y = Where (u, x, zero)", range(25, 51)),
    "one of them": ("u = Equal (places, w) y = Where (u, x, zero)", range(50)),
    "index": ("y = Gather <axis = 1> (x, v)", range(50)),
    "line": ("y = Gather (table, v)", range(6)),
    "one hot": ("o = OneHot (v, depth, pair) y = Cast <to = 1> (o)", range(5)),
    "mean": ("f2 = Cast <to = 1> (w) y = Div (x, f2)", range(1, 2**31)),
}
"""Where it must fit, and the values that do."""


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("use", USES)
def test_random_integers_fit_where_the_network_uses_them(chain: str, use: str) -> None:
    text, fitting = USES[use]
    integers = {"c1": 1, "c7": 7, "c16": 16, "c40": 40, "depth": 5}
    constants = {name: np.array(value) for name, value in integers.items()} | {
        "f4": np.array(4, np.float32),
        "axis": np.array([1]),
        "places": np.arange(50)[None],
        "zero": np.array(0, np.float32),
        "table": np.arange(24, dtype=np.float32).reshape(6, 4),
        "pair": np.array([0, 1]),
    }
    model = model_of(
        "g (float[1,50] x, int64[1] n) => (float[a,b] y, int64[1] v)"
        f" {{ {CHAINS[chain]} w = Unsqueeze (v, axis) {text} }}",
        constants,
    )
    network = csdfgen.load(model)
    for one in (network, csdfgen.plan(network).network):  # whose layers are joined
        for seed in range(4):
            feeds = random_inputs(one, seed)
            theirs = Reference(model, network)(feeds)
            assert int(theirs["v"].item()) in fitting, feeds["n"]
    report = csdfgen.report(network, reference=model, seed=3)
    assert report.comparisons is not None and all(c.ok for c in report.comparisons)
    assert "y" not in report.inconclusive, report.inconclusive


def test_random_lengths_masks_and_bytes_are_those_that_a_network_takes() -> None:
    model = model_of(
        "g (float[2,1,40] x, float[2] share, int64[2,40] mask, uint8[2,9] pixels)"
        " => (float[2,1,40] y, float[2,1,40] z, float[2,9] p)"
        " { s = Mul (share, f40) t = Unsqueeze (s, axes) u = Less (places, t) y = Where (u, x, zero)"
        " f = Cast <to = 1> (mask) i = Sub (one, f) b = Mul (i, far) c = Unsqueeze (b, axis)"
        " a = Add (x, c) z = Softmax (a) p = Cast <to = 1> (pixels) }",
        {"f40": np.array(40, np.float32), "axes": np.array([1, 2]), "axis": np.array([1]),
         "places": np.arange(40, dtype=np.float32)[None, None], "zero": np.array(0, np.float32),
         "one": np.array(1, np.float32), "far": np.array(-1e9, np.float32)},
    )  # fmt: skip
    network = csdfgen.load(model)
    feeds = random_inputs(network, 0)
    assert ((feeds["share"] > 0.48) & (feeds["share"] <= 1)).all()
    assert set(feeds["mask"].ravel()) == {0, 1} and feeds["pixels"].max() > 100
    assert csdfgen.report(network, reference=model).ok


def test_random_values_have_the_range_that_they_are_quantized_in() -> None:
    model = model_of(
        "g (float[1,3,8,8] x) => (float[1,3,8,8] y)"
        " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
        {"s": np.array(0.5, np.float32), "z": np.array(100, np.uint8)},
    )
    x = random_inputs(csdfgen.load(model), 0)["x"]
    assert -50 <= x.min() < -40 and 70 < x.max() <= 77.5
