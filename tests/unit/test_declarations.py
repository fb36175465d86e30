"""What kernels declare as workspace is asked once for all steps that are alike, in whatever plan they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

import csdfgen
from csdfgen.backends.numpy import backend as numpy_set
from csdfgen.backends.registry import load_backend
from csdfgen.model.network import Layer, Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning import workspaces
from csdfgen.planning.prepared import Prepared
from csdfgen.planning.workspaces import Declarations, Scratch
from tests.builder import Graph
from tests.native_steps import compiler_missing
from tests.op_harness import heights
from tests.op_samples import SAMPLES
from tests.planning import prepared
from tests.scattered import Layout, declared
from tests.ways import ways

LIMITS = (0, 1 << 11, 1 << 13, 1 << 16, None)


def levels(prepared: Prepared, options: PlanOptions) -> list[Scratch]:
    declared = prepared.phased(options).declared
    return [declared.sizes(limit) for limit in LIMITS]


def joined_rows() -> Network:
    """Equal blocks that join rows, constants among them, pad them and cut them otherwise."""
    net = Graph()
    x = net.input("x", (1, 4, 40, 8))
    for _ in range(2):
        x = net.node("Relu", net.conv(x, 4), channels=4)
        first = net.constant(net.rng.normal(size=(1, 4, 3, 8)).astype(np.float32))
        x = net.node("Concat", first, x, x, axis=2, channels=4)
        for mode in ("constant", "reflect"):
            pads = net.constant(np.array([0, 0, 2, 0, 0, 0, 5, 0]))
            x = net.node("Pad", x, pads, mode=mode)
        x = net.node("Slice", x, *(net.constant(np.array([k])) for k in (7, 47, 2)))
        x = net.node("Unsqueeze", x, net.constant(np.array([4])))
        x = net.node("Reshape", x, net.constant(np.array([1, 4, 160, 2])))
        x = net.node("Reshape", x, net.constant(np.array([1, 4, 40, 8])))
    return csdfgen.load(net.model(net.node("Tanh", x)))


@pytest.mark.networks
@pytest.mark.parametrize(
    "load",
    [
        pytest.param(lambda name=name: csdfgen.load(f"zoo:{name}"), id=name)
        for name in ("googlenet@64x64", "shufflenet_v1@64x64", "mobilenet_v3_small@64x64")
    ]
    + [joined_rows],
)
def test_steps_that_are_alike_take_as_much(
    load: Callable[[], Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found for others is what every step would have been found to take on its own."""
    one = prepared(load(), PlanOptions())
    wishes = [(one, PlanOptions(rows)) for rows in ("1", "3", "auto", "whole")]
    wishes.append((one.for_images(5), PlanOptions("whole", frames=5, batches="all")))
    found = [levels(*wish) for wish in wishes]
    monkeypatch.setattr(numpy_set, "_workspaces", lambda layer: {})
    monkeypatch.setattr(workspaces, "_known", lambda layer: {})
    monkeypatch.setattr(Declarations, "_stored", lambda self, work: object())
    monkeypatch.setattr(workspaces, "demands", lambda layer, phases: range(len(phases)))
    for wish, known in zip(wishes, found, strict=True):
        for mine, alone in zip(known, levels(*wish), strict=True):
            assert mine.keys() == alone.keys()
            for actor, sizes in alone.items():
                assert np.array_equal(mine[actor], sizes), actor


def with_other_weights(layer: Layer) -> Layer:
    """The layer with other elements in constants of several floats."""
    rng = np.random.default_rng(1)
    constants = {
        at: rng.uniform(0.1, 2, one.shape).astype(one.dtype)
        if one.dtype.kind == "f" and one.size > 1
        else one
        for at, one in layer.constants.items()
    }
    return replace(layer, constants=MappingProxyType(constants))


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
def test_layers_of_equal_form_take_as_much(backend: str) -> None:
    kernels = load_backend(backend)
    weighed = 0
    axes = {"height": range(2), "limit": (0, 1 << 13, None)}
    for sample, tried in zip(SAMPLES, ways([s.values for s in SAMPLES], axes, 2), strict=True):
        for layer in sample.operator.layers(sample.node()):
            other = with_other_weights(layer)
            assert other.form == layer.form
            if all(np.array_equal(one, layer.constants[k]) for k, one in other.constants.items()):
                continue
            weighed += 1
            for turn, limit in tried:
                height = heights(layer)[:2][turn % len(heights(layer))]
                sizes = [declared(one, height, Layout(), limit, kernels) for one in (layer, other)]
                assert sizes[0] == sizes[1], (sample, height, limit)
    assert weighed > 100
