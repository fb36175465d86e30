"""RegNet: stages of equal blocks; the widths of the stages grow linearly.

Source: Radosavovic et al. 2020 (arXiv:2003.13678); torchvision.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network


@network("RegNet")
def regnet_x_400mf(b: Builder, x: Value) -> Value:
    """RegNetX-400MF: 3x3 convolutions in groups of 16 channels."""
    return _regnet(b, x, (1, 2, 7, 12), (32, 64, 160, 400), 16, gated=False)


@network("RegNet")
def regnet_y_400mf(b: Builder, x: Value) -> Value:
    """RegNetY-400MF: 3x3 convolutions in groups of 8 channels, and gates by channel."""
    return _regnet(b, x, (1, 3, 6, 6), (48, 104, 208, 440), 8, gated=True)


def _regnet(
    b: Builder,
    x: Value,
    depths: tuple[int, ...],
    widths: tuple[int, ...],
    group_width: int,
    *,
    gated: bool,
) -> Value:
    """depths, widths: blocks and channels of each stage."""
    x = b.conv_bn(x, 32, 3, stride=2, padding=1, activation=b.relu)
    for stage, block in b.blocks(depths):
        channels, stride = widths[stage], 1 if block else 2
        group = channels // group_width
        y = b.conv_bn(x, channels, 1, activation=b.relu)
        y = b.conv_bn(y, channels, 3, stride=stride, padding=1, group=group, activation=b.relu)
        if gated:
            y = b.excited(y, round(x.channels / 4), b.relu, b.sigmoid)
        y = b.conv_bn(y, channels, 1)
        x = b.relu(b.add(x if block else b.conv_bn(x, channels, 1, stride=stride), y))
    return b.gemm(b.flatten(b.global_average_pool(x)), 1000, name="scores")
