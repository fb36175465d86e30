"""Devices compute what numpy computes: operators wherever rows lie, networks in memory as planned, few launches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends.device.launches import PORTS, find_dependences, levels
from csdfgen.backends.device.loops import Loop
from csdfgen.backends.device.work import Load, Units
from csdfgen.backends.registry import load_backend
from csdfgen.errors import InputError
from csdfgen.lowering.program import lower
from csdfgen.program.steps import Backend
from tests.board_networks import feeds_of, integers
from tests.builder import Graph
from tests.networks import check_touched
from tests.op_harness import heights
from tests.op_samples import SAMPLES
from tests.opencl_device import device_missing
from tests.property.test_native import LAYOUTS, close
from tests.scattered import declared, run_scattered

EVERY = 12
"""One in so many samples is compared here; each kernel is built once on a machine."""


@pytest.fixture(scope="module")
def device() -> Backend:
    if device_missing():
        pytest.skip(device_missing())
    return load_backend("opencl")


@pytest.mark.networks
@pytest.mark.parametrize("part", range(EVERY // 3))
def test_operators_as_numpy_has_them(part: int, device: Backend) -> None:
    for number in range(part * 3, len(SAMPLES), EVERY):
        sample = SAMPLES[number]
        layer, feeds, layout = sample.layer(), sample.feeds(), LAYOUTS[number % len(LAYOUTS)]
        height = heights(layer)[0]
        wanted = run_scattered(layer, feeds, height, layout, None)
        sizes = declared(layer, height, layout, None, device)
        found = run_scattered(layer, feeds, height, layout, None, sizes, device)
        for got, want in zip(found, wanted, strict=True):
            close(got, want)


@pytest.mark.parametrize("rows", ["1", "auto", "whole"])
@pytest.mark.parametrize("model", ["zoo:lenet5", "zoo:resnet8"])
def test_networks_in_memory_as_planned(model: str, rows: str, device: Backend) -> None:
    network = csdfgen.load(model)
    plan = csdfgen.plan(network, rows=rows, backend="opencl")
    (tensor,) = network.inputs
    x = np.random.default_rng(0).standard_normal(tensor.shape).astype(np.float32)
    found, measured = runtime.compile(plan).measure(x)
    check_touched(plan, measured.touched_bytes)
    wanted = runtime.compile(csdfgen.plan(network, backend="numpy"))(x)
    for name, want in wanted.items():
        close(np.asarray(found[name]), np.asarray(want))


def test_outputs_in_memory_are_those_of_this_frame(device: Backend) -> None:
    """They are copied when the frame has ended, not lent before it."""
    graph = Graph()
    model = graph.model(graph.node("Relu", graph.input("x", (1, 3, 1, 1))))
    frame = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="opencl", result="arena"))
    for k in range(2):
        x = np.arange(k, k + 3, dtype=np.float32).reshape(1, 3, 1, 1)
        (y,) = frame(x).values()
        np.testing.assert_array_equal(y, x)


def test_rows_of_the_array_that_was_opened_last_are_read(device: Backend) -> None:
    graph = Graph()
    model = graph.model(graph.node("Relu", graph.input("x", (1, 3, 1, 1))))
    frame = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="opencl", result="stored"))
    y = np.empty((1, 3, 1, 1), np.float32)
    for k in range(3):
        x = np.arange(k, k + 3, dtype=np.float32).reshape(y.shape)
        frame.run_into(x, y)
        np.testing.assert_array_equal(y, x)


Spans = Sequence[tuple[int, int]]


@pytest.mark.parametrize(
    ("reads", "writes", "launches"),
    [
        ([[], []], [[(0, 64)], [(64, 128)]], 1),  # apart
        ([[], [(0, 64)]], [[(0, 64)], [(64, 128)]], 2),  # reads what was written
        ([[(64, 128)], []], [[(0, 64)], [(64, 128)]], 2),  # writes what was read
        ([[], []], [[(0, 64)], [(48, 128)]], 2),  # writes what was written
        ([[(256, 320)], [(256, 320)]], [[(0, 64)], [(64, 128)]], 1),  # both read the same
    ],
)
def test_apart_is_one(reads: Sequence[Spans], writes: Sequence[Spans], launches: int) -> None:
    touched = [(a, b, "kernel") for a, b in zip(reads, writes, strict=True)]
    assert len(levels(512, touched)) == launches
    assert len(levels(512, [(a, b, k) for k, (a, b, _) in enumerate(touched)])) == 2


def test_launches_wait_for_those_that_they_depend_on() -> None:
    """Nothing for those that only read the same; no edge that others imply."""
    spans: list[tuple[Spans, Spans]] = [
        ([], [(0, 64)]),  # 0 writes
        ([(0, 32)], [(64, 96)]),  # 1 and 2 read a part of it each
        ([(32, 64)], [(96, 128)]),
        ([(64, 100)], [(128, 160)]),  # 3 reads of both
        ([], [(0, 40)]),  # 4 writes what both have read
        ([(128, 132), (0, 4)], [(200, 240)]),  # 5 reads of 3 and 4
        ([], [(512, 600)]),  # 6: nobody's
    ]
    touched = [(reads, writes, "kernel") for reads, writes in spans]
    found = find_dependences([[[k]] for k in range(7)], touched)
    assert found == [[], [0], [0], [1, 2], [1, 2], [3, 4], []]
    assert find_dependences([[[0]], [[1, 2]], [[3], [5]], [[4, 6]]], touched) == [[], [0], [1], [2]]


def test_what_one_unit_loses() -> None:
    """Nothing where there is one, or one group; half of two units' work, in launches; more on devices with more of them."""
    two, many, slow = (
        Units.of("GPU", n, clock, 1, 1024) for n, clock in ((2, 1e9), (64, 1e9), (64, 0))
    )
    small, large = Load(two.terms, 1), Load(8 * two.terms, 16)
    assert Units.of("CPU", 1, 3e9, 8, 4096).loss([large]) == two.loss([small]) == 0
    assert two.loss([small, small]) == 1 and two.loss([large]) == 4
    assert 4 < many.loss([large]) < slow.loss([large])
    assert (two.items, Units.of("CPU", 4, 3e9, 8, 4096).items) == (256, 1)


