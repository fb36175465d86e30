"""Which storage distributions does SDF3's `buffersize` find, in our channels and units?

Its sizes count every channel of the graph it got, the one-token self-loops with 2 each; ours count
the others, and the self- loops that it did not get. Its points are achievable (each is checked by
our own analysis), not always the least, and some are
dominated: what is no smaller and no faster than another is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import GraphError, ToolError
from schedules.analysis import Buffers
from schedules.storage import StorageDistribution, Unit, lower_bounds
from schedules.throughput import throughput
from sdf3_bridge.grammar import Point
from sdf3_bridge.prepare import Sizing
from sdf3_bridge.session import agreed

__all__ = ["choose", "distributions"]

_SERIAL_SIZE = 2
"""What SDF3 counts for a one-token self-loop: its token, and the room claimed while it is held."""


def distributions(
    points: list[Point], sizing: Sizing, graph: CsdfGraph, factor: int, unit: Unit
) -> list[StorageDistribution]:
    """The distributions that no other one dominates, smallest first.

    graph: what `sizing` was made from; factor: minimal iterations in one of SDF3. Raises ToolError
    for capacities that cannot be, or a throughput that they do not have.
    """
    bounds = lower_bounds(graph)
    weights = {
        channel.name: channel.token_bytes if unit == "bytes" else 1 for channel in graph.channels
    }
    outside = {channel.name: bounds[channel.name] for channel in sizing.outside}
    least = _size(bounds, weights)
    found = []
    for point in points:
        capacities = min(
            ({**_capacities(entry, sizing), **outside} for entry in point.distributions),
            key=lambda entry: _size(entry, weights),
        )
        value = agreed(
            "SDF3 buffersize", point.throughput, factor, throughput(graph, capacities)
        ).value
        found.append(StorageDistribution(capacities, _size(capacities, weights), value, least))
    found.sort(key=lambda distribution: (distribution.size, -distribution.throughput))
    front: list[StorageDistribution] = []
    for distribution in found:
        if not front or distribution.throughput > front[-1].throughput:
            front.append(distribution)
    return front


def choose(
    front: list[StorageDistribution], buffers: Buffers, target: Fraction | None, where: str
) -> tuple[StorageDistribution, ...]:
    """The distributions that are asked for, of all: the first with a throughput, if there is a
    target. Raises GraphError.
    """
    if target is not None:
        enough = [distribution for distribution in front if distribution.throughput >= target]
        if not enough:
            raise GraphError(
                f"throughput {target} is wanted; the highest that SDF3 lists is {front[-1].throughput}",
                where=where,
            )
        return (enough[0],)
    return {"live": tuple(front[:1]), "maximal": tuple(front[-1:])}.get(buffers, tuple(front))


def _capacities(found: Mapping[str, int], sizing: Sizing) -> dict[str, int]:
    """Channel -> tokens, by the names and in the order of the graph."""
    capacities = {}
    for channel, size in zip(sizing.graph.channels, found.values(), strict=True):
        tokens, rest = divmod(size, sizing.weights.get(channel.name, 1))
        if rest or (channel.is_serial and size != _SERIAL_SIZE):
            expected = (
                f"{_SERIAL_SIZE}"
                if channel.is_serial
                else f"a multiple of {sizing.weights[channel.name]}"
            )
            raise ToolError(
                f"gives channel '{channel.name}' a size of {size}; {expected} was expected",
                where="SDF3 buffersize",
            )
        if not channel.is_serial:
            capacities[channel.name] = tokens
    return capacities


def _size(capacities: Mapping[str, int], weights: Mapping[str, int]) -> int:
    return sum(tokens * weights[name] for name, tokens in capacities.items())
