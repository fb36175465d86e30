"""Emitted C that takes rows without a last one: the outputs are those of an image of as many rows, whenever a stream ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import csdfgen
import runtime
from csdfgen.emission.emit import emit, whole_unit
from csdfgen.emission.project import OPTIMISED
from csdfgen.planning.plan import Plan
from csdfgen.planning.streams import StreamPlan
from tests.board_networks import absent_board
from tests.builder import Graph
from tests.command import Call, refused
from tests.emitted import compile_source
from tests.native_steps import compiler_missing
from tests.quantized_models import quantized
from tests.streaming_networks import Streaming, draw_passes, draw_streaming
from tests.unit.test_loops import MODELS
from tests.unit.test_passes import CASES as PASSES
from tests.unit.test_passes import model, normalized, spelled
from tests.unit.test_steps import step
from tests.ways import some

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


def sums(height: int) -> onnx.ModelProto:
    """Of two inputs, one of which has half of the rows; two outputs."""
    shapes = {"a": [1, 2, height, 4], "b": [1, 2, height // 2, 4], "y": None, "z": None}
    a, b, y, z = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    nodes = [
        helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[2, 1], strides=[2, 1]),
        helper.make_node("Add", ["p", "b"], ["y"]),
        helper.make_node("AveragePool", ["y"], ["z"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(nodes, "g", [a, b], [y, z])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def bytes_(height: int) -> onnx.ModelProto:
    return quantized(MODELS["strided"](height), "QDQ")


def begun(height: int) -> onnx.ModelProto:
    """A state that is given once, and its last value; a factor of all rows."""
    graph = Graph()
    x, h, by = (
        graph.input(name, shape)
        for name, shape in (("x", (height, 1, 4)), ("h", (1, 1, 3)), ("by", (1, 1, 1)))
    )
    w, r = (graph.constant(graph.rng.standard_normal((1, 9, n)).astype(np.float32)) for n in (4, 3))
    x = graph.node("Mul", x, graph.node("Neg", by))
    y = graph.node("GRU", x, w, r, "", "", h, outputs=2, hidden_size=3)
    return graph.model(y, f"{y[:-1]}1", checked=False)


def scaled(height: int) -> onnx.ModelProto:
    """By what is given once, without a border."""
    graph = Graph()
    x, by = graph.input("x", (1, 2, height, 4)), graph.input("by", (1, 2, 1, 1))
    return graph.model(graph.node("Mul", x, graph.node("Neg", by)), checked=False)


def pooled(op_type: str, height: int, **given: Any) -> onnx.ModelProto:
    """A result of all rows behind a convolution, and a layer behind it."""
    graph = Graph()
    y = graph.node(op_type, graph.conv(graph.input("x", (1, 2, height, 4)), 3), **given)
    return graph.model(graph.conv(y, 2, 1), checked=False)


def mean_of_bytes(height: int) -> onnx.ModelProto:
    return quantized(pooled("GlobalAveragePool", height), "QDQ")


def last_state(height: int) -> onnx.ModelProto:
    """Layers behind the last state of a GRU."""
    graph = Graph()
    w, r = (graph.constant(graph.rng.standard_normal((1, 9, n)).astype(np.float32)) for n in (4, 3))
    y = graph.node("GRU", graph.input("x", (height, 1, 4)), w, r, outputs=2, hidden_size=3)
    scores = graph.node("MatMul", f"{y[:-1]}1", graph.constant(np.eye(3, dtype=np.float32)))
    return graph.model(graph.node("Softmax", scores, axis=-1), checked=False)


def cropped(height: int) -> onnx.ModelProto:
    """Of two inputs, one of which has half of the rows, without their last rows; the greatest of the rest."""
    graph = Graph()
    a, b = (graph.input(name, (1, 2, height // n, 4)) for name, n in (("a", 1), ("b", 2)))
    sums = graph.node("Add", graph.node("MaxPool", a, kernel_shape=[2, 1], strides=[2, 1]), b)
    y = graph.node("Pad", sums, graph.constant(np.array([0, 0, 0, 0, 0, 0, -5, 0])))
    return graph.model(y, graph.node("ReduceMax", y, axes=[2, 3]), checked=False)


CASES = {
    "dilated": MODELS["dilated"],
    "sums": sums,
    "bytes": bytes_,
    "begun": begun,
    "scaled": scaled,
    "greatest": partial(pooled, "GlobalMaxPool"),
    "mean": partial(pooled, "GlobalAveragePool"),
    "reduced": partial(pooled, "ReduceMean", axes=[2, 3]),
    "mean of bytes": mean_of_bytes,
    "last state": last_state,
    "cropped": cropped,
}


SANITIZED = "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"


def built(stream: StreamPlan, folder: Path, *flags: str) -> Path:
    """The program of main.c, for the machine that compiles it."""
    emit(stream, "net", folder, target="generic")
    return linked(folder, *flags)


def linked(folder: Path, *flags: str) -> Path:
    """The program of what is in a folder."""
    files = [str(one.relative_to(folder)) for one in sorted(folder.rglob("*.[cS]"))]
    command = ["cc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", *OPTIMISED, *flags]
    command += ["-DCSDF_SCALAR", "-I.", "-Ikernels"]
    made = [compile_source(folder, one, command) for one in files]
    assert not any(said for _, said in made)
    objects = [path for path, _ in made]
    subprocess.run([*command, "-o", "net", *objects, "-lm"], cwd=folder, check=True)
    return folder / "net"


def feed(stream: StreamPlan, rows: int, folder: Path) -> tuple[dict[str, np.ndarray], list[str]]:
    """Random inputs of so many rows of the first one, and files with them row by row."""
    network = (*stream.earlier, stream)[0].at(rows).network
    rng, feeds, files = np.random.default_rng(rows), {}, []
    for one in network.inputs:
        feeds[one.name] = rng.standard_normal(one.shape).astype(one.dtype)
        files.append(str(folder / f"{one.name}.in"))
        np.moveaxis(feeds[one.name], one.row_axis or 0, 0).tofile(files[-1])
    return feeds, files


def compare(
    program: Path,
    frame: runtime.StreamProgram,
    feeds: Mapping[str, np.ndarray],
    files: Sequence[str],
) -> None:
    """With a native stream; rows come one by one here, all at once there."""
    parts, out = list(frame.stream(feeds)), program.parent / "out"
    subprocess.run([program, "-o", str(out), *files], check=True)
    for name in frame.outputs:
        wanted = np.concatenate([one[name] for one in parts if name in one], 2)
        end = "" if len(frame.outputs) == 1 else f".{name}"
        found = np.fromfile(f"{out}{end}", wanted.dtype)
        expected = np.moveaxis(wanted, 2, 0).ravel()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def heights(stream: StreamPlan) -> Sequence[int]:
    """Where streams may end: in the first rows, in the middle, many turns later."""
    period, turn, least = stream.period, stream.turn, stream.least
    low = -(-least // period) * period
    return period, 2 * period, low, low + turn - period, low + turn, low + 3 * turn + period


@pytest.mark.parametrize("name", CASES)
def test_a_stream_ends_like_an_image_of_as_many_rows(name: str, tmp_path: Path) -> None:
    stream = csdfgen.plan_stream(CASES[name](256), backend="native", exact=True)
    program = built(stream, tmp_path / "c")
    for rows in heights(stream):
        plan = stream.at(rows)
        feeds, files = feed(stream, rows, tmp_path)
        wanted = runtime.compile(plan)(feeds)
        subprocess.run([program, "-o", str(tmp_path / "out"), *files], check=True)
        for one in plan.network.outputs:
            tensor = one.tensor
            assert tensor is not None
            end = "" if len(wanted) == 1 else f".{one.name}"
            found = np.fromfile(tmp_path / f"out{end}", tensor.dtype)
            expected = np.moveaxis(wanted[one.name], tensor.row_axis or 0, 0)
            np.testing.assert_allclose(found, expected.ravel(), rtol=1e-5, atol=1e-5)


def weighted(rows: int) -> onnx.ModelProto:
    """By the greatest sum with another input, which no row needs behind the first pass."""
    graph = Graph()
    x, other = (graph.input(name, (1, 4, rows, 6)) for name in ("x", "other"))
    most = graph.node("GlobalMaxPool", graph.node("Add", x, other))
    return graph.model(graph.node("Mul", x, most), checked=False)


@pytest.mark.parametrize(
    "network", [weighted, *(pytest.param(partial(model, one), id=one.__name__) for one in PASSES)]
)
def test_rows_are_given_again_for_each_result_of_all_rows(
    network: Callable[[int], onnx.ModelProto], tmp_path: Path
) -> None:
    stream = csdfgen.plan_stream(network(64), backend="native", passes=3)
    program, frame = built(stream, tmp_path / "c"), runtime.compile(stream)
    step = lcm(*(one.period for one in (*stream.earlier, stream)))
    least = -(-stream.least // step) * step
    for rows in (step, least + 2 * stream.turn + step):
        compare(program, frame, *feed(stream, rows, tmp_path))


@pytest.mark.networks
@pytest.mark.parametrize(
    ("draw", "seed"),
    [(draw, seed) for draw in (draw_streaming, draw_passes) for seed in range(some(3, 24))],
)
def test_random_networks_are_those_of_native_streams(
    draw: Callable[[int], Streaming], seed: int, tmp_path: Path
) -> None:
    """Compiled with sanitizers."""
    net = draw(seed)
    stream = csdfgen.plan_stream(net.at(64), backend="native", effort="0.001s", passes=3)
    program, frame = built(stream, tmp_path / "c", *SANITIZED), runtime.compile(stream)
    step = lcm(*(one.period for one in (*stream.earlier, stream)), net.step)
    for rows in (step, -(-(stream.least + stream.turn) // step) * step):
        compare(program, frame, *feed(stream, rows, tmp_path))


@pytest.mark.parametrize("name", CASES)
def test_every_end_is_stored_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have what an end does otherwise than the loop, once for each place of it; of images few are planned."""
    stream = csdfgen.plan_stream(CASES[name](256), backend="native")
    planned, at = list[int](), StreamPlan.at

    def count(self: StreamPlan, rows: int) -> Plan:
        planned.append(rows)
        return at(self, rows)

    monkeypatch.setattr(StreamPlan, "at", count)
    tables = whole_unit(stream, "net", "").tables
    loop = tables.loop
    assert loop is not None
    places = [one.at for one in loop.endings]
    assert len(places) == len(set(places))
    assert sum(place >= loop.start for place in places) <= stream.turn // stream.period
    counted = 5 * stream.counts_rows
    assert len(planned) <= 1 + counted + sum(place < loop.start for place in places)
    assert len(tables.order) == loop.stop + sum(own for *_, own in loop.pieces)


