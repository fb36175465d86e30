"""Matrix products beyond the laws: a Gemm that reads a map row by row, what stays uncopied,
refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import csdfgen
import runtime
from csdfgen.backends.registry import choose_backend
from csdfgen.errors import ModelError
from csdfgen.lowering.program import lower
from csdfgen.model.formats import FLOAT32, Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import CountingScratch, Mode, Work, phases
from csdfgen.ops.linear import unflatten_gemm
from tests.op_harness import Arg, Sample, run_in_slabs
from tests.op_samples.linear import const
from tests.unit.test_attention import Nodes


def build(op_type: str, *inputs: Tensor | np.ndarray | None, **attributes: Any) -> Layer:
    return OPERATORS[op_type].build(Node("g", op_type, 17, attributes, inputs, ("y",)))


MAPS = {
    "map": Tensor("m", (1, 3, 5, 4), FLOAT32, 2),
    "channels last": Tensor("m", (1, 5, 4, 3), FLOAT32, 1),
    "volume": Tensor("m", (1, 3, 2, 5, 2), FLOAT32, 2),
    "one row": Tensor("m", (1, 60, 1, 1), FLOAT32, 2),
    "one column": Tensor("m", (1, 6, 10, 1), FLOAT32, 2),
    "natural": Tensor("m", (1, 6, 10)),
    "float64": Tensor("m", (1, 3, 5, 4), Format("float64"), 2),
    "float16": Tensor("m", (1, 3, 5, 4), Format("float16"), 2),
}

LAYERS = {
    "plain": lambda x, kind: build("Gemm", x, const(60, 7, dtype=kind), const(7, dtype=kind)),
    "transposed": lambda x, kind: build(
        "Gemm", x, const(7, 60, dtype=kind), const(7, dtype=kind), transB=1
    ),
    "scaled": lambda x, kind: build(
        "Gemm", x, const(7, 60, dtype=kind), const(1, 1, dtype=kind), transB=1, alpha=0.5, beta=3.0
    ),
    "without bias": lambda x, kind: build("Gemm", x, const(60, 7, dtype=kind)),
    "matmul": lambda x, kind: build("MatMul", x, const(60, 7, dtype=kind)),
}


def run(layer: Layer, x: np.ndarray, height: int, *, strided: bool = False) -> np.ndarray:
    """The layer's output in ONNX order; strided: slabs and results are parts of wider rows."""
    source = layer.inputs[0]
    assert source is not None
    stored = source.to_storage(x)
    wide = np.zeros((*source.storage_shape[:-1], source.storage_shape[-1] + 2), x.dtype)
    wide[..., 1:-1] = stored
    stored = wide[..., 1:-1] if strided else np.ascontiguousarray(stored)
    shape = layer.output.storage_shape
    out = (
        np.full((*shape[:-1], 2 * shape[-1]), 99, x.dtype)[..., ::2]
        if strided
        else np.full(shape, 99, x.dtype)
    )
    operator = get_operator(layer)
    emit = operator.kernel(layer)
    for phase in phases(operator, layer, height):
        rows = phase.ins[0]
        assert rows is not None
        slabs = [stored[rows.start : rows.stop], *(None,) * (len(layer.inputs) - 1)]
        for function, arguments in emit(
            Work(phase, slabs, [out[phase.out.start : phase.out.stop]], CountingScratch())
        ):
            function(*arguments)
    return layer.output.to_onnx(out)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("where", MAPS)
def test_a_flattened_gemm_is_the_gemm_of_the_flattened_map(where: str, name: str) -> None:
    source = MAPS[where]
    ordinary = LAYERS[name](Tensor("f", (1, 60), source.format), source.dtype)
    flattened = unflatten_gemm(ordinary, source)
    x = np.random.default_rng(0).uniform(-1, 1, source.shape).astype(source.dtype)
    want = run(ordinary, x.reshape(1, 60), 1)
    for height in (1, 2, 99):
        for strided in (False, True):
            got = run(flattened, x, height, strided=strided)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            tolerance = 1e-2 if source.dtype == "float16" else 1e-5
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_a_flattened_gemm_accumulates_over_the_rows_of_the_map() -> None:
    layer = unflatten_gemm(LAYERS["transposed"](Tensor("f", (1, 60)), "float32"), MAPS["map"])
    operator = get_operator(layer)
    assert operator.op_type == "Gemm" and operator.mode(layer) is Mode.ACCUMULATE
    assert [p.ins for p in phases(operator, layer, 2)] == [
        (Rows(a, b), None, None) for a, b in ((0, 2), (2, 4), (4, 5))
    ]
    assert layer.constants[1].shape == (5, 4, 1, 3, 7)
    assert operator.cost(layer, Rows(0, 1)) == 60 * 7
    half = unflatten_gemm(
        LAYERS["plain"](Tensor("f", (1, 60), Format("float16")), "float16"), MAPS["float16"]
    )
    assert operator.mode(half) is Mode.ACCUMULATE and operator.state(half) == FLOAT32


def test_slabs_of_a_flattened_gemm_are_multiplied_where_they_lie() -> None:
    ordinary = LAYERS["transposed"](Tensor("f", (1, 60)), "float32")
    layer = unflatten_gemm(ordinary, MAPS["map"])
    assert np.shares_memory(layer.constants[1], ordinary.constants[1])
    slab, out = np.zeros((2, 4, 1, 3), np.float32), np.zeros(layer.output.storage_shape, np.float32)
    scratch = CountingScratch()
    first, *_ = phases(get_operator(layer), layer, 2)
    (product, bias) = get_operator(layer).kernel(layer)(
        Work(first, [slab, None, None], [out], scratch)
    )
    assert (product[0], bias[0], scratch.end) == (np.matmul, np.add, 0)
    left, _, result = product[1]
    assert np.shares_memory(left, slab) and np.shares_memory(result, out)


