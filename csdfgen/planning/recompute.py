"""Which layers should be computed in tiles, so that a network takes the least memory for a limit of multiply-accumulates?

A network may be cut at maps which are all that later layers read (`rewriting.tiles.boundaries`). The layers between two
cuts are a region. Regions that follow each other are executed tile by tile, and of the maps between them the columns
that the next tile reads are kept. A cascade is a sequence of such regions. It begins when the cascade before it is
complete, so that its input map shrinks while its output map grows.

The bytes that a region holds follow for every number of tiles from one stream of rows through it: the row rule gives the
rows of every map that are alive, and the halo its columns. A dynamic program over regions and numbers of tiles finds the
trade of memory for multiply-accumulates of every cascade, and another one the sequence of cascades with the least peak.
The best few are made and measured, then the best with maps that wait for their mean (squeeze and excite) computed twice,
the largest first, and then neighbours of the best (a tile more or fewer, a border moved) as long as one is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import TypeVar

import numpy as np

from csdfgen.errors import InputError, option
from csdfgen.model.network import Layer, Network, Output
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.phases.conversion import convert, find_fed_slices
from csdfgen.planning.buffers import make_buffers
from csdfgen.planning.lifetimes import trace_lifetimes
from csdfgen.planning.ordering import order_by_sinks
from csdfgen.planning.sharing import share
from csdfgen.rewriting.tiles import (
    COLUMNS,
    Region,
    Tiled,
    boundaries,
    find_recomputed,
    format_regions,
    max_tiles,
    required_columns,
    split_columns,
    tile_network,
    tile_target,
)
from csdfgen.stopping import is_stopped

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 18, 24, 36, 48, 64, 96)
"""Columns of a tile that are tried."""

SPAN = 8
"""Boundaries that a region spans at most: the halos of longer regions are never worth it."""

ENOUGH = 1.1
"""Times the least memory of a region that is computed twice with which it may begin at a nearer boundary."""

FIRINGS = 30_000
"""Firings of the tiles of one region at most: narrower tiles save little, and take long to plan and to execute."""


def multiply_accumulates(network: Network) -> int:
    """Multiply-accumulates of all layers, exact."""
    return sum(_cost(layer) for layer in network.layers)


def _cost(layer: Layer) -> int:
    operator = get_operator(layer)
    return operator.cost(layer, Rows(0, layer.output.rows)) if operator.multiplies else 0


# Costs of a region --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """A region with a number of tiles.

    macs: of all tiles. inner: bytes that a tile holds, without the maps that the region reads and writes. parts, reads:
    columns that each tile writes and reads.
    """

    region: Region
    macs: int
    inner: int
    parts: tuple[Rows, ...]
    reads: tuple[Rows, ...]


class _Model:
    """The costs of every region for every number of tiles worth trying. spare: multiply-accumulates that may be added."""

    def __init__(self, network: Network, spare: int) -> None:
        self.network, self.spare = network, spare
        self.ends = _narrow(network)
        self.choices: dict[tuple[int, int], list[_Choice]] = {}
        for k, first in enumerate(self.ends):
            for end in self.ends[k + 1 : k + 1 + SPAN]:
                self.choices[first, end] = self._of_region(first, end)

    def map_bytes(self, end: int) -> int:
        """Bytes of the map at a boundary; 0 for the input, which is streamed."""
        return 0 if end == 0 else self.network.layers[end - 1].output.nbytes

    def column_bytes(self, end: int) -> int:
        """Bytes of a column of the map at a boundary."""
        if end == 0:
            return 0
        output = self.network.layers[end - 1].output
        return output.nbytes // output.shape[COLUMNS]

    def _of_region(self, first: int, end: int) -> list[_Choice]:
        layers = self.network.layers[first:end]
        stream = _Stream.of(layers)
        most = max_tiles(layers)
        counts = sorted({-(-most // w) for w in WIDTHS if w < most} | {1})
        found: list[_Choice] = []
        own = sum(map(_cost, layers))
        for count in counts:
            one = self._choice(Region(first, end - 1, count), layers, stream)
            firings = count * sum(layer.output.rows for layer in layers)
            if found and (one.macs - own > self.spare or firings > FIRINGS):
                break
            # more tiles cost more multiply-accumulates, and are useful only if they hold less
            if not found or one.inner < found[-1].inner:
                found.append(one)
        return found

    def _choice(self, region: Region, layers: Sequence[Layer], stream: _Stream) -> _Choice:
        parts = split_columns(tile_target(layers[-1]), region.tiles)
        if region.tiles == 1:
            return _Choice(region, _macs_in(layers, ()), stream.whole, parts, parts)
        each = [required_columns(layers, part) for part in parts]
        reads = tuple(wanted[stream.entry] for wanted in each)
        macs = _macs_in(layers, each)
        widest = max(each, key=lambda wanted: sum(map(len, wanted.values())))
        return _Choice(region, macs, stream.peak(widest), parts, reads)


def _narrow(network: Network) -> tuple[int, ...]:
    """Boundaries whose maps are no larger than those of their neighbours, and the first and the last."""
    ends = boundaries(network)
    sizes = [inf if end == 0 else network.layers[end - 1].output.nbytes for end in ends]
    return tuple(
        end
        for k, end in enumerate(ends)
        if k in (0, len(ends) - 1) or (sizes[k] <= sizes[k + 1] and (sizes[k] <= sizes[k - 1]))
    )


@dataclass(frozen=True, eq=False)
class _Stream:
    """A region as one stream of rows, with the rows that are alive together.

    entry: the map that it reads. held: (maps,) bytes of one column of a row; alive: (instants, maps) rows, no two instants
    equal. whole: most bytes alive at one time with rows of full width.
    """

    entry: str
    maps: tuple[str, ...]
    held: np.ndarray
    alive: np.ndarray
    whole: int

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> _Stream:
        """The stream of a region's layers."""
        alone = _alone(layers)
        (entry,), end = alone.inputs, layers[-1].output
        conversion = convert(alone, "1")
        sharing = share(alone)
        result = sharing.places[end.name].buffer  # counted by the region that reads it
        buffers = [one for one in make_buffers(conversion, sharing) if one.name != result]
        order = order_by_sinks(conversion, [layers[-1].name])
        lifetimes = trace_lifetimes(order, buffers)
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


