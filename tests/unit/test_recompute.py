"""Tiles for a factor of multiply-accumulates: never more than asked, never more memory, published points."""

from __future__ import annotations

import numpy as np
import pytest

import csdfgen
import runtime
from benchmarks.bench_recompute import PUBLISHED
from benchmarks.chains import CHAINS
from csdfgen.backends.registry import AUTO, resolve_backend
from csdfgen.errors import InputError
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.recompute import (
    count_tiled_macs,
    measure_tiles,
    multiply_accumulates,
    search_regions,
)
from csdfgen.rewriting.fuse import fuse
from csdfgen.rewriting.tiles import parse_regions
from runtime.verify import check_layers, check_outputs
from tests.builder import Graph

FOUND = {
    ("mbv2_w0.35_chain", 1.02): "0-6:2,7-9:5,10-12:4,13-18:1,19-27:1,28-36:1,37-42:1,43-53:1",
    ("mbv2_w0.35_chain", 1.10): (
        "0-12:4,13-15:1,16-18:1,19-21:1,22-27:1,28-33:1,34-36:1,37-39:1,40-42:1,43-45:1,46-48:1,49-53:1"
    ),
    ("mbv2_w0.35_chain", 1.68): (
        "0-6:36&7-9:36&10-12:18,13-15:6,16-18:6,19-21:5,22-24:3,25-27:3,28-30:3,31-33:5,34-36:9,"
        "37-39:9,40-42:5,43-45:5,46-48:5,49-53:5"
    ),
    ("mcunetv2_vww_5fps_chain", 1.02): (
        "0-0:40&1-2:40&3-5:5,6-11:1,12-14:1,15-20:1,21-23:1,24-26:1,27-45:1"
    ),
    ("mcunetv2_vww_5fps_chain", 1.96): (
        "0-5:2,6-8:1,9-11:1,12-14:9,15-17:1,18-20:1,21-23:5,24-26:1,27-29:1,30-45:1"
    ),
    ("mcunet_320kb_chain", 1.04): "0-8:2,9-11:5,12-14:1,15-17:3,18-23:1,24-32:1,33-54:1",
    ("mcunet_320kb_chain", 1.37): "0-8:11&9-11:11&12-17:8,18-20:1,21-26:1,27-32:1,33-38:1,39-54:1",
    ("mcunet_320kb_chain", 2.69): (
        "0-8:44&9-11:44&12-14:44&15-17:22,18-20:1,21-23:1,24-26:1,27-29:1,30-35:1,36-38:1,39-44:1,"
        "45-47:1,48-54:1"
    ),
}
"""What the search finds (`make bench-recompute`), by network and factor: the rest is followed here."""


@pytest.fixture(scope="module")
def networks() -> dict[str, Network]:
    return {name: fuse(csdfgen.load(chain.build())) for name, chain in CHAINS.items()}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_have_the_published_products(name: str, networks: dict[str, Network]) -> None:
    assert multiply_accumulates(networks[name]) == CHAINS[name].macs


@pytest.mark.parametrize(("name", "factor"), FOUND)
def test_at_most_as_published(name: str, factor: float, networks: dict[str, Network]) -> None:
    """Alive at most, followed firing by firing; multiply-accumulates counted of the clones."""
    found = measure_tiles(networks[name], parse_regions(FOUND[name, factor]))
    assert found.macs <= factor * CHAINS[name].macs
    assert found.peak_live // 4 <= dict(PUBLISHED[name])[factor]


@pytest.mark.networks
@pytest.mark.parametrize(
    ("name", "size"), [("mbv2_w0.35_chain", 48), ("mcunetv2_vww_5fps_chain", 32)]
)
def test_a_found_plan_computes_the_same(name: str, size: int) -> None:
    """Every layer, of tiles their columns, and the outputs, beside onnxruntime; measured is planned."""
    model = CHAINS[name].build(size)
    network = csdfgen.load(model)
    plain = csdfgen.plan(network, rows=1)
    joined = fuse(network)
    best, *_ = search_regions(joined, 1.3, effort=20_000)
    plan = csdfgen.plan(network, rows=1, tiles=best.tiles)
    assert (
        best.peak_live < measure_tiles(joined, ()).peak_live
    )  # without scratch, which a plan has too
    assert plan.figures["peak_live"] <= plain.figures["peak_live"]
    x = {t.name: np.random.default_rng(1).uniform(-1, 1, t.shape) for t in network.inputs}
    feeds = {key: value.astype(np.float32) for key, value in x.items()}
    frame = runtime.compile(plan)
    assert all(found.ok for found in check_outputs(model, plan, feeds, frame(feeds)))
    layers = check_layers(model, plan, feeds)
    assert all(layer.comparison.ok for layer in layers)
    in_tiles = [one for one in layers if one.comparison.name in plan.network.parts]
    assert len(in_tiles) > len(network.layers) / 2
    assert frame.measure(feeds)[1].touched_bytes <= plan.planned_bytes


