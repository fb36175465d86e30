"""Laws of places on a circle, over random networks that stream."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np
import pytest

import csdfgen
from csdfgen.planning import stream_checker
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.circles import Part, find_least_bytes, list_rings, place_parts
from csdfgen.planning.repeating import Period, list_parts
from tests.streaming_networks import draw_streaming
from tests.ways import some

NETWORKS = some(8, 200)


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_places_take_no_more_than_rings_and_no_less_than_what_is_alive(seed: int) -> None:
    plan = csdfgen.plan_stream(draw_streaming(seed).at(64), backend="numpy", effort="0.001s")
    phased, alignment = plan.phased, plan.phased.kernels.alignment(ARENA)
    order = plan.loop.numbered(phased.conversion)
    for fine in (False, True):
        period = Period(replace(phased, fine=fine), order, plan.loop.peak, plan.loop.bound)
        parts = list_parts(period)
        found = place_parts(parts, alignment, 0)
        assert found is not None
        rings = list_rings(parts, alignment)
        assert find_least_bytes(parts, alignment) <= found[0] <= rings.place(0)[0]
        assert rings.least <= rings.place(0)[0]


def draw_parts(seed: int) -> list[Part]:
    """Buffers of a period, of rows and lives that have no common divisor."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(4, 40))
    found = []
    for k in range(int(rng.integers(2, 12))):
        height = int(rng.choice([1, 3, 8, 61, 128, 1_009]))
        count = int(rng.integers(1, 4))
        start = height * np.arange(count)
        born = np.sort(rng.integers(0, length, count))
        gone = born + rng.integers(1, 1 + rng.choice([length, 7 * length]), count)
        gone = np.minimum(np.maximum.accumulate(gone), gone[0] + length)  # in the order of rows
        row_bytes = int(rng.choice([2, 4, 12, 20, 64, 300]))
        size = np.full(count, height * row_bytes)
        rows = count * height
        found.append(Part(f"b{k}", rows, row_bytes, start, size, born, gone, length))
    return found


@pytest.mark.parametrize("seed", range(some(24, 1_000)))
def test_places_are_ones_that_the_checker_takes(seed: int) -> None:
    """However long it takes until they repeat."""
    parts = draw_parts(seed)
    found = place_parts(parts, 16, 0)
    assert found is not None
    circling = []
    for one in parts:
        table = found[1][one.name]
        heights = np.diff(np.append(one.start, one.rows))
        first, last = np.repeat(one.born, heights), np.repeat(one.gone - 1, heights)
        turn = table[0] // gcd(table[0], one.rows)
        offsets = np.array(stream_checker._offsets(table, turn * one.rows, one.row_bytes))
        circling.append(
            stream_checker._Circling(one.name, first, last, turn, offsets, one.row_bytes)
        )
    for group in stream_checker._together(circling):
        stream_checker._check_circle(group, parts[0].length)
