"""How does the paper compute with integers alone? Formulas 1.4 to 1.8 and the kernels of Listings 1.4 and
1.6, to the letter: with what they lose.

Real products are c = a b; with integers c = (a - a0)(b - b0) * sa sb / sc + c0. The factor sa sb / sc is
replaced by a multiplication and a shift, (x m) >> (L + h), that are found before running. L is the number
of bits that the multiplier has: 31 or 15 for int8, 15 or 7 for int16, by whether the device prefers
vectors of some 64-bit type.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from csdfgen.errors import InputError


def shift_bits(itemsize: int, wide: bool) -> int:
    """L, the multiplier's bits. itemsize: bytes of an integer. wide: whether the device has vectors of
    64-bit integers.

    >>> [shift_bits(1, True), shift_bits(1, False), shift_bits(2, True), shift_bits(2, False)]
    [31, 15, 15, 7]
    """
    return (32 if wide else 16) // itemsize - 1


@dataclass(frozen=True, slots=True)
class Factor:
    """m and h of formula 1.7 for multipliers of `bits`: x * value is nearly (x m) >> (bits + h)."""

    m: int
    h: int
    bits: int

    @classmethod
    def of(cls, real: float, bits: int) -> Factor:
        """The integers for a factor above 0, as the published code finds them. Raises InputError for
        any other.

        >>> Factor.of(0.3, 15), Factor.of(1.0, 15)
        (Factor(m=19661, h=1, bits=15), Factor(m=16384, h=-1, bits=15))
        """
        if not (isfinite(real) and real > 0):
            raise InputError(
                f"a factor of {real:g} has no multiplier and shift; it must be above 0"
            )
        h = 0
        while real < 0.5:
            real, h = real * 2, h + 1
        while real > 1:
            real, h = real / 2, h - 1
        m = int(np.floor(real * 2**bits + 0.5))
        if m == 2**bits:
            m, h = m // 2, h - 1
        return cls(m, h, bits)

    @property
    def value(self) -> float:
        """The factor that the integers stand for."""
        return self.m / 2 ** (self.bits + self.h)


def _truncated(sums: np.ndarray, factor: Factor) -> np.ndarray:
    """Listing 1.4's middle: a product of 64 bits is divided, towards 0, and the quotient is shifted."""
    product = np.asarray(sums, np.int64) * factor.m
    quotient = np.sign(product) * (np.abs(product) >> factor.bits)
    return quotient >> factor.h if factor.h >= 0 else quotient << -factor.h


def _stored(values: np.ndarray, zero: int, dtype: str) -> np.ndarray:
    kind = np.iinfo(dtype)
    return np.clip(values + zero, kind.min, kind.max).astype(dtype)


def rescale_sums(sums: np.ndarray, factor: Factor, zero: int, dtype: str) -> np.ndarray:
    """Sums of products as integers of the output, by the paper's arithmetic. Same shape.

    zero: the output's zero point. Bits are lost twice: the division cuts off instead of rounding, and
    a factor of 1 or more shifts what was cut off back.

    >>> rescale_sums(np.arange(4), Factor.of(1.0, 31), 0, "uint8").tolist()
    [0, 0, 2, 2]
    """
    return _stored(_truncated(sums, factor), zero, dtype)


def round_sums(sums: np.ndarray, factor: Factor, zero: int, dtype: str) -> np.ndarray:
    """The same with one shift, to the nearest, half up: what the same multiplier could have done.

    >>> round_sums(np.arange(4), Factor.of(1.0, 31), 0, "uint8").tolist()
    [0, 1, 2, 3]
    """
    shift = factor.bits + factor.h
    product = np.asarray(sums, np.int64) * factor.m
    if shift <= 0:
        return _stored(product << -shift, zero, dtype)
    return _stored((product + (1 << (shift - 1))) >> shift, zero, dtype)


def relu(x: np.ndarray, x0: int, factor: Factor, y0: int, dtype: str) -> np.ndarray:
    """Listing 1.4 (and 1.6): integers of the input to integers of the output, same shape. x0, y0: their
    zero points; factor: of the input's scale over the output's.
    """
    difference = np.maximum(np.asarray(x, np.int64) - x0, 0)
    return rescale_sums(difference, factor, y0, dtype)


def multiply_separated(a: np.ndarray, b: np.ndarray, a0: int, b0: int) -> np.ndarray:
    """Formula 1.6 for matrices: (a - a0)(b - b0), summed, as ab - b a0 - a b0 + a0 b0, so that the inner
    loop multiplies stored integers alone.

    a: (rows, terms), b: (terms, columns), integers of any type; int64 (rows, columns).

    >>> a, b = np.array([[5, 7]], np.uint8), np.array([[250], [3]], np.uint8)
    >>> multiply_separated(a, b, 6, 100).tolist() == [[(5 - 6) * (250 - 100) + (7 - 6) * (3 - 100)]]
    True
    """
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    terms = a.shape[1]
    columns = wide_b.sum(axis=0, keepdims=True) * a0
    rows = wide_a.sum(axis=1, keepdims=True) * b0
    return wide_a @ wide_b - columns - rows + terms * a0 * b0
