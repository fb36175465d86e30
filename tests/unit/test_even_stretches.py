"""Regular runs of indices, and of rows, are those that a plain loop finds, in no step of Python for each."""

from __future__ import annotations

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.ops.copies import OUTSIDE, Segment, segments
from csdfgen.ops.spread import NEAR
from csdfgen.program.steps import View, runs
from tests.counting import count_calls


def greedy(indices: list[int]) -> tuple[Segment, ...]:
    """Index by index: groups of equal ones, then groups that are evenly apart."""
    groups: list[list[int]] = []
    for at, value in enumerate(indices):
        if groups and groups[-1][1] == value:
            groups[-1][2] += 1
        else:
            groups.append([at, value, 1])
    found: list[Segment] = []
    for at, value, repeat in groups:
        last = found[-1] if found else None
        if last and last.repeat == repeat and OUTSIDE not in (last.first, value):
            step = value - last.first if last.count == 1 else last.step
            if value == last.first + step * last.count:
                found[-1] = Segment(last.at, last.first, step, last.count + 1, repeat)
                continue
        found.append(Segment(at, value, repeat=repeat))
    return tuple(found)


def test_segments() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        steps = rng.choice([0, 0, 1, 1, 1, 2, -1], int(rng.integers(0, 14)))
        indices = np.maximum(OUTSIDE, np.cumsum(steps)).tolist()
        assert segments(indices) == greedy(indices), indices


def test_runs_of_many_rows() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = np.cumsum(rng.choice([8, 8, 8, 8, 8, 16, -400, 0], 200)).tolist()
        view = View("x", tuple(rows), (2,), (4,), Format("float32"))
        assert view.runs == runs(rows, 8 + NEAR)


def test_no_step_for_each_index() -> None:
    """A signal has hundreds of thousands of rows, of which every plan asks for the runs many times."""
    rows = range(100_000)
    count, found = count_calls(lambda: segments(rows))
    assert found == (Segment(0, 0, 1, 100_000),)
    assert count < 500
