"""Which softmaxes have a kernel? Those of float32, and of bytes, whose lines are evenly spaced within rows without gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import Family, is_dense, memoize
from csdfgen.backends.native.structures import PANEL, instruction, structure
from csdfgen.model.network import Layer
from csdfgen.ops.integers import get_zero, limits
from csdfgen.ops.quantized_maps import softmax_powers, softmax_scale
from csdfgen.ops.reducing import has_separate_rows, slab_dims
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Step

SoftmaxStep = structure("csdf_softmax_step").record
ByteSoftmaxStep = structure("csdf_byte_softmax_step").record


@dataclass(frozen=True, eq=False)
class _Softmax(Family):
    """blocks: of a row, of `inner` lines each. size: elements of a line."""

    kernels = ("softmax_of",)

    blocks: int
    size: int
    inner: int

    def takes(self, step: Step) -> bool:
        x, out = step.inputs[0], step.outputs[0]
        return x is not None and all(not view.pieces and is_dense(view) for view in (x, out))

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        sizes, tables = self._lines(step, constants)
        return [instruction("softmax_of", SoftmaxStep(*sizes, *tables))]

    def _lines(self, step: Step, constants: Constants) -> tuple[tuple[int, ...], tuple[Ref, ...]]:
        """Sizes of a step, and the tables of its rows."""
        x, out = step.view(0), step.outputs[0]
        tables = tuple(constants.rows(view.pool, view.rows) for view in (x, out))
        return (len(out.rows), self.blocks, self.size, self.inner), tables


@dataclass(frozen=True, eq=False)
class _ByteSoftmax(_Softmax):
    """settings: flip, zero point, bounds and first of the step, and the largest share. table: of powers."""

    kernels = ("softmax_bytes_of",)

    settings: tuple[float, ...]
    table: Callable[[], np.ndarray]

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        sizes, tables = self._lines(step, constants)
        placed = constants.weights(self.table())
        made = ByteSoftmaxStep(*sizes, *self.settings, placed, *tables)
        return [instruction("softmax_bytes_of", made)]


def softmax(layer: Layer) -> Family | None:
    """Softmax along axes that are stored one behind the other."""
    found = _lines_of(layer)
    return None if found is None else _Softmax(*found)


def byte_softmax(layer: Layer) -> Family | None:
    """QLinearSoftmax, the same, whose axes are stored in the order of their sums."""
    found, y = _lines_of(layer), layer.output
    in_order = [slab_dims(y, (axis,))[0] for axis in layer.attributes["axes"]]
    if found is None or in_order != sorted(in_order):
        return None
    table, share, zero = softmax_powers(layer), softmax_scale(layer), get_zero(layer, "y")
    # of which no share is half an integer, however few other terms the sum has
    with np.errstate(over="ignore"):
        first = int(np.argmax(np.rint(table * share / table[-1]) > 0))
    flip = 0 if layer.attributes["x"].dtype == "uint8" else 128
    settings = flip, zero, *limits(y.dtype), first, float(share)
    padded = memoize(lambda: packing.aligned(np.append(table, np.zeros(PANEL)), "float32"))
    return _ByteSoftmax(*found, settings, padded)


def _lines_of(layer: Layer) -> tuple[int, int, int] | None:
    """Blocks of a row, elements of a line, and lines of a block that take turns."""
    x, y, axes = layer.inputs[0], layer.output, layer.attributes["axes"]
    if x is None or x.row_axis != y.row_axis or layer.input_axes[0] != x.row_axis:
        return None
    dims, sizes = slab_dims(y, axes), (y.rows, *y.row_shape)
    if not has_separate_rows(y, axes) or 0 in dims or dims != tuple(range(dims[0], dims[-1] + 1)):
        return None
    first, behind = dims[0], dims[-1] + 1
    return prod(sizes[1:first]), prod(sizes[first:behind]), prod(sizes[behind:])
