"""A step, or prepared calls of numpy, as a program of its own, run in memory of the test's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from csdfgen.backends.native.threads import divide_among_threads
from csdfgen.lowering.program import _Templates, make_blocks
from csdfgen.model.formats import Format
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Backend, Code, Port, Scratchpad, Step, Storage, Touched, View

__all__ = [
    "Lowered",
    "bound_step",
    "lower_twice",
    "lowered",
    "prepared",
    "run_step",
    "shared_kernels",
]


@dataclass(frozen=True)
class Lowered:
    """Instructions with what they refer to; see `Code`."""

    pools: Mapping[str, int]
    instructions: Sequence[Instruction]
    constants: Constants
    ports: Sequence[Port] = ()
    touched: Mapping[int, Touched] = field(default_factory=dict)


def lowered(kernels: Backend, step: Step, sizes: Mapping[str, int]) -> Lowered:
    """The instructions of a step in pools of these sizes."""
    constants = Constants(sizes)
    return Lowered(sizes, tuple(kernels.lower(step, constants)), constants)


def run_step(kernels: Backend, step: Step, memory: Mapping[str, np.ndarray]) -> None:
    """Compute a step in this memory."""
    bound_step(kernels, step, memory)()


def bound_step(
    kernels: Backend, step: Step, memory: Mapping[str, np.ndarray]
) -> Callable[[], None]:
    """What computes a step as if its pools were this memory, wherever the backend has them."""
    sizes = {name: array.size for name, array in memory.items()}
    storage = kernels.allocate(sizes)
    run = prepared(kernels, lowered(kernels, step, sizes), storage)
    whole = {name: View(name, (0,), (n,), (1,), Format("uint8")) for name, n in sizes.items() if n}

    def computed() -> None:
        for name, view in whole.items():
            storage.write(view, memory[name][None])
        run()
        for name, view in whole.items():
            memory[name][:] = storage.read(view)[0]

    return computed


def prepared(kernels: Backend, made: Lowered, storage: Storage) -> Callable[[], None]:
    """What runs all instructions, in their order."""
    bound = kernels.bind(made, storage, kernels.upload(made.constants))
    return bound.prepared(range(len(made.instructions)))


def shared_kernels(program: Code, threads: int) -> set[str]:
    """Kernels of instructions that so many threads share."""
    constants = program.constants.copy()
    made = program.instructions
    return {one.kernel for one in made if divide_among_threads(one, threads, constants) != [[one]]}


FAR = 1 << 20


def spread_out(step: Step) -> Step:
    """The step with its blocks elsewhere, each moved by another distance."""
    starts = sorted(make_blocks(step).starts)

    def moved(pool: str, at: int) -> int:
        return at + FAR * bisect_right(starts, (pool, at))

    def view(one: View | None) -> View | None:
        if one is None:
            return None
        pieces = tuple(piece for piece in map(view, one.pieces) if piece is not None)
        return replace(one, rows=tuple(moved(one.pool, at) for at in one.rows), pieces=pieces)

    pad = step.workspace
    parts: dict[str, Any] = {
        name: tuple(map(view, getattr(step, name))) for name in ("inputs", "outputs", "states")
    }
    return replace(step, workspace=replace(pad, offset=moved(pad.pool, pad.offset)), **parts)


def lower_twice(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every step that can be moved lowered where it is and elsewhere; instructions that were moved there must be those that
    were made there. Returns the kernels that were compared, in time.
    """
    compared: list[str] = []

    def lower(self: _Templates, step: Step) -> Sequence[Instruction]:
        constants = self._constants
        if not step.workspace.size:  # which may be anywhere, and is at a block
            step = replace(step, workspace=Scratchpad(*min(make_blocks(step).starts), 0))
        made = self._kernels.lower(step, constants)
        if self._kernels.moves(made):
            other = spread_out(step)
            moved = self._moved(make_blocks(step), made, make_blocks(other))
            direct = self._kernels.lower(other, constants)
            for one, want in zip(moved, direct, strict=True):
                assert (one.kernel, one.fields) == (want.kernel, want.fields)
                places, wanted = ([constants.describe(ref) for ref in a.refs] for a in (one, want))
                assert places == wanted, f"{step.actor}: {one.kernel}"
                compared.append(one.kernel)
        return made

    monkeypatch.setattr(_Templates, "lower", lower)
    return compared
