"""`csdfgen analyze MODEL`: memory, a device, and what is asked about the model's graph, in one
report.
"""

from __future__ import annotations

from dataclasses import replace

from csdfgen.cli.analyze_device import device_section
from csdfgen.cli.analyze_graph import Subject, graph_sections, graph_sizes, without_overlap
from csdfgen.cli.analyze_options import GraphQuestions
from csdfgen.cli.models import load_network, network_graph, plan_network
from csdfgen.cli.options import ModelOptions
from csdfgen.cli.sections import AnalyzeRequest, Report, Section
from csdfgen.cli.terminal import Stage, console, counted, figures_table, plain
from csdfgen.dataflow.graph import with_serial_loops
from csdfgen.devices.catalogue import device
from csdfgen.errors import InputError
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION, DEFAULTS
from csdfgen.planning.plan import Plan

__all__ = ["about_model"]

_GRAPH_ROWS = "paper"
"""`--rows` where questions about dataflow are asked and nothing else is said: a phase for every
output row.
"""

_UNIT = "bytes"
"""`--unit` where nothing is said: rows of tensors of different widths do not add up."""


def about_model(request: AnalyzeRequest, stage: Stage) -> Report:
    """Answer what was asked about a model: its memory if nothing was. Raises CsdfgenError."""
    questions, options = request.questions, request.options
    if not questions.asked and questions.conditions():
        asked = "--throughput, --buffers, --latency or --deadlock"
        raise InputError(
            f"{questions.conditions()[0]} says how a question about dataflow is answered; add {asked}"
        )
    if questions.asked and options.rows is None:
        options = replace(options, rows=_GRAPH_ROWS)
    if questions.unit is None:
        questions = replace(questions, unit=_UNIT)
    profile = device(request.device) if request.device is not None else None
    stage("loading")
    network = load_network(request.model, options)
    titles: list[str] = []
    sections: list[Section] = []
    if profile is not None or not questions.asked:
        stage("planning")
        plan = plan_network(network, options, stage=stage)
        titles.append(
            f"{counted(len(plan.network.layers), 'layer')} in {counted(len(plan.order), 'firing')}"
        )
        sections.append(_memory_section(plan))
        if profile is not None:
            sections.append(device_section(plan, profile, request.model, options, stage))
    if questions.asked:
        stage("converting")
        subject = _subject(network, options, questions)
        titles.append(graph_sizes(subject.graph))
        sections += graph_sections(subject, questions, request.model, stage)
    settings = {name: getattr(options, name) or getattr(DEFAULTS, name) for name in CONVERSION}
    given = " ".join(f"--{name} {value}" for name, value in settings.items())
    return Report(
        {"model": request.model, **settings},
        f"{plain(request.model)}: {'; '.join(titles)}, {given}",
        sections,
    )


def _memory_section(plan: Plan) -> Section:
    return Section(
        "memory", dict(plan.figures), lambda: console().print(figures_table(plan.figures))
    )


def _subject(network: Network, options: ModelOptions, questions: GraphQuestions) -> Subject:
    """The graph of a network; no actor overlaps with itself."""
    graph = with_serial_loops(network_graph(network, options, tokens=questions.tokens or "rows"))
    return Subject(graph) if questions.overlap else without_overlap(graph)
