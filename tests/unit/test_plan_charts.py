"""What the charts of a plan show is the plan: every row at its address while it is alive."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
from csdfgen.charts.arena import arena_chart, draw_arena
from csdfgen.charts.footprint import Footprint, binary_size, ramp
from csdfgen.charts.fronts import Line, Panel, sweep_chart
from csdfgen.charts.memory import draw_memory, memory_chart
from csdfgen.charts.phases import draw_phases, phases_chart
from csdfgen.charts.plan_axes import ON_PAPER, Axes
from csdfgen.charts.plans import footprint
from csdfgen.charts.svg import NARROW, WIDTH, Drawing, text_width
from csdfgen.model.describe import FIGURES
from csdfgen.planning.plan import Plan
from tests.native_steps import compiler_missing
from tests.small_models import model, residual_classifier, squeeze_and_excite, weight

SVG = "{http://www.w3.org/2000/svg}"

CHARTS: dict[str, Callable[[Footprint], bytes]] = {
    "memory": memory_chart,
    "arena": arena_chart,
    "phases": phases_chart,
}

EVIL = "<script>alert(1)</script>"


def concatenated() -> onnx.ModelProto:
    """Two convolutions side by side in the rows of a Concat, behind one with a name to escape."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], [f"{EVIL}&'\"y"], name=EVIL, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", [f"{EVIL}&'\"y", "w1"], ["l"], name="left", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", [f"{EVIL}&'\"y", "w2"], ["r"], name="right"),
        helper.make_node("Concat", ["l", "r"], ["c"], name="join", axis=1),
        helper.make_node("Conv", ["c", "w3"], ["z"], name="last", pads=[1, 1, 1, 1]),
    ]
    weights = [
        weight("w0", 6, 3, 3, 3),
        weight("w1", 4, 6, 3, 3),
        weight("w2", 8, 6, 1, 1),
        weight("w3", 2, 12, 3, 3),
    ]
    return model(nodes, {"x": (1, 3, 24, 20)}, ["z"], weights)


PLANS: dict[str, Callable[[], Plan]] = {
    "concatenated": lambda: csdfgen.plan(csdfgen.load(concatenated()), rows=2),
    "whole": lambda: csdfgen.plan(csdfgen.load(concatenated()), rows="whole"),
    "residual": lambda: csdfgen.plan(csdfgen.load(residual_classifier()), rows=1),
    "gate": lambda: csdfgen.plan(csdfgen.load(squeeze_and_excite()), image="resident"),
    "lenet5": lambda: csdfgen.plan(csdfgen.load("zoo:lenet5")),
    "frames": lambda: csdfgen.plan(
        csdfgen.load("zoo:lenet5", batch=2), frames=2, rows=3, fuse="none"
    ),
}


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return PLANS[request.param]()


def test_rectangles_hold_what_is_alive(plan: Plan) -> None:
    found = footprint(plan)
    alive = np.zeros(found.firings, np.int64)
    for k in range(len(found.owner)):
        if not found.scratch[k]:
            alive[found.first[k] : found.last[k]] += found.high[k] - found.low[k]
    assert alive.tolist() == plan.lifetimes.live.tolist()
    scratch = [plan.workspace(actor, phase)[1] for actor, phase in plan.order]
    assert found.held[-1].tolist() == scratch
    assert found.alive.tolist() == (alive + scratch).tolist()
    assert found.alive.max() <= plan.planned_bytes


def test_rectangles_in_the_arena_share_no_byte(plan: Plan) -> None:
    found = footprint(plan)
    there = found.in_arena
    assert there.any() and int(found.high[there].max()) <= plan.planned_bytes
    for at in range(found.firings):
        here = there & (found.first <= at) & (at < found.last)
        lows, highs = np.sort(found.low[here]), np.sort(found.high[here])
        assert (lows[1:] >= highs[:-1]).all()


def test_whole_layers_are_the_figure(plan: Plan) -> None:
    found = footprint(plan)
    assert max(size for _, size in found.whole) == plan.figures["whole_layer_live"]
    assert found.whole_alive().max() == plan.figures["whole_layer_live"]
    assert len(found.whole_alive()) == found.firings


