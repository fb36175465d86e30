"""Which launch time and slope, or which terms, explain measured times? Least squares of relative distances, all 0 or more.

Distances are relative because the fit serves slabs of one row and of many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_ROUNDS, _FAR = 30, 0.1
"""Of weights, and the relative distance from which a point counts less."""


@dataclass(frozen=True, slots=True)
class LineFit:
    """time = launch + slope * amount. residuals: (fitted - measured) / measured of every point."""

    launch: float
    slope: float
    residuals: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median relative distance."""
        return float(np.median(np.abs(self.residuals)))

    @property
    def largest(self) -> float:
        """Largest relative distance."""
        return float(np.max(np.abs(self.residuals)))


def fit_line(amounts: Sequence[float], times: Sequence[float]) -> LineFit:
    """The line through points (amount, time > 0) with the least sum of squared relative residuals.

    The slope is 0 if all amounts are equal.

    >>> fit = fit_line([1, 2, 4], [3.0, 5.0, 9.0])
    >>> round(fit.launch, 6), round(fit.slope, 6)
    (1.0, 2.0)
    >>> fit_line([7, 7], [2.0, 2.0]).slope
    0.0
    """
    x, y = np.asarray(amounts, float), np.asarray(times, float)
    weight = 1 / y
    candidates = [(float(np.sum(weight) / np.sum(weight**2)), 0.0)]  # launch alone
    if np.ptp(x) > 0:
        candidates.append((0.0, float(np.sum(x * weight) / np.sum((x * weight) ** 2))))
        system = np.stack([weight, x * weight], axis=1)
        launch, slope = np.linalg.lstsq(system, np.ones_like(y), rcond=None)[0]
        if launch >= 0 and slope >= 0:
            candidates.append((float(launch), float(slope)))
    launch, slope = min(candidates, key=lambda c: float(np.sum(((c[0] + c[1] * x) / y - 1) ** 2)))
    return LineFit(launch, slope, tuple(((launch + slope * x) / y - 1).tolist()))


def fit_terms(terms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Factors of 0 or more, (terms,), of the sums that are relatively closest to the times. terms: (points, terms); times:
    (points,), above 0. Points far from the sums count less: least squares of log(sum / time), reweighted.

    >>> fit_terms(np.array([[1, 2], [1, 4], [1, 9]]), np.array([5.0, 9.0, 19.0])).round(6).tolist()
    [1.0, 2.0]
    """
    from scipy.optimize import nnls  # 20 MiB, for measurements alone

    relative = np.asarray(terms, float) / np.asarray(times, float)[:, None]
    size = relative.max(axis=0)
    relative = relative / np.where(size > 0, size, 1)
    found, _ = nnls(relative, np.ones(len(relative)))
    for _ in range(_ROUNDS):
        sums = np.maximum(relative @ found, 1e-3)
        distance = np.log(sums)
        weight = (1 + (distance / _FAR) ** 2) ** -0.25
        # log(sum) near the last sums is distance + sum / last - 1
        better, _ = nnls(
            relative / sums[:, None] * weight[:, None], np.clip(1 - distance, 0.2, 3) * weight
        )
        found = (found + better) / 2
    return np.where(size > 0, found / np.where(size > 0, size, 1), 0.0)
