"""Gemm and MatMul: which rows of its operands does a row of a matrix product need, and how is it
computed?

Sources: https://onnx.ai/onnx/operators/onnx__Gemm.html,
    https://onnx.ai/onnx/operators/onnx__MatMul.html.
An axis that is not contracted appears in the output: rows along it are computed a few at a time,
from the same rows of every operand that has the axis and from the whole of the others. A Gemm that
reads a flattened map row by row is a third kind of layer, which `unflatten_gemm` makes: it sums
products of rows (docs/model.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format, accumulator_type
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._im2col import Into
from csdfgen.ops._operands import node_layer
from csdfgen.ops._vector_products import FEWEST, extend_to_images, is_output_major
from csdfgen.ops.base import (
    Call,
    Emit,
    Mode,
    Operator,
    Phase,
    Scratch,
    Work,
    accumulator_format,
    broadcast_rows,
)
from csdfgen.ops.copies import cut, make_contiguous

_ACCEPTED = ("float16", "float32", "float64", "int32", "int64", "uint32", "uint64")

_BLOCK = 1024
"""Elements of a slab in another type than the product's that are converted at a time."""

Operand = Tensor | np.ndarray

OutputAxes = tuple[tuple[int | None, ...], ...]
"""By operand and axis of it: the output axis that it becomes, None where it is contracted."""


# --- nodes -------------------------------------------------------------------------------------


def _operands(node: Node) -> tuple[Operand, Operand, Operand | None]:
    """The operands of a node, checked for what both operators share."""
    a, b, c = (node.operand(k) for k in range(3))
    if a is None or b is None:
        raise ModelError(f"input {0 if a is None else 1} is absent")
    given = [operand for operand in (a, b, c) if operand is not None]
    if all(isinstance(operand, np.ndarray) for operand in given):
        raise ModelError("all inputs are constants; fold the node into a constant")
    dtypes = {str(operand.dtype) for operand in given}
    if len(dtypes) > 1 or not dtypes <= set(_ACCEPTED):
        raise ModelError(
            f"dtypes {', '.join(sorted(dtypes))}; inputs must share one of {', '.join(_ACCEPTED)}"
        )
    if any(0 in operand.shape for operand in given):
        raise ModelError(
            f"empty operands of shapes {', '.join(str(operand.shape) for operand in given)}"
        )
    return a, b, c


def _output_axes(attributes: Mapping[str, Any], a: int, b: int, c: int) -> OutputAxes:
    """Operands of ranks a, b and c (0: a scalar or none): batch axes, then rows of a, then columns
    of b.

    >>> _output_axes({}, 3, 2, 0), _output_axes({"transB": 1}, 2, 2, 1)
    (((0, 1, None), (None, 2), ()), ((0, None), (1, None), (1,)))
    """
    batch = max(a - 2, b - 2, 0)
    rows, columns = (None, None) if a == 1 else (batch, None), (None, batch + min(a - 1, 1))
    of_a = (*range(batch - max(a - 2, 0), batch), *rows)[-a:] if a > 1 else (None,)
    of_b = (*range(batch - max(b - 2, 0), batch), *columns) if b > 1 else (None,)
    rank = batch + min(a - 1, 1) + min(b - 1, 1)
    return (
        of_a[::-1] if attributes.get("transA") else of_a,
        of_b[::-1] if attributes.get("transB") else of_b,
        tuple(range(rank - c, rank)),
    )


def _row_axis(operands: Sequence[Operand | None], axes: OutputAxes, shape: Shape) -> int | None:
    """The output's row axis: the first operand's that survives, else the only axis of many rows."""
    for operand, becomes in zip(operands, axes, strict=False):
        if isinstance(operand, Tensor) and operand.row_axis is not None:
            axis = becomes[operand.row_axis]
            if axis is not None and shape[axis] == operand.rows:
                return axis
    matrix_rows = max((axis for axis in axes[0] if axis is not None), default=None)
    if matrix_rows is None or shape[matrix_rows] == 1 or prod(shape[:matrix_rows]) > 1:
        return None
    return matrix_rows


