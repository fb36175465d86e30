"""How do threads share a program? Large steps in parts, by columns or by channels, the others on one.

Parts of a step write different elements and read what no part writes, so that results do not depend on
the number of threads. Which steps are worth it depends on what they compute alone.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise, permutations
from math import prod
from types import MappingProxyType
from typing import Any

from csdfgen.backends.native.families.attention import PART_BLOCKS, scratch_floats
from csdfgen.backends.native.families.byte_maps import DEQUANTIZE, QUANTIZE
from csdfgen.backends.native.families.byte_multiplication import TO_BYTES, TO_SHIFTED, best_way
from csdfgen.backends.native.families.byte_products import FEWER, SIDE
from csdfgen.backends.native.families.maps import SCALE
from csdfgen.backends.native.families.winograd import (
    POINTS,
    WIDE,
    kept_bytes,
    row_bytes,
    row_stages,
    tile_bytes,
    tile_stages,
)
from csdfgen.backends.native.library import Library
from csdfgen.backends.native.regions import Regions, join_regions
from csdfgen.backends.native.structures import (
    PANEL,
    constant,
    ctype,
    get_record,
    instruction,
    structure,
)
from csdfgen.errors import InputError, option
from csdfgen.program.instructions import PADDING, Constants, Instruction, Ref
from csdfgen.program.steps import Call, Touched

ConvShare = structure("csdf_conv_share").record

MOST_THREADS = constant("CSDF_THREADS")
"""Of a team."""

_WORTH = 50_000
"""Multiply-accumulates of a part, below which waiting for the others takes longer than it saves."""

_NEAR = 1 << 18
"""Bytes of weights that every thread may read anew for its columns: they stay in its cache."""

_SECOND = 1 << 19
"""Bytes of weights at points that every thread may read anew: they stay in its second-level cache."""

_COLUMNS = 8
"""Least columns of a part."""

_MOVED = 8
"""Multiply-accumulates that take as long as one element of a map."""

_COPIED = 24
"""Multiply-accumulates that take as long as one element between an array and memory, in another order."""

_DEPTHWISE = 3
"""Multiply-accumulates that take as long as one of a depthwise layer: it waits for what it loads."""

_POWERS = 16
"""Multiply-accumulates that take as long as an element of a softmax or of a normalization."""

_TOGETHER = 64
"""Most instructions of a section."""

_FLOAT, _ALIGNMENT = 4, 64

Spans = Sequence[Sequence[range]]
"""Of each instruction the records of the parts of its sections."""


class Team:
    """Threads that run programs of one `Executable`; they end with it. A process that is forked has none
    of its parent's threads: there they are started when the first program runs.
    """

    def __init__(self, library: Library, threads: int) -> None:
        if not 1 <= threads <= MOST_THREADS:
            raise InputError(f"{option('threads', threads)}: native code takes 1 to {MOST_THREADS}")
        self.threads, self._library = threads, library
        self._start()
        _TEAMS.add(self)

    def _start(self) -> None:
        self._team = self._library.team_new(self.threads)
        if not self._team:
            raise InputError(f"{option('threads', self.threads)}: so many cannot be started")
        self._end = weakref.finalize(self, self._library.team_end, self._team)

    def _run(self, sections: Any, count: int) -> None:
        if not self._team:
            self._start()
        self._library.team_run(self._team, sections, count)

    def after_fork(self) -> None:
        """In the child: nobody waits for threads that are not there."""
        self._end.detach()
        self._team = None

    def sections(
        self, table: int, sections: Sequence[tuple[int, Sequence[int]]], kept: object
    ) -> Call:
        """The call that works off sections of records, one after the other. sections: the first record of each, and from
        there the first of every part, and behind the last.
        """
        size, section = structure("csdf_record").size, ctype("csdf_section")
        firsts = [(ctypes.c_int32 * len(first))(*first) for _, first in sections]
        made: Any = (section * len(sections))(
            *(
                section(table + start * size, ctypes.addressof(first), len(first) - 1)
                for (start, _), first in zip(sections, firsts, strict=True)
            )
        )
        made.kept = kept, firsts
        return self._run, (made, len(sections))


def arrange_sections(
    numbers: Iterable[int],
    spans: Spans,
    touched: Mapping[int, Touched],
    regions: Mapping[int, Regions] = MappingProxyType({}),
) -> tuple[list[int], list[tuple[int, list[int]]]]:
    """Records in the order in which threads take them, and their sections: the place of the first record, and from there the
    first of every part, and behind the last. Instructions that follow each other, and of which none touches what another one
    writes, are one section: their first parts, their second ones, and so on. So are those of which each part touches what other
    parts write in none: a thread goes on with its own columns or channels.

    numbers: of instructions; spans: the records of the parts of each, in one section or in several; regions: of records, as far
    as they are known.

    >>> rows = [Touched((), (("arena", at, at + 8),)) for at in (0, 8, 8)]
    >>> arrange_sections(range(3), [[range(2)], [range(2, 4)], [range(4, 5)]], dict(enumerate(rows)))
    ([0, 2, 1, 3, 4], [(0, [0, 2, 4]), (4, [0, 1])])
    """
    sections: list[list[list[int]]] = []
    reached: list[Regions] = []  # by the parts of the last section, where that is known

    def take(parts: Sequence[Sequence[int]]) -> None:
        known = len(parts) > 1 and all(record in regions for part in parts for record in part)
        mine = [join_regions(map(regions.__getitem__, one)) for one in parts] if known else []
        if sections and len(sections[-1]) == len(parts) and _go_on(reached, mine, len(parts)):
            for part, more in zip(sections[-1], parts, strict=True):
                part += more
            mine = [join_regions(both) for both in zip(reached, mine, strict=True)]
        else:
            sections.append([[*part] for part in parts])
        reached[:] = mine

    for group in group_independent(numbers, touched):
        some = [spans[number] for number in group]
        most = max(len(parts) for sections_of in some for parts in sections_of)
        if len(group) > 1 and most > 1 and all(len(one) == 1 for one in some):
            take(_beside([one[0] for one in some], most))
        else:
            for parts in (parts for sections_of in some for parts in sections_of):
                take([[record] for record in parts])
    order: list[int] = []
    firsts: list[tuple[int, list[int]]] = []
    for lists in sections:
        firsts.append((len(order), [0, *accumulate(map(len, lists))]))
        order += chain.from_iterable(lists)
    return order, firsts


def _go_on(before: Sequence[Regions], after: Sequence[Regions], parts: int) -> bool:
    """Whether parts need not wait until all those before have ended: nothing is shared by different ones."""
    if parts == 1 or len(before) != parts or len(after) != parts:
        return parts == 1
    return not any(before[i].meets(after[k]) for i, k in permutations(range(parts), 2))


def _beside(some: Sequence[range], most: int) -> list[list[int]]:
    """The parts of instructions in so many parts; those of fewer go around."""
    parts: list[list[int]] = [[] for _ in range(most)]
    turn = 0
    for one in some:
        first, turn = (0, turn) if len(one) == most else (turn, turn + len(one))
        for k, record in enumerate(one, first):
            parts[k % most].append(record)
    return parts


def group_independent(
    numbers: Iterable[int], touched: Mapping[int, Touched]
) -> Iterator[list[int]]:
    """Instructions that follow each other, in groups of which none touches what another one writes."""
    group: list[int] = []
    for number in numbers:
        one = touched.get(number)
        apart = one is not None and len(group) < _TOGETHER
        if group and not (apart and not any(_meets(one, touched.get(k)) for k in group)):
            yield group
            group = []
        group.append(number)
    yield from [group] if group else ()


def _meets(one: Touched | None, other: Touched | None) -> bool:
    return one is None or other is None or one.meets(other)


def count_together(touched: Mapping[int, Touched]) -> dict[int, int]:
    """Instruction -> how many are in its group: numbers are in the order in which instructions are executed first."""
    groups = group_independent(sorted(touched), touched)
    return {number: len(group) for group in groups for number in group}


_TEAMS: weakref.WeakSet[Team] = weakref.WeakSet()


def _after_fork() -> None:
    for team in list(_TEAMS):
        team.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def divide_among_threads(
    made: Instruction, threads: int, constants: Constants, together: int = 1
) -> list[list[Instruction]]:
    """The parts of an instruction, at most one a thread, in one section or in several, one after the other; itself alone where
    that is not worth it. constants: to which tables of parts are added. together: instructions of a section.
    """

    def share(work: int) -> int:
        return min(threads, work * together // _WORTH)

    split = _SPLITS.get(made.kernel)
    if split is None:
        return [[made]]
    found = split(made.kernel, get_record(made), share, constants)
    sections = found if found and isinstance(found[0], list) else [found]
    return [
        [one if isinstance(one, Instruction) else instruction(made.kernel, one) for one in parts]
        for parts in sections
        if parts
    ] or [[made]]


_Share = Callable[[int], int]
"""Parts of a step, at most one a thread, by its multiply-accumulates."""


def _element_size(kernel: str) -> int:
    """Bytes of what it reads, unless it converts."""
    of_bytes = kernel.endswith(("bytes_of", "integers_of", "twice_of"))
    return 1 if of_bytes else 2 if kernel.endswith("f16_of") else _FLOAT


def _convolution(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Columns, or channels: panels of them, or whole groups."""
    (layer,), out = constants.rows_of(step.layer), step.out
    taps = layer.kernel_h * layer.kernel_w * (layer.in_channels // layer.groups)
    work = out.count * out.columns * out.channels * taps
    alone = kernel.startswith("depthwise")
    work *= _DEPTHWISE if alone else 1
    weights = _element_size(kernel) * taps * layer.out_channels
    size = PANEL if alone or layer.groups == 1 else layer.out_channels // layer.groups
    blocks = layer.out_channels // size
    parts = min(share(work), max(blocks, out.columns // _COLUMNS))
    by_columns = out.columns >= _COLUMNS * parts and (weights <= _NEAR or blocks < parts)
    room = step.workspace_bytes // max(1, parts) // _ALIGNMENT * _ALIGNMENT
    wide = SIDE if kernel == f"{FEWER}_of" else 1
    if parts < 2:
        return []
    found = []
    units = -(-out.columns // wide) if by_columns else blocks
    for number, (start, stop) in enumerate(_ranges(units, parts)):
        some = _columns(out, start, stop, wide) if by_columns else _channels(out, start, stop, size)
        part = step._replace(out=some)
        if room:
            part = part._replace(
                workspace=_behind(step.workspace, number * room), workspace_bytes=room
            )
        found.append(part)
    return found


def _columns(out: Any, start: int, stop: int, pixels: int) -> Any:
    """Of what a step writes these columns, in units of so many."""
    first, last = start * pixels, min(out.columns, stop * pixels)
    return out._replace(column=out.column + first, columns=last - first)


def _channels(out: Any, start: int, stop: int, size: int) -> Any:
    """Of what a step writes these blocks of channels; the last one has those that fill no block, too."""
    first = start * size
    last = out.channels if stop == out.channels // size else stop * size
    return out._replace(channel=first, channels=last - first)


def _behind(place: Ref, shift: int) -> Ref:
    return Ref(place.pool, place.offset + shift)


def _in_points(kernel: str, step: Any, share: _Share, constants: Constants) -> list[list[Any]]:
    """Of Winograd's kernels: tiles of a row with their share of the workspace, where the weights stay in a near cache; else
    stages in the same workspace: some of the tiles to points, products at some of the points, some of the tiles back. So
    every weight is read by one thread.
    """
    (layer,), out = constants.rows_of(step.layer), step.out
    wide, tile = layer.kernel_w, step.tile
    ins, outs = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    parts = share(out.count * out.columns * out.channels * layer.kernel_h * wide * ins)
    if parts < 2 or not step.some:
        return []
    shape = ins, outs, layer.kernel_h, layer.stride_h, layer.dilation_h
    one = tile_bytes(shape, tile, 1, step.some) if tile else row_bytes(shape, 1, 1, step.some)
    pixels = WIDE if tile else POINTS + 1 - wide
    across = -(-out.columns // pixels)
    kept = (
        0
        if layer.at_points
        else kept_bytes(outs, POINTS * (tile + 2 if tile else 1), 1 if tile else layer.kernel_h)
    )
    room = max(0, step.workspace_bytes - parts * kept) // across // _ALIGNMENT * _ALIGNMENT
    weights = _FLOAT * POINTS * (tile + 2 if tile else layer.kernel_h) * ins * outs
    if across >= parts and across // parts * room >= one and weights <= _SECOND:
        return [
            [
                step._replace(
                    out=_columns(out, start, stop, pixels),
                    workspace=_behind(step.workspace, start * room + part * kept),
                    workspace_bytes=(stop - start) * room + kept,
                )
                for part, (start, stop) in enumerate(_ranges(across, parts))
            ]
        ]
    each = step.each or out.count
    size, room = (out.count // each, each, out.columns), step.workspace_bytes - kept
    count = (
        tile_stages(shape, tile, size, room, step.some)
        if tile
        else row_stages(shape, wide, size, room, step.some)
    )
    whole = constants.table("csdf_conv_step", [step])
    return [
        [
            instruction(
                f"{kernel.removesuffix('_of')}_share_of", ConvShare(whole, stage, part, parts)
            )
            for part in range(parts)
        ]
        for stage in range(layer.groups * count)
    ]


def _map(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Columns, or channels where all of a row is one pixel. Strides of bytes are in bytes."""
    by_columns = step.columns > 1
    whole = step.columns if by_columns else step.channels
    parts = min(share(step.count * step.columns * step.channels * _MOVED), whole)
    found = []
    unit = read = written = _element_size(kernel)
    if unit == 1:
        read = _FLOAT if step.operation == QUANTIZE else 1
        written = _FLOAT if step.operation == DEQUANTIZE else 1
    factor = _FLOAT if step.operation == SCALE and unit > 1 else read
    sizes = read, *[factor] * (len(step.operands) - 1)
    for start, stop in _ranges(whole, parts) if parts > 1 else ():
        operands = [
            one
            if one.rows is None
            else one._replace(
                rows=_shifted(
                    one.rows,
                    start * (one.stride * unit if by_columns else one.channels * size),
                    constants,
                )
            )
            for one, size in zip(step.operands, sizes, strict=True)
        ]
        shift = start * (step.stride * unit if by_columns else written)
        part = step._replace(operands=tuple(operands), out=_shifted(step.out, shift, constants))
        count = {"columns" if by_columns else "channels": stop - start}
        found.append(part._replace(**count))
    return found


def _moved(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Columns of rows between an array and memory; what has none is divided along its longest axis."""
    dims, axes = constants.rows_of(step.dims), constants.rows_of(step.axes)
    if not dims:
        return []
    at = axes.index(1) if 1 in axes else len(axes) - 1
    axis, (size, stride) = axes[at], dims[at][:2]
    parts = min(share(prod(one.size for one in dims) * _COPIED), size)
    starts, found = constants.rows_of(step.starts), []
    for start, stop in _ranges(size, parts) if parts > 1 else ():
        part = dims[at]._replace(size=stop - start)
        first = [*starts[:axis], starts[axis] + start, *starts[axis + 1 :]]
        found.append(
            step._replace(
                dims=constants.table("csdf_dim", [*dims[:at], part, *dims[at + 1 :]]),
                starts=constants.table("int32_t", first),
                memory=_behind(step.memory, start * stride),
            )
        )
    return found


def _pool(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Columns, or panels of channels."""
    source = step.source
    panels = source.channels // PANEL
    seen = step.kernel_h * step.kernel_w * step.columns * step.count * source.channels
    parts = min(share(seen * _MOVED), max(panels, step.columns))
    size = _element_size(kernel)
    if parts < 2:
        return []
    if panels >= parts and step.columns < _COLUMNS * parts:
        return [
            step._replace(
                source=_from(source, first, count, size, constants),
                out=_shifted(step.out, size * first, constants),
            )
            for first, count in _blocks(source.channels, parts)
        ]
    found = []
    for start, stop in _ranges(step.columns, parts):
        part = step._replace(
            pad_left=step.pad_left - start * step.stride_w,
            columns=stop - start,
            out=_shifted(step.out, size * start * step.stride, constants),
        )
        if getattr(step, "columns_seen", None) is not None:
            part = part._replace(columns_seen=_behind(step.columns_seen, start))
        found.append(part)
    return found


def _sum(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Panels of channels of a sum over all pixels of bytes."""
    source = step.source
    work = step.count * step.width * source.channels * _MOVED
    parts = min(share(work), source.channels // PANEL)
    return [
        step._replace(
            source=_from(source, first, count, 1, constants),
            sums=_behind(step.sums, _FLOAT * first),
            out=step.out and _behind(step.out, first),
        )
        for first, count in (_blocks(source.channels, parts) if parts > 1 else ())
    ]


def _from(source: Any, first: int, count: int, size: int, constants: Constants) -> Any:
    """Some channels of what is read, of so many bytes each."""
    return source._replace(rows=_shifted(source.rows, size * first, constants), channels=count)


def _blocks(channels: int, parts: int, size: int = PANEL) -> list[tuple[int, int]]:
    """(first, count) of the channels of parts that begin with a panel, or another block of so many.

    >>> _blocks(40, 2)
    [(0, 16), (16, 24)]
    """
    blocks = channels // size
    return [
        (start * size, (channels if stop == blocks else stop * size) - start * size)
        for start, stop in _ranges(blocks, parts)
    ]


def _lines(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Rows, of which each is computed by itself."""
    each = (
        step.lines * step.size
        if kernel.startswith("normalize")
        else step.blocks * step.size * step.inner
    )
    parts = min(step.count, share(step.count * each * _POWERS))
    return [
        step._replace(count=stop - start, a=_behind(step.a, start), out=_behind(step.out, start))
        for start, stop in (_ranges(step.count, parts) if parts > 1 else ())
    ]


def _standardized(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Panels of channels, where these share no mean across them."""
    size = max(PANEL, step.group)
    work = step.images * step.count * step.pixels * step.channels * _POWERS
    parts = min(step.channels // size, share(work))
    if parts < 2 or size % PANEL or size % step.group:
        return []
    blocks = _blocks(step.channels, parts, size)
    return [step._replace(first=first, last=first + count) for first, count in blocks]


def _multiplied(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Pairs of matrices, or rows of the only one."""
    alone, work = step.groups == 1, step.groups * step.count * step.depth * step.columns
    narrow = _element_size(kernel) < _FLOAT  # what is widened is as what is apart
    apart = narrow or step.a_step != 1 or step.out_step != 1
    parts = min(step.count if alone else step.groups, share(work))
    parts = min(parts, step.rows) if apart else parts
    if parts < 2:
        return []
    rows = step.rows // parts
    padded = -(-step.columns // (2 * PANEL)) * 2 * PANEL
    room = (narrow or step.a_step != 1) * step.depth + (narrow or step.out_step != 1) * padded
    room *= _FLOAT * rows
    of_b = step.columns if step.by_columns else step.depth
    found = []
    for number, (start, stop) in enumerate(_ranges(step.count if alone else step.groups, parts)):
        first = start if alone else start * step.count
        part = step._replace(a=_behind(step.a, first), out=_behind(step.out, first))
        if alone:
            part = part._replace(count=stop - start)
        else:
            part = part._replace(groups=stop - start, b=_behind(step.b, start * of_b))
        if apart:
            part = part._replace(rows=rows, workspace=_behind(step.workspace, number * room))
        found.append(part)
    return found


def _multiplied_bytes(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Pairs of matrices, or, of fewer, panels of columns, with their share of the workspace."""
    panels = -(-step.columns // PANEL)
    parts = share(step.groups * step.count * step.depth * step.columns)
    by_groups = step.groups >= parts
    parts = min(parts, step.groups if by_groups else panels)
    if parts < 2:
        return []
    widest = step.columns if by_groups else min(step.columns, -(-panels // parts) * PANEL)
    copies, direct = step.a_step != 1, not step.zero and step.out_step == 1
    room = step.workspace_bytes // parts // _ALIGNMENT * _ALIGNMENT
    way = best_way(step.depth, widest, step.count, copies, direct, room)
    if way.size > room:
        return []
    (layer,) = constants.rows_of(step.layer)
    size = 1 if layer.into.kind in (TO_BYTES, TO_SHIFTED) else _FLOAT
    found = []
    for number, (start, stop) in enumerate(_ranges(step.groups if by_groups else panels, parts)):
        part = step._replace(
            rows=way.rows,
            wide=way.wide,
            workspace=_behind(step.workspace, number * room),
            workspace_bytes=room,
        )
        if by_groups:
            first = start * step.count
            part = part._replace(
                groups=stop - start,
                a=_behind(step.a, first),
                b=_behind(step.b, start * step.apart),
                out=_behind(step.out, first),
            )
        else:
            first, last = start * PANEL, min(step.columns, stop * PANEL)
            by = first if step.by_columns else first * step.b_step
            part = part._replace(
                columns=last - first,
                b=_behind(step.b, by) if step.by_columns else _shifted(step.b, by, constants),
                out=_shifted(step.out, first * step.out_step * size, constants),
            )
        found.append(part)
    return found


def _contracted(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Matrices, or rows of the only one."""
    alone = step.groups == 1
    whole = step.height if alone else step.groups
    work = step.groups * step.count * step.height * step.width
    parts = min(whole, share(work))
    found = []
    for start, stop in _ranges(whole, parts) if parts > 1 else ():
        rows = start if alone else start * step.height
        part = step._replace(
            a=_shifted(
                step.a, _FLOAT * start * (step.a_step if alone else step.a_group), constants
            ),
            out=_shifted(step.out, _FLOAT * rows * step.width, constants),
        )
        if alone:
            part = part._replace(height=stop - start)
        else:
            moved = _shifted(step.b, _FLOAT * start * step.b_group, constants)
            part = part._replace(groups=stop - start, b=moved)
        found.append(part)
    return found


def _attended(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    """Groups, or queries of the only one, where the workspace suffices for each part."""
    alone = step.groups == 1
    whole = step.count if alone else step.groups
    each = 1 if alone else step.count
    work = step.groups * step.count * step.keys * (step.channels + step.values)
    parts = min(whole, share(work))
    at_once = min(step.queries, step.count)
    room = scratch_floats(step, at_once, step.block) // max(1, parts) * _FLOAT
    room = room // _ALIGNMENT * _ALIGNMENT
    sizes = [(min(q, at_once), min(b or step.keys, step.block)) for q, b in PART_BLOCKS]
    size = next((one for one in sizes if _FLOAT * scratch_floats(step, *one) <= room), None)
    if parts < 2 or size is None:
        return []
    queries, block = size
    found = []
    for number, (start, stop) in enumerate(_ranges(whole, parts)):
        first, last = start * each, stop * each
        part = step._replace(
            queries=queries,
            block=block,
            q=_behind(step.q, first),
            out=_behind(step.out, first),
            workspace=_behind(step.workspace, number * room),
        )
        if step.masks:
            rows, all_of = constants.rows_of(step.mask), step.groups * step.count
            mine = [rows[m * all_of + k] for m in range(step.masks) for k in range(first, last)]
            part = part._replace(mask=constants.table(step.mask.pool, mine))
        if alone:
            causal = step.causal if step.causal < 0 else step.causal + start
            found.append(part._replace(count=stop - start, causal=causal))
        else:
            moved = [_behind(one, start * step.keys) for one in (step.k, step.v)]
            found.append(part._replace(groups=stop - start, k=moved[0], v=moved[1]))
    return found


def _shifted(table: Ref, shift: int, constants: Constants) -> Ref:
    """A table of places, so many bytes further on; padding stays padding."""
    rows = constants.rows_of(table)
    return constants.table(table.pool, [at if at == PADDING else at + shift for at in rows])


def _product(kernel: str, step: Any, share: _Share, constants: Constants) -> list[Any]:
    summed = sum(constants.rows_of(step.sizes))
    parts = min(step.outputs // PANEL, share(step.count * summed * step.outputs))
    blocks = _blocks(step.outputs, parts) if parts > 1 else ()
    return [step._replace(channel=first, channels=count) for first, count in blocks]


def _ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """Parts of a range, as equal as can be.

    >>> _ranges(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    cuts = [count * k // parts for k in range(parts + 1)]
    return list(pairwise(cuts))


_SPLITS: dict[str, Callable[[str, Any, _Share, Constants], list[Any]]] = {
    **dict.fromkeys(("conv_of", "conv_bf16_of", "conv_dots_of", "conv_f16_of"), _convolution),
    **dict.fromkeys(("conv_bytes_of", "byte_winograd_of"), _convolution),
    **dict.fromkeys(("depthwise_of", "depthwise_bf16_of", "depthwise_bytes_of"), _convolution),
    **dict.fromkeys(("winograd_row_of", "winograd_of"), _in_points),
    **dict.fromkeys(("gemm_of", "gemm_bf16_of", "gemm_f16_of", "gemm_4_of"), _product),
    **dict.fromkeys(("map_of", "map_bf16_of", "map_f16_of"), _map),
    **dict.fromkeys(("map_bytes_of", "map_integers_of", "map_twice_of"), _map),
    **dict.fromkeys(("pool_of", "pool_bf16_of", "pool_f16_of", "pool_bytes_of"), _pool),
    **dict.fromkeys(("average_bytes_of", "average_integers_of"), _pool),
    **dict.fromkeys(("sum_bytes_of", "sum_values_of", "sum_integers_of"), _sum),
    **dict.fromkeys(
        ("normalize_of", "normalize_bf16_of", "normalize_f16_of", "softmax_of", "softmax_bytes_of"),
        _lines,
    ),
    "move": _moved,
    **dict.fromkeys(("standardize_of", "standardize_bf16_of", "standardize_f16_of"), _standardized),
    **dict.fromkeys(("multiply_of", "matrices_bf16_of", "matrices_f16_of"), _multiplied),
    "multiply_bytes_of": _multiplied_bytes,
    "contract_of": _contracted,
    "attention_of": _attended,
}
"""Kernel -> what shares a step of it out: records of the kernel, or sections of them or of instructions."""
