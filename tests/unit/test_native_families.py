"""Layers with kernels of their own against numpy: odd shapes, strides and windows, rows anywhere, operands
in pieces, what follows in the slab; and which kernel is chosen, in how many bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.families import list_variants, match_family, winograd
from csdfgen.backends.native.families.convolution import Filter
from csdfgen.backends.native.families.winograd import row_bytes, tile_bytes
from csdfgen.backends.native.library import load
from csdfgen.backends.native.packing import aligned
from csdfgen.backends.native.strided import Loop, fuse_loops, translate_call
from csdfgen.backends.native.structures import NONE
from csdfgen.backends.native.ways import CONV, DOTS, ROWS, TILES, Variant, Ways
from csdfgen.backends.numpy.arrays import HostMemory
from csdfgen.model.network import Layer
from csdfgen.model.options import ways_text
from csdfgen.ops import get_operator
from csdfgen.ops.base import PREFERRED, Mode
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Backend, Move, Step
from runtime.session import Executable
from tests.builder import Graph, reference
from tests.lowered import Lowered, prepared
from tests.native_steps import (
    MACHINES,
    Convolution,
    Map,
    compiler_missing,
    kept_bytes,
    layer_of,
    run,
    step_of,
    workspace_bytes,
)
from tests.op_harness import Arg, Sample, heights
from tests.scattered import Layout, declared, run_scattered

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

SEEDS = range(24)


class Recorded(NativeKernels):
    """Says which kernels it has bound."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(load(), **settings)
        self.bound: set[str] = set()
        self.count = 0

    def lower(self, step: Step | Move, constants: Constants) -> list[Instruction]:
        made = super().lower(step, constants)
        self.bound |= {one.kernel for one in made}
        self.count += len(made)
        return made


def followed(layer: Layer, *others: tuple[str, dict[str, Any]]) -> Layer:
    """The layer with activations behind it in its slab."""
    made = [
        Sample(op_type, (Arg(layer.output.shape, layer.output.row_axis),), given).layer()
        for op_type, given in others
    ]
    return replace(layer, epilogue=tuple(made))


AFTER: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (),
    (("Relu", {}),),
    (("LeakyRelu", {"alpha": 0.3}),),
    (("HardSwish", {}),),
    (("Sigmoid", {}), ("Relu", {})),
    (("HardSigmoid", {"alpha": 0.4, "beta": 0.3}),),
)


def layouts(rng: np.random.Generator) -> Iterator[Layout]:
    """Rows that lie apart, and rows that do not, operands in pieces."""
    yield Layout(block=int(rng.integers(1, 4)), pieces=int(rng.integers(1, 4)))
    yield Layout(block=2, pieces=int(rng.integers(1, 4)), together=True)


def check(
    sample: Sample,
    rng: np.random.Generator,
    kernels: set[str],
    *,
    own: bool = True,
    **settings: Any,
) -> Recorded:
    """A sample with random layers behind it: what native code makes of it, and by these kernels alone."""
    native = Recorded(**settings)
    for after in (AFTER[0], AFTER[int(rng.integers(1, len(AFTER)))]):
        layer, feeds = followed(sample.layer(), *after), sample.feeds()
        for layout in layouts(rng):
            height = int(rng.choice(heights(layer)))
            wanted = run_scattered(layer, feeds, height, layout, None)
            sizes = declared(layer, height, layout, None) if rng.random() < 0.5 else None
            found = run_scattered(layer, feeds, height, layout, None, sizes, native)
            for got, want in zip(found, wanted, strict=True):
                scale = max(1e-3, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5 * scale)
    assert not own or native.bound <= {*kernels, "map_of"}, native.bound
    return native


def integers(rng: np.random.Generator, low: int, high: int, count: int = 2) -> list[int]:
    return [int(n) for n in rng.integers(low, high, count)]


def image(rng: np.random.Generator, channels: int) -> Arg:
    return Arg((1, channels, *integers(rng, 7, 15)), 2)


