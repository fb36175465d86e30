"""`csdfgen sweep`: many plans into one table and one picture, here or on a cluster, resumable."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from csdfgen.cli.terminal import console, counted, plain, stages
from csdfgen.errors import options_as_arguments
from csdfgen.files import check_writable, write_bytes
from csdfgen.sweeps.cache import Cache, cache_beside
from csdfgen.sweeps.engines import Engine, dask_cluster, local_processes, scheduler_address
from csdfgen.sweeps.picture import picture
from csdfgen.sweeps.run import Swept, sweep, tasks_of
from csdfgen.sweeps.spec import read_spec
from csdfgen.sweeps.table import check_table, row_of, table_bytes

__all__ = ["SweepRequest", "run_sweep"]


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What the user asked for. on: a scheduler's address, None for `jobs` processes here. timed: with the seconds
    that planning took.
    """

    spec: Path
    output: Path
    jobs: int
    on: str | None
    timed: bool

    @property
    def picture(self) -> Path:
        """Where the picture goes: beside the table."""
        return self.output.with_suffix(".svg")

    def engine(self) -> Engine:
        """Who plans. Raises InputError."""
        if self.on is None:
            return partial(local_processes, jobs=self.jobs)
        return partial(dask_cluster, address=scheduler_address(self.on))


def run_sweep(request: SweepRequest) -> None:
    """Plan all points that are not known yet, write table and picture. Raises CsdfgenError, KeyboardInterrupt."""
    engine = request.engine()
    check_table(request.output)
    with options_as_arguments():
        spec = read_spec(request.spec)
    check_writable(request.output)
    check_writable(request.picture)
    cache = Cache(cache_beside(request.output))
    start = time.monotonic()
    with stages() as stage:
        stage("reading models")
        with options_as_arguments():
            tasks = tasks_of(spec, str(request.spec))
        found = sweep(tasks, cache, engine, stage)
    rows = [
        row_of(point, outcome, timed=request.timed)
        for point, outcome in zip(found.points, found.outcomes, strict=True)
    ]
    table, drawn = table_bytes(rows, request.output), picture(found, spec.title)
    write_bytes(request.output, table)
    write_bytes(request.picture, drawn)
    _say(request, found, time.monotonic() - start)


def _say(request: SweepRequest, found: Swept, seconds: float) -> None:
    total = len(found.points)
    said = counted(total, "point")
    if found.refused:
        said += f", {found.refused:,} without a plan"
    if found.known:
        said += f"; {found.known:,} were known"
    if found.known < total:
        said += f"; {total - found.known:,} planned in {seconds:.1f} s"
    out = console()
    out.print(f"{plain(str(request.output))}: {said}", soft_wrap=True)
    out.print(f"{plain(str(request.picture))}: predicted time over memory", soft_wrap=True)
