"""Which networks do papers on patches and fusion count with? Three chains of inverted residual blocks
without their residuals, and without a head.

Source: the layer tables of msf-CNN (Huang et al., NeurIPS 2025), repository TinyPART/msf-CNN,
analysis_optimization.py: MobileNetV2 at 0.35 of its channels (rounded down), MCUNetV2 for visual
wake words, MCUNet for ImageNet in 320 KB. They are benchmarks, not classifiers, and so no part of
the zoo: every block expands (also by 1), pads as its table says, and nothing is added. The tables
end in a map, whose memory is not counted there; here a global pool takes it, as in the networks
that the tables were made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import onnx

from zoo_models._builder import Builder, Value


@dataclass(frozen=True, slots=True)
class MBConv:
    """A block: 1x1 to `expansion` times its channels, a depthwise convolution, 1x1 to `channels`."""

    channels: int
    expansion: int
    stride: int = 1
    kernel: int = 3

    def add(self, b: Builder, x: Value, residual: bool = False) -> Value:
        """The block behind x; residual: x is added where it is as large as what comes out."""
        y = b.conv_bn(x, x.channels * self.expansion, 1, activation=b.relu6)
        y = _depthwise(b, y, self.kernel, self.stride)
        y = b.conv_bn(y, self.channels, 1)
        return b.add(x, y) if residual and x.shape == y.shape else y


def _depthwise(b: Builder, x: Value, kernel: int, stride: int) -> Value:
    return b.conv_bn(
        x,
        x.channels,
        kernel,
        stride=stride,
        padding=kernel // 2,
        group=x.channels,
        activation=b.relu6,
    )


Stem = Callable[[Builder, Value], Value]


def _plain(b: Builder, x: Value, channels: int) -> Value:
    return b.conv_bn(x, channels, 3, stride=2, padding=1, activation=b.relu6)


def _separable(b: Builder, x: Value) -> Value:
    return b.conv_bn(_depthwise(b, _plain(b, x, 16), 3, 1), 8, 1)


@dataclass(frozen=True, slots=True)
class Chain:
    """One of the three: its image's rows and columns, and the multiply-accumulates that its source
    counts.

    last: channels of a 1x1 convolution at the end; 0 without.
    """

    name: str
    size: int
    macs: int
    stem: Stem
    blocks: Sequence[MBConv]
    last: int = 0

    def build(
        self, size: int | None = None, *, seed: int = 0, residuals: bool = False
    ) -> onnx.ModelProto:
        """The network as ONNX, by default at its published size. residuals: with the additions that the
        networks have which the tables were made from.
        """
        b = Builder(self.name, seed=seed)
        x = self.stem(b, b.input(3, size or self.size, size or self.size))
        for number, block in enumerate(self.blocks, start=1):
            with b.scope(f"block{number}"):
                x = block.add(b, x, residuals)
        if self.last:
            x = b.conv_bn(x, self.last, 1, activation=b.relu6)
        return b.model(b.global_average_pool(x))


def _scaled(channels: int) -> int:
    return channels * 35 // 100


_MOBILENET_V2 = Chain(
    "mbv2_w0.35_chain",
    144,
    18_909_490,
    partial(_plain, channels=_scaled(32)),
    tuple(
        MBConv(_scaled(channels), expansion, stride if first else 1)
        for expansion, channels, count, stride in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
        )
        for first in (True, *(False,) * (count - 1))
    ),
    last=_scaled(1280),
)  # fmt: skip

_VWW = Chain(
    "mcunetv2_vww_5fps_chain",
    80,
    11_578_496,
    _separable,
    (
        MBConv(16, 6, 2), MBConv(16, 3), MBConv(16, 3), MBConv(24, 3, 2, 7), MBConv(24, 6), MBConv(24, 5, 1, 5),
        MBConv(40, 6, 2, 7), MBConv(40, 6, 1, 7), MBConv(48, 6), MBConv(48, 4), MBConv(96, 5, 2, 5), MBConv(96, 5),
        MBConv(96, 4), MBConv(160, 3, 1, 7),
    ),
)  # fmt: skip

_IMAGENET = Chain(
    "mcunet_320kb_chain",
    176,
    81_625_520,
    _separable,
    (
        MBConv(16, 3, 2, 7), MBConv(16, 5), MBConv(16, 5, 1, 7), MBConv(16, 4, 1, 5), MBConv(24, 5, 2, 5),
        MBConv(24, 5, 1, 5), MBConv(24, 5, 1, 5), MBConv(40, 5, 2), MBConv(40, 6, 1, 7), MBConv(40, 4, 1, 5),
        MBConv(48, 5, 1, 5), MBConv(48, 5, 1, 7), MBConv(48, 5), MBConv(96, 6, 2), MBConv(96, 5, 1, 7), MBConv(96, 4),
        MBConv(160, 5, 1, 7),
    ),
)  # fmt: skip

CHAINS: Mapping[str, Chain] = MappingProxyType(
    {chain.name: chain for chain in (_MOBILENET_V2, _VWW, _IMAGENET)}
)
"""The chains by name."""
