"""What does a frame do, one thing after the other? Steps as records, and tasks over them, in order.

Firings with equal steps are one task: the order is a list of small numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from csdfgen.emission.ports import Port, Side, Sides, Task, side_tables
from csdfgen.emission.tables import Blob, Tables
from csdfgen.errors import PlanError
from csdfgen.lowering.program import Program, lower
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.plan import Plan
from csdfgen.program.instructions import Array, Constants, Ref
from csdfgen.program.steps import Backend, Step

__all__ = ["Frame", "Lowered", "frame_of", "lowered"]


@dataclass(frozen=True, eq=False)
class Frame:
    """A program in tables. kernels: names in C. order: numbers of tasks; ends: for each of them the actor
    whose firing it ends, "" for none. streamed: why rows cannot be pushed one by one, "" if they can.
    constants: outputs that no layer computes, and where in the blob they are.
    """

    ports: Sequence[Port]
    sides: Sequence[Side]
    tables: Tables
    blob: Blob
    tasks: Sequence[Task]
    order: Sequence[int]
    ends: Sequence[str]
    kernels: frozenset[str]
    images: int
    streamed: str
    constants: Mapping[str, tuple[np.ndarray, int]]


@dataclass(frozen=True, eq=False)
class Lowered:
    """A plan and its program. outputs: those that no layer computes, and their places among the program's constants."""

    plan: Plan
    program: Program
    outputs: Mapping[str, tuple[np.ndarray, Ref]]


def lowered(plans: Sequence[Plan], kernels: Backend) -> list[Lowered]:
    """Plans as programs whose constants are the same pools. Raises what lowering raises, PlanError for a step without
    a native kernel.
    """
    constants = Constants({ARENA: max(plan.pools[ARENA] for plan in plans)})
    found = []
    for plan in plans:
        program = lower(plan, kernels, constants)
        for number, code in enumerate(program.code):
            for one in (program.instructions[k] for k in code):
                if any(isinstance(field, Array) for field in one.fields):
                    raise PlanError(f"firing {number} has a step without native kernel")
        outputs = {
            output.name: (dense, constants.array(dense))
            for output in plan.network.outputs
            if output.constant is not None
            for dense in [np.ascontiguousarray(output.constant)]
        }
        found.append(Lowered(plan, program, outputs))
    return found


def frame_of(made: Lowered, ports: Sequence[Port], blob: Blob) -> Frame:
    """The frame of a program. blob: with its constants."""
    program, plan = made.program, made.plan
    actors = [actor for actor, _ in plan.order]
    tables = Tables(program.constants, blob)
    sides = Sides(program, ports, actors)
    tasks: dict[Task, int] = {}
    order: list[int] = []
    ends: list[str] = []
    kernels: set[str] = set()
    records = tables.pool("csdf_record", "{%s, %s}")
    known: dict[tuple[int, ...], Task] = {}
    for actor, firing, code, takes, gives in zip(
        actors, program.firings, program.code, sides.takes, sides.gives, strict=True
    ):
        found = list(takes)
        if isinstance(firing, Step) and code:
            if code not in known:
                some = [program.instructions[number] for number in code]
                kernels.update(f"csdf_{one.kernel}" for one in some)
                known[code] = Task(-1, records.add(list(map(tables.add, some))), len(some))
                tables.mark()
            found.append(known[code])
        found += gives
        order += [tasks.setdefault(task, len(tasks)) for task in found]
        ends += [*[""] * (len(found) - 1), actor] if found else []
    side_tables(sides.all, tables, program.frames)
    return Frame(
        ports,
        sides.all,
        tables,
        blob,
        list(tasks),
        order,
        ends,
        frozenset(kernels),
        program.frames,
        sides.streamed,
        {name: (array, blob.find(at.offset)) for name, (array, at) in made.outputs.items()},
    )
