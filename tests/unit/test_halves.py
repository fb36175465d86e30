"""Floats of two bytes: conversions by the processor and without it, weights that are widened in registers, layers in float32."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import csdfgen
import runtime
from csdfgen.backends.native.build import STANDARD
from csdfgen.backends.native.build import build as build_library
from csdfgen.backends.native.families.convolution import Convolution
from csdfgen.backends.native.structures import SOURCES, Dim, ctype
from csdfgen.errors import CsdfgenError
from csdfgen.precision.bfloat16 import convert_to_bfloat16
from csdfgen.precision.halves import choose_float32_nodes, measure_half_noise
from csdfgen.precision.writer import convert_to_float16
from csdfgen.program.steps import Step
from csdfgen.reading.zoo import build
from tests.builder import Graph
from tests.native_steps import compiler_missing
from tests.networks import feeds
from tests.small_models import residual_classifier
from tests.unit.test_bfloat16 import BITS, graph_of
from tests.unit.test_precision import frames, small

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


def converted(library: ctypes.CDLL, kernel: str, x: np.ndarray, dtype: str) -> np.ndarray:
    """What a kernel makes of neighbours, and of every second element: with vectors and without."""
    found = []
    for step in (1, 2):
        given, made = np.zeros(step * x.size, x.dtype), np.zeros(step * x.size, dtype)
        given[::step] = x
        dims = (ctype("csdf_dim") * 1)(Dim(x.size, step * x.itemsize, 0, 0, step * made.itemsize))
        a, out = given.ctypes.data, made.ctypes.data
        one = ctype("csdf_strided")(ctypes.addressof(dims), 1, 0, a, out, out, out, None, 0, 0)
        getattr(library, kernel)(ctypes.byref(one))
        found.append(made[::step])
    np.testing.assert_array_equal(*found)
    return found[0]


@pytest.mark.parametrize(
    "machine", [("-march=native",), ("-march=x86-64-v3",), ("-DCSDF_SCALAR", "-march=x86-64")]
)
def test_conversions_on_all_processors(machine: tuple[str, ...], tmp_path: Path) -> None:
    """To the nearest, half to even, subnormals included; what is no number becomes quiet with what fits of its bits."""
    sources = [SOURCES / "copy.c", SOURCES / "strided.c"]
    library = ctypes.CDLL(
        str(build_library(sources, (*STANDARD, "-O1", *machine), folder=tmp_path))
    )
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = converted(library, "csdf_from_f16_to_f32", every, "uint32")
    halves = every.view(np.float16)
    numbers = ~np.isnan(halves)
    with np.errstate(all="ignore"):
        want = halves.astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(wide[numbers], want[numbers])
    bits = every[~numbers].astype(np.uint32)
    quiet = (bits & 0x8000) << 16 | 0x7FC00000 | (bits & 0x3FF) << 13
    np.testing.assert_array_equal(wide[~numbers], quiet)
    rng = np.random.default_rng(0)
    ties = every[:0x7C00].astype(np.uint32)[:-1]
    between = (ties.astype(np.uint16).view(np.float16).astype(np.float64)
               + (ties + 1).astype(np.uint16).view(np.float16).astype(np.float64)) / 2  # fmt: skip
    parts = (
        np.array(BITS, np.uint32),
        rng.integers(0, 1 << 32, 40_005, np.uint32),
        rng.integers(0x33000000, 0x47A00000, 40_000).astype(np.uint32),
        between.astype(np.float32).view(np.uint32),
    )
    x = np.concatenate(parts)
    values = x.view(np.float32)
    real = ~np.isnan(values)
    for kernel, dtype in (("f16", "float16"), ("bf16", "bfloat16")):
        made = converted(library, f"csdf_from_f32_to_{kernel}", x, "uint16")
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(made[real], values.astype(dtype).view(np.uint16)[real])
        none = x[~real]
        kept = 0x7E00 | (none >> 13 & 0x3FF) if kernel == "f16" else 0x7FC0
        np.testing.assert_array_equal(made[~real], (none >> 16 & 0x8000) | kept)
    computed = x[real & ((x & 0x7F800000 != 0) | (x & 0x7FFFFFFF == 0))]
    computed = np.append(computed, np.array([0x7FC00000, 0xFFC00000], np.uint32))
    made = converted(library, "csdf_from_results_to_bf16", computed, "uint16")
    exact = converted(library, "csdf_from_f32_to_bf16", computed, "uint16")
    np.testing.assert_array_equal(made, exact)


def kernels_of(program: runtime.session.Executable) -> set[str]:
    return {one.kernel for one in program._bound.program.instructions}  # type: ignore[attr-defined]


@pytest.mark.parametrize("columns", [5, 100, 130, 200])
@pytest.mark.parametrize(
    ("form", "kernel"), [("bfloat16", "gemm_bf16_of"), ("float16", "gemm_f16_of")]
)
def test_weights_are_widened_in_registers(
    form: str, kernel: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row reads weights of two bytes; its bits are those of float32 with the same weights, rounded, on two threads, too."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1)
    rng = np.random.default_rng(columns)
    weights = (rng.standard_normal((77, columns)) / 9).astype(form)
    x = rng.standard_normal((1, 77)).astype(form)
    code = TensorProto.BFLOAT16 if form == "bfloat16" else TensorProto.FLOAT16
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    found, packed = [], []
    for dtype, of, expected in ((form, code, kernel), ("float32", TensorProto.FLOAT, "gemm_of")):
        model = graph_of(nodes, x.shape, of, of, {"w": weights.astype(dtype)})
        plan = csdfgen.plan(csdfgen.load(model), backend="native")
        for count in (1, 2):
            program = runtime.compile(plan, threads=count)
            found.append(program(x.astype(dtype))["y"].astype(form).view(np.uint16))
        assert expected in kernels_of(program)
        packed.append(program.packed_bytes)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    padding = -columns % 16  # behind the last output, of weights and of biases
    bias = 4 * (columns + padding)
    assert packed == [size * (77 * columns + padding) + bias for size in (2, 4)]


def test_float16_has_the_kernels_of_float32() -> None:
    """Results differ from numpy's by the order of sums; a Relu in the slab changes no bit."""
    model = convert_to_float16(onnx.shape_inference.infer_shapes(residual_classifier()))
    network, inputs = csdfgen.load(model), feeds(model)
    want = runtime.compile(csdfgen.plan(network, backend="numpy"))(inputs)
    found = []
    for fuse in ("full", "none"):
        program = runtime.compile(csdfgen.plan(network, backend="native", fuse=fuse))
        assert "conv_of" in kernels_of(program) and "muladd_f32" not in kernels_of(program)
        found.append({name: array.copy() for name, array in program(inputs).items()})
    for name, array in want.items():
        largest = float(np.abs(array).max())
        np.testing.assert_allclose(found[0][name], array, rtol=2**-9, atol=2**-10 * largest)
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_planning_asks_once_about_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Float16's steps are cut into parts, of which most are alike: at most three times as many questions as in float32."""
    asked: list[int] = []
    workspace = Convolution.workspace

    def counted(self: Convolution, step: Step, limit: int | None) -> int:
        asked[-1] += 1
        return workspace(self, step, limit)

    monkeypatch.setattr(Convolution, "workspace", counted)
    model = build("zoo:resnet8@128x128")
    for one in (model, convert_to_float16(onnx.shape_inference.infer_shapes(model))):
        asked.append(0)
        csdfgen.plan(csdfgen.load(one), backend="native")
    assert 0 < asked[1] <= 3 * asked[0]