def test_ends_have_as_many_entries_of_their_own_as_there_are_layers() -> None:
    """One for the border that each has, of the square of them that an end executes."""
    for layers in (4, 8):
        graph = Graph()
        x = graph.input("x", (1, 2, 64, 4))
        for _ in range(layers):
            x = graph.conv(x, 2, 3)
        stream = csdfgen.plan_stream(graph.model(x), backend="native", rows="1")
        loop = whole_unit(stream, "net", "").tables.loop
        assert loop is not None
        last = loop.pieces[loop.endings[-1].first : loop.endings[-1].stop]
        assert sum(one for _, one, _ in last) > layers * (layers - 1) // 2
        assert sum(own for *_, own in last) <= layers + 1


DRIVER = """
#include "net.h"
#include <stdio.h>

static net_t memory[2];
static net_stream streams[2], kept;
static float sums[2];
static uint64_t rows[2];

static void take(void *user, uint64_t row, const float *values)
{
    const int which = *(const int *)user;
    rows[which] = row;
    for (int k = 0; k < NET_%(output)s_PER_ROW; k++)
        sums[which] += values[k] * (float)(1 + row %% 7);
}

int main(void)
{
    static int number[2] = {0, 1};
    static float row[NET_X_PER_ROW];
    for (int k = 0; k < 2; k++) {
        const net_sink sink = {number + k, take};
        net_stream_begin(streams + k, memory + k, &sink);
    }
    for (int at = 0; at < %(rows)d; at++)
        for (int k = 0; k < 2; k++) { /* two streams, in turns */
            for (int x = 0; x < NET_X_PER_ROW; x++)
                row[x] = (float)((at * 31 + x * 17) %% 23) - 11;
            if (at == %(rows)d - 1 && NET_ENDS > 1 && net_stream_finish(streams + k))
                return 1; /* in the middle of a slab, or of a period */
            if (net_stream_push_row(streams + k, row) != 1)
                return 2;
        }
    kept = streams[0];
    const net_t before = memory[0];
    const float sum = sums[0];
    if (!net_stream_finish(streams) || !net_stream_finish(streams + 1) || sums[0] != sums[1])
        return 3;
    const uint64_t last = rows[0];
    const float whole = sums[0];
    static const uint64_t more[] = {(1ull << 31) - 5, (1ull << 32) - 5, 1ull << 32};
    for (int k = 0; k < 3; k++) { /* and again from the copy, as if so many turns were behind it */
        memory[0] = before;
        streams[0] = kept;
        streams[0].turns += more[k];
        sums[0] = sum;
        if (!net_stream_finish(streams) || rows[0] != last + (uint64_t)%(turn)d * more[k])
            return 4;
    }
    printf("%%.6g %%u\\n", (double)whole, (unsigned)last);
    return 0;
}
"""


