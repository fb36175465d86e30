"""Number formats on the command line: plans in fewer bytes within a budget, ends that are integers, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from csdfgen.precision.ends import read_ends
from tests.builder import Graph
from tests.command import Call, refused
from tests.quantized_models import feeds_of


@pytest.fixture
def call(call: Call) -> Call:
    """The command, in a folder with a small float model and inputs to calibrate on."""
    g = Graph()
    x = g.input("x", (1, 3, 17, 12))
    a = g.node("Relu", g.conv(x, 16))
    b = g.node("Relu", g.node("Add", g.conv(a, 16), a))
    model = g.model(g.conv(g.node("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2]), 5, kernel=1))
    onnx.save(model, "net.onnx")
    np.savez("x.npz", x=np.concatenate([feeds_of(model, seed)["x"] for seed in range(5)]))
    return call


FORMATS = ("--calibrate", "x.npz", "--formats")


@pytest.mark.parametrize("kind", ["int8", "int16", "float16", "bfloat16", "mixed"])
def test_a_plan_in_other_formats_runs(call: Call, kind: str) -> None:
    """The model lies beside its plan, and both run as they were planned."""
    found = call("schedule", "net.onnx", *FORMATS, kind, "-o", "small.json", "--json").json
    assert found["quantized"] == "small.onnx" and sum(found["formats"].values()) > 3
    least = {"int8": 20, "mixed": 20, "int16": 25, "float16": 50, "bfloat16": 35}
    assert found["sqnr_db"] > least[kind]
    assert json.loads(Path("small.json").read_text())["model"] == "small.onnx"
    ran = call("run", "small.onnx", "--plan", "small.json", "--json").json
    assert ran["measured_bytes"] == ran["planned_bytes"] == found["arena"]


@pytest.mark.networks
def test_formats_rows_and_budget_together(call: Call) -> None:
    """More bytes, less noise; below what the default heights of int8 take, formats are mixed all the same."""
    usual = call("schedule", "net.onnx", *FORMATS, "int8", "--json").json
    least = call("schedule", "net.onnx", *FORMATS, "int8", "--goal", "memory", "--json").json
    sizes = [one["arena"] + one["outputs"] for one in (least, usual)]
    assert sizes[0] < sizes[1]
    noise, wide = [], []
    for budget in (sizes[0], (3 * sizes[0] + sizes[1]) // 4, 2 * sizes[1]):
        given = ("--memory", str(budget), "-o", "plan.json", "--json")
        found = call("schedule", "net.onnx", *FORMATS, "mixed", *given).json
        assert found["arena"] + found["outputs"] <= budget
        noise.append(found["sqnr_db"])
        wide.append(found["formats"].get("int16", 0))
        ran = call("run", "plan.onnx", "--plan", "plan.json", "--json").json
        assert ran["measured_bytes"] == found["arena"]
    assert noise == sorted(noise) and noise[-1] > noise[0] + 3
    assert wide == sorted(wide) and wide[-1] > wide[0] and wide[1] > 0
    said = refused(call("schedule", "net.onnx", *FORMATS, "mixed", "--memory", str(sizes[0] - 1)))
    assert f"takes {sizes[0]:,} bytes at least, {sizes[0] - 1:,} are allowed" in said


def test_what_is_printed(call: Call) -> None:
    said = call(
        "schedule", "net.onnx", *FORMATS, "int8", "--integer-io", "--device", "cortex-m7",
        "-o", "plan.json",
    ).out  # fmt: skip
    assert "plan.onnx: tensors: " in said and "float32" not in said
    assert "signal to noise" in said and "ms a frame on cortex-m7" in said
    assert "input x: uint8, value = " in said


def test_quantize_with_integer_ends(call: Call) -> None:
    """Type, scale and zero point are said, and are those of the file."""
    found = call(
        "quantize", "net.onnx", "--calibrate", "x.npz", "--integer-io", "-o", "q.onnx", "--json"
    ).json
    told = read_ends(onnx.load("q.onnx")).to_json()
    assert {key: found[key] for key in told} == told
    assert found["inputs"]["x"]["type"] == "uint8" and found["inputs"]["x"]["scale"] > 0
    assert call("run", "q.onnx", "--check", "--json").json["ok"] is True
    floats = call("quantize", "net.onnx", "--calibrate", "x.npz", "-o", "q.onnx", "--json").json
    assert floats["inputs"] == {"x": {"type": "float32"}}
    assert floats["sqnr_db"] == pytest.approx(found["sqnr_db"], abs=0.01)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("net.onnx", "--formats", "int8"), "--calibrate"),
        (("net.onnx", "--calibrate", "x.npz"), "--calibrate goes with --formats"),
        (("net.onnx", "--integer-io"), "--integer-io goes with --formats"),
        (("net.onnx", *FORMATS, "int8", "-o", "net.json"), "written over the one it is made of"),
        (("net.onnx", *FORMATS, "int8", "--pareto"), "quantize it first"),
        (("net.onnx", *FORMATS, "int8", "--frames", "2"), "leave --frames out"),
        (("net.onnx", *FORMATS, "int8", "--memory", "100"), "--memory of 100 bytes is below"),
        (("net.onnx", *FORMATS, "mixed", "--memory", "9KiB", "--goal", "memory"), "leave one of them out"),
        (("net.onnx", "--formats", "float16", "--integer-io"), "float16 has no integers"),
        (("g.json", *FORMATS, "int8"), "is a graph"),
    ],
)  # fmt: skip
def test_formats_that_cannot_be(call: Call, given: tuple[str, ...], said: str) -> None:
    """One line, and nothing is written."""
    if given[0] == "g.json":
        assert call("net.onnx", "-o", "g.json").code == 0
    before = sorted(Path().iterdir())
    assert said in refused(call("schedule", *given))
    assert sorted(Path().iterdir()) == before
