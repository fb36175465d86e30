"""Paper 000, reproduced: its example, its memory, its networks, and what docs/batches.md says about them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from csdfgen.cli import main
from csdfgen.devices.catalogue import device
from csdfgen.paper.batches import measured
from csdfgen.paper.batches.errata import errata
from csdfgen.paper.batches.example import example
from csdfgen.paper.batches.memory import BATCHES, MB, call_bytes, make_chain, workspace
from csdfgen.paper.batches.model_tables import figure_2, figure_7, figure_8, table_3
from csdfgen.paper.batches.modelled import (
    NETWORKS,
    figure_7_points,
    figure_8_points,
    model_tables,
    modelled_tables,
    plan_request,
)
from csdfgen.paper.batches.networks import Module, Op, c3d, find_layer, get_layers, list_ops
from csdfgen.paper.batches.printed import MEMORIES, TABLE_2
from csdfgen.paper.batches.times import call_time, model_times
from csdfgen.paper.cells import Cell, Left
from schedules.batches.replay import replay
from schedules.batches.tables import Tables
from tests import batches_page
from zoo_models import ZOO, count

IN_THE_ZOO = {
    "GoogleNet": ("googlenet", 224),
    "ResNet50": ("resnet50_v1", 224),
    "SqueezeNet-v0": ("squeezenet1_0", 227),
    "MobileNet-v1": ("mobilenet_v1", 224),
}


@cache
def cells(maker: object) -> tuple[Cell, ...]:
    assert callable(maker)
    return tuple(maker())


def differing(found: tuple[Cell, ...]) -> set[tuple[str, str]]:
    return {(one.row, one.column) for one in found if one.verdict == "differs"}


def free(layer: str, column: str) -> float:
    return next(c.ours for c in cells(modelled_tables) if (c.row, c.column) == (layer, column))


# Networks and memory --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_have_the_products_of_the_zoo(name: str) -> None:
    """And its weights but for biases and normalizations of convolutions."""
    entry, side = IN_THE_ZOO[name]
    theirs = count(ZOO[entry].build(side, weights=False))
    ops = [op for op, _ in list_ops(get_layers(name))]
    assert sum(op.macs for op in ops) == theirs.macs
    assert 0.99 * theirs.parameters < sum(op.weights for op in ops) <= theirs.parameters


def test_layers_follow_each_other() -> None:
    for name in NETWORKS:
        make_chain(name, lambda layer, images: 1.0)  # refuses neighbours that disagree
    assert len(get_layers("GoogleNet")) == 20
    module = find_layer("GoogleNet", "inception_3a/output")
    assert isinstance(module, Module)
    assert (module.reads, module.writes) == ((192, 28, 28), (256, 28, 28))
    assert [len(ops) for ops in module.branches] == [1, 2, 2, 2]
    assert len([op for op, _ in list_ops(get_layers("MobileNet-v1")) if op.kind == "conv"]) == 27


def test_c3d_is_what_the_paper_says_of_it() -> None:
    """79 million weights on clips of 112x112, whose windows have 27 places; the sizes that its layers write."""
    layers = c3d(16, 112, 112)
    assert round(sum(op.weights for op in layers) / 1e6) in (78, 79)
    sizes = {op.name: op.writes for op in layers}
    assert sizes["conv2a"] == (128, 16, 56, 56) and sizes["pool5"] == (512, 1, 4, 4)
    assert layers[0].terms == 3 * 27 and layers[0].macs == 64 * 16 * 112**2 * 81
    assert workspace(layers[1], 2) == 4 * 2 * 64 * 16 * 112**2  # nothing is padded
    assert workspace(layers[-4], 1) == 4 * 512 * 2 * 9**2  # a frame of 7x7 is, not the frames
    make_chain(layers, lambda layer, images: 1.0)


def test_all_ten_cells_of_table_3_within_a_hundredth() -> None:
    found = cells(table_3)
    assert len(found) == 10 and not differing(found)
    assert max(abs(one.difference or 0) for one in found) < 0.01


def test_figures_of_the_memory_model() -> None:
    assert differing(cells(figure_2)) == {("ResNet50, least layer", "batch 1")}
    assert not differing(cells(figure_7))
    greedy = "memory sizes with a plan"
    assert differing(cells(figure_8)) == {("greedy rule, request of 8", greedy)}


def test_workspaces() -> None:
    """Columns of the image, an image each; weights once; one channel's columns of a depthwise layer."""
    conv = Op("c", "conv", (8, 6, 6), (16, 6, 6), 3, 1)
    assert workspace(conv, 2) == 4 * (2 * 9 * 8 * 36 + 16 * 9 * 8)
    assert call_bytes(conv, 2, weights=False) == 4 * 2 * 36 * (8 + 16 + 9 * 8)
    depthwise = Op("d", "conv", (8, 6, 6), (8, 6, 6), 3, 1, groups=8)
    assert workspace(depthwise, 3, weights=False) == 4 * 3 * 9 * 36
    assert workspace(Op("p", "pool", (8, 6, 6), (8, 3, 3), 3, 1), 2) == 4 * 2 * 8 * 64
    assert workspace(Op("n", "lrn", (8, 6, 6), (8, 6, 6)), 2) == 4 * 2 * 2 * 8 * 36
    assert workspace(Op("f", "fc", (8, 1, 1), (10, 1, 1)), 5) == 4 * 90


