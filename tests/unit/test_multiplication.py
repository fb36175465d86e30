"""A product of two activations reads and writes them where they are stored, and is the same at every slab height."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime as ort
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.families.multiplication import multiplication
from csdfgen.backends.registry import choose_backend
from csdfgen.lowering.program import lower
from csdfgen.rewriting.fuse import fuse
from tests.unit.test_attention import Nodes, sizes

TOKENS = 45


def by_head(g: Nodes, heads: int, channels: int) -> str:
    y = g.one("Reshape", g.one("MatMul", "x", g.values(24, heads * channels)), sizes(1, -1, heads, channels))  # fmt: skip
    return g.one("Transpose", y, perm=[0, 2, 1, 3])


def scores(g: Nodes) -> str:
    """Heads are stored side by side in queries, keys and scores; the keys are columns."""
    keys = g.one("Transpose", by_head(g, 3, 8), perm=[0, 1, 3, 2])
    return g.one("MatMul", by_head(g, 3, 8), keys)


def values(g: Nodes) -> str:
    """Depth in two parts, columns in three panels."""
    return g.one("MatMul", g.one("Sigmoid", scores(g)), by_head(g, 3, 37))


def one_head(g: Nodes) -> str:
    """Rows are side by side: no workspace."""
    y = g.one("MatMul", "x", g.values(24, 50))
    keys = g.one("Transpose", g.one("MatMul", "x", g.values(24, 50)), perm=[0, 2, 1])
    return g.one("MatMul", g.one("Sigmoid", g.one("MatMul", y, keys)), y)


def one_for_all_heads(g: Nodes) -> str:
    """The right operand is a matrix for all heads."""
    shared = g.one("Reshape", g.one("MatMul", "x", g.values(24, 7)), sizes(TOKENS, 7))
    return g.one("MatMul", g.one("Sigmoid", scores(g)), shared)


def columns_as_rows(g: Nodes) -> str:
    """Rows of the product are its columns: the operands change places."""
    a = g.one("Transpose", g.one("MatMul", "x", g.values(24, 6)), perm=[0, 2, 1])
    b = g.one("Transpose", g.one("MatMul", "x", g.values(24, TOKENS)), perm=[0, 2, 1])
    return g.one("MatMul", a, b)


def images(g: Nodes) -> str:
    """Rows are matrices: each is multiplied with one of its own."""
    one, other = (
        g.one("Reshape", g.one("MatMul", "x", g.values(24, 12)), sizes(TOKENS, 3, 4)) for _ in "ab"
    )
    return g.one("MatMul", one, g.one("Transpose", other, perm=[0, 2, 1]))


def constant_keys(g: Nodes) -> str:
    """The right operand is a constant matrix for each head, as positions are that do not depend on the input."""
    return g.one("MatMul", by_head(g, 3, 8), g.values(3, 8, 21))


def constant_left(g: Nodes) -> str:
    """A constant mixes tokens; rows of the product are its rows."""
    y = g.one("Sigmoid", g.one("MatMul", "x", g.values(24, 20)))
    return g.one("MatMul", g.values(TOKENS, TOKENS), y)


def constant_images(g: Nodes) -> str:
    """Rows are matrices: each is multiplied with a constant one of its own."""
    one = g.one("Reshape", g.one("MatMul", "x", g.values(24, 12)), sizes(TOKENS, 3, 4))
    return g.one("MatMul", one, g.values(TOKENS, 4, 5))


def constant_behind_heads(g: Nodes) -> str:
    """Images or heads are in front of the rows, so that those of the left operand are side by side."""
    return g.one("MatMul", by_head(g, 3, 8), g.values(8, 11))


CONSTANTS = (constant_keys, constant_left, constant_images, constant_behind_heads)
PATTERNS = (scores, values, one_head, one_for_all_heads, columns_as_rows, images)


@pytest.mark.parametrize("pattern", [*PATTERNS, *CONSTANTS], ids=lambda p: p.__name__)
def test_a_product_of_activations(pattern: Callable[[Nodes], str]) -> None:
    g = Nodes()
    model = g.model((1, TOKENS, 24), pattern(g))
    network = csdfgen.load(model)
    layer = fuse(network).layers[-1]
    assert type(match_family(layer)) is type(multiplication(layer)) is not type(None)
    x = np.random.default_rng(0).normal(0, 1, (1, TOKENS, 24)).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    bits = set()
    for given in ({"rows": "1"}, {"rows": "7"}, {"rows": "whole"}, {"goal": "memory"}):
        plan = csdfgen.plan(network, backend="native", **given)
        kernels = {one.kernel for one in lower(plan, choose_backend(plan.options)).instructions}
        assert "multiply_of" in kernels and "matmul_f32" not in kernels
        (found,) = runtime.compile(plan)({"x": x}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-4)
        bits.add(np.asarray(found).tobytes())
    assert len(bits) == 1
