"""A schedule of a network's graph runs the network; one that was tampered with, or is of another
network, is one line.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.graph import CsdfGraph, add_serial_loops
from csdfgen.errors import (
    CapacityExceededError,
    CsdfgenError,
    GraphError,
    InputError,
    PlanError,
    ScheduleError,
)
from csdfgen.files import Fields
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.graphs import build_graph
from csdfgen.planning.capacities import check_buffers, check_channels, row_limits
from csdfgen.planning.checker import check
from csdfgen.planning.plan_file import write_plan
from csdfgen.planning.prepared import convert_network
from csdfgen.planning.saved import read_saved
from schedules import SCHEDULERS, demand_driven
from schedules.schedule import firings_from_json, to_json, write_schedule
from schedules.static import choose_point, schedule_distribution, write_storage_plan
from schedules.storage import pareto_front, size_storage
from tests.planning import phased, plan_from_schedule, plan_of_saved
from tests.small_models import residual_classifier, two_inputs

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def network() -> Network:
    return csdfgen.load(residual_classifier())


def graph_for(
    network: Network, rows: int | str = 1, *, tokens: str = "elements", overlap: bool = True
) -> CsdfGraph:
    options = PlanOptions(str(rows))
    conversion = convert_network(network, options)
    return add_serial_loops(build_graph(conversion, options, tokens=tokens, overlap=overlap))


@pytest.fixture(scope="module")
def schedule_values(network: Network) -> dict[str, Any]:
    graph = graph_for(network)
    return to_json(schedule_distribution(graph, size_storage(graph, "live")))


def reread(values: dict[str, Any], tmp_path: Path, network: Network) -> Any:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(values))
    return plan_of_saved(read_saved(path), network)


@pytest.mark.parametrize("tokens", ["elements", "rows"])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("target", ["live", "maximal"])
def test_sized_capacities_run(
    network: Network, tmp_path: Path, tokens: str, overlap: bool, target: Any
) -> None:
    graph = graph_for(network, tokens=tokens, overlap=overlap)
    found = size_storage(graph, target)
    written = write_storage_plan(tmp_path / "plan.json", graph, found)
    assert written.throughput == found.throughput
    assert {name: written.capacities[name] for name in found.capacities} == found.capacities
    saved = read_saved(tmp_path / "plan.json")
    assert (saved.model, saved.batch, dict(saved.inputs)) == ("residual", 1, {"x": (1, 3, 16, 12)})
    assert dict(saved.options) == {"rows": "1", "fuse": "full", "image": "streamed"}
    plan = plan_of_saved(saved, network)
    check(plan)
    assert plan.order == tuple((firing.actor, firing.phase) for firing in written.firings)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 3, 16, 12)).astype(np.float32)
    np.testing.assert_array_equal(
        runtime.run(plan, x)["scores"], runtime.run(csdfgen.plan(network, rows=1), x)["scores"]
    )


def test_units_do_not_matter(network: Network) -> None:
    """Elements or rows, overlap loops or none: with the same order the same plan."""
    plans = []
    for tokens in ("elements", "rows"):
        for overlap in (True, False):
            plans.append(
                plan_from_schedule(
                    network, demand_driven(graph_for(network, tokens=tokens, overlap=overlap))
                )
            )
    assert len({plan.order for plan in plans}) == 1
    assert all(plan.regions == plans[0].regions for plan in plans)


def test_coarser_tokens_run_too(network: Network) -> None:
    """Rates divided by their gcd: a token is then that many rows."""
    schedule = demand_driven(graph_for(network, 4, tokens="rows"))
    name = "x->conv1"
    assert schedule.capacities[name] % 4 == 0
    coarse = replace(
        schedule,
        capacities={**schedule.capacities, "c3->scores": schedule.capacities["c3->scores"] // 4},
        token_bytes={**schedule.token_bytes, "c3->scores": schedule.token_bytes["c3->scores"] * 4},
    )
    assert (
        plan_from_schedule(network, coarse).regions == plan_from_schedule(network, schedule).regions
    )


def test_the_papers_network_runs_in_17_6_4_and_1_rows(tmp_path: Path) -> None:
    """Table II of paper 002, Ex4: 544, 384, 48 and 2 values, executed."""
    network = csdfgen.load("zoo:cnn5")
    options = PlanOptions("paper")
    conversion = convert_network(network, options)
    for overlap in (True, False):
        graph = add_serial_loops(build_graph(conversion, options, tokens="rows", overlap=overlap))
        found = size_storage(graph, "live")
        write_storage_plan(tmp_path / "plan.json", graph, found)
        plan = plan_of_saved(read_saved(tmp_path / "plan.json"), network)
        data = [
            found.capacities[channel.name] for channel in graph.channels if channel.kind == "data"
        ]
        regions = [plan.regions[buffer.name] for buffer in plan.rolling]
        assert data == [region.capacity for region in regions] == [17, 6, 4, 1]
        assert [region.size for region in regions] == [4 * n for n in (544, 384, 48, 2)]
        x = np.random.default_rng(1).uniform(0, 1, (1, 1, 32, 32)).astype(np.float32)
        want = runtime.run(csdfgen.plan(network, rows="whole"), x)
        np.testing.assert_allclose(runtime.run(plan, x)["n4"], want["n4"], rtol=1e-5, atol=1e-5)


# What a file may not say ------------------------------------------------------------------------


def _flat(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Firings one by one instead of loops, so that they can be edited."""
    return [
        {"actor": f.actor, "first": f.phase, "count": 1}
        for f in firings_from_json(Fields(values, "test"))
    ]