def test_two_results_of_an_addition_count_where_they_are_made() -> None:
    rule, apart = (
        make_chain("ResNet50", model_times(), results_apart=own).layers[2] for own in (False, True)
    )
    assert apart.held(3) - rule.held(3) == 3 * rule.output_bytes
    ends = [[branch.layers[-1].output_bytes for branch in one.branches] for one in (rule, apart)]
    assert ends == [[0, 0], [0, rule.output_bytes]]


# The example, and what is wrong ---------------------------------------------------------------


def test_the_example_comes_out() -> None:
    found = cells(example)
    assert not differing(found)
    assert {one.ours for one in found if one.column == "time per image"} == {12, 10}


@pytest.mark.networks
def test_every_erratum_has_a_number() -> None:
    found = cells(errata)
    assert {int(one.row.split(".")[0]) for one in found} == set(range(1, 14))
    assert all(one.verdict != "same" and one.note for one in found)


# Times ----------------------------------------------------------------------------------------


def test_times_of_a_call() -> None:
    """5 us, 2795.52 GFLOP/s, 240 GB/s, 13 multiprocessors with blocks of 64x64."""
    k80 = device("tesla-k80").processor
    late = find_layer(
        "GoogleNet", "inception_5b/3x3"
    )  # 49 pixels of 384 channels: six blocks of 13
    assert call_time(k80, late, 1) == pytest.approx(5e-6 + 2 * 64 * 64 * 9 * 192 * 13 / 2795.52e9)
    assert call_time(k80, late, 2) < 2 * (call_time(k80, late, 1) - 5e-6)
    pool = find_layer("GoogleNet", "pool1/3x3_s2")
    assert call_time(k80, pool, 2) == pytest.approx(5e-6 + 8 * 64 * (112**2 + 56**2) / 240e9)
    narrow = find_layer("MobileNet-v1", "conv6/dw")
    assert call_time(k80, narrow, 3) == pytest.approx(5e-6 + 4 * 3 * 1024 * 49 * 19 / 240e9)
    joined = find_layer("ResNet50", "res5c")
    assert call_time(k80, joined, 1) == pytest.approx(5e-6 + 4 * 2048 * 49 * 3 / 240e9)


@pytest.mark.networks
def test_what_the_paper_says_of_its_curves_holds_of_ours() -> None:
    found = cells(modelled_tables)
    counted = [one for one in found if one.table == "section IV" and one.printed is not None]
    assert len(counted) == 5 and not differing(tuple(counted))
    gains = {(one.row, one.column): one.ours for one in found if one.table == "Table II"}
    for name in TABLE_2:
        assert gains[name, "below 30 MB"] > gains[name, "above 35 MB"] > 0
        if name != "MobileNet-v1":
            for column in ("below 30 MB", "above 35 MB"):
                assert gains[name, column] > gains["MobileNet-v1", column]
    assert len(figure_7_points()) == 24 and len(figure_8_points()) == 24
    assert all(p.greedy is None for p in figure_7_points() if p.network == "GoogleNet")


