"""What weights take in before they are integers: constants, HardSwish spelled out, factors of channels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import csdfgen
from csdfgen.precision.levelling import equalize_channels
from csdfgen.precision.prepare import prepare_model
from csdfgen.precision.ranges import Observer
from csdfgen.precision.tensor_formats import useful_ranges
from csdfgen.precision.writer import convert_to_int8, skeleton
from tests.builder import Graph
from tests.quantized_models import feeds_of, onnxruntime_outputs

Nodes = Callable[[Graph, str], str]


def column(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32).reshape(-1, 1, 1)


def by(kind: str, value: object, *, first: bool = False) -> Nodes:
    """An operator beside a constant."""

    def add(g: Graph, x: str) -> str:
        c = g.constant(np.asarray(value, np.float32))
        return g.node(kind, *((c, x) if first else (x, c)), channels=g.channels[x])

    return add


def conv(filters: int, **attributes: object) -> Nodes:
    return lambda g, x: g.conv(x, filters, **attributes)  # type: ignore[arg-type]


def in_turn(*parts: Nodes) -> onnx.ModelProto:
    g = Graph()
    x = g.input("x", (1, 4, 9, 7))
    for part in parts:
        x = part(g, x)
    return g.model(x)


def unary(kind: str, **attributes: object) -> Nodes:
    return lambda g, x: g.node(kind, x, **attributes)


def hard_swish(g: Graph, x: str) -> str:
    cut = g.node("Clip", by("Add", 3)(g, x), g.constant(np.float32(0)), g.constant(np.float32(6)))
    return by("Div", [6])(g, g.node("Mul", x, cut))


def hard_swish_of_two(g: Graph, x: str) -> str:
    return g.node("Mul", x, g.node("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def hard_swish_turned(g: Graph, x: str) -> str:
    cut = g.node("Clip", by("Add", 3)(g, x), g.constant(np.float32(0)), g.constant(np.float32(6)))
    return g.node("Mul", by("Mul", 1 / 6)(g, cut), x)


def kinds_of(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


FOLDED = {
    "a scale behind": ([conv(4), by("Mul", 0.5), unary("Tanh")], ["Conv", "Tanh"]),
    "by channel": ([conv(4), by("Div", column([1, 2, -3, 4])), unary("Tanh")], ["Conv", "Tanh"]),
    "an offset": ([conv(4), by("Add", column([1, 2, 3, 4])), unary("Tanh")], ["Conv", "Tanh"]),
    "a difference": ([conv(4), by("Sub", 2), unary("Tanh")], ["Conv", "Tanh"]),
    "both": ([conv(4), by("Mul", [3]), by("Add", [1]), unary("Tanh")], ["Conv", "Tanh"]),
    "a scale before": ([unary("Tanh"), by("Mul", 3, first=True), conv(2)], ["Tanh", "Conv"]),
    "before groups": (
        [unary("Tanh"), by("Mul", column([1, 2, 3, 4])), conv(4, group=2)],
        ["Tanh", "Conv"],
    ),
    "an offset before": (
        [unary("Tanh"), by("Add", 3), conv(4, kernel=1, pads=[0, 0, 0, 0])],
        ["Tanh", "Conv"],
    ),
    "padding has none": ([unary("Tanh"), by("Add", 3), conv(4)], ["Tanh", "Add", "Conv"]),
    "both before": ([unary("Tanh"), by("Mul", 3), by("Add", 2), conv(4)], ["Tanh", "Add", "Conv"]),
    "over a tensor": ([conv(4), by("Div", 2, first=True)], ["Conv", "Div"]),
    "by column": ([conv(4), by("Mul", np.arange(1, 8))], ["Conv", "Mul"]),
    "hard swish": ([conv(4), hard_swish, unary("Tanh")], ["Conv", "HardSwish", "Tanh"]),
    "of two": ([conv(4), hard_swish_of_two], ["Conv", "HardSwish"]),
    "turned": ([conv(4), hard_swish_turned], ["Conv", "HardSwish"]),
}


@pytest.mark.parametrize("name", FOLDED)
def test_constants_are_taken_in(name: str) -> None:
    """As many layers as are left, and what they compute."""
    parts, left = FOLDED[name]
    model = in_turn(*parts)
    made = prepare_model(model)
    assert kinds_of(made) == left
    feeds = feeds_of(model)
    (want,), (found,) = (list(onnxruntime_outputs(m, feeds).values()) for m in (model, made))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert {i.name for i in made.graph.initializer} <= {n for o in made.graph.node for n in o.input}


def test_what_others_read_stays() -> None:
    """A Conv's result that is read beside its scale, and one that is an output."""
    g = Graph()
    x = g.input("x", (1, 4, 9, 7))
    a = g.conv(x, 4)
    model = g.model(g.node("Concat", a, by("Mul", 2)(g, a), axis=1, channels=8))
    assert kinds_of(prepare_model(model)) == ["Conv", "Mul", "Concat"]


