"""Which mapping of layers to processors of several kinds has the highest throughput, or the least latency?

A mapping is predicted from measured times of each layer on each processor (`csdfgen.tuning.processors`): the busiest processor
is the period, with copies of what crosses and the cost of each part; the latency is that of its parts, each behind those that it
reads. A local search moves runs of layers from the best processor to others; branch and bound over the layers then proves that
none is better, or gives up after `NODES` of them. Memory limits of processors are those of weights and of the largest layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.model.network import Network
from csdfgen.tuning.processors import Times

NODES = 30_000
"""Partial mappings that branch and bound looks at."""

_SMALL = 100
"""Units of a network that branch and bound is tried for."""

_CLOSE = 1.002
"""A mapping within two thousandths of the bound is the best: no measurement is more exact."""

_LONG = 1e3
"""Seconds of a layer without kernels, and of a byte that a processor does not have."""

_STEPS = 128
"""Changes of the processors' prices, of which each gives a bound."""

Chosen = tuple[int, ...]
"""The processor of each unit."""

Key = tuple[int, int]
"""Of a part: changes of the processor in front of it, and its processor."""


@dataclass(frozen=True, slots=True)
class Found:
    """A mapping: layer -> processor. seconds: predicted; bound: no mapping takes fewer."""

    mapping: dict[str, int]
    seconds: float
    bound: float


@dataclass(frozen=True)
class Search:
    """reads: of each unit, (unit that it reads, tensor, bytes). sizes: of each unit, bytes of its weights, and of what it reads
    and writes. limits: bytes of memory of each processor, None for any.
    """

    times: Times
    reads: Sequence[Sequence[tuple[int, str, int]]]
    sizes: Sequence[tuple[int, int]]
    pipelined: bool
    limits: Sequence[int | None]

    @classmethod
    def of_network(
        cls, network: Network, times: Times, pipelined: bool, limits: Sequence[int | None]
    ) -> Search:
        """The search for a network whose layers take these times."""
        unit = {name: k for k, names in enumerate(times.units) for name in names}
        layers = {layer.name: layer for layer in network.layers}
        reads, sizes = [], []
        for k, names in enumerate(times.units):
            found, own = {}, [layers[name] for name in names]
            for tensor in (one for layer in own for one in layer.inputs if one is not None):
                source = network.producer.get(tensor.name)
                if source is not None and unit[source.name] != k:
                    found[tensor.name] = unit[source.name], tensor.name, tensor.nbytes
            reads.append([*found.values()])
            rows = sum(one.nbytes for one in own[-1].outputs) + sum(n for *_, n in found.values())
            sizes.append((sum(one.parameter_bytes for one in own), rows))
        return cls(times, reads, sizes, pipelined, limits)

    def find(self) -> Found:
        """The best mapping. Raises PlanError where none fits."""
        count, processors = len(self.times.units), range(len(self.limits))
        best, seconds = self._improve(min(((one,) * count for one in processors), key=self.predict))
        best, seconds, bound = _Bounding(self).run(best, seconds)
        if seconds >= _LONG:
            raise PlanError(
                "no mapping fits: a layer has no kernels on a processor that has the memory for it"
            )
        units = zip(self.times.units, best, strict=True)
        return Found({name: one for names, one in units for name in names}, seconds, bound)

    def predict(self, chosen: Sequence[int]) -> float:
        """Seconds between two frames, or of a frame; many for a mapping that does not fit."""
        over = sum(
            max(0, self._needed(own, chosen) - limit)
            for own, limit in enumerate(self.limits)
            if limit is not None
        )
        parts, behind = self.list_parts(chosen)
        if not self.pipelined:
            return _LONG * over + _latency(parts, behind)
        loads = [0.0] * len(self.limits)
        for (_, own), seconds in parts.items():
            loads[own] += seconds
        return _LONG * over + max(loads)

    def _needed(self, processor: int, chosen: Sequence[int]) -> int:
        """Bytes of the weights of a processor's units, and of the largest of them."""
        own = [self.sizes[k] for k, one in enumerate(chosen) if one == processor]
        return sum(one for one, _ in own) + max((rows for _, rows in own), default=0)

    def list_parts(self, chosen: Sequence[int]) -> tuple[dict[Key, float], dict[Key, set[Key]]]:
        """(seconds of each part, with the copies of what it reads; the parts that it reads)."""
        times, keys = self.times, list[Key]()
        parts, behind = dict[Key, float](), dict[Key, set[Key]]()
        copied: set[tuple[Key, str]] = set()
        for own, reads, seconds in zip(
            chosen, self.reads, zip(*times.seconds, strict=True), strict=True
        ):
            level = max((keys[one][0] + (keys[one][1] != own) for one, *_ in reads), default=0)
            key = level, own
            keys.append(key)
            spent = parts.get(key, times.turn[own]) + min(_LONG, seconds[own])
            for source, name, size in reads:
                if keys[source] != key:
                    behind.setdefault(key, set()).add(keys[source])
                    spent += 0.0 if (key, name) in copied else size * times.copying[own]
                    copied.add((key, name))
            parts[key] = spent
        return parts, behind

    def _improve(self, best: Chosen) -> tuple[Chosen, float]:
        """Change runs of layers, of 1, 2, 4, ..., as long as that helps."""
        seconds, better = self.predict(best), True
        widths = [1 << k for k in range(len(best).bit_length())]
        while better:
            better = False
            for width, own in product(widths, range(len(self.limits))):
                for k in range(len(best) - width + 1):
                    moved = (*best[:k], *(own,) * width, *best[k + width :])
                    found = self.predict(moved) if moved != best else inf
                    if found < seconds * (1 - 1e-9):
                        best, seconds, better = moved, found, True
        return best, seconds


