"""Which order of items packs best? First fit in a few orders, followed by repair towards the lower bound.

The largest first is mostly best (Pisarchyk, Lee: Efficient memory management for deep neural net inference, 2020, section
5); a few other orders are sometimes better. Their "greedy by breadth", in which items come first that are alive while most
bytes are, is taken only where it reaches the bound, as it often does if most bytes are those of a few whole tensors.

Items equal in birth, end and size are placed together: they fill the lowest gaps in order. Items alive for one firing
(scratch) are placed many at a time, each among the items alive at its firing; for all other items they are a slice of one
array in order of time. Few items are placed faster one by one in plain lists: `fit_few`, which gives the same offsets.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic, thread_time
from types import MappingProxyType

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.planning.packing.items import (
    FREE,
    Items,
    Packing,
    breadths,
    clash,
    lower_bound,
    make_packing,
)
from csdfgen.planning.packing.repair import repair
from csdfgen.stopping import is_stopped

_ENDLESS = 2**62
_CHUNK = 64
"""Items of one firing that are placed at a time."""
_MANY = 48
"""For more items of one firing, equal intervals are counted once."""


EFFORTS: Mapping[str, tuple[int, float]] = MappingProxyType(
    {"low": (15_000, 30.0), "normal": (120_000, 120.0), "high": (600_000, 600.0)}
)
"""Effort -> most steps of the search, and most seconds of its processor time."""
_PATIENCE = (1_000, 100)
"""Failed ceilings in a row that end a search: with an effort in seconds, and with a named effort."""
_STEPS_EACH = 100
"""At the lowest effort: pairs of items for each step of the search."""
_NEAR = 100
"""At the lowest effort: a packing within this fraction (1/100) of its bound is not improved."""
_FAR, _MORE = 50, 4_000
"""At the lowest effort: if a packing of few items stays this fraction (1/50) of its bound above the sufficient bytes, it
gets so many steps, which are cheap for few items. A second search is made for one as far above.
"""
_PLACED = 16_000
"""Groups that are placed in all orders together, beyond the first order."""
_FEW = 500
"""Up to so many items are placed one by one in plain lists."""


def pack(
    items: Items, *, effort: str | float = "normal", limit: int | None = None, twice: bool = False
) -> Packing:
    """Offsets for all items, so that those alive at the same time share no byte.

    effort: of the search after first fit, see `EFFORTS`; a number is seconds. The same items and effort give the same
    packing, unless time ended the search. limit: bytes that suffice. twice: a second search starts from the order by
    breadth, where that is clearly better than the others. Raises PlanError if fixed items share bytes or the effort is
    unknown.

    >>> pack(Items([32, 48, 16], [0, 1, 2], [2, 3, 4])).total
    80
    """
    _check_fixed(items)
    bound = lower_bound(items)
    aim = enough = max(bound, limit or 0)
    steps, seconds = _effort(effort, len(items))
    # thread time, so that other processes do not change a packing
    now = thread_time if isinstance(effort, str) else monotonic
    until = now() + seconds
    fitting = _Fitting(items)
    found = make_packing(items, fitting.best(aim), bound)
    if effort == "low":
        enough = max(aim, bound + bound // _NEAR)
    if found.total <= enough:
        return found

    def searched(start: np.ndarray) -> Packing:
        tried = repair(
            items,
            start,
            aim,
            enough=enough,
            steps=(steps, _MORE) if effort == "low" and steps < _MORE else (steps,),
            patience=_PATIENCE[isinstance(effort, str)],
            stop=lambda: now() > until or is_stopped(),
        )
        first = make_packing(items, next(tried), bound)
        if first.total > enough + bound // _FAR:
            more = next(tried, None)
            return first if more is None else make_packing(items, more, bound)
        return first

    made = searched(found.offsets)
    if twice and made.total > enough + bound // _FAR:
        other = fitting.fit(fitting.by_breadth(), found.total - found.total // _FAR)
        if other is not None:
            return min(made, searched(other[0]), key=lambda one: one.total)
    return made


def _effort(effort: str | float, count: int) -> tuple[int, float]:
    """(most steps, most seconds) of the search for so many items."""
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


class _Fitting:
    """First fit of items in a few orders of their groups."""

    def __init__(self, items: Items) -> None:
        self._items, self._groups = items, group_items(items)
        self._arena = Arena(items, self._groups) if len(items) > _FEW else None

    def fit(self, order: Sequence[int], most: float) -> tuple[np.ndarray, int] | None:
        """See `Arena.fit`."""
        if self._arena is None:
            return fit_few(self._items, self._groups, order, most)
        return self._arena.fit(order, most)

    def best(self, enough: int) -> np.ndarray:
        """The offsets of the best of a few orders."""
        floor, count = _fixed_top(self._items), len(self._groups)
        best, least, placed = np.zeros(len(self._items), np.int64), inf, 0
        for order, limit in self._orders(enough):
            if placed and (placed + count > _PLACED or is_stopped()):
                break
            found = self.fit(order, min(limit, least - 1))
            placed += count if limit == inf else 0
            if found is not None:
                best, least = found[0], max(found[1], floor)
                if least <= enough:
                    break
        return best

    def by_breadth(self) -> list[int]:
        """Groups that are alive while most bytes are come first."""
        first = np.array([members[0] for members in self._groups.members], np.int64)
        keys = self._groups.born, -self._groups.size, -breadths(self._items)[first]
        return np.lexsort(keys).tolist()

    def _orders(self, enough: int) -> Iterator[tuple[list[int], float]]:
        """Orders, the best on average first, none twice, with the bytes up to which each counts."""
        size, born = self._groups.size, self._groups.born
        span = self._groups.gone - born
        keys = (-size, born), (-size, -span, born), (-size * span, born), (-span, -size)
        seen: set[bytes] = set()
        for number, key in enumerate(keys):
            order = np.lexsort(key[::-1])
            if order.tobytes() not in seen:
                seen.add(order.tobytes())
                yield order.tolist(), inf
            if not number:  # a search that starts from a little less often ends with more
                yield self.by_breadth(), enough


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


# First fit ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of items that are placed together.

    size, born, gone: of each group. brief: whether its only item is alive for one firing. members: items of each group.
    """

    size: np.ndarray
    born: np.ndarray
    gone: np.ndarray
    brief: np.ndarray
    members: tuple[np.ndarray, ...]

    def __len__(self) -> int:
        return len(self.members)


