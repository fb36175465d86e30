"""An If whose condition is computed: both branches are planned, the one that is chosen is computed, image by image."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from types import MappingProxyType

import hypothesis
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import csdfgen
import runtime
from csdfgen.errors import CapacityExceededError, InputError, ModelError, PlanError, ScheduleError
from csdfgen.model.network import Guard
from csdfgen.planning.checker import check
from csdfgen.planning.plan import Plan
from csdfgen.rewriting.fuse import fuse
from tests.builder import reference
from tests.command import Call, refused
from tests.emitted import Program
from tests.fuzz import Coverage, onnxruntime_outputs, run_seed
from tests.models import model
from tests.native_steps import compiler_missing
from tests.networks import feeds
from tests.opencl_device import device_missing
from tests.patterns.quantizing import is_quantized
from tests.random_networks import branched_networks, controlled_networks, networks
from tests.ways import some

RNG = np.random.default_rng(5)
WEIGHTS = {
    "first": RNG.normal(size=(4, 3, 3, 3)).astype(np.float32),
    "wide": RNG.normal(size=(4, 4, 3, 3)).astype(np.float32),
    "single": RNG.normal(size=(4, 4, 1, 1)).astype(np.float32),
    "none": np.zeros((), np.float32),
}
BACKENDS = [
    "numpy",
    pytest.param("native", marks=pytest.mark.skipif(bool(compiler_missing()), reason="no C compiler")),
    pytest.param("opencl", marks=pytest.mark.skipif(bool(device_missing()), reason=device_missing() or "")),
]  # fmt: skip


def chosen(height: int = 12) -> onnx.ModelProto:
    """Two convolutions or one, by the sign of the mean of a map; what follows works on rows."""
    return model(
        f"""g (float[1,3,{height},9] x) => (z) {{
            a = Conv <pads = [1,1,1,1]> (x, first)
            mean = ReduceMean <axes = [1, 2, 3], keepdims = 0> (a)
            warm = Greater(mean, none)
            [choose] y = If (warm) <
                then_branch = t () => (t3) {{
                    t1 = Conv <pads = [1,1,1,1]> (a, wide)
                    t2 = Relu(t1)
                    t3 = Conv <pads = [1,1,1,1]> (t2, wide)
                }},
                else_branch = e () => (e2) {{ e1 = Conv (a, single)  e2 = Tanh(e1) }}
            >
            z = Sigmoid(y)
        }}""",
        WEIGHTS,
    )


def images(count: int = 1, height: int = 12) -> np.ndarray:
    """Images of either sign, one after the other."""
    x = np.random.default_rng(count).normal(size=(count, 3, height, 9)).astype(np.float32)
    sign = np.sign(np.einsum("ncij->n", x))[:, None, None, None]
    return (x + sign * np.array([(-1) ** k for k in range(count)]).reshape(-1, 1, 1, 1)).astype(
        np.float32
    )


@pytest.mark.parametrize("rows", ["1", "auto", "whole"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_branch_that_is_chosen_is_computed(backend: str, rows: str) -> None:
    plan = csdfgen.plan(csdfgen.load(chosen()), rows=rows, backend=backend)
    frame, taken = runtime.compile(plan), []
    for x in (images(), -images()):
        before = frame.branches.get("choose", (0, 0))
        want = reference(chosen(), {"x": x})["z"]
        np.testing.assert_allclose(frame({"x": x})["z"], want, atol=1e-4)
        taken.append(np.subtract(frame.branches["choose"], before).tolist())
        inside = {
            layer.name: guard.taken for layer in plan.network.layers for guard in layer.guards
        }
        left = {plan.order[number][0] for number in frame.left_out}
        assert left == {name for name, when in inside.items() if [when, not when] != taken[-1]}
    assert sorted(taken) == [[0, 1], [1, 0]]


def test_firings_that_are_left_out_touch_nothing() -> None:
    plan = csdfgen.plan(csdfgen.load(chosen()), rows="1")
    frame, watched = None, []
    name = next(
        layer.output.name for layer in plan.network.layers if Guard("choose", True) in layer.guards
    )
    frame = runtime.compile(plan, watchers={name: lambda rows: watched.append(len(rows))})
    for x in (images(), -images()):
        watched.clear()
        before = frame.branches.get("choose", (0, 0))[0]
        frame({"x": x})
        assert sum(watched) == 12 * (frame.branches["choose"][0] - before)


@pytest.mark.parametrize("frames", [1, 4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_image_takes_its_own_branch(backend: str, frames: int) -> None:
    network = csdfgen.load(chosen(), batch=4)
    plan = csdfgen.plan(network, frames=frames, backend=backend)
    frame, x = runtime.compile(plan), images(4)
    want = [reference(chosen(), {"x": x[k : k + 1]})["z"] for k in range(4)]
    np.testing.assert_allclose(frame({"x": x})["z"], np.concatenate(want), atol=1e-4)
    assert sorted(frame.branches["choose"]) == [2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_of_an_input_in_a_branch(backend: str) -> None:
    """What a branch takes of an input is not written over what the other branch has made."""
    net = model(
        """g (float[1,3,9,8] x, bool c) => (z) {
            y = If (c) <
                then_branch = t () => (t1) { t1 = Relu(x) },
                else_branch = e () => (e1) {
                    a = Slice(x, zero, two, one)  b = Slice(x, two, all, one)
                    e1 = Concat <axis = 1> (b, a)
                }
            >
            z = Relu(y)
        }""",
        {
            name: np.array([value], np.int64)
            for name, value in (("zero", 0), ("one", 1), ("two", 2), ("all", 3))
        },
    )
    plan = csdfgen.plan(csdfgen.load(net), backend=backend)
    frame = runtime.compile(plan)
    for taken in (True, False):
        given = {"x": images(height=9)[..., :8], "c": np.array(taken)}
        np.testing.assert_array_equal(frame(given)["z"], reference(net, given)["z"])


BODIES = (
    "{n} = Conv <pads = [1,1,1,1]> (a, out)",
    "{n}0 = Neg(a)  {n} = Concat <axis = 1> ({n}0, a)",
    "{n}0 = Neg(a)  {n} = Concat <axis = 1> (a, {n}0)",
    "{n} = Concat <axis = 1> (a, a)",
    "{n}0 = Conv (a, same)  {n} = Concat <axis = 1> ({n}0, a)",
    "{n}0 = Relu(a)  {n} = Concat <axis = 1> ({n}0, b)",
    "{n}0, {n}1 = Split <axis = 1> (a)  {n} = Concat <axis = 1> ({n}1, {n}0, b)",
    "{n}0 = Concat <axis = 1> (b, a)  {n} = Tanh({n}0)",
)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("first", BODIES)
def test_two_branches_share_what_was_made_before_them(first: str, inside: bool) -> None:
    """What one branch joins without a copy is not written over by the other, which still reads its rows."""
    weights = {"out": RNG.normal(size=(4, 2, 3, 3)), "same": RNG.normal(size=(2, 2, 1, 1))}
    for second in BODIES:
        net = model(
            f"""g (float[1,2,6,5] x, float[1,2,6,5] w, bool c) => (z) {{
                {"a = Sigmoid(x)  b = Sigmoid(w)" if inside else "a = Identity(x)  b = Identity(w)"}
                y = If (c) <
                    then_branch = t () => (t) {{ {first.format(n="t")} }},
                    else_branch = e () => (e) {{ {second.format(n="e")} }}
                >
                z = Elu(y)
            }}""",
            {name: value.astype(np.float32) for name, value in weights.items()},
        )
        network = csdfgen.load(net)
        for rows in ("1", "whole"):
            frame = runtime.compile(csdfgen.plan(network, rows=rows, backend="numpy"))
            for taken in (True, False):
                given = feeds(net) | {"c": np.array(taken)}
                want = reference(net, given)["z"]
                np.testing.assert_allclose(frame(given)["z"], want, atol=1e-5, err_msg=second)


def test_fusion_moves_no_layer_into_a_branch_or_out_of_it() -> None:
    network = csdfgen.load(
        model(
            """g (float[1,3,9,8] x, bool c) => (z) {
                a = Conv (x, first)
                y = If (c) <
                    then_branch = t () => (t1) { t1 = Relu(a) },
                    else_branch = e () => (e2) { e1 = Conv (x, first)  e2 = Relu(e1) }
                >
                z = Relu(y)
            }""",
            WEIGHTS,
        )
    )
    before, after = (
        {node: layer.guards for layer in one.layers for node in layer.onnx_nodes}
        for one in (network, fuse(network))
    )
    assert before == after and len(fuse(network).layers) == len(network.layers) - 1


def test_images_of_a_request_are_not_computed_together_in_a_branch() -> None:
    plan = csdfgen.plan(csdfgen.load(chosen(), batch=4), frames=4, batches=4, backend="numpy")
    for work in plan.conversion.actors:
        if work.layer is not None:
            assert {p.images for p in work.phases} == ({1} if work.layer.guards else {4})
    x = images(4)
    want = [reference(chosen(), {"x": x[k : k + 1]})["z"] for k in range(4)]
    frame = runtime.compile(plan)
    np.testing.assert_allclose(frame({"x": x})["z"], np.concatenate(want), atol=1e-4)
    assert sorted(frame.branches["choose"]) == [2, 2]


@pytest.mark.networks
@pytest.mark.skipif(bool(compiler_missing()), reason="no C compiler")
@pytest.mark.parametrize("rows", ["1", "whole"])
def test_emitted_c_takes_branches(tmp_path: Path, rows: str) -> None:
    plan = csdfgen.plan(csdfgen.load(chosen()), rows=rows, backend="native")
    program = Program(plan, tmp_path)
    for x in (images(), -images()):
        want = reference(chosen(), {"x": x})["z"]
        for run in (program, program.streamed):
            np.testing.assert_allclose(run({"x": x})["z"], want, atol=1e-4)


def test_experts_are_added_where_the_sum_is() -> None:
    """A chain of Ifs that add to a sum or hand it on: the sum is never copied."""
    body = "".join(
        f"""wanted{k} = Gather <axis = 0> (gate, k{k})
            run{k} = Greater(wanted{k}, none)
            s{k + 1} = If (run{k}) <
                then_branch = t () => (t) {{ h = MatMul(x, w{k})  g = Mul(h, wanted{k})  t = Add(s{k}, g) }},
                else_branch = e () => (e) {{ e = Identity(s{k}) }}
            >"""
        for k in range(3)
    )
    weights = {f"w{k}": RNG.normal(size=(32, 32)).astype(np.float32) for k in range(3)}
    index = {f"k{k}": np.array(k, np.int64) for k in range(3)}
    proto = model(
        f"g (float[1,32] x, float[3] gate) => (y) {{ s0 = Relu(x) {body} y = Neg(s3) }}",
        {**weights, **index, "none": np.zeros((), np.float32)},
    )
    plan = csdfgen.plan(csdfgen.load(proto))
    joins = {layer.name for layer in plan.network.layers if "branch" in layer.attributes}
    handed_on = {layer.name for layer in plan.network.layers if layer.op_type == "Identity"}
    assert len(joins) == len(handed_on) == 3
    assert plan.sharing.silent >= joins | handed_on
    frame = runtime.compile(plan)
    x = RNG.normal(size=(1, 32)).astype(np.float32)
    for gate in product((0.0, 0.5), repeat=3):
        feeds = {"x": x, "gate": np.array(gate, np.float32)}
        np.testing.assert_allclose(frame(feeds)["y"], reference(proto, feeds)["y"], atol=1e-5)


# What is refused ------------------------------------------------------------------------------------


def simple(then: str, other: str, condition: str = "c = Greater(m, none)") -> onnx.ModelProto:
    return model(
        f"""g (float[1,3,4,5] x, float[1] m) => (y) {{
            {condition}
            [choose] y = If (c) <then_branch = t () => (t) {{ {then} }}, else_branch = e () => (e) {{ {other} }}>
        }}""",
        WEIGHTS,
    )


REFUSED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "shapes": (("t = Relu(x)", "e = Flatten(x)"), "float32 1x3x4x5 in its then_branch, float32 1x60 in its"),
    "types": (("t = Relu(x)", "e = Cast <to = 6> (x)"), "float32 1x3x4x5 in its then_branch, int32 1x3x4x5 in"),
    "a condition that is no bool": (("t = Relu(x)", "e = Neg(x)", "c = Identity(m)"), "condition is float32 1;"),
    "a condition of many": (("t = Relu(x)", "e = Neg(x)", "c = Greater(x, none)"), "bool 1x3x4x5; one bool"),
    "an operator": (("t = Relu(x)", "e = Bernoulli(x)"), "Bernoulli"),
    "a loop": (("t = Relu(x)", "k = Cast <to = 7> (m) d = ReduceMax <keepdims = 0> (k) q, a = Loop <body = "
        "b (int64 i, bool g, float[1,3,4,5] s) => (bool h, float[1,3,4,5] u, float[1,3,4,5] v) "
        "{ h = Identity(g) u = Neg(s) v = Abs(s) }> (d, , x) n = ReduceMax <keepdims = 0> (a) e = Add(q, n)"),
        "remove its outputs of all turns"),
    "as many as are found": (("n = NonZero(x) f = Cast <to = 1> (n) r = ReduceSum <keepdims = 0> (f) t = Add(x, r)",
        "e = Neg(x)"), "has as many positions as are found"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_sentence_for_what_cannot_be_joined(what: str) -> None:
    parts, said = REFUSED[what]
    with pytest.raises(ModelError) as caught:
        csdfgen.load(simple(*parts))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def _swapped(plan: Plan) -> Plan:
    """The predicate behind the first firing of a branch."""
    order = list(plan.order)
    late = next(k for k, (name, _) in enumerate(order) if plan.conversion.actor[name].kind == "layer"
        and plan.conversion.actor[name].layer.guards)  # type: ignore[union-attr]  # fmt: skip
    writer = plan.network.producer[plan.network.conditions["choose"].name].name
    early = next(k for k, (name, _) in enumerate(order) if name == writer)
    order.insert(late, order.pop(early))
    return replace(plan, order=tuple(order))


def _layers(plan: Plan, change: Callable[[object], object]) -> Plan:
    """The plan of a network with other layers."""
    network = replace(plan.network, layers=tuple(map(change, plan.network.layers)))  # type: ignore[arg-type]
    by_name = {layer.name: layer for layer in network.layers}
    actors = tuple(
        replace(work, layer=by_name[work.layer.name]) if work.layer is not None else work
        for work in plan.conversion.actors
    )
    return replace(plan, conversion=replace(plan.conversion, network=network, actors=actors))


def _outside(plan: Plan) -> Plan:
    """A layer of a branch that is computed for every image, and reads what may not be there."""
    last = next(layer for layer in plan.network.layers if layer.op_type == "Tanh" or "Tanh" in
        [e.op_type for e in layer.epilogue])  # fmt: skip
    free = {t.name for t in last.inputs if t is not None}
    reader = next(layer for layer in plan.network.layers if layer.guards and not free & {
        t.name for t in layer.inputs if t is not None})  # fmt: skip
    return _layers(plan, lambda one: replace(one, guards=()) if one.name == reader.name else one)  # type: ignore


def _crossed(plan: Plan) -> Plan:
    """A join that takes the result of the branch that did not run."""

    def turned(one: object) -> object:
        if "branch" not in one.attributes:  # type: ignore[attr-defined]
            return one
        condition, yes, no = one.inputs  # type: ignore[attr-defined]
        return replace(one, inputs=(condition, no, yes))  # type: ignore[type-var]

    return _layers(plan, turned)


def _lost(plan: Plan) -> Plan:
    """A join that has forgotten whose results it joins."""
    return _layers(plan, lambda one: replace(one, attributes=MappingProxyType({})))  # type: ignore


def _overwritten(plan: Plan) -> Plan:
    """The bytes of the condition belong to a row of the map that the branches read."""
    name = plan.sharing.places[plan.network.conditions["choose"].name].buffer
    source = next(layer for layer in plan.network.layers if layer.guards).inputs[0]
    assert source is not None
    there = plan.regions[plan.sharing.places[source.name].buffer]
    region = replace(plan.regions[name], table=there.table[:1])
    return replace(plan, regions={**plan.regions, name: region})


@pytest.mark.parametrize("fault", [_swapped, _outside, _crossed, _lost, _overwritten])
def test_a_planted_fault_is_refused(fault: Callable[[Plan], Plan]) -> None:
    plan = csdfgen.plan(csdfgen.load(chosen()), rows="whole", backend="numpy")
    check(plan)
    with pytest.raises((ScheduleError, PlanError, CapacityExceededError)):
        check(fault(plan))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_nan_in_a_condition_names_the_layer(backend: str) -> None:
    frame = runtime.compile(csdfgen.plan(csdfgen.load(chosen()), backend=backend))
    with pytest.raises(
        InputError,
        match=r"'Greater_2' \(Greater\): compares NaN \('mean'\), so that the cond.* 'choose'",
    ):
        frame({"x": np.full_like(images(), np.nan)})
    np.testing.assert_allclose(
        frame({"x": images()})["z"], reference(chosen(), {"x": images()})["z"], atol=1e-4
    )


# What users see -------------------------------------------------------------------------------------


def test_a_run_says_which_branches_were_taken(call: Call, tmp_path: Path) -> None:
    path, trace = tmp_path / "net.onnx", tmp_path / "trace.json"
    onnx.save(chosen(), path)
    np.save(tmp_path / "x.npy", images())
    given = ("--input", str(tmp_path / "x.npy"), "--repeat", "3")
    found = json.loads(
        call("run", str(path), *given, "--json", "--check", "--trace", str(trace)).out
    )
    assert found["ok"] and sorted(found["branches"]["choose"].values()) == [0, 3]
    said = call("run", str(path), *given).out
    taken = "then" if found["branches"]["choose"]["then"] else "else"
    assert f"{taken} 3" in said and "branch     'choose'" in said
    ran = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    layers = csdfgen.plan(csdfgen.load(str(path))).network.layers
    for layer in layers:
        if layer.guards:
            assert (layer.name in ran) == (layer.guards[0].taken == (taken == "then"))
    assert "float32 1x3x4x5 in its then_branch" in refused(call("run", _saved(tmp_path)))
    line = refused(
        call("quantize", str(path), "--calibrate", given[1], "-o", str(tmp_path / "q.onnx"))
    )
    assert "has an If ('choose'), whose branches are not quantized" in line


def test_predicted_times_follow_how_often_a_branch_is_taken(call: Call, tmp_path: Path) -> None:
    path = str(tmp_path / "net.onnx")
    onnx.save(chosen(), path)

    def times(*more: str) -> tuple[float, float]:
        found = json.loads(call("schedule", path, "--json", *more).out)
        return found["predicted_ms"], found["predicted_worst_ms"]

    then, other, half = (times("--probability", f"choose={p}") for p in (1, 0, 0.5))
    assert other[0] < half[0] < then[0] == pytest.approx(times()[0])
    assert half[0] == pytest.approx((then[0] + other[0]) / 2)
    assert then[1] == other[1] == pytest.approx(then[0])
    said = refused(call("schedule", path, "--probability", "chose=0.5"))
    assert "--probability chose=0.5: no If of the network has that name; there are: choose" in said
    assert "numbers from 0 to 1" in refused(call("schedule", path, "--probability", "choose=2"))


def test_a_branch_without_layers_leaves_the_other_its_likelihood(
    call: Call, tmp_path: Path
) -> None:
    net = simple("t = Identity(shape)", "t1 = Exp(x)  e = Tanh(t1)")
    net.graph.initializer.append(
        numpy_helper.from_array(np.ones((1, 3, 4, 5), np.float32), "shape")
    )
    onnx.save(net, tmp_path / "net.onnx")
    path = str(tmp_path / "net.onnx")
    never, often = (
        json.loads(call("schedule", path, "--json", "--probability", f"choose={p}").out)[
            "predicted_ms"
        ]
        for p in (1, 0.1)
    )
    assert often > never


def test_a_graph_for_sdf3_has_the_larger_branch(call: Call, tmp_path: Path) -> None:
    path = str(tmp_path / "net.onnx")
    onnx.save(chosen(), path)
    said = call(path, "-o", str(tmp_path / "g.xml")).out
    assert "of 'choose' the larger branch, then" in said
    larger = {actor.name for actor in csdfgen.read_graph(tmp_path / "g.xml").actors}
    call(path, "-o", str(tmp_path / "g.json"))
    every = {actor.name: actor.function for actor in csdfgen.read_graph(tmp_path / "g.json").actors}
    assert larger < every.keys()
    gone = [every[name] for name in every.keys() - larger]
    assert "Conv+Tanh (else of choose)" in gone and not any("then of" in one for one in gone)


def _saved(folder: Path) -> str:
    onnx.save(simple(*REFUSED["shapes"][0]), folder / "wrong.onnx")
    return str(folder / "wrong.onnx")


@pytest.mark.networks
@pytest.mark.parametrize("number", range(2))
def test_random_networks_with_branches(number: int) -> None:
    """Up to three Ifs, also in each other, with every combination of their conditions (`make fuzz ARGS=--branches`)."""
    found = run_seed(41 + number, 10, Coverage(), 20.0, branched_networks)
    assert not found.message, found.message


@pytest.mark.parametrize("number", range(4))
def test_random_control_flow(number: int) -> None:
    """Ifs, Loops, Scans and functions in each other, which share names or have none (`make fuzz ARGS=--control`)."""
    found = run_seed(61 + number, some(10, 200), Coverage(), 20.0, controlled_networks)
    assert not found.message, found.message


@st.composite
def crowded(
    draw: st.DrawFn, drawn: Callable[[], st.SearchStrategy[onnx.ModelProto]]
) -> onnx.ModelProto:
    """A network whose file has the names, of tensors and nodes, that the loader gives to what has none."""
    made = draw(drawn())
    try:
        network = csdfgen.load(made)
    except Exception:  # it is found in the network as it is
        return made
    graph = made.graph
    known = {*(o for node in graph.node for o in node.output), *(i.name for i in graph.input)}
    known |= {one.name for one in graph.initializer}
    nodes = {node.name for node in graph.node}
    called = iter([one.name for one in network.layers if one.name not in nodes] + [""] * 9999)
    first = next(i.name for i in graph.input if i.type.tensor_type.elem_type == 1)
    names = [first, *(name for name in network.tensors if name not in known)]
    for before, name in pairwise(names):
        graph.node.append(helper.make_node("Neg", [before], [name], name=next(called)))
    if len(names) > 1:
        graph.output.append(helper.make_tensor_value_info(names[-1], onnx.TensorProto.FLOAT, None))
    return made


def in_float() -> st.SearchStrategy[onnx.ModelProto]:
    return networks().filter(lambda made: not is_quantized(made))


@pytest.mark.networks
@pytest.mark.parametrize("drawn", [controlled_networks, in_float])
def test_names_of_the_loaders_kind(drawn: Callable[[], st.SearchStrategy[onnx.ModelProto]]) -> None:
    found = run_seed(71, some(20, 400), Coverage(), 20.0, partial(crowded, drawn))
    assert not found.message, found.message


OUTER_W = "g (float[5,3] x, bool p) => (float[5,3] y) <float[3] w = {1,2,3}> {"
OWN_W = "t = If (p) <then_branch = a () => (float[5,3] q) <float[3] w = {4,5,6}> { q = Add(x, w) }"
SHADOWED = {
    "in one branch": f"{OUTER_W} {OWN_W}, else_branch = b () => (float[5,3] r) {{ r = Exp(x) }}> y = Mul(t, w) }}",
    "in one branch, read in the other": f"{OUTER_W} {OWN_W}, else_branch = b () => (float[5,3] r) {{ r = Mul(x, w) }}> "
    "y = Mul(t, w) }",
    "as the result of one branch": """g (float[3] x, bool p) => (float[3] y) <float[3] w = {1,2,3}> {
        y = If (p) <
            then_branch = t () => (float[3] w) <float[3] w = {4,5,6}> {},
            else_branch = e () => (float[3] r) { r = Add(x, w) }
        >
    }""",
    "by the formal of a loop": """g (float[5,3] x, bool p) => (float[5,3] y) <int64 n = {2}> {
        v = Neg(x)
        z = Loop (n, , x) <body = b (int64 i, bool c, float[5,3] v) => (bool c, float[5,3] o) { o = Sin(v) }>
        y = Add(z, v)
    }""",
    "made later around it": """g (float[5,3] x, bool p) => (float[5,3] y) {
        z = If (p) <
            then_branch = t () => (float[5,3] q) { a = Abs(x) q = Relu(a) },
            else_branch = e () => (float[5,3] y) { y = Exp(x) }
        >
        a = Neg(x)
        y = Add(z, a)
    }""",
}
"""Where a name in a body is also one around it -> a network, as onnxruntime takes it."""


@pytest.mark.parametrize("case", SHADOWED)
@pytest.mark.parametrize("p", [True, False])
def test_a_name_of_a_body_may_be_one_around_it(case: str, p: bool) -> None:
    made = model(SHADOWED[case], {})
    network = csdfgen.load(made)
    x = np.random.default_rng(3).normal(size=network.inputs[0].shape).astype(np.float32)
    feeds = {"x": x, "p": np.asarray(p)}
    frame = runtime.compile(csdfgen.plan(network))
    given = {name: feeds[name] for name in (one.name for one in frame.plan.network.inputs)}
    np.testing.assert_allclose(frame(given)["y"], reference(made, feeds)["y"], atol=1e-5)


# A check of every branch ------------------------------------------------------------------------------

LEAVES = """g (float[5,3] x) => (float[5,3] y) <int64 n = {{2}}> {{
    m = ReduceMean <keepdims = 0> (x)
    c = Greater(m, none)
    s = If (c) <
        then_branch = t () => (float[5,3] a) {{ a = Loop (n, , x) <body = b (int64 i, bool g, float[5,3] v) =>
            (bool g, float[5,3] w) {{
            f = Cast <to = 1> (c) h = ReduceMax <keepdims = 0> (v) d = Less(h, f)
            w = If (d) <
                then_branch = t2 () => (float[5,3] a2) <float k = {{{0}}}> {{ a2 = Mul(v, k) }},
                else_branch = e2 () => (float[5,3] a2) <float k = {{{1}}}> {{ a2 = Sub(v, k) }}
            >
        }}> }},
        else_branch = e () => (float[5,3] a) {{ a = local.f (x, c) }}
    >
    y = Tanh(s)
}}"""
FUNCTION = """<domain: "local", opset_import: ["": 17]> f (x, c) => (z) {{
    d = Not(c)
    z = If (d) <
        then_branch = t3 () => (float[5,3] a) <float k = {{{2}}}> {{ a = Add(x, k) }},
        else_branch = e3 () => (float[5,3] a) <float k = {{{3}}}> {{ a = Div(x, k) }}
    >
}}"""
"""Four branches, one in the turns of a loop, one in a function, each with its number."""


def with_leaves(*numbers: float) -> onnx.ModelProto:
    texts = LEAVES.format(*numbers), FUNCTION.format(*numbers)
    zero = {"none": np.zeros((), np.float32)}
    return model(texts[0], zero, imports=', "local": 1', functions=texts[1])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("leaf", range(5))
def test_a_check_compares_every_branch(leaf: int, sign: int) -> None:
    """A branch that differs in onnxruntime's model is found, whichever branches the image takes."""
    x = sign * np.random.default_rng(0).uniform(0.1, 1, (5, 3)).astype(np.float32)
    numbers = [0.5, 0.3, 0.2, 1.5]
    other = with_leaves(*(n + (k == leaf) for k, n in enumerate(numbers)))
    report = csdfgen.report(csdfgen.load(with_leaves(*numbers)), x, reference=other)
    assert report.ok is (leaf == 4)
    assert 1 <= len(report.forced) <= 4 and not any(run.why for run in report.forced)


