"""How are layers on stored integers computed where their operator has a kernel on values? Slabs are
widened into the workspace, the kernel works there, and what it makes is rounded into the rows.

Conversions are strided loops. A step that would take more workspace than it may have is cut into columns and rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

import numpy as np

from csdfgen.backends.native.families.common import FLOAT, Family, dense_strides
from csdfgen.backends.native.families.convolution import Convolution
from csdfgen.backends.native.families.product import Product
from csdfgen.backends.native.strided import name_results, translate_calls
from csdfgen.backends.native.ways import Ways
from csdfgen.backends.numpy.arrays import match_rows
from csdfgen.backends.numpy.parts import halve_step
from csdfgen.model.formats import FLOAT16, FLOAT32, Format, Stored
from csdfgen.model.network import Layer
from csdfgen.ops.base import PREFERRED, align_size
from csdfgen.ops.stored import narrow_values, widen_values
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Call, Form, Memory, Scratchpad, Step, View, describe_demand

VALUES = 1 << 16
"""Bytes of values at a time, which stay in a near cache until the kernel reads them, or they are rounded."""

LEAST = 1 << 11
"""Bytes of values that are worth no further cut."""

FEW = 4
"""Columns that are not cut further, and rows for which weights are read once at least if a product is computed on values."""


Part = tuple["Widened", Step, int]
"""A part of a step, who computes it, and the bytes that it needs."""


@dataclass(frozen=True, eq=False)
class Widened(Family):
    """A layer whose twin on values is of a family. twin: the layer as the family knows it. stored: what it reads and writes.
    followed: layers of the epilogue that are applied before that is written, of a layer that does not know of its twin.
    direct: the twin's family on what is stored, which widens nothing in memory. suits: see `Ways.bfloat16`; it computes all
    steps that have no room for values, and all steps of layers without weights.
    """

    family: Family
    twin: Layer
    stored: Stored
    followed: int = 0
    direct: Family | None = None
    suits: int = -1
    joins = False
    _most: dict[Hashable, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the twin."""
        return self.family.kernels + (() if self.direct is None else self.direct.kernels)

    def follows(self, layer: Layer) -> int:
        return self.followed

    def computed(self, ways: Ways, layer: str) -> Widened:
        """The same, its twin computed so, see `Convolution.computed`."""
        inner = self.family
        suits = ways.float16 if self.stored.read(0) == FLOAT16 else ways.bfloat16
        if isinstance(inner, Convolution):
            inner = inner.computed(ways, layer)
            if not ways.exact and any(own.dots for own in inner.filters):
                suits = -1  # vectors of pairs are along the outputs, of which there are few
        return replace(self, family=inner, suits=suits)

    @property
    def weights(self) -> int:
        """How many weights the direct family multiplies."""
        return self.direct.weights if isinstance(self.direct, Convolution | Product) else 0

    @property
    def _never_widens(self) -> bool:
        return self.suits == 0 or not self.weights

    def forms(self, layer: Layer, rows: int) -> tuple[Form, ...]:
        return self.family.forms(self.twin, rows)

    def takes(self, step: Step) -> bool:
        """Whether rows that lie one after the other are what the kernel takes, and those that stay."""
        return self.family.takes(self._inner(step)[0])

    def workspace(self, step: Step, limit: int | None) -> int:
        """Bytes of values and of the kernel, of the largest part."""
        direct = self._directly(step) if self._never_widens else None
        if direct is not None:
            family, same = direct
            return 0 if self.weights else family.workspace(same, limit)
        return self._widened(step, limit)

    def _widened(self, step: Step, limit: int | None) -> int:
        room = PREFERRED if limit is None else limit
        key = room, describe_demand(step)
        if key not in self._most:
            columns, halves = self._cut(step, room, once=True)
            needed = [size for _, _, size in columns]
            self._most[key] = max(needed + [self._widened(half, room) for half in halves])
        return self._most[key]

    def least(self, step: Step) -> int:
        return 0 if self.weights and self._directly(step) is not None else self.workspace(step, 0)

    def _directly(self, step: Step) -> tuple[Family, Step] | None:
        """The family that computes what is stored, and the step as it knows it."""
        same = replace(step, layer=self.twin)
        return (self.direct, same) if self.direct is not None and self.direct.takes(same) else None

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        """The step, part by part if it takes more than there is."""
        direct, room = self._directly(step), step.workspace.size
        if direct is None:
            parts = self._parts(step, room)
        else:
            family, same = direct
            if self._never_widens or self._widened(step, 0) > room:
                return family.lower(same, constants)
            parts = self._parts(step, room)
            if isinstance(self.direct, Product) and all(
                one.outputs[0].count < min(FEW, step.outputs[0].count) for _, one, _ in parts
            ):  # each would read all weights
                return family.lower(same, constants)
            # one that takes more than its values has Winograd's form, which is faster still
            if 0 < self.suits <= self.weights and all(
                size == part._held(one) for part, one, size in parts
            ):
                return family.lower(same, constants)
        return [made for part, one, _ in parts for made in part._lowered(one, constants)]

    def _lowered(self, step: Step, constants: Constants) -> list[Instruction]:
        """A part: what it reads as values, the kernel, and what it makes rounded."""
        inner, _ = self._inner(step)
        stored, memory = self.stored, constants.memory
        before: list[Call] = []
        for position, (view, values) in enumerate(zip(step.inputs, inner.inputs, strict=True)):
            form = stored.read(position)
            if form is not None and view is not None and values is not None:
                array = _array(values, memory)
                before += widen_values(match_rows(array, view, memory), array, form)
        after: list[Call] = []
        for position, (view, values) in enumerate(zip(step.outputs, inner.outputs, strict=True)):
            form = stored.written(position)
            if form is not None:
                array = _array(values, memory)
                after += narrow_values(array, form)
                pairs = match_rows(array, view, memory)
                after += [(np.copyto, (rows, made, "unsafe")) for made, rows in pairs]
        return [
            *translate_calls(before, constants),
            *self.family.lower(inner, constants),
            *name_results(translate_calls(after, constants)),
        ]

    def _parts(self, step: Step, room: int) -> list[Part]:
        """The step in as few parts as have values that stay in a near cache, and do with the room."""
        columns, halves = self._cut(step, room)
        return columns + [part for half in halves for part in self._parts(half, room)]

    def _cut(self, step: Step, room: int, once: bool = False) -> tuple[list[Part], list[Step]]:
        """(parts with some of the columns of all rows, []), or else ([], steps with half of the rows). once: of parts that
        need equally much, one alone.
        """
        for columns in self._divisions(step, once):
            found = []
            for part, one in columns:
                needed = part._fitting(one, room)
                if needed is None:
                    break
                found.append((part, one, needed))
            else:
                return found, []
        if halves := halve_step(step):
            return [], halves
        *_, least = self._divisions(step, once)
        return [(part, one, part._needed(one, room)) for part, one in least], []

    def _fitting(self, step: Step, room: int) -> int | None:
        """What the step needs, None if that is too much."""
        held = self._held(step)
        # weights are read again for every part
        near = max(VALUES, FLOAT * sum(one.size for one in self.twin.constants.values()))
        if held > max(near, LEAST):
            return None
        needed = self._needed(step, room)
        return needed if held <= LEAST or needed <= room else None

    def _divisions(self, step: Step, once: bool) -> Iterator[Iterable[tuple[Widened, Step]]]:
        """The step as it is, then in columns, fewer and fewer at a time where the kernel has them apart."""
        yield [(self, step)]
        out = step.outputs[0]
        apart = len(step.outputs) == 1 and len(out.shape) == 3 and self.takes(step)
        if apart and self.family.within(self.twin, 0, 1) is not None:
            width = size = out.shape[0]
            while size > FEW:
                size = max(FEW, -(-size // 2 // FEW) * FEW)
                yield self._columns(step, [*range(0, width, size), width], once)

    def _columns(self, step: Step, edges: list[int], once: bool) -> Iterator[tuple[Widened, Step]]:
        """The parts of the step between these columns, each made when it is asked for."""
        sizes = set()
        for start, stop in pairwise(edges):
            made = self.family.within(self.twin, start, stop)
            assert made is not None
            family, low, high = made
            if once and (stop - start, high - low) in sizes:
                continue
            sizes.add((stop - start, high - low))
            inputs = tuple(None if v is None else _cut_view(v, low, high) for v in step.inputs)
            outputs = (_cut_view(step.outputs[0], start, stop),)
            yield replace(self, family=family), replace(step, inputs=inputs, outputs=outputs)

    def _needed(self, step: Step, room: int) -> int:
        """Bytes of the values, and of the kernel behind them, which is to do with what is left of the room."""
        inner, held = self._inner(step)
        own = self.family.workspace(inner, max(0, room - align_size(held)))
        return align_size(held) + own if own else held

    def _held(self, step: Step) -> int:
        """Bytes of the workspace in which values end."""
        formed = [(view, self.stored.read(k)) for k, view in enumerate(step.inputs)]
        formed += [(view, self.stored.written(k)) for k, view in enumerate(step.outputs)]
        taken = 0
        for view, form in formed:
            if view is not None and form is not None:
                taken = align_size(taken) + FLOAT * view.count * prod(view.shape)
        return taken

    def _inner(self, step: Step) -> tuple[Step, int]:
        """The step on values, and bytes of the workspace in which these end."""
        stored, pad = self.stored, step.workspace
        taken = 0

        def placed(view: View | None, form: Format | None) -> View | None:
            nonlocal taken
            if view is None or form is None:
                return view
            first, steps = align_size(taken), dense_strides(view.shape)
            size = FLOAT * prod(view.shape)
            taken = first + view.count * size
            rows = tuple(pad.offset + first + size * k for k in range(view.count))
            return View(pad.pool, rows, view.shape, steps, FLOAT32)

        inputs = tuple(placed(view, stored.read(k)) for k, view in enumerate(step.inputs))
        outputs = (placed(view, stored.written(k)) for k, view in enumerate(step.outputs))
        made = tuple(view for view in outputs if view is not None)
        behind = align_size(taken)
        left = Scratchpad(pad.pool, pad.offset + behind, max(0, pad.size - behind))
        return replace(step, layer=self.twin, inputs=inputs, outputs=made, workspace=left), taken


def _cut_view(view: View, start: int, stop: int) -> View:
    """Columns [start, stop) of rows; one that all columns meet stays."""
    if len(view.shape) < 3 or view.shape[0] == 1:
        return view
    if view.pieces:
        pieces, low = [], 0
        for piece in view.pieces:
            if view.along != 0:
                pieces.append(_cut_view(piece, start, stop))
                continue
            first, last = max(0, start - low), min(piece.shape[0], stop - low)
            if first < last:
                pieces.append(_columns(piece, first, last))
            low += piece.shape[0]
        return View.joined(pieces, view.along)
    return _columns(view, start, stop)


def _columns(view: View, start: int, stop: int) -> View:
    rows = tuple(at + start * view.strides[0] for at in view.rows)
    return replace(view, rows=rows, shape=(stop - start, *view.shape[1:]))


def _array(view: View, memory: Memory) -> np.ndarray:
    """Values that lie one after the other."""
    offset = view.rows[0] if view.rows else 0
    return np.ndarray((view.count, *view.shape), np.float32, memory[view.pool], offset)