@pytest.mark.networks
def test_every_modelled_plan_does_what_it_says() -> None:
    for name in NETWORKS:
        chain = model_tables(name, "gathering").chain
        for memory in MEMORIES:
            plan = plan_request(name, BATCHES, memory)
            assert plan is not None and plan.images == BATCHES
            done = replay(chain, plan)
            assert done.peak <= memory * MB
            assert done.cost == pytest.approx(plan.cost, rel=1e-12)
    for layer in ("conv1/7x7_s2", "pool5/7x7_s1"):
        assert 0 <= free(layer, "VBS") <= 20


@pytest.mark.networks
def test_coarse_memory_finds_no_cheaper_plan() -> None:
    coarse, exact = (
        model_tables("GoogleNet", "printed", 2 * MB),
        model_tables("GoogleNet", "printed"),
    )
    gathered = model_tables("GoogleNet", "gathering")
    for images in (1, 6, 12):
        for memory in range(14, 41):
            rough, fine, best = (one.cost(images, memory * MB) for one in (coarse, exact, gathered))
            assert best <= fine * (1 + 1e-12) and fine <= rough * (1 + 1e-12)


def test_a_table_of_a_network_is_that_of_its_part() -> None:
    """Memory of a smaller table: the same costs."""
    small = Tables(make_chain("MobileNet-v1", model_times()), 3, 10 * MB)
    large = Tables(make_chain("MobileNet-v1", model_times()), 4, 20 * MB)
    for memory in (7, 8.5, 10):
        assert small.cost(3, int(memory * MB)) == large.cost(3, int(memory * MB))


# The command and the page ---------------------------------------------------------------------


@pytest.mark.networks
def test_the_command_and_the_page_have_all_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "NETWORKS", ("lenet5",))
    out, table = tmp_path / "out.json", tmp_path / "out.csv"
    assert main(["reproduce", "vbs", "--json", str(out), "--csv", str(table)]) == 0
    rows = json.loads(out.read_text())["vbs"]
    by_verdict = {row["verdict"] for row in rows}
    assert by_verdict == {"same", "differs", "not printed", "modelled", "not computed"}
    assert len(table.read_text().splitlines()) == 1 + len(rows)
    found = {
        (row["row"], row["column"]): row["ours"]
        for row in rows
        if row["table"] == "random networks"
    }
    assert found["Algorithm 1", "with a plan"] > 1900
    assert found["Algorithm 1", "below the optimum, or wrong"] == 0
    gathered = "with waiting images"
    assert found[gathered, "no plan found"] == found[gathered, "below the optimum, or wrong"] == 0
    assert found[gathered, "optimal"] >= 0.995 * found[gathered, "with a plan"]
    searched = "and all orders searched"
    assert found[searched, "optimal"] == found[searched, "with a plan"]
    points = [row for row in rows if row["verdict"] == "modelled"]
    assert len(points) == 48 and all(row["ours"] <= row["fixed"] for row in points)
    printed = capsys.readouterr().out
    assert "worked example" in printed and "ms an image on a modelled K80" in printed
    # the page in the same test: both take 3,000 random networks, which are computed once a process
    text = batches_page.PAGE.read_text()
    for name, made in batches_page.MAKERS.items():
        block = f"<!-- {name} -->\n\n{made()}\n<!-- end -->"
        assert block in text, f"{name}: python -m tests.batches_page brings it up to date"


def test_requests_are_measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way that has a plan is executed; one that has none says so."""
    for name, value in {"NETWORKS": ("lenet5", "resnet8"), "REPEATS": 1, "IMAGES": 4}.items():
        monkeypatch.setattr(measured, name, value)
    left: list[Left] = []
    cells = list(measured.requests(left))
    ways = [one.row for one in cells if one.column == "an image, ms"] + [one.what for one in left]
    assert len(ways) == len(set(ways)) == 2 * len(measured.WAYS)
    assert all(one.ours > 0 for one in cells) and all("least" in one.why for one in left)
