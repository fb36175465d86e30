"""RegNet: stages of equal blocks whose widths lie on a line.

Source: Radosavovic et al. 2020 (arXiv:2003.13678); torchvision.
"""

from __future__ import annotations

import onnx

from zoo_models._builder import Builder, Value
from zoo_models._entry import Published, ZooEntry

__all__ = ["NETWORKS", "regnet_x_400mf", "regnet_y_400mf"]


def regnet_x_400mf(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """RegNetX-400MF: 3x3 convolutions in groups of 16 channels.

    Published (torchvision): 5,495,976 parameters, 0.414 G multiply-accumulates at 224x224.
    """
    b = Builder("regnet_x_400mf", seed=seed, weights=weights)
    return _regnet(
        b,
        b.input(3, height, width or height),
        ((1, 32), (2, 64), (7, 160), (12, 400)),
        16,
        gated=False,
    )


def regnet_y_400mf(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """RegNetY-400MF: 3x3 convolutions in groups of 8 channels, and gates by channel.

    Published (torchvision): 4,344,144 parameters, 0.402 G multiply-accumulates at 224x224.
    """
    b = Builder("regnet_y_400mf", seed=seed, weights=weights)
    return _regnet(
        b,
        b.input(3, height, width or height),
        ((1, 48), (3, 104), (6, 208), (6, 440)),
        8,
        gated=True,
    )


def _regnet(
    b: Builder, image: Value, stages: tuple[tuple[int, int], ...], group_width: int, *, gated: bool
) -> onnx.ModelProto:
    """stages: blocks and channels of each."""
    x = b.conv_bn(image, 32, 3, stride=2, padding=1, activation=b.relu)
    for stage, (depth, channels) in enumerate(stages, start=1):
        for block in range(depth):
            with b.scope(f"stage{stage}/block{block + 1}"):
                x = _block(b, x, channels, 2 if block == 0 else 1, group_width, gated)
    return b.model(b.gemm(b.flatten(b.global_average_pool(x)), 1000, name="scores"))


def _block(
    b: Builder, x: Value, channels: int, stride: int, group_width: int, gated: bool
) -> Value:
    y = b.conv_bn(x, channels, 1, activation=b.relu)
    y = b.conv_bn(
        y, channels, 3, stride=stride, padding=1, group=channels // group_width, activation=b.relu
    )
    if gated:
        g = b.relu(b.conv(b.global_average_pool(y), round(x.channels / 4), 1))
        y = b.gate(y, b.sigmoid(b.conv(g, channels, 1)))
    y = b.conv_bn(y, channels, 1)
    shortcut = (
        b.conv_bn(x, channels, 1, stride=stride) if stride > 1 or x.channels != channels else x
    )
    return b.relu(b.add(shortcut, y))


NETWORKS = (
    ZooEntry(
        "regnet_x_400mf",
        regnet_x_400mf,
        "RegNet",
        "classification",
        Published(5_495_976, 414_000_000, "torchvision regnet_x_400mf"),
    ),
    ZooEntry(
        "regnet_y_400mf",
        regnet_y_400mf,
        "RegNet",
        "classification",
        Published(4_344_144, 402_000_000, "torchvision regnet_y_400mf"),
    ),
)
