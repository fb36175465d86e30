"""Where do the constants of a program lie? In one blob: packed weights, biases, numbers.

Constants are known by their addresses in this process. Those that overlap are one piece, equal pieces
are stored once; a piece of 64 bytes and more starts at a multiple of 64, others at one of 8.
"""

from __future__ import annotations

import ctypes
import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator

__all__ = ["Blob"]

_LINE, _WORD = 64, 8


class Blob:
    """Constants in ranges [low, high) of addresses. size: bytes, a multiple of 64."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        asked = list(ranges)
        self._pieces = list(_merged(asked))
        self._lows = [low for low, _ in self._pieces]
        self._offsets = [0] * len(self._pieces)
        self._stored: list[tuple[int, int, int]] = []
        known: dict[tuple[int, bytes], int] = {}
        end = 0
        # as they are asked for: addresses differ from run to run
        for number in dict.fromkeys(bisect_right(self._lows, low) - 1 for low, _ in asked):
            low, high = self._pieces[number]
            key = high - low, hashlib.sha256(_bytes(low, high)).digest()
            if key not in known:
                alignment = _LINE if high - low >= _LINE else _WORD
                known[key] = end = -(-end // alignment) * alignment
                self._stored.append((end, low, high))
                end += high - low
            self._offsets[number] = known[key]
        self.size = max(_LINE, -(-end // _LINE) * _LINE)

    def find(self, address: int) -> int | None:
        """The offset of a constant, None for an address that is in none."""
        number = bisect_right(self._lows, address) - 1
        if number < 0 or address >= self._pieces[number][1]:
            return None
        return self._offsets[number] + address - self._lows[number]

    def parts(self) -> Iterator[bytes | memoryview]:
        """The bytes of the blob, from the first to the last."""
        end = 0
        for offset, low, high in self._stored:
            yield bytes(offset - end)
            yield _bytes(low, high)
            end = offset + high - low
        yield bytes(self.size - end)


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


def _bytes(low: int, high: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * (high - low)).from_address(low)).cast("B")
