"""How do formulas that are written for arrays of integers become prepared calls? By recording what they compute.

A formula is a function of arrays of 64-bit integers. Given arrays, it computes; given `Recorded` ones, numpy hands each ufunc
to the tape, which knows all of them before the first array is taken from the workspace, so that arrays are used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from csdfgen.ops.base import Call, Scratch
from csdfgen.ops.primitives import look_up, maximum, minimum

_BY_POSITION: dict[Any, Callable[..., None]] = {np.maximum: maximum, np.minimum: minimum}
"""Ufuncs that want their output by name."""


class Recorded(NDArrayOperatorsMixin):
    """An array that a formula computes with, before there is one."""

    def __init__(self, steps: list[_Step], shape: tuple[int, ...]) -> None:
        self.steps, self.shape = steps, shape

    __hash__ = object.__hash__  # operators are recorded, == too

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *inputs: Any, axis: Any = (), keepdims: bool = False
    ) -> Recorded:
        """Of a call, or of ufunc.reduce with `keepdims`."""
        if method == "reduce":
            shape = tuple(1 if d in axis else size for d, size in enumerate(self.shape))
            return self.then(function.reduce, inputs, shape, ((axis, None), (keepdims,)))
        shape = np.broadcast_shapes(*(np.shape(one) for one in inputs))
        return self.then(_BY_POSITION.get(function, function), inputs, shape)

    def then(
        self, function: Any, inputs: Sequence[Any], shape: tuple[int, ...], more: _More = ((), ())
    ) -> Recorded:
        """What a function makes of inputs. more: arguments in front of its output, and behind it."""
        made = Recorded(self.steps, shape)
        self.steps.append((function, tuple(inputs), made, more))
        return made


_More = tuple[tuple[Any, ...], tuple[Any, ...]]
_Step = tuple[Any, tuple[Any, ...], Recorded, _More]


def pick(table: np.ndarray, index: Any) -> Any:
    """table[index], of an array or a recorded one."""
    if isinstance(index, Recorded):
        return index.then(look_up, (table, index), index.shape)
    return table[index]


def record(
    formula: Callable[[list[Any]], Any], operands: Sequence[np.ndarray], scratch: Scratch
) -> tuple[list[Call], np.ndarray]:
    """Calls that compute a formula of integers of 64 bits, and the array with what it gives. operands: integers of any type."""
    steps: list[_Step] = []
    given = [Recorded(steps, one.shape) for one in operands]
    result = formula(list(given))
    held: dict[Recorded, np.ndarray] = {}
    free: list[np.ndarray] = []

    def take(shape: tuple[int, ...]) -> np.ndarray:
        for k, array in enumerate(free):
            if array.shape == shape:
                return free.pop(k)
        return scratch.take(shape, "int64")

    calls: list[Call] = []
    for recorded, operand in zip(given, operands, strict=True):
        held[recorded] = take(operand.shape)
        calls.append((np.copyto, (held[recorded], operand)))
    last = {one: k for k, step in enumerate(steps) for one in _recorded(step)}
    last[result] = len(steps)
    for k, (function, inputs, made, (before, behind)) in enumerate(steps):
        arrays = [held[one] if isinstance(one, Recorded) else one for one in inputs]
        over = [held.pop(one) for one in _recorded(steps[k]) if last[one] == k]
        in_place = isinstance(function, np.ufunc) or function in _BY_POSITION.values()
        free += over if in_place else []
        held[made] = take(made.shape)
        free += [] if in_place else over
        calls.append((function, (*arrays, *before, held[made], *behind)))
    return calls, held[result]


def _recorded(step: _Step) -> list[Recorded]:
    return list(dict.fromkeys(one for one in step[1] if isinstance(one, Recorded)))
