"""Functions that exporters write as several operators are one layer, with the same outputs; where something else reads
what is in between, or rounds it, they stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.model.network import Layer, Network
from csdfgen.planning.checker import check
from csdfgen.rewriting.conditions import BrokenRewritingError, check_network
from csdfgen.rewriting.functions import fuse_functions
from csdfgen.rewriting.fuse import fuse
from tests.builder import Graph, reference
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.unit.test_rewriting_conditions import network_of

Function = Callable[[Graph, str, Callable[[float], str]], str]


def swish(g: Graph, x: str, c: Callable[[float], str]) -> str:
    return g.node("Mul", x, g.node("Sigmoid", x))


def swish_turned(g: Graph, x: str, c: Callable[[float], str]) -> str:
    return g.node("Mul", g.node("Sigmoid", g.node("Mul", c(1.702), x)), x)


def hard_swish(g: Graph, x: str, c: Callable[[float], str]) -> str:
    cut = g.node("Clip", g.node("Add", x, c(3)), c(0), c(6))
    return g.node("Div", g.node("Mul", x, cut), c(6))


def hard_swish_of_two(g: Graph, x: str, c: Callable[[float], str]) -> str:
    return g.node("Mul", x, g.node("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def hard_swish_by_min(g: Graph, x: str, c: Callable[[float], str]) -> str:
    cut = g.node("Min", g.node("Relu", g.node("Add", c(3), x)), c(6))
    return g.node("Mul", g.node("Mul", cut, c(1 / 6)), x)


def hard_sigmoid(g: Graph, x: str, c: Callable[[float], str]) -> str:
    return g.node("Div", g.node("Clip", g.node("Add", x, c(3)), c(0), c(6)), c(6))


def mish(g: Graph, x: str, c: Callable[[float], str]) -> str:
    return g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))


def gelu(g: Graph, x: str, c: Callable[[float], str]) -> str:
    bell = g.node("Add", g.node("Erf", g.node("Div", x, c(2**0.5))), c(1))
    return g.node("Mul", g.node("Mul", x, bell), c(0.5))


def gelu_turned(g: Graph, x: str, c: Callable[[float], str]) -> str:
    bell = g.node("Add", c(1), g.node("Erf", g.node("Mul", x, c(0.5**0.5))))
    return g.node("Mul", g.node("Mul", c(0.5), x), bell)


def gelu_of_tanh(g: Graph, x: str, c: Callable[[float], str]) -> str:
    cube = g.node("Pow", x, c(3))
    inner = g.node("Mul", g.node("Add", x, g.node("Mul", cube, c(0.044715))), c(0.7978845608))
    bell = g.node("Add", g.node("Tanh", inner), c(1))
    return g.node("Mul", g.node("Mul", x, c(0.5)), bell)


def gelu_of_squares(g: Graph, x: str, c: Callable[[float], str]) -> str:
    square = g.node("Mul", g.node("Mul", x, c(0.044715)), x)
    inner = g.node("Mul", g.node("Mul", x, c(0.7978845608)), g.node("Add", square, c(1)))
    return g.node("Mul", g.node("Mul", x, g.node("Add", g.node("Tanh", inner), c(1))), c(0.5))


FUNCTIONS: dict[str, tuple[Function, str, dict[str, Any]]] = {
    "swish": (swish, "Swish", {"alpha": 1}),
    "swish turned": (swish_turned, "Swish", {"alpha": pytest.approx(1.702, 1e-3)}),
    "hard swish": (hard_swish, "HardSwish", {}),
    "of two": (hard_swish_of_two, "HardSwish", {}),
    "by min": (hard_swish_by_min, "HardSwish", {}),
    "hard sigmoid": (hard_sigmoid, "HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "mish": (mish, "Mish", {}),
    "gelu": (gelu, "Gelu", {"approximate": "none"}),
    "gelu turned": (gelu_turned, "Gelu", {"approximate": "none"}),
    "gelu of tanh": (gelu_of_tanh, "Gelu", {"approximate": "tanh"}),
    "gelu of squares": (gelu_of_squares, "Gelu", {"approximate": "tanh"}),
}


def model_of(function: Function, dtype: str = "float32") -> onnx.ModelProto:
    """The function of a sum, which is in its slab then."""
    g = Graph()
    x, y = (g.input(name, (1, 4, 12, 9), dtype) for name in "xy")
    number = np.dtype(dtype).type
    result = function(g, g.node("Add", x, y), lambda value: g.constant(number(value)))
    return g.model(result)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_is_spelled_out_is_one_layer_in_its_producers_slab(name: str) -> None:
    function, kind, settings = FUNCTIONS[name]
    model = model_of(function)
    network = csdfgen.load(model)
    (layer,) = fuse(network).layers
    (applied,) = layer.epilogue
    assert (layer.op_type, applied.op_type, dict(applied.attributes)) == ("Add", kind, settings)
    assert applied.output.name == model.graph.output[0].name
    assert layer.onnx_nodes == tuple(node.name for node in model.graph.node)
    assert len(fuse(network, "fold").layers) == len(network.layers)
    rng = np.random.default_rng(0)
    feeds = {x: rng.normal(0, 4, (1, 4, 12, 9)).astype(np.float32) for x in "xy"}
    (want,) = reference(model, feeds).values()
    for backend in ("numpy", "native"):
        plan = csdfgen.plan(network, rows=2, backend=backend)
        check(plan)
        (found,) = runtime.run(plan, feeds).values()
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_constants_of_two_bytes_are_the_numbers_that_they_are_near(name: str) -> None:
    function, kind, settings = FUNCTIONS[name]
    model = model_of(function, "float16")
    (layer,) = fuse(csdfgen.load(model)).layers
    assert [(e.op_type, dict(e.attributes)) for e in layer.epilogue] == [(kind, settings)]


def read_elsewhere(g: Graph, x: str, c: Callable[[float], str]) -> str:
    gate = g.node("Sigmoid", x)
    return g.node("Add", g.node("Mul", x, gate), gate)


def of_two_tensors(g: Graph, x: str, c: Callable[[float], str]) -> str:
    return g.node("Mul", x, g.node("Sigmoid", "x"))


def another_number(g: Graph, x: str, c: Callable[[float], str]) -> str:
    cut = g.node("Clip", g.node("Add", x, c(3)), c(0), c(6))
    return g.node("Div", g.node("Mul", x, cut), c(5))


def another_factor(g: Graph, x: str, c: Callable[[float], str]) -> str:
    return g.node("Mul", g.node("Mul", x, "y"), g.node("Sigmoid", x))


def quantized(g: Graph, x: str, c: Callable[[float], str]) -> str:
    scale, zero = c(0.05), g.constant(np.uint8(128))

    def rounded(name: str) -> str:
        integers = g.node("QuantizeLinear", name, scale, zero)
        return g.node("DequantizeLinear", integers, scale, zero)

    x = rounded(x)
    return rounded(g.node("Mul", x, rounded(g.node("Sigmoid", x))))


def of_columns(g: Graph, x: str, c: Callable[[float], str]) -> str:
    """A number for each column is no alpha."""
    alphas = g.constant(np.linspace(1, 2, 9, dtype=np.float32))
    return g.node("Mul", x, g.node("Sigmoid", g.node("Mul", alphas, x)))


REFUSED: list[Function] = [
    read_elsewhere, of_two_tensors, another_number, another_factor, quantized, of_columns,
]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED)
def test_what_is_not_the_function_stays(function: Function) -> None:
    network = csdfgen.load(model_of(function))
    assert fuse_functions(network) is network


def test_outputs_of_the_network_stay() -> None:
    g = Graph()
    gate = g.node("Sigmoid", g.input("x", (1, 4, 12, 9)))
    network = csdfgen.load(g.model(g.node("Mul", "x", gate), gate))
    assert fuse_functions(network) is network


# Normalizations -----------------------------------------------------------------------------------


def mean(g: Graph, x: str, axes: tuple[int, ...] = (-1,)) -> str:
    if g.opset < 18:
        return g.node("ReduceMean", x, axes=list(axes))
    return g.node("ReduceMean", x, g.constant(np.array(axes, np.int64)))


def centred(g: Graph, x: str, axes: tuple[int, ...] = (-1,)) -> str:
    return g.node("Sub", x, mean(g, x, axes))


def over_deviation(g: Graph, x: str, axes: tuple[int, ...] = (-1,)) -> str:
    """As torch writes it."""
    squares = g.node("Pow", x, g.constant(np.float32(2)))
    moment = g.node("Add", mean(g, squares, axes), g.constant(np.float32(1e-3)))
    return g.node("Div", x, g.node("Sqrt", moment))


def times_inverse(g: Graph, x: str, axes: tuple[int, ...] = (-1,)) -> str:
    moment = g.node("Add", g.constant(np.float32(1e-3)), mean(g, g.node("Mul", x, x), axes))
    return g.node("Mul", x, g.node("Reciprocal", g.node("Sqrt", moment)))


def scaled(g: Graph, x: str) -> str:
    return g.node("Mul", g.constant(np.linspace(-1, 2, 10, dtype=np.float32)), x)


def moved(g: Graph, x: str) -> str:
    return g.node("Add", x, g.constant(np.linspace(3, 1, 10, dtype=np.float32)))


NORMALIZATIONS: dict[str, tuple[Callable[[Graph], str], str]] = {
    "layer": (lambda g: moved(g, scaled(g, over_deviation(g, centred(g, "x")))), "LayerNormalization"),
    "no bias": (lambda g: scaled(g, times_inverse(g, centred(g, "x"))), "LayerNormalization"),
    "neither": (lambda g: over_deviation(g, centred(g, "x")), "LayerNormalization"),
    "one bias": (
        lambda g: g.node("Add", over_deviation(g, centred(g, "x")), g.constant(np.float32([[[[3]]]]))),
        "LayerNormalization",
    ),
    "two axes": (
        lambda g: scaled(g, over_deviation(g, centred(g, "x", (2, 3)), (-2, -1))),
        "LayerNormalization",
    ),
    "root mean square": (lambda g: scaled(g, times_inverse(g, "x")), "RMSNormalization"),
    "divided": (lambda g: over_deviation(g, "x"), "RMSNormalization"),
}  # fmt: skip


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_a_normalization_that_is_spelled_out_is_one_layer(name: str, opset: int) -> None:
    build, kind = NORMALIZATIONS[name]
    g = Graph(opset=opset)
    g.input("x", (1, 3, 12, 10))
    model = g.model(build(g))
    network = csdfgen.load(model)
    (layer,) = fuse(network).layers
    assert layer.op_type == kind and layer.onnx_nodes == tuple(n.name for n in model.graph.node)
    feeds = {"x": np.random.default_rng(0).normal(1, 2, (1, 3, 12, 10)).astype(np.float32)}
    (want,) = reference(model, feeds).values()
    for backend in ("numpy", "native"):
        plan = csdfgen.plan(network, backend=backend)
        check(plan)
        (found,) = runtime.run(plan, feeds).values()
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6)


OTHERS: dict[str, tuple[Callable[[Graph], str], list[str]]] = {
    "over channels": (lambda g: over_deviation(g, centred(g, "x", (1,)), (1,)), []),
    "over other axes": (
        lambda g: over_deviation(g, centred(g, "x", (2, 3)), (3,)),
        ["RMSNormalization"],
    ),
    "times a tensor": (
        lambda g: g.node("Mul", "x", over_deviation(g, centred(g, "x"))),
        ["LayerNormalization"],
    ),
    "a bias for each row": (
        lambda g: g.node(
            "Add", over_deviation(g, centred(g, "x")), g.constant(np.ones((12, 1), np.float32))
        ),
        ["LayerNormalization"],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_statistics_and_operands_stay(name: str) -> None:
    build, normalizations = OTHERS[name]
    g = Graph()
    g.input("x", (1, 3, 12, 10))
    network = fuse_functions(csdfgen.load(g.model(build(g))))
    kinds = [layer.op_type for layer in network.layers]
    assert [kind for kind in kinds if kind.endswith("Normalization")] == normalizations
    assert len(kinds) > len(normalizations)


# Emitted code -------------------------------------------------------------------------------------


def test_emitted_code_computes_them(tmp_path: Path) -> None:
    if compiler_missing():
        pytest.skip(compiler_missing() or "")
    g = Graph()
    g.input("x", (1, 3, 12, 10))
    y = g.conv("x", 3)
    outputs = [
        function(g, g.node("Add", "x", y), lambda value: g.constant(np.float32(value)))
        for function, *_ in FUNCTIONS.values()
    ]
    outputs += [build(g) for build, _ in NORMALIZATIONS.values()]
    model = g.model(*outputs)
    plan = csdfgen.plan(csdfgen.load(model), backend="native")
    applied = [*plan.network.layers, *(e for layer in plan.network.layers for e in layer.epilogue)]
    assert {kind for _, kind, _ in FUNCTIONS.values()} <= {layer.op_type for layer in applied}
    feeds = {"x": np.random.default_rng(0).normal(1, 2, (1, 3, 12, 10)).astype(np.float32)}
    found = Program(plan, tmp_path / "c")(feeds)
    for name, want in reference(model, feeds).items():
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=2e-6)


# Conditions ---------------------------------------------------------------------------------------

SWISH = "c = Conv <pads = [1,1,1,1]> (x, w, b)  s = Sigmoid(c)  y = Mul(c, s)"


def joined_of(network: Network) -> tuple[Network, Layer, tuple[Layer, ...]]:
    rewritten = fuse_functions(network)
    return rewritten, rewritten.layers[-1], network.layers[1:]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "other"}, r"at 'other': is named 'other', 'Mul_2' is wanted"),
        ({"onnx_nodes": ("Mul_2",)}, r"ONNX nodes Mul_2, Mul_2, Sigmoid_1 is wanted"),
        ({"inputs": ()}, r"reads nothing, c is wanted"),
        ({"outputs": ()}, r"makes , 'y' float32 .* is wanted"),
    ],
)
def test_a_layer_stands_for_several_wrongly(changes: dict[str, Any], said: str) -> None:
    network = network_of(SWISH)
    rewritten, merged, parts = joined_of(network)
    check_network("a pass", network, rewritten, joined=[(merged, parts)])
    wrong = replace(merged, **changes)
    broken = replace(rewritten, layers=(rewritten.layers[0], wrong))
    with pytest.raises(BrokenRewritingError, match=said):
        check_network("a pass", network, broken, joined=[(wrong, parts)])


def test_a_read_that_is_lost_beside_a_joined_layer_is_found() -> None:
    """Only the layers that are joined may read less often."""
    network = network_of(SWISH)
    rewritten, merged, parts = joined_of(network)
    with pytest.raises(BrokenRewritingError, match="1 layers are gone with 2 reads"):
        check_network("a pass", network, rewritten)
    conv = replace(rewritten.layers[0], inputs=(None,) * 3)
    broken = replace(rewritten, layers=(conv, merged))
    with pytest.raises(BrokenRewritingError, match="0 layers are gone with 1 reads"):
        check_network("a pass", network, broken, joined=[(merged, parts)])


def test_what_is_read_elsewhere_may_not_be_joined() -> None:
    network = network_of(SWISH.replace("y =", "t =") + "  y = Add(t, s)")
    *_, sigmoid, mul, add = network.layers
    merged = replace(
        mul,
        inputs=(sigmoid.inputs[0],),
        input_axes=sigmoid.input_axes,
        onnx_nodes=("Sigmoid_1", "Mul_2"),
    )
    broken = replace(network, layers=(network.layers[0], merged, add))
    with pytest.raises(BrokenRewritingError, match=r"'s', which Add_3 reads, is made no more"):
        check_network("a pass", network, broken, joined=[(merged, (sigmoid, mul))])
