"""Which rows are stored in the fast memory? Those that are read and written most for the bytes and firings they take.

A device has a small fast memory and a large slow one. Every item (a row, or the scratch of a firing) is in one of them
for its whole lifetime, and the choice minimizes the bytes that are read from and written to the slow one. First an
integer linear program, or a greedy choice, selects items by the bytes alive at one time. Then the items of the fast
memory are packed, and those that do not fit below its end go to the slow one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np

from csdfgen.errors import PlanError, option
from csdfgen.model.describe import mebibytes
from csdfgen.model.network import Tensor
from csdfgen.phases.conversion import Conversion
from csdfgen.planning.buffers import Buffer, state_name
from csdfgen.planning.packing import Items, Packing, pack
from csdfgen.planning.packing.items import FREE
from csdfgen.planning.plan import Plan
from csdfgen.planning.sharing import Sharing
from csdfgen.stopping import is_stopped

FAST, SLOW = "fast", "slow"
"""The pools of a device with two memories."""

Span = tuple[int, int]
"""Rows [start, stop)."""

_LARGEST = 20_000
"""Pairs (item, instant) of the largest program that is solved; for more the greedy choice is better."""
_FEW, _GAP = 60, 5e-3
"""Up to so many items the program is solved exactly, for more to this relative gap."""
_PARTS = 9
"""Given seconds are shared by the program and the packing of both memories for each of four choices."""
_SECONDS: Mapping[str, float] = MappingProxyType({"low": 2.0, "normal": 10.0, "high": 60.0})


@dataclass(frozen=True, eq=False)
class Split:
    """A placement of items in two memories.

    fast: whether each item is in the fast memory. offsets: of each item in its memory. pools: bytes used of each memory.
    traffic: bytes read from and written to each.
    """

    fast: np.ndarray
    offsets: np.ndarray
    pools: Mapping[str, int]
    traffic: Mapping[str, int]

    def pool(self, item: int) -> str:
        """The memory of an item."""
        return FAST if self.fast[item] else SLOW


def split(
    items: Items, moved: np.ndarray, fast: int, slow: int, *, effort: str | float = "low"
) -> Split:
    """Distribute items over memories of `fast` and `slow` bytes, each at an offset in its memory.

    moved: bytes of each item that are read and written (`row_traffic`). effort: that of `packing.pack`.
    Raises PlanError if the fast memory is larger than the slow one, or if they do not hold all items.

    >>> found = split(Items([32, 32], [0, 0], [2, 2]), np.array([100, 900]), 32, 64)
    >>> found.fast.tolist(), dict(found.traffic)
    ([False, True], {'fast': 900, 'slow': 100})
    """
    _check(items, fast, slow)
    limits = _Limits(items, fast, slow)
    if not isinstance(effort, str):
        effort = effort / _PARTS
    best: tuple[int, np.ndarray, np.ndarray, Packing] | None = None
    least = 2**63 - 1
    for chosen in _choices(limits, moved, effort):
        if best is not None and moved[~chosen].sum() >= best[0]:
            continue
        there, offsets = _placed(items, moved, chosen, fast, effort)
        rest = _packed(items, np.flatnonzero(~there), effort, None)
        least = min(least, rest.total)
        lost = int(moved[~there].sum())
        if rest.total <= slow and (best is None or lost < best[0]):
            best = lost, there, offsets, rest
    if best is None:
        raise PlanError(
            f"{_said(items, fast, slow)}; the best choice found takes {least} bytes of the slow one: enlarge either"
        )
    _, there, offsets, rest = best
    offsets[~there] = rest.offsets
    ends = (offsets + items.sizes)[there & (items.sizes > 0)]
    pools = {FAST: int(ends.max(initial=0)), SLOW: rest.total}
    traffic = {FAST: int(moved[there].sum()), SLOW: int(moved[~there].sum())}
    return Split(there, offsets, MappingProxyType(pools), MappingProxyType(traffic))


def _check(items: Items, fast: int, slow: int) -> None:
    fixed = items.fixed != FREE
    if fixed.any():
        name = items.name(int(np.argmax(fixed)))
        raise PlanError(
            f"'{name}' has a fixed offset; only items without one are distributed over memories"
        )
    if fast < 1 or slow < 1:
        raise PlanError(f"{option('fast', fast)}, {option('slow', slow)}: give each 1 byte or more")
    if fast > slow:
        raise PlanError(
            f"the fast memory has {fast} bytes, more than the slow one with {slow}; "
            f"exchange {option('fast')} and {option('slow')}"
        )
    largest = int(items.sizes.max(initial=0))
    if largest > slow:
        name = items.name(int(np.argmax(items.sizes)))
        raise PlanError(
            f"'{name}' takes {largest} bytes, where the slow memory has {slow} and the fast one {fast}; "
            "enlarge the slow one"
        )
    if _Limits(items, fast, slow).live() > fast + slow:
        raise PlanError(f"{_said(items, fast, slow)}; use lower rows or a larger memory")


def _said(items: Items, fast: int, slow: int) -> str:
    live = _Limits(items, fast, slow).live()
    return f"{live} bytes ({mebibytes(live)}) are alive at one time, where the fast memory has {fast} and the slow one {slow}"


class _Limits:
    """Bytes alive at the instants that matter (the last of consecutive births), and the sizes of the memories."""

    def __init__(self, items: Items, fast: int, slow: int) -> None:
        self.items, self.sizes = items, items.sizes
        # capacities are rounded up, as the end of the highest item need not be aligned
        step = items.alignment
        self.whole = -(-items.sizes // step) * step
        self.fast, self.slow = -(-fast // step) * step, -(-slow // step) * step
        # a maximum of bytes alive comes after a birth and before the next death
        edges = np.unique(np.concatenate([items.born, items.gone]))
        births, deaths = np.isin(edges, items.born), np.isin(edges, items.gone)
        instants = edges[births & np.append(deaths[1:], True)]
        self.first = np.searchsorted(instants, items.born)
        self.end = np.searchsorted(instants, items.gone)
        self.count = len(instants)

    def live(self) -> int:
        """Most bytes alive at one time."""
        return int(self.profile(np.ones(len(self.items), bool), self.sizes).max(initial=0))

    def profile(self, chosen: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Bytes alive of the chosen items, at every instant."""
        changes = np.zeros(self.count + 1, np.int64)
        np.add.at(changes, self.first[chosen], sizes[chosen])
        np.subtract.at(changes, self.end[chosen], sizes[chosen])
        return np.cumsum(changes[:-1])


