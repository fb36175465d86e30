"""Convolutions and pools of three axes, whose rows are frames: both backends compute what onnxruntime does, at
any number of frames a phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.planning.plan import Plan
from tests.builder import Graph, reference
from tests.lowered import shared_kernels
from tests.native_steps import compiler_missing
from tests.quantized_models import FORMS, feeds_of, onnxruntime_outputs, quantized

HEIGHTS = (1, 2, "whole")

BACKENDS = [
    "numpy",
    pytest.param(
        "native",
        marks=pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
    ),
]


def convolved(
    g: Graph, x: str, out: int, kernel: Sequence[int], group: int = 1, **given: Any
) -> str:
    """A convolution with He's weights and a bias."""
    per_group = g.channels[x] // group
    shape = (out, per_group, *kernel)
    weight = g.rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)
    bias = g.rng.normal(0, 0.1, out).astype(np.float32)
    operands = g.constant(weight), g.constant(bias)
    return g.node("Conv", x, *operands, channels=out, group=group, **given)


def layers(seed: int) -> onnx.ModelProto:
    """A convolution and a pool with any windows: kernels, strides, dilations, pads at either side."""
    g = Graph(seed)
    number = g.rng.integers
    group = int(g.rng.choice([1, 1, 2, 6]))
    channels = 6 if group == 6 else group * int(number(1, 30))
    x = g.input("x", (1, channels, *(int(n) for n in number(9, 13, 3))))
    kernel = [int(k) for k in number(1, 4, 3)]
    out = group * int(number(1, 5)) if group == 6 else group * int(number(1, 20))
    given = {
        "strides": [int(n) for n in number(1, 3, 3)],
        "dilations": [int(n) for n in number(1, 3, 3)],
        "pads": [int(n) for n in number(0, 3, 6)],
    }
    y = g.node("Relu", convolved(g, x, out, kernel, group, **given))
    pool = [int(k) for k in number(1, 3, 3)]
    pads = [int(number(0, k)) for k in (*pool, *pool)]
    windows = {"kernel_shape": pool, "strides": [int(n) for n in number(1, 3, 3)], "pads": pads}
    if seed % 2:
        return g.model(g.node("MaxPool", y, **windows))
    return g.model(g.node("AveragePool", y, count_include_pad=seed // 2 % 2, **windows))


def network(classes: int = 5, size: tuple[int, int, int] = (6, 13, 10)) -> onnx.ModelProto:
    """Branches that are joined and added, a depthwise layer, a whole clip that becomes one vector, and a
    convolution whose window is all frames.
    """
    g = Graph(3)
    x = g.input("x", (1, 3, *size))
    a = g.node("Relu", convolved(g, x, 20, (3, 3, 3), pads=[1] * 6))
    b = g.batch_normalization(convolved(g, a, 20, (3, 3, 3), 20, pads=[1] * 6))
    c = g.node("Add", a, g.node("LeakyRelu", b, alpha=0.1))
    d = g.node("Concat", c, convolved(g, a, 12, (1, 1, 1)), axis=1, channels=32)
    e = g.node("MaxPool", d, kernel_shape=[1, 2, 2], strides=[1, 2, 2])
    f = g.node("Relu", convolved(g, e, 24, (3, 1, 1), pads=[1, 0, 0, 1, 0, 0]))
    all_frames = convolved(g, f, 7, (size[0], 3, 3))
    flat = g.node("Flatten", g.node("GlobalAveragePool", f))
    weight = g.constant(g.rng.normal(0, 1, (24, classes)).astype(np.float32))
    return g.model(g.node("Softmax", g.node("Gemm", flat, weight)), all_frames)


def plans(model: onnx.ModelProto, backend: str) -> list[Plan]:
    net = csdfgen.load(model)
    return [csdfgen.plan(net, rows=rows, backend=backend) for rows in HEIGHTS]


def check(model: onnx.ModelProto, backend: str) -> None:
    given = model.graph.input[0].type.tensor_type.shape.dim
    x = np.random.default_rng(1).uniform(-1, 1, [d.dim_value for d in given]).astype(np.float32)
    wanted = reference(model, {"x": x})
    for plan in plans(model, backend):
        found = runtime.run(plan, x)
        for name, want in wanted.items():
            np.testing.assert_allclose(
                found[name], want, rtol=1e-3, atol=1e-5, err_msg=f"{name} at {plan.options.rows}"
            )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(24))
def test_layers_of_three_axes_are_onnxruntime_s(seed: int, backend: str) -> None:
    check(layers(seed), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_network_of_three_axes_is_onnxruntime_s(backend: str) -> None:
    check(network(), backend)


def test_frames_are_rows() -> None:
    """Few of them are there at a time, and each phase makes one."""
    plan = csdfgen.plan(csdfgen.load(network(size=(12, 13, 10))), rows=1, backend="numpy")
    assert plan.network.inputs[0].row_axis == 2
    assert plan.network.inputs[0].rows == 12
    assert plan.figures["arena"] < plan.figures["whole_layer_live"] / 2


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_threads_share_frames() -> None:
    """Results are those of one thread to the last bit; frames of padding are nobody's part."""
    g = Graph(7)
    x = g.input("x", (1, 64, 4, 16, 40))
    a = g.node("Relu", convolved(g, x, 64, (3, 3, 3), pads=[1] * 6))
    b = g.node("MaxPool", a, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    model = g.model(g.node("Relu", convolved(g, b, 128, (2, 3, 3), strides=[1, 2, 2])))
    plan = csdfgen.plan(csdfgen.load(model), backend="native")
    feeds = g.feeds()
    (want,) = runtime.compile(plan)(feeds).values()
    for threads in (2, 3):
        together = runtime.compile(plan, threads=threads)
        shared = shared_kernels(together._bound.program, threads)
        assert "pool_of" in shared and shared & {"conv_of", "winograd_of", "winograd_row_of"}
        (got,) = together(feeds).values()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", FORMS)
def test_integers_of_three_axes_are_onnxruntime_s(form: str, backend: str) -> None:
    """Bit for bit, grouped and depthwise layers and pools of bytes among them."""
    model = quantized(integers(), form)
    feeds = feeds_of(model)
    wanted = onnxruntime_outputs(model, feeds)
    kinds = {layer.op_type for layer in csdfgen.load(model).layers}
    assert {"QLinearConv", "MaxPool"} <= kinds and "Conv" not in kinds
    for plan in plans(model, backend):
        found = runtime.run(plan, feeds)
        for name, want in wanted.items():
            np.testing.assert_array_equal(found[name], want, err_msg=str(plan.options.rows))


def integers() -> onnx.ModelProto:
    """What is quantized in all its layers."""
    g = Graph(5)
    x = g.input("x", (1, 3, 7, 13, 10))
    a = g.node("Relu", convolved(g, x, 20, (3, 3, 3), pads=[1] * 6))
    b = convolved(g, a, 20, (3, 3, 3), 20, pads=[1, 1, 1, 1, 1, 1], strides=[1, 2, 1])
    c = g.node("MaxPool", b, kernel_shape=[2, 2, 2], strides=[2, 1, 1], pads=[0, 1, 0, 1, 0, 1])
    d = convolved(g, c, 12, (2, 3, 1), 4, dilations=[1, 2, 1])
    e = g.node("AveragePool", d, kernel_shape=[2, 1, 2])
    return g.model(g.node("GlobalAveragePool", e))
