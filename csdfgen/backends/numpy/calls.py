"""How is a prepared call of numpy written down, and called again? By the name of its function, and arrays without memory.

The operators' kernels end in a small vocabulary (`csdfgen.ops.primitives`): ufuncs, with `.reduce` and `.accumulate`,
copies, products, choices. An instruction names one of these; an array among its arguments is an `Array` among the
fields, whose place is among the references in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.ops import primitives
from csdfgen.program.instructions import WEIGHTS, Array, Constants, Instruction, Ref
from csdfgen.program.steps import Call

__all__ = ["array_at", "called", "written_down"]

_NAMES: dict[Any, str] = {
    np.copyto: "copyto",
    np.take: "take",
    np.argmax: "argmax",
    np.argmin: "argmin",
    np.ndarray.clip: "clip",
    np.ndarray.fill: "fill",
    primitives.maximum: "maximum",
    primitives.minimum: "minimum",
    primitives.negative: "negative",
    primitives.einsum: "einsum",
    primitives.looked_up: "looked_up",
}
"""Functions that are no ufuncs -> their kernels."""

_FUNCTIONS = {name: function for function, name in _NAMES.items()}


def written_down(call: Call, constants: Constants) -> Instruction:
    """A prepared call on arrays in memory that nobody touches, as an instruction. Raises PlanError for a function that is
    none of the vocabulary.
    """
    function, arguments = call
    kernel = _NAMES.get(function, "")
    if not kernel:
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(function, np.ufunc):
            kernel = name
        elif isinstance(owner, np.ufunc):
            kernel = f"{owner.__name__}.{name}"
        elif isinstance(owner, np.ndarray) and name == "fill":
            kernel, arguments = "fill", (owner, *arguments)
        else:
            raise PlanError(f"a prepared call of {name or function} has no kernel")
    fields: list[Any] = []
    refs: list[Ref | None] = []
    for one in arguments:
        if isinstance(one, np.ndarray):
            array, ref = constants.placed(one)
            fields.append(array)
            refs.append(ref)
        else:
            fields.append(one)
    return Instruction(kernel, tuple(fields), tuple(refs))


def called(made: Instruction, memory: Mapping[str, np.ndarray], constants: Constants) -> Call:
    """The prepared call of an instruction. memory: bytes of the pools."""
    refs = iter(made.refs)
    arguments = tuple(
        array_at(one, next(refs), memory, constants) if isinstance(one, Array) else one
        for one in made.fields
    )
    return _function(made.kernel), arguments


def _function(kernel: str) -> Callable[..., Any]:
    found = _FUNCTIONS.get(kernel)
    if found is not None:
        return found
    name, _, method = kernel.partition(".")
    function = getattr(np, name)
    return getattr(function, method) if method else function


def array_at(
    array: Array, ref: Ref | None, memory: Mapping[str, np.ndarray], constants: Constants
) -> np.ndarray:
    """An array in memory."""
    assert ref is not None
    if ref.pool == WEIGHTS:
        block = constants.block(ref.offset)
        where, offset = block.values, ref.offset - block.start
    else:
        where, offset = memory[ref.pool], ref.offset
    return np.ndarray(array.shape, array.dtype, where, offset, array.strides)
