"""Which layers are to be computed in tiles, so that a network takes the least memory for so many
multiply-accumulates?

A network is cut at maps that are all that is read later (`rewriting.tiles.boundaries`). Between two of
them lies a region; regions that follow each other run tile by tile, and what lies between is held for
as many columns as the next tile reads. A stage is a chain of such regions; it begins when the stage
before it is complete, so that of two maps between stages one shrinks while the other grows.

What a region holds is known for every number of tiles from one stream of rows through it: the rows of
every map that are alive follow from the row rule alone, and its columns from the halo. A dynamic program over regions and
numbers of tiles finds for every stage which memory costs which multiply-accumulates, another one the
chain of stages with the least peak; the best few are then made and measured, and neighbours of the
best one (a tile more or fewer, a border moved) are tried as long as they gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import inf
from types import MappingProxyType

import numpy as np

from csdfgen.errors import InputError, option
from csdfgen.model.network import Layer, Network, Output
from csdfgen.model.rows import Rows
from csdfgen.model.units import counted
from csdfgen.ops import operator_of
from csdfgen.phases.conversion import convert, fed_slices
from csdfgen.planning.buffers import buffers_of
from csdfgen.planning.lifetimes import lifetimes_of
from csdfgen.planning.pulling import pulled
from csdfgen.planning.sharing import share
from csdfgen.rewriting.tiles import (
    COLUMNS,
    Region,
    Tiled,
    boundaries,
    most_tiles,
    parts_of,
    target_of,
    tiled,
    wanted_columns,
    written,
)

__all__ = [
    "EFFORT",
    "MeasuredTiles",
    "Told",
    "macs_in_tiles",
    "measured",
    "multiply_accumulates",
    "recomputed",
    "searched",
]

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 18, 24, 36, 48, 64, 96)
"""Columns of a tile that are tried."""

SPAN = 8
"""Boundaries that a region goes over at most: longer ones have halos that are never worth it."""

FIRINGS = 30_000
"""Firings of the tiles of one region: narrower tiles save little, and take long to plan and to run."""


def multiply_accumulates(network: Network) -> int:
    """Multiply-accumulates of all layers, exact."""
    return sum(_cost(layer) for layer in network.layers)


def _cost(layer: Layer) -> int:
    operator = operator_of(layer)
    return operator.cost(layer, Rows(0, layer.output.rows)) if operator.multiplies else 0


# What a region takes -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """A region with a number of tiles.

    macs: of all tiles. inner: bytes that a tile holds beside what the region reads and writes.
    parts, reads: by tile the columns that it makes and reads.
    """

    region: Region
    macs: int
    inner: int
    parts: tuple[Rows, ...]
    reads: tuple[Rows, ...]


class _Model:
    """What every region takes, for every number of tiles worth trying.

    spare: multiply-accumulates that may be made twice.
    """

    def __init__(self, network: Network, spare: int) -> None:
        self.network, self.spare = network, spare
        self.ends = _narrow(network)
        self.choices: dict[tuple[int, int], list[_Choice]] = {}
        for k, first in enumerate(self.ends):
            for end in self.ends[k + 1 : k + 1 + SPAN]:
                self.choices[first, end] = self._of_region(first, end)

    def map_bytes(self, end: int) -> int:
        """Bytes of the map at a boundary; of the input none, as it is streamed."""
        return 0 if end == 0 else self.network.layers[end - 1].output.nbytes

    def column_bytes(self, end: int) -> int:
        """Bytes of a column of it."""
        if end == 0:
            return 0
        output = self.network.layers[end - 1].output
        return output.nbytes // output.shape[COLUMNS]

    def _of_region(self, first: int, end: int) -> list[_Choice]:
        layers = self.network.layers[first:end]
        stream = _Stream.of(layers)
        most = most_tiles(layers)
        counts = sorted({-(-most // w) for w in WIDTHS if w < most} | {1})
        found: list[_Choice] = []
        own = sum(map(_cost, layers))
        for count in counts:
            one = self._choice(Region(first, end - 1, count), layers, stream)
            firings = count * sum(layer.output.rows for layer in layers)
            if found and (one.macs - own > self.spare or firings > FIRINGS):
                break
            # more tiles take more work: they are of no use unless they hold less
            if not found or one.inner < found[-1].inner:
                found.append(one)
        return found

    def _choice(self, region: Region, layers: Sequence[Layer], stream: _Stream) -> _Choice:
        parts = parts_of(target_of(layers[-1]), region.tiles)
        if region.tiles == 1:
            return _Choice(region, _macs_in(layers, ()), stream.whole, parts, parts)
        each = [wanted_columns(layers, part) for part in parts]
        reads = tuple(wanted[stream.entry] for wanted in each)
        macs = _macs_in(layers, each)
        widest = max(each, key=lambda wanted: sum(map(len, wanted.values())))
        return _Choice(region, macs, stream.peak(widest), parts, reads)


def _narrow(network: Network) -> tuple[int, ...]:
    """Boundaries that are worth holding: no map beside one of them is smaller; the first and the
    last.
    """
    ends = boundaries(network)
    sizes = [inf if end == 0 else network.layers[end - 1].output.nbytes for end in ends]
    return tuple(
        end
        for k, end in enumerate(ends)
        if k in (0, len(ends) - 1) or (sizes[k] <= sizes[k + 1] and (sizes[k] <= sizes[k - 1]))
    )


@dataclass(frozen=True, eq=False)
class _Stream:
    """A region as one stream of rows: which rows of which maps are alive together.

    entry: the map that it reads. held: by map the bytes of one column of a row; alive: rows of each, by
    instants that differ. whole: most bytes alive at one time, for rows of full width.
    """

    entry: str
    maps: tuple[str, ...]
    held: np.ndarray
    alive: np.ndarray
    whole: int

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> _Stream:
        """The stream of layers that make a region."""
        made = {tensor.name for layer in layers for tensor in layer.outputs}
        entry = next(t for la in layers for t in la.inputs if t is not None and t.name not in made)
        end = layers[-1].output
        alone = Network("region", (entry,), (Output(end.name, end),), tuple(layers))
        conversion = convert(alone, "1")
        sharing = share(alone)
        result = sharing.places[end.name].buffer  # counts where it is read
        buffers = [one for one in buffers_of(conversion, sharing) if one.name != result]
        order = pulled(conversion, [layers[-1].name])
        lifetimes = lifetimes_of(order, buffers)
        maps, held, rows = [], [], []
        for one, buffer in zip(lifetimes.each, buffers, strict=True):
            tensor = sharing.buffers.get(buffer.name)
            if tensor is None or len(tensor.shape) <= COLUMNS:
                continue
            changes = np.zeros(len(order) + 1, np.int64)
            np.add.at(changes, one.born, 1)
            np.subtract.at(changes, one.gone, 1)
            maps.append(buffer.name)
            held.append(tensor.row_bytes // tensor.shape[COLUMNS])
            rows.append(np.cumsum(changes)[:-1])
        alive = np.array(rows, np.int64).T if maps else np.zeros((1, 0), np.int64)
        met = {line.tobytes(): k for k, line in enumerate(alive)}
        kept = alive[sorted(met.values())]
        return cls(entry.name, tuple(maps), np.array(held, np.int64), kept, lifetimes.peak_live)

    def peak(self, columns: Mapping[str, Rows]) -> int:
        """Most bytes alive at one time, for these columns of every map."""
        widths = np.array([len(columns[name]) for name in self.maps], np.int64)
        return int((self.alive @ (widths * self.held)).max(initial=0))


# Stages and their chains ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Label:
    """A chain of regions: bytes held between them, multiply-accumulates, most bytes in a tile."""

    held: int
    macs: int
    inner: int
    choices: tuple[_Choice, ...]


@dataclass(frozen=True, slots=True)
class _Stage:
    memory: int
    macs: int
    choices: tuple[_Choice, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(replace(one.region, follows=k > 0) for k, one in enumerate(self.choices))


def _kept(labels: list[_Label]) -> list[_Label]:
    """Those that no other one beats in both, the middle and the ends of them first."""
    labels.sort(key=lambda label: (label.held + label.inner, label.macs))
    found: list[_Label] = []
    for label in labels:
        if not found or label.macs < found[-1].macs:
            found.append(label)
    if len(found) < 4:
        return found
    return [found[0], found[-1], found[len(found) // 2]]


class _Stages:
    """For every stretch of the network the trade of memory for multiply-accumulates as one stage.

    limit: bytes that a stage may take.
    """

    LEVELS = 8
    """Bounds on what a tile holds, for which chains of regions are sought."""

    LABELS = 3
    """Chains that are kept for the same last region."""

    def __init__(self, model: _Model, limit: int) -> None:
        self.model, self.limit = model, limit
        self._between: dict[tuple[_Choice, _Choice], int] = {}
        self.found: dict[tuple[int, int], list[_Stage]] = {}
        for first in model.ends[:-1]:
            for level in self._levels():
                self._grow(first, level)
        for key, stages in self.found.items():
            stages.sort(key=lambda stage: (stage.memory, stage.macs))
            best: list[_Stage] = []
            for stage in stages:
                if not best or stage.macs < best[-1].macs:
                    best.append(stage)
            self.found[key] = best

    def _levels(self) -> list[int]:
        """From the least that the largest layer needs on, up to the limit."""
        ends, choices = self.model.ends, self.model.choices
        low = max(min(one.inner for one in choices[step]) for step in pairwise(ends))
        low = max(1, min(low, self.limit))
        ratio = (self.limit / low) ** (1 / (self.LEVELS - 1))
        return sorted({int(low * ratio**k) for k in range(self.LEVELS)})

    def _grow(self, first: int, level: int) -> None:
        """All stages from a boundary on whose tiles hold at most `level` bytes."""
        model = self.model
        source, column = model.map_bytes(first), model.column_bytes(first)
        chains: dict[int, dict[int, list[_Label]]] = {end: {} for end in model.ends}
        for end in model.ends:
            for one in model.choices.get((first, end), ()):
                if one.inner <= level:
                    halo = max(len(r) - len(p) for r, p in zip(one.reads, one.parts, strict=True))
                    slack = column * max(0, halo) if one.region.tiles > 1 else 0
                    label = _Label(min(slack, source), one.macs, one.inner, (one,))
                    chains[end].setdefault(one.region.tiles, []).append(label)
        for middle in model.ends:
            following = [
                one
                for end in model.ends
                for one in model.choices.get((middle, end), ())
                if one.inner <= level and one.region.tiles > 1
            ]
            for tiles, here in chains[middle].items():
                for label in _kept(here)[: self.LABELS]:
                    self._finish(first, middle, label)
                    if tiles == 1:
                        continue  # a longer region of one tile is the same
                    for one in following:
                        held = label.held + self._held(label.choices[-1], one)
                        if held + level // 2 + source <= self.limit:
                            longer = _Label(
                                held,
                                label.macs + one.macs,
                                max(label.inner, one.inner),
                                (*label.choices, one),
                            )
                            end = one.region.last + 1
                            chains[end].setdefault(one.region.tiles, []).append(longer)

    def _held(self, before: _Choice, one: _Choice) -> int:
        """Most bytes of a map between two regions while the second one reads it tile by tile."""
        key = before, one
        if key not in self._between:
            most = max(
                sum(len(p) for p in before.parts if p.start < read.stop and p.stop > read.start)
                for read in one.reads
            )
            self._between[key] = most * self.model.column_bytes(one.region.first)
        return self._between[key]

    def _finish(self, first: int, end: int, label: _Label) -> None:
        model, last = self.model, label.choices[-1]
        strip = model.column_bytes(end) * max(map(len, last.parts)) if last.region.tiles > 1 else 0
        strip = min(strip, model.map_bytes(end)) if first else 0
        edge = max(model.map_bytes(first), model.map_bytes(end))
        memory = edge + strip + label.held + label.inner
        if memory <= self.limit:
            stage = _Stage(memory, label.macs, label.choices)
            self.found.setdefault((first, end), []).append(stage)

    def least(self, limit: int) -> tuple[int, tuple[Region, ...]] | None:
        """The chain of stages within `limit` bytes with the fewest multiply-accumulates."""
        ends = self.model.ends
        best: dict[int, tuple[int, tuple[Region, ...]]] = {0: (0, ())}
        for end in ends[1:]:
            for first in ends:
                if first >= end or first not in best:
                    continue
                fits = [s for s in self.found.get((first, end), ()) if s.memory <= limit]
                if fits:
                    stage = min(fits, key=lambda s: s.macs)
                    macs, regions = best[first]
                    if end not in best or macs + stage.macs < best[end][0]:
                        best[end] = macs + stage.macs, (*regions, *stage.regions)
        return best.get(ends[-1])

    def limits(self) -> list[int]:
        """All memories of stages: between two of them nothing changes."""
        return sorted({stage.memory for stages in self.found.values() for stage in stages})


EFFORT = 150_000
"""Firings that are followed while chains of stages are tried: some 20 seconds."""

TRIED = 6
"""Chains of stages that are tried before their neighbours are."""


# The search ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MeasuredTiles:
    """Regions, the network that they make, and what it takes: bytes alive at most in the order of its
    tiles (workspace not counted), multiply-accumulates, firings.
    """

    regions: tuple[Region, ...]
    tiled: Tiled
    peak_live: int
    macs: int
    firings: int


def measured(network: Network, regions: Sequence[Region]) -> MeasuredTiles:
    """What regions come to: made, cut into phases of a row, and followed firing by firing in the order of
    their tiles, the image streamed.
    """
    made = tiled(network, regions)
    conversion = convert(made.network, "1")
    sharing = share(made.network, fed=fed_slices(made.network, "streamed"))
    order = pulled(conversion, made.sinks)
    live = lifetimes_of(order, buffers_of(conversion, sharing)).peak_live
    return MeasuredTiles(tuple(regions), made, live, multiply_accumulates(made.network), len(order))


def searched(
    network: Network, factor: float | Fraction, effort: int = EFFORT
) -> tuple[MeasuredTiles, ...]:
    """Regions with the least peak for at most `factor` times the multiply-accumulates, the best first.

    network: with its layers joined (`rewriting.fuse`). effort: firings that are followed while chains
    of stages are tried; the same effort gives the same regions on any machine.
    Raises InputError for a factor below 1.
    """
    if not 1 <= factor < inf:
        raise InputError(
            f"{option('recompute', factor)}: a number of at least 1 is needed (1: nothing twice)"
        )
    total = multiply_accumulates(network)
    most = int(total * Fraction(factor))
    whole = measured(network, ())
    found = [whole]
    if len(boundaries(network)) > 1:
        stages = _Stages(_Model(network, most - total), whole.peak_live)
        left = effort
        for regions in _candidates(stages, most - _outside(network), TRIED):
            one = measured(network, regions)
            found.append(one)
            left -= one.firings
            if 2 * left < effort:
                break
        found.sort(key=lambda one: (one.peak_live, one.firings))
        found = _climbed(network, found, most, left)
    return tuple(found)


def _outside(network: Network) -> int:
    """Multiply-accumulates behind the last boundary, which no region has."""
    return sum(_cost(layer) for layer in network.layers[boundaries(network)[-1] :])


def _candidates(stages: _Stages, most: int, count: int) -> Iterator[tuple[Region, ...]]:
    """Chains of stages from the least memory that `most` multiply-accumulates allow on upwards."""
    limits = stages.limits()
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        found = stages.least(limits[middle])
        if found is not None and found[0] <= most:
            high = middle
        else:
            low = middle + 1
    given, below = 0, most
    for limit in limits[low:]:
        found = stages.least(limit)
        if found is not None and found[0] <= below:
            # the next one is to be another chain, not the same with a tile less
            below = found[0] - max(1, stages.model.spare // (3 * count))
            yield found[1]
            given += 1
            if given == count:
                return


def _climbed(
    network: Network, found: list[MeasuredTiles], most: int, effort: int
) -> list[MeasuredTiles]:
    """Better and better neighbours of the best, in front of what was found, as long as one gains and
    the effort lasts.
    """
    known = {one.regions for one in found}
    gained = True
    while gained:
        gained = False
        for regions in _neighbours(network, found[0].regions):
            if regions in known or macs_in_tiles(network, regions) > most:
                continue
            if effort < 0:
                return found
            known.add(regions)
            one = measured(network, regions)
            effort -= one.firings
            if one.peak_live < found[0].peak_live:
                found, gained = [one, *found], True
                break
    return found


def macs_in_tiles(network: Network, regions: Sequence[Region]) -> int:
    """Multiply-accumulates of a network with regions in tiles, without making it."""
    total = multiply_accumulates(network)
    for region in regions:
        layers = network.layers[region.first : region.last + 1]
        parts = parts_of(target_of(layers[-1]), region.tiles)
        each = [wanted_columns(layers, part) for part in parts] if region.tiles > 1 else []
        total += _macs_in(layers, each) - sum(map(_cost, layers))
    return total


def _macs_in(layers: Sequence[Layer], each: Sequence[Mapping[str, Rows]]) -> int:
    """Multiply-accumulates of tiles with these columns of every map; one tile is the layers as they
    are.
    """
    if len(each) < 2:
        return sum(map(_cost, layers))
    return sum(
        cost // layer.output.shape[COLUMNS] * sum(len(wanted[layer.output.name]) for wanted in each)
        for layer in layers
        if (cost := _cost(layer))
    )


def _neighbours(network: Network, regions: tuple[Region, ...]) -> Iterator[tuple[Region, ...]]:
    """Regions that differ in one, with no more tiles than each can have."""
    for found in _changed(network, regions):
        yield tuple(
            replace(one, tiles=min(one.tiles, most_tiles(network.layers[one.first : one.last + 1])))
            for one in found
        )


def _changed(network: Network, regions: tuple[Region, ...]) -> Iterator[tuple[Region, ...]]:
    """Another number of tiles of one region, another order, another end."""
    ends = _narrow(network)
    for k, one in enumerate(regions):
        before, after = regions[:k], regions[k + 1 :]
        width = target_of(network.layers[one.last]).shape[COLUMNS]
        now = -(-width // one.tiles)
        counts = {
            one.tiles - 1,
            one.tiles + 1,
            -(-width // (now + 1)),
            -(-width // max(1, now - 1)),
        }
        for count in sorted(counts - {one.tiles}):
            if 1 <= count <= width:
                yield (*before, replace(one, tiles=count), *after)
        if k:
            yield (*before, replace(one, follows=not one.follows), *after)
            previous = regions[k - 1]
            if previous.last + 1 == one.first:
                merged = replace(one, first=previous.first, follows=previous.follows)
                yield (*before[:-1], merged, *after)
                for end in ends:
                    if (
                        previous.first < end <= one.last
                        and end != one.first
                        and abs(ends.index(end) - ends.index(one.first)) == 1
                    ):
                        yield (
                            *before[:-1],
                            replace(previous, last=end - 1),
                            replace(one, first=end),
                            *after,
                        )
        for end in ends:
            if one.first < end <= one.last:
                for follows in (True, False):
                    yield (
                        *before,
                        replace(one, last=end - 1),
                        replace(one, first=end, follows=follows),
                        *after,
                    )


# What is told --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """What is computed more than once, and what that saves.

    tiles: the regions as text (`PlanOptions.tiles`). macs, once: multiply-accumulates with and without
    tiles. times: layer -> how often a column of it is computed, on average, where that is more than
    once. peak_live, before: most bytes alive at one time with and without, a row a phase, scratch
    not counted.
    """

    tiles: str
    macs: int
    once: int
    times: Mapping[str, float]
    peak_live: int
    before: int

    @property
    def factor(self) -> float:
        """Multiply-accumulates over those of the network as it is."""
        return self.macs / self.once if self.once else 1.0

    def __str__(self) -> str:
        if not self.tiles:
            return "nothing is computed twice: no tiles of columns take less"
        most = max(self.times, key=self.times.__getitem__, default="")
        again = (
            f"{counted(len(self.times), 'layer is', 'layers are')} computed more than once in part "
            f"('{most}' {self.times[most]:.2f} times)"
            if self.times
            else "nothing is computed twice"
        )
        return (
            f"{self.factor:.4g} times the multiply-accumulates ({self.macs:,} for {self.once:,}), {again}; "
            f"{self.peak_live:,} bytes alive at most for {self.before:,}, rows one by one"
        )

    @property
    def saved(self) -> int:
        """Bytes that are alive less at most."""
        return self.before - self.peak_live


def recomputed(
    network: Network,
    factor: float | Fraction,
    plan_of: Callable[[str], int] | None = None,
    *,
    effort: int = EFFORT,
) -> tuple[Tiled, Told]:
    """A network that takes less memory for at most `factor` times its multiply-accumulates; the network
    as it is where that gains nothing.

    network: with its layers joined. plan_of: bytes that a plan with these tiles takes; it decides
    among the best few. effort: as in `searched`. Raises InputError for a factor below 1.
    """
    found = searched(network, factor, effort)
    best = found[0]
    if plan_of is not None:
        best = min(found[:TRIED], key=lambda one: plan_of(written(one.regions)))
    before = next(one.peak_live for one in found if not one.regions)
    once = multiply_accumulates(network)
    times = MappingProxyType(dict(_times(network, best.regions)))
    return best.tiled, Told(written(best.regions), best.macs, once, times, best.peak_live, before)


def _times(network: Network, regions: Sequence[Region]) -> Iterator[tuple[str, float]]:
    """Layers of which columns are computed more than once, and how often on average."""
    for region in regions:
        layers = network.layers[region.first : region.last + 1]
        parts = parts_of(target_of(layers[-1]), region.tiles)
        each = [wanted_columns(layers, part) for part in parts] if region.tiles > 1 else []
        for layer in layers:
            made = sum(len(wanted.get(layer.output.name, ())) for wanted in each)
            if made > layer.output.shape[COLUMNS]:
                yield layer.name, made / layer.output.shape[COLUMNS]
