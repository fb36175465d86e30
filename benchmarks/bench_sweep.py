"""Does a sweep end as if nothing had happened, and what do two workers save? `make bench-sweep`.

200 points are swept by two processes; then again, killed by SIGKILL at moments of chance and started anew until it
ends: table and picture must be the same bytes. The same points then go to one and to two Dask workers of this
machine, in turn. The table goes between markers into docs/sweeps.md.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.pages import ROOT, machine, write_between

PAGE = ROOT / "docs" / "sweeps.md"
MARKER = "sweep"

SPEC = """
title = "Four small networks"
model = ["zoo:cnn5", "zoo:lenet5", "zoo:mnist", "zoo:ds_cnn"]
backend = "numpy"
device = ["numpy-core", "cortex-m7"]
memory = ["16KiB", "64KiB", "128KiB", "256KiB", "1MiB"]
requests = 8
batching = ["fbs", "greedy", "vbs-paper", "vbs", "joint"]
"""
POINTS = 200

KILLS = 3
MOST_RATIO = 0.65
"""Time of two workers beside that of one, at most."""


@dataclass(frozen=True)
class Killed:
    """A sweep that was broken off. points: kept by then."""

    seconds: float
    points: int


def command(folder: Path, name: str, *more: str) -> subprocess.Popen[str]:
    """A sweep into a file of this name."""
    return subprocess.Popen(
        [sys.executable, "-m", "csdfgen", "sweep", "spec.toml", "-o", f"{name}.csv", *more],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def swept(folder: Path, name: str, *more: str) -> float:
    """The seconds of a sweep that goes through to its end."""
    start = time.monotonic()
    process = command(folder, name, *more)
    out, err = process.communicate()
    if process.returncode:
        raise SystemExit(f"{name}: {err}")
    print(out.splitlines()[0], flush=True)
    return time.monotonic() - start


def kept(folder: Path, name: str) -> int:
    """Points that are kept."""
    return len(list((folder / f"{name}.points").glob("[0-9a-f]*.json")))


def killed(folder: Path, name: str, whole: float, rng: random.Random) -> Iterator[Killed]:
    """Sweeps of one table that are killed, each at a moment of chance of what is left."""
    for left in range(KILLS, 0, -1):
        moment = rng.uniform(0.05, 1.0) * whole / left
        process = command(folder, name, "--jobs", "2")
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            return  # it was done before
        yield Killed(moment, kept(folder, name))


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """So many Dask workers of one thread here: the address for --on."""
    distributed = import_module("distributed")
    with distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        dashboard_address=":0",
        env={"PYTHONPATH": str(ROOT)},
    ) as made:
        yield str(made.scheduler_address).replace("tcp://", "dask://")


def load() -> float:
    """Processes that want a processor, mean of the last minute."""
    return os.getloadavg()[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep, kill, compare, print; exit 1 if a table differs or two workers take too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="the table into docs/sweeps.md")
    parser.add_argument("--rounds", type=int, default=2, help="of one and two workers in turn")
    parser.add_argument("--seed", type=int, help="of the moments at which sweeps are killed")
    options = parser.parse_args(arguments)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.toml").write_text(SPEC)
        before = load()
        whole = swept(folder, "whole", "--jobs", "2")
        if kept(folder, "whole") != POINTS:
            raise SystemExit(f"{kept(folder, 'whole')} points instead of {POINTS}")
        broken = list(killed(folder, "killed", whole, random.Random(seed)))
        rest = swept(folder, "killed", "--jobs", "2")
        same = all(
            (folder / f"killed.{suffix}").read_bytes() == (folder / f"whole.{suffix}").read_bytes()
            for suffix in ("csv", "svg")
        )
        times: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(options.rounds):
            for workers, own in times.items():
                with cluster(workers) as address:
                    table = f"dask-{workers}-{turn}"
                    own.append(swept(folder, table, "--on", address))
                same &= (folder / f"{table}.csv").read_bytes() == (
                    folder / "whole.csv"
                ).read_bytes()
        after = load()
    one, two = min(times[1]), min(times[2])
    lines = [
        f"| {POINTS} points | s | |",
        "|---|---:|---|",
        f"| two processes | {whole:.0f} | |",
        *(f"| killed | {k.seconds:.0f} | {k.points} points kept |" for k in broken),
        f"| restarted | {rest:.0f} | table and chart with {'the same' if same else 'other'} bytes |",
        f"| one Dask worker | {one:.0f} | |",
        f"| two Dask workers | {two:.0f} | {two / one:.2f} of one |",
        "",
        f"Whole commands, for Dask the best of {options.rounds}, interleaved; load average {before:.1f} to {after:.1f} on "
        f"{os.cpu_count()} processors, these included. {machine('distributed')}.",
    ]
    print(f"seed {seed}", *lines, sep="\n")
    if options.write:
        write_between(PAGE, MARKER, lines)
    return 0 if same and two <= MOST_RATIO * one else 1


if __name__ == "__main__":
    sys.exit(main())
