"""What do families have in common? What a family is, rows as tables of addresses, activations."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any, Protocol, TypeVar

from csdfgen.kernels.steps import Memory, Step, View
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.native.library import CLIP, HARD_SIGMOID, HARD_SWISH, LEAKY, NONE, SIGMOID, SWISH
from csdfgen.native.strided import Native, address_of

__all__ = [
    "FLOAT",
    "Family",
    "activated",
    "activation",
    "addresses",
    "followed",
    "is_dense",
    "is_map",
    "once",
    "pixel",
    "pointers",
    "reads_a_map",
    "rows_read",
]

FLOAT = 4
"""Bytes of an element."""

_Value = TypeVar("_Value")


class Family(Protocol):
    """Layers that are computed by one kind of kernel."""

    def takes(self, step: Step) -> bool:
        """Whether the kernel can be handed the step's rows as they lie."""

    def follows(self, layer: Layer) -> int:
        """How many layers of the epilogue the kernel computes on the way."""

    def workspace(self, step: Step, limit: int | None) -> int:
        """Bytes that the kernel takes."""

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        """The step, with what it computes on the way."""


# What follows in the slab ------------------------------------------------------------------------


def activation(layer: Layer) -> tuple[int, float, float] | None:
    """A layer of an epilogue as an activation of the kernels; None if it is none of these."""
    given = layer.attributes
    if layer.op_type == "Relu":
        return CLIP, 0.0, inf
    if layer.op_type == "Clip" and "bounds" not in given:
        return CLIP, float(given["min"]), float(given["max"])
    if layer.op_type == "LeakyRelu":
        return LEAKY, float(given["alpha"]), 0.0
    if layer.op_type == "Sigmoid":
        return SIGMOID, 0.0, 0.0
    if layer.op_type == "Swish":
        return SWISH, float(given["alpha"]), 0.0
    if layer.op_type == "HardSigmoid":
        return HARD_SIGMOID, float(given["alpha"]), float(given["beta"])
    if layer.op_type == "HardSwish":
        return HARD_SWISH, 1 / 6, 0.5
    return None


def _first(layer: Layer) -> tuple[int, float, float] | None:
    found = activation(layer.epilogue[0]) if layer.epilogue else None
    return found if found is not None and found[0] in (CLIP, LEAKY) else None


def followed(layer: Layer) -> int:
    """How many layers of the epilogue are activations that a kernel computes on the way."""
    return 0 if _first(layer) is None else 1


def activated(layer: Layer) -> tuple[int, float, float]:
    """Kind and settings of the activation that a kernel computes on the way."""
    return _first(layer) or (NONE, 0.0, 0.0)


# Rows --------------------------------------------------------------------------------------------


def addresses(view: View, memory: Memory) -> list[int]:
    """Of every row of a view without pieces."""
    base = address_of(memory[view.pool])
    return [base + row for row in view.rows]


def pointers(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    """A table of them; 0 is NULL."""
    return (ctypes.c_void_p * len(addresses))(*addresses)


def is_map(view: View) -> bool:
    """Whether rows are (columns, 1, channels) or (1, channels), channels side by side."""
    if len(view.shape) not in (2, 3):
        return False
    *_, images, channels = view.shape
    size = view.format.itemsize
    return (
        images == 1
        and (channels == 1 or view.strides[-1] == size)
        and (len(view.shape) == 2 or view.strides[0] % size == 0)
    )


def reads_a_map(step: Step) -> bool:
    """Whether a step makes a map, not in pieces, of one that may be in pieces along its channels."""
    view, out = step.inputs[0], step.outputs[0]
    assert view is not None
    return (
        not step.states
        and not out.pieces
        and (not view.pieces or view.along == len(view.shape) - 1)
        and all(is_map(one) for one in (*(view.pieces or (view,)), out))
    )


def pixel(view: View) -> int:
    """Elements from a column to the next."""
    return view.strides[0] // view.format.itemsize if len(view.shape) == 3 else view.shape[-1]


def is_dense(view: View) -> bool:
    """Whether the elements of a row lie one after the other."""
    steps = (view.format.itemsize * prod(view.shape[axis + 1 :]) for axis in range(len(view.shape)))
    return all(
        size == 1 or own == step
        for size, own, step in zip(view.shape, view.strides, steps, strict=True)
    )


def once(make: Callable[[], _Value]) -> Callable[[], _Value]:
    """What `make` gives, made when first asked for."""
    made: list[_Value] = []

    def get() -> _Value:
        if not made:
            made.append(make())
        return made[0]

    return get


def rows_read(there: Sequence[int], held: Rows, first: int, count: int) -> ctypes.Array[Any]:
    """Addresses of rows [first, first + count), 0 where the step does not hold one: padding."""
    rows = range(first, first + count)
    return pointers([there[r - held.start] if held.start <= r < held.stop else 0 for r in rows])
