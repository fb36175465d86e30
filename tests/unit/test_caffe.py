"""Networks of Caffe compute what Caffe's documentation says, at every height and in both backends, and whatever is
not understood is refused in one line.

References are loops over the definitions in caffe.proto and include/caffe/layers; the files are written by
`tests.caffe_files`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import ModelError
from tests.caffe_files import caffemodel, field, layer, net, varint, write
from tests.command import Call, refused

Array = np.ndarray
RNG = np.random.default_rng(7)


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def computed(path: Path | str, x: Array, output: str | None = None, **options: object) -> Array:
    """The output, which both backends agree on at three heights, and which is onnxruntime's."""
    network = csdfgen.load(path)
    found = []
    for backend in ("numpy", "native"):
        for rows in ("1", "auto", "whole"):
            plan = csdfgen.plan(network, rows=rows, backend=backend, **options)  # type: ignore[arg-type]
            found.append(runtime.run(plan, x))
    name = output or network.outputs[0].name
    for other in found[1:]:
        np.testing.assert_allclose(other[name], found[0][name], rtol=1e-4, atol=1e-5)
    assert csdfgen.report(network, x).ok
    return found[0][name]


# Definitions --------------------------------------------------------------------------------------


def windows(n: int, kernel: int, stride: int, pad: int) -> list[tuple[int, int]]:
    """First and last row of each window of PoolingLayer, with the padding."""
    count = int(np.ceil((n + 2 * pad - kernel) / stride)) + 1
    if pad and (count - 1) * stride >= n + pad:
        count -= 1
    starts = [k * stride - pad for k in range(count)]
    return [(start, min(start + kernel, n + pad)) for start in starts]


def pool(
    x: Array, kind: str, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]
) -> Array:
    rows, columns = (windows(x.shape[2 + k], kernel[k], stride[k], pad[k]) for k in (0, 1))
    found = np.zeros((*x.shape[:2], len(rows), len(columns)))
    for i, (top, bottom) in enumerate(rows):
        for j, (left, right) in enumerate(columns):
            part = x[:, :, max(top, 0) : bottom, max(left, 0) : right].astype(np.float64)
            size = (bottom - top) * (right - left)
            found[:, :, i, j] = part.max((2, 3)) if kind == "MAX" else part.sum((2, 3)) / size
    return found