@pytest.mark.networks
def test_streams_side_by_side_go_on_from_copies_and_count_beyond_32_bits(tmp_path: Path) -> None:
    stream = csdfgen.plan_stream(MODELS["strided"](256), backend="native")
    rows = -(-(stream.least + 2 * stream.turn) // stream.period) * stream.period
    network = stream.at(rows).network
    (one,), (output,) = network.inputs, network.outputs
    emit(stream, "net", tmp_path / "c", target="generic")
    more = stream.at(rows + stream.turn).network.outputs[0].tensor
    assert more is not None and output.tensor is not None
    turn = more.rows - output.tensor.rows
    words = {"rows": rows, "turn": turn, "output": output.name.upper()}
    (tmp_path / "c" / "main.c").write_text(DRIVER % words)
    program = linked(tmp_path / "c", *SANITIZED)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    x = (np.arange(rows)[:, None] * 31 + np.arange(one.row_elements) * 17) % 23 - 11
    end = output.tensor
    assert one.row_axis is not None and end is not None and end.row_axis is not None
    moved = x.reshape(rows, *(n for k, n in enumerate(one.shape) if k != one.row_axis))
    y = runtime.compile(stream.at(rows))(np.moveaxis(moved, 0, one.row_axis).astype(np.float32))
    values = np.moveaxis(y[output.name], end.row_axis, 0)
    values = values.reshape(len(values), -1)
    total, last = done.stdout.split()
    assert int(last) == len(values) - 1
    expected = (values.sum(axis=1, dtype=np.float64) * (1 + np.arange(len(values)) % 7)).sum()
    assert float(total) == pytest.approx(expected, rel=1e-3, abs=1e-2)


PASSES_DRIVER = """
#include "net.h"
#include <stdio.h>

static net_t memory[2];
static net_stream streams[2];
static float sum;

static void take(void *user, uint64_t row, const float *values)
{
    (void)user;
    for (int k = 0; k < %(per_row)s; k++)
        sum += values[k] * (float)(1 + row %% 7);
}

/* Rows [from, to), with a copy to another place in front of each few. */
static int push(int *now, int from, int to)
{
    static float row[NET_X_PER_ROW];
    for (int at = from; at < to; at++) {
        if (at %% 5 == 3) {
            memory[!*now] = memory[*now];
            streams[!*now] = streams[*now];
            *now = !*now;
            streams[*now].net = memory + *now;
        }
        for (int x = 0; x < NET_X_PER_ROW; x++)
            row[x] = (float)((at * 31 + x * 17) %% 23) - 11;
        if (net_stream_push_row(streams + *now, row) != 1)
            return 0;
    }
    return 1;
}

int main(void)
{
    const net_sink sink = {NULL, take};
    int now = 0;
    net_stream_begin(streams, memory, &sink);
    for (int again = 0; again < 2; again++) { /* the next stream begins by itself */
        sum = 0;
        for (int pass = 1; pass < NET_PASSES; pass++) {
            if (net_stream_next_pass(streams + now)) /* without a row */
                return 1;
            if (!push(&now, 0, %(rows)d) || net_stream_finish(streams + now))
                return 2;
            if (!net_stream_next_pass(streams + now) || sum != 0)
                return 3;
        }
        if (!push(&now, 0, %(rows)d - NET_ENDS) || net_stream_finish(streams + now))
            return 4; /* with fewer rows than before */
        if (!push(&now, %(rows)d - NET_ENDS, %(rows)d) || net_stream_next_pass(streams + now))
            return 5;
        if (!net_stream_finish(streams + now))
            return 6;
    }
    printf("%%.6g\\n", (double)sum);
    return 0;
}
"""


@pytest.mark.networks
def test_passes_go_on_from_copies_and_end_with_all_rows_alone(tmp_path: Path) -> None:
    stream = csdfgen.plan_stream(model(spelled, 64), backend="native", passes=3)
    rows = 5 * lcm(*(one.period for one in (*stream.earlier, stream)))
    emit(stream, "net", tmp_path / "c", target="generic")
    (output,) = stream.network.outputs
    words = {"rows": rows, "per_row": f"NET_{output.name.upper()}_PER_ROW"}
    (tmp_path / "c" / "main.c").write_text(PASSES_DRIVER % words)
    done = subprocess.run([linked(tmp_path / "c", *SANITIZED)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    x = (np.arange(rows)[:, None] * 31 + np.arange(18) * 17) % 23 - 11
    x = np.moveaxis(x.reshape(rows, 1, 3, 6), 0, 2).astype(np.float32)
    y = np.concatenate([part[output.name] for part in runtime.compile(stream).stream(x)], 2)
    total = (y.sum(axis=(0, 1, 3), dtype=np.float64) * (1 + np.arange(rows) % 7)).sum()
    assert float(done.stdout) == pytest.approx(total, rel=1e-3, abs=1e-2)


@pytest.mark.parametrize("network", [MODELS["strided"], partial(model, normalized)])
def test_the_code_does_not_depend_on_the_height_that_is_named(
    network: Callable[[int], onnx.ModelProto], tmp_path: Path
) -> None:
    for height in (96, 400):
        stream = csdfgen.plan_stream(network(height), backend="native", passes=2)
        emit(stream, "net", tmp_path / str(height), target="generic")
    for file in (tmp_path / "96").glob("*.[ch]"):
        assert file.read_text() == (tmp_path / "400" / file.name).read_text()


@pytest.mark.parametrize("options", ["--check", "--goal throughput", "--frames 2"])
def test_what_streams_have_not_is_refused(call: Call, tmp_path: Path, options: str) -> None:
    onnx.save(MODELS["dilated"](64), tmp_path / "net.onnx")
    words = ["emit-c", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "c"), "--stream"]
    assert "stream" in refused(call(*words, *options.split()))


def test_passes_are_of_a_stream(call: Call, tmp_path: Path) -> None:
    onnx.save(model(normalized, 64), tmp_path / "net.onnx")
    words = ["emit-c", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "c"), "--target", "generic"]
    assert "--passes is of a --stream" in refused(call(*words, "--passes", "2"))
    assert "--passes 2" in refused(call(*words, "--stream"))
    assert call(*words, "--stream", "--passes", "2").code == 0
    assert "#define NET_PASSES 2" in (tmp_path / "c" / "net.h").read_text()


@pytest.mark.networks
@pytest.mark.parametrize("network", [bytes_, mean_of_bytes, partial(model, normalized)])
def test_a_board_takes_rows_without_a_last_one(
    network: Callable[[int], onnx.ModelProto], tmp_path: Path
) -> None:
    absent_board("cortex-m7")
    stream = csdfgen.plan_stream(network(256), backend="native", passes=2)
    emit(stream, "net", tmp_path / "c", target="cortex-m7")
    rows = heights(stream)[-1]
    feeds, files = feed(stream, rows, tmp_path)
    words = "-s", "run", f"ARGS=-o {tmp_path}/out {files[0]}"
    subprocess.run(["make", *words], cwd=tmp_path / "c", check=True)
    frame = runtime.compile(stream)
    wanted = np.concatenate([one for part in frame.stream(feeds) for one in part.values()], 2)
    found = np.fromfile(tmp_path / "out", wanted.dtype)
    exact = 0 if wanted.dtype.kind == "i" else 1e-4
    np.testing.assert_allclose(found, np.moveaxis(wanted, 2, 0).ravel(), rtol=0, atol=exact)


def spotter(rows: int) -> onnx.ModelProto:
    """Of 10 coefficients every 20 ms: depthwise separable convolutions, and means of a second; bytes."""
    graph = Graph()
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 1, rows, 10)), 16, strides=[2, 2]))
    for _ in range(3):
        x = graph.node("Relu", graph.conv(graph.node("Relu", graph.conv(x, 16, group=16)), 16, 1))
    mean = graph.node("AveragePool", x, kernel_shape=[25, 5])
    return quantized(graph.model(graph.conv(mean, 12, 1), checked=False), "QDQ")


