"""Which transformations of a graph are there? Without a kind of channels, with capacities as channels, with larger
tokens.

A capacity corresponds to a channel in the opposite direction whose tokens are free places: a firing claims its
output space when it starts and frees its input space when it ends (docs/model.md; Stuijk et al.,
"Throughput-buffering trade-off exploration for cyclo-static and synchronous dataflow graphs", 2008,
section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from csdfgen.dataflow.graph import MAX_VALUE, Channel, CsdfGraph, Kind
from csdfgen.errors import CapacityExceededError, GraphError
from csdfgen.model.naming import make_unused_name


def remove_channels(graph: CsdfGraph, kind: Kind) -> CsdfGraph:
    """The graph without its channels of one kind."""
    return replace(
        graph, channels=tuple(channel for channel in graph.channels if channel.kind != kind)
    )


def check_capacities(graph: CsdfGraph, capacities: Mapping[str, int]) -> None:
    """Check that every capacity is that of a channel and large enough for its initial tokens.

    Raises GraphError for an unknown channel, and CapacityExceededError with both numbers.
    """
    rest = dict(capacities)
    for channel in graph.channels:
        capacity = rest.pop(channel.name, channel.initial_tokens)
        if capacity < channel.initial_tokens:
            counts = f"{channel.initial_tokens} initial tokens, but the capacity is {capacity}"
            raise CapacityExceededError(counts, where=f"channel '{channel.name}'")
    if rest:
        raise GraphError(
            f"has no channel '{min(rest)}', which is given a capacity",
            where=f"graph '{graph.name}'",
        )


def add_space_channels(graph: CsdfGraph, capacities: Mapping[str, int]) -> CsdfGraph:
    """The graph with a reverse channel for every capacity (channel -> tokens), so that no firing exceeds a capacity.

    A space channel has the rates exchanged, the free places as initial tokens, and tokens of 0 bytes. A channel that no
    token ever enters gets none. Raises the errors of `check_capacities`.
    """
    check_capacities(graph, capacities)
    taken = {channel.name for channel in graph.channels}
    added = []
    for channel in graph.channels:
        if channel.name not in capacities or not any(channel.production):
            continue
        name = make_unused_name(f"space_{channel.name}", taken)
        free = capacities[channel.name] - channel.initial_tokens
        ends = channel.target, channel.source, channel.consumption, channel.production
        added.append(Channel(name, *ends, free, token_bytes=0, kind="space"))
    return replace(graph, channels=(*graph.channels, *added))


def spaces(graph: CsdfGraph) -> dict[str, str]:
    """Space channel -> the channel that it limits, as `add_space_channels` made them."""
    found: dict[str, str] = {}
    for space in graph.channels:
        if space.kind != "space":
            continue
        ends = space.target, space.source, space.consumption, space.production
        fitting = [
            c.name
            for c in graph.channels
            if (c.source, c.target, c.production, c.consumption) == ends and c is not space
        ]
        named = [name for name in fitting if space.name.rstrip("_") == f"space_{name}".rstrip("_")]
        for name in (named or fitting)[:1]:
            found[space.name] = name
    return found


def read_capacities(graph: CsdfGraph) -> dict[str, int]:
    """Channel -> capacity, of channels with a space channel in the graph: the argument of `add_space_channels`."""
    tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
    return {name: tokens[name] + tokens[space] for space, name in spaces(graph).items()}


def enlarge_tokens(
    graph: CsdfGraph, capacities: Mapping[str, int] | None = None
) -> tuple[CsdfGraph, dict[str, int]]:
    """The graph and its capacities in the largest tokens that divide a channel's rates and initial
    tokens.

    Only the unit changes: firings, times and bytes are the same. A capacity loses the places that no token can fill. The
    unit also divides the initial tokens, so that tokens that always remain in the channel are kept.
    Raises GraphError for a token of more bytes than a file can hold.
    """
    sizes = dict(capacities or {})
    channels = []
    for channel in graph.channels:
        unit = gcd(*channel.production, *channel.consumption, channel.initial_tokens)
        if unit > 1 and any(channel.production):
            channel = _divided(channel, unit)
            if channel.name in sizes:
                sizes[channel.name] //= unit
        channels.append(channel)
    return replace(graph, channels=tuple(channels)), sizes


def _divided(channel: Channel, unit: int) -> Channel:
    if channel.token_bytes * unit > MAX_VALUE:
        counts = (
            f"{unit} tokens of {channel.token_bytes} bytes in one are more than {MAX_VALUE} bytes"
        )
        raise GraphError(
            f"divided by the gcd of its rates, {counts}", where=f"channel '{channel.name}'"
        )
    return replace(
        channel,
        production=tuple(rate // unit for rate in channel.production),
        consumption=tuple(rate // unit for rate in channel.consumption),
        initial_tokens=channel.initial_tokens // unit,
        token_bytes=channel.token_bytes * unit,
    )
