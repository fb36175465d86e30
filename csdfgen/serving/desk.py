"""Who waits, and what runs? The queue of requests and the batches of workers, in the time of whoever asks.

Server and simulator drive one desk by the same calls: `arrive` and `cancel` when a client acts, `turn` when a worker is
free, `passed` when its stage is done. A policy decides in `turn`; everything else is bookkeeping.

A worker has a stack of batches. The one on top runs; those below stopped in front of a stage, where the batch above joins
them when it arrives there. A batch that runs is never interrupted within a stage.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable

from csdfgen.errors import InputError
from csdfgen.serving.policies.base import Policy
from csdfgen.serving.requests import Batch, Request, View
from csdfgen.serving.times import Times


class Desk:
    """Queue and batches. policy: see `policies.base.Policy`. most: images of a batch; slots: images in flight at one time;
    workers: number of them. on_end: called with every request that is over. draining: no further requests come.

    Raises InputError for fewer slots than one, or batches that the times do not know.
    """

    def __init__(
        self,
        policy: Policy,
        times: Times,
        *,
        most: int,
        slots: int,
        workers: int = 1,
        on_end: Callable[[Request], None] = lambda request: None,
    ) -> None:
        if slots < 1:
            raise InputError(f"{slots} images in flight; at least 1 is needed")
        self.policy, self.most, self.times = policy, most, times.up_to(most)
        self.queue: list[Request] = []
        self.waiting = 0
        self.stacks: list[list[Batch]] = [[] for _ in range(workers)]
        self.free = list(range(slots))[::-1]
        self._until: list[float] = [math.nan] * workers
        self._since: list[float] = [math.nan] * workers
        self._on_end = on_end
        self.draining = False
        policy.settle(self.times, most, workers)

    # Clients -------------------------------------------------------------------------------------

    def arrive(self, request: Request, now: float) -> bool:
        """A request comes; returns whether it is admitted. Raises nothing: one that is refused is over."""
        self.policy.arrived(request, now)
        if not self.policy.admits(self._view(None, now), request):
            self._end(request, "refused", now)
            return False
        insort(self.queue, request, key=self.policy.order)
        self.waiting += request.images
        return True

    def cancel(self, request: Request, now: float) -> bool:
        """A client has gone; returns whether its request was still open. Images of it that run leave behind their stage."""
        if request.outcome:
            return False
        self._drop(request)
        self._end(request, "cancelled", now)
        return True

    # Workers -------------------------------------------------------------------------------------

    def turn(self, worker: int, now: float) -> Batch | float:
        """The batch whose next stage a free worker runs, or the time until which it may sleep if nothing happens."""
        stack = self.stacks[worker]
        self._until[worker] = math.nan
        while stack:
            self.free += stack[-1].leave()
            if stack[-1].images:
                break
            stack.pop()
        decision = self.policy.decide(self._view(worker, now))
        for request in decision.refuse:
            self._drop(request)
            self._end(request, "refused", now)
        if decision.start and self.queue:
            stack.append(self._formed(min(decision.start, self.waiting), now))
        elif not stack:
            return decision.until
        batch = stack[-1]
        batch.closed |= decision.close
        self._since[worker] = now
        self._until[worker] = now + self.times.stage[batch.stage][batch.images]
        return batch

    def passed(self, worker: int, now: float) -> list[Request]:
        """The stage that `turn` gave is done; returns requests that are answered by it."""
        stack = self.stacks[worker]
        since = self._since[worker]
        self.policy.measured(self._until[worker] - since, now - since)
        self._until[worker] = math.nan
        batch = stack[-1]
        batch.stage += 1
        if batch.stage < self.times.count:
            below = stack[-2] if len(stack) > 1 else None
            if (
                below is not None
                and below.stage == batch.stage
                and below.images + batch.images <= self.most
            ):
                below.join(stack.pop())
            return []
        stack.pop()
        self.free += batch.slots
        answered = []
        for request, _, count in batch.parts:
            if request.outcome:
                continue
            request.pending -= count
            if not request.pending:
                self._end(request, "answered", now)
                answered.append(request)
        return answered

    def failed(self, worker: int, now: float) -> None:
        """The stage that `turn` gave could not be computed: all requests with images in its batch are over."""
        self._until[worker] = math.nan
        batch = self.stacks[worker].pop()
        self.free += batch.slots
        for request in dict.fromkeys(request for request, _, _ in batch.parts):
            if not request.outcome:
                self._drop(request)
                self._end(request, "failed", now)

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not self.queue and not any(self.stacks)

    # Bookkeeping ---------------------------------------------------------------------------------

    def _view(self, worker: int | None, now: float) -> View:
        """What a free worker sees, or a client, for whom all workers are others."""
        others = [
            (until, stack)
            for until, stack in zip(self._until, self.stacks, strict=True)
            if until == until
        ]
        stack = [] if worker is None else self.stacks[worker]
        return View(now, self.queue, self.waiting, stack, len(self.free), others, self.draining)

    def _formed(self, images: int, now: float) -> Batch:
        """A batch of images from the head of the queue. The policy keeps to `room` and `most`."""
        assert images <= min(len(self.free), self.most), f"{images} of {len(self.free)} slots"
        parts, left = [], images
        while left:
            request = self.queue[0]
            count = min(left, request.left)
            parts.append((request, request.images - request.left, count))
            request.left -= count
            left -= count
            if not request.left:
                self.queue.pop(0)
        self.waiting -= images
        slots = [self.free.pop() for _ in range(images)]
        return Batch(parts, slots, now)

    def _drop(self, request: Request) -> None:
        """Take what waits of a request out of the queue."""
        if request.left:
            self.queue.remove(request)
            self.waiting -= request.left
            request.left = 0

    def _end(self, request: Request, outcome: str, now: float) -> None:
        request.end(outcome, now)
        self._on_end(request)
