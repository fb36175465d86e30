"""Functions of one tensor over the whole range of float32: accurate, silent, and finite where the
function is.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from csdfgen.model.formats import Format
from csdfgen.model.network import Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS
from csdfgen.ops.activation import ERF_COEFFICIENTS
from csdfgen.ops.base import Phase, run_slab

LARGE = np.array(
    [
        -1e30,
        -1e10,
        -1000.0,
        -100.0,
        -30.0,
        -8.0,
        -1e-30,
        0.0,
        1e-30,
        8.0,
        30.0,
        100.0,
        1000.0,
        1e10,
        1e30,
    ]
)


def applied(op_type: str, x: np.ndarray, opset: int = 24, **attributes: object) -> np.ndarray:
    """The operator on a vector."""
    operator = OPERATORS[op_type]
    layer = operator.build(
        Node(
            "node",
            op_type,
            opset,
            attributes,
            (Tensor("x", x.shape, Format(str(x.dtype))),),
            ("y",),
        )
    )
    result = np.empty((1, *x.shape), layer.output.dtype)
    run_slab(operator, layer, Phase(Rows(0, 1), (Rows(0, 1),)), [x[None]], [result])
    return result[0]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def softplus(x: float) -> float:
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


EXACT = {
    "Celu": lambda x: x if x > 0 else math.expm1(x),
    "Elu": lambda x: x if x > 0 else math.expm1(x),
    "Erf": math.erf,
    "Gelu": lambda x: x / 2 * math.erfc(-x / math.sqrt(2)),
    "HardSigmoid": lambda x: min(1.0, max(0.0, 0.2 * x + 0.5)),
    "HardSwish": lambda x: x * min(1.0, max(0.0, x / 6 + 0.5)),
    "Mish": lambda x: x * math.tanh(softplus(x)),
    "Selu": lambda x: 1.0507010221481323 * (x if x > 0 else 1.6732631921768188 * math.expm1(x)),
    "Sigmoid": sigmoid,
    "Softplus": softplus,
    "Softsign": lambda x: x / (1 + abs(x)),
    "Swish": lambda x: x * sigmoid(x),
    "Tanh": math.tanh,
}


@pytest.mark.parametrize("op_type", EXACT)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_large_values_are_exact_and_silent(op_type: str, dtype: str) -> None:
    x = np.concatenate([LARGE, np.linspace(-20, 20, 4001)])
    x = x[np.abs(x) <= (1000 if dtype == "float16" else 1e30)].astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = applied(op_type, x)
    want = np.array([EXACT[op_type](float(v)) for v in x])
    by_polynomial = op_type in ("Erf", "Gelu")
    tolerance = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-6 if by_polynomial else 1e-14}[
        dtype
    ]
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2 * tolerance, atol=tolerance)


def test_gelu_by_tanh_is_silent_where_the_cube_overflows() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = applied("Gelu", LARGE.astype(np.float32), approximate="tanh")
    np.testing.assert_allclose(got, np.maximum(LARGE, 0), rtol=1e-6, atol=1e-5)


def test_the_error_function_is_accurate_to_its_claim() -> None:
    x = np.linspace(-6, 6, 20001)
    exact = np.array([math.erf(v) for v in x])
    assert np.all(np.abs(applied("Erf", x) - exact) <= 1e-7 * np.abs(exact))
    single = np.abs(applied("Erf", x.astype(np.float32)) - exact)
    assert single.max() < 3e-7
    assert abs(ERF_COEFFICIENTS[0] - 2 / math.sqrt(math.pi)) < 2e-7


def test_half_precision_is_rounded_once() -> None:
    x = np.linspace(-6, 6, 2001).astype(np.float16)
    got = applied("HardSwish", x)
    np.testing.assert_array_equal(
        got, applied("HardSwish", x.astype(np.float32)).astype(np.float16)
    )
