"""One request at a time, in their order: what paper 001 calls Serial."""

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
