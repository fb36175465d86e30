"""When do requests come? Seeded arrival processes, and files.

A file has a request a line, `seconds[,images[,deadline[,priority]]]`, with the deadline in seconds after the arrival.
"""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from csdfgen.errors import InputError
from csdfgen.files import quote, read_bytes
from csdfgen.serving.requests import Request

BURST = 10
"""Requests that come together in a burst."""

_MOST_REQUESTS = 10_000_000
_MOST_IMAGES = 65_536


def _poisson(rng: random.Random, rate: float) -> Iterator[float]:
    now = 0.0
    while True:
        now += rng.expovariate(rate)
        yield now


def _bursts(rng: random.Random, rate: float) -> Iterator[float]:
    """Bursts of 10 at once, with exponential pauses."""
    for now in _poisson(rng, rate / BURST):
        yield from [now] * BURST


def _uniform(rng: random.Random, rate: float) -> Iterator[float]:
    """Equal distances, with a random start."""
    start, count = rng.random(), 0
    while True:
        yield (start + count) / rate
        count += 1


KINDS: Mapping[str, Callable[[random.Random, float], Iterator[float]]] = {
    "poisson": _poisson,
    "bursts": _bursts,
    "uniform": _uniform,
}
"""Name -> endless arrival times for a rate of requests a second."""


@dataclass(frozen=True)
class Traffic:
    """Random requests. rate: requests a second. images: the least and the most images of a request, uniformly distributed.
    deadline: seconds from the arrival in which an answer is wanted.
    """

    kind: str
    rate: float
    images: tuple[int, int] = (1, 1)
    deadline: float = math.inf

    def requests(self, count: int, seed: int = 0) -> list[Request]:
        """The first requests; the same seed gives the same ones. Raises InputError for an unknown kind."""
        if self.kind not in KINDS:
            raise InputError(f"arrivals '{self.kind}' are none of {', '.join(KINDS)}, nor a file")
        rng = random.Random(seed)
        sizes = random.Random(seed + 1)
        times = islice(KINDS[self.kind](rng, self.rate), count)
        return [
            Request(number, now, sizes.randint(*self.images), now + self.deadline)
            for number, now in enumerate(times)
        ]


def parse_images(text: str) -> tuple[int, int]:
    """The least and the most images of a request.

    >>> parse_images("1-25"), parse_images("4")
    ((1, 25), (4, 4))
    """
    low, _, high = text.partition("-")
    found = [int(one) if one.isascii() and one.isdigit() else 0 for one in (low, high or low)]
    if not 1 <= found[0] <= found[1] <= _MOST_IMAGES:
        raise InputError(
            f"images '{text[:40]}': a number above 0 or a range is needed, such as 1-25"
        )
    return found[0], found[1]


def read_arrivals(path: str | Path, deadline: float = math.inf) -> list[Request]:
    """The requests in a file. deadline: of those that have none. Raises InputError with the line."""
    rows = csv.reader(io.StringIO(read_bytes(path).decode("utf-8", "replace")))
    found: list[tuple[float, int, float, int]] = []
    for line, row in enumerate(rows, 1):
        if not row or (line == 1 and row[0].strip() == "seconds"):
            continue
        cells = [cell.strip() for cell in row]
        try:
            arrival = float(cells[0])
            images = int(cells[1]) if len(cells) > 1 and cells[1] else 1
            wanted = float(cells[2]) if len(cells) > 2 and cells[2] else deadline
            priority = int(cells[3]) if len(cells) > 3 and cells[3] else 0
            fits = 0 <= arrival < math.inf and 1 <= images <= _MOST_IMAGES and wanted > 0
        except ValueError:
            fits = False
        if not fits or len(cells) > 4 or len(found) >= _MOST_REQUESTS:
            raise InputError(
                f"{quote(','.join(row))} is no request; SECONDS[,IMAGES[,DEADLINE[,PRIORITY]]] is needed",
                where=f"{path}:{line}",
            )
        found.append((arrival, images, arrival + wanted, priority))
    if not found:
        raise InputError("has no requests", where=str(path))
    found.sort(key=lambda one: one[0])
    return [Request(number, *one) for number, one in enumerate(found)]
