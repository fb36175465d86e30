"""How long does a frame of an int8 network take beside the same in float, and beside onnxruntime's int8? `make bench-int8`.

Networks of the zoo at their published sizes, made int8 by onnxruntime's own tool (QOperator, int8 weights per
channel, int8 activations), native code, one thread each, frames of all four interleaved in one process,
medians. Outputs are onnxruntime's to the last bit, or there is no line. The table goes between markers into
docs/int8.md, those of processors with AVX2 and with AVX-512, and of `--backend numpy`, each between their own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.errors import CsdfgenError
from csdfgen.native.backends import kernels_of
from csdfgen.reading.zoo import build
from tests.quantized_models import feeds_of, prepared, quantized, session

PAGE = ROOT / "docs" / "int8.md"
MARKERS = {"avx2": "bench-int8-avx2", "avx512": "bench-int8", "numpy": "bench-int8-numpy"}
"""By what kernels are made of: a machine rewrites its own table."""

NAMES = (
    "resnet8",
    "mobilenet_v1_x0_25",
    "mobilenet_v2",
    "squeezenet1_1",
    "resnet18",
    "resnet50",
)

KIB = 2**10


@dataclass(frozen=True)
class Measured:
    """Seconds a frame of float and int8, ours and theirs; bytes of the two arenas."""

    name: str
    ours: float
    ours_float: float
    theirs: float
    theirs_float: float
    arena: int
    arena_float: int


def medians(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Seconds of functions called in turn, so that a busy machine slows all alike; in another order each time,
    as what ran before leaves its own data in the caches.
    """
    times: list[list[float]] = [[] for _ in functions]
    order, chance = list(range(len(functions))), random.Random(0)
    for number in range(repeats + 1):
        chance.shuffle(order)
        for one in order:
            start = time.perf_counter()
            functions[one]()
            if number:  # the first is for the caches
                times[one].append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


def measure(name: str, repeats: int, backend: str) -> Measured:
    """Time one network. Raises CsdfgenError where outputs are not onnxruntime's."""
    model = prepared(build(f"zoo:{name}"))
    integers = quantized(model, "QOperator")
    x = feeds_of(model)
    plans = [csdfgen.plan(csdfgen.load(one), backend=backend) for one in (integers, model)]
    ours, ours_float = (runtime.compile(plan) for plan in plans)
    theirs, theirs_float = session(integers), session(model)
    for wanted, got in zip(theirs.run(None, x), ours(x).values(), strict=True):
        if not np.array_equal(wanted, got):
            raise CsdfgenError("outputs differ from onnxruntime's", where=name)
    seconds = medians(
        [
            lambda: ours(x),
            lambda: ours_float(x),
            lambda: theirs.run(None, x),
            lambda: theirs_float.run(None, x),
        ],
        repeats,
    )
    return Measured(name, *seconds, *(plan.planned_bytes for plan in plans))


def table(rows: Sequence[Measured], backend: str) -> list[str]:
    """Markdown, with the conditions of the measurement below."""
    lines = [
        "| network | int8, ms | float, ms | ratio | onnxruntime int8, ms | ratio | onnxruntime float, ms "
        "| int8 arena, KiB | float arena, KiB | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    ratios: list[tuple[float, float, float]] = []
    for m in rows:
        ratios.append((m.ours / m.ours_float, m.ours / m.theirs, m.arena / m.arena_float))
        cells = (
            m.name,
            f"{m.ours * 1e3:.2f}",
            f"{m.ours_float * 1e3:.2f}",
            f"{ratios[-1][0]:.2f}",
            f"{m.theirs * 1e3:.2f}",
            f"{ratios[-1][1]:.2f}",
            f"{m.theirs_float * 1e3:.2f}",
            f"{m.arena / KIB:.0f}",
            f"{m.arena_float / KIB:.0f}",
            f"{ratios[-1][2]:.3f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    means = [exp(sum(map(log, column)) / len(rows)) for column in zip(*ratios, strict=True)]
    lines.append(
        f"| **geometric mean** | | | **{means[0]:.2f}** | | **{means[1]:.2f}** | | | | **{means[2]:.3f}** |"
    )
    code = kernels_of(backend).code
    return [
        *lines,
        "",
        f"One thread each, frames interleaved, medians; kernels for {code}; {machine('onnxruntime')}.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_int8", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="networks of the zoo; those of the page, and the page is written, if there are none",
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--backend", choices=("native", "numpy"), default="native")
    options = parser.parse_args(arguments)
    rows = []
    with threadpool_limits(1):
        for name in options.names or NAMES:
            rows.append(measure(name, options.repeats, options.backend))
            m = rows[-1]
            print(
                f"{m.name}: int8 {m.ours * 1e3:.2f} ms, float {m.ours_float * 1e3:.2f} ms, "
                f"onnxruntime {m.theirs * 1e3:.2f} ms",
                flush=True,
            )
    lines = table(rows, options.backend)
    print("\n" + "\n".join(lines))
    there = MARKERS.get(kernels_of(options.backend).code)
    if not options.names and there is not None:
        write_between(PAGE, there, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
