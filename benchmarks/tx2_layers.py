"""What was measured on a Jetson TX2, and what did each of its rows have to compute? The files of
others, read, not kept here.

The rows are TensorRT's: fused (`conv_activation`), merged (`a || b`), copies. Their names lead to
layers by kind and order; shapes come from the onnx package's light networks and, where it has none,
from the published topologies below.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import csdfgen
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from tests.networks import light

DATA = Path(__file__).resolve().parents[2] / "shared" / "tx2"
SWEEP = DATA / "tx2_gpu_op_sweep_2020-03-02.csv"
LAYERS = DATA / "jetson_tx2_per_layer"

COPY = "copy"


@dataclass(frozen=True)
class Work:
    """What a layer computes: its kind, and operations as the published model counts them."""

    kind: str
    operations: float


@dataclass(frozen=True)
class Row:
    """One measured row. kind: that of its layers, "1x1 merged" for several, "copy"; ms: measured."""

    network: str
    name: str
    kind: str
    works: tuple[Work, ...]
    ms: float


def conv(inputs: int, outputs: int, kernel: int, size: int) -> Work:
    """A square convolution to size x size pixels."""
    return Work(f"{kernel}x{kernel}", inputs * outputs * kernel**2 * size**2)


def pool(channels: int, size: int) -> Work:
    return Work("pool", channels * size**2)


def dense(inputs: int, outputs: int) -> Work:
    return Work("FC", inputs * outputs)


def _resnet18() -> list[Work]:
    """He et al. 2015, table 1; 224x224. In each later stage the shortcut's 1x1 convolution comes
    third, as in the file.
    """
    works = [conv(3, 64, 7, 112), pool(64, 56), *[conv(64, 64, 3, 56)] * 4]
    for width, size in ((128, 28), (256, 14), (512, 7)):
        works += [
            conv(width // 2, width, 3, size),
            conv(width, width, 3, size),
            conv(width // 2, width, 1, size),
        ]
        works += [conv(width, width, 3, size)] * 2
    return [*works, pool(512, 1), dense(512, 1000)]


def _tiny_yolo2() -> list[Work]:
    """Redmon and Farhadi, tiny YOLO v2 for VOC; 416x416."""
    works, channels, size = [], 3, 416
    for width in (16, 32, 64, 128, 256, 512):
        works += [conv(channels, width, 3, size), pool(width, max(13, size // 2))]
        channels, size = width, max(13, size // 2)
    return [*works, conv(512, 1024, 3, 13), conv(1024, 1024, 3, 13), conv(1024, 125, 1, 13)]


def _ferplus() -> list[Work]:
    """Barsoum et al. 2016, the VGG13 of FER+; 64x64."""
    works, channels, size = [], 1, 64
    for width, count in ((64, 2), (128, 2), (256, 3), (256, 3)):
        for _ in range(count):
            works.append(conv(channels, width, 3, size))
            channels = width
        size //= 2
        works.append(pool(width, size))
    return [*works, dense(4096, 1024), dense(1024, 1024), dense(1024, 8)]


def _mnist() -> list[Work]:
    """The ONNX model zoo's mnist (CNTK); 28x28."""
    return [conv(1, 8, 5, 28), pool(8, 14), conv(8, 16, 5, 14), pool(16, 4), dense(256, 10)]


BY_ORDER = {
    "resnet18v1": _resnet18,
    "yolov2": _tiny_yolo2,
    "emotion_ferNew": _ferplus,
    "mnist": _mnist,
}
"""Networks whose rows are layers one by one, in the order of the topology."""

BY_NUMBER = {
    "alexnet": "bvlc_alexnet",
    "densenet121": "densenet121",
    "googlenet": "inception_v1",
    "inceptionv1": "inception_v1",
    "vgg19caffe9": "vgg19",
}
"""Networks whose rows name layers by kind and number, and the light network that has their shapes.
"""

NETWORKS = tuple(sorted({**BY_ORDER, **BY_NUMBER}))

_KINDS = {
    "conv": "conv",
    "pool": "pool",
    "normalization": "LRN",
    "gemm": "FC",
    "softmax": "softmax",
}
_TOKEN = re.compile(r"([a-z]+)(\d+)")


