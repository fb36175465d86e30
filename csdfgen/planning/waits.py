"""When may processors that share a plan's firings fire? Each fires its own in their order, and waits for others.

A mapping gives each actor a processor. Firings of one processor follow each other in the order of the plan, those of
different processors overlap wherever memory allows: a firing waits until every earlier firing (in the order of the plan)
has ended that wrote bytes which it reads, or that used bytes which it writes. These are the dependences of data, of space
(rows of a buffer that are written again) and of sharing (buffers with the same bytes), and nothing else has to be known
about how long a firing takes. A wait is for a number of firings of another processor, counted in shared memory, so that
all earlier ones of that processor are covered too; waits that are already covered are left out.

`find_waits` derives waits from rows of buffers; `check_waits` checks them against the bytes that steps read and write.
Sources: Sriram and Bhattacharyya, "Embedded Multiprocessors: Scheduling and Synchronization", 2009 (self-timed execution,
synchronization graphs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from csdfgen.errors import PlanError, ScheduleError
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import Conversion
from csdfgen.planning.buffers import state_name, workspace_name
from csdfgen.planning.placement import Region
from csdfgen.planning.sharing import Sharing
from csdfgen.program.steps import Scratchpad, View

if TYPE_CHECKING:
    from csdfgen.planning.plan import Plan

Waits = tuple[tuple[tuple[int, int], ...], ...]
"""Of each firing of an order (processor, number of its firings that must have ended before)."""

LINE = 64
"""Bytes that dependences are followed by, which are those of a line of cache."""


def count_cores(mapping: Mapping[str, int]) -> int:
    """The number of processors of a mapping; 1 where there is none."""
    return max(mapping.values(), default=0) + 1


def split_by_processor(
    order: Sequence[tuple[str, int]], mapping: Mapping[str, int]
) -> list[list[int]]:
    """Positions in the order of the firings of each processor."""
    found: list[list[int]] = [[] for _ in range(count_cores(mapping))]
    for at, (actor, _) in enumerate(order):
        found[mapping[actor]].append(at)
    return found


def find_waits(
    conversion: Conversion,
    sharing: Sharing,
    order: Sequence[tuple[str, int]],
    regions: Mapping[str, Region],
    mapping: Mapping[str, int],
    sizes: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Waits:
    """The waits of an order. Buffers without a region are not followed: those that one processor uses alone, in bytes that no
    other one uses. sizes: of workspaces the bytes of each phase.
    """
    tables = {name: np.array(region.table) for name, region in regions.items()}
    uses = [
        (at, mapping[actor], low, high, writes)
        for at, (actor, phase) in enumerate(order)
        for name, start, stop, writes in _uses(conversion, actor, phase, sharing)
        if name in tables
        for low, high in _spans(
            tables[name][start:stop],
            sizes[name][start] if name in sizes else regions[name].row_bytes,
        )
    ]
    return derive_waits([mapping[actor] for actor, _ in order], uses)


def derive_waits(processors: Sequence[int], uses: Sequence[Use]) -> Waits:
    """The waits of an order, whose firings have these processors and use these cells."""
    cores = max(processors, default=0) + 1
    crossing, firsts = _crossing(uses, cores)
    written, read = (np.zeros((cores, len(firsts)), np.int32) for _ in range(2))
    # known[a][b]: firings of b that have ended when a processor starts its next firing
    known, fired = np.zeros((cores, cores), np.int32), [0] * cores
    found: list[tuple[tuple[int, int], ...]] = []
    for at, core in enumerate(processors):
        mine = crossing.get(at, ())
        needs = known[core]
        for low, high, writes in mine:
            needs = np.maximum(needs, written[:, low:high].max(axis=1))
            if writes:
                needs = np.maximum(needs, read[:, low:high].max(axis=1))
        late = [k for k in np.flatnonzero(needs > known[core]).tolist() if k != core]
        found.append(tuple((k, int(needs[k])) for k in late))
        known[core, late] = needs[late]
        fired[core] += 1
        for low, high, writes in mine:
            (written if writes else read)[core, low:high] = fired[core]
    return tuple(found)


Use = tuple[int, int, int, int, bool]
"""Firing, its processor, first cell, end, whether it is written."""


def _crossing(
    uses: Sequence[Use], cores: int
) -> tuple[dict[int, list[tuple[int, int, bool]]], np.ndarray]:
    """(firing -> uses of cells that several processors use, first cells of all ranges). In the uses cells are numbers of ranges,
    of which none begins or ends within another one.
    """
    firsts, places = np.unique([use[2:4] for use in uses], return_inverse=True)
    edges = np.zeros((cores, len(firsts)), np.int32)
    spans = places.reshape(-1, 2).tolist()
    for (_, core, *_), (low, high) in zip(uses, spans, strict=True):
        edges[core, low] += 1
        edges[core, high] -= 1
    several = np.count_nonzero(np.cumsum(edges, axis=1) > 0, axis=0) > 1
    before = np.concatenate([[0], np.cumsum(several)]).tolist()
    found: dict[int, list[tuple[int, int, bool]]] = {}
    for (at, *_, writes), (low, high) in zip(uses, spans, strict=True):
        if before[high] > before[low]:
            found.setdefault(at, []).append((low, high, writes))
    return found, firsts


def _uses(
    conversion: Conversion, actor: str, phase: int, sharing: Sharing
) -> Iterator[tuple[str, int, int, bool]]:
    """(buffer, first row, end, whether it is written) of what a firing uses. Layers that compute nothing use nothing, but for
    the rows of outputs that they complete, which are handed on.
    """
    work = conversion.actor[actor]
    if work.kind == "output":
        return
    silent = actor in sharing.silent
    for write in work.writes:
        done = write.complete[phase - 1] if phase else 0
        handed_on = write.tensor.name in conversion.network.output_tensors
        for place in sharing.homes(write.tensor.name):
            if not silent:
                yield place.buffer, done, write.claimed[phase], True
            elif handed_on:
                yield place.buffer, done, write.complete[phase], False
    if silent:
        return
    for read in work.reads:
        rows = read.rows[phase]
        for place in sharing.homes(read.tensor.name) if rows else ():
            yield place.buffer, rows.start, rows.stop, False
    if work.state is not None:
        group = work.phases[phase].group
        yield state_name(actor), group, group + 1, True
    yield workspace_name(actor), phase, phase + 1, True


def _spans(offsets: np.ndarray, size: int) -> Iterator[tuple[int, int]]:
    """Cells of contiguous rows of so many bytes at these offsets."""
    if not len(offsets):
        return
    cuts = np.flatnonzero(np.diff(offsets) != size) + 1
    for start, stop in pairwise((0, *cuts.tolist(), len(offsets))):
        low, high = int(offsets[start]), int(offsets[stop - 1]) + size
        if low < high:
            yield low // LINE, -(-high // LINE)


# Checking ----------------------------------------------------------------------------------------


def check_mapping(plan: Plan) -> None:
    """Check that a plan with a mapping can be executed by its processors. Raises PlanError or ScheduleError."""
    actors = {work.name for work in plan.conversion.actors}
    odd = sorted(actors ^ plan.mapping.keys())
    if odd:
        raise PlanError(
            f"maps {len(plan.mapping)} actors to processors where the network has {len(actors)}; one of them alone has '{odd[0]}'"
        )
    if plan.network.conditions:
        raise PlanError(
            "the network has Ifs, whose branches are chosen between firings; processors cannot share them"
        )
    check_waits(plan, plan.waits)


def check_waits(plan: Plan, waits: Waits) -> None:
    """Check that processors which obey these waits alone use every byte in the order of the plan. Raises ScheduleError at the
    first firing that another processor may not have ended, with both of them.

    It follows the bytes that steps read and write, and when each processor knows what of the others has ended.
    """
    mapping = plan.mapping
    uses = [
        (at, mapping[actor], low, high, writes)
        for at, (actor, phase) in enumerate(plan.order)
        for low, high, writes in _bytes(plan, at, actor, phase)
    ]
    names = [f"{actor}[{phase}]" for actor, phase in plan.order]
    check_uses([mapping[actor] for actor, _ in plan.order], uses, waits, names)


def check_uses(
    processors: Sequence[int], uses: Sequence[Use], waits: Waits, names: Sequence[str]
) -> None:
    """Check that waits keep the order wherever cells are used by several processors. names: of firings, for the message of
    ScheduleError.
    """
    cores = max(processors, default=0) + 1
    crossing, firsts = _crossing(uses, cores)
    written, read = (np.zeros((cores, len(firsts)), np.int32) for _ in range(2))
    ended: list[list[np.ndarray]] = [[] for _ in range(cores)]
    firings: list[list[int]] = [[] for _ in range(cores)]
    clock = [np.zeros(cores, np.int32) for _ in range(cores)]
    for at, core in enumerate(processors):
        for other, count in waits[at]:
            if not 0 < count <= len(ended[other]):
                raise ScheduleError(
                    f"firing {at} ({names[at]}) waits for {count} firings of processor {other}, of which "
                    f"{len(ended[other])} come before it"
                )
            clock[core] = np.maximum(clock[core], ended[other][count - 1])
        for low, high, writes in crossing.get(at, ()):
            used = written[:, low:high].max(axis=1)
            used = np.maximum(used, read[:, low:high].max(axis=1)) if writes else used
            used[core] = 0
            for other in np.flatnonzero(used > clock[core])[:1].tolist():
                raise ScheduleError(
                    f"firing {at} ({names[at]} on processor {core}) {'writes' if writes else 'reads'} bytes from "
                    f"{firsts[low] * LINE} on that {names[firings[other][used[other] - 1]]} on processor {other} uses, "
                    f"and waits for {int(clock[core][other])} of its firings where {used[other]} are needed"
                )
        clock[core] = clock[core].copy()
        clock[core][core] += 1
        ended[core].append(clock[core])
        firings[core].append(at)
        for low, high, writes in crossing.get(at, ()):
            (written if writes else read)[core, low:high] = len(ended[core])


def _bytes(plan: Plan, at: int, actor: str, phase: int) -> Iterator[tuple[int, int, bool]]:
    """(first cell, end, whether it is written) of what the step of a firing uses."""
    work, tensors = plan.conversion.actor[actor], plan.network.output_tensors
    if work.kind == "output":
        return
    for write in work.writes:
        done = Rows(write.complete[phase - 1] if phase else 0, write.complete[phase])
        if write.tensor.name in tensors and done:
            yield from _cells(plan.addresses.view(write.tensor, done), False)
    if actor in plan.sharing.silent:
        return
    if work.layer is None or work.kind == "input":
        write = work.writes[0]
        slab = work.phases[phase]
        rows = slab.slab(slab.out).span(write.tensor.rows)
        yield from _cells(plan.addresses.view(write.tensor, rows), True)
        return
    offset, size = plan.workspace(actor, phase)
    step = plan.addresses.step(work, phase, at, Scratchpad("", offset, size))
    for view in step.inputs:
        if view is not None:
            yield from _cells(view, False)
    for view in (*step.outputs, *step.states):
        yield from _cells(view, True)
    if size:
        yield offset // LINE, -(-(offset + size) // LINE), True


def _cells(view: View, writes: bool) -> Iterator[tuple[int, int, bool]]:
    for one in view.pieces or (view,):
        reach = one.format.itemsize + sum(
            (n - 1) * step for n, step in zip(one.shape, one.strides, strict=True)
        )
        spans = sorted((row // LINE, -(-(row + reach) // LINE)) for row in one.rows)
        low, high = spans[0] if spans else (0, 0)
        for start, stop in spans:
            if start > high:
                yield low, high, writes
                low = start
            high = max(high, stop)
        if high:
            yield low, high, writes
