"""Inputs that are made constants: what depends on them is folded, files keep them, and bad values are refused in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import ModelError, PlanError, name_options_as_flags
from csdfgen.reading.loader import load
from tests.command import Call, refused
from tests.models import model, onnxruntime_outputs

RNG = np.random.default_rng(7)
KERNELS = {rate: RNG.normal(size=(4, 3, 3, 3)).astype(np.float32) for rate in ("fast", "slow")}
IMAGE = RNG.normal(size=(1, 3, 12, 10)).astype(np.float32)


def by_rate() -> onnx.ModelProto:
    """Another convolution for each sample rate, in the branches of an If, as voice detectors are exported."""
    return model(
        """g (float[1,3,12,10] x, int64 rate) => (y) {
            double = Add(x, x)
            wanted = Constant <value = int64 {16000}> ()
            same = Equal(rate, wanted)
            c = If (same) <
                then_branch = f () => (t) { t = Conv <pads = [1,1,1,1]> (x, fast) },
                else_branch = s () => (e) { e = Conv <pads = [1,1,1,1]> (double, slow) }
            >
            y = Relu(c)
        }""",
        KERNELS,
    )


@pytest.mark.parametrize("rate", [16000, 8000])
@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_a_branch_is_selected_by_a_fixed_input(rate: int, backend: str) -> None:
    network = load(by_rate(), fix={"rate": rate})
    assert [tensor.name for tensor in network.inputs] == ["x"]
    kinds = [layer.op_type for layer in network.layers]
    assert kinds == ["Conv", "Relu"] if rate == 16000 else kinds == ["Add", "Conv", "Relu"]
    assert network.inputs[0].row_axis == 2
    want = onnxruntime_outputs(by_rate(), {"x": IMAGE, "rate": np.array(rate)})
    found = runtime.run(csdfgen.plan(network, backend=backend, rows=2), {"x": IMAGE})
    np.testing.assert_allclose(found["y"], want["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, "auto"])
def test_a_network_of_which_all_inputs_are_fixed_is_planned_and_run(rows: object) -> None:
    """Symptom: an internal error of numpy."""
    network = load(by_rate(), fix={"rate": 8000, "x": IMAGE.reshape(-1).tolist()})
    assert not network.layers and network.outputs[0].constant is not None
    found = runtime.run(csdfgen.plan(network, rows=rows), {})
    want = onnxruntime_outputs(by_rate(), {"x": IMAGE, "rate": np.array(8000)})
    np.testing.assert_allclose(found["y"], want["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rate", [16000, 8000])
def test_an_input_that_is_not_fixed_chooses_at_run_time(rate: int) -> None:
    feeds = {"x": IMAGE, "rate": np.array(rate)}
    found = runtime.run(csdfgen.plan(load(by_rate())), feeds)
    want = onnxruntime_outputs(by_rate(), feeds)
    np.testing.assert_allclose(found["y"], want["y"], rtol=1e-4, atol=1e-5)


def summed(kind: str = "float[2,3]", with_type: str = "float[1,2,3]") -> onnx.ModelProto:
    return model(f"g ({with_type} x, {kind} k) => (y) {{ y = Add(x, k) }}")


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (2, np.full((2, 3), 2)),
        ("0.5", np.full((2, 3), 0.5)),
        ("1,2,3,4,5,6", np.arange(1, 7).reshape(2, 3)),
        ([[1, 2, 3], [4, 5, 6]], np.arange(1, 7).reshape(2, 3)),
        (np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3)),
    ],
)
def test_values_take_the_type_and_the_shape_of_their_input(value: Any, want: np.ndarray) -> None:
    network = load(summed(), fix={"k": value})
    assert network.fixed["k"].dtype == np.float32
    assert np.array_equal(network.fixed["k"], want)


@pytest.mark.parametrize(
    ("kind", "value", "shapes", "want"),
    [
        ("float[N,3]", "2", {}, (1, 3)),
        ("float[N,3]", "2", {"k": (2, 3)}, (2, 3)),
        ("float[N,3]", "2", {"k": "2x3"}, (2, 3)),
        ("float[N,3]", [[1, 2, 3], [4, 5, 6]], {}, (2, 3)),
        ("float[N,M]", "1", {}, (1, 1)),
        ("float", "1", {}, ()),
    ],
)
def test_free_sizes_are_one(kind: str, value: Any, shapes: Any, want: tuple[int, ...]) -> None:
    assert load(summed(kind), fix={"k": value}, shapes=shapes).fixed["k"].shape == want


@pytest.mark.parametrize(
    ("kind", "fix", "match"),
    [
        ("float[2,3]", {"q": 1}, r"'q' is not an input; the inputs are x, k"),
        ("float[2,3]", {"k": "1,2"}, r"has 2x3 elements, fix gives 2"),
        ("float[2,3]", {"k": "one"}, r"'one' is no number"),
        ("float[2,3]", {"k": "nan"}, r"type float32, which fix cannot fill with nan"),
        ("float[2,3]", {"k": [[1], [2, 3]]}, r"is no number"),
        ("float[2,3]", {"k": None}, r"is no number"),
        ("float[2,3]", {"k": np.zeros(70_000)}, r"gives 70000 values, at most 65536"),
        ("float[900,900]", {"k": 1}, r"at most 65536"),
        ("float16[2,3]", {"k": 1e6}, r"type float16, which fix cannot fill with 1000000"),
        ("uint8[2,3]", {"k": -1}, r"type uint8, which fix cannot fill with -1"),
        ("uint8[2,3]", {"k": 0.5}, r"type uint8, which fix cannot fill with 0.5"),
        ("int64[2,3]", {"k": "99999999999999999999"}, r"is no number|cannot fill"),
        ("string[2,3]", {"k": 1}, r"element type string is not supported"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_a_line(kind: str, fix: Any, match: str) -> None:
    with pytest.raises(ModelError, match=match) as caught:
        load(summed(kind), fix=fix)
    assert len(str(caught.value).splitlines()) == 1


def test_the_command_runs_checks_and_plans_with_a_fixed_input(call: Call, tmp_path: Path) -> None:
    path, plan = tmp_path / "net.onnx", tmp_path / "plan.json"
    onnx.save(by_rate(), path)
    assert "equal" in call("run", str(path), "--check").out
    assert "equal" in call("run", str(path), "--fix", "rate=16000", "--check").out
    assert "rate" in call("run", str(path), "--fix", "rate").err
    done = call("schedule", str(path), "--fix", "rate=8000", "-o", str(plan))
    assert done.code == 0, done.err
    assert "equal" in call("run", str(path), "--plan", str(plan), "--check").out
    line = refused(call("run", str(path), "--plan", str(plan), "--fix", "rate=16000"))
    assert "leave --fix out" in line


def test_a_schedule_of_the_graph_keeps_the_constant(call: Call, tmp_path: Path) -> None:
    path, graph, order = tmp_path / "n.onnx", tmp_path / "g.json", tmp_path / "s.json"
    onnx.save(by_rate(), path)
    for line in (
        ["convert", str(path), "--fix", "rate=8000", "-o", str(graph)],
        ["schedule", str(graph), "-o", str(order)],
    ):
        done = call(*line)
        assert done.code == 0, done.err
    plan = csdfgen.read_plan(order, path)
    want = onnxruntime_outputs(by_rate(), {"x": IMAGE, "rate": np.array(8000)})
    found = runtime.run(plan, {"x": IMAGE})
    np.testing.assert_allclose(found["y"], want["y"], rtol=1e-4, atol=1e-5)


def test_a_plan_file_with_a_damaged_constant_is_refused(tmp_path: Path) -> None:
    path, plan = tmp_path / "n.onnx", tmp_path / "plan.json"
    onnx.save(by_rate(), path)
    csdfgen.save_plan(csdfgen.plan(load(path, fix={"rate": 8000})), plan)
    plan.write_text(plan.read_text().replace('"rate": 8000', '"rate": "x"'))
    with pytest.raises(PlanError, match="'rate' is no number"):
        csdfgen.read_plan(plan, path)


def test_quantized_with_a_fixed_input() -> None:
    made = csdfgen.quantize(by_rate(), {"x": IMAGE}, fix={"rate": 16000})
    assert [one.name for one in made.model.graph.input] == ["x"]
    assert made.sqnr_db > 20


def test_options_are_named_as_they_are_typed() -> None:
    with name_options_as_flags(), pytest.raises(ModelError, match="--fix gives 2"):
        load(summed(), fix={"k": "1,2"})
