"""How much faster are two threads than one? `make bench-threads`.

    python -m benchmarks.bench_threads [NAME ...] [--threads 2] [--images 8] [--repeats 15] [--write]

Images one after the other, in native code: on one thread; with the steps of each image shared out among threads; with
layers mapped to threads and images overlapping (`--goal throughput`), mapped by times of this machine that are measured
first; and in onnxruntime with as many threads. What the cores give at most is measured too: a program of its own on each
thread, with nothing to wait for. Times of day, all of them in turn in one process; outputs of all of ours are compared
bit for bit. Beside each ratio stand its quartiles over the rounds: other programs on the machine make them wide.
`--write` renews docs/performance.md with its picture.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import csdfgen
import runtime
from benchmarks.bench_speed import interleaved
from benchmarks.pages import ROOT, machine, picture, write_between
from csdfgen.backends.native.library import load
from csdfgen.devices import facts
from csdfgen.devices.catalogue import device
from csdfgen.devices.files import write_profile
from csdfgen.devices.measure import make_profile, sample_network
from csdfgen.files import write_bytes
from csdfgen.goals.throughput import Mapped, predict_mapping
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from csdfgen.reading.zoo import build
from runtime.reference import MismatchError
from zoo_models import ZOO

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance-threads.svg"
MARKER = "threads"
NAMES = ("resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1", "tiny_yolo_v2")
HEIGHTS: tuple[int | str, ...] = (1, 4, "auto")
"""At which layers are measured for the mapping."""
ROUNDS = 5
"""Of measuring layers."""
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as one thread: the median over rounds, and the quartiles."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True, slots=True)
class Timed:
    """A network: seconds of an image on one thread, its time over that of others in each round, and what is predicted.

    apart: of as many programs as threads, each on all images. predicted: times as fast, of all images with filling and
    emptying the pipeline; period: of a filled one.
    """

    network: str
    alone: float
    split: Ratio
    mapped: Ratio
    rival: Ratio
    apart: Ratio
    predicted: float
    period: float
    arena: int
    arena_mapped: int


def measure(name: str, threads: int, images: int, repeats: int) -> Timed:
    """Time frames of a network. Raises MismatchError where outputs differ."""
    network = csdfgen.load(f"zoo:{name}", batch=images)
    one, plan, predicted = _planned(name, network, threads, images)
    programs = {
        "alone": runtime.compile(one),
        "split": runtime.compile(one, threads=threads),
        "mapped": runtime.compile(plan, threads=threads),
    }
    if programs["mapped"]._bound.processors != threads:
        raise SystemExit(f"{name}: its layers are not executed on {threads} threads")
    low, high = ZOO[name].pixels
    (tensor,) = network.inputs
    shape = network.whole_shape(tensor)
    x = np.random.default_rng(7).uniform(low, high, shape).astype(np.float32)
    wanted = programs["alone"](x)
    for kind, program in programs.items():
        for output, got in program(x).items():
            if not np.array_equal(got, wanted[output]):
                raise MismatchError(f"'{output}' of '{kind}' differs", where=name)
    runs: dict[str, Callable[[], object]] = {
        kind: (lambda program=program: program(x)) for kind, program in programs.items()
    }
    runs["rival"] = _rival(name, x, threads)
    own = [runtime.compile(one) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        runs["apart"] = lambda: [*pool.map(lambda program: program(x), own)]
        times = interleaved(runs, repeats, time.perf_counter)
    times["apart"] = [seconds / threads for seconds in times["apart"]]  # of all images once
    return Timed(
        name,
        statistics.median(times["alone"]) / images,
        *(_ratio(times["alone"], times[kind]) for kind in ("split", "mapped", "rival", "apart")),
        predicted.sequential / predicted.seconds,
        predicted.sequential / images / (predicted.period or predicted.seconds),
        one.planned_bytes,
        plan.planned_bytes,
    )


def _planned(name: str, network: Network, threads: int, images: int) -> tuple[Plan, Plan, Mapped]:
    """The default plan and the one of the goal throughput, by times that are measured now, and what is predicted."""
    found = [sample_network(csdfgen.load(f"zoo:{name}"), HEIGHTS, ROUNDS, backend="native")]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "here.toml")
        write_profile(path, make_profile(found, "here", "this machine", *facts.machine(), {}))
        one = csdfgen.plan(network, device=path)
        plan = csdfgen.plan(network, goal="throughput", threads=threads, frames=images, device=path)
        return one, plan, predict_mapping(plan, [device(path)])


def _rival(name: str, x: np.ndarray, threads: int) -> Callable[[], object]:
    """The same images in onnxruntime."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(
        build(f"zoo:{name}").SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (given,) = session.get_inputs()
    return lambda: [session.run(None, {given.name: one[None]}) for one in x]


def _ratio(alone: Sequence[float], other: Sequence[float]) -> Ratio:
    low, middle, high = statistics.quantiles(
        [a / b for a, b in zip(alone, other, strict=True)], n=4
    )
    return Ratio(middle, low, high)


def table(rows: Sequence[Timed], threads: int, images: int) -> list[str]:
    """Markdown, and the conditions of the measurement."""
    lines = [
        "| network | one thread, ms an image | programs apart | steps shared | layers mapped | predicted | filled "
        "pipeline | onnxruntime | MiB | mapped, MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = (
            row.network,
            f"{1e3 * row.alone:.2f}",
            *(str(one) for one in (row.apart, row.split, row.mapped)),
            f"{row.predicted:.2f}",
            f"{row.period:.2f}",
            str(row.rival),
            f"{row.arena / MIB:.2f}",
            f"{row.arena_mapped / MIB:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    load_now = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return [
        *lines,
        "",
        f"{threads} threads, {images} images; times as fast as one thread, medians with quartiles of rounds in turn, times of "
        "day. Programs apart: one on each thread, which is what these cores give. Predicted by measured times of layers. "
        f"Load average {load_now} on {os.cpu_count()} cores at the end; kernels for {load().instructions}; "
        f"{machine('onnxruntime')}.",
    ]


def draw(rows: Sequence[Timed], threads: int) -> bytes:
    """A group of bars for each network."""
    kinds = (
        ("programs apart", [row.apart for row in rows]),
        ("steps shared", [row.split for row in rows]),
        ("layers mapped", [row.mapped for row in rows]),
        ("onnxruntime", [row.rival for row in rows]),
    )
    with picture(9, 4) as (axes, out):
        for number, (label, ratios) in enumerate(kinds):
            at = np.arange(len(rows)) + 0.2 * (number - 1.5)
            middles = [one.middle for one in ratios]
            reach = [
                [one.middle - one.low for one in ratios],
                [one.high - one.middle for one in ratios],
            ]
            axes.bar(at, middles, 0.18, label=label, yerr=reach, capsize=2)
            if label == "layers mapped":
                axes.scatter(
                    at, [row.predicted for row in rows],
                    marker="_", s=260, color="black", label="predicted of mapped layers", zorder=3,
                )  # fmt: skip
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.set_xticks(range(len(rows)), [row.network for row in rows])
        axes.set_ylabel(f"times as fast as one thread, {threads} threads")
        axes.set_ylim(0, 1.3 * threads)
        axes.legend(frameon=False, ncols=3, loc="upper center")
    return out.getvalue()


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = []
    for name in given.names:
        rows.append(measure(name, given.threads, given.images, given.repeats))
        print(rows[-1], flush=True)
    lines = table(rows, given.threads, given.images)
    print("\n".join(lines))
    if given.write:
        write_between(PAGE, MARKER, lines)
        write_bytes(PICTURE, draw(rows, given.threads))


if __name__ == "__main__":
    main()
