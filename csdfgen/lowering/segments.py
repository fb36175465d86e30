"""Which firings of an image can run as soon as some rows of its inputs are there? Those up to the next feed.

A program is cut in front of every feed of its first input. A piece, a segment, runs when the rows are there that its feeds
take, since the order of the plan is sound: it reads nothing that comes later. In the middle of an image whose order and
offsets repeat, segments are the same instructions again after a turn, on rows with higher numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from operator import sub

from csdfgen.errors import PlanError
from csdfgen.lowering.program import Feed, Program, Repeats
from csdfgen.planning.plan import Turns


@dataclass(frozen=True, eq=False)
class Segments:
    """A program in pieces.

    starts: first firing of each segment, and the number of all firings behind them. fed, made: how many rows of each input and
    output are fed and complete before each segment, and behind the last. kinds: of each instruction, equal for those that do
    the same.
    """

    program: Program
    starts: Sequence[int]
    fed: Sequence[Sequence[int]]
    made: Sequence[Sequence[int]]
    kinds: Sequence[object]

    @classmethod
    def of(cls, program: Program, kinds: Sequence[object] = ()) -> Segments:
        """Cut in front of every feed of the first input. kinds: of each instruction, equal for those that do the same; found
        here by default.
        """
        firings = program.firings
        inputs, outputs = (
            [port.name for port in program.ports if port.output is output]
            for output in (False, True)
        )
        feeds = [
            k
            for k, one in enumerate(firings)
            if isinstance(one, Feed) and one.tensor.name == inputs[0]
        ]
        starts = [0, *feeds[1:], len(firings)]
        fed, made = [[0] * len(inputs)], [[0] * len(outputs)]
        for start, stop in pairwise(starts):
            fed.append([*fed[-1]])
            made.append([*made[-1]])
            for at in range(start, stop):
                one = firings[at]
                if isinstance(one, Feed):
                    fed[-1][inputs.index(one.tensor.name)] = one.rows.stop
                for given in program.deliveries[at]:
                    made[-1][outputs.index(given.output)] = given.rows.stop
        return cls(program, starts, fed, made, kinds)

    @cached_property
    def alike(self) -> list[list[object]]:
        """What each segment does; equal for segments that do the same to rows with other numbers."""
        kinds = self.kinds or _kinds(self.program)
        return [_alike(self.program, range(*ends), kinds) for ends in pairwise(self.starts)]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def reach(self, rows: Sequence[int]) -> int:
        """How many segments, from the first on, can run if so many rows of each input are there."""
        return min(map(bisect_right, self._behind, rows))

    @cached_property
    def _behind(self) -> list[list[int]]:
        """Of each input the rows that are fed behind each segment."""
        return [[*rows] for rows in zip(*self.fed[1:], strict=True)]

    def find_body(self, count: int, length: int) -> int:
        """The first of `length` segments that are those `count` behind them again. Raises PlanError."""
        same = [one == other for one, other in zip(self.alike, self.alike[count:], strict=False)]
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

    def turn(self, first: int, count: int) -> tuple[list[int], list[int]]:
        """How many rows of each input, and of each output, `count` segments from the first on take and complete."""
        fed, made = (
            [*map(sub, rows[first + count], rows[first])] for rows in (self.fed, self.made)
        )
        return fed, made


def _kinds(program: Program) -> list[int]:
    """A number for each instruction, equal for those that do the same."""
    describe, known = program.constants.describe, dict[object, int]()
    return [
        known.setdefault((one.kernel, one.fields, *map(describe, one.refs)), len(known))
        for one in program.instructions
    ]


def _alike(program: Program, firings: Iterable[int], kinds: Sequence[object]) -> list[object]:
    """What firings do, but for the numbers of rows."""
    found = list[object]()
    for at in firings:
        one = program.firings[at]
        if isinstance(one, Feed):
            found.append((one.tensor.name, len(one.rows), one.target))
        else:
            found += [kinds[number] for number in program.code[at]]
        found += [(given.output, len(given.rows), given.source) for given in program.deliveries[at]]
    return found


def find_repeats(program: Program, turns: Turns) -> Repeats:
    """What of the program of a tall image's plan repeats. Raises PlanError if nothing does."""
    segments = Segments.of(program)
    one, count = (rows // segments.fed[1][0] for rows in (turns.stream.turn, turns.rows))
    first = segments.find_body(one, count)
    fed, made = segments.turn(first, count)
    start, stop = (segments.starts[number] for number in (first, first + count))
    return Repeats(start, stop, turns.more, (*fed, *made))
