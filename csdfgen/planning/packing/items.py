"""What are items, packings, and the lower bound of packings?

An item is a number of bytes alive during firings [born, gone): a row of a buffer, the scratch of one firing, a reserved
block. A packing gives each item an offset, and two items alive at the same time share no byte. No packing takes fewer
bytes than are alive at one time (`lower_bound`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from csdfgen.errors import PlanError

FREE = -1
"""In `Items.fixed`: the packer chooses the offset."""

_MOST = 2**62
"""Most bytes of all items, so that sums fit 64 bits."""


@dataclass(frozen=True, eq=False)
class Items:
    """Items to be packed, as arrays of equal length.

    sizes: in bytes. born, gone: alive during firings [born, gone). alignment: offsets are multiples of it. names: for
    messages and files; indices if empty. fixed: given offsets, of any alignment, `FREE` for all other items; empty if
    none is given. Raises PlanError for contradictory values.

    >>> Items([32, 16], [0, 1], [2, 3]).gone.tolist()
    [2, 3]
    """

    sizes: np.ndarray
    born: np.ndarray
    gone: np.ndarray
    alignment: int = 16
    names: Sequence[str] = ()
    fixed: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        for name in ("sizes", "born", "gone", "fixed"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.int64))
        count = len(self.sizes)
        if not len(self.fixed):
            object.__setattr__(self, "fixed", np.full(count, FREE))
        lengths = {len(self.born), len(self.gone), len(self.fixed), len(self.names) or count}
        if lengths != {count}:
            raise PlanError(f"{count} sizes of items, but {max(lengths)} of their other values")
        if self.alignment < 1:
            raise PlanError(f"alignment {self.alignment} is below 1 byte")
        for wrong, message in (
            (self.sizes < 0, "negative size {size}"),
            (
                self.born >= self.gone,
                "gone at firing {gone}, which is not after its birth at {born}",
            ),
            (self.fixed < FREE, "negative fixed offset {fixed}"),
        ):
            if wrong.any():
                i = int(np.argmax(wrong))
                values = {"size": self.sizes[i], "born": self.born[i], "gone": self.gone[i]}
                raise PlanError(
                    f"item '{self.name(i)}': {message.format(**values, fixed=self.fixed[i])}"
                )
        reach = float(self.sizes.sum(dtype=float)) + float(self.fixed.max(initial=0))
        if reach + self.alignment * (count + 1.0) > _MOST:
            raise PlanError(f"items of {reach:.3g} bytes; at most {_MOST} can be addressed")

    def __len__(self) -> int:
        return len(self.sizes)

    def name(self, item: int) -> str:
        """The name of an item."""
        return self.names[item] if len(self.names) else str(item)

    @property
    def spans(self) -> np.ndarray:
        """Number of firings in which each item is alive."""
        return self.gone - self.born


@dataclass(frozen=True, eq=False)
class Packing:
    """An offset for every item.

    total: bytes from 0 to the end of the highest item. lower_bound: in bytes, for every packing of these items. optimal:
    whether no packing is smaller.
    """

    offsets: np.ndarray
    total: int
    lower_bound: int
    optimal: bool


def make_packing(items: Items, offsets: np.ndarray, bound: int, *, proved: bool = False) -> Packing:
    """The packing with these offsets. proved: whether it is known by other means that no packing is smaller."""
    used = items.sizes > 0
    total = int((offsets + items.sizes)[used].max(initial=0))
    return Packing(offsets, total, bound, proved or total <= bound)


def lower_bound(items: Items) -> int:
    """Most bytes alive at one time, including bytes that alignment makes unusable.

    At one time, no other item can use the bytes between the end of an item and the next multiple of the alignment, except
    above the highest item (unless an item is fixed at an offset that is no multiple).

    >>> lower_bound(Items([20, 20, 8], [0, 0, 1], [2, 1, 2]))
    52
    """
    if not len(items):
        return 0
    kept = items.fixed != FREE
    step = items.alignment if not (items.fixed[kept] % items.alignment).any() else 1
    whole = -(-items.sizes // step) * step
    edges, at = np.unique(np.concatenate([items.born, items.gone]), return_inverse=True)
    first, end = np.split(at.ravel(), 2)
    live = _over_time(first, end, whole, len(edges))
    slack = np.zeros(len(edges), np.int64)
    values = sorted(set((whole - items.sizes)[items.sizes > 0].tolist()))
    if len(values) > 64:
        slack[:] = values[-1]
    else:
        for value in filter(None, values):
            there = (whole - items.sizes == value) & (items.sizes > 0)
            slack[_over_time(first[there], end[there], 1, len(edges)) > 0] = value
    ends = (items.fixed + items.sizes)[kept & (items.sizes > 0)]
    return max(int((live - slack).max()), int(ends.max(initial=0)))


def breadths(items: Items) -> np.ndarray:
    """For every item, the most bytes that are alive at a time while it is.

    >>> breadths(Items([32, 16, 16], [0, 1, 2], [2, 3, 4])).tolist()
    [48, 48, 32]
    """
    edges, at = np.unique(np.concatenate([items.born, items.gone]), return_inverse=True)
    first, end = np.split(at.ravel(), 2)
    live = _over_time(first, end, items.sizes, len(edges))
    found, order = np.zeros(len(items), np.int64), np.argsort(first, kind="stable")
    pairs = np.stack([first[order], end[order]], axis=1).ravel()
    found[order] = np.maximum.reduceat(live, pairs)[::2]
    return found


def _over_time(
    first: np.ndarray, end: np.ndarray, amount: np.ndarray | int, length: int
) -> np.ndarray:
    """Sum of the amounts of the items alive at each of `length` instants."""
    changes = np.zeros(length, np.int64)
    np.add.at(changes, first, amount)
    np.subtract.at(changes, end, amount)
    return np.cumsum(changes)


def clash(items: Items, offsets: Sequence[int] | np.ndarray) -> tuple[int, int] | None:
    """Two items alive at the same time that share bytes; None if there are none.

    >>> clash(Items([32, 16, 16], [0, 1, 2], [2, 3, 4]), [0, 16, 0])
    (0, 1)
    """
    lows = np.asarray(offsets, np.int64).tolist()
    sizes, born = items.sizes.tolist(), items.born.tolist()
    # at one firing, items that are gone are removed before others are added
    events = [(at, 0, i) for i, at in enumerate(items.gone.tolist()) if sizes[i]]
    events += [(at, 1, i) for i, at in enumerate(born) if sizes[i]]
    here: list[tuple[int, int]] = []  # (offset, item), disjoint
    for _, coming, i in sorted(events):
        at = bisect_left(here, (lows[i], i))
        if not coming:
            del here[at]
            continue
        for _, other in here[max(at - 1, 0) : at + 1]:
            if lows[other] < lows[i] + sizes[i] and lows[i] < lows[other] + sizes[other]:
                return min(i, other), max(i, other)
        here.insert(at, (lows[i], i))
    return None
