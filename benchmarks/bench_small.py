"""How fast are small networks, a frame of which takes some tens of microseconds? `make bench-small`.

    python -m benchmarks.bench_small [NAME ...] [--repeats 101] [--write]

One thread each, thread time, in turn in one process, medians; several frames between two readings of the clock. Ours
twice: a call, whose outputs are new arrays, and `run_into` with the same two arrays, where the network has one input and one
output. onnxruntime twice: `run`, and `run_with_iobinding` with arrays that were bound once; and openvino in float32, where
that is installed. Outputs are compared with onnxruntime's. `--write` renews docs/performance.md and its picture.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.bench_speed import interleaved, mean
from benchmarks.pages import ROOT, machine, picture, write_between
from benchmarks.rivals import rivals
from csdfgen.backends.native.library import load
from csdfgen.files import write_bytes
from csdfgen.reading.zoo import build
from runtime.reference import MismatchError, compare
from tests.networks import feeds

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "small.svg"
MARKER = "small"

ZOO = ("lenet5", "mnist", "ds_cnn", "resnet8", "mobilenet_v1_x0_25")
WORDS = ("hey_jarvis_v0.1", "alexa_v0.1")
"""Spotters of words of openWakeWord, where it is installed."""

FRAMES = 5
"""Between two readings of the clock."""

CALL, INTO, RUN, BOUND, OPENVINO = "call", "run_into", "run", "bound", "openvino"
FASTEST = (CALL, INTO), (RUN, BOUND)
"""Forms of ours and of onnxruntime, of which the fastest are compared."""


@dataclass(frozen=True, slots=True)
class Small:
    """Seconds of a frame, medians, by what executes it. spread: of a call of ours, the furthest quartile from the median, as a
    part of it.
    """

    network: str
    seconds: Mapping[str, float]
    spread: float

    def ratio(self, ours: Sequence[str] = (CALL,), theirs: Sequence[str] = (RUN,)) -> float:
        """The fastest of ours to the fastest of theirs."""
        mine, others = (
            [self.seconds[one] for one in kinds if one in self.seconds] for kinds in (ours, theirs)
        )
        return min(mine) / min(others)


def model_of(name: str) -> onnx.ModelProto:
    """A network of the zoo, or of openWakeWord. Raises SystemExit."""
    if name in ZOO:
        return build(f"zoo:{name}")
    found = find_spec("openwakeword")
    if found is None or found.origin is None:
        raise SystemExit(f"{name}: openwakeword is not installed; `make bench-small` installs it")
    return onnx.load(Path(found.origin).with_name("resources") / "models" / f"{name}.onnx")


def measure(name: str, repeats: int) -> Small:
    """Time frames of a network. Raises MismatchError where outputs differ."""
    model = model_of(name)
    x = feeds(model)
    program = runtime.compile(csdfgen.plan(csdfgen.load(model)))
    session = _session(model)
    wanted = dict(
        zip((one.name for one in session.get_outputs()), session.run(None, x), strict=True)
    )
    for output, got in program(x).items():
        if not compare(output, got, wanted[output]).ok:
            raise MismatchError(f"'{output}' differs", where=name)
    runs: dict[str, Callable[[], object]] = {
        CALL: lambda: program(x),
        RUN: lambda: session.run(None, x),
        BOUND: _bound(session, x, wanted),
    }
    if len(x) == len(wanted) == 1:
        (given,), (out,) = x.values(), (np.empty_like(one) for one in wanted.values())
        again = runtime.compile(csdfgen.plan(csdfgen.load(model)))  # a call would close its arrays
        runs[INTO] = lambda: again.run_into(given, out)
    runs |= dict(rivals(model, x, wanted, (OPENVINO,)))
    times = interleaved({kind: _several(run) for kind, run in runs.items()}, repeats)
    own, middle = times[CALL], statistics.median(times[CALL])
    quartiles = statistics.quantiles(own, n=4)
    return Small(
        name,
        {kind: statistics.median(seconds) / FRAMES for kind, seconds in times.items()},
        max(quartiles[2] - middle, middle - quartiles[0]) / middle,
    )


def _several(run: Callable[[], object]) -> Callable[[], None]:
    def frames() -> None:
        for _ in range(FRAMES):
            run()

    return frames


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _bound(
    session: onnxruntime.InferenceSession,
    x: Mapping[str, np.ndarray],
    wanted: Mapping[str, np.ndarray],
) -> Callable[[], object]:
    """Frames whose arrays are bound once."""
    binding = session.io_binding()
    kept = []
    for name, array in x.items():
        binding.bind_cpu_input(name, array)
    for name, array in wanted.items():
        kept.append(onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(array)))
        binding.bind_ortvalue_output(name, kept[-1])
    return lambda: session.run_with_iobinding(binding)


def table(rows: Sequence[Small]) -> list[str]:
    """Markdown, geometric means, and the conditions of the measurement."""
    lines = [
        "| network | call, us | spread | `run_into`, us | onnxruntime, us | bound, us | openvino, us | call to "
        "onnxruntime | fastest to fastest form of it | call to openvino |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        us = {kind: f"{1e6 * seconds:.1f}" for kind, seconds in row.seconds.items()}
        cells = (
            *(row.network, us[CALL], f"{row.spread:.0%}", us.get(INTO, "")),
            *(us[RUN], us[BOUND], us.get(OPENVINO, ""), f"{row.ratio():.2f}"),
            f"{row.ratio(*FASTEST):.2f}",
            f"{row.ratio(theirs=[OPENVINO]):.2f}" if OPENVINO in us else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    ratios, best = [row.ratio() for row in rows], [row.ratio(*FASTEST) for row in rows]
    theirs = [row.ratio(theirs=[OPENVINO]) for row in rows if OPENVINO in row.seconds]
    beside = f"; to openvino {mean(theirs):.2f}, worst {max(theirs):.2f}" if theirs else ""
    return [
        *lines,
        "",
        f"Geometric means: of calls to onnxruntime's {mean(ratios):.2f}, worst {max(ratios):.2f}; of the fastest form to its "
        f"fastest {mean(best):.2f}, worst {max(best):.2f}{beside}.",
        "",
        f"Thread time of one thread, medians, interleaved; kernels for {load().instructions}; "
        f"{machine('onnxruntime', 'openvino')}. openvino computes in float32.",
    ]


def draw(rows: Sequence[Small]) -> bytes:
    """Bars of time, as parts of that of a call of onnxruntime."""
    kinds = [kind for kind in (CALL, INTO, OPENVINO) if any(kind in row.seconds for row in rows)]
    with picture(9, 3.6) as (axes, out):
        wide = 0.8 / len(kinds)
        for at, (kind, colour) in enumerate(
            zip(kinds, ("#1f77b4", "#9ecae1", "#999999"), strict=False)
        ):
            there = [(k, row.ratio([kind])) for k, row in enumerate(rows) if kind in row.seconds]
            label = kind if kind == OPENVINO else f"csdfgen, {kind}"
            axes.bar(
                [k + (at - (len(kinds) - 1) / 2) * wide for k, _ in there],
                [ratio for _, ratio in there],
                wide,
                label=label,
                color=colour,
            )
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xticks(range(len(rows)), [row.network for row in rows], fontsize=8)
        axes.set_ylabel("time, as a part of onnxruntime's")
        axes.legend(frameon=False, fontsize=8)
    return out.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_small",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ZOO + WORDS)}")
    parser.add_argument("--repeats", type=int, default=101)
    parser.add_argument(
        "--write", action="store_true", help=f"renew {PAGE.name} and {PICTURE.name}"
    )
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        rows = []
        for name in options.names or ZOO + WORDS:
            rows.append(measure(name, options.repeats))
            print(f"{name}: ratio {rows[-1].ratio():.2f}", flush=True)
    lines = table(rows)
    print("\n" + "\n".join(lines))
    if options.write:
        write_between(PAGE, MARKER, lines)
        write_bytes(PICTURE, draw(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
