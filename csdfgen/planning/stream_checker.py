"""Is an order that repeats sound in images of every height? A finite check, which shares no code with planning.

The order stands on a circle: the firing n of an actor that fires N times in a period of L firings is at place(n mod N) + L *
(n div N). An image has the firings that exist, so that its rows live no longer than those of an image without ends. So it
is enough that, in the middle of one image, actors fire as often as they use rows up, every row is written before it is read,
rows and their lifetimes repeat with the period, and that on the circle no byte belongs to two rows at a time
(docs/model.md). Buffers whose rows do not repeat are states or belong to actors that fire once, in front of all others, and
own their bytes all the time; or to actors that fire once, after all others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, lcm

import numpy as np

from csdfgen.errors import PlanError, ScheduleError
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.buffers import Buffer
from csdfgen.planning.checker import Use
from csdfgen.planning.plan import Plan

Table = tuple[int, Mapping[int, int]]
"""(rows after which offsets repeat, offset of each block by its first row)."""

MOST_ROWS = 200_000
"""Rows on a circle at most, in the periods after which all of its offsets repeat."""


@dataclass(frozen=True, eq=False)
class _Circling:
    """Rows of a buffer, or scratch of an actor, of which so many are claimed in a period.

    first, last: firings in which each of a period's is used. turn: periods after which offsets repeat. offsets: of the rows of a
    turn. sizes: bytes of a row.
    """

    name: str
    first: np.ndarray
    last: np.ndarray
    turn: int
    offsets: np.ndarray
    size: int

    @property
    def low(self) -> int:
        return int(self.offsets.min())

    @property
    def high(self) -> int:
        return int(self.offsets.max()) + self.size


def check_loop(
    draft: Plan, before: Mapping[str, int], word: tuple[str, ...], tables: Mapping[str, Table]
) -> None:
    """Check an order and offsets that repeat. draft: an image of at least some periods with its buffers, but without firings and
    places. Raises ScheduleError, CapacityExceededError or PlanError at the first fault.
    """
    order = _Order(draft, before, word)
    use = Use(draft, order.times)
    use.check_reads()
    use.check_same_rows()
    circling, lasting = [], list[tuple[str, bool, int, int]]()
    for buffer in draft.buffers:
        if buffer.name not in tables:
            raise PlanError(f"'{buffer.name}' has no offsets")
        table, actor = tables[buffer.name], buffer.writers[0].actor
        found = order.circling(buffer, use, table)
        if found is None:
            low = min(table[1].values())
            high = max(_offsets(table, buffer.rows, buffer.row_bytes)) + buffer.row_bytes
            lasting.append((buffer.name, actor in order.stay, low, high))
        else:
            circling.append(found)
    ends = [one.high for one in circling] + [high for *_, high in lasting]
    lows = [one.low for one in circling] + [low for _, _, low, _ in lasting]
    if min(lows) < 0 or max(ends) > draft.planned_bytes:
        raise PlanError(f"bytes {min(lows)} to {max(ends)} are used, of {draft.planned_bytes}")
    _check_lasting(circling, lasting)
    for group in _together(circling):
        _check_circle(group, len(word))


class _Order:
    """The order: firings of each actor in a period, and when each phase of the image fires."""

    def __init__(self, draft: Plan, before: Mapping[str, int], word: tuple[str, ...]) -> None:
        self.shares, self.length = Counter(word), len(word)
        self.works = draft.conversion.actor
        places = {name: np.flatnonzero(np.array(word) == name) for name in self.shares}
        self.times: dict[str, np.ndarray] = {}
        for name, share in self.shares.items():
            if name not in self.works or name not in before:
                raise ScheduleError(f"'{name}' is no actor that repeats")
            turn, at = np.divmod(np.arange(len(self.works[name].phases)) - before[name], share)
            self.times[name] = turn * self.length + places[name][at]
        end = 1 + max(int(one.max()) for one in self.times.values())
        self.stay = {*self.shares, *(name for name, count in before.items() if count > 0)}
        start = min(int(one.min()) for one in self.times.values()) - len(self.works)
        for k, work in enumerate(draft.conversion.actors):
            if work.name not in self.shares and len(work.phases) > 1:
                raise ScheduleError(
                    f"'{work.name}' fires {len(work.phases)} times, but in no period"
                )
            self.times.setdefault(
                work.name, np.array([(start if work.name in self.stay else end) + k])
            )
        self.rows = {
            write.tensor.name: self._rows(work, write.complete)
            for work in draft.conversion.actors
            for write in work.writes
        }
        for name in self.shares:
            self._check_shift(self.works[name])

    def _middle(self, work: ActorWork) -> int:
        """A phase in the middle that two periods follow."""
        count, share = len(work.phases), self.shares[work.name]
        if count < 3 * share:
            raise ScheduleError(f"'{work.name}' fires {share} times in a period, of {count} in all")
        return (count - 2 * share) // 2

    def _rows(self, work: ActorWork, done: tuple[int, ...]) -> int:
        """Rows in a period, of running counts by phases."""
        if work.name not in self.shares:
            return 0
        at, share = self._middle(work), self.shares[work.name]
        counts = np.array((0, *done))[at : at + 2 * share + 1]
        rows = int(counts[share] - counts[0])
        if (counts[share:] - counts[: share + 1] != rows).any():
            raise ScheduleError(f"'{work.name}' writes other rows in each period")
        return rows

    def _check_shift(self, work: ActorWork) -> None:
        """Check that an actor reads as many rows further in a period as are written in it."""
        at, share = self._middle(work), self.shares[work.name]
        for read in work.reads:
            part = [(rows.start, rows.stop) for rows in read.rows[at : at + 2 * share]]
            moved = np.diff(np.array(part).reshape(2, share, 2), axis=0)
            wanted = self.rows[read.tensor.name]
            if (moved != wanted).any():
                raise ScheduleError(
                    f"'{work.name}' moves by {moved.ravel()[0]} rows of '{read.tensor.name}' in a period, of which {wanted} "
                    "are written"
                )

    def circling(self, buffer: Buffer, use: Use, table: Table) -> _Circling | None:
        """The rows of a period; None for a buffer of which none are claimed in it."""
        writer = buffer.writers[0].actor
        scratch = buffer.kind == "workspace"
        if scratch or buffer.kind == "state":
            rows = self.shares.get(writer, 0) if scratch else 0
            first = last = self.times[writer]
        else:
            rows = self._rows(self.works[writer], buffer.writers[0].rows)
            first, last = use.held(buffer)
        if not rows:
            return None
        at = max(0, len(first) // rows // 2 - 1)
        some = slice(at * rows, (at + 2) * rows)
        for times in (first[some], last[some]):
            if len(times) < 2 * rows or (times[rows:] - times[:rows] != self.length).any():
                raise ScheduleError(f"rows of '{buffer.name}' do not live alike in each period")
        own = slice(at * rows, (at + 1) * rows)
        shift, turn = at * self.length, table[0] // gcd(table[0], rows)
        offsets = np.array(_offsets(table, turn * rows, buffer.row_bytes))
        return _Circling(
            buffer.name, first[own] - shift, last[own] - shift, turn, offsets, buffer.row_bytes
        )


def _offsets(table: Table, rows: int, row_bytes: int) -> list[int]:
    """The offsets of the first rows."""
    repeat, blocks = table
    starts = sorted(blocks)
    if not starts or starts[0] or repeat < 1 or rows > MOST_ROWS:
        raise PlanError(f"{rows} rows have offsets that repeat after {repeat}")
    found = []
    for row in range(rows):
        start = starts[bisect_left(starts, row % repeat + 1) - 1]
        found.append(blocks[start] + (row % repeat - start) * row_bytes)
    return found


def _check_lasting(circling: list[_Circling], lasting: list[tuple[str, bool, int, int]]) -> None:
    """Check that bytes of states are nobody else's, and those of what is computed at the end no other's that is."""
    for k, (name, stays, low, high) in enumerate(lasting):
        others = [(one, at, end) for one, _, at, end in lasting[:k]]
        if stays:
            others += [(one.name, one.low, one.high) for one in circling]
        for other, at, end in others:
            if at < high and low < end:
                raise PlanError(
                    f"bytes {low} to {high} are of '{name}', {at} to {end} of '{other}'"
                )


def _together(circling: list[_Circling]) -> Iterator[list[_Circling]]:
    """Groups between which no byte is shared at any time."""
    group: list[_Circling] = []
    for one in sorted(circling, key=lambda one: one.low):
        if group and one.low >= max(other.high for other in group):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _check_circle(group: list[_Circling], length: int) -> None:
    """Check that no byte belongs to two rows at a time, over the periods after which all offsets repeat."""
    turn = lcm(*(one.turn for one in group))
    around = turn * length
    if turn * sum(len(one.first) for one in group) > MOST_ROWS:
        raise PlanError(f"offsets of '{group[0].name}' and others repeat after {turn} periods")
    events = list[tuple[int, int, int]]()
    held = list[tuple[int, int, str]]()
    for one in group:
        periods = np.arange(turn)[:, None] * length
        first = (one.first + periods).ravel()
        last = (one.last + periods).ravel()
        if (last - first >= around).any():
            raise PlanError(
                f"rows of '{one.name}' live for longer than the {turn} periods of their offsets"
            )
        lows = np.tile(one.offsets, turn // one.turn)
        breaks = (np.diff(lows) != one.size) | (np.diff(first) != 0) | (np.diff(last) != 0)
        starts = np.flatnonzero(np.append(True, breaks))
        ends = np.append(starts[1:], len(lows)) - 1
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True):
            born, number = int(first[a]) % around, len(held)
            gone = born + int(last[a] - first[a]) + 1
            held.append((int(lows[a]), int(lows[b]) + one.size, one.name))
            events += [(born, 1, number), (gone, 0, number)]
            events += [(born + around, 1, number), (gone + around, 0, number)]
    taken: list[tuple[int, int, int]] = []
    for _, claimed, number in sorted(events):
        low, high, name = held[number]
        at = bisect_left(taken, (low, high, number))
        if not claimed:
            del taken[at]
            continue
        for other_low, other_high, rival in taken[max(0, at - 1) : at + 1]:
            if other_low < high and low < other_high:
                raise PlanError(
                    f"rows of '{name}' and '{held[rival][2]}' have bytes {low} to {high} and {other_low} to {other_high} at "
                    "the same time"
                )
        insort(taken, (low, high, number))
