"""How are integers convolved and multiplied? QLinearConv, ConvInteger, QLinearMatMul, MatMulInteger,
QGemm.

Sources: https://onnx.ai/onnx/operators/onnx__QLinearConv.html and the pages beside it;
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md for QGemm.
A layer has the operands of its float twin at the same positions: input 0, weights 1, bias 2; scales and
zero points are `Format`s among its attributes (`integers`). Products are those of the float twin, on
integers, in a type that is exact for them. What the zero point of an input adds follows from the weights
alone, so that it is part of the bias; padding reads as the zero point.

A convolution of one output row does not accumulate, as its float twin does: sums of four bytes, kept from phase to phase, and
a kernel of their own would rarely be less than the bytes of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.deferred import defer
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import set_attributes
from csdfgen.ops.base import (
    MICROSOFT,
    Call,
    Emit,
    Mode,
    Operator,
    Takes,
    Work,
    require_constant,
    require_tensor,
)
from csdfgen.ops.convolution import CONV, conv_kernel, conv_layer
from csdfgen.ops.integers import (
    Rescaled,
    byte_operand,
    byte_type,
    exact_rows,
    exact_type,
    get_zero,
    limits,
    quantization,
    read_scalar,
    uses_shifts,
)
from csdfgen.ops.linear import GEMM, MATMUL, can_join_vectors, product_kernel, product_layer


def _bias(node: Node, position: int) -> np.ndarray | None:
    return None if node.operand(position) is None else require_constant(node, position)


def center_weights(layer: Layer, dtype: str = "int32") -> np.ndarray:
    """The weights less their zero points, which are one or one for each index of axis "w"."""
    weights, form = layer.constants[1], layer.attributes["w"]
    zeros = np.array(form.zero_point, np.int32)
    if zeros.size > 1:
        zeros = zeros.reshape((-1, *(1,) * (weights.ndim - 1 - form.axis)))
    return defer(_less, weights, zeros, dtype, dtype=dtype)


def _less(weights: np.ndarray, zeros: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(weights.astype(dtype) - zeros.astype(dtype))


# Convolutions ------------------------------------------------------------------------------------


def _forms(
    node: Node, names: tuple[str, str], axis: int, channels: int, output: int = 6
) -> tuple[dict[str, Format], Format]:
    """Formats of the operands at 0 and 3 and of the output, whose scale is the operand at `output`; and
    how the output is stored: float32 where it has no scale. names: of the operands, as errors call them.
    axis, channels: of the right operand, where it has several scales.
    """
    a, b = names
    weights = byte_type(node, 3, b)
    found = {
        "x": byte_operand(node, 0, a, 1, 2),
        "w": quantization(node, 4, 5, weights, b, axis=axis, channels=channels),
    }
    if node.operand(output) is None:
        return found, Format()
    zero = output + 1
    dtype = (
        str(require_tensor(node, 0).dtype)
        if node.operand(zero) is None
        else byte_type(node, zero, "the zero point of the output")
    )
    found["y"] = quantization(node, output, zero, dtype, "the output")
    return found, Format(dtype)


def _integer_forms(
    node: Node, names: tuple[str, str], axis: int
) -> tuple[dict[str, Format], Tensor | None]:
    """Formats of the operands at 0 and 1, whose zero points are those at 2 and 3; and the zero point at
    2 where it is computed at run time. axis: of the right operand, where it has several zero points.
    """
    types = [byte_type(node, k, name) for k, name in enumerate(names)]
    right = node.operand(1)
    assert right is not None
    count = right.shape[axis] if right.shape else 1
    zero = read_scalar(node, 2, types[0], names[0])
    zeros = np.zeros((), types[1]) if node.operand(3) is None else require_constant(node, 3)
    if str(zeros.dtype) != types[1] or zeros.size not in (1, count) or zeros.ndim > 1:
        raise ModelError(
            f"the zero point of {names[1]} is {zeros.dtype} of shape {zeros.shape}; "
            f"{types[1]}, one or {count}, is needed"
        )
    points, along = tuple(zeros.reshape(-1).tolist()), axis if zeros.size > 1 else None
    computed = zero if isinstance(zero, Tensor) else None
    x = Format(types[0], (1.0,), (0 if isinstance(zero, Tensor) else zero,))
    return {"x": x, "w": Format(types[1], (1.0,), points, along)}, computed


def _build_conv(node: Node) -> Layer:
    x, weights = require_tensor(node, 0), require_constant(node, 3)
    channels = weights.shape[0] if weights.ndim else 1
    forms, stored = _forms(node, _OF_CONV, 0, channels)
    return set_attributes(conv_layer(node, x, weights, _bias(node, 8), stored), **forms)


_OF_CONV, _OF_PRODUCT = ("the input", "the weight"), ("input a", "input b")


def _build_conv_integer(node: Node) -> Layer:
    x, weights = require_tensor(node, 0), require_constant(node, 1)
    forms, zero = _integer_forms(node, _OF_CONV, 0)
    layer = conv_layer(node, x, weights, None, Format("int32"))
    if zero is not None:
        layer = replace(layer, inputs=(x, None, zero), input_axes=(*layer.input_axes[:2], None))
    return set_attributes(layer, **forms)


def zero_tensor(layer: Layer) -> Tensor | None:
    """The zero point of the input, where it is computed at run time."""
    return layer.inputs[2] if len(layer.inputs) > 2 else None


@memoize_layer
def _conv_type(layer: Layer) -> str:
    """The type in which the sums of a convolution are exact: of 64 bits where they become integers of as many."""
    return "float64" if uses_shifts(layer) else exact_type(*_terms(layer))


def _terms(layer: Layer) -> tuple[np.ndarray, list[tuple[int, int]], np.ndarray]:
    """Weights (outputs, terms), the range of what they meet, and what is added to each sum."""
    weights = center_weights(layer).reshape(layer.constants[1].shape[0], -1)
    low, high = limits(layer.attributes["x"].dtype)
    if zero_tensor(layer) is not None:
        return weights, [(low - high, high - low)], np.zeros(len(weights), np.int64)
    zero = get_zero(layer, "x")
    bias = layer.constants.get(2, np.zeros(len(weights), np.int32)).astype(np.int64)
    return weights, [(low, high)], bias - zero * weights.sum(1, dtype=np.int64)


_DEEP = 256
"""Rows of weights that are worth a product in float32 of their own, rather than one of all in float64."""


def _conv_kernel(layer: Layer) -> Emit:
    dtype, (terms, (read, *_), more) = _conv_type(layer), _terms(layer)
    computed = zero_tensor(layer)
    into = Rescaled.of(layer)
    inside = layer.output.dtype == dtype
    bias = more.astype(dtype) if more.any() else None
    deepest = 0
    if dtype == "float64" and not inside and layer.attributes["group"] == 1:
        # weights as products have them: taps, then channels
        order = np.moveaxis(terms.reshape(layer.constants[1].shape), 1, -1)
        rows = exact_rows(order.reshape(len(terms), -1), read)
        deepest = rows if rows >= min(_DEEP, terms.shape[1]) else 0
    multiplied = "float32" if deepest else dtype
    emit = conv_kernel(
        layer,
        center_weights(layer),
        bias if inside else None,
        multiplied,
        beside=0 if computed is not None else get_zero(layer, "x"),
        into=None if inside else into.biased(bias),
        deepest=deepest,
    )
    if computed is not None:
        return _less_the_zero_point(emit, multiplied)
    if not inside or into.factor is None:
        return emit
    return lambda work: [*emit(work), *into.in_place(work.result)]


def _less_the_zero_point(emit: Emit, dtype: str) -> Emit:
    """A kernel that is handed differences from a zero point, which is operand 2."""

    def centred(work: Work) -> list[Call]:
        x, zero = work.slab, work.slabs[2]
        assert x is not None and zero is not None
        values, by = work.scratch.take(x.shape, dtype), work.scratch.take(zero.shape, dtype)
        calls: list[Call] = [
            (np.copyto, (values, x)),
            (np.copyto, (by, zero)),
            (np.subtract, (values, by.reshape(()), values)),
        ]
        return calls + list(emit(replace(work, slabs=[values, None, None])))

    return centred


def _conv_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    rows, weights, _ = CONV.input_rows(layer, out)
    return rows, weights, None if zero_tensor(layer) is None else Rows(0, 1)


def _conv(
    op_type: str, build: Callable[[Node], Layer], constants: Sequence[int], notes: str
) -> Operator:
    return replace(
        CONV,
        op_type=op_type,
        build=build,
        input_rows=_conv_rows,
        kernel=_conv_kernel,
        since=10,
        mode=lambda layer: Mode.ROWS,
        structure="row-phased",
        takes=lambda layer, position: Takes.SPREAD if zero_tensor(layer) is None else Takes.EVEN,
        joins=lambda layer, images: zero_tensor(layer) is None and CONV.joins(layer, images),
        constant_inputs=frozenset(constants),
        notes=f"1-D to 3-D, any group{notes}; {_EXACT}",
    )


# Matrix products ---------------------------------------------------------------------------------


def _build_matmul(node: Node) -> Layer:
    a, b = require_tensor(node, 0), node.operand(3)
    if b is None:
        raise ModelError("input 3 is absent")
    columns = b.shape[-1] if len(b.shape) > 1 else 1
    forms, stored = _forms(node, _OF_PRODUCT, len(b.shape) - 1, columns)
    return _computable(set_attributes(product_layer(node, (a, b), {}, stored), **forms))


def _build_matmul_integer(node: Node) -> Layer:
    a, b = require_tensor(node, 0), node.operand(1)
    if b is None:
        raise ModelError("input 1 is absent")
    forms, zero = _integer_forms(node, _OF_PRODUCT, len(b.shape) - 1)
    operands = (a, b) if zero is None else (a, b, zero)
    layer = product_layer(node, operands, {}, Format("int32"))
    return _computable(set_attributes(layer, **forms))


def _build_gemm(node: Node) -> Layer:
    a, b = require_tensor(node, 0), node.operand(3)
    if b is None or len(a.shape) != 2 or len(b.shape) != 2:
        raise ModelError("both operands must be matrices")
    settings = {name: node.attributes.get(name, QGEMM[name]) for name in ("transA", "transB")}
    axis = 0 if settings["transB"] else 1
    forms, stored = _forms(node, _OF_PRODUCT, axis, b.shape[axis], output=7)
    alpha = float(node.attributes.get("alpha", QGEMM["alpha"]))
    layer = product_layer(node, (a, b, _bias(node, 6)), settings, stored)
    return _computable(set_attributes(layer, alpha=alpha, **forms))


QGEMM = {"alpha": 1.0, "transA": 0, "transB": 0}
"""Attributes of a QGemm and their defaults."""


def _computable(layer: Layer) -> Layer:
    """ModelError where a computed right operand has several zero points or scales."""
    form = layer.attributes["w"]
    if 1 not in layer.constants and form.axis is not None:
        raise ModelError(
            "input b is computed at run time and has scales of its own for each column"
        )
    return layer


def _centred_ranges(layer: Layer) -> tuple[tuple[int, int], tuple[int, int]]:
    """Lowest and highest of the two operands, less their zero points."""
    found = []
    for position, role in ((0, "x"), (1, "w")):
        low, high = limits(layer.attributes[role].dtype)
        if position == 0 and zero_tensor(layer) is not None:
            found.append((low - high, high - low))
        else:
            zeros = layer.attributes[role].zero_point
            found.append((low - max(zeros), high - min(zeros)))
    return found[0], found[1]


@memoize_layer
def _product_type(layer: Layer) -> str:
    """The type in which the sums of a product are exact, as `_conv_type`."""
    if uses_shifts(layer):
        return "float64"
    read, other = _centred_ranges(layer)
    more = layer.constants.get(2, 0)
    if 1 in layer.constants:
        weights = center_weights(layer)
        if weights.ndim > 1 and not layer.attributes.get("transB"):
            weights = np.swapaxes(weights, -1, -2)
        return exact_type(weights.reshape(-1, weights.shape[-1]), [read], more)
    first = layer.computed(0)
    terms = first.shape[0] if layer.attributes.get("transA") else first.shape[-1]
    return exact_type(np.full((1, terms), max(map(abs, other))), [read], more)


def _product_kernel(layer: Layer) -> Emit:
    dtype = np.dtype(_product_type(layer))
    constants = {k: array.astype(dtype) for k, array in layer.constants.items() if k != 1}
    zeros: dict[int, int | None] = {0: get_zero(layer, "x") if zero_tensor(layer) is None else None}
    if 1 in layer.constants:
        constants[1] = center_weights(layer).astype(dtype)
    else:
        zeros[1] = get_zero(layer, "w")
    into = Rescaled.of(layer, layer.attributes.get("alpha", 1.0))
    return product_kernel(layer, dtype, constants, zeros=zeros, into=into)


def _product(
    twin: Operator,
    op_type: str,
    build: Callable[[Node], Layer],
    constants: Sequence[int],
    **more: Any,
) -> Operator:
    return replace(
        twin,
        op_type=op_type,
        build=build,
        kernel=_product_kernel,
        joins=can_join_vectors,
        constant_inputs=frozenset(constants),
        structure="row-phased; whole if the product contracts the row axis",
        **more,
    )


_EXACT = "exact sums, rounded as in onnxruntime"

OPERATORS: tuple[Operator, ...] = (
    _conv("QLinearConv", _build_conv, range(1, 9), ", per-filter scales"),
    _conv("ConvInteger", _build_conv_integer, (1, 3), "; the input's zero point may be computed"),
    _product(
        MATMUL,
        "QLinearMatMul",
        _build_matmul,
        (1, 2, 4, 5, 6, 7),
        since=10,
        notes=f"per-column scales of a constant operand; {_EXACT}",
    ),
    _product(
        MATMUL,
        "MatMulInteger",
        _build_matmul_integer,
        (3,),
        since=10,
        notes=f"the left zero point may be computed; {_EXACT}",
    ),
    _product(
        GEMM,
        "QGemm",
        _build_gemm,
        (1, 2, 4, 5, 6, 7, 8),
        since=1,
        domain=MICROSOFT,
        attributes=MappingProxyType(QGEMM),
        notes=f"per-column scales of a constant operand; float32 result without an output scale; {_EXACT}",
    ),
)
