"""Models of one step, which take states and return them, as streams of steps."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from tests.builder import Graph, reference
from tests.command import Call, refused
from tests.native_steps import COMPUTED_BY

VALUES, CACHED, HIDDEN = 8, 3, 16


class Step(NamedTuple):
    """A model, and the output that each state takes on."""

    model: onnx.ModelProto
    states: dict[str, str]


@cache
def step(frames: int, gain: bool = False) -> Step:
    """A causal convolution, whose last inputs are a state, and a GRU, of some frames a step. gain: one more input."""
    graph = Graph()

    def weights(*shape: int) -> str:
        return graph.constant((graph.rng.standard_normal(shape) / 3).astype(np.float32))

    def numbers(*values: int) -> str:
        return graph.constant(np.array(values, np.int64))

    x = graph.input("x", (1, 1, VALUES * frames))
    h, before = graph.input("h", (1, 1, HIDDEN)), graph.input("before", (1, CACHED, VALUES))
    if gain:
        x = graph.node("Mul", x, graph.input("gain", (1,)))
    now = graph.node("Reshape", x, numbers(1, frames, VALUES))
    seen = graph.node("Concat", before, now, axis=1)
    kept = graph.node("Slice", seen, numbers(-CACHED), numbers(2**31), numbers(1))
    columns = graph.node("Transpose", seen, perm=[0, 2, 1])
    y = graph.node("Conv", columns, weights(VALUES, VALUES, CACHED + 1), channels=VALUES)
    y = graph.node("Transpose", y, perm=[2, 0, 1])
    gates = weights(1, 3 * HIDDEN, VALUES), weights(1, 3 * HIDDEN, HIDDEN)
    y = graph.node("GRU", y, *gates, "", "", h, outputs=2, hidden_size=HIDDEN)
    mask = graph.node("MatMul", graph.node("Squeeze", y, numbers(1)), weights(HIDDEN, VALUES))
    states = {"h": f"{y[:-1]}1", "before": kept}
    return Step(graph.model(graph.node("Sigmoid", mask), *states.values(), checked=False), states)


def by_hand(one: Step, rows: np.ndarray, **more: np.ndarray) -> np.ndarray:
    """What onnxruntime computes step by step."""
    states = {"h": np.zeros((1, 1, HIDDEN)), "before": np.zeros((1, CACHED, VALUES))}
    states, found = {name: array.astype(np.float32) for name, array in states.items()}, []
    for row in rows:
        made = reference(one.model, {"x": row, **states, **more})
        states = {name: made[end] for name, end in one.states.items()}
        found.append(next(iter(made.values())))
    return np.stack(found)


@pytest.mark.parametrize("backend", COMPUTED_BY)
@pytest.mark.parametrize("frames", [1, 4])
def test_states_go_from_step_to_step(frames: int, backend: str) -> None:
    one, rng = step(frames), np.random.default_rng(frames)
    stream = csdfgen.plan_stream(one.model, stateful=one.states, backend=backend)
    assert stream.facts()["latency"] == 1  # a step is done as it comes
    rows = rng.standard_normal((30, 1, 1, VALUES * frames)).astype(np.float32)
    s = runtime.compile(stream).open()
    found = [s.push(part) for part in np.array_split(rows, [1, 2, 17])]
    joined = np.concatenate([*(made for part in (*found, s.finish()) for made in part.values())])
    np.testing.assert_allclose(joined, by_hand(one, rows), rtol=1e-4, atol=1e-5)


def test_an_input_of_all_steps_is_fixed() -> None:
    one, gain = step(1, gain=True), np.array([0.5], np.float32)
    stream = csdfgen.plan_stream(one.model, stateful=one.states, fix={"gain": 0.5}, backend="numpy")
    rows = np.random.default_rng(0).standard_normal((9, 1, 1, VALUES)).astype(np.float32)
    found = [array for made in runtime.compile(stream).stream(rows) for array in made.values()]
    np.testing.assert_allclose(np.concatenate(found), by_hand(one, rows, gain=gain), atol=1e-5)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"H": "x"}, "no input 'H'; there is x, h, before"),
        ({"h": "H"}, "no output 'H'; there is sigmoid"),
        (dict.fromkeys(("x", "h", "before"), step(1).model.graph.output[0].name), "beside"),
    ],
)
def test_states_that_there_are_not_are_refused(states: dict[str, str], message: str) -> None:
    with pytest.raises(CsdfgenError, match=message):
        csdfgen.plan_stream(step(1).model, stateful=states)


def test_the_command_runs_steps(call: Call) -> None:
    one = step(1)
    onnx.save(one.model, "step.onnx")
    rows = np.random.default_rng(1).standard_normal((20, 1, 1, VALUES)).astype(np.float32)
    np.save("x.npy", rows)
    words = ["run", "step.onnx", "--stream", "x.npy", "-o", "y.npy"]
    states = [word for pair in one.states.items() for word in ("--stateful", "=".join(pair))]
    assert call(*words, *states).code == 0
    np.testing.assert_allclose(np.load("y.npy"), by_hand(one, rows), rtol=1e-4, atol=1e-5)
    assert "needs IN=OUT" in refused(call(*words, "--stateful", "h"))
    assert "there is no output" in refused(call(*words, "--stateful", "h=nothing"))
    assert "is of a --stream" in refused(call("run", "step.onnx", *states))
    assert "leave --columns out" in refused(call(*words, *states, "--columns", "4"))
