"""`csdfgen convert`: a model or a graph in, a graph file or a summary out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from csdfgen import graph_json
from csdfgen.cli.graph_file import read_graph_file
from csdfgen.cli.models import load_network, network_graph, plan_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.terminal import console, counted, figures_table, plain, stages, table
from csdfgen.dot import to_dot
from csdfgen.errors import InputError
from csdfgen.files import write_bytes
from csdfgen.graph import CsdfGraph, repetition_vector, short_form, with_serial_loops
from csdfgen.pipeline import graph_of
from csdfgen.planning import Plan

__all__ = ["WRITERS", "run_convert"]

_WIDEST_RATES = 44


def _write_xml(path: Path, graph: CsdfGraph) -> None:
    """As SDF3 XML with serial self-loops, these first: who keeps one channel for each pair of actors then keeps the overlap."""
    from sdf3_bridge import sdf3xml

    serial = with_serial_loops(graph)
    channels = sorted(serial.channels, key=lambda channel: channel.kind != "serial")
    sdf3xml.write(path, replace(serial, channels=tuple(channels)))


def _write_dot(path: Path, graph: CsdfGraph) -> None:
    write_bytes(path, to_dot(graph).encode())


WRITERS: dict[str, Callable[[Path, CsdfGraph], None]] = {
    ".xml": _write_xml,
    ".json": graph_json.write_graph,
    ".dot": _write_dot,
}
"""File name suffix -> how a graph is written."""


def run_convert(model: str, output: Path | None, rates: str | None, tokens: str | None, options: ModelOptions) -> None:
    """Write the graph of a model or graph file, or print its summary. Raises CsdfgenError."""
    if output is not None and output.suffix.lower() not in WRITERS:
        raise InputError(f"a graph is written as {', '.join(WRITERS)}", where=str(output))
    if is_graph_file(model):
        given = [f"--{name}" for name, value in (("rates", rates), ("tokens", tokens)) if value is not None]
        graph, plan = read_graph_file(model, options.given() + given), None
    else:
        graph, plan = _graph_of_model(model, rates or "exact", tokens or "elements", options, with_plan=output is None)
    if output is None:
        _summary(graph, plan)
    else:
        WRITERS[output.suffix.lower()](output, graph)
        console().print(f"{output}: {_sizes(graph)}")


def _graph_of_model(
    model: str, rates: str, tokens: str, options: ModelOptions, *, with_plan: bool
) -> tuple[CsdfGraph, Plan | None]:
    with stages() as stage:
        stage("loading")
        network = load_network(model, options)
        if not with_plan:
            stage("converting")
            return network_graph(network, options, tokens=tokens, rates=rates), None
        stage("planning")
        plan = plan_network(network, options)
        return graph_of(plan.conversion, plan.fuse, plan.image, tokens=tokens, rates=rates), plan


def _sizes(graph: CsdfGraph) -> str:
    phases = sum(actor.phases for actor in graph.actors)
    return f"{counted(len(graph.actors), 'actor')}, {counted(phases, 'phase')}, {counted(len(graph.channels), 'channel')}"


def _summary(graph: CsdfGraph, plan: Plan | None) -> None:
    """Actors with their phases and rates, then totals; memory figures where there is a plan."""
    out = console()
    firings = repetition_vector(graph)
    actors = table("actor", "function", "phases", "firings", "takes", "gives", right=("phases", "firings"))
    takes: dict[str, list[str]] = {actor.name: [] for actor in graph.actors}
    gives: dict[str, list[str]] = {actor.name: [] for actor in graph.actors}
    for channel in graph.channels:
        if channel.kind == "data":
            takes[channel.target].append(_cut(short_form(channel.consumption)))
            gives[channel.source].append(_cut(short_form(channel.production)))
    for actor in graph.actors:
        given = list(dict.fromkeys(gives[actor.name]))  # readers of one tensor are given the same
        actors.add_row(
            plain(actor.name),
            plain(actor.function),
            str(actor.phases),
            str(firings[actor.name]),
            " | ".join(takes[actor.name]),
            " | ".join(given),
        )
    out.print(actors)
    kinds = Counter(channel.kind for channel in graph.channels)
    produced = sum(sum(c.production) * firings[c.source] // len(c.production) for c in graph.channels if c.kind == "data")
    out.print(
        f"\n{plain(graph.name)}: {_sizes(graph)} ({', '.join(f'{count} {kind}' for kind, count in kinds.items())}), "
        f"{counted(sum(firings.values()), 'firing')} and {counted(produced, 'token')} an iteration"
    )
    if plan is not None:
        out.print()
        out.print(figures_table(plan.figures))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST_RATES else f"{text[: text.rindex(',', 0, _WIDEST_RATES)]},..."
