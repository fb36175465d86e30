"""What does the group of a series compute? A table of its stages, see text/series.cl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Member(NamedTuple):
    """An instruction of a series. port: which of its arguments are of the rows that it moves, from 1 on; 0: none. record: where
    its structure is in the tables. items: along both axes.
    """

    kernel: str
    port: int
    record: int
    items: tuple[int, int]


def build_table(stages: Sequence[Sequence[Member]], kernels: Sequence[str]) -> np.ndarray:
    """The number of entries, and these. kernels: of the series' text, in their order."""
    numbers = {kernel: number for number, kernel in enumerate(kernels)}
    found = list[int]()
    for stage in stages:
        before = 0
        for number, one in enumerate(stage, 1):
            across, items = one.items[0], one.items[0] * one.items[1]
            place = numbers[one.kernel], one.port, one.record
            found += [*place, across, items, before, int(number == len(stage))]
            before += items
    return np.array([len(found) // 7, *found], np.int32)
