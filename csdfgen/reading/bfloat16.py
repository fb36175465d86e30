"""How is an operation on bfloat16 computed? On float32, and each result is rounded once as it is stored.

bfloat16 has no arithmetic of its own here: slabs of it become float32, and results are rounded to the nearest, half to even.
An operation that only moves elements moves their 16 bits. Which results are bfloat16 follows from the operator's schema:
those of a type variable that an operand in bfloat16 has bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from csdfgen.model.formats import BFLOAT16, Format, Stored
from csdfgen.model.network import Layer, Tensor
from csdfgen.ops import OPERATORS
from csdfgen.reading.onnx_graph import Operation
from csdfgen.reading.onnx_schema import Signature

_MOVING_NAMES = """
    Cast CastLike Compress Concat DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND Identity Pad Reshape
    Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where
"""
_MOVING = frozenset(_MOVING_NAMES.split())
"""Operators that move elements, whatever they mean, or look at their shape alone."""


def widen_operation(
    operation: Operation, operands: Sequence[object], allowed: Signature | None
) -> Operation:
    """The operation on float32, with the operands and results that are stored as bfloat16. allowed: its schema."""
    read = tuple(BFLOAT16 if _is_bfloat16(operand) else None for operand in operands)
    mode = operation.attributes.get("mode")
    nearest = operation.op_type == "Resize" and (mode is None or mode.s == b"nearest")
    if operation.op_type in _MOVING or (nearest and not any(read[1:])):
        return operation
    bound = (
        {"T"} if allowed is None else {allowed.variable(k) for k, form in enumerate(read) if form}
    )
    made = (
        "T"
        if allowed is None or not allowed.outputs
        else allowed.outputs[min(k, len(allowed.outputs) - 1)]
        for k in range(len(operation.outputs))
    )
    return replace(
        operation, stored=Stored(read, tuple(BFLOAT16 if one in bound else None for one in made))
    )


def _is_bfloat16(operand: object) -> bool:
    return isinstance(operand, Tensor | np.ndarray) and str(operand.dtype) == BFLOAT16.dtype


def may_be_several(operation: Operation) -> bool:
    """Whether an operation on bfloat16 may become several layers."""
    halves = operation.stored is not None and BFLOAT16 in operation.stored.inputs
    return halves and OPERATORS[operation.op_type].parts is not None


def round_ends(
    layers: Sequence[Layer], operation: Operation, operands: Sequence[object]
) -> tuple[Layer, ...]:
    """The layers that an operation becomes, of which those that read its operands or make its results know them in
    bfloat16; tensors in between are float32.
    """
    stored = operation.stored
    if stored is None:
        return tuple(layers)
    read = {one.name: one for one in operands if isinstance(one, Tensor) and _is_bfloat16(one)}
    made = {name: stored.written(k) for k, name in enumerate(operation.outputs) if name}
    return tuple(_with_ends(layer, read, made) for layer in layers)


def _with_ends(
    layer: Layer, read: Mapping[str, Tensor], made: Mapping[str, Format | None]
) -> Layer:
    inputs = tuple(None if t is None else read.get(t.name, t) for t in layer.inputs)
    ins = tuple(BFLOAT16 if t is not None and t.name in read else None for t in inputs)
    outs = tuple(made.get(t.name) if t.dtype == "float32" else None for t in layer.outputs)
    if not any(ins) and not any(outs):
        return layer
    outputs = tuple(
        t if form is None else replace(t, format=form)
        for t, form in zip(layer.outputs, outs, strict=True)
    )
    return replace(layer, inputs=inputs, outputs=outputs, stored=Stored(ins, outs))
