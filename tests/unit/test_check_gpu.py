"""`make check-gpu` on a device that is this processor: what works passes with its figures, what does not is found and named."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

import csdfgen
import runtime
from benchmarks import check_gpu
from csdfgen.backends import registry
from csdfgen.backends.cuda import devices
from csdfgen.backends.cuda.driver import Cuda
from csdfgen.backends.device import bound
from csdfgen.backends.device.backend import DeviceKernels
from tests.builder import Graph
from tests.emulated_cuda import COMPILER, Emulated


@pytest.fixture
def emulated(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Emulated]:
    """A device with a memory of its own, and few checks."""
    if COMPILER is None:
        pytest.skip("the emulated device needs g++")
    graph = Graph()
    x = graph.conv(graph.conv(graph.input("x", (1, 3, 8, 8)), 8), 4)
    small = SimpleNamespace(build=partial(graph.model, x))
    native = csdfgen.plan(csdfgen.load(small.build()), backend="native")
    runtime.compile(native)  # its kernels are in the user's cache
    found = Emulated(tmp_path_factory.getbasetemp())
    found.installed(monkeypatch)
    devices.find_device.cache_clear()
    kernels, others = DeviceKernels(Cuda(), "CUDA"), registry._made
    monkeypatch.setattr(
        registry, "_made", lambda name, *given: kernels if name == "cuda" else others(name, *given)
    )
    monkeypatch.setattr(check_gpu, "ZOO", {"small": small})
    for name in ("NETWORKS", "MAPPED"):
        monkeypatch.setattr(check_gpu, name, ("small",))
    check_gpu._model.cache_clear()
    monkeypatch.setattr(bound, "LEAST_SAVED", 1000)  # no series, which take minutes to compile
    monkeypatch.setattr(check_gpu, "SECONDS_OF_FRAMES", 0.0)
    yield found
    devices.find_device.cache_clear()


@pytest.mark.parametrize(
    "formats",
    [("float32",), pytest.param(("float16", "int8"), marks=pytest.mark.networks)],
    ids=["float32", "others"],
)
def test_all_parts_pass(
    emulated: Emulated, monkeypatch: pytest.MonkeyPatch, formats: tuple[str, ...]
) -> None:
    monkeypatch.setattr(check_gpu, "FORMATS", formats)
    kernels = [*islice(check_gpu.run_part("kernels", 60), 2)]
    samples = [*islice(check_gpu.run_part("samples", 60), 1)]
    networks = [*check_gpu.run_part("networks", 600)]
    mapping = [*check_gpu.run_part("mapping", 600)] if "int8" in formats else []
    checks = [*kernels, *samples, *networks, *mapping]
    assert [one.said for one in checks if not one.ok] == []
    assert [one.name for one in networks] == [f"small {one}" for one in formats]
    for one in networks:
        assert one.figures["planned_bytes"] and one.figures["launches"], one.name
        assert 0 < float(one.figures["copied_bytes"]) <= 4 * (3 + 4) * 64
    page = "\n".join(check_gpu.format_page({"device": "a device", "machine": "here"}, checks))
    count = len(formats)
    assert f"| networks | {count} | {count} | 0 | 0 |" in page and f"| small {formats[0]} |" in page
    assert "What failed" not in page


def test_what_is_wrong_fails(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is not planned, rows that are copied twice, values; and a device that is lost ends the part."""
    monkeypatch.setattr(check_gpu, "FORMATS", ("float32", "float32"))
    with monkeypatch.context() as patch:
        patch.setattr(check_gpu, "ALIGNMENT", 4096)
        (first, second) = check_gpu.run_part("networks", 600)
    assert not first.ok and "planned" in first.said and second.said == first.said
    with monkeypatch.context() as patch:
        patch.setattr(check_gpu, "random_inputs", lambda network, seed: _lost())
        (only,) = check_gpu.run_part("networks", 600)
    assert only.ok is False and "CUDA_ERROR_ILLEGAL_ADDRESS" in only.said
    assert [one.ok for one in check_gpu.run_part("networks", 0)] == [None, None]
    page = "\n".join(check_gpu.format_page({"device": "a device", "machine": "here"}, [only]))
    assert "What failed:\n\n- networks, small float32: CudaError" in page


def _lost() -> None:
    raise devices.CudaError("CUDA_ERROR_ILLEGAL_ADDRESS")


def test_a_part_goes_on_behind_a_process_that_ended(
    emulated: Emulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The JSON has what was found before, the check that ended it, and what came behind."""
    program = tmp_path / "one"
    program.write_text(
        "#!/usr/bin/env python3\nimport sys, json\nat = int(sys.argv[sys.argv.index('--first') + 1])\n"
        "for k in range(at, 3):\n    if k == 1 and at < 2: sys.exit(7)\n"
        "    print(json.dumps(dict(part='networks', name=str(k), ok=True)), flush=True)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    output, page = tmp_path / "o.json", tmp_path / "o.md"
    words = ["--parts", "networks", "-o", str(output), "--page", str(page)]
    assert check_gpu.main(words) == 1
    checks = json.loads(output.read_text())["checks"]
    assert [(one["name"], one["ok"]) for one in checks] == [
        ("0", True),
        ("small float16", False),
        ("2", True),
    ]
    assert checks[1]["said"] == "the process ended with 7" and "ended with 7" in page.read_text()


def test_no_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices.find_device.cache_clear()
    one = Emulated(tmp_path)
    one.installed(monkeypatch)
    monkeypatch.setattr(devices.bindings("driver"), "cuInit", lambda flags: (100,))
    monkeypatch.setattr(devices, "unwrap_result", lambda result: _lost())
    assert check_gpu.main(["-o", str(tmp_path / "o.json")]) == 1
    assert capsys.readouterr().err.startswith("error: no CUDA device was found")
    assert not (tmp_path / "o.json").exists()
