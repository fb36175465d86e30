"""Which networks read the last step of a recurrent layer alone? There its state takes the place of its sequence.

A classifier of sequences takes the last row of all outputs (`output[:, -1]` in PyTorch), behind views that move
axes. That row is the last hidden value, Y_h; without the sequence, a layer holds one slab of its input.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType

from csdfgen.model.network import Layer, Tensor
from csdfgen.ops import get_operator
from csdfgen.ops.base import Alias, AliasKind


def use_last_states(layers: Sequence[Layer], outputs: Collection[str]) -> list[Layer]:
    """The layers, of which none reads the last row of a sequence alone. outputs: names of tensors that the network
    gives.
    """
    producer = {tensor.name: layer for layer in layers for tensor in layer.outputs}
    readers: dict[str, int] = {}
    for layer in layers:
        for tensor in layer.inputs:
            if tensor is not None:
                readers[tensor.name] = readers.get(tensor.name, 0) + 1
    found = list(layers)
    for layer in layers:
        if not _takes_the_last_row(layer):
            continue
        views: list[Layer] = []
        tensor = layer.computed(0)
        while (maker := producer.get(tensor.name)) is not None and _is_view(maker):
            views.append(maker)
            (tensor,) = (one for one in maker.inputs if one is not None)
        between = [tensor, *(view.output for view in views)]
        alone = all(readers[one.name] == 1 and one.name not in outputs for one in between)
        if (
            maker is None
            or not alone
            or maker.guards != layer.guards
            or not _ends_with_its_state(maker, tensor)
        ):
            continue
        attributes = MappingProxyType({**maker.attributes, "sequence": False})
        last = replace(maker, outputs=maker.outputs[1:], attributes=attributes)
        found[found.index(maker)] = last
        found[found.index(layer)] = Layer(
            layer.name,
            "Reshape",
            (last.output, None),
            layer.outputs,
            input_axes=(None, None),
            onnx_nodes=layer.onnx_nodes,
            guards=layer.guards,
        )
        found = [one for one in found if one not in views]
    return found


def _takes_the_last_row(layer: Layer) -> bool:
    """Whether the result is the last row of the first input, with its elements in their order."""
    source, output = layer.inputs[0] if layer.inputs else None, layer.output
    if layer.op_type not in ("Gather", "Slice") or source is None or source.row_axis is None:
        return False
    if output.elements != source.row_elements or output.rows != 1 or layer.stored is not None:
        return False
    axis, shape = source.row_axis, source.shape
    if layer.op_type == "Gather":
        taken = layer.attributes["axis"] == axis and layer.attributes["indices"].size == 1
        last = taken and int(layer.attributes["indices"].reshape(-1)[0]) == source.rows - 1
    else:
        last = layer.attributes["starts"][axis] == source.rows - 1
    in_order = output.row_axis == axis or 1 in (prod(shape[:axis]), prod(shape[axis + 1 :]))
    return in_order and last


def _is_view(layer: Layer) -> bool:
    """Whether each row is one of the input, its elements in their order."""
    return get_operator(layer).aliases(layer) == (Alias(AliasKind.VIEW, 0),)


def _ends_with_its_state(layer: Layer, sequence: Tensor) -> bool:
    """Whether the last row of a sequence is a state of the layer that makes it."""
    given = layer.attributes
    return (
        given.get("sequence", False)
        and not given["reverse"]
        and sequence == layer.output
        and get_operator(layer).repeats(layer)
    )
