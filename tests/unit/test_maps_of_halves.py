"""Pools, elementwise layers, normalizations and products of two maps of bfloat16 and float16: float32's results, rounded
once, to the bit, whatever the slabs, the threads and the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import csdfgen
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.library import load
from csdfgen.backends.native.structures import type_suffix
from csdfgen.lowering.program import lower
from runtime.session import Executable
from tests.native_steps import MACHINES, compiler_missing, on_each_machine
from tests.unit.test_bfloat16 import graph_of

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

Layer = tuple[str, dict[str, Any], tuple[int, ...] | None]


def of(kind: str, shape: tuple[int, ...] | None = None, /, **attributes: Any) -> Layer:
    """shape: of a constant operand."""
    return kind, attributes, shape


POOLS = {
    "greatest": of("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "pairs": of("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "overlapping": of("MaxPool", kernel_shape=[5, 4], pads=[2, 1, 2, 2]),
    "many": of("MaxPool", kernel_shape=[11, 9], pads=[5, 4, 5, 4]),
    "apart": of("MaxPool", kernel_shape=[3, 2], dilations=[2, 3]),
    "average": of("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "counted": of("AveragePool", kernel_shape=[3, 2], strides=[2, 1], count_include_pad=1),
    "wide": of("AveragePool", kernel_shape=[7, 9], pads=[3, 4, 3, 4]),
}
MAPS = {
    "relu": of("Relu"),
    "leaky": of("LeakyRelu", alpha=0.3),
    "sigmoid": of("Sigmoid"),
    "hard swish": of("HardSwish"),
    "gelu": of("Gelu"),
    "one number": of("Mul", (1,)),
    "one a channel": of("Sub", (0, 1, 1)),
    "slopes": of("PRelu", (0, 1, 1)),
    "two maps": of("Add"),
    "batch": of("BatchNormalization", (0,)),
}
NORMALIZATIONS = {"instance": of("InstanceNormalization", (0,))}
LOOPS = {
    "absolute": of("Abs"),
    "negative": of("Neg"),
    "exp": of("Exp"),
    "reciprocal": of("Reciprocal"),
    "add": of("Add", (0, 17, 13)),
    "multiply": of("Mul", (0, 17, 1)),
}
WORDS = {"instance": "standardize"}
KINDS = POOLS | MAPS | NORMALIZATIONS | LOOPS
FORMS = pytest.mark.parametrize("form", ["bfloat16", "float16"])


def model_of(
    form: str, layer: Layer, shape: tuple[int, ...], values: np.ndarray
) -> onnx.ModelProto:
    """The layer, with its input as other operand if it takes two, and a Clip behind what has one in its kernel."""
    kind, attributes, constant = layer
    two = kind == "Add" and not constant
    clipped = two or "Pool" in kind or constant in ((1,), (0, 1, 1))
    parameters = {"BatchNormalization": 4, "InstanceNormalization": 2}.get(kind, 1)
    given = ["x", *["x"] * two, *["w"] * (parameters if constant else 0)]
    nodes = [helper.make_node(kind, given, ["c" if clipped else "y"], **attributes)]
    if clipped:
        nodes.append(helper.make_node("Clip", ["c", "low", "high"], ["y"]))
    name = getattr(TensorProto, form.upper() if form != "float32" else "FLOAT")
    numbers = {"low": np.array(-1, form), "high": np.array(3.5, form)} if clipped else {}
    if constant:
        numbers["w"] = values.astype(form)
    return graph_of(nodes, shape, name, name, numbers)


@FORMS
@on_each_machine
@pytest.mark.parametrize("channels", [3, 37, 64])
@pytest.mark.parametrize("name", KINDS)
def test_bits_are_those_of_rounded_float32(
    name: str, channels: int, machine: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 100)
    layer, shape = KINDS[name], (2, channels, 17, 13)
    rng = np.random.default_rng(channels)
    x = rng.standard_normal(shape).astype(form)
    x[0, 0, 3, 3], x[1, -1, 4, 4] = np.inf, np.nan
    size = tuple(n or channels for n in layer[2] or ())
    values = rng.standard_normal(size).astype(form).astype(np.float32)
    values = np.abs(values) if name == "batch" else values
    kernels = NativeKernels(load(MACHINES[machine]))
    wide = csdfgen.load(model_of("float32", layer, shape, values))
    plan = csdfgen.plan(wide, backend="native", kernels=kernels)
    want = Executable(plan, kernels=kernels)({"x": x.astype(np.float32)})["y"].astype(form)
    assert len(np.unique(want.view(np.uint16))) > 10
    network = csdfgen.load(model_of(form, layer, shape, values))
    for rows in (1, 3, "whole"):
        plan = csdfgen.plan(network, rows=rows, backend="native", kernels=kernels)
        made = {one.kernel for one in lower(plan, kernels).instructions}
        words = dict.fromkeys(POOLS, "pool") | dict.fromkeys(MAPS, "map") | WORDS
        kernel = f"{words.get(name, name)}_{type_suffix(np.dtype(form))}"
        assert kernel + "_of" * (name not in LOOPS) in made, made
        for threads in (1, 2):
            y = Executable(plan, kernels=kernels, threads=threads)({"x": x})["y"]
            np.testing.assert_array_equal(y.astype(np.float32), want.astype(np.float32))


@FORMS
@on_each_machine
def test_lines_and_a_divisor_of_several_rows(machine: str, form: str) -> None:
    """The divisor is widened once for all rows that it meets."""
    x = np.random.default_rng(0).standard_normal((1, 6, 77)).astype(form)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "w"], ["n"], axis=-1),
        helper.make_node("ReduceMax", ["n", "axes"], ["m"]),
        helper.make_node("Div", ["n", "m"], ["y"]),
    ]
    kernels, found = NativeKernels(load(MACHINES[machine])), []
    for one in ("float32", form):
        name = getattr(TensorProto, one.upper() if one != "float32" else "FLOAT")
        constants = {"w": x[0, 0].astype(one), "axes": np.array([2])}
        network = csdfgen.load(graph_of(nodes, x.shape, name, name, constants))
        for backend in ("numpy", "native"):
            chosen = kernels if backend == "native" else None
            plan = csdfgen.plan(network, backend=backend, kernels=chosen)
            made = Executable(plan, kernels=chosen)({"x": x.astype(one)})["y"]
            found.append(made.astype(np.float64))
    assert f"normalize_{type_suffix(np.dtype(form))}_of" in {
        step.kernel for step in lower(plan, kernels).instructions
    }
    for y in found:
        np.testing.assert_allclose(y, found[0], rtol=0.02, atol=0.02)


@FORMS
@on_each_machine
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_two_matrices(
    turned: bool, heads: int, machine: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose right operand's rows, or columns, are side by side."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 100)
    x = np.random.default_rng(heads).standard_normal((1, heads, 45, 45)).astype(form)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["x", "t" if turned else "x"], ["y"]),
    ]
    kernels, found = NativeKernels(load(MACHINES[machine])), []
    for one, rows in (("float32", 1), (form, 1), (form, 3), (form, "whole")):
        name = getattr(TensorProto, one.upper() if one != "float32" else "FLOAT")
        network = csdfgen.load(graph_of(nodes, x.shape, name, name))
        plan = csdfgen.plan(network, rows=rows, backend="native", kernels=kernels)
        made = {step.kernel for step in lower(plan, kernels).instructions}
        narrow = f"matrices_{type_suffix(np.dtype(form))}_of"
        assert (narrow if one == form else "multiply_of") in made, made
        for threads in (1, 2):
            y = Executable(plan, kernels=kernels, threads=threads)({"x": x.astype(one)})["y"]
            found.append(y.astype(form).astype(np.float32))
    for y in found[1:]:
        np.testing.assert_array_equal(y, found[0])


@pytest.mark.parametrize("function", ["Neg", "Sign", "Sqrt", "Floor"])
@pytest.mark.parametrize("made", [TensorProto.BFLOAT16, TensorProto.FLOAT16])
@pytest.mark.parametrize("given", ["float32", "float64", "float16", "int32", "int16"])
def test_a_cast_in_front_of_functions_of_two_bytes(given: str, made: int, function: str) -> None:
    x = np.random.default_rng(0).normal(0, 5, (1, 3, 5, 7)).astype(given)
    declared = helper.np_dtype_to_tensor_dtype(x.dtype)
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=made),
        helper.make_node(function, ["y"], ["z"]),
    ]
    ends = [
        helper.make_tensor_value_info(*one)
        for one in (("x", declared, x.shape), ("z", made, x.shape))
    ]
    made_of = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    network = csdfgen.load(helper.make_model(made_of, opset_imports=[helper.make_opsetid("", 21)]))
    found = [
        csdfgen.run(csdfgen.plan(network, backend=backend), {"x": x})["z"]
        for backend in ("numpy", "native")
    ]
    np.testing.assert_array_equal(*(one.view(np.uint16) for one in found))
