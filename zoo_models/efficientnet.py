"""EfficientNet and MnasNet: inverted residuals with sizes that were found by a search.

Sources: Tan, Le 2019 (arXiv:1905.11946); Tan et al. 2018 (arXiv:1807.11626); torchvision for both.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network
from zoo_models.mobilenet import inverted_residuals

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


@network("EfficientNet")
def efficientnet_b0(b: Builder, x: Value) -> Value:
    """EfficientNet-B0: every block is gated by channel, activations are x * sigmoid(x)."""
    x = b.conv_bn(x, 32, 3, stride=2, padding=1, activation=b.silu)
    return inverted_residuals(b, x, B0, b.silu, gated=True)


@network("MnasNet")
def mnasnet(b: Builder, x: Value) -> Value:
    """MnasNet-B1 1.0 (without gates, unlike A1)."""
    x = b.conv_bn(x, 32, 3, stride=2, padding=1, activation=b.relu)
    x = b.conv_bn(x, 32, 3, padding=1, group=32, activation=b.relu)
    return inverted_residuals(b, b.conv_bn(x, 16, 1), B1_MNAS, b.relu)
