"""At which offsets are the rows of a period that repeats, so that they repeat as well?

Rows of m periods lie on a circle, m so that every row is gone before its place is claimed again; buffers whose rows live
long may take a ring of their own instead. The circle is cut where the fewest bytes are alive: what crosses the cut is
stacked from 0 on, or is where a packing of some turns had it, and the rest is packed above and around it like any plan. Of
few rows, offsets are also found by placing one row after the other until the places repeat: rows of one size that are
handed on from layer to layer need no more bytes than are alive, but return to their places after tens of periods.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from csdfgen.planning.packing import Items, pack
from csdfgen.planning.packing.items import FREE
from csdfgen.planning.stream_checker import MOST_ROWS

Tables = dict[str, tuple[int, dict[int, int]]]
"""Buffer or workspace -> (rows after which its offsets repeat, offset of each block by its first row)."""

_MOST = 6_000
"""Items of a circle at most."""

_FEW = 800
"""Items of a circle up to which circles of more periods than needed are tried, too."""

_TRIED = 3_000
"""Items of all circles that are tried."""

_SEARCHED = 6_000
"""Items of the circles that are searched for fewer bytes, but for the first of them."""

_WORSE = 1.03
"""Ways are not tried whose bound is as many times the least bound."""

_SMALL = 300
"""Items of a circle that is searched for longer."""

_NEAR = 200
"""A circle within this fraction (1/200) of what is alive is not improved."""

_RINGED = 12
"""Buffers that take a ring of their own at most, unless all of those that live as long do."""

_FIRINGS = 24_000
"""Firings of the periods after which all offsets repeat, but for rings of rows that live longer."""

_MULTIPLES = 64
"""Multiples of a circle's periods after which rings may repeat."""

_PRICE = 2_400_000
"""Firings after which offsets repeat that are worth as much as all bytes."""

_FOLLOWED = 64, 400
"""Blocks of a period, and periods, for which rows are placed one after the other."""


