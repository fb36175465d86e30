"""What elementwise operators share: broadcasting, element types, rows, results in place, rounding.

An elementwise operator is a row of a table (`activation`, `arithmetic`): a name, the element types
it takes, and a *recipe*, which gives the numpy calls that turn operands into a result. This module
makes the record of an operator from such a row. Output row i needs row i of every operand that
has the output's rows, and the whole of every other operand (docs/model.md). Shapes combine
as in https://onnx.ai/onnx/repo-docs/Broadcasting.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError, option
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import node_layer, require
from csdfgen.ops.base import (
    Alias,
    AliasKind,
    Call,
    Emit,
    Operator,
    Phase,
    Scratch,
    Takes,
    Work,
    aligned_rows,
    broadcast_view,
    operand_view,
    require_tensor,
)
from csdfgen.ops.reducing import FLOATS, INTEGERS, split_into_blocks
from csdfgen.ops.spread import Spread, edges

SIGNED = (*FLOATS, *(name for name in INTEGERS if name.startswith("i")))
NUMERIC = (*FLOATS, *INTEGERS)
BOOL = ("bool",)
EVERY = (*NUMERIC, *BOOL, "bfloat16")


@dataclass(frozen=True, slots=True)
class Task:
    """What a recipe is to emit calls for: one phase of a layer.

    operands broadcast against `out`, in ONNX order, and any of them may be `out` itself:
    once a call has written `out`, no later call may read an operand.
    """

    layer: Layer
    operands: tuple[np.ndarray, ...]
    out: np.ndarray
    scratch: Scratch

    @property
    def x(self) -> np.ndarray:
        """The first operand."""
        return self.operands[0]

    def temporary(self, dtype: Any = None) -> np.ndarray:
        """An uninitialised array of the result's shape, and of its type unless another is given."""
        return self.scratch.take(self.out.shape, self.out.dtype if dtype is None else dtype)

    def scalar(self, value: float) -> Any:
        """A number in the result's type: a Python number would be converted at every call."""
        return self.out.dtype.type(value)

    def attribute(self, name: str) -> Any:
        return self.layer.attributes[name]


Recipe = Callable[[Task], list[Call]]
"""task -> the calls that fill `task.out`."""

Types = Callable[[Node, Sequence[str]], str]
"""(node, types of its operands) -> type of the result; raises ModelError."""

Normalise = Callable[[Node, Mapping[str, Any]], Mapping[str, Any]]
"""(node, its attributes and their defaults) -> attributes of the layer; raises ModelError."""


def single_call(function: Callable[..., Any]) -> Recipe:
    """The recipe of an operator that numpy has: function(*operands, out)."""
    return lambda task: [(function, (*task.operands, task.out))]


def same_types(allowed: Sequence[str], result: str | None = None) -> Types:
    """All operands have one type of `allowed`, as has the result, unless `result` is given."""

    def settle(node: Node, dtypes: Sequence[str]) -> str:
        if len(set(dtypes)) > 1:
            raise ModelError(
                f"inputs of types {', '.join(dtypes)}; insert a Cast so that they agree"
            )
        if dtypes[0] not in allowed:
            raise ModelError(f"type {dtypes[0]} is not one of {', '.join(allowed)}; insert a Cast")
        return result or dtypes[0]

    return settle


def in_place_aliases(layer: Layer) -> tuple[Alias, ...]:
    """The result may overwrite any operand of its own shape, type and rows."""
    out = layer.output
    return tuple(
        Alias(AliasKind.INPLACE, position)
        for position, t in enumerate(layer.inputs)
        if t is not None and (t.shape, t.dtype, t.row_axis) == (out.shape, out.dtype, out.row_axis)
    )


def first_operand_alias(layer: Layer) -> tuple[Alias, ...]:
    """The result is the first operand itself, if it has the same type."""
    source = layer.inputs[0]
    unchanged = source is not None and source.dtype == layer.output.dtype
    return (Alias(AliasKind.VIEW, 0),) if unchanged else ()


def elementwise(
    op_type: str,
    recipe: Recipe,
    types: Types,
    *,
    operands: int | None = 1,
    since: int = 7,
    attributes: Mapping[str, Any] | None = None,
    normalise: Normalise | None = None,
    compute_in: Callable[[str], str] | None = None,
    aliases: Callable[[Layer], tuple[Alias, ...]] = in_place_aliases,
    constant_inputs: frozenset[int] = frozenset(),
    notes: str = "",
) -> Operator:
    """The record of an elementwise operator.

    operands: how many inputs are data, from the first on; None: all. The rest are settings.
    compute_in: result type -> type in which the recipe gets operands and `out`, where it is another
        one (`accumulator_of`: several roundings would add up); None: the recipe gets them as they are stored.
    """
    accepted = MappingProxyType(dict(attributes or {}))
    return Operator(
        op_type,
        build=partial(_build, types, operands, accepted, normalise),
        input_rows=aligned_rows,
        kernel=partial(_kernel, recipe, compute_in),
        cost=_cost,
        since=since,
        aliases=aliases,
        rowwise=True,
        pointwise=True,
        # Constants and operands read whole may differ from row to row: then no phase is another one
        # shifted.
        shift_invariant=operands == 1,
        takes=_takes,
        constant_inputs=constant_inputs,
        attributes=accepted,
        notes=notes
        or (
            ""
            if operands == 1
            else "an operand that is broadcast along the row axis is read as a whole"
        ),
    )


def _cost(layer: Layer, out: Rows) -> int:
    return len(out) * layer.output.row_elements


