"""Offsets: rows alive at one time share no byte, scratch included; rows of one firing lie together."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from csdfgen.planning.buffers import Access, Buffer
from csdfgen.planning.lifetimes import Lifetimes, firing_times, trace_lifetimes
from csdfgen.planning.placement import Placement, place
from csdfgen.program.steps import ALIGNMENT

Piece = tuple[int, int, int, int]
"""Bytes [low, high) in use during firings [start, end)."""


def painted(pieces: list[Piece], firings: int) -> bool:
    """Whether no byte is used twice at one time, painted one by one."""
    canvas = np.zeros((firings, max((high for _, high, _, _ in pieces), default=0)), np.int32)
    for low, high, start, end in pieces:
        canvas[start:end, low:high] += 1
    return bool(canvas.max(initial=0) <= 1)


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Buffer], list[tuple[str, int]], dict[str, np.ndarray]]:
    """Actors in a row, each reading all rows of the one before it up to a point, in a random order of
    firings; some take scratch.
    """
    actors = draw(st.integers(2, 4))
    phases = [draw(st.integers(1, 5)) for _ in range(actors)]
    buffers = []
    for number in range(actors - 1):
        heights = draw(
            st.lists(st.integers(1, 3), min_size=phases[number], max_size=phases[number])
        )
        rows = np.cumsum(heights)
        steps = sorted(draw(st.integers(0, int(rows[-1]))) for _ in range(phases[number + 1] - 1))
        size, made = draw(st.integers(1, 90)), Access(str(number), tuple(rows.tolist()))
        freed = Access(str(number + 1), (*steps, int(rows[-1])))
        blocks = range(int(rows[-1])) if draw(st.booleans()) else (0, *rows[:-1].tolist())
        buffers.append(
            Buffer(f"b{number}", int(rows[-1]), size, (made,), (freed,), blocks=tuple(blocks))
        )
    # all of an actor's readings happen after all of the writing: any order of actors in turn is one
    order = [(str(a), phase) for a in range(actors) for phase in range(phases[a])]
    scratch = {}
    for a in range(actors):
        sizes = [draw(st.integers(0, 200)) for _ in range(phases[a])]
        if any(sizes):
            scratch[str(a)] = np.array(sizes)
    return buffers, order, scratch


def pieces_of(
    buffers: list[Buffer], lifetimes: Lifetimes, placed: Placement, times: dict[str, np.ndarray]
) -> list[Piece]:
    found = []
    for buffer, one in zip(buffers, lifetimes.each, strict=True):
        for row, low in enumerate(placed.regions[buffer.name].table):
            found.append((low, low + buffer.row_bytes, int(one.born[row]), int(one.gone[row])))
    for buffer in placed.workspaces:
        at = times[buffer.writers[0].actor].tolist()
        table = placed.regions[buffer.name].table
        for low, size, t in zip(table, buffer.sizes, at, strict=True):
            found.append((low, low + size, t, t + 1))
    return found


@settings(max_examples=150, deadline=None, derandomize=True)
@given(chains())
def test_what_is_alive_together_shares_no_byte(
    case: tuple[list[Buffer], list[tuple[str, int]], dict[str, np.ndarray]],
) -> None:
    buffers, order, scratch = case
    lifetimes, times = trace_lifetimes(order, buffers), firing_times(order)
    wanted = {actor: (sizes, times[actor]) for actor, sizes in scratch.items()}
    placed = place(buffers, lifetimes, wanted)
    pieces = pieces_of(buffers, lifetimes, placed, times)
    assert painted(pieces, len(order))
    assert placed.total == max((high for _, high, _, _ in pieces), default=0)
    live = lifetimes.live.copy()
    for sizes, at in wanted.values():
        live[at] += sizes
    assert placed.total >= placed.lower_bound - ALIGNMENT
    assert placed.total >= live.max()
    for buffer in buffers:
        table = placed.regions[buffer.name].table
        for row in range(1, buffer.rows):
            if row not in buffer.blocks:
                assert table[row] == table[row - 1] + buffer.row_bytes, "one block"
            else:
                assert table[row] % ALIGNMENT == 0
