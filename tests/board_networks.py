"""Networks of a few layers for code on other machines, and whether what it computes is right."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
from csdfgen.emission.targets import TARGETS
from csdfgen.planning.plan import Plan
from tests.builder import Graph
from tests.emitted import Program, differences
from tests.models import onnxruntime_outputs
from tests.quantized_models import quantized
from tests.small_models import residual_classifier
from zoo_models import ZOO

__all__ = [
    "ALL_KERNELS",
    "EXACT",
    "NETWORKS",
    "absent",
    "absent_board",
    "feeds_of",
    "flags_of_processor",
    "plan_of",
    "right",
]


def everything() -> onnx.ModelProto:
    """A residual join, a depthwise convolution, pools of both kinds, a Gemm, a Softmax."""
    g = Graph()
    x = g.node("Relu", g.conv(g.input("x", (1, 3, 20, 14)), 16))
    deep = g.node("Relu", g.conv(x, 16, group=16))
    x = g.node("Relu", g.node("Add", x, g.conv(deep, 16, 1)))
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = g.node("AveragePool", g.conv(x, 24, strides=[2, 2]), kernel_shape=[2, 2])
    flat = g.node("Flatten", g.node("GlobalAveragePool", x))
    weight = g.constant(np.random.default_rng(1).normal(0, 1, (24, 10)).astype(np.float32))
    return g.model(g.node("Softmax", g.node("Gemm", flat, weight)))


@cache
def integers() -> onnx.ModelProto:
    """Layers of bytes, QLinear... as onnxruntime writes them: every kernel of theirs, and what has none."""
    g = Graph()
    x = g.node("Relu", g.conv(g.input("x", (1, 3, 20, 14)), 20))
    deep = g.node("LeakyRelu", g.conv(x, 20, group=20), alpha=0.2)
    x = g.node("Add", x, g.conv(deep, 20, 1))
    gate = g.node("Sigmoid", g.conv(x, 20, 1))
    x = g.node("Concat", g.node("Mul", x, gate), g.conv(x, 7), axis=1, channels=27)
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = g.node("Relu", g.conv(x, 24, strides=[2, 2], group=3))
    flat = g.node("Flatten", g.node("GlobalAveragePool", x))
    weight = g.constant(np.random.default_rng(1).normal(0, 1, (24, 10)).astype(np.float32))
    return quantized(g.model(g.node("Gemm", flat, weight)), "QOperator")


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "residual": residual_classifier,
    "everything": everything,
    "ds_cnn": lambda: ZOO["ds_cnn"].build(),
    "integers": integers,
}

ALL_KERNELS = ("everything", "integers")
"""Networks whose code has every kernel of the others'."""

EXACT = frozenset({"integers"})
"""Those whose outputs are onnxruntime's to the last bit."""


@cache
def plan_of(name: str) -> Plan:
    return csdfgen.plan(csdfgen.load(NETWORKS[name]()), backend="native", goal="memory")


def absent(*programs: str) -> None:
    """Skip where a program is missing, or the C library of a compiler for another machine."""
    missing = [program for program in programs if shutil.which(program) is None]
    compilers = (one for one in programs if one.endswith("-gcc") and one not in missing)
    missing += [f"the C library of {one}" for one in compilers if not _finds_headers(one)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def flags_of_processor() -> set[str]:
    """What this machine's processor can do, as Linux tells it."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"^flags\s*:(.*)$", path.read_text() if path.exists() else "", re.M)
    return set(found[1].split()) if found else set()


def absent_board(target: str) -> None:
    """Skip where what a board's code is built and executed with is missing."""
    board = TARGETS[target].board
    assert board is not None
    absent(TARGETS[target].compiler, board.emulator.split()[0], "make")


@cache
def _finds_headers(compiler: str) -> bool:
    """Whether a compiler has a C library's headers; packages of cross compilers come without any."""
    text = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n"
    flags = next((one.flags for one in TARGETS.values() if one.compiler == compiler), ())
    specs = [flag for flag in flags if flag.startswith("--specs")]
    command = [compiler, *specs, "-x", "c", "-fsyntax-only", "-"]
    return not subprocess.run(command, input=text, capture_output=True, text=True).returncode


def feeds_of(plan: Plan, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.uniform(-1, 1, tensor.shape).astype(tensor.dtype)
        for tensor in plan.network.inputs
    }


def right(program: Program, name: str) -> None:
    """Two frames, so that nothing of one is left in the next."""
    for seed in (0, 1):
        feeds = feeds_of(program.plan, seed)
        wanted = onnxruntime_outputs(NETWORKS[name](), feeds)
        found = program(feeds)
        if name in EXACT:
            for output, array in wanted.items():
                np.testing.assert_array_equal(found[output], array)
        else:
            assert max(differences(found, wanted)) < 1e-4
