"""The convolutional networks of MLPerf Tiny: for microcontrollers, with maps of kilobytes.

Source: Banbury et al. 2021 (arXiv:2106.07597) and the reference models of mlcommons/tiny (Keras),
which pad as TensorFlow does and keep biases in front of BatchNormalization.
"""

from __future__ import annotations

from functools import partial

from zoo_models._builder import Builder, Value
from zoo_models._entry import network
from zoo_models.mobilenet import V1_BLOCKS

EPSILON = 1e-3


@network("MLPerf Tiny")
def resnet8(b: Builder, x: Value) -> Value:
    """ResNet-8 for CIFAR-10: one block of two 3x3 convolutions in each of three stages."""
    conv = partial(b.conv_bn, padding="SAME_UPPER", bias=True, epsilon=EPSILON)
    x = conv(x, 16, 3, activation=b.relu)
    for stage, (channels, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
        with b.scope(f"stage{stage}"):
            y = conv(conv(x, channels, 3, stride=stride, activation=b.relu), channels, 3)
            shortcut = (
                b.conv(x, channels, 1, stride=stride, padding="SAME_UPPER") if stride > 1 else x
            )
            x = b.relu(b.add(shortcut, y))
    x = b.gemm(b.flatten(b.average_whole(x)), 10)
    return b.softmax(x, "probabilities")


@network("MLPerf Tiny")
def mobilenet_v1_x0_25(b: Builder, x: Value) -> Value:
    """MobileNet v1 with a quarter of the channels and two classes: "visual wake words"."""
    conv = partial(b.conv_bn, padding="SAME_UPPER", bias=True, epsilon=EPSILON, activation=b.relu)
    x = conv(x, 8, 3, stride=2)
    for block, (channels, stride) in enumerate(V1_BLOCKS, start=1):
        with b.scope(f"block{block}"):
            x = conv(x, x.channels, 3, stride=stride, group=x.channels)
            x = conv(x, channels // 4, 1)
    x = b.gemm(b.flatten(b.average_whole(x)), 2)
    return b.softmax(x, "probabilities")


@network("MLPerf Tiny", task="keyword spotting", channels=(1,), input_name="features")
def ds_cnn(b: Builder, x: Value) -> Value:
    """DS-CNN for keyword spotting: 49 frames of 10 features, 12 words; depthwise separable
    convolutions.

    The last pool takes the mean of the whole map of 25x5, as in the reference file kws_ref_model;
    the Python source next to it halves 49x10, rounding down, and so would leave a row out.
    """
    conv = partial(b.conv_bn, padding="SAME_UPPER", bias=True, epsilon=EPSILON, activation=b.relu)
    x = b.dropout(conv(x, 64, (10, 4), stride=2), 0.2)
    for block in range(1, 5):
        with b.scope(f"block{block}"):
            x = conv(conv(x, 64, 3, group=64), 64, 1)
    x = b.dropout(x, 0.4)
    x = b.gemm(b.flatten(b.average_whole(x)), 12)
    return b.softmax(x, "probabilities")
