"""Does a stream of very many rows stay in its memory, and right? Rows are drawn by their numbers, pushed in blocks, and rows of
the outputs at random places are compared with those of a low image of the same input rows around them.

    python -m benchmarks.bench_endless model.onnx --shape 1x3x480x320 --rows 1000000
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np

import csdfgen
import runtime
from csdfgen.planning.streams import StreamPlan

BLOCK = 1 << 12
"""Rows that are drawn together."""


def draw(stream: StreamPlan, start: int, stop: int) -> np.ndarray:
    """Rows of the input by their numbers, with the axes of the network."""
    tensor = stream.network.inputs[0]
    shape = [size for axis, size in enumerate(tensor.shape) if axis != tensor.row_axis]
    blocks = [
        np.random.default_rng(number).random((BLOCK, *shape), np.float32)
        for number in range(start // BLOCK, -(-stop // BLOCK))
    ]
    rows = np.concatenate(blocks)[start % BLOCK :][: stop - start]
    return np.moveaxis(rows, 0, tensor.row_axis or 0)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def sample(stream: StreamPlan, rows: int, places: int) -> list[int]:
    """Rows of the input, turns behind the first one."""
    margin = reach(stream)
    numbers = np.random.default_rng(0).integers(margin, rows - margin, places)
    return sorted({int(number) // stream.turn * stream.turn for number in numbers})


def reach(stream: StreamPlan) -> int:
    """Rows around a row that its outputs surely do not reach beyond: whole turns."""
    return -(-stream.least // stream.turn) * stream.turn


def run(stream: StreamPlan, rows: int, wanted: list[int]) -> Iterator[tuple[int, np.ndarray]]:
    """(row of the input, the first output's row that belongs to it) for each that is wanted; prints time and memory."""
    open_ = runtime.compile(stream).open()
    name, output = stream.network.outputs[0].name, stream.network.outputs[0].tensor
    assert output is not None and output.row_axis is not None
    share = output.rows / stream.network.inputs[0].rows
    waiting, before, started = list(wanted), 0, 0.0
    for start in range(0, rows, BLOCK):
        if start == 16 * BLOCK:  # all that is kept is there
            before, started = resident(), perf_counter()
        first = open_.rows_out[name]
        found = open_.push(draw(stream, start, min(start + BLOCK, rows))).get(name)
        while found is not None and waiting and int(waiting[0] * share) < open_.rows_out[name]:
            place = waiting.pop(0)
            yield place, np.take(found, int(place * share) - first, output.row_axis)
    seconds, more = perf_counter() - started, resident() - before
    print(
        f"{rows:,} rows, {1e6 * seconds / (rows - 16 * BLOCK):.3f} us a row with drawing, {more / 2**20:+.2f} MiB resident"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--shape", required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--places", type=int, default=200)
    asked = parser.parse_args()
    stream = csdfgen.plan_stream(asked.model, shapes=tuple(map(int, asked.shape.split("x"))))
    margin, worst = reach(stream), 0.0
    low = runtime.compile(stream.at(2 * margin))
    name, output = stream.network.outputs[0].name, stream.network.outputs[0].tensor
    assert output is not None and output.row_axis is not None
    row = output.rows * margin // stream.network.inputs[0].rows
    kept = list(run(stream, asked.rows, sample(stream, asked.rows, asked.places)))
    for place, found in kept:
        image = low(draw(stream, place - margin, place + margin))[name]
        worst = max(worst, float(np.abs(np.take(image, row, output.row_axis) - found).max()))
    print(f"{len(kept)} places: largest difference {worst:.3g}")


if __name__ == "__main__":
    main()
