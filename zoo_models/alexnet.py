"""AlexNet and its relatives: five convolutions, overlapping pools, three fully connected layers.

Sources: Krizhevsky, Sutskever, Hinton 2012; Zeiler, Fergus 2013 (arXiv:1311.2901); the files
bvlc_alexnet, bvlc_reference_caffenet and zfnet512 of the ONNX model zoo, which come from Caffe and
Caffe2. At image sizes other than the published one the first fully connected layer has other
weights.
"""

from __future__ import annotations

from zoo_models._builder import ROUNDED_UP, Builder, Value
from zoo_models._entry import network


@network("AlexNet", size=(224, 224))
def alexnet(b: Builder, x: Value) -> Value:
    """AlexNet as Caffe trains it, in one column with grouped convolutions; LRN, then pool (bvlc_alexnet)."""
    x = b.max_pool(b.lrn(b.relu(b.conv(x, 96, 11, stride=4))), 3, 2)
    x = b.max_pool(b.lrn(b.relu(b.conv(x, 256, 5, padding=2, group=2))), 3, 2)
    return _caffe_tail(b, x)


@network("AlexNet", size=(224, 224))
def caffenet(b: Builder, x: Value) -> Value:
    """CaffeNet: AlexNet with every pool in front of its LRN, which saves memory (bvlc_reference_caffenet)."""
    x = b.lrn(b.max_pool(b.relu(b.conv(x, 96, 11, stride=4)), 3, 2))
    x = b.lrn(b.max_pool(b.relu(b.conv(x, 256, 5, padding=2, group=2)), 3, 2))
    return _caffe_tail(b, x)


@network("AlexNet")
def zfnet512(b: Builder, x: Value) -> Value:
    """ZFNet with 512 channels in its last three convolutions."""
    for channels, kernel in ((96, 7), (256, 5)):
        x = b.lrn(b.relu(b.conv(x, channels, kernel, stride=2)), alpha=5e-4, bias=2.0)
        x = b.max_pool(x, 3, 2)
    for _ in range(3):
        x = b.relu(b.conv(x, 512, 3, padding=1))
    x = b.rows_of(b.max_pool(x, 2, 2))
    for features in (4096, 1024):
        x = b.relu(b.gemm(x, features))
    return b.softmax(b.gemm(x, 1000), "probabilities")


def _caffe_tail(b: Builder, x: Value) -> Value:
    """The last three convolutions and the fully connected layers of AlexNet."""
    for channels, group in ((384, 1), (384, 2), (256, 2)):
        x = b.relu(b.conv(x, channels, 3, padding=1, group=group))
    x = b.rows_of(b.max_pool(x, 3, 2, ROUNDED_UP))
    for _ in range(2):
        x = b.dropout(b.relu(b.gemm(x, 4096)))
    return b.softmax(b.gemm(x, 1000), "probabilities")
