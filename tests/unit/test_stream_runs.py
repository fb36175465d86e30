"""Streams: any number of rows, computed by the instructions of an image."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.backends.registry import load_backend
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.lowering.program import Feed
from csdfgen.model.deferred import Deferred
from csdfgen.planning.plan import Plan
from runtime.bound import BoundProgram
from runtime.kept_state import pack_state, unpack_state
from runtime.stream import Stream, StreamProgram
from tests.models import model
from tests.native_steps import COMPUTED_BY
from tests.opencl_device import device_missing
from tests.quantized_models import quantized
from tests.unit.test_loops import MODELS as LOOPS
from tests.unit.test_loops import network
from tests.ways import some

EVERYWHERE = [
    *COMPUTED_BY,
    pytest.param("opencl", marks=pytest.mark.skipif(bool(device_missing()), reason="no device")),
]
"""Backends that there are here."""

WEIGHTS = {
    name: (np.random.default_rng(inputs).standard_normal((4, inputs, 3, 3)) / 4).astype(np.float32)
    for name, inputs in (("conv", 3), ("deep", 4))
}

MODELS = {
    "two_rates": """g (float[1,3,ROWS,12] x, float[1,4,HALF,6] more) => (float[1,4,HALF,6] y, float[1,4,ROWS,12] z)
        { a = Conv <pads=[1,1,1,1], strides=[2,2]> (x, conv)  b = Relu(a)  y = Add(b, more)
        z = Conv <pads=[1,1,1,1]> (x, conv) }""",
    "two_layers": """g (float[1,3,ROWS,12] x) => (float[1,4,ROWS,12] y)
        { a = Conv <pads=[1,1,1,1]> (x, conv)  b = Relu(a)  y = Conv <pads=[1,1,1,1]> (b, deep) }""",
}
"""Networks with ROWS of the first input, and HALF as many of the second."""


def image_of(name: str, rows: int) -> Any:
    """A model with so many rows."""
    sized = MODELS[name].replace("ROWS", str(rows)).replace("HALF", str(rows // 2))
    return model(sized, {one: array for one, array in WEIGHTS.items() if f"{one})" in sized})


@cache
def program(name: str, backend: str) -> StreamProgram:
    make = LOOPS[name] if name in LOOPS else partial(image_of, name)
    return runtime.compile(csdfgen.plan_stream(make(64), backend=backend))


def step_of(name: str) -> int:
    """The network takes heights that are multiples of it."""
    return {"with_skips": 4, "two_rates": 2}.get(name, 1)


Arrays: TypeAlias = dict[str, np.ndarray]


def drawn(plan: Plan, seed: int) -> dict[str, np.ndarray]:
    """Inputs of an image."""
    rng = np.random.default_rng(seed)
    return {
        one.name: rng.standard_normal(one.shape).astype(one.dtype) for one in plan.network.inputs
    }


def pieces(
    frame: StreamProgram, feeds: Mapping[str, np.ndarray], cuts: list[float]
) -> Iterator[dict[str, np.ndarray]]:
    """Inputs in parts, cut at these fractions."""
    for low, high in zip([0.0, *cuts], [*cuts, 1.0], strict=True):
        found = {}
        for name, array in feeds.items():
            axis = frame.inputs[name].row_axis or 0
            rows = array.shape[axis]
            found[name] = array.take(range(int(low * rows), int(high * rows)), axis)
        yield found


def joined(frame: StreamProgram, parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The rows of all parts, one behind the other."""
    found = {}
    for name, tensor in frame.outputs.items():
        arrays = [part[name] for part in parts if name in part]
        found[name] = (
            arrays[0] if tensor.row_axis is None else np.concatenate(arrays, tensor.row_axis)
        )
    return found


