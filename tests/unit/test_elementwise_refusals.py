"""What elementwise operators refuse: one line with the fact and the way out; and which rows and
axes they settle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import AliasKind, CountingScratch, Phase, Work, phases

X = Tensor("x", (1, 3, 4, 5), row_axis=2)
NUMBERS = Tensor("n", (1, 3, 4, 5), Format("int32"), 2)
ONE = np.ones(1, np.float32)


def build(
    op_type: str,
    *inputs: Tensor | np.ndarray | None,
    opset: int = 17,
    outputs: tuple[str, ...] = ("y",),
    **attributes: Any,
) -> Layer:
    return OPERATORS[op_type].build(Node("node", op_type, opset, attributes, inputs, outputs))


@pytest.mark.parametrize(
    ("op_type", "inputs", "settings", "message"),
    [
        ("Relu", (), {}, "input 0 is absent"),
        ("Relu", (ONE,), {}, "input 0 is a constant"),
        ("Relu", (Tensor("x", (1, 0, 2)),), {}, r"\(1, 0, 2\), without elements"),
        ("Sigmoid", (NUMBERS,), {}, "int32 is not one of float16, float32, float64; insert a Cast"),
        ("Add", (X, NUMBERS), {}, "types float32, int32"),
        (
            "Add",
            (X, np.ones((2, 1, 1), np.float32)),
            {},
            r"\(1, 3, 4, 5\), \(2, 1, 1\) do not broadcast",
        ),
        ("Add", (X, None), {}, "input 1 is absent"),
        (
            "PRelu",
            (Tensor("x", (3, 1)), np.ones((3, 2), np.float32)),
            {},
            r"\(3, 2\) does not broadcast to the input's",
        ),
        ("Clip", (X, Tensor("low", (3, 1, 1))), {}, "min has 3 elements"),
        ("Clip", (X, np.zeros(3, np.float32)), {}, "min has 3 elements"),
        ("Celu", (X,), {"alpha": 0.0}, "alpha=0"),
        ("Gelu", (X,), {"opset": 20, "approximate": "sharp"}, "'sharp' is not one of none, tanh"),
        ("Dropout", (X,), {"outputs": ("y", "mask")}, "'mask', is used"),
        ("Dropout", (X, ONE, np.array(True)), {}, "training_mode is true"),
        (
            "Dropout",
            (X, ONE, Tensor("mode", (), Format("bool"))),
            {},
            "input 2 is computed at run time",
        ),
        ("Cast", (X,), {}, "'to' is missing"),
        ("Cast", (X,), {"to": 17}, "to=17 is not one of 1 .float32"),
        ("CastLike", (X,), {}, "input 1 is absent"),
        ("Mod", (X, ONE), {"opset": 13}, "fmod=0 with type float32 before opset 28"),
        ("Where", (X, X, X), {}, "float32 is not one of bool"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_fact(
    op_type: str, inputs: tuple[Any, ...], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        build(op_type, *inputs, **settings)


def test_clip_means_the_same_in_every_opset() -> None:
    old = build("Clip", X, opset=7, min=0.0, max=6.0)
    new = build("Clip", X, np.array(0, np.float32), np.array(6, np.float32))
    assert dict(old.attributes) == dict(new.attributes) == {"min": 0.0, "max": 6.0}
    assert new.inputs == (X, None, None)
    assert not new.constants


@pytest.mark.parametrize(
    ("inputs", "row_axis"),
    [
        ((X, ONE), 2),
        ((Tensor("gate", (1, 3, 1, 1), row_axis=2), X), 2),
        ((Tensor("flat", (1, 3, 1, 1)), X), 2),
        (
            (
                Tensor("squeezed", (1, 3, 1, 1), row_axis=2),
                Tensor("other", (1, 3, 4, 5), row_axis=3),
            ),
            3,
        ),
        ((Tensor("map", (3, 4, 5), row_axis=1), np.ones((2, 3, 1, 1), np.float32)), 2),
        ((Tensor("squeezed", (1, 3, 1, 1), row_axis=2), np.ones((1, 3, 4, 5), np.float32)), 2),
        ((Tensor("vector", (3,)), Tensor("matrix", (2, 3))), None),
    ],
)
def test_rows_are_those_of_one_operand(inputs: tuple[Any, ...], row_axis: int | None) -> None:
    assert build("Add", *inputs).output.row_axis == row_axis


def test_a_channel_constant_stays_small() -> None:
    layer = build("Add", X, np.ones((3, 1, 1), np.float32))
    (phase, *_) = phases(OPERATORS["Add"], layer, 2)
    slab = np.zeros((2, *X.row_shape), np.float32)
    ((_, (_, constant, _)),) = emitted(layer, phase, slab)
    assert constant.shape == (1, 1, 1, 3)


def test_only_operands_of_equal_shape_type_and_rows_are_overwritten() -> None:
    def positions(layer: Layer) -> list[int]:
        aliases = OPERATORS[layer.op_type].aliases(layer)
        return [a.position for a in aliases if a.kind is AliasKind.INPLACE]

    assert positions(build("Add", X, X)) == [0, 1]
    assert positions(build("Add", X, Tensor("natural", X.shape))) == [0]
    assert positions(build("Less", X, X)) == []
    assert positions(build("Where", Tensor("c", X.shape, Format("bool"), 2), X, X)) == [2]
    assert OPERATORS["Cast"].aliases(build("Cast", X, to=1))[0].kind is AliasKind.VIEW
    assert OPERATORS["Cast"].aliases(build("Cast", X, to=6)) == ()


def emitted(layer: Layer, phase: Phase, slab: np.ndarray) -> list[Any]:
    return list(
        OPERATORS[layer.op_type].kernel(layer)(Work(phase, [slab, None], [slab], CountingScratch()))
    )
