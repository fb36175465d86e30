"""Which steps have the same instructions, but for where their rows are? Those are made once, and moved.

The rows of a step are in blocks of memory: rows whose bytes overlap, as those of layers that work in place, are in one.
Two steps of a layer that are alike (`structures`), and whose rows are alike within their blocks, differ by how far each
block is from that of the other. So do the places in their instructions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Backend, Step, View, structures

__all__ = ["Blocks", "Templates", "blocks_of"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a step. alike: equal for steps whose blocks look alike. starts: of each block, its pool and first byte,
    in the order in which the step names them.
    """

    alike: Hashable
    starts: tuple[tuple[str, int], ...]


def _pieces(step: Step) -> Iterator[View]:
    for view in (*step.inputs, *step.outputs, *step.states):
        if view is not None:
            yield from view.pieces or (view,)


def blocks_of(step: Step) -> Blocks:
    """Where the rows and the workspace of a step are."""
    spans: list[tuple[str, int, int]] = []
    for one in _pieces(step):
        if one.rows:
            reach = sum((n - 1) * s for n, s in zip(one.shape, one.strides, strict=True))
            spans.append((one.pool, min(one.rows), max(one.rows) + reach + one.format.itemsize))
    pad = step.workspace
    if pad.size:
        spans.append((pad.pool, pad.offset, pad.offset + pad.size))
    # (pool, first byte of a span) -> first byte of its block
    block: dict[tuple[str, int], int] = {}
    before, first, end = "", 0, 0
    for pool, low, high in sorted(spans):
        if pool != before or low >= end:
            before, first, end = pool, low, high
        block[pool, low] = first
        end = max(end, high)
    numbers: dict[tuple[str, int], int] = {}
    alike: list[object] = []
    for one in _pieces(step):
        if one.rows:
            start = block[one.pool, min(one.rows)]
            number = numbers.setdefault((one.pool, start), len(numbers))
            alike.append((number, tuple([row - start for row in one.rows])))
    if pad.size:
        start = block[pad.pool, pad.offset]
        alike.append((numbers.setdefault((pad.pool, start), len(numbers)), pad.offset - start))
    (kind,) = structures(step.layer, (step.phase,))
    return Blocks((step.actor, kind, step.phase.images, pad.size, tuple(alike)), tuple(numbers))


class Templates:
    """Instructions of steps that were lowered so far."""

    def __init__(self, kernels: Backend, constants: Constants) -> None:
        self._kernels, self._constants = kernels, constants
        self._first: dict[Hashable, tuple[Blocks, Sequence[Instruction]]] = {}
        self._known: dict[tuple[Hashable, tuple[tuple[str, int], ...]], Sequence[Instruction]] = {}

    def lower(self, step: Step) -> Sequence[Instruction]:
        """The instructions of a step. Raises PlanError."""
        blocks = blocks_of(step)
        key = blocks.alike, blocks.starts
        made = self._known.get(key)
        if made is None:
            first = self._first.get(blocks.alike)
            if first is not None:
                made = self._moved(*first, blocks)
            else:
                made = self._kernels.lower(step, self._constants)
                if self._kernels.moves(made):
                    self._first[blocks.alike] = blocks, made
            self._known[key] = made
        return made

    def _moved(
        self, before: Blocks, made: Sequence[Instruction], blocks: Blocks
    ) -> Sequence[Instruction]:
        """Instructions on other blocks."""
        shifts = sorted(
            (pool, start, there - start)
            for (pool, start), (_, there) in zip(before.starts, blocks.starts, strict=True)
        )

        def moved(place: Ref) -> Ref:
            at = bisect_right(shifts, (place.pool, place.offset, 1 << 62)) - 1
            pool, _, shift = shifts[at]
            assert pool == place.pool
            return Ref(pool, place.offset + shift)

        return [
            one._replace(refs=tuple(self._constants.moved(ref, moved) for ref in one.refs))
            for one in made
        ]