def _alone(layers: Sequence[Layer]) -> Network:
    """A region as a network."""
    made = {tensor.name for layer in layers for tensor in layer.outputs}
    entry = next(t for la in layers for t in la.inputs if t is not None and t.name not in made)
    end = layers[-1].output
    return Network("region", (entry,), (Output(end.name, end),), tuple(layers))


# Cascades and their sequences -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Label:
    """A sequence of regions. held: bytes between them; inner: most bytes in a tile."""

    held: int
    macs: int
    inner: int
    choices: tuple[_Choice, ...]


@dataclass(frozen=True, slots=True)
class _Cascade:
    memory: int
    macs: int
    choices: tuple[_Choice, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(replace(one.region, follows=k > 0) for k, one in enumerate(self.choices))


_Found = TypeVar("_Found", _Label, _Cascade)


def _front(found: Iterable[_Found], size: Callable[[_Found], int]) -> list[_Found]:
    """The Pareto front of bytes and multiply-accumulates, the smallest first."""
    front: list[_Found] = []
    for one in sorted(found, key=lambda one: (size(one), one.macs)):
        if not front or one.macs < front[-1].macs:
            front.append(one)
    return front


def _kept(labels: Sequence[_Label]) -> list[_Label]:
    """The Pareto front of chains; of a front of four or more both ends and the middle."""
    found = _front(labels, lambda label: label.held + label.inner)
    return found if len(found) < 4 else [found[0], found[-1], found[len(found) // 2]]


class _Cascades:
    """For the layers between any two boundaries the trade of memory for multiply-accumulates as one cascade.

    limit: most bytes of a cascade.
    """

    LEVELS = 8
    """Limits on the bytes of a tile, for each of which sequences of regions are searched."""

    LABELS = 3
    """Sequences that are kept for the same last region."""

    def __init__(self, model: _Model, limit: int) -> None:
        self.model, self.limit = model, limit
        self._between: dict[tuple[_Choice, _Choice], int] = {}
        self.found: dict[tuple[int, int], list[_Cascade]] = {}
        for first in model.ends[:-1]:
            for level in self._levels():
                if not is_stopped():
                    self._grow(first, level)
        for key, cascades in self.found.items():
            self.found[key] = _front(cascades, lambda one: one.memory)

    def _levels(self) -> list[int]:
        """Limits on the bytes of a tile, from the least of the largest layer up to `limit`."""
        ends, choices = self.model.ends, self.model.choices
        low = max(min(one.inner for one in choices[step]) for step in pairwise(ends))
        low = max(1, min(low, self.limit))
        ratio = (self.limit / low) ** (1 / (self.LEVELS - 1))
        return sorted({int(low * ratio**k) for k in range(self.LEVELS)})

    def _grow(self, first: int, level: int) -> None:
        """Add all cascades after a boundary whose tiles hold at most `level` bytes."""
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
        """Most bytes of the map between two regions while the second one reads it tile by tile."""
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
            cascade = _Cascade(memory, label.macs, label.choices)
            self.found.setdefault((first, end), []).append(cascade)

    def least(self, limit: int) -> tuple[int, tuple[Region, ...]] | None:
        """The sequence of cascades within `limit` bytes with the fewest multiply-accumulates."""
        ends = self.model.ends
        best: dict[int, tuple[int, tuple[Region, ...]]] = {0: (0, ())}
        for end in ends[1:]:
            for first in ends:
                if first >= end or first not in best:
                    continue
                fits = [s for s in self.found.get((first, end), ()) if s.memory <= limit]
                if fits:
                    cascade = min(fits, key=lambda s: s.macs)
                    macs, regions = best[first]
                    if end not in best or macs + cascade.macs < best[end][0]:
                        best[end] = macs + cascade.macs, (*regions, *cascade.regions)
        return best.get(ends[-1])

    def limits(self) -> list[int]:
        """The bytes of all cascades: the only limits at which results change."""
        return sorted({cascade.memory for cascades in self.found.values() for cascade in cascades})


EFFORT = 150_000
"""Firings that are followed while sequences of cascades are tried: about 20 seconds."""

TRIED = 6
"""Sequences of cascades that are tried before the neighbours of the best."""


# The search ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MeasuredTiles:
    """Regions, their network in tiles, and its costs: peak of bytes alive in the order of its tiles (without workspace),
    multiply-accumulates, firings.
    """

    regions: tuple[Region, ...]
    tiled: Tiled
    peak_live: int
    macs: int
    firings: int

    @property
    def tiles(self) -> str:
        """The regions as text (`PlanOptions.tiles`)."""
        return format_regions(self.regions)


def measure_tiles(network: Network, regions: Sequence[Region]) -> MeasuredTiles:
    """The costs of regions: of the network in tiles, in phases of one row, in the order of its tiles, with a streamed
    image.
    """
    made = tile_network(network, regions)
    conversion = convert(made.network, "1")
    sharing = share(made.network, fed=find_fed_slices(made.network, "streamed"))
    order = order_by_sinks(conversion, made.sinks)
    live = trace_lifetimes(order, make_buffers(conversion, sharing)).peak_live
    return MeasuredTiles(tuple(regions), made, live, multiply_accumulates(made.network), len(order))


def search_regions(
    network: Network, factor: float | Fraction, effort: int = EFFORT
) -> tuple[MeasuredTiles, ...]:
    """Regions with the least peak for at most `factor` times the multiply-accumulates, the best first.

    network: after fusion (`rewriting.fuse`). effort: firings that are followed while sequences of cascades are tried; the
    same effort gives the same regions on any machine. Raises InputError for a factor below 1.
    """
    if not 1 <= factor < inf:
        raise InputError(
            f"{option('recompute', factor)}: a number of at least 1 is needed (1: nothing twice)"
        )
    total = multiply_accumulates(network)
    most = int(total * Fraction(factor))
    whole = measure_tiles(network, ())
    found = [whole]
    if len(boundaries(network)) > 1:
        cascades = _Cascades(_Model(network, most - total), whole.peak_live)
        left = effort
        for regions in _candidates(cascades, most - _outside(network), TRIED):
            if 2 * left < effort or is_stopped():
                break
            one = measure_tiles(network, regions)
            found.append(one)
            left -= one.firings
        found.sort(key=lambda one: (one.peak_live, one.firings))
        found, left = _gated(network, found, most, left)
        found = _climbed(network, found, most, left)
    return tuple(found)


def _gated(
    network: Network, found: list[MeasuredTiles], most: int, effort: int
) -> tuple[list[MeasuredTiles], int]:
    """The same, the best first, with what the best becomes where maps that wait for their mean are computed twice, if it
    takes less memory; and the effort that is left.
    """
    regions = tuple(one for one in found[0].regions if one.tiles > 1)
    for region in _gates(network):
        trial = sorted((*regions, region), key=lambda one: one.first)
        apart = all(a.last < b.first for a, b in pairwise(trial))
        if effort < 0 or is_stopped() or not apart or count_tiled_macs(network, trial) > most:
            continue
        regions = tuple(trial)
        one = measure_tiles(network, regions)
        effort -= one.firings
        found = [*found, one]
    found.sort(key=lambda one: (one.peak_live, one.firings))
    for region in found[0].regions:
        if region.tiles or effort < 0 or is_stopped():
            continue
        one = measure_tiles(network, [other for other in found[0].regions if other != region])
        effort -= one.firings
        if one.peak_live <= found[0].peak_live:
            found = [one, *found]
    return found, effort


def _gates(network: Network) -> list[Region]:
    """Regions that can be computed twice, those of the largest maps first. Each begins at the nearest boundary from which on
    it takes about as little memory as from any.
    """
    ends, found, done = boundaries(network), list[tuple[int, Region]](), 0
    for stop in ends[1:]:
        starts = [
            start
            for start in [end for end in ends if done <= end < stop][-SPAN:]
            if find_recomputed(network.layers[start:stop])
        ]
        if not starts:
            continue
        takes = {start: _twice_alone(network.layers[start:stop], start == 0) for start in starts}
        first = max(start for start in starts if takes[start] <= ENOUGH * min(takes.values()))
        _, makers = find_recomputed(network.layers[first:stop])[-1]
        found.append((makers[-1].output.nbytes, Region(first, stop - 1, 0)))
        done = stop
    return [region for _, region in sorted(found, key=lambda one: (-one[0], one[1].first))]


def _twice_alone(layers: Sequence[Layer], streamed: bool) -> int:
    """Bytes that a region takes which is computed twice, with the map that it reads unless that is a streamed image."""
    found = measure_tiles(_alone(layers), [Region(0, len(layers) - 1, 0)])
    return found.peak_live if streamed else _Stream.of(found.tiled.network.layers).whole


def _outside(network: Network) -> int:
    """Multiply-accumulates after the last boundary, which are in no region."""
    return sum(_cost(layer) for layer in network.layers[boundaries(network)[-1] :])


def _candidates(cascades: _Cascades, most: int, count: int) -> Iterator[tuple[Region, ...]]:
    """Sequences of cascades with at most `most` multiply-accumulates, from the least memory upwards."""
    limits = cascades.limits()
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        found = cascades.least(limits[middle])
        if found is not None and found[0] <= most:
            high = middle
        else:
            low = middle + 1
    given, below = 0, most
    for limit in limits[low:]:
        found = cascades.least(limit)
        if found is not None and found[0] <= below:
            # so that the next one is another sequence, and not the same with one tile less
            below = found[0] - max(1, cascades.model.spare // (3 * count))
            yield found[1]
            given += 1
            if given == count:
                return


def _climbed(
    network: Network, found: list[MeasuredTiles], most: int, effort: int
) -> list[MeasuredTiles]:
    """Repeatedly replace the best by a better neighbour, until none is better or the effort is used up. The result has
    the best first.
    """
    known = {one.regions for one in found}
    gained = True
    while gained:
        gained = False
        for regions in _neighbours(network, found[0].regions):
            if regions in known or count_tiled_macs(network, regions) > most:
                continue
            if effort < 0 or is_stopped():
                return found
            known.add(regions)
            one = measure_tiles(network, regions)
            effort -= one.firings
            if one.peak_live < found[0].peak_live:
                found, gained = [one, *found], True
                break
    return found


def count_tiled_macs(network: Network, regions: Sequence[Region]) -> int:
    """Multiply-accumulates of a network with regions in tiles, without making that network."""
    total = multiply_accumulates(network)
    for region in regions:
        layers = network.layers[region.first : region.last + 1]
        if not region.tiles:
            total += sum(_cost(one) for _, makers in find_recomputed(layers) for one in makers)
            continue
        each = _columns(layers, region.tiles)
        total += _macs_in(layers, each) - sum(map(_cost, layers))
    return total


def _columns(layers: Sequence[Layer], tiles: int) -> list[Mapping[str, Rows]]:
    """The columns of every map for each tile; empty for one tile, which is the layers as they are."""
    parts = split_columns(tile_target(layers[-1]), tiles) if tiles > 1 else ()
    return [required_columns(layers, part) for part in parts]


def _macs_in(layers: Sequence[Layer], each: Sequence[Mapping[str, Rows]]) -> int:
    """Multiply-accumulates of tiles with these columns of every map; empty for the layers as they are."""
    if len(each) < 2:
        return sum(map(_cost, layers))
    return sum(
        cost // layer.output.shape[COLUMNS] * sum(len(wanted[layer.output.name]) for wanted in each)
        for layer in layers
        if (cost := _cost(layer))
    )


def _neighbours(network: Network, regions: tuple[Region, ...]) -> Iterator[tuple[Region, ...]]:
    """Regions with one change, each with at most as many tiles as it can have."""
    for found in _changed(network, regions):
        each = [network.layers[one.first : one.last + 1] for one in found]
        yield tuple(
            replace(one, tiles=min(one.tiles, max_tiles(layers)))
            if one.tiles or find_recomputed(layers)
            else replace(one, tiles=1)
            for one, layers in zip(found, each, strict=True)
        )


def _changed(network: Network, regions: tuple[Region, ...]) -> Iterator[tuple[Region, ...]]:
    """Regions with another number of tiles, another order, or another end of one of them."""
    ends = _narrow(network)
    for k, one in enumerate(regions):
        before, after = regions[:k], regions[k + 1 :]
        if not one.tiles:
            yield (*before, *after)
            continue
        width = tile_target(network.layers[one.last]).shape[COLUMNS]
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
