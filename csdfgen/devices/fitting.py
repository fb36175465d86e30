"""Which launch time and slope explain measured times? Least squares of relative distances, both 0 or more.

Distances are relative because the fit serves slabs of one row and of many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["LineFit", "fit_line"]


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
