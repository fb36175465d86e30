"""How long does each layer take on each of several processors, and what does it cost to change between them?

Every processor computes a frame of all layers that it has kernels for; another one, of which each is, computes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from csdfgen.model.network import Layer, Network
from csdfgen.planning.mapped import MappedPlan, find_branches
from csdfgen.program.steps import Backend
from csdfgen.rewriting.conditions import onnx_nodes
from runtime.mapped import MappedProgram

Make = Callable[[Mapping[str, int]], MappedPlan]
"""Makes the plan of layers on processors."""


@dataclass(frozen=True, slots=True)
class Times:
    """What was measured. units: names of layers that are fused to one. seconds: of each unit on each processor, infinite where it
    has no kernels; copying: of a byte that it takes from another one; turn: of calls that start a part.
    """

    units: tuple[tuple[str, ...], ...]
    seconds: tuple[tuple[float, ...], ...]
    copying: tuple[float, ...]
    turn: tuple[float, ...]


def measure_processors(
    network: Network, kernels: Sequence[Backend], make: Make, feeds: Mapping[str, np.ndarray]
) -> Times:
    """The times of all layers on all processors, whose backends these are. Raises what plans and programs raise."""
    branches = find_branches(network)
    refused = [{one.name for one in network.layers if each.refusal(one)} for each in kernels]
    for some in refused:
        ifs = {branches.get(name) for name in some}
        some |= {name for name, branch in branches.items() if branch in ifs}
    others = {
        name: next((k for k, some in enumerate(refused) if name not in some), 0)
        for name in set[str]().union(*refused)
    }
    seconds, copying, turn = [], [], []
    units: Sequence[tuple[str, ...]] = ()
    for number, lacking in enumerate(refused):
        names = (one.name for one in network.layers)
        mapping = {name: others[name] if name in lacking else number for name in names}
        program = MappedProgram(make(mapping))
        fused = [layer for part in program.plan.parts for layer in part.plan.network.layers]
        units = units or _units(network, fused, branches)
        calls, spent = program.time_calls(feeds), program.time_actors(feeds)
        own = [k for k, part in enumerate(program.plan.parts) if part.processor == number]
        nodes, taken, size = dict[str, float](), 0.0, 0
        for k in own:
            plan = program.plan.parts[k].plan
            for layer in plan.network.layers:
                first = onnx_nodes(layer)[0]
                nodes[first] = nodes.get(first, 0.0) + spent[k].get(layer.name, 0.0)
            inputs = [work.name for work in plan.conversion.actors if work.kind == "input"]
            taken += sum(spent[k].get(name, 0.0) for name in inputs)
            size += sum(tensor.nbytes for tensor in plan.network.inputs)
        known = {
            one.name: sum(nodes.get(node, 0.0) for node in onnx_nodes(one))
            for one in network.layers
        }
        each = (inf if lacking & {*unit} else sum(known[name] for name in unit) for unit in units)
        seconds.append(tuple(each))
        copying.append(taken / max(1, size))
        turn.append(sum(calls[k] for k in own) / max(1, len(own)))
    return Times(tuple(units), tuple(seconds), tuple(copying), tuple(turn))


def _units(
    network: Network, fused: Sequence[Layer], branches: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Names of layers that are fused to one, or of one If, in an order in which units are computed. What no fused layer stands
    for belongs to the layer in front of it.
    """
    of_node = {node: layer.name for layer in fused for node in onnx_nodes(layer)}
    unit: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for layer in network.layers:
        known = [of_node[node] for node in onnx_nodes(layer) if node in of_node]
        before = [network.producer.get(one.name) for one in layer.inputs if one is not None]
        known += [unit[one.name] for one in before if one is not None]
        name = branches.get(layer.name) or (known[0] if known else layer.name)
        unit[layer.name] = name
        found.setdefault(name, []).append(layer.name)
    number = {layer.name: at for at, layer in enumerate(network.layers)}
    return sorted(map(tuple, found.values()), key=lambda names: number[names[-1]])
