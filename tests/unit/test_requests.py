"""Requests of several images: which layers work on how many of them at once, in one memory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.backends.registry import choose_backend, load_backend
from csdfgen.devices.model import estimate
from csdfgen.errors import InputError, PlanError, ScheduleError
from csdfgen.goals.batching.branches import split_branches
from csdfgen.goals.batching.cuts import Ranks
from csdfgen.goals.batching.search import ALIKE, Request, passages
from csdfgen.goals.batching.stages import Call, order_request
from csdfgen.goals.choice import load_profile
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.ops.base import LEAST
from csdfgen.phases.graphs import build_graph
from csdfgen.phases.heights import parse_batches
from csdfgen.planning.placement import workspace_name
from csdfgen.planning.plan import Plan, Point
from csdfgen.planning.plan_table import PlanTable, read_table, write_table
from csdfgen.planning.workspaces import Declarations
from schedules.static import static_schedule
from tests.builder import Graph
from tests.native_steps import compiler_missing
from tests.planning import phased, predicted

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

WAYS = ("fbs", "greedy", "vbs-paper", "vbs", "joint")
IMAGES = 4


@pytest.fixture(scope="module")
def network() -> Network:
    """Convolutions, and a classifier that reads far more weights than values."""
    g = Graph()
    x = g.input("x", (1, 3, 24, 24))
    for outs in (16, 24, 24):
        x = g.node("Relu", g.conv(x, outs, 3, pads=[1] * 4))
    x = g.node("Flatten", g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    for rows, columns in ((24 * 144, 512), (512, 10)):
        weights = g.rng.standard_normal((rows, columns)).astype(np.float32) / rows
        x = g.node("Gemm", x, g.constant(weights))
    return csdfgen.load(g.model(x))


@pytest.fixture(scope="module")
def branches() -> Network:
    """Fire modules: Concat, which the main path goes through."""
    return csdfgen.load("zoo:squeezenet1_1@48x48")


def pictures(network: Network, images: int) -> np.ndarray:
    shape = (images, *network.inputs[0].shape[1:])
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def one_by_one(network: Network, x: np.ndarray) -> Mapping[str, np.ndarray]:
    program = runtime.compile(csdfgen.plan(network, backend="numpy"))
    each = [program(image[None]) for image in x]
    return {name: np.concatenate([one[name] for one in each]) for name in each[0]}


def seconds(plan: Plan) -> float:
    """Predicted, of all images of a batch."""
    runs = plan.network.batch // plan.conversion.frames
    return runs * estimate(plan, load_profile(plan.options)).seconds


# Plans ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", ["network", "branches"])
def test_every_image_is_what_it_is_alone(
    way: str, which: str, request: pytest.FixtureRequest
) -> None:
    network: Network = request.getfixturevalue(which)
    plan = csdfgen.plan(network, requests=IMAGES, memory="2MiB", batching=way, backend="numpy")
    assert plan.network.batch == IMAGES
    assert plan.conversion.frames == IMAGES or way == "joint"
    assert plan.total_bytes <= 2 * 2**20
    x = pictures(network, IMAGES)
    got, measured = runtime.compile(plan).measure({network.inputs[0].name: x})
    assert measured.touched_bytes == plan.planned_bytes
    for name, want in one_by_one(network, x).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("join", ["Concat", "Add", "residual"])
def test_branches_have_batches_of_their_own_as_printed(join: str) -> None:
    """A branch that is wide inside computes fewer images at once than the layers around it."""
    g = Graph()
    x = g.conv(g.input("x", (1, 3, 16, 16)), 8, 3, pads=[1] * 4)
    wide = g.conv(g.conv(x, 64, 1), 8, 3, pads=[1] * 4)
    if join == "residual":
        wide, y = g.node("Relu", wide), x
    else:
        y = g.conv(x, 8, 1)
    more = {"axis": 1} if join == "Concat" else {}
    channels = 16 if join == "Concat" else 8
    x = g.node("Concat" if more else "Add", y, wide, channels=channels, **more)
    x = g.node("Relu", g.conv(x, 4, 1))
    weights = g.rng.standard_normal((1024, 64)).astype(np.float32) / 99
    network = csdfgen.load(g.model(g.node("Gemm", g.node("Flatten", x), g.constant(weights))))
    asked = {"requests": 8, "memory": "500KiB", "backend": "numpy"}
    plan = csdfgen.plan(network, batching="vbs-paper", **asked)  # type: ignore[arg-type]
    batches = {
        work.name: max(phase.images for phase in work.phases)
        for work in plan.conversion.actors
        if work.kind == "layer"
    }
    inside = [name for name in batches if name in ("Conv_1", "Conv_2")]
    assert inside and min(batches[name] for name in inside) < batches["Conv_0"] == 8
    others = csdfgen.plan(network, batching="vbs", **asked)  # type: ignore[arg-type]
    module = [work for work in others.conversion.actors if work.name in inside]
    assert len({max(phase.images for phase in work.phases) for work in module}) == 1
    x = pictures(network, 8)
    got, measured = runtime.compile(plan).measure({network.inputs[0].name: x})
    assert measured.touched_bytes == plan.planned_bytes <= 500 * 2**10
    for name, want in one_by_one(network, x).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5)


def test_branches_are_chains_between_two_layers(branches: Network) -> None:
    ranks = Ranks(phased(branches, PlanOptions(rows="whole", backend="numpy")))
    fused = ranks.phased.conversion.network
    ends = [0, *(cut.at for cut in ranks.single()), ranks.count]
    found = [
        [[fused.layers[at].name for at in branch] for branch in split_branches(fused, start, stop)]
        for start, stop in pairwise(ends)
    ]
    modules = [one for one in found if one]
    assert len(modules) == 8 and all(len(one) == 2 for one in modules)
    assert all(len(branch) == 1 for one in modules for branch in one)
    # two layers in front of a join that read each other's results are none
    g = Graph()
    a = g.conv(g.input("x", (1, 4, 8, 8)), 4, 1)
    b = g.conv(a, 4, 1)
    c = g.node("Mul", b, g.node("Sigmoid", g.conv(b, 4, 1)))
    d = g.node("Concat", g.node("Mul", a, c), b, axis=1, channels=8)
    crossed = csdfgen.load(g.model(g.conv(d, 4, 1)))
    assert split_branches(crossed, 1, len(crossed.layers) - 1) == ()


def test_joint_is_the_fastest_of_all_ways(network: Network) -> None:
    """By what is predicted; beside the plan of one image in the same memory, too."""
    for memory in (100_000, 300_000):
        joint = csdfgen.plan(network, requests=IMAGES, memory=memory, backend="numpy")
        assert joint.total_bytes <= memory
        alone = csdfgen.plan(network, memory=memory, backend="numpy")
        assert seconds(joint) <= 1.001 * ALIKE * IMAGES * seconds(alone)
        for way in WAYS[:-1]:
            try:
                other = csdfgen.plan(
                    network, requests=IMAGES, memory=memory, batching=way, backend="numpy"
                )
            except PlanError:
                continue
            assert other.total_bytes <= memory
            assert seconds(joint) <= 1.001 * ALIKE * seconds(other), way


def test_images_wait_for_the_classifier(network: Network) -> None:
    """Where memory is short, convolutions take one image at a time and the products of weights all."""
    plan = csdfgen.plan(network, requests=IMAGES, memory=125_000, backend="numpy")
    images = {
        work.layer.op_type: {phase.images for phase in work.phases}
        for work in plan.conversion.actors
        if work.layer is not None
    }
    assert images["Conv"] == {1} and max(images["Gemm"]) > 1
    assert "stages: 4x1 images from 'Conv_" in " ".join(plan.notes)


@pytest.mark.parametrize("way", ["fbs", "vbs", "joint"])
def test_the_smallest_plan_within_a_time(network: Network, way: str) -> None:
    def within(latency: float | str) -> Plan:
        return csdfgen.plan(
            network,
            requests=IMAGES,
            latency=latency,
            batching=way,
            device="numpy-core",
            backend="numpy",
        )

    fast = csdfgen.plan(network, requests=IMAGES, backend="numpy", batching=way)
    small, least = within(1.3 * seconds(fast)), within("10s")
    assert seconds(small) <= 1.3 * seconds(fast)
    assert small.total_bytes < fast.total_bytes or way == "fbs"  # two images at a time take longer
    assert least.total_bytes < fast.total_bytes
    # with time enough, neither several images at once nor scratch for speed
    assert {phase.images for work in least.conversion.actors for phase in work.phases} == {1}
    alone = csdfgen.plan(network, rows="whole", backend="numpy")
    outputs = (IMAGES - 1) * network.output_bytes
    assert least.total_bytes <= alone.total_bytes + outputs
    x = pictures(network, IMAGES)
    for plan in (small, least):
        assert plan.network.batch == IMAGES
        for name, want in one_by_one(network, x).items():
            np.testing.assert_allclose(runtime.compile(plan)(x)[name], want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_compiler)])
def test_the_smallest_plan_within_a_time_has_the_scratch_of_profiles(backend: str) -> None:
    """Also where the fastest plan of one image serves, one image after the other: with less, kernels take longer
    than was predicted.
    """
    network = csdfgen.load("zoo:resnet8")
    fast = csdfgen.plan(network, requests=IMAGES, backend=backend)
    device, latency = load_backend(backend).profile, 1.4 * seconds(fast)
    plan = csdfgen.plan(network, requests=IMAGES, backend=backend, device=device, latency=latency)
    assert plan.total_bytes < fast.total_bytes and seconds(plan) <= latency
    rows = [one for one in plan.buffers if one.kind != "workspace"]
    declared = Declarations(plan.conversion, plan.sharing, rows, choose_backend(plan.options))
    given = {one.name: one.sizes for one in plan.buffers if one.kind == "workspace"}
    wanted = {workspace_name(actor): (*sizes,) for actor, sizes in declared.sizes().items()}
    assert given == wanted and max(map(max, wanted.values())) > LEAST


def test_a_request_survives_its_file(network: Network, tmp_path: Path) -> None:
    plan = csdfgen.plan(network, requests=4, memory="200KiB", backend="numpy")
    csdfgen.save_plan(plan, tmp_path / "plan.json")
    again = csdfgen.read_plan(tmp_path / "plan.json", plan.network)
    assert again.order == plan.order and again.regions == plan.regions
    assert again.options == plan.options and again.options.batching == "joint"


def test_a_request_is_a_graph_of_all_its_images(network: Network) -> None:
    """The order of a plan is one of the graph's, in its capacities; its phases are those of all images."""
    plan = csdfgen.plan(network, requests=4, memory="200KiB", backend="numpy")
    graph = build_graph(plan.conversion, plan.options, overlap=False)
    assert {actor.name: actor.phases for actor in graph.actors} == {
        work.name: len(work.phases) for work in plan.conversion.actors
    }
    assert len(static_schedule(graph).firings) == len(plan.order)


