"""Networks on several processors: whatever turns overlap, outputs are those of one, each memory is as planned, and plans that
would read other rows are refused.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, product
from math import inf
from pathlib import Path
from random import Random
from threading import main_thread

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lxml import etree

import csdfgen
import runtime
from csdfgen.backends import registry
from csdfgen.backends.cuda import devices
from csdfgen.backends.cuda.driver import Cuda
from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.registry import choose_backend
from csdfgen.cli.mapped import _options
from csdfgen.cli.options import Asked
from csdfgen.dataflow.graph import add_serial_loops, repetition_vector
from csdfgen.errors import InputError, PlanError, ScheduleError
from csdfgen.goals.choice import choose_plan, run_options
from csdfgen.goals.mapping import parse_mapping, planning_options, predict
from csdfgen.goals.mapping_search import Search
from csdfgen.model.network import Layer, Network
from csdfgen.planning.mapped import MappedPlan, check_mapped, find_branches, plan_mapped
from csdfgen.planning.mapped_graph import build_mapped_graph
from csdfgen.tuning.file import Tuning, describe_machine, write_tuning
from csdfgen.tuning.processors import Times, measure_processors
from runtime.mapped import MappedProgram, join_images, split_images
from schedules.throughput import throughput
from sdf3_bridge import encode_name, sdf3xml
from tests.builder import Graph
from tests.command import Call, refused
from tests.emulated_cuda import COMPILER, Emulated
from tests.native_steps import compiler_missing
from tests.opencl_device import device_missing
from tests.random_networks import branched_networks, models
from tests.small_models import residual_classifier

GOALS = pytest.mark.parametrize("pipelined", [False, True], ids=["latency", "throughput"])

NUMPY = "numpy", "numpy:"
"""Two processors that every machine has."""


def made(
    network: Network,
    mapping: dict[str, int],
    processors: tuple[str, ...] = NUMPY,
    pipelined: bool = False,
    rows: str = "1",
) -> MappedPlan:
    options = [
        run_options({"result": "stored", "rows": rows, **planning_options(one)})
        for one in processors
    ]
    return plan_mapped(
        network,
        processors,
        mapping,
        lambda part, number: choose_plan(part, options[number]),
        pipelined=pipelined,
        streamed=[choose_backend(one).shares_memory for one in options],
    )


def alternating(network: Network, run: int) -> dict[str, int]:
    return {layer.name: at // run % 2 for at, layer in enumerate(network.layers)}


def images(network: Network, count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    return [
        {t.name: rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in network.inputs}
        for _ in range(count)
    ]


def branching() -> Network:
    """Two branches behind a convolution, one of which is also an output, and a skip over three layers."""
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 4, 12, 8)), 8)
    left, right = graph.conv(x, 8), graph.conv(graph.conv(x, 8), 8)
    both = graph.node("Concat", left, right, axis=1, channels=16)
    y = graph.node("Add", graph.conv(both, 8), x)
    return csdfgen.load(graph.model(y, right))


def in_any_order(
    program: MappedProgram, feeds: list[dict[str, np.ndarray]], choose: Callable[..., int]
) -> list[dict[str, np.ndarray]]:
    """Frames whose turns are executed in any order that waits allow."""
    plan, found = program.plan, program._begin(len(feeds))
    turns = plan.turns(len(feeds) + plan.lag)
    lists: list[list[int]] = [[] for _ in plan.processors]
    for at, processor in enumerate(plan.processors_of(turns)):
        lists[processor].append(at)
    waits, done = plan.spread_waits(turns), [0] * len(lists)
    while left := [k for k, one in enumerate(lists) if done[k] < len(one)]:
        ready = [
            k
            for k in left
            if all(done[other] >= count for other, count in waits[lists[k][done[k]]])
        ]
        assert ready, "nobody can go on"
        chosen = choose(ready)
        number, turn, frame = turns[lists[chosen][done[chosen]]]
        if 0 <= frame < len(feeds):
            program._execute(number, turn, frame, feeds[frame], found)
        done[chosen] += 1
    return found.outputs


def check_outputs(
    network: Network, feeds: list[dict[str, np.ndarray]], found: list[dict[str, np.ndarray]]
) -> None:
    whole = runtime.compile(csdfgen.plan(network, backend="numpy"))
    for one, outputs in zip(feeds, found, strict=True):
        for name, want in whole(one).items():
            np.testing.assert_allclose(outputs[name], want, atol=1e-4, rtol=1e-4)


# Execution ---------------------------------------------------------------------------------------


@GOALS
@pytest.mark.parametrize("run", [1, 2, 4])
def test_every_order_that_waits_allow_gives_the_same_outputs(run: int, pipelined: bool) -> None:
    network = branching()
    plan = made(network, alternating(network, run), pipelined=pipelined)
    feeds, program = images(network, 5), MappedProgram(plan)
    check_outputs(network, feeds, program.run(feeds).outputs)
    for choose in (min, max, *[Random(seed).choice for seed in range(3)]):
        check_outputs(network, feeds, in_any_order(program, feeds, choose))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_mapping_of_any_network(data: st.DataObject) -> None:
    model: onnx.ModelProto = data.draw(models())
    network = csdfgen.load(model)
    if not network.layers or any(
        o.tensor and o.tensor.name not in network.producer for o in network.outputs
    ):
        return
    mapping = {layer.name: data.draw(st.integers(0, 1)) for layer in network.layers}
    plan = made(network, mapping, pipelined=data.draw(st.booleans()))
    feeds = images(network, 3)
    program = MappedProgram(plan)
    check_outputs(network, feeds, program.run(feeds).outputs)
    for name, touched in program.touched_bytes(feeds[0]).items():
        assert touched <= plan.arenas()[plan.processors.index(name)]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_an_if_is_computed_by_one_processor(data: st.DataObject) -> None:
    """Whatever it reads of others, and which of its branches is taken; a mapping that divides one is refused."""
    network = csdfgen.load(data.draw(branched_networks()))
    assume(
        network.layers
        and all(o.tensor is None or o.tensor.name in network.producer for o in network.outputs)
    )
    branches = find_branches(network)
    of_branch = {one: data.draw(st.integers(0, 1)) for one in dict.fromkeys(branches.values())}
    mapping = {
        one.name: of_branch[branches[one.name]]
        if one.name in branches
        else data.draw(st.integers(0, 1))
        for one in network.layers
    }
    plan = made(network, mapping, pipelined=data.draw(st.booleans()))
    feeds, program = images(network, 3), MappedProgram(plan)
    check_outputs(network, feeds, program.run(feeds).outputs)
    for branch in of_branch:
        inside = [name for name, one in branches.items() if one == branch]
        if len(inside) > 1:
            wrong = {**mapping, inside[-1]: 1 - mapping[inside[0]]}
            with pytest.raises(InputError, match=f"computes all of If '{branch}'"):
                made(network, wrong)


@GOALS
def test_images_of_a_batch_are_frames(pipelined: bool) -> None:
    single = csdfgen.load(residual_classifier())
    network = replace(single, batch=3)
    plan = made(network, alternating(network, 3), pipelined=pipelined)
    one_by_one = images(single, 3)
    whole = {name: np.concatenate([one[name] for one in one_by_one]) for name in one_by_one[0]}
    frames = split_images(network, whole)
    found = join_images(network, MappedProgram(plan).run(frames).outputs)
    frame = runtime.compile(csdfgen.plan(single, backend="numpy"))
    for name, want in frame(one_by_one[2]).items():
        assert found[name].shape == (3, *want.shape[1:])
        np.testing.assert_allclose(found[name][2:], want, atol=1e-4, rtol=1e-4)


@GOALS
def test_native_code_and_a_device(pipelined: bool) -> None:
    if why := device_missing():
        pytest.skip(why)
    network = branching()
    plan = made(network, alternating(network, 2), ("native", "opencl"), pipelined, rows="auto")
    feeds, program = images(network, 4), MappedProgram(plan)
    check_outputs(network, feeds, program.run(feeds).outputs)
    assert [*program.touched_bytes(feeds[0]).values()] == plan.arenas()


@pytest.fixture
def emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """A device with a memory of its own."""
    if COMPILER is None:
        pytest.skip("the emulated device needs g++")
    found = Emulated(tmp_path)
    found.installed(monkeypatch)
    devices.find_device.cache_clear()
    kernels, others = DeviceKernels(Cuda(), "CUDA"), registry._made
    monkeypatch.setattr(
        registry,
        "_made",
        lambda name, *options: kernels if name == "cuda" else others(name, *options),
    )
    yield found
    devices.find_device.cache_clear()


@GOALS
def test_what_a_device_copies_is_what_crosses(emulated: Emulated, pipelined: bool) -> None:
    network = csdfgen.load(residual_classifier())
    plan = made(network, alternating(network, 3), ("numpy", "cuda"), pipelined, rows="auto")
    feeds, program = images(network, 3), MappedProgram(plan)
    check_outputs(network, feeds, program.run(feeds).outputs)
    before, driven = emulated.copied, program.driven
    program.run(feeds)
    on_device = [
        k for k, part in enumerate(plan.parts) if plan.processors[part.processor] == "cuda"
    ]
    crossing = sum(
        one.tensor.nbytes * ((one.source in on_device) + len({*one.targets} & {*on_device}))
        for one in plan.crossings
    )
    assert 0 < crossing == (emulated.copied - before) // len(feeds)
    assert driven is not None and program.driven is not None
    assert program.driven.since(driven).copied == emulated.copied - before


def test_an_error_in_a_turn_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    network = branching()
    program = MappedProgram(made(network, alternating(network, 2)))
    turn, count = program._parts[1].run, cycle(range(3))

    def broken(number: int) -> None:
        if next(count) == 2:
            raise PlanError("broken")
        turn(number)

    monkeypatch.setattr(program._parts[1], "run", broken)
    with pytest.raises(PlanError, match="broken"):
        program.run(images(network, 8))


@GOALS
def test_a_tensor_that_a_part_only_hands_on_crosses_under_its_name(pipelined: bool) -> None:
    """Fusion removes the last layer of a part, whose output keeps its name."""
    graph = Graph()
    x = graph.node("Identity", graph.conv(graph.input("x", (1, 4, 8, 8)), 8), channels=8)
    network = csdfgen.load(graph.model(graph.conv(x, 4)))
    plan = made(
        network,
        {one.name: int(at > 1) for at, one in enumerate(network.layers)},
        pipelined=pipelined,
    )
    (one,) = plan.crossings
    assert one.name != one.tensor.name
    feeds, program = images(network, 3), MappedProgram(plan)
    check_outputs(network, feeds, program.run(feeds).outputs)
    graph_of_all, _ = build_mapped_graph(plan, program.time_actors(feeds[0]))
    assert f"copy:{one.name}:1" in repetition_vector(graph_of_all)


# Planted faults ----------------------------------------------------------------------------------


def residual(pipelined: bool) -> MappedPlan:
    network = csdfgen.load(residual_classifier())
    return made(network, alternating(network, 3), pipelined=pipelined)


@GOALS
def test_every_wait_that_is_missing_or_too_short_is_refused(pipelined: bool) -> None:
    plan, tried = residual(pipelined), 0
    check_mapped(plan)
    for turn, waits in plan.waits.items():
        for number, (other, count) in enumerate(waits):
            for fewer in ((), ((other, count - 1),)):
                wrong = (*waits[:number], *fewer, *waits[number + 1 :])
                tried += 1
                with pytest.raises(ScheduleError, match=r"part .* waits for"):
                    check_mapped(replace(plan, waits={**plan.waits, turn: wrong}))
    assert tried >= 4


@GOALS
def test_a_copy_that_is_too_late_is_refused(pipelined: bool) -> None:
    """By the check of the part, whose copying actor fires behind its reader, and where a part is executed before its rows are
    there.
    """
    plan = residual(pipelined)
    last = plan.parts[-1]
    order = list(last.plan.order)
    first = next(
        at
        for at, (actor, _) in enumerate(order)
        if last.plan.conversion.actor[actor].kind == "input"
    )
    order[first], order[first + 1] = order[first + 1], order[first]
    late = replace(last, plan=replace(last.plan, order=tuple(order)))
    with pytest.raises((ScheduleError, PlanError)):
        MappedProgram(replace(plan, parts=(*plan.parts[:-1], late)))
    if pipelined:
        for lag, why in ((last.lag - 1, None), (0, "read before they are written")):
            with pytest.raises(ScheduleError, match=why):
                check_mapped(replace(plan, parts=(*plan.parts[:-1], replace(last, lag=lag))))


@GOALS
def test_a_buffer_that_is_too_small_is_refused(pipelined: bool) -> None:
    network = csdfgen.load(residual_classifier())
    plan = made(network, alternating(network, 4), pipelined=pipelined)  # two parts
    one, *others = plan.crossings
    with pytest.raises(ScheduleError, match=f"of a pool of {plan.pool - 64}"):
        check_mapped(replace(plan, pool=plan.pool - 64))
    shifted = replace(one, offsets=(one.offsets[0], one.offsets[0] + 64, *one.offsets[2:]))
    with pytest.raises(ScheduleError):
        check_mapped(replace(plan, crossings=(shifted, *others)))
    single = replace(one, offsets=one.offsets[:1])
    why = "others are in their bytes" if pipelined else "waits for"
    with pytest.raises(ScheduleError, match=why):
        check_mapped(replace(plan, crossings=(single, *others)))


# Prediction --------------------------------------------------------------------------------------


def test_periods_are_those_of_the_busiest_processor() -> None:
    network = csdfgen.load(residual_classifier())
    for pipelined, period in ((True, 7.0), (False, 7.0)):
        plan = made(
            network,
            {layer.name: int(at > 2) for at, layer in enumerate(network.layers)},
            pipelined=pipelined,
        )
        whole = {(part, 0): seconds for part, seconds in enumerate((3.0, 7.0))}
        found = predict(
            plan,
            {
                (k, t): whole[k, 0] / part.turns
                for k, part in enumerate(plan.parts)
                for t in range(part.turns)
            },
        )
        assert found.loads == pytest.approx((3, 7))
        assert found.period == pytest.approx(period)
        assert found.latency == pytest.approx(10) if pipelined else 7 < found.latency < 10


def test_three_parts_overlap_only_in_a_pipeline() -> None:
    """One processor, another one, and the first one again: with steps, it works on two frames in turn."""
    network = csdfgen.load(residual_classifier())
    mapping = {layer.name: int(at in (2, 3)) for at, layer in enumerate(network.layers)}
    for pipelined in (False, True):
        plan = made(network, mapping, pipelined=pipelined)
        times = {
            (k, t): (2.0, 4.0, 2.0)[k] / p.turns
            for k, p in enumerate(plan.parts)
            for t in range(p.turns)
        }
        assert len(plan.parts) == 3
        found = predict(plan, times).period
        assert found == pytest.approx(4.0) if pipelined else found > 4.5


# Search ------------------------------------------------------------------------------------------


@GOALS
@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_of_all_mappings(seed: int, pipelined: bool) -> None:
    """By enumeration; what it proves is no more than that."""
    rng = np.random.default_rng(seed)
    network = (branching, lambda: csdfgen.load(residual_classifier()))[seed % 2]()
    units = tuple((layer.name,) for layer in network.layers)
    seconds = rng.uniform(0.5, 2, (2, len(units)))
    seconds[1, seed % len(units)] = inf if seed > 2 else 1.0
    times = Times(units, tuple(map(tuple, seconds.tolist())), (1e-4, 2e-4), (0.1, 0.05))
    search = Search.of_network(network, times, pipelined, [None, None])
    each = [search.predict(one) for one in product((0, 1), repeat=len(units))]
    found = search.find()
    assert found.seconds == pytest.approx(min(each), rel=3e-3)
    assert 0 < found.bound <= min(each) and set(found.mapping) == {
        one.name for one in network.layers
    }
    assert search.predict([found.mapping[name] for (name,) in units]) == found.seconds


def test_the_search_keeps_to_memory() -> None:
    network = csdfgen.load(residual_classifier())
    units = tuple((layer.name,) for layer in network.layers)
    times = Times(units, ((1.0,) * len(units), (0.5,) * len(units)), (0.0, 0.0), (0.0, 0.0))
    free = Search.of_network(network, times, False, [None, None]).find()
    assert set(free.mapping.values()) == {1}
    limit = network.parameter_bytes // 2 + 12_000
    limited = Search.of_network(network, times, False, [None, limit]).find()
    assert limited.seconds > free.seconds and 0 in limited.mapping.values()
    with pytest.raises(PlanError, match="no mapping fits"):
        Search.of_network(network, times, False, [10, 10]).find()


def test_layers_are_measured_on_each_processor() -> None:
    """Layers that are fused are one unit; what a processor has no kernels for has no time there."""
    network = csdfgen.load(residual_classifier())

    class Refusing:
        def refusal(self, layer: Layer) -> str | None:
            return "no pools" if layer.op_type == "MaxPool" else None

    kernels = [choose_backend(run_options({"backend": "numpy"})), Refusing()]
    (x,) = images(network, 1)
    times = measure_processors(
        network, kernels, lambda mapping: made(network, dict(mapping), pipelined=True), x
    )
    names = [layer.name for layer in network.layers]
    assert [name for unit in times.units for name in unit] == names and len(times.units) < len(
        names
    )
    pool = next(k for k, unit in enumerate(times.units) if "pool" in unit)
    assert times.seconds[1][pool] == inf > times.seconds[0][pool] > 0
    assert all(one > 0 for k, one in enumerate(times.seconds[1]) if k != pool)


# The graph ---------------------------------------------------------------------------------------


@GOALS
def test_the_graph_has_copies_and_runs(pipelined: bool, tmp_path: Path) -> None:
    """Every tensor that crosses has an actor that copies it, on the processor that reads it; slots are its free rows."""
    network = branching()
    plan = made(network, alternating(network, 2), pipelined=pipelined)
    (x,) = images(network, 1)
    program = MappedProgram(plan)
    spent = program.time_actors(x)
    graph, processors = build_mapped_graph(plan, spent)
    copies = [actor.name for actor in graph.actors if actor.function == "copy"]
    assert len(copies) == sum(len(one.targets) for one in plan.crossings) > 2
    for one in plan.crossings:
        for target in one.targets:
            reader = f"copy:{one.name}:{target}"
            assert processors[reader] == plan.processors[plan.parts[target].processor]
            (space,) = (c for c in graph.channels if c.kind == "space" and c.source == reader)
            assert space.initial_tokens == len(one.offsets) * one.tensor.rows
    assert all(
        count == actor.phases
        for count, actor in zip(repetition_vector(graph).values(), graph.actors, strict=True)
    )
    busiest = max(sum(actor.execution_times) for actor in graph.actors)
    assert float(throughput(add_serial_loops(graph)).value) == pytest.approx(1 / busiest, rel=0.2)
    memories = dict(zip(plan.processors, plan.arenas(), strict=True))
    path = tmp_path / "g.xml"
    sdf3xml.write(path, graph, sdf3xml.WriteOptions(processors=processors, memories=memories))
    root = etree.parse(path).getroot()
    mapped = {
        actor.get("name"): tile.get("name")
        for tile in root.iterfind("mapping/tile")
        for actor in tile.iter("actor")
    }
    assert mapped == {encode_name(name): encode_name(one) for name, one in processors.items()}
    assert [int(one.get("size")) for one in root.iter("memory")] == plan.arenas()
    again = sdf3xml.read(path)
    assert {actor.name: actor.execution_times for actor in again.actors} == {
        actor.name: actor.execution_times for actor in graph.actors
    }


# The command -------------------------------------------------------------------------------------


def test_mappings_are_read(tmp_path: Path) -> None:
    network = csdfgen.load(residual_classifier())
    names = [layer.name for layer in network.layers]
    processors, mapping = parse_mapping(f"{names[2]}=opencl:1,{names[4]}=native", network)
    assert processors == ("native", "opencl:1") and [mapping[n] for n in names[:5]] == [
        0,
        0,
        1,
        1,
        0,
    ]
    file = tmp_path / "map.json"
    file.write_text(json.dumps({names[0]: "numpy", names[1]: "native"}))
    assert parse_mapping(str(file), network)[0] == ("numpy", "native")
    for text, why in (
        ("conv9=native", "'conv9' is no layer of"),
        ("conv1=gpu", "is not LAYER=DEVICE"),
        ("conv1", "is not LAYER=DEVICE"),
    ):
        with pytest.raises(InputError, match=why):
            parse_mapping(text, network)
    for content, why in (
        ('{"conv1": "gpu"}', "none of native"),
        ("[1]", "no JSON object"),
        ("{}", "no JSON object"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=why):
            parse_mapping(str(file), network)


def test_the_command(call: Call, tmp_path: Path) -> None:
    onnx.save(residual_classifier(), tmp_path / "m.onnx")
    command = "run", "m.onnx", "--map", "conv2=numpy", "--check"
    found = call(
        *command, "--goal", "throughput", "--json", "--output", "y.npz", "--graph", "g.xml"
    ).json
    assert [one["planned_bytes"] for one in found["processors"]] == [
        one["measured_bytes"] for one in found["processors"]
    ]
    assert found["check"][0]["equal"] and found["slots_bytes"] == 2 * found["crossing_bytes"] > 0
    assert "copy:" in (tmp_path / "g.xml").read_text()
    assert (tmp_path / "y.npz").exists() and "period" in call(*command).out
    found = call("run", "m.onnx", "--map", "auto:numpy,native=1GiB", "--json", "--check").json
    assert found["check"][0]["equal"] and found["search"]["seconds"] > 0
    (tmp_path / "map.json").write_text(json.dumps(found["map"]))
    assert "period" in call("run", "m.onnx", "--map", "map.json").out
    for more, why in (
        (("--map", "nothing=numpy"), "m.onnx: 'nothing' is no layer"),
        (("--map", "conv2=numpy", "--goal", "memory"), "--map has the goals"),
        (("--map", "conv2=numpy", "--frames", "2"), "leave --frames out"),
        (("--map", "conv2=numpy", "--layers"), "leave --layers out"),
        (("--map", "missing.json"), "is not LAYER=DEVICE"),
        (("--graph", "g.xml"), "--graph is of a --map"),
        (("--map", "conv2=numpy", "--graph", "g.json"), "is written as .xml"),
        (("--map", "auto:gpu"), "'gpu' is none of"),
        (("--map", "auto:numpy,numpy"), "a processor twice"),
        (("--map", "auto:numpy=64"), "no mapping fits"),
    ):
        assert why in refused(call("run", "m.onnx", *more))


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_a_tuning_file_is_for_the_kernels_that_were_measured(call: Call, tmp_path: Path) -> None:
    onnx.save(residual_classifier(), tmp_path / "m.onnx")
    machine = describe_machine(choose_backend(run_options({"backend": "native"})))
    for name, one in ("here", machine), ("other", replace(machine, cpu="Z80")):
        write_tuning(tmp_path / f"{name}.json", Tuning(one, 1e-6, {}))
    asked = Asked({"tuning": str(tmp_path / "here.json")})
    assert [bool(one.tuning) for one in _options(("numpy", "native"), asked)] == [False, True]
    command = "run", "m.onnx", "--map", "conv2=numpy", "--check", "--tuning"
    assert "equal" in call(*command, "here.json").out
    assert "was measured on 'Z80'" in refused(call(*command, "other.json"))


@pytest.mark.skipif(os.name == "nt", reason="signals of Windows are others")
def test_it_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors end the turns that they have begun, and begin no other."""
    network = branching()
    program = MappedProgram(made(network, alternating(network, 2)))
    turn, turns = program._parts[1].run, list[int]()

    def interrupting(number: int) -> None:
        turns.append(number)
        if len(turns) == 3:
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
        turn(number)

    monkeypatch.setattr(program._parts[1], "run", interrupting)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            program.run(images(network, 1) * 10_000, same=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(turns) < 10_000
