"""Which batches cost least? The dynamic program of paper 000, as printed and corrected.

For layers i to j and b images there are two tables, by memory. `part` has the least cost (OPT in the paper), `whole`
the least cost without dividing the images before layer i (OPTExact). Costs are of all b images, while those of the
paper are per image; so no term is multiplied by 0 (b1 = b in recurrence (2)).

    part[i,j,b](m) = min of whole[i,j,b](m) and, over b1 < b,
                     whole[i,j,b1](m - in(i,b-b1)) + part[i,j,b-b1](m - out(j,b1))            (2)

As printed, some layer computes all b images at once:

    whole[i,j,b](m) = min over k of part[i,k-1,b](m) + call of k on b (m) + part[k+1,j,b](m)   (1)

This excludes that b images gather between two layers neither of which computes b at once. The corrected form is:

    whole[i,j,b](m) = min over i <= k < j of part[i,k,b](m) + part[k+1,j,b](m)

It includes (1), as a call of one layer is a `part`. Both exclude batches that are not nested, such as 2 + 2 before
3 + 1; `exact` finds these for small networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from schedules.batches.chain import Chain
from schedules.batches.plans import BatchFiring
from schedules.batches.steps import NOTHING, Steps, limit_cost, merge_least

Rule = Literal["printed", "gathering"]

Alternative = tuple[int, Sequence[Steps]]

_UNPARTED = 0
"""The alternative of `part` in which the images are not divided; b1 is that of b1 images before the rest."""


class Tables:
    """Both tables of a chain, up to a number of images and of bytes.

    unit: sizes are rounded up to its multiples, and memory is rounded down; 1 is exact, that of the paper is 2 MB. The
    paper does not state the direction; with this one no plan exceeds its memory. cost_limit: the latency bound of the
    paper: `whole` is infinite where its cost *per image* is above it (an image waits longer; `within` bounds the
    request).
    """

    def __init__(
        self,
        chain: Chain,
        images: int,
        memory: int,
        rule: Rule = "gathering",
        *,
        unit: int = 1,
        cost_limit: float | None = None,
    ) -> None:
        self.chain, self.images, self.memory = chain, images, memory
        self.rule, self.unit, self.cost_limit = rule, unit, cost_limit
        self._limit = memory // unit
        self._branches = [
            [Tables(branch, images, memory, rule, unit=unit) for branch in layer.branches]
            for layer in chain.layers
        ]
        count = len(chain)
        self._call = [[self._called(i, b) for b in range(1, images + 1)] for i in range(count)]
        self._whole: dict[tuple[int, int, int], Steps | None] = {}
        self._part: dict[tuple[int, int, int], Steps | None] = {}
        for distance in range(count):
            for i in range(count - distance):
                for b in range(1, images + 1):
                    self._fill(i, i + distance, b)

    # The recurrences --------------------------------------------------------------------------

    def _units(self, size: int) -> int:
        return -(-size // self.unit)

    def _called(self, number: int, images: int) -> Steps | None:
        """One call of a layer after its branches: (3), and the rule of special layers."""
        layer = self.chain.layers[number]
        if images > layer.most_images:
            return None
        own = Steps.of(self._units(layer.held(images)), layer.costs[images - 1])
        parts = [own]
        ends = self._units(images * (layer.input_bytes + layer.output_bytes))
        for branch in self._branches[number]:
            found = branch.steps(images)
            if found is None:
                return None
            parts.append(found.beside(ends))
        return merge_least([(0, parts)], self._limit)

    def _fill(self, i: int, j: int, b: int) -> None:
        whole = self._call[i][b - 1]
        if i < j:
            made = self._printed(i, j, b) if self.rule == "printed" else self._gathered(i, j, b)
            whole = merge_least(made, self._limit)
        if whole is not None and self.cost_limit is not None:
            whole = limit_cost(whole, self.cost_limit * b)
        self._whole[i, j, b] = whole
        self._part[i, j, b] = merge_least(self._parted(i, j, b), self._limit)

    def _printed(self, i: int, j: int, b: int) -> Iterator[Alternative]:
        for k in range(i, j + 1):
            before, call, behind = (
                self._of(i, k - 1, b),
                self._call[k][b - 1],
                self._of(k + 1, j, b),
            )
            if before is not None and call is not None and behind is not None:
                yield k, (before, call, behind)

    def _gathered(self, i: int, j: int, b: int) -> Iterator[Alternative]:
        for k in range(i, j):
            before, behind = self._part[i, k, b], self._part[k + 1, j, b]
            if before is not None and behind is not None:
                yield k, (before, behind)

    def _of(self, i: int, j: int, b: int) -> Steps | None:
        return NOTHING if i > j else self._part[i, j, b]

    def _parted(self, i: int, j: int, b: int) -> Iterator[Alternative]:
        whole = self._whole[i, j, b]
        if whole is not None:
            yield _UNPARTED, (whole,)
        for b1 in range(1, b):
            first, rest = self._whole[i, j, b1], self._part[i, j, b - b1]
            if first is not None and rest is not None:
                waiting, kept = self._ends(i, j, b, b1)
                yield b1, (first.beside(waiting), rest.beside(kept))

    def _ends(self, i: int, j: int, b: int, b1: int) -> tuple[int, int]:
        """in(i, b - b1) and out(j, b1)."""
        waiting = self._units((b - b1) * self.chain.layers[i].input_bytes)
        return waiting, self._units(b1 * self.chain.layers[j].output_bytes)

    # Results ----------------------------------------------------------------------------------

    def steps(self, images: int) -> Steps | None:
        """The cost of so many images in the whole chain, by memory in units."""
        return self._part[0, len(self.chain) - 1, images]

    def cost(self, images: int, memory: int | None = None) -> float:
        """The least cost of so many images within a memory (the whole one by default); infinity if there is no plan."""
        found = self.steps(images)
        asked = self.memory if memory is None else memory
        return float("inf") if found is None else found.at(asked // self.unit)

    def front(self, images: int) -> tuple[tuple[int, float], ...]:
        """(memory in bytes, cost) wherever the cost of so many images falls: the content of a table for run time."""
        found = self.steps(images)
        if found is None:
            return ()
        at = (found.memory * self.unit).tolist()
        return tuple(zip(at, found.cost.tolist(), strict=True))

    def firings(
        self, images: int, memory: int | None = None, first: int = 0
    ) -> tuple[BatchFiring, ...]:
        """The calls of the plan of `cost`, which must be finite. first: number of the first image."""
        asked = (self.memory if memory is None else memory) // self.unit
        return tuple(self._read_part(0, len(self.chain) - 1, images, asked, first))

    def _read_part(self, i: int, j: int, b: int, memory: int, first: int) -> Iterator[BatchFiring]:
        if i > j:
            return
        table = self._part[i, j, b]
        assert table is not None
        b1 = table.chosen(memory)
        if b1 == _UNPARTED:
            yield from self._read_whole(i, j, b, memory, first)
            return
        waiting, kept = self._ends(i, j, b, b1)
        yield from self._read_whole(i, j, b1, memory - waiting, first)
        yield from self._read_part(i, j, b - b1, memory - kept, first + b1)

    def _read_whole(self, i: int, j: int, b: int, memory: int, first: int) -> Iterator[BatchFiring]:
        if i == j:
            yield self._read_call(i, b, memory, first)
            return
        table = self._whole[i, j, b]
        assert table is not None
        k = table.chosen(memory)
        if self.rule == "printed":
            yield from self._read_part(i, k - 1, b, memory, first)
            yield self._read_call(k, b, memory, first)
        else:
            yield from self._read_part(i, k, b, memory, first)
        yield from self._read_part(k + 1, j, b, memory, first)

    def _read_call(self, number: int, b: int, memory: int, first: int) -> BatchFiring:
        layer = self.chain.layers[number]
        inner = memory - self._units(b * (layer.input_bytes + layer.output_bytes))
        inside = tuple(
            branch.firings(b, inner * self.unit, first) for branch in self._branches[number]
        )
        return BatchFiring(number, first, b, inside)
