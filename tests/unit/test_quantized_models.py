"""Quantized models: onnxruntime's outputs to the last bit, at every height; what a QDQ pattern becomes;
what is refused.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.registry import resolve_backend
from csdfgen.errors import CsdfgenError
from tests.builder import Graph
from tests.emitted import Program
from tests.models import model
from tests.native_steps import compiler_missing
from tests.networks import check_touched
from tests.quantized_models import FORMS, feeds_of, of_zoo, onnxruntime_outputs, quantized

NETWORKS = ("resnet8", "lenet5", "mobilenet_v1_x0_25@64x64", "squeezenet1_1@64x64")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_bit_for_bit(name: str, form: str) -> None:
    """At one row, at heights of our choice and whole; numpy, and native code where there is a compiler."""
    model = of_zoo(name, form)
    feeds = feeds_of(model)
    want = onnxruntime_outputs(model, feeds)
    network = csdfgen.load(model)
    for rows, backend in ((1, "numpy"), ("whole", "numpy"), ("auto", "auto")):
        plan = csdfgen.plan(network, rows=rows, backend=resolve_backend(backend))
        found, measured = runtime.compile(plan).measure(feeds)
        check_touched(plan, measured.touched_bytes)
        for output, array in want.items():
            np.testing.assert_array_equal(found[output], array, err_msg=f"{rows}, {backend}")


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize("name", NETWORKS)
def test_native_code_bit_for_bit(name: str) -> None:
    """At every height, and by every number of threads."""
    model = of_zoo(name, "QOperator")
    feeds = feeds_of(model)
    want = onnxruntime_outputs(model, feeds)
    network = csdfgen.load(model)
    for rows, threads in ((1, 1), ("auto", 2), ("whole", 1), ("whole", 3)):
        plan = csdfgen.plan(network, rows=rows, backend="native")
        found = runtime.compile(plan, threads=threads)(feeds)
        for output, array in want.items():
            np.testing.assert_array_equal(found[output], array, err_msg=f"{rows}, {threads}")


@pytest.mark.parametrize("form", FORMS)
def test_weights_and_rows_take_one_byte(form: str) -> None:
    """Both forms are the same integer layers; their weights are stored as the file has them."""
    network = csdfgen.load(of_zoo("squeezenet1_1@64x64", form))
    kinds = Counter(layer.op_type for layer in network.layers)
    assert kinds["QLinearConv"] == 26 and kinds["QLinearConcat"] == 8 and kinds["MaxPool"] == 3
    assert not kinds.keys() & {"Conv", "Concat", "GlobalAveragePool"}
    floats = [t.name for layer in network.layers for t in layer.outputs if t.dtype == "float32"]
    assert len(floats) == 1  # what the last DequantizeLinear makes
    whole = csdfgen.load("zoo:squeezenet1_1@64x64")
    assert network.parameter_bytes < 0.27 * whole.parameter_bytes
    sizes = [
        csdfgen.plan(n, rows=1, backend="numpy").figures["sum_of_tensors"] for n in (network, whole)
    ]
    assert sizes[0] < 0.3 * sizes[1]  # the image is float32 in both


def test_uint8_per_tensor() -> None:
    """Unsigned weights beside unsigned activations, which no processor saturates."""
    source = csdfgen_float()
    model = quantized(
        source, "QOperator", per_channel=False, activation_type="QUInt8", weight_type="QUInt8"
    )
    feeds = feeds_of(model)
    want = onnxruntime_outputs(model, feeds)
    for rows in (1, "whole"):
        found = runtime.compile(csdfgen.plan(csdfgen.load(model), rows=rows, backend="numpy"))(
            feeds
        )
        for name, array in want.items():
            np.testing.assert_array_equal(found[name], array)


def csdfgen_float() -> onnx.ModelProto:
    """A small float model with windows, a residual Add and scores."""
    g = Graph()
    x = g.input("x", (1, 3, 13, 11))
    a = g.node("Relu", g.conv(x, 8))
    b = g.node("Relu", g.node("Add", g.conv(a, 8), a))
    pooled = g.node("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2])
    return g.model(g.node("GlobalAveragePool", g.conv(pooled, 5, kernel=1)))


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_emitted_code(tmp_path: Path) -> None:
    """C source of a network in int8: the same bits."""
    model = quantized(csdfgen_float(), "QDQ")
    feeds = feeds_of(model)
    plan = csdfgen.plan(csdfgen.load(model), rows=2, backend="native")
    found = Program(plan, tmp_path)(feeds)
    for name, array in onnxruntime_outputs(model, feeds).items():
        np.testing.assert_array_equal(found[name], array)


def test_int16_activations() -> None:
    """Layers between QuantizeLinear and DequantizeLinear of 16 bits compute on values."""
    model = quantized(csdfgen_float(), "QDQ", activation_type="QInt16")
    feeds = feeds_of(model)
    found = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))(feeds)
    for name, array in onnxruntime_outputs(model, feeds).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-3)


def test_16_bits_in_an_older_opset() -> None:
    """Operators of onnxruntime's domain that mean those of ONNX from opset 21 on."""
    p = Pairs()
    y = p.pair("x", 0.0001, 100, "int16")
    for node in p.nodes:
        node.domain = "com.microsoft"
    model = p.model(y)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    feeds = feeds_of(model)
    (want,) = onnxruntime_outputs(model, feeds).values()
    (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))(feeds).values()
    np.testing.assert_array_equal(got, want)


