"""`csdfgen analyze` about dataflow: is a graph consistent and live, how fast, in which buffers?

An engine (`engines`) answers with an `Analysis`, which `analyze_report` prints; what it leaves None
was not asked. Everything is exact unless it says that it is a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from csdfgen.cli.analyze_options import GraphQuestions
from csdfgen.cli.analyze_pictures import picture_section
from csdfgen.cli.analyze_report import (
    LeftOut,
    show_buffers,
    show_latency,
    show_structure,
    show_throughput,
    show_tool,
)
from csdfgen.cli.capacities import capacities_for
from csdfgen.cli.engines import ENGINES
from csdfgen.cli.graph_file import read_graph_file
from csdfgen.cli.sections import AnalyzeRequest, Report, Section
from csdfgen.cli.terminal import Stage, console, counted, plain
from csdfgen.dataflow.graph import Channel, CsdfGraph
from csdfgen.dataflow.transform import without
from csdfgen.errors import CsdfgenError, InconsistentError
from csdfgen.files import check_writable
from schedules.analysis import Analysis, to_json
from schedules.static import point_of, write_storage_plan
from schedules.storage import Unit, lower_bounds
from schedules.throughput import throughput

__all__ = ["Subject", "about_graph", "graph_sections", "graph_sizes", "without_overlap"]


@dataclass(frozen=True, slots=True)
class Subject:
    """The graph that is analysed, and the overlap self-loops that were left out of it."""

    graph: CsdfGraph
    overlap: tuple[Channel, ...] = ()


def without_overlap(graph: CsdfGraph) -> Subject:
    """A graph without its self-loops for rows that are kept between phases."""
    overlap = tuple(channel for channel in graph.channels if channel.kind == "overlap")
    return Subject(without(graph, "overlap"), overlap)


def graph_sizes(graph: CsdfGraph) -> str:
    """Numbers of actors, phases and channels."""
    phases = sum(actor.phases for actor in graph.actors)
    return f"{counted(len(graph.actors), 'actor')}, {counted(phases, 'phase')}, {counted(len(graph.channels), 'channel')}"


def about_graph(request: AnalyzeRequest, stage: Stage) -> Report:
    """Answer what was asked about a graph file: its structure and throughput if nothing was. Raises
    CsdfgenError.
    """
    questions = request.questions
    given = (
        request.options.given()
        + ["--device"] * (request.device is not None)
        + ["--tokens"] * (questions.tokens is not None)
    )
    stage("loading")
    graph = read_graph_file(request.model, given, questions.capacities.file)
    subject = without_overlap(graph) if questions.overlap is False else Subject(graph)
    if not questions.asked:
        questions = replace(questions, throughput=True)
    sections = graph_sections(subject, questions, request.model, stage)
    return Report({}, f"{plain(request.model)}: {graph_sizes(subject.graph)}", sections)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine found out about a graph, and what it had been asked."""

    subject: Subject
    questions: GraphQuestions
    capacities: Mapping[str, int]
    found: Analysis

    @property
    def unit(self) -> Unit:
        """What sizes are counted in."""
        return "bytes" if self.questions.unit == "bytes" else "tokens"


def graph_sections(
    subject: Subject, questions: GraphQuestions, where: str, stage: Stage
) -> list[Section]:
    """The answers about a graph, a section a question. Raises CsdfgenError, which names `where` the
    graph is from.
    """
    capacities = capacities_for(subject.graph, questions.capacities)
    _check_outputs(questions)
    try:
        found = ENGINES[questions.engine or "auto"](subject.graph, questions, capacities, stage)
        answer = Answer(subject, questions, capacities, found)
        return [section for make in _SECTIONS if (section := make(answer)) is not None]
    except CsdfgenError as error:
        raise error.at(where) from None


def _check_outputs(questions: GraphQuestions) -> None:
    """Refuse files that could not be written, before the search that would be lost."""
    pictures = questions.pictures
    for path in (questions.output, pictures.gantt, pictures.occupancy, pictures.dot):
        if path is not None:
            check_writable(path)


