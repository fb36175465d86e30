"""MobileNets v1 and v2: depthwise convolutions between 1x1 ones.

Sources: Howard et al. 2017 (arXiv:1704.04861) and its authors' TensorFlow program, which is also
Keras' MobileNet (no biases, ReLU6, TensorFlow's padding); Sandler et al. 2018 (arXiv:1801.04381)
and torchvision for v2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zoo_models._builder import Activation, Builder, Value
from zoo_models._entry import network

V1_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1),
)  # fmt: skip
"""Channels and stride of every depthwise separable convolution of v1."""

V2_BLOCKS = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 3, 2, 32, 3),
    (6, 3, 2, 64, 4),
    (6, 3, 1, 96, 3),
    (6, 3, 2, 160, 3),
    (6, 3, 1, 320, 1),
)
"""Expansion, kernel, first stride, channels and repeats of every group of v2 (table 2 of the paper)."""


@network("MobileNet")
def mobilenet_v1(b: Builder, x: Value) -> Value:
    """MobileNet v1 1.0."""
    conv = partial(b.conv_bn, padding="SAME_UPPER", epsilon=1e-3, activation=b.relu6)
    x = conv(x, 32, 3, stride=2)
    for block, (channels, stride) in enumerate(V1_BLOCKS, start=1):
        with b.scope(f"block{block}"):
            x = conv(x, x.channels, 3, stride=stride, group=x.channels)
            x = conv(x, channels, 1)
    x = b.dropout(b.flatten(b.global_average_pool(x)), 0.001)
    return b.softmax(b.gemm(x, 1000), "probabilities")


@network("MobileNet")
def mobilenet_v2(b: Builder, x: Value) -> Value:
    """MobileNet v2 1.0: narrow maps are kept and added, wide ones exist inside a block only."""
    x = b.conv_bn(x, 32, 3, stride=2, padding=1, activation=b.relu6)
    return inverted_residuals(b, x, V2_BLOCKS, b.relu6)


def inverted_residuals(
    b: Builder,
    x: Value,
    groups: Sequence[tuple[int, int, int, int, int]],
    activation: Activation,
    *,
    gated: bool = False,
) -> Value:
    """Groups of inverted residuals as in `V2_BLOCKS`, and the classifier behind them. gated: every
    block scales its channels by what it computes of their means.
    """
    for group, block in b.blocks([repeats for *_, repeats in groups], "group"):
        expansion, kernel, first, channels, _ = groups[group]
        inner, stride = expansion * x.channels, 1 if block else first
        windows = partial(b.conv_bn, stride=stride, padding=kernel // 2, group=inner)
        y = b.conv_bn(x, inner, 1, activation=activation) if expansion > 1 else x
        y = windows(y, inner, kernel, activation=activation)
        if gated:
            y = b.excited(y, x.channels // 4, activation, b.sigmoid)
        y = b.conv_bn(y, channels, 1)
        x = b.add(y, x) if stride == 1 and x.channels == channels else y
    x = b.conv_bn(x, 1280, 1, activation=activation)
    x = b.dropout(b.flatten(b.global_average_pool(x)), 0.2)
    return b.gemm(x, 1000, name="scores")
