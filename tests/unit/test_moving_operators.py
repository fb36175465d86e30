"""What is said of operators that only move elements: which share memory, which keep rows, what they
refuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import Alias, AliasKind, Mode
from tests.models import model, onnxruntime_outputs
from tests.op_harness import Arg, Sample, fed, run_in_slabs
from tests.op_samples import SAMPLES
from tests.op_samples.ranks import ints

SHARING = [
    s
    for s in SAMPLES
    if any(a.kind is not AliasKind.INPLACE for a in s.operator.aliases(s.layer()))
]


def _part(larger: np.ndarray, alias: Alias, size: int) -> np.ndarray:
    """What an alias says the smaller of two stored arrays is, as a part of the larger."""
    assert alias.dim is not None
    return larger[(slice(None),) * (alias.dim + 1) + (slice(alias.start, alias.start + size),)]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_part_of_a_picture_is_resized(mode: str) -> None:
    """Regions that begin and end elsewhere along each axis."""
    method = f'mode = "{mode}", coordinate_transformation_mode = "tf_crop_and_resize"'
    proto = model(
        f"g (float[1,2,9,8] x) => (y) {{ y = Resize <{method}> (x, roi, none, sizes) }}",
        {
            "roi": np.array([0, 0, 0.1, 0.3, 1, 1, 0.6, 0.9], np.float32),
            "none": np.zeros(0, np.float32),
            "sizes": np.array([1, 2, 7, 11]),
        },
    )
    x = np.random.default_rng(1).normal(size=(1, 2, 9, 8)).astype(np.float32)
    found = runtime.run(csdfgen.plan(csdfgen.load(proto), rows=2, backend="numpy"), {"x": x})
    np.testing.assert_allclose(found["y"], onnxruntime_outputs(proto, {"x": x})["y"], atol=1e-5)


@pytest.mark.parametrize(("rounding", "rows"), [("floor", (0, 2, 4)), ("ceil", (1, 3, 5))])
def test_positions_halfway_between_rows(rounding: str, rows: tuple[int, ...]) -> None:
    """A picture of half the size is read at 0.5, 2.5 and 4.5: from below or from above, as is preferred."""
    sizes = np.array([1, 1, 3, 1])
    method = {"mode": "nearest", "nearest_mode": f"round_prefer_{rounding}"}
    sample = Sample("Resize", (Arg((1, 1, 6, 2), 2), None, None, sizes), method, 13)
    layer, feeds = sample.layer(), sample.feeds()
    (found,) = run_in_slabs(sample, layer, feeds, 2)
    np.testing.assert_array_equal(found[0, 0, :, 0], feeds[0][0, 0, rows, rows[0]])
    np.testing.assert_array_equal(found, sample.reference(layer, feeds)[0])


@pytest.mark.parametrize(("policy", "shape"), [("not_larger", (6, 4)), ("not_smaller", (15, 10))])
def test_a_picture_keeps_its_aspect_within_sizes(policy: str, shape: tuple[int, int]) -> None:
    proto = model(
        f'g (float[1,2,9,6] x) => (y) {{ y = Resize <axes = [2, 3], keep_aspect_ratio_policy = "{policy}"> (x, , , sizes) }}',
        {"sizes": np.array([15, 4])},
        opset=18,
    )
    assert csdfgen.load(proto).outputs[0].tensor.shape == (1, 2, *shape)  # type: ignore[union-attr]


@pytest.mark.parametrize("sample", SHARING, ids=map(str, SHARING))
def test_an_alias_says_where_the_elements_are(sample: Sample) -> None:
    layer, feeds = sample.layer(), sample.feeds()
    results = run_in_slabs(sample, layer, feeds, 1)
    for alias in sample.operator.aliases(layer):
        tensor, output = layer.inputs[alias.position], layer.outputs[alias.output]
        assert (
            tensor is not None
            and tensor.row_axis == layer.input_axes[alias.position]
            and tensor.rows == output.rows
        )
        stored, written = (
            tensor.to_storage(fed(feeds, tensor)),
            output.to_storage(results[alias.output]),
        )
        if alias.dim is None:
            np.testing.assert_array_equal(written, stored.reshape(written.shape))
        elif alias.kind is AliasKind.VIEW:
            np.testing.assert_array_equal(
                written, _part(stored, alias, written.shape[alias.dim + 1])
            )
        else:
            np.testing.assert_array_equal(
                stored, _part(written, alias, stored.shape[alias.dim + 1])
            )


def _layer(
    op_type: str, inputs: tuple[Any, ...], attributes: dict[str, Any] | None = None, opset: int = 18
) -> Layer:
    return OPERATORS[op_type].build(Node("n", op_type, opset, attributes or {}, inputs, ("y",)))


def test_a_channel_shuffle_keeps_its_rows() -> None:
    """docs/model.md: ShuffleNet's Reshape, Transpose, Reshape."""
    x = Tensor("x", (1, 12, 5, 4), row_axis=2)
    apart = _layer("Reshape", (x, ints(1, 3, 4, 5, 4)))
    shuffled = _layer("Transpose", (apart.output,), {"perm": [0, 2, 1, 3, 4]})
    back = _layer("Reshape", (shuffled.output, ints(1, 12, 5, 4)))
    assert [layer.output.rows for layer in (apart, shuffled, back)] == [5, 5, 5]
    assert back.output.row_axis == 2
    for layer, view in ((apart, True), (shuffled, False), (back, True)):
        operator = OPERATORS[layer.op_type]
        assert operator.mode(layer) is Mode.ROWS
        assert operator.input_rows(layer, Rows(1, 3))[0] == Rows(1, 3)
        assert bool(operator.aliases(layer)) is view


