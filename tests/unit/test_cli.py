"""The command line as a user meets it: what it prints, writes and returns, and one line when
something is wrong.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from csdfgen import __version__
from csdfgen.cli.command import COMMANDS
from csdfgen.cli.doctor import second_owners
from csdfgen.cli.terminal import show_progress
from csdfgen.dataflow import graph_json
from csdfgen.devices import boards
from csdfgen.files import TAKEN_BY
from csdfgen.model.describe import FIGURES
from csdfgen.model.options import OPTIONS
from csdfgen.planning import plan_file, plan_table
from csdfgen.rewriting.fuse import FUSE_LEVELS
from csdfgen.serving import times
from csdfgen.tuning import file as tuning
from runtime.reference import Reference
from schedules import schedule
from sdf3_bridge import sdf3xml
from tests.command import ROOT, Call, execute, python, refused, start
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier, squeeze_and_excite, two_inputs

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@pytest.fixture
def csdfgen(call: Call) -> Call:
    """The command, in a folder with the small models."""
    onnx.save(residual_classifier(), "net.onnx")
    onnx.save(residual_classifier(batch="N"), "free.onnx")
    onnx.save(two_inputs(), "two.onnx")
    onnx.save(squeeze_and_excite(), "gate.onnx")
    return call


# Convert ----------------------------------------------------------------------------------------


def test_convert_is_the_default_command(csdfgen: Any) -> None:
    for arguments in (
        ("net.onnx", "-o", "a.json"),
        ("convert", "net.onnx", "-o", "b.json"),
        ("-o", "c.json", "--", "net.onnx"),
    ):
        result = csdfgen(*arguments)
        assert (result.code, result.err) == (0, "")
        assert "actors" in result.out and "phases" in result.out
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes() == Path("c.json").read_bytes()


@pytest.mark.parametrize("rates", ["exact", "paper"])
@pytest.mark.parametrize("tokens", ["elements", "rows"])
def test_graph_files_hold_the_same_graph(csdfgen: Any, rates: str, tokens: str) -> None:
    for name in ("g.json", "g.xml", "g.dot"):
        assert (
            csdfgen(
                "net.onnx", "-o", name, "--rates", rates, "--tokens", tokens, "--rows", "2"
            ).code
            == 0
        )
    graph = graph_json.read_graph("g.json")
    data = {channel.name: channel for channel in graph.channels if channel.kind == "data"}
    assert sum(data["x->conv1"].production) == (16 if tokens == "rows" else 16 * 12 * 3)
    assert sdf3xml.read("g.xml") == graph
    assert Path("g.dot").read_text().startswith("digraph")


def test_a_graph_file_is_converted_too(csdfgen: Any) -> None:
    csdfgen("net.onnx", "-o", "g.json")
    for source, target in (("g.json", "h.xml"), ("h.xml", "i.json"), ("i.json", "j.xml")):
        assert csdfgen(source, "-o", target).code == 0
    assert Path("h.xml").read_bytes() == Path("j.xml").read_bytes()
    summary = csdfgen("h.xml")
    assert "conv2" in summary.out and "peak_live" not in summary.out
    assert "--rows is for models" in refused(csdfgen("g.json", "--rows", "2"))
    assert "--rates is for models" in refused(csdfgen("g.json", "--rates", "exact"))


def test_summary_has_every_figure_in_words(csdfgen: Any) -> None:
    result = csdfgen("net.onnx")
    for name, meaning in FIGURES.items():
        assert name in result.out and meaning in result.out
    for word in ("conv1", "phases", "bytes", "MB", "MiB", "actors", "channels", "tokens"):
        assert word in result.out


def test_names_from_a_model_cannot_move_the_cursor(csdfgen: Any) -> None:
    model = residual_classifier()
    model.graph.node[0].name = "conv\x1b[2J[red]1"
    onnx.save(model, "odd.onnx")
    result = csdfgen("odd.onnx")
    assert result.code == 0 and "\x1b" not in result.out
    assert "[red]1" in result.out


# Schedule ---------------------------------------------------------------------------------------


def test_schedule_of_a_model_is_run_as_it_is(csdfgen: Any) -> None:
    assert (
        csdfgen(
            "schedule",
            "net.onnx",
            "-o",
            "plan.json",
            "--rows",
            "3",
            "--fuse",
            "none",
            "--image",
            "resident",
        ).code
        == 0
    )
    direct = csdfgen(
        "run", "net.onnx", "--rows", "3", "--fuse", "none", "--image", "resident", "--json"
    ).json
    planned = csdfgen("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json
    assert planned["ok"] is True
    for key in ("rows", "fuse", "image", "firings", "planned_bytes", "measured_bytes", "figures"):
        assert planned[key] == direct[key]


def test_schedule_summary(csdfgen: Any) -> None:
    result = csdfgen("schedule", "net.onnx", "--rows", "1")
    for word in ("buffer", "offset", "conv1(", "arena", "peak_live"):
        assert word in result.out


def test_plan_keeps_shapes_and_batch(csdfgen: Any) -> None:
    assert csdfgen("schedule", "free.onnx", "-o", "plan.json", "--shape", "x=2x3x16x12").code == 0
    found = csdfgen("run", "free.onnx", "--plan", "plan.json", "--check", "--json").json
    assert (
        found["ok"] is True
        and found["batch"] == 2
        and found["outputs"]["scores"]["shape"] == [2, 7, 1, 1]
    )
    assert "other shapes" in refused(
        csdfgen("run", "free.onnx", "--plan", "plan.json", "--batch", "3")
    )
    said = refused(csdfgen("run", "free.onnx", "--plan", "plan.json", "--rows", "whole"))
    assert "made with --rows " in said and ", not whole; " in said


def test_tampered_plan_is_one_line(csdfgen: Any) -> None:
    csdfgen("schedule", "net.onnx", "-o", "plan.json", "--rows", "1")
    text = Path("plan.json").read_text()
    values = json.loads(text)
    image = next(buffer for buffer in values["buffers"] if buffer["name"] == "x")
    first, *others = image["offsets"].split(",")
    image["offsets"] = ",".join([first, first, *others[1:]])
    Path("plan.json").write_text(json.dumps(values))
    assert refused(csdfgen("run", "net.onnx", "--plan", "plan.json")).startswith("plan.json: ")
    assert "net.onnx" in refused(csdfgen("run", "two.onnx", "--plan", "plan.json"))
    csdfgen("net.onnx", "-o", "graph.json")
    assert "csdfgen schedule GRAPH -o PLAN.json makes a plan" in refused(
        csdfgen("run", "net.onnx", "--plan", "graph.json")
    )


@pytest.mark.parametrize("graph", ["graph.xml", "graph.json"])
@pytest.mark.parametrize("tokens", ["elements", "rows"])
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--rows", "1"),
        ("--rows", "whole"),
        ("--rows", "2,conv2=1"),
        ("--fuse", "none"),
        ("--fuse", "fold", "--image", "resident"),
    ],
)
def test_graphs_run_models(csdfgen: Any, graph: str, tokens: str, options: tuple[str, ...]) -> None:
    assert csdfgen("net.onnx", "-o", graph, "--tokens", tokens, *options).code == 0
    assert csdfgen("schedule", graph, "-o", "plan.json").code == 0
    found = csdfgen("run", "net.onnx", "--plan", "plan.json", "--check", "--json", *options).json
    assert found["ok"] is True
    assert found["planned_bytes"] == found["measured_bytes"]
    wanted = dict(zip(options[::2], options[1::2], strict=True))
    for option, default in (("--rows", "auto"), ("--fuse", "full"), ("--image", "streamed")):
        assert found[option[2:]] == wanted.get(option, default)


def test_the_schedule_of_a_graph_keeps_shapes_and_batch(csdfgen: Any) -> None:
    csdfgen("free.onnx", "-o", "graph.xml", "--shape", "x=2x3x16x12")
    csdfgen("schedule", "graph.xml", "-o", "plan.json")
    found = csdfgen("run", "free.onnx", "--plan", "plan.json", "--check", "--json").json
    assert found["ok"] is True and found["outputs"]["scores"]["shape"] == [2, 7, 1, 1]
    assert (
        csdfgen(
            "run", "free.onnx", "--plan", "plan.json", "--batch", "2", "--shape", "x=2x3x16x12"
        ).code
        == 0
    )
    assert "other shapes" in refused(
        csdfgen("run", "free.onnx", "--plan", "plan.json", "--batch", "3")
    )
    said = refused(csdfgen("run", "free.onnx", "--plan", "plan.json", "--rows", "whole"))
    assert "made with --rows " in said and ", not whole; " in said
    values = json.loads(Path("plan.json").read_text())
    values["origin"]["batch"] = 5
    Path("plan.json").write_text(json.dumps(values))
    assert (
        refused(csdfgen("run", "free.onnx", "--plan", "plan.json"))
        == "plan.json: is for 5 images in inputs of 2"
    )


@pytest.mark.parametrize("suffix", ["json", "xml"])
def test_schedule_of_any_graph(csdfgen: Any, suffix: str) -> None:
    csdfgen("net.onnx", "-o", f"g.{suffix}", "--tokens", "rows")
    result = csdfgen("schedule", f"g.{suffix}", "-o", "s.json")
    assert result.code == 0 and "tokens" in result.out
    values = json.loads(Path("s.json").read_text())
    assert values["format"] == "csdfgen-schedule" and values["capacities"]["r1->conv2"] > 0
    summary = csdfgen("schedule", f"g.{suffix}")
    assert "bytes" in summary.out and "conv1(" in summary.out


# Run --------------------------------------------------------------------------------------------

JSON_KEYS = {
    "model": str,
    "ok": bool,
    "max_abs_error": float,
    "latency_ms": float,
    "firings": int,
    "planned_bytes": int,
    "measured_bytes": int,
    "python_peak_bytes": int,
    "call_peak_bytes": int,
    "result": str,
    "figures": dict,
    "rows": str,
    "fuse": str,
    "image": str,
    "batch": int,
    "threads": int,
    "outputs": dict,
    "whole_layers": list,
}


@pytest.mark.parametrize("rows", ["1", "3", "auto", "whole", "2,conv2=1"])
@pytest.mark.parametrize("fuse", ["none", "fold", "full"])
def test_run_check_json(csdfgen: Any, rows: str, fuse: str) -> None:
    result = csdfgen(
        "run", "net.onnx", "--rows", rows, "--fuse", fuse, "--check", "--json", "--output", "y.npz"
    )
    found = result.json
    assert (result.code, result.err) == (0, "")
    assert {key: type(found[key]) for key in JSON_KEYS} == JSON_KEYS
    assert (
        found["ok"]
        and found["planned_bytes"] == found["measured_bytes"] == found["figures"]["arena"]
    )
    assert found["figures"].keys() == FIGURES.keys() and all(
        type(size) is int for size in found["figures"].values()
    )
    assert found["outputs"] == {"scores": {"shape": [1, 7, 1, 1], "dtype": "float32"}}
    with np.load("y.npz") as outputs:
        assert outputs["scores"].shape == (1, 7, 1, 1)


def test_run_without_check_says_so(csdfgen: Any) -> None:
    found = csdfgen("run", "net.onnx", "--json").json
    assert found["ok"] is None and found["max_abs_error"] is None


@pytest.mark.parametrize(
    "words",
    [
        ["--check", "layers"],
        ["--check=layers"],
        ["--check", "layers", "--rows", "1"],
        ["--check", "layers", "--frames", "2"],
    ],
)
def test_check_layers(csdfgen: Any, words: list[str]) -> None:
    report = csdfgen("run", "net.onnx", *words)
    assert report.code == 0 and "conv2" in report.out and "max abs error" in report.out
    layers = csdfgen("run", "net.onnx", "--fuse", "none", "--json", *words).json["layers"]
    assert [layer["layer"] for layer in layers] == [
        "conv1",
        "relu1",
        "conv2",
        "add",
        "pool",
        "conv3",
        "scores",
    ]
    assert all(layer["ok"] for layer in layers)


def test_check_stands_before_anything(csdfgen: Any) -> None:
    for words in (
        ("--check", "net.onnx"),
        ("net.onnx", "--check", "--rows", "1"),
        ("net.onnx", "--check", "--json"),
    ):
        assert csdfgen("run", *words).code == 0
    assert "is not 'layers'" in csdfgen("run", "net.onnx", "--check=most").err


def test_what_is_larger_than_whole_layers_is_not_called_gained(csdfgen: Any) -> None:
    """The sentence agrees with the figures, whichever of them is the larger."""
    for rows in ("1", "whole"):
        report = csdfgen("run", "zoo:lenet5", "--rows", rows, "--json").json
        figures, total = report["figures"], report["account"]["total"]
        used = figures["arena"] + figures["outputs"]
        word = "gained" if used < figures["whole_layer_live"] else "larger"
        said = csdfgen("run", "zoo:lenet5", "--rows", rows).out
        line = next(line for line in said.splitlines() if "arena and outputs take" in line)
        assert line.startswith(f"{word}  ")
        assert ("less than whole_layer_live" in line) == (word == "gained")
        in_all = said.splitlines()[said.splitlines().index(line) - 1]
        less = total < figures["whole_layer_live"] + figures["parameters"]
        assert in_all.startswith(f"{'gained' if less else 'larger'}  ") and "in all" in in_all


def test_report_tells_what_was_gained_and_kept(csdfgen: Any) -> None:
    result = csdfgen("run", "gate.onnx", "--check", "--repeat", "3", "--rows", "1")
    for word in (
        "as planned",
        "whole_layer_live",
        "median of 3 frames",
        "1 thread",
        "kept whole",
        "also needs the whole of 's'",
    ):
        assert word in result.out
    found = csdfgen("run", "gate.onnx", "--rows", "1", "--json").json
    assert "m" in {entry["tensor"] for entry in found["whole_layers"]}


def test_streamed_outputs_are_checked_and_not_stored(csdfgen: Any) -> None:
    result = csdfgen("run", "gate.onnx", "--result", "streamed", "--check", "--rows", "1")
    assert result.code == 0 and "no output stored" in result.out and "'y': equal" in result.out
    assert "arena takes" in result.out
    found = csdfgen("run", "gate.onnx", "--result=streamed", "--check", "--json").json
    assert found["ok"] is True and found["result"] == "streamed"
    assert found["figures"]["outputs"] == 0
    for words in (("--output", "y.npz"), ("--labels", "labels.txt")):
        assert "--result streamed stores no output" in refused(
            csdfgen("run", "gate.onnx", "--result", "streamed", *words)
        )
    assert "is not one of 'stored'" in csdfgen("run", "gate.onnx", "--result", "kept").err


def test_classes_and_labels(csdfgen: Any) -> None:
    Path("labels.txt").write_text("".join(f"kind {k}\n" for k in range(7)))
    result = csdfgen("run", "net.onnx", "--labels", "labels.txt")
    assert "top 5 of 'scores'" in result.out and result.out.count("kind ") == 5
    Path("labels.txt").write_text("one\ntwo\n")
    assert "2 labels" in refused(csdfgen("run", "net.onnx", "--labels", "labels.txt"))
    Path("labels.txt").write_text(8 * "one too many\n")
    err = refused(csdfgen("run", "net.onnx", "--labels", "labels.txt"))
    assert "8 labels, output 'scores' has 7 classes; give one line for each class" in err


def test_labels_name_few_classes_and_are_counted_before_planning(
    csdfgen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,2] x) => (float[1,2] y) { y = Softmax(x) }'
    )
    onnx.save(few, "few.onnx")
    Path("labels.txt").write_text("cat\ndog\n")
    assert "top 5" not in csdfgen("run", "few.onnx").out
    assert csdfgen("run", "few.onnx", "--labels", "labels.txt").out.count("dog") == 1
    monkeypatch.setattr("csdfgen.cli.models.plan_network", None)
    for model, has in (("net.onnx", "'scores' has 7 classes"), ("two.onnx", "no output is a")):
        err = refused(csdfgen("run", model, "--labels", "labels.txt", "--rows", "2"))
        assert f"2 labels, {'output ' if 'has' in has else ''}{has}" in err


def test_inputs_and_outputs_by_file(csdfgen: Any) -> None:
    rng = np.random.default_rng(0)
    values = {
        name: rng.uniform(-1, 1, (1, 2, 6, 5)).astype(np.float32) for name in ("left", "right")
    }
    for name, array in values.items():
        np.save(f"{name}.npy", array)
    assert (
        csdfgen(
            "run",
            "two.onnx",
            "--input",
            "left=left.npy",
            "--input",
            "right=right.npy",
            "--output",
            "y.npz",
        ).code
        == 0
    )
    with np.load("y.npz") as outputs:
        assert np.allclose(outputs["sum"], values["left"] + values["right"])
    assert "2 outputs" in refused(csdfgen("run", "two.onnx", "--output", "y.npy"))


def test_the_seed_decides_the_outputs(csdfgen: Any) -> None:
    for name, seed in (("a.npy", "1"), ("b.npy", "1"), ("c.npy", "2")):
        csdfgen("run", "net.onnx", "--seed", seed, "--output", name)
    assert Path("a.npy").read_bytes() == Path("b.npy").read_bytes() != Path("c.npy").read_bytes()


def test_batch(csdfgen: Any) -> None:
    found = csdfgen("run", "free.onnx", "--batch", "3", "--check", "layers", "--json").json
    assert found["ok"] is True and found["batch"] == 3


@pytest.fixture
def wrong_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime that has other values behind conv2."""
    right = Reference.__call__

    def wrong(self: Reference, feeds: Any) -> dict[str, np.ndarray]:
        return {
            name: array + (name in ("c2", "scores")) for name, array in right(self, feeds).items()
        }

    monkeypatch.setattr(Reference, "__call__", wrong)


