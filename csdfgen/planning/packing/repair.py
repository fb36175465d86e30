"""How does a packing get smaller? Lower the ceiling, remove the items above it, and place them again.

Under a ceiling, an item that fits no gap is placed where it displaces the least weight, and the displaced items are placed
next, until all items are below the ceiling or the steps are used up. The weight of an item grows each time it is
displaced, so that the search leaves local minima (breakout local search, as in Morris: The breakout method for escaping
from local minima, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from csdfgen.planning.packing.items import FREE, Items

__all__ = ["repair"]

_REMEMBERED = 4_000_000
"""Most stored pairs of items alive together, 8 bytes each, as numpy takes indices fastest; others are computed again."""
_STEPS, _STEPS_EACH = 400, 30
"""Steps under one ceiling: a constant, and more for each item above it."""
_PARTS = (4, 16, 64)
"""The ceiling is lowered by this fraction of the distance to the bound; by the next one if that fails."""
_ASKED = 64
"""Steps between two calls of `stop`."""


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
    `patience` failed ceilings in a row, or once `stop()` is true.
    """
    return _Search(items, stop, steps).run(offsets, aim, enough, patience)


class _Search:
    """The state of a search: the items alive together, weights, and the steps that are left."""

    def __init__(self, items: Items, stop: Callable[[], bool], steps: Sequence[int]) -> None:
        self._random, self._stop = np.random.default_rng(0), stop
        self._made, self._limits = 0, [*steps]
        self._items, self._step = items, items.alignment
        self._whole = -(-items.sizes // self._step) * self._step
        self._fixed = items.fixed != FREE
        self._some_fixed = bool(self._fixed.any())
        self._aligned = not (items.fixed[self._fixed] % self._step).any()
        self._sizes = items.sizes.tolist()
        self._movable = ~self._fixed & (items.sizes > 0)
        self._rivals: list[np.ndarray | None] = [None] * len(items)
        self._remembered = 0

    def run(self, best: np.ndarray, aim: int, enough: int, patience: int) -> Iterator[np.ndarray]:
        """The best offsets, after each number of steps and at the end."""
        area = self._items.sizes.astype(float) * self._items.spans
        turn, failed, total = 0, 0, self._top(best)
        while total > enough and failed < patience and not self._stop():
            part = _PARTS[turn % len(_PARTS)]
            step = max(self._step, (total - aim) // part // self._step * self._step)
            weights = area ** (0.5 if turn // len(_PARTS) % 2 == 0 else 1.0)
            weights *= 1 + 0.5 * self._random.random(len(weights))
            found = yield from self._under(max(aim, total - step), best, weights)
            if not self._limits:
                return
            if found is None:
                turn, failed = turn + 1, failed + 1
            else:
                best, total, failed = found, self._top(found), 0
        yield best

    def _top(self, offsets: np.ndarray) -> int:
        ends = offsets + self._items.sizes
        return int(ends[self._items.sizes > 0].max(initial=0))

    def _under(
        self, ceiling: int, start: np.ndarray, weights: np.ndarray
    ) -> Generator[np.ndarray, None, np.ndarray | None]:
        """Offsets with all items under a ceiling; None if not found. Yields the offsets at the start when a number of steps
        is reached.
        """
        at = start.copy()
        placed = (at + self._items.sizes <= ceiling) | ~self._movable
        first = weights.copy()  # heavy items are placed first
        out = [(-first[i], i) for i in np.flatnonzero(~placed).tolist()]
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
            _, i = heappop(out)
            offset, displaced = self._place(i, ceiling, at, placed, weights)
            if offset is None:
                return None
            at[i], placed[i] = offset, True
            if len(displaced):
                placed[displaced] = False
                weights[displaced] *= 1.3
                for j in displaced.tolist():
                    heappush(out, (-first[j], j))
        return at

    def _place(
        self, i: int, ceiling: int, at: np.ndarray, placed: np.ndarray, weights: np.ndarray
    ) -> tuple[int | None, np.ndarray]:
        """(offset of an item, items that it displaces): by first fit, otherwise where it displaces the least weight."""
        size, step = self._sizes[i], self._step
        others = self._alive_with(i)
        others = others[placed[others]]
        low = at[others]
        order = low.argsort(kind="stable")
        others, low = others[order], low[order]
        if self._aligned:
            high, under = low + self._whole[others], low - self._whole[i]
        else:
            high = -(-(low + self._items.sizes[others]) // step) * step
            under = (low - size) // step * step
        count = len(others)
        gaps = np.zeros(count + 1, np.int64)
        np.maximum.accumulate(high, out=gaps[1:])
        room = np.empty(count + 1, np.int64)
        np.subtract(low, gaps[:-1], out=room[:-1])
        room[count] = ceiling - gaps[count]
        gap = int((room >= size).argmax())
        if room[gap] >= size:
            return int(gaps[gap]), others[:0]
        # candidates: above an item, below an item, at both ends
        places = np.empty(2 * count + 2, np.int64)
        places[0], places[1] = 0, (ceiling - size) // step * step
        places[2 : count + 2] = high
        places[count + 2 :] = under
        places = places[(places >= 0) & (places <= ceiling - size)]
        if not len(places):
            return None, others
        below = low.searchsorted(places + size)
        by_end = high.argsort(kind="stable")
        over = high[by_end].searchsorted(places, side="right")
        weight = weights[others]
        cost = _sums(weight)[below] - _sums(weight[by_end])[over]
        cost *= 1 + 0.1 * self._random.random(len(cost))
        if self._some_fixed:
            fixed = self._fixed[others]
            cost[_sums(fixed)[below] > _sums(fixed[by_end])[over]] = np.inf
        best = int(cost.argmin())
        if cost[best] == np.inf:
            return None, others
        offset = int(places[best])
        return offset, others[(low < offset + size) & (high > offset)]

    def _alive_with(self, i: int) -> np.ndarray:
        """The items that are alive together with an item."""
        known = self._rivals[i]
        if known is None:
            born, gone = self._items.born, self._items.gone
            here = (born < gone[i]) & (gone > born[i]) & (self._items.sizes > 0)
            here[i] = False
            known = np.flatnonzero(here)
            if self._remembered + len(known) <= _REMEMBERED:
                self._rivals[i] = known
                self._remembered += len(known)
        return known


def _sums(values: np.ndarray) -> np.ndarray:
    """Sums of the first k values, for every k."""
    found = np.zeros(len(values) + 1)
    np.add.accumulate(values, out=found[1:])
    return found
