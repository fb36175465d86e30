"""Paper 003, reproduced: its tables, claims and examples, and what docs/paper003.md says about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen.paper.formats.digits as digits
from csdfgen.cli import main
from csdfgen.errors import InputError
from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.formats import celsius, measured
from csdfgen.paper.formats.arithmetic import losses
from csdfgen.paper.formats.claims import claims, counts, fahrenheit, gains, table_4_1
from csdfgen.paper.formats.dense import (
    Dense,
    build_model,
    observe_ranges,
    quantize_network,
    run_model,
)
from csdfgen.paper.formats.memory import fit_header_bytes, networks, table_4_2, table_4_3
from csdfgen.paper.formats.printed import FORMATS, LEFT, TABLE_4_2, TABLE_4_3, TABLE_4_4, TABLE_4_5
from csdfgen.paper.formats.reproduction import PARTS
from tests import paper003_page
from tests.quantized_models import onnxruntime_outputs

SMALL = {"NETWORK": "resnet8", "SIZE": 32, "REPEATS": 1}
"""What is measured here, in seconds."""

LARGEST_ERROR = {"float32": 0.001, "float16": 0.2, "int16": 0.02, "int8": 4.1}


Writer = Callable[[str, tuple[Dense, ...], np.ndarray], onnx.ModelProto]


def model_by_the_paper(format_: str, layers: tuple[Dense, ...], x: np.ndarray) -> onnx.ModelProto:
    return build_model(format_, layers, observe_ranges(layers, x))


@pytest.fixture
def _pictures() -> None:
    try:
        digits.pictures()
    except InputError as error:
        pytest.skip(str(error))


def _differing(cells: list[Cell]) -> set[tuple[str, str]]:
    return {(c.row, c.column) for c in cells if c.verdict == "differs"}


def test_storage_of_parameters() -> None:
    """In MB; only the mixture's are more than its parameters, by a header that fits all four."""
    cells = list(table_4_2())
    assert _differing(cells) == set()
    assert {c.row for c in cells if c.note} == {"MOE"}
    for network, row in TABLE_4_2.items():
        for bytes_, fits in zip(fit_header_bytes(network), ((-1, 1), (1, -1)), strict=True):
            for moved, fit in zip((-500, 500), fits, strict=True):
                sizes = [networks()[network].parameters * n + bytes_ + moved for n in (4, 2, 2, 1)]
                same = [round(size / 1e6, 1) for size in sizes] == [*row]
                assert same == (fit > 0), (network, bytes_, moved)


def test_networks_are_those_that_the_notes_count() -> None:
    found = {(c.row, c.column): c.ours for c in counts()}
    assert found["ImageNet", "parameters"] == 60_965_224
    assert found["ImageNet", "multiply-accumulates"] == 724_406_816
    assert found["MOE, trunk", "parameters"] == 2_066_472
    assert found["MOE, 4 of 16 experts", "multiply-accumulates"] == 298_041_104


def test_memory_is_below_print_and_reuse_saves_what_is_printed() -> None:
    cells = {(c.row, c.column): c for c in table_4_3()}
    assert len(cells) == 3 * 2 * len(TABLE_4_3) + 8
    for api in ("CUDA", "OpenCL"):
        whole = cells[f"ImageNet, {api}", "float32"]
        assert whole.printed and whole.ours < whole.printed
        saved = cells[f"ImageNet, {api}, saved by reuse", "float32"]
        assert saved.printed and abs(saved.ours / saved.printed - 1) < 0.1
    blobs = networks()["ImageNet"]
    assert blobs.reused == 290_400 + 186_624  # conv1 and conv2 meet in no buffer


def test_what_differs_in_the_claims_is_known() -> None:
    wrong = {name for name, _ in _differing(list(claims()))}
    assert wrong == {
        "int8 reduces memory by 54 %",
        "reuse reduces it by an additional 68 %",
        "ImageNet: float32 parameters in MiB",
        "MOE: float32 parameters in MiB",
        "float16 on Vega +128.8 %",
        "float16 on Mali +75.3 %",
        "MOE on Mali +77 % (float32)",
        "int16 loses up to 12 % top-1",
        "-273 C in F",
        "int8: error not below",
        "values of int8",
        "values of int16",
        "an expert costs 1/16",
    }
    assert _differing(list(table_4_1())) == {("GTX 1080", "float16")}


def test_only_one_device_gains_from_the_choice_of_experts() -> None:
    cells = list(gains())
    assert len(cells) == sum(t is not None for row in TABLE_4_5.values() for t in row)
    chosen = {cell.row for cell in cells if cell.note.startswith("4 of 16")}
    assert chosen == {"Mali T764 OpenCL, 4"}
    assert {round(cell.ours, 2) for cell in cells} == {2.43, 0.77}


def test_the_listing_is_off_in_half_of_the_results() -> None:
    found = {(c.row, c.column): c.ours for c in losses()}
    assert found["ReLU by Listing 1.4, factor 1", "levels left"] == 64
    assert 0.4 < found["convolution by Listing 1.4", "results off"] / 3456 < 0.6
    assert found["convolution by one shift, to the nearest", "results off"] == 0


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("writer", [model_by_the_paper, quantize_network])
def test_celsius_in_four_formats(backend: str, writer: Writer) -> None:
    x = celsius.degrees()
    errors = {
        name: float(
            np.abs(run_model(writer(name, celsius.NEURON, x), x, backend) - fahrenheit(x)).mean()
        )
        for name in FORMATS
    }
    for name, error in errors.items():
        assert error <= LARGEST_ERROR[name], name
    assert errors["int8"] > errors["float16"] > errors["int16"] > errors["float32"]


