"""Networks of users that stream, with random weights: detectors, super-resolution, segmentation, speech."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx.utils import Extractor

from benchmarks.demo.centerface import INPUT, model_file
from csdfgen.reading.zoo import build
from tests.builder import Graph

__all__ = ["STREAMS", "Named"]

Model = onnx.ModelProto


class Named(NamedTuple):
    """A network for images of so many rows and columns, of which the first are a multiple of `step`. width: columns of an image
    of a user; 0 for signals.
    """

    make: Callable[[int, int], Model]
    width: int
    step: int = 1


def _relu(graph: Graph, x: str, out: int, kernel: int = 3, **attributes: Any) -> str:
    return graph.node("Relu", graph.conv(x, out, kernel, **attributes))


def _doubled(graph: Graph, x: str, mode: str = "linear", by: int = 2) -> str:
    scales = graph.constant(np.array([1, 1, by, by], np.float32))
    where = "half_pixel" if mode == "linear" else "asymmetric"
    settings: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": where,
        "nearest_mode": "floor",
    }
    return graph.node("Resize", x, "", scales, **settings)


def _joined(graph: Graph, *tensors: str) -> str:
    if len(tensors) == 1:
        return tensors[0]
    channels = sum(graph.channels[one] for one in tensors)
    return graph.node("Concat", *tensors, axis=1, channels=channels)


def _image(rows: int, width: int) -> tuple[Graph, str]:
    graph = Graph()
    return graph, graph.input("x", (1, 3, rows, width))


def _halved(graph: Graph, x: str) -> str:
    return graph.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])


def _cnn5(rows: int, width: int) -> Model:
    graph, x = _image(rows, width)
    x = _halved(graph, _relu(graph, x, 8, 5, pads=[0] * 4))
    x = _halved(graph, _relu(graph, x, 16, pads=[0] * 4))
    return graph.model(_relu(graph, x, 16, pads=[0] * 4))


def _centerface(rows: int, width: int) -> Model:
    model = onnx.load(model_file())
    given = next(one for one in model.graph.input if one.name == INPUT)
    for one, size in zip(given.type.tensor_type.shape.dim, (1, 3, rows, width), strict=True):
        one.dim_value = size
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


def _dncnn(rows: int, width: int) -> Model:
    graph, x = _image(rows, width)
    y = _relu(graph, x, 32)
    for _ in range(15):
        y = graph.node("Relu", graph.batch_normalization(graph.conv(y, 32, bias=False)))
    return graph.model(graph.node("Sub", x, graph.conv(y, 3)))


def _edsr(rows: int, width: int) -> Model:
    graph, x = _image(rows, width)
    first = x = graph.conv(x, 32)
    for _ in range(8):
        y = graph.conv(_relu(graph, x, 32), 32)
        x = graph.node("Add", x, graph.node("Mul", y, graph.constant(np.float32(0.1))))
    x = graph.conv(graph.node("Add", first, graph.conv(x, 32)), 128)
    x = graph.node("DepthToSpace", x, blocksize=2, mode="CRD", channels=32)
    return graph.model(graph.conv(x, 3))


def _compact(rows: int, width: int) -> Model:
    """Real-ESRGAN's SRVGGNetCompact."""
    graph, x = _image(rows, width)
    y = x
    for _ in range(9):
        y = graph.conv(y, 32)
        y = graph.node("PRelu", y, graph.per_channel(y, 0.1, 0.4))
    y = graph.node("DepthToSpace", graph.conv(y, 48), blocksize=4, mode="CRD", channels=3)
    return graph.model(graph.node("Add", y, _doubled(graph, x, "nearest", 4)))


def _unet(rows: int, width: int, *, transposed: bool) -> Model:
    graph, x = _image(rows, width)
    x, skips = _relu(graph, _relu(graph, x, 16), 16), list[str]()
    for depth in range(1, 5 if transposed else 4):
        skips.append(x)
        x = _relu(graph, _relu(graph, _halved(graph, x), 16 << depth), 16 << depth)
    for skip in reversed(skips):
        channels = graph.channels[skip]
        if transposed:
            shape = graph.channels[x], channels, 2, 2
            weight = graph.rng.standard_normal(shape).astype(np.float32) / np.sqrt(shape[0])
            sizes: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
            up = graph.node(
                "ConvTranspose",
                x,
                graph.constant(weight.astype(np.float32)),
                channels=channels,
                **sizes,
            )
        else:
            up = _doubled(graph, x)
        x = _relu(graph, _relu(graph, _joined(graph, skip, up), channels), channels)
    return graph.model(graph.conv(x, 2, 1))


