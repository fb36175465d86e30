"""How do values become integers, and integers values? QuantizeLinear, DequantizeLinear,
DynamicQuantizeLinear.

Sources: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html and the pages beside it. Values are
divided by the scale, rounded half to even, moved by the zero point and kept within the type; back,
differences from the zero point are multiplied by the scale. A scale is one for the tensor, one for
each index along an axis, or one for a block of indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops._operands import node_layer, normalize_axis
from csdfgen.ops.base import (
    Call,
    Mode,
    Operator,
    Work,
    make_phase_kernel,
    require_constant,
    whole_rows,
)
from csdfgen.ops.elementwise import Task, elementwise
from csdfgen.ops.integers import STORED, check_scales, limits, round_values
from csdfgen.ops.primitives import maximum, minimum, negative
from csdfgen.ops.reducing import constant, data_input

_VALUES = ("float32", "float16")

_CODES = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16"}
"""ONNX element types that attribute `output_dtype` may name."""


# Scales along an axis ----------------------------------------------------------------------------


def _spread(node: Node, shape: Sequence[int], array: np.ndarray, what: str) -> np.ndarray:
    """Constants of the node, broadcast against the data: one, one an index of `axis`, or a block."""
    if array.size == 1:
        return array.reshape(())
    rank = len(shape)
    axis = normalize_axis(int(node.attributes.get("axis", 1)), rank)
    block = int(node.attributes.get("block_size", 0))
    if array.ndim == 1 and not block:
        if len(array) != shape[axis]:
            raise ModelError(
                f"the {what} has {len(array)} values, axis {axis} of the input {shape[axis]} indices"
            )
        return array.reshape((-1, *(1,) * (rank - 1 - axis)))
    if array.ndim != rank or not block or -(-shape[axis] // block) != array.shape[axis]:
        raise ModelError(
            f"the {what} has shape {array.shape}, which is neither one value, nor one for each of the "
            f"{shape[axis]} indices of axis {axis}, nor one for blocks of {block}"
        )
    index = np.arange(shape[axis]) // block
    return np.ascontiguousarray(np.take(array, index, axis))


def _constants(node: Node, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point, that broadcast against the data. dtype: of the integers."""
    data = node.inputs[0]
    assert data is not None
    scale = require_constant(node, 1)
    if scale.dtype.name not in _VALUES:
        raise ModelError(f"the scale is {scale.dtype}; {', '.join(_VALUES)} are supported")
    check_scales(scale, "the tensor")
    zero = np.zeros((), dtype)
    if node.operand(2) is not None:
        zero = require_constant(node, 2)
        if zero.dtype != np.dtype(dtype):
            raise ModelError(
                f"the zero point is {zero.dtype}, the integers are {dtype}; they must be the same"
            )
        if zero.size != scale.size:
            raise ModelError(f"{scale.size} scales and {zero.size} zero points; one for each other")
    shape = data.shape
    return _spread(node, shape, scale, "scale"), _spread(node, shape, zero, "zero point")


def _settings(
    node: Node, stored: str, scale: np.ndarray, zero: np.ndarray
) -> MappingProxyType[str, Any]:
    """Attributes of the layer: the format, where it is one for the tensor or an axis."""
    if scale.size > 1 and "block_size" in node.attributes and node.attributes["block_size"]:
        return MappingProxyType({"blocks": int(node.attributes["block_size"])})
    data = node.inputs[0]
    assert data is not None
    axis = None if scale.size == 1 else len(data.shape) - scale.ndim
    found = Format(
        stored,
        tuple(float(value) for value in scale.reshape(-1)),
        tuple(int(value) for value in zero.reshape(-1)),
        axis,
    )
    return MappingProxyType({"format": found})


def _build_computed(operator: Operator, node: Node, data: Tensor, stored: str) -> Layer:
    """A layer whose scale or zero point is computed: one for the tensor, or one that broadcasts against it (`ops.dynamic`).

    stored: the type of the integers.
    """
    scale, zero = node.operand(1), node.operand(2)
    zero = np.zeros((), stored) if zero is None else zero
    for k, operand, what, types in (
        (1, scale, "scale", _VALUES),
        (2, zero, "zero point", (stored,)),
    ):
        if operand is None or str(operand.dtype) not in types:
            given = "missing" if operand is None else operand.dtype
            raise ModelError(f"the {what} is {given}; {', '.join(types)} are supported")
        sizes = zip(reversed(operand.shape), reversed(data.shape), strict=False)
        if len(operand.shape) > len(data.shape) or any(a not in (1, b) for a, b in sizes):
            require_constant(node, k)  # blocks are those of constants
            raise ModelError(f"the {what} has shape {list(operand.shape)} beside a computed one")
    layer = operator.build(replace(node, inputs=(data, scale, zero)))
    return replace(layer, attributes=MappingProxyType({}))


# QuantizeLinear ----------------------------------------------------------------------------------


def _integers_of(node: Node) -> str:
    """The type that a QuantizeLinear makes."""
    zero, code = node.operand(2), int(node.attributes.get("output_dtype", 0))
    named = _CODES.get(code)
    if code and named is None:
        raise ModelError(f"output_dtype={code} is not supported; {', '.join(STORED)} are")
    if zero is None:
        return named or "uint8"
    if named is not None and str(zero.dtype) != named:
        raise ModelError(f"output_dtype is {named}, the zero point {zero.dtype}")
    if str(zero.dtype) not in STORED:
        raise ModelError(f"the zero point is {zero.dtype}; {', '.join(STORED)} are supported")
    return str(zero.dtype)


