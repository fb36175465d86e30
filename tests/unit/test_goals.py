"""Goals and budgets: what is taken, what is refused, what an interrupted search gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.devices.catalogue import device
from csdfgen.devices.model import estimate
from csdfgen.errors import CsdfgenError, InputError, PlanError
from csdfgen.files import Fields
from csdfgen.goals import choice, peaks, search
from csdfgen.goals import heights as balance
from csdfgen.goals.batching.choice import repeat_request
from csdfgen.goals.choice import choose_plan, find_front
from csdfgen.goals.facts import describe_tradeoff, holders, list_heights, schedule_facts
from csdfgen.goals.heights import GROWTHS, Heights, plan_few_phases, price_heights, raise_heights
from csdfgen.goals.search import pareto_optimal
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.model.units import parse_size, parse_time
from csdfgen.phases.heights import halve_heights, parse_rows
from csdfgen.planning import prepared as preparation
from csdfgen.planning.checker import check
from csdfgen.planning.placement import workspace_name
from csdfgen.planning.plan import Plan, Point
from csdfgen.planning.plan_file import from_json, to_json, to_plan
from csdfgen.planning.planner import plan_phased as plan_once
from csdfgen.planning.prepared import Phased, Prepared
from tests.beaten import beaten, network, plans
from tests.builder import Graph
from tests.native_steps import compiler_missing
from tests.planning import phased, plan_of, predicted
from tests.small_models import residual_classifier
from tests.ways import some

PROFILE = device("numpy-core")
NATIVE = device("native-core")
planned = partial(csdfgen.plan, backend="numpy")
listed = partial(csdfgen.pareto, backend="numpy")
needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

TIMED: dict[str, Any] = {"device": PROFILE.name}


@pytest.fixture(scope="module")
def net() -> Network:
    return csdfgen.load(residual_classifier())


@pytest.fixture(scope="module")
def chain() -> Network:
    """Large enough that rows pay: one of the zoo's, small."""
    return csdfgen.load("zoo:cnn5@64x64")


@pytest.fixture(scope="module")
def points(chain: Network) -> tuple[Point, ...]:
    return listed(chain)


def ms(plan: Plan) -> float:
    return 1e3 * estimate(plan, PROFILE).seconds


def refused(call: Callable[[], object], kind: type[CsdfgenError] = PlanError) -> str:
    with pytest.raises(kind) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


class Counting:
    """A planner that counts its calls, knows no bound, and may be interrupted in one of them."""

    def __init__(self, stop_at: int = 0) -> None:
        self.calls: list[PlanOptions] = []
        self.stop_at = stop_at

    def __call__(self, prepared: Prepared, phased: Phased) -> Plan:
        self.calls.append(phased.options)
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        made = plan_once(prepared, phased)
        return replace(made, figures={**made.figures, "lower_bound": 0})


# Heights ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def heights(chain: Network) -> Heights:
    return price_heights(predicted(chain, PlanOptions(), PROFILE))


def test_the_ladder_buys_time_with_memory(heights: Heights) -> None:
    ladder = heights.ladder
    assert len(ladder) > 3
    weighed = [
        sum(c[at].weighed for c, at in zip(heights.choices, step.picks, strict=True))
        for step in ladder
    ]
    taken = [
        sum(c[at].bytes for c, at in zip(heights.choices, step.picks, strict=True))
        for step in ladder
    ]
    assert weighed == sorted(weighed, reverse=True) and taken == sorted(taken)
    assert ladder[0].picks == (0,) * len(heights.names)


def test_every_step_is_the_best_of_each_layer_at_some_price(heights: Heights) -> None:
    """Not one layer has another height with less of both."""
    for step in heights.ladder:
        for choices, at in zip(heights.choices, step.picks, strict=True):
            mine = choices[at]
            assert not any(c.bytes <= mine.bytes and c.weighed < mine.weighed for c in choices)


