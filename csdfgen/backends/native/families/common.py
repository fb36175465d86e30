"""What do families have in common? What a family is, rows as tables of offsets, activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Protocol, TypeVar

from csdfgen.backends.native.records import (
    CLIP,
    HARD_SIGMOID,
    HARD_SWISH,
    LEAKY,
    NONE,
    SIGMOID,
    SWISH,
)
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows, Window
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode
from csdfgen.program.instructions import PADDING, Constants, Instruction
from csdfgen.program.steps import Step, View

__all__ = [
    "FLOAT",
    "Family",
    "Taps",
    "activated",
    "activation",
    "followed",
    "is_dense",
    "is_map",
    "is_volume",
    "lines",
    "once",
    "pixel",
    "reads_a_map",
    "reads_a_volume",
    "rows_held",
    "rows_read",
]

FLOAT = 4
"""Bytes of an element."""

_Value = TypeVar("_Value")


class Family(Protocol):
    """Layers that are computed by one kind of kernel."""

    @property
    def joins(self) -> bool:
        """Whether steps of several images are handed to it whole, not image by image."""

    def takes(self, step: Step) -> bool:
        """Whether the kernel can be handed the step's rows as they lie."""

    def follows(self, layer: Layer) -> int:
        """How many layers of the epilogue the kernel computes on the way."""

    def workspace(self, step: Step, limit: int | None) -> int:
        """Bytes that the kernel takes."""

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        """The step, with what it computes on the way. constants: pools of tables and weights."""


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


def is_map(view: View) -> bool:
    """Whether rows are (columns, 1, channels) or (1, channels), channels side by side."""
    return len(view.shape) in (2, 3) and _has_pixels(view)


def is_volume(view: View) -> bool:
    """Whether rows are frames, (lines, columns, 1, channels), channels side by side."""
    return len(view.shape) == 4 and _has_pixels(view)


def _has_pixels(view: View) -> bool:
    *_, images, channels = view.shape
    size = view.format.itemsize
    return (
        images == 1
        and (channels == 1 or view.strides[-1] == size)
        and all(stride % size == 0 for stride in view.strides[:-2])
    )


def reads_a_map(step: Step) -> bool:
    """Whether a step makes a map, not in pieces, of one that may be in pieces along its channels."""
    return _reads(step, is_map)


def reads_a_volume(step: Step) -> bool:
    """The same of frames."""
    return _reads(step, is_volume)


def _reads(step: Step, are: Callable[[View], bool]) -> bool:
    view, out = step.inputs[0], step.outputs[0]
    assert view is not None
    return (
        not step.states
        and not out.pieces
        and (not view.pieces or view.along == len(view.shape) - 1)
        and all(are(one) for one in (*(view.pieces or (view,)), out))
    )


def pixel(view: View) -> int:
    """Elements from a column to the next."""
    return view.strides[-3] // view.format.itemsize if len(view.shape) > 2 else view.shape[-1]


def lines(frame: int, view: View, first: int, count: int, step: int = 1) -> list[int]:
    """Offsets of `count` lines of a frame that is one of a view's rows, from `first` on, so many lines
    apart; those beside it are padding.
    """
    wanted = range(first, first + count * step, step)
    return [frame + at * view.strides[0] if 0 <= at < view.shape[0] else PADDING for at in wanted]


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


def rows_held(step: Step) -> Rows:
    """Rows of an image of input 0 that the step holds: all of them, where it has several images."""
    x, held = step.layer.inputs[0], step.phase.ins[0]
    assert x is not None and held is not None
    return held if step.phase.images == 1 else Rows(0, x.rows)


def rows_read(there: Sequence[int], held: Rows, rows: Sequence[int], images: int = 1) -> list[int]:
    """Offsets of these rows; one that the step does not hold is padding. Those of one image behind those of the other;
    `there` has the held ones of all.
    """
    bases = [image * len(held) - held.start for image in range(images)]
    return [
        there[base + r] if held.start <= r < held.stop else PADDING for base in bases for r in rows
    ]


@dataclass(frozen=True)
class Taps:
    """Rows under windows: output row r reads rows r * stride + y * dilation of a table, for y in [0,
    kernel). rows: of an image, that the table has.
    """

    kernel: int
    stride: int
    dilation: int
    rows: Sequence[int]

    @classmethod
    def of(cls, step: Step, window: Window, alone: bool = False) -> Taps:
        """Of a layer that accumulates all rows that the step holds; else of a window, each one with rows
        of its own where there are several images, so that the next image can follow, or where it is to be
        alone.
        """
        out, held = step.phase.out, rows_held(step)
        if operator_of(step.layer).mode(step.layer) is Mode.ACCUMULATE:
            return cls(len(held), len(held), 1, range(held.start, held.stop))
        first = out.start * window.stride - window.pad_top
        if step.phase.images == 1 and not alone:
            reach = (len(out) - 1) * window.stride + window.extent
            return cls(window.kernel, window.stride, window.dilation, range(first, first + reach))
        tops = range(first, first + len(out) * window.stride, window.stride)
        taps = range(0, window.extent, window.dilation)
        return cls(window.kernel, window.kernel, 1, [top + tap for top in tops for tap in taps])

    def table(self, step: Step, piece: View) -> list[int]:
        """Their offsets in all images, of a piece of what the step reads."""
        return rows_read(piece.rows, rows_held(step), self.rows, step.phase.images)
