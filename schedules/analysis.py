"""What are the properties of a graph? All its analyses, and their results as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import inf
from typing import Any, Literal

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector, validate
from csdfgen.errors import GraphError, InconsistentError
from csdfgen.model.describe import format_repr, html_table
from schedules.liveness import Deadlock, find_deadlock
from schedules.order import strongly_connected_components
from schedules.selftimed import execute_iterations
from schedules.sizing import Unit
from schedules.storage import StorageDistribution, pareto_front, size_storage
from schedules.throughput import Method, Throughput, throughput

Buffers = Literal["none", "live", "maximal", "front"]
BUFFERS: tuple[Buffers, ...] = ("none", "live", "maximal", "front")
"""The storage distributions that are computed: none, the least without deadlock, the least for the highest throughput,
or the whole front.
"""

MAX_LATENCY_FIRINGS = 2_000_000
"""Most firings of an iteration that are executed for its latency."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """An external program that computed results: its name, path, version as it reports it, and seconds.

    printed: its throughput in its own digits, "" if it computed none; k: minimal iterations in one of its iterations.
    """

    title: str
    path: str
    version: str
    seconds: float
    printed: str = ""
    k: int = 1


@dataclass(frozen=True, slots=True)
class Analysis:
    """Results for a graph; None for those that were not requested, or that an inconsistent graph or a deadlock excludes.

    inconsistency: the channel, the cycle that it closes and both products, in words. latency: time from the first start
    to the last end of one iteration in self-timed execution. peaks: most tokens per channel in this iteration. tool: the
    external program that computed, if any; notes: remarks on the numbers.
    """

    graph_name: str
    repetition: Mapping[str, int] | None
    inconsistency: str = ""
    components: tuple[tuple[str, ...], ...] = ()
    deadlock: Deadlock | None = None
    throughput: Throughput | None = None
    latency: int | None = None
    peaks: Mapping[str, int] | None = None
    buffers: tuple[StorageDistribution, ...] | None = None
    tool: ToolRun | None = None
    notes: tuple[str, ...] = ()

    @property
    def consistent(self) -> bool:
        return self.repetition is not None

    def _facts(self) -> dict[str, object]:
        return {
            "firings": None if self.repetition is None else sum(self.repetition.values()),
            "deadlock": "yes" if self.deadlock is not None else "no" if self.consistent else None,
            "inconsistent": self.inconsistency or None,
            "throughput": self.throughput and self.throughput.value,
            "latency": self.latency,
            "buffers": None if self.buffers is None else [found.size for found in self.buffers],
        }

    def __repr__(self) -> str:
        return format_repr("Analysis", self.graph_name, **self._facts())

    def _repr_html_(self) -> str:
        return html_table(f"Analysis of {self.graph_name}", self._facts().items())


def analyze(
    graph: CsdfGraph,
    capacities: Mapping[str, int] | None = None,
    *,
    method: Method = "auto",
    with_throughput: bool = True,
    with_latency: bool = False,
    buffers: Buffers = "none",
    target: Fraction | None = None,
    unit: Unit = "tokens",
    seconds: float = 10.0,
    progress: Callable[[str], None] = lambda what: None,
) -> Analysis:
    """Analyse a graph: always its consistency, components and liveness, the rest on request.

    capacities limit throughput, latency and liveness. The search for storage is free of them and takes up to `seconds`:
    `buffers`, or the least storage for the throughput `target`. Raises GraphError for a graph or capacities that are not
    valid; inconsistency is a result, not an error.
    """
    validate(graph)
    if buffers not in BUFFERS:
        raise GraphError(f"buffers '{buffers}' is not one of {', '.join(BUFFERS)}")
    try:
        repetition = repetition_vector(graph)
    except InconsistentError as error:
        return Analysis(graph.name, None, str(error))
    rate = throughput(graph, capacities, method) if with_throughput else None
    deadlock = rate.deadlock if rate else find_deadlock(graph, capacities)
    latency = peaks = None
    if with_latency and deadlock is None:
        if sum(repetition.values()) > MAX_LATENCY_FIRINGS:
            counts = f"an iteration takes {sum(repetition.values())} firings; at most {MAX_LATENCY_FIRINGS} are executed"
            raise GraphError(f"latency: {counts}", where=f"graph '{graph.name}'")
        timing = execute_iterations(graph, capacities)
        latency = timing.makespan
        peaks = {
            channel.name: peak for channel, peak in zip(graph.channels, timing.peaks, strict=True)
        }
    return Analysis(
        graph.name,
        repetition,
        "",
        _components(graph),
        deadlock,
        rate,
        latency,
        peaks,
        _buffers(graph, buffers, target, unit, seconds, progress),
    )


def _components(graph: CsdfGraph) -> tuple[tuple[str, ...], ...]:
    """Names of the actors of each strongly connected component, in the order of the graph."""
    groups: dict[int, list[str]] = {}
    for actor, number in zip(graph.actors, strongly_connected_components(graph), strict=True):
        groups.setdefault(number, []).append(actor.name)
    return tuple(tuple(names) for names in groups.values())


def _buffers(
    graph: CsdfGraph,
    wanted: Buffers,
    target: Fraction | None,
    unit: Unit,
    seconds: float,
    progress: Callable[[str], None],
) -> tuple[StorageDistribution, ...] | None:
    if wanted == "none" and target is None:
        return None
    progress("sizing buffers")
    if target is not None:
        return (size_storage(graph, target, unit, seconds),)
    if find_deadlock(graph) is not None:
        return ()
    if wanted in ("live", "maximal"):
        return (size_storage(graph, wanted, unit, seconds),)
    points: list[StorageDistribution] = []
    for point in pareto_front(graph, unit, seconds):
        points.append(point)
        progress(f"sizing buffers: {len(points)} distributions, the last of {point.size:,} {unit}")
    return tuple(points)


def to_json(analysis: Analysis) -> dict[str, Any]:
    """The results that were requested, as JSON values."""
    out: dict[str, Any] = {"graph": analysis.graph_name, "consistent": analysis.consistent}
    if analysis.tool is not None:
        out["tool"] = asdict(analysis.tool)
    if analysis.notes:
        out["notes"] = list(analysis.notes)
    if analysis.repetition is None:
        return {**out, "inconsistency": analysis.inconsistency}
    out["repetition"] = dict(analysis.repetition)
    out["components"] = [list(names) for names in analysis.components]
    out["deadlock"] = analysis.deadlock is not None
    if analysis.deadlock is not None:
        out["waiting"] = [asdict(wait) for wait in analysis.deadlock.cycle]
    if analysis.throughput is not None:
        out.update(_throughput_to_json(analysis.throughput))
    if analysis.latency is not None:
        out["latency"] = analysis.latency
    if analysis.peaks is not None:
        out["peaks"] = dict(analysis.peaks)
    if analysis.buffers is not None:
        out["buffers"] = [_storage_to_json(distribution) for distribution in analysis.buffers]
    return out


def _throughput_to_json(found: Throughput) -> dict[str, Any]:
    out: dict[str, Any] = {
        "throughput": str(found.value),
        "throughput_decimal": None if found.value == inf else float(found.value),
        "method": found.method,
        "exact": found.exact,
    }
    if not found.exact:
        out["throughput_at_most"] = str(found.upper)
    if found.transient is not None:
        out["transient"], out["period"] = found.transient, found.period
    if found.critical:
        out["critical"] = [asdict(link) for link in found.critical]
    return out


def _storage_to_json(found: StorageDistribution) -> dict[str, Any]:
    out: dict[str, Any] = {
        "size": found.size,
        "throughput": str(found.throughput),
        "exact": found.exact,
    }
    if not found.exact:
        out["size_at_least"] = found.least
    return {**out, "capacities": dict(found.capacities)}
