"""AlexNet and its relatives: five convolutions, overlapping pools, three fully connected layers.

Sources: Krizhevsky, Sutskever, Hinton 2012; Zeiler, Fergus 2013 (arXiv:1311.2901); the files
bvlc_alexnet, bvlc_reference_caffenet and zfnet512 of the ONNX model zoo, which come from Caffe and
Caffe2. At image sizes other than the published one the first fully connected layer has other
weights.
"""

from __future__ import annotations

from zoo_models._builder import ROUNDED_UP, Builder, Value
from zoo_models._entry import Published, derived, network


@network(
    "AlexNet",
    Published(
        60_965_224,
        724_000_000,
        "Sze et al. 2017 (arXiv:1703.09039)",
        "61 M parameters there, in full in HPE's Deep Learning Benchmarking Suite",
        (227, 227),
        compared="graph",
        definition="bvlc_alexnet in the onnx package",
    ),
    size=(224, 224),
)
def alexnet(b: Builder, x: Value) -> Value:
    """AlexNet as Caffe trains it, in one column with grouped convolutions; LRN, then pool (bvlc_alexnet)."""
    x = b.max_pool(b.lrn(b.relu(b.conv(x, 96, 11, stride=4))), 3, 2)
    x = b.max_pool(b.lrn(b.relu(b.conv(x, 256, 5, padding=2, group=2))), 3, 2)
    return _caffe_tail(b, x)


@network(
    "AlexNet",
    Published(
        60_965_000,
        724_406_816,
        "Open Model Zoo (OpenVINO) caffenet",
        "1.463 G operations there, two for a multiply-accumulate, pools and normalization among them; "
        "counted from the shapes in Caffe's file, which are AlexNet's",
        (227, 227),
        parameters_are="rounded",
        macs_are="derived",
        definition="bvlc_reference_caffenet of Caffe",
    ),
    size=(224, 224),
)
def caffenet(b: Builder, x: Value) -> Value:
    """CaffeNet: AlexNet with every pool in front of its LRN, which saves memory (bvlc_reference_caffenet)."""
    x = b.lrn(b.max_pool(b.relu(b.conv(x, 96, 11, stride=4)), 3, 2))
    x = b.lrn(b.max_pool(b.relu(b.conv(x, 256, 5, padding=2, group=2)), 3, 2))
    return _caffe_tail(b, x)


@network(
    "AlexNet",
    derived(
        87_250_536,
        1_481_727_008,
        "zfnet512 of the ONNX model zoo",
        "counted from the shapes in the file, which has 341 MB (of 1000 KiB)",
        compared="graph",
        definition="zfnet512 in the onnx package",
    ),
)
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