def rows(network: str) -> Iterator[Row]:
    """The rows of a network's file with what they compute."""
    file = json.loads((LAYERS / network / "eval.json").read_text())
    names, times = file["layers"], file["GPU"]
    if network in BY_ORDER:
        works = BY_ORDER[network]()
        assert len(works) == len(names) == len(times), network
        for name, work, ms in zip(names, works, times, strict=True):
            yield Row(network, name, work.kind, (work,), ms)
        return
    found = _numbered(names, BY_NUMBER[network])
    for name, ms in zip(names, times, strict=True):
        works = found[name]
        kinds = {work.kind for work in works}
        kind = (
            COPY
            if not works
            else works[0].kind
            if len(works) == 1
            else f"{'/'.join(sorted(kinds))} merged"
        )
        yield Row(network, name, kind, works, ms)


def _numbered(names: list[str], source: str) -> dict[str, tuple[Work, ...]]:
    """Works of every row: the numbers of a kind, in rising order, are the layers of that kind in
    ONNX order.
    """
    available = _light_works(source)
    tokens = {name: _tokens(name) for name in names}
    order: dict[str, list[int]] = {}
    for kind, number in {token for found in tokens.values() for token in found}:
        order.setdefault(kind, []).append(number)
    for kind, numbers in order.items():
        assert len(numbers) == len(available[kind]), (
            source,
            kind,
            len(numbers),
            len(available[kind]),
        )
        numbers.sort()
    return {
        name: tuple(available[kind][order[kind].index(number)] for kind, number in found)
        for name, found in tokens.items()
    }


def _tokens(name: str) -> list[tuple[str, int]]:
    """(kind, number) of the layers in a row; an activation counts where it stands alone (batch
    normalization and ReLU).
    """
    if "copy" in name:
        return []
    found = [(kind, int(number)) for kind, number in _TOKEN.findall(name)]
    own = [(_KINDS[kind], number) for kind, number in found if kind in _KINDS]
    return own or [("BN", number) for _, number in found]


def _light_works(source: str) -> Mapping[str, list[Work]]:
    """Layers of a light network by kind, in ONNX order."""
    network = csdfgen.load(light(source))
    found: dict[str, list[Work]] = {
        name: [] for name in ("conv", "pool", "LRN", "FC", "softmax", "BN")
    }
    for layer in network.layers:
        found.setdefault(_kind(layer, network.producer), []).append(_work(layer))
    return found


_OPERATOR_KINDS = {
    "Conv": "conv",
    "MaxPool": "pool",
    "AveragePool": "pool",
    "GlobalAveragePool": "pool",
    "LRN": "LRN",
    "Gemm": "FC",
    "Softmax": "softmax",
}


def _kind(layer: Layer, producer: Mapping[str, Layer]) -> str:
    if _is_dense(layer):
        return "FC"
    if layer.op_type == "BatchNormalization":
        tensor = layer.inputs[0]
        before = producer.get(tensor.name) if tensor is not None else None
        return "folded" if before is not None and before.op_type == "Conv" else "BN"
    return _OPERATOR_KINDS.get(layer.op_type, "other")


def _is_dense(layer: Layer) -> bool:
    """A convolution of a map of one pixel, as DenseNet's last layer is written; TensorRT's row
    calls it a matrix product.
    """
    tensor = layer.inputs[0]
    return layer.op_type == "Conv" and tensor is not None and prod(tensor.shape[2:]) == 1


def _work(layer: Layer) -> Work:
    """Operations as the published model counts them (`csdfgen.paper.counting`)."""
    if get_operator(layer).multiplies:
        operations = get_operator(layer).cost(layer, Rows(0, layer.output.rows))
        kind = (
            "x".join(map(str, layer.attributes["kernel_shape"]))
            if layer.op_type == "Conv" and not _is_dense(layer)
            else "FC"
        )
        return Work(kind, operations)
    kinds = {**_OPERATOR_KINDS, "BatchNormalization": "BN", "Softmax": "softmax"}
    if layer.op_type == "LRN":
        return Work("LRN", layer.attributes["size"] * prod(layer.output.shape[2:]))
    return Work(kinds.get(layer.op_type, "other"), layer.output.elements)


def sweep() -> dict[str, list[tuple[float, float]]]:
    """(MACs, ms) of the swept convolutions by kernel, such as "3x3"."""
    found: dict[str, list[tuple[float, float]]] = {}
    with SWEEP.open(newline="") as file:
        for row in csv.DictReader(file):
            kernel = row["operator"].removeprefix("CONV").replace("_", "x")
            found.setdefault(kernel, []).append(
                (float(row["complexity_MACs"]), float(row["time_ms"]))
            )
    return found