# What is not possible ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"requests": 0}, "requests=0: a number of images above 0"),
        ({"requests": 2, "frames": 2}, "leave one of them out"),
        (
            {"requests": 2, "rows": 4},
            "chooses batches, heights and the order itself; leave rows out",
        ),
        ({"requests": 2, "goal": "speed"}, "leave goal out"),
        ({"requests": 2, "result": "arena"}, "outputs of a request are handed on"),
        ({"requests": 2, "batching": "best"}, "batching='best': not one of fbs, greedy"),
        ({"requests": 2, "latency": "5ms"}, "name it with device"),
    ],
)
def test_contradictions(network: Network, wish: Mapping[str, object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        csdfgen.plan(network, backend="numpy", **wish)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
def test_too_little_memory_says_the_least_that_does(network: Network, way: str) -> None:
    with pytest.raises(PlanError, match="the least that was found is") as caught:
        csdfgen.plan(network, requests=4, memory=10_000, batching=way, backend="numpy")
    least = int(re.search(r"found is ([\d,]+) bytes", caught.value.message)[1].replace(",", ""))  # type: ignore[index]
    plan = csdfgen.plan(network, requests=4, memory=least, batching=way, backend="numpy")
    assert plan.total_bytes <= least


@pytest.mark.networks
def test_a_request_takes_no_more_than_its_images_one_by_one(branches: Network) -> None:
    with pytest.raises(PlanError, match="below the") as one:
        csdfgen.plan(branches, memory=4, backend="numpy")
    with pytest.raises(PlanError, match="the least that was found is") as several:
        csdfgen.plan(branches, requests=IMAGES, memory=4, backend="numpy")
    least = several.value.least
    assert 4 < least <= one.value.least + (IMAGES - 1) * branches.output_bytes
    assert several.value.at("net.onnx").least == least  # type: ignore[attr-defined]
    plan = csdfgen.plan(branches, requests=IMAGES, memory=least, backend="numpy")
    assert plan.total_bytes <= least


def test_a_time_that_nobody_keeps_says_the_least(network: Network) -> None:
    wish = {"requests": 4, "device": "numpy-core", "backend": "numpy"}
    with pytest.raises(PlanError, match=r"the prediction for .* images is") as caught:
        csdfgen.plan(network, latency="10us", **wish)  # type: ignore[arg-type]
    least = re.search(r"ask for latency='([\d.]+ms)' or more", caught.value.message)
    assert least is not None
    csdfgen.plan(network, latency=least[1], **wish)  # type: ignore[arg-type]


def test_one_image_is_said_to_be_one(network: Network) -> None:
    with pytest.raises(PlanError, match=r" on 1 image: the least that was found is ") as caught:
        csdfgen.plan(network, requests=1, memory=4, backend="numpy")
    assert "1 images" not in caught.value.message


def test_networks_of_several_images_take_no_requests() -> None:
    several = csdfgen.load("zoo:lenet5", batch=3)
    with pytest.raises(
        InputError,
        match="requests=2 are images of a network that takes one; this one has a batch of 3",
    ):
        csdfgen.plan(several, requests=2)


def test_calls_that_do_not_follow_from_each_other(network: Network) -> None:
    options = PlanOptions(backend="numpy")
    times = predicted(network, options, load_profile(options))
    asked = Request(times, 4, lambda images: None)
    staged = passages(asked, 10**7, "fbs")[0].staged
    for calls in ((Call(0, 1, 3),), (Call(0, 0, 2),), (Call(0, 0, 4), Call(0, 0, 4))):
        with pytest.raises(ScheduleError):
            order_request(times.prepared, replace(staged, calls=calls))


def test_images_of_which_no_variant_is_made_cost_what_parts_of_them_do(network: Network) -> None:
    """Five images are four and one."""
    options = PlanOptions(backend="numpy")
    request = Request(predicted(network, options, load_profile(options)), 7, lambda images: None)
    (layer,) = request.chain((), (request.whole,)).layers
    assert len(layer.costs) == 7 and 5 not in request.several
    assert layer.costs[4] == layer.costs[3] + layer.costs[0]
    assert layer.workspace[4] == layer.workspace[3]


@pytest.mark.parametrize("way", ["vbs", "joint"])
def test_of_ways_that_cost_alike_the_smallest(network: Network, way: str) -> None:
    """Not the first in memory that is far more than enough; what costs less than alike comes behind."""
    options = PlanOptions(backend="numpy")
    times = predicted(network, options, load_profile(options))
    asked = Request(times, IMAGES, lambda images: None)
    plenty = 10**8
    first, *others = passages(asked, plenty, way)
    least = min(one.cost for one in (first, *others))
    assert first.cost <= ALIKE * least
    assert first.bytes < plenty / 10
    less = [one for one in passages(asked, int(0.9 * first.bytes), way) if one.cost <= least]
    assert not less


# Parts ------------------------------------------------------------------------------------------


def test_cuts_are_where_few_bytes_cross(network: Network, branches: Network) -> None:
    ranks = Ranks(phased(network, PlanOptions(backend="numpy")))
    layers = ranks.phased.conversion.network.layers
    assert len(ranks.cuts) == len(layers) - 1 == len(ranks.single())
    for cut in ranks.cuts:
        assert cut.bytes == layers[cut.at - 1].output.nbytes
    assert {layers[cut.at].op_type for cut in ranks.worth(2)} == {"Gemm"}
    ranks = Ranks(phased(branches, PlanOptions(backend="numpy")))
    for cut in ranks.cuts:
        if len(cut.tensors) > 1:
            assert cut not in ranks.single()


def test_batches_as_text() -> None:
    assert str(parse_batches("fc=all,2,conv=6+2")) == "2,conv=6+2,fc=all"
    assert parse_batches(3).groups("any", 7) == (3, 3, 1)
    for text, said in (
        ("1,x=2+all", "adds up what is not a number of images"),
        ("1,2", "both for all layers"),
    ):
        with pytest.raises(InputError, match=said):
            parse_batches(text)


# Tables of plans --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(network: Network) -> PlanTable:
    return csdfgen.plan_table(
        network, requests=(4, 2), memory=("60KiB", "300KiB"), backend="numpy", device="numpy-core"
    )


def test_a_program_follows_the_memory_that_is_free(network: Network, table: PlanTable) -> None:
    small, large = (min, max)[0](e.bytes for e in table.entries), table.most_bytes
    assert small < large and {entry.images for entry in table.entries} == {1, 2, 4}
    serve = runtime.compile_table(table)
    x = pictures(network, 7)
    want = one_by_one(network, x)
    for memory in (None, small, 300 * 2**10):
        got = serve(x, memory)
        rounds = table.rounds(7, memory)
        assert sum(table.entries[at].images for at in rounds) == 7
        assert memory is None or all(table.entries[at].bytes <= memory for at in rounds)
        assert serve.held_bytes == max(table.entries[at].plan.planned_bytes for at in rounds)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-6)
    with pytest.raises(PlanError, match="is less than the"):
        serve(x, 1000)
    with pytest.raises(InputError, match="one number of images is needed"):
        serve(np.float32(1))


def test_memory_may_be_a_text(network: Network, table: PlanTable) -> None:
    serve = runtime.compile_table(table)
    x = pictures(network, 2)
    for memory in ("300KiB", 300 * 2**10, "0.3 MB"):
        serve(x, memory=memory)
    least = min(entry.bytes for entry in table.entries)
    for memory, said in (("lots", "not understood"), (0, "above 0"), (1.5, "bytes")):
        with pytest.raises((InputError, PlanError), match=said):
            serve(x, memory=memory)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=f"of 1 bytes is less than the {least:,} that"):
        serve(x, memory=1)
    with pytest.raises(InputError, match="a request of 0 images; at least 1 is needed"):
        serve(x[:0])
    without = replace(table, entries=tuple(e for e in table.entries if e.images != 1))
    with pytest.raises(InputError, match=r"3 images cannot be made up .*; add a plan for 1 image"):
        without.rounds(3)


