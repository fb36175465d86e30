"""How would a policy serve these requests? A discrete simulation of the server's own desk in virtual time.

Stages take the times of a table, each with a random factor of its spread (log-normal, median 1). The half distance between
quartiles of a normal distribution is 0.6745 standard deviations.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from csdfgen.serving.desk import Desk
from csdfgen.serving.policies.base import Policy
from csdfgen.serving.requests import Batch, Request
from csdfgen.serving.summary import Summary, summary
from csdfgen.serving.times import Times

_QUARTILE = 0.6745


@dataclass(frozen=True, slots=True)
class Simulated:
    """requests: all of them, over. batches: (images, joins) of every batch that reached the end. stages: number of stage
    runs. seconds: virtual time until the last answer; elapsed: real time. memory: the most bytes at one time, of running
    stages and of images between stages.
    """

    requests: Sequence[Request]
    batches: Sequence[tuple[int, int]]
    stages: int
    seconds: float
    elapsed: float
    memory: int

    @property
    def summary(self) -> Summary:
        """Latencies and counts."""
        return summary(self.requests)

    @property
    def mean_batch(self) -> float:
        """Images of a batch at its end, on average."""
        return sum(images for images, _ in self.batches) / max(1, len(self.batches))


def simulate(
    policy: Policy,
    times: Times,
    requests: Sequence[Request],
    *,
    most: int,
    slots: int | None = None,
    workers: int = 1,
    seed: int = 0,
) -> Simulated:
    """Serve the requests, in the order of their arrivals. most: images of a batch; slots: images in flight, by default twice
    as many for each worker. Raises InputError as `Desk`.
    """
    start, rng = perf_counter(), random.Random(seed)
    desk = Desk(policy, times, most=most, slots=slots or 2 * most * workers, workers=workers)
    factors = (desk.times.spread / _QUARTILE).tolist()
    seconds = desk.times.stage
    events: list[tuple[float, int, int]] = []  # time, tie, worker that has passed a stage
    sleeping: dict[int, float] = dict.fromkeys(range(workers), math.inf)
    ended: list[tuple[int, int]] = []
    running: dict[int, tuple[int, int]] = {}
    now, at, stages, memory = 0.0, 0, 0, 0
    while True:
        arrival = requests[at].arrival if at < len(requests) else math.inf
        passing = events[0][0] if events else math.inf
        waking = min(sleeping.values(), default=math.inf)
        moment = min(arrival, passing, waking)
        if moment == math.inf:
            break
        now = max(now, moment)
        if passing <= now:
            _, _, worker = heapq.heappop(events)
            batch = desk.stacks[worker][-1]
            desk.passed(worker, now)
            del running[worker]
            if batch.stage == times.count:
                ended.append((batch.images, batch.joins))
            sleeping[worker] = now
        elif arrival <= now:
            desk.arrive(requests[at], now)
            at += 1
            desk.draining = at == len(requests)
            for worker in sleeping:
                sleeping[worker] = now
        woken = [worker for worker, until in sleeping.items() if until <= now]
        for worker in woken:
            found = desk.turn(worker, now)
            if not isinstance(found, Batch):
                sleeping[worker] = found
                continue
            del sleeping[worker]
            stages += 1
            size = found.images
            factor = factors[found.stage][size]
            taken = seconds[found.stage][size] * (math.exp(rng.gauss(0, factor)) if factor else 1.0)
            running[worker] = found.stage, size
            heapq.heappush(events, (now + taken, stages, worker))
            memory = max(memory, _held(desk, running))
    return Simulated(requests, ended, stages, now, perf_counter() - start, memory)


def _held(desk: Desk, running: dict[int, tuple[int, int]]) -> int:
    """Bytes of the running stages, and of images between stages."""
    times = desk.times
    arenas = sum(times.arena(stage, size) for stage, size in running.values())
    return arenas + sum(b.images * times.slot(b.stage) for stack in desk.stacks for b in stack)
