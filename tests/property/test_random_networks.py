"""Any network, any slab heights: the outputs are onnxruntime's, and what is measured is what was
planned.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.builder import Graph
from tests.fuzz import Coverage, Setting, examine, run_seed
from tests.ways import some

PARTS, NETWORKS_A_PART = some(5, 40), 20
FAILED = (41002,)
"""Seeds one of whose networks failed: scratch of a ScatterND was too small where only one operand was evenly spaced."""


def check(model: onnx.ModelProto, rows: str, level: str, image: str) -> None:
    """A network in both backends, compared with onnxruntime."""
    assert examine(model, Setting(rows, fuse=level, image=image), Coverage())


def test_a_window_that_always_sees_all_rows_still_moves_over_them() -> None:
    """Found by the test below: phases whose windows are clipped at both borders read the same rows
    at other taps.
    """
    graph = Graph(seed=3)
    x = graph.conv(graph.input("x", (1, 2, 1, 1)), 2, 5, pads=[3, 2, 8, 2], dilations=[2, 1])
    model = graph.model(graph.node("Relu", graph.conv(x, 1, 5)))
    for level in ("none", "full"):
        check(model, "1", level, "streamed")


def test_an_image_joined_with_its_own_convolution_is_not_overwritten() -> None:
    """Found by the test below: a normalization in place on a Concat changed rows that the
    convolution still had to read.
    """
    graph = Graph(seed=3)
    x = graph.input("x", (1, 1, 5, 3))
    joined = graph.node("Concat", graph.conv(x, 1), x, axis=1)
    model = graph.model(graph.node("LRN", joined, size=3, alpha=0.1, beta=0.75, bias=1.0))
    for rows in ("1", "2", "whole"):
        check(model, rows, "full", "streamed")


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
        check(model, rows, "full", "streamed")


def test_rows_of_a_tensor_that_is_stored_in_natural_order() -> None:
    """All slabs of a join were handed the rows that the first slab at their addresses had been."""
    graph = Graph(seed=2)
    x, y = graph.input("x", (1, 1, 16, 11)), graph.input("y", (1, 1, 176))
    flat = graph.node("Reshape", y, graph.constant(np.array([1, 1, 16, 11])))
    joined = graph.node("Concat", x, graph.node("Relu", flat), axis=1, channels=2)
    model = graph.model(graph.node("ReduceMax", joined, axes=[3]))
    for rows in ("1", "2", "3"):
        check(model, rows, "full", "streamed")


def test_one_of_four_channels_is_negated_in_place() -> None:
    """Numpy negates elements that are 16 bytes apart twice, where it writes over its operand."""
    graph = Graph(seed=3)
    x = graph.input("x", (1, 4, 6, 9))
    three = graph.node("Split", x, graph.constant(np.array([3, 1])), axis=1, outputs=2)
    fourth = graph.node("Softmax", three[:-1] + "1", axis=3)
    model = graph.model(three, graph.node("Neg", fourth))
    for rows in ("1", "3"):
        check(model, rows, "full", "streamed")


@pytest.mark.parametrize("behind", ["BatchNormalization", "Relu"])
def test_rows_that_are_as_many_as_those_of_another_axis(behind: str) -> None:
    """Ten channels by their rows, read by ten rows of the map: the runs of the one were taken for the other's."""
    graph = Graph(seed=4)
    x = graph.input("x", (1, 5, 10, 10))
    turned = graph.node("Transpose", graph.conv(x, 5), perm=[0, 2, 3, 1], channels=10)
    joined = graph.node("Concat", turned, graph.conv(turned, 2), axis=1, channels=12)
    part = graph.node(
        "Slice", joined, *(graph.constant(np.array([n])) for n in (0, 10, 1)), channels=10
    )
    one = (
        graph.batch_normalization(part)
        if behind == "BatchNormalization"
        else graph.node(behind, part)
    )
    model = graph.model(joined, graph.conv(one, 2))
    for rows in ("1", "3", "whole"):
        check(model, rows, "full", "streamed")


@pytest.mark.networks
@pytest.mark.parametrize("part", [*range(PARTS), *FAILED])
def test_random_networks(part: int) -> None:
    """100 networks; each part draws its own, the same ones every time. `make fuzz` tries others."""
    coverage = Coverage()
    found = run_seed(part, NETWORKS_A_PART, coverage, shrink_s=60)
    text = onnx.printer.to_text(found.model) if found.model else ""
    assert not found.message, f"{found.message}\n{text}"
    assert coverage.networks > coverage.skipped
