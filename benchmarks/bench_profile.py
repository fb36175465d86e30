"""Do launch + rows * slope predict a frame? Predicted against measured latency of six networks:
`make bench-profile`.

A network's profile is made at slab heights 1, 2, 3, 6 and 12, in turn with plain frames at the
heights predicted (1, 4, auto), in one process on one thread. The profile sees single firings, the
plain frames none of its clock readings. Judged is the thread's processor time: what a frame takes
on a core of its own. The time of day is shown beside it; on a machine that does other work it holds
the waiting for a core too.

`--host`: predicted against measured time of frames of default plans with native kernels, by the profile that
csdfgen keeps of this machine (`csdfgen.devices.host`), of other layers than those that it was fitted to. NAMEs
may be model files.

The error of a frame has two parts, both shown: how far the lines are from the firings, which are
timed one by one at the heights predicted for this alone, and the rest, which is how far a frame is
from the sum of its firings.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.devices import facts
from csdfgen.devices.host import host_profile
from csdfgen.devices.measure import (
    HEIGHTS,
    REPEATS,
    SECONDS,
    SEED,
    Sampler,
    count_rounds,
    make_profile,
)
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from runtime.images import random_inputs
from zoo_models import ZOO

PAGE = ROOT / "docs" / "devices.md"
MARKER, HOST_MARKER = "profile", "host"
CSV, HOST_CSV = ROOT / "docs" / "devices-profile.csv", ROOT / "docs" / "devices-host.csv"

NAMES = ("squeezenet1_1", "resnet18", "mobilenet_v2", "densenet121", "googlenet", "unet")
"""Networks of the zoo, at their published sizes: plain, residual, depthwise, dense, branched, with
an upward path.
"""

PREDICTED: tuple[int | str, ...] = (1, 4, "auto")
BOUND, FAR = 0.15, 0.30

_FURTHEST = 3


@dataclass(frozen=True)
class Share:
    """A layer shape in a frame: seconds of all its firings by its line, and as timed."""

    key: str
    predicted: float
    firings: float

    @property
    def off(self) -> float:
        return self.predicted - self.firings


@dataclass(frozen=True)
class Result:
    """A network at a slab height. Seconds: predicted; processor time and time of day measured
    (medians).

    shares: every layer shape, the furthest off first.
    """

    name: str
    height: int | str
    firings: int
    predicted: float
    processor: float
    day: float
    shares: tuple[Share, ...]

    @property
    def error(self) -> float:
        return self.predicted / self.processor - 1

    @property
    def of_lines(self) -> float:
        """The part of the error that is between the lines and the firings."""
        return sum(share.off for share in self.shares) / self.processor


def measure(name: str, repeats: int) -> Iterator[Result]:
    """Profile a network and time plain frames of it in turn; then predict."""
    network = csdfgen.load(f"zoo:{name}")
    sampler = Sampler.of(network, HEIGHTS)
    programs = {
        height: runtime.compile(csdfgen.plan(network, rows=height, backend="numpy"))
        for height in PREDICTED
    }
    sampler.warm_up()
    frames: dict[int | str, list[tuple[float, float]]] = {height: [] for height in PREDICTED}
    for _ in count_rounds(repeats, SECONDS):
        sampler.sample()
        for height, program in programs.items():
            program(sampler.feeds)  # a frame counts that follows one of its own
            day, processor = time.perf_counter(), time.thread_time()
            program(sampler.feeds)
            frames[height].append((time.thread_time() - processor, time.perf_counter() - day))
    profile = make_profile([sampler.measurements()], "host", "this machine", *facts.machine(), {})
    checks = Sampler.of(network, PREDICTED)
    checks.warm_up()
    for _ in count_rounds(max(3, repeats // 3), SECONDS / 3):
        checks.sample()
    for height, program in programs.items():
        processor, day = (statistics.median(values) for values in zip(*frames[height], strict=True))
        seconds = estimate(program.plan, profile).seconds
        yield Result(
            name, height, program.firings, seconds, processor, day, _shares(checks, height, profile)
        )


def of_host(name: str, repeats: int) -> Result:
    """The time of a frame of the default plan, predicted by the profile of this machine and measured."""
    plan = csdfgen.plan(csdfgen.load(name if name.endswith(".onnx") else f"zoo:{name}"))
    program = runtime.compile(plan)
    feeds = random_inputs(plan.network, SEED)
    frames: list[tuple[float, float]] = []
    for _ in count_rounds(repeats, SECONDS):
        day, processor = time.perf_counter(), time.thread_time()
        program(feeds)
        frames.append((time.thread_time() - processor, time.perf_counter() - day))
    # frames that took one branch are compared with its time
    taken = (f"{name}={yes / (yes + no)}" for name, (yes, no) in program.branches.items())
    options = replace(plan.options, probability=",".join(taken))
    seconds = estimate(replace(plan, options=options), host_profile()).seconds
    processor, day = (statistics.median(values) for values in zip(*frames, strict=True))
    return Result(Path(name).stem, "auto", program.firings, seconds, processor, day, ())


def host_table(results: Sequence[Result]) -> list[str]:
    """Markdown: frames whose error exceeds the bound, and how many of all are near; the CSV has every frame."""
    far = sorted((r for r in results if abs(r.error) > BOUND), key=lambda r: -abs(r.error))
    lines = ["| beyond 15 % | predicted, ms | measured, ms | error |", "|---|---:|---:|---:|"]
    for r in far:
        times = f"{1e3 * r.predicted:.3f} | {1e3 * r.processor:.3f} | {r.error:+.1%}"
        lines.append(f"| {r.name} | {times} |")
    errors = [abs(r.error) for r in results]
    near = sum(error <= FAR for error in errors)
    summary = (
        f"{near} of {len(results)} within {FAR:.0%}, median error {statistics.median(errors):.1%}."
    )
    kernels = host_profile().conditions["kernels"]
    return [*lines, "", f"{summary} Kernels for {kernels}; medians, one thread; {machine()}."]


def to_csv(results: Sequence[Result]) -> str:
    """A line for each network and height, in milliseconds."""
    lines = ["network,rows,firings,predicted,processor,wall"]
    for r in results:
        times = ",".join(f"{1e3 * seconds:.3f}" for seconds in (r.predicted, r.processor, r.day))
        lines.append(f"{r.name},{r.height},{r.firings},{times}")
    return "\n".join(lines) + "\n"


def _shares(checks: Sampler, height: int | str, profile: DeviceProfile) -> tuple[Share, ...]:
    found = []
    for key, (_, point) in checks.points(height).items():
        cost = profile.layers[key]
        line = cost.launch.value * point.phases + cost.slope.value * point.rows
        found.append(Share(key, point.layers * line, point.layers * point.seconds))
    return tuple(sorted(found, key=lambda share: -abs(share.off)))


def table(results: Sequence[Result]) -> list[str]:
    """Markdown, what is behind each error beyond the bound, and the conditions of the measurement."""
    heights = list(dict.fromkeys(r.height for r in results))
    lines = [
        f"| predicted / measured, ms | {' | '.join(f'--rows {height}' for height in heights)} |",
        f"|---|{'---:|' * len(heights)}",
    ]
    for name in dict.fromkeys(r.name for r in results):
        of = {r.height: _compared(r) for r in results if r.name == name}
        lines.append(f"| {name} | {' | '.join(of.get(height, '') for height in heights)} |")
    errors = [abs(r.error) for r in results]
    within = sum(error <= BOUND for error in errors)
    summary = f"{within} of {len(results)} within {BOUND:.0%}, largest {max(errors):.1%}, median {statistics.median(errors):.1%}."
    told = facts.board_facts()
    conditions = (
        f"Medians, one thread, profile at heights {', '.join(map(str, HEIGHTS))}; {told['cores']} cores, governor "
        f"{told['governor']}, load {told['load']}; {machine()}."
    )
    return [*lines, "", *_explained(results), f"{summary} {conditions}"]


def _compared(r: Result) -> str:
    return f"{1e3 * r.predicted:.2f} / {1e3 * r.processor:.2f} ({r.error:+.1%})"


def _explained(results: Sequence[Result]) -> Iterator[str]:
    """Which layer shapes are off where a frame is, and whether it is the lines or the frame."""
    for r in results:
        if abs(r.error) > BOUND:
            shapes = "; ".join(_said(share) for share in r.shares[:_FURTHEST])
            yield f"- {r.name} at {r.height}: {r.error:+.1%}, of which {r.of_lines:+.1%} are the lines: {shapes}."
            yield ""


def _said(share: Share) -> str:
    shape = share.key.partition(" -> ")[0]
    return f"{shape}: {1e3 * share.predicted:.2f} for {1e3 * share.firings:.2f} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_profile", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="networks of the zoo; without any the page is written",
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--host", action="store_true")
    options = parser.parse_args(arguments)
    if options.host:
        return _check_host(options.names, options.repeats)
    unknown = [name for name in options.names if name.partition("@")[0] not in ZOO]
    if unknown:
        parser.error(f"no such network: {', '.join(unknown)}")
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
        write_between(PAGE, MARKER, lines)
        CSV.write_text(to_csv(results))
    return int(any(abs(result.error) > BOUND for result in results))


def _check_host(names: Sequence[str], repeats: int) -> int:
    results = []
    for name in (
        *(ZOO if not names or "zoo" in names else ()),
        *(one for one in names if one != "zoo"),
    ):
        results.append(of_host(name, repeats))
        print(f"{name}: {results[-1].error:+.1%}", flush=True)
    lines = host_table(results)
    print("\n" + "\n".join(lines))
    if not names:
        write_between(PAGE, HOST_MARKER, lines)
        HOST_CSV.write_text(to_csv(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
