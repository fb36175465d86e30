"""How does a recipe with arrays of its own fit into a small workspace? It is applied to one block of
the elements after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from csdfgen.ops.base import Call, CountingScratch, Scratch

__all__ = ["SMALLEST", "in_blocks"]

SMALLEST = 256
"""Elements of a block that is not cut further: below, calls cost far more than what they compute."""

Make = Callable[[Sequence[np.ndarray], Scratch], Iterable[Call]]
"""(arrays, scratch) -> calls."""


def in_blocks(
    make: Make, arrays: Sequence[np.ndarray], dims: Sequence[int], scratch: Scratch
) -> list[Call]:
    """The calls for arrays of equal rank, the first as large as the others together; for their
    halves along the first of `dims` that can be cut where they would not have the room.
    """
    trial = CountingScratch(scratch.limit)
    calls = list(make(arrays, trial))
    if not trial.end:
        return calls
    whole = arrays[0]
    if trial.end > scratch.room and whole.size > SMALLEST:
        dim = next((d for d in dims if whole.shape[d] > 1), None)
        if dim is not None:
            half = whole.shape[dim] // 2
            found: list[Call] = []
            for part in (slice(None, half), slice(half, None)):
                index = (slice(None),) * dim + (part,)
                own = [a if a.shape[dim] == 1 else a[index] for a in arrays]
                found += in_blocks(make, own, dims, scratch)
            return found
    mark = scratch.mark
    calls = list(make(arrays, scratch))
    scratch.rewind(mark)
    return calls
