"""What does a frame do, one thing after the other? Steps as records, and tasks over them, in order.

Firings with equal steps are one task: the order is a list of small numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

__all__ = ["Bound", "Frame", "blob_of", "bound_of", "frame_of"]


@dataclass(frozen=True, eq=False)
class Bound:
    """A plan's program with the native calls of every firing, in an arena of this process. constants:
    outputs that no layer computes.
    """

    plan: Plan
    program: Program
    calls: Sequence[list[Native]]
    arena: np.ndarray
    constants: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Frame:
    """A program in tables. kernels: names in C. order: numbers of tasks; ends: for each of them the actor
    whose firing it ends, "" for none. streamed: why rows cannot be pushed one by one, "" if they can.
    constants: outputs that no layer computes, and where in the blob they are. keeps: what the blob's
    addresses are of.
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
    keeps: object


def bound_of(plan: Plan, kernels: KernelSet) -> Bound:
    """Raises what lowering raises, PlanError for a step without a native kernel."""
    program = lower(plan, kernels)
    arena = np.empty(program.pools[ARENA], np.uint8)
    constants = {
        output.name: np.ascontiguousarray(output.constant)
        for output in plan.network.outputs
        if output.constant is not None
    }
    return Bound(plan, program, _calls(program, kernels, arena), arena, constants)


def blob_of(programs: Iterable[Bound]) -> Blob:
    """The constants of programs, equal ones once."""
    ranges: list[tuple[int, int]] = []
    for bound in programs:
        natives = {id(one): one for some in bound.calls for one in some}
        outputs = Native("", Strided(), *bound.constants.values())
        ranges += constants_of((*natives.values(), outputs), bound.arena)
    return Blob(ranges)


def frame_of(bound: Bound, ports: Sequence[Port], blob: Blob) -> Frame:
    """The frame of a program whose constants are in the blob."""
    program, plan = bound.program, bound.plan
    actors = [actor for actor, _ in plan.order]
    tables = Tables(bound.arena, blob)
    sides = Sides(program, ports, actors)
    tasks: dict[Task, int] = {}
    order: list[int] = []
    ends: list[str] = []
    records = tables.pool("csdf_record", "{%s, %s}")
    known: dict[int, Task] = {}
    each = zip(actors, bound.calls, sides.takes, sides.gives, strict=True)
    for actor, some, takes, gives in each:
        found = list(takes)
        if some:
            if id(some) not in known:
                rows = [tables.add(native) for native in some]
                known[id(some)] = Task(-1, records.add(rows), len(rows))
                tables.mark()
            found.append(known[id(some)])
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
        frozenset(f"csdf_{native.kernel}" for some in bound.calls for native in some),
        program.frames,
        sides.streamed,
        {
            name: (array, blob.find(address_of(array)) or 0)
            for name, array in bound.constants.items()
        },
        bound,
    )


def _calls(program: Program, kernels: KernelSet, arena: np.ndarray) -> list[list[Native]]:
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
