"""What does a millisecond cost in memory, and is it the predicted one? Fronts of four networks.

    python -m benchmarks.bench_front [NAME ...]

A network is profiled on this machine (`csdfgen profile`); then every plan of its front is run, its outputs
are compared with onnxruntime's, and all of them are timed in turn: the thread's processor time, medians.
Without names the table of docs/tradeoffs.md is written.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.devices import facts
from csdfgen.devices.files import write_profile
from csdfgen.devices.measure import HEIGHTS, Sampler, count_rounds, make_profile
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.facts import list_heights
from csdfgen.model.network import Network
from csdfgen.reading.zoo import look_up
from runtime.verify import check_outputs

PAGE = ROOT / "docs" / "tradeoffs.md"
MARKER = "fronts"
NAMES = ("squeezenet1_0", "resnet50", "mobilenet_v2", "tiny_yolo_v2")
REPEATS, SECONDS = 9, 1.0
MIB = 2**20


@dataclass(frozen=True)
class Row:
    """A plan of a front: bytes beside the caller's input, seconds of a frame predicted and measured;
    rows: the tallest slab. equal: outputs are onnxruntime's.
    """

    name: str
    bytes: int
    firings: int
    rows: int
    predicted: float
    measured: float
    equal: bool


def front(name: str) -> list[Row]:
    """The front of a network, measured."""
    network = csdfgen.load(f"zoo:{name}")
    low, high = look_up(f"zoo:{name}")[0].pixels
    rng = np.random.default_rng(0)
    feeds = {t.name: rng.uniform(low, high, t.shape).astype(t.dtype) for t in network.inputs}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "host.toml"
        write_profile(file, _profile(network))
        points = csdfgen.pareto(network, device=str(file))
    programs = [runtime.compile(point.plan) for point in points]
    equal = [
        all(one.ok for one in check_outputs(f"zoo:{name}", point.plan, feeds, program(feeds)))
        for point, program in zip(points, programs, strict=True)
    ]
    times: list[list[float]] = [[] for _ in points]
    for _ in range(REPEATS):
        for program, own in zip(programs, times, strict=True):
            program(feeds)  # a frame counts that follows one of its own
            start = time.thread_time()
            program(feeds)
            own.append(time.thread_time() - start)
    return [
        Row(
            name,
            point.bytes,
            len(point.plan.order),
            max(list_heights(point.plan).values()),
            point.seconds,
            statistics.median(own),
            same,
        )
        for point, own, same in zip(points, times, equal, strict=True)
    ]


def _profile(network: Network) -> DeviceProfile:
    sampler = Sampler.of(network, HEIGHTS)
    sampler.warm_up()
    for _ in count_rounds(REPEATS, SECONDS):
        sampler.sample()
    return make_profile([sampler.measurements()], "host", "this machine", *facts.machine(), {})


def _point(row: Row) -> str:
    wrong = "" if row.equal else " DIFFERENT"
    return f"{row.bytes / MIB:.3f}: {1e3 * row.measured:.1f} ({1e3 * row.predicted:.1f}){wrong}"


def table(rows: Sequence[Row]) -> list[str]:
    """Markdown, and the conditions of the measurement."""
    lines = [
        "| network | MiB: measured ms (predicted), from the smallest plan to the fastest |",
        "|---|---|",
    ]
    for name in dict.fromkeys(row.name for row in rows):
        points = "; ".join(map(_point, (row for row in rows if row.name == name)))
        lines.append(f"| {name} | {points} |")
    errors = [abs(row.predicted / row.measured - 1) for row in rows]
    return [
        *lines,
        "",
        f"Predicted within {statistics.median(errors):.0%} in the median, {max(errors):.0%} at the most. Processor time of one "
        f"thread, medians of {REPEATS} interleaved frames; {machine()}.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_front", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks of the zoo")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    with threadpool_limits(1):
        for name in options.names or NAMES:
            rows.extend(front(name))
            print("\n".join(table([row for row in rows if row.name == name])[2:]), flush=True)
    if not options.names:
        write_between(PAGE, MARKER, table(rows))
    return int(not all(row.equal for row in rows))


if __name__ == "__main__":
    sys.exit(main())
