"""Do launch + rows * slope predict a frame? Predicted against measured latency of six networks: `make bench-profile`.

A network's profile is made at slab heights 1, 2, 3, 6 and 12, in turn with plain frames at the heights predicted (1, 4,
auto), in one process on one thread. The profile sees single firings, the plain frames none of its clock readings. Judged
is the thread's processor time: what a frame takes on a core of its own. The time of day is shown beside it; on a machine
that does other work it holds the waiting for a core too.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.fit_tx2 import write_between
from csdfgen.devices import facts
from csdfgen.devices.measure import HEIGHTS, Sampler, measured_profile
from csdfgen.devices.model import Estimate, estimate
from csdfgen.devices.profile import DeviceProfile
from tests.networks import LIGHT, light

PAGE = Path(__file__).resolve().parent.parent / "docs" / "devices.md"

NAMES = ("bvlc_alexnet", "densenet121", "inception_v1", "resnet50", "shufflenet", "squeezenet")
PREDICTED: tuple[int | str, ...] = (1, 4, "auto")
BOUND = 0.15


@dataclass(frozen=True)
class Result:
    """A network at a slab height. Seconds: predicted, processor time and time of day measured (medians). worst: who is off."""

    name: str
    height: int | str
    firings: int
    predicted: float
    processor: float
    day: float
    worst: str

    @property
    def error(self) -> float:
        return self.predicted / self.processor - 1


def measure(name: str, repeats: int) -> Iterator[Result]:
    """Profile a network and time plain frames of it in turn; then predict."""
    network = csdfgen.load(light(name))
    sampler = Sampler(network, HEIGHTS)
    programs = {height: runtime.compile(csdfgen.plan(network, rows=height)) for height in PREDICTED}
    sampler.warm_up()
    frames: dict[int | str, list[tuple[float, float]]] = {height: [] for height in PREDICTED}
    for round_number in range(-1, repeats):
        if round_number >= 0:
            sampler.sample()
        for height, program in programs.items():
            day, processor = time.perf_counter(), time.thread_time()
            program(sampler.feeds)
            if round_number >= 0:  # the first frame warms up
                frames[height].append((time.thread_time() - processor, time.perf_counter() - day))
    profile = measured_profile([sampler.measurements()], "host", "this machine", *facts.machine(), {})
    checks = Sampler(network, PREDICTED)  # the heights predicted, firing by firing: only to say which layer is off
    checks.warm_up()
    for _ in range(max(3, repeats // 3)):
        checks.sample()
    for height, program in programs.items():
        found = estimate(program.plan, profile)
        middle = [statistics.median(values) for values in zip(*frames[height], strict=True)]
        yield Result(name, height, program.firings, found.seconds, *middle, _worst(checks, height, profile, found))


def _worst(checks: Sampler, height: int | str, profile: DeviceProfile, found: Estimate) -> str:
    """The layer shape whose predicted time is furthest from what its firings took, in ms a frame."""
    shares: list[tuple[float, str]] = []
    for key, (_, point) in checks.points(height).items():
        cost = profile.layers[key]
        predicted = cost.launch.value * point.phases + cost.slope.value * point.rows
        shares.append((predicted - point.seconds, key))
    off, key = max(shares, key=lambda share: abs(share[0]))
    return f"{' '.join(key.split(' -> ')[0].split())}: {1e3 * off:+.2f} ms ({off / found.seconds:+.1%})"


def table(results: Sequence[Result]) -> list[str]:
    """Markdown with the conditions of the measurement below."""
    lines = [
        "| network | rows | firings | predicted, ms | measured, processor ms | error | measured, time of day ms | furthest layer "
        "shape |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for r in results:
        cells = (r.name, r.height, r.firings, f"{1e3 * r.predicted:.2f}", f"{1e3 * r.processor:.2f}", f"{r.error:+.1%}")
        lines.append(f"| {' | '.join(map(str, cells))} | {1e3 * r.day:.2f} | {r.worst} |")
    errors = [abs(r.error) for r in results]
    told = facts.board_facts()
    within = sum(error <= BOUND for error in errors)
    summary = f"{within} of {len(results)} within {BOUND:.0%}, largest {max(errors):.1%}, median {statistics.median(errors):.1%}."
    machine = f"{told['cpu']}, {told['cores']} cores, governor {told['governor']}, load {told['load']}, one thread"
    heights = ", ".join(map(str, HEIGHTS))
    today = datetime.date.today().isoformat()
    return [*lines, "", f"{summary} Medians; {machine}; profile at heights {heights}; {today}."]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_profile", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"networks, of: {', '.join(LIGHT)}; without any the page is written"
    )
    parser.add_argument("--repeats", type=int, default=11)
    options = parser.parse_args(arguments)
    results = []
    with threadpool_limits(1):
        for name in options.names or NAMES:
            for result in measure(name, options.repeats):
                results.append(result)
                print(
                    f"{name} rows {result.height}: {1e3 * result.predicted:.2f} ms predicted, "
                    f"{1e3 * result.processor:.2f} measured, {result.error:+.1%}",
                    flush=True,
                )
    lines = table(results)
    print("\n" + "\n".join(lines))
    if not options.names:
        write_between(PAGE, "profile", lines)
    return int(any(abs(result.error) > BOUND for result in results))


if __name__ == "__main__":
    sys.exit(main())
