"""Images so tall that the firings of a plan repeat, without being asked: the same values, in files that do not grow."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.charts.plans import footprint
from csdfgen.devices.model import estimate
from csdfgen.errors import PlanError
from csdfgen.goals import choice
from csdfgen.goals.choice import load_profile
from csdfgen.model.options import PlanOptions
from csdfgen.pages.layers import layer_lines
from csdfgen.planning.plan import Plan
from tests.builder import Graph
from tests.emitted import Program
from tests.native_steps import COMPUTED_BY, compiler_missing
from tests.unit.test_emitted_streams import CASES
from tests.unit.test_loops import MODELS, all_rows

NETWORKS: dict[str, Callable[[int], onnx.ModelProto]] = {**MODELS, **CASES}
"""Of several inputs and outputs and of bytes, too."""

HEIGHT = 4_802

native = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@pytest.fixture(autouse=True)
def _low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks have few firings."""
    monkeypatch.setattr(choice, "_TALL", 70)


def stored(folder: Path, name: str, height: int = HEIGHT) -> Path:
    """A model of a file, for an image of about so many rows."""
    path = folder / f"{name}{height}.onnx"
    height += -height % 4 if name == "with_skips" else 0
    onnx.save(NETWORKS[name](height), path)
    return path


def planned(path: Path, **given: str) -> Plan:
    plan = csdfgen.plan(csdfgen.load(path), **given)  # type: ignore[arg-type]
    assert plan.turns is not None and plan.turns.more > 0
    return plan


def turns_of(plan: Plan) -> int:
    """Rows of several turns."""
    assert plan.turns is not None
    return 4 * plan.turns.rows


def inputs(plan: Plan) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        one.name: (100 * rng.standard_normal(one.shape)).astype(one.dtype)
        for one in plan.network.inputs
    }


