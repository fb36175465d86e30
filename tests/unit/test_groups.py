"""Normalizations of groups as torch.onnx writes them, and those of maps that others read too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.rewriting.fuse import fuse
from tests.builder import Graph, reference
from tests.native_steps import compiler_missing

BACKENDS = ("numpy",) if compiler_missing() else ("numpy", "native")


def _grouped(g: Graph, x: str, channels: int, groups: int, size: int) -> str:
    """GroupNormalization with a factor and an offset per channel, written with Reshapes."""
    ones, zeros = (g.constant(np.full(groups, v, np.float32)) for v in (1, 0))
    flat = g.node("Reshape", x, g.constant(np.array([0, groups, -1], np.int64)))
    normal = g.node("InstanceNormalization", flat, ones, zeros, epsilon=1e-4)
    shape = np.array([1, channels, size, size], np.int64)
    y = g.node("Reshape", normal, g.constant(shape), channels=channels)
    y = g.node("Mul", y, g.per_channel(y))
    return g.node("Add", y, g.per_channel(y))


def _block(
    channels: int, groups: int, size: int, *, residual: bool
) -> tuple[Graph, onnx.ModelProto]:
    g = Graph(seed=groups)
    x = g.conv(g.input("x", (1, 3, size, size)), channels)
    y = g.conv(_grouped(g, x, channels, groups, size), channels)
    return g, g.model(g.node("Add", x, y) if residual else y)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_groups_are_normalized_as_written(groups: int, residual: bool) -> None:
    g, model = _block(8, groups, 12, residual=residual)
    network = csdfgen.load(model)
    kinds = {layer.op_type for layer in network.layers}
    assert ("GroupNormalization" in kinds) != residual and "InstanceNormalization" not in kinds
    (want,) = reference(model, g.feeds()).values()
    for backend in BACKENDS:
        for rows in ("1", "5", "whole"):
            (got,) = runtime.compile(csdfgen.plan(network, backend=backend, rows=rows))(
                g.feeds()
            ).values()
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_factors_behind_are_part_of_the_normalization() -> None:
    _, model = _block(8, 2, 12, residual=False)
    kinds = [layer.op_type for layer in fuse(csdfgen.load(model)).layers]
    assert kinds == ["Conv", "GroupNormalization", "Conv"]


def test_a_map_that_is_added_later_is_not_copied_whole() -> None:
    """The rows of the normalization and of what follows exist one slab at a time beside the map."""
    _, model = _block(32, 4, 64, residual=True)
    plan = csdfgen.plan(csdfgen.load(model), backend="numpy", rows="1", goal="memory")
    assert plan.planned_bytes < 1.5 * 32 * 64 * 64 * 4


def test_moments_of_values_far_from_zero() -> None:
    """Squares are those of distances to the mean: a mean of squares would be off by some percent."""
    g = Graph()
    x = g.node("Add", g.input("x", (1, 4, 9, 9)), g.constant(np.float32(1000)))
    scale, bias = (g.constant(np.full(4, v, np.float32)) for v in (1, 0))
    y = g.node("InstanceNormalization", x, scale, bias)
    model = g.model(g.node("Mul", g.node("Relu", y), x))
    (want,) = reference(model, g.feeds()).values()
    for backend in BACKENDS:
        (got,) = runtime.run(csdfgen.plan(csdfgen.load(model), backend=backend), g.feeds()).values()
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=2)


@pytest.mark.parametrize("change", ["other shape", "read twice", "is an output"])
def test_others_stay(change: str) -> None:
    """Reshapes that do not give the shape back, and tensors between that somebody else reads."""
    g = Graph()
    x = g.input("x", (1, 8, 6, 6))
    ones, zeros = (g.constant(np.full(2, v, np.float32)) for v in (1, 0))
    flat = g.node("Reshape", x, g.constant(np.array([1, 2, -1], np.int64)))
    normal = g.node("InstanceNormalization", flat, ones, zeros)
    shape = [1, 6, 8, 6] if change == "other shape" else [1, 8, 6, 6]
    y = g.node("Reshape", normal, g.constant(np.array(shape, np.int64)))
    more = {"read twice": (g.node("Relu", normal),), "is an output": (normal,)}.get(change, ())
    network = csdfgen.load(g.model(y, *more))
    assert [layer.op_type for layer in network.layers].count("InstanceNormalization") == 1


def test_several_images() -> None:
    """A network of two images is that of one, twice: there too where others read the map."""
    _, model = _block(8, 2, 12, residual=True)
    network = csdfgen.load(model, batch=2)
    x = np.random.default_rng(3).normal(0, 1, (2, 3, 12, 12)).astype(np.float32)
    (got,) = runtime.run(csdfgen.plan(network, backend="numpy"), x).values()
    for image in range(2):
        (want,) = reference(model, {"x": x[image : image + 1]}).values()
        np.testing.assert_allclose(got[image : image + 1], want, rtol=1e-4, atol=1e-4)
