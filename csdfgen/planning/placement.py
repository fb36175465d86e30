"""Where is each row of each buffer stored? At static offsets, so that rows that are alive together share no bytes.

The invariant is that bytes of a pool belong to one row at a time. Every row has its own lifetime and offset (slots
`i mod capacity` would take up to 1.9 times the peak), the rows of one firing are one contiguous block, and the scratch
of a firing is a block for that firing. All blocks of a plan are packed together (`planning.packing`), and
`planning.checker` checks the bytes of every plan.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from csdfgen.planning.buffers import ARENA, Buffer, workspace_buffer, workspace_name
from csdfgen.planning.lifetimes import Lifetimes
from csdfgen.planning.packing import Items, Packing, pack
from csdfgen.planning.packing.exact import pack_exact
from csdfgen.planning.packing.items import FREE

Used = Callable[[str, int, int], int]
"""(actor, phase, bytes of scratch that it is given) -> bytes that it uses."""


@dataclass(frozen=True, slots=True)
class Region:
    """Where the rows of a buffer are stored in a pool. table: the offset of each row, in 8 bytes each, as tensors have
    thousands of rows. capacity: see `Lifetime`.
    """

    buffer: str
    row_bytes: int
    capacity: int
    table: Sequence[int]
    pool: str = ARENA

    def __post_init__(self) -> None:
        packed = array("q", np.asarray(self.table, np.int64).tobytes())
        object.__setattr__(self, "table", packed)

    @property
    def size(self) -> int:
        """Bytes of its capacity."""
        return self.capacity * self.row_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Regions by buffer, including workspaces, and the total bytes from 0.

    lower_bound: in bytes, for every placement of these lifetimes. optimal: whether no placement is smaller.
    """

    regions: Mapping[str, Region]
    workspaces: tuple[Buffer, ...]
    total: int
    lower_bound: int
    optimal: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """Contiguous rows [start, stop) of a buffer (by its number)."""

    buffer: np.ndarray
    start: np.ndarray
    stop: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The items of a plan for a packer: blocks of rows, followed by the scratch of firings that take any.

    scratch: actor -> (bytes of each phase, firing of each phase).
    """

    buffers: Sequence[Buffer]
    lifetimes: Lifetimes
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]]
    blocks: _Blocks
    items: Items

    def placed(self, packed: Packing) -> Placement:
        """The placement by the offsets of the items."""
        at = len(self.blocks.buffer)
        regions = _regions(self.buffers, self.lifetimes, self.blocks, packed.offsets[:at])
        found = {}
        for actor, (sizes, _) in self.scratch.items():
            offsets, firing = np.zeros_like(sizes), sizes > 0
            end = at + np.count_nonzero(firing)
            offsets[firing] = packed.offsets[at:end]
            found[actor], at = (sizes, offsets), end
        rows = Placement(regions, (), packed.total, packed.lower_bound, packed.optimal)
        return _beside(rows, found, self.items.alignment)

    def named(self) -> Items:
        """The items with names: `buffer[row]` with the first row of a block, and `workspace:ACTOR[phase]`."""
        names = [
            f"{self.buffers[buffer].name}[{row}]"
            for buffer, row in zip(
                self.blocks.buffer.tolist(), self.blocks.start.tolist(), strict=True
            )
        ]
        names += [
            f"{workspace_name(actor)}[{phase}]"
            for actor, (sizes, _) in self.scratch.items()
            for phase in np.flatnonzero(sizes).tolist()
        ]
        return replace(self.items, names=names)

    def moved(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """Bytes that are given for every row of the buffers (and every phase of workspaces), summed for each item."""
        each = [rows[buffer.name] for buffer in self.buffers]
        blocks = [
            int(each[buffer][start:stop].sum())
            for buffer, start, stop in zip(
                self.blocks.buffer.tolist(),
                self.blocks.start.tolist(),
                self.blocks.stop.tolist(),
                strict=True,
            )
        ]
        scratch = [
            rows[workspace_name(actor)][sizes > 0] for actor, (sizes, _) in self.scratch.items()
        ]
        return np.concatenate([np.array(blocks, np.int64), *scratch])


def make_layout(
    buffers: Sequence[Buffer],
    lifetimes: Lifetimes,
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> Layout:
    """The items of these buffers and this scratch."""
    blocks, rows = _blocks(buffers, lifetimes)
    items = _items(rows, _settled(buffers, blocks), scratch, _alignment(buffers))
    return Layout(buffers, lifetimes, scratch, blocks, items)


def place(
    buffers: Sequence[Buffer],
    lifetimes: Lifetimes,
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    effort: str | float = "low",
    exact: bool = False,
    enough: int | None = None,
    least: bool = False,
) -> Placement:
    """Offsets for all rows of the buffers and for the scratch of every firing.

    scratch: actor -> (bytes of each phase, firing of each phase). effort: of the packer. exact: prove or bound the
    packing with OR-Tools; otherwise `enough` are bytes that suffice. least: see `twice` of `packing.pack`. Raises
    PlanError if OR-Tools is not installed.
    """
    layout = make_layout(buffers, lifetimes, scratch)
    if exact:
        return layout.placed(pack_exact(layout.items, effort=effort))
    return layout.placed(pack(layout.items, effort=effort, limit=enough, twice=least))


def extend_scratch(
    buffers: Sequence[Buffer],
    lifetimes: Lifetimes,
    placed: Placement,
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]],
    levels: Sequence[Mapping[str, np.ndarray]],
    room: int = 0,
) -> Placement:
    """The same rows, with as much scratch for every firing as the largest gap that is free during it: larger blocks are
    faster, and free bytes cost nothing. room: bytes that the arena may grow to for that.

    scratch: as placed, actor -> (bytes of each phase, firing of each phase), also of actors that could use some and have
    none. levels: bytes that kernels can use, actor -> of each phase, from little to much. The total is at most the
    larger of the arena and `room`, and smaller if scratch at the top moves into a gap.
    """
    most, step = max(placed.total, room), _alignment(buffers)
    born = np.concatenate([one.born for one in lifetimes.each])
    gone = np.concatenate([one.gone for one in lifetimes.each])
    low = np.concatenate([np.array(placed.regions[b.name].table) for b in buffers])
    high = low + np.concatenate([np.full(b.rows, b.row_bytes) for b in buffers])
    # rows without bytes between them that are alive in the same firings are one range
    apart = (low[1:] != high[:-1]) | (born[1:] != born[:-1]) | (gone[1:] != gone[:-1])
    first, last = np.append(True, apart), np.append(apart, True)
    born, gone, low, high = born[first], gone[first], low[first], high[last]
    by_place = np.argsort(low, kind="stable")
    born, gone, low, high = born[by_place], gone[by_place], low[by_place], high[by_place]
    found = {}
    for actor, (sizes, times) in scratch.items():
        name = workspace_name(actor)
        placed_at = placed.regions[name].table if name in placed.regions else np.zeros_like(sizes)
        offsets, wider = np.array(placed_at), sizes.copy()
        wanted = [level.get(actor, np.zeros_like(sizes)) for level in levels]
        enough = np.max(wanted, axis=0)
        for phase in np.flatnonzero(enough > sizes).tolist():
            alive = (born <= times[phase]) & (gone > times[phase])
            at, size = _largest_gap(low[alive], high[alive], placed.total, step)
            if most > placed.total and size < enough[phase]:
                at, size = _largest_gap(low[alive], high[alive], most, step)
            fits = [int(want[phase]) for want in wanted if sizes[phase] < want[phase] <= size]
            # every size above the least is of use: all free bytes if they are less than all levels
            fits = fits or [size] if size > sizes[phase] else []
            if fits:
                offsets[phase], wider[phase] = at, fits[-1]
        found[actor] = wider, offsets
    return _beside(placed, found, step)


def trim_scratch(
    placed: Placement, scratch: Mapping[str, tuple[np.ndarray, np.ndarray]], used: Used
) -> Placement:
    """The same without scratch above all rows that its firing does not use. Kernels may use less than the free bytes, which
    is known only now that the offsets of their rows are.

    scratch: the least scratch, which is kept: actor -> (bytes of each phase, firing of each phase).
    """
    own = {workspace_name(actor): (actor, sizes) for actor, (sizes, _) in scratch.items()}
    top, found = _end(_rows(placed)), {}
    for buffer in placed.workspaces:
        actor, least = own[buffer.name]
        sizes, offsets = np.array(buffer.sizes), np.array(placed.regions[buffer.name].table)
        for phase in np.flatnonzero((sizes > least) & (offsets + sizes > top)).tolist():
            sizes[phase] = max(least[phase], used(actor, phase, int(sizes[phase])))
        found[actor] = sizes, offsets
    return _beside(placed, found, _alignment(placed.workspaces))


def _alignment(buffers: Iterable[Buffer]) -> int:
    """The alignment that all these buffers have."""
    return max((one.alignment for one in buffers), default=1)


def _beside(
    placed: Placement, scratch: Mapping[str, tuple[np.ndarray, np.ndarray]], alignment: int
) -> Placement:
    """The same rows with other scratch, actor -> (bytes, offset of each phase), in an arena that ends with them."""
    regions, workspaces = _rows(placed), []
    total = _end(regions)
    for actor, (sizes, offsets) in scratch.items():
        if sizes.any():
            total = max(total, int((offsets + sizes)[sizes > 0].max()))
            buffer, region = _workspace(actor, sizes, offsets, alignment)
            regions[buffer.name] = region
            workspaces.append(buffer)
    return replace(placed, regions=regions, workspaces=tuple(workspaces), total=total)


def _rows(placed: Placement) -> dict[str, Region]:
    """The regions of a placement without those of scratch."""
    own = {buffer.name for buffer in placed.workspaces}
    return {name: one for name, one in placed.regions.items() if name not in own}


def _end(regions: Mapping[str, Region]) -> int:
    """Where the highest row ends."""
    return max((max(one.table) + one.row_bytes for one in regions.values()), default=0)


def _largest_gap(low: np.ndarray, high: np.ndarray, total: int, step: int) -> tuple[int, int]:
    """(offset, bytes) of the largest free range below `total` that starts at a multiple of `step`; low, high: of rows,
    sorted by offset.
    """
    starts = -(-np.append(0, high) // step) * step
    sizes = np.append(low, total) - starts
    at = int(np.argmax(sizes))
    return int(starts[at]), int(sizes[at])


def _items(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    fixed: np.ndarray,
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]],
    alignment: int,
) -> Items:
    """Blocks, as (bytes, born, gone), followed by the scratch of firings that take any."""
    sizes, times = _listed(scratch)
    firing = sizes > 0
    return Items(
        np.concatenate([rows[0], sizes[firing]]),
        np.concatenate([rows[1], times[firing]]),
        np.concatenate([rows[2], times[firing] + 1]),
        alignment,
        fixed=np.concatenate([fixed, np.full(np.count_nonzero(firing), FREE)]),
    )


def _workspace(
    actor: str, sizes: np.ndarray, offsets: np.ndarray, alignment: int
) -> tuple[Buffer, Region]:
    """The scratch of an actor, with the bytes and the offset of each of its phases."""
    buffer = workspace_buffer(actor, sizes.tolist(), alignment)
    return buffer, Region(buffer.name, buffer.row_bytes, 1, tuple(offsets.tolist()))


def _listed(scratch: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, firing) of the scratch of all phases of all actors, in order."""
    if not scratch:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return (
        np.concatenate([sizes for sizes, _ in scratch.values()]),
        np.concatenate([times for _, times in scratch.values()]),
    )


