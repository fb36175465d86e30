"""VGG: 3x3 convolutions, pools between, three fully connected layers.

Source: Simonyan, Zisserman 2014 (arXiv:1409.1556), configurations D and E; vgg19 of the ONNX model
zoo, which comes from Caffe. At image sizes other than 224x224 the first fully connected layer has
other weights.
"""

from __future__ import annotations

import onnx

from zoo_models._builder import Builder
from zoo_models._entry import Published, ZooEntry

__all__ = ["NETWORKS", "vgg16", "vgg19"]


def vgg16(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """VGG-16 (configuration D).

    Published (torchvision): 138,357,544 parameters, 15.47 G multiply-accumulates at 224x224.
    """
    return _vgg("vgg16", (2, 2, 3, 3, 3), height, width, seed, weights)


def vgg19(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """VGG-19 (configuration E).

    Published (torchvision): 143,667,240 parameters, 19.632 G multiply-accumulates at 224x224.
    """
    return _vgg("vgg19", (2, 2, 4, 4, 4), height, width, seed, weights)


def _vgg(
    name: str, depths: tuple[int, ...], height: int, width: int | None, seed: int, weights: bool
) -> onnx.ModelProto:
    """depths: convolutions in front of every pool."""
    b = Builder(name, seed=seed, weights=weights)
    x = b.input(3, height, width or height)
    for stage, (channels, depth) in enumerate(
        zip((64, 128, 256, 512, 512), depths, strict=True), start=1
    ):
        with b.scope(f"stage{stage}"):
            for _ in range(depth):
                x = b.relu(b.conv(x, channels, 3, padding=1))
            x = b.max_pool(x, 2, 2)
    x = b.rows_of(x)
    for _ in range(2):
        x = b.dropout(b.relu(b.gemm(x, 4096)))
    return b.model(b.softmax(b.gemm(x, 1000), "probabilities"))


NETWORKS = (
    ZooEntry(
        "vgg16",
        vgg16,
        "VGG",
        "classification",
        Published(138_357_544, 15_470_000_000, "torchvision vgg16"),
    ),
    ZooEntry(
        "vgg19",
        vgg19,
        "VGG",
        "classification",
        Published(
            143_667_240,
            19_632_000_000,
            "torchvision vgg19",
            compared="graph",
            definition="vgg19 in the onnx package",
        ),
    ),
)