def test_a_branch_that_is_forced_is_taken_in_every_arena() -> None:
    """Outputs that are held stay as they are, so that the next frame is computed elsewhere."""
    x = np.ones((5, 3), np.float32)
    net = model(
        "g (float[5,3] x, bool c) => (y) { [pick] y = If (c) <"
        " then_branch = t () => (float[5,3] a) { a = Neg(x) },"
        " else_branch = e () => (float[5,3] b) { b = Exp(x) }> }"
    )
    frame = runtime.compile(csdfgen.plan(csdfgen.load(net), result="arena"))
    frame.force({"pick": True})
    held = [frame({"x": x, "c": np.array(False)})["y"] for _ in range(3)]
    assert all(np.array_equal(one, -x) for one in held)


@pytest.mark.parametrize("seed", range(some(3, 40)))
def test_a_check_reaches_every_branch(seed: int) -> None:
    compared = []

    @hypothesis.seed(seed)
    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(controlled_networks())
    def run(proto: onnx.ModelProto) -> None:
        drawn = feeds(proto)
        if onnxruntime_outputs(proto, drawn) is None or not (net := csdfgen.load(proto)).conditions:
            return
        report = csdfgen.report(net, drawn, reference=proto)
        known = {(n, bool(k)) for n, both in report.branches.items() for k in (0, 1) if both[1 - k]}
        for one in report.forced:
            known |= set(one.forced.items())
        assert all(one.ok and not one.why for one in report.forced)
        assert known == set(product(net.conditions, (True, False)))
        compared.append(len(report.forced))

    run()
    assert sum(compared)