def _build(
    types: Types,
    count: int | None,
    accepted: Mapping[str, Any],
    normalise: Normalise | None,
    node: Node,
) -> Layer:
    operands = _operands(node, len(node.inputs) if count is None else count)
    computed = [x for x in operands if isinstance(x, Tensor)]
    if not computed:
        require_tensor(node, 0)
    shape = _broadcast_shape([x.shape for x in operands])
    dtype = types(node, [str(x.dtype) for x in operands])
    attributes: Mapping[str, Any] = {
        name: node.attributes.get(name, default) for name, default in accepted.items()
    }
    if normalise is not None:
        attributes = normalise(node, attributes)
    settings = (None,) * (len(node.inputs) - len(operands))
    output = Tensor(node.outputs[0], shape, Format(dtype), _row_axis(computed, shape))
    return node_layer(node, (*operands, *settings), (output,), attributes)


def _operands(node: Node, count: int) -> list[Tensor | np.ndarray]:
    """The first `count` inputs, at least one; ModelError if one is absent or without elements."""
    found: list[Tensor | np.ndarray] = []
    for position in range(max(1, count)):
        operand = require(node, position)
        if 0 in operand.shape:
            raise ModelError(
                f"input {position} has shape {operand.shape}, without elements; give its free sizes with "
                f"{option('shapes')}"
            )
        found.append(operand)
    return found


def _broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    try:
        return tuple(int(size) for size in np.broadcast_shapes(*shapes))
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise ModelError(
            f"inputs of shapes {listed} do not broadcast; sizes along an axis must agree or be 1"
        ) from None


def _row_axis(computed: Sequence[Tensor], shape: Shape) -> int | None:
    """The row axis of the first operand with the result's rows, else of any operand with rows."""
    axes = [
        (t.row_axis + len(shape) - len(t.shape), t.rows) for t in computed if t.row_axis is not None
    ]
    candidates = [axis for axis, rows in axes if rows == shape[axis]] + [axis for axis, _ in axes]
    return candidates[0] if candidates else None


def _kernel(recipe: Recipe, compute_in: Callable[[str], str] | None, layer: Layer) -> Emit:
    output = layer.output
    working = None if compute_in is None else np.dtype(compute_in(output.dtype))
    # In storage order and contiguous, but still of size 1 where they broadcast.
    constants = {
        position: np.ascontiguousarray(broadcast_view(array, output, Rows(0, output.rows)), working)
        for position, array in layer.constants.items()
    }
    data = [k for k, tensor in enumerate(layer.inputs) if tensor is not None or k in constants]

    def operand(position: int, phase: Phase, slab: np.ndarray | None) -> np.ndarray:
        tensor = layer.inputs[position]
        if tensor is not None and slab is not None:
            axis = layer.input_axes[position]
            if (tensor.shape, axis) == (output.shape, output.row_axis):
                return slab  # numpy knows an operand that is the result by its strides, those of unit axes too, else copies it
            return operand_view(slab, tensor, axis, output, phase.out)
        constant = constants[position]
        return constant if constant.shape[0] == 1 else constant[phase.out.start : phase.out.stop]

    def emit(work: Work) -> list[Call]:
        operands: list[Any] = [operand(k, work.phase, work.slabs[k]) for k in data]
        pieces = [one.pieces for one in operands if isinstance(one, Spread)]
        if not pieces:
            return _computed(layer, recipe, working, operands, work.result, work.scratch)
        calls: list[Call] = []
        for low, high in edges(pieces, work.result.shape[-1]):
            own = [_channels(one, low, high) for one in operands]
            out = work.result[..., low:high]
            calls += _computed(layer, recipe, working, own, out, work.scratch)
        return calls

    return emit


def _channels(operand: Any, low: int, high: int) -> np.ndarray:
    """Channels [low, high) of an operand; of one that broadcasts along them, its only one."""
    for piece in operand.pieces if isinstance(operand, Spread) else ():
        if piece.low <= low < piece.high:
            found: np.ndarray = piece.arrays[0][..., low - piece.low : high - piece.low]
            return found
    array: np.ndarray = operand
    return array if array.shape[-1] == 1 else array[..., low:high]


def _computed(
    layer: Layer,
    recipe: Recipe,
    working: np.dtype[Any] | None,
    operands: Sequence[np.ndarray],
    out: np.ndarray,
    scratch: Scratch,
) -> list[Call]:
    """The calls of a recipe, in the type that it works in, in blocks that fit the workspace."""

    def make(arrays: Sequence[np.ndarray], taken: Scratch) -> list[Call]:
        result, *given = arrays
        if working is None:
            return recipe(Task(layer, tuple(given), result, taken))
        calls: list[Call] = []
        for k, array in enumerate(given):
            if array.dtype != working:
                given[k] = taken.take(array.shape, working)
                calls.append((np.copyto, (given[k], array, "unsafe")))
        target = result if result.dtype == working else taken.take(result.shape, working)
        calls += recipe(Task(layer, tuple(given), target, taken))
        if target is not result:
            calls.append((np.copyto, (result, target, "unsafe")))
        return calls

    return split_into_blocks(make, (out, *operands), range(out.ndim), scratch)


def _takes(layer: Layer, position: int) -> Takes:
    """Pieces of what has the result's shape; what broadcasts is one array."""
    tensor = layer.computed(position)
    alike = (tensor.shape, layer.input_axes[position]) == (
        layer.output.shape,
        layer.output.row_axis,
    )
    return Takes.PIECES if alike else Takes.EVEN