def check(
    frame: StreamProgram, rows: int, seed: int, stream: Stream | None = None
) -> tuple[Arrays, Arrays]:
    """A stream in parts of random sizes has the rows of an image whose plan is executed as a whole, bit by bit; its inputs
    and outputs.
    """
    whole = frame.plan.at(rows)
    feeds, rng = drawn(whole, seed), np.random.default_rng(seed)
    wanted = runtime.compile(whole)(feeds)
    cuts = sorted(rng.random(int(rng.integers(0, 12))).tolist())
    stream = stream or frame.open()
    parts = [stream.push(some) for some in pieces(frame, feeds, cuts)]
    found = joined(frame, [*parts, stream.finish()])
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
    assert stream.rows_in == {one.name: one.rows for one in whole.network.inputs}
    tensors = {one.name: one.tensor for one in whole.network.outputs}
    assert stream.rows_out == {name: one.rows for name, one in tensors.items() if one}
    return feeds, wanted


@pytest.mark.parametrize("backend", COMPUTED_BY)
@pytest.mark.parametrize("name", ["strided", "dilated", "two_rates"])
def test_streams_are_images_in_parts(name: str, backend: str) -> None:
    """Some lower than a template, and some of several turns."""
    frame, step = program(name, backend), step_of(name)
    turn, least = frame.plan.turn, frame.plan.least
    for rows in (least // 2, least - step, least + turn - step, least + 5 * turn + 3 * step):
        check(frame, rows // step * step, rows)


@pytest.mark.networks
@pytest.mark.parametrize("name", ["with_skips", "dilated"])
def test_every_remainder_of_a_turn(name: str) -> None:
    frame, step = program(name, COMPUTED_BY[-1]), step_of(name)
    start = frame.plan.least + 2 * frame.plan.turn
    for rows in range(
        start, start + frame.plan.turn, max(step, frame.plan.turn // some(12, 32) // step * step)
    ):
        check(frame, rows, rows)


@pytest.mark.skipif(bool(device_missing()), reason="no device")
def test_a_device_computes_streams() -> None:
    frame = program("dilated", "opencl")
    check(frame, frame.plan.least + 2 * frame.plan.turn + 5, 0)


def test_bytes_stream() -> None:
    """A network in int8."""
    plan = csdfgen.plan_stream(quantized(image_of("two_layers", 64), "QDQ"))
    frame = runtime.compile(plan)
    check(frame, plan.least + 3 * plan.turn + 1, 1)


def test_a_stream_may_start_again() -> None:
    frame = program("dilated", COMPUTED_BY[-1])
    stream = frame.open()
    for rows in (frame.plan.least + frame.plan.turn + 3, frame.plan.least):
        check(frame, rows, rows, stream)
        stream.reset()


@pytest.mark.parametrize("name", ["strided", "dilated"])
def test_rows_that_complete_nothing_only_wait(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are looked for once for each that runs, not for each row."""
    frame = program(name, "native")
    (one,) = frame.inputs.values()
    asked, chunks = list[int](), Stream._chunks

    def count(self: Stream) -> Any:
        asked.append(self.rows_in[one.name])
        return chunks(self)

    monkeypatch.setattr(Stream, "_chunks", count)
    stream = frame.open()
    row = np.zeros([1 if k == one.row_axis else n for k, n in enumerate(one.shape)], one.dtype)
    for _ in range(3 * frame.plan.period):
        stream.push(row)
    slab = frame.segments.fed[1][0]
    assert slab > 1 and len(asked) <= 1 + 3 * frame.plan.period // slab


def test_streams_have_memory_of_their_own() -> None:
    """Two at the same time, row by row."""
    frame = program("dilated", COMPUTED_BY[-1])
    whole = frame.plan.at(50)
    feeds = [drawn(whole, seed) for seed in range(2)]
    streams = [frame.open() for _ in feeds]
    found: list[list[dict[str, np.ndarray]]] = [[], []]
    for number in range(50):
        for one, stream, parts in zip(feeds, streams, found, strict=True):
            parts.append(stream.push(one["x"][:, :, number : number + 1]))
    for one, stream, parts in zip(feeds, streams, found, strict=True):
        outputs = joined(frame, [*parts, stream.finish()])
        for name, array in runtime.compile(whole)(one).items():
            np.testing.assert_array_equal(outputs[name], array)


@pytest.mark.parametrize("name", ["dilated", "two_rates"])
def test_a_saved_stream_goes_on(name: str) -> None:
    """Saved at random rows, each time in another process as far as memory tells."""
    frame = program(name, COMPUTED_BY[-1])
    whole = frame.plan.at(frame.plan.least + 2 * frame.plan.turn + 8)
    feeds, rng = drawn(whole, 5), np.random.default_rng(5)
    state, parts = None, []
    for piece in pieces(frame, feeds, sorted(rng.random(9).tolist())):
        stream = frame.open(resume=state)
        parts.append(stream.push(piece))
        state = stream.save()
    found = joined(frame, [*parts, frame.open(resume=state).finish()])
    for one, array in runtime.compile(whole)(feeds).items():
        np.testing.assert_array_equal(found[one], array)


@pytest.mark.parametrize("rows", [2**31 - 5, 2**32 - 5])
@pytest.mark.parametrize("backend", COMPUTED_BY)
def test_rows_are_counted_beyond_32_bits(rows: int, backend: str) -> None:
    """A state whose rows are counted so many turns higher."""
    frame = program("dilated", backend)
    plan = frame.plan
    whole = plan.at(plan.least + 4 * plan.turn + 3)
    x = drawn(whole, 7)["x"]
    stream = frame.open()
    cut = plan.least + plan.turn
    before = stream.push(x[:, :, :cut])
    facts, arrays = unpack_state(stream.save())
    turns = rows // plan.turn - cut // plan.turn
    facts["done"] += turns * frame.turns.count
    periods = turns * frame.turns.periods
    for name, each in (("fed", frame.turns.fed), ("made", frame.turns.made)):
        facts[name] = [
            count + periods * more for count, more in zip(facts[name], each, strict=True)
        ]
    stream = frame.open(resume=pack_state(facts, arrays))
    found = [
        before,
        *(stream.push(x[:, :, k : k + 3]) for k in range(cut, x.shape[2], 3)),
        stream.finish(),
    ]
    assert stream.rows_in["x"] == x.shape[2] + turns * plan.turn > rows
    for name, array in runtime.compile(whole)(x).items():
        np.testing.assert_array_equal(joined(frame, found)[name], array)


def test_an_array_or_any_iterable_is_a_source() -> None:
    frame = program("dilated", COMPUTED_BY[-1])
    whole = frame.plan.at(frame.plan.least + 2 * frame.plan.turn + 1)
    x = drawn(whole, 3)["x"]
    wanted = runtime.compile(whole)(x)
    sources = x, (x[:, :, k : k + 7] for k in range(0, x.shape[2], 7)), {"x": x}
    for source in sources:
        found = joined(frame, list(frame.stream(source)))
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)


def peak() -> int:
    """Bytes that this process had in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.networks
def test_memory_does_not_grow_with_rows() -> None:
    """A million rows."""
    frame = program("dilated", COMPUTED_BY[-1])
    stream, rows = frame.open(), np.zeros((1, 4, 1000, 3), np.float32)
    for _ in range(100):
        stream.push(rows)
    before = peak()
    for _ in range(900):
        stream.push(rows)
    stream.finish()
    assert stream.rows_out == dict.fromkeys(frame.outputs, 1_000_000)
    assert peak() - before < 1 << 20


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("two_layers", np.zeros((1, 3, 4, 19), np.float32), r"shape \(1, 3, 4, 19\), the network takes \(1, 3, any, 12\)"),
        ("two_layers", np.zeros((3, 4, 12), np.float32), "the network takes"),
        ("two_layers", np.zeros((1, 3, 4, 12), complex), "is complex128"),
        ("two_layers", {"z": np.zeros((1, 3, 4, 12), np.float32)}, "there is no input 'z'; there is x"),
        ("two_rates", np.zeros((1, 3, 4, 12), np.float32), "one array for 2 inputs"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused(name: str, rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        program(name, "numpy").open().push(rows)


def test_ends_that_do_not_fit_are_refused_and_more_may_be_pushed() -> None:
    frame = program("two_rates", "numpy")
    whole = frame.plan.at(frame.plan.least + 2)
    feeds = drawn(whole, 1)
    stream = frame.open()
    with pytest.raises(InputError, match="no row of 'x' was pushed"):
        stream.finish()
    parts = [stream.push({"x": feeds["x"], "more": feeds["more"][:, :, :-1]})]
    with pytest.raises(InputError, match=r"rows of 'more' were pushed, .* are needed"):
        stream.finish()
    parts += [stream.push({"more": feeds["more"][:, :, -1:]}), stream.finish()]
    for name, array in runtime.compile(whole)(feeds).items():
        np.testing.assert_array_equal(joined(frame, parts)[name], array)
    for late in (stream.finish, stream.save, lambda: stream.push(feeds)):
        with pytest.raises(InputError, match="the stream is finished"):
            late()


def test_a_height_that_the_network_does_not_take_is_refused() -> None:
    stream = program("two_rates", "numpy").open()
    x, more = np.zeros((1, 3, 31, 12), np.float32), np.zeros((1, 4, 16, 6), np.float32)
    stream.push({"x": x, "more": more})
    with pytest.raises(CsdfgenError):
        stream.finish()
    stream.push({"x": x[:, :, :1]})
    stream.finish()
    assert stream.rows_out == {"y": 16, "z": 32}


def test_states_of_others_are_refused() -> None:
    frame = program("dilated", "numpy")
    state = frame.open().save()
    with pytest.raises(InputError, match="no saved state"):
        frame.open(resume=b"csdf")
    with pytest.raises(InputError, match="damaged"):
        frame.open(resume=state[:-1])
    with pytest.raises(InputError, match="of another program"):
        program("two_rates", "numpy").open(resume=state)


def test_a_stream_keeps_no_steps_and_reads_no_weights_to_compare_heights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory is that of instructions and packed weights; a scaled weight is computed when it is packed alone."""
    scales = {name: np.full(16, 2, np.float32) for name in ("scale", "shift", "mean", "var")}
    w = np.random.default_rng(0).standard_normal((16, 3, 7, 7)).astype(np.float32)
    text = """g (float[1,3,height,12] x) => (float[1,16,h,12] y) {
        a = Conv <pads=[3,3,3,3]> (x, w)  y = BatchNormalization (a, scale, shift, mean, var) }"""
    onnx.save(model(text, {"w": w, **scales}), tmp_path / "m.onnx")
    plan = csdfgen.plan_stream(tmp_path / "m.onnx", shapes={"x": (1, 3, 64, 12)})
    firings = runtime.compile(plan).segments.program.firings
    assert {type(one) for one in firings} == {Feed, type(None)}

    def computed(*given: Any) -> np.ndarray:
        raise AssertionError("weights were computed")

    monkeypatch.setattr(Deferred, "__array__", computed)
    assert plan.read_network(96).inputs[0].rows == 96


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_arrays_may_have_some_rows_of_a_port(backend: str) -> None:
    """An image in two parts, with each an array of its own of inputs and outputs."""
    plan = csdfgen.plan(network("strided", 60), backend=backend, rows=2)
    program = BoundProgram(plan, load_backend(backend))
    rng, shape = np.random.default_rng(0), plan.network.inputs[0].shape
    x = rng.standard_normal(shape).astype(np.float32)
    (wanted,) = runtime.compile(plan)(x).values()
    firings = program.program.firings
    cut, fed = next(
        (n, f.rows.start)
        for n, f in enumerate(firings)
        if isinstance(f, Feed) and f.rows.start > 40
    )
    made = max(one.rows.stop for some in program.program.deliveries[:cut] for one in some)
    found = np.zeros_like(wanted)
    for start, stop, rows, outputs in (
        (0, cut, slice(0, fed), slice(0, made)),
        (cut, len(firings), slice(fed, None), slice(made, None)),
    ):
        program.open("x", 0, False, x[:, :, rows], rows.start)
        part = np.zeros_like(found[:, :, outputs])
        program.open(plan.network.outputs[0].name, 0, True, part, outputs.start)
        for run in program.between(start, stop):
            run()
        program.wait()
        found[:, :, outputs] = part
    np.testing.assert_array_equal(found, wanted)


def test_a_state_is_resumed_by_another_process(tmp_path: Path) -> None:
    """What its program is called by has no bytes that nobody wrote."""
    onnx.save(LOOPS["dilated"](64), tmp_path / "net.onnx")
    code = "import csdfgen; print(csdfgen.compile(csdfgen.plan_stream('net.onnx')).digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1
