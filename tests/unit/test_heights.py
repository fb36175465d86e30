"""Slab heights as asked for, refused where they make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csdfgen
from csdfgen.errors import InputError
from csdfgen.model.formats import FLOAT32
from csdfgen.model.network import Tensor
from csdfgen.phases.conversion import MAX_PHASES, convert
from csdfgen.phases.heights import RowSpec, parse_rows
from tests.builder import Graph
from tests.graphs import SEEDED

NAMES = st.one_of(st.text(), st.text(alphabet="\\,=u0 +\n"))
ASKED = st.one_of(
    st.sampled_from(("auto", "whole", 3)),
    st.lists(st.integers(1, 9), min_size=2, max_size=3).map(tuple),
)


def test_a_number_holds_for_all_layers_and_a_name_for_one() -> None:
    spec = parse_rows("2,conv=5,last=whole")
    tensor = Tensor("t", (1, 8, 40, 10), FLOAT32, 2)
    assert spec.height("other", tensor, 40) == 2
    assert spec.height("conv", tensor, 40) == 5
    assert spec.height("last", tensor, 40) == 40
    assert spec.height("conv", tensor, 3) == 3


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "conv=", "conv=0", "", "99999999999", "²"])
def test_what_is_no_number_of_rows_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a number of rows"):
        parse_rows(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2", "'1' and '2' are both for all layers"),
        ("1,conv=2,conv=3", "layer 'conv' is given twice"),
    ],
)
def test_heights_that_contradict_each_other_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_rows(text)


def test_an_unknown_layer_is_refused_with_known_ones() -> None:
    g = Graph()
    model = g.model(g.conv(g.input("x", (1, 2, 6, 6)), 3))
    with pytest.raises(InputError, match=r"'Conv_9'.*such as Conv_"):
        convert(csdfgen.load(model), "Conv_9=2")


def test_more_phases_than_anybody_waits_for_are_refused_at_once() -> None:
    g = Graph()
    x = g.input("x", (1, 1, MAX_PHASES + 1, 1))
    network = csdfgen.load(g.model(g.node("Relu", x)))
    with pytest.raises(InputError, match="phases so far"):
        convert(network, 1)
    assert len(convert(network, "whole").actors) == 3


@given(st.sampled_from(("auto", "whole", 1, 7)), st.dictionaries(NAMES, ASKED, max_size=3))
@SEEDED
def test_a_specification_survives_its_text_whatever_the_layers_are_called(
    general: int | str, layers: dict[str, Any]
) -> None:
    spec = RowSpec(general, layers)
    again = parse_rows(str(spec))
    assert (again.general, dict(again.layers)) == (general, layers)


def test_commas_and_backslashes_in_names_are_written_behind_a_backslash() -> None:
    assert dict(parse_rows(r"a\,b=2, c\\=3,d\e=4").layers) == {"a,b": 2, "c\\": 3, r"d\e": 4}


def quantized_ends() -> csdfgen.Network:
    """x, 40 rows of 64 float32 -> bytes -> MaxPool of bytes -> y, float32."""
    g = Graph()
    scale, zero = g.constant(np.float32(0.1)), g.constant(np.int8(0))
    q = g.node("QuantizeLinear", g.input("x", (1, 1, 40, 64)), scale, zero)
    c = g.node("MaxPool", q, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return csdfgen.load(g.model(g.node("DequantizeLinear", c, scale, zero)))


@pytest.mark.parametrize("rows", ["whole", 9, "auto", 1])
def test_ends_that_change_the_format_are_cut_low_whatever_is_asked_for_all(rows: str | int) -> None:
    cut = convert(quantized_ends(), rows)
    first, quantize, pool, dequantize, _ = cut.actors
    assert [len(work.phases) for work in (first, quantize, dequantize)] == [40] * 3
    assert len(pool.phases) == {"whole": 1, 9: 5, "auto": 40, 1: 40}[rows]
    assert str(cut.rows) == str(rows)


def test_ends_that_are_named_are_as_high_as_asked() -> None:
    network = quantized_ends()
    quantize, _, dequantize = (layer.name for layer in network.layers)
    cut = convert(network, {"x": "whole", quantize: "whole", dequantize: 8, "*": "whole"})
    assert [len(work.phases) for work in cut.actors] == [1, 1, 1, 5, 1]


@pytest.mark.parametrize("image", ["streamed", "resident"])
def test_an_image_of_values_is_never_whole_beside_its_bytes(image: str) -> None:
    plan = csdfgen.plan(quantized_ends(), rows="whole", image=image, backend="numpy")
    assert plan.regions["x"].capacity == (1 if image == "streamed" else 40)
    values = 40 * 64 * 4  # of x, and of y
    assert plan.figures["peak_live"] <= 1.1 * values  # with bytes of all rows it would be 1.25
