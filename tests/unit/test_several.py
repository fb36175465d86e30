"""Several networks in one memory: runs, connections, the order, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
from csdfgen.backends.registry import choose_backend
from csdfgen.errors import InputError, ModelError, PlanError, ScheduleError
from csdfgen.goals.choice import load_profile
from csdfgen.goals.facts import schedule_facts
from csdfgen.lowering.program import lower
from csdfgen.planning.checker import check
from csdfgen.serving.engine import Engine
from runtime.cascade import open_reference
from tests.command import Call, refused
from tests.emitted import Program
from tests.models import model, onnxruntime_outputs
from tests.native_steps import compiler_missing
from tests.opencl_device import device_missing

RNG = np.random.default_rng(3)

FINDER = model(
    "finder (float[1,3,20,24] x, float[4,4] b) => (float[1,3,20,24] y, float[4,4] boxes) "
    "{ y = Conv <pads=[1,1,1,1]> (x, w) boxes = Add (b, b) }",
    {"w": RNG.normal(size=(3, 3, 3, 3)).astype(np.float32)},
)
READER = model(
    "reader (float[1,3,8,6] x) => (float[1,5] z) { r = Relu (x) f = Flatten (r) z = Gemm <transB=1> (f, w) }",
    {"w": RNG.normal(size=(5, 144)).astype(np.float32)},
)
BOXES = np.array([[1, 1, 6, 5], [3, 2, 3, 7], [0.5, 2, 11, 9], [8, 6, 7, 7]], np.float32)
"""Half of corners x, y, x, y; the second and the last have no area."""


def draw(network: csdfgen.model.network.Network, **given: np.ndarray) -> dict[str, np.ndarray]:
    drawn = {t.name: RNG.normal(size=t.shape).astype(t.dtype) for t in network.inputs}
    return drawn | {name.replace("__", "."): array for name, array in given.items()}


def cut_out(image: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Regions of an image at 8 by 6, by onnxruntime."""
    node = "RoiAlign <output_height=8, output_width=6, sampling_ratio=1>"
    proto = model(
        f"g (float[1,3,20,24] x, float[N,4] b, int64[N] i) => (float[N,3,8,6] y) {{ y = {node} (x, b, i) }}"
    )
    feeds = {"x": image, "b": boxes, "i": np.zeros(len(boxes), np.int64)}
    return onnxruntime_outputs(proto, feeds)["y"]


