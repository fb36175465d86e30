"""The values of a layer whose operands are known: all of it at once, with its own kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.ops.base import (
    Operator,
    height_along,
    held_in,
    phases,
    presented,
    run_slab,
    stored_rows,
    written_in,
)

__all__ = ["run_layer"]


def run_layer(
    operator: Operator, layer: Layer, arrays: Sequence[np.ndarray | None]
) -> tuple[np.ndarray, ...]:
    """The outputs of one layer in ONNX axis order, computed at once from whole inputs in ONNX axis
    order.
    """
    stored = [
        None if t is None or a is None else t.to_storage(a)
        for t, a in zip(layer.inputs, arrays, strict=False)
    ]
    outputs = [np.empty(t.storage_shape, t.dtype) for t in layer.outputs]
    targets = held_in(operator, layer, outputs)
    read = zip(layer.inputs, layer.input_axes, strict=True)
    tallest = [height_along(t, axis) for t, axis in read if t is not None]
    for phase in phases(operator, layer, max(*tallest, layer.output.rows, 1)):
        slabs = [_slab(stored, layer, k, rows) for k, rows in enumerate(phase.ins)]
        run_slab(operator, layer, phase, slabs, written_in(operator, layer, phase, targets))
    for output, target in zip(outputs, targets, strict=True):
        if target is not output:
            np.copyto(output, target, "unsafe")
    return tuple(t.to_onnx(o) for t, o in zip(layer.outputs, outputs, strict=True))


def _slab(
    stored: Sequence[np.ndarray | None], layer: Layer, position: int, rows: Rows | None
) -> np.ndarray | None:
    if rows is None:
        return None
    whole = stored[position]
    assert whole is not None
    held = stored_rows(layer, position, rows)
    return presented(whole[held.start : held.stop], layer, position, rows)