def test_tables_and_their_programs_show_themselves_in_a_line(table: PlanTable) -> None:
    for shown in (repr(table), repr(runtime.compile_table(table))):
        assert f"plans {len(table.entries)}" in shown and "images 1, 2, 4" in shown
        assert "MiB" in shown and len(shown) < 240


def test_outputs_of_a_table_are_nobody_elses() -> None:
    """Plans that store outputs in the arena share it here, and the next request writes over it."""
    graph = Graph()
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 3, 16, 16)), 4))
    one = csdfgen.plan(csdfgen.load(graph.model(graph.conv(x, 4, 1))), result="arena")
    table = PlanTable((Point(one, 1e-3),), "host")
    serve = runtime.compile_table(table)
    images = pictures(one.network, 3)
    first = serve(images[:1])
    kept = {name: value.copy() for name, value in first.items()}
    serve(images)
    for name, value in kept.items():
        assert np.array_equal(first[name], value)


def test_less_memory_is_never_faster(table: PlanTable) -> None:
    budgets = sorted({entry.bytes for entry in table.entries})
    times = [sum(table.entries[at].seconds for at in table.rounds(8, one)) for one in budgets]
    assert times == sorted(times, reverse=True)


def test_a_table_survives_its_file(network: Network, table: PlanTable, tmp_path: Path) -> None:
    path = tmp_path / "plans.json"
    write_table(path, table)
    again = read_table(path).table(network, NUMPY)
    assert [entry.plan.order for entry in again.entries] == [e.plan.order for e in table.entries]
    write_table(tmp_path / "twice.json", again)
    assert path.read_bytes() == (tmp_path / "twice.json").read_bytes()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("seconds", -1, "'seconds' is -1; a number from 0 on"),
        ("seconds", "soon", "a number from 0 on"),
        ("plan", 3, "plan"),
    ],
)
def test_damaged_tables_are_refused(
    table: PlanTable, tmp_path: Path, key: str, value: object, said: str
) -> None:
    path = tmp_path / "plans.json"
    write_table(path, table)
    data = json.loads(path.read_text())
    data["plans"][0][key] = value
    path.write_text(json.dumps(data))
    with pytest.raises(PlanError, match=said):
        read_table(path)
    data["plans"] = []
    path.write_text(json.dumps(data))
    with pytest.raises(PlanError, match="has 0 plans"):
        read_table(path)
