"""What do whole layers take? One after another, each tensor whole from its layer to its last reader."""

from __future__ import annotations

from collections.abc import Iterator

from csdfgen.model.network import Network

__all__ = ["whole_layer_live", "whole_layers"]


def whole_layer_live(network: Network) -> int:
    """Most bytes alive at one time when layers run whole, one after another, and dead tensors are
    freed.
    """
    return max((live for _, live in whole_layers(network)), default=0)


def whole_layers(network: Network) -> Iterator[tuple[str, int]]:
    """The same for each layer: its name, and the bytes alive while it runs."""
    last = {t.name: at for at, layer in enumerate(network.layers) for t in layer.inputs if t}
    live = sum(tensor.nbytes for tensor in network.inputs if tensor.name in last)
    for at, layer in enumerate(network.layers):
        live += sum(tensor.nbytes for tensor in layer.outputs)
        yield layer.name, live
        touched = {t.name: t for t in (*layer.inputs, *layer.outputs) if t is not None}
        for tensor in touched.values():
            if last.get(tensor.name, at) == at and tensor.name not in network.output_tensors:
                live -= tensor.nbytes