def _read_along(tensor: Tensor, becomes: Sequence[int | None], output: Tensor) -> int | None:
    """The axis along which an operand is read: the output's row axis if it has that, else its own."""
    for axis, size in enumerate(tensor.shape):
        if becomes[axis] is not None and becomes[axis] == output.row_axis and size == output.rows:
            return axis
    return tensor.row_axis


def product_layer(
    node: Node,
    operands: Sequence[Operand | None],
    attributes: Mapping[str, Any],
    stored: Format | None = None,
) -> Layer:
    """The layer of a node that multiplies the first two operands and adds the third, if there is
    one. stored: format of the output, where it is not the operands'. Raises ModelError.
    """
    a, b, c, *_ = (() if operand is None else operand.shape for operand in (*operands, None))
    shape = _product_shape(attributes, a, b)
    axes = _output_axes(attributes, len(a), len(b), len(c))
    dtype = next(operand.dtype for operand in operands if isinstance(operand, Tensor))
    stored = stored or Format(str(dtype))
    output = Tensor(node.outputs[0], shape, stored, _row_axis(operands, axes, shape))
    along = [
        _read_along(x, becomes, output) if isinstance(x, Tensor) else None
        for x, becomes in zip(operands, axes, strict=False)
    ]
    return node_layer(node, operands, (output,), attributes, along)


def _product_shape(attributes: Mapping[str, Any], a: Shape, b: Shape) -> Shape:
    """Shape of the product of these shapes, by numpy's rules; ModelError if they do not fit."""
    if not a or not b:
        raise ModelError(
            f"operands of shapes {a} and {b}: a matrix product needs at least one axis each"
        )
    a = a[::-1] if attributes.get("transA") else a
    b = b[::-1] if attributes.get("transB") else b
    contracted = b[-2] if len(b) > 1 else b[0]
    if a[-1] != contracted:
        raise ModelError(f"shapes {a} and {b} do not fit: {a[-1]} columns meet {contracted} rows")
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ModelError(
            f"shapes {a} and {b} do not fit: batches {a[:-2]} and {b[:-2]} do not broadcast"
        ) from None
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _shape_of(layer: Layer, position: int) -> Shape:
    tensor = layer.inputs[position] if position < len(layer.inputs) else None
    if tensor is not None:
        return tensor.shape
    return layer.constants[position].shape if position in layer.constants else ()


# --- rows, mode and cost ------------------------------------------------------------------------


def _is_flattened(layer: Layer) -> bool:
    return bool(layer.attributes.get("flattened"))


def _axes(layer: Layer) -> OutputAxes:
    """Which output axes the axes of the operands become."""
    a, b, c = (len(_shape_of(layer, position)) for position in range(3))
    return _output_axes(layer.attributes, a, b, c)


def _sliced(layer: Layer, axes: OutputAxes, position: int) -> int | None:
    """The axis of an operand that runs with the output's rows, None if each row needs all of it."""
    rows = layer.output.row_axis
    for axis, size in enumerate(_shape_of(layer, position)):
        if rows is not None and axes[position][axis] == rows and size == layer.output.rows:
            return axis
    return None


def sliced_axis(layer: Layer, position: int) -> int | None:
    """The same of a layer that is no flattened Gemm."""
    return _sliced(layer, _axes(layer), position)


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    if _is_flattened(layer):
        return tuple(None if tensor is None else Rows(0, tensor.rows) for tensor in layer.inputs)
    axes = _axes(layer)
    return broadcast_rows(layer, out, lambda position: _sliced(layer, axes, position) is not None)


def _repeats(layer: Layer) -> bool:
    """Whether no constant has values of its own for each row of the output."""
    axes = _axes(layer)
    return all(_sliced(layer, axes, position) is None for position in layer.constants)


def _mode(layer: Layer) -> Mode:
    if _is_flattened(layer):
        return Mode.ACCUMULATE
    return Mode.WHOLE if layer.output.row_axis is None else Mode.ROWS


def _cost(layer: Layer, out: Rows) -> int:
    """Multiply-accumulates."""
    if _is_flattened(layer):
        return layer.constants[1].size
    contracted = next(
        size
        for size, axis in zip(_shape_of(layer, 0), _axes(layer)[0], strict=True)
        if axis is None
    )
    return len(out) * layer.output.row_elements * contracted


# --- the kernel ---------------------------------------------------------------------------------


