"""How much faster are two threads than one? `make bench-threads`.

    python -m benchmarks.bench_threads [NAME ...] [--threads 2] [--images 32] [--repeats 15] [--write]
    python -m benchmarks.bench_threads [NAME ...] --simulate [--write]
    python -m benchmarks.bench_threads [NAME ...] --waits

Images one after the other, in native code: on one thread; with the steps of each image shared out among threads; with
layers mapped to threads and images overlapping (`--goal throughput`), mapped by times of this machine that are measured
first; and in onnxruntime with as many threads. What the cores give at most is measured too: a program of its own on each
thread, with nothing to wait for. Times of day, all of them in turn in one process; outputs of all of ours are compared
bit for bit. Beside each ratio stand its quartiles over the rounds: other programs on the machine make them wide.
`--write` renews docs/performance.md with its picture.

`--simulate` needs no more than one core: the parts of all sections of a frame are timed one by one, and the dataflow analysis
tells the period of threads that wait for each other behind every section, and of layers mapped to threads. `--waits` tells of
the same parts for how much of a frame a thread waits for the others, and behind which kernels.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

import csdfgen
import runtime
from benchmarks.bench_speed import interleaved
from benchmarks.pages import ROOT, machine, picture, write_between
from csdfgen.backends.native.library import load
from csdfgen.backends.native.structures import structure
from csdfgen.backends.native.threads import arrange_sections
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops
from csdfgen.devices import facts
from csdfgen.devices.catalogue import device
from csdfgen.devices.files import write_profile
from csdfgen.devices.measure import make_profile, sample_network
from csdfgen.files import write_bytes
from csdfgen.goals.throughput import Mapped, graph_period, predict_mapping
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from csdfgen.program.steps import Awaiting
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
SIMULATED = (2, 4, 8, 16)
"""Threads."""
STREAM = 8
"""Images of a simulated pipeline, whose period does not depend on them."""
SECTION = 0.45e-6
"""Seconds that a section takes more than its longest part, on an Intel Xeon of 2023."""
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

    apart: of as many programs as threads, each on all images. scaling: of onnxruntime over itself on one thread. predicted: times
    as fast, of all images with filling and emptying the pipeline; period: of a filled one.
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
    scaling: Ratio


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
    runs["rival"], runs["rival alone"] = _rival(name, x, threads), _rival(name, x, 1)
    own = [runtime.compile(one) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        runs["apart"] = lambda: [*pool.map(lambda program: program(x), own)]
        times = interleaved(runs, repeats, time.perf_counter)
    times["apart"] = [seconds / threads for seconds in times["apart"]]  # of all images once
    split, mapped, rival, apart = (
        _ratio(times["alone"], times[kind]) for kind in ("split", "mapped", "rival", "apart")
    )
    return Timed(
        name,
        statistics.median(times["alone"]) / images,
        split,
        mapped,
        rival,
        apart,
        predicted.sequential / predicted.seconds,
        predicted.sequential / images / (predicted.period or predicted.seconds),
        one.planned_bytes,
        plan.planned_bytes,
        _ratio(times["rival alone"], times["rival"]),
    )


def _planned(name: str, network: Network, threads: int, images: int) -> tuple[Plan, Plan, Mapped]:
    """The default plan and the one of the goal throughput, by times that are measured now, and what is predicted."""
    with tempfile.TemporaryDirectory() as folder:
        path = _profile(name, folder)
        one = csdfgen.plan(network, device=path)
        plan = csdfgen.plan(network, goal="throughput", threads=threads, frames=images, device=path)
        return one, plan, predict_mapping(plan, [device(path)])


def simulate(name: str, repeats: int) -> list[str]:
    """Cells of a network: times as fast as one thread, steps shared / layers mapped, for each of `SIMULATED` threads."""
    network = csdfgen.load(f"zoo:{name}", batch=STREAM)
    plan = csdfgen.plan(csdfgen.load(f"zoo:{name}"))
    alone = _alone(plan, repeats)
    cells = [name]
    with tempfile.TemporaryDirectory() as folder:
        path = _profile(name, folder)
        for threads in SIMULATED:
            times = [parts for _, parts in _section_times(plan, threads, repeats)]
            period = graph_period(_section_graph(times))
            some = csdfgen.plan(
                network, goal="throughput", threads=threads, frames=STREAM, device=path
            )
            mapped = predict_mapping(some, [device(path)])
            filled = mapped.sequential / STREAM / (mapped.period or mapped.seconds)
            cells.append(f"{alone / period:.2f} / {filled:.2f}")
    return cells


def waits(name: str, threads: int, repeats: int) -> list[str]:
    """Lines about a network: the share of a frame that a thread waits, and of what."""
    plan = csdfgen.plan(csdfgen.load(f"zoo:{name}"))
    times, alone = _section_times(plan, threads, repeats), _alone(plan, repeats)
    whole, spent = sum(max(parts) for _, parts in times), sum(sum(parts) for _, parts in times)
    waited: Counter[str] = Counter()
    for kernels, parts in times:
        waited[kernels] += threads * max(parts) - sum(parts)
    return [
        f"{name}: {1e3 * alone:.2f} ms on one thread; {len(times)} sections, {sum(len(parts) == 1 for _, parts in times)} of one "
        f"part; parts take {spent / alone:.3f} of it together, their longest {1e3 * whole:.2f} ms ({alone / whole:.2f} times as "
        f"fast); a thread waits {1 - spent / threads / whole:.1%}",
        *(
            f"    {seconds / threads / whole:6.1%}  {kernels}"
            for kernels, seconds in waited.most_common(6)
        ),
    ]


def _alone(plan: Plan, repeats: int) -> float:
    """Seconds of the instructions of a frame on one thread."""
    return sum(sum(parts) for _, parts in _section_times(plan, 1, repeats))


def _section_times(plan: Plan, threads: int, repeats: int) -> list[tuple[str, list[float]]]:
    """The kernels of each section of a frame and seconds of its parts: of instructions one by one, the best of some frames."""
    program = runtime.compile(plan, threads=threads)
    (tensor,) = plan.network.inputs
    x = np.random.default_rng(7).random(tensor.shape, np.float32)
    arrays = {tensor.name: x, **program(x)}
    code = program._bound.program
    bound: Any = program._bound._bound
    for number, port in enumerate(code.ports):
        bound.open(number, arrays[port.name])
    numbers = [n for some in zip(code.code, code.stores, strict=True) for one in some for n in one]
    order, sections = arrange_sections(numbers, bound._spans, bound._touched, bound._regions)
    table = np.ascontiguousarray(bound._records[order])
    size = structure("csdf_record").size
    best, run = np.full(len(order), np.inf), load().run
    for _ in range(repeats):
        for at in range(len(order)):
            start = time.thread_time()
            run(table.ctypes.data + at * size, 1)
            best[at] = min(best[at], time.thread_time() - start)
    best = np.maximum(best - _call_seconds(), 0.0)
    kernels = {
        record: one.kernel.removesuffix("_of")
        for one, spans in zip(code.instructions, bound._spans, strict=True)
        for span in spans
        for record in span
    }
    return [
        (
            " + ".join(sorted({kernels[one] for one in order[start : start + first[-1]]})),
            [float(best[start + a : start + b].sum()) for a, b in pairwise(first)],
        )
        for start, first in sections
    ]


def measure_round_trip(turns: int = 100, repeats: int = 100) -> float:
    """Seconds in which a counter goes to another thread and comes back: about 80 ns between cores that share a cache, 300 ns
    between others, where steps that are shared gain less.
    """
    program = runtime.compile(csdfgen.plan(csdfgen.load("zoo:lenet5")), threads=2)
    bound: Any = program._bound._bound
    run = bound.self_timed(
        [
            [Awaiting(((1, k),) if k else (), (), k + 1) for k in range(turns)],
            [Awaiting(((0, k + 1),), (), k + 1) for k in range(turns)],
        ]
    )
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found) / turns


def _call_seconds() -> float:
    """What a call of the library and the clock take."""
    none, found = np.zeros(16, np.uint8), []
    for _ in range(1000):
        start = time.thread_time()
        load().run(none.ctypes.data, 0)
        found.append(time.thread_time() - start)
    return min(found)


def _section_graph(times: Sequence[Sequence[float]]) -> CsdfGraph:
    """An actor for each thread, with a phase for each section, and one that lets all of them begin the next section."""
    each = (1,) * len(times)
    spent = zip_longest(*times, fillvalue=0.0)
    actors = [
        Actor(f"thread {k}", tuple(round(1e9 * one) for one in some))
        for k, some in enumerate(spent)
    ]
    waiting = round(1e9 * SECTION) if len(actors) > 1 else 0
    channels = [
        channel
        for one in actors
        for channel in (
            Channel(f"begin {one.name}", "sections", one.name, each, each, 1, 0),
            Channel(f"end {one.name}", one.name, "sections", each, each, 0, 0),
        )
    ]
    actors.append(Actor("sections", tuple(waiting * (len(some) > 1) for some in times)))
    return add_serial_loops(CsdfGraph("threads", tuple(actors), tuple(channels)))


def simulated_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown, and the conditions."""
    lines = [
        f"| network | {' | '.join(f'{one} threads' for one in SIMULATED)} |",
        f"|---|{'---:|' * len(SIMULATED)}",
    ]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return [
        *lines,
        "",
        "Times as fast as one thread, steps shared / layers mapped (filled pipeline), by dataflow analysis of times that were "
        f"measured on one thread: of the parts of a frame, with {1e6 * SECTION:.2g} microseconds more for every section, and of "
        f"layers. Caches that threads share are not modelled. Kernels for {load().instructions}; {machine()}.",
    ]


