"""How are the loops over arrays with strides put for a device? Which of their dimensions are computed side by side.

What an element writes no other one reads or writes along dimensions that are side by side. Along a dimension in which the
output does not move (sums), and along all where an operand and the output share bytes in another order than each element
its own, elements follow each other as they do in native code.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from csdfgen.backends.device.elements import (
    AT_PLACES,
    COPY,
    ELEMENT,
    FOLD,
    definitions,
    element_bytes,
)
from csdfgen.backends.native.structures import constant

RANK = constant("CSDF_RANK")

_HEAD = struct.Struct("=5Q2qq4i")
_DIM = struct.Struct("=5q")

LOOP_BYTES = _HEAD.size + RANK * _DIM.size
"""Of `loop` in text/strided.cl."""

SHORT = 16
"""Elements of a line below which the items of a loop go along another dimension."""

Span = tuple[int, int]
"""First byte and the one behind the last, as places."""

Dim = tuple[int, int, int, int, int]
"""Size, and bytes from one element to the next of a, b, c and the output."""


def whole_buffer(tag: int) -> Span:
    """All of a buffer."""
    return tag, tag | (1 << 61)


@dataclass(frozen=True, slots=True)
class Loop:
    """A kernel on arrays with strides. a, b, c, out, index: places."""

    kernel: str
    dims: Sequence[Dim]
    a: int
    b: int
    c: int
    out: int
    index: int = 0
    count: int = 0
    along: int = 0
    out_along: int = 0

    def _operands(self) -> list[tuple[int, int]]:
        """(place, axis of its strides in a dimension) of the operands that are read."""
        given = definitions(self.kernel) or {}
        two = "BINARY" in given or "CLIP" in given or "PRODUCTS" in given
        found = [(self.a, 1)]
        if two:
            found.append((self.b, 2))
        if "CLIP" in given or "PUTS" in given:
            found.append((self.c, 3))
        return found

    def _span(self, place: int, axis: int, size: int) -> Span:
        steps = [(dim[0] - 1) * dim[axis] for dim in self.dims]
        return place + sum(s for s in steps if s < 0), place + sum(s for s in steps if s > 0) + size

    def order(self) -> tuple[list[Dim], int]:
        """The dimensions, those that are computed side by side first, and how many these are."""
        given = definitions(self.kernel) or {}
        if int(given["FORM"]) == AT_PLACES:
            return list(self.dims), 0
        size, made = element_bytes(self.kernel)
        written = self._span(self.out, 4, made)
        for place, axis in self._operands():
            low, high = self._span(place, axis, size)
            apart = high <= written[0] or written[1] <= low
            same = place == self.out and all(dim[axis] == dim[4] for dim in self.dims if dim[0] > 1)
            if not apart and not same:
                return list(self.dims), 0
        apart_dims = [dim for dim in self.dims if dim[4]]
        if len(apart_dims) > 1 and apart_dims[-1][0] < SHORT < apart_dims[-2][0]:
            apart_dims[-2:] = apart_dims[:-3:-1]
        return apart_dims + [dim for dim in self.dims if not dim[4]], len(apart_dims)

    def bytes(self, span: int) -> tuple[bytes, int]:
        """The structure, and how many items compute it, so many elements of a line each."""
        dims, apart = self.order()
        lines = dims[: max(0, apart - 1)]
        items = prod(dim[0] for dim in lines) * (-(-dims[apart - 1][0] // span) if apart else 1)
        rest = prod(dim[0] for dim in dims[apart:])
        places = self.a, self.b, self.c, self.out, self.index
        sizes = self.along, self.out_along, items, len(dims), apart, self.count, rest
        found = _HEAD.pack(*places, *sizes) + b"".join(_DIM.pack(*dim) for dim in dims)
        return found.ljust(LOOP_BYTES, b"\0"), items

    def spans(self, memory: int) -> tuple[list[Span], list[Span]]:
        """What is read and what is written of memory, whose places begin with `memory`."""
        given = definitions(self.kernel) or {}
        every = [whole_buffer(memory)]
        if int(given["FORM"]) not in (ELEMENT, FOLD, COPY) or "LOOKS" in given:
            return every, every
        size, made = element_bytes(self.kernel)
        read = [self._span(place, axis, size) for place, axis in self._operands()]
        return read, [self._span(self.out, 4, made)]
