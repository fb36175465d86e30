"""`csdfgen sweep`: many plans into one table and one picture, here or on a cluster, resumable."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer

from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import OUTPUT, JsonOption
from csdfgen.cli.terminal import escape, say, say_json, show_progress
from csdfgen.errors import name_options_as_arguments
from csdfgen.files import check_writable, write_bytes
from csdfgen.model.options import declare
from csdfgen.model.units import pluralize


@dataclass(frozen=True, kw_only=True)
class Sweep(Command):
    """Plan models with many option sets (budgets, devices, batchings, formats and other options of `schedule`) into one
    table and one chart.

    Finished points are kept: after any interruption, the same command continues and gives the same table.
    """

    examples = (
        "csdfgen sweep spec.toml -o results.parquet",
        "csdfgen sweep spec.toml -o results.csv --jobs 4",
        "csdfgen sweep spec.toml -o results.parquet --on dask://scheduler:8786",
    )

    spec: Path = argument("SPEC.toml", "What to vary; docs/sweeps.md.")
    output: Path = declare(
        "The table: .parquet (pip install 'csdfgen[sweep]'), .csv or .json. A chart (.svg) and a folder of finished "
        "points (.points), from which the same command resumes, are written next to it.",
        ..., "FILE", names=OUTPUT,
    )  # fmt: skip
    jobs: int | None = declare(
        "Points that are planned in parallel.",
        None, "N", low=1, high=1024, shown="one per processor",
    )  # fmt: skip
    on: str | None = declare(
        "Plan on the workers of this Dask scheduler (pip install 'csdfgen[dask]') instead of here.",
        None, "dask://HOST:PORT",
    )  # fmt: skip
    timings: bool = declare(
        "Add a column with planning times; without it, files are reproducible byte for byte.",
        False,
    )  # fmt: skip
    as_json: JsonOption = False

    def run(self) -> None:
        """Plan all points that are not known yet, write table and picture. Raises CsdfgenError, KeyboardInterrupt."""
        from csdfgen.sweeps import engines
        from csdfgen.sweeps.cache import Cache, cache_path
        from csdfgen.sweeps.picture import picture
        from csdfgen.sweeps.run import make_tasks, sweep
        from csdfgen.sweeps.spec import read_spec
        from csdfgen.sweeps.table import check_table, make_row, table_bytes

        if self.jobs is not None and self.on is not None:
            both = "is of this machine; leave --jobs or --on out"
            raise typer.BadParameter(both, param_hint="--jobs")
        if self.on is None:
            engine = partial(engines.local_processes, jobs=self.jobs or os.cpu_count() or 1)
        else:
            engine = partial(engines.dask_cluster, address=engines.scheduler_address(self.on))
        check_table(self.output)
        with name_options_as_arguments():
            spec = read_spec(self.spec)
        drawing = self.output.with_suffix(".svg")
        for path in (self.output, drawing):
            check_writable(path)
        start = time.monotonic()
        with show_progress() as progress:
            progress("reading models")
            with name_options_as_arguments():
                tasks = make_tasks(spec, str(self.spec))
            found = sweep(tasks, Cache(cache_path(self.output)), engine, progress)
        pairs = zip(found.points, found.outcomes, strict=True)
        rows = [make_row(point, outcome, timed=self.timings) for point, outcome in pairs]
        drawn = picture(found, spec.title)
        write_bytes(self.output, table_bytes(rows, self.output))
        write_bytes(drawing, drawn)
        total, seconds = len(found.points), time.monotonic() - start
        if self.as_json:
            counts = {"points": total, "refused": found.refused, "known": found.known}
            files = {"output": str(self.output), "picture": str(drawing)}
            say_json({**files, **counts, "seconds": seconds})
            return
        said = pluralize(total, "point")
        said += f", {found.refused:,} without a plan" if found.refused else ""
        said += f"; {found.known:,} were known" if found.known else ""
        if found.known < total:
            said += f"; {total - found.known:,} planned in {seconds:.1f} s"
        say(f"{escape(self.output)}: {said}", wrap=False)
        say(f"{escape(drawing)}: predicted time over memory", wrap=False)
