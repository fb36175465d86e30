"""ShuffleNet: 1x1 convolutions in groups, and channels dealt out between them.

Sources: Zhang et al. 2017 (arXiv:1707.01083) and shufflenet of the ONNX model zoo (Caffe2); Ma et
al. 2018 (arXiv:1807.11164) and torchvision for v2.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network

REPEATS = (4, 8, 4)
"""Blocks of the three stages, of both versions."""

GROUPS = 4
"""Of version 1; the paper calls it g = 4."""


@network("ShuffleNet")
def shufflenet_v1(b: Builder, x: Value) -> Value:
    """ShuffleNet v1 as the ONNX model zoo has it: 4 groups, 136 to 544 channels, no narrower inside
    a block. The paper has no network of these widths.
    """
    x = b.conv(x, 24, 3, stride=2, padding=1)
    x = b.max_pool(b.relu(b.batch_normalization(x)), 3, 2, padding=1)
    x = _v1_stages(b, x, 136, narrowing=1, first_group=GROUPS)
    return b.softmax(b.gemm(b.rows_of(b.average_whole(x)), 1000), "probabilities")


@network("ShuffleNet")
def shufflenet_v1_g4(b: Builder, x: Value) -> Value:
    """ShuffleNet v1 1x with 4 groups, as the paper has it: 272 to 1088 channels, a quarter of them
    inside a block.

    The paper does not say whether the zeros around a map count in the mean of its pools; here they
    do not.
    """
    x = b.max_pool(b.conv_bn(x, 24, 3, stride=2, padding=1, activation=b.relu), 3, 2, padding=1)
    x = _v1_stages(b, x, 272, narrowing=4, first_group=1)
    return b.gemm(b.flatten(b.global_average_pool(x)), 1000, name="scores")


def _v1_stages(b: Builder, x: Value, channels: int, *, narrowing: int, first_group: int) -> Value:
    """channels: of the first stage, doubled in the others. first_group: groups of the very first
    1x1 convolution.
    """
    for stage, block in b.blocks(REPEATS, first=2):
        group = first_group if stage == block == 0 else GROUPS
        x = _v1_block(b, x, channels << stage, block == 0, narrowing, group)
    return x


def _v1_block(
    b: Builder, x: Value, channels: int, halves: bool, narrowing: int, group: int
) -> Value:
    """halves: the block halves the map, and joins a pool of its input instead of adding it."""
    added = channels - x.channels if halves else channels
    inner = added // narrowing if narrowing == 1 else channels // narrowing
    y = b.shuffle(b.conv_bn(x, inner, 1, group=group, activation=b.relu), GROUPS)
    y = b.conv_bn(y, inner, 3, stride=2 if halves else 1, padding=1, group=inner)
    y = b.conv_bn(y, added, 1, group=GROUPS)
    if halves:
        return b.relu(b.concat([y, b.average_pool(x, 3, 2, padding=1)]))
    return b.relu(b.add(y, x, op_type="Sum"))


# --- v2 -----------------------------------------------------------------------------------------


@network("ShuffleNet")
def shufflenet_v2(b: Builder, x: Value) -> Value:
    """ShuffleNet v2 1x: half of the channels pass a block untouched, then all are shuffled."""
    x = b.max_pool(b.conv_bn(x, 24, 3, stride=2, padding=1, activation=b.relu), 3, 2, padding=1)
    for stage, block in b.blocks(REPEATS, first=2):
        x = _v2_block(b, x, 58 << stage, halves=block == 0)
    x = b.conv_bn(x, 1024, 1, activation=b.relu)
    return b.gemm(b.flatten(b.global_average_pool(x)), 1000, name="scores")


def _v2_block(b: Builder, x: Value, channels: int, *, halves: bool) -> Value:
    """channels: of each of the two branches."""
    if halves:
        passed = b.batch_normalization(
            b.conv(x, x.channels, 3, stride=2, padding=1, group=x.channels, bias=False)
        )
        passed = b.conv_bn(passed, channels, 1, activation=b.relu)
        y, stride = x, 2
    else:
        passed, y = b.split(x, 2)
        stride = 1
    y = b.conv_bn(y, channels, 1, activation=b.relu)
    y = b.conv_bn(y, channels, 3, stride=stride, padding=1, group=channels)
    y = b.conv_bn(y, channels, 1, activation=b.relu)
    return b.shuffle(b.concat([passed, y]), 2)
