"""Does every network of the zoo run at its published size as in onnxruntime, and how long does it
take? `make test-zoo`.

Each runs through the command line, `csdfgen run zoo:NAME --rows auto --check --json`, in a process
of its own. `--write` writes docs/zoo.md; names run these networks alone; `--memory` plans them, runs
none and renews only the page's table of memory (with names it is printed). Exit 1 if any output
differs, or other memory is touched than was planned.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

import csdfgen
from benchmarks.pages import ROOT, machine
from zoo_models import ZOO, ZooEntry, count

PAGE = ROOT / "docs" / "zoo.md"

MIB = 2**20

HEAD = """# The zoo

On this page you can look up the built-in networks: their sizes, the memory of their plans, and the sources of their published
figures. `make test-zoo ARGS=--write` writes it.

Every network has its published topology and seeded random weights; csdfgen neither ships nor downloads weights. `zoo:NAME` or
`zoo:NAME@HEIGHTxWIDTH` (another image size) replaces a model file.

[zoo_models/published.toml](../zoo_models/published.toml) has the published parameters and multiply-accumulates of each network
with their source, whether they were printed exactly, and how the network was compared with its definition: operation by operation
with a published file, by equal outputs with equal weights, by the shapes of every layer, or by text alone. `csdfgen zoo NAME`
prints this next to the counted figures and explains differences.

Parameters are learned values, without running means and variances. MACs are multiply-accumulates of convolutions and fully
connected layers. Activations are elements of all computed tensors, without fusion. Seconds are measured: process start, building,
planning, two frames and the comparison with onnxruntime.

| network | input | parameters | MACs | activations | seconds |
|---|---|---:|---:|---:|---:|
"""

MEMORY = """## Memory

Plans at default options, in MiB. The [arena](model.md#memory) includes workspace; outputs count if they are stored outside it.
Arena and outputs are compared with layer-by-layer execution whose dead tensors are freed (modelled). The peak of live bytes is
proved optimal for these slab heights, unless a smaller lower bound is given. `python -m tests.zoo_page --memory` writes this
table; `make bench-memory ARGS=--zoo` measures everything in a frame.

| network | arena | outputs | peak | bound | whole layers | factor |
|---|---:|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True)
class Outcome:
    """One run: figures in bytes, time in seconds; trouble is "" where all is well."""

    name: str
    seconds: float
    trouble: str
    figures: Mapping[str, int] = field(default_factory=dict)

    @property
    def ours(self) -> int:
        """What is planned: the arena, and outputs where they lie beside it."""
        return self.figures["arena"] + self.figures.get("outputs", 0)

    @property
    def gain(self) -> float:
        """Whole layers over ours."""
        return self.figures["whole_layer_live"] / self.ours


def run(name: str) -> Outcome:
    """Run a network in a process of its own and compare it with onnxruntime."""
    start = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "csdfgen",
            "run",
            f"zoo:{name}",
            "--rows",
            "auto",
            "--check",
            "--json",
        ],
        cwd=ROOT,
        text=True,
        check=False,
        capture_output=True,
    )
    seconds = time.perf_counter() - start
    if not done.stdout:
        return Outcome(name, seconds, done.stderr.strip() or f"exit code {done.returncode}")
    report = json.loads(done.stdout)
    trouble = "" if report["ok"] and done.returncode == 0 else done.stderr.strip() or "differs"
    if report["measured_bytes"] != report["planned_bytes"]:
        trouble += f" planned {report['planned_bytes']} bytes, touched {report['measured_bytes']}"
    return Outcome(name, seconds, trouble, report["figures"])


def planned(name: str) -> Outcome:
    """The figures of a network's plan at the defaults; nothing is run."""
    start = time.perf_counter()
    plan = csdfgen.plan(csdfgen.load(f"zoo:{name}"))
    return Outcome(name, time.perf_counter() - start, "", dict(plan.figures))


def counted_cells(entry: ZooEntry) -> tuple[str, ...]:
    """The cells of a network that need no run: name, input size, parameters, MACs, activations."""
    counts = count(entry.build(entry.height, entry.width, weights=False))
    numbers = (counts.parameters, counts.macs, counts.activations)
    return (entry.name, f"{entry.height}x{entry.width}", *(f"{number:,}" for number in numbers))


def page(outcomes: Sequence[Outcome]) -> str:
    """docs/zoo.md."""
    rows = []
    for one in outcomes:
        cells = (*counted_cells(ZOO[one.name]), f"{one.seconds:.1f}")
        rows.append(f"| {' | '.join(cells)} |\n")
    total = sum(one.seconds for one in outcomes)
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end"
    software = machine("onnxruntime")
    below = f"All {len(outcomes)} match onnxruntime, in {total:.0f} s; one thread, one run each, {busy}. {software}."
    return f"{HEAD}{''.join(rows)}\n{below}\n\n{memory(outcomes)}"


def memory(outcomes: Sequence[Outcome]) -> str:
    """The part of docs/zoo.md that compares each plan with whole layers and with its bound."""
    rows = []
    for one in outcomes:
        figures = one.figures
        bound, outputs = figures.get("lower_bound"), figures.get("outputs")
        cells = (
            one.name,
            _mib(figures["arena"]),
            _mib(outputs),
            _mib(figures["peak_live"]),
            "" if bound == figures["peak_live"] else _mib(bound),
            _mib(figures["whole_layer_live"]),
            f"{one.gain:.2f}",
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    mean = exp(sum(log(one.gain) for one in outcomes) / len(outcomes))
    above = [f"{one.name} ({1 / one.gain:.2f} times)" for one in outcomes if one.gain < 1]
    told = (
        f"More than layer by layer: {', '.join(above)}."
        if above
        else "No plan needs more than layer-by-layer execution."
    )
    return f"{MEMORY}{''.join(rows)}\nFactor, geometric mean: {mean:.2f}. {told}\n"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:.3f}"


def renew_memory(outcomes: Sequence[Outcome]) -> None:
    """Write the table of memory in docs/zoo.md again, and leave the rest."""
    before = PAGE.read_text().partition(MEMORY.splitlines()[0])[0]
    PAGE.write_text(f"{before.rstrip()}\n\n{memory(outcomes)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make test-zoo", description="run the networks of the zoo at their published sizes"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; all without")
    parser.add_argument("--write", action="store_true", help="rewrite docs/zoo.md")
    parser.add_argument(
        "--memory", action="store_true", help="run nothing, rewrite the memory in docs/zoo.md"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in ZOO]
    if unknown or (arguments.names and arguments.write):
        parser.error(
            f"no such network: {', '.join(unknown)}" if unknown else "--write is for all networks"
        )
    outcomes = []
    if arguments.memory:
        for name in arguments.names or ZOO:
            outcomes.append(planned(name))
            one = outcomes[-1]
            print(f"{name:<22}{one.seconds:6.1f} s  whole layers / ours {one.gain:.2f}", flush=True)
        if arguments.names:
            print(f"\n{memory(outcomes)}", end="")
        else:
            renew_memory(outcomes)
        return 0
    for name in arguments.names or ZOO:
        outcomes.append(run(name))
        print(
            f"{name:<22}{outcomes[-1].seconds:6.1f} s  {outcomes[-1].trouble or 'equal'}",
            flush=True,
        )
    wrong = [one.name for one in outcomes if one.trouble]
    print(
        f"{len(outcomes)} networks, {sum(one.seconds for one in outcomes):.0f} s, {len(wrong)} in trouble"
    )
    if arguments.write and not wrong:
        PAGE.write_text(page(outcomes))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
