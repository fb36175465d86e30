"""Does memory stay flat, frame after frame, and are outputs right when threads share a program?
`make bench-endurance`.

    python -m benchmarks.bench_endurance [--write]

One process: 100,000 frames of a small network, 200 of resnet50, each with the resident memory of the
process after the first frames and after all; then eight threads that share one program, each output
compared with that of a frame alone. `--write` renews a table of docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from runtime.images import random_inputs

PAGE, MARKER = ROOT / "docs" / "performance.md", "endurance"
FRAMES = {"zoo:lenet5": 100_000, "zoo:resnet50": 200}
EARLY = 50
"""Part of the frames, the first of so many, after which memory is read the first time."""

SHARED, THREADS, TURNS = "zoo:squeezenet1_1", 8, 400
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Endured:
    """Frames of a network; bytes resident after the first and after all; seconds of all."""

    network: str
    frames: int
    early: int
    late: int
    seconds: float


def resident() -> int:
    """Bytes of this process in memory (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("the system does not tell")


def endure(name: str, frames: int) -> Endured:
    """Run frames. Raises AssertionError where an output changes."""
    network = csdfgen.load(name)
    program = runtime.compile(csdfgen.plan(network))
    x = random_inputs(network, 1)
    first = {output: value.copy() for output, value in program(x).items()}
    early, start = 0, time.perf_counter()
    for number in range(frames):
        found = program(x)
        if number == frames // EARLY:
            early = resident()
    seconds = time.perf_counter() - start
    _check(found, first)
    return Endured(name, frames, early, resident(), seconds)


def share() -> int:
    """Outputs that threads with one program got right. Raises AssertionError for one that is wrong."""
    network = csdfgen.load(SHARED)
    program = runtime.compile(csdfgen.plan(network))
    inputs = [random_inputs(network, seed) for seed in range(THREADS)]
    alone = [{output: value.copy() for output, value in program(x).items()} for x in inputs]

    def one(turn: int) -> None:
        _check(program(inputs[turn % THREADS]), alone[turn % THREADS])

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(1 for _ in pool.map(one, range(TURNS)))


def _check(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    for output, value in wanted.items():
        assert found[output].tobytes() == value.tobytes(), output


def table(rows: Sequence[Endured], right: int) -> list[str]:
    """Markdown."""
    lines = [
        "| network | frames | resident early, MiB | at the end, MiB | ms a frame |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        early, late = row.early / MIB, row.late / MIB
        lines.append(
            f"| {row.network} | {row.frames:,} | {early:.1f} | {late:.1f} | {1e3 * row.seconds / row.frames:.3f} |"
        )
    return [
        *lines,
        "",
        f"Early: after a fiftieth of the frames. {THREADS} threads that share a program of {SHARED}: {right} of "
        f"{TURNS} outputs equal to those of a frame alone, bit for bit. Time of day; {machine()}.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_endurance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help=f"renew a table of {PAGE.name}")
    options = parser.parse_args(arguments)
    lines = table([endure(name, frames) for name, frames in FRAMES.items()], share())
    print("\n".join(lines))
    if options.write:
        write_between(PAGE, MARKER, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
