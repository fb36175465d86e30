"""Where are the constants of a program in what is emitted? In one blob: packed weights, biases, numbers.

Of every array in the pool of weights that part is taken which something refers to. Parts that overlap are one piece,
equal pieces are stored once; a piece of 64 bytes and more starts at a multiple of 64, others at one of 8.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import numpy as np

from csdfgen.program.instructions import Constants

__all__ = ["Blob"]

_LINE, _WORD = 64, 8


class Blob:
    """The constants of programs. size: bytes, a multiple of 64."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._pieces = list(_merged(constants.used))
        self._lows = [low for low, _ in self._pieces]
        self._offsets = [0] * len(self._pieces)
        self._stored: list[tuple[int, int, int]] = []
        known: dict[tuple[int, bytes], int] = {}
        end = 0
        # in the order in which they were asked for
        for number in dict.fromkeys(bisect_right(self._lows, low) - 1 for low, _ in constants.used):
            low, high = self._pieces[number]
            key = high - low, hashlib.sha256(self._bytes(low, high)).digest()
            if key not in known:
                alignment = _LINE if high - low >= _LINE else _WORD
                known[key] = end = -(-end // alignment) * alignment
                self._stored.append((end, low, high))
                end += high - low
            self._offsets[number] = known[key]
        self.size = max(_LINE, -(-end // _LINE) * _LINE)

    def find(self, offset: int) -> int:
        """Where a place of the pool of weights is in the blob."""
        number = bisect_right(self._lows, offset) - 1
        return self._offsets[number] + offset - self._lows[number]

    def parts(self) -> Iterator[bytes | memoryview]:
        """The bytes of the blob, from the first to the last."""
        end = 0
        for offset, low, high in self._stored:
            yield bytes(offset - end)
            yield self._bytes(low, high)
            end = offset + high - low
        yield bytes(self.size - end)

    def _bytes(self, low: int, high: int) -> memoryview:
        block = self._constants.block(low)
        values: np.ndarray = block.values[low - block.start : high - block.start]
        return values.data


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges that overlap as one.

    >>> list(_merged([(8, 12), (0, 4), (10, 20), (4, 6)]))
    [(0, 4), (4, 6), (8, 20)]
    """
    begin = end = None
    for low, high in sorted(set(ranges)):
        if begin is None or end is None or low >= end:
            if begin is not None and end is not None:
                yield begin, end
            begin, end = low, high
        else:
            end = max(end, high)
    if begin is not None and end is not None:
        yield begin, end
