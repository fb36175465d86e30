"""csdfgen quantize: what it writes and says, and what it refuses in a line."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.builder import Graph
from tests.command import Call, refused

SHAPE = (1, 3, 16, 20)


@pytest.fixture
def quantize(call: Call) -> Call:
    """`csdfgen quantize`, in a folder with a model and inputs."""
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", SHAPE), 8))
    onnx.save(g.model(g.conv(g.node("Add", g.conv(a, 8), a), 4)), "model.onnx")
    rng = np.random.default_rng(0)
    np.savez("x.npz", x=rng.uniform(-1, 1, (5, *SHAPE[1:])).astype(np.float32))
    Path("pictures").mkdir()
    for k in range(3):
        Image.fromarray(rng.integers(0, 256, (16, 20, 3), np.uint8)).save(f"pictures/{k}.png")
    return partial(call, "quantize", "model.onnx")


def test_json_and_front(quantize: Call, call: Call) -> None:
    """All that is said; the front as a file; what is made runs here as in onnxruntime."""
    wishes = ("--format", "mixed", "--arena-factor", "1.5", "--front", "front.csv")
    found = quantize("-o", "out.onnx", "--calibrate", "x.npz", *wishes, "--json").json
    assert found["ok"] is True and found["sqnr_db"] > 20 and found["predicted_sqnr_db"] > 20
    assert set(found["formats"]) <= {"float32", "int8", "int16"}
    assert found["figures"]["arena"] <= 1.5 * found["figures"]["int8_arena"]
    rows = list(csv.DictReader(Path("front.csv").read_text().splitlines()))
    arenas = [int(row["arena_bytes"]) for row in rows]
    assert arenas == sorted(arenas) and len(rows) == len(found["front"])
    report = call("run", "out.onnx", "--check", "--json").json
    assert report["ok"] and report["planned_bytes"] == report["measured_bytes"]


def test_pictures_and_folders(quantize: Call) -> None:
    """Pictures as arguments, and a folder of them, are the same."""
    made = []
    for given in (["pictures/0.png", "pictures/1.png", "pictures/2.png"], ["pictures"]):
        done = quantize("-o", "out.onnx", "--std", "255", "--calibrate", *given)
        assert done.code == 0 and "int8" in done.out, done.err
        made.append(Path("out.onnx").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "no input to calibrate on"),
        (("--calibrate", "x.npz", "--memory", "1KB"), "--memory is for --format mixed"),
        (("--calibrate", "x.npz", "--format", "mixed", "--memory", "1KB"), "1,000 are allowed"),
        (("--calibrate", "x.npz", "--format", "mixed", "--front", "f.txt"), ".csv or .json"),
        (("--calibrate", "missing.npz"), "does not exist"),
    ],
)
def test_refused_in_a_line(quantize: Call, options: tuple[str, ...], said: str) -> None:
    """Nothing is written."""
    assert said in refused(quantize("-o", "out.onnx", *options))
    assert not Path("out.onnx").exists()
