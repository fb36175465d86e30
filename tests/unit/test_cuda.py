"""The text of kernels is CUDA's, too: it compiles for every kind of device, and computes what numpy computes on one that is
this processor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends import registry
from csdfgen.backends.cuda import devices, driver
from csdfgen.backends.cuda.driver import Cuda, compile_kernel
from csdfgen.backends.device import bound
from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.device.build import BuildError
from csdfgen.backends.device.elements import list_kernels
from csdfgen.backends.device.shapes import FILES, Blocks
from csdfgen.backends.device.sources import assemble_source, series
from csdfgen.errors import ToolError
from tests.builder import Graph, reference
from tests.emulated_cuda import COMPILER, Emulated, Result
from tests.op_harness import heights
from tests.op_samples import SAMPLES
from tests.property.test_native import LAYOUTS, close
from tests.scattered import declared, run_scattered
from tests.unit.test_scanned import _Scan

CAPABILITIES = 53, 62, 72, 87, 90
"""Jetson Nano, TX2, Xavier, Orin; H100."""

BLOCKS = Blocks.of("GPU", 1), Blocks.of("CPU", 4), Blocks.of("CPU", 16)

KERNELS = [*((kernel, blocks) for kernel in FILES for blocks in BLOCKS)] + [
    (kernel, blocks) for kernel in list_kernels() for blocks in BLOCKS[::2]
]

SOME = int(os.environ.get("CSDFGEN_CUDA_KERNELS", "97"))
"""One in so many kernels is compiled here for each capability; 1: all of them, in half an hour."""

SAMPLED = int(os.environ.get("CSDFGEN_CUDA_SAMPLES", "80"))
"""One in so many samples of operators is computed here; 1: all of them, in some minutes."""


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile(capability: int) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings are not installed")
    first = CAPABILITIES.index(capability) * SOME // len(CAPABILITIES)
    for kernel, blocks in KERNELS[first::SOME]:
        try:
            binary = compile_kernel(assemble_source(kernel, blocks), capability)
        except ToolError as error:
            pytest.skip(str(error))
        assert binary.startswith(b"\x7fELF")


def test_a_series_compiles() -> None:
    """Families of floats and of bytes, and loops with functions of their own, in one text."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings are not installed")
    some = (
        "conv_of",
        "maps_of",
        "sum_bytes_of",
        "copy_4",
        "from_f32_to_u8",
        "from_f32_to_u64",
        "power_i32",
    )
    try:
        assert compile_kernel(assemble_source(series(some, 2), BLOCKS[0]), 87).startswith(
            b"\x7fELF"
        )
    except ToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("the emulated device needs g++")
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture(params=["apart", "unified", "registers"])
def emulated(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Emulated]:
    unified = {"INTEGRATED": 1, "MANAGED_MEMORY": 1} if request.param != "apart" else {}
    given = unified | ({"HOST_REGISTER_SUPPORTED": 1} if request.param == "registers" else {})
    found = Emulated(folder, **given)
    found.installed(monkeypatch)
    devices.find_device.cache_clear()
    made = DeviceKernels(Cuda(), "CUDA")
    others = registry._made
    monkeypatch.setattr(
        registry, "_made", lambda name, *options: made if name == "cuda" else others(name, *options)
    )
    yield found
    devices.find_device.cache_clear()