def test_matrix_products_take_in_scales() -> None:
    """A MatMul a factor, having no bias; a Gemm both."""
    rng = np.random.default_rng(0)
    for kind, left in (("MatMul", {"MatMul", "Add"}), ("Gemm", {"Gemm"})):
        g = Graph()
        x = g.input("x", (1, 6))
        weights = g.constant(rng.normal(size=(6, 3)).astype(np.float32))
        y = g.node(kind, x, weights)
        model = g.model(by("Add", np.arange(3))(g, by("Mul", [2, 3, 4])(g, y)))
        made = prepare_model(model)
        assert set(kinds_of(made)) <= {*left, "Gemm"}
        feeds = feeds_of(model)
        (want,), (found,) = (list(onnxruntime_outputs(m, feeds).values()) for m in (model, made))
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


# Channels ----------------------------------------------------------------------------------------


def uneven(group: int, between: Nodes | None) -> onnx.ModelProto:
    """Two convolutions; channels of the first reach from a hundredth to 1."""
    g = Graph()
    x = g.input("x", (1, 3, 12, 10))
    rng = np.random.default_rng(1)
    filters = rng.normal(size=(8, 3, 3, 3)) * np.logspace(-2, 0, 8).reshape(-1, 1, 1, 1)
    a = g.node("Conv", x, g.constant(filters.astype(np.float32)), pads=[1, 1, 1, 1])
    a = between(g, a) if between else a
    weights = rng.normal(size=(8, 8 // group, 3, 3)).astype(np.float32)
    if group == 8:  # each filter has a scale of its own: small channels are worth as much
        weights *= np.logspace(2, 0, 8).reshape(-1, 1, 1, 1).astype(np.float32)
    return g.model(g.node("Conv", a, g.constant(weights), pads=[1, 1, 1, 1], group=group))


@pytest.mark.parametrize("group", [1, 2, 8])
@pytest.mark.parametrize("between", [None, unary("Relu"), unary("LeakyRelu")])
def test_levelled_channels_compute_the_same(group: int, between: Nodes | None) -> None:
    """Bit for bit in float, since factors are powers of two."""
    model = prepare_model(uneven(group, between))
    network = csdfgen.load(model)
    inputs = [feeds_of(model, k) for k in range(3)]
    made = equalize_channels(model, network, inputs)
    feeds = feeds_of(model, 9)
    (want,), (found,) = (list(onnxruntime_outputs(m, feeds).values()) for m in (model, made))
    np.testing.assert_array_equal(found, want)
    if group == 8:
        reach = np.abs(numpy_helper.to_array(made.graph.initializer[-1])).max()
        assert reach < 100 and len(made.graph.initializer) >= len(model.graph.initializer)


def test_levelled_channels_are_less_noise() -> None:
    """In int8, where a depthwise layer weighs small channels as much as large ones: 10 dB at least."""
    model = uneven(8, unary("Relu"))
    inputs = [feeds_of(model, k) for k in range(6)]
    made = csdfgen.quantize(model, inputs)
    assert made.sqnr_db is not None
    import csdfgen.precision.quantize as module

    before, module.equalize_channels = (
        module.equalize_channels,
        lambda model, network, frames: model,
    )
    try:
        plain = csdfgen.quantize(model, inputs)
    finally:
        module.equalize_channels = before
    assert plain.sqnr_db is not None and made.sqnr_db > plain.sqnr_db + 10


def test_channels_stay_where_they_are_read_otherwise() -> None:
    """A Sigmoid between, a second reader that is no product, an output."""
    for other in (unary("Sigmoid"), by("Mul", np.ones((1, 8, 12, 10)))):
        model = prepare_model(uneven(8, other))
        made = equalize_channels(model, csdfgen.load(model), [feeds_of(model, k) for k in range(2)])
        assert made == model


# Useful ranges -----------------------------------------------------------------------------------


def test_values_that_nobody_tells_apart() -> None:
    """What a HardSwish makes 0 of needs no integers; what something else reads too does."""
    for shared, found in ((False, {-3.0}), (True, set())):
        g = Graph()
        x = g.input("x", (1, 3, 9, 9))
        a = g.conv(x, 4)
        b = g.node("HardSwish", a)
        model = prepare_model(g.model(g.conv(g.node("Add", a, b) if shared else b, 2)))
        ranges = useful_ranges(model, skeleton(model, convert_to_int8(model, {})), 256)
        assert {low for low, _ in ranges.values()} == found


def test_a_histogram_within_ends() -> None:
    """Nothing lost, nothing beyond; that of values that had been clipped."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000) * 4
    seen, clipped = Observer(), Observer()
    seen.see(values)
    clipped.see(np.clip(values, -3, 5))
    told = seen.within(-3, 5)
    assert (told.low, told.high, told.count) == (-3, 5, 5000) == (
        clipped.low, clipped.high, clipped.count,
    )  # fmt: skip
    mean = (told.centres * told.counts).sum() / told.count
    assert abs(mean - np.clip(values, -3, 5).mean()) < 2 * told.width
    assert seen.within(-100, 100) is seen
