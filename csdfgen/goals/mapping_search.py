"""Which mapping of layers to processors of several kinds has the highest throughput, or the least latency?

A mapping is predicted from measured times of each layer on each processor (`csdfgen.tuning.processors`): the busiest processor
is the period, with copies of what crosses and the cost of each part; the latency is that of its parts, each behind those that it
reads. A local search moves layers from runs and single layers; branch and bound over the layers then proves that none is
better, or gives up after `NODES` of them. Memory limits of processors are those of weights and of the largest layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.model.network import Network
from csdfgen.tuning.processors import Times

NODES = 30_000
"""Partial mappings that branch and bound looks at."""

_SMALL = 100
"""Units of a network that branch and bound is tried for."""

_CUTS = 48
"""Places at which runs of layers begin and end, where the search starts."""

_CLOSE = 1.002
"""A mapping within two thousandths of the bound is the best: no measurement is more exact."""

_LONG = 1e3
"""Seconds of a layer without kernels."""

Chosen = tuple[int, ...]
"""The processor of each unit."""


@dataclass(frozen=True, slots=True)
class Found:
    """A mapping: layer -> processor. seconds: predicted; bound: no mapping takes fewer, 0 if that is not proved."""

    mapping: dict[str, int]
    seconds: float
    bound: float


@dataclass(frozen=True)
class Search:
    """reads: of each unit, (unit that it reads, bytes) of each tensor. limits: bytes of memory, None for any."""

    network: Network
    times: Times
    pipelined: bool
    limits: Sequence[int | None]
    reads: list[list[tuple[int, str, int]]] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        unit = {name: k for k, names in enumerate(self.times.units) for name in names}
        layers = {layer.name: layer for layer in self.network.layers}
        for k, names in enumerate(self.times.units):
            found, own = {}, [layers[name] for name in names]
            for layer in own:
                for tensor in layer.inputs:
                    source = self.network.producer.get(tensor.name) if tensor is not None else None
                    if tensor is not None and source is not None and unit[source.name] != k:
                        found[tensor.name] = unit[source.name], tensor.name, tensor.nbytes
            self.reads.append([*found.values()])
            rows = sum(one.nbytes for one in own[-1].outputs) + sum(n for *_, n in found.values())
            self.sizes.append((sum(one.parameter_bytes for one in own), rows))

    def find(self) -> Found:
        """The best mapping. Raises PlanError where none fits."""
        best = min(self._starts(), key=self.predict)
        best, seconds = self._improve(best)
        best, seconds, bound = _Bounding(self).run(best, seconds)
        if seconds == inf:
            raise PlanError(
                "no mapping fits: a layer has no kernels on a processor that has the memory for it"
            )
        units = zip(self.times.units, best, strict=True)
        return Found({name: one for names, one in units for name in names}, seconds, bound)

    def predict(self, chosen: Sequence[int]) -> float:
        """Seconds between two frames, or of a frame; infinite for a mapping that does not fit."""
        times, loads = self.times, [0.0] * len(self.limits)
        weights, most = [0] * len(loads), [0] * len(loads)
        keys: list[tuple[int, int]] = []
        parts: dict[tuple[int, int], float] = {}
        behind: dict[tuple[int, int], set[tuple[int, int]]] = {}
        copied: set[tuple[tuple[int, int], str]] = set()
        for k, own in enumerate(chosen):
            level = 0
            for source, *_ in self.reads[k]:
                level = max(level, keys[source][0] + (keys[source][1] != own))
            key = level, own
            keys.append(key)
            spent = times.seconds[own][k] + (0.0 if key in parts else times.turn[own])
            for source, name, size in self.reads[k]:
                if keys[source] != key:
                    behind.setdefault(key, set()).add(keys[source])
                    if (key, name) not in copied:
                        copied.add((key, name))
                        spent += size * times.copying[own]
            parts[key] = parts.get(key, 0.0) + spent
            loads[own] += spent
            weights[own] += self.sizes[k][0]
            most[own] = max(most[own], self.sizes[k][1])
        for own, limit in enumerate(self.limits):
            if limit is not None and weights[own] + most[own] > limit:
                return inf
        return max(loads) if self.pipelined else _latency(parts, behind)

    def _starts(self) -> Iterator[Chosen]:
        """All on one processor, and a run of layers on another one."""
        count = len(self.times.units)
        step = -(-count // _CUTS)
        cuts = [*range(0, count, step), count]
        for one in range(len(self.limits)):
            yield (one,) * count
            for other in range(len(self.limits)):
                for a, b in combinations(cuts, 2) if one != other else ():
                    yield (one,) * a + (other,) * (b - a) + (one,) * (count - b)

    def _improve(self, best: Chosen) -> tuple[Chosen, float]:
        """Change one layer, or two that follow each other, as long as that helps."""
        seconds, better = self.predict(best), True
        while better:
            better = False
            for width in (1, 2, 4):
                for k in range(len(best) - width + 1):
                    for own in range(len(self.limits)):
                        moved = (*best[:k], *(own,) * width, *best[k + width :])
                        found = self.predict(moved) if moved != best else inf
                        if found < seconds * (1 - 1e-9):
                            best, seconds, better = moved, found, True
        return best, seconds


def _latency(
    parts: dict[tuple[int, int], float], behind: dict[tuple[int, int], set[tuple[int, int]]]
) -> float:
    """When the last part ends: each follows those that it reads, and those in front of it on its processor."""
    ends: dict[tuple[int, int], float] = {}
    free: dict[int, float] = {}
    for key in sorted(parts):
        start = max([ends[one] for one in behind.get(key, ())] + [free.get(key[1], 0.0)])
        ends[key] = free[key[1]] = start + parts[key]
    return max(ends.values())


class _Bounding:
    """Branch and bound over the units in their order."""

    def __init__(self, search: Search) -> None:
        self._search, self._nodes = search, 0
        seconds = search.times.seconds
        self._count, units = len(seconds), range(len(search.times.units))
        least = [min(one[k] for one in seconds) for k in units]
        self._left = [sum(least[k:]) for k in range(len(least) + 1)]
        self._shares = [self._share(at) for at in range(len(least) + 1)] if self._count == 2 else []

    def _share(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of the units from number `at` on, if the first k of them are the first processor's and the others the second
        one's, which those are for that take there the least of what they take here.
        """
        first, second = (np.minimum(one[at:], _LONG) for one in self._search.times.seconds)
        order = np.argsort(first / np.maximum(second, 1e-12), kind="stable")
        taken = np.concatenate(([0.0], np.cumsum(first[order])))
        return taken, second.sum() - np.concatenate(([0.0], np.cumsum(second[order])))

    def run(self, best: Chosen, seconds: float) -> tuple[Chosen, float, float]:
        """(best mapping, its seconds, bound)."""
        self._best, self._seconds = best, seconds
        loads = [0.0] * self._count
        if len(best) <= _SMALL:
            self._branch([], loads)
        proved = 0 < self._nodes <= NODES
        return self._best, self._seconds, self._seconds / _CLOSE if proved else 0.0

    def _bound(self, at: int, loads: Sequence[float]) -> float:
        """No mapping with these first units takes fewer seconds: those that are left share all processors, without copies."""
        if not self._search.pipelined:
            return max(loads)
        if not self._shares:
            return max(*loads, (sum(loads) + self._left[at]) / self._count)
        first, second = self._shares[at]
        return max(*loads, _balance(loads[0] + first, loads[1] + second))

    def _branch(self, chosen: list[int], loads: list[float]) -> None:
        self._nodes += 1
        at, search = len(chosen), self._search
        if self._nodes > NODES or self._bound(at, loads) * _CLOSE >= self._seconds:
            return
        if at == len(search.times.units):
            found = search.predict(chosen)
            if found < self._seconds:
                self._best, self._seconds = tuple(chosen), found
            return
        order = sorted(
            range(self._count), key=lambda own: loads[own] + search.times.seconds[own][at]
        )
        for own in order:
            more = [*loads]
            more[own] += search.times.seconds[own][at]
            self._branch([*chosen, own], more)


def _balance(rising: np.ndarray, falling: np.ndarray) -> float:
    """Where two lines cross, or the end at which they are nearest.

    >>> _balance(np.array([0.0, 2.0, 4.0]), np.array([3.0, 1.0, 0.0]))
    1.5
    """
    at = int(np.searchsorted(rising - falling, 0.0))
    if at in (0, len(rising)):
        return float(rising[0] if at == 0 else falling[-1])
    low, high = (float(rising[k] - falling[k]) for k in (at - 1, at))
    part = -low / (high - low) if high > low else 0.0
    return float(rising[at - 1] + part * (rising[at] - rising[at - 1]))
