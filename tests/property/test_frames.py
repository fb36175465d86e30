"""Images count as more rows: an order that covers several frames, and phases that work on whole images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError
from csdfgen.model.network import Network
from csdfgen.phases.conversion import convert
from csdfgen.rewriting.fuse import fuse
from tests.builder import Graph
from tests.networks import check_touched, planned_together
from tests.small_models import residual_classifier


def classifier(batch: int) -> Network:
    """Convolution, pool, a skip, a concatenation, an accumulating pool and a fully connected layer."""
    g = Graph()
    x = g.input("x", (batch, 3, 9, 7))
    a = g.node("Relu", g.conv(x, 4))
    b = g.node("Add", g.conv(a, 4), a)
    c = g.node("MaxPool", b, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    d = g.node("Concat", g.conv(c, 3, 1), c, channels=7, axis=1)
    return csdfgen.load(g.model(g.node("GlobalAveragePool", d), d))


def feeds(network: Network, seed: int = 3) -> dict[str, np.ndarray]:
    (x,) = network.inputs
    shape = (network.batch, *x.shape[1:])
    return {x.name: np.random.default_rng(seed).uniform(-1, 1, shape).astype(x.dtype)}


def equal(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, want in theirs.items():
        np.testing.assert_allclose(ours[name], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("policy", ["demand", "eager", "layers"])
@pytest.mark.parametrize("rows", [1, 2, "whole"])
@pytest.mark.parametrize("level", ["none", "full"])
def test_several_frames_give_what_one_gives(policy: str, rows: int | str, level: str) -> None:
    """4 images, two or all four of them in one order: the next one enters before the last has left."""
    network = classifier(4)
    assert network.batch == 4
    x = feeds(network)
    want = runtime.run(csdfgen.plan(network, rows=rows, fuse=level), x)
    for frames in (2, 4):
        plan = csdfgen.plan(network, rows=rows, fuse=level, policy=policy, frames=frames)
        assert plan.conversion.frames == frames
        got, measured = runtime.compile(plan).measure(x)
        equal(got, want)
        check_touched(plan, measured.touched_bytes)


def test_frames_overlap_where_the_order_lets_them() -> None:
    """Layer by layer, rows of the second image are made while the first is still in use."""
    network = classifier(2)
    plan = csdfgen.plan(network, rows=1, policy="layers", frames=2)
    images = [
        plan.conversion.actor[name].phases[phase].image
        for name, phase in plan.order
        if plan.conversion.actor[name].kind == "layer"
    ]
    first_of_second = images.index(1)
    assert 0 in images[first_of_second:], "the images run one after the other"


def test_frames_that_do_not_divide_the_batch_are_refused() -> None:
    with pytest.raises(InputError, match="does not divide a batch of 4"):
        csdfgen.plan(classifier(4), frames=3)
    with pytest.raises(InputError, match="above 0"):
        csdfgen.plan(classifier(4), frames=0)


def half(batch: int) -> Network:
    """float16: the mean is summed in float32, in a state of its own."""
    g = Graph()
    x = g.node("Tanh", g.input("x", (batch, 6, 9, 7), dtype="float16"))
    pooled = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])
    return csdfgen.load(g.model(g.node("GlobalAveragePool", pooled)))


@pytest.mark.parametrize("make", [classifier, half])
@pytest.mark.parametrize("rows", [1, "whole"])
def test_a_phase_may_take_whole_images(rows: int | str, make: Callable[[int], Network]) -> None:
    network = make(4)
    x = feeds(network)
    want = runtime.run(csdfgen.plan(network, rows=rows), x)
    layers = fuse(network).layers
    for layer in layers:
        for images in (2, 4):
            plan = planned_together(network, rows, {layer.name: images}, 4)
            works = plan.conversion.actor[layer.name]
            assert len(works.phases) == 4 // images and works.phases[0].images == images
            got = runtime.run(plan, x)
            for name, value in want.items():
                np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)
    everything = planned_together(network, rows, {layer.name: 2 for layer in layers}, 4)
    equal(runtime.run(everything, x), want)


@pytest.mark.parametrize("make", [classifier, half])
def test_groups_of_images_need_not_be_equal(make: Callable[[int], Network]) -> None:
    """Groups of one image are cut into rows, larger ones are not; what is left is a group."""
    network = make(5)
    x = feeds(network)
    want = runtime.run(csdfgen.plan(network, rows=2), x)
    layers = fuse(network).layers
    for layer in layers:
        plan = planned_together(network, 2, {layer.name: (3, 1)}, 5)
        work = plan.conversion.actor[layer.name]
        assert [p.images for p in work.phases if p.first][:2] == [3, 1]
        assert {(p.group, p.image, p.images) for p in work.phases} == {
            (0, 0, 3),
            (1, 3, 1),
            (2, 4, 1),
        }
        got, measured = runtime.compile(plan).measure(x)
        assert measured.touched_bytes == plan.planned_bytes
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


def test_batches_of_layers_that_there_are_not_are_refused() -> None:
    network = classifier(4)
    with pytest.raises(InputError, match="batches names 'nothing', which is no layer"):
        convert(network, batches={"nothing": 3}, frames=4)
    with pytest.raises(InputError, match="'0' is not a number of images above 0, nor one of all"):
        convert(network, batches="0", frames=4)


def test_a_plan_for_frames_survives_its_file(tmp_path: object) -> None:
    from csdfgen.planning.plan_file import from_json, to_json
    from tests.planning import to_plan

    network = csdfgen.load(residual_classifier(batch="n"), batch=2)
    plan = csdfgen.plan(network, rows=2, frames=2)
    again = to_plan(from_json(to_json(plan)), network)
    assert again.order == plan.order and again.regions == plan.regions
    assert again.options == replace(plan.options)
    x = feeds(network)
    equal(runtime.run(again, x), runtime.run(plan, x))