@pytest.mark.usefixtures("wrong_reference")
def test_a_failed_check_names_the_layer(csdfgen: Any) -> None:
    result = csdfgen("run", "net.onnx", "--check", "--json", "--fuse", "none", "--rows", "1")
    line = refused(result)
    assert line.startswith(
        "net.onnx: output 'scores' differs from onnxruntime's in 7 of 7 values, by up to 1 "
    )
    assert "first wrong: row 0 of 16 of 'c2', layer 'conv2' (Conv)" in line
    assert result.json["ok"] is False and result.json["max_abs_error"] == pytest.approx(1, abs=1e-3)
    assert "7 wrong" in csdfgen("run", "net.onnx", "--check").out


# Wrong usage, wrong files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", "net.onnx", "--rowz", "1"),
        ("run", "net.onnx", "--fuse", "most"),
        ("run", "net.onnx", "--shape", "=1x3x4"),
        ("run", "net.onnx", "--shape", "x=1xfoo"),
        ("run", "net.onnx", "--shape", "x=1x3", "--shape", "x=1x4"),
        ("run", "net.onnx", "--batch", "0"),
        ("run", "net.onnx", "--threads", "many"),
        ("run", "net.onnx", "--input"),
        ("shedule", "net.onnx"),
        ("docter",),
    ],
)
def test_wrong_usage_is_exit_2(csdfgen: Any, arguments: tuple[str, ...]) -> None:
    result = csdfgen(*arguments)
    assert result.code == 2 and result.err and "Traceback" not in result.err