# Choice of items --------------------------------------------------------------------------------


def _choices(limits: _Limits, moved: np.ndarray, effort: str | float) -> list[np.ndarray]:
    """Choices of items for the fast memory whose bytes alive fit it, and if possible those of all others the slow one;
    the best first, none twice.
    """
    span = limits.items.spans
    size = np.maximum(limits.sizes, 1)
    values = (moved / size / span, moved / size, moved / size / np.sqrt(span))
    found = [_greedy(limits, value) for value in values]
    solved = _program(limits, moved, effort)
    if solved is not None:
        found.insert(0, solved)
    found.sort(key=lambda chosen: int(moved[~chosen].sum()))
    return list({chosen.tobytes(): chosen for chosen in found}.values())


def _greedy(limits: _Limits, value: np.ndarray) -> np.ndarray:
    """Items by value, each chosen if it fits with those chosen before. Items alive at instants when the slow memory
    alone is too small come first.
    """
    chosen = np.zeros(len(value), bool)
    left = np.full(limits.count, limits.fast)
    short = limits.profile(~chosen, limits.whole) - limits.slow
    first, end, whole = limits.first.tolist(), limits.end.tolist(), limits.whole.tolist()
    order = np.argsort(-value, kind="stable").tolist()
    for needed in (True, False) if (short > 0).any() else (False,):
        for i in order:
            here = slice(first[i], end[i])
            if chosen[i] or (needed and not (short[here] > 0).any()):
                continue
            if left[here].min(initial=whole[i]) >= whole[i]:
                left[here] -= whole[i]
                short[here] -= whole[i]
                chosen[i] = True
    return chosen


