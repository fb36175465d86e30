"""How does a small network of fully connected layers become a model in each of the paper's four formats?

`build_model` writes them with the paper's quantizers, in QDQ form: unsigned integers, ranges of weights are those
of their values, ranges of tensors are observed, biases are 32-bit integers of the scale that products have.
`quantize_network` has `csdfgen.quantize` write them: signed, weights in int8 for each output, int16 for tensors alone.
Both are run by csdfgen like any model of a user; `run_paper_integers` computes the integers of the first by the
paper's own arithmetic instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import runtime
from csdfgen.backends import ALWAYS
from csdfgen.backends.registry import choose_backend
from csdfgen.model.options import PlanOptions
from csdfgen.paper.cells import Cell
from csdfgen.paper.formats.printed import FORMATS
from csdfgen.paper.formulas.integers import (
    Factor,
    multiply_separated,
    relu,
    rescale_sums,
    shift_bits,
)
from csdfgen.paper.formulas.quantizers import TYPES, Quantizer, Range
from csdfgen.planning.planner import plan_fixed_heights
from csdfgen.precision.quantize import quantize
from csdfgen.reading.loader import load

OPSET = 21
"""The first in which 16-bit integers are quantized by standard operators."""

IR_VERSION = 10


@dataclass(frozen=True, slots=True)
class Dense:
    """A fully connected layer: weight (outputs, inputs), bias (outputs,), float64; relu behind it."""

    weight: np.ndarray
    bias: np.ndarray
    relu: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """Ranges that were seen: of the input, and of every layer's sums and of its result."""

    given: Range
    sums: tuple[Range, ...]
    results: tuple[Range, ...]


def run_in_floats(layers: Sequence[Dense], x: np.ndarray) -> np.ndarray:
    """What the network gives for (samples, inputs), in float64: (samples, outputs)."""
    for layer in layers:
        x = x @ layer.weight.T + layer.bias
        x = np.maximum(x, 0) if layer.relu else x
    return x


def observe_ranges(layers: Sequence[Dense], x: np.ndarray) -> Observed:
    """The ranges while the samples pass. Raises InputError for values that are not finite."""
    sums, results, given = [], [], Range().observed(x)
    for layer in layers:
        x = x @ layer.weight.T + layer.bias
        sums.append(Range().observed(x))
        x = np.maximum(x, 0) if layer.relu else x
        results.append(Range().observed(x))
    return Observed(given, tuple(sums), tuple(results))


# As ONNX ----------------------------------------------------------------------------------------


def build_model(format_: str, layers: Sequence[Dense], seen: Observed) -> onnx.ModelProto:
    """The network on (1, inputs), input and output in float; format_: one of the paper's four."""
    graph = _Graph("float16" if format_ == "float16" else "float32")
    dtype = TYPES.get(format_)
    name, scale = "x", 1.0
    if dtype:
        quantizer = Quantizer.of(seen.given.with_zero(), dtype)
        name, scale = graph.quantized(name, quantizer), quantizer.scale
    for k, (layer, result) in enumerate(zip(layers, seen.results, strict=True)):
        if dtype:
            weights = _weights(layer, dtype)
            w = graph.integers(f"w{k}", weights.integers(layer.weight), weights)
            b = graph.bias(f"b{k}", layer.bias, scale * weights.scale)
        else:
            w, b = graph.floats(f"w{k}", layer.weight), graph.floats(f"b{k}", layer.bias)
        name = graph.add("Gemm", (name, w, b), f"y{k}", transB=1)
        if layer.relu:
            name = graph.add("Relu", (name,), f"r{k}")
        if dtype:
            quantizer = Quantizer.of(result.with_zero(), dtype)
            name, scale = graph.quantized(name, quantizer), quantizer.scale
    return graph.model(layers[0].weight.shape[1], len(layers[-1].bias), name)


def _weights(layer: Dense, dtype: str) -> Quantizer:
    return Quantizer.of(Range().observed(layer.weight).with_zero(), dtype)


def quantize_network(format_: str, layers: Sequence[Dense], x: np.ndarray) -> onnx.ModelProto:
    """The same by `csdfgen.quantize`, observed on samples (n, inputs); the float model for float32. Raises
    InputError.
    """
    floats = build_model("float32", layers, observe_ranges(layers, x))
    if format_ == "float32":
        return floats
    return quantize(floats, x.astype(np.float32), format=format_, method="minmax").model


