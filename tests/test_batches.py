"""Batches of whole networks: every network of the zoo, and the light ones of the onnx package, runs
two and three images, each as onnxruntime runs it alone.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from runtime.reference import Reference, compare
from runtime.verify import check_outputs
from tests.networks import LIGHT, light, with_last_scores
from tests.unit.test_zoo import SMALL
from zoo_models import ZOO

pytestmark = pytest.mark.networks

_OF_ONE = """
    alexnet caffenet emotion_ferplus fcn_resnet50 googlenet inception_v1 inception_v2
    lraspp_mobilenet_v3 mnist resnet101 resnet50 resnet50_v1 resnext50 shufflenet_v1
    shufflenet_v1_g4 shufflenet_v2 super_resolution vgg16 vgg19 zfnet512
"""
ZOO_OF_ONE = frozenset(_OF_ONE.split())
"""Networks of the zoo whose files fix one image: a Reshape to 1x9216, a Resize to 1x21x520x520."""

LIGHT_OF_ONE = frozenset(LIGHT) - {"densenet121", "squeezenet"}


def check(model: onnx.ModelProto, images: int, pixels: tuple[float, float], of_one: bool) -> None:
    network = csdfgen.load(model, batch=images)
    assert (network.batch, network.lifted) == (images, of_one)
    (tensor,) = network.inputs
    rng = np.random.default_rng(images)
    x = rng.uniform(*pixels, (images, *tensor.shape[1:])).astype(np.float32)
    plan = csdfgen.plan(network, rows="auto")
    got = runtime.run(plan, x)
    assert all(one.ok for one in check_outputs(model, plan, {tensor.name: x}, got))
    alone = Reference(model, csdfgen.load(model))
    for k in range(images):
        for name, want in alone({tensor.name: x[k : k + 1]}).items():
            assert compare(name, got[name][k : k + 1], want).ok, f"{name} of image {k}"


@pytest.mark.parametrize("images", [2, 3])
@pytest.mark.parametrize("name", ZOO)
def test_batches_of_the_zoo(name: str, images: int) -> None:
    entry = ZOO[name]
    model = with_last_scores(entry.build(*SMALL.get(name, (64, 48))))
    check(model, images, entry.pixels, name in ZOO_OF_ONE)


@pytest.mark.parametrize("name", LIGHT)
def test_batches_of_light_networks(name: str) -> None:
    check(with_last_scores(light(name)), 2, (-1.0, 1.0), name in LIGHT_OF_ONE)
