"""In which form is a graph written? With serial self-loops or none, capacities as channels or
sizes, and so on.

The order is fixed, so that options can be combined: self-loops go first, rates are divided next (a
capacity is given in tokens of the graph as it was), then capacities become channels back. Serial
self-loops that are added stand before
all other channels: a reader that keeps one channel for each pair of actors then keeps the overlap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from csdfgen.dataflow.graph import CsdfGraph, add_serial_loops, validate
from csdfgen.dataflow.transform import (
    add_space_channels,
    check_capacities,
    enlarge_tokens,
    remove_channels,
)
from csdfgen.errors import GraphError
from csdfgen.files import quote

Serial = Literal["add", "keep", "drop"]
CapacityForm = Literal["channels", "sizes"]

_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a graph is written.

    serial: one-token self-loops that keep an actor from overlapping with itself: added to every
    actor that has none (SDF3's results for actors of several phases are unreliable without), kept
    as they are, or left out. overlap: with the self-loops that keep rows for the next phase;
    `buffersize` of SDF3 finds nothing with them. gcd: rates divided by their gcd.
    capacities: channel -> tokens, written as channels back, which both tools obey, or as buffer
        sizes, which they only store.
    throughput: a constraint in iterations of SDF3 (k minimal ones) per time unit, a decimal, which
        the tools only store.
    processors: actor -> its processor, of a mapped graph; memories: processor -> bytes. They are written as processor types,
        an architecture of tiles and a mapping.
    """

    serial: Serial = "add"
    overlap: bool = True
    gcd: bool = False
    capacities: Mapping[str, int] = field(default_factory=dict)
    capacities_as: CapacityForm = "channels"
    throughput: str | None = None
    processors: Mapping[str, str] = field(default_factory=dict)
    memories: Mapping[str, int] = field(default_factory=dict)


def variant(graph: CsdfGraph, options: WriteOptions) -> tuple[CsdfGraph, dict[str, int]]:
    """The graph in that form, and the capacities (channel -> tokens of this graph) that stay sizes.

    A capacity of a channel that is left out goes with it. Raises GraphError for a graph that is
    malformed, a capacity of an unknown channel or a throughput that is no number,
    CapacityExceededError for one below the initial tokens.
    """
    validate(graph)
    if options.throughput is not None:
        check_constraint(options.throughput)
    check_capacities(graph, options.capacities)
    if not options.overlap:
        graph = remove_channels(graph, "overlap")
    if options.serial == "drop":
        graph = remove_channels(graph, "serial")
    left = {channel.name for channel in graph.channels}
    sizes = {name: tokens for name, tokens in options.capacities.items() if name in left}
    if options.gcd:
        graph, sizes = enlarge_tokens(graph, sizes)
    if options.capacities_as == "channels":
        graph, sizes = add_space_channels(graph, sizes), {}
    if options.serial == "add":
        full = add_serial_loops(graph)
        added = full.channels[len(graph.channels) :]
        graph = replace(graph, channels=(*added, *graph.channels))
    return graph, sizes


def check_constraint(throughput: str) -> None:
    """A throughput constraint is a decimal number, as SDF3 reads it. Raises GraphError."""
    if not _DECIMAL.fullmatch(throughput):
        raise GraphError(f"throughput {quote(throughput)} is not a decimal number")
