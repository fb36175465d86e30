"""How is an analysis told to people? A word in front of each answer; fractions with their decimals,
bounds with their gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from rich.table import Table
from rich.text import Text

from csdfgen.cli.terminal import console, counted, plain, table
from csdfgen.dataflow.graph import CsdfGraph
from schedules.analysis import Analysis
from schedules.liveness import Deadlock
from schedules.selftimed import MAX_FIRINGS
from schedules.storage import StorageDistribution, Unit
from schedules.throughput import CriticalLink, Throughput
from schedules.unlimited import why_unlimited

__all__ = [
    "LeftOut",
    "show_buffers",
    "show_latency",
    "show_structure",
    "show_throughput",
    "show_tool",
]

_SHOWN = 12
"""Most actors, waits or links that are printed of a list which JSON has whole."""

_POINTS = 8
"""Most distributions whose capacities are printed side by side."""

_TIME_UNIT = "a time unit is a multiply-accumulate, or an element where a layer has none"
"""Of graphs that were made from a network (`ops.base.Operator.cost`)."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What storage does not count: the number of serial self-loops, the room of overlap self-loops
    by name, that in bytes.
    """

    serial: int = 0
    overlap: Mapping[str, int] = field(default_factory=dict)
    overlap_bytes: int = 0


def _tell(word: str, *lines: str) -> None:
    """Lines behind a word, all at the same column."""
    out = console()
    for number, line in enumerate(lines):
        out.print(f"{'' if number else word:12}{line}", soft_wrap=True)


def _show(rows: Table) -> None:
    """A table with an empty line around it."""
    out = console()
    out.print()
    out.print(rows)
    out.print()


def show_tool(found: Analysis) -> None:
    """Who computed, if not the engine here, what it printed, and what must be known beside the
    numbers.
    """
    tool = found.tool
    if tool is None:
        return
    lines = [
        f"{tool.title} (version {plain(tool.version)}, {plain(tool.path)}) in {tool.seconds:,.3f} s, checked by the engine here"
    ]
    if tool.printed:
        per = "" if tool.k == 1 else f" per iteration of its own, {tool.k:,} of those below"
        lines.append(f"printed a throughput of {tool.printed}{per}")
    _tell("engine", *lines)
    for note in found.notes:
        _tell("note", plain(note))


# Consistency, components, liveness --------------------------------------------------------------


def show_structure(graph: CsdfGraph, found: Analysis, limited: bool) -> None:
    """Consistency, firings of an iteration, components, liveness; `limited`: by capacities that
    were given.
    """
    if found.repetition is None:
        _tell("consistent", f"no; {plain(found.inconsistency)}")
        return
    firings = found.repetition
    _tell(
        "consistent",
        f"yes; an iteration takes {counted(sum(firings.values()), 'firing')}, {_firings(firings)}",
    )
    if found.components:
        _tell("components", _components(found.components))
    _tell("deadlock", *_deadlock(found.deadlock, limited))
    if len(graph.actors) <= _SHOWN:
        actors = table("actor", "phases", "firings", "time", right=("phases", "firings", "time"))
        for actor in graph.actors:
            work = sum(actor.execution_times) * (firings[actor.name] // actor.phases)
            actors.add_row(
                plain(actor.name), f"{actor.phases:,}", f"{firings[actor.name]:,}", f"{work:,}"
            )
        _show(actors)


def _firings(firings: Mapping[str, int]) -> str:
    if not firings:
        return "it has no actor"
    least, most = min(firings.values()), max(firings.values())
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{each} by each of {counted(len(firings), 'actor')}"


def _components(components: Sequence[Sequence[str]]) -> str:
    largest = max(components, key=len)
    if len(components) == 1:
        return f"1, strongly connected: {_names(largest)}"
    joined = sum(len(names) > 1 for names in components)
    if not joined:
        return f"{len(components):,} strongly connected, each a single actor"
    return f"{len(components):,} strongly connected, {joined:,} of several actors; the largest: {_names(largest)}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(plain(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN:,} more"


def _deadlock(deadlock: Deadlock | None, limited: bool) -> list[str]:
    under = " within the capacities given" if limited else ""
    if deadlock is None:
        return [f"none{under}"]
    waits = [plain(str(wait)) for wait in deadlock.cycle[:_SHOWN]]
    more = len(deadlock.cycle) - len(waits)
    rest = (
        [f"and {counted(more, 'actor')} more, each waiting for the next (--json has all)"]
        if more
        else []
    )
    return [
        f"yes{under}, after {counted(deadlock.firings, 'firing')}; each waits for the next, the last for the first:",
        *waits,
        *rest,
    ]


# Throughput and latency -------------------------------------------------------------------------


def show_throughput(graph: CsdfGraph, found: Throughput, executed: bool) -> None:
    """Iterations per time unit, how it was found, what limits it; `executed`: whether self-timed
    execution was asked for.
    """
    if found.value == inf:
        reason, way_out = why_unlimited(graph)
        _tell("throughput", f"unlimited: {reason}; to limit it, {way_out}")
        return
    if not found.value and found.deadlock is not None:
        _tell("throughput", "0, it deadlocks")
        return
    kind = (
        "exact"
        if found.exact
        else f"a bound: not more than {_fraction(found.upper)} by any schedule"
    )
    lines = [f"{_fraction(found.value)} iterations per time unit ({kind}; {found.method})"]
    if found.value:
        lines.append(
            f"an iteration every {_time_units(1 / Fraction(found.value))}{_unit_of(graph)}"
        )
    if found.transient is not None and found.period is not None:
        lines.append(
            f"self-timed: transient of {counted(found.transient, 'time unit')}, then periods of {found.period:,}"
        )
    elif executed:
        lines.append(
            f"self-timed: given up after {MAX_FIRINGS:,} firings without a period of what limits it"
        )
    if found.critical:
        lines.append(f"limited by {_cycle(found.critical)}")
    _tell("throughput", *lines)
    if found.peaks:
        _held(graph, found.peaks, "most tokens held, self-timed for ever")


def show_latency(graph: CsdfGraph, latency: int, peaks: Mapping[str, int]) -> None:
    """Time of the first iteration and what its channels then held."""
    _tell(
        "latency",
        f"{counted(latency, 'time unit')} from the first start to the last end of one iteration{_unit_of(graph)}",
    )
    _held(graph, peaks, "most tokens held in this iteration")


def _unit_of(graph: CsdfGraph) -> str:
    return f" ({_TIME_UNIT})" if graph.origin is not None else ""


def _held(graph: CsdfGraph, peaks: Mapping[str, int], title: str) -> None:
    """High-water marks; a claim counts from the start of the firing that fills it."""
    rows = table("channel", "kind", "from", "to", title, "bytes", right=(title, "bytes"))
    for channel in graph.channels:
        if channel.name in peaks and not channel.is_serial:
            most = peaks[channel.name]
            ends = plain(channel.name), channel.kind, plain(channel.source), plain(channel.target)
            rows.add_row(*ends, f"{most:,}", f"{most * channel.token_bytes:,}")
    if rows.row_count:
        _show(rows)


def _cycle(links: Sequence[CriticalLink]) -> str:
    shown = [_link(link) for link in links[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(links) - _SHOWN:,} more" if len(links) > _SHOWN else "")


def _link(link: CriticalLink) -> str:
    if not link.channel:
        return f"{plain(link.source)} itself, whose firings follow each other"
    by = f"space in {plain(link.channel)}" if link.space else plain(link.channel)
    return f"{plain(link.source)} -> {plain(link.target)} ({by})"


def _fraction(value: Fraction | float) -> str:
    """A throughput as fraction and decimal."""
    if value == inf:
        return "infinity"
    exact = Fraction(value)
    return str(exact) if exact.denominator == 1 else f"{exact} = {float(exact):.9g}"


def _time_units(value: Fraction) -> str:
    """An exact time, with its decimal where it is a fraction.

    >>> _time_units(Fraction(1)), _time_units(Fraction(3, 2))
    ('1 time unit', '3/2 = 1.5 time units')
    """
    if value.denominator == 1:
        return counted(value.numerator, "time unit")
    return f"{value} = {float(value):,.9g} time units"


# Buffers ----------------------------------------------------------------------------------------


def show_buffers(
    graph: CsdfGraph,
    found: Sequence[StorageDistribution],
    fastest: Fraction | float,
    unit: Unit,
    left: LeftOut,
    limited: bool,
) -> None:
    """The distributions, smallest first, with what each channel gets, and what is not counted;
    `limited` as for the structure.

    fastest: the throughput that no storage exceeds, 0 if unknown.
    """
    if not found:
        _tell("buffers", "none: it deadlocks whatever the capacities are")
        return
    number, proven = ("tokens", "bytes", "of the fastest"), f"least in {unit}"
    sizes = table(
        "tokens", "bytes", "throughput", "decimal", "of the fastest", proven, right=number
    )
    for point in found:
        tokens, size = sum(point.capacities.values()), _bytes(graph, point)
        share = _share(point.throughput, fastest)
        sizes.add_row(
            f"{tokens:,}",
            f"{size:,}",
            str(point.throughput),
            _decimal(point.throughput),
            share,
            _proof(point),
        )
    apart = ", whatever capacities were given" if limited else ""
    _tell(
        "buffers",
        f"{counted(len(found), 'distribution')} of storage over the channels, smallest first{apart}",
    )
    _show(sizes)
    _capacities(graph, found)
    left_out = _not_counted(left)
    if left_out:
        _tell("not counted", *left_out)


def _share(value: Fraction | float, fastest: Fraction | float) -> str:
    return "" if fastest in (0, inf) else f"{float(Fraction(value) / Fraction(fastest)):.1%}"


def _bytes(graph: CsdfGraph, point: StorageDistribution) -> int:
    return sum(
        point.capacities[c.name] * c.token_bytes
        for c in graph.channels
        if c.name in point.capacities
    )


def _decimal(value: Fraction | float) -> str:
    return "" if value == inf else f"{float(value):.9g}"


def _proof(point: StorageDistribution) -> str:
    """Whether nothing smaller does, or how much smaller it could be."""
    if point.exact:
        return "yes"
    return (
        f"at least {point.least:,} are needed, {(point.size - point.least) / point.size:.1%} less"
        if point.size
        else "not proven"
    )


def _capacities(graph: CsdfGraph, found: Sequence[StorageDistribution]) -> None:
    """Tokens of every channel, at some of the distributions, which are told by their size."""
    chosen = found if len(found) <= _POINTS else [*found[: _POINTS - 1], found[-1]]
    rows = table("channel", "kind", "from", "to", "bytes a token", right=("bytes a token",))
    for point in chosen:
        rows.add_column(f"of {point.size:,}", justify="right")
    for channel in graph.channels:
        if channel.name in found[0].capacities:
            ends = plain(channel.name), channel.kind, plain(channel.source), plain(channel.target)
            rows.add_row(
                *ends,
                f"{channel.token_bytes:,}",
                *(f"{point.capacities[channel.name]:,}" for point in chosen),
            )
    console().print(rows)
    if len(found) > len(chosen):
        console().print(
            Text(
                f"and {counted(len(found) - len(chosen), 'distribution')} before the last (--json has all)",
                style="dim",
            )
        )
    console().print()


def _not_counted(left: LeftOut) -> list[str]:
    lines = []
    if left.serial:
        lines.append(
            f"{counted(left.serial, 'serial self-loop')} of one token, which keep actors from overlapping with themselves"
        )
    if left.overlap:
        room = (
            f"{counted(sum(left.overlap.values()), 'token')}, {counted(left.overlap_bytes, 'byte')}"
        )
        lines.append(
            f"{counted(len(left.overlap), 'overlap self-loop')} for what actors keep between phases: {room} in any of these "
            "distributions (--overlap counts them)"
        )
    return lines
