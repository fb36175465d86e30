"""How much memory and time do plans take beside another version's? Interleaved, network by network, in one run.

    python -m benchmarks.bench_plan --against FOLDER [--rows 1] [--frames 5] [NAME ...]

FOLDER: a checkout of the other version. Each version runs in a process of its own, both with this
environment's Python, and they take turns: load the network anew, plan it, and run frames of it.
Bytes are arena and workspace (one block from version 0.2 on); planning is told in processor seconds,
frames in seconds of the clock (on a quiet machine), medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from math import exp, log
from pathlib import Path

import zoo_models

WORKER = """
import json, sys, time
import numpy as np
import csdfgen, runtime
from csdfgen import load, plan
for line in sys.stdin:
    name, shape, rows, frames = json.loads(line)
    shapes = {"shapes": shape} if shape else {}
    net = load(name, **shapes)
    start = time.process_time()
    made = plan(net, rows=rows)
    planning = time.process_time() - start
    version = tuple(map(int, csdfgen.__version__.split(".")[:2]))
    total = made.planned_bytes + (made.figures["workspace"] if version < (0, 2) else 0)
    times = []
    if frames:
        frame = runtime.compile(made)
        rng = np.random.default_rng(0)
        x = {t.name: rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in net.inputs}
        for _ in range(frames):
            start = time.perf_counter()
            frame(x)
            times.append(time.perf_counter() - start)
    print(json.dumps([total, planning, times]), flush=True)
"""


class Version:
    """One checkout's code in a process that answers requests one by one."""

    def __init__(self, folder: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            cwd=folder,
            env={**env, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *request: object) -> tuple[int, float, list[float]]:
        """Bytes, seconds of planning, seconds of each frame."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{request[0]}: the version's process ended")
        total, planning, times = json.loads(line)
        return total, planning, times


def main() -> None:
    """Print a line a network, and geometric means of new / old."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--rows", default="1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--frames", type=int, default=0)
    parser.add_argument("--shape", default="", help="NAME=1x3x480x640 of model files")
    parser.add_argument("names", nargs="*", help="zoo names or model files; all of the zoo without")
    asked = parser.parse_args()
    rows = int(asked.rows) if asked.rows.isdigit() else asked.rows
    shape = None
    if asked.shape:
        name, _, sizes = asked.shape.partition("=")
        shape = {name: [int(size) for size in sizes.split("x")]}
    old, new = Version(asked.against.resolve()), Version(Path(__file__).resolve().parents[1])
    logs: dict[str, list[float]] = {"bytes": [], "planning": [], "frame": []}
    larger = []
    for name in asked.names or [f"zoo:{name}" for name in zoo_models.ZOO]:
        found: dict[Version, list[tuple[int, float, list[float]]]] = {old: [], new: []}
        for _ in range(asked.repeats):
            for version, answers in found.items():
                answers.append(version.ask(name, shape, rows, asked.frames))
        before, after = found[old][0][0], found[new][0][0]
        seconds = [statistics.median(a[1] for a in found[v]) for v in (old, new)]
        logs["bytes"].append(log(after / before))
        logs["planning"].append(log(seconds[1] / seconds[0]))
        line = f"{name}: {before:,} -> {after:,} bytes ({after / before:.3f})"
        line += f", planned in {seconds[0]:.3f} -> {seconds[1]:.3f} s ({seconds[0] / seconds[1]:.2f} times as fast)"
        if asked.frames:
            frame = [statistics.median(t for a in found[v] for t in a[2][1:]) for v in (old, new)]
            logs["frame"].append(log(frame[1] / frame[0]))
            line += f", frame {1e3 * frame[0]:.1f} -> {1e3 * frame[1]:.1f} ms ({frame[1] / frame[0]:.3f})"
        if after > before:
            larger.append(name)
        print(line, flush=True)
    means = {key: exp(statistics.fmean(values)) for key, values in logs.items() if values}
    print("geometric means, new / old: " + ", ".join(f"{k} {v:.3f}" for k, v in means.items()))
    print(f"larger: {', '.join(larger) or 'none'}")


if __name__ == "__main__":
    main()
