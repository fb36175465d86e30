"""`csdfgen analyze` about dataflow: is a graph consistent and live, how fast, in which buffers?

An engine is a function that answers with an `Analysis`, which `analyze_report` prints; what it leaves None was not asked.
Everything is exact unless it says that it is a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from csdfgen.cli.analyze_options import GraphQuestions
from csdfgen.cli.analyze_report import LeftOut, show_buffers, show_latency, show_structure, show_throughput
from csdfgen.cli.models import network_graph
from csdfgen.cli.options import ModelOptions
from csdfgen.cli.sections import Section
from csdfgen.cli.terminal import Stage, counted
from csdfgen.errors import CsdfgenError
from csdfgen.graph import Channel, CsdfGraph, with_serial_loops
from csdfgen.network import Network
from schedules.analysis import Analysis, analyze, to_json
from schedules.liveness import find_deadlock
from schedules.schedule import read_schedule
from schedules.storage import StorageDistribution, Unit, lower_bounds, pareto_front, storage_for
from schedules.throughput import METHODS

__all__ = ["ENGINES", "GRAPH_ROWS", "Subject", "graph_sections", "graph_sizes", "model_subject", "without_overlap"]

GRAPH_ROWS = "paper"
"""`--rows` of a model's graph where nothing is said."""

_SECONDS = 10.0
"""`--seconds` where nothing is said."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The graph that is analysed, and the overlap self-loops that were left out of it."""

    graph: CsdfGraph
    overlap: tuple[Channel, ...] = ()


def without_overlap(graph: CsdfGraph) -> Subject:
    """A graph without its self-loops for rows that are kept between phases."""
    kept = tuple(channel for channel in graph.channels if channel.kind != "overlap")
    return Subject(replace(graph, channels=kept), tuple(channel for channel in graph.channels if channel.kind == "overlap"))


def model_subject(network: Network, options: ModelOptions, questions: GraphQuestions) -> Subject:
    """The graph of a network; no actor overlaps with itself. Raises CsdfgenError."""
    graph = with_serial_loops(network_graph(network, options, tokens=questions.tokens or "rows"))
    return Subject(graph) if questions.overlap else without_overlap(graph)


def graph_sizes(graph: CsdfGraph) -> str:
    """Numbers of actors, phases and channels."""
    phases = sum(actor.phases for actor in graph.actors)
    return f"{counted(len(graph.actors), 'actor')}, {counted(phases, 'phase')}, {counted(len(graph.channels), 'channel')}"


def graph_sections(subject: Subject, questions: GraphQuestions, where: str, stage: Stage) -> list[Section]:
    """The answers about a graph, a section a question. Raises CsdfgenError, which names `where` the graph is from."""
    graph, capacities = subject.graph, _capacities(subject.graph, questions)
    name = questions.engine or "auto"
    try:
        found = ENGINES[name](graph, questions, capacities, stage)
    except CsdfgenError as error:
        raise error.at(where) from None
    values: dict[str, Any] = {**to_json(found), "engine": "native" if name == "auto" else name}
    if capacities:
        values["given_capacities"] = capacities
    sections = [Section("", values, lambda: show_structure(graph, found, bool(capacities)))]
    speed, latency, buffers = found.throughput, found.latency, found.buffers
    if speed is not None:
        if speed.peaks is not None:
            values["peaks_self_timed"] = dict(speed.peaks)
        sections.append(Section("", {}, lambda: show_throughput(graph, speed)))
    if latency is not None:
        peaks = found.peaks or {}
        sections.append(Section("", {}, lambda: show_latency(graph, latency, peaks)))
    if buffers is not None:
        unit, left = questions.unit or "tokens", _left_out(subject)
        values["unit"] = unit
        values["left_out"] = {"serial": left.serial, "overlap": dict(left.overlap)}
        sections.append(Section("", {}, lambda: show_buffers(graph, buffers, unit, left)))
    return sections


def _capacities(graph: CsdfGraph, questions: GraphQuestions) -> dict[str, int]:
    """The capacities given, those of channels by name before those of a schedule's file."""
    if questions.capacity_file is None:
        return dict(questions.capacities)
    schedule = read_schedule(questions.capacity_file)
    # a schedule counts the one token of a serial self-loop, which is no room that could limit
    serial = {channel.name for channel in graph.channels if channel.is_serial}
    return {**{name: tokens for name, tokens in schedule.capacities.items() if name not in serial}, **questions.capacities}


def _left_out(subject: Subject) -> LeftOut:
    """Channels that storage does not count; an overlap self-loop takes the same room in every distribution."""
    serial = sum(channel.is_serial for channel in subject.graph.channels)
    loops = lower_bounds(replace(subject.graph, channels=subject.overlap))
    return LeftOut(serial, loops, sum(loops[channel.name] * channel.token_bytes for channel in subject.overlap))


# Engines ----------------------------------------------------------------------------------------

Engine = Callable[[CsdfGraph, GraphQuestions, Mapping[str, int], Stage], Analysis]
"""Answers the questions about a valid graph under some capacities."""


def _native(graph: CsdfGraph, questions: GraphQuestions, capacities: Mapping[str, int], stage: Stage) -> Analysis:
    """The engine in `schedules`."""
    stage("analysing")
    method = next(method for method in METHODS if method == (questions.method or METHODS[0]))
    speed, time = questions.throughput, questions.latency
    found = analyze(graph, capacities, method=method, with_throughput=speed, with_latency=time)
    if not questions.buffers or not found.consistent:
        return found
    stage("sizing buffers")
    return replace(found, buffers=tuple(_storage(graph, questions, stage)))


def _storage(graph: CsdfGraph, questions: GraphQuestions, stage: Stage) -> list[StorageDistribution]:
    """The distributions that are asked for, none if the graph deadlocks whatever its capacities."""
    seconds = _SECONDS if questions.seconds is None else questions.seconds
    unit: Unit = "bytes" if questions.unit == "bytes" else "tokens"
    if questions.target is not None:
        return [storage_for(graph, questions.target, unit, seconds)]
    if find_deadlock(graph) is not None:
        return []
    if questions.storage == "live":
        return [storage_for(graph, "live", unit, seconds)]
    if questions.storage == "maximal":
        return [storage_for(graph, "maximal", unit, seconds)]
    points: list[StorageDistribution] = []
    for point in pareto_front(graph, unit, seconds):
        points.append(point)
        stage(f"sizing buffers: {counted(len(points), 'distribution')}, the last of {point.size:,} {unit}")
    return points


ENGINES: Mapping[str, Engine] = {"auto": _native, "native": _native}
"""Name -> who answers."""