def is_matrix(array: np.ndarray) -> bool:
    """Whether BLAS takes the last two axes in place, in either order; anything else is very slow."""
    (m, n), (step_m, step_n) = array.shape[-2:], array.strides[-2:]
    item = array.itemsize
    along = (n == 1 or step_n == item) and (m == 1 or (step_m >= n * item and step_m % item == 0))
    across = (m == 1 or step_m == item) and (n == 1 or (step_n >= m * item and step_n % item == 0))
    return along or across


def prepare_operand(
    array: np.ndarray, dtype: np.dtype[Any], scratch: Scratch, calls: list[Call]
) -> np.ndarray:
    """The array as an operand of a product: as it is, or copied in the right order and dtype."""
    if array.dtype == dtype and (dtype.kind != "f" or is_matrix(array)):
        return array
    copy = scratch.take(array.shape, dtype)
    calls.append((np.copyto, (copy, array)))
    return copy


def _kernel(layer: Layer) -> Emit:
    if _is_flattened(layer):
        return _flattened_kernel(layer)
    dtype = np.dtype(accumulator_type(layer.output.dtype))
    constants, alpha, beta = _scaled(layer, dtype)
    return product_kernel(layer, dtype, constants, alpha, beta)


def product_kernel(
    layer: Layer,
    dtype: np.dtype[Any],
    constants: Mapping[int, np.ndarray],
    alpha: Any = 1,
    beta: Any = 1,
    zeros: Mapping[int, int | None] = MappingProxyType({}),
    into: Into | None = None,
) -> Emit:
    """The kernel of a layer of `product_layer`.

    dtype: of the product; constants: operands in it. zeros: what is subtracted from a computed
    operand first: None for what operand 2 holds, which then is no addend. into: how the product
    becomes an output of another type.
    """
    axes = _axes(layer)
    adds = _has_addend(layer) and None not in zeros.values()
    trans_a, trans_b = layer.attributes.get("transA"), layer.attributes.get("transB")

    def operand(position: int, phase: Phase, slabs: Sequence[np.ndarray | None]) -> np.ndarray:
        """An operand in ONNX axis order, cut to the rows of the phase."""
        slab = slabs[position]
        if slab is not None:
            tensor = layer.computed(position)
            return replace(tensor, row_axis=layer.input_axes[position]).to_onnx(slab)
        axis, array = _sliced(layer, axes, position), constants[position]
        out = phase.out
        return array if axis is None else cut(array, axis, slice(out.start, out.stop))

    def emit(work: Work) -> list[Call]:
        a, b = (operand(position, work.phase, work.slabs) for position in (0, 1))
        a, b, out = a.T if trans_a else a, b.T if trans_b else b, layer.output.to_onnx(work.result)
        batch = out.shape[:-2]
        alone = not (adds or zeros or into) and a.ndim > 1 < b.ndim and alpha == 1
        if alone and prod(batch) > 1 and not all(map(is_matrix, (a, b, out))):
            # one after the other, as operands are copied: there is room for one copy, seldom for all
            a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
            found: list[Call] = []
            mark = work.scratch.mark
            for index in np.ndindex(batch):
                found += multiplied(a[index], b[index], out[index], work)
                work.scratch.rewind(mark)
            return found
        return multiplied(a, b, out, work)

    def multiplied(a: np.ndarray, b: np.ndarray, out: np.ndarray, work: Work) -> list[Call]:
        calls: list[Call] = []
        if b.ndim == 1:
            b, out = b[:, None], out[..., None]
        if a.ndim == 1:
            a, out = a[None], out[..., None, :]
        a, b = (prepare_operand(array, dtype, work.scratch, calls) for array in (a, b))
        for position, array in ((0, a), (1, b)):
            calls += _centred(array, zeros.get(position, 0), work.slabs, work.scratch)
        total = (
            out
            if out.dtype == dtype and (dtype.kind != "f" or is_matrix(out))
            else work.scratch.take(out.shape, dtype)
        )
        calls.append((np.matmul, (a, b, total)))
        if alpha != 1:
            calls.append((np.multiply, (total, alpha, total)))
        if adds:
            c = operand(2, work.phase, work.slabs)
            if c.dtype != dtype or beta != 1:
                scaled = work.scratch.take(c.shape, dtype)
                calls += [(np.copyto, (scaled, c)), (np.multiply, (scaled, beta, scaled))]
                c = scaled
            calls.append((np.add, (total, c, total)))
        if into is not None:
            return calls + into.calls(total, out)
        return calls if total is out else [*calls, (np.copyto, (out, total))]

    if not _is_vector(layer):
        return emit
    right = constants[1].T if layer.attributes.get("transB") else constants[1]
    bias, zero = constants.get(2), zeros.get(0) or 0
    return extend_to_images(emit, lambda: right, is_output_major(right), dtype, bias, zero, into)


