"""Which integers are the weights of a model that the tool has written, and which should they be?

The tool rounds each weight to the nearest integer of its filter's scale. Here they are rounded anew, by what
each layer's windows were (`rounding`), and biases made good for what is left; scales stay.
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
from csdfgen.ops.stored import values_of
from csdfgen.precision.calibrate import Frame
from csdfgen.precision.noise import whole_values
from csdfgen.precision.products import KINDS, number
from csdfgen.precision.rounding import Moments, bias_correction, rounded_weights, windows_of
from csdfgen.precision.writer import in_known_domains, with_arrays

__all__ = ["as_values", "rounded_anew", "sizes_of_weights", "with_wide_weights"]


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
        return values_of(self.integers, Format(str(self.integers.dtype), scales, (0,), axis))

    @property
    def bias_values(self) -> np.ndarray | None:
        """The bias as values."""
        if self.bias_integers is None or self.bias_scale is None:
            return None
        return self.bias_integers.astype(np.float32) * self.bias_scale


def as_values(
    source: onnx.ModelProto, model: onnx.ModelProto
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Layer's output -> its weights and bias as they are once they have been integers. source: the float
    model.
    """
    return {one.output: (one.values, one.bias_values) for one in _weighted(source, model)}


def sizes_of_weights(source: onnx.ModelProto, model: onnx.ModelProto) -> dict[str, int]:
    """Layer's output -> the number of its weights, of layers that have theirs alone. source: the float model."""
    return {one.output: one.integers.size for one in _weighted(source, model) if one.alone}


def with_wide_weights(
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
    return in_known_domains(with_arrays(model, arrays))


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


def rounded_anew(
    source: onnx.ModelProto,
    model: onnx.ModelProto,
    network: Network,
    frames: Sequence[Frame],
    progress: Callable[[int, int], None] | None = None,
) -> onnx.ModelProto:
    """The model with other integers of weights and biases, for the least error on these frames.

    source, network: the float model. progress: (done, in all).
    """
    layers = {layer.output.name: layer for layer in network.layers}
    # what several layers share cannot suit each
    weighted = (one for one in _weighted(source, model) if one.alone)
    found = {one.output: one for one in weighted if one.output in layers}
    moments: dict[str, Moments] = {}
    total = len(frames) + len(found)
    for done, frame in enumerate(frames):
        values = whole_values(network, frame)
        for name in found:
            tensor = layers[name].inputs[0]
            if tensor is None:
                continue
            seen = windows_of(layers[name], tensor.to_onnx(values[tensor.name]))
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
            progress(len(frames) + done + 1, total)
    return with_arrays(model, arrays)


def _anew(one: _Weighted, weights: np.ndarray, seen: Moments) -> dict[str, np.ndarray]:
    """Constants of a layer. weights: its float ones, as the model has them."""
    turned = one.integers.ndim == 2 and one.axis == 1  # (terms, outputs)
    flat = weights.T if turned else weights.reshape(len(weights), -1)
    flat = np.ascontiguousarray(flat, np.float64)
    scale = np.broadcast_to(one.scale.reshape(-1), len(flat)).astype(np.float64)
    integers = rounded_weights(flat, scale, seen)
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
