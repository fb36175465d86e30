"""Which arrays are rows that lie somewhere in memory? One array a run, of every piece."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from csdfgen.kernels.steps import Call, Memory, View
from csdfgen.ops._copies import cut

__all__ = ["array_of", "copies", "matched", "pieces_of"]


def array_of(view: View, memory: Memory) -> np.ndarray:
    """Evenly spaced rows, none in pieces, as an array of shape (rows, *shape)."""
    assert not view.pieces, "rows in pieces are no array"
    rows = view.rows
    step = rows[1] - rows[0] if len(rows) > 1 else 0
    offset = rows[0] if rows else 0
    return np.ndarray(
        (len(rows), *view.shape),
        view.format.dtype,
        memory[view.pool],
        offset,
        (step, *view.strides),
    )


def pieces_of(view: View, memory: Memory) -> Iterator[np.ndarray]:
    """The rows where they lie, as one array for each run of every piece."""
    for piece in view.pieces or (view,):
        for a, b in piece.runs:
            yield array_of(piece.part(a, b), memory)


def copies(target: np.ndarray, view: View, memory: Memory) -> list[Call]:
    """Calls that copy rows, wherever they and their pieces lie, into an array (rows, *shape)."""
    return [(np.copyto, pair) for pair in matched(target, view, memory)]


def matched(
    whole: np.ndarray, view: View, memory: Memory
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Parts of an array (rows, *shape), each with the array of rows that lie like it."""
    start = 0
    for piece in view.pieces or (view,):
        part = whole
        if view.pieces:
            stop = start + piece.shape[view.along]
            part = cut(whole, view.along + 1, slice(start, stop))
            start = stop
        for a, b in piece.runs:
            yield part[a:b], array_of(piece.part(a, b), memory)
