"""Mistakes and gaps of the paper's formulas and comparisons, each as a number."""

from __future__ import annotations

from collections.abc import Iterator

from csdfgen.paper.cells import Cell
from csdfgen.paper.joining.claims import simulate_policy
from csdfgen.paper.joining.fit import DELAY, FLUCTUATION, largest_error, optimal_batch, slow_down
from csdfgen.paper.joining.times import flat_times, scale_alexnet
from csdfgen.serving.arrivals import Traffic
from csdfgen.serving.policies import parse_policy
from csdfgen.serving.simulate import Simulated, simulate
from csdfgen.serving.times import Times


def _run(policy: str, times: Times, load: float, workers: int = 1) -> Simulated:
    requests = Traffic("poisson", load * times.capacity).requests(2000, 3)
    return simulate(parse_policy(policy), times, requests, most=32, workers=workers, seed=4)


def errata() -> Iterator[Cell]:
    """Twelve, in the order of the paper, each with what is meant or true."""
    times = scale_alexnet()
    whole, k, four, eight = times.whole, 5, 4, 8
    rest = times.rest[k][eight]
    true = 0.1 + times.front[k][four] + rest
    batches = _run("lbci-paper", times, 0.9).batches
    images = sum(size for size, _ in batches)
    of_request = sum(size**2 for size, _ in batches) / images
    serial, own = (
        simulate_policy(policy, 20, 0.03, 0.42, "poisson", 300)
        for policy in ("serial", "lbci-paper")
    )
    found: list[tuple[str, str, str, float, int, str]] = [
        ("(2')", "t_opt * r_max over the time of an image", "", DELAY * FLUCTUATION / whole[1], 2,
         "below 1, no batch is in time; t_opt * (1 - r_max) is meant"),
        ("N_opt", "longest time of a sample, relative to t_opt", "%",
         100 * max(whole[b] / b for b in range(1, 33)) / DELAY, 1,
         "as a time per sample, g(b) never reaches t_OPT: N_opt is unbounded"),
        ("(5)", "predicted remaining time before the last sub-model, relative to the true one", "%",
         100 * times.rest[k + 1][eight] / rest, 0, "sub-model k+1 is left out"),
        ("(3)", "delay of a newcomer that waited 100 ms, relative to the true one", "%",
         100 * (true + times.front[k][four]) / true, 0,
         "its wait overlaps with the running time of the batch"),
        ("the loop", "N_opt", "images", optimal_batch(DELAY * (1 - FLUCTUATION)), 0,
         "not a bound on joins, nor are N_st and N; k = 1, where catching up is cheapest, is excluded"),
        ("(6)", "error of the fit where small batches are slower", "%",
         100 * largest_error(slow_down(whole[1:33])), 1, "only falling curves are fitted"),
        ("(4), (5)", "error of a product of two numbers that are 5 % off", "%",
         100 * ((1 + FLUCTUATION) ** 2 - 1), 1, "a single table of remaining times avoids it"),
        ("throughput", "at 20 requests per second, more than Serial's", "%",
         100 * (own.rate / serial.rate - 1), 1,
         "below capacity every policy serves the arrival rate; 10.43 % occurs only in the conclusion"),
        ("averages", "batch seen by a request over the average batch", "",
         of_request * len(batches) / images, 2,
         "delays are averaged over batches: a batch of 10 counts as much as one of 1"),
        ("instances", "latency of two on one core, relative to the predicted one", "%", 200.0, 0,
         "predictions ignore that several instances run at once"),
        ("greedy", "less delay than the greedy policy, load 0.9", "%", _less(times, 0.9), 1,
         "the paper compares only with Serial and a window"),
        ("greedy", "the same where batches save 5 %, load 0.6", "%", _less(flat_times(), 0.6), 1,
         "joins delay requests that are nearly done"),
        ("memory", "largest batch, where Serial has 1", "images", max(size for size, _ in batches), 0,
         "the paper ignores memory, which holds the outputs of sub-model k and the newcomers' feature maps"),
    ]  # fmt: skip
    for where, what, unit, ours, digits, note in found:
        yield Cell("errata", where, what, unit, None, ours, digits, note)


def _less(times: Times, load: float) -> float:
    """Percent by which LBCI's mean latency is below greedy's."""
    greedy, lbci = (_run(policy, times, load).summary.mean for policy in ("greedy", "lbci"))
    return 100 * (1 - lbci / greedy)
