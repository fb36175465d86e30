"""VGG: 3x3 convolutions, pools between, three fully connected layers.

Source: Simonyan, Zisserman 2014 (arXiv:1409.1556), configurations D and E; vgg19 of the ONNX model
zoo, which comes from Caffe. At image sizes other than 224x224 the first fully connected layer has
other weights.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network


@network("VGG")
def vgg16(b: Builder, x: Value) -> Value:
    """VGG-16 (configuration D)."""
    return _vgg(b, x, (2, 2, 3, 3, 3))


@network("VGG")
def vgg19(b: Builder, x: Value) -> Value:
    """VGG-19 (configuration E)."""
    return _vgg(b, x, (2, 2, 4, 4, 4))


def _vgg(b: Builder, x: Value, depths: tuple[int, ...]) -> Value:
    """depths: convolutions in front of every pool."""
    for stage, depth in enumerate(depths, start=1):
        with b.scope(f"stage{stage}"):
            for _ in range(depth):
                x = b.relu(b.conv(x, min(32 << stage, 512), 3, padding=1))
            x = b.max_pool(x, 2, 2)
    x = b.rows_of(x)
    for _ in range(2):
        x = b.dropout(b.relu(b.gemm(x, 4096)))
    return b.softmax(b.gemm(x, 1000), "probabilities")
