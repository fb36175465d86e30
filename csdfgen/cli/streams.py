"""`csdfgen run MODEL --stream FILE -o FILE`: rows of a file, or of standard input, as they come."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from csdfgen.cli.models import input_formats, load_network
from csdfgen.cli.options import Asked, list_stream_refusals, refuse
from csdfgen.cli.terminal import escape, say, say_json, show_progress
from csdfgen.errors import InputError, option

if TYPE_CHECKING:
    from csdfgen.cli.run import Run
    from csdfgen.streaming.runs import Figures

_OTHERS = ("plan", "pareto", "input", "labels", "check", "trace", "layers")
"""Fields of the command that are of images."""


def run_stream_files(run: Run, asked: Asked) -> None:
    """Execute a stream as asked, and print what it was. Raises CsdfgenError."""
    import runtime
    from csdfgen.api import plan_stream
    from csdfgen.model.describe import mebibytes
    from csdfgen.streaming.runs import run_stream
    from csdfgen.streaming.sinks import check_paths
    from csdfgen.streaming.sources import open_source

    assert run.stream is not None
    refuse(
        (getattr(run, name), f"--stream runs no image; leave {option(name)} out")
        for name in _OTHERS
    )
    refuse(list_stream_refusals(asked))
    if run.output is None:
        raise InputError("--stream needs --output, a file for its rows, or - for standard output")
    options = run.pixels.read(input_formats(run.model))
    with show_progress() as progress:
        progress("loading")
        network = load_network(run.model, asked)
        check_paths(run.output, [one.name for one in network.outputs])
        (tensor, *others) = network.inputs
        if others:
            raise InputError(f"--stream has rows of one input, the network has {1 + len(others)}")
        source = open_source(run.stream, tensor, options)
        progress("planning")
        plan = plan_stream(network, **asked.given)
        program = runtime.compile(plan, threads=run.threads)
        figures = run_stream(program, source, run.output, resume=run.resume, progress=progress)
    if run.as_json:
        say_json({**asdict(figures), "arena": plan.planned_bytes, "turn": plan.turn})
    elif str(run.output) != "-":
        _show(figures, run.output, mebibytes(plan.planned_bytes))


def _show(figures: Figures, output: Path, arena: str) -> None:
    written = ", ".join(f"{count:,} of '{name}'" for name, count in figures.written.items())
    rate = figures.rows / max(figures.seconds, 1e-9)
    say(
        f"{figures.rows:,} rows in {figures.seconds:,.2f} s, {rate:,.0f} rows/s; longest wait for rows "
        f"{1e3 * figures.longest:,.1f} ms",
        f"memory     {arena} arena, {figures.resident_bytes:,} bytes resident at most",
        f"{escape(output)}: rows written: {escape(written)}",
    )
