"""Which files does one convolution pass from its model to its first rows?

    python -m tests.entered          # the files of each step, and how many there are

A file counts if a function of it runs while the model is loaded, planned, compiled or computed. What a process does
once (imports, tables, the compiler) is done before by another convolution and does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import numpy as np
import onnx

import csdfgen
import runtime
from tests.builder import Graph

__all__ = ["entered"]

ROOT = Path(csdfgen.__file__).resolve().parents[1]
_TESTS = ROOT / "tests"


def entered() -> dict[str, set[str]]:
    """Step -> files of the project, relative to its root."""
    g = Graph()
    model = g.model(g.conv(g.input("x", (1, 3, 16, 16)), 8))
    x = np.zeros((1, 3, 16, 16), np.float32)
    with TemporaryDirectory() as folder:
        path = Path(folder, "conv.onnx")
        onnx.save(model, path)
        _passed(path, x, {})
        found: dict[str, set[str]] = {}
        _passed(path, x, found)
    return found


def _passed(path: Path, x: np.ndarray, found: dict[str, set[str]]) -> None:
    def step(name: str, do: Callable[..., Any], *arguments: Any) -> Any:
        files = found.setdefault(name, set())

        def seen(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and frame.f_code.co_name != "<module>":
                files.add(frame.f_code.co_filename)

        sys.setprofile(seen)
        try:
            return do(*arguments)
        finally:
            sys.setprofile(None)

    network = step("load", csdfgen.load, path)
    plan = step("plan", csdfgen.plan, network)
    frame = step("compile", runtime.compile, plan)
    step("frame", frame, x)
    for name, files in found.items():
        within = (Path(file) for file in files if Path(file).is_relative_to(ROOT))
        own = (file for file in within if "site-packages" not in file.parts)
        found[name] = {
            str(file.relative_to(ROOT)) for file in own if not file.is_relative_to(_TESTS)
        }


if __name__ == "__main__":
    passed = entered()
    for stage, of_stage in passed.items():
        print(f"{stage}: {len(of_stage)}", *sorted(of_stage), sep="\n  ")
    print(len(set().union(*passed.values())), "files")