def _structure(answer: Answer) -> Section:
    engine = answer.questions.engine or "auto"
    values: dict[str, Any] = {
        **to_json(answer.found),
        "engine": "native" if engine == "auto" else engine,
    }
    if answer.capacities:
        values["given_capacities"] = dict(answer.capacities)
    return Section(
        "",
        values,
        lambda: show_structure(answer.subject.graph, answer.found, bool(answer.capacities)),
    )


def _throughput(answer: Answer) -> Section | None:
    found = answer.found.throughput
    if found is None:
        return None
    executed = answer.questions.method == "self-timed"
    values = {} if found.peaks is None else {"peaks_self_timed": dict(found.peaks)}
    return Section("", values, lambda: show_throughput(answer.subject.graph, found, executed))


def _latency(answer: Answer) -> Section | None:
    latency, peaks = answer.found.latency, answer.found.peaks or {}
    return (
        None
        if latency is None
        else Section("", {}, lambda: show_latency(answer.subject.graph, latency, peaks))
    )


def _buffers(answer: Answer) -> Section | None:
    found, unit = answer.found.buffers, answer.unit
    if found is None:
        return None
    left, graph = _left_out(answer.subject), answer.subject.graph
    values = {"unit": unit, "left_out": {"serial": left.serial, "overlap": dict(left.overlap)}}
    return Section(
        "",
        values,
        lambda: show_buffers(graph, found, _fastest(answer), unit, left, bool(answer.capacities)),
    )


def _fastest(answer: Answer) -> Fraction | float:
    """The highest throughput in any storage, 0 if unknown: a list of all ends with it, a single one
    may be slower.
    """
    found, questions = answer.found.buffers, answer.questions
    if not found or (questions.storage != "live" and questions.target is None):
        return found[-1].throughput if found else 0
    highest = throughput(answer.subject.graph)
    return highest.value if highest.exact else 0


def _plan(answer: Answer) -> Section | None:
    """Write the least of the distributions as a file that `csdfgen run --plan` takes."""
    path, graph = answer.questions.output, answer.subject.graph
    if path is None:
        return None
    if not answer.found.consistent:
        raise InconsistentError(answer.found.inconsistency)
    point = point_of(answer.found.buffers or ())
    schedule = write_storage_plan(path, graph, point)
    said = f"{path}: {counted(len(schedule.firings), 'firing')} in buffers of {counted(point.size, answer.unit[:-1])}"
    return Section(
        "", {"plan": str(path)}, lambda: console().print(f"\n{said}, throughput {point.throughput}")
    )


def _pictures(answer: Answer) -> Section | None:
    """Draw the graph as it executes in the storage that was looked for, the least of it, or in the
    capacities given.
    """
    asked, found = answer.questions.pictures, answer.found
    if not asked.asked:
        return None
    capacities = point_of(found.buffers).capacities if found.buffers else answer.capacities
    graph, unit = answer.subject.graph, answer.unit
    return picture_section(graph, asked, capacities, unit, found.inconsistency)


def _tool(answer: Answer) -> Section | None:
    return None if answer.found.tool is None else Section("", {}, lambda: show_tool(answer.found))


_SECTIONS: tuple[Callable[[Answer], Section | None], ...] = (
    _tool,
    _structure,
    _throughput,
    _latency,
    _buffers,
    _plan,
    _pictures,
)
"""In the order of the report; None where there is no answer to be told."""


def _left_out(subject: Subject) -> LeftOut:
    """Channels that storage does not count; an overlap self-loop takes the same room in every
    distribution.
    """
    serial = sum(channel.is_serial for channel in subject.graph.channels)
    loops = lower_bounds(replace(subject.graph, channels=subject.overlap))
    return LeftOut(
        serial, loops, sum(loops[channel.name] * channel.token_bytes for channel in subject.overlap)
    )
