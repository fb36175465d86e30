"""`csdfgen analyze` about dataflow: is a graph consistent and live, how fast, in which buffers?

An engine answers with an `Analysis`, which is printed here: a word in front of each answer, fractions
with their decimals, bounds with their gap. What it leaves None was not asked; everything is exact unless
it says that it is a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

from csdfgen.charts import (
    Timeline,
    critical_dot,
    gantt_chart,
    occupancy_chart,
    trace_periodic,
    trace_schedule,
    trace_self_timed,
)
from csdfgen.cli.analyze import Analyze, Part, Report, Section
from csdfgen.cli.graphs import graph_sizes, parse_capacities, read_graph_file, resolve_capacities
from csdfgen.cli.terminal import Progress, dim_text, escape, table
from csdfgen.dataflow.graph import Channel, CsdfGraph
from csdfgen.dataflow.transform import read_capacities, remove_channels
from csdfgen.errors import InconsistentError, InputError, prefix_errors
from csdfgen.files import check_writable, write_bytes
from csdfgen.model.units import pluralize
from schedules.analysis import Analysis, analyze, to_json
from schedules.liveness import Deadlock
from schedules.periodic import explain_unlimited, periodic_schedule
from schedules.selftimed import MAX_FIRINGS
from schedules.sizing import Unit, lower_bounds
from schedules.static import choose_point, static_schedule, write_storage_plan
from schedules.storage import StorageDistribution
from schedules.throughput import CriticalLink, Throughput, throughput
from sdf3_bridge.engines import TIMEOUT, analyze_kiter, analyze_sdf3

_SHOWN = 12
"""Most actors, waits or links that are printed of a list which JSON has whole."""

_POINTS = 8
"""Most distributions whose capacities are printed side by side."""

_TIME_UNIT = " (a time unit is a multiply-accumulate, or an element where a layer has none)"
"""Of graphs that were made from a network (`ops.base.Operator.cost`)."""


def remove_overlap(graph: CsdfGraph) -> tuple[CsdfGraph, tuple[Channel, ...]]:
    """A graph without its self-loops for rows that are kept between phases, and these."""
    overlap = tuple(channel for channel in graph.channels if channel.kind == "overlap")
    return remove_channels(graph, "overlap"), overlap


def answer_graph(command: Analyze, of_models: Sequence[str], progress: Progress) -> Report:
    """Answer what was asked about a graph file: its structure and throughput if nothing was. of_models: flags
    given that are for models. Raises CsdfgenError.
    """
    others = [f"--{name}" for name in ("device", "tokens") if getattr(command, name) is not None]
    progress("loading")
    file = parse_capacities(command.capacities).file
    graph = read_graph_file(command.model, [*of_models, *others], file)
    subject, left_out = remove_overlap(graph) if command.overlap is False else (graph, ())
    if not command.asked:
        command = replace(command, throughput=True)
    sections = graph_sections(command, subject, left_out, progress)
    return f"{escape(command.model)}: {graph_sizes(subject)}", sections, []


def graph_sections(
    command: Analyze, graph: CsdfGraph, left_out: tuple[Channel, ...], progress: Progress
) -> list[Section]:
    """The answers about a graph, a section a question. left_out: overlap self-loops that are not in it. Raises
    CsdfgenError, which names the model.
    """
    capacities = resolve_capacities(graph, parse_capacities(command.capacities))
    for path in (command.output, *command.pictures.values()):
        if path is not None:
            check_writable(path)
    with prefix_errors(command.model):
        found = ENGINES[command.engine or "auto"](graph, command, capacities, progress)
        unit = command.unit or "tokens"
        engine = "native" if command.engine in (None, "auto") else command.engine
        values: dict[str, Any] = {**to_json(found), "engine": engine}
        if capacities:
            values["given_capacities"] = dict(capacities)
        sections = [
            Section(values, [*_of_tool(found), *_of_structure(graph, found, bool(capacities))])
        ]
        speed, buffers = found.throughput, found.buffers
        if speed is not None:
            peaks = {} if speed.peaks is None else {"peaks_self_timed": dict(speed.peaks)}
            sections.append(
                Section(peaks, describe_throughput(graph, speed, command.method == "self-timed"))
            )
        if found.latency is not None:
            sections.append(Section({}, _of_latency(graph, found.latency, found.peaks or {})))
        if buffers is not None:
            serial = sum(channel.is_serial for channel in graph.channels)
            loops = lower_bounds(replace(graph, channels=left_out))
            told = {"unit": unit, "left_out": {"serial": serial, "overlap": dict(loops)}}
            sections.append(Section(told, _of_buffers(command, graph, buffers, bool(capacities))))
            sections.append(Section({}, _not_counted(serial, left_out, loops) if buffers else ()))
        if command.output is not None:
            sections.append(_written(command, graph, found, unit))
        if command.pictures:
            drawn = choose_point(buffers).capacities if buffers else capacities
            sections.append(_pictures(command, graph, drawn, unit, found.inconsistency))
        return sections


# Who answers ------------------------------------------------------------------------------------

Engine = Callable[[CsdfGraph, Analyze, Mapping[str, int], Progress], Analysis]
"""Answers the questions about a valid graph under some capacities."""


def _native(
    graph: CsdfGraph, asked: Analyze, capacities: Mapping[str, int], progress: Progress
) -> Analysis:
    """The engine in `schedules`."""
    progress("analysing")
    return analyze(
        graph,
        capacities,
        method=asked.method or "auto",
        with_throughput=asked.throughput,
        with_latency=asked.latency,
        buffers=asked.wanted,
        target=asked.target,
        unit=asked.unit or "tokens",
        seconds=10.0 if asked.seconds is None else asked.seconds,
        progress=progress,
    )


def _sdf3(
    graph: CsdfGraph, asked: Analyze, capacities: Mapping[str, int], progress: Progress
) -> Analysis:
    """SDF3, where it is installed."""
    if asked.latency:
        raise InputError(
            "--latency: SDF3 computes none for cyclo-static graphs; ask --engine native"
        )
    progress("asking SDF3")
    return analyze_sdf3(
        graph,
        capacities,
        with_throughput=asked.throughput,
        buffers=asked.wanted,
        target=asked.target,
        unit=asked.unit or "tokens",
        tool=asked.sdf3,
        timeout=asked.timeout or TIMEOUT,
    )


def _kiter(
    graph: CsdfGraph, asked: Analyze, capacities: Mapping[str, int], progress: Progress
) -> Analysis:
    """Kiter, where it is installed: for throughput."""
    for option, given in (("--latency", asked.latency), ("--buffers", asked.wanted != "none")):
        if given:
            raise InputError(f"{option}: Kiter is asked for throughput only; ask --engine native")
    progress("asking Kiter")
    found = analyze_kiter(graph, capacities, tool=asked.kiter, timeout=asked.timeout or TIMEOUT)
    return found if asked.throughput else replace(found, throughput=None)


ENGINES: dict[str, Engine] = {"auto": _native, "native": _native, "sdf3": _sdf3, "kiter": _kiter}
"""Name -> who answers."""


# Consistency, components, liveness --------------------------------------------------------------


def _told(word: str, *lines: str) -> Iterator[str]:
    """Lines behind a word, all at the same column."""
    for number, line in enumerate(lines):
        yield f"{'' if number else word:12}{line}"


def _of_tool(found: Analysis) -> Iterator[str]:
    """Who computed, if not the engine here, what it printed, and what must be known besides the
    numbers.
    """
    tool = found.tool
    if tool is None:
        return
    lines = [
        f"{tool.title} (version {escape(tool.version)}, {escape(tool.path)}) in {tool.seconds:,.3f} s, checked by the engine here"
    ]
    if tool.printed:
        per = "" if tool.k == 1 else f" per iteration of its own, {tool.k:,} of those below"
        lines.append(f"printed a throughput of {tool.printed}{per}")
    yield from _told("engine", *lines)
    for note in found.notes:
        yield from _told("note", escape(note))


def _of_structure(graph: CsdfGraph, found: Analysis, limited: bool) -> Iterator[Part]:
    """Consistency, firings of an iteration, components, liveness; `limited`: by capacities that
    were given.
    """
    firings = found.repetition
    if firings is None:
        yield from _told("consistent", f"no; {escape(found.inconsistency)}")
        return
    each = "it has no actor"
    if firings:
        least, most = min(firings.values()), max(firings.values())
        numbers = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        each = f"{numbers} by each of {pluralize(len(firings), 'actor')}"
    total = pluralize(sum(firings.values()), "firing")
    yield from _told("consistent", f"yes; an iteration takes {total}, {each}")
    if found.components:
        yield from _told("components", _components(found.components))
    yield from _told("deadlock", *_deadlock(found.deadlock, limited))
    if len(graph.actors) <= _SHOWN:
        rows = (
            (
                one.name, one.phases, firings[one.name],
                sum(one.execution_times) * (firings[one.name] // one.phases),
            )
            for one in graph.actors
        )  # fmt: skip
        yield from ("", table("actor", "> phases", "> firings", "> time", rows=rows), "")


def _components(components: Sequence[Sequence[str]]) -> str:
    names = max(components, key=len)
    largest = ", ".join(map(escape, names[:_SHOWN]))
    largest += f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    if len(components) == 1:
        return f"1, strongly connected: {largest}"
    joined = sum(len(names) > 1 for names in components)
    if not joined:
        return f"{len(components):,} strongly connected, each a single actor"
    return f"{len(components):,} strongly connected, {joined:,} of several actors; the largest: {largest}"


def _deadlock(deadlock: Deadlock | None, limited: bool) -> Iterator[str]:
    under = " within the capacities given" if limited else ""
    if deadlock is None:
        yield f"none{under}"
        return
    firings = pluralize(deadlock.firings, "firing")
    yield f"yes{under}, after {firings}; each waits for the next, the last for the first:"
    yield from (escape(wait) for wait in deadlock.cycle[:_SHOWN])
    more = len(deadlock.cycle) - _SHOWN
    if more > 0:
        yield f"and {pluralize(more, 'actor')} more, each waiting for the next (--json has all)"


# Throughput and latency -------------------------------------------------------------------------


def describe_throughput(graph: CsdfGraph, found: Throughput, executed: bool) -> Iterator[Part]:
    """Iterations per time unit, how it was found, what limits it; `executed`: whether self-timed
    execution was asked for.
    """
    if found.value == inf:
        reason, way_out = explain_unlimited(graph)
        yield from _told("throughput", f"unlimited: {reason}; to limit it, {way_out}")
        return
    if not found.value and found.deadlock is not None:
        yield from _told("throughput", "0, it deadlocks")
        return
    bound = f"a bound: not more than {_fraction(found.upper)} by any schedule"
    kind = "exact" if found.exact else bound
    lines = [f"{_fraction(found.value)} iterations per time unit ({kind}; {found.method})"]
    if found.value:
        each = 1 / Fraction(found.value)
        units = pluralize(each.numerator, "time unit")
        if each.denominator > 1:
            units = f"{each} = {float(each):,.9g} time units"
        lines.append(f"an iteration every {units}{_unit_of(graph)}")
    if found.transient is not None and found.period is not None:
        transient = pluralize(found.transient, "time unit")
        lines.append(f"self-timed: transient of {transient}, then periods of {found.period:,}")
    elif executed:
        lines.append(
            f"self-timed: given up after {MAX_FIRINGS:,} firings without a period of what limits it"
        )
    if found.critical:
        more = len(found.critical) - _SHOWN
        shown = ", ".join(map(_link, found.critical[:_SHOWN]))
        lines.append(f"limited by {shown}{f' and {more:,} more' if more > 0 else ''}")
    yield from _told("throughput", *lines)
    if found.peaks:
        yield from _held(graph, found.peaks, "most tokens held, self-timed for ever")


def _of_latency(graph: CsdfGraph, latency: int, peaks: Mapping[str, int]) -> Iterator[Part]:
    """Time of the first iteration and what its channels then held."""
    units = pluralize(latency, "time unit")
    said = f"{units} from the first start to the last end of one iteration{_unit_of(graph)}"
    yield from _told("latency", said)
    yield from _held(graph, peaks, "most tokens held in this iteration")


def _unit_of(graph: CsdfGraph) -> str:
    return _TIME_UNIT if graph.origin is not None else ""


def _ends(channel: Channel) -> tuple[str, str, str, str]:
    return channel.name, channel.kind, channel.source, channel.target


def _held(graph: CsdfGraph, peaks: Mapping[str, int], title: str) -> Iterator[Part]:
    """High-water marks; a claim counts from the start of the firing that fills it."""
    rows = [
        (*_ends(one), most := peaks[one.name], most * one.token_bytes)
        for one in graph.channels
        if one.name in peaks and not one.is_serial
    ]
    if rows:
        columns = ("channel", "kind", "from", "to", f"> {title}", "> bytes")
        yield from ("", table(*columns, rows=rows), "")


def _link(link: CriticalLink) -> str:
    if not link.channel:
        return f"{escape(link.source)} itself, whose firings follow each other"
    by = f"space in {escape(link.channel)}" if link.space else escape(link.channel)
    return f"{escape(link.source)} -> {escape(link.target)} ({by})"


def _fraction(value: Fraction | float) -> str:
    """A throughput as fraction and decimal.

    >>> _fraction(Fraction(1, 4)), _fraction(Fraction(3))
    ('1/4 = 0.25', '3')
    """
    if value == inf:
        return "infinity"
    exact = Fraction(value)
    return str(exact) if exact.denominator == 1 else f"{exact} = {float(exact):.9g}"


# Buffers ----------------------------------------------------------------------------------------


def _of_buffers(
    command: Analyze, graph: CsdfGraph, found: Sequence[StorageDistribution], limited: bool
) -> Iterator[Part]:
    """The distributions, smallest first, with what each channel gets; `limited` as for the structure."""
    if not found:
        yield from _told("buffers", "none: it deadlocks whatever the capacities are")
        return
    # a list of all ends with the highest throughput in any storage; a single one may be slower
    fastest = found[-1].throughput
    if command.storage == "live" or command.target is not None:
        highest = throughput(graph)
        fastest = highest.value if highest.exact else 0
    sizes = {channel.name: channel.token_bytes for channel in graph.channels}

    def row(point: StorageDistribution) -> tuple[str | int, ...]:
        speed, capacities = point.throughput, point.capacities
        known = fastest not in (0, inf)
        share = f"{float(Fraction(speed) / Fraction(fastest)):.1%}" if known else ""
        size = sum(tokens * sizes[name] for name, tokens in capacities.items() if name in sizes)
        decimal = "" if speed == inf else f"{float(speed):.9g}"
        return sum(capacities.values()), size, str(speed), decimal, share, _proof(point)

    apart = ", whatever capacities were given" if limited else ""
    many = pluralize(len(found), "distribution")
    yield from _told("buffers", f"{many} of storage over the channels, smallest first{apart}")
    columns = ("> tokens", "> bytes", "throughput", "decimal", "> of the fastest")
    proven = f"least in {command.unit or 'tokens'}"
    yield from ("", table(*columns, proven, rows=map(row, found)), "")
    chosen = found if len(found) <= _POINTS else [*found[: _POINTS - 1], found[-1]]
    rows = (
        (*_ends(one), one.token_bytes, *(point.capacities[one.name] for point in chosen))
        for one in graph.channels
        if one.name in found[0].capacities
    )
    of_each = (f"> of {point.size:,}" for point in chosen)
    yield table("channel", "kind", "from", "to", "> bytes a token", *of_each, rows=rows)
    more = len(found) - len(chosen)
    if more:
        yield dim_text(f"and {pluralize(more, 'distribution')} before the last (--json has all)")
    yield ""


def _proof(point: StorageDistribution) -> str:
    """Whether nothing smaller does, or how much smaller it could be."""
    if point.exact:
        return "yes"
    if not point.size:
        return "not proven"
    less = (point.size - point.least) / point.size
    return f"at least {point.least:,} are needed, {less:.1%} less"


def _not_counted(
    serial: int, left_out: Sequence[Channel], loops: Mapping[str, int]
) -> Iterator[str]:
    """Channels that storage does not count; an overlap self-loop takes as much in every distribution."""
    lines = []
    if serial:
        loop = pluralize(serial, "serial self-loop")
        lines.append(f"{loop} of one token, which keep actors from overlapping with themselves")
    if left_out:
        tokens = pluralize(sum(loops.values()), "token")
        size = pluralize(sum(loops[one.name] * one.token_bytes for one in left_out), "byte")
        lines.append(
            f"{pluralize(len(left_out), 'overlap self-loop')} for what actors keep between phases: {tokens}, {size} in any of "
            "these distributions (--overlap counts them)"
        )
    yield from _told("not counted", *lines)


def _written(command: Analyze, graph: CsdfGraph, found: Analysis, unit: Unit) -> Section:
    """Write the least of the distributions as a file that `csdfgen run --plan` takes."""
    if not found.consistent:
        raise InconsistentError(found.inconsistency)
    path, point = command.output, choose_point(found.buffers or ())
    assert path is not None
    firings = pluralize(len(write_storage_plan(path, graph, point).firings), "firing")
    size = pluralize(point.size, unit[:-1])
    said = f"\n{path}: {firings} in buffers of {size}, throughput {point.throughput}"
    return Section({"plan": str(path)}, [said])


# Pictures ---------------------------------------------------------------------------------------


def _pictures(
    command: Analyze,
    graph: CsdfGraph,
    capacities: Mapping[str, int],
    unit: Unit,
    inconsistency: str,
) -> Section:
    """Draw the graph as it executes in the storage that was looked for, the least of it, or in the
    capacities given; a line for each picture. Raises CsdfgenError.

    inconsistency: why the graph has no execution to show, in words, or "".
    """
    gantt, occupancy = command.gantt, command.occupancy
    charts = gantt is not None or occupancy is not None
    if charts and inconsistency:
        raise InconsistentError(f"{inconsistency}; it has no execution to be drawn")
    weight = {c.name: c.token_bytes if unit == "bytes" else 1 for c in graph.channels}
    room = {**read_capacities(graph), **capacities}
    total = pluralize(sum(room[name] * weight[name] for name in room), unit[:-1])
    within = f" within capacities of {total}" if room else ", channels unbounded"
    lines = []
    if command.dot is not None:
        text = critical_dot(graph, capacities, inconsistency)
        write_bytes(command.dot, text.encode("utf-8", "backslashreplace"))
        lines.append(f"{command.dot}: the graph{within}")
    if charts:
        timeline = _timeline(command.draw or "self-timed", graph, capacities)
        shown = f"{pluralize(timeline.firings, 'firing')}, {timeline.title}{within}"
        if gantt is not None:
            write_bytes(gantt, gantt_chart(timeline))
            lines.append(f"{gantt}: {shown}")
        if occupancy is not None:
            write_bytes(occupancy, occupancy_chart(timeline, unit))
            lines.append(f"{occupancy}: {unit} held, {shown}")
    files = {name: str(path) for name, path in command.pictures.items()}
    return Section({"pictures": files}, _told("pictures", *lines))


def _timeline(draw: str, graph: CsdfGraph, capacities: Mapping[str, int]) -> Timeline:
    if draw == "static":
        return trace_schedule(graph, static_schedule(graph, capacities))
    if draw == "periodic":
        return trace_periodic(graph, periodic_schedule(graph, capacities), capacities)
    return trace_self_timed(graph, capacities)
