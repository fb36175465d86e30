"""What values did a tensor have? Lowest, highest and a histogram, slab after slab.

A histogram has 2,048 bins, whatever its range: where values leave it, its range doubles on that side
and bins are joined in pairs. A tensor takes 16 KiB, and no slab is kept.

The integers of a type cover a range by a scale and a zero point. Source:
https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html and paper 003, section 1 (formulas 1.1 and 1.2). Zero is always
represented exactly: padding and Relu need it. A range of zero width is legal: its integers stand for its value and zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.ops.stored import quantize_values, read_values

BINS = 2048

Range = tuple[float, float]
"""Lowest and highest value."""

EVERYTHING: Range = (-math.inf, math.inf)
"""The range of a tensor of which nothing is known."""

_DOUBLINGS = 300
"""How often a range may double: more than exponents of float32 ever ask for."""


@dataclass(slots=True)
class Observer:
    """What was seen of one tensor.

    low, high: of all values; (inf, -inf) before any. start, width: where the first bin begins, and how
    wide every bin is; width 0 as long as all values were the same. counts: values in each bin.
    finite: whether every value was a number.

    >>> seen = Observer(); seen.see(np.array([0.0, 1.0])); seen.see(np.array([-3.0]))
    >>> seen.low, seen.high, int(seen.counts.sum())
    (-3.0, 1.0, 3)
    """

    low: float = math.inf
    high: float = -math.inf
    start: float = 0.0
    width: float = 0.0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    finite: bool = True

    def see(self, rows: np.ndarray) -> None:
        """Take in rows of any shape; they are not kept."""
        if not rows.size:
            return
        low, high = float(rows.min()), float(rows.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            self.finite = False
            return
        before = self.low, self.high
        self.low, self.high = min(low, self.low), max(high, self.high)
        if not self.width and self.low < self.high:
            self._begin(before)
        if not self.width:
            self.counts[0] += rows.size
            return
        self._reach()
        self._count(rows)

    @property
    def count(self) -> int:
        """How many values were seen."""
        return int(self.counts.sum())

    @property
    def edges(self) -> np.ndarray:
        """The borders of the bins, BINS + 1 numbers, float64."""
        return self.start + self.width * np.arange(BINS + 1)

    @property
    def centres(self) -> np.ndarray:
        """The middle of each bin, float64; of a tensor with one value only, that value."""
        return (
            self.start + self.width * (np.arange(BINS) + 0.5)
            if self.width
            else np.full(BINS, self.low)
        )

    def within(self, low: float, high: float) -> Observer:
        """The same, had values beyond a range been its ends; low below high.

        >>> seen = Observer(); seen.see(np.array([-9.0, 0.0, 1.0])); seen.within(-3.0, 3.0).low
        -3.0
        """
        if not self.width or (low <= self.low and self.high <= high):
            return self
        at = np.clip((np.array([low, high]) - self.start) / self.width, 0, BINS - 1).astype(np.intp)
        first, last = int(at[0]), int(at[1])
        counts = np.zeros_like(self.counts)
        counts[first : last + 1] = self.counts[first : last + 1]
        counts[first] += self.counts[:first].sum()
        counts[last] += self.counts[last + 1 :].sum()
        ends = (min(max(one, low), high) for one in (self.low, self.high))
        return replace(self, low=next(ends), high=next(ends), counts=counts)

    def _begin(self, before: Range) -> None:
        """Bins over what has been seen; what was counted up to now were all the same value."""
        same, self.counts[0] = int(self.counts[0]), 0
        self.start, self.width = self.low, _above(self.high - self.low)
        if same:
            self._count(np.full(1, before[0]), same)

    def _reach(self) -> None:
        """Double the range until it holds the lowest and the highest value."""
        for _ in range(_DOUBLINGS):
            end = self.start + self.width * BINS
            if self.start <= self.low and self.high <= end:
                return
            joined = self.counts.reshape(-1, 2).sum(1)
            self.counts[:] = 0
            if self.low < self.start:
                self.start -= self.width * BINS
                self.counts[BINS // 2 :] = joined
            else:
                self.counts[: BINS // 2] = joined
            self.width *= 2

    def _count(self, values: np.ndarray, times: int = 1) -> None:
        at = ((values.reshape(-1).astype(np.float64) - self.start) / self.width).astype(np.intp)
        np.minimum(at, BINS - 1, out=at)
        np.maximum(at, 0, out=at)
        self.counts += times * np.bincount(at, minlength=BINS)


def _above(span: float) -> float:
    """The width of a bin of a span, above 0 though the span be as small as numbers get."""
    return max(span / BINS, 5e-324)


# Integers of a range -----------------------------------------------------------------------------


def choose_format(found: Range, dtype: str) -> Format:
    """The format in which integers of a type cover a range and zero.

    >>> str(choose_format((0.0, 255.0), "int8")), str(choose_format((0.0, 0.0), "int8"))
    ('int8*1+-128', 'int8*1+-128')
    """
    info = np.iinfo(dtype)
    low, high = min(found[0], 0.0), max(found[1], 0.0)
    scale = np.float32((high - low) / (info.max - info.min))
    if not (scale > 0 and np.isfinite(scale)):
        scale = np.float32(1 if high == low or not scale > 0 else np.finfo(np.float32).max)
    scale = max(scale, np.finfo(np.float32).tiny)  # smaller ones have fewer bits
    zero = int(np.clip(np.rint(info.min - low / float(scale)), info.min, info.max))
    return Format(dtype, (float(scale),), (zero,))


def quantization_step(form: Format) -> float:
    """The value between two neighbouring integers."""
    assert form.scale is not None
    return form.scale[0]


def fake_quantize(values: np.ndarray, form: Format) -> np.ndarray:
    """What becomes of values that are stored in a format and read again, as float32.

    >>> fake_quantize(np.array([-100.0, 0.5, 0.74, 100.0]), Format("int8", (0.5,), (3,))).tolist()
    [-65.5, 0.5, 0.5, 62.0]
    """
    return read_values(quantize_values(values, form), form)
