"""SqueezeNet: fire modules, which squeeze to few channels and expand with 1x1 and 3x3 convolutions.

Source: Iandola et al. 2016 (arXiv:1602.07360); squeezenet of the ONNX model zoo (Caffe2), which is
version 1.1.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network

FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Channels after squeezing and of each expansion, of modules fire2 to fire9."""


@network("SqueezeNet")
def squeezenet1_0(b: Builder, x: Value) -> Value:
    """SqueezeNet 1.0; its pools round their size up, as in torchvision."""
    x = b.relu(b.conv(x, 96, 7, stride=2))
    return _body(b, x, pools_before=(2, 5, 9), ceil=True)


@network("SqueezeNet")
def squeezenet1_1(b: Builder, x: Value) -> Value:
    """SqueezeNet 1.1: earlier pools, 2.4 times less work."""
    x = b.relu(b.conv(x, 64, 3, stride=2))
    return _body(b, x, pools_before=(2, 4, 6), ceil=False)


def _body(b: Builder, x: Value, *, pools_before: tuple[int, ...], ceil: bool) -> Value:
    for number, (squeezed, expanded) in enumerate(FIRES, start=2):
        if number in pools_before:
            x = b.max_pool(x, 3, 2, ceil=ceil)
        with b.scope(f"fire{number}"):
            x = b.relu(b.conv(x, squeezed, 1))
            x = b.concat(
                [b.relu(b.conv(x, expanded, 1)), b.relu(b.conv(x, expanded, 3, padding=1))]
            )
    x = b.relu(b.conv(b.dropout(x), 1000, 1))
    return b.softmax(b.global_average_pool(x), "probabilities")