def assert_equal(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("backend", COMPUTED_BY)
@pytest.mark.parametrize("name", NETWORKS)
def test_values_are_those_of_all_firings(name: str, backend: str, tmp_path: Path) -> None:
    """Frame by frame, in several parts, and handed on row by row."""
    plan = planned(stored(tmp_path, name), backend=backend)
    x, frame = inputs(plan), runtime.compile(plan)
    wanted = runtime.compile(plan.unrolled)(x)
    seen: list[int] = []
    for given in ({}, {}, {"progress": lambda done, of: seen.append(done)}):
        assert_equal(frame(x, **given), wanted)  # type: ignore[arg-type]
    assert len(seen) > plan.turns.more and seen[-1] == len(plan.unrolled.order)  # type: ignore[union-attr]
    found = {key: np.zeros_like(array) for key, array in wanted.items()}

    def put(key: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
        own = found[key]
        apart = [k for k, size in enumerate(rows.shape) if size != own.shape[k]]
        own[(slice(None),) * apart[0] + (slice(start, stop),) if apart else ...] = rows

    frame(x, on_rows=put)
    assert_equal(found, wanted)
    assert len(frame.time_firings(x)) == len(plan.order) + 1
    _, measured = frame.measure(x)
    assert measured.touched_bytes <= plan.planned_bytes


def test_taps_have_all_rows(tmp_path: Path) -> None:
    plan = planned(stored(tmp_path, "dilated"), backend="numpy", fuse="none")
    tensor = plan.network.layers[0].output
    frame = runtime.compile(plan, taps=[tensor.name])
    frame(inputs(plan))
    assert frame.taps[tensor.name].shape == tensor.shape


@native
@pytest.mark.parametrize("name", NETWORKS)
def test_files_do_not_grow_with_the_height(name: str, tmp_path: Path) -> None:
    """A plan, and the program that is compiled or emitted of it, which give the same values."""
    sizes, height = [], HEIGHT
    for _ in range(2):
        path, file = stored(tmp_path, name, height), tmp_path / "plan.json"
        plan = planned(path, backend="native")
        height += turns_of(plan)
        csdfgen.save_plan(plan, file)
        again = csdfgen.read_plan(file, path)
        x, wanted = inputs(plan), runtime.compile(plan.unrolled)
        assert_equal(runtime.compile(again)(x), wanted(x))
        compiled = runtime.compile(again).save(tmp_path / "program")
        for _ in range(2):
            assert_equal(csdfgen.open(tmp_path / "program")(x), wanted(x))
        sizes.append((file.stat().st_size, compiled))
    (low, program), (tall, other) = sizes
    assert abs(tall - low) < 8 and abs(other - program) <= 4096


@native
@pytest.mark.parametrize("name", NETWORKS)
def test_emitted_code_repeats(name: str, tmp_path: Path) -> None:
    """In a function for a frame, and in one for a row, twice."""
    sizes, height = [], HEIGHT
    for _ in range(2):
        plan = planned(stored(tmp_path, name, height), backend="native", exact=True)  # type: ignore[arg-type]
        height += turns_of(plan)
        program, x = Program(plan, tmp_path / str(height)), inputs(plan)
        wanted = runtime.compile(plan.unrolled)(x)
        for found in (program(x), program.streamed(x)):
            for key, array in wanted.items():
                largest = np.abs(array.astype(np.float64)).max()
                np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-5 * largest)
        sizes.append(program.emitted.source_bytes)
    assert abs(sizes[1] - sizes[0]) < 50


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("all_rows", {}),
        ("dilated", {"rows": "4"}),
        ("dilated", {"result": "arena"}),
        ("dilated", {"image": "resident"}),
        ("dilated", {"goal": "throughput", "frames": 2, "threads": 2}),
        ("dilated", {"frames": 2}),
    ],
)
def test_other_plans_have_all_firings(
    name: str,
    given: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of networks that do not repeat, and with options that streams do not have; one line says why."""
    monkeypatch.setitem(NETWORKS, "all_rows", all_rows)
    network = csdfgen.load(stored(tmp_path, name, 1_200), batch=2 if "frames" in given else None)
    with caplog.at_level(logging.INFO, "csdfgen.waits"):
        plan = csdfgen.plan(network, **given)  # type: ignore[arg-type]
    assert plan.turns is None and plan.unrolled is plan
    if "rows" not in given:  # whose firings are not many
        (line,) = caplog.messages
        why = "no plan with" if given else "softmax"
        assert "all firings" in line and why in line


@pytest.mark.parametrize("limit", ["memory", "latency"])
def test_budgets_choose_among_goals(limit: str, tmp_path: Path) -> None:
    """The fastest plan within memory, the smallest in time; a budget that none meets is refused at once."""
    path, device = stored(tmp_path, "strided"), "native-core"
    plans = {goal: planned(path, backend="numpy", goal=goal) for goal in ("memory", "speed")}
    costs = {
        goal: {
            "memory": plan.total_bytes,
            "latency": estimate(plan, load_profile(PlanOptions(device=device))).seconds,
        }[limit]
        for goal, plan in plans.items()
    }
    (tight, least), (loose, most) = sorted(costs.items(), key=lambda one: one[1])
    assert least < most
    given = {"backend": "numpy", "device": device}
    for goal, limited in ((loose, most), (tight, least)):
        text = f"{limited}" if limit == "memory" else f"{1.001 * limited}s"
        found = planned(path, **given, **{limit: text})
        assert found.planned_bytes == plans[goal].planned_bytes and getattr(found.options, limit)
    text = f"{least - 1}" if limit == "memory" else f"{0.9 * least}s"
    with pytest.raises(PlanError, match=limit) as refused:
        planned(path, **given, **{limit: text})
    assert limit == "latency" or f"{least:,}" in str(refused.value)
    assert limit == "latency" or "streamed" in str(refused.value)


def test_constants_are_limited(tmp_path: Path) -> None:
    path = stored(tmp_path, "dilated")
    plan = planned(path, backend="numpy", constants="1MiB", count="total")
    assert plan.total_bytes > plan.planned_bytes + plan.figures["outputs"]
    with pytest.raises(PlanError, match="constants"):
        planned(path, backend="numpy", constants="64")


@pytest.mark.parametrize("name", ["with_skips", "strided"])
def test_reports_are_of_the_whole_image(name: str, tmp_path: Path) -> None:
    plan = planned(stored(tmp_path, name), backend="numpy")
    whole = plan.unrolled
    assert plan.firings == len(whole.order) > len(plan.order)
    lines, wanted = (layer_lines(one, footprint(one)) for one in (plan, whole))
    for line, other in zip(lines, wanted, strict=True):
        for key in ("name", "phases", "of", "macs", "work"):
            assert getattr(line, key) == getattr(other, key), (line.name, key)
    profile = load_profile(plan.options)
    phases = [[one.phases for one in estimate(each, profile).layers] for each in (plan, whole)]
    assert phases[0] == phases[1]
    assert f" of {HEIGHT + (name == 'with_skips') * 2:,} rows" in footprint(plan).span == plan.part
    assert not whole.part and footprint(whole).span == "a frame"


def test_a_network_that_needs_all_rows_is_read_at_no_other_height(tmp_path: Path) -> None:
    """Many layers of few rows have as many firings as a tall image."""
    g = Graph(1)
    x = g.input("x", (1, 4, 32, 64))
    for operator in ("Relu", "Tanh", "Sigmoid"):
        x = g.node(operator, x)
    x = g.node("MatMul", g.constant(np.eye(32, dtype=np.float32)), x)
    onnx.save(g.model(x), tmp_path / "mixer.onnx")
    network = csdfgen.load(tmp_path / "mixer.onnx")
    asked: list[int] = []
    assert network.at_height is not None
    given = replace(network, at_height=lambda rows: asked.append(rows) or network)
    said: list[str] = []
    plan = csdfgen.plan(given, backend="numpy", progress=lambda what, *of: said.append(what))
    assert plan.turns is None and not asked
    assert "needs all rows" in said[0]


def test_a_network_in_memory_has_no_other_height() -> None:
    network = csdfgen.load(MODELS["dilated"](HEIGHT))
    assert network.at_height is None
    assert csdfgen.plan(network, backend="numpy", rows="16").turns is None


def test_a_pickled_plan_has_all_firings(tmp_path: Path) -> None:
    plan = planned(stored(tmp_path, "dilated"), backend="numpy")
    again = pickle.loads(pickle.dumps(plan))
    assert again.turns is None and again.order == plan.unrolled.order


def test_a_low_image_keeps_its_plan(tmp_path: Path) -> None:
    assert csdfgen.plan(csdfgen.load(stored(tmp_path, "dilated", 90))).turns is None


def test_a_plan_file_of_a_tall_image_takes_the_file_of_the_model(tmp_path: Path) -> None:
    path = stored(tmp_path, "dilated")
    csdfgen.save_plan(planned(path, backend="numpy"), tmp_path / "plan.json")
    with pytest.raises(PlanError, match=r"plan.json: .*give its file"):
        csdfgen.read_plan(tmp_path / "plan.json", onnx.load(path))
