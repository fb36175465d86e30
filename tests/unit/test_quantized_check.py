"""The check of quantized models: differences counted in steps, exact where all layers are integers, and
what onnxruntime itself cuts off.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from runtime.reference import SIGNED, Standard, compare, signed_integers
from runtime.report import compare_with_reference, measure, to_json
from runtime.steps import StepSize, count_steps, find_saturating, list_steps
from tests.command import Call
from tests.quantized_models import feeds_of, quantized, session
from tests.unit.test_quantized_models import Pairs, csdfgen_float
from tests.unit.test_stored_formats import SCALES, weight


def int16_model(between: str = "HardSwish") -> onnx.ModelProto:
    """A convolution, an activation on values, a convolution; all stored as int16."""
    p = Pairs(opset=21)
    x = p.pair("x", *SCALES["int16"], "int16")
    y = p.pair(p.node("Conv", x, weight(p, (6, 4, 3, 3))), 1e-4, 0, "int16")
    y = p.pair(p.node(between, y), 1e-4, 0, "int16")
    model = p.model(p.pair(p.node("Conv", y, weight(p, (3, 6, 3, 3))), 1e-4, 0, "int16"))
    model.ir_version = 10
    return model


def test_steps_of_tensors() -> None:
    network = csdfgen.load(int16_model())
    steps = list_steps(network)
    kinds = {layer.op_type: steps[layer.output.name] for layer in network.layers}
    assert kinds["QuantizeLinear"] == StepSize(1.0, 65535, True)
    assert kinds["Conv"] == StepSize(1.0, 65535, False)
    assert kinds["DequantizeLinear"].size == pytest.approx(1e-4)
    integers = list_steps(csdfgen.load(quantized(csdfgen_float(), "QOperator")))
    assert integers and all(step.exact for step in integers.values())
    assert not list_steps(csdfgen.load("zoo:lenet5"))


def test_a_tensor_differs_by_steps() -> None:
    a = np.array([0.0, 0.5, 1.0, 1.5], np.float32)
    found = count_steps(a, a + np.array([0, 0, 0.5, -1], np.float32), StepSize(0.5, 255, False))
    assert (found.differing, found.share, found.largest, found.squares) == (2, 0.5, 2.0, 5.0)
    assert found.root == pytest.approx(np.sqrt(5 / 4)) and found.ok
    assert found.joined(found).values == 8
    assert not count_steps(a, a + 2, StepSize(0.5, 255, False)).ok  # 4 steps of 255 everywhere
    assert not count_steps(a, np.full(4, np.nan), StepSize(0.5, 255, False)).ok
    exact = compare(
        "y",
        a.astype(np.int8),
        a.astype(np.int8) + np.int8(1),
        Standard(step=StepSize(1.0, 255, True)),
    )
    assert (
        not exact.ok
        and exact.steps is not None
        and str(exact.steps).startswith("up to 1 steps of 1 in 100 %")
    )


@pytest.mark.parametrize("result", ["stored", "streamed"])
def test_a_model_with_layers_on_values(result: str) -> None:
    model = int16_model()
    feeds = feeds_of(model)
    plan = csdfgen.plan(csdfgen.load(model), rows=2, backend="numpy")
    report, outputs = measure(plan, feeds, result=result)
    report, error = compare_with_reference(report, model, feeds, outputs)
    assert error is None and report.ok
    (said,) = to_json(report)["steps"].values()
    assert (
        said["step"] == pytest.approx(1e-4) and said["largest"] <= 1.01 and 0 <= said["share"] <= 1
    )
    # another function is no rounding
    report, error = compare_with_reference(report, int16_model("Tanh"), feeds, outputs)
    assert error is not None and not report.ok
    assert (
        "steps of 0.0001" in str(error)
        and "allowed: 655" in str(error)
        and "first wrong: " in str(error)
    )
    assert len(str(error).splitlines()) == 1


def test_where_onnxruntime_cuts_off() -> None:
    """Unsigned activations and weights of 8 bits, with AVX2 and without VNNI."""
    both = csdfgen.load(quantized(csdfgen_float(), "QOperator", activation_type="QUInt8"))
    signed = csdfgen.load(quantized(csdfgen_float(), "QOperator"))
    old, new = frozenset({"avx2", "fma"}), frozenset({"avx2", "avx512_vnni"})
    convolutions = [layer.name for layer in both.layers if layer.op_type == "QLinearConv"]
    assert list(find_saturating(both, old)) == convolutions
    assert not find_saturating(both, new) and not find_saturating(signed, old)
    assert not find_saturating(both, frozenset())


def test_run_says_it(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "int16.onnx"
    onnx.save(int16_model(), path)
    said = call("run", str(path), "--check", "--json").json
    assert said["ok"] and said["saturated_by_onnxruntime"] == []
    assert {"step", "largest", "share", "root_mean_square"} == set(
        *map(set, said["steps"].values())
    )
    assert "steps of 0.0001 in" in call("run", str(path), "--check").out


def test_what_quantize_writes_is_what_onnxruntime_computes_by_default() -> None:
    """Without settings that somebody would have to know of."""
    model = csdfgen_float()
    made = csdfgen.quantize(model, [feeds_of(model, seed) for seed in range(3)])
    assert set(made.formats) <= {"float32", "uint8"} and not signed_integers(made.network)
    feeds = feeds_of(model, 9)
    for name, array in runtime.run(made.plan, feeds).items():
        (theirs,) = session(made.model, {}).run([name], feeds)
        np.testing.assert_array_equal(array, theirs)


def test_int8_tensors_are_compared_with_a_setting_that_is_printed(call: Call) -> None:
    x = Pairs()
    a = x.pair("x", *SCALES["int8"], "int8")
    model = x.model(x.pair(x.node("Conv", a, weight(x, (6, 4, 3, 3))), 0.1, 0, "int8"))
    assert signed_integers(csdfgen.load(model))
    onnx.save(model, "signed.onnx")
    assert f"is started with {SIGNED}" in call("run", "signed.onnx", "--check").out
