"""MobileNet v3: inverted residuals with gates by channel and hard activations; and two networks on
top of it.

Sources: Howard et al. 2019 (arXiv:1905.02244) and torchvision, whose networks these are:
mobilenet_v3_small, mobilenet_v3_large, lraspp_mobilenet_v3_large (segmentation) and
ssdlite320_mobilenet_v3_large (detection).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from zoo_models._builder import Activation, Builder, Value
from zoo_models._entry import network

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


@network("MobileNet")
def mobilenet_v3_small(b: Builder, x: Value) -> Value:
    """MobileNet v3 small."""
    return _classifier(b, x, SMALL, 1024)


@network("MobileNet")
def mobilenet_v3_large(b: Builder, x: Value) -> Value:
    """MobileNet v3 large."""
    return _classifier(b, x, LARGE, 1280)


@network("MobileNet", task="segmentation")
def lraspp_mobilenet_v3(b: Builder, x: Value) -> Value:
    """LR-ASPP on MobileNet v3 large with a dilated last stage: 21 classes for every pixel."""
    height, width = x.height, x.width
    x = low = _stem(b, x)
    for number, block in enumerate(LARGE):
        with b.scope(f"block{number + 1}"):
            x = _block(b, x, block, dilation=2 if number >= LAST_STAGE else 1)
        low = x if number == 3 else low
    x = b.conv_bn(x, 960, 1, epsilon=EPSILON, activation=b.hard_swish)
    with b.scope("head"):
        high = b.conv_bn(x, 128, 1, activation=b.relu)
        high = b.gate(high, b.sigmoid(b.conv(b.global_average_pool(x), 128, 1, bias=False)))
        high = b.interpolate(high, low.height, low.width)
        scores = b.add(b.conv(low, 21, 1), b.conv(high, 21, 1))
    return b.interpolate(scores, height, width, "scores")


@network("MobileNet", task="detection")
def ssdlite_mobilenet_v3(b: Builder, x: Value) -> tuple[Value, ...]:
    """SSDlite on MobileNet v3 large: boxes and 91 classes for six anchors at every place of six
    maps. The outputs are the maps in front of the decoding of boxes.
    """
    conv = partial(b.conv_bn, epsilon=EPSILON, activation=b.relu6)
    swish = partial(conv, activation=b.hard_swish)
    x = _stem(b, x)
    maps = []
    for number, block in enumerate(LARGE):
        narrow = _narrowed(block) if number >= LAST_STAGE else block
        with b.scope(f"block{number + 1}"):
            if number == LAST_STAGE:
                x = swish(x, narrow.inner, 1)
                maps.append(x)
                x = _after_expansion(b, x, narrow)
            else:
                x = _block(b, x, narrow)
    maps.append(swish(x, 480, 1))
    for number, channels in enumerate((512, 256, 256, 128), start=1):
        with b.scope(f"extra{number}"):
            inner = channels // 2
            y = conv(conv(maps[-1], inner, 1), inner, 3, stride=2, padding=1, group=inner)
            maps.append(conv(y, channels, 1))
    outputs = []
    for level, source in enumerate(maps, start=1):
        with b.scope(f"head{level}"):
            for kind, channels in (("classes", 6 * 91), ("boxes", 6 * 4)):
                y = conv(source, source.channels, 3, padding=1, group=source.channels)
                outputs.append(b.conv(y, channels, 1, name=kind))
    return tuple(outputs)


def _classifier(b: Builder, x: Value, blocks: tuple[Block, ...], features: int) -> Value:
    x = _stem(b, x)
    for number, block in enumerate(blocks, start=1):
        with b.scope(f"block{number}"):
            x = _block(b, x, block)
    x = b.conv_bn(x, 6 * x.channels, 1, epsilon=EPSILON, activation=b.hard_swish)
    x = b.hard_swish(b.gemm(b.flatten(b.global_average_pool(x)), features))
    return b.gemm(b.dropout(x, 0.2), 1000, name="scores")


def _stem(b: Builder, image: Value) -> Value:
    return b.conv_bn(image, 16, 3, stride=2, padding=1, epsilon=EPSILON, activation=b.hard_swish)


def _block(b: Builder, x: Value, block: Block, dilation: int = 1) -> Value:
    y = x
    if block.inner != x.channels:
        y = b.conv_bn(x, block.inner, 1, epsilon=EPSILON, activation=_activation(b, block))
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
        y = b.excited(y, round_channels(block.inner / 4), b.relu, b.hard_sigmoid)
    return b.conv_bn(y, block.channels, 1, epsilon=EPSILON)


def _activation(b: Builder, block: Block) -> Activation:
    return b.hard_swish if block.swish else b.relu


def _narrowed(block: Block) -> Block:
    """The block with the half of its channels, as detectors use the last stage."""
    inner = block.inner if block.stride == 2 else block.inner // 2
    return replace(block, inner=inner, channels=block.channels // 2)


def round_channels(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of the divisor, but no less than nine tenths of the channels.

    >>> round_channels(18), round_channels(60)
    (24, 64)
    """
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded
