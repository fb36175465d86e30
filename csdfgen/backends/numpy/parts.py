"""Which parts of a step does numpy compute at a time? All of its images where that pays, rows that are
arrays, and halves where there is little workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode, Phase, Takes, stored_rows
from csdfgen.program.steps import Step, View, split_by_image, take_images

# Several images -----------------------------------------------------------------------------------


def image_rows(phase: Phase) -> Rows:
    """The rows that a phase writes, counted through its images."""
    return Rows(phase.out.start, phase.out.start + phase.images * len(phase.out))


def merge_images(step: Step) -> tuple[Step, ...]:
    """The step, if all of its images can be computed at once; else one for each of them.

    Where elements depend on those at their place alone, images are more rows.
    """
    layer, phase, images = step.layer, step.phase, step.phase.images
    if images == 1:
        return (step,)
    operator, out = get_operator(layer), image_rows(phase)
    alone = all(_is_pointwise(one) for one in layer.following)
    if operator.mode(layer) is Mode.ROWS and _is_pointwise(layer):
        ins = operator.input_rows(layer, out)
        tensors = (*layer.inputs, *layer.outputs)
        high = all(t is None or t.rows == len(phase.out) for t in tensors)
        natural = layer.input_axes == tuple(t and t.row_axis for t in layer.inputs)
        if alone and high and natural and all(rows in (None, out) for rows in ins):
            return (replace(step, phase=replace(phase, out=out, ins=ins, images=1)),)
    lies = all(is_array(view) for view in step.outputs)
    lies = lies and all(_is_stacked(layer, k, view) for k, view in enumerate(step.inputs))
    if alone and lies and not step.states and operator.joins(layer, images):
        return (step,)
    return split_by_image(step)


def _is_pointwise(layer: Layer) -> bool:
    """Whether it does the same to every row."""
    operator = get_operator(layer)
    return operator.pointwise and operator.repeats(layer)


def _is_stacked(layer: Layer, position: int, view: View | None) -> bool:
    """Whether a kernel that takes several images is handed the rows of an operand as they lie."""
    tensor = layer.inputs[position]
    if view is None or tensor is None:
        return True
    if layer.input_axes[position] != tensor.row_axis or not view.shape:
        return False
    pieces = get_operator(layer).takes(layer, position) is not Takes.EVEN
    return not view.pieces or (pieces and view.along == len(view.shape) - 1)


# A phase in parts --------------------------------------------------------------------------------


def split_step(step: Step) -> list[Step]:
    """The step cut so that the rows of no output jump, and of no input either where rows are
    independent; an accumulating one so that those it adds up do not jump.
    """
    operator = get_operator(step.layer)
    mode = operator.mode(step.layer)
    if mode is Mode.WHOLE or step.phase.images > 1:
        return [step]
    if mode is Mode.ACCUMULATE:
        return _accumulating_parts(step, operator.accumulate_over)
    out = step.phase.out
    cuts = {0, len(out)}
    held_whole = operator.held(step.layer)
    for k, view in enumerate(step.outputs):
        for one in () if k in held_whole else view.pieces or (view,):
            cuts.update(stop for _, stop in one.runs)
    if operator.rowwise:
        for position, rows in enumerate(step.phase.ins):
            held = step.inputs[position]
            if held is not None and _runs_along(step, position, rows):
                for one in held.pieces or (held,):
                    cuts.update(stop for _, stop in one.runs)
    if len(cuts) == 2:
        return [step]
    return [_cut(step, start, stop) for start, stop in pairwise(sorted(cuts))]


def _runs_along(step: Step, position: int, rows: Rows | None) -> bool:
    """Whether an operand is read row by row, as the result is written."""
    tensor, output = step.layer.inputs[position], step.layer.output
    alike = tensor is not None and tensor.rows == output.rows
    return alike and rows == step.phase.out and _by_its_rows(step.layer, position)


def _by_its_rows(layer: Layer, position: int) -> bool:
    """Whether a layer reads an operand along the axis by whose rows it is stored."""
    tensor = layer.inputs[position]
    return tensor is not None and layer.input_axes[position] == tensor.row_axis


def _cut(step: Step, start: int, stop: int) -> Step:
    """Rows [start, stop) of what the step writes, with the rows that they read."""
    layer, phase = step.layer, step.phase
    out = Rows(phase.out.start + start, phase.out.start + stop)
    ins = get_operator(layer).input_rows(layer, out)
    inputs: list[View | None] = []
    for position, (held, rows, before) in enumerate(zip(step.inputs, ins, phase.ins, strict=True)):
        if held is None or rows is None or before is None:
            inputs.append(None)
            continue
        first = stored_rows(layer, position, before).start
        stored = stored_rows(layer, position, rows)
        inputs.append(held.part(stored.start - first, stored.stop - first))
    states = get_operator(layer).held(layer)
    outputs = tuple(
        view if k in states else view.part(start, stop) for k, view in enumerate(step.outputs)
    )
    first = phase.first and not (states and start)
    return _changed(step, Phase(out, ins, first, phase.last, phase.image), inputs, outputs)


def halve_step(step: Step) -> list[Step]:
    """The step in two, as one that takes less workspace; [] if it is as small as can be."""
    images = step.phase.images
    if images > 1:
        half = images // 2
        both = take_images(step, 0, half), take_images(step, half, images - half)
        return [part for one in both for part in merge_images(one)]
    operator = get_operator(step.layer)
    mode = operator.mode(step.layer)
    if mode is Mode.ROWS:
        count = len(step.phase.out)
        cuts = [0, count // 2, count]
        return [_cut(step, a, b) for a, b in pairwise(cuts)] if count > 1 else []
    if mode is Mode.ACCUMULATE:
        rows = step.phase.ins[operator.accumulate_over]
        count = 0 if rows is None else len(rows)
        return _accumulating_cuts(step, [0, count // 2, count]) if count > 1 else []
    return []


def _accumulating_parts(step: Step, over: int) -> list[Step]:
    view = step.view(over)
    stops = {b for one in view.pieces or (view,) for _, b in one.runs}
    return _accumulating_cuts(step, [0, *sorted(stops)]) or [step]


def _accumulating_cuts(step: Step, cuts: Sequence[int]) -> list[Step]:
    """Parts of an accumulating step between positions of the rows it adds up; [] if it has none."""
    layer, phase, over = step.layer, step.phase, get_operator(step.layer).accumulate_over
    view, rows = step.view(over), phase.held(over)
    if len(cuts) <= 2 or not _by_its_rows(layer, over):
        return []
    last = len(cuts) - 2
    found = []
    for i, (start, stop) in enumerate(pairwise(cuts)):
        piece = Rows(rows.start + start, rows.start + stop)
        ins = (*phase.ins[:over], piece, *phase.ins[over + 1 :])
        part = Phase(phase.out, ins, phase.first and i == 0, phase.last and i == last, phase.image)
        inputs = [*step.inputs[:over], view.part(start, stop), *step.inputs[over + 1 :]]
        found.append(_changed(step, part, inputs, step.outputs))
    return found


def _changed(
    step: Step, phase: Phase, inputs: Sequence[View | None], outputs: tuple[View, ...]
) -> Step:
    return Step(
        step.firing,
        step.actor,
        step.layer,
        phase,
        tuple(inputs),
        outputs,
        step.states,
        step.workspace,
    )


def is_array(view: View) -> bool:
    return not view.pieces and len(view.runs) <= 1
