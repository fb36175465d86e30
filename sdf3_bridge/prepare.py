"""Which graph do the tools get, so that what they answer is true of ours?

Never the graph as it is: what carries no token is left out (SDF3 calls it inconsistent), so is an
actor without channels; SDF3 gets a one-token self-loop on every actor of several phases (its
results are not reliable without), and for `buffersize` no other self-loop on them, as it never
enlarges one. Whatever was changed is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd

from csdfgen.dataflow.graph import Channel, CsdfGraph, add_serial_loops, repetition_vector
from csdfgen.errors import GraphError, ToolError
from sdf3_bridge.grammar import Printed
from sdf3_bridge.names import describe_name, encode_name


def add_loops(graph: CsdfGraph) -> tuple[CsdfGraph, tuple[str, ...]]:
    """The graph with a one-token self-loop on every actor of several phases, and the actors that
    had none.
    """
    serial = {channel.source for channel in graph.channels if channel.is_serial}
    lacking = {actor.name for actor in graph.actors if actor.phases > 1} - serial
    loops = add_serial_loops(graph).channels[len(graph.channels) :]
    added = tuple(channel for channel in loops if channel.source in lacking)
    return replace(graph, channels=(*graph.channels, *added)), tuple(
        channel.source for channel in added
    )


def reduce_graph(graph: CsdfGraph) -> CsdfGraph:
    """The part of a graph that carries tokens; nothing else limits it. Raises GraphError if there
    is none.
    """
    channels = tuple(channel for channel in graph.channels if any(channel.production))
    used = {name for channel in channels for name in (channel.source, channel.target)}
    actors = tuple(actor for actor in graph.actors if actor.name in used)
    if not actors:
        raise GraphError(
            "no channel carries a token, so nothing limits it: there is nothing to ask",
            where=describe_name(graph),
        )
    names = [encode_name(channel.name) for channel in channels]
    assert len(set(names)) == len(names)
    return replace(graph, actors=actors, channels=channels, origin=None)


def divide_rates(graph: CsdfGraph) -> CsdfGraph:
    """The graph with the rates of every channel divided by their gcd: larger tokens, the same
    firings.
    """
    return replace(graph, channels=tuple(_divided(channel) for channel in graph.channels))


def _divided(channel: Channel) -> Channel:
    common = gcd(*channel.production, *channel.consumption)
    if common <= 1:
        return channel
    return replace(
        channel,
        production=tuple(rate // common for rate in channel.production),
        consumption=tuple(rate // common for rate in channel.consumption),
        initial_tokens=channel.initial_tokens // common,  # a remainder is never taken
    )


_SMALL = 10**6
"""How much longer than all the times that are added a time unit becomes."""

_MOST_TIME = 2**53
"""Time of an iteration that a floating-point number still holds exactly."""


@dataclass(frozen=True, slots=True)
class Stretched:
    """A graph whose times were multiplied by `factor`, those of 0 then set to 1.

    A cycle of the expanded graph takes at most `added` more than `factor` times what it took: 1 for
    each firing of an iteration that took none.
    """

    graph: CsdfGraph
    factor: int
    added: int

    def bounds(self, printed: Printed) -> Printed:
        """The throughput of the graph as it was, from that of the stretched one. Raises ToolError
        if it has no upper bound.
        """
        least = 1 / printed.high - self.added if printed.high else Fraction(0)
        if least <= 0:
            raise ToolError(
                f"printed '{printed.text}' for a throughput: no cycle of the graph takes time"
            )
        return Printed(printed.text, printed.low * self.factor, self.factor / least)


def stretch_times(graph: CsdfGraph) -> Stretched | None:
    """The graph without times of 0, None if it has none: Kiter fails, or is wrong, on some cycles
    that take no time.
    """
    firings = repetition_vector(graph)
    added = work = 0
    for actor in graph.actors:
        rounds = firings[actor.name] // actor.phases
        added += rounds * actor.execution_times.count(0)
        work += rounds * sum(actor.execution_times)
    if not added:
        return None
    factor = max(1, min(_SMALL * added, _MOST_TIME // max(work, 1)))
    actors = (
        replace(actor, execution_times=tuple(factor * time or 1 for time in actor.execution_times))
        for actor in graph.actors
    )
    return Stretched(replace(graph, actors=tuple(actors)), factor, added)


@dataclass(frozen=True, slots=True)
class Sizing:
    """A graph for `buffersize`, whose capacities it finds in units: `weights` says how many make a
    token, by channel.

    outside: self-loops that were left out; they take the same room in every distribution.
    unweighted: channels whose tokens weigh nothing in our unit, but one in SDF3's.
    """

    graph: CsdfGraph
    weights: Mapping[str, int]
    outside: tuple[Channel, ...]
    unweighted: tuple[str, ...] = ()


def prepare_buffersize(graph: CsdfGraph, in_bytes: bool) -> Sizing:
    """What `buffersize` gets of a graph that has been through `add_loops` and `reduce_graph`.

    Sizes are to be least in bytes if the tokens of a channel weigh their bytes: its rates and
    tokens are multiplied. Raises GraphError for a self-loop that SDF3 would never make large
    enough.
    """
    serial = {channel.source for channel in graph.channels if channel.is_serial}
    outside, kept = [], []
    for channel in graph.channels:
        loop = channel.source == channel.target and not channel.is_serial
        if loop and channel.source in serial:
            outside.append(channel)
            continue
        if loop and channel.initial_tokens >= 2 * channel.production[0]:
            counts = (
                f"{channel.initial_tokens} tokens let actor '{channel.source}' overlap with itself"
            )
            message = f"{counts}; SDF3's buffersize never enlarges a self-loop and would not end. --engine native sizes it"
            raise GraphError(message, where=f"{describe_name(graph)}: channel '{channel.name}'")
        kept.append(channel)
    weights = _weights(kept) if in_bytes else {}
    scaled = tuple(_scaled(channel, weights.get(channel.name, 1)) for channel in kept)
    unweighted = [
        channel.name
        for channel in kept
        if in_bytes and not channel.token_bytes and not channel.is_serial
    ]
    return Sizing(replace(graph, channels=scaled), weights, tuple(outside), tuple(unweighted))


def _weights(channels: Sequence[Channel]) -> dict[str, int]:
    """Channel -> bytes of a token, in units of what divides all of them."""
    sized = {
        channel.name: channel.token_bytes
        for channel in channels
        if channel.token_bytes and not channel.is_serial
    }
    unit = gcd(*sized.values()) or 1
    return {name: weight // unit for name, weight in sized.items()}


def _scaled(channel: Channel, factor: int) -> Channel:
    if factor == 1:
        return channel
    return replace(
        channel,
        production=tuple(rate * factor for rate in channel.production),
        consumption=tuple(rate * factor for rate in channel.consumption),
        initial_tokens=channel.initial_tokens * factor,
    )
