"""Convolutions beyond the laws: crops, a bounded workspace, layers changed after build, refusals,
no allocation.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import ModelError
from csdfgen.model.formats import FLOAT32, Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import (
    Call,
    CountingScratch,
    DeclaringScratch,
    Mode,
    Phase,
    Scratch,
    Work,
    phases,
)
from csdfgen.ops.convolution import window
from csdfgen.ops.spread import Piece, Spread
from tests.models import model, onnxruntime_outputs
from tests.op_harness import Sample, heights, run_in_slabs
from tests.op_samples.convolution import SAMPLES


def build(
    op_type: str, x: tuple[int, ...], w: tuple[int, ...], *more: np.ndarray, **attributes: Any
) -> Layer:
    weights = np.random.default_rng(0).standard_normal(w).astype(np.float32)
    return OPERATORS[op_type].build(
        Node("c", op_type, 17, attributes, (Tensor("x", x, FLOAT32, 2), weights, *more), ("y",))
    )


def run(layer: Layer, x: np.ndarray, height: int) -> np.ndarray:
    """The layer's output in ONNX order, computed `height` rows a phase."""
    source = layer.inputs[0]
    assert source is not None
    stored = np.ascontiguousarray(source.to_storage(x))
    out = np.full(layer.output.storage_shape, np.nan, np.float32)
    emit = get_operator(layer).kernel(layer)
    for phase in phases(get_operator(layer), layer, height):
        rows = phase.ins[0]
        assert rows is not None
        for function, arguments in emit(
            Work(
                phase,
                [stored[rows.start : rows.stop], None, None],
                [out[phase.out.start : phase.out.stop]],
                CountingScratch(),
            )
        ):
            function(*arguments)
    return layer.output.to_onnx(out)


def random_input(layer: Layer) -> np.ndarray:
    source = layer.inputs[0]
    assert source is not None
    return np.random.default_rng(1).standard_normal(source.shape).astype(np.float32)


