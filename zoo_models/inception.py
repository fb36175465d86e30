"""Inception v2 and v3: GoogLeNet with BatchNormalization and factorized windows.

Sources: Ioffe, Szegedy 2015 (arXiv:1502.03167) and inception_v2 of the ONNX model zoo (Caffe2),
which writes a BatchNormalization as statistics, a Mul and an Add; Szegedy et al. 2015
(arXiv:1512.00567) and torchvision for v3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from zoo_models._builder import ROUNDED_UP, Builder, Value
from zoo_models._entry import network

# --- v2 -----------------------------------------------------------------------------------------

Pool = Callable[..., Value]

V2_MODULES: dict[str, tuple[int, tuple[int, int], tuple[int, int], int]] = {
    "3a": (64, (64, 64), (64, 96), 32),
    "3b": (64, (64, 96), (64, 96), 64),
    "3c": (0, (128, 160), (64, 96), 0),
    "4a": (224, (64, 96), (96, 128), 128),
    "4b": (192, (96, 128), (96, 128), 128),
    "4c": (160, (128, 160), (128, 160), 96),
    "4d": (96, (128, 192), (160, 192), 96),
    "4e": (0, (128, 192), (192, 256), 0),
    "5a": (352, (192, 320), (160, 224), 128),
    "5b": (352, (192, 320), (192, 224), 128),
}
"""Channels of the 1x1 branch, of (1x1, 3x3), of (1x1, two 3x3), and behind the pool; without the
first and the last the module halves the map."""

V2_MAX_POOL = ("5b",)
"""Modules whose pool takes the maximum; the others take the mean."""


@network("Inception", multiple=32)
def inception_v2(b: Builder, x: Value) -> Value:
    """Inception v2, also known as BN-Inception.

    Rows and columns have to be multiples of 32: halves of odd maps differ between a convolution and
    a pool that reads the same map.
    """
    x = _v2_conv(b, x, 64, 7, stride=2)
    x = b.max_pool(x, 3, 2, ROUNDED_UP)
    x = _v2_conv(b, _v2_conv(b, x, 64, 1), 192, 3)
    x = b.max_pool(x, 3, 2, ROUNDED_UP)
    for name, channels in V2_MODULES.items():
        with b.scope(f"inception_{name}"):
            x = _v2_module(b, x, *channels, b.max_pool if name in V2_MAX_POOL else b.average_pool)
    return b.softmax(b.gemm(b.rows_of(b.average_whole(x)), 1000), "probabilities")


def _v2_conv(b: Builder, x: Value, channels: int, kernel: int, stride: int = 1) -> Value:
    x = b.conv(x, channels, kernel, stride=stride, padding=kernel // 2, bias=False)
    return b.relu(b.scaled_batch_normalization(x))


def _v2_module(
    b: Builder,
    x: Value,
    single: int,
    triple: tuple[int, int],
    double: tuple[int, int],
    pooled: int,
    pool: Pool,
) -> Value:
    conv = partial(_v2_conv, b)
    branches = [conv(x, single, 1)] if single else []
    stride = 1 if single else 2
    branches.append(conv(conv(x, triple[0], 1), triple[1], 3, stride))
    branches.append(conv(conv(conv(x, double[0], 1), double[1], 3), double[1], 3, stride))
    branches.append(
        conv(pool(x, 3, padding=1), pooled, 1) if pooled else b.max_pool(x, 3, 2, ROUNDED_UP)
    )
    return b.concat(branches)


# --- v3 -----------------------------------------------------------------------------------------


@network("Inception")
def inception_v3(b: Builder, x: Value) -> Value:
    """Inception v3 without its auxiliary classifier, as torchvision evaluates it; average pools
    count their padding.
    """
    conv = _v3_conv(b)
    x = conv(x, 32, 3, stride=2)
    x = b.max_pool(conv(conv(x, 32, 3), 64, 3, padding=1), 3, 2)
    x = b.max_pool(conv(conv(x, 80, 1), 192, 3), 3, 2)
    for number, pooled in enumerate((32, 64, 64), start=1):
        with b.scope(f"mixed5_{number}"):
            x = _v3_five(b, x, pooled)
    with b.scope("mixed6_1"):
        x = _v3_reduce_first(b, x)
    for number, channels in enumerate((128, 160, 160, 192), start=2):
        with b.scope(f"mixed6_{number}"):
            x = _v3_seven(b, x, channels)
    with b.scope("mixed7_1"):
        x = _v3_reduce_second(b, x)
    for number in (2, 3):
        with b.scope(f"mixed7_{number}"):
            x = _v3_wide(b, x)
    x = b.flatten(b.dropout(b.global_average_pool(x)))
    return b.gemm(x, 1000, name="scores")


def _v3_conv(b: Builder) -> Callable[..., Value]:
    return partial(b.conv_bn, activation=b.relu, epsilon=1e-3)


def _v3_pooled(b: Builder, x: Value, channels: int) -> Value:
    return _v3_conv(b)(b.average_pool(x, 3, padding=1, count_padding=True), channels, 1)


def _v3_five(b: Builder, x: Value, pooled: int) -> Value:
    """Branches of 1x1, 5x5, two 3x3, and a pool."""
    conv = _v3_conv(b)
    five = conv(conv(x, 48, 1), 64, 5, padding=2)
    double = conv(conv(conv(x, 64, 1), 96, 3, padding=1), 96, 3, padding=1)
    return b.concat([conv(x, 64, 1), five, double, _v3_pooled(b, x, pooled)])


def _v3_reduce_first(b: Builder, x: Value) -> Value:
    conv = _v3_conv(b)
    double = conv(conv(conv(x, 64, 1), 96, 3, padding=1), 96, 3, stride=2)
    return b.concat([conv(x, 384, 3, stride=2), double, b.max_pool(x, 3, 2)])


def _v3_seven(b: Builder, x: Value, channels: int) -> Value:
    """Branches of 1x1, one 7x7 and two 7x7 as rows and columns apart, and a pool."""
    conv = _v3_conv(b)

    def row(y: Value, size: int) -> Value:
        return conv(y, size, (1, 7), padding=(0, 3))

    def column(y: Value, size: int) -> Value:
        return conv(y, size, (7, 1), padding=(3, 0))

    seven = column(row(conv(x, channels, 1), channels), 192)
    double = conv(x, channels, 1)
    for step, size in ((column, channels), (row, channels), (column, channels), (row, 192)):
        double = step(double, size)
    return b.concat([conv(x, 192, 1), seven, double, _v3_pooled(b, x, 192)])


def _v3_reduce_second(b: Builder, x: Value) -> Value:
    conv = _v3_conv(b)
    three = conv(conv(x, 192, 1), 320, 3, stride=2)
    seven = conv(conv(conv(x, 192, 1), 192, (1, 7), padding=(0, 3)), 192, (7, 1), padding=(3, 0))
    return b.concat([three, conv(seven, 192, 3, stride=2), b.max_pool(x, 3, 2)])


def _v3_wide(b: Builder, x: Value) -> Value:
    """Branches that end in 1x3 and 3x1 side by side."""
    conv = _v3_conv(b)

    def both(y: Value) -> Value:
        return b.concat(
            [conv(y, 384, (1, 3), padding=(0, 1)), conv(y, 384, (3, 1), padding=(1, 0))]
        )

    three = both(conv(x, 384, 1))
    double = both(conv(conv(x, 448, 1), 384, 3, padding=1))
    return b.concat([conv(x, 320, 1), three, double, _v3_pooled(b, x, 192)])
