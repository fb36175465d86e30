"""Tuning of a device: blocks in other words compute the same, are measured, compared, kept, and taken for this device alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.backends.device import backend as device_backend
from csdfgen.backends.device import build, shapes
from csdfgen.backends.device.shapes import USUAL, Blocks, candidates
from csdfgen.backends.device.sources import assemble_source
from csdfgen.backends.native.structures import PANEL
from csdfgen.backends.registry import load_backend
from csdfgen.cli import tune as tune_command
from csdfgen.errors import InputError
from csdfgen.model.network import Network
from csdfgen.model.options import ways_text
from csdfgen.planning.saved import read_saved
from csdfgen.tuning.file import (
    MARGIN,
    Timing,
    Tuning,
    best_variants,
    describe_machine,
    read_tuning,
    write_tuning,
)
from csdfgen.tuning.measure import Tuner
from runtime.session import Executable
from tests.builder import Graph
from tests.command import Call, refused
from tests.opencl_device import device_missing
from tests.planning import plan_of_saved

pytestmark = pytest.mark.skipif(bool(device_missing()), reason=device_missing() or "-")

SOME = ("16x7x2r/2x1", "4x3x3/1x4", "1x2x1r/1x1")
WRONG = "8x3x1/1x1"


def layers() -> onnx.ModelProto:
    """Convolutions with padding, strides, groups, a residual, pieces, few and many channels; depthwise; a matrix."""
    graph = Graph()
    x = graph.input("x", (1, 3, 19, 22))
    a = graph.node("Relu", graph.conv(x, 24, 5, strides=[2, 2]))
    b = graph.conv(a, 24)
    c = graph.node("Relu", graph.node("Add", graph.conv(b, 24), a))
    d = graph.node("Concat", c, graph.conv(c, 40, 1), axis=1, channels=64)
    e = graph.conv(graph.conv(d, 64, group=64), 36, group=2)
    f = graph.node("Flatten", graph.node("GlobalAveragePool", e))
    weights = graph.constant(np.random.default_rng(1).normal(0, 0.2, (36, 21)).astype(np.float32))
    return graph.model(graph.node("MatMul", f, weights))


@pytest.fixture(scope="module")
def network() -> Network:
    return csdfgen.load(layers())


@pytest.fixture(scope="module")
def x(network: Network) -> np.ndarray:
    shape = network.inputs[0].shape
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def tried(*words: str) -> Callable[[Iterable[str], Blocks], list[str]]:
    """Candidates that are these alone."""
    return lambda kernels, usual: [USUAL, *words] if candidates(kernels, usual) else []


@pytest.fixture(scope="module")
def few() -> Iterator[None]:
    """Few words are tried, as each is a kernel that is built."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_backend, "candidates", tried(*SOME[:2]))
        yield


@pytest.fixture(scope="module")
def measured(network: Network, few: None) -> Tuning:
    tuner = Tuner(network, backend="opencl")
    assert tuner.run(0.1, _nobody) == 0
    return tuner.found


def _nobody(what: str, done: float, total: float) -> None:
    pass


def computed(network: Network, x: np.ndarray, word: str) -> np.ndarray:
    """The result with a word for all layers."""
    ways = ways_text({layer.name: {1: word} for layer in network.layers}) if word else ""
    plan = csdfgen.plan(network, rows="whole", backend="opencl")
    (y,) = Executable(plan, kernels=load_backend("opencl", ways=ways))(x).values()
    return y


@pytest.mark.parametrize("word", SOME)
def test_other_blocks_compute_the_same(network: Network, x: np.ndarray, word: str) -> None:
    np.testing.assert_allclose(
        computed(network, x, word), computed(network, x, ""), rtol=1e-4, atol=1e-4
    )


def test_words_and_their_constraints() -> None:
    for usual in (Blocks.of("CPU", 16), Blocks.of("GPU", 1)):
        for kernel in shapes._VARIED:
            first, *words = candidates([kernel], usual)
            assert first == USUAL and len(words) == len(set(words)) > 4
            assert str(usual) not in words
            for word in words:
                one = Blocks.read(word)
                assert str(one) == word and PANEL % one.lanes == 0
                assert one.vectors == 1 or kernel == "conv_of"
    assert candidates(["pool_of"], Blocks()) == []
    for none in ("16x7", "3x1x1/1x1", "16x0x1/1x1", USUAL):
        with pytest.raises(ValueError):
            Blocks.read(none)


def test_every_shape_is_measured_once_and_not_again(network: Network, measured: Tuning) -> None:
    assert measured.machine == describe_machine(load_backend("opencl"))
    varied = [
        ways for heights in measured.shapes.values() for ways in heights.values() if len(ways) > 1
    ]
    assert len(varied) == 6 and all(ways.keys() == {USUAL, *SOME[:2]} for ways in varied)
    assert not Tuner(network, measured, backend="opencl").rounds
    key = next(key for key in measured.shapes if "64x1x3x3" in key)
    ((rows, ways),) = measured.shapes[key].items()
    some = {name: one for name, one in ways.items() if name != SOME[1]}
    tuner = Tuner(network, replace(measured, shapes={**measured.shapes, key: {rows: some}}), backend="opencl")  # fmt: skip
    assert len(tuner.rounds) == 1 and tuner.run(0.1, _nobody) == 0
    assert tuner.found.shapes[key][rows].keys() == ways.keys()


