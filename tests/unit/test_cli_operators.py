"""`csdfgen operators`: the table of operators, where docs/operators.md is not at hand."""

from __future__ import annotations

import onnx
import pytest

from csdfgen.ops import OPERATORS
from csdfgen.ops.base import REQUIRED
from tests.command import Call, refused
from tests.models import model


def test_every_operator_is_listed(call: Call) -> None:
    result = call("operators")
    assert (result.code, result.err) == (0, "")
    listed = {line.split()[0] for line in result.out.splitlines() if line.strip()}
    assert listed >= set(OPERATORS)
    assert f"{len(OPERATORS)} operators; csdfgen operators NAME" in result.out
    assert "accumulating: a phase adds a slab of input rows" in result.out


@pytest.mark.parametrize("name", OPERATORS)
def test_one_operator_shows_all_that_is_known_of_it(call: Call, name: str) -> None:
    operator = OPERATORS[name]
    result = call("operators", name)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{name}: from opset {operator.since} on, {operator.structure}\n")
    for attribute in operator.attributes:
        assert f"\n{attribute} " in result.out
    assert result.out.count(" required") == sum(v is REQUIRED for v in operator.attributes.values())
    assert operator.notes in " ".join(result.out.split()) and operator.url in result.out
    assert ("must be known when the model is loaded" in result.out) == bool(
        operator.constant_inputs
    )


def test_names_in_any_case_and_what_is_only_folded(call: Call) -> None:
    assert call("operators", "conv").out == call("operators", "Conv").out
    assert call("operators", "Shape").out.startswith("Shape: evaluated when the model is loaded")
    assert call("operators", "if").out.startswith("If: the layers of both branches are planned")


def test_operators_as_json(call: Call) -> None:
    pool = call("operators", "MaxPool", "--json").json
    assert (pool["operator"], pool["since"]) == ("MaxPool", OPERATORS["MaxPool"].since)
    assert pool["attributes"]["kernel_shape"] == {"required": True}
    assert pool["attributes"]["auto_pad"] == {"required": False, "default": "NOTSET"}
    assert call("operators", "DeformConv", "--json").json["constants"] == [1, 3]
    listed = call("operators", "--json").json
    assert {entry["operator"] for entry in listed} >= {*OPERATORS, "Constant", "If"}


def test_an_unknown_operator_is_one_line_with_those_like_it(call: Call) -> None:
    line = refused(call("operators", "Convv"))
    assert line.startswith("Convv: is not a supported operator; similar: Conv")
    line = refused(call("operators", "zzzzzzzz"))
    assert line.endswith("is not a supported operator; csdfgen operators lists them")


def test_the_command_that_a_refusal_names_exists(call: Call) -> None:
    onnx.save(model("g (float[1,3,H,8] x) => (y) { y = Bernoulli(x) }"), "odd.onnx")
    assert "'csdfgen operators' lists the supported ones" in refused(call("odd.onnx"))
    assert call("operators").code == 0
