"""Emitted code for the vectors of this machine, for none, and for aarch64: outputs are onnxruntime's.

Where a processor, a compiler or an emulator lacks something, the test is skipped and says what.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.build import STANDARD, WARNINGS, find_compiler
from csdfgen.backends.native.generate import SOURCES, write
from csdfgen.backends.registry import choose_backend
from csdfgen.lowering.program import lower
from tests.board_networks import (
    ALL_KERNELS,
    NETWORKS,
    absent,
    feeds_of,
    flags_of_processor,
    integers,
    plan_of,
    right,
)
from tests.builder import Graph
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.quantized_models import quantized
from tests.ways import ALL

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


THIS = {
    "avx512": ("-march=x86-64-v4", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}),
    "avx2": ("-march=x86-64-v3", {"avx2", "fma"}),
    "scalar": ("-DCSDF_SCALAR", set[str]()),
}
EACH = [*product(ALL_KERNELS, THIS), ("residual", "scalar"), ("ds_cnn", "avx2")]


@pytest.mark.networks
@pytest.mark.parametrize(("name", "vectors"), list(product(NETWORKS, THIS)) if ALL else EACH)
def test_this_machine(name: str, vectors: str, tmp_path: Path) -> None:
    machine, needs = THIS[vectors]
    if needs:
        if platform.machine() not in ("x86_64", "AMD64"):
            pytest.skip(f"a processor of another kind: {platform.machine()}")
        lacking = needs - flags_of_processor()
        if lacking:
            pytest.skip(f"this processor has no {', '.join(sorted(lacking))}")
    right(Program(plan_of(name), tmp_path / "c", target="host", machine=machine), name)


@pytest.mark.networks
@pytest.mark.parametrize("name", NETWORKS if ALL else ALL_KERNELS)
def test_aarch64(name: str, tmp_path: Path) -> None:
    absent("aarch64-linux-gnu-gcc", "qemu-aarch64")
    qemu = ["qemu-aarch64"]
    right(
        Program(plan_of(name), tmp_path / "c", target="aarch64", linked=["-static"], start=qemu),
        name,
    )


def attention_of_bytes() -> onnx.ModelProto:
    """Products of two activations and a softmax: the left operand's values, and what is written, side by side and apart."""
    g = Graph()
    x = g.input("x", (1, 30, 24))
    heads = g.node("Reshape", x, g.constant(np.array([1, 30, 2, 12])))
    rows = g.node("Transpose", heads, perm=[0, 2, 1, 3])
    scores = g.node("MatMul", rows, g.node("Transpose", heads, perm=[0, 2, 3, 1]))
    y = g.node("MatMul", g.node("Softmax", scores, axis=-1), rows)
    y = g.node(
        "Reshape", g.node("Transpose", y, perm=[0, 2, 1, 3]), g.constant(np.array([1, 30, 24]))
    )
    y = g.node("MatMul", g.node("MatMul", y, g.node("Transpose", x, perm=[0, 2, 1])), x)
    return quantized(g.model(y), "QOperator")


@pytest.mark.networks
@pytest.mark.parametrize("network", [integers, attention_of_bytes])
@pytest.mark.parametrize("requantize", ["float", "integer"])
@pytest.mark.parametrize(
    ("target", "machine", "start"),
    [
        ("host", "-march=native -mno-avx512vnni", ()),
        ("host", "-march=x86-64-v2", ()),
        ("aarch64", "-march=armv8-a", ("qemu-aarch64",)),
        ("aarch64", "-march=armv8.2-a+dotprod", ("qemu-aarch64", "-cpu", "max")),
    ],
    ids=["no VNNI", "x86-64-v2", "NEON", "dot product"],
)
def test_bytes_are_the_same(
    target: str,
    machine: str,
    start: tuple[str, ...],
    requantize: str,
    network: Callable[[], onnx.ModelProto],
    tmp_path: Path,
) -> None:
    """As numpy's, where products of bytes are formed otherwise than here."""
    linked = ["-static"] if start else []
    if start:
        absent("aarch64-linux-gnu-gcc", "qemu-aarch64")
    elif platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"a processor of another kind: {platform.machine()}")
    loaded = csdfgen.load(network())
    plan = csdfgen.plan(loaded, backend="native", goal="memory", requantize=requantize)
    used = {one.kernel for one in lower(plan, choose_backend(plan.options)).instructions}
    assert network is integers or {"multiply_bytes_of", "softmax_bytes_of"} <= used
    program = Program(
        plan, tmp_path / "c", target=target, machine=machine, linked=linked, start=start
    )
    feeds = feeds_of(plan, 0)
    by_numpy = csdfgen.plan(loaded, backend="numpy", requantize=requantize)
    for name, wanted in runtime.compile(by_numpy)(feeds).items():
        np.testing.assert_array_equal(program(feeds)[name], wanted)


@pytest.mark.networks
def test_an_older_processor(tmp_path: Path) -> None:
    """Bytes on a processor without products of bytes that do not saturate."""
    absent("qemu-x86_64")
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"a processor of another kind: {platform.machine()}")
    start = ["qemu-x86_64", "-cpu", "Haswell"]
    program = Program(
        plan_of("integers"), tmp_path / "c", target="host", machine="-march=haswell", start=start
    )
    right(program, "integers")


@pytest.mark.networks
def test_products_of_bytes_in_one_instruction(tmp_path: Path) -> None:
    """Those of AVX-VNNI, by a function that does the same; unsigned bytes meet signed ones."""
    lacking = {"avx2", "fma"} - flags_of_processor()
    if lacking:
        pytest.skip(f"this processor has no {', '.join(sorted(lacking))}")
    header = Path(__file__).parents[1] / "emulated_vnni.h"
    machine = f"-march=x86-64-v3 -D__AVXVNNI__ -include {header} -D_mm256_dpbusd_avx_epi32=emulated_dpbusd"
    right(Program(plan_of("integers"), tmp_path / "c", target="host", machine=machine), "integers")


@pytest.mark.networks
@pytest.mark.parametrize("machine", ["x86-64-v4", "icelake-server", "sapphirerapids", "alderlake"])
def test_kernels_of_bytes_compile(machine: str, tmp_path: Path) -> None:
    """For processors that this one may not be: without a word from the compiler."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"a processor of another kind: {platform.machine()}")
    compiler = find_compiler()
    write(tmp_path)
    flags = ["-O1", "-Werror", f"-march={machine}", f"-I{tmp_path}"]
    for path in sorted(SOURCES.glob("*_bytes.c")):
        command = [*STANDARD, *WARNINGS, *flags, "-c", path]
        code, _, said = compiler.run([*command, "-o", tmp_path / "made.o"])
        if "unknown" in said or "bad value" in said:
            pytest.skip(f"the compiler knows no {machine}")
        assert (code, said) == (0, "")