def test_small_instructions_that_follow_each_other_are_one_launch() -> None:
    """The third one is not small, and waits for the first; what waits for it comes after it."""
    chain: list[tuple[Spans, Spans, str]] = [
        ([(64 * k, 64 * k + 64)], [(64 * k + 64, 64 * k + 128)], "ab"[k % 2]) for k in range(4)
    ]

    def loss(numbers: Sequence[int]) -> float:
        return sum(0.9 if number == 2 else 0.1 for number in numbers)

    assert levels(512, chain) == [[[0]], [[1]], [[2]], [[3]]]
    assert levels(512, chain, loss) == [[[0], [1]], [[2]], [[3]]]
    beside = [([], [(64 * k, 64 * k + 64)], "ab"[k // 6]) for k in range(7)]
    assert levels(512, beside, lambda numbers: 0.1 * len(numbers)) == [[[*range(6)]], [[6]]]
    assert levels(512, beside[1:], lambda numbers: 0.1 * len(numbers)) == [[[*range(6)]]]
    moves = [([], [(64 * k, 64 * k + 64)], f"port.{k}") for k in range(PORTS + 1)]
    assert [len(one) for (one,) in levels(512, moves, lambda numbers: 0.0)] == [PORTS, 1]


def test_elements_that_read_others_follow_each_other() -> None:
    """A running sum reads what it has just written; a copy elsewhere does not."""
    size = (4, 4, 4, 0, 4)
    running = Loop("add_f32", [size], 1 << 62, 1 << 62 | 512, 0, 1 << 62 | 4)
    apart = Loop("add_f32", [size], 1 << 62, 1 << 62 | 512, 0, 1 << 62 | 256)
    assert running.order()[1] == 0 and apart.order()[1] == 1


def test_a_device_that_is_not_there(device: Backend) -> None:
    from csdfgen.backends.opencl.devices import choose_device

    with pytest.raises(InputError, match="no such device; there are 0: "):
        choose_device("Quantum 9000")


@pytest.mark.networks
def test_bytes_by_integers_alone(device: Backend) -> None:
    network = csdfgen.load(integers())
    x = feeds_of(csdfgen.plan(network, backend="numpy"), 0)
    found = {}
    for backend in ("numpy", "opencl"):
        plan = csdfgen.plan(network, backend=backend, requantize="integer")
        (found[backend],) = runtime.compile(plan)(x).values()
    np.testing.assert_array_equal(found["opencl"], found["numpy"])


def test_maps_of_the_same_elements_are_one_launch(device: Backend) -> None:
    """Activations that follow a layer in its slab."""
    graph = Graph()
    y = graph.node(
        "Tanh", graph.node("Sigmoid", graph.node("Tanh", graph.input("x", (1, 8, 4, 4))))
    )
    network = csdfgen.load(graph.model(y))
    plan = csdfgen.plan(network, backend="opencl", rows="whole")
    kernels = [one.kernel for one in lower(plan, device).instructions]
    assert kernels.count("maps_of") == 1 and "map_of" not in kernels
    values = np.random.default_rng(0).standard_normal((1, 8, 4, 4)).astype(np.float32)
    (got,) = runtime.compile(plan)(values).values()
    want = np.tanh(1 / (1 + np.exp(-np.tanh(values))))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
