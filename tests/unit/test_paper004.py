"""Paper 004, reproduced: its tables and claims, integer Winograd, techniques switched off, and what docs/paper004.md says."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from csdfgen.backends.device import backend
from csdfgen.backends.device.shapes import USUAL, candidates
from csdfgen.cli import main
from csdfgen.goals.choice import plan
from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.embedded import measured
from csdfgen.paper.embedded.claims import claims
from csdfgen.paper.embedded.derived import table_5, table_6, table_8, table_9
from csdfgen.paper.embedded.printed import LEFT, TABLE_6, TABLE_7, TABLE_8, TABLE_9
from csdfgen.paper.embedded.reproduction import PARTS
from csdfgen.paper.embedded.switched import switch_off
from csdfgen.paper.embedded.winograd import errors, random_layer
from csdfgen.paper.formulas.winograd import convolve_directly, convolve_exactly, narrow
from csdfgen.reading.loader import load
from csdfgen.tuning import file
from runtime.images import random_inputs
from runtime.session import Executable
from tests import paper004_page
from tests.opencl_device import device_missing


def _differing(cells: Iterable[Cell]) -> set[tuple[str, str]]:
    return {(c.row, c.column) for c in cells if c.verdict == "differs"}


def test_what_differs_is_known() -> None:
    assert _differing(table_5()) == {("VGG-16", "MiB")}
    assert not _differing(table_6()) and not _differing(table_9())
    assert _differing(table_8()) == {("MobileNet-v2", "GPU"), ("MobileNet-v2", "folded")}
    assert {row for row, _ in _differing(claims())} == {
        "improved by 770 %: MobileNet-v2",
        "improved by 134 %: VGG-16",
        "plain GPU, MobileNet-v2, relative to PyTorch",
        "ResNet-18: slower in proportion to GFLOPS",
        "Winograd: weights grow by",
    }


def test_gains_are_those_of_the_notes() -> None:
    """Derived by hand before: folding and tuning on the Odroid and the RK3399."""
    found = {(c.row, c.column): round(c.ours, 2) for c in table_6()}
    assert found["Odroid N2+, MobileNet-v2", "folding"] == 3.74
    assert found["RK3399, YOLO v3", "tuning"] == 1.32


def test_a_table_has_a_row_of_another() -> None:
    assert TABLE_8["MobileNet-v2"][1:] == tuple(
        getattr(TABLE_6["Odroid N2+", "CRNN"], name) for name in ("gpu", "folded", "tuned")
    )


def test_times_and_memory_that_are_left_are_counted() -> None:
    times = [t for r in TABLE_6.values() for t in (*r.caffe, r.cpu, r.gpu, r.folded, r.tuned)]
    numbers = sum(t is not None for t in times) + len(TABLE_7) + sum(map(len, TABLE_8.values()))
    assert numbers == next(one.cells for one in LEFT if "6, 7" in one.where)
    assert 4 * len(TABLE_9) == next(one.cells for one in LEFT if one.where == "Table 9")


def test_signal_to_noise_of_winograd() -> None:
    found = {c.row: c.ours for c in errors()}
    assert found["F(2x2, 3x3) in float32"] >= 120 and found["F(4x4, 3x3) in float32"] >= 100
    assert 15 < found["Winograd, 6 and 4 bits"] < 18 < found["Winograd, 6 bits, weights to 14"]
    assert found["exact, int8"] == 0


@pytest.mark.parametrize("value", [0, 255])
def test_integers_at_the_ends_of_their_range(value: int) -> None:
    """Where 16 and 32 bits are closest to too few."""
    x = np.full((1800, 4, 4), value, np.uint8)
    x[:, ::2] = 255 - value
    for weight in (-128, 127):
        w = np.full((1, 1800, 3, 3), weight, np.int8)
        assert np.array_equal(convolve_exactly(x, w), convolve_directly(x, w))


def test_layers_without_a_byte_for_points_are_refused() -> None:
    x, w = random_layer(np.random.default_rng(3))
    with pytest.raises(OverflowError, match="a byte has 127"):
        narrow(x.astype(np.float64), w.astype(np.float64), (31, 127))


@pytest.mark.parametrize("switch", ["sharing", "running_on"])
def test_a_switched_device_computes_the_same(switch: str) -> None:
    network = load("zoo:resnet8@32x32")
    if device_missing():
        pytest.skip(device_missing())
    kernels = switch_off()
    x = random_inputs(network, 1)
    made = plan(network, kernels=kernels, backend=kernels.name)
    wanted = Executable(made, kernels=kernels)(x)
    found = Executable(made, kernels=switch_off(**{switch: True}))(x)
    for name, values in wanted.items():
        assert np.array_equal(values, found[name])


@pytest.mark.networks
def test_techniques_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measured, "NETWORKS", {"ResNet-8": "resnet8"})
    monkeypatch.setattr(measured, "SIZE", 32)
    monkeypatch.setattr(measured, "REPEATS", 1)
    monkeypatch.setenv("CSDFGEN_CL_DEVICE", "no such device")
    out = tmp_path / "out.json"
    assert main(["reproduce", "paper004", "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["paper004"]
    assert {row["table"] for row in rows if row["verdict"] != "not computed"} == {
        *PARTS,
        measured.PART,
    }
    ours = {row["row"]: row for row in rows if row.get("column") == "arena, without / with"}
    assert ours["ResNet-8, native code: int8"]["ours"] > 2
    left = [row for row in rows if row["verdict"] == "not computed"]
    assert "no such device" in left[-1]["note"]
    assert "Table A1" in capsys.readouterr().out


@pytest.mark.networks
def test_techniques_of_a_device_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning measures other blocks of kernels, and changes nothing but them."""
    if device_missing():
        pytest.skip(device_missing())
    word = "16x4x2r/1x1"
    monkeypatch.setattr(measured, "NETWORKS", {"ResNet-8": "resnet8"})
    monkeypatch.setattr(measured, "SIZE", 32)
    monkeypatch.setattr(measured, "REPEATS", 1)
    monkeypatch.setattr(measured, "_BACKENDS", {"OpenCL": switch_off})
    monkeypatch.setattr(measured, "_TUNED_FOR", 0.1)
    monkeypatch.setattr(
        backend, "candidates", lambda kernels, usual: [USUAL, word] if candidates(kernels, usual) else []
    )  # fmt: skip
    monkeypatch.setattr(
        file, "_fastest", lambda ways, words: next((name, ways[name]) for name in (word, "") if name in ways)
    )  # fmt: skip
    made: list[Executable] = []
    rounds = measured._rounds

    def seen(off: Executable, on: Executable, clock: measured.Clock) -> list[tuple[float, float]]:
        made[:] = off, on
        return rounds(off, on, clock)

    monkeypatch.setattr(measured, "_rounds", seen)
    left: list[Left] = []
    found = {cell.row for cell in measured.effects(left)}
    names = ("folding", "activations in place", "shared buffers", "asynchronous queue", "tuning")
    assert found == {f"ResNet-8, OpenCL: {name}" for name in names} and not left
    off, on = made  # of the last one
    assert set(json.loads(on.plan.options.ways)) and not off.plan.options.ways
    assert on.plan.figures == off.plan.figures and on.plan.order == off.plan.order


@pytest.mark.parametrize("marker", [*paper004_page.MARKERS, "left"])
def test_the_tables_of_the_page_are_current(marker: str) -> None:
    """All that is the same on every machine."""
    block = f"<!-- {marker} -->\n\n{paper004_page.MAKERS[marker]()}\n<!-- end -->"
    assert block in paper004_page.PAGE.read_text(), "python -m tests.paper004_page writes it"
