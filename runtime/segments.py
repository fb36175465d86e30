"""Which firings of an image can run as soon as some rows of its inputs are there? Those up to the next feed.

A program is cut in front of every feed of its first input. A piece, a segment, runs when the rows are there that its feeds
take, since the order of the plan is sound: it reads nothing that comes later. In the middle of an image whose order and
offsets repeat, segments are the same instructions again after a turn, on rows with higher numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.lowering.program import Feed, Program
from runtime.bound import BoundProgram, Runs

JOINED = 64
"""Segments at most that are one sequence of calls."""


@dataclass(frozen=True, eq=False)
class Segments:
    """A program in pieces.

    starts: first firing of each segment, and the number of all firings behind them. fed, made: how many rows of each input and
    output are fed and complete before each segment, and behind the last; (segments + 1, inputs or outputs).
    """

    program: Program
    starts: Sequence[int]
    fed: np.ndarray
    made: np.ndarray

    @classmethod
    def of(cls, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> Segments:
        """Cut in front of every feed of the first of these inputs."""
        firings = program.firings
        feeds = [
            k
            for k, one in enumerate(firings)
            if isinstance(one, Feed) and one.tensor.name == inputs[0]
        ]
        starts = [0, *feeds[1:], len(firings)]
        fed = np.zeros((len(starts), len(inputs)), np.int64)
        made = np.zeros((len(starts), len(outputs)), np.int64)
        for number, (start, stop) in enumerate(pairwise(starts), 1):
            fed[number], made[number] = fed[number - 1], made[number - 1]
            for at in range(start, stop):
                one = firings[at]
                if isinstance(one, Feed):
                    fed[number, inputs.index(one.tensor.name)] = one.rows.stop
                for given in program.deliveries[at]:
                    made[number, outputs.index(given.output)] = given.rows.stop
        return cls(program, starts, fed, made)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def reach(self, rows: Sequence[int]) -> int:
        """How many segments, from the first on, can run if so many rows of each input are there."""
        return min(
            int(np.searchsorted(self.fed[1:, k], count, side="right"))
            for k, count in enumerate(rows)
        )

    def find_body(self, count: int, length: int) -> int:
        """The first of `length` segments that are those `count` behind them again. Raises PlanError."""
        kinds = self._kinds()
        alike = [self._alike(number, kinds) for number in range(len(self))]
        same = [one == other for one, other in zip(alike, alike[count:], strict=False)]
        at = 0
        for equal, group in groupby(same):
            found = len(list(group))
            if equal and found >= length:
                return at
            at += found
        raise PlanError(
            f"no {count} segments of '{self.program.ports[0].name}' are the same instructions as those before them; plan the "
            "stream again"
        )

    def _kinds(self) -> list[int]:
        """A number for each instruction, equal for those that do the same."""
        describe, known = self.program.constants.describe, dict[object, int]()
        return [
            known.setdefault((one.kernel, one.fields, *map(describe, one.refs)), len(known))
            for one in self.program.instructions
        ]

    def _alike(self, number: int, kinds: Sequence[int]) -> list[object]:
        """What a segment does; equal for segments that do the same to rows with other numbers."""
        program, found = self.program, list[object]()
        for at in range(self.starts[number], self.starts[number + 1]):
            one = program.firings[at]
            if isinstance(one, Feed):
                found.append((one.tensor.name, len(one.rows), one.target))
            else:
                found += [kinds[number] for number in program.code[at]]
            found += [
                (given.output, len(given.rows), given.source) for given in program.deliveries[at]
            ]
        return found


class Runner:
    """Segments of a program in memory. origin: the segment at which those begin that run together most often."""

    def __init__(self, bound: BoundProgram, segments: Segments, origin: int = 0) -> None:
        self.bound, self.segments, self._origin = bound, segments, origin
        self._known: dict[tuple[int, int], Runs] = {}

    def run(self, start: int, stop: int, done: int = 0) -> None:
        """Execute segments [start, stop) on the open arrays, but for the first firings of the first of them."""
        if done:
            starts = self.segments.starts
            _call(self.bound.between(starts[start] + done, starts[start + 1]))
            start += 1
        for block in _blocks(start, stop, self._origin):
            _call(self._known.get(block) or self._prepared(block))
        self.bound.wait()

    def _prepared(self, block: tuple[int, int]) -> Runs:
        """The calls of a block, kept for the next turn."""
        first, last = (self.segments.starts[number] for number in block)
        found = self._known[block] = self.bound.between(first, last)
        return found


def _call(runs: Runs) -> None:
    for run in runs:
        run()


def _blocks(start: int, stop: int, origin: int = 0) -> Iterator[tuple[int, int]]:
    """A range in as few blocks as begin at multiples of their size behind the origin, a power of two up to `JOINED`.

    >>> list(_blocks(3, 9)), list(_blocks(0, 200)), list(_blocks(3, 67, 3))
    ([(3, 4), (4, 8), (8, 9)], [(0, 64), (64, 128), (128, 192), (192, 200)], [(3, 67)])
    """
    while start < stop:
        place = start - origin
        size = place & -place or JOINED
        size = min(size, JOINED, 1 << (stop - start).bit_length() - 1)
        yield start, start + size
        start += size
