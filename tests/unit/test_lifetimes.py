"""When rows are alive: windows, outputs, rows that several fill, images, scratch; and whole layers."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
import onnx
import pytest

import csdfgen
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.devices.catalogue import device
from csdfgen.goals.choice import plan_options
from csdfgen.goals.heights import Predicted
from csdfgen.planning.buffers import Access, Buffer, workspace_buffer
from csdfgen.planning.lifetimes import trace_lifetimes, trace_whole_layers, whole_layer_live
from csdfgen.planning.planner import plan_phased
from csdfgen.planning.prepared import prepare
from tests.models import model
from tests.small_models import residual_classifier, squeeze_and_excite, two_inputs


def line(name: str, writer: str, reader: str, rows: int, window: int, size: int) -> Buffer:
    """Rows written one a phase, read through a window of `window` rows."""
    released = tuple(max(0, i + 2 - window) if i < rows - 1 else rows for i in range(rows))
    written = Access(writer, tuple(range(1, rows + 1)))
    return Buffer(name, rows, size, (written,), (Access(reader, released),))


def test_a_window_keeps_its_rows_and_no_more() -> None:
    order = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]
    order += [("a", 3), ("b", 3), ("a", 4), ("b", 4), ("a", 5), ("b", 5)]
    found = trace_lifetimes(order, [line("x", "a", "b", 6, 3, 10)])
    (one,) = found.each
    assert one.capacity == 3 and found.peak_live == 30
    assert one.born.tolist() == [0, 1, 2, 6, 8, 10]
    assert one.gone.tolist() == [6, 8, 10, 12, 12, 12]


def test_a_row_that_nobody_reads_is_alive_while_it_is_written() -> None:
    """Rows of an output are handed on in the firing that completes them."""
    order = [step for i in range(4) for step in (("a", i), ("b", i))]
    found = trace_lifetimes(order, [line("y", "a", "a", 4, 1, 8)])
    assert found.each[0].capacity == 1
    assert found.each[0].gone.tolist() == [1, 3, 5, 7]
    assert found.live.tolist() == [8, 0, 8, 0, 8, 0, 8, 0]


def test_a_row_that_two_fill_is_there_from_the_first_on() -> None:
    """Its bytes lie together: nothing else can lie where the second will write."""
    left, right = Access("a", (1, 2)), Access("b", (1, 2))
    buffer = Buffer("c", 2, 10, (left, right), (Access("d", (1, 2)),))
    order = [("a", 0), ("a", 1), ("b", 0), ("d", 0), ("b", 1), ("d", 1)]
    found = trace_lifetimes(order, [buffer])
    assert found.live.tolist() == [10, 20, 20, 20, 10, 10]
    assert found.each[0].capacity == 2


def test_a_buffer_with_two_readers_frees_a_row_after_the_later_one() -> None:
    written = Access("a", (1, 2))
    buffer = Buffer("x", 2, 1, (written,), (Access("b", (1, 2)), Access("c", (0, 2))))
    order = [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("c", 1)]
    assert trace_lifetimes(order, [buffer]).each[0].gone.tolist() == [6, 6]


def test_scratch_is_alive_for_its_firing_alone() -> None:
    order = [("a", 0), ("b", 0), ("a", 1)]
    (one,) = trace_lifetimes(order, [workspace_buffer("a", (64, 128))]).each
    assert (one.born.tolist(), one.gone.tolist(), one.capacity) == ([0, 2], [1, 3], 1)


def two_outputs() -> onnx.ModelProto:
    return model("g (float[1,3,4,5] x) => (y, z) { y = Exp(x)  z = ReduceMax <axes = [1]> (x) }")


@pytest.mark.parametrize("make", [residual_classifier, squeeze_and_excite, two_inputs, two_outputs])
def test_whole_layers_hold_what_is_still_read(make: Callable[[], onnx.ModelProto]) -> None:
    """Each tensor from its layer to its last reader, outputs to the end."""
    network = csdfgen.load(make())
    made = {t.name: at for at, layer in enumerate(network.layers) for t in layer.outputs}
    read: dict[str, int] = {}
    for at, layer in enumerate(network.layers):
        read |= {t.name: at for t in layer.inputs if t is not None}
    wanted = []
    for at, layer in enumerate(network.layers):
        last = {**made, **read, **dict.fromkeys(network.output_tensors, len(network.layers))}
        alive = [t for t in network.tensors.values() if made.get(t.name, 0) <= at <= last[t.name]]
        wanted.append((layer.name, sum(t.nbytes for t in alive)))
    assert list(trace_whole_layers(network)) == wanted
    assert whole_layer_live(network) == max(live for _, live in wanted)


# Memory of planning ------------------------------------------------------------------------------


def _planned_bytes(rows: int) -> tuple[int, int, int]:
    """Rows of all buffers of a chain, bytes that are kept of four heights that are compared, and bytes of a plan."""
    layers = " ".join(f"x{k + 1} = Conv <pads = [1, 0, 1, 0]> (x{k}, w)" for k in range(8))
    chain = model(
        f"g (float[1, 1, {rows}, 4] x0) => (float[1, 1, {rows}, 4] x8) {{ {layers} }}",
        {"w": np.ones((1, 1, 3, 1), np.float32)},
    )
    network = csdfgen.load(chain)
    gc.collect()
    tracemalloc.start()
    try:
        options = plan_options({"policy": "demand"})
        predicted = Predicted(prepare(network, options, NUMPY), device("host"))
        found = [predicted.at(str(rows // count)).scratch for count in (16, 8, 4, 2)]
        compared = tracemalloc.get_traced_memory()[0]
        plan = plan_phased(predicted.prepared, predicted.at(str(rows // 2)))
        del predicted
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert all(found)
    return sum(buffer.rows for buffer in plan.rolling), compared, kept


def test_planning_takes_few_bytes_for_a_row() -> None:
    """As planning of a signal with thousands of rows took 270 MiB: objects for rows, for each of the heights compared."""
    _planned_bytes(512)  # what is imported and remembered once
    few, many = _planned_bytes(2048), _planned_bytes(4096)
    rows, compared, kept = (b - a for a, b in zip(few, many, strict=True))
    assert compared < 150 * rows
    assert kept < 50 * rows
