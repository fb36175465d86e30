"""What NonZero and NonMaxSuppression find is of a size that is known at run time only: what reads it is right for that, or
refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import ModelError
from runtime.verify import check_layers, check_outputs, check_rows
from tests.command import Call
from tests.models import model as of_text
from tests.native_steps import compiler_missing

BOXES, CLASSES = 30, 3
NUMBERS: Mapping[str, np.ndarray] = {
    "most": np.array([6]),
    "many": np.array([2**40]),
    "overlap": np.array([0.4], np.float32),
    "least": np.array([0.6], np.float32),
    "none": np.array([2], np.float32),
    "half": np.array(0.5, np.float32),
    "last": np.array([-1]),
    **{f"i{k}": np.array([k]) for k in (0, 1, 2, 3, 4, 20)},
}
INPUTS = {
    "boxes": f"float[1,{BOXES},4] boxes",
    "scores": f"float[1,{CLASSES},{BOXES}] scores",
    "table": f"float[{BOXES},4] table",
    "values": f"float[{BOXES}] values",
}


def _model(nodes: str, outputs: str) -> onnx.ModelProto:
    """A network of those inputs and numbers that it reads."""
    read = set(re.findall(r"\w+", nodes))
    inputs = ", ".join(text for name, text in INPUTS.items() if name in read)
    numbers = {name: array for name, array in NUMBERS.items() if name in read}
    return of_text(f"tail ({inputs}) => ({outputs}) {{ {nodes} }}", numbers)


def _feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {
        i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in model.graph.input
    }
    return {name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}


SUPPRESS = "selected = NonMaxSuppression(boxes, scores, most, overlap, least)  "
INDEX = "column = Gather <axis = 1> (selected, i2)  index = Squeeze(column, i1)  "
FOUND = (
    "flags = Greater(values, half)  places = NonZero(flags)  index = Squeeze(places, i0)"
    "  few = Gather(table, index)  numbers = Gather(values, index)  "
)
COUNTED = f"{FOUND} size = Shape(few)  count = Gather(size, i0)  "

TAILS: Mapping[str, tuple[str, str]] = {
    "indices": (SUPPRESS, "selected"),
    "of every class": (
        SUPPRESS + INDEX + "own = Squeeze(boxes, i0)  chosen = Gather(own, index)"
        "  coordinates = Slice(selected, i1, i3, i1)  of_classes = Squeeze(scores, i0)"
        "  score = GatherND(of_classes, coordinates)  score_column = Unsqueeze(score, i1)"
        "  numbers = Cast <to = 1> (selected)  rows = Concat <axis = 1> (numbers, chosen, score_column)"
        "  batch = Unsqueeze(rows, i0)",
        "batch, selected, score",
    ),
    "first ones": (
        SUPPRESS + INDEX + "some = Slice(index, i1, i4, i0)  chosen = Gather(table, some)"
        "  y = Softmax <axis = 1> (chosen)",
        "y",
    ),
    "nothing": (
        SUPPRESS.replace("least", "none") + INDEX + "y = Gather(table, index)",
        "y, selected",
    ),
    "places": ("flags = Greater(values, half)  places = NonZero(flags)", "places"),
    "elements": (FOUND, "few, numbers, places"),
    "products": (FOUND + "t = Transpose(table)  y = MatMul(few, t)", "y"),
    "reductions": (
        FOUND
        + "a = ReduceMax <keepdims = 0, axes = [0]> (few)  b = ReduceMin <axes = [0, 1]> (few)"
        "  c = ReduceSum <keepdims = 0> (few, i0)  d = ReduceL2 <keepdims = 0, axes = [1]> (few)"
        "  e = ReduceProd <keepdims = 0, axes = [0]> (few)  f = ArgMax <keepdims = 0, axis = 0> (few)"
        "  g = ArgMin <keepdims = 0, axis = 1> (few)",
        "a, b, c, d, e, f, g",
    ),
    "best of those found": (
        COUNTED + "k = Min(count, i20)  best, where = TopK(numbers, k)  y = Gather(few, where)",
        "best, where, y",
    ),
    "sizes": (
        COUNTED + "wanted = Concat <axis = 0> (count, i4)  again = Reshape(few, wanted)"
        "  halves = Expand(half, wanted)  y = Add(again, halves)  front = Slice(values, i0, count)",
        "y, front",
    ),
    "compressed": (
        "flags = Greater(values, half)  y = Compress <axis = 0> (table, flags)  sums = ReduceSum(y, i0)",
        "y, sums",
    ),
    "suppressed of those found": (
        FOUND
        + "own = Unsqueeze(few, i0)  line = Unsqueeze(numbers, i0)  of_one = Unsqueeze(line, i0)"
        "  selected = NonMaxSuppression(own, of_one, many, overlap)"
        "  column = Gather <axis = 1> (selected, i2)  kept = Squeeze(column, i1)"
        "  y = Gather(few, kept)  all = NonZero(numbers)",
        "y, selected, all",
    ),
}


def tail(name: str) -> onnx.ModelProto:
    """What is behind a detector: a network of boxes and scores."""
    return _model(*TAILS[name])


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("rows", ["1", "whole"])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_what_is_found_is_onnxruntimes(name: str, rows: str, backend: str) -> None:
    if backend == "native" and compiler_missing():
        pytest.skip("no C compiler")
    model = tail(name)
    plan = csdfgen.plan(csdfgen.load(model), rows=rows, backend=backend)
    for seed in range(3):
        feeds = _feeds(model, seed)
        found = runtime.run(plan, feeds)
        outputs = found if isinstance(found, dict) else {model.graph.output[0].name: found}
        for one in (*check_outputs(model, plan, feeds, outputs), *check_rows(model, plan, feeds)):
            assert one.ok, one
        for layer in check_layers(model, plan, feeds):
            assert layer.ok, layer.comparison


def test_behind_what_is_found_is_the_fill() -> None:
    model = _model(*TAILS["elements"])
    network = csdfgen.load(model)
    feeds = _feeds(model)
    found = runtime.run(csdfgen.plan(network), feeds)
    count = int((feeds["values"] > 0.5).sum())
    assert 0 < count < BOXES and network.bounded["few"] == 0
    for name, axis in (("few", 0), ("numbers", 0), ("places", 1)):
        behind = np.take(np.asarray(found[name]), range(count, BOXES), axis)
        assert (behind == -1).all()


REFUSED = (
    (FOUND + "y = ReduceMean <axes = [0]> (few)", "computes along it"),
    (FOUND + "y = Softmax <axis = 0> (numbers)", "computes along it"),
    (FOUND + "y = Reshape(few, last)", "merges it"),
    (FOUND + "y = Concat <axis = 0> (few, table)", "joins"),
    (FOUND + "a = Unsqueeze(numbers, i0)  b = Unsqueeze(numbers, i1)  y = Sub(a, b)", "makes axes"),
    (
        FOUND + "y = ScatterElements(values, index, numbers)",
        "not known to keep its positions apart",
    ),
    (FOUND + "y = Gather(few, last)", "counts from the end"),
    (FOUND + "y = Slice(few, i0, last)", "counts from the end"),
    (
        COUNTED + "n = Cast <to = 1> (count)  y = Div(values, n)",
        "computes with a number of positions",
    ),
    (COUNTED + "y = Identity(count)", "computes with a number of positions"),
    (FOUND + "y = MatMul(values, few)", "sums over it"),
    ("y = NonMaxSuppression(boxes, scores)", "max_output_boxes_per_class is absent"),
)


@pytest.mark.parametrize(("nodes", "why"), REFUSED)
def test_what_cannot_be_right_is_refused(nodes: str, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        csdfgen.load(_model(nodes, "y"))


def test_images_of_a_batch_are_not_run_one_by_one() -> None:
    model = _model(*TAILS["indices"])
    for entry in model.graph.input:
        entry.type.tensor_type.shape.dim[0].dim_param = "N"
    network = csdfgen.load(model, batch=2)
    assert network.batch == 1
    assert network.outputs[0].tensor is not None
    assert network.outputs[0].tensor.shape == (2 * CLASSES * 6, 3)


def test_a_run_says_which_outputs_are_filled(call: Call) -> None:
    onnx.save(tail("elements"), "tail.onnx")
    shown = call("run", "tail.onnx", "--check").out
    assert (
        "output     'few': 30 positions along axis 0 at most; behind those that a frame has"
        in shown
    )
    assert "check      'few': equal, 120 values" in shown
    call("report", "tail.onnx", "-o", "page.html")
    assert "has 30 positions along axis 0 at most" in Path("page.html").read_text()