def agree(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_networks_beside_each_other_compute_what_each_computes_alone(backend: str) -> None:
    network = csdfgen.load([FINDER, READER], rates=[1, 3], after={"reader": "finder"})
    assert [t.name for t in network.inputs][2:] == ["reader.1.x", "reader.2.x", "reader.3.x"]
    plan = csdfgen.plan(network, backend=backend)
    feeds = draw(network)
    got = csdfgen.run(plan, feeds)
    mine = {name: feeds[f"finder.{name}"] for name in ("x", "b")}
    want = {f"finder.{name}": a for name, a in onnxruntime_outputs(FINDER, mine).items()}
    for name, array in feeds.items():
        if name.startswith("reader."):
            want[name.replace(".x", ".z")] = onnxruntime_outputs(READER, {"x": array})["z"]
    agree(got, want)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_network_runs_once_for_each_region_of_another_ones_image(backend: str) -> None:
    connect = "finder.boxes,finder.y=reader.x:crop"
    network = csdfgen.load([FINDER, READER], rates="1,4", connect=connect)
    assert [t.name for t in network.inputs] == ["finder.x", "finder.b"]
    program = csdfgen.compile(csdfgen.plan(network, backend=backend))
    feeds = draw(network, finder__b=BOXES)
    found = onnxruntime_outputs(FINDER, {"x": feeds["finder.x"], "b": BOXES})
    crops = cut_out(found["y"], found["boxes"])
    runs = [onnxruntime_outputs(READER, {"x": one[None]})["z"] for one in crops]
    for empty in (1, 3):
        runs[empty] = np.zeros_like(runs[0])
    want = {f"finder.{name}": a for name, a in found.items()}
    want |= {f"reader.{number}.z": run for number, run in enumerate(runs, 1)}
    agree(program(feeds), want)
    assert program.branches == {f"reader.{k}.runs": (k % 2, 1 - k % 2) for k in range(1, 5)}


FIND = "finder.boxes:find,finder.y=reader.x:crop"


def every_second(boxes: np.ndarray) -> np.ndarray:
    return boxes[::2]


def windows(image: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """An input for each of three runs."""
    assert boxes.shape == (4, 4)
    return np.concatenate([image[:, :, k : k + 8, k : k + 6] for k in range(3)])


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_functions_make_regions_and_inputs(backend: str) -> None:
    csdfgen.register_function("find", every_second)
    csdfgen.register_function("windows", windows)
    for connect in (FIND, "finder.y,finder.boxes=reader.x:windows"):
        network = csdfgen.load([FINDER, READER], rates=[1, 3], connect=connect)
        feeds = draw(network, finder__b=BOXES)
        found = onnxruntime_outputs(FINDER, {"x": feeds["finder.x"], "b": BOXES})
        cut = windows(found["y"], BOXES)
        if connect is FIND:
            cut = cut_out(found["y"], every_second(found["boxes"]))
        runs = [onnxruntime_outputs(READER, {"x": one[None]})["z"] for one in cut]
        runs += [np.zeros((1, 5), np.float32)] * (3 - len(runs))
        want = {f"finder.{name}": a for name, a in found.items()}
        want |= {f"reader.{number}.z": run for number, run in enumerate(runs, 1)}
        agree(csdfgen.run(csdfgen.plan(network, backend=backend), feeds), want)
        agree(open_reference("", network)(feeds), want)


def test_a_function_that_fails_or_is_not_there_is_told() -> None:
    csdfgen.register_function("find", lambda boxes: boxes[:, :2])
    network = csdfgen.load([FINDER, READER], rates=[1, 3], connect=FIND)
    plan, feeds = csdfgen.plan(network), draw(network)
    with pytest.raises(
        ModelError, match=r"'find' failed: ValueError: it returned \(4, 2\), \(3, 4\) is needed"
    ):
        csdfgen.run(plan, feeds)
    csdfgen.register_function("find", lambda boxes: boxes.fill(0))
    with pytest.raises(ModelError, match="read-only"):
        csdfgen.run(plan, feeds)
    if not device_missing():
        with pytest.raises(PlanError, match="functions run on the processor; take backend native"):
            csdfgen.compile(csdfgen.plan(network, backend="opencl"))
    other = csdfgen.load([FINDER, READER], connect=FIND.replace("find,", "nowhere,"))
    with pytest.raises(InputError, match="'nowhere' is not there; register it with"):
        csdfgen.run(csdfgen.plan(other), feeds)
    with pytest.raises(InputError, match="'a b' names no function"):
        csdfgen.register_function("a b", every_second)


def test_several_networks_are_served_a_frame_at_a_time() -> None:
    spot = model(
        "spot (float[1,3,20,24] x) => (float[1,4] boxes) { m = GlobalMaxPool (x) s = Flatten (m) boxes = MatMul (s, w) }",
        {"w": np.array([[1, 0, 0, 0], [0, 1, 0, 3], [0, 0, 1, 0]], np.float32)},
    )
    for connect in ("spot.boxes,spot.x=reader.x:crop", "spot.boxes:find,spot.x=reader.x:crop"):
        csdfgen.register_function("find", lambda boxes: boxes)
        network = csdfgen.load([spot, READER], connect=connect)
        images = np.random.default_rng(1).normal(size=(5, 3, 20, 24)).astype(np.float32)
        program = csdfgen.compile(csdfgen.plan(network))
        want = [{name: a.copy() for name, a in program(image[None]).items()} for image in images]
        assert {bool(one["reader.z"].any()) for one in want} == {False, True}
        with Engine(network) as engine:
            assert engine.service.most == 1 and engine.service.in_flight > 1
            found = [one.result(60) for one in [engine.submit(image[None]) for image in images]]
        for got, one in zip(found, want, strict=True):
            agree(got, one)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_emitted_c_calls_functions_of_the_user(tmp_path: Path) -> None:
    csdfgen.register_function("find", every_second)
    network = csdfgen.load([FINDER, READER], rates=[1, 3], connect=FIND)
    plan, feeds = csdfgen.plan(network), draw(network, finder__b=BOXES)
    text = """#include "small.h"
        void small_find(const float *a, float *out)
        {
            for (int k = 0; k < 8; k++)
                out[k] = a[k + (k > 3 ? 4 : 0)];
        }
    """
    agree(Program(plan, tmp_path, functions=text)(feeds), csdfgen.run(plan, feeds))


def test_a_connected_tensor_flows_row_by_row() -> None:
    half = model("half (float[1,3,64,8] x) => (float[1,3,64,8] y) { y = Relu (x) }")
    network = csdfgen.load([half, half], connect={"half.y": "half_2.x"})
    plan = csdfgen.plan(network, rows=1, result="streamed")
    feeds = draw(network)
    agree(
        csdfgen.run(plan, feeds),
        {n: np.maximum(feeds["half.x"], 0) for n in ("half.y", "half_2.y")},
    )
    assert plan.planned_bytes < network.inputs[0].nbytes // 8


def test_runs_share_weights_in_the_program_and_in_the_account() -> None:
    one, four = (csdfgen.load([FINDER, READER], rates=[1, k]) for k in (1, 4))
    assert four.parameter_bytes == one.parameter_bytes
    sizes = []
    for network in (one, four):
        plan = csdfgen.plan(network, weights="copied")
        sizes.append(lower(plan, choose_backend(plan.options)).constants.packed_bytes)
    assert sizes[1] < sizes[0] + READER.graph.initializer[0].ByteSize() // 2


def test_one_arena_is_little_larger_than_that_of_the_larger_network() -> None:
    plan = csdfgen.plan(csdfgen.load(["zoo:lenet5", "zoo:resnet8"], after="resnet8=lenet5"))
    largest, together = plan.figures["largest_alone"], plan.figures["sum_alone"]
    assert plan.planned_bytes <= 1.02 * largest < together
    facts = schedule_facts(plan, load_profile(plan.options))
    assert (facts["largest_alone"], facts["sum_alone"]) == (largest, together)


def test_networks_that_wait_run_on_several_processors(call: Call, tmp_path: Path) -> None:
    plan, models = str(tmp_path / "plan.json"), ["zoo:lenet5", "zoo:resnet8"]
    options = ["--after", "resnet8=lenet5", "--goal", "throughput", "--threads", "2"]
    assert call("schedule", *models, *options, "-o", plan).code == 0
    done = call("run", *models, "--plan", plan, "--check", "--json")
    assert done.code == 0, done.err
    assert len(set(done.json["processors"]["mapping"].values())) == 2


def test_the_checker_refuses_an_order_that_does_not_wait() -> None:
    network = csdfgen.load([FINDER, READER], after={"reader": "finder"})
    plan = csdfgen.plan(network, rows="whole")
    first = next(k for k, (actor, _) in enumerate(plan.order) if actor.startswith("reader."))
    early = [one for one in plan.order if "reader" in one[0]]
    late = [one for one in plan.order if "reader" not in one[0]]
    assert first > 0
    with pytest.raises(ScheduleError, match=r"comes before firing \d+, which completes 'finder"):
        check(replace(plan, order=(*early, *late)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rates": "1,0"}, "rates='1,0': runs in a frame are needed"),
        ({"rates": [1]}, "1 rates for 2 networks"),
        ({"after": "b=finder"}, "'b' is none of the networks finder, reader"),
        ({"after": ["reader=finder", "finder=reader"]}, "wait for each other: .* after "),
        ({"after": "finder=reader", "connect": "finder.y=reader.x"}, "wait for each other"),
        ({"connect": "finder.q=reader.x"}, "'finder.q' is no output; there are finder.y, finder.boxes, reader.z"),
        ({"connect": "finder.y=reader.q"}, "A.OUTPUT=B.INPUT is needed; the inputs are finder.x"),
        ({"connect": "finder.y=reader.x"}, "'finder.y' is float32 1x3x20x24, 'reader.x' is float32 1x3x8x6"),
        ({"connect": "finder.y=reader.x:4"}, "'4' names no function"),
        ({"connect": "finder.boxes,finder.y:f=reader.x:crop"}, "write A.MAP:FUNCTION,A.IMAGE=B.INPUT:crop"),
        ({"connect": "finder.boxes:f,finder.y=reader.x:g"}, "write A.MAP:FUNCTION,A.IMAGE=B.INPUT:crop"),
        ({"connect": "finder.boxes=reader.x:crop"}, "write A.BOXES,A.IMAGE=B.INPUT:crop"),
        ({"connect": "finder.y,finder.x=reader.x:crop"}, "'finder.y' is float32 1x3x20x24, crop takes float32 1x4"),
        ({"connect": "finder.boxes,finder.b=reader.x:crop"}, "'finder.b' is float32 4x4, 'reader.x' is float32 1x3x8x6"),
        ({"connect": ["finder.boxes,finder.x=reader.x:crop"] * 2}, "'reader.x' is connected twice"),
        ({"rates": "1,5", "connect": "finder.boxes,finder.x=reader.x:crop"}, "float32 4x4, crop takes float32 5x4"),
        ({"batch": 2}, "several networks take one image"),
        ({"shapes": {"x": (1, 3, 8, 6)}}, "'x' is an input of none of the networks finder, reader"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        csdfgen.load([FINDER, READER], **options)
    assert len(str(caught.value).splitlines()) == 1


def test_networks_that_are_loaded_are_planned_together_and_one_is_not_several() -> None:
    with pytest.raises(InputError, match="two or more networks share a memory; 1 is given"):
        csdfgen.load([FINDER])
    both = csdfgen.plan([csdfgen.load(FINDER), csdfgen.load(READER)])
    assert [one.name for one in both.network.members] == ["finder", "reader"]
    with pytest.raises(InputError, match="requests=2 are images of one network"):
        csdfgen.plan(both.network, requests=2)
    with pytest.raises(InputError, match="rates='1,4' is for several networks"):
        csdfgen.load(READER, rates="1,4")


def test_shapes_that_a_refusal_names_are_taken(call: Call, tmp_path: Path) -> None:
    for name in ("first-net", "second"):
        proto = model("g (float[N,3,H,8] x) => (float[N,3,H,8] y) { y = Relu (x) }")
        onnx.save(proto, tmp_path / f"{name}.onnx")
    models = [str(tmp_path / "first-net.onnx"), str(tmp_path / "second.onnx")]
    given: list[str] = []
    for network in ("first_net", "second"):
        asked = refused(call("schedule", *models, *given)).rpartition("set them with ")[2].split()
        assert asked[0] == "--shape" and asked[1].startswith(f"{network}.x=")
        given += [asked[0], asked[1].replace("N", "8")]
    assert call("schedule", *models, *given).code == 0


def test_a_plan_file_is_run_checked_and_emitted(call: Call, tmp_path: Path) -> None:
    """Its model is a list of files, which are found beside it."""
    onnx.save(FINDER, tmp_path / "finder.onnx")
    onnx.save(READER, tmp_path / "reader.onnx")
    models = [str(tmp_path / "finder.onnx"), str(tmp_path / "reader.onnx")]
    options = ["--rates", "1,4", "--connect", "finder.boxes,finder.y=reader.x:crop"]
    plan, page, folder = (str(tmp_path / name) for name in ("plan.json", "page.html", "c"))
    assert call("schedule", *models, *options, "-o", plan).code == 0
    arrays: dict[str, Any] = draw(csdfgen.load([FINDER, READER]), finder__b=BOXES)
    del arrays["reader.x"]
    np.savez(tmp_path / "x.npz", **arrays)
    given = ["--input", str(tmp_path / "x.npz"), "--check", "layers", "--json"]
    done = call("run", *models, "--plan", plan, *given)
    assert done.code == 0, done.err
    report = done.json
    assert {"finder.y", "reader.3.z"} < report["checks"].keys()
    listed: Any = [FINDER, READER]
    assert csdfgen.read_plan(plan, listed).planned_bytes == report["planned_bytes"]
    assert call("emit-c", plan, "-o", folder).code == 0
    assert "void finder_and_reader_run(" in (tmp_path / "c" / "finder_and_reader.h").read_text()
    assert call("report", plan, "-o", page).code == 0
    assert "finder_and_reader" in Path(page).read_text()
    assert "is of 2 networks" in refused(call("run", models[0], "--plan", plan))
    assert "--rates 2 is for several models" in refused(call("run", models[0], "--rates", "2"))
