"""What is known about a device, in which unit, and from which source? Frozen values; `files` reads and writes them.

Every number is a `Quantity` with its unit and its origin: measured (on the machine that the profile
names), published (with its publisher), or modelled (with the model). The time of a phase is
launch + work + access, equation 2 of paper 002.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from statistics import fmean
from types import MappingProxyType

from csdfgen.devices.units import FACTORS
from csdfgen.devices.work import PhaseWork

ORIGINS = ("measured", "published", "modelled")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as the profile writes it, its value in base units (s, B, FLOP/s, B/s, W, J), and its origin.

    origin: one of `ORIGINS`. source: the key of the profile's `sources`.
    """

    written: float
    unit: str
    value: float
    origin: str
    source: str

    def __str__(self) -> str:
        return f"{self.written:,.6g} {self.unit}"


def parse_quantity(written: float, unit: str, source: str) -> Quantity:
    """A number that csdfgen measured, in one of the units of `FACTORS`."""
    return Quantity(written, unit, written * FACTORS[unit], "measured", source)


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
    """total, usable: bytes of the memory, and those that a network may take. parameters: bytes of the memory that
    weights are stored in, if it is a separate one (flash). cache: weights of a layer up to this size are fetched once
    a frame, larger ones in every phase (roofline), and all of a network of this size stays there.
    """

    total: Quantity
    usable: Quantity
    parameters: Quantity | None = None
    cache: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Processor:
    """What a layer runs on. cores: number of processors that can work on different layers at the same time.

    peak: FLOP/s of one core; peak_int8, peak_int16, peak_float16: operations/s on values of these formats, if they
    differ. bandwidth: B/s of the memory that the cores share. launch: s a phase. frame: s a frame besides its phases.
    power: W that the source reports or allows for the module. operation_energy, byte_energy: J of an operation, and of
    a byte of weights or activations that is read or written, in addition to power * time. multiprocessors: number of
    units that compute the blocks of a matrix product in waves; tile: pixels and channels of a block. Without these two,
    products of any size keep the whole processor busy.
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
        """Operations/s on a format, None if the profile has no number for it."""
        own: Quantity | None = getattr(self, f"peak_{dtype}", None)
        return own

    @property
    def has_energy(self) -> bool:
        """Whether the profile has any number of its energy."""
        return (self.power, self.operation_energy, self.byte_energy) != (None, None, None)

    def joules(self, work: PhaseWork, seconds: float) -> float:
        """The energy of a phase: power * time, and that of its operations and bytes; unknown numbers count as 0."""
        numbers = self.power, self.operation_energy, self.byte_energy
        power, operation, byte = (0.0 if one is None else one.value for one in numbers)
        return power * seconds + operation * work.operations + byte * (work.moved + work.weights)

    def busy(self, pixels: float, channels: int, groups: int = 1) -> float:
        """The share of the processor, up to 1, that computes results in a matrix product; 1 if the profile has no
        waves. pixels: of all images of the call.

        A product is computed in square blocks of its result, each by one multiprocessor. The last wave of blocks
        takes as long as a full one, and a block at the edge as long as a whole one, so that small products, such
        as layers of few pixels on one image, leave most of a large processor idle.

        Source: NVIDIA, Matrix Multiplication Background User's Guide (DU-09799-001), tile and wave quantization.

        >>> from csdfgen.devices.catalogue import device
        >>> k80 = device("tesla-k80").processor  # 13 multiprocessors, blocks of 64x64
        >>> k80.busy(64 * 13, 64), k80.busy(64 * 14, 64) == 14 / 26, k80.busy(49, 64) == 49 / 64 / 13
        (1.0, True, True)
        """
        if self.multiprocessors is None or self.tile is None:
            return 1.0
        tile, count = self.tile.value, self.multiprocessors.value
        blocks = groups * -(-pixels // tile) * -(-(channels / groups) // tile)
        waves = -(-blocks // count)
        return pixels * channels / (waves * count * tile**2)


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Time of an operator kind: `launch` a phase, `time` per unit of `work`, `access` per byte moved, `weights` per byte
    of weights, which every phase fetches into the nearest cache again.

    types: ONNX operators, "*" for all that no other entry names. kernel: "" for any, "3x3" for that window,
    "depthwise" for one channel a group. formats: "" for float32 and for formats without an entry, else those of
    `work.format_key` ("int8", "int8->int16"). error: median distance of the fit from its points. cached: of networks that stay
    in the cache.
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
    cached: bool = False


@dataclass(frozen=True, slots=True)
class LayerCost:
    """Measured time of a phase of one layer shape: launch + rows * slope, and the points of the fit.

    rows: rows a phase of each point; times: mean s of a phase; spread: distance between the quartiles of the repeats,
    relative to the median; error: largest distance of the fit from a point.
    images, calls: s of a phase of all rows of so many images. If these were measured, times are interpolated in both
    tables and the fit is not used: a product of two rows may take longer than two products of one.
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
        """Seconds of a phase of so many rows, or of all rows of several images."""
        if self.calls is None:
            return self._of_rows(rows) * images
        if images > 1:
            return _between(_points(self.images, self.calls.values), images)
        return _between(_points(self.rows, self.times.values), rows)

    def _of_rows(self, rows: int) -> float:
        return self.launch.value + self.slope.value * rows


@dataclass(frozen=True, slots=True)
class PointwiseCost(LayerCost):
    """A layer cost whose times are interpolated between the measured heights instead of taken from the fit, as kernels
    change from height to height.
    """

    points: tuple[tuple[float, float], ...] = ()
    """(rows of a phase, its seconds), by rows."""

    def _of_rows(self, rows: int) -> float:
        return _between(self.points, rows)


@lru_cache(maxsize=4096)
def _points(amounts: tuple[int, ...], times: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    """(amount, seconds) by amount; the mean where an amount was measured more than once."""
    found: dict[int, list[float]] = {}
    for amount, seconds in zip(amounts, times, strict=True):
        found.setdefault(amount, []).append(seconds)
    return tuple((amount, fmean(found[amount])) for amount in sorted(found))


def _between(points: Sequence[tuple[float, float]], amount: float) -> float:
    """Seconds by linear interpolation between the neighbours of an amount; beyond the ends in proportion to the amount
    from there. points: (amount, seconds), by amount.
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
    """A device: its memory, its processor, and costs by layer shape, by operator kind, or by roofline.

    sources: key -> the source in words. conditions: of a measurement, as text by name. where: the file.
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

    def within(self, nbytes: int) -> DeviceProfile:
        """The costs of a network that takes so many bytes: those of networks in the cache come first, or do not count."""
        cache = self.memory.cache
        here = cache is not None and nbytes <= cache.value
        ordered = sorted(self.operators, key=lambda one: not one.cached)
        kept = tuple(one for one in ordered if here or not one.cached)
        return self if kept == self.operators else replace(self, operators=kept)

    @property
    def kind(self) -> str:
        """How times are obtained, in a few words."""
        if self.layers:
            return "measured, by layer shape"
        if self.operators:
            return f"{self.operators[0].time.origin}, by operator kind"
        return "modelled, roofline"
