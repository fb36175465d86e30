"""Segmentation: U-Net, which goes down and up again with joins across; and FCN on a dilated
ResNet-50.

Sources: Ronneberger et al. 2015 (arXiv:1505.04597), in the narrower form of Buda et al. 2019
(arXiv:1906.03720); Long et al. 2014 (arXiv:1411.4038) as torchvision has it, which is also
fcn-resnet50 of the ONNX model zoo.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network
from zoo_models.resnet import bottleneck_stages, stem


@network("U-Net", task="segmentation", multiple=16)
def unet(b: Builder, x: Value) -> Value:
    """U-Net with 32 channels at full size, for one class; padded, with BatchNormalization."""

    def two(x: Value, channels: int) -> Value:
        for _ in range(2):
            x = b.conv_bn(x, channels, 3, padding=1, activation=b.relu)
        return x

    kept = []
    for level, channels in enumerate((32, 64, 128, 256), start=1):
        with b.scope(f"down{level}"):
            kept.append(two(x, channels))
            x = b.max_pool(kept[-1], 2, 2)
    with b.scope("bottom"):
        x = two(x, 512)
    for level, across in reversed(list(enumerate(kept, start=1))):
        with b.scope(f"up{level}"):
            up = b.conv_transpose(x, across.channels, 2, stride=2)
            x = two(b.concat([up, across]), across.channels)
    return b.sigmoid(b.conv(x, 1, 1), "mask")


@network("FCN", task="segmentation")
def fcn_resnet50(b: Builder, x: Value) -> tuple[Value, ...]:
    """FCN on ResNet-50 with dilated last stages, 21 classes for every pixel; outputs of both heads."""
    height, width = x.height, x.width
    dilated = (False, False, True, True)
    *_, third, fourth = bottleneck_stages(b, stem(b, x), (3, 4, 6, 3), dilated=dilated)
    outputs = []
    for name, x in (("scores", fourth), ("auxiliary", third)):
        with b.scope(f"{name}_head"):
            x = b.conv_bn(x, x.channels // 4, 3, padding=1, activation=b.relu)
            x = b.conv(b.dropout(x, 0.1), 21, 1)
        outputs.append(b.interpolate(x, height, width, name))
    return tuple(outputs)
