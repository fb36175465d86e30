"""In which order does one processor fire, within given capacities?

The order in which firings start in self-timed execution: run one after the other, every firing finds at least the tokens and the
space it found there, as all that had started before has ended (DESIGN section 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.errors import GraphError
from csdfgen.graph import CsdfGraph, repetition_vector
from schedules.liveness import check_live
from schedules.schedule import MAX_FIRINGS, Firing, Schedule
from schedules.selftimed import first_iteration

__all__ = ["static_schedule"]


def static_schedule(graph: CsdfGraph, capacities: Mapping[str, int] | None = None, iterations: int = 1) -> Schedule:
    """A firing order of a valid graph that needs no more than the capacities; channels without one get what the order needs.

    Raises InconsistentError, DeadlockError, GraphError for capacities that do not fit or an iteration too long to be listed.
    """
    check_live(graph, capacities)
    firings = repetition_vector(graph)
    total = sum(firings.values()) * iterations
    if total > MAX_FIRINGS:
        raise GraphError(f"{total} firings; at most {MAX_FIRINGS} are listed, use fewer phases", where=f"graph '{graph.name}'")
    fired = [0] * len(graph.actors)
    listed = []
    for number in first_iteration(graph, capacities, iterations).order:
        actor = graph.actors[number]
        listed.append(Firing(actor.name, fired[number] % actor.phases, fired[number] // firings[actor.name]))
        fired[number] += 1
    room = {**_needed(graph, listed), **(capacities or {})}
    return Schedule(graph.name, tuple(listed), MappingProxyType(room), iterations, "self-timed")


def _needed(graph: CsdfGraph, firings: list[Firing]) -> dict[str, int]:
    """Most tokens that every channel holds, claims included, if the firings follow each other."""
    held = {channel.name: channel.initial_tokens for channel in graph.channels}
    peak = dict(held)
    outputs = {actor.name: [c for c in graph.channels if c.source == actor.name] for actor in graph.actors}
    inputs = {actor.name: [c for c in graph.channels if c.target == actor.name] for actor in graph.actors}
    for firing in firings:
        for channel in outputs[firing.actor]:
            held[channel.name] += channel.production[firing.phase]
            peak[channel.name] = max(peak[channel.name], held[channel.name])
        for channel in inputs[firing.actor]:
            held[channel.name] -= channel.consumption[firing.phase]
    return peak