class _Graph:
    """A model being written; every value is called by its name."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def add(self, op_type: str, inputs: Sequence[str], name: str, **attributes: int) -> str:
        node = helper.make_node(op_type, list(inputs), [name], name)
        node.attribute.extend(helper.make_attribute(key, of) for key, of in attributes.items())
        self._nodes.append(node)
        return name

    def constant(self, name: str, values: np.ndarray) -> str:
        self._constants.append(numpy_helper.from_array(values, name))
        return name

    def floats(self, name: str, values: np.ndarray) -> str:
        return self.constant(name, values.astype(self._dtype))

    def _form(self, name: str, quantizer: Quantizer) -> tuple[str, str]:
        zero = np.array(quantizer.zero_point, quantizer.dtype)
        return (
            self.floats(f"{name}_scale", np.array(quantizer.scale)),
            self.constant(f"{name}_zero", zero),
        )

    def quantized(self, name: str, quantizer: Quantizer) -> str:
        """The value behind QuantizeLinear and DequantizeLinear."""
        form = self._form(name, quantizer)
        stored = self.add("QuantizeLinear", (name, *form), f"{name}_q")
        return self.add("DequantizeLinear", (stored, *form), f"{name}_dq")

    def integers(self, name: str, stored: np.ndarray, quantizer: Quantizer) -> str:
        """Constant integers behind DequantizeLinear."""
        form = self._form(name, quantizer)
        return self.add("DequantizeLinear", (self.constant(f"{name}_q", stored), *form), name)

    def bias(self, name: str, values: np.ndarray, scale: float) -> str:
        kind = np.iinfo(np.int32)
        stored = np.clip(np.rint(values / scale), kind.min, kind.max).astype(np.int32)
        form = self.floats(f"{name}_scale", np.array(scale))
        return self.add("DequantizeLinear", (self.constant(f"{name}_q", stored), form), name)

    def model(self, inputs: int, outputs: int, last: str) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self._dtype))
        graph = helper.make_graph(
            self._nodes,
            "dense",
            [helper.make_tensor_value_info("x", kind, [1, inputs])],
            [helper.make_tensor_value_info(last, kind, [1, outputs])],
            self._constants,
        )
        assert kind in (TensorProto.FLOAT, TensorProto.FLOAT16)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def run_model(model: onnx.ModelProto, x: np.ndarray, backend: str = ALWAYS) -> np.ndarray:
    """What csdfgen gives for (samples, inputs), one sample after the other: float64 (samples, outputs)."""
    network = load(model)
    options = PlanOptions(backend=backend)
    plan = plan_fixed_heights(network, options, choose_backend(options))
    frame = runtime.compile(plan, backend=backend)
    (name,) = (tensor.name for tensor in network.outputs)
    x = x.astype(network.inputs[0].dtype)
    return np.concatenate([frame(one[None])[name] for one in x]).astype(np.float64)


# By the paper's arithmetic ----------------------------------------------------------------------


def run_paper_integers(
    format_: str, layers: Sequence[Dense], seen: Observed, x: np.ndarray, wide: bool
) -> np.ndarray:
    """The same integers by formulas 1.6 to 1.8 and Listing 1.4, truncated: float64 (samples, outputs).

    format_: "int8" or "int16"; wide: whether the device has vectors of 64-bit integers.
    """
    dtype = TYPES[format_]
    bits = shift_bits(np.dtype(dtype).itemsize, wide)
    now = Quantizer.of(seen.given.with_zero(), dtype)
    q = now.integers(x)
    for layer, sums, result in zip(layers, seen.sums, seen.results, strict=True):
        weights = _weights(layer, dtype)
        scale = now.scale * weights.scale
        stored = weights.integers(layer.weight).T
        products = multiply_separated(q, stored, now.zero_point, weights.zero_point)
        products += np.rint(layer.bias / scale).astype(np.int64)
        now = Quantizer.of(sums.with_zero(), dtype)
        q = rescale_sums(products, Factor.of(scale / now.scale, bits), now.zero_point, dtype)
        if layer.relu:
            before, now = now, Quantizer.of(result.with_zero(), dtype)
            factor = Factor.of(before.scale / now.scale, bits)
            q = relu(q, before.zero_point, factor, now.zero_point, dtype)
    return now.values(q)


def compare_formats(
    table: str, row: str, unit: str, digits: int, layers: Sequence[Dense], shown: np.ndarray,
    x: np.ndarray, score: Callable[[np.ndarray], float],
) -> Iterator[Cell]:  # fmt: skip
    """What comes out in every format by `csdfgen quantize`, and by the paper's own integers. shown:
    samples that ranges are observed on; x: samples that are tried; score: of their outputs.
    """
    for name in FORMATS:
        ours = score(run_model(quantize_network(name, layers, shown), x))
        yield Cell(table, f"{row}, by `csdfgen quantize`", name, unit, None, ours, digits)
    seen, note = observe_ranges(layers, shown), "truncated, as the paper computes"
    for name in ("int16", "int8"):
        for wide in (True, False):
            ours = score(run_paper_integers(name, layers, seen, x, wide))
            how = f"{row}, Listing 1.4, {'64-bit' if wide else '32-bit'} products"
            yield Cell(table, how, name, unit, None, ours, digits, note)
