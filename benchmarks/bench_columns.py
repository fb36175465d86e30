"""An image that is wider than memory, super-resolved and segmented in strips of columns by `csdfgen run --stream --columns`:
memory, time compared with that of its rows alone, and bytes compared with those of the whole, also after interruptions.

    python -m benchmarks.bench_columns FOLDER [ROWS] [COLUMNS] [--layers N] [--channels N] [--windows]

20,000 columns, 4,000 rows; 3 GB in FOLDER, removed. `--windows`: only strips, compared at random windows around seams and edges
with what onnxruntime computes of the pixels around these.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import tifffile

import csdfgen
import runtime
from csdfgen.reading.loader import read_heights
from csdfgen.streaming.columns import Cut, cut_columns
from tests.builder import Graph

STRIP = 2048

WINDOWS, SIDE, AROUND = 200, 64, 64
"""Windows that are compared, rows and columns of each, and those around it that are computed with it."""


def build_network(layers: int, channels: int) -> onnx.ModelProto:
    """Twice the pixels, and one of four classes for each, by one trunk; weights are random."""
    graph = Graph(0)
    x = graph.input("x", (1, 3, 64, "w"))
    x = graph.conv(x, channels)
    for _ in range(layers):
        x = graph.node("Relu", graph.conv(x, channels))
    sharp = graph.conv(x, 12)
    sharp = graph.node("DepthToSpace", sharp, blocksize=2, channels=3)
    low, high = (graph.constant(np.array(k, np.float32)) for k in (0, 255))
    sharp = graph.node("Mul", sharp, high)
    sharp = graph.node("Clip", sharp, low, high)
    below = graph.node("Relu", graph.conv(x, 16, strides=[2, 2]))
    below = graph.node("Relu", graph.conv(below, 32, strides=[2, 2]))
    scales = graph.constant(np.array([1, 1, 4, 4], np.float32))
    above = graph.node("Resize", below, "", scales, mode="nearest")
    joined = graph.node("Concat", x, above, axis=1, channels=channels + 32)
    classes = graph.node("ArgMax", graph.conv(joined, 4), axis=1, keepdims=1)
    outputs = [graph.node("Cast", one, to=onnx.TensorProto.UINT8) for one in (sharp, classes)]
    made = graph.model(*outputs, checked=False)
    for one in made.graph.output:
        one.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return made


def write_image(path: Path, rows: int, columns: int) -> None:
    """Waves and noise, a band at a time."""
    pixels: Any = tifffile.memmap(
        path, shape=(rows, columns, 3), dtype="uint8", photometric="rgb", bigtiff=True
    )
    rng = np.random.default_rng(0)
    across = np.sin(np.arange(columns) / 37)[:, None] * np.array([60, 50, 40])
    for row in range(0, rows, 64):
        band = 128 + across * np.cos(np.arange(row, min(rows, row + 64)) / 53)[:, None, None]
        pixels[row : row + 64] = band + rng.integers(-20, 20, band.shape)
    pixels.flush()


class Ran(NamedTuple):
    """A run of the command. seconds: of processor."""

    code: int
    seconds: float
    facts: dict[str, Any]


def run(folder: Path, columns: int, name: str, *more: str, after: float = 0) -> Ran:
    """The command; interrupted after some seconds."""
    command = [
        sys.executable, "-m", "csdfgen", "run", f"{folder}/net.onnx", "--shape", f"1x3x64x{columns}", "--stream",
        f"{folder}/x.tif", "--std", "255", "-o", f"{folder}/{name}", "--json", *more,
    ]  # fmt: skip
    with (folder / "said").open("w+b") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        timer = threading.Timer(after or 1e6, os.kill, (process.pid, signal.SIGINT))
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        file.seek(0)
        said = file.read()
    facts = json.loads(said) if said else {}
    return Ran(process.returncode, used.ru_utime + used.ru_stime, facts)


def cut_strips(folder: Path, columns: int) -> Cut:
    """The strips as the command cuts them."""
    network = csdfgen.load(f"{folder}/net.onnx", shapes=(1, 3, 64, STRIP))
    return cut_columns(read_heights(network.source, network, across=1), columns, STRIP)


def time_rows(folder: Path, columns: int, rows: int) -> float:
    """Seconds of processor that the rows of all strips take alone, from memory to memory."""
    cut = cut_strips(folder, columns)
    program = runtime.compile(csdfgen.plan_stream(cut.network))
    width = cut.network.inputs[0].shape[3]
    piece = np.random.default_rng(0).random((1, 3, 40, width), np.float32)
    stream = program.open()
    for _ in range(10):
        stream.push(piece)
    begun, count = time.process_time(), 25
    for _ in range(count):
        stream.push(piece)
    return (time.process_time() - begun) / count / 40 * rows * len(cut.strips)


def compare(one: Path, other: Path) -> str:
    """How many bytes differ, and by how much at most."""
    count = most = 0
    with one.open("rb") as a, other.open("rb") as b:
        while given := a.read(1 << 24):
            pair = (np.frombuffer(each, np.uint8).astype(int) for each in (given, b.read(1 << 24)))
            apart = abs(np.subtract(*pair))
            count, most = count + np.count_nonzero(apart), max(most, int(apart.max()))
    return f"{count} bytes differ, by {most} at most"


def compare_windows(folder: Path, rows: int, columns: int) -> str:
    """How many bytes of random windows differ from those of onnxruntime, and by how much at most, for each output."""
    model = onnx.load(folder / "net.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "h"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # which warns of other shapes
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    image = tifffile.memmap(folder / "x.tif", mode="r")
    names = [one.name for one in model.graph.output]
    strips = cut_strips(folder, columns).strips[1:]
    seams = np.array([one.kept[names[-1]][1].start for one in strips])  # of classes: one a pixel
    rng = np.random.default_rng(0)
    apart = {name: [0, 0, 0] for name in names}
    for number in range(WINDOWS):
        row = (0, rows - SIDE, int(rng.integers(rows - SIDE)))[min(number % 10, 2)]
        column = int(rng.choice([0, *(seams - SIDE // 2), columns - SIDE]))
        (top, y, bottom), (left, x, right) = (
            (max(0, at - AROUND) // 4 * 4, at, min(of, -(-(at + SIDE + AROUND) // 4) * 4))
            for at, of in ((row, rows), (column, columns))
        )
        pixels = image[top:bottom, left:right].transpose(2, 0, 1)[None].astype(np.float32) / 255
        for name, found in zip(names, session.run(names, {"x": pixels}), strict=True):
            by, (made,) = found.shape[2] // (bottom - top), found
            file: Any = np.memmap(
                folder / f"strips.{name}.raw", np.uint8, "r",
                shape=(by * rows, by * columns, len(made)),
            )  # fmt: skip
            there = file[by * y : by * (y + SIDE), by * x : by * (x + SIDE)]
            low, across = by * (y - top), by * (x - left)
            here = made[:, low : low + by * SIDE, across : across + by * SIDE].transpose(1, 2, 0)
            off = abs(here.astype(int) - there)
            one = apart[name]
            one[:] = one[0] + off.size, one[1] + np.count_nonzero(off), max(one[2], int(off.max()))
    said = [
        f"{name}: {n:,} of {of:,} bytes differ, by {most} at most"
        for name, (of, n, most) in apart.items()
    ]
    return "; ".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description="images in strips of columns")
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int, nargs="?", default=4000)
    parser.add_argument("columns", type=int, nargs="?", default=20000)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--channels", type=int, default=24)
    parser.add_argument("--windows", action="store_true")
    asked = parser.parse_args()
    place, rows, columns = asked.folder, asked.rows, asked.columns
    try:
        onnx.save(build_network(asked.layers, asked.channels), place / "net.onnx")
        cut = "--columns", str(STRIP)
        write_image(place / "x.tif", 64, columns)
        start = run(place, columns, "strips.raw", *cut)
        write_image(place / "x.tif", rows, columns)
        alone = time_rows(place, columns, rows - 64)
        strips = run(place, columns, "strips.raw", *cut)
        spent = strips.seconds - start.seconds
        print(f"strips: {strips}", flush=True)
        print(f"{WINDOWS} windows: {compare_windows(place, rows, columns)}", flush=True)
        if asked.windows:
            return
        print(
            f"{spent:.1f} s without {start.seconds:.1f} to start, rows alone {alone:.1f} s: {spent / alone:.3f}"
        )
        whole = run(place, columns, "whole.raw")
        print(f"whole: {whole}", flush=True)
        outputs = [one.name for one in onnx.load(place / "net.onnx").graph.output]
        names = [f"strips.{one}.raw" for one in outputs], [f"whole.{one}.raw" for one in outputs]
        for a, b in zip(*names, strict=True):
            print(a, (place / a).stat().st_size, compare(place / a, place / b))
            (place / a).unlink()
        more: tuple[str, ...] = ()
        stops = 0
        while True:
            ran = run(place, columns, "strips.raw", *cut, *more, after=random.uniform(40, 160))
            if ran.code == 0:
                break
            kept = (place / "strips.raw.stream").exists()
            stops, more = stops + kept, ("--resume",) * kept
        same = [
            filecmp.cmp(place / a, place / b, shallow=False) for a, b in zip(*names, strict=True)
        ]
        print(f"interrupted {stops} times: equal {same}", flush=True)
    finally:
        for path in (
            *place.glob("*.raw"),
            *place.glob("*.stream"),
            place / "x.tif",
            place / "said",
        ):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
