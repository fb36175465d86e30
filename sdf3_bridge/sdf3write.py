"""How is a CSDF graph written for SDF3 and Kiter?

As both read it without a warning or a guess: decimal numbers without blanks or leading zeros, lists of one
length per actor with runs as `n*v`, `type` everywhere, one default processor with execution times
for every actor, every port on one channel. What the tools do not know stands in attributes that both ignore
(`csdfgen`, `originalName`, `function`, `channelKind`) or that only Kiter reads (`size`, the bytes of a token), so
that `sdf3read.read` gives the graph back. The same graph gives the same bytes.
"""

from __future__ import annotations

import logging
import os
from xml.sax.saxutils import quoteattr

from csdfgen.errors import GraphError
from csdfgen.files import write_bytes
from csdfgen.graph import Actor, Channel, CsdfGraph, short_form, validate, with_serial_loops
from csdfgen.origin import to_text
from sdf3_bridge.names import encode_name, printable

__all__ = ["to_xml", "write"]

_LOG = logging.getLogger(__name__)

_TOOL_LIMIT = 2**32 - 1
"""SDF3 keeps rates and tokens in 32 bits; a time of this length counts as deadlock."""


def write(path: str | os.PathLike[str], graph: CsdfGraph, *, serial: bool = True) -> None:
    """Write a graph to a file, see `to_xml`. Raises GraphError, InputError."""
    write_bytes(path, to_xml(graph, serial=serial))


def to_xml(graph: CsdfGraph, *, serial: bool = True) -> bytes:
    """The graph as SDF3 CSDF XML.

    serial: give every actor a one-token self-loop if it has none, so that it does not overlap with itself; SDF3's
    results for actors of several phases are unreliable without.
    Raises GraphError: a graph that is malformed, or has no actor.
    """
    validate(graph)
    if not graph.actors:
        raise GraphError("has no actor; SDF3 needs at least one", where=f"graph '{graph.name}'")
    if serial:
        graph = with_serial_loops(graph)
    _warn_of_large_numbers(graph)
    ports: dict[str, list[str]] = {actor.name: [] for actor in graph.actors}
    for channel in graph.channels:
        ports[channel.source].append(_port(channel, "out", channel.production))
        ports[channel.target].append(_port(channel, "in", channel.consumption))
    name = quoteattr(encode_name(graph.name))
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<sdf3 type="csdf" version="1.0">',
        f" <applicationGraph name={name}>",
        f"  <csdf name={name} type={name}{_original(graph.name)}{_origin(graph)}>",
    ]
    for actor in graph.actors:
        lines += [f"   {_actor_start(actor)}", *ports[actor.name], "   </actor>"]
    lines += [f"   {_channel(channel)}" for channel in graph.channels]
    lines += ["  </csdf>", "  <csdfProperties>"]
    for actor in graph.actors:
        times = short_form(actor.execution_times, ones=False)
        lines += [
            f'   <actorProperties actor="{encode_name(actor.name)}">',
            f'    <processor type="p1" default="true"><executionTime time="{times}"/></processor>',
            "   </actorProperties>",
        ]
    lines += ["  </csdfProperties>", " </applicationGraph>", "</sdf3>", ""]
    return "\n".join(lines).encode("utf-8")


def _original(name: str) -> str:
    """The attribute that keeps a name which had to be encoded."""
    return "" if encode_name(name) == name else f" originalName={quoteattr(printable(name))}"


def _origin(graph: CsdfGraph) -> str:
    """The attribute that keeps how the graph was made from a network."""
    return "" if graph.origin is None else f" csdfgen={quoteattr(to_text(graph.origin))}"


def _actor_start(actor: Actor) -> str:
    name = encode_name(actor.name)
    function = f" function={quoteattr(printable(actor.function))}" if actor.function else ""
    return f'<actor name="{name}" type="{name}"{_original(actor.name)}{function}>'


def _port_name(channel: Channel, direction: str) -> str:
    return f"{direction}_{encode_name(channel.name)}"


def _port(channel: Channel, direction: str, rates: tuple[int, ...]) -> str:
    rate = short_form(rates, ones=False)
    return f'    <port name="{_port_name(channel, direction)}" type="{direction}" rate="{rate}"/>'


def _channel(channel: Channel) -> str:
    tokens = f' initialTokens="{channel.initial_tokens}"' if channel.initial_tokens else ""
    size = f' size="{channel.token_bytes}"' if channel.token_bytes != 1 else ""
    return (
        f'<channel name="{encode_name(channel.name)}"'
        f' srcActor="{encode_name(channel.source)}" srcPort="{_port_name(channel, "out")}"'
        f' dstActor="{encode_name(channel.target)}" dstPort="{_port_name(channel, "in")}"'
        f'{tokens}{size} channelKind="{channel.kind}"{_original(channel.name)}/>'
    )


def _warn_of_large_numbers(graph: CsdfGraph) -> None:
    """SDF3 cuts large numbers without a word; say so where it would."""
    found = [(f"a rate of channel '{c.name}'", max(*c.production, *c.consumption)) for c in graph.channels]
    found += [(f"the number of initial tokens of channel '{c.name}'", c.initial_tokens) for c in graph.channels]
    found += [(f"a time of actor '{a.name}'", max(a.execution_times)) for a in graph.actors]
    large = [f"{what} is {value}" for what, value in found if value >= _TOOL_LIMIT]
    if large:
        more = f" (and {len(large) - 1} more)" if len(large) > 1 else ""
        _LOG.warning("%s%s; SDF3 computes with 32 bits and is wrong from %d on", large[0], more, _TOOL_LIMIT)
