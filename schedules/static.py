"""In which order does one processor fire, within given capacities?

Policy `self-timed` is the order in which firings start in self-timed execution. Executed one after another, every
firing has at least the tokens and the space that it had there, as all firings that started before have ended
(docs/model.md). The policies of `demand` choose the next firing among those that have tokens and space. No actor takes
tokens or space of another, so that all policies complete if one does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.dataflow.transform import add_space_channels
from csdfgen.errors import GraphError
from schedules.demand import POLICIES as GREEDY
from schedules.demand import expand_firings, firing_order
from schedules.liveness import check_live
from schedules.schedule import MAX_FIRINGS, Firing, Schedule, write_schedule
from schedules.selftimed import execute_iterations
from schedules.storage import StorageDistribution

POLICIES = (*GREEDY, "self-timed")
"""Rules that choose the next one of the firings that have tokens and space."""


def static_schedule(
    graph: CsdfGraph,
    capacities: Mapping[str, int] | None = None,
    iterations: int = 1,
    policy: str = "self-timed",
) -> Schedule:
    """A firing order of a valid graph within the capacities; the schedule has the capacities that the order needs for
    other channels.

    policy: one of POLICIES. Raises InconsistentError, DeadlockError, GraphError for capacities that
    do not fit or an iteration too long to be listed.
    """
    if policy not in POLICIES:
        raise GraphError(f"policy '{policy}' is not one of {', '.join(POLICIES)}")
    check_live(graph, capacities)
    firings = repetition_vector(graph)
    total = sum(firings.values()) * iterations
    if total > MAX_FIRINGS:
        raise GraphError(
            f"{total} firings; at most {MAX_FIRINGS} are listed, use fewer phases",
            where=f"graph '{graph.name}'",
        )
    order = _order(graph, capacities or {}, iterations, policy)
    listed = expand_firings(graph, order, list(firings.values()))
    needed = {**_needed(graph, listed), **(capacities or {})}
    return Schedule.of(graph, listed, needed, iterations, policy)


def _order(
    graph: CsdfGraph, capacities: Mapping[str, int], iterations: int, policy: str
) -> Iterator[int]:
    """The numbers of the actors in the order in which they fire."""
    if policy == "self-timed":
        return iter(execute_iterations(graph, capacities, iterations).order)
    order = firing_order(add_space_channels(graph, capacities), policy, iterations)
    return (actor for actor, _ in order)


def schedule_distribution(
    graph: CsdfGraph, distribution: StorageDistribution, policy: str = "demand"
) -> Schedule:
    """A firing order of one iteration within the capacities of a storage distribution, with its throughput.

    The default fires as late as readers allow, so that buffers hold as little as possible; `self-timed` is the order of
    an execution on several processors. Channels that the distribution does not list (serial self-loops) get the
    capacities that the order needs. Raises the errors of `static_schedule`: DeadlockError if the capacities do not
    suffice.
    """
    return replace(
        static_schedule(graph, distribution.capacities, policy=policy),
        throughput=distribution.throughput,
    )


def choose_point(
    points: Sequence[StorageDistribution], at_least: Fraction | None = None
) -> StorageDistribution:
    """The point of a front that is written: the one of least storage with a throughput of `at_least`, if that is given.

    Raises GraphError with both throughputs if there is none.
    """
    if not points:
        raise GraphError(
            "no capacities are known with which it does not deadlock, so that there is no schedule to write"
        )
    enough = [point for point in points if at_least is None or point.throughput >= at_least]
    if not enough:
        best = max(point.throughput for point in points)
        raise GraphError(
            f"throughput {at_least} is wanted; the highest of {len(points)} storage distributions is {best}"
        )
    return min(enough, key=lambda point: point.size)


def write_storage_plan(
    path: str | os.PathLike[str], graph: CsdfGraph, distribution: StorageDistribution
) -> Schedule:
    """Write capacities and a firing order within them, as a file for `csdfgen run --plan`, and return the schedule.

    The file can be run if the graph names the network that it was made from (`graph.origin`). Raises InputError, and
    the errors of `schedule_distribution`.
    """
    schedule = schedule_distribution(graph, distribution)
    write_schedule(path, schedule)
    return schedule


def _needed(graph: CsdfGraph, firings: list[Firing]) -> dict[str, int]:
    """Most tokens that every channel holds, claims included, if the firings are executed one after another."""
    held = {channel.name: channel.initial_tokens for channel in graph.channels}
    peak = dict(held)
    outputs = {
        actor.name: [c for c in graph.channels if c.source == actor.name] for actor in graph.actors
    }
    inputs = {
        actor.name: [c for c in graph.channels if c.target == actor.name] for actor in graph.actors
    }
    for firing in firings:
        for channel in outputs[firing.actor]:
            held[channel.name] += channel.production[firing.phase]
            peak[channel.name] = max(peak[channel.name], held[channel.name])
        for channel in inputs[firing.actor]:
            held[channel.name] -= channel.consumption[firing.phase]
    return peak
