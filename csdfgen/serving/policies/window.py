"""Wait for a number of images, or for a time: what paper 001 calls Batchsize(m), and what most servers do."""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.serving.policies.base import Policy
from csdfgen.serving.requests import Decision, View

_NOTHING = Decision()


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
