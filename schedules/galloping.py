"""How far does something hold that holds no longer from some number on? Strides that double, then
halves.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["last_true"]


def last_true(start: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which a test holds that is true up to it, `start` at least, and false
    above; the test is not asked about `start`.

    >>> last_true(3, lambda number: number * number < 50)
    7
    """
    low, stride = start, 1
    while holds(low + stride):
        low, stride = low + stride, stride * 2
    high = low + stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