def planes(rng: np.random.Generator, channels: int) -> Arg:
    return Arg((1, channels, *integers(rng, 5, 10, 3)), 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_convolution(seed: int) -> None:
    """Also those with fewer products, with a workspace for all tiles and for few."""
    rng = np.random.default_rng(seed)
    groups, kernel = int(rng.choice([1, 1, 2])), integers(rng, 1, 6)
    ins, outs = integers(rng, 10, 80)
    weights = rng.standard_normal((groups * outs, ins, *kernel)).astype(np.float32)
    given = {
        "group": groups,
        "pads": integers(rng, 0, 3, 4),
        "strides": [int(rng.integers(1, 3)), int(rng.choice([1, 1, 2]))],
    }
    sample = Sample("Conv", (image(rng, groups * ins), weights), given)
    check(sample, rng, {"conv_of", "winograd_row_of", "winograd_of"})
    exact = check(sample, np.random.default_rng(seed), {"conv_of"}, ways=Ways(exact=True))
    assert exact.bound <= {"conv_of", "map_of"}


@pytest.mark.parametrize("seed", SEEDS)
def test_convolution_of_few_channels(seed: int) -> None:
    """Taps of a row are one run, or a window is: in place, or copied where padding interrupts it. Not a bit depends on which:
    on a map with its padding all are in place.
    """
    rng = np.random.default_rng(seed)
    kernel = [int(rng.integers(1, 11)), int(rng.integers(2, 7))]
    ins, outs = int(rng.integers(1, rng.choice([3, 18]))), int(rng.choice([9, 16, 40]))
    weights = rng.standard_normal((outs, ins, *kernel)).astype(np.float32)
    pads, strides = integers(rng, 0, 5, 4), [int(rng.integers(1, 3)), int(rng.integers(1, 3))]
    size = [max(int(rng.integers(3, 15)), k + 2) for k in kernel]
    given = {"pads": pads, "strides": strides}
    sample = Sample("Conv", (Arg((1, ins, *size), 2), weights), given)
    check(sample, rng, {"conv_of"}, ways=Ways(exact=True))
    whole = tuple(size[k] + pads[k] + pads[k + 2] for k in range(2))
    around = Sample("Conv", (Arg((1, ins, *whole), 2), weights), {"strides": strides})
    x = sample.feeds()[0]
    wide = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    layout = Layout(block=1, pieces=1, together=True)
    found = [
        run_scattered(
            one.layer(), {0: here}, 3, layout, None, None, Recorded(ways=Ways(exact=True))
        )
        for one, here in ((sample, x), (around, wide))
    ]
    np.testing.assert_array_equal(*(one[0] for one in found))


@pytest.mark.parametrize("seed", SEEDS)
def test_convolution_of_few_outputs(seed: int) -> None:
    """Vectors lie along the sums where these are long; not a bit depends on the height of slabs, or on workspace."""
    rng = np.random.default_rng(seed)
    ins, outs, kernel = int(rng.integers(8, 70)), int(rng.integers(1, 9)), integers(rng, 3, 6)
    weights = rng.standard_normal((outs, ins, *kernel)).astype(np.float32)
    given = {"pads": integers(rng, 0, 4, 4), "strides": integers(rng, 1, 3)}
    sample = Sample("Conv", (image(rng, ins), weights), given)
    check(sample, rng, {"conv_dots_of"})
    check(sample, rng, {"conv_of"}, ways=Ways(exact=True))
    layer, feeds, found = sample.layer(), sample.feeds(), []
    for height, sizes in ((1, None), (4, None), (2, [0] * 40)):
        native = Recorded()
        found += run_scattered(layer, feeds, height, Layout(pieces=2), None, sizes, native)
        assert native.bound == {"conv_dots_of"}
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_fewer_products_are_chosen_where_they_are_faster() -> None:
    weights = np.ones((64, 64, 3, 3), np.float32)
    sample = Sample("Conv", (Arg((1, 64, 16, 28), 2), weights), {"pads": [1, 1, 1, 1]})
    layer = sample.layer()
    for height, kernel in ((1, "winograd_row_of"), (4, "winograd_of")):
        native = Recorded()
        run_scattered(layer, sample.feeds(), height, Layout(), None, None, native)
        assert native.bound == {kernel}
    native = Recorded()
    run_scattered(layer, sample.feeds(), 4, Layout(), None, [0] * 4, native)
    assert native.bound == {"conv_of"}  # without workspace


@pytest.mark.parametrize("height", [1, 3, 4, 9])
def test_every_variant_computes_the_same(height: int) -> None:
    """Each in its own kernel; without room for it, as estimated."""
    rng = np.random.default_rng(height)
    weights = (0.1 * rng.standard_normal((40, 96, 3, 3))).astype(np.float32)
    sample = Sample("Conv", (Arg((1, 96, 9, 21), 2), weights), {"pads": [1, 1, 1, 1]})
    layer = sample.layer()
    variants = list_variants(layer, height)
    assert {"conv", "conv/640", "rows", "tiles2", "tiles4", "rows-plain", "tiles4-plain"} <= set(
        map(str, variants)
    )
    few = Sample("Conv", (Arg((1, 96, 9, 21), 2), weights[:5]), {}).layer()
    assert {"conv", "dots", "rows"} <= set(map(str, list_variants(few, height)))
    for variant in variants:
        ways = Ways(text=ways_text({layer.name: {1: variant}}))
        found = {
            f"{variant.kernel}_of"
        }  # beside weights at points, plain ones would be a second copy
        check(
            sample,
            np.random.default_rng(height),
            found if variant.at_points else {*found, "conv_of"},
            ways=ways,
        )
        alone = Recorded(ways=ways)
        run_scattered(layer, sample.feeds(), height, Layout(), None, None, alone)
        assert alone.bound == {f"{variant.kernel}_of"}
        least = Recorded(ways=ways)
        run_scattered(layer, sample.feeds(), height, Layout(), None, [0] * 9, least)
        assert least.bound == {"conv_of"}


def test_a_variant_holds_from_its_height_on() -> None:
    weights = np.ones((64, 64, 3, 3), np.float32)
    sample = Sample("Conv", (Arg((1, 64, 16, 28), 2), weights), {"pads": [1, 1, 1, 1]})
    layer = sample.layer()
    given = {2: Variant(CONV), 4: Variant("winograd_row")}
    ways = Ways(text=ways_text({layer.name: given}))
    for height, kernel in (
        (1, "winograd_row"),
        (2, "conv"),
        (4, "winograd_row"),
        (8, "winograd_row"),
    ):
        native = Recorded(ways=ways)
        run_scattered(layer, sample.feeds(), height, Layout(), None, None, native)
        assert native.bound == {f"{kernel}_of"}, height
    exact = Recorded(ways=Ways(exact=True, text=ways.text))
    run_scattered(layer, sample.feeds(), 4, Layout(), None, None, exact)
    assert exact.bound == {"conv_of"}


@pytest.mark.parametrize("exact", [True, False])
def test_sums_have_the_passes_that_are_asked_for(exact: bool) -> None:
    weights = np.ones((64, 96, 3, 3), np.float32)
    own = Filter(weights, None, 1, (1, 1), (1, 1), 1, (NONE, 0.0, 0.0))
    asked = Variant(CONV, block=640)
    assert asked in own.variants(4, 28)
    assert own.way(4, 28, PREFERRED, exact, asked).some == 640


def test_a_variant_that_a_layer_does_not_have_is_passed_over() -> None:
    weights = np.ones((64, 64, 3, 3), np.float32)
    sample = Sample("Conv", (Arg((1, 64, 16, 28), 2), weights), {"pads": [1, 1, 1, 1]})
    layer = sample.layer()
    found = []
    for text in ("", ways_text({layer.name: {1: Variant(DOTS)}})):
        native = Recorded(ways=Ways(text=text))
        run_scattered(layer, sample.feeds(), 4, Layout(), None, None, native)
        found.append(native.bound)
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", [0, 5000, 100_000, 200_000, 10_000_000])
def test_workspace_is_within_its_limit(limit: int) -> None:
    weights = np.ones((128, 96, 3, 3), np.float32)
    layer = Sample("Conv", (Arg((1, 96, 16, 28), 2), weights), {"pads": [1, 1, 1, 1]}).layer()
    for size in declared(layer, 4, Layout(), limit, NativeKernels(load())):
        assert size <= limit
        assert size > 0 or limit < 200_000  # too little for any way but the plain one


@pytest.mark.parametrize("seed", range(12))
def test_workspace_is_what_the_kernel_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, (ins, outs) = int(rng.integers(1, 4)), integers(rng, 1, 200)
    high, stride, dilation = integers(rng, 1, 5, 3)
    weights = np.ones((groups * outs, ins, high, 3), np.float32)
    layer = Convolution(
        weights, None, groups, (stride, 1), (dilation, 1), kind="winograd_row", tile=1
    )
    struct, _kept = layer_of(layer)
    rows, tiles, channels = integers(rng, 1, 9, 3)
    shape = ins, outs, high, stride, dilation
    said = workspace_bytes(load(), "winograd_row", struct, rows, tiles, channels)
    assert row_bytes(shape, rows, tiles, channels) == said
    assert winograd.kept_bytes(outs, 6, high) == kept_bytes(load(), "winograd_row", struct, 0)
    whole, _own = layer_of(replace(layer, groups=1))
    for tile in (2, 4):
        said = workspace_bytes(load(), "winograd", struct, tile, tiles, channels)
        assert tile_bytes((ins, groups * outs, 3, 1, 1), tile, tiles, channels) == said
        said = kept_bytes(load(), "winograd", whole, tile)
        assert winograd.kept_bytes(groups * outs, 6 * (tile + 2)) == said


@pytest.mark.parametrize("seed", range(24))
def test_all_workspace_is_used(seed: int) -> None:
    """A kernel shares its tiles out evenly, and takes no more than it then fills; in that it does the same."""
    rng = np.random.default_rng(seed)
    ins, outs, high, wide = (int(n) for n in rng.integers([1, 1, 2, 2], [9, 9, 13, 60]))
    weights = rng.standard_normal((16 * outs, 16 * ins, 3, 3)).astype(np.float32)
    own = Filter(weights, None, 1, (1, 1), (1, 1), 1, (NONE, 0.0, 0.0))
    at_points = seed % 8 > 3
    wished = (
        None,
        Variant(ROWS, 0, at_points),
        Variant(TILES, 2, at_points),
        Variant(TILES, 4, at_points),
    )[seed % 4]
    room = int(rng.integers(60_000, 400_000)) + own.preferred - PREFERRED
    way = own.way(high, wide, room, wished=wished)
    assert way.kernel in (ROWS, TILES)
    assert own.way(high, wide, way.workspace, wished=wished) == way
    layer = Convolution(
        weights, pads=(1, 1, 1, 1), kind=way.kernel, tile=way.tile, at_points=way.at_points
    )
    x = rng.standard_normal((high, wide, 16 * ins)).astype(np.float32)
    out = Map.empty((high, wide, 16 * outs))
    bound = step_of(load(), layer, [Map.of(x)], out)
    workspace = aligned(np.full(way.workspace // 4, np.nan))
    bound.step.workspace, bound.step.workspace_bytes = workspace.ctypes.data, way.workspace
    bound.step.some = way.some
    run(load(), layer, bound)
    assert not np.isnan(workspace[-16:]).any()


def test_the_same_step_is_always_computed_alike() -> None:
    weights = np.ones((64, 96, 3, 3), np.float32)
    own = Filter(weights, None, 1, (1, 1), (1, 1), 1, (NONE, 0.0, 0.0))
    ways = [own.way(4, 56, room) for room in range(0, 600_000, 20_000)]
    assert ways == [own.way(4, 56, room) for room in range(0, 600_000, 20_000)]
    assert [ways[0].kernel, ways[-1].kernel] == ["conv", "winograd"]
    assert all(way.workspace <= 20_000 * k for k, way in enumerate(ways))


@pytest.mark.parametrize("of", [image, planes])
@pytest.mark.parametrize("seed", SEEDS)
def test_transposed_convolution(seed: int, of: Callable[[np.random.Generator, int], Arg]) -> None:
    """Kernels no smaller than their strides; those that leave outputs out are numpy's, translated."""
    rng = np.random.default_rng(seed)
    sides = 2 if of is image else 3
    groups, strides = int(rng.choice([1, 1, 2, 3])), integers(rng, 1, 4, sides)
    kernel = [s + int(rng.integers(0, 3)) for s in strides]
    ins, outs = integers(rng, 1, 20)
    weights = rng.standard_normal((groups * ins, outs, *kernel)).astype(np.float32)
    given: dict[str, Any] = {"group": groups, "strides": strides}
    if seed % 3:
        given["pads"] = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
    if seed % 2:
        given["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    inputs = (of(rng, groups * ins), weights, rng.standard_normal(groups * outs).astype("f"))
    kernels = {"conv_of", "conv_dots_of", "winograd_row_of", "depthwise_of"}
    check(Sample("ConvTranspose", inputs, given), rng, kernels)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("surplus", [0, 1, 2])
@pytest.mark.parametrize(("kernel", "pad"), [(3, 0), (3, 1), (4, 1), (5, 2), (7, 3)])
def test_residues_of_rows_are_channels(kernel: int, pad: int, surplus: int, dilation: int) -> None:
    """Few channels: a call for every residue of the rows, and one for each column that is left over. Where pixels of a
    larger map are written, each residue has its own.
    """
    rng = np.random.default_rng(kernel)
    stride = 3
    weights = rng.standard_normal((5, 2, kernel, kernel)).astype(np.float32)
    given = {"strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2}
    given["output_padding"] = [0, surplus]
    bias = rng.standard_normal(2).astype(np.float32)
    sample = Sample("ConvTranspose", (Arg((1, 5, 6, 9), 2), weights, bias), given)
    layer, native = sample.layer(), Recorded()
    whole = layer.output.rows
    layout = Layout(block=1, together=True)
    (wanted,) = run_scattered(layer, sample.feeds(), whole, layout, None)
    (found,) = run_scattered(layer, sample.feeds(), whole, layout, None, None, native)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert native.count == stride + stride * (layer.output.shape[-1] % stride)
    check(sample, rng, {"conv_of", "conv_dots_of"})


@pytest.mark.parametrize("seed", SEEDS)
def test_convolution_of_planes(seed: int) -> None:
    """Many channels, whose planes are taken for channels; few and in groups, whose planes are rows. Also
    windows that see nothing but padding.
    """
    rng = np.random.default_rng(seed)
    groups, kernel = int(rng.choice([1, 1, 1, 2])), integers(rng, 1, 4, 3)
    ins, outs = int(rng.integers(1, 60)), int(rng.integers(1, 40))
    weights = rng.standard_normal((groups * outs, ins, *kernel)).astype(np.float32)
    bias = rng.standard_normal(groups * outs).astype(np.float32)
    given = {
        "group": groups,
        "pads": integers(rng, 0, 4, 6),
        "strides": [*integers(rng, 1, 3), int(rng.choice([1, 1, 2]))],
        "dilations": [*integers(rng, 1, 3), int(rng.choice([1, 1, 2]))],
    }
    inputs = (planes(rng, groups * ins), weights, *((bias,) if seed % 3 else ()))
    sample = Sample("Conv", inputs, given)
    sums = {"conv_of", "conv_dots_of"}
    check(sample, rng, {*sums, "winograd_row_of", "winograd_of"})
    check(sample, np.random.default_rng(seed), {"conv_of"}, ways=Ways(exact=True))


@pytest.mark.parametrize("seed", range(16))
def test_sums_over_planes(seed: int) -> None:
    """One plane is made of all: what there was before is added to, the bias once, the activation at the end."""
    rng = np.random.default_rng(seed)
    x = planes(rng, int(rng.choice([6, 42])))
    channels, groups = x.shape[1], (1, 1, 2, x.shape[1])[seed % 4]
    kernel = [x.shape[2], *integers(rng, 1, 4)]
    outs = groups if groups == channels else groups * int(rng.integers(1, 30))
    weights = rng.standard_normal((outs, channels // groups, *kernel)).astype(np.float32)
    bias = rng.standard_normal(outs).astype(np.float32)
    pads = [0, *integers(rng, 0, 3), 0, *integers(rng, 0, 3)]
    sample = Sample("Conv", (x, weights, bias), {"group": groups, "pads": pads})
    assert get_operator(sample.layer()).mode(sample.layer()) is Mode.ACCUMULATE
    check(
        sample, rng, {"conv_of", "conv_dots_of", "winograd_row_of", "winograd_of", "depthwise_of"}
    )


@pytest.mark.parametrize("seed", range(12))
def test_depthwise_convolution_of_planes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels, kernel = int(rng.integers(2, 60)), integers(rng, 1, 4, 3)
    weights = rng.standard_normal((channels, 1, *kernel)).astype(np.float32)
    given = {
        "group": channels,
        "pads": integers(rng, 0, 3, 6),
        "strides": integers(rng, 1, 3, 3),
        "dilations": integers(rng, 1, 3, 3),
    }
    check(Sample("Conv", (planes(rng, channels), weights), given), rng, {"depthwise_of"})


def test_fewer_products_are_chosen_of_planes_too() -> None:
    """Planes at the border have no other weights than those within: padding is not multiplied."""
    weights = np.ones((64, 32, 3, 3, 3), np.float32)
    x = Arg((1, 32, 4, 16, 28), 2)
    sample = Sample("Conv", (x, weights), {"pads": [1] * 6})
    layer = sample.layer()
    native = Recorded()
    run_scattered(layer, sample.feeds(), 2, Layout(), None, None, native)
    assert native.bound == {"winograd_of"}
    assert {"conv", "rows", "tiles2", "tiles4"} <= set(map(str, list_variants(layer, 1)))


@pytest.mark.parametrize("of", [image, planes])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("seed", SEEDS)
def test_pool(seed: int, op_type: str, of: Callable[[np.random.Generator, int], Arg]) -> None:
    rng = np.random.default_rng(seed)
    sides = 2 if of is image else 3
    kernel = integers(rng, 1, 5, sides)
    given: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": integers(rng, 1, 4, sides),
        "pads": [int(rng.integers(0, k)) for k in (*kernel, *kernel)],
        "ceil_mode": int(rng.integers(0, 2)),
        "dilations": [1 if k in (1, 4) else int(rng.integers(1, 3)) for k in kernel],
    }
    if op_type == "AveragePool":
        given["count_include_pad"] = int(rng.integers(0, 2))
    channels = int(rng.integers(1, 40))
    check(Sample(op_type, (of(rng, channels),), given, 22), rng, {"pool_of"})


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "columns"),
    [(1, 9, 1, 40), (3, 5, 2, 40), (40, 5, 1, 300), (300, 13, 1, 20), (2, 70, 1, 75)],
)
def test_pools_of_lines(
    op_type: str, channels: int, kernel: int, stride: int, columns: int
) -> None:
    """Windows that overlap, or see few channels: rows first, in parts where a line has no room for all columns."""
    given = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
    arg = Arg((1, channels, 8, columns), 2)
    check(Sample(op_type, (arg,), given, 22), np.random.default_rng(kernel), {"pool_of"})


@pytest.mark.parametrize("op_type", ["GlobalMaxPool", "GlobalAveragePool"])
@pytest.mark.parametrize("channels", [1, 5, 16, 40, 67])
def test_global_pool(channels: int, op_type: str) -> None:
    """More pixels than a table has room for."""
    rng = np.random.default_rng(channels)
    for sides in ((9, 150), (5, 9, 15)):
        check(Sample(op_type, (Arg((1, channels, *sides), 2),)), rng, {"pool_of"})


@pytest.mark.parametrize("op_type", ["MaxPool", "GlobalMaxPool", "AveragePool"])
def test_pools_hand_on_what_is_not_a_number(op_type: str) -> None:
    given = {} if op_type.startswith("Global") else {"kernel_shape": [3, 3]}
    sample = Sample(op_type, (Arg((1, 19, 8, 9), 2),), given)
    layer, feeds = sample.layer(), sample.feeds()
    feeds[0][0, 3, 2, 4] = feeds[0][0, 17, 5, 5] = np.nan
    for height in heights(layer):
        (want,) = run_scattered(layer, feeds, height, Layout(), None)
        (got,) = run_scattered(layer, feeds, height, Layout(), None, None, Recorded())
        assert np.array_equal(np.isnan(got), np.isnan(want)) and np.isnan(got).any()


SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((1, 21, 6, 9), (1, 21, 6, 9)),
    ((1, 21, 6, 9), (1, 21, 1, 1)),
    ((1, 21, 6, 9), (1, 1, 6, 9)),
    ((1, 16, 6, 9), (1, 16, 6, 1)),
    ((1, 1, 6, 9), (1, 16, 6, 9)),
    ((1, 70, 5, 3), (1, 70, 5, 3)),
    ((1, 8, 5, 1), (1, 8, 5, 1)),
)


ALONE: tuple[tuple[str, dict[str, Any]], ...] = (
    *(one for after in AFTER for one in after),
    ("Swish", {"alpha": 1.5}),
    ("Tanh", {}),
    ("Erf", {}),
    ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("Mish", {}),
)


def _maps() -> Iterator[Sample]:
    """Two maps of one shape, or broadcast along channels, rows, columns; maps and constants, of which few channels are taken
    together with the columns; functions.
    """
    rng = np.random.default_rng(5)
    for op_type, shapes in product(("Add", "Sub", "Mul", "Div"), SHAPES):
        a, b = (Arg(shape, 2) for shape in shapes)
        yield Sample(op_type, (a, b))
        if op_type in ("Sub", "Div"):
            yield Sample(op_type, (b, a))
    for channels, op_type in product((3, 21, 64, 80), ("Add", "Mul", "Sub", "Div", "PRelu")):
        x = Arg((1, channels, 6, 9), 2)
        each = rng.standard_normal((channels, 1, 1)).astype(np.float32) + 3
        yield from (Sample(op_type, (x, each)), Sample(op_type, (x, np.float32([[[1.7]]]))))
        if op_type in ("Add", "Mul"):
            yield Sample(op_type, (each[None], x))
    yield from (Sample("Sum", (Arg((1, 21, 6, 9), 2),) * count) for count in (1, 2, 3, 5))
    for channels in (3, 40, 100):
        each = rng.random((4, channels)).astype(np.float32) + np.float32(0.1)
        yield Sample("BatchNormalization", (image(rng, channels), *each), {"epsilon": 1e-3})
    for channels, (op_type, given) in product((1, 6, 35), ALONE):
        opset = {"Swish": 24, "Gelu": 20, "Mish": 18}.get(op_type, 17)
        yield Sample(op_type, (image(rng, channels),), given, opset)


@pytest.mark.parametrize("sample", list(_maps()), ids=str)
def test_maps(sample: Sample) -> None:
    check(sample, np.random.default_rng(len(str(sample))), {"map_of"})


def test_what_follows_several_sums_is_applied_to_the_last() -> None:
    sample = Sample("Sum", (Arg((1, 21, 6, 9), 2),) * 3)
    layer, feeds, native = followed(sample.layer(), ("Relu", {})), sample.feeds(), Recorded()
    wanted = np.maximum(sum(feeds.values()), 0)
    (found,) = run_scattered(layer, feeds, 2, Layout(), None, None, native)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert native.bound == {"map_of"}


@pytest.mark.parametrize("low", [-200.0, -30.0, -1e-3])
def test_sigmoid_everywhere(low: float) -> None:
    sample = Sample("Sigmoid", (Arg((1, 64, 9, 9), 2),))
    feeds = {0: np.linspace(low, -low, 64 * 81, dtype=np.float32).reshape(1, 64, 9, 9)}
    feeds[0][0, 0, 0, :3] = np.nan, np.inf, -np.inf
    (got,) = run_scattered(sample.layer(), feeds, 3, Layout(), None, None, Recorded())
    with np.errstate(over="ignore"):
        want = 1 / (1 + np.exp(-feeds[0].astype(np.float64)))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-37)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(value) for value in x])