# Layers that stay in float32 ----------------------------------------------------------------------


@pytest.mark.networks
def test_layers_stay_in_float32_for_a_quality() -> None:
    """Each step takes noise away; all in float32 has none."""
    model, inputs = small(), frames(small(), 3)
    plain = csdfgen.quantize(model, inputs, format="bfloat16")
    assert plain.sqnr_db is not None
    wanted = plain.sqnr_db + 8
    made = csdfgen.quantize(model, inputs, format="bfloat16", min_sqnr=wanted)
    assert made.sqnr_db is not None and made.sqnr_db >= wanted
    assert made.formats["float32"] > plain.formats["float32"] and made.formats["bfloat16"] > 0
    assert made.predicted_sqnr_db == pytest.approx(made.sqnr_db, abs=6)
    easy = csdfgen.quantize(model, inputs, format="bfloat16", min_sqnr=plain.sqnr_db - 1)
    assert easy.formats == plain.formats
    assert csdfgen.quantize(model, inputs, format="bfloat16", min_sqnr=115).sqnr_db > 115  # type: ignore[operator]


def test_a_tensor_is_float32_where_all_that_touch_it_are() -> None:
    g = Graph()
    a = g.conv(g.input("x", (1, 3, 8, 8)), 4)
    model = g.model(g.conv(g.node("Relu", a), 4))
    for node in model.graph.node:
        node.name = "same"
    model = onnx.shape_inference.infer_shapes(model)
    network = csdfgen.load(model)
    form = csdfgen.model.formats.BFLOAT16
    halves = measure_half_noise(model, network, frames(model, 1), (), form, lambda *_: None)
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == 3
    sets = halves.sets
    assert sets[0] == frozenset() and sets[-1] == frozenset(names)
    assert all(one < other for one, other in pairwise(sets))
    noises = [halves.predicted(one) for one in sets]
    assert noises == sorted(noises, reverse=True) and noises[-1] == 0
    made = csdfgen.load(convert_to_bfloat16(model, frozenset(names[1:])))
    assert made.tensors[network.layers[0].output.name].dtype == "float32"  # behind a cast
    assert choose_float32_nodes(halves, 1, lambda kept: 50) == frozenset()
    with pytest.raises(
        CsdfgenError, match=r"all layers in float32, .* it has 2\.0 dB, 40 are asked"
    ):
        choose_float32_nodes(halves, 40, lambda kept: 2.0)


def test_a_quality_is_measured_on_inputs() -> None:
    with pytest.raises(CsdfgenError, match="no input to measure noise on"):
        csdfgen.quantize(small(), format="bfloat16", min_sqnr=40)
    with pytest.raises(CsdfgenError, match="as few layers as reach min_sqnr stay in float32"):
        csdfgen.quantize(small(), frames(small(), 1), format="bfloat16", min_sqnr=40, goal="speed")
    with pytest.raises(CsdfgenError, match="leaves nothing to choose"):
        csdfgen.quantize(small(), frames(small(), 1), format="bfloat16", memory="1MiB")
