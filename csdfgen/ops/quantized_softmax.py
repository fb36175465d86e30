"""How is a softmax of bytes computed? QLinearSoftmax: powers by a table, a sum in order, shares rounded.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; the powers, the order of
the sum and the rounding are onnxruntime's, so that results agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, log, prod
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import first_only, normal_axis, one_input_layer, output_elements
from csdfgen.ops.base import (
    MICROSOFT,
    Call,
    Emit,
    Mode,
    Operator,
    Scratch,
    Work,
    aligned_size,
)
from csdfgen.ops.integers import BYTES, byte_operand, byte_output, limits, scale_of, zero_of
from csdfgen.ops.primitives import looked_up, maximum
from csdfgen.ops.reducing import data_input, rows_apart, slab_dims

__all__ = ["OPERATORS"]


def _build_softmax(node: Node) -> Layer:
    x = byte_operand(node, 0, "the input", 1, 2)
    tensor = data_input(node, BYTES, least_rank=1)
    rank, opset = len(tensor.shape), int(node.attributes.get("opset", 0))
    if opset < 1:
        raise ModelError("attribute 'opset' is missing")
    axis = normal_axis(
        int(
            (-1 if opset >= 13 else 1)
            if node.attributes.get("axis") is None
            else node.attributes["axis"]
        ),
        rank,
    )
    return one_input_layer(
        node,
        tensor,
        replace(tensor, name=node.outputs[0]),
        axes=(axis,) if opset >= 13 else tuple(range(axis, rank)),
        x=x,
        y=byte_output(node, 3, 4, x),
    )


def _apart(layer: Layer) -> bool:
    return rows_apart(layer.output, layer.attributes["axes"])


def _powers(scale: float, terms: int) -> np.ndarray:
    """exp of every difference from the largest, -255 to 0, times what keeps the sum within float32."""
    most = float(np.float32(np.finfo(np.float32).max) / np.float32(terms))
    room = max(0.0, log(most) - 5) / scale
    return np.exp((np.arange(256) - 255 + room) * scale).astype(np.float32)


_PART = 128
"""Terms of a long softmax that are worked on at a time; two of them are all bytes."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """Powers become integers of the output: power * whole / sum, rounded."""

    whole: np.float32
    zero: int
    low: int
    high: int

    def calls(self, powers: np.ndarray, total: np.ndarray, index: np.ndarray) -> list[Call]:
        """Calls that leave the integers in `index`; the powers are lost."""
        calls: list[Call] = [
            (np.multiply, (powers, self.whole, powers)),
            (np.divide, (powers, total, powers)),
            (np.rint, (powers, powers)),
            (np.copyto, (index, powers, "unsafe")),
        ]
        if self.zero:
            calls.append((np.add, (index, np.intp(self.zero), index)))
        return [*calls, (np.ndarray.clip, (index, np.intp(self.low), np.intp(self.high), index))]


def _line(x: np.ndarray) -> tuple[int | slice, ...] | None:
    """What makes a slab an array of one dimension; None where more than one has several elements."""
    if x.size != max(x.shape):
        return None
    along = x.shape.index(x.size)
    return tuple(slice(None) if d == along else 0 for d in range(x.ndim))


def _softmax_kernel(layer: Layer) -> Emit:
    tensor, axes = layer.output, layer.attributes["axes"]
    terms = prod(tensor.shape[axis] for axis in axes)
    table = _powers(float(scale_of(layer, "x")), terms)
    whole = np.float32(floor(np.float32(1) / scale_of(layer, "y")))
    into = _Shares(whole, zero_of(layer, "y"), *limits(layer.attributes["y"].dtype))
    dims = [slab_dims(tensor, (axis,))[0] for axis in axes]  # in ONNX order, in which sums go on

    def emit(work: Work) -> list[Call]:
        slab, result = work.slab, work.result
        x, out = (np.moveaxis(a, dims, range(-len(dims), 0)) for a in (slab, result))
        flat = (*x.shape[: x.ndim - len(dims)], terms)
        line = _line(x)
        if line is not None and terms > _PART and work.scratch.room < _at_once(terms):
            return _softmax_in_parts(x[line], out[line], table, into, work.scratch)
        index, top = work.scratch.take(flat, "intp"), work.scratch.take((*flat[:-1], 1), "intp")
        powers = work.scratch.take(flat, "float32")
        sums = index.view(np.float32)[..., :terms]  # in its bytes, between its two uses
        return [
            (np.copyto, (index.reshape(x.shape), x)),
            (np.maximum.reduce, (index, (index.ndim - 1,), None, top, True)),
            (np.subtract, (index, top, index)),
            (np.add, (index, np.intp(255), index)),
            (looked_up, (table, index, powers)),
            (np.add.accumulate, (powers, powers.ndim - 1, None, sums)),
            *into.calls(powers, sums[..., -1:], index),
            (np.copyto, (out, index.reshape(out.shape), "unsafe")),
        ]

    return emit


def _at_once(terms: int) -> int:
    """Bytes of workspace in which all of a line is worked on at once: index, largest, powers."""
    return aligned_size(aligned_size(8 * terms) + 8) + 4 * terms


def _softmax_in_parts(
    x: np.ndarray, out: np.ndarray, table: np.ndarray, into: _Shares, scratch: Scratch
) -> list[Call]:
    """One line of bytes, a part of it after the other: the same sum in the same order, in a fraction of
    the workspace. What each of the bytes becomes is worked out once, and looked up.
    """
    top, largest = scratch.take((1,), "intp"), scratch.take((1,), "intp")
    index, becomes = scratch.take((_PART,), "intp"), scratch.take((256,), x.dtype)
    powers, sums = scratch.take((_PART + 1,)), scratch.take((_PART + 1,))
    total = scratch.take((1,))
    parts = [slice(at, at + _PART) for at in range(0, len(x), _PART)]
    calls: list[Call] = []
    for part in parts:
        some, own = x[part], index[: len(x[part])]
        calls += [
            (np.copyto, (own, some)),
            (np.maximum.reduce, (own, (0,), None, largest, True)),
            (np.copyto, (top, largest)) if part.start == 0 else (maximum, (top, largest, top)),
        ]
    calls += [(np.subtract, (np.intp(255), top, top)), (total.fill, (0,))]
    for part in parts:
        some, own = x[part], index[: len(x[part])]
        stop = len(some) + 1
        calls += [
            (np.copyto, (own, some)),
            (np.add, (own, top, own)),
            (looked_up, (table, own, powers[1:stop])),
            (np.copyto, (powers[:1], total)),  # what the parts before came to
            (np.add.accumulate, (powers[:stop], 0, None, sums[:stop])),
            (np.copyto, (total, sums[stop - 1 : stop])),
        ]
    for at in range(0, 256, _PART):
        some = powers[:_PART]
        calls += [
            (np.copyto, (some, table[at : at + _PART])),
            *into.calls(some, total, index),
            (np.copyto, (becomes[at : at + _PART], index, "unsafe")),
        ]
    for part in parts:
        own = index[: len(x[part])]
        calls += [
            (np.copyto, (own, x[part])),
            (np.add, (own, top, own)),
            (looked_up, (becomes, own, out[part])),
        ]
    return calls


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "QLinearSoftmax",
        build=_build_softmax,
        input_rows=lambda layer, out: first_only(
            layer, out if _apart(layer) else Rows(0, layer.output.rows)
        ),
        kernel=_softmax_kernel,
        cost=output_elements,
        since=1,
        mode=lambda layer: Mode.ROWS if _apart(layer) else Mode.WHOLE,
        shift_invariant=True,
        constant_inputs=frozenset({1, 2, 3, 4}),
        domain=MICROSOFT,
        attributes=MappingProxyType({"axis": None, "opset": 0}),
        structure="row-phased; whole along the row axis",
    ),
)
