"""Every kernel against plain numpy, on random shapes, in the instruction set of this machine and in
the form without vectors; nothing is written between rows and pixels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.winograd import row_stages, tile_stages
from csdfgen.backends.native.library import Library, load
from csdfgen.backends.native.structures import CLIP, LEAKY, NONE, ctype
from tests.native_steps import (
    MACHINES,
    Convolution,
    Map,
    activated,
    compiler_missing,
    convolved,
    kept_bytes,
    pointers,
    run,
    step_of,
)

Activation, GemmStep = ctype("csdf_activation"), ctype("csdf_gemm_step")
Dim, Strided = ctype("csdf_dim"), ctype("csdf_strided")
Share = ctype("csdf_conv_share")

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

ACTIVATIONS = ((NONE, 0.0, 0.0), (CLIP, 0.0, np.inf), (CLIP, -0.5, 0.75), (LEAKY, 0.1, 0.0))
TOLERANCE = 1e-4
SEEDS = range(60)


@pytest.fixture(scope="module", params=["host", "scalar"])
def library(request: pytest.FixtureRequest) -> Library:
    found = load(MACHINES[request.param])
    assert request.param == "host" or found.instructions == "scalar"
    return found


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def pieces_of(rng: np.random.Generator, x: np.ndarray, count: int) -> list[Map]:
    """The map in up to `count` pieces along its channels, each with rows in an order of its own."""
    channels = x.shape[-1]
    inner = rng.choice(channels - 1, min(count, channels) - 1, replace=False) + 1
    cuts = [0, *sorted(int(cut) for cut in inner), channels]
    return [
        Map.of(x[..., a:b], rng.permutation(len(x)), int(rng.integers(0, 3)))
        for a, b in pairwise(cuts)
    ]


def check(
    library: Library,
    rng: np.random.Generator,
    layer: Convolution,
    x: np.ndarray,
    count: int = 1,
    heights: Sequence[int] = (1, 2, 3, 4, 5, 8),
) -> None:
    """All slabs of a layer, from scattered rows in pieces to scattered rows."""
    shape = layer.out_shape(*x.shape[:2])
    pieces = pieces_of(rng, x, count)
    kept = [piece.memory.copy() for piece in pieces]
    order = range(shape[0])[::-1] if rng.random() < 0.3 else rng.permutation(shape[0])
    out = Map.empty(shape, order, int(rng.integers(0, 3)))
    residual = None
    if rng.random() < 0.4:
        values = numbers(rng, *shape)
        residual = Map.of(values, rng.permutation(shape[0]))
    want = convolved(layer, x, None if residual is None else residual.array)
    if residual is not None and rng.random() < 0.5:
        residual = out = Map.of(residual.array, order, 1)  # added where it lies
    first = 0
    while first < shape[0]:
        last = min(shape[0], first + int(rng.choice(heights)))
        run(library, layer, step_of(library, layer, pieces, out, (first, last), residual))
        first = last
    error = np.abs(out.array - want).max() / max(1.0, float(np.abs(want).max()))
    assert error < TOLERANCE
    assert out.intact
    assert all(np.array_equal(piece.memory, kept[k]) for k, piece in enumerate(pieces))


def sizes(rng: np.random.Generator, low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(low, high, count))


@pytest.mark.networks
@pytest.mark.parametrize("seed", SEEDS)
def test_convolution(library: Library, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    ins, outs = sizes(rng, 1, 40, 2)
    layer = Convolution(
        numbers(rng, groups * outs, ins, *sizes(rng, 1, 6, 2)),
        numbers(rng, groups * outs) if rng.random() < 0.8 else None,
        groups,
        strides=sizes(rng, 1, 4, 2),
        dilations=sizes(rng, 1, 3, 2),
        pads=sizes(rng, -1, 4, 4),
        activation=ACTIVATIONS[seed % 4],
    )
    x = numbers(rng, *sizes(rng, 11, 24, 2), groups * ins)
    check(library, rng, layer, x, int(rng.integers(1, 5)))


@pytest.mark.parametrize("seed", range(12))
def test_convolution_of_few_channels(library: Library, seed: int) -> None:
    """A first layer: the taps of a row are one run, but where a window is clipped."""
    rng = np.random.default_rng(seed)
    ins, kernel, width = int(rng.integers(1, 5)), int(rng.choice([2, 3, 5, 7])), 3 + 4 * seed
    layer = Convolution(
        numbers(rng, 20, ins, kernel, kernel),
        strides=(2, int(rng.integers(1, 4))),
        pads=(3, kernel - 1, 3, kernel - 1),
    )
    x = numbers(rng, 9, width, ins)
    out = Map.empty(layer.out_shape(9, width))
    run(library, layer, step_of(library, layer, [Map.of(x)], out))
    assert np.allclose(out.array, convolved(layer, x), atol=1e-4) and out.intact


@pytest.mark.parametrize("seed", range(24))
def test_pixels_of_a_row_have_the_bits_of_pixels_anywhere(library: Library, seed: int) -> None:
    """Where the input is one piece with pixels side by side, no pointer for each of them is needed."""
    rng = np.random.default_rng(seed)
    single = seed % 2
    ins, outs = int(rng.integers(2, 97 if single else 17)), int(rng.choice([3, 16, 24, 70]))
    layer = Convolution(
        numbers(rng, outs, ins, *((1, 1) if single else sizes(rng, 2, 6, 2))),
        numbers(rng, outs),
        strides=(1, 1) if single else sizes(rng, 1, 3, 2),
        pads=sizes(rng, -1, 4, 4),
        activation=ACTIVATIONS[seed % 4],
    )
    x = numbers(rng, *sizes(rng, 22, 40, 2), ins)
    shape = layer.out_shape(*x.shape[:2])
    residual = Map.of(numbers(rng, *shape)) if seed % 3 else None
    column, channel = seed % 5, 16 if outs > 16 else 0
    part = column, shape[1] - column, channel, outs - channel
    found = []
    for cuts in ([0, ins], [0, 1, ins]):
        out = Map.empty(shape)
        pieces = [Map.of(x[..., a:b]) for a, b in pairwise(cuts)]
        step = step_of(library, layer, pieces, out, None, residual, part)
        alone = library.function("conv_lines", ctypes.c_int32, ctypes.c_void_p)(step.address)
        assert alone == (len(pieces) == 1)
        if not alone:
            run(library, layer, step)
        assert out.intact
        found.append(out.array)
    # without vectors, compilers choose which products and sums they fuse
    within = 1e-4 if library.instructions == "scalar" else 0
    np.testing.assert_allclose(*found, rtol=within, atol=within)


@pytest.mark.parametrize("seed", SEEDS)
def test_vectors_along_the_sums(library: Library, seed: int) -> None:
    """Windows that padding cuts off, wider than the map too; more runs than a block takes; parts of rows and of channels."""
    rng = np.random.default_rng(seed)
    ins, outs = int(rng.integers(1, 40)), int(rng.integers(1, 10))
    layer = Convolution(
        numbers(rng, outs, ins, *sizes(rng, 1, 14 if seed % 3 else 5, 2)),
        numbers(rng, outs) if seed % 4 else None,
        strides=sizes(rng, 1, 4, 2),
        dilations=sizes(rng, 1, 3, 2),
        pads=sizes(rng, -1, 7, 4),
        activation=ACTIVATIONS[seed % 4],
        kind="conv_dots",
    )
    x = numbers(rng, *sizes(rng, 28, 50, 2), ins)
    check(library, rng, layer, x, int(rng.integers(1, 5)))
    whole, parts = (Map.empty(layer.out_shape(*x.shape[:2])) for _ in range(2))
    run(library, layer, step_of(library, layer, [Map.of(x)], whole))
    columns = sorted({0, whole.width, *sizes(rng, 0, whole.width, 2)})
    for start, stop in pairwise(columns):
        for channel, channels in ((0, outs // 2), (outs // 2, outs - outs // 2)):
            part = start, stop - start, channel, channels
            if channels:
                run(library, layer, step_of(library, layer, [Map.of(x)], parts, None, None, part))
    assert parts.intact and np.array_equal(parts.array, whole.array)


@pytest.mark.parametrize("outs", [1, 2, 3, 5, 7, 9, 10, 15])
def test_convolution_of_few_outputs(library: Library, outs: int) -> None:
    """Where pixels lie side by side blocks write into those that come next, but not behind a row."""
    rng = np.random.default_rng(outs)
    layer = Convolution(numbers(rng, outs, 24, 1, 1), numbers(rng, outs))
    x = numbers(rng, 6, 45, 24)
    out = Map.empty(layer.out_shape(6, 45), rng.permutation(6))
    for rows in ((4, 6), (0, 3), (3, 4)):
        run(library, layer, step_of(library, layer, [Map.of(x)], out, rows))
    assert np.allclose(out.array, convolved(layer, x), atol=1e-4) and out.intact


@pytest.mark.parametrize(
    ("ins", "kernel"), [(2600, 1), (700, 3), (5, 17), (1500, 2), (1281, 1), (6, 31)]
)
def test_convolution_in_several_passes(library: Library, ins: int, kernel: int) -> None:
    """More weights, or more taps, than a pass takes; and more pieces."""
    rng = np.random.default_rng(ins)
    weights = numbers(rng, 18, ins, kernel, kernel) / np.float32(np.sqrt(ins) * kernel)
    half = kernel // 2
    layer = Convolution(weights, numbers(rng, 18), pads=(half,) * 4, activation=ACTIVATIONS[1])
    check(library, rng, layer, numbers(rng, 8, 9, ins), min(ins, 90))


@pytest.mark.parametrize("seed", SEEDS)
def test_depthwise(library: Library, seed: int) -> None:
    rng = np.random.default_rng(seed)
    each = int(rng.choice([1, 1, 1, 2, 3]))
    channels = int(rng.integers(1, 30)) if seed % 3 else int(rng.integers(100, 300))
    plain = seed % 2 == 0  # windows that have strips of their own
    kernel = (int(rng.choice([3, 5])),) * 2 if plain else sizes(rng, 1, 9, 2)
    layer = Convolution(
        numbers(rng, channels * each, 1, *kernel),
        numbers(rng, channels * each),
        channels,
        strides=sizes(rng, 1, 3 if plain else 4, 2),
        dilations=(1, 1) if plain else sizes(rng, 1, 3, 2),
        pads=sizes(rng, -1, 4, 4),
        activation=ACTIVATIONS[seed % 4],
        kind="depthwise",
    )
    x = numbers(rng, *sizes(rng, 18, 28, 2), channels)
    check(library, rng, layer, x, int(rng.integers(1, 5)))


@pytest.mark.parametrize("each", [1, 2])
def test_depthwise_of_a_window_in_several_tables(library: Library, each: int) -> None:
    rng = np.random.default_rng(1)
    weights, bias = numbers(rng, 21 * each, 1, 13, 11), numbers(rng, 21 * each)
    layer = Convolution(
        weights, bias, 21, pads=(6, 5, 6, 5), activation=ACTIVATIONS[1], kind="depthwise"
    )
    check(library, rng, layer, numbers(rng, 15, 14, 21), 2)


@pytest.mark.parametrize("at_points", [True, False])
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("seed", range(20))
def test_winograd(library: Library, seed: int, tile: int, at_points: bool) -> None:
    rng = np.random.default_rng(seed)
    ins, outs = sizes(rng, 1, 150 if seed % 4 == 0 else 40, 2)
    layer = Convolution(
        numbers(rng, outs, ins, 3, 3) / np.float32(3 * np.sqrt(ins)),
        numbers(rng, outs),
        pads=sizes(rng, -1, 3, 4),
        activation=ACTIVATIONS[seed % 4],
        kind="winograd",
        at_points=at_points,
        tile=tile,
        tiles=int(rng.choice([1, 3, 16])),
    )
    check(library, rng, layer, numbers(rng, *sizes(rng, 6, 20, 2), ins), int(rng.integers(1, 5)))


@pytest.mark.parametrize("at_points", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_winograd_of_rows(library: Library, seed: int, at_points: bool) -> None:
    """Kernels 2 to 5 wide and any high, groups, strides down, workspace for few tiles and for many."""
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    ins, outs = sizes(rng, 1, 200 if seed % 5 == 0 else 40, 2)
    layer = Convolution(
        numbers(rng, groups * outs, ins, int(rng.integers(1, 6)), 2 + seed % 4)
        / np.float32(3 * np.sqrt(ins)),
        numbers(rng, groups * outs) if rng.random() < 0.8 else None,
        groups,
        strides=(int(rng.integers(1, 4)), 1),
        dilations=(int(rng.integers(1, 3)), 1),
        pads=sizes(rng, -1, 3, 4),
        activation=ACTIVATIONS[seed % 4],
        kind="winograd_row",
        at_points=at_points,
        tile=int(rng.choice([1, 2, 5])),
        tiles=int(rng.choice([1, 3, 16])),
    )
    x = numbers(rng, *sizes(rng, 11, 24, 2), groups * ins)
    check(library, rng, layer, x, int(rng.integers(1, 5)))


@pytest.mark.parametrize("at_points", [True, False])
@pytest.mark.parametrize("kind", ["conv", "depthwise", "winograd", "winograd_row"])
def test_parts_make_the_whole(library: Library, kind: str, at_points: bool) -> None:
    """Columns and channels that threads share, and nothing else is written."""
    rng = np.random.default_rng(3)
    deep = kind == "depthwise"
    layer = Convolution(
        numbers(rng, 40, 1 if deep else 40, 3, 3),
        numbers(rng, 40),
        40 if deep else 1,
        pads=(1, 1, 1, 1),
        kind=kind,
        at_points=at_points,
        tile=4,
    )
    x = numbers(rng, 6, 21, 40)
    want = convolved(layer, x)
    out = Map.empty(layer.out_shape(6, 21))
    for column, columns in ((0, 9), (9, 12)):
        for channel, channels in ((0, 16), (16, 24)):
            part = (column, columns, channel, channels)
            before = out.array
            run(library, layer, step_of(library, layer, [Map.of(x)], out, part=part))
            mine = np.zeros(before.shape, bool)
            mine[:, column : column + columns, channel : channel + channels] = True
            assert np.array_equal(out.array[~mine], before[~mine])
    assert np.allclose(out.array, want, atol=1e-3)


@pytest.mark.parametrize("at_points", [True, False])
@pytest.mark.parametrize("kind", ["winograd", "winograd_row"])
@pytest.mark.parametrize("seed", range(15))
def test_stages_make_the_whole(library: Library, seed: int, kind: str, at_points: bool) -> None:
    """So many stages as are counted, the parts of each in any order, write the bits of the whole step."""
    rng = np.random.default_rng(seed)
    tiles = kind == "winograd"
    groups = 1 if tiles else int(rng.choice([1, 2]))
    ins, outs = sizes(rng, 1, 150, 2)
    layer = Convolution(
        numbers(rng, groups * outs, ins, 3, 3),
        numbers(rng, groups * outs),
        groups,
        strides=(1 if tiles else int(rng.integers(1, 3)), 1),
        pads=sizes(rng, 0, 3, 4),
        activation=ACTIVATIONS[seed % 4],
        kind=kind,
        at_points=at_points,
        tile=int(rng.choice([2, 4] if tiles else [1, 2, 5])),
        tiles=int(rng.choice([1, 3, 16])),
    )
    x = Map.of(numbers(rng, *sizes(rng, 6, 20, 2), groups * ins))
    shape = layer.out_shape(len(x.starts), x.width)
    whole, shared = Map.empty(shape), Map.empty(shape)
    some = min(ins, int(rng.choice([16, 64])))
    bound = step_of(library, layer, [x], whole)
    bound.step.some = some
    run(library, layer, bound)
    bound = step_of(library, layer, [x], shared)
    bound.step.some = some
    sized = ins, outs, 3, layer.strides[0], 1
    size, room = (1, *shape[:2]), bound.step.workspace_bytes
    room -= kept_bytes(library, kind, bound.kept[0], layer.tile)
    if tiles:
        count = tile_stages(sized, layer.tile, size, room, some)
    else:
        count = groups * row_stages(sized, 3, size, room, some)
    parts = int(rng.integers(1, 6))
    for stage in range(count):
        for part in rng.permutation(parts):
            share = Share(bound.address, stage, int(part), parts)
            library.function(f"{kind}_share", None, ctypes.c_void_p)(ctypes.addressof(share))
    assert np.array_equal(shared.array, whole.array)
    assert shared.intact


def test_groups_in_parts(library: Library) -> None:
    rng = np.random.default_rng(4)
    layer = Convolution(numbers(rng, 60, 5, 3, 3), numbers(rng, 60), 3)
    x = numbers(rng, 6, 9, 15)
    out = Map.empty(layer.out_shape(6, 9))
    for channel, channels in ((0, 16), (16, 20), (36, 24)):
        part = (0, 7, channel, channels)
        run(library, layer, step_of(library, layer, [Map.of(x)], out, part=part))
    assert np.allclose(out.array, convolved(layer, x), atol=1e-4)


@pytest.mark.parametrize("kind", ["conv", "depthwise"])
def test_values_that_are_no_numbers_stay(library: Library, kind: str) -> None:
    """A window with NaN in it gives NaN, through every activation; all others do not."""
    rng = np.random.default_rng(5)
    x = numbers(rng, 5, 12, 8)
    x[2, 6] = np.nan
    for activation in ACTIVATIONS:
        layer = Convolution(
            numbers(rng, 8, 1 if kind == "depthwise" else 8, 3, 3),
            groups=8 if kind == "depthwise" else 1,
            activation=activation,
            kind=kind,
        )
        out = Map.empty(layer.out_shape(5, 12))
        run(library, layer, step_of(library, layer, [Map.of(x)], out))
        seen = np.zeros((3, 10), bool)
        seen[:, 4:7] = True
        assert np.array_equal(np.isnan(out.array), np.repeat(seen[..., None], 8, -1))


@pytest.mark.parametrize("at_points", [True, False])
@pytest.mark.parametrize("kind", ["conv", "winograd", "winograd_row"])
@pytest.mark.parametrize("seed", range(12))
def test_pieces_of_padding(library: Library, seed: int, kind: str, at_points: bool) -> None:
    """First pieces and last ones without a table: nothing of their weights is read, but the bias is added
    and the activation done once.
    """
    rng = np.random.default_rng(seed)
    widths = sizes(rng, 3, 90 if seed % 3 == 0 else 30, 5)
    ends = np.cumsum([0, *widths])
    first, last = int(rng.integers(0, 3)), 5 - int(rng.integers(0, 3))
    seen = slice(int(ends[first]), int(ends[last]))
    own = numbers(rng, 20, int(ends[-1]), 3, 3) / np.float32(3 * np.sqrt(ends[-1]))
    own[:, : seen.start] = own[:, seen.stop :] = np.nan
    layer = Convolution(
        own,
        numbers(rng, 20),
        pads=(1, 1, 1, 1),
        activation=ACTIVATIONS[seed % 4],
        kind=kind,
        at_points=at_points,
        tile=2 + 2 * (seed % 2),
        tiles=int(rng.choice([1, 16])),
    )
    x = numbers(rng, 9, 14, int(ends[-1]))
    pieces = [Map.of(x[..., a:b]) for a, b in pairwise(ends)]
    out = Map.empty(layer.out_shape(9, 14))
    padding = [k for k in range(5) if not first <= k < last]
    for rows in ((0, 4), (4, 9)):
        run(library, layer, step_of(library, layer, pieces, out, rows, padding=padding))
    want = convolved(replace(layer, weights=own[:, seen]), x[..., seen])
    assert np.abs(out.array - want).max() < TOLERANCE * max(1.0, float(np.abs(want).max()))


def gemm(
    library: Library,
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    cuts: Sequence[int],
    activation: tuple[int, float, float],
    together: bool,
) -> np.ndarray:
    """x (rows, inputs) times weights; inputs in parts that end at `cuts`, in one step or in several."""
    rows, inputs = x.shape
    packed, padded = packing.gemm_weights(weights), packing.conv_bias(bias, len(bias))
    out = Map.empty((rows, 1, len(bias)))
    bounds = list(pairwise([0, *cuts]))
    parts = [[np.ascontiguousarray(row[a:b]) for row in x] for a, b in bounds]
    steps = [bounds] if together else [[one] for one in bounds]
    done = 0
    for some in steps:
        lengths = np.array([b - a for a, b in some], np.int32)
        held = [row for part in parts[done : done + len(some)] for row in part]
        table = pointers([row.ctypes.data for row in held])
        targets = pointers([out.address(r) for r in range(rows)])
        done += len(some)
        step = GemmStep(
            *(inputs, len(bias), some[0][0], len(some), rows, 0, len(bias)),
            *(int(done == len(some)), int(done == len(bounds)), Activation(*activation)),
            *(packed.ctypes.data, padded.ctypes.data),
            *(lengths.ctypes.data, table.ctypes.data, targets.ctypes.data),
        )
        library.function("gemm", None, ctypes.c_void_p)(ctypes.addressof(step))
    assert out.intact
    return out.array[:, 0]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_gemm(library: Library, seed: int, together: bool) -> None:
    rng = np.random.default_rng(seed)
    inputs, outputs = sizes(rng, 4, 300, 2)
    rows = int(rng.choice([1, 1, 2, 3, 5, 40]))
    x, weights, bias = (
        numbers(rng, rows, inputs),
        numbers(rng, inputs, outputs),
        numbers(rng, outputs),
    )
    cuts = sorted({*(int(n) for n in rng.integers(1, inputs, seed % 4)), inputs})
    found = gemm(library, x, weights, bias, cuts, ACTIVATIONS[seed % 4], together)
    want = activated(x.astype(np.float64) @ weights + bias, ACTIVATIONS[seed % 4])
    assert np.abs(found - want).max() < TOLERANCE * max(1.0, float(np.abs(want).max()))


def test_winograd_loses_little(library: Library) -> None:
    """Relative to the largest value: rows and F(2x4) about 4e-6, F(4x4) 1e-5."""
    rng = np.random.default_rng(6)
    x = numbers(rng, 16, 16, 256)
    plain = Convolution(numbers(rng, 64, 256, 3, 3), pads=(1, 1, 1, 1))
    want = convolved(plain, x)
    for at_points, (kind, tile, most) in product(
        (True, False), (("winograd", 2, 8e-6), ("winograd", 4, 2e-5), ("winograd_row", 4, 8e-6))
    ):
        layer = replace(plain, kind=kind, tile=tile, at_points=at_points)
        out = Map.empty((16, 16, 64))
        run(library, layer, step_of(library, layer, [Map.of(x)], out))
        assert np.abs(out.array - want).max() < most * np.abs(want).max()


def test_a_core_has_a_peak_that_no_kernel_passes() -> None:
    """Of sums of products; measured anew each time, so that little more is told."""
    native, peak = load(), max(load().peak() for _ in range(3))
    lanes = {"avx512": 16, "avx2": 8, "neon": 4, "scalar": 1}[native.instructions]
    assert 1e8 < peak < 2 * 2 * lanes * 8e9  # two units, twice an operation, 8 GHz


def converted(library: Library, to: str, x: np.ndarray, dtype: str, size: int) -> np.ndarray:
    """Floats as a kernel converts them, in runs of `size`."""
    kernel = library.function(f"from_f32_to_{to}", None, ctypes.c_void_p)
    out = np.zeros(len(x), dtype)
    for start in range(0, len(x), size):
        dims = (Dim * 1)(Dim(size, 4, 0, 0, out.itemsize))
        step = Strided(ctypes.addressof(dims), 1)
        step.a, step.out = x[start:].ctypes.data, out[start:].ctypes.data
        kernel(ctypes.addressof(step))
    return out


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_floats_become_bytes_alike_in_runs_and_one_by_one(library: Library, dtype: str) -> None:
    """Whole numbers lose their upper bits; what 64 bits do not have, or is no number, becomes the least integer."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-300, 600, 1500).astype(np.float32)
    x[700:710] = (3e9, -3e9, 2**31, -(2**31), 2**32 + 512, 1e20, -1e20, np.inf, -np.inf, np.nan)
    to = "i8" if dtype == "int8" else "u8"
    runs, single = (converted(library, to, x, dtype, size) for size in (1500, 1))
    assert np.array_equal(runs, single)
    inside = np.abs(x) < 2**31
    assert np.array_equal(runs[inside], x[inside].astype(np.int64).astype(dtype))


