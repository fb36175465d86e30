"""Experts of a mixture that was exported with all of them become branches (`experts=True`); outputs stay equal."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError
from csdfgen.model.network import Network
from csdfgen.planning.checker import check
from csdfgen.rewriting.experts import move_into_branches
from tests.builder import reference
from tests.native_steps import compiler_missing
from tests.unit.test_attention import Nodes, sizes

COUNT, CHOSEN, WIDTH = 5, 2, 24
MAP = (1, 6, 9, 8)

BACKENDS = [
    "numpy",
    pytest.param("native", marks=pytest.mark.skipif(bool(compiler_missing()), reason="no C compiler")),
]  # fmt: skip


def best(g: Nodes, x: str, width: int = WIDTH) -> str:
    """Shares (1, experts) of which two are not zero."""
    shares = g.one("Softmax", g.one("MatMul", x, g.values(width, COUNT)), axis=1)
    kept, at = g("TopK", shares, sizes(CHOSEN), outputs=2, axis=1)
    kept = g.one("Div", kept, g.one("ReduceSum", kept, sizes(1)))
    return g.one("ScatterElements", np.zeros((1, COUNT), np.float32), at, kept, axis=1)


def expert(g: Nodes, x: str) -> str:
    hidden = g.one("Relu", g.one("MatMul", x, g.values(WIDTH, 2 * WIDTH)))
    return g.one("Add", g.one("MatMul", hidden, g.values(2 * WIDTH, WIDTH)), g.values(WIDTH))


def in_turn(g: Nodes) -> str:
    """Shares by Split; each product is added to the sum."""
    shares = g("Split", best(g, "x"), sizes(*[1] * COUNT), outputs=COUNT, axis=1)
    total = "x"
    for share in shares:
        total = g.one("Add", g.one("Mul", share, expert(g, "x")), total)
    return total


def by_threshold(g: Nodes) -> str:
    """A mask of shares that are as large as the second one, and a Sum of all."""
    shares = g.one("Softmax", g.one("MatMul", "x", g.values(WIDTH, COUNT)), axis=1)
    kept, _ = g("TopK", shares, sizes(CHOSEN), outputs=2, axis=1)
    least = g.one("Slice", kept, sizes(CHOSEN - 1), sizes(CHOSEN), sizes(1))
    shares = g.one("Mul", shares, g.one("Cast", g.one("GreaterOrEqual", shares, least), to=1))
    alone = [g.one("Gather", shares, np.array(k), axis=1) for k in range(COUNT)]
    return g.one("Sum", *(g.one("Mul", expert(g, "x"), share) for share in alone))


def stacked(g: Nodes) -> str:
    """All results in one tensor, times all shares, and a sum along experts."""
    parts = [g.one("Unsqueeze", expert(g, "x"), sizes(1)) for _ in range(COUNT)]
    shares = g.one("Unsqueeze", best(g, "x"), sizes(2))
    return g.one("ReduceSum", g.one("Mul", g.one("Concat", *parts, axis=1), shares), sizes(1), keepdims=0)  # fmt: skip


def product_of_rows(g: Nodes) -> str:
    parts = g.one("Concat", *(expert(g, "x") for _ in range(COUNT)), axis=0)
    return g.one("MatMul", best(g, "x"), parts)


def product_of_columns(g: Nodes) -> str:
    parts = [g.one("Unsqueeze", expert(g, "x"), sizes(2)) for _ in range(COUNT)]
    shares = g.one("Unsqueeze", best(g, "x"), sizes(2))
    return g.one("Squeeze", g.one("MatMul", g.one("Concat", *parts, axis=2), shares), sizes(2))


def of_maps(g: Nodes) -> str:
    """Convolutions, added to the map that they read; the share of the others is 0 by a comparison."""
    x = g.one("Relu", g.one("Conv", "x", g.values(6, 6, 3, 3), pads=[1] * 4))
    scores = g.one("MatMul", g.one("Flatten", g.one("GlobalAveragePool", x)), g.values(6, COUNT))
    largest = g.one("Equal", scores, g.one("ReduceMax", scores, axes=[1]))
    shares = g.one("Where", largest, g.one("Sigmoid", scores), np.zeros((), np.float32))
    total = x
    for share in g("Split", shares, sizes(*[1] * COUNT), outputs=COUNT, axis=1):
        y = g.one(
            "Conv", g.one("Conv", x, g.values(6, 6, 3, 3), pads=[1] * 4), g.values(6, 6, 1, 1)
        )
        total = g.one("Add", total, g.one("Mul", y, g.one("Reshape", share, sizes(1, 1, 1, 1))))
    return total


def in_each_other(g: Nodes) -> str:
    """A mixture whose experts are mixtures."""
    total = "x"
    for outer in g("Split", best(g, "x"), sizes(*[1] * COUNT), outputs=COUNT, axis=1)[:2]:
        y = g.one("Relu", g.one("MatMul", "x", g.values(WIDTH, WIDTH)))
        inner = g("Split", best(g, y), sizes(*[1] * COUNT), outputs=COUNT, axis=1)
        parts = [g.one("Mul", expert(g, y), share) for share in inner[:2]]
        total = g.one("Add", total, g.one("Mul", g.one("Add", *parts), outer))
    return total


FORMS = {
    in_turn: COUNT,
    by_threshold: COUNT,
    stacked: COUNT,
    product_of_rows: COUNT,
    product_of_columns: COUNT,
    of_maps: COUNT,
    in_each_other: 6,
}
"""How a mixture is written -> its experts."""

Form = Callable[[Nodes], str]


def model_of(form: Form) -> onnx.ModelProto:
    g = Nodes()
    return g.model(MAP if form is of_maps else (1, WIDTH), form(g))


def guarded(network: Network) -> float:
    """The part of weights that are in branches."""
    inside = sum(layer.parameter_bytes for layer in network.layers if layer.guards)
    return inside / network.parameter_bytes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_experts_that_are_not_chosen_are_not_computed(form: Form, backend: str) -> None:
    model = model_of(form)
    network = csdfgen.load(model)
    plans = [csdfgen.plan(network, backend=backend, experts=given) for given in (False, True)]
    check(plans[1])
    assert len(plans[1].network.conditions) == FORMS[form]
    assert guarded(plans[1].network) > 0.7
    dense, branched = map(runtime.compile, plans)
    rng = np.random.default_rng(8)
    for _ in range(6):
        feeds = {"x": rng.normal(size=network.inputs[0].shape).astype(np.float32)}
        (want,), (found,) = dense(feeds).values(), branched(feeds).values()
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found, *reference(model, feeds).values(), rtol=1e-4, atol=1e-4)
    chosen = sum(yes for yes, _ in branched.branches.values())
    if form is not in_each_other:
        assert chosen == 6 * (1 if form is of_maps else CHOSEN)


@pytest.mark.parametrize("format_", ["float16", "int16", "int8"])
def test_experts_of_stored_formats(format_: str) -> None:
    """The dense form is quantized, and then becomes branches: the same integers."""
    x = np.random.default_rng(6).normal(size=(8, WIDTH)).astype(np.float32)
    model = csdfgen.quantize(model_of(in_turn), x, format=format_).model
    network = csdfgen.load(model)
    plans = [csdfgen.plan(network, experts=given) for given in (False, True)]
    assert len(plans[1].network.conditions) == COUNT
    dense, branched = map(runtime.compile, plans)
    for one in x:
        (want,), (found,) = dense(one[None]).values(), branched(one[None]).values()
        np.testing.assert_allclose(found, want, atol=1e-2 if format_ == "float16" else 0)
    assert 0 < sum(yes for yes, _ in branched.branches.values()) <= CHOSEN * len(x)


def by_softmax(g: Nodes) -> str:
    """No share is ever zero."""
    shares = g.one("Softmax", g.one("MatMul", "x", g.values(WIDTH, COUNT)), axis=1)
    alone = g("Split", shares, sizes(*[1] * COUNT), outputs=COUNT, axis=1)
    return g.one("Sum", *(g.one("Mul", expert(g, "x"), share) for share in alone))


def by_channel(g: Nodes) -> str:
    """A share for every element of a result."""
    mask = g.one("Cast", g.one("Greater", "x", np.zeros((), np.float32)), to=1)
    return g.one("Mul", expert(g, "x"), mask)


def cheap(g: Nodes) -> str:
    """An expert that is one operation for each element."""
    shares = g("Split", best(g, "x"), sizes(*[1] * COUNT), outputs=COUNT, axis=1)
    return g.one("Sum", *(g.one("Mul", g.one("Tanh", "x"), share) for share in shares))


def read_twice(g: Nodes) -> str:
    """What is multiplied by the shares is needed otherwise as well."""
    shares = g("Split", best(g, "x"), sizes(*[1] * COUNT), outputs=COUNT, axis=1)
    y = expert(g, "x")
    return g.one("Sum", *(g.one("Mul", y, share) for share in shares))


@pytest.mark.parametrize("form", [by_softmax, by_channel, cheap, read_twice])
def test_what_is_no_mixture_is_refused(form: Form) -> None:
    network = csdfgen.load(model_of(form))
    with pytest.raises(InputError, match="experts: no layer's result is multiplied by one number"):
        move_into_branches(network)


@pytest.mark.parametrize("form", [in_turn, stacked, of_maps])
def test_each_image_of_a_request_has_its_own_experts(form: Form) -> None:
    """Also where the model's constants (the zeros that shares are written into) are those of one image."""
    model = model_of(form)
    shape = MAP if form is of_maps else (1, WIDTH)
    x = np.random.default_rng(9).normal(size=(4, *shape[1:])).astype(np.float32)
    want = [next(iter(reference(model, {"x": x[k : k + 1]}).values())) for k in range(4)]
    plan = csdfgen.plan(csdfgen.load(model), requests=4, memory="64KiB", experts=True)
    frame = runtime.compile(plan)
    np.testing.assert_allclose(
        *frame({"x": x}).values(), np.concatenate(want), rtol=1e-4, atol=1e-4
    )
    chosen = sum(yes for yes, _ in frame.branches.values())
    assert chosen == 4 * (1 if form is of_maps else CHOSEN)


def test_requests_meet_one_expert_after_the_other() -> None:
    """Firings are those of one expert for several images, so that its weights are read while they are near: with image after
    image there would be a run of firings for each image and expert.
    """
    network = csdfgen.load(model_of(in_turn))
    plan = csdfgen.plan(network, requests=4, memory="64KiB", experts=True)
    actors = plan.conversion.actor
    layers = [actors[name].layer for name, _ in plan.order]
    guards = [one.guards for one in layers if one is not None and one.op_type == "MatMul"]
    runs = [guard for guard, _ in groupby(guards) if guard]
    assert COUNT <= len(runs) <= 2 * COUNT
