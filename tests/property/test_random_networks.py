"""Any network, any slab heights: the outputs are onnxruntime's, and what is measured is what was
planned.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.planning.checker import check as check_plan
from csdfgen.planning.plan import Plan
from csdfgen.rewriting.fuse import fuse
from tests.builder import Graph, reference
from tests.native_steps import compiler_missing
from tests.networks import check_touched, feeds
from tests.random_networks import models, row_choices

PARTS, NETWORKS_A_PART = 20, 10


def check(
    model: onnx.ModelProto, rows: str, level: str, image: str, expected: dict[str, np.ndarray]
) -> None:
    """Run a model in slabs and compare everything that can be compared."""
    plan = csdfgen.plan(csdfgen.load(model), rows=rows, fuse=level, image=image, backend="numpy")
    check_plan(plan)
    got, measured = runtime.compile(plan).measure(feeds(model))
    for name, want in expected.items():
        assert got[name].shape == want.shape, name
        scale = float(np.max(np.abs(want), initial=0.0))
        np.testing.assert_allclose(
            got[name], want, rtol=1e-3, atol=1e-4 + 1e-5 * scale, err_msg=name
        )
    check_touched(plan, measured.touched_bytes)
    if not compiler_missing():
        in_native_code(plan, feeds(model), got)
    figures = plan.figures
    assert figures["lower_bound"] <= figures["peak_live"] <= figures["arena"]
    assert plan.lifetimes.peak_live <= figures["sum_of_capacities"]


def in_native_code(plan: Plan, inputs: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    """The same plan, by the other backend, in the same arena: results differ by rounding."""
    found, measured = runtime.compile(plan, backend="native").measure(inputs)
    assert measured.touched_bytes <= plan.planned_bytes
    for name, array in want.items():
        scale = float(np.max(np.abs(array), initial=0.0))
        np.testing.assert_allclose(
            found[name], array, rtol=1e-4, atol=1e-4 * max(scale, 1e-3), err_msg=name
        )


def test_a_window_that_always_sees_all_rows_still_moves_over_them() -> None:
    """Found by the test below: phases whose windows are clipped at both borders read the same rows
    at other taps.
    """
    graph = Graph(seed=3)
    x = graph.conv(graph.input("x", (1, 2, 1, 1)), 2, 5, pads=[3, 2, 8, 2], dilations=[2, 1])
    model = graph.model(graph.node("Relu", graph.conv(x, 1, 5)))
    for level in ("none", "full"):
        check(model, "1", level, "streamed", reference(model, feeds(model)))


def test_an_image_joined_with_its_own_convolution_is_not_overwritten() -> None:
    """Found by the test below: a normalization in place on a Concat changed rows that the
    convolution still had to read.
    """
    graph = Graph(seed=3)
    x = graph.input("x", (1, 1, 5, 3))
    joined = graph.node("Concat", graph.conv(x, 1), x, axis=1)
    model = graph.model(graph.node("LRN", joined, size=3, alpha=0.1, beta=0.75, bias=1.0))
    for rows in ("1", "2", "whole"):
        check(model, rows, "full", "streamed", reference(model, feeds(model)))


@pytest.mark.parametrize("behind", ["BatchNormalization", "Mul", "PRelu"])
def test_constants_a_channel_over_the_pieces_of_a_join(behind: str) -> None:
    """The constants of the first piece were used for every piece."""
    graph = Graph(seed=1)
    x = graph.input("x", (1, 4, 9, 9))
    joined = graph.node("Concat", graph.conv(x, 5, 1), graph.conv(x, 9), axis=1, channels=14)
    if behind == "BatchNormalization":
        scaled = graph.batch_normalization(joined)
    else:
        scaled = graph.node(behind, joined, graph.per_channel(joined))
    model = graph.model(graph.conv(graph.node("Relu", scaled), 14, group=14))
    for rows in ("1", "3", "auto"):
        check(model, rows, "full", "streamed", reference(model, feeds(model)))


def test_rows_of_a_tensor_that_is_stored_in_natural_order() -> None:
    """All slabs of a join were handed the rows that the first slab at their addresses had been."""
    graph = Graph(seed=2)
    x, y = graph.input("x", (1, 1, 16, 11)), graph.input("y", (1, 1, 176))
    flat = graph.node("Reshape", y, graph.constant(np.array([1, 1, 16, 11])))
    joined = graph.node("Concat", x, graph.node("Relu", flat), axis=1, channels=2)
    model = graph.model(graph.node("ReduceMax", joined, axes=[3]))
    for rows in ("1", "2", "3"):
        check(model, rows, "full", "streamed", reference(model, feeds(model)))


def test_one_of_four_channels_is_negated_in_place() -> None:
    """Numpy negates elements that are 16 bytes apart twice, where it writes over its operand."""
    graph = Graph(seed=3)
    x = graph.input("x", (1, 4, 6, 9))
    three = graph.node("Split", x, graph.constant(np.array([3, 1])), axis=1, outputs=2)
    fourth = graph.node("Softmax", three[:-1] + "1", axis=3)
    model = graph.model(three, graph.node("Neg", fourth))
    for rows in ("1", "3"):
        check(model, rows, "full", "streamed", reference(model, feeds(model)))


@pytest.mark.parametrize("part", range(PARTS))
def test_random_networks_at_random_slab_heights(part: int) -> None:
    """300 networks; each part draws its own, the same ones every time."""

    @seed(part)
    @settings(
        max_examples=NETWORKS_A_PART,
        deadline=None,
        database=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
        ],
    )
    @given(st.data(), models())
    def run(data: st.DataObject, model: onnx.ModelProto) -> None:
        level = data.draw(st.sampled_from(("none", "fold", "full")))
        image = data.draw(st.sampled_from(("streamed", "resident")))
        layers = [layer.name for layer in fuse(csdfgen.load(model), level).layers]
        rows = row_choices(data.draw, layers)
        note(f"--rows {rows} --fuse {level} --image {image}")
        note(onnx.printer.to_text(model))
        check(model, rows, level, image, reference(model, feeds(model)))

    run()
