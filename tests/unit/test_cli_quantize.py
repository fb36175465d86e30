"""csdfgen quantize: what it writes and says, and what it refuses in a line."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from csdfgen.precision.ends import METADATA, read_ends
from tests.builder import Graph
from tests.command import Call, refused

SHAPE = (1, 3, 16, 20)


@pytest.fixture
def quantize(call: Call) -> Call:
    """`csdfgen quantize`, in a folder with a model and inputs."""
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", SHAPE), 8))
    a = g.node("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])  # has the scale of what it reads
    onnx.save(g.model(g.conv(g.node("Add", g.conv(a, 8), a), 4)), "model.onnx")
    rng = np.random.default_rng(0)
    np.savez("x.npz", x=rng.uniform(-1, 1, (5, *SHAPE[1:])).astype(np.float32))
    Path("pictures").mkdir()
    for k in range(3):
        Image.fromarray(rng.integers(0, 256, (16, 20, 3), np.uint8)).save(f"pictures/{k}.png")
    return partial(call, "quantize", "model.onnx")


@pytest.mark.networks
def test_json_and_front(quantize: Call, call: Call) -> None:
    """All that is said; the front as a file; what is made runs here as in onnxruntime."""
    wishes = ("--format", "mixed", "--arena-factor", "2", "--front", "front.csv")
    found = quantize("-o", "out.onnx", "--calibrate", "x.npz", *wishes, "--json").json
    assert found["ok"] is True and found["sqnr_db"] > 20 and found["predicted_sqnr_db"] > 20
    assert set(found["formats"]) <= {"float32", "uint8", "int16"}
    assert found["figures"]["arena"] <= 2 * found["figures"]["int8_arena"]
    rows = list(csv.DictReader(Path("front.csv").read_text().splitlines()))
    arenas = [int(row["arena_bytes"]) for row in rows]
    assert arenas == sorted(arenas) and len(rows) == len(found["front"])
    counts = {int(row["arena_bytes"]): int(row["int16_tensors"]) for row in rows}
    assert counts[found["figures"]["arena"]] == found["formats"]["int16"]
    assert any(one["int16_tensors"] > len(one["int16"]) for one in found["front"])
    assert list(counts.values()) == [one["int16_tensors"] for one in found["front"]]
    report = call("run", "out.onnx", "--check", "--json").json
    assert report["ok"] and report["planned_bytes"] == report["measured_bytes"]


def test_pictures_and_folders(quantize: Call) -> None:
    """Pictures as arguments, and a folder of them, are the same."""
    made = []
    for given in (["pictures/0.png", "pictures/1.png", "pictures/2.png"], ["pictures"]):
        done = quantize("-o", "out.onnx", "--std", "255", "--calibrate", *given)
        assert done.code == 0 and "uint8" in done.out, done.err
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


def test_a_picture_for_a_model_that_takes_integers(quantize: Call, call: Call) -> None:
    """Its values become what the model's metadata tell, and so do those of an array of floats; integers
    stay as they are.
    """
    calibrate = ("--std", "255", "--calibrate", "pictures")
    assert quantize("-o", "floats.onnx", *calibrate).code == 0
    assert quantize("-o", "integers.onnx", "--integer-io", *calibrate).code == 0
    pixels = np.asarray(Image.open("pictures/1.png")).transpose(2, 0, 1)[None]
    values = pixels.astype(np.float32) / np.float32(255)
    ends = read_ends(onnx.load("integers.onnx"))
    np.save("values.npy", values)
    np.save("integers.npy", ends.taken({"x": values})["x"])
    wanted = call("run", "floats.onnx", "--input", "values.npy", "--output", "floats.npz")
    assert wanted.code == 0, wanted.err
    for given in (("pictures/1.png", "--std", "255"), ("values.npy",), ("integers.npy",)):
        done = call("run", "integers.onnx", "--input", *given, "--output", "y.npz", "--check")
        assert done.code == 0, done.err
        found = ends.given(dict(np.load("y.npz")))
        for name, array in np.load("floats.npz").items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("x", "metadata 'csdfgen.integer_io' cannot be read"),
        ('{"inputs": []}', "metadata 'csdfgen.integer_io' cannot be read"),
        ({"scale": 0}, "scale 0 of 'x' is not above 0"),
        ({"scale": float("nan")}, "scale nan of 'x' is not above 0"),
        ({"type": "int4"}, "type 'int4' of 'x' is none of int8"),
        ({"zero_point": 256}, "zero point 256 of 'x' is not from 0 to 255"),
        ({"type": "int8", "zero_point": 9}, "become int8 as the model states, input 'x' takes uint8"),
    ],
)  # fmt: skip
def test_what_is_told_of_integers_is_checked(
    quantize: Call, call: Call, told: str | dict[str, object], said: str
) -> None:
    assert quantize("-o", "out.onnx", "--integer-io", "--calibrate", "x.npz").code == 0
    model = onnx.load("out.onnx")
    known = json.loads({p.key: p.value for p in model.metadata_props}[METADATA])
    if isinstance(told, dict):
        known["inputs"]["x"] |= told
        told = json.dumps(known)
    onnx.helper.set_model_props(model, {METADATA: told})
    onnx.save(model, "out.onnx")
    assert said in refused(call("run", "out.onnx", "--input", "pictures/0.png"))


def test_values_that_are_no_numbers_do_not_become_integers(quantize: Call, call: Call) -> None:
    assert quantize("-o", "out.onnx", "--integer-io", "--calibrate", "x.npz").code == 0
    np.save("nan.npy", np.full(SHAPE, np.nan, np.float32))
    said = refused(call("run", "out.onnx", "--input", "nan.npy"))
    assert "nan.npy: has values that are no numbers; input 'x' takes integers" in said
