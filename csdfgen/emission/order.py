"""What does a frame do, one thing after the other? Steps as records, and tasks over them, in order.

Firings with equal steps are one task: the order is a list of small numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from csdfgen.emission.blob import Blob
from csdfgen.emission.ports import Port, Side, Sides, Task, side_tables
from csdfgen.emission.tables import Tables, constants_of
from csdfgen.errors import PlanError
from csdfgen.kernels.steps import KernelSet, Step
from csdfgen.lowering.program import Program, key_of, lower
from csdfgen.native.library import Strided
from csdfgen.native.strided import Native, address_of
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.plan import Plan

__all__ = ["Frame", "frame_of"]


@dataclass(frozen=True, eq=False)
class Frame:
    """A program in tables. kernels: names in C. order: numbers of tasks. streamed: why rows cannot be
    pushed one by one, "" if they can. constants: outputs that no layer computes, and where in the blob
    they are. keeps: what the blob's addresses are of.
    """

    ports: Sequence[Port]
    sides: Sequence[Side]
    tables: Tables
    blob: Blob
    tasks: Sequence[Task]
    order: Sequence[int]
    kernels: frozenset[str]
    images: int
    streamed: str
    constants: Mapping[str, tuple[np.ndarray, int]]
    keeps: object


def frame_of(plan: Plan, kernels: KernelSet, ports: Sequence[Port]) -> Frame:
    """The frame of a plan. Raises what lowering raises, PlanError for a step without a native kernel."""
    program = lower(plan, kernels)
    arena = np.empty(program.pools[ARENA], np.uint8)
    bound = _bound(program, kernels, arena)
    natives = {id(one): one for some in bound for one in some}
    constants = {
        output.name: np.ascontiguousarray(output.constant)
        for output in plan.network.outputs
        if output.constant is not None
    }
    blob = Blob(
        constants_of((*natives.values(), Native("", Strided(), *constants.values())), arena)
    )
    tables = Tables(arena, blob)
    sides = Sides(program, ports, [actor for actor, _ in plan.order])
    tasks: dict[Task, int] = {}
    order: list[int] = []
    records = tables.pool("csdf_record", "{%s, %s}")
    known: dict[int, Task] = {}
    for some, takes, gives in zip(bound, sides.takes, sides.gives, strict=True):
        found = list(takes)
        if some:
            if id(some) not in known:
                rows = [tables.add(native) for native in some]
                known[id(some)] = Task(-1, records.add(rows), len(rows))
                tables.mark()
            found.append(known[id(some)])
        order += [tasks.setdefault(task, len(tasks)) for task in (*found, *gives)]
    side_tables(sides.all, tables, program.frames)
    return Frame(
        ports,
        sides.all,
        tables,
        blob,
        list(tasks),
        order,
        frozenset(f"csdf_{native.kernel}" for native in natives.values()),
        program.frames,
        sides.streamed,
        {name: (array, blob.find(address_of(array)) or 0) for name, array in constants.items()},
        (bound, arena),
    )


def _bound(program: Program, kernels: KernelSet, arena: np.ndarray) -> list[list[Native]]:
    """The native calls of every firing; equal steps have the same list."""
    known: dict[object, list[Native]] = {}
    found = []
    for firing in program.firings:
        calls: list[Native] = []
        if isinstance(firing, Step):
            key = key_of(firing)
            if key not in known:
                known[key] = []
                for function, _ in kernels.bind(firing, {ARENA: arena}):
                    if not isinstance(function, Native):
                        raise PlanError(f"firing {firing.firing} has a step without native kernel")
                    known[key].append(function)
            calls = known[key]
        found.append(calls)
    return found