def _fpn(rows: int, width: int) -> Model:
    graph, x = _image(rows, width)
    x, levels = _relu(graph, x, 16, strides=[2, 2]), list[str]()
    for depth in range(4):
        channels = min(128, 32 << depth)
        x = _relu(graph, _relu(graph, x, channels, strides=[2, 2]), channels)
        levels.append(x)
    above, outputs = "", list[str]()
    for level in reversed(levels):
        here = graph.conv(level, 32, 1)
        above = graph.node("Add", here, _doubled(graph, above)) if above else here
        outputs.append(graph.conv(above, 8))
    return graph.model(*outputs)


def _mobilenet(rows: int, width: int) -> Model:
    """MobileNetV2 without its pool."""
    model = build(f"zoo:mobilenet_v2@{rows}x{width}")
    pool = next(one for one in model.graph.node if one.op_type == "GlobalAveragePool")
    return Extractor(onnx.shape_inference.infer_shapes(model)).extract_model(
        [model.graph.input[0].name], [pool.input[0]]
    )


def _rrdb(rows: int, width: int) -> Model:
    """ESRGAN's dense blocks."""
    graph, x = _image(rows, width)
    first = x = graph.conv(x, 32)
    for _ in range(2):
        dense = [x]
        for _ in range(4):
            dense.append(_relu(graph, _joined(graph, *dense), 16))
        y = graph.conv(_joined(graph, *dense), 32)
        x = graph.node("Add", graph.node("Mul", y, graph.constant(np.float32(0.2))), x)
    x = graph.node("Add", graph.conv(x, 32), first)
    for _ in range(2):
        x = _relu(graph, _doubled(graph, x, "nearest"), 32)
    return graph.model(graph.conv(x, 3))


# Signals -----------------------------------------------------------------------------------------


def _signal(rows: int, channels: int) -> tuple[Graph, str]:
    graph = Graph()
    return graph, graph.input("x", (1, channels, rows))


def _along(
    graph: Graph,
    x: str,
    out: int,
    kernel: int = 1,
    dilation: int = 1,
    *,
    group: int = 1,
    stride: int = 1,
) -> str:
    """A causal convolution."""
    inputs = graph.channels[x] // group
    weight = graph.rng.standard_normal((out, inputs, kernel)) / np.sqrt(inputs * kernel)
    bias = graph.constant(graph.rng.normal(0, 0.1, out).astype(np.float32))
    attributes: dict[str, Any] = {"dilations": [dilation], "strides": [stride], "group": group}
    attributes["pads"] = [(kernel - 1) * dilation if stride == 1 else 0, 0]
    return graph.node(
        "Conv", x, graph.constant(weight.astype(np.float32)), bias, channels=out, **attributes
    )


def _tcn(rows: int, _: int) -> Model:
    graph, x = _signal(rows, 40)
    x = graph.node("Relu", _along(graph, x, 32))
    for number in range(16):
        y = graph.node("Relu", _along(graph, x, 32, 3, 1 << number % 8))
        x = graph.node("Add", x, _along(graph, y, 32))
    return graph.model(_along(graph, x, 12))


def _wavenet(rows: int, _: int) -> Model:
    """Gated layers, whose skips are added up."""
    graph, x = _signal(rows, 1)
    x, total = _along(graph, x, 16, 2), ""
    for number in range(16):
        rate = 1 << number % 8
        gates = [graph.node(kind, _along(graph, x, 16, 2, rate)) for kind in ("Tanh", "Sigmoid")]
        gated = graph.node("Mul", *gates)
        skip = _along(graph, gated, 32)
        total = graph.node("Add", total, skip) if total else skip
        x = graph.node("Add", x, _along(graph, gated, 16))
    y = graph.node("Relu", _along(graph, graph.node("Relu", total), 32))
    return graph.model(_along(graph, y, 32))


