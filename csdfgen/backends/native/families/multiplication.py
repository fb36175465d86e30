"""Which products have a kernel that reads rows and columns wherever they are? Those of two activations, or of one and constant
matrices, in float32 and bytes, whose left operand has what is summed up, and whose product has its columns, within a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

import numpy as np

from csdfgen.backends.native.families.common import FLOAT, Family, dense_strides, offsets
from csdfgen.backends.native.structures import (
    PANEL,
    constant,
    instruction,
    structure,
    type_suffix,
)
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops.linear import sliced_axis
from csdfgen.ops.reducing import slab_dims
from csdfgen.program.instructions import WEIGHTS, Constants, Instruction, Ref
from csdfgen.program.steps import Step, View

MultiplyStep = structure("csdf_multiply_step").record
ROWS = constant("CSDF_ROWS")

_AT_A_TIME = (ROWS, ROWS // 2, ROWS // 4, 1)
"""Rows that are processed at a time, the fastest first."""


class Matrix(NamedTuple):
    """An operand or the product, whose rows and columns are the last axes but one and the last, or `turned`. axis, held:
    along which it is read, and which rows along it.
    """

    tensor: Tensor
    view: View
    axis: int | None
    held: Rows
    turned: bool

    def size(self, column: bool) -> int:
        """Number of rows, or columns."""
        return self.tensor.shape[-1 if column != self.turned else -2]

    def step(self, column: bool) -> int:
        """Elements from one row, or column, to the next; 1 where there is one alone."""
        axis = len(self.tensor.shape) - (1 if column != self.turned else 2)
        if self.tensor.shape[axis] == 1:
            return 1
        return (
            self.view.strides[slab_dims(self.tensor, (axis,))[0] - 1] // self.view.format.itemsize
        )

    def places(self) -> np.ndarray:
        """Offsets of the elements that the step reads or writes: shape (..., rows, columns)."""
        array = self.tensor.to_onnx(offsets(self.view))
        if self.axis is not None and self.axis != self.tensor.row_axis:
            array = array[(slice(None),) * self.axis + (slice(self.held.start, self.held.stop),)]
        return array.swapaxes(-1, -2) if self.turned else array


@dataclass(frozen=True, eq=False)
class Multiplication(Family):
    """turned: whether rows of the kernel's matrices are columns of the layer's, whose operands change places then. halves:
    see `pools`.
    """

    layer: Layer
    turned: bool
    halves: str = field(default="", kw_only=True)
    joins = False

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        return (f"matrices_{self.halves}of" if self.halves else "multiply_of",)

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        if None in layer.inputs[:2]:  # a constant is widened once, not in every frame
            return None
        return replace(self, halves=f"{type_suffix(np.dtype(dtype))}_")

    def takes(self, step: Step) -> bool:
        views = [view for view in (*step.inputs, *step.outputs) if view is not None]
        return not step.states and not any(view.pieces for view in views)

    def matrices(self, step: Step, constants: Constants | None = None) -> list[Matrix]:
        """Left and right operand of the kernel, and the product. constants: where those of the layer are stored."""
        layer, made = self.layer, self.layer.output
        found = [Matrix(made, step.outputs[0], made.row_axis, step.phase.out, self.turned)]
        for k, tensor in enumerate(_operands(layer)):
            view, axis, held = step.inputs[k], layer.input_axes[k], step.phase.ins[k]
            if view is None or held is None:
                axis, held = sliced_axis(layer, k), step.phase.out
                values = layer.constants[k]
                at = Ref(WEIGHTS, 0) if constants is None else constants.dense(values)
                steps = dense_strides(tensor.shape)
                view = View(at.pool, (at.offset,), tensor.shape, steps, tensor.format)
            found.insert(k, Matrix(tensor, view, axis, held, self.turned))
        a, b, out = found
        return [b, a, out] if self.turned else [a, b, out]

    def workspace(self, step: Step, limit: int | None) -> int:
        size = self._bytes(step)
        return size * rows_per_block(size, limit)

    def _bytes(self, step: Step) -> int:
        """What a row that is processed takes (csdf_multiply_step says why)."""
        a, _, out = self.matrices(step)
        found = a.size(True) if self.halves or a.step(True) != 1 else 0
        if self.halves or out.step(True) != 1:
            found += -(-out.size(True) // (2 * PANEL)) * 2 * PANEL
        return FLOAT * found

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        groups, count, by_columns, tables = self.tables(step, constants)
        a, b, out = self.matrices(step, constants)
        made = MultiplyStep(
            groups, count, a.size(True), out.size(True),
            a.step(True), b.step(not by_columns), out.step(True), int(by_columns),
            rows_per_block(self._bytes(step), step.workspace.size),
            *tables, Ref(step.workspace.pool, step.workspace.offset),
        )  # fmt: skip
        (kernel,) = self.kernels
        return [instruction(kernel, made)]

    def tables(self, step: Step, constants: Constants) -> tuple[int, int, bool, tuple[Ref, ...]]:
        """Pairs of matrices, rows of each product, whether the right operands' columns are listed, and the tables of the
        operands and the product.
        """
        matrices = a, b, out = self.matrices(step, constants)
        places = [one.places() for one in matrices]
        batch = places[2].shape[:-2]
        of_a, of_b, of_out = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in places)
        by_columns = _by_columns(b)
        tables = (
            _table(constants, a, of_a[..., 0]),
            _table(constants, b, of_b[..., 0, :] if by_columns else of_b[..., 0]),
            _table(constants, out, of_out[..., 0]),
        )
        return prod(batch), of_out.shape[-2], by_columns, tables


def rows_per_block(size: int, limit: int | None) -> int:
    """Rows that are processed at a time, where each takes so many bytes of workspace."""
    return next((n for n in _AT_A_TIME if limit is None or n * size <= limit), 1)


def _table(constants: Constants, of: Matrix, places: np.ndarray) -> Ref:
    return constants.rows(of.view.pool, places.reshape(-1).tolist())


def _by_columns(b: Matrix) -> bool:
    """Whether the kernel is handed the columns of its right operand: where these are rows of the tensor, or have their
    elements side by side and rows have not.
    """
    axis = b.tensor.row_axis
    if axis is not None and axis >= len(b.tensor.shape) - 2:
        return (axis == len(b.tensor.shape) - 1) != b.turned
    return b.step(True) != 1 and b.step(False) == 1


def is_turned(layer: Layer, tensors: Sequence[Tensor] = ()) -> bool | None:
    """Whether the rows of the product are columns to a kernel; None where there is none for either way. tensors: the operands,
    which are the layer's inputs otherwise.
    """
    tensors = tensors or [t for t in layer.inputs if t is not None]
    if len(tensors) != 2 or min(len(t.shape) for t in tensors) < 2:
        return None
    a, b, out = (
        None if t.row_axis is None else t.row_axis - len(t.shape) for t in (*tensors, layer.output)
    )
    if a != -1 and out != -1:
        return False
    return True if b != -2 and out != -2 else None


def multiplication(layer: Layer) -> Family | None:
    """MatMul of two activations, or of one and constant matrices."""
    turned = is_turned(layer, _operands(layer)) if layer.op_type == "MatMul" else None
    return None if turned is None else Multiplication(layer, turned)


def _operands(layer: Layer) -> list[Tensor]:
    """The two operands of a product, constant ones as tensors without rows."""
    return [
        Tensor("", layer.constants[k].shape, Format("float32")) if tensor is None else tensor
        for k, tensor in enumerate(layer.inputs[:2])
    ]
