"""How many work items has a kernel of a family? As many as its blocks, along two axes."""

from __future__ import annotations

from csdfgen.program.instructions import Constants, Instruction

__all__ = ["items_of"]


def items_of(one: Instruction, constants: Constants) -> tuple[int, int]:
    """Work items of an instruction."""
    raise KeyError(one.kernel)