def test_joined_rows_hold_the_same_bytes(plan: Plan) -> None:
    found, joined = footprint(plan), footprint(plan).joined()
    assert joined.alive.tolist() == found.alive.tolist()
    assert (joined.end - joined.row).sum() == len(found.row)
    assert len(joined.row) <= len(found.row)


@pytest.mark.parametrize("kind", CHARTS)
def test_charts_are_svg_of_their_own_with_every_layer(plan: Plan, kind: str) -> None:
    found = footprint(plan)
    data = CHARTS[kind](found)
    root = ET.fromstring(data)
    assert root.tag == f"{SVG}svg" and not list(root.iter(f"{SVG}script"))
    assert data == CHARTS[kind](footprint(plan)), "the same plan gives the same bytes"
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    holding = {found.layers[at].name for at in np.flatnonzero(found.held[:-1].max(axis=1))}
    wanted = {layer.name for layer in found.layers} if kind == "phases" else holding
    told = {title.rpartition(": ")[0] for title in titles}
    assert {name[:50] for name in wanted} <= {name[:50] for name in told}
    for path in root.iter(f"{SVG}path"):
        assert not re.search(r"nan|inf|e[+-]?\d", path.get("d", ""))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for rectangle in root.iter(f"{SVG}rect"):
        if "%" not in rectangle.get("width", ""):
            assert float(rectangle.get("x", 0)) + float(rectangle.get("width", 0)) <= width
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("y", 0)) <= height


def test_the_memory_chart_tells_peak_and_arena(plan: Plan) -> None:
    found = footprint(plan)
    texts = [text.text for text in ET.fromstring(memory_chart(found)).iter(f"{SVG}text")]
    assert f"arena {binary_size(plan.planned_bytes)}" in texts
    peak = found.most
    assert f"{binary_size(peak)} alive in firing {found.peak + 1:,}" in texts


@dataclass(frozen=True)
class Written:
    """A text of a picture and the box that it takes."""

    text: str
    size: float
    left: float
    right: float
    top: float
    bottom: float


def written(root: ET.Element) -> list[Written]:
    found = []
    for text in root.iter(f"{SVG}text"):
        size, x, y = (float(text.get(name, 0)) for name in ("font-size", "x", "y"))
        shown = text.text or ""
        left = x - text_width(shown, size) * {"middle": 0.5, "end": 1.0}.get(
            text.get("text-anchor", ""), 0.0
        )
        box = left, left + text_width(shown, size), y - 0.8 * size, y + 0.2 * size
        found.append(Written(shown, size, *box))
    return found


def picture(found: Footprint, width: float, draw: Callable[..., Axes] = draw_memory) -> ET.Element:
    drawing = Drawing(width)
    draw(drawing, found, ON_PAPER, 20)
    return ET.fromstring(drawing.to_bytes("picture"))


@pytest.mark.parametrize("width", [WIDTH, NARROW])
@pytest.mark.parametrize("arena", [0.8, 0.93, 0.965, 0.99])
@pytest.mark.parametrize("bound", [0.6, 0.9, 0.97])
def test_names_cross_no_line_and_no_name(width: float, arena: float, bound: float) -> None:
    """The lines of the arena, a bound and whole layers may be as close as they like; names in a line are pixels apart."""
    found = footprint(PLANS["whole"]())
    whole = int(found.whole_alive().max())
    size = int(arena * whole)
    figures = {**found.figures, "lower_bound": int(bound * size)}
    root = picture(replace(found, arena=size, figures=figures), width)
    lines = [
        float(line.get("y1", 0)) for line in root.iter(f"{SVG}line") if line.get("stroke-dasharray")
    ]
    words = ("arena ", "proven bound ", "whole layers ", "alive in firing")
    names = [one for one in written(root) if any(word in one.text for word in words)]
    assert len(lines) == 3 and len(names) == 4
    for name in names:
        assert not any(name.top < y < name.bottom for y in lines), name
    for a, b in itertools.combinations(names, 2):
        apart = (
            max(b.left - a.right, a.left - b.right) >= 5 or a.bottom <= b.top or b.bottom <= a.top
        )
        assert apart, (a, b)


