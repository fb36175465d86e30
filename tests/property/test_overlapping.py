"""Images one after another in one order: the least lag, what it keeps alive, and the buffers of a pipeline."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.backends.registry import choose_backend
from csdfgen.devices.catalogue import device as profile_of
from csdfgen.goals.overlap import count_held_rows, describe_overlap
from csdfgen.planning.plan import Plan
from runtime.images import random_inputs
from tests.networks import check_touched
from tests.property.test_frames import classifier, equal
from tests.random_networks import models


def spans(plan: Plan) -> dict[int, tuple[int, int]]:
    """Image -> its first firing and its last."""
    found: dict[int, tuple[int, int]] = {}
    for at, (actor, phase) in enumerate(plan.order):
        image = plan.conversion.actor[actor].phases[phase].image
        found[image] = found.get(image, (at, at))[0], at
    return found


def test_images_follow_each_other_and_give_what_one_gives() -> None:
    network = classifier(4)
    x = random_inputs(network, 0)
    want = runtime.run(csdfgen.plan(network, rows=1), x)
    for frames in (1, 2, 4):
        plan = csdfgen.plan(network, rows=1, frames=frames, policy="overlap")
        got, measured = runtime.compile(plan).measure(x)
        equal(got, want)
        check_touched(plan, measured.touched_bytes)
        images = spans(plan)
        assert len(images) == frames
        for image in range(1, frames):
            assert images[image - 1][0] < images[image][0] < images[image - 1][1]


def test_each_image_fires_in_the_order_of_one() -> None:
    network = classifier(3)
    one = csdfgen.plan(network, rows=1)
    several = csdfgen.plan(network, rows=1, frames=3, policy="overlap")
    phases = {work.name: len(work.phases) for work in one.conversion.actors}
    for image in range(3):
        mine = tuple((a, p % phases[a]) for a, p in several.order if p // phases[a] == image)
        assert mine == one.order
    assert (
        several.figures["lower_bound"] <= one.figures["peak_live"] <= several.figures["peak_live"]
    )


@settings(max_examples=8, deadline=None)
@given(models(), st.sampled_from(["1", "auto"]))
def test_any_network_overlaps_itself(model: onnx.ModelProto, rows: str) -> None:
    network = csdfgen.load(model, batch=2)
    plan = csdfgen.plan(network, rows=rows, frames=2, policy="overlap")
    x = random_inputs(network, 0)
    want = runtime.run(csdfgen.plan(network, rows=rows, policy="demand"), x)
    got = runtime.run(plan, x)
    for name, values in want.items():
        assert abs(values - got[name]).max(initial=0) <= 1e-4 * (1 + abs(values).max(initial=0))


def test_buffers_of_an_order() -> None:
    """One image of demand needs rows of a window; whole layers whole tensors."""
    network = csdfgen.load("zoo:lenet5")
    small = count_held_rows(csdfgen.plan(network, rows=1, policy="demand"))
    whole = count_held_rows(csdfgen.plan(network, rows="whole"))
    tensors = csdfgen.plan(network, rows="whole").network.tensors
    assert small.keys() == whole.keys()
    for name, rows in whole.items():
        assert 0 < small[name] <= rows == tensors[name].rows
    assert sum(small.values()) < sum(whole.values())


def test_rates_of_whole_layers_are_those_of_arithmetic() -> None:
    """With the buffers of one image each whole layer waits until its reader has ended, so that neighbours never
    work at once; on one processor all wait for all.
    """
    profile = profile_of(choose_backend(None).profile)
    network = csdfgen.load("zoo:lenet5", batch=2)
    one = csdfgen.plan(network, rows="whole")
    found = describe_overlap(
        csdfgen.plan(network, rows="whole", frames=2, policy="overlap"), one, profile
    )
    from csdfgen.devices.model import estimate

    layers = [layer.seconds for layer in estimate(one, profile).layers if layer.seconds]
    assert found.rate is not None and abs(found.rate * sum(layers) - 1) < 1e-9
    assert found.pipeline_of_one.rate is not None
    assert 1 / sum(layers) < found.pipeline_of_one.rate <= 1 / max(layers) * (1 + 1e-4)


def test_the_rate_of_a_request_counts_what_its_batches_save() -> None:
    """Layers that compute several images at once read their weights once for them."""
    from csdfgen.devices.model import estimate

    network = csdfgen.load("zoo:lenet5")
    plan = csdfgen.plan(network, requests=8, memory="400KiB", backend="numpy")
    profile = profile_of("numpy-core")
    one = csdfgen.plan(network, backend="numpy")
    found = describe_overlap(plan, one, profile)
    assert found.rate == pytest.approx(8 / estimate(plan, profile).seconds)
    assert found.rate > 1.5 / estimate(one, profile).seconds
