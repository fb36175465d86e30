"""Where does each row of each buffer lie? Static offsets, so that rows alive together share no bytes.

The one law of sharing: bytes of a pool belong to one row at a time. Every row has a lifetime and an
offset of its own (slots `i mod capacity` would cost up to 1.9 times the peak), rows that one firing
makes lie together as one block, and the scratch of a firing is a block for that firing. All blocks
of a plan are packed together (`planning.packing`), and `planning.checker` holds every plan to the law by bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from csdfgen.planning.buffers import ARENA, Buffer, workspace_buffer, workspace_name
from csdfgen.planning.lifetimes import Lifetimes
from csdfgen.planning.packing import Items, Packing, pack
from csdfgen.planning.packing.exact import pack_exact
from csdfgen.planning.packing.items import FREE

__all__ = [
    "Layout",
    "Placement",
    "Region",
    "Used",
    "layout_of",
    "place",
    "trimmed",
    "with_free_scratch",
]

Used = Callable[[str, int, int], int]
"""(actor, phase, bytes of scratch that it is given) -> bytes that it makes use of."""


@dataclass(frozen=True, slots=True)
class Region:
    """Where the rows of a buffer are stored in a pool.

    table: the offset of each row. capacity: rows from the lowest that is needed to the highest that is there, at
    most.
    """

    buffer: str
    row_bytes: int
    capacity: int
    table: tuple[int, ...]
    pool: str = ARENA

    @property
    def size(self) -> int:
        """Bytes of the rows from the lowest that is needed to the highest that is there, at most."""
        return self.capacity * self.row_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Regions by buffer, the buffers of scratch among them, and the bytes that all span from 0.

    lower_bound: bytes that no placement of these lifetimes is below. optimal: whether it is reached.
    """

    regions: Mapping[str, Region]
    workspaces: tuple[Buffer, ...]
    total: int
    lower_bound: int
    optimal: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """Rows [start, stop) of a buffer (by its number), that lie together."""

    buffer: np.ndarray
    start: np.ndarray
    stop: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What of a plan is packed: blocks of rows, and behind them the scratch of firings that take any.

    scratch: actor -> (bytes of each phase, firing of each phase).
    """

    buffers: Sequence[Buffer]
    lifetimes: Lifetimes
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]]
    blocks: _Blocks
    items: Items

    def placed(self, packed: Packing) -> Placement:
        """Where everything lies, by the offsets of the items."""
        count = len(self.blocks.buffer)
        found = _scratch(self.scratch, packed.offsets[count:], self.items.alignment)
        regions = _regions(self.buffers, self.lifetimes, self.blocks, packed.offsets[:count])
        regions.update(found.regions)
        return Placement(
            regions, found.workspaces, packed.total, packed.lower_bound, packed.optimal
        )

    def named(self) -> Items:
        """The items with names: `buffer[row]`, the first of a block, and `workspace:ACTOR[phase]`."""
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
        """What is known of every row of the buffers (and of every scratch, by phase), summed up for
        each item.
        """
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


def layout_of(
    buffers: Sequence[Buffer],
    lifetimes: Lifetimes,
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> Layout:
    """What is to be packed of these buffers and this scratch."""
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
) -> Placement:
    """Offsets for all rows of the buffers and for the scratch of every firing.

    scratch: actor -> (bytes of each phase, firing of each phase). effort: of the packer. exact: prove
    the packing, or bound it, with OR-Tools; enough: bytes below which nothing smaller is looked for
    otherwise. Raises PlanError where OR-Tools are not installed.
    """
    layout = layout_of(buffers, lifetimes, scratch)
    if exact:
        return layout.placed(pack_exact(layout.items, effort=effort))
    return layout.placed(pack(layout.items, effort=effort, limit=enough))


def with_free_scratch(
    buffers: Sequence[Buffer],
    lifetimes: Lifetimes,
    placed: Placement,
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]],
    levels: Sequence[Mapping[str, np.ndarray]],
    room: int = 0,
) -> Placement:
    """The same rows, with as much scratch for every firing as the largest gap that is free then
    holds: larger blocks are faster, and what nobody uses costs nothing. room: bytes that the arena may
    take for that, where they are more than it has.

    scratch: as placed, actor -> (bytes of each phase, firing of each phase); of actors that could use
    some and have none, too. levels: what kernels can use, actor -> bytes of each phase, from little to
    much. The total is no larger than the room, smaller where what lay on top is elsewhere now.
    """
    most, step = max(placed.total, room), _alignment(buffers)
    born = np.concatenate([one.born for one in lifetimes.each])
    gone = np.concatenate([one.gone for one in lifetimes.each])
    low = np.concatenate([np.array(placed.regions[b.name].table) for b in buffers])
    high = low + np.concatenate([np.full(b.rows, b.row_bytes) for b in buffers])
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
            # any size from the least on will do: what is free, where that is less than all levels
            fits = fits or [size] if size > sizes[phase] else []
            if fits:
                offsets[phase], wider[phase] = at, fits[-1]
        found[actor] = wider, offsets
    return _beside(placed, found, step)


def trimmed(
    placed: Placement, scratch: Mapping[str, tuple[np.ndarray, np.ndarray]], used: Used
) -> Placement:
    """The same, without bytes above all rows that no firing makes use of: what is free there may be less than
    a kernel could use more of, and which blocks continue one another is known only now.

    scratch: as before it got more, actor -> (bytes of each phase, firing of each phase), which stays.
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
    """The alignment of these buffers, which have one."""
    return max((one.alignment for one in buffers), default=1)


