"""Does every network of the zoo run at its published size as in onnxruntime, and how long does it
take? `make test-zoo`.

Each runs through the command line, `csdfgen run zoo:NAME --rows auto --check --json`, in a process
of its own. `--write` writes docs/zoo.md; names run these networks alone; `--memory` plans them, runs
none and renews only the page's table of memory (with names it is printed), `--sources` only that of
sources. Exit 1 if any output differs, or other memory is touched than was planned.
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

On this page you can look up the built-in networks: their sizes, what their plans need, and where their published figures
come from. `make test-zoo ARGS=--write` writes it.

Every network has its published topology and seeded random weights; csdfgen ships and downloads no weights. `zoo:NAME` or
`zoo:NAME@HEIGHTxWIDTH` (another image size) takes the place of a model file. `csdfgen zoo NAME` prints the published figures
next to the counted ones, and what a source counts differently; `tests/unit/test_zoo.py` compares them.

Parameters are learned values, without running means and variances. MACs are multiply-accumulates of convolutions and fully
connected layers. Activations are elements of all tensors that are computed, without fusing. Seconds are measured: building,
planning, two frames and the comparison with onnxruntime together, the start of the process included.

| network | input | parameters | MACs | activations | seconds |
|---|---|---:|---:|---:|---:|
"""

MEMORY = """## Memory

Plans at default options, in MiB. The [arena](model.md#memory) includes workspace; outputs count where they are stored outside
it. Both are compared with whole layers whose dead tensors are freed (modelled). The peak is the most that is alive in the arena
in the order of firings; no order has a peak below the bound at these slab heights. `make bench-memory ARGS=--zoo` measures
everything in a frame. `python -m tests.zoo_page --memory` plans all networks and writes this table.

| network | arena | outputs outside it | peak | bound | peak / bound | whole layers | whole layers / ours |
|---|---:|---:|---:|---:|---:|---:|---:|
"""

SOURCES = """## Where the figures come from

Published parameters and multiply-accumulates at the published input size, and the definition with which the network was compared.
We read all of them again in November 2026, except for those that are called recalled.

- Figures: **exact**, printed in full; **rounded**, printed with few digits and reproduced within 0.5 %; **derived**, printed
  nowhere, but counted from published shapes; **recalled**, printed with few digits in a publication that was not available again.
- Compared by **graph**: operation by operation equal to a published file (`tests/unit/test_zoo.py`); by **outputs**: the
  definition gives the same outputs with the same weights, within 2e-5 of the largest (torchvision's whenever
  `tests/conformance/test_torchvision.py` runs, which requires torchvision; the others once); by **shapes**: windows, strides,
  padding and channels layer by layer as in a published file or a listing of one (once); by **text**: there is no other
  definition.

| network | source | input | parameters | MACs | compared by | definition |
|---|---|---|---:|---:|---|---|
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


def sources() -> str:
    """The part of docs/zoo.md that says where the published figures come from; it needs no run."""
    rows = []
    for entry in ZOO.values():
        published = entry.published
        values = (
            f"{published.parameters:,} {published.parameters_are}",
            f"{published.macs:,} {published.macs_are}",
        )
        size = "{}x{}".format(*published.size)
        cells = (
            entry.name,
            published.source,
            size,
            *values,
            published.compared,
            published.definition or published.source,
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    return f"{SOURCES}{''.join(rows)}"


def page(outcomes: Sequence[Outcome]) -> str:
    """docs/zoo.md."""
    rows = []
    for one in outcomes:
        cells = (
            *counted_cells(ZOO[one.name]),
            f"{one.seconds:.1f}",
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    total = sum(one.seconds for one in outcomes)
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end"
    software = machine("onnxruntime")
    below = f"All {len(outcomes)} are equal to onnxruntime's, in {total:.0f} s; one thread, one run each, {busy}. {software}."
    return f"{HEAD}{''.join(rows)}\n{below}\n\n{memory(outcomes)}\n{sources()}"


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
            _mib(bound),
            f"{figures['peak_live'] / bound:.3f}" if bound else "",
            _mib(figures["whole_layer_live"]),
            f"{one.gain:.2f}",
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    mean = exp(sum(log(one.gain) for one in outcomes) / len(outcomes))
    above = [f"{one.name} ({1 / one.gain:.2f} times)" for one in outcomes if one.gain < 1]
    told = (
        f"More than whole layers: {', '.join(above)}."
        if above
        else "None takes more than whole layers."
    )
    return f"{MEMORY}{''.join(rows)}\nWhole layers / ours, geometric mean: {mean:.2f}. {told}\n"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:.3f}"


def renew_memory(outcomes: Sequence[Outcome]) -> None:
    """Write the table of memory in docs/zoo.md again, and leave the rest."""
    before, found, after = PAGE.read_text().partition(SOURCES.splitlines()[0])
    before = before.partition(MEMORY.splitlines()[0])[0]
    PAGE.write_text(f"{before.rstrip()}\n\n{memory(outcomes)}\n{found}{after}")


def renew_sources() -> None:
    """Write the table of sources in docs/zoo.md again, and leave what was measured."""
    measured, _, _ = PAGE.read_text().partition(SOURCES.splitlines()[0])
    PAGE.write_text(f"{measured.rstrip()}\n\n{sources()}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make test-zoo", description="run the networks of the zoo at their published sizes"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; all without")
    parser.add_argument("--write", action="store_true", help="rewrite docs/zoo.md")
    parser.add_argument(
        "--sources", action="store_true", help="run nothing, rewrite the sources in docs/zoo.md"
    )
    parser.add_argument(
        "--memory", action="store_true", help="run nothing, rewrite the memory in docs/zoo.md"
    )
    arguments = parser.parse_args()
    if arguments.sources:
        renew_sources()
        return 0
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
