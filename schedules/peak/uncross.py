"""How does an order lose its worst moment? It goes through the state in which that firing costs least.

Where D is the smallest least state in which the worst firing can start, the order is split: first
what of it lies in D, then the rest. As bytes alive are submodular, no firing of the first part sees
more alive than it did.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedules.peak.bound import Cuts
from schedules.peak.problem import Problem, evaluate

__all__ = ["uncrossed"]

Array = np.ndarray


def uncrossed(
    cuts: Cuts, order: Array, over: Callable[[], bool], patience: int = 12
) -> tuple[int, Array, int]:
    """(peak, order, bound): the best order that splitting at the worst firings comes to, and the
    largest of the cuts on the way, which bounds all orders.

    patience: splits in a row that make nothing better.
    """
    problem = cuts.problem
    live = evaluate(problem, order)
    best, best_order, bound, tries = int(live.max()), order, 0, 0
    seen: set[int] = set()
    while tries < patience and not over():
        worst = _worst(order, live, seen)
        if worst < 0:
            break
        cut = cuts.of(worst)
        bound = max(bound, cut.value)
        if bound >= best:
            break
        seen.add(worst)
        order, live = _split(problem, order, worst, cut.state)
        peak = int(live.max())
        tries += 1
        if peak < best:
            best, best_order, tries = peak, order, 0
            seen.clear()
    return best, best_order, bound


def _worst(order: Array, live: Array, seen: set[int]) -> int:
    """The firing with most alive that was not split at since the last gain; -1 if there is none."""
    for at in np.argsort(-live, kind="stable")[: len(seen) + 1].tolist():
        if int(order[at]) not in seen:
            return int(order[at])
    return -1


def _split(problem: Problem, order: Array, worst: int, state: Array) -> tuple[Array, Array]:
    """The order through a state, with the worst firing right after it or where it was, whichever
    keeps less; and what it keeps.
    """
    inside = (problem.phase < state[problem.actor])[order]
    early, late = order[inside], order[~inside]
    rest = late[late != worst]
    choices = [np.concatenate([early, late]), np.concatenate([early, [worst], rest])]
    found = [(evaluate(problem, choice), choice) for choice in choices]
    live, chosen = min(found, key=lambda one: int(one[0].max()))
    return chosen, live
