"""Goals and budgets on the command line: what is printed and written, what is refused, Ctrl-C."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

import csdfgen
from csdfgen.backends.registry import choose_backend
from csdfgen.devices.catalogue import HOST
from csdfgen.devices.catalogue import device as profile_of
from csdfgen.devices.model import estimate
from tests.command import Call, refused
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier

ROOT = Path(__file__).resolve().parents[2]

KEYS = {"peak_live", "lower_bound", "optimal", "arena", "outputs", "planned_bytes", "predicted_ms", "rows"}  # fmt: skip


@pytest.fixture
def call(call: Call) -> Call:
    """The command, in a folder with a small model."""
    onnx.save(residual_classifier(), "net.onnx")
    return call


# Plans ------------------------------------------------------------------------------------------


def test_json_of_schedule_has_the_figures(call: Call) -> None:
    found = call("schedule", "net.onnx", "--memory", "16KiB", "--json", "-o", "plan.json").json
    assert found.keys() >= KEYS
    assert found["planned_bytes"] == found["arena"] <= 16384
    assert found["predicted_ms"] > 0 and found["device"] == (
        HOST if choose_backend(None).emits else choose_backend(None).profile
    )
    assert found["rows"]["conv1"] >= 1
    plan = json.loads(Path("plan.json").read_text())
    assert plan["arena"] == found["arena"] and plan["options"]["memory"] == 16384
    ran = call("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json
    assert ran["ok"] is True and ran["planned_bytes"] == ran["measured_bytes"] == found["arena"]


def test_units_are_told_apart(call: Call) -> None:
    for text, size in (("20KiB", 20480), ("20KB", 20000), ("20000", 20000)):
        assert call("schedule", "net.onnx", "--memory", text, "-o", "plan.json").code == 0
        assert json.loads(Path("plan.json").read_text())["options"]["memory"] == size


def test_run_takes_a_goal(call: Call) -> None:
    small = call("run", "net.onnx", "--goal", "memory", "--check", "--json").json
    quick = call("run", "net.onnx", "--goal", "speed", "--check", "--json").json
    assert small["ok"] and quick["ok"]
    assert small["planned_bytes"] < quick["planned_bytes"]
    assert small["firings"] > quick["firings"]


def test_a_graph_has_the_heights_of_a_goal(call: Call) -> None:
    assert call("net.onnx", "-o", "small.json", "--goal", "memory").code == 0
    assert call("net.onnx", "-o", "quick.json", "--goal", "speed").code == 0
    small, quick = (
        sum(csdfgen.read_graph(name).phases.values()) for name in ("small.json", "quick.json")
    )
    assert small > quick


def test_the_summary_says_what_is_given_up(call: Call) -> None:
    assert "goal 'memory' searches for such plans" in call("schedule", "net.onnx").out


# The front --------------------------------------------------------------------------------------


def test_a_front_is_a_folder_of_plans_that_run(call: Call) -> None:
    assert call("schedule", "net.onnx", "--pareto", "-o", "plans").code == 0
    listed = json.loads(Path("plans/front.json").read_text())["plans"]
    assert len(listed) > 2
    for before, after in pairwise(listed):
        assert before["arena"] < after["arena"]
        assert before["predicted_ms"] > after["predicted_ms"]
    for one in listed:
        path = f"plans/{one['plan']}"
        found = call("run", "net.onnx", "--plan", path, "--check", "--json").json
        assert found["ok"] is True and found["measured_bytes"] == one["arena"]
    picture = ElementTree.parse("plans/front.svg").getroot()
    texts = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "whole layers" in texts and "memory, MiB" in texts
    assert not list(Path("plans").glob(".*"))


def test_a_front_is_printed(call: Call) -> None:
    found = call("schedule", "net.onnx", "--pareto").out
    assert "predicted ms" in found and "Pareto front of" in found
    values = call("schedule", "net.onnx", "--pareto", "--json").json
    assert values["plans"][0].keys() >= KEYS


def test_a_front_that_runs_says_what_was_measured(call: Call) -> None:
    values = call("run", "net.onnx", "--pareto", "--check", "--json", "--repeat", "2").json
    for one in values["plans"]:
        assert one["ok"] is True and one["measured_ms"] > 0
        assert one["measured_bytes"] == one["arena"]
    found = call("run", "net.onnx", "--pareto", "--output", "front.svg").out
    assert "measured ms" in found and "not checked" in found
    assert b"Orange: measured" in Path("front.svg").read_bytes()


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--memory 1KiB", "net.onnx: --memory of 1,024 bytes is below the "),
        ("--memory 5XB", "--memory 5XB: 'XB' is no unit that is known; a number above 0 with one of B, KB"),
        ("--memory 1KiB --rows 4", "--rows 4 takes; leave --rows out, or ask for --memory "),
        ("--latency 20", "net.onnx: --latency is the time on a device; name it with --device"),
        ("--latency 20xs --device host", "--latency 20xs: 'xs' is no unit that is known; "),
        ("--latency 1ns --device numpy-core", "is not reached: the fastest plan is predicted to take"),
        ("--goal memory --memory 1MB", "leave one of them out"),
        ("--effort soon", "--effort soon: one of low, normal, high, or seconds above 0"),
        ("--recompute 0.9", "--recompute 0.9: a factor from 1"),
        ("--recompute much", "--recompute much: a factor from 1"),
        ("--device nowhere", "nowhere: is not a known device"),
        ("--pareto --rows 2", "net.onnx: pareto chooses heights itself; leave --rows out"),
        ("--pareto --memory 1MB", "--memory asks for one, leave it out"),
        ("--pareto -o front.json", "front.json: a front is written as a folder of plans"),
        ("--pareto -o net", "net: is a file; a folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(call: Call, options: str, said: str) -> None:
    Path("net").touch()
    before = sorted(map(str, Path().iterdir()))
    assert said in refused(call("schedule", "net.onnx", *options.split()))
    assert sorted(map(str, Path().iterdir())) == before


def test_graphs_and_plans_take_no_goal(call: Call) -> None:
    assert call("net.onnx", "-o", "graph.json").code == 0
    assert call("schedule", "net.onnx", "-o", "plan.json").code == 0
    for options in (("--goal", "memory"), ("--pareto",), ("--json",), ("--memory", "1MB")):
        assert options[0] in refused(call("schedule", "graph.json", *options))
    said = refused(call("run", "net.onnx", "--plan", "plan.json", "--goal", "memory"))
    assert said.startswith("plan.json: is a plan already; leave --goal out")
    said = refused(call("run", "net.onnx", "--plan", "plan.json", "--pareto"))
    assert "leave --plan out" in said


def test_requests_are_spoken_of_as_requests(call: Call) -> None:
    assert call("schedule", "net.onnx", "--requests", "4", "-o", "four.json").code == 0
    said = refused(call("run", "net.onnx", "--plan", "four.json", "--requests", "2"))
    assert said == "four.json: is a plan already; leave --requests out"
    said = refused(call("schedule", "net.onnx", "--requests", "1000000", "--memory", "8KiB"))
    assert "1000000 images in one order have" in said and "slab" not in said


def test_a_table_runs_as_many_images_as_are_asked_for_or_given(call: Call) -> None:
    assert call("schedule", "net.onnx", "--requests", "1,3", "-o", "table.json").code == 0
    rng = np.random.default_rng(0)
    for images in (1, 2, 6):
        np.save("x.npy", rng.normal(size=(images, 3, 16, 12)).astype(np.float32))
        asked = ("run", "net.onnx", "--plan", "table.json", "--check", "--json")
        for more in ((), ("--requests", str(images)), ("--batch", str(images))):
            found = call(*asked, "--input", "x.npy", *more)
            assert found.code == 0, found.err
            assert found.json["ok"] and found.json["batch"] == images
    said = refused(call(*asked, "--requests", "5", "--memory", "100"))
    assert "none divides 5 images in 100 bytes" in said
    table = json.loads(Path("table.json").read_text())
    table["plans"] = [one for one in table["plans"] if one["plan"]["batch"] > 1]
    Path("table.json").write_text(json.dumps(table))
    assert "none divides 5 images; add a plan for 1" in refused(call(*asked, "--requests", "5"))


def test_a_plan_is_predicted_on_the_device_that_is_asked_for(call: Call) -> None:
    device = choose_backend(None).profile
    assert call("schedule", "net.onnx", "-o", "plan.json").code == 0
    asked = ("run", "net.onnx", "--plan", "plan.json", "--device", device)
    assert f"on {device}" in call(*asked).out
    plan = csdfgen.plan(csdfgen.load("net.onnx"))
    seconds = estimate(plan, profile_of(device)).seconds
    assert call(*asked, "--json").json["predicted_ms"] == pytest.approx(1e3 * seconds)


# Ctrl-C -----------------------------------------------------------------------------------------


def test_an_interrupted_search_is_a_plan(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from csdfgen.goals import search

    made = search.Search._made

    def interrupted(self: search.Search, *heights: Any) -> search.Point:
        if len(self.found) == 2:
            raise KeyboardInterrupt
        return made(self, *heights)

    monkeypatch.setattr(search.Search, "_made", interrupted)
    found = call("schedule", "net.onnx", "--goal", "memory", "-o", "plan.json")
    assert found.code == 0
    assert found.err.startswith("warning: interrupted: the best of 2 plans so far")
    assert found.err.count("\n") == 1
    csdfgen.read_plan("plan.json", "net.onnx")


@pytest.mark.parametrize("seed", range(2))
def test_ctrl_c_leaves_a_plan_or_nothing(tmp_path: Path, seed: int) -> None:
    """A real process, a real signal, whenever it comes: never half a file, never a traceback."""
    wait = random.Random(seed).uniform(0.0, 3.0)
    call = ["schedule", "zoo:squeezenet1_1@64x64", "--goal", "memory", "--effort", "high", "-o", "plan.json"]  # fmt: skip
    code = f"import sys; from csdfgen.cli import main; print(end='.', flush=True); sys.exit(main({call}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(1) == "."
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    there = [path.name for path in tmp_path.iterdir()]
    if process.returncode in (0, -signal.SIGINT):  # Python, on its way out, has no handler left
        assert there == ["plan.json"]
        assert said == "" or said.startswith("warning: interrupted: the best ")
        csdfgen.read_plan(tmp_path / "plan.json", "zoo:squeezenet1_1@64x64")
    else:
        assert (process.returncode, said) == (130, "interrupted\n")
        assert there in ([], ["plan.json"])


def test_a_mapping_that_no_threads_execute_is_not_predicted(call: Call) -> None:
    asked = "zoo:lenet5", "--goal", "throughput", "--threads", "2", "--frames", "2"
    said = call("run", *asked, "--backend", "numpy").out
    assert "backend 'numpy' computes layers one after the other" in said and "period" not in said
    assert "processors" not in call("run", *asked, "--backend", "numpy", "--json").json


def facts_of(call: Call, *given: str) -> dict[str, Any]:
    found: dict[str, Any] = call("schedule", "zoo:resnet8", "--json", *given).json
    return found


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_constants_are_counted_and_limited(call: Call) -> None:
    """The account that the plan is reported with is what was limited; the message of a refusal names a size that is kept."""
    usual, least = facts_of(call), facts_of(call, "--goal", "memory")
    assert least["arena"] < usual["arena"]
    total = facts_of(call, "--goal", "memory", "--count", "total")
    assert total["account"]["total"] <= min(usual["account"]["total"], least["account"]["total"])
    for name, key, more in (
        ("--memory", "total", ("--count", "total")),
        ("--constants", "flash", ()),
    ):
        size = usual["account"][key]
        found = facts_of(call, name, str(size), *more)
        assert found["account"][key] <= size
        line = refused(call("schedule", "zoo:resnet8", name, "100KiB", *more))
        assert f"{name} of 102,400 bytes is below the least" in line
        wanted = line.rpartition(f"ask for {name} ")[2].split()[0]
        assert facts_of(call, name, wanted, *more)["account"][key] <= size
        low = ("schedule", "zoo:resnet8", "--rows", "1", name, "100KiB", *more)
        assert refused(call(*low)).count("102,400") == 1
    tight = str(total["account"]["flash"])
    assert facts_of(call, "--goal", "memory", "--constants", tight)["account"]["flash"] <= int(
        tight
    )


@pytest.mark.parametrize("counted", [("--count", "total"), ("--constants", "1MiB")])
@pytest.mark.parametrize(
    "other", [("--requests", "2"), ("--fast", "8KiB", "--slow", "1MiB"), ("--goal", "throughput")]
)
def test_constants_count_once(counted: tuple[str, str], other: tuple[str, ...], call: Call) -> None:
    line = refused(call("schedule", "net.onnx", *counted, *other))
    assert counted[0] in line and other[0] in line.partition("leave them out")[2]