def _profile(name: str, folder: str) -> str:
    """The file of a profile of this machine, of the layers of a network that are measured now."""
    found = [sample_network(csdfgen.load(f"zoo:{name}"), HEIGHTS, ROUNDS, backend="native")]
    path = str(Path(folder) / "here.toml")
    write_profile(path, make_profile(found, "here", "this machine", *facts.machine(), {}))
    return path


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
        "pipeline | onnxruntime | over itself | MiB | mapped, MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = (
            row.network,
            f"{1e3 * row.alone:.2f}",
            *(str(one) for one in (row.apart, row.split, row.mapped)),
            f"{row.predicted:.2f}",
            f"{row.period:.2f}",
            str(row.rival),
            str(row.scaling),
            f"{row.arena / MIB:.2f}",
            f"{row.arena_mapped / MIB:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    load_now = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return [
        *lines,
        "",
        f"{threads} threads, {images} images; times as fast as one thread, medians with quartiles of rounds in turn, times of "
        "day. Over itself: onnxruntime, compared with its own single thread. Programs apart: one on each thread, which is what "
        "these cores give. Predicted by measured times of layers. "
        f"A counter goes to the other core and back in {1e9 * measure_round_trip():.0f} ns. "
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
                    marker="_", s=260, color="black", label="predicted for mapped layers", zorder=3,
                )  # fmt: skip
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.set_xticks(range(len(rows)), [row.network for row in rows])
        axes.set_ylabel(f"speedup of {threads} threads over one")
        axes.set_ylim(0, 1.3 * threads)
        axes.legend(frameon=False, ncols=3, loc="upper center")
    return out.getvalue()


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--waits", action="store_true")
    given = parser.parse_args()
    if given.waits:
        print(f"a counter goes to another core and back in {1e9 * measure_round_trip():.0f} ns")
        for name in given.names:
            print(*waits(name, given.threads, given.repeats), sep="\n", flush=True)
        return
    if given.simulate:
        cells = []
        for name in given.names:
            cells.append(simulate(name, given.repeats))
            print(*cells[-1], flush=True)
        lines = simulated_table(cells)
        print("\n".join(lines))
        if given.write:
            write_between(PAGE, f"{MARKER}-simulated", lines)
        return
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
