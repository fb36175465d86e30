"""Streams of networks whose rows depend on results of all rows: these are found in earlier passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError, PlanError
from csdfgen.reading.loader import read_heights
from csdfgen.streaming.columns import cut_columns
from csdfgen.streaming.runs import run_stream
from csdfgen.streaming.sources import open_source
from runtime.images import ImageOptions
from tests.builder import Graph, reference
from tests.command import Call, refused
from tests.native_steps import COMPUTED_BY
from tests.streaming_networks import draw_passes
from tests.unit.test_stream_files import RNG, Interrupted, quiet
from tests.ways import some

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


def layered(graph: Graph, x: str) -> str:
    """Over channels, rows and columns, of which scale and bias have the channels alone."""
    scale, bias = (
        graph.constant(graph.rng.standard_normal((4, 1, 1)).astype(np.float32)) for _ in range(2)
    )
    return graph.node("LayerNormalization", x, scale, bias, axis=1)


def standardized(graph: Graph, x: str) -> str:
    """Over rows and columns, and over rows alone."""
    x = graph.conv(x, 4)
    one = graph.node("MeanVarianceNormalization", x, axes=[0, 2])
    return graph.node("Add", one, graph.node("MeanVarianceNormalization", x))


def attended(graph: Graph, x: str) -> str:
    """Weights of rows, which sum up to 1."""
    return graph.node("Mul", x, graph.node("Softmax", graph.conv(x, 4), axis=2))


def spelled(graph: Graph, x: str) -> str:
    """A mean of what the mean was subtracted from."""
    less = graph.node("Sub", x, graph.node("ReduceMean", x, axes=[2, 3]))
    return graph.node("Div", less, graph.node("ReduceMean", graph.node("Abs", less), axes=[2]))


def model(body: Body, rows: int, columns: int = 6) -> onnx.ModelProto:
    graph = Graph(opset=21 if body is grouped else 17)
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 3, rows, columns)), 4))
    y = body(graph, x)
    means = body is squeezed and columns == 6
    more = [name for name in graph.channels if means and name.startswith("global")]
    return graph.model(y, *more, checked=False)


CASES: dict[Body, int] = {
    squeezed: 3,
    normalized: 2,
    grouped: 2,
    layered: 2,
    standardized: 2,
    attended: 2,
    spelled: 3,
}


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


@pytest.mark.parametrize("seed", range(some(6, 200)))
def test_random_networks_compute_what_onnxruntime_does(seed: int) -> None:
    net, backend = draw_passes(seed), COMPUTED_BY[seed % len(COMPUTED_BY)]
    plan = csdfgen.plan_stream(net.at(64), backend=backend, effort="0.001s", passes=3)
    frame, rows = runtime.compile(plan), net.step * (3 + seed % 50)
    x = np.random.default_rng(seed).standard_normal(frame.ins["x"].new(rows).shape)
    parts = list(frame.stream(np.array_split(x.astype(np.float32), [1, 1 + rows // 2], 2)))
    for name, want in reference(net.at(rows), {"x": x.astype(np.float32)}).items():
        found = np.concatenate([one[name] for one in parts if name in one], 2)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("read", [True, False])
def test_inputs_that_a_pass_does_not_read_are_given_all_the_same(read: bool) -> None:
    """And those that none reads; the first one counts rows, and each pass reads it."""

    def at(rows: int) -> onnx.ModelProto:
        graph = Graph()
        x, other = (graph.input(name, (1, 2, rows, 3)) for name in ("x", "other"))
        sums = graph.node("Add", x, other) if read else x
        y = graph.node("Mul", x, graph.node("GlobalMaxPool", sums))
        return graph.model(y, checked=False)

    frame = runtime.compile(csdfgen.plan_stream(at(64), backend="numpy", passes=2))
    feeds = {
        name: RNG.standard_normal((1, 2, 100, 3)).astype(np.float32) for name in ("x", "other")
    }
    parts = [
        {name: one[:, :, k : k + 10] for name, one in feeds.items()} for k in range(0, 100, 10)
    ]
    (name, want), *_ = reference(at(100), feeds).items()
    found = np.concatenate([one[name] for one in frame.stream(parts) if name in one], 2)
    np.testing.assert_allclose(found, want, rtol=1e-5)
    graph = Graph()
    graph.input("x", (1, 2, 64, 3))
    y = graph.node("Relu", graph.input("other", (1, 2, 64, 3)))
    with pytest.raises(PlanError, match="rows of 'x', which not every pass reads"):
        csdfgen.plan_stream(graph.model(y, checked=False), backend="numpy")


def test_what_is_the_same_everywhere_becomes_zero() -> None:
    """Though the deviation is that of rounding alone."""
    graph = Graph()
    y = graph.node("MeanVarianceNormalization", graph.input("x", (1, 2, 64, 6)))
    frame = runtime.compile(
        csdfgen.plan_stream(graph.model(y, checked=False), backend="numpy", passes=2)
    )
    for made in frame.stream(np.full((1, 2, 100, 6), 30, np.float32)):
        np.testing.assert_array_equal(made[y], 0)


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
        ("--stream - -o y.npy --passes 2", "standard input cannot"),
    ],
)
def test_what_is_not_read_again_is_refused(call: Call, words: str, message: str) -> None:
    onnx.save(model(normalized, 64), "net.onnx")
    assert message in refused(call("run", "net.onnx", *words.split()))


@pytest.mark.parametrize("body", [squeezed, normalized, grouped])
def test_strips_share_what_all_rows_and_columns_give(call: Call, body: Body) -> None:
    onnx.save(model(body, 64, 47), "net.onnx")
    x = np.random.default_rng(0).standard_normal((1, 3, 70, 47)).astype(np.float32)
    np.save("x.npy", x)
    words = ("run", "net.onnx", "--stream", "x.npy", "-o", "y.npy", "--columns", "24")
    assert "run it with --passes" in refused(call(*words))
    call(*words, "--passes", "3")
    (want,) = reference(model(body, 70, 47), {"x": x}).values()
    np.testing.assert_allclose(np.load("y.npy"), want, rtol=1e-4, atol=1e-5)


def test_strips_share_them_behind_an_interruption(tmp_path: Path) -> None:
    """What earlier passes found is kept with the state."""
    onnx.save(model(normalized, 64, 47), tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", RNG.standard_normal((1, 3, 70, 47)).astype(np.float32))
    network = csdfgen.load(tmp_path / "net.onnx")
    cut = cut_columns(read_heights(network.source, network, across=1), 47, 24)
    frame = runtime.compile(csdfgen.plan_stream(cut, backend="numpy", passes=2))
    source = open_source(tmp_path / "x.npy", cut.whole.inputs[0], ImageOptions(), wide=True)
    wanted, parts = tmp_path / "a.raw", tmp_path / "b.raw"
    run_stream(frame, source, wanted, cut=cut, progress=quiet)
    reads = 4 * len(cut.strips)  # 31 rows, 31, 8 and none
    with pytest.raises(KeyboardInterrupt, match="62 rows of strip 1 of"):
        run_stream(frame, Interrupted(source, reads + 2), parts, cut=cut, progress=quiet)
    run_stream(frame, source, parts, cut=cut, resume=True, progress=quiet)
    assert wanted.read_bytes() == parts.read_bytes()


def test_what_each_column_has_is_not_shared(call: Call) -> None:
    onnx.save(model(attended, 64, 47), "net.onnx")
    np.save("x.npy", np.zeros((1, 3, 70, 47), np.float32))
    words = ("run", "net.onnx", "--stream", "x.npy", "-o", "y.npy", "--columns", "24")
    message = refused(call(*words, "--passes", "2"))
    assert "has a result for each column, which strips do not share; leave --columns" in message
