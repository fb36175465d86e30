"""When does each firing start if iterations follow each other at one period?

A periodic schedule has one event per firing of an iteration and reaches the throughput of self-timed execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import ScheduleError
from schedules.cycle_ratio import (
    constraint_values,
    improve_policy,
    maximum_cycle_ratio,
    policy_values,
)
from schedules.links import Component, components, execution_times, make_links
from schedules.liveness import check_live
from schedules.precedence import ORDER, Expansion, Part, Precedence, assemble, chain

Array = Any

TIE = -2


@dataclass(frozen=True, slots=True)
class PeriodicSchedule:
    """Firing n of iteration k of an actor starts at starts[actor][n] + k * period, for all k."""

    graph_name: str
    period: Fraction
    starts: Mapping[str, tuple[Fraction, ...]]


def periodic_schedule(
    graph: CsdfGraph, capacities: Mapping[str, int] | None = None
) -> PeriodicSchedule:
    """The fastest periodic schedule of a valid graph within the capacities, with every firing as early as possible.

    Raises InconsistentError, DeadlockError, GraphError for capacities that do not fit, and
    ScheduleError if nothing limits the throughput, so that there is no shortest period.
    """
    times, quota = execution_times(graph)
    links = make_links(graph, capacities)
    check_live(graph, capacities)
    expansion = Expansion(times, quota)
    ratios = [
        maximum_cycle_ratio(expansion.precedence(part)).ratio
        for part in components(len(quota), links)
    ]
    period = max(ratios, default=Fraction(0))
    if not period:
        reason, way_out = explain_unlimited(graph)
        raise ScheduleError(
            f"nothing limits its throughput, {reason}; {way_out}", where=f"graph '{graph.name}'"
        )
    system = expansion.precedence(Component(tuple(range(len(quota))), tuple(links)))
    instants = earliest_starts(system, period)
    starts = {}
    for actor, first in system.first.items():
        values = instants[first : first + quota[actor]].tolist()
        starts[graph.actors[actor].name] = tuple(
            Fraction(value, period.denominator) for value in values
        )
    return PeriodicSchedule(graph.name, period, starts)


def explain_unlimited(graph: CsdfGraph) -> tuple[str, str]:
    """The reason why no cycle of a graph takes time, and the way out, as parts of a sentence.

    A serial self-loop of an actor that takes time is such a cycle, so that no actor that takes time has one.

    >>> from csdfgen.dataflow.graph import Actor
    >>> explain_unlimited(CsdfGraph("g", (Actor("A", (0, 0)),), ()))
    ('no actor takes any time', 'give its actors execution times')
    >>> explain_unlimited(CsdfGraph("g", (Actor("A", (0, 2)),), ()))
    ('no cycle of actors takes time', 'give its actors serial self-loops')
    """
    if not any(any(actor.execution_times) for actor in graph.actors):
        return "no actor takes any time", "give its actors execution times"
    return "no cycle of actors takes time", "give its actors serial self-loops"


def earliest_starts(system: Precedence, period: Fraction) -> Array:
    """The least instants of all events from 0 on, times `period.denominator`, that repeat with a period that the
    system allows.
    """
    return _earliest(_rooted(system), period)


def _rooted(system: Precedence) -> Precedence:
    """The system with an event before all others, which has the largest number."""
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
    """The least instants, times `period.denominator`, that satisfy all constraints of a rooted system with this period.

    Policy iteration computes the longest paths from the root. The path to an event follows its sequence at first, and
    then the constraint that requires the latest instant. No cycle is longer than the period, so that the paths remain a
    tree.
    """
    values = constraint_values(system, period)
    starts = np.searchsorted(system.head, np.arange(system.size))
    policy = system.order.copy()
    tied = np.flatnonzero(system.link == TIE)
    policy[system.head[tied]] = tied
    root = system.size - 1
    while True:
        instants = policy_values(system, policy, root, values)
        if not improve_policy(system, policy, instants, values, starts, root):
            return instants