@pytest.mark.parametrize("size", [1, 8, 64])
def test_no_bits_that_are_no_number_become_one(library: Library, size: int) -> None:
    """In bfloat16, alone or in a run: of each sign, with bits that are cut off, and with all bits set."""
    bits = [
        0x7F800001,
        0xFF800001,
        0x7FFFFFFF,
        0xFFFFFFFF,
        0x7F80FFFF,
        0x7FC12345,
        0x7F800000,
        0xFF7FFFFF,
    ]
    x = np.array(bits * 8, np.uint32).view(np.float32)
    made = converted(library, "bf16", x, "uint16", size)
    with np.errstate(all="ignore"):
        assert np.array_equal(made, x.astype("bfloat16").view(np.uint16))


@pytest.mark.parametrize("name", ["largest", "smallest"])
def test_of_equal_elements_the_first_is_the_best(library: Library, name: str) -> None:
    x = np.random.default_rng(3).integers(0, 4, (5, 40)).astype(np.int32)
    out, size = np.zeros((5, 11), np.int64), np.array([40], np.int32)
    dims = (Dim * 1)(Dim(5, x.strides[0], 0, 0, out.strides[0]))
    step = Strided(ctypes.addressof(dims), 1, 11)
    step.a, step.out, step.index = x.ctypes.data, out.ctypes.data, size.ctypes.data
    step.along, step.out_along = x.itemsize, out.itemsize
    library.function(f"{name}_i32", None, ctypes.c_void_p)(ctypes.addressof(step))
    best = np.argsort(-x if name == "largest" else x, axis=1, kind="stable")
    assert np.array_equal(out, best[:, :11])


