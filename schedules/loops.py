"""Where does a sequence of symbols repeat itself? Nested loops, found in near linear time.

Short repetitions are folded first, then longer ones of the folded sequence, until there are no more. Hashes of
prefixes find equal subsequences, which are then compared symbol by symbol.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

Tree = int | tuple[int, tuple["Tree", ...]]
"""Position of a symbol, or (number of repetitions, positions of the first repetition)."""

_PRIME = (1 << 61) - 1
_BASE = 1_000_003
_TRIED = 8
"""Distances that are tried from one position: those to the next occurrences of its symbol."""


def repetitions(symbols: Sequence[Hashable], *, nested: bool = True) -> list[Tree]:
    """The sequence as a list of positions and loops; without `nested` no loop contains another.

    >>> repetitions("xababy")
    [0, (2, (1, 2)), 5]
    """
    numbers: dict[Hashable, int] = {}
    labels = [numbers.setdefault(symbol, len(numbers)) for symbol in symbols]
    tree: list[Tree] = list(range(len(labels)))
    shapes: dict[tuple[int, ...], int] = {}
    fresh = len(numbers)
    shorter, longest = 0, 1  # there is no repetition at distances up to `shorter`
    while shorter <= len(labels) // 2:
        found = _immediate_repeats(labels, shorter, longest)
        if not found:
            shorter, longest = longest, longest * 2
            continue
        shorter = 0
        new_labels: list[int] = []
        new_tree: list[Tree] = []
        done = 0
        for start, distance, times in found:
            new_labels += labels[done:start]
            new_tree += tree[done:start]
            shape = (times, *labels[start : start + distance])
            new_labels.append(shapes.setdefault(shape, fresh) if nested else fresh)
            new_tree.append((times, tuple(tree[start : start + distance])))
            fresh += 1
            done = start + distance * times
        labels = new_labels + labels[done:]
        tree = new_tree + tree[done:]
    return tree


def _immediate_repeats(
    labels: Sequence[int], shorter: int, longest: int
) -> list[tuple[int, int, int]]:
    """(start, distance, times): `distance` labels from `start` on occur `times` >= 2 times in succession.

    Distances are above `shorter` and at most `longest`. The last repetition ends where the periodic part of the sequence
    ends: n2, n1, n2, n1, n2 is n2 and twice n1, n2, as the paper writes it.
    """
    size = len(labels)
    following = [size] * size
    last: dict[int, int] = {}
    for i in range(size - 1, -1, -1):
        following[i] = last.get(labels[i], size)
        last[labels[i]] = i
    same = _Same(labels)
    found = []
    start = 0
    while start < size:
        other = following[start]
        for _ in range(_TRIED):
            distance = other - start
            if distance > longest or other + distance > size:
                break
            if distance > shorter and same.at(start, other, distance):
                stop = same.end(start, distance)
                times = (stop - start) // distance
                found.append((stop - times * distance, distance, times))
                start = stop - 1
                break
            other = following[other]
        start += 1
    return found


class _Same:
    """Compares subsequences, by hashes of prefixes in constant time, and then label by label."""

    def __init__(self, labels: Sequence[int]) -> None:
        self.labels = labels
        self.prefix = [0]
        self.power = [1]
        for label in labels:
            self.prefix.append((self.prefix[-1] * _BASE + label + 1) % _PRIME)
            self.power.append(self.power[-1] * _BASE % _PRIME)

    def _hash(self, start: int, length: int) -> int:
        return (self.prefix[start + length] - self.prefix[start] * self.power[length]) % _PRIME

    def at(self, first: int, second: int, length: int) -> bool:
        """Whether the `length` labels at `first` and at `second` are equal."""
        if self._hash(first, length) != self._hash(second, length):
            return False
        return self.labels[first : first + length] == self.labels[second : second + length]

    def end(self, start: int, distance: int) -> int:
        """The first position after `start` + `distance` whose label differs from that `distance` before."""
        stop = start + distance
        while stop < len(self.labels) and self.labels[stop] == self.labels[stop - distance]:
            stop += 1
        return stop
