"""How does a packing get smaller? Lower the ceiling, remove the items above it, and place them again.

Under a ceiling, an item that fits no gap is placed where it displaces the least weight, and the displaced items are placed
next, until all items are below the ceiling or the steps are used up. The weight of an item grows each time it is
displaced, so that the search leaves local minima (breakout local search, as in Morris: The breakout method for escaping
from local minima, 1993).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import inf
from typing import Any

import numpy as np

from csdfgen.planning.packing.items import FREE, Items

_REMEMBERED = 4_000_000
"""Most stored pairs of items alive together, 8 bytes each, as numpy takes indices fastest; others are computed again."""
_STEPS, _STEPS_EACH = 400, 30
"""Steps under one ceiling: a constant, and more for each item above it."""
_PARTS = (4, 16, 64)
"""The ceiling is lowered by this fraction of the distance to the bound; by the next one if that fails."""
_ASKED = 64
"""Steps between two calls of `stop`."""
_FEW = 48
"""Up to so many items are placed in plain lists, which takes less time and gives the same offsets."""
_AT_A_TIME = 1 << 13
"""Random numbers that are drawn at a time."""
_BITS = 62
"""Bits of keys: the offset of an item and its number."""
_UNPLACED = np.array(1 << _BITS)
"""The key of an item without an offset, above all others."""


def repair(
    items: Items,
    offsets: np.ndarray,
    aim: int,
    *,
    enough: int,
    steps: Sequence[int],
    patience: int,
    stop: Callable[[], bool],
) -> Iterator[np.ndarray]:
    """Offsets with at most the bytes of the given ones, after each of these numbers of steps and at the end of the search.

    Ceilings are lowered towards `aim` bytes. The search ends at `enough` bytes, after the last number of steps, after
    `patience` failed ceilings in a row, or once `stop()` is true. Arenas whose offsets and numbers of items do not fit
    62 bits together (4 TiB of a million items) stay as they are.
    """
    search = (_Search if len(items) > _FEW else _FewSearch)(items, stop, steps)
    if int((offsets + items.sizes).max()).bit_length() + search.bits > _BITS:
        return iter([offsets])
    return search.run(offsets, aim, enough, patience)


class _Search:
    """The state of a search: the items alive together, weights, and the steps that are left.

    Items are numbered from 1 on; number 0 is the bottom of the arena, alive with all others, of no bytes and weight. A
    key is the offset of an item and its number in one integer, so that sorted keys are items from the lowest to the
    highest, those of equal offsets by number.
    """

    _lists = False  # whether offsets, keys and weights are in lists

    def __init__(self, items: Items, stop: Callable[[], bool], steps: Sequence[int]) -> None:
        self._random, self._stop = np.random.default_rng(0), stop
        self._numbers = self._factors = np.zeros(0)
        self._drawn = 0
        self._made, self._limits = 0, [*steps]
        self._items, self._step = items, items.alignment
        self.bits = len(items).bit_length()
        self._mask = np.array((1 << self.bits) - 1)
        self._each = np.append(0, items.sizes)
        self._sizes = self._each.tolist()
        self._whole = -(-self._each // self._step) * self._step
        self._fixed = np.append(False, items.fixed != FREE)
        self._some_fixed = bool(self._fixed.any())
        self._aligned = not (items.fixed[self._fixed[1:]] % self._step).any()
        self._movable = ~self._fixed & (self._each > 0)
        self._rivals: list[np.ndarray | None] = [None] * len(self._each)
        self._remembered = 0

    def run(self, best: np.ndarray, aim: int, enough: int, patience: int) -> Iterator[np.ndarray]:
        """The best offsets, after each number of steps and at the end."""
        area = self._items.sizes.astype(float) * self._items.spans
        turn, failed, total = 0, 0, self._top(best)
        while total > enough and failed < patience and not self._stop():
            part = _PARTS[turn % len(_PARTS)]
            step = max(self._step, (total - aim) // part // self._step * self._step)
            weights = area ** (0.5 if turn // len(_PARTS) % 2 == 0 else 1.0)
            drawn = self._draw(len(weights))
            weights *= 1 + 0.5 * self._numbers[drawn]
            found = yield from self._under(max(aim, total - step), best, np.append(0.0, weights))
            if not self._limits:
                return
            if found is None:
                turn, failed = turn + 1, failed + 1
            else:
                best, total, failed = found, self._top(found), 0
        yield best

    def _draw(self, count: int) -> slice:
        """Where the next random numbers are, which are drawn many at a time."""
        if self._drawn + count > len(self._numbers):
            more = self._random.random(max(count, _AT_A_TIME))
            self._numbers = np.append(self._numbers[self._drawn :], more)
            self._factors = 1 + 0.1 * self._numbers
            self._drawn = 0
        self._drawn += count
        return slice(self._drawn - count, self._drawn)

    def _top(self, offsets: np.ndarray) -> int:
        ends = offsets + self._items.sizes
        return int(ends[self._items.sizes > 0].max(initial=0))

    def _under(
        self, ceiling: int, start: np.ndarray, weights: np.ndarray
    ) -> Generator[np.ndarray, None, np.ndarray | None]:
        """Offsets with all items under a ceiling; None if not found. Yields the offsets at the start when a number of steps
        is reached.
        """
        at: Any = np.append(0, start)
        keys: Any = at << self.bits | np.arange(len(at))  # of items with an offset
        first = (-weights).tolist()  # heavy items are placed first
        above = np.flatnonzero((at + self._each > ceiling) & self._movable)
        keys[above] = _UNPLACED
        if self._lists:
            at, keys, weights = at.tolist(), keys.tolist(), weights.tolist()
        out = [(first[item], item) for item in above.tolist()]
        heapify(out)
        tries = _STEPS + _STEPS_EACH * len(out)
        while out:
            if not tries or (tries % _ASKED == 0 and self._stop()):
                return None
            if self._made >= self._limits[0]:
                self._limits.pop(0)
                yield start
                if not self._limits:
                    return None
            tries, self._made = tries - 1, self._made + 1
            _, item = heappop(out)
            offset, displaced = self._place(item, ceiling, at, keys, weights)
            if offset is None:
                return None
            at[item], keys[item] = offset, offset << self.bits | item
            for other in displaced:
                keys[other] = 1 << _BITS
                weights[other] *= 1.3
                heappush(out, (first[other], other))
        return np.array(at[1:])

    def _place(
        self, item: int, ceiling: int, at: Any, keys: Any, weights: Any
    ) -> tuple[int | None, list[int]]:
        """(offset of an item, items that it displaces): by first fit, otherwise where it displaces the least weight."""
        # arrays of no dimension, as numpy takes twice as long for a number
        size, whole, step = self._each[item, ...], self._whole[item, ...], self._step
        found = keys[self._alive_with(item)]
        found.sort()
        others = found[: found.searchsorted(_UNPLACED)] & self._mask
        low = at[others]
        if self._aligned:
            high, under = low + self._whole[others], low - whole
        else:
            high = -(-(low + self._each[others]) // step) * step
            under = (low - size) // step * step
        count, most = len(others), ceiling - self._sizes[item]
        gaps = np.maximum.accumulate(high)
        room = np.empty(count, np.int64)
        np.subtract(low[1:], gaps[:-1], out=room[:-1])
        room[-1] = ceiling - gaps[-1]
        fits = room >= size
        gap = fits.argmax()
        if fits[gap]:
            return int(gaps[gap]), []
        if most < 0:
            return None, []
        # candidates: at both ends, above an item, below an item
        places = np.empty(2 * count, np.int64)
        places[0], places[1] = 0, most // step * step
        places[2 : count + 1] = high[1:]
        places[count + 1 :] = under[1:]
        # negative ones are above all others
        places = places[places.view(np.uint64) <= np.array(most, np.uint64)]
        by_end = high.argsort(kind="stable")
        below = low[1:].searchsorted(places + size)
        over = high[by_end][1:].searchsorted(places, side="right")
        weight = weights[others]
        cost = np.add.accumulate(weight)[below]
        cost -= np.add.accumulate(weight[by_end])[over]
        drawn = self._draw(len(cost))
        cost *= self._factors[drawn]
        if self._some_fixed:
            fixed = self._fixed[others]
            cost[_counted(fixed)[below] > _counted(fixed[by_end])[over]] = np.inf
        best = cost.argmin()
        if cost[best] == np.inf:
            return None, []
        offset, end = places[best, ...], below[best] + 1
        return int(offset), others[:end][high[:end] > offset].tolist()

    def _alive_with(self, item: int) -> np.ndarray:
        """The bottom of the arena, and the items that are alive together with an item."""
        known = self._rivals[item]
        if known is None:
            born, gone = self._items.born, self._items.gone
            here = (born < gone[item - 1]) & (gone > born[item - 1]) & (self._items.sizes > 0)
            here[item - 1] = False
            known = np.append(0, np.flatnonzero(here) + 1)
            if self._remembered + len(known) <= _REMEMBERED:
                self._rivals[item] = known
                self._remembered += len(known)
        return known


class _FewSearch(_Search):
    """The same search in lists."""

    _lists = True

    def __init__(self, items: Items, stop: Callable[[], bool], steps: Sequence[int]) -> None:
        super().__init__(items, stop, steps)
        self._wholes, self._kept = self._whole.tolist(), self._fixed.tolist()
        each = range(1, len(self._sizes))
        self._together = [[0], *(self._alive_with(item)[1:].tolist() for item in each)]

    def _place(
        self, item: int, ceiling: int, at: Any, keys: Any, weights: Any
    ) -> tuple[int | None, list[int]]:
        size, step, sizes = self._sizes[item], self._step, self._sizes
        found = sorted([keys[other] for other in self._together[item]])
        mask, top, low, high = (1 << self.bits) - 1, 0, list[int](), list[int]()
        others = [key & mask for key in found if key < 1 << _BITS]
        for other in others:
            start = at[other]
            if start - top >= size:
                return top, []
            end = -(-(start + sizes[other]) // step) * step
            low.append(start)
            high.append(end)
            if end > top:
                top = end
        if ceiling - top >= size:
            return top, []
        most = ceiling - size
        whole = self._wholes[item]
        under = [start - whole if self._aligned else (start - size) // step * step for start in low]
        places = [place for place in (0, most // step * step, *high, *under) if 0 <= place <= most]
        if not places:
            return None, []
        by_end = sorted(range(len(high)), key=high.__getitem__)
        ends = [high[k] for k in by_end]
        weight = [weights[other] for other in others]
        begun = [0.0, *accumulate(weight)]
        gone = [0.0, *accumulate(weight[k] for k in by_end)]
        fixed = [self._kept[other] for other in others]
        stays, left = [0, *accumulate(fixed)], [0, *accumulate(fixed[k] for k in by_end)]
        best, least = 0, inf
        drawn = self._draw(len(places))
        for place, factor in zip(places, self._factors[drawn].tolist(), strict=True):
            first, last = bisect_left(low, place + size), bisect_right(ends, place)
            if stays[first] <= left[last]:
                cost = (begun[first] - gone[last]) * factor
                if cost < least:
                    best, least = place, cost
        if least == inf:
            return None, []
        reach = best + size
        return best, [
            other
            for other, start, end in zip(others, low, high, strict=True)
            if start < reach and end > best
        ]


def _counted(fixed: np.ndarray) -> np.ndarray:
    """The number of fixed items among the first k, for every k."""
    return np.add.accumulate(fixed, dtype=np.int64)
