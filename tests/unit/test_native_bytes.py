"""Kernels of bytes: numpy's integers, whatever the types, zero points, windows and heights; and that they
compute what they are meant for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

import csdfgen
import runtime
from csdfgen.backends.native.families import AS_ESTIMATED, match_family
from csdfgen.backends.native.families.byte_products import ByteConvolution, Operands
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

TYPES = {
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "float32": TensorProto.FLOAT,
}


class Case:
    """A model of one layer of bytes x."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array: Any) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def bytes_of(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def scale(self, value: float) -> str:
        return self.constant(np.float32(value))

    def model(
        self, node: onnx.NodeProto, x: tuple[str, tuple[int, ...]], y: tuple[str, tuple[int, ...]]
    ) -> onnx.ModelProto:
        zero = [helper.make_tensor_value_info("zero", TYPES[x[0]], ())] * ("zero" in node.input)
        graph = helper.make_graph(
            [node],
            "layer",
            [helper.make_tensor_value_info("x", TYPES[x[0]], x[1]), *zero],
            [helper.make_tensor_value_info("y", TYPES[y[0]], y[1])],
            self.weights,
        )
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9)


def check(model: onnx.ModelProto, x: np.ndarray, *, native: bool = True, **others: Any) -> None:
    """The same numbers by numpy and by native code, at one row, at two and whole. native: whether a kernel
    of its own computes it. others: inputs beside x.
    """
    network = csdfgen.load(model)
    (layer,) = network.layers
    assert (match_family(layer, AS_ESTIMATED) is not None) == native
    given = {"x": x, **others}
    want = runtime.compile(csdfgen.plan(network, rows="whole", backend="numpy"))(given)["y"]
    for rows in (1, 2, "whole"):
        plan = csdfgen.plan(network, rows=rows, backend="native")
        np.testing.assert_array_equal(runtime.compile(plan)(given)["y"], want, err_msg=str(rows))


CONVOLUTIONS = {
    "few channels": (5, 9, 1, 3, 1, 1, 1),
    "two groups, stride": (8, 12, 2, 3, 2, 1, 1),
    "depthwise, dilated": (6, 6, 6, 3, 1, 2, 2),
    "depthwise, 40 channels": (40, 40, 40, 5, 2, 1, 2),
    "depthwise, 24 channels, two rows see the same lines": (24, 24, 24, 3, 1, 1, 1),
    "depthwise, 96 channels, eight lines": (96, 96, 96, 5, 1, 1, 2),
    "depthwise, no line is left for a second row": (33, 33, 33, 4, 1, 1, 1),
    "depthwise, windows that reach far": (18, 18, 18, 7, 1, 3, 9),
    "two outputs a channel": (4, 8, 4, 3, 1, 1, 1),
    "one pixel": (17, 33, 1, 1, 1, 1, 0),
    "one pixel, padded": (12, 20, 1, 1, 1, 1, 1),
    "one pixel, stride": (32, 20, 1, 1, 2, 1, 0),
    "channels in parts": (700, 20, 1, 3, 1, 1, 1),
    "odd channels": (35, 70, 1, 3, 1, 1, 1),
    "a window as large as the map": (3, 16, 1, 13, 1, 1, 6),
    "one row of all": (19, 33, 1, 13, 1, 1, 0),
    "one row, stride, lines that none reads": (8, 12, 2, 11, 3, 1, 0),
    "one row, depthwise": (40, 40, 40, 13, 1, 1, 0),
    "one row, depthwise, dilated": (24, 24, 24, 3, 1, 6, 0),
}
"""Name -> input, output channels, groups, kernel, stride, dilation, padding."""


