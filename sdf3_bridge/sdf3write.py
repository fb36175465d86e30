"""How is a CSDF graph written for SDF3 and Kiter?

As both read it without a warning or a guess: decimal numbers without blanks or leading zeros, lists
of one length per actor with runs as `n*v`, `type` everywhere, one default processor with execution
times for every actor, every port on one channel. What the tools do not know stands in attributes
that both ignore (`csdfgen`, `originalName`, `function`, `channelKind`) or that only Kiter reads
(`size`, the bytes of a token), so that `sdf3read.read` gives the graph back. The same graph gives
the same bytes.

Names are encoded by a rule (`names`) that takes them back from what a tool prints, without any
table; for people the original stands beside each that had to change. What a tool would still get
wrong is logged (`iteration.caveats`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from xml.sax.saxutils import quoteattr

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, format_runs
from csdfgen.dataflow.origin import to_text
from csdfgen.errors import GraphError
from csdfgen.files import write_bytes
from sdf3_bridge.iteration import warn_of_caveats
from sdf3_bridge.names import encode_name, escape_text
from sdf3_bridge.variants import WriteOptions, variant


def write(
    path: str | os.PathLike[str], graph: CsdfGraph, options: WriteOptions | None = None
) -> None:
    """Write a graph to a file, see `to_xml`. Raises GraphError, InputError."""
    write_bytes(path, to_xml(graph, options))


def to_xml(graph: CsdfGraph, options: WriteOptions | None = None, *, warn: bool = True) -> bytes:
    """The graph as SDF3 CSDF XML; without options every actor gets a serial self-loop and nothing
    else changes.

    warn: log what a tool would read wrongly.
    Raises GraphError: a graph that is malformed or has no actor, a capacity of an unknown channel;
    CapacityExceededError: a capacity below the initial tokens.
    """
    options = options or WriteOptions()
    graph, sizes = variant(graph, options)
    if not graph.actors:
        raise GraphError("has no actor; SDF3 needs at least one", where=f"graph '{graph.name}'")
    if warn:
        warn_of_caveats(graph)
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
    lines += ["  </csdf>", "  <csdfProperties>", *_properties(graph, sizes, options)]
    lines += [
        "  </csdfProperties>",
        " </applicationGraph>",
        *_platform(name, options),
        "</sdf3>",
        "",
    ]
    return "\n".join(lines).encode("utf-8")


def _properties(graph: CsdfGraph, sizes: Mapping[str, int], options: WriteOptions) -> list[str]:
    """Lines of execution times, buffer sizes and the throughput constraint, in the order that
    SDF3's schema gives.
    """
    lines = []
    for actor in graph.actors:
        times = format_runs(actor.execution_times, ones=False)
        kind = encode_name(options.processors.get(actor.name, "p1"))
        lines += [
            f'   <actorProperties actor="{encode_name(actor.name)}">',
            f'    <processor type="{kind}" default="true"><executionTime time="{times}"/></processor>',
            "   </actorProperties>",
        ]
    for channel in graph.channels:
        if channel.name in sizes:
            size = f'<bufferSize sz="{sizes[channel.name]}"/>'
            lines.append(
                f'   <channelProperties channel="{encode_name(channel.name)}">{size}</channelProperties>'
            )
    if options.throughput is not None:
        constraint = (
            f"<timeConstraints><throughput>{options.throughput}</throughput></timeConstraints>"
        )
        lines.append(f"   <graphProperties>{constraint}</graphProperties>")
    return lines


def _platform(name: str, options: WriteOptions) -> list[str]:
    """Lines of the architecture, a tile with a memory for each processor, each connected with the others, and of the mapping."""
    tiles = {one: encode_name(one) for one in dict.fromkeys(options.processors.values())}
    if not tiles:
        return []
    lines = [' <architectureGraph name="platform">']
    for one, tile in tiles.items():
        lines += [
            f'  <tile name="{tile}">',
            f'   <processor name="{tile}" type="{tile}"/>',
            f'   <memory name="memory_{tile}" size="{options.memories.get(one, 0)}"/>',
            "  </tile>",
        ]
    for source in tiles.values():
        for target in tiles.values():
            if source != target:
                ends = f'srcTile="{source}" dstTile="{target}" delay="0"'
                lines.append(f'  <connection name="{source}_to_{target}" {ends}/>')
    lines += [" </architectureGraph>", f' <mapping appGraph={name} archGraph="platform">']
    for one, tile in tiles.items():
        mapped = [actor for actor, processor in options.processors.items() if processor == one]
        lines += [f'  <tile name="{tile}">', f'   <processor name="{tile}">']
        lines += [f'    <actor name="{encode_name(actor)}"/>' for actor in mapped]
        lines += ["   </processor>", "  </tile>"]
    return [*lines, " </mapping>"]


def _original(name: str) -> str:
    """The attribute that keeps a name which had to be encoded."""
    return "" if encode_name(name) == name else f" originalName={quoteattr(escape_text(name))}"


def _origin(graph: CsdfGraph) -> str:
    """The attribute that keeps how the graph was made from a network."""
    return "" if graph.origin is None else f" csdfgen={quoteattr(to_text(graph.origin))}"


def _actor_start(actor: Actor) -> str:
    name = encode_name(actor.name)
    function = f" function={quoteattr(escape_text(actor.function))}" if actor.function else ""
    return f'<actor name="{name}" type="{name}"{_original(actor.name)}{function}>'


def _port_name(channel: Channel, direction: str) -> str:
    return f"{direction}_{encode_name(channel.name)}"


def _port(channel: Channel, direction: str, rates: tuple[int, ...]) -> str:
    rate = format_runs(rates, ones=False)
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