BAD_FILES = [
    ("none.onnx", None, "does not exist"),
    ("resnet8", None, "zoo:resnet8|resnet8: "),
    ("none.json", None, "No such file"),
    ("none.xml", None, "No such file"),
    ("empty.onnx", b"", "empty"),
    ("empty.json", b"", "JSON"),
    ("empty.xml", b"", "none.xml|empty.xml"),
    ("text.onnx", b"just some text, no model\n", "text.onnx"),
    ("zeros.onnx", bytes(4096), "zeros.onnx"),
    ("list.json", b"[1, 2]", "list.json"),
    (
        "plan.json",
        b'{"format": "csdfgen-plan", "version": 1}',
        "for csdfgen run MODEL --plan; 'csdfgen-graph' is",
    ),
    ("deep.json", b"[" * 100_000, "deep"),
]


@pytest.mark.parametrize(("name", "data", "said"), BAD_FILES, ids=[row[0] for row in BAD_FILES])
def test_wrong_files_are_one_line(csdfgen: Any, name: str, data: bytes | None, said: str) -> None:
    if data is not None:
        Path(name).write_bytes(data)
    for command in ((), ("schedule",)):
        line = refused(csdfgen(*command, name))
        assert name in line and re.search(said, line)


def test_every_format_says_what_takes_it() -> None:
    rooms = (graph_json, plan_file, plan_table, schedule, boards, times, tuning)
    assert {room.FORMAT for room in rooms} == set(TAKEN_BY)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("net.onnx", "-o", "graph.png"), "graph.png: a graph is written as .xml, .json, .dot"),
        (("net.onnx", "-o", "none/graph.xml"), "none/graph.xml: cannot be written"),
        (("schedule", "net.onnx", "-o", "plan.txt"), "plan.txt: a plan is written as .json"),
        (("run", "net.onnx", "--rows", "nobody=1"), "net.onnx: --rows names 'nobody'"),
        (("run", "net.onnx", "--rows", "0"), "net.onnx: --rows"),
        (("net.onnx", "-o", "g.xml", "--rows", "x"), "net.onnx: --rows"),
        (("run", "."), ".: is a directory"),
        (("run", "net.onnx", "--input", "none.npy"), "none.npy: does not exist"),
        (("run", "net.onnx", "--labels", "none.txt"), "none.txt: cannot be read"),
        (("run", "net.onnx", "--plan", "none.json"), "none.json: cannot be read"),
        (("run", "net.onnx", "--output", "y.csv"), "y.csv: outputs are written as .npy or .npz"),
        (
            ("run", "graph.json"),
            "graph.json: is a graph or a plan, without weights to run with; give the model (and --plan",
        ),
        (("run", "graph.xml"), "graph.xml: is a graph, without weights"),
        (("run", "net.onnx", "--mean", "red"), "--mean red"),
        (("run", "net.onnx", "--shape", "y=1x3x4x4"), "net.onnx: "),
    ],
)
def test_what_cannot_be_done(csdfgen: Any, arguments: tuple[str, ...], said: str) -> None:
    assert refused(csdfgen(*arguments)).startswith(said)


