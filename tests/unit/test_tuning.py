"""Tuning: what is measured, kept, refused, and what plans make of it; Ctrl-C and going on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.backends.native.ways import SUMS, VARIANTS, Variant, Ways
from csdfgen.cli import tune as tune_command
from csdfgen.devices.catalogue import device
from csdfgen.devices.model import estimate
from csdfgen.errors import InputError
from csdfgen.goals.choice import load_profile
from csdfgen.model.network import Network
from csdfgen.model.options import ways_text
from csdfgen.planning.saved import read_saved
from csdfgen.tuning.file import (
    USUAL,
    Machine,
    Timing,
    Tuning,
    best_variants,
    describe_machine,
    read_tuning,
    tuned_profile,
    write_tuning,
)
from csdfgen.tuning.measure import FRAMES, Tuner
from tests.command import Call, refused
from tests.native_steps import compiler_missing
from tests.planning import plan_of_saved
from tests.small_models import model, weight

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

HERE = Machine("a processor", "avx2", "gcc 1", "0123")


def convolutions() -> onnx.ModelProto:
    """Two convolutions of equal shape, one of another, a pool."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["ra"], "relu"),
        helper.make_node("Conv", ["ra", "w1"], ["b"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w2"], ["c"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"], "pool"),
    ]
    weights = [weight("w0", 32, 3, 3, 3), weight("w1", 32, 32, 3, 3), weight("w2", 32, 32, 3, 3)]
    return model(nodes, {"x": (1, 3, 12, 16)}, ["y"], weights)


@pytest.fixture(scope="module")
def network() -> Network:
    return csdfgen.load(convolutions())


@pytest.fixture(scope="module")
def measured(network: Network) -> Tuning:
    tuner = Tuner(network)
    assert tuner.run(0.1, _nobody) > 0, "the time was over after the first height"
    while tuner.run(0.1, _nobody):
        pass
    return tuner.found


def _nobody(what: str, done: float, total: float) -> None:
    pass


def key_of(found: Tuning, text: str) -> str:
    (key,) = (key for key in found.shapes if text in key)
    return key


# Measuring --------------------------------------------------------------------------------------


def test_every_shape_and_height_is_measured_once(network: Network, measured: Tuning) -> None:
    assert measured.machine == describe_machine()
    own = measured.shapes[key_of(measured, "Conv 1x32x12x16")]  # of two layers
    assert set(own) == {1, 2, 4, 7, 8, 12}
    for height, ways in own.items():
        assert {"conv", "rows", "tiles2", "tiles4"} <= ways.keys()
        for timing in ways.values():
            assert timing.seconds > 0 and timing.frames >= FRAMES
            assert timing.rows == height, "lower phases at the end count for none"
    assert {
        way for ways in measured.shapes[key_of(measured, "input")].values() for way in ways
    } == {""}
    assert measured.shapes[key_of(measured, "GlobalAveragePool")]
    assert not Tuner(network, measured).rounds, "nothing is measured again"


def test_what_is_there_is_not_measured_again(network: Network, measured: Tuning) -> None:
    key = key_of(measured, "Conv 1x32x12x16")
    shapes = {name: dict(heights) for name, heights in measured.shapes.items()}
    del shapes[key][7]
    some = replace(measured, shapes=shapes)
    tuner = Tuner(network, some)
    assert [one.height for one in tuner.rounds] == [7]
    assert tuner.run(0.1, _nobody) == 0
    assert set(tuner.found.shapes[key]) == {1, 2, 4, 7, 8, 12}


def test_an_interrupted_height_is_kept_if_it_has_enough_frames(network: Network) -> None:
    def after(rounds: int) -> Callable[[str, float, float], None]:
        calls = iter(range(1000))

        def progress(what: str, done: float, total: float) -> None:
            if next(calls) == rounds:
                raise KeyboardInterrupt

        return progress

    early, late = (Tuner(network) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        early.run(60, after(2))
    assert early.found.count == 0
    with pytest.raises(KeyboardInterrupt):
        late.run(60, after(FRAMES + 1))
    assert late.found.count > 4 and len(late.rounds) == len(early.rounds)


# The file ---------------------------------------------------------------------------------------


def a_tuning(machine: Machine = HERE) -> Tuning:
    timings = {"conv": Timing(3e-6, 1.0, 5), "tiles2": Timing(2e-6, 1.0, 6)}
    taller = {"conv": Timing(5e-6, 4.0, 5), "tiles2": Timing(8e-6, 4.0, 6)}
    return Tuning(
        machine, 1e-5, {"Conv": {1: timings, 4: taller}, "Relu": {1: {"": Timing(1e-6, 1.0, 5)}}}
    )


def test_a_file_is_read_as_it_was_ways_text(tmp_path: Path) -> None:
    write_tuning(tmp_path / "t.json", a_tuning())
    found = read_tuning(tmp_path / "t.json", HERE)
    write_tuning(tmp_path / "again.json", found)
    assert (tmp_path / "t.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    assert found.shapes["Conv"][4]["tiles2"] == Timing(8e-6, 4.0, 6) and found.count == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cpu": "another"}, "measured on 'a processor' (avx2), this is 'another'"),
        ({"instructions": "neon"}, r"(avx2), this is 'a processor' (neon)"),
        ({"kernels": "4567"}, "with kernels 0123 from gcc 1, these are 4567"),
        ({"compiler": "clang"}, "these are 0123 from clang"),
    ],
)
def test_another_machine_is_refused(tmp_path: Path, change: dict[str, str], said: str) -> None:
    write_tuning(tmp_path / "t.json", a_tuning())
    with pytest.raises(InputError) as error:
        read_tuning(tmp_path / "t.json", replace(HERE, **change))
    assert said in str(error.value) and "csdfgen tune MODEL" in str(error.value)


