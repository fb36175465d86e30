"""Subnormal numbers are 0 while native code runs, and nowhere else; zeros keep their sign."""

from __future__ import annotations

import numpy as np
import pytest

import csdfgen
import runtime
from tests.builder import Graph
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


def _scaled(by: float, dtype: str, x: np.ndarray) -> np.ndarray:
    """by * x, computed by a network."""
    g = Graph()
    model = g.model(g.node("Mul", g.input("x", x.shape, dtype), g.constant(np.array(by, dtype))))
    (found,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="native"))(x).values()
    return found


def test_subnormal_results_are_zeros() -> None:
    x = np.array([1, 2**-10, -(2**-20), 2**-127 * 2**30], np.float32).reshape(1, 1, 1, 4)
    found = _scaled(2.0**-110, "float32", x)
    np.testing.assert_array_equal(found.ravel(), np.float32([2**-110, 2**-120, 0, 0]))


def test_the_mode_of_the_caller_comes_back() -> None:
    x = np.full((1, 1, 1, 4), 1, np.float32)
    _scaled(2.0, "float32", x)
    assert np.float32(2**-120) * np.float32(2**-20) == np.float32(2**-140) != 0


def test_halves_keep_their_subnormal_numbers() -> None:
    """They are normal as the float32 that they are computed in."""
    x = np.arange(1, 1025, dtype=np.uint16).view(np.float16).reshape(1, 1, 32, 32)
    np.testing.assert_array_equal(_scaled(1.0, "float16", x), x)
    np.testing.assert_array_equal(_scaled(0.5, "float16", x), x * np.float16(0.5))


@pytest.mark.parametrize("op_type", ["LeakyRelu", "PRelu"])
@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_a_slope_of_zero_keeps_the_sign(op_type: str, backend: str) -> None:
    g = Graph()
    x = np.float32([-2, -0.0, 0, 3, -1e-30, -7, 5, -9]).reshape(1, 2, 2, 2)
    slope = [g.constant(np.zeros((2, 1, 1), np.float32))] if op_type == "PRelu" else []
    settings = {} if slope else {"alpha": 0.0}
    model = g.model(g.node(op_type, g.input("x", x.shape), *slope, **settings))
    (found,) = runtime.compile(csdfgen.plan(csdfgen.load(model), backend=backend))(x).values()
    np.testing.assert_array_equal(found, np.maximum(x, 0))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))
