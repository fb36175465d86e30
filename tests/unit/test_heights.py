"""Slab heights as asked for, refused where they make no sense."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.errors import InputError
from csdfgen.model.formats import FLOAT32
from csdfgen.model.network import Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.phases.conversion import MAX_PHASES, convert
from csdfgen.phases.heights import MOST_PHASES, RowSpec, layer_height, lowest_heights, parse_rows
from tests.builder import Graph, reference
from tests.graphs import SEEDED
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier

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
    with pytest.raises(InputError, match="phases in total"):
        convert(network, 1)
    assert len(convert(network, "whole").actors) == 3


@given(st.sampled_from(("auto", "whole", 1, 7)), st.dictionaries(NAMES, ASKED, max_size=3))
@SEEDED
def test_a_specification_survives_its_text(general: int | str, layers: dict[str, Any]) -> None:
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


def test_phases_take_as_long_as_their_layer_for_every_image() -> None:
    network = csdfgen.load(residual_classifier(batch=4))
    for rows, batches in product(("1", "3", "whole"), ("1", "3", "all")):
        for work in convert(network, rows, frames=4, batches=batches).actors:
            if work.layer is not None:
                whole = get_operator(work.layer).cost(work.layer, Rows(0, work.layer.output.rows))
                assert sum(work.times) == 4 * whole > 0


def test_a_layer_that_could_accumulate_has_one_phase_in_a_paper() -> None:
    cut = convert(csdfgen.load(residual_classifier()), "paper")
    assert [len(work.phases) for work in cut.actors] == [16, 16, 16, 16, 16, 8, 8, 1, 1]


@pytest.mark.parametrize("image", ["streamed", "resident"])
def test_an_image_of_values_is_never_whole_beside_its_bytes(image: str) -> None:
    plan = csdfgen.plan(quantized_ends(), rows="whole", image=image, backend="numpy")
    assert plan.regions["x"].capacity == (1 if image == "streamed" else 40)
    values = 40 * 64 * 4  # of x, and of y
    assert plan.figures["peak_live"] <= 1.1 * values  # with bytes of all rows it would be 1.25


def test_rows_of_one_pixel_are_rolled_in_blocks_unless_a_number_is_given() -> None:
    g = Graph()
    signal = g.input("x", (1, 4, 3000))
    weight = g.constant(np.ones((4, 4, 3), np.float32))
    network = csdfgen.load(g.model(g.node("Conv", signal, weight, pads=[1, 1])))
    blocks = len(convert(network, lowest_heights(network)).actors[1].phases)
    usual = len(convert(network).actors[1].phases)
    assert usual <= blocks <= MOST_PHASES < len(convert(network, 1).actors[1].phases) == 3000


def windows() -> tuple[Graph, str]:
    """Windows of 4x4 pixels of a map, as swin cuts it: pixels, windows, a product, and all the way back."""
    g = Graph()
    x = g.conv(g.input("x", (1, 3, 32, 32)), 8)
    x = g.node("Transpose", x, perm=[0, 2, 3, 1])

    def shaped(source: str, *sizes: int) -> str:
        return g.node("Reshape", source, g.constant(np.array(sizes, np.int64)))

    parts = g.node("Transpose", shaped(x, 1, 8, 4, 8, 4, 8), perm=[0, 1, 3, 2, 4, 5])
    weight = g.constant(g.rng.normal(0, 0.3, (8, 8)).astype(np.float32))
    each = g.node("MatMul", shaped(parts, -1, 16, 8), weight)
    back = g.node("Transpose", shaped(each, 1, 8, 8, 4, 4, 8), perm=[0, 1, 3, 2, 4, 5])
    y = g.node("Add", x, shaped(back, 1, 32, 32, 8))
    tokens = g.node("MatMul", shaped(y, 1, 1024, 8), weight)
    y = g.node("Transpose", tokens, perm=[0, 2, 1])
    g.channels[y] = 8
    return g, g.node("GlobalAveragePool", shaped(y, 1, 8, 32, 32))


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("rows", ["auto", 1, 3, "whole"])
def test_pixels_windows_and_tokens_are_row_maps(rows: str | int, backend: str) -> None:
    if backend == "native" and compiler_missing():
        pytest.skip(compiler_missing())
    g, output = windows()
    model = g.model(output)
    network = csdfgen.load(model)
    plan = csdfgen.plan(network, rows=rows, backend=backend)
    value = np.random.default_rng(1).normal(0, 1, (1, 3, 32, 32)).astype(np.float32)
    (got,) = runtime.compile(plan)({"x": value}).values()
    np.testing.assert_allclose(got, reference(model, {"x": value})[output], rtol=1e-4, atol=1e-4)
    if rows == "auto":
        assert plan.planned_bytes < 0.5 * plan.figures["whole_layer_live"]


@pytest.mark.parametrize("axis", [1, 2])
def test_tokens_have_as_many_pixels_whichever_axis_is_the_rows(axis: int) -> None:
    """Channels of a product are last: 64 tokens a phase, not the rows of an image that is 384 pixels wide."""
    g = Graph()
    shape = (1, 196, 384) if axis == 1 else (1, 1, 196, 384)
    weights = g.constant(np.ones((384, 8), np.float32))
    (layer,) = csdfgen.load(g.model(g.node("MatMul", g.input("x", shape), weights))).layers
    assert layer.output.row_axis == axis
    assert layer_height(parse_rows("auto"), layer) == (64, 196)