def denoiser(rows: int) -> onnx.ModelProto:
    """A mask of 32 frequencies every 16 ms: a causal convolution, a GRU, and a convolution with an output that is larger."""
    graph = Graph()

    def weights(*shape: int) -> str:
        scale = np.sqrt(shape[-1])
        return graph.constant((graph.rng.standard_normal(shape) / scale).astype(np.float32))

    def reshaped(x: str, *sizes: int) -> str:
        return graph.node("Reshape", x, graph.constant(np.array(sizes, np.int64)))

    x = graph.input("x", (1, 1, rows, 32))
    y = graph.node("Conv", x, weights(4, 1, 3, 3), channels=4, pads=[2, 1, 0, 1], strides=[1, 2])
    y = graph.node("Transpose", graph.node("Relu", y), perm=[2, 0, 1, 3])
    y = graph.node(
        "GRU", reshaped(y, -1, 1, 64), weights(1, 48, 64), weights(1, 48, 16), hidden_size=16
    )
    y = graph.node(
        "MatMul", graph.node("Squeeze", y, graph.constant(np.array([1]))), weights(16, 64)
    )
    y = graph.node("Transpose", reshaped(y, -1, 1, 4, 16), perm=[1, 2, 0, 3])
    y = graph.node("ConvTranspose", y, weights(4, 1, 3, 4), pads=[1, 1, 1, 1], strides=[1, 2])
    return graph.model(graph.node("Mul", x, graph.node("Sigmoid", y)), checked=False)