def test_flattening_a_map_holds_one_slab_of_it() -> None:
    layer = _layer("Flatten", (Tensor("x", (1, 3, 5, 4), row_axis=2),))
    assert OPERATORS["Flatten"].mode(layer) is Mode.ACCUMULATE
    assert layer.output.row_axis is None


@pytest.mark.parametrize(
    ("out", "rows"),
    [
        (Rows(0, 1), Rows(0, 1)),
        (Rows(1, 2), Rows(0, 2)),
        (Rows(2, 3), Rows(0, 2)),
        (Rows(0, 10), Rows(0, 5)),
    ],
)
def test_doubled_rows_blend_two(out: Rows, rows: Rows) -> None:
    scales = np.array([1, 1, 2, 2], np.float32)
    layer = _layer(
        "Resize", (Tensor("x", (1, 3, 5, 4), row_axis=2), None, scales), {"mode": "linear"}
    )
    assert OPERATORS["Resize"].input_rows(layer, out)[0] == rows


def test_mirrored_rows_are_held_until_their_image_is_written() -> None:
    layer = _layer(
        "Pad",
        (Tensor("x", (1, 3, 5, 4), row_axis=2), ints(0, 0, 2, 0, 0, 0, 2, 0)),
        {"mode": "reflect"},
    )
    found = [OPERATORS["Pad"].input_rows(layer, Rows(i, i + 1))[0] for i in range(9)]
    assert found[:4] == [Rows(0, 3), Rows(0, 3), Rows(0, 3), Rows(1, 3)]
    assert found[-3:] == [Rows(2, 5), Rows(2, 5), Rows(2, 5)]


