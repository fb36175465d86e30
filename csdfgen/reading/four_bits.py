"""Products with weights of four bits that were dequantized are products of these weights: MatMulNBits.

Sources: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
Weights of other operators, and those whose scales change from each input to the next, become floats when they are folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from onnx import helper

from csdfgen.ops.base import MICROSOFT
from csdfgen.reading.onnx_graph import Graph, Operation
from csdfgen.reading.onnx_schema import attribute_values
from csdfgen.reading.onnx_tensor import FOUR_BITS

__all__ = ["in_four_bits"]


class _Weights(NamedTuple):
    """Integers from 0 to 15 of a matrix; scales and zero points, along each axis one, one an index, or one for each `block`."""

    integers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray
    block: int

    @property
    def turned(self) -> _Weights:
        return _Weights(self.integers.T, self.scales.T, self.zeros.T, self.block)


def in_four_bits(graph: Graph) -> Graph:
    """The graph with MatMul and Gemm replaced where their weights were dequantized from four bits."""
    makers = {name: one for one in graph.operations for name in one.outputs if name}
    found: list[Operation] = []
    for one in graph.operations:
        is_product = not one.domain and one.op_type in ("MatMul", "Gemm") and len(one.inputs) > 1
        found += (is_product and _product(graph, makers, one)) or [one]
    return replace(graph, operations=tuple(found))


def _product(
    graph: Graph, makers: Mapping[str, Operation], one: Operation
) -> list[Operation] | None:
    given = attribute_values(one.attributes)
    w = _weights(graph, makers, one.inputs[1])
    adds = len(one.inputs) > 2 and one.inputs[2] != ""
    if w is None or given.get("transA") or (adds and given.get("beta", 1) != 1):
        return None
    inputs, scales, zeros, block = w if given.get("transB") else w.turned  # (outputs, inputs)
    n, k = inputs.shape
    block = (block or 1) if scales.shape[1] > 1 else k + k % 2
    blocks = -(-k // block)
    if scales.shape[1] not in (1, blocks) or scales.shape[0] not in (1, n) or block % 2:
        return None
    constants = (
        _pairs(inputs, blocks * block).reshape(n, blocks, block // 2),
        np.broadcast_to(scales * np.float32(given.get("alpha", 1)), (n, blocks)).copy(),
        _pairs(np.broadcast_to(zeros, (n, blocks)), blocks + blocks % 2),
    )
    names = []
    for what, array in zip(("weights", "scales", "zeros"), constants, strict=True):
        names.append(f"{one.name}/{what}")
        while names[-1] in graph.constants or names[-1] in makers:
            names[-1] += "'"
        graph.constants[names[-1]] = array
    product = f"{one.outputs[0]}/product" if adds else one.outputs[0]
    while adds and (product in graph.constants or product in makers):
        product += "'"
    settings = {"K": k, "N": n, "bits": 4, "block_size": block}
    made = replace(
        one, op_type="MatMulNBits", domain=MICROSOFT, opset=1, inputs=(one.inputs[0], *names), outputs=(product,),
        attributes={name: helper.make_attribute(name, value) for name, value in settings.items()},
    )  # fmt: skip
    if not adds:
        return [made]
    return [made, replace(one, op_type="Add", attributes={}, inputs=(product, one.inputs[2]))]


def _weights(graph: Graph, makers: Mapping[str, Operation], name: str) -> _Weights | None:
    """The weights that a name stands for, if they are such."""
    maker = makers.get(name)
    if maker is None or maker.domain:
        return None
    given = attribute_values(maker.attributes)
    if maker.op_type == "Transpose" and given.get("perm", (1, 0)) == (1, 0):
        found = _weights(graph, makers, maker.inputs[0])
        return None if found is None else found.turned
    names = [n for n in maker.inputs if n]
    if maker.op_type != "DequantizeLinear" or not all(n in graph.constants for n in names):
        return None
    integers, scales, *zeros = (graph.constants[n] for n in names)
    if (
        integers.dtype.name not in FOUR_BITS.values()
        or integers.ndim != 2
        or scales.dtype != np.float32
    ):
        return None
    zero = zeros[0] if zeros else np.zeros(scales.shape, integers.dtype)
    axis, block = given.get("axis", 1), given.get("block_size", 0)
    if zero.dtype != integers.dtype or zero.shape != scales.shape or not -2 <= axis < 2:
        return None
    shape = tuple(scales.size if k == axis % 2 else 1 for k in range(2))
    if block:
        shape = tuple(-(-s // block) if k == axis % 2 else s for k, s in enumerate(integers.shape))
    elif scales.size > 1 and scales.size != integers.shape[axis]:
        return None
    if scales.size != np.prod(shape) or (scales.ndim > 1 and scales.shape != shape):
        return None
    first = 8 if integers.dtype.name == "int4" else 0
    numbers = [(array.astype(np.int8) + first).astype(np.uint8) for array in (integers, zero)]
    return _Weights(numbers[0], scales.reshape(shape), numbers[1].reshape(shape), block)


def _pairs(integers: np.ndarray, columns: int) -> np.ndarray:
    """Integers along rows, two a byte, with zeros behind them."""
    padded = np.pad(integers, ((0, 0), (0, columns - integers.shape[1])))
    return padded[:, ::2] | padded[:, 1::2] << 4
