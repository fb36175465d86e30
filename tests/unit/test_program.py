"""A frame takes nothing that is not planned: no memory of numpy's own for copies within a storage,
no second thread.
"""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import csdfgen
import runtime
from tests.builder import Graph, reference
from tests.small_models import residual_classifier


@pytest.mark.parametrize("shape", [(1, 64, 16, 32), (64, 512)], ids=["rows", "without rows"])
def test_copies_between_parts_of_a_concat_go_through_the_workspace(shape: tuple[int, ...]) -> None:
    graph = Graph()
    x = graph.node("Relu", graph.input("x", shape))
    half = graph.node(
        "Slice", x, *(graph.constant(np.array([value])) for value in (0, shape[1] // 2, 1))
    )
    model = graph.model(graph.node("Tanh", graph.node("Concat", x, half, axis=1)))
    plan = csdfgen.plan(csdfgen.load(model), rows="whole")
    outputs, measured = runtime.compile(plan).measure(graph.feeds())
    for name, want in reference(model, graph.feeds()).items():
        np.testing.assert_allclose(outputs[name], want, rtol=1e-5, atol=1e-6)
    assert measured.touched_bytes == plan.planned_bytes
    assert measured.python_peak_bytes < np.prod(shape)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_frame_has_the_threads_that_it_was_compiled_for(threads: int) -> None:
    plan = csdfgen.plan(csdfgen.load(residual_classifier()))
    seen: list[int] = []

    def look(done: int, total: int) -> None:
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    (image,) = plan.network.inputs
    runtime.compile(plan, threads=threads)(np.zeros(image.shape, image.dtype), progress=look)
    assert set(seen) == {threads}
