"""EfficientNet and MnasNet: inverted residuals whose numbers were searched by machine.

Sources: Tan, Le 2019 (arXiv:1905.11946); Tan et al. 2018 (arXiv:1807.11626); torchvision for both.
"""

from __future__ import annotations

import onnx

from zoo_models._builder import Builder, Value
from zoo_models._entry import Published, ZooEntry

__all__ = ["NETWORKS", "efficientnet_b0", "mnasnet"]

B0 = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
B1_MNAS = (
    (3, 3, 2, 24, 3),
    (3, 5, 2, 40, 3),
    (6, 5, 2, 80, 3),
    (6, 3, 1, 96, 2),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
"""Expansion, kernel, first stride, channels and repeats of every group of blocks."""


def efficientnet_b0(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """EfficientNet-B0: every block is gated by channel, activations are x * sigmoid(x).

    Published (torchvision): 5,288,548 parameters, 0.386 G multiply-accumulates at 224x224.
    """
    b = Builder("efficientnet_b0", seed=seed, weights=weights)
    x = b.conv_bn(
        b.input(3, height, width or height), 32, 3, stride=2, padding=1, activation=b.silu
    )
    for group, (expansion, kernel, first, channels, repeats) in enumerate(B0, start=1):
        for block in range(repeats):
            with b.scope(f"group{group}/block{block + 1}"):
                x = _gated_block(b, x, expansion, kernel, first if block == 0 else 1, channels)
    x = b.conv_bn(x, 1280, 1, activation=b.silu)
    x = b.dropout(b.flatten(b.global_average_pool(x)), 0.2)
    return b.model(b.gemm(x, 1000, name="scores"))


def _gated_block(
    b: Builder, x: Value, expansion: int, kernel: int, stride: int, channels: int
) -> Value:
    inner = expansion * x.channels
    y = b.conv_bn(x, inner, 1, activation=b.silu) if expansion > 1 else x
    y = b.conv_bn(
        y, inner, kernel, stride=stride, padding=kernel // 2, group=inner, activation=b.silu
    )
    g = b.silu(b.conv(b.global_average_pool(y), x.channels // 4, 1))
    y = b.gate(y, b.sigmoid(b.conv(g, inner, 1)))
    y = b.conv_bn(y, channels, 1)
    return b.add(y, x) if stride == 1 and x.channels == channels else y


def mnasnet(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """MnasNet-B1 1.0 (without gates, unlike A1).

    Published (torchvision mnasnet1_0): 4,383,312 parameters, 0.314 G multiply-accumulates at
    224x224.
    """
    b = Builder("mnasnet", seed=seed, weights=weights)
    x = b.conv_bn(
        b.input(3, height, width or height), 32, 3, stride=2, padding=1, activation=b.relu
    )
    x = b.conv_bn(x, 32, 3, padding=1, group=32, activation=b.relu)
    x = b.conv_bn(x, 16, 1)
    for group, (expansion, kernel, first, channels, repeats) in enumerate(B1_MNAS, start=1):
        for block in range(repeats):
            with b.scope(f"group{group}/block{block + 1}"):
                stride, inner = first if block == 0 else 1, expansion * x.channels
                y = b.conv_bn(x, inner, 1, activation=b.relu)
                y = b.conv_bn(
                    y,
                    inner,
                    kernel,
                    stride=stride,
                    padding=kernel // 2,
                    group=inner,
                    activation=b.relu,
                )
                y = b.conv_bn(y, channels, 1)
                x = b.add(y, x) if block else y
    x = b.conv_bn(x, 1280, 1, activation=b.relu)
    x = b.dropout(b.flatten(b.global_average_pool(x)), 0.2)
    return b.model(b.gemm(x, 1000, name="scores"))


NETWORKS = (
    ZooEntry(
        "efficientnet_b0",
        efficientnet_b0,
        "EfficientNet",
        "classification",
        Published(5_288_548, 386_000_000, "torchvision efficientnet_b0"),
    ),
    ZooEntry(
        "mnasnet",
        mnasnet,
        "MnasNet",
        "classification",
        Published(4_383_312, 314_000_000, "torchvision mnasnet1_0"),
    ),
)
