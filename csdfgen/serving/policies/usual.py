"""The policies of most servers: one request at a time, a window of images or time, and what waits as soon as a worker is free.

Paper 001 calls the first two Serial and Batchsize(m); Clipper and Triton's dynamic batcher without a delay do the third.
"""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.serving.policies.base import Policy
from csdfgen.serving.requests import Decision, View

_NOTHING = Decision()


@dataclass
class Serial(Policy):
    """All images of a request form a batch, or several where it is larger than a batch."""

    name = "serial"

    def decide(self, view: View) -> Decision:
        """The next request, if nothing runs."""
        if view.stack or not view.queue:
            return _NOTHING
        return Decision(min(view.queue[0].left, self.largest(view)))


@dataclass
class Window(Policy):
    """m: images of a batch. delay: seconds after which the oldest request starts with fewer; the paper does not print its
    own, and the default is what its users accept.
    """

    name = "window"
    m: int = 10
    delay: float = 0.5

    def decide(self, view: View) -> Decision:
        """A batch if it is full, the oldest request has waited, or no others come."""
        if view.stack or not view.queue:
            return _NOTHING
        size = min(self.m, self.most)
        due = min(request.arrival for request in view.queue) + self.delay
        if view.waiting >= size or view.now >= due or view.draining:
            return Decision(min(size, self.largest(view)))
        return Decision(until=due)


@dataclass
class Greedy(Policy):
    """The largest batch of what waits."""

    name = "greedy"

    def decide(self, view: View) -> Decision:
        """All that waits, if nothing runs."""
        return _NOTHING if view.stack else Decision(self.largest(view))
