"""A product of two activations that sums over their rows is computed where they are stored."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.families.contraction import contraction
from csdfgen.rewriting.fuse import fuse
from tests.unit.test_attention import Nodes, sizes


def keys_times_values(tokens: int, heads: int, keys: int, values: int) -> onnx.ModelProto:
    """Keys of a softmax over tokens, and values that are a part of another tensor's rows."""
    g = Nodes()
    y = g.one(
        "MatMul", g.one("Transpose", "x", perm=[0, 2, 1]), g.values(8, heads * (keys + values))
    )
    k, v = g("Split", y, sizes(heads * keys, heads * values), outputs=2, axis=2)
    k, v = (
        g.one("Transpose", g.one("Reshape", one, sizes(1, tokens, heads, -1)), perm=[0, 2, 1, 3])
        for one in (k, v)
    )
    k = g.one("Transpose", g.one("Softmax", k, axis=2), perm=[0, 1, 3, 2])
    return g.model((1, 8, tokens), g.one("MatMul", k, v))


@pytest.mark.parametrize(("tokens", "heads", "keys", "values"), [(75, 4, 6, 6), (50, 2, 40, 70)])
def test_keys_times_values(tokens: int, heads: int, keys: int, values: int) -> None:
    model = keys_times_values(tokens, heads, keys, values)
    network = csdfgen.load(model)
    layer = fuse(network).layers[-1]
    assert type(match_family(layer)) is type(contraction(layer)) is not type(None)
    x = np.random.default_rng(0).normal(0, 1, (1, 8, tokens)).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for rows in ("1", "7", "whole"):
        plan = csdfgen.plan(network, backend="native", rows=rows)
        assert layer.name not in plan.needs
        (found,) = runtime.compile(plan)({"x": x}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-5)