# Patterns ----------------------------------------------------------------------------------------


class Pairs:
    """A QDQ model, tensor by tensor."""

    def __init__(self, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.opset, self._count = opset, 0

    def constant(self, array: Any) -> str:
        self._count += 1
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"c{self._count}"))
        return f"c{self._count}"

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        self._count += 1
        output = f"t{self._count}"
        self.nodes.append(
            helper.make_node(op_type, inputs, [output], f"{op_type}_{self._count}", **attributes)
        )
        return output

    def pair(self, x: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        """The tensor quantized and back."""
        numbers = self.constant(np.float32(scale)), self.constant(np.array(zero, dtype))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, *numbers), *numbers)

    def weight(self, shape: tuple[int, ...], scale: float = 0.01, axis: int | None = 0) -> str:
        rng = np.random.default_rng(len(self.weights))
        integers = self.constant(rng.integers(-127, 128, shape).astype(np.int8))
        if axis is None:
            return self.node("DequantizeLinear", integers, self.constant(np.float32(scale)))
        scales = (scale * rng.uniform(0.5, 1, shape[axis])).astype(np.float32)
        zeros = self.constant(np.zeros(shape[axis], np.int8))
        return self.node("DequantizeLinear", integers, self.constant(scales), zeros, axis=axis)

    def bias(self, size: int, scale: float) -> str:
        integers = np.random.default_rng(1).integers(-500, 500, size).astype(np.int32)
        return self.node(
            "DequantizeLinear", self.constant(integers), self.constant(np.float32(scale))
        )

    def model(self, output: str, shape: tuple[int, ...] = (1, 4, 9, 7)) -> onnx.ModelProto:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "pairs",
            [value("x", TensorProto.FLOAT, shape)],
            [value(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        # domains that nobody uses are no error
        imports = [("", self.opset), ("com.microsoft.nchwc", 1), ("org.pytorch.aten", 1)]
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid(*one) for one in imports], ir_version=9
        )


def conv(p: Pairs, x: str, *bias: str, **attributes: Any) -> str:
    return p.node("Conv", x, p.weight((6, 4, 3, 3)), *bias, pads=[1, 1, 1, 1], **attributes)


def kinds_of(model: onnx.ModelProto) -> Counter[str]:
    return Counter(layer.op_type for layer in csdfgen.load(model).layers)


