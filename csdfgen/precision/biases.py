"""How fine is the bias of a layer whose input or weights have 16 bits? As fine as its products.

onnxruntime's tool writes biases for an input and weights in int8, in steps of the product of both scales. Once
the input is in int16 such a step is up to 257 times what a product is worth: a bias of 32 degrees would be off by as
much as all 65,536 steps of the tensors together. Here it is written anew from the float model.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.precision.writer import WIDE, with_arrays

__all__ = ["with_fine_biases"]

_BIASED = ("Conv", "ConvTranspose", "Gemm")


def with_fine_biases(model: onnx.ModelProto, floats: onnx.ModelProto) -> onnx.ModelProto:
    """A quantized model whose biases beside inputs or weights of 16 bits have the scale of input times
    weights.

    floats: the prepared float model that it was made of. What was added to a bias in whole steps, for what
    rounding takes from the weights, stays added where those have 8 bits. A bias that several layers have, and
    one that would leave 32 bits, stays as it is.
    """
    new: dict[str, np.ndarray] = {}
    constants = {one.name: one for one in model.graph.initializer}
    values = {one.name: one for one in floats.graph.initializer}
    dequantized = {n.output[0]: n for n in model.graph.node if n.op_type == "DequantizeLinear"}
    layers = [n for n in model.graph.node if n.op_type in _BIASED and len(n.input) > 2]
    readers = [node.input[2] for node in layers]
    for layer in layers:
        x, w, b = (dequantized.get(name) for name in layer.input[:3])
        if x is None or w is None or b is None or readers.count(layer.input[2]) > 1:
            continue
        parts = x.input[1], x.input[2], w.input[1], w.input[0], b.input[0], b.input[1]
        if layer.input[2] not in values or any(name not in constants for name in parts):
            continue
        step, zero, steps, weights, stored, scale = (constants[name] for name in parts)
        fine_weights = weights.data_type in WIDE
        if not fine_weights and zero.data_type not in WIDE:
            continue
        product = numpy_helper.to_array(step) * numpy_helper.to_array(steps)
        bias = numpy_helper.to_array(values[layer.input[2]])
        fine = np.broadcast_to(product.reshape(-1), numpy_helper.to_array(scale).reshape(-1).shape)
        coarse = numpy_helper.to_array(scale).reshape(-1).astype(np.float64)
        moved = numpy_helper.to_array(stored) - np.rint(bias / coarse)  # what makes weights good
        if fine_weights:
            moved = np.zeros_like(moved)  # they take nothing
        whole = np.rint((bias + moved * coarse) / fine)
        if np.abs(whole).max(initial=0) > np.iinfo(np.int32).max:
            continue
        new[stored.name] = whole.astype(np.int32)
        new[scale.name] = fine.reshape(tuple(scale.dims)).astype(np.float32)
    return with_arrays(model, new)