def test_a_factor_is_a_limit_and_more_never_hurts() -> None:
    network = fuse(csdfgen.load(CHAINS["mbv2_w0.35_chain"].build(48)))
    once = multiply_accumulates(network)
    peaks = []
    for factor in (1, 1.05, 1.4):
        best, *_ = search_regions(network, factor, effort=10_000)
        assert once <= best.macs == multiply_accumulates(best.tiled.network) <= factor * once
        assert best.macs == count_tiled_macs(network, parse_regions(best.tiles))
        assert best.peak_live <= measure_tiles(network, ()).peak_live
        peaks.append(best.peak_live)
    assert peaks[-1] < peaks[0]


def test_the_same_is_found_again() -> None:
    model = CHAINS["mcunetv2_vww_5fps_chain"].build(32)
    texts = {
        search_regions(fuse(csdfgen.load(model)), 1.2, effort=10_000)[0].tiles for _ in range(2)
    }
    assert len(texts) == 1


def test_planning_asks_for_a_factor() -> None:
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 3, 24, 24)), 16)
    x = graph.conv(x, 32, strides=[2, 2])
    network = csdfgen.load(graph.model(graph.node("GlobalAveragePool", graph.conv(x, 16))))
    plan = csdfgen.plan(network, recompute=1.5)
    assert plan.options == PlanOptions(
        "1", recompute=1.5, tiles=plan.options.tiles, backend=resolve_backend(AUTO)
    )
    assert plan.options.tiles
    plain = csdfgen.plan(network, rows=1)
    assert plan.figures["peak_live"] < plain.figures["peak_live"]


def test_maps_that_wait_for_their_mean_are_computed_twice() -> None:
    """Blocks with squeeze and excite, some of them without a residual, within the factor."""
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 3, 32, 32)), 8)
    for channels, stride in ((8, 1), (8, 1), (16, 2), (16, 1)):
        y = graph.conv(x, 4 * channels, 1)
        y = graph.conv(y, 4 * channels, strides=[stride] * 2)
        gate = graph.node(
            "Sigmoid", graph.conv(graph.node("GlobalAveragePool", y), 4 * channels, 1)
        )
        y = graph.conv(graph.node("Mul", y, gate), channels, 1)
        x = graph.node("Add", x, y) if stride == 1 else y
    model = graph.model(x)
    network = csdfgen.load(model)
    once, plain = multiply_accumulates(fuse(network)), csdfgen.plan(network, rows=1)
    peaks = [plain.figures["peak_live"]]
    for factor in (1.3, 1.6):
        plan = csdfgen.plan(network, recompute=factor)
        assert multiply_accumulates(plan.network) <= factor * once
        peaks.append(plan.figures["peak_live"])
        values = np.random.default_rng(0).uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)
        feeds = {"x": values}
        outputs = runtime.compile(plan)(feeds)
        assert all(one.ok for one in check_outputs(model, plan, feeds, outputs))
    assert peaks[0] >= peaks[1] and peaks[2] < 0.6 * peaks[0]


def test_networks_that_cannot_be_cut_stay_as_they_are() -> None:
    graph = Graph()
    x = graph.node("Softmax", graph.input("x", (1, 2, 8, 8)), axis=3)
    network = csdfgen.load(graph.model(graph.conv(x, 2)))
    (only,) = search_regions(network, 2)
    assert (only.tiles, only.macs) == ("", multiply_accumulates(network))


@pytest.mark.parametrize("factor", [0.5, -1, float("nan"), float("inf")])
def test_factors_below_one_are_refused(factor: float) -> None:
    network = csdfgen.load(CHAINS["mcunetv2_vww_5fps_chain"].build(32))
    with pytest.raises(InputError, match="from 1") as caught:
        csdfgen.plan(network, recompute=factor)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="given already"):
        csdfgen.plan(network, recompute=1.5, tiles="0-0:2")


@pytest.mark.networks
@pytest.mark.parametrize(
    "asked", [{"goal": "memory"}, {"goal": "speed"}, {"memory": "48KiB"}], ids=str
)
def test_heights_are_chosen_for_the_network_in_tiles(asked: dict[str, str]) -> None:
    network = csdfgen.load("zoo:mobilenet_v1_x0_25")
    plan = csdfgen.plan(network, backend="numpy", recompute=1.3, **asked)  # type: ignore[arg-type]
    assert plan.options.tiles and len(plan.network.layers) > len(network.layers)
    if asked.get("goal") != "speed":
        assert plan.total_bytes <= csdfgen.plan(network, backend="numpy").total_bytes
