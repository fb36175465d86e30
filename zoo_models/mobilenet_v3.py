"""MobileNet v3: inverted residuals with gates by channel and hard activations; and two networks on
top of it.

Sources: Howard et al. 2019 (arXiv:1905.02244) and torchvision, whose networks these are:
mobilenet_v3_small, mobilenet_v3_large, lraspp_mobilenet_v3_large (segmentation) and
ssdlite320_mobilenet_v3_large (detection).
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from zoo_models._builder import Activation, Builder, Value
from zoo_models._entry import Published, ZooEntry

__all__ = [
    "NETWORKS",
    "lraspp_mobilenet_v3",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "ssdlite_mobilenet_v3",
]

EPSILON = 1e-3


@dataclass(frozen=True, slots=True)
class Block:
    """One inverted residual: window, channels inside, channels out, gate?, hard swish (or ReLU)?,
    stride.
    """

    kernel: int
    inner: int
    channels: int
    gated: bool
    swish: bool
    stride: int


LARGE = (
    Block(3, 16, 16, False, False, 1),
    Block(3, 64, 24, False, False, 2),
    Block(3, 72, 24, False, False, 1),
    Block(5, 72, 40, True, False, 2),
    Block(5, 120, 40, True, False, 1),
    Block(5, 120, 40, True, False, 1),
    Block(3, 240, 80, False, True, 2),
    Block(3, 200, 80, False, True, 1),
    Block(3, 184, 80, False, True, 1),
    Block(3, 184, 80, False, True, 1),
    Block(3, 480, 112, True, True, 1),
    Block(3, 672, 112, True, True, 1),
    Block(5, 672, 160, True, True, 2),
    Block(5, 960, 160, True, True, 1),
    Block(5, 960, 160, True, True, 1),
)
SMALL = (
    Block(3, 16, 16, True, False, 2),
    Block(3, 72, 24, False, False, 2),
    Block(3, 88, 24, False, False, 1),
    Block(5, 96, 40, True, True, 2),
    Block(5, 240, 40, True, True, 1),
    Block(5, 240, 40, True, True, 1),
    Block(5, 120, 48, True, True, 1),
    Block(5, 144, 48, True, True, 1),
    Block(5, 288, 96, True, True, 2),
    Block(5, 576, 96, True, True, 1),
    Block(5, 576, 96, True, True, 1),
)

LAST_STAGE = 12
"""Index in LARGE of the first block of the last stage."""


def mobilenet_v3_small(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """MobileNet v3 small.

    Published (torchvision): 2,542,856 parameters, 0.057 G multiply-accumulates at 224x224;
    56,510,400 when counted from its shapes.
    """
    return _classifier("mobilenet_v3_small", SMALL, 1024, height, width, seed, weights)


def mobilenet_v3_large(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """MobileNet v3 large.

    Published (torchvision): 5,483,032 parameters, 0.217 G multiply-accumulates at 224x224.
    """
    return _classifier("mobilenet_v3_large", LARGE, 1280, height, width, seed, weights)


def lraspp_mobilenet_v3(
    height: int = 520, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """LR-ASPP on MobileNet v3 large with a dilated last stage: 21 classes for every pixel.

    Published (torchvision lraspp_mobilenet_v3_large): 3,221,538 parameters; 2.086 G
    multiply-accumulates at 520x520.
    """
    b = Builder("lraspp_mobilenet_v3", seed=seed, weights=weights)
    image = b.input(3, height, width or height)
    x = _stem(b, image)
    low = x
    for number, block in enumerate(LARGE):
        with b.scope(f"block{number + 1}"):
            x = _block(b, x, block, dilation=2 if number >= LAST_STAGE else 1)
        if number == 3:
            low = x
    x = b.conv_bn(x, 960, 1, epsilon=EPSILON, activation=b.hard_swish)
    with b.scope("head"):
        high = b.conv_bn(x, 128, 1, activation=b.relu)
        high = b.gate(high, b.sigmoid(b.conv(b.global_average_pool(x), 128, 1, bias=False)))
        high = b.interpolate(high, low.height, low.width)
        scores = b.add(b.conv(low, 21, 1), b.conv(high, 21, 1))
    return b.model(b.interpolate(scores, image.height, image.width, "scores"))


def ssdlite_mobilenet_v3(
    height: int = 320, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """SSDlite on MobileNet v3 large: boxes and 91 classes for six anchors at every place of six
    maps.

    The outputs are the maps in front of the decoding of boxes. Published (torchvision
    ssdlite320_mobilenet_v3_large): 3,440,060 parameters; 0.583 G multiply-accumulates at 320x320.
    """
    b = Builder("ssdlite_mobilenet_v3", seed=seed, weights=weights)
    x = _stem(b, b.input(3, height, width or height))
    maps = []
    for number, block in enumerate(LARGE):
        narrow = _narrowed(block) if number >= LAST_STAGE else block
        with b.scope(f"block{number + 1}"):
            if number == LAST_STAGE:
                x = b.conv_bn(x, narrow.inner, 1, epsilon=EPSILON, activation=b.hard_swish)
                maps.append(x)
                x = _after_expansion(b, x, narrow)
            else:
                x = _block(b, x, narrow)
    maps.append(b.conv_bn(x, 480, 1, epsilon=EPSILON, activation=b.hard_swish))
    for number, channels in enumerate((512, 256, 256, 128), start=1):
        with b.scope(f"extra{number}"):
            y = b.conv_bn(maps[-1], channels // 2, 1, epsilon=EPSILON, activation=b.relu6)
            y = b.conv_bn(
                y,
                y.channels,
                3,
                stride=2,
                padding=1,
                group=y.channels,
                epsilon=EPSILON,
                activation=b.relu6,
            )
            maps.append(b.conv_bn(y, channels, 1, epsilon=EPSILON, activation=b.relu6))
    outputs = []
    for level, source in enumerate(maps, start=1):
        with b.scope(f"head{level}"):
            for kind, channels in (("classes", 6 * 91), ("boxes", 6 * 4)):
                y = b.conv_bn(
                    source,
                    source.channels,
                    3,
                    padding=1,
                    group=source.channels,
                    epsilon=EPSILON,
                    activation=b.relu6,
                )
                outputs.append(b.conv(y, channels, 1, name=kind))
    return b.model(*outputs)


def _classifier(
    name: str,
    blocks: tuple[Block, ...],
    features: int,
    height: int,
    width: int | None,
    seed: int,
    weights: bool,
) -> onnx.ModelProto:
    b = Builder(name, seed=seed, weights=weights)
    x = _stem(b, b.input(3, height, width or height))
    for number, block in enumerate(blocks, start=1):
        with b.scope(f"block{number}"):
            x = _block(b, x, block)
    x = b.conv_bn(x, 6 * x.channels, 1, epsilon=EPSILON, activation=b.hard_swish)
    x = b.hard_swish(b.gemm(b.flatten(b.global_average_pool(x)), features))
    return b.model(b.gemm(b.dropout(x, 0.2), 1000, name="scores"))


def _stem(b: Builder, image: Value) -> Value:
    return b.conv_bn(image, 16, 3, stride=2, padding=1, epsilon=EPSILON, activation=b.hard_swish)


def _block(b: Builder, x: Value, block: Block, dilation: int = 1) -> Value:
    y = (
        b.conv_bn(x, block.inner, 1, epsilon=EPSILON, activation=_activation(b, block))
        if block.inner != x.channels
        else x
    )
    y = _after_expansion(b, y, block, dilation)
    return b.add(y, x) if block.stride == 1 and x.channels == block.channels else y


def _after_expansion(b: Builder, y: Value, block: Block, dilation: int = 1) -> Value:
    """The depthwise convolution, the gate, and the projection of a block; a dilated one does not
    stride.
    """
    y = b.conv_bn(
        y,
        block.inner,
        block.kernel,
        stride=1 if dilation > 1 else block.stride,
        padding=block.kernel // 2 * dilation,
        dilation=dilation,
        group=block.inner,
        epsilon=EPSILON,
        activation=_activation(b, block),
    )
    if block.gated:
        g = b.relu(b.conv(b.global_average_pool(y), round_channels(block.inner / 4), 1))
        y = b.gate(y, b.hard_sigmoid(b.conv(g, block.inner, 1)))
    return b.conv_bn(y, block.channels, 1, epsilon=EPSILON)


def _activation(b: Builder, block: Block) -> Activation:
    return b.hard_swish if block.swish else b.relu


def _narrowed(block: Block) -> Block:
    """The block with the half of its channels, as detectors use the last stage."""
    inner = block.inner if block.stride == 2 else block.inner // 2
    return Block(block.kernel, inner, block.channels // 2, block.gated, block.swish, block.stride)


def round_channels(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of the divisor, but no less than nine tenths of the channels.

    >>> round_channels(18), round_channels(60)
    (24, 64)
    """
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


NETWORKS = (
    ZooEntry(
        "mobilenet_v3_small",
        mobilenet_v3_small,
        "MobileNet",
        "classification",
        Published(
            2_542_856,
            56_510_400,
            "torchvision mobilenet_v3_small",
            "it prints 0.057 G, which rounds by more than 0.5 %",
            macs_are="derived",
        ),
    ),
    ZooEntry(
        "mobilenet_v3_large",
        mobilenet_v3_large,
        "MobileNet",
        "classification",
        Published(5_483_032, 217_000_000, "torchvision mobilenet_v3_large"),
    ),
    ZooEntry(
        "lraspp_mobilenet_v3",
        lraspp_mobilenet_v3,
        "MobileNet",
        "segmentation",
        Published(
            3_221_538, 2_086_000_000, "torchvision lraspp_mobilenet_v3_large", size=(520, 520)
        ),
    ),
    ZooEntry(
        "ssdlite_mobilenet_v3",
        ssdlite_mobilenet_v3,
        "MobileNet",
        "detection",
        Published(
            3_440_060, 583_000_000, "torchvision ssdlite320_mobilenet_v3_large", size=(320, 320)
        ),
    ),
)