@pytest.mark.parametrize("draw", [draw_memory, draw_arena, draw_phases])
@pytest.mark.parametrize("width", [WIDTH, NARROW])
def test_words_are_inside_and_large(plan: Plan, width: float, draw: Callable[..., Axes]) -> None:
    root = picture(footprint(plan), width, draw)
    for one in written(root):
        assert one.left >= 0 and one.right <= width + 1, one
        assert one.size >= 10, one


def test_titles_say_how_many_images_the_firings_compute() -> None:
    for name, span in (("frames", "2 images"), ("lenet5", "a frame")):
        found = footprint(PLANS[name]())
        for made in (memory_chart, arena_chart):
            assert f"over {span}<" in made(found).decode()


def test_every_phase_has_its_mark() -> None:
    found = footprint(PLANS["residual"]())
    root = ET.fromstring(phases_chart(found))
    paths = [path for path in root.iter(f"{SVG}path") if path.get("d", "").startswith("M")]
    assert len(paths) == len(found.layers)
    covered = 0.0
    for path in paths:
        for start, stop in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", path.get("d", "")):
            covered += float(stop) - float(start)
    axis = [float(line.get("x2", 0)) - float(line.get("x1", 0)) for line in root.iter(f"{SVG}line")]
    assert covered == pytest.approx(max(axis), rel=0.05), "firings follow each other without gaps"


def test_a_bound_is_shown_where_the_plan_has_one() -> None:
    plan = PLANS["residual"]()
    bounded = replace(plan, figures={**plan.figures, "lower_bound": 2048})
    root = ET.fromstring(memory_chart(footprint(bounded)))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "proven bound 2.00 KiB" in texts


def test_neighbouring_layers_have_other_colours() -> None:
    colors = ramp(300)
    assert len(colors) == 300 and all(a != b for a, b in itertools.pairwise(colors))


def test_lines_that_coincide_are_all_seen() -> None:
    dots = ((1e6, 1e-3), (2e6, 5e-4))
    lines = tuple(Line(name, dots) for name in ("fbs", "vbs", "joint"))
    root = ET.fromstring(sweep_chart("a sweep", "", [Panel("net", lines)]))
    paths = [one for one in root.iter(f"{SVG}path") if "L" in one.get("d", "")]
    drawn = [(float(one.get("stroke-width", 0)), one.get("stroke")) for one in paths]
    assert len({color for _, color in drawn}) == 3
    assert drawn == sorted(drawn, key=lambda one: -one[0]) and len({wide for wide, _ in drawn}) == 3


def test_a_notebook_shows_figures_and_chart() -> None:
    plan = PLANS["concatenated"]()
    html = plan._repr_html_()
    root = ET.fromstring(f"<div>{html}</div>")
    words = [cell.text for cell in root.iter("th")]
    assert set(FIGURES) <= set(words)
    assert all("overflow-wrap:anywhere" in cell.get("style", "") for cell in root.iter("td"))
    assert "http" not in html and EVIL not in html
    assert len(html) < 60_000
    (svg,) = root.iter("svg")
    layers = {(path.findtext("title") or "").partition(":")[0] for path in svg.iter("path")}
    assert {"left", "right", EVIL} <= layers


def test_the_peak_is_that_of_the_plan(plan: Plan) -> None:
    assert footprint(plan).most == plan.figures["peak_live"]


@pytest.mark.parametrize(
    "backend",
    [
        "numpy",
        pytest.param("native", marks=pytest.mark.skipif(bool(compiler_missing()), reason="cc")),
    ],
)
def test_scratch_is_that_of_the_plans_own_backend(backend: str) -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:resnet8"), backend=backend)
    assert footprint(plan).most == plan.figures["peak_live"]
