"""Which layers are the branches of a special layer of paper 000? Those between two layers of the main path that a join reads.

A component of branches is one layer of the main path, whose call on b images is preceded by each branch on all of them, one
branch after the other. Each branch is a chain with batches of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from csdfgen.model.network import Layer, Network

IN_PLACE = frozenset(("Concat", "Add", "Sum"))
"""Joins into whose result the paper lets the last layer of each branch write."""


def split_branches(network: Network, start: int, stop: int) -> tuple[tuple[int, ...], ...]:
    """Numbers of the layers of each branch, in order, of the layers [start, stop), the last of which joins them; none where
    they are no branches: a single layer, or layers that do not follow each other in rows.
    """
    chains: dict[int, list[int]] = {}
    number = {layer.name: at for at, layer in enumerate(network.layers)}
    join = stop - 1
    for at in range(start, join):
        layer = network.layers[at]
        before = [one for one in _producers(network, layer, number) if one >= start]
        readers = {number[reader.name] for out in layer.outputs for reader, _ in network.readers[out.name]}  # fmt: skip
        if len(before) > 1 or len(layer.outputs) > 1 or len(readers) != 1:
            return ()
        if before and before[0] not in chains:
            return ()
        chain = chains.pop(before[0]) if before else []
        chains[at] = [*chain, at]
    if any(not _is_read_by(network, network.layers[end], join, number) for end in chains):
        return ()
    return tuple(map(tuple, chains.values()))


def _producers(network: Network, layer: Layer, number: dict[str, int]) -> Sequence[int]:
    """Numbers of the layers that a layer reads."""
    found = {
        number[network.producer[one.name].name]
        for one in layer.inputs
        if one is not None and one.name in network.producer
    }
    return sorted(found)


def _is_read_by(network: Network, layer: Layer, join: int, number: dict[str, int]) -> bool:
    return all(number[one.name] == join for one, _ in network.readers[layer.output.name])
