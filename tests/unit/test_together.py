"""Layers that compute several whole images in one step: random shapes against onnxruntime, in scattered
memory and in little workspace; how often weights are read; and plans of networks that do so.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.library import load
from csdfgen.backends.native.ways import Ways
from csdfgen.backends.numpy.backend import NUMPY, NumpyKernels
from csdfgen.model.network import Layer, Tensor
from csdfgen.ops.linear import unflatten_gemm
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Backend, Call, Memory, Move, Step
from csdfgen.rewriting.fuse import fuse
from tests.builder import Graph, reference
from tests.native_steps import compiler_missing
from tests.networks import check_touched, planned_together
from tests.op_harness import Arg, Sample
from tests.scattered import Layout, declared, run_scattered, run_together
from tests.ways import ways

COUNTS = (1, 2, 3, 8)
WHOLE = 10**6


class Counting(NativeKernels):
    """Says which kernels it has bound."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(load(), **settings)
        self.bound: list[str] = []

    def lower(self, step: Step | Move, constants: Constants) -> list[Instruction]:
        made = super().lower(step, constants)
        self.bound += [one.kernel for one in made if isinstance(step, Step)]
        return made


@pytest.fixture(params=["numpy", "native"])
def kernels(request: pytest.FixtureRequest) -> Backend:
    if request.param == "numpy":
        return NUMPY
    if compiler_missing():
        pytest.skip(compiler_missing())
    return NativeKernels(load())


