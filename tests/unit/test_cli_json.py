"""Every command prints its result as JSON, and all of its options with --help-all."""

from __future__ import annotations

import inspect
import json
import signal
from pathlib import Path

import onnx
import pytest

from csdfgen.cli.command import COMMANDS, application
from tests.command import Call, start
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier

SPEC = 'model = "net.onnx"\nbackend = "numpy"\nmemory = ["1KiB", "1MiB"]\n'


@pytest.fixture
def call(call: Call) -> Call:
    onnx.save(residual_classifier(), "net.onnx")
    return call


@pytest.mark.every
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_json_and_all_options(command: str) -> None:
    (found,) = (one for one in application(command).registered_commands if one.name == command)
    assert found.callback is not None
    parameters = inspect.signature(found.callback).parameters.values()
    flags = {one.annotation.__metadata__[0].default for one in parameters}
    assert {"--json", "--help-all"} <= flags


def test_conversion_as_json(call: Call) -> None:
    written = call("net.onnx", "-o", "graph.json", "--json").json
    summed = call("net.onnx", "--json").json
    names = [actor["name"] for actor in json.loads(Path("graph.json").read_text())["actors"]]
    assert [one["name"] for one in written["actors"]] == names
    assert (written["output"], written["figures"]) == ("graph.json", None)
    assert summed["figures"]["arena"] > 0 and summed["channels"]["data"] > 0


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_compiled_and_bundled_as_json(call: Call) -> None:
    compiled = call("compile", "net.onnx", "--library", "lib", "--json").json
    assert compiled["bytes"] == Path(compiled["output"]).stat().st_size
    assert sorted(compiled["library"]) == sorted(one.name for one in Path("lib").iterdir())
    bundled = call("bundle", "net.onnx", "--heights", "1", "--json").json
    assert bundled["bytes"] == Path(bundled["output"]).stat().st_size
    assert bundled["heights"] == [1] and bundled["arena_bytes"] > 0


def test_a_sweep_as_json(call: Call) -> None:
    Path("spec.toml").write_text(SPEC)
    first, again = (
        call("sweep", "spec.toml", "-o", "t.csv", "--jobs", "1", "--json").json for _ in "ab"
    )
    assert (first["points"], first["refused"], first["known"]) == (2, 1, 0)
    assert again["known"] == 2 and Path(again["picture"]).exists()


def test_a_profile_as_json(call: Call) -> None:
    few = ("--backend", "numpy", "--repeats", "1", "--json")
    device = call("profile", "net.onnx", "-o", "p.toml", "--heights", "1", *few).json
    assert (device["output"], device["name"]) == ("p.toml", "p") and device["layers"]
    stages = call("profile", "net.onnx", "-o", "p.json", "--batches", "1", *few).json
    assert stages["stages"] == json.loads(Path("p.json").read_text())["stages"]


def test_a_server_says_as_json_where_it_listens(call: Call) -> None:
    pytest.importorskip("uvicorn")
    process = start("serve", "net.onnx", "--backend", "numpy", "--port", "0", "--json")
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line == "}\n":
            break
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert json.loads(text)["models"]["net"]["stages"] >= 1
