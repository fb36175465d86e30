"""MobileNets v1 and v2: depthwise convolutions between 1x1 ones.

Sources: Howard et al. 2017 (arXiv:1704.04861) and its authors' TensorFlow program, which is also
Keras' MobileNet (no biases, ReLU6, TensorFlow's padding); Sandler et al. 2018 (arXiv:1801.04381)
and torchvision for v2.
"""

from __future__ import annotations

from functools import partial

import onnx

from zoo_models._builder import Builder, Value
from zoo_models._entry import Published, ZooEntry

__all__ = ["NETWORKS", "V1_BLOCKS", "mobilenet_v1", "mobilenet_v2"]

V1_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
"""Channels and stride of every depthwise separable convolution of v1."""

V2_BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, repeats and first stride of every group of v2 (table 2 of the paper)."""


def mobilenet_v1(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """MobileNet v1 1.0.

    Published: 569 M multiply-accumulates at 224x224 (TensorFlow's page of it, and the paper);
    4,231,976 parameters (Keras' trainable ones).
    """
    b = Builder("mobilenet_v1", seed=seed, weights=weights)
    conv = partial(b.conv_bn, padding="SAME_UPPER", epsilon=1e-3, activation=b.relu6)
    x = conv(b.input(3, height, width or height), 32, 3, stride=2)
    for block, (channels, stride) in enumerate(V1_BLOCKS, start=1):
        with b.scope(f"block{block}"):
            x = conv(x, x.channels, 3, stride=stride, group=x.channels)
            x = conv(x, channels, 1)
    x = b.dropout(b.flatten(b.global_average_pool(x)), 0.001)
    return b.model(b.softmax(b.gemm(x, 1000), "probabilities"))


def mobilenet_v2(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """MobileNet v2 1.0: narrow maps are kept and added, wide ones live inside a block.

    Published (torchvision): 3,504,872 parameters, 0.301 G multiply-accumulates at 224x224.
    """
    b = Builder("mobilenet_v2", seed=seed, weights=weights)
    x = b.conv_bn(
        b.input(3, height, width or height), 32, 3, stride=2, padding=1, activation=b.relu6
    )
    for group, (expansion, channels, repeats, first) in enumerate(V2_BLOCKS, start=1):
        for block in range(repeats):
            with b.scope(f"group{group}/block{block + 1}"):
                x = _inverted_residual(
                    b, x, expansion * x.channels, channels, first if block == 0 else 1
                )
    x = b.conv_bn(x, 1280, 1, activation=b.relu6)
    x = b.dropout(b.flatten(b.global_average_pool(x)), 0.2)
    return b.model(b.gemm(x, 1000, name="scores"))


def _inverted_residual(b: Builder, x: Value, inner: int, channels: int, stride: int) -> Value:
    y = b.conv_bn(x, inner, 1, activation=b.relu6) if inner != x.channels else x
    y = b.conv_bn(y, inner, 3, stride=stride, padding=1, group=inner, activation=b.relu6)
    y = b.conv_bn(y, channels, 1)
    return b.add(y, x) if stride == 1 and x.channels == channels else y


NETWORKS = (
    ZooEntry(
        "mobilenet_v1",
        mobilenet_v1,
        "MobileNet",
        "classification",
        Published(
            4_231_976,
            569_000_000,
            "TensorFlow's mobilenet_v1, as in Howard et al. 2017 (arXiv:1704.04861)",
            "parameters: Keras MobileNet, trainable",
            definition="Keras 3.15 MobileNet",
        ),
    ),
    ZooEntry(
        "mobilenet_v2",
        mobilenet_v2,
        "MobileNet",
        "classification",
        Published(3_504_872, 301_000_000, "torchvision mobilenet_v2"),
    ),
)
