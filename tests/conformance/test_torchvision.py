"""Do the networks of the zoo compute what torchvision's compute, and does torchvision print the
figures that the zoo quotes?

The zoo's weights are put into torchvision's modules, one after the other in the order in which they
run: then the outputs for the same image have to be the same. Figures are those of the weights'
    `meta`. Wants torchvision (https://pytorch.org/vision),
which nothing else here needs: `pip install torch torchvision`. Skipped without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tests.unit.test_zoo import holds
from zoo_models import ZOO

torch = pytest.importorskip("torch", reason="torchvision is not installed")
models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")

NAMES = {
    "densenet121": "densenet121",
    "efficientnet_b0": "efficientnet_b0",
    "fcn_resnet50": "fcn_resnet50",
    "inception_v3": "inception_v3",
    "lraspp_mobilenet_v3": "lraspp_mobilenet_v3_large",
    "mnasnet": "mnasnet1_0",
    "mobilenet_v2": "mobilenet_v2",
    "mobilenet_v3_large": "mobilenet_v3_large",
    "mobilenet_v3_small": "mobilenet_v3_small",
    "regnet_x_400mf": "regnet_x_400mf",
    "regnet_y_400mf": "regnet_y_400mf",
    "resnet101": "resnet101",
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50": "resnet50",
    "resnext50": "resnext50_32x4d",
    "shufflenet_v2": "shufflenet_v2_x1_0",
    "squeezenet1_0": "squeezenet1_0",
    "squeezenet1_1": "squeezenet1_1",
    "ssdlite_mobilenet_v3": "ssdlite320_mobilenet_v3_large",
    "vgg16": "vgg16",
    "vgg19": "vgg19",
}
"""Network of the zoo -> torchvision's name of it."""

OPTIONS: dict[str, dict[str, Any]] = {
    "fcn_resnet50": {"weights_backbone": None, "num_classes": 21, "aux_loss": True},
    "inception_v3": {"init_weights": False},
    "lraspp_mobilenet_v3": {"weights_backbone": None, "num_classes": 21},
    "ssdlite_mobilenet_v3": {"weights_backbone": None, "num_classes": 91},
}

TOLERANCE = 2e-5
"""Of the largest output: sums are formed in another order."""


def test_every_network_that_names_torchvision_is_compared() -> None:
    assert {
        entry.name for entry in ZOO.values() if entry.published.source.startswith("torchvision ")
    } == set(NAMES)
    assert all(
        ZOO[name].published.source == f"torchvision {theirs}" for name, theirs in NAMES.items()
    )


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_that_torchvision_prints(name: str) -> None:
    published = ZOO[name].published
    printed = models.get_model_weights(NAMES[name]).DEFAULT.meta
    auxiliary = (
        3_326_696 if name == "inception_v3" else 0
    )  # it serves training alone; the zoo leaves it out and says so
    assert printed["num_params"] - auxiliary == published.parameters
    giga = printed["_ops"]
    assert (
        holds(published.macs, round(giga * 1e9), "rounded")
        or round(published.macs / 1e9, 3) == giga
    )


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_the_same_with_the_same_weights(name: str) -> None:
    model = ZOO[name].build(*ZOO[name].published.size)
    network = models.get_model(NAMES[name], weights=None, **OPTIONS.get(name, {})).eval()
    image = torch.rand(1, 3, *ZOO[name].published.size) * 2 - 1
    run = HEADS.get(name, outputs)
    with torch.no_grad():
        give(weighted(network, lambda: run(network, image), ORDERS.get(name)), list(weights(model)))
        expected = run(network, image)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    got = session.run(None, {session.get_inputs()[0].name: image.numpy()})
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        want = theirs.softmax(1) if model.graph.node[-1].op_type == "Softmax" else theirs
        distance = np.abs(ours.ravel() - want.numpy().ravel()).max()
        assert distance <= TOLERANCE * np.abs(ours).max()


# --- torchvision's side -------------------------------------------------------------------------


