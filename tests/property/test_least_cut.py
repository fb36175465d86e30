"""The compiled minimum cut, beside scipy's, on random networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdfgen.backends.native.library import load
from schedules.peak.flow import scipy_cut
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

ENDLESS = 1 << 30


@st.composite
def networks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Capacities, columns and rows of arcs with their reverses; all that leaves node 0 has an end."""
    size = draw(st.integers(2, 12))
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    room = st.one_of(st.integers(0, 40), st.just(ENDLESS))
    arcs: dict[tuple[int, int], int] = {}
    for (tail, head), most in draw(st.lists(st.tuples(ends, room), max_size=40)):
        if tail != head and head != 0 and tail != 1:
            arcs[tail, head] = min(most, 1000) if tail == 0 else most
            arcs.setdefault((head, tail), 0)
    places = sorted(arcs)
    tails = np.array([tail for tail, _ in places], np.int64)
    rows = np.append(0, np.cumsum(np.bincount(tails, minlength=size)))
    capacity, columns = [arcs[one] for one in places], [head for _, head in places]
    return np.array(capacity, np.int32), np.array(columns, np.int32), rows.astype(np.int32)


@given(networks())
def test_the_compiled_cut_is_scipys(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    flow, inside = load().least_cut(*network)
    wanted, state = scipy_cut(*network)
    assert flow == wanted
    assert inside.tolist() == state.tolist()
