"""Which actor is deeper? The topological order, also of graphs with cycles.

An actor is deeper than the actors from which it needs tokens before it can start. In a cycle, channels with enough
initial tokens do not count.
"""

from __future__ import annotations

from collections.abc import Iterable

from csdfgen.dataflow.graph import Channel, CsdfGraph

__all__ = ["component_numbers", "strongly_connected_components", "topological_order"]


def strongly_connected_components(graph: CsdfGraph) -> list[int]:
    """For every actor the number of its strongly connected component; targets have smaller numbers than sources."""
    index = {actor.name: i for i, actor in enumerate(graph.actors)}
    return component_numbers(
        len(graph.actors), ((index[c.source], index[c.target]) for c in graph.channels)
    )


def component_numbers(size: int, arrows: Iterable[tuple[int, int]]) -> list[int]:
    """For every node 0 to size - 1 the number of its strongly connected component, targets before sources."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(arrows)
    number = [0] * size
    for component, nodes in enumerate(nx.strongly_connected_components(graph)):
        for node in nodes:
            number[node] = component
    return number


def topological_order(graph: CsdfGraph) -> list[int]:
    """Indices of the actors, sources first; actors that no channel orders are in the order of the graph.

    Inside a cycle a channel counts if its target cannot start without its source. In cycles that remain (they deadlock,
    or their phases interleave) the actor that the graph lists first is the first.
    """
    import networkx as nx

    index = {actor.name: i for i, actor in enumerate(graph.actors)}
    component = strongly_connected_components(graph)
    waits = nx.DiGraph()
    waits.add_nodes_from(range(len(graph.actors)))
    for channel in graph.channels:
        source, target = index[channel.source], index[channel.target]
        if source != target and (component[source] != component[target] or not _starts(channel)):
            waits.add_edge(source, target)
    tangled = sorted(waits, key=lambda actor: (-component[actor], actor))
    order: list[int] = []
    while True:
        try:
            for actor in nx.lexicographical_topological_sort(waits):
                order.append(actor)  # actors before a cycle are kept
            return order
        except nx.NetworkXUnfeasible:
            waits.remove_nodes_from(order)
            first = next(actor for actor in tangled if actor in waits)
            waits.remove_edges_from(list(waits.in_edges(first)))


def _starts(channel: Channel) -> bool:
    """Whether the initial tokens suffice for the first phase of the target that takes any."""
    return channel.initial_tokens >= next((rate for rate in channel.consumption if rate), 0)