def convolve(
    x: Array,
    w: Array,
    b: Array,
    stride: Sequence[int] = (1, 1),
    pad: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    group: int = 1,
) -> Array:
    n, _, h, width = x.shape
    outs, ins, kh, kw = w.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2))
    oh = (h + 2 * pad[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width + 2 * pad[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    found = np.zeros((n, outs, oh, ow)) + b[:, None, None]
    for o in range(outs):
        first = o // (outs // group) * ins
        for c in range(ins):
            for i in range(kh):
                for j in range(kw):
                    top, left = i * dilation[0], j * dilation[1]
                    part = padded[
                        :,
                        first + c,
                        top : top + oh * stride[0] : stride[0],
                        left : left + ow * stride[1] : stride[1],
                    ]
                    found[:, o] += w[o, c, i, j] * part[:, :oh, :ow]
    return found


def deconvolve(x: Array, w: Array, b: Array, stride: int, pad: int, group: int = 1) -> Array:
    n, channels, h, width = x.shape
    _, per, k, _ = w.shape
    found = np.zeros((n, per * group, (h - 1) * stride + k, (width - 1) * stride + k))
    for c in range(channels):
        first = c // (channels // group) * per
        for o in range(per):
            for i in range(h):
                for j in range(width):
                    found[
                        :, first + o, i * stride : i * stride + k, j * stride : j * stride + k
                    ] += x[:, c, i, j, None, None] * w[c, o]
    end = -pad or None
    return found[:, :, pad:end, pad:end] + b[:, None, None]


def lrn(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0), (size // 2,) * 2, (0, 0), (0, 0)))
    total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return x * (k + alpha / size * total) ** -beta


def within(x: Array, size: int, alpha: float, beta: float) -> Array:
    mean = pool(x.astype(np.float64) ** 2, "AVE", [size] * 2, [1, 1], [size // 2] * 2)
    return x * (1 + alpha * mean) ** -beta


X = random(1, 6, 9, 8)
SETTINGS = 'name: "l" bottom: "data" top: "y"'

A, B, C = random(6), random(6), random(6, 1)
LAYERS: list[tuple[str, Sequence[Array], Array]] = [
    ("ReLU", (), np.maximum(X, 0)),
    ("ReLU negative_slope: 0.25 engine: CAFFE", (), np.where(X > 0, X, X * 0.25)),
    ("PReLU", [A], np.where(X > 0, X, X * A[:, None, None])),
    ("PReLU channel_shared: true", [A[:1]], np.where(X > 0, X, X * A[0])),
    ("ELU alpha: 0.5", (), np.where(X > 0, X, 0.5 * (np.exp(X) - 1))),
    ("Sigmoid", (), 1 / (1 + np.exp(-X))),
    ("TanH", (), np.tanh(X)),
    ("AbsVal", (), np.abs(X)),
    ("BNLL", (), np.log1p(np.exp(X))),
    ("ReLU6", (), np.clip(X, 0, 6)),
    ("Power power: 2 scale: 3 shift: -0.5", (), (3.0 * X - 0.5) ** 2),
    ("Power scale: 0.5", (), X * 0.5),
    ("Exp", (), np.exp(X)),
    ("Exp base: 2 scale: 3 shift: 1", (), 2 ** (1 + 3.0 * X)),
    ("Log shift: 2", (), np.log(X + 2.0)),
    ("Log base: 10 scale: 0.5 shift: 2", (), np.log10(0.5 * X + 2)),
    ("Softmax", (), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    ("Softmax axis: -1", (), np.exp(X) / np.exp(X).sum(3, keepdims=True)),
    ("LRN local_size: 3 alpha: 0.7 beta: 0.6 k: 1.5", (), lrn(X, 3, 0.7, 0.6, 1.5)),
    (
        "LRN norm_region: WITHIN_CHANNEL local_size: 5 alpha: 2 beta: 0.75 k: 9",
        (),
        within(X, 5, 2, 0.75),
    ),
    (
        "BatchNorm eps: 0.01",
        [A, np.abs(B), np.float32([4])],
        (X - A[:, None, None] / 4) / np.sqrt(np.abs(B)[:, None, None] / 4 + 0.01),
    ),
    ("BatchNorm use_global_stats: true", [A, np.abs(B), np.float32([0])], X / np.sqrt(1e-5)),
    ("Scale", [A], X * A[:, None, None]),
    ("Scale bias_term: true", [A, B], X * A[:, None, None] + B[:, None, None]),
    ("Scale axis: -1 bias_term: true", [X[0, 0, 0], X[0, 1, 0]], X * X[0, 0, 0] + X[0, 1, 0]),
    ("Scale num_axes: 2", [X[0, :, :, 0]], X * X[0, :, :, :1]),
    ("Scale num_axes: 0 bias_term: true", [A[0], B[0]], X * A[0] + B[0]),
    ("Bias", [A], X + A[:, None, None]),
    (
        "Normalize across_spatial: false channel_shared: false",
        [A],
        X / np.sqrt((X.astype(np.float64) ** 2).sum(1, keepdims=True) + 1e-10) * A[:, None, None],
    ),
    ("Normalize eps: 0.5", [A[:1]], X / np.sqrt((X.astype(np.float64) ** 2).sum() + 0.5) * A[0]),
    ("Flatten", (), X.reshape(1, -1)),
    ("Flatten axis: 1 end_axis: 2", (), X.reshape(1, 54, 8)),
    ("Reshape shape { dim: 0 dim: 2 dim: -1 dim: 4 }", (), X.reshape(1, 2, 54, 4)),
    ("Reshape shape { dim: 3 dim: 2 } axis: 1 num_axes: 1", (), X.reshape(1, 3, 2, 9, 8)),
    ("Reshape shape { dim: 1 } axis: -1 num_axes: 0", (), X.reshape(1, 6, 9, 8, 1)),
    ("Permute order: 0 order: 2 order: 3 order: 1", (), X.transpose(0, 2, 3, 1)),
    ("Permute order: 0 order: 3", (), X.transpose(0, 3, 1, 2)),
    (
        "ShuffleChannel group: 3",
        (),
        X.reshape(1, 3, 2, 9, 8).transpose(0, 2, 1, 3, 4).reshape(X.shape),
    ),
    ("Dropout dropout_ratio: 0.3", (), X),
    (
        "Convolution num_output: 4 kernel_size: 3 pad: 1 stride: 2",
        [random(4, 6, 3, 3), random(4)],
        convolve(X, random(4, 6, 3, 3), random(4), (2, 2), (1, 1)),
    ),
    (
        "Convolution num_output: 4 kernel_h: 3 kernel_w: 2 pad_h: 2 pad_w: 0 stride_h: 1 stride_w: 3 bias_term: false",
        [random(4, 6, 3, 2)],
        convolve(X, random(4, 6, 3, 2), np.zeros(4), (1, 3), (2, 0)),
    ),
    (
        "Convolution num_output: 4 kernel_size: [3, 2] pad: 2 pad: 1 dilation: 2 group: 2",
        [random(4, 3, 3, 2), random(4)],
        convolve(X, random(4, 3, 3, 2), random(4), (1, 1), (2, 1), (2, 2), 2),
    ),
    (
        "DepthwiseConvolution num_output: 6 kernel_size: 3 pad: 1",
        [random(6, 1, 3, 3), A],
        convolve(X, random(6, 1, 3, 3), A, (1, 1), (1, 1), (1, 1), 6),
    ),
    (
        "Deconvolution num_output: 4 kernel_size: 4 pad: 1 stride: 2",
        [random(6, 4, 4, 4), random(4)],
        deconvolve(X, random(6, 4, 4, 4), random(4), 2, 1),
    ),
    (
        "Deconvolution num_output: 6 group: 6 kernel_size: 4 stride: 2 bias_term: false",
        [random(6, 1, 4, 4)],
        deconvolve(X, random(6, 1, 4, 4), np.zeros(6), 2, 0, 6),
    ),
    (
        'InnerProduct num_output: 5 weight_filler { type: "xavier" }',
        [random(5, 432), random(5)],
        X.reshape(1, -1) @ random(5, 432).T + random(5),
    ),
    (
        "InnerProduct num_output: 5 transpose: true bias_term: false",
        [random(432, 5)],
        X.reshape(1, -1) @ random(432, 5),
    ),
    (
        "InnerProduct num_output: 5 axis: 3",
        [random(5, 8), random(5)],
        X @ random(5, 8).T + random(5),
    ),
]
"""Case -> type and settings of a layer, its blobs, and what it makes of X."""

POOLS = [
    ("kernel_size: 3 stride: 2", (3, 3), (2, 2), (0, 0)),
    ("kernel_size: 2 stride: 2", (2, 2), (2, 2), (0, 0)),
    ("kernel_size: 3 stride: 2 pad: 1", (3, 3), (2, 2), (1, 1)),
    ("kernel_size: 3 stride: 1 pad: 1", (3, 3), (1, 1), (1, 1)),
    ("kernel_size: 5 stride: 3 pad: 2", (5, 5), (3, 3), (2, 2)),
    ("kernel_size: 2 stride: 3 pad: 1", (2, 2), (3, 3), (1, 1)),
    ("kernel_h: 4 kernel_w: 3 stride_h: 3 stride_w: 2 pad_h: 0 pad_w: 1", (4, 3), (3, 2), (0, 1)),
    ("kernel_h: 3 kernel_w: 2 stride_h: 4 stride_w: 3 pad_h: 1 pad_w: 1", (3, 2), (4, 3), (1, 1)),
    ("kernel_size: 9 stride: 4", (9, 9), (4, 4), (0, 0)),
]


@pytest.mark.parametrize(("settings", "blobs", "wanted"), LAYERS)
def test_a_layer_computes_what_it_is_defined_as(
    settings: str, blobs: Sequence[Array], wanted: Array, tmp_path: Path
) -> None:
    kind, _, own = settings.partition(" ")
    path = write(
        tmp_path, net(X.shape, layer(f"y = {kind}(data) {own}")), {"y": blobs, "other": [A]}
    )
    found = computed(path, X, "y")
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(9, 8), (10, 7), (12, 11), (7, 6)])
@pytest.mark.parametrize("kind", ["MAX", "AVE"])
def test_pools_count_as_caffe_does(kind: str, size: tuple[int, int], tmp_path: Path) -> None:
    x = random(1, 2, *size)
    names = [f"p{k}" for k in range(len(POOLS))]
    layers = [
        f'name: "{name}" type: "Pooling" bottom: "data" top: "{name}" pooling_param {{ pool: {kind} {settings} }}'
        for name, (settings, *_) in zip(names, POOLS, strict=True)
    ]
    path = write(tmp_path, net(x.shape, *layers), {"other": [A]})
    for rows, backend in (("1", "numpy"), ("auto", "native")):
        plan = csdfgen.plan(csdfgen.load(path), rows=rows, backend=backend)
        found = runtime.run(plan, x)
        for name, (settings, *sides) in zip(names, POOLS, strict=True):
            wanted = pool(x, kind, *sides)
            assert found[name].shape == wanted.shape, settings
            np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5, err_msg=settings)


@pytest.mark.networks
def test_forks_round_pools_down_and_pools_may_be_global(tmp_path: Path) -> None:
    text = net(
        (1, 2, 8, 8),
        'name: "a" type: "Pooling" bottom: "data" top: "a" pooling_param { kernel_size: 3 stride: 2 ceil_mode: false }',
        'name: "b" type: "Pooling" bottom: "data" top: "b" pooling_param { kernel_size: 3 stride: 2 round_mode: FLOOR }',
        layer("c = Pooling(data) pool: AVE global_pooling: true"),
    )
    x = random(1, 2, 8, 8)
    path = write(tmp_path, text, {"other": [A]})
    wanted = pool(x[:, :, :7, :7], "MAX", (3, 3), (2, 2), (0, 0))
    np.testing.assert_allclose(computed(path, x, "a"), wanted, rtol=1e-5)
    np.testing.assert_allclose(computed(path, x, "b"), wanted, rtol=1e-5)
    np.testing.assert_allclose(computed(path, x, "c"), x.mean((2, 3), keepdims=True), atol=1e-5)


# Layers of several blobs --------------------------------------------------------------------------

CONV = "c = Convolution(data) num_output: 6 kernel_size: 1"
W, BIAS = random(6, 6, 1, 1), random(6)
CONVOLVED = convolve(X, W, BIAS)
GATE = X.max((2, 3))
GLOBAL = "g = Pooling(data) global_pooling: true"

JOINED: list[tuple[Sequence[str], Array]] = [
    ([CONV, "y = Eltwise(data, c)"], X + CONVOLVED),
    ([CONV, "y = Eltwise(data, c) operation: SUM coeff: 1 coeff: -1"], X - CONVOLVED),
    ([CONV, "y = Eltwise(data, c, c) operation: PROD"], X * CONVOLVED**2),
    ([CONV, "y = Eltwise(data, c) operation: MAX"], np.maximum(X, CONVOLVED)),
    ([CONV, "y = Concat(c, data)"], np.concatenate([CONVOLVED, X], 1)),
    ([CONV, "y = Concat(c, data) concat_dim: 2"], np.concatenate([CONVOLVED, X], 2)),
    (
        ["a, b = Slice(data) slice_point: 2", "y = Concat(b, a)"],
        np.concatenate([X[:, 2:], X[:, :2]], 1),
    ),
    (
        ["a, b, d = Slice(data) axis: 2", " = Silence(d)", "y = Concat(b, a) axis: 2"],
        np.concatenate([X[:, :, 3:6], X[:, :, :3]], 2),
    ),
    (
        ["p = Pooling(data) kernel_size: 3", "y = Crop(data, p) offset: 1 offset: 2"],
        X[:, :, 1:8, 2:8],
    ),
    (["a, b = Split(data)", "y = Eltwise(a, b)"], 2 * X),
    ([GLOBAL, "f = Flatten(g)", "y = Scale(data, f) axis: 0"], X * GATE[:, :, None, None]),
    (["a, b = Slice(data) slice_point: 3", "y = Bias(b, a) axis: 0"], X[:, 3:] + X[:, :3]),
    ([GLOBAL, CONV, "y = Axpy(g, c, data)"], GATE[:, :, None, None] * CONVOLVED + X),
    ([CONV, "c = ReLU(c)", "c = Dropout(c)", "y = Eltwise(c, data)"], np.maximum(CONVOLVED, 0) + X),
    (
        [CONV, "t = TanH(c)", "c = ReLU(c)", "y = Eltwise(c, t)"],
        np.maximum(CONVOLVED, 0) + np.tanh(CONVOLVED),
    ),
    (["data = ReLU(data)", "y = TanH(data)"], np.tanh(np.maximum(X, 0))),
]


@pytest.mark.parametrize(("layers", "wanted"), JOINED)
def test_blobs_are_joined_as_in_caffe(layers: Sequence[str], wanted: Array, tmp_path: Path) -> None:
    found = computed(write(tmp_path, net(X.shape, *map(layer, layers)), {"c": [W, BIAS]}), X, "y")
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-4)


def test_every_output_has_the_name_of_its_blob(tmp_path: Path) -> None:
    layers = CONV, "c = ReLU(c)", "a, b = Split(c)", "e = Dropout(data)"
    text = net(X.shape, *map(layer, layers))
    network = csdfgen.load(write(tmp_path, text, {"c": [W, BIAS]}))
    assert [output.name for output in network.outputs] == ["a", "b", "e"]
    found = runtime.run(csdfgen.plan(network), X)
    np.testing.assert_allclose(found["a"], np.maximum(CONVOLVED, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["b"], found["a"])
    np.testing.assert_array_equal(found["e"], X)


def prior_boxes(
    n: Sequence[int], image: Sequence[int], least: Sequence[float], most: Sequence[float], ratios: Sequence[float],
    variance: Sequence[float], step: Sequence[float], offset: float = 0.5, clip: bool = False,
) -> Array:  # fmt: skip
    """PriorBoxLayer::Forward_cpu. ratios: with those that are turned over, without 1."""
    found: list[float] = []
    for row in range(n[0]):
        for column in range(n[1]):
            y, x = (row + offset) * step[0], (column + offset) * step[1]
            for k, size in enumerate(map(int, least)):
                sides = [(size, size)]
                if most:
                    sides.append((np.sqrt(size * int(most[k])),) * 2)
                sides += [(size * np.sqrt(ratio), size / np.sqrt(ratio)) for ratio in ratios]
                for wide, high in sides:
                    for sign in (-0.5, 0.5):
                        found += [(x + sign * wide) / image[1], (y + sign * high) / image[0]]
    boxes = np.clip(found, 0, 1) if clip else np.array(found)
    return np.stack([boxes, np.tile(variance, len(found) // len(variance))])[None]


BOXES = {
    "min_size: 3.7": ([3.7], [], [], [0.1], (27 / 9, 40 / 8), 0.5, False),
    "min_size: 4 min_size: 9 max_size: 8 max_size: 20 aspect_ratio: 2 aspect_ratio: 0.5 aspect_ratio: 3 clip: true "
    "variance: [0.1, 0.1, 0.2, 0.3] step: 4 offset: 0.25": (
        [4, 9], [8, 20], [2, 0.5, 3, 1 / 3], [0.1, 0.1, 0.2, 0.3], (4, 4), 0.25, True,
    ),
    "min_size: 5 aspect_ratio: 1 aspect_ratio: 2 flip: false step_h: 2 step_w: 3 img_size: 50": (
        [5], [], [2], [0.1], (2, 3), 0.5, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("settings", BOXES)
def test_prior_boxes(settings: str, tmp_path: Path) -> None:
    least, most, ratios, variance, step, offset, clip = BOXES[settings]
    text = net(
        (1, 2, 27, 40),
        'name: "p" type: "Pooling" bottom: "data" top: "p" pooling_param { kernel_h: 3 kernel_w: 5 stride_h: 3 stride_w: 5 }',
        f'name: "b" type: "PriorBox" bottom: "p" bottom: "data" top: "b" prior_box_param {{ {settings} }}',
        'name: "s" type: "Softmax" bottom: "p" top: "s"',
    )
    path = write(tmp_path, text, {"other": [A]})
    image = (50, 50) if "img_size" in settings else (27, 40)
    wanted = prior_boxes((9, 8), image, least, most, ratios, variance, step, offset, clip)
    np.testing.assert_allclose(
        computed(path, random(1, 2, 27, 40), "b"), wanted, rtol=1e-6, atol=1e-6
    )


def bilinear(x: Array, height: int, width: int) -> Array:
    """caffe_cpu_interp2."""
    found = np.zeros((*x.shape[:2], height, width))
    steps = [
        (n - 1) / (m - 1) if m > 1 else 0.0
        for n, m in zip(x.shape[2:], (height, width), strict=True)
    ]
    for i in range(height):
        for j in range(width):
            y, z = i * steps[0], j * steps[1]
            a, b = int(y), int(z)
            c, d = (k + (k < n - 1) for k, n in ((a, x.shape[2]), (b, x.shape[3])))
            dy, dz = y - a, z - b
            found[:, :, i, j] = (1 - dy) * ((1 - dz) * x[:, :, a, b] + dz * x[:, :, a, d])
            found[:, :, i, j] += dy * ((1 - dz) * x[:, :, c, b] + dz * x[:, :, c, d])
    return found


def largest(x: Array, count: int, axis: int | None, valued: bool) -> Array:
    """ArgMaxLayer::Forward_cpu: pairs of value and position, from the largest down."""
    rows = (
        x.reshape(x.shape[0], -1)
        if axis is None
        else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    )
    best = [
        sorted(((v, k) for k, v in enumerate(row)), reverse=True)[:count] for row in rows.tolist()
    ]
    found = np.array(best).transpose(0, 2, 1)
    if axis is None:
        return found[:, [1, 0] if valued else [1], :, None]
    rest = [n for k, n in enumerate(x.shape) if k != axis]
    return np.moveaxis(found[:, 0 if valued else 1].reshape(*rest, count), -1, axis)


SIZED = {
    "Upsample upsample_param { scale: 3 }": lambda x: x.repeat(3, 2).repeat(3, 3),
    "Interp interp_param { height: 5 width: 11 }": lambda x: bilinear(x, 5, 11),
    "Interp interp_param { height: 1 width: 1 }": lambda x: bilinear(x, 1, 1),
    "Interp interp_param { zoom_factor: 3 pad_beg: -1 pad_end: -2 }": lambda x: bilinear(
        x[:, :, 1:-2, 1:-2], 16, 13
    ),
    "Interp interp_param { shrink_factor: 2 }": lambda x: bilinear(x, 5, 4),
    "Interp interp_param { shrink_factor: 3 zoom_factor: 2 }": lambda x: bilinear(x, 5, 5),
    "ArgMax": lambda x: largest(x, 1, None, False),
    "ArgMax argmax_param { top_k: 7 out_max_val: true }": lambda x: largest(x, 7, None, True),
    "ArgMax argmax_param { axis: 1 }": lambda x: largest(x, 1, 1, False),
    "ArgMax argmax_param { axis: -1 top_k: 4 }": lambda x: largest(x, 4, 3, False),
    "ArgMax argmax_param { axis: 2 top_k: 2 out_max_val: true }": lambda x: largest(x, 2, 2, True),
}


@pytest.mark.parametrize("case", SIZED)
def test_layers_of_forks_and_places_of_the_largest(case: str, tmp_path: Path) -> None:
    """Of values of which many are equal."""
    kind, _, settings = case.partition(" ")
    path = write(tmp_path, net(X.shape, f'{SETTINGS} type: "{kind}" {settings}'), {"other": [A]})
    x = np.round(X * 4) / 4
    np.testing.assert_allclose(computed(path, x), SIZED[case](x), rtol=1e-4, atol=1e-5)


def given(blob: str, *shape: int) -> str:
    dims = " ".join(f"dim: {size}" for size in shape)
    return f'name: "{blob}" type: "Input" top: "{blob}" input_param {{ shape {{ {dims} }} }}'


def lstm(x: Array, cont: Array, w: Array, b: Array, r: Array, static: Array | float = 0) -> Array:
    """LSTMLayer::FillUnrolledNet and LSTMUnitLayer::Forward_cpu, in loops."""
    size = r.shape[1]
    h, c, found = np.zeros((x.shape[1], size)), np.zeros((x.shape[1], size)), []
    for now, kept in zip(x.reshape(*x.shape[:2], -1).astype(np.float64), cont, strict=True):
        gates = now @ w.T + b + static + (h * kept[:, None]) @ r.T
        for n in range(len(h)):
            for d in range(size):
                i, f, o = (1 / (1 + np.exp(-gates[n, k * size + d])) for k in range(3))
                c[n, d] = kept[n] * f * c[n, d] + i * np.tanh(gates[n, 3 * size + d])
                h[n, d] = o * np.tanh(c[n, d])
        found.append(h.copy())
    return np.array(found)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("steps", "count", "rest"), [(1, 1, (3,)), (7, 1, (2, 2)), (6, 3, (5,))])
def test_lstm(steps: int, count: int, rest: tuple[int, ...], static: bool, tmp_path: Path) -> None:
    """Sequences begin anew where cont is 0, each at its own step."""
    size, wide = 4, int(np.prod(rest))
    w, b, r, ws = random(16, wide), random(16), random(16, size), random(16, 6)
    head = [given("cont", steps, count), *([given("still", count, 6)] if static else [])]
    bottoms = 'bottom: "data" bottom: "cont"' + ' bottom: "still"' * static
    settings = f'recurrent_param {{ num_output: {size} weight_filler {{ type: "xavier" }} }}'
    layer = f'name: "l" type: "LSTM" {bottoms} top: "y" {settings}'
    after = 'name: "f" type: "InnerProduct" bottom: "y" top: "f" inner_product_param { num_output: 3 axis: 2 bias_term: false }'
    blobs = {"l": [w, b, *([ws] if static else []), r], "f": [random(3, size)]}
    path = write(tmp_path, net((steps, count, *rest), *head, layer, after), blobs)
    feeds = {
        "data": random(steps, count, *rest),
        "cont": (RNG.random((steps, count)) < 0.6).astype(np.float32),
    }
    if static:
        feeds["still"] = random(count, 6)
    wanted = lstm(feeds["data"], feeds["cont"], w, b, r, feeds["still"] @ ws.T if static else 0)
    network = csdfgen.load(path)
    for backend in ("numpy", "native"):
        for rows in ("1", "auto", "whole"):
            found = runtime.run(csdfgen.plan(network, rows=rows, backend=backend), feeds)["f"]
            np.testing.assert_allclose(found, wanted @ random(3, size).T, rtol=1e-4, atol=1e-5)
    assert csdfgen.report(network, feeds).ok


def test_an_lstm_of_hostile_sizes_is_refused(tmp_path: Path) -> None:
    many = 2**30
    layer = f'{SETTINGS} type: "LSTM" bottom: "cont" recurrent_param {{ num_output: 4 }}'
    head = given("cont", 2, many)
    path = write(
        tmp_path, net((2, many, 1), head, layer), {"l": [random(16, 1), random(16), random(16, 4)]}
    )
    with pytest.raises(ModelError, match="makes a constant of 1073741824x4"):
        csdfgen.load(path)


# Files --------------------------------------------------------------------------------------------

TRAINED = """
name: "trained"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        transform_param { mirror: true crop_size: 5 mean_value: 104 } data_param { source: "lmdb" batch_size: 64 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
        transform_param { crop_size: 6 mean_value: 104 } data_param { source: "lmdb" batch_size: 1 backend: LMDB } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c" param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
        convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "gaussian" std: 0.01 } } }
layer { name: "extra" type: "Python" bottom: "c" top: "x" exclude { phase: TEST } }
layer { name: "staged" type: "TanH" bottom: "c" top: "x" include { stage: "deploy" } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" top: "loss" loss_weight: 1 }
layer { name: "accuracy" type: "Accuracy" bottom: "c" bottom: "label" top: "accuracy" include { phase: TEST } }
"""

OLD = """
name: 'old'
input: "data"
input_dim: 1 input_dim: 3 input_dim: 6 input_dim: 6
layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" blobs_lr: 1 blobs_lr: 2 weight_decay: 1
         convolution_param { num_output: 2 kernel_size: 3 } }
layers { name: "r" type: RELU bottom: "c" top: "c" }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "c" bottom: "label" }
"""
SMALL, KERNEL = random(1, 3, 6, 6), random(2, 3, 3, 3)
SMALL_OUT = convolve(SMALL, KERNEL, random(2))


def test_a_network_for_training_ends_in_front_of_its_losses(tmp_path: Path) -> None:
    path = write(tmp_path, TRAINED, {"c": [KERNEL, random(2)]})
    network = csdfgen.load(path)
    assert network.inputs[0].shape == (1, 3, 6, 6) and network.name == "trained"
    assert [output.name for output in network.outputs] == ["c"]
    np.testing.assert_allclose(computed(path, SMALL), SMALL_OUT, rtol=1e-4, atol=1e-5)
    path.write_text('state { stage: "deploy" }' + TRAINED)
    np.testing.assert_allclose(computed(path, SMALL), np.tanh(SMALL_OUT), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["old", "loose", "double"])
def test_version_1_and_every_form_of_blobs_are_read(form: str, tmp_path: Path) -> None:
    path = write(tmp_path, OLD, {"c": [KERNEL, random(2)]}, version=1, **{form: True})
    np.testing.assert_allclose(
        computed(path, SMALL), np.maximum(SMALL_OUT, 0), rtol=1e-4, atol=1e-5
    )


def test_shapes_and_batches_that_are_asked_for_change_the_pools(tmp_path: Path) -> None:
    """The padding of a pool that is rounded up depends on the size of the image."""
    layer = 'name: "p" type: "Pooling" bottom: "data" top: "p" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }'
    path = write(tmp_path, net((4, 2, 8, 8), layer), {"other": [A]})
    assert csdfgen.load(path).batch == 4
    for shape in ((1, 2, 9, 11), (3, 2, 7, 8)):
        x = random(*shape)
        network = csdfgen.load(path, shapes={"data": shape})
        (found,) = runtime.run(csdfgen.plan(network), x).values()
        np.testing.assert_allclose(
            found, pool(x, "AVE", (3, 3), (2, 2), (1, 1)), rtol=1e-4, atol=1e-5
        )
        assert csdfgen.report(network, x).ok
    assert csdfgen.load(path, batch=2).batch == 2
    assert csdfgen.load(path, shapes="1x2x20x20").inputs[0].shape == (1, 2, 20, 20)
    with pytest.raises(ModelError, match="has 4 dimensions"):
        csdfgen.load(path, shapes={"data": (2, 8, 8)})
    with pytest.raises(ModelError, match="'x' is not an input"):
        csdfgen.load(path, shapes={"x": (2, 8, 8)})


def test_the_shape_of_an_input_may_be_left_to_the_user(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path, net((), layer(CONV)), {"c": [W, BIAS]})
    path.write_text(path.read_text().replace("input_param { shape {  } }", ""))
    assert "--shape data=1x3xNxN" in refused(call(str(path)))
    assert call(str(path), "--shape", "data=1x6x5x4").code == 0


def test_the_command_takes_the_pair_as_a_model(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path, TRAINED, {"c": [KERNEL, random(2)]})
    other = path.with_name("snapshot_iter_10.caffemodel")
    path.with_suffix(".caffemodel").rename(other)
    for model in (str(path), f"{path},{other}", "net.prototxt,snapshot_iter_10.caffemodel"):
        done = call("run", model, "--check")
        assert done.code == 0 and "equal" in done.out, done.err
        assert call("schedule", model, "-o", "plan.json").code == 0
        assert call("run", model, "--plan", "plan.json").code == 0
        assert call("report", "plan.json", "--no-measure").code == 0
    assert call("quantize", str(path), "-o", "q.onnx", "--format", "float16").code == 0


def test_weights_are_found_by_their_name_or_alone(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path, TRAINED, {"c": [KERNEL, random(2)]})
    weights = path.with_suffix(".caffemodel")
    assert "give its .prototxt" in refused(call(str(weights)))
    weights.rename(tmp_path / "a.caffemodel")
    (tmp_path / "b.caffemodel").write_bytes(b"")
    assert "net.prototxt,WEIGHTS.caffemodel" in refused(call(str(path)))
    assert "b.caffemodel: is empty" in refused(call(f"{path},{tmp_path / 'b.caffemodel'}"))
    for one in tmp_path.glob("*.caffemodel"):
        one.unlink()
    assert "there is none" in refused(call(str(path)))
    assert "does not exist" in refused(call(str(tmp_path / "no.prototxt")))


# Refusals -----------------------------------------------------------------------------------------

REFUSALS = {
    'type: "DetectionOutput"': "'l' (DetectionOutput: its number of boxes depends on the image",
    'type: "Interp"': "its output would be 1x6x0x0, at least 1 element",
    'type: "Interp" interp_param { pad_beg: 1 zoom_factor: 2 }': "pads 1x6x9x8 by 1 and 0; four axes, and cutting off",
    'type: "Interp" interp_param { pad_end: -9 zoom_factor: 2 }': "at least 1 element",
    'type: "Interp" interp_param { height: 2147483647 width: 2147483647 }': "in all are possible",
    'type: "Interp" interp_param { zoom_factor: 2 height: 9 }': "sets interp_param.height",
    'type: "Upsample"': "scales 1x6x9x8 by 0; four axes and scale",
    'type: "Upsample" upsample_param { scale: 2147483647 }': "in all are possible",
    'type: "Upsample" bottom: "data" upsample_param { scale: 2 }': "has 2 bottoms, 1 are supported",
    'type: "ArgMax" argmax_param { top_k: 433 }': "top_k is 433 of 432 values",
    'type: "ArgMax" argmax_param { top_k: 0 }': "'0', not a whole number from 1",
    'type: "PriorBox" prior_box_param { min_size: 3 }': "has 1 bottoms, 2 are supported",
    'type: "PriorBox" bottom: "data"': "has 0 min_size and 0 max_size",
    'type: "PriorBox" bottom: "data" prior_box_param { min_size: 3 max_size: 3 }': "max_size 3 is not above min_size 3",
    'type: "PriorBox" bottom: "data" prior_box_param { min_size: 3 aspect_ratio: 0 }': "aspect_ratio is 0, not above 0",
    'type: "PriorBox" bottom: "data" prior_box_param { min_size: 3 variance: 1 variance: 2 }': "has 2 variance",
    f'type: "PriorBox" bottom: "data" prior_box_param {{ {"min_size: 3 " * 40000} }}': "a constant of 1x2x11520000, at most",
    'type: "LSTM" recurrent_param { num_output: 2 }': "has 1 bottoms, 2 to 3 are supported",
    'type: "LSTM" bottom: "data" recurrent_param { num_output: 2 }': "with cont of 1x6x9x8",
    'type: "Mystery"': "'l' (Mystery); export the network to ONNX",
    'type: "Convolution"': "layer 'l' (Convolution): 6 channels and 0 outputs (num_output)",
    'type: "Convolution" convolution_param { num_output: 4 }': "kernel_size is set 0 times",
    'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 }': "needs 1 blobs of weights, the .caffemodel has 0",
    'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 axis: 2 }': "other axes than",
    'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 group: 4 }': "no multiples of 4 groups",
    'type: "Convolution" convolution_param { num_output: 4 kernel_size: 30 }': "needs 1 blobs",
    'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 pad: -1 }': "'-1', not a whole number from 0",
    'type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 kernel_h: 2 }': "set kernel_size, or both others",
    'type: "Convolution" convolution_param { num_output: 4 num_output: 5 }': "num_output is set 2 times",
    'type: "Pooling" pooling_param { pool: STOCHASTIC kernel_size: 2 }': "'STOCHASTIC'; MAX, 0, AVE, 1 are known",
    'type: "Pooling" pooling_param { kernel_size: 2 pad: 2 }': "pad 2 is not less than kernel 2",
    'type: "Pooling" pooling_param { kernel_size: 2 dilation: 2 }': "sets pooling_param.dilation, which csdfgen does not know",
    'type: "Pooling" pooling_param { kernel_size: 1 stride: 7 }': "its last window of 1 rows begins behind the 9 rows",
    'type: "Pooling" top: "mask" pooling_param { kernel_size: 2 }': "has 2 tops, 1 is supported",
    'type: "ReLU" relu_param { negative_slope: nan }': "negative_slope in line 3 is 'nan', not a number",
    'type: "ReLU" relu_param: 3': "relu_param in line 3 is '3', not { }",
    'type: "ReLU" bottom: "data"': "has 2 bottoms, 1 are supported",
    'type: "ReLU" bottom: "nowhere"': "reads 'nowhere', which no layer in front of it makes",
    'type: "ReLU" include { phase: TEST } exclude { stage: "x" }': "include and exclude",
    'type: "BatchNorm" batch_norm_param { use_global_stats: false }': "remove the setting to use the stored averages",
    'type: "BatchNorm"': "has 0 blobs in the .caffemodel",
    'type: "LRN" lrn_param { local_size: 4 }': "local_size is 4",
    'type: "Scale" scale_param { axis: 0 }': "axes behind axis 0 are supported",
    'type: "Scale" scale_param { axis: 9 }': "axis is 9 of a tensor with 4 axes",
    'type: "Eltwise" bottom: "data" eltwise_param { coeff: 1 }': "has 1 coeff for 2 bottoms",
    'type: "Slice" top: "z" slice_param { slice_point: 7 }': "in 2 tops at [7]",
    'type: "Reshape" reshape_param { shape { dim: 0 dim: 5 } }': "1x6x9x8 does not fit into 1x5",
    'type: "Reshape" reshape_param { shape { dim: -1 dim: -1 } }': "more than one dim is -1",
    'type: "Reshape" reshape_param { shape { dim: 2147483647 dim: 2147483647 dim: -1 } }': "does not fit",
    'type: "Permute" permute_param { order: 1 order: 1 }': "is no permutation of 4 axes",
    'type: "InnerProduct" inner_product_param { num_output: 3 axis: 0 }': "joins the images of a batch",
    'type: "Exp" exp_param { base: -2 }': "not a positive number other than 1",
    'type: "Dropout" dropout_param { scale_train: false }': "use a Power layer",
    'type: "Crop" bottom: "data" crop_param { offset: 1 }': "beyond its end",
}


@pytest.mark.parametrize("settings", REFUSALS)
def test_a_layer_is_not_understood(settings: str, call: Call, tmp_path: Path) -> None:
    path = write(tmp_path, net(X.shape, f"{SETTINGS} {settings}"), {"other": [A]})
    line = refused(call(str(path)))
    assert REFUSALS[settings] in line and str(path) in line and "l" in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("net: 'solver.prototxt' base_lr: 0.1", "not of a solver"),
        ("layer { name: 'a' ", "line 1: the name of a field is expected, not 'the end'"),
        ("layer { name 'a' }", "line 1: ':' or '{' is expected"),
        ("layer {\n name: [1, }", "line 2: a value is expected"),
        ("layer {{", "the name of a field is expected"),
        ("a { " * 40, "messages in more than 16 messages"),
        ("layer { name: 'a\n' }", "is not the text of a network"),
        ("layers { layer { name: 'a' } }", "upgrade_net_proto_text"),
        ("layer { name: 'a' } layers { name: 'b' }", "has both"),
        (
            "input: 'a' input: 'b' input_dim: 3 layer { name: 'a' type: 'ReLU' }",
            "has 2 input and 1 shapes",
        ),
        ("layer { name: 'a' type: 'Input' top: 'a' }", "the shape of 'a' is not in the file"),
        (
            "input: 'a' input_shape { dim: 1 dim: 3 } layer { name: 'l' type: 'EuclideanLoss' }",
            "no layer but data and losses",
        ),
        (
            "input: 'a' input_shape { dim: 1 } layer { name: 'l' type: 'ReLU' bottom: 'a' top: 'b' } magic: 1",
            "sets magic",
        ),
        (
            "input: 'a' input_shape { dim: 99999999999 } layer { name: 'l' type: 'ReLU' bottom: 'a' top: 'b' }",
            "not a whole number from 1",
        ),
        ("\x00\x01", "is not the text of a network"),
    ],
)
def test_a_text_is_no_network(text: str, said: str, call: Call, tmp_path: Path) -> None:
    path = write(tmp_path, text, {"other": [A]})
    assert said in refused(call(str(path)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"no weights at all", "Caffe weights"),
        (field(1, b"net"), "holds no layer with weights"),
        (varint(100 << 3 | 2) + varint(2**40), "claims 1099511627776 bytes"),
        (field(100, field(1, b"c") + field(7, field(5, b"123"))), "the numbers at byte"),
        (
            field(
                100,
                field(1, b"c") + field(7, field(5, bytes(8)) + field(7, field(1, varint(2**62)))),
            ),
            "has 2 numbers in a shape of",
        ),
        (
            field(100, field(1, b"c") + field(7, field(7, field(1, bytes(99))))),
            "more than 32 sizes",
        ),
        (
            caffemodel({"c": [KERNEL[:1], random(2)]}),
            "blob 0 is 1x3x3x3 in the .caffemodel, 2x3x3x3 is needed",
        ),
        (caffemodel({"c": [KERNEL]}), "needs 2 blobs of weights, the .caffemodel has 1"),
    ],
)
def test_weights_are_damaged(data: bytes, said: str, call: Call, tmp_path: Path) -> None:
    path = write(tmp_path, TRAINED, {})
    path.with_suffix(".caffemodel").write_bytes(data)
    assert said in refused(call(str(path)))


def test_no_damage_is_a_traceback(tmp_path: Path) -> None:
    """Bytes of both files are cut off, changed and repeated; whatever comes of it is a network or a line."""
    path = write(tmp_path, TRAINED, {"c": [KERNEL, random(2)]})
    weights = path.with_suffix(".caffemodel")
    whole = {path: path.read_bytes(), weights: weights.read_bytes()}
    read = 0
    for trial in range(400):
        file = (path, weights)[trial % 2]
        data = bytearray(whole[file])
        at = int(RNG.integers(len(data)))
        kind = trial // 2 % 3
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] = int(RNG.integers(256))
        else:
            data[at:at] = data[at : at + int(RNG.integers(1, 40))]
        file.write_bytes(data)
        with suppress(ModelError):
            csdfgen.load(path)
            read += 1
        file.write_bytes(whole[file])
    assert 20 < read < 390
