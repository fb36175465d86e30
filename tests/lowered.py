"""A step, or prepared calls of numpy, as a program of its own, run in memory of the test's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from csdfgen.backends.native.threads import divide_among_threads
from csdfgen.model.formats import Format
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Backend, Code, Port, Step, Storage, Touched, View

__all__ = ["Lowered", "bound_step", "lowered", "prepared", "run_step", "shared_kernels"]


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
