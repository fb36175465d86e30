"""DenseNet: every layer of a block reads what all layers before it have computed.

Source: Huang et al. 2017 (arXiv:1608.06993); densenet121 of the ONNX model zoo, which comes from
Caffe and writes a BatchNormalization as statistics, a Mul and an Add.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network

GROWTH = 32
DEPTHS = (6, 12, 24, 16)


@network("DenseNet")
def densenet121(b: Builder, x: Value) -> Value:
    """DenseNet-121: blocks of 6, 12, 24 and 16 layers that add 32 channels each."""

    def preactivated(x: Value, channels: int, kernel: int) -> Value:
        x = b.relu(b.scaled_batch_normalization(x))
        return b.conv(x, channels, kernel, padding=kernel // 2, bias=False)

    x = b.conv(x, 64, 7, stride=2, padding=3, bias=False)
    x = b.max_pool(b.relu(b.scaled_batch_normalization(x)), 3, 2, padding=1)
    for block, depth in enumerate(DEPTHS, start=1):
        for layer in range(1, depth + 1):
            with b.scope(f"block{block}/layer{layer}"):
                new = preactivated(preactivated(x, 4 * GROWTH, 1), GROWTH, 3)
                x = b.concat([x, new])
        if block < len(DEPTHS):
            with b.scope(f"transition{block}"):
                x = b.average_pool(preactivated(x, x.channels // 2, 1), 2, 2)
    x = b.global_average_pool(b.relu(b.scaled_batch_normalization(x)))
    return b.conv(x, 1000, 1, name="scores")
