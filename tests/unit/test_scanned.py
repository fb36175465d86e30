"""A Scan is one layer: its rows are turns, and what a turn hands to the next one is held between phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.errors import ModelError
from csdfgen.model.network import Network
from csdfgen.planning.checker import check
from tests.builder import reference
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.opencl_device import device_missing

BACKENDS = [
    "numpy",
    pytest.param(
        "native", marks=pytest.mark.skipif(bool(compiler_missing()), reason="no compiler")
    ),
]


def _info(name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class _Scan:
    """A random Scan: up to two states, up to two scanned inputs and outputs along any axes, a body that reads constants and a
    tensor of the graph around it.
    """

    def __init__(self, seed: int, *, directions: tuple[int, ...] = (0, 0)) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.weights: list[onnx.TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.count = 0
        self.turns, self.wide = int(rng.integers(1, 14)), int(rng.integers(1, 9))
        self.slice = [(self.wide,), (1, self.wide), (2, self.wide)][rng.integers(3)]
        rank = len(self.slice)
        states, scanned, made = rng.integers(0, 3), rng.integers(1, 3), rng.integers(0, 3)
        if not states:
            made = max(made, 1)
        axes, out_axes = (rng.integers(-rank - 1, rank + 1, n).tolist() for n in (scanned, made))
        self.axes = axes
        inputs = [f"x{k}" for k in range(scanned)]
        begun = [f"s{k}" for k in range(states)]
        known = [k for k in range(states) if rng.random() < 0.3]
        for k in known:
            begun[k] = self.weight(self.slice)
        values = [f"state{k}" for k in range(states)] + [f"slice{k}" for k in range(scanned)]
        formals = [_info(name, self.slice) for name in values]
        values.append("around")
        for _ in range(rng.integers(1, 7)):
            values.append(self.operation(values))
        ends = [str(rng.choice(values[:-1])) for _ in range(states)]
        if states == 2 and rng.random() < 0.3:
            ends = ["state1", "state0"]
        ends += [str(rng.choice(values)) for _ in range(made)]
        results = [self.node("Identity", [end]) for end in ends]
        body = helper.make_graph(
            self.nodes, "body", formals, [_info(n, self.slice) for n in results]
        )
        lasts, joined = [f"last{k}" for k in range(states)], [f"all{k}" for k in range(made)]
        settings = {"scan_output_axes": out_axes} if made else {}
        scan = helper.make_node(
            "Scan",
            [*begun, *inputs],
            [*lasts, *joined],
            body=body,
            num_scan_inputs=int(scanned),
            scan_input_axes=axes,
            scan_input_directions=list(directions[:scanned]),
            **settings,
        )
        nodes = [helper.make_node("Tanh", ["outside"], ["around"]), scan]
        if rng.random() < 0.4:
            nodes.insert(0, helper.make_node("Neg", ["given"], ["x0"]))
        outer = [_info("outside", self.slice)]
        outer += [_info(begun[k], self.slice) for k in range(states) if k not in known]
        outer += [
            _info("given" if k == 0 and len(nodes) == 3 else name, self.whole(axis))
            for k, (name, axis) in enumerate(zip(inputs, axes, strict=True))
        ]
        outputs = [_info(n, self.slice) for n in lasts]
        outputs += [_info(n, self.whole(axis)) for n, axis in zip(joined, out_axes, strict=True)]
        keep = [o for o in outputs if rng.random() < 0.7] or outputs
        graph = helper.make_graph(nodes, "g", outer, keep, self.weights)
        self.model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        )
        self.feeds = {
            i.name: rng.uniform(-1, 1, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype(
                "f"
            )
            for i in self.model.graph.input
        }

    def whole(self, axis: int) -> tuple[int, ...]:
        at = axis % (len(self.slice) + 1)
        return (*self.slice[:at], self.turns, *self.slice[at:])

    def weight(self, shape: tuple[int, ...]) -> str:
        name = f"w{len(self.weights)}"
        values = self.rng.uniform(-0.7, 0.7, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op_type: str, inputs: list[str], **attributes: int) -> str:
        self.count += 1
        self.nodes.append(helper.make_node(op_type, inputs, [f"v{self.count}"], **attributes))
        return f"v{self.count}"

    def operation(self, values: list[str]) -> str:
        a, b = (str(one) for one in self.rng.choice(values, 2))
        kind = self.rng.integers(6)
        if kind == 0:
            return self.node("MatMul", [a, self.weight((self.wide, self.wide))])
        if kind == 1:
            return self.node(str(self.rng.choice(["Tanh", "Sigmoid", "Relu"])), [a])
        if kind == 2:
            return self.node("Mul", [a, self.weight(self.slice)])
        if kind == 3:
            joined = self.node("Concat", [self.node("Tanh", [a]), b], axis=-1)
            halves = [f"{joined}/{k}" for k in range(2)]
            self.nodes.append(helper.make_node("Split", [joined], halves, axis=-1))
            return self.node("Sub", halves)
        return self.node(str(self.rng.choice(["Add", "Sub"])), [self.node("Tanh", [a]), b])


def _one_layer(network: Network) -> bool:
    return [one.op_type for one in network.layers].count("Scan") == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(50))
def test_random_scans_are_those_of_onnxruntime(seed: int, backend: str) -> None:
    made = _Scan(seed)
    network = csdfgen.load(made.model)
    assert network.batch > 1 or _one_layer(network)
    plan = csdfgen.plan(network, backend=backend, rows=("1", "2", "5", "auto", "whole")[seed % 5])
    check(plan)
    found = runtime.run(plan, made.feeds)
    found = found if isinstance(found, dict) else {network.outputs[0].name: found}
    for name, wanted in reference(made.model, made.feeds).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(bool(compiler_missing()), reason="no compiler")
@pytest.mark.parametrize("seed", range(4))
def test_emitted_code_holds_the_states(seed: int, tmp_path: Path) -> None:
    made = _Scan(seed)
    program = Program(csdfgen.plan(csdfgen.load(made.model), rows=2, backend="native"), tmp_path)
    found = program(made.feeds)
    for name, wanted in reference(made.model, made.feeds).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(bool(device_missing()), reason=device_missing() or "-")
def test_devices_hold_the_states() -> None:
    made = _Scan(3)
    plan = csdfgen.plan(csdfgen.load(made.model), rows=2, backend="opencl")
    found = runtime.run(plan, made.feeds)
    found = found if isinstance(found, dict) else {plan.network.outputs[0].name: found}
    for name, wanted in reference(made.model, made.feeds).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)


def _cell(turns: int, *, last: bool = False, back: bool = False) -> onnx.ModelProto:
    """s = tanh(s + x R), along axis 1 of (1, turns, 8). last: only the last state is an output."""
    rng, sizes = np.random.default_rng(0), (1, 8)
    weights = {"R": rng.uniform(-0.3, 0.3, (8, 8))}
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["e", "R"], ["p"]),
            helper.make_node("Add", ["s", "p"], ["a"]),
            helper.make_node("Tanh", ["a"], ["t"]),
            helper.make_node("Identity", ["t"], ["o"]),
        ],
        "body",
        [_info("s", sizes), _info("e", sizes)],
        [_info("t", sizes), _info("o", sizes)],
    )
    scan = helper.make_node(
        "Scan",
        ["first", "x"],
        ["last", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=[int(back)],
    )
    outputs = [_info("last", sizes), _info("all", (1, turns, 8))]
    graph = helper.make_graph(
        [scan],
        "cell",
        [_info("first", sizes), _info("x", (1, turns, 8))],
        outputs[:1] if last else outputs,
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_turns_take_the_memory_of_a_few(backend: str) -> None:
    """One layer, and the slabs that are asked for, whatever the number of turns."""
    sizes = []
    for turns in (500, 5000):
        network = csdfgen.load(_cell(turns))
        assert len(network.layers) == 1
        plan = csdfgen.plan(network, rows=10, backend=backend, result="stored")
        sizes.append(plan.planned_bytes)
    assert sizes[0] == sizes[1] < 4 * 8 * 2 * (10 + 10)  # slabs, and what a turn makes


def test_the_last_state_alone_accumulates() -> None:
    made = _cell(60, last=True)
    plan = csdfgen.plan(csdfgen.load(made), rows=4)
    rng = np.random.default_rng(1)
    feeds = {
        "first": rng.normal(size=(1, 8)).astype("f"),
        "x": rng.normal(size=(1, 60, 8)).astype("f"),
    }
    (wanted,) = reference(made, feeds).values()
    np.testing.assert_allclose(runtime.run(plan, feeds)["last"], wanted, rtol=1e-4, atol=1e-5)
    assert plan.planned_bytes < 4 * 8 * 16


def test_turns_that_go_backwards_are_computed_whole() -> None:
    network = csdfgen.load(_cell(5, back=True))
    assert _one_layer(network) and csdfgen.plan(network, rows=1).order


def test_images_that_do_not_touch_run_one_by_one() -> None:
    """As they do where turns are written out."""
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3,8] first, float[3,5,8] x) => (float[3,5,8] all) {
            last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
                body = b (float[3,8] s, float[3,8] e) => (float[3,8] t, float[3,8] o) {
                    t = Add(s, e)
                    o = Identity(t)
                }> (first, x)
        }"""
    )
    network = csdfgen.load(made)
    assert network.batch == 3
    rng = np.random.default_rng(2)
    feeds = {
        "first": rng.normal(size=(3, 8)).astype("f"),
        "x": rng.normal(size=(3, 5, 8)).astype("f"),
    }
    (wanted,) = reference(made, feeds).values()
    np.testing.assert_allclose(
        runtime.run(csdfgen.plan(network), feeds)["all"], wanted, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("count", [-5, 0, 3, 2**62])
def test_a_number_of_sequences_that_is_not_there_is_refused(count: int) -> None:
    """Of an input without a length, before anything of that size is made."""
    made = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[turns,8] x, float[8] first) => (float[8] last) {{
            last = Scan <num_scan_inputs = {count},
                body = b (float[8] s, float[8] e) => (float[8] t) {{ t = Add(s, e) }}> (first, x)
        }}"""
    )
    with pytest.raises(ModelError, match=f"scans {count} of 2 operands"):
        csdfgen.load(made)
