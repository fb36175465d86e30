"""Take what waits as soon as a worker is free: Clipper, Triton's dynamic batcher without a delay."""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.serving.policies.base import Policy
from csdfgen.serving.requests import Decision, View

_NOTHING = Decision()


@dataclass
class Greedy(Policy):
    """The largest batch of what waits."""

    name = "greedy"

    def decide(self, view: View) -> Decision:
        """All that waits, if nothing runs."""
        return _NOTHING if view.stack else Decision(self.largest(view))
