"""GoogLeNet: four branches of convolutions side by side, joined along the channels.

Source: Szegedy et al. 2014 (arXiv:1409.4842); bvlc_googlenet and inception_v1 of the ONNX model zoo,
the same network out of Caffe and Caffe2: the second does not pad its strided pools, and has smaller
maps behind them. Neither has the auxiliary classifiers, which serve training alone.
"""

from __future__ import annotations

from zoo_models._builder import ROUNDED_UP, Builder, Padding, Value
from zoo_models._entry import network

MODULES = {
    "3a": (64, (96, 128), (16, 32), 32),
    "3b": (128, (128, 192), (32, 96), 64),
    "4a": (192, (96, 208), (16, 48), 64),
    "4b": (160, (112, 224), (24, 64), 64),
    "4c": (128, (128, 256), (24, 64), 64),
    "4d": (112, (144, 288), (32, 64), 64),
    "4e": (256, (160, 320), (32, 128), 128),
    "5a": (256, (160, 320), (32, 128), 128),
    "5b": (384, (192, 384), (48, 128), 128),
}
"""Channels of the 1x1 branch, of (1x1, 3x3), of (1x1, 5x5), and of the 1x1 behind the pool (table 1
of the paper).
"""

POOL_BEFORE = ("4a", "5a")


@network("GoogLeNet")
def googlenet(b: Builder, x: Value) -> Value:
    """GoogLeNet as Caffe trains it (bvlc_googlenet): strided pools round their size up."""
    x = _features(b, x, ROUNDED_UP)
    return _classify(b, b.average_whole(x))


@network("GoogLeNet")
def inception_v1(b: Builder, x: Value) -> Value:
    """GoogLeNet as Caffe2's inception_v1: strided pools are not padded, so that maps of 27, 13 and
    6 rows follow.
    """
    x = _features(b, x, 0)
    rows, columns = x.shape[2:]
    return _classify(b, b.average_pool(x, (rows + 1, columns + 1), padding=ROUNDED_UP))


def _features(b: Builder, x: Value, padding: Padding) -> Value:
    """Everything in front of the last pool; padding: of the strided pools."""
    x = b.relu(b.conv(x, 64, 7, stride=2, padding=3))
    x = b.lrn(b.max_pool(x, 3, 2, padding))
    x = b.relu(b.conv(x, 64, 1))
    x = b.lrn(b.relu(b.conv(x, 192, 3, padding=1)))
    x = b.max_pool(x, 3, 2, padding)
    for name, channels in MODULES.items():
        if name in POOL_BEFORE:
            x = b.max_pool(x, 3, 2, padding)
        with b.scope(f"inception_{name}"):
            x = _module(b, x, *channels)
    return x


def _module(
    b: Builder,
    x: Value,
    single: int,
    triple: tuple[int, int],
    quintuple: tuple[int, int],
    pooled: int,
) -> Value:
    """Four branches, joined."""
    one = b.relu(b.conv(x, single, 1))
    three = b.relu(b.conv(b.relu(b.conv(x, triple[0], 1)), triple[1], 3, padding=1))
    five = b.relu(b.conv(b.relu(b.conv(x, quintuple[0], 1)), quintuple[1], 5, padding=2))
    pool = b.relu(b.conv(b.max_pool(x, 3, padding=1), pooled, 1))
    return b.concat([one, three, five, pool])


def _classify(b: Builder, x: Value) -> Value:
    x = b.gemm(b.rows_of(b.dropout(x, 0.4)), 1000)
    return b.softmax(x, "probabilities")