@dataclass(frozen=True, eq=False)
class Part:
    """Blocks of a buffer, or scratch of an actor, that are claimed in one period: rows of it in a period, first row, bytes, and
    firings [born, gone) of each. length: firings of a period.
    """

    name: str
    rows: int
    row_bytes: int
    start: np.ndarray
    size: np.ndarray
    born: np.ndarray
    gone: np.ndarray
    length: int

    @property
    def life(self) -> int:
        """Firings that the longest-lived of them lives."""
        return int((self.gone - self.born).max())

    @cached_property
    def capacity(self) -> int:
        """Most rows from the lowest that is needed to the highest that is claimed."""
        periods = np.arange(2 + self.life // self.length)[:, None]
        born, gone = ((one + periods * self.length).ravel() for one in (self.born, self.gone))
        starts = (self.start + periods * self.rows).ravel()
        low = starts[np.searchsorted(gone, born, side="right")]
        return int((np.append(starts[1:], starts[0] + len(periods) * self.rows) - low).max())

    @cached_property
    def _height(self) -> int:
        """Rows of a block, so that no block is divided."""
        steps = np.diff(np.append(self.start, self.start[0] + self.rows))
        return int(np.gcd.reduce(steps)) if len(set(steps.tolist())) == 1 else self.rows

    def ring(self, turns: int) -> int:
        """Rows of a ring that holds all rows that are alive together and that divides those of so many periods."""
        height = self._height
        blocks = turns * self.rows // height
        least = -(-self.capacity // height)
        return height * next(n for n in range(least, blocks + 1) if blocks % n == 0)


def find_least_bytes(parts: Sequence[Part], alignment: int) -> int:
    """Most bytes that are alive at a time: a bound of all placements."""
    length = parts[0].length
    whole, born, life = _joined(parts, alignment)
    change = np.zeros(length + 1, np.int64)
    _add_alive(change, whole, born % length, life % length)
    return int((whole * (life // length)).sum() + np.cumsum(change)[:-1].max())


def _joined(
    parts: Sequence[Part], alignment: int, turns: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(bytes, birth, life) of all blocks that are claimed in so many periods, those of a part together."""
    each = [(one, turn * one.length) for one in parts for turn in range(turns)]
    size = np.concatenate([one.size for one, _ in each])
    born = np.concatenate([one.born + shift for one, shift in each])
    life = np.concatenate([one.gone - one.born for one, _ in each])
    return -(-size // alignment) * alignment, born, life


def _add_alive(change: np.ndarray, whole: np.ndarray, born: np.ndarray, life: np.ndarray) -> None:
    """Add what is claimed and released at each firing of a circle, which starts with what crosses its end."""
    around = len(change) - 1
    wraps = born + life > around
    np.add.at(change, born, whole)
    np.subtract.at(change, np.where(wraps, born + life - around, born + life), whole)
    change[0] += whole[wraps].sum()


def place_parts(
    parts: Sequence[Part], alignment: int, effort: str | float
) -> tuple[int, Tables] | None:
    """(bytes, offsets) of the fewest bytes that are found; None if rows of too many firings are alive together."""
    ways = list(_list_ways(parts, alignment))
    least = min((one.least for one in ways), default=0)
    ways = [one for one in ways if one.least < _WORSE * least]
    found, left = list[tuple[float, _Way, int, Tables]](), _TRIED
    rings = list_rings(parts, alignment)
    most = rings.place(0)[0]

    def keep(way: _Way, effort: str | float) -> None:
        total, tables = way.place(effort)
        price = 1 + way.all_turns * parts[0].length / _PRICE
        found.append((total * price if total <= most else inf, way, total, tables))
        found.sort(key=lambda one: one[0])

    def is_better(way: _Way) -> bool:
        """Whether it may take fewer bytes than what was found, by more than is worth a search."""
        return not found or way.least * (1 + 1 / _NEAR) < found[0][0]

    for way in sorted(ways, key=lambda one: (one.followed is None, one.extra, one.items)):
        above = not found or found[0][2] > rings.least
        if (left > 0 or above) and is_better(way):
            left -= way.items
            keep(way, 0)
    if not found:
        return None
    keep(rings, 0)
    freest = min((one[1] for one in found), key=lambda one: (one.least, one.items))
    first = found[0][1]
    left = _SEARCHED
    for way in dict.fromkeys((first, freest, *(one[1] for one in found))):
        if effort == 0 or way.followed is not None or not is_better(way):
            continue
        far = 50 * found[0][0] > 51 * way.least
        if way is first or (far and way.items < left // 2):
            keep(way, effort)
            left -= max(way.items, _SEARCHED // 5)
    small = next((one for one in found if one[1].items <= _SMALL and one[1].followed is None), None)
    if effort == "low" and small and 1.01 < small[2] / small[1].least < 1.03:
        keep(small[1], "normal")
    return found[0][2:]


@dataclass(frozen=True, eq=False)
class _Way:
    """A way to place the parts: some in rings, the others on a circle of `turns` periods, `extra` more than needed. least: bound
    of its bytes. followed: (bytes, offsets) of the others, if they were found one after the other.
    """

    ringed: tuple[Part, ...]
    rest: tuple[Part, ...]
    turns: int
    extra: int
    alignment: int
    least: int
    followed: tuple[int, list[dict[int, int]]] | None = None

    @property
    def items(self) -> int:
        return self.turns * sum(len(one.size) for one in self.rest)

    @cached_property
    def all_turns(self) -> int:
        """The multiple of the circle's periods after which rings take the fewest bytes if they repeat; few, as each is a
        program.
        """
        if not self.ringed:
            return self.turns
        length = self.ringed[0].length
        holding = -(-max(one.life for one in self.ringed) // (self.turns * length))
        rows = max(one.rows for one in self.ringed)
        most = max(holding, min(_MULTIPLES, _most_turns(rows, length) // self.turns))

        def price(periods: int) -> float:
            rings = sum(one.ring(periods) * one.row_bytes for one in self.ringed)
            return rings * (1 + periods * length / _PRICE)

        return min(range(self.turns * holding, self.turns * most + 1, self.turns), key=price)

    @cached_property
    def _circle(self) -> _Circle:
        return _Circle(self.rest, self.turns, self.alignment)

    def place(self, effort: str | float) -> tuple[int, Tables]:
        """(bytes, tables), rings first."""
        at, tables = 0, Tables()
        for one in self.ringed:
            rows = one.ring(self.all_turns)
            tables[one.name] = rows, {0: at}
            at += -(-rows * one.row_bytes // self.alignment) * self.alignment
        if not self.rest:
            return at, tables
        total, found = self.followed or self._pack(effort)
        for one, table in zip(self.rest, found, strict=True):
            tables[one.name] = self.turns * one.rows, {r: at + x for r, x in table.items()}
        return at + total, tables

    def _pack(self, effort: str | float) -> tuple[int, list[dict[int, int]]]:
        """(bytes, for each part the offset of the blocks by their first rows modulo the periods) of the circle."""
        total, offsets = self._circle.packed(effort)
        tables, turns = [], np.arange(self.turns)[:, None]
        for one in self.rest:
            rows = (one.start + turns * one.rows).ravel() % (self.turns * one.rows)
            own, offsets = offsets[: len(rows)], offsets[len(rows) :]
            tables.append(dict(zip(rows.tolist(), own.tolist(), strict=True)))
        return total, tables


def _list_ways(parts: Sequence[Part], alignment: int) -> Iterator[_Way]:
    """The ways that are tried: rings for none, or for those that live longest."""
    lives = sorted({one.life for one in parts if one.row_bytes > 1}, reverse=True)
    for limit in (*lives, 0):
        way = _divide(parts, limit, alignment)
        ringed, rest, needed, least = way.ringed, way.rest, way.turns, way.least
        count = sum(len(one.size) for one in rest)
        most = _most_turns(sum(one.rows for one in rest), parts[0].length)
        for turns in range(needed, min(most, 3 * needed + 4) + 1):
            if turns * count <= (_MOST if turns == needed else _FEW):
                yield replace(way, turns=turns, extra=turns - needed)
        found = _follow(rest, alignment) if 0 < count <= _FOLLOWED[0] else None
        if found is not None and found[0] <= most:
            yield _Way(ringed, rest, found[0], 0, alignment, least, found[1:])
        if len(ringed) >= _RINGED:
            break


def _most_turns(rows: int, length: int) -> int:
    """Periods, of so many rows that are checked together and so many firings, after which offsets may repeat at most."""
    return min(_FIRINGS // length, MOST_ROWS // max(1, rows))


def list_rings(parts: Sequence[Part], alignment: int) -> _Way:
    """A ring for each buffer, of as many rows as repeat with the others. least: of rings of as few rows as are needed."""
    return _divide(parts, 0, alignment)


def _divide(parts: Sequence[Part], limit: int, alignment: int) -> _Way:
    """Rings for rows that live longer than so many firings; the rest on a circle of as few periods as are needed."""
    ringed = tuple(one for one in parts if one.row_bytes > 1 and one.life > limit)
    rest = tuple(one for one in parts if one.row_bytes == 1 or one.life <= limit)
    least = sum(-(-one.capacity * one.row_bytes // alignment) * alignment for one in ringed)
    least += find_least_bytes(rest, alignment) if rest else 0
    needed = -(-max((one.life for one in rest), default=1) // parts[0].length)
    return _Way(ringed, rest, needed, 0, alignment, least)


def _follow(parts: Sequence[Part], alignment: int) -> tuple[int, int, list[dict[int, int]]] | None:
    """(periods after which places repeat, bytes, offsets of the blocks by their first rows) if one block after the other is
    placed as low as possible; None if they do not repeat.
    """
    length = parts[0].length
    births = sorted(
        (born % length, -life, -size, born // length, k, start)
        for k, one in enumerate(parts)
        for size, born, life, start in zip(
            *(a.tolist() for a in _blocks(one, alignment)), strict=True
        )
    )
    taken: list[tuple[int, int, int, int, int]] = []
    seen: dict[tuple[tuple[int, ...], ...], int] = {}
    made: list[list[tuple[int, int, int]]] = []
    for period in range(_FOLLOWED[1]):
        now = period * length
        state = tuple(
            (low, high, gone - now, *own) for low, high, gone, *own in taken if gone > now
        )
        if state in seen:
            turns = period - seen[state]
            return _repeat(parts, turns, alignment, made[seen[state] :])
        seen[state] = period
        made.append([])
        for at, life, size, back, k, start in births:
            taken = [one for one in taken if one[2] > now + at]
            low = 0
            for other, high, *_ in taken:
                if other - low >= -size:
                    break
                low = max(low, high)
            insort(taken, (low, low - size, now + at - life, k, start))
            made[-1].append((k, start + (period - back) * parts[k].rows, low))
    return None


def _blocks(one: Part, alignment: int) -> tuple[np.ndarray, ...]:
    whole, born, life = _joined([one], alignment)
    return whole, born, life, one.start


def _repeat(
    parts: Sequence[Part], turns: int, alignment: int, made: list[list[tuple[int, int, int]]]
) -> tuple[int, int, list[dict[int, int]]]:
    """What `_follow` gives of the periods in which places were taken that repeat."""
    tables: list[dict[int, int]] = [{} for _ in parts]
    for k, row, low in (one for period in made for one in period):
        tables[k][row % (turns * parts[k].rows)] = low
    highest = [
        max(table.values()) + int(one.size.max()) for one, table in zip(parts, tables, strict=True)
    ]
    return turns, -(-max(highest) // alignment) * alignment, tables


class _Circle:
    """Items that are alive in [born, gone) of a circle, which is cut where the fewest bytes are alive. most: bytes that are
    alive at most. cross, rest: the items that cross the cut, and the others.
    """

    def __init__(self, parts: Sequence[Part], turns: int, alignment: int) -> None:
        self.alignment, self.around = alignment, turns * parts[0].length
        self.whole, born, life = _joined(parts, alignment, turns)
        change = np.zeros(self.around + 1, np.int64)
        _add_alive(change, self.whole, born % self.around, life)
        live = np.cumsum(change[:-1])
        self.most = int(live.max())
        self.born = (born - int(np.argmin(live))) % self.around
        self.gone = self.born + life
        self.cross = np.flatnonzero(self.gone > self.around)
        self.rest = np.flatnonzero(self.gone <= self.around)
        self._found = [self._stack()]

    def packed(self, effort: str | float) -> tuple[int, np.ndarray]:
        """(bytes, offsets); searched again from the best."""
        starts = [min(self._found, key=lambda one: one[0])[2]] if effort != 0 else []
        if len(self._found) == 1 and len(self.whole) <= _FEW:
            starts += [self._find_crossing(effort) for _ in starts]
        self._found += [self._pack(one, effort) for one in starts]
        return min(self._found, key=lambda one: one[0])[:2]

    def _pack(self, fixed: np.ndarray, effort: str | float) -> tuple[int, np.ndarray, np.ndarray]:
        """(bytes, offsets, fixed), with fixed offsets of what crosses."""
        cross, rest, whole = self.cross, self.rest, self.whole
        gone, end = self.gone[cross] - self.around, np.full_like(cross, self.around)
        items = Items(
            np.concatenate([whole[cross], whole[cross], whole[rest]]),
            np.concatenate([self.born[cross], np.zeros_like(cross), self.born[rest]]),
            np.concatenate([end, gone, self.gone[rest]]),
            self.alignment,
            fixed=np.concatenate([fixed, fixed, np.full(len(rest), FREE)]),
        )
        packed = pack(items, effort=effort, limit=self.most // _NEAR * (_NEAR + 1))
        offsets = np.empty_like(whole)
        offsets[cross], offsets[rest] = fixed, packed.offsets[2 * len(cross) :]
        return packed.total, offsets, fixed

    def _stack(self) -> tuple[int, np.ndarray, np.ndarray]:
        """The best without a search, with what crosses stacked from 0 on."""
        found, cross = [], self.cross
        life = self.gone[cross] - self.born[cross]
        for key in (-life, self.born[cross], -self.gone[cross])[: 3 if len(cross) else 1]:
            order = np.lexsort((-self.whole[cross], key))
            ends = np.cumsum(self.whole[cross][order])
            fixed = np.empty_like(ends)
            fixed[order] = ends - self.whole[cross][order]
            found.append(self._pack(fixed, 0))
        return min(found, key=lambda one: one[0])

    def _find_crossing(self, effort: str | float) -> np.ndarray:
        """Offsets of the items that cross, in the middle of a packing of what is alive half a turn or a life before and behind
        the cut.
        """
        around, count = self.around, len(self.whole)
        reach = max(int((self.gone - self.born).max()), around // 2)
        shift = np.repeat(np.arange(-2, 2) * around, count)
        born, gone = np.tile(self.born, 4) + shift, np.tile(self.gone, 4) + shift
        near = (gone > -reach) & (born < reach)
        born, gone, number = born[near], gone[near], np.tile(np.arange(count), 4)[near]
        first = int(born.min())
        items = Items(self.whole[number], born - first, gone - first, self.alignment)
        packed, crossing = pack(items, effort=effort), (born < 0) & (gone > 0)
        offsets = np.zeros_like(self.whole)
        offsets[number[crossing]] = packed.offsets[crossing]
        return offsets[self.cross]