def _latency(parts: dict[Key, float], behind: dict[Key, set[Key]]) -> float:
    """When the last part ends: each follows those that it reads, and those in front of it on its processor."""
    ends, free = dict[Key, float](), dict[int, float]()
    for key in sorted(parts):
        start = max([ends[one] for one in behind.get(key, ())] + [free.get(key[1], 0.0)])
        ends[key] = free[key[1]] = start + parts[key]
    return max(ends.values())


class _Bounding:
    """Branch and bound over the units in their order.

    The processors' times have prices that sum to 1: the busiest one takes no less than all of them together at these prices, and
    units that are left pay their cheapest processor. The best of some prices is the bound of a mapping's first units.
    """

    def __init__(self, search: Search) -> None:
        self._search, self._nodes = search, 0
        self._seconds = np.minimum(search.times.seconds, _LONG)
        self._prices = self._find_prices()
        paid = (self._prices[:, :, None] * self._seconds).min(axis=1)[:, ::-1]
        self._left = np.pad(np.cumsum(paid, axis=1), ((0, 0), (1, 0)))

    def _find_prices(self) -> np.ndarray:
        """Prices, a row each: those of one processor alone, and some that rise where units that pay the least have much to do."""
        count, units = self._seconds.shape
        prices, rows = np.full(count, 1 / count), [*np.eye(count)]
        for step in range(_STEPS):
            rows.append(prices)
            cheapest = np.argmin(prices[:, None] * self._seconds, axis=0)
            loads = np.bincount(cheapest, self._seconds[cheapest, range(units)], count)
            prices = prices * np.exp(loads / max(loads.sum(), 1e-12) / (1 + step / 4))
            prices = prices / prices.sum()
        return np.array(rows)

    def run(self, best: Chosen, seconds: float) -> tuple[Chosen, float, float]:
        """(best mapping, its seconds, bound)."""
        self._best, self._least = best, seconds
        if len(best) <= _SMALL:
            self._branch([], np.zeros(len(self._seconds)))
        bound = float(self._left[:, -1].max())
        proved = 0 < self._nodes <= NODES
        return self._best, self._least, max(bound, self._least / _CLOSE if proved else bound)

    def _branch(self, chosen: list[int], loads: np.ndarray) -> None:
        self._nodes += 1
        at, search = len(chosen), self._search
        left = len(search.times.units) - at
        bound = float((self._prices @ loads + self._left[:, left]).max())
        if self._nodes > NODES or bound * _CLOSE >= self._least:
            return
        if not left:
            found = search.predict(chosen)
            if found < self._least:
                self._best, self._least = tuple(chosen), found
            return
        added = loads + np.diag(self._seconds[:, at])
        for own in np.argsort(added.diagonal(), kind="stable").tolist():
            self._branch([*chosen, own], added[own])
