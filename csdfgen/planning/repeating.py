"""How does a plan of a tall image become a loop? Its order is one period that repeats, and so are the offsets of its rows, so
that the arena does not grow with the height (`planning.circles`). As the order is restricted to the rows that exist, no row of
an image lives longer than on the circle, and the checker of all plans tries every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from types import MappingProxyType

import numpy as np

from csdfgen.errors import PlanError, ScheduleError
from csdfgen.model.by_layer import ROWS
from csdfgen.phases.conversion import Conversion
from csdfgen.phases.heights import AUTO_PIXELS, divided_tensor, least_auto_height
from csdfgen.planning.buffers import Access, Buffer, workspace_buffer, workspace_name
from csdfgen.planning.circles import Part, Tables, find_least_bytes, list_rings, place_parts
from csdfgen.planning.lifetimes import Lifetimes
from csdfgen.planning.ordering import Order, build_problem, order_by_policy, trace_links
from csdfgen.planning.placement import Placement, Region
from csdfgen.planning.prepared import Phased
from schedules.peak.problem import Problem, evaluate
from schedules.peak.repeated import (
    Repeated,
    cut_period,
    find_repeated,
    find_shares,
    improve_repeated,
    middle,
    number_word,
    spread_firings,
)
from schedules.peak.search import search

CAP = 64
"""Most rows of the input that a phase takes, so that a period is short."""

_ORDERS = ("demand", "eager")
"""Policies whose orders repeat."""


_WASTE = 1.04
"""An arena above this multiple of its peak is placed again in finer blocks."""

_WORTH = 0.98
"""Part of the arena that finer blocks may take, as they take more calls."""


@dataclass(frozen=True, eq=False)
class Loop:
    """An order that repeats and where its rows lie, in images of any height.

    before: firings of each actor in front of the period at 0, of those that fire in it or once in front. word: names of the
    actors that fire in a period. fine: see `Phased`. scratch: bytes of it for each firing of an actor. arena: bytes. peak:
    bytes alive at most in a period. bound: lower bound of the peak of every order of a period between two states that were
    tried; both are of whole slabs, also where the arena is placed in finer blocks. rows: of the first input in a period.
    turn: periods after which all offsets repeat. start: firings of the order by which no row in front of the image would be
    alive.
    """

    before: Mapping[str, int]
    word: tuple[str, ...]
    rows: int
    turn: int
    start: int
    fine: bool
    tables: Tables
    scratch: Mapping[str, int]
    arena: int
    peak: int
    bound: int

    def order(self, conversion: Conversion) -> Order:
        """The firings of an image: those of the order that exist, and then the actors that are in no period."""
        firings = [
            (work.name, phase) for work in conversion.actors for phase in range(len(work.phases))
        ]
        order = self.numbered(conversion).restricted(list(_phases(conversion).values()))
        return tuple(firings[k] for k in order.tolist())

    def numbered(self, conversion: Conversion) -> Repeated:
        """The order by numbers of the actors."""
        number = {name: k for k, name in enumerate(_phases(conversion))}
        word = np.array([number[name] for name in self.word])
        before = np.array([self.before.get(name, 0) for name in number])
        return Repeated(before, word, np.bincount(word, minlength=len(number)))

    @property
    def first(self) -> int:
        """Rows of the first input that are fed until a period starts in which no row in front of the image would be alive."""
        feed = next(iter(self.before))
        share = self.word.count(feed)
        return (self.before[feed] + -(-self.start // len(self.word)) * share) * self.rows // share

    def interior(self, conversion: Conversion) -> int:
        """Periods in the middle of an image in which no firing reads or keeps alive less than on an image without ends."""
        order, phases = self.numbered(conversion), _phases(conversion)
        ends = [
            int(order.times(k, np.array([count - 1]))[0])
            for k, count in enumerate(phases.values())
            if order.shares[k]
        ]
        return min(ends) // order.length + -self.start // order.length

    def rates(self, phased: Phased) -> dict[str, int]:
        """Rows of each buffer in a period, 0 of those that do not repeat, and firings that take scratch. phased: the image in
        which the order was found.
        """
        shares = Counter(self.word)
        first = ((one.name, one.writers[0]) for one in phased.buffers)
        found = {name: _rows((0, *one.rows), shares[one.actor]) for name, one in first}
        return found | {workspace_name(name): shares[name] for name in self.scratch}

    def placed(
        self, phased: Phased, lifetimes: Lifetimes, behind: Mapping[str, int] = MappingProxyType({})
    ) -> Placement:
        """The offsets of the rows and the scratch of an image, with these lifetimes. behind: buffer or workspace -> rows in front
        of its first one, of an image by which a higher one ends. Raises PlanError for a height at which layers have other
        buffers, as a window that is as high as the image.
        """
        for buffer in phased.buffers:
            if buffer.name not in self.tables:
                raise PlanError(f"'{buffer.name}' is of images with few rows alone; give more rows")
        regions, workspaces = {}, list[Buffer]()
        for buffer, one in zip(phased.buffers, lifetimes.each, strict=True):
            own = buffer.rows, buffer.row_bytes, behind.get(buffer.name, 0)
            offsets = _offsets(*own, *self.tables[buffer.name])
            regions[buffer.name] = Region(buffer.name, buffer.row_bytes, one.capacity, offsets)
        for name, needs in phased.scratch.items():
            made = workspace_buffer(name, needs.tolist(), _alignment(phased))
            own = len(needs), 1, behind.get(made.name, 0)
            offsets = _offsets(*own, *self.tables.get(made.name, (1, {0: 0})))
            workspaces.append(made)
            regions[made.name] = Region(made.name, made.row_bytes, 1, offsets)
        total = self.arena
        return Placement(regions, tuple(workspaces), total, self.peak, total <= self.peak)


def find_loop(phased: Phased, *, spread: bool = False) -> Loop:
    """The order of least peak that repeats, in the middle of an image, placed in blocks of whole slabs or, if that saves
    memory, in finer blocks. spread: of orders whose work is spread over the rows of the first input. Raises ScheduleError if none
    does, and PlanError if its rows do not.
    """
    period, alignment, effort = (
        find_period(phased, spread=spread),
        _alignment(phased),
        phased.terms.effort,
    )
    parts, made = list_parts(period), None
    if phased.fine or find_least_bytes(parts, alignment) <= _WASTE * period.peak:
        made = place_parts(parts, alignment, effort)
    if not phased.fine and (made is None or made[0] > _WASTE * period.peak):
        fine = replace(period, phased=replace(phased, fine=True))
        finer = list_parts(fine)
        less = place_parts(finer, alignment, effort)
        rings = list_rings(finer, alignment).least
        worth = 1.0 if made and made[0] > rings else _WORTH
        if less is not None and (made is None or less[0] < worth * made[0]):
            period, made = fine, less
    if made is None:
        raise ScheduleError("rows of too many firings are alive together for a loop")
    total, tables = made
    return make_loop(period, _place_lasting(period, total, tables), tables)


def make_loop(period: Period, arena: int, tables: Tables) -> Loop:
    """The order of a period in an arena. Raises PlanError if rows do not repeat, or have no table."""
    phased, repeated = period.phased, period.repeated
    parts = list_parts(period)
    stored = {one.name for one in phased.buffers} | {*map(workspace_name, phased.scratch)}
    if stored != tables.keys():
        raise PlanError(f"has {len(tables)} tables of offsets, {len(stored)} buffers are needed")
    actors = phased.conversion.actors
    repeats, fronts = (np.flatnonzero(one).tolist() for one in (repeated.shares, repeated.front))
    turns = [rows // gcd(rows, one.rows) for one in parts for rows, _ in [tables[one.name]]]
    return Loop(
        {actors[k].name: int(repeated.before[k]) for k in (*repeats, *fronts)},
        tuple(actors[k].name for k in repeated.word.tolist()),
        _rows(actors[repeats[0]].writes[0].complete, int(repeated.shares[repeats[0]])),
        lcm(*turns),
        max(int(one.gone.max()) for one in parts) - repeated.length,
        phased.fine,
        tables,
        {name: int(np.max(needs)) for name, needs in phased.scratch.items()},
        arena,
        period.peak,
        period.bound,
    )


@dataclass(frozen=True, eq=False)
class Period:
    """An order that repeats in an image. peak, bound: see `Loop`."""

    phased: Phased
    repeated: Repeated
    peak: int
    bound: int


def find_period(phased: Phased, *, spread: bool = False) -> Period:
    """The order of least peak that repeats. spread: see `find_loop`. Raises ScheduleError if none does."""
    problem = build_problem(phased.conversion, phased.buffers, phased.scratch)
    shares = conversion_shares(phased.conversion)
    number = {work.name: k for k, work in enumerate(phased.conversion.actors)}
    found, failed = [], list[ScheduleError]()
    for policy in _ORDERS:
        order = order_by_policy(phased.conversion, policy)
        firings = np.array([problem.base[number[actor]] + phase for actor, phase in order])
        try:
            start = find_repeated(problem, firings, shares)
        except ScheduleError as error:  # of several inputs, `eager` takes one first, whole
            failed.append(error)
            continue
        repeated, peak, bound = improve_repeated(problem, start, phased.terms.effort)
        orders = [(repeated, peak, bound)]
        if spread:
            orders = [_spread_work(phased, problem, one) for one in (start, repeated)]
        first = int(np.flatnonzero(shares)[0])
        for one, *sizes in orders:
            one = one.moved(-(int(one.before[first]) // int(shares[first])))
            found.append(Period(phased, one, *sizes))
    if not found:
        raise failed[0]
    return min(found, key=lambda one: one.peak)


def _spread_work(phased: Phased, problem: Problem, order: Repeated) -> tuple[Repeated, int, int]:
    """The order with its work spread over the rows of the first input, its peak in bytes, and its bound as of `Loop`."""
    order = middle(problem, order)
    ranges = zip(phased.conversion.actors, order.before, order.shares, strict=True)
    times = [np.array(work.times[start : start + count], float) for work, start, count in ranges]
    feed = int(np.flatnonzero(order.shares)[0])
    made = spread_firings(order, feed, np.concatenate(times)[number_word(order)])
    made = middle(problem, made)
    live = evaluate(cut_period(problem, made), number_word(made))
    state = middle(problem, made.rotated(int(np.argmin(live))))
    one = cut_period(problem, state)
    between = search(one, {"spread": number_word(state)}, phased.terms.effort)
    fine = Period(replace(phased, fine=True), made, 0, 0)  # over all integers: the image may be low
    parts = list_parts(fine)
    tables: Tables = {one.name: (1, {}) for one in parts}
    most = _place_lasting(fine, find_least_bytes(parts, 1), tables)
    return made, max(int(live.max()), most), between.lower_bound


def _alignment(phased: Phased) -> int:
    return max(buffer.alignment for buffer in phased.buffers)


def _phases(conversion: Conversion) -> dict[str, int]:
    return {work.name: len(work.phases) for work in conversion.actors}


def conversion_shares(conversion: Conversion) -> np.ndarray:
    """Firings of each actor in a period, see `find_shares`."""
    return find_shares(_phases(conversion), trace_links(conversion))


def _rows(done: Sequence[int], share: int) -> int:
    """Rows in a period, of running counts of which there are so many in a period."""
    half = len(done) // 2
    return done[min(half + share, len(done) - 1)] - done[half]


def harmonize_heights(low: Conversion, cap: int = CAP, pixels: int = AUTO_PIXELS) -> str:
    """Rows of the phases of each layer: powers of two times what the strides leave, about so many pixels and at most `cap` rows
    of the first input, so that a period is short. They do not depend on the height. low: at 1 row a phase. Raises
    ScheduleError as `find_loop`.
    """
    shares = conversion_shares(low).tolist()
    rows: dict[str, int | str] = {"*": 1}
    for work, share in zip(low.actors, shares, strict=True):
        if share:
            rate = Fraction(share, shares[0])
            odd = rate.numerator // (rate.numerator & -rate.numerator)
            tensor = divided_tensor(work.layer) if work.layer else work.writes[0].tensor
            most = max(1, min(least_auto_height(tensor, pixels), int(cap * rate)))
            unit = odd if odd <= most else 1
            rows[work.asked_by] = unit << (most // unit).bit_length() - 1
    return ROWS.text(rows)


def list_parts(period: Period) -> list[Part]:
    """The rows and the scratch of a period, but for what does not repeat."""
    phased, repeated = period.phased, period.repeated
    number = {work.name: k for k, work in enumerate(phased.conversion.actors)}

    def reached(accesses: Sequence[Access], rows: np.ndarray) -> list[np.ndarray]:
        """When each actor reaches these rows."""
        return [
            repeated.times(number[one.actor], np.searchsorted(one.rows, rows, side="right"))
            for one in accesses
        ]

    found = []
    for buffer in phased.buffers:
        writer = buffer.writers[0]
        rows = _rows((0, *writer.rows), int(repeated.shares[number[writer.actor]]))
        if not rows:
            continue  # see `_place_lasting`
        whole = [one.actor for one in buffer.readers if not repeated.shares[number[one.actor]]]
        if whole:
            raise PlanError(f"'{whole[0]}' waits for all rows of '{buffer.name}'")
        turn = max(0, buffer.rows // rows // 2 - 1)
        first = turn * rows
        blocks = np.array(buffer.blocks)
        start = blocks[(blocks >= first) & (blocks < first + 2 * rows)]
        ends = np.append(start[1:], first + 2 * rows)
        born = np.minimum.reduce(reached(buffer.writers, start))
        gone = np.maximum.reduce(reached(buffer.readers, ends - 1)) + 1
        count = len(start) // 2
        for one, step in ((start, rows), (born, repeated.length), (gone, repeated.length)):
            if (one[count:] - one[:count] != step).any():
                raise ScheduleError(
                    f"rows of '{buffer.name}' do not repeat in the middle of the image"
                )
        sizes = (ends - start) * buffer.row_bytes
        own = buffer.name, rows, buffer.row_bytes, start[:count] - first, sizes[:count]
        born, gone = (one[:count] - turn * repeated.length for one in (born, gone))
        found.append(Part(*own, born, gone, repeated.length))
    for name, needs in phased.scratch.items():
        if not repeated.shares[number[name]]:
            continue
        at = np.arange(int(repeated.shares[number[name]]))
        born = repeated.times(number[name], at)
        sizes = np.full(len(at), int(np.max(needs)))
        own = workspace_name(name), len(at), 1, at, sizes
        found.append(Part(*own, born, born + 1, repeated.length))
    return found


def _place_lasting(period: Period, total: int, tables: Tables) -> int:
    """Bytes with all that has no rows which repeat, for which places are added: behind the others, states that stay from the
    first row to the last, and over the others, which are gone then, what is computed behind the last row.
    """
    phased, repeated = period.phased, period.repeated
    stay = (repeated.shares > 0) | repeated.front
    number = {work.name: k for k, work in enumerate(phased.conversion.actors)}
    rest = [
        (one.name, one.writers[0].actor, one.rows, one.rows * one.row_bytes)
        for one in phased.buffers
    ]
    rest += [
        (workspace_name(name), name, 1, int(np.max(one))) for name, one in phased.scratch.items()
    ]
    ends, alignment = [0, 0], _alignment(phased)
    found = []
    for name, actor, rows, size in rest:
        if name not in tables:
            stays = int(stay[number[actor]])
            found.append((name, rows, stays, ends[stays]))
            ends[stays] += -(-size // alignment) * alignment
    behind = max(total, ends[0])
    tables.update((name, (rows, {0: at + stays * behind})) for name, rows, stays, at in found)
    return behind + ends[1]


def _offsets(
    rows: int, row_bytes: int, first: int, repeat: int, table: Mapping[int, int]
) -> tuple[int, ...]:
    """The offsets of so many rows from the first on."""
    starts = np.array(sorted(table))
    row = np.arange(first, first + rows) % repeat
    block = starts[np.searchsorted(starts, row, side="right") - 1]
    places = np.zeros(repeat, np.int64)
    places[starts] = [table[k] for k in starts.tolist()]
    return tuple((places[block] + (row - block) * row_bytes).tolist())