def _beside(
    placed: Placement, scratch: Mapping[str, tuple[np.ndarray, np.ndarray]], alignment: int
) -> Placement:
    """The same rows with other scratch, actor -> (bytes, offset of each phase), and no more than both span."""
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
    """The regions of a placement but those of scratch."""
    own = {buffer.name for buffer in placed.workspaces}
    return {name: one for name, one in placed.regions.items() if name not in own}


def _end(regions: Mapping[str, Region]) -> int:
    """Where the highest row ends."""
    return max((max(one.table) + one.row_bytes for one in regions.values()), default=0)


def _largest_gap(low: np.ndarray, high: np.ndarray, total: int, step: int) -> tuple[int, int]:
    """(offset, bytes) of the largest range below `total` that rows, by offset, leave free, from a multiple of `step` on."""
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
    """Rows, as (bytes, born, gone), and behind them the scratch of firings that take any."""
    sizes, times = _listed(scratch)
    firing = sizes > 0
    return Items(
        np.concatenate([rows[0], sizes[firing]]),
        np.concatenate([rows[1], times[firing]]),
        np.concatenate([rows[2], times[firing] + 1]),
        alignment,
        fixed=np.concatenate([fixed, np.full(np.count_nonzero(firing), FREE)]),
    )


def _scratch(
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]], packed: np.ndarray, alignment: int
) -> Placement:
    """Buffers and regions of the scratch, from the offsets of that which takes any bytes."""
    sizes, _ = _listed(scratch)
    offsets = np.zeros(len(sizes), np.int64)
    offsets[sizes > 0] = packed
    regions, workspaces, at = {}, [], 0
    for actor, (needs, _) in scratch.items():
        buffer, region = _workspace(actor, needs, offsets[at : at + len(needs)], alignment)
        workspaces.append(buffer)
        regions[buffer.name] = region
        at += len(needs)
    return Placement(regions, tuple(workspaces), 0, 0, False)


def _workspace(
    actor: str, sizes: np.ndarray, offsets: np.ndarray, alignment: int
) -> tuple[Buffer, Region]:
    """The scratch of an actor, with the bytes and the offset of each of its phases."""
    buffer = workspace_buffer(actor, sizes.tolist(), alignment)
    return buffer, Region(buffer.name, buffer.row_bytes, 1, tuple(offsets.tolist()))


def _listed(
    scratch: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, firing) of the scratch of all phases of all actors, in turn."""
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
    """Offsets of blocks that have no choice: rows that are kept follow each other from the start of
    the pool on, where others may lie until they come; FREE for all others.
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
            buffer.name,
            buffer.row_bytes,
            one.capacity,
            tuple(table.tolist()),
            buffer.pool,
        )
    return regions
