"""How fast is native code beside onnxruntime, and in how much memory? `make bench-speed`.

    python -m benchmarks.bench_speed [NAME ...] [--repeats 15] [--write]

One thread each, thread time, frames in turn in one process, medians. Ours in four plans: the default
one, one within an eighth of the bytes that onnxruntime has alive (or the least that the network
allows), one of whole layers, all in native code, and the default one by numpy. Rivals: onnxruntime,
and openvino and ncnn where they are installed and can run the network (`benchmarks.rivals`). Outputs are
compared with onnxruntime's. `--write` renews docs/performance.md with its CSV and picture, and README's
summary.
"""

from __future__ import annotations

import argparse
import csv
import io
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from math import exp, log
from typing import Any

import numpy as np
import onnx
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.bench_frame import NAMES as FRAMES
from benchmarks.bench_frame import network as named_network
from benchmarks.pages import ROOT, machine, picture, write_between
from benchmarks.rivals import BY_DEFAULT, rivals
from csdfgen.backends.native.library import load
from csdfgen.errors import PlanError
from csdfgen.files import write_bytes
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from csdfgen.reading.zoo import build
from runtime.reference import MismatchError, Reference, compare
from tests.networks import feeds
from zoo_models import ZOO

PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
CSV = ROOT / "docs" / "performance.csv"
PICTURE = ROOT / "docs" / "performance.svg"
MARKER = "speed"
MEMORY = ROOT / "docs" / "memory.csv"

NAMES = (*FRAMES, "zoo:mobilenet_v2", "zoo:resnet18", "zoo:mobilenet_v1", "zoo:tiny_yolo_v2")
SHARE = 8
"""Part of onnxruntime's memory that the small plan is within."""

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Timed:
    """One network: seconds of a frame (medians, measured), spread (furthest quartile from the median,
    as a part of it), and bytes of arenas with outputs (planned). theirs: onnxruntime's bytes alive in
    `run()`, as docs/memory.csv has them (measured), 0 if it has not. openvino_default: with its default settings.
    """

    network: str
    native: float
    spread: float
    small: float
    whole: float
    numpy: float
    onnxruntime: float
    openvino: float | None
    ncnn: float | None
    native_bytes: int
    small_bytes: int
    whole_bytes: int
    theirs: int
    openvino_default: float | None = None

    @property
    def best(self) -> float:
        """Seconds of the fastest rival in float32."""
        return min(one for one in (self.onnxruntime, self.openvino, self.ncnn) if one)


def source(name: str) -> Any:
    """The model: a zoo name, or a network of `bench_frame`."""
    return name if name.startswith("zoo:") else named_network(name)