def _centred(
    array: np.ndarray, zero: int | None, slabs: Sequence[np.ndarray | None], scratch: Scratch
) -> list[Call]:
    """Calls that subtract a zero point from an operand; None: what operand 2 holds."""
    if zero is not None:
        return [(np.subtract, (array, array.dtype.type(zero), array))] if zero else []
    given = slabs[2]
    assert given is not None
    held = scratch.take(given.shape, array.dtype)
    return [(np.copyto, (held, given)), (np.subtract, (array, held.reshape(()), array))]


def _scaled(layer: Layer, dtype: np.dtype[Any]) -> tuple[dict[int, np.ndarray], Any, Any]:
    """Constants in the computed dtype, times alpha or beta if that is exact; what is left of both."""
    constants = {
        position: array.astype(dtype, copy=False) for position, array in layer.constants.items()
    }
    left = {
        "alpha": dtype.type(layer.attributes.get("alpha", 1)),
        "beta": dtype.type(layer.attributes.get("beta", 1)),
    }
    for position, name in ((0, "alpha"), (1, "alpha"), (2, "beta")):
        if position in constants and left[name] != 1:
            constants[position] = constants[position] * left[name]
            left[name] = dtype.type(1)
    return constants, left["alpha"], left["beta"]


def _has_addend(layer: Layer) -> bool:
    return 2 in layer.constants or (len(layer.inputs) > 2 and layer.inputs[2] is not None)


# --- a Gemm that reads a map row by row ---------------------------------------------------------


def unflatten_gemm(layer: Layer, source: Tensor) -> Layer:
    """The Gemm or MatMul `layer` of a flattened map, reading the map itself: one product per slab
    of rows, summed.

    layer: its only computed input, of shape (1, K), is `source` flattened; its right operand (K,
        out) is constant.
    source: the map, K elements in ONNX order.
    Returns a Gemm layer with attribute `flattened`, whose constants[1] has shape (rows, *row shape,
    out) in the storage order of `source` (a view: only the kernel packs it, since it can be most of
    a network's weights), and constants[2], if any, shape (1, out); alpha and beta are in them.
    """
    constants, alpha, beta = _scaled(layer, np.dtype(layer.output.dtype))
    assert alpha == beta == 1, "operands are constant, so that they carry the factors"
    weights = constants[1].T if layer.attributes.get("transB") else constants[1]
    out = weights.shape[-1]
    found = {1: weights.reshape(*source.shape, out).transpose(*source.order, -1)}
    if source.row_axis is None:
        found[1] = found[1][None]
    if 2 in constants:
        found[2] = np.broadcast_to(constants[2], (1, out))
    return replace(
        layer,
        op_type="Gemm",
        inputs=(source, None, None),
        input_axes=(source.row_axis, None, None),
        constants=MappingProxyType(found),
        attributes=MappingProxyType({"flattened": True}),
    )


