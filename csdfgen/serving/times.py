"""How long does a stage of a network take for a batch? A table of stages and batches, with the spread of repeats.

{"format": "csdfgen-stages", "version": 1, "model": "alexnet",
 "stages": [{"name": "conv1", "batches": [1, 2, 4], "seconds": [0.021, 0.042, 0.084], "spread": [0.01, 0.01, 0.02],
             "arena": [295000, 590000, 1180000], "slot": 36864}, ...]}

A stage's slot is the bytes of one image that waits behind it; its arena is what a run of that batch occupies.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from csdfgen.errors import InputError
from csdfgen.files import Fields, load_json, quote, write_json

FORMAT = "csdfgen-stages"
VERSION = 1

_MOST_STAGES = 1_000
MOST_BATCH = 4_096
_MOST_SECONDS = 1e6


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Measured times of a stage.

    batches: ascending, from 1. seconds: medians of a whole batch. spread: relative, the half distance between quartiles of
    the repeats. arena: bytes in which the stage runs on that batch; slot: bytes of an image that waits behind the stage.
    """

    name: str
    batches: tuple[int, ...]
    seconds: tuple[float, ...]
    spread: tuple[float, ...]
    arena: tuple[int, ...]
    slot: int = 0

    def at(self, values: Sequence[float], most: int) -> np.ndarray:
        """Values of batches 0, 1, ..., most; between those of the table they are interpolated."""
        found = np.interp(np.arange(most + 1), self.batches, values)
        found[0] = 0.0
        return found


