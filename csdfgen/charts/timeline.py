"""When does every firing start? Executions of three kinds in one form, to be drawn or replayed.

Self-timed: every firing starts as soon as it can (docs/model.md); the periodic part is known where
all actors wait for each other, directly or not. Single processor: one firing after the other.
Periodic: given start times, repeated for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.dataflow.transform import read_capacities
from csdfgen.errors import GraphError
from schedules.links import Link, components, make_links
from schedules.liveness import find_deadlock
from schedules.periodic import PeriodicSchedule
from schedules.schedule import Schedule
from schedules.selftimed import Timing, execute_iterations, steady_state

Time = int | Fraction

MAX_FIRINGS = 200_000
"""Firings that one picture shows."""

_SELF_TIMED = "self-timed execution"

_SEARCHED = 300_000
"""Firings that are executed to find the periodic part."""


@dataclass(frozen=True, slots=True)
class Span:
    """The part that repeats: from `start` on everything comes again every `length` time units,
    which make `iterations`.
    """

    start: Time
    length: Time
    iterations: Fraction


@dataclass(frozen=True, slots=True)
class Timeline:
    """Firings with their start times, from time 0 to `end`.

    starts[actor number][n]: start of the actor's n-th firing, which runs phase n modulo its phases.
    A firing takes the execution time of its phase, or `pace` if that is not 0 (an order without
    times). capacities: channel -> tokens, of those that have one, given or as a space channel of
    the graph. periodic: None where nothing is known to repeat. notes: what a reader of the picture
    must know.
    """

    graph: CsdfGraph
    title: str
    starts: tuple[tuple[Time, ...], ...]
    end: Time
    capacities: Mapping[str, int]
    periodic: Span | None = None
    notes: tuple[str, ...] = ()
    pace: int = 0

    @property
    def firings(self) -> int:
        return sum(map(len, self.starts))

    @property
    def axis(self) -> str:
        """What the time axis of a picture counts."""
        return "firings in their order" if self.pace else "time, in the graph's time units"

    def durations(self, actor: int) -> tuple[int, ...]:
        """Time of every phase of an actor."""
        times = self.graph.actors[actor].execution_times
        return (self.pace,) * len(times) if self.pace else times


def trace_self_timed(
    graph: CsdfGraph,
    capacities: Mapping[str, int] | None = None,
    iterations: int | None = None,
    limit: int = MAX_FIRINGS,
) -> Timeline:
    """A self-timed execution within the capacities: so many iterations, or without a number up to
    the end of the second period, as far as `limit` firings reach. A graph that deadlocks is shown
    until it is stuck.

    Raises InconsistentError, GraphError for capacities that do not fit or an iteration longer than
    the limit.
    """
    given, room = dict(capacities or {}), _room(graph, capacities)
    firings = repetition_vector(graph)
    total = max(1, sum(firings.values()))
    if total * (iterations or 1) > limit:
        counts = f"{total * (iterations or 1)} firings are to be drawn; at most {limit} are, use fewer phases"
        raise GraphError(counts, where=f"graph '{graph.name}'")
    deadlock = find_deadlock(graph, given)
    if deadlock is not None:
        timing = execute_iterations(graph, given)
        return _executed(graph, timing, room, None, (str(deadlock),))
    span, note = _periodic_part(graph, make_links(graph, given), firings)
    if iterations is not None or span is None:
        count = iterations or min(3, limit // total)
        timing = execute_iterations(graph, given, count)
        shown = f"the first {count} iterations are shown" if count > 1 else "one iteration is shown"
        return _executed(graph, timing, room, span, (*note, shown))
    return _with_two_periods(graph, given, span, limit // total)


def _executed(
    graph: CsdfGraph,
    timing: Timing,
    room: Mapping[str, int],
    span: Span | None,
    notes: tuple[str, ...],
) -> Timeline:
    """All firings of a self-timed execution."""
    return Timeline(graph, _SELF_TIMED, timing.starts, timing.makespan, room, span, notes)


def _room(graph: CsdfGraph, capacities: Mapping[str, int] | None) -> dict[str, int]:
    """Capacities that were given or are in the graph; the smaller one where there are both."""
    found = read_capacities(graph)
    for name, tokens in (capacities or {}).items():
        found[name] = min(tokens, found.get(name, tokens))
    return found


def _periodic_part(
    graph: CsdfGraph, links: Sequence[Link], firings: Mapping[str, int]
) -> tuple[Span | None, tuple[str, ...]]:
    """The part that repeats, or why there is none to show."""
    quota = [firings[actor.name] for actor in graph.actors]
    times = [actor.execution_times for actor in graph.actors]
    parts = components(len(quota), links)
    if not parts:
        return None, ("nothing limits the throughput, so that there is no periodic part",)
    if len(parts) > 1 or len(parts[0].actors) < len(quota):
        several = "not all actors wait for each other (give the channels capacities): each part has its own pace"
        return None, (several,)
    if not any(any(row) for row in times):  # firings at one instant would never end
        return None, ("no firing takes time",)
    found = steady_state(times, quota, parts[0], _SEARCHED)
    if found is None:
        return None, (f"{_SEARCHED:,} firings do not reach the periodic part",)
    return Span(found.transient, found.period, found.iterations), ()


def _with_two_periods(
    graph: CsdfGraph, given: Mapping[str, int], span: Span, most: int
) -> Timeline:
    """Enough iterations for every actor to be shown until the end of the second period."""
    pace = Fraction(span.length) / span.iterations
    end = span.start + 2 * span.length
    count = ceil(end / pace) + 1
    while count <= most:
        timing = execute_iterations(graph, given, count)
        missing = end - min(starts[-1] for starts in timing.starts)
        if missing <= 0:
            cut = tuple(tuple(start for start in starts if start < end) for starts in timing.starts)
            return Timeline(graph, _SELF_TIMED, cut, end, _room(graph, given), span)
        count += ceil(missing / pace) + 1
    timing = execute_iterations(graph, given, most)
    note = f"iterations shown: the first {most:,}; two periods would take {count:,}"
    return _executed(graph, timing, _room(graph, given), span, (note,))


def trace_schedule(graph: CsdfGraph, schedule: Schedule) -> Timeline:
    """The firings of a single-processor schedule one after the other, each for its execution time;
    one time unit each if the graph gives no times."""
    index = {actor.name: number for number, actor in enumerate(graph.actors)}
    times = [actor.execution_times for actor in graph.actors]
    pace = 0 if any(any(row) for row in times) else 1
    starts: list[list[int]] = [[] for _ in times]
    now = 0
    for firing in schedule.firings:
        actor = index[firing.actor]
        starts[actor].append(now)
        now += pace or times[actor][firing.phase]
    title = f"one processor, order '{schedule.policy}'" if schedule.policy else "one processor"
    note = f"{schedule.iterations} iterations in" if schedule.iterations > 1 else "one iteration in"
    unit, remark = ("firing", "; the graph gives no execution times") if pace else ("time unit", "")
    lasts = f"{now:,} {unit if now == 1 else unit + 's'}{remark}"
    room, begun = _room(graph, schedule.capacities), tuple(map(tuple, starts))
    return Timeline(graph, title, begun, now, room, None, (f"{note} {lasts}",), pace)


def trace_periodic(
    graph: CsdfGraph,
    schedule: PeriodicSchedule,
    capacities: Mapping[str, int] | None = None,
    limit: int = MAX_FIRINGS,
) -> Timeline:
    """A periodic schedule, from its first start to the end of the second period with all overlapping iterations drawn.

    Raises GraphError if that takes more firings than the limit.
    """
    period = schedule.period
    offsets = [schedule.starts[actor.name] for actor in graph.actors]
    lasting = [actor.execution_times for actor in graph.actors]
    # what an iteration before the first would still do, had there been one, is over then
    ends = (
        start + times[n % len(times)]
        for row, times in zip(offsets, lasting, strict=True)
        for n, start in enumerate(row)
    )
    settled = max(Fraction(0), max(ends) - period)
    end = settled + 2 * period
    iterations = ceil(end / period)
    total = sum(map(len, offsets)) * iterations
    if total > limit:
        fault = f"two periods take {total} firings; at most {limit} are drawn"
        raise GraphError(fault, where=f"graph '{graph.name}'")
    starts = ((start + k * period for k in range(iterations) for start in row) for row in offsets)
    shown = tuple(tuple(start for start in row if start < end) for row in starts)
    span = Span(settled, period, Fraction(1))
    return Timeline(graph, "periodic schedule", shown, end, _room(graph, capacities), span)