@pytest.mark.parametrize("types", ["int8 int8", "uint8 int8", "int8 uint8", "uint8 uint8"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, types: str) -> None:
    ins, outs, group, kernel, stride, dilation, pad = CONVOLUTIONS[name]
    of_x, of_weights = types.split()
    side = 13
    made = (side + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    settings = {
        "group": group,
        "strides": [stride] * 2,
        "dilations": [dilation] * 2,
        "pads": [pad] * 4,
    }
    for zero in (0, 90):
        case = Case()
        weights = case.constant(case.bytes_of(of_weights, (outs, ins // group, kernel, kernel)))
        x_zero = case.constant(np.array(7, of_x))
        w_zero = case.constant(np.full(outs, zero, of_weights))
        x = case.bytes_of(of_x, (1, ins, side, side))
        summed = helper.make_node(
            "ConvInteger",
            ["x", weights, x_zero, w_zero],
            ["y"],
            kernel_shape=[kernel, kernel],
            **settings,
        )
        shape = 1, outs, made, made
        check(case.model(summed, (of_x, x.shape), ("int32", shape)), x)
        summed.input[2] = "zero"
        for one in (np.iinfo(of_x).min, 7):
            check(
                case.model(summed, (of_x, x.shape), ("int32", shape)), x, zero=np.array(one, of_x)
            )
        rescaled = helper.make_node(
            "QLinearConv",
            [
                "x",
                case.scale(0.02),
                x_zero,
                weights,
                case.constant(case.rng.uniform(0.01, 0.02, outs).astype(np.float32)),
                w_zero,
                case.scale(0.5),
                case.constant(np.array(3, of_x)),
                case.constant(case.rng.integers(-9999, 9999, outs).astype(np.int32)),
            ],
            ["y"],
            kernel_shape=[kernel, kernel],
            **settings,
        )
        check(case.model(rescaled, (of_x, x.shape), (of_x, shape)), x)


def test_a_group_reads_its_own_channels() -> None:
    case = Case()
    weights = case.constant(case.bytes_of("int8", (12, 4, 3, 3)))
    x = case.bytes_of("int8", (1, 8, 6, 5))
    node = helper.make_node("ConvInteger", ["x", weights], ["y"], group=2)
    check(case.model(node, ("int8", x.shape), ("int32", (1, 12, 4, 3))), x)


@pytest.mark.parametrize("types", ["int8 int8", "uint8 int8", "int8 uint8", "uint8 uint8"])
@pytest.mark.parametrize("sizes", [(5, 40, 7), (3, 3000, 33), (1, 1280, 100)])
def test_products(sizes: tuple[int, int, int], types: str) -> None:
    of_x, of_weights = types.split()
    rows, inputs, outputs = sizes
    case = Case()
    x = case.bytes_of(of_x, (rows, inputs))
    weights = case.constant(case.bytes_of(of_weights, (inputs, outputs)))
    zeros = case.constant(np.array(7, of_x)), case.constant(np.array(100, of_weights))
    summed = helper.make_node("MatMulInteger", ["x", weights, *zeros], ["y"])
    shape = rows, outputs
    check(case.model(summed, (of_x, x.shape), ("int32", shape)), x)
    summed.input[2] = "zero"
    for one in (np.iinfo(of_x).min, 7):
        check(case.model(summed, (of_x, x.shape), ("int32", shape)), x, zero=np.array(one, of_x))
    operands = ["x", case.scale(0.02), zeros[0], weights, case.scale(0.01), zeros[1]]
    made = [case.scale(0.5), case.constant(np.array(3, of_x))]
    bias = case.constant(case.rng.integers(-9999, 9999, outputs).astype(np.int32))
    for node, dtype in (
        (helper.make_node("QLinearMatMul", [*operands, *made], ["y"]), of_x),
        (helper.make_node("QGemm", [*operands, bias, *made], ["y"], domain="com.microsoft"), of_x),
        (
            helper.make_node("QGemm", [*operands, bias], ["y"], domain="com.microsoft", alpha=0.5),
            "float32",
        ),
    ):
        check(case.model(node, (of_x, x.shape), (dtype, shape)), x)


@pytest.mark.parametrize("shape", [(13, 128), (2, 3, 500), (1, 1, 3000)])
def test_scratch_of_what_is_quantized_by_its_range_is_for_a_part(shape: tuple[int, ...]) -> None:
    """Small networks took more memory than whole layers: the scratch was as large as what is read."""
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "point"])
    outputs = [
        helper.make_tensor_value_info(name, kind, form)
        for name, kind, form in (
            ("q", TensorProto.UINT8, shape),
            ("scale", TensorProto.FLOAT, ()),
            ("point", TensorProto.UINT8, ()),
        )
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph([node], "range", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    network = csdfgen.load(model)
    x = np.random.default_rng(0).normal(0.5, 1, shape).astype(np.float32)
    want = InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for backend in ("numpy", "native"):
        plan = csdfgen.plan(network, backend=backend)
        assert plan.figures["workspace"] <= x.nbytes // 2
        for name, array in zip(("q", "scale", "point"), want, strict=True):
            np.testing.assert_array_equal(runtime.compile(plan)({"x": x})[name], array)


@pytest.mark.parametrize("shape", [(6, 40), (1, 6, 40), (6, 1, 40)])
def test_products_of_what_is_quantized_by_its_range(shape: tuple[int, ...]) -> None:
    """As onnxruntime's quantize_dynamic writes them: bytes in one row, with a zero point that is computed."""
    case = Case()
    x = case.rng.normal(0.5, 1, shape).astype(np.float32)
    weights = case.constant(case.bytes_of("int8", (40, 37)))
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "point"]),
        helper.make_node("MatMulInteger", ["q", weights, "point"], ["y"]),
    ]
    made = (*shape[:-1], 37)
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, made)],
        case.weights,
    )
    network = csdfgen.load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    )
    assert match_family(network.layers[-1], AS_ESTIMATED) is not None
    want = runtime.compile(csdfgen.plan(network, rows="whole", backend="numpy"))({"x": x})["y"]
    for rows in (1, 2, "whole"):
        plan = csdfgen.plan(network, rows=rows, backend="native")
        np.testing.assert_array_equal(runtime.compile(plan)({"x": x})["y"], want, err_msg=str(rows))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [1, 5, 16, 37])
