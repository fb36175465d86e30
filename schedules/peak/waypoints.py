"""Is there an order below a threshold? Follow one, and go through a minimum state where it exceeds the threshold.

An order is followed from a state S to a state G. The first firing w that would exceed the threshold starts in the
minimum state D between them in which it can; the paths to D and from D on are found recursively. If w' must exceed the
threshold on the path to D, no order below it fires w' before w (bytes alive are submodular: the firings of D in such an
order would be below it), and D is computed again without w' and all firings that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedules.peak.bound import Cuts
from schedules.peak.problem import evaluate

Array = np.ndarray


class _Failed(Exception):  # noqa: N818
    """There is no path: `firing` exceeds the threshold wherever it starts."""

    def __init__(self, firing: int) -> None:
        self.firing = firing


class _GivenUp(Exception):  # noqa: N818
    """The time is over, or too many cuts were computed."""


def search_waypoints(
    cuts: Cuts, base: Array, limit: int, over: Callable[[], bool], most: int = 400
) -> Array | None:
    """An order that keeps at most `limit` bytes alive and follows `base` where possible; None if none is found.

    most: number of cuts that are computed at most.
    """
    search = _Search(cuts, cuts.obeying(base) if cuts.tightened else base, limit, over, most)
    nothing = np.zeros(cuts.problem.firings, bool)
    try:
        return np.concatenate(search.path(nothing, ~nothing, 0))
    except (_Failed, _GivenUp):
        return None


class _Search:
    def __init__(
        self, cuts: Cuts, base: Array, limit: int, over: Callable[[], bool], most: int
    ) -> None:
        self.cuts, self.problem = cuts, cuts.problem
        self.base, self.limit = base, limit
        self.over, self.left = over, most

    def path(self, inside: Array, within: Array, depth: int) -> list[Array]:
        """Firings, in pieces, from the state `inside` to the state `within`. Raises _Failed."""
        done: list[Array] = []
        while True:
            todo = self.base[(within & ~inside)[self.base]]
            if not len(todo):
                return done
            above = np.flatnonzero(self._live(inside, todo) > self.limit)
            if not len(above):
                return [*done, todo]
            worst = int(todo[above[0]])
            pieces, state = self._approach(worst, inside, within, depth)
            done += [*pieces, np.array([worst])]
            inside = state
            inside[worst] = True

    def _live(self, inside: Array, todo: Array) -> Array:
        """Bytes alive during each firing from a state on."""
        base = self.base
        before = base[inside[base]]
        rest = np.ones(len(base), bool)
        rest[before] = rest[todo] = False
        live = evaluate(self.problem, np.concatenate([before, todo, base[rest[base]]]))
        return live[len(before) : len(before) + len(todo)]

    def _approach(
        self, firing: int, inside: Array, within: Array, depth: int
    ) -> tuple[list[Array], Array]:
        """Pieces of a path to a state in which the firing can start, and that state."""
        problem = self.problem
        if depth > 100:
            raise _GivenUp
        allowed = within
        while True:
            if self.left <= 0 or self.over():
                raise _GivenUp
            self.left -= 1
            value, state = self.cuts.between(firing, inside, allowed)
            if value > self.limit:
                raise _Failed(firing)
            try:
                return self.path(inside, state, depth + 1), state
            except _Failed as failed:
                later = failed.firing
            actor, phase = problem.actor[later], problem.phase[later]
            if self.cuts.ancestors[firing, actor] > phase:
                raise _Failed(firing)  # it waits for the firing that cannot come first
            allowed = allowed & (self.cuts.ancestors[:, actor] <= phase)
