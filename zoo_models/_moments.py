"""What are the elements of an activation expected to be like? Their mean and mean square, followed
through a network.

Elements are taken for normal and independent, weights for random with mean zero. That is rough, but
good to a factor of a few through a hundred layers, which is what seeded weights need to keep a
network in range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

POOLED_VARIANCE = 0.1
"""What is left of the variance when a whole map is averaged; its elements are not quite
independent.
"""

_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(48)


class Moments(NamedTuple):
    """Expected mean and mean square."""

    mean: float
    square: float

    @property
    def variance(self) -> float:
        return max(0.0, self.square - self.mean * self.mean)


NORMAL = Moments(0.0, 1.0)
"""What BatchNormalization makes, and what images are scaled to."""


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _hard_sigmoid(x: np.ndarray) -> np.ndarray:
    return np.clip(x / 6 + 0.5, 0, 1)


FUNCTIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = MappingProxyType(
    {
        "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.clip(x, 0, 6),
        "leaky_relu": lambda x: np.where(x > 0, x, 0.1 * x),
        "hard_swish": lambda x: x * _hard_sigmoid(x),
        "silu": lambda x: x * _sigmoid(x),
        "sigmoid": _sigmoid,
        "hard_sigmoid": _hard_sigmoid,
        "tanh": np.tanh,
    }
)


def apply_activation(activation: str, x: Moments) -> Moments:
    """After an activation, by Gauss-Hermite quadrature.

    >>> [round(moment, 2) for moment in apply_activation("relu", NORMAL)]
    [0.4, 0.5]
    """
    values = FUNCTIONS[activation](x.mean + x.variance**0.5 * _POINTS)
    weights = _WEIGHTS / _WEIGHTS.sum()
    return Moments(float(weights @ values), float(weights @ values**2))


def apply_weights(x: Moments) -> Moments:
    """After weights with He's variance, 2 / fan-in."""
    return Moments(0.0, 2 * x.square)


def weigh_channels(weight: np.ndarray, x: Moments) -> np.ndarray:
    """Mean square of every channel after a weight of shape (channels, ...)."""
    rows = weight.reshape(len(weight), -1)
    return x.square * np.einsum("ij,ij->i", rows, rows)


def average_map(x: Moments) -> Moments:
    """After the mean of a whole map."""
    return Moments(x.mean, x.mean**2 + POOLED_VARIANCE * x.variance)


def add(a: Moments, b: Moments) -> Moments:
    """The sum of two."""
    return Moments(a.mean + b.mean, a.square + b.square + 2 * a.mean * b.mean)


def scale(x: Moments, factor: Moments) -> Moments:
    """The product of two."""
    return Moments(x.mean * factor.mean, x.square * factor.square)
