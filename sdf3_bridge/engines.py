"""What do SDF3 and Kiter answer about a graph, in our names and units, as far as the answer can be trusted?

Their known silent errors are avoided before the call (`prepare`, `iteration`) and found after it (`grammar`, `session`):
no result is passed on that our own analysis contradicts. Both return an `Analysis`, as `schedules.analysis.analyze` does.

SDF3's sizes of storage distributions count every channel of the graph that it was given, the one-token self-loops with 2
each; ours count the other channels, and the self-loops that it was not given. Its points are achievable (each is checked by
our own analysis), not always the smallest, and some are dominated: these are dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.dataflow.transform import add_space_channels
from csdfgen.errors import GraphError, ToolError
from schedules.analysis import Analysis, Buffers, analyze
from schedules.liveness import find_deadlock
from schedules.sizing import Unit, lower_bounds
from schedules.storage import StorageDistribution
from schedules.throughput import Throughput, throughput
from sdf3_bridge.grammar import (
    Point,
    read_consistency,
    read_k_periodic,
    read_repetition_vector,
    read_storage,
    read_throughput,
)
from sdf3_bridge.iteration import check_limits, check_times, sdf3_iteration
from sdf3_bridge.names import describe_name, encode_name
from sdf3_bridge.prepare import (
    Sizing,
    add_loops,
    divide_rates,
    prepare_buffersize,
    reduce_graph,
    stretch_times,
)
from sdf3_bridge.session import FILE, Session, check_agreement
from sdf3_bridge.tools import KITER, SDF3, need

TIMEOUT = 60.0
"""Default limit in seconds for each run of a tool."""

_SHOWN = 4

_Answer = TypeVar("_Answer")
_Place = str | os.PathLike[str] | None


def analyze_sdf3(
    graph: CsdfGraph,
    capacities: Mapping[str, int] | None = None,
    *,
    with_throughput: bool = True,
    buffers: Buffers = "none",
    target: Fraction | None = None,
    unit: Unit = "tokens",
    tool: _Place = None,
    timeout: float = TIMEOUT,
) -> Analysis:
    """Ask SDF3 about a valid graph: consistency, repetition vector, throughput, storage.

    capacities limit the throughput, not the storage that is looked for. buffers: as for
    `schedules.analysis.analyze`; or target: the first distribution with this throughput. unit: what
    size is counted in. tool: its program, or the folder that holds it, if not where CSDFGEN_SDF3
    and PATH say. timeout: seconds for each run.

    Raises ToolError: SDF3 is not there, fails, or says what cannot be. GraphError: the graph is
        beyond its limits.
    """
    session = Session(need(SDF3, tool), timeout)
    base = analyze(graph, capacities, with_throughput=False)
    if base.repetition is None:
        if _ask(session, replace(graph, origin=None), "consistency", read_consistency):
            raise ToolError(
                f"finds consistent what is not: {base.inconsistency}", where=session.title
            )
        return replace(base, tool=session.said())
    sized = buffers != "none" or target is not None
    found, printed = None, ""
    subject = _prepared(session, add_space_channels(graph, capacities or {}))
    if with_throughput or not sized:  # a deadlock is a throughput of 0
        found, printed = _sdf3_throughput(session, subject)
    front: tuple[StorageDistribution, ...] | None = None
    if sized:
        if capacities:
            subject = _prepared(session, graph)
        front = (
            ()
            if find_deadlock(graph)
            else _chosen(
                _sdf3_storage(session, subject, unit), buffers, target, describe_name(graph)
            )
        )
    return replace(
        base,
        throughput=found if with_throughput else None,
        buffers=front,
        tool=session.said(printed, subject.factor),
        notes=tuple(dict.fromkeys(session.notes)),
    )


def _ask(
    session: Session, graph: CsdfGraph, algorithm: str, read: Callable[[str], _Answer]
) -> _Answer:
    return session.ask(graph, algorithm, ("--graph", FILE, "--algo", algorithm), read)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The graph that SDF3 is asked about. factor: minimal iterations in one of SDF3's; free: the
    graph before self-loops were added to it, None if none were."""

    graph: CsdfGraph
    factor: int
    free: CsdfGraph | None


