"""The plan with the smallest arena is kept, whichever order makes it."""

from __future__ import annotations

import csdfgen
from schedules.demand import POLICIES
from tests.builder import Graph


def test_small_maps_run_layer_by_layer() -> None:
    """Windows as tall as the map keep tensors whole; rows that trickle through three of them at a time need more."""
    graph = Graph()
    x = graph.input("x", (1, 8, 4, 12))
    for _ in range(5):
        x = graph.node("Relu", graph.conv(x, 32, kernel=5))
    network = csdfgen.load(graph.model(graph.node("GlobalAveragePool", x)))
    arenas = {policy: csdfgen.plan(network, rows=1, policy=policy).planned_bytes for policy in POLICIES}
    best = csdfgen.plan(network, rows=1)
    assert best.planned_bytes == min(arenas.values()) < arenas["demand"]
    assert best.policy == "layers"
    assert best.planned_bytes <= best.figures["whole_layer_live"] < arenas["demand"]
