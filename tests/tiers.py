"""Which tests does `make test` run? A sample of every function, in minutes; `make test-all` runs the rest as well.

`CSDFGEN_TESTS` names the tier: `sample`, `rest` (what the sample leaves out, so that both together are all) or `more`
(all tests, each law in many more ways: `tests.ways`). Without it every test that is asked for runs.

The cases of a function are a table or a range of seeds in which neighbours are alike: of n cases the sample has about
the square root of n, evenly spaced, and begins elsewhere for each function, so that laws over one table meet other lines.
Of functions whose cases take a second together it has all.
A test that is marked `networks` takes seconds, and is left to the rest, as are those in `DEAR`; of one that is marked `every`
the sample has all cases.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from math import ceil, sqrt
from pathlib import Path
from zlib import crc32

TIER = os.environ.get("CSDFGEN_TESTS", "")

MOST = 24
"""Cases of one function at most."""

CHEAP = {
    name: float(seconds)
    for name, seconds in map(
        str.split, (Path(__file__).parent / "cheap.txt").read_text(encoding="utf-8").splitlines()
    )
}
"""Seconds of a case of functions whose cases are cheap (`python -m tests.planted dear` writes the file)."""

WHOLE = 1.0
"""Seconds of all cases of a function up to which the sample has them all."""

DEAR = frozenset((Path(__file__).parent / "dear.txt").read_text(encoding="utf-8").split())
"""Functions that take two seconds of processor time and more, and reach no planted fault and no kernel that cheaper ones
do not reach (`python -m tests.planted dear` writes the file).
"""


def sampled(name: str, count: int, few: int) -> set[int]:
    """Which of `count` cases the sample has: `few` of them, evenly spaced.

    >>> sorted(sampled("a law", 100, 4))
    [2, 27, 52, 77]
    >>> sampled("a test", 1, 1)
    {0}
    """
    start = crc32(name.encode()) % count
    return {(start + k * count // few) % count for k in range(few)}


def in_sample(cases: Sequence[tuple[str, str, str]]) -> list[bool]:
    """Whether each case is in the sample. cases: file, function, and "networks", "every" or "".

    >>> in_sample([("a.py", "short", "")] * 4 + [("a.py", "long", "networks")] * 2)
    [True, False, True, False, False, False]
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for number, (file, function, mark) in enumerate(cases):
        groups[f"{file}::{function} {mark}"].append(number)
    chosen = set()
    for name, numbers in groups.items():
        count, (_, function, mark) = len(numbers), cases[numbers[0]]
        whole = count * CHEAP.get(function, WHOLE) <= WHOLE
        few = count if whole else min(MOST, ceil(sqrt(count)))
        few = {"networks": 0, "every": count}.get(mark, few)
        few = 0 if function in DEAR else few
        chosen |= {numbers[k] for k in sampled(name, count, few)}
    return [number in chosen for number in range(len(cases))]
