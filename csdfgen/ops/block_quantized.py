"""Operators of onnxruntime's own domain whose weights are small integers with a scale for each block of them. Products with
weights of four bits have a kernel that widens a panel of them at a time; other weights become floats when a network is read.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Tensor, memoize_layer
from csdfgen.ops._operands import normalize_axis
from csdfgen.ops.base import (
    MICROSOFT,
    REQUIRED,
    Call,
    Emit,
    Operator,
    Scratch,
    Work,
    require_constant,
    require_tensor,
)
from csdfgen.ops.composing import Composition, Operand, composed_operator
from csdfgen.ops.linear import MATMUL, prepare_operand

Results = Iterable[Operand | None]

PANEL = 16
"""Outputs whose weights lie side by side, as native kernels read them."""


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
            f"scales of shape {list(scales.shape)} for weights of shape {list(integers.shape)}; blocks along axis "
            f"{axis} need "
            f"{list(wanted)}, and {groups.max() + 1} of them"
        )
    return (centred * np.take(scales, groups, axis)).astype(scales.dtype)


def _matmul(make: Composition, node: Node) -> Results:
    """MatMulNBits: each output has its own blocks along the inputs."""
    x, bits = require_tensor(node, 0), _bits(node)
    inputs, outputs, block = (int(node.attributes[name]) for name in ("K", "N", "block_size"))
    if node.attributes.get("weight_prepacked", 0):
        raise ModelError("weight_prepacked=1 is a layout of one machine; export without it")
    if block < 2 or block % 2:
        raise ModelError(f"block_size={block}; an even number is needed")
    blocks = -(-inputs // block)
    packed, scales = require_constant(node, 1), require_constant(node, 2)
    bytes_ = blocks * block * bits // 8
    if packed.size != outputs * bytes_ or scales.size != outputs * blocks:
        raise ModelError(
            f"weights of shape {list(packed.shape)} and {scales.size} scales; {outputs} x {bytes_} bytes and "
            f"{outputs} x "
            f"{blocks} scales are needed"
        )
    zero: np.ndarray | int = 2 ** (bits - 1)
    if node.operand(3) is not None:
        zero = require_constant(node, 3).reshape(outputs, -1)
        zero = _unpacked(zero, bits, blocks) if zero.dtype == np.uint8 else zero
    integers = _unpacked(packed.reshape(outputs, -1), bits, inputs)
    scales, groups = scales.reshape(outputs, blocks), node.operand(4)
    small = not isinstance(zero, np.ndarray) or zero.dtype == np.uint8
    if bits == 4 and groups is None and small and scales.dtype == x.dtype == "float32":
        product = _of_four_bits(make, x, integers, scales, zero, block)
    else:
        groups = (
            np.arange(inputs) // block if groups is None else require_constant(node, 4)[:inputs]
        )
        weights = _floats(integers, scales, zero, groups, 1)
        product = make("MatMul", x, np.ascontiguousarray(weights.T))
    bias = node.operand(5)
    return [product if bias is None else make("Add", product, bias)]


# Products with weights of four bits ---------------------------------------------------------------


def _of_four_bits(
    make: Composition,
    x: Tensor,
    integers: np.ndarray,
    scales: np.ndarray,
    zero: np.ndarray | int,
    block: int,
) -> Operand:
    """The product as a layer of its own. Its constants are in panels of 16 outputs: weights, two inputs a byte, scales of
    blocks, and zero points, two blocks a byte, unless all are 8.
    """
    outputs, inputs = integers.shape
    if isinstance(zero, np.ndarray) and zero.shape != scales.shape:
        raise ModelError(
            f"zero points of shape {list(zero.shape)} for scales of shape {list(scales.shape)}"
        )
    product = make("MatMul", x, np.broadcast_to(np.float32(0), (inputs, outputs)))
    layer = make.layers[-1]
    constants = {1: pack_pairs(_panels(integers)), 2: _panels(scales)}
    if isinstance(zero, np.ndarray) and np.any(zero != 8):
        constants[3] = pack_pairs(_panels(zero))
    make.layers[-1] = replace(
        layer,
        op_type="MatMulNBits",
        inputs=(x, None, None, None),
        input_axes=(layer.input_axes[0], None, None, None),
        constants=MappingProxyType(constants),
        attributes=MappingProxyType({"K": inputs, "N": outputs, "block_size": block}),
    )
    return product


def _panels(array: np.ndarray) -> np.ndarray:
    """(outputs, ...) as (panels, ..., 16)."""
    padded = np.pad(array, ((0, -len(array) % PANEL), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, PANEL, array.shape[1]).swapaxes(1, 2))


def pack_pairs(integers: np.ndarray) -> np.ndarray:
    """Integers of four bits, two neighbours along axis 1 a byte, the first in its lower half; behind an odd one is a 0."""
    padded = np.pad(integers, [(0, integers.shape[1] % 2 * (k == 1)) for k in range(integers.ndim)])
    return padded[:, ::2] | padded[:, 1::2] << 4


@memoize_layer
def _on_floats(layer: Layer) -> Layer:
    """The layer as a MatMul, with anything for weights."""
    shape = layer.attributes["K"], layer.attributes["N"]
    constants = MappingProxyType({1: np.broadcast_to(np.float32(0), shape)})
    return replace(layer, op_type="MatMul", attributes=MappingProxyType({}), constants=constants)


def _kernel(layer: Layer) -> Emit:
    size, block = layer.attributes["K"], layer.attributes["block_size"]
    packed, scales, zeros = (layer.constants.get(k) for k in (1, 2, 3))
    assert packed is not None and scales is not None

    def widened(pairs: np.ndarray, scratch: Scratch, calls: list[Call]) -> np.ndarray:
        values = scratch.take((len(pairs), 2, PANEL))
        half = scratch.take(pairs.shape, "uint8")
        for k, (function, by) in enumerate(((np.bitwise_and, 15), (np.right_shift, 4))):
            calls += [(function, (pairs, np.uint8(by), half)), (np.copyto, (values[:, k], half))]
        return values.reshape(-1, PANEL)

    def emit(work: Work) -> list[Call]:
        x, calls, scratch = layer.computed(0), list[Call](), work.scratch
        a = replace(x, row_axis=layer.input_axes[0]).to_onnx(work.slab)
        out = layer.output.to_onnx(work.result)
        a, out = (a[None], out[None]) if a.ndim == 1 else (a, out)
        a = prepare_operand(a, np.dtype(np.float32), scratch, calls)
        mark = scratch.mark
        for panel, pairs in enumerate(packed):
            weights = widened(pairs, scratch, calls)
            none = np.float32(8)
            if zeros is not None:
                none = widened(zeros[panel], scratch, calls)[: scales.shape[1]]
            full = len(weights) // block
            parts = (
                (weights[: full * block].reshape(-1, block, PANEL), slice(full)),
                (weights[None, full * block :], slice(full, None)),
            )
            for some, at in parts:
                if some.size:
                    zero = none[at, None] if isinstance(none, np.ndarray) else none
                    scale = scales[panel, at, None]
                    calls += [(np.subtract, (some, zero, some)), (np.multiply, (some, scale, some))]
            target = out[..., panel * PANEL : (panel + 1) * PANEL]
            calls.append((np.matmul, (a, weights[:size, : target.shape[-1]], target)))
            scratch.rewind(mark)
        return calls

    return emit


def _gathered(make: Composition, node: Node) -> Results:
    """GatherBlockQuantized: lines of a table."""
    indices, bits = require_tensor(node, 1), _bits(node)
    packed, scales = require_constant(node, 0), require_constant(node, 2)
    size = packed.shape[-1] * 8 // bits
    axis = normalize_axis(int(node.attributes.get("quantize_axis", 1)), packed.ndim)
    integers = _unpacked(packed, bits, size)
    zero: np.ndarray | int = 2 ** (bits - 1)
    if node.operand(3) is not None:
        zero = _unpacked(require_constant(node, 3), bits, scales.shape[-1])
    groups = np.arange(integers.shape[axis]) // int(node.attributes.get("block_size", 128))
    table = _floats(integers, scales, zero, groups, axis)
    return [make("Gather", table, indices, axis=int(node.attributes.get("gather_axis", 0)))]


OPERATORS: tuple[Operator, ...] = (
    replace(
        composed_operator("MatMulNBits", _matmul),
        domain=MICROSOFT,
        attributes=MappingProxyType(
            {
                "K": REQUIRED,
                "N": REQUIRED,
                "accuracy_level": 0,
                "bits": 4,
                "block_size": REQUIRED,
                "weight_prepacked": 0,
            }
        ),
        constant_inputs=frozenset({1, 2, 3, 4}),
        kernel=_kernel,
        input_rows=lambda layer, out: MATMUL.input_rows(_on_floats(layer), out),
        cost=lambda layer, out: MATMUL.cost(_on_floats(layer), out),
        mode=lambda layer: MATMUL.mode(_on_floats(layer)),
        shift_invariant=True,
        structure="row-phased; whole if the product contracts the row axis",
        notes="4-bit weights stay packed; other widths, g_idx and float zero points are expanded to float. "
        "The product is computed in float at every accuracy_level.",
        multiplies=True,
    ),
    composed_operator(
        "GatherBlockQuantized",
        _gathered,
        domain=MICROSOFT,
        attributes={"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1},
        constant_inputs=(0, 2, 3),
        notes="uint8 data, expanded to a float table.",
    ),
)