def _build_quantize(node: Node) -> Layer:
    tensor = data_input(node, _VALUES)
    if int(node.attributes.get("precision", 0)) not in (0, 1):
        raise ModelError("attribute 'precision' is not float; export the model without it")
    stored = _integers_of(node)
    if any(isinstance(node.operand(k), Tensor) for k in (1, 2)):
        return _build_computed(_QUANTIZE, node, tensor, stored)
    scale, zero = _constants(node, stored)
    layer = _QUANTIZE.build(replace(node, inputs=(tensor, scale, zero)))
    return replace(layer, attributes=_settings(node, stored, scale, zero))


def _quantize(task: Task) -> list[Call]:
    x, scale, zero = task.operands
    out = task.out
    known = 2 in task.layer.constants
    one = int(zero.reshape(-1)[0]) if known and zero.size == 1 else zero
    return [(np.divide, (x, scale, out)), *round_values(out, one, *limits(task.layer.output.dtype))]


_QUANTIZE = elementwise(
    "QuantizeLinear",
    _quantize,
    lambda node, dtypes: dtypes[2],
    operands=3,
    since=10,
    attributes={"axis": 1, "block_size": 0, "output_dtype": 0, "precision": 0, "saturate": 1},
    compute_in=lambda dtype: "float32",
    aliases=lambda layer: (),  # what is read again in a second step
    notes="to int8, uint8, int16, uint16; per-tensor, per-axis or per-block scales",
)


# DequantizeLinear --------------------------------------------------------------------------------


def _build_dequantize(node: Node) -> Layer:
    tensor = data_input(node, (*STORED, "int32"))
    code, given = int(node.attributes.get("output_dtype", 0)), node.operand(1)
    if code and given is not None and code != {"float32": 1, "float16": 10}.get(str(given.dtype)):
        raise ModelError(f"output_dtype={code} differs from the scale's {given.dtype}")
    if any(isinstance(node.operand(k), Tensor) for k in (1, 2)):
        return _build_computed(_DEQUANTIZE, node, tensor, tensor.dtype)
    scale, zero = _constants(node, tensor.dtype)
    layer = _DEQUANTIZE.build(replace(node, inputs=(tensor, scale, zero)))
    return replace(layer, attributes=_settings(node, tensor.dtype, scale, zero))


def _dequantize(task: Task) -> list[Call]:
    x, scale, zero = task.operands
    if 2 in task.layer.constants and not np.any(zero):
        return [(np.multiply, (x, scale, task.out))]
    return [(np.subtract, (x, zero, task.out)), (np.multiply, (task.out, scale, task.out))]


_DEQUANTIZE = elementwise(
    "DequantizeLinear",
    _dequantize,
    lambda node, dtypes: dtypes[1],
    operands=3,
    since=10,
    attributes={"axis": 1, "block_size": 0, "output_dtype": 0},
    compute_in=lambda dtype: "float32",
    aliases=lambda layer: (),  # what is read again in a second step
    notes="from int8, uint8, int16, uint16, int32 (bias), and constant int4 and uint4, which stay packed as weights of MatMul "
    "and Gemm; per-tensor, per-axis or per-block scales",
)


# DynamicQuantizeLinear ---------------------------------------------------------------------------


def _build_range(node: Node) -> Layer:
    """Scale and zero point; integers are QuantizeLinear's (`ops.dynamic`)."""
    tensor = data_input(node, ("float32",))
    named = [(k, name) for k, name in enumerate(node.outputs) if name]
    outputs = tuple(Tensor(name, (), Format(("float32", "uint8")[k - 1])) for k, name in named)
    return node_layer(node, (tensor,), outputs, {"made": tuple(k for k, _ in named)})


def _range(layer: Layer, work: Work) -> list[Call]:
    one, none, top = (constant(value, "float32") for value in (1, 0, 255))
    x = layer.computed(0).to_onnx(work.slab)[None]
    dims, ones = tuple(range(x.ndim)), (1,) * x.ndim
    low, high, scale, zero = (work.scratch.take(ones, "float32") for _ in range(4))
    flat = work.scratch.take(ones, "bool")
    calls: list[Call] = [
        (np.minimum.reduce, (x, dims, None, low, True)),
        (np.maximum.reduce, (x, dims, None, high, True)),
        (minimum, (low, none, low)),
        (maximum, (high, none, high)),
        (np.subtract, (high, low, scale)),
        (np.divide, (scale, top, scale)),
        (np.equal, (scale, none, flat)),
        (np.copyto, (scale, one, "same_kind", flat)),
        (negative, (low, zero)),
        (np.divide, (zero, scale, zero)),
        *round_values(zero, 0, *limits("uint8")),
    ]
    for k, found in zip(layer.attributes["made"], work.results, strict=True):
        array = (scale, zero)[k - 1].reshape(found.shape)
        calls.append((np.copyto, (found, array, "unsafe")))
    return calls


QUANTIZE = replace(_QUANTIZE, build=_build_quantize)

DEQUANTIZE = replace(_DEQUANTIZE, build=_build_dequantize)

OPERATORS: tuple[Operator, ...] = (
    QUANTIZE,
    DEQUANTIZE,
    Operator(
        "DynamicQuantizeLinear",
        build=_build_range,
        input_rows=whole_rows,
        kernel=make_phase_kernel(_range),
        cost=lambda layer, out: layer.computed(0).elements,
        since=11,
        mode=lambda layer: Mode.WHOLE,
        structure="whole",
        notes="the range depends on all rows",
    ),
)