def test_wrong_results_do_not_win(
    network: Network, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def planted(kernel: str, blocks: Blocks) -> str:
        fault = kernel == f"conv_of {WRONG}"
        text = assemble_source(kernel, blocks)
        return text.replace("fma(x, w, a)", "fma(x, w, a + 1)") if fault else text

    monkeypatch.setattr(build, "assemble_source", planted)
    monkeypatch.setattr(device_backend, "candidates", tried(WRONG))
    tuner = Tuner(network, backend="opencl")
    tuner.run(0.1, _nobody)
    found = [set(ways) for heights in tuner.found.shapes.values() for ways in heights.values()]
    assert {USUAL} in found, "of convolutions"
    assert {USUAL, WRONG} in found, "of others, whose kernels have no fault"
    assert f"{WRONG} is left out" in caplog.text


def test_another_variant_has_to_save_time() -> None:
    machine = describe_machine(load_backend("opencl"))
    times = {USUAL: Timing(1.0, 4.0, 5), SOME[0]: Timing(1 - MARGIN / 2, 4.0, 5)}
    close = Tuning(machine, 1.0, {"Conv": {4: times}})
    faster = Tuning(machine, 1.0, {"Conv": {4: {**times, SOME[0]: Timing(1 - 2 * MARGIN, 4.0, 5)}}})
    words = load_backend("opencl").variants
    assert best_variants(close, words) == {"Conv": {4: USUAL}}
    assert best_variants(faster, words) == {"Conv": {4: SOME[0]}}


def test_tuned_plans(network: Network, measured: Tuning, x: np.ndarray, tmp_path: Path) -> None:
    """It computes layers by the fastest blocks, but for small ones that share launches; its file says which."""
    file = tmp_path / "t.json"
    preferred = {
        key: {
            rows: {name: replace(one, seconds=1e-6 if name == SOME[0] else 1.0) for name, one in ways.items()}
            for rows, ways in heights.items()
        }
        for key, heights in measured.shapes.items()
    }  # fmt: skip
    write_tuning(file, replace(measured, shapes=preferred))
    plan = csdfgen.plan(network, rows="whole", backend="opencl", tuning=str(file))
    chosen = json.loads(plan.options.ways)
    assert len(chosen) == 7 and all(set(words.values()) == {SOME[0]} for words in chosen.values())
    frame = runtime.compile(plan)
    bound: Any = frame._bound._bound
    kernels = {one.kernel for one in bound._instructions}
    assert f"conv_of {SOME[0]}" in kernels and "depthwise_of" in kernels
    (y,) = frame(x).values()
    np.testing.assert_allclose(y, computed(network, x, ""), rtol=1e-4, atol=1e-4)
    csdfgen.save_plan(plan, tmp_path / "plan.json")
    file.unlink()
    again = plan_of_saved(read_saved(tmp_path / "plan.json"), network)
    assert next(iter(runtime.compile(again)(x).values())).tobytes() == y.tobytes()
    elsewhere = runtime.compile(again, backend="native")(x)  # words are of the device alone
    np.testing.assert_allclose(next(iter(elsewhere.values())), y, rtol=1e-3, atol=1e-3)


def test_the_file_of_another_device(network: Network, measured: Tuning, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    changes = {
        "instructions": "OpenCL on another",
        "compiler": "another, OpenCL 3.0, driver 9",
        "kernels": "0123456789abcdef",
    }
    for name, value in changes.items():
        write_tuning(file, replace(measured, machine=replace(measured.machine, **{name: value})))
        with pytest.raises(InputError) as error:
            csdfgen.plan(network, backend="opencl", tuning=str(file))
        assert value in str(error.value) and "\n" not in str(error.value)
    write_tuning(file, measured)
    with pytest.raises(InputError, match="was measured on"):
        csdfgen.plan(network, backend="native", tuning=str(file))


def test_command(call: Call, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_command, "_FRAMES", 2)
    onnx.save(layers(), "net.onnx")
    said = call("tune", "net.onnx", "--backend", "opencl", "--seconds", "1", "-o", "t.json").out
    assert "whole layers, time of a frame, in turn" in said and "left" not in said
    assert read_tuning("t.json", words=load_backend("opencl").variants).count > 6 * 3
    ran = call(
        "run", "net.onnx", "--backend", "opencl", "--rows", "whole", "--tuning", "t.json", "--check", "--json"
    )  # fmt: skip
    assert ran.json["ok"] is True
    said = refused(call("tune", "net.onnx", "--backend", "numpy", "-o", "u.json"))
    assert "--backend numpy has no variants" in said
