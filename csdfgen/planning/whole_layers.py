"""What do whole layers take? One after another, each tensor whole from its layer to its last reader."""

from __future__ import annotations

from csdfgen.model.network import Network

__all__ = ["whole_layer_live"]


def whole_layer_live(network: Network) -> int:
    """Most bytes alive at one time when layers run whole, one after another, and dead tensors are
    freed.
    """
    last = {t.name: at for at, layer in enumerate(network.layers) for t in layer.inputs if t}
    live = sum(tensor.nbytes for tensor in network.inputs if tensor.name in last)
    peak = live
    for at, layer in enumerate(network.layers):
        live += sum(tensor.nbytes for tensor in layer.outputs)
        peak = max(peak, live)
        for tensor in {
            t.name: t for t in (*layer.inputs, *layer.outputs) if t is not None
        }.values():
            if last.get(tensor.name, at) == at and tensor.name not in network.output_tensors:
                live -= tensor.nbytes
    return peak
