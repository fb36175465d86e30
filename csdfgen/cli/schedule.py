"""`csdfgen schedule`: firings and buffers, of a model in one arena, of any CSDF graph by channels."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from csdfgen.charts import gantt_chart, of_schedule
from csdfgen.cli.graph_file import read_graph_file
from csdfgen.cli.models import load_network, plan_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.picture_options import check_picture
from csdfgen.cli.terminal import console, counted, figures_table, mebibytes, plain, stages, table
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import write_bytes
from csdfgen.graph import CsdfGraph
from csdfgen.plan_json import write_plan
from csdfgen.planning import Plan
from schedules import Schedule, check, demand_driven
from schedules.schedule import Firing, compact, loop_text, write_schedule

__all__ = ["run_schedule"]

_SHOWN_FIRINGS = 2000


def run_schedule(model: str, output: Path | None, options: ModelOptions, gantt: Path | None = None) -> None:
    """Write the plan of a model or the schedule of a graph, or print a summary; draw the schedule of a graph.

    Raises CsdfgenError.
    """
    if output is not None and output.suffix.lower() != ".json":
        raise InputError("a plan is written as .json", where=str(output))
    if gantt is not None:
        check_picture("gantt", gantt)
    if is_graph_file(model):
        _schedule_graph(read_graph_file(model, options.given()), model, output, gantt)
    elif gantt is not None:
        raise InputError("is a model; --gantt draws schedules of graphs, csdfgen analyze --gantt a model's graph", where=model)
    else:
        _schedule_model(model, output, options)


def _schedule_model(model: str, output: Path | None, options: ModelOptions) -> None:
    with stages() as stage:
        stage("loading")
        network = load_network(model, options)
        stage("planning")
        plan = plan_network(network, options)
    if output is not None:
        write_plan(output, plan)
        out, sizes = console(), plan.planned_bytes
        out.print(f"{output}: {counted(len(plan.order), 'firing')}, arena of {sizes:,} bytes ({mebibytes(sizes)} MiB)")
    else:
        _plan_summary(plan)


def _plan_summary(plan: Plan) -> None:
    out = console()
    buffers = table("buffer", "rows", "of", "bytes", "offset", "in use", right=("rows", "of", "bytes", "offset"))
    for slot, storage in zip(plan.buffers.slots, plan.storages, strict=True):
        span = f"firings {slot.first_firing + 1} to {slot.end_firing}"
        buffers.add_row(plain(slot.storage), str(slot.capacity), str(storage.rows), f"{slot.size:,}", f"{slot.offset:,}", span)
    out.print(buffers)
    out.print(f"\nfirings ({counted(len(plan.order), 'firing')}, order '{plan.policy}')")
    _print_loops([Firing(actor, phase) for actor, phase in plan.order])
    out.print()
    out.print(figures_table(plan.figures))


def _schedule_graph(graph: CsdfGraph, path: str, output: Path | None, gantt: Path | None) -> None:
    try:
        with stages() as stage:
            stage("scheduling")
            schedule = demand_driven(graph)
            stage("checking")
            check(graph, schedule)
            if gantt is not None:
                stage("drawing")
                write_bytes(gantt, gantt_chart(of_schedule(graph, schedule)))
    except CsdfgenError as error:
        raise error.at(path) from None
    if output is not None:
        write_schedule(output, schedule)
        console().print(f"{output}: {counted(len(schedule.firings), 'firing')}, {_total(graph, schedule)}")
    elif gantt is None:
        _schedule_summary(graph, schedule)
    if gantt is not None:
        console().print(f"{gantt}: {counted(len(schedule.firings), 'firing')} on one processor")


def _total(graph: CsdfGraph, schedule: Schedule) -> str:
    tokens = sum(schedule.capacities.values())
    size = sum(schedule.capacities[channel.name] * channel.token_bytes for channel in graph.channels)
    return f"{counted(len(graph.channels), 'channel')} of {counted(tokens, 'token')}, {counted(size, 'byte')} in all"


def _schedule_summary(graph: CsdfGraph, schedule: Schedule) -> None:
    out = console()
    channels = table("channel", "kind", "from", "to", "tokens", "bytes", right=("tokens", "bytes"))
    for channel in graph.channels:
        tokens = schedule.capacities[channel.name]
        names = plain(channel.name), channel.kind, plain(channel.source), plain(channel.target)
        channels.add_row(*names, f"{tokens:,}", f"{tokens * channel.token_bytes:,}")
    out.print(channels)
    out.print(f"\nfirings ({counted(len(schedule.firings), 'firing')}, order '{schedule.policy}')")
    _print_loops(list(schedule.firings))
    out.print(f"\n{plain(graph.name)}: {_total(graph, schedule)}")


def _print_loops(firings: list[Firing]) -> None:
    """The firings as loops, as the paper writes them; the file has them all."""
    text = plain(loop_text(compact(firings)))
    shown = text if len(text) <= _SHOWN_FIRINGS else f"{text[: text.rindex(',', 0, _SHOWN_FIRINGS)]}, ... (all of them with -o)"
    console().print(Text(shown, style="dim"))
