"""Which peak can no order avoid? All states of a small problem, those that are reached with least first.

States come in the order of the most that was alive on the way to them, so that when the last one
comes up its figure is the least peak of all, and while there are others no order is below theirs. A
firing after which no more is alive than before is fired at once: nothing is lost by it, as bytes
alive are submodular.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from schedules.peak.barriers import Tables

__all__ = ["explored"]

State = tuple[int, ...]


def explored(
    tables: Tables,
    bound: int,
    limit: int,
    over: Callable[[], bool],
    spend: Callable[[float], None],
) -> tuple[int, list[int] | None]:
    """(bound, order): what no order goes below, at least `bound`, and an order with that peak below
    `limit`, if there is one and it was found before `over`.

    Without one and before `over`, the bound is `limit`.
    """
    phases, base = tables.phases, tables.base
    goal = tuple(phases)
    start = (0,) * len(phases)
    came: dict[State, tuple[State | None, int]] = {}
    heap: list[tuple[int, int, State, int, State | None, int]] = [
        (bound, 0, start, tables.start, None, -1)
    ]
    shared = bool(tables.shared_claims or tables.shared_frees)
    while heap:
        bound, left, state, live, before, fired = heappop(heap)
        if state in came:
            continue
        came[state] = before, fired
        if state == goal:
            return bound, _way(came, goal)
        if over():
            return bound, None
        spend(4 + 0.6 * len(phases))
        steps = []
        for actor, phase in enumerate(state):
            if phase == phases[actor]:
                continue
            for source, counts in tables.waits[actor]:
                if state[source] < counts[phase]:
                    break
            else:
                firing = base[actor] + phase
                claim, free = tables.claim[firing], tables.free[firing]
                if shared:
                    claim += tables.newly_claimed(firing, state)
                    free += tables.newly_free(firing, state)
                during = live + claim + tables.extra[firing]
                if during < limit:
                    peak = during if during > bound else bound
                    after = live + claim - free
                    step = (peak, left - 1, actor, after, firing)
                    if peak == bound and after <= live:
                        steps = [step]
                        break
                    steps.append(step)
        for peak, rest, actor, after, firing in steps:
            nxt = (*state[:actor], state[actor] + 1, *state[actor + 1 :])
            if nxt not in came:
                heappush(heap, (peak, rest, nxt, after, state, firing))
    return limit, None


def _way(came: dict[State, tuple[State | None, int]], goal: State) -> list[int]:
    order = []
    state: State | None = goal
    while state is not None:
        state, firing = came[state]
        order.append(firing)
    return order[-2::-1]
