"""A network's firings as a problem: what it says is alive is what lifetimes say, for every order."""

from __future__ import annotations

import numpy as np
import pytest

import csdfgen
from csdfgen.model.options import PlanOptions
from csdfgen.planning.lifetimes import firing_times, trace_lifetimes
from csdfgen.planning.ordering import build_problem, order_by_policy, search_least_peak
from csdfgen.planning.prepared import Phased
from schedules.demand import POLICIES
from schedules.peak.problem import evaluate
from tests.planning import phased

NETWORKS = ["zoo:lenet5", "zoo:squeezenet1_0", "zoo:shufflenet_v1", "zoo:resnet8"]


def prepared(name: str, rows: str, image: str = "streamed", fuse: str = "full") -> Phased:
    return phased(csdfgen.load(name), PlanOptions(rows, fuse, image))


def scratch(one: Phased) -> dict[str, list[int]]:
    """Some bytes for the phases of every third actor."""
    return {
        work.name: [(17 * at + 5 * phase) % 4096 for phase in range(len(work.phases))]
        for at, work in enumerate(one.conversion.actors)
        if at % 3 == 0
    }


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("rows", "image", "fuse"),
    [("1", "streamed", "full"), ("auto", "resident", "full"), ("2", "streamed", "none")],
)
def test_bytes_alive_are_those_of_lifetimes(name: str, rows: str, image: str, fuse: str) -> None:
    one = prepared(name, rows, image, fuse)
    extra = scratch(one)
    problem = build_problem(one.conversion, one.buffers, extra)
    number = {work.name: at for at, work in enumerate(one.conversion.actors)}
    for policy in POLICIES:
        order = order_by_policy(one.conversion, policy)
        firings = np.array([problem.base[number[actor]] + phase for actor, phase in order])
        assert problem.is_order(firings)
        wanted = trace_lifetimes(order, one.buffers).live.copy()
        for actor, at in firing_times(order).items():
            wanted[at] += extra.get(actor, 0)
        assert np.array_equal(evaluate(problem, firings), wanted)


@pytest.mark.parametrize("name", NETWORKS[:3])
def test_the_order_found_is_one_and_keeps_what_it_says(name: str) -> None:
    one = prepared(name, "1")
    found = search_least_peak(one.conversion, one.buffers, scratch(one))
    times = firing_times(found.order)
    live = trace_lifetimes(found.order, one.buffers).live.copy()
    for actor, sizes in scratch(one).items():
        live[times[actor]] += sizes
    assert int(live.max()) == found.peak >= found.lower_bound
    assert {name: len(at) for name, at in times.items()} == {
        work.name: len(work.phases) for work in one.conversion.actors
    }
    starts = [
        trace_lifetimes(order_by_policy(one.conversion, name), one.buffers) for name in POLICIES
    ]
    assert found.peak < 0.9 * min(each.peak_live for each in starts) or found.optimal