def measure(name: str, repeats: int) -> Timed:
    """Time frames of a network. Raises MismatchError where outputs differ."""
    model = source(name)
    network = csdfgen.load(model)
    x = _inputs(name, model, network)
    live = _live(name)
    default = csdfgen.plan(network)
    plans = {
        "native": default,
        "small": _small(network, live, default),
        "whole": csdfgen.plan(network, rows="whole"),
        "numpy": csdfgen.plan(network, backend="numpy"),
    }
    programs = {kind: runtime.compile(plan) for kind, plan in plans.items()}
    reference = Reference(model, network)
    wanted = reference(x)
    for kind, program in programs.items():
        for output, got in program(x).items():
            if not compare(output, got, wanted[output]).ok:
                raise MismatchError(f"'{output}' of the {kind} plan differs", where=name)
    runs: dict[str, Callable[[], object]] = {
        kind: (lambda program=program: program(x)) for kind, program in programs.items()
    }
    runs["onnxruntime"] = lambda: reference(x)
    proto = model if isinstance(model, onnx.ModelProto) else build(model)
    runs |= dict(rivals(proto, x, wanted))
    times = interleaved(runs, repeats)
    own = times["native"]
    middle = statistics.median(own)
    quartiles = statistics.quantiles(own, n=4)
    medians = {kind: statistics.median(seconds) for kind, seconds in times.items()}
    return Timed(
        name,
        middle,
        max(quartiles[2] - middle, middle - quartiles[0]) / middle,
        medians["small"],
        medians["whole"],
        medians["numpy"],
        medians["onnxruntime"],
        medians.get("openvino"),
        medians.get("ncnn"),
        *(_bytes(plans[kind]) for kind in ("native", "small", "whole")),
        live,
        medians.get(BY_DEFAULT),
    )


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.thread_time,
) -> dict[str, list[float]]:
    """Seconds of each run, by name: all of them once a round, after one that is not counted."""
    times: dict[str, list[float]] = {kind: [] for kind in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for kind, run in runs.items():
            start = clock()
            run()
            times[kind].append(clock() - start)
    return times


def _inputs(name: str, model: Any, network: Network) -> dict[str, np.ndarray]:
    if isinstance(model, onnx.ModelProto):
        return feeds(model)
    low, high = ZOO[name.removeprefix("zoo:")].pixels
    rng = np.random.default_rng(7)
    return {t.name: rng.uniform(low, high, t.shape).astype(t.dtype) for t in network.inputs}


def _small(network: Network, live: int, default: Plan) -> Plan:
    """Within the share of onnxruntime's memory, or as small as can be."""
    if live and _bytes(default) <= live // SHARE:
        return default
    if live:
        with suppress(PlanError):  # it may be less than the network needs
            return csdfgen.plan(network, memory=live // SHARE)
    return csdfgen.plan(network, goal="memory")


def _bytes(plan: Plan) -> int:
    return plan.figures["arena"] + plan.figures["outputs"]


def _live(name: str, whose: str = "onnxruntime") -> int:
    """Bytes that docs/memory.csv tells of a network, 0 where it does not."""
    with MEMORY.open() as file:
        for row in csv.DictReader(file):
            if row["network"] == name:
                return int(row[whose] or 0)
    return 0


# What is written ---------------------------------------------------------------------------------


def mean(values: Sequence[float]) -> float:
    """Geometric mean.

    >>> round(mean([0.5, 2.0]), 3)
    1.0
    """
    return exp(sum(map(log, values)) / len(values))


def table(rows: Sequence[Timed]) -> list[str]:
    """Markdown, geometric means, and the conditions of the measurement."""
    lines = [
        "| ms | native (spread) | onnxruntime (ratio) | openvino, by default | ncnn | to the best rival | MiB "
        "| small plan: MiB, ms (ratio) | whole layers | numpy |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        openvino = (row.openvino, row.openvino_default)
        cells = (
            row.network,
            f"{1e3 * row.native:.2f} ({row.spread:.0%})",
            f"{1e3 * row.onnxruntime:.2f} ({row.native / row.onnxruntime:.2f})",
            ", ".join(f"{1e3 * one:.2f}" for one in openvino if one is not None),
            "" if row.ncnn is None else f"{1e3 * row.ncnn:.2f}",
            f"{row.native / row.best:.2f}",
            f"{row.native_bytes / MIB:.3f}",
            f"{row.small_bytes / MIB:.3f}, {1e3 * row.small:.2f} ({row.small / row.onnxruntime:.2f})",
            f"{1e3 * row.whole:.2f}",
            f"{1e3 * row.numpy:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    ratios = [row.native / row.onnxruntime for row in rows]
    best = [row.native / row.best for row in rows]
    small = [row.small / row.onnxruntime for row in rows]
    phased = [row.native / row.whole for row in rows]
    return [
        *lines,
        "",
        f"Geometric means: native / onnxruntime {mean(ratios):.2f}, worst {max(ratios):.2f}; to the best rival here "
        f"{mean(best):.2f}, worst {max(best):.2f}; small plans / onnxruntime {mean(small):.2f}; phased / whole layers, same "
        f"kernels, {mean(phased):.2f}; native / numpy {mean([row.native / row.numpy for row in rows]):.2f}.",
        "",
        f"Thread time of one thread, medians, interleaved frames; kernels for {load().instructions}; "
        f"{machine('onnxruntime', 'openvino', 'ncnn')}. openvino computes in float32, then with "
        "its default settings. Bytes are planned: arena and outputs.",
    ]


def summary(rows: Sequence[Timed]) -> list[str]:
    """README's sentence."""
    times = [row.native / row.onnxruntime for row in rows]
    memory = [row.theirs / row.native_bytes for row in rows if row.theirs]
    return [
        f"- **{mean(times):.2f} of onnxruntime's time** (geometric mean of {len(times)} networks; "
        f"{min(times):.2f} to {max(times):.2f}), "
        f"with {min(memory):.1f} to {max(memory):.1f} times less memory ({len(memory)} networks; arena and "
        "outputs)."
    ]


def to_csv(rows: Sequence[Timed]) -> str:
    """The same, seconds and bytes."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Timed)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return out.getvalue()


def from_csv(text: str) -> list[Timed]:
    """What `to_csv` wrote."""
    kinds = {field.name: field.type for field in fields(Timed)}
    return [
        Timed(
            **{
                name: value
                if kinds[name] == "str"
                else int(value)
                if kinds[name] == "int"
                else (float(value) if value else None)
                for name, value in row.items()
            }
        )
        for row in csv.DictReader(io.StringIO(text))
    ]


_LEFT = 1 / 130
"""Where the names stand, as a part of onnxruntime's bytes."""
_LINE = 0.058
"""Least distance of two names, in parts of its time."""


def _points(row: Timed) -> list[tuple[float, float]]:
    """(bytes, seconds) of the plans as parts of onnxruntime's, from the smallest on; equal ones once."""
    plans = {row.whole_bytes: row.whole, row.small_bytes: row.small, row.native_bytes: row.native}
    return sorted((size / row.theirs, time / row.onnxruntime) for size, time in plans.items())


def _apart(wanted: Mapping[str, float]) -> dict[str, float]:
    """Heights as near to these as can be, none closer to another than a line.

    >>> {name: round(y, 3) for name, y in _apart({"a": 0.5, "b": 0.51}).items()}
    {'a': 0.5, 'b': 0.558}
    """
    found: dict[str, float] = {}
    last = -_LINE
    for name in sorted(wanted, key=lambda name: wanted[name]):
        last = found[name] = max(wanted[name], last + _LINE)
    return found


def draw(rows: Sequence[Timed]) -> bytes:
    """Time against memory, both as parts of onnxruntime's: each network's plans joined by a line."""
    with picture(9, 5.4) as (axes, out):
        shown = [row for row in rows if row.theirs]
        ends = {row.network: min(_points(row)) for row in shown}
        heights = _apart({name: y for name, (_, y) in ends.items()})
        for row in shown:
            line = axes.plot(
                *zip(*_points(row), strict=True), marker="o", markersize=4, linewidth=1.2
            )
            axes.annotate(
                row.network,
                ends[row.network],
                (_LEFT, heights[row.network]),
                textcoords="data",
                fontsize=8,
                va="center",
                color=line[0].get_color(),
                arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "#999999"},
            )
            taken = _live(row.network, "openvino")
            if row.openvino and taken:
                axes.plot(
                    taken / row.theirs,
                    row.openvino / row.onnxruntime,
                    marker="D",
                    markersize=5,
                    markerfacecolor="white",
                    color=line[0].get_color(),
                    linestyle="none",
                )
        if any(row.openvino and _live(row.network, "openvino") for row in shown):
            own = axes.plot([], [], marker="o", markersize=4, color="#555555")
            theirs = axes.plot(
                [], [], marker="D", markerfacecolor="white", color="#555555", linestyle="none"
            )
            axes.legend(
                [*own, *theirs],
                ["csdfgen: plans from small to whole layers", "openvino, the same network"],
                facecolor="white",
                edgecolor="none",
                framealpha=1,
                fontsize=9,
                loc="lower right",
            )
        axes.plot(1, 1, marker="*", markersize=14, color="black", linestyle="none")
        axes.annotate("onnxruntime", (1, 1), (8, 6), textcoords="offset points", fontsize=9)
        axes.axhline(1, color="#999999", linewidth=0.8)
        axes.axvline(1, color="#999999", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xlim(_LEFT / 1.1, max(2.0, 1.2 * axes.dataLim.x1))
        parts = (1, 2, 4, 8, 16, 32)
        axes.set_xticks(
            [1 / part for part in parts], [f"1/{part}" if part > 1 else "1" for part in parts]
        )
        axes.minorticks_off()
        axes.set_xlabel("bytes alive in a frame, as a part of onnxruntime's")
        axes.set_ylabel("time of a frame, as a part of onnxruntime's")
        axes.set_ylim(bottom=0)
    return out.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}, zoo:NAME")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--write", action="store_true", help=f"renew {PAGE.name}")
    parser.add_argument(
        "--draw", action="store_true", help=f"draw {CSV.name} again, measure nothing"
    )
    options = parser.parse_args(arguments)
    rows: list[Timed] = []
    if options.draw:
        write_bytes(PICTURE, draw(from_csv(CSV.read_text())))
        return 0
    with threadpool_limits(1):
        for name in options.names or NAMES:
            rows.append(measure(name, options.repeats))
            row = rows[-1]
            print(
                f"{name}: native {1e3 * row.native:.2f} ms in {row.native_bytes / MIB:.3f} MiB, small "
                f"{1e3 * row.small:.2f} in {row.small_bytes / MIB:.3f}, whole {1e3 * row.whole:.2f}, numpy "
                f"{1e3 * row.numpy:.1f}, onnxruntime {1e3 * row.onnxruntime:.2f}: ratio {row.native / row.onnxruntime:.2f}",
                flush=True,
            )
    lines = table(rows)
    print("\n" + "\n".join(lines))
    if options.write:
        write_between(PAGE, MARKER, lines)
        write_between(README, MARKER, summary(rows))
        write_bytes(CSV, to_csv(rows).encode())
        write_bytes(PICTURE, draw(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
