"""The values of a layer whose operands are known: all of it at once, with its own kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from csdfgen.model.network import Layer
from csdfgen.ops.base import (
    Operator,
    allocate_targets,
    axis_height,
    phases,
    present_slab,
    run_slab,
    slice_targets,
    stored_rows,
)


def run_layer(
    operator: Operator, layer: Layer, arrays: Sequence[np.ndarray | None]
) -> tuple[np.ndarray, ...]:
    """The outputs of a layer at once from its whole inputs, all in ONNX axis order."""
    stored = [
        None if t is None or a is None else t.to_storage(a)
        for t, a in zip(layer.inputs, arrays, strict=False)
    ]
    read = zip(layer.inputs, layer.input_axes, strict=True)
    tallest = [axis_height(t, axis) for t, axis in read if t is not None]
    outputs = run_in_slabs(operator, layer, stored, max(*tallest, layer.output.rows, 1))
    return tuple(t.to_onnx(o) for t, o in zip(layer.outputs, outputs, strict=True))


def run_in_slabs(
    operator: Operator, layer: Layer, stored: Sequence[np.ndarray | None], height: int
) -> list[np.ndarray]:
    """The outputs of one layer as they are stored, from whole inputs as they are stored, so many rows at a time."""
    outputs = [np.empty(t.storage_shape, t.dtype) for t in layer.outputs]
    targets = allocate_targets(operator, layer, outputs)
    for phase in phases(operator, layer, height):
        slabs: list[np.ndarray | None] = []
        for position, (whole, rows) in enumerate(zip(stored, phase.ins, strict=False)):
            if whole is None or rows is None:
                slabs.append(None)
                continue
            held = stored_rows(layer, position, rows)
            slabs.append(present_slab(whole[held.start : held.stop], layer, position, rows))
        run_slab(operator, layer, phase, slabs, slice_targets(operator, layer, phase, targets))
    for output, target in zip(outputs, targets, strict=True):
        if target is not output:
            np.copyto(output, target, "unsafe")
    return outputs