MAP = Tensor("x", (1, 4, 6, 5), row_axis=2)
TWICE = np.array([1, 1, 2, 2], np.float32)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "message"),
    [
        ("Reshape", (MAP, ints(1, 7)), {}, 18, "120 elements .* do not fit .*7"),
        ("Reshape", (MAP, ints(-1, -1)), {}, 18, "more than one free dimension"),
        ("Reshape", (MAP, ints(1, 4, 6, 5, 0)), {}, 18, "rank 4 does not have"),
        ("Reshape", (MAP, Tensor("shape", (2,), Format("int64"))), {}, 18, "computed at run time"),
        ("Reshape", (MAP, np.ones((2, 2), np.int64)), {}, 18, "rank 2, a 1-D integer array"),
        ("Flatten", (MAP,), {"axis": 5}, 18, "axis 5 is outside"),
        ("Squeeze", (MAP, ints(1)), {}, 18, "not all of size 1"),
        ("Unsqueeze", (MAP,), {}, 18, "'axes' is missing"),
        ("Unsqueeze", (MAP, ints(0, 0)), {}, 18, "name an axis twice"),
        ("Unsqueeze", (MAP, ints(*range(20))), {}, 18, "24 axes, at most"),
        ("Transpose", (MAP,), {"perm": [0, 1, 2]}, 18, "names 3 axes, the input has 4"),
        ("Expand", (MAP, ints(1, 3, 6, 5)), {}, 18, "does not broadcast"),
        ("Tile", (MAP, ints(1, 2)), {}, 18, "2 repeats for a tensor of rank 4"),
        ("Tile", (MAP, ints(1, 0, 1, 1)), {}, 18, "no elements"),
        (
            "Concat",
            (MAP, Tensor("z", (1, 4, 5, 5), row_axis=2)),
            {"axis": 1},
            18,
            "cannot be joined",
        ),
        (
            "Concat",
            (MAP, Tensor("z", (1, 4, 6, 5), Format("float64"), 2)),
            {"axis": 1},
            18,
            "cannot be joined",
        ),
        ("Concat", (MAP,), {}, 18, "'axis' is missing"),
        ("Concat", (np.ones(3),), {"axis": 0}, 18, "a computed tensor is needed"),
        ("Split", (MAP, ints(1, 2)), {"axis": 1}, 18, "do not make up 4"),
        ("Split", (MAP,), {"axis": 1, "num_outputs": 0}, 18, "0 equal parts"),
        ("Slice", (MAP, ints(0), ints(2), ints(1), ints(0)), {}, 18, "a step is 0"),
        ("Slice", (MAP,), {}, 9, "'starts' or 'ends' is missing"),
        ("Slice", (MAP, ints(3), ints(3), ints(1)), {}, 18, "no elements"),
        ("Gather", (MAP, ints(4)), {"axis": 1}, 18, r"\[-4, 4\); found \[4\]"),
        ("Pad", (MAP, ints(1, 1)), {}, 18, "do not fit 4 axes"),
        ("Pad", (MAP, ints(0, 0, -6, 0, 0, 0, 7, 0)), {"mode": "edge"}, 18, "cropped away"),
        ("Pad", (MAP, ints(*[0] * 8)), {"mode": "mirror"}, 18, "'mirror' is not one of"),
        ("Pad", (MAP, ints(*[0] * 8), np.ones(2)), {}, 18, "2 elements, one is needed"),
        ("Resize", (MAP, None, TWICE), {"mode": "area"}, 18, "'area' is not one of"),
        ("Resize", (MAP, None, None), {}, 18, "exactly one of"),
        ("Resize", (MAP, None, TWICE[:2]), {}, 18, "2 scales or sizes for 4 axes"),
        ("Resize", (MAP, None, -TWICE), {}, 18, "not all positive"),
        (
            "Resize",
            (MAP, None, TWICE),
            {"coordinate_transformation_mode": "corners"},
            18,
            "is not one of half_pixel",
        ),
        (
            "Resize",
            (MAP, TWICE, TWICE),
            {"coordinate_transformation_mode": "tf_crop_and_resize"},
            18,
            "4 values for 4 axes",
        ),
        ("Resize", (MAP, None, TWICE), {"antialias": 1}, 18, "does not go with mode 'nearest'"),
        (
            "Resize",
            (Tensor("x", MAP.shape, Format("uint8"), 2), None, TWICE),
            {"mode": "linear"},
            18,
            "cast to float32",
        ),
        ("Upsample", (MAP, TWICE), {}, 10, "gone since opset 10"),
        ("Upsample", (MAP,), {"scales": [1.0, 2.0]}, 7, "2 scales for a tensor of rank 4"),
        ("DepthToSpace", (MAP,), {"blocksize": 3}, 18, "4 channels do not divide"),
        ("SpaceToDepth", (MAP,), {"blocksize": 4}, 18, "6 x 5 does not divide"),
        ("SpaceToDepth", (Tensor("x", (3, 4)),), {"blocksize": 1}, 18, "rank 2"),
    ],
)
def test_refusals_say_what_and_both_numbers(
    op_type: str, inputs: tuple[Any, ...], attributes: dict[str, Any], opset: int, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        _layer(op_type, inputs, attributes, opset)
