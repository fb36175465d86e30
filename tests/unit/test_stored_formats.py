"""Operators on values whose rows are integers in memory: every stored type, mixed types, both backends;
nothing between two layers is float unless the model has it in float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.families.convolution import Convolution
from csdfgen.backends.native.families.widened import Widened
from csdfgen.backends.native.ways import Ways
from csdfgen.backends.registry import resolve_backend
from csdfgen.errors import CsdfgenError
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.ops.stored import read_values
from csdfgen.planning.buffers import workspace_name
from csdfgen.reading.zoo import build
from csdfgen.rewriting.fuse import fuse
from tests.builder import Graph
from tests.native_steps import compiler_missing
from tests.networks import check_touched
from tests.quantized_models import feeds_of, quantized
from tests.unit.test_quantized_models import Pairs, csdfgen_float

Make = Callable[[Pairs, str, str], str]

SCALES = {
    "int8": (1 / 128, 1),
    "uint8": (2 / 255, 128),
    "int16": (1 / 32768, 7),
    "uint16": (2 / 65535, 32768),
}
"""Type -> scale and zero point of the input, which is in [-1, 1)."""


def weight(p: Pairs, shape: tuple[int, ...], dtype: str = "int8", axis: int | None = 0) -> str:
    """Constants of integers, dequantized; one scale an index of an axis."""
    rng, most = np.random.default_rng(5), np.iinfo(dtype).max
    integers = p.constant(rng.integers(-most, most + 1, shape).astype(dtype))
    size = 1 if axis is None else shape[axis]
    scales = (1.27 / most * rng.uniform(0.5, 1, size)).astype(np.float32)
    if axis is None:
        return p.node("DequantizeLinear", integers, p.constant(scales[0]))
    zeros = p.constant(np.zeros(size, dtype))
    return p.node("DequantizeLinear", integers, p.constant(scales), zeros, axis=axis)


def other(p: Pairs, dtype: str) -> str:
    return p.pair("x", 3 * SCALES[dtype][0], SCALES[dtype][1], dtype)


def flat(p: Pairs, x: str, dtype: str) -> str:
    return p.node("Gemm", p.node("Flatten", x), weight(p, (252, 5), axis=1))


def bounded(p: Pairs, x: str, dtype: str) -> str:
    return p.node("Clip", x, p.constant(np.float32(-0.2)), p.constant(np.float32(0.3)))


def sliced(p: Pairs, x: str, dtype: str) -> str:
    return p.node("Slice", x, *(p.constant(np.array(n)) for n in ([0, 1], [3, 6], [1, 2])))


def split(axis: int, count: int) -> Make:
    """Parts, one as it was, the others with another scale."""

    def make(p: Pairs, x: str, dtype: str) -> str:
        y = p.node("Split", x, axis=axis, num_outputs=count)
        others = [f"{y}_{k}" for k in range(1, count)]
        p.nodes[-1].output.extend(others)
        return p.node(
            "Sum", p.pair(y, *SCALES[dtype], dtype), *(p.pair(z, 0.01, 0, "int8") for z in others)
        )

    return make


def resized(mode: str) -> Make:
    def make(p: Pairs, x: str, dtype: str) -> str:
        return p.node("Resize", x, "", p.constant(np.array([1, 1, 2, 2], np.float32)), mode=mode)

    return make


def one(op_type: str, **attributes: Any) -> Make:
    return lambda p, x, dtype: p.node(op_type, x, **attributes)


CASES: dict[str, Make] = {
    "Add": lambda p, x, d: p.node("Add", x, other(p, d)),
    "Add of values": lambda p, x, d: p.node("Add", x, "x"),
    "AveragePool": one("AveragePool", kernel_shape=[3, 3], strides=[2, 2]),
    "Clip": bounded,
    "Concat": lambda p, x, d: p.node("Concat", x, other(p, d), axis=1),
    "Conv": lambda p, x, d: p.node("Conv", x, weight(p, (6, 4, 3, 3)), pads=[1] * 4),
    "Conv int16": lambda p, x, d: p.node("Conv", x, weight(p, (6, 4, 3, 3), "int16")),
    "Conv, Relu": lambda p, x, d: p.node("Relu", p.node("Conv", x, weight(p, (6, 4, 3, 3)))),
    "Conv, groups": lambda p, x, d: p.node("Conv", x, weight(p, (4, 1, 3, 3)), group=4),
    "ConvTranspose": lambda p, x, d: p.node(
        "ConvTranspose", x, weight(p, (4, 6, 2, 2), axis=1), strides=[2, 2]
    ),
    "Div": lambda p, x, d: p.node("Div", x, p.constant(np.float32(3))),
    "Gemm": flat,
    "GlobalAveragePool": one("GlobalAveragePool"),
    "GlobalMaxPool": one("GlobalMaxPool"),
    "HardSwish": one("HardSwish"),
    "Identity": one("Identity"),
    "LayerNormalization": lambda p, x, d: p.node(
        "LayerNormalization", x, p.constant(np.ones(7, np.float32)), axis=-1
    ),
    "MatMul": lambda p, x, d: p.node("MatMul", x, weight(p, (7, 5), axis=1)),
    "MaxPool": one("MaxPool", kernel_shape=[3, 3], strides=[2, 2]),
    "Mul": lambda p, x, d: p.node("Mul", x, weight(p, (1, 4, 1, 1), axis=None)),
    "Pad": lambda p, x, d: p.node("Pad", x, p.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1]))),
    "ReduceMean": lambda p, x, d: p.node("ReduceMean", x, p.constant(np.array([2, 3]))),
    "Relu": one("Relu"),
    "Reshape": lambda p, x, d: p.node("Reshape", x, p.constant(np.array([1, 4, 63]))),
    "Resize": resized("linear"),
    "Resize nearest": resized("nearest"),
    "Slice": sliced,
    "Softmax": one("Softmax", axis=1),
    "Split": split(axis=1, count=2),
    "Split of rows": split(axis=2, count=3),
    "Sub": lambda p, x, d: p.node("Sub", x, other(p, d)),
    "Tanh": one("Tanh"),
    "Transpose": one("Transpose", perm=[0, 2, 3, 1]),
}

TYPES = (("int16", "int16"), ("uint16", "int8"), ("int8", "int16"), ("uint8", ""), ("int16", ""))
"""Types of what is read and what is written; "": float."""


def pairs(make: Make, read: str, written: str) -> tuple[onnx.ModelProto, float]:
    """The model and a step of its output, 0 where that is float."""
    p = Pairs(opset=21)
    y = make(p, p.pair("x", *SCALES[read], read), read)
    step = {"int16": 1e-4, "int8": 0.03, "": 0.0}[written]
    model = p.model(p.pair(y, step, 3, written) if written else y)
    model.ir_version = 10
    return model, step


def reference(model: onnx.ModelProto) -> np.ndarray:
    """onnxruntime's output, node by node as the file has them."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (array,) = session.run(None, feeds_of(model))
    return np.asarray(array)


