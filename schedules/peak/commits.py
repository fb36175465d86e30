"""Can an order be kept below a threshold? Follow it, and where it would go above, drain first.

Draining is safe: a state that is reached below the threshold, and that keeps no more alive than the
present one and than any between them, can be gone to without loss, as bytes alive are submodular.
"""

from __future__ import annotations

from collections.abc import Callable

from schedules.peak.barriers import State, Tables

__all__ = ["followed"]


def followed(
    tables: Tables, base: list[int], limit: int, over: Callable[[], bool], reach: int = 400
) -> list[int] | None:
    """An order that keeps at most `limit` bytes alive, like `base` where that does; None if none is
    found, or if time is up.

    reach: firings up to which a way to a lower state is looked for.
    """
    state, order = State(tables), list[int]()
    fired = bytearray(len(base))
    at, count = 0, len(base)
    while at < count:
        firing = base[at]
        if fired[firing]:
            at += 1
            continue
        if _needs(state, firing) <= limit:
            state.fire(firing)
            order.append(firing)
            fired[firing] = 1
            at += 1
            continue
        while _needs(state, firing) > limit:
            if over():
                return None
            found = _drained(state, limit, reach)
            if found is None:
                return None
            state, way = found
            order.extend(way)
            for one in way:
                fired[one] = 1
            if fired[firing]:
                break
    return order


def _needs(state: State, firing: int) -> int:
    """Bytes alive while a firing would run."""
    tables = state.tables
    live = state.live + tables.claim[firing] + tables.extra[firing]
    for item in tables.shared_claims.get(firing, ()):
        if not state.claimed[item]:
            live += tables.size[item]
    return live


def _drained(state: State, limit: int, reach: int) -> tuple[State, list[int]] | None:
    """A state with no more alive, and the way there: pulled by the deepest actor that comes to one."""
    phases, done = state.tables.phases, state.done
    for actor in range(len(phases) - 1, -1, -1):
        if done[actor] < phases[actor]:
            found = _dip(state.copy(), actor, limit, reach)
            if found is not None:
                return found
    return None


def _dip(state: State, actor: int, limit: int, reach: int) -> tuple[State, list[int]] | None:
    """The first state with no more alive than now that pulling an actor comes to."""
    tables, done, start = state.tables, state.done, state.live
    waits, base, goal = tables.waits, tables.base, tables.phases[actor]
    way: list[int] = []
    stack = [(actor, goal)]
    while stack and len(way) < reach:
        one, goal = stack[-1]
        phase = done[one]
        if phase >= goal:
            stack.pop()
            continue
        for source, counts in waits[one]:
            if done[source] < counts[phase]:
                stack.append((source, counts[phase]))
                break
        else:
            firing = base[one] + phase
            if state.fire(firing) > limit:
                return None
            way.append(firing)
            if state.live <= start:
                return state, way
    return None
