"""Plans for images of any height: the firings of one order that exist, at the same offsets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.dataflow.graph import repetition_vector
from csdfgen.errors import CsdfgenError, PlanError
from csdfgen.planning.plan import Plan
from csdfgen.planning.streams import StreamPlan
from schedules.check import check
from schedules.schedule import Firing, Schedule
from tests.builder import Graph, reference
from tests.command import Call, refused
from tests.models import model
from tests.native_steps import COMPUTED_BY
from tests.unit.test_loops import MODELS, all_rows, network

STEP = {"strided": 1, "with_skips": 4, "dilated": 1}
"""The heights that a network takes are multiples of it."""


@cache
def streamed(name: str) -> StreamPlan:
    return csdfgen.plan_stream(MODELS[name](64), backend="numpy")


@pytest.mark.parametrize("name", MODELS)
def test_images_of_any_height_have_checked_plans_in_the_same_arena(name: str) -> None:
    stream, step = streamed(name), STEP[name]
    for rows in [*range(24, 24 + 5 * step, step), stream.least, 3 * stream.least + step]:
        plan = stream.at(rows)
        assert plan.network.inputs[0].rows == rows
        assert plan.planned_bytes <= stream.planned_bytes
        assert plan.planned_bytes == stream.planned_bytes or rows < stream.least
        assert plan.figures["peak_live"] <= stream.loop.peak


@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_other_plans(name: str) -> None:
    stream, step = streamed(name), STEP[name]
    for rows in (24 + step, stream.least + step, stream.least + stream.turn):
        one = network(name, rows)
        x = np.random.default_rng(rows).standard_normal(one.inputs[0].shape).astype(np.float32)
        found = runtime.compile(stream.at(rows))(x)
        wanted = runtime.compile(csdfgen.plan(one, policy="demand", backend="numpy"))(x)
        for y in wanted:
            np.testing.assert_allclose(found[y], wanted[y], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["strided", "dilated"])
def test_the_height_that_is_named_changes_nothing(name: str) -> None:
    tall = csdfgen.plan_stream(MODELS[name](400), backend="numpy")
    one, other = tall.loop, streamed(name).loop
    assert (one.word, one.before, one.tables) == (other.word, other.before, other.tables)


def segments(plan: Plan) -> list[list[tuple[object, ...]]]:
    """The firings from one slab of the input to the next, with their offsets."""
    found: list[list[tuple[object, ...]]] = []
    for actor, phase in plan.order:
        work = plan.conversion.actor[actor]
        if work.kind == "input":
            found.append([])
        here = work.phases[phase]
        rows = [(write.tensor, here.out) for write in work.writes]
        rows += [(read.tensor, read.rows[phase]) for read in work.reads if work.kind == "layer"]
        places = [plan.addresses.view(tensor, span).rows for tensor, span in rows]
        found[-1].append((actor, plan.workspace(actor, phase), *places))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_template_has_the_firings_of_a_taller_image_but_for_whole_periods(name: str) -> None:
    stream, step = streamed(name), STEP[name]
    period, each = stream.period, stream.aligned * stream.period
    least = stream.least - stream.turn + each
    for rows in (stream.least + stream.turn, stream.least + 5 * stream.turn + 3 * step):
        low, left_out = stream.template(rows)
        assert left_out and least <= low < least + each
        assert low + left_out * period == rows
        template, whole = segments(stream.ending(low, rows)), segments(stream.at(rows))
        more = len(whole) - len(template)
        start = -(-stream.first // (left_out * period // more))
        assert template[start:] == whole[start + more :]


@pytest.mark.parametrize("name", MODELS)
def test_low_images_are_their_own_templates(name: str) -> None:
    stream = streamed(name)
    most = stream.least - stream.turn + 2 * stream.aligned * stream.period - 1
    assert stream.template(most) == (most, 0)
    assert stream.template(8) == (8, 0)


def test_a_network_that_needs_all_rows_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"'softmax\d+' needs all rows at once, .*; run it with passes=2"
    ):
        csdfgen.plan_stream(all_rows(64), backend="numpy")


def dilated(dilation: int, rows: int) -> onnx.ModelProto:
    """As in a WaveNet."""
    graph = Graph()
    x = graph.input("x", (1, 2, rows))
    taps = graph.constant(np.ones((2, 2, 3), np.float32))
    window = {"kernel_shape": [3], "dilations": [dilation], "pads": [2 * dilation, 0]}
    return graph.model(graph.node("Conv", x, taps, **window), checked=False)


@pytest.mark.parametrize("dilation", [200, 480, 1024])
def test_windows_may_be_higher_than_the_image_that_is_planned(dilation: int) -> None:
    """Their ends meet in the middle of a low image."""
    frame = runtime.compile(csdfgen.plan_stream(dilated(dilation, 64), backend="numpy"))
    rows = np.random.default_rng(0).random((1, 2, 5 * dilation), np.float32)
    found = np.concatenate([each for one in frame.stream(rows) for each in one.values()], 2)
    (wanted,) = reference(dilated(dilation, 5 * dilation), {"x": rows}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_windows_that_are_too_high_for_any_image_are_refused_as_such() -> None:
    with pytest.raises(PlanError, match="windows that are higher than the 15,360 rows in which a"):
        csdfgen.plan_stream(dilated(10_000, 64), backend="numpy")


def exported(kind: str, rows: int) -> onnx.ModelProto:
    """A model whose constants fix its height."""
    graph = Graph(opset=9 if kind == "cropped" else 17)

    def integers(*values: int) -> str:
        return graph.constant(np.array(values, np.int64))

    x = graph.input("x", (1, 2, rows, 6))
    if kind == "shuffled":  # pixels out of channels, as ESPCN ends
        y = graph.node("Reshape", graph.conv(x, 8), integers(1, 2, 2, 2, rows, 6))
        y = graph.node("Transpose", y, perm=[0, 1, 4, 2, 5, 3])
        y = graph.node("Reshape", y, integers(1, 2, 2 * rows, -1), channels=2)
    elif kind == "segmented":  # a head that is resized to the image
        y = graph.conv(graph.conv(x, 4, strides=[2, 2]), 4, strides=[2, 1])
        half = {"coordinate_transformation_mode": "half_pixel", "mode": "linear"}
        y = graph.node("Resize", y, "", "", integers(1, 4, rows, 6), **half)
    elif kind == "expanded":  # a mean of columns beside each of them
        mean = graph.node("ReduceMean", x, axes=[3], keepdims=1)
        y = graph.node("Expand", mean, integers(1, 2, rows, 6))
        y = graph.node("Concat", x, y, axis=1, channels=4)
    else:  # rows in front that are cut off behind
        y = graph.conv(x, 2, pads=[4, 1, 2, 1])
        y = graph.node("Slice", y, axes=[2], starts=[2], ends=[rows + 2])
    return graph.model(graph.conv(y, 2), checked=False)


@pytest.mark.parametrize("kind", ["shuffled", "segmented", "expanded", "cropped"])
@pytest.mark.parametrize("written", [8, 12])
def test_exports_of_one_height_stream(kind: str, written: int) -> None:
    stream = csdfgen.plan_stream(exported(kind, written), backend="numpy")
    rows = np.random.default_rng(0).random((1, 2, 332, 6), np.float32)
    found = [each for one in runtime.compile(stream).stream(rows) for each in one.values()]
    (wanted,) = reference(exported(kind, 332), {"x": rows}).values()
    np.testing.assert_allclose(np.concatenate(found, 2), wanted, rtol=1e-4, atol=1e-5)


def test_a_model_that_runs_at_another_height_does_as_its_file_says() -> None:
    """An image is resized to the height of the file; only a stream has one of its own."""
    x = np.random.default_rng(0).random((1, 2, 24, 6), np.float32)
    net = csdfgen.load(exported("segmented", 12), shapes={"x": x.shape})
    assert net.outputs[0].tensor is not None and net.outputs[0].tensor.rows == 12
    stream = csdfgen.plan_stream(exported("segmented", 12), shapes={"x": x.shape}, backend="numpy")
    assert sum(one["conv3"].shape[2] for one in runtime.compile(stream).stream(x)) == 24


@pytest.mark.parametrize(
    ("op_type", "why"),
    [
        (
            "Slice",
            "keeps rows 0 to 3 of 7, and it is not known which of 960; export the model with",
        ),
        ("Resize", "has a size of 3 for 7 rows, and none for 960"),
        ("Reshape", "has a size of 12 for 1 rows, and none for 137"),
    ],
)
def test_constants_that_may_not_follow_the_height_are_refused(op_type: str, why: str) -> None:
    graph = Graph()
    x = graph.input("x", (1, 2, 7, 6))
    size, zeros = (graph.constant(np.array(one, np.int64)) for one in ([1, 2, 3, 6], [0, 0, 0, 0]))
    if op_type == "Reshape":
        x = graph.node("MaxPool", x, kernel_shape=[7, 1], strides=[7, 1])
        size = graph.constant(np.array([1, 12], np.int64))
    operands = {"Slice": [zeros, size], "Resize": ["", "", size], "Reshape": [size]}[op_type]
    y = graph.node(op_type, x, *operands)
    with pytest.raises(CsdfgenError, match=why):
        csdfgen.plan_stream(graph.model(graph.node("Relu", y), checked=False), backend="numpy")


def test_axes_that_an_expand_adds_are_those_of_the_file() -> None:
    graph = Graph()
    x = graph.input("x", (1, 1, 8, 4))
    x = graph.node("Squeeze", x, graph.constant(np.array([0, 1], np.int64)))
    y = graph.node("Expand", x, graph.constant(np.array([2, 3, 8, 4], np.int64)))
    model = graph.model(graph.node("Relu", y), checked=False)
    net = csdfgen.load(model, shapes={"x": (1, 1, 16, 4)}, endless=True)
    assert net.outputs[0].tensor is not None and net.outputs[0].tensor.shape == (2, 3, 16, 4)


def test_rows_that_a_window_makes_one_may_not_be_several() -> None:
    graph = Graph()
    x = graph.node("AveragePool", graph.input("x", (1, 4, 8, 2)), kernel_shape=[8, 2])
    y = graph.node("Reshape", x, graph.constant(np.array([1, 4], np.int64)))
    with pytest.raises(
        CsdfgenError, match="has no axis for a single row, of which there are 953 now"
    ):
        csdfgen.plan_stream(graph.model(y, checked=False), backend="numpy")


def test_a_height_that_the_network_does_not_take_is_refused() -> None:
    with pytest.raises(
        CsdfgenError, match=r"of 102 rows do not fit, those of 104 do: .* cannot be joined"
    ):
        streamed("with_skips").at(102)


def test_a_model_in_a_file_is_read_at_other_heights(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(MODELS["strided"](64), path)
    assert csdfgen.plan_stream(csdfgen.load(path), backend="numpy").at(100).planned_bytes


def summed(rows: int, pool: str) -> onnx.ModelProto:
    """Layers behind a reduction of all rows, with and without a result of their own by rows."""
    graph = Graph(opset=17)
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 3, rows, 8)), 8, strides=[2, 2]))
    settings = {"axes": [2, 3], "keepdims": 1} if pool == "ReduceMean" else {}
    one = graph.node("Flatten", graph.node(pool, graph.node("Tanh", graph.conv(x, 8)), **settings))
    weights = graph.constant(graph.rng.standard_normal((8, 5)).astype(np.float32))
    y = graph.node("Softmax", graph.node("Gemm", graph.node("Sigmoid", one), weights))
    return graph.model(y, graph.conv(x, 2), checked=False)


@pytest.mark.parametrize("pool", ["GlobalAveragePool", "GlobalMaxPool", "ReduceMean"])
def test_layers_behind_the_last_row(pool: str) -> None:
    stream = csdfgen.plan_stream(summed(64, pool), backend="numpy")
    for rows in (31, stream.least + 5):
        x = np.random.default_rng(rows).standard_normal((1, 3, rows, 8)).astype(np.float32)
        found, wanted = runtime.compile(stream.at(rows))(x), reference(summed(rows, pool), {"x": x})
        for name, want in wanted.items():
            np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-5)


def test_a_file_holds_the_plan_whatever_height_was_named(tmp_path: Path) -> None:
    stream, path = streamed("strided"), tmp_path / "plan.json"
    csdfgen.save_plan(stream, path)
    again = csdfgen.read_stream(path, MODELS["strided"](400))
    assert vars(again.loop) == vars(stream.loop)
    assert (again.facts(), again.first, again.least) == (stream.facts(), stream.first, stream.least)
    csdfgen.save_plan(again, tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word": "0,1"}, "fires 2 times in a period"),
        ({"word": "0,99"}, "has actor 99 of"),
        ({"digest": "0"}, "made for"),
        ({"before": {"x": 1}, "word": "0"}, "has 1 actors in a period"),
        ({"buffers": []}, "has 0 tables of offsets"),
        ({"unit": 0}, "unit"),
        ({"version": 9}, "version"),
    ],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path, model = tmp_path / "plan.json", MODELS["dilated"](64)
    csdfgen.save_plan(streamed("dilated"), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CsdfgenError, match=message):
        csdfgen.read_stream(path, model)


@pytest.mark.parametrize("name", ["strided", "dilated"])
@pytest.mark.parametrize("tokens", ["rows", "elements"])
def test_a_period_is_an_iteration_of_its_graph(name: str, tokens: str) -> None:
    """The word is a schedule of it, and without limits to buffers the slowest actor sets the throughput."""
    stream, fired, order = streamed(name), Counter[str](), []
    graph = stream.graph(tokens=tokens)
    for actor in stream.loop.word:
        order.append(Firing(actor, fired[actor]))
        fired[actor] += 1
    assert repetition_vector(graph) == fired
    check(graph, Schedule(name, tuple(order), {one.name: 10**9 for one in graph.channels}))
    found = csdfgen.analyze(graph)
    assert found.throughput is not None
    slowest = max(sum(actor.execution_times) for actor in graph.actors)
    assert found.throughput.value == Fraction(1, slowest)
    wrong = [Firing(actor, k) for actor, k in reversed([(f.actor, f.phase) for f in order])]
    with pytest.raises(CsdfgenError):
        check(graph, Schedule(name, tuple(wrong), {one.name: 10**9 for one in graph.channels}))


def segment_work(plan: Plan) -> list[int]:
    """Work between slabs of the input."""
    found: list[int] = []
    for actor, phase in plan.order:
        work = plan.conversion.actor[actor]
        found += [0] * (work.kind == "input")
        found[-1] += work.times[phase]
    return found


@pytest.mark.parametrize("name", ["strided", "dilated"])
def test_what_is_said_of_waits_is_so_in_an_image(name: str) -> None:
    stream = streamed(name)
    facts, plan = stream.facts(), stream.at(stream.least + 3 * stream.turn)
    slab = stream.period // Counter(stream.loop.word)[plan.order[0][0]]
    work = segment_work(plan)[stream.first // slab :][: stream.turn // slab]
    assert facts["burst"] == pytest.approx(max(work) * len(work) * slab / sum(work), abs=0.06)
    (output,) = plan.network.output_tensors
    fed, waits, actors = 0, [], plan.conversion.actor
    rate = plan.network.tensors[output].rows / plan.network.inputs[0].rows
    for actor, phase in plan.order:
        fed += slab * (actors[actor].kind == "input")
        for write in actors[actor].writes:
            if write.tensor.name == output:
                waits.append(fed - actors[actor].phases[phase].out.start / rate)
    middle = waits[len(waits) // 3 : -(len(waits) // 3)]
    assert facts["latency"] == pytest.approx(max(middle), abs=1 / rate + 1)
    assert 1 <= facts["queue"] <= facts["burst"] + 1


@pytest.mark.parametrize("name", [*MODELS, "mean"])
def test_work_is_spread_over_rows(name: str, tmp_path: Path) -> None:
    """The busiest row has a mean row and a firing at most, and no more than before; values are the same, in a stream too."""
    make = {**MODELS, "mean": mean}[name]
    stream = csdfgen.plan_stream(make(64), backend="numpy", spread=True)
    facts, rows = stream.facts(), stream.least + 2 * stream.turn
    assert stream.unspread is not None and facts["arena_before"] == stream.unspread.planned_bytes
    assert facts["burst"] <= facts["burst_before"] and facts["queue"] <= facts["queue_before"]
    if name in ("strided", "with_skips"):
        assert facts["burst"] < facts["burst_before"]
    plan = stream.at(rows)
    slab = len(plan.conversion.actors[0].phases[0].out)
    work = segment_work(plan)[stream.first // slab :][: stream.turn // slab]
    largest = max(max(one.times) for one in plan.conversion.actors if len(one.phases) > 1)
    assert max(work) <= largest + sum(work) / len(work)
    assert facts["lower_bound"] <= facts["peak_live"] >= plan.figures["peak_live"]
    one = csdfgen.load(make(rows))
    x = np.random.default_rng(rows).standard_normal(one.inputs[0].shape).astype(np.float32)
    wanted = runtime.compile(stream.unspread.at(rows))(x)
    csdfgen.save_plan(stream, tmp_path / "plan.json")
    onnx.save(make(64), tmp_path / "net.onnx")
    again = csdfgen.read_stream(tmp_path / "plan.json", tmp_path / "net.onnx")
    assert vars(again.loop) == vars(stream.loop)
    parts = [*runtime.compile(again).stream(x[:, :, at : at + 50] for at in range(0, rows, 50))]
    for y, array in runtime.compile(plan)(x).items():
        np.testing.assert_allclose(array, wanted[y], rtol=1e-5, atol=1e-5)
        found = np.concatenate([part[y] for part in parts if y in part], axis=2)
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-5)


def test_commands_state_what_spreading_costs(call: Call) -> None:
    onnx.save(MODELS["strided"](64), "net.onnx")
    given = ("net.onnx", "--stream", "--spread", "--backend", "numpy", "--json")
    facts = call("schedule", *given).json
    assert facts["burst"] < facts["burst_before"] and facts["queue"] < facts["queue_before"]
    np.save("x.npy", np.zeros((1, 3, 200, 20), np.float32))
    words = (
        "run",
        "net.onnx",
        "--stream",
        "x.npy",
        "--spread",
        "-o",
        "y.npy",
        "--backend",
        "numpy",
    )
    assert "busiest row instead" in call(*words).out
    assert call(*words, "--json").json["arena_before"] == facts["arena_before"]
    for words in (("schedule", "net.onnx"), ("run", "net.onnx")):
        assert "--spread is of" in refused(call(*words, "--spread"))


def test_the_command_writes_the_graph_of_a_period(call: Call) -> None:
    onnx.save(MODELS["dilated"](64), "net.onnx")
    words = ("net.onnx", "--stream", "--backend", "numpy", "-o", "graph.xml")
    call(*words)
    graph = csdfgen.read_graph("graph.xml")
    assert any(one.initial_tokens for one in graph.channels if one.kind != "serial")
    assert "leave it or --stream out" in refused(call(*words, "--rates", "exact"))


def test_goals_choose_how_many_rows_a_phase_takes() -> None:
    plans = [
        csdfgen.plan_stream(MODELS["strided"](64), backend="numpy", goal=goal)
        for goal in ("memory", "balanced", "speed")
    ]
    sizes = [plan.planned_bytes for plan in plans]
    assert sizes == sorted(set(sizes))
    fired = [len(plan.loop.word) / plan.period for plan in plans]
    assert fired == sorted(set(fired), reverse=True)
    with pytest.raises(PlanError, match="throughput"):
        csdfgen.plan_stream(MODELS["strided"](64), backend="numpy", goal="throughput")


def test_the_command_writes_a_plan(call: Call) -> None:
    onnx.save(MODELS["dilated"](64), "net.onnx")
    words = ("schedule", "net.onnx", "--stream", "--backend", "numpy", "-o", "plan.json", "--json")
    facts = call(*words).json
    assert csdfgen.read_stream("plan.json", "net.onnx").facts().items() <= facts.items()
    assert "leave --memory out" in refused(call(*words, "--memory", "1MiB"))
    assert "leave --batch out" in refused(call(*words, "--batch", "2"))


def mean(rows: int) -> onnx.ModelProto:
    graph = Graph(opset=17)
    x = graph.node("Sigmoid", graph.conv(graph.input("x", (1, 3, rows, 8)), 4))
    y, z = graph.node("GlobalAveragePool", x), graph.node("ReduceMean", x, axes=[2, 3])
    return graph.model(graph.node("Neg", y), z, graph.node("GlobalMaxPool", x), checked=False)


@pytest.mark.parametrize("backend", COMPUTED_BY)
def test_the_end_of_an_image_knows_how_many_rows_there_were(backend: str) -> None:
    stream = csdfgen.plan_stream(mean(64), backend=backend)
    low = stream.least + 3
    plan = stream.ending(low, low + 7 * stream.turn)
    x = np.random.default_rng(0).standard_normal((1, 3, low, 8)).astype(np.float32)
    found, wanted = runtime.compile(plan)(x), reference(mean(low), {"x": x})
    for name, part in zip(wanted, (low / (low + 7 * stream.turn),) * 2 + (1,), strict=True):
        np.testing.assert_allclose(found[name], part * wanted[name], rtol=1e-5)


@pytest.mark.parametrize("backend", COMPUTED_BY)
def test_reductions_are_over_all_rows_of_a_stream(backend: str) -> None:
    """Of two streams of a program, which end by the same template."""
    stream = csdfgen.plan_stream(summed(64, "GlobalAveragePool"), backend=backend)
    frame, low = runtime.compile(stream), stream.least + 5
    for rows in (low, low + 3 * stream.turn):
        x = np.random.default_rng(rows).standard_normal((1, 3, rows, 8)).astype(np.float32)
        *_, last = frame.stream(x[:, :, at : at + 50] for at in range(0, rows, 50))
        wanted = reference(summed(rows, "GlobalAveragePool"), {"x": x})
        one = next(name for name in wanted if wanted[name].ndim == 2)
        np.testing.assert_allclose(last[one], wanted[one], rtol=1e-5)


def summed_up(rows: int) -> onnx.ModelProto:
    """Sums and products so far."""
    graph = Graph(opset=26)
    x, axis = graph.input("x", (1, 2, rows, 4)), graph.constant(np.array(2))
    y = graph.node("CumSum", graph.conv(x, 3), axis, exclusive=1)
    one = graph.node(
        "Add", graph.node("Sigmoid", graph.conv(x, 3)), graph.constant(np.float32(0.4))
    )
    return graph.model(graph.node("Add", y, graph.node("CumProd", one, axis)), checked=False)


def begun(rows: int) -> onnx.ModelProto:
    """A state that is given, and one that is asked for at the end."""
    graph = Graph(opset=17)
    x, h = graph.input("x", (rows, 1, 4)), graph.input("h", (1, 1, 3))
    w, r = (graph.constant(graph.rng.standard_normal((1, 9, n)).astype(np.float32)) for n in (4, 3))
    y = graph.node("GRU", graph.node("Tanh", x), w, r, "", "", h, outputs=2, hidden_size=3)
    steps = graph.node("Squeeze", y, graph.constant(np.array([1])))
    last = graph.node("GRU", steps, r, r, "", "", graph.node("Neg", h), outputs=2, hidden_size=3)
    return graph.model(y, f"{y[:-1]}1", graph.node("Relu", f"{last[:-1]}1"), checked=False)


@pytest.mark.parametrize("backend", COMPUTED_BY)
@pytest.mark.parametrize("made", [summed_up, begun])
def test_states_go_from_row_to_row(made: Callable[[int], onnx.ModelProto], backend: str) -> None:
    stream = csdfgen.plan_stream(made(64), backend=backend)
    frame = runtime.compile(stream)
    for rows in (5, stream.least + 3 * stream.turn + 1):
        one, *others = stream.at(rows).network.inputs
        rng = np.random.default_rng(rows)
        feeds = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in (one, *others)}
        s, parts = frame.open(), list[dict[str, np.ndarray]]()
        for other in others:
            assert not s.push({other.name: feeds[other.name]})
        for part in np.array_split(feeds[one.name], [1, 4, 4 + rows // 2], one.row_axis or 0):
            parts.append(s.push({one.name: part}))
            s = frame.open(s.save())
        parts.append(s.finish())
        for name, want in reference(made(rows), feeds).items():
            found = [part[name] for part in parts if name in part]
            axis = stream.network.tensors[name].row_axis
            joined = found[0] if axis is None else np.concatenate(found, axis)
            np.testing.assert_allclose(joined, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [2**31 - 5, 2**32 - 5])
def test_rows_are_counted_beyond_32_bits(number: int) -> None:
    stream = streamed("strided")
    frame, rng = runtime.compile(stream), np.random.default_rng(0)
    x = rng.standard_normal((1, 3, stream.least + 3 * stream.turn, 20)).astype(np.float32)
    s, other, half = frame.open(), frame.open(), stream.least + stream.turn
    for one in (s, other):
        one.push(x[:, :, :half])
    again = -(-number // stream.turn)
    turns = frame.turns
    s._done += again * turns.count
    more = again * turns.periods
    s._made = [at + more * rows for at, rows in zip(s._made, turns.made, strict=True)]
    for waiting, rows in zip(s._waiting.values(), turns.fed, strict=True):
        waiting.fed, waiting.there = (at + more * rows for at in (waiting.fed, waiting.there))
    resumed = frame.open(s.save())
    for found, wanted in (
        (resumed.push(x[:, :, half:]), other.push(x[:, :, half:])),
        (resumed.finish(), other.finish()),
    ):
        for name in wanted:
            np.testing.assert_array_equal(found[name], wanted[name])
    (rows,) = resumed.rows_in.values()
    assert rows == x.shape[2] + again * stream.turn > number


def test_a_file_holds_what_is_given_once(tmp_path: Path) -> None:
    stream, path = csdfgen.plan_stream(begun(64), backend="numpy"), tmp_path / "plan.json"
    csdfgen.save_plan(stream, path)
    assert vars(csdfgen.read_stream(path, begun(64)).loop) == vars(stream.loop)
    assert csdfgen.analyze(stream.graph()).throughput is not None


def ended(rows: int, last: str) -> onnx.ModelProto:
    """A last layer that may end by rows that are there long before the end."""
    graph = Graph(opset=17)
    x = graph.node("Abs", graph.input("x", (1, 2, rows, 3)))
    one, axis = (graph.constant(np.array([k], np.int64)) for k in (-3, 2))
    if last == "Slice":
        return graph.model(graph.node("Slice", x, axis, one, axis), checked=False)
    if last == "Pad":
        pads = graph.constant(np.array([0, 0, 1, 0, 0, 0, -2, 0], np.int64))
        return graph.model(graph.node("Pad", x, pads), checked=False)
    if last == "Resize":
        scales = graph.constant(np.array([1, 1, 1.5, 1], np.float32))
        rounded = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return graph.model(graph.node("Resize", x, "", scales, **rounded), checked=False)
    return graph.model(graph.node(last, x), checked=False)


@pytest.mark.parametrize("last", ["GlobalAveragePool", "GlobalMaxPool", "Slice", "Pad", "Resize"])
def test_no_row_is_computed_that_may_be_none(last: str) -> None:
    stream = csdfgen.plan_stream(ended(64, last), backend="numpy")
    frame = runtime.compile(stream)
    for rows in range(stream.least + stream.turn, stream.least + stream.turn + 5):
        x = np.random.default_rng(rows).standard_normal((1, 2, rows, 3)).astype(np.float32)
        parts = [list(made.values()) for made in frame.stream([x[:, :, :7], x[:, :, 7:]])]
        (want,) = reference(ended(rows, last), {"x": x}).values()
        found = np.concatenate([array for made in parts for array in made], 2)
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_weights_are_where_the_program_is_asked_to_have_them() -> None:
    stream = streamed("strided")
    assert stream.options.weights != "copied"
    assert runtime.compile(stream, weights="copied").plan.options.weights == "copied"


UNET = """unet (float[N,3,H,9] x) => (y) {
    a = Conv <auto_pad="SAME_UPPER"> (x, w)  p = MaxPool <kernel_shape=[2,2], strides=[2,2]> (a)  s = Shape (a)
    u = Resize <mode="linear"> (p, , , s)  y = Add (u, a)
}"""
SAME = 'same (float[N,3,H,9] x) => (y) { y = Conv <auto_pad="SAME_UPPER", strides=[2,2]> (x, w) }'


@pytest.mark.parametrize("text", [UNET, SAME])
def test_heights_at_which_layers_compute_rows_otherwise_are_refused(text: str) -> None:
    """Symptom: rows that were computed before the end was known were wrong at 5 to 9 rows."""
    proto = model(text, {"w": np.random.default_rng(0).normal(size=(3, 3, 3, 3)).astype("f4")})
    frame = runtime.compile(csdfgen.plan_stream(proto, backend="numpy"))
    for rows in (4, 5, 6, 7, 9, 78, 333, 1001):
        x = np.random.default_rng(rows).standard_normal((1, 3, rows, 9)).astype(np.float32)
        stream = frame.open()
        found = [stream.push(x[:, :, at : at + 2]) for at in range(0, rows, 2)]
        if rows % 2:
            message = f"of {rows} rows do not fit, those of {rows + 1} do: layer"
            with pytest.raises(CsdfgenError, match=message):
                stream.finish()
            continue
        found.append(stream.finish())
        y = np.concatenate([one["y"] for one in found if "y" in one], axis=2)
        np.testing.assert_allclose(y, reference(proto, {"x": x})["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("scale", [3, 1.5, 0.75])
def test_rows_are_resized_by_fractions(scale: float, mode: str) -> None:
    """Equal rows a turn apart become equal rows, where positions in float32 drift."""
    text = f"""fraction (float[N,2,H,5] x) => (y) {{ y = Resize <mode="{mode}"> (x, , s) }}"""
    proto = model(text, {"s": np.array([1, 1, scale, 1], np.float32)})
    frame = runtime.compile(csdfgen.plan_stream(proto, backend="numpy"))
    turn, out = 4, int(4 * scale)
    part = np.random.default_rng(0).standard_normal((1, 2, turn, 5)).astype(np.float32)
    x = np.tile(part, (1, 1, 700, 1))
    y = np.concatenate([one["y"] for one in frame.stream(x)], axis=2)
    middle = y[:, :, out : -2 * out]
    assert y.shape[2] == 700 * out and np.array_equal(middle, y[:, :, 2 * out : -out])
    np.testing.assert_allclose(y, reference(proto, {"x": x})["y"], atol=1e-3)
