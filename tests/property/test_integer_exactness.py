"""Operators on integers are onnxruntime's to the last bit for every value, ties included."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from csdfgen.ops.evaluated import run_layer
from csdfgen.ops.integers import exact_rows, exact_type
from tests.op_harness import Arg, Sample

VALUES = np.arange(-128, 128).astype(np.int8)
LEFT, RIGHT = np.repeat(VALUES, 256).reshape(256, 256), np.tile(VALUES, 256).reshape(256, 256)
BYTES = Arg((256,), None, "int8")


def scale(value: float, seed: int) -> np.ndarray:
    """With every other seed a number of few digits: then there are many ties."""
    return np.array(round(value, 2) if seed % 2 else value, np.float32)


def check(sample: Sample, feeds: Mapping[int, np.ndarray]) -> None:
    layer = sample.layer()
    operands = [None if t is None else feeds[int(t.name[1:])] for t in layer.inputs]
    (got,), (want,) = run_layer(sample.operator, layer, operands), sample.reference(layer, feeds)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_every_pair_of_values(op_type: str, seed: int) -> None:
    """Of tensors, and where one element meets many, on either side."""
    rng = np.random.default_rng(seed)
    numbers = [
        (scale(rng.uniform(low, 2 * low), seed), rng.integers(-128, 128, ()).astype(np.int8))
        for low in (0.02, 0.03, 0.05)
    ]
    for a, b in ((LEFT, RIGHT), (LEFT, RIGHT[:, :1]), (VALUES[:, None], RIGHT)):
        args = (Arg(array.shape, None, "int8") for array in (a, b))
        inputs = [part for arg, n in zip(args, numbers, strict=False) for part in (arg, *n)]
        check(Sample(op_type, (*inputs, *numbers[2])), {0: a, 3: b})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearSoftmax", {"opset": 13})],
)  # fmt: skip
def test_every_value(op_type: str, attributes: Mapping[str, object], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.tile(VALUES, 40)[rng.permutation(10240)].reshape(-1, 256 if seed % 2 else 10)
    zeros = rng.integers(-128, 128, 2).astype(np.int8)
    made = scale(rng.uniform(0.02, 0.05), seed)
    if "Softmax" in op_type:
        made, zeros[1] = np.array(1 / 256, np.float32), -128
    inputs = (
        Arg(x.shape, None, "int8"),
        scale(rng.uniform(0.02, 0.1), seed),
        zeros[0, ...],
        made,
        zeros[1, ...],
    )
    check(Sample(op_type, inputs, attributes), {0: x})


@pytest.mark.parametrize("seed", range(4))
def test_quarters_of_a_step(seed: int) -> None:
    """Half of a step is rounded to even; then comes the zero point."""
    rng = np.random.default_rng(seed)
    step = scale(rng.uniform(0.02, 0.05), seed)
    values = (np.arange(-700, 700) / 4 * float(step)).astype(np.float32)
    zero = rng.integers(-128, 128, ()).astype(np.int8)
    check(Sample("QuantizeLinear", (Arg(values.shape), step, zero)), {0: values})
    check(Sample("DequantizeLinear", (BYTES, step, zero)), {0: VALUES})


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_end_in_ties(seed: int) -> None:
    """Of a convolution and of averages: factors that are powers of two, or nearly."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (1, 16, 6, 6)).astype(np.int8)
    zeros = rng.integers(-128, 128, 2).astype(np.int8)
    of_x = np.array(rng.uniform(0.02, 0.05), np.float32)
    arg = Arg(x.shape, 2, "int8")
    ends = zeros[0, ...], zeros[1, ...]
    weights = rng.integers(-127, 128, (16, 16, 1, 1)).astype(np.int8)
    none, quarter = np.zeros((), np.int8), np.array(0.25, np.float32)
    out = np.asarray(of_x * np.float32(64 if seed % 2 else 32))
    check(
        Sample("QLinearConv", (arg, of_x, ends[0], weights, quarter, none, out, ends[1]), opset=10),
        {0: x},
    )
    for op_type, settings in (
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ):
        for made in (of_x, np.array(0.03, np.float32)):
            check(Sample(op_type, (arg, of_x, ends[0], made, ends[1]), settings), {0: x})


@pytest.mark.parametrize("terms", [100, 517, 518, 519, 5000])
def test_the_type_of_sums_is_exact(terms: int) -> None:
    """At the limit, in any order that a library may sum in: forwards, backwards, large ones first."""
    rng = np.random.default_rng(terms)
    weights = np.full((1, terms), 127)
    weights[0, rng.permutation(terms)[: terms // 3]] = -127
    for low, high in ((0, 255), (-128, 127)):
        dtype = np.dtype(exact_type(weights, [(low, high)], 0))
        x = np.where(weights[0] > 0, high, low)
        wanted = int((weights[0] * x).sum())
        for order in (np.arange(terms), np.arange(terms)[::-1], np.argsort(weights[0])):
            products = weights[0, order].astype(dtype) * x[order].astype(dtype)
            assert np.add.accumulate(products)[-1] == wanted
            assert weights[0, order].astype(dtype) @ x[order].astype(dtype) == wanted


@pytest.mark.parametrize("terms", [300, 518, 2000])
def test_sums_of_some_rows_are_exact_wherever_they_begin(terms: int) -> None:
    rng = np.random.default_rng(terms)
    weights = rng.integers(-127, 128, (3, terms))
    weights[1] = 127
    for low, high in ((0, 255), (-128, 127)):
        rows = exact_rows(weights, (low, high))
        most = np.maximum(abs(weights * low), abs(weights * high))
        sums = [most[:, at : at + rows].sum(1).max() for at in range(terms - rows + 1)]
        assert max(sums) <= 2**24
        more = [most[:, at : at + rows + 1].sum(1).max() for at in range(terms - rows)]
        assert rows == terms or max(more) > 2**24


@pytest.mark.parametrize("out", ["int8", "int32"])
def test_sums_beyond_float32_are_exact(out: str) -> None:
    """Of 4,608 terms, up to 4 * 2^24: parts of them in float32, their sums in float64."""
    rng = np.random.default_rng(0)
    x = rng.integers(100, 128, (1, 512, 5, 5)).astype(np.int8)
    weights = rng.integers(100, 128, (24, 512, 3, 3)).astype(np.int8)
    weights[::2] *= rng.choice(np.array([-1, 1], np.int8), weights[::2].shape)
    arg, none = Arg(x.shape, 2, "int8"), np.zeros((), np.int8)
    pads = {"pads": [1, 1, 1, 1]}
    if out == "int32":
        check(Sample("ConvInteger", (arg, weights, np.array(-3, np.int8), none), pads), {0: x})
        return
    bias = rng.integers(-(2**26), 2**26, 24).astype(np.int32)
    made = np.array(2.0**19, np.float32)
    one, zero = np.ones((), np.float32), np.array(-3, np.int8)
    inputs = (arg, one, zero, weights, one, none, made, zero, bias)
    check(Sample("QLinearConv", inputs, pads, opset=10), {0: x})