def outputs(network: Any, image: Any) -> list[Any]:
    found = network(image)
    return list(found.values()) if isinstance(found, dict) else [found]


def heads_of_detector(network: Any, image: Any) -> list[Any]:
    """What the heads of SSD compute from every map, in front of the decoding of boxes."""
    maps = network.backbone(image).values()
    heads = (network.head.classification_head.module_list, network.head.regression_head.module_list)
    return [head[level](features) for level, features in enumerate(maps) for head in heads]


HEADS: dict[str, Callable[[Any, Any], list[Any]]] = {"ssdlite_mobilenet_v3": heads_of_detector}

WEIGHTED = ("Conv2d", "BatchNorm2d", "Linear")
"""Modules that have weights."""


def weighted(network: Any, run: Callable[[], object], order: Order | None) -> list[Any]:
    """Modules with weights in the order in which they run, and within a block as `order` wants
    them.
    """
    names = {
        module: name
        for name, module in network.named_modules()
        if type(module).__name__ in WEIGHTED
    }
    found: list[Any] = []
    hooks = [
        module.register_forward_hook(lambda module, *_: found.append(module)) for module in names
    ]
    run()
    for hook in hooks:
        hook.remove()
    if order is None:
        return found
    depth, rank = order
    blocks = [".".join(names[module].split(".")[:depth]) for module in found]
    first = [blocks.index(block) for block in blocks]
    within = [
        rank(block, names[module].removeprefix(block + "."))
        for block, module in zip(blocks, found, strict=True)
    ]
    return [found[k] for k in sorted(range(len(found)), key=lambda k: (first[k], within[k]))]


Order = tuple[int, Callable[[str, str], int]]
"""Parts of a module's name that name its block, and the rank of a module by block and by the rest
of its name.
"""

BRANCHES = {"Mixed_6a": ("branch3x3dbl", "branch3x3"), "Mixed_7a": ("branch3x3_", "branch7x7x3")}
USUAL_BRANCHES = (
    "branch5x5",
    "branch7x7_",
    "branch3x3_",
    "branch7x7dbl",
    "branch3x3dbl",
    "branch1x1",
    "branch_pool",
)
"""Branches of Inception's blocks in the order in which the zoo builds them."""


def branch(block: str, module: str) -> int:
    """Which branch of an Inception block a module is in; 0 outside of any."""
    return next(
        (
            k
            for k, start in enumerate(BRANCHES.get(block, USUAL_BRANCHES))
            if module.startswith(start)
        ),
        0,
    )


ORDERS: dict[str, Order] = {
    "inception_v3": (1, branch),
    "regnet_x_400mf": (
        3,
        lambda _, module: module.startswith("proj"),
    ),  # torchvision computes shortcuts first, the zoo last
    "regnet_y_400mf": (3, lambda _, module: module.startswith("proj")),
}

# --- the zoo's side -----------------------------------------------------------------------------


def weights(model: onnx.ModelProto) -> Iterator[tuple[np.ndarray, ...]]:
    """Of each layer that has any: weight and bias, or scale, bias, mean and variance."""
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    steps = iter(model.graph.node)
    for node in steps:
        own = tuple(arrays[name] for name in node.input[1:] if name in arrays)
        if (
            node.op_type == "BatchNormalization" and len(own) == 2
        ):  # statistics alone; a Mul and an Add follow
            scale, shift = (arrays[next(steps).input[1]].ravel() for _ in range(2))
            own = (scale, shift, *own)
        if own:
            yield own


def give(modules: Sequence[Any], arrays: Sequence[tuple[np.ndarray, ...]]) -> None:
    """Copy the weights of the zoo into torchvision's modules."""
    for module, own in zip(modules, arrays, strict=True):
        places = [module.weight] if module.bias is None else [module.weight, module.bias]
        if type(module).__name__ == "BatchNorm2d":
            places += [module.running_mean, module.running_var]
        for place, array in zip(places, own, strict=True):
            place.copy_(torch.tensor(array.copy()).reshape(place.shape))
