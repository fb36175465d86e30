"""How long does the exact analysis take on growing graphs, and what does it prove? `make
bench-analysis`.

Seconds are processor time of one thread; the limits of --seconds are by the clock. A line of the
table is a shape and a number of
layers: the slowest of its graphs, with every number of rows, with and without overlap loops. What
SDF3 and Kiter took on such graphs is quoted from recorded runs; where they are installed
(CSDFGEN_SDF3, CSDFGEN_KITER) they are timed here, too. Tables and plot go into docs/sdf3.md if
nothing was left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from benchmarks.bench_analysis_plot import draw
from benchmarks.pages import ROOT, machine, write_between
from benchmarks.recorded_times import RECORDED
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops, repetition_vector
from csdfgen.errors import CsdfgenError
from schedules.storage import StorageDistribution, pareto_front, size_storage
from schedules.throughput import throughput
from sdf3_bridge.engines import analyze_kiter, analyze_sdf3
from sdf3_bridge.tools import KITER, SDF3, find_tool
from tests.cnn_graphs import SHAPES, cnn_graph, random_graph

__all__ = ["CAPACITIES", "Measured", "Sized", "main", "measure", "throughput_by_capacity"]

PAGE = ROOT / "docs" / "sdf3.md"
PLOT = ROOT / "docs" / "sdf3-bench.svg"

LAYERS = (5, 10, 20, 50)
ROWS = (16, 56, 112, 224)
ACTORS = (10, 20, 50, 100)
SEEDS = (1, 2, 3)
CAPACITIES = (1_000, 3_000, 10_000, 30_000)

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Sized:
    """Seconds for storage distributions, and what was found."""

    seconds: float
    points: tuple[StorageDistribution, ...]

    @property
    def gap(self) -> float:
        """Largest share of a size that is not proven to be necessary."""
        return max(1 - point.least / point.size for point in self.points)

    @property
    def exact(self) -> int:
        return sum(point.exact for point in self.points)


@dataclass(frozen=True)
class Measured:
    """One graph: seconds for its throughput, unbounded and in the least storage, and its storage.

    tools: tool -> seconds for the throughput in the least storage, or why there are none.
    """

    graph: str
    group: tuple[str, int]
    firings: int
    channels: int
    throughput: float
    live: Sized
    maximal: Sized
    front: Sized
    tools: dict[str, float | str]


def timed(function: Callable[[], _Result]) -> tuple[float, _Result]:
    """Processor time of a call, and its result."""
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def measure(graph: CsdfGraph, group: tuple[str, int], seconds: float) -> Measured:
    """Time the questions about one graph."""
    unbounded, free = timed(lambda: throughput(graph))
    live = Sized(*timed(lambda: (size_storage(graph, "live", seconds=seconds),)))
    maximal = Sized(*timed(lambda: (size_storage(graph, "maximal", seconds=seconds),)))
    front = Sized(*timed(lambda: tuple(pareto_front(graph, seconds=seconds))))
    (best,) = maximal.points
    bounded, held = timed(lambda: throughput(graph, best.capacities))
    assert held.value == free.value, (
        f"{graph.name}: {held.value} in the storage found, {free.value} without limits"
    )
    firings = sum(repetition_vector(graph).values())
    slowest = max(unbounded, bounded)
    return Measured(
        graph.name,
        group,
        firings,
        len(graph.channels),
        slowest,
        live,
        maximal,
        front,
        tools(graph, best.capacities, seconds),
    )


def tools(graph: CsdfGraph, capacities: object, seconds: float) -> dict[str, float | str]:
    """What the tools that are installed take for the throughput under capacities, as they count
    their seconds.
    """
    found: dict[str, float | str] = {}
    for name, family, ask in (
        ("SDF3", SDF3, analyze_sdf3),
        ("Kiter", KITER, analyze_kiter),
    ):
        if find_tool(family) is None:
            continue
        try:
            answer = ask(graph, capacities, timeout=seconds)  # type: ignore[arg-type]
            found[name] = answer.tool.seconds if answer.tool else 0.0
        except CsdfgenError as error:
            found[name] = error.message
    return found


def pair() -> CsdfGraph:
    """Two actors of times 2 and 3, on which a large capacity makes a long transient."""
    actors = Actor("A", (2,)), Actor("B", (3,))
    return add_serial_loops(CsdfGraph("pair", actors, (Channel("ab", "A", "B", (1,), (1,)),)))


def throughput_by_capacity() -> dict[str, dict[int, float]]:
    """Method -> capacity -> seconds for the throughput of two actors."""
    found: dict[str, dict[int, float]] = {"cycle-ratio": {}, "self-timed": {}}
    for method, seconds in found.items():
        for capacity in CAPACITIES:
            seconds[capacity], _ = timed(
                lambda m=method, c=capacity: throughput(pair(), {"ab": c}, method=m)
            )  # type: ignore[misc]
    return found


HEAD = (
    "| graphs: firings, channels | throughput, s | storage without deadlock / for the highest throughput, s (not proven) "
    "| front, s: points proven (not proven) |",
    "|---|---:|---:|---:|",
)


def _unproven(gap: float) -> str:
    share = _share(gap)
    return f" ({share})" if share else ""


def table(rows: Sequence[Measured], seconds: float) -> list[str]:
    """Markdown: a line for every shape and number of layers, with the largest numbers of its
    graphs.
    """
    lines = []
    for group in dict.fromkeys(one.group for one in rows):
        these = [one for one in rows if one.group == group]
        size = f"{max(one.firings for one in these):,}, {max(one.channels for one in these)}"
        points = sum(len(one.front.points) for one in these)
        cells = (
            f"{group[0]}, {group[1]} {'actors' if group[0] == 'random' else 'layers'}: {size}",
            f"{max(one.throughput for one in these):.2f}",
            f"{_slowest(one.live for one in these)} / {_slowest(one.maximal for one in these)}"
            f"{_unproven(max(max(one.live.gap, one.maximal.gap) for one in these))}",
            f"{_slowest(one.front for one in these)}: {sum(one.front.exact for one in these)} of {points}"
            f"{_unproven(max(one.front.gap for one in these))}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [
        *HEAD,
        *lines,
        "",
        f"{len(rows)} graphs: {', '.join(SHAPES)} of {_listed(ROWS)} rows, with and without overlap loops, and random graphs "
        f"of {len(SEEDS)} seeds; serial self-loops everywhere. A row has the slowest of its graphs, and all points of their "
        f"fronts. Every storage question had {seconds:g} s of wall-clock time. Not proven: the largest unproven share of a size.",
    ]


def _slowest(found: Iterable[Sized]) -> str:
    return f"{max(one.seconds for one in found):.2f}"


def _share(gap: float) -> str:
    return f"{100 * gap:.1f} %" if gap else ""


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def recorded_table(by_capacity: dict[str, dict[int, float]]) -> list[str]:
    """Markdown: what SDF3 and Kiter took, and our time for the one question that is put in numbers."""
    sizes = " / ".join(f"{capacity:,}" for capacity in CAPACITIES)
    ours = [
        (f"ours, {method}", "throughput", f"two actors, capacity {sizes}", _times(seconds))
        for method, seconds in by_capacity.items()
    ]
    lines = [
        f"| {' | '.join(row)} | {origin} |"
        for rows, origin in ((RECORDED, "recorded"), (ours, "measured"))
        for row in rows
    ]
    return ["| engine | question | graphs | time | origin |", "|---|---|---|---:|---|", *lines]


def _times(seconds: dict[int, float]) -> str:
    return f"{' / '.join(f'{value:.2g}' for value in seconds.values())} s"


def tools_table(rows: Sequence[Measured]) -> list[str]:
    """Markdown: the tools that are installed, in this run."""
    lines = []
    for name in sorted({name for one in rows for name in one.tools}):
        answers = [one.tools[name] for one in rows if name in one.tools]
        times = [answer for answer in answers if isinstance(answer, float)]
        failed = len(answers) - len(times)
        longest = f"{max(times):.2f}" if times else ""
        lines.append(f"| {name} | {len(times)} | {longest} | {failed or ''} |")
    if not lines:
        return ["SDF3 and Kiter were not installed where this was measured."]
    head = [
        "| tool, throughput in the storage found | graphs answered | slowest, s | not answered |",
        "|---|---:|---:|---:|",
    ]
    return [*head, *lines]


def cases(
    shapes: Sequence[str], layers: Sequence[int], rows: Sequence[int]
) -> list[tuple[CsdfGraph, tuple[str, int]]]:
    """Graphs, and the line of the table that they belong to."""
    found = [
        (cnn_graph(shape, count, height, overlap=overlap), (shape, count))
        for shape, count, height, overlap in product(shapes, layers, rows, (True, False))
        if shape != "random"
    ]
    if "random" in shapes:
        found += [
            (random_graph(actors, seed=seed), ("random", actors))
            for actors in ACTORS
            for seed in SEEDS
        ]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    every = (*SHAPES, "random")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_analysis", description=__doc__
    )
    parser.add_argument("--shapes", nargs="+", choices=every, default=every)
    parser.add_argument("--layers", nargs="+", type=int, default=LAYERS)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="limit for each storage question, by the clock"
    )
    options = parser.parse_args(arguments)
    rows = []
    for graph, group in cases(options.shapes, options.layers, options.rows):
        rows.append(measure(graph, group, options.seconds))
        one = rows[-1]
        print(
            f"{one.graph}, {one.channels} channels: throughput {one.throughput:.2f} s; live {one.live.seconds:.2f} s; "
            f"maximal {one.maximal.seconds:.2f} s{_gap(one.maximal)}; front {one.front.seconds:.2f} s, "
            f"{len(one.front.points)} points, {one.front.exact} proven{_gap(one.front)}",
            flush=True,
        )
    by_capacity = throughput_by_capacity()
    text = [
        *table(rows, options.seconds),
        "",
        *recorded_table(by_capacity),
        "",
        *tools_table(rows),
        "",
        f"Processor time of one thread; {machine('scipy')}.",
    ]
    print("\n" + "\n".join(text))
    complete = (tuple(options.shapes), tuple(options.layers), tuple(options.rows)) == (
        every,
        LAYERS,
        ROWS,
    )
    if complete:
        write_between(
            PAGE, "bench", [*text, "", f"![Seconds by layers and by capacity]({PLOT.name})"]
        )
        draw(rows, by_capacity, PLOT)
    return 0


def _gap(found: Sized) -> str:
    return f" ({_share(found.gap)} not proven)" if found.gap else ""


if __name__ == "__main__":
    sys.exit(main())
