"""Products with weights of four bits that were dequantized are products of these weights: MatMulNBits.

Sources: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
Weights of other operators, and those whose scales change from each input to the next, become floats when they are folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
from onnx import helper

from csdfgen.ops.base import MICROSOFT
from csdfgen.ops.block_quantized import pack_pairs
from csdfgen.reading.onnx_file import DAMAGED
from csdfgen.reading.onnx_graph import Graph, Operation
from csdfgen.reading.onnx_schema import attribute_values
from csdfgen.reading.onnx_tensor import FOUR_BITS


def fuse_four_bits(graph: Graph) -> Graph:
    """The graph with MatMul and Gemm replaced where their weights were dequantized from four bits."""
    makers = {name: one for one in graph.operations for name in one.outputs if name}
    found: list[Operation] = []
    for one in graph.operations:
        made: list[Operation] = []
        if not one.domain and one.op_type in ("MatMul", "Gemm"):
            with suppress(*DAMAGED):  # its operator reports the error later
                made = _product(graph, makers, one)
        found += made or [one]
    return replace(graph, operations=tuple(found))


def _product(graph: Graph, makers: Mapping[str, Operation], one: Operation) -> list[Operation]:
    """MatMulNBits, and an Add if there is an addend; [] where the weights are none of such."""
    given, (x, weights, *addend) = attribute_values(one.attributes), one.inputs
    turned, maker = bool(given.get("transB")), makers.get(weights)
    while maker is not None and maker.op_type == "Transpose":
        if attribute_values(maker.attributes).get("perm", (1, 0)) != (1, 0):
            return []
        turned, maker = not turned, makers.get(maker.inputs[0])
    found = None if maker is None else _dequantized(graph, maker)
    adds = "".join(addend) != ""
    if found is None or given.get("transA") or (adds and given.get("beta", 1) != 1):
        return []
    block, *arrays = found
    integers, scales, zeros = (a if turned else a.T for a in arrays)  # (outputs, inputs)
    n, k = integers.shape
    block = (block or 1) if scales.shape[1] > 1 else k + k % 2
    blocks = -(-k // block)
    if scales.shape[1] not in (1, blocks) or scales.shape[0] not in (1, n) or block % 2:
        return []

    fresh, missing = graph.names.fresh, blocks * block - k
    constants = {
        fresh(f"{one.name}/weights"): pack_pairs(np.pad(integers, ((0, 0), (0, missing)))).reshape(
            n, blocks, -1
        ),
        fresh(f"{one.name}/scales"): np.broadcast_to(scales, (n, blocks))
        * np.float32(given.get("alpha", 1)),
        fresh(f"{one.name}/zeros"): pack_pairs(np.broadcast_to(zeros, (n, blocks))),
    }
    for name, array in constants.items():
        graph.constants[name] = array
    product = fresh(f"{one.outputs[0]}/product") if adds else one.outputs[0]
    settings = {"K": k, "N": n, "bits": 4, "block_size": block}
    attributes = {name: helper.make_attribute(name, value) for name, value in settings.items()}
    given = {"domain": MICROSOFT, "opset": 1, "attributes": attributes}
    made = one.other("MatMulNBits", (x, *constants), (product,), **given)
    return [made] + [one.other("Add", (product, *addend), one.outputs)] * adds


def _dequantized(
    graph: Graph, maker: Operation
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray] | None:
    """What a DequantizeLinear makes a matrix of, if that is of four bits: the size of blocks, integers from 0 to 15, and
    scales and zero points, of which an axis has one, one an index, or one a block.
    """
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
    given = attribute_values(maker.attributes)
    axis, block = given.get("axis", 1), given.get("block_size", 0)
    one = block if block > 0 else 1 if scales.size > 1 else integers.shape[axis]
    shape = [size if block else 1 for size in integers.shape]
    shape[axis] = -(-integers.shape[axis] // one)
    own = scales.shape == tuple(shape) or (
        not block and scales.ndim < 2 and scales.size == shape[axis]
    )
    if not own or zero.dtype != integers.dtype or zero.shape != scales.shape:
        return None
    first = 8 if integers.dtype.name == "int4" else 0
    quantized, zero = ((a.astype(np.int8) + first).astype(np.uint8) for a in (integers, zero))
    return block, quantized, scales.reshape(shape), zero.reshape(shape)
