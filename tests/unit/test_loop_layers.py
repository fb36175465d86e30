"""A Loop, or a Scan in any direction, is one layer: its body is a program that is executed once a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.registry import load_backend
from csdfgen.errors import CsdfgenError, ModelError
from csdfgen.lowering.program import lower
from csdfgen.planning.checker import check
from csdfgen.reading import unrolling
from tests.builder import reference
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.opencl_device import device_missing
from tests.unit.test_scanned import BACKENDS, _Scan

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@pytest.fixture(autouse=True)
def _as_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few operations, too."""
    monkeypatch.setattr(unrolling, "SHORT", -1)


def _info(name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


class _Loop:
    """A random Loop: up to three states of several shapes, a number of turns that is constant or an input, a condition of the
    states, and of constants; results of all turns where their number is known; an If or a Scan in its body, and layers around.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.made = 0
        states = int(rng.integers(1, 4))
        shapes = [((1, 8), (3, 8), (2, 3, 8))[rng.integers(3)] for _ in range(states)]
        self.turns = int(rng.choice([0, 1, 2, 7, 30]))
        counted, ends = str(rng.choice(["constant", "input", "none"])), rng.random() < 0.5
        if counted == "none":
            ends, self.turns = True, 40
        values = [(f"s{k}", shape) for k, shape in enumerate(shapes)] + [("around", (1, 8))]
        for _ in range(rng.integers(1, 6)):
            values.append(self.operation(values))
        results = []
        for shape in shapes:
            same = [name for name, other in values if other == shape]
            results.append(self.node("Tanh", [str(rng.choice(same))]))
        going = self.node("Identity", ["go"])
        if ends:
            total = self.node("ReduceSum", [self.node("Abs", [results[0]])], keepdims=0)
            some = self.node("Greater", [total, self.weight(np.float32(rng.uniform(0, 3)))])
            first = self.node("Less", ["turn", self.weight(np.int64(rng.integers(0, 40)))])
            going = self.node("And", [some, first])
        begins = str(rng.choice(["", "go", "first"]))
        known = begins != "first" and not ends and counted == "constant" and self.turns > 0
        many = range(rng.integers(0, 3) if known else 0)
        made = [self.node("Identity", [str(rng.choice(results))]) for _ in many]
        forms = dict(zip(results, shapes, strict=True))
        of_made = [forms[n.input[0]] for n in self.nodes if n.output[0] in made]
        body = helper.make_graph(
            self.nodes,
            "body",
            [_info("turn", (), TensorProto.INT64), _info("go", (), TensorProto.BOOL)]
            + [_info(f"s{k}", shape) for k, shape in enumerate(shapes)],
            [_info(going, (), TensorProto.BOOL)]
            + [
                _info(n, s)
                for n, s in (*zip(results, shapes, strict=True), *zip(made, of_made, strict=True))
            ],
        )
        inputs = [_info(f"x{k}", shape) for k, shape in enumerate(shapes)] + [_info("y", (1, 8))]
        count = {"none": "", "input": "count"}.get(counted, "")
        if counted == "input":
            inputs.append(_info("count", (), TensorProto.INT64))
        if counted == "constant":
            count = self.weight(np.int64(self.turns))
        if begins == "go":
            begins = self.weight(np.bool_(True))
        elif begins:
            inputs.append(_info("first", (), TensorProto.BOOL))
        lasts, joined = [f"last{k}" for k in range(states)], [f"all{k}" for k in range(len(made))]
        loop = helper.make_node(
            "Loop", [count, begins, *(f"x{k}" for k in range(states))], [*lasts, *joined], body=body
        )
        outputs = [_info(n, s) for n, s in zip(lasts, shapes, strict=True)]
        outputs += [_info(n, (self.turns, *s)) for n, s in zip(joined, of_made, strict=True)]
        graph = helper.make_graph(
            [helper.make_node("Neg", ["y"], ["around"]), loop], "g", inputs, outputs, self.weights
        )
        opsets = [helper.make_opsetid("", 17)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        self.feeds = {
            i.name: rng.uniform(-1, 1, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype(
                "f"
            )
            for i in inputs
        }
        if counted == "input":
            self.feeds["count"] = np.array(self.turns, np.int64)
        if begins == "first":
            self.feeds["first"] = np.array(rng.random() < 0.7)

    def weight(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        self.made += 1
        self.nodes.append(helper.make_node(op_type, inputs, [f"v{self.made}"], **attributes))
        return f"v{self.made}"

    def operation(self, values: list[tuple[str, tuple[int, ...]]]) -> tuple[str, tuple[int, ...]]:
        rng = self.rng
        name, shape = values[rng.integers(len(values))]
        same = [one for one, other in values if other == shape]
        other = str(rng.choice(same))
        kind = rng.integers(6)
        if kind == 0:
            weight = self.weight(rng.uniform(-0.6, 0.6, (8, 8)).astype("f"))
            return self.node("MatMul", [name, weight]), shape
        if kind == 1:
            return self.node("Softmax", [name], axis=-1), shape
        if kind == 2:
            number = self.node("Cast", ["turn"], to=TensorProto.FLOAT)
            return self.node("Mul", [name, self.node("Sin", [number])]), shape
        if kind == 3:
            total = self.node("ReduceMean", [name], keepdims=0)
            branches = {
                f"{k}_branch": helper.make_graph(
                    [helper.make_node(op, [name], [f"{name}{self.made}{k}"])],
                    k,
                    [],
                    [_info(f"{name}{self.made}{k}", shape)],
                )
                for k, op in (("then", "Sigmoid"), ("else", "Neg"))
            }
            positive = self.node("Greater", [total, self.weight(np.float32(0))])
            return self.node("If", [positive], **branches), shape
        if kind == 4 and len(shape) == 2:
            inner = helper.make_graph(
                [
                    helper.make_node("Add", ["a", "b"], ["c"]),
                    helper.make_node("Tanh", ["c"], ["d"]),
                ],
                "inner",
                [_info("a", shape[1:]), _info("b", shape[1:])],
                [_info("c", shape[1:]), _info("d", shape[1:])],
            )
            begin = self.weight(np.zeros(shape[1:], np.float32))
            self.made += 1
            unread, made = f"u{self.made}", f"scan{self.made}"
            self.nodes.append(
                helper.make_node(
                    "Scan", [begin, name], [unread, made], body=inner, num_scan_inputs=1
                )
            )
            return made, shape
        return self.node(str(rng.choice(["Add", "Sub", "Mul"])), [name, other]), shape


def _compare(found: Any, model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    for name, wanted in reference(model, feeds).items():
        one = found[name] if isinstance(found, dict) else found
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(40))
def test_random_loops_are_those_of_onnxruntime(seed: int, backend: str) -> None:
    made = _Loop(seed)
    network = csdfgen.load(made.model)
    assert not made.turns or any(one.op_type == "Loop" for one in network.layers)
    plan = csdfgen.plan(network, backend=backend, rows=("1", "3", "auto", "whole")[seed % 4])
    check(plan)
    _compare(runtime.run(plan, made.feeds), made.model, made.feeds)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(100, 108))
def test_scans_go_in_any_direction(seed: int, backend: str) -> None:
    made = _Scan(seed, directions=(seed % 2, seed // 2 % 2))
    network = csdfgen.load(made.model)
    assert network.batch > 1 or any(one.op_type == "Scan" for one in network.layers)
    _compare(
        runtime.run(csdfgen.plan(network, backend=backend), made.feeds), made.model, made.feeds
    )


@needs_compiler
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5])
def test_emitted_code_and_saved_programs_loop(seed: int, tmp_path: Path) -> None:
    made = _Loop(seed)
    plan = csdfgen.plan(csdfgen.load(made.model), backend="native", rows=2)
    program = Program(plan, tmp_path)
    _compare(program(made.feeds), made.model, made.feeds)
    runtime.compile(plan).save(tmp_path / "net.csdfgen")
    _compare(runtime.open(tmp_path / "net.csdfgen")(made.feeds), made.model, made.feeds)
    _compare(runtime.compile(plan, threads=2)(made.feeds), made.model, made.feeds)


def _counted(turns: int) -> onnx.ModelProto:
    """s = tanh(s R) so many times, and all of them."""
    weights = {"R": np.full((8, 8), 0.2, np.float32), "n": np.int64(turns)}
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "R"], ["p"]),
            helper.make_node("Tanh", ["p"], ["t"]),
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Identity", ["t"], ["o"]),
        ],
        "body",
        [_info("i", (), TensorProto.INT64), _info("c", (), TensorProto.BOOL), _info("s", (1, 8))],
        [_info("d", (), TensorProto.BOOL), _info("t", (1, 8)), _info("o", (1, 8))],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    kept = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    graph = helper.make_graph(
        [loop],
        "g",
        [_info("x", (1, 8))],
        [_info("last", (1, 8)), _info("all", (turns, 1, 8))],
        kept,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@needs_compiler
def test_programs_do_not_grow_with_the_turns() -> None:
    sizes = []
    for turns in (100, 100_000):
        network = csdfgen.load(_counted(turns))
        plan = csdfgen.plan(network, backend="native", rows=50, result="stored")
        whole = csdfgen.plan(network, backend="native", rows="whole")
        program = lower(whole, load_backend("native"))
        tables = {name: len(rows) for name, rows in program.constants.tables.items()}
        sizes.append((plan.planned_bytes, len(program.instructions), tables))
    assert sizes[0] == sizes[1]


_UNTIL = """<ir_version: 8, opset_import: ["" : 17]>
    g (int64 count, float[1,4] x) => (float[1,4] y%s) {
        y%s = Loop <body = b (int64 i, bool c, float[1,4] s) => (bool d, float[1,%s] t%s) {
            d = Identity(c)
            t = %s
            %s
        }> (count, , x)
    }"""


def test_what_cannot_loop_is_refused_with_a_reason() -> None:
    rows = _UNTIL % (", float[n,1,4] all", ", all", "4", ", float[1,4] o", "Tanh(s)", "o = Neg(t)")
    grows = _UNTIL % ("", "", "8", "", "Concat <axis = 1> (s, s)", "")
    for text, why in (
        (rows, "remove its outputs of all turns"),
        (grows, "1x4 before a turn and 1x8 behind"),
    ):
        with pytest.raises(ModelError, match=why) as found:
            csdfgen.load(onnx.parser.parse_model(text))
        assert "\n" not in str(found.value)
    counted = csdfgen.load(onnx.parser.parse_model(_UNTIL % ("", "", "4", "", "Tanh(s)", "")))
    assert any(one.op_type == "Loop" for one in counted.layers)
    if not device_missing():
        with pytest.raises(CsdfgenError, match="take backend native or numpy"):
            runtime.compile(csdfgen.plan(counted, backend="opencl"))