def _blocks(
    buffers: Sequence[Buffer], lifetimes: Lifetimes
) -> tuple[_Blocks, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The blocks of all buffers, with (bytes, born, gone) of each."""
    numbers, starts, stops, sizes, borns, gones = [], [], [], [], [], []
    for number, (buffer, one) in enumerate(zip(buffers, lifetimes.each, strict=True)):
        start = np.array(buffer.blocks)
        stop = np.append(start[1:], buffer.rows)
        numbers.append(np.full(len(start), number))
        starts.append(start)
        stops.append(stop)
        sizes.append((stop - start) * buffer.row_bytes)
        borns.append(one.born[start])
        gones.append(np.maximum.reduceat(one.gone, start))
    blocks = _Blocks(np.concatenate(numbers), np.concatenate(starts), np.concatenate(stops))
    return blocks, (np.concatenate(sizes), np.concatenate(borns), np.concatenate(gones))


def _settled(buffers: Sequence[Buffer], blocks: _Blocks) -> np.ndarray:
    """Fixed offsets of blocks: kept rows are contiguous from the start of the pool, where other rows are stored before
    they are written; FREE for all other blocks.
    """
    fixed, at = np.full(len(blocks.buffer), FREE), 0
    for number, buffer in enumerate(buffers):
        if buffer.kept:
            mine = blocks.buffer == number
            fixed[mine] = at + blocks.start[mine] * buffer.row_bytes
            at += -(-buffer.rows * buffer.row_bytes // buffer.alignment) * buffer.alignment
    return fixed


def _regions(
    buffers: Sequence[Buffer], lifetimes: Lifetimes, blocks: _Blocks, offsets: np.ndarray
) -> dict[str, Region]:
    """The offset of every row, from those of the blocks."""
    regions = {}
    edges = np.searchsorted(blocks.buffer, np.arange(len(buffers) + 1))
    for number, (buffer, one) in enumerate(zip(buffers, lifetimes.each, strict=True)):
        mine = slice(edges[number], edges[number + 1])
        start, stop = blocks.start[mine], blocks.stop[mine]
        within = np.arange(buffer.rows) - np.repeat(start, stop - start)
        table = np.repeat(offsets[mine], stop - start) + within * buffer.row_bytes
        regions[buffer.name] = Region(
            buffer.name, buffer.row_bytes, one.capacity, tuple(table.tolist()), buffer.pool
        )
    return regions
