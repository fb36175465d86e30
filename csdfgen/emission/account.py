"""How much memory does a program need in all? One account, which reports, budgets, devices and emitted code share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from csdfgen.backends.native.structures import POINTER, kernel_structure, type_size
from csdfgen.backends.registry import choose_backend
from csdfgen.lowering.program import Program, lower_unpacked
from csdfgen.planning.plan import Plan
from csdfgen.program.instructions import Array, Ref, find_row_pool, merge_ranges
from csdfgen.program.steps import Backend

if TYPE_CHECKING:
    from csdfgen.emission.order import ProgramTables  # all that writes C


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes that a program needs in one memory, and the bytes there. what: the figures that add up to them."""

    what: str
    needed: int
    there: int

    @property
    def fits(self) -> bool:
        return self.needed <= self.there


@dataclass(frozen=True, slots=True)
class Account:
    """The memory of a program, in bytes. parameters: of the model, part of no sum. constants: packed weights and other arrays
    that are only read. program: the instructions of a frame with their tables; 0 if numpy executes them. outputs: arrays
    outside the arena. inputs, stack: of a program without an operating system, else 0.
    """

    parameters: int
    constants: int
    program: int
    arena: int
    outputs: int
    inputs: int = 0
    stack: int = 0

    @property
    def flash(self) -> int:
        """What is only read, without the code of kernels."""
        return self.constants + self.program

    @property
    def ram(self) -> int:
        """What a frame writes."""
        return self.arena + self.inputs + self.outputs + self.stack

    @property
    def total(self) -> int:
        """All of it."""
        return self.flash + self.ram

    def demands(self, ram: int, flash: int | None = None) -> tuple[Demand, ...]:
        """What is needed of a memory of so many bytes, and of a flash; None: one memory has everything."""
        if flash is None:
            return (Demand("arena, outputs, constants and program", self.total, ram),)
        working = Demand("arena, inputs, outputs and stack", self.ram, ram)
        return working, Demand("constants and program", self.flash, flash)

    def to_json(self) -> dict[str, int]:
        """All figures and sums by name."""
        return {**asdict(self), "flash": self.flash, "ram": self.ram, "total": self.total}

    def __str__(self) -> str:
        parts = [f"{name} {size:,}" for name, size in asdict(self).items() if size]
        board = f" (flash {self.flash:,}, RAM {self.ram:,})" if self.stack else ""
        return (
            f"{self.total:,} bytes in all{board}: {', '.join(parts[1:])}; {parts[0]} of the model"
        )


def account_memory(
    plan: Plan,
    made: Program | ProgramTables | None = None,
    stack: int | None = None,
    kernels: Backend | None = None,
) -> Account:
    """The account of a plan. made: its program, or the tables that are emitted for a microcontroller; by default the
    program for `kernels`, or the plan's backend, is made without packing weights. stack: bytes of it on a machine without
    an operating system, where the arrays of inputs and outputs count too.

    Raises what `lower` raises.
    """
    network, parameters = plan.network, plan.figures["parameters"]
    made = made or lower_unpacked(plan, kernels or choose_backend(plan.options))
    if isinstance(made, Program):
        constants = sum(high - low for low, high in merge_ranges(made.constants.used))
        program = _size(made)
    else:
        constants, program = made.blob.size, made.size
    if not isinstance(made, Program) and made.endless:
        rows = [one.tensor.row_elements * one.tensor.itemsize for one in made.arguments]
        outputs = sum(size for size, one in zip(rows, made.arguments, strict=True) if one.output)
        held = made.loop.held if made.loop is not None else ()
        inputs = sum(rows) - outputs + sum(map(mul, held, rows))
        ends = outputs, inputs, stack or 0
        return Account(parameters, constants, program, plan.planned_bytes, *ends)
    if stack is None:
        return Account(parameters, constants, program, plan.planned_bytes, plan.figures["outputs"])
    inputs = sum(
        prod(network.whole_shape(one)) * np.dtype(one.dtype).itemsize for one in network.inputs
    )
    ends = network.output_bytes, inputs, stack
    return Account(parameters, constants, program, plan.planned_bytes, *ends)


def _size(program: Program) -> int:
    """Bytes of the structures that native kernels work on, of their tables, and of the calls of a frame."""
    steps = {
        number: kernel_structure(one.kernel).size
        for number, one in enumerate(program.instructions)
        if not any(isinstance(field, Array) for field in one.fields)
    }
    tables = sum(
        len(rows) * (POINTER if find_row_pool(Ref(name, 0)) is not None else type_size(name))
        for name, rows in program.constants.tables.items()
    )
    calls = sum(number in steps for some in (*program.code, *program.stores) for number in some)
    return sum(steps.values()) + tables + 2 * POINTER * calls
