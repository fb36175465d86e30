"""What is known about a device, in which unit, and from where? Frozen values; reading and writing
is in `files`.

Every number is a `Quantity` with its unit and its origin: measured (on the machine the profile
names), published (by whom), or modelled (how). The time of a phase is launch + work + access,
equation 2 of paper 002.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from statistics import fmean
from types import MappingProxyType

__all__ = [
    "ORIGINS",
    "DeviceProfile",
    "LayerCost",
    "Memory",
    "OperatorCost",
    "PointwiseCost",
    "Processor",
    "Quantity",
    "Series",
]

ORIGINS = ("measured", "published", "modelled")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as the profile writes it, in base units (s, B, FLOP/s, B/s, W, J), and where it comes
    from.

    origin: one of `ORIGINS`. source: the key of the profile's `sources`.
    """

    written: float
    unit: str
    value: float
    origin: str
    source: str

    def __str__(self) -> str:
        return f"{self.written:,.6g} {self.unit}"


@dataclass(frozen=True, slots=True)
class Series:
    """Several numbers of one unit and one origin."""

    written: tuple[float, ...]
    unit: str
    values: tuple[float, ...]
    origin: str
    source: str


@dataclass(frozen=True, slots=True)
class Memory:
    """usable: what a network may take of total. parameters: where weights lie, if that is a memory
    of its own (flash).

    cache: weights of a layer up to this size are fetched once a frame, larger ones in every phase
        (roofline only).
    """

    total: Quantity
    usable: Quantity
    parameters: Quantity | None = None
    cache: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Processor:
    """What a layer runs on. cores: how many of it can work on different layers at one time.

    peak: FLOP/s of one of them; peak_int8, peak_int16, peak_float16: operations/s on what is stored in these,
    where they are others. bandwidth: B/s of the memory that they share. launch: s a phase.
    frame: s a frame beside its phases. power: W that the source allows the module, or says that it
        takes. operation_energy, byte_energy: J of an operation, and of a byte of weights or activations that
    is read or written, beside it. multiprocessors: that share the blocks of a product out among them, in waves; tile: pixels, and
    channels, of a block. Without these products fill the processor whatever their size.
    """

    cores: Quantity
    peak: Quantity | None = None
    bandwidth: Quantity | None = None
    launch: Quantity | None = None
    frame: Quantity | None = None
    power: Quantity | None = None
    peak_int8: Quantity | None = None
    peak_int16: Quantity | None = None
    peak_float16: Quantity | None = None
    multiprocessors: Quantity | None = None
    tile: Quantity | None = None
    operation_energy: Quantity | None = None
    byte_energy: Quantity | None = None

    def peak_of(self, dtype: str) -> Quantity | None:
        """Operations/s on a format, if it has a number of its own."""
        own: Quantity | None = getattr(self, f"peak_{dtype}", None)
        return own


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Time of an operator kind: `launch` a phase, `time` per unit of `work`, `access` per byte
    moved, `weights` per byte of weights, which come into the nearest cache anew in every phase.

    types: ONNX operators, "*" for all that no other entry names. kernel: "" for any, "3x3" for that
        window,
    "depthwise" for one channel a group. formats: "" for float32, and for what has no entry of its own; else as
    `work.formats_of` has it ("int8", "int8->int16"). error: median distance of the fit from what it was fitted
    to.
    """

    types: tuple[str, ...]
    kernel: str
    work: str
    time: Quantity
    launch: Quantity | None = None
    access: Quantity | None = None
    weights: Quantity | None = None
    error: Quantity | None = None
    formats: str = ""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """Time of a phase of one layer shape as measured: launch + rows * slope, and the points of the
    fit.

    rows: rows a phase of each point; times: mean s of a phase; spread: between the quartiles of the
    repeats, over the median; error: largest distance of the fit from a point.
    images, calls: s of a phase of all rows of so many images. Where that was measured, times are read
    from both tables, between two neighbours on the line through them, and the fit counts for nothing: a
    product of two rows may take longer than two of one.
    """

    key: str
    launch: Quantity
    slope: Quantity
    error: Quantity
    rows: tuple[int, ...]
    times: Series
    spread: Series
    images: tuple[int, ...] = ()
    calls: Series | None = None

    def seconds(self, rows: int, images: int = 1) -> float:
        """Of a phase of so many rows; of all rows of several images."""
        if self.calls is None:
            return self._of_rows(rows) * images
        if images > 1:
            return _between(_points(self.images, self.calls.values), images)
        return _between(_points(self.rows, self.times.values), rows)

    def _of_rows(self, rows: int) -> float:
        return self.launch.value + self.slope.value * rows


@dataclass(frozen=True, slots=True)
class PointwiseCost(LayerCost):
    """The same, but between measured heights their times count, not the line through them: kernels
    change from height to height.
    """

    points: tuple[tuple[float, float], ...] = ()
    """(rows of a phase, its seconds), by rows."""

    def _of_rows(self, rows: int) -> float:
        return _between(self.points, rows)


@lru_cache(maxsize=4096)
def _points(amounts: tuple[int, ...], times: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    """(amount, seconds) by amount; of what was measured more than once, the mean."""
    found: dict[int, list[float]] = {}
    for amount, seconds in zip(amounts, times, strict=True):
        found.setdefault(amount, []).append(seconds)
    return tuple((amount, fmean(found[amount])) for amount in sorted(found))


def _between(points: Sequence[tuple[float, float]], amount: float) -> float:
    """Seconds on the straight line between the neighbours of an amount; beyond the ends as much a unit as
    there. points: (amount, seconds), by amount.
    """
    (low, first), (high, last) = points[0], points[-1]
    if amount <= low:
        return first * amount / low
    if amount >= high:
        return last * amount / high
    at = bisect_right(points, (amount, inf))
    (a, before), (b, after) = points[at - 1], points[at]
    return before + (after - before) * (amount - a) / (b - a)


@dataclass(frozen=True, eq=False)
class DeviceProfile:
    """A device: its memory, what it computes with, and costs by layer shape, by operator kind, or
    by roofline.

    sources: key -> what the source is. conditions: of a measurement, as text by name. where: the
        file.
    """

    name: str
    title: str
    memory: Memory
    processor: Processor
    operators: tuple[OperatorCost, ...] = ()
    layers: Mapping[str, LayerCost] = field(default_factory=lambda: MappingProxyType({}))
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    where: str = ""

    @property
    def kind(self) -> str:
        """How times come about, in a few words."""
        if self.layers:
            return "measured, by layer shape"
        if self.operators:
            return f"{self.operators[0].time.origin}, by operator kind"
        return "modelled, roofline"
