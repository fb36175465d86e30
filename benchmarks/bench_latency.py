"""Do frames of stored formats take what was predicted? `make bench-latency`.

Each network is profiled here in float32, int8, int16, and both in turn (`csdfgen profile --formats mixed`). Then
formats are chosen: one for all, and within times between those of int8 and int16. Frames of all that was made are
timed in turn, by the thread's processor time, and stand beside their predictions, by that profile and by the round
numbers of native-core. Inputs are random: what is judged is time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.devices import facts
from csdfgen.devices.catalogue import device
from csdfgen.devices.files import read_profile, write_profile
from csdfgen.devices.measure import HEIGHTS, make_profile, sample_network
from csdfgen.devices.model import estimate
from csdfgen.planning.plan import Plan
from csdfgen.precision.quantize import Quantized
from csdfgen.precision.variants import variants
from runtime.images import random_inputs

PAGE, MARKER = ROOT / "docs" / "formats.md", "bench-latency"

NAMES = ("zoo:resnet8", "zoo:mobilenet_v1@128x128", "zoo:squeezenet1_1@128x128")

WITHIN = (0.25, 0.6)
"""Where latencies lie between what int8 and what int16 is predicted to take."""

ROUNDS, PICTURES, REPEATS = 31, 4, 7


@dataclass(frozen=True)
class Result:
    """A network in formats. seconds: predicted by the profile and by round numbers, and measured."""

    name: str
    wish: str
    tensors: str
    sqnr_db: float | None
    predicted: float
    rounded: float
    measured: float


def profiled(name: str, path: Path) -> None:
    """Measure a network in all formats that a choice may give its layers."""
    networks = [csdfgen.load(name), *map(csdfgen.load, variants(name, "mixed"))]
    found = [sample_network(one, HEIGHTS, REPEATS, backend="native") for one in networks]
    write_profile(path, make_profile(found, "host", "this machine", *facts.machine(), {}))


def measure(name: str) -> Iterator[Result]:
    """Profile, choose, time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.toml"
        profiled(name, path)
        profile, core = read_profile(path), device("native-core")
        shape = csdfgen.load(name).inputs[0].shape
        inputs = np.random.default_rng(0).uniform(-1, 1, (PICTURES, *shape[1:])).astype(np.float32)

        def made(wishes: Mapping[str, Any]) -> Quantized:
            return csdfgen.quantize(name, inputs, device=str(path), **wishes)

        plans: dict[str, tuple[Plan, str, float | None]] = {
            "float32": (csdfgen.plan(csdfgen.load(name), device=str(path)), "-", None)
        }
        seconds = {}
        for form in ("int8", "int16"):
            one = made({"format": form})
            plans[form] = one.plan, _tensors(one.formats), one.sqnr_db
            seconds[form] = estimate(one.plan, profile).seconds
        for part in WITHIN:
            most = seconds["int8"] + part * (seconds["int16"] - seconds["int8"])
            one = made({"format": "mixed", "latency": most})
            wish = f"mixed, {1e3 * most:.3g} ms"
            plans[wish] = one.plan, _tensors(one.formats), one.sqnr_db
        times = timed([plan for plan, _, _ in plans.values()])
        for (wish, (plan, tensors, quality)), taken in zip(plans.items(), times, strict=True):
            predicted, rounded = (estimate(plan, one).seconds for one in (profile, core))
            yield Result(
                name.removeprefix("zoo:"), wish, tensors, quality, predicted, rounded, taken
            )


def timed(plans: Sequence[Plan]) -> list[float]:
    """Medians of frames that follow one of their own, all in turn."""
    programs = [(runtime.compile(plan), random_inputs(plan.network, 7)) for plan in plans]
    samples: list[list[float]] = [[] for _ in plans]
    for _ in range(ROUNDS):
        for (program, feeds), found in zip(programs, samples, strict=True):
            program(feeds)
            start = time.thread_time()
            program(feeds)
            found.append(time.thread_time() - start)
    return [statistics.median(found) for found in samples]


def _tensors(formats: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {dtype}" for dtype, count in formats.items() if dtype != "float32")


def table(results: Sequence[Result]) -> list[str]:
    """Markdown, and the conditions of the measurement."""
    lines = [
        "| network | formats | tensors | noise, dB | predicted, ms | measured, ms | error | native-core, ms |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        noise = "-" if r.sqnr_db is None else f"{r.sqnr_db:.1f}"
        times = f"{1e3 * r.predicted:.2f} | {1e3 * r.measured:.2f} | {r.predicted / r.measured - 1:+.0%}"
        lines.append(
            f"| {r.name} | {r.wish} | {r.tensors} | {noise} | {times} | {1e3 * r.rounded:.2f} |"
        )
    return [*lines, "", f"Native code, one thread, processor time, medians; {machine()}."]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_latency", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="zoo:NAME, files; without any the page is written"
    )
    options = parser.parse_args(arguments)
    results = []
    with threadpool_limits(1):
        for name in options.names or NAMES:
            for result in measure(name):
                results.append(result)
                print("\n".join(table([result])[2:3]), flush=True)
    if not options.names:
        write_between(PAGE, MARKER, table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