def _program(limits: _Limits, moved: np.ndarray, effort: str | float) -> np.ndarray | None:
    """The choice with the most traffic in the fast memory, by HiGHS; None if it is too large or not solved in time."""
    spans = limits.end - limits.first
    if not len(spans) or spans.sum() > _LARGEST or is_stopped():
        return None
    # a third of the time that a command starts in
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array

    step = limits.items.alignment
    starts = np.concatenate([[0], np.cumsum(spans)])
    rows = np.arange(starts[-1]) - np.repeat(starts[:-1] - limits.first, spans)
    units = np.repeat(limits.whole // step, spans).astype(float)
    matrix = csc_array((units, rows, starts), shape=(limits.count, len(spans)))
    live = limits.profile(np.ones(len(spans), bool), limits.whole)
    seconds = _SECONDS.get(effort, 10.0) if isinstance(effort, str) else effort
    result = milp(
        -moved / max(float(moved.max(initial=0)), 1.0),
        constraints=LinearConstraint(matrix, (live - limits.slow) / step, limits.fast / step),
        integrality=np.ones(len(spans)),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": _GAP if len(spans) > _FEW else 0.0},
    )
    return None if result.x is None else np.asarray(result.x) > 0.5


# Offsets -----------------------------------------------------------------------------------------


def _packed(items: Items, which: np.ndarray, effort: str | float, limit: int | None) -> Packing:
    some = Items(items.sizes[which], items.born[which], items.gone[which], items.alignment)
    return pack(some, effort=effort, limit=limit)


def _placed(
    items: Items, moved: np.ndarray, chosen: np.ndarray, fast: int, effort: str | float
) -> tuple[np.ndarray, np.ndarray]:
    """(items in the fast memory, their offsets): the chosen items that the packing has below its end, and all others
    that fit into the gaps.
    """
    which = np.flatnonzero(chosen & (items.sizes <= fast))
    offsets = np.zeros(len(items), np.int64)
    offsets[which] = _packed(items, which, effort, fast).offsets
    there = np.zeros(len(items), bool)
    there[which] = True
    there &= offsets + items.sizes <= fast
    value = moved / np.maximum(items.sizes, 1)
    for i in np.argsort(-value, kind="stable").tolist():
        if not there[i] and items.sizes[i] <= fast:
            at = _gap(items, there, offsets, i)
            if at + items.sizes[i] <= fast:
                there[i], offsets[i] = True, at
    return there, offsets


def _gap(items: Items, there: np.ndarray, offsets: np.ndarray, i: int) -> int:
    """The lowest offset for an item among those that are placed."""
    others = np.flatnonzero(there & (items.born < items.gone[i]) & (items.gone > items.born[i]))
    low = offsets[others]
    order = np.argsort(low, kind="stable")
    ends = -(-(low + items.sizes[others]) // items.alignment) * items.alignment
    gaps = np.concatenate([[0], np.maximum.accumulate(ends[order])])
    fits = np.append(low[order] - gaps[:-1] >= items.sizes[i], True)
    return int(gaps[fits.argmax()])


# Traffic -----------------------------------------------------------------------------------------


def row_traffic(
    conversion: Conversion, sharing: Sharing, buffers: Sequence[Buffer]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(reads, writes): buffer -> bytes of each row that all phases read, or write.

    A row counts once for the phase that writes it and once for each phase that reads it (or hands it on). The sums of an
    accumulating layer are written by each of its phases and read by all but the first. Scratch counts as written and
    read once.
    """
    reads, writes = ({b.name: np.zeros(b.rows + 1, np.int64) for b in buffers} for _ in range(2))

    def add(
        changes: dict[str, np.ndarray], sizes: Mapping[str, int], spans: Iterable[Span]
    ) -> None:
        starts, stops = (np.array(ends, np.int64) for ends in zip(*spans, strict=True))
        for home, size in sizes.items():
            np.add.at(changes[home], starts, size)
            np.subtract.at(changes[home], stops, size)

    for work in conversion.actors:
        if work.name in sharing.silent:
            continue
        for read in work.reads:
            add(reads, _homes(read.tensor, sharing), [(r.start, r.stop) for r in read.rows])
        for write in work.writes:
            homes = _homes(write.tensor, sharing)
            fresh, again = _updates(write.claimed, write.complete)
            add(writes, homes, fresh)
            add(writes, homes, again)
            add(reads, homes, again)
        if work.state is not None:
            sums = {state_name(work.name): work.state.nbytes}
            fresh, again = _updates(work.state.claimed, work.state.released)
            add(writes, sums, fresh)
            add(writes, sums, again)
            add(reads, sums, again)
    found = [{name: np.cumsum(one[:-1]) for name, one in side.items()} for side in (reads, writes)]
    for buffer in buffers:
        if buffer.kind == "workspace":
            for side in found:
                side[buffer.name] = np.array(buffer.sizes, np.int64)
    return found[0], found[1]


def _homes(tensor: Tensor, sharing: Sharing) -> dict[str, int]:
    """Buffer -> bytes of a tensor in each of its rows."""
    return {
        place.buffer: prod(sharing.piece(tensor, place.buffer)[1]) * tensor.itemsize
        for place in sharing.homes(tensor.name)
    }


def _updates(claimed: Sequence[int], complete: Sequence[int]) -> tuple[list[Span], list[Span]]:
    """Rows that each phase writes first, and rows of an earlier phase that it updates."""
    before, known = (0, *complete[:-1]), (0, *claimed[:-1])
    again = [(a, max(a, b)) for a, b in zip(before, known, strict=True)]
    fresh = [(b, c) for (_, b), c in zip(again, claimed, strict=True)]
    return fresh, again


# Figures -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Memory:
    """One of the memories of a plan. size: its bytes; used: of these; read, written: bytes moved for an image."""

    name: str
    size: int
    used: int
    read: int
    written: int

    @property
    def moved(self) -> int:
        """Bytes read and written for an image."""
        return self.read + self.written


def list_memories(plan: Plan) -> tuple[Memory, ...]:
    """The fast and the slow memory of a plan; empty for a plan in one memory."""
    if not plan.border:
        return ()
    reads, writes = row_traffic(plan.conversion, plan.sharing, plan.buffers)
    totals = np.zeros((2, 3), np.int64)
    for buffer in plan.buffers:
        low = np.array(plan.regions[buffer.name].table, np.int64)
        sizes = np.array(buffer.sizes or (buffer.row_bytes,) * buffer.rows, np.int64)
        for slow, there in enumerate((low < plan.border, low >= plan.border)):
            mine = there & (sizes > 0)
            end = int((low + sizes)[mine].max(initial=0)) - slow * plan.border
            totals[slow, 0] = max(totals[slow, 0], end)
            totals[slow, 1] += reads[buffer.name][mine].sum()
            totals[slow, 2] += writes[buffer.name][mine].sum()
    totals[:, 1:] //= plan.conversion.frames  # the same for every image
    sizes_asked = {FAST: plan.options.fast, SLOW: plan.options.slow}
    return tuple(
        Memory(name, size, *numbers)
        for (name, size), numbers in zip(sizes_asked.items(), totals.tolist(), strict=True)
    )
