"""Which part of what was seen should integers cover? Four answers from one histogram.

"minmax": all of it. "percentile": all but a share of the values at each end. "mse": the range with the
least squared error, of rounding within it and of clipping outside. "kl": the range whose integers differ least
from the histogram, by relative entropy (paper 004, section 4.1.3, in the usual procedure: bins are merged into as
many levels as there are integers, and clipped values are counted in the last bin on their side).
A few outliers cost all other values their resolution; the methods differ in how many they cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from csdfgen.precision.ranges import BINS, Observer, Range, binned, format_of

__all__ = ["METHODS", "PERCENTILE", "settled", "threshold"]

PERCENTILE = 99.99
"""Per cent of the values that "percentile" keeps between the two ends."""

_MAGNITUDES = 128
"""Largest magnitudes that are tried for the least relative entropy, evenly spaced."""

_WIDER = np.linspace(1, 1.15, 46).tolist()
"""Factors by which a range is made wider where its integers are then closer to the observed values."""

_STEPS = 96
"""Ends that are tried on each side for the least squared error."""


def threshold(
    seen: Observer, method: str, levels: int = 256, percentile: float = PERCENTILE
) -> Range:
    """The range to cover, within what was seen. levels: integers that there are for it.

    method: one of METHODS. A tensor with one value only is all of its range.
    """
    if seen.low > seen.high:
        return 0.0, 0.0
    if not seen.width:
        return seen.low, seen.high
    low, high = METHODS[method](seen, levels, percentile)
    return max(low, seen.low), min(high, seen.high)


def settled(seen: Observer, ends: Range, bounds: Range) -> Range:
    """The range, or one a little wider within bounds, whose 256 integers are closest to the observed values.

    A background repeats one value, for which the mean rounding error does not hold: the same error everywhere
    weighs more than noise.
    """
    if not seen.width:
        return ends
    kept = seen.counts > 0
    centres, counts = seen.centres[kept], seen.counts[kept].astype(np.float64)

    def error(found: Range) -> float:
        off = binned(centres, format_of(found, "uint8")).astype(np.float64) - centres
        return float((off**2) @ counts)

    wider = (
        tuple(min(max(factor * end, bounds[0]), bounds[1]) for end in ends) for factor in _WIDER
    )
    return min(((low, high) for low, high in wider), key=error)


def _minmax(seen: Observer, levels: int, percentile: float) -> Range:
    return seen.low, seen.high


def _percentile(seen: Observer, levels: int, percentile: float) -> Range:
    """Ends of the bins beyond which half of the rest is on each side."""
    below = np.cumsum(seen.counts)
    rest = (100.0 - percentile) / 200.0 * below[-1]
    first = int(np.searchsorted(below, rest, "right"))
    last = int(np.searchsorted(below, below[-1] - rest, "left"))
    edges = seen.edges
    return float(edges[min(first, BINS - 1)]), float(edges[min(last + 1, BINS)])


def _least_squares(seen: Observer, levels: int, percentile: float) -> Range:
    """Ends among evenly spaced ones from 0 to what was seen, both sides together: clipped values err by
    their distance from the end, others by a twelfth of the squared step.
    """
    centres, counts = seen.centres, seen.counts.astype(np.float64)
    lows = (
        np.linspace(min(seen.low, 0.0), 0.0, _STEPS, endpoint=False)
        if seen.low < 0
        else np.zeros(1)
    )
    highs = (
        np.linspace(max(seen.high, 0.0), 0.0, _STEPS, endpoint=False)
        if seen.high > 0
        else np.zeros(1)
    )
    under = np.maximum(lows[:, None] - centres, 0) ** 2 @ counts
    over = np.maximum(centres - highs[:, None], 0) ** 2 @ counts
    step = (highs[None, :] - lows[:, None]) / (levels - 1)
    beyond = np.cumsum(counts)
    inside = (
        np.interp(highs, seen.edges[1:], beyond)[None, :]
        - np.interp(lows, seen.edges[1:], beyond)[:, None]
    )
    error = under[:, None] + over[None, :] + np.maximum(inside, 0) * step**2 / 12
    row, column = np.unravel_index(int(np.argmin(error)), error.shape)
    return float(lows[row]), float(highs[column])


def _relative_entropy(seen: Observer, levels: int, percentile: float) -> Range:
    """The range up to the magnitude at which the levels tell most of the histogram."""
    counts, centres = seen.counts.astype(np.float64), seen.centres
    if np.count_nonzero(counts) > 1:  # zeros are exact with any range
        counts[np.abs(centres) <= seen.width / 2] = 0
    best, magnitude = np.inf, max(-seen.low, seen.high)
    for tried in magnitude * np.arange(_MAGNITUDES, 0, -1) / _MAGNITUDES:
        inside = np.flatnonzero(np.abs(centres) <= tried)
        if len(inside) < levels:
            break
        divergence = _divergence(counts, int(inside[0]), int(inside[-1]) + 1, levels)
        if divergence < best:
            best, magnitude = divergence, float(tried)
    return -magnitude, magnitude


def _divergence(counts: np.ndarray, first: int, end: int, levels: int) -> float:
    """Relative entropy of a histogram, clipped to the bins [first, end), against what levels leave of it."""
    kept = counts[first:end]
    clipped = kept.copy()
    clipped[0] += counts[:first].sum()
    clipped[-1] += counts[end:].sum()
    level = np.arange(len(kept)) * levels // len(kept)
    sums = np.bincount(level, weights=kept, minlength=levels)
    filled = np.bincount(level, weights=kept > 0, minlength=levels)
    share = np.divide(sums, filled, out=np.zeros(levels), where=filled > 0)
    merged = np.where(kept > 0, share[level], 0)
    if not merged.sum():
        return float("inf")
    p, q = clipped / clipped.sum(), merged / merged.sum()
    both = (p > 0) & (q > 0)
    lost = float(p[(p > 0) & (q <= 0)].sum())
    return float((p[both] * np.log(p[both] / q[both])).sum()) + lost


METHODS: Mapping[str, Callable[[Observer, int, float], Range]] = MappingProxyType(
    {
        "minmax": _minmax,
        "percentile": _percentile,
        "mse": _least_squares,
        "kl": _relative_entropy,
    }
)
