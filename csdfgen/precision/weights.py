"""Which integers are the weights of a model that the tool has written, and which should they be?

onnxruntime's tool rounds each weight to the nearest integer of its filter's scale. Here weights are rounded again by
the windows that calibration showed (`rounding`), and biases compensate for the mean that remains; scales stay.

The tool writes biases for an input and weights in int8, in steps of the product of both scales. Once the input is in
int16 such a step is up to 257 times the product of the scales: a bias of 32 degrees would be off by as much as all
65,536 steps of the tensors together. Such biases are written again from the float model, in steps of their products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.ops.stored import read_values
from csdfgen.precision.calibrate import Sample
from csdfgen.precision.noise import trace_values
from csdfgen.precision.products import KINDS, number
from csdfgen.precision.rounding import Moments, bias_correction, collect_windows, round_weights
from csdfgen.precision.writer import WIDE, replace_arrays, use_known_domains

_BIASED = ("Conv", "ConvTranspose", "Gemm")


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A layer with weights in integers. output: the name of what it makes in the float model. weights, bias:
    of constants ("": no bias in integers); axis: along which there are scales.
    """

    output: str
    weights: str
    bias: str
    integers: np.ndarray
    scale: np.ndarray
    bias_integers: np.ndarray | None
    bias_scale: np.ndarray | None
    axis: int
    alone: bool

    @property
    def values(self) -> np.ndarray:
        """The weights as values."""
        axis = self.axis if self.scale.size > 1 else None
        scales = tuple(self.scale.reshape(-1).tolist())
        return read_values(self.integers, Format(str(self.integers.dtype), scales, (0,), axis))

    @property
    def bias_values(self) -> np.ndarray | None:
        """The bias as values."""
        if self.bias_integers is None or self.bias_scale is None:
            return None
        return self.bias_integers.astype(np.float32) * self.bias_scale


def read_weight_values(
    source: onnx.ModelProto, model: onnx.ModelProto
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Layer's output -> its weights and bias as they are once they have been integers. source: the float
    model.
    """
    return {one.output: (one.values, one.bias_values) for one in _weighted(source, model)}


def count_weights(source: onnx.ModelProto, model: onnx.ModelProto) -> dict[str, int]:
    """Layer's output -> the number of its weights, of layers that have theirs alone. source: the float model."""
    return {one.output: one.integers.size for one in _weighted(source, model) if one.alone}


def widen_weights(
    source: onnx.ModelProto, model: onnx.ModelProto, outputs: Collection[str]
) -> onnx.ModelProto:
    """The model with weights of 16 bits in the layers that make these tensors; biases stay (see `biases`).
    source: the float model. Weights that several layers have stay too.
    """
    if not outputs:
        return model
    floats = {one.name: one for one in source.graph.initializer}
    arrays: dict[str, np.ndarray] = {}
    for one in _weighted(source, model):
        name = one.weights.removesuffix("_quantized")
        if one.output not in outputs or not one.alone:
            continue
        scale = one.scale * np.float32(np.iinfo(np.int8).max / np.iinfo(np.int16).max)
        shape = [1] * one.integers.ndim
        if scale.size > 1:
            shape[one.axis] = -1
        weights = numpy_helper.to_array(floats[name]).astype(np.float64)
        integers = np.rint(weights / scale.astype(np.float64).reshape(shape))
        info = np.iinfo(np.int16)
        arrays[one.weights] = np.clip(integers, info.min + 1, info.max).astype(np.int16)
        arrays[f"{name}_scale"] = scale
        arrays[f"{name}_zero_point"] = np.zeros(scale.shape, np.int16)
    return use_known_domains(replace_arrays(model, arrays))


def _weighted(source: onnx.ModelProto, model: onnx.ModelProto) -> Iterator[_Weighted]:
    constants = {one.name: one for one in model.graph.initializer}
    axes = {
        node.input[0]: int(number(node, "axis", 1))
        for node in model.graph.node
        if node.op_type == "DequantizeLinear"
    }
    times = Counter(name for node in source.graph.node for name in node.input)
    for node in source.graph.node:
        if node.op_type not in KINDS or len(node.input) < 2:
            continue
        name, bias = f"{node.input[1]}_quantized", ""
        if name not in constants or name not in axes:
            continue
        if len(node.input) > 2 and f"{node.input[2]}_quantized" in constants:
            bias = f"{node.input[2]}_quantized"
        yield _Weighted(
            node.output[0],
            name,
            bias,
            numpy_helper.to_array(constants[name]),
            numpy_helper.to_array(constants[f"{node.input[1]}_scale"]),
            numpy_helper.to_array(constants[bias]) if bias else None,
            numpy_helper.to_array(constants[f"{bias}_scale"]) if bias else None,
            axes[name],
            times[node.input[1]] == 1,
        )


def refit_weights(
    source: onnx.ModelProto,
    model: onnx.ModelProto,
    network: Network,
    samples: Sequence[Sample],
    progress: Callable[[int, int], None] | None = None,
) -> onnx.ModelProto:
    """The model with other integers of weights and biases, for the least error on these samples.

    source, network: the float model. progress: (done, in all).
    """
    layers = {layer.output.name: layer for layer in network.layers}
    # what several layers share cannot suit each
    weighted = (one for one in _weighted(source, model) if one.alone)
    found = {one.output: one for one in weighted if one.output in layers}
    moments: dict[str, Moments] = {}
    total = len(samples) + len(found)
    for done, sample in enumerate(samples):
        values = trace_values(network, sample)
        for name in found:
            tensor = layers[name].inputs[0]
            if tensor is None:
                continue
            seen = collect_windows(layers[name], tensor.to_onnx(values[tensor.name]))
            if seen is not None:
                windows, weights = seen
                moments.setdefault(name, Moments.of(weights, windows.shape[1])).see(windows)
        if progress is not None:
            progress(done + 1, total)
    arrays: dict[str, np.ndarray] = {}
    for done, (name, one) in enumerate(found.items()):
        if name in moments:
            arrays.update(_anew(one, layers[name].constants[1], moments.pop(name)))
        if progress is not None:
            progress(len(samples) + done + 1, total)
    return replace_arrays(model, arrays)


def _anew(one: _Weighted, weights: np.ndarray, seen: Moments) -> dict[str, np.ndarray]:
    """Constants of a layer. weights: its float ones, as the model has them."""
    turned = one.integers.ndim == 2 and one.axis == 1  # (terms, outputs)
    flat = weights.T if turned else weights.reshape(len(weights), -1)
    flat = np.ascontiguousarray(flat, np.float64)
    scale = np.broadcast_to(one.scale.reshape(-1), len(flat)).astype(np.float64)
    integers = round_weights(flat, scale, seen)
    found = {
        one.weights: np.ascontiguousarray(integers.T if turned else integers).reshape(
            one.integers.shape
        )
    }
    if one.bias_integers is not None and one.bias_scale is not None:
        added = bias_correction(flat, integers * scale[:, None], seen)
        info = np.iinfo(np.int32)
        moved = one.bias_integers + np.rint(added.reshape(one.bias_integers.shape) / one.bias_scale)
        found[one.bias] = np.clip(moved, info.min, info.max).astype(np.int32)
    return found


def refine_biases(model: onnx.ModelProto, floats: onnx.ModelProto) -> onnx.ModelProto:
    """A quantized model in which the bias of a layer with an input or weights of 16 bits has the scale of input times
    weights.

    floats: the prepared float model that it was made from. The correction that rounding weights of 8 bits has added to
    a bias is kept. A bias that several layers share, and one that would not fit 32 bits, stays as it is.
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
    return replace_arrays(model, new)