@pytest.mark.parametrize("height", [1, 2, 99])
@pytest.mark.parametrize(
    "pads",
    [(-1, 0, 0, 0), (0, 0, -2, -1), (-2, -1, -1, -2), (-1, 1, 2, -1), (-3, 0, 1, 0)],
    ids=str,
)
@pytest.mark.parametrize("group", [1, 4], ids=["dense", "depthwise"])
def test_negative_pads_crop_the_image(group: int, pads: tuple[int, ...], height: int) -> None:
    layer = build("Conv", (1, 4, 9, 8), (4, 4 // group, 3, 3), pads=list(pads), group=group)
    x = random_input(layer)
    top, left, bottom, right = pads
    cropped = x[:, :, max(0, -top) : 9 + min(0, bottom), max(0, -left) : 8 + min(0, right)]
    padded = np.pad(
        cropped, ((0, 0), (0, 0), (max(0, top), max(0, bottom)), (max(0, left), max(0, right)))
    )
    plain = build("Conv", padded.shape, (4, 4 // group, 3, 3), group=group)
    np.testing.assert_allclose(run(layer, x, height), run(plain, padded, 99), rtol=1e-5, atol=1e-5)


def test_the_crop_of_figure_1_skips_the_rows_that_it_cuts() -> None:
    layer = build("Conv", (1, 4, 11, 8), (4, 4, 5, 5), pads=[-1, 2, 0, 2])
    assert window(layer) == Window(5, pad_top=-1)
    assert [p.ins[0] for p in phases(get_operator(layer), layer, 1)][:2] == [Rows(1, 6), Rows(2, 7)]


def test_a_kernel_takes_weights_bias_and_pads_from_its_layer() -> None:
    layer = build("Conv", (1, 3, 6, 6), (4, 3, 3, 3), pads=[0, 1, 1, 1])
    scale, bias = np.arange(1.0, 5.0), np.arange(4.0, dtype=np.float32)
    changed = replace(
        layer,
        constants={
            1: (layer.constants[1] * scale[:, None, None, None]).astype(np.float32),
            2: bias,
        },
        attributes={**layer.attributes, "pads": (1, 1, 1, 1)},
        outputs=(replace(layer.output, shape=(1, 4, 6, 6)),),
    )
    x = random_input(layer)
    want = run(layer, x, 99) * scale.reshape(1, 4, 1, 1) + bias.reshape(1, 4, 1, 1)
    np.testing.assert_allclose(run(changed, x, 2)[:, :, 1:], want, rtol=1e-4, atol=1e-4)


def test_dense_weights_are_stored_once_in_the_order_of_the_products() -> None:
    layer = build("Conv", (1, 8, 6, 6), (16, 8, 3, 3))
    (product,) = (c for c in calls(layer, 99)[0] if c[0] is np.matmul)
    assert np.shares_memory(product[1][1], layer.constants[1])
    folded = replace(layer, constants={1: layer.constants[1] * np.ones((16, 1, 1, 1), np.float32)})
    (product,) = (c for c in calls(folded, 99)[0] if c[0] is np.matmul)
    assert np.shares_memory(product[1][1], folded.constants[1])


def calls(layer: Layer, height: int) -> tuple[list[Call], int]:
    """All calls of a frame on memory of their own, and the workspace that they take."""
    source = layer.inputs[0]
    assert source is not None
    stored, out = (
        np.zeros(source.storage_shape, source.dtype),
        np.zeros(layer.output.storage_shape, source.dtype),
    )
    emit = get_operator(layer).kernel(layer)

    def emitted(phase: Phase, scratch: Scratch) -> list[Call]:
        rows = phase.ins[0]
        assert rows is not None
        slabs = [stored[rows.start : rows.stop], None, None]
        return list(emit(Work(phase, slabs, [out[phase.out.start : phase.out.stop]], scratch)))

    used, found = 0, []
    for phase in phases(get_operator(layer), layer, height):
        counting = CountingScratch()
        emitted(phase, counting)
        used = max(used, counting.end)
        real = Scratch(np.empty(counting.end, np.uint8))
        found += emitted(phase, real)
        assert real.end == counting.end
    return found, used


WHOLE_MAPS: Mapping[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ("Conv", (1, 64, 224, 224), (64, 64, 3, 3), {"pads": [1, 1, 1, 1]}),
    "first": ("Conv", (1, 3, 224, 224), (64, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
    "dilated": (
        "Conv",
        (1, 64, 224, 224),
        (64, 64, 3, 3),
        {"pads": [36] * 4, "dilations": [36, 36]},
    ),
    "pointwise, padded": ("Conv", (1, 64, 224, 224), (64, 64, 1, 1), {"pads": [1, 1, 1, 1]}),
    "depthwise": ("Conv", (1, 64, 224, 224), (64, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 64}),
    "depthwise, strided": (
        "Conv",
        (1, 64, 224, 224),
        (64, 1, 3, 3),
        {"strides": [2, 2], "group": 64},
    ),
    "depthwise, dilated": (
        "Conv",
        (1, 64, 224, 224),
        (64, 1, 3, 3),
        {"pads": [9] * 4, "dilations": [9, 9], "group": 64},
    ),
    "transposed": (
        "ConvTranspose",
        (1, 64, 112, 112),
        (64, 64, 4, 4),
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
}


@pytest.mark.parametrize("name", WHOLE_MAPS)
def test_the_workspace_of_a_whole_map_in_one_phase_is_bounded(name: str) -> None:
    op_type, x, w, attributes = WHOLE_MAPS[name]
    _, used = calls(build(op_type, x, w, **attributes), 9999)
    assert used <= 1_000_000  # the map itself is 12.8 MB, its windows nine times that


def test_a_pointwise_convolution_needs_no_workspace() -> None:
    found, used = calls(
        build("Conv", (1, 64, 56, 56), (32, 64, 1, 1), np.zeros(32, np.float32)), 9999
    )
    assert used == 0
    assert [function for function, _ in found] == [np.matmul, np.add]


LITTLE_SCRATCH: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "depthwise": ((1, 240, 7, 9), (240, 1, 5, 5), {"pads": [2] * 4, "group": 240}),
    "depthwise, strided": ((1, 96, 9, 9), (96, 1, 3, 3), {"strides": [2, 2], "group": 96}),
    "depthwise, dilated": (
        (1, 80, 12, 12),
        (80, 1, 3, 3),
        {"pads": [4] * 4, "dilations": [4, 4], "group": 80},
    ),
    "grouped": ((1, 96, 7, 9), (64, 3, 3, 3), {"pads": [1] * 4, "group": 32}),
    "dense": ((1, 24, 7, 9), (40, 24, 3, 3), {"pads": [1] * 4}),
    "first": ((1, 1, 32, 32), (6, 1, 5, 5), {}),
}


@pytest.mark.parametrize("name", LITTLE_SCRATCH)
@pytest.mark.parametrize("scattered", [False, True], ids=["together", "scattered"])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_two_kibibytes_of_scratch_suffice(name: str, scattered: bool, biased: bool) -> None:
    x, w, attributes = LITTLE_SCRATCH[name]
    more = [np.arange(w[0], dtype=np.float32)] if biased else []
    layer = build("Conv", x, w, *more, **attributes)
    array, want = random_input(layer), run(layer, random_input(layer), 99)
    source = layer.inputs[0]
    assert source is not None
    stored = np.ascontiguousarray(source.to_storage(array))
    out = np.full(layer.output.storage_shape, np.nan, np.float32)
    emit = get_operator(layer).kernel(layer)
    for phase in phases(get_operator(layer), layer, 1):
        rows = phase.ins[0]
        assert rows is not None
        slab: Any = stored[rows.start : rows.stop]
        if scattered:
            runs = tuple((k, k + 1) for k in range(len(slab)))
            piece = Piece(0, x[1], runs, tuple(slab[a:b].copy() for a, b in runs))
            slab = Spread(slab.shape, slab.dtype, (piece,))
        asked = [slab, None, None], [out[phase.out.start : phase.out.stop]]
        declared = DeclaringScratch(0)
        list(emit(Work(phase, *asked, declared)))
        assert declared.end <= 1700
        for function, arguments in emit(
            Work(phase, *asked, Scratch(np.empty(declared.end, np.uint8)))
        ):
            function(*arguments)
    np.testing.assert_allclose(layer.output.to_onnx(out), want, rtol=1e-5, atol=1e-5)


def test_who_does_not_ask_for_the_least_pays_no_more_than_pixels_one_by_one() -> None:
    layer = build("Conv", (1, 1152, 7, 7), (1152, 1, 5, 5), pads=[2] * 4, group=1152)
    emit = get_operator(layer).kernel(layer)
    ends: dict[int, int] = {}
    for limit in (0, 4096, 8192):
        scratch = DeclaringScratch(limit)
        rows = np.zeros((5, 7, 1, 1152), np.float32)
        list(
            emit(
                Work(
                    Phase(Rows(3, 4), (Rows(1, 6), None, None)),
                    [rows, None, None],
                    [rows[:1]],
                    scratch,
                )
            )
        )
        ends[limit] = scratch.end
    pixel = 5 * 5 * 1152 * 4
    assert max(ends[0], ends[4096]) <= 8192 < ends[8192] <= pixel


class Poisoned(CountingScratch):
    """A workspace full of NaN, as another layer may leave it."""

    def take(self, shape: tuple[int, ...], dtype: str | np.dtype[Any] = "float32") -> np.ndarray:
        array = super().take(shape, dtype)
        array.fill(np.nan)
        return array


@pytest.mark.parametrize("sample", SAMPLES, ids=map(str, SAMPLES))
def test_all_that_is_read_was_written(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.op_harness.CountingScratch", Poisoned)
    layer, feeds = sample.layer(), sample.feeds()
    for height in heights(layer):
        for output in run_in_slabs(sample, layer, feeds, height):
            assert np.isfinite(output).all()


UFUNC_BUFFERS = 3 * np.getbufsize() * 4
"""Bytes that numpy sets aside while it broadcasts a bias, whatever the size of the operands."""


@pytest.mark.parametrize("name", WHOLE_MAPS)
def test_running_the_calls_allocates_no_arrays(name: str) -> None:
    op_type, x, w, attributes = WHOLE_MAPS[name]
    found, _ = calls(
        build(op_type, (*x[:2], 56, 56), w, np.zeros(64, np.float32), **attributes), 99
    )
    tracemalloc.start()
    try:
        for function, arguments in found:
            function(*arguments)
        assert tracemalloc.get_traced_memory()[1] < UFUNC_BUFFERS + 10_000
    finally:
        tracemalloc.stop()


def test_a_convolution_of_the_whole_height_accumulates_float16_in_float32() -> None:
    layer = build("Conv", (1, 4, 6, 6), (8, 4, 6, 6))
    assert get_operator(layer).mode(layer) is Mode.ACCUMULATE
    assert get_operator(layer).mode(build("Conv", (1, 4, 6, 6), (8, 4, 5, 6))) is Mode.ROWS
    half = replace(layer, outputs=(replace(layer.output, format=Format("float16")),))
    assert get_operator(layer).mode(half) is Mode.ACCUMULATE
    assert get_operator(layer).state(half) == FLOAT32


def test_cost_counts_multiply_accumulates() -> None:
    layer = build("Conv", (1, 8, 10, 10), (16, 4, 3, 3), group=2)
    assert get_operator(layer).cost(layer, Rows(0, 2)) == 2 * 8 * 16 * 4 * 9
    up = build("ConvTranspose", (1, 8, 10, 10), (8, 16, 2, 2), strides=[2, 2])
    assert get_operator(up).cost(up, Rows(0, 20)) == 100 * 8 * 16 * 4


REFUSED: Mapping[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "auto_pad='FULL' is not one of": ("Conv", (1, 3, 8, 8), (4, 3, 3, 3), {"auto_pad": "FULL"}),
    "group=2 does not divide the 3": ("Conv", (1, 3, 8, 8), (4, 3, 3, 3), {"group": 2}),
    "weights take 2 channels in 1": ("Conv", (1, 3, 8, 8), (4, 2, 3, 3), {}),
    "does not divide the 3 output": ("Conv", (1, 4, 8, 8), (3, 2, 3, 3), {"group": 2}),
    "kernel_shape=.* but the weights are": (
        "Conv",
        (1, 3, 8, 8),
        (4, 3, 3, 3),
        {"kernel_shape": [5, 5]},
    ),
    "'strides' has 1 values": ("Conv", (1, 3, 8, 8), (4, 3, 3, 3), {"strides": [2]}),
    "the least allowed is 1": ("Conv", (1, 3, 8, 8), (4, 3, 3, 3), {"dilations": [0, 1]}),
    "the output would be": ("Conv", (1, 3, 2, 8), (4, 3, 3, 3), {}),
    "the output would be \\[-?[0-9]+": (
        "Conv",
        (1, 3, 8, 8),
        (4, 3, 3, 3),
        {"pads": [-4, 0, -4, 0]},
    ),
    "weights of rank 3": ("Conv", (1, 3, 8, 8), (4, 3, 3), {}),
    "input of rank 6": ("Conv", (1, 3, 8, 8, 8, 8), (4, 3, 1, 1, 1, 1), {}),
    "empty operands": ("Conv", (1, 3, 8, 8), (0, 3, 3, 3), {}),
    "weights take 2 channels, the input": ("ConvTranspose", (1, 3, 8, 8), (2, 3, 3, 3), {}),
    "the least allowed is 0": (
        "ConvTranspose",
        (1, 3, 8, 8),
        (3, 3, 3, 3),
        {"pads": [-1, 0, 0, 0]},
    ),
    "output_shape=.* must be 2 integers": (
        "ConvTranspose",
        (1, 3, 8, 8),
        (3, 3, 3, 3),
        {"output_shape": [0, 9]},
    ),
    "output_padding=.* must be 2 integers": (
        "ConvTranspose",
        (1, 3, 8, 8),
        (3, 3, 3, 3),
        {"output_padding": [1]},
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_run_is_refused_with_both_numbers(message: str) -> None:
    op_type, x, w, attributes = REFUSED[message]
    with pytest.raises(ModelError, match=message):
        build(op_type, x, w, **attributes)


def test_operands_of_other_kinds_are_refused() -> None:
    with pytest.raises(ModelError, match="bias of shape"):
        build("Conv", (1, 3, 8, 8), (4, 3, 3, 3), np.zeros(3, np.float32))
    with pytest.raises(ModelError, match="bias are float64"):
        build("Conv", (1, 3, 8, 8), (4, 3, 3, 3), np.zeros(4))
    x, w = Tensor("x", (1, 3, 8, 8), FLOAT32, 2), Tensor("w", (4, 3, 3, 3))
    with pytest.raises(ModelError, match="must be a constant"):
        OPERATORS["Conv"].build(Node("c", "Conv", 17, {}, (x, w), ("y",)))


@pytest.mark.parametrize("where", ["SAME_UPPER", "SAME_LOWER"])
def test_an_odd_row_of_a_transposed_convolution_is_cut_at_one_end(where: str) -> None:
    rng = np.random.default_rng(2)
    proto = model(
        f'g (float[1,2,4,5] x) => (y) {{ y = ConvTranspose <auto_pad = "{where}", strides = [2, 2]> (x, w) }}',
        {"w": rng.normal(size=(2, 3, 3, 3)).astype(np.float32)},
    )
    x = {"x": rng.normal(size=(1, 2, 4, 5)).astype(np.float32)}
    found = runtime.run(csdfgen.plan(csdfgen.load(proto), backend="numpy"), x)["y"]
    np.testing.assert_allclose(found, onnxruntime_outputs(proto, x)["y"], atol=1e-5)
