"""Who answers questions about a graph? Engines by name, each a function that makes an `Analysis` of
the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from csdfgen.cli.analyze_options import GraphQuestions
from csdfgen.cli.terminal import Stage, counted
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import InputError
from schedules.analysis import BUFFERS, Analysis, Buffers, analyze
from schedules.liveness import find_deadlock
from schedules.storage import StorageDistribution, Unit, pareto_front, storage_for
from schedules.throughput import METHODS

__all__ = ["ENGINES", "Engine"]

_SECONDS = 10.0
"""`--seconds` where nothing is said."""

Engine = Callable[[CsdfGraph, GraphQuestions, Mapping[str, int], Stage], Analysis]
"""Answers the questions about a valid graph under some capacities."""


def _native(
    graph: CsdfGraph, questions: GraphQuestions, capacities: Mapping[str, int], stage: Stage
) -> Analysis:
    """The engine in `schedules`."""
    stage("analysing")
    method = next(method for method in METHODS if method == (questions.method or METHODS[0]))
    speed, time = questions.throughput, questions.latency
    found = analyze(graph, capacities, method=method, with_throughput=speed, with_latency=time)
    if not questions.buffers or not found.consistent:
        return found
    stage("sizing buffers")
    return replace(found, buffers=tuple(_storage(graph, questions, stage)))


def _storage(
    graph: CsdfGraph, questions: GraphQuestions, stage: Stage
) -> list[StorageDistribution]:
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
        stage(
            f"sizing buffers: {counted(len(points), 'distribution')}, the last of {point.size:,} {unit}"
        )
    return points


def _sdf3(
    graph: CsdfGraph, questions: GraphQuestions, capacities: Mapping[str, int], stage: Stage
) -> Analysis:
    """SDF3, where it is installed."""
    from sdf3_bridge.engines import TIMEOUT, analyze_sdf3

    if questions.latency:
        raise InputError(
            "--latency: SDF3 computes none for cyclo-static graphs; ask --engine native"
        )
    stage("asking SDF3")
    buffers: Buffers = "none"
    if questions.buffers:
        buffers = next((name for name in BUFFERS if name == questions.storage), "front")
    return analyze_sdf3(
        graph,
        capacities,
        with_throughput=questions.throughput,
        buffers=buffers,
        target=questions.target,
        unit="bytes" if questions.unit == "bytes" else "tokens",
        tool=questions.place,
        timeout=questions.timeout or TIMEOUT,
    )


def _kiter(
    graph: CsdfGraph, questions: GraphQuestions, capacities: Mapping[str, int], stage: Stage
) -> Analysis:
    """Kiter, where it is installed: for throughput."""
    from sdf3_bridge.engines import TIMEOUT, analyze_kiter

    for option, asked in (("--latency", questions.latency), ("--buffers", questions.buffers)):
        if asked:
            raise InputError(f"{option}: Kiter is asked for throughput only; ask --engine native")
    stage("asking Kiter")
    found = analyze_kiter(
        graph, capacities, tool=questions.place, timeout=questions.timeout or TIMEOUT
    )
    return found if questions.throughput else replace(found, throughput=None)


ENGINES: Mapping[str, Engine] = {"auto": _native, "native": _native, "sdf3": _sdf3, "kiter": _kiter}
"""Name -> who answers."""
