"""Is a schedule right? Followed token by token, by code that shares nothing with what made it.

A firing claims output space and takes its input tokens when it starts, frees input space and
produces when it ends (docs/model.md), so a channel holds at most, for each firing of its source,
what it holds before and what is produced.
"""

from __future__ import annotations

from collections.abc import Mapping

from csdfgen.dataflow.graph import Channel, CsdfGraph, repetition_vector
from csdfgen.errors import CapacityExceededError, ScheduleError
from schedules.schedule import Firing, Schedule

__all__ = ["check"]


def check(graph: CsdfGraph, schedule: Schedule) -> None:
    """Refuse a schedule that a valid graph cannot follow.

    Every actor fires its phases in order and as often as the iterations ask; no firing takes a
    token that is not there; no channel ever holds more than its capacity; at the end every channel
    is as it was.
    Raises CapacityExceededError, or ScheduleError: the firing, the channel, both counts.
    InconsistentError.
    """
    repetition = repetition_vector(graph)
    _check_capacities(graph, schedule.capacities)
    inputs: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
    outputs: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
    for channel in graph.channels:
        outputs[channel.source].append(channel)
        inputs[channel.target].append(channel)
    phases = graph.phases
    held = {channel.name: channel.initial_tokens for channel in graph.channels}
    fired = dict.fromkeys(repetition, 0)
    for number, firing in enumerate(schedule.firings, start=1):
        try:
            _check_turn(firing, phases, fired, repetition)
            _start(firing, inputs[firing.actor], outputs[firing.actor], held, schedule.capacities)
        except ScheduleError as error:
            raise error.at(f"firing {number} ('{firing.actor}' phase {firing.phase + 1})") from None
        for channel in inputs[firing.actor]:
            held[channel.name] -= channel.consumption[firing.phase]
        for channel in outputs[firing.actor]:
            held[channel.name] += channel.production[firing.phase]
        fired[firing.actor] += 1
    for actor, count in fired.items():
        wanted = repetition[actor] * schedule.iterations
        if count != wanted:
            raise ScheduleError(
                f"fires {count} times, not {wanted} in all; iterations: {schedule.iterations}",
                where=f"actor '{actor}'",
            )
    for channel in graph.channels:
        if held[channel.name] != channel.initial_tokens:
            counts = (
                f"{held[channel.name]} tokens at the end, {channel.initial_tokens} at the beginning"
            )
            raise ScheduleError(counts, where=f"channel '{channel.name}'")


def _check_capacities(graph: CsdfGraph, capacities: Mapping[str, int]) -> None:
    """Every channel has a capacity that holds its initial tokens; there are no others."""
    for channel in graph.channels:
        where = f"channel '{channel.name}'"
        if channel.name not in capacities:
            raise ScheduleError("has no capacity", where=where)
        if capacities[channel.name] < channel.initial_tokens:
            counts = f"{channel.initial_tokens} initial tokens, but the capacity is {capacities[channel.name]}"
            raise CapacityExceededError(counts, where=where)
    unknown = set(capacities) - {channel.name for channel in graph.channels}
    if unknown:
        raise ScheduleError(
            f"has no channel '{min(unknown)}', which the schedule gives a capacity",
            where=f"graph '{graph.name}'",
        )


def _check_turn(
    firing: Firing,
    phases: Mapping[str, int],
    fired: Mapping[str, int],
    repetition: Mapping[str, int],
) -> None:
    """The firing is the next one of its actor."""
    if firing.actor not in fired:
        raise ScheduleError("the graph has no such actor")
    count = fired[firing.actor]
    due = count % phases[firing.actor]
    if firing.phase != due:
        raise ScheduleError(f"out of turn; phase {due + 1} of {phases[firing.actor]} is next")
    if firing.iteration != count // repetition[firing.actor]:
        raise ScheduleError(
            f"is of iteration {firing.iteration + 1}; {count // repetition[firing.actor] + 1} is under way"
        )


def _start(
    firing: Firing,
    inputs: list[Channel],
    outputs: list[Channel],
    held: Mapping[str, int],
    capacities: Mapping[str, int],
) -> None:
    """The firing finds its tokens, and room for what it will produce."""
    for channel in inputs:
        there, needed = held[channel.name], channel.consumption[firing.phase]
        if there < needed:
            raise ScheduleError(
                f"channel '{channel.name}' holds {there} of the {needed} tokens it takes"
            )
    for channel in outputs:
        claimed, capacity = (
            held[channel.name] + channel.production[firing.phase],
            capacities[channel.name],
        )
        if claimed > capacity:
            raise CapacityExceededError(
                f"channel '{channel.name}' would hold {claimed} tokens; its capacity is {capacity}"
            )
