"""An operator computes the same whichever of its operands are constants (`tests.constness`), and outputs that nothing
computes are given.
"""

from __future__ import annotations

from itertools import cycle, product

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.ops import OPERATORS
from tests.constness import ROWS, backends, cases, check, reference, refusable
from tests.models import model
from tests.planning import LITTLE
from tests.ways import ALL, some

WAYS = list(product(ROWS, backends()))


@pytest.mark.parametrize("op_type", sorted(OPERATORS))
def test_any_operands_may_be_constants(op_type: str) -> None:
    ways = cycle(WAYS)
    few = 12 if "Gather" in op_type or "Scatter" in op_type else 2  # where constness counts most
    for case in cases(op_type)[: some(few, 10**9)]:
        found = check(case, WAYS if ALL else [next(ways)])
        refused = found.state == "refused" and refusable(found.text)
        assert refused or found.state in ("right", "skipped"), f"{case}: {found.text}"


CONSTANTS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "h": np.array([1.5, -2], np.float16),
    "s": np.array(3, np.int64),
    "b": np.array([[True], [False]]),
}

GRAPHS = {
    "a shape": "(float[7] x) => (y) { y = Shape(x) }",
    "an initializer": "(float[2,3] x) => (w) { }",
    "an initializer and no input": "() => (w) { }",
    "a scalar": "() => (s) { }",
    "several types": "() => (h, b, s, y) { y = Add(w, w) }",
    "the same constant as two outputs": "() => (y, z) { y = Identity(w) z = Identity(w) }",
    "a constant and its alias": "() => (w, y) { y = Identity(w) }",
    "an input": "(float[2,3] x) => (x) { }",
    "an input and a constant": "(float[2,3] x) => (x, w) { }",
    "an input, and what is computed of it": "(float[2,3] x) => (x, y) { y = Relu(x) }",
    "a constant behind one that is computed": "(float[2,3] x) => (y, z) { y = Add(x, w) z = Relu(w) }",
    "a constant in front of one that is computed": "(float[2,3] x) => (z, y) { y = Add(x, z) z = Neg(w) }",
    "parts of a constant": "(float[2,1] x) => (a, y) { a, c = Split<axis = 1, num_outputs = 2>(w) y = Add(c, x) }",
    "a constant of shapes alone": "(float[2,3] x, float[4] z) => (y) { y = CastLike(w, z) }",
}

SETTINGS: list[dict[str, object]] = [
    *({"rows": rows} for rows in (1, 3, "auto", "whole")),
    *({"goal": goal} for goal in ("memory", "speed")),
    {"fuse": "none", "image": "resident"},
]


@pytest.mark.parametrize("nodes", GRAPHS.values(), ids=GRAPHS)
def test_outputs_that_nothing_computes_are_given(nodes: str) -> None:
    """Symptom of the first: TypeError, as there was nothing to put in order."""
    used = {name: array for name, array in CONSTANTS.items() if f"{name}" in _words(nodes)}
    proto = model(f"g {nodes}", used, opset=18)
    rng = np.random.default_rng(1)
    feeds = {
        i.name: rng.normal(size=[d.dim_value for d in i.type.tensor_type.shape.dim]).astype("f")
        for i in proto.graph.input
    }
    wanted, _ = reference(proto, feeds)
    assert wanted is not None
    for setting, backend in product(SETTINGS, backends()):
        plan = csdfgen.plan(csdfgen.load(proto), backend=backend, effort=LITTLE, **setting)
        found = runtime.compile(plan)(feeds)
        assert list(found) == list(wanted)
        for name, want in wanted.items():
            assert found[name].dtype == want.dtype, (name, setting)
            np.testing.assert_array_equal(found[name], want, err_msg=f"{name} {setting}")


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text).split()
