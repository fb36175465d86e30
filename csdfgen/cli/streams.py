"""`csdfgen run MODEL --stream FILE -o FILE`: rows of a file, or of standard input, as they come."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from csdfgen.cli.models import input_formats, load_network, repeat_model
from csdfgen.cli.options import Asked, list_stream_refusals, refuse
from csdfgen.cli.terminal import escape, say, say_json, show_progress
from csdfgen.errors import CsdfgenError, InputError, PlanError, option

if TYPE_CHECKING:
    from csdfgen.api import Model
    from csdfgen.cli.run import Run
    from csdfgen.model.network import Network, Tensor
    from csdfgen.planning.streams import StreamPlan
    from csdfgen.streaming.columns import Cut
    from csdfgen.streaming.runs import Figures

_OTHERS = ("pareto", "input", "labels", "check", "trace", "layers", "map", "graph")
"""Fields of the command that are of images."""


def run_stream_files(run: Run, asked: Asked) -> None:
    """Execute a stream as asked, and print what it was. Raises CsdfgenError."""
    import runtime
    from csdfgen.model.describe import mebibytes
    from csdfgen.streaming.runs import run_stream
    from csdfgen.streaming.sinks import check_paths
    from csdfgen.streaming.sources import open_source, read_size

    assert run.stream is not None
    refuse(
        (getattr(run, name), f"--stream runs no image; leave {option(name)} out")
        for name in _OTHERS
    )
    refuse([(run.columns and run.stateful, "steps have no columns; leave --columns out")])
    limit = asked.given.get("memory", 0)
    asked = replace(asked, given={k: one for k, one in asked.given.items() if k != "memory"})
    refuse(list_stream_refusals(asked))
    if run.output is None:
        raise InputError("--stream needs --output, a file for its rows, or - for standard output")
    options = run.pixels.read(input_formats(run.model))
    with show_progress() as progress:
        progress("loading")
        example = read_size(run.stream)
        model, asked = repeat_model(run.model, run.stateful or (), asked)
        network = load_network(model, replace(asked, example=example), endless=True)
        check_paths(run.output, [one.name for one in network.outputs])
        (tensor, *others) = network.inputs
        if others:
            raise InputError(f"--stream has rows of one input, the network has {1 + len(others)}")
        source = open_source(run.stream, tensor, options, wide=bool(run.columns))
        progress("planning")
        cut = _cut(network, source.tensor, run.columns) if run.columns else None
        known = cut or (model if run.stateful else network)
        plan = _find_plan(run, asked, known)
        _check_memory(plan.planned_bytes, limit, run.columns)
        program = runtime.compile(plan, threads=run.threads)
        figures = run_stream(
            program, source, run.output, cut=cut, resume=run.resume, progress=progress
        )
    strips = len(cut.strips) if cut else 1
    if run.as_json:
        facts = plan.facts() if run.spread else {"arena": plan.planned_bytes, "turn": plan.turn}
        say_json({**asdict(figures), **facts, "strips": strips})
    elif str(run.output) != "-":
        if run.spread:
            say(
                "spread     {burst:,} of the mean in the busiest row instead of {burst_before:,}, arena of {arena:,} bytes "
                "instead of {arena_before:,}".format(**plan.facts())
            )
        _show(figures, run.output, mebibytes(plan.planned_bytes), strips)


def _cut(network: Network, tensor: Tensor, most: int) -> Cut:
    """Strips of at most so many columns, of a source whose rows are those of the tensor."""
    from csdfgen.reading.loader import read_heights
    from csdfgen.streaming.columns import cut_columns

    at_width = read_heights(network.source, network, across=1)
    return cut_columns(at_width, tensor.shape[(tensor.row_axis or 0) + 1], most)


def _find_plan(run: Run, asked: Asked, known: Model | Cut) -> StreamPlan:
    """The plan of a file, or of the cache, where the first run of a model leaves its own. Raises CsdfgenError."""
    from csdfgen.api import plan_stream, read_stream, save_plan
    from csdfgen.cache import prune, use
    from csdfgen.cli.compiled import find_program_file

    typed = {"spread": run.spread, "passes": run.passes > 1}
    if run.plan is not None:
        flags = [*map(asked.flag, asked.given), *(option(name) for name in typed if typed[name])]
        said = f"{run.plan}: is a plan, which says how it was made; leave {{}} out"
        refuse((True, said.format(flag)) for flag in flags)
        return read_stream(run.plan, known)
    place = None if any(typed.values()) else find_program_file(run, asked, ".json")
    if place is not None and use(place):
        with suppress(CsdfgenError):  # of another model of this name
            return read_stream(place, known)
    plan = plan_stream(known, fix=asked.fixed, passes=run.passes, spread=run.spread, **asked.given)
    if place is not None:
        with suppress(CsdfgenError):
            save_plan(plan, place)
            prune()
    return plan


def _check_memory(arena: int, limit: int, columns: int) -> None:
    if limit and arena > limit:
        way_out = f"fewer {option('columns', columns)}" if columns else option("columns", "N")
        raise PlanError(f"the arena takes {arena:,} bytes, {limit:,} are allowed; try {way_out}")


def _show(figures: Figures, output: Path, arena: str, strips: int) -> None:
    written = ", ".join(f"{count:,} of '{name}'" for name, count in figures.written.items())
    of = f" of {strips} strips" * (strips > 1)
    rate = figures.rows / max(figures.seconds, 1e-9)
    say(
        f"{figures.rows:,} rows{of} in {figures.seconds:,.2f} s, {rate:,.0f} rows/s; longest wait for rows "
        f"{1e3 * figures.longest:,.1f} ms",
        f"memory     {arena} arena, {figures.resident_bytes:,} bytes resident at most",
        f"{escape(output)}: rows written: {escape(written)}",
    )
