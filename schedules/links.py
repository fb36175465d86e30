"""Which actors wait for which? The channels, and the space in channels with a capacity.

A firing claims its output space when it starts and frees its input space when it ends
(docs/model.md), so a capacity is a channel in the opposite direction with the rates exchanged and
`capacity - initial tokens` tokens (Stuijk et al., "Throughput-buffering trade-off exploration for
cyclo-static and synchronous dataflow graphs", 2008, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from csdfgen.dataflow.graph import Channel, CsdfGraph, repetition_vector
from csdfgen.dataflow.transform import check_capacities
from schedules.order import component_numbers


@dataclass(frozen=True, slots=True)
class Link:
    """A channel, or the space left in a channel, between the numbers of its actors.

    channel: number of the channel in the graph; space: whether the tokens are free places.
    """

    source: int
    target: int
    production: tuple[int, ...]
    consumption: tuple[int, ...]
    tokens: int
    channel: int
    space: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    """A strongly connected component: its actors and the links between them."""

    actors: tuple[int, ...]
    links: tuple[Link, ...]


def make_links(graph: CsdfGraph, capacities: Mapping[str, int] | None = None) -> list[Link]:
    """The channels of a valid graph, and the space of channels with a capacity; without channels that no token ever
    enters.

    Raises what `check_capacities` does.
    """
    limits = capacities or {}
    check_capacities(graph, limits)
    index = {actor.name: i for i, actor in enumerate(graph.actors)}
    links: list[Link] = []
    for number, channel in enumerate(graph.channels):
        if not any(channel.production):
            continue
        ends = index[channel.source], index[channel.target]
        links.append(
            Link(*ends, channel.production, channel.consumption, channel.initial_tokens, number)
        )
        if channel.name in limits:
            links.append(space_link(channel, ends, limits[channel.name], number))
    return links


def space_link(channel: Channel, ends: tuple[int, int], capacity: int, number: int) -> Link:
    """The free places of a channel from actor ends[0] to actor ends[1]."""
    free = capacity - channel.initial_tokens
    return Link(ends[1], ends[0], channel.consumption, channel.production, free, number, space=True)


def execution_times(graph: CsdfGraph) -> tuple[list[tuple[int, ...]], list[int]]:
    """Execution times of the phases of every actor, and its firings in an iteration, by number of the actor. Raises
    InconsistentError.
    """
    firings = repetition_vector(graph)
    return [actor.execution_times for actor in graph.actors], list(firings.values())


def own_quotas(
    quota: Sequence[int], times: Sequence[Sequence[int]], parts: Sequence[Component]
) -> list[int]:
    """Firings of every actor in the least iteration of its component alone; an iteration of the graph contains
    one or more of these.
    """
    own = list(quota)
    for part in parts:
        share = count_iterations(quota, times, part.actors)
        for actor in part.actors:
            own[actor] = quota[actor] // share
    return own


def count_iterations(
    quota: Sequence[int], times: Sequence[Sequence[int]], actors: Sequence[int]
) -> int:
    """Number of least iterations of some actors alone in the firings of `quota`."""
    return gcd(*(quota[actor] // len(times[actor]) for actor in actors))


def components(size: int, links: Sequence[Link]) -> list[Component]:
    """The strongly connected components of actors 0 to size - 1 that have a link inside."""
    number = component_numbers(size, [(link.source, link.target) for link in links])
    actors: dict[int, list[int]] = {}
    inside: dict[int, list[Link]] = {}
    for actor in range(size):
        actors.setdefault(number[actor], []).append(actor)
    for link in links:
        if number[link.source] == number[link.target]:
            inside.setdefault(number[link.source], []).append(link)
    return [Component(tuple(actors[key]), tuple(inside[key])) for key in sorted(inside)]
