"""How does numpy move rows between the caller's arrays and memory? By copies, run by run."""

from __future__ import annotations

import numpy as np

from csdfgen.kernels.arrays import array_of
from csdfgen.kernels.steps import Call, Memory, Starts, View

__all__ = ["NumpyPort", "placed"]


class NumpyPort:
    """A port that copies by numpy."""

    def __init__(self) -> None:
        self._array: np.ndarray | None = None

    def open(self, array: np.ndarray | None) -> None:
        """See `Port.open`."""
        self._array = array

    def taken(self, starts: Starts, view: View, memory: Memory) -> list[Call]:
        """See `Port.taken`."""
        return [
            (self._take, (array, _part(at, array))) for at, array in placed(starts, view, memory)
        ]

    def given(self, starts: Starts, view: View, memory: Memory) -> list[Call]:
        """See `Port.given`."""
        return [
            (self._give, (array, _part(at, array))) for at, array in placed(starts, view, memory)
        ]

    def _take(self, target: np.ndarray, part: tuple[slice, ...]) -> None:
        if self._array is not None:
            np.copyto(target, self._array[part], "same_kind")

    def _give(self, source: np.ndarray, part: tuple[slice, ...]) -> None:
        if self._array is not None:
            np.copyto(self._array[part], source)


def _part(starts: Starts, array: np.ndarray) -> tuple[slice, ...]:
    return tuple(
        slice(start, start + size) for start, size in zip(starts, array.shape, strict=True)
    )


def placed(starts: Starts, view: View, memory: Memory) -> list[tuple[Starts, np.ndarray]]:
    """Rows, run by run of every piece, as arrays, each with where it starts in the whole."""
    found = []
    for piece in view.pieces or (view,):
        for a, b in piece.runs:
            found.append(((starts[0] + a, *starts[1:]), array_of(piece.part(a, b), memory)))
        if view.pieces:
            axis = 1 + view.along
            starts = (*starts[:axis], starts[axis] + piece.shape[view.along], *starts[axis + 1 :])
    return found
