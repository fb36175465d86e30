"""What NonZero and NonMaxSuppression find is of a size that is known at run time only: what reads it is right for that, or
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.errors import ModelError
from runtime.verify import check_layers, check_outputs, check_rows
from tests.command import Call
from tests.native_steps import compiler_missing

BOXES, CLASSES = 30, 3
Step = tuple[str, str, str]
Written = tuple[str, Sequence[str], Sequence[str], Mapping[str, object]]

NUMBERS: Mapping[str, np.ndarray] = {
    "most": np.array([6]),
    "many": np.array([2**40]),
    "overlap": np.array([0.4], np.float32),
    "least": np.array([0.6], np.float32),
    "none": np.array([2], np.float32),
    "i0": np.array([0]),
    "i1": np.array([1]),
    "i2": np.array([2]),
    "i3": np.array([3]),
    "i4": np.array([4]),
    "i-1": np.array([-1]),
    "i20": np.array([20]),
    "half": np.array(0.5, np.float32),
}


INTEGERS = {"all", "ArgMax", "ArgMin", "count", "places", "selected", "where"}
"""Outputs of integers."""


def _model(steps: Sequence[Written], outputs: Sequence[str], opset: int = 17) -> onnx.ModelProto:
    """boxes (1, 30, 4), scores (1, 3, 30), table (30, 4), line (30,)."""
    shapes = {
        "boxes": (1, BOXES, 4),
        "scores": (1, CLASSES, BOXES),
        "table": (BOXES, 4),
        "values": (BOXES,),
    }
    nodes = [helper.make_node(op, a, b, name=f"{op} of {b[0]}", **more) for op, a, b, more in steps]
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "tail",
        [helper.make_tensor_value_info(n, 1, s) for n, s in shapes.items() if n in read],
        [helper.make_tensor_value_info(n, 7 if n in INTEGERS else 1, None) for n in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in NUMBERS.items() if n in read],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {
        i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in model.graph.input
    }
    return {name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}


SUPPRESSED = [
    ("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"], {}),
    ("Gather", ["selected", "i2"], ["column"], {"axis": 1}),
    ("Squeeze", ["column", "i1"], ["index"], {}),
]
FOUND = [
    ("Greater", ["values", "half"], ["flags"], {}),
    ("NonZero", ["flags"], ["places"], {}),
    ("Squeeze", ["places", "i0"], ["index"], {}),
    ("Gather", ["table", "index"], ["few"], {}),
    ("Gather", ["values", "index"], ["numbers"], {}),
]
COUNTED = [
    *FOUND,
    ("Shape", ["few"], ["size"], {}),
    ("Gather", ["size", "i0"], ["count"], {}),
]

TAILS: Mapping[str, tuple[Sequence[Written], Sequence[str]]] = {
    "indices": (SUPPRESSED[:1], ["selected"]),
    "of every class": (
        [
            *SUPPRESSED,
            ("Squeeze", ["boxes", "i0"], ["own"], {}),
            ("Gather", ["own", "index"], ["chosen"], {}),
            ("Slice", ["selected", "i1", "i3", "i1"], ["coordinates"], {}),
            ("Squeeze", ["scores", "i0"], ["of_classes"], {}),
            ("GatherND", ["of_classes", "coordinates"], ["score"], {}),
            ("Unsqueeze", ["score", "i1"], ["score_column"], {}),
            ("Cast", ["selected"], ["numbers"], {"to": 1}),
            ("Concat", ["numbers", "chosen", "score_column"], ["rows"], {"axis": 1}),
            ("Unsqueeze", ["rows", "i0"], ["batch"], {}),
        ],
        ["batch", "selected", "score"],
    ),
    "first ones": (
        [
            *SUPPRESSED,
            ("Slice", ["index", "i1", "i4", "i0"], ["some"], {}),
            ("Gather", ["table", "some"], ["chosen"], {}),
            ("Softmax", ["chosen"], ["y"], {"axis": 1}),
        ],
        ["y"],
    ),
    "nothing": (
        [
            ("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "none"], ["selected"], {}),
            *SUPPRESSED[1:],
            ("Gather", ["table", "index"], ["y"], {}),
        ],
        ["y", "selected"],
    ),
    "places": (FOUND[:2], ["places"]),
    "elements": (FOUND, ["few", "numbers", "places"]),
    "products": (
        [*FOUND, ("Transpose", ["table"], ["t"], {}), ("MatMul", ["few", "t"], ["y"], {})],
        ["y"],
    ),
    "reductions": (
        [
            *FOUND,
            *(
                (op, ["few", *more], [op], {"keepdims": keep, **axes})
                for op, keep, more, axes in (
                    ("ReduceMax", 0, [], {"axes": [0]}),
                    ("ReduceMin", 1, [], {"axes": [0, 1]}),
                    ("ReduceSum", 0, ["i0"], {}),
                    ("ReduceL2", 0, [], {"axes": [1]}),
                    ("ReduceProd", 0, [], {"axes": [0]}),
                    ("ArgMax", 0, [], {"axis": 0}),
                    ("ArgMin", 0, [], {"axis": 1}),
                )
            ),
        ],
        ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceProd", "ArgMax", "ArgMin"],
    ),
    "best of those found": (
        [
            *COUNTED,
            ("Min", ["count", "i20"], ["k"], {}),
            ("TopK", ["numbers", "k"], ["best", "where"], {}),
            ("Gather", ["few", "where"], ["y"], {}),
        ],
        ["best", "where", "y"],
    ),
    "sizes": (
        [
            *COUNTED,
            ("Concat", ["count", "i4"], ["wanted"], {"axis": 0}),
            ("Reshape", ["few", "wanted"], ["again"], {}),
            ("Expand", ["half", "wanted"], ["halves"], {}),
            ("Add", ["again", "halves"], ["y"], {}),
            ("Slice", ["values", "i0", "count"], ["front"], {}),
        ],
        ["y", "front"],
    ),
    "compressed": (
        [
            ("Greater", ["values", "half"], ["flags"], {}),
            ("Compress", ["table", "flags"], ["y"], {"axis": 0}),
            ("ReduceSum", ["y", "i0"], ["sums"], {}),
        ],
        ["y", "sums"],
    ),
    "suppressed of those found": (
        [
            *FOUND,
            ("Unsqueeze", ["few", "i0"], ["own"], {}),
            ("Unsqueeze", ["numbers", "i0"], ["line"], {}),
            ("Unsqueeze", ["line", "i0"], ["of_one"], {}),
            ("NonMaxSuppression", ["own", "of_one", "many", "overlap"], ["selected"], {}),
            ("Gather", ["selected", "i2"], ["column"], {"axis": 1}),
            ("Squeeze", ["column", "i1"], ["kept"], {}),
            ("Gather", ["few", "kept"], ["y"], {}),
            ("NonZero", ["numbers"], ["all"], {}),
        ],
        ["y", "selected", "all"],
    ),
}


def tail(name: str) -> onnx.ModelProto:
    """What is behind a detector: a network of boxes and scores."""
    return _model(*TAILS[name])


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("rows", ["1", "whole"])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_what_is_found_is_onnxruntimes_and_behind_it_is_the_fill(
    name: str, rows: str, backend: str
) -> None:
    if backend == "native" and compiler_missing():
        pytest.skip("no C compiler")
    model = tail(name)
    plan = csdfgen.plan(csdfgen.load(model), rows=rows, backend=backend)
    for seed in range(3):
        feeds = _feeds(model, seed)
        found = runtime.run(plan, feeds)
        outputs = found if isinstance(found, dict) else {model.graph.output[0].name: found}
        for one in (
            *check_outputs(model, plan, feeds, outputs),
            *check_rows(model, plan, feeds),
        ):
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


REFUSED: Mapping[str, tuple[Sequence[Written], str]] = {
    "mean": ([*FOUND, ("ReduceMean", ["few"], ["y"], {"axes": [0]})], "computes along it"),
    "softmax": ([*FOUND, ("Softmax", ["numbers"], ["y"], {"axis": 0})], "computes along it"),
    "merged": ([*FOUND, ("Reshape", ["few", "i-1"], ["y"], {})], "merges it"),
    "joined": ([*FOUND, ("Concat", ["few", "table"], ["y"], {"axis": 0})], "joins"),
    "pairs": (
        [
            *FOUND,
            ("Unsqueeze", ["numbers", "i0"], ["a"], {}),
            ("Unsqueeze", ["numbers", "i1"], ["b"], {}),
            ("Sub", ["a", "b"], ["y"], {}),
        ],
        "makes axes",
    ),
    "scattered": (
        [*FOUND, ("ScatterElements", ["values", "index", "numbers"], ["y"], {})],
        "not known to keep its positions apart",
    ),
    "last": ([*FOUND, ("Gather", ["few", "i-1"], ["y"], {})], "counts from the end"),
    "without the last": (
        [*FOUND, ("Slice", ["few", "i0", "i-1"], ["y"], {})],
        "counts from the end",
    ),
    "share": (
        [*COUNTED, ("Cast", ["count"], ["n"], {"to": 1}), ("Div", ["values", "n"], ["y"], {})],
        "computes with a number of positions",
    ),
    "count": (COUNTED, "computes with a number of positions"),
    "contracted": (
        [*FOUND, ("MatMul", ["values", "few"], ["y"], {})],
        "sums over it",
    ),
    "no limit": (
        [("NonMaxSuppression", ["boxes", "scores"], ["y"], {})],
        "max_output_boxes_per_class is absent",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_right_is_refused(case: str) -> None:
    steps, why = REFUSED[case]
    with pytest.raises(ModelError, match=why):
        csdfgen.load(_model(steps, ["count" if case == "count" else "y"]))


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
