"""Which peak can no order avoid? A search of all states of a small problem, those with the least peak first.

States are visited in the order of the peak on the path to them, so that the peak of the last state is the least of all,
and the peak of each visited state is a lower bound. A firing after which no more bytes are alive than before is fired
at once; this excludes no best order, as bytes alive are submodular.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from schedules.peak.barriers import Tables

State = tuple[int, ...]


def explore_orders(
    tables: Tables, bound: int, limit: int, over: Callable[[], bool], spend: Callable[[float], None]
) -> tuple[int, list[int] | None]:
    """(lower bound, at least `bound`; an order with that peak below `limit`, if it was found before `over`).

    If there is no such order and the search completed, the bound is `limit`.
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
