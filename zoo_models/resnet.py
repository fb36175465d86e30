"""ResNets: residual blocks, added to what they read.

Sources: He et al. 2015 (arXiv:1512.03385, v1), He et al. 2016 (arXiv:1603.05027, v2), Xie et al.
2017 (arXiv:1611.05431, ResNeXt); files of the ONNX model zoo and torchvision as the builders say.
"""

from __future__ import annotations

from functools import partial

from zoo_models._builder import Builder, Value
from zoo_models._entry import network

WIDTHS = (64, 128, 256, 512)


@network("ResNet")
def resnet18(b: Builder, x: Value) -> Value:
    """ResNet-18 v1, as Gluon's resnet18v1 of the ONNX model zoo."""
    return _basic(b, x, (2, 2, 2, 2))


@network("ResNet")
def resnet18_v2(b: Builder, x: Value) -> Value:
    """ResNet-18 v2: normalization and Relu in front of every convolution, as Gluon's resnet18v2."""
    x = stem(b, b.batch_normalization(x))
    for stage, block in b.blocks((2, 2, 2, 2)):
        channels, stride = WIDTHS[stage], 2 if block == 0 and stage else 1
        inner = b.relu(b.batch_normalization(x))
        shortcut = x
        if x.channels != channels:
            shortcut = b.conv(inner, channels, 1, stride=stride, bias=False)
        y = b.conv_bn(inner, channels, 3, stride=stride, padding=1, activation=b.relu)
        x = b.add(b.conv(y, channels, 3, padding=1, bias=False), shortcut)
    x = b.flatten(b.global_average_pool(b.relu(b.batch_normalization(x))))
    return b.gemm(x, 1000, name="scores")


@network("ResNet")
def resnet34(b: Builder, x: Value) -> Value:
    """ResNet-34 v1."""
    return _basic(b, x, (3, 4, 6, 3))


@network("ResNet")
def resnet50(b: Builder, x: Value) -> Value:
    """ResNet-50 with its strides in the 3x3 convolutions ("v1.5"), as resnet50 of the ONNX model
    zoo (Caffe2).
    """
    return _bottleneck(b, x, (3, 4, 6, 3))


@network("ResNet")
def resnet50_v1(b: Builder, x: Value) -> Value:
    """ResNet-50 v1 as first published, with its strides in the 1x1 convolutions."""
    return _bottleneck(b, x, (3, 4, 6, 3), early_stride=True)


@network("ResNet")
def resnet101(b: Builder, x: Value) -> Value:
    """ResNet-101 with its strides in the 3x3 convolutions."""
    return _bottleneck(b, x, (3, 4, 23, 3))


@network("ResNet")
def resnext50(b: Builder, x: Value) -> Value:
    """ResNeXt-50 32x4d: the 3x3 convolutions in 32 groups."""
    return _bottleneck(b, x, (3, 4, 6, 3), group=32)


def _basic(b: Builder, x: Value, depths: tuple[int, ...]) -> Value:
    """Two 3x3 convolutions a block."""
    x = stem(b, x)
    for stage, block in b.blocks(depths):
        channels, stride = WIDTHS[stage], 2 if block == 0 and stage else 1
        y = b.conv_bn(x, channels, 3, stride=stride, padding=1, activation=b.relu)
        y = b.conv_bn(y, channels, 3, padding=1)
        shortcut = b.conv_bn(x, channels, 1, stride=stride) if x.channels != channels else x
        x = b.relu(b.add(y, shortcut))
    return b.gemm(b.flatten(b.global_average_pool(x)), 1000, name="scores")


def _bottleneck(
    b: Builder, x: Value, depths: tuple[int, ...], *, group: int = 1, early_stride: bool = False
) -> Value:
    """A 3x3 convolution between two 1x1 a block; the last pool covers the whole map."""
    x = stem(b, x)
    *_, x = bottleneck_stages(b, x, depths, group=group, early_stride=early_stride)
    return b.softmax(b.gemm(b.rows_of(b.average_whole(x)), 1000), "probabilities")


def bottleneck_stages(
    b: Builder,
    x: Value,
    depths: tuple[int, ...],
    *,
    group: int = 1,
    early_stride: bool = False,
    dilated: tuple[bool, ...] = (False, False, False, False),
) -> list[Value]:
    """What the four stages of bottleneck blocks compute.

    early_stride: strides in the first convolution of a block. dilated: stages that widen their
    windows instead of striding (for segmentation, as torchvision does it: from the second block
    on).
    """
    results = [x] * len(depths)
    spacing = dilation = 1
    for stage, block in b.blocks(depths):
        channels, stride = WIDTHS[stage], 1
        if block == 0:
            spacing = dilation
            dilation *= 2 if dilated[stage] else 1
            stride = 2 if stage and not dilated[stage] else 1
        strides = (stride, 1) if early_stride else (1, stride)
        inner = channels * 2 if group > 1 else channels
        y = b.conv_bn(x, inner, 1, stride=strides[0], activation=b.relu)
        windows = partial(b.conv_bn, padding=spacing, dilation=spacing, group=group)
        y = windows(y, inner, 3, stride=strides[1], activation=b.relu)
        y = b.conv_bn(y, channels * 4, 1)
        shortcut = b.conv_bn(x, channels * 4, 1, stride=stride) if block == 0 else x
        results[stage] = x = b.relu(b.add(y, shortcut, op_type="Sum"))
        spacing = dilation
    return results


def stem(b: Builder, image: Value) -> Value:
    """What is in front of the stages: a quarter of the rows and columns remain."""
    x = b.conv_bn(image, 64, 7, stride=2, padding=3, activation=b.relu)
    return b.max_pool(x, 3, 2, padding=1)