def test_frames_of_seconds_are_read(tmp_path: Path) -> None:
    """A small processor, or a batch, takes more than one."""
    write_tuning(tmp_path / "t.json", replace(a_tuning(), frame=30.0))
    assert read_tuning(tmp_path / "t.json").frame == 30.0


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("format",), "other", "'csdfgen-tuning' is needed"),
        (("version",), 9, "reads up to 1"),
        (("frame_us",), -1, "above 0"),
        (("frame_us",), True, "no number"),
        (("shapes",), [], "an object is needed"),
        (("shapes", "Conv"), {}, "no slab height"),
        (("shapes", "Conv", "1"), {}, "no variant"),
        (("shapes", "Conv", "x"), {}, "'x' is no slab height"),
        (("shapes", "Conv", "0"), {}, "'0' is no slab height"),
        (("shapes", "Conv", "1", "fft"), {}, "'fft' is no variant"),
        (("shapes", "Conv", "1", "conv", "us"), "3", "no number"),
        (("shapes", "Conv", "1", "conv", "us"), 0, "above 0"),
        (("shapes", "Conv", "1", "conv", "frames"), 0, "whole number from 1"),
    ],
)
def test_damaged_files(tmp_path: Path, path: tuple[str, ...], value: Any, said: str) -> None:
    file = tmp_path / "t.json"
    write_tuning(file, a_tuning())
    root = json.loads(file.read_text())
    at = root
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    file.write_text(json.dumps(root))
    with pytest.raises(InputError) as error:
        read_tuning(file)
    assert said in str(error.value) and str(file) in str(error.value)


def test_more_frames_replace_fewer() -> None:
    more = {"Conv": {1: {"conv": Timing(9e-6, 1.0, 4), "tiles2": Timing(7e-6, 1.0, 7)}}}
    found = a_tuning().joined(2e-5, more).shapes["Conv"][1]
    assert (found["conv"].seconds, found["tiles2"].seconds) == (3e-6, 7e-6)


# Its use ----------------------------------------------------------------------------------------


def test_the_fastest_variants_are_taken_and_their_times_predicted() -> None:
    found = a_tuning()
    assert best_variants(found, VARIANTS) == {"Conv": {1: "tiles2", 4: "conv"}}
    assert best_variants(found, SUMS) == {"Conv": {1: "conv"}}
    cost = tuned_profile(found, device("native-core"), VARIANTS).layers["Conv"]
    times = [cost.seconds(rows) for rows in (1, 2, 4, 8)]
    assert times == pytest.approx([2e-6, 3e-6, 5e-6, 10e-6])
    assert tuned_profile(found, device("native-core"), SUMS).layers["Conv"].seconds(1) == 3e-6


@pytest.mark.parametrize(("usual", "other"), [(100e-6, 96e-6), (20e-6, 11e-6)])
def test_the_usual_variant_stays_where_little_is_saved(usual: float, other: float) -> None:
    """A twentieth of its time, or ten microseconds."""
    ways = {USUAL: Timing(usual, 1.0, 5), "tiles2": Timing(other, 1.0, 5)}
    found = replace(a_tuning(), shapes={"Conv": {1: ways}})
    assert best_variants(found, "tiles2|usual") == {"Conv": {1: USUAL}}


def test_a_plan_with_tuning(network: Network, measured: Tuning, tmp_path: Path) -> None:
    """It computes by the fastest variants, its file says which, and needs no other file to run."""
    file = tmp_path / "t.json"
    key = key_of(measured, "Conv 1x32x12x16")
    slow = {
        rows: {way: replace(one, seconds=1.0) for way, one in ways.items()}
        for rows, ways in measured.shapes[key].items()
    }
    for ways in slow.values():
        ways["rows"] = replace(ways["rows"], seconds=1e-6)
    write_tuning(file, replace(measured, shapes={**measured.shapes, key: slow}))
    plan = csdfgen.plan(network, backend="native", tuning=str(file), rows=4)
    assert Ways(text=plan.options.ways).of("conv1").at(3) == Variant("winograd_row", 0, True)
    assert json.loads(plan.options.ways).keys() == {"conv1", "conv2"} | (
        {"first"} & json.loads(plan.options.ways).keys()
    )
    spent = {one.name: one.seconds for one in estimate(plan, load_profile(plan.options)).layers}
    assert spent["conv1"] == pytest.approx(3e-6)
    x = np.random.default_rng(1).standard_normal((1, 3, 12, 16)).astype(np.float32)
    y = runtime.run(plan, x)["y"]
    csdfgen.save_plan(plan, tmp_path / "plan.json")
    file.unlink()
    again = plan_of_saved(read_saved(tmp_path / "plan.json"), network)
    assert again.options.ways == plan.options.ways
    assert runtime.run(again, x)["y"].tobytes() == y.tobytes()
    estimated = runtime.run(csdfgen.plan(network, backend="numpy", rows=4), x)["y"]
    np.testing.assert_allclose(y, estimated, rtol=1e-4, atol=1e-5)


