"""Rows that lie together: numpy calls a product once for every piece, which reads all weights anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import csdfgen
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.goals.search import find_fastest
from csdfgen.lowering.program import lower
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.plan import Point
from csdfgen.program.steps import Step
from tests.builder import Graph
from tests.planning import phased
from tests.python_backend import PYTHON

HEIGHTS = "2,Conv_2=whole,Conv_4=whole"
"""Sums of two rows a phase are written where the products of all rows lie."""


@pytest.fixture(scope="module")
def network() -> Network:
    """A residual block: products of heavy weights, whose rows the sum goes over in place."""
    g = Graph()
    x = g.node("Relu", g.conv(g.input("x", (1, 4, 8, 8)), 512, kernel=1))
    deep = g.node("Relu", g.conv(x, 512, kernel=1))
    wide = g.conv(deep, 512, kernel=1)
    total = g.node("Relu", g.node("Add", wide, x))
    return csdfgen.load(g.model(g.node("MaxPool", total, kernel_shape=[2, 2], strides=[2, 2])))


def blocks(network: Network, backend: str, *, fine: bool) -> dict[str, tuple[int, ...]]:
    options = PlanOptions(rows=HEIGHTS, memory=1 << 30, backend=backend)
    prepared = phased(network, options, fine=fine)
    return {access.actor: buffer.blocks for buffer in prepared.buffers for access in buffer.writers}


@pytest.mark.parametrize("fine", [False, True])
def test_rows_of_heavy_products_lie_together(network: Network, fine: bool) -> None:
    assert blocks(network, "numpy", fine=fine)["Conv_4"] == (0,)
    assert len(blocks(network, "native", fine=fine)["Conv_4"]) > 1  # wherever a sum starts a phase


def test_rows_of_a_signal_lie_together() -> None:
    """Alignment of each would make its bytes four times as many, and a window no run of floats."""
    g = Graph()
    weights = g.constant(g.rng.normal(0, 0.1, (8, 1, 80)).astype(np.float32))
    x = g.node("Conv", g.input("x", (1, 1, 4000)), weights, kernel_shape=[80], strides=[16])
    network = csdfgen.load(g.model(g.node("MaxPool", x, kernel_shape=[4], strides=[4])))
    plan = csdfgen.plan(network, rows="32", backend="numpy")
    steps = [step for step in lower(plan, NUMPY).firings if isinstance(step, Step)]
    sums = [step for step in steps if step.layer.op_type == "Conv"]
    assert len(sums) > 4
    for step in sums:
        assert len(step.view(0).runs) < 8
    assert plan.planned_bytes < 4 * 4000


def test_heavy_products_are_one_call_each(network: Network) -> None:
    plan = csdfgen.plan(network, rows=HEIGHTS, memory="1GiB", backend="numpy")
    steps = [
        step
        for step in lower(plan, NUMPY).firings
        if isinstance(step, Step) and step.actor in ("Conv_2", "Conv_4")
    ]
    assert len(steps) == 2
    assert all(len(view.runs) == 1 for step in steps for view in step.outputs)


def test_of_plans_predicted_alike_one_whose_rows_lie_together(network: Network) -> None:
    plan = csdfgen.plan(network, backend="numpy")
    apart, whole = replace(plan, fine=True), replace(plan, fine=False)
    found = [Point(apart, 1.0), Point(whole, 1.05)]
    assert find_fastest(found, NUMPY) is found[1]
    assert find_fastest([found[0], Point(whole, 1.2)], NUMPY) is found[0]
    assert find_fastest(found, PYTHON) is found[0]
