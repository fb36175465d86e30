"""Items and offsets, two memories, several frames: what is printed, written and refused."""

from __future__ import annotations

import importlib.util
import json
from itertools import accumulate
from pathlib import Path

import onnx
import pytest

from csdfgen.planning.packing import pack
from tests.command import Call, refused
from tests.models import model
from tests.packed_items import read_items, write_solution
from tests.small_models import residual_classifier


@pytest.fixture
def call(call: Call) -> Call:
    """The command, in a folder with a small model."""
    onnx.save(residual_classifier(), "net.onnx")
    return call


# Placement --------------------------------------------------------------------------------------


def test_the_summary_says_how_far_the_arena_is_from_the_least(call: Call) -> None:
    found = call("schedule", "net.onnx", "--json").json
    assert found["arena_bound"] <= found["arena"]
    assert found["arena_optimal"] == (found["arena_bound"] == found["arena"])
    assert f"placement  {found['arena']:,} bytes" in call("schedule", "net.onnx").out


def test_an_exact_placement_without_its_extra(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ortools.sat.python", None)
    said = refused(call("schedule", "net.onnx", "--pack", "exact"))
    assert "--pack exact needs OR-Tools" in said and "csdfgen[exact]" in said


@pytest.mark.skipif(importlib.util.find_spec("ortools") is None, reason="OR-Tools: csdfgen[exact]")
def test_an_exact_placement_is_proved(call: Call) -> None:
    found = call("schedule", "net.onnx", "--pack", "exact", "--json", "-o", "plan.json").json
    assert found["arena_optimal"] is True and found["arena"] == found["arena_bound"]
    assert call("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json["ok"] is True


def test_items_go_out_and_offsets_come_back(call: Call) -> None:
    before = call(
        "schedule", "net.onnx", "--backend", "numpy", "--items", "items.csv", "--json"
    ).json
    items, _ = read_items("items.csv")
    names = Path("items.csv").read_text()
    assert "\nx[0]," in names and "\nworkspace:conv1[0]," in names
    write_solution("solution.csv", items, pack(items, effort="low").offsets)
    after = call(
        "schedule", "net.onnx", "--backend", "numpy",
        "--offsets", "solution.csv", "-o", "plan.json", "--json",
    )  # fmt: skip
    assert after.json["arena"] == json.loads(Path("plan.json").read_text())["arena"]
    assert after.json["arena_bound"] == before["arena_bound"]
    ran = call("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json
    assert ran["ok"] is True and ran["measured_bytes"] == ran["planned_bytes"]


def test_solutions_that_are_none_are_refused_in_a_line(call: Call) -> None:
    call("schedule", "net.onnx", "--items", "items.csv")
    head, *lines = Path("items.csv").read_text().splitlines()
    solved = [f"{line},{1 << 12}" for line in lines]
    ends = list(accumulate((-(-int(line.split(",")[3]) // 16) * 16 for line in lines), initial=0))
    apart = [f"{line},{at}" for line, at in zip(lines, ends, strict=False)]
    name, lower, upper, size, step = lines[0].split(",")
    other = ",".join([name, lower, upper, str(int(size) + 16), step, "0"])
    for wrong, said in (
        (lines, "fields, where the first line has"),
        (solved, "overlap during firings"),
        (apart[1:], "is missing"),
        ([*apart, "nobody[0],0,1,16,16,0"], "is no item of this plan"),
        ([other, *apart[1:]], f"has size {int(size) + 16}, where the plan has {size}"),
    ):
        Path("solution.csv").write_text("\n".join([f"{head},offset", *wrong]) + "\n")
        assert said in refused(call("schedule", "net.onnx", "--offsets", "solution.csv"))
    assert "has no column 'offset'" in refused(call("schedule", "net.onnx", "--offsets", "items.csv"))  # fmt: skip
    assert "cannot be read" in refused(call("schedule", "net.onnx", "--offsets", "none.csv"))
    assert "as .csv" in refused(call("schedule", "net.onnx", "--items", "items.txt"))
    assert call("net.onnx", "-o", "graph.json").code == 0
    assert "--items is for models" in refused(call("schedule", "graph.json", "--items", "a.csv"))
    assert "of one" in refused(call("schedule", "net.onnx", "--pareto", "--items", "a.csv"))


# Memories ---------------------------------------------------------------------------------------

TWO = ("--fast", "2KiB", "--slow", "1MiB")


def test_two_memories_are_told_and_run(call: Call) -> None:
    found = call("schedule", "net.onnx", *TWO, "--json", "-o", "plan.json").json
    fast, slow = found["memories"]["fast"], found["memories"]["slow"]
    assert fast["bytes"] == 2048 >= fast["used"] and slow["bytes"] == 2**20 >= slow["used"] > 0
    assert min(fast["read"], fast["written"], slow["read"], slow["written"]) > 0
    assert "read a frame" in call("schedule", "net.onnx", *TWO).out
    ran = call("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json
    assert ran["ok"] is True and ran["memories"] == found["memories"]
    assert call("run", "net.onnx", *TWO, "--json").json["memories"] == found["memories"]
    assert "memories" not in call("schedule", "net.onnx", "--json").json


def test_the_page_has_the_memories(call: Call) -> None:
    assert call("report", "net.onnx", *TWO, "--no-measure", "-o", "page.html").code == 0
    page = Path("page.html").read_text()
    assert "written a frame" in page and "--fast 2048 --slow 1048576" in page


def test_memories_that_cannot_be_are_refused_in_a_line(call: Call) -> None:
    def said(*arguments: str) -> str:
        return refused(call("schedule", "net.onnx", *arguments))

    exchanged = said("--fast", "8MiB", "--slow", "4KiB")
    assert "8,388,608 bytes, more than the slow one with 4,096" in exchanged
    assert "--slow" in said("--fast", "8KiB") and "--fast" in said("--slow", "8KiB")
    small = said("--fast", "512", "--slow", "1KiB")
    assert "fast" in small and "512" in small and "1024" in small
    assert "512XB" in said("--fast", "512XB", "--slow", "1MiB")
    assert "leave it out" in said("--pareto", *TWO)
    assert "leave it or --fast out" in said("--pack", "exact", *TWO) or "OR-Tools" in said("--pack", "exact", *TWO)  # fmt: skip
    assert "leave one of them out" in said("--offsets", "a.csv", *TWO)
    assert call("schedule", "net.onnx", "-o", "plan.json").code == 0
    assert "leave --fast out" in refused(call("run", "net.onnx", "--plan", "plan.json", *TWO))


# Frames -----------------------------------------------------------------------------------------


def test_frames_are_told_and_run(call: Call) -> None:
    one = call("schedule", "net.onnx", "--rows", "2", "--json").json
    found = call(
        "schedule", "net.onnx", "--rows", "2", "--frames", "3", "--json", "-o", "plan.json"
    ).json
    told = found["frames"]
    assert told["frames"] == 3 and 2 <= told["in_flight"] <= 3
    assert found["policy"] == "overlap" and found["firings"] == 3 * one["firings"]
    assert told["arena_of_one"] == one["arena"] < told["arena"] == found["arena"]
    assert told["pipeline"]["rate"] >= told["pipeline_of_one"]["rate"] >= told["rate"] > 0
    assert "in flight" in call("schedule", "net.onnx", "--rows", "2", "--frames", "3").out
    ran = call("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json
    assert ran["ok"] is True and ran["batch"] == 3
    assert ran["measured_bytes"] == ran["planned_bytes"] == found["arena"]
    again = call("run", "net.onnx", "--rows", "2", "--frames", "3", "--check", "--json").json
    assert again["ok"] is True and again["frames"]["arena"] == found["arena"]
    assert call(
        "run", "net.onnx", "--rows", "2", "--frames", "2", "--batch", "4", "--check", "--json"
    ).json["ok"]
    assert call("report", "net.onnx", "--rows", "2", "--frames", "2", "--no-measure").code == 0
    assert "in flight" in Path("report.html").read_text()


def test_one_frame_is_the_usual_plan(call: Call) -> None:
    assert call("schedule", "net.onnx", "-o", "a.json").code == 0
    assert call("schedule", "net.onnx", "--frames", "1", "-o", "b.json").code == 0
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_frames_keep_an_order_that_is_asked_for(call: Call) -> None:
    found = call("schedule", "net.onnx", "--frames", "2", "--policy", "demand", "--json").json
    assert found["policy"] == "demand" and found["frames"]["frames"] == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "g (float[1,3,4] x) => (float[k,3,4] y) { m = ReduceMax <keepdims = 0> (x)  y = Sub(x, m) }",
            "layer 'ReduceMax_0' (ReduceMax) mixes them",
        ),
        (
            "g (float[1,4] x, float[2,4] h) => (float[2,4] y) { y = Add(x, h) }",
            "input 'h' has 2 along axis 0",
        ),
        (
            "g (float[1,3,4] x) => (float[1,12] y) { f = Flatten(x)  y = Concat <axis = 0> (f, f) }",
            "layer 'Concat_1' (Concat) mixes them",
        ),
    ],
)
def test_frames_of_a_network_for_one_image_are_refused(call: Call, text: str, why: str) -> None:
    onnx.save(model(text), "one.onnx")
    for command in ("schedule", "run"):
        said = refused(call(command, "one.onnx", "--frames", "3"))
        assert said.startswith("one.onnx: --frames 3 are images that do not touch each other")
        assert why in said and "--batch" not in said


def test_frames_that_cannot_be_are_refused_in_a_line(call: Call) -> None:
    said = refused(call("schedule", "net.onnx", "--frames", "3", "--batch", "4"))
    assert "--frames 3: does not divide a batch of 4" in said
    assert call("schedule", "net.onnx", "--frames", "0").code == 2
    assert call("schedule", "net.onnx", "-o", "plan.json").code == 0
    assert "leave --frames out" in refused(call("run", "net.onnx", "--plan", "plan.json", "--frames", "2"))  # fmt: skip
