"""Row arithmetic: windows, needs and releases against a brute-force reading of the definition."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from csdfgen.model.rows import Rows, Window, differences, needs, releases, slabs


def read_by(window: Window, out: Rows, height: int) -> set[int]:
    """Input rows under any position of the window, one by one."""
    found = set()
    for row in range(out.start, out.stop):
        for tap in range(window.kernel):
            at = row * window.stride - window.pad_top + tap * window.dilation
            if 0 <= at < height:
                found.add(at)
    return found


windows = st.builds(
    Window,
    kernel=st.integers(1, 7),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    pad_top=st.integers(-2, 4),
    pad_bottom=st.integers(-2, 4),
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(windows, st.integers(1, 20), st.integers(0, 6), st.integers(1, 5))
def test_a_window_declares_its_rows(window: Window, height: int, start: int, count: int) -> None:
    out = Rows(start, start + count)
    declared = window.input_rows(out, height)
    read = read_by(window, out, height)
    assert read <= set(range(declared.start, declared.stop))
    every_position_reads = all(
        read_by(window, Rows(row, row + 1), height) for row in range(out.start, out.stop)
    )
    if window.dilation == 1 and every_position_reads:
        assert (declared.start, declared.stop) == (min(read), max(read) + 1)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(windows, st.integers(1, 30), st.integers(1, 5))
def test_needs_and_releases_never_move_back(window: Window, height: int, rows: int) -> None:
    total = (height + window.pad_top + window.pad_bottom - window.extent) // window.stride + 1
    if total < 1:
        return
    reads = [window.input_rows(out, height) for out in slabs(total, rows)]
    need, release = needs(reads, height), releases(reads, height)
    assert need[-1] == release[-1] == height == sum(differences(need))
    for phase, read in enumerate(reads):
        assert release[phase] <= need[phase]
        if read:
            assert need[phase] >= read.stop
            assert phase == 0 or release[phase - 1] <= read.start, (
                "a row is released before it is read"
            )
    assert all(a <= b for a, b in itertools.pairwise(need))
    assert all(a <= b for a, b in itertools.pairwise(release))


def test_figure_1_of_the_paper() -> None:
    """n3: kernel 5, stride 3, crop 1 on 16 rows of 16 x 4 (paper 002, section V-B)."""
    window = Window(5, 3, pad_top=-1, pad_bottom=-1)
    reads = [window.input_rows(out, 16) for out in slabs(4, 1)]
    need, release = needs(reads, 16), releases(reads, 16)
    assert [64 * n for n in differences(need)] == [384, 192, 192, 256]
    assert [64 * (n - r) for n, r in zip(need, release, strict=True)] == [128, 128, 128, 0]
