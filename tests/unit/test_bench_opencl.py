"""The benchmark of OpenCL's kernels: a table for each part, and a rival on the device that is there only when it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import bench_opencl, rivals
from csdfgen.backends.device import backend
from csdfgen.backends.device.shapes import USUAL
from tests.builder import Graph
from tests.opencl_device import device_missing


@pytest.mark.skipif(bool(device_missing()), reason=device_missing() or "-")
def test_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(backend, "candidates", lambda kernels, usual: [USUAL, "16x4x2/1x1"])
    monkeypatch.setattr(bench_opencl, "LAYERS", ((3, 16, 3, 10, 1, 1), (16, 16, 3, 8, 2, 16)))
    monkeypatch.setattr(bench_opencl, "PRODUCTS", ((8, 24, 16),))
    for busy in ([], ["--busy"]):
        given = ["layers", "products", "--repeats", "3", "--seconds", "0.1", *busy]
        assert bench_opencl.main(given) == 0
        said = capsys.readouterr().out
        for title in ("3x3/1 3->16 @10", "3x3/2 16->16 @8 depthwise", "8 x 16 x 24"):
            (line,) = (line for line in said.splitlines() if title in line)
            assert all(float(cell) > 0 for cell in line.split("|")[2:4])
        assert ("Processor time" in said) == bool(busy)


@pytest.mark.networks
@pytest.mark.skipif(bool(device_missing()), reason=device_missing() or "-")
def test_formats(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Integers take less memory than floats; what is allocated is the arena and more."""
    monkeypatch.setattr(bench_opencl, "NETWORK", "zoo:lenet5")
    monkeypatch.setattr(bench_opencl, "PRINTED", {"float32": (4, 3, 2), "int8": (3, 2, 1)})
    assert bench_opencl.main(["formats", "--repeats", "3"]) == 0
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("| float32", "| int8"))
    ]
    floats, bytes_ = ([float(cell) for cell in line.split("|")[2:-1]] for line in lines)
    assert len(floats) == 10 and floats[5:] == [1] * 5
    assert floats[2] >= 1 and floats[3] < floats[4] and bytes_[4] < floats[4]
    assert bytes_[8] < 0.6 and bytes_[6:8] == [0.75, 0.67] and bytes_[9] == 0.5


def test_a_rival_on_the_device_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def run(command: list[str], **options: object) -> None:
        tried.append(command[3])
        raise rivals.subprocess.TimeoutExpired(command, 0)

    monkeypatch.setattr(rivals.subprocess, "run", run)
    graph = Graph()
    model = graph.model(graph.node("Relu", graph.input("x", (1, 2))))
    zero = {"x": np.zeros((1, 2), np.float32)}
    assert not dict(rivals.rivals(model, zero, zero))
    assert tried == [name for name in rivals.RIVALS if name != rivals.ON_DEVICE]
    assert not dict(rivals.rivals(model, zero, zero, [rivals.ON_DEVICE]))
    assert tried[-1] == rivals.ON_DEVICE