def test_a_step_is_cut_as_it_says(chain: Network, heights: Heights) -> None:
    """Its rows are read again, and its seconds are those of the network cut so."""
    ladder = heights.ladder
    for step in ladder[:: len(ladder) // 5]:
        found = predicted(chain, PlanOptions(rows=heights.rows(step)), PROFILE)
        made = plan_once(found.prepared, found.prepared.phased())
        assert found.frame(made.conversion) == pytest.approx(step.seconds)
        assert estimate(made, PROFILE).seconds == pytest.approx(step.seconds)


def test_a_slice_of_the_image_has_heights_by_its_own_name() -> None:
    """It takes its part of the caller's rows itself, and is no input of the network."""
    g = Graph()
    x = g.input("x", (1, 2, 16, 40))
    bounds = (g.constant(np.array([value])) for value in (0, 32, 3))
    part = g.node("Slice", x, *bounds)
    sliced = csdfgen.load(g.model(g.conv(part, 4), g.conv(x, 4)))
    times = predicted(sliced, PlanOptions(), PROFILE)
    heights = price_heights(times)
    assert "Slice_0" in heights.names and part not in heights.names
    for step in heights.ladder:
        made = times.prepared.at(heights.rows(step))
        assert times.frame(made.conversion) == pytest.approx(step.seconds)
    planned(sliced, goal="memory")


def test_an_operator_without_a_cost_is_refused(net: Network) -> None:
    costs = tuple(cost for cost in PROFILE.operators if "Conv" in cost.types)
    with pytest.raises(InputError, match="has no cost for"):
        price_heights(predicted(net, PlanOptions(), replace(PROFILE, operators=costs)))


# What the default raises for native code -----------------------------------------------------------


def weighted(cost: float) -> Any:
    """The native profile with another time of a byte of weights."""
    operators = tuple(
        one if one.weights is None else replace(one, weights=replace(one.weights, value=cost))
        for one in NATIVE.operators
    )
    return replace(NATIVE, operators=operators)


def test_levels_take_ever_less_time(chain: Network) -> None:
    times = predicted(chain, PlanOptions(), NATIVE)
    found = price_heights(times).levels()
    seconds = [times.frame(times.prepared.at(rows).conversion) for rows in ("auto", *found)]
    assert len(found) > 3 and all(rows.startswith("auto,") for rows in found[:2])
    assert all(later < sooner for sooner, later in pairwise(seconds))


def test_what_is_raised_is_faster_and_within_the_growth(chain: Network) -> None:
    times = predicted(chain, PlanOptions(count="activations"), NATIVE)
    usual, found = times.prepared.phased(), raise_heights(times)
    assert found.options.rows != "auto"
    assert times.frame(found.conversion) < times.frame(usual.conversion)
    assert found.rough_bound <= GROWTHS[-1] * usual.rough_bound
    for tall, low in zip(found.conversion.actors, usual.conversion.actors, strict=True):
        assert len(tall.phases) <= len(low.phases)


def test_heights_that_are_compared_again_are_cut_once(chain: Network) -> None:
    times = predicted(chain, PlanOptions(), NATIVE)
    found = raise_heights(times)
    assert times.at(found.options.rows) is found and times.at("auto") is not found
    assert times.heights is times.heights


def test_weights_make_layers_taller(chain: Network) -> None:
    """The more a byte of them costs in every phase, the fewer phases."""
    phases = []
    for cost in (0.0, 1e-10, 1e-8):
        made = raise_heights(
            predicted(chain, PlanOptions(count="activations"), weighted(cost))
        ).conversion
        phases.append(sum(len(work.phases) for work in made.actors if work.kind == "layer"))
    assert phases[0] >= phases[1] > phases[2]


@needs_compiler
def test_only_the_default_of_native_code_is_raised(chain: Network) -> None:
    assert csdfgen.plan(chain, backend="native").options.rows != "auto"
    for asked in ({"backend": "numpy"}, {"rows": "2"}, {"policy": "layers"}):
        options = csdfgen.plan(chain, **{"backend": "native", **asked}).options
        assert options.rows == asked.get("rows", "auto")


def test_few_phases_where_rows_are_far(chain: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never where they are near; all layers then have so many rows; the growth is kept."""
    usual = planned(chain, rows=1)
    times = predicted(chain, usual.options, NATIVE)
    assert plan_few_phases(usual, times) is None
    monkeypatch.setattr(balance, "FAR", 1)
    few = plan_few_phases(usual, times)
    assert few is not None and 0 < few.time < balance.GAIN
    taller = planned(chain, rows=few.phased.options.rows)
    for work in taller.conversion.actors:
        if work.kind == "layer":
            assert list_heights(taller)[work.name] >= min(balance.SLAB, work.writes[0].tensor.rows)
    monkeypatch.setattr(balance, "FAR_BYTE", 1e-6)
    dear = plan_few_phases(usual, times)
    assert dear is not None and dear.time < few.time, "windows read their rows again"
    grown = taller.total_bytes / usual.total_bytes
    assert few.better(taller, usual) == (grown <= balance.GROWTH and grown * few.time**2 < 1)
    assert not replace(few, time=1.0).better(taller, usual) and replace(few, time=0.1).better(
        usual, usual
    )


@needs_compiler
def test_few_phases_are_the_default(chain: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "FAR", 1)
    monkeypatch.setattr(balance, "FAR_BYTE", 1e-6)
    monkeypatch.setattr(choice, "raise_heights", lambda times: times.prepared.at("1"))
    for growth, few in ((9.0, True), (1.0, False)):
        monkeypatch.setattr(balance, "GROWTH", growth)
        found = csdfgen.plan(chain, backend="native", count="activations")
        assert (found.options.rows != "1") == few
    assert csdfgen.plan(chain, backend="numpy").options.rows == "auto"


# What is lower at the peak ------------------------------------------------------------------------


def bottlenecks(size: int, kernel: int = 1) -> Network:
    """Three residual blocks of wide depthwise layers, on maps of a quarter of the size."""
    g = Graph()
    y = g.input("x", (1, 3, size, size))
    for channels in (8, 16):
        y = g.node("Relu", g.conv(y, channels, strides=[2, 2]))
    for _ in range(3):
        wide = g.node("Relu", g.conv(y, 96, kernel))
        wide = g.node("Relu", g.conv(wide, 96, group=96))
        y = g.node("Add", y, g.conv(wide, 16, kernel))
    return csdfgen.load(g.model(g.node("GlobalAveragePool", y)))


@needs_compiler
def test_small_maps_get_lower_slabs_where_the_peak_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In less memory, hardly more time, and the same bits; layers away from the peak keep their heights."""
    small = bottlenecks(56)
    low = csdfgen.plan(small, backend="native", count="activations")
    monkeypatch.setattr(choice, "lower", lambda plan, times: None)
    usual = csdfgen.plan(small, backend="native", count="activations")
    assert low.total_bytes <= 0.8 * usual.total_bytes
    slower = 1 + (peaks.SLOWER - 1) / peaks.LIGHT
    assert estimate(low, NATIVE).seconds <= slower * estimate(usual, NATIVE).seconds
    tall, heights = list_heights(usual), list_heights(low)
    assert all(heights[name] <= rows for name, rows in tall.items())
    assert any(heights[name] == rows > 1 for name, rows in tall.items())
    x = np.random.default_rng(0).normal(size=(1, 3, 56, 56)).astype(np.float32)
    for plan in (low, usual):
        check(plan)
    found, wanted = (runtime.run(plan, {"x": x}) for plan in (low, usual))
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_slabs_are_lower_where_constants_are_in_flash() -> None:
    """From the beginning; taller only by what is predicted to be worth it."""
    small = bottlenecks(56)
    usual, flash = (
        predicted(small, PlanOptions(count=count), NATIVE) for count in ("activations", "flash")
    )
    assert usual.general == "auto"
    low, tall = (one.at(one.general) for one in (flash, usual))
    assert low.rough_bound < 0.6 * tall.rough_bound
    assert raise_heights(flash).rough_bound <= GROWTHS[-1] * low.rough_bound


@needs_compiler
def test_what_saves_enough_keeps_its_heights(monkeypatch: pytest.MonkeyPatch) -> None:
    large = bottlenecks(224)
    made = csdfgen.plan(large, backend="native", count="activations")
    assert (
        made.options.rows
        == raise_heights(predicted(large, PlanOptions(count="activations"), NATIVE)).options.rows
    )
    assert made.figures["whole_layer_live"] > peaks.ENOUGH * made.total_bytes
    assert peaks.lower(made, predicted(large, made.options, NATIVE)) is None
    small = predicted(bottlenecks(56), PlanOptions(count="activations"), NATIVE)
    usual = plan_once(small.prepared, raise_heights(small))
    assert peaks.lower(usual, small) is not None
    monkeypatch.setattr(peaks, "ENOUGH", usual.figures["whole_layer_live"] / usual.total_bytes)
    assert peaks.lower(usual, small) is None


def test_lower_slabs_are_worth_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is bounded; convolutions that are computed by several rows at a time keep their heights."""
    small = bottlenecks(56)
    times = predicted(small, PlanOptions(count="activations"), NATIVE)
    usual = plan_once(times.prepared, raise_heights(times))
    found = peaks.lower(usual, times)
    assert found is not None and 1 <= found.time <= peaks.SLOWER
    low = plan_once(times.prepared, found.phased)
    assert found.better(low, usual) and not replace(found, time=2.0).better(low, usual)
    assert not found.better(usual, usual)
    monkeypatch.setattr(peaks, "SLOWER", 0.9)
    assert peaks.lower(usual, times) is None
    monkeypatch.undo()
    monkeypatch.setattr(peaks, "SMALL", 0)
    times = predicted(bottlenecks(56, kernel=3), PlanOptions(count="activations"), NATIVE)
    usual = plan_once(times.prepared, raise_heights(times))
    found = peaks.lower(usual, times)
    assert found is not None
    tall, low_rows = list_heights(usual), list_heights(plan_once(times.prepared, found.phased))
    for layer in usual.network.layers:
        strides, groups = layer.attributes.get("strides", (1,)), layer.attributes.get("group", 1)
        if layer.op_type == "Conv" and groups == 1 and set(strides) == {1}:
            assert low_rows[layer.name] == tall[layer.name]


@needs_compiler
def test_taller_slabs_that_take_too_much_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    large = bottlenecks(224)
    times = predicted(large, PlanOptions(count="activations"), NATIVE)
    taller = plan_once(times.prepared, times.prepared.at("8"))
    found = peaks.lower_peak(taller, times)
    assert found is not None and found.time > 1 and str(found.phased.conversion.rows) == "auto"
    usual = plan_once(times.prepared, found.phased)
    assert found.better(usual, taller) and peaks.lower_peak(usual, times) is None
    weak = {**taller.figures, "lower_bound": found.phased.rough_bound}
    assert peaks.lower_peak(replace(taller, figures=weak), times) is None
    monkeypatch.setattr(choice, "lower", lambda plan, times: None)
    monkeypatch.setattr(search.Search, "just_faster", lambda *_: ())
    monkeypatch.setattr(choice, "raise_heights", lambda times: times.prepared.at("8"))
    for firings, rows in ((peaks.FIRINGS, "auto"), (0, "8")):
        monkeypatch.setattr(peaks, "FIRINGS", firings)
        assert csdfgen.plan(large, backend="native", count="activations").options.rows == rows


def test_heights_are_halved_down_to_few_pixels() -> None:
    """By name only; a row of many pixels is left, and rows of one pixel stay above sixteen."""
    g = Graph()
    narrow = csdfgen.load(g.model(g.node("Relu", g.input("x", (1, 8, 40, 1)))))
    assert str(halve_heights(parse_rows("auto"), narrow, ["x", "nothing"])) == "auto,x=20"
    assert str(halve_heights(parse_rows("x=20"), narrow, ["x"])) == "auto,x=16"
    maps = bottlenecks(56)
    names = [layer.name for layer in maps.layers]
    assert halve_heights(parse_rows(1), maps, names) == parse_rows(1)
    assert halve_heights(parse_rows("auto"), maps, ()) == parse_rows("auto")


@needs_compiler
def test_budgets_of_native_code_try_raised_heights(chain: Network) -> None:
    """The fastest within what the default takes is no slower than the default."""
    usual = csdfgen.plan(chain, backend="native")
    found = csdfgen.plan(chain, backend="native", memory=usual.total_bytes)
    assert estimate(found, NATIVE).seconds <= 1.01 * estimate(usual, NATIVE).seconds


# Goals ------------------------------------------------------------------------------------------


def test_the_default_is_one_plan(chain: Network) -> None:
    planner = Counting()
    made = choose_plan(chain, PlanOptions(), planner)
    assert [one.rows for one in planner.calls] == ["auto"]
    assert made.total_bytes <= made.figures["whole_layer_live"]


def test_the_default_takes_no_more_than_whole_layers(chain: Network) -> None:
    """Where the heights of `auto` take more, others that do not are looked for."""
    auto, least = (plan_of(chain, PlanOptions(rows=rows)) for rows in ("auto", "1"))
    between = (auto.total_bytes + least.total_bytes) // 2

    def planner(prepared: Prepared, phased: Phased) -> Plan:
        calls.append(phased.options.rows)
        made = plan_once(prepared, phased)
        return replace(made, figures={**made.figures, "whole_layer_live": between})

    calls: list[str] = []
    made = choose_plan(chain, PlanOptions(), planner)
    assert made.total_bytes <= between < auto.total_bytes
    assert calls == ["auto", made.options.rows], "lower where it takes more"


@pytest.mark.parametrize("part", [0.05, 0.6, 0.99])
def test_heights_that_would_not_be_taken_get_no_plan(
    chain: Network, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """The plan is that of a search that makes all plans, of which fewer are made where estimates exclude the others."""
    whole = int(part * plan_of(chain, PlanOptions(rows="auto")).total_bytes)

    def planner(prepared: Prepared, phased: Phased) -> Plan:
        calls.append((phased.options.rows, phased.options.goal))
        made = plan_once(prepared, phased)
        return replace(made, figures={**made.figures, "whole_layer_live": whole})

    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(search, "fit_whole_layers", lambda *given: None)
    made, few = choose_plan(chain, PlanOptions(), planner), len(calls)
    calls.clear()
    monkeypatch.setattr(search, "_is_promising", lambda *given: True)
    best = choose_plan(chain, PlanOptions(), planner)
    assert (made.options.rows, made.total_bytes) == (best.options.rows, best.total_bytes)
    assert few < len(calls)


@needs_compiler
def test_many_equal_peaks_of_heavy_layers_are_within_whole_layers() -> None:
    """Every block peaks alike, and its weights are far more than what lower slabs save: they are found at once."""
    g = Graph(1)
    x = g.input("x", (1, 128, 256))
    for _ in range(6):
        deep, back = (
            g.constant(g.rng.normal(0, 0.1, s).astype(np.float32))
            for s in ((256, 1024), (1024, 256))
        )
        x = g.node("Add", x, g.node("MatMul", g.node("Relu", g.node("MatMul", x, deep)), back))
    network = csdfgen.load(g.model(x))
    planner = Counting()
    made = choose_plan(network, PlanOptions(backend="native"), planner)
    whole = plan_of(network, PlanOptions(backend="native", rows="whole"))
    assert made.total_bytes <= made.figures["whole_layer_live"] < whole.total_bytes
    assert len(planner.calls) <= 3


def test_memory_is_least_and_speed_is_fastest(chain: Network, points: tuple[Point, ...]) -> None:
    least, quick = planned(chain, goal="memory"), planned(chain, goal="speed")
    usual = planned(chain)
    assert least.planned_bytes <= min(
        usual.planned_bytes, plan_of(chain, PlanOptions(rows="1")).planned_bytes
    )
    assert least.planned_bytes <= points[0].bytes
    assert ms(quick) <= 1.01 * min(ms(usual), ms(plan_of(chain, PlanOptions(rows="whole"))))
    assert len(quick.order) < len(usual.order) < len(least.order)
    assert least.options.goal == "memory" and quick.options.goal == "speed"


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_compiler)])
def test_the_least_time_leaves_kernels_all_the_scratch_that_they_use(backend: str) -> None:
    """With less, a plan would not take the time that it was chosen for."""
    network = csdfgen.load("zoo:alexnet@96x96")
    made = csdfgen.plan(network, goal="speed", backend=backend)
    wanted = phased(network, made.options).declared.sizes()
    given = {buffer.name: sum(buffer.sizes) for buffer in made.buffers if buffer.sizes}
    assert sum(map(sum, wanted.values())) > 0
    assert given == {workspace_name(actor): sizes.sum() for actor, sizes in wanted.items()}


def test_rows_that_are_given_stand(chain: Network) -> None:
    planner = Counting()
    made = choose_plan(chain, PlanOptions(rows="2", goal="memory"), planner)
    assert len(planner.calls) == 1 and str(made.conversion.rows) == "2"


@pytest.mark.parametrize("goal", ["memory", "speed"])
def test_a_goal_computes_the_same(net: Network, goal: str) -> None:
    x = np.random.default_rng(0).random((1, 3, 16, 12), np.float32)
    ours = runtime.run(planned(net, goal=goal), x)
    theirs = runtime.run(planned(net, rows=1), x)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-5, atol=1e-6)


def test_a_plan_with_a_goal_is_written_and_read(chain: Network) -> None:
    made = planned(chain, memory="16KiB", effort="low")
    data = to_json(made)
    assert data["options"]["memory"] == 16 * 1024 and "latency" not in data["options"]
    again = to_plan(from_json(data), chain, NUMPY)
    assert again.options == made.options and again.order == made.order


def test_options_of_old_files_are_the_defaults() -> None:
    old = {"rows": "4", "fuse": "full", "image": "streamed"}
    assert PlanOptions.from_fields(Fields(old, "x")) == PlanOptions(rows="4")
    assert PlanOptions(rows="4").to_json().keys() == {*old, "policy", "frames"}
    new = PlanOptions(
        goal="speed", memory=9, latency=0.5, device="host", effort="3s", recompute=1.5
    )
    assert PlanOptions.from_fields(Fields(new.to_json(), "x")) == new


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("memory", -1, "'memory' is -1"), ("latency", "x", "'latency' is 'x'"), ("recompute", 0, "recompute=0.0"),
     ("goal", "x", "goal='x'"), ("effort", "x", "effort='x'"), ("latency", 1e300, "latency is not a finite number")],
)  # fmt: skip
def test_options_in_files_are_checked(name: str, value: Any, said: str) -> None:
    fields = Fields({"rows": "4", "fuse": "full", "image": "streamed", name: value}, "file")
    assert said in refused(lambda: PlanOptions.from_fields(fields), InputError)


# Budgets ----------------------------------------------------------------------------------------


def test_the_fastest_that_fits(chain: Network, points: tuple[Point, ...]) -> None:
    for point in points[::3]:
        made = planned(chain, memory=point.bytes)
        assert made.planned_bytes <= point.bytes
        assert ms(made) <= 1.02 * 1e3 * point.seconds


@needs_compiler
def test_what_a_memory_leaves_is_scratch() -> None:
    """The same firings, in more workspace, and never in more than was given."""
    network = csdfgen.load("zoo:squeezenet1_1@224x224")
    tight = csdfgen.plan(network, rows="1", backend="native")
    memory = 4 * tight.planned_bytes
    roomy = csdfgen.plan(network, rows="1", backend="native", memory=memory)
    assert tight.planned_bytes < roomy.planned_bytes <= memory
    assert sorted(roomy.order) == sorted(tight.order)
    scratch = [
        sum(sum(one.sizes) for one in made.buffers if one.kind == "workspace")
        for made in (tight, roomy)
    ]
    assert scratch[0] < scratch[1]


@pytest.mark.networks
def test_no_limit_finds_what_dominates_the_front() -> None:
    network = csdfgen.load("zoo:resnet8")
    front = csdfgen.pareto(network, backend="numpy", **TIMED)
    assert len(front) > 3
    ends = front[0], front[-1]
    between = np.geomspace(ends[1].seconds, ends[0].seconds, 5)[1:-1].tolist()
    for limit in (*(point.seconds for point in front), *between):
        made = planned(network, latency=limit, **TIMED)
        bytes_, seconds = made.total_bytes, ms(made) / 1e3
        assert not any(bytes_ < one.bytes and seconds <= one.seconds for one in front), limit
        assert all(bytes_ <= one.bytes for one in front if one.seconds == limit)
    for budget in [point.bytes for point in front]:
        made = planned(network, memory=budget, **TIMED)
        bytes_, seconds = made.total_bytes, ms(made) / 1e3
        assert not any(bytes_ <= one.bytes and seconds < one.seconds for one in front), budget


def test_the_smallest_in_time(chain: Network, points: tuple[Point, ...]) -> None:
    for point in points[::3]:
        made = planned(chain, latency=point.seconds * 1.0001, **TIMED)
        assert ms(made) <= 1e3 * point.seconds * 1.0001
        assert made.planned_bytes <= 1.1 * point.bytes


def test_a_budget_below_what_is_found_is_refused_with_what_fits(chain: Network) -> None:
    said = refused(lambda: choose_plan(chain, PlanOptions(memory=10240), Counting()))
    assert said.startswith("memory of 10,240 bytes is below the least that was found, ")
    (way_out,) = (part.split("'")[1] for part in said.split("; ask for memory=")[1:])
    made = planned(chain, memory=way_out)
    assert made.planned_bytes <= parse_size(way_out)
    assert f"'{holders(planned(chain, goal='memory'))[0][0]}' holds" in said


def test_a_budget_below_the_bound_is_refused_at_once(chain: Network) -> None:
    def planner(prepared: Prepared, phased: Phased) -> Plan:
        made = plan_once(prepared, phased)
        calls.append(phased.options)
        return replace(made, figures={**made.figures, "lower_bound": made.figures["peak_live"]})

    calls: list[PlanOptions] = []
    said = refused(lambda: choose_plan(chain, PlanOptions(memory=1000), planner))
    least = planned(chain, goal="memory", rows="1")
    bound, bytes_beside = least.figures["peak_live"], least.figures.get("outputs", 0)
    assert f"below the bound of {bound + bytes_beside:,} bytes, proved for one row a phase" in said
    assert len(calls) == 1


def test_heights_that_take_exactly_the_memory_fit(chain: Network) -> None:
    takes = planned(chain, rows="1").total_bytes
    assert planned(chain, rows="1", memory=takes).total_bytes == takes
    said = refused(lambda: planned(chain, rows="1", memory=takes - 1))
    assert f"memory of {takes - 1:,} bytes is less than the {takes:,} that rows='1' takes" in said


def test_constants_in_flash_count_in_no_memory(chain: Network) -> None:
    made = planned(chain, rows="1", count="total", device="cortex-m7")
    assert made.total_bytes == planned(chain, rows="1", count="activations").total_bytes
    assert made.total_bytes < planned(chain, rows="1", count="total").total_bytes


def test_outputs_beside_the_arena_count(chain: Network) -> None:
    def planner(prepared: Prepared, phased: Phased) -> Plan:
        made = plan_once(prepared, phased)
        return replace(made, figures={**made.figures, "outputs": 10**9})

    assert "memory of" in refused(lambda: choose_plan(chain, PlanOptions(memory=10**8), planner))


def test_a_latency_that_is_not_reached_is_refused_with_what_is(chain: Network) -> None:
    said = refused(lambda: planned(chain, latency="1us", **TIMED))
    assert said.startswith("latency of 0.001 ms is not reached: the fastest plan is predicted")
    assert f"on {PROFILE.name}" in said and "another device" in said
    way_out = said.split("ask for latency='")[1].split("'")[0]
    assert ms(planned(chain, latency=way_out, **TIMED)) <= 1e3 * parse_time(way_out)


def test_memory_and_latency_together(chain: Network, points: tuple[Point, ...]) -> None:
    small, fast = points[0], points[-1]
    made = planned(chain, memory=fast.bytes, latency=fast.seconds * 1.05, **TIMED)
    assert made.planned_bytes <= fast.bytes and ms(made) <= 1e3 * fast.seconds * 1.05
    said = refused(lambda: planned(chain, memory=small.bytes, latency=fast.seconds, **TIMED))
    assert f"is not reached within {small.bytes:,} bytes" in said


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"latency": "1s"}, InputError, "latency is the time on a device; name it with device"),
        ({"goal": "memory", "memory": 9}, InputError, "leave one of them out"),
        ({"goal": "speed", "latency": 9, **TIMED}, InputError, "leave one of them out"),
        ({"device": "nowhere", "goal": "speed"}, InputError, "nowhere: is not a known device"),
        ({"rows": 4, "memory": 1000}, PlanError, "that rows='4' takes; leave rows out, or ask for memory='"),
        ({"rows": 4, "latency": 1e-6, **TIMED}, PlanError, "leave rows out, or ask for latency='"),
        ({"memory": "5XB"}, InputError, "memory='5XB': 'XB' is no unit that is known"),
        ({"goal": "small"}, InputError, "goal='small': not one of balanced, memory, speed"),
        ({"effort": "much"}, InputError, "effort='much'"),
        ({"recompute": 0.5}, InputError, "recompute=0.5"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_one_line(
    chain: Network, options: dict[str, Any], kind: type[CsdfgenError], said: str
) -> None:
    assert said in refused(lambda: planned(chain, **options), kind)


def test_a_goal_for_no_network_is_refused() -> None:
    with pytest.raises(InputError, match=r"plan takes a network( or a list of them)?, not str"):
        planned("model.onnx", goal="memory")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"plan takes a network( or a list of them)?, not str"):
        planned("model.onnx", requests=4)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="plan_table takes a network, not str"):
        csdfgen.plan_table("model.onnx", requests=[4])  # type: ignore[arg-type]


# The front --------------------------------------------------------------------------------------


def test_no_point_of_the_front_is_dominated(points: tuple[Point, ...]) -> None:
    assert len(points) >= 4
    for a, b in pairwise(points):
        assert a.bytes < b.bytes and a.seconds > b.seconds


def test_every_point_of_the_front_runs(net: Network) -> None:
    x = np.random.default_rng(1).random((1, 3, 16, 12), np.float32)
    wanted = runtime.run(planned(net, rows="whole"), x)
    for point in listed(net):
        check(point.plan)
        assert point.bytes == point.plan.planned_bytes + point.plan.figures.get("outputs", 0)
        found = runtime.run(point.plan, x)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_dominated_plans_are_left_out(points: tuple[Point, ...]) -> None:
    plan = points[0].plan
    slow = Point(plan, 1.0)
    assert pareto_optimal([slow, *points, slow]) == pareto_optimal(points) == points


@pytest.mark.parametrize(
    "options", [PlanOptions(memory=9), PlanOptions(rows="2"), PlanOptions(goal="speed")]
)
def test_a_front_takes_no_heights_and_no_budget(chain: Network, options: PlanOptions) -> None:
    assert "leave" in refused(lambda: find_front(chain, options), InputError)


@needs_compiler
@pytest.mark.parametrize("seed", [12, 36, *range(some(1, 12))])
def test_no_plan_is_beaten_by_plans_of_other_options(seed: int) -> None:
    """Those of the default, of budgets and of the front: by none with fewer bytes and no more time, or in less time and no
    more bytes. The default takes no more memory than whole layers.
    """
    assert not list(beaten(plans(csdfgen.load(network(seed)))))


# Searching --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop_at", [2, 3])
def test_the_best_so_far(chain: Network, stop_at: int, caplog: pytest.LogCaptureFixture) -> None:
    made = choose_plan(chain, PlanOptions(goal="memory"), Counting(stop_at))
    check(made)
    assert made.interrupted and "so far" in made.notes[-1]
    assert "interrupted: the best " in caplog.text


def test_an_interrupt_ends_a_request(chain: Network, caplog: pytest.LogCaptureFixture) -> None:
    """Its plan of one image is no plan of the request."""
    alone = choose_plan(chain, PlanOptions(goal="memory", backend="numpy"), Counting(stop_at=2))
    assert alone.interrupted and len(caplog.messages) == 1
    several = repeat_request(chain, 2)
    asked = PlanOptions(memory=36 * 1024, backend="numpy", frames=2, batching="joint")
    with pytest.raises(KeyboardInterrupt):
        choose_plan(several, asked, Counting(stop_at=2))
    assert len(caplog.messages) == 1


def test_interrupted_before_any_plan_there_is_none(chain: Network) -> None:
    with pytest.raises(KeyboardInterrupt):
        choose_plan(chain, PlanOptions(goal="memory"), Counting(1))


def test_interrupted_before_a_plan_fits_there_is_none(chain: Network) -> None:
    """What is not finished has not failed: the refusal would be a guess."""
    with pytest.raises(KeyboardInterrupt):
        choose_plan(chain, PlanOptions(memory=11000), Counting(2))


def test_a_planner_that_was_interrupted_ends_the_search(chain: Network) -> None:
    def planner(prepared: Prepared, phased: Phased) -> Plan:
        calls.append(phased.options)
        return replace(plan_once(prepared, phased), interrupted=True)

    calls: list[PlanOptions] = []
    made = choose_plan(chain, PlanOptions(goal="memory"), planner)
    assert made.interrupted and len(calls) == 1


def test_an_interrupted_order_is_told(chain: Network, caplog: pytest.LogCaptureFixture) -> None:
    def planner(prepared: Prepared, phased: Phased) -> Plan:
        return replace(plan_once(prepared, phased), interrupted=True)

    assert choose_plan(chain, PlanOptions(), planner).notes == (caplog.messages[-1],)
    assert caplog.messages[-1].startswith("interrupted: the best order so far")


def test_an_interrupted_front_has_the_plans_so_far(chain: Network) -> None:
    found = find_front(chain, PlanOptions(), Counting(4))
    assert 1 <= len(found) <= 3


def test_effort_bounds_the_number_of_plans(chain: Network) -> None:
    low, normal = Counting(), Counting()
    find_front(chain, PlanOptions(effort="low"), low)
    find_front(chain, PlanOptions(effort="normal"), normal)
    least, few = 3, 2  # of the goal of least memory, and of the default
    assert len(low.calls) <= least + few + 2 * 8
    assert len(low.calls) < len(normal.calls) <= 3 * 12 + few


def test_seconds_end_a_search(chain: Network) -> None:
    planner = Counting()
    made = choose_plan(chain, PlanOptions(goal="memory", effort="1us"), planner)
    assert len(planner.calls) == 1 and made.options.effort == "1e-06s"


def test_what_is_taken_is_searched_for_with_the_whole_effort(chain: Network) -> None:
    """Where the planner knows a bound and is above it, it has more to find at the heights taken."""

    def planner(prepared: Prepared, phased: Phased) -> Plan:
        efforts.append(phased.terms.effort)
        made = plan_once(prepared, phased)
        return replace(made, figures={**made.figures, "lower_bound": 1})

    efforts: list[str | float] = []
    made = choose_plan(chain, PlanOptions(goal="speed", effort="normal"), planner)
    assert set(efforts[:-1]) == {"low"} and efforts[-1] == "normal" == made.options.effort


def test_progress_is_told(chain: Network) -> None:
    told: list[tuple[Any, ...]] = []
    planned(chain, goal="speed", progress=lambda *what: told.append(what))
    assert told and all(what[0] == "planning" and what[2] == 8 for what in told)


# Facts ------------------------------------------------------------------------------------------


def test_facts_of_a_plan(chain: Network) -> None:
    made = planned(chain, rows=2)
    facts = schedule_facts(made, PROFILE)
    assert facts["arena"] == facts["planned_bytes"] == made.planned_bytes
    assert facts["predicted_ms"] == pytest.approx(ms(made))
    bound = made.figures.get("lower_bound")
    assert facts["lower_bound"] == bound and (facts["optimal"] is None) == (bound is None)
    assert facts["outputs"] == made.figures.get("outputs")
    assert set(facts["rows"]) == {layer.name for layer in made.network.layers}
    assert max(facts["rows"].values()) >= 2


def test_holders_are_what_is_alive_at_the_peak(chain: Network) -> None:
    made = planned(chain, rows=1)
    found = dict(holders(made))
    scratch = sum(size for name, size in found.items() if name.startswith("workspace of "))
    live = made.live
    at = int(live.argmax())
    assert scratch == made.workspace(*made.order[at])[1]
    assert sum(found.values()) == live[at]


def test_what_is_given_up_for_speed_is_said(chain: Network) -> None:
    said = describe_tradeoff(planned(chain), PROFILE)
    assert (
        "bytes of rows less would be live" in said
        and "goal 'memory' searches for such plans" in said
    )
    assert describe_tradeoff(planned(chain, rows=1), PROFILE) == ""
    assert describe_tradeoff(planned(chain, goal="memory"), PROFILE) == ""


# Once a plan ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [{}, {"goal": "memory"}, {"memory": "64KiB"}, {"rows": 2}, {"requests": 3}, {"fast": 8192, "slow": 1 << 20}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_compiler)])
def test_layers_are_joined_and_share_memory_once_a_plan(
    chain: Network, monkeypatch: pytest.MonkeyPatch, backend: str, asked: dict[str, Any]
) -> None:
    """Whatever heights are tried: they are cut from one prepared network."""
    calls: list[str] = []
    homes = {"prepare": choice, "fuse": preparation, "share": preparation}
    for name, home in homes.items():
        original = getattr(home, name)

        def counted(*what: Any, name: str = name, original: Any = original, **more: Any) -> Any:
            calls.append(name)
            return original(*what, **more)

        monkeypatch.setattr(home, name, counted)
    csdfgen.plan(chain, backend=backend, **asked)
    assert sorted(calls) == ["fuse", "prepare", "share"]
