"""Offsets: what is in use at one time shares no byte, scratch included; and the least is no less than what is alive."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from csdfgen.planning.buffers import ALIGNMENT
from csdfgen.planning.placement import Block, Region, place_blocks, place_workspaces

FIRINGS = 24
spans = st.tuples(st.integers(0, FIRINGS - 1), st.integers(1, FIRINGS)).map(
    lambda pair: (pair[0], min(FIRINGS, pair[0] + pair[1]))
)
blocks = st.lists(
    st.builds(lambda size, span: Block(size, *span), st.integers(1, 900), spans), max_size=12
)


def painted(pieces: list[tuple[int, int, int, int]]) -> bool:
    """Whether no byte is used twice at one time: pieces (low, high, start, end), painted one by one."""
    width = max((high for _, high, _, _ in pieces), default=0)
    canvas = np.zeros((FIRINGS, width), np.int32)
    for low, high, start, end in pieces:
        canvas[start:end, low:high] += 1
    return bool(canvas.max(initial=0) <= 1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(blocks)
def test_blocks_in_use_together_share_no_byte(found: list[Block]) -> None:
    for solution in place_blocks(found):
        pieces = [
            (o, o + b.size, b.start, b.end) for o, b in zip(solution.offsets, found, strict=True)
        ]
        assert painted(pieces)
        assert all(offset % ALIGNMENT == 0 for offset in solution.offsets)
        assert solution.total == max((high for _, high, _, _ in pieces), default=0)
        alive = [sum(b.size for b in found if b.start <= t < b.end) for t in range(FIRINGS)]
        assert solution.total >= max(alive, default=0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    blocks,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700)), min_size=FIRINGS, max_size=FIRINGS),
)
def test_scratch_lies_beside_what_is_in_use(
    found: list[Block], firings: list[tuple[int, int]]
) -> None:
    wanted = {}
    for actor in range(3):
        at = np.array([t for t, (who, _) in enumerate(firings) if who == actor])
        sizes = np.array([size for who, size in firings if who == actor])
        if sizes.any():
            wanted[str(actor)] = sizes, at
    for solution in place_blocks(found):
        offsets, total = place_workspaces(found, solution.offsets, wanted)
        pieces = [
            (o, o + b.size, b.start, b.end) for o, b in zip(solution.offsets, found, strict=True)
        ]
        for actor, (sizes, at) in wanted.items():
            for offset, size, t in zip(offsets[actor], sizes.tolist(), at.tolist(), strict=True):
                assert offset % ALIGNMENT == 0
                pieces.append((offset, offset + size, t, t + 1))
        assert painted(pieces)
        assert total == max((high for _, high, _, _ in pieces), default=0)
        # never more than one block of scratch behind all others
        behind = -(-solution.total // ALIGNMENT) * ALIGNMENT
        assert total <= behind + max((int(s.max()) for s, _ in wanted.values()), default=0)


def test_an_address_is_a_slot_or_what_a_table_says() -> None:
    ring = Region("x", 128, 10, 3)
    assert ring.addresses(2, 5) == (148, 128, 138) == tuple(map(ring.address, range(2, 5)))
    table = Region("w", 0, 64, 1, table=(192, 64, 0))
    assert table.addresses(1, 3) == (64, 0)
