"""`data[:, a:b] = updates`, which exporters write as ScatterND with every index, is a Concat of slices."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from tests.builder import Graph, reference
from tests.native_steps import compiler_missing

SHAPE = (2, 6, 7, 5)
BOXES = {
    "channels": ((0, 2, 0, 0), (2, 3, 7, 5)),
    "first rows": ((0, 0, 0, 0), (2, 6, 4, 5)),
    "last column": ((0, 0, 0, 4), (2, 6, 7, 1)),
    "an image": ((1,), (1,)),
    "last channels, by two indices": ((0, 3), (2, 3)),
}
"""Name -> (first index of each axis that is indexed, sizes)."""


def assignment(indices: np.ndarray, *, opset: int = 16, **attributes: str) -> onnx.ModelProto:
    """Updates from a layer over data from a layer, and a layer behind them."""
    g = Graph(opset=opset)
    data = g.node("Neg", g.input("x", SHAPE))
    updates = g.input("y", (*indices.shape[:-1], *SHAPE[indices.shape[-1] :]))
    made = g.node("ScatterND", data, g.constant(indices), g.node("Abs", updates), **attributes)
    return g.model(g.node("Relu", made))


def fed(network: csdfgen.Network) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        t.name: rng.uniform(-1, 1, network.whole_shape(t)).astype(t.dtype) for t in network.inputs
    }


def box(first: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    return np.moveaxis(np.indices(sizes), 0, -1) + np.array(first)


@pytest.mark.parametrize(
    "backend",
    [
        "numpy",
        pytest.param(
            "native",
            marks=pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
        ),
    ],
)
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("name", BOXES)
def test_it_is_joined_and_equals_onnxruntime(name: str, negative: bool, backend: str) -> None:
    indices = box(*BOXES[name])
    model = assignment(indices - SHAPE[: indices.shape[-1]] if negative else indices)
    network = csdfgen.load(model)
    assert "Concat" in [layer.op_type for layer in network.layers]
    assert "ScatterND" not in [layer.op_type for layer in network.layers]
    feeds = fed(network)
    (want,) = reference(model, feeds).values()
    for rows in (1, 3, "whole"):
        (got,) = runtime.compile(csdfgen.plan(network, rows=rows, backend=backend))(feeds).values()
        np.testing.assert_array_equal(got, want)


CHANNELS = box(*BOXES["channels"])


@pytest.mark.parametrize(
    ("indices", "attributes"),
    [
        (CHANNELS[:, ::-1], {}),
        (np.where(CHANNELS == 4, 3, CHANNELS), {}),
        (box((0, 1, 1, 0), (2, 3, 3, 5)), {}),
        (box((0, 0, 0, 0), SHAPE), {}),
        (CHANNELS, {"reduction": "add"}),
    ],
    ids=["turned", "repeated", "two axes", "everything", "sums"],
)
def test_other_indices_are_scattered(indices: np.ndarray, attributes: dict[str, str]) -> None:
    model = assignment(np.ascontiguousarray(indices), **attributes)
    network = csdfgen.load(model)
    assert "ScatterND" in [layer.op_type for layer in network.layers]
    feeds = fed(network)
    (got,) = runtime.compile(csdfgen.plan(network, rows=2, backend="numpy"))(feeds).values()
    (want,) = reference(model, feeds).values()
    np.testing.assert_allclose(got, want, rtol=1e-6)
