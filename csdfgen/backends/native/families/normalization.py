"""Which normalizations have a kernel? Those of float32 over the last axes, where these are side by side within rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from csdfgen.backends.native.families.common import Family, is_dense
from csdfgen.backends.native.structures import instruction, structure
from csdfgen.model.network import Layer
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Step

__all__ = ["normalization"]

NormalizeStep = structure("csdf_normalize_step").record


@dataclass(frozen=True, eq=False)
class _Normalization(Family):
    """size: elements that share a mean. parameters: scale and bias, one an element, or None."""

    kernels = ("normalize_of",)

    size: int
    centre: bool
    epsilon: float
    parameters: tuple[np.ndarray | None, ...]

    def takes(self, step: Step) -> bool:
        x, out = step.inputs[0], step.outputs[0]
        return x is not None and all(not view.pieces and is_dense(view) for view in (x, out))

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        x, out = step.inputs[0], step.outputs[0]
        assert x is not None
        made = NormalizeStep(
            len(out.rows),
            prod(out.shape) // self.size,
            self.size,
            self.centre,
            self.epsilon,
            *(None if one is None else constants.weights(one) for one in self.parameters),
            constants.rows(x.pool, x.rows),
            constants.rows(out.pool, out.rows),
        )
        return [instruction("normalize_of", made)]


def normalization(layer: Layer) -> Family | None:
    """LayerNormalization and RMSNormalization with constant parameters, one an element that is normalized or none."""
    x, y, axes = layer.inputs[0], layer.output, layer.attributes["axes"]
    size = prod(y.shape[axis] for axis in axes)
    before = y.shape[: y.row_axis or 0]
    if x is None or len(layer.outputs) > 1 or any(t is not None for t in layer.inputs[1:]):
        return None
    if x.row_axis != y.row_axis or layer.input_axes[0] != x.row_axis or prod(before) > 1:
        return None
    if y.row_axis is not None and min(axes) <= y.row_axis:
        return None
    given = [layer.constants.get(position) for position in (1, 2)]
    if any(one is not None and one.size != size for one in given):
        return None
    parameters = tuple(None if one is None else np.ravel(one) for one in given)
    centre = layer.op_type == "LayerNormalization"
    return _Normalization(size, centre, layer.attributes["epsilon"], parameters)
