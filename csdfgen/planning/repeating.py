"""How does a plan of a tall image become a loop? Its order is one period that repeats, and so are the offsets of its rows, so
that the arena does not grow with the height.

Rows of m periods lie on a circle, m so that every row is gone before its place is claimed again; buffers whose rows live
long may take a ring of their own instead. The circle is cut where the fewest bytes are alive: what crosses the cut is
stacked from 0 on, and the rest is packed above and around it like any plan. As the order is restricted to the rows that exist, no
row of an image lives longer than on the circle, and the checker of all plans tries every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.model.by_layer import ROWS
from csdfgen.phases.conversion import Conversion
from csdfgen.phases.heights import divided_tensor, least_auto_height
from csdfgen.planning.buffers import Buffer, workspace_buffer, workspace_name
from csdfgen.planning.lifetimes import Lifetimes, trace_lifetimes
from csdfgen.planning.ordering import Order, build_problem, order_by_policy, trace_links
from csdfgen.planning.packing import Items, pack
from csdfgen.planning.packing.items import FREE
from csdfgen.planning.placement import Placement, Region
from csdfgen.planning.prepared import Phased
from schedules.peak.problem import Problem
from schedules.peak.repeated import (
    Repeated,
    find_repeated,
    find_shares,
    improve_repeated,
    middle,
)

CAP = 64
"""Most rows of the input that a phase takes, so that a period is short."""

_PERIODS = 16
"""Periods of an image at least, if its rows are as many."""

_MOST = 3_000
"""Items of a circle at most."""

_THRESHOLDS = (np.inf, 6, 3, 1, 0.5)
"""Periods that rows live from which on their buffer takes a ring of its own."""

_TURNS = (1, 2)
"""Rounds of the circle, of the fewest that its rows fit."""

_ORDERS = ("demand", "eager")
"""Policies whose orders repeat."""


Tables = dict[str, tuple[int, dict[int, int]]]
"""Buffer or workspace -> (rows after which its offsets repeat, offset of each block by its first row)."""


@dataclass(frozen=True, eq=False)
class Loop:
    """An order of an image that repeats, and where its rows lie. problem: the firings of the image. peak: bytes alive at most
    in the middle. bound: lower bound of the peak of every order of a period between two states that were tried.
    """

    phased: Phased
    problem: Problem
    repeated: Repeated
    peak: int
    bound: int

    @cached_property
    def order(self) -> Order:
        """The firings of the image."""
        names = [work.name for work in self.phased.conversion.actors]
        order = self.repeated.restricted(self.problem)
        if not self.problem.is_order(order):
            raise PlanError("a period of the middle is no order at the end of the image")
        pairs = zip(
            self.problem.actor[order].tolist(), self.problem.phase[order].tolist(), strict=True
        )
        return tuple((names[actor], phase) for actor, phase in pairs)


def find_loop(phased: Phased) -> Loop:
    """The order of least peak that repeats. Raises ScheduleError if none does."""
    problem = build_problem(phased.conversion, phased.buffers, phased.scratch)
    shares = find_shares(_phases(phased.conversion), problem.links)
    number = {work.name: k for k, work in enumerate(phased.conversion.actors)}
    found = []
    for policy in _ORDERS:
        order = order_by_policy(phased.conversion, policy)
        firings = np.array([problem.base[number[actor]] + phase for actor, phase in order])
        start = find_repeated(problem, firings, shares)
        repeated, peak, bound = improve_repeated(problem, start, phased.terms.effort)
        found.append(Loop(phased, problem, repeated, peak, bound))
    return min(found, key=lambda one: one.peak)


def _phases(conversion: Conversion) -> dict[str, int]:
    return {work.name: len(work.phases) for work in conversion.actors}


def harmonize_heights(low: Conversion) -> str:
    """Rows of the phases of each layer: powers of two times what the strides leave, about 64 pixels and at most `CAP` rows of the
    first input, so that a period is short; fewer for an image with less than `_PERIODS` periods. They do not depend on
    the height else. low: at 1 row a phase. Raises ScheduleError as `find_loop`.
    """
    shares = find_shares(_phases(low), trace_links(low)).tolist()
    cap = min(CAP, max(1, len(low.actors[0].phases) // _PERIODS))
    rows: dict[str, int | str] = {"*": 1}
    for work, share in zip(low.actors, shares, strict=True):
        if share:
            rate = Fraction(share, shares[0])
            odd = rate.numerator // (rate.numerator & -rate.numerator)
            tensor = divided_tensor(work.layer) if work.layer else work.writes[0].tensor
            most = max(1, min(least_auto_height(tensor), int(cap * rate)))
            unit = odd if odd <= most else 1
            rows[work.asked_by] = unit << (most // unit).bit_length() - 1
    return ROWS.text(rows)


@dataclass(frozen=True, eq=False)
class _Part:
    """Blocks of a buffer, or scratch of an actor, that are claimed in one period: rows of it in a period, first row, bytes, and
    firings [born, gone) of each, counted from the start of the period.
    """

    name: str
    rows: int
    row_bytes: int
    start: np.ndarray
    size: np.ndarray
    born: np.ndarray
    gone: np.ndarray
    capacity: int

    @property
    def life(self) -> int:
        """Firings that the longest-lived of them lives."""
        return int((self.gone - self.born).max())

    def ring(self, alignment: int) -> int:
        """Rows of a ring that holds all rows that are alive together, so that no block is divided."""
        steps = np.diff(np.append(self.start, self.start[0] + self.rows))
        height = int(np.gcd.reduce(steps)) if len(set(steps.tolist())) == 1 else self.rows
        count = -(-self.capacity // height) * height
        while count * self.row_bytes % alignment and count % self.rows:
            count += height
        return count


def _parts(loop: Loop, lifetimes: Lifetimes) -> list[_Part]:
    phased, length, order = loop.phased, loop.repeated.length, loop.order
    number = {work.name: k for k, work in enumerate(phased.conversion.actors)}
    here = middle(loop.problem, loop.repeated)
    first = order.index(
        (phased.conversion.actors[here.word[0]].name, int(here.before[here.word[0]]))
    )
    found = []
    for buffer, one in zip(phased.buffers, lifetimes.each, strict=True):
        writer = buffer.writers[0]
        actor = number[writer.actor]
        done = [0, *writer.rows]
        before = int(here.before[actor])
        rows = done[before + int(here.shares[actor])] - done[before]
        start = np.array(buffer.blocks)
        stop = np.append(start[1:], buffer.rows)
        born, gone = one.born[start] - first, np.maximum.reduceat(one.gone, start) - first
        now, next_ = ((born >= k * length) & (born < (k + 1) * length) for k in (0, 1))
        if (
            now.sum() != next_.sum()
            or ((gone - born)[now] != (gone - born)[next_]).any()
            or (start[next_] - start[now] != rows).any()
            or (stop - start)[now].sum() != rows
        ):
            raise PlanError(f"rows of '{buffer.name}' do not repeat in the middle of the image")
        sizes = ((stop - start) * buffer.row_bytes)[now]
        found.append(
            _Part(
                buffer.name,
                rows,
                buffer.row_bytes,
                start[now],
                sizes,
                born[now],
                gone[now],
                one.capacity,
            )
        )
    for name, sizes in phased.scratch.items():
        actor = number[name]
        at = np.arange(int(here.shares[actor]))
        born = here.times(actor, here.before[actor] + at)
        same = np.full(len(at), int(np.max(sizes)))
        found.append(
            _Part(
                workspace_name(name),
                len(at),
                1,
                int(here.before[actor]) + at,
                same,
                born,
                born + 1,
                1,
            )
        )
    return found


def _on_circle(
    parts: Sequence[_Part], turns: int, length: int, alignment: int, effort: str | float
) -> tuple[int, list[dict[int, int]]]:
    """(bytes, for each part the offset of the blocks by their first rows modulo `turns` periods) of a packing of the circle."""
    around = turns * length

    def over_turns(values: Iterator[np.ndarray], step: int | np.ndarray) -> np.ndarray:
        return np.concatenate([one + turn * step for one in values for turn in range(turns)])

    size = over_turns((one.size for one in parts), 0)
    born = over_turns((one.born for one in parts), length)
    gone = over_turns((one.gone for one in parts), length)
    keys = [
        ((one.start + turn * one.rows) % (turns * one.rows)).tolist()
        for one in parts
        for turn in range(turns)
    ]
    offsets, total = _pack_circle(size, born, gone - born, around, alignment, effort)
    tables: list[dict[int, int]] = [{} for _ in parts]
    at = 0
    for k, rows in enumerate(keys):
        tables[k // turns].update(zip(rows, offsets[at : at + len(rows)].tolist(), strict=True))
        at += len(rows)
    return total, tables


def _pack_circle(
    size: np.ndarray,
    born: np.ndarray,
    life: np.ndarray,
    around: int,
    alignment: int,
    effort: str | float,
) -> tuple[np.ndarray, int]:
    """(offsets, bytes) of items that are alive in [born, born + life) of a circle."""
    whole = -(-size // alignment) * alignment
    change = np.zeros(around + 1, np.int64)
    born = born % around
    wraps = born + life > around
    np.add.at(change, born, whole)
    np.subtract.at(change, np.where(wraps, born + life - around, born + life), whole)
    cut = int(np.argmin(np.cumsum(change[:-1]) + whole[wraps].sum()))
    born = (born - cut) % around
    gone = born + life
    cross, rest = np.flatnonzero(gone > around), np.flatnonzero(gone <= around)
    best, least = None, 0
    for key in (-life[cross], born[cross], -gone[cross])[: 1 if effort == 0 else 3]:
        across = cross[np.lexsort((-whole[cross], key))]
        ends = np.cumsum(whole[across])
        fixed = ends - whole[across]
        items = Items(
            np.concatenate([whole[across], whole[across], whole[rest]]),
            np.concatenate([born[across], np.zeros_like(across), born[rest]]),
            np.concatenate([np.full_like(across, around), gone[across] - around, gone[rest]]),
            alignment,
            fixed=np.concatenate([fixed, fixed, np.full(len(rest), FREE)]),
        )
        packed = pack(items, effort=effort)
        if best is None or packed.total < least:
            best, least = np.empty_like(size), packed.total
            best[across], best[rest] = fixed, packed.offsets[2 * len(across) :]
        if not len(cross):
            break
    assert best is not None
    return best, least


@dataclass(frozen=True, eq=False)
class _Circle:
    """A way to lay the parts: some in rings, the others on a circle of so many periods."""

    ringed: tuple[_Part, ...]
    rest: tuple[_Part, ...]
    turns: int

    def placed(self, length: int, alignment: int, effort: str | float) -> tuple[int, Tables]:
        """(bytes, tables), rings first."""
        at, tables = 0, {}
        for one in self.ringed:
            rows = one.ring(alignment)
            tables[one.name] = rows, {r: at + r * one.row_bytes for r in range(rows)}
            at += -(-rows * one.row_bytes // alignment) * alignment
        total, found = 0, list[dict[int, int]]()
        if self.rest:
            total, found = _on_circle(self.rest, self.turns, length, alignment, effort)
        for one, table in zip(self.rest, found, strict=True):
            tables[one.name] = self.turns * one.rows, {r: at + x for r, x in table.items()}
        return at + total, tables


def _circles(parts: Sequence[_Part], length: int) -> list[_Circle]:
    """The ways that are tried, none twice."""
    found: dict[tuple[int, int], _Circle] = {}
    for limit in _THRESHOLDS:
        long = [one for one in parts if one.row_bytes > 1 and one.life > limit * length]
        names = {one.name for one in long}
        rest = tuple(one for one in parts if one.name not in names)
        least = -(-max((one.life for one in rest), default=1) // length)
        for turns in sorted({int(least * factor) for factor in _TURNS} | {least + 1}):
            if turns * sum(len(one.size) for one in rest) <= _MOST:
                found.setdefault((len(long), turns), _Circle(tuple(long), rest, turns))
    return list(found.values())


def _tables(loop: Loop, lifetimes: Lifetimes, alignment: int) -> tuple[int, Tables]:
    """(bytes, tables) of the least arena."""
    length = loop.repeated.length
    ways = _circles(_parts(loop, lifetimes), length)
    if not ways:
        raise PlanError("rows of too many firings are alive together for a loop")
    rough = [(one.placed(length, alignment, 0)[0], number) for number, one in enumerate(ways)]
    best = ways[min(rough)[1]]
    return best.placed(length, alignment, loop.phased.terms.effort)


def _offsets(rows: int, row_bytes: int, repeat: int, table: Mapping[int, int]) -> tuple[int, ...]:
    """The offset of every row."""
    starts = np.array(sorted(table))
    row = np.arange(rows) % repeat
    block = starts[np.searchsorted(starts, row, side="right") - 1]
    places = np.zeros(repeat, np.int64)
    places[starts] = [table[k] for k in starts.tolist()]
    return tuple((places[block] + (row - block) * row_bytes).tolist())


def place_loop(loop: Loop) -> Placement:
    """Offsets of the rows and the scratch of a loop's firings, which repeat. Raises PlanError if rows do not repeat."""
    phased = loop.phased
    alignment = max(buffer.alignment for buffer in phased.buffers)
    lifetimes = trace_lifetimes(loop.order, phased.buffers)
    total, tables = _tables(loop, lifetimes, alignment)
    regions, workspaces = {}, list[Buffer]()
    for buffer, one in zip(phased.buffers, lifetimes.each, strict=True):
        offsets = _offsets(buffer.rows, buffer.row_bytes, *tables[buffer.name])
        regions[buffer.name] = Region(buffer.name, buffer.row_bytes, one.capacity, offsets)
    for name, sizes in phased.scratch.items():
        offsets = _offsets(len(sizes), 1, *tables[workspace_name(name)])
        own = workspace_buffer(name, np.asarray(sizes).tolist(), alignment)
        workspaces.append(own)
        regions[own.name] = Region(own.name, own.row_bytes, 1, offsets)
    return Placement(regions, tuple(workspaces), total, loop.peak, total <= loop.peak)
