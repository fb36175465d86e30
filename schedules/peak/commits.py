"""Can an order stay below a threshold? Follow it, and drain before a firing that would exceed the threshold.

Draining is safe as bytes alive are submodular: the order may go to any state that it reaches below the threshold and
that keeps no more alive than the present state and those between them.
"""

from __future__ import annotations

from collections.abc import Callable

from schedules.peak.barriers import State, Tables, pull_actor

_MOST = 30
"""Firings that are tried per firing of the problem before draining is given up."""


def follow_order(
    tables: Tables,
    base: list[int],
    limit: int,
    over: Callable[[], bool],
    spend: Callable[[float], None] = lambda _: None,
    reach: int = 400,
) -> list[int] | None:
    """An order that keeps at most `limit` bytes alive and follows `base` where possible; None if none is found, or if the
    time is over.

    spend: is called with the microseconds that the search takes. reach: most firings on the path to a lower state.
    """
    state, order = State(tables), list[int]()
    fired = bytearray(len(base))
    at, count, work = 0, len(base), 0
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
            found, tried = _drained(state, limit, reach)
            work += tried
            if found is None or work > _MOST * count:
                spend(1.5 * (at + work))
                return None
            state, way = found
            order.extend(way)
            for one in way:
                fired[one] = 1
            if fired[firing]:
                break
    spend(1.5 * (count + work))
    return order


def _needs(state: State, firing: int) -> int:
    """Bytes alive during a firing from a state on."""
    tables = state.tables
    live = state.live + tables.claim[firing] + tables.extra[firing]
    for item in tables.shared_claims.get(firing, ()):
        if not state.claimed[item]:
            live += tables.size[item]
    return live


def _drained(state: State, limit: int, reach: int) -> tuple[tuple[State, list[int]] | None, int]:
    """A state with no more bytes alive and the path to it, pulled by the deepest actor that reaches one; and the number
    of firings that were tried.
    """
    phases, done, tried = state.tables.phases, state.done, 0
    known: dict[int, int] = {}
    for actor in range(len(phases) - 1, -1, -1):
        if done[actor] < phases[actor]:
            if _needs(state, _first(state, actor, known)) > limit:
                tried += 8 + 2  # as long as it takes to try it
                continue
            below = state.copy()
            way = _dip(below, actor, limit, reach)
            tried += 8 + len(way)  # a copy takes as long as 8 firings
            if way[-1] >= 0:
                return (below, way), tried
    return None, tried


def _first(state: State, actor: int, known: dict[int, int]) -> int:
    """The first firing that pulling an actor executes. known: of other actors in this state; new ones are added."""
    waits, done, way = state.tables.waits, state.done, list[int]()
    one = actor
    while one not in known:
        way.append(one)
        phase = done[one]
        for source, counts in waits[one]:
            if done[source] < counts[phase]:
                one = source
                break
        else:
            known[one] = state.tables.base[one] + phase
    known.update(dict.fromkeys(way, known[one]))
    return known[actor]


def _dip(state: State, actor: int, limit: int, reach: int) -> list[int]:
    """The firings to the first state with no more bytes alive that pulling an actor reaches; -1 at the end if it reaches
    none.
    """
    start, way = state.live, list[int]()
    for during in pull_actor(state, actor, way):
        if during > limit:
            break
        if state.live <= start:
            return way
        if len(way) >= reach:
            break
    way.append(-1)
    return way