@pytest.mark.parametrize("run", [1, 3, 16, 17])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_elements_are_taken_in_runs(library: Library, rows: int, run: int) -> None:
    """Of rows of pixels those with an index; rows: 0 for a table without rows, whose runs are its only dimension."""
    rng = np.random.default_rng(rows + run)
    x = rng.integers(0, 9999, (max(1, rows), 12, 20)).astype(np.int32)
    index = rng.integers(0, 12, 9).astype(np.int32)
    out = np.zeros((max(1, rows), 9, run), np.int32)
    strides = [(rows, x.strides[0], out.strides[0])] * (rows > 0) + [(run, 4, 4)] * (run > 1)
    dims = (Dim * 2)(*(Dim(size, a, 0, 0, o) for size, a, o in strides))
    step = Strided(ctypes.addressof(dims), len(strides), len(index))
    step.a, step.out, step.index = x.ctypes.data, out.ctypes.data, index.ctypes.data
    step.along, step.out_along = x.strides[1], out.strides[1]
    library.function("take_4", None, ctypes.c_void_p)(ctypes.addressof(step))
    assert np.array_equal(out, x[:, index, :run])


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (2, 0, 1)])
@pytest.mark.parametrize("shape", [(2, 5, 37), (1, 64, 4), (3, 16, 19), (7, 2, 50)])
def test_copies_exchange_rows_and_columns(
    library: Library, shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    """Into rows with bytes between them, which stay; the order of the dimensions of a copy is any."""
    x = np.random.default_rng(0).integers(0, 9999, shape).astype(np.int32)
    wanted = x.transpose(order)
    out = np.full((*wanted.shape[:2], wanted.shape[2] + 3), -1, np.int32)
    for axes in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        out[:] = -1
        strides = [(wanted.shape[k], wanted.strides[k], out.strides[k]) for k in axes]
        dims = (Dim * 3)(*(Dim(size, a, 0, 0, o) for size, a, o in strides))
        step = Strided(ctypes.addressof(dims), 3)
        step.a, step.out = x.ctypes.data, out.ctypes.data
        library.function("copy_4", None, ctypes.c_void_p)(ctypes.addressof(step))
        assert np.array_equal(out[..., :-3], wanted) and (out[..., -3:] == -1).all()


def test_a_copy_onto_itself_is_made_element_by_element(library: Library) -> None:
    x = np.arange(64, dtype=np.int32)
    want = x.copy()
    for k in range(8):
        for i in range(8):
            want[i * 7 + k] = want[k * 8 + i]
    dims = (Dim * 2)(Dim(8, 32, 0, 0, 4), Dim(8, 4, 0, 0, 28))
    step = Strided(ctypes.addressof(dims), 2)
    step.a = step.out = x.ctypes.data
    library.function("copy_4", None, ctypes.c_void_p)(ctypes.addressof(step))
    assert np.array_equal(x, want)