@pytest.mark.parametrize(
    ("op_type", "given", "exactly", "relative", "absolute"),
    [
        ("Tanh", {}, np.tanh, 4e-7, 0.0),
        ("Erf", {}, _erf, 4e-7, 0.0),
        ("Mish", {}, lambda x: x * np.tanh(np.log1p(np.exp(x))), 6e-7, 0.0),
        # the negative tails of these are differences of numbers around 1
        ("Gelu", {}, lambda x: x / 2 * (1 + _erf(x / math.sqrt(2))), 2e-7, 4e-7),
        (
            "Gelu",
            {"approximate": "tanh"},
            lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
            2e-7,
            4e-7,
        ),
    ],
)
def test_functions_are_rounded_float32(
    op_type: str,
    given: dict[str, Any],
    exactly: Callable[[np.ndarray], np.ndarray],
    relative: float,
    absolute: float,
) -> None:
    small = np.geomspace(1e-30, 0.1, 64 * 40)
    x = np.concatenate([np.linspace(-15, 15, 64 * 80), small, -small]).astype(np.float32)
    x[:3] = np.nan, 300.0, 0.0
    layer = Sample(op_type, (Arg((1, 64, 16, 10), 2),), given, 20).layer()
    feeds = {0: x.reshape(1, 64, 16, 10)}
    backend = Recorded()
    (got,) = run_scattered(layer, feeds, 3, Layout(), None, None, backend)
    assert backend.bound == {"map_of"}
    want = exactly(x.astype(np.float64)).reshape(got.shape)
    np.testing.assert_allclose(got, want, rtol=relative, atol=absolute)


