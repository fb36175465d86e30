"""Recurrences (1) to (3) of paper 000 word for word: costs per image, every memory in bytes, no tables.

For small chains alone: tests compare `schedules.batches.tables` with it, and it shows what the paper's omissions do.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import inf, nan

from schedules.batches.chain import Chain

Cost = Fraction | float
"""Infinity and nan are floats."""


class Literal:
    """OPT and OPTExact; layers are numbered from 0 on, b and memory as in the paper.

    skipped: whether the second summand of (2) is left out where no image is left (b1 = b), which is not
    printed: 0 * OPT[i,j,0,.] is undefined, as OPT of no images is nowhere given.
    """

    def __init__(self, chain: Chain, *, skipped: bool = True) -> None:
        self.chain, self.skipped = chain, skipped
        self.exact = cache(self._exact)
        self.opt = cache(self._opt)

    def time(self, i: int, b: int) -> Fraction:
        """Per image."""
        return Fraction(self.chain.layers[i].costs[b - 1]) / b

    def _exact(self, i: int, j: int, b: int, memory: int) -> Cost:
        if i == j:
            return self.time(i, b) if self.chain.layers[i].held(b) <= memory else inf  # (3)
        return min(
            self.opt(i, k - 1, b, memory)
            + self.exact(k, k, b, memory)
            + self.opt(k + 1, j, b, memory)
            for k in range(i, j + 1)
        )  # (1)

    def _opt(self, i: int, j: int, b: int, memory: int) -> Cost:
        if i > j:
            return 0
        if memory < 0:
            return inf
        first, last = self.chain.layers[i], self.chain.layers[j]
        found: list[Cost] = []
        for b1 in range(1, b + 1):
            total = b1 * self.exact(i, j, b1, memory - (b - b1) * first.input_bytes)
            if b1 < b:
                total += (b - b1) * self.opt(i, j, b - b1, memory - b1 * last.output_bytes)
            elif not self.skipped:
                total += 0 * nan
            found.append(total)
        return min(found) / b  # (2)
