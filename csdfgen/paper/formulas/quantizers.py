"""How does the paper make integers of values, and which values are left of them? Formulas 1.1 to 1.5, and
a layer's quantizers with their four modes.

Integers are unsigned: 0 to 255 for int8, 0 to 65,535 for int16. A range of values [low, high] has the
scale s = (high - low) / (largest - smallest) and the zero point i0 = clamp(round(smallest - low / s)); i
stands for (i - i0) * s. What the print leaves open is settled here: ties are rounded away from 0, as the
published code does, and a range of no width has the scale that its one value needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from csdfgen.errors import InputError

TYPES = {"int8": "uint8", "int16": "uint16"}
"""The paper's names of its integers -> numpy's."""

Mode = Literal["passive", "observe", "pseudo-quantize", "quantize"]
MODES: tuple[Mode, ...] = ("passive", "observe", "pseudo-quantize", "quantize")
"""What a quantizer does to the values that pass it: nothing; widens its range; bins them, but leaves
them floating point; makes integers of them.
"""


def round_half_away(values: np.ndarray | float) -> np.ndarray:
    """Rounded to whole numbers, halves away from 0. float64, any shape.

    >>> round_half_away(np.array([0.5, 1.5, -2.5, 2.4])).tolist()
    [1.0, 2.0, -3.0, 2.0]
    """
    values = np.asarray(values, np.float64)
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


def choose_zero_point(low: float, scale: float, dtype: str) -> int:
    """Formula 1.2: the integer that stands for 0, as near to it as the type goes.

    >>> choose_zero_point(-1.0, 0.01, "uint8"), choose_zero_point(5.0, 0.01, "uint8")
    (100, 0)
    """
    kind = np.iinfo(dtype)
    return int(np.clip(round_half_away(kind.min - low / scale), kind.min, kind.max))


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the largest value that was observed; none yet: infinite ends the wrong way round.

    >>> Range().observed(np.array([3.0, -1.0])).observed(np.array([2.0]))
    Range(low=-1.0, high=3.0)
    """

    low: float = np.inf
    high: float = -np.inf

    def observed(self, values: np.ndarray) -> Range:
        """The range that holds these values too; none change nothing. Raises InputError for values that are not numbers."""
        if not values.size:
            return self
        if not np.isfinite(values).all():
            wrong = int(values.size - np.isfinite(values).sum())
            raise InputError(f"{wrong} of {values.size} observed values are not finite")
        return Range(min(self.low, float(values.min())), max(self.high, float(values.max())))

    def with_zero(self) -> Range:
        """The range that holds 0 too: without it, formula 1.2 clamps and the far end is cut off."""
        return Range(min(self.low, 0.0), max(self.high, 0.0))


@dataclass(frozen=True, slots=True)
class Quantizer:
    """What integers of a type stand for. scale: above 0. dtype: numpy's name, unsigned or signed."""

    scale: float
    zero_point: int
    dtype: str

    @classmethod
    def of(cls, found: Range, dtype: str) -> Quantizer:
        """Formulas 1.1 and 1.2. A range of no width is legal: its value is the largest integer's, or
        1.0 is the scale where it is 0. Raises InputError for a range that nothing was observed for.

        >>> Quantizer.of(Range(-273.0, 999.0), "uint8").zero_point
        55
        >>> exact = Quantizer.of(Range(1.8, 1.8), "uint8")
        >>> round(float(exact.values(exact.integers(np.array([1.8])))[0]), 12)
        1.8
        """
        if found.low > found.high:
            raise InputError("nothing was observed, so that there is no range to quantize")
        kind = np.iinfo(dtype)
        if found.low == found.high:
            found = found.with_zero()
        scale = (found.high - found.low) / (kind.max - kind.min)
        if scale <= 0:  # only zeros were seen, or values too near 0 for a scale of their own
            return cls(1.0, choose_zero_point(0.0, 1.0, dtype), dtype)
        return cls(scale, choose_zero_point(found.low, scale, dtype), dtype)

    @property
    def one(self) -> float:
        """Formula 1.3: what stands for 1, not rounded."""
        return 1.0 / self.scale + self.zero_point

    def integers(self, values: np.ndarray) -> np.ndarray:
        """Of `dtype`, same shape; values outside the range are cut off to its ends."""
        kind = np.iinfo(self.dtype)
        found = round_half_away(np.asarray(values, np.float64) / self.scale) + self.zero_point
        return np.clip(found, kind.min, kind.max).astype(self.dtype)

    def values(self, integers: np.ndarray) -> np.ndarray:
        """What integers stand for; float64, same shape."""
        return (np.asarray(integers, np.float64) - self.zero_point) * self.scale


def pseudo_quantize(values: np.ndarray, quantizer: Quantizer) -> np.ndarray:
    """Pseudo-quantization: values as their integers would give them back. Same shape and type.

    >>> pseudo_quantize(np.array([0.26, 9.0], np.float32), Quantizer(0.5, 0, "uint8")).tolist()
    [0.5, 9.0]
    """
    return quantizer.values(quantizer.integers(values)).astype(values.dtype)


@dataclass(frozen=True, slots=True)
class Tap:
    """A quantizer of one input, output or parameter of a layer. mode: what it does to what passes."""

    mode: Mode = "passive"
    dtype: str = "uint8"
    seen: Range = Range()

    def passed(self, values: np.ndarray) -> tuple[Tap, np.ndarray]:
        """What the values are behind the tap, and the tap as it is now. Raises InputError for a mode
        that is none, and for binning before anything was observed.

        >>> tap, _ = Tap("observe").passed(np.array([-1.0, 1.55]))
        >>> replace(tap, mode="quantize").passed(np.array([0.0, 0.5]))[1].tolist()
        [100, 150]
        """
        if self.mode not in MODES:
            raise InputError(f"mode '{self.mode}' is none of {', '.join(MODES)}")
        if self.mode == "passive":
            return self, values
        if self.mode == "observe":
            return replace(self, seen=self.seen.observed(values)), values
        quantizer = Quantizer.of(self.seen, self.dtype)
        if self.mode == "quantize":
            return self, quantizer.integers(values)
        return self, pseudo_quantize(values, quantizer)