def group_items(items: Items) -> Groups:
    """The items with bytes and without a fixed offset, grouped if equal."""
    free = np.flatnonzero((items.fixed == FREE) & (items.sizes > 0))
    brief = free[items.spans[free] == 1]
    free = free[items.spans[free] > 1]
    order = free[np.lexsort((free, items.sizes[free], items.gone[free], items.born[free]))]
    columns = items.born[order], items.gone[order], items.sizes[order]
    new = np.any([np.diff(column) != 0 for column in columns], axis=0)
    members = np.split(order, np.flatnonzero(new) + 1) if len(order) else []
    brief = brief[np.argsort(items.born[brief], kind="stable")]
    first = np.array([*(one[0] for one in members), *brief], np.int64)
    return Groups(
        items.sizes[first],
        items.born[first],
        items.gone[first],
        np.arange(len(first)) >= len(members),
        (*members, *(np.split(brief, len(brief)) if len(brief) else ())),
    )


class Arena:
    """The items that are placed; `fit` places all others in an order of groups."""

    def __init__(self, items: Items, groups: Groups) -> None:
        self._items, self._groups, self._step = items, groups, items.alignment
        self._offsets = np.where(items.fixed == FREE, 0, items.fixed)
        kept = np.flatnonzero((items.fixed != FREE) & (items.sizes > 0))
        room = len(items)
        self._born, self._gone = np.zeros(room, np.int64), np.zeros(room, np.int64)
        self._low, self._high = np.zeros(room, np.int64), np.zeros(room, np.int64)
        self._count = 0
        self._add(kept, items.born[kept], items.gone[kept], items.sizes[kept])
        self._start = self._count
        # items of one firing, in order of time; those not placed yet have no interval
        self._first_brief = int(np.argmax(groups.brief)) if groups.brief.any() else len(groups)
        self._brief = np.array([m[0] for m in groups.members[self._first_brief :]], np.int64)
        self._times = items.born[self._brief]
        self._at = np.searchsorted(self._times, groups.born).tolist()
        self._until = np.searchsorted(self._times, groups.gone).tolist()
        self._crowded = bool((np.diff(self._times) == 0).any())
        self._size, self._whole = groups.size.tolist(), self._rounded(groups.size).tolist()
        self._groups_born, self._groups_gone = groups.born.tolist(), groups.gone.tolist()
        self._clear()

    def _clear(self) -> None:
        """Remove all items except fixed ones."""
        self._count = self._start
        self._interval = np.zeros(len(self._brief), np.int64)  # number of the interval of each
        self._numbers: dict[tuple[int, int], int] = {(_ENDLESS, 0): 0}
        self._lows, self._highs = np.full(64, _ENDLESS), np.zeros(64, np.int64)
        self._top = 0

    def fit(self, order: Sequence[int], most: float) -> tuple[np.ndarray, int] | None:
        """(offsets of all items by first fit in an order of groups, end of the highest item that is not fixed); None if
        that end is above `most`.
        """
        self._clear()
        first_brief, k = self._first_brief, 0
        while k < len(order):
            if order[k] < first_brief:
                self._place_group(order[k])
                k += 1
            else:
                end = k + 1
                while end < len(order) and order[end] >= first_brief:
                    end += 1
                self._place_briefs(np.array(order[k:end]) - first_brief)
                k = end
            if self._top > most:
                return None
        return self._offsets.copy(), self._top

    def _rounded(self, value: np.ndarray) -> np.ndarray:
        return -(-value // self._step) * self._step

    def _add(
        self,
        members: np.ndarray,
        born: np.ndarray | int,
        gone: np.ndarray | int,
        size: np.ndarray | int,
    ) -> None:
        """Add items that are alive for more than one firing, at their offsets."""
        here = slice(self._count, self._count + len(members))
        low = self._offsets[members]
        self._born[here], self._gone[here] = born, gone
        self._low[here], self._high[here] = low, self._rounded(low + size)
        self._count = here.stop

    def _place_group(self, group: int) -> None:
        """Place equal items into the lowest gaps in order."""
        born, gone, members = (
            self._groups_born[group],
            self._groups_gone[group],
            self._groups.members[group],
        )
        size, whole = self._size[group], self._whole[group]
        lows, highs = self._rivals(born, gone, self._at[group], self._until[group])
        order = np.argsort(lows, kind="stable")
        gaps = np.zeros(len(order) + 1, np.int64)
        np.maximum.accumulate(highs[order], out=gaps[1:])
        room = np.empty(len(order) + 1, np.int64)
        np.subtract(lows[order], gaps[:-1], out=room[:-1])
        room[-1] = _ENDLESS
        if len(members) == 1:
            at = gaps[(room >= size).argmax()]
            self._offsets[members[0]] = at
            self._top = max(self._top, int(at) + size)
        else:
            fit = np.clip((room - size) // whole + 1, 0, len(members))
            before = np.concatenate([[0], np.cumsum(fit)])
            each = np.arange(len(members))
            gap = np.searchsorted(before, each, side="right") - 1
            found = gaps[gap] + (each - before[gap]) * whole
            self._offsets[members] = found
            self._top = max(self._top, int(found[-1]) + size)
        self._add(members, born, gone, size)

    def _rivals(self, born: int, gone: int, at: int, until: int) -> tuple[np.ndarray, np.ndarray]:
        """(offset, rounded end) of the placed items that are alive at any of the firings [born, gone)."""
        count = self._count
        here = np.flatnonzero((self._born[:count] < gone) & (self._gone[:count] > born))
        lows, highs = self._low[here], self._high[here]
        if at == until or len(self._numbers) == 1:
            return lows, highs
        numbers = self._interval[at:until]
        if until - at > _MANY:
            seen = np.zeros(len(self._numbers), bool)
            seen[numbers] = True
            numbers = np.flatnonzero(seen)
        numbers = numbers[numbers > 0]
        return (
            np.concatenate([lows, self._lows[numbers]]),
            np.concatenate([highs, self._highs[numbers]]),
        )

    def _place_briefs(self, which: np.ndarray) -> None:
        """Place items of one firing, by their index in the order of time; those given first get lower offsets."""
        if not self._crowded:
            self._place_apart(np.sort(which))
            return
        ranks: dict[int, int] = {}  # items of the same firing are placed one after the other
        turns: list[list[int]] = []
        for one, time in zip(which.tolist(), self._times[which].tolist(), strict=True):
            rank = ranks[time] = ranks.get(time, -1) + 1
            if rank == len(turns):
                turns.append([])
            turns[rank].append(one)
        for turn in turns:
            self._place_apart(np.sort(np.array(turn)))

    def _place_apart(self, which: np.ndarray) -> None:
        """Place items of one firing, no two of them of the same firing."""
        for start in range(0, len(which), _CHUNK):
            here = which[start : start + _CHUNK]
            items = self._brief[here]
            times, sizes = self._times[here], self._items.sizes[items]
            found = self._lowest(times, sizes)
            self._offsets[items] = found
            self._top = max(self._top, int((found + sizes).max()))
            ends = self._rounded(found + sizes)
            pairs = zip(found.tolist(), ends.tolist(), strict=True)
            self._interval[here] = [self._number(pair) for pair in pairs]

    def _number(self, pair: tuple[int, int]) -> int:
        known = self._numbers.get(pair)
        if known is None:
            known = self._numbers[pair] = len(self._numbers)
            if known == len(self._lows):
                self._lows = np.concatenate([self._lows, np.full(known, _ENDLESS)])
                self._highs = np.concatenate([self._highs, np.zeros(known, np.int64)])
            self._lows[known], self._highs[known] = pair
        return known

    def _lowest(self, times: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """The lowest free offset for items that are each alive at one firing, in ascending order of time."""
        count = self._count
        there = np.flatnonzero((self._born[:count] <= times[-1]) & (self._gone[:count] > times[0]))
        born, gone = self._born[there], self._gone[there]
        lows, highs = self._low[there], self._high[there]
        if self._crowded:
            a, b = np.searchsorted(self._times, [times[0], times[-1] + 1])
            others = np.flatnonzero(self._interval[a:b]) + a
            numbers, at = self._interval[others], self._times[others]
            born, gone = np.concatenate([born, at]), np.concatenate([gone, at + 1])
            lows = np.concatenate([lows, self._lows[numbers]])
            highs = np.concatenate([highs, self._highs[numbers]])
        order = np.argsort(lows, kind="stable")
        alive = (born[order, None] <= times) & (times < gone[order, None])
        gaps = np.zeros((len(order) + 1, len(times)), np.int64)
        np.multiply(alive, highs[order, None], out=gaps[1:])
        np.maximum.accumulate(gaps, axis=0, out=gaps)
        fits = np.ones(gaps.shape, bool)
        fits[:-1] = alive & (lows[order, None] - gaps[:-1] >= sizes)
        return gaps[fits.argmax(axis=0), np.arange(len(times))]


def fit_few(
    items: Items, groups: Groups, order: Sequence[int], most: float
) -> tuple[np.ndarray, int] | None:
    """The same as `Arena.fit`, faster for few items."""
    step, top = items.alignment, 0
    found = np.where(items.fixed == FREE, 0, items.fixed).tolist()
    sizes, born, gone = items.sizes.tolist(), items.born.tolist(), items.gone.tolist()
    kept = np.flatnonzero((items.fixed != FREE) & (items.sizes > 0)).tolist()
    here = sorted(
        (found[i], -(-(found[i] + sizes[i]) // step) * step, born[i], gone[i]) for i in kept
    )
    for group in order:
        for i in groups.members[group].tolist():
            size, start, end, at = sizes[i], born[i], gone[i], 0
            for low, high, first, last in here:
                if first < end and start < last:
                    if at + size <= low:
                        break
                    if high > at:
                        at = high
            found[i] = at
            top = max(top, at + size)
            if top > most:
                return None
            insort(here, (at, -(-(at + size) // step) * step, start, end))
    return np.array(found, np.int64), top
