"""Join where it pays: batches and joins of least expected waiting, within deadlines. The default.

A decision is valued by what it costs the images that are there, until the batch has ended, and by what it leaves to those
that wait and are still to come (`queueing.Worth`, at the measured rate of arrivals). Newcomers join in front of any stage,
any number of times, where that is cheaper than to go on without them.

Deadlines come first. A request that cannot be in time even if it starts now is refused; where not all that wait can be in
time, the worker starts those with which most are.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from csdfgen.serving.policies.base import Policy
from csdfgen.serving.queueing import UTILISATION, Worth
from csdfgen.serving.requests import Batch, Decision, Request, View
from csdfgen.serving.times import Times

_GO_ON = Decision()
_STEP = 1.1
"""Rates are rounded to powers of it, so that few have to be solved."""

_LEAST_LOAD = 0.05
"""Rates below this share of what can be computed count as it."""

_MEMORY = 512
"""Arrivals over which the distance between them is averaged."""

_STAGES = 32
"""Stages over which their measured times are averaged, relative to those of the table."""

_SHORT = 1e-6

_PRIOR = 16
"""Arrivals for which the first guess counts, half of what one worker can do one by one."""

_CROWDED = 4
"""With so many largest batches waiting, the batch that computes most images a second is taken."""

_PATIENCE = 10.0
"""Seconds after which a request without a deadline is as urgent as one whose deadline has come."""


def _key_of(rate: float) -> int:
    """The number of a rate of images a second."""
    return round(math.log(rate) / math.log(_STEP))


@dataclass
class Adaptive(Policy):
    """refuse: whether hopeless requests are refused. margin: relative time that predictions are too short; None: the largest
    spread of the table.
    """

    name = "adaptive"
    refuse: bool = True
    margin: float | None = None

    def settle(self, times: Times, most: int, workers: int = 1) -> None:
        """Forget what was measured of arrivals."""
        super().settle(times, most, workers)
        self._margin = 1.0 + (float(times.spread.max()) if self.margin is None else self.margin)
        self._factor, self._pace = self._margin, 1.0
        self._worths: dict[int, Worth] = {}
        self._joins: dict[tuple[int, int, int, int, int], int] = {}
        self._distance, self._images = 2 / times.capacity, 1.0
        self._count, self._last = 0, 0.0
        limit = UTILISATION * times.most_capacity
        self._keys = _key_of(limit * _LEAST_LOAD), _key_of(limit)
        self._key = self._keys[0]
        self._fastest = max(range(1, most + 1), key=lambda b: b / times.whole[b])

    def prepare(self) -> None:
        """Solve the queue for all rates."""
        low, high = self._keys
        for self._key in range(low, high + 1):
            self._worth()
        self._key = low

    def order(self, request: Request) -> tuple[float, ...]:
        """Higher priorities first, then earlier deadlines."""
        due = min(request.deadline, request.arrival + _PATIENCE)
        return -request.priority, due, request.number

    def measured(self, predicted: float, taken: float) -> None:
        """Learn how much slower than in the table stages are, on a machine that others use too."""
        share = min(max(taken / max(predicted, _SHORT), 0.5), 10.0)
        self._pace += (share - self._pace) / _STAGES
        self._factor = self._margin * max(self._pace, 1.0)

    # Arrivals ------------------------------------------------------------------------------------

    def arrived(self, request: Request, now: float) -> None:
        """Measure the mean time between images."""
        weight = 1 / min(self._count + _PRIOR, _MEMORY)
        self._count += 1
        self._distance += weight * (max(now - self._last, 0.0) - self._distance)
        self._images += weight * (request.images - self._images)
        self._last = now
        rate = self._pace * self._images / max(self._distance * self.workers, 1e-9)
        self._key = min(max(_key_of(rate), self._keys[0]), self._keys[1])

    def _worth(self) -> Worth:
        found = self._worths.get(self._key)
        if found is None:
            found = self._worths[self._key] = Worth(self.times.whole, _STEP**self._key)
        return found

    def admits(self, view: View, request: Request) -> bool:
        """Whether it can be in time behind those that wait and are more urgent."""
        if not self.refuse or request.deadline == math.inf:
            return True
        start = self._free_at(view)
        key = self.order(request)
        ahead = [one for one in view.queue if self.order(one) < key]
        images = self._share(sum(one.left for one in ahead) + request.images)
        return start + self._factor * self._time_of(images) <= request.deadline

    def _share(self, images: int) -> int:
        """Of waiting images those of one worker."""
        return -(-images // self.workers)

    def _free_at(self, view: View) -> float:
        """When the first worker has nothing left that has begun, or now."""
        ends = [until + self._left(stack) for until, stack in view.others]
        return max(view.now, min(ends)) if ends else view.now

    def _left(self, stack: Sequence[Batch]) -> float:
        """Seconds of the stages behind those that run."""
        top = stack[-1]
        if len(stack) == 1:
            return self.times.rest[top.stage + 1][top.images]
        below = stack[0]
        front = self.times.front
        catching_up = front[below.stage][top.images] - front[top.stage + 1][top.images]
        return catching_up + self.times.rest[below.stage][below.images + top.images]

    def _time_of(self, images: int) -> float:
        """Seconds of so many images in the largest batches."""
        full, rest = divmod(images, self.most)
        return full * self.times.whole[self.most] + self.times.whole[rest]

    # Decisions -----------------------------------------------------------------------------------

    def decide(self, view: View) -> Decision:
        """Start, join or go on."""
        if not view.queue or not view.room:
            return _GO_ON
        top = view.top
        if top is not None:
            return self._joined(view, top) if len(view.stack) == 1 else _GO_ON
        if not any(request.deadline < math.inf for request in view.queue):
            return Decision(self._started(view.waiting, self.largest(view)))
        return self._within_deadlines(view)

    def _started(self, waiting: int, most: int) -> int:
        """How many of the waiting images an idle worker starts."""
        own = self._share(waiting)
        return self._best(0, 0, own, min(most, own))

    def _best(self, stage: int, running: int, waiting: int, most: int) -> int:
        """How many of the waiting images start, in front of a stage in which so many are running; 0: none joins."""
        if waiting > _CROWDED * self.most:  # behind so many it is speed alone that counts
            return min(most, self._fastest)
        key = self._key, stage, running, waiting, most
        found = self._joins.get(key)
        if found is None:
            low = 0 if running else 1
            costs = [
                (self._cost(stage, running, waiting, count), count)
                for count in range(low, most + 1)
            ]
            found = self._joins[key] = min(costs)[1]
        return found

    def _cost(self, stage: int, running: int, waiting: int, count: int) -> float:
        """Images times seconds that a decision is expected to cost."""
        time = self.times.front[stage][count] + self.times.rest[stage][running + count]
        worth = self._worth()
        return (running + waiting) * time + worth.later(waiting - count, time)

    def _joined(self, view: View, top: Batch) -> Decision:
        """Newcomers join the batch if that is cheaper, and makes no request late."""
        most = min(self.largest(view), self.most - top.images)
        if most <= 0:
            return _GO_ON
        own = self._share(view.waiting)
        count = self._best(top.stage, top.images, own, min(most, own))
        if not count:
            return _GO_ON
        due = min(request.deadline for request, _, _ in top.parts)
        if due < math.inf:
            front, rest = self.times.front[top.stage], self.times.rest[top.stage]
            while (
                count and view.now + self._factor * (front[count] + rest[top.images + count]) > due
            ):
                count -= 1
        return Decision(count)

    def _within_deadlines(self, view: View) -> Decision:
        """The best batch if all can be in time, otherwise the requests with which most are."""
        most = self.largest(view)
        dues = [request.deadline for request in view.queue for _ in range(request.left)]
        hopeless: list[Request] = []
        if self.refuse:
            hopeless = [
                one
                for one in view.queue
                if view.now + self.times.whole[min(one.left, self.most)] > one.deadline
            ]
        if hopeless:
            gone = set(map(id, hopeless))
            kept = [one for one in view.queue if id(one) not in gone]
            waiting = sum(one.left for one in kept)
            rest = View(view.now, kept, waiting, view.stack, view.room, view.others, view.draining)
            if not kept:
                return Decision(refuse=tuple(hopeless))
            found = self._within_deadlines(rest)
            return Decision(found.start, (*hopeless, *found.refuse), found.until)
        wished = count = self._started(view.waiting, most)
        while count and view.now + self._factor * self.times.whole[count] > min(dues[:count]):
            count -= 1
        if not self.refuse:
            return Decision(count or wished)
        count = max(1, count)
        after = view.now + self._factor * self.times.whole[count]
        if after <= min(dues[:count]) and not self._late(dues[count :: self.workers], after):
            return Decision(count)
        return self._most_in_time(view, dues, most)

    def _most_in_time(self, view: View, dues: list[float], most: int) -> Decision:
        """Refuse the first requests of the queue such that the most images are in time; none of a higher priority than the
        last one's.
        """
        best, refused, start = (-1, 0.0), 0, 1
        skipped = 0
        for number in range(len(view.queue)):
            count = self._fitting(dues[skipped:], view.now, most)
            if count:
                after = view.now + self._factor * self.times.whole[count]
                rest = dues[skipped + count :: self.workers]
                score = count + len(rest) - self._late(rest, after), count / self.times.whole[count]
                if score > best:
                    best, refused, start = score, number, count
            if view.queue[number].priority > view.queue[-1].priority:
                break
            skipped += view.queue[number].left
        return Decision(start, tuple(islice(view.queue, refused)))

    def _fitting(self, dues: Sequence[float], now: float, most: int) -> int:
        """The largest batch from the head of these that ends in time for the first."""
        slack = (min(dues[:most]) - now) / self._factor
        fitting = bisect_right(self.times.whole, slack) - 1
        return min(fitting, len(dues), most)

    def _late(self, dues: Sequence[float], now: float) -> int:
        """How many of these images would be late, in the largest batches that are in time for their first."""
        late, at = 0, 0
        while at < len(dues):
            count = min(
                bisect_right(self.times.whole, (dues[at] - now) / self._factor) - 1,
                len(dues) - at,
                self.most,
            )
            if count < 1:
                late += 1
                at += 1
                continue
            now += self._factor * self.times.whole[count]
            at += count
        return late
