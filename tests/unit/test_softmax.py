"""Softmax of lines that are stored one after the other or take turns, by a kernel of native code."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

import csdfgen
import runtime
from csdfgen.backends.registry import kernels_for
from csdfgen.lowering.program import lower
from tests.unit.test_attention import Nodes, sizes


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("keys", [1, 5, 37])
@pytest.mark.parametrize("heads", [1, 3, 4, 16, 21])
def test_lines_of_heads(heads: int, keys: int, axis: int) -> None:
    """Scores whose heads are side by side; minus infinity is a weight of 0, what is no number stays so."""
    g = Nodes()
    y = g.one("Reshape", "x", sizes(1, 11, heads, keys))
    y = g.one("Softmax", g.one("Transpose", y, perm=[0, 2, 1, 3]), axis=axis)
    model = g.model((1, 11, heads * keys), y)
    network = csdfgen.load(model)
    x = np.random.default_rng(0).normal(0, 4, (1, 11, heads * keys)).astype(np.float32)
    x[0, 3, ::4], x[0, 7, 0] = -np.inf, np.nan
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    bits = set()
    for rows in ("1", "3", "whole"):
        plan = csdfgen.plan(network, backend="native", rows=rows)
        kernels = {one.kernel for one in lower(plan, kernels_for(plan.options)).instructions}
        assert "softmax_of" in kernels or network.layers[-1].output.row_axis in (axis, None)
        (found,) = runtime.compile(plan)({"x": x}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        nothing = np.isneginf(x.reshape(1, 11, heads, keys).swapaxes(1, 2)) & ~np.isnan(found)
        assert not found[nothing].any()
        bits.add(np.asarray(found).tobytes())
    assert len(bits) == 1


@pytest.mark.parametrize("size", [1, 5, 16, 19, 32, 33])
def test_many_short_lines(size: int) -> None:
    """A lane each where they are many; the bits are those of one line alone."""
    g = Nodes()
    model = g.model((1, 53, size), g.one("Softmax", "x", axis=2))
    network = csdfgen.load(model)
    x = np.random.default_rng(0).normal(0, 4, (1, 53, size)).astype(np.float32)
    x[0, 3, ::4], x[0, 7, 0], x[0, 9] = -np.inf, np.nan, 100.0
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    bits = set()
    for rows in ("1", "3", "8", "whole"):
        plan = csdfgen.plan(network, backend="native", rows=rows)
        (found,) = runtime.compile(plan)({"x": x}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        bits.add(np.asarray(found).tobytes())
    assert len(bits) == 1