PATTERNS = {
    "Conv": (conv, {"QLinearConv": 1}),
    "Relu behind": (lambda p, x: p.node("Relu", conv(p, x)), {"QLinearConv": 1, "Clip": 1}),
    "Clip behind": (
        lambda p, x: p.node(
            "Clip", conv(p, x), p.constant(np.float32(-0.5)), p.constant(np.float32(0.75))
        ),
        {"QLinearConv": 1, "Clip": 1},
    ),
    "Relu": (lambda p, x: p.node("Relu", x), {"QLinearLeakyRelu": 1}),
    "Add": (lambda p, x: p.node("Add", x, x), {"QLinearAdd": 1}),
    "Mul": (lambda p, x: p.node("Mul", x, p.weight((1, 4, 1, 1), axis=None)), {"QLinearMul": 1}),
    "Concat": (
        lambda p, x: p.node("Concat", x, p.pair("x", 0.04, 3), axis=1),
        {"QLinearConcat": 1},
    ),
    "Sigmoid": (lambda p, x: p.node("Sigmoid", x), {"QLinearSigmoid": 1}),
    "LeakyRelu": (lambda p, x: p.node("LeakyRelu", x, alpha=0.25), {"QLinearLeakyRelu": 1}),
    "AveragePool": (
        lambda p, x: p.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2]),
        {"QLinearAveragePool": 1},
    ),
    "GlobalAveragePool": (
        lambda p, x: p.node("GlobalAveragePool", x),
        {"QLinearGlobalAveragePool": 1},
    ),
    "Gemm": (
        lambda p, x: p.node("Gemm", p.node("Flatten", x), p.weight((252, 5), axis=1)),
        {"QGemm": 1, "Flatten": 1},  # which moves integers, though the file does not say so
    ),
    "MatMul": (lambda p, x: p.node("MatMul", x, p.weight((7, 5), axis=1)), {"QLinearMatMul": 1}),
    "float bias": (
        lambda p, x: conv(p, x, p.constant(np.linspace(-0.3, 0.4, 6, dtype=np.float32))),
        {"QLinearConv": 1},
    ),
    "Softmax": (lambda p, x: p.node("Softmax", x, axis=1), {"QLinearSoftmax": 1}),
}


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_patterns(name: str) -> None:
    """An integer layer each, equal to onnxruntime's whole model."""
    make, wanted = PATTERNS[name]
    p = Pairs()
    scale, zero = (1 / 256, -128) if name == "Softmax" else (0.02, -20)
    y = p.pair(make(p, p.pair("x", 0.011, 5)), scale, zero)
    model = p.model(y)
    found = kinds_of(model)
    assert {kind: found[kind] for kind in wanted} == wanted
    feeds = feeds_of(model)
    (want,) = onnxruntime_outputs(model, feeds).values()
    for rows in (1, "whole"):
        (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model), rows=rows, backend="numpy"))(
            feeds
        ).values()
        # onnxruntime has no integer form of an activation between: it may round a tie otherwise
        steps = np.rint(np.abs(got - want) / scale)
        assert steps.max() <= (1 if "behind" in name or name in ("Relu", "Gemm") else 0)


def test_what_moves_values_works_on_integers() -> None:
    """Where scale and zero point stay; else it works on values, slab by slab."""
    for scale, kinds in (
        (0.011, {"MaxPool": 1, "DequantizeLinear": 1}),
        (0.02, {"MaxPool": 1, "DequantizeLinear": 1}),
    ):
        p = Pairs()
        pooled = p.node("MaxPool", p.pair("x", 0.011, 5), kernel_shape=[2, 2])
        model = p.model(p.pair(pooled, scale, 5))
        found = kinds_of(model)
        assert {kind: found[kind] for kind in kinds} == kinds
        feeds = feeds_of(model)
        (want,) = onnxruntime_outputs(model, feeds).values()
        (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))(feeds).values()
        np.testing.assert_array_equal(got, want)


def test_padding_of_integers() -> None:
    """Zeros around are zero points; other values what they are quantized to."""
    for value in ((), (np.float32(0.5),)):
        p = Pairs()
        x = p.pair("x", 0.011, 5)
        pads = p.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1]))
        padded = p.node("Pad", x, pads, *(p.constant(v) for v in value))
        model = p.model(p.pair(padded, 0.011, 5))
        assert kinds_of(model) == {"QuantizeLinear": 1, "Pad": 1, "DequantizeLinear": 1}
        feeds = feeds_of(model)
        (want,) = onnxruntime_outputs(model, feeds).values()
        (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))(feeds).values()
        np.testing.assert_array_equal(got, want)


def test_a_result_that_is_read_twice_stays_float() -> None:
    p = Pairs()
    y = conv(p, p.pair("x", 0.011, 5))
    model = p.model(p.node("Add", p.pair(y, 0.02, -20), y))
    assert kinds_of(model)["Conv"] == 1
    feeds = feeds_of(model)
    (want,) = onnxruntime_outputs(model, feeds).values()
    (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))(feeds).values()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_a_range_of_no_width_is_one_number() -> None:
    """A calibrated range of zero width has some scale, and is legal."""
    p = Pairs()
    model = p.model(p.pair(conv(p, p.pair("x", 1e-30, 0)), 1e-30, 0))
    feeds = feeds_of(model)
    (want,) = onnxruntime_outputs(model, feeds).values()
    (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))(feeds).values()
    np.testing.assert_array_equal(got, want)


# Refusals ----------------------------------------------------------------------------------------


