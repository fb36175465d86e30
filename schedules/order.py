"""Which actor lies deeper? Topological order, also of graphs with cycles.

An actor is deeper than those whose tokens it needs before it can start. Where a cycle runs through
channels with initial tokens, these channels do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from csdfgen.dataflow.graph import Channel, CsdfGraph

__all__ = ["component_numbers", "strongly_connected_components", "topological_order"]


def strongly_connected_components(graph: CsdfGraph) -> list[int]:
    """For every actor the number of its strongly connected component, targets numbered before
    sources.
    """
    index = {actor.name: i for i, actor in enumerate(graph.actors)}
    return component_numbers(
        len(graph.actors), ((index[c.source], index[c.target]) for c in graph.channels)
    )


def component_numbers(size: int, arrows: Iterable[tuple[int, int]]) -> list[int]:
    """For every node 0 to size - 1 the number of its strongly connected component (Tarjan 1972),
    targets before sources.
    """
    following: list[list[int]] = [[] for _ in range(size)]
    for source, target in arrows:
        following[source].append(target)
    number, low, component = [-1] * size, [0] * size, [-1] * size
    path: list[int] = []
    numbered = components = 0
    for root in range(size):
        if number[root] >= 0:
            continue
        number[root] = low[root] = numbered
        numbered += 1
        path.append(root)
        walk = [(root, iter(following[root]))]
        while walk:
            actor, rest = walk[-1]
            for other in rest:
                if number[other] < 0:
                    number[other] = low[other] = numbered
                    numbered += 1
                    path.append(other)
                    walk.append((other, iter(following[other])))
                    break
                if component[other] < 0:
                    low[actor] = min(low[actor], number[other])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[actor])
                if low[actor] == number[actor]:
                    while component[actor] < 0:
                        component[path.pop()] = components
                    components += 1
    return component


def topological_order(graph: CsdfGraph) -> list[int]:
    """Indices of the actors, sources first; among actors that nothing orders, as the graph lists
    them.

    Inside a cycle a channel counts if its target cannot start without its source. If cycles are
    left (they deadlock, or their phases interleave) the first actor listed goes first.
    """
    index = {actor.name: i for i, actor in enumerate(graph.actors)}
    component = strongly_connected_components(graph)
    following: list[list[int]] = [[] for _ in graph.actors]
    before = [0] * len(graph.actors)
    for channel in graph.channels:
        source, target = index[channel.source], index[channel.target]
        if source != target and (component[source] != component[target] or not _starts(channel)):
            following[source].append(target)
            before[target] += 1
    ready = [actor for actor, count in enumerate(before) if not count]
    heapify(ready)
    tangled = iter(sorted(range(len(before)), key=lambda actor: (-component[actor], actor)))
    placed = [False] * len(before)
    order: list[int] = []
    while len(order) < len(before):
        if not ready:
            ready.append(next(actor for actor in tangled if not placed[actor]))
        actor = heappop(ready)
        placed[actor] = True
        order.append(actor)
        for other in following[actor]:
            before[other] -= 1
            if not before[other] and not placed[other]:
                heappush(ready, other)
    return order


def _starts(channel: Channel) -> bool:
    """Whether the initial tokens suffice for the first phase of the target that takes any."""
    return channel.initial_tokens >= next((rate for rate in channel.consumption if rate), 0)