def test_a_name_that_no_file_can_have_is_one_line(csdfgen: Any) -> None:
    """Symptom: "internal error: OSError"."""
    name = f"{'a' * 300}.prototxt"
    assert refused(csdfgen(name)) == f"{name}: File name too long"


def test_a_fault_of_ours_is_one_line_too(csdfgen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise TypeError("two\nlines")

    monkeypatch.setattr("csdfgen.cli.convert.Convert.run", broken)
    assert "internal error: TypeError: two lines; please report" in refused(csdfgen("net.onnx"))
    monkeypatch.setenv("CSDFGEN_DEBUG", "1")
    assert "Traceback" in csdfgen("net.onnx").err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MemoryError("cannot allocate 9 GiB"), 1, "not enough memory: cannot allocate 9 GiB"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(130), 130, "interrupted"),  # what typer makes of Ctrl-C before a command runs
    ],
)
def test_endings(
    csdfgen: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr("csdfgen.cli.convert.Convert.run", broken)
    assert refused(csdfgen("net.onnx"), code) == said


# The process ------------------------------------------------------------------------------------


def test_help_and_version(csdfgen: Any) -> None:
    assert csdfgen("--version").out == f"csdfgen {__version__}\n"
    for arguments in (
        (),
        ("--help",),
        ("-h",),
        ("convert", "--help"),
        ("schedule", "-h"),
        ("run", "-h"),
        ("operators", "-h"),
        ("doctor", "-h"),
    ):
        result = csdfgen(*arguments)
        assert (result.code, result.err) == (0, "") and "Usage: csdfgen" in result.out
    assert OPTIONS["fuse"].kind.words == tuple(FUSE_LEVELS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_shows_no_type_of_a_flag(csdfgen: Any, command: str) -> None:
    said = csdfgen(*command.split(), "--help").out
    assert "--help" in said and "<bool>" not in said and "BOOLEAN" not in said
    assert not re.search(r"\bruntime\.", said)


def test_the_shape_of_the_only_input_needs_no_name(csdfgen: Any) -> None:
    shape = ("--shape", "2x3x16x12")
    assert csdfgen("schedule", "free.onnx", "-o", "plan.json", *shape).code == 0
    assert csdfgen("run", "free.onnx", "--plan", "plan.json", *shape, "--check").code == 0
    assert "has 4 dimensions" in refused(csdfgen("free.onnx", "--shape", "3x16x12"))
    assert "one shape for 2 inputs; give shapes by name" in refused(csdfgen("two.onnx", *shape))


def test_help_is_as_wide_as_the_terminal(csdfgen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Symptom: sentences were also broken where those of the source are, into lines of two words."""
    monkeypatch.setenv("COLUMNS", "300")
    assert "or .dot for Graphviz; without -o, print a summary." in csdfgen("--help").out
    assert "memory figures; `run --plan` executes it" in csdfgen("schedule", "--help").out
    for command in ("run", "schedule", "report"):
        usual, whole = (csdfgen(command, word).out for word in ("--help", "--help-all"))
        assert 1.25 * usual.count("\n") < whole.count("\n")
        flags = set(re.findall(r"--[a-z][-a-z]+", whole))
        assert {"--rows", "--memory", "--json", "--help-all"} <= flags & set(usual.split())
        assert "--recompute" in flags and "--recompute" not in usual


def test_a_shell_completes_commands_and_options() -> None:
    variables = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "PYTHONPATH": str(ROOT)}
    command = f"{shlex.quote(sys.executable)} -m csdfgen"
    script = execute(
        *shlex.split(command), "--show-completion", "bash", env={**variables}, check=True
    ).stdout
    for typed, wanted in (("csdfgen sch", "schedule"), ("csdfgen run --chec", "--check")):
        words = shlex.join(shlex.split(typed))
        ask = (
            f'csdfgen() {{ PYTHONPATH={shlex.quote(str(ROOT))} {command} "$@"; }}; export -f csdfgen\n'
            f"{script.replace('$1 )', 'bash -c csdfgen )')}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed.split()) - 1}\n"
            "_csdfgen_completion csdfgen; echo ${COMPREPLY[@]}"
        )
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
        assert wanted in done.stdout.split(), (done.stdout, done.stderr)


def test_the_help_of_what_is_no_command(csdfgen: Any) -> None:
    for arguments in (("bench", "--help"), ("bench", "-h"), ("bench", "-o", "x.json", "--help")):
        result = csdfgen(*arguments)
        assert result.code == 2 and "'bench' is neither a command nor a file" in result.err
    assert csdfgen("net.onnx", "--help").code == 0
    assert csdfgen("zoo:lenet5", "--help").code == 0
    assert csdfgen("--rows", "1", "--help").code == 0


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_wrong_usage_is_one_line_that_names_the_command(csdfgen: Any, command: str) -> None:
    said = refused(csdfgen(command, "--no-such-option"), code=2)
    assert said.startswith(f"csdfgen {command}: ") and said.endswith(
        f"see csdfgen {command} --help"
    )
    assert "--no-such-option" in said
    said = refused(csdfgen("schedule", "net.onnx", "-o"), code=2)
    assert said == "csdfgen schedule: option '-o' requires an argument; see csdfgen schedule --help"


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from csdfgen.cli import main; main(['-h']); print({'numpy', 'onnx', 'lxml'} & set(sys.modules))"
    done = python("-c", code, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_ctrl_c_leaves_nothing_behind(csdfgen: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "labels")
    before = {path.name for path in tmp_path.iterdir()}
    process = start(
        "run",
        "net.onnx",
        "--repeat",
        "100000",
        "--output",
        "y.npz",
        "--labels",
        "labels",
        cwd=tmp_path,
    )
    try:
        (tmp_path / "labels").write_text("name\n" * 7)  # waits until the command reads it
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert {path.name for path in tmp_path.iterdir()} == before


def shell(line: str, cwd: Path) -> tuple[int, str]:
    """Exit code and stderr of a line of shell in which $CSDFGEN is the command."""
    command = f"{shlex.quote(sys.executable)} -m csdfgen"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = execute("sh", "-c", line.replace("$CSDFGEN", command), cwd=cwd, env=environment)
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_output_that_finds_no_room_is_one_line(csdfgen: Any, tmp_path: Path) -> None:
    assert shell("$CSDFGEN net.onnx > /dev/full", tmp_path) == (
        1,
        "the output cannot be written: No space left on device\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_help_that_finds_no_room_is_one_line(tmp_path: Path) -> None:
    code, said = shell("$CSDFGEN --version > /dev/full", tmp_path)
    assert (code, said) == (1, "the output cannot be written: No space left on device\n")


def test_streams_may_be_closed_from_the_start(csdfgen: Any, tmp_path: Path) -> None:
    assert shell("$CSDFGEN net.onnx -o g.json >&- 2>&-", tmp_path) == (0, "")
    assert json.loads((tmp_path / "g.json").read_text())["format"] == "csdfgen-graph"
    assert shell("$CSDFGEN none.onnx >&-", tmp_path) == (1, "none.onnx: does not exist\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("net.onnx",),
        ("zoo",),
        ("zoo", "--json"),
        ("devices",),
        ("--help",),
        ("run", "--help"),
        ("--version",),
    ],
)
def test_a_reader_goes_away(csdfgen: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Nothing on stderr, and the shell's code for SIGPIPE."""
    process = start(*arguments, cwd=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(20) == 141


@needs_compiler  # without one a warning says so
def test_nothing_but_results_reaches_a_pipe(csdfgen: Any, tmp_path: Path) -> None:
    process = start("run", "net.onnx", "--check", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "") and "\x1b" not in out and "\r" not in out


def test_a_long_wait_is_one_line_at_once(csdfgen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def waiting() -> list[Any]:
        for done in range(2):
            waits = logging.getLogger("csdfgen.waits")
            waits.info("compiling kernels once, about 40 s", extra={"done": done, "total": 2})
        print("then", file=sys.stderr)
        return []

    monkeypatch.setattr("csdfgen.cli.doctor.diagnose", waiting)
    done = csdfgen("doctor", "--json")
    assert done.json == {"findings": []}
    assert done.err == "compiling kernels once, about 40 s\nthen\n"


def test_a_bar_shows_a_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    waits = logging.getLogger("csdfgen.waits")
    monkeypatch.setattr(waits, "level", logging.INFO)
    with show_progress():
        waits.info("measuring kernels", extra={"done": 3, "total": 7})
    assert "measuring kernels" in terminal.getvalue() and not waits.filters


def test_doctor(csdfgen: Any) -> None:
    found = csdfgen("doctor", "--json").json["findings"]
    assert {"what", "value", "trouble", "absent"} == {*found[0]}
    out = csdfgen("doctor").out
    for word in ("Python", "numpy", "onnxruntime", "BLAS", "import runtime", "import zoo_models"):
        assert word in out
    assert second_owners({"runtime": ["csdfgen"], "schedules": ["csdfgen", "schedules"]}) == {
        "schedules": ["schedules"]
    }


@pytest.mark.parametrize(
    "command",
    [
        "convert zoo:cnn5 -o g.xml",
        "schedule zoo:cnn5 -o p.json",
        "schedule zoo:cnn5 --chart arena -o a.svg",
        "schedule zoo:cnn5 --requests 1,2 -o t.json",
        pytest.param("compile zoo:cnn5 -o c.csdfgen --library lib", marks=needs_compiler),
        pytest.param("emit-c zoo:cnn5 -o c", marks=needs_compiler),
        pytest.param("bundle zoo:cnn5 -o b.tar.gz", marks=needs_compiler),
        "report zoo:cnn5 --no-measure -o r.html",
        "compare zoo:cnn5 zoo:cnn5+rows=1 -o d.html",
        "zoo cnn5 -o m.onnx",
    ],
)
def test_any_name_of_a_file_is_told_on_one_line(csdfgen: Any, tmp_path: Path, command: str) -> None:
    folder = tmp_path / "two\nlines \x1b[2J"
    folder.mkdir()
    words = command.split()
    places = [
        str(folder / word) if before in ("-o", "--library") else word
        for before, word in pairwise(["", *words])
    ]
    said = csdfgen(*places).out
    assert "two\N{REPLACEMENT CHARACTER}lines" in said and "\x1b" not in said
