"""What does the paper's integer arithmetic lose by itself? Levels, steps, and bits of the factor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from csdfgen.paper.cells import Cell
from csdfgen.paper.formulas.integers import (
    Factor,
    multiply_separated,
    relu,
    rescale_sums,
    round_sums,
    shift_bits,
)

_SHAPE = (64, 72, 54)
"""Pixels, terms and channels of a small convolution as a matrix product: 3,456 results."""


def losses() -> Iterator[Cell]:
    """ReLU's levels by Listing 1.4, results of a convolution that are off, and the factor's error."""
    for real, zero in ((1.0, 128), (1.25, 100)):
        x = np.arange(zero, 256)
        left = len(np.unique(relu(x, zero, Factor.of(real, 31), 0, "uint8")))
        note = f"of {len(x)}: the division truncates bits that the shift does not restore"
        yield _cell(f"ReLU by Listing 1.4, factor {real:g}", "levels left", left, 0, note)
    yield from _convolution()
    for itemsize, name in ((1, "int8"), (2, "int16")):
        for wide in (True, False):
            bits = shift_bits(itemsize, wide)
            steps = 2.0**-bits * (2 ** (8 * itemsize) - 1)
            note = "at most, at the end of the range: m is off by up to half of its last bit"
            yield _cell(f"factor of {bits} bits, {name}", "steps off", steps, 4, note)


def _convolution() -> Iterator[Cell]:
    """Every result by the listing, and by one shift to the nearest, against the exact quotient."""
    rng = np.random.default_rng(0)
    pixels, terms, channels = _SHAPE
    a = rng.integers(0, 256, (pixels, terms)).astype(np.uint8)
    b = rng.integers(0, 256, (terms, channels)).astype(np.uint8)
    sums = multiply_separated(a, b, 117, 131)
    real = 100 / float(np.abs(sums).max())
    exact = np.clip(np.rint(sums * real) + 128, 0, 255)
    factor = Factor.of(real, 31)
    for name, found in (
        ("Listing 1.4", rescale_sums(sums, factor, 128, "uint8")),
        ("one shift, to the nearest", round_sums(sums, factor, 128, "uint8")),
    ):
        off = np.abs(found - exact)
        note = f"of {off.size:,}; by {int(off.max())} step at most"
        yield _cell(f"convolution by {name}", "results off", int((off > 0).sum()), 0, note)


def _cell(row: str, column: str, ours: float, digits: int, note: str) -> Cell:
    return Cell("Listing 1.4", row, column, "", None, ours, digits, note)
