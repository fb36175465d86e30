"""How much scratch does each firing need? As much as a backend declares for its step, before placement.

A declaration depends on the structure of the phase (`program.steps.demands`) and on the rows that are contiguous: only
those of a block (`buffers.Buffer.blocks`) are assumed to be. The declared scratch is therefore enough wherever the
blocks are placed. Firings that are equal in this are declared once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from csdfgen.model.network import Layer, memoize_layer
from csdfgen.ops import get_operator
from csdfgen.ops.base import LEAST, Phase, stored_rows
from csdfgen.phases.conversion import ActorWork, Conversion
from csdfgen.planning.buffers import Buffer, state_name
from csdfgen.planning.lifetimes import Lifetimes, firing_times
from csdfgen.planning.placement import Placement, Region, Used, extend_scratch, trim_scratch
from csdfgen.planning.plan import Addresses
from csdfgen.planning.sharing import Sharing
from csdfgen.program.steps import Backend, Scratchpad, Step, demands, describe_demand, relations

Scratch = Mapping[str, np.ndarray]
"""Actor -> bytes of scratch of each of its phases, of those that need any."""

Timed = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Actor -> (bytes of scratch of each phase, firing of each phase), as placement takes them."""

_LEVELS = (LEAST, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, None)
"""Limits of scratch; a firing gets the largest that is free, see `Backend.workspace`."""


class Declarations:
    """The scratch that a backend declares for the layers of a conversion, for any order and any placement.

    buffers: of tensors and states. known: declarations for actors of other conversions of the same layers; new ones are
    added.
    """

    def __init__(
        self,
        conversion: Conversion,
        sharing: Sharing,
        buffers: Sequence[Buffer],
        kernels: Backend,
        known: dict[Hashable, np.ndarray] | None = None,
    ) -> None:
        self._kernels, self._known = kernels, {} if known is None else known
        self._buffers, self._sharing = buffers, sharing
        self._works = [
            work
            for work in conversion.actors
            if work.layer is not None and work.name not in sharing.silent
        ]
        self._shapes = {
            buffer.name: (buffer.row_bytes, buffer.rows, buffer.blocks) for buffer in buffers
        }
        self._heights = {buffer.name: _find_height(buffer) for buffer in buffers}
        self._addresses = Addresses(sharing, {buffer.name: _apart(buffer) for buffer in buffers})
        self._asked: dict[tuple[str, int, int | None], int] = {}
        self._found: dict[str, tuple[list[int], np.ndarray]] = {}

    def sizes(self, limit: int | None = None) -> Scratch:
        """Actor -> bytes of scratch of each of its phases, of actors that need any.

        limit: bytes that limit the scratch of a firing if its kernel can do with so few; None: as many as make it fastest.
        """
        found = {work.name: self._declared(work, limit) for work in self._works}
        return {name: sizes for name, sizes in found.items() if sizes.any()}

    def levels(self) -> list[Scratch]:
        """The scratch for each of the limits, from little to much."""
        return [self.sizes(limit) for limit in reversed(_LEVELS)][::-1]

    def given(
        self,
        placed: Placement,
        lifetimes: Lifetimes,
        scratch: Timed,
        order: Sequence[tuple[str, int]],
        room: int = 0,
    ) -> Placement:
        """A placement whose firings get free bytes as scratch, as far as they use them.

        scratch: as it was placed, of the buffers with these lifetimes. room: bytes that the arena may grow to, see
        `placement.extend_scratch`.
        """
        levels = self.levels()
        each = {**time_scratch(_idle(levels), order), **scratch}
        wide = extend_scratch(self._buffers, lifetimes, placed, each, levels, room)
        return trim_scratch(wide, each, self._used(wide.regions))

    def _used(self, regions: Mapping[str, Region]) -> Used:
        """The bytes that a firing uses of its scratch if its rows are in these regions; it may use fewer than declared
        for any placement.
        """
        addresses = Addresses(self._sharing, regions)
        works = {work.name: work for work in self._works}

        def used(actor: str, phase: int, size: int) -> int:
            step = addresses.step(works[actor], phase, 0, Scratchpad("", 0, 0))
            while (needed := self._use(step, size)) < size:
                size = needed  # with less scratch, a kernel may choose an algorithm that takes still less
            return size

        return used

    def _declared(self, work: ActorWork, limit: int | None) -> np.ndarray:
        key = self._kernels, work.kin, limit, self._stored(work)
        if key not in self._known:
            phases, kinds = self._kinds(work)
            self._known[key] = np.array([self._ask(work, one, limit) for one in phases])[kinds]
        return self._known[key]

    def _stored(self, work: ActorWork) -> Hashable:
        """Where an actor's rows are stored, and which of them are contiguous, but for the names of buffers."""
        numbers: dict[str, int] = {}
        places: list[Hashable] = []
        tensors = [*(one.tensor for one in work.reads), *(one.tensor for one in work.writes)]
        for tensor in tensors:
            for one in self._sharing.homes(tensor.name):
                form = self._sharing.piece(tensor, one.buffer)[1]
                number = numbers.setdefault(one.buffer, len(numbers))
                places.append((number, one.offset, one.strides, form))
        if work.state is not None:
            numbers[state_name(work.name)] = len(numbers)
        return tuple(places), tuple(self._shapes[name] for name in numbers)

    def _kinds(self, work: ActorWork) -> tuple[list[int], np.ndarray]:
        """(the first phase of every kind of an actor's firings, the kind of each phase)."""
        if work.name not in self._found:
            assert work.layer is not None
            known: dict[tuple[Any, ...], int] = {}
            alike: dict[tuple[Any, ...], int] = {}
            firsts: list[int] = []
            kinds: list[int] = []
            for number, kind in enumerate(demands(work.layer, work.phases)):
                layout = kind, *self._layout(work.layer, work.phases[number])
                if layout not in alike:
                    step = self._step(work, number)
                    key = kind, step.phase.images, relations(step)
                    alike[layout] = known.setdefault(key, len(firsts))
                    if len(known) > len(firsts):
                        firsts.append(number)
                kinds.append(alike[layout])
            self._found[work.name] = firsts, np.array(kinds)
        return self._found[work.name]

    def _layout(self, layer: Layer, phase: Phase) -> Iterator[Hashable]:
        """Where rows of a phase are in their blocks: phases of a layer that are equal in it have equal `relations`."""
        yield phase.images
        if phase.image or phase.images > 1:
            yield phase
        first: dict[str, int] = {}
        used = [
            (tensor, stored_rows(layer, k, rows))
            for k, (tensor, rows) in enumerate(zip(layer.inputs, phase.ins, strict=True))
            if tensor is not None and rows
        ]
        written = get_operator(layer).written(layer, phase.out)
        for tensor, rows in (*used, *zip(layer.outputs, written, strict=True)):
            for place in self._sharing.homes(tensor.name):
                height, regular = self._heights[place.buffer]
                begin = rows.start - first.setdefault(place.buffer, rows.start)
                yield len(rows), begin, rows.start if rows.stop > regular else rows.start % height

    def _step(self, work: ActorWork, phase: int) -> Step:
        """A firing with rows of different blocks apart: made when it is asked for, as its rows may be thousands."""
        return self._addresses.step(work, phase, 0, Scratchpad("", 0, 0))

    def _ask(self, work: ActorWork, phase: int, limit: int | None) -> int:
        """Bytes for a phase; if those without a limit are within the limit, they are the answer."""
        key = work.name, phase, limit
        if key not in self._asked:
            most = None if limit is None else self._asked.get((work.name, phase, None))
            fits = most is not None and limit is not None and limit >= LEAST and most <= limit
            found = most if fits else self._declare(self._step(work, phase), limit)
            assert found is not None
            self._asked[key] = found
        return self._asked[key]

    def _declare(self, step: Step, limit: int | None) -> int:
        """Bytes for a step; plans of the same layers at other heights have many equal ones."""
        known = _known(step.layer)
        key = "declared", self._kernels, limit, describe_demand(step)
        if key not in known:
            known[key] = self._kernels.workspace(step, limit)
        return known[key]

    def _use(self, step: Step, size: int) -> int:
        """Bytes that a step uses of so many."""
        known = _known(step.layer)
        key = "used", self._kernels, size, describe_demand(step)
        if key not in known:
            known[key] = self._kernels.used(step, size)
        return known[key]


