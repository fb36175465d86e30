"""What kernels declare as workspace is asked once for all steps that are alike, in whatever plan they stand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import product
from types import MappingProxyType

import numpy as np
import pytest

import csdfgen
from csdfgen.backends.numpy import backend as numpy_set
from csdfgen.backends.registry import load_backend
from csdfgen.model.network import Layer, Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning import workspaces
from csdfgen.planning.prepared import Phased
from csdfgen.planning.workspaces import Scratch
from tests.builder import Graph
from tests.native_steps import compiler_missing
from tests.op_harness import Arg, Sample, heights
from tests.op_samples import SAMPLES
from tests.planning import prepared
from tests.scattered import Layout, declared
from tests.ways import ways

BACKENDS = [
    "numpy",
    pytest.param(
        "native",
        marks=pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
    ),
]

LIMITS = (0, 1 << 11, 1 << 13, 1 << 16, None)


class Forgetful(dict[Hashable, np.ndarray]):
    """Says that it knows nothing."""

    def __contains__(self, key: object) -> bool:
        return False


def levels(phased: Phased) -> list[Scratch]:
    return [phased.declared.sizes(limit) for limit in LIMITS]


def check_alone(wishes: Sequence[Phased], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found for others is what every step would have been found to take on its own."""
    found = [levels(wish) for wish in wishes]
    monkeypatch.setattr(numpy_set, "_workspaces", lambda layer: {})
    monkeypatch.setattr(workspaces, "_known", lambda layer: {})
    monkeypatch.setattr(workspaces, "demands", lambda layer, phases: range(len(phases)))
    for wish, known in zip(wishes, found, strict=True):
        for mine, alone in zip(known, levels(replace(wish, asked=Forgetful())), strict=True):
            assert mine.keys() == alone.keys()
            for actor, sizes in alone.items():
                assert np.array_equal(mine[actor], sizes), actor


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
    one = prepared(load(), PlanOptions())
    wishes = [one.phased(PlanOptions(rows)) for rows in ("1", "3", "auto", "whole")]
    together = PlanOptions("whole", frames=5, batches="all")
    check_alone([*wishes, one.for_images(5).phased(together)], monkeypatch)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_in_pieces_and_in_blocks_take_as_much(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of equal form, of which one reads its input in two pieces, and phases that read from one block or from two."""
    net = Graph()
    x = net.input("x", (1, 8, 8, 6))
    a = net.conv(x, 3)
    pieces = net.node("Concat", a, net.conv(a, 5), axis=1, channels=8)
    channels = net.constant(np.array([5, 1, 2]))
    made = [net.node("Gather", one, channels, axis=1) for one in (net.conv(x, 8), pieces)]
    made.append(net.conv(a, 2, 1))
    one = prepared(csdfgen.load(net.model(*made)), PlanOptions(backend=backend))
    ways = product(("1", "2", "3"), (False, True))
    wishes = [one.phased(PlanOptions(rows, backend=backend), fine=fine) for rows, fine in ways]
    check_alone(wishes, monkeypatch)


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


@pytest.mark.parametrize("backend", BACKENDS)
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


def test_a_scalar_may_change_what_a_layer_takes() -> None:
    """A cube needs scratch for the square, which a square does not."""
    square, cube = (
        Sample("Pow", (Arg((1, 3, 6, 5), 2), np.array(exponent, np.float32))).layer()
        for exponent in (2, 3)
    )
    taken = [declared(one, 2, Layout(), None, load_backend("numpy")) for one in (square, cube)]
    assert taken[0] != taken[1] and square.form != cube.form


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_elements_are_gathered_from_where_they_lie(axis: int | None, row: int) -> None:
    """Without a copy of the data in ONNX order, whichever axis they are stored by."""
    data, indices = Arg((20, 30, 40), row), Arg((2, 3), None, dtype="int64", low=0, high=2)
    sample = Sample("GatherND", (data, indices))
    if axis is not None:
        indices = replace(indices, shape=(2, 2, 2))
        sample = Sample("GatherElements", (data, indices), {"axis": axis})
    assert max(declared(sample.layer(), 1, Layout(block=40), None)) < 20 * 30 * 40
