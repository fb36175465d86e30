"""How is a network cut into stages? At tensors: each stage is a network that computes those of the next cut.

What crosses a cut stays where it is stored: an input of a stage may come from any stage in front, and an output that is
read further back passes the stages between untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType

from csdfgen.errors import InputError
from csdfgen.model.network import Layer, Network, Output, Tensor

_SHOWN = 6


def cut(network: Network, cuts: Sequence[Iterable[str]]) -> tuple[Network, ...]:
    """The stages between cuts. cuts: for each, names of the tensors that it needs: the stages in front of it are the layers
    that they are computed from.

    A stage's inputs are what it reads and does not compute; its outputs are what later stages read, and outputs of the
    network, under their own names. Outputs that no layer computes belong to the last stage. Raises InputError for tensors that
    the network does not compute, and for a stage without layers.
    """
    _check(network, cuts)
    number = {layer.name: at for at, layer in enumerate(network.layers)}
    left, groups = set(number), []
    for tensors in cuts:
        front = _ancestors(network, tensors) & left
        groups.append(sorted(front, key=number.__getitem__))
        left -= front
    groups.append(sorted(left, key=number.__getitem__))
    for at, group in enumerate(groups):
        if not group:
            where = f"in front of cut {at + 1}" if at < len(cuts) else "behind the last cut"
            raise InputError(f"no layer of '{network.name}' is {where}; leave that cut out")
    return divide(network, groups)


def divide(network: Network, groups: Sequence[Sequence[str]]) -> tuple[Network, ...]:
    """A stage for each group of layers, by their names in the order of the network; groups only read what groups in front
    of them compute.
    """
    known = {layer.name: layer for layer in network.layers}
    layers = [[known[name] for name in group] for group in groups]
    return tuple(_stage(network, layers, at) for at in range(len(layers)))


def crossing(stages: Sequence[Network], at: int) -> tuple[Tensor, ...]:
    """Tensors that stages in front of number `at` compute, or the network takes, and stages from there on read."""
    made = {one.name: one for stage in stages[:at] for one in stage.inputs}
    made |= {
        one.tensor.name: one.tensor
        for stage in stages[:at]
        for one in stage.outputs
        if one.tensor is not None
    }
    read = {one.name for stage in stages[at:] for one in stage.inputs}
    return tuple(tensor for name, tensor in made.items() if name in read)


def _check(network: Network, cuts: Sequence[Iterable[str]]) -> None:
    if network.original is not None:
        raise InputError(f"'{network.name}' is cut into tiles of columns; cut it into stages first")
    for tensors in cuts:
        for name in tensors:
            if name not in network.producer:
                known = list(network.producer)[:_SHOWN]
                raise InputError(
                    f"'{name}' is no tensor that '{network.name}' computes; it computes {', '.join(known)}, ..."
                )


def _ancestors(network: Network, tensors: Iterable[str]) -> set[str]:
    """Names of the layers that tensors are computed from."""
    found: set[str] = set()
    waiting = list(tensors)
    while waiting:
        layer = network.producer.get(waiting.pop())
        if layer is not None and layer.name not in found:
            found.add(layer.name)
            waiting += [tensor.name for tensor in layer.inputs if tensor is not None]
    return found


def _stage(network: Network, layers: Sequence[Sequence[Layer]], at: int) -> Network:
    """Stage number `at` of these groups of layers."""
    own = {tensor.name: tensor for layer in layers[at] for tensor in layer.outputs}
    read = {one.name: one for layer in layers[at] for one in layer.inputs if one is not None}
    later = {
        one.name
        for group in layers[at + 1 :]
        for layer in group
        for one in layer.inputs
        if one is not None
    }
    inputs = tuple(tensor for name, tensor in read.items() if name not in own)
    last = at == len(layers) - 1
    ends = [
        output
        for output in network.outputs
        if (last if output.tensor is None else output.tensor.name in own)
    ]
    named = {output.name for output in ends}
    ends += [Output(name, own[name]) for name in own if name in later and name not in named]
    bounded = {name: axis for name, axis in network.bounded.items() if name in own or name in read}
    return replace(
        network,
        name=f"{network.name}, stage {at + 1} of {len(layers)}",
        inputs=inputs,
        outputs=tuple(ends),
        layers=tuple(layers[at]),
        source="",
        fixed=MappingProxyType({}),
        bounded=MappingProxyType(bounded),
    )