def qlinear_conv(**changes: Any) -> onnx.ModelProto:
    """A QLinearConv with some of its operands changed; None: computed at run time."""
    operands: dict[str, Any] = {
        "x_scale": np.float32(0.02),
        "x_zero": np.int8(3),
        "w": np.ones((2, 4, 1, 1), np.int8),
        "w_scale": np.full(2, 0.01, np.float32),
        "w_zero": np.zeros(2, np.int8),
        "y_scale": np.float32(0.1),
        "y_zero": np.int8(0),
        "b": np.zeros(2, np.int32),
        **changes,
    }
    p = Pairs()
    p.node("QuantizeLinear", "x", p.constant(np.float32(0.02)), p.constant(np.int8(3)))
    quantized_x = p.nodes[-1].output[0]
    names = [
        quantized_x if array is None else p.constant(np.asarray(array))
        for array in operands.values()
    ]
    y = p.node("QLinearConv", quantized_x, *names)
    model = p.model(y)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    return model


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x_scale": np.float32(0)}, "the scale of the input is 0, it must be above 0"),
        ({"w_scale": np.array([0.1, -1], np.float32)}, "the scale of the weight is -1, it must be above 0"),
        ({"y_scale": np.float32("nan")}, "the scale of the output is nan"),
        ({"x_zero": np.uint8(3)}, "input 0 is int8 and input 2 is uint8"),
        ({"y_zero": np.zeros(3, np.int8)}, "the zero point of the output has shape (3,)"),
        ({"w_scale": np.ones(5, np.float32)}, "the scale of the weight has shape (5,); 1 value or 2"),
        ({"w": None}, "input 3 is computed at run time"),
        ({"b": np.zeros(2, np.float32)}, "input 8 is float32"),
        ({"b": np.zeros(3, np.int32)}, "bias of shape (3,) for 2 output channels"),
    ],
)  # fmt: skip
def test_refusals_of_a_quantized_convolution(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(CsdfgenError) as caught:
        csdfgen.load(qlinear_conv(**changes))
    message = str(caught.value)
    assert said in message and "QLinearConv" in message and len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("product", "said"),
    [
        ("MatMulInteger(a, b, zero, three)", "the zero point of input b is uint8 of shape (3,)"),
        ("QLinearMatMul(a, scale, zero, b, scales, four, scale, zero)", "scales of its own for each column"),
    ],
)  # fmt: skip
def test_refusals_of_a_product_of_two_activations(product: str, said: str) -> None:
    """A zero point or scale for each column is for as many columns, of constants."""
    constants = {"zero": np.uint8(3), "three": np.zeros(3, np.uint8), "four": np.zeros(4, np.uint8)}
    scales = {"scale": np.array(0.5, np.float32), "scales": np.ones(4, np.float32)}
    with pytest.raises(CsdfgenError) as caught:
        csdfgen.load(
            model(f"g (uint8[2,5] a, uint8[5,4] b) => (y) {{ y = {product} }}", constants | scales)
        )
    assert said in str(caught.value)


@pytest.mark.parametrize("operands", [(), ("w",), ("x", "w", "b", "b", "b")])
def test_damaged_nodes_in_a_pattern(operands: tuple[str, ...]) -> None:
    """One line, from the operator that is damaged."""
    p = Pairs()
    names = {"x": p.pair("x", 0.011), "w": p.weight((6, 4, 1, 1)), "b": p.bias(6, 0.1)}
    y = p.node("Conv", *(names[one] for one in operands))
    with pytest.raises(CsdfgenError) as caught:
        csdfgen.load(p.model(p.pair(y, 0.02)))
    assert "(Conv)" in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_a_bias_scale_that_is_not_the_product() -> None:
    p = Pairs()
    x = p.pair("x", 0.011, 5)
    weight = p.weight((6, 4, 1, 1), axis=None)
    y = p.node("Conv", x, weight, p.bias(6, 0.5))
    with pytest.raises(
        CsdfgenError, match=r"layer 'Conv_\d+' \(Conv\): the scale of its bias is 0.5, that of input times weight 0.00011"
    ):  # fmt: skip
        csdfgen.load(p.model(p.pair(y, 0.02)))


def test_element_types_that_are_not_supported() -> None:
    p, name = Pairs(opset=21), "float8e4m3fn"
    integers = helper.make_tensor("four", TensorProto.FLOAT8E4M3FN, (2,), b"\x12\x13", raw=True)
    p.weights.append(integers)
    scale = p.constant(np.float32(0.1))
    y = p.node("Add", "x", p.node("DequantizeLinear", "four", scale))
    with pytest.raises(CsdfgenError) as caught:
        csdfgen.load(p.model(y, (1, 2)))
    message = str(caught.value)
    assert f"element type {name} is not supported" in message and len(message.splitlines()) == 1
