"""What do families fill in? Records of the structures of the kernels, and the constants that these know."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import Any

from csdfgen.kernels.instructions import Instruction
from csdfgen.native.structures import Structure, constant, kernel_structure, structure

__all__ = [
    "ADD",
    "ADD_BYTES",
    "CLIP",
    "COPY",
    "DEQUANTIZE",
    "DIVIDE",
    "HARD_SIGMOID",
    "HARD_SWISH",
    "LEAK",
    "LEAKY",
    "MULTIPLY",
    "MULTIPLY_BYTES",
    "NONE",
    "PANEL",
    "QUANTIZE",
    "RANK",
    "SCALE",
    "SIGMOID",
    "SUBTRACT",
    "SWISH",
    "TABLE",
    "THREADS",
    "TO_BYTES",
    "TO_INTEGERS",
    "TO_VALUES",
    "Activation",
    "ByteAverageStep",
    "ByteConvStep",
    "ByteLayer",
    "ByteMapStep",
    "BytePoolStep",
    "ByteSource",
    "ByteSumStep",
    "ByteTarget",
    "ConvStep",
    "Dim",
    "GemmStep",
    "MapStep",
    "PackedLayer",
    "PoolStep",
    "Rescaling",
    "Source",
    "Strided",
    "Target",
    "Transfer",
    "instruction",
    "record_of",
]

NONE, CLIP, LEAKY, SIGMOID, SWISH, HARD_SIGMOID, HARD_SWISH = (
    constant(f"CSDF_{name}")
    for name in ("NONE", "CLIP", "LEAKY", "SIGMOID", "SWISH", "HARD_SIGMOID", "HARD_SWISH")
)
COPY, ADD, SUBTRACT, MULTIPLY, DIVIDE, SCALE, LEAK = (
    constant(f"CSDF_{name}")
    for name in ("COPY", "ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "SCALE", "LEAK")
)
TO_BYTES, TO_INTEGERS, TO_VALUES = (
    constant(f"CSDF_{name}") for name in ("BYTES", "INTEGERS", "VALUES")
)
TABLE, ADD_BYTES, MULTIPLY_BYTES, QUANTIZE, DEQUANTIZE = (
    constant(f"CSDF_{name}")
    for name in ("TABLE", "ADD_BYTES", "MULTIPLY_BYTES", "QUANTIZE", "DEQUANTIZE")
)
PANEL, RANK, THREADS = (constant(f"CSDF_{name}") for name in ("PANEL", "RANK", "THREADS"))

Activation = structure("csdf_activation").record
ByteAverageStep = structure("csdf_byte_average_step").record
ByteConvStep = structure("csdf_byte_conv_step").record
ByteLayer = structure("csdf_byte_layer").record
ByteMapStep = structure("csdf_byte_map_step").record
BytePoolStep = structure("csdf_byte_pool_step").record
ByteSource = structure("csdf_byte_source").record
ByteSumStep = structure("csdf_byte_sum_step").record
ByteTarget = structure("csdf_byte_target").record
ConvStep = structure("csdf_conv_step").record
Dim = structure("csdf_dim").record
GemmStep = structure("csdf_gemm_step").record
MapStep = structure("csdf_map_step").record
PackedLayer = structure("csdf_layer").record
PoolStep = structure("csdf_pool_step").record
Rescaling = structure("csdf_rescaling").record
Source = structure("csdf_source").record
Strided = structure("csdf_strided").record
Target = structure("csdf_target").record
Transfer = structure("csdf_transfer").record


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


def slots_of(made: Instruction) -> list[Any]:
    """Numbers and places of an instruction in the order of its structure."""
    fields, refs = iter(made.fields), iter(made.refs)
    return [next(refs if slot.pointer else fields) for slot in kernel_structure(made.kernel).slots]


@cache
def _parted(found: Structure) -> tuple[Any, Any]:
    """What picks the numbers, and the pointers, out of the values of all slots."""
    at = {
        kind: [k for k, slot in enumerate(found.slots) if slot.pointer == kind]
        for kind in (False, True)
    }
    return tuple(_picked(at[kind]) for kind in (False, True))


def _picked(at: list[int]) -> Any:
    if len(at) > 1:
        return itemgetter(*at)
    return lambda flat: tuple(flat[k] for k in at)