def floats_between(network: Network) -> list[str]:
    """Tensors of float32 that some layer makes for another one."""
    return [
        tensor.name
        for layer in network.layers
        for tensor in layer.outputs
        if tensor.dtype == "float32" and tensor.name not in network.output_tensors
    ]


TRIED = [
    pytest.param(name, types, id=f"{name}-{types[0]}-{types[1] or 'float32'}")
    for number, name in enumerate(sorted(CASES))
    for at, types in enumerate(TYPES)
    if name in ("Add", "Conv", "Concat", "Gemm") or (number + at) % len(TYPES) < 2
]
"""Some operators with all pairs of types, the others with two each, in turn: the wrapper is one."""


@pytest.mark.parametrize(("name", "types"), TRIED)
def test_within_a_step(name: str, types: tuple[str, str]) -> None:
    """Of onnxruntime's values, in both backends at several heights, with bytes as planned; what the
    layer reads and writes is stored as the model says.
    """
    model, step = pairs(CASES[name], *types)
    want = reference(model)
    network = csdfgen.load(model)
    assert not floats_between(fuse(network))
    for rows, backend in ((1, "numpy"), ("whole", "numpy"), ("auto", "native"), (1, "native")):
        plan = csdfgen.plan(network, rows=rows, backend=resolve_backend(backend))
        found, measured = runtime.compile(plan).measure(feeds_of(model))
        check_touched(plan, measured.touched_bytes)
        (got,) = found.values()
        bound = 1.01 * step if step else 2e-6 * max(1.0, float(np.abs(want).max()))
        assert np.abs(got - want).max() <= bound, f"{rows}, {backend}"


