"""Which softmaxes have a kernel? Those of float32 whose lines are evenly spaced within rows without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from csdfgen.backends.native.families.common import Family, is_dense
from csdfgen.backends.native.structures import instruction, structure
from csdfgen.model.network import Layer
from csdfgen.ops.reducing import rows_apart, slab_dims
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Step

__all__ = ["softmax"]

SoftmaxStep = structure("csdf_softmax_step").record


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
        x, out = step.inputs[0], step.outputs[0]
        assert x is not None
        tables = (constants.rows(view.pool, view.rows) for view in (x, out))
        made = SoftmaxStep(len(out.rows), self.blocks, self.size, self.inner, *tables)
        return [instruction("softmax_of", made)]


def softmax(layer: Layer) -> Family | None:
    """Softmax along axes that are stored one behind the other."""
    x, y, axes = layer.inputs[0], layer.output, layer.attributes["axes"]
    if x is None or x.row_axis != y.row_axis or layer.input_axes[0] != x.row_axis:
        return None
    dims, sizes = slab_dims(y, axes), (y.rows, *y.row_shape)
    if not rows_apart(y, axes) or 0 in dims or dims != tuple(range(dims[0], dims[-1] + 1)):
        return None
    first, behind = dims[0], dims[-1] + 1
    return _Softmax(prod(sizes[1:first]), prod(sizes[first:behind]), prod(sizes[behind:]))