def _prepared(session: Session, graph: CsdfGraph) -> _Subject:
    """What SDF3 is asked about, with its own repetition vector. Raises GraphError, ToolError."""
    used = reduce_graph(graph)
    prepared, added = add_loops(used)
    if added:
        session.notes.append(
            f"a one-token self-loop was added to {_listed(added)}: SDF3 is not reliable for actors of several phases that may "
            "overlap with themselves"
        )
    check_times(prepared)
    asked = divide_rates(prepared)
    iteration = sdf3_iteration(asked)
    check_limits(asked, iteration)
    names = [encode_name(actor.name) for actor in asked.actors]
    found = _ask(
        session, asked, "repetition_vector", lambda text: read_repetition_vector(text, names)
    )
    minimal = repetition_vector(asked)
    factors = {
        Fraction(count, minimal[actor])
        for count, actor in zip(found.values(), minimal, strict=True)
    }
    factor = min(factors)
    if len(factors) > 1 or factor < 1 or factor.denominator > 1:
        raise ToolError(
            "its repetition vector is no multiple of the minimal one: parts of the graph that nothing connects have one "
            "iteration together there; analyse each alone, or with --engine native",
            where=session.title,
        )
    return _Subject(prepared, int(factor), used if added else None)


def _sdf3_throughput(session: Session, subject: _Subject) -> tuple[Throughput, str]:
    """Throughput per minimal iteration, and per iteration of SDF3 as it was printed."""
    name = encode_name(subject.graph.name)
    printed = _ask(
        session, divide_rates(subject.graph), "throughput", lambda text: read_throughput(text, name)
    )
    found = check_agreement(session.title, printed, subject.factor, throughput(subject.graph))
    if subject.free is not None:
        free = throughput(subject.free)
        if free.exact and free.value != found.value:
            session.notes.append(
                f"without the added self-loops the throughput is {free.value} (--engine native)"
            )
    return found, printed.text


def _sdf3_storage(session: Session, subject: _Subject, unit: Unit) -> list[StorageDistribution]:
    """The distributions that SDF3 finds."""
    sizing = prepare_buffersize(subject.graph, unit == "bytes")
    check_limits(sizing.graph, sdf3_iteration(sizing.graph))
    names = [encode_name(channel.name) for channel in sizing.graph.channels]
    points = _ask(session, sizing.graph, "buffersize", lambda text: read_storage(text, names))
    if not points:
        message = "no result: it lists no distribution but the one that stands for a deadlock, and the graph has none"
        raise ToolError(f"{message}; use --engine native", where=f"{session.title} buffersize")
    front = _distributions(points, sizing, subject.graph, subject.factor, unit)
    if sizing.outside:
        held = {
            name: front[0].capacities[name] for name in (channel.name for channel in sizing.outside)
        }
        session.notes.append(
            f"SDF3's graph was without {_listed(tuple(held))}, as its buffersize never enlarges a self-loop; their room, "
            f"{sum(held.values())} tokens, is in every size"
        )
    if sizing.unweighted:
        session.notes.append(
            f"SDF3 counted each token of {_listed(sizing.unweighted)} as a byte, the sizes here count none"
        )
    session.notes.append(
        "SDF3's distributions reach their throughput, but need not be the smallest that do"
    )
    return front


def analyze_kiter(
    graph: CsdfGraph,
    capacities: Mapping[str, int] | None = None,
    *,
    tool: _Place = None,
    timeout: float = TIMEOUT,
) -> Analysis:
    """Ask Kiter about the throughput of a valid graph, by K-periodic schedules.

    tool: its program, or the folder that holds it, if not where CSDFGEN_KITER and PATH say.
        timeout: seconds.
    Raises ToolError: Kiter is not there, fails, or says what cannot be, as it does for some graphs
    whose actors may overlap with themselves. GraphError: nothing to ask.
    """
    session = Session(need(KITER, tool), timeout)
    base = analyze(graph, capacities, with_throughput=False)
    if base.repetition is None:
        return replace(
            base,
            tool=session.said(),
            notes=("Kiter was not asked: it takes consistent graphs only",),
        )
    prepared = divide_rates(reduce_graph(add_space_channels(graph, capacities or {})))
    ours = throughput(prepared)
    doubt = _kiter_doubt(prepared)
    if doubt and not ours.exact:
        raise GraphError(
            f"its throughput cannot be checked here{doubt}", where=describe_name(graph)
        )
    try:
        found = _kiter_throughput(session, prepared, ours)
    except ToolError as error:
        raise ToolError(f"{error.message}{doubt}", where=error.where) from None
    return replace(
        base, throughput=found[0], tool=session.said(found[1]), notes=tuple(session.notes)
    )