MODELS: dict[str, dict[str, Any]] = {
    "int8": {},
    "int16": {"activation_type": "QInt16"},
    "uint16": {"activation_type": "QUInt16"},
    "mixed": {},
    "weights too": {"activation_type": "QInt16", "weight_type": "QInt16"},
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_that_onnxruntime_writes(name: str) -> None:
    """Within few steps of its outputs, which are float: noise is that of the format; memory is planned
    to the byte.
    """
    source = csdfgen_float()
    source.opset_import[0].version = 17
    settings = dict(MODELS[name])
    if name == "mixed":
        made = [node.output[0] for node in source.graph.node]
        settings["overrides"] = dict.fromkeys(made[2:5], "QInt16")
    model = quantized(source, "QDQ", **settings)
    want = reference(model)
    network = csdfgen.load(model)
    assert not floats_between(fuse(network))
    for rows, backend in ((1, "numpy"), ("whole", "numpy"), ("auto", "native")):
        plan = csdfgen.plan(network, rows=rows, backend=resolve_backend(backend))
        found, measured = runtime.compile(plan).measure(feeds_of(model))
        check_touched(plan, measured.touched_bytes)
        (got,) = found.values()
        step = float(np.abs(want).max()) / (100 if name in ("int8", "mixed") else 20000)
        assert np.abs(got - want).max() <= 2 * step, f"{rows}, {backend}"


def test_bytes_of_a_mixed_model_lie_between_those_of_its_formats() -> None:
    source = build("zoo:resnet8")
    source.opset_import[0].version = max(17, source.opset_import[0].version)
    made = [node.output[0] for node in source.graph.node]
    models = [
        source,
        quantized(source, "QDQ", activation_type="QInt16"),
        quantized(source, "QDQ", overrides=dict.fromkeys(made[: len(made) // 2], "QInt16")),
        quantized(source, "QDQ"),
    ]
    networks = [csdfgen.load(model) for model in models]
    (values, wide, mixed, narrow) = (
        csdfgen.plan(network, rows=1, backend="numpy").figures["sum_of_capacities"]
        for network in networks
    )
    assert 0.45 * values < wide < 0.56 * values
    assert narrow < mixed < wide and narrow < 0.3 * values


def test_weights_stay_as_they_are_stored() -> None:
    for dtype, size in (("int8", 1), ("int16", 2)):
        p = Pairs(opset=21)
        y = p.node("Conv", p.pair("x", *SCALES["int16"], "int16"), weight(p, (6, 4, 3, 3), dtype))
        network = csdfgen.load(p.model(p.pair(y, 1e-4, 0, "int16")))
        (layer,) = (layer for layer in network.layers if layer.op_type == "Conv")
        assert layer.constants[1].dtype == dtype and layer.parameter_bytes == 6 * 4 * 9 * size


def test_a_result_that_is_read_as_values_too_is_stored_as_values() -> None:
    """By another layer, or by the caller."""
    for both in (False, True):
        p = Pairs(opset=21)
        x = p.pair("x", *SCALES["int16"], "int16")
        y = p.node("Tanh", x)
        z = p.node("Add", p.pair(y, 0.01, 0, "int8"), x if both else y)
        model = p.model(z)
        model.ir_version = 10
        if both:
            model.graph.output.append(onnx.helper.make_tensor_value_info(y, 1, None))
        network = csdfgen.load(model)
        made = {layer.op_type: layer for layer in network.layers}
        assert made["Tanh"].output.dtype == "float32" and made["Tanh"].inputs[0] is not None
        assert made["Tanh"].inputs[0].dtype == "int16"
        assert [t.dtype for t in made["Add"].inputs if t] == [
            "int8",
            "int16" if both else "float32",
        ]
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(model.SerializeToString(), options)
        want = session.run(None, feeds_of(model))
        found = runtime.compile(csdfgen.plan(network, rows=1, backend="numpy"))(feeds_of(model))
        for got, array in zip(found.values(), want, strict=True):
            np.testing.assert_allclose(got, array, atol=2e-6)


def test_every_reader_widens_for_itself() -> None:
    """One DequantizeLinear, three readers: none of them reads float."""
    p = Pairs(opset=21)
    x = p.pair("x", *SCALES["uint16"], "uint16")
    a, b, c = (p.pair(p.node(kind, x), 1e-4, 0, "int16") for kind in ("Tanh", "Abs", "Neg"))
    network = csdfgen.load(p.model(p.pair(p.node("Sum", a, b, c), 2e-4, 0, "int16")))
    assert not floats_between(network)
    assert [layer.op_type for layer in network.layers].count("DequantizeLinear") == 1


def test_constants_that_are_stored_as_integers_are_folded_as_values() -> None:
    """A constant was cast as the integers that it is stored as: 32 instead of 1."""
    p = Pairs(opset=21)
    zero = p.pair(p.constant(np.zeros(1, np.float32)), 1 / 32)
    one = p.pair(p.node("Add", zero, p.constant(np.float32(1))), 1 / 32)
    whole = p.node("Cast", one, to=onnx.TensorProto.INT64)
    model = p.model(p.node("Mul", "x", p.node("Cast", whole, to=onnx.TensorProto.FLOAT)))
    (got,) = runtime.run(csdfgen.plan(csdfgen.load(model)), feeds_of(model)).values()
    np.testing.assert_array_equal(got, feeds_of(model)["x"])


def test_an_output_of_a_stored_operator_that_nobody_reads() -> None:
    p = Pairs()
    x = p.pair("x", 1 / 16)
    largest = p.node("TopK", x, p.constant(np.array([3])), axis=1)
    p.nodes[-1].output.append("places")
    model = p.model(p.pair(largest, 1 / 16))
    (got,) = runtime.run(csdfgen.plan(csdfgen.load(model)), feeds_of(model)).values()
    np.testing.assert_array_equal(got, reference(model))


def test_a_pool_that_gives_its_places_works_on_values() -> None:
    """Its places were dequantized, and the model was refused."""
    p = Pairs()
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    pooled = p.node("MaxPool", p.pair("x", 1 / 16), **window)
    p.nodes[-1].output.append("places")
    sizes = p.constant(np.array([1, 4, 9, 7]))
    back = p.node("MaxUnpool", p.pair(pooled, 1 / 16), "places", sizes, **window)
    model = p.model(p.pair(back, 1 / 16))
    (got,) = runtime.run(csdfgen.plan(csdfgen.load(model)), feeds_of(model)).values()
    np.testing.assert_array_equal(got, reference(model))


def test_a_zero_point_of_another_type() -> None:
    p = Pairs(opset=21)
    q = p.node("QuantizeLinear", "x", p.constant(np.float32(0.1)), p.constant(np.int8(0)))
    y = p.node("DequantizeLinear", q, p.constant(np.float32(0.1)), p.constant(np.uint8(0)))
    with pytest.raises(
        CsdfgenError, match=r"\(Tanh\): input 0 is int8, its zero point uint8"
    ) as caught:
        csdfgen.load(p.model(p.node("Tanh", y)))
    assert len(str(caught.value).splitlines()) == 1


def test_what_follows_on_values_is_done_before_they_are_stored() -> None:
    """A BatchNormalization goes into the weights, an activation into the slab; one rounding, at the end."""
    p = Pairs(opset=21)
    x = p.pair("x", *SCALES["int16"], "int16")
    w = p.constant(np.random.default_rng(1).uniform(-0.3, 0.3, (4, 4, 3, 3)).astype(np.float32))
    numbers = [
        p.constant(np.linspace(a, b, 4, dtype=np.float32))
        for a, b in ((1, 2), (-1, 1), (0, 1), (1, 3))
    ]
    y = p.node("BatchNormalization", p.node("ConvTranspose", x, w), *numbers)
    y = p.node("Conv", p.pair(p.node("Relu", y), 2e-4, -32768, "int16"), weight(p, (6, 4, 3, 3)))
    model = p.model(p.pair(p.node("Tanh", p.node("HardSwish", y)), 1e-4, 0, "int16"))
    model.ir_version = 10
    network = csdfgen.load(model)
    fused = fuse(network)
    assert floats_between(network) and not floats_between(fused)
    applied = [(layer.op_type, layer.stored.applied) for layer in fused.layers if layer.stored]
    assert applied == [("ConvTranspose", 0), ("Conv", 2)]
    want = reference(model)
    for rows, backend in ((1, "numpy"), ("whole", "numpy"), (2, "native")):
        plan = csdfgen.plan(network, rows=rows, backend=resolve_backend(backend))
        found, measured = runtime.compile(plan).measure(feeds_of(model))
        check_touched(plan, measured.touched_bytes)
        (got,) = found.values()
        assert (
            np.abs(got - want).max() <= 4e-4
        )  # a step of the first may be one or two of the second


@pytest.mark.parametrize("name", ["Conv", "Conv int16", "Conv, groups", "MatMul", "Gemm"])
@pytest.mark.parametrize("types", TYPES, ids=lambda types: f"{types[0]}-{types[1] or 'float32'}")
def test_sums_of_integers_are_the_same_at_any_height(name: str, types: tuple[str, str]) -> None:
    model, _ = pairs(CASES[name], *types)
    network = csdfgen.load(model)
    found = [
        next(
            iter(
                runtime.compile(csdfgen.plan(network, rows=n, backend="numpy"))(
                    feeds_of(model)
                ).values()
            )
        )
        for n in (1, 2, 3, "whole")
    ]
    for array in found[1:]:
        np.testing.assert_array_equal(array, found[0])


def refused(model: onnx.ModelProto) -> str:
    """The one line that a model is refused with."""
    with pytest.raises(CsdfgenError) as caught:
        csdfgen.load(model)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("scale", [0.0, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_scales_that_are_not_above_0(dtype: str, scale: float) -> None:
    """Of a result, of an operand, and of weights."""
    said = f"the scale of the tensor is {scale:g}, it must be above 0"
    p = Pairs(opset=21)
    assert said in refused(p.model(p.pair(p.node("Tanh", "x"), scale, 0, dtype)))
    p = Pairs(opset=21)
    assert said in refused(p.model(p.node("Tanh", p.pair("x", scale, 0, dtype))))
    p = Pairs(opset=21)
    integers = p.constant(np.ones((6, 4, 1, 1), dtype))
    scales = p.constant(np.array([0.1] * 5 + [scale], np.float32))
    w = p.node("DequantizeLinear", integers, scales, p.constant(np.zeros(6, dtype)), axis=0)
    message = refused(p.model(p.pair(p.node("Conv", p.pair("x", 0.1, 0, dtype), w), 0.1, 0, dtype)))
    assert f"is {scale:g}, it must be above 0" in message


def test_weights_that_are_computed() -> None:
    p = Pairs(opset=21)
    x = p.pair("x", *SCALES["int16"], "int16")
    w = p.pair(p.node("Tanh", x), 0.01, 0, "int8")
    model = p.model(p.pair(p.node("Conv", x, w), 0.1, 0, "int16"))
    (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model)))(feeds_of(model)).values()
    np.testing.assert_allclose(got, reference(model), atol=0.101)


def test_zero_points_of_several_values() -> None:
    p = Pairs(opset=21)
    numbers = p.constant(np.float32(0.1)), p.constant(np.zeros(3, np.int16))
    y = p.node("QuantizeLinear", p.node("Tanh", "x"), *numbers)
    message = refused(p.model(p.node("DequantizeLinear", y, *numbers)))
    assert "(QuantizeLinear): 1 scales and 3 zero points; one for each other" in message


def test_a_range_of_no_width_is_legal() -> None:
    """Some scale, however small: all values are the lowest, the highest or 0."""
    p = Pairs(opset=21)
    y = p.pair(p.node("Tanh", p.pair("x", 1e-30, 0, "int16")), 1e-30, 0, "int16")
    model = p.model(y)
    model.ir_version = 10
    (got,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))(
        feeds_of(model)
    ).values()
    np.testing.assert_allclose(got, reference(model), atol=1e-30)


def test_constants_without_axes_stay_arrays() -> None:
    """A bound of a Clip, or a divisor, that is stored as one integer."""
    found = read_values(np.array(5, np.int8), Format("int8", (0.5,), (1,)))
    assert isinstance(found, np.ndarray) and found.shape == () and found == 2


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing())
def test_widened_rows_take_no_more_than_they_fill() -> None:
    """Native code: values of an odd size end the workspace where they end, not at the next boundary."""
    model, _ = pairs(one("AveragePool", kernel_shape=[3, 3], strides=[2, 1]), "int16", "int8")
    network = csdfgen.load(model)
    (pool,) = (layer for layer in network.layers if layer.op_type == "AveragePool")
    for rows in ("1", "2", "3"):
        plan = csdfgen.plan(network, rows=rows, backend="native")
        (scratch,) = (b for b in plan.buffers if b.name == workspace_name(pool.name))
        ends = {len(phase.out) for phase in plan.conversion.actor[pool.name].phases}
        odd = {4 * rows * pool.output.row_elements % 64 for rows in ends}
        assert odd >= {size % 64 for size in scratch.sizes}
        assert 0 not in odd
        _, measured = runtime.compile(plan).measure(feeds_of(model))
        assert measured.touched_bytes == plan.planned_bytes


def test_exact_products_of_stored_layers() -> None:
    """Devices have no kernels of Winograd, and `--exact` asks for none, in 16-bit integers either."""
    graph = Graph()
    made = graph.model(graph.conv(graph.input("x", (1, 64, 28, 28)), 64))
    x = graph.feeds()
    network = csdfgen.load(csdfgen.quantize(made, x, format="int16", method="minmax").model)
    (layer,) = (one for one in fuse(network).layers if one.op_type == "Conv")
    for exact in (True, False):
        family = match_family(layer, Ways(exact=exact))
        assert isinstance(family, Widened) and isinstance(family.family, Convolution)
        assert family.family.choice.exact == exact
