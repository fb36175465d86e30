"""Layer-to-layer batching of paper 001: what waits joins the batch that runs, once.

H. Zhao, X. Liu, J. Zheng and J. He, "Layered Batch Inference Optimization Method for Convolutional Neural Networks Based on
CPU" (ANIT 2023). A batch takes all that waits. In front of each later sub-model the worker asks how many
newcomers would catch up, join and leave all in time; after the first join, or if none could join, it asks no more. A batch of
N_opt images is never joined.
"""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.serving.policies.base import Policy
from csdfgen.serving.requests import Batch, Decision, View
from csdfgen.serving.times import Times

_GO_ON = Decision()
_CLOSED = Decision(close=True)


@dataclass
class Lbci(Policy):
    """The repaired rule. delay: seconds that users accept, t_opt. margin: the relative fluctuation of times that is
    expected, r_max; None: the largest spread of the table.

    A request's own deadline counts where it is earlier.
    """

    name = "lbci"
    delay: float = 0.5
    margin: float | None = None

    def settle(self, times: Times, most: int, workers: int = 1) -> None:
        """Find N_opt, the largest batch that takes no longer than t_OPT = t_opt * (1 - r_max)."""
        super().settle(times, most, workers)
        fluctuation = float(times.spread.max()) if self.margin is None else self.margin
        strict = self.delay * (1 - min(fluctuation, 1.0))
        fitting = [b for b in range(1, most + 1) if times.whole[b] <= strict]
        self.optimum = max(fitting, default=1)

    def decide(self, view: View) -> Decision:
        """Start what waits, join once, or go on."""
        top = view.top
        if top is None:
            count = min(self.largest(view), self.optimum)
            return Decision(count, close=count >= self.optimum)
        if top.closed or not view.queue or top.stage < self.first:
            return _GO_ON
        count = self._joining(view, top)
        return Decision(count, close=True) if count and len(view.stack) == 1 else _CLOSED

    first = 1
    """The first stage in front of which others join."""

    def _joining(self, view: View, top: Batch) -> int:
        """The largest number of newcomers with which all are in time."""
        most = min(self.largest(view), self.optimum - top.images)
        oldest = min(
            *(min(r.arrival + self.delay, r.deadline) for r, _, _ in top.parts),
            *(min(r.arrival + self.delay, r.deadline) for r in view.queue),
        )
        count = 0
        while count < most:
            added = self.times.front[top.stage][count + 1]
            rest = self.times.rest[top.stage][top.images + count + 1]
            if view.now + added + rest >= oldest:
                break
            count += 1
        return count


@dataclass
class LbciPaper(Lbci):
    """The rule as printed: the newcomers' wait is added to the time that the batch has run (3), the next sub-model is left
    out (5), nobody joins in front of the second sub-model, and neither N_opt nor a batch already taken bounds a join.

    The printed t_OPT = t_opt * r_max is less than the time of one image; N_opt is that of the repaired rule.
    """

    name = "lbci-paper"
    first = 2

    def _joining(self, view: View, top: Batch) -> int:
        oldest = min(request.arrival for request in view.queue)
        passed = (view.now - oldest) + (view.now - top.begun)
        count = 0
        while count < min(self.largest(view), self.most - top.images):
            added = self.times.front[top.stage][count + 1]
            rest = self.times.rest[top.stage + 1][top.images + count + 1]
            if passed + added + rest >= self.delay:
                break
            count += 1
        return count