def test_networks(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows of inputs and outputs are copied, and none where arrays of the host are registered."""
    network = csdfgen.load("zoo:lenet5")
    (tensor,) = network.inputs
    x = np.random.default_rng(0).standard_normal(tensor.shape).astype(np.float32)
    session = runtime.compile(csdfgen.plan(network, count="activations", backend="cuda"))
    before = emulated.copied
    found = {name: np.array(y) for name, y in session(x).items()}
    rows = x.nbytes + sum(y.nbytes for y in found.values())
    for name, want in runtime.compile(csdfgen.plan(network, backend="numpy"))(x).items():
        close(found[name], np.asarray(want))
    before = emulated.copied
    again = session(x)
    crossed = emulated.copied - before
    assert crossed == (0 if emulated.attributes.get("HOST_REGISTER_SUPPORTED") else rows)
    for name, want in found.items():
        np.testing.assert_array_equal(np.asarray(again[name]), want)
    before, launches = session.driven, emulated.launches
    times = session.time_firings(x)
    assert before is not None and session.driven is not None
    assert session.driven.since(before).launches == emulated.launches - launches
    launches = emulated.launches
    session(x)
    assert np.all(np.diff(times) >= 0)
    assert times[-1] - times[0] == 1e6 * (emulated.launches - launches)
    assert emulated.launches - launches <= session.firings / 2  # small firings share some
    monkeypatch.setattr(
        bound, "LEAST_SAVED", 1000
    )  # each its own launch; those that follow each other are a graph
    monkeypatch.setattr(driver, "RECORDS", 2)  # of a launch: what a grid does not have becomes two
    launches = emulated.launches
    split = runtime.compile(csdfgen.plan(network, rows="1", backend="cuda"))(x)
    assert emulated.launches > launches + session.firings and emulated.played > 0
    for name, want in found.items():
        close(np.asarray(split[name]), want)


@pytest.mark.parametrize("emulated", ["apart"], indirect=True)
def test_turns_follow_each_other(emulated: Emulated) -> None:
    made = _Scan(3, directions=(1, 1))
    plan = csdfgen.plan(csdfgen.load(made.model), backend="cuda")
    found = runtime.run(plan, made.feeds)
    found = found if isinstance(found, dict) else {plan.network.outputs[0].name: found}
    for name, wanted in reference(made.model, made.feeds).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)


def test_branches_wait(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of a graph run as early and as late as their edges let them; one whose edges are ignored is found."""
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 4, 8, 8)), 8)
    pooled = graph.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    branches = [graph.conv(graph.conv(x, 8), 8), graph.node("Tanh", pooled), x]
    joined = graph.node("Concat", *branches, axis=1, channels=24)
    network = csdfgen.load(graph.model(graph.conv(joined, 4)))
    monkeypatch.setattr(bound, "LEAST_SAVED", 1000)  # no series: its stages are in order
    values = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    (want,) = runtime.compile(csdfgen.plan(network, backend="numpy"))(values).values()

    def found(rows: object) -> np.ndarray:
        plan = csdfgen.plan(network, rows=rows, backend="cuda")
        (y,) = runtime.compile(plan)(values).values()
        return np.array(y)

    close(found("whole"), want)  # a branch takes the memory of the one before it, and waits
    for rows in (1, 3):
        before = emulated.swapped
        close(found(rows), want)
        assert emulated.swapped > before
    monkeypatch.setattr(bound, "find_dependences", lambda launches, touched: [[] for _ in launches])
    assert not np.allclose(found(3), want, atol=1e-3)


def test_memory_that_is_not_there(emulated: Emulated) -> None:
    emulated.limit = 100_000
    with pytest.raises(
        ToolError,
        match=r"bytes: Emulated has .* cannot give as many now \(CUDA_ERROR_OUT_OF_MEMORY\)",
    ):
        runtime.compile(csdfgen.plan(csdfgen.load("zoo:lenet5"), backend="cuda"))


def test_text_that_does_not_compile() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings are not installed")
    try:
        with pytest.raises(BuildError, match='error: identifier "y" is undefined'):
            compile_kernel("__global__ void k(int x) { x = y; }", 87)
    except ToolError as error:
        pytest.skip(str(error))


def test_no_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    devices.find_device.cache_clear()
    one = Emulated(tmp_path)
    one.installed(monkeypatch)
    module = devices.bindings("driver")
    for fails in (lambda flags: (Result.CUDA_ERROR_NO_DEVICE,), _no_library):
        monkeypatch.setattr(module, "cuInit", fails)
        with pytest.raises(ToolError, match=r"no CUDA device was found \(.*\); --backend native"):
            devices.find_device()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(
        ToolError, match=r"CUDA needs cuda-bindings .*pip install 'csdfgen\[cuda\]'"
    ):
        devices.find_device()


def _no_library(flags: int) -> None:
    raise RuntimeError("no library")


@pytest.mark.parametrize("emulated", ["apart"], indirect=True)
def test_operators_as_numpy_has_them(emulated: Emulated) -> None:
    device = registry.load_backend("cuda")
    # sums that are added to: no item of a group may do that twice
    sums = [k for k, one in enumerate(SAMPLES) if one.op_type == "QLinearGlobalAveragePool"]
    for number in (*range(0, len(SAMPLES), SAMPLED), *sums):
        sample = SAMPLES[number]
        layer, feeds, layout = sample.layer(), sample.feeds(), LAYOUTS[number % len(LAYOUTS)]
        height = heights(layer)[0]
        wanted = run_scattered(layer, feeds, height, layout, None)
        sizes = declared(layer, height, layout, None, device)
        found = run_scattered(layer, feeds, height, layout, None, sizes, device)
        for got, want in zip(found, wanted, strict=True):
            close(got, want)
