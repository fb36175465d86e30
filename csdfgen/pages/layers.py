"""What does each layer of a plan do, need and hold? One line for each layer, for tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from csdfgen.charts.footprint import Footprint
from csdfgen.devices.work import phase_works
from csdfgen.phases.conversion import ActorWork, describe_function
from csdfgen.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class LayerLine:
    """One actor. height: rows that most of its phases write (or read, where it accumulates), `of`
    so many in a frame. need: most rows that a phase reads of one input. held_rows: most rows of its
    own alive at one time; held: most bytes. workspace: most scratch of a phase. macs:
    multiply-accumulates; work: time units of its phases (`docs/model.md`), 0 for what is only
    handed on. seconds: on a device, None without one.
    """

    name: str
    function: str
    phases: int
    height: int
    of: int
    need: int
    held_rows: int
    held: int
    workspace: int
    macs: int
    work: int
    seconds: float | None = None


def layer_lines(
    plan: Plan, footprint: Footprint, seconds: dict[str, float] | None = None
) -> tuple[LayerLine, ...]:
    """A line for every actor but outputs, in the network's order. seconds: by layer."""
    rows = _rows_held(footprint)
    held = footprint.held.max(axis=1, initial=0)
    found = []
    for place, work in enumerate(plan.conversion.actors):
        if work.kind == "output":
            continue
        heights, macs = _heights(work)
        height = Counter(heights).most_common(1)[0][0] if heights else 0
        need = max((len(rows) for read in work.reads for rows in read.rows), default=0)
        scratch = [plan.workspace(work.name, phase)[1] for phase in range(len(work.phases))]
        found.append(
            LayerLine(
                work.name,
                describe_function(work),
                len(work.phases) + plan.left_out[work.name],
                height,
                round(plan.sum_phases(work.name, heights)),
                need,
                int(rows[place]),
                int(held[place]),
                max(scratch, default=0),
                round(plan.sum_phases(work.name, macs)),
                round(plan.sum_phases(work.name, work.times)),
                None if seconds is None else seconds.get(work.name, 0.0),
            )
        )
    return tuple(found)


def _heights(work: ActorWork) -> tuple[list[int], list[float]]:
    """(rows, multiply-accumulates) of each phase."""
    if work.layer is None:
        return [len(phase.out) for phase in work.phases], []
    works = list(phase_works(work))
    return [one.rows for one in works], [one.amounts["MAC"] for one in works]


def _rows_held(footprint: Footprint) -> np.ndarray:
    """Most rows of each layer alive at one time; a row that is written in parts counts once."""
    most = np.zeros(len(footprint.layers), np.int64)
    for number, owner in enumerate(footprint.owners):
        if owner.kind == "workspace":
            continue
        mine = footprint.owner == number
        changes = np.zeros(footprint.firings + 1, np.int64)
        count = (footprint.end - footprint.row)[mine]
        np.add.at(changes, footprint.first[mine], count)
        np.subtract.at(changes, footprint.last[mine], count)
        most[owner.layer] = max(most[owner.layer], int(np.cumsum(changes).max(initial=0)))
    return most
