"""What do families make of a step? An instruction: a kernel on a record of the structure that it takes.

Here is what several families share. The records and constants of one family are in its own file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from csdfgen.backends.native.structures import (
    Structure,
    constant,
    constants,
    kernel_structure,
    structure,
)
from csdfgen.program.instructions import Instruction

__all__ = [
    "CLIP",
    "HARD_SIGMOID",
    "HARD_SWISH",
    "LEAKY",
    "NONE",
    "PANEL",
    "SIGMOID",
    "SWISH",
    "Activation",
    "ByteSource",
    "Dim",
    "Source",
    "instruction",
    "record_of",
    "slots_of",
]

NONE, CLIP, LEAKY, SIGMOID, SWISH, HARD_SIGMOID, HARD_SWISH = constants(
    "NONE", "CLIP", "LEAKY", "SIGMOID", "SWISH", "HARD_SIGMOID", "HARD_SWISH"
)
PANEL = constant("CSDF_PANEL")

Activation = structure("csdf_activation").record
ByteSource = structure("csdf_byte_source").record
Dim = structure("csdf_dim").record
Source = structure("csdf_source").record


def instruction(kernel: str, record: tuple[Any, ...]) -> Instruction:
    """A kernel, named without `csdf_`, on a record of its structure."""
    found = kernel_structure(kernel)
    flat = found.flat(record)
    numbers, pointers = _parted(found)
    return Instruction(kernel, numbers(flat), pointers(flat))


def record_of(made: Instruction) -> Any:
    """The record of an instruction."""
    found = kernel_structure(made.kernel)
    return found.nested(slots_of(made))


def slots_of(made: Instruction, refs: Sequence[Any] | None = None) -> Sequence[Any]:
    """Numbers and places of an instruction in the order of its structure. refs: what stands for its places."""
    return _joined(kernel_structure(made.kernel))(
        (*made.fields, *(made.refs if refs is None else refs))
    )


@cache
def _places(found: Structure) -> tuple[list[int], list[int]]:
    """Which slots are numbers, and which pointers."""
    of = [slot.pointer for slot in found.slots]
    return [k for k, one in enumerate(of) if not one], [k for k, one in enumerate(of) if one]


@cache
def _parted(found: Structure) -> tuple[Any, Any]:
    """What picks the numbers, and the pointers, out of the values of all slots."""
    numbers, pointers = _places(found)
    return _picked(numbers), _picked(pointers)


@cache
def _joined(found: Structure) -> Any:
    """What puts numbers, and pointers behind them, in the order of the slots."""
    numbers, pointers = _places(found)
    order = [*numbers, *pointers]
    return _picked(sorted(range(len(order)), key=order.__getitem__))


def _picked(at: list[int]) -> Any:
    if len(at) > 1:
        return itemgetter(*at)
    return lambda flat: tuple(flat[k] for k in at)
