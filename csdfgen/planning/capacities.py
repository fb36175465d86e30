"""Do firings keep the capacities that a schedule gives to channels, and how many rows may a buffer hold then?

A schedule of a graph counts tokens in channels, a plan rows in buffers (docs/model.md). While firings keep all
capacities,

    rows of a tensor in its buffer <= capacity of the channel to a reader + most rows that this reader keeps,

the largest over its readers: a channel holds rows that are written (or claimed) and not yet taken, and a reader keeps
rows that it has taken and still reads, at most the capacity of its overlap self-loop. The layers between tensors that
share a buffer connect them: a writer is ahead of the reader of another tensor by at most the sum of the capacities on a
path from one to the other. Against the direction of a channel no actor is ahead, as it cannot read rows that are not
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from csdfgen.dataflow.graph import Channel
from csdfgen.errors import PlanError, ScheduleError, option
from csdfgen.phases.conversion import ActorWork, Conversion, Read, Write, csdf_graph
from csdfgen.planning.buffers import Buffer
from csdfgen.planning.lifetimes import Lifetimes
from csdfgen.planning.sharing import Sharing
from schedules.check import check
from schedules.schedule import Schedule


def check_order(
    order: Sequence[tuple[str, int]],
    conversion: Conversion,
    made_for: str,
    options: Mapping[str, str | int],
) -> None:
    """Check that an order from a file fires every phase of this network's actors once and in order.

    made_for, options ("rows", "fuse"): those of the file, for messages. Raises PlanError or ScheduleError.
    """
    following = {work.name: 0 for work in conversion.actors}
    counts = {work.name: len(work.phases) for work in conversion.actors}
    for number, (actor, phase) in enumerate(order, start=1):
        if actor not in counts:
            raise PlanError(
                f"made for '{made_for}', it fires '{actor}', which is no actor of '{conversion.network.name}' with "
                f"{option('rows', options['rows'])} {option('fuse', options['fuse'])}"
            )
        if phase != following[actor]:
            raise ScheduleError(
                f"firing {number} is {actor}[{phase}], where phase {following[actor]} comes next"
            )
        following[actor] += 1
    for actor, count in counts.items():
        if following[actor] != count:
            raise ScheduleError(
                f"fires {following[actor]} phases of '{actor}', which has {count} in '{conversion.network.name}' with "
                f"{option('rows', options['rows'])}"
            )


def check_channels(conversion: Conversion, schedule: Schedule) -> dict[str, int]:
    """The capacities of a schedule in rows, after a check that its firings keep them.

    The graph of the schedule may have overlap self-loops or not, and tokens of any size that divides a channel's rates.
    Raises PlanError for a channel that is missing, unknown, or counted in tokens that do not fit, and what
    `schedules.check` raises for firings that lack tokens or exceed a capacity.
    """
    graph = csdf_graph(conversion, tokens="rows")
    missing = [
        c.name for c in graph.channels if c.kind == "data" and c.name not in schedule.capacities
    ]
    if missing:
        counts = f"{len(missing)} such, {len(schedule.capacities)} capacities"
        raise PlanError(f"gives no capacity to channel '{missing[0]}' ({counts})")
    listed = [channel for channel in graph.channels if channel.name in schedule.capacities]
    rows = {channel.name: _rows(channel, schedule) for channel in listed}
    # channels without bytes set no limit: serial self-loops, and space channels
    others = [
        name
        for name in schedule.capacities
        if name not in rows and schedule.token_bytes.get(name) != 0
    ]
    if others:
        counts = f"{len(others)} such, {len(graph.channels)} channels"
        raise PlanError(f"gives a capacity to '{others[0]}', which is no channel here ({counts})")
    try:
        check(replace(graph, channels=tuple(listed)), Schedule(graph.name, schedule.firings, rows))
    except ScheduleError as error:
        raise error.at("with rows for tokens") from None
    return rows


def _rows(channel: Channel, schedule: Schedule) -> int:
    """The capacity of a channel in rows, which are the tokens of the channel here."""
    size = schedule.token_bytes.get(channel.name)
    if size is None:
        raise PlanError(f"does not say how many bytes a token of channel '{channel.name}' has")
    if not channel.token_bytes:
        return max(
            sum(channel.production), channel.initial_tokens
        )  # rows without bytes: all of them fit
    least = gcd(*channel.production, *channel.consumption) * channel.token_bytes
    if not size or least % size:
        raise PlanError(
            f"counts tokens of {size} bytes in channel '{channel.name}', whose rates are multiples of {least} bytes here"
        )
    return schedule.capacities[channel.name] * size // channel.token_bytes


# From channels to buffers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reader:
    """An actor that reads a tensor. capacity: rows that the writer may be ahead of those that it has taken."""

    work: ActorWork
    read: Read
    capacity: int

    @property
    def held(self) -> int:
        kept = (
            need - release for need, release in zip(self.read.need, self.read.release, strict=True)
        )
        return self.capacity + max(kept, default=0)


def row_limits(
    conversion: Conversion, sharing: Sharing, capacities: Mapping[str, int]
) -> dict[str, int]:
    """Buffer -> rows that it can hold at most while all channels keep their `capacities`, in rows."""
    import networkx as nx

    readers: dict[str, list[_Reader]] = {name: [] for name in conversion.network.tensors}
    for work, read, channel in _reads(conversion):
        readers[read.tensor.name].append(_Reader(work, read, capacities[channel]))
    writers = {
        write.tensor.name: (work, write) for work in conversion.actors for write in work.writes
    }
    limits = {}
    for home, names in sharing.members.items():
        members = [name for name in names if name in writers]
        ahead = _leads(members, readers, writers)
        wanted = [
            lead + _claimed_early(writers[name][1]) + _held(readers[other], writers[other][1])
            for name in members
            if writers[name][0].name not in sharing.silent
            for other, lead in nx.single_source_dijkstra_path_length(ahead, name).items()
        ]
        limits[home] = min(sharing.buffers[home].rows * conversion.frames, max(wanted, default=0))
    return limits


def _reads(conversion: Conversion) -> Iterator[tuple[ActorWork, Read, str]]:
    """Every read with the name of its data channel, in the order in which the graph lists them."""
    names = iter(channel.name for channel in conversion.graph.channels)
    for work in conversion.actors:
        for read in work.reads:
            yield work, read, next(names)


def _held(readers: Sequence[_Reader], write: Write) -> int:
    """Most rows of a tensor: up to the reader that is farthest behind, or those of one phase if no layer reads it."""
    claims = (
        now - before for now, before in zip(write.claimed, (0, *write.claimed[:-1]), strict=True)
    )
    return max((reader.held for reader in readers), default=max(claims, default=0))


def _claimed_early(write: Write) -> int:
    """Rows that are claimed before they are complete, which a channel does not count yet."""
    return max(
        (claimed - done for claimed, done in zip(write.claimed, write.complete, strict=True)),
        default=0,
    )


def _leads(
    members: Sequence[str],
    readers: Mapping[str, Sequence[_Reader]],
    writers: Mapping[str, tuple[ActorWork, Write]],
) -> Any:
    """A networkx graph: the rows (`weight`) by which each tensor of a buffer can be ahead of the outputs of a layer that
    reads it, or of the operands of the layer that writes it. The least sum on any path is the limit.
    """
    import networkx as nx

    ahead = nx.MultiDiGraph()
    ahead.add_nodes_from(members)
    makers: dict[str, list[str]] = {}
    for name in members:
        makers.setdefault(writers[name][0].name, []).append(name)
    for name in members:
        for reader in readers[name]:
            for made in makers.get(reader.work.name, ()):
                write = writers[made][1]
                taken = max(
                    need - done for need, done in zip(reader.read.need, write.complete, strict=True)
                )
                given = max(
                    claimed - need
                    for claimed, need in zip(write.claimed, reader.read.need, strict=True)
                )
                ahead.add_edge(name, made, weight=reader.capacity + max(0, taken))
                ahead.add_edge(made, name, weight=max(0, given))
    return ahead


def check_buffers(buffers: Sequence[Buffer], found: Lifetimes, limits: Mapping[str, int]) -> None:
    """Check that no buffer of tensors holds more rows than the channels allow. Raises PlanError."""
    for buffer, lifetime in zip(buffers, found.each, strict=True):
        if buffer.kind == "tensor" and lifetime.capacity > limits[buffer.name]:
            raise PlanError(
                f"buffer '{buffer.name}' takes {lifetime.capacity} rows in this order; the capacities of "
                f"its channels hold {limits[buffer.name]}"
            )
