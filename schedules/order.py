"""Which actor is deeper? The topological order, also of graphs with cycles.

An actor is deeper than the actors from which it needs tokens before it can start. In a cycle, channels with enough
initial tokens do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from csdfgen.dataflow.graph import Channel, CsdfGraph
from csdfgen.model.sorting import sort_topologically


def strongly_connected_components(graph: CsdfGraph) -> list[int]:
    """For every actor the number of its strongly connected component; targets have smaller numbers than sources."""
    index = {actor.name: i for i, actor in enumerate(graph.actors)}
    return component_numbers(
        len(graph.actors), ((index[c.source], index[c.target]) for c in graph.channels)
    )


def component_numbers(size: int, arrows: Iterable[tuple[int, int]]) -> list[int]:
    """For every node 0 to size - 1 the number of its strongly connected component, targets before sources."""
    arrows = [*arrows]
    label, order = [*range(size)], sort_topologically(_waits(size, arrows))
    if len(order) < size:
        label = _components(_waits(size, arrows))
        order = sort_topologically(
            _waits(max(label) + 1, ((label[s], label[t]) for s, t in arrows))
        )
    number = {component: at for at, component in enumerate(reversed(order))}
    return [number[component] for component in label]


def topological_order(graph: CsdfGraph) -> list[int]:
    """Indices of the actors, sources first; actors that no channel orders are in the order of the graph.

    Inside a cycle a channel counts if its target cannot start without its source. In cycles that remain (they deadlock,
    or their phases interleave) the actor that the graph lists first is the first.
    """
    index = {actor.name: i for i, actor in enumerate(graph.actors)}
    component = strongly_connected_components(graph)
    ends = ((index[one.source], index[one.target], one) for one in graph.channels)
    waits = _waits(
        len(graph.actors),
        ((s, t) for s, t, one in ends if component[s] != component[t] or not _starts(one)),
    )
    tangled = sorted(waits, key=lambda actor: (-component[actor], actor))
    order: list[int] = []
    while len(order) < len(tangled):
        left = {actor: waits[actor].difference(order) for actor in waits.keys() - order}
        order += sort_topologically(left)  # actors before a cycle are kept
        placed = {*order}
        first = next((actor for actor in tangled if actor not in placed), None)
        if first is not None:
            waits[first] = set()
    return order


def _waits(size: int, arrows: Iterable[tuple[int, int]]) -> dict[int, set[int]]:
    """For every node the others that arrows to it come from."""
    found: dict[int, set[int]] = {node: set() for node in range(size)}
    for source, target in arrows:
        if source != target:
            found[target].add(source)
    return found


def _components(waits: Mapping[int, set[int]]) -> list[int]:
    """For every node the number of its strongly connected component: Gabow's algorithm (Inf. Process. Lett. 74, 2000).
    Not scipy's, which takes 26 MiB to import.
    """
    label, found, members, bounds, count = (
        dict[int, int](),
        dict[int, int](),
        list[int](),
        list[int](),
        0,
    )
    for root in waits:
        path = [] if root in found else [(root, iter([root]))]
        while path:
            node, rest = path[-1]
            for to in rest:
                if to not in found:
                    found[to] = len(found)
                    members.append(to)
                    bounds.append(to)
                    path.append((to, iter(waits[to])))
                    break
                while to not in label and found[bounds[-1]] > found[to]:
                    bounds.pop()
            else:
                path.pop()
                if path and bounds[-1] == node:
                    bounds.pop()
                    while node not in label:
                        label[members.pop()] = count
                    count += 1
    return [label[node] for node in range(len(waits))]


def _starts(channel: Channel) -> bool:
    """Whether the initial tokens suffice for the first phase of the target that takes any."""
    return channel.initial_tokens >= next((rate for rate in channel.consumption if rate), 0)
