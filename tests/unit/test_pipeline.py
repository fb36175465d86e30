"""The order with the least memory is kept, whichever order it came from; its bound is its own."""

from __future__ import annotations

import pytest

import csdfgen
from schedules.demand import POLICIES
from tests.builder import Graph


def test_small_maps_run_layer_by_layer() -> None:
    """Windows as tall as the map keep tensors whole; rows that trickle through three of them at a
    time need more.
    """
    graph = Graph()
    x = graph.input("x", (1, 8, 4, 12))
    for _ in range(5):
        x = graph.node("Relu", graph.conv(x, 32, kernel=5))
    network = csdfgen.load(graph.model(graph.node("GlobalAveragePool", x)))
    peaks = {
        policy: csdfgen.plan(network, rows=1, policy=policy).figures["peak_live"]
        for policy in POLICIES
    }
    best = csdfgen.plan(network, rows=1)
    assert best.figures["peak_live"] == min(peaks.values()) < peaks["demand"]
    assert best.policy == "layers"
    assert best.optimal


def test_an_order_is_found_that_is_none_of_those_it_began_with() -> None:
    """Buffers of a chain of separable convolutions that are emptied early share bytes with those
    that fill late.
    """
    graph = Graph()
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 3, 64, 64)), 8, strides=[2, 2]))
    for channels, stride in ((8, 1), (16, 2), (16, 1), (32, 2)):
        x = graph.node(
            "Relu",
            graph.conv(x, graph.channels[x], group=graph.channels[x], strides=[stride, stride]),
        )
        x = graph.node("Relu", graph.conv(x, channels, kernel=1))
    network = csdfgen.load(graph.model(graph.node("GlobalAveragePool", x)))
    plans = [csdfgen.plan(network, policy=policy) for policy in POLICIES]
    best = csdfgen.plan(network)
    assert best.optimal
    assert best.figures["peak_live"] < min(plan.figures["peak_live"] for plan in plans)
    assert best.planned_bytes < min(plan.planned_bytes for plan in plans)


def test_the_bound_is_that_of_the_scratch_that_is_planned() -> None:
    """Kernels need less where blocks are finer: what was proved of the coarser ones does not hold."""
    found = csdfgen.plan(csdfgen.load("zoo:googlenet"))
    assert found.fine
    assert found.figures["lower_bound"] <= found.figures["peak_live"]


def test_the_least_memory_has_finer_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they have to save enough for the calls that they take more."""
    monkeypatch.setattr("csdfgen.planning.planner._WORTH", 0.5)
    network = csdfgen.load("zoo:cnn5@64x64")
    usual, least = (
        csdfgen.plan(network, rows=2, goal=goal, backend="numpy") for goal in ("balanced", "memory")
    )
    assert least.fine and not usual.fine
    assert least.planned_bytes < usual.planned_bytes


def test_few_whole_tensors_are_placed_without_gaps() -> None:
    """Squeeze and excitation holds tensors whole: nothing is above the bytes alive at the peak."""
    made = csdfgen.plan(csdfgen.load("zoo:efficientnet_b0@128x128"), rows=1, backend="numpy")
    assert made.figures["arena"] == made.figures["peak_live"] == made.figures["lower_bound"]