def _normalized(graph: Graph, x: str) -> str:
    """LayerNormalization of the channels of each row."""
    channels = graph.channels[x]
    turned = graph.node("Transpose", x, perm=[0, 2, 1])
    scale, bias = graph.rng.uniform(0.5, 1.5, (2, channels)).astype(np.float32)
    done = graph.node("LayerNormalization", turned, graph.constant(scale), graph.constant(bias))
    return graph.node("Transpose", done, perm=[0, 2, 1], channels=channels)


def _conv_tasnet(rows: int, _: int) -> Model:
    """Its encoder, causal separator and decoder; of a speaker."""
    graph, x = _signal(rows, 1)
    coded = graph.node("Relu", _along(graph, x, 64, 16, stride=8))
    x = _along(graph, _normalized(graph, coded), 32)
    for number in range(8):
        y = graph.node("PRelu", _along(graph, x, 64), graph.constant(np.full(1, 0.25, np.float32)))
        y = _along(graph, _normalized(graph, y), 64, 3, 1 << number % 4, group=64)
        y = graph.node("PRelu", y, graph.constant(np.full(1, 0.25, np.float32)))
        x = graph.node("Add", x, _along(graph, _normalized(graph, y), 32))
    masked = graph.node("Mul", coded, graph.node("Sigmoid", _along(graph, x, 64)))
    weight = graph.constant(graph.rng.normal(0, 0.1, (64, 1, 16)).astype(np.float32))
    return graph.model(graph.node("ConvTranspose", masked, weight, strides=[8], channels=1))


def _keywords(rows: int, _: int) -> Model:
    """A network of depthwise convolutions over 10 features of a frame, whose scores are means over 25 of its rows."""
    graph = Graph()
    x = graph.input("x", (1, 1, rows, 10))
    x = _relu(graph, x, 64, strides=[2, 2])
    for _block in range(4):
        x = _relu(graph, _relu(graph, x, 64, group=64), 64, 1)
    x = graph.node("AveragePool", x, kernel_shape=[25, 5])
    return graph.model(graph.node("Softmax", graph.conv(x, 12, 1), axis=1))


def _recurrent(graph: Graph, x: str, size: int) -> str:
    """A GRU along the rows."""
    w, r = (
        graph.constant(
            (graph.rng.standard_normal((1, 3 * size, n)) / np.sqrt(n)).astype(np.float32)
        )
        for n in (graph.channels[x], size)
    )
    steps = graph.node("GRU", graph.node("Transpose", x, perm=[2, 0, 1]), w, r, hidden_size=size)
    steps = graph.node("Squeeze", steps, graph.constant(np.array([1], np.int64)))
    return graph.node("Transpose", steps, perm=[1, 2, 0], channels=size)


def _denoiser(rows: int, _: int) -> Model:
    """A mask of spectra by two GRUs."""
    graph, x = _signal(rows, 65)
    y = graph.node("Relu", _along(graph, x, 32, 3))
    y = _recurrent(graph, _recurrent(graph, y, 32), 32)
    mask = graph.node("Sigmoid", _along(graph, y, 65))
    return graph.model(graph.node("Mul", x, mask), checked=False)


STREAMS = {
    "cnn5": Named(_cnn5, 64),
    "CenterFace": Named(_centerface, 640, 32),
    "DnCNN": Named(_dncnn, 128),
    "EDSR": Named(_edsr, 128),
    "Real-ESRGAN compact": Named(_compact, 320),
    "U-Net transposed": Named(partial(_unet, transposed=True), 256, 16),
    "U-Net resized": Named(partial(_unet, transposed=False), 256, 8),
    "FPN": Named(_fpn, 320, 32),
    "MobileNetV2": Named(_mobilenet, 224),
    "WaveNet": Named(_wavenet, 0),
    "TCN": Named(_tcn, 0),
    "Conv-TasNet": Named(_conv_tasnet, 0),
    "keyword spotter": Named(_keywords, 0),
    "GRU denoiser": Named(_denoiser, 0),
}
"""By name; the width of signals is that of their features."""

RRDB = Named(_rrdb, 128)