@memoize_layer
def _known(layer: Layer) -> dict[tuple[Any, ...], int]:
    """Bytes that steps of a layer need and use, by everything that they depend on."""
    return {}


def time_scratch(scratch: Scratch, order: Sequence[tuple[str, int]]) -> Timed:
    """Scratch with the firing of each phase."""
    times = firing_times(order)
    return {actor: (sizes, times[actor]) for actor, sizes in scratch.items()}


def _idle(levels: Sequence[Scratch]) -> Scratch:
    """0 bytes for every actor that could use scratch."""
    return {actor: np.zeros_like(sizes) for level in levels for actor, sizes in level.items()}


def _find_height(buffer: Buffer) -> tuple[int, int]:
    """(rows of a block, rows of all blocks that have so many): of unequal ones, one more than all rows, and none."""
    height = buffer.blocks[1] if len(buffer.blocks) > 1 else buffer.rows
    if buffer.blocks != tuple(range(0, buffer.rows, height)):
        return buffer.rows + 1, 0
    return height, buffer.rows // height * height


def _apart(buffer: Buffer) -> Region:
    """A region in which each block is below the one before, so that no two blocks are contiguous."""
    rows = np.arange(buffer.rows)
    blocks = np.searchsorted(np.array(buffer.blocks), rows, side="right") - 1
    within = rows - np.array(buffer.blocks)[blocks]
    sizes = np.bincount(blocks)
    starts = np.cumsum(sizes[::-1] + 1)[::-1] - sizes - 1
    table = (starts[blocks] + within) * buffer.row_bytes
    return Region(buffer.name, buffer.row_bytes, buffer.rows, tuple(table.tolist()), buffer.name)
