"""Which products of two activations have a kernel? Those that sum over the rows of both: of them no copy is made."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from csdfgen.backends.native.families.common import FLOAT, Family, is_dense
from csdfgen.backends.native.structures import instruction, structure
from csdfgen.model.network import Layer, Shape
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Step, View

ContractStep = structure("csdf_contract_step").record


@dataclass(frozen=True)
class _Contraction(Family):
    """groups, height, width: of the output. joins: no, as the rows of an image are summed up."""

    kernels = ("contract_of",)

    groups: int
    height: int
    width: int
    joins = False

    def takes(self, step: Step) -> bool:
        a, b, *_ = step.inputs
        out = step.outputs[0]
        views = [view for view in (a, b, out) if view is not None]
        return len(views) == 3 and is_dense(out) and not any(view.pieces for view in views)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        a, b, out = step.view(0), step.view(1), step.outputs[0]
        # a row has axes in front of the row axis behind those that follow it: of a (groups, height), of b (width, groups)
        *of_groups, a_step = _steps(a)
        b_step, *b_groups = _steps(b)
        made = ContractStep(
            a.count, self.groups, self.height, self.width,
            _along(a.shape[:-1], of_groups), a_step, _along(b.shape[1:], b_groups), b_step,
            *(constants.rows(view.pool, view.rows) for view in (a, b, out)),
        )  # fmt: skip
        return [instruction("contract_of", made)]


def _steps(view: View) -> list[int]:
    return [step // FLOAT for step in view.strides]


def _along(sizes: Shape, steps: list[int]) -> int:
    """Elements from one group to the next, of which at most one axis has several."""
    return next((step for size, step in zip(sizes, steps, strict=True) if size > 1), 0)


def contraction(layer: Layer) -> Family | None:
    """MatMul of two activations whose rows are what is summed over, with several groups along one axis at most."""
    a, b, *_ = layer.inputs
    if layer.op_type != "MatMul" or a is None or b is None:
        return None
    rank, groups = len(a.shape), a.shape[:-2]
    if rank < 2 or groups != b.shape[:-2] or sum(size > 1 for size in groups) > 1:
        return None
    axes = a.row_axis, b.row_axis
    if (
        axes != (rank - 1, rank - 2)
        or layer.input_axes != axes
        or layer.output.row_axis is not None
    ):
        return None
    return _Contraction(prod(groups), a.shape[-2], b.shape[-1])
