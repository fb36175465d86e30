"""How are layers on stored integers computed where their operator has a kernel on values? Slabs are
widened into the workspace, the kernel works there, and what it makes is rounded into the rows.

Conversions are strided loops. A step that would take more workspace than it may have is halved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from csdfgen.backends.native.families.common import FLOAT, Family
from csdfgen.backends.native.strided import joined, translated
from csdfgen.backends.numpy.arrays import matched
from csdfgen.backends.numpy.parts import halves
from csdfgen.model.formats import FLOAT32, Format
from csdfgen.model.network import Layer
from csdfgen.ops.base import PREFERRED, aligned_size
from csdfgen.ops.stored import narrowing, widening
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Call, Memory, Scratchpad, Step, View

__all__ = ["Widened"]


@dataclass(frozen=True, eq=False)
class Widened(Family):
    """A layer whose twin on values is of a family. twin: the layer as the family knows it."""

    family: Family
    twin: Layer
    joins = False

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the twin."""
        return self.family.kernels

    def takes(self, step: Step) -> bool:
        """Whether rows that lie one after the other are what the kernel takes, and those that stay."""
        return self.family.takes(self._inner(step)[0])

    def workspace(self, step: Step, limit: int | None) -> int:
        """Bytes of values and of the kernel, of the larger half if that is more than the limit."""
        most = PREFERRED if limit is None else limit
        needed = self._needed(*self._inner(step), most)
        if needed > most:
            parts = [self.workspace(half, limit) for half in halves(step)]
            needed = min(needed, max(parts, default=needed))
        return needed

    def least(self, step: Step) -> int:
        return self.workspace(step, 0)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        """The step, or its halves one after the other if it takes more than there is."""
        inner, held = self._inner(step)
        if self._needed(inner, held, step.workspace.size) > step.workspace.size:
            parts = halves(step)
            if parts:
                return [made for part in parts for made in self.lower(part, constants)]
        stored = step.layer.stored
        assert stored is not None
        memory = constants.memory
        before: list[Call] = []
        for position, (view, values) in enumerate(zip(step.inputs, inner.inputs, strict=True)):
            form = stored.read(position)
            if form is not None and view is not None and values is not None:
                array = _array(values, memory)
                before += widening(matched(array, view, memory), array, form)
        after: list[Call] = []
        for position, (view, values) in enumerate(zip(step.outputs, inner.outputs, strict=True)):
            form = stored.written(position)
            if form is not None:
                array = _array(values, memory)
                after += narrowing(array, form)
                pairs = matched(array, view, memory)
                after += [(np.copyto, (rows, made, "unsafe")) for made, rows in pairs]
        return [
            *_loops(before, constants),
            *self.family.lower(inner, constants),
            *_loops(after, constants),
        ]

    def _needed(self, inner: Step, held: int, room: int) -> int:
        """Bytes of the values, and of the kernel behind them, which is to do with what is left of the room."""
        own = self.family.workspace(inner, max(0, room - aligned_size(held)))
        return aligned_size(held) + own if own else held

    def _inner(self, step: Step) -> tuple[Step, int]:
        """The step on values, and bytes of the workspace in which these end."""
        stored, pad = step.layer.stored, step.workspace
        assert stored is not None
        taken = 0

        def placed(view: View | None, form: Format | None) -> View | None:
            nonlocal taken
            if view is None or form is None:
                return view
            first, steps = aligned_size(taken), _dense(view.shape)
            size = FLOAT * prod(view.shape)
            taken = first + view.count * size
            rows = tuple(pad.offset + first + size * k for k in range(view.count))
            return View(pad.pool, rows, view.shape, steps, FLOAT32)

        inputs = tuple(placed(view, stored.read(k)) for k, view in enumerate(step.inputs))
        outputs = (placed(view, stored.written(k)) for k, view in enumerate(step.outputs))
        made = tuple(view for view in outputs if view is not None)
        behind = aligned_size(taken)
        left = Scratchpad(pad.pool, pad.offset + behind, max(0, pad.size - behind))
        return replace(step, layer=self.twin, inputs=inputs, outputs=made, workspace=left), taken


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(FLOAT * prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _array(view: View, memory: Memory) -> np.ndarray:
    """Values that lie one after the other."""
    offset = view.rows[0] if view.rows else 0
    return np.ndarray((view.count, *view.shape), np.float32, memory[view.pool], offset)


def _loops(calls: Sequence[Call], constants: Constants) -> list[Instruction]:
    loops = joined([loop for call in calls for loop in translated(call, constants)], constants)
    return [loop.lower(constants) for loop in loops]
