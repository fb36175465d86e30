"""Sequences of tensors are resolved when a model is read: what they hold, and where, is known by then.

Source: https://onnx.ai/onnx/operators/onnx__SplitToSequence.html and the pages beside it. A sequence is a list of names.
What makes tensors of it, or it of a tensor, is written as Split, Concat, Squeeze, Unsqueeze and Identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from csdfgen.errors import ModelError, option
from csdfgen.model.network import Tensor
from csdfgen.reading.onnx_file import label
from csdfgen.reading.onnx_schema import attribute_values
from csdfgen.reading.unrolling import MOST_OPERATIONS, Writing

_NAMES = """
    ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
    SplitToSequence
"""
SEQUENCES = frozenset(_NAMES.split())


@dataclass(frozen=True, slots=True)
class Listed:
    """A sequence: the names of its tensors."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"a sequence of {len(self.names)} tensors"


def resolve(writing: Writing, operands: Sequence[Any]) -> Listed | None:
    """Write an operator of sequences as operations on tensors. operands: what it reads.

    Returns the sequence that it makes, None if it makes a tensor. Raises ModelError.
    """
    operation = writing.operation
    kind, given, output = operation.op_type, operation.inputs, operation.outputs[0]
    if kind == "SequenceEmpty":
        return Listed(())
    if kind == "SequenceConstruct":
        return Listed(given)
    operand, position = [*operands, None, None][:2]
    if kind == "SplitToSequence":
        return _split(writing, operand, position)
    if not isinstance(operand, Listed):
        raise ModelError("input 0 is a tensor, a sequence is needed")
    names = operand.names
    if kind == "SequenceLength":
        writing.one("Identity", [writing.constant(np.int64(len(names)), "length")], output)
    elif kind == "SequenceAt":
        writing.one("Identity", [names[_place(position, len(names))]], output)
    elif kind == "SequenceErase":
        k = _place(position, len(names))
        return Listed(names[:k] + names[k + 1 :])
    elif kind == "SequenceInsert":
        k = _place([*operands, None][2], len(names), ends=True)
        return Listed((*names[:k], given[1], *names[k:]))
    else:
        settings = attribute_values(operation.attributes)
        if not names:
            raise ModelError("joins a sequence without tensors")
        axis, new = int(settings["axis"]), settings.get("new_axis", 0)
        (writing.stack if new else writing.join)(names, axis, output)
    return None


def _integers(operand: Any, what: str) -> list[int]:
    """A constant operand. Raises ModelError."""
    if isinstance(operand, Tensor):
        raise ModelError(
            f"its {what} is computed at run time ('{label(operand.name)}'), it must be a constant; give the inputs that it "
            f"depends on values with {option('fix')}"
        )
    if not isinstance(operand, np.ndarray) or operand.dtype.kind not in "iu" or operand.ndim > 1:
        raise ModelError(f"its {what} is no integer, nor a list of them")
    return [int(value) for value in operand.reshape(-1)]


def _place(operand: Any, count: int, *, ends: bool = False) -> int:
    """A position among so many, the last without an operand; negative ones are counted from the end. ends: that behind the
    last is one, too.
    """
    found = [count - 1 + ends] if operand is None else _integers(operand, "position")
    if len(found) != 1 or not -count <= found[0] < count + ends:
        raise ModelError(
            f"position {label(str(found), 60)} is not among the {count} that there are"
        )
    return found[0] if found[0] >= 0 else found[0] + count


def _split(writing: Writing, operand: Any, split: Any) -> Listed:
    operation = writing.operation
    settings = attribute_values(operation.attributes)
    if not isinstance(operand, Tensor | np.ndarray):
        raise ModelError("input 0 is no tensor")
    rank, axis = len(operand.shape), int(settings.get("axis", 0))
    if not -rank <= axis < rank:
        raise ModelError(f"splits along axis {axis} of {rank}")
    size = operand.shape[axis]
    sizes = [1] if split is None else _integers(split, "split")
    if split is None or not split.ndim:
        (each,) = sizes
        if each < 1:
            raise ModelError(f"parts of {each} positions; at least 1 is needed")
        parts = -(-size // each)
        _check(parts)
        sizes = [min(each, size - each * k) for k in range(parts)]
    _check(len(sizes))
    if min(sizes, default=0) < 0 or sum(sizes) != size:
        raise ModelError(f"parts of {label(str(sizes), 60)} positions do not make up {size}")
    made = [writing.fresh(f"{operation.outputs[0]}/{k}") for k in range(len(sizes))]
    if len(made) == 1:
        writing.one("Identity", operation.inputs[:1], made[0])
    elif made:
        lengths = writing.constant(np.array(sizes, np.int64), "parts")
        writing.one("Split", [operation.inputs[0], lengths], *made, axis=axis)
    # as onnxruntime, whose torch exporter writes unbind with a scalar of 1; ONNX squeezes only without one
    squeezes = split is None or (split.ndim == 0 and each == 1)
    if settings.get("keepdims", 1) or not squeezes:
        return Listed(tuple(made))
    where = writing.constant(np.array([axis], np.int64), "axis")
    squeezed = tuple(writing.fresh(f"{name}/squeezed") for name in made)
    for name, output in zip(made, squeezed, strict=True):
        writing.one("Squeeze", [name, where], output)
    return Listed(squeezed)


def _check(parts: int) -> None:
    if parts > MOST_OPERATIONS:
        raise ModelError(f"makes {parts} tensors, at most {MOST_OPERATIONS} are supported")
