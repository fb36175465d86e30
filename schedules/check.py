"""Is a schedule correct? The check executes it token by token and shares no code with the schedulers.

A firing claims output space and takes its input tokens when it starts, frees input space and produces when it ends
(docs/model.md). So the most tokens of a channel, for each firing of its source, are those before the firing and those
that it produces.
"""

from __future__ import annotations

from collections.abc import Mapping

from csdfgen.dataflow.graph import Channel, CsdfGraph, repetition_vector
from csdfgen.errors import CapacityExceededError, ScheduleError
from schedules.schedule import Firing, Schedule


def check(graph: CsdfGraph, schedule: Schedule) -> None:
    """Refuse a schedule that a valid graph cannot execute.

    Every actor must fire its phases in order and as often as the iterations require, every firing must have its tokens,
    no channel may exceed its capacity, and at the end every channel must hold as many tokens as at the beginning.
    Raises InconsistentError, and CapacityExceededError or ScheduleError with the firing, the channel and both counts.
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
    """Check that every channel has a capacity for its initial tokens, and that there are no other capacities."""
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
    """Check that a firing is the next one of its actor."""
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
    """Check that a firing has its tokens, and space for those that it produces."""
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
