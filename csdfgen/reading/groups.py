"""Which layers are a normalization of groups of channels, written as one of instances between two Reshapes?

torch.onnx writes GroupNormalization so: a Reshape makes one channel of each group, and another takes the channels apart
again. As one layer, maps keep their rows and the order of their elements.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from csdfgen.model.network import Layer, Node
from csdfgen.ops import OPERATORS
from csdfgen.ops.composing import OPSET, Composition, Operand

OF_MAPS = ("InstanceNormalization", "GroupNormalization")
"""Operators that normalize by all pixels of a channel or of a group of channels."""


def split_normalization(layer: Layer) -> tuple[Layer, ...]:
    """The layers of a normalization of maps whose input others read too: moments are summed up over its rows, and rows
    are normalized with them. As one layer it would need all rows of its output beside those of its input.
    """
    source, output = layer.inputs[0], layer.output
    if layer.op_type not in OF_MAPS or source is None:
        return (layer,)
    images, channels, *sizes = source.shape
    groups = layer.attributes.get("num_groups", channels)
    parameters = [layer.constants.get(k) for k in (1, 2)]
    if images != 1 or layer.stored is not None or source.dtype != "float32" or source.row_axis != 2:
        return (layer,)
    if any(one is None or one.shape != (channels,) for one in parameters):
        return (layer,)
    make = Composition(Node(layer.name, layer.op_type, OPSET, {}, (source,), (output.name,)))

    def mean(x: Operand) -> Operand:
        """Of each channel, those of its group."""
        pixels = make("GlobalAveragePool", x)
        if groups == channels:
            return pixels
        apart = make.reshaped(pixels, (groups, channels // groups))
        single = make("ReduceMean", apart, np.array([1]), keepdims=1)
        wide = make("Expand", single, np.array(apart.shape))
        return make.reshaped(wide, (1, channels, *(1 for _ in sizes)))

    first = mean(source)
    centred = make("Sub", source, first)
    second = mean(make("Mul", centred, centred))
    # by rows, instead of a second map that waits for its variance
    again = make("Sub", source, first)
    moments = np.zeros(channels, np.float32), make.reshaped(second, (channels,))
    epsilon = layer.attributes["epsilon"]
    made = make("BatchNormalization", again, *parameters, *moments, epsilon=epsilon, opset=15)
    layers = make.written([made])
    if layers[-1].output != output:
        return (layer,)
    nodes = layer.onnx_nodes or (layer.name,)
    return tuple(replace(one, onnx_nodes=nodes) for one in layers)


def group_normalization(before: Layer, normal: Layer, behind: Layer) -> Layer | None:
    """The normalization of groups that three layers are, one after the other; None if they are something else."""
    parts = before, normal, behind
    if [one.op_type for one in parts] != ["Reshape", "InstanceNormalization", "Reshape"]:
        return None
    if any(one.stored is not None for one in parts) or not normal.constants.keys() >= {1, 2}:
        return None
    source, flat, made = before.inputs[0], before.output, behind.output
    if normal.inputs[0] != flat or behind.inputs[0] != normal.output or source is None:
        return None
    shape, groups = source.shape, flat.shape[1]
    if len(shape) < 3 or made.shape != shape or shape[0] != flat.shape[0] or shape[1] % groups:
        return None
    parameters = [np.repeat(normal.constants[k], shape[1] // groups) for k in (1, 2)]
    attributes = {"num_groups": groups, "epsilon": normal.attributes["epsilon"]}
    operands: tuple[Operand | None, ...] = (source, *parameters)
    node = Node(normal.name, "GroupNormalization", 21, attributes, operands, (made.name,))
    merged = OPERATORS["GroupNormalization"].build(node)
    nodes = (name for one in parts for name in (one.onnx_nodes or (one.name,)))
    return replace(merged, onnx_nodes=tuple(nodes))
