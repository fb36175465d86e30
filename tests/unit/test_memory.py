"""Lifetimes and offsets: capacities hold, live buffers never share bytes, the arena is no smaller
than what is alive.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from csdfgen.planning.memory import Access, Occupancy, Part, Storage, occupancy, pack


def line(
    name: str, writer: str, reader: str, rows: int, window: int, size: int, *, kept: bool = False
) -> Storage:
    """Rows written one a phase, read through a window of `window` rows."""
    released = tuple(
        max(0, min(rows, i + 1 - window + 1)) if i < rows - 1 else rows for i in range(rows)
    )
    part = Part((name,), size, (Access(writer, tuple(range(1, rows + 1))),))
    return Storage(name, rows, size, (part,), (Access(reader, released),), kept)


def test_a_window_keeps_its_rows_and_no_more() -> None:
    storage = line("x", "a", "b", 6, 3, 10)
    order = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]
    order += [("a", 3), ("b", 3), ("a", 4), ("b", 4), ("a", 5), ("b", 5)]
    found = occupancy(order, [storage])
    assert found.capacities == (3,)
    assert found.peak_live == 30


def test_an_output_is_kept_to_the_end() -> None:
    storage = line("y", "a", "b", 4, 1, 8, kept=True)
    order = [step for i in range(4) for step in (("a", i), ("b", i))]
    found = occupancy(order, [storage])
    assert found.capacities == (4,)
    assert found.spans == ((0, 8),)
    assert found.live[-1] == 32


def test_two_parts_of_a_row_count_when_they_are_written() -> None:
    left = Part(("l",), 6, (Access("a", (1, 2)),))
    right = Part(("r",), 4, (Access("b", (1, 2)),))
    storage = Storage("c", 2, 10, (left, right), (Access("d", (1, 2)),))
    found = occupancy([("a", 0), ("a", 1), ("b", 0), ("d", 0), ("b", 1), ("d", 1)], [storage])
    assert found.live == (6, 12, 16, 16, 10, 10)
    assert found.capacities == (2,)


spans = st.tuples(st.integers(0, 20), st.integers(1, 10)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 300), spans), max_size=14))
def test_live_buffers_never_share_bytes(shapes: list[tuple[int, int, tuple[int, int]]]) -> None:
    storages = [Storage(f"s{i}", rows, size, (), ()) for i, (rows, size, _) in enumerate(shapes)]
    found = Occupancy(
        tuple(rows for rows, _, _ in shapes), tuple(span for _, _, span in shapes), ()
    )
    plan = pack(storages, found)
    for i, one in enumerate(plan.slots):
        assert one.offset % 64 == 0
        assert one.offset + one.size <= plan.arena_bytes
        for other in plan.slots[i + 1 :]:
            together = one.first_firing < other.end_firing and other.first_firing < one.end_firing
            apart = one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
            assert apart or not together
    alive = [
        sum(s.size for s in plan.slots if s.first_firing <= t < s.end_firing) for t in range(31)
    ]
    assert plan.arena_bytes >= max(alive)