@dataclass(frozen=True)
class Times:
    """The stages of a network, in their order.

    Raises InputError for a table without stages, or in which a stage's batches are not those of the others.
    """

    model: str
    stages: tuple[StageTimes, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError("a table of times without stages; at least one is needed")
        first = self.stages[0]
        for stage in self.stages:
            if stage.batches != first.batches:
                raise InputError(
                    f"stage '{stage.name}' has times of batches {_listed(stage.batches)}, '{first.name}' those of "
                    f"{_listed(first.batches)}; measure all stages for the same batches"
                )

    @property
    def count(self) -> int:
        """Number of stages."""
        return len(self.stages)

    @property
    def most(self) -> int:
        """The largest batch of the table."""
        return self.stages[0].batches[-1]

    @cached_property
    def seconds(self) -> np.ndarray:
        """Shape (stages, most + 1): seconds of each stage for each batch; 0 for no image."""
        return np.array([one.at(one.seconds, self.most) for one in self.stages])

    @cached_property
    def spread(self) -> np.ndarray:
        """Shape (stages, most + 1): relative spread of `seconds`."""
        return np.array([one.at(one.spread, self.most) for one in self.stages])

    @cached_property
    def stage(self) -> list[list[float]]:
        """Seconds by stage and batch, as lists, whose elements are read faster than those of arrays."""
        found: list[list[float]] = self.seconds.tolist()
        return found

    @cached_property
    def front(self) -> list[list[float]]:
        """[k][b]: seconds of the first k stages for a batch of b."""
        whole = np.vstack([np.zeros(self.most + 1), np.cumsum(self.seconds, axis=0)])
        found: list[list[float]] = whole.tolist()
        return found

    @cached_property
    def rest(self) -> list[list[float]]:
        """[k][b]: seconds of the stages behind the first k."""
        whole = np.array(self.front)
        found: list[list[float]] = (whole[-1] - whole).tolist()
        return found

    @property
    def whole(self) -> list[float]:
        """[b]: seconds of all stages."""
        return self.front[-1]

    @property
    def capacity(self) -> float:
        """Images a second, one at a time: load 1."""
        return 1.0 / self.whole[1]

    @property
    def most_capacity(self) -> float:
        """Images a second of the batch that computes most of them."""
        return max(b / self.whole[b] for b in range(1, self.most + 1))

    def arena(self, stage: int, batch: int) -> int:
        """Bytes of a run of a stage: those of the smallest batch of the table that is as large."""
        one = self.stages[stage]
        return next(
            (size for b, size in zip(one.batches, one.arena, strict=True) if b >= batch),
            one.arena[-1],
        )

    def slot(self, stage: int) -> int:
        """Bytes of an image that waits in front of a stage; 0 in front of the first one."""
        return self.stages[stage - 1].slot if stage else 0

    def up_to(self, batch: int) -> Times:
        """The table without larger batches. Raises InputError if it has none that is as large."""
        if batch > self.most:
            raise InputError(
                f"batches of {batch} images; the times of '{self.model}' are known up to {self.most}; measure larger "
                "batches, or take smaller ones"
            )
        if batch == self.most:
            return self
        kept = [b for b in self.stages[0].batches if b < batch] + [batch]
        return Times(self.model, tuple(self._shortened(at, kept) for at in range(self.count)))

    def _shortened(self, at: int, kept: Sequence[int]) -> StageTimes:
        one = self.stages[at]
        return StageTimes(
            one.name,
            tuple(kept),
            tuple(self.stage[at][b] for b in kept),
            tuple(float(self.spread[at][b]) for b in kept),
            tuple(self.arena(at, b) for b in kept),
            one.slot,
        )


def make_table(model: str, stages: Mapping[str, Mapping[int, float]], spread: float = 0.0) -> Times:
    """A table of given times: stage -> batch -> seconds.

    >>> make_table("net", {"all": {1: 0.02, 4: 0.026}}).whole[1:]
    [0.02, 0.022, 0.024, 0.026]
    """
    found = []
    for name, seconds in stages.items():
        sizes = tuple(sorted(seconds))
        values = tuple(seconds[b] for b in sizes)
        found.append(StageTimes(name, sizes, values, (spread,) * len(sizes), (0,) * len(sizes)))
    return Times(model, tuple(found))


# Files ------------------------------------------------------------------------------------------


def write_times(path: str | os.PathLike[str], times: Times) -> None:
    """Write a table as JSON. Raises InputError."""
    write_json(path, times_to_json(times))


def times_to_json(times: Times) -> dict[str, Any]:
    """The table as JSON values, as its file has them."""
    stages = [
        {
            "name": one.name, "batches": list(one.batches), "seconds": list(one.seconds), "spread": list(one.spread),
            "arena": list(one.arena), "slot": one.slot,
        }
        for one in times.stages
    ]  # fmt: skip
    return {"format": FORMAT, "version": VERSION, "model": times.model, "stages": stages}


def read_times(path: str | os.PathLike[str]) -> Times:
    """The table in a file. Raises InputError with file, key and value."""
    fields = Fields(load_json(path), str(path))
    fields.check_header(FORMAT, VERSION)
    stages = [_stage(item) for item in fields.children("stages")]
    if len(stages) > _MOST_STAGES:
        raise fields.fault(f"'stages' has {len(stages)}; at most {_MOST_STAGES:,} are read")
    try:
        return Times(fields.text("model"), tuple(stages))
    except InputError as error:
        raise error.at(str(path)) from None


def _stage(item: Fields) -> StageTimes:
    batches = tuple(int(one) for one in _numbers(item, "batches", 1, MOST_BATCH, whole=True))
    if not batches or batches[0] != 1 or any(a >= b for a, b in pairwise(batches)):
        raise item.fault(
            f"'batches' is {_listed(batches) or 'empty'}; ascending numbers from 1 on are needed"
        )
    lists = [
        _numbers(item, "seconds", 1e-9, _MOST_SECONDS),
        _numbers(item, "spread", 0, 1),
        _numbers(item, "arena", 0, 2**62, whole=True),
    ]
    for name, one in zip(("seconds", "spread", "arena"), lists, strict=True):
        if len(one) != len(batches):
            raise item.fault(f"'{name}' has {len(one)} numbers for {len(batches)} batches")
    seconds, spread, arena = lists
    sizes = tuple(int(one) for one in arena)
    return StageTimes(
        item.text("name"), batches, seconds, spread, sizes, item.integer("slot", low=0, default=0)
    )


def _numbers(
    item: Fields, key: str, low: float, high: float, whole: bool = False
) -> tuple[float, ...]:
    found = item.required(key, "a list of numbers")
    if not isinstance(found, list):
        raise item.fault(f"'{key}' is {quote(found)}; a list of numbers is needed")
    for one in found:
        fits = isinstance(one, int) if whole else isinstance(one, (int, float))
        if not fits or isinstance(one, bool) or not math.isfinite(one) or not low <= one <= high:
            kind = "whole numbers" if whole else "numbers"
            raise item.fault(
                f"'{key}' has {quote(one)}; {kind} from {low:g} to {high:g} are needed"
            )
    return tuple(found)


def _listed(batches: Sequence[int]) -> str:
    return ", ".join(map(str, batches))
