"""`csdfgen convert`: a model or a graph in, a graph file or a summary out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from csdfgen.backends.registry import kernels_for
from csdfgen.cli.capacities import Capacities, capacities_for
from csdfgen.cli.graph_file import read_graph_file
from csdfgen.cli.models import built, load_network, network_graph, plan_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.terminal import console, counted, figures_table, plain, stages, table
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.dot import to_dot
from csdfgen.dataflow.graph import CsdfGraph, repetition_vector, short_form
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import write_bytes
from csdfgen.phases.graphs import graph_of
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import plan_of
from sdf3_bridge import sdf3xml
from sdf3_bridge.sdf3xml import Sdf3File, WriteOptions

__all__ = ["SUFFIXES", "FormOptions", "run_convert"]

SUFFIXES = (".xml", ".json", ".dot")
"""What a graph's file name ends with when it is written."""

_WIDEST_RATES = 44


@dataclass(frozen=True, slots=True)
class FormOptions:
    """In which form a graph is written, as typed; None where the user said nothing. capacities_as:
    "channels" or "sizes".
    """

    serial: bool | None = None
    overlap: bool = True
    gcd: bool = False
    capacities: Capacities = field(default_factory=Capacities)
    capacities_as: str | None = None


def run_convert(
    model: str,
    output: Path | None,
    rates: str | None,
    tokens: str | None,
    options: ModelOptions,
    form: FormOptions,
) -> None:
    """Write the graph of a model or graph file, or print its summary. Raises CsdfgenError."""
    suffix = "" if output is None else output.suffix.lower()
    if output is not None and suffix not in SUFFIXES:
        raise InputError(f"a graph is written as {', '.join(SUFFIXES)}", where=str(output))
    plan = None
    if is_graph_file(model):
        given = [
            f"--{name}"
            for name, value in (("rates", rates), ("tokens", tokens))
            if value is not None
        ]
        source = _read_graph(model, options.given() + given, form, suffix)
    else:
        graph, plan = _graph_of_model(
            model, rates or "exact", tokens or "elements", options, with_plan=output is None
        )
        source = Sdf3File(graph, {})
    written = _write_options(source, form, suffix)
    in_file = written
    if form.serial is None and (
        suffix == ".xml" or (suffix == ".json" and not is_graph_file(model))
    ):
        in_file = replace(
            written, serial="add"
        )  # they are not counted below, where nobody asked for them
    data = b""
    try:
        graph, sizes = sdf3xml.variant(source.graph, written)
        if suffix == ".xml":
            data = sdf3xml.to_xml(source.graph, in_file)
    except CsdfgenError as error:
        raise error.at(model) from None
    if output is None:
        _summary(graph, plan)
        return
    if suffix == ".xml":
        write_bytes(output, data)
    elif suffix == ".json":
        graph_json.write_graph(output, sdf3xml.variant(source.graph, in_file)[0])
    else:
        write_bytes(output, to_dot(graph, sizes).encode())
    console().print(f"{output}: {_sizes(graph)}")


def _read_graph(path: str, given: list[str], form: FormOptions, suffix: str) -> Sdf3File:
    """The graph of a file with its buffer sizes, where these have a use; otherwise they are dropped
    with a warning.
    """
    if (
        path.lower().endswith(".xml")
        and not given
        and (suffix in (".xml", ".dot") or form.capacities_as or form.capacities)
    ):
        return sdf3xml.read_file(path)
    return Sdf3File(read_graph_file(path, given), {})


def _write_options(source: Sdf3File, form: FormOptions, suffix: str) -> WriteOptions:
    """The options as one value, for a graph whose capacities are those given, or else those of its
    file.
    """
    if form.capacities:
        capacities, form_of_capacities = capacities_for(source.graph, form.capacities), "channels"
    else:
        capacities, form_of_capacities = dict(source.capacities), "sizes"
        if form.capacities_as is not None and not capacities:
            raise InputError(
                "--capacities-as says how capacities are written, but there are none; add --capacities"
            )
    chosen = form.capacities_as or ("sizes" if suffix == ".dot" else form_of_capacities)
    if chosen == "sizes" and form.capacities_as and suffix not in (".xml", ".dot"):
        raise InputError(
            "--capacities-as sizes: only .xml and .dot say the size of a buffer; write channels, or such a file"
        )
    return WriteOptions(
        serial="keep" if form.serial is None else "add" if form.serial else "drop",
        overlap=form.overlap,
        gcd=form.gcd,
        capacities=capacities,
        capacities_as="sizes" if chosen == "sizes" else "channels",
        throughput=source.throughput,
    )


def _graph_of_model(
    model: str, rates: str, tokens: str, options: ModelOptions, *, with_plan: bool
) -> tuple[CsdfGraph, Plan | None]:
    with stages() as stage:
        stage("loading")
        network = load_network(model, options)
        if not with_plan and not options.wishes:
            stage("converting")
            return network_graph(network, options, tokens=tokens, rates=rates), None
        if options.wishes:
            plan = plan_network(network, options, stage=stage)
        else:  # the plan of the graph that is exported, at the same heights
            asked = built(options, stage)
            plan = plan_of(network, asked, kernels_for(asked))
        graph = graph_of(plan.conversion, plan.options, tokens=tokens, rates=rates)
        return graph, plan if with_plan else None


def _sizes(graph: CsdfGraph) -> str:
    phases = sum(actor.phases for actor in graph.actors)
    return f"{counted(len(graph.actors), 'actor')}, {counted(phases, 'phase')}, {counted(len(graph.channels), 'channel')}"


def _summary(graph: CsdfGraph, plan: Plan | None) -> None:
    """Actors with their phases and rates, then totals; memory figures where there is a plan."""
    out = console()
    firings = repetition_vector(graph)
    actors = table(
        "actor", "function", "phases", "firings", "takes", "gives", right=("phases", "firings")
    )
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
    produced = sum(
        sum(c.production) * firings[c.source] // len(c.production)
        for c in graph.channels
        if c.kind == "data"
    )
    out.print(
        f"\n{plain(graph.name)}: {_sizes(graph)} ({', '.join(f'{count} {kind}' for kind, count in kinds.items())}), "
        f"{counted(sum(firings.values()), 'firing')} and {counted(produced, 'token')} an iteration"
    )
    if plan is not None:
        out.print()
        out.print(figures_table(plan.figures))


def _cut(text: str) -> str:
    return (
        text if len(text) <= _WIDEST_RATES else f"{text[: text.rindex(',', 0, _WIDEST_RATES)]},..."
    )