def _packed(weights: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """(rows, ..., out) as a matrix (elements, out), outputs first in memory if they are already."""
    out = weights.shape[-1]
    if is_output_major(weights):
        return np.ascontiguousarray(np.moveaxis(weights, -1, 0), dtype).reshape(out, -1).T
    return np.ascontiguousarray(weights, dtype).reshape(-1, out)


def _flattened_kernel(layer: Layer) -> Emit:
    dtype = np.dtype(accumulator_type(layer.output.dtype))
    elements = prod(layer.constants[1].shape[1:-1])
    shape = len(layer.constants[1]) * elements, layer.constants[1].shape[-1]
    stand_in = np.broadcast_to(np.zeros((), dtype), shape)
    # most of a network's weights: packed when they are first multiplied, not for a plan
    packed = lru_cache(maxsize=1)(lambda: _packed(layer.constants[1], dtype))
    bias = layer.constants[2].astype(dtype, copy=False) if 2 in layer.constants else None

    def emit(work: Work) -> list[Call]:
        calls, held = list[Call](), work.held
        slab = make_contiguous(work.slab, work.scratch, calls)
        weights = stand_in if work.scratch.declares else packed()
        flat, first = slab.reshape(-1), held.start * elements
        length = flat.size if flat.dtype == dtype else _BLOCK
        wide = None if flat.dtype == dtype else work.scratch.take((min(length, flat.size),), dtype)
        state = layer.output.to_onnx(work.result)
        direct = work.phase.first and is_matrix(state)
        adds = not direct or length < flat.size
        part = work.scratch.take(state.shape, dtype) if adds else state
        for start in range(0, flat.size, length):
            values = flat[start : start + length]
            if wide is not None:
                calls.append((np.copyto, (wide[: values.size], values)))
                values = wide[: values.size]
            begins = work.phase.first and not start
            target = state if begins and direct else part
            own = weights[first + start : first + start + values.size]
            calls.append((np.matmul, (values[None], own, target)))
            if begins and bias is not None:
                calls.append((np.add, (target, bias, target)))
            if not begins:
                calls.append((np.add, (state, part, state)))
            elif not direct:
                calls.append((np.copyto, (state, part)))
        return calls

    if not _is_vector(layer):
        return emit
    return extend_to_images(emit, packed, is_output_major(layer.constants[1]), dtype, bias)


# --- several images -----------------------------------------------------------------------------


def _is_vector(layer: Layer) -> bool:
    """Whether an image is one vector times a constant matrix."""
    x, right = layer.inputs[0], layer.constants.get(1)
    if x is None or right is None or any(t is not None for t in layer.inputs[1:]):
        return False
    is_matrix = _is_flattened(layer) or right.ndim == 2
    return is_matrix and right.size == x.elements * layer.output.elements


def can_join_vectors(layer: Layer, images: int) -> bool:
    """Whether so many images are multiplied together."""
    return images >= FEWEST and _is_vector(layer)


def _joins(layer: Layer, images: int) -> bool:
    """The same, in the type that they have."""
    return layer.output.dtype in ("float32", "float64") and can_join_vectors(layer, images)


# --- the records --------------------------------------------------------------------------------


def _build_matmul(node: Node) -> Layer:
    a, b, _ = _operands(node)
    return product_layer(node, (a, b), {})


def _build_gemm(node: Node) -> Layer:
    a, b, c = _operands(node)
    attributes = {name: GEMM.attribute(node, name) for name in GEMM.attributes}
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ModelError(f"operands of shapes {a.shape} and {b.shape}; both must be matrices")
    fractions = [
        f"{name}={attributes[name]}"
        for name in ("alpha", "beta")
        if not float(attributes[name]).is_integer()
    ]
    if fractions and not np.issubdtype(a.dtype, np.floating):
        raise ModelError(f"{', '.join(fractions)} with {a.dtype}; whole numbers are needed")
    shape = _product_shape(attributes, a.shape, b.shape)
    if c is not None and (
        len(c.shape) > 2
        or any(n not in (1, m) for n, m in zip(c.shape[::-1], shape[::-1], strict=False))
    ):
        raise ModelError(f"input 2 of shape {c.shape} does not broadcast to {shape}")
    return product_layer(node, (a, b, c), attributes)


GEMM = Operator(
    op_type="Gemm",
    multiplies=True,
    build=_build_gemm,
    input_rows=_input_rows,
    kernel=_kernel,
    joins=_joins,
    cost=_cost,
    mode=_mode,
    shift_invariant=_repeats,
    state=accumulator_format,
    attributes=MappingProxyType({"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
    structure="row-phased; whole if the product contracts the row axis; accumulating after Flatten (with --fuse full)",
    notes="A vector times a matrix is one phase; an operand whose rows are contracted is read as a whole.",
)

MATMUL = replace(
    GEMM,
    op_type="MatMul",
    build=_build_matmul,
    attributes=MappingProxyType({}),
    notes="An operand whose rows are contracted is read as a whole.",
)

OPERATORS: tuple[Operator, ...] = (GEMM, MATMUL)
