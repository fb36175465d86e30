"""How long does a frame take beside onnxruntime, and in how much memory? `make bench`.

One thread each, frames interleaved in one process, medians; `--rows auto --fuse full`. onnxruntime
gets the network with its weights as constants. The table goes between markers into
docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import onnx
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.pages.measured import time_interleaved
from runtime.reference import MismatchError, Reference, compare
from tests.networks import LIGHT, feeds, light, trained

PAGE = ROOT / "docs" / "performance.md"
MARKER = "bench"

NAMES = (*LIGHT, "centerface 480x640", "centerface 1088x1920")

MIB = 2**20


@dataclass(frozen=True)
class Measured:
    """Seconds a frame and bytes of one network."""

    name: str
    ours: float
    theirs: float
    slabs: int
    whole: int

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def network(name: str) -> onnx.ModelProto:
    """A network of the benchmark, by its name in the table; "centerface 480x640" at that size."""
    if name in LIGHT:
        return light(name)
    kind, size = name.split()
    height, width = (int(number) for number in size.split("x"))
    return trained(kind, (height, width))


def measure(name: str, repeats: int) -> Measured:
    """Time one network's frames in turn with onnxruntime's."""
    model = network(name)
    x = feeds(model)
    plan = csdfgen.plan(csdfgen.load(model))
    program = runtime.compile(plan)
    reference = Reference(model, plan.network)
    wanted = reference(x)
    wrong = [name for name, got in program(x).items() if not compare(name, got, wanted[name]).ok]
    if wrong:
        raise MismatchError(f"{', '.join(wrong)} differ from onnxruntime's", where=name)
    ours, theirs = time_interleaved([lambda: program(x), lambda: reference(x)], repeats)
    figures = plan.figures
    return Measured(name, ours, theirs, figures["arena"], figures["whole_layer_live"])


def table(rows: Sequence[Measured]) -> list[str]:
    """Means and ranges, with the conditions of the measurement below."""
    times = _range([m.ratio for m in rows], 2)
    memory = _range([m.whole / m.slabs for m in rows], 1)
    return [
        f"Time of numpy over onnxruntime's: {times}. Memory of whole layers over the arena: {memory}. {len(rows)} networks.",
        "",
        conditions(),
    ]


def _range(values: Sequence[float], digits: int) -> str:
    """The geometric mean, the least and the largest."""
    mean = exp(sum(map(log, values)) / len(values))
    return f"**{mean:.{digits}f}** (geometric mean; {min(values):.{digits}f} to {max(values):.{digits}f})"


def conditions() -> str:
    """Where, how and with what it was measured."""
    return (
        f"One thread each, frames interleaved, medians; {machine('onnxruntime')}. "
        "Times are measured, memory is planned; whole layers are modelled."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_frame", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"networks, of: {', '.join(NAMES)}; all of them are written to the pages",
    )
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args(arguments)
    rows = []
    with threadpool_limits(1):
        for name in options.names or NAMES:
            rows.append(measure(name, options.repeats))
            m = rows[-1]
            print(
                f"{m.name}: {m.ours * 1e3:.1f} ms, onnxruntime {m.theirs * 1e3:.1f} ms, ratio {m.ratio:.2f}; "
                f"{m.slabs / MIB:.2f} MiB, whole layers {m.whole / MIB:.2f} MiB",
                flush=True,
            )
    lines = table(rows)
    print("\n" + "\n".join(lines))
    if not options.names:
        write_between(PAGE, MARKER, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
