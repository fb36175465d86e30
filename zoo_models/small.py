"""Small networks: the CSDF paper's example, digits, faces, and super-resolution.

Sources: Minakova and Stefanov, figure 1 of "Buffer sizes reduction for memory-efficient CNN
inference on mobile and embedded devices" (2020); LeCun et al. 1998; mnist-8, emotion-ferplus-8 and
super-resolution-10 of the ONNX model zoo.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network


@network("CSDF paper", task="example", channels=(1,))
def cnn5(b: Builder, x: Value) -> Value:
    """The five layers of figure 1: n1 the image, n2 a 17x17 convolution, n3 a 5x5 one with stride 3
    behind a crop of one row and column at every edge, n4 fully connected, n5 the output; no biases.
    """
    x = b.conv(x, 4, 17, bias=False, name="n2")
    x = b.conv(b.pad(x, -1, "crop3"), 3, 5, stride=3, bias=False, name="n3")
    return b.gemm(b.flatten(x, "flatten4"), 2, bias=False, name="n4")


@network("LeNet", channels=(1,))
def lenet5(b: Builder, x: Value) -> Value:
    """LeNet-5 as it is taught today: every map of the second convolution reads all six, average
    pools, tanh.
    """
    for channels in (6, 16):
        x = b.average_pool(b.tanh(b.conv(x, channels, 5)), 2, 2)
    x = b.flatten(x)
    for features in (120, 84):
        x = b.tanh(b.gemm(x, features))
    return b.gemm(x, 10, name="scores")


@network("CNTK", channels=(1,))
def mnist(b: Builder, x: Value) -> Value:
    """Digits, as CNTK exports them: biases are nodes of their own."""
    for channels, pool in ((8, 2), (16, 3)):
        x = b.conv(x, channels, 5, padding="SAME_UPPER", bias=False)
        x = b.max_pool(b.relu(b.add_constant(x, (channels, 1, 1))), pool, pool)
    x = b.matmul(b.rows_of(x), 10)
    return b.add_constant(x, (1, 10), "scores")


@network("CNTK", pixels=(0.0, 255.0), channels=(1,))
def emotion_ferplus(b: Builder, x: Value) -> Value:
    """Emotions of faces (Barsoum et al. 2016, arXiv:1608.01041), a VGG of 13 layers as CNTK exports
    it. The two constants that scale the pixels are recalled, not read again.
    """
    x = b.normalized(x, Sub=127.5, Div=255)
    for stage, (channels, depth) in enumerate(((64, 2), (128, 2), (256, 3), (256, 3)), start=1):
        with b.scope(f"stage{stage}"):
            for _ in range(depth):
                x = b.conv(x, channels, 3, padding="SAME_UPPER", bias=False)
                x = b.relu(b.add_constant(x, (channels, 1, 1)))
            x = b.dropout(b.max_pool(x, 2, 2), 0.25)
    x = b.rows_of(x)
    for _ in range(2):
        x = b.dropout(b.relu(b.add_constant(b.matmul(x, 1024), (1024,))), 0.5)
    return b.add_constant(b.matmul(x, 8), (8,), "scores")


@network("ESPCN", task="super-resolution", pixels=(0.0, 1.0), channels=(1,), input_name="luma")
def super_resolution(b: Builder, x: Value) -> Value:
    """Super-resolution by three (ESPCN, Shi et al. 2016, arXiv:1609.05158): channels become pixels
    at the end, by a Reshape, a Transpose and a Reshape as in the file.
    """
    x = b.relu(b.conv(x, 64, 5, padding=2))
    for channels in (64, 32):
        x = b.relu(b.conv(x, channels, 3, padding=1))
    x = b.conv(x, 9, 3, padding=1)
    rows, columns = x.shape[2:]
    x = b.transpose(b.reshape(x, (1, 1, 3, 3, rows, columns)), (0, 1, 4, 2, 5, 3))
    return b.reshape(x, (1, 1, 3 * rows, 3 * columns), "image3")
