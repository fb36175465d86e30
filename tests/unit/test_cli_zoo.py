"""Networks of the zoo on the command line: listed, shown, written, and in place of a model file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
from runtime import images
from runtime.images import random_inputs
from runtime.verify import check_layers
from tests.command import Call, refused
from tests.zoo_page import PAGE, counted_cells
from zoo_models import ZOO, count

# Listed, shown, written -------------------------------------------------------------------------


def test_the_list_has_every_network(call: Call) -> None:
    lines = {line.split()[0]: line for line in call("zoo").out.splitlines() if line}
    assert lines.keys() >= ZOO.keys()
    assert lines["vgg19"].split()[3:6] == ["1x3x224x224", "143,667,240", "19,632,062,464"]
    assert "724,000,000 MACs at 227x227" in lines["alexnet"]
    listed = {entry["name"]: entry for entry in json.loads(call("zoo", "--json").out)}
    assert list(listed) == list(ZOO)
    assert (
        listed["vgg19"]["parameters"] == 143_667_240 == listed["vgg19"]["published"]["parameters"]
    )
    assert listed["ds_cnn"]["input"] == [1, 1, 49, 10]
    assert listed["c3d"]["input"] == [1, 3, 16, 112, 112]


def test_only_figures_that_differ_are_called_published_otherwise() -> None:
    def said(name: str) -> list[str]:
        entry = ZOO[name]
        size = entry.height, entry.width
        return list(entry.published.differences(count(entry.build(*size, weights=False)), size))

    assert said("vgg19") == said("mobilenet_v3_large") == said("emotion_ferplus") == []
    assert said("resnet8") == ["78,666 parameters with running means and variances"]
    assert said("shufflenet_v1_g4") == ["133,000,000 MACs without 1,088,000 of its layers"]


def test_one_network_is_shown_with_its_source(call: Call) -> None:
    text = call("zoo", "unet").out
    assert (
        "7,763,041" in text
        and "arXiv:1906.03720" in text
        and "at least 16x16, rows and columns multiples of 16" in text
    )
    small = call("zoo", "zoo:VGG-19@64x96", "--json").json
    assert (small["name"], small["input"], small["smallest"]) == ("vgg19", [1, 3, 64, 96], [32, 32])
    assert (
        small["published"]["size"] == [224, 224]
        and small["parameters"] < small["published"]["parameters"]
    )


def test_a_network_is_written_as_a_file(call: Call, tmp_path: Path) -> None:
    said = call("zoo", "squeezenet1_1@64x48", "-o", "a.onnx", "--seed", "3")
    assert (said.code, said.err) == (0, "")
    assert (
        said.out
        == f"a.onnx: squeezenet1_1, input 1x3x64x48, 1,235,496 parameters, {Path('a.onnx').stat().st_size:,} bytes\n"
    )
    model = onnx.load("a.onnx")
    onnx.checker.check_model(model)
    assert model == ZOO["squeezenet1_1"].build(64, 48, seed=3) != ZOO["squeezenet1_1"].build(64, 48)
    report = call("zoo", "mnist", "-o", "b.onnx", "--json").json
    assert (report["file"], report["bytes"], report["seed"]) == (
        "b.onnx",
        Path("b.onnx").stat().st_size,
        0,
    )
    assert {path.name for path in tmp_path.iterdir()} == {"a.onnx", "b.onnx"}


# In place of a model file -----------------------------------------------------------------------


def test_a_name_of_the_zoo_stands_for_a_file(call: Call) -> None:
    call("zoo", "mobilenet_v2@64x48", "-o", "mobilenet_v2.onnx")
    for options in (("-o", "graph.xml"), ("-o", "graph.json", "--rows", "1")):
        written = []
        for source in ("zoo:mobilenet_v2@64x48", "mobilenet_v2.onnx"):
            assert call(source, *options).code == 0
            written.append(
                Path(options[1]).read_text().replace(source, "the model")
            )  # graphs say what they were made from
        assert written[0] == written[1]
    assert "actor" in call("zoo:mobilenet_v2@64x48").out
    outputs = [
        call("run", source, "--check", "--json").json
        for source in ("zoo:mobilenet_v2@64x48", "mobilenet_v2.onnx")
    ]
    assert outputs[0]["ok"] and outputs[0]["max_abs_error"] == outputs[1]["max_abs_error"]
    assert outputs[0]["model"] == "zoo:mobilenet_v2@64x48"


def test_a_plan_of_a_network_of_the_zoo_is_run(call: Call) -> None:
    assert call("schedule", "zoo:resnet8", "-o", "plan.json", "--rows", "2").code == 0
    assert json.loads(Path("plan.json").read_text())["model"] == "zoo:resnet8"
    assert call("run", "zoo:resnet8", "--plan", "plan.json", "--check", "layers", "--json").json[
        "ok"
    ]
    said = refused(call("run", "zoo:mnist", "--plan", "plan.json"))
    assert said.startswith(
        "plan.json: made for 'zoo:resnet8', cannot be loaded with the plan's shapes: zoo:mnist: "
    )


@pytest.mark.networks
def test_branches_with_resize_and_concat_run_by_rows(call: Call) -> None:
    for name in ("unet@32x48", "yolov3_tiny@96x64", "ssdlite_mobilenet_v3@64x64"):
        for rows in ("1", "3", "auto"):
            assert call("run", f"zoo:{name}", "--rows", rows, "--check", "--json").json["ok"], (
                name,
                rows,
            )


def test_layers_are_compared_with_a_name_of_the_zoo() -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:lenet5"), rows=1)
    layers = check_layers("zoo:lenet5", plan, random_inputs(plan.network, 1))
    assert layers and all(entry.comparison.ok for entry in layers)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("tiny_yolo_v2@32x32", 0, 255), ("super_resolution@8x8", 0, 1), ("mnist", -1, 1)],
)
def test_random_inputs_are_in_the_range_of_the_networks_pixels(
    call: Call, monkeypatch: pytest.MonkeyPatch, name: str, low: float, high: float
) -> None:
    seen: list[np.ndarray] = []

    def kept(*arguments: object) -> dict[str, np.ndarray]:
        feeds = read_inputs(*arguments)  # type: ignore[arg-type]
        seen.extend(feeds.values())
        return feeds

    read_inputs = images.read_inputs
    monkeypatch.setattr(images, "read_inputs", kept)
    assert call("run", f"zoo:{name}", "--check").code == 0
    (image,) = seen
    assert (
        low <= image.min() < low + 0.1 * (high - low)
        and high - 0.1 * (high - low) < image.max() <= high
    )


# What cannot be done ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["convert", "schedule", "run", "zoo", None])
def test_unknown_names_and_sizes_are_one_line(call: Call, command: str | None) -> None:
    first = [command] if command else []
    assert (
        refused(call(*first, "zoo:vgg20"))
        == "zoo:vgg20: the zoo has no network of that name; the nearest are vgg19, vgg16"
    )
    assert refused(call(*first, "zoo:vgg19@16x16")) == (
        "zoo:vgg19@16x16: vgg19 does not work at 16x16; the smallest size is 32x32"
    )
    assert refused(call(*first, "zoo:v")).startswith(
        "zoo:v: the zoo has no network of that name; it has "
    )
    assert refused(call(*first, "zoo:vgg19@a.json")).startswith(
        "zoo:vgg19@a.json: this is not how a network of the zoo"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("zoo", "vgg20"),
            "vgg20: the zoo has no network of that name; the nearest are vgg19, vgg16",
        ),
        (("zoo", "mnist", "-o", "net.txt"), "net.txt: a network is written as .onnx"),
        (("zoo", "mnist", "-o", "none/net.onnx"), "none/net.onnx: cannot be written: "),
        (("run", "zoo:mnist", "--shape", "none=1x1x28x28"), "zoo:mnist: "),
    ],
)
def test_what_cannot_be_done_is_one_line(call: Call, arguments: tuple[str, ...], said: str) -> None:
    assert refused(call(*arguments)).startswith(said)


@pytest.mark.parametrize(
    "arguments",
    [("zoo", "-o", "net.onnx"), ("zoo", "mnist", "--seed", "1"), ("zoo", "--seed", "1")],
)
def test_options_without_their_other_half(call: Call, arguments: tuple[str, ...]) -> None:
    assert call(*arguments).code == 2


# The page ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
def test_the_page_has_every_network_as_it_is(name: str) -> None:
    cells = " | ".join(counted_cells(ZOO[name]))
    assert f"\n| {cells} | " in PAGE.read_text(), "make test-zoo ARGS=--write brings it up to date"
