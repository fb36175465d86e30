"""How fast is a graph at least if every phase keeps one period, and when does each firing start then?

1-periodic: the n-th firing of a phase starts at s + n * period of its actor (Benazouz et al., "A new method for
minimizing buffer sizes for cyclo-static dataflow graphs", 2010; Bodin et al. 2013). A system with one event per phase
instead of one per firing; a lower bound of the throughput. A periodic schedule with one event per firing loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import Any

import numpy as np

from csdfgen.errors import ScheduleError
from csdfgen.graph import CsdfGraph, repetition_vector
from schedules.bounded import Component, Link, components, links_of
from schedules.cycle_ratio import NoPeriodError, constraint_values, maximum_cycle_ratio, policy_values
from schedules.liveness import check_live
from schedules.precedence import ORDER, Expansion, Part, Precedence, assemble, chain, is_serial_link

__all__ = ["PeriodicSchedule", "earliest_starts", "one_periodic_time", "periodic_schedule"]

Array = Any

TIE = -2
_MAX_PAIRS = 20_000_000
"""Pairs of phases that are looked at for one link."""


@dataclass(frozen=True, slots=True)
class PeriodicSchedule:
    """Firing n of iteration k of an actor starts at starts[actor][n] + k * period, for ever."""

    graph_name: str
    period: Fraction
    starts: Mapping[str, tuple[Fraction, ...]]


def periodic_schedule(graph: CsdfGraph, capacities: Mapping[str, int] | None = None) -> PeriodicSchedule:
    """The fastest periodic schedule of a valid graph that respects the capacities, every firing as early as that allows.

    Raises InconsistentError, DeadlockError, GraphError for capacities that do not fit, ScheduleError if
    nothing limits the throughput, so that there is no shortest period.
    """
    firings = repetition_vector(graph)
    quota = [firings[actor.name] for actor in graph.actors]
    times = [actor.execution_times for actor in graph.actors]
    links = links_of(graph, capacities)
    check_live(graph, capacities)
    expansion = Expansion(times, quota)
    ratios = [maximum_cycle_ratio(expansion.precedence(part)).ratio for part in components(len(quota), links)]
    period = max(ratios, default=Fraction(0))
    if not period:
        raise ScheduleError("nothing limits its throughput; give its actors serial self-loops", where=f"graph '{graph.name}'")
    system = expansion.precedence(Component(tuple(range(len(quota))), tuple(links)))
    instants = earliest_starts(system, period)
    starts = {}
    for actor, first in system.first.items():
        values = instants[first : first + quota[actor]].tolist()
        starts[graph.actors[actor].name] = tuple(Fraction(value, period.denominator) for value in values)
    return PeriodicSchedule(graph.name, period, starts)


def earliest_starts(system: Precedence, period: Fraction) -> Array:
    """The least instants of all events from 0 on, times `period.denominator`, that repeat with a period the system allows."""
    return _earliest(_rooted(system), period)


def _rooted(system: Precedence) -> Precedence:
    """The system with an event before all others, the last in number."""
    lines = int(system.line[-1]) + 1
    heads = np.searchsorted(system.line, np.arange(lines))
    root, zero = np.full(lines, system.size), np.zeros(lines, dtype=system.weight.dtype)
    parts = [
        Part(system.tail, system.head, system.weight, system.delay, system.link),
        Part(root, heads, zero, np.zeros(lines, np.int64), TIE),
        chain(system.size, zero[:1], ORDER),
    ]
    return assemble(parts, np.append(system.line, lines), system.first)


def _earliest(system: Precedence, period: Fraction) -> Array:
    """The least instants, times `period.denominator`, that keep all constraints of a rooted system with this period.

    Longest ways from the root by policy iteration: every event is reached by its sequence first, and then by whatever
    constraint asks for more; no cycle is longer than the period, so that the ways stay a tree.
    """
    values = constraint_values(system, period)
    starts = np.searchsorted(system.head, np.arange(system.size))
    policy = system.order.copy()
    tied = np.flatnonzero(system.link == TIE)
    policy[system.head[tied]] = tied
    root = system.size - 1
    while True:
        instants = policy_values(system, policy, root, values)
        candidates = instants[system.tail] + values
        largest = np.maximum.reduceat(candidates, starts)
        better = largest > instants
        better[root] = False
        if not better.any():
            return instants
        chosen = np.flatnonzero((candidates == largest[system.head]) & better[system.head])
        policy[system.head[chosen]] = chosen


def one_periodic_time(times: Sequence[Sequence[int]], quota: Sequence[int], component: Component) -> Fraction | None:
    """Least time per iteration of a component's 1-periodic schedules, None if it has none (or too many pairs of phases)."""
    rounds = {actor: quota[actor] // len(times[actor]) for actor in component.actors}
    totals = {link: sum(link.production) * rounds[link.source] for link in component.links}
    scale = lcm(*totals.values(), *rounds.values())
    serial = {link.target for link in component.links if is_serial_link(link)}
    first: dict[int, int] = {}
    lengths: list[int] = []
    parts: list[Part] = []
    size = 0
    for actor in component.actors:
        first[actor] = size
        own = _column(times[actor]) if actor in serial else np.zeros(len(times[actor]), dtype=object)
        step = chain(size, own, ORDER)
        parts.append(step._replace(delay=step.delay.astype(object) * (scale // rounds[actor])))
        lengths.append(len(own))
        size += len(own)
    for number, link in enumerate(component.links):
        if is_serial_link(link):
            continue
        pairs = _pairs(link)
        if pairs is None:
            return None
        source, target, lead = pairs
        delay = -lead.astype(object) * (scale // totals[link])
        parts.append(
            Part(first[link.source] + source, first[link.target] + target, _column(times[link.source])[source], delay, number)
        )
    system = assemble(parts, np.repeat(np.arange(len(lengths)), lengths), first)
    try:
        return maximum_cycle_ratio(system).ratio * scale
    except NoPeriodError:
        return None


def _column(values: Sequence[int]) -> Array:
    return np.array(values, dtype=object)


def _pairs(link: Link) -> tuple[Array, Array, Array] | None:
    """Phases of source and target that some firings of theirs connect, and the largest lead of the source in tokens.

    The target's phase then never starts before the source's phase, so many tokens of steady flow later, has ended. All
    pairs in which the source produces count, not only neighbours: what is produced arrives in the order of firings.
    """
    produced = np.array([0, *accumulate(link.production)], dtype=object)
    consumed = np.array([0, *accumulate(link.consumption)], dtype=object)
    sources = np.flatnonzero(np.diff(produced))
    targets = np.flatnonzero(np.diff(consumed))
    if len(sources) * len(targets) > _MAX_PAIRS:
        return None
    step = gcd(int(produced[-1]), int(consumed[-1]))
    lead = (consumed[targets + 1][None, :] - link.tokens - produced[sources][:, None] - 1) // step * step
    source, target = np.indices(lead.shape).reshape(2, -1)
    return sources[source], targets[target], lead.ravel()
