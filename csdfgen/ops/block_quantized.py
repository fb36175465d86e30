"""Operators of onnxruntime's own domain whose weights are small integers with a scale for each block of them: the weights
become floats when a network is read.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Node
from csdfgen.ops._operands import normal_axis
from csdfgen.ops.base import MICROSOFT, REQUIRED, Operator, require_constant, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed

__all__ = ["OPERATORS"]

Results = Iterable[Operand | None]


def _bits(node: Node) -> int:
    bits = int(node.attributes.get("bits", 4))
    if bits not in (2, 4, 8):
        raise ModelError(f"bits={bits}; 2, 4 or 8 are supported")
    return bits


def _unpacked(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first `count` integers along the last axis of bytes that hold several each, the lowest bits first."""
    if packed.dtype != np.uint8:
        raise ModelError(f"weights of {packed.dtype}; bytes (uint8) are needed")
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    apart = packed[..., None] >> shifts & np.uint8(2**bits - 1)
    return apart.reshape(*packed.shape[:-1], -1)[..., :count]


def _floats(
    integers: np.ndarray, scales: np.ndarray, zero: np.ndarray | int, groups: np.ndarray, axis: int
) -> np.ndarray:
    """Integers as floats of the scales' type. groups: for each position of the axis the number of its scale and zero
    point.
    """
    if isinstance(zero, np.ndarray):
        zero = np.take(zero, groups, axis).astype(np.float32)
    centred = integers.astype(np.float32) - zero
    wanted = (*integers.shape[:axis], scales.shape[axis], *integers.shape[axis + 1 :])
    if scales.shape != wanted or groups.min() < 0 or groups.max() >= scales.shape[axis]:
        raise ModelError(
            f"scales of shape {list(scales.shape)} for weights of shape {list(integers.shape)}; blocks along axis {axis} need "
            f"{list(wanted)}, and {groups.max() + 1} of them"
        )
    return (centred * np.take(scales, groups, axis)).astype(scales.dtype)


def _matmul(make: Composition, node: Node) -> Results:
    """MatMulNBits: each output has its own blocks along the inputs."""
    x, bits = require_tensor(node, 0), _bits(node)
    inputs, outputs, block = (int(node.attributes[name]) for name in ("K", "N", "block_size"))
    if node.attributes.get("weight_prepacked", 0):
        raise ModelError("weight_prepacked=1 is a layout of one machine; export without it")
    blocks = -(-inputs // block)
    packed, scales = require_constant(node, 1), require_constant(node, 2)
    bytes_ = blocks * block * bits // 8
    if packed.size != outputs * bytes_ or scales.size != outputs * blocks:
        raise ModelError(
            f"weights of shape {list(packed.shape)} and {scales.size} scales; {outputs} x {bytes_} bytes and {outputs} x "
            f"{blocks} scales are needed"
        )
    zero: np.ndarray | int = 2 ** (bits - 1)
    if node.operand(3) is not None:
        zero = require_constant(node, 3).reshape(outputs, -1)
        zero = _unpacked(zero, bits, blocks) if zero.dtype == np.uint8 else zero
    groups = np.arange(inputs) // block
    if node.operand(4) is not None:
        groups = require_constant(node, 4)[:inputs]
    integers = _unpacked(packed.reshape(outputs, -1), bits, inputs)
    weights = _floats(integers, scales.reshape(outputs, blocks), zero, groups, 1)
    product, bias = make("MatMul", x, np.ascontiguousarray(weights.T)), node.operand(5)
    return [product if bias is None else make("Add", product, bias)]


def _gathered(make: Composition, node: Node) -> Results:
    """GatherBlockQuantized: lines of a table."""
    indices, bits = require_tensor(node, 1), _bits(node)
    packed, scales = require_constant(node, 0), require_constant(node, 2)
    size = packed.shape[-1] * 8 // bits
    axis = normal_axis(int(node.attributes.get("quantize_axis", 1)), packed.ndim)
    integers = _unpacked(packed, bits, size)
    zero: np.ndarray | int = 2 ** (bits - 1)
    if node.operand(3) is not None:
        zero = _unpacked(require_constant(node, 3), bits, scales.shape[-1])
    groups = np.arange(integers.shape[axis]) // int(node.attributes.get("block_size", 128))
    table = _floats(integers, scales, zero, groups, axis)
    return [make("Gather", table, indices, axis=int(node.attributes.get("gather_axis", 0)))]


OPERATORS: tuple[Operator, ...] = (
    composed(
        "MatMulNBits",
        _matmul,
        domain=MICROSOFT,
        attributes={
            "K": REQUIRED,
            "N": REQUIRED,
            "accuracy_level": 0,
            "bits": 4,
            "block_size": REQUIRED,
            "weight_prepacked": 0,
        },
        constant_inputs=(1, 2, 3, 4),
        structure="row-phased; whole when no axis of rows survives the product",
        notes="The weights become floats; the product is one of floats with any accuracy_level.",
        multiplies=True,
    ),
    composed(
        "GatherBlockQuantized",
        _gathered,
        domain=MICROSOFT,
        attributes={"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1},
        constant_inputs=(0, 2, 3),
        notes="Of bytes (uint8), which become a table of floats.",
    ),
)
