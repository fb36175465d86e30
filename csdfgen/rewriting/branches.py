"""A network without branches that has the work of the largest: a graph without data-dependent firings, for tools that
know none.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from csdfgen.model.network import Guard, Layer, Network, Node
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS, get_operator


def take_larger_branches(network: Network) -> tuple[Network, dict[str, bool]]:
    """The network in which of every If the branch with more multiply-accumulates is always taken (of equal ones that with more
    operations, else the first), and the branch by the name of its If. Layers of the other branch are not there, and what
    joined both hands on its result.
    """
    if not network.conditions:
        return network, {}
    work: dict[tuple[Guard, ...], tuple[int, int]] = {}
    for layer in network.layers:
        for depth in range(1, len(layer.guards) + 1):
            before = work.setdefault(layer.guards[:depth], (0, 0))
            mine = _work(layer)
            work[layer.guards[:depth]] = before[0] + mine[0], before[1] + mine[1]
    chosen = {}
    for guards in sorted(
        work, key=len, reverse=True
    ):  # the innermost first: an inner If counts as its larger branch
        *outer, (branch, taken) = guards
        other = (*outer, Guard(branch, not taken))
        if branch in chosen:
            continue
        sizes = {taken: work[guards], not taken: work.get(other, (0, 0))}
        chosen[branch] = sizes[True] >= sizes[False]
        smaller = sizes[not chosen[branch]]
        for depth in range(1, len(outer) + 1):
            around = work[tuple(outer[:depth])]
            work[tuple(outer[:depth])] = around[0] - smaller[0], around[1] - smaller[1]
    layers = []
    for layer in network.layers:
        joins = layer.attributes.get("branch")
        if any(chosen[guard.branch] is not guard.taken for guard in layer.guards):
            continue
        if joins is not None:
            layer = _handed_on(layer, chosen.get(joins, True))
        layers.append(replace(layer, guards=()))
    return replace(network, layers=tuple(layers)), dict(reversed(chosen.items()))


def _work(layer: Layer) -> tuple[int, int]:
    """(multiply-accumulates, all operations) of a layer."""
    operator = get_operator(layer)
    cost = operator.cost(layer, Rows(0, layer.output.rows))
    return cost if operator.multiplies else 0, cost


def _handed_on(join: Layer, taken: bool) -> Layer:
    """The layer that hands on one of two results."""
    position = 1 if taken else 2
    source = join.inputs[position]
    if source is None:  # a constant: the condition decides for nothing, and the result is the same
        return replace(join, attributes=MappingProxyType({}))
    node = Node(join.name, "Identity", 13, {}, (source,), (join.output.name,))
    made = OPERATORS["Identity"].build(node)
    return replace(made, epilogue=join.epilogue, onnx_nodes=join.onnx_nodes)
