"""Which bytes does each row of a plan occupy, and when? Every row is a rectangle of firings and addresses.

This module does not depend on plans; `charts.plans` makes a footprint of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

Kind = Literal["tensor", "state", "workspace"]

COLUMNS = ("owner", "row", "end", "low", "high", "first", "last")
"""The arrays of a footprint that describe rectangles."""


@dataclass(frozen=True, slots=True)
class Band:
    """An actor: its name, what it computes, its phases."""

    name: str
    function: str
    phases: int


@dataclass(frozen=True, slots=True)
class Owner:
    """What occupies bytes: a tensor (or several that share rows), a layer's sums, or its scratch.

    layer: place in `Footprint.layers` of the one that writes. pool: the memory that holds them.
    """

    layer: int
    name: str
    kind: Kind
    pool: str


@dataclass(frozen=True, eq=False)
class Footprint:
    """Rectangle k: rows [row[k], end[k]) of `owners[owner[k]]` have bytes [low[k], high[k]) during
    firings [first[k], last[k]).

    order: the actor of each firing, as index in `layers`. needed: bytes of scratch that the kernel of each firing requires.
    whole: (index in `layers`, live bytes) for each layer if layers run whole. arena: bytes of the pool `arena_pool`. images:
    number of images that the firings compute. part: of which rows the firings are, see `Plan.part`.
    """

    title: str
    layers: tuple[Band, ...]
    owners: tuple[Owner, ...]
    owner: np.ndarray
    row: np.ndarray
    end: np.ndarray
    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    last: np.ndarray
    order: np.ndarray
    needed: np.ndarray
    whole: tuple[tuple[int, int], ...]
    arena: int
    arena_pool: str
    figures: Mapping[str, int]
    images: int = 1
    part: str = ""

    @property
    def span(self) -> str:
        """What the firings compute."""
        return self.part or self.frame

    @property
    def frame(self) -> str:
        """What one execution computes."""
        return "a frame" if self.images == 1 else f"{self.images:,} images"

    @property
    def firings(self) -> int:
        return len(self.order)

    @cached_property
    def layer(self) -> np.ndarray:
        """Place in `layers` of every rectangle's owner."""
        return np.array([owner.layer for owner in self.owners], np.int64)[self.owner]

    @cached_property
    def scratch(self) -> np.ndarray:
        """Whether a rectangle is workspace."""
        return np.array([owner.kind == "workspace" for owner in self.owners], bool)[self.owner]

    @cached_property
    def in_arena(self) -> np.ndarray:
        """Whether a rectangle is in the arena."""
        return np.array([owner.pool == self.arena_pool for owner in self.owners], bool)[self.owner]

    @cached_property
    def held(self) -> np.ndarray:
        """Bytes alive: [place in `layers`, firing]; the last line is workspace, of any layer."""
        lines = np.where(self.scratch, len(self.layers), self.layer)
        changes = np.zeros((len(self.layers) + 1, self.firings + 1), np.int64)
        size = self.high - self.low
        np.add.at(changes, (lines, self.first), size)
        np.subtract.at(changes, (lines, self.last), size)
        return np.cumsum(changes[:, :-1], axis=1)

    @cached_property
    def alive(self) -> np.ndarray:
        """Bytes alive in every firing, workspace too."""
        return self.held.sum(axis=0)

    @cached_property
    def counted(self) -> np.ndarray:
        """Bytes alive in every firing, of scratch only what the kernel needs: what a firing gets beyond that is
        free in the arena anyway, and makes no peak.
        """
        return np.asarray(self.held[:-1].sum(axis=0) + np.minimum(self.held[-1], self.needed))

    @property
    def most(self) -> int:
        """Most bytes alive at one time: the figure `peak_live` of a plan."""
        return int(self.counted.max(initial=0))

    @property
    def peak(self) -> int:
        """The firing in which most is alive."""
        return int(self.counted.argmax()) if self.firings else 0

    def whole_alive(self) -> np.ndarray:
        """Bytes alive where layers run whole, one after another, stretched over as many firings:
        each layer takes a part that goes with its phases.
        """
        shares = [max(1, self.layers[place].phases) for place, _ in self.whole]
        ends = np.round(np.cumsum(shares) / max(1, sum(shares)) * self.firings).astype(int)
        sizes = np.array([size for _, size in self.whole] or [0], np.int64)
        at = np.searchsorted(ends, np.arange(self.firings), side="right")
        return sizes[np.minimum(at, len(sizes) - 1)]

    def joined(self) -> Footprint:
        """Rows that follow each other, in the tensor and in memory, and live equally long, as one."""
        order = np.lexsort((self.low, self.row, self.last, self.first, self.owner))
        columns: dict[str, np.ndarray] = {name: getattr(self, name)[order] for name in COLUMNS}
        same = np.ones(max(0, len(order) - 1), bool)
        for name in ("owner", "first", "last"):
            same &= columns[name][1:] == columns[name][:-1]
        same &= columns["row"][1:] == columns["end"][:-1]
        same &= columns["low"][1:] == columns["high"][:-1]
        starts = np.flatnonzero(np.concatenate([[True], ~same])) if len(order) else order
        stops = np.append(starts[1:], len(order)) - 1 if len(order) else order
        found: dict[str, Any] = {
            name: column[stops if name in ("end", "high") else starts]
            for name, column in columns.items()
        }
        return replace(self, **found)


def binary_size(size: float, unit: str = "") -> str:
    """Bytes with three significant digits or so, in KiB (2^10) or MiB (2^20).

    >>> binary_size(512), binary_size(7_424), binary_size(3_928_576), binary_size(250_609_664)
    ('512 B', '7.25 KiB', '3.75 MiB', '239 MiB')
    """
    if size < 1000:
        return f"{size:,.0f} B"
    scale, name = (2**20, "MiB") if size >= 1000 * 2**10 or unit == "MiB" else (2**10, "KiB")
    value = size / scale
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"


# Colours ------------------------------------------------------------------------------------------

_STOPS = (
    (0x5B, 0x4B, 0x9E),
    (0x3E, 0x7C, 0xB8),
    (0x2F, 0xA0, 0x9A),
    (0x86, 0xB5, 0x4A),
    (0xE3, 0xB0, 0x45),
    (0xE0, 0x73, 0x4E),
    (0xB4, 0x4B, 0x78),
)
"""From the network's input to its outputs; seen on white, on black, and by their brightness in grey."""

_SHADE = 0.12


def ramp(count: int) -> tuple[str, ...]:
    """A colour for each of `count` layers, by depth; neighbours differ in brightness.

    >>> ramp(2)
    ('#5b4b9e', '#bd6188')
    """
    return tuple(_hex(color) for color in _colors(count))


def _colors(count: int) -> Iterator[Sequence[float]]:
    for number in range(count):
        at = number / max(1, count - 1) * (len(_STOPS) - 1)
        stop = min(int(at), len(_STOPS) - 2)
        mixed = [a + (b - a) * (at - stop) for a, b in zip(*_STOPS[stop : stop + 2], strict=True)]
        yield [c + (255 - c) * _SHADE * (number % 2) for c in mixed]


def _hex(color: Sequence[float]) -> str:
    return "#" + "".join(f"{round(c):02x}" for c in color)