class Called(NumpyKernels):
    """Numpy, with the calls that it bound."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def calls_of(self, step: Step, memory: Memory) -> list[Call]:
        found = super().calls_of(step, memory)
        self.calls += found
        return found


# Layers ------------------------------------------------------------------------------------------


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def image(rng: np.random.Generator, channels: int, low: int = 4, high: int = 12) -> Arg:
    return Arg((1, channels, *(int(n) for n in rng.integers(low, high, 2))), 2)


def dense(rng: np.random.Generator) -> Sample:
    kernel, (ins, outs) = rng.integers(1, 5, 2), rng.integers(3, 70, 2)
    given = {
        "pads": [int(n) for n in rng.integers(0, 3, 4)],
        "strides": [int(n) for n in rng.integers(1, 3, 2)],
        "dilations": [int(n) for n in rng.integers(1, 3, 2)],
    }
    x = image(rng, int(ins), 8, 14)
    return Sample(
        "Conv", (x, weights(rng, int(outs), int(ins), *kernel), weights(rng, int(outs))), given
    )


def square(rng: np.random.Generator) -> Sample:
    """What products of tiles may compute."""
    ins, outs = (int(n) for n in rng.integers(16, 150, 2))
    given = {"pads": [1, 1, 1, 1]}
    return Sample("Conv", (image(rng, ins, 5, 15), weights(rng, outs, ins, 3, 3)), given)


def grouped(rng: np.random.Generator) -> Sample:
    groups, ins, outs = (int(n) for n in rng.integers(2, 20, 3))
    given = {"group": groups, "pads": [1, 1, 1, 1]}
    x = image(rng, groups * ins)
    return Sample("Conv", (x, weights(rng, groups * outs, ins, 3, 3)), given)


def pointwise(rng: np.random.Generator) -> Sample:
    ins, outs = (int(n) for n in rng.integers(3, 200, 2))
    return Sample("Conv", (image(rng, ins), weights(rng, outs, ins, 1, 1), weights(rng, outs)))


def depthwise(rng: np.random.Generator) -> Sample:
    channels, (high, wide) = int(rng.integers(2, 140)), (int(n) for n in rng.integers(1, 6, 2))
    stride = int(rng.integers(1, 3))
    given = {"group": channels, "pads": [1, 2, 1, 0], "strides": [stride, stride]}
    x = image(rng, channels, 6, 12)
    return Sample("Conv", (x, weights(rng, channels, 1, high, wide), weights(rng, channels)), given)


def signal(rng: np.random.Generator) -> Sample:
    ins, outs = (int(n) for n in rng.integers(2, 40, 2))
    x = Arg((1, ins, int(rng.integers(8, 30))), 2)
    return Sample("Conv", (x, weights(rng, outs, ins, 3)), {"pads": [1, 1]})


def one_window(rng: np.random.Generator) -> Sample:
    """A convolution as large as its map, which sums up rows."""
    ins, outs, side = (int(n) for n in rng.integers(2, 40, 3))
    side = side % 5 + 2
    return Sample("Conv", (Arg((1, ins, side, side), 2), weights(rng, outs, ins, side, side)))


def pooled(rng: np.random.Generator) -> Sample:
    given = {
        "kernel_shape": [3, 2],
        "strides": [int(n) for n in rng.integers(1, 3, 2)],
        "pads": [int(n) for n in rng.integers(0, 2, 4)],
    }
    kind = str(rng.choice(["MaxPool", "AveragePool"]))
    return Sample(kind, (image(rng, int(rng.integers(1, 40))),), given)


def everywhere(rng: np.random.Generator) -> Sample:
    kind = str(rng.choice(["GlobalAveragePool", "GlobalMaxPool"]))
    return Sample(kind, (image(rng, int(rng.integers(1, 70))),))


def summed(rng: np.random.Generator) -> Sample:
    x = image(rng, int(rng.integers(1, 40)))
    return Sample(str(rng.choice(["Add", "Mul", "Sub"])), (x, x))


def gated(rng: np.random.Generator) -> Sample:
    """A map times a value a channel of the same image."""
    x = image(rng, int(rng.integers(1, 40)))
    return Sample("Mul", (x, Arg((*x.shape[:2], 1, 1), 2)))


def multiplied(rng: np.random.Generator) -> Sample:
    inputs, outputs = (int(n) for n in rng.integers(1, 700, 2))
    turned = bool(rng.integers(2))
    right = weights(rng, outputs, inputs) if turned else weights(rng, outputs, inputs).T.copy()
    given = {"transB": int(turned), "alpha": 0.7}
    return Sample("Gemm", (Arg((1, inputs)), right, weights(rng, outputs)), given)


def vector_times_matrix(rng: np.random.Generator) -> Sample:
    inputs, outputs = (int(n) for n in rng.integers(1, 300, 2))
    return Sample("MatMul", (Arg((1, inputs)), weights(rng, inputs, outputs)))


def several_rows(rng: np.random.Generator) -> Sample:
    inputs, outputs = (int(n) for n in rng.integers(1, 90, 2))
    return Sample("MatMul", (Arg((1, 7, inputs), 1), weights(rng, inputs, outputs)))


def clip(rng: np.random.Generator, channels: int) -> Arg:
    return Arg((1, channels, *(int(n) for n in rng.integers(5, 9, 3))), 2)


def frames(rng: np.random.Generator) -> Sample:
    """Frame by frame where channels are many and in one group, else line by line."""
    group, ins, outs = (int(n) for n in (rng.integers(1, 3), *rng.integers(2, 40, 2)))
    given = {
        "group": group,
        "pads": [int(n) for n in rng.integers(0, 3, 6)],
        "strides": [int(n) for n in rng.integers(1, 3, 3)],
    }
    kernel = (int(n) for n in rng.integers(1, 4, 3))
    return Sample("Conv", (clip(rng, group * ins), weights(rng, group * outs, ins, *kernel)), given)


def all_frames(rng: np.random.Generator) -> Sample:
    """Sums over frames."""
    ins, outs = (int(n) for n in rng.integers(2, 40, 2))
    x = clip(rng, ins)
    given = {"pads": [0, 1, 1, 0, 1, 1]}
    return Sample("Conv", (x, weights(rng, outs, ins, x.shape[2], 3, 3), weights(rng, outs)), given)


def pooled_frames(rng: np.random.Generator) -> Sample:
    given = {"kernel_shape": [2, 3, 2], "strides": [1, 2, 1], "pads": [1, 1, 0, 0, 2, 1]}
    kind = str(rng.choice(["MaxPool", "AveragePool", "GlobalAveragePool"]))
    x = clip(rng, int(rng.integers(1, 40)))
    return Sample(kind, (x,), {} if kind.startswith("Global") else given)


KINDS = (
    *(dense, square, grouped, pointwise, depthwise, signal, one_window, pooled, everywhere),
    *(frames, all_frames, pooled_frames),
    *(summed, gated, multiplied, vector_times_matrix, several_rows),
)

LAYOUTS = (Layout(block=99), Layout(block=2, pieces=2), Layout(block=3, together=True))


def followed(layer: Layer) -> Layer:
    """The layer with a Relu behind it in its slab."""
    after = Sample("Relu", (Arg(layer.output.shape, layer.output.row_axis),)).layer()
    return replace(layer, epilogue=(after,))


SEEDS = 6
OF_KINDS = ways(
    [[make, seed % 2] for make in KINDS for seed in range(SEEDS)],
    {"count": COUNTS, "layout": LAYOUTS, "limit": (None, 20_000, 0)},
    2,
)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[make.__name__ for make in KINDS])
def test_images_are_what_onnxruntime_makes_of_each(kind: int, seed: int, kernels: Backend) -> None:
    make: Any = KINDS[kind]
    sample = make(np.random.default_rng(seed))
    layer, relu = sample.layer(), bool(seed % 2)
    used = followed(layer) if relu else layer
    wanted: list[np.ndarray] = []
    for count, layout, limit in OF_KINDS[SEEDS * kind + seed]:
        feeds = [sample.feeds(seed + k) for k in range(count)]
        wanted += [sample.reference(layer, one)[0] for one in feeds[len(wanted) :]]
        sizes = declared(used, WHOLE, layout, limit, kernels, count)
        found = run_together(used, feeds, layout, limit, sizes, kernels)
        for (got,), want in zip(found, wanted[:count], strict=True):
            compare(got, np.maximum(want, 0) if relu else want)


def compare(got: np.ndarray, want: np.ndarray) -> None:
    scale = max(1e-3, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5 * scale)


def flattened(rng: np.random.Generator, turned: bool) -> tuple[Layer, Sample]:
    """A Gemm that reads a map row by row, and one of the flattened map."""
    channels, high, wide, outputs = (int(n) for n in rng.integers(2, 12, 4))
    inputs, outputs = channels * high * wide, 40 * outputs
    right = weights(rng, outputs, inputs)
    given = {"transB": int(turned)}
    operands = (Arg((1, inputs)), right if turned else right.T.copy(), weights(rng, outputs))
    sample = Sample("Gemm", operands, given)
    source = Tensor("i0", (1, channels, high, wide), row_axis=2)
    return unflatten_gemm(sample.layer(), source), sample


FLATTENED = ways(
    [[turned, seed] for seed in range(8) for turned in (False, True)],
    {
        "count": COUNTS,
        # without pieces: what a Concat joins is gathered for it, image by image
        "layout": (Layout(block=2), Layout(block=99), Layout(block=1, together=True)),
        "limit": (None, 9_000, 3_000, 0),
    },
    12,
)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_flattened_maps_are_multiplied(seed: int, turned: bool, kernels: Backend) -> None:
    rng = np.random.default_rng(seed)
    layer, sample = flattened(rng, turned)
    shape = layer.inputs[0].shape  # type: ignore[union-attr]
    flat = [sample.feeds(seed + k) for k in range(max(COUNTS))]
    wanted = [sample.reference(sample.layer(), one)[0] for one in flat]
    feeds = [{0: one[0].reshape(shape)} for one in flat]
    for count, layout, limit in FLATTENED[2 * seed + turned]:
        sizes = declared(layer, WHOLE, layout, limit, kernels, count)
        found = run_together(layer, feeds[:count], layout, limit, sizes, kernels)
        for (got,), want in zip(found, wanted[:count], strict=True):
            compare(got, want)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", KINDS)
def test_native_images_are_the_same_to_the_last_bit(make: Any, seed: int) -> None:
    """Sums of products are made in one order, however many images there are."""
    rng = np.random.default_rng(seed)
    sample, exact = make(rng), NativeKernels(load(), ways=Ways(exact=True))
    layer, layout = sample.layer(), LAYOUTS[seed % 3]
    if make is one_window:
        pytest.skip("numpy's calls, translated: products of several images are cut in another way")
    feeds = [sample.feeds(k) for k in range(5)]
    found = run_together(layer, feeds, layout, None, None, exact)
    for one, (got,) in zip(feeds, found, strict=True):
        (want,) = run_scattered(layer, one, WHOLE, layout, None, None, exact)
        assert got.tobytes() == want.tobytes()


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize("make", [dense, square, depthwise, pooled, everywhere, summed, multiplied])
def test_images_are_one_native_kernel(make: Any) -> None:
    sample = make(np.random.default_rng(1))
    native = Counting()
    feeds = [sample.feeds(k) for k in range(4)]
    run_together(sample.layer(), feeds, Layout(block=99), None, None, native)
    assert len(native.bound) == 1, native.bound


@pytest.mark.parametrize("make", [pooled, everywhere])
def test_images_that_lie_evenly_are_pooled_in_the_calls_of_one(make: Any) -> None:
    """By numpy, where the workspace has room for all of them between two axes."""
    calls = []
    sample = make(np.random.default_rng(1))
    for count in (1, 6):
        feeds = [sample.feeds(k) for k in range(count)]
        numpy = Called()
        run_together(sample.layer(), feeds, Layout(block=99, together=True), None, None, numpy)
        calls.append(len(numpy.calls))
    one, all_of_them = calls
    assert all_of_them <= one + 1


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize("size", [6, 13, 14])
def test_fewer_products_serve_several_images(size: int) -> None:
    """Tiles and rows of all images are computed at a time, in as much workspace as there is."""
    rng = np.random.default_rng(size)
    operands = Arg((1, 96, size, size), 2), weights(rng, 80, 96, 3, 3)
    sample = Sample("Conv", operands, {"pads": [1, 1, 1, 1]})
    layer, feeds = sample.layer(), [sample.feeds(k) for k in range(6)]
    wanted = [sample.reference(layer, one)[0] for one in feeds]
    used = set()
    for limit in (None, 300_000, 200_000, 170_000, 30_000):
        native = Counting()
        found = run_together(layer, feeds, Layout(block=99), limit, None, native)
        used |= set(native.bound)
        for (got,), want in zip(found, wanted, strict=True):
            compare(got, want)
    assert used >= {"winograd_row_of", "conv_of"} and (size == 6 or "winograd_of" in used)


@pytest.mark.parametrize("limit", [None, 200_000, 50_000, 20_000, 8192, 5000, 0])
def test_vectors_are_multiplied_in_the_workspace_that_there_is(limit: int | None) -> None:
    """Never in more, unless a plan would be much slower; with none one image after the other."""
    layer = Sample(
        "Gemm", (Arg((1, 3000)), np.ones((2000, 3000), np.float32)), {"transB": 1}
    ).layer()
    (size,) = declared(layer, WHOLE, Layout(), limit, NUMPY, 8)
    if limit is None or limit > 100_000:
        assert 0 < size <= (limit or 256 * 1024)
    elif limit >= 8192:
        assert 0 < size < 100_000, "a fifth of the time is worth some workspace"
    else:
        assert size <= limit
    (alone,) = declared(layer, WHOLE, Layout(), limit, NUMPY, 1)
    assert alone == 0


# Bytes -------------------------------------------------------------------------------------------


def byte_convolution(rng: np.random.Generator, group: bool, full: bool) -> Sample:
    """QLinearConv, depthwise or not; weights or values of seven bits, as onnxruntime on AVX2 saturates sums of two
    products at 16 bits. full: weights of eight.
    """
    low = -128 if full else -64
    ins, outs = (24, 24) if group else (17, 35)
    filters = rng.integers(low, -low, (outs, 1 if group else ins, 3, 3)).astype(np.int8)
    scales = [np.float32(value) for value in (0.02, 0.03, 0.5)]
    x = Arg((1, ins, 9, 8), 2, "uint8", 0, 127 if full else 255)
    zero, signed = np.uint8(120), np.int8(0)
    operands = (x, scales[0], zero, filters, scales[1], signed, scales[2], np.uint8(100))
    arrays = tuple(one if isinstance(one, Arg) else np.asarray(one) for one in operands)
    given = {"pads": [1, 1, 1, 1], "group": ins if group else 1}
    return Sample("QLinearConv", arrays, given)


@pytest.mark.networks
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("group", [False, True])
def test_images_of_bytes_are_exact(group: bool, full: bool, kernels: Backend) -> None:
    sample = byte_convolution(np.random.default_rng(2), group, full)
    layer = sample.layer()
    feeds = [sample.feeds(k) for k in range(max(COUNTS))]
    wanted = [sample.reference(layer, one)[0] for one in feeds]
    for count, layout, limit in product(COUNTS, LAYOUTS, (None, 0)):
        found = run_together(layer, feeds[:count], layout, limit, None, kernels)
        for (got,), want in zip(found, wanted[:count], strict=True):
            np.testing.assert_array_equal(got, want)


def byte_product(rng: np.random.Generator, kind: str) -> Sample:
    """Weights of seven bits, as above; of a QGemm all outputs first, and a scale each."""
    inputs, outputs = 3000, 45
    right = rng.integers(-64, 64, (inputs, outputs)).astype(np.int8)
    scales = [np.asarray(value, np.float32) for value in (0.02, 0.03, 9.0)]
    x, zero, signed = Arg((1, inputs), None, "uint8", 0, 255), np.uint8(120), np.int8(0)
    if kind == "MatMulInteger":
        return Sample(kind, (x, right, np.asarray(zero), np.asarray(signed)))
    if kind == "QLinearMatMul":
        all_ = (x, scales[0], zero, right, scales[1], signed, scales[2], np.uint8(100))
        return Sample(kind, tuple(one if isinstance(one, Arg) else np.asarray(one) for one in all_))
    each = rng.uniform(0.01, 0.05, outputs).astype(np.float32)
    bias = rng.integers(-(10**5), 10**5, outputs).astype(np.int32)
    behind = (np.zeros(outputs, np.int8), bias, scales[2], np.asarray(np.uint8(100)))
    operands = (x, scales[0], np.asarray(zero), right.T.copy(), each, *behind)
    return Sample(kind, operands, {"transB": 1, "alpha": 1.0})


@pytest.mark.parametrize("kind", ["QGemm", "QLinearMatMul", "MatMulInteger"])
def test_vectors_of_bytes_are_exact(kind: str, kernels: Backend) -> None:
    """And integer sums of them pass what float32 holds exactly."""
    sample = byte_product(np.random.default_rng(3), kind)
    layer = sample.layer()
    feeds = [sample.feeds(k) for k in range(max(COUNTS))]
    wanted = [sample.reference(layer, one)[0] for one in feeds]
    for count, layout, limit in product(COUNTS, LAYOUTS, (None, 9000, 0)):
        sizes = declared(layer, WHOLE, layout, limit, kernels, count)
        found = run_together(layer, feeds[:count], layout, limit, sizes, kernels)
        for (got,), want in zip(found, wanted[:count], strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["QGemm", "QLinearMatMul", "MatMulInteger"])
def test_bytes_of_several_images_meet_the_weights_once(kind: str) -> None:
    """In numpy, where one image after the other would read them again and again."""
    numpy = Called()
    sample = byte_product(np.random.default_rng(3), kind)
    feeds = [sample.feeds(k) for k in range(8)]
    run_together(sample.layer(), feeds, Layout(block=99), None, None, numpy)
    assert [function for function, _ in numpy.calls].count(np.matmul) == 1


# Networks ----------------------------------------------------------------------------------------


def classifier(batch: int) -> onnx.ModelProto:
    """Convolutions of every kind, pools, a skip, a concatenation, and a classifier on the flattened map."""
    g = Graph()
    x = g.input("x", (batch, 3, 18, 14))
    a = g.node("Relu", g.conv(x, 24))
    b = g.node("Add", g.conv(a, 24), a)
    c = g.node("MaxPool", b, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    d = g.node("Concat", g.conv(c, 16, 1), c, channels=40, axis=1)
    e = g.node("Relu", g.conv(d, 40, group=40))
    f = g.node("Flatten", e, axis=1)
    rng = np.random.default_rng(0)
    h = g.node(
        "Gemm", f, g.constant(weights(rng, 60, 40 * 9 * 7)), g.constant(weights(rng, 60)), transB=1
    )
    i = g.node("Gemm", g.node("Relu", h), g.constant(weights(rng, 60, 10)))
    return g.model(i, g.node("GlobalAveragePool", e))


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("batch", [2, 3, 8])
def test_networks_compute_images_together(batch: int, backend: str) -> None:
    """All layers, some that read what others made image by image, and the last ones."""
    if backend == "native" and compiler_missing():
        pytest.skip(compiler_missing())
    model = classifier(batch)
    network = csdfgen.load(model)
    feeds = {"x": np.random.default_rng(1).standard_normal((batch, 3, 18, 14)).astype(np.float32)}
    wanted = reference(model, feeds)
    names = [layer.name for layer in fuse(network).layers]
    for chosen in (names, names[::2], names[-3:]):
        for goal in ("balanced", "memory"):
            given = {"goal": goal} if goal == "memory" else {}
            together = dict.fromkeys(chosen, batch)
            plan = planned_together(network, 1, together, batch, backend=backend, **given)
            got, measured = runtime.compile(plan, backend=backend).measure(feeds)
            for name, want in wanted.items():
                compare(got[name], want)
            check_touched(plan, measured.touched_bytes)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_several_images(threads: int) -> None:
    network = csdfgen.load(classifier(4))
    together = dict.fromkeys((layer.name for layer in fuse(network).layers), 4)
    plan = planned_together(network, 1, together, 4, backend="native")
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 3, 18, 14)).astype(np.float32)}
    alone, shared = (runtime.compile(plan, threads=n)(feeds) for n in (1, threads))
    for name, want in alone.items():
        np.testing.assert_array_equal(shared[name], want)
