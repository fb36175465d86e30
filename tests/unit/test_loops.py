"""Plans whose order and offsets repeat: the same values in an arena that does not grow with the image."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.registry import load_backend
from csdfgen.errors import PlanError
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.ops.base import LEAST
from csdfgen.planning.ordering import build_problem, search_least_peak
from csdfgen.planning.plan_file import write_plan
from csdfgen.planning.planner import plan_phased
from csdfgen.planning.prepared import Prepared, prepare
from csdfgen.planning.repeating import find_period
from schedules.peak.problem import evaluate
from schedules.peak.repeated import middle
from tests.native_steps import COMPUTED_BY


class _Graph:
    """Layers one behind the other; weights are seeded."""

    def __init__(self, channels: int) -> None:
        self.rng, self.nodes, self.weights = np.random.default_rng(0), [], []
        self.channels = {"x": channels}

    def constant(self, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value, f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def add(self, op_type: str, inputs: list[str], channels: int, **attributes: object) -> str:
        name = f"{op_type}{len(self.nodes)}".lower()
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        self.channels[name] = channels
        return name

    def conv(self, x: str, channels: int, size: int = 3, stride: int = 1, pad: int = 1) -> str:
        shape = (channels, self.channels[x], size, size)
        w = self.constant((self.rng.standard_normal(shape) / size).astype(np.float32))
        made = self.add("Conv", [x, w], channels, strides=[stride] * 2, pads=[pad] * 4)
        return self.add("Relu", [made], channels)

    def doubled(self, x: str) -> str:
        sizes = self.constant(np.array([1, 1, 2, 2], np.float32))
        return self.add("Resize", [x, "", sizes], self.channels[x], mode="linear")

    def model(self, y: str, height: int, width: int) -> onnx.ModelProto:
        x = helper.make_tensor_value_info(
            "x", TensorProto.FLOAT, [1, self.channels["x"], height, width]
        )
        out = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [out], self.weights)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def strided(height: int) -> onnx.ModelProto:
    one = _Graph(3)
    x = one.conv("x", 4, 5, pad=0)
    x = one.add("MaxPool", [x], 4, kernel_shape=[2, 2], strides=[2, 2])
    return one.model(one.conv(one.conv(x, 8, stride=2), 8, pad=0), height, 20)


def with_skips(height: int) -> onnx.ModelProto:
    one = _Graph(2)
    first = one.conv("x", 4)
    second = one.conv(one.conv(first, 8, stride=2), 8)
    x = one.doubled(one.conv(one.conv(second, 8, stride=2), 8))
    x = one.doubled(one.conv(one.add("Concat", [second, x], 16, axis=1), 4))
    return one.model(one.conv(one.add("Add", [first, x], 4), 2, 1, pad=0), height, 16)


def dilated(height: int) -> onnx.ModelProto:
    """Residuals of different length."""
    one = _Graph(4)
    x = "x"
    for rate in (1, 2, 4, 8):
        w = one.constant(one.rng.standard_normal((4, 4, 3, 1)).astype(np.float32) / 3)
        pads = [2 * rate, 0, 0, 0]
        y = one.add("Conv", [x, w], 4, dilations=[rate, 1], pads=pads)
        x = one.add("Add", [x, one.add("Relu", [y], 4)], 4)
    return one.model(x, height, 3)


MODELS = {"strided": strided, "with_skips": with_skips, "dilated": dilated}


def network(name: str, height: int) -> Network:
    return csdfgen.load(MODELS[name](height))


@cache
def planned(name: str, height: int = 1_100) -> csdfgen.Plan:
    """At the same slab heights, whatever the image."""
    rows = "auto" if height == 1_100 else planned(name).options.rows
    one = network(name, height)
    return csdfgen.plan(one, policy="loop", rows=rows, result="streamed", backend="numpy")


def prepared(name: str) -> Prepared:
    options = PlanOptions(rows=planned(name).options.rows, result="streamed", backend="numpy")
    return prepare(network(name, 1_100), options, load_backend("numpy"))


@pytest.mark.parametrize("backend", COMPUTED_BY)
@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_any_order(name: str, backend: str) -> None:
    """At heights with all remainders of the strides that the network takes."""
    step = 4 if name == "with_skips" else 1
    for height in range(300, 300 + 3 * step, step):
        one = network(name, height)
        x = np.random.default_rng(height).standard_normal(one.inputs[0].shape)
        plans = [csdfgen.plan(one, policy=policy, backend=backend) for policy in ("loop", "demand")]
        found, wanted = (runtime.compile(plan)(x.astype(np.float32)) for plan in plans)
        for y in wanted:
            np.testing.assert_allclose(found[y], wanted[y], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_arena_does_not_grow_with_the_height(name: str) -> None:
    low, tall = planned(name), planned(name, 2_200)
    assert low.planned_bytes == tall.planned_bytes
    assert len(tall.order) > 1.8 * len(low.order)


@pytest.mark.parametrize("name", MODELS)
def test_offsets_repeat(name: str) -> None:
    """A row lies where one lay so many rows before."""
    plan = planned(name)
    for buffer in plan.rolling:
        table = np.array(plan.regions[buffer.name].table)
        assert any((table[k:] == table[:-k]).all() for k in range(1, len(table) // 2 + 1))


@pytest.mark.parametrize("name", MODELS)
def test_it_takes_no_more_than_other_orders(name: str) -> None:
    """At the same heights, with the same scratch; a few percent, as rows of several periods lie apart."""
    phased = prepared(name).phased()
    phased = replace(phased, terms=replace(phased.terms, scratch=LEAST))
    best = plan_phased(prepared(name), phased)
    assert planned(name).planned_bytes <= 1.06 * best.planned_bytes


def test_it_is_kept_in_files(tmp_path: object) -> None:
    path = f"{tmp_path}/plan.json"
    write_plan(path, planned("strided"))
    again, before = csdfgen.read_plan(path, network("strided", 1_100)), planned("strided")
    assert again.order == before.order and again.regions == before.regions


def all_rows(height: int) -> onnx.ModelProto:
    one = _Graph(2)
    x = one.conv("x", 2)
    return one.model(one.add("Softmax", [x], 2, axis=2), height, 8)


@pytest.mark.parametrize(
    ("make", "height", "options", "message"),
    [
        (strided, 14, {}, "more rows"),
        (all_rows, 400, {}, "waits for"),
        (strided, 300, {"result": "arena"}, "keeps those of outputs"),
    ],
)
def test_networks_without_a_period_are_refused(
    make: object, height: int, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        csdfgen.plan(csdfgen.load(make(height)), policy="loop", backend="numpy", **options)  # type: ignore[operator]


@pytest.mark.parametrize("name", MODELS)
def test_a_period_keeps_alive_what_the_middle_of_an_image_does(name: str) -> None:
    """The peak of a period is that of the whole order between its ends, and no order of either is below the bound."""
    phased = prepared(name).phased()
    loop = find_period(phased)
    problem = build_problem(phased.conversion, phased.buffers, phased.scratch)
    order = loop.repeated.restricted(problem.phases)
    assert problem.is_order(order)
    live, length = evaluate(problem, order), loop.repeated.length
    here = middle(problem, loop.repeated)
    first = problem.base[here.word[0]] + here.before[here.word[0]]
    start = int(np.flatnonzero(order == first)[0])
    assert live[start : start + length].max() == loop.peak >= loop.bound
    assert problem.actor[order[start : start + length]].tolist() == here.word.tolist()
    best = search_least_peak(phased.conversion, phased.buffers, phased.scratch)
    assert loop.peak <= best.peak  # which has the ends of the image as well