def _swap_two_layers(values: dict[str, Any]) -> None:
    firings = _flat(values)
    at = next(i for i, firing in enumerate(firings) if firing["actor"] == "conv2")
    before = max(i for i in range(at) if firings[i]["actor"] == "conv1")
    firings[before], firings[at] = firings[at], firings[before]
    values["firings"] = firings


def _early_input(values: dict[str, Any]) -> None:
    """All rows of the image first: right, but no capacity holds them."""
    firings = _flat(values)
    values["firings"] = sorted(firings, key=lambda firing: firing["actor"] != "input:x")


def _drop_last_firing(values: dict[str, Any]) -> None:
    values["firings"] = _flat(values)[:-1]


def _repeat_first_firing(values: dict[str, Any]) -> None:
    firings = _flat(values)
    values["firings"] = [firings[0], *firings]


def _set(path: str, value: Any) -> Edit:
    def edit(values: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for key in outer:
            values = values[key]
        values[last] = value

    return edit


def _drop(path: str) -> Edit:
    def edit(values: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for key in outer:
            values = values[key]
        del values[last]

    return edit


def _add(path: str, change: int) -> Edit:
    def edit(values: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for key in outer:
            values = values[key]
        values[last] += change

    return edit


def _nested(depth: int) -> list[dict[str, Any]]:
    item: dict[str, Any] = {"actor": "conv1", "first": 0, "count": 1}
    for _ in range(depth):
        item = {"repeat": 1000, "body": [item]}
    return [item]


TAMPERED: list[tuple[Edit, type[CsdfgenError], str]] = [
    (_swap_two_layers, ScheduleError, "comes next|holds . of the . tokens"),
    (_early_input, CapacityExceededError, r"would hold \d+ tokens; its capacity is \d+"),
    (_drop_last_firing, ScheduleError, "fires 0 phases of 'output:scores', which has 1"),
    (_repeat_first_firing, ScheduleError, "phase 1 comes next"),
    (_set("firings", []), ScheduleError, "fires 0 phases of 'input:x', which has 16"),
    (_add("capacities.x->conv1", -1), CapacityExceededError, "'x->conv1' would hold 2 tokens; its"),
    (
        _add("capacities.overlap:x->conv1", -1),
        CapacityExceededError,
        "'overlap:x->conv1' would hold",
    ),
    (_set("capacities.x->conv1", 0), CapacityExceededError, "its capacity is 0"),
    (_set("capacities.x->conv1", -1), ScheduleError, "a whole number from 0"),
    (_set("capacities.x->conv1", 2**64), ScheduleError, "a whole number from 0"),
    (_set("capacities.x->conv1", "3"), ScheduleError, "a whole number from 0"),
    (_set("capacities.nothing", 3), PlanError, "'nothing', which is no channel here"),
    (_drop("capacities.x->conv1"), PlanError, "no capacity to channel 'x->conv1'"),
    (_drop("capacities"), ScheduleError, "has no 'capacities'"),
    (_drop("token_bytes.x->conv1"), PlanError, "how many bytes a token of channel 'x->conv1'"),
    (_set("token_bytes.x->conv1", 0), PlanError, "tokens of 0 bytes .* multiples of 144 bytes"),
    (_set("token_bytes.x->conv1", 7), PlanError, "tokens of 7 bytes .* multiples of 144 bytes"),
    (_drop("token_bytes"), PlanError, "how many bytes a token"),
    (
        _set("firings", [{"actor": "nobody", "first": 0, "count": 1}]),
        PlanError,
        "no actor of 'residual'",
    ),
    (
        _set("firings", [{"actor": "input:x", "first": 0, "count": 17}]),
        ScheduleError,
        "fires 17 phases",
    ),
    (
        _set("firings", [{"actor": "x", "first": 0, "count": 2**40}]),
        ScheduleError,
        "at most 1000000 are read",
    ),
    (_set("firings", _nested(20)), ScheduleError, f"lists {1000**20} firings"),
    (_set("firings", _nested(70)), ScheduleError, "nested more than 64 deep"),
    (
        _set("firings", [{"actor": "x", "first": 0, "count": 1, "iteration": 1}]),
        PlanError,
        "2 iterations",
    ),
    (_set("iterations", 7), PlanError, "fires 7 iterations; a plan has 1"),
    (_set("origin.options.rows", "2"), ScheduleError, "rows='2'"),
    (_set("origin.options.rows", "-1"), InputError, "rows='-1'"),
    (_set("origin.options.rows", "nobody=1"), InputError, "nobody"),
    (_set("origin.options.fuse", "most"), InputError, "most"),
    (_set("origin.options.fuse", "none"), ScheduleError, "fires 0 phases of 'relu1', which has 16"),
    (_set("origin.options.image", "moved"), InputError, "moved"),
    (
        _set("origin.options.image", "resident"),
        ScheduleError,
        "fires 16 phases of 'input:x', which has 1",
    ),
    (_set("origin.options.rates", "paper"), PlanError, "rates='paper'"),
    (_set("origin.digest", "0" * 16), PlanError, "(0000000000000000).*other rows or shapes"),
    (_drop("origin"), PlanError, "does not say from which network"),
    (_set("origin.inputs.x", "1x3"), ScheduleError, "list of at most"),
    (
        _set("format", "csdfgen-graph"),
        PlanError,
        "or 'csdfgen-schedule' is needed; csdfgen schedule GRAPH",
    ),
    (_drop("format"), PlanError, "has no 'format'"),
    (_set("version", 99), ScheduleError, "99"),
]


@pytest.mark.parametrize(("edit", "error", "said"), TAMPERED)
def test_tampered_schedule_is_refused(
    network: Network,
    schedule_values: dict[str, Any],
    tmp_path: Path,
    edit: Edit,
    error: type[CsdfgenError],
    said: str,
) -> None:
    values = copy.deepcopy(schedule_values)
    edit(values)
    with pytest.raises(error, match=said) as caught:
        reread(values, tmp_path, network)
    assert str(caught.value).startswith(str(tmp_path / "plan.json"))
    assert "\n" not in str(caught.value)


def test_all_are_needed(network: Network, schedule_values: dict[str, Any], tmp_path: Path) -> None:
    """Of the least storage no channel can do with a token less."""
    for name, kind in ((c.name, c.kind) for c in graph_for(network).channels):
        if kind == "serial":
            continue
        values = copy.deepcopy(schedule_values)
        values["capacities"][name] -= 1
        with pytest.raises(CapacityExceededError, match=f"'{name}' would hold"):
            reread(values, tmp_path, network)


def test_another_network_names_both(schedule_values: dict[str, Any], tmp_path: Path) -> None:
    values = copy.deepcopy(schedule_values)
    values["origin"]["model"] = "first.onnx"
    with pytest.raises(
        PlanError, match=r"'first.onnx', it fires 'input:x', which is no actor of 'two'"
    ):
        reread(values, tmp_path, csdfgen.load(two_inputs()))


def test_other_rows_are_another_network(schedule_values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="other rows or shapes than those of 'residual'"):
        reread(schedule_values, tmp_path, csdfgen.load(residual_classifier(width=13)))


def test_other_weights_are_no_other(schedule_values: dict[str, Any], tmp_path: Path) -> None:
    model = residual_classifier()
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(2 * onnx.numpy_helper.to_array(tensor), tensor.name)
        )
    assert reread(schedule_values, tmp_path, csdfgen.load(model)).planned_bytes > 0


def test_a_graph_of_nobody_is_no_plan(tmp_path: Path) -> None:
    graph = replace(graph_for(csdfgen.load(residual_classifier())), origin=None)
    write_schedule(tmp_path / "plan.json", demand_driven(graph))
    with pytest.raises(
        PlanError,
        match=r"graph 'residual', which does not say from which network .* csdfgen MODEL -o graph.xml",
    ):
        read_saved(tmp_path / "plan.json")
    with pytest.raises(PlanError, match="'residual' does not say which network it was made from"):
        plan_from_schedule(csdfgen.load(residual_classifier()), demand_driven(graph))


def test_plans_are_read_as_before(network: Network, tmp_path: Path) -> None:
    plan = csdfgen.plan(network, rows=2)
    write_plan(tmp_path / "plan.json", plan)
    saved = read_saved(tmp_path / "plan.json")
    assert dict(saved.options) == {"rows": "2", "fuse": "full", "image": "streamed"}
    assert plan_of_saved(saved, network).regions == plan.regions


# Capacities and buffers -------------------------------------------------------------------------


def test_buffers_hold_what_the_channels_hold_and_the_overlap() -> None:
    """The relation, by hand: a 3x3 convolution's channel takes 2 rows at once, and it keeps 2 of
    those that it has read.
    """
    network = csdfgen.load(residual_classifier())
    prepared = phased(network, options := PlanOptions("1", "none"))
    conversion, sharing = prepared.conversion, prepared.sharing
    schedule = demand_driven(build_graph(conversion, options, tokens="rows"))
    rooms = check_channels(conversion, schedule)
    assert (rooms["x->conv1"], rooms["overlap:x->conv1"]) == (2, 4)
    limits = row_limits(conversion, sharing, rooms)
    plan = plan_from_schedule(network, schedule)
    held = {b.name: plan.regions[b.name].capacity for b in plan.rolling}
    assert held["x"] == 3 <= limits["x"] == 2 + 2
    assert all(held[b.name] <= limits[b.name] for b in prepared.buffers)


def test_an_order_that_needs_more_is_found_in_the_buffers(network: Network) -> None:
    graph = graph_for(network, tokens="rows")
    least = plan_from_schedule(network, schedule_distribution(graph, size_storage(graph, "live")))
    limits = row_limits(
        least.conversion, least.sharing, check_channels(least.conversion, demand_driven(graph))
    )
    check_buffers(least.rolling, least.lifetimes, limits)
    wide = plan_from_schedule(network, SCHEDULERS["layers"](graph, 1))
    with pytest.raises(
        PlanError,
        match=r"buffer 'x' takes 16 rows in this order; the capacities of its channels hold \d$",
    ):
        check_buffers(wide.rolling, wide.lifetimes, limits)


# Which point of a front is written --------------------------------------------------------------


def test_the_point_with_the_least_storage_is_written_unless_asked(network: Network) -> None:
    graph = graph_for(network, tokens="rows")
    front = list(pareto_front(graph))
    assert len(front) > 1
    assert choose_point(front) == choose_point(front[::-1]) == front[0]
    assert choose_point(front, front[1].throughput) == front[1]
    assert (
        choose_point(front, front[0].throughput + (front[1].throughput - front[0].throughput) / 2)
        == front[1]
    )
    best = front[-1].throughput
    with pytest.raises(
        GraphError,
        match=f"throughput {best + 1} is wanted; the highest of {len(front)} storage distributions is {best}",
    ):
        choose_point(front, best + 1)
    with pytest.raises(GraphError, match="no schedule to write"):
        choose_point([])


def test_a_graph_file_gives_the_same_schedule(network: Network, tmp_path: Path) -> None:
    graph = graph_for(network)
    graph_json.write_graph(tmp_path / "graph.json", graph)
    again = graph_json.read_graph(tmp_path / "graph.json")
    found = size_storage(graph, "live")
    assert schedule_distribution(again, found) == schedule_distribution(graph, found)
