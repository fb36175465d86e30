"""Which part of what was seen should integers cover? Four answers from one histogram.

"minmax": all of it. "percentile": all but a share of the values at each end. "mse": the range with the
least squared error, of rounding within it and of clipping outside. "kl": the range whose integers tell most of the
histogram, by relative entropy. Sources: paper 004, section 4.1.3; S. Migacz, "8-bit Inference with TensorRT", GTC 2017
(entropy calibration). A few outliers cost all other values their resolution; the methods differ in how many they cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from csdfgen.precision.ranges import (
    BINS,
    Observer,
    Range,
    choose_format,
    fake_quantize,
    quantization_step,
)

PERCENTILE = 99.99
"""Per cent of the values that "percentile" keeps between the two ends."""

_MAGNITUDES = 128
"""Largest magnitudes that are tried for the least relative entropy, evenly spaced."""

_WIDER = np.linspace(1, 1.15, 46).tolist()
"""Factors by which a range is made wider where its integers are then closer to the observed values."""

_STEPS = 96
"""Ends that are estimated on each side for the least squared error."""

_ROUNDED, _RANGES = 2**18, 1024
"""Bins that may be rounded to find the best of these ranges, and ranges, at most."""

_LEVELS = 256

_LEAST = 1e-12
"""Share of the values that a bin has at least which integers do not tell."""


def threshold(seen: Observer, method: str, percentile: float = PERCENTILE) -> Range:
    """The range that 256 integers should cover, within what was seen.

    method: one of METHODS. A tensor with one value only is all of its range.
    """
    if seen.low > seen.high:
        return 0.0, 0.0
    if not seen.width:
        return seen.low, seen.high
    low, high = METHODS[method](seen, percentile)
    return max(low, seen.low), min(high, seen.high)


def adjust_range(seen: Observer, ends: Range, bounds: Range) -> Range:
    """The range, or one a little wider within bounds, whose 256 integers are closest to the observed values.

    A background repeats one value, for which the mean rounding error does not hold: the same error everywhere
    weighs more than noise.
    """
    if not seen.width:
        return ends
    wider = (
        tuple(min(max(factor * end, bounds[0]), bounds[1]) for end in ends) for factor in _WIDER
    )
    return min(((low, high) for low, high in wider), key=partial(_squared_error, *_values(seen)))


def _values(seen: Observer) -> tuple[np.ndarray, np.ndarray]:
    """Middles of the bins that hold values, and how many; those around zero are zero, which is exact in any range."""
    kept = seen.counts > 0
    centres = seen.centres[kept]
    centres[np.abs(centres) <= seen.width / 2] = 0
    return centres, seen.counts[kept].astype(np.float64)


def _squared_error(values: np.ndarray, counts: np.ndarray, found: Range) -> float:
    """The sum of the squared errors of values in integers that cover a range."""
    off = fake_quantize(values, choose_format(found, "uint8")).astype(np.float64) - values
    return float((off**2) @ counts)


def _minmax(seen: Observer, percentile: float) -> Range:
    return seen.low, seen.high


def _percentile(seen: Observer, percentile: float) -> Range:
    """Ends of the bins beyond which half of the rest is on each side."""
    below = np.cumsum(seen.counts)
    rest = (100.0 - percentile) / 200.0 * below[-1]
    first = int(np.searchsorted(below, rest, "right"))
    last = int(np.searchsorted(below, below[-1] - rest, "left"))
    edges = seen.edges
    return float(edges[min(first, BINS - 1)]), float(edges[min(last + 1, BINS)])


def _least_squares(seen: Observer, percentile: float) -> Range:
    """Ends among evenly spaced ones from 0 to what was seen, both sides together.

    An estimate chooses which of them are tried: clipped values err by their distance from the end, others by a twelfth
    of the squared step, and zero not at all.
    """
    values, counts = _values(seen)
    lows, highs = (
        np.linspace(end, 0.0, _STEPS, endpoint=False) if end else np.zeros(1)
        for end in (min(seen.low, 0.0), max(seen.high, 0.0))
    )
    under = np.maximum(lows[:, None] - values, 0) ** 2 @ counts
    over = np.maximum(values - highs[:, None], 0) ** 2 @ counts
    below = np.append(0.0, np.cumsum(np.where(values == 0, 0, counts)))
    up_to, before = np.searchsorted(values, highs, "right"), np.searchsorted(values, lows)
    inside = below[up_to][None, :] - below[before][:, None]
    step = (highs[None, :] - lows[:, None]) / (_LEVELS - 1)
    error = under[:, None] + over[None, :] + inside * step**2 / 12
    tried = np.argsort(error, None, kind="stable")[: min(_RANGES, 1 + _ROUNDED // values.size)]
    rows, columns = np.unravel_index(np.append(tried, 0), error.shape)  # the first is all of it
    ranges = zip(lows[rows].tolist(), highs[columns].tolist(), strict=True)
    return min(ranges, key=partial(_squared_error, values, counts))


def _relative_entropy(seen: Observer, percentile: float) -> Range:
    """The range up to the magnitude at which the integers tell most of the histogram."""
    counts, centres, half = seen.counts.astype(np.float64), seen.centres, seen.width / 2
    if np.count_nonzero(counts) > 1:  # zeros are exact with any range
        counts[np.abs(centres) <= half] = 0
    magnitude = max(-seen.low, seen.high)
    best, found = np.inf, (seen.low, seen.high)
    for tried in magnitude * np.arange(_MAGNITUDES, 0, -1) / _MAGNITUDES:
        low, high = max(-tried, min(seen.low, 0.0)), min(tried, max(seen.high, 0.0))
        step = quantization_step(choose_format((low, high), "uint8"))
        inside = np.flatnonzero((low - half <= centres) & (centres <= high + half))
        if step < seen.width or not inside.size:
            break
        integers = np.rint(centres[inside] / step).astype(np.intp)
        divergence = _divergence(counts, inside, integers - integers[0])
        if divergence < best:
            best, found = divergence, (low, high)
    return found


def _divergence(counts: np.ndarray, inside: np.ndarray, integers: np.ndarray) -> float:
    """Relative entropy of a histogram, of which clipped values are in the end bins, against what the integers of its bins
    `inside` tell of it.

    An integer stands for all bins in which there is something, alike. Values outside are no part of what it tells, so that
    clipping costs. Of n values drawn from a level density, k bins hold different numbers by chance, which adds (k - 1) / 2n
    to a relative entropy (Miller, "Note on the bias of information estimates", 1955): that much is taken off.
    """
    kept, total = counts[inside], counts.sum()
    clipped = kept.copy()
    clipped[0] += counts[: inside[0]].sum()
    clipped[-1] += counts[inside[-1] + 1 :].sum()
    there = clipped > 0
    sums, filled = (np.bincount(integers, weights=one) for one in (kept, there))
    told = (sums / np.maximum(filled, 1))[integers][there]
    if not told.sum():
        return float("inf")
    p, q = clipped[there] / total, np.maximum(told / told.sum(), _LEAST)
    chance = (there.sum() - np.count_nonzero(filled)) / (2 * total)
    return float(p @ np.log(p / q)) - float(chance)


METHODS: Mapping[str, Callable[[Observer, float], Range]] = MappingProxyType(
    {"minmax": _minmax, "percentile": _percentile, "mse": _least_squares, "kl": _relative_entropy}
)