def test_heights_and_budgets_use_it(network: Network, measured: Tuning, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    write_tuning(file, measured)
    points = csdfgen.pareto(network, backend="native", tuning=str(file))
    assert all(point.plan.options.ways for point in points)
    slowest = max(point.seconds for point in points)
    plan = csdfgen.plan(network, backend="native", tuning=str(file), latency=2 * slowest)
    assert plan.options.tuning == str(file)


def test_it_is_of_native_code(network: Network, measured: Tuning, tmp_path: Path) -> None:
    write_tuning(tmp_path / "t.json", measured)
    with pytest.raises(InputError, match=r"backend='numpy' has no variants"):
        csdfgen.plan(network, backend="numpy", tuning=str(tmp_path / "t.json"))
    with pytest.raises(InputError, match="cannot be read"):
        csdfgen.plan(network, backend="native", tuning=str(tmp_path / "none.json"))


@pytest.mark.parametrize("text", ["[]", '{"conv1": {"0": "conv"}}', '{"conv1": {"1": "fft"}}', "{"])
def test_ways_that_are_none_are_refused(network: Network, tmp_path: Path, text: str) -> None:
    plan = csdfgen.plan(network, backend="native")
    csdfgen.save_plan(plan, tmp_path / "plan.json")
    saved = json.loads((tmp_path / "plan.json").read_text())
    saved["options"]["ways"] = text
    (tmp_path / "plan.json").write_text(json.dumps(saved))
    with pytest.raises(InputError, match="ways"):
        runtime.compile(plan_of_saved(read_saved(tmp_path / "plan.json"), network))


def test_ways_are_written_in_one_form() -> None:
    given = {"b": {4: Variant("conv", block=640), 1: Variant("winograd", 4, True)}, "a": {}}
    text = ways_text(given)
    assert text == '{"b":{"1":"tiles4","4":"conv/640"}}' and ways_text({}) == ""
    choice = Ways(text=text).of("b")
    assert [choice.at(rows) for rows in (1, 3, 4, 99)] == [given["b"][1]] * 2 + [given["b"][4]] * 2
    assert Ways(text=text).of("c").at(1) is None


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def call(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command, in a folder with a model, comparing over few frames."""
    monkeypatch.setattr(tune_command, "_FRAMES", 2)
    onnx.save(convolutions(), "net.onnx")
    return call


def test_command(call: Call) -> None:
    first = call("tune", "net.onnx", "--seconds", "1", "-o", "t.json", "--json").json
    assert first["timings"] > 0 and first["seconds_after"] > 0
    for _ in range(9):
        more = call("tune", "net.onnx", "--seconds", "1", "-o", "t.json", "--json").json
        if not more["heights_left"]:
            break
    assert not more["heights_left"] and more["timings"] >= first["timings"]
    said = call("tune", "net.onnx", "--seconds", "1", "-o", "t.json").out
    assert "t.json: 4 layer shapes" in said and "times)" in said and "left" not in said
    ran = call("run", "net.onnx", "--tuning", "t.json", "--check", "--json").json
    assert ran["ok"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("net.onnx", "-o", "t.toml"), "t.toml: what was found is written as .json"),
        (("none.onnx", "-o", "t.json"), "none.onnx"),
        (("graph.xml", "-o", "t.json"), "is a graph, which cannot be run"),
        (("net.onnx", "-o", "none/t.json"), "cannot be written"),
        (("net.onnx", "-o", "other.json"), "other.json"),
    ],
)
def test_command_refuses(call: Call, arguments: tuple[str, ...], said: str) -> None:
    Path("graph.xml").write_text("<sdf3/>")
    write_tuning("other.json", a_tuning())
    before = Path("other.json").read_bytes()
    assert said in refused(call("tune", *arguments))
    assert Path("other.json").read_bytes() == before and not Path("t.json").exists()


def test_plans_refuse_the_file_of_another_processor(call: Call) -> None:
    write_tuning("other.json", a_tuning())
    said = refused(call("schedule", "net.onnx", "--tuning", "other.json"))
    assert "was measured on 'a processor' (avx2)" in said