def test_families_are_asked_once_a_layer() -> None:
    layer = Sample("MaxPool", (Arg((1, 3, 9, 8), 2),), {"kernel_shape": [2, 2]}).layer()
    assert match_family(layer) is match_family(layer) is not None


# Copies that continue each other -----------------------------------------------------------------


def _run(loops: list[Loop], constants: Constants) -> None:
    """Loops over arrays of the test's, which are constants to them."""
    made = Lowered({}, [loop.lower(constants) for loop in loops], constants)
    prepared(NativeKernels(load()), made, HostMemory())()


@pytest.mark.parametrize("many", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_copies_that_shuffle_channels_are_one(many: int, dtype: str) -> None:
    source = np.arange(6 * many * 7).astype(dtype).reshape(6, many, 7)
    out = np.zeros((6, 7, many), dtype)
    calls = [(np.copyto, (out[..., k], source[:, k])) for k in range(many)]
    constants = Constants()
    loops = [loop for call in calls for loop in translate_call(call, constants)]
    (one,) = fuse_loops(loops, constants)
    _run([one], constants)
    assert np.array_equal(out, source.swapaxes(1, 2))


def test_copies_from_what_was_copied_stay_in_order() -> None:
    values = np.arange(12.0)
    want = values.copy()
    calls = [(np.copyto, (values[k + 3 : k + 6], values[k : k + 3])) for k in (0, 3, 6)]
    for function, arguments in calls:
        function(*(a.copy() if k else a for k, a in enumerate(arguments)))
    done, values[:] = values.copy(), want
    constants = Constants()
    loops = [loop for call in calls for loop in translate_call(call, constants)]
    assert len(fuse_loops(loops, constants)) == 3
    _run(fuse_loops(loops, constants), constants)
    assert np.array_equal(values, done)


@pytest.mark.parametrize("by", [-3001, -1, 0, 1, 64, 3001])
def test_a_run_may_overlap_its_copy(by: int) -> None:
    values = np.random.default_rng(0).integers(0, 256, 12000).astype(np.uint8)
    want = values[4000:8000].copy()
    constants = Constants()
    call = np.copyto, (values[4000 + by : 8000 + by], values[4000:8000])
    _run(list(translate_call(call, constants)), constants)
    assert np.array_equal(values[4000 + by : 8000 + by], want)


def test_copies_of_two_constants_stay_apart() -> None:
    """The pool of constants says nothing of where each array is."""
    out = np.zeros((2, 64), np.float32)
    given = [np.full(64, value, np.float32) for value in (1, 2)]
    constants = Constants()
    calls = [(np.copyto, (target, values)) for target, values in zip(out, given, strict=True)]
    loops = [loop for call in calls for loop in translate_call(call, constants)]
    found = fuse_loops(loops, constants)
    assert len(found) == 2
    _run(found, constants)
    assert out.tolist() == [[1] * 64, [2] * 64]


def test_zeros_of_both_signs_are_constants_of_their_own() -> None:
    x, out = np.full(5, -1.0), np.zeros((2, 5))
    constants = Constants()
    calls = [(np.multiply, (x, zero, row)) for zero, row in zip((0.0, -0.0), out, strict=True)]
    _run([loop for call in calls for loop in translate_call(call, constants)], constants)
    assert np.signbit(out).tolist() == [[True] * 5, [False] * 5]


def test_copies_of_uneven_distance_stay_apart() -> None:
    source, out = np.arange(40.0), np.zeros(40)
    calls = [(np.copyto, (out[k : k + 4], source[k : k + 4])) for k in (0, 4, 12, 24)]
    constants = Constants()
    loops = [loop for call in calls for loop in translate_call(call, constants)]
    found = fuse_loops(loops, constants)
    assert len(found) == 2
    _run(found, constants)
    assert [int(v) for v in out if v] == [*range(1, 8), *range(12, 16), *range(24, 28)]


@pytest.mark.parametrize("form", ["host", "scalar"])
@pytest.mark.parametrize("seed", SEEDS)
def test_products_of_two_activations(seed: int, form: str) -> None:
    """Any strides and broadcast matrices in front; some of the rows and columns are the same bits as all."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(rng.choice([1, 3, 16, 33, 70])) for _ in range(2))
    depth = int(rng.choice([1, 4, 21, 40, 64, 97]))
    front = ((), (3,), (2, 3))[seed % 3]

    def matrices(height: int, width: int, broadcast: bool) -> np.ndarray:
        shape = (*(1 if broadcast else size for size in front), height, width)
        order = rng.permutation(len(shape))
        inner = 1 + int(rng.random() < 0.3)
        made = np.zeros((*(shape[k] for k in order), inner), np.float32)
        made[...] = rng.standard_normal(made.shape)
        return made[..., 0].transpose(np.argsort(order))

    a, b = matrices(rows, depth, seed % 4 == 1), matrices(depth, columns, seed % 4 == 2)
    out = np.full((*front, rows, columns + 1), np.nan, np.float32)
    out = out if seed % 2 else out.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    backend = NativeKernels(load(MACHINES[form]))

    def multiplied(of_rows: slice, of_columns: slice) -> np.ndarray:
        constants, target = Constants(), out.copy("K")[..., of_rows, of_columns]
        call = np.matmul, (a[..., of_rows, :], b[..., :, of_columns], target)
        loops = translate_call(call, constants)
        assert [loop.kernel for loop in loops] == ["matmul_f32"]
        made = Lowered({}, [loop.lower(constants) for loop in loops], constants)
        prepared(backend, made, HostMemory())()
        assert (
            target.base is not None
            and np.isnan(target.base).sum() == target.base.size - target.size
        )
        return target

    whole = multiplied(slice(rows), slice(columns))
    want = np.matmul(a.astype(np.float64), b)
    rounding = 1e-5 * max(1.0, float(np.abs(want).max()))
    assert np.abs(whole - want).max() < rounding
    # without vectors, the compiler chooses which sums are fused with their products
    unlike = 0.0 if form == "host" else rounding
    for part in (slice(1), slice(rows // 3, rows), slice(rows - 1, rows)):
        assert np.abs(multiplied(part, slice(columns)) - whole[..., part, :]).max() <= unlike
    part = slice(columns // 2, columns)
    assert np.abs(multiplied(slice(rows), part) - whole[..., part]).max() <= unlike


def _is_kernel_set(found: Backend) -> bool:
    return found.name == "native"


def test_forms_of_the_backend_are_kernel_sets() -> None:
    assert _is_kernel_set(NativeKernels(load(), ways=Ways(exact=True)))


def test_a_piece_of_one_channel_is_no_channel_for_all() -> None:
    """Found by random networks: a Relu of an image of one channel, joined with its convolution."""
    graph = Graph()
    x = graph.input("x", (1, 1, 4, 5))
    joined = graph.node("Concat", x, graph.conv(x, 2), axis=1, channels=3)
    made = graph.node("Relu", joined)
    model = graph.model(graph.node("Concat", joined, graph.conv(made, 1), axis=1))
    plan = csdfgen.plan(csdfgen.load(model), rows=1, backend="native")
    for name, want in reference(model, graph.feeds()).items():
        got = runtime.compile(plan)(graph.feeds())[name]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_forms_say_the_bytes_that_are_packed(groups: int) -> None:
    """Of every form that a layer has, in slabs of any height: one copy, whatever room its firings have."""
    rng = np.random.default_rng(groups)
    graph = Graph()
    x = graph.input("x", (1, 64, 26, 30))
    weights = rng.standard_normal((40, 64 // groups, 3, 3)).astype(np.float32)
    y = graph.node("Conv", x, graph.constant(weights), pads=[1, 1, 1, 1], group=groups)
    network = csdfgen.load(graph.model(y))
    (layer,) = network.layers
    forms = NativeKernels(load()).forms_of(layer, 4)
    assert [one.word for one in forms] == ["", "rows", "tiles2", "tiles4"][
        : 4 if groups == 1 else 2
    ]
    assert NativeKernels(load(), ways=Ways(exact=True)).forms_of(layer, 4) == ()
    bias = 4 * (48 if groups == 1 else 52)  # zeros for a whole vector follow the last output
    for form in forms:
        for rows in (1, 4, 26):
            text = ways_text({layer.name: {1: form.word}}) if form.word else ""
            kernels = NativeKernels(load(), ways=Ways(text=text))
            plan = csdfgen.plan(network, rows=rows, kernels=kernels, backend="native")
            assert Executable(plan, kernels=kernels).packed_bytes == form.bytes + bias


def test_forms_that_grow_are_worth_their_bytes() -> None:
    """Of a layer of a large map and few weights, and one of a small map and many, the first alone grows; with the goal memory
    none, with the goal speed both.
    """
    rng = np.random.default_rng(1)
    graph = Graph()
    x = graph.input("x", (1, 32, 64, 64))
    few = graph.constant(rng.standard_normal((32, 32, 3, 3)).astype(np.float32))
    y = graph.node(
        "MaxPool",
        graph.node("Conv", x, few, pads=[1, 1, 1, 1]),
        kernel_shape=[8, 8],
        strides=[8, 8],
    )
    many = graph.constant(rng.standard_normal((512, 32, 3, 3)).astype(np.float32))
    network = csdfgen.load(graph.model(graph.node("Conv", y, many, pads=[1, 1, 1, 1])))
    first, _, last = (layer.name for layer in network.layers)
    words = {}
    for goal in ("balanced", "memory", "speed"):
        plan = csdfgen.plan(network, goal=goal, backend="native")
        chosen = json.loads(plan.options.ways or "{}")
        words[goal] = [chosen.get(name, {}).get("1") for name in (first, last)]
    forms = {"rows", "tiles2", "tiles4"}
    assert words["balanced"][0] in forms and words["balanced"][1] is None
    assert words["memory"] == [None, None] and forms.issuperset(words["speed"])


def test_packed_weights_are_counted_once() -> None:
    """A layer's weights serve all of its firings; those of tiles grow."""
    rng = np.random.default_rng(3)
    graph = Graph()
    x = graph.input("x", (1, 32, 24, 24))
    weights = rng.standard_normal((32, 32, 3, 3)).astype(np.float32)
    y = graph.node("Conv", x, graph.constant(weights), pads=[1, 1, 1, 1])
    network = csdfgen.load(graph.model(y))
    (layer,), bias = network.layers, 4 * 32
    for rows, ways, size in (
        (4, Ways(exact=True), weights.nbytes),
        (
            1,
            Ways(text=ways_text({layer.name: {1: Variant("winograd_row", 0, True)}})),
            weights.nbytes * 6 // 3,
        ),
        (
            4,
            Ways(text=ways_text({layer.name: {1: Variant("winograd", 2, True)}})),
            weights.nbytes * 24 // 9,
        ),
        (
            4,
            Ways(text=ways_text({layer.name: {1: Variant("winograd", 4, True)}})),
            weights.nbytes * 36 // 9,
        ),
    ):
        kernels = NativeKernels(load(), ways=ways)
        plan = csdfgen.plan(network, rows=rows, kernels=kernels, backend="native", fuse="none")
        packed = Executable(plan, kernels=kernels).packed_bytes
        assert packed is not None and packed >= size + bias
        # firings that there is no workspace for are computed in other ways, with weights of their own
        assert packed == size + bias or not ways.exact
    assert runtime.compile(csdfgen.plan(network, backend="numpy")).packed_bytes is None
