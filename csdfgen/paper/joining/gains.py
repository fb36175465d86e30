"""What do repeated joins, measured tables and refusals bring beyond the paper's rule? The same simulator, the same tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from csdfgen.paper.cells import Cell
from csdfgen.paper.joining.fit import DELAY
from csdfgen.paper.joining.times import flat_times, scale_alexnet
from csdfgen.serving.arrivals import Traffic
from csdfgen.serving.policies import parse_policy
from csdfgen.serving.simulate import simulate
from csdfgen.serving.summary import Summary

_NETWORKS = {"AlexNet": scale_alexnet, "a network in which batches save 5 %": flat_times}
_OTHERS = ("serial", "window:m=10", "greedy", "lbci-paper", "lbci")


@cache
def _served(network: str, policy: str, load: float, deadline: float = math.inf) -> Summary:
    times = _NETWORKS[network]()
    requests = Traffic("poisson", load * times.capacity, (1, 1), deadline).requests(2000, 7)
    return simulate(parse_policy(policy), times, requests, most=32, seed=3).summary


def gains() -> Iterator[Cell]:
    """Mean latencies of adaptive over those of the others, and shares of requests in time under overload."""
    for network in _NETWORKS:
        for load in (0.6, 0.9, 1.1) if network == "AlexNet" else (0.6, 0.9):
            own = _served(network, "adaptive", load)
            for policy in _OTHERS if load < 1 else _OTHERS[1:]:
                other = _served(network, policy, load)
                ratio, what = 100 * own.mean / other.mean, f"mean latency, of {policy}'s"
                yield Cell("adaptive", f"{network}, load {load}", what, "%", None, ratio, 0)
    for load in (1.4, 1.7):
        for policy in ("lbci-paper", "lbci", "adaptive"):
            found = _served("AlexNet", policy, load, DELAY)
            share, where = 100 * found.in_time_of_all, f"AlexNet, load {load}, within 500 ms"
            yield Cell("overload", where, policy, "% of all", None, share, 0)
