"""What else runs these networks? Frames of openvino, ncnn and tinygrad, where they are installed and can.

Openvino and ncnn on one thread; tinygrad on the first OpenCL device, and only where it is asked for by name. openvino is
there twice: in float32, as ours is, and with its default settings, which compute in bfloat16 on processors that have it. A
rival is first tried in a process of its own, since a library that ends its process must not end a benchmark, and its outputs
are compared with onnxruntime's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from unittest.mock import patch

import numpy as np
import onnx
from onnx import shape_inference

__all__ = ["BY_DEFAULT", "ON_DEVICE", "RIVALS", "Rival", "rivals"]

Frame = Callable[[], list[np.ndarray]]
"""Runs a frame, gives its outputs in the model's order."""

_SECONDS = 300
BY_DEFAULT = "openvino, default settings"
ON_DEVICE = "tinygrad"


@dataclass(frozen=True)
class Rival:
    """make: a frame of the model in a folder, on these inputs. near: largest difference from onnxruntime's outputs, as a
    part of their largest value: others round otherwise.
    """

    make: Callable[[Path, list[np.ndarray]], Frame]
    near: float = 0.02


def rivals(
    model: onnx.ModelProto,
    x: Mapping[str, np.ndarray],
    wanted: Mapping[str, np.ndarray],
    names: Sequence[str] = (),
    near: float | None = None,
) -> Iterator[tuple[str, Frame]]:
    """Name and frame of each of these (of all on one thread, if no names are given) whose outputs are the wanted ones. near:
    the largest difference, in place of each rival's own.
    """
    with tempfile.TemporaryDirectory(prefix="csdfgen-rivals-") as folder:
        onnx.save(model, Path(folder, "model.onnx"))
        np.savez(Path(folder, "x.npz"), **{f"x{k}": value for k, value in enumerate(x.values())})
        for name in names or (one for one in RIVALS if one != ON_DEVICE):
            tried = [sys.executable, "-m", "benchmarks.rivals", name, folder]
            try:
                ended = subprocess.run(tried, capture_output=True, timeout=_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                continue
            if ended.returncode:
                continue
            rival = RIVALS[name]
            frame = rival.make(Path(folder), list(x.values()))
            if _alike(frame(), list(wanted.values()), near or rival.near):
                yield name, frame


def _alike(found: list[np.ndarray], wanted: list[np.ndarray], near: float) -> bool:
    return len(found) == len(wanted) and all(
        got.size == want.size
        and float(np.abs(got.ravel() - want.ravel()).max()) <= near * float(np.abs(want).max())
        for got, want in zip(found, wanted, strict=True)
    )


def _openvino(folder: Path, x: list[np.ndarray], **settings: str) -> Frame:
    """settings: of its processor plug-in, beyond one thread. Raises ImportError, or what the library does."""
    import openvino  # type: ignore[import-not-found]

    core = openvino.Core()
    one_thread = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    model = core.read_model(folder / "model.onnx")
    compiled = core.compile_model(model, "CPU", {**one_thread, **settings})

    def frame() -> list[np.ndarray]:
        found = compiled(x)
        return [found[output] for output in compiled.outputs]

    return frame


def _ncnn(folder: Path, x: list[np.ndarray]) -> Frame:
    """Converted by pnnx. Raises ImportError, or ValueError for what that cannot."""
    import ncnn  # type: ignore[import-not-found]

    if not (folder / "model.ncnn.param").exists():
        _converted(folder)
    net = ncnn.Net()
    net.opt.num_threads = 1
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{name}", False)
    if net.load_param(str(folder / "model.ncnn.param")) or net.load_model(
        str(folder / "model.ncnn.bin")
    ):
        raise ValueError("cannot be loaded")

    def frame() -> list[np.ndarray]:
        extractor = net.create_extractor()
        for name, value in zip(net.input_names(), x, strict=True):
            extractor.input(name, ncnn.Mat(value[0]))
        return [np.array(extractor.extract(name)[1]) for name in net.output_names()]

    return frame


def _tinygrad(folder: Path, x: list[np.ndarray]) -> Frame:
    """On the first device of the first platform of OpenCL, its launches recorded. Raises ImportError, or what the library
    does.
    """
    clang = next(filter(which, ("clang", *(f"clang-{k}" for k in range(22, 13, -1)))), "clang")
    with patch.dict(os.environ, {"DEV": "CL", "CC": clang}):  # which computes constants
        from tinygrad import Tensor, TinyJit  # type: ignore[import-not-found]
        from tinygrad.nn.onnx import OnnxRunner  # type: ignore[import-not-found]

        runner = OnnxRunner(folder / "model.onnx")

        @TinyJit
        def replayed(*given: Tensor) -> list[Tensor]:
            found = runner(dict(zip(runner.graph_inputs, given, strict=True)))
            return [one.realize() for one in found.values()]

        def frame() -> list[np.ndarray]:
            return [one.numpy() for one in replayed(*(Tensor(one).realize() for one in x))]

        for _ in range(2):  # the first calls record
            frame()
    return frame


def _converted(folder: Path) -> None:
    found = find_spec("pnnx")
    if found is None or found.origin is None:
        raise ImportError("pnnx")
    tool = Path(found.origin).with_name("pnnx")
    model = shape_inference.infer_shapes(onnx.load(folder / "model.onnx"))
    onnx.save(model, folder / "model.onnx")
    subprocess.run(
        [tool, "model.onnx"], cwd=folder, capture_output=True, timeout=_SECONDS, check=True
    )


RIVALS: Mapping[str, Rival] = {
    "openvino": Rival(partial(_openvino, INFERENCE_PRECISION_HINT="f32")),
    BY_DEFAULT: Rival(_openvino, 0.1),
    "ncnn": Rival(_ncnn),
    ON_DEVICE: Rival(_tinygrad),
}


def main(name: str, folder: str) -> int:
    """Try a rival: whether it loads the model and ends a frame."""
    with np.load(Path(folder, "x.npz")) as saved:
        x = [saved[f"x{k}"] for k in range(len(saved.files))]
    RIVALS[name].make(Path(folder), x)()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
