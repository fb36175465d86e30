"""Which products of two activations of bytes have a kernel? Those that would have one in float32 (`multiplication`).

Columns of the right operand, some at a time, become weights in the workspace, in the panels in which those of `byte_products`
are packed once a layer, and the kernel of these multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import Family, memoize
from csdfgen.backends.native.families.multiplication import Multiplication, is_turned
from csdfgen.backends.native.structures import PANEL, constant, constants, instruction, structure
from csdfgen.model.network import Layer
from csdfgen.ops.integers import Rescaled, get_zero, multipliers, rescale_factor
from csdfgen.ops.quantized_products import zero_tensor
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Step

TO_BYTES, TO_INTEGERS, TO_SHIFTED = constants("BYTES", "INTEGERS", "SHIFTED")
ByteMultiplyStep = structure("csdf_byte_multiply_step").record
ByteLayer = structure("csdf_byte_layer").record
Rescaling = structure("csdf_rescaling").record

_MOVED = 128
"""What unsigned bytes are larger by than the signed ones of the same bits but the first."""

_DEEPEST = (2**31 - 1) // (7 * _MOVED**2)
"""Most terms of a sum: these, what their zero points add, and what is moved have 32 bits."""

_LINE, _BESIDE = 64, 8
"""Alignment of the workspace, and bytes of a column beside its elements: csdf_byte_multiply_step says why."""

_PIXELS, _ROOM = 12, 16384
"""Rows whose terms are best gathered at a time, and bytes above which they are not."""

ROWS = constant("CSDF_BYTE_ROWS")

_WIDE, _ROWS = (64, 32, 16), (ROWS, 16, 8, 4, 1)
"""Columns that are packed, and rows that are copied or computed, at a time."""

_INTEGER, _NEARLY = 4, 1.05
"""Bytes of a sum, and time that memory is worth, as a factor."""

_PRODUCTS, _FEW, _BEGINS = 40, 4, 300
"""Estimates of a way, in the time of a byte that is copied: products in that time; rows that take twice as long as they would
among many; what each block of rows and columns takes beside its products. They are rounded from figures with 512 bits.
"""


class Way(NamedTuple):
    """Rows of the left operand and columns of the right one that are in the workspace at a time, and its bytes."""

    rows: int
    wide: int
    size: int


@dataclass(frozen=True, eq=False)
class _ByteMultiplication(Multiplication):
    """flip, zero: of the right operand of the kernel. into: what becomes of sums, and its factors."""

    kernels = ("multiply_bytes_of",)

    flip: int
    zero: int
    into: Callable[[], tuple[Any, np.ndarray | None]]

    def _way(self, step: Step, limit: int | None) -> Way:
        a, _, out = self.matrices(step)
        read = out.axis is not None and out.axis - len(out.tensor.shape) == (
            -1 if out.turned else -2
        )
        count = len(out.held) if read else out.size(False)
        direct = not self.zero and out.step(True) == 1
        return best_way(a.size(True), out.size(True), count, a.step(True) != 1, direct, limit)

    def workspace(self, step: Step, limit: int | None) -> int:
        needed = self._way(step, limit).size
        room = min(_ROOM, 2 * _PIXELS * self.matrices(step)[0].size(True))
        room += -room % _LINE
        return needed + (room if limit is None or needed + room <= limit else 0)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        groups, count, by_columns, tables = self.tables(step, constants)
        a, b, out = self.matrices(step)
        into, factors = self.into()
        if factors is not None:
            placed = constants.weights(factors)
            into = into._replace(**{"shifts" if into.kind == TO_SHIFTED else "factors": placed})
        depth, columns, pad = a.size(True), out.size(True), step.workspace
        unsigned = self.layer.attributes["w" if self.turned else "x"].dtype == "uint8"
        moved = _MOVED if unsigned else 0
        zero = get_zero(self.layer, "w" if self.turned else "x") - moved
        one = ByteLayer(depth, columns, 1, 1, 1, 1, 1, 1, 1, 0, moved, zero, depth, into)
        way = self._way(step, pad.size)
        made = ByteMultiplyStep(
            groups, count, depth, columns, columns if by_columns else depth,
            a.step(True), b.step(not by_columns), out.step(True), int(by_columns),
            way.rows, way.wide, self.flip, self.zero,
            constants.table("csdf_byte_layer", [one]), *tables, Ref(pad.pool, pad.offset), pad.size,
        )  # fmt: skip
        return [instruction("multiply_bytes_of", made)]


@cache
def best_way(
    depth: int, columns: int, count: int, apart: bool, direct: bool, limit: int | None
) -> Way:
    """How `count` rows are computed within so many bytes, by estimates: in the least that is nearly as fast as the fastest way;
    in the least of all, where nothing fits. apart: whether rows of the left operand are copied; direct: whether sums
    become what is written without a stop in the workspace.
    """
    products = count * columns * depth / _PRODUCTS
    found: list[tuple[float, Way]] = []
    for wide in dict.fromkeys(min(wide, columns) for wide in _WIDE):
        chunks, padded = -(-columns // wide), wide + -wide % PANEL
        for rows in dict.fromkeys(min(rows, count) for rows in (count, *_ROWS)):
            block = min(rows, ROWS)
            size = padded * (depth + -depth % packing.FOUR + _BESIDE)
            size += (0 if direct else block * padded * _INTEGER) + apart * rows * depth
            copied = apart * count * depth * (1 if rows == count else chunks)
            begun = chunks * -(-count // block) * _BEGINS
            time = copied + begun + products * (1 + _FEW / block)
            found.append((time, Way(rows, wide, size + -size % _LINE)))
    fits = [one for one in found if limit is None or one[1].size <= limit]
    if not fits:
        return min((way for _, way in found), key=lambda way: way.size)
    most = _NEARLY * min(time for time, _ in fits)
    return min((way for time, way in fits if time <= most), key=lambda way: way.size)


def byte_multiplication(layer: Layer) -> Family | None:
    """QLinearMatMul and MatMulInteger of two activations, of which neither zero point is computed, to integers."""
    turned = is_turned(layer)
    if turned is None or zero_tensor(layer) is not None or 1 in layer.constants:
        return None
    if layer.output.dtype == "float32":  # sums would be left as they are
        return None
    first = layer.computed(0)
    if first.shape[-1] > _DEEPEST:
        return None
    role = "x" if turned else "w"
    moved = _MOVED if layer.attributes[role].dtype == "uint8" else 0
    into = memoize(lambda: _rescaling(layer))
    return _ByteMultiplication(layer, turned, moved, get_zero(layer, role) - moved, into)


def _rescaling(layer: Layer) -> tuple[Any, np.ndarray | None]:
    """What becomes of sums, and the one factor of all columns, or its multiplier and shift, in panels."""
    if "y" not in layer.attributes:
        return Rescaling(TO_INTEGERS), None
    into, factors = Rescaled.of(layer), np.broadcast_to(rescale_factor(layer), max(_WIDE))
    bounds = into.zero, into.low, into.high
    if into.shifts:
        pairs = [packing.byte_panels(one) for one in multipliers(factors)]
        return Rescaling(TO_SHIFTED, *bounds), packing.aligned(np.stack(pairs, -1), "int32")
    return Rescaling(TO_BYTES, *bounds), packing.byte_panels(factors, 1, "float32")
