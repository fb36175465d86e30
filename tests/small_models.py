"""Small ONNX models with seeded weights, for tests that need a whole network but not a large one."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.models import model as of_text

OPSET = 17


def weight(name: str, *shape: int, seed: int = 0) -> onnx.TensorProto:
    """Seeded He-scaled weights."""
    fan_in = max(1, int(np.prod(shape[1:])))
    values = np.random.default_rng((seed, *name.encode())).normal(0, (2 / fan_in) ** 0.5, shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int | str, ...]],
    outputs: list[str],
    weights: list[onnx.TensorProto],
    name: str = "small",
) -> onnx.ModelProto:
    """A model of float32 inputs with these shapes (a string is a free size)."""
    graph = helper.make_graph(
        nodes,
        name,
        [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, list(shape))
            for n, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def residual_classifier(
    height: int = 16, width: int = 12, classes: int = 7, batch: int | str = 1
) -> onnx.ModelProto:
    """Convolutions with a residual Add, a pool, and `classes` scores from a global pool: output
    'scores', (N, classes, 1, 1).
    """
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["a"], "add"),
        helper.make_node("MaxPool", ["a"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w3"], ["c3"], "conv3"),
        helper.make_node("GlobalAveragePool", ["c3"], ["scores"], "scores"),
    ]
    weights = [
        weight("w1", 8, 3, 3, 3),
        weight("b1", 8),
        weight("w2", 8, 8, 3, 3),
        weight("w3", classes, 8, 1, 1),
    ]
    return model(nodes, {"x": (batch, 3, height, width)}, ["scores"], weights, "residual")


def branched() -> onnx.ModelProto:
    """A convolution that two threads share, and two more or one behind it, by the sign of a mean."""
    return of_text(
        """branched (float[1,3,32,32] x) => (float[1,16,32,32] z) {
            a = Conv <pads = [1,1,1,1]> (x, first)
            mean = ReduceMean <axes = [1, 2, 3], keepdims = 0> (a)
            warm = Greater(mean, none)
            [choose] y = If (warm) <
                then_branch = t () => (t3) {
                    t1 = Conv <pads = [1,1,1,1]> (a, wide)
                    t2 = Relu(t1)
                    t3 = Conv <pads = [1,1,1,1]> (t2, wide)
                },
                else_branch = e () => (e2) { e1 = Conv (a, single)  e2 = Tanh(e1) }
            >
            z = Sigmoid(y)
        }""",
        {
            "first": np.random.default_rng(1).normal(size=(16, 3, 3, 3)).astype(np.float32),
            "wide": np.random.default_rng(2).normal(size=(16, 16, 3, 3)).astype(np.float32),
            "single": np.random.default_rng(3).normal(size=(16, 16, 1, 1)).astype(np.float32),
            "none": np.zeros((), np.float32),
        },
    )


def two_inputs() -> onnx.ModelProto:
    """The sum of two maps, and a convolution of it: inputs 'left' and 'right', outputs 'sum' and
    'y'.
    """
    nodes = [
        helper.make_node("Add", ["left", "right"], ["sum"], "add"),
        helper.make_node("Conv", ["sum", "w"], ["y"], "conv", pads=[1, 1, 1, 1]),
    ]
    shape = (1, 2, 6, 5)
    return model(
        nodes, {"left": shape, "right": shape}, ["sum", "y"], [weight("w", 3, 2, 3, 3)], "two"
    )


def squeeze_and_excite() -> onnx.ModelProto:
    """A map scaled by a gate that is computed from its mean: the map must be kept whole. Output
    'y'.
    """
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["m"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"], "squeeze"),
        helper.make_node("Conv", ["g", "w2"], ["e"], "excite"),
        helper.make_node("Sigmoid", ["e"], ["s"], "gate"),
        helper.make_node("Mul", ["m", "s"], ["z"], "scale"),
        helper.make_node("Conv", ["z", "w3"], ["y"], "head", strides=[2, 2]),
    ]
    weights = [weight("w1", 4, 3, 3, 3), weight("w2", 4, 4, 1, 1), weight("w3", 2, 4, 1, 1)]
    return model(nodes, {"x": (1, 3, 12, 8)}, ["y"], weights, "gate")