def test_rows_of_tokens_are_multiplied_without_a_copy() -> None:
    layer = build("MatMul", Tensor("x", (1, 9, 6), FLOAT32, 1), const(6, 4))
    assert (layer.output.row_axis, layer.input_axes) == (1, (1, None))
    phase = phases(get_operator(layer), layer, 3)[1]
    slab, out, scratch = (
        np.zeros((3, 6, 1), np.float32),
        np.zeros((3, 4, 1), np.float32),
        CountingScratch(),
    )
    calls = list(get_operator(layer).kernel(layer)(Work(phase, [slab, None], [out], scratch)))
    assert [function for function, _ in calls] == [np.matmul]
    assert scratch.end == 0


@pytest.mark.parametrize(
    ("sample", "axis"),
    [
        (Sample("MatMul", (Arg((1, 5, 6), 1), const(6, 4))), 1),
        (Sample("MatMul", (Arg((1, 5, 6), 2), const(6, 4))), 1),
        (Sample("MatMul", (const(5, 6), Arg((6, 4), 1))), 1),
        (Sample("MatMul", (Arg((2, 5, 6)), const(6, 4))), None),
        (Sample("MatMul", (Arg((1, 6)), const(6, 4))), None),
        (Sample("Gemm", (Arg((6, 5), 1), const(6, 4)), {"transA": 1}), 0),
        (Sample("Gemm", (Arg((5, 6)), Arg((4, 6), 0)), {"transB": 1}), 1),
    ],
    ids=str,
)
def test_the_output_keeps_the_rows_that_survive(sample: Sample, axis: int | None) -> None:
    layer = sample.layer()
    assert layer.output.row_axis == axis
    assert sample.operator.mode(layer) is (Mode.WHOLE if axis is None else Mode.ROWS)


def test_alpha_and_beta_scale_constants_or_computed_operands_alike() -> None:
    sizes = ((5, 6), (6, 4), (5, 4))
    arrays = {k: const(*shape) for k, shape in enumerate(sizes)}
    want = 0.5 * arrays[0] @ arrays[1] + 3 * arrays[2]
    for computed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        inputs = tuple(Arg(size) if k in computed else arrays[k] for k, size in enumerate(sizes))
        sample = Sample("Gemm", inputs, {"alpha": 0.5, "beta": 3.0})
        (got,) = run_in_slabs(sample, sample.layer(), {k: arrays[k] for k in computed}, 2)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


X, W = Tensor("x", (5, 6)), const(6, 4)

REFUSED: Mapping[str, tuple[Any, ...]] = {
    "5 columns meet 6 rows": ("Gemm", (X, W), {"transA": 1}),
    "6 columns meet 4 rows": ("Gemm", (X, W), {"transB": 1}),
    "both must be matrices": ("Gemm", (Tensor("x", (1, 5, 6)), W), {}),
    "input 2 of shape \\(3,\\) does not broadcast": ("Gemm", (X, W, const(3)), {}),
    "alpha=0.5 with int32; whole numbers": (
        "Gemm",
        (Tensor("x", (5, 6), Format("int32")), const(6, 4, dtype="int32")),
        {"alpha": 0.5},
    ),
    "dtypes float32, float64; inputs must share": ("MatMul", (X, const(6, 4, dtype="float64")), {}),
    "dtypes int8; inputs must share": (
        "MatMul",
        (Tensor("x", (5, 6), Format("int8")), const(6, 4, dtype="int8")),
        {},
    ),
    "all inputs are constants": ("MatMul", (const(5, 6), W), {}),
    "input 1 is absent": ("MatMul", (X, None), {}),
    "batches \\(2,\\) and \\(3,\\) do not broadcast": (
        "MatMul",
        (Tensor("x", (2, 5, 6)), const(3, 6, 4)),
        {},
    ),
    "at least one axis each": ("MatMul", (Tensor("x", ()), W), {}),
    "empty operands": ("MatMul", (Tensor("x", (5, 0)), const(0, 4)), {}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_run_is_refused(message: str) -> None:
    op_type, inputs, attributes = REFUSED[message]
    with pytest.raises(ModelError, match=message):
        build(op_type, *inputs, **attributes)


@pytest.mark.parametrize("columns", [4, 40])
@pytest.mark.parametrize("activation", ["Relu", "Sigmoid"])
def test_what_follows_a_product_is_added_on_the_way(columns: int, activation: str) -> None:
    g = Nodes()
    y = g.one("Add", g.one("MatMul", "x", g.values(9, columns)), g.values(1, columns))
    model = g.model((1, 70, 9), g.one(activation, y))
    network = csdfgen.load(model)
    x = np.random.default_rng(0).normal(0, 1, (1, 70, 9)).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    plan = csdfgen.plan(network, backend="native", rows="16")
    kernels = {one.kernel for one in lower(plan, choose_backend(plan.options)).instructions}
    assert "gemm_of" in kernels and not any(one.startswith("add") for one in kernels)
    (found,) = runtime.compile(plan)({"x": x}).values()
    np.testing.assert_allclose(found, wanted, atol=1e-5)
