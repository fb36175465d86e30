"""Celsius to Fahrenheit by one neuron, in four formats: Table 4.6.

The weights are exact here, 1.8 and 32, so that the errors are those of the formats alone. The paper
trained them, in 2,000 steps of one sample: `train_neuron` does as its settings say.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from csdfgen.backends import ALWAYS
from csdfgen.paper.cells import Cell
from csdfgen.paper.formats.claims import COLD, HOT, fahrenheit
from csdfgen.paper.formats.dense import (
    Dense,
    build_model,
    compare_formats,
    observe_ranges,
    run_in_floats,
    run_model,
)
from csdfgen.paper.formats.printed import FORMATS, TABLE_4_6

NEURON = (Dense(np.array([[1.8]]), np.array([32.0])),)

_STEPS, _RATE, _GAMMA, _POWER = 2000, 1.0, 0.01, 0.75
_MOMENTUM, _SECOND, _DECAY, _EPSILON = 0.99, 0.999, 0.00005, 1e-8
_RUNS = 20


def degrees() -> np.ndarray:
    """All 1,273 whole degrees of the example: (1273, 1)."""
    return np.arange(COLD, HOT + 1)[:, None]


def mean_errors(backend: str = ALWAYS) -> dict[str, float]:
    """Format -> mean error in degrees Fahrenheit, as csdfgen runs the neuron."""
    x = degrees()
    seen = observe_ranges(NEURON, x)
    return {
        name: _error(run_model(build_model(name, NEURON, seen), x, backend)) for name in FORMATS
    }


def _error(found: np.ndarray) -> float:
    return float(np.abs(found - fahrenheit(degrees())).mean())


def train_neuron(seed: int) -> tuple[Dense, ...]:
    """The neuron by the paper's settings: Adam at rate 1 that falls, one sample a step, nine tenths of the
    degrees. What it starts from is not printed: a normal weight, no bias.
    """
    rng = np.random.default_rng(seed)
    x = degrees()[:, 0]
    samples = rng.permutation(x)[: len(x) * 9 // 10]
    at = np.array([rng.normal(), 0.0])
    mean, square = np.zeros(2), np.zeros(2)
    for step in range(_STEPS):
        c = samples[step % len(samples)]
        wrong = at[0] * c + at[1] - fahrenheit(c)
        slope = np.array([wrong * c, wrong]) + _DECAY * at
        mean = _MOMENTUM * mean + (1 - _MOMENTUM) * slope
        square = _SECOND * square + (1 - _SECOND) * slope**2
        bias = np.sqrt(1 - _SECOND ** (step + 1)) / (1 - _MOMENTUM ** (step + 1))
        rate = _RATE * (1 + _GAMMA * step) ** -_POWER * bias
        at = at - rate * mean / (np.sqrt(square) + _EPSILON)
    return (Dense(at[:1, None], at[1:]),)


def table_4_6() -> Iterator[Cell]:
    """Errors with exact weights, by the paper's own integers, and what training leaves."""
    for (name, ours), printed in zip(mean_errors().items(), TABLE_4_6, strict=True):
        note = "without training error, which the printed row includes in every format"
        yield Cell("4.6", "exact weights", name, "F", printed, ours, 5, note)
    x = degrees()
    yield from compare_formats("4.6", "exact weights", "F", 5, NEURON, x, x, _error)
    errors = [_error(run_in_floats(train_neuron(seed), x)) for seed in range(_RUNS)]
    note = f"median of {_RUNS} runs, from {min(errors):.2g} to {max(errors):.2g} F"
    yield Cell(
        "4.6", "trained as printed", "float32", "F", TABLE_4_6[0], float(np.median(errors)), 5, note
    )
