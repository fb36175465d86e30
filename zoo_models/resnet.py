"""ResNets: residual blocks, added to what they read.

Sources: He et al. 2015 (arXiv:1512.03385, v1), He et al. 2016 (arXiv:1603.05027, v2), Xie et al.
2017 (arXiv:1611.05431, ResNeXt); files of the ONNX model zoo and torchvision as the builders say.
"""

from __future__ import annotations

import onnx

from zoo_models._builder import Builder, Value
from zoo_models._entry import Published, ZooEntry

__all__ = [
    "NETWORKS",
    "bottleneck_stages",
    "resnet18",
    "resnet18_v2",
    "resnet34",
    "resnet50",
    "resnet50_v1",
    "resnet101",
    "resnext50",
    "stem",
]

WIDTHS = (64, 128, 256, 512)


def resnet18(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """ResNet-18 v1, as Gluon's resnet18v1 of the ONNX model zoo.

    Published (torchvision): 11,689,512 parameters, 1.814 G multiply-accumulates at 224x224.
    """
    return _basic("resnet18", (2, 2, 2, 2), height, width, seed, weights)


def resnet34(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """ResNet-34 v1.

    Published (torchvision): 21,797,672 parameters, 3.664 G multiply-accumulates at 224x224.
    """
    return _basic("resnet34", (3, 4, 6, 3), height, width, seed, weights)


def resnet18_v2(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """ResNet-18 v2: normalization and Relu in front of every convolution, as Gluon's resnet18v2.

    Published (Gluon): 11,695,796 parameters with the running statistics. The multiply-accumulates
    are those of v1, 1.814 G at 224x224 (torchvision), as no convolution differs.
    """
    b = Builder("resnet18_v2", seed=seed, weights=weights)
    x = b.batch_normalization(b.input(3, height, width or height))
    x = b.max_pool(b.conv_bn(x, 64, 7, stride=2, padding=3, activation=b.relu), 3, 2, padding=1)
    for stage, channels in enumerate(WIDTHS):
        for block in range(2):
            with b.scope(f"stage{stage + 1}/block{block + 1}"):
                stride = 2 if block == 0 and stage else 1
                inner = b.relu(b.batch_normalization(x))
                shortcut = (
                    b.conv(inner, channels, 1, stride=stride, bias=False)
                    if x.channels != channels
                    else x
                )
                y = b.conv_bn(inner, channels, 3, stride=stride, padding=1, activation=b.relu)
                x = b.add(b.conv(y, channels, 3, padding=1, bias=False), shortcut)
    x = b.flatten(b.global_average_pool(b.relu(b.batch_normalization(x))))
    return b.model(b.gemm(x, 1000, name="scores"))


def resnet50(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """ResNet-50 with its strides in the 3x3 convolutions ("v1.5"), as resnet50 of the ONNX model
    zoo (Caffe2).

    Published (torchvision): 25,557,032 parameters, 4.089 G multiply-accumulates at 224x224.
    """
    return _bottleneck("resnet50", (3, 4, 6, 3), height, width, seed, weights)


def resnet50_v1(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """ResNet-50 v1 as first published, with its strides in the 1x1 convolutions.

    Published: 25,557,032 parameters (torchvision's resnet50); 3.86 G multiply-accumulates at
        224x224 (Hu et al. 2017).
    """
    return _bottleneck("resnet50_v1", (3, 4, 6, 3), height, width, seed, weights, early_stride=True)


def resnet101(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """ResNet-101 with its strides in the 3x3 convolutions.

    Published (torchvision): 44,549,160 parameters, 7.801 G multiply-accumulates at 224x224.
    """
    return _bottleneck("resnet101", (3, 4, 23, 3), height, width, seed, weights)


def resnext50(
    height: int = 224, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """ResNeXt-50 32x4d: the 3x3 convolutions in 32 groups.

    Published (torchvision): 25,028,904 parameters, 4.23 G multiply-accumulates at 224x224.
    """
    return _bottleneck("resnext50", (3, 4, 6, 3), height, width, seed, weights, group=32)


def _basic(
    name: str, depths: tuple[int, ...], height: int, width: int | None, seed: int, weights: bool
) -> onnx.ModelProto:
    """Two 3x3 convolutions a block."""
    b = Builder(name, seed=seed, weights=weights)
    x = stem(b, b.input(3, height, width or height))
    for stage, (channels, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        for block in range(depth):
            with b.scope(f"stage{stage + 1}/block{block + 1}"):
                stride = 2 if block == 0 and stage else 1
                y = b.conv_bn(x, channels, 3, stride=stride, padding=1, activation=b.relu)
                y = b.conv_bn(y, channels, 3, padding=1)
                shortcut = b.conv_bn(x, channels, 1, stride=stride) if x.channels != channels else x
                x = b.relu(b.add(y, shortcut))
    return b.model(b.gemm(b.flatten(b.global_average_pool(x)), 1000, name="scores"))


def _bottleneck(
    name: str,
    depths: tuple[int, ...],
    height: int,
    width: int | None,
    seed: int,
    weights: bool,
    *,
    group: int = 1,
    early_stride: bool = False,
) -> onnx.ModelProto:
    """A 3x3 convolution between two 1x1 a block; the last pool covers the whole map."""
    b = Builder(name, seed=seed, weights=weights)
    x = stem(b, b.input(3, height, width or height))
    *_, x = bottleneck_stages(b, x, depths, group=group, early_stride=early_stride)
    x = b.rows_of(b.average_whole(x))
    return b.model(b.softmax(b.gemm(x, 1000), "probabilities"))


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
    results = []
    dilation = 1
    for stage, (channels, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        before = dilation
        dilation *= 2 if dilated[stage] else 1
        for block in range(depth):
            with b.scope(f"stage{stage + 1}/block{block + 1}"):
                stride = 2 if block == 0 and stage and not dilated[stage] else 1
                strides = (stride, 1) if early_stride else (1, stride)
                spacing = before if block == 0 else dilation
                inner = channels * 2 if group > 1 else channels
                y = b.conv_bn(x, inner, 1, stride=strides[0], activation=b.relu)
                y = b.conv_bn(
                    y,
                    inner,
                    3,
                    stride=strides[1],
                    padding=spacing,
                    dilation=spacing,
                    group=group,
                    activation=b.relu,
                )
                y = b.conv_bn(y, channels * 4, 1)
                shortcut = b.conv_bn(x, channels * 4, 1, stride=stride) if block == 0 else x
                x = b.relu(b.add(y, shortcut, op_type="Sum"))
        results.append(x)
    return results


def stem(b: Builder, image: Value) -> Value:
    """What is in front of the stages: a quarter of the rows and columns remain."""
    return b.max_pool(
        b.conv_bn(image, 64, 7, stride=2, padding=3, activation=b.relu), 3, 2, padding=1
    )


NETWORKS = (
    ZooEntry(
        "resnet18",
        resnet18,
        "ResNet",
        "classification",
        Published(11_689_512, 1_814_000_000, "torchvision resnet18"),
    ),
    ZooEntry(
        "resnet18_v2",
        resnet18_v2,
        "ResNet",
        "classification",
        Published(
            11_695_796,
            1_814_000_000,
            "Gluon resnet18_v2",
            "parameters with the running statistics; multiply-accumulates of torchvision's resnet18, which has the same products",
            statistics=True,
            definition="pytorchcv 0.0.74 preresnet18 behind one more BatchNormalization, which Gluon has",
        ),
    ),
    ZooEntry(
        "resnet34",
        resnet34,
        "ResNet",
        "classification",
        Published(21_797_672, 3_664_000_000, "torchvision resnet34"),
    ),
    ZooEntry(
        "resnet50",
        resnet50,
        "ResNet",
        "classification",
        Published(
            25_557_032,
            4_089_000_000,
            "torchvision resnet50",
            compared="graph",
            definition="resnet50 in the onnx package",
        ),
    ),
    ZooEntry(
        "resnet50_v1",
        resnet50_v1,
        "ResNet",
        "classification",
        Published(
            25_557_032,
            3_860_000_000,
            "Hu et al. 2017 (arXiv:1709.01507), table 2",
            "parameters as of torchvision's resnet50, where the strides stand does not matter",
            definition="pytorchcv 0.0.74 resnet50",
        ),
    ),
    ZooEntry(
        "resnet101",
        resnet101,
        "ResNet",
        "classification",
        Published(44_549_160, 7_801_000_000, "torchvision resnet101"),
    ),
    ZooEntry(
        "resnext50",
        resnext50,
        "ResNet",
        "classification",
        Published(25_028_904, 4_230_000_000, "torchvision resnext50_32x4d"),
    ),
)
