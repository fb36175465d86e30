"""What do paper 001's policies gain in the real server on this machine? AlexNet over loopback, beside the simulator."""

from __future__ import annotations

from collections.abc import Iterator

from csdfgen.errors import CsdfgenError
from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.turns import PART
from csdfgen.reading.loader import load
from csdfgen.serving.bench import measure_policies
from csdfgen.serving.programs import Programs, measure_times
from csdfgen.serving.service import plan

NETWORK = "zoo:alexnet"
POLICIES = ("serial", "window:m=10,delay=0.25", "greedy", "lbci-paper", "lbci", "adaptive")
LOADS, COUNT = (0.6, 0.9), 100
_MOST = 16


def policies(left: list[Left]) -> Iterator[Cell]:
    """Mean latencies of every policy, measured and simulated; left: what cannot be measured is added."""
    try:
        network = load(NETWORK)
        times = measure_times(Programs(plan(network, max_batch=_MOST)))
        _, points = measure_policies(NETWORK, network, times, POLICIES, loads=LOADS, count=COUNT)
    except CsdfgenError as error:
        left.append(Left(PART, NETWORK, 0, str(error)))
        return
    serial = {one.traffic: one.served.mean for one in points if one.policy == "serial"}
    for one in points:
        for column, unit, value, digits in (
            ("mean, ms", "ms", 1e3 * one.served.mean, 1),
            ("simulated", "ms", 1e3 * one.simulated.mean, 1),
            ("less than serial's", "%", 100 * (1 - one.served.mean / serial[one.traffic]), 0),
        ):
            yield Cell(PART, f"{one.traffic}: {one.policy}", column, unit, None, value, digits)