@pytest.mark.parametrize("format_", FORMATS)
def test_quantized_layers_give_what_onnxruntime_gives(format_: str) -> None:
    """Within one step of the output: sums of 16-bit integers are formed in floating point there."""
    rng = np.random.default_rng(2)
    layers = (
        Dense(rng.normal(size=(7, 20)), rng.normal(size=7), relu=True),
        Dense(rng.normal(size=(4, 7)), rng.normal(size=4)),
    )
    x = rng.normal(size=(40, 20))
    seen = observe_ranges(layers, x)
    model = build_model(format_, layers, seen)
    kind = np.float16 if format_ == "float16" else np.float32
    theirs = np.concatenate(
        [
            next(iter(onnxruntime_outputs(model, {"x": one[None].astype(kind)}).values()))
            for one in x
        ]
    )
    ours = run_model(model, x)
    step = {"int8": 255, "int16": 65535, "float16": 1024, "float32": 2**20}[format_]
    span = seen.results[-1].high - seen.results[-1].low
    assert np.abs(ours - theirs).max() <= 1.01 * span / step


def test_training_as_printed_ends_anywhere() -> None:
    """Runs differ by more than the printed formats do among the first three."""
    biases = [celsius.train_neuron(seed)[0].bias[0] for seed in range(4)]
    assert np.ptp(biases) > 0.3


@pytest.mark.usefixtures("_pictures")
@pytest.mark.networks
@pytest.mark.parametrize("writer", [model_by_the_paper, quantize_network])
def test_digits_lose_at_most_half_a_point(writer: Writer) -> None:
    data, layers, shown = digits.pictures(), digits.train_network(), digits.calibration_pictures()
    found = {
        name: digits.accuracy_percent(run_model(writer(name, layers, shown), data.test))
        for name in FORMATS
    }
    assert found["float32"] > 89
    for name in FORMATS:
        assert found[name] >= found["float32"] - 0.5, name


@pytest.mark.usefixtures("_pictures")
def test_test_pictures_are_not_observed() -> None:
    data = digits.pictures()
    assert data.training.shape == (3500, 784) and data.test.shape == (1500, 784)
    seen = {one.tobytes() for one in data.training}
    assert not seen & {one.tobytes() for one in data.test}


@pytest.mark.networks
def test_without_pictures_the_table_is_left_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(distribution: str, name: str) -> Path:
        raise InputError(f"'{name}' ships in the package {distribution}, which is not installed")

    monkeypatch.setattr(digits, "packaged_file", missing)
    digits.pictures.cache_clear()
    digits.train_network.cache_clear()
    for name, value in SMALL.items():
        monkeypatch.setattr(measured, name, value)
    out, cells = tmp_path / "out.json", tmp_path / "out.csv"
    assert main(["reproduce", "paper003", "--json", str(out), "--csv", str(cells)]) == 0
    digits.pictures.cache_clear()
    rows = json.loads(out.read_text())["paper003"]
    left = [row for row in rows if row["verdict"] == "not computed"]
    assert len(left) == len(LEFT) + 1 and "mlxtend" in left[-1]["note"]
    tables = {row["table"] for row in rows if row["verdict"] != "not computed"}
    assert tables == {*PARTS, "measured here"} - {"4.7"}
    first = next(row for row in rows if row["table"] == "4.2")
    assert first["verdict"] == "same" and abs(first["difference"]) < 0.05
    assert len(cells.read_text().splitlines()) == 1 + len(rows)
    printed = capsys.readouterr().out
    assert "Table 4.3" in printed and "not computed" in printed


def test_times_that_are_left_are_counted() -> None:
    numbers = sum(
        t is not None for table in (TABLE_4_4, TABLE_4_5) for r in table.values() for t in r
    )
    assert numbers == next(one.cells for one in LEFT if "4.4" in one.where)


@pytest.mark.usefixtures("_pictures")
@pytest.mark.networks
def test_the_tables_of_the_page_are_current() -> None:
    """But for the digits, whose training may end otherwise with another BLAS, and the last decimals of
    trained degrees."""
    text = paper003_page.PAGE.read_text()
    for name, made in paper003_page.MAKERS.items():
        if name not in ("digits", "celsius"):
            block = f"<!-- {name} -->\n\n{made()}\n<!-- end -->"
            assert block in text, f"{name}: python -m tests.paper003_page brings it up to date"


@pytest.mark.networks
def test_formats_are_measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(measured, name, value)
    left: list[Left] = []
    cells = list(measured.formats(left))
    assert {one.row for one in cells} == {f"ImageNet: {f}" for f in ("float32", *measured.FORMATS)}
    arena = {one.row: one.ours for one in cells if one.column == "arena, KiB"}
    assert arena["ImageNet: int8"] < arena["ImageNet: float16"] < arena["ImageNet: float32"]
    assert not left and all(one.ours > 0 for one in cells)