def _kiter_throughput(
    session: Session, graph: CsdfGraph, ours: Throughput
) -> tuple[Throughput, str]:
    """Throughput, and as it was printed; where times of 0 may be what Kiter fails on, of the graph
    without.
    """
    algorithm = "KPeriodicThroughput"
    arguments = ("-f", FILE, "-a", algorithm)
    try:
        found = session.ask(graph, algorithm, arguments, read_k_periodic).throughput
        return check_agreement(session.title, found, 1, ours), found.text
    except ToolError as error:
        longer = stretch_times(graph)
        if longer is None:
            raise
        try:
            found = session.ask(longer.graph, algorithm, arguments, read_k_periodic).throughput
            value = check_agreement(session.title, longer.bounds(found), 1, ours)
        except ToolError:
            raise error from None
    session.notes.append(
        f"Kiter failed on the times of 0: what it printed is for times multiplied by {longer.factor}, where those of 0 are 1"
    )
    return value, found.text


def _kiter_doubt(graph: CsdfGraph) -> str:
    """What Kiter is known to get wrong about such a graph, as the end of a sentence."""
    serial = {channel.source for channel in graph.channels if channel.is_serial}
    loose = tuple(actor.name for actor in graph.actors if actor.name not in serial)
    if loose:
        return f"; Kiter is not reliable where actors may overlap with themselves; {_listed(loose)} have no one-token self-loop"
    joined = {
        name
        for channel in graph.channels
        if not channel.is_serial
        for name in (channel.source, channel.target)
    }
    alone = tuple(actor.name for actor in graph.actors if actor.name not in joined)
    if alone:
        return f"; Kiter takes one firing for the iteration of an actor that has nothing but a self-loop, as {_listed(alone)}"
    return ""


# Storage distributions --------------------------------------------------------------------------


_SERIAL_SIZE = 2
"""What SDF3 counts for a one-token self-loop: its token, and the room claimed while it is held."""


def _distributions(
    points: list[Point], sizing: Sizing, graph: CsdfGraph, factor: int, unit: Unit
) -> list[StorageDistribution]:
    """The distributions that no other one dominates, smallest first.

    graph: what `sizing` was made from; factor: minimal iterations in one of SDF3. Raises ToolError
    for capacities that cannot be, or a throughput that they do not have.
    """
    bounds = lower_bounds(graph)
    weights = {
        channel.name: channel.token_bytes if unit == "bytes" else 1 for channel in graph.channels
    }
    outside = {channel.name: bounds[channel.name] for channel in sizing.outside}
    least = _size_of(bounds, weights)
    found = []
    for point in points:
        capacities = min(
            ({**_capacities(entry, sizing), **outside} for entry in point.distributions),
            key=lambda entry: _size_of(entry, weights),
        )
        value = check_agreement(
            "SDF3 buffersize", point.throughput, factor, throughput(graph, capacities)
        ).value
        found.append(StorageDistribution(capacities, _size_of(capacities, weights), value, least))
    found.sort(key=lambda distribution: (distribution.size, -distribution.throughput))
    front: list[StorageDistribution] = []
    for distribution in found:
        if not front or distribution.throughput > front[-1].throughput:
            front.append(distribution)
    return front


def _chosen(
    front: list[StorageDistribution], buffers: Buffers, target: Fraction | None, where: str
) -> tuple[StorageDistribution, ...]:
    """The distributions that are asked for, of all: the first with a throughput, if there is a
    target. Raises GraphError.
    """
    if target is not None:
        enough = [distribution for distribution in front if distribution.throughput >= target]
        if not enough:
            raise GraphError(
                f"throughput {target} is wanted; the highest that SDF3 lists is {front[-1].throughput}",
                where=where,
            )
        return (enough[0],)
    return {"live": tuple(front[:1]), "maximal": tuple(front[-1:])}.get(buffers, tuple(front))


def _capacities(found: Mapping[str, int], sizing: Sizing) -> dict[str, int]:
    """Channel -> tokens, by the names and in the order of the graph."""
    capacities = {}
    for channel, size in zip(sizing.graph.channels, found.values(), strict=True):
        tokens, rest = divmod(size, sizing.weights.get(channel.name, 1))
        if rest or (channel.is_serial and size != _SERIAL_SIZE):
            expected = (
                f"{_SERIAL_SIZE}"
                if channel.is_serial
                else f"a multiple of {sizing.weights[channel.name]}"
            )
            raise ToolError(
                f"gives channel '{channel.name}' a size of {size}; {expected} was expected",
                where="SDF3 buffersize",
            )
        if not channel.is_serial:
            capacities[channel.name] = tokens
    return capacities


def _size_of(capacities: Mapping[str, int], weights: Mapping[str, int]) -> int:
    return sum(tokens * weights[name] for name, tokens in capacities.items())


def _listed(names: Sequence[str]) -> str:
    """Some names, and how many more."""
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
