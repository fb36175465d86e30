"""How does native code move rows between the caller's arrays and memory? By one kernel a run.

The array of a frame is known when the frame starts: its address, strides and type are in a structure
that the kernels look at, so that arrays in any order and of any type are read and written where they are.
"""

from __future__ import annotations

from csdfgen.backends.native.records import Dim, instruction
from csdfgen.backends.native.structures import structure
from csdfgen.backends.numpy.arrays import placed
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Move

__all__ = ["PORTS", "moves"]

Transfer = structure("csdf_transfer").record

PORTS = "csdf_port"
"""The pool of the ports, in the order of the program's."""


def moves(move: Move, constants: Constants) -> list[Instruction]:
    """The kernels that move rows."""
    found = []
    for at, place, shape, strides in placed(move.starts, move.view):
        # the longest last: that is the loop that counts
        order = sorted(
            (axis for axis, size in enumerate(shape) if size > 1),
            key=lambda axis: (shape[axis], axis),
        )
        made = Transfer(
            Ref(PORTS, move.port),
            constants.table("csdf_dim", [Dim(shape[k], strides[k]) for k in order]),
            constants.table("int32_t", order),
            constants.table("int32_t", at),
            len(order),
            len(at),
            int(move.output),
            place,
        )
        found.append(instruction("move", made))
    return found
