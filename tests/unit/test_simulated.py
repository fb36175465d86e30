"""Kernels on a simulated device that reports races, accesses beyond buffers and values that nothing has written: oclgrind."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from csdfgen.backends.device.elements import definitions
from csdfgen.backends.device.shapes import FILES
from tests.command import python
from tests.op_samples import SAMPLES

ROOT = Path(__file__).resolve().parents[2]

LIBRARY = "liboclgrind-rt-icd.so"

SMALL = (
    "ArgMax13-5x3-axis=-2,keepdims=1,select_last_index=1",
    "Attention23-mask-of-bool1x3x6x4_1x3x6x4_1x3x6x4_6x6-",
    "Conv17-1x2x5x5_3x2x1x1_3-auto_pad=SAME_UPPER,strides=[3,3]",
    "ConvTranspose17-1x4x7_4x1x3_4-strides=[2],group=4",
    "Gemm17-many-rows5x6_6x4_4-",
    "LayerNormalization17-2x3x4_4-axis=2",
    "LpPool22-1x2x3x2x4-kernel_shape=[3,2,4]",
    "MatMul17-rows5x6_6x4-",
    "MaxPool12-1x3x7x6-kernel_shape=[3,3],strides=[2,2],pads=[1,0,1,1]",
    "MaxPool22-1x2x3x2x4-kernel_shape=[3,2,4]",
    "NonMaxSuppression18-1x40x4_1x3x40_1-",
    "NonZero18-4x5-",
    "QLinearAveragePool17-1x4x9x7____-kernel_shape=[2,3],strides=[2,2]",
    "QLinearConv10-1x3x12___4x3x3_4_4___4-pads=[1,1]",
    "QLinearConv10-1x4x9x7___4x1x3x3_4_4___4-group=4,pads=[1,1,1,1]",
    "QLinearGlobalAveragePool17-1x5x6x7____-",
    "QuantizeLinear17-1x4x9x7__-",
    "Relu18-6x5x2-",
    "Resize13-(2,2.5)-linear-None-axisNone-float32-[]-4x3_none_2-mode=linear",
    "ScatterElements18-1x1x4x2x5_1x1x1x1x4_1x1x1x1x4-axis=1,reduction=add",
    "Sum8-1x3x5x4_1x3x5x4_1x3x5x4-",
    "TopK10-1x6x9_1-",
)
"""Samples that have every family and form of loops among them."""


def simulated(folder: Path, *arguments: str) -> str:
    """What `tests.simulated_opencl` and oclgrind print."""
    command = shutil.which("oclgrind")
    places = (
        []
        if command is None
        else [Path(command).parents[1] / one / LIBRARY for one in ("lib/oclgrind", "lib")]
    )
    library = next((place for place in places if place.is_file()), None)
    if library is None:
        pytest.skip("oclgrind is not installed (Debian: apt-get install oclgrind)")
    pytest.importorskip("pyopencl")
    (folder / "oclgrind.icd").write_text(f"{library}\n")
    environment = {
        **os.environ, "OCL_ICD_VENDORS": str(folder), "XDG_CACHE_HOME": str(folder), "PYTHONPATH": str(ROOT),
        "OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1",
        "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",  # what clang optimizes has instructions that oclgrind does not know
    }  # fmt: skip
    done = python("-m", "tests.simulated_opencl", *arguments, env=environment, timeout=300)
    if "oclgrind: no such device" in done.stderr:
        pytest.skip("pyopencl does not find oclgrind")
    assert not done.returncode, done.stderr
    return done.stdout + done.stderr


def test_no_reports(tmp_path: Path) -> None:
    numbers = {str(sample): number for number, sample in enumerate(SAMPLES)}
    printed = simulated(tmp_path, *(f"{numbers[one]}:0" for one in SMALL))
    printed += simulated(tmp_path, "networks")
    assert not re.search(r"Kernel: |OCLGRIND", printed), printed
    seen = set(re.findall(r"^kernel (.+)$", printed, re.MULTILINE))
    assert any(kernel.startswith("series ") for kernel in seen)
    forms = {found["FORM"] for kernel in seen if (found := definitions(kernel)) is not None}
    assert (FILES.keys() - seen, set("012345678") - forms) == (set(), set())


def test_launches_that_ignore_a_dependence_race(tmp_path: Path) -> None:
    printed = simulated(tmp_path, "ignored")
    assert re.search(
        r"Read-write data race at global memory address .*\n\tKernel: csdf_conv_of", printed
    )
    printed = simulated(tmp_path, "unstaged")
    assert re.search(
        r"Read-write data race at global memory address .*\n\tKernel: csdf_series", printed
    )
