"""`csdfgen analyze`: what does a model or a graph need, and how fast is it? One section a question, each asked by an option.

Every section is made by a function that knows its question: its JSON values, and how it is printed. What is asked about memory
and devices is for models (`analyze_device`), what is asked about dataflow for graphs, and for models by way of
their graph (`analyze_graph`).
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from csdfgen.cli.analyze_device import COLUMNS, device_section
from csdfgen.cli.analyze_graph import GRAPH_ROWS, Subject, graph_sections, graph_sizes, model_subject, without_overlap
from csdfgen.cli.analyze_options import GraphQuestions
from csdfgen.cli.models import DEFAULTS, load_network, plan_network, read_graph_file
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.sections import Section
from csdfgen.cli.terminal import Stage, console, counted, figures_table, plain, stages
from csdfgen.devices.catalogue import device
from csdfgen.errors import InputError
from csdfgen.files import write_bytes
from csdfgen.planning import Plan

__all__ = ["AnalyzeRequest", "run_analyze"]


@dataclass(frozen=True, slots=True)
class AnalyzeRequest:
    """What the user asked for; a section whose option is None is left out."""

    model: str
    options: ModelOptions
    device: str | None
    as_json: bool
    csv: Path | None
    questions: GraphQuestions


@dataclass(frozen=True, slots=True)
class _Report:
    """JSON members and a line that say what was analysed, and the answers."""

    head: dict[str, Any]
    title: str
    sections: list[Section]


def run_analyze(request: AnalyzeRequest) -> None:
    """Answer what was asked about a model or a graph. Raises CsdfgenError."""
    if request.csv is not None and request.device is None:
        raise InputError("--csv writes the layers' times; give --device NAME (csdfgen devices lists them)")
    with stages() as stage:
        report = (_about_graph if is_graph_file(request.model) else _about_model)(request, stage)
    if request.csv is not None:
        _write_csv(request.csv, report.sections)
    if request.as_json:
        values = dict(report.head)
        for section in report.sections:
            values.update(section.to_json())
        print(json.dumps(values, indent=2, allow_nan=False))
        return
    console().print(f"{report.title}\n")
    for section in report.sections:
        section.show()


def _about_graph(request: AnalyzeRequest, stage: Stage) -> _Report:
    questions = request.questions
    given = request.options.given() + ["--device"] * (request.device is not None) + ["--tokens"] * (questions.tokens is not None)
    stage("loading")
    graph = read_graph_file(request.model, given)
    subject = without_overlap(graph) if questions.overlap is False else Subject(graph)
    if not questions.asked:
        questions = replace(questions, throughput=True)
    sections = graph_sections(subject, questions, request.model, stage)
    return _Report({}, f"{plain(request.model)}: {graph_sizes(subject.graph)}", sections)


def _about_model(request: AnalyzeRequest, stage: Stage) -> _Report:
    questions, options = request.questions, request.options
    if not questions.asked and questions.conditions():
        asked = "--throughput, --buffers, --latency or --deadlock"
        raise InputError(f"{questions.conditions()[0]} says how a question about dataflow is answered; add {asked}")
    if questions.asked and options.rows is None:
        options = replace(options, rows=GRAPH_ROWS)
    profile = device(request.device) if request.device is not None else None
    stage("loading")
    network = load_network(request.model, options)
    titles, sections = [], []
    if profile is not None or not questions.asked:
        stage("planning")
        plan = plan_network(network, options)
        titles.append(f"{counted(len(plan.network.layers), 'layer')} in {counted(len(plan.order), 'firing')}")
        sections.append(_memory_section(plan))
        if profile is not None:
            sections.append(device_section(plan, profile, request.model, options, stage))
    if questions.asked:
        stage("converting")
        subject = model_subject(network, options, questions)
        titles.append(graph_sizes(subject.graph))
        sections += graph_sections(subject, questions, request.model, stage)
    settings = {name: getattr(options, name) or default for name, default in DEFAULTS.items()}
    given = " ".join(f"--{name} {value}" for name, value in settings.items())
    return _Report({"model": request.model, **settings}, f"{plain(request.model)}: {'; '.join(titles)}, {given}", sections)


def _memory_section(plan: Plan) -> Section:
    return Section("memory", dict(plan.figures), lambda: console().print(figures_table(plan.figures)))


def _write_csv(path: Path, sections: list[Section]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for section in sections:
        writer.writerows(section.rows)
    write_bytes(path, text.getvalue().encode("utf-8", "backslashreplace"))
