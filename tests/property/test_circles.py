"""Laws of places on a circle, over random networks that stream."""

from __future__ import annotations

from dataclasses import replace

import pytest

import csdfgen
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.circles import find_least_bytes, list_rings, place_parts
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
