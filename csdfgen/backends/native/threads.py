"""How do threads share a program? Large steps in parts, by columns or by channels, the others on one.

Parts of a step write different elements and read what no part writes, so that results do not depend on
the number of threads. Which steps are worth it depends on what they compute alone.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from csdfgen.backends.native.families.byte_maps import DEQUANTIZE, QUANTIZE
from csdfgen.backends.native.families.byte_products import FEWER, SIDE
from csdfgen.backends.native.families.winograd import POINTS, SUMS, WIDE, row_bytes, tile_bytes
from csdfgen.backends.native.library import Library
from csdfgen.backends.native.structures import (
    PANEL,
    constant,
    ctype,
    instruction,
    record_of,
    structure,
)
from csdfgen.errors import InputError, option
from csdfgen.program.instructions import PADDING, Constants, Instruction, Ref
from csdfgen.program.steps import Call

__all__ = ["MOST_THREADS", "Team", "shared_out"]

MOST_THREADS = constant("CSDF_THREADS")
"""Of a team."""

_WORTH = 100_000
"""Multiply-accumulates of a part, below which waiting for the others takes longer than it saves."""

_NEAR = 1 << 18
"""Bytes of weights that every thread may read anew for its columns: they stay in its cache."""

_COLUMNS = 8
"""Least columns of a part."""

_MOVED = 8
"""Multiply-accumulates that take as long as one element of a map."""

_DEPTHWISE = 3
"""Multiply-accumulates that take as long as one of a depthwise layer: it waits for what it loads."""

_FLOAT, _ALIGNMENT = 4, 64


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

    def call(self, table: int, parts: Sequence[int], kept: object) -> Call:
        """The call that works off records, so many of each instruction in turn: those of one at the same time.

        table: address of the first one.
        """
        sections: list[tuple[int, list[int]]] = []
        start = 0
        for count in parts:
            if count == 1 and sections and len(sections[-1][1]) == 2:
                sections[-1][1][1] += 1  # goes on where the one before ends
            else:
                sections.append((start, [*range(count + 1)]))
            start += count
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


_TEAMS: weakref.WeakSet[Team] = weakref.WeakSet()


def _after_fork() -> None:
    for team in list(_TEAMS):
        team.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def shared_out(made: Instruction, threads: int, constants: Constants) -> list[Instruction]:
    """The parts of an instruction, at most one a thread; itself alone where that is not worth it. constants: to which
    tables of parts are added.
    """
    split = _SPLITS.get(made.kernel)
    if split is None:
        return [made]
    parts = split(made.kernel, record_of(made), threads, constants)
    return [instruction(made.kernel, part) for part in parts] or [made]


def _convolution(kernel: str, step: Any, threads: int, constants: Constants) -> list[Any]:
    (layer,), out = constants.rows_of(step.layer), step.out
    taps = layer.kernel_h * layer.kernel_w * (layer.in_channels // layer.groups)
    work = out.count * out.columns * out.channels * taps
    work *= _DEPTHWISE if kernel.startswith("depthwise") else 1
    parts = min(threads, work // _WORTH)
    bytes_each = 1 if kernel.endswith("bytes_of") else _FLOAT
    weights = bytes_each * taps * layer.out_channels
    panels = layer.out_channels // PANEL if layer.groups == 1 else 0
    by_columns = out.columns >= _COLUMNS * parts and (weights <= _NEAR or panels < parts)
    room = step.workspace_bytes // max(1, parts) // _ALIGNMENT * _ALIGNMENT
    wide = SIDE if kernel == f"{FEWER}_of" else 1
    if parts < 2 or not (by_columns or panels >= parts):
        return []
    found = []
    units = -(-out.columns // wide) if by_columns else panels
    for number, (start, stop) in enumerate(_ranges(units, parts)):
        part = step._replace(out=_some(out, layer, by_columns, start, stop, panels, wide))
        if room:
            part = part._replace(
                workspace=_behind(step.workspace, number * room), workspace_bytes=room
            )
        found.append(part)
    return found


def _some(
    out: Any, layer: Any, by_columns: bool, start: int, stop: int, panels: int, pixels: int = 1
) -> Any:
    """Of what a step writes units of columns, or panels of channels."""
    if by_columns:
        first, last = start * pixels, min(out.columns, stop * pixels)
        return out._replace(column=out.column + first, columns=last - first)
    first = start * PANEL
    last = layer.out_channels if stop == panels else stop * PANEL
    return out._replace(channel=first, channels=last - first)


def _behind(place: Ref, shift: int) -> Ref:
    return Ref(place.pool, place.offset + shift)


def _in_points(kernel: str, step: Any, threads: int, constants: Constants) -> list[Any]:
    """Of Winograd's kernels: whole tiles of a row, or channels; each part has its part of the workspace."""
    (layer,), out = constants.rows_of(step.layer), step.out
    ins, outs = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    wide = layer.kernel_w
    taps, pixels = layer.kernel_h * wide * ins, WIDE if step.tile else POINTS + 1 - wide
    across = -(-out.columns // pixels)
    parts = min(threads, out.count * out.columns * out.channels * taps // _WORTH)
    shape = ins, outs, layer.kernel_h, layer.stride_h, layer.dilation_h
    one = (
        tile_bytes(shape, step.tile, 1, step.some)
        if step.tile
        else row_bytes(shape, 1, 1, step.some)
    )
    panels = layer.out_channels // PANEL if layer.groups == 1 else 0
    weights = _FLOAT * taps * layer.out_channels
    by_columns = across >= 2 * parts and (weights <= _NEAR or panels < SUMS // PANEL * parts)
    room = step.workspace_bytes // max(1, parts) // _ALIGNMENT * _ALIGNMENT
    if parts < 2 or not (by_columns or panels >= parts) or room < one:
        return []
    found = []
    for number, (start, stop) in enumerate(_ranges(across if by_columns else panels, parts)):
        some = _some(out, layer, by_columns, start, stop, panels, pixels)
        place = _behind(step.workspace, number * room)
        found.append(step._replace(out=some, workspace=place, workspace_bytes=room))
    return found


def _map(kernel: str, step: Any, threads: int, constants: Constants) -> list[Any]:
    """Columns, or channels where all of a row is one pixel. Strides of bytes are in bytes."""
    by_columns = step.columns > 1
    whole = step.columns if by_columns else step.channels
    parts = min(threads, step.count * step.columns * step.channels * _MOVED // _WORTH, whole)
    found = []
    of_bytes = kernel == "map_bytes_of"
    unit = 1 if of_bytes else _FLOAT
    read = _FLOAT if not of_bytes or step.operation == QUANTIZE else 1
    written = _FLOAT if not of_bytes or step.operation == DEQUANTIZE else 1
    for start, stop in _ranges(whole, parts) if parts > 1 else ():
        operands = [
            one
            if one.rows is None
            else one._replace(
                rows=_shifted(
                    one.rows,
                    start * (one.stride * unit if by_columns else one.channels * read),
                    constants,
                )
            )
            for one in step.operands
        ]
        shift = start * (step.stride * unit if by_columns else written)
        part = step._replace(operands=tuple(operands), out=_shifted(step.out, shift, constants))
        size = {"columns" if by_columns else "channels": stop - start}
        found.append(part._replace(**size))
    return found


def _pool(kernel: str, step: Any, threads: int, constants: Constants) -> list[Any]:
    """Channels."""
    source = step.source
    panels = source.channels // PANEL
    seen = step.kernel_h * step.kernel_w * step.columns * step.count * source.channels
    parts = min(threads, seen * _MOVED // _WORTH, panels)
    size = _FLOAT if kernel == "pool_of" else 1
    found = []
    for start, stop in _ranges(panels, parts) if parts > 1 else ():
        first = start * PANEL
        last = source.channels if stop == panels else stop * PANEL
        rows = _shifted(source.rows, size * first, constants)
        part = source._replace(rows=rows, channels=last - first)
        out = _shifted(step.out, size * first, constants)
        found.append(step._replace(source=part, out=out))
    return found


def _shifted(table: Ref, shift: int, constants: Constants) -> Ref:
    """A table of places, so many bytes further on; padding stays padding."""
    rows = constants.rows_of(table)
    return constants.table(table.pool, [at if at == PADDING else at + shift for at in rows])


def _product(kernel: str, step: Any, threads: int, constants: Constants) -> list[Any]:
    summed = sum(constants.rows_of(step.sizes))
    panels = step.outputs // PANEL
    parts = min(threads, panels, step.count * summed * step.outputs // _WORTH)
    if parts < 2:
        return []
    found = []
    for start, stop in _ranges(panels, parts):
        last = step.outputs if stop == panels else stop * PANEL
        found.append(step._replace(channel=start * PANEL, channels=last - start * PANEL))
    return found


def _ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """Parts of a range, as equal as can be.

    >>> _ranges(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    cuts = [count * k // parts for k in range(parts + 1)]
    return list(pairwise(cuts))


_SPLITS: dict[str, Callable[[str, Any, int, Constants], list[Any]]] = {
    "conv_of": _convolution,
    "depthwise_of": _convolution,
    "winograd_row_of": _in_points,
    "winograd_of": _in_points,
    "gemm_of": _product,
    "map_of": _map,
    "pool_of": _pool,
    "conv_bytes_of": _convolution,
    "byte_winograd_of": _convolution,
    "depthwise_bytes_of": _convolution,
    "map_bytes_of": _map,
    "pool_bytes_of": _pool,
    "average_bytes_of": _pool,
}
"""Kernel -> what shares a step of it out."""
