"""How is a layer computed that reads rows along another axis than its input is stored by? Where its rows are evenly spaced
there with their channels side by side, they are read in place; else what a step reads is copied into the workspace.

A signal that was cut from another tensor has no rows, a map that comes out of a matrix product has its channels in front: their
convolutions and pools have kernels of rows all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from csdfgen.backends.native.families.common import Family, dense_strides
from csdfgen.backends.native.families.convolution import Convolution
from csdfgen.backends.native.families.widened import Widened
from csdfgen.backends.native.strided import translate_calls
from csdfgen.backends.native.ways import Ways
from csdfgen.backends.numpy.arrays import view_array
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.backends.numpy.parts import halve_step, is_array
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops.base import PREFERRED, align_size, present_slab
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Call, Form, Scratchpad, Step, View

NEAR = 1 << 16
"""Bytes that are copied at a time, unless a single row of the output reads more."""


def view_as_rows(layer: Layer) -> Layer | None:
    """The layer as if its only input were stored by the rows that it reads; None if it is, or if it reads no rows."""
    x, *others = layer.inputs
    if x is None or not layer.input_axes or any(t is not None for t in others):
        return None
    axis = layer.input_axes[0]
    if axis is None or axis == x.row_axis:
        return None
    return replace(layer, inputs=(replace(x, row_axis=axis), *others))


@dataclass(frozen=True, eq=False)
class Presented(Family):
    """A layer whose twin on stored rows is of a family."""

    family: Family
    twin: Layer
    joins = False

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the twin."""
        return self.family.kernels

    def follows(self, layer: Layer) -> int:
        return self.family.follows(layer)

    def computed(self, ways: Ways, layer: str) -> Presented:
        """The same, its twin computed so, see `Convolution.computed`."""
        inner = self.family
        return (
            replace(self, family=inner.computed(ways, layer))
            if isinstance(inner, Convolution | Widened)
            else self
        )

    def forms(self, layer: Layer, rows: int) -> tuple[Form, ...]:
        return self.family.forms(self.twin, rows)

    def takes(self, step: Step) -> bool:
        view = step.inputs[0]
        return view is not None and is_array(view) and self.family.takes(self._inner(step)[0])

    def workspace(self, step: Step, limit: int | None) -> int:
        own = self._own(step, PREFERRED if limit is None else limit)
        # rows of a window that are too many to be granted for speed alone are read as numpy does it
        granted = limit is None or own <= max(limit, NEAR)
        return own if granted else min(own, NUMPY.workspace(step, limit))

    def least(self, step: Step) -> int:
        return self._own(step, 0)

    def _own(self, step: Step, room: int) -> int:
        return max(self._needed(part, room) for part in self._parts(step, room))

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        return [
            made
            for part in self._parts(step, step.workspace.size)
            for made in self._lowered(part, constants)
        ]

    def _lowered(self, step: Step, constants: Constants) -> list[Instruction]:
        inner, copied = self._inner(step)
        before: list[Call] = []
        if copied:
            stored, rows, values = step.view(0), step.phase.held(0), inner.view(0)
            array = present_slab(view_array(stored, constants.memory), step.layer, 0, rows)
            before = [(np.copyto, (view_array(values, constants.memory), array))]
        return [*translate_calls(before, constants), *self.family.lower(inner, constants)]

    def _parts(self, step: Step, room: int) -> list[Step]:
        """The step in as few parts as do with the room, and whose copies stay in a near cache until the kernel reads them."""
        if self._inner(step)[1] <= NEAR and self._needed(step, room) <= room:
            return [step]
        return [part for half in halve_step(step) for part in self._parts(half, room)] or [step]

    def _needed(self, step: Step, room: int) -> int:
        """Bytes of the copy, and of the kernel behind it, which is to do with what is left of the room."""
        inner, copied = self._inner(step)
        own = self.family.workspace(inner, max(0, room - align_size(copied)))
        return align_size(copied) + own if own else copied

    def _inner(self, step: Step) -> tuple[Step, int]:
        """The step on stored rows, and the bytes of the workspace that these take."""
        stored, rows, pad, x = (
            step.view(0),
            step.phase.held(0),
            step.workspace,
            self.twin.computed(0),
        )

        def on(view: View, taken: int) -> Step:
            behind = align_size(taken)
            left = Scratchpad(pad.pool, pad.offset + behind, max(0, pad.size - behind))
            inputs = (view, *step.inputs[1:])
            return replace(step, layer=self.twin, inputs=inputs, workspace=left)

        in_place = on(_rows_of(stored, step.layer, x, rows), 0)
        if self.family.takes(in_place):
            return in_place, 0
        size, steps = x.row_bytes, dense_strides(x.row_shape, x.itemsize)
        places = tuple(pad.offset + size * k for k in range(len(rows)))
        copied = View(pad.pool, places, x.row_shape, steps, stored.format)
        return on(copied, size * len(rows)), size * len(rows)


def _rows_of(stored: View, layer: Layer, x: Tensor, rows: Rows) -> View:
    """Rows along the axis of another form of a layer's input, where they are stored evenly spaced."""
    given = layer.computed(0)
    apart = stored.rows[1] - stored.rows[0] if stored.count > 1 else 0
    # a tensor without a row axis is one row with all axes
    steps = stored.strides if given.row_axis is None else (apart, *stored.strides)
    by_axis = dict(zip(given.order, steps, strict=True))
    along, *others = x.order
    places = tuple(stored.rows[0] + by_axis[along] * k for k in range(rows.start, rows.stop))
    return View(
        stored.pool, places, x.row_shape, tuple(by_axis[axis] for axis in others), stored.format
    )
