"""Which products of two activations of bytes have a kernel? Those that would have one in float32 (`multiplication`).

The right operand becomes weights in the workspace, in the panels in which those of `byte_products` are packed once a layer, and
the kernel of these multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import Family, once
from csdfgen.backends.native.families.multiplication import Multiplication, at_a_time, is_turned
from csdfgen.backends.native.structures import PANEL, constants, instruction, structure
from csdfgen.model.network import Layer
from csdfgen.ops.integers import Rescaled, factor_of, multipliers, zero_of
from csdfgen.ops.quantized_products import zero_tensor
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Step

__all__ = ["TO_BYTES", "TO_SHIFTED", "byte_multiplication", "packed_bytes"]

TO_BYTES, TO_INTEGERS, TO_SHIFTED = constants("BYTES", "INTEGERS", "SHIFTED")
ByteMultiplyStep = structure("csdf_byte_multiply_step").record
ByteLayer = structure("csdf_byte_layer").record
Rescaling = structure("csdf_rescaling").record

_MOVED = 128
"""What unsigned bytes are larger by than the signed ones of the same bits but the first."""

_DEEPEST = (2**31 - 1) // (7 * _MOVED**2)
"""Most terms of a sum: these, what their zero points add, and what is moved have 32 bits."""

_LINE, _BESIDE = 64, 12
"""Alignment of the workspace, and bytes of a column beside its elements: csdf_byte_multiply_step says why."""

_PIXELS, _ROOM = 12, 16384
"""Rows whose terms are best gathered at a time, and bytes above which they are not."""


@dataclass(frozen=True, eq=False)
class _ByteMultiplication(Multiplication):
    """flip, zero: of the right operand of the kernel. into: what becomes of sums, and its factors, for so many columns."""

    kernels = ("multiply_bytes_of",)

    flip: int
    zero: int
    into: Callable[[], tuple[Any, np.ndarray | None]]

    def _packed(self, step: Step) -> int:
        """Bytes of the right operand as weights."""
        a, _, out = self.matrices(step)
        return packed_bytes(a.size(True), out.size(True))

    def _bytes(self, step: Step) -> int:
        a, _, out = self.matrices(step)
        found = a.size(True) if a.step(True) != 1 else 0
        return found + (out.size(True) * out.view.format.itemsize if out.step(True) != 1 else 0)

    def workspace(self, step: Step, limit: int | None) -> int:
        needed, size = self._packed(step), self._bytes(step)
        needed += size * at_a_time(size, None if limit is None else max(0, limit - needed))
        needed += -needed % _LINE
        depth = self.matrices(step)[0].size(True)
        room = min(_ROOM, 2 * _PIXELS * depth)
        room += -room % _LINE
        return needed + (room if limit is None or needed + room <= limit else 0)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        groups, count, by_columns, tables = self.tables(step, constants)
        a, b, out = self.matrices(step)
        into, factors = self.into()
        if factors is not None:
            placed = constants.weights(factors)
            into = into._replace(**{"shifts" if into.kind == TO_SHIFTED else "factors": placed})
        depth, columns = a.size(True), out.size(True)
        unsigned = self.layer.attributes["w" if self.turned else "x"].dtype == "uint8"
        moved = _MOVED if unsigned else 0
        zero = zero_of(self.layer, "w" if self.turned else "x") - moved
        one = ByteLayer(depth, columns, 1, 1, 1, 1, 1, 1, 1, 0, moved, zero, depth, into)
        pad = step.workspace
        made = ByteMultiplyStep(
            groups,
            count,
            depth,
            columns,
            columns if by_columns else depth,
            a.step(True),
            b.step(not by_columns),
            out.step(True),
            int(by_columns),
            at_a_time(self._bytes(step), max(0, pad.size - self._packed(step))),
            self.flip,
            self.zero,
            constants.table("csdf_byte_layer", [one]),
            *tables,
            Ref(pad.pool, pad.offset),
            pad.size,
        )
        return [instruction("multiply_bytes_of", made)]


def packed_bytes(depth: int, columns: int) -> int:
    """Workspace of a right operand of so many rows and columns as weights, with what is added to sums."""
    return (columns + -columns % PANEL) * (depth + -depth % packing.FOUR + _BESIDE)


def byte_multiplication(layer: Layer) -> Family | None:
    """QLinearMatMul and MatMulInteger of two activations, of which neither zero point is computed."""
    turned = is_turned(layer)
    if turned is None or zero_tensor(layer) is not None or 1 in layer.constants:
        return None
    first = layer.inputs[0]
    assert first is not None
    if first.shape[-1] > _DEEPEST:
        return None
    role = "x" if turned else "w"
    moved = _MOVED if layer.attributes[role].dtype == "uint8" else 0
    columns = layer.output.shape[-2 if turned else -1]
    into = once(lambda: _rescaling(layer, columns))
    return _ByteMultiplication(layer, turned, moved, zero_of(layer, role) - moved, into)


def _rescaling(layer: Layer, columns: int) -> tuple[Any, np.ndarray | None]:
    """What becomes of sums, and the one factor of all columns, or its multiplier and shift, in panels."""
    if "y" not in layer.attributes:
        return Rescaling(TO_INTEGERS), None
    into, factors = Rescaled.of(layer), np.broadcast_to(factor_of(layer), columns)
    bounds = into.zero, into.low, into.high
    if into.shifts:
        pairs = [packing.byte_panels(one) for one in multipliers(factors)]
        return Rescaling(TO_SHIFTED, *bounds), packing.aligned(np.stack(pairs, -1), "int32")
    return Rescaling(TO_BYTES, *bounds), packing.byte_panels(factors, 1, "float32")
