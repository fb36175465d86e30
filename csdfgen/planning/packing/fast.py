"""Which order of items packs best? First fit in a few orders, then repair until the bound.

Largest first is mostly best (Pisarchyk, Lee: Efficient memory management for deep neural net
inference, 2020, section 5); a few other orders win now and then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from time import monotonic, thread_time
from types import MappingProxyType

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.planning.packing.first_fit import Arena, Groups, fit_few, grouped
from csdfgen.planning.packing.items import FREE, Items, Packing, clash, lower_bound, packed
from csdfgen.planning.packing.repair import repair

__all__ = ["EFFORTS", "pack"]

EFFORTS: Mapping[str, tuple[int, float]] = MappingProxyType(
    {"low": (15_000, 30.0), "normal": (120_000, 120.0), "high": (600_000, 600.0)}
)
"""Effort -> steps of the search, and seconds of processor time that end it sooner."""
_PATIENCE = (1_000, 100)
"""Ceilings in a row without success that end a search: of given seconds, of a named effort."""
_STEPS_EACH = 100
"""At the lowest effort: pairs of items for a step of the search."""
_NEAR = 100
"""At the lowest effort: nothing is searched once a packing is within this part of its bound."""
_FAR, _MORE = 50, 4_000
"""At the lowest effort: where a packing of few items stays this part of its bound above what is enough, so
many steps are made; few items have few places, and steps of theirs cost little.
"""
_PLACED = 16_000
"""Groups that are placed at the lowest effort, all orders together (at least one order is)."""
_FEW = 500
"""Groups that are placed one by one in plain lists."""


def pack(
    items: Items,
    *,
    effort: str | float = "normal",
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
    limit: int | None = None,
) -> Packing:
    """Offsets for all items, so that those alive at the same time share no byte.

    effort: how long is searched after first fit, see `EFFORTS`; a number is seconds. The same items,
    effort and seed give the same packing, unless seconds ended the search. stop: asked now and then;
    once true, the best so far is returned. limit: bytes that suffice; nothing smaller is looked for.
    PlanError if fixed items share bytes or the effort is not known.

    >>> pack(Items([32, 48, 16], [0, 1, 2], [2, 3, 4])).total
    80
    """
    _check_fixed(items)
    bound = lower_bound(items)
    aim = enough = max(bound, limit or 0)
    steps, seconds = _effort(effort, len(items))
    # what else the machine does is not to change a packing
    now = thread_time if isinstance(effort, str) else monotonic
    until = now() + seconds
    asked = stop or (lambda: False)
    found = packed(items, _first_fit(items, aim, asked), bound)
    if effort == "low":
        enough = max(aim, bound + bound // _NEAR)
    if found.total <= enough:
        return found

    tried = repair(
        items,
        found.offsets,
        aim,
        enough=enough,
        steps=(steps, _MORE) if effort == "low" and steps < _MORE else (steps,),
        patience=_PATIENCE[isinstance(effort, str)],
        seed=seed,
        stop=lambda: now() > until or asked(),
    )
    first = packed(items, next(tried), bound)
    if first.total > enough + bound // _FAR:
        more = next(tried, None)
        return first if more is None else packed(items, more, bound)
    return first


def _effort(effort: str | float, count: int) -> tuple[int, float]:
    """(steps, seconds) of the search for so many items."""
    if isinstance(effort, str):
        if effort not in EFFORTS:
            raise PlanError(
                f"effort '{effort}' is none of {', '.join(EFFORTS)}, nor a number of seconds"
            )
        steps, seconds = EFFORTS[effort]
        return (min(steps, count**2 // _STEPS_EACH) if effort == "low" else steps), seconds
    if not 0 <= effort < float("inf"):
        raise PlanError(f"effort of {effort} seconds; give 0 or more")
    return sys.maxsize, effort


def _first_fit(items: Items, enough: int, stop: Callable[[], bool]) -> np.ndarray:
    """The best of a few orders."""
    groups, floor = grouped(items), _fixed_top(items)
    arena = Arena(items, groups) if len(groups) > _FEW else None
    best, least, placed = np.zeros(len(items), np.int64), float("inf"), 0
    for order in _orders(groups):
        if placed and (placed + len(groups) > _PLACED or stop()):
            break
        found = (
            fit_few(items, groups, order, least - 1)
            if arena is None
            else arena.fit(order, least - 1)
        )
        placed += len(groups)
        if found is not None:
            best, least = found[0], max(found[1], floor)
            if least <= enough:
                break
    return best


def _fixed_top(items: Items) -> int:
    kept = (items.fixed != FREE) & (items.sizes > 0)
    return int((items.fixed + items.sizes)[kept].max(initial=0))


def _check_fixed(items: Items) -> None:
    kept = np.flatnonzero(items.fixed != FREE)
    if not len(kept):
        return
    names = [items.name(i) for i in kept.tolist()]
    given = Items(items.sizes[kept], items.born[kept], items.gone[kept], names=names)
    found = clash(given, items.fixed[kept])
    if found is not None:
        a, b = (int(kept[i]) for i in found)
        raise PlanError(
            f"'{items.name(a)}' is fixed at {items.fixed[a]} ({items.sizes[a]} bytes) and "
            f"'{items.name(b)}' at {items.fixed[b]} ({items.sizes[b]} bytes): they overlap while both are alive"
        )


def _orders(groups: Groups) -> Iterator[list[int]]:
    """Orders in which groups are placed, most promising first; none twice."""
    size, born = groups.size, groups.born
    span = groups.gone - born
    keys = (
        (-size, born),
        (-size, -span, born),
        (-size * span, born),
        (-span, -size),
    )
    seen: set[bytes] = set()
    for key in keys:
        order = np.lexsort(key[::-1])
        if order.tobytes() not in seen:
            seen.add(order.tobytes())
            yield order.tolist()
