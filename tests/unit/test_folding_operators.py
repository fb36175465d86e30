"""Pools, normalisations and reductions: what the laws of the samples do not say."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from csdfgen.errors import ModelError
from csdfgen.model.formats import FLOAT32, Format
from csdfgen.model.network import Node, Tensor
from csdfgen.model.rows import Rows, Window, slabs
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import AliasKind, CountingScratch, Mode, Work, phases
from csdfgen.ops.reducing import sum_of_squares, sum_over
from csdfgen.ops.windows import output_length, read_rows, resolve_pads, taps
from tests.op_harness import Arg, Sample, run_in_place
from tests.op_samples import normalization

X = Tensor("x", (1, 4, 6, 5), FLOAT32, 2)


def node(
    op_type: str,
    *rest: Any,
    x: Tensor = X,
    opset: int = 22,
    outputs: tuple[str, ...] = ("y",),
    **attributes: Any,
) -> Node:
    return Node("n", op_type, opset, attributes, (x, *rest), outputs)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


REFUSED = [
    (node("MaxPool", kernel_shape=[2, 2], outputs=("y", "indices")), "indices"),
    (node("MaxPool"), "kernel_shape"),
    (node("MaxPool", kernel_shape=[2]), "1 values, the input has 2"),
    (node("MaxPool", kernel_shape=[0, 2]), "least allowed is 1"),
    (node("MaxPool", kernel_shape=[2, 2], strides=[1, 0]), "strides"),
    (node("MaxPool", kernel_shape=[2, 2], dilations=[1, 1, 1]), "dilations"),
    (node("MaxPool", kernel_shape=[2, 2], pads=[0, 0, -1, 0]), "pads"),
    (node("MaxPool", kernel_shape=[2, 2], pads=[2, 0, 0, 0]), "reach the window"),
    (node("MaxPool", kernel_shape=[9, 2]), "do not fit"),
    (node("MaxPool", kernel_shape=[2, 2], auto_pad="SAME"), "auto_pad='SAME' is not one of"),
    (
        node("MaxPool", kernel_shape=[2, 2], x=Tensor("x", (1, 4, 6, 5), Format("int32"), 2)),
        "int32",
    ),
    (node("MaxPool", kernel_shape=[2], x=Tensor("x", (4, 6))), "at least 3"),
    (
        node("AveragePool", kernel_shape=[2, 2], x=Tensor("x", (1, 4, 0, 5), FLOAT32, 2)),
        "no elements",
    ),
    (node("LpPool", kernel_shape=[2, 2], p=0), "'p'=0"),
    (node("GlobalAveragePool", x=Tensor("x", (4, 6))), "at least 3"),
    (node("BatchNormalization", *[ones(4)] * 4, training_mode=1), "training_mode"),
    (node("BatchNormalization", *[ones(4)] * 4, outputs=("y", "mean")), "'mean'"),
    (node("BatchNormalization", *[ones(4, 6, 5)] * 4, opset=7, spatial=0), "spatial=0"),
    (node("BatchNormalization", ones(4), ones(4), ones(4), ones(3)), "input 4 has shape [3]"),
    (node("InstanceNormalization", ones(4)), "input 2 is absent"),
    (
        node("GroupNormalization", ones(4), ones(4), num_groups=3),
        "num_groups=3 does not divide the 4",
    ),
    (node("GroupNormalization", ones(4), ones(4), num_groups=2, opset=18), "[4]"),
    (node("LayerNormalization", ones(4)), "does not broadcast"),
    (node("LayerNormalization", ones(5), axis=4), "axis 4"),
    (node("LRN", size=0), "'size'=0"),
    (node("LpNormalization", p=3), "'p'=3"),
    (node("Softmax", axis=-5), "axis -5"),
    (node("ReduceMean", np.array([4])), "axis 4"),
    (node("ReduceMean", np.array([1, -3])), "twice"),
    (node("ReduceMean", Tensor("axes", (1,), Format("int64"))), "computed at run time"),
    (node("ReduceMean", x=Tensor("x", (1, 4), Format("bool"))), "bool"),
    (node("ArgMax", x=Tensor("x", ())), "no axis"),
    (node("CumSum", np.array([0, 1])), "2 numbers"),
]


@pytest.mark.parametrize(
    ("refused", "words"), REFUSED, ids=[f"{n.op_type}-{words}" for n, words in REFUSED]
)
def test_what_cannot_be_run_is_refused_in_one_line(refused: Node, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        OPERATORS[refused.op_type].build(refused)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def windows(seed: int) -> list[tuple[Window, int, int]]:
    """Seeded windows with the length of their input and the number of their positions."""
    rng = random.Random(seed)
    found = []
    while len(found) < 1500:
        window = Window(
            rng.randint(1, 4),
            rng.randint(1, 4),
            rng.randint(1, 4),
            rng.randint(0, 4),
            rng.randint(0, 4),
        )
        length = rng.randint(1, 12)
        count = output_length(window, length, ceil_mode=rng.random() < 0.5)
        if count > 0:
            found.append((window, length, count))
    return found


def reads(window: Window, position: int, length: int) -> list[tuple[int, int]]:
    """(tap, input position) of one position of a window, counted one by one."""
    begin = position * window.stride - window.pad_top
    places = [(tap, begin + tap * window.dilation) for tap in range(window.kernel)]
    return [(tap, place) for tap, place in places if 0 <= place < length]


def test_taps_and_rows_of_windows_are_those_counted_one_by_one() -> None:
    for window, length, count in windows(seed=3):
        for height in (1, 2, count):
            previous = Rows(0, 0)
            for out in slabs(count, height):
                counted = {
                    (tap, p)
                    for p in range(out.start, out.stop)
                    for tap, _ in reads(window, p, length)
                }
                assert {
                    (tap, p)
                    for tap, run in taps(window, out, length)
                    for p in range(run.start, run.stop)
                } == counted
                places = [
                    place
                    for p in range(out.start, out.stop)
                    for _, place in reads(window, p, length)
                ]
                rows = read_rows(window, out, length)
                assert all(rows.start <= place < rows.stop for place in places)
                assert not rows or (rows.start >= previous.start and rows.stop >= previous.stop)
                previous = rows or previous


def test_same_padding_leaves_a_position_for_every_stride() -> None:
    for auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        for kernel, stride, dilation, length in (
            (3, 2, 1, 7),
            (2, 2, 1, 5),
            (5, 1, 2, 4),
            (1, 3, 1, 6),
        ):
            begin, end = resolve_pads(
                auto_pad, (kernel,), (stride,), (dilation,), (0, 0), (length,)
            )
            assert output_length(Window(kernel, stride, dilation, begin, end), length) == -(
                -length // stride
            )
            assert (begin <= end) if auto_pad == "SAME_UPPER" else (begin >= end)


def test_sums_are_right_for_any_strides() -> None:
    rng = np.random.default_rng(5)
    for _ in range(400):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5], rng.integers(1, 5)))
        steps = rng.integers(1, 3, len(shape))
        stored = rng.standard_normal([n * s for n, s in zip(shape, steps, strict=True)])
        array = stored[tuple(slice(None, None, s) for s in steps)].transpose(
            rng.permutation(len(shape))
        )
        dims = tuple(int(d) for d in np.flatnonzero(rng.random(len(shape)) < 0.5))
        wide = np.zeros([2 * (1 if d in dims else n) for d, n in enumerate(array.shape)])
        out = wide[tuple(slice(None, None, 2) for _ in shape)]
        for make, values in ((sum_over, array), (sum_of_squares, array * array)):
            function, arguments = make(array, dims, out)
            function(*arguments)
            np.testing.assert_allclose(out, values.sum(dims, keepdims=True), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sample", normalization.SAMPLES, ids=str)
def test_a_normalisation_may_overwrite_its_input_where_it_says_so(sample: Sample) -> None:
    layer = sample.layer()
    if all(alias.kind is not AliasKind.INPLACE for alias in sample.operator.aliases(layer)):
        pytest.skip("it does not say so")
    want = sample.reference(layer, sample.feeds())[0]
    tolerance = 1e-2 if want.itemsize == 2 else 1e-4
    for height in (1, 2, layer.output.rows):
        np.testing.assert_allclose(
            run_in_place(sample, layer, sample.feeds(), 0, height),
            want,
            rtol=10 * tolerance,
            atol=tolerance,
        )


MODES = [
    (node("MaxPool", kernel_shape=[3, 3]), Mode.ROWS),
    (node("AveragePool", kernel_shape=[6, 2]), Mode.ACCUMULATE),
    (
        node("AveragePool", kernel_shape=[6, 2], x=Tensor("x", (1, 4, 6, 5), Format("float16"), 2)),
        Mode.ACCUMULATE,
    ),
    (node("AveragePool", kernel_shape=[5, 5]), Mode.ROWS),
    (node("GlobalAveragePool"), Mode.ACCUMULATE),
    (node("ReduceMean", np.array([1])), Mode.ROWS),
    (node("ReduceMean", np.array([2, 3])), Mode.ACCUMULATE),
    (
        node("ReduceMean", np.array([2, 3]), x=Tensor("x", (1, 4, 6, 5), Format("int32"), 2)),
        Mode.ACCUMULATE,
    ),
    (
        node("ReduceMax", np.array([2, 3]), x=Tensor("x", (1, 4, 6, 5), Format("int32"), 2)),
        Mode.ACCUMULATE,
    ),
    (node("ArgMax", axis=1), Mode.ROWS),
    (node("ArgMax", axis=2), Mode.WHOLE),
    (node("Softmax", axis=1), Mode.ROWS),
    (node("Softmax", axis=1, opset=11), Mode.WHOLE),
    (node("InstanceNormalization", ones(4), ones(4)), Mode.WHOLE),
    (node("LayerNormalization", ones(5)), Mode.ROWS),
    (node("LayerNormalization", ones(6, 5), axis=2), Mode.WHOLE),
]


@pytest.mark.parametrize(
    ("of", "mode"), MODES, ids=[f"{n.op_type}-{mode.value}" for n, mode in MODES]
)
def test_layers_divide_as_their_axes_allow(of: Node, mode: Mode) -> None:
    operator = OPERATORS[of.op_type]
    assert operator.mode(operator.build(of)) is mode


def test_the_axis_behind_a_folded_row_axis_becomes_the_row_axis() -> None:
    build = OPERATORS["ReduceMean"].build
    assert build(node("ReduceMean", np.array([2]), keepdims=0)).output.row_axis == 2
    assert build(node("ReduceMean", np.array([1]), keepdims=0)).output.row_axis == 1
    assert build(node("ReduceMean", np.array([2, 3]), keepdims=0)).output.row_axis is None
    assert build(node("ReduceMean", np.array([2, 3]))).output.row_axis == 2


def test_a_huge_window_over_few_channels_takes_little_workspace() -> None:
    layer = Sample("LRN", (Arg((1, 3, 2, 2), 2),), {"size": 10**9 + 1}, 13).layer()
    scratch = CountingScratch()
    (phase,) = phases(OPERATORS["LRN"], layer, 2)
    array = np.ones((2, 2, 1, 3), np.float32)
    list(OPERATORS["LRN"].kernel(layer)(Work(phase, [array], [array.copy()], scratch)))
    assert scratch.end < 4096
