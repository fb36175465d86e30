"""Can a graph run in buffers of the largest rate of each channel? No: `find_full_channels` returns where it stops.

Firing an actor never disables another one (each channel has one source and one target), so that the
order does not matter: if an execution that fires whatever can fire stops before the iteration is
complete, every order does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from csdfgen.dataflow.graph import Channel, CsdfGraph, repetition_vector


@dataclass(frozen=True, slots=True)
class Full:
    """A channel that cannot hold what its source would produce next."""

    channel: str
    held: int
    produced: int
    capacity: int


def largest_rates(graph: CsdfGraph) -> dict[str, int]:
    """Channel name -> its largest single production or consumption: how Table III sizes a buffer."""
    return {
        channel.name: max(*channel.production, *channel.consumption) for channel in graph.channels
    }


def find_full_channels(graph: CsdfGraph, capacities: Mapping[str, int]) -> tuple[Full, ...]:
    """The full channels on which one iteration of a consistent graph stops; empty if it completes."""
    inputs: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
    outputs: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
    for channel in graph.channels:
        outputs[channel.source].append(channel)
        inputs[channel.target].append(channel)
    held = {channel.name: channel.initial_tokens for channel in graph.channels}
    left = repetition_vector(graph)
    phases, fired = graph.phases, dict.fromkeys(left, 0)

    def fits(channel: Channel) -> bool:
        phase = fired[channel.source] % phases[channel.source]
        return held[channel.name] + channel.production[phase] <= capacities[channel.name]

    def supplied(actor: str) -> bool:
        phase = fired[actor] % phases[actor]
        return all(held[channel.name] >= channel.consumption[phase] for channel in inputs[actor])

    waiting = list(left)
    while waiting:
        actor = waiting.pop()
        touched = False
        while left[actor] and supplied(actor) and all(map(fits, outputs[actor])):
            phase = fired[actor] % phases[actor]
            for channel in inputs[actor]:
                held[channel.name] -= channel.consumption[phase]
            for channel in outputs[actor]:
                held[channel.name] += channel.production[phase]
            fired[actor] += 1
            left[actor] -= 1
            touched = True
        if touched:
            waiting += [c.source for c in inputs[actor]] + [c.target for c in outputs[actor]]
    return tuple(
        Full(
            c.name,
            held[c.name],
            c.production[fired[c.source] % phases[c.source]],
            capacities[c.name],
        )
        for actor, count in left.items()
        if count and supplied(actor)
        for c in outputs[actor]
        if not fits(c)
    )
