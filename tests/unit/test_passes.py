"""Streams of networks whose rows depend on results of all rows: these are found in earlier passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError, PlanError
from tests.builder import Graph, reference
from tests.command import Call, refused
from tests.native_steps import COMPUTED_BY

Body = Callable[[Graph, str], str]


def squeezed(graph: Graph, x: str) -> str:
    """Channels weighted by their means, twice; the second means are an output, too."""
    for _ in range(2):
        mean = graph.node("GlobalAveragePool", x)
        x = graph.conv(graph.node("Mul", x, graph.node("Sigmoid", graph.conv(mean, 4, 1))), 4)
    return x


def weights(graph: Graph, count: int) -> str:
    return graph.constant(graph.rng.standard_normal(count).astype(np.float32))


def normalized(graph: Graph, x: str) -> str:
    far = graph.node("Add", x, graph.constant(np.float32(30)))  # by which squares are large
    x = graph.node("InstanceNormalization", far, weights(graph, 4), weights(graph, 4))
    return graph.conv(x, 2)


def grouped(graph: Graph, x: str) -> str:
    one = weights(graph, 4), weights(graph, 4)
    return graph.node("GroupNormalization", x, *one, num_groups=2, epsilon=0.5)


def attended(graph: Graph, x: str) -> str:
    """Weights of rows, which sum up to 1."""
    return graph.node("Mul", x, graph.node("Softmax", graph.conv(x, 4), axis=2))


def spelled(graph: Graph, x: str) -> str:
    """A mean of what the mean was subtracted from."""
    less = graph.node("Sub", x, graph.node("ReduceMean", x, axes=[2, 3]))
    return graph.node("Div", less, graph.node("ReduceMean", graph.node("Abs", less), axes=[2]))


def model(body: Body, rows: int) -> onnx.ModelProto:
    graph = Graph(opset=21 if body is grouped else 17)
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 3, rows, 6)), 4))
    y = body(graph, x)
    more = [name for name in graph.channels if body is squeezed and name.startswith("global")]
    return graph.model(y, *more, checked=False)


CASES: dict[Body, int] = {squeezed: 3, normalized: 2, grouped: 2, attended: 2, spelled: 3}


@pytest.mark.parametrize("backend", COMPUTED_BY)
@pytest.mark.parametrize("body", CASES)
def test_rows_are_read_again_for_each_result_of_all_rows(body: Body, backend: str) -> None:
    stream = csdfgen.plan_stream(model(body, 64), backend=backend, passes=3)
    assert 1 + len(stream.earlier) == CASES[body]
    frame = runtime.compile(stream)
    for rows in (3, stream.least + 2 * stream.turn + 1):
        x = np.random.default_rng(rows).standard_normal((1, 3, rows, 6)).astype(np.float32)
        parts = list(frame.stream(np.array_split(x, [1, rows // 2], 2)))
        for name, want in reference(model(body, rows), {"x": x}).items():
            found = [part[name] for part in parts if name in part]
            joined = np.concatenate(found, 2) if want.shape[2] > 1 else found[-1]
            np.testing.assert_allclose(joined, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("body", CASES)
def test_the_passes_that_are_needed_are_named(body: Body) -> None:
    for passes in range(1, CASES[body]):
        with pytest.raises(PlanError, match=f"run it with passes={CASES[body]}, "):
            csdfgen.plan_stream(model(body, 64), backend="numpy", passes=passes)


def test_one_pass_is_enough_for_what_streams() -> None:
    model = Graph()
    y = model.node("Relu", model.input("x", (1, 2, 64, 4)))
    stream = csdfgen.plan_stream(model.model(y), backend="numpy", passes=2)
    assert not stream.earlier


def test_rows_that_are_gone_are_not_read_again() -> None:
    stream = csdfgen.plan_stream(model(normalized, 64), backend="numpy", passes=2)
    x = np.ones((1, 3, 40, 6), np.float32)

    def rows() -> Iterator[np.ndarray]:
        yield x

    with pytest.raises(InputError, match="an array, or a list of arrays"):
        next(runtime.compile(stream).stream(rows()))


def test_the_command_reads_a_file_again(call: Call) -> None:
    onnx.save(model(normalized, 64), "net.onnx")
    x = np.random.default_rng(0).standard_normal((1, 3, 300, 6)).astype(np.float32)
    np.save("x.npy", x)
    words = ("run", "net.onnx", "--stream", "x.npy", "-o", "y.npy")
    assert "run it with --passes 2" in refused(call(*words))
    call(*words, "--passes", "2")
    (want,) = reference(model(normalized, 300), {"x": x}).values()
    np.testing.assert_allclose(np.load("y.npy"), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--passes 2", "--passes is of a --stream"),
        ("--stream x.npy -o y.npy --passes 2 --columns 4", "leave --passes out"),
        ("--stream - -o y.npy --passes 2", "standard input cannot"),
    ],
)
def test_what_is_not_read_again_is_refused(call: Call, words: str, message: str) -> None:
    onnx.save(model(normalized, 64), "net.onnx")
    assert message in refused(call("run", "net.onnx", *words.split()))
