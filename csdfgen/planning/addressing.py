"""Which addresses does a firing touch? A step, from the row rule, the sharing and the regions.

The same function makes the steps of a program (`lowering`) and, before anything is placed, those by
which a backend declares its workspace: every buffer then is a pool of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from csdfgen.model.network import Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops.base import stored_rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.buffers import state_name
from csdfgen.planning.placement import Region
from csdfgen.planning.sharing import Place, Sharing
from csdfgen.program.steps import Scratchpad, Step, View

__all__ = ["Addresses"]


@dataclass(frozen=True, eq=False)
class Addresses:
    """Where rows of tensors and states lie; regions by buffer."""

    sharing: Sharing
    regions: Mapping[str, Region]
    _forms: dict[tuple[str, str], tuple[int, tuple[int, ...]]] = field(
        default_factory=dict, repr=False
    )

    def view(self, tensor: Tensor, rows: Rows) -> View:
        """Rows of a tensor, counted through all images."""
        spread = self.sharing.spread.get(tensor.name)
        if spread is None:
            place = self.sharing.places[tensor.name]
            return self._at(place, tensor, tensor.row_shape, rows)
        pieces = []
        for place in spread.places:
            shape = self.sharing.piece(tensor, place.buffer)[1]
            pieces.append(self._at(place, tensor, shape, rows))
        return View.joined(pieces, spread.along)

    def _at(self, place: Place, tensor: Tensor, shape: Shape, rows: Rows) -> View:
        """Rows that lie at one place, of a tensor or of a piece of it."""
        region = self.regions[place.buffer]
        key = place.buffer, tensor.name
        form = self._forms.get(key)
        if form is None:
            size = tensor.itemsize
            form = place.offset * size, tuple(step * size for step in place.strides)
            self._forms[key] = form
        shift, strides = form
        addresses = region.table[rows.start : rows.stop]
        moved = tuple([address + shift for address in addresses]) if shift else addresses
        return View(region.pool, moved, shape, strides, tensor.format)

    def state(self, work: ActorWork, group: int) -> View:
        """The state of an accumulating layer in an image (or group of images), as output rows."""
        assert work.state is not None
        held, output = work.state.format, work.state.output
        region = self.regions[state_name(work.name)]
        base, row = region.table[group], output.row_elements * held.itemsize
        rows = tuple(base + number * row for number in range(output.rows))
        return View(
            region.pool, rows, output.row_shape, _contiguous(output.row_shape, held.itemsize), held
        )

    def step(self, work: ActorWork, number: int, firing: int, workspace: Scratchpad) -> Step:
        """The step of a layer's phase."""
        layer, phase = work.layer, work.phases[number]
        assert layer is not None
        inputs: list[View | None] = []
        for position, (tensor, rows) in enumerate(zip(layer.inputs, phase.ins, strict=True)):
            if tensor is None or rows is None:
                inputs.append(None)
            else:
                stored = phase.slab(stored_rows(layer, position, rows)).span(tensor.rows)
                inputs.append(self.view(tensor, stored))
        outputs = tuple(self.view(t, phase.slab(phase.out).span(t.rows)) for t in layer.outputs)
        states: tuple[View, ...] = ()
        if work.state is not None:
            states = (self.state(work, phase.group),)
        return Step(firing, work.name, layer, phase, tuple(inputs), outputs, states, workspace)


def _contiguous(shape: Shape, size: int) -> tuple[int, ...]:
    return tuple(size * prod(shape[axis + 1 :]) for axis in range(len(shape)))
