"""Which dependences do all orders below a threshold share? w fires before w', if w' exceeds the threshold within D.

D is the smallest of the minimum states in which w can start. If an order below the threshold fires w' before w, it
stays below it when only firings of D are fired up to w, as bytes alive are submodular. So if w' exceeds the threshold
wherever it starts within D, all orders below the threshold fire w first. The cuts then include this dependence, which
only makes them larger. If a cut exceeds the threshold, or if two firings must each be first, there is no order below
it. This proves bounds that no single cut proves. Read backwards in time, an order gives other pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from schedules.peak.bound import Cuts
from schedules.peak.problem import evaluate

Array = np.ndarray


class Demands:
    """The dependences of all orders with at most `limit` bytes alive, from the cuts of both directions.

    cuts: forwards and backwards in time. refuted: whether there is no such order.
    """

    def __init__(self, cuts: Sequence[Cuts], limit: int) -> None:
        self.cuts = tuple(one.free() for one in cuts)
        self.limit = limit
        self.refuted = False
        self._last = cuts[0].problem.firings - 1

    def find(self, order: Array, over: Callable[[], bool]) -> None:
        """Find dependences where an order exceeds the limit, in both directions, until there are no new ones."""
        idle, backwards = 0, False
        while idle < 2 and not self.refuted and not over():
            turned = self._last - order[::-1] if backwards else order
            found = self._along(backwards, turned, over)
            idle = 0 if found else idle + 1
            backwards = not backwards

    def _along(self, backwards: bool, order: Array, over: Callable[[], bool]) -> bool:
        """Whether new dependences were found at the firings where the order exceeds the limit."""
        cuts = self.cuts[backwards]
        live = evaluate(cuts.problem, order)
        found = False
        for firing in _worst_of_each(cuts, order, live, self.limit):
            while not self.refuted and not over() and self._about(backwards, firing, order):
                found = True
        return found

    def _about(self, backwards: bool, firing: int, order: Array) -> bool:
        """Whether a firing was found that must come after this firing."""
        cuts = self.cuts[backwards]
        problem, nothing = cuts.problem, np.zeros(len(order), bool)
        cut = cuts.of(firing)
        if cut.value > self.limit:
            self.refuted = True
            return False
        state = problem.phase < cut.state[problem.actor]
        chosen = state[order]
        early = order[chosen]
        live = evaluate(problem, np.concatenate([early, order[~chosen]]))[: len(early)]
        for other in _worst_of_each(cuts, early, live, self.limit):
            least = cuts.of(other)
            if least.value <= self.limit and (least.state <= cut.state).all():
                continue  # it can start there
            if cuts.between(other, nothing, state)[0] > self.limit:
                self._demand(backwards, firing, other)
                return True
        return False

    def _demand(self, backwards: bool, early: int, late: int) -> None:
        if backwards:
            early, late = self._last - late, self._last - early
        if self.cuts[0].precedes(late, early):
            self.refuted = True
            return
        self.cuts[0].demand(early, late)
        self.cuts[1].demand(self._last - late, self._last - early)


def _worst_of_each(cuts: Cuts, order: Array, live: Array, limit: int) -> list[int]:
    """The worst firing above the limit of each actor, the worst first; other firings of an actor are similar."""
    above = np.flatnonzero(live > limit)
    above = above[np.argsort(-live[above], kind="stable")]
    _, worst = np.unique(cuts.problem.actor[order[above]], return_index=True)
    found: list[int] = order[above[np.sort(worst)]].tolist()
    return found
