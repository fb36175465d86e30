"""Batches of whole networks: those of the zoo, and a light one of the onnx package, run two or three
images, each as onnxruntime runs it alone.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.model.network import Network
from runtime.images import random_inputs
from runtime.reference import Reference, compare
from runtime.verify import check_layers, check_outputs
from tests.networks import LIGHT, light, with_last_scores
from tests.unit.test_zoo import SMALL
from tests.ways import some
from zoo_models import ZOO

pytestmark = pytest.mark.networks

_OF_ONE = """
    alexnet alexnet_moe alexnet_moe_dense b_alexnet caffenet emotion_ferplus fcn_resnet50
    googlenet inception_v1 inception_v2 lraspp_mobilenet_v3 mnist resnet101 resnet50 resnet50_v1
    resnext50 shufflenet_v1 shufflenet_v1_g4 shufflenet_v2 super_resolution vgg16 vgg19 zfnet512
"""
ZOO_OF_ONE = frozenset(_OF_ONE.split())
"""Networks of the zoo whose files fix one image: a Reshape to 1x9216, a Resize to 1x21x520x520."""

LIGHT_OF_ONE = frozenset(LIGHT) - {"densenet121", "squeezenet"}

BATCHES = (2, 3)


def batched(model: onnx.ModelProto, of_one: bool, images: int) -> Network:
    network = csdfgen.load(model, batch=images)
    assert (network.batch, network.lifted) == (images, of_one)
    return network


def check(model: onnx.ModelProto, pixels: tuple[float, float], of_one: bool, images: int) -> None:
    """A batch in slabs of rows beside onnxruntime's outputs for every image alone."""
    single = csdfgen.load(model)
    (tensor,) = single.inputs
    rng = np.random.default_rng(3)
    x = rng.uniform(*pixels, (images, *tensor.shape[1:])).astype(np.float32)
    reference = Reference(model, single)
    alone = [reference({tensor.name: image[None]}) for image in x]
    network = batched(model, of_one, images)
    got = runtime.run(csdfgen.plan(network, rows="auto", policy="demand"), x)
    for name, array in got.items():
        for image, want in zip(array, alone, strict=True):
            assert compare(name, image[None], want[name]).ok, f"{name} of {images} images"


@pytest.mark.parametrize(("name", "images"), list(zip(ZOO, cycle(BATCHES), strict=False)))
def test_batches_of_the_zoo(name: str, images: int) -> None:
    """Networks of a family are beside each other: one of them takes two images, the next one three. A third of them is
    executed, and all where everything is tested.
    """
    entry = ZOO[name]
    model = with_last_scores(entry.build(*SMALL.get(name, (64, 48))))
    if [*ZOO].index(name) % some(3, 1):
        batched(model, name in ZOO_OF_ONE, images)
    else:
        check(model, entry.pixels, name in ZOO_OF_ONE, images)


@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_take_batches(name: str) -> None:
    """Their files hold no weights, and the zoo has their topologies (test_zoo)."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    for images in BATCHES:
        batched(model, name in LIGHT_OF_ONE, images)


def test_a_light_network_runs_batches() -> None:
    check(with_last_scores(light("shufflenet")), (-1.0, 1.0), of_one=True, images=2)


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "shufflenet_v1"])
def test_the_check_of_a_run_takes_batches(name: str) -> None:
    """Of a file that fixes one image, and of one that does not, layer by layer."""
    model = ZOO[name].build(*SMALL.get(name, (64, 48)))
    plan = csdfgen.plan(csdfgen.load(model, batch=2))
    feeds = random_inputs(plan.network, 1)
    assert all(one.ok for one in check_outputs(model, plan, feeds, runtime.run(plan, feeds)))
    assert all(entry.comparison.ok for entry in check_layers(model, plan, feeds))


REQUESTS = 4

OF_REQUESTS = {
    "ds_cnn": "auto",
    "emotion_ferplus": "auto",
    "googlenet": "auto",
    "lenet5": "numpy",
    "resnet18": "auto",
    "resnet8": "numpy",
    "shufflenet_v1": "numpy",
    "squeezenet1_0": "auto",
    "squeezenet1_1": "numpy",
    "unet": "numpy",
}
"""One of each kind, and the backend that has little memory: the others pass too, in minutes."""

MORE = 1.6
"""Times the memory of an image, in which only some layers take several images at once."""


@pytest.mark.parametrize("scarce", [False, True])
@pytest.mark.parametrize("name", OF_REQUESTS)
def test_requests_of_the_zoo(name: str, scarce: bool) -> None:
    """Layers that take several images at once, in the memory of whole layers and in little: every image is
    what it is alone, and a frame touches what was planned, to the byte.
    """
    entry, backend = ZOO[name], OF_REQUESTS[name] if scarce else "auto"
    model = with_last_scores(entry.build(*SMALL.get(name, (64, 48))))
    single = csdfgen.load(model)
    (tensor,) = single.inputs
    x = np.random.default_rng(4).uniform(*entry.pixels, (REQUESTS, *tensor.shape[1:]))
    images = x.astype(np.float32)
    network = csdfgen.load(model, batch=REQUESTS)
    if scarce:
        alone = csdfgen.plan(single, backend=backend)
        memory = int(MORE * (alone.planned_bytes + REQUESTS * single.output_bytes))
        plan = csdfgen.plan(network, requests=REQUESTS, backend=backend, memory=memory)
    else:
        plan = csdfgen.plan(network, requests=REQUESTS, backend=backend, batching="vbs")
    got, measured = runtime.compile(plan).measure({tensor.name: images})
    assert measured.touched_bytes == plan.planned_bytes
    reference = Reference(model, single)
    for number, image in enumerate(images):
        want = reference({tensor.name: image[None]})
        for output, array in got.items():
            assert compare(output, array[number : number + 1], want[output]).ok, (
                f"{output} {number}"
            )