def test_maps(channels: int, dtype: str) -> None:
    """Sums and products with constants and with itself, functions, from and to floats."""
    shape = 1, channels, 9, 7
    for op_type, attributes in (
        ("QLinearAdd", {}),
        ("QLinearMul", {}),
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.3}),
        ("QLinearGlobalAveragePool", {}),
    ):
        for other in ((), (1,), (1, channels, 1, 1)):
            case = Case()
            x = case.bytes_of(dtype, shape)
            operands = ["x", case.scale(0.02), case.constant(np.array(5, dtype))]
            if op_type in ("QLinearAdd", "QLinearMul"):
                second = case.constant(case.bytes_of(dtype, other)) if other else "x"
                operands += [second, case.scale(0.0137), case.constant(np.array(9, dtype))]
            operands += [case.scale(0.031), case.constant(np.array(3, dtype))]
            node = helper.make_node(op_type, operands, ["y"], domain="com.microsoft", **attributes)
            average = op_type == "QLinearGlobalAveragePool"
            made = (1, channels, 1, 1) if average else shape
            check(case.model(node, (dtype, shape), (dtype, made)), x)
    case = Case()
    x = case.bytes_of(dtype, shape)
    scale, zero = case.scale(0.0371), case.constant(np.array(11, dtype))
    back = helper.make_node("DequantizeLinear", ["x", scale, zero], ["y"])
    check(case.model(back, (dtype, shape), ("float32", shape)), x)
    to = helper.make_node("QuantizeLinear", ["x", scale, zero], ["y"])
    values = case.rng.normal(0, 3, shape).astype(np.float32)
    values.reshape(-1)[:4] = [np.inf, -np.inf, 0.0371 * 2.5, -0.0371 * 0.5]
    check(case.model(to, ("float32", shape), (dtype, shape)), values)
    pooled = helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 0]
    )
    check(case.model(pooled, (dtype, shape), (dtype, (1, channels, 5, 7))), x)


def test_sums_that_are_too_large_are_no_bytes() -> None:
    """Of 32 bits: then other code computes."""
    weights = np.full((2, 140_000, 1, 1), 127, np.int16)
    assert Operands.of(weights, np.zeros(2, np.int64), 0) is None
    assert Operands.of(weights[:, :130_000], np.zeros(2, np.int64), 0) is not None


def test_weights_further_apart_than_bytes_are() -> None:
    """Less their zero points they are moved to bytes, and the inputs' sum says by how much."""
    weights = np.array([[200, -55, 3], [1, 2, 3]], np.int16).reshape(2, 3, 1, 1)
    found = Operands.of(weights, np.array([10, 20]), 4)
    assert found is not None and found.zeros is not None
    x = np.array([7, -128, 127])
    moved = found.weights.reshape(2, 3).astype(np.int64)
    sums = found.bias[0] + moved @ x - found.zeros * x.sum()
    np.testing.assert_array_equal(sums, weights.reshape(2, 3) @ (x - 4) + [10, 20])
    larger = found.bias[1] + moved @ (x + 128) - found.zeros * (x + 128).sum()
    np.testing.assert_array_equal(larger, sums)


def test_a_convolution_behind_a_range_of_all_rows_has_the_kernel_of_bytes() -> None:
    case = Case()
    made = ["q", "scale", "zero"]
    weights = case.constant(case.bytes_of("uint8", (5, 3, 3, 3)))
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], made),
        helper.make_node(
            "ConvInteger", ["q", weights, "zero", case.constant(np.uint8(121))], ["y"]
        ),
    ]
    ends = [
        helper.make_tensor_value_info(name, TYPES[dtype], shape)
        for name, dtype, shape in (("x", "float32", (1, 3, 9, 8)), ("y", "int32", (1, 5, 7, 6)))
    ]
    graph = helper.make_graph(nodes, "range", ends[:1], ends[1:], case.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    network = csdfgen.load(model)
    (conv,) = (layer for layer in network.layers if layer.op_type == "ConvInteger")
    assert isinstance(match_family(conv), ByteConvolution)
    x = case.rng.standard_normal((1, 3, 9, 8)).astype(np.float32)
    (wanted,) = InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(csdfgen.compile(csdfgen.plan(network))(x)["y"], wanted)