@pytest.mark.networks
@pytest.mark.parametrize(("network", "rows"), [(spotter, 30_000), (denoiser, 37_500)])
def test_minutes_of_sound_on_a_board(
    network: Callable[[int], onnx.ModelProto], rows: int, tmp_path: Path
) -> None:
    """Ten of them where everything is tested, and each time all outputs."""
    absent_board("cortex-m7")
    stream = csdfgen.plan_stream(network(128), backend="native")
    emit(stream, "net", tmp_path / "c", target="cortex-m7")
    rows = rows // some(20, 1) // stream.period * stream.period
    one, output = stream.network.inputs[0], stream.network.outputs[0].tensor
    assert output is not None
    x = np.random.default_rng(rows).standard_normal((1, 1, rows, one.shape[3])).astype(one.dtype)
    x[0, 0].tofile(tmp_path / "in")
    words = "-s", "run", f"ARGS=-o {tmp_path}/out {tmp_path}/in"
    subprocess.run(["make", *words], cwd=tmp_path / "c", check=True)
    parts = [made for part in runtime.compile(stream).stream(x) for made in part.values()]
    wanted = np.moveaxis(np.concatenate(parts, 2), 2, 0).ravel()
    found = np.fromfile(tmp_path / "out", output.dtype)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_a_model_of_one_step_is_emitted_with_its_states(call: Call, tmp_path: Path) -> None:
    one = step(1)
    onnx.save(one.model, tmp_path / "net.onnx")
    states = [word for pair in one.states.items() for word in ("--stateful", "=".join(pair))]
    words = ["emit-c", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "c"), "--target", "generic"]
    assert "is of a --stream" in refused(call(*words, *states))
    assert call(*words, "--stream", *states).code == 0
    subprocess.run(["make", "-s", "OPTIMIZE=-O1", "net"], cwd=tmp_path / "c", check=True)
    stream = csdfgen.plan_stream(one.model, stateful=one.states, backend="native")
    feeds, files = feed(stream, 50, tmp_path)
    subprocess.run([tmp_path / "c/net", "-o", tmp_path / "out", *files], check=True)
    (wanted,) = runtime.compile(stream.at(50))(feeds).values()
    found = np.fromfile(tmp_path / "out", np.float32)
    np.testing.assert_allclose(found, wanted.ravel(), rtol=1e-5, atol=1e-5)
